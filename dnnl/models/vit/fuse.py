"""The fused input module: one affine map of the patches, for inference."""

import copy
import math
from dataclasses import replace
from typing import Any, TypeVar, overload

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

from dnnl.models.vit import checks
from dnnl.models.vit.checks import Size, as_pair, grid_shape
from dnnl.models.vit.embedding import (
    ViTAddClassToken,
    ViTConvPatchEmbedding,
    ViTEmbedding,
    ViTPositionalEmbedding,
)
from dnnl.models.vit.encoder import ViTForImageClassification, ViTModel

_M = TypeVar("_M", bound=ViTModel | ViTForImageClassification)
_PARTS: dict[str, tuple[type[nn.Module], ...]] = {
    "": (ViTEmbedding,),
    "patch_embed": (ViTConvPatchEmbedding,),
    "patch_embed.proj": (nn.Conv2d,),
    "add_cls_token": (ViTAddClassToken, nn.Identity),
    "pos_embed": (ViTPositionalEmbedding,),
    "dropout": (nn.Dropout,),
}
_PARAMETERS = {
    "patch_embed.proj.weight",
    "patch_embed.proj.bias",
    "add_cls_token.cls_token",
    "pos_embed.pos_embed",
}
_MANY_ROWS = 4096  # from here on, in float32 on some CPUs, a 1×1 convolution is the faster product


class FusedEmbedding(nn.Module):
    """The input module as one affine map of the patches: ``Z = rows @ weight.T + table``.

    ``rows`` are the patches, preceded by one row of zeros per prefix token; class token, bias of
    the projection and positions are all inside ``table``. Both are buffers, not parameters.

    Attributes:
        weight: ``(D, C * P_h * P_w)``.
        table: ``(1, num_prefix_tokens + N, D)``.
    """

    weight: Tensor
    table: Tensor

    def __init__(
        self,
        weight: Tensor,
        table: Tensor,
        image_size: tuple[int, int],
        patch_size: tuple[int, int],
        num_prefix_tokens: int,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("table", table)
        self.image_size, self.patch_size = image_size, patch_size
        self.num_prefix_tokens = num_prefix_tokens
        self.in_channels = weight.shape[1] // (patch_size[0] * patch_size[1])

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into the sequence ``(B, num_prefix_tokens + N, D)``."""
        checks.check_images(
            x, self.in_channels, self.image_size, self.patch_size, self.weight.dtype
        )
        rows = _rows(x, self.patch_size, self.num_prefix_tokens)
        tokens = _product(rows, self.weight)
        return tokens.add_(self.table.to(tokens.dtype))


def _rows(x: Tensor, patch_size: tuple[int, int], prefix: int) -> Tensor:
    """Return rows of zeros, then the patches: ``patchify`` and ``pad`` in one copy."""
    height, width = patch_size
    cells = x.unfold(2, height, height).unfold(3, width, width).permute(0, 2, 3, 1, 4, 5)
    b, rows, columns, *patch = cells.shape  # (B, rows, columns, C, P_h, P_w)
    out = x.new_empty(b, prefix + rows * columns, math.prod(patch))
    out[:, :prefix] = 0
    out[:, prefix:].view(cells.shape).copy_(cells)
    return out


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    """Return ``rows @ weight.T``, ``(B, T, K)`` to ``(B, T, D)``, by the faster of two products."""
    if torch.compiler.is_compiling():  # a graph serves every batch
        return F.linear(rows, weight)
    many = rows.shape[0] * rows.shape[1] >= _MANY_ROWS
    if not (many and rows.is_cpu and rows.dtype == torch.float32):
        return F.linear(rows, weight)
    pixels = rows.transpose(1, 2).unsqueeze(2)  # a picture of 1×T pixels with K channels
    return F.conv2d(pixels, weight[:, :, None, None]).squeeze(2).transpose(1, 2)


for _leaf in ("_rows", "_product"):  # they depend on sizes: leaves of a symbolic trace
    torch.fx.wrap(_leaf)


@overload
def fuse(model: ViTEmbedding, image_size: Size | None = None) -> FusedEmbedding: ...


@overload
def fuse(model: _M, image_size: Size | None = None) -> _M: ...


def fuse(model: Any, image_size: Size | None = None) -> Any:
    """Return a copy for inference whose input module is one affine map of the patches.

    The weights are copied, and hooks on the input module are not: after training, or after
    ``load_state_dict`` on the original, call ``fuse`` again. The copy is in eval mode, accepts
    images of one size, and gives the numbers of the original up to rounding.

    Args:
        model: a :class:`ViTEmbedding`; or a :class:`ViTModel` or
            :class:`ViTForImageClassification`, whose input module is replaced in the copy.
        image_size: the size of the images, if not that of the model; the table of positions is
            resized to it, once, with the settings of the model (``resize``).

    Returns:
        FusedEmbedding: for a ``ViTEmbedding``; else a model of the same class.

    Raises:
        TypeError: if the input module is not made of the classes of this package with a plain
            ``nn.Conv2d`` as its projection, or if a ``forward`` of it was replaced.
        ShapeError: if the patch does not divide ``image_size``.
    """
    if isinstance(model, ViTEmbedding):
        return _fuse_embedding(model, image_size)
    if isinstance(model, FusedEmbedding):
        raise TypeError("This input module is already fused: call fuse on the original.")
    if not isinstance(model, (ViTModel, ViTForImageClassification)):
        raise TypeError(
            "Expected a ViTEmbedding, ViTModel or ViTForImageClassification, "
            f"but got {type(model).__name__}."
        )
    backbone = model.backbone if isinstance(model, ViTForImageClassification) else model
    fused = _fuse_embedding(backbone.embedding, image_size)
    memo = {id(backbone.embedding): fused}  # in the copy it stands where the input module stood
    copied = copy.deepcopy(model, memo).eval().requires_grad_(False)
    if image_size is not None:
        copied.config = replace(copied.config, image_size=fused.image_size)
        if copied.preprocess is not None:
            copied.preprocess = copied.preprocess.for_size(fused.image_size)
    return copied


def _fuse_embedding(embedding: nn.Module, image_size: Size | None) -> FusedEmbedding:
    _check_parts(embedding)
    assert isinstance(embedding, ViTEmbedding)
    patches, proj = embedding.patch_embed, embedding.patch_embed.proj
    assert isinstance(proj, nn.Conv2d)
    size = as_pair(patches.image_size if image_size is None else image_size, "image_size")
    grid = grid_shape(size, patches.patch_size)
    n, dtype = math.prod(grid), torch.promote_types(proj.weight.dtype, torch.float32)
    with torch.no_grad():
        bias = proj.weight.new_zeros(proj.out_channels) if proj.bias is None else proj.bias
        tokens = bias.to(dtype).expand(1, n, -1)  # those of black patches; rounded at the end
        tokens = embedding.add_cls_token.forward(tokens)  # forward: without hooks
        table = embedding.pos_embed.forward(tokens, patches.grid_size, grid)
        weight = proj.weight.detach().flatten(1).clone()
    prefix = table.shape[1] - n
    fused = FusedEmbedding(weight, table.to(weight.dtype), size, patches.patch_size, prefix)
    return fused.eval()


def _check_parts(embedding: nn.Module) -> None:
    """Raise unless the input module computes the affine map that its parameters say."""
    if type(embedding) is not ViTEmbedding:
        raise TypeError(f"Expected a ViTEmbedding, but got {type(embedding).__name__}.")
    for name, kinds in _PARTS.items():
        module = embedding.get_submodule(name)
        if type(module) not in kinds:
            raise TypeError(
                f"Cannot fuse this ViTEmbedding: {name} is a {type(module).__name__}, "
                f"expected {kinds[0].__name__}."
            )
        if "forward" in vars(module):
            part = name or "ViTEmbedding"
            raise TypeError(
                f"Cannot fuse this ViTEmbedding: the forward method of {part} was replaced."
            )
    unknown = {name for name, _ in embedding.named_parameters()} - _PARAMETERS
    if unknown:  # those of a pruned or normalised layer, whose weight is computed before each call
        names = ", ".join(sorted(unknown))
        raise TypeError(f"Cannot fuse this ViTEmbedding: unexpected parameters {names}.")
    proj: Any = embedding.patch_embed.proj
    patch = embedding.patch_embed.patch_size
    plain = (proj.padding, proj.dilation, proj.groups) == ((0, 0), (1, 1), 1)
    if not plain or not proj.kernel_size == proj.stride == patch:
        raise TypeError(
            "Cannot fuse this ViTEmbedding: patch_embed.proj is not a plain convolution whose "
            "stride is its kernel."
        )
