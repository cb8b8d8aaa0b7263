#!/usr/bin/env python3
"""Every checkpoint that `vitrine pull` offers, written as its origin publishes it and pulled: so that no download fails on
a tensor's name.

usage: catalog_names.py [--vitrine build/vitrine] [--work DIR] [--up-to PARAMETERS] [--golden FILE] [NAME ...]

The names and shapes are those of the origin's own network (timm's and torchvision's models, transformers' classes in the
names of its published files, the keys of DeiT, Swin, DINOv2, MAE and JAX as in their code), with the buffers that its
files have and the dict around them; the values are random. Up to --up-to parameters `vitrine pull --from FILE NAME`
makes the model, runs its self-test and leaves a file whose tensors must be timm's, name for name, shape for shape. Larger
ones are a hole in a file behind a true header, and go through `vitrine convert --dry-run`. So do the other forms that an
origin's files come in. --golden writes the counts for tests/test_catalog.c, from the reference models alone.

Needs torch 2.6 or newer, timm, torchvision, transformers, numpy, h5py. Exit status 0 when all are right.
"""
import argparse
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time

import h5py
import numpy as np
import timm
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from make_containers import jax_names

# Fine-tuned at another size than the architecture's.
SIZES = {"vit_l_16.imagenet1k_swag_e2e_v1": 512, "vit_h_14.imagenet1k_swag_e2e_v1": 518}
INET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


# A state: {tensor's name: tensor on the meta device, or where its values matter a true one}.

def renamed(state, *pairs):
    """By regular expressions, each over what the one before left."""
    for pattern, to in pairs:
        state = {re.sub(pattern, to, k): v for k, v in state.items()}
    return state


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


# ---- the models, without values -------------------------------------------------------------------

def timm_model(entry):
    more = {"img_size": SIZES[entry["name"]]} if entry["name"] in SIZES else {}
    if entry["origin"] == "mae":
        more["global_pool"] = "avg"
    with torch.device("meta"):
        return timm.create_model(entry["architecture"], num_classes=int(entry["classes"]), **more)


def buffers(model):
    """Those that Swin's files have: index and coordinates of the biases, the shifted windows' mask."""
    kinds = ("relative_position_index", "relative_coords_table", "attn_mask")
    out = {k: v for k, v in model.named_buffers() if k.endswith(kinds)}
    for k in [k for k in out if k.endswith(kinds[1])]:
        attention = model.get_submodule(k.rpartition(".")[0])
        out[k] = coordinates(out[k].shape, getattr(attention, "pretrained_window_size", (0, 0)))
    return out


def coordinates(shape, pretrained):
    """relative_coords_table (1, 2 H - 1, 2 W - 1, 2) of Swin v2: offsets in units of the window trained, times 8, log."""
    axes = []
    for n, trained in zip(shape[1:3], pretrained):
        side = (n + 1) // 2
        axes.append(8 * np.arange(1 - side, side) / ((trained or side) - 1))
    table = np.stack(np.meshgrid(*axes, indexing="ij"), -1)[None]
    return torch.from_numpy((np.sign(table) * np.log2(np.abs(table) + 1) / 3).astype(np.float32))


def swin_official(model):
    """Merging at the end of a stage, the head in one word: Swin-Transformer/models, and timm up to 0.6."""
    state = model.state_dict() | buffers(model)
    return renamed(state, (r"^layers\.(\d)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample"),
                   (r"^head\.fc\.", "head."))


def dinov2_official(model):
    """dinov2/models/vision_transformer.py: positions have a class row, registers none."""
    state = renamed(model.state_dict(), ("^reg_token$", "register_tokens"))
    width = state["cls_token"].shape[-1]
    state["pos_embed"] = meta(1, 37 * 37 + 1, width)
    state["mask_token"] = meta(1, width)
    if state["blocks.0.mlp.fc1.weight"].shape[0] == 2 * state["blocks.0.mlp.fc2.weight"].shape[1]:  # SwiGLU
        state = renamed(state, (r"mlp\.fc1", "mlp.w12"), (r"mlp\.fc2", "mlp.w3"))
    return state


def torchvision_model(entry):
    import torchvision
    name = entry["name"].split(".")[0]
    more = {"image_size": int(timm_model(entry).patch_embed.img_size[0])} if name.startswith("vit") else {}
    with torch.device("meta"):
        return torchvision.models.get_model(name, weights=None, **more)


def transformers_config(entry, model):
    """(class, config) of the published file; plain DeiTs are ViTs there."""
    import transformers as t
    if entry["name"].startswith("swin"):
        second = entry["name"].startswith("swinv2")
        depths = [len(stage.blocks) for stage in model.layers]
        heads = [stage.blocks[0].attn.num_heads for stage in model.layers]
        window = model.layers[0].blocks[0].window_size[0]
        config = (t.Swinv2Config if second else t.SwinConfig)(
            image_size=model.patch_embed.img_size[0], embed_dim=model.embed_dim, depths=depths, num_heads=heads,
            window_size=window, num_labels=1000)
        return t.Swinv2ForImageClassification if second else t.SwinForImageClassification, config
    dinov2, block = entry["name"].startswith("dinov2"), model.blocks[0]
    config = dict(hidden_size=model.embed_dim, num_hidden_layers=len(model.blocks), num_attention_heads=block.attn.num_heads,
                  patch_size=model.patch_embed.patch_size[0], image_size=model.patch_embed.img_size[0])
    if dinov2:
        return t.Dinov2Model, t.Dinov2Config(**config, use_swiglu_ffn="giant" in entry["name"])
    config |= dict(intermediate_size=block.mlp.fc1.out_features, num_labels=1000)
    if "distilled" in entry["name"]:
        return t.DeiTForImageClassificationWithTeacher, t.DeiTConfig(**config)
    return t.ViTForImageClassification, t.ViTConfig(**config)


def transformers_processor(entry, size):
    """preprocessor_config.json as the hub has it: of the time before sizes were objects, but for DINOv2."""
    name, both = entry["name"], {"do_normalize": True, "do_resize": True}
    if name.startswith("dinov2"):
        return both | INET | {"do_center_crop": True, "do_convert_rgb": True, "do_rescale": True, "resample": 3,
                              "crop_size": {"height": 224, "width": 224}, "size": {"shortest_edge": 256},
                              "rescale_factor": 1 / 255, "image_processor_type": "BitImageProcessor"}
    if name.startswith("deit"):
        return both | INET | {"do_center_crop": True, "crop_size": size, "size": size * 8 // 7, "resample": 3,
                              "feature_extractor_type": "DeiTFeatureExtractor"}
    if name.startswith("swin"):
        return both | INET | {"feature_extractor_type": "ViTFeatureExtractor", "resample": 3, "size": size}
    return both | {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": size}


def transformers_state(maker, config):
    from transformers.core_model_loading import revert_weight_conversion
    with torch.device("meta"):
        model = maker(config)
    state = revert_weight_conversion(model, model.state_dict())
    for k in [k for k in state if k.endswith("relative_position_bias_table")]:  # a buffer of the files up to 2023
        n = config.window_size ** 2
        state[k.replace("bias_table", "index")] = meta(n, n, dtype=torch.int64)
    return state


# ---- files ----------------------------------------------------------------------------------------

NOISE = (0.05 * np.random.default_rng(1).standard_normal(1 << 20)).astype(np.float32)


def array(tensor):
    if tensor.device.type != "meta":
        return tensor.numpy()
    if tensor.dtype != torch.float32:
        return np.zeros(tensor.shape, np.int64)
    return np.resize(NOISE, tensor.numel()).reshape(tuple(tensor.shape))


def save_safetensors(state, path, hole):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for k, v in state.items():
        size = v.numel() * v.element_size()
        header[k] = {"dtype": "F32" if v.dtype == torch.float32 else "I64", "shape": list(v.shape),
                     "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for v in state.values():
            if hole and v.device.type == "meta":
                f.seek(v.numel() * v.element_size(), os.SEEK_CUR)
            else:
                f.write(array(v).tobytes())
        f.truncate(8 + len(text) + at)


def save_torch(state, path, hole, wrapper=None, zipped=True):
    wrapped = lambda values: {wrapper: values} if wrapper else values
    if hole and all(v.device.type == "meta" for v in state.values()):
        with FakeTensorMode():
            values = {k: torch.empty(v.shape, dtype=v.dtype) for k, v in state.items()}
        with torch.serialization.skip_data(materialize_fake_tensors=True):
            torch.save(wrapped(values), path)
        return
    torch.save(wrapped({k: torch.from_numpy(array(v)) for k, v in state.items()}), path,
               _use_new_zipfile_serialization=zipped)


def save_npz(state, path, hole, heads):
    values = {k: np.zeros(tuple(v.shape), np.float32) if hole else array(v) for k, v in state.items()}
    np.savez(path, **jax_names(values, heads))


def hub_folder(entry, model, folder, hole):
    maker, config = transformers_config(entry, model)
    os.makedirs(folder, exist_ok=True)
    state = transformers_state(maker, config)
    save_safetensors(state, os.path.join(folder, "model.safetensors"), hole)
    config.architectures = [maker.__name__]
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write(config.to_json_string(use_diff=False))
    with open(os.path.join(folder, "preprocessor_config.json"), "w") as f:
        json.dump(transformers_processor(entry, model.patch_embed.img_size[0]), f)
    return len(state)


def forms(entry, model):
    """[(form, tensors, writer(path, hole))]: how the origin's file looks, the most likely first."""
    origin, plain = entry["origin"], model.state_dict()
    torch_file = lambda form, state, **how: (form, len(state), lambda path, hole: save_torch(state, path, hole, **how))
    hub_file = lambda form, state: (form, len(state), lambda path, hole: save_safetensors(state, path, hole))
    swin = entry["architecture"].startswith("swin")
    if origin == "timm":
        return [hub_file("timm 0.9.6", plain)] + ([hub_file("timm 0.9.0", plain | buffers(model))] if swin else [])
    if origin == "torchvision":
        official = torchvision_model(entry)
        state = official.state_dict() | buffers(official)
        old = renamed(state, (r"mlp\.0\.", "mlp.linear_1."), (r"mlp\.3\.", "mlp.linear_2."))
        return [torch_file("torchvision 0.13", state)] + ([] if swin else [torch_file("torchvision 0.12", old)])
    if origin == "deit":
        state = renamed(plain, (r"ls(\d)\.gamma", r"gamma_\1"))
        return [torch_file("model", state, wrapper="model"), torch_file("legacy", state, wrapper="model", zipped=False)]
    if origin == "swin" or swin and origin == "timm-releases":
        state = swin_official(model)
        return [torch_file("model", state, wrapper="model"), torch_file("legacy", state, wrapper="model", zipped=False)]
    if origin == "timm-releases":
        return [torch_file("zip", plain), torch_file("legacy", plain, zipped=False)]
    if origin == "dinov2":
        return [torch_file("zip", dinov2_official(model))]
    if origin == "mae":
        return [torch_file("model", plain, wrapper="model")]
    if origin == "jax":
        heads = model.blocks[0].attn.num_heads
        tensors = len(plain) + 4 * len(model.blocks)  # query, key and value apart
        return [("npz", tensors, lambda path, hole: save_npz(plain, path, hole, heads))]
    return [("hub", 0, lambda path, hole: hub_folder(entry, model, path, hole))]


SUFFIX = {"timm": ".safetensors", "jax": ".npz", "transformers": ""}


# ---- vitrine --------------------------------------------------------------------------------------

def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    return done.returncode, done.stdout, done.stderr.strip()


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def pulled(args, entry, path, want):
    """What is wrong with the model that pull makes of the file; None: nothing."""
    weights = os.path.join(path, "model.safetensors") if os.path.isdir(path) else path
    models = os.path.join(args.work, "models")
    code, _, said = run(args.vitrine, "pull", "-q", "--from", path, "--sha256", sha256(weights), entry["name"],
                        env=os.environ | {"VITRINE_MODELS": models})
    if code:
        return said or f"exit status {code}"
    model = os.path.join(models, entry["name"] + ".h5")
    with h5py.File(model) as f:
        have = {k: v.shape for k, v in f["parameters"].items()}
        labels = len(f["labels/name"]) if "labels" in f else 0
    os.unlink(model)
    different = sorted(k for k in set(have) | set(want) if have.get(k) != want.get(k))
    if different:
        return f"{len(different)} tensors are not timm's: {' '.join(different[:3])}"
    if int(entry["classes"]) == 1000 and labels != 1000:
        return f"{labels} labels"
    return None if not os.listdir(models) else f"{os.listdir(models)} is left"


def planned(args, entry, path, want):
    """The same of convert --dry-run, as pull calls it."""
    arch = [] if entry["origin"] == "transformers" else ["--arch", entry["architecture"]]
    code, out, said = run(args.vitrine, "convert", "--dry-run", "-v", path, *arch)
    if code:
        return said or f"exit status {code}"
    targets = set(re.findall(r"^(?:used|renamed|merged|split|transposed) +(?:.* -> )?([^ \n]+)(?:  \(.*)?$", out, re.M))
    said = re.search(r"^parameters (\d+) in (\d+) tensors$", out, re.M)
    want_counts = [sum(int(np.prod(s)) for s in want.values()), len(want)]
    if not said or [int(n) for n in said.groups()] != want_counts:
        return f"says {said and said[0]}, want {want_counts}"
    missing = sorted(k for k in set(want) - targets if not k.endswith("v_bias"))  # half of a split
    return f"no tensor gives {' '.join(missing[:3])}" if missing else None


def kept(model):
    """The tensors of vitrine's model: timm's, but BEiT's q_bias and v_bias are one qkv.bias, zeros between
    them, and its gamma_1 and gamma_2 are called as elsewhere."""
    state = model.state_dict()
    for name in [k for k in state if k.endswith(".q_bias") and k.replace("q_bias", "relative_position_bias_table") in state]:
        width = state.pop(name).shape[0]
        del state[name.replace("q_bias", "v_bias")]
        state[name.replace("q_bias", "qkv.bias")] = meta(3 * width)
    return renamed(state, (r"\.gamma_(\d)$", r".ls\1.gamma"))


def check(args, entry, model):
    """(form, tensors of the file, what was done, what is wrong) of each form."""
    want = {k: tuple(v.shape) for k, v in kept(model).items()}
    path = os.path.join(args.work, "checkpoint" + SUFFIX.get(entry["origin"], ".pth"))
    for number, (form, tensors, write) in enumerate(forms(entry, model)):
        large = int(entry["parameters"]) > args.up_to
        if large and form == "legacy":
            continue
        tensors = write(path, large) or tensors
        how = pulled if number == 0 and not large else planned
        yield form, tensors, how.__name__, how(args, entry, path, want)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


GOLDEN = """/* Made by tests/ref/catalog_names.py with timm %s: every checkpoint of the catalogue, tensors and
 * parameters of timm's model of its architecture (BEiT's: with zeros for the key's bias, as they are kept). */
%s
"""


def write_golden(path, entries):
    rows = []
    for entry in entries:
        state = kept(timm_model(entry))
        rows.append(f'    {{"{entry["name"]}", {len(state)}, {sum(v.numel() for v in state.values())}}},')
    with open(path, "w") as f:
        f.write(GOLDEN % (timm.__version__, "\n".join(rows)))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("names", nargs="*")
    ap.add_argument("--vitrine", default="build/vitrine")
    ap.add_argument("--work", default="build/catalog")
    ap.add_argument("--up-to", type=int, default=150_000_000)
    ap.add_argument("--golden")
    args = ap.parse_args()
    os.makedirs(os.path.join(args.work, "models"), exist_ok=True)
    code, out, said = run(args.vitrine, "pull", "--list", "-f", "tsv")
    entries = [e for e in csv.DictReader(io.StringIO(out), delimiter="\t", quoting=csv.QUOTE_NONE)
               if not args.names or e["name"] in args.names]
    if args.golden:
        write_golden(args.golden, entries)
        return 0
    counts, bad, begun = {"pulled": 0, "planned": 0}, 0, time.time()
    print("| name | form | its tensors | tensors | parameters | done | result |")
    for entry in entries:
        model = timm_model(entry)
        state = model.state_dict()
        parameters = sum(v.numel() for v in state.values())
        for form, stored, how, wrong in check(args, entry, model):
            if parameters != int(entry["parameters"]):
                wrong = wrong or f"the list says {entry['parameters']} parameters"
            counts[how] += 1
            bad += wrong is not None
            print(f"| {entry['name']} | {form} | {stored} | {len(state)} | {parameters} | {how} | {wrong or 'ok'} |",
                  flush=True)
    print(f"{len(entries)} names, {counts['pulled']} files pulled, {counts['planned']} planned, {bad} wrong; "
          f"{time.time() - begun:.0f} s")
    return 1 if bad or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
