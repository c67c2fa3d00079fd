"""The contestants: our modules and those of other libraries, from images to tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import dnnl.models.vit as vit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from libraries import import_library

OURS, FUSED = "dnnl", "dnnl fused"
absent: dict[str, str] = {}  # libraries that could not be imported, with the reason, for the report


def library(name: str) -> ModuleType | None:
    """Import a module of another library; if it is absent, note the reason and return None."""
    try:
        return import_library(name)
    except ImportError as error:
        absent[name.partition(".")[0]] = str(error)
        return None


class Steps(nn.Module):
    """Runs a part of a library's model, ``run(model, x)``, as a module that can be compiled."""

    def __init__(self, model: nn.Module, run: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.run = model, run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self.model, x)


Sizes = dict[str, int]  # image_size, patch_size, embed_dim, num_heads, num_layers


def classifiers(s: Sizes, dynamic: bool = False) -> dict[str, nn.Module]:
    """Return whole classifiers; with ``dynamic``, only those that accept other image sizes."""
    size, patch, dim, heads, layers = s.values()
    hidden, found = 4 * dim, dict[str, nn.Module]()
    found[OURS] = vit.ViTForImageClassification(
        size, patch, 3, 1000, dim, heads, layers, hidden, dynamic_image_size=dynamic
    )
    if timm := library("timm.models.vision_transformer"):
        found["timm"] = timm.VisionTransformer(
            size,
            patch,
            embed_dim=dim,
            depth=layers,
            num_heads=heads,
            dynamic_img_size=dynamic,
        )
    if transformers := library("transformers"):
        config = transformers.ViTConfig(
            hidden_size=dim,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=hidden,
            image_size=size,
            patch_size=patch,
            num_labels=1000,
        )
        found["transformers"] = transformers.ViTForImageClassification(config)
    if dynamic:  # torchvision raises an error; vit-pytorch takes the first rows of the table
        return found
    if torchvision := library("torchvision.models.vision_transformer"):
        found["torchvision"] = torchvision.VisionTransformer(
            size, patch, layers, heads, dim, hidden
        )
    if vit_pytorch := library("vit_pytorch"):
        found["vit-pytorch"] = vit_pytorch.ViT(
            image_size=size,
            patch_size=patch,
            num_classes=1000,
            dim=dim,
            depth=layers,
            heads=heads,
            mlp_dim=hidden,
        )
    return found


def _timm(model: Any, x: Tensor) -> Tensor:
    return model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(x))))


def _torchvision(model: Any, x: Tensor) -> Tensor:
    x = model._process_input(x)
    x = torch.cat([model.class_token.expand(x.shape[0], -1, -1), x], dim=1)
    return model.encoder.dropout(x + model.encoder.pos_embedding)


def _vit_pytorch(model: Any, x: Tensor) -> Tensor:
    x = model.to_patch_embedding(x)
    x = torch.cat([model.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
    return model.dropout(x + model.pos_embedding[: x.shape[1]])


def _transformers_resized(model: Any, x: Tensor) -> Tensor:
    return model.vit.embeddings(x, interpolate_pos_encoding=True)


PARTS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    OURS: lambda model, x: model.backbone.embedding(x),
    "timm": _timm,
    "transformers": lambda model, x: model.vit.embeddings(x),
    "torchvision": _torchvision,
    "vit-pytorch": _vit_pytorch,
}


def embeddings(s: Sizes, dynamic: bool = False) -> dict[str, nn.Module]:
    """Return the input modules alone, with equal weights; each runs the steps of its library.

    vit-pytorch also normalises the patches before its projection and the tokens after it, so its
    result differs and is not compared.
    """
    found: dict[str, Any] = {}
    for name, model in classifiers({**s, "num_layers": 1}, dynamic).items():
        run = PARTS[name]
        if dynamic and name == "transformers":
            run = _transformers_resized
        found[name] = Steps(model.eval(), run)
    embedding = found[OURS].model.backbone.embedding
    projection, token, table = (
        embedding.patch_embed.proj,
        embedding.add_cls_token.cls_token,
        embedding.pos_embed.pos_embed,
    )
    same: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
        "timm": lambda m: (m.patch_embed.proj, m.cls_token, m.pos_embed),
        "transformers": lambda m: (
            m.vit.embeddings.patch_embeddings.projection,
            m.vit.embeddings.cls_token,
            m.vit.embeddings.position_embeddings,
        ),
        "torchvision": lambda m: (m.conv_proj, m.class_token, m.encoder.pos_embedding),
    }
    x = torch.randn(2, 3, s["image_size"], s["image_size"])
    for name, parameters in same.items():
        if name not in found:
            continue
        proj, cls_token, pos_embed = parameters(found[name].model)
        proj.load_state_dict(projection.state_dict())
        cls_token.data.copy_(token.data)
        pos_embed.data.copy_(table.data)
        _check_equal(found[name], found[OURS], x)
    return found


def fused(plain: Any, image_size: int) -> nn.Module:
    """Return our input module, from :func:`embeddings`, as one affine map for one image size."""
    module = vit.fuse(plain.model.backbone.embedding, image_size)
    _check_equal(module, plain, torch.randn(2, 3, image_size, image_size))
    return module


def _check_equal(a: nn.Module, b: nn.Module, x: Tensor) -> None:
    """Raise unless two modules compute the same sequence."""
    with torch.no_grad():
        torch.testing.assert_close(a(x), b(x), rtol=1e-3, atol=1e-4)


class CutPatches(nn.Module):
    """The projection alone: one linear layer on patches that are already cut out."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.proj = nn.Linear(3 * s["patch_size"] ** 2, s["embed_dim"])

    def forward(self, patches: Tensor) -> Tensor:
        return self.proj(patches)


def resizes(
    grid: int, new: int, dim: int, dtype: torch.dtype, device: str
) -> dict[str, dict[str, Callable[[], Tensor]]]:
    """Return, for each library, its resizing of a table and ours with the same settings."""
    pos_embed = torch.randn(1, 1 + grid**2, dim).to(device, dtype)

    def ours(name: str) -> Callable[[], Tensor]:
        settings = vit.RESIZE_SETTINGS[name]
        return lambda: vit.interpolate_pos_embedding(pos_embed, grid, new, **settings)

    found: dict[str, dict[str, Callable[[], Tensor]]] = {}
    if timm := library("timm.layers"):
        found["timm"] = {
            OURS: ours("timm"),
            "timm": lambda: timm.resample_abs_pos_embed(pos_embed, [new, new], [grid, grid]),
        }
    if torchvision := library("torchvision.models.vision_transformer"):
        key = "encoder.pos_embedding"
        found["torchvision"] = {
            OURS: ours("torchvision"),
            "torchvision": lambda: torchvision.interpolate_embeddings(
                16 * new, 16, {key: pos_embed}
            )[key],
        }
    for pair in found.values():
        a, b = (run() for run in pair.values())
        torch.testing.assert_close(a, b, rtol=2**-6, atol=2**-5)
    return found
