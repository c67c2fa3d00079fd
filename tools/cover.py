"""Draw the cover: the README's picture, and the preview of a link to the book.

    python tools/cover.py [--check]

Part of ``make execute``. All of it is computed: ``patchify`` cuts the photograph, and each small
map shows the similarity of one row of the trained model's table of positions to all rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

import dnnl
import dnnl.models.vit as vit
from dnnl.data import photograph
from dnnl.figures import CLASS, PATCH, POSITION

ROOT = Path(__file__).resolve().parent.parent
COVER = ROOT / "_static" / "cover.png"
SIZE = (1200, 630)  # the size that sites recommend for a preview (og:image)
GRID = 7  # patches and maps shown along a side
PAPER, INK, MUTED = "#fbfaf7", "#1c1e21", "#55595f"
TITLE = ("Class Token and", "Positional Embedding")
LINE = "How a Vision Transformer turns an image into the sequence it reads"


def patches() -> torch.Tensor:
    """Return the patches of a photograph, ``(GRID * GRID, P, P, 3)``."""
    image = photograph("cat", 224)
    size = 224 // GRID
    pieces = vit.patchify(image[None], size)[0]
    return pieces.unflatten(-1, (3, size, size)).permute(0, 2, 3, 1)


def maps() -> torch.Tensor:
    """Return the similarity of every second position to all positions, ``(49, 14, 14)``."""
    table = dnnl.load_chapter_model().embedding.pos_embed.pos_embed[0, 1:].detach()
    rows = F.normalize(table, dim=-1)
    likeness = (rows @ rows.T).reshape(14, 14, 14, 14)
    return likeness[::2, ::2].reshape(-1, 14, 14)


def box(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Return axes at a place in pixels from the upper left corner."""
    place = (x / SIZE[0], 1 - (y + height) / SIZE[1], width / SIZE[0], height / SIZE[1])
    axes = figure.add_axes(place)
    axes.axis("off")
    return axes


def frame(axes: Axes, colour: str, width: float) -> None:
    axes.add_patch(
        Rectangle(
            (0, 0), 1, 1, transform=axes.transAxes, fill=False, ec=colour, lw=width, clip_on=False
        )
    )


def draw() -> np.ndarray[Any, Any]:
    """Return the cover's pixels."""
    with mpl.rc_context({"font.family": "DejaVu Sans", "figure.constrained_layout.use": False}):
        figure = plt.figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor=PAPER)
        side, gap, left, top = 38, 5, 64, 218
        pieces, likeness = patches(), maps()
        for i in range(GRID * GRID):
            row, column = divmod(i, GRID)
            x, y = left + column * (side + gap), top + row * (side + gap)
            box(figure, x, y, side, side).imshow(pieces[i], interpolation="antialiased")
            x += SIZE[0] - 2 * left - GRID * (side + gap) + gap
            box(figure, x, y, side, side).imshow(likeness[i], vmin=-0.3, vmax=1)
        # Between them, a part of the sequence: class token and patches, each with its position.
        x0 = 409
        for k in range(GRID):
            x, wide = x0 + k * 58, 34
            token = box(figure, x, 307, wide, wide)
            if k == 0:
                token.add_patch(Rectangle((0, 0), 1, 1, fc=CLASS))
                token.text(0.5, 0.47, "c", ha="center", va="center", color="white", size=17)
            else:
                token.imshow(pieces[20 + k], interpolation="antialiased")
                frame(token, PATCH, 2)
            figure.text(
                (x + wide / 2) / SIZE[0], 1 - 366 / SIZE[1], "+",
                ha="center", va="center", color=MUTED, size=15,
            )  # fmt: skip
            place = box(figure, x, 391, wide, wide)
            if k == 0:
                place.add_patch(Rectangle((0, 0), 1, 1, fc="white"))
                place.text(0.5, 0.47, "p", ha="center", va="center", color=POSITION, size=17)
            else:
                place.imshow(likeness[20 + k], vmin=-0.3, vmax=1)
            frame(place, POSITION, 2)
        text: dict[str, Any] = {"ha": "left", "va": "baseline", "color": INK}
        figure.text(left / SIZE[0], 1 - 92 / SIZE[1], TITLE[0], size=36, weight="bold", **text)
        figure.text(left / SIZE[0], 1 - 148 / SIZE[1], TITLE[1], size=36, weight="bold", **text)
        figure.text(left / SIZE[0], 1 - 584 / SIZE[1], LINE, ha="left", size=18, color=MUTED)
        figure.text(
            1 - left / SIZE[0], 1 - 92 / SIZE[1], "11.3", ha="right", size=36, color=CLASS,
            weight="bold",
        )  # fmt: skip
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
        plt.close(figure)
    return pixels


def main(argv: list[str]) -> int:
    plt.switch_backend("agg")
    pixels = draw()
    if argv == ["--check"]:
        stored = np.asarray(Image.open(COVER).convert("RGB")).astype(int)
        return int(stored.shape != pixels.shape or np.abs(stored - pixels).mean() > 3)
    Image.fromarray(pixels).quantize(192).save(COVER, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
