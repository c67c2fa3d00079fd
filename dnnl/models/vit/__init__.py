"""The Vision Transformer of the chapter, and above all its input module.

Images are ``(B, C, H, W)``, tokens ``(B, N, D)``, sizes and grids ``(height, width)``, patches
row-major; an ``int`` size means a square. Bad input raises :class:`ShapeError`.

Source: Dosovitskiy et al., *An Image is Worth 16x16 Words*, ICLR 2021 (arXiv:2010.11929).
"""

from dnnl.models.vit.embedding import (
    ViTAddClassToken,
    ViTConvPatchEmbedding,
    ViTEmbedding,
    ViTHybridPatchEmbedding,
    ViTLinearPatchEmbedding,
    ViTPositionalEmbedding,
)
from dnnl.models.vit.encoder import (
    ViTClassificationHead,
    ViTEncoder,
    ViTEncoderLayer,
    ViTForImageClassification,
    ViTMLP,
    ViTModel,
    ViTSelfAttention,
)
from dnnl.models.vit.errors import CheckpointError, DTypeError, ShapeError
from dnnl.models.vit.patches import patchify, unpatchify
from dnnl.models.vit.positions import (
    RESIZE_SETTINGS,
    interpolate_pos_embedding,
    sincos_pos_embedding,
    sincos_pos_embedding_1d,
)
from dnnl.models.vit.pretrained import PosEmbedding, extract_pos_embedding, load_pretrained

__all__ = [
    "CheckpointError",
    "DTypeError",
    "PosEmbedding",
    "RESIZE_SETTINGS",
    "ShapeError",
    "ViTAddClassToken",
    "ViTClassificationHead",
    "ViTConvPatchEmbedding",
    "ViTEmbedding",
    "ViTEncoder",
    "ViTEncoderLayer",
    "ViTForImageClassification",
    "ViTHybridPatchEmbedding",
    "ViTLinearPatchEmbedding",
    "ViTMLP",
    "ViTModel",
    "ViTPositionalEmbedding",
    "ViTSelfAttention",
    "extract_pos_embedding",
    "interpolate_pos_embedding",
    "load_pretrained",
    "patchify",
    "sincos_pos_embedding",
    "sincos_pos_embedding_1d",
    "unpatchify",
]
