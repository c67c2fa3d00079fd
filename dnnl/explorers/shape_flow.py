"""ShapeFlow: every shape of the input module, its parameters, and what does not fit."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from dnnl import figures
from dnnl.explorers.base import Explorer, Whole, bundle, png, stylesheet
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

    _esm = bundle("shape_flow.js")
    _css = stylesheet("shape_flow")
    _heights = (1260, 672)

    height = Whole(224, 16, 512)
    width = Whole(224, 16, 512)
    patch_size = Whole(16, 1, 32)
    in_channels = Whole(3, 1, 13)
    embed_dim = Whole(768, 8, 1280, step=8)
    num_prefix_tokens = Whole(1, 0, 8)

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
