"""How alike are two positions: one row of a table beside all others, on the grid."""

from typing import Any, ClassVar

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
import traitlets
from torch import Tensor

import dnnl
from dnnl import figures
from dnnl.explorers.base import Choice, Explorer, Whole, bundle, half, png, stylesheet
from dnnl.models import vit

TABLES = ("trained", "sincos", "random")


class SimilarityMap(Explorer):
    """Pick a row of a table of positions and see its cosine similarity to every other row.

    Attributes:
        table: ``"trained"`` (the chapter's model), ``"sincos"`` or ``"random"`` (a fresh module).
        token: the picked row of the table, 0 to 196; 0 is the class token's, patch ``i`` has
            ``i + 1``.
        scale: ``"full"``: colours from -1 to 1; ``"own"``: from the table's smallest value to 1.
    """

    _esm = bundle("similarity_map.js")
    _css = stylesheet("similarity_map")
    _heights: ClassVar[tuple[int, int]] = (1300, 790)

    table = Choice(*TABLES)
    token = Whole(61, 0, 196)  # of 14×14 patches and a class token
    scale = Choice("full", "own")
    _grid_size = traitlets.List(traitlets.Int()).tag(sync=True)
    _embed_dim = traitlets.Int().tag(sync=True)
    _trained = traitlets.Bytes().tag(sync=True)
    _random = traitlets.Bytes().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        embedding = dnnl.load_chapter_model().embedding
        grid, trained = embedding.patch_embed.grid_size, embedding.pos_embed.pos_embed
        dim = trained.shape[-1]
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
            torch.manual_seed(0)
            fresh = vit.ViTPositionalEmbedding(dim, grid[0] * grid[1]).pos_embed
        super().__init__(
            _grid_size=list(grid),
            _embed_dim=dim,
            _trained=half(trained),
            _random=half(fresh),
            **traits,
        )

    def rows(self) -> Tensor:
        """Return the shown table ``(1, 197, D)``, class token first."""
        grid = (self._grid_size[0], self._grid_size[1])
        if self.table == "sincos":
            return vit.sincos_pos_embedding(grid, self._embed_dim, num_prefix_tokens=1)
        stored = self._trained if self.table == "trained" else self._random
        values = torch.frombuffer(bytearray(stored), dtype=torch.float16).float()
        return values.reshape(1, -1, self._embed_dim)

    def similarity(self) -> Tensor:
        """Return the cosine similarity of the picked row to every row, ``(197,)``."""
        unit = F.normalize(self.rows()[0], dim=-1)
        return unit @ unit[self.token]

    def still(self) -> bytes:
        """Return a picture of the picked map beside all maps."""
        rows, columns = self._grid_size
        unit = F.normalize(self.rows()[0], dim=-1)
        maps = (unit[1:] @ unit[1:].T).reshape(rows, columns, rows, columns)
        mosaic = maps.permute(0, 2, 1, 3).reshape(rows * rows, columns * columns)
        low = float(maps.min()) if self.scale == "own" else -1.0
        with figures.drawing():
            figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.2))
            shown = self.similarity()[1:].reshape(rows, columns)
            left.imshow(shown.numpy(), vmin=low, vmax=1)
            if self.token:
                row, column = divmod(self.token - 1, columns)
                left.plot(column, row, marker="o", color=figures.CLASS, markersize=6)
            drawn = right.imshow(mosaic.numpy(), vmin=low, vmax=1)
            left.set_title(f"row {self.token}, {self.table}")
            for ax in (left, right):
                ax.axis("off")
            figure.colorbar(drawn, ax=[left, right], fraction=0.03, ticks=[low, (low + 1) / 2, 1])
        return png(figure, dpi=100)
