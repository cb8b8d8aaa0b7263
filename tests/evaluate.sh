#!/bin/bash
# Tests of `vitrine evaluate`: one set of pictures in every form gives one set of predictions; a cut run that is
# resumed and shards that are merged end in the bytes of one whole run; broken pictures are counted, named, left out.
#   bash tests/evaluate.sh [build/vitrine]
# Makes its own pictures; closes with "N passed, N failed, N skipped".
. "$(dirname "$0")/check.sh"
command -v python3 >/dev/null 2>&1 || skip_all evaluate "no python3 here to make pictures"

run() {
    last="vitrine evaluate $*"
    "$bin" evaluate -q -m vit-cifar10 "$@" >out 2>err
    rc=$?
}
out_has() { grep -qE -- "$1" out; }
one_line() { [ "$(wc -l <err)" -le "${1:-1}" ]; }
# The numbers of a JSON summary, without times and what the dataset is called.
numbers() { python3 - "$1" <<'PY'
import json, sys
o = json.load(open(sys.argv[1]))
for k in ("seconds", "images_per_second", "dataset", "worst", "errors"): o.pop(k, None)
print(json.dumps(o, sort_keys=True))
PY
}
same_numbers() { [ "$(numbers "$1")" = "$(numbers "$2")" ]; }
# The rows of a .csv, without the lines that say what they are of and how many; without paths.
rows() { sed '1,2d;/^# end of [0-9]* images$/d' "$1"; }
told() { rows "$1" | cut -d, -f2-; }
same_rows() { [ "$(told "$1")" = "$(told "$2")" ]; }

# ---- pictures: 6 of each class, some smooth and some noise; in the order of the folder --------------------------------
cat >make.py <<'PY'
import io, os, random, struct, tarfile
random.seed(5)
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
pictures = []                                    # (class, name, 32x32x3 bytes)
for c in range(10):
    for n in range(6):
        a, b, e = random.random() * 8, random.random() * 8, random.random() * 90
        px = bytes(min(255, max(0, int(128 + 90 * ((x * a + y * b + 60 * ch) % 97 / 48 - 1) + random.gauss(0, e))))
                   for y in range(32) for x in range(32) for ch in range(3))
        pictures.append((c, "%02d.ppm" % n, px))
def ppm(px): return b"P6\n32 32\n255\n" + px
for c, name, px in pictures:
    os.makedirs("folder/" + CLASSES[c], exist_ok=True)
    open("folder/%s/%s" % (CLASSES[c], name), "wb").write(ppm(px))
def add(tar, name, data):
    info = tarfile.TarInfo(name); info.size = len(data); tar.addfile(info, io.BytesIO(data))
with tarfile.open("all.tar", "w") as t, tarfile.open("all.tar.gz", "w:gz") as z:
    for c, name, px in pictures:
        for x in (t, z): add(x, "test/%s/%s" % (CLASSES[c], name), ppm(px))
for s in range(2):
    with tarfile.open("shard-%03d.tar" % s, "w") as t:
        for i, (c, name, px) in enumerate(pictures[30 * s:30 * s + 30]):
            add(t, "%06d.ppm" % (30 * s + i), ppm(px)); add(t, "%06d.cls" % (30 * s + i), str(c).encode())
open("x-images-idx4-ubyte", "wb").write(struct.pack(">IIIII", 0x804, 60, 32, 32, 3) + b"".join(p[2] for p in pictures))
open("x-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, 60) + bytes(p[0] for p in pictures))
planes = lambda px: px[0::3] + px[1::3] + px[2::3]
open("test_batch.bin", "wb").write(b"".join(bytes([p[0]]) + planes(p[2]) for p in pictures))
open("flat.csv", "w").write("path,label\n" + "".join("%s/%s,%s\n" % (CLASSES[c], n, CLASSES[c]) for c, n, _ in pictures))
try:
    import h5py, numpy as np
    with h5py.File("all.h5", "w") as f:
        f["images"] = np.frombuffer(b"".join(p[2] for p in pictures), np.uint8).reshape(-1, 32, 32, 3)
        f["labels"] = np.array([p[0] for p in pictures])
except ImportError:
    pass
PY
python3 make.py || { echo "not ok - pictures could not be made"; exit 1; }

# ---- forms ---------------------------------------------------------------------------------------------------------------
run folder -k 3 --predictions folder.csv -f json -o folder.json
check "a folder a class" exits 0
check "says 60 images" grep -q '"images":[[:space:]]*60' folder.json
for form in all.tar all.tar.gz 'shard-{000..001}.tar' x-images-idx4-ubyte test_batch.bin; do
    run "$form" -k 3 --predictions other.csv -f json -o other.json
    check "$form: exit status" exits 0
    check "$form: the same predictions" same_rows folder.csv other.csv
    check "$form: the same numbers" same_numbers folder.json other.json
done
run folder --labels flat.csv -k 3 --predictions other.csv -f json -o other.json
check "a list: the same predictions" same_rows folder.csv other.csv
if [ -f all.h5 ]; then
    run all.h5 -k 3 --predictions other.csv -f json -o other.json
    check "HDF5: the same predictions" same_rows folder.csv other.csv
    check "HDF5: the same numbers" same_numbers folder.json other.json
else
    skip "evaluate of HDF5" "no h5py here"
fi
# What classify says of the same files.
"$bin" classify -q -m vit-cifar10 -k 3 -f csv folder >classified.csv
check "as classify" cmp -s <(sed 1d classified.csv | cut -d, -f1-8) <(rows folder.csv | cut -d, -f1-8)
run folder -b 1 -t 1 -k 3 --predictions other.csv
check "batch 1, one thread: the same bytes" cmp -s folder.csv other.csv
run folder
check "the summary for a person" out_has '^top-1 +[0-9.]+ %'
check "names the dataset" out_has '^dataset +folder \(folder\)'

mkdir one && cp -r folder/cat one/
"$bin" evaluate -m vit-cifar10 one >out 2>err
check "what a person should know is said" err_has "one: every image lies in one folder, 'cat'"
mkfifo pipe
last="evaluate --class-map pipe" rc=0
timeout 5 "$bin" evaluate -q -m vit-cifar10 --class-map pipe folder >out 2>err || rc=$?
check "a map that is a pipe is not waited for" exits 1

# ---- resume --------------------------------------------------------------------------------------------------------------
for form in csv tsv jsonl; do
    run folder -k 2 --predictions whole.$form -f json -o whole.json
    bytes=$(stat -c %s whole.$form)
    for cut in 0 1 40 $((bytes / 3)) $((bytes / 2 + 1)) $((bytes - 1)) $bytes; do
        head -c $cut whole.$form >cut.$form
        run folder -k 2 --predictions cut.$form --resume -f json -o cut.json
        check "$form cut at $cut: completed" exits 0
        check "$form cut at $cut: the same bytes" cmp -s whole.$form cut.$form
        check "$form cut at $cut: the same numbers" same_numbers whole.json cut.json
    done
done
run folder -k 2 --predictions none.csv --resume
check "nothing there to resume: a whole run" cmp -s none.csv whole.csv
run folder -k 3 --predictions cut.csv --resume
check "rows of another run are refused" exits 2
check "and told apart" err_has "cut.csv: holds rows of another run: its topk is 2, here it is 3"
run folder -k 2 --crop-pct 0.9 --predictions cut.csv --resume
check "another crop is another run" err_has "its preprocess is"
run all.tar -k 2 --predictions cut.csv --resume
check "another dataset is another run" err_has "its dataset is"
cp classified.csv alien.csv
run folder --predictions alien.csv --resume
check "rows of classify are no such file" err_has "alien.csv: is no file of rows that 'vitrine evaluate' wrote"
check "and are left alone" cmp -s classified.csv alien.csv

# ---- shards --------------------------------------------------------------------------------------------------------------
for i in 0 1 2; do
    run all.tar -k 2 --shard $i/3 --predictions part$i.csv
    check "shard $i of 3" exits 0
done
run all.tar -k 2 --predictions one.csv -f json -o one.json
run --merge part2.csv part0.csv part1.csv --predictions merged.csv -f json -o merged.json
check "merged" exits 0
check "merged: the bytes of one run" cmp -s one.csv merged.csv
check "merged: the numbers of one run" same_numbers one.json merged.json
run --merge one.csv -f json -o again.json
check "the numbers from rows alone" same_numbers one.json again.json
run --merge part0.csv part1.csv
check "a shard is missing" err_has "part0.csv: is shard 0 of 3, but 2 files are given"
run --merge part0.csv part1.csv part1.csv
check "a shard is there twice" err_has "part1.csv: is shard 1, as part1.csv is"
head -n -1 part1.csv | head -c -5 >short.csv
run --merge part0.csv short.csv part2.csv
check "a shard ends within an image" err_has "short.csv: ends within image 20"
for cut in 1 3 21; do
    head -n -$cut part1.csv >short.csv
    run --merge part0.csv short.csv part2.csv
    check "a shard lacks its last $cut lines: refused" exits 1
    check "a shard lacks its last $cut lines: said" err_has "--resume completes it"
done
head -n -21 one.csv >short.csv
run --merge short.csv
check "one file that is not finished" err_has "short.csv: is not finished"
(cat part1.csv; tail -n 5 part1.csv) >long.csv
run --merge part0.csv long.csv part2.csv
check "lines behind the end" err_has "long.csv: has lines behind the one that says its end"
(head -n -1 part1.csv; tail -n 5 part1.csv) >long.csv
run --merge part0.csv long.csv part2.csv
check "an image too many" err_has "long.csv: has more rows than the shards before it allow"
sed '5,6d' part1.csv >long.csv
run --merge part0.csv long.csv part2.csv
check "an image too few" err_has "its last line says 20 images, 19 are there"
sed '3,4d' one.csv >lacks.csv
run all.tar -k 2 --predictions lacks.csv --resume
check "rows with a gap are not resumed" exits 1
head -n -1 one.csv | sed '3,4d' >lacks.csv
run all.tar -k 2 --predictions lacks.csv --resume
check "nor without their last line: refused" exits 2
check "nor without their last line: said" err_has "lacks.csv: its image 1 is another one than the dataset's"
run --merge part0.csv part1.csv part2.csv --predictions part1.csv
check "a shard is not overwritten" exits 2

# ---- choosing ------------------------------------------------------------------------------------------------------------
run folder --limit 7 -k 1 --predictions few.csv
check "--limit: the first ones" cmp -s <(head -n 9 few.csv | sed 1,2d | cut -d, -f1) <(find folder -name '*.ppm' | sort | head -n 7)
run folder --limit 20 --shuffle-seed 3 -k 1 --predictions a.csv
run folder --limit 20 --shuffle-seed 3 -k 1 --predictions b.csv
check "--shuffle-seed: the same choice" cmp -s a.csv b.csv
check "of 20" [ "$(rows a.csv | wc -l)" = 20 ]
run folder --limit 20 --shuffle-seed 4 -k 1 --predictions b.csv
check "another seed, another choice" [ "$(sed 1,2d a.csv)" != "$(sed 1,2d b.csv)" ]
printf 'cat\ndog\n' >two.txt
run folder --classes-subset two.txt -k 0 --predictions b.csv
check "--classes-subset: only these are predicted" [ "$(rows b.csv | cut -d, -f5 | sort -u | tr '\n' ' ')" = "cat dog " ]
check "others are not counted" exits 1

# ---- classes -------------------------------------------------------------------------------------------------------------
cp -r folder odd && mv odd/cat odd/katze
run odd
check "a class that is none is listed" out_has "'katze' is no class of the model: 6 images"
check "and the status says so" exits 1
printf 'katze\tcat\n' >map.tsv
run odd --class-map map.tsv -f json -o other.json
check "--class-map" exits 0
check "--class-map: the same top-1" [ "$(python3 -c 'import json;print(json.load(open("other.json"))["top1"]==json.load(open("folder.json"))["top1"])')" = True ]

# ---- broken pictures -----------------------------------------------------------------------------------------------------
cp -r folder bad
head -c 500 folder/cat/00.ppm >bad/cat/07.ppm
: >bad/cat/08.jpg
echo "no picture at all" >bad/dog/00a.png
cp /dev/null bad/airplane/.hidden.jpg
run bad -k 3 --predictions bad.csv -f json -o bad.json
check "broken pictures: status" exits 1
check "counted" grep -qE '"failed":[[:space:]]*3' bad.json
check "named" [ "$(grep -c ',error,' bad.csv)" = 3 ]
check "the good ones as before" cmp -s <(rows folder.csv | cut -d, -f2-) <(rows bad.csv | grep -v ',error,' | cut -d, -f2-)
check "the numbers of the good ones" [ "$(python3 -c 'import json;a=json.load(open("bad.json"));b=json.load(open("folder.json"));print(all(a[k]==b[k] for k in ("top1","top5","ece","nll","macro_f1","confused","classes","bins")))')" = True ]
head -c 30000 all.tar >cut.tar
run cut.tar -k 1 --predictions cut2.csv
check "an archive that ends early: status" exits 1
check "an archive that ends early: its row" grep -q '^cut.tar,error' cut2.csv

# ---- the dataset goes, or the disk is full --------------------------------------------------------------------------------
run folder --image-size 160 -t 1 -b 1 -k 2 --predictions whole.csv
cp -r folder here
"$bin" evaluate -q -m vit-cifar10 here --image-size 160 -t 1 -b 1 -k 2 --predictions gone.csv >out 2>err &
last="evaluate of a folder that goes" rc=0
while [ "$(cat gone.csv 2>/dev/null | wc -l)" -lt 6 ] && kill -0 $! 2>/dev/null; do sleep 0.02; done
mv here there
wait $! || rc=$?
check "a folder that goes: status" exits 1
check "a folder that goes: said" err_has "here: is no longer there"
check "a folder that goes: one sentence" one_line
check "a folder that goes: its images have no rows" [ "$(grep -c ',error,' gone.csv)" = 0 ]
check "a folder that goes: the rows so far are kept" [ "$(wc -l <gone.csv)" -ge 6 ]
mv there here
run here --image-size 160 -t 1 -b 1 -k 2 --predictions gone.csv --resume
check "and comes back: completed" same_rows whole.csv gone.csv
mkdir empty && sed "s,^\([a-z]*/\),$PWD/folder/\1," flat.csv >far.csv && echo "$PWD/folder/none.png,cat" >>far.csv
run empty --labels far.csv -k 1 --predictions far_rows.csv
check "a list of files elsewhere: one is not there" [ "$(grep -c ',error,' far_rows.csv)" = 1 ]
ln -s /dev/full full.csv
run folder --predictions full.csv
check "a full disk: status" exits 1
check "a full disk: said" err_has "full.csv: cannot be written: No space left on device"

# ---- a signal -----------------------------------------------------------------------------------------------------------------
"$bin" evaluate -q -m vit-cifar10 folder --image-size 160 -t 1 -b 1 --predictions ended.csv -o ended.txt --report ended.html >out 2>err &
while [ "$(cat ended.csv 2>/dev/null | wc -l)" -lt 6 ] && kill -0 $! 2>/dev/null; do sleep 0.02; done
kill -TERM $!
wait $! 2>/dev/null
check "a run that is ended leaves its rows and no empty files" [ "$(echo ended*)" = ended.csv ]

# ---- two runs, one file ------------------------------------------------------------------------------------------------------
"$bin" evaluate -q -m vit-cifar10 folder --image-size 160 -t 1 -b 1 --predictions both.csv >out 2>err &
while [ "$(cat both.csv 2>/dev/null | wc -l)" -lt 6 ] && kill -0 $! 2>/dev/null; do sleep 0.02; done
run folder --predictions both.csv
check "another run writes it: status" exits 1
check "another run writes it: said" err_has "both.csv: is being written by another run"
wait $!
check "and ends as if alone" grep -q '^# end of 60 images$' both.csv

# ---- nothing is overwritten --------------------------------------------------------------------------------------------------
cp all.tar keep.tar && ln -s keep.tar keep.csv && cp two.txt keep.txt && cp folder/cat/00.ppm keep.ppm
spares() { # INPUT ARGUMENT...: refused, and the input is as it was
    local before
    before=$(cksum <"$1")
    run "${@:2}"
    check "spares ${*:2}: status" exits 2
    check "spares ${*:2}: the file" [ "$before" = "$(cksum <"$1")" ]
}
for option in -o --confusion --report; do
    spares keep.tar keep.tar $option keep.tar
    spares keep.txt folder --classes-subset keep.txt $option keep.txt
    spares map.tsv folder --class-map map.tsv $option map.tsv
    spares flat.csv folder --labels flat.csv $option flat.csv
    spares one.csv --merge one.csv $option one.csv
    spares keep.ppm folder $option keep.ppm
done
spares keep.tar keep.tar --predictions keep.csv
for pair in "-o z.csv --confusion z.csv" "-o z.csv --report ./z.csv" "--confusion z.csv --predictions $PWD/z.csv"; do
    # shellcheck disable=SC2086
    run folder $pair
    check "$pair: refused" exits 2
    check "$pair: said" err_has "are one file, for two results"
    check "$pair: not begun" [ ! -e z.csv ]
done
mkfifo waits.csv
timeout 20 "$bin" evaluate -q -m vit-cifar10 folder --predictions waits.csv >out 2>err
check "rows into a pipe that nobody reads: not waited for" [ $? != 124 ]

# ---- nothing to count --------------------------------------------------------------------------------------------------------
mkdir -p none/katze && cp folder/cat/00.ppm none/katze/ && cp folder/cat/01.ppm none/katze/
run none -f json -o none.json
check "no class of the model's: no numbers" [ "$(python3 -c 'import json;o=json.load(open("none.json"));print(o["top1"],o["nll"],o["ece"],o["macro_f1"])')" = "None None None None" ]
run none
check "no class of the model's: said" out_has '^top-1 +- '
printf 'x' >none/katze/00.ppm && printf 'x' >none/katze/01.ppm
mkdir -p "odd2/$(printf 'ev\033[31mil\ny')" && cp folder/cat/0*.ppm odd2/ev*/ && cp -r folder/dog odd2/
run odd2
check "control bytes of a class are shown by number" out_has 'ev.x1B.31mil.x0Ay'

# ---- the confusion matrix ------------------------------------------------------------------------------------------------
run folder --confusion matrix.csv
check "--confusion: a line a class" [ "$(wc -l <matrix.csv)" = 11 ]
check "--confusion: 60 images" [ "$(python3 -c 'import csv;print(sum(int(v) for r in list(csv.reader(open("matrix.csv")))[1:] for v in r[1:]))')" = 60 ]

# ---- the report ----------------------------------------------------------------------------------------------------------
# A block of a page; of its data without what is of the single run.
block() { python3 - "$@" <<'PY'
import json, re, sys
page = open(sys.argv[1]).read()
o = json.loads(re.search(r'id="%s">(.*?)</script>' % sys.argv[2], page, re.S).group(1))
if sys.argv[2] == "data":
    for k in ("seconds", "images_per_second", "dataset", "run"): o.pop(k, None)
    if len(sys.argv) > 3: o = {k: o.get(k) for k in json.load(open(sys.argv[3])) if k not in ("seconds", "images_per_second", "dataset")}
print(json.dumps(o, sort_keys=True))
PY
}
same_page() { [ "$(block "$1" data)" = "$(block "$2" data)" ] && same_pictures "$1" "$2"; }
same_pictures() { [ "$(block "$1" pictures)" = "$(block "$2" pictures)" ]; }
run folder -k 3 --predictions other.csv --report page.html -f json -o page.json
check "--report" exits 0
check "--report: the numbers of --format json" [ "$(block page.html data page.json)" = "$(python3 -c 'import json
o = json.load(open("page.json"))
for k in ("seconds", "images_per_second", "dataset"): o.pop(k)
print(json.dumps(o, sort_keys=True))')" ]
check "--report: the rows stay the same" cmp -s folder.csv other.csv
check "--report: nothing else is left there" [ "$(echo page.html*)" = page.html ]
check "--report: the command" grep -qF "vitrine evaluate -q -m vit-cifar10 folder -k 3 --predictions other.csv --report page.html" page.html
check "--report: no address but a namespace" [ "$(grep -oE '(https?:)?//[a-z0-9.-]+\.[a-z]+' page.html | sort -u)" = "http://www.w3.org" ]
pictures=$(block page.html pictures | grep -o 'data:image/png' | wc -l)
if "$bin" --version | grep -q stb_image; then
    check "--report: a picture an error" [ "$pictures" = "$(python3 -c 'import json;print(len(json.load(open("page.json"))["worst"]))')" ]
else
    skip "pictures of --report" "a build without stb"
fi
head -c $(($(stat -c %s other.csv) / 2)) other.csv >cut.csv
run folder -k 3 --predictions cut.csv --resume --report resumed.html
check "--report of a resumed run: the same page" same_page page.html resumed.html
for form in all.tar all.tar.gz 'shard-{000..001}.tar' x-images-idx4-ubyte test_batch.bin $(ls all.h5 2>/dev/null); do
    run "$form" -k 3 --report other.html
    check "--report of $form: the same pictures" same_pictures page.html other.html
done
run folder --labels flat.csv --report other.html
check "--report of a list: the same pictures" same_pictures page.html other.html
run --merge folder.csv --report other.html
check "--report of merged rows: pictures by their paths" same_page page.html other.html
run all.tar --report page.html
run --merge part0.csv part1.csv part2.csv --report-data all.tar --report other.html
check "--report of shards: exit status" exits 0
check "--report of shards: the same pictures" same_pictures page.html other.html
run --merge part0.csv part1.csv part2.csv --report other.html
check "--report without the pictures" [ "$(block other.html pictures | grep -c data:)" = 0 ]
check "--report without the pictures: says why" [ "$(block other.html data | grep -o '"missing": "[^"]*"' | sort -u)" = '"missing": "Not a directory"' ]
run --merge part0.csv part1.csv part2.csv --report-data folder --report other.html
check "--report-data of other rows" [ "$(block other.html data | grep -c 'is not the one of the rows')" = 1 ]
run all.tar --shard 1/3 --report other.html
check "--report of a shard says so" [ "$(block other.html data | grep -c '"shard": 1, "shards": 3')" = 1 ]
cp page.html was.html
run folder -k 2 --predictions other.csv --resume --report page.html
check "--report of a run that is refused: the page that was there" cmp -s page.html was.html
check "and nothing beside it" [ "$(echo page.html*)" = page.html ]
run cut.tar --report broken.html
check "--report of broken data: the failed one" [ "$(block broken.html data | grep -o '"path": "cut.tar"' | wc -l)" = 1 ]

# ---- refusals ------------------------------------------------------------------------------------------------------------
refuses() { # NAME SENTENCE ARGUMENT...: exit 2 or 1, one sentence (and where to read more)
    local name=$1 sentence=$2
    shift 2
    run "$@"
    check "$name: refused" [ "$rc" != 0 ]
    check "$name: why" err_has "$sentence"
    check "$name: briefly" one_line 2
}
refuses "no dataset" "a dataset" -k 3
refuses "two datasets" "one dataset at a time" folder odd
refuses "nothing there" "nowhere" nowhere
refuses "--resume alone" "--resume goes on with the rows of --predictions" folder --resume
refuses "--shuffle-seed alone" "--limit" folder --shuffle-seed 3
refuses "--shuffle-seed of a stream" "not known beforehand" all.tar --limit 3 --shuffle-seed 3
refuses "a shard beyond" "I from 0 to N-1" folder --shard 3/3
refuses "a form of rows" "rows.txt: want a name that ends in .csv, .tsv or .jsonl" folder --predictions rows.txt
refuses "a flat folder" "--labels" folder/cat
refuses "no such folder for rows" "nowhere/rows.csv" folder --predictions nowhere/rows.csv
refuses "no such folder for the report" "nowhere/page.html: cannot be written" folder --report nowhere/page.html --predictions never.csv
check "and nothing was run" [ ! -e never.csv ]
refuses "a report on stdout" "--report wants a file" folder --report -
refuses "a folder as report" "cannot be written" folder --report odd
refuses "a report over the dataset" "would overwrite the input all.tar" all.tar --report all.tar
refuses "a report over the rows" "would overwrite the input folder.csv" --merge folder.csv --report folder.csv
refuses "--report-data alone" "--report-data is for --report with --merge" folder --report-data folder
refuses "--report-data that is none" "nowhere: No such file" --merge folder.csv --report other.html --report-data nowhere
refuses "a map without its file" "nofile.tsv" folder --class-map nofile.tsv
refuses "a subset without its file" "nofile.tsv" folder --classes-subset nofile.tsv

finish
