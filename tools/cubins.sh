#!/bin/sh
# cubins.sh BUILD/vitrine: each CUDA kernel's registers, with static shared memory and spilled bytes where there are any,
# and the warps that an SM's 65536 registers hold, on the last architecture. As ptxas told them when
# BUILD/libvitrine_cuda.so was built (make cuda, BUILD/kernels/*.cuda.log); no GPU is needed.
# Fails where a kernel spills on sm_80 or later.
build=$(dirname "$1")
if [ ! -f "$build/libvitrine_cuda.so" ]; then
    echo "skip: the CUDA backend is not built here (it needs nvcc)"
    exit 0
fi
usage=$(mktemp) || exit 1
trap 'rm -f "$usage"' EXIT
# A kernel's three lines of the log to one: arch, kernel, registers, static shared bytes, spilled bytes.
awk '
    /Compiling entry function/ {
        split($0, part, "\047"); kernel = part[2]; arch = part[4]; spilled = 0
        sub(/^sm_/, "", arch)
    }
    /bytes spill stores/ { for (i = 1; i < NF; i++) if ($(i + 2) == "spill") spilled += $i }
    /Used [0-9]+ registers/ {
        shared = 0
        for (i = 1; i < NF; i++) {
            if ($i == "Used") registers = $(i + 1)
            if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
        }
        print arch, kernel, registers, shared, spilled
    }' "$build"/kernels/*.cuda.log >"$usage"
archs=$(cut -d ' ' -f 1 "$usage" | sort -nu | paste -sd ' ' -)
demangle() {
    if command -v c++filt >/dev/null 2>&1; then c++filt; else cat; fi
}
demangle <"$usage" | sed -e 's/(anonymous namespace):://g' -e 's/__half/fp16/g' -e 's/__nv_bfloat16/bf16/g' -e 's/ void / /' |
    awk -v archs="$archs" '
    {
        arch = $1; registers = $(NF - 2); shared = $(NF - 1); spilled = $NF
        kernel = $0
        sub(/^[0-9]+ /, "", kernel)
        sub(/ [0-9]+ [0-9]+ [0-9]+$/, "", kernel)
        sub(/\(.*/, "", kernel)
        if (!(kernel in seen)) { seen[kernel] = 1; order[++count] = kernel }
        held[kernel] = int(65536 / (int((registers + 7) / 8) * 8 * 32)) # of the newest architecture
        if (held[kernel] > 64) held[kernel] = 64
        cell[kernel, arch] = registers (shared > 0 ? "/" shared : "") (spilled > 0 ? "!" spilled : "")
        if (spilled > 0 && arch >= 80) bad = bad sprintf("%s spills %d bytes on sm_%s\n", kernel, spilled, arch)
    }
    END {
        n = split(archs, list, " ")
        printf "%-40s", "registers/static shared bytes!spilled"
        for (i = 1; i <= n; i++) printf " %10s", "sm_" list[i]
        printf " %6s\n", "warps"
        for (k = 1; k <= count; k++) {
            printf "%-40s", order[k]
            for (i = 1; i <= n; i++) printf " %10s", cell[order[k], list[i]]
            printf " %6d\n", held[order[k]]
        }
        printf "%s", bad
        if (count == 0) print "no kernels"
        exit bad != "" || count == 0
    }'
