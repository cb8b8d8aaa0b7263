"""Random-weight checkpoints as timm and transformers write them, converted and held against the reference library.

    python tests/ref/convert_models.py VITRINE WORK [DINOV2_FOLDER]

For each timm architecture: the weights file alone with --arch, and a hub folder (config.json) without it; the
attributes of /config and /preprocess and every parameter against the model that was saved; and the logits for the
picture in /selftest against the library's. The Swins also in the layout of Swin's own code with its buffers, and
small ones that no name stands for. Prints a line each; exit 1 when one differs.
"""
import json
import os
import subprocess
import sys

import h5py
import numpy as np
import safetensors.torch
import timm
import torch

ARCHITECTURES = """vit_tiny_patch16_224 vit_base_patch32_224 deit_tiny_distilled_patch16_224
deit3_small_patch16_224 vit_medium_patch16_reg4_gap_256 vit_medium_patch16_gap_256 vit_small_patch16_384
vit_base_patch16_clip_224 vit_base_patch14_reg4_dinov2 vit_so150m2_patch16_reg1_gap_256
vit_base_patch16_siglip_224 vit_small_patch14_dinov2 vit_base_patch16_clip_quickgelu_224
swin_tiny_patch4_window7_224 swin_s3_tiny_224 swinv2_tiny_window8_256 swinv2_tiny_window16_256
swinv2_base_window12to16_192to256""".split()
bad = 0


def check(what, got, want):
    global bad
    if isinstance(got, bytes):
        got = got.decode()
    same = np.allclose(got, want, rtol=1e-12) if not isinstance(got, str) else got == want
    if not same:
        bad += 1
        print(f"    {what}: {got}, want {want}")


def convert(vitrine, source, target, *options):
    run = subprocess.run([vitrine, "convert", source, "-o", target, "-q", *options],
                         capture_output=True, text=True)
    if run.returncode:
        print(f"    exit {run.returncode}: {run.stderr.strip()}")
    return run.returncode == 0


def logits(model, file):
    pre = file["preprocess"].attrs
    x = torch.from_numpy(file["selftest/image"][...].astype(np.float32) / 255)
    x = (x - torch.tensor(pre["mean"], dtype=torch.float32)) / torch.tensor(pre["std"], dtype=torch.float32)
    with torch.inference_mode():
        return model(x.permute(2, 0, 1)[None])


def vit_config(c, model):
    block = model.blocks[0]
    check("num_heads", c["num_heads"], block.attn.num_heads)
    check("depth", c["depth"], len(model.blocks))
    check("mlp_hidden", c["mlp_hidden"], block.mlp.fc2.in_features)
    check("norm_eps", c["norm_eps"], block.norm1.eps)
    check("pool", c["pool"], model.global_pool)
    check("register_tokens", c["register_tokens"], model.num_reg_tokens)
    check("position_grid", c["position_grid"], model.patch_embed.grid_size)
    rows = model.pos_embed.shape[1] - model.patch_embed.num_patches
    check("position_prefix", c["position_prefix"], rows)
    check("activation", c["activation"], {"GELU": "gelu", "QuickGELU": "quick_gelu", "GELUTanh": "gelu_tanh"}
          .get(type(block.mlp.act).__name__, "gelu"))
    check("position_resample", c["position_resample"], "bicubic_antialias")


def swin_config(c, model, windows_as_run=False):
    first = [stage.blocks[0] for stage in model.layers]
    version = 2 if hasattr(first[0].attn, "logit_scale") else 1
    check("version", c["version"], version)
    check("depths", c["depths"], [len(stage.blocks) for stage in model.layers])
    check("num_heads", c["num_heads"], [block.attn.num_heads for block in first])
    check("mlp_hidden", c["mlp_hidden"], [block.mlp.fc2.in_features for block in first])
    windows = [block.window_size for block in first] if windows_as_run else model._ref_window_sizes
    check("window", c["window"], [max(window) for window in windows])
    pretrained = [block.attn.pretrained_window_size[0] if version == 2 else 0 for block in first]
    if windows_as_run:      # in values, 0 and the window run are one
        pretrained = [0 if p == w[0] else p for p, w in zip(pretrained, windows)]
    check("pretrained_window", c["pretrained_window"], pretrained)
    check("qkv_bias", c["qkv_bias"], 1)
    check("norm_eps", c["norm_eps"], first[0].norm1.eps)
    check("activation", c["activation"], "gelu")
    check("window_rule", c["window_rule"], "timm")
    check("mask_value", c["mask_value"], -100)


def compare(path, model, cfg, count, **how):
    global bad
    with h5py.File(path) as file:
        c, p = file["config"].attrs, file["preprocess"].attrs
        swin = hasattr(model, "layers")
        (swin_config if swin else vit_config)(c, model, **how)
        check("family", file.attrs["family"], "swin" if swin else "vit")
        check("embed_dim", c["embed_dim"], model.embed_dim)
        check("num_classes", c["num_classes"], model.num_classes)
        check("image_size", c["image_size"], model.patch_embed.img_size)
        check("input_size", p["input_size"], cfg["input_size"][1:])
        for key in ("crop_pct", "crop_mode", "interpolation", "mean", "std"):
            check(key, p[key], cfg[key])
        check("crop_rounding", p["crop_rounding"], "half_even")
        state = model.state_dict()
        check("tensors", len(file["parameters"]), len(state))
        for key, value in state.items():
            if not np.array_equal(file["parameters"][key][...], value.numpy()):
                bad += 1
                print("    differs:", key)
        want = logits(model, file)[0].numpy()
        got = file["selftest/expected"][...]
        error = np.abs(got - want).max() / np.abs(want).max()
        if not error < 1e-4:
            bad += 1
        print(f"  {count}: max |difference| {error:.1e} of max |logit|", flush=True)


def shaken(model):
    """Biases, norms and whatever else starts at a constant get values that would show."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.std(unbiased=False) < 1e-3 or value.ndim == 1 or "logit_scale" in name:
                value.add_(0.05 * torch.randn_like(value))
            if "relative_position_bias_table" in name or "cpb_mlp.2" in name:
                value.add_(torch.randn_like(value))
    return model.eval()


def official(model):
    """The names and buffers of Swin's own code (Swin-Transformer, models/swin_transformer*.py)."""
    state = {}
    for key, value in model.state_dict().items():
        parts = key.split(".")
        if parts[0] == "layers" and parts[2] == "downsample":
            parts[1] = str(int(parts[1]) - 1)
        state[".".join(parts).replace("head.fc.", "head.")] = value.contiguous()
    for name, module in model.named_modules():
        for buffer in ("relative_position_index", "relative_coords_table", "attn_mask"):
            value = module._buffers.get(buffer)
            if value is not None:
                state[f"{name}.{buffer}"] = value.contiguous()
    return state


def swin_models(vitrine, work):
    """Swin's own layout, and models that no name stands for: the picture's size and what there is of buffers."""
    global bad
    from timm.models.swin_transformer import SwinTransformer
    from timm.models.swin_transformer_v2 import SwinTransformerV2
    small = dict(embed_dim=32, depths=(2, 2, 2), num_heads=(1, 2, 4), num_classes=7)
    rule = ["crop_pct=1", "interpolation=bicubic", "mean=0.5", "std=0.25"]
    cfg = dict(crop_pct=1, crop_mode="center", interpolation="bicubic", mean=[0.5] * 3, std=[0.25] * 3)
    path, target = os.path.join(work, "alone.safetensors"), os.path.join(work, "out.h5")
    for title, kind, args in (
            ("Swin v1, map 18x14 in windows of 7", SwinTransformer, dict(img_size=(72, 56), window_size=7)),
            ("Swin v1, windows larger than the map", SwinTransformer, dict(img_size=40, window_size=12)),
            ("Swin v1, patch 2, a window a stage", SwinTransformer,
             dict(img_size=(32, 48), patch_size=2, window_size=((4, 4), (3, 3), (6, 6)))),
            ("Swin v2, windows of 8", SwinTransformerV2, dict(img_size=64, window_size=8)),
            ("Swin v2, pretrained windows", SwinTransformerV2,
             dict(img_size=(80, 64), window_size=5, pretrained_window_sizes=(12, 4, 3)))):
        print(title, flush=True)
        torch.manual_seed(3)
        model = shaken(kind(**args, **small))
        size = model.patch_embed.img_size
        options = [word for text in (f"input_size={size[0]}x{size[1]}", *rule) for word in ("--preprocess", text)]
        for layout, state in (("timm", model.state_dict()), ("its own layout", official(model))):
            if layout == "timm" and kind is SwinTransformerV2:
                continue        # nothing in it says the windows
            safetensors.torch.save_file(state, path)
            if convert(vitrine, path, target, *options):
                compare(target, model, dict(cfg, input_size=(3, *size)), layout, windows_as_run=True)
            else:
                bad += 1


def timm_models(vitrine, work):
    global bad
    for name in ARCHITECTURES:
        print(name, flush=True)
        torch.manual_seed(1)
        model = shaken(timm.create_model(name))
        folder = os.path.join(work, name)
        os.makedirs(folder, exist_ok=True)
        alone, target = os.path.join(work, "alone.safetensors"), os.path.join(work, "out.h5")
        safetensors.torch.save_file(model.state_dict(), alone)
        cfg = timm.models.get_pretrained_cfg(name).to_dict()
        if convert(vitrine, alone, target, "--arch", name):
            compare(target, model, cfg, "--arch")
        else:
            bad += 1
        if hasattr(model, "layers"):
            safetensors.torch.save_file(official(model), alone)
            if convert(vitrine, alone, target):     # tables or coordinates say which it is
                compare(target, model, cfg, "its own layout")
            else:
                bad += 1
        cfg["crop_pct"], cfg["mean"], cfg["crop_mode"] = 0.77, [0.1, 0.2, 0.3], "border"
        timm.models.save_for_hf(model, folder, model_config={"pretrained_cfg": cfg}, safe_serialization=True)
        config_path = os.path.join(folder, "config.json")
        with open(config_path) as file:
            config = json.load(file)
        config["pretrained_cfg"].update(crop_pct=0.77, mean=[0.1, 0.2, 0.3], crop_mode="border")
        with open(config_path, "w") as file:
            json.dump(config, file)
        if convert(vitrine, folder, target):
            compare(target, model, cfg, "hub folder")
        else:
            bad += 1
        for file in os.listdir(folder):
            os.remove(os.path.join(folder, file))


def transformers_model(vitrine, work, title, model, folder=None, **processor):
    global bad
    print(title, flush=True)
    target = os.path.join(work, "out.h5")
    if not folder:
        folder = os.path.join(work, "transformers")
        model.save_pretrained(folder, **processor.pop("save", {}))
        with open(os.path.join(folder, "preprocessor_config.json"), "w") as file:
            json.dump(processor["processor"], file)
    if not convert(vitrine, folder, target):
        bad += 1
        return
    with h5py.File(target) as file:
        out = logits(lambda x: model(x, **processor.get("call", {})), file)
        want = out.logits[0] if hasattr(out, "logits") else out.last_hidden_state[0, 0]
        want = want.numpy()
        error = np.abs(file["selftest/expected"][...] - want).max() / np.abs(want).max()
        bad += not error < 1e-4
        print(f"  max |difference| {error:.1e};",
              {k: (v.decode() if isinstance(v, bytes) else v) for k, v in file["preprocess"].attrs.items()},
              file["config"].attrs["position_resample"], file.attrs["architecture"])


def transformers_models(vitrine, work, dinov2):
    import transformers as t
    torch.manual_seed(2)
    small = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=2)
    edge = {"size": {"shortest_edge": 36}, "do_center_crop": True, "crop_size": {"height": 28, "width": 28},
            "resample": 3, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}
    plain = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}

    def moved(model):
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.1 * torch.randn_like(value))
        return model.eval()

    for save in ({}, {"save_original_format": False}):
        transformers_model(vitrine, work, f"Dinov2WithRegisters, SwiGLU {save}", moved(t.Dinov2WithRegistersModel(
            t.Dinov2WithRegistersConfig(image_size=42, patch_size=14, use_swiglu_ffn=True, **small))),
            processor=edge, save=save)
        transformers_model(vitrine, work, f"Dinov2 {save}", moved(t.Dinov2Model(
            t.Dinov2Config(image_size=42, patch_size=14, **small))), processor=edge, save=save)
        transformers_model(vitrine, work, f"ViT {save}", moved(t.ViTForImageClassification(
            t.ViTConfig(image_size=32, patch_size=8, intermediate_size=96, num_labels=7, **small))),
            processor=plain, save=save)
        transformers_model(vitrine, work, f"DeiT {save}", moved(t.DeiTForImageClassificationWithTeacher(
            t.DeiTConfig(image_size=32, patch_size=8, intermediate_size=96, num_labels=7, **small))),
            processor=plain, save=save)
    if dinov2:
        model = t.Dinov2Model.from_pretrained(dinov2).eval()
        transformers_model(vitrine, work, dinov2, model, folder=dinov2)


def main():
    vitrine, work = sys.argv[1:3]
    timm_models(vitrine, work)
    swin_models(vitrine, work)
    transformers_models(vitrine, work, sys.argv[3] if len(sys.argv) > 3 else None)
    print("bad:", bad)
    return 1 if bad else 0


sys.exit(main())
