"""Options of every pytest run of the book; most of them make nbval strict.

This file is at the root so that ``pytest --nbval chapters/en/06_order.ipynb`` alone checks as much
as ``make test`` does. In addition to what nbval does,

- outputs pass through ``tests/sanitize.cfg``, and a cell may take two minutes;
- PNG figures are compared, which nbval skips;
- a code cell that was never executed fails, whereas nbval runs it without a comparison;
- without a CUDA device the kernel ``dnnl-gpu`` is reported as skipped, or fails if
  ``DNNL_REQUIRE_GPU=1``.
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parent
CELL_TIMEOUT = 120.0
GPU_KERNEL = "dnnl-gpu"

# Two drawings of one figure may differ by rounding (another processor, a GPU): at most one grey
# level of 255 on average, and 8 in any block of 16x16 pixels, which a changed digit of a label
# exceeds.
MEAN_LIMIT = 1.0
BLOCK_LIMIT = 8.0
BLOCK = 16


def pixels(png: str) -> np.ndarray:
    """Decode a base64 PNG to its RGBA pixels (height, width, 4)."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        return np.asarray(image.convert("RGBA"), dtype=np.float32)


def same_picture(a: str, b: str) -> bool:
    """Return whether two base64 PNGs have the same size and, up to rounding, the same pixels."""
    if str.__eq__(a, b):
        return True
    first, second = pixels(a), pixels(b)
    if first.shape != second.shape:
        return False
    difference = np.abs(first - second).mean(axis=2)
    height, width = difference.shape
    padded = np.pad(difference, ((0, -height % BLOCK), (0, -width % BLOCK)))
    blocks = padded.reshape(padded.shape[0] // BLOCK, BLOCK, -1, BLOCK).mean(axis=(1, 3))
    return bool(difference.mean() <= MEAN_LIMIT and blocks.max() <= BLOCK_LIMIT)


class Picture(str):
    """A base64 PNG that is equal to another one if :func:`same_picture` says so."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same_picture(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def make_strict(cell: Any) -> None:
    """Make an nbval cell compare its pictures, and fail if it was never executed."""
    file, sanitize, run = cell.parent, cell.sanitize, cell.runtest
    file.skip_compare = tuple(kind for kind in file.skip_compare if kind != "image/png")

    def sanitize_or_wrap(value: object) -> object:
        if isinstance(value, str) and value.startswith("iVBORw0KGgo"):  # a PNG's signature
            return Picture(value.strip())
        return sanitize(value)

    def run_and_fail() -> None:
        run()  # later cells may need it
        pytest.fail("this code cell was never executed: run `make execute`", pytrace=False)

    cell.sanitize = sanitize_or_wrap
    if cell.cell.execution_count is None:
        cell.runtest = run_and_fail


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if not getattr(option, "nbval", False):
        return
    os.environ["HF_HUB_OFFLINE"] = "1"  # the stored outputs were made without a network
    if option.nbval_sanitize_with is None:
        option.nbval_sanitize_with = str(ROOT / "tests" / "sanitize.cfg")
    option.nbval_cell_timeout = min(option.nbval_cell_timeout, CELL_TIMEOUT)
    required = os.environ.get("DNNL_REQUIRE_GPU") == "1"
    if option.nbval_kernel_name == GPU_KERNEL and required and not _has_cuda():
        raise pytest.UsageError("DNNL_REQUIRE_GPU=1, but torch sees no CUDA device")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "nbval", False):
        return
    from nbval.plugin import IPyNbCell

    no_gpu = config.option.nbval_kernel_name == GPU_KERNEL and not _has_cuda()
    for item in items:
        if not isinstance(item, IPyNbCell):
            continue
        if no_gpu:
            item.add_marker(
                pytest.mark.skip(reason="no CUDA device: the GPU kernel did NOT run this notebook")
            )
        make_strict(item)
