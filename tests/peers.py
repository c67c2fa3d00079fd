"""The libraries that serve as references for a test, and are never required.

A test calls ``peer("timm.layers")``; where that library is absent, the test is skipped.
"""

from types import ModuleType

import pytest
from libraries import import_library


def peer(name: str) -> ModuleType:
    """Import a module of timm, transformers or torchvision; skip the test if it is absent."""
    try:
        return import_library(name)
    except ImportError as error:
        pytest.skip(f"the reference {name} is not installed: {error}")
