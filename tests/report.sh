#!/bin/bash
# Tests of the page of `vitrine evaluate --report` in a real Chromium: it runs without a word on the console, asks no
# network, shows hostile names as text, answers mouse and keys, and fits 400 pixels, with 3 and with 1,000 classes.
#   bash tests/report.sh [build/vitrine]
# Closes with "N passed, N failed, N skipped".
. "$(dirname "$0")/check.sh"
. "$tests/browser.sh"
command -v python3 >/dev/null 2>&1 || skip_all report "no python3 here to make pictures"
browser_open report

# ---- pages ---------------------------------------------------------------------------------------------------------------
cat >make.py <<'PY'
import os, random
random.seed(7)
EVIL = '</script><img src=x onerror="document.documentElement.dataset.pwned=1">'
os.makedirs("flat")
with open("flat.tsv", "w") as labels:
    for n in range(30):
        name = ("<b onclick=alert(1)>&amp;%d.ppm" if n % 3 else "it's %d.ppm") % n
        open("flat/" + name, "wb").write(b"P6\n16 16\n255\n" + bytes(random.randrange(256) for _ in range(768)))
        labels.write("%s\t%s\n" % (name, EVIL if n == 29 else ("cat", "dog", "ship")[n // 10]))
open("flat/<i>broken.jpg", "wb").write(b"no picture")
open("flat.tsv", "a").write("<i>broken.jpg\tcat\n")
PY
cat >large.py <<'PY'
# The same page with the numbers of 1,000 classes.
import json, random, re
random.seed(3)
page = open("page.html").read()
head, text, tail = re.match(r'(.*id="data">)(.*?)(</script>.*)', page, re.S).groups()
data = json.loads(text)
confusion, classes, predicted = [], [], [0] * 1000
for c in range(1000):
    line = {c: 40}
    for _ in range(10):
        other = random.randrange(1000)
        line[other] = line.get(other, 0) + 1
    for k, n in line.items(): predicted[k] += n
    confusion.append([c] + [v for k in sorted(line) for v in (k, line[k])])
    classes.append(dict(index=c, id="n%08d" % c, label="class number %d" % (c // 2), images=50, correct=line[c], precision=.8, recall=line[c] / 50, f1=.8))
data.update(images=50000, classes=classes, confusion=confusion, class_count=1000,
            confused=[dict(target="n00000007", predicted="n00000900", images=9)], worst=[])
open("large.html", "w").write(head + json.dumps(data).replace("<", "\\u003c") + tail)
PY
# What a person would do; each answer as "name: text" in the page.
cat >act.html <<'PY'
<script>
const answers = {}, key = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const map = document.getElementById("map"), readout = () => document.getElementById("readout").textContent;
answers.rows = document.querySelectorAll("#class-table tbody tr").length;
document.querySelector("#class-table thead button").click();
answers.first = document.querySelector("#class-table tbody th").textContent;
document.getElementById("class-more").click();
answers.all = document.querySelectorAll("#class-table tbody tr").length;
const filter = document.getElementById("filter");
filter.value = " NUMBER 7"; filter.dispatchEvent(new Event("input"));
answers.found = document.querySelectorAll("#class-table tbody tr").length;
filter.value = ""; filter.dispatchEvent(new Event("input"));
const box = map.getBoundingClientRect();
map.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right - 0.1, clientY: box.bottom - 0.1}));
answers.hover = readout();
document.querySelector(".pair").click();
answers.pair = readout();
for (let i = 0; i < 2000; i++) key(map, i % 2 ? "ArrowUp" : "ArrowLeft");
answers.corner = readout();
key(map, "ArrowRight");
answers.right = readout();
for (const name of ["+", "+", "-", "0", "+", "+"]) key(map, name);
document.getElementById("wrong-only").click();
answers.drawn = new Set(new Uint32Array(map.getContext("2d").getImageData(0, 0, map.width, map.height).data.buffer)).size > 3;
answers.pictures = [...document.querySelectorAll("#gallery img")].filter(one => one.complete && one.naturalWidth === 16).length;
answers.images = document.images.length - document.querySelectorAll("#gallery img").length;
answers.asked = performance.getEntriesByType("resource").filter(one => !one.name.startsWith("data:")).length;
answers.links = [...document.querySelectorAll("[src], [href]")].filter(one => !/^(data:|#)/.test(one.getAttribute("src") || one.getAttribute("href"))).length;
document.body.append(Object.assign(document.createElement("pre"), {textContent: Object.entries(answers).map(([k, v]) => k + ": " + v).join("\n")}));
</script>
PY
# How wide it gets in a window of 400 pixels.
cat >narrow.html <<'PY'
<iframe id="frame" src="PAGE" style="border: 0; width: 400px; height: 2000px"></iframe><p id="wide"></p>
<script>frame.onload = () => {
  const page = frame.contentDocument.documentElement;
  wide.textContent = "width " + page.offsetWidth + ", over " + (page.scrollWidth - page.clientWidth);
}</script>
PY
python3 make.py || { echo "not ok - pictures could not be made"; exit 1; }
"$bin" evaluate -q -m vit-cifar10 --labels flat.tsv flat --report page.html -f json >page.json 2>said
check "the page is made" test -s page.html
python3 large.py
check "the page of 1,000 classes is below 3 MB" [ "$(stat -c %s large.html)" -lt 3000000 ]

# ---- in the browser ------------------------------------------------------------------------------------------------------
says() { grep -qxF -- "$1" text; }
text_has() { grep -qF -- "$1" text; }
value() { python3 -c 'import json,sys;print(sys.argv[2] % (100 * json.load(open("page.json"))[sys.argv[1]]))' "$1" '%.2f'; }
opened() {
    cat "$1" act.html >acted.html
    dom acted.html
    # The words of the page, its script and data left out, non-breaking spaces plain.
    python3 - <<'PY'
import html, re
text = re.sub(r"<(script|style)\b.*?</\1>", "", open("dom", encoding="utf-8").read(), flags=re.S)
text = re.sub(r"</(p|li|tr|dd|dt|div|h1|h2|h3|title)>|<pre>", "\n", text)
open("text", "w", encoding="utf-8").write(html.unescape(re.sub(r"<[^>]*>", "", text)).replace("\xa0", " "))
PY
    check "$2: its script came to the end" grep -q '<html[^>]* data-ready="yes"' dom
    check "$2: and without a fault" [ "$(grep -c '<html[^>]* data-error=' dom)" = 0 ]
    check "$2: nothing on the console" [ "$(grep -c CONSOLE said)" = 0 ]
    check "$2: nothing of a name is run" [ "$(grep -c data-pwned dom)" = 0 ]
    check "$2: no element out of a name" says "images: 0"
    check "$2: nothing is asked for" says "asked: 0"
    check "$2: no link leads out" says "links: 0"
    check "$2: the heat map is drawn" says "drawn: true"
    sed "s/PAGE/$1/" narrow.html >framed.html
    dom framed.html
    grep -o 'width [0-9]*, over .*<' dom >>said
    check "$2: fits 400 pixels" grep -qE 'width (3[78][0-9]|400), over 0<' dom
}
opened page.html "3 classes"
check "top-1 as in the summary" text_has "$(value top1) %"
check "top-5 as in the summary" text_has "$(value top5) %"
check "the label that is none, as text" text_has '</script><img src=x onerror="document.documentElement.dataset.pwned=1">'
check "a path as text" text_has "<b onclick=alert(1)>&amp;"
check "the failed file" text_has "<i>broken.jpg"
check "the command" text_has "vitrine evaluate -q -m vit-cifar10 --labels flat.tsv flat --report page.html -f json"
worst=$(python3 -c 'import json;print(len(json.load(open("page.json"))["worst"]))')
"$bin" --version | grep -q stb_image || worst=0
check "$worst pictures" says "pictures: $worst"
opened large.html "1,000 classes"
check "50 classes first" says "rows: 50"
check "sorted by name" says "first: class number 0 n00000000"
check "all on demand" says "all: 1000"
check "filtered" says "found: 22" # 7, 70 to 79; two classes share a name, and none is above 499
check "the last cell under the mouse" text_has "hover: class number 499 n00000999, told right: "
check "a pair leads into the map" text_has "pair: class number 3 n00000007 taken for class number 450 n00000900: "
check "keys lead to the corner" text_has "corner: class number 0 n00000000, told right: 4"
check "and along the first row" text_has "right: class number 0 n00000000 taken for class number 0 n00000001: "

finish
