"""What every explorer is made of: a Python class with traits and one JavaScript module."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import matplotlib.pyplot as plt
import numpy as np
import torch
import traitlets
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from dnnl.models.vit import DTypeError, ShapeError
from dnnl.models.vit.checks import check_dims

FOLDER = Path(__file__).parent
STATIC, STYLES = FOLDER / "static", FOLDER / "css"
VIEW = "application/vnd.jupyter.widget-view+json"


def bundle(name: str) -> Path:
    """Return the path of a bundled script of the explorers, such as ``"offset.js"``.

    ``make bundle`` writes these files from the modules in ``js/``. anywidget reads them, and reads
    them again when they change if ``ANYWIDGET_HMR=1`` is set.
    """
    return STATIC / name


def stylesheet(*names: str) -> str:
    """Return the style sheet that all explorers share, followed by ``css/NAME.css`` of names."""
    files = [STYLES / f"{name}.css" for name in ("base", *names)]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


class Choice(traitlets.TraitType):  # type: ignore[type-arg]
    """A trait that is one of a few strings, by default the first."""

    def __init__(self, *values: str, **options: Any) -> None:
        self.values = values
        super().__init__(**{"default_value": values[0], **options})
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> str:
        """Return ``value`` if it is one of the strings; else raise a ``TraitError``."""
        return choice(self.name or "the value", value, self.values)


class Whole(traitlets.TraitType):  # type: ignore[type-arg]
    """A trait that is an integer from ``low`` to ``high``.

    Args:
        default: the value of a new explorer.
        low: the smallest value.
        high: the largest value, or a function that returns that of an explorer.
        step: it must divide the value.
    """

    def __init__(
        self,
        default: int | None,
        low: int,
        high: int | Callable[[Any], int],
        step: int = 1,
        **options: Any,
    ) -> None:
        self.low, self.high, self.step = low, high, step
        super().__init__(default_value=default, **options)
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> int:
        """Return ``value`` if it is such an integer; else raise a ``TraitError``."""
        high = self.high(obj) if callable(self.high) else self.high
        found = between(self.name or "the value", value, self.low, high)
        if found % self.step:
            raise traitlets.TraitError(
                f"Expected {self.name} to be a multiple of {self.step}, but got {value!r}."
            )
        return found


class Real(traitlets.TraitType):  # type: ignore[type-arg]
    """A trait that is a number from ``low`` to ``high``, stored as a float."""

    def __init__(self, default: float, low: float, high: float, **options: Any) -> None:
        self.low, self.high = low, high
        super().__init__(default_value=default, **options)
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> float:
        """Return ``value`` as a float if it is such a number; else raise a ``TraitError``."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not self.low <= value <= self.high:
            raise traitlets.TraitError(
                f"Expected {self.name} to be a number from {self.low:g} to {self.high:g}, but got "
                f"{value!r}."
            )
        return float(value)


class Setting(traitlets.TraitType):  # type: ignore[type-arg]
    """A trait whose validator says what is wrong, for None too (which ``Any`` lets through)."""


class Explorer(anywidget.AnyWidget):
    """A figure to touch. It needs no kernel: all it computes, it computes in the page.

    A subclass sets ``_esm = bundle("NAME.js")`` and ``_css = stylesheet("NAME")``, ``_heights``,
    its traits, and :meth:`still`.

    Attributes:
        lang: the language of the labels, ``"en"`` or ``"zh"``; empty: that of the page.
    """

    #: The height in pixels that the page keeps free, on a phone and on a wide screen, so that
    #: nothing moves when the explorer appears.
    _heights: ClassVar[tuple[int, int]] = (640, 480)

    lang = Choice("", "en", "zh")
    _room = traitlets.List(traitlets.Int()).tag(sync=True)

    @traitlets.default("_room")
    def _default_room(self) -> list[int]:
        return list(self._heights)

    def __repr__(self) -> str:
        """Return the same text for every state, since notebooks store it and compare it."""
        return f"{type(self).__name__}()"

    def still(self) -> bytes:
        """Return a PNG of the state, for print and for readers without JavaScript."""
        raise TypeError(f"{type(self).__name__} draws no still picture: give it a method still().")

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # (the front end takes what it can show: the widget if it has a kernel, else the picture)
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        data = {
            "text/plain": repr(self),
            "image/png": base64.b64encode(self.still()).decode(),
            VIEW: view,
        }
        # (Colab shows no third party's widget without the metadata, which name its manager)
        _, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return data, metadata


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``allowed``; else raise a ``TraitError`` that lists them."""
    if not isinstance(value, str) or value not in allowed:
        listed = ", ".join(repr(v) for v in allowed)
        raise traitlets.TraitError(f"Expected {name} to be one of {listed}, but got {value!r}.")
    return value


def between(name: str, value: Any, low: int, high: int) -> int:
    """Return the integer ``value`` if ``low <= value <= high``; else raise a ``TraitError``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise traitlets.TraitError(
            f"Expected {name} to be an integer from {low} to {high}, but got {value!r}."
        )
    return value


def half(values: Tensor) -> bytes:
    """Return a tensor as little-endian float16 bytes, row-major: ``halfToFloat`` reads them.

    Raises:
        ValueError: if a number is not finite, or too large for float16.
    """
    rounded = values.detach().cpu().float().half()
    if not bool(rounded.isfinite().all()):
        raise ValueError("Expected finite numbers of at most 65504, the largest of float16.")
    return rounded.numpy().astype("<f2").tobytes()


def rgb8(image: Tensor) -> bytes:
    """Return an image ``(3, H, W)`` in [0, 1] as ``H * W * 3`` bytes: ``rgb`` reads them."""
    pixels = image.detach().cpu().float().clamp(0, 1).mul(255).round().permute(1, 2, 0)
    return pixels.numpy().astype(np.uint8).tobytes()


def packed_image(image: Tensor, colors: int = 256) -> tuple[bytes, Tensor]:
    """Pack an image ``(3, H, W)`` in [0, 1] as a PNG with a palette.

    Returns:
        tuple[bytes, Tensor]: the file, which ``decode`` reads, and the image that is in it.
    """
    size = (image.shape[2], image.shape[1])
    shown = Image.frombytes("RGB", size, rgb8(image)).quantize(colors)
    packed = io.BytesIO()
    shown.save(packed, "PNG", optimize=True)
    pixels = torch.from_numpy(np.array(shown.convert("RGB"))).permute(2, 0, 1) / 255
    return packed.getvalue(), pixels


def check_image(image: Tensor, least: int = 8, most: int = 256) -> Tensor:
    """Return ``image`` if it is ``(3, H, W)``, of a size that a page can carry; else raise."""
    check_dims(image, "(3, H, W)", "an image")
    if image.shape[0] != 3:
        raise ShapeError(f"Expected an image (3, H, W), but got {tuple(image.shape)}.")
    if not image.is_floating_point():
        raise DTypeError(
            f"Expected an image of floats in [0, 1], but got {image.dtype}: scale it first, as in "
            "image.float() / 255."
        )
    if not all(least <= n <= most for n in image.shape[1:]):
        raise ShapeError(
            f"Expected an image with sides from {least} to {most}, but got "
            f"{image.shape[1]}×{image.shape[2]}."
        )
    return image


def png(figure: Figure, *, dpi: int = 110, colors: int = 128) -> bytes:
    """Return a figure as a small PNG (a palette of ``colors``), and close it."""
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, format="png", dpi=dpi, transparent=True)
    finally:
        plt.close(figure)
    with Image.open(drawn) as image:
        packed = io.BytesIO()
        image.convert("RGBA").quantize(colors, method=Image.Quantize.FASTOCTREE).save(
            packed, "PNG", optimize=True
        )
    return packed.getvalue()
