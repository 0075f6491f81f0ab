#!/bin/bash
# No kernel may keep registers in memory: reads what ptxas reported of each. Usage: spills_test.sh
# REPORT…
set -euo pipefail

kernels=$(cat "$@" | grep -c 'Compiling entry function')
spilling=$(grep -HB1 -E '[1-9][0-9]* bytes (stack frame|spill)' "$@" || true)
if [[ -n $spilling ]]; then
  echo "$spilling"
  exit 1
fi
echo "$kernels kernels without spills or stack frames"
((kernels > 0))
