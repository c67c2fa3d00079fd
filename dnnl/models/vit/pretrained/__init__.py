"""Models and tables that were trained elsewhere: read, prepared for, and kept."""

from dnnl.models.vit.pretrained.files import CheckpointError
from dnnl.models.vit.pretrained.load import PosEmbedding, extract_pos_embedding, load_pretrained

__all__ = ["CheckpointError", "PosEmbedding", "extract_pos_embedding", "load_pretrained"]
