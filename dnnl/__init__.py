"""The package of the chapter: a Vision Transformer's input module, its figures, its data.

``dnnl.models.vit`` holds the model and imports torch alone; ``dnnl.figures``, ``dnnl.data`` and
``dnnl.exercises`` serve the pages of the book and are imported by name when they are needed.
"""

from typing import TYPE_CHECKING

from dnnl._device import device

if TYPE_CHECKING:
    from dnnl.chapter_model import ChapterModel

__all__ = ["__version__", "device", "load_chapter_model"]

__version__ = "0.1.0"


def load_chapter_model() -> "ChapterModel":
    """Return the chapter's trained model, in eval mode, on the CPU.

    See :class:`dnnl.chapter_model.ChapterModel`, and ``dnnl/assets/README.md`` for its data, recipe
    and measured results.

    Raises:
        ModuleNotFoundError: if a package of the extra ``dnnl[train]`` is absent.
    """
    from dnnl._extras import needs_extra

    with needs_extra("train", "dnnl.load_chapter_model()"):
        from dnnl.chapter_model import ASSET, ChapterModel

    return ChapterModel.load(ASSET)
