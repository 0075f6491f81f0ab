#!/bin/bash
# The dependency rule: which folder may include which headers. Bazel's visibility keeps the rule
# between direct dependencies; this also sees what comes in through a dependency's dependency.
# Usage: tools/check_includes.sh FILE…
set -euo pipefail

# Each line: files (regular expression) and what they may include of ours. The first match counts.
# shellcheck disable=SC2016
exec awk '
  BEGIN {
    rule("^tests/", ".*")
    rule("^tools/", ".*")
    rule("^core/", "^core/")
    # Where kernels meet either the compiler for the GPU or the emulator.
    rule("^kernels/cuda/(simt|mma|async_copy)[.]h$", "^(core/|kernels/|tests/simt/device[a-z_]*[.]h$)")
    rule("^kernels/(cpu|cuda)/", "^(core|kernels)/")
    rule("^kernels/", "^(core/|kernels/[^/]*$)")
    rule("^autograd/", "^(core|kernels|autograd)/")
    rule("^nn/", "^(core|autograd|nn)/")
    rule("^optim/", "^(core/|kernels/|optim/|autograd/(grad_mode|engine)[.]h$)")
    rule("^distributed/comm/", "^(core/|distributed/comm/|kernels/[a-z_]*(reduce|cast|copy)[a-z_]*[.]h$)")
    rule("^distributed/", "^(core|kernels|autograd|nn|distributed)/")

    # Headers of other libraries: where they may be included. None of these are public headers.
    library("mpi[.]h", "MPI", "^(distributed/comm/(mpi_[a-z_]*[.](cc|h)|(world|shared_window)[.]cc)|tools/mpi_peer[.]cc|tests/)")
    library("nccl[.]h", "NCCL", "^(distributed/comm/nccl_[a-z_]*[.](h|cc)$|tools/|tests/)")
    library("Eigen/|unsupported/Eigen/", "Eigen", "^(kernels/cpu/|tests/)")
    library("oneapi/|dnnl", "oneDNN", "^(kernels/cpu/|tests/)")
    library("cuda|cublas|cudnn", "CUDA",
            "^(core/cuda/|kernels/cuda/|distributed/comm/nccl_[a-z_]*[.]cc|tests/)")
    library("catch2/", "Catch2", "^tests/")
    library("CLI/", "CLI11", "^(tools|tests)/")
  }
  function rule(files, allowed) { files_of[++rules] = files; allowed_of[rules] = allowed }
  function library(header, name, files) {
    header_of[++libraries] = "^(" header ")"; name_of[libraries] = name; place_of[libraries] = files
  }
  function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text > "/dev/stderr"
    failed = 1
  }
  !/^[ \t]*#[ \t]*include[ \t]*[<"]/ { next }
  {
    path = $0
    sub(/^[^<"]*[<"]/, "", path); sub(/[>"].*$/, "", path)
    if (path ~ /^tenon\//) {
      sub(/^tenon\//, "", path)
      for (i = 1; i <= rules; i++) {
        if (FILENAME !~ files_of[i]) continue
        if (path !~ allowed_of[i]) complain("tenon/" path " must not be included here")
        break
      }
      next
    }
    if ($0 ~ /include[ \t]*"/) complain("\"" path "\": write our headers as \"tenon/FOLDER/NAME.h\", others in <>")
    for (i = 1; i <= libraries; i++)
      if (path ~ header_of[i] && FILENAME !~ place_of[i])
        complain("<" path ">: " name_of[i] " must not be included here")
  }
  END { exit failed }' "$@"
