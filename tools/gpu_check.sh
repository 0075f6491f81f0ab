#!/bin/bash
# Checks Tenon on a machine with a GPU, within 8 minutes and without a network: the tests with the
# real libraries, compute-sanitizer on a part of them, and the benchmarks. The last thing printed is
# a short table.
#   tools/gpu_check.sh --pack   here: builds, and packs what the other machine lacks into
#                               .cache/gpu.tar.gz, at most 64 MiB
#   tools/gpu_check.sh          there: runs what was packed; builds first where nothing was
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

pack=.cache/gpu.tar.gz
programs=(tools/train_mnist tools/bench_ops tools/bench_train tools/bench_collectives
  tests/kernels_program tests/autograd_program tests/nn_program tests/optim_program
  tests/comm_program tests/ddp_program tests/cuda_program)
limit_mib=64

# Libraries of a program that a GPU machine may lack: neither the C library's nor CUDA's.
carried_libraries() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcu[^/]*|libnccl|libnv[^/]*)\.so'
}

if [[ ${1:-} == --pack ]]; then
  targets=()
  for program in "${programs[@]}"; do targets+=("//${program%/*}:${program#*/}"); done
  # Any x86-64 processor, and without oneDNN, which is larger than all the rest.
  bazel build --config=portable --repo_env=TENON_WITHOUT=onednn \
    "${targets[@]}" //tools:libtenon_cuda.so || exit 1
  bin=$(bazel info --config=portable --repo_env=TENON_WITHOUT=onednn bazel-bin 2>/dev/null)
  staged=$(mktemp -d)
  trap 'rm -rf "$staged"' EXIT
  mkdir -p "$staged/tools" "$staged/tests" "$staged/lib" "$(dirname "$pack")"
  for program in "${programs[@]}" tools/libtenon_cuda.so; do
    strip -o "$staged/$program" "$bin/$program" || exit 1
  done
  cp tools/torch_peer.py "$staged/tools/"
  carried_libraries "${programs[@]/#/$bin/}" | xargs -I{} cp -L {} "$staged/lib/"
  tar -C "$staged" -czf "$pack" . || exit 1
  size=$(du -m "$pack" | cut -f1)
  echo "gpu_check.sh: $pack has $size MiB"
  if ((size > limit_mib)); then
    echo "gpu_check.sh: that is more than the $limit_mib MiB it may have" >&2
    exit 1
  fi
  exit 0
elif (($#)); then
  echo "gpu_check.sh: unknown argument '$1'; the only one is --pack" >&2
  exit 2
fi

begin=$SECONDS
end=$((begin + 465)) # of 8 minutes, so that the table is printed in time
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -f $pack ]]; then
  bin=$work/bin
  mkdir "$bin" && tar -C "$bin" -xzf "$pack" || exit 1
else
  tools/build.sh //tools/... //tests/... || exit 1
  bin=$(bazel info bazel-bin 2>/dev/null)
fi
export TENON_PLUGIN_DIR=$bin/tools OMP_WAIT_POLICY=passive
if [[ -d $bin/lib ]]; then export LD_LIBRARY_PATH=$bin/lib:${LD_LIBRARY_PATH:-}; fi
for folder in /usr/local/cuda/lib64 /usr/local/cuda/compat; do
  if [[ -d $folder ]]; then export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder; fi
done

table=$work/table
: >"$table"
row() { printf '%-34s %-8s %s\n' "$1" "$2" "$3" >>"$table"; }

# Runs a command for at most $1 seconds and what is left of the whole; its output goes to $work/out.
run() {
  local seconds=$1
  shift
  local left=$((end - SECONDS))
  if ((left < 10)); then
    echo "no time left" >"$work/out"
    return 125
  fi
  timeout -k 5 "$((seconds < left ? seconds : left))" "$@" >"$work/out" 2>&1
}
verdict() { case $1 in 0) echo ok ;; 124) echo TIMEOUT ;; 125) echo skipped ;; *) echo FAILED ;; esac; }

# ---- tests
for name in kernels cuda autograd optim nn ddp comm; do
  TENON_TEST_DEVICE=cuda run 100 "$bin/tests/${name}_program" --use-colour no
  status=$?
  if ((status != 0 && status != 125)); then tail -n 40 "$work/out"; fi
  row "tests: $name" "$(verdict $status)" "$(tail -n 3 "$work/out" | tr -s '\n' ' ' | cut -c1-90)"
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [[ -n $sanitizer ]]; then
  for tool in memcheck racecheck; do
    TENON_TEST_DEVICE=cuda run 45 "$sanitizer" --tool "$tool" --error-exitcode 9 \
      "$bin/tests/kernels_program" --use-colour no "softmax*,dropout*,embedding*,max_pool2d*"
    status=$?
    ((status == 0 || status == 125)) || tail -n 30 "$work/out"
    row "compute-sanitizer $tool" "$(verdict $status)" "$(grep -c 'ERROR SUMMARY: 0' "$work/out") clean"
  done
else
  row "compute-sanitizer" skipped "not installed"
fi

# ---- benchmarks
for dtype in f32 bf16; do
  run 60 "$bin/tools/bench_ops" --device cuda --dtype "$dtype" --size 64000000 --max-seconds 0.05
  status=$?
  cat "$work/out"
  row "bench_ops $dtype" "$(verdict $status)" "$(grep '^# ceilings' "$work/out" | cut -c3-80)"
done
torch=()
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then torch=(--torch python3); fi
for model in mlp cnn; do
  run 60 "$bin/tools/bench_train" --device cuda --model "$model" --steps 200 "${torch[@]}"
  status=$?
  cat "$work/out"
  row "bench_train $model" "$(verdict $status)" "$(tail -n 1 "$work/out" | tr -s ' ' | cut -c1-90)"
done
devices=$(nvidia-smi -L 2>/dev/null | wc -l)
if command -v mpirun >/dev/null; then
  run 60 mpirun --allow-run-as-root --oversubscribe -np "$((devices > 1 ? devices : 2))" \
    "$bin/tools/bench_collectives" --backend nccl -b 1M -e 64M -f 8
  status=$?
  cat "$work/out"
  row "bench_collectives, $devices GPU" "$(verdict $status)" "$(grep -m1 '# wrong' "$work/out")"
else
  row "bench_collectives" skipped "no mpirun"
fi

echo
echo "gpu_check.sh: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null |
  head -n 1), $((SECONDS - begin)) s"
cat "$table"
! grep -qE ' (FAILED|TIMEOUT) ' "$table"
