#!/bin/bash
# Tests of the built binary, over what a shell sees: rows, messages, exit statuses, files.
#   bash tests/cli.sh [build/vitrine]
# Makes its own images; closes with "N passed, N failed, N skipped".
. "$(dirname "$0")/check.sh"
ref=$tests/ref
standin=$(dirname "$bin")/tests/standin/libvitrine_cuda.so

# run ARGUMENT...: the program, its exit status in rc, its output in out and err.
run() {
    last="vitrine $*"
    "$bin" "$@" >"$work/out" 2>"$work/err"
    rc=$?
}
out_has() { grep -qF -- "$1" "$work/out"; }
same() { cmp "$1" "$2"; }
# column N of the last TSV, without the header, lines joined by a comma.
column() { tail -n +2 "$work/out" | cut -f "$1" | paste -sd, -; }
equal() {
    [ "$1" = "$2" ] && return
    printf '  got  %s\n  want %s\n' "$1" "$2"
    return 1
}

# ---- images ----------------------------------------------------------------------------------------

# ppm W H TEXT: a picture whose bytes repeat TEXT.
ppm() {
    printf 'P6\n%d %d\n255\n' "$1" "$2"
    yes "$3" | head -c $(($1 * $2 * 3))
}
jpeg='/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L
2u71////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4
+Pj4+Pj4+Pj4+Pj/wAARCAAQABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABAP/xAAXEAADAQAAAAAAAAAAAAAAAAAAAgNh
/8QAFQEBAQAAAAAAAAAAAAAAAAAAAAH/xAAWEQEBAQAAAAAAAAAAAAAAAAADAAL/2gAMAwEAAhEDEQA/ABJHBCRwukcEJHC6SCt//9k='
cmyk='/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNbXYW1hpCe
o6utq2eAvMm6pseZqKuk/8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABYAAQEBAAAAAAAAAAAAAAAAAAYEBf/EABQQAQAAAAAAAAAAAAAA
AAAAAAD/2gAOBEMATQBZAEsAAD8ARqGSQP/Z'
# 16 x 8, to be turned by a quarter (orientation 6): upright it is 8 x 16.
turned='/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDACgcHiMeGSgjISMt
KygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H////6/+b9//j/wAALCAAIABABAREA/8QAFQABAQAAAAAA
AAAAAAAAAAAAAAT/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/9oACAEBAAA/AJx//9k='
png16='iVBORw0KGgoAAAANSUhEUgAAAAQAAAAEEAAAAADcCh3hAAAALUlEQVR42mNgYHBgaGA4wMAgwBDAMIHhAgODAkMCwwKGBwwM
BgwFDBsYPjAAAHWkB4GEj1RCAAAAAElFTkSuQmCC'
# 4 x 4: two columns red and transparent, two blue and opaque.
rgba='iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAYAAACp8Z5+AAAAFUlEQVR42mP4z8DAAMJA8j8Yky4AAAllF+l9mJYqAAAAAElFTkSuQmCC'
unpack() { printf '%s' "$1" | tr -d '\n' | base64 -d; }

newline=$'-x y\nz.png'
mkdir case good none
unpack "$jpeg" | head -c 280 >case/a-truncated.jpg
: >case/b-empty.png
printf '<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n' >case/c-html.jpg
unpack "$png16" >case/d-sixteen.png
unpack "$cmyk" >case/e-cmyk.jpg
unpack "$png16" >"case/$newline"
ln -s nowhere case/f-dangling.jpg
unpack "$jpeg" >case/g-good.jpg
printf 'not an image, and not taken for one\n' >case/notes.txt
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do
    ppm $((5 + 3 * i)) $((40 - 2 * i)) "$(printf '%d picture \\%03o' "$i" $((33 + i)))" >"good/$(printf %02d "$i").ppm"
done
ppm 20 10 abcdefg >one.ppm
unpack "$turned" >turned.jpg
unpack "$rgba" >rgba.png

# ---- the program itself ----------------------------------------------------------------------------

run
check "no arguments: usage on stderr, exit 2" exits 2
check "  and nothing on stdout" empty out
check "  and the commands are named" err_has classify
run --help
check "--help: exit 0" exits 0
check "  on stdout" out_has "Usage: vitrine COMMAND"
check "  stderr is empty" empty err
run --version
check "--version: exit 0" exits 0
check "  names the version" out_has "vitrine "
check "  names the image formats" out_has "jpeg"
check "  names the device" out_has "device: cpu"
check "  names the embedded models" eval 'out_has vit-cifar10 && out_has swin-cifar10'
run clasify one.ppm
check "an unknown command: exit 2" exits 2
check "  the nearest is named" err_has "did you mean 'classify'?"
run --versoin
check "an unknown option before a command: exit 2" exits 2
for command in classify features attention inspect convert pull; do
    run $command --help
    check "$command --help: exit 0" exits 0
    check "  on stdout" out_has "Usage: vitrine $command"
    check "  no line over 100 columns" [ -z "$(awk 'length > 100' out)" ]
done

# Every option of the contract is in the help of the command that has it.
run classify --help
for option in '-m, --model MODEL' '-d, --device DEVICE' '-p, --precision P' '-t, --threads N' '-b, --batch N' \
    '-k, --topk N' '-f, --format F' '-o, --output FILE' '--output-type' '--image-size N|HxW' '--crop-pct F' \
    '--crop-mode center|squash|border' '--interpolation' bicubic bilinear nearest lanczos box hamming \
    '--mean R,G,B' '--std R,G,B' '--exif apply|ignore' '--alpha drop|#RRGGBB' '--max-pixels N' \
    '--on-error continue|stop' '-q, --quiet' '-v, --verbose' '--no-progress' '-h, --help' \
    '[vit-cifar10]' '[auto]' '[8 on cpu, 64 on cuda]' '[5]' '[text]' '[prob]' '[apply]' '[drop]' \
    '[178956970]' '[continue]'; do
    check "classify --help shows $option" out_has "$option"
done
run features --help
for option in --model --device --precision --threads --batch --image-size --crop-pct --crop-mode --interpolation \
    --mean --std --exif --alpha --max-pixels --on-error --output --quiet --verbose --no-progress; do
    check "features --help shows $option" out_has "$option"
done
run convert --help
for option in --output --arch --labels --dtype --preprocess --list-names --dry-run --activation; do
    check "convert --help shows $option" out_has "$option"
done
run pull --help
for option in --list --format --from --sha256 --force --keep --timeout --retries --quiet --no-progress \
    --arch --activation --labels --dtype --preprocess --license --key; do
    check "pull --help shows $option" out_has "$option"
done
# Behind the first column there are options, titles and what stands before and behind the table.
for command in classify features attention inspect convert pull; do
    run $command --help
    check "$command --help: no default begins a line of its own at the margin" \
        [ -z "$(sed -n '/^[A-Z].*:$/,/^Examples/p' out | grep -vE '^$|^[A-Z].*:$|^  +(-|  *)' )" ]
done

# ---- the folder of hard cases ----------------------------------------------------------------------

run classify -k 1 -f tsv case
check "the hard cases: exit 1" exits 1
check "  in the order of their paths" equal "$(column 1)" 'case/-x y\nz.png,case/a-truncated.jpg,case/b-empty.png,case/c-html.jpg,case/d-sixteen.png,case/e-cmyk.jpg,case/f-dangling.jpg,case/g-good.jpg'
check "  each good one its row, each bad one an error" equal "$(column 2)" ok,error,error,error,ok,ok,error,ok
check "  bad ones have no prediction" equal "$(awk -F'\t' '$2 == "error" {print $3 $4 $5 $6 $7}' out | tr -d '\n')" ""
check "  bad ones have a reason" [ -z "$(awk -F'\t' '$2 == "error" && $8 == ""' out)" ]
check "  the empty file says so" grep -q 'b-empty.png.*empty' out
check "  the page of HTML says so" grep -q 'c-html.jpg.*HTML' out
check "  the dangling link says so" grep -q 'f-dangling.jpg.*No such file' out
check "  the truncated one says so" grep -qiE 'a-truncated.jpg.*(truncated|ends|premature|cut)' out
check "  a line each, newlines in names or not" equal "$(wc -l <out | tr -d ' ')" 9
check "  stderr counts the failures" err_has "8 images, 4 failed"
check "  the reason does not repeat the path" [ -z "$(awk -F'\t' 'index($8, $1 ":")' out)" ]
run classify -q -k 1 -f tsv case
check "-q silences stderr" empty err
cp out batch8.tsv
for b in 1 2 3; do
    run classify -q -k 1 -f tsv -b $b -t $b case
    check "the hard cases by batches of $b, $b threads: the same bytes" same out batch8.tsv
done
for good in case/d-sixteen.png case/e-cmyk.jpg case/g-good.jpg; do
    run classify -q -k 1 -f tsv $good
    check "$good alone: the row it had in the batch" grep -qFx -- "$(tail -n 1 out)" batch8.tsv
done
run classify -k 1 -f jsonl case
check "jsonl: an object an image" equal "$(grep -c '^{"path":.*}$' out)" 8
run classify -k 1 -f json case
check "json: one array" equal "$(head -c 1 out)$(tail -n 1 out)" '[]'
if command -v jq >/dev/null; then
    check "  that jq reads" equal "$(jq -c '[.[].status]' out)" '["ok","error","error","error","ok","ok","error","ok"]'
    check "  the name with a newline is itself" equal "$(jq -r '.[0].path' out)" "case/$newline"
else
    skip "json read by another program" "no jq here"
fi
run classify -k 1 -f csv case
check "csv: the name with a newline is quoted" out_has '"case/-x y'
run classify -k 1 case
check "text: errors in their place" out_has '  error: '
check "  the newline is made visible" out_has 'case/-x y\nz.png'
(cd case && "$bin" classify -k 1 -f tsv -- "$newline" >"$work/out" 2>"$work/err")
rc=$?
check "a name with a dash in front, after --" exits 0
run classify -k 1 -f tsv --on-error stop case
check "--on-error stop: exit 1" exits 1
check "  ends after the first failed row" equal "$(column 2)" ok,error
for b in 1 5; do
    run classify -k 1 -f tsv --on-error stop -b $b -t 2 case
    check "  by batches of $b too" equal "$(column 2)" ok,error
done
run classify --on-error stop one.ppm
check "--on-error stop without a failure: exit 0" exits 0
run classify missing.jpg
check "one image that failed: stderr counts it" err_has "1 image, 1 failed"
check "  and has no rate" eval '! err_has images/s'
run classify -v case
check "-v names the failures on stderr" err_has "case/b-empty.png: "
check "  and the preprocessing" err_has "crop"

# ---- files nobody may read -------------------------------------------------------------------------

as_nobody=
if [ "$(id -u)" != 0 ]; then
    as_nobody=env
elif command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$bin"; then
    as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
if [ -n "$as_nobody" ]; then
    mkdir closed closed/folder
    cp one.ppm closed/a.ppm
    cp one.ppm closed/b.ppm
    cp one.ppm closed/folder/c.ppm
    cp one.ppm closed/z.ppm
    chmod 755 "$work" closed
    chmod 000 closed/b.ppm closed/folder
    last="vitrine classify closed, as a user who may not"
    $as_nobody "$bin" classify -k 1 -f tsv closed >out 2>err
    rc=$?
    check "an unreadable file and folder: exit 1" exits 1
    check "  their rows stand in their places" equal "$(column 1)" closed/a.ppm,closed/b.ppm,closed/folder/,closed/z.ppm
    check "  the others are classified" equal "$(column 2)" ok,error,error,ok
    check "  with the reason" equal "$(grep -c 'Permission denied' out)" 2
    chmod 755 closed/folder
else
    skip "unreadable files" "runs as root, and the program cannot be run as another user"
fi

# ---- inputs ----------------------------------------------------------------------------------------

run classify -q -f tsv good
cp out good.tsv
check "a folder: a row an image and rank" equal "$(wc -l <out | tr -d ' ')" 66
check "  sorted" equal "$(column 1)" "$(tail -n +2 good.tsv | cut -f 1 | sort | paste -sd, -)"
ls good/*.ppm >list
run classify -q -f tsv @list
check "@LIST: the same" same out good.tsv
sed 's/$/\r/' list >list-crlf
run classify -q -f tsv @list-crlf
check "@LIST with CRLF: the same" same out good.tsv
"$bin" classify -q -f tsv @- <list >out 2>err
check "@-: the same" same out good.tsv
"$bin" classify -q -f tsv $(cat list) >out 2>err
check "files one by one: the same" same out good.tsv
run classify -q -f tsv -k 1 one.ppm
sed 's/^one.ppm/-/' out >want
"$bin" classify -q -f tsv -k 1 - <one.ppm >out 2>err
check "-: an image on stdin" same out want
"$bin" classify -q -f tsv -k 1 - </dev/null >out 2>err
rc=$?
check "-: nothing on stdin is an error row" exits 1
check "  with the reason" out_has empty
run classify -f tsv none
check "a folder without images: exit 1" exits 1
check "  says so" out_has "the folder holds no image"
run classify -f tsv none one.ppm
check "  and what else was given is classified" equal "$(column 2)" error,ok,ok,ok,ok,ok
: >blank
run classify -f tsv @blank
check "an empty list: exit 1" exits 1
check "  says so" out_has "the list names no file"
run classify -f tsv missing.jpg one.ppm
check "a missing file: its row, the others theirs, exit 1" equal "$rc$(column 2)" 1error,ok,ok,ok,ok,ok
run classify - -
check "stdin twice: exit 2" exits 2
mkdir -p loop/in
cp one.ppm loop/in/
ln -s .. loop/in/up
run classify -q -k 1 -f tsv loop
check "a loop of links ends" equal "$rc$(column 1)" 0loop/in/one.ppm

# ---- numbers do not depend on how they were run ----------------------------------------------------

run classify -q -k 0 -f jsonl --output-type logit -b 1 -t 1 good one.ppm
cp out reference
for b in 1 3 8 64; do
    for t in 1 2 4; do
        run classify -q -k 0 -f jsonl --output-type logit -b $b -t $t good one.ppm
        check "batch $b, $t threads: the same bytes" same out reference
    done
done

# ---- every option ----------------------------------------------------------------------------------

while read -r options; do
    [ -z "$options" ] && continue
    run classify $options one.ppm
    check "classify $options" exits 0
    check "  gives a result" test -s out
done <<'END'
-m vit-cifar10
--model=vit-cifar10
-d cpu
--device auto
-p fp32 -d cpu
-t 1
--threads=2
-b 4
--batch 1
-k 1
--topk=10
-k 0
-k 1000
-f text
-f tsv
-f csv
-f json
--format jsonl
--output-type prob
--output-type logit
-o -
--crop-pct 0.5
--crop-mode center
--crop-mode squash
--crop-mode border
--interpolation bicubic
--interpolation bilinear
--interpolation nearest
--interpolation lanczos
--interpolation box
--interpolation hamming
--mean 0.5,0.5,0.5
--std 0.2,0.2,0.2
--exif apply
--exif ignore
--alpha drop
--alpha #ff0080
--max-pixels 200
--on-error continue
--on-error stop
-q
--quiet
-v
--verbose
--no-progress
-qk1 -ftsv
END
run classify -q -k 0 -f tsv one.ppm
check "-k 0: every class" equal "$(wc -l <out | tr -d ' ')" 11
check "  probabilities sum to 1" awk -F'\t' 'NR > 1 {s += $7} END {exit s < 0.99999 || s > 1.00001}' out
check "  best first" awk -F'\t' 'NR > 2 && $7 > p {bad = 1} {p = $7} END {exit bad}' out
check "  ranks from 1" equal "$(column 3)" 1,2,3,4,5,6,7,8,9,10
cp out whole
run classify -q -k 1000 -f tsv one.ppm
check "-k beyond the classes is all of them" same out whole
run classify -q -k 3 -f tsv one.ppm
head -n 4 whole >want
check "-k 3: the first three of them" same out want
run classify -q -k 1 -f jsonl turned.jpg
check "--exif apply: upright" out_has '"width":8,"height":16'
run classify -k 1 -f jsonl --exif ignore turned.jpg
check "--exif ignore: as stored" out_has '"width":16,"height":8'
check "  and says so" err_has "EXIF orientation that was ignored"
run classify -q -k 0 -f tsv rgba.png
cp out dropped
run classify -q -k 0 -f tsv --alpha '#00ff00' rgba.png
check "--alpha #00ff00 changes a picture with alpha" eval '! cmp -s out dropped'
run classify -q -k 0 -f tsv --alpha '#ff0000' rgba.png
check "--alpha of the colour beneath changes nothing" same out dropped
run classify -f tsv --max-pixels 199 one.ppm
check "--max-pixels: one pixel too many is refused" exits 1
check "  with both numbers" grep -qE '20 ?x ?10|200.*199' out
run classify -q -k 0 -f tsv --mean 0,0,0 one.ppm
check "--mean changes the numbers" eval '! cmp -s out whole'
run classify --image-size 64 -k 1 -f tsv one.ppm
check "--image-size: runs at another size" exits 0
check "  and says that positions were resampled" err_has resampled
run classify --image-size 33 one.ppm
check "--image-size that the patch does not divide: exit 2" exits 2
run classify -m no-such-model one.ppm
check "a model that is not there: exit 1" exits 1
check "  is named" err_has no-such-model
run classify -m one.ppm one.ppm
check "a model that is no model fails" [ $rc != 0 ]
run classify -d cuda one.ppm
check "-d cuda runs, or says why not" eval '[ $rc = 0 ] || err_has cuda'
for p in bf16 fp16 int8; do
    run classify -d cpu -p $p one.ppm
    check "-p $p runs, or is refused by name" eval '[ $rc = 0 ] || err_has $p'
done

# ---- wrong lines: exit 2, the option and the value named, help pointed to --------------------------

while IFS='|' read -r options want; do
    [ -z "$options" ] && continue
    eval "run classify $options"
    check "classify $options: exit 2" exits 2
    check "  says: $want" err_has "$want"
    check "  points to help" err_has "see 'vitrine classify --help'"
    check "  nothing on stdout" empty out
done <<'END'
-q|nothing to work on
--topk|option --topk needs a value
-k five one.ppm|option --topk: got 'five'
-k -1 one.ppm|option --topk: got '-1'
-k '' one.ppm|option --topk: got an empty value
-b 0 one.ppm|option --batch: got '0'
-t 1x one.ppm|option --threads: got '1x'
-d gpu one.ppm|option --device: got 'gpu'
-p fp8 one.ppm|option --precision: got 'fp8'
-f xml one.ppm|option --format: got 'xml'
--output-type odds one.ppm|option --output-type: got 'odds'
--image-size 224x one.ppm|option --image-size: got '224x'
--crop-pct 0 one.ppm|option --crop-pct: got '0'
--crop-mode middle one.ppm|option --crop-mode: got 'middle'
--interpolation cubic one.ppm|option --interpolation: got 'cubic'
--mean 1,2 one.ppm|option --mean: got '1,2'
--std 0,0,0 one.ppm|option --std: got '0,0,0'
--exif no one.ppm|option --exif: got 'no'
--alpha red one.ppm|option --alpha: got 'red'
--max-pixels -5 one.ppm|option --max-pixels: got '-5'
--on-error skip one.ppm|option --on-error: got 'skip'
--quiet=yes one.ppm|option --quiet takes no value
--topj 5 one.ppm|did you mean '--topk'?
-z one.ppm|unknown option '-z'
-o '' one.ppm|option --output: got an empty value
END

# ---- where results go ------------------------------------------------------------------------------

run classify -q -f tsv good -o result.tsv
check "-o: exit 0" exits 0
check "  nothing on stdout" empty out
check "  the file has what stdout would have" same result.tsv good.tsv
check "  nothing is left beside it" equal "$(ls result.tsv*)" result.tsv
run classify -q -f tsv case good -o result.tsv
check "-o over a file, with failures: exit 1" exits 1
check "  is replaced" grep -q b-empty result.tsv
echo precious >kept.tsv
run classify -q -m no-such-model good -o kept.tsv
check "-o of a run that cannot start: the file is untouched" equal "$(cat kept.tsv)" precious
check "  nothing is left beside it" equal "$(ls kept.tsv*)" kept.tsv
ln -s kept.tsv link.tsv
run classify -q -f tsv good -o link.tsv
check "-o through a link: it stays one, its target is written" eval '[ -L link.tsv ] && same kept.tsv good.tsv'
run classify good -o nowhere/result.tsv
check "-o into a missing folder: exit 1" exits 1
check "  is named" err_has nowhere/result.tsv
run classify good -o none
check "-o onto a folder: exit 1" exits 1
if [ -c /dev/full ]; then
    last="classify >/dev/full"
    "$bin" classify -q good >/dev/full 2>err
    rc=$?
    check "a full disk under stdout: exit 1" exits 1
    check "  says so" err_has "No space left on device"
    run classify -q good -o /dev/full
    check "a full disk under -o: exit 1" exits 1
    check "  says so" err_has "No space left on device"
    "$bin" --version >/dev/full 2>err
    rc=$?
    check "--version on a full disk: exit 1" exits 1
    "$bin" classify --help >/dev/full 2>err
    rc=$?
    check "--help on a full disk: exit 1" exits 1
else
    skip "a full disk" "no /dev/full here"
fi
run classify -q good -o /dev/null
check "-o /dev/null: exit 0, and it stays a device" eval '[ $rc = 0 ] && [ -c /dev/null ]'
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat list; done >long
last="classify | head -n 1"
"$bin" classify -q -k 0 -f jsonl @long 2>err | head -n 1 >out
check "a reader that leaves: it has its line" grep -q '^{"path":"good/01.ppm"' out
check "  and nothing is said" empty err
(
    trap '' PIPE
    "$bin" classify -q -k 0 -f jsonl @long 2>"$work/err"
    echo $? >"$work/status"
) | head -n 1 >out
rc=$(cat status)
check "  nor when the signal is ignored; exit 1" exits 1
check "  quietly" empty err

# ---- the other commands, as far as they can be tried without files ---------------------------------

run inspect vit-cifar10
check "inspect of the embedded model: exit 0" exits 0
check "  names the classes" out_has classes
for model in vit-cifar10 swin-cifar10 vit-fashion; do
    run inspect --verify $model
    check "inspect --verify $model: exit 0" exits 0
done
run features -o features.npy good
check "features: exit 0" exits 0
check "  an array of 13 rows" grep -qa "(13, " features.npy
run features -o features.npy nothing.jpg
check "features of a missing file: exit 1" exits 1
# The shape in the header of each kind of feature: 65 tokens (1 class, 64 patches) of 128.
for row in "pooled:(13, 128,)" "class:(13, 128,)" "average:(13, 128,)" "patches:(13, 64, 128,)" "all:(13, 65, 128,)"; do
    run features --tokens "${row%%:*}" -o kind.npy good
    check "features --tokens ${row%%:*}: exit 0" exits 0
    check "  shape ${row#*:}" grep -qaF "${row#*:}" kind.npy
done
run features --layer 0 --tokens class -o layer0.npy good
run features --layer 5 --tokens class -o layer5.npy good
check "features: another layer gives other numbers" differ layer0.npy layer5.npy
ppm 16 16 'a picture ' >one.ppm
run features -o rows.csv one.ppm missing.jpg
check "features to CSV with a missing file: exit 1" exits 1
check "  the good one has numbers" grep -q '^one.ppm,ok,,[-0-9]' rows.csv
check "  the missing one keeps its row" grep -q '^missing.jpg,error,' rows.csv
check "  and nothing else is lost: header and two rows" equal "$(wc -l <rows.csv)" 3
for wrong in "--layer 6" "--layer -2" "--tokens most" "-o features.xls" "--tokens pooled --layer 0" ""; do
    # shellcheck disable=SC2086
    run features $wrong ${wrong:+good}
    check "features $wrong: exit 2" exits 2
    check "  says where to look" err_has "--help"
done
run features -o nowhere/features.h5 good
check "features into a folder that is not there: exit 1" exits 1
check "  says the name that was given" err_has "nowhere/features.h5: No such file or directory"
run bench --rounds 1 --batch 1,2 --threads 1
check "bench: exit 0" exits 0
check "  a header and a row a batch" equal "$(wc -l <out)" 3
run bench --rounds 1 --batch 1 --threads 1 --image-size 64x48
check "bench --image-size: exit 0" exits 0
check "  the row says the size" out_has "	64x48	1	1	"
check "  and the most memory held" grep -qE '	[1-9][0-9]*\.[0-9]$' out
run bench --rounds 1 --batch 2 --threads 1 --end-to-end good
check "bench --end-to-end: exit 0" exits 0
check "bench --end-to-end: its columns" out_has 'decode_per_second	end_to_end_per_second	of_bound'
run bench --rounds 1 --end-to-end nowhere
check "bench --end-to-end of nothing: exit 1" exits 1
run bench --batch 0
check "bench --batch 0: exit 2" exits 2
run bench --image-size 0
check "bench --image-size 0: exit 2" exits 2
run inspect --tensors
check "inspect --tensors shows shapes" out_has "(384, 128)"
run inspect Makefile
check "inspect of what is no model: exit 1 or 2" [ "$rc" != 0 ]
# No output over an input, no HDF5 over a device; both leave what was there.
ppm 16 16 'a picture ' >over.ppm
cp over.ppm kept.ppm
run classify -o over.ppm over.ppm
check "classify -o over its input: exit 2" exits 2
check "  says so" err_has "would overwrite the input"
check "  leaves it" same kept.ppm over.ppm
run features -o over.ppm.csv over.ppm
check "features beside its input: exit 0" exits 0
mkfifo pipe.h5
run features -o pipe.h5 over.ppm
check "features -o a pipe named .h5: exit 2" exits 2
check "  leaves the pipe" [ -p pipe.h5 ]
run convert -o - nothing.safetensors
check "convert -o -: exit 1 or 2" [ "$rc" != 0 ]
check "  makes no file of that name" [ ! -e ./- ]
run bench --rounds 1 --batch 1 --threads 1
"$bin" bench --rounds 1 --batch 1 --threads 1 >/dev/full 2>err
check "bench onto a full disk: exit 1" equal $? 1
run classify -f tsv /dev/zero
check "a device instead of a file: exit 1" exits 1
check "  at once, by what it is" out_has "is a device"
# Links that fork: 2^20 ways down, each folder once.
mkdir fork
for i in $(seq 0 20); do
    mkdir "fork/$i"
    [ "$i" = 20 ] || { ln -s "../$((i + 1))" "fork/$i/x" && ln -s "../$((i + 1))" "fork/$i/y"; }
done
cp over.ppm fork/20/end.ppm
run classify -k 1 -f tsv fork/0
check "links that fork: exit 0" exits 0
check "  the one image, once" equal "$(tail -n +2 out | wc -l)" 1
run inspect -m vit-cifar10 vit-cifar10.h5
check "inspect of two models: exit 2 or 1" [ "$rc" != 0 ]
# No output over anything that is read; no waiting for a pipe.
onnx=$ref/containers
if [ -f "$onnx/vit_dynamo.onnx.data" ]; then
    cp "$onnx"/vit_dynamo.onnx* .
    cp vit_dynamo.onnx.data kept.data
    run convert vit_dynamo.onnx -o vit_dynamo.onnx.data
    check "convert over an ONNX file's weights: exit 2" exits 2
    check "  says so" err_has "would overwrite the input"
    check "  leaves them" same kept.data vit_dynamo.onnx.data
    run inspect vit_dynamo.onnx
    check "inspect of an ONNX file: exit 0" exits 0
    check "  its container" out_has "ONNX"
fi
mkdir folder
mkfifo folder/model.safetensors fifo.pth
for wrong in folder fifo.pth; do
    last="vitrine convert $wrong"
    timeout 10 "$bin" convert "$wrong" -o x.h5 >out 2>err
    rc=$?
    check "convert of a pipe, $wrong: exit 1 at once" exits 1
    check "  says what it is" err_has "no regular file"
done
mkfifo labels
last="vitrine convert --labels labels"
for wrong in labels /dev/zero; do
    timeout 10 "$bin" convert "$ref/containers/vit.safetensors" --labels "$wrong" -o x.h5 >out 2>err
    rc=$?
    check "convert --labels $wrong, no file: exit 1 at once" exits 1
    check "  says what it is" err_has "no regular file"
done
yes a | head -n 1000001 >many
run convert "$ref/containers/vit.safetensors" --labels ./many -o x.h5
check "convert --labels of a million lines and one: exit 1" exits 1
check "  says how many are taken" err_has "at most 1000000"
run convert nothing.safetensors -o x.h5
check "convert of a missing checkpoint: exit 1" exits 1
check "  is named" err_has nothing.safetensors
check "  leaves nothing" [ ! -e x.h5 ]

# ---- a conversion that ends early ------------------------------------------------------------------

mkdir early made
cp "$ref/containers/vit.safetensors" early/model.safetensors
echo '{"model_args": {"num_heads": 2}}' >early/config.json
rules="--preprocess crop_pct=1 --preprocess interpolation=bicubic --preprocess mean=0.5 --preprocess std=0.5"
for signal in TERM HUP; do
    "$bin" convert early $rules --preprocess input_size=1600 -q -o made/x.h5 2>err &
    made=$!
    for i in $(seq 200); do ls made | grep -q untested-.*h5$ && break; sleep 0.05; done
    check "convert: the self-test runs on a file beside" ls made/x.h5.untested-*
    kill -$signal $made
    wait $made
    rc=$?
    check "SIG$signal ends it" exits $((128 + $(kill -l $signal)))
    check "  leaves nothing" equal "$(ls made)" ""
done
for line in "$(printf 'a\nb')" "$(printf 'a\377')" "$(printf '%01001d' 0)"; do
    for option in license name; do
        run convert early $rules --$option "$line" -o made/x.h5
        check "--$option that is no line to be shown: exit 2" exits 2
        check "  names the option" err_has "option --$option: "
    done
done
(ulimit -f 4 && "$bin" convert early $rules -q -o made/x.h5) 2>err
rc=$?
check "convert beyond the size of files that is allowed: exit 1" exits 1
check "  says why, and of which file" err_has "made/x.h5: "
check "  leaves nothing" equal "$(ls made)" ""
check "  the reason" err_has "File too large"

# ---- checkpoints that are no models yet ------------------------------------------------------------

run inspect "$ref/torch_training.pth" --tensors
check "inspect of a PyTorch checkpoint: exit 0" exits 0
check "  what it is" out_has "torch_training.pth, PyTorch: no model yet"
check "  what was peeled off" out_has "taken from     model"
check "  what was left" out_has "optimizer (15 tensors)"
check "  a class by its name only" out_has "args (argparse.Namespace)"
check "  its tensors" equal "$(tr -s ' ' <out | grep steps)" " module.steps int64 (3)"
check "  their sum" out_has "values         25 in 6 tensors"
run inspect "$ref/torch_training.pth" --key model_ema
check "inspect --key: the other model" out_has "taken from     model_ema"
run inspect "$ref/torch_twins.pth"
check "inspect of two models: exit 2" exits 2
check "  names both" err_has "gan_a (1 tensors), gan_b (1 tensors)"
run convert "$ref/torch_twins_legacy.pth" -o x.h5
check "convert of two models: exit 2" exits 2
check "  leaves nothing" [ ! -e x.h5 ]
printf '\200\002\212\012l\374\234F\371 j\250P\031.\200\002M\351\003.\200\002}q\000X\015\000\000\000little_endian\210s.\200\002cos\nsystem\nU\005touch\205R.' >evil.pth
run convert evil.pth -o x.h5
check "convert of a file that calls os.system: exit 1" exits 1
check "  names it" err_has "its pickle calls os.system"

# ---- Swin models, and the table of parts -----------------------------------------------------------

# row NAME: the cells of that row of inspect's table, a blank between.
row() { sed -n "s/^$1  *//p" out | tr -s ' '; }
parts_sum() { awk '/^part / {on = 1} /^multiply-adds/ {on = 0} on && $NF == "M" {s += $(NF - 2)} END {print s}' out; }
run inspect vit-cifar10
check "inspect of a ViT: the embedding" equal "$(row 'patch embedding')" "8x8 64 - - - 128 - 14720 0.39 M"
check "  the blocks" equal "$(row blocks | tail -n 1)" "8x8 65 - - 4 128 6 1189632 83.17 M"
check "  the head" equal "$(row head)" "- - - - - 128 - 1546 0.00 M"
check "  the parts have all parameters" equal "$(parts_sum)" "$(row parameters | cut -d ' ' -f 1)"
run inspect "$ref/swin_v1_narrow.h5"
check "inspect of a Swin: exit 0" exits 0
check "  the family" out_has "(family swin)"
check "  the version" out_has "version        1: norms before"
check "  a stage whose map is lower than the window" equal "$(row 'stage 0')" "3x12 36 3x4 0,0x2 2 16 2 4588 0.18 M"
check "  the next stage" equal "$(row 'stage 1')" "2x6 12 2x4 0,0x2 4 32 2 19432 0.24 M"
check "  the parts have all parameters" equal "$(parts_sum)" "$(row parameters | cut -d ' ' -f 1)"
run inspect "$ref/swin_v2_small.h5"
check "inspect of a Swin v2: the version" out_has "version        2: norms behind"
check "  no shift where one window holds the map" equal "$(row 'stage 0' | cut -d ' ' -f 1-4)" "3x1 3 3x1 -"
swin=$ref/swin_v1.h5
run classify -k 0 -f tsv --output-type logit -m "$swin" good
check "classify with a Swin: exit 0" exits 0
check "  a row a class and image" equal "$(tail -n +2 out | wc -l | tr -d ' ')" 130
check "  nothing is said to be resampled" eval '! err_has resampled'
cp out whole
run classify -k 0 -f tsv --output-type logit -b 1 -t 2 -m "$swin" good
check "  the same bytes image by image, with two threads" same out whole
run classify --image-size 40x36 -m "$swin" one.ppm
check "  at another size whose windows fit: exit 0, nothing resampled" eval '[ $rc = 0 ] && ! err_has resampled'
run classify --image-size 8x20 -m "$swin" one.ppm
check "  at one with smaller windows: exit 0" exits 0
check "  says which bias tables were resampled" err_has "stage 0: 3x3 to 2x3, stage 1: 3x3 to 1x3"
run classify --image-size 8x20 -m "$ref/swin_v2.h5" one.ppm
check "  of a Swin v2 nothing is" eval '[ $rc = 0 ] && ! err_has resampled'
run classify --image-size 32x33 -m "$swin" one.ppm
check "  at one the patch does not divide: exit 2" exits 2
check "  names both sizes" err_has "32x33 is not a multiple of the patch size 4x4"
# 144 tokens of 16 in stage 0, 36 of 32 in stage 1.
for line in "--tokens pooled|(13, 32,)" "--tokens average|(13, 32,)" "--tokens patches|(13, 36, 32,)" \
    "--tokens all|(13, 36, 32,)" "--layer 3|(13, 32,)" "--layer 1 --tokens patches|(13, 144, 16,)" \
    "--layer 0|(13, 16,)" "--layer 2 --tokens all|(13, 36, 32,)"; do
    # shellcheck disable=SC2086
    run features -q -m "$swin" ${line%|*} -o swin.npy good
    check "features of a Swin, ${line%|*}: exit 0" exits 0
    check "  shape ${line#*|}" grep -qaF "${line#*|}" swin.npy
done
run features -m "$swin" --tokens class good
check "features --tokens class of a Swin: exit 2" exits 2
check "  says why" err_has "has no class token"
run features -m "$swin" --layer 4 good
check "features beyond the last block of a Swin: exit 2" exits 2
check "  names the layers" err_has "has layers 0 to 3"
run classify -q -m swin-cifar10 -k 1 -f tsv good
check "classify -m swin-cifar10: exit 0" exits 0
check "  a class of the ten for each" equal "$(tail -n +2 out | cut -f 4 | grep -c '^[0-9]$')" 13
run bench -m "$swin" --rounds 1 --batch 2 --threads 1
check "bench of a Swin: exit 0" exits 0
check "  its row" equal "$(tail -n 1 out | cut -f 1-5 | tr '\t' ' ')" "swin-v1 fp32 48x48 1 2"

# ---- several GPUs: the program beside a stand-in of the CUDA backend ---------------------------------

# gpu ARGUMENT...: as run, on a machine with two of them.
gpu() {
    last="vitrine $*"
    LD_LIBRARY_PATH=$work/gpu FAKE_CUDA_DEVICES=2 XDG_CACHE_HOME=$work "$work/gpu/vitrine" "$@" >"$work/out" 2>"$work/err"
    rc=$?
}
if [ -f "$standin" ]; then
    mkdir gpu
    cp "$bin" "$(dirname "$standin")"/* gpu/
    run classify -q -m "$ref/vit_token.h5" -d cpu -k 1 -f tsv good
    cp out cpu.tsv
    for device in cuda:1 cuda:0,1; do
        for batch in 64 2; do
            gpu classify -m "$ref/vit_token.h5" -d $device -p fp32 -b $batch -k 1 -f tsv good
            check "classify -d $device -b $batch: exit 0" exits 0
            check "  says which" err_has "cuda:1: Stand-in"
            check "  the CPU's classes" equal "$(column 5)" "$(tail -n +2 cpu.tsv | cut -f 5 | paste -sd, -)"
            check "  nothing was done that a device forbids" eval '! err_has fake_cuda'
        done
    done
    gpu features -m "$swin" -d cuda:0,1 -b 3 --tokens pooled -o gpu.npy good
    check "features -d cuda:0,1: exit 0" exits 0
    check "  shape (13, 32)" grep -qaF "(13, 32,)" gpu.npy
    gpu bench -m "$ref/vit_token.h5" -d cuda:0,1 -p bf16 --rounds 2 --batch 5 --threads 1
    check "bench -d cuda:0,1 -p bf16: exit 0" exits 0
    check "  its row" equal "$(tail -n 1 out | cut -f 2,5 | tr '\t' ' ')" "bf16 5"
    for precision in fp16 bf16 fp32; do
        gpu inspect --verify -p $precision swin-cifar10
        check "inspect --verify -p $precision on a GPU: exit 0" exits 0
    done
    gpu classify -d cuda:0,9 one.ppm
    check "classify -d cuda:0,9: exit 1" exits 1
    check "  names the one that is missing" err_has "device cuda:9: there are 2 devices"
else
    skip "several GPUs" "no stand-in (it needs a C++ compiler)"
fi
run classify -d cuda:0,0 one.ppm
check "classify -d cuda:0,0: exit 2" exits 2
check "  says what is wrong" err_has "cuda:0 is named twice"
for wrong in cuda: cuda:0, cuda:a gpu cuda:0,cpu; do
    run classify -d "$wrong" one.ppm
    check "classify -d $wrong: exit 2" exits 2
    check "  says what it takes" err_has "cuda:N,N"
done

finish
