"""Tables of positions as pure functions: the fixed sin-cos tables, and the 2-D resize."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor

from dnnl.models.vit.checks import (
    ShapeError,
    Size,
    as_int,
    as_pair,
    check_choice,
    check_dims,
    check_floating,
    format_size,
)

_MODES = ("nearest", "nearest-exact", "area", "bilinear", "bicubic")
_SMOOTH = ("bilinear", "bicubic")  # the modes for which align_corners and antialias mean something


def _settings(mode: str, antialias: bool, align_corners: bool) -> Mapping[str, Any]:
    return {"mode": mode, "antialias": antialias, "align_corners": align_corners}


DEFAULT_RESIZE = "hf-vit"
RESIZE_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "timm": _settings("bicubic", antialias=True, align_corners=False),
    "hf-vit": _settings("bicubic", antialias=False, align_corners=False),
    "dinov2": _settings("bicubic", antialias=False, align_corners=False),
    "dinov2-registers": _settings("bicubic", antialias=True, align_corners=False),
    "torchvision": _settings("bicubic", antialias=False, align_corners=True),
    "jax": _settings("bilinear", antialias=False, align_corners=True),
    "flexivit": _settings("bilinear", antialias=True, align_corners=False),
    "siglip2": _settings("bilinear", antialias=True, align_corners=False),
}
"""How each library resizes a table, as keywords of :func:`.interpolate_pos_embedding`.

A checkpoint gets the table that its own library would give it by
``interpolate_pos_embedding(table, old, new, **RESIZE_SETTINGS["timm"])``.

========================  =========================================================================
``"timm"``                timm 1.0, ``layers/pos_embed.py``, ``resample_abs_pos_embed``
``"hf-vit"``              transformers 5, ``models/vit/modeling_vit.py`` (DeiT, too),
                          ``interpolate_pos_encoding``
``"dinov2"``              transformers 5, ``models/dinov2/modeling_dinov2.py``, the same name
``"dinov2-registers"``    transformers 5, ``models/dinov2_with_registers/``, the same name
``"torchvision"``         torchvision 0.28, ``models/vision_transformer.py``,
                          ``interpolate_embeddings``
``"jax"``                 google-research/vision_transformer, ``vit_jax/checkpoint.py``:
                          ``scipy.ndimage.zoom(order=1)``
``"flexivit"``            google-research/big_vision, ``models/proj/flexi/vit.py``:
                          ``jax.image.resize(method="linear")``, which widens its kernel by default
``"siglip2"``             transformers 5, ``models/siglip2/modeling_siglip2.py``,
                          ``resize_positional_embeddings`` (NaFlex)
========================  =========================================================================

The first release of DINOv2 (facebookresearch/dinov2, ``interpolate_offset=0.1``) resizes by a scale
factor with a tenth of a cell added, which moves the places that it reads: no settings do the same.
"""


def interpolate_pos_embedding(
    pos_embed: Tensor,
    old_grid_size: Size,
    new_grid_size: Size,
    *,
    num_prefix_tokens: int = 1,
    mode: str = "bicubic",
    antialias: bool = False,
    align_corners: bool = False,
) -> Tensor:
    """Resize a table of positions to another grid of patches.

    The rows of the patches are laid out on the old grid, resampled as an image of ``D`` channels
    and read off row by row. The rows of the prefix (class token, registers) have no place on the
    grid and are copied bit for bit. Half-precision tables are resampled in float32 and cast back.
    The result is differentiable with respect to the table.

    Args:
        pos_embed: the table ``(1, num_prefix_tokens + rows * columns, D)``.
        old_grid_size: the grid ``(rows, columns)`` of the table. It is never guessed: 16 patches
            may be 4×4 or 2×8.
        new_grid_size: the grid to resize to.
        num_prefix_tokens: how many leading rows belong to no patch.
        mode: ``"bicubic"``, ``"bilinear"``, ``"nearest"``, ``"nearest-exact"`` or ``"area"``.
        antialias: widen the kernel when the grid shrinks. (In torch it also changes the bicubic
            kernel when the grid grows: a = -0.5 in place of -0.75.)
        align_corners: align the centres of the corner cells instead of their outer borders.

    Returns:
        Tensor: a new table ``(1, num_prefix_tokens + new_rows * new_columns, D)`` of the same dtype
        and device; a copy of the old one if the grids are equal.

    Raises:
        ShapeError: if the table has another shape, or the old grid does not fit it.
        ValueError: if the mode is unknown, or an option does not apply to it.

    Source: arXiv:2010.11929, section 3.2.
    """
    check_dims(pos_embed, "(1, T, D)", "a table of positions")
    check_floating(pos_embed, "table of positions")
    one, rows, dim = pos_embed.shape
    if one != 1:
        raise ShapeError(f"Expected a table of shape (1, T, D), but got {tuple(pos_embed.shape)}.")
    old, new = as_pair(old_grid_size, "old_grid_size"), as_pair(new_grid_size, "new_grid_size")
    prefix = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=0)
    if rows - prefix != old[0] * old[1]:
        raise ShapeError(
            f"Expected old grid with {rows - prefix} patches ({rows} rows minus {prefix} of the "
            f"prefix), but got {format_size(old)} = {old[0] * old[1]}."
        )
    check_choice(mode, _MODES, "mode")
    if mode not in _SMOOTH and (antialias or align_corners):
        raise ValueError(f"antialias and align_corners apply to {_SMOOTH} only, not to {mode!r}.")
    any_size = any(isinstance(n, torch.SymInt) for n in new)  # torch.export leaves it open
    if not any_size and old == new:
        return pos_embed.clone()

    head, patches = pos_embed[:, :prefix], pos_embed[:, prefix:]
    image = patches.reshape(1, *old, dim).permute(0, 3, 1, 2)  # (1, D, rows, columns)
    if image.element_size() < 4:  # torch has no half-precision kernel for some of the modes
        image = image.float()
    image = resample(image, new, mode, antialias=antialias, align_corners=align_corners)
    patches = image.flatten(2).transpose(1, 2)  # (1, new_rows * new_columns, D)
    return torch.cat([head, patches.to(head.dtype)], dim=1)


# A leaf of a symbolic trace: its grids depend on the size of the images.
torch.fx.wrap("interpolate_pos_embedding")


def resample(
    image: Tensor,
    size: tuple[int, int],
    mode: str,
    *,
    antialias: bool = False,
    align_corners: bool = False,
) -> Tensor:
    """Resize images ``(B, C, H, W)`` to ``size``: ``F.interpolate``, also correct for one column.

    The size is given as such, never as a scale factor, whose rounding loses a row:
    ``int(14 * (61 / 14)) == 60``.
    """
    if antialias and size[1] == 1 and size[0] != 1:
        # torch 2.13's CPU kernel reads wrong places for an output one pixel wide, unless channels
        # come last in memory; for an output one pixel high it is right.
        turned = resample(image.mT, (1, size[0]), mode, antialias=True, align_corners=align_corners)
        return turned.mT
    corners = align_corners if mode in _SMOOTH else None
    return F.interpolate(image, size, mode=mode, antialias=antialias, align_corners=corners)


def sincos_pos_embedding_1d(
    num_positions: int, embed_dim: int, num_prefix_tokens: int = 0
) -> Tensor:
    """Return the fixed one-dimensional sin-cos table: a code of the index.

    Row ``i`` is ``[sin(i w_0), …, sin(i w_k), cos(i w_0), …, cos(i w_k)]`` with ``k = D / 2 - 1``
    and ``w_j = 10000 ** (-j / (D / 2))``: the values of Vaswani et al., sines first.

    Args:
        num_positions: how many positions, counted from 0.
        embed_dim: the width ``D``, an even number.
        num_prefix_tokens: how many rows of zeros stand in front.

    Returns:
        Tensor: ``(1, num_prefix_tokens + num_positions, D)`` in float32.

    Raises:
        ShapeError: if ``embed_dim`` is odd or a count is out of range.

    Source: Vaswani et al., *Attention Is All You Need*, section 3.5 (arXiv:1706.03762).
    """
    positions = _float64_range(as_int(num_positions, "num_positions"))
    return _with_prefix(_waves(positions, embed_dim), num_prefix_tokens)


def sincos_pos_embedding(grid_size: Size, embed_dim: int, num_prefix_tokens: int = 0) -> Tensor:
    """Return the fixed two-dimensional sin-cos table: the code of the column, then of the row.

    The first half of the channels is the one-dimensional code of the column, the second half that
    of the row: the order of MAE and of big_vision.

    Args:
        grid_size: the grid ``(rows, columns)``; an ``int`` is a square.
        embed_dim: the width ``D``, a multiple of 4.
        num_prefix_tokens: how many rows of zeros stand in front.

    Returns:
        Tensor: ``(1, num_prefix_tokens + rows * columns, D)`` in float32, patches row-major.

    Raises:
        ShapeError: if 4 does not divide ``embed_dim`` or a count is out of range.

    Source: Chen et al., arXiv:2104.02057 (MoCo v3); He et al., arXiv:2111.06377 (MAE), its code.
    """
    rows, columns = as_pair(grid_size, "grid_size")
    if as_int(embed_dim, "embed_dim") % 4:
        raise ShapeError(f"Expected embed_dim divisible by 4, but got {embed_dim}.")
    row = _float64_range(rows).repeat_interleave(columns)
    column = _float64_range(columns).repeat(rows)
    halves = [_waves(axis, embed_dim // 2) for axis in (column, row)]
    return _with_prefix(torch.cat(halves, dim=1), num_prefix_tokens)


def _waves(positions: Tensor, embed_dim: int) -> Tensor:
    """Sines, then cosines, of ``positions (n,)`` at ``embed_dim / 2`` falling frequencies."""
    if as_int(embed_dim, "embed_dim") % 2:
        raise ShapeError(f"Expected embed_dim divisible by 2, but got {embed_dim}.")
    half = embed_dim // 2
    frequencies = 10000.0 ** (-_float64_range(half) / half)
    angles = positions[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _with_prefix(table: Tensor, num_prefix_tokens: int) -> Tensor:
    prefix = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=0)
    table = F.pad(table, (0, 0, prefix, 0))[None].float()
    return table.to(torch.get_default_device())


def _float64_range(n: int) -> Tensor:
    """Return 0 to ``n - 1``, on the CPU: some devices have no float64."""
    return torch.arange(n, dtype=torch.float64, device="cpu")
