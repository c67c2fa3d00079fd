"""EraseAndReconstruct: rub out patches of a photograph, and a model fills them in."""

from collections.abc import Mapping
from typing import Any

import torch
import traitlets
from torch import Tensor

import dnnl
from dnnl import figures
from dnnl.chapter_model import ChapterModel
from dnnl.explorers.base import Choice, Setting, Whole, bundle, png, stylesheet
from dnnl.explorers.live import LiveExplorer

POSITIONS = ("true", "off", "shuffled")


class EraseAndReconstruct(LiveExplorer):
    """Erase patches with the pointer or by keyboard; the model, in the page, fills them in.

    Args:
        model, crops: as for :class:`dnnl.explorers.live.LiveExplorer`.

    Attributes:
        photograph, own: as for :class:`dnnl.explorers.live.LiveExplorer`.
        erased: the indices of the hidden patches, in rising order; half of them at random at first.
        positions: ``"true"``: the model's own table; ``"off"``: zeros in its place; ``"shuffled"``:
            its rows of patches in another order (the class token keeps its row).
        brush: how many patches wide the eraser is, 1 to 5.
    """

    _esm = bundle("erase.js")
    _css = stylesheet("live", "erase")
    _heights = (1240, 680)

    erased = Setting([]).tag(sync=True)
    positions = Choice(*POSITIONS)
    brush = Whole(2, 1, 5)
    _order = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(
        self,
        model: ChapterModel | None = None,
        crops: Mapping[str, Tensor] | None = None,
        **traits: Any,
    ) -> None:
        model = dnnl.load_chapter_model() if model is None else model
        n = model.embedding.patch_embed.num_patches
        # A fixed order and fixed holes, so that the page is the same whenever it is made.
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(n, generator=generator).tolist()
        half = torch.randperm(n, generator=generator)[: n // 2].tolist()
        super().__init__(model, crops, _order=order, **{"erased": half, **traits})

    @traitlets.validate("erased")
    def _valid_erased(self, proposal: Any) -> list[int]:
        value, n = proposal["value"], self.num_patches
        whole = isinstance(value, (list, tuple)) and all(type(i) is int for i in value)
        if not whole or len(set(value)) != len(value) or not set(value) <= set(range(n)):
            raise traitlets.TraitError(
                f"Expected erased to be a list of different integers from 0 to {n - 1}, "
                f"but got {value!r}."
            )
        return sorted(value)

    def mask(self) -> Tensor:
        """Return which patches are hidden, ``(1, N)``."""
        mask = torch.zeros(1, self.num_patches, dtype=torch.bool)
        mask[0, self.erased] = True
        return mask

    def table(self) -> Tensor:
        """Return the table of positions that the model uses now, ``(1, 1 + N, D)``."""
        table = self.model.embedding.pos_embed.pos_embed.detach()
        if self.positions == "off":
            return torch.zeros_like(table)
        if self.positions == "shuffled":
            return table[:, [0, *(i + 1 for i in self._order)]]
        return table

    def still(self) -> bytes:
        """Return a picture of the photograph, of what the model sees, and of what it fills in."""
        image, mask = self.image(), self.mask()
        with torch.no_grad():
            own = self.model.standardize(image)
            filled = self.model.reconstruct(image, mask, self.table())
        hidden = mask[..., None]
        grey = torch.zeros_like(own)  # 0.5, the middle of the scale
        show = {
            "photograph": own,
            f"{len(self.erased)} of {self.num_patches} erased": torch.where(hidden, grey, own),
            f"filled in, positions {self.positions}": torch.where(hidden, filled, own),
        }
        pictures = {k: self.model.picture(p, self._grid_size)[0] for k, p in show.items()}
        return png(figures.images(pictures, columns=3, size=2.2))
