#!/bin/bash
# Checks form: clang-format, file length, who may include whom, shell scripts where shellcheck is
# installed. --fix formats in place; --tidy [FILE…] runs clang-tidy on the files (default: all).
set -euo pipefail
cd "$(dirname "$0")/.."

tidy=0 fix=0
while (($#)); do
  case $1 in
    --tidy) tidy=1 ;;
    --fix) fix=1 ;;
    -*)
      echo "lint.sh: unknown flag '$1'; there are --fix and --tidy [FILE…]" >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift
done

failed=0
complain() {
  echo "lint: $*" >&2
  failed=1
}

# Files of the work tree that git tracks or would add.
list() { git ls-files --cached --others --exclude-standard --deduplicate -- "$@" | while read -r file; do
  if [[ -f $file ]]; then echo "$file"; fi
done; }
mapfile -t sources < <(list '*.h' '*.cc' '*.cu')
mapfile -t scripts < <(list '*.sh' .ci/run)
mapfile -t texts < <(list '*.h' '*.cc' '*.cu' '*.sh' '*.bzl' '*.md' '*BUILD' WORKSPACE .ci/run)

if ((fix)); then
  clang-format -i "${sources[@]}"
elif ! clang-format --dry-run -Werror --ferror-limit=3 "${sources[@]}"; then
  complain "clang-format: 'tools/lint.sh --fix' formats these files"
fi

for file in "${texts[@]}"; do
  lines=$(wc -l <"$file")
  if ((lines > 500)); then complain "$file: $lines lines, split it (500 at most, 100-300 wanted)"; fi
done

tools/check_includes.sh "${sources[@]}" || failed=1

if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}" || complain "shellcheck: see above"
fi

if ((tidy)); then
  if ! command -v clang-tidy >/dev/null; then
    echo "lint.sh: clang-tidy is missing; tools/setup.sh --tidy installs it" >&2
    exit 1
  fi
  tools/compile_commands.sh
  files=("$@")
  ((${#files[@]})) || mapfile -t files < <(list '*.cc')
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
    clang-tidy --quiet -p . --extra-arg=-Wno-unknown-warning-option || complain "clang-tidy: see above"
fi

((failed == 0)) && echo "lint: ${#texts[@]} files are fine"
