#!/bin/bash
# Builds everything; the programs are then bazel-bin/tools/NAME.
# Usage: tools/build.sh [--config=portable|asan|tsan|ubsan] [other Bazel flags or targets]
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v bazel >/dev/null; then
  echo "build.sh: Bazel is missing; tools/setup.sh installs it and the libraries" >&2
  exit 1
fi

flags=() targets=()
while (($#)); do
  case $1 in
    -h | --help)
      sed -n '2,3s/^# //p' "$0"
      exit 0
      ;;
    --config)
      flags+=("--config=${2:?build.sh: --config needs a name}")
      shift
      ;;
    -*) flags+=("$1") ;;
    *) targets+=("$1") ;;
  esac
  shift
done
((${#targets[@]})) || targets=(//...)

if ! bazel build "${flags[@]}" -- "${targets[@]}"; then
  echo "build.sh: the build failed; if a library is missing, run tools/setup.sh" >&2
  exit 1
fi
