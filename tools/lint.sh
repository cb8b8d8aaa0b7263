#!/bin/sh
# make lint: what a compiler does not check. CC, then the preprocessor flags.
#   layers (who may include whom), one includer of hdf5.h and of dnnl.h, printing and exiting only in tools/ and
#   tests/, malloc only in arena.c and base.c, banned functions, function and file length, trailing blanks,
#   every header alone as C and as C++, clang-format, clang-tidy.
cc=$1 flags=$2
bad=0
complain() {
    [ -z "$2" ] && return
    bad=1
    printf '%s\n%s\n\n' "$1" "$2" | head -n 40
}
sources=$(git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.cu' '*.cuh' | grep -vE '^tests/(ref|fake)/')

# Layers: folder, and what it may include from this tree.
layer() {
    complain "$1/ may include only: $2" "$(grep -nE '#include "(kernels|weights|datasets|vit|swin|tools|tests)/' $(printf '%s\n' $sources | grep "^$1/") 2>/dev/null |
        grep -vE "#include \"($2)|^kernels/cuda\.cuh:[0-9]*:#include \"tests/simt\.h")"
}
layer kernels 'kernels/'
layer weights 'weights/|kernels/base\.h'
layer datasets 'datasets/|kernels/base\.h|weights/h5\.h'
complain "in datasets/ only dataset_hdf5.c opens the door to HDF5" \
    "$(grep -l '#include "weights/' $(printf '%s\n' $sources | grep '^datasets/') | grep -v '^datasets/dataset_hdf5\.c$')"
layer vit 'vit/|weights/|kernels/'
layer swin 'swin/|weights/|kernels/'
layer tools 'tools/|vit/|swin/|datasets/|weights/|kernels/'
complain "backend.h, cpu.h, simd.h are private to kernels/ and tests/" \
    "$(grep -nE '#include "kernels/(backend|cpu|simd|simd_kernels|onednn)\.h"' $(printf '%s\n' $sources | grep -E '^(weights|datasets|vit|swin)/') 2>/dev/null)"
for header in hdf5.h dnnl.h cJSON.h openssl stb_image.h; do
    users=$(grep -lE "#include [<\"].*$header" $(printf '%s\n' $sources | grep -vE '^tests/'))
    case $header in cJSON.h | openssl) continue ;; esac
    [ "$(printf '%s\n' "$users" | grep -c .)" -le 1 ] || complain "only one file may include $header" "$users"
done

library=$(printf '%s\n' $sources | grep -vE '^(tools|tests)/')
complain "printing and exiting belong to tools/ and tests/" \
    "$(grep -nE '\b(printf|puts|putchar|fprintf|perror|exit|abort|assert)\(' $library | grep -vE 'snprintf|stbi_|STBI_')"
complain "malloc and free only in kernels/arena.c and kernels/base.c (use mem_*, arenas)" \
    "$(grep -nE '\b(malloc|calloc|realloc|free|strdup|aligned_alloc)\(' $(printf '%s\n' $sources | grep -vE '^(tests/|kernels/(arena|base)\.c)'))"
complain "banned functions" \
    "$(grep -nE '\b(atoi|atof|strtol|strtoul|strtod|strtoull|sscanf|sprintf|vsprintf|strcat|strtok|strcpy|gets|alloca)\(' $(printf '%s\n' $sources | grep -v '^kernels/base\.c'))"
complain "no TODO, FIXME, XXX" "$(grep -nE '\b(TODO|FIXME|XXX)\b' $sources)"
complain "struct typedefs" "$(grep -nE '^typedef (struct|union|enum) [a-z_]* *\{' $sources)"
complain "blanks at the end of a line, or tabs" "$(grep -nE '[[:blank:]]$|	' $sources)"
complain "lines over 100 columns" "$(awk 'length($0) > 100 {print FILENAME ":" FNR ": " length($0)}' $(printf '%s\n' $sources | grep -v imagenet_1k))"
complain "files over 600 lines" "$(wc -l $(printf '%s\n' $sources | grep -v imagenet_1k) | awk '$2 != "total" && $1 > 600')"

# Functions: a line that starts a body at column 0 up to the closing brace at column 0. A forward may have 80 lines.
# A body opens where a line ends in "{" after a declaration that began at column 0, and closes at "}" in column 0.
complain "functions over 60 lines (80 for a forward)" "$(awk '
    FNR == 1 { start = 0 }
    /^[a-zA-Z_]/ { head = $0 }
    /\) \{$/ && !start { start = FNR; name = head }
    /^}/ { limit = name ~ /_forward\(/ ? 80 : 60
           if (start && FNR - start + 1 > limit) print FILENAME ":" start ": " FNR - start + 1 " lines: " name
           start = 0 }
    ' $(printf '%s\n' $sources | grep -vE '\.h$'))"

for header in $(printf '%s\n' $sources | grep '\.h$'); do
    extra=
    case $header in kernels/simd*.h) extra=-DSIMD_LEVEL=base ;; esac
    $cc -std=c11 $flags $extra -Wall -Wextra -Werror -fsyntax-only -x c $header 2>/dev/null || complain "does not compile alone as C" $header
    case $header in
    kernels/simd*.h | tests/*) ;;
    kernels/*) if command -v c++ >/dev/null; then
        c++ -std=c++17 $flags -Wall -Wextra -Werror -fsyntax-only -x c++ $header 2>/dev/null || complain "does not compile alone as C++" $header
    fi ;;
    esac
done

if command -v clang-format >/dev/null 2>&1; then
    complain "clang-format would change ('make format')" "$(clang-format --dry-run -Werror $sources 2>&1 | sed -n 's/: error: code should be clang-formatted.*//p' | head -n 20)"
else
    echo "lint: no clang-format here, formatting not checked"
fi
if command -v clang-tidy >/dev/null 2>&1; then
    without='^tests/'
    pkg-config --exists ompi-c 2>/dev/null || without='^tests/|^tools/ranks_mpi\.c$'
    tidy=$(printf '%s\n' $sources | grep -E '\.c$' | grep -vE "$without" |
        xargs -P "$(nproc)" -n 4 sh -c 'clang-tidy --quiet "$@" -- -std=c11 -DSIMD_LEVEL=base '"$(printf '%s' "$flags" | sed "s/'/'\\\\''/g")"' 2>/dev/null' sh)
    complain "clang-tidy" "$(printf '%s\n' "$tidy" | grep -E '(error|warning):')"
else
    echo "lint: no clang-tidy here, not run"
fi
if [ $bad = 0 ]; then echo "lint: clean"; else exit 1; fi
