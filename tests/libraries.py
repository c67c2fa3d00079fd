"""Imports other ViT libraries, even where torchvision was compiled for another build of torch.

The tests (``peers.py``) and the benchmarks use it; it needs no test runner.
"""

import importlib
import importlib.util
import sys
import warnings
from types import ModuleType

import torch

_USE_TORCHVISION = ("timm", "torchvision", "transformers", "vit_pytorch")
_declared: list[torch.library.Library] = []  # declarations live as long as this list


def import_library(name: str) -> ModuleType:
    """Import a module of timm, transformers, torchvision or vit-pytorch; ImportError if absent."""
    if name.partition(".")[0] in _USE_TORCHVISION:
        _import_torchvision()
    return _import_silently(name)


def _import_silently(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated imports inside a library are not our concern
        return importlib.import_module(name)


def _import_torchvision() -> None:
    """Import torchvision, even where its compiled part belongs to another build of torch.

    Its import then fails at two operators that no library has declared. The models that serve as
    references are pure Python: declaring the two operators is enough.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        _import_silently("torchvision")
    except RuntimeError:
        for half_imported in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
            del sys.modules[half_imported]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
        _import_silently("torchvision")
