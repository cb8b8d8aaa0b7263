#!/bin/bash
# Tests of the page of `vitrine attention --save html` in a real Chromium: it opens from a disk without a word on the
# console, a click shows the row that the .npy of `--method raw --query all` holds, layers, heads and pictures switch,
# hostile names stay text, and it fits 400 pixels; of a ViT, and of a Swin whose windows are shifted and padded.
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
# What a person would do. Each row looked at is a line: layer, head or fusion, query, the map's cells, those in front.
cat >act.html <<'PY'
<script>
const answers = [], rows = [];
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
function click(row, column) {
  const grid = layer(), [x0, y0, x1, y1] = grid.box, box = $("view").getBoundingClientRect();
  const scale = Math.min(box.width / $("view").width, box.height / $("view").height);
  $("view").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true,
    clientX: box.left + scale * $("view").width * (x0 + (column + .5) * (x1 - x0) / grid.columns),
    clientY: box.top + scale * $("view").height * (y0 + (row + .5) * (y1 - y0) / grid.rows)}));
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
  await shown(() => press("n"));
  answers.push("title: " + $("title").textContent);
  answers.push("images: " + document.images.length);
  answers.push("asked: " + performance.getEntriesByType("resource").filter(one => !one.name.startsWith("data:")).length);
  answers.push("links: " + document.querySelectorAll("[src], [href]").length);
  answers.push("done");
})().catch(error => answers.push("error: " + error)).finally(() => {
  for (const [id, lines] of Object.entries({answers, rows}))
    document.body.append(Object.assign(document.createElement("pre"), {id, textContent: lines.join("\n")}));
});
</script>
PY
cat >narrow.html <<'PY'
<iframe id="frame" src="PAGE" style="border: 0; width: 400px; height: 2000px"></iframe><p id="wide"></p>
<script>frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument.documentElement;
  wide.textContent = "width " + page.offsetWidth + ", over " + (page.scrollWidth - page.clientWidth);
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
print("%d rows, %d wrong" % (len(lines("rows")), bad))
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
    python3 compare.py "$1" >compared
    same=$?
    check "$1: rows as the arrays hold them: $(tail -n 1 compared)" [ $same = 0 ]
    head -n 5 compared | grep '^  '
    sed "s#PAGE#$1/index.html#" narrow.html >framed.html
    dom framed.html framed
    check "$1: fits 400 pixels" grep -qE 'width (3[78][0-9]|400), over 0<' framed
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

finish
