"""Who takes part: our modules and those of other libraries, as modules from images to tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import dnnl.models.vit as vit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import peers

absent: dict[str, str] = {}  # which library is not here, and why: the report says so


def library(name: str) -> ModuleType | None:
    """Import a module of another library; None, and a line in the report, where it is absent."""
    try:
        if name.startswith("vit_pytorch"):  # it imports torchvision
            peers.peer("torchvision")
        return peers.peer(name)
    except pytest.skip.Exception as reason:
        absent[name.partition(".")[0]] = str(reason)
        return None


class Steps(nn.Module):
    """A library's model, of which ``run(model, x)`` is a part; compiled as a module is."""

    def __init__(self, model: nn.Module, run: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.run = model, run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self.model, x)


Sizes = dict[str, int]  # image_size, patch_size, embed_dim, num_heads, num_layers


def ours(s: Sizes, dynamic: bool = False) -> nn.Module:
    """Return our classifier of a size."""
    size, patch, dim, heads, layers = s.values()
    return vit.ViTForImageClassification(
        size, patch, 3, 1000, dim, heads, layers, 4 * dim, dynamic_image_size=dynamic
    )


def classifiers(s: Sizes, dynamic: bool = False) -> dict[str, nn.Module]:
    """Whole classifiers of one size. ``dynamic``: those that take other image sizes, only."""
    size, patch, dim, heads, layers = s.values()
    hidden, found = 4 * dim, dict[str, nn.Module]()
    found["dnnl"] = ours(s, dynamic)
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
    if dynamic:  # torchvision refuses; vit-pytorch cuts the table off, which is no resize
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


def _timm(model: nn.Module, x: Tensor) -> Tensor:
    return model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(x))))


def _torchvision(model: nn.Module, x: Tensor) -> Tensor:
    x = model._process_input(x)
    x = torch.cat([model.class_token.expand(x.shape[0], -1, -1), x], dim=1)
    return model.encoder.dropout(x + model.encoder.pos_embedding)


def _vit_pytorch(model: nn.Module, x: Tensor) -> Tensor:
    x = model.to_patch_embedding(x)
    x = torch.cat([model.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
    return model.dropout(x + model.pos_embedding[: x.shape[1]])


PARTS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "dnnl": lambda model, x: model.backbone.embedding(x),
    "timm": _timm,
    "transformers": lambda model, x: model.vit.embeddings(x),
    "torchvision": _torchvision,
    "vit-pytorch": _vit_pytorch,
}


def embeddings(s: Sizes, dynamic: bool = False) -> dict[str, nn.Module]:
    """The input modules alone, with equal weights; each runs its library's own steps.

    vit-pytorch normalises the patches before and the tokens after its projection: it does more,
    and its result is another.
    """
    found = {}
    for name, model in classifiers({**s, "num_layers": 1}, dynamic).items():
        run = PARTS[name]
        if dynamic and name == "transformers":
            run = _transformers_resized
        found[name] = Steps(model.eval(), run)
    embedding = found["dnnl"].model.backbone.embedding
    projection, token, table = (
        embedding.patch_embed.proj,
        embedding.add_cls_token.cls_token,
        embedding.pos_embed.pos_embed,
    )
    same = {
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
        theirs = parameters(found[name].model)
        theirs[0].load_state_dict(projection.state_dict())
        theirs[1].data.copy_(token.data)
        theirs[2].data.copy_(table.data)
        with torch.no_grad():  # what is timed is one map
            torch.testing.assert_close(found[name](x), embedding(x), rtol=1e-3, atol=1e-4)
    return found


def _transformers_resized(model: nn.Module, x: Tensor) -> Tensor:
    return model.vit.embeddings(x, interpolate_pos_encoding=True)


class CutPatches(nn.Module):
    """The floor: one linear layer, on patches that are already cut out."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.proj = nn.Linear(3 * s["patch_size"] ** 2, s["embed_dim"])

    def forward(self, patches: Tensor) -> Tensor:
        return self.proj(patches)


def resizes(
    grid: int, new: int, dim: int, dtype: torch.dtype, device: str
) -> dict[str, dict[str, Callable]]:
    """The resizing of a table by a library, and by our function with that library's name."""
    pos_embed = torch.randn(1, 1 + grid**2, dim).to(device, dtype)

    def named(like: str) -> Callable[[], Tensor]:
        return lambda: vit.interpolate_pos_embedding(pos_embed, grid, new, like=like)

    found = {}
    if timm := library("timm.layers"):
        found["timm"] = {
            "dnnl": named("timm"),
            "timm": lambda: timm.resample_abs_pos_embed(pos_embed, [new, new], [grid, grid]),
        }
    if torchvision := library("torchvision.models.vision_transformer"):
        key = "encoder.pos_embedding"
        found["torchvision"] = {
            "dnnl": named("torchvision"),
            "torchvision": lambda: torchvision.interpolate_embeddings(
                16 * new, 16, {key: pos_embed}
            )[key],
        }
    for pair in found.values():
        a, b = (run() for run in pair.values())
        torch.testing.assert_close(a, b, rtol=2**-6, atol=2**-5)
    return found
