#!/bin/sh
# make demo: classifies real photos, scores a model over a real data set, writes its report, draws where the model looks.
# BINARY [IMAGE...]; without images, photos out of Debian's package python3-skimage; the data set out of
# dataset-fashion-mnist; both unpacked (not installed) into build/demo.
set -eu
binary=$1
shift
photos=build/demo/photos
fashion=build/demo/fashion-mnist

# fetch PACKAGE FOLDER NAME...: the files of these names into the folder; the last one must be there then.
fetch() {
    package=$1 folder=$2
    shift 2
    rm -rf build/demo/package
    mkdir -p build/demo/package "$folder"
    echo "fetching files out of Debian's package $package" >&2
    (cd build/demo/package && apt-get download -qq "$package" >&2) || return 1
    dpkg-deb -x build/demo/package/"$package"_*.deb build/demo/package || return 1
    for name in "$@"; do
        find build/demo/package -name "$name" -exec cp {} "$folder"/ \;
    done
    rm -rf build/demo/package
    [ -f "$folder/$name" ]
}

# A machine whose package lists are old or gone.
refresh() {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq >&2; else sudo apt-get update -qq >&2; fi
}

# The same, unless it is there; once more with fresh package lists.
need() {
    for last in "$@"; do :; done
    [ -f "$2/$last" ] || fetch "$@" || { refresh && fetch "$@"; }
}

if [ $# = 0 ]; then
    if ! need python3-skimage $photos astronaut.png coffee.png motorcycle_left.png rocket.jpg chelsea.png; then
        echo "no photos could be fetched; try: make demo DEMO_IMAGES=\"your.jpg photos/\"" >&2
        exit 1
    fi
    set -- $photos
fi
echo "\$ $binary classify --topk 3 $*" >&2
"$binary" classify --topk 3 "$@"
if ! need dataset-fashion-mnist $fashion t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz; then
    echo "the data set could not be fetched" >&2
    exit 1
fi
report=build/demo/fashion-mnist.html
echo "\$ $binary evaluate -m vit-fashion --report $report $fashion" >&2
"$binary" evaluate -m vit-fashion --report $report $fashion
echo "the report, for a browser: file://$PWD/$report" >&2
maps=build/demo/maps
echo "\$ $binary attention --colorbar --save overlay,html -o $maps $*" >&2
"$binary" attention --colorbar --save overlay,html -o $maps "$@"
echo "where the model looked is drawn on the photos in $maps; a page to look closer: file://$PWD/$maps/index.html" >&2
