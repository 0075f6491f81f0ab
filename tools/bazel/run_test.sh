#!/bin/bash
# Runs one Catch2 program, alone or under mpirun, and merges what its ranks report into the lines
# that tools/test.sh counts. Usage: run_test.sh RANKS PROGRAM [ARGUMENT…]
set -uo pipefail
ranks=$1 program=$2
shift 2

work=$(mktemp -d /tmp/tenon_test.XXXXXX)
trap 'rm -rf "$work"' EXIT
export TENON_TEST_REPORT=$work/report # each rank appends its number
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1"

command=("$program" --use-colour no "$@")
if ((ranks > 0)); then
  # Open MPI leaks and unloads the modules that did, so no list could name them; the same code runs
  # with ranks as threads, where leaks are looked for.
  export ASAN_OPTIONS=detect_leaks=0
  # Its sockets have paths of at most 108 bytes, and Bazel's own temporary folder is deep.
  export TMPDIR=$work HOME=${HOME:-/tmp}
  export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
  export OMPI_MCA_mpi_show_mca_params="" OMPI_MCA_orte_abort_print_stack=0
  command=(mpirun --allow-run-as-root --oversubscribe --bind-to none --tag-output
    -np "$ranks" "${command[@]}")
fi
# ThreadSanitizer of g++ 12 cannot place its shadow where addresses are randomised too widely.
if setarch "$(uname -m)" -R true 2>/dev/null; then
  command=(setarch "$(uname -m)" -R "${command[@]}")
fi

# Bazel ends a test that takes too long with SIGTERM; what it did so far is still worth a report.
trap 'echo "tenon: stopped, the time allowed for this test is over"' TERM
"${command[@]}"
status=$?

# A case counts once, with the worst of its ranks; one that began and did not end has crashed.
cat "$work"/report.* 2>/dev/null | awk -F '\t' -v status="$status" '
  function worse(a, b) { return rank[a] >= rank[b] ? a : b }
  BEGIN { rank["passed"] = 1; rank["skipped"] = 2; rank["failed"] = 3 }
  $1 == "begin" { open[$2]++; if (!($2 in result)) result[$2] = "passed"; next }
  { open[$2]--; result[$2] = worse($1, result[$2]); if ($1 == "skipped") reason[$2] = $3 }
  END {
    for (name in result) {
      if (open[name] > 0) result[name] = "failed"
      count[result[name]]++
      if (result[name] == "failed") print "TENON_TEST_FAILED\t" name
      if (result[name] == "skipped") print "TENON_TEST_SKIPPED\t" name "\t" reason[name]
    }
    if (status != 0 && count["failed"] == 0) {
      count["failed"] = 1
      print "TENON_TEST_FAILED\t(outside of any test case, exit status " status ")"
    }
    printf "TENON_TEST_SUMMARY\t%d\t%d\t%d\n", count["passed"], count["failed"], count["skipped"]
    exit (count["failed"] > 0)
  }'
