"""From a photograph to what a pretrained model reads: the checkpoint's own preprocessing."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dnnl.models.vit.checks import DTypeError, ShapeError, Size, as_pair, check_choice, format_size
from dnnl.models.vit.positions import resample

_PIL_MODES = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # how transformers numbers them
_INTERPOLATIONS = tuple(_PIL_MODES.values())

# What the image processors of transformers do unless their file says otherwise.
_HALF = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
_SQUARE = {"size": {"height": 224, "width": 224}, **_HALF}
_CLIP: Mapping[str, Any] = {
    "size": {"shortest_edge": 224},
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "resample": 3,
    "image_mean": (0.48145466, 0.4578275, 0.40821073),
    "image_std": (0.26862954, 0.26130258, 0.27577711),
}
_PROCESSORS: Mapping[str, Mapping[str, Any]] = {
    "ViT": {**_SQUARE, "resample": 2},
    "DeiT": {
        "size": {"height": 256, "width": 256},
        "do_center_crop": True,
        "crop_size": {"height": 224, "width": 224},
        "resample": 3,
        **_HALF,
    },
    "Siglip": {**_SQUARE, "resample": 3},
    "CLIP": _CLIP,
    "Bit": _CLIP,
}


@dataclass(frozen=True)
class Preprocess:
    """What is done to a photograph before a model reads it: resize, crop in the middle, normalise.

    Calling it turns images ``(3, H, W)`` or ``(B, 3, H, W)``, in [0, 1] or uint8, into the model's
    input ``(B, 3, h, w)``. The libraries do the same on 8-bit images and round after each step: the
    results differ by at most two of 255 grey levels (four where Pillow squashes a photograph).

    Attributes:
        crop: ``(h, w)`` of the result.
        resize: ``(height, width)`` before the crop, or None to leave the size as it is.
        keep_ratio: scale both sides alike, so that the image covers ``resize``, rather than exactly
            to ``resize``.
        interpolation: ``"bicubic"``, ``"bilinear"`` or ``"nearest"``; the first two antialiased.
        mean, std: what is subtracted from each channel, and what it is then divided by.
        floor_crop: round the corner of the crop down (transformers) rather than to the nearest even
            number (torchvision, timm); it matters where an odd number of rows is cut away.

    Raises:
        ShapeError, ValueError: for invalid sizes or values.
    """

    crop: Size
    resize: Size | None = None
    keep_ratio: bool = True
    interpolation: str = "bicubic"
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.5, 0.5, 0.5)
    floor_crop: bool = False

    def __post_init__(self) -> None:
        """Bring sizes and values into one form, and refuse others."""
        object.__setattr__(self, "crop", as_pair(self.crop, "crop"))
        if self.resize is not None:
            object.__setattr__(self, "resize", as_pair(self.resize, "resize"))
        check_choice(self.interpolation, _INTERPOLATIONS, "interpolation")
        for name in ("mean", "std"):
            values = _three_numbers(getattr(self, name), name)
            if name == "std" and min(values) <= 0:
                raise ValueError(f"Expected a positive std, but got {values}.")
            object.__setattr__(self, name, values)

    def __call__(self, x: Tensor) -> Tensor:
        """Turn images ``(3, H, W)`` or ``(B, 3, H, W)`` into the model's input ``(B, 3, h, w)``.

        Raises:
            DTypeError: for something else than a tensor of uint8 or floating-point numbers.
            ShapeError: for another shape, or an image smaller than the crop.
        """
        dtype = x.dtype if isinstance(x, Tensor) and x.is_floating_point() else torch.float32
        x = _images_in_0_1(x)
        if self.resize is not None:
            x = _resize(x, self._size_after_resize(x), self.interpolation)
        x = _crop_middle(x, as_pair(self.crop, "crop"), self.floor_crop)
        mean, std = (x.new_tensor(values).reshape(3, 1, 1) for values in (self.mean, self.std))
        return ((x - mean) / std).to(dtype)

    def _size_after_resize(self, x: Tensor) -> tuple[int, int]:
        height, width = x.shape[-2:]
        size = as_pair(self.resize, "resize")
        if not self.keep_ratio:
            return size
        if size[0] != size[1]:  # timm's ResizeKeepRatio
            ratio = min(height / size[0], width / size[1])
            return round(height / ratio), round(width / ratio)
        longer = int(size[0] * max(height, width) / min(height, width))
        return (size[0], longer) if height <= width else (longer, size[0])

    def for_size(self, image_size: Size) -> "Preprocess":
        """Return the same for a model of another image size; the resize grows with the crop."""
        new, old = as_pair(image_size, "image_size"), as_pair(self.crop, "crop")
        if self.resize is None or new == old:
            return replace(self, crop=new)
        size = as_pair(self.resize, "resize")
        grown = (size[0] * new[0] // old[0], size[1] * new[1] // old[1])
        return replace(self, crop=new, resize=grown)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can store them."""
        return asdict(self)


def _three_numbers(values: Any, name: str) -> tuple[float, float, float]:
    if isinstance(values, (list, tuple)) and len(values) == 3:
        numbers = [v for v in values if isinstance(v, (int, float)) and abs(v) < 1e6]
        if len(numbers) == 3:
            return float(numbers[0]), float(numbers[1]), float(numbers[2])
    raise ValueError(f"Expected three numbers as {name}, but got {values!r}.")


def _images_in_0_1(x: Any) -> Tensor:
    """Return images as ``(B, 3, H, W)`` of floating-point numbers in [0, 1]."""
    if not isinstance(x, Tensor) or not (x.dtype == torch.uint8 or x.is_floating_point()):
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise DTypeError(
            f"Expected a tensor of images in [0, 1] or of dtype torch.uint8, but got {got}. "
            "(A PIL image: torch.from_numpy(np.array(image)).permute(2, 0, 1).)"
        )
    if x.dim() not in (3, 4) or x.shape[-3] != 3 or 0 in x.shape[-2:]:
        raise ShapeError(
            f"Expected images of shape (3, H, W) or (B, 3, H, W), but got {tuple(x.shape)}."
        )
    x = x if x.dim() == 4 else x[None]
    if x.dtype == torch.uint8:
        return x.float() / 255
    if x.numel() and not (x.min() >= -0.01 and x.max() <= 1.01):
        raise ShapeError(
            f"Expected images in [0, 1], but got values from {x.min():.3g} to {x.max():.3g}: "
            "divide by 255 first."
        )
    return x.float() if x.element_size() < 4 else x  # torch cannot resize halves on every device


def _resize(x: Tensor, size: tuple[int, int], interpolation: str) -> Tensor:
    if size == tuple(x.shape[-2:]):
        return x
    if interpolation == "nearest":
        return resample(x, size, "nearest-exact")  # Pillow's; torch's "nearest" is shifted
    # Columns first, then rows, and cut off where bicubic overshoots, as 8-bit images do.
    for step in ((x.shape[-2], size[1]), size):
        x = resample(x, step, interpolation, antialias=True).clamp(0, 1)
    return x


def _crop_middle(x: Tensor, size: tuple[int, int], floor: bool) -> Tensor:
    height, width = x.shape[-2:]
    if height < size[0] or width < size[1]:
        raise ShapeError(
            f"Expected images of at least {format_size(size)} after the resize, "
            f"but got {format_size((height, width))}."
        )
    middle = int if floor else round
    top, left = middle((height - size[0]) / 2), middle((width - size[1]) / 2)
    return x[..., top : top + size[0], left : left + size[1]]


# ---- out of a library's configuration ------------------------------------------------------------


def from_transformers(config: Mapping[str, Any]) -> Preprocess:
    """Return what a ``preprocessor_config.json`` of transformers says.

    Raises:
        ValueError: if it asks for something that is not supported here.
    """
    kind = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "ViT")
    family = re.sub(r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?$", "", kind)
    if family not in _PROCESSORS:
        raise ValueError(f"the processor {kind} is not known")
    config = {**_PROCESSORS[family], **config}
    if config.get("do_rescale", True) is False or config.get("do_normalize", True) is False:
        raise ValueError("do_rescale and do_normalize are expected to be true")
    if abs(config.get("rescale_factor", 1 / 255) - 1 / 255) > 1e-6:
        raise ValueError(f"rescale_factor {config['rescale_factor']} is not 1/255")
    for key in ("do_pad", "crop_pct"):
        if config.get(key):
            raise ValueError(f"{key} is not supported")
    mode = config["resample"]
    if mode not in _PIL_MODES:
        raise ValueError(f"resample {mode!r} is not nearest, bilinear or bicubic")
    size: Any = config["size"]
    keep_ratio, resize = False, None
    if config.get("do_resize", True):
        if isinstance(size, Mapping) and "shortest_edge" in size and "longest_edge" not in size:
            keep_ratio, resize = True, as_pair(size["shortest_edge"], "shortest_edge")
        elif isinstance(size, Mapping) and {"height", "width"} <= size.keys():
            resize = as_pair((size["height"], size["width"]), "size")
        elif isinstance(size, int):  # older files
            resize = as_pair(size, "size")
            keep_ratio = family in ("CLIP", "Bit")
        else:
            raise ValueError(f"size {size!r} is not supported")
    crop: Any = resize
    if config.get("do_center_crop", False):
        crop = config["crop_size"]
        if isinstance(crop, Mapping):
            crop = (crop["height"], crop["width"])
    elif keep_ratio or crop is None:
        raise ValueError("the result would have another size for each photograph")
    return Preprocess(
        crop,
        resize,
        keep_ratio,
        _PIL_MODES[mode],
        config["image_mean"],
        config["image_std"],
        floor_crop=True,
    )


def from_timm(config: Mapping[str, Any]) -> Preprocess:
    """Return what the ``pretrained_cfg`` of a timm model says (its evaluation transform).

    Raises:
        ValueError: if it asks for something that is not supported here.
    """
    mode = config.get("crop_mode") or "center"
    if mode not in ("center", "squash"):
        raise ValueError(f"crop_mode {mode!r} is not center or squash")
    channels, *crop = config.get("input_size") or (3, 224, 224)
    if channels != 3:
        raise ValueError(f"input_size has {channels} channels")
    share = config.get("crop_pct") or 0.875
    if not 0.01 <= share <= 10:
        raise ValueError(f"crop_pct {share!r} is not a share")
    resize = (math.floor(crop[0] / share), math.floor(crop[1] / share))
    return Preprocess(
        (crop[0], crop[1]),
        resize,
        mode == "center",
        config.get("interpolation") or "bicubic",
        config.get("mean") or (0.485, 0.456, 0.406),
        config.get("std") or (0.229, 0.224, 0.225),
    )


def from_torchvision(transform: Any) -> Preprocess:
    """Return what a torchvision preset does: ``weights.transforms()`` of a classifier.

    Raises:
        ValueError: if it is not such a preset.
    """
    try:
        (crop,), (resize,) = transform.crop_size, transform.resize_size
        mode = transform.interpolation.value
        mean, std = transform.mean, transform.std
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            "Expected preprocess as vit.Preprocess or the transforms() of torchvision weights, "
            f"but got {type(transform).__name__}."
        ) from error
    return Preprocess(crop, resize, True, mode, mean, std)
