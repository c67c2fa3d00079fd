"""The input module, top to bottom: patches, class token, positions; from an image to a sequence."""

import math
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn

from dnnl.models.vit import checks, positions
from dnnl.models.vit.checks import Size, as_int, as_pair
from dnnl.models.vit.module import Module
from dnnl.models.vit.patches import patchify
from dnnl.models.vit.positions import DEFAULT_RESIZE, RESIZE_SETTINGS

torch.fx.wrap("patchify")  # a leaf of a symbolic trace, as the checks are

# ---- images to patch tokens ----------------------------------------------------------------------


class ViTLinearPatchEmbedding(Module):
    """Cut images into patches, and apply one linear layer to each.

    Args:
        image_size: ``(height, width)`` of the images, in pixels; an ``int`` is a square.
        patch_size: ``(height, width)`` of a patch, which must divide the image.
        in_channels: how many channels ``C`` the images have.
        embed_dim: the width ``D`` of a token.
        dynamic_image_size: accept any size that is a multiple of the patch size.

    Attributes:
        grid_size: the grid ``(rows, columns)`` of patches; ``num_patches`` is their product ``N``.
        proj: ``nn.Linear(C * P_h * P_w, D)``; its weight is a convolution's weight, flattened.

    Raises:
        ShapeError: if the patch does not divide the image, or a size or count is below 1.

    Source: arXiv:2010.11929, section 3.1.
    """

    proj: nn.Module

    def __init__(
        self,
        image_size: Size = 224,
        patch_size: Size = 16,
        in_channels: int = 3,
        embed_dim: int = 768,
        *,
        dynamic_image_size: bool = False,
    ) -> None:
        super().__init__()
        self.image_size = as_pair(image_size, "image_size")
        self.patch_size = as_pair(patch_size, "patch_size")
        self.in_channels = as_int(in_channels, "in_channels")
        self.embed_dim = as_int(embed_dim, "embed_dim")
        self.dynamic_image_size = dynamic_image_size
        self.grid_size = checks.grid_shape(self.image_size, self.patch_size)
        self.num_patches = math.prod(self.grid_size)
        self.proj = self._make_projection()

    def _make_projection(self) -> nn.Module:
        return nn.Linear(self.in_channels * math.prod(self.patch_size), self.embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into tokens ``(B, N, D)``, or raise ShapeError."""
        self._check(x)
        return self.proj(patchify(x, self.patch_size))

    def _check(self, x: Tensor) -> None:
        dtype, any_size = checks.input_dtype(self.proj), self.dynamic_image_size
        checks.check_images(x, self.in_channels, self.image_size, self.patch_size, dtype, any_size)

    def grid_of(self, x: Tensor) -> tuple[int, int]:
        """Return the grid ``(rows, columns)`` of the patches of images ``(B, C, H, W)``."""
        return checks.grid_shape((x.shape[2], x.shape[3]), self.patch_size)

    def extra_repr(self) -> str:
        """Name the sizes in the ``repr`` of the module."""
        return f"image_size={self.image_size}, patch_size={self.patch_size}, grid={self.grid_size}"


class ViTConvPatchEmbedding(ViTLinearPatchEmbedding):
    """Cut and project in one call: a convolution whose stride is its kernel.

    Arguments, attributes and errors are those of :class:`ViTLinearPatchEmbedding`, except that
    ``proj`` is ``nn.Conv2d(C, D, patch_size, stride=patch_size)``. With ``conv.proj.weight ==
    linear.proj.weight.reshape_as(conv.proj.weight)`` and equal biases both give the same tokens up
    to rounding.
    """

    def _make_projection(self) -> nn.Module:
        return nn.Conv2d(self.in_channels, self.embed_dim, self.patch_size, stride=self.patch_size)

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into tokens ``(B, N, D)``, or raise ShapeError."""
        self._check(x)
        return self.proj(x).flatten(2).transpose(1, 2)  # (B, D, rows, columns) -> (B, N, D)


def token_parameter(num_tokens: int, embed_dim: int) -> nn.Parameter:
    """Return a trainable ``(1, num_tokens, embed_dim)``, normal with standard deviation 0.02."""
    shape = (1, as_int(num_tokens, "num_tokens"), as_int(embed_dim, "embed_dim"))
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.02))


# ---- one token for the image ---------------------------------------------------------------------


class ViTAddClassToken(Module):
    """Put learnable tokens in front of a sequence: the class token, and registers if any.

    Args:
        embed_dim: the width ``D`` of a token.
        num_tokens: how many tokens to prepend; the first is the class token.

    Attributes:
        cls_token: parameter ``(1, num_tokens, D)``, one for all images; normal, deviation 0.02.

    Raises:
        ShapeError: if a count is below 1.

    Source: arXiv:2010.11929, equation 1; Devlin et al., BERT (arXiv:1810.04805), section 3.
    """

    decays = False

    def __init__(self, embed_dim: int, num_tokens: int = 1) -> None:
        super().__init__()
        self.cls_token = token_parameter(num_tokens, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Turn tokens ``(B, N, D)`` into ``(B, num_tokens + N, D)`` of the same dtype."""
        cls_token: Tensor = self.cls_token
        checks.check_tokens(x, cls_token.shape[2])
        tokens = cls_token.to(x.dtype).expand(x.shape[0], -1, -1)  # a view: nothing is copied
        return torch.cat([tokens, x], dim=1)


# ---- where each patch was ------------------------------------------------------------------------


class ViTPositionalEmbedding(Module):
    """Add a learnable table of positions to a sequence: row ``i`` to token ``i``.

    Args:
        embed_dim: the width ``D`` of a token.
        num_patches: how many patches ``N`` the grid has.
        use_cls_token: whether a class token stands in front (one more row).
        num_prefix_tokens: how many tokens stand in front; by default 1 with a class token, else 0.
        resize: how the table is resized to another grid: a key of :data:`.RESIZE_SETTINGS`.

    Attributes:
        pos_embed: parameter ``(1, num_prefix_tokens + N, D)``; normal, deviation 0.02.

    Raises:
        ShapeError: if a count is out of range.
        ValueError: if ``resize`` is unknown.

    Source: arXiv:2010.11929, equation 1; for the resize section 3.2.
    """

    decays = False

    def __init__(
        self,
        embed_dim: int,
        num_patches: int,
        use_cls_token: bool = True,
        num_prefix_tokens: int | None = None,
        *,
        resize: str = DEFAULT_RESIZE,
    ) -> None:
        super().__init__()
        prefix = int(use_cls_token) if num_prefix_tokens is None else num_prefix_tokens
        self.num_prefix_tokens = as_int(prefix, "num_prefix_tokens", minimum=0)
        self.use_cls_token = self.num_prefix_tokens > 0
        self.num_patches = as_int(num_patches, "num_patches")
        checks.check_choice(resize, RESIZE_SETTINGS, "resize")
        self.resize = resize
        self.pos_embed = token_parameter(self.num_prefix_tokens + self.num_patches, embed_dim)

    def forward(
        self, x: Tensor, old_grid_size: Size | None = None, new_grid_size: Size | None = None
    ) -> Tensor:
        """Add the table to tokens ``(B, num_prefix_tokens + N, D)``, whose dtype is kept.

        With both grids the table is first resized from the old one to the new one. That is done
        here, in the module that owns the table, so that sharding and offloading find it in use.
        """
        if (old_grid_size is None) != (new_grid_size is None):
            raise checks.ShapeError("Expected both old_grid_size and new_grid_size, or neither.")
        if old_grid_size is None or new_grid_size is None:
            table: Tensor = self.pos_embed
        else:
            table = self.interpolate(old_grid_size, new_grid_size)
        checks.check_tokens(x, table.shape[2])
        checks.check_length(x, table.shape[1])
        return x + table.to(x.dtype)

    def interpolate(self, old_grid_size: Size, new_grid_size: Size, **kwargs: Any) -> Tensor:
        """Return the table resized to another grid; the module itself keeps its own.

        Arguments, keywords and errors are those of :func:`interpolate_pos_embedding`; keywords
        that are not given are those of ``resize``.
        """
        settings = RESIZE_SETTINGS[self.resize]
        kwargs = {"num_prefix_tokens": self.num_prefix_tokens, **settings, **kwargs}
        return positions.interpolate_pos_embedding(
            self.pos_embed, old_grid_size, new_grid_size, **kwargs
        )


# ---- the input module ----------------------------------------------------------------------------


class ViTEmbedding(Module):
    """The input module: patches, class token, positions, dropout; in this order.

    Args:
        image_size, patch_size, in_channels, embed_dim: as for :class:`ViTConvPatchEmbedding`.
        dropout: probability of the dropout after the sum.
        num_prefix_tokens: tokens before the patches: 1 is the class token; 0 leaves it out; more
            add a distillation token or registers.
        dynamic_image_size: accept every image that the patch divides, and resize the table of
            positions to its grid.
        resize: how to resize it, as for :class:`ViTPositionalEmbedding`.

    Attributes:
        patch_embed: :class:`ViTConvPatchEmbedding`.
        add_cls_token: :class:`ViTAddClassToken`, or ``nn.Identity`` without prefix tokens.
        pos_embed: :class:`ViTPositionalEmbedding`.
        dropout: ``nn.Dropout``.

    Raises:
        ShapeError: for sizes and counts that do not fit, here and in ``forward``.

    Source: arXiv:2010.11929, equation 1.
    """

    def __init__(
        self,
        image_size: Size = 224,
        patch_size: Size = 16,
        in_channels: int = 3,
        embed_dim: int = 768,
        dropout: float = 0.0,
        *,
        num_prefix_tokens: int = 1,
        dynamic_image_size: bool = False,
        resize: str = DEFAULT_RESIZE,
    ) -> None:
        super().__init__()
        self.patch_embed = ViTConvPatchEmbedding(
            image_size, patch_size, in_channels, embed_dim, dynamic_image_size=dynamic_image_size
        )
        prefix = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=0)
        self.add_cls_token = ViTAddClassToken(embed_dim, prefix) if prefix else nn.Identity()
        self.pos_embed = ViTPositionalEmbedding(
            embed_dim, self.patch_embed.num_patches, num_prefix_tokens=prefix, resize=resize
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into the sequence ``(B, num_prefix_tokens + N, D)``."""
        patches = self.patch_embed(x)  # (B, N, D)
        tokens = self.add_cls_token(patches)  # (B, num_prefix_tokens + N, D)
        if self.dynamic_image_size:
            grid_size = self.patch_embed.grid_of(x)
            tokens = self.pos_embed(tokens, self.patch_embed.grid_size, grid_size)
        else:
            tokens = self.pos_embed(tokens)
        return self.dropout(tokens)

    @property
    def dynamic_image_size(self) -> bool:
        """Whether images of every size that the patch divides are accepted."""
        return getattr(self.patch_embed, "dynamic_image_size", False)  # False for another stem

    @dynamic_image_size.setter
    def dynamic_image_size(self, value: bool) -> None:
        self.patch_embed.dynamic_image_size = value

    def interpolate_pos_embedding(
        self, old_grid_size: Size, new_grid_size: Size, **kwargs: Any
    ) -> Tensor:
        """Return the table of positions resized to another grid; the module keeps its own.

        Arguments, keywords and errors are those of :meth:`ViTPositionalEmbedding.interpolate`.
        """
        return self.pos_embed.interpolate(old_grid_size, new_grid_size, **kwargs)

    def table_for(self, grid_size: Size) -> Tensor:
        """Return the table of positions, resized to ``grid_size``: a new tensor."""
        return self.interpolate_pos_embedding(self.patch_embed.grid_size, grid_size)
