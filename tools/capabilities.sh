#!/bin/sh
# Prints a line per library: found, or how to get it. Arguments: NAME=0|1=PACKAGE=PURPOSE. Fails when a required one is missing.
missing=0
for row in "$@"; do
    name=${row%%=*}; rest=${row#*=}
    have=${rest%%=*}; rest=${rest#*=}
    package=${rest%%=*}; purpose=${rest#*=}
    if [ "$have" = 1 ]; then
        printf '  ✓ %-14s %s\n' "$name" "$purpose"
    else
        printf '  ✗ %-14s %s: apt-get install %s\n' "$name" "$purpose" "$package"
        case $purpose in required*) missing=1 ;; esac
    fi
done >&2
if [ $missing = 1 ]; then
    echo "a required library is missing; 'make deps' installs everything" >&2
    exit 1
fi
