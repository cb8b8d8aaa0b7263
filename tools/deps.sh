#!/bin/sh
# Installs the packages that building and testing need. --missing: only looks, and installs only if something is missing.
set -eu
packages="gcc libc6-dev pkg-config libhdf5-dev zlib1g-dev libcjson-dev libssl-dev libdnnl-dev libjpeg62-turbo-dev libstb-dev
          libwebp-dev libtiff-dev libheif-dev libcmocka-dev"
[ "${1:-}" = --lint ] && packages="$packages g++ clang-format clang-tidy git"
if ! command -v apt-get >/dev/null 2>&1; then
    [ "${1:-}" = --missing ] && exit 0
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
