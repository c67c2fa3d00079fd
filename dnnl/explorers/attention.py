"""ClassAttention: what the class token looks at, and whether its verdict depends on that."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import dnnl
import dnnl.models.vit as vit
from dnnl import figures
from dnnl.chapter_model import ChapterModel
from dnnl.explorers.base import Choice, Whole, bundle, png, stylesheet
from dnnl.explorers.live import LiveExplorer

HIDE = ("nothing", "most", "least")


class ClassAttention(LiveExplorer):
    """The attention of the class token, head by head, and the name that its output gives.

    Args:
        model, crops: as for :class:`dnnl.explorers.live.LiveExplorer`.

    Attributes:
        photograph, own: as for :class:`dnnl.explorers.live.LiveExplorer`.
        layer: which layer's attention is shown, from 0.
        head: which head's, from 0; None: the mean over the heads.
        patch: the picked patch, row by row.
        hide: ``"nothing"``, or hide the patches with the ``"most"`` or the ``"least"`` attention in
            the shown map before the model names the photograph.
        count: how many it hides.
    """

    _esm = bundle("attention.js")
    _css = stylesheet("live", "attention")
    _heights = (1300, 860)

    layer = Whole(0, 0, lambda self: self._index["config"]["num_layers"] - 1)
    head = Whole(None, 0, lambda self: self._index["config"]["num_heads"] - 1, allow_none=True)
    patch = Whole(0, 0, lambda self: self.num_patches - 1)
    hide = Choice(*HIDE)
    count = Whole(1, 1, lambda self: self.num_patches - 1)

    def __init__(
        self,
        model: ChapterModel | None = None,
        crops: Mapping[str, Tensor] | None = None,
        **traits: Any,
    ) -> None:
        if model is None and crops is None:  # a map in which one sees what is looked at
            traits = {"photograph": "temple", "layer": 1, "head": 0, "patch": 174, **traits}
        model = dnnl.load_chapter_model() if model is None else model
        patches, layers = model.embedding.patch_embed.num_patches, model.config["num_layers"]
        if patches < 2 or not layers:
            raise ValueError(
                "Expected a model with at least two patches and one layer, "
                f"but got {patches} and {layers}."
            )
        super().__init__(model, crops, **{"count": 3 * patches // 4, **traits})

    def attention(self) -> Tensor:
        """Return the class token's attention, ``(layers, heads, 1 + N)``; row by row it sums to 1.

        The image is whole, whatever :attr:`hide` says.
        """
        with torch.no_grad():
            tokens = self.model.sequence(self.image())
            weights = vit.attention_maps(self.model.encoder, tokens)
        return torch.stack([w[0, :, 0] for w in weights])

    def mask(self) -> Tensor:
        """Return which patches are hidden before the photograph is named, ``(1, N)``."""
        mask = torch.zeros(1, self.num_patches, dtype=torch.bool)
        if self.hide != "nothing":
            heads = self.attention()[self.layer, :, 1:]
            shown = heads.mean(dim=0) if self.head is None else heads[self.head]
            order = shown.argsort(descending=self.hide == "most", stable=True)
            mask[0, order[: self.count]] = True
        return mask

    def still(self) -> bytes:
        """Return a picture of the photograph and of the maps of the shown layer."""
        with torch.no_grad():
            tokens = self.model.sequence(self.image())
            weights = vit.attention_maps(self.model.encoder, tokens)
        figure = figures.attention_maps(
            weights[self.layer][0], self._grid_size, image=self.image()[0]
        )
        return png(figure)
