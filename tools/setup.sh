#!/bin/bash
# Installs the Debian packages that Tenon is built from, those that are missing; quick when none is.
# Usage: tools/setup.sh [--tidy]    (--tidy: clang-tidy too, for tools/lint.sh --tidy)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  bazel-bootstrap g++ git
  libopenmpi-dev openmpi-bin # ranks
  libeigen3-dev libdnnl-dev  # CPU kernels
  zlib1g-dev nlohmann-json3-dev libcli11-dev
  catch2 clang-format   # tests and lint
  dataset-fashion-mnist # the images of the first example
)
case ${1:-} in
  "") ;;
  --tidy) packages+=(clang-tidy) ;;
  *)
    echo "setup.sh: unknown argument '$1'; the only one is --tidy" >&2
    exit 2
    ;;
esac

if ! command -v apt-get dpkg-query >/dev/null; then
  echo "setup.sh: needs apt-get (Debian 12). Elsewhere install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

missing=()
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: run as root, or install sudo. Missing packages: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "setup.sh: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
  >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "setup.sh: apt-get failed (its last lines are above)" >&2
  exit 1
fi
# A running server would go on without the libraries that it did not find when it started.
bazel shutdown >/dev/null 2>&1 || true
echo "setup.sh: done" >&2
