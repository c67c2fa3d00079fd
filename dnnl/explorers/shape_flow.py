"""ShapeFlow: every shape of the input module, its parameters, and what does not fit."""

from typing import Any

import matplotlib.pyplot as plt
import traitlets
from matplotlib.patches import FancyBboxPatch

from dnnl import figures
from dnnl.explorers.base import Explorer, Setting, between, esm, png
from dnnl.models import vit
from dnnl.models.vit.checks import grid_shape


class ShapeFlow(Explorer):
    """Choose the sizes of an image and of the model; see every shape from image to encoder.

    Attributes:
        height: of the image in pixels, 16 to 512.
        width: likewise.
        patch_size: side of a patch in pixels, 1 to 32.
        in_channels: channels of the image, 1 to 13.
        embed_dim: width of a token, a multiple of 8 from 8 to 1280.
        num_prefix_tokens: tokens before the patches, 0 to 8.
    """

    _esm = esm("common", "shape_flow")
    _heights = (1260, 672)

    height = Setting(224).tag(sync=True)
    width = Setting(224).tag(sync=True)
    patch_size = Setting(16).tag(sync=True)
    in_channels = Setting(3).tag(sync=True)
    embed_dim = Setting(768).tag(sync=True)
    num_prefix_tokens = Setting(1).tag(sync=True)

    @traitlets.validate("height", "width")
    def _valid_side(self, proposal: Any) -> int:
        return between(proposal["trait"].name, proposal["value"], 16, 512)

    @traitlets.validate("patch_size")
    def _valid_patch_size(self, proposal: Any) -> int:
        return between("patch_size", proposal["value"], 1, 32)

    @traitlets.validate("in_channels")
    def _valid_in_channels(self, proposal: Any) -> int:
        return between("in_channels", proposal["value"], 1, 13)

    @traitlets.validate("embed_dim")
    def _valid_embed_dim(self, proposal: Any) -> int:
        value = between("embed_dim", proposal["value"], 8, 1280)
        if value % 8:
            raise traitlets.TraitError(
                f"Expected embed_dim to be a multiple of 8, but got {value!r}."
            )
        return value

    @traitlets.validate("num_prefix_tokens")
    def _valid_num_prefix_tokens(self, proposal: Any) -> int:
        return between("num_prefix_tokens", proposal["value"], 0, 8)

    def still(self) -> bytes:
        """Return a PNG: the shapes in a row, as far as the sizes let them go."""
        side, dim, prefix = self.patch_size, self.embed_dim, self.num_prefix_tokens
        size = (self.height, self.width)
        steps = [("", f"B, {self.in_channels}, {size[0]}, {size[1]}", figures.INK)]
        try:
            rows, columns = grid_shape(size, (side, side), "an image size")
        except vit.ShapeError:
            steps.append((f"P = {side}", "✗", figures.CLASS))
        else:
            n = rows * columns
            steps += [
                (f"P = {side}", f"B, {n}, {self.in_channels * side**2}", figures.PATCH),
                ("E", f"B, {n}, {dim}", figures.PATCH),
                (r"$x_{\mathrm{cls}}$", f"B, {prefix + n}, {dim}", figures.CLASS),
                (r"$+\,\mathbf{P}$", f"B, {prefix + n}, {dim}", figures.POSITION),
            ]
        figure, axes = plt.subplots(figsize=(7.6, 0.9), layout="constrained")
        for i, (how, shape, colour) in enumerate(steps):
            box = FancyBboxPatch((i - 0.36, -0.2), 0.72, 0.4, boxstyle="round,pad=0.04")
            box.set(facecolor="none", edgecolor=colour, linewidth=1.6)
            axes.add_patch(box)
            axes.text(i, 0, shape, ha="center", va="center", color=figures.INK, size=8.5)
            axes.text(i, 0.42, how, ha="center", va="center", color=colour, size=9)
            if i:
                axes.annotate(
                    "",
                    (i - 0.41, 0),
                    (i - 0.59, 0),
                    arrowprops={"arrowstyle": "->", "color": colour},
                )
        axes.set(xlim=(-0.5, 4.5), ylim=(-0.35, 0.6))
        axes.axis("off")
        return png(figure, colors=64)
