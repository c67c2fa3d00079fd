"""Pipeline: the steps of the input module, with the tensors between them."""

from typing import Any

import torch
import traitlets
from torch import Tensor

import dnnl.models.vit as vit
from dnnl import data, figures
from dnnl.explorers.base import (
    Choice,
    Explorer,
    Whole,
    bundle,
    check_image,
    half,
    png,
    rgb8,
    stylesheet,
)

ORDERS = ("class_first", "positions_first", "sliced", "dropout_first")
"""The module's order; the other order, with the class token's row inside it; the same with the
first ``N`` rows of the table, an error that raises nothing; and dropout before the positions."""

STEPS = 6


class Pipeline(Explorer):
    """Image, patches, tokens, class token, positions, dropout: step by step, with real values.

    Args:
        image: ``(3, 64, 64)`` in [0, 1]; the cat by default.
        step: how many steps are done, 0 (the image) to 5.
        order: one of ``ORDERS``.
        token: the picked row of the sequence; 0 is the class token.
        dropout: probability of the last step, as in training.
        seed: of the weights and of the dropout.

    Raises:
        ShapeError: if the image has another shape or dtype.
        traitlets.TraitError: for a value out of range, here and later.
    """

    _esm = bundle("pipeline.js")
    _css = stylesheet("pipeline")
    _heights = (1105, 640)

    _photo = traitlets.Bytes().tag(sync=True)
    _sizes = traitlets.Dict().tag(sync=True)
    _tokens = traitlets.Bytes().tag(sync=True)
    _class_token = traitlets.Bytes().tag(sync=True)
    _positions = traitlets.Bytes().tag(sync=True)
    _kept = traitlets.Bytes().tag(sync=True)
    step = Whole(4, 0, STEPS - 1)
    order = Choice(*ORDERS)
    token = Whole(6, 0, lambda self: self.positions.shape[1] - 1)

    def __init__(
        self,
        image: Tensor | None = None,
        *,
        dropout: float = 0.1,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        if (
            isinstance(dropout, bool)
            or not isinstance(dropout, (int, float))
            or not 0 <= dropout <= 1
        ):
            raise traitlets.TraitError(
                f"Expected dropout to be a number from 0 to 1, but got {dropout!r}."
            )
        # As the pixels travel: eight bits each.
        photo = check_image(data.photograph("cat", 64) if image is None else image, 64, 64)
        self.image = photo.mul(255).round() / 255
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            embed = vit.ViTEmbedding(64, 16, 3, 32, dropout)
            table = torch.randn_like(embed.pos_embed.pos_embed) / 2  # large enough to be seen
            token = torch.randn(1, 1, 32) / 2
            # In half precision the numbers weigh half, and what follows is computed from them.
            self.tokens: Tensor = _rounded(embed.patch_embed(data.standardize(self.image)[None]))
            self.class_token, self.positions = _rounded(token), _rounded(table)
            self.kept = embed.dropout(torch.ones_like(self.positions)) != 0
        self.dropout = dropout
        super().__init__(
            _photo=rgb8(self.image),
            _sizes={"H": 64, "W": 64, "P": 16, "D": 32, "N": 16, "p": dropout},
            _tokens=half(self.tokens),
            _class_token=half(self.class_token),
            _positions=half(self.positions),
            _kept=self.kept.byte().numpy().tobytes(),
            **kwargs,
        )

    def stages(self, order: str = "class_first") -> dict[str, Tensor]:
        """Return the tensors of all steps by name, in an order of ``ORDERS``."""
        x, c, table = self.tokens, self.class_token, self.positions
        out = {
            "image": self.image[None],
            "patches": vit.patchify(data.standardize(self.image)[None], 16),
            "tokens": x,
        }
        if order in ("positions_first", "sliced"):
            sliced = order == "sliced"
            x = x + (table[:, :-1] if sliced else table[:, 1:])
            out["positions"] = x
            c = c if sliced else c + table[:, :1]
            x = torch.cat([c, x], dim=1)
            out["class_token"] = x
            out["dropout"] = self._drop(x)
            return out
        x = torch.cat([c, x], dim=1)
        out["class_token"] = x
        if order == "dropout_first":
            out["dropout"] = self._drop(x)
            out["positions"] = out["dropout"] + table
        else:
            out["positions"] = x + table
            out["dropout"] = self._drop(out["positions"])
        return out

    def _drop(self, x: Tensor) -> Tensor:
        if self.dropout == 1:
            return torch.zeros_like(x)
        return x * self.kept / (1 - self.dropout)

    def still(self) -> bytes:
        """Return the tensors up to the step as a PNG."""
        shown = dict(list(self.stages(self.order).items())[: self.step + 1])
        named = {name.replace("_", " "): value[0] for name, value in shown.items()}
        return png(figures.pipeline(named), dpi=90)


def _rounded(x: Tensor) -> Tensor:
    return x.half().float()
