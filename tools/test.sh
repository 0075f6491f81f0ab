#!/bin/bash
# Builds and runs the tests, from a clean clone too. The last line counts Catch2 test cases (a case
# that runs with several rank counts counts once for each): N passed, N failed, N skipped.
# Usage: tools/test.sh [--config=asan|tsan|ubsan|portable] [other Bazel flags or test targets]
set -euo pipefail
cd "$(dirname "$0")/.."

flags=() targets=()
while (($#)); do
  case $1 in
    -h | --help)
      sed -n '2,4s/^# //p' "$0"
      exit 0
      ;;
    --config)
      flags+=("--config=${2:?test.sh: --config needs a name}")
      shift
      ;;
    -*) flags+=("$1") ;;
    *) targets+=("$1") ;;
  esac
  shift
done
((${#targets[@]})) || targets=(//...)

tools/setup.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
bazel test --keep_going --build_event_json_file="$work/events" "${flags[@]}" -- "${targets[@]}" 2>&1 |
  { grep -v '^There were tests whose specified size is too big' || true; } || status=$?

# Prints "TARGET STATUS LOG" for each test that ran, now or in a run that Bazel remembers.
results() {
  sed -nE 's|^\{"id":\{"testResult":\{"label":"([^"]+)".*"uri":"file://([^"]*test\.log)".*"status":"([A-Z_]+)".*|\1 \3 \2|p' \
    "$work/events"
}

passed=0 failed=0 skipped=0
while read -r target result log; do
  if summary=$(grep -a '^TENON_TEST_SUMMARY' "$log"); then
    read -r _ p f s <<<"$summary"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    sed -nE "s|^TENON_TEST_FAILED\t(.*)|FAILED  $target: \1|p
             s|^TENON_TEST_SKIPPED\t([^\t]*)\t(.*)|SKIPPED $target: \1: \2|p" "$log"
  elif [[ $result == PASSED ]]; then # not a Catch2 program: one case
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED  $target: $result"
  fi
done < <(results | sort) >"$work/named"
# The loop runs here, not in a pipe, so that the sums outlive it.
sort "$work/named"

# Bazel never empties its disk cache.
find ~/.cache/tenon/build -type f -atime +14 -delete 2>/dev/null || true

# Bazel: 0 all passed, 3 some test failed, 4 no test to run; everything else keeps tests from running.
case $status in
  0 | 3 | 4) ;;
  *)
    failed=$((failed + 1))
    echo "FAILED  the build (Bazel's exit status $status, its messages are above)"
    ;;
esac
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
