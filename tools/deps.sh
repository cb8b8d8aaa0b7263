#!/bin/sh
# Installs the packages that building needs; --test and --lint: what those need as well (the C++ compiler runs CUDA
# kernels in the tests' simulator); --mpi: Open MPI. --missing: only looks, and installs only if something is missing.
set -eu
missing=
packages="gcc libc6-dev pkg-config libhdf5-dev zlib1g-dev libcjson-dev libssl-dev libdnnl-dev libjpeg62-turbo-dev libstb-dev
          libwebp-dev libtiff-dev libheif-dev libarchive-dev libcurl4-openssl-dev"
for option in "$@"; do
    case $option in
    --missing) missing=1 ;;
    --test) packages="$packages libcmocka-dev g++" ;;
    --mpi) packages="$packages libopenmpi-dev openmpi-bin" ;;
    --lint) packages="$packages libcmocka-dev g++ clang-format clang-tidy git" ;;
    esac
done
if ! command -v apt-get >/dev/null 2>&1; then
    [ -n "$missing" ] && exit 0
    echo "no apt-get here; please install the equivalents of:" $packages >&2
    exit 1
fi
wanted=
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || wanted="$wanted $package"
done
[ -n "$wanted" ] || exit 0
root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "missing packages (no root, no sudo to install them):$wanted" >&2
        exit 0
    fi
    root=sudo
fi
echo "installing:$wanted" >&2
$root apt-get update -qq >&2
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $wanted >&2
