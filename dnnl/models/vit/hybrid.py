"""The patch embedding of the hybrid ViT: patches of a feature map instead of the image."""

import math

import torch
from torch import Tensor, nn

from dnnl.models.vit import checks
from dnnl.models.vit.checks import Size, as_int, as_pair, check_dims, grid_shape
from dnnl.models.vit.module import Module


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
        ShapeError: if the backbone does not return ``(B, F, h, w)``, or the patch does not divide
            the feature map.

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
        self.image_size = as_pair(image_size, "image_size")
        self.patch_size = as_pair(patch_size, "patch_size")
        self.in_channels = as_int(in_channels, "in_channels")
        self.embed_dim = as_int(embed_dim, "embed_dim")
        channels, rows, columns = _feature_shape(backbone, self.in_channels, self.image_size)
        self.feature_size = (rows, columns)
        self.grid_size = grid_shape(self.feature_size, self.patch_size, "a feature map")
        self.num_patches = math.prod(self.grid_size)
        self.backbone = backbone
        self.proj = nn.Conv2d(channels, self.embed_dim, self.patch_size, stride=self.patch_size)

    def forward(self, x: Tensor) -> Tensor:
        """Turn images ``(B, C, H, W)`` into tokens ``(B, N, D)``; other input: ShapeError."""
        dtype = _dtype_of(self.backbone)
        checks.check_images(x, self.in_channels, self.image_size, (1, 1), dtype)
        features = self.backbone(x).to(self.proj.weight.dtype)  # (B, F, h, w)
        return self.proj(features).flatten(2).transpose(1, 2)


def _dtype_of(backbone: nn.Module) -> torch.dtype | None:
    """Return the dtype of the images that a backbone reads, or None if it has no parameters."""
    for parameter in backbone.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return None


def _feature_shape(
    backbone: nn.Module, channels: int, image_size: tuple[int, int]
) -> tuple[int, int, int]:
    """Return ``(F, h, w)`` of the feature map, leaving the modes of the backbone as they were."""
    device = next((p.device for p in backbone.parameters()), None)
    x = torch.zeros(1, channels, *image_size, dtype=_dtype_of(backbone), device=device)
    modes = [(m, m.training) for m in backbone.modules()]
    backbone.eval()  # a batch norm must not learn from zeros
    try:
        with torch.no_grad():
            features = backbone(x)
    finally:
        for module, mode in modes:
            module.training = mode
    check_dims(features, "(B, F, h, w)", "a feature map from the backbone")
    return features.shape[1], features.shape[2], features.shape[3]
