"""TokenGradient: what each image of a batch adds to the gradient of the one class token."""

import functools
from typing import Any

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
import traitlets
from torch import Tensor

from dnnl import data, figures
from dnnl.explorers.base import (
    Choice,
    Explorer,
    Setting,
    bundle,
    choice,
    half,
    png,
    rgb8,
    stylesheet,
)
from dnnl.models import vit

PHOTOGRAPHS = ("cat", "coffee", "rocket", "astronaut", "retina", "admiral")
SIDE, DIM = 32, 64


def build() -> tuple[vit.ViTForImageClassification, Tensor, Tensor]:
    """Return a small untrained classifier, the photographs as its input, and their labels.

    In float64, so that what is shown does not depend on the machine.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = vit.ViTForImageClassification(
            SIDE, 8, 3, len(PHOTOGRAPHS), DIM, num_heads=4, num_layers=2, hidden_dim=128
        ).double()
    images = torch.stack([data.photograph(name, SIDE) for name in PHOTOGRAPHS]).double()
    return model, data.standardize(images), torch.arange(len(PHOTOGRAPHS))


@functools.cache
def gradients() -> Tensor:
    """Return what each photograph adds to the token's gradient: ``(photographs, D)``.

    One backward pass finds them all: every image gets a copy of the token, and keeps its part.
    """
    model, images, labels = build()
    embedding = model.backbone.embedding
    patches = embedding.patch_embed(images)
    token = embedding.get_parameter("add_cls_token.cls_token").detach()
    copies = token.repeat(len(images), 1, 1).requires_grad_()
    sequence = embedding.pos_embed(torch.cat([copies, patches], dim=1))
    logits = model.head(model.backbone.encoder(sequence))
    loss = F.cross_entropy(logits, labels, reduction="sum")
    return torch.autograd.grad(loss, copies)[0].flatten(1)


@functools.cache
def plane() -> Tensor:
    """Return the plane ``(2, D)`` through the origin that keeps most of the gradients."""
    directions: Tensor = torch.linalg.svd(gradients(), full_matrices=False).Vh[:2]
    # The sign of a singular vector is anybody's choice: let its largest number be positive.
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))
    return directions * largest.sign()


@functools.cache
def _thumbnails() -> bytes:
    return b"".join(rgb8(data.photograph(name, SIDE)) for name in PHOTOGRAPHS)


class TokenGradient(Explorer):
    """Gradients of the images of a batch flow into one class token, and add up.

    Attributes:
        images: which photographs the batch has, at least one of ``"cat"``, ``"coffee"``,
            ``"rocket"``, ``"astronaut"``, ``"retina"``, ``"admiral"``.
        reduction: the loss of the batch is the ``"sum"`` or the ``"mean"`` of the images' losses.
        spread: the token is copied to the images by ``"expand"`` or by ``"repeat"``.
    """

    _esm = bundle("token_gradient.js")
    _css = stylesheet("token_gradient")
    _heights = (1275, 592)

    images = Setting(PHOTOGRAPHS[:4]).tag(sync=True)
    reduction = Choice("sum", "mean")
    spread = Choice("expand", "repeat")
    _names = traitlets.List(list(PHOTOGRAPHS)).tag(sync=True)
    _pixels = traitlets.Bytes().tag(sync=True)
    _gradients = traitlets.Bytes().tag(sync=True)
    _plane = traitlets.Bytes().tag(sync=True)

    @traitlets.default("_pixels")
    def _default_pixels(self) -> bytes:
        return _thumbnails()

    @traitlets.default("_gradients")
    def _default_gradients(self) -> bytes:
        return half(gradients())

    @traitlets.default("_plane")
    def _default_plane(self) -> bytes:
        return half(plane())

    @traitlets.validate("images")
    def _valid_images(self, proposal: Any) -> tuple[str, ...]:
        names = proposal["value"]
        if not isinstance(names, list | tuple) or not names:
            raise traitlets.TraitError(
                f"Expected images to be a list of at least one name, but got {names!r}."
            )
        for name in names:
            choice("every name in images", name, PHOTOGRAPHS)
        if len(set(names)) < len(names):
            raise traitlets.TraitError(f"Expected no name twice in images, but got {names!r}.")
        return tuple(name for name in PHOTOGRAPHS if name in names)

    def batch_gradient(self) -> Tensor:
        """Return the gradient ``(D,)`` that the token receives from the batch as it is set."""
        chosen = gradients()[[PHOTOGRAPHS.index(name) for name in self.images]]
        return chosen.sum(dim=0) if self.reduction == "sum" else chosen.mean(dim=0)

    def still(self) -> bytes:
        """Return a PNG of the strips: a photograph and its gradient, and below them the sum."""
        chosen = [PHOTOGRAPHS.index(name) for name in self.images]
        strips = [gradients()[i] for i in chosen] + [self.batch_gradient()]
        top = max(strip.abs().max().item() for strip in strips)
        figure, axes = plt.subplots(
            len(strips),
            2,
            figsize=(5.4, 0.52 * len(strips)),
            width_ratios=(1, 9),
            layout="constrained",
        )
        for (left, right), i, strip in zip(axes, [*chosen, -1], strips, strict=True):
            left.axis("off")
            right.axis("off")
            right.imshow(strip[None].numpy(), aspect="auto", cmap="PuOr_r", vmin=-top, vmax=top)
            if i >= 0:
                photograph = data.photograph(PHOTOGRAPHS[i], SIDE)
                left.imshow(photograph.permute(1, 2, 0).numpy())
            else:
                left.set(xlim=(0, 1), ylim=(0, 1))
                sign = "Σ" if self.reduction == "sum" else "Σ / B"
                left.text(0.5, 0.5, sign, ha="center", va="center", color=figures.CLASS, size=14)
        return png(figure)
