#!/usr/bin/env python3
"""Writes tests/ref/vit_*.h5: tiny seeded timm models as vitrine model files, and timm's results.

    python tests/ref/vit_golden.py [NAME...]   (timm, torch, torchvision, transformers, h5py, numpy)

Each file is a model file (weights/README.md) and a group /golden, read by tests/test_vit.c:
  images (2, h, w, 3) uint8 · blocks (L, 2, T, C) · probs (2, H, T, T) of layer `probs_layer` ·
  tokens (2, T, C) after the final norm · pooled (2, C), logits (2, K) where the model has them.
The reference runs in float64 (so what a test measures is our own rounding), and is checked here to
agree with timm's own float32. Every parameter is perturbed, so that each one matters: no zero bias,
no unit norm, logits not flat, attention not uniform.
vit_positions.h5 holds position grids resampled by each origin's own code (tests/test_positions.c).
"""
import functools
import os
import sys

import h5py
import numpy as np
import timm
import torch
import torch.nn.functional as F
from timm.layers import LayerNorm, RmsNorm, SwiGLUPacked, resample_abs_pos_embed
from timm.models.beit import Beit
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_relpos import VisionTransformerRelPos

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ORIGIN = f"torch {torch.__version__.split('+')[0]}, timm {timm.__version__}"

# A model is these, changed by its row. Keys below the line are ours, the others timm's.
DEFAULT = dict(img_size=(32, 32), patch_size=(8, 8), embed_dim=32, depth=2, num_heads=4,
               mlp_ratio=2.0, num_classes=10, qkv_bias=True, class_token=True, reg_tokens=0,
               global_pool="token",
               no_embed_class=False, pre_norm=False, qk_norm=False, init_values=None, fc_norm=None,
               act_layer="gelu", pos_embed="learn",
               # ---
               eps=1e-6, distilled=False, qk="none", swiglu=False, run_size=None,
               embed_scale=1.0)  # small: the eps of the first norm matters

MODELS = {
    "token": dict(depth=3, embed_scale=0.004),
    "distilled": dict(distilled=True),
    "deit3": dict(no_embed_class=True, init_values=1.0),
    "reg4_gap": dict(class_token=False, reg_tokens=4, global_pool="avg", no_embed_class=True,
                     init_values=1.0),
    "gap_norm": dict(class_token=False, global_pool="avg", fc_norm=False, qkv_bias=False,
                     init_values=1.0),
    "cls_gap": dict(global_pool="avg"),
    "clip": dict(pre_norm=True, eps=1e-5, embed_scale=0.01, act_layer="quick_gelu"),
    "qk_layer": dict(qk_norm=True, qk="layer"),
    "qk_rms": dict(qk_norm=True, qk="rms"),
    "dinov2_giant": dict(reg_tokens=4, no_embed_class=True, init_values=1.0, swiglu=True,
                         mlp_ratio=3.0, num_classes=0),
    "so150m2": dict(class_token=False, reg_tokens=1, global_pool="avg", qkv_bias=False,
                    init_values=1.0),
    "map": dict(class_token=False, reg_tokens=1, global_pool="map"),
    "none": dict(global_pool="", num_classes=0, pos_embed="none"),
    "fc_norm_token": dict(fc_norm=True),
    "rectangle": dict(img_size=(32, 48)),
    "odd": dict(img_size=(24, 40), patch_size=(6, 10), embed_dim=60, num_heads=3, num_classes=7,
                mlp_ratio=0.85),
    "patch14": dict(img_size=(42, 42), patch_size=(14, 14)),
    "resized": dict(run_size=(48, 40)),
    "tanh": dict(act_layer="gelu_tanh"),
    "beit": dict(kind="beit"),
    "beit_shared": dict(kind="beit", depth=3, global_pool="token", use_rel_pos_bias=False,
                        use_shared_rel_pos_bias=True),
    "beit_rectangle": dict(kind="beit", img_size=(24, 56), embed_dim=36, num_heads=3),
    "beit_resized": dict(kind="beit", run_size=(48, 40)),
    "relpos": dict(kind="relpos", img_size=(40, 32)),
    "swiglu": dict(swiglu=True, mlp_ratio=3.0),
}


# Of BEiT and of timm's ViT with bias tables, whose modules take fewer of DEFAULT.
RELATIVE = {
    "beit": (Beit, dict(global_pool="avg", use_abs_pos_emb=False, use_rel_pos_bias=True,
                        use_shared_rel_pos_bias=False, init_values=1.0)),
    "relpos": (VisionTransformerRelPos, dict(class_token=False, global_pool="avg", qkv_bias=False,
                                             fc_norm=True, init_values=1.0, rel_pos_type="bias")),
}
SHARED_ARGS = ("img_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio",
               "num_classes", "qkv_bias")


def describe(name):
    """The row of MODELS with its defaults."""
    row = MODELS[name]
    return {**DEFAULT, **RELATIVE.get(row.get("kind"), (None, {}))[1], **row}


def canonical(net):
    """The state dict by canonical names: BEiT's q and v biases become qkv's, the key's are 0."""
    state = {}
    for key, value in net.state_dict().items():
        key = key.replace("gamma_1", "ls1.gamma").replace("gamma_2", "ls2.gamma")
        key = key.replace("attn.rel_pos.", "attn.")
        if key.endswith("v_bias"):
            continue
        if key.endswith("q_bias"):
            v = net.get_parameter(key.replace("q_bias", "v_bias")).detach()
            key, value = key.replace("q_bias", "qkv.bias"), torch.cat((value, 0 * value, v))
        state[key] = value
    return state


def build(model, seed):
    """timm's module, in float64, every parameter drawn from the seed."""
    ours = ("eps", "distilled", "qk", "swiglu", "run_size", "embed_scale", "kind")
    args = {k: v for k, v in model.items() if k not in ours}
    if "kind" in model:
        kind, more = RELATIVE[model["kind"]]
        keys = (*SHARED_ARGS, *more)
        net = kind(**{k: model[k] for k in keys},
                   norm_layer=functools.partial(LayerNorm, eps=model["eps"]))
        return perturbed(net, model, seed)
    if model["swiglu"]:
        args.update(mlp_layer=SwiGLUPacked, act_layer="silu")
    kind = VisionTransformerDistilled if model["distilled"] else VisionTransformer
    net = kind(**args, norm_layer=functools.partial(LayerNorm, eps=model["eps"]),
               dynamic_img_size=model["run_size"] is not None)
    if model["qk"] == "rms":
        for block in net.blocks:
            width = model["embed_dim"] // model["num_heads"]
            block.attn.q_norm = RmsNorm(width, eps=model["eps"])
            block.attn.k_norm = RmsNorm(width, eps=model["eps"])
    return perturbed(net, model, seed)


def perturbed(net, model, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in net.named_parameters():
            draw = rng.standard_normal(tuple(p.shape))
            if name in ("cls_token", "dist_token", "reg_token", "pos_embed") or "latent" in name:
                value = 0.7 * draw
            elif "norm" in name and name.endswith("weight") or "gamma" in name:
                value = 1.0 + 0.4 * draw
            elif name.endswith("bias_table"):
                value = draw
            elif p.ndim > 1:
                value = 1.6 * draw / np.sqrt(p[0].numel())
            else:
                value = 0.3 * draw
            if name in ("cls_token", "pos_embed") or name.startswith("patch_embed"):
                value *= model["embed_scale"]
            p.copy_(torch.from_numpy(value.astype(np.float32)))
    return net.double().eval()


def forward(net, images, layer):
    """Everything the tests compare, float64 numpy; probabilities of one layer."""
    seen, hooks = {"blocks": []}, []
    attn = net.blocks[layer].attn
    attn.fused_attn = False
    hooks.append(attn.attn_drop.register_forward_hook(lambda m, i, o: seen.update(probs=o)))
    for block in net.blocks:
        hooks.append(block.register_forward_hook(lambda m, i, o: seen["blocks"].append(o)))
    dtype = next(net.parameters()).dtype
    mean, std = torch.tensor(MEAN, dtype=dtype), torch.tensor(STD, dtype=dtype)
    x = ((torch.from_numpy(images).to(dtype) / 255 - mean) / std).permute(0, 3, 1, 2)
    with torch.no_grad():
        seen["tokens"] = net.forward_features(x)
        if net.global_pool:
            seen["pooled"] = net.forward_head(seen["tokens"], pre_logits=True)
        if net.num_classes:
            seen["logits"] = net.forward_head(seen["tokens"])
    for hook in hooks:
        hook.remove()
    seen["blocks"] = torch.stack(seen["blocks"])
    return {k: v.numpy().astype(np.float64) for k, v in seen.items()}


def config(model, net):
    """/config of weights/README.md."""
    prefix = int(model["class_token"]) + int(model["distilled"]) + model["reg_tokens"]
    learned = getattr(net, "pos_embed", None) is not None
    relative = "kind" in model
    grid = [i // p for i, p in zip(model["img_size"], model["patch_size"])]
    grid = grid if learned or relative else [0, 0]
    stored = net.pos_embed.shape[1] if learned else 0
    fc2 = net.blocks[0].mlp.fc2
    position = "learned" if learned else "none"
    if relative:
        position = "relative_shared" if getattr(net, "rel_pos_bias", None) else "relative"
    has = lambda m: int(not isinstance(m, torch.nn.Identity))
    return dict(
        image_size=list(model["img_size"]), patch_size=list(model["patch_size"]),
        embed_dim=model["embed_dim"], depth=model["depth"], num_heads=model["num_heads"],
        mlp_hidden=fc2.in_features, num_classes=model["num_classes"],
        class_token=int(model["class_token"]), dist_token=int(model["distilled"]),
        register_tokens=model["reg_tokens"], position_embedding=position, position_grid=grid,
        position_prefix=stored - grid[0] * grid[1] if learned else 0,
        position_resample="geometric" if relative else "bicubic_antialias", patch_bias=int(not model["pre_norm"]),
        pre_norm=int(model["pre_norm"]), qkv_bias=int(model["qkv_bias"]),
        layer_scale=int(model["init_values"] is not None), qk_norm=model["qk"],
        mlp="swiglu" if model["swiglu"] else "mlp", activation=model["act_layer"],
        pool=model["global_pool"] or "none", norm=has(net.norm), fc_norm=has(net.fc_norm),
        norm_eps=model["eps"], _prefix=prefix)


def set_attributes(group, values):
    for key, value in values.items():
        if isinstance(value, str):
            group.attrs.create(key, value, dtype=h5py.string_dtype("utf-8"))
        else:
            real = np.asarray(value).dtype.kind == "f"
            group.attrs.create(key, value, dtype="f8" if real else "i4")


def check_not_trivial(name, out):
    """A golden value that hardly varies tests nothing."""
    probs = out["probs"]
    assert probs.max() > 3.0 / probs.shape[-1], f"{name}: attention is uniform"
    for key in ("pooled", "logits"):
        if key in out:
            differ = np.abs(out[key][0] - out[key][1]).max()
            assert out[key].std() > 0.2 and differ > 0.1, f"{name}: flat {key}"


def write_model(name, seed):
    model = describe(name)
    net = build(model, seed)
    height, width = model["run_size"] or model["img_size"]
    rng = np.random.default_rng(seed + 1000)
    images = rng.integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    images[1, : height // 2] //= 4  # the two images are of different brightness
    layer = model["depth"] - 1
    values = config(model, net)
    parameters = {k: v.numpy().astype(np.float32) for k, v in canonical(net).items()}
    if "kind" in model and model["run_size"]:
        net.set_input_size(model["run_size"])
    out = forward(net, images, layer)
    single = forward(net.float(), images, layer)
    for key, value in out.items():
        off = np.abs(value - single[key]).max() / np.abs(value).max()
        assert off < 1e-5, f"{name}: timm's float32 {key} is off by {off}"
    check_not_trivial(name, out)

    path = os.path.join(HERE, f"vit_{name}.h5")
    with h5py.File(path, "w") as f:
        set_attributes(f, dict(format="vitrine-model", format_version=1, name=f"vit-{name}",
                               family="vit", architecture=f"test_vit_{name}",
                               source=f"random, seed {seed}", source_sha256="", license="MIT"))
        prefix = values.pop("_prefix")
        assert values["position_prefix"] in (0, prefix)
        set_attributes(f.create_group("config"), values)
        set_attributes(f.create_group("preprocess"), dict(
            input_size=list(model["img_size"]), crop_pct=1.0, crop_mode="center",
            interpolation="bicubic", crop_rounding="half_even", mean=list(MEAN), std=list(STD)))
        group = f.create_group("parameters")
        for key, value in parameters.items():
            group.create_dataset(key, data=value)
        golden = f.create_group("golden")
        set_attributes(golden, dict(probs_layer=layer, origin=ORIGIN))
        golden.create_dataset("images", data=images)
        for key, value in out.items():
            golden.create_dataset(key, data=value.astype(np.float32))
    size = os.path.getsize(path)
    assert size <= 300_000, f"{path} has {size} bytes"
    print(f"{os.path.basename(path)}: {size // 1000} kB, {len(parameters)} tensors, "
          f"largest logit {np.abs(out.get('logits', out['tokens'])).max():.2f}, "
          f"largest probability {out['probs'].max():.2f}")


# ---- positions -----------------------------------------------------------------------------------

def timm_rule(grid, size, **kwargs):
    h, w, c = grid.shape
    out = resample_abs_pos_embed(torch.from_numpy(grid.reshape(1, h * w, c)), new_size=list(size),
                                 old_size=[h, w], num_prefix_tokens=0, **kwargs)
    return out.numpy().reshape(*size, c)


def torch_rule(grid, **kwargs):
    out = F.interpolate(torch.from_numpy(grid).permute(2, 0, 1)[None], **kwargs)
    return out[0].permute(1, 2, 0).contiguous().numpy()


def dinov2_offset(grid, size):
    """dinov2/models/vision_transformer.py: interpolate_pos_encoding with interpolate_offset 0.1."""
    scale = [float(n + 0.1) / m for n, m in zip(size, grid.shape)]
    out = torch_rule(grid, scale_factor=scale, mode="bicubic", antialias=False)
    assert out.shape[:2] == tuple(size)
    return out


def check_against_transformers(grid, size, value):
    from transformers import ViTConfig
    from transformers.models.vit.modeling_vit import ViTEmbeddings
    side, c = grid.shape[0], grid.shape[2]
    net = ViTEmbeddings(ViTConfig(image_size=16 * side, patch_size=16, hidden_size=c,
                                  num_attention_heads=1))
    with torch.no_grad():
        net.position_embeddings[0, 1:] = torch.from_numpy(grid.reshape(-1, c))
        tokens = torch.zeros(1, 1 + size[0] * size[1], c)
        out = net.interpolate_pos_encoding(tokens, 16 * size[0], 16 * size[1])
    assert np.array_equal(out[0, 1:].numpy().reshape(value.shape), value), "transformers differs"


def check_against_torchvision(grid, size, value):
    from torchvision.models.vision_transformer import interpolate_embeddings
    c = grid.shape[2]
    pos = torch.cat([torch.zeros(1, 1, c), torch.from_numpy(grid.reshape(1, -1, c))], dim=1)
    out = interpolate_embeddings(16 * size[0], 16, {"encoder.pos_embedding": pos})
    out = out["encoder.pos_embedding"][0, 1:].numpy().reshape(value.shape)
    assert np.array_equal(out, value), "torchvision differs"


def check_against_scipy(grid, size, value):
    """JAX and vit-keras zoom with scipy; it is not needed to run this script."""
    try:
        from scipy.ndimage import zoom
    except ImportError:
        return
    out = zoom(grid, [n / m for n, m in zip(size, grid.shape)] + [1], order=1)
    assert np.abs(out - value).max() < 2e-5, "scipy differs"  # its positions are float64: 9e-6


def write_positions():
    grids = [((14, 14), (16, 16)), ((14, 14), (24, 24)), ((24, 24), (14, 14)),
             ((37, 37), (16, 16)), ((37, 37), (24, 16)), ((7, 9), (14, 10)),
             ((1, 1), (3, 2)), ((5, 4), (1, 1)), ((6, 4), (4, 6))]
    path = os.path.join(HERE, "vit_positions.h5")
    with h5py.File(path, "w") as f:
        for i, (old, new) in enumerate(grids):
            grid = np.random.default_rng(i).standard_normal((*old, 3)).astype(np.float32)
            values = {
                "bicubic_antialias": timm_rule(grid, new),
                "bicubic": torch_rule(grid, size=new, mode="bicubic"),
                "bicubic_offset": dinov2_offset(grid, new),
                "bicubic_align_corners": torch_rule(grid, size=new, mode="bicubic",
                                                    align_corners=True),
                "bilinear": timm_rule(grid, new, interpolation="bilinear", antialias=False),
                "linear_align_corners": torch_rule(grid, size=new, mode="bilinear",
                                                   align_corners=True),
            }
            if old[0] == old[1] and old != (1, 1):
                check_against_transformers(grid, new, values["bicubic"])
                if new[0] == new[1]:
                    check_against_torchvision(grid, new, values["bicubic_align_corners"])
            if min(new) > 1 and min(old) > 1:
                check_against_scipy(grid, new, values["linear_align_corners"])
            group = f.create_group(f"{old[0]}x{old[1]}_{new[0]}x{new[1]}")
            group.create_dataset("source", data=grid)
            for rule, value in values.items():
                group.create_dataset(rule, data=value.astype(np.float32))
    print(f"{os.path.basename(path)}: {os.path.getsize(path) // 1000} kB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for seed, name in enumerate(MODELS):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            write_model(name, seed)
    if len(sys.argv) == 1 or "positions" in sys.argv[1:]:
        write_positions()
