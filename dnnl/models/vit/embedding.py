"""The input module: patches, class token, positions; from an image to the sequence."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from dnnl.models.vit.errors import (
    ShapeError,
    Size,
    check_dims,
    check_image,
    check_tokens,
    count,
    divide,
    pair,
    sizes,
    times,
    tracing,
)
from dnnl.models.vit.module import Module, token_parameter, watched
from dnnl.models.vit.patches import cut, patchify
from dnnl.models.vit.positions import interpolate_pos_embedding

# On a CPU it is oneDNN that convolves: for these dtypes, and not in every build of torch.
_ONEDNN = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
_ONEDNN_DTYPES = (torch.float32, torch.bfloat16) if _ONEDNN else ()
_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # torch 2.4: no


class _PatchEmbedding(Module):
    """Sizes and checks that the patch embeddings have in common; children add ``proj``."""

    proj: nn.Module

    def __init__(
        self,
        image_size: Size,
        patch_size: Size,
        in_channels: int,
        embed_dim: int,
        dynamic_image_size: bool,
    ) -> None:
        super().__init__()
        self.image_size = pair(image_size, "image_size")
        self.patch_size = pair(patch_size, "patch_size")
        self.in_channels = count(in_channels, "in_channels")
        self.embed_dim = count(embed_dim, "embed_dim")
        self.dynamic_image_size = dynamic_image_size
        self.grid_size = divide(self.image_size, self.patch_size, "an image size")
        self.num_patches = self.grid_size[0] * self.grid_size[1]

    def grid_of(self, x: Tensor) -> tuple[int, int]:
        """Return the grid ``(rows, columns)`` of the patches of images ``(B, C, H, W)``."""
        _, _, height, width = sizes(x)
        return divide((height, width), self.patch_size, "an image size")

    def _check(self, x: Tensor) -> None:
        check_image(x, self.in_channels, self.proj)
        _, _, height, width = sizes(x)
        if (size := (height, width)) != self.image_size:
            self.grid_of(x)  # says so if the patch does not divide the image
            if not self.dynamic_image_size:
                raise ShapeError(
                    f"Expected images of size {times(self.image_size)}, but got {times(size)} "
                    "(height × width): the table of positions belongs to one grid."
                )

    def extra_repr(self) -> str:
        return f"image_size={self.image_size}, patch_size={self.patch_size}, grid={self.grid_size}"


class ViTLinearPatchEmbedding(_PatchEmbedding):
    """Embed patches by cutting them out and applying one linear layer to each.

    Args:
        image_size: ``(height, width)`` of the images, in pixels; an ``int`` is a square.
        patch_size: ``(height, width)`` of a patch, which must divide the image.
        in_channels: how many channels ``C`` the images have.
        embed_dim: the width ``D`` of a token.
        dynamic_image_size: accept every size that the patch divides, not ``image_size`` alone.

    Attributes:
        grid_size: the grid ``(rows, columns)`` of patches; ``num_patches`` is their product ``N``.
        proj: ``nn.Linear(C * P * P, D)``; its weight is a convolution's weight, flattened.

    Raises:
        ShapeError: if the patch does not divide the image, or a size or count is below 1.

    Source: arXiv:2010.11929, section 3.1.
    """

    def __init__(
        self,
        image_size: Size = 224,
        patch_size: Size = 16,
        in_channels: int = 3,
        embed_dim: int = 768,
        *,
        dynamic_image_size: bool = False,
    ) -> None:
        super().__init__(image_size, patch_size, in_channels, embed_dim, dynamic_image_size)
        self.proj = nn.Linear(in_channels * self.patch_size[0] * self.patch_size[1], embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into tokens ``(B, N, D)``; other input: ShapeError."""
        self._check(x)
        tokens: Tensor = self.proj(patchify(x, self.patch_size))
        return tokens


def _by_rows(proj: nn.Module, images: Tensor, patch: tuple[int, int]) -> bool:
    """Tell whether ``proj`` is the convolution that we made, and faster on patches cut out before.

    Then every patch is one pixel, with as many channels as the patch has numbers, and the kernel is
    one pixel with it: the same products, but patches and tokens lie in memory as rows
    (channels_last), which oneDNN multiplies fastest and which are joined to the class token as they
    are (`benchmarks`). What is recorded for other machines stays the convolution that it is.
    """
    if not images.is_cpu or images.dtype not in _ONEDNN_DTYPES or tracing() or _exporting():
        return False
    if type(proj) is not nn.Conv2d or "_conv_forward" in vars(proj) or watched(proj):
        return False
    weight, bias = proj.weight, proj.bias
    return (
        type(weight) is nn.Parameter
        and weight.is_cpu
        and (bias is None or (type(bias) is nn.Parameter and bias.is_cpu))
        and weight.shape[0] >= 128  # for fewer, cutting costs what multiplying saves
        and weight.shape[2:] == proj.kernel_size == proj.stride == patch
        and (proj.padding, proj.dilation, proj.groups) == ((0, 0), (1, 1), 1)
        and images.is_contiguous()
        and weight.is_contiguous()  # else somebody chose channels_last
    )


def _project(proj: nn.Conv2d, patches: Tensor) -> Tensor:
    """Turn patches ``(B, N, C * P * P)`` into tokens ``(B, N, D)``: pictures of 1×N pixels."""
    few = not torch.compiler.is_compiling() and patches.shape[0] * patches.shape[1] < 512
    if few:  # then oneDNN's own order of the weights costs more than it saves
        return F.linear(patches, proj.weight.flatten(1), proj.bias)
    pixels = patches.transpose(1, 2).unsqueeze(2)
    weight = proj.weight.flatten(1)[:, :, None, None]
    return F.conv2d(pixels, weight, proj.bias).squeeze(2).transpose(1, 2)


class ViTConvPatchEmbedding(_PatchEmbedding):
    """Embed patches by a convolution whose stride is its kernel: the same map in one call.

    Arguments, attributes and errors are those of :class:`ViTLinearPatchEmbedding`, but ``proj`` is
    ``nn.Conv2d``. With ``conv.proj.weight == linear.proj.weight.reshape_as(conv.proj.weight)`` and
    equal biases both give the same tokens up to rounding.
    """

    proj: nn.Conv2d

    def __init__(
        self,
        image_size: Size = 224,
        patch_size: Size = 16,
        in_channels: int = 3,
        embed_dim: int = 768,
        *,
        dynamic_image_size: bool = False,
    ) -> None:
        super().__init__(image_size, patch_size, in_channels, embed_dim, dynamic_image_size)
        self.proj = nn.Conv2d(
            in_channels, embed_dim, kernel_size=self.patch_size, stride=self.patch_size
        )

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into tokens ``(B, N, D)``; other input: ShapeError."""
        self._check(x)
        if _by_rows(self.proj, x, self.patch_size):
            return _project(self.proj, patchify(x, self.patch_size))
        tokens: Tensor = self.proj(x).flatten(2).transpose(1, 2)
        return tokens


class ViTHybridPatchEmbedding(Module):
    """Embed patches of a CNN's feature map rather than of the pixels: the hybrid ViT.

    Args:
        backbone: a module from images ``(B, C, H, W)`` to a feature map ``(B, F, h, w)``. It is run
            once here, on zeros and in eval mode, to learn ``F``, ``h`` and ``w``.
        image_size: ``(height, width)`` of the images, in pixels.
        patch_size: ``(height, width)`` of a patch, in cells of the feature map.
        in_channels: how many channels ``C`` the images have.
        embed_dim: the width ``D`` of a token.

    Attributes:
        feature_size: ``(h, w)``; ``grid_size`` and ``num_patches`` are those of the feature map.
        proj: ``nn.Conv2d(F, D, patch_size, stride=patch_size)``.

    Raises:
        ShapeError: if the backbone gives no ``(B, F, h, w)``, or the patch does not divide it.

    Source: arXiv:2010.11929, section 3.1, "Hybrid Architecture".
    """

    def __init__(
        self,
        backbone: nn.Module,
        image_size: Size = 224,
        patch_size: Size = 1,
        in_channels: int = 3,
        embed_dim: int = 768,
    ) -> None:
        super().__init__()
        self.image_size = pair(image_size, "image_size")
        self.patch_size = pair(patch_size, "patch_size")
        self.in_channels = count(in_channels, "in_channels")
        self.embed_dim = count(embed_dim, "embed_dim")
        channels, *self.feature_size = _probe(backbone, self.in_channels, self.image_size)
        rows, columns = self.feature_size
        self.grid_size = divide((rows, columns), self.patch_size, "a feature map")
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.backbone = backbone
        self.proj = nn.Conv2d(
            channels, embed_dim, kernel_size=self.patch_size, stride=self.patch_size
        )

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into tokens ``(B, N, D)``; other input: ShapeError."""
        check_image(x, self.in_channels, self.proj)
        size = (sizes(x)[2], sizes(x)[3])
        if size != self.image_size:
            raise ShapeError(
                f"Expected images of size {times(self.image_size)}, but got {times(size)}."
            )
        tokens: Tensor = self.proj(self.backbone(x)).flatten(2).transpose(1, 2)
        return tokens


def _probe(backbone: nn.Module, channels: int, image_size: tuple[int, int]) -> tuple[int, int, int]:
    """Return ``(F, h, w)`` of the feature map, leaving the backbone as it was."""
    like = next(backbone.parameters(), torch.zeros(()))
    modes = [(m, m.training) for m in backbone.modules()]
    backbone.eval()  # a batch norm must not learn from zeros
    try:
        with torch.no_grad():
            features = backbone(like.new_zeros(1, channels, *image_size))
    finally:
        for module, mode in modes:
            module.training = mode
    check_dims(features, "(B, F, h, w)", "a feature map from the backbone")
    return features.shape[1], features.shape[2], features.shape[3]


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

    def __init__(self, embed_dim: int, num_tokens: int = 1) -> None:
        super().__init__()
        self.cls_token = token_parameter(
            count(num_tokens, "num_tokens"), count(embed_dim, "embed_dim")
        )

    def forward(self, x: Tensor) -> Tensor:
        """Turn tokens ``(B, N, D)`` into ``(B, num_tokens + N, D)`` of the same dtype."""
        check_tokens(x, sizes(self.cls_token)[2])
        cls_token = self.cls_token.to(x.dtype).expand(x.shape[0], -1, -1)  # a view: no copies
        return torch.cat([cls_token, x], dim=1)


class ViTPositionalEmbedding(Module):
    """Add a learnable table of positions to a sequence: row ``i`` to token ``i``.

    Args:
        embed_dim: the width ``D`` of a token.
        num_patches: how many patches ``N`` the grid has.
        use_cls_token: whether a class token stands in front (one more row).
        num_prefix_tokens: how many tokens stand in front, if not 1 or 0 by ``use_cls_token``.

    Attributes:
        pos_embed: parameter ``(1, num_prefix_tokens + N, D)``; normal, deviation 0.02.

    Raises:
        ShapeError: if a count is out of range.

    Source: arXiv:2010.11929, equation 1.
    """

    def __init__(
        self,
        embed_dim: int,
        num_patches: int,
        use_cls_token: bool = True,
        num_prefix_tokens: int | None = None,
    ) -> None:
        super().__init__()
        prefix = int(use_cls_token) if num_prefix_tokens is None else num_prefix_tokens
        self.num_prefix_tokens = count(prefix, "num_prefix_tokens", least=0)
        self.use_cls_token = self.num_prefix_tokens > 0
        self.num_patches = count(num_patches, "num_patches")
        self.pos_embed = token_parameter(
            self.num_prefix_tokens + self.num_patches, count(embed_dim, "embed_dim")
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add the table to tokens ``(B, num_prefix_tokens + N, D)``; the dtype stays theirs."""
        check_tokens(x, sizes(self.pos_embed)[2])
        expected, got = sizes(self.pos_embed)[1], sizes(x)[1]
        if got != expected:
            raise ShapeError(f"Expected sequence length {expected}, but got {got}.")
        return x + self.pos_embed.to(x.dtype)

    def interpolate(self, old_grid_size: Size, new_grid_size: Size, **kwargs: Any) -> Tensor:
        """Return the table resized to another grid; the module itself keeps its own.

        Arguments, keywords and errors are those of :func:`interpolate_pos_embedding`.
        """
        kwargs.setdefault("num_prefix_tokens", self.num_prefix_tokens)
        return interpolate_pos_embedding(self.pos_embed, old_grid_size, new_grid_size, **kwargs)


class ViTEmbedding(Module):
    """The input module: patches, class token, positions, dropout; in this order.

    Args:
        image_size: ``(height, width)`` of the images, in pixels; an ``int`` is a square.
        patch_size: ``(height, width)`` of a patch, which must divide the image.
        in_channels: how many channels ``C`` the images have.
        embed_dim: the width ``D`` of a token.
        dropout: probability of the dropout after the sum.
        num_prefix_tokens: tokens before the patches: 1 is the class token; 0 leaves it out; more
            add a distillation token or registers.
        dynamic_image_size: accept every image that the patch divides, and resize the table of
            positions to its grid on the fly (bicubic). In eval mode a resized table is remembered
            for the last eight sizes, and made anew when the table has changed.

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
    ) -> None:
        super().__init__()
        self.patch_embed = ViTConvPatchEmbedding(
            image_size, patch_size, in_channels, embed_dim, dynamic_image_size=dynamic_image_size
        )
        prefix = count(num_prefix_tokens, "num_prefix_tokens", least=0)
        self.add_cls_token = ViTAddClassToken(embed_dim, prefix) if prefix else nn.Identity()
        self.pos_embed = ViTPositionalEmbedding(
            embed_dim, self.patch_embed.num_patches, num_prefix_tokens=prefix
        )
        self.dropout = nn.Dropout(dropout)
        self.dynamic_image_size = dynamic_image_size
        self._resized: dict[Any, tuple[nn.Parameter, Tensor, Tensor]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into the sequence ``(B, num_prefix_tokens + N, D)``."""
        if self._unseen(x):
            tokens = self._in_place(x)
        elif self.dynamic_image_size:
            tokens = self.add_cls_token(self.patch_embed(x))
            tokens = tokens + self._table(x).to(tokens.dtype)
        else:
            tokens = self.pos_embed(self.add_cls_token(self.patch_embed(x)))
        out: Tensor = self.dropout(tokens)
        return out

    def _table(self, x: Tensor) -> Tensor:
        return self.table_for(self.patch_embed.grid_of(x))

    def _in_place(self, x: Tensor) -> Tensor:
        """Project the patches to where their tokens will stay, and add the positions there.

        It saves two tensors as large as the result: a concatenation's, and a sum's.
        """
        embed, positions = self.patch_embed, self.pos_embed
        embed._check(x)
        table = self._table(x) if self.dynamic_image_size else positions.pos_embed
        prefix, patches = positions.num_prefix_tokens, cut(x, embed.patch_size)
        if (got := prefix + patches.shape[1] * patches.shape[2]) != table.shape[1]:
            raise ShapeError(f"Expected sequence length {table.shape[1]}, but got {got}.")
        # The rows before the patches stay unset: class tokens take the place of what comes of them.
        rows = x.new_empty(x.shape[0], table.shape[1], patches.shape[3:].numel())
        rows[:, prefix:].view(patches.shape).copy_(patches)
        out = _project(embed.proj, rows)
        if isinstance(self.add_cls_token, ViTAddClassToken):
            out[:, :prefix] = self.add_cls_token.cls_token
        return out.add_(table.to(out.dtype))

    def _unseen(self, x: Tensor) -> bool:
        """Tell whether nobody would see what is between the images and the sequence.

        Gradients, transforms, hooks, and modules or parameters that somebody put in place of ours
        would: then every step makes its own tensor.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or type(x) is not Tensor:
            return False
        embed, token, positions = modules = self.patch_embed, self.add_cls_token, self.pos_embed
        kinds = tuple(map(type, modules))
        if kinds not in _OURS or [k.forward for k in kinds] != _OURS[kinds] or watched(*modules):
            return False
        prefix, proj = positions.num_prefix_tokens, getattr(embed, "proj", None)
        if proj is None or not _by_rows(proj, x, embed.patch_size):
            return False
        width = proj.weight.shape[0]
        return (
            _is_table(positions.pos_embed, prefix + embed.num_patches, width)
            and (not prefix or _is_table(token.cls_token, prefix, width))
            and not torch._C._are_functorch_transforms_active()
            and forward_ad.unpack_dual(x).tangent is None  # type: ignore[no-untyped-call]
        )

    def interpolate_pos_embedding(
        self, old_grid_size: Size, new_grid_size: Size, **kwargs: Any
    ) -> Tensor:
        """Return the table of positions resized to another grid: a tensor, nothing is changed.

        Arguments, keywords and errors are those of the function :func:`interpolate_pos_embedding`.
        """
        return self.pos_embed.interpolate(old_grid_size, new_grid_size, **kwargs)

    def table_for(self, grid_size: Size) -> Tensor:
        """Return the table of positions for a grid: the own one, or one resized to ``grid_size``.

        In eval mode a resized table comes from memory, as long as that is still true.

        Raises:
            ShapeError: for a grid below 1×1.
        """
        grid = pair(grid_size, "grid_size")
        table = self.pos_embed.pos_embed
        resize = self.pos_embed.interpolate
        if grid == self.patch_embed.grid_size:
            return table
        plain = type(table) is nn.Parameter and table.device.type != "meta"
        if self.training or not plain or tracing() or torch.compiler.is_compiling():
            return resize(self.patch_embed.grid_size, grid)
        if torch._C._len_torch_dispatch_stack():  # a mode whose tensors may be fake: none is kept
            return resize(self.patch_embed.grid_size, grid)
        # With gradients on, what is remembered is a node of the graph. Resizing is linear, so that
        # the node holds no tensors and may be walked backwards any number of times.
        graph = torch.is_grad_enabled() and table.requires_grad
        key = (grid, graph, table.dtype, table.device)
        owner, copy, resized = self._resized.pop(key, (None, None, None))
        # Compared by value: a version counter would miss what is written through `.data`.
        if owner is not table or copy is None or resized is None or not torch.equal(copy, table):
            with torch.inference_mode(False), torch.set_grad_enabled(graph):
                copy, resized = table.detach().clone(), resize(self.patch_embed.grid_size, grid)
        self._resized[key] = (table, copy, resized)  # the latest stands last
        for oldest in list(self._resized)[:-8]:
            self._resized.pop(oldest, None)  # another thread may have been faster
        return resized

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles of the module leave out what can be made again."""
        return {**self.__dict__, "_resized": {}}


def _is_table(p: Any, rows: int, width: int) -> bool:
    return type(p) is nn.Parameter and p.is_cpu and p.shape == (1, rows, width)


# The classes whose sequence can be made in place, and what they do unless somebody patched them.
_OURS = {
    kinds: [kind.forward for kind in kinds]
    for token in (ViTAddClassToken, nn.Identity)
    if (kinds := (ViTConvPatchEmbedding, token, ViTPositionalEmbedding))
}
