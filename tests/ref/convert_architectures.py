"""The rows of weights/architectures.c and architecture_tags.c, computed from the installed timm (written with 1.0.31).

    python tests/ref/convert_architectures.py            # prints the three tables' rows
    python tests/ref/convert_architectures.py --check    # compares, exit 1 when a row differs

A row is an architecture that vitrine runs: a ViT of pre-norm blocks with LayerNorm, one attention and one MLP (or
packed SwiGLU), or a Swin v1 or v2; canonical tensor names only. The second table has the stages of every Swin, whose
heads and hidden widths double from stage to stage. The third holds the preprocessing of every pretrained tag, tags of
equal preprocessing together, timm's default tag first.
"""
import os
import re
import sys

import timm
import timm.models
import torch

CANONICAL = re.compile(
    r"^((cls|dist|reg)_token|pos_embed|patch_embed\.proj\.(weight|bias)"
    r"|blocks\.\d+\.(attn\.(qkv|proj|[qk]_norm)|norm[12]|mlp\.fc[12])\.(weight|bias)"
    r"|blocks\.\d+\.(ls[12]\.gamma|attn\.relative_position_bias_table)|attn_pool\.latent"
    r"|attn_pool\.(q|kv|proj|norm|mlp\.fc1|mlp\.fc2)\.(weight|bias)"
    r"|(norm_pre|norm|fc_norm|head|head_dist)\.(weight|bias))$")
SWIN = re.compile(
    r"^(patch_embed\.(proj|norm)\.(weight|bias)|layers\.\d+\.downsample\.(norm\.(weight|bias)|reduction\.weight)"
    r"|layers\.\d+\.blocks\.\d+\.((norm[12]|attn\.(qkv|proj|cpb_mlp\.0)|mlp\.fc[12])\.(weight|bias)"
    r"|attn\.(relative_position_bias_table|logit_scale|q_bias|v_bias|cpb_mlp\.2\.weight))"
    r"|(norm|head\.fc)\.(weight|bias))$")
STATS = {(0.5, 0.5, 0.5): "HALF", (0.485, 0.456, 0.406): "INET", (0.0, 0.0, 0.0): "UNIT",
         (0.48145466, 0.4578275, 0.40821073): "CLIP"}
ACTIVATION = {"GELU": "ERF", "GELUTanh": "TANH", "QuickGELU": "QUICK", "SiLU": "ERF"}


def canonical(model):
    """The state dict by vitrine's names: BEiT's biases of queries and values are qkv's."""
    state = {}
    for key, value in model.state_dict().items():
        key = key.replace("gamma_1", "ls1.gamma").replace("gamma_2", "ls2.gamma")
        state[re.sub(r"attn\.[qv]_bias$", "attn.qkv.bias", key)] = value
    return state


def runs(model):
    """Whether vitrine's vit can run it."""
    block, state = model.blocks[0], canonical(model)
    norms = {type(m).__name__ for m in model.modules() if "Norm" in type(m).__name__}
    return (all(CANONICAL.match(k) for k in state) and type(block).__name__ == "Block"
            and ("norm.weight" in state) != ("fc_norm.weight" in state)
            and norms == {"LayerNorm"} and model.global_pool in ("token", "avg", "map")
            and model.patch_embed.img_size[0] % model.patch_embed.patch_size[0] == 0)


def swin_row(name, model):
    """The architecture's line, and its line among the stages."""
    state, version = model.state_dict(), 2 if "V2" in type(model).__name__ else 1
    assert all(SWIN.match(k) for k in state) and model.global_pool == "avg"
    assert {m.eps for m in model.modules() if "Norm" in type(m).__name__} == {1e-5}
    first = [stage.blocks[0] for stage in model.layers]
    heads, hidden = [b.attn.num_heads for b in first], [b.mlp.fc1.out_features for b in first]
    assert {type(b.mlp.act).__name__ for b in first} == {"GELU"}
    assert heads == [heads[0] << s for s in range(4)] and hidden == [hidden[0] << s for s in range(4)]
    depths = [len(stage.blocks) for stage in model.layers]
    windows = [window for window, _ in model._ref_window_sizes]
    pretrained = [b.attn.pretrained_window_size[0] if version == 2 else 0 for b in first]
    image, patch = model.patch_embed.img_size[0], model.patch_embed.patch_size[0]

    def group(numbers):
        return "{" + ", ".join(map(str, numbers)) + "}" if any(numbers) else "{0}"

    return ([f'    {{"{name}", {image}, {patch}, {model.embed_dim}, {sum(depths)}, {heads[0]}, {hidden[0]}, 0, 0, ERF, '
             "AVG, 1e-5},"],
            [f'    {{"{name}", {version}, 4, {group(depths)}, {group(windows)}, {group(pretrained)}}},'])


def preprocess(cfg):
    stats = STATS[tuple(cfg["mean"])]
    mode = {"center": "CENTER", "squash": "SQUASH", "border": "BORDER"}[cfg["crop_mode"]]
    kernel = {"bicubic": "BICUBIC", "bilinear": "BILINEAR"}[cfg["interpolation"]]
    return f"{cfg['crop_pct']:g}, {mode}, {kernel}, {stats}"


def row(name, model):
    state = canonical(model)
    block = model.blocks[0]
    dim = model.embed_dim
    image, patch = model.patch_embed.img_size[0], model.patch_embed.patch_size[0]
    hidden = block.mlp.fc2.weight.shape[1]
    registers = state["reg_token"].shape[1] if "reg_token" in state else 0
    relative = "blocks.0.attn.relative_position_bias_table" in state
    rows = 0 if relative else state["pos_embed"].shape[1] - model.patch_embed.num_patches
    flags = [word for word, on in (
        ("CLS", "cls_token" in state), ("DIST", "dist_token" in state), ("POS", rows > 0),
        ("PRE", "norm_pre.weight" in state), ("NQB", "blocks.0.attn.qkv.bias" not in state),
        ("LS", "blocks.0.ls1.gamma" in state), ("FCN", "fc_norm.weight" in state),
        ("QKN", "blocks.0.attn.q_norm.weight" in state),
        ("GLU", block.mlp.fc1.weight.shape[0] == 2 * hidden), ("REL", relative)) if on]
    assert ("PRE" in flags) == ("patch_embed.proj.bias" not in state)
    assert rows in (0, model.num_prefix_tokens)
    eps, = {m.eps for m in model.modules() if type(m).__name__ == "LayerNorm"}
    eps = {1e-6: "1e-6", 1e-5: "1e-5"}[eps]
    act = ACTIVATION[type(block.mlp.act).__name__]
    if model.global_pool == "map":
        assert ACTIVATION[type(model.attn_pool.mlp.act).__name__] == act
        assert model.attn_pool.num_heads == block.attn.num_heads
    first = (f'    {{"{name}", {image}, {patch}, {dim}, {len(model.blocks)}, '
             f"{block.attn.num_heads}, {hidden}, {registers},")
    second = f"{' | '.join(flags) or '0'}, {act}, {model.global_pool.upper()}, {eps}}},"
    return [f"{first} {second}"] if len(first) + len(second) < 100 else [first, "     " + second]


def tag_rows(name):
    """timm's default tag comes first."""
    default = timm.models.get_pretrained_cfg(name).tag
    names = [n for n in timm.models.list_pretrained(name) if n.split(".")[0] == name] or [name]
    names.sort(key=lambda n: (n.partition(".")[2] != default, n))
    rows = {}
    for full in names:
        cfg = timm.models.get_pretrained_cfg(full).to_dict()
        rows.setdefault(preprocess(cfg), []).append(full.partition(".")[2])
    lines = []
    for rule, tags in rows.items():
        words, line = tags, f'    {{"{name}",'
        if len(line) + len(" ".join(tags)) + len(rule) < 90:
            lines.append(f'{line} "{" ".join(tags)}", {rule}}},')
            continue
        lines.append(line)
        while words:
            taken = 1
            while taken < len(words) and len(" ".join(words[:taken + 1])) < 88:
                taken += 1
            text, words = " ".join(words[:taken]), words[taken:]
            lines.append(f'     "{text}{" " if words else ""}"' + ("" if words else ","))
        lines.append(f"     {rule}}},")
    return lines


def table():
    lines, stages, tags = [], [], []
    for name in sorted(timm.list_models()):
        module = timm.models.model_entrypoint(name).__module__.removeprefix("timm.models.")
        swin = module in ("swin_transformer", "swin_transformer_v2")
        if not swin and module not in ("vision_transformer", "deit", "beit"):
            continue
        if re.match(r"test_|.*(radio|tips|_rpn_)", name):
            continue
        with torch.device("meta"):
            model = timm.create_model(name)
        if swin:
            line, stage = swin_row(name, model)
            lines += line
            stages += stage
        elif runs(model):
            lines += row(name, model)
        else:
            continue
        tags += tag_rows(name)
    return lines, stages, tags


def stored(text, array):
    body = text[text.index(array + "[] = {\n"):]
    return body[body.index("\n") + 1:body.index("\n};")].splitlines()


def main():
    tables = dict(zip(("architectures", "swins", "tags"), table()))
    if "--check" not in sys.argv[1:]:
        print("\n\n".join("\n".join(lines) for lines in tables.values()))
        return 0
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "weights")
    text = ""
    for source in ("architectures.c", "architecture_tags.c"):
        with open(os.path.join(folder, source)) as file:
            text += file.read()
    bad = 0
    for array, want in tables.items():
        differing = [line for line in want + stored(text, array)
                     if (line in want) != (line in stored(text, array))]
        print(f"{array}: {len(want)} lines, {len(differing)} differ", *differing, sep="\n")
        bad += len(differing)
    return 1 if bad else 0


sys.exit(main())
