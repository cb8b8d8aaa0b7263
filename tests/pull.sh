#!/bin/bash
# Tests of `vitrine pull` against a server on the loopback: what a bad network, a bad server and a full disk do.
#   bash tests/pull.sh [build/vitrine]
# Makes its own checkpoints; closes with "N passed, N failed, N skipped".
. "$(dirname "$0")/check.sh"
for needed in python3 sha256sum; do
    command -v $needed >/dev/null 2>&1 || skip_all pull "no $needed here for the server"
done
server=
cleanup() {
    [ -n "$server" ] && kill "$server" 2>/dev/null
    mountpoint -q "$work/small" 2>/dev/null && umount "$work/small"
}
export VITRINE_MODELS=$work/models
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY

run() {
    last="vitrine $*"
    "$bin" "$@" >out 2>err
    rc=$?
}
# pull NAME PATH [OPTION]...: with the server's PATH as --from
pull() {
    local name=$1 path=$2
    shift 2
    run pull "$name" --from "$base$path" "$@"
}
out_has() { grep -qF -- "$1" out; }
asked() { grep -qF -- "$1" log; } # a request the server saw since the last `: >log`
size() { stat -c %s "$1"; }
no() { ! "$@"; }
# Nothing of NAME is left but, with a second word, its model.
clean() { [ "$(ls models 2>/dev/null | grep -F "$1" | tr '\n' ' ')" = "${2:+$1.h5 }" ]; }
works() { run inspect "$1" && [ $rc = 0 ]; }
wait_for() { # a condition, for at most ten seconds
    local n
    for ((n = 0; n < 200; n++)); do
        "$@" && return
        sleep 0.05
    done
    return 1
}

# ---- the checkpoints and the server ----------------------------------------------------------------

cat >make.py <<'END'
# A safetensors file of tensors with random bytes that are small positive numbers.
import json, random, struct, sys
random.seed(int(sys.argv[3]))
C, L, F, K, P, T, wide = (64, 2, 128, 3, 4, 17, 4) if sys.argv[1] == "tiny" else (192, 12, 768, 1000, 16, 197, 2)
tensors = {"cls_token": [1, 1, C], "pos_embed": [1, T, C], "patch_embed.proj.weight": [C, 3, P, P],
           "patch_embed.proj.bias": [C], "norm.weight": [C], "norm.bias": [C], "head.weight": [K, C], "head.bias": [K]}
for n in range(L):
    for name, rows, columns in (("norm1", C, 0), ("norm2", C, 0), ("attn.qkv", 3 * C, C), ("attn.proj", C, C),
                                ("mlp.fc1", F, C), ("mlp.fc2", C, F)):
        tensors[f"blocks.{n}.{name}.weight"] = [rows, columns] if columns else [rows]
        tensors[f"blocks.{n}.{name}.bias"] = [rows]
if sys.argv[1] == "hub":  # transformers' names
    short = {"patch_embed.proj": "embeddings.patch_embeddings.projection", "cls_token": "embeddings.cls_token",
             "pos_embed": "embeddings.position_embeddings", "norm1": "layernorm_before", "norm2": "layernorm_after",
             "attn.proj": "attention.output.dense", "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense"}
    renamed = {}
    for name, shape in tensors.items():
        if name.startswith("blocks."):
            name = "encoder.layer." + name[len("blocks."):]
        name = "layer" + name if name.startswith("norm.") else name
        for old, new in short.items():
            name = name.replace(old, new) if f"layer{old}" not in name else name
        for part in ("query", "key", "value") if "attn.qkv" in name else ("",):
            split = [shape[0] // 3] + shape[1:] if part else shape
            name_of_part = name.replace("attn.qkv", f"attention.attention.{part}")
            renamed[name.replace("head.", "classifier.") if "head." in name else "vit." + name_of_part] = split
    tensors = renamed
header, at, data = {}, 0, []
if sys.argv[1] == "tiny":
    config = {"model_args": {"img_size": 16}, "pretrained_cfg": {"input_size": [3, 16, 16], "crop_pct": 0.9,
              "interpolation": "bilinear", "mean": [0.5] * 3, "std": [0.5] * 3, "license": "mit"}}
    header["__metadata__"] = {"config": json.dumps(config)}
for name, shape in tensors.items():
    count = 1
    for n in shape:
        count *= n
    noise = random.randbytes(count) if hasattr(random, "randbytes") else bytes(random.getrandbits(8) for _ in range(count))
    values = bytearray(count * wide)
    values[wide - 2::wide] = noise
    values[wide - 1::wide] = (b"\x3c" if wide == 4 else b"\x24") * count
    header[name] = {"dtype": "F32" if wide == 4 else "F16", "shape": shape, "data_offsets": [at, at + len(values)]}
    at += len(values)
    data.append(values)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
END
cat >serve.py <<'END'
# The first part of a path says how the server misbehaves, the last which file it means.
import http.server, os, socketserver, sys, time, hashlib
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    count = {}
    def log_message(self, *args):
        pass
    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # the client went away
    def do_GET(self):
        how, name = self.path.split("/")[1], self.path.split("/")[-1].split("?")[0]
        with open("log", "a") as log:
            log.write(f"{self.path} range={self.headers.get('Range')} if={self.headers.get('If-Range')}\n")
        seen = Handler.count[self.path] = Handler.count.get(self.path, 0) + 1
        self.close_connection = True
        if how == "loop":
            return self.redirect(f"/loop/{seen}/{name}")
        if how == "redirect":
            return self.redirect(f"/ok/{name}")
        if how not in ("401", "404", "503", "ftp", "loop") and not os.path.exists(name):
            return self.answer(404, b"<html>no</html>" * 100, [])
        if how == "linked" or how == "lied":
            sha = hashlib.sha256(open(name, "rb").read()).hexdigest() if how == "linked" else "0" * 64
            return self.redirect(f"/ok/{name}", ("X-Linked-Etag", f'"{sha}"'))
        if how == "ftp":
            return self.redirect("ftp://127.0.0.1/x")
        if how == "mute":
            time.sleep(30)
            return
        if how in ("401", "404", "503") or not os.path.exists(name):
            return self.answer(int(how) if how.isdigit() else 404, b"<html>no</html>" * 100, [])
        body = open(name, "rb").read()
        etag = '"%s"' % hashlib.md5(body).hexdigest()
        headers = [] if how == "bare" else [("ETag", ("W/" if how == "weak" else "") + etag)]
        if how == "weak":
            headers = headers + [("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")]
        begin, wanted, condition = 0, self.headers.get("Range"), self.headers.get("If-Range")
        if wanted and how not in ("deaf", "cutdeaf") and \
                (how == "glue" or condition in (None, etag, "Mon, 30 Nov 2026 00:00:00 GMT")):
            begin = int(wanted[6:-1])
            if begin >= len(body):
                return self.answer(416, b"", [("Content-Range", f"bytes */{len(body)}")])
            begin += 7 if how == "shifted" else 0
            headers = headers + [("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")]
        cut = {"cut": 100000, "cutdeaf": 100000, "stall": 100000, "glue": 100000, "slow": 20000}.get(how)
        if how == "twice" or how == "weak" or how == "bare" or how == "shifted":
            cut = 100000 if seen < 3 else None
        if os.path.exists("whole"):
            cut = None
        self.answer(206 if begin else 200, body[begin:], headers, how, cut)
    def redirect(self, where, *more):
        self.answer(302, b"", [("Location", where), *more])
    def answer(self, code, body, headers, how="", cut=None):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        if how != "endless":
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if how == "slow" and cut:
            for at in range(0, len(body), cut):
                self.wfile.write(body[at:at + cut])
                self.wfile.flush()
                time.sleep(0.25)
            return
        self.wfile.write(body[:cut] if cut else body)
        self.wfile.flush()
        if how == "stall" and cut:
            time.sleep(30)
server = Server(("127.0.0.1", 0), Handler)
open("port.new", "w").write(str(server.server_address[1]))
os.rename("port.new", "port")
server.serve_forever()
END
python3 make.py tiny tiny.safetensors 1 || exit 1
python3 make.py tiny other.safetensors 2 || exit 1
: >log
python3 serve.py &
server=$!
wait_for test -s port || { echo "not ok - the server does not start"; exit 1; }
base=http://127.0.0.1:$(cat port)
sha=$(sha256sum <tiny.safetensors | cut -c 1-64)
bytes=$(size tiny.safetensors)
zeros=$(printf '%064d' 0)

# ---- the command line and the list -----------------------------------------------------------------

run pull
check "no name: exit 2" exits 2
check "  points to the list" err_has "--list"
run pull nonsense_model
check "an unknown name: exit 2" exits 2
run pull deit_tiny_patch16_22.fb_in1k
check "a near miss: exit 2" exits 2
check "  is corrected" err_has "did you mean deit_tiny_patch16_224.fb_in1k"
run pull deit_tiny
check "a part of names: lists them" err_has "deit_tiny_patch16_224.official"
for name in ../x /etc/x .x 'a b' x.h5 vit-cifar10; do
    run pull --from "$base/ok/tiny.safetensors" -- "$name"
    check "the name '$name': exit 2" exits 2
done
run pull --sha256 xyz a
check "--sha256 xyz: exit 2" exits 2
run pull --from x a b
check "--from with two names: exit 2" exits 2
run pull --list swin bsd
check "--list WORD...: exit 0" exits 0
check "  has torchvision's" out_has "swin_t.imagenet1k_v1"
check "  and no other" no out_has "fb_in1k"
cp out found
run pull --list SwIn BSD
check "  in any case of letters" cmp -s found out
run pull --list nothing_like_it
check "--list of nothing: exit 1" exits 1
run pull --list -f json
check "--list -f json is JSON" python3 -c 'import json; assert len(json.load(open("out"))) > 300'
run pull --list -f tsv
check "--list -f tsv has its columns on every line" awk -F '\t' 'NF != 11 {bad = 1} END {exit bad}' out
run inspect deit_tiny_patch16_224.fb_in1k
check "a model that is not here: exit 1" exits 1
check "  says how to get it" err_has "vitrine pull deit_tiny_patch16_224.fb_in1k"

run pull --from "$base/ok/tiny.safetensors" probe
if err_has "without libcurl"; then
    skip "downloads" "this vitrine was built without libcurl"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
fi

# ---- a download ------------------------------------------------------------------------------------

pull full /ok/tiny.safetensors --sha256 "$sha"
check "a download: exit 0" exits 0
check "  stdout is empty" test ! -s out
check "  the model is there and nothing else" clean full model
check "  and works by its name" works full
check "  with its self-test" "$bin" inspect --verify full >/dev/null
check "  says where it comes from" grep -q "$base/ok/tiny.safetensors" out
pull full /ok/tiny.safetensors
check "again: exit 0" exits 0
check "  says that it is here" err_has "is here already"
cp models/full.h5 full.before
pull full /ok/other.safetensors --force --sha256 "$sha"
check "--force with a wrong hash: exit 1" exits 1
check "  says both hashes" err_has "want $sha"
check "  nothing is kept" clean full model
check "  the old model is untouched" cmp -s full.before models/full.h5
pull full /ok/other.safetensors --force
check "--force: exit 0" exits 0
check "  the model is another one" no cmp -s full.before models/full.h5
check "  no hash: says so, and which it has" err_has "$(sha256sum <other.safetensors | cut -c 1-64)"
pull wrong /ok/tiny.safetensors --sha256 "$zeros"
check "a wrong hash: exit 1" exits 1
check "  nothing is kept" clean wrong
pull short /ok/tiny.safetensors --sha256 "${sha:0:8}" -q
check "the first digits of a hash: exit 0" exits 0
check "  -q says nothing" test ! -s err
pull linked /linked/tiny.safetensors
check "a hub that announces the hash: exit 0" exits 0
check "  it counts as one" no err_has "no checksum"
pull lied /lied/tiny.safetensors
check "a hub that announces another: exit 1" exits 1
check "  nothing is kept" clean lied
pull redirected /redirect/tiny.safetensors
check "a redirect: exit 0" exits 0
run pull full --from "$base/ok/other.safetensors" --sha256 "$(sha256sum <other.safetensors | cut -c 1-64)"
check "--sha256 of what the model that is here was made of: exit 0" exits 0
check "  says so" err_has "made of a file of that SHA-256"
run pull full --from "$base/ok/tiny.safetensors" --sha256 "$sha"
check "  of another file: exit 1" exits 1
check "  says both" err_has "want $sha"
pull slash /ok/tiny/ --force
check "an address with / gets the file's name" asked "/ok/tiny/model.safetensors"
pull keeper /ok/tiny.safetensors --keep
check "--keep: exit 0" exits 0
check "  the checkpoint is beside the model" cmp -s tiny.safetensors models/keeper.checkpoint/tiny.safetensors
check "  alone" test "$(ls models/keeper.checkpoint)" = tiny.safetensors
pull keeper /ok/other.safetensors --keep --force
check "--keep again replaces it" cmp -s other.safetensors models/keeper.checkpoint/other.safetensors
run pull --from "$base/ok/tiny.safetensors" twice.a --no-progress
run pull --from tiny.safetensors --sha256 "$sha" local
check "--from a file: exit 0" exits 0
check "  which stays" test -s tiny.safetensors
check "  works" works local
run pull --from tiny.safetensors --keep --force local
check "--keep of a file from here: says that it keeps no copy" err_has "keeps no copy"
check "  nothing else is left" clean local model
run pull --from tiny.safetensors --sha256 "$zeros" local2
check "--from a file with a wrong hash: exit 1" exits 1
check "  which stays" test -s tiny.safetensors
check "  and nothing is made" clean local2
run pull --from nowhere.safetensors local2
check "--from a file that is not there: exit 1" exits 1
mkdir folder && cp tiny.safetensors folder/model.safetensors
run pull --from folder/ local3
check "--from a folder: exit 0" exits 0
run pull --from folder local4
check "  without the slash: exit 0" exits 0
check "  works" works local4
mkdir hollow
run pull --from hollow local5
check "--from an empty folder: exit 1" exits 1
check "  says what a folder must hold" err_has "without model.safetensors"
check "  nothing is left" clean local5
latin=$(printf 'caf\351.safetensors')
cp tiny.safetensors "$latin"
run pull --from "$latin" latin
check "--from a file whose name is no UTF-8: exit 0" exits 0
run inspect latin
check "  the byte is told by its number" out_has 'of caf\xE9.safetensors'
run convert "$latin" -o "$(printf 'latin\351.h5')"
check "convert of one to another: exit 0" exits 0
check "  which is shown by its number" err_has 'wrote latin\xe9.h5'
run inspect "$(printf './latin\351.h5')"
check "  its name" out_has 'latin\xE9'

# ---- what is wrong before anything is fetched ------------------------------------------------------

: >log
printf 'a\nb\n' >two.labels
for wrong in "--arch nosuch" "--arch deit_tiny_patch16_224.nosuch" "--preprocess foo=1" "--preprocess std=0" \
    "--labels imagenet-7k"; do
    pull early /ok/tiny.safetensors $wrong
    check "$wrong: exit 2" exits 2
    check "  nothing is left" clean early
done
pull early /ok/tiny.safetensors --labels ./nowhere.txt
check "--labels of a file that is not there: exit 1" exits 1
run pull deit_tiny_patch16_224.fb_in1k --labels ./two.labels
check "--labels of another count than the catalog's: exit 2" exits 2
check "  says both" err_has "has 2 classes, deit_tiny_patch16_224.fb_in1k 1000"
check "  the server was asked for nothing" test ! -s log
run pull --from http:// early
check "--from without a host: exit 2" exits 2
check "  says so" err_has "no host"
run pull early.h5
check "a name with .h5: says how it is without" err_has "want early"
run pull "$(printf '%0300d' 0)"
check "a name of 300 bytes: says so" err_has "a name of 300 bytes"
pull early /ok/tiny.safetensors --labels ./two.labels
check "--labels of another count than the tensors': exit 2" exits 2
check "  the checkpoint is kept" test -s models/early.part/tiny.safetensors
pull early /ok/tiny.safetensors
check "  the next attempt ends well" exits 0
mkdir -p models
echo junk >models/junk.h5
: >models/hollow.h5
mkfifo models/pipe.h5
mkdir models/dir.h5
for name in junk hollow pipe dir; do
    run pull --from tiny.safetensors $name
    check "$name.h5 in the model's place: exit 1" exits 1
    check "  is named" err_has "models/$name.h5: is "
done
run pull --from tiny.safetensors junk --force
check "  --force puts the model there" works junk
run pull --from tiny.safetensors dir --force
check "  but not in a folder's place: exit 1" exits 1
rmdir models/dir.h5
rm models/pipe.h5 models/hollow.h5

# ---- the config beside the weights -----------------------------------------------------------------

printf '{"model_args": {"depth": 3, "num_heads": 2}}' >config.json
python3 make.py tiny other_tiny.safetensors 3
pull beside /ok/other_tiny.safetensors
check "config.json beside the weights is taken: exit 1" exits 1
check "  and held against them" err_has "config.json: depth says 3, the tensors 2"
printf '<html>no such page</html>' >config.json
pull beside /ok/other_tiny.safetensors
check "a page in its place is none: exit 0" exits 0
rm config.json

# ---- bad servers -----------------------------------------------------------------------------------

for code in 401 404 503; do
    pull gone /$code/tiny.safetensors
    check "HTTP $code: exit 1" exits 1
    check "  is said" err_has "the server says $code"
    check "  nothing is left" clean gone
done
pull loop /loop/tiny.safetensors
check "a redirect loop: exit 1" exits 1
check "  is said" err_has "redirects more than 10 times"
check "  nothing is left" clean loop
pull ftp /ftp/tiny.safetensors
check "a redirect to ftp: exit 1" exits 1
check "  is said" err_has "want https"
run pull --from ftp://127.0.0.1/x.safetensors other
check "--from ftp: exit 2" exits 2
run pull --from https://127.0.0.1:"$(cat port)"/ok/tiny.safetensors tls
check "https to a server without it: exit 1" exits 1
run pull --from http://127.0.0.1:1/x.safetensors refused --timeout 5
check "no server: exit 1" exits 1
check "  names the address" err_has "http://127.0.0.1:1/x.safetensors"
run pull --from http://host.invalid/x.safetensors refused --timeout 10
check "no such host: exit 1" exits 1
pull mute /mute/tiny.safetensors --timeout 1
check "a server that never answers: exit 1" exits 1
check "  the time-out is named" err_has "no answer within 1 s (--timeout)"
check "  nothing is left" clean mute
printf '<!DOCTYPE html><html>sign in</html>' >page.html
pull page /ok/page.html
check "a page instead of a checkpoint: exit 1" exits 1
check "  is said" err_has "HTML page"
check "  nothing is left" clean page
: >empty.safetensors
pull empty /ok/empty.safetensors
check "an empty file: exit 1" exits 1
check "  nothing is left" clean empty

# ---- taking up again -------------------------------------------------------------------------------

part=models/resumed.part/tiny.safetensors
pull resumed /stall/tiny.safetensors --timeout 1
check "a server that stalls: exit 1" exits 1
check "  the time-out is named" err_has "no byte came for 1 s (--timeout)"
check "  what came is kept" test "$(size $part)" = 100000
: >log whole
: >whole
pull resumed /stall/tiny.safetensors --sha256 "$sha"
check "the same command again: exit 0" exits 0
check "  asked for the rest only" asked "range=bytes=100000-"
check "  on the condition that it is the same file" asked 'if="'
check "  says so" err_has "went on after the 0.1 MB"
check "  the model is there and nothing else" clean resumed model
rm whole
: >log
pull twice /twice/tiny.safetensors --sha256 "$sha"
check "cut twice: taken up at once, exit 0" exits 0
check "  in three requests" test "$(grep -c twice/tiny log)" = 3
check "  the last for the rest" asked "range=bytes=200000-"
pull once /cut/tiny.safetensors --retries 0
check "cut, without retries: exit 1" exits 1
check "  says how much is missing" err_has "cut off after 0.1 of"
check "  and that it is kept" err_has "the same command goes on from there"
pull once /cut/tiny.safetensors --retries 0
check "  and again: exit 1" exits 1
check "  further" test "$(size models/once.part/tiny.safetensors)" = 200000
pull deaf /cutdeaf/tiny.safetensors --retries 0
: >whole
pull deaf /cutdeaf/tiny.safetensors --sha256 "$sha"
check "a server that ignores Range: exit 0" exits 0
check "  works" works deaf
rm whole
pull weak /weak/tiny.safetensors --sha256 "$sha"
check "a weak ETag and a date: exit 0" exits 0
check "  the date is the condition" asked "if=Mon, 30 Nov 2026"
: >log
pull bare /bare/tiny.safetensors --sha256 "$sha"
check "no validators but a hash: exit 0" exits 0
check "  goes on" asked "range=bytes=200000- if=None"
: >log
pull shifted /shifted/tiny.safetensors --sha256 "$sha"
check "a range that is not the one asked for: exit 0" exits 0
check "  begun anew" test "$(grep -c "tiny.*range=None" log)" = 2
cp tiny.safetensors changing.safetensors
pull changed /cut/changing.safetensors --retries 0
cp other.safetensors changing.safetensors
: >whole
pull changed /cut/changing.safetensors --sha256 "$(sha256sum <other.safetensors | cut -c 1-64)"
check "a file that changed between attempts: exit 0" exits 0
check "  says so" err_has "changed since the last attempt"
check "  was not glued: it works" works changed
cp tiny.safetensors changing.safetensors
rm whole
pull glued /glue/changing.safetensors --retries 0
cp other.safetensors changing.safetensors
: >whole
pull glued /glue/changing.safetensors --sha256 "$(sha256sum <other.safetensors | cut -c 1-64)"
check "a server that would glue two files: exit 0" exits 0
check "  says that it changed" err_has "changed since the last attempt"
rm whole
pull moved /cut/tiny.safetensors --retries 0
: >log
pull moved /ok/tiny.safetensors
check "another address: begun anew" asked "range=None"
check "  exit 0" exits 0

# ---- conversion that fails -------------------------------------------------------------------------

pull deit_tiny_patch16_224.fb_in1k /ok/tiny.safetensors
check "a checkpoint of another shape: exit 1" exits 1
check "  says what is wrong" err_has "deit_tiny_patch16_224"
check "  and that it is kept" err_has "the checkpoint is kept"
check "  no model" test ! -e models/deit_tiny_patch16_224.fb_in1k.h5
: >log
pull deit_tiny_patch16_224.fb_in1k /ok/tiny.safetensors
check "  the next attempt does not download it again" test ! -s log
pull deit_tiny_patch16_224.fb_in1k /ok/tiny.safetensors --force
check "  but with --force" asked "range=None"
python3 make.py deit deit.safetensors 3
run pull --from deit.safetensors own
check "shapes of several architectures under an own name: exit 2" exits 2
check "  --arch is asked for" err_has "--arch"
check "  nothing is left" clean own
pull own /ok/deit.safetensors
check "  downloaded: the checkpoint is kept" err_has "the checkpoint is kept"
printf 'one\ntwo\n' >two.txt
pull own /ok/deit.safetensors --arch deit_tiny_patch16_224 --labels two.txt
check "  with --arch, and labels of another number: exit 2, as of convert" exits 2
check "  says both numbers" err_has "--labels has 2 classes, the model 1000"
: >log
pull own /ok/deit.safetensors --arch deit_tiny_patch16_224 --labels imagenet-1k --dtype fp16 --preprocess crop_pct=0.75
check "  with --arch: exit 0" exits 0
check "  nothing came again" no asked deit.safetensors
check "  the model is there and nothing else" clean own model
run inspect own --labels
check "  with the labels" out_has tench
check "  and the preprocessing that was given" out_has "0.75"
run pull --arch deit_tiny_patch16_224 a b
check "--arch with two names: exit 2" exits 2
run pull --from deit.safetensors deit_tiny_patch16_224.fb_in1k
check "an entry of the catalog: exit 0" exits 0
run inspect deit_tiny_patch16_224.fb_in1k
check "  its licence is in the model" out_has "apache-2.0"
check "  and its preprocessing" out_has "0.485"
mkdir hub
python3 make.py hub hub-weights 4
cat >hub-config <<'END'
{"model_type": "vit", "hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768,
 "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": true}
END
cat >hub-preprocessor <<'END'
{"do_resize": true, "size": {"height": 224, "width": 224}, "resample": 3, "do_normalize": true,
 "image_mean": [0.25, 0.5, 0.75], "image_std": [0.5, 0.5, 0.5]}
END
cp hub-weights model.safetensors && cp hub-config config.json
: >log
pull deit-tiny-patch16-224 /ok/hub/
check "a hub's folder without preprocessor_config.json: exit 1" exits 1
check "  names it" err_has "preprocessor_config.json"
check "  and loads no weights" no asked model.safetensors
cp hub-preprocessor preprocessor_config.json
pull deit-tiny-patch16-224 /ok/hub/ --keep
check "a hub's folder: exit 0" exits 0
check "  the configs are kept with it" test -s models/deit-tiny-patch16-224.checkpoint/config.json
run inspect deit-tiny-patch16-224
check "  and were used" out_has "0.25"
rm config.json preprocessor_config.json model.safetensors

# ---- one at a time, interrupts, a full disk ---------------------------------------------------------

"$bin" pull both --from "$base/slow/tiny.safetensors" 2>first &
first=$!
wait_for test -s models/both.part/tiny.safetensors
pull both /slow/tiny.safetensors
check "a second pull of the same name: exit 1" exits 1
check "  says why" err_has "another vitrine is pulling it"
wait $first
check "  the first ends well" test $? = 0
check "  and leaves the model alone" clean both model

cat >interrupt.py <<'END'
import os, signal, sys # a shell's background jobs ignore SIGINT
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
END
python3 interrupt.py "$bin" pull broken --from "$base/slow/tiny.safetensors" 2>first &
first=$!
wait_for test -s models/broken.part/tiny.safetensors
kill -INT $first
wait $first
check "Ctrl-C ends it" test $? -gt 128
check "  what came is kept" test -s models/broken.part/tiny.safetensors
: >log
: >whole
pull broken /slow/tiny.safetensors --sha256 "$sha"
check "  and taken up again: exit 0" exits 0
check "  by a range" no asked "tiny.safetensors range=None"
check "  nothing else is left" clean broken model
rm whole

mkdir small
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=200k none small 2>/dev/null; then
    export VITRINE_MODELS=$work/small
    pull disk /ok/tiny.safetensors
    check "a disk without room: exit 1" exits 1
    check "  is said before" err_has "MB free"
    pull disk /endless/tiny.safetensors
    check "a disk that fills up: exit 1" exits 1
    check "  is said" err_has "No space left"
    check "  no model" test ! -e small/disk.h5
    rm -r small/disk.part
    run pull --from tiny.safetensors disk
    check "no room for the model: exit 1" exits 1
    check "  nothing is left" test -z "$(ls small)"
    export VITRINE_MODELS=$work/models
else
    skip "a full disk" "no tmpfs can be mounted here"
fi
mkdir locked && chmod a-w locked
if [ "$(id -u)" != 0 ]; then
    VITRINE_MODELS=$work/locked run pull --from tiny.safetensors locked
    check "a folder that cannot be written: exit 1" exits 1
fi
(unset VITRINE_MODELS && XDG_DATA_HOME=$work/xdg "$bin" pull -q --from tiny.safetensors there)
check "the data folder is made" test -s xdg/vitrine/there.h5
(unset VITRINE_MODELS XDG_DATA_HOME && HOME=$work/home "$bin" pull -q --from tiny.safetensors there)
check "  or that of the home" test -s home/.local/share/vitrine/there.h5
(unset VITRINE_MODELS && XDG_DATA_HOME=xdg.relative HOME=$work/home2 "$bin" pull -q --from tiny.safetensors there)
check "  which it is for a relative XDG_DATA_HOME too" test -s home2/.local/share/vitrine/there.h5 -a ! -e xdg.relative
if command -v script >/dev/null 2>&1; then
    script -qc "'$bin' pull shown --from '$base/slow/tiny.safetensors'" /dev/null </dev/null >out 2>err
    check "a terminal sees progress" out_has "MB/s"
    check "  and what is left" out_has "left"
else
    skip "progress on a terminal" "no script(1) here"
fi

finish
