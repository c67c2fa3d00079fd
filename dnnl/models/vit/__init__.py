"""The Vision Transformer of the chapter, and above all its input module.

Images are ``(B, C, H, W)``, tokens ``(B, N, D)``, sizes and grids ``(height, width)``, patches
row-major; an ``int`` size means a square. Bad input raises :class:`ShapeError`.

Source: Dosovitskiy et al., *An Image is Worth 16x16 Words*, ICLR 2021 (arXiv:2010.11929).
"""

from dnnl.models.vit.checks import DTypeError, ShapeError
from dnnl.models.vit.config import ViTConfig
from dnnl.models.vit.embedding import (
    ViTAddClassToken,
    ViTConvPatchEmbedding,
    ViTEmbedding,
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
    attention_maps,
    hidden_states,
)
from dnnl.models.vit.fuse import FusedEmbedding, fuse
from dnnl.models.vit.hybrid import ViTHybridPatchEmbedding
from dnnl.models.vit.patches import patchify, unpatchify
from dnnl.models.vit.positions import (
    RESIZE_SETTINGS,
    interpolate_pos_embedding,
    sincos_pos_embedding,
    sincos_pos_embedding_1d,
)
from dnnl.models.vit.pretrained import (
    CheckpointError,
    PosEmbedding,
    Preprocess,
    extract_pos_embedding,
    load_pretrained,
)

__all__ = [
    "CheckpointError",
    "DTypeError",
    "FusedEmbedding",
    "PosEmbedding",
    "Preprocess",
    "RESIZE_SETTINGS",
    "ShapeError",
    "ViTAddClassToken",
    "ViTClassificationHead",
    "ViTConfig",
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
    "attention_maps",
    "extract_pos_embedding",
    "fuse",
    "hidden_states",
    "interpolate_pos_embedding",
    "load_pretrained",
    "patchify",
    "sincos_pos_embedding",
    "sincos_pos_embedding_1d",
    "unpatchify",
]
