#!/usr/bin/env python3
"""The tiny ViT and Swin of make_containers.py in the files of Keras' world, for test_keras.c: whatever the
layout, the model written must be the same bit for bit. Then files that are wrong in one thing each.

usage: make_keras.py [VIT.safetensors [DIR]]      (tests/ref/containers, tests/ref/keras)
       make_keras.py --check DIR                  Keras itself (keras_hub, and vit-keras where it is installed) builds the
                                                  same model and saves it in all its formats into DIR

The files of the tree are written by h5py: what Keras writes, without its hundreds of empty groups. --check writes what
Keras writes, to see that names and layouts are its own; transformers' TensorFlow code is gone, so its layout is that of
modeling_tf_vit.py and modeling_tf_utils.py. Needs h5py, numpy, safetensors; for --check keras, keras_hub, torch.
"""
import io
import json
import os
import sys
import zipfile

import h5py
import numpy as np
from safetensors.numpy import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS = 2


def blocks(state):
    return range(sum(k.endswith("norm1.weight") and k.startswith("blocks.") for k in state))


def qkv(state, n, i):
    """Kernel (in, out) and bias of query, key or value."""
    width = state["cls_token"].shape[-1]
    rows = slice(i * width, (i + 1) * width)
    return state[f"blocks.{n}.attn.qkv.weight"][rows].T, state[f"blocks.{n}.attn.qkv.bias"][rows]


def both(out, name, kernel, bias, words=("kernel", "bias")):
    out[f"{name}/{words[0]}"], out[f"{name}/{words[1]}"] = kernel, bias


def dense(out, name, state, source, words=("kernel", "bias")):
    both(out, name, state[source + ".weight"].T, state[source + ".bias"], words)


def norm(out, name, state, source, words=("gamma", "beta")):
    both(out, name, state[source + ".weight"], state[source + ".bias"], words)


def patches(out, name, state, words=("kernel", "bias")):
    both(out, name, state["patch_embed.proj.weight"].transpose(2, 3, 1, 0), state["patch_embed.proj.bias"], words)


def tensorflow(state, scope="tf_vi_t_for_image_classification", model="vit", head="classifier"):
    """transformers' tf_model.h5: {path: array}."""
    out, body = {}, f"{model}/{scope}/{model}/"
    out[body + "embeddings/cls_token"] = state["cls_token"]
    out[body + "embeddings/position_embeddings"] = state["pos_embed"]
    if "dist_token" in state:
        out[body + "embeddings/distillation_token"] = state["dist_token"]
    patches(out, body + "embeddings/patch_embeddings/projection", state)
    for n in blocks(state):
        layer = f"{body}encoder/layer_._{n}/"
        for i, part in enumerate(("query", "key", "value")):
            both(out, f"{layer}attention/attention/{part}", *qkv(state, n, i))
        dense(out, layer + "attention/output/dense", state, f"blocks.{n}.attn.proj")
        dense(out, layer + "intermediate/dense", state, f"blocks.{n}.mlp.fc1")
        dense(out, layer + "output/dense", state, f"blocks.{n}.mlp.fc2")
        norm(out, layer + "layernorm_before", state, f"blocks.{n}.norm1")
        norm(out, layer + "layernorm_after", state, f"blocks.{n}.norm2")
    norm(out, body + "layernorm", state, "norm")
    if "head.weight" in state:
        dense(out, f"{head}/{scope}/{head}", state, "head")
    if "head_dist.weight" in state:
        dense(out, f"distillation_classifier/{scope}/distillation_classifier", state, "head_dist")
    return {k + ":0": v for k, v in out.items()}


def hub(state, before="layers/", mark=""):
    """keras_hub's ViTBackbone."""
    out, w = {}, ("vars/0", "vars/1")
    heads = (HEADS, state["cls_token"].shape[-1] // HEADS)
    embedding = before + "vi_t_patching_and_embedding/"
    out[embedding + "vars/0"] = state["cls_token"]
    out[embedding + "position_embedding/vars/0"] = state["pos_embed"][0]
    patches(out, embedding + "patch_embedding", state, w)
    for n in blocks(state):
        layer = before + "vi_t_encoder/encoder_layers/vi_t_encoder_block" + (f"_{n}/" if n else "/")
        for i, part in enumerate(("query", "key", "value")):
            kernel, bias = qkv(state, n, i)
            both(out, f"{layer}mha/{mark}{part}_dense", kernel.reshape(-1, *heads), bias.reshape(heads), w)
        kernel = state[f"blocks.{n}.attn.proj.weight"].T
        both(out, f"{layer}mha/{mark}output_dense", kernel.reshape(*heads, -1), state[f"blocks.{n}.attn.proj.bias"], w)
        for i in (1, 2):
            norm(out, f"{layer}layer_norm_{i}", state, f"blocks.{n}.norm{i}", w)
            dense(out, f"{layer}mlp/dense_{i}", state, f"blocks.{n}.mlp.fc{i}", w)
    norm(out, before + "vi_t_encoder/layer_norm", state, "norm", w)
    return out


def hub_classifier(state):
    out = hub(state, "layers/vi_t_backbone/layers/", "_")
    dense(out, "layers/dense", state, "head", ("vars/0", "vars/1"))
    return out | {"optimizer/vars/0": np.int32(7), "optimizer/vars/1": np.float32(0.1)}


def hub_swin(state, before="layers/swin_transformer_backbone/layers/"):
    """keras_hub's SwinTransformerImageClassifier of timm's Swin: merging at the end of a stage."""
    out, w = {}, ("vars/0", "vars/1")
    number = lambda name, i: name + (f"_{i}" if i else "")
    patches(out, before + "patch_embedding/proj", state, w)
    norm(out, before + "patch_embedding/norm", state, "patch_embed.norm", w)
    for source in sorted(state):
        if source.endswith("norm1.weight"):
            _, s, _, b, _, _ = source.split(".")
            stage = before + number("swin_transformer_stage", int(s))
            block, timm = stage + number("/blocks/swin_transformer_block", int(b)), source[:-len("norm1.weight")]
            out[block + "/attn/vars/0"] = state[timm + "attn.relative_position_bias_table"]
            for name in ("norm1", "norm2"):
                norm(out, f"{block}/{name}", state, timm + name, w)
            for name in ("attn/qkv", "attn/proj", "mlp/fc1", "mlp/fc2"):
                dense(out, f"{block}/{name}", state, timm + name.replace("/", "."), w)
        elif source.endswith("reduction.weight"):
            merging = before + number("swin_transformer_stage", int(source.split(".")[1]) - 1) + "/downsample/"
            out[merging + "reduction/vars/0"] = state[source].T
            norm(out, merging + "norm", state, source.replace("reduction.weight", "norm"), w)
    norm(out, before + "layer_normalization", state, "norm", w)
    dense(out, "layers/dense", state, "head.fc", w)
    return out


def vit_keras(state):
    """vit-keras in a legacy file: a layer's name comes twice."""
    out = {"class_token/cls": state["cls_token"], "Transformer_posembed_input/pos_embedding": state["pos_embed"]}
    patches(out, "embedding", state)
    for n in blocks(state):
        layer = f"Transformer_encoderblock_{n}"
        for i, part in enumerate(("query", "key", "value")):
            both(out, f"{layer}/MultiHeadDotProductAttention_1/{part}", *qkv(state, n, i))
        dense(out, f"{layer}/MultiHeadDotProductAttention_1/out", state, f"blocks.{n}.attn.proj")
        for i in (0, 1):
            dense(out, f"{layer}/MlpBlock_3/{layer}_Dense_{i}", state, f"blocks.{n}.mlp.fc{i + 1}")
            norm(out, f"{layer}/LayerNorm_{2 * i}", state, f"blocks.{n}.norm{i + 1}")
    norm(out, "Transformer_encoder_norm", state, "norm")
    dense(out, "head", state, "head")
    return {k.split("/")[0] + "/" + k: v for k, v in out.items()}


def vit_keras_3(state):
    out, w = {"layers/class_token/vars/0": state["cls_token"],
              "layers/add_position_embs/vars/0": state["pos_embed"]}, ("vars/0", "vars/1")
    patches(out, "layers/conv2d", state, w)
    for n in blocks(state):
        layer = "layers/transformer_block" + (f"_{n}/" if n else "/")
        for i, part in enumerate(("query", "key", "value")):
            both(out, f"{layer}att/{part}_dense", *qkv(state, n, i), w)
        dense(out, layer + "att/combine_heads", state, f"blocks.{n}.attn.proj", w)
        for i in (1, 2):
            norm(out, f"{layer}layernorm{i}", state, f"blocks.{n}.norm{i}", w)
            dense(out, layer + "mlpblock/layers/dense" + ("_1" if i == 2 else ""), state, f"blocks.{n}.mlp.fc{i}", w)
    norm(out, "layers/layer_normalization", state, "norm", w)
    dense(out, "layers/dense", state, "head", w)
    return out


def write(target, arrays, root="", legacy=False, libver=("v110", "v110"), **options):
    with h5py.File(target, "w", libver=libver) as f:
        for path, array in arrays.items():
            f.create_dataset(f"{root}/{path}" if root else path, data=np.ascontiguousarray(array), **options)
        if legacy:
            g = f[root] if root else f
            g.attrs["layer_names"] = np.array(sorted({p.split("/")[0] for p in arrays}), "S")
            g.attrs["backend"], g.attrs["keras_version"] = "tensorflow", "2.13.1"
            for layer in sorted({p.split("/")[0] for p in arrays}):
                names = [p.split("/", 1)[1] for p in arrays if p.startswith(layer + "/")]
                g[layer].attrs["weight_names"] = np.array(names, "S")
        else:
            f.create_group("vars").attrs["name"] = "model"
            f.create_group("layers/dropout/vars").attrs["name"] = "dropout"


def archive(target, arrays, method):
    data = io.BytesIO()
    write(data, arrays)
    with zipfile.ZipFile(target, "w", method) as z:
        for name, text in (("metadata.json", '{"keras_version": "3.16.0"}'), ("config.json", "{}"),
                           ("model.weights.h5", data.getvalue())):
            z.writestr(zipfile.ZipInfo(name), text, method)


def converter():
    """keras_hub's ViTImageConverter as it serialises itself: ImageNet's mean and standard deviation."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    return {"module": "keras_hub.src.models.vit.vit_image_converter", "class_name": "ViTImageConverter",
            "config": {"name": "vi_t_image_converter", "trainable": True, "image_size": [8, 8],
                       "scale": [1 / 255 / s for s in std], "offset": [-m / s for m, s in zip(mean, std)],
                       "interpolation": "bicubic", "antialias": False, "crop_to_aspect_ratio": False,
                       "pad_to_aspect_ratio": False, "bounding_box_format": "yxyx"},
            "registered_name": "keras_hub>ViTImageConverter"}


def hostile(folder):
    small = {"layers/a/vars/0": np.arange(64, dtype="<f4")}
    path = lambda name: os.path.join(folder, "bad_" + name)
    write(path("gzip.weights.h5"), small, compression="gzip")
    write(path("big_endian.weights.h5"), {"layers/a/vars/0": np.arange(4, dtype=">f4")})
    write(path("text.weights.h5"), small | {"layers/b/vars/0": np.bytes_("words")})
    write(path("twice.h5"), {"vit/vit/x:0": np.float32(1), "vit/scope/vit/x:0": np.float32(2)}, legacy=True)
    write(path("swin.h5"), {"swin/tf_swin_model/swin/x:0": np.float32(1)}, legacy=True)
    write(path("kerascv.h5"), {"patching_and_embedding/patching_and_embedding/class_token:0": np.float32(1)}, legacy=True)
    write(path("kecam.h5"), {"positional_embedding/positional_embedding/positional_embedding:0": np.float32(1)}, legacy=True)
    write(path("empty.h5"), {}, legacy=True)
    with h5py.File(path("circle.weights.h5"), "w") as f:
        f.create_group("layers")["a"] = f["/"]
        f["layers/b"] = f["/"]
    with h5py.File(path("crowd.weights.h5"), "w", libver=("v110", "v110")) as f:
        f.create_group("layers/a/b")
        for i in range(120):
            f[f"layers/a/{i}"] = f["layers/a/b"]
            f[f"layers/{i}"] = f["layers/a"]
    with h5py.File(path("soft.weights.h5"), "w") as f:
        f["layers/a"] = h5py.SoftLink("/elsewhere")
    with h5py.File(path("external.weights.h5"), "w") as f:
        f["layers/a"] = h5py.ExternalLink("other.h5", "/x")
    with h5py.File(path("other.h5"), "w") as f:
        f["x"] = np.float32(1)
    os.makedirs(path("preset"), exist_ok=True)
    write(path("preset/model.weights.h5"), small)
    with open(path("preset/image_converter.json"), "w") as f:
        f.write("[]")
    with zipfile.ZipFile(path("no_weights.keras"), "w") as z:
        z.writestr(zipfile.ZipInfo("a/model.weights.h5"), "x")
    with zipfile.ZipFile(path("bomb.keras"), "w") as z:
        z.writestr(zipfile.ZipInfo("model.weights.h5"), bytes(40 << 20), zipfile.ZIP_DEFLATED)


def check(folder, state):
    """Keras' own files of the same weights."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    import keras_hub
    width = state["cls_token"].shape[-1]
    depth, hidden = len(blocks(state)), state["blocks.0.mlp.fc1.weight"].shape[0]
    patch = state["patch_embed.proj.weight"].shape[-1]
    side = patch * round((state["pos_embed"].shape[1] - 1) ** 0.5)

    def fill(model, arrays, path_of):
        """Every variable, by the path it is saved at."""
        saved = os.path.join(folder, "blank.weights.h5")
        model.save_weights(saved)
        with h5py.File(saved, "r+") as f:
            for path, array in arrays.items():
                f[path_of(path)][...] = array
        model.load_weights(saved)
        os.remove(saved)

    backbone = keras_hub.models.ViTBackbone(image_shape=(side, side, 3), patch_size=patch, num_layers=depth,
                                            num_heads=HEADS, hidden_dim=width, mlp_dim=hidden)
    fill(backbone, hub(state), lambda p: p)
    backbone.save_weights(os.path.join(folder, "hub.weights.h5"))
    preprocessor = keras_hub.models.ViTImageClassifierPreprocessor(
        image_converter=keras.saving.deserialize_keras_object(converter()))
    task = keras_hub.models.ViTImageClassifier(backbone=backbone, num_classes=len(state["head.bias"]),
                                               preprocessor=preprocessor)
    task.output_dense.set_weights([state["head.weight"].T, state["head.bias"]])
    task.save_weights(os.path.join(folder, "hub_classifier.weights.h5"))
    task.save(os.path.join(folder, "hub_classifier.keras"))
    task.save_to_preset(os.path.join(folder, "preset"))
    try:
        from vit_keras import vit
    except ImportError:
        return
    model = vit.build_model(image_size=side, patch_size=patch, num_layers=depth, hidden_size=width, num_heads=HEADS,
                            name="vit", mlp_dim=hidden, classes=len(state["head.bias"]), dropout=0.0)
    fill(model, vit_keras_3(state), lambda p: p)
    for name in ("vit_keras.weights.h5", "vit_keras.keras", "vit_keras.h5"):
        path = os.path.join(folder, name)
        model.save_weights(path) if "weights" in name else model.save(path)


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--check":
        check(sys.argv[2], load_file(sys.argv[3] if len(sys.argv) > 3 else f"{HERE}/containers/vit.safetensors"))
        return
    source = sys.argv[1] if len(sys.argv) > 1 else f"{HERE}/containers/vit.safetensors"
    folder = sys.argv[2] if len(sys.argv) > 2 else f"{HERE}/keras"
    os.makedirs(folder, exist_ok=True)
    path = lambda name: os.path.join(folder, name)
    state = load_file(source)
    write(path("tf_model.h5"), tensorflow(state), legacy=True, libver=("earliest", "v110"))
    write(path("hub_classifier.weights.h5"), hub_classifier(state))
    write(path("vit_keras.h5"), vit_keras(state), root="model_weights", legacy=True)
    write(path("vit_keras.weights.h5"), vit_keras_3(state))
    archive(path("stored.keras"), vit_keras_3(state), zipfile.ZIP_STORED)
    archive(path("deflated.keras"), hub_classifier(state), zipfile.ZIP_DEFLATED)
    os.makedirs(path("preset"), exist_ok=True)
    write(path("preset/model.weights.h5"), hub(state))
    head = {}
    dense(head, "layers/dense", state, "head", ("vars/0", "vars/1"))
    write(path("preset/task.weights.h5"), head | {"optimizer/vars/0": np.int32(7)})
    with open(path("preset/config.json"), "w") as f:
        f.write('{"class_name": "ViTBackbone", "config": {"layer_norm_epsilon": 1e-05}}\n')
    with open(path("preset/task.json"), "w") as f:
        f.write('{"class_name": "ViTImageClassifier", "config": {"pooling": "token"}}\n')
    with open(path("preset/preprocessor.json"), "w") as f:
        json.dump({"class_name": "ViTImageClassifierPreprocessor", "config": {"image_converter": converter()}}, f)
    with open(path("preset/image_converter.json"), "w") as f:
        json.dump(converter(), f)
    if len(sys.argv) < 3:
        write(path("hub_swin.weights.h5"), hub_swin(load_file(f"{HERE}/containers/swin.safetensors")))
        hostile(folder)


if __name__ == "__main__":
    main()
