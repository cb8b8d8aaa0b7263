#!/usr/bin/env python3
"""Compare vitrine with the reference libraries on real photos, from the JPEG file on.

usage: parity.py timm --vitrine build/vitrine --photos DIR [--work DIR] [--container C] [--activation A] [ARCH ...]
       parity.py torchvision --vitrine build/vitrine --photos DIR [--work DIR] [NAME ...]
       parity.py transformers --vitrine build/vitrine --photos DIR [--work DIR] [CASE ...]
       parity.py dinov2 --vitrine build/vitrine --photos DIR --weights DIR [--size N] [--work DIR]
       parity.py containers --vitrine build/vitrine [--work DIR] [ARCH ...]

timm: random-weight models, perturbed so that logits and attention are not flat, saved as safetensors, converted by
`vitrine convert` and run by `vitrine classify`; the reference is timm's model behind timm's own transform.
With --container npz (Google's JAX names), onnx or onnx-dynamo (torch's older and newer exporter) the weights go through
such a file instead, and every parameter must be, bit for bit, that of the safetensors file. JAX files compute tanh GELU,
and so does their reference, unless --activation gelu.
torchvision: its models with random weights, saved by torch.save and converted without a word more; the reference is the
model behind the transforms of its default weights. "NAME@S" runs both at S pixels.
transformers: small models of its classes with random weights, saved by save_pretrained with their image processor, in
the names of its files and ("CASE/own") in those of its modules; logits, or for models without a head all tokens.
"CASE@S" runs both at S pixels.
dinov2: a transformers Dinov2Model folder through `vitrine convert` and `vitrine features`; the reference is
transformers' model behind transformers' own image processor.
containers: one timm model as torch.save writes it in many ways (zip, legacy, inside a training checkpoint, behind
DataParallel, transposed, in shards, ...); every model file must have the parameters that safetensors gives, bit for bit.

Needs torch, timm, transformers, safetensors, pillow, numpy (tools/train/requirements.txt); containers also h5py, onnx
and onnxscript.
Exit status 0 when every model is within its bound.
"""
import argparse
import csv
import os
import subprocess
import sys
import warnings

import numpy as np
import torch
from PIL import Image

ARCHITECTURES = [
    "vit_tiny_patch16_224", "vit_base_patch32_224", "deit_tiny_distilled_patch16_224",
    "deit3_small_patch16_224", "vit_medium_patch16_reg4_gap_256", "vit_medium_patch16_gap_256",
    "vit_small_patch16_384",
    "swin_tiny_patch4_window7_224", "swin_base_patch4_window12_384", "swinv2_tiny_window8_256",
    "swinv2_base_window12to16_192to256",
]
CONTAINED = {
    "safetensors": ARCHITECTURES,
    "npz": ["vit_tiny_patch16_224", "vit_base_patch32_224"],
    "onnx": ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "deit3_small_patch16_224",
             "vit_medium_patch16_reg4_gap_256", "swin_tiny_patch4_window7_224"],
    "onnx-dynamo": ["vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"],
}
LOGIT_BOUND = 1e-4                 # of max |logit|
FEATURE_BOUND, COSINE_BOUND = 1e-4, 0.999999


def perturb(model, seed):
    """Weights that make every parameter matter: logits spread, attention far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    def normal(p):
        return torch.randn(p.shape, generator=generator)
    with torch.no_grad():
        for name, p in model.named_parameters():
            leaf = name.rsplit(".", 1)[-1]
            module = name.rsplit(".", 2)[-2] if "." in name else ""
            if ("norm" in name or module.startswith("ln") or name.startswith("features.0.2")) and leaf == "weight":
                p.copy_(1 + 0.2 * normal(p))
            elif leaf in ("gamma", "gamma_1", "gamma_2", "lambda1", "lambda_1", "lambda_2"):
                p.copy_(0.5 + 0.2 * normal(p))
            elif leaf == "relative_position_bias_table":
                p.copy_(1.5 * normal(p))
            elif leaf == "logit_scale":  # from 3 to the clamp at 100
                p.copy_(2.5 + 0.7 * normal(p))
            elif "cpb_mlp.2" in name or "position_bias_mlp.2" in name:
                p.copy_(normal(p) * 3.0 / p.shape[1] ** 0.5)
            elif leaf in ("bias", "q_bias", "v_bias", "in_proj_bias"):
                p.copy_(0.1 * normal(p))
            elif leaf in ("cls_token", "dist_token", "reg_token", "pos_embed", "latent", "class_token", "pos_embedding",
                          "distillation_token", "register_tokens", "position_embeddings"):
                p.copy_(0.5 * normal(p))
            elif any(word in name for word in ("qkv", "in_proj", "query", "key", "q_proj", "k_proj")):
                p.copy_(normal(p) * 2.0 / p.shape[1] ** 0.5)
            else:
                fan_in = p[0].numel()
                p.copy_(normal(p) * 1.2 / fan_in ** 0.5)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def photos_of(folder):
    return sorted(os.path.join(folder, n) for n in os.listdir(folder))


def vitrine_logits(vitrine, model, photos, classes, *more):
    text = run(vitrine, "classify", "-q", "-m", model, "-k", "0", "--format", "tsv",
               "--output-type", "logit", "--exif", "ignore", *more, *photos)
    logits = {p: np.full(classes, np.nan, np.float32) for p in photos}
    for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        logits[row["path"]][int(row["index"])] = row["score"]
    return np.stack([logits[p] for p in photos])


def save_contained(model, container, path):
    """The model's weights in another kind of file."""
    if container == "npz":
        from make_containers import jax_names
        state = {k: v.numpy() for k, v in model.state_dict().items()}
        np.savez(path, **jax_names(state, model.blocks[0].attn.num_heads))
        return
    warnings.filterwarnings("ignore")  # of tracing; what matters is compared
    x = torch.randn(1, 3, *model.patch_embed.img_size)
    options = dict(dynamo=True, verbose=False) if container == "onnx-dynamo" else dict(dynamo=False, opset_version=17)
    torch.onnx.export(model, (x,), path, **options)


def parameters_differ(one, other):
    """Names of datasets of two model files that are not the same bytes."""
    import h5py
    with h5py.File(one) as a, h5py.File(other) as b:
        a, b = a["parameters"], b["parameters"]
        return [k for k in sorted(set(a) | set(b))
                if k not in a or k not in b or a[k].shape != b[k].shape or a[k][()].tobytes() != b[k][()].tobytes()]


def contained(args, model, arch, converted):
    """Replaces the model file by one that came through args.container; whether its parameters are the same."""
    suffix = ".npz" if args.container == "npz" else ".onnx"
    path, through = (os.path.join(args.work, arch + s) for s in (suffix, ".through.h5"))
    save_contained(model, args.container, path)
    run(args.vitrine, "convert", "-q", path, "--arch", arch, "--labels", "imagenet-1k", "-o", through,
        *(["--activation", args.activation] if args.activation else []))
    different = parameters_differ(converted, through)
    if different:
        print(f"{arch}: {len(different)} parameters differ: {' '.join(different[:5])}")
    os.replace(through, converted)
    for name in (path, path + ".data"):
        if os.path.exists(name):
            os.unlink(name)
    return not different


def check_timm(args):
    import timm
    from safetensors.torch import save_file
    tanh = {"act_layer": "gelu_tanh"} if args.container == "npz" and not args.activation else {}
    same = True
    photos, worst = photos_of(args.photos), 0.0
    print(f"| architecture | max |logit| | std of a photo's logits | max |difference| | ratio | top-5 equal |")
    for number, arch in enumerate(args.arch or CONTAINED[args.container]):
        model = timm.create_model(arch, num_classes=1000, **tanh).eval()
        perturb(model, 100 + number)
        weights, converted = (os.path.join(args.work, arch + s) for s in (".safetensors", ".h5"))
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, weights)
        run(args.vitrine, "convert", "-q", weights, "--arch", arch, "--labels", "imagenet-1k", "-o", converted)
        if args.container != "safetensors":
            same = contained(args, model, arch, converted) and same
        config = timm.data.resolve_data_config({}, model=model)
        transform = timm.data.create_transform(**config)
        with torch.no_grad():
            want = torch.cat([model(transform(Image.open(p).convert("RGB"))[None]) for p in photos]).numpy()
        got = vitrine_logits(args.vitrine, converted, photos, 1000)
        difference, scale = np.abs(got - want).max(), np.abs(want).max()
        ratio = difference / scale
        five = all((np.argsort(-g, kind="stable")[:5] == np.argsort(-w, kind="stable")[:5]).all()
                   for g, w in zip(got, want))
        print(f"| {arch} | {scale:.3f} | {want.std(1).mean():.3f} | {difference:.2e} | {ratio:.2e} | {five} |", flush=True)
        worst = max(worst, ratio if np.isfinite(ratio) else np.inf)
        os.unlink(weights), os.unlink(converted)
    return same and worst <= LOGIT_BOUND


HEADER = "| model | max |logit| | std of a photo's logits | max |difference| | ratio | top-5 equal |"


def report(name, got, want):
    """A row of figures; the largest difference as a share of the largest logit."""
    scale, difference = np.abs(want).max(), np.abs(got - want).max()
    ratio = difference / scale
    five = all((np.argsort(-g, kind="stable")[:5] == np.argsort(-w, kind="stable")[:5]).all()
               for g, w in zip(got, want))
    print(f"| {name} | {scale:.3f} | {want.std(1).mean():.3f} | {difference:.2e} | {ratio:.2e} | {five} |", flush=True)
    return ratio if np.isfinite(ratio) else np.inf


def check_torchvision(args):
    import torchvision
    photos, worst = photos_of(args.photos), 0.0
    print(HEADER)
    for number, name in enumerate(args.arch or ["vit_b_16", "vit_b_32", "swin_t", "swin_v2_t"]):
        name, _, size = name.partition("@")
        model = torchvision.models.get_model(name, weights=None).eval()
        perturb(model, 200 + number)
        weights, converted = (os.path.join(args.work, name + s) for s in (".pth", ".h5"))
        torch.save(model.state_dict(), weights)
        run(args.vitrine, "convert", "-q", weights, "--labels", "imagenet-1k", "-o", converted)
        transform = torchvision.models.get_model_weights(name).DEFAULT.transforms()
        more = []
        if size:
            share = transform.resize_size[0] / transform.crop_size[0]
            transform.crop_size, transform.resize_size = [int(size)], [int(int(size) * share)]
            more = ["--image-size", size]
        with torch.no_grad():
            want = torch.cat([model(transform(Image.open(p).convert("RGB"))[None]) for p in photos]).numpy()
        got = vitrine_logits(args.vitrine, converted, photos, 1000, *more)
        worst = max(worst, report(name + ("@" + size if size else ""), got, want))
        os.unlink(weights), os.unlink(converted)
    return worst <= LOGIT_BOUND


def transformers_cases():
    """{case: (class, config, processor class, its arguments)}: small, but with heads, windows and maps as published."""
    import transformers as t
    small = dict(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768)
    swin = dict(embed_dim=48, depths=[2, 2, 4, 2], num_heads=[2, 4, 8, 16])
    half = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    inet = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
    vit = lambda n, **more: ("ViTImageProcessor", dict(size={"height": n, "width": n}, **more))
    crop = dict(size={"height": 256, "width": 256}, crop_size={"height": 224, "width": 224}, do_center_crop=True,
                resample=3, **inet)
    bit = dict(size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, do_center_crop=True, resample=3, **inet)
    dino = dict(small, patch_size=14, image_size=518)
    heads = dict(num_labels=1000)
    beit = dict(small, use_relative_position_bias=True)
    shared = dict(small, use_shared_relative_position_bias=True, use_mean_pooling=False)
    return {
        "beit": (t.BeitForImageClassification, t.BeitConfig(**beit, **heads), *vit(224, **half)),
        "beit_shared": (t.BeitForImageClassification, t.BeitConfig(**shared, **heads), *vit(224, **half)),
        "data2vec_vision": (t.Data2VecVisionForImageClassification, t.Data2VecVisionConfig(**beit, **heads),
                            *vit(224, **half)),
        "vit": (t.ViTForImageClassification, t.ViTConfig(**small, **heads), *vit(224, **half)),
        "deit": (t.DeiTForImageClassificationWithTeacher, t.DeiTConfig(**small, **heads), "DeiTImageProcessor", crop),
        "swin": (t.SwinForImageClassification, t.SwinConfig(**swin, **heads), *vit(224, resample=3, **inet)),
        "swinv2": (t.Swinv2ForImageClassification,
                   t.Swinv2Config(image_size=256, window_size=8, **swin, **heads), *vit(256, resample=3, **inet)),
        "swinv2_pretrained": (t.Swinv2ForImageClassification,
                              t.Swinv2Config(image_size=256, window_size=16, pretrained_window_sizes=[12, 12, 12, 6],
                                             **swin, **heads), *vit(256, resample=3, **inet)),
        "dinov2_with_registers": (t.Dinov2WithRegistersModel, t.Dinov2WithRegistersConfig(**dino), "BitImageProcessor", bit),
        "dinov2_swiglu": (t.Dinov2Model, t.Dinov2Config(**dino, use_swiglu_ffn=True), "BitImageProcessor", bit),
        "vit_mae": (t.ViTMAEForPreTraining,
                    t.ViTMAEConfig(**small, decoder_hidden_size=64, decoder_num_hidden_layers=1,
                                   decoder_num_attention_heads=2, decoder_intermediate_size=64, mask_ratio=0.0),
                    *vit(224, resample=3, **inet)),
        "vit_msn": (t.ViTMSNForImageClassification, t.ViTMSNConfig(**small, **heads), *vit(224, resample=3, **inet)),
    }


def reference_outputs(model, pixels):
    """(logits or tokens, whether logits). MAE shuffles patches unless told the order."""
    if hasattr(model, "decoder"):
        patches = model.vit.embeddings.patch_embeddings.num_patches
        return model.vit(pixels, noise=torch.arange(patches)[None].float() / patches).last_hidden_state[0], False
    out = model(pixel_values=pixels)
    return (out.logits[0], True) if hasattr(out, "logits") else (out.last_hidden_state[0], False)


def check_transformers(args):
    import shutil
    import transformers
    photos, worst, cases = photos_of(args.photos), 0.0, transformers_cases()
    folder, converted = os.path.join(args.work, "transformers"), os.path.join(args.work, "transformers.h5")
    tokens = os.path.join(args.work, "tokens.npy")
    print(HEADER)
    for number, case in enumerate(args.arch or [c + own for c in cases for own in ("", "/own")]):
        name, _, other = case.partition("@")
        maker, config, processor, settings = cases[name.partition("/")[0]]
        model = maker(config).eval()
        perturb(model, 300 + number)
        processor = getattr(transformers, processor + "Pil", None) or getattr(transformers, processor)
        kind, processor = processor, processor(**settings)
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder, save_original_format="/own" not in case)
        processor.save_pretrained(folder)
        run(args.vitrine, "convert", "-q", folder, "-o", converted)
        if other:
            processor = kind(**dict(settings, size={"height": int(other), "width": int(other)}))
        want = []
        for path in photos:
            pixels = processor(Image.open(path).convert("RGB"), return_tensors="pt")["pixel_values"]
            size = pixels.shape[-1]
            with torch.no_grad():
                out, logits = reference_outputs(model, pixels)
            want.append(out.numpy().ravel())
        if logits:
            got = vitrine_logits(args.vitrine, converted, photos, len(want[0]),
                                 *(["--image-size", other] if other else []))
        else:
            run(args.vitrine, "features", "-q", "-m", converted, "--exif", "ignore", "--image-size", str(size),
                "--tokens", "all", "-o", tokens, *photos)
            got = np.load(tokens).reshape(len(photos), -1)
        worst = max(worst, report(case, got, np.stack(want)))
        os.unlink(converted)
    shutil.rmtree(folder, ignore_errors=True)
    return worst <= LOGIT_BOUND


def official_dinov2(state, depth):
    """The state dict of transformers under the names of DINOv2's own code: one qkv product, ls1, ls2."""
    names = {"embeddings.cls_token": "cls_token", "embeddings.mask_token": "mask_token",
             "embeddings.position_embeddings": "pos_embed", "layernorm.weight": "norm.weight",
             "layernorm.bias": "norm.bias", "embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight",
             "embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias"}
    parts = {"norm1": "norm1", "norm2": "norm2", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2",
             "attention.output.dense": "attn.proj"}
    out = {new: state[old] for old, new in names.items()}
    for i in range(depth):
        old, new = f"encoder.layer.{i}.", f"blocks.{i}."
        out[new + "ls1.gamma"] = state[old + "layer_scale1.lambda1"]
        out[new + "ls2.gamma"] = state[old + "layer_scale2.lambda1"]
        for kind in ("weight", "bias"):
            out.update({f"{new}{b}.{kind}": state[f"{old}{a}.{kind}"] for a, b in parts.items()})
            out[f"{new}attn.qkv.{kind}"] = torch.cat(
                [state[f"{old}attention.attention.{x}.{kind}"] for x in ("query", "key", "value")])
    assert len(out) == len(state) - 4 * depth, "a name was left out"
    return out


def dinov2_forms(args):
    """The weights as they are, as DINOv2's own code saves them, and as an ONNX file if one is given."""
    from safetensors.torch import load_file
    official = os.path.join(args.work, "dinov2_vits14_pretrain.pth")
    state = load_file(os.path.join(args.weights, "model.safetensors"))
    torch.save(official_dinov2(state, 1 + max(int(k.split(".")[2]) for k in state if ".layer." in k)), official)
    # What preprocessor_config.json says; the other forms come without one.
    rules = ["crop_pct=0.875", "crop_rounding=floor", "interpolation=bicubic", "mean=0.485,0.456,0.406",
             "std=0.229,0.224,0.225"]
    options = [x for r in rules for x in ("--preprocess", r)]
    forms = [("transformers", args.weights, []), ("official", official, options)]
    if args.onnx:
        forms.append(("onnx", args.onnx, options))
    return forms


def check_dinov2(args):
    ok, first = True, None
    for form, path, options in dinov2_forms(args):
        converted, tokens = os.path.join(args.work, "dinov2.h5"), os.path.join(args.work, "tokens.npy")
        run(args.vitrine, "convert", "-q", path, "-o", converted, *options)
        run(args.vitrine, "features", "-q", "-m", converted, "--image-size", str(args.size), "--exif", "ignore",
            "--tokens", "all", "-o", tokens, *photos_of(args.photos))
        got = np.load(tokens)
        if first is None:
            first = got
            ok = against_transformers(args, got)
        print(f"{form}: {got.shape} features, bits equal to the first form's: {np.array_equal(got, first)}, "
              f"largest difference {np.abs(got - first).max():.2e} of {np.abs(first).max():.2e}", flush=True)
        ok = ok and np.abs(got - first).max() <= LOGIT_BOUND * np.abs(first).max()
    return ok


def against_transformers(args, got):
    from transformers import AutoModel
    try:
        from transformers import BitImageProcessorPil as Processor
    except ImportError:
        from transformers import BitImageProcessor as Processor
    photos = photos_of(args.photos)
    processor = Processor.from_pretrained(args.weights)
    size = args.size
    edge = processor.size["shortest_edge"] * size // 224
    model = AutoModel.from_pretrained(args.weights).eval()
    worst, cosine = 0.0, 1.0
    for i, path in enumerate(photos):
        image = Image.open(path).convert("RGB")
        pixels = processor(image, size={"shortest_edge": edge}, crop_size={"height": size, "width": size},
                           return_tensors="pt")
        with torch.no_grad():
            want = model(**pixels).last_hidden_state[0].numpy()
        for part in (slice(0, 1), slice(1, None)):
            a, b = got[i, part].ravel().astype(float), want[part].ravel().astype(float)
            worst = max(worst, np.linalg.norm(a - b) / np.linalg.norm(b))
            cosine = min(cosine, a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    print(f"dinov2 at {size} px, {len(photos)} photos: worst relative error {worst:.2e}, least cosine {cosine:.9f}")
    return worst <= FEATURE_BOUND and cosine >= COSINE_BOUND


def training_checkpoint(model):
    """What a training script saves: the model among optimizer, scheduler, scaler and arguments."""
    import pathlib
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    model.load_state_dict(kept)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    return {"model": kept, "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(),
            "scaler": {"scale": 65536.0, "growth": 0}, "epoch": 299, "max_accuracy": np.float64(81.5),
            "args": argparse.Namespace(lr=0.1, output=pathlib.Path("a/b")), "rng": torch.get_rng_state(),
            "model_ema": {k: v * 0 for k, v in kept.items()}}


def save_containers(model, work):
    """[(form, path)] of one model; the first is the safetensors file that the others are held against."""
    import json
    from safetensors.torch import save_file
    state = {k: v.contiguous() for k, v in model.state_dict().items()}
    forms = {
        "zip": state, "legacy": state, "protocol 5": state, "training checkpoint": training_checkpoint(model),
        "training checkpoint, legacy": training_checkpoint(model),
        "DataParallel": torch.nn.DataParallel(model).state_dict(),
        "teacher and student": {"student": {"module.backbone." + k: v * 0 for k, v in state.items()},
                                "teacher": {"backbone." + k: v for k, v in state.items()}},
        "parameters": {k: torch.nn.Parameter(v, requires_grad=v.is_floating_point()) for k, v in state.items()},
        "transposed": {k: v.t().contiguous().t() if v.ndim == 2 else v for k, v in state.items()},
        "one storage": None,
    }
    flat, at = torch.cat([v.flatten().float() for v in state.values() if v.is_floating_point()]), 0
    forms["one storage"] = dict(state)
    for k, v in state.items():
        if v.is_floating_point():
            forms["one storage"][k] = flat[at:at + v.numel()].view(v.shape)
            at += v.numel()
    paths = [("safetensors", os.path.join(work, "plain.safetensors"))]
    save_file(state, paths[0][1])
    for form, value in forms.items():
        path = os.path.join(work, form.replace(" ", "_").replace(",", "") + ".pth")
        torch.save(value, path, _use_new_zipfile_serialization="legacy" not in form,
                   pickle_protocol=5 if "5" in form else 2)
        paths.append((form, path))
    keys = sorted(state, key=lambda k: sum(k.encode()) % 7)
    for form, suffix, save in (("shards of safetensors", "safetensors", save_file), ("shards of .bin", "bin", torch.save)):
        stem = "model" if suffix == "safetensors" else "pytorch_model"
        folder = os.path.join(work, form.replace(" ", "_"))
        os.makedirs(folder, exist_ok=True)
        index = {}
        for n in range(3):
            name = f"{stem}-{n + 1:05}-of-00003.{suffix}"
            save({k: state[k] for k in keys[n::3]}, os.path.join(folder, name))
            index |= {k: name for k in keys[n::3]}
        with open(os.path.join(folder, f"{stem}.{suffix}.index.json"), "w") as f:
            json.dump({"metadata": {}, "weight_map": index}, f)
        paths.append((form, folder))
    return paths


PEAK = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")


def check_containers(args):
    import h5py
    import timm
    ok = True
    print("| architecture | saved as | MB | peak MB of the conversion | parameters equal |")
    for number, arch in enumerate(args.arch or ["vit_tiny_patch16_224", "swinv2_tiny_window8_256"]):
        model = timm.create_model(arch, num_classes=1000).eval()
        perturb(model, 100 + number)
        want = None
        for form, path in save_containers(model, args.work):
            converted = os.path.join(args.work, "container.h5")
            # Through a small process: a child's peak counts from its parent's size.
            peak = subprocess.run([sys.executable, "-c", PEAK, args.vitrine, "convert", "-q", path, "--arch", arch,
                                   "-o", converted], stdout=subprocess.PIPE, text=True).stdout
            equal = os.path.exists(converted)
            if equal:
                with h5py.File(converted) as f:
                    got = {k: v[()].tobytes() for k, v in f["parameters"].items()}
                want = want or got
                equal = got == want
                os.unlink(converted)
            files = [os.path.join(path, n) for n in os.listdir(path)] if os.path.isdir(path) else [path]
            size = sum(os.path.getsize(f) for f in files) / 1e6
            print(f"| {arch} | {form} | {size:.1f} | {float(peak) / 1e3:.1f} | {equal} |", flush=True)
            ok = ok and equal
            for f in files:
                os.unlink(f)
    return ok


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("what", choices=["timm", "torchvision", "transformers", "dinov2", "containers"])
    ap.add_argument("arch", nargs="*")
    ap.add_argument("--vitrine", default="build/vitrine")
    ap.add_argument("--photos", help="a folder; for all but containers")
    ap.add_argument("--weights")
    ap.add_argument("--onnx", help="dinov2: a file of the same weights")
    ap.add_argument("--container", choices=list(CONTAINED), default="safetensors")
    ap.add_argument("--activation", choices=["gelu", "gelu_tanh", "quick_gelu"])
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--work", default="build/parity")
    args = ap.parse_intermixed_args()
    os.makedirs(args.work, exist_ok=True)
    if args.what != "containers" and not args.photos:
        ap.error("want --photos")
    ok = {"timm": check_timm, "torchvision": check_torchvision, "transformers": check_transformers, "dinov2": check_dinov2, "containers": check_containers}[args.what](args)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
