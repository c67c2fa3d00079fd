"""The figures of the chapter: functions that take tensors and return a matplotlib figure.

Backgrounds are transparent and lines mid-grey, so that a figure reads on white and on black; the
class token, the patches and the positions have the same colours everywhere, chosen from the
palette of Okabe and Ito, which colour-blind readers can tell apart.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec

import torch
import torch.nn.functional as F
from torch import Tensor

from dnnl._extras import needs_extra
from dnnl.models.vit import ShapeError, patchify, unpatchify
from dnnl.models.vit.checks import (
    DTypeError,
    Size,
    as_int,
    as_pair,
    check_dims,
    format_size,
    grid_shape,
)
from dnnl.models.vit.positions import resample

with needs_extra("book", "dnnl.figures"):
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.rcsetup import cycler

CLASS, PATCH, POSITION = "#D55E00", "#0072B2", "#009E73"
INK = "#797979"
CYCLE = (PATCH, CLASS, POSITION, "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: Any = {  # the type that matplotlib gives it lists every key
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "figure.constrained_layout.use": True,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "font.size": 10,
    "image.cmap": "viridis",
    "axes.prop_cycle": cycler(color=CYCLE),
}


P = ParamSpec("P")


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of the chapter; after an error, close the figures that were opened."""
    before = set(plt.get_fignums())
    try:
        with plt.rc_context(STYLE):
            yield
    except BaseException:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
        raise


def _styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a function draw inside :func:`drawing`."""

    @functools.wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with drawing():
            return draw(*args, **kwargs)

    return wrapped


def _check_some(things: Mapping[Any, Any] | Sequence[Any], name: str) -> None:
    if not len(things):
        raise ValueError(f"Expected at least one {name}, but got none.")


def _check_places(
    places: Sequence[tuple[int, int]], grid_size: tuple[int, int], name: str = "position"
) -> None:
    """Raise unless every ``(row, column)`` lies on the grid, and there is at least one."""
    _check_some(places, name)
    for row, column in places:
        if not (0 <= row < grid_size[0] and 0 <= column < grid_size[1]):
            raise ValueError(
                f"Expected every {name} on a grid of {format_size(grid_size)}, "
                f"but got {(row, column)}."
            )


def _pixels(image: Tensor) -> Tensor:
    """Return a picture ``(C, H, W)`` in [0, 1] as float32 on the CPU; integers mean 0 to 255.

    A matrix ``(H, W)`` keeps its numbers.
    """
    if not isinstance(image, Tensor):
        raise DTypeError(
            f"Expected a picture as a torch.Tensor (C, H, W), but got {type(image).__name__}."
        )
    if image.dim() != 2 and (image.dim() != 3 or image.shape[0] not in (1, 3, 4)):
        raise ShapeError(
            "Expected a picture (C, H, W) with 1, 3 or 4 channels, or a matrix (H, W), "
            f"but got {tuple(image.shape)}."
        )
    if not image.numel():
        raise ShapeError(f"Expected a picture with pixels, but got {tuple(image.shape)}.")
    if image.is_complex():
        raise DTypeError(f"Expected a picture of real numbers, but got {image.dtype}.")
    if image.dim() == 3 and not (image.is_floating_point() or image.dtype == torch.bool):
        if image.dtype != torch.uint8:
            raise DTypeError(
                f"Expected a picture of floats in [0, 1] or of uint8, but got {image.dtype}."
            )
        return image.detach().cpu().float() / 255
    return image.detach().cpu().float()


def _panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``rows × columns`` axes, each ``width × height`` inches, row by row."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(columns * width, rows * height), squeeze=False
    )
    return figure, list(axes.flat)


def _picture(axes: Axes, image: Tensor, title: str = "", *, inches: float = 99.0) -> None:
    """Show an image ``(C, H, W)`` in [0, 1], or a matrix, without axes.

    A photograph larger than ``inches`` is shrunk to it, and all are rounded to 6 bits a channel,
    which no eye sees and which halves the file.
    """
    pixels = _pixels(image)
    if pixels.dim() == 3:
        side = round(inches * plt.rcParams["figure.dpi"])
        if max(pixels.shape[1:]) > side:
            height, width = (max(1, n * side // max(pixels.shape[1:])) for n in pixels.shape[1:])
            pixels = resample(pixels[None], (height, width), "bilinear", antialias=True)[0]
        pixels = (pixels.clamp(0, 1) * 63).round().permute(1, 2, 0) / 63
        pixels = pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels
    axes.imshow(
        pixels.numpy(),
        interpolation="nearest",
        extent=(-0.5, image.shape[-1] - 0.5, image.shape[-2] - 0.5, -0.5),
    )
    axes.set_title(title)
    axes.axis("off")


@_styled
def images(pictures: Mapping[str, Tensor], *, columns: int = 4, size: float = 1.6) -> Figure:
    """Show images ``(C, H, W)`` in [0, 1] (or matrices) side by side under their titles.

    Args:
        pictures: title → image; images of dtype uint8 have values from 0 to 255.
        columns: how many to a row.
        size: the side of each, in inches.

    Raises:
        ShapeError: if an image has another shape or dtype, or ``columns`` is below 1.
        ValueError: if there is no image.
    """
    _check_some(pictures, "picture")
    columns = min(as_int(columns, "columns"), len(pictures))
    figure, axes = _panels(-(-len(pictures) // columns), columns, size, size + 0.25)
    for ax in axes:
        ax.axis("off")
    for ax, (title, picture) in zip(axes, pictures.items(), strict=False):
        _picture(ax, picture, title, inches=size)
    return figure


@_styled
def patch_grid(
    image: Tensor,
    patch_size: Size,
    *,
    label: str | None = "index",
    highlight: Sequence[int] = (),
    size: float = 4.48,
) -> Figure:
    """Draw the grid of patches over an image and write into each patch what names it.

    Args:
        image: ``(C, H, W)`` in [0, 1].
        patch_size: in pixels; it must divide the image.
        label: ``"index"``, ``"row"``, ``"column"``, ``"position"`` (row, column), or None.
        highlight: indices of patches to outline.
        size: the side of the figure, in inches.

    Raises:
        ShapeError: if ``image`` is not ``(C, H, W)`` or the patch does not divide it.
        ValueError: for an unknown label or patch.
    """
    check_dims(image, "(C, H, W)", "an image")
    if label not in ("index", "row", "column", "position", None):
        raise ValueError(f"Expected index, row, column, position or None, but got {label!r}.")
    h, w = as_pair(patch_size, "patch_size")
    rows, columns = grid_shape((image.shape[1], image.shape[2]), (h, w), "an image size")
    for i in highlight:
        if not 0 <= i < rows * columns:
            raise ValueError(
                f"Expected every index in highlight from 0 to {rows * columns - 1}, but got {i}."
            )
    figure, (ax,) = _panels(1, 1, size, size * image.shape[1] / image.shape[2])
    _picture(ax, image)
    for i in range(rows * columns):
        row, column = divmod(i, columns)
        marked = i in highlight
        frame = Rectangle((column * w - 0.5, row * h - 0.5), w, h, fill=False, zorder=1 + marked)
        frame.set(edgecolor=CLASS if marked else "white", linewidth=2.5 if marked else 0.6)
        ax.add_patch(frame)
        text = {"index": i, "row": row, "column": column, "position": f"{row},{column}"}
        if label is not None:
            ax.text(
                (column + 0.5) * w - 0.5,
                (row + 0.5) * h - 0.5,
                str(text[label]),
                ha="center",
                va="center",
                color="white",
                fontsize=min(10.0, 22 * size / max(rows, columns)),
                bbox={"facecolor": "black", "alpha": 0.45, "linewidth": 0, "pad": 0.6},
            )
    return figure


@_styled
def sequence_strip(
    image: Tensor,
    patch_size: Size,
    *,
    num_prefix_tokens: int = 0,
    positions: bool = False,
    first: int = 12,
) -> Figure:
    """Draw the beginning of the sequence: prefix tokens, then the patches of an image in order.

    Args:
        image: ``(C, H, W)`` in [0, 1].
        patch_size: in pixels; it must divide the image.
        num_prefix_tokens: how many tokens stand in front.
        positions: draw the row of the table that is added to each token.
        first: how many patches to show.

    Raises:
        ShapeError: if ``image`` is not ``(C, H, W)``, the patch does not divide it, or a count is
            out of range.
    """
    check_dims(image, "(C, H, W)", "an image")
    h, w = as_pair(patch_size, "patch_size")
    num_prefix_tokens = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=0)
    first = as_int(first, "first")
    patches = patchify(image[None], (h, w))
    shown = min(first, patches.shape[1])
    total = num_prefix_tokens + shown
    figure, axes = _panels(1, total + 1, 0.56, 1.15 if positions else 0.85)
    for i, ax in enumerate(axes):
        ax.axis("off")
        ax.set_aspect("equal")  # as the patches have it, so that all boxes stand in one line
        ax.set(xlim=(-0.5, w - 0.5), ylim=(h * 1.9 - 0.5 if positions else h - 0.5, -0.5))
        if i == total:
            ax.text(w / 2, h / 2, "…", ha="center", va="center", fontsize=14)
            continue
        prefix = i < num_prefix_tokens
        if prefix:
            ax.add_patch(Rectangle((-0.5, -0.5), w, h, color=CLASS))
            name = "cls" if i == 0 else f"reg{i}"
            ax.text(w / 2, h / 2, name, ha="center", va="center", color="white", fontsize=8)
        else:
            patch = unpatchify(patches[:, i - num_prefix_tokens, None], (h, w), (1, 1))[0]
            _picture(ax, patch)
            ax.set(xlim=(-0.5, w - 0.5), ylim=(h * 1.9 - 0.5 if positions else h - 0.5, -0.5))
        if positions:
            ax.add_patch(Rectangle((-0.5, h * 1.25), w, h * 0.6, color=POSITION))
            ax.text(w / 2, h * 1.55, f"P{i}", ha="center", va="center", color="white", fontsize=8)
        ax.set_title(str(i), fontsize=9)
    return figure


@_styled
def pipeline(stages: Mapping[str, Tensor]) -> Figure:
    """Draw tensors side by side with their shapes: images as images, sequences as heat maps.

    Args:
        stages: title → ``(C, H, W)`` in [0, 1], or a sequence ``(N, D)``, whose tokens become the
            rows of the heat map.

    Raises:
        ShapeError: if a tensor has another shape.
        ValueError: if there is no tensor.
    """
    _check_some(stages, "tensor")
    figure, axes = _panels(1, len(stages), 1.5, 2.0)
    for ax, (title, x) in zip(axes, stages.items(), strict=True):
        values = _pixels(x)
        shape = ", ".join(map(str, x.shape))
        if x.dim() == 3:
            _picture(ax, x, f"{title}\n({shape})", inches=1.4)
        else:
            ax.imshow(values.numpy(), aspect="auto")
            ax.set(title=f"{title}\n({shape})", xticks=[], yticks=[0, len(x) - 1])
    return figure


@_styled
def similarity_maps(
    pos_embed: Tensor,
    grid_size: Size,
    *,
    num_prefix_tokens: int = 1,
    positions: Sequence[tuple[int, int]] | None = None,
    low: float = -1.0,
    size: float = 0.62,
) -> Figure:
    """Draw, for each of some patches, the cosine similarity of its row to the row of every patch.

    The prefix rows have no place on the grid and are left out.

    Args:
        pos_embed: the table ``(1, num_prefix_tokens + rows * columns, D)``.
        grid_size: the grid ``(rows, columns)``.
        num_prefix_tokens: how many leading rows belong to no patch.
        positions: the patches ``(row, column)`` to show; by default every one of a small grid, and
            49 spread over a large one.
        low: the similarity at the dark end of the colours; the bright end is 1.
        size: the side of each map, in inches.

    Raises:
        ShapeError: if the grid does not fit the table.
        ValueError: if there is no position, or one lies outside the grid.
    """
    similarity = _similarity(pos_embed, grid_size, num_prefix_tokens)
    rows, columns = similarity.shape[:2]
    if positions is None:
        down, across = _spread(rows), _spread(columns)
        positions = [(r, c) for r in down for c in across]
        per_row = len(across)
    else:
        _check_places(positions, (rows, columns))
        per_row = min(7, len(positions))
    figure, axes = _panels(-(-len(positions) // per_row), per_row, size, size)
    for ax in axes:
        ax.axis("off")
    for ax, (r, c) in zip(axes, positions, strict=False):
        shown = ax.imshow(similarity[r, c].numpy(), vmin=low, vmax=1)
        ax.plot(c, r, marker=".", color=CLASS, markersize=3)
    bar = figure.colorbar(shown, ax=axes, fraction=0.03, ticks=[low, (low + 1) / 2, 1])
    bar.outline.set_visible(False)
    return figure


def _similarity(pos_embed: Tensor, grid_size: Size, num_prefix_tokens: int) -> Tensor:
    """Return the cosines ``(rows, columns, rows, columns)`` between the patches' rows."""
    check_dims(pos_embed, "(1, T, D)", "a table of positions")
    if pos_embed.shape[0] != 1:
        raise ShapeError(f"Expected a table of shape (1, T, D), but got {tuple(pos_embed.shape)}.")
    rows, columns = as_pair(grid_size, "grid_size")
    num_prefix_tokens = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=0)
    table = pos_embed[0, num_prefix_tokens:].detach().float().cpu()
    if len(table) != rows * columns:
        raise ShapeError(
            f"Expected {rows * columns} rows for a grid of {format_size((rows, columns))}, but got "
            f"{len(table)} after {num_prefix_tokens} of the prefix."
        )
    unit = F.normalize(table, dim=-1)
    return (unit @ unit.T).reshape(rows, columns, rows, columns)


def _spread(n: int, most: int = 7) -> list[int]:
    """Return up to ``most`` indices below ``n``, evenly spread, both ends included."""
    if n <= most:
        return list(range(n))
    return [round(i * (n - 1) / (most - 1)) for i in range(most)]


@_styled
def similarity_rows(
    tables: Mapping[str, Tensor],
    grid_size: Size,
    positions: Sequence[tuple[int, int]],
    *,
    num_prefix_tokens: int = 1,
    size: float = 0.8,
) -> Figure:
    """Draw the maps of :func:`similarity_maps` for several tables of one grid, a row for each.

    Tables differ in how unlike two of their rows can be, so each has its own range of colours: from
    the lowest similarity in its maps, which is written beside them, to 1.

    Args:
        tables: name → table ``(1, num_prefix_tokens + rows * columns, D)``.
        grid_size: the grid ``(rows, columns)``.
        positions: the patches ``(row, column)`` to show.
        num_prefix_tokens: how many leading rows belong to no patch.
        size: the side of each map, in inches.

    Raises:
        ShapeError: if the grid does not fit a table.
        ValueError: if there is no table or position, or a position lies outside the grid.
    """
    _check_some(tables, "table")
    _check_places(positions, as_pair(grid_size, "grid_size"))
    figure, axes = _panels(len(tables), len(positions), size, size)
    for i, (name, pos_embed) in enumerate(tables.items()):
        similarity = _similarity(pos_embed, grid_size, num_prefix_tokens)
        maps = [similarity[r, c] for r, c in positions]
        low = min(m.min().item() for m in maps)
        row = axes[i * len(positions) : (i + 1) * len(positions)]
        for ax, shown, (r, c) in zip(row, maps, positions, strict=True):
            ax.imshow(shown.numpy(), vmin=low, vmax=1)
            ax.plot(c, r, marker=".", color=CLASS, markersize=3)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
        label = f"{name}\n{low:.1f} … 1"
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
    return figure


@_styled
def sampling_grid(old_size: int, new_size: int) -> Figure:
    """Draw where the cells of a new grid read the old one, in one dimension, both ways.

    Above ``align_corners=False`` (the borders of the outer cells coincide), below ``True`` (their
    centres do).

    Args:
        old_size: how many cells the old grid has along this axis.
        new_size: how many the new one has.

    Raises:
        ShapeError: if a size is below 1.
    """
    figure, axes = _panels(2, 1, 6.2, 0.95)
    for ax, corners in zip(axes, (False, True), strict=True):
        centres = sampling_positions(old_size, new_size, align_corners=corners)
        for i in range(old_size):
            ax.add_patch(Rectangle((i - 0.5, -0.5), 1, 1, fill=False, edgecolor=INK))
        ax.plot(range(old_size), [0] * old_size, "o", color=PATCH, markersize=9)
        ax.plot(centres, [0] * new_size, "|", color=CLASS, markersize=18, markeredgewidth=2)
        ax.set(title=f"align_corners={corners}", xlim=(-0.7, old_size - 0.3), ylim=(-0.7, 0.7))
        ax.axis("off")
    return figure


def sampling_positions(old_size: int, new_size: int, *, align_corners: bool) -> list[float]:
    """Return where ``new_size`` cells lie on an axis of ``old_size`` cells with centres at 0, 1, 2.

    Source: the documentation of ``torch.nn.functional.interpolate``.

    Raises:
        ShapeError: if a size is below 1.
    """
    old_size, new_size = as_int(old_size, "old_size"), as_int(new_size, "new_size")
    if align_corners:
        step = (old_size - 1) / (new_size - 1) if new_size > 1 else 0.0
        return [i * step for i in range(new_size)]
    return [(i + 0.5) * old_size / new_size - 0.5 for i in range(new_size)]


@_styled
def attention_maps(
    attention: Tensor | Sequence[Tensor],
    grid_size: Size,
    *,
    image: Tensor | None = None,
    num_prefix_tokens: int = 1,
    query: int = 0,
    size: float = 1.5,
) -> Figure:
    """Draw how much one token attends to each patch, head by head.

    Args:
        attention: weights of one image, ``(heads, T, T)``: those of one layer, or a sequence of
            several layers', each of which begins a line.
        grid_size: the grid ``(rows, columns)`` of the patches.
        image: ``(C, H, W)`` in [0, 1], shown first.
        num_prefix_tokens: how many tokens stand before the patches.
        query: which token attends; 0 is the class token.
        size: the side of each map, in inches.

    Raises:
        ShapeError: if the weights have another shape, or the grid does not fit them.
        ValueError: if there is no layer, or the query is not a token.
    """
    if isinstance(attention, Tensor):
        maps = _maps(attention, grid_size, num_prefix_tokens, query)
        heads = {f"head {i}": m for i, m in enumerate(maps)}
        return images(heads if image is None else {"image": image, **heads}, columns=5, size=size)
    _check_some(attention, "layer")
    layers = [_maps(weights, grid_size, num_prefix_tokens, query) for weights in attention]
    first, columns = int(image is not None), max(map(len, layers))
    figure, axes = _panels(len(layers), first + columns, size, size + 0.25)
    for ax in axes:
        ax.axis("off")
    if image is not None:
        _picture(axes[0], image, "image", inches=size)
    for layer, maps in enumerate(layers):
        start = layer * (first + columns) + first
        for head, picture in enumerate(maps):
            _picture(axes[start + head], picture, f"layer {layer}, head {head}", inches=size)
    return figure


def _maps(attention: Tensor, grid_size: Size, num_prefix_tokens: int, query: int) -> Tensor:
    """Return what the query gives to each patch, ``(heads, rows, columns)``."""
    check_dims(attention, "(heads, T, T)", "attention weights")
    heads, tokens, keys = attention.shape
    if not heads or tokens != keys:
        raise ShapeError(
            "Expected attention weights (heads, T, T) with at least one head, "
            f"but got {tuple(attention.shape)}."
        )
    rows, columns = as_pair(grid_size, "grid_size")
    num_prefix_tokens = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=0)
    if not 0 <= query < tokens:
        raise ValueError(f"Expected a query from 0 to {tokens - 1}, but got {query}.")
    weights = attention[:, query, num_prefix_tokens:].detach().float().cpu()
    if weights.shape[1] != rows * columns:
        raise ShapeError(
            f"Expected {rows * columns} patches for a grid of {format_size((rows, columns))}, "
            f"but got {weights.shape[1]} after {num_prefix_tokens} of the prefix."
        )
    return weights.reshape(-1, rows, columns)


@_styled
def curves(
    lines: Mapping[str, Sequence[float]],
    *,
    x: Sequence[float] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    log: bool = False,
    dashed: float | None = None,
) -> Figure:
    """Draw lines over a common axis, each named at its end.

    Beyond the six colours lines differ by their dashes as well.

    Args:
        lines: name → values.
        x: where the values lie; by default 0, 1, 2, …
        xlabel: name of the horizontal axis.
        ylabel: name of the vertical axis.
        log: use logarithmic scales on both axes.
        dashed: a level to mark by a dashed line.

    Raises:
        ValueError: if there is no line, a line has no values, or not as many as ``x``.
    """
    _check_some(lines, "line")
    figure, (ax,) = _panels(1, 1, 5.2, 2.7)
    for i, (name, values) in enumerate(lines.items()):
        at = range(len(values)) if x is None else x
        if len(values) != len(at) or not len(values):
            raise ValueError(
                f"Expected {len(at) or 'some'} values in the line {name!r}, but got {len(values)}."
            )
        turn, colour = i // len(CYCLE), CYCLE[i % len(CYCLE)]
        style: Any = (0, (4 * turn, 2)) if turn else "-"
        ax.plot(at, values, color=colour, linestyle=style, marker="." if len(values) < 20 else None)
        ax.annotate(
            name,
            (at[-1], values[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    if dashed is not None:
        ax.axhline(dashed, color=INK, linestyle="--", linewidth=1)
    if log:
        ax.set(xscale="log", yscale="log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return figure


@_styled
def bars(values: Mapping[str, float], *, xlabel: str = "", digits: int = 2) -> Figure:
    """Draw horizontal bars with their values written beside them.

    Args:
        values: name → value.
        xlabel: what the values are.
        digits: digits after the point.

    Raises:
        ValueError: if there is no value.
    """
    _check_some(values, "value")
    figure, (ax,) = _panels(1, 1, 5.2, 0.5 + 0.32 * len(values))
    names = list(values)[::-1]
    drawn = ax.barh(names, [values[n] for n in names], color=PATCH)
    ax.bar_label(drawn, fmt=f"%.{digits}f", padding=4, color=INK)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set(xlabel=xlabel, xticks=[])
    ax.tick_params(left=False)
    return figure


@_styled
def scatter(
    points: Tensor,
    labels: Tensor,
    names: Sequence[str],
    *,
    xlabel: str = "",
    ylabel: str = "",
    size: float = 5.2,
) -> Figure:
    """Draw points of a plane in groups, each with a colour, a marker and its name in its middle.

    Args:
        points: ``(n, 2)``.
        labels: the group of each point, ``(n,)``, from 0.
        names: the names of the groups.
        xlabel: name of the horizontal axis.
        ylabel: name of the vertical axis.
        size: the width of the figure, in inches.

    Raises:
        ShapeError: if there is not one point ``(x, y)`` for each label.
        ValueError: if a label is not an index into ``names``.
    """
    if points.shape != (*labels.shape, 2) or labels.dim() != 1:
        raise ShapeError(
            f"Expected points (n, 2) and labels (n,), but got {tuple(points.shape)} and "
            f"{tuple(labels.shape)}."
        )
    at, group = points.detach().float().cpu(), labels.detach().cpu()
    nameless = set(group.tolist()) - set(range(len(names)))
    if nameless:
        raise ValueError(
            f"Expected labels from 0 to {len(names) - 1}, one for each name, "
            f"but got {min(nameless)}."
        )
    figure, (ax,) = _panels(1, 1, size, 0.8 * size)
    for i, name in enumerate(names):
        own = at[group == i]
        # 6 colours and 7 markers: no two of 42 groups look the same
        colour, marker = CYCLE[i % len(CYCLE)], MARKERS[i % len(MARKERS)]
        x, y = own.T.numpy()
        ax.scatter(x, y, s=14, alpha=0.7, linewidths=0, color=colour, marker=marker)
        if len(own):
            middle = own.median(dim=0).values
            ax.annotate(
                name,
                (middle[0].item(), middle[1].item()),
                ha="center",
                va="center",
                color="white",
                fontsize=9,
                bbox={"facecolor": "black", "alpha": 0.6, "linewidth": 0, "pad": 1.2},
            )
    ax.set(xlabel=xlabel, ylabel=ylabel, xticks=[], yticks=[])
    return figure
