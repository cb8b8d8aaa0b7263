#!/bin/bash
# Tests of `mpirun vitrine evaluate`: any number of processes ends in the bytes and numbers of one, also after a process was
# killed; what one of them lacks is said once, by its rank.
#   bash tests/mpi.sh [build/vitrine]
# Makes its own pictures; closes with "N passed, N failed, N skipped".
. "$(dirname "$0")/check.sh"
for lack in mpirun python3 "$(dirname "$bin")/libvitrine_mpi.so"; do
    command -v "$lack" >/dev/null 2>&1 || [ -f "$lack" ] || skip_all "evaluate by several processes" "no ${lack##*/} here"
done
# Open MPI itself does not give back all of its memory.
export ASAN_OPTIONS=exitcode=99:detect_leaks=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_plm_rsh_agent=/bin/false # nothing is started elsewhere; there may be no ssh
launch="mpirun --oversubscribe --bind-to none -mca orte_abort_print_stack 0"

run() { # PROCESSES ARGUMENT...: 0 = without mpirun
    local n=$1
    shift
    last="$n x vitrine evaluate $*" rc=0
    if [ "$n" = 0 ]; then
        "$bin" evaluate -q -t 1 "$@" >out 2>err || rc=$?
    else
        timeout 120 $launch -n "$n" "$bin" evaluate -q -t 1 "$@" >out 2>err </dev/null || rc=$?
    fi
}
# How often the program, not mpirun, speaks.
says() { [ "$(grep -c '^vitrine evaluate: ' err)" = "$1" ]; }
same_numbers() {
    python3 - "$1" "$2" <<'PY'
import json, sys
def numbers(path):
    o = json.load(open(path))
    for k in ("seconds", "images_per_second"): o.pop(k)
    return o
sys.exit(numbers(sys.argv[1]) != numbers(sys.argv[2]))
PY
}

# ---- 1,003 small pictures, a few of them broken ----------------------------------------------------------------------------
python3 - <<'PY' || { echo "not ok - pictures could not be made"; exit 1; }
import io, random, struct, tarfile
random.seed(11)
def add(tar, name, data):
    info = tarfile.TarInfo(name); info.size = len(data); tar.addfile(info, io.BytesIO(data))
with tarfile.open("all.tar", "w") as t:
    for i in range(1003):
        px = bytes(random.randrange(256) for _ in range(28 * 28)) if i % 7 else bytes((x * i + y) % 256 for y in range(28) for x in range(28))
        data = b"P5\n28 28\n255\n" + px
        if i in (200, 201, 640, 1002): data = data[:300]
        add(t, "%d/%04d.pgm" % (random.randrange(10), i), data)
PY
run 0 all.tar -m vit-fashion -k 2 --predictions one.csv -f json -o one.json
check "one process" exits 1
check "one process: all rows" [ "$(grep -c '' one.csv)" = $((2 + 999 * 2 + 4 + 1)) ]

# ---- the same by several ---------------------------------------------------------------------------------------------------
for n in 1 2 3 5; do
    run $n all.tar -m vit-fashion -k 2 --predictions many.csv -f json -o many.json
    check "$n processes: the same bytes" cmp -s one.csv many.csv
    check "$n processes: the same numbers" same_numbers one.json many.json
    check "$n processes: the broken ones make the status" exits 1
done
for form in tsv jsonl; do
    run 0 all.tar -m vit-fashion --predictions one.$form
    run 3 all.tar -m vit-fashion --predictions many.$form -b 7
    check "$form, batches of 7: the same bytes" cmp -s one.$form many.$form
done
run 2 all.tar -m vit-fashion -f json -o many.json --report many.html
check "the report" grep -q '"images":1003' many.html
check "without rows: the same numbers" same_numbers one.json many.json
run 0 all.tar -m vit-fashion -k 2 --limit 500 --shard 1/2 --predictions part.csv
run 3 all.tar -m vit-fashion -k 2 --limit 500 --shard 1/2 --predictions many.csv
check "a shard by several" cmp -s part.csv many.csv
run 0 all.tar -m vit-fashion --on-error stop --predictions stop.csv -f json -o stop.json
for n in 2 4; do
    run $n all.tar -m vit-fashion --on-error stop --predictions many.csv -f json -o many.json
    check "--on-error stop, $n processes: the same bytes" cmp -s stop.csv many.csv
    check "--on-error stop, $n processes: the same numbers" same_numbers stop.json many.json
done
run 3 one.csv --merge -m vit-fashion --predictions many.csv -f json -o many.json
check "--merge is one process' work" cmp -s one.csv many.csv

# ---- going on --------------------------------------------------------------------------------------------------------------
bytes=$(stat -c %s one.csv)
for cut in 0 10 $((bytes / 3)) $((bytes - 1)) $bytes; do
    head -c $cut one.csv >cut.csv
    run 3 all.tar -m vit-fashion -k 2 --predictions cut.csv --resume -f json -o cut.json
    check "cut at $cut, completed by three: the same bytes" cmp -s one.csv cut.csv
    check "cut at $cut, completed by three: the same numbers" same_numbers one.json cut.json
done
for victim in 0 1 2; do
    rm -f killed.csv
    timeout 120 $launch -n 3 "$bin" evaluate -q -t 1 -b 1 all.tar -m vit-fashion -k 2 --predictions killed.csv >out 2>err </dev/null &
    job=$!
    for _ in $(seq 500); do
        [ "$(cat killed.csv 2>/dev/null | wc -l)" -gt 20 ] && break
        sleep 0.02
    done
    for pid in $(pgrep -f "evaluate -q -t 1 -b 1 all.tar -m vit-fashion -k 2 --predictions killed.csv"); do
        [ "$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep '^OMPI_COMM_WORLD_RANK=')" = "OMPI_COMM_WORLD_RANK=$victim" ] &&
            [ "$(readlink "/proc/$pid/cwd")" = "$work" ] && kill -9 "$pid"
    done
    wait $job
    check "rank $victim killed: some rows are there" [ "$(grep -c '' killed.csv)" -gt 20 ]
    run 2 all.tar -m vit-fashion -k 2 --predictions killed.csv --resume -f json -o killed.json
    check "rank $victim killed, completed: the same bytes" cmp -s one.csv killed.csv
    check "rank $victim killed, completed: the same numbers" same_numbers one.json killed.json
done

# ---- what goes wrong -------------------------------------------------------------------------------------------------------
run 3 all.tar -m vit-fashion --resume
check "options that do not go together: refused" [ "$rc" != 0 ]
check "options that do not go together: said once" says 1
run 3 nowhere.tar -m vit-fashion
check "no dataset: refused" [ "$rc" != 0 ]
check "no dataset: said once" says 1
pair() { # OPTIONS-OF-RANK-0 OPTIONS-OF-RANK-1
    last="rank 0: $1 : rank 1: $2" rc=0
    timeout 120 $launch -n 1 "$bin" evaluate -q -t 1 $1 : -n 1 "$bin" evaluate -q -t 1 $2 >out 2>err </dev/null || rc=$?
}
pair "-m vit-fashion all.tar" "-m nowhere.h5 all.tar"
check "a rank without the model: refused" [ "$rc" != 0 ]
check "a rank without the model: its rank and why" err_has "vitrine evaluate: rank 1: "
check "a rank without the model: named" err_has "nowhere.h5"
check "a rank without the model: once" says 1
pair "-m vit-fashion all.tar" "-m vit-cifar10 all.tar"
check "a rank with another model" err_has "its model_sha256 is"
pair "-m vit-fashion all.tar" "-m vit-fashion --crop-pct 0.5 all.tar"
check "a rank with another crop" err_has "rank 1: "
pair "-m vit-fashion all.tar" "-m vit-fashion --resume all.tar"
check "a rank with other options" err_has "rank 1: --resume goes on"
ln -s /dev/full full.csv
run 2 all.tar -m vit-fashion --predictions full.csv
check "a full disk: refused" [ "$rc" != 0 ]
check "a full disk: said once" says 1
cp all.tar strange.tar && python3 - <<'PY'
import io, tarfile
with tarfile.open("strange.tar", "w") as t:
    for i in range(3000):
        info = tarfile.TarInfo("katze/%04d.pgm" % i); data = b"P5\n2 2\n255\nabcd"; info.size = len(data); t.addfile(info, io.BytesIO(data))
PY
run 2 strange.tar -m vit-fashion
check "strange classes end the run early" err_has "('katze' is none)"
check "strange classes: once" says 1
mkdir alone && cp "$bin" alone/vitrine
last="without the library" rc=0
OMPI_COMM_WORLD_SIZE=2 alone/vitrine evaluate -q all.tar >out 2>err || rc=$?
check "without the library: refused" exits 1
check "without the library: says what is missing" err_has "libopenmpi-dev"

finish
