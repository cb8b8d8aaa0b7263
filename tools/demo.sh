#!/bin/sh
# make demo: classifies real photos. BINARY [IMAGE...]; without images, photos out of Debian's package
# python3-skimage, unpacked (not installed) into build/demo/photos.
set -eu
binary=$1
shift
photos=build/demo/photos

fetch() {
    rm -rf build/demo/package
    mkdir -p build/demo/package $photos
    echo "fetching photos out of Debian's package python3-skimage" >&2
    (cd build/demo/package && apt-get download -qq python3-skimage >&2) || return 1
    dpkg-deb --fsys-tarfile build/demo/package/python3-skimage_*.deb |
        tar -x -C build/demo/package --wildcards '*/skimage/data/*.png' '*/skimage/data/*.jpg' || return 1
    for name in astronaut.png coffee.png motorcycle_left.png rocket.jpg chelsea.png; do
        find build/demo/package -name "$name" -exec cp {} $photos/ \;
    done
    rm -rf build/demo/package
    [ -f $photos/chelsea.png ]
}

# A machine whose package lists are old or gone.
refresh() {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq >&2; else sudo apt-get update -qq >&2; fi
}

if [ $# = 0 ]; then
    if [ ! -f $photos/chelsea.png ] && ! fetch && ! { refresh && fetch; }; then
        echo "no photos could be fetched; try: make demo DEMO_IMAGES=\"your.jpg photos/\"" >&2
        exit 1
    fi
    set -- $photos
fi
echo "\$ $binary classify --topk 3 $*" >&2
"$binary" classify --topk 3 "$@"
