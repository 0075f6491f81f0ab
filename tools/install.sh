#!/bin/bash
# Installs Tenon for programs outside this tree: headers, libtenon.so and tenon.pc for pkg-config.
# Usage: tools/install.sh --prefix DIR [--built DIR]
#   --built DIR   do not build: DIR holds tools/libtenon.so and tenon.h (default: bazel-bin)
#
# A program is then built with
#   PKG_CONFIG_PATH=DIR/lib/pkgconfig g++ -std=c++20 -O2 program.cc $(pkg-config --cflags --libs tenon)
set -euo pipefail
cd "$(dirname "$0")/.."

prefix="" built=""
while (($#)); do
  case $1 in
    -h | --help)
      sed -n '2,7s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    --prefix | --built)
      declare "${1#--}=${2:?install.sh: $1 needs a folder}"
      shift
      ;;
    --prefix=* | --built=*)
      name=${1%%=*}
      declare "${name#--}=${1#*=}"
      ;;
    *)
      echo "install.sh: unknown argument '$1'; there are --prefix DIR and --built DIR" >&2
      exit 2
      ;;
  esac
  shift
done
if [[ -z $prefix ]]; then
  echo "install.sh: --prefix DIR is needed" >&2
  exit 2
fi
if [[ -z $built ]]; then
  tools/setup.sh
  tools/build.sh //:umbrella_header //tools:libtenon.so
  built=bazel-bin
fi

mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
include=$prefix/include/tenon
rm -rf "$include"
# tenon.h names every public header.
while read -r header; do
  install -D -m 644 "$header" "$include/$header"
done < <(sed -nE 's|^#include "tenon/(.*)"$|\1|p' "$built/tenon.h")
install -m 644 "$built/tenon.h" "$include/tenon.h"
printf '#pragma once\n#include "tenon/tenon.h"\n' >"$prefix/include/tenon.h"
# Over a library in use, install makes a new file.
install -D -m 755 "$built/tools/libtenon.so" "$prefix/lib/libtenon.so"

mkdir -p "$prefix/lib/pkgconfig"
# The kernels' headers hold inlined loops of the OpenMP team that the library uses.
cat >"$prefix/lib/pkgconfig/tenon.pc" <<PC
prefix=$prefix
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: tenon
Description: Deep-learning training framework
Version: 0.1
Cflags: -std=c++20 -fopenmp -I\${includedir}
Libs: -L\${libdir} -ltenon -fopenmp -pthread -Wl,-rpath,\${libdir}
PC
echo "installed in $prefix"
