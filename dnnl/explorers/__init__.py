"""The explorers: figures to touch, in a notebook as in the book's pages, where no kernel runs.

Each is an ipywidget, so its traits can be linked to other widgets::

    from dnnl import explorers

    explorers.PatchGrid(patch_size=16)
"""

from dnnl._extras import needs_extra

with needs_extra("book", "dnnl.explorers"):
    from dnnl.explorers.attention import ClassAttention
    from dnnl.explorers.erase import EraseAndReconstruct
    from dnnl.explorers.offset import Offset
    from dnnl.explorers.patch_grid import PatchGrid
    from dnnl.explorers.pipeline import Pipeline
    from dnnl.explorers.quiz import Quiz
    from dnnl.explorers.resize import Resize
    from dnnl.explorers.shape_flow import ShapeFlow
    from dnnl.explorers.similarity_map import SimilarityMap
    from dnnl.explorers.token_gradient import TokenGradient

__all__ = [
    "ClassAttention",
    "EraseAndReconstruct",
    "Offset",
    "PatchGrid",
    "Pipeline",
    "Quiz",
    "Resize",
    "ShapeFlow",
    "SimilarityMap",
    "TokenGradient",
]
