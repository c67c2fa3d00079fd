"""PatchGrid: a photograph under its grid of patches."""

import math
from typing import Any

import traitlets
from torch import Tensor

from dnnl import data, figures
from dnnl.explorers.base import Explorer, Whole, bundle, check_image, packed_image, png, stylesheet

SMALLEST = 8
"""The smallest patch, in pixels: below it, no finger could pick one."""


class PatchGrid(Explorer):
    """A photograph is cut into patches; one is picked, and its numbers and its place are shown.

    Args:
        image: ``(3, H, W)`` in [0, 1], sides from 16 to 256; the cat by default. It is shown in 256
            colours, and those are the numbers.
        patch_size: the side ``P`` of a patch. It need not divide the image: what the border loses
            is shown.
        index: the picked patch, row by row; by default one a third of the way down and across.

    Raises:
        ShapeError: if the image has another shape.
        traitlets.TraitError: for a patch size or an index out of range, here and later.
    """

    _esm = bundle("patch_grid.js")
    _css = stylesheet("patch_grid")
    _heights = (1150, 710)

    _photo = traitlets.Bytes().tag(sync=True)
    _size = traitlets.List(traitlets.Int()).tag(sync=True)
    patch_size = Whole(16, SMALLEST, lambda self: min(self._size) // 2)
    index = Whole(0, 0, lambda self: math.prod(self.grid_size) - 1)

    def __init__(
        self,
        image: Tensor | None = None,
        *,
        patch_size: int = 16,
        **traits: Any,
    ) -> None:
        photo = check_image(data.photograph() if image is None else image, least=16)
        packed, self.image = packed_image(photo)
        size = list(photo.shape[1:])
        given, index = "index" in traits, traits.pop("index", None)
        super().__init__(_photo=packed, _size=size, **traits)
        self.patch_size = patch_size
        rows, columns = self.grid_size
        self.index = int(0.36 * rows) * columns + columns // 3
        if given:
            self.index = index

    @property
    def grid_size(self) -> tuple[int, int]:
        """How many whole patches fit: ``(rows, columns)``."""
        return self._size[0] // self.patch_size, self._size[1] // self.patch_size

    @property
    def patch(self) -> Tensor:
        """The picked patch, ``(3, P, P)``."""
        p = self.patch_size
        row, column = divmod(self.index, self.grid_size[1])
        return self.image[:, row * p : (row + 1) * p, column * p : (column + 1) * p]

    @traitlets.observe("patch_size")
    def _keep_index(self, change: Any) -> None:
        rows, columns = self.grid_size
        self.index = min(self.index, rows * columns - 1)

    def still(self) -> bytes:
        """Return the photograph with its grid and the picked patch as a PNG."""
        p, (rows, columns) = self.patch_size, self.grid_size
        whole = self.image[:, : rows * p, : columns * p]
        label = "index" if rows * columns <= 196 else None
        figure = figures.patch_grid(whole, p, label=label, highlight=[self.index], size=4.0)
        return png(figure, colors=64)
