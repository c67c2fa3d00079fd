"""The libraries that serve as references: imported here alone, and never required.

A test asks ``peer("timm.layers")``; where that library is absent the test skips and says so.
"""

import importlib
import importlib.util
import sys
import warnings
from types import ModuleType

import pytest
import torch

_declared: list[torch.library.Library] = []  # declarations live as long as this list


def peer(name: str) -> ModuleType:
    """Import a module of timm, transformers or torchvision, or skip the test in the open."""
    if name.partition(".")[0] in ("timm", "torchvision", "transformers"):  # which import it
        _import_torchvision()
    try:
        return _import(name)
    except ImportError as error:
        pytest.skip(f"the reference {name} is not installed: {error}")


def _import(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how a peer imports what it needs is its own affair
        return importlib.import_module(name)


def _import_torchvision() -> None:
    """Import torchvision, even where its compiled part belongs to another build of torch.

    Its import then stops at two operators that nobody declared. The models that serve as
    references are pure Python: declaring the two is enough.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        _import("torchvision")
    except RuntimeError:
        for half_imported in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
            del sys.modules[half_imported]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
        _import("torchvision")
