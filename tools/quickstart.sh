#!/bin/bash
# Installs what is missing, builds, and trains the CNN on Fashion-MNIST with two processes. The last
# line is the test accuracy.
# Usage: tools/quickstart.sh [--ranks N] [--epochs N] [other flags of train_mnist]
set -euo pipefail
cd "$(dirname "$0")/.."

ranks=2 flags=()
while (($#)); do
  case $1 in
    -h | --help)
      sed -n '2,4s/^# //p' "$0"
      exit 0
      ;;
    --ranks)
      ranks=${2:?quickstart.sh: --ranks needs a number}
      shift
      ;;
    --ranks=*) ranks=${1#*=} ;;
    *) flags+=("$1") ;;
  esac
  shift
done
if [[ ! $ranks =~ ^[1-9][0-9]*$ ]]; then
  echo "quickstart.sh: --ranks: given '$ranks', wanted a number of at least 1" >&2
  exit 2
fi

tools/setup.sh
tools/build.sh //tools:train_mnist

# Binding would put all threads of a rank on one core; single copy is slower here.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
mpi=(mpirun --oversubscribe --bind-to none -np "$ranks")
((EUID != 0)) || mpi+=(--allow-run-as-root)
if ((ranks > $(nproc))); then export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}; fi
exec "${mpi[@]}" bazel-bin/tools/train_mnist "${flags[@]}"
