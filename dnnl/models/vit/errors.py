"""The errors of the model, and the few checks that raise them."""

import operator
import warnings
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

Size: TypeAlias = int | tuple[int, int]
"""A height and a width; an ``int`` stands for a square."""


class ShapeError(ValueError, AssertionError):
    """Input that does not fit: the message names what was expected and what came.

    It is a ``ValueError``; and an ``AssertionError`` too, which the first listings of the chapter
    raised, so that code written for them still catches it.
    """


class DTypeError(ShapeError, TypeError):
    """Input of the wrong type or dtype."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that is no model of ours: nothing was loaded."""


def count(value: Any, name: str, *, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``, else raise ShapeError."""
    if type(value) is int and value >= least:  # nearly always
        return value
    if isinstance(value, torch.SymInt):  # a size that torch.export keeps symbolic
        return value  # type: ignore[return-value]
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise DTypeError(f"Expected a whole number as {name}, but got {value!r}.") from None
    if number < least:
        raise ShapeError(f"Expected {name} of at least {least}, but got {number}.")
    return number


def pair(size: Any, name: str) -> tuple[int, int]:
    """Return ``(height, width)`` of a size; an ``int`` means a square."""
    if isinstance(size, (tuple, list)):
        if len(size) != 2:
            raise ShapeError(f"Expected {name} as (height, width), but got {tuple(size)}.")
        height, width = size
    else:
        height = width = size
    return count(height, f"a height in {name}"), count(width, f"a width in {name}")


def divide(size: tuple[int, int], patch: tuple[int, int], name: str) -> tuple[int, int]:
    """Return the grid of patches that tile ``size``, or raise ShapeError if none does."""
    if min(size) < 1:
        raise ShapeError(f"Expected {name} of at least one patch, but got {times(size)}.")
    if size[0] % patch[0] or size[1] % patch[1]:
        raise ShapeError(
            f"Expected {name} divisible by the patch size {times(patch)}, but got {times(size)} "
            "(height × width): crop, pad or resize first."
        )
    return size[0] // patch[0], size[1] // patch[1]


def times(size: tuple[int, int]) -> str:
    """Write a size for a message: ``14×14``."""
    return f"{size[0]}×{size[1]}"


def check_dims(x: Any, dims: str, name: str) -> None:
    """Raise unless ``x`` is a tensor with as many dimensions as ``dims``, like ``"(B, N, D)"``."""
    if not isinstance(x, Tensor):
        raise DTypeError(f"Expected {name} as a torch.Tensor {dims}, but got {type(x).__name__}.")
    if x.dim() != dims.count(",") + 1:
        raise ShapeError(f"Expected {name} of shape {dims}, but got {tuple(x.shape)}.")


def sizes(x: Tensor) -> tuple[int, ...]:
    """Return the sizes of ``x`` as numbers: a jit trace makes tensors of them.

    A trace is of one size anyway, but for the batch: take that from ``x.shape``.
    """
    if not tracing():
        return tuple(x.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        return tuple(int(n) for n in x.shape)


def check_tokens(x: Any, embed_dim: int, reader: nn.Module | None = None) -> None:
    """Raise unless ``x`` is a floating-point sequence ``(B, N, embed_dim)`` for the ``reader``."""
    check_dims(x, "(B, N, D)", "tokens")
    check_floating(x, "tokens")
    if sizes(x)[-1] != embed_dim:
        raise ShapeError(f"Expected tokens of width {embed_dim}, but got {sizes(x)[-1]}.")
    if reader is not None:
        _check_dtype(x, reader, "tokens")


def check_floating(x: Tensor, name: str) -> None:
    """Raise unless ``x`` holds real floating-point numbers."""
    if not x.is_floating_point():
        raise DTypeError(f"Expected floating-point {name}, but got {x.dtype}.")


def check_image(x: Any, channels: int, reader: nn.Module) -> None:
    """Raise unless ``x`` is a batch of images that the projection ``reader`` can read."""
    check_dims(x, "(B, C, H, W)", "images")
    if (got := sizes(x)[1]) != channels:
        raise ShapeError(f"Expected images with {channels} channels, but got {got}.")
    if not x.is_floating_point():
        raise DTypeError(
            f"Expected floating-point images, but got {x.dtype}: scale the pixels first, "
            "as in x.float() / 255."
        )
    _check_dtype(x, reader, "images")


def _check_dtype(x: Tensor, reader: nn.Module, name: str) -> None:
    """Raise unless the layer that reads ``x`` holds the same dtype, or autocast will see to it."""
    if "parametrizations" in reader._modules:  # reading the weight would compute it once more
        weight = next(reader.parameters(), None)
    else:
        weight = getattr(reader, "weight", None)
    if not isinstance(weight, Tensor) or x.dtype == weight.dtype:  # quantised layers: any dtype
        return
    if torch.float64 in (x.dtype, weight.dtype) or not _autocasts(x.device.type):
        raise DTypeError(
            f"Expected {name} of dtype {weight.dtype}, the dtype of the layer that reads them, "
            f"but got {x.dtype}."
        )


def tracing() -> bool:
    """Tell whether ``torch.jit.trace`` records."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _autocasts(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
