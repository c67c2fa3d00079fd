"""The errors of the model, and the checks of its input that raise them.

Call the checks of a ``forward`` through this module, ``checks.check_images(…)``: during a symbolic
trace ``torch.fx`` replaces them here by leaves, so that the traced graph checks its input too.
"""

import operator
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
import torch.fx
from torch import Tensor, nn

Size: TypeAlias = int | tuple[int, int]
"""A height and a width; an ``int`` stands for a square."""

_LARGEST = 2**31 - 1


class ShapeError(ValueError, AssertionError):
    """Input whose shape or size does not fit; the message gives the expected and the actual value.

    It is a ``ValueError``, and an ``AssertionError`` too, because the first listings of the chapter
    raised one and code written for them still catches it.
    """


class DTypeError(ShapeError, TypeError):
    """Input of the wrong type or dtype."""


def as_int(value: Any, name: str, *, minimum: int = 1) -> int:
    """Return ``value`` as an ``int`` of at least ``minimum``, or raise ShapeError."""
    if isinstance(value, torch.SymInt):  # a size that torch.export or torch.compile keeps symbolic
        return value  # type: ignore[return-value]
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise DTypeError(f"Expected an integer as {name}, but got {value!r}.") from None
    if number < minimum:
        raise ShapeError(f"Expected {name} of at least {minimum}, but got {number}.")
    if number > _LARGEST:
        raise ShapeError(f"Expected {name} of at most {_LARGEST}, but got {number}.")
    return number


def check_choice(value: Any, choices: Iterable[str], name: str) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    names = tuple(choices)
    if value not in names:  # in a tuple, because a value may not be hashable
        raise ValueError(f"Expected {name} to be one of {', '.join(names)}, but got {value!r}.")


def as_pair(size: Any, name: str) -> tuple[int, int]:
    """Return a size as ``(height, width)``; an ``int`` means a square."""
    if isinstance(size, (tuple, list)):
        if len(size) != 2:
            raise ShapeError(f"Expected {name} as (height, width), but got {tuple(size)}.")
        height, width = size
    else:
        height = width = size
    return as_int(height, f"a height in {name}"), as_int(width, f"a width in {name}")


def format_size(size: tuple[int, int]) -> str:
    """Write a size for a message: ``14×14``."""
    return f"{size[0]}×{size[1]}"


def grid_shape(
    size: tuple[int, int], patch: tuple[int, int], name: str = "an image size"
) -> tuple[int, int]:
    """Return the grid ``(rows, columns)`` of the patches that tile ``size``, or raise ShapeError.

    ``name`` is what the message calls ``size``.
    """
    if min(size) < 1:
        raise ShapeError(f"Expected {name} of at least one patch, but got {format_size(size)}.")
    if size[0] % patch[0] or size[1] % patch[1]:
        raise ShapeError(
            f"Expected {name} divisible by the patch size {format_size(patch)}, "
            f"but got {format_size(size)} (height × width): crop, pad or resize first."
        )
    return size[0] // patch[0], size[1] // patch[1]


def check_dims(x: Any, dims: str, name: str) -> None:
    """Raise unless ``x`` is a tensor with as many dimensions as ``dims``, like ``"(B, N, D)"``."""
    if not isinstance(x, Tensor):
        raise DTypeError(f"Expected {name} as a torch.Tensor {dims}, but got {type(x).__name__}.")
    if x.dim() != dims.count(",") + 1:
        raise ShapeError(f"Expected {name} of shape {dims}, but got {tuple(x.shape)}.")


def check_floating(x: Tensor, name: str) -> None:
    """Raise unless ``x`` holds real floating-point numbers."""
    if not x.is_floating_point():
        raise DTypeError(f"Expected floating-point {name}, but got {x.dtype}.")


def check_images(
    x: Any,
    channels: int,
    image_size: tuple[int, int],
    patch_size: tuple[int, int],
    dtype: torch.dtype | None,
    any_size: bool = False,
) -> None:
    """Raise unless ``x`` is a floating-point batch ``(B, channels, *image_size)`` of this dtype.

    With ``any_size`` the images may have any size that the patch divides.
    """
    check_dims(x, "(B, C, H, W)", "images")
    if x.shape[1] != channels:
        raise ShapeError(f"Expected images with {channels} channels, but got {x.shape[1]}.")
    if not x.is_floating_point():
        raise DTypeError(
            f"Expected floating-point images, but got {x.dtype}: scale the pixels first, "
            "as in x.float() / 255."
        )
    _check_dtype(x, dtype, "images")
    size = (x.shape[2], x.shape[3])
    if any_size or size != image_size:
        grid_shape(size, patch_size)
    if not any_size and size != image_size:
        raise ShapeError(
            f"Expected images of size {format_size(image_size)}, but got {format_size(size)} "
            "(height × width): the table of positions belongs to one grid."
        )


def check_tokens(x: Any, embed_dim: int, dtype: torch.dtype | None = None) -> None:
    """Raise unless ``x`` is a floating-point sequence ``(B, T, embed_dim)`` of this dtype."""
    check_dims(x, "(B, N, D)", "tokens")
    check_floating(x, "tokens")
    if x.shape[2] != embed_dim:
        raise ShapeError(f"Expected tokens of width {embed_dim}, but got {x.shape[2]}.")
    _check_dtype(x, dtype, "tokens")


def check_length(x: Tensor, expected: int, *, at_least: bool = False) -> None:
    """Raise unless the sequence ``x`` has exactly (or ``at_least``) ``expected`` tokens."""
    got = x.shape[1]
    if at_least and got < expected:
        raise ShapeError(f"Expected a sequence of at least {expected} tokens, but got {got}.")
    if not at_least and got != expected:
        raise ShapeError(f"Expected sequence length {expected}, but got {got}.")


def input_dtype(layer: nn.Module) -> torch.dtype | None:
    """Return the only dtype that a layer accepts, or None if its type does not determine it.

    It is known for plain linear and convolution layers. Quantised, sharded or parametrised layers
    are of other classes, and convert their input in their own way.
    """
    if type(layer) not in (nn.Linear, nn.Conv2d):
        return None
    dtype = layer.weight.dtype
    return dtype if isinstance(dtype, torch.dtype) else None  # a Proxy during a symbolic trace


def _check_dtype(x: Tensor, dtype: torch.dtype | None, name: str) -> None:
    """Raise unless ``x`` has ``dtype``, or autocast is going to convert it."""
    if dtype is None or x.dtype == dtype:
        return
    if torch.float64 in (x.dtype, dtype) or not _autocasts(x.device.type):
        raise DTypeError(
            f"Expected {name} of dtype {dtype}, the dtype of the layer that reads them, "
            f"but got {x.dtype}."
        )


def _autocasts(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


for _leaf in ("check_images", "check_tokens", "check_length", "grid_shape"):
    torch.fx.wrap(_leaf)
