#!/bin/sh
# make cubins: compiles kernels/*.cu for every architecture and prints each kernel's registers (with
# static shared memory and spilled bytes where there are any), as ptxas reports them; no GPU is needed.
# Fails where a kernel does not compile, or spills on sm_80 or later. NVCC, then a folder for the cubins.
# ARCHS="80 90" and FILES="kernels/attention_cuda.cu" narrow it.
nvcc=$1 out=$2
archs=${ARCHS:-75 80 86 89 90 100 120}
if [ -z "$nvcc" ] || ! command -v "$nvcc" >/dev/null 2>&1; then
    echo "skip: no nvcc here (NVCC=... names one), cubins are not built"
    exit 0
fi
mkdir -p "$out"
: >"$out/usage.txt"
for file in ${FILES:-kernels/*.cu}; do
    grep -q '__global__' "$file" || continue
    for arch in $archs; do
        name=$(basename "$file" .cu).sm_$arch
        if ! "$nvcc" -std=c++17 -O3 -arch="sm_$arch" -I. -Xptxas -v -cubin "$file" -o "$out/$name.cubin" 2>"$out/$name.log"; then
            cat "$out/$name.log"
            echo "$file does not compile for sm_$arch"
            exit 1
        fi
        # A kernel's three lines of the log to one: arch, kernel, registers, static shared bytes, spilled bytes.
        awk -v arch="$arch" '
            /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; spilled = 0 }
            /bytes spill stores/ { for (i = 1; i < NF; i++) if ($(i + 2) == "spill") spilled += $i }
            /Used [0-9]+ registers/ {
                shared = 0
                for (i = 1; i < NF; i++) {
                    if ($i == "Used") registers = $(i + 1)
                    if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
                }
                print arch, kernel, registers, shared, spilled
            }' "$out/$name.log" >>"$out/usage.txt"
    done
done
demangle() {
    if command -v c++filt >/dev/null 2>&1; then c++filt; else cat; fi
}
demangle <"$out/usage.txt" | sed -e 's/(anonymous namespace):://g' -e 's/__half/fp16/g' -e 's/__nv_bfloat16/bf16/g' -e 's/ void / /' |
    awk -v archs="$archs" '
    {
        arch = $1; registers = $(NF - 2); shared = $(NF - 1); spilled = $NF
        kernel = $0
        sub(/^[0-9]+ /, "", kernel)
        sub(/ [0-9]+ [0-9]+ [0-9]+$/, "", kernel)
        sub(/\(.*/, "", kernel)
        if (!(kernel in seen)) { seen[kernel] = 1; order[++count] = kernel }
        cell[kernel, arch] = registers (shared > 0 ? "/" shared : "") (spilled > 0 ? "!" spilled : "")
        if (spilled > 0 && arch >= 80) bad = bad sprintf("%s spills %d bytes on sm_%s\n", kernel, spilled, arch)
    }
    END {
        n = split(archs, list, " ")
        printf "%-40s", "registers/static shared bytes!spilled"
        for (i = 1; i <= n; i++) printf " %10s", "sm_" list[i]
        printf "\n"
        for (k = 1; k <= count; k++) {
            printf "%-40s", order[k]
            for (i = 1; i <= n; i++) printf " %10s", cell[order[k], list[i]]
            printf "\n"
        }
        printf "%s", bad
        if (count == 0) print "no kernels"
        exit bad != "" || count == 0
    }'
