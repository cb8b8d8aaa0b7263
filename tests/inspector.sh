#!/bin/bash
# Tests of the page of `vitrine attention --save html` in a real Chromium: it opens from a disk without a word on the
# console, a click shows the row that the .npy of `--method raw --query all` holds, layers, heads and pictures switch,
# hostile names stay text, two classes are compared as `--method gradient` has them, fingers tap and scroll, and it fits
# 400 pixels; of a ViT, and of a Swin whose windows are shifted and padded.
#   bash tests/inspector.sh [build/vitrine]
# Closes with "N passed, N failed, N skipped".
. "$(dirname "$0")/check.sh"
. "$tests/browser.sh"
ref=$tests/ref
command -v python3 >/dev/null 2>&1 || skip_all inspector "no python3 here to make pictures"
"$bin" --version | grep -q stb_image || skip_all inspector "no stb_image here to write pictures"
browser_open inspector

# ---- pages ---------------------------------------------------------------------------------------------------------------
cat >make.py <<'PY'
import math
for name, w, h, seed in (("a", 50, 40, 1), ("b<img src=x onerror=document.documentElement.dataset.pwned=1>", 30, 44, 2)):
    pixels = bytes(int(128 + 120 * math.sin((x * (seed + c) + y * y / (seed + 1)) / 9))
                   for y in range(h) for x in range(w) for c in range(3))
    open(name + ".ppm", "wb").write(b"P6\n%d %d\n255\n" % (w, h) + pixels)
PY
python3 make.py || { echo "not ok - pictures could not be made"; exit 1; }
# What a person would do. Each row looked at is a line: layer, head or fusion, query, the map's cells, those in front; each
# map of a comparison: what it is (first, second, difference), the classes' names, its cells.
cat >act.html <<'PY'
<script>
const answers = [], rows = [], compared = [];
const press = key => dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const pause = () => new Promise(resolve => setTimeout(resolve, 10));
/* Until what was asked for last is drawn. */
async function shown(ask) {
  state.read = null;
  ask();
  for (let i = 0; i < 500 && !state.read; i++) await pause();
  return state.read;
}
const slide = (id, value) => () => { $(id).value = value; $(id).dispatchEvent(new Event("input")); };
const pixels = () => $("view").toDataURL();
/* A pointer event at a cell's middle, moved on by some pixels. */
function send(type, row, column, {view = $("view"), kind = "mouse", down = 0} = {}) {
  const grid = state.read?.grid ?? layer(), [x0, y0, x1, y1] = grid.box, box = view.getBoundingClientRect();
  const scale = Math.min(box.width / view.width, box.height / view.height);
  view.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerType: kind,
    clientX: box.left + scale * view.width * (x0 + (column + .5) * (x1 - x0) / grid.columns),
    clientY: down + box.top + scale * view.height * (y0 + (row + .5) * (y1 - y0) / grid.rows)}));
}
const click = (row, column) => send("pointerdown", row, column);
const tap = (row, column) => ["pointerdown", "pointerup"].forEach(type => send(type, row, column, {kind: "touch"}));
const visible = () => [...document.querySelectorAll("#views figure:not([hidden])")];
const text = id => $(id).textContent;
/* The colour of the middle of a cell of the first view. */
function color(at) {
  const {grid} = state.read, [x0, y0, x1, y1] = grid.box, view = $("view"), one = document.createElement("canvas").getContext("2d");
  one.drawImage(view, -Math.round(view.width * (x0 + (at % grid.columns + .5) * (x1 - x0) / grid.columns)),
    -Math.round(view.height * (y0 + (Math.floor(at / grid.columns) + .5) * (y1 - y0) / grid.rows)));
  return [...one.getImageData(0, 0, 1, 1).data];
}
const bar = () => [text("low"), text("high")].join(" ").replaceAll("\u2212", "-");
function noteMaps() {
  const {map, other, maps, views} = state.read, names = maps.map(one => one.class.label).join(", ");
  for (const [what, values] of [["first", map], ["second", other], ...(state.difference ? [["difference", views[0].values]] : [])])
    compared.push([what, names, [...values].join()].join(": "));
}
/* Two classes: beside each other, hovered over, swapped, their difference, then a patch by a finger. */
async function compare() {
  await shown(() => $("shown").children[0].click());
  answers.push("compare with: " + [...$("second").options].map(one => one.text).join(", "));
  answers.push("first chosen: " + $("second").selectedOptions[0].text);
  await shown(() => press("x"));
  noteMaps();
  const boxes = visible().map(one => one.lastChild.getBoundingClientRect());
  answers.push("beside: " + visible().map(one => one.firstChild.textContent).join(", "));
  answers.push("side by side: " + (boxes.length === 2 && boxes[0].top === boxes[1].top && boxes[0].right < boxes[1].left));
  compared.push("bar: " + bar());
  for (const view of [$("view"), $("beside")]) {
    send("pointermove", 1, 2, {view});
    compared.push("hover: " + text("says"));
    send("pointerleave", 1, 2, {view});
    answers.push("left: " + text("says"));
  }
  await shown(() => press("x"));
  noteMaps();
  compared.push("bar: " + bar());
  await shown(() => $("ways").querySelectorAll("button")[1].click());
  await shown(slide("opacity", 100));
  await shown(() => $("smooth").click());
  noteMaps();
  compared.push("difference bar: " + bar());
  send("pointermove", 1, 2);
  compared.push("hover: " + text("says").replace("\u2212", "-"));
  send("pointerleave", 1, 2);
  const {values} = state.read.views[0], most = values.indexOf(Math.max(...values)), least = values.indexOf(Math.min(...values));
  answers.push("words: " + [text("more_low"), text("middle"), text("more_high")].join("; "));
  answers.push("more of the first is orange: " + (color(most)[0] > color(most)[2]));
  answers.push("more of the second is blue: " + (color(least)[0] < color(least)[2]));
  await shown(() => press("-"));
  /* A finger that scrolls leaves all as it is; one that taps asks. */
  const before = JSON.stringify(state.query);
  send("pointerdown", 1, 1, {kind: "touch"});
  answers.push("held: " + /^row 1, column 1: /.test(text("says")));
  send("pointermove", 1, 1, {kind: "touch", down: 50});
  send("pointercancel", 1, 1, {kind: "touch", down: 50});
  send("pointerdown", 1, 1, {kind: "touch"});
  send("pointerup", 1, 1, {kind: "touch", down: 50});
  await pause();
  answers.push("a finger that moves: " + (whole() && before === JSON.stringify(state.query) ? "asks nothing" : "asks"));
  answers.push("touch-action: " + getComputedStyle($("beside")).touchAction);
  note(await shown(() => tap(1, 1)));
  answers.push("views after a tap: " + visible().length);
  await shown(() => press("x"));
}
const note = ({map, front, query}) => rows.push(
  [state.layer, state.fusion === "head" ? state.head : state.fusion, query, [...map].join(), [...front].join()].join(" "));
(async () => {
  for (let i = 0; i < 500 && !state.read; i++) await pause();
  answers.push("first: " + $("shown").querySelector("[aria-pressed=true]").textContent);
  answers.push("rollout: " + [...state.read.map].join());
  answers.push("classes: " + [...$("classes").children].map(one => one.textContent).join(", "));
  answers.push("tokens: " + [...$("tokens").children].map(one => one.textContent).join(", "));
  answers.push("layers: " + picture().layers.map(one => one.name + " " + one.heads).join(", "));
  const whole = pixels();
  note(await shown(() => click(1, 2)));
  answers.push("another picture: " + (pixels() !== whole));
  for (let l = 0; l < picture().layers.length; l++) {
    await shown(slide("layer", l));
    await shown(() => $("fusion").children[0].click());
    note(await shown(slide("head", layer().heads - 1)));
    note(await shown(() => click(layer().rows - 1, layer().columns - 1)));
    note(await shown(() => click(0, 0)));
    note(await shown(() => $("heads").children[0].click()));
    note(await shown(() => press("d")));
    if ($("tokens").children.length) note(await shown(() => $("tokens").children[0].click()));
    await shown(() => click(1, 1));
    for (const fusion of [1, 2, 3]) note(await shown(() => $("fusion").children[fusion].click()));
  }
  if (classMaps().length > 1) await compare();
  answers.push("compared: " + !$("comparison").hidden + ", " + [...document.querySelectorAll(".of_classes")].some(one => !one.hidden));
  if (classMaps().length < 2) press("x");
  const asked = [state.shown, state.second].join();
  await shown(() => press("n"));
  answers.push("kept in the next picture: " + (asked === [state.shown, state.second].join()));
  answers.push("title: " + $("title").textContent);
  answers.push("images: " + document.images.length);
  answers.push("asked: " + performance.getEntriesByType("resource").filter(one => !one.name.startsWith("data:")).length);
  answers.push("links: " + document.querySelectorAll("[src], [href]").length);
  answers.push("done");
})().catch(error => answers.push("error: " + error)).finally(() => {
  for (const [id, lines] of Object.entries({answers, rows, compared}))
    document.body.append(Object.assign(document.createElement("pre"), {id, textContent: lines.join("\n")}));
});
</script>
PY
cat >narrow.html <<'PY'
<iframe id="frame" src="PAGE" style="border: 0; width: 400px; height: 2000px"></iframe><p id="wide"></p>
<script>
const over = page => page.scrollWidth - page.clientWidth;
frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument.documentElement;
  wide.textContent = "width " + page.offsetWidth + ", over " + over(page);
  frame.contentWindow.dispatchEvent(new KeyboardEvent("keydown", {key: "x"}));
  setTimeout(() => {
    const [first, second] = [...page.querySelectorAll(".view")].map(one => one.getBoundingClientRect());
    wide.textContent += "; compared: over " + over(page) + ", stacked " + (second.width > 300 && first.bottom < second.top);
  }, 500);
}, 500)</script>
PY
# The rows of the page against the arrays: compare.py FOLDER, the stem of a's files in it.
cat >compare.py <<'PY'
import array, ast, html, re, sys
folder, levels = sys.argv[1], 47
def npy(path):
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[8:10], "little")
    return ast.literal_eval(raw[10:10 + size].decode())["shape"], array.array("f", raw[10 + size:])
page = open("dom", encoding="utf-8").read()
def lines(which):
    return html.unescape(re.search(r'<pre id="%s">(.*?)</pre>' % which, page, re.S).group(1)).split("\n")
bad = 0
for line in lines("rows"):
    layer, head, query, *numbers = line.split(" ")
    cells = [float(x) for x in numbers[0].split(",")]
    front = [float(x) for x in numbers[1].split(",")] if numbers[1] else []
    (heads, tokens, keys), values = npy("%s/a.raw.layer%s.npy" % (folder, layer))
    at = lambda h: values[(h * tokens + int(query)) * keys:(h * tokens + int(query) + 1) * keys]
    rows = [at(int(head))] if head.isdigit() else [at(h) for h in range(heads)]
    join = {"max": max, "min": min}.get(head, lambda column: sum(column) / len(column))
    p = len(front)
    for part, got in ((slice(0, p), front), (slice(p, keys), cells)):
        # Half a step of each head's own greatest value; its scale is within 2^(1/4096).
        slack = max([max(row[part], default=0) for row in rows], default=0) * (0.5 / levels + 0.0004) + 1e-9
        want = [join(column) for column in zip(*(row[part] for row in rows))]
        if len(want) != len(got) or any(abs(a - b) > slack for a, b in zip(want, got)):
            bad += 1
            print("  layer %s, head %s, query %s: %s" % (layer, head, query, got[:4]))
shape, want = npy("%s/a.rollout.npy" % folder)
got = next(line for line in lines("answers") if line.startswith("rollout: "))[9:]
if any(abs(a - float(b)) > 1e-7 for a, b in zip(want, got.split(","))): bad += 1
# Two classes: each map is its array, the difference theirs, and what is said of a cell is in them, to three digits.
def near(name, text, wanted):
    global bad
    got = [float(x) for x in text]
    if len(got) != len(wanted) or any(abs(a - b) > 0.006 * abs(b) + 5e-7 for a, b in zip(got, wanted)):
        bad += 1
        print("  %s: %s, want %s" % (name, got, wanted))
def of_class(name):
    (down, across), values = npy("%s/a.gradient.class%s.npy" % (folder, name.split(" ")[1]))
    return across, list(values)
pair, number = [], r"-?[0-9][-0-9.e]*"
for line in lines("compared"):
    what, rest = line.split(": ", 1)
    if what in ("first", "second", "difference"):
        names, cells = rest.split(": ")
        pair = [of_class(name) for name in names.split(", ")]
        both = [values for across, values in pair]
        apart = [a - b for a, b in zip(*both)]
        want = {"first": both[0], "second": both[1], "difference": apart}[what]
        got = [float(x) for x in cells.split(",")]
        if len(got) != len(want) or any(abs(a - b) > 1e-7 for a, b in zip(got, want)):
            bad += 1
            print("  %s of %s: %s, want %s" % (what, names, got[:4], want[:4]))
    elif what == "hover":
        at = pair[0][0] + 2
        near(line, re.findall("(?:: |, |difference )(%s)(?= for|$)" % number, rest),
             [values[at] for values in both] + ([apart[at]] if "difference" in rest else []))
        if not rest.startswith("row 1, column 2: ") or rest.count(" for class ") != 2: bad += 1
    else:
        ends = [min(map(min, both)), max(map(max, both))]
        most = max(map(abs, apart))
        near(line, re.findall(number, rest), ends if what == "bar" else [-most, most])
print("%d rows, %d maps compared, %d wrong" % (len(lines("rows")), len(lines("compared")), bad))
sys.exit(bad > 0 or len(lines("rows")) < 10)
PY

# ---- in the browser ------------------------------------------------------------------------------------------------------
answer() {
    python3 - "$1" <<'PY'
import html, re, sys
page = open("dom", encoding="utf-8").read()
found = re.search(r'<pre id="answers">(.*?)</pre>', page, re.S)
lines = html.unescape(found.group(1)).split("\n") if found else []
sys.exit(0 if sys.argv[1] in lines else print("  answers: " + "\n  ".join(line[:200] for line in lines)) or 1)
PY
}
opened() { # NAME MODEL LAYERS: the page and the arrays of one model, in the folder NAME
    "$bin" attention -q -m "$2" --save html,npy -o "$1" ./*.ppm 2>said
    check "$1: the page is made beside the arrays" test -s "$1/index.html"
    "$bin" attention -q -m "$2" --method raw --query all --save npy -o "$1" a.ppm 2>said
    "$bin" attention -q -m "$2" --method gradient --class top2 --save npy -o "$1" a.ppm 2>said
    cat "$1/index.html" act.html >acted.html
    dom acted.html
    check "$1: what was asked for came" answer "done"
    check "$1: nothing on the console" [ "$(grep -c CONSOLE said)" = 0 ]
    check "$1: nothing of a name is run" [ "$(grep -c data-pwned dom)" = 0 ]
    check "$1: no element out of a name" answer "images: 0"
    check "$1: nothing is asked for" answer "asked: 0"
    check "$1: no link leads out" answer "links: 0"
    check "$1: the rollout first" answer "first: rollout"
    check "$1: a click draws another picture" answer "another picture: true"
    check "$1: its layers and heads" answer "layers: $3"
    check "$1: two classes are compared" answer "compared: true, true"
    check "$1: with none at first" answer "first chosen: none"
    check "$1: two views side by side" answer "side by side: true"
    check "$1: a difference's first is orange" answer "more of the first is orange: true"
    check "$1: its second is blue" answer "more of the second is blue: true"
    check "$1: a finger held reads a value" answer "held: true"
    check "$1: a finger that scrolls asks nothing" answer "a finger that moves: asks nothing"
    check "$1: and may scroll" answer "touch-action: manipulation"
    check "$1: a tap shows the patch's attention" answer "views after a tap: 1"
    check "$1: compared in the next picture too" answer "kept in the next picture: true"
    python3 compare.py "$1" >compared
    same=$?
    check "$1: rows as the arrays hold them: $(tail -n 1 compared)" [ $same = 0 ]
    head -n 5 compared | grep '^  '
    sed "s#PAGE#$1/index.html#" narrow.html >framed.html
    dom framed.html framed
    check "$1: fits 400 pixels" grep -qE 'width (3[78][0-9]|400), over 0[;<]' framed
    check "$1: so do two maps, stacked" grep -q 'compared: over 0, stacked true<' framed
}
opened vit "$ref/vit_token.h5" "0 4, 1 4, 2 4"
check "vit: a token" answer "tokens: class token"
check "vit: the next picture, its name as text" \
    answer "title: ./b<img src=x onerror=document.documentElement.dataset.pwned=1>.ppm $ref/vit_token.h5"
opened registers "$ref/vit_reg4_gap.h5" "0 4, 1 4"
check "registers: by name" answer "tokens: register 0, register 1, register 2, register 3"
opened padded "$ref/swin_v1_padded.h5" "0, stage 0 2, 1, stage 0 2, 2, stage 1 4, 3, stage 1 4"
opened odd "$ref/swin_v2_odd.h5" "0, stage 0 2, 1, stage 1 4, 2, stage 1 4, 3, stage 2 4, 4, stage 2 4"
"$bin" attention -q -m "$ref/vit_token.h5" --save html --layers 2,0 -o few ./*.ppm 2>said
cat few/index.html act.html >acted.html
dom acted.html
check "--layers: those alone" answer "layers: 0 4, 2 4"
check "--layers: a smaller page" [ "$(stat -c %s few/index.html)" -lt "$(stat -c %s vit/index.html)" ]
best=$("$bin" classify -q -m "$ref/vit_token.h5" -f csv -k 5 a.ppm | tail -n +2 |
    awk -F, '{ printf "%sclass %d%.1f %%", n++ ? ", " : "", $4, 100 * $7 }')
check "the best classes are classify's: $best" answer "classes: $best"
# The two best of a.ppm, and how likely they are.
best=$("$bin" classify -q -m "$ref/vit_token.h5" -f csv -k 2 a.ppm | awk -F, 'NR > 1 { printf "%s:%.1f %%:", $4, 100 * $7 }')
IFS=: read -r first first_chance second second_chance _ <<<"$best"
pair="for class $first $first_chance, for class $second $second_chance"
check "two classes, each with its probability: $pair" answer "beside: $pair"
check "the maps to compare with" answer "compare with: none, $pair"
check "words say which colour is which class, swapped" \
    answer "words: blue: more for class $first; 0; orange: more for class $second"
alone() { # NAME MAPS ARGUMENT...: a page on which there is nothing to compare
    local name=$1 maps=$2
    shift 2
    "$bin" attention -q "$@" --save html -o "$name" ./*.ppm 2>said
    cat "$name/index.html" act.html >acted.html
    dom acted.html
    check "$name: nothing on the console" [ "$(grep -c CONSOLE said)" = 0 ]
    check "$name: done" answer "done"
    check "$name: no comparison" answer "compared: false, false"
    check "$name: $maps maps" [ "$(grep -o '"class":\(null\|{\)' "$name/index.html" | wc -l)" = "$maps" ]
}
alone one 4 -m "$ref/vit_token.h5" --class 3
alone headless 2 -m "$ref/vit_none.h5"

finish
