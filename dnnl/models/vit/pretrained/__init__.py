"""Models and tables that were trained elsewhere: read, prepared for, and kept."""

from dnnl.models.vit.pretrained.files import CheckpointError
from dnnl.models.vit.pretrained.load import PosEmbedding, extract_pos_embedding, load_pretrained
from dnnl.models.vit.pretrained.preprocess import Preprocess

__all__ = [
    "CheckpointError",
    "PosEmbedding",
    "Preprocess",
    "extract_pos_embedding",
    "load_pretrained",
]
