"""Offset: equal patches are one token, and a table of positions takes them apart."""

import functools
from typing import NamedTuple

import matplotlib.pyplot as plt
import torch
import traitlets
from matplotlib.patches import Rectangle
from torch import Tensor

import dnnl
from dnnl import data, figures
from dnnl.explorers.base import Choice, Explorer, Real, Whole, bundle, half, png, rgb8, stylesheet
from dnnl.models import vit

TABLES = ("trained", "sincos", "random")
GRID, SIDE = (14, 14), 4
PLACES = (16, 22, 54, 64, 104, 141, 173, 180)
"""The patches that are pasted over."""


class View(NamedTuple):
    """One table: its rows at :data:`PLACES`, and tokens and rows of all patches in a plane.

    Attributes:
        rows: ``(places, D)``.
        tokens: ``(N, 2)``, the tokens of the photograph, measured from their middle.
        offsets: ``(N, 2)``, the rows of the table, measured from their middle.
    """

    rows: Tensor
    tokens: Tensor
    offsets: Tensor


def photograph() -> Tensor:
    """Return the photograph ``(3, 56, 56)``."""
    return data.photograph("cat", (GRID[0] * SIDE, GRID[1] * SIDE))


@functools.cache
def tables() -> dict[str, Tensor]:
    """Return the tables ``(N, D)`` without their prefix rows, in float64."""
    learned = dnnl.load_chapter_model().embedding.pos_embed.pos_embed.detach()[0, 1:].double()
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(learned.shape, generator=generator, dtype=torch.float64)
    sincos = vit.sincos_pos_embedding(GRID, learned.shape[1])[0].double()
    return {"trained": learned, "sincos": sincos, "random": learned.std() * random}


@functools.cache
def tokens() -> Tensor:
    """Return the trained model's tokens of the photograph, without positions: ``(N, D)``."""
    embedding = dnnl.load_chapter_model().embedding.double()
    with torch.no_grad():
        return embedding.patch_embed(data.standardize(photograph())[None].double())[0]


@functools.cache
def views() -> dict[str, View]:
    """Return what is shown of each table, in the plane that keeps most of tokens + table."""
    x, found = tokens(), {}
    for name, table in tables().items():
        centred = x - x.mean(dim=0), table - table.mean(dim=0)
        axes = torch.linalg.svd(sum(centred), full_matrices=False).Vh[:2]
        # Signs and order of the axes are anybody's choice: let columns grow to the right and rows
        # downwards, as far as the plane shows them.
        row, column = torch.cartesian_prod(*(torch.arange(n) - n / 2 for n in GRID)).double().T
        drift = torch.stack([column, row]) @ centred[1] @ axes.T
        if drift[0, 0].abs() * drift[1, 1].abs() < drift[0, 1].abs() * drift[1, 0].abs():
            axes, drift = axes.flip(0), drift.flip(1)
        axes = axes * drift.diagonal().sign()[:, None]
        places = list(PLACES)
        found[name] = View(table[places], centred[0] @ axes.T, centred[1] @ axes.T)
    return found


class Offset(Explorer):
    """One patch pasted in eight places: one token, until a table of positions is added.

    Attributes:
        scale: the table is multiplied by this number from 0 to 1.5 before it is added.
        table: ``"trained"`` (the chapter's model), ``"sincos"``, or ``"random"`` (numbers of the
            trained table's deviation).
        patch: which patch of the photograph is pasted, an index from 0 to 195.
    """

    _esm = bundle("offset.js")
    _css = stylesheet("offset")
    _heights = (1115, 640)

    scale = Real(1.0, 0, 1.5)
    table = Choice(*TABLES)
    patch = Whole(60, 0, GRID[0] * GRID[1] - 1)
    _places = traitlets.List(traitlets.Int(), default_value=list(PLACES)).tag(sync=True)
    _pixels = traitlets.Bytes().tag(sync=True)
    _rows = traitlets.Bytes().tag(sync=True)
    _plane = traitlets.Bytes().tag(sync=True)

    @traitlets.default("_pixels")
    def _default_pixels(self) -> bytes:
        return rgb8(photograph())

    @traitlets.default("_rows")
    def _default_rows(self) -> bytes:
        return half(torch.stack([views()[name].rows for name in TABLES]))

    @traitlets.default("_plane")
    def _default_plane(self) -> bytes:
        return half(torch.stack([torch.stack(views()[name][1:]) for name in TABLES]))

    def image(self) -> Tensor:
        """Return the photograph ``(3, 56, 56)`` with the patch pasted at all places."""
        patches = vit.patchify(photograph()[None], SIDE)
        patches[:, list(PLACES)] = patches[:, [self.patch]]
        return vit.unpatchify(patches, SIDE, GRID)[0]

    def still(self) -> bytes:
        """Return a PNG: the photograph, and the plane without the table and with it."""
        view = views()[self.table]
        figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.5), layout="constrained")
        axes[0].imshow(self.image().permute(1, 2, 0).numpy())
        for place in PLACES:
            row, column = divmod(place, GRID[1])
            corner = (column * SIDE - 0.5, row * SIDE - 0.5)
            frame = Rectangle(corner, SIDE, SIDE, fill=False, ec=figures.POSITION, lw=2)
            axes[0].add_patch(frame)
        axes[0].axis("off")
        for ax, scale in zip(axes[1:], (0.0, self.scale), strict=True):
            points = (view.tokens + scale * view.offsets).numpy()
            copies = (view.tokens[self.patch] + scale * view.offsets[list(PLACES)]).numpy()
            net = points.reshape(*GRID, 2)
            for line in (*net, *net.transpose(1, 0, 2)):
                ax.plot(*line.T, color=figures.INK, lw=0.4, alpha=0.6)
            ax.plot(*copies.T, "o", color=figures.POSITION, ms=5)
            added = {0: "X", 1: "X + P"}.get(scale, f"X + {scale:g} P")
            ax.set_title(added, color=figures.INK)
            ax.set_aspect("equal")
            ax.invert_yaxis()
            ax.axis("off")
        return png(figure, colors=64)
