"""Small models of other libraries, moved away from where they start, and what they save."""

import json
import struct

import numpy as np
import torch
from peers import peer

CLASSES = 7


def shaken(module):
    """Move every parameter away from where it starts, so that none hides behind 0 or 1."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return module.eval()


def named_as_timm(model):
    """Return the state dict of a ``ViTForImageClassification`` under timm's names."""
    names = {
        "backbone.embedding.add_cls_token.": "",
        "backbone.embedding.pos_embed.": "",
        "backbone.embedding.": "",
        "backbone.encoder.layers.": "blocks.",
        "backbone.encoder.": "",
        "head.head": "head",
        "mlp.net.0": "mlp.fc1",
        "mlp.net.3": "mlp.fc2",
    }
    state = {}
    for name, value in model.state_dict().items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        state[name] = value
    return state


def timm_model(size=16, distilled=False, **options):
    """Return a VisionTransformer of timm, 3 layers of width 16 with 4 heads, patches of 4."""
    module = peer("timm.models.deit" if distilled else "timm.models.vision_transformer")
    build = module.VisionTransformerDistilled if distilled else module.VisionTransformer
    shape = {"patch_size": 4, "embed_dim": 16, "depth": 3, "num_heads": 4, "mlp_ratio": 2}
    return shaken(build(**{"img_size": size, "num_classes": CLASSES, **shape, **options}))


def timm_at(size, state, distilled=False, **options):
    """Return the model of timm for another image size, its table resized by timm."""
    other = timm_model(size, distilled, **options)
    convert = peer("timm.models.vision_transformer").checkpoint_filter_fn
    other.load_state_dict(convert(dict(state), other, adapt_layer_scale=True))
    return other


def transformers_model(name="ViTForImageClassification", **options):
    """Return a model of transformers of the same size; ``name`` begins with that of its config."""
    transformers = peer("transformers")
    config = getattr(transformers, name[: name.index("For")] + "Config")(
        image_size=16,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=32,
        num_labels=CLASSES,
        **options,
    )
    return shaken(getattr(transformers, name)(config))


def torchvision_model(size=16):
    """Return a VisionTransformer of torchvision of the same size."""
    return shaken(
        peer("torchvision.models.vision_transformer").VisionTransformer(
            image_size=size,
            patch_size=4,
            num_layers=3,
            num_heads=4,
            hidden_dim=16,
            mlp_dim=32,
            num_classes=CLASSES,
        )
    )


def torchvision_at(size, state):
    """Return the model of torchvision for another image size, its table resized by torchvision."""
    resize = peer("torchvision.models.vision_transformer").interpolate_embeddings
    other = torchvision_model(size)
    other.load_state_dict(resize(size, 4, dict(state)))
    return other


def jax_arrays(prefix="", class_token=True, big_vision=False, grid=(4, 4)):
    """Return random arrays with the names and shapes of Google's checkpoints."""
    draw = np.random.default_rng(0)
    shapes = {"embedding/kernel": (4, 4, 3, 16), "embedding/bias": (16,)}
    rows = grid[0] * grid[1]
    if class_token:
        shapes["cls"] = (1, 1, 16)
    if big_vision:
        shapes["pos_embedding"] = (1, rows, 16)
    else:
        shapes["Transformer/posembed_input/pos_embedding"] = (1, int(class_token) + rows, 16)
    attention, mlp, second = (0, 0, 1) if big_vision else (1, 3, 2)
    for i in range(3):
        layer = f"Transformer/encoderblock_{i}/"
        for n in (0, second):
            shapes[f"{layer}LayerNorm_{n}/scale"] = shapes[f"{layer}LayerNorm_{n}/bias"] = (16,)
        for name in ("query", "key", "value"):
            module = f"{layer}MultiHeadDotProductAttention_{attention}/{name}/"
            shapes[module + "kernel"], shapes[module + "bias"] = (16, 4, 4), (4, 4)
        module = f"{layer}MultiHeadDotProductAttention_{attention}/out/"
        shapes[module + "kernel"], shapes[module + "bias"] = (4, 4, 16), (16,)
        for n, (a, b) in enumerate([(16, 32), (32, 16)]):
            module = f"{layer}MlpBlock_{mlp}/Dense_{n}/"
            shapes[module + "kernel"], shapes[module + "bias"] = (a, b), (b,)
    shapes["Transformer/encoder_norm/scale"] = shapes["Transformer/encoder_norm/bias"] = (16,)
    shapes["head/kernel"], shapes["head/bias"] = (16, CLASSES), (CLASSES,)
    return {
        prefix + name: (0.4 * draw.standard_normal(shape) + name.endswith("scale")).astype("f4")
        for name, shape in shapes.items()
    }


def timm_from_npz(path, size=16, **options):
    """Return timm's model with the weights of an npz, read by timm's own reader."""
    model = timm_model(size, **options)
    peer("timm.models.vision_transformer")._load_weights(model, str(path))
    return model.eval()


SMALL = {
    "patch_size": 4,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}


def tower(name, size=16, **options):
    """Return a randomly initialised vision model of transformers."""
    transformers = peer("transformers")
    config = {
        "Dinov2Model": "Dinov2Config",
        "Dinov2WithRegistersModel": "Dinov2WithRegistersConfig",
    }
    config |= {"ViTMAEModel": "ViTMAEConfig", "CLIPVisionModel": "CLIPVisionConfig"}
    config |= {"SiglipVisionModel": "SiglipVisionConfig"}
    settings = getattr(transformers, config[name])(image_size=size, **SMALL, **options)
    return shaken(getattr(transformers, name)(settings))


def openai_names(model):
    """Return the vision tower of transformers' CLIP under the names of OpenAI's, and some text."""
    ours = {"embeddings.class_embedding": "class_embedding"}
    ours["embeddings.patch_embedding.weight"] = "conv1.weight"
    ours["embeddings.position_embedding.weight"] = "positional_embedding"
    for kind in ("weight", "bias"):
        ours[f"pre_layrnorm.{kind}"] = f"ln_pre.{kind}"
        ours[f"post_layernorm.{kind}"] = f"ln_post.{kind}"
    state = {
        key.removeprefix("vision_model."): value
        for key, value in model.state_dict().items()
        if key.startswith("vision_model.")
    }
    renamed = {f"visual.{new}": state[old] for old, new in ours.items()}
    for i in range(SMALL["num_hidden_layers"]):
        old, new = f"encoder.layers.{i}.", f"visual.transformer.resblocks.{i}."
        for kind in ("weight", "bias"):
            parts = [state[f"{old}self_attn.{part}_proj.{kind}"] for part in "qkv"]
            renamed[f"{new}attn.in_proj_{kind}"] = torch.cat(parts)
            renamed[f"{new}attn.out_proj.{kind}"] = state[f"{old}self_attn.out_proj.{kind}"]
            for n in (1, 2):
                renamed[f"{new}ln_{n}.{kind}"] = state[f"{old}layer_norm{n}.{kind}"]
            renamed[f"{new}mlp.c_fc.{kind}"] = state[f"{old}mlp.fc1.{kind}"]
            renamed[f"{new}mlp.c_proj.{kind}"] = state[f"{old}mlp.fc2.{kind}"]
    text = {
        "positional_embedding": torch.randn(77, 16),
        "token_embedding.weight": torch.ones(9, 16),
    }
    return {**renamed, **text, "visual.proj": torch.randn(16, 8), "logit_scale": torch.ones(())}


def vit_b16():
    """Return names and shapes of ViT-B/16 as transformers stores it."""
    shapes = {
        "vit.embeddings.cls_token": (1, 1, 768),
        "vit.embeddings.patch_embeddings.projection.weight": (768, 3, 16, 16),
        "vit.embeddings.patch_embeddings.projection.bias": (768,),
        "vit.embeddings.position_embeddings": (1, 197, 768),
    }
    for i in range(12):
        layer = f"vit.encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes[f"{layer}attention.attention.{part}.weight"] = (768, 768)
            shapes[f"{layer}attention.attention.{part}.bias"] = (768,)
        for part, (a, b) in {
            "attention.output": (768, 768),
            "intermediate": (3072, 768),
            "output": (768, 3072),
        }.items():
            shapes[f"{layer}{part}.dense.weight"], shapes[f"{layer}{part}.dense.bias"] = (
                (a, b),
                (a,),
            )
        for part in ("layernorm_before", "layernorm_after"):
            shapes[f"{layer}{part}.weight"] = shapes[f"{layer}{part}.bias"] = (768,)
    return shapes


def write_sparse(path, shapes, padding=0, **numbers):
    """Write a safetensors file that is mostly a hole: hundreds of MB that cost no disk."""
    header, at = {"__metadata__": {"format": "pt" + " " * padding}}, 0
    for name, shape in shapes.items():
        size = 4 * torch.Size(shape).numel()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name, tensor in numbers.items():
            file.seek(8 + len(head) + header[name]["data_offsets"][0])
            file.write(tensor.numpy().tobytes())
        file.truncate(8 + len(head) + at)
