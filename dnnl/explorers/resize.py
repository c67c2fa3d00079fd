"""Resize the trained table of positions to another grid, and see what the model makes of it."""

import io
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
import traitlets
from torch import Tensor

import dnnl
from dnnl import data, figures
from dnnl.chapter_model import ChapterModel
from dnnl.explorers import live
from dnnl.explorers.base import Choice, Explorer, Whole, bundle, choice, rgb8, stylesheet
from dnnl.models import vit

MODES = ("bicubic", "bilinear", "nearest", "nearest-exact", "area")
SMOOTH = ("bicubic", "bilinear")
LEAST, MOST = 4, 28
SHORT_SIDE = 256  # of the photographs that the model was trained on


class Resize(Explorer):
    """Resize the chapter model's table from its grid, 14×14, to another, and measure the model.

    In the page, the table is resized and the model fills in the hidden 60 % of a crop that has the
    new grid's size; no kernel is needed.

    Args:
        photograph: which photograph the crop is cut from, a key of ``dnnl.data.PHOTOGRAPHS``.

    Attributes:
        rows, columns: the new grid, 4 to 28 each.
        mode: ``"bicubic"``, ``"bilinear"``, ``"nearest"``, ``"nearest-exact"`` or ``"area"``.
        align_corners, antialias: as for :func:`dnnl.models.vit.interpolate_pos_embedding`; they act
            with the modes ``"bicubic"`` and ``"bilinear"`` and are without effect in the others.
        row, column: the picked cell of the new grid, 0 to 27; beyond the grid means its last.

    Raises:
        traitlets.TraitError: if a value is out of range, or the photograph unknown.
    """

    _esm = bundle("resize.js")
    _css = stylesheet("resize")
    _heights: ClassVar[tuple[int, int]] = (2030, 1200)

    rows = Whole(16, LEAST, MOST)
    columns = Whole(24, LEAST, MOST)
    mode = Choice(*MODES)
    align_corners = traitlets.Bool(False).tag(sync=True)
    antialias = traitlets.Bool(False).tag(sync=True)
    row = Whole(5, 0, MOST - 1)
    column = Whole(9, 0, MOST - 1)
    _index = traitlets.Dict().tag(sync=True)
    _grid_size = traitlets.List(traitlets.Int()).tag(sync=True)
    _weights = traitlets.Bytes().tag(sync=True)
    _pixels = traitlets.Bytes().tag(sync=True)
    _order = traitlets.Bytes().tag(sync=True)
    _colours = traitlets.Bytes().tag(sync=True)
    _share = traitlets.Int().tag(sync=True)

    def __init__(self, photograph: str = "coffee", **traits: Any) -> None:
        choice("photograph", photograph, tuple(data.PHOTOGRAPHS))
        self._model = live.quantized(dnnl.load_chapter_model())  # as the page has it
        weights, index = live.pack(self._model)
        self._region = _middle(photograph, MOST * self._patch)
        # Which patches to hide: those that come first in one fixed random order.
        generator = torch.Generator().manual_seed(0)
        self._ranks = torch.randperm(MOST * MOST, generator=generator).reshape(MOST, MOST)
        colours, share = principal_colours(self._table)
        super().__init__(
            _index=index,
            _grid_size=list(self._model.embedding.patch_embed.grid_size),
            _weights=weights,
            _pixels=rgb8(self._region),
            _order=self._ranks.numpy().astype("<u2").tobytes(),
            _colours=colours.numpy().astype("<f4").tobytes(),
            _share=share,
            **traits,
        )

    @property
    def _patch(self) -> int:
        return self._model.embedding.patch_embed.patch_size[0]

    @property
    def _table(self) -> Tensor:
        return self._model.embedding.pos_embed.pos_embed.detach()

    def table(self) -> Tensor:
        """Return the resized table ``(1, 1 + rows * columns, D)``."""
        smooth = self.mode in SMOOTH
        return vit.interpolate_pos_embedding(
            self._table,
            self._model.embedding.patch_embed.grid_size,
            (self.rows, self.columns),
            mode=self.mode,
            align_corners=smooth and self.align_corners,
            antialias=smooth and self.antialias,
        )

    def crop(self) -> tuple[Tensor, Tensor]:
        """Return the crop ``(1, 3, H, W)`` and the mask ``(1, N)`` of its hidden patches."""
        top, left = (MOST - self.rows) // 2, (MOST - self.columns) // 2
        place = slice(top, top + self.rows), slice(left, left + self.columns)
        p = self._patch
        pixels = self._region[
            :, p * top : p * (top + self.rows), p * left : p * (left + self.columns)
        ]
        ranks = self._ranks[place].flatten()
        mask = torch.zeros(len(ranks), dtype=torch.bool)
        mask[ranks.argsort()[: (6 * len(ranks) + 5) // 10]] = True
        return pixels[None], mask[None]

    @torch.no_grad()
    def measure(self) -> tuple[float, float]:
        """Return the squared error on the hidden patches: with the resized table, with zeros."""
        x, mask = self.crop()
        target = self._model.standardize(x)
        table = self.table()
        errors = [
            (self._model.reconstruct(x, mask, t) - target)[mask].square().mean().item()
            for t in (table, torch.zeros_like(table))
        ]
        return errors[0], errors[1]

    def colours(self, table: Tensor) -> Tensor:
        """Return the colours ``(N, 3)`` in [0, 1] of a table's patch rows, as the page has them."""
        values = torch.from_numpy(np.frombuffer(self._colours, "<f4").copy())
        dim = table.shape[-1]
        mean, axes, ends = values[:dim], values[dim : 4 * dim].reshape(3, dim), values[4 * dim :]
        places = (table[0, 1:] - mean) @ axes.T
        return ((places - ends[:3]) / (ends[3:] - ends[:3])).clamp(0, 1)

    @torch.no_grad()
    def still(self) -> bytes:
        """Return a picture of both tables, the picked row's map, and what the model fills in."""
        grid = (self.rows, self.columns)
        table, (x, mask) = self.table(), self.crop()
        r, c = min(self.row, grid[0] - 1), min(self.column, grid[1] - 1)
        unit = F.normalize(table[0, 1:], dim=-1)
        old = self._model.embedding.patch_embed.grid_size
        error, zeros = self.measure()
        panels: dict[str, np.ndarray] = {
            f"{old[0]}×{old[1]}": self.colours(self._table).reshape(*old, 3).numpy(),
            f"{grid[0]}×{grid[1]}, {self.mode}": self.colours(table).reshape(*grid, 3).numpy(),
            f"cos, ({r}, {c})": (unit @ unit[r * grid[1] + c]).reshape(grid).numpy(),
            f"MSE {error:.3f}, zeros {zeros:.3f}": _filled(self._model, x, mask, table),
        }
        with figures.drawing():
            figure, axes = plt.subplots(1, 4, figsize=(7.2, 2.2))
            for ax, (title, values) in zip(axes, panels.items(), strict=True):
                ax.imshow(values, vmin=-1, vmax=1)
                ax.set_title(title, fontsize=9)
                ax.axis("off")
        drawn = io.BytesIO()  # (whole: the colours of a table would not survive a palette)
        try:
            figure.savefig(drawn, format="png", dpi=90, transparent=True)
        finally:
            plt.close(figure)
        return drawn.getvalue()


def principal_colours(table: Tensor) -> tuple[Tensor, int]:
    """Return what colours the rows of a table, and how many per cent of the variance it shows.

    A row's place along the three main axes of the patch rows becomes its red, green and blue.

    Returns:
        tuple[Tensor, int]: mean ``(D,)``, axes ``(3, D)``, lowest and highest place ``(3,)`` each,
        as one vector; and the share of the variance.
    """
    rows = table[0, 1:].double()
    mean = rows.mean(dim=0)
    _, lengths, axes = torch.linalg.svd(rows - mean, full_matrices=False)
    axes = axes[:3]
    # An axis has no sign of its own: its largest entry is made positive.
    axes = axes * axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
    places = (rows - mean) @ axes.T
    share = lengths[:3].square().sum() / lengths.square().sum()
    parts = [mean, axes.flatten(), places.min(dim=0).values, places.max(dim=0).values]
    return torch.cat(parts).float(), round(100 * share.item())


def _middle(photograph: str, side: int) -> Tensor:
    """Return the middle of a photograph, as sharp as in training, in 256 levels as the page's."""
    image = data.photographs(short_side=SHORT_SIDE)[photograph]
    top, left = (n - side >> 1 for n in image.shape[1:])
    return (image[:, top : top + side, left : left + side] * 255).round() / 255


def _filled(model: ChapterModel, x: Tensor, mask: Tensor, table: Tensor) -> np.ndarray:
    """Return the crop with its hidden patches filled in, ``(H, W, 3)``."""
    patches = torch.where(mask[..., None], model.reconstruct(x, mask, table), model.standardize(x))
    grid = model.embedding.patch_embed.grid_of(x)
    return model.picture(patches, grid)[0].permute(1, 2, 0).numpy()
