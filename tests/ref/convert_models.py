"""Random-weight checkpoints as timm and transformers write them, converted and held against the reference library.

    python tests/ref/convert_models.py VITRINE WORK [DINOV2_FOLDER]

For each timm architecture: the weights file alone with --arch, and a hub folder (config.json) without it; the
attributes of /config and /preprocess and every parameter against the model that was saved; and the logits for the
picture in /selftest against the library's. Prints a line each; exit 1 when one differs.
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
vit_base_patch16_siglip_224 vit_small_patch14_dinov2 vit_base_patch16_clip_quickgelu_224""".split()
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


def compare(path, model, cfg, count):
    global bad
    with h5py.File(path) as file:
        c, p = file["config"].attrs, file["preprocess"].attrs
        block = model.blocks[0]
        check("num_heads", c["num_heads"], block.attn.num_heads)
        check("embed_dim", c["embed_dim"], model.embed_dim)
        check("depth", c["depth"], len(model.blocks))
        check("mlp_hidden", c["mlp_hidden"], block.mlp.fc2.in_features)
        check("num_classes", c["num_classes"], model.num_classes)
        check("norm_eps", c["norm_eps"], block.norm1.eps)
        check("pool", c["pool"], model.global_pool)
        check("register_tokens", c["register_tokens"], model.num_reg_tokens)
        check("position_grid", c["position_grid"], model.patch_embed.grid_size)
        rows = model.pos_embed.shape[1] - model.patch_embed.num_patches
        check("position_prefix", c["position_prefix"], rows)
        check("image_size", c["image_size"], model.patch_embed.img_size)
        check("activation", c["activation"], {"GELU": "gelu", "QuickGELU": "quick_gelu", "GELUTanh": "gelu_tanh"}
              .get(type(block.mlp.act).__name__, "gelu"))
        check("position_resample", c["position_resample"], "bicubic_antialias")
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
        print(f"  {count}: max |difference| {error:.1e} of max |logit|")


def timm_models(vitrine, work):
    global bad
    for name in ARCHITECTURES:
        print(name, flush=True)
        torch.manual_seed(1)
        model = timm.create_model(name).eval()
        with torch.no_grad():
            for value in model.state_dict().values():
                if value.std() < 1e-3 or value.ndim == 1:
                    value.add_(0.05 * torch.randn_like(value))
        folder = os.path.join(work, name)
        os.makedirs(folder, exist_ok=True)
        alone, target = os.path.join(work, "alone.safetensors"), os.path.join(work, "out.h5")
        safetensors.torch.save_file(model.state_dict(), alone)
        cfg = timm.models.get_pretrained_cfg(name).to_dict()
        if convert(vitrine, alone, target, "--arch", name):
            compare(target, model, cfg, "--arch")
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

    def shaken(model):
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.1 * torch.randn_like(value))
        return model.eval()

    for save in ({}, {"save_original_format": False}):
        transformers_model(vitrine, work, f"Dinov2WithRegisters, SwiGLU {save}", shaken(t.Dinov2WithRegistersModel(
            t.Dinov2WithRegistersConfig(image_size=42, patch_size=14, use_swiglu_ffn=True, **small))),
            processor=edge, save=save)
        transformers_model(vitrine, work, f"Dinov2 {save}", shaken(t.Dinov2Model(
            t.Dinov2Config(image_size=42, patch_size=14, **small))), processor=edge, save=save)
        transformers_model(vitrine, work, f"ViT {save}", shaken(t.ViTForImageClassification(
            t.ViTConfig(image_size=32, patch_size=8, intermediate_size=96, num_labels=7, **small))),
            processor=plain, save=save)
        transformers_model(vitrine, work, f"DeiT {save}", shaken(t.DeiTForImageClassificationWithTeacher(
            t.DeiTConfig(image_size=32, patch_size=8, intermediate_size=96, num_labels=7, **small))),
            processor=plain, save=save)
    if dinov2:
        model = t.Dinov2Model.from_pretrained(dinov2).eval()
        transformers_model(vitrine, work, dinov2, model, folder=dinov2)


def main():
    vitrine, work = sys.argv[1:3]
    timm_models(vitrine, work)
    transformers_models(vitrine, work, sys.argv[3] if len(sys.argv) > 3 else None)
    print("bad:", bad)
    return 1 if bad else 0


sys.exit(main())
