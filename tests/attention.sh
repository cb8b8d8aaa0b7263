#!/bin/bash
# Tests of `vitrine attention`: files, names, shapes, sums, refusals.
#   bash tests/attention.sh [build/vitrine]
# Makes its own images; closes with "N passed, N failed, N skipped". The numbers themselves are held
# against dense products in test_rollout and against timm in tests/ref/rollout_parity.py.
. "$(dirname "$0")/check.sh"
ref=$tests/ref
standin=$(dirname "$bin")/tests/standin/libvitrine_cuda.so

# run ARGUMENT...: the command, its exit status in rc, its output in out and err; npy unless --save says otherwise.
run() {
    case " $* " in *" --save "*) ;; *) set -- --save npy "$@" ;; esac
    bare "$@"
}
bare() {
    last="vitrine attention $*"
    "$bin" attention "$@" >out 2>err
    rc=$?
}
shape() { grep -qaF "'shape': ($2)" "$1"; }
files() { [ "$(ls "$1" | paste -sd' ' -)" = "$2" ] || { ls "$1" | sed 's/^/  file: /'; false; }; }
# Whether the values of FILE, summed by the columns in front of the last $2, are all 1.
sums() {
    awk -F, -v cut="$2" 'NR > 1 { key = ""; for (i = 1; i <= NF - cut; i++) key = key $i ","; sum[key] += $NF; n++ }
        END { for (k in sum) if (sum[k] < 0.99999 || sum[k] > 1.00001) { print "  " k " sums to " sum[k]; bad = 1 }
              exit bad || n == 0 }' "$1"
}
lines() { [ "$(wc -l <"$1")" = "$2" ]; }
# ppm W H SEED: a picture of smooth blobs, no two alike.
ppm() {
    awk -v w="$1" -v h="$2" -v s="$3" 'BEGIN { printf "P3\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++) for (x = 0; x < w; x++) for (c = 0; c < 3; c++)
            print int(128 + 120 * sin((x * (s + c) + y * y / (s + 1)) / 9)) }'
}
mkdir -p may june/may june/deep
ppm 40 30 1 >cat.ppm
ppm 24 36 2 >dog.ppm
cp cat.ppm may/cat.ppm
cp dog.ppm june/may/cat.ppm
ppm 33 33 3 >june/deep/cat.ppm
cp dog.ppm may/cat.image.ppm
printf 'no picture' >broken.png

# ---- what is written -------------------------------------------------------------------------------

run -o maps/new --save npy,csv,h5 cat.ppm dog.ppm
check "three kinds of two pictures: exit 0" exits 0
check "  a folder that was not there, six files" files maps/new \
    "cat.rollout.csv cat.rollout.h5 cat.rollout.npy dog.rollout.csv dog.rollout.h5 dog.rollout.npy"
check "  nothing on stdout" empty out
check "  the memory is said" err_has "MiB for what is kept of 6 layers"
check "  8 x 8 patches" shape maps/new/cat.rollout.npy "8, 8,"
check "  their sum is 1" sums maps/new/cat.rollout.csv 3
check "  a line a patch" lines maps/new/cat.rollout.csv 65
check "  the .h5 names the options" grep -qa "heads mean, query head, discard 0, residual 0.5, start layer 0" \
    maps/new/cat.rollout.h5
check "  and the picture" grep -qa "cat.ppm" maps/new/cat.rollout.h5
check "  two pictures, two maps" differ maps/new/cat.rollout.npy maps/new/dog.rollout.npy
run -q -o quiet cat.ppm
check "-q: exit 0" exits 0
check "  says nothing" empty err
check "  npy alone" files quiet cat.rollout.npy

run -o single -b 1 -t 1 cat.ppm dog.ppm may june
check "one by one: exit 0" exits 0
run -o batch -b 5 -t 2 cat.ppm dog.ppm may june
check "in a batch: the same files, bit for bit" diff -r single batch

run -o broken cat.ppm broken.png dog.ppm
check "a broken picture: exit 1" exits 1
check "  it is named" err_has "broken.png: "
check "  the others have their own maps" cmp broken/dog.rollout.npy maps/new/dog.rollout.npy
run -o stdin - <cat.ppm
check "a picture on standard input" cmp stdin/stdin.rollout.npy quiet/cat.rollout.npy

cp cat.ppm behind.ppm
for b in 1 3; do
    run -o stop$b -b $b --on-error stop --query 30,20 cat.ppm dog.ppm behind.ppm
    check "--on-error stop, batches of $b: a picture without the pixel asked for ends the run: exit 1" exits 1
    check "  what was in front of it is there, what was behind it not" files stop$b cat.rollout.npy
    check "  and is not counted" err_has "2 images, 1 failed"
done

# ---- names -----------------------------------------------------------------------------------------

run -q -o names cat.ppm may june dog.ppm
check "the same name in several folders: exit 0" exits 0
check "  folders in front, as many as it takes" files names \
    "cat.image.rollout.npy cat.ppm.rollout.npy deep_cat.rollout.npy dog.rollout.npy june_may_cat.rollout.npy may_cat.ppm.rollout.npy"
run -q -o twice cat.ppm ./cat.ppm
check "the same picture twice: exit 0" exits 0
check "  numbered" files twice "cat.ppm-0.rollout.npy cat.ppm-1.rollout.npy"

# ---- rollout's options -----------------------------------------------------------------------------

for line in "--heads max" "--heads min" "--heads 0,2-3" "--discard 0.9" "--residual 0.1" "--start-layer 4" \
    "--query mean" "--query 13,4"; do
    run -q -o option --save npy,csv $line cat.ppm
    check "$line: exit 0" exits 0
    check "  another map" differ option/cat.rollout.npy quiet/cat.rollout.npy
    check "  that sums to 1" sums option/cat.rollout.csv 3
done
run -q -o option --query cls cat.ppm
check "--query cls: the head's, of a class-token model" cmp option/cat.rollout.npy quiet/cat.rollout.npy
run -q -o option --heads 0-3 cat.ppm
check "--heads with all of them: their mean" cmp option/cat.rollout.npy quiet/cat.rollout.npy
run -o option --query 39,29 --crop-mode center --crop-pct 0.5 cat.ppm
check "a pixel that is cropped away: exit 1" exits 1
check "  it is said" err_has "cat.ppm: the pixel 39,29 is cropped away"
rm option/*
run -o option --query 26,20 dog.ppm cat.ppm
check "a pixel that one picture does not have: exit 1" exits 1
check "  it is said of that one" err_has "dog.ppm: it has no pixel 26,20: it is 24 wide and 36 high"
check "  the other has its map" files option cat.rollout.npy

# ---- raw maps --------------------------------------------------------------------------------------

run -q -o raw --method raw --save npy,csv cat.ppm
check "raw: exit 0" exits 0
check "  layers, heads, h, w" shape raw/cat.raw.npy "6, 4, 8, 8,"
check "  a line a number" lines raw/cat.raw.csv $((6 * 4 * 64 + 1))
run -q -o raw --method raw --layers 5,2 --heads 3,1 --save npy,csv --query mean cat.ppm
check "raw --layers, --heads: their shape" shape raw/cat.raw.npy "2, 2, 8, 8,"
check "  layers ascending, heads in the order given" eval \
    '[ "$(tail -n +2 raw/cat.raw.csv | cut -d, -f1,2 | uniq | paste -sd" " -)" = "2,3 2,1 5,3 5,1" ]'
run -q -o raw --method raw --heads max cat.ppm
check "raw --heads max: one map a layer" shape raw/cat.raw.npy "6, 1, 8, 8,"
run -q -o raw --method raw --query all --layers 1 --save npy,csv cat.ppm
check "raw --query all: heads, tokens, tokens" shape raw/cat.raw.layer1.npy "4, 65, 65,"
check "  rows sum to 1" sums raw/cat.raw.csv 2

run -q -o swin -m swin-cifar10 cat.ppm
check "a Swin's rollout: exit 0" exits 0
check "  on its finest map" shape swin/cat.rollout.npy "16, 16,"
run -q -o swin -m swin-cifar10 --method raw --save npy,h5,csv --query 20,9 cat.ppm
check "a Swin's raw maps: a stage an array" files swin \
    "cat.raw.csv cat.raw.h5 cat.raw.stage0.npy cat.raw.stage1.npy cat.raw.stage2.npy cat.rollout.npy"
check "  stage 1" shape swin/cat.raw.stage1.npy "2, 4, 8, 8,"
check "  windows hold the query's whole attention" sums swin/cat.raw.csv 3
run -q -o swin -m swin-cifar10 --method raw --query all --layers 3 --save npy,csv cat.ppm
check "a Swin's matrices on the whole map" shape swin/cat.raw.layer3.npy "4, 64, 64,"
check "  rows sum to 1" sums swin/cat.raw.csv 2

# ---- statistics of heads ---------------------------------------------------------------------------

run -o stats --method raw --save stats,npy cat.ppm dog.ppm
check "--save stats: exit 0" exits 0
check "  a file a picture" files stats "cat.raw.npy cat.raw.stats.csv dog.raw.npy dog.raw.stats.csv"
check "  its columns" [ "$(head -n 1 stats/cat.raw.stats.csv)" = \
    "layer,head,entropy,entropy_share,distance,greatest,prefix,flag" ]
check "  a line a layer and head" [ "$(cut -d, -f1,2 stats/cat.raw.stats.csv | tail -n +2 | paste -sd" " -)" = \
    "$(for l in 0 1 2 3 4 5; do for h in 0 1 2 3; do echo $l,$h; done; done | paste -sd" " -)" ]
check "  within what they can be" awk -F, 'NR > 1 && !($3 > 0 && $3 <= log(65) + 1e-6 && $4 > 0 && $4 < 1.000001 &&
    $5 > 0 && $5 < 32 * sqrt(2) && $6 < 100 && $7 > 0 && $7 < 1 && $8 == "") { exit 1 }' stats/cat.raw.stats.csv
check "  nothing explodes" eval '! err_has "scores above"'
check "  the maps are those of a pass without it" eval \
    'run -q -o plain --method raw cat.ppm && cmp stats/cat.raw.npy plain/cat.raw.npy'
run -q -o stats2 -b 3 -t 2 --save stats,npy cat.ppm broken.png dog.ppm
check "  of a rollout, in a batch, the same numbers" eval 'cmp stats/cat.raw.stats.csv stats2/cat.rollout.stats.csv &&
    cmp stats/dog.raw.stats.csv stats2/dog.rollout.stats.csv'
check "  and the same rollout" cmp stats2/cat.rollout.npy quiet/cat.rollout.npy
run -q -o stats3 --method raw --query 13,4 --layers 4,2 --heads 3,1 --save stats cat.ppm
check "  of the layers and heads asked for, whatever the query" \
    [ "$(cat stats3/cat.raw.stats.csv)" = "$(grep -E '^layer|^[24],[13],' stats/cat.raw.stats.csv |
        awk -F, '{ print NR == 1 ? 0 : $1 * 9 - $2, $0 }' | sort -n | cut -d' ' -f2-)" ]
run -o stats4 -m "$ref/swin_v1_extreme.h5" --save stats cat.ppm
check "scores of 1e4: exit 0" exits 0
check "  flagged" eval 'grep -q "exploding$" stats4/cat.rollout.stats.csv'
check "  one line says so" [ "$(grep -c "cat.ppm: scores above 100 in [0-9]* of 12 heads, the greatest, " err)" = 1 ]
run -q -o stats4 -m "$ref/swin_v1_extreme.h5" --save stats cat.ppm
check "  with -q none" empty err

# ---- models ----------------------------------------------------------------------------------------

for model in vit_distilled vit_gap_norm vit_map vit_none vit_beit vit_dinov2_giant swin_v1_padded swin_v2_odd swin_v1_windows; do
    run -q -o model -m "$ref/$model.h5" --save csv cat.ppm
    check "$model: exit 0" exits 0
    check "  its rollout sums to 1" sums model/cat.rollout.csv 3
    run -q -o model -m "$ref/$model.h5" --method raw --query mean --save npy cat.ppm
    check "  raw maps: exit 0" exits 0
done

"$bin" attention -q -o mapped -m "$ref/vit_map.h5" --save npy cat.ppm && cp mapped/cat.rollout.npy map.npy

# ---- what is refused -------------------------------------------------------------------------------

refuses() { # NAME WORDS ARGUMENT...
    local name=$1 words=$2
    shift 2
    run -o refused "$@" cat.ppm
    check "$name: exit 2" exits 2
    check "  it is said" err_has "$words"
}
refuses "--layers with rollout" "--layers is for --method raw and --save html" --layers 1
refuses "--query all with rollout" "--query all is for --method raw" --query all
refuses "--discard with raw" "rollout" --method raw --discard 0.5
refuses "a layer that there is not" "option --layers 6: the model has layers 0 to 5" --method raw --layers 2,6
refuses "a first layer that there is not" "option --start-layer 6" --start-layer 6
refuses "a head that there is not" "option --heads 4: layer 0 has heads 0 to 3" --heads 1,4
refuses "a head of one stage only" "option --heads 3: layer 0 has heads 0 to 1" -m swin-cifar10 --method raw --heads 3
refuses "a class token of a Swin" "no class token" -m swin-cifar10 --query cls
refuses "a head that attends itself, raw" "option --query head" -m "$ref/vit_map.h5" --method raw
refuses "an unknown kind" "want of overlay, map, grid, mask, npy, h5, csv" --save npy,gif
refuses "a list with a number twice" "each once" --method raw --layers 1,1
refuses "a list that is none" "mean, max, min, or numbers" --heads most
refuses "a query that is none" "head, cls, mean, all, or a pixel" --query here
refuses "a discard of all" "--discard" --discard 1
refuses "an unknown method" "rollout, raw" --method flow
printf x >file
run -q -o file cat.ppm
check "a folder that is a file: exit 1" exits 1
check "  it is named" err_has "file/cat.rollout.npy"

# ---- a GPU -----------------------------------------------------------------------------------------

if [ -f "$standin" ]; then
    mkdir gpu
    cp "$bin" "$(dirname "$standin")"/* gpu/
    # Two of them, each with a part of every batch; in fp32 as near as the pass is.
    for model in vit-cifar10 swin-cifar10; do
        run -q -o cpu -d cpu -m $model --save csv,stats cat.ppm dog.ppm may
        bin=$work/gpu/vitrine LD_LIBRARY_PATH=$work/gpu FAKE_CUDA_DEVICES=2 XDG_CACHE_HOME=$work \
            run -q -o cuda -d cuda:0,1 -p fp32 -b 2 -m $model --save csv,stats cat.ppm dog.ppm may
        check "$model on two stand-ins of a GPU: exit 0" exits 0
        bin=$work/gpu/vitrine LD_LIBRARY_PATH=$work/gpu FAKE_CUDA_DEVICES=1 XDG_CACHE_HOME=$work \
            run -o cuda2 -d cuda -p fp32 -m $model --method gradient --class 3,5 cat.ppm
        check "  gradients beside it: exit 0" exits 0
        check "  the CPU is named too" err_has "cpu: "
        run -q -o cpu2 -d cpu -m $model --method gradient --class 3,5 cat.ppm
        check "  its maps" diff -r cpu2 cuda2
        check "  the CPU's maps" eval '(for f in cpu/*rollout.csv; do paste -d, "$f" "cuda/${f#cpu/}" |
            awk -F, "NR > 1 { d = \$3 - \$6; if (d < -1e-6 || d > 1e-6) exit 1 }" || exit 1; done)'
        check "  and statistics" eval '(for f in cpu/*stats.csv; do paste -d, "$f" "cuda/${f#cpu/}" |
            awk -F, "NR > 1 { for (i = 1; i < 8; i++) { d = \$i - \$(i + 8); if (d < -1e-4 || d > 1e-4) exit 1 } }" ||
            exit 1; done)'
    done
else
    skipped=$((skipped + 1))
    echo "skip - GPU: no stand-in (it needs a C++ compiler)"
fi

# ---- pictures --------------------------------------------------------------------------------------

# png FILE W H: a PNG of that size.
png() { [ "$(od -An -tu1 -N8 "$1" | tr -s ' ')" = " 137 80 78 71 13 10 26 10" ] &&
    [ "$(od -An -tx1 -j16 -N8 "$1" | tr -d ' ')" = "$(printf '%08x%08x' "$2" "$3")" ]; }
bare -q -o pictures cat.ppm
check "an overlay by default: exit 0" exits 0
check "  alone" files pictures "cat.rollout.overlay.png"
check "  of 40 x 30, enlarged by 7" png pictures/cat.rollout.overlay.png 280 210
bare -q -o pictures --method raw cat.ppm
check "raw maps: a grid by default" files pictures "cat.raw.grid.png cat.rollout.overlay.png"
rm -r pictures
bare -q -o pictures --save overlay,map,grid --colorbar --colormap magma --opacity 0.5 --upsampling nearest cat.ppm
check "all kinds of a rollout: exit 0" exits 0
check "  three files" files pictures "cat.rollout.grid.png cat.rollout.map.png cat.rollout.overlay.png"
cp pictures/cat.rollout.overlay.png a.png
bare -q -o pictures --save overlay --colorbar --colormap gray --opacity 0.5 cat.ppm
check "  another colour map, another picture" differ pictures/cat.rollout.overlay.png a.png
bare -q -o pictures --save overlay --opacity 0 cat.ppm
cp pictures/cat.rollout.overlay.png a.png
bare -q -o pictures --save overlay --opacity 0 --discard 0.9 cat.ppm
check "--opacity 0: the picture itself, whatever the map" cmp -s pictures/cat.rollout.overlay.png a.png
bare -q -o few --method raw --layers 1,3 --heads 0,2 --save overlay,map cat.ppm
check "raw overlays: one a layer and head" files few "$(for k in map overlay; do for l in 1 3; do for h in 0 2; do
    echo cat.raw.$k.layer$l.head$h.png; done; done; done | paste -sd' ' -)"
bare -q -o one --method raw --layers 2 --heads max --save overlay cat.ppm
check "  a single one without them" files one cat.raw.overlay.png
bare -q -o matrix --method raw --layers 2 --heads 1 --query all --save map cat.ppm
check "--query all: a matrix" files matrix cat.raw.map.png
bare -q -o swin2 -m swin-cifar10 --method raw --save grid cat.ppm
check "a Swin's grid: one a stage" files swin2 "cat.raw.grid.stage0.png cat.raw.grid.stage1.png cat.raw.grid.stage2.png"
bare -q -o mass --mass 0.6 --save npy cat.ppm
check "--mass: exit 0" exits 0
check "  a mask too" files mass "cat.rollout.mask.png cat.rollout.npy"
check "  its frame on stdout" grep -qP '^cat.ppm(\t[0-9]+){5}$' out
bare -q -o mass --mass 1 --save npy cat.ppm
check "--mass 1: everything that the model saw" grep -qP '^cat.ppm\t5\t0\t35\t30\t64$' out
bare -q -o mass --method raw --layers 5 --heads 0,1 --mass 0.5 cat.ppm
check "--mass of raw maps: a line a map" [ "$(cut -f1-3 out | tr '\t\n' '  ')" = "cat.ppm 5 0 cat.ppm 5 1 " ]
bare --method raw --query all --save overlay cat.ppm
check "an overlay of all queries: exit 2" exits 2
check "  it is said" err_has "--save overlay shows one query's map"
bare --colormap jet cat.ppm
check "a colour map that is none: exit 2" exits 2
check "  those there are are named" err_has "viridis, magma"

# ---- classify --overlay ----------------------------------------------------------------------------

classify() {
    last="vitrine classify $*"
    "$bin" classify "$@" >out 2>err
    rc=$?
}
bare -q -o looked --save overlay cat.ppm dog.ppm may
classify -q -f csv cat.ppm dog.ppm may
cp out plain.csv
for batch in 1 3; do
    classify -f csv -b $batch --overlay seen$batch/deep cat.ppm dog.ppm may
    check "classify --overlay, passes of $batch: exit 0" exits 0
    check "  the predictions as without it" cmp out plain.csv
    check "  the overlays of attention" diff -r looked seen$batch/deep
    check "  the memory is said" err_has "MiB for what is kept of 6 layers"
done
classify -q -f csv --overlay broke cat.ppm broken.png dog.ppm
check "classify --overlay, a broken picture: exit 1" exits 1
check "  the others have theirs" files broke "cat.rollout.overlay.png dog.rollout.overlay.png"
check "  the right one" cmp broke/dog.rollout.overlay.png looked/dog.rollout.overlay.png
classify -q -m swin-cifar10 --overlay swinned cat.ppm
check "a Swin's" files swinned cat.rollout.overlay.png
classify -q --overlay file cat.ppm
check "a folder that is a file: exit 1" exits 1

# ---- faithfulness ----------------------------------------------------------------------------------

# field ORDER CURVE COLUMN: of out, the first picture's.
field() { awk -F'\t' -v o="$1" -v c="$2" -v n="$3" '$3 == o && $4 == c { print $n; exit }' out; }
bare -q -o faith --faithfulness cat.ppm dog.ppm
check "--faithfulness: exit 0" exits 0
check "  its plot beside the overlay" files faith \
    "cat.rollout.faithfulness.png cat.rollout.overlay.png dog.rollout.faithfulness.png dog.rollout.overlay.png"
check "  a line a curve, one of names" lines out 9
cp out faith.tsv
check "  a curve's area is that under its points" awk -F'\t' 'NR > 1 { sum = 0
    for (i = 7; i <= 26; i++) sum += ($(i - 1) + $i) / 2 * (int((i - 6) * 64 / 20) - int((i - 7) * 64 / 20)) / 64
    if (sum - $5 > 2e-6 || $5 - sum > 2e-6) exit 1 }' out
for order in rollout random; do
    check "  $order: deletion ends where insertion begins" [ "$(field $order deletion 26)" = "$(field $order insertion 6)" ]
    check "  $order: and begins where it ends" [ "$(field $order deletion 6)" = "$(field $order insertion 26)" ]
done
check "  the picture's own probability, as classify has it" [ "$(field rollout deletion 6)" = \
    "$("$bin" classify -q -f csv -k 1 cat.ppm | awk -F, 'NR > 1 { printf "%.6f", $7 }')" ]
bare -q -o faith -b 2 -t 2 --save faithfulness cat.ppm dog.ppm
check "--save faithfulness: the same, in a batch" cmp out faith.tsv
bare -q -o faith --faithfulness --seed 7 cat.ppm dog.ppm
check "--seed: another random order" differ out faith.tsv
check "  and the same rollout" [ "$(grep rollout out)" = "$(grep rollout faith.tsv)" ]
bare -q -o faith -m swin-cifar10 --faithfulness cat.ppm
check "--faithfulness of a Swin: exit 0" exits 0
check "  its curves" lines out 5
bare --faithfulness --method raw cat.ppm
check "--faithfulness of raw maps: exit 2" exits 2
check "  it is said" err_has "option --faithfulness is for --method rollout"
bare --faithfulness --mass 0.5 cat.ppm
check "--faithfulness beside a mask: exit 2" exits 2
bare -o headless --faithfulness -m "$ref/vit_none.h5" cat.ppm
check "--faithfulness of a model without a head: refused" eval '[ $rc != 0 ] && err_has "no classification head"'

bare -o faith2 --save faithfulness --method gradient --class top2 cat.ppm dog.ppm
check "--faithfulness of two classes: exit 0" exits 0
check "  four curves of each" lines out 17
check "  a plot of each" eval 'ls faith2/cat.gradient.faithfulness.class*.png >list && lines list 2 && [ "$(ls faith2 | wc -l)" = 4 ]'
check "  the orders' names" eval '[ "$(cut -f3 out | sort -u | paste -sd" " -)" = "gradient order random" ]'
check "  the means are told, of all maps" grep -q "deletion: mean area 0.* of 4 maps, .* difference" err

# ---- gradient --------------------------------------------------------------------------------------

run -o grad --method gradient --save npy,csv,h5,overlay cat.ppm dog.ppm
check "gradient: exit 0" exits 0
check "  its files" files grad "cat.gradient.csv cat.gradient.h5 cat.gradient.npy cat.gradient.overlay.png \
dog.gradient.csv dog.gradient.h5 dog.gradient.npy dog.gradient.overlay.png"
check "  the memory of gradients is said" err_has "MiB for gradients and the weights they take"
check "  a map of the class, which sums to 1" sums grad/cat.gradient.csv 3
check "  the options are named" grep -qa "class top, heads mean, query head, discard 0, start layer 0" grad/cat.gradient.h5
number=$(sed -n '2s/,.*//p' grad/cat.gradient.csv)
run -q -o grad2 -b 2 -t 2 --method gradient --class "$number" cat.ppm
check "  the same by the class's number, in a batch" cmp grad/cat.gradient.npy grad2/cat.gradient.npy
run -q -o grad3 --method gradient --class cat,0,truck cat.ppm
check "three classes by name and number: exit 0" exits 0
check "  an array a class" files grad3 "cat.gradient.class0.npy cat.gradient.class3.npy cat.gradient.class9.npy"
run -q -o grad4 --method gradient --class truck cat.ppm
check "  each what it is alone" cmp grad4/cat.gradient.npy grad3/cat.gradient.class9.npy
check "  no two alike" differ grad3/cat.gradient.class0.npy grad3/cat.gradient.class9.npy
run -q -o grad5 --method gradient -m swin-cifar10 --class top2 --query 20,9 --discard 0.5 --start-layer 2 cat.ppm
check "a Swin's, of a pixel: exit 0" exits 0
check "  two maps" eval '[ "$(ls grad5 | wc -l)" = 2 ]'
run -o grad6 --method gradient --query 100,9 cat.ppm dog.ppm
check "a pixel that no picture has: exit 1" exits 1
check "  it is said of each" err_has "dog.ppm: it has no pixel 100,9"
refuse() {
    wanted=$1
    shift
    run -o no "$@" cat.ppm
    check "$*: exit 2" exits 2
    check "  it is said" err_has "$wanted"
}
refuse "option --class: '10' is no number, id or name of a class; the model has classes 0 to 9; alone, top1 to top10 are" --method gradient --class 10
refuse "class 3 is there twice" --method gradient --class cat,3
refuse "option --class: 'top11' is no number" --method gradient --class top11
refuse "option --class: 'top0' is no number" --method gradient --class top0
refuse "option --class: '' is no number" --method gradient --class ,
refuse "option --class is for --method gradient and --save html" --class 3
refuse "option --residual is for --method rollout" --method gradient --residual 0.3
refuse "option --query all is for --method raw" --method gradient --query all
refuse "option --layers is for --method raw and --save html" --method gradient --layers 1
refuse "the model has layers 0 to 5" --method gradient --start-layer 6
refuse "--save stats is for --method rollout and raw" --method gradient --save stats
refuse "option --class top: the model has no classes" --method gradient -m "$ref/vit_none.h5"
check "nothing of them is written" [ ! -e no ]

# ---- names and files -------------------------------------------------------------------------------

long=$(printf '%0250d' 0)
mkdir long
cp cat.ppm "long/$long.ppm"
cp dog.ppm "long/${long%0}1.ppm"
cp dog.ppm long/short.ppm
bare -q -o cut --save npy,overlay long
check "names too long for a suffix: exit 0" exits 0
check "  all have files" eval '[ "$(ls cut | wc -l)" = 6 ]'
check "  cut, with their numbers" cmp cut/${long:0:169}-1.rollout.npy maps/new/dog.rollout.npy

mkdir over
cp cat.ppm over/x.ppm
cp dog.ppm over/x.rollout.npy
cp dog.ppm over/x.rollout.overlay.png
cp dog.ppm over/x.rollout.h5
ln -s ../cat.ppm over/x.rollout.csv
for kind in npy overlay h5; do
    file=x.rollout.$kind
    [ $kind = overlay ] && file=$file.png
    bare -q -o over --save $kind over/x.ppm over/$file
    check "--save $kind over an input: exit 2" exits 2
    check "  it is said" err_has "over/$file: is an input, and would be overwritten"
    check "  the input is as it was" cmp over/$file dog.ppm
done
bare -q -o over --save csv over/x.ppm cat.ppm
check "--save csv over an input by a link: exit 2" exits 2
check "  the input is as it was" cmp cat.ppm may/cat.ppm
last="vitrine classify --overlay over over/x.ppm over/x.rollout.overlay.png"
"$bin" classify -q --overlay over over/x.ppm over/x.rollout.overlay.png >out 2>err
rc=$?
check "classify --overlay over an input: exit 2" exits 2
check "  the input is as it was" cmp over/x.rollout.overlay.png dog.ppm

if [ -c /dev/full ]; then
    for option in "--mass 0.5" --faithfulness; do
        last="vitrine attention $option >/dev/full"
        "$bin" attention -q -o full $option cat.ppm >/dev/full 2>err
        rc=$?
        check "$option on a full disk: exit 1" exits 1
        check "  it is said" err_has "stdout: the results could not be written: No space left on device"
    done
fi
for kind in npy csv overlay stats; do
    last="vitrine attention --save $kind, files of 512 bytes at most"
    mkdir small
    (ulimit -f 1 && "$bin" attention -q -o small -m swin-cifar10 --method raw --save $kind --query 20,9 cat.ppm) >out 2>err
    rc=$?
    check "--save $kind, larger than a file may be: exit 1" exits 1
    check "  the reason is said" err_has "File too large"
    check "  nothing is left of it" files small ""
    rm -r small
done
refuse "option --mass: got '0', want a number from 1e-06 to 1" --mass 0

# ---- the page --------------------------------------------------------------------------------------
# What it shows is looked at in inspector.sh.

page() { [ "$(grep -c 'class="picture">{$' "$1")" = "$2" ] && [ "$(tail -n 1 "$1")" = "</html>" ]; }
if "$bin" --version | grep -q stb_image; then
    bare -o html --save html,npy,csv --layers 1,4 cat.ppm broken.png dog.ppm
    check "a page beside arrays, one picture broken: exit 1" exits 1
    check "  one page for all" files html \
        "cat.rollout.csv cat.rollout.npy dog.rollout.csv dog.rollout.npy index.html"
    check "  whole, with two pictures" page html/index.html 2
    check "  the memory is said, of all layers for the rollout" err_has "MiB for what is kept of 6 layers"
    check "  the arrays are those of a pass without it" cmp html/cat.rollout.npy maps/new/cat.rollout.npy
    bare -q -o html2 -b 2 --save html --layers 1,4 cat.ppm broken.png dog.ppm
    check "  in a batch the same page" cmp html/index.html html2/index.html
    bare -q -o html3 -m swin-cifar10 --method raw --query 20,9 --save html,npy cat.ppm
    check "a page beside a Swin's raw maps: exit 0" exits 0
    check "  whole" page html3/index.html 1
    bare -q -o html6 --save html --layers 1,4 cat.ppm
    bare -q -o html5 --save html,stats --layers 1,4 cat.ppm
    check "a page beside statistics: the same page" cmp html5/index.html html6/index.html
    check "  the same statistics" cmp html5/cat.rollout.stats.csv stats/cat.raw.stats.csv
    check "  the raw maps as without it" cmp html3/cat.raw.stage1.npy swin/cat.raw.stage1.npy
    bare -q -o html4 -m "$ref/vit_map.h5" --save html,npy cat.ppm
    check "a page of a head that attends itself: exit 0" exits 0
    check "  the same rollout" cmp html4/cat.rollout.npy map.npy
    many=(cat.ppm dog.ppm may june cat.ppm dog.ppm may june)
    bare -q -o html7 -b 1 --method gradient --class top2 --save html,npy "${many[@]}"
    bare -q -o html8 -b 16 --method gradient --class top2 --save html,npy "${many[@]}"
    check "a page of gradients, more pictures of a pass than classes: exit 0" exits 0
    check "  what it is one by one" diff -r html7 html8
    cp cat.ppm index.html
    bare -o . --save html ./index.html
    check "a page over an input: exit 2" exits 2
    check "  the input is as it was" cmp cat.ppm index.html
    rm index.html
fi

finish
