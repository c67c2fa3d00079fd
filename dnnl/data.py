"""Photographs that installed packages ship, as tensors, and crops of them."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from dnnl._extras import needs_extra
from dnnl.models.vit.checks import (
    DTypeError,
    ShapeError,
    Size,
    as_int,
    as_pair,
    check_dims,
    format_size,
)
from dnnl.models.vit.positions import resample

with needs_extra("train", "dnnl.data"):
    import numpy as np
    from PIL import Image, ImageOps

MEAN, STD = 0.5, 0.25
ENDINGS = (".png", ".jpg", ".jpeg")
"""How the name of a photograph's file ends, in capitals or not."""
MOST_PROPORTION = 16
"""How many times its shorter side the longer side of a photograph may measure."""


@dataclass(frozen=True)
class Photograph:
    """Where a photograph comes from.

    Attributes:
        package, path: the installed package that ships it, and the file in it.
        subject, author, licence: what it shows, who took it, and how it may be used.
    """

    package: str
    path: str
    subject: str
    author: str
    licence: str


_SKIMAGE, _SKLEARN = "skimage", "sklearn.datasets"
PHOTOGRAPHS = {
    "cat": Photograph(_SKIMAGE, "data/chelsea.png", "Chelsea", "Stéfan van der Walt", "CC0"),
    "coffee": Photograph(_SKIMAGE, "data/coffee.png", "a cup of coffee", "Rachel Michetti", "CC0"),
    "rocket": Photograph(_SKIMAGE, "data/rocket.jpg", "a Falcon 9", "SpaceX", "public domain"),
    "astronaut": Photograph(
        _SKIMAGE, "data/astronaut.png", "Eileen Collins", "NASA", "public domain"
    ),
    "galaxies": Photograph(
        _SKIMAGE, "data/hubble_deep_field.jpg", "the Hubble deep field", "NASA", "public domain"
    ),
    "retina": Photograph(_SKIMAGE, "data/retina.jpg", "a retina", "Mikael Häggström", "CC0"),
    "tissue": Photograph(
        _SKIMAGE, "data/ihc.png", "stained tissue", "CMMI", "no known restrictions"
    ),
    "temple": Photograph(
        _SKLEARN, "images/china.jpg", "a temple in China", "danielbuechele", "CC BY 2.0"
    ),
    "flower": Photograph(_SKLEARN, "images/flower.jpg", "a dahlia", "vultilion", "CC BY 2.0"),
    "admiral": Photograph(
        "matplotlib",
        "mpl-data/sample_data/grace_hopper.jpg",
        "Grace Hopper",
        "James S. Davis, US Navy",
        "public domain",
    ),
}
"""The photographs by name. The facts are those that the packages' own documentation gives."""


def photograph(name: str = "cat", image_size: Size | None = 224) -> Tensor:
    """Return a photograph, cropped in the middle and resized.

    Args:
        name: a key of :data:`PHOTOGRAPHS`.
        image_size: ``(height, width)`` in pixels; an ``int`` is a square; ``None``: as it is.

    Returns:
        Tensor: ``(3, height, width)`` in [0, 1], float32, on the CPU.

    Raises:
        KeyError: for an unknown name.
        ShapeError: for a size below 1.
    """
    if name not in PHOTOGRAPHS:
        raise KeyError(f"Expected one of {', '.join(PHOTOGRAPHS)}, but got {name!r}.")
    entry = PHOTOGRAPHS[name]
    with needs_extra("train", f"dnnl.data.photograph({name!r})"):
        package = files(entry.package)
    with package.joinpath(entry.path).open("rb") as file:
        image = _decode(file, name)
    return image if image_size is None else _fit(image, as_pair(image_size, "image_size"))


def photographs(folder: str | Path | None = None, *, short_side: int = 256) -> dict[str, Tensor]:
    """Return whole photographs by name, resized to one length of their shorter side.

    Args:
        folder: where to look for ``.png``, ``.jpg`` and ``.jpeg`` files; their names without the
            ending become the names. By default the photographs of :data:`PHOTOGRAPHS`.
        short_side: the length, in pixels.

    Returns:
        dict[str, Tensor]: name → ``(3, height, width)`` in [0, 1], in a stable order. They are
        turned upright as their EXIF orientation says; 16-bit greys keep their 16 bits.

    Raises:
        FileNotFoundError: if the folder does not exist, or none of its files is a photograph.
        ValueError: if a file is not a PNG or JPEG image that can be read, if it is longer than
            ``MOST_PROPORTION`` times its shorter side, if its name is not valid UTF-8, or if
            two share a name.
    """
    short_side = as_int(short_side, "short_side")
    return {name: _short_side(image, short_side) for name, image in _read(folder)}


def _read(folder: str | Path | None) -> Iterator[tuple[str, Tensor]]:
    """Yield the photographs one by one, each with its name, ``(3, H, W)`` in [0, 1]."""
    if folder is None:
        for name in PHOTOGRAPHS:
            yield name, photograph(name, None)
        return
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"Expected a folder of photographs, but {folder} is not a directory."
        )
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in ENDINGS and p.is_file())
    if not paths:
        raise FileNotFoundError(f"Expected .png or .jpg files in {folder}, but found none.")
    seen = set()
    for path in paths:
        try:
            path.name.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"Expected file names in UTF-8, but got {path.name!r}: rename the photograph."
            ) from None
        if path.stem in seen:
            raise ValueError(f"Expected one photograph named {path.stem!r}, but got two.")
        seen.add(path.stem)
        with path.open("rb") as file:
            image = _decode(file, path.name)
        height, width = image.shape[1:]
        if max(height, width) > MOST_PROPORTION * min(height, width):
            raise ValueError(
                f"Expected photographs of proportions up to {MOST_PROPORTION}:1, but {path.name} "
                f"has {format_size((height, width))} pixels (height × width): crop it."
            )
        yield path.stem, image


def _decode(file: IO[bytes], name: str) -> Tensor:
    """Return a PNG or JPEG file as ``(3, H, W)`` in [0, 1], upright."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=("PNG", "JPEG")) as stored:
                image = ImageOps.exif_transpose(stored)
                # Pillow reads a grey PNG of 16 bits in mode I;16, or I in older versions.
                deep = image.mode.startswith("I")
                pixels = np.array(image if deep else image.convert("RGB"))
    except Exception as error:  # damaged files make Pillow raise exceptions of many kinds
        raise ValueError(
            f"Expected a PNG or JPEG image, but {name} cannot be read: {error}"
        ) from None
    if deep:
        return torch.from_numpy(pixels.astype(np.float32) / 65535).expand(3, -1, -1).clone()
    return torch.from_numpy(pixels).permute(2, 0, 1) / 255


def _fit(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Crop the largest middle part of the wanted proportions and resize it."""
    height, width = image.shape[1:]
    scale = min(height / size[0], width / size[1])
    h, w = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    top, left = (height - h) // 2, (width - w) // 2
    return _resize(image[:, top : top + h, left : left + w], size)


def _short_side(image: Tensor, length: int) -> Tensor:
    short = min(image.shape[1:])
    height, width = (max(length, round(n * length / short)) for n in image.shape[1:])
    return _resize(image, (height, width))


def _resize(image: Tensor, size: tuple[int, int]) -> Tensor:
    return resample(image[None], size, "bilinear", antialias=True)[0]


def crops(
    images: Mapping[str, Tensor] | Sequence[Tensor],
    count: int,
    image_size: Size,
    generator: torch.Generator,
    *,
    flip: bool = False,
) -> tuple[Tensor, Tensor]:
    """Cut random crops from random photographs.

    Args:
        images: photographs ``(3, height, width)``, each at least as large as a crop.
        count: how many crops ``B``.
        image_size: ``(h, w)`` of a crop, in pixels.
        generator: where the randomness comes from; the same state gives the same crops.
        flip: mirror every second crop, on average, left to right.

    Returns:
        tuple[Tensor, Tensor]: crops ``(B, 3, h, w)``, and the indices ``(B,)`` of the photographs.

    Raises:
        ShapeError: if there is no photograph, or one is smaller than a crop.
    """
    pool = list(images.values()) if isinstance(images, Mapping) else list(images)
    h, w = as_pair(image_size, "image_size")
    if not pool:
        raise ShapeError("Expected at least one photograph to cut crops from, but got none.")
    for image in pool:
        check_dims(image, "(3, H, W)", "a photograph")
        if image.shape[0] != 3 or image.shape[1] < h or image.shape[2] < w:
            raise ShapeError(
                f"Expected photographs (3, H, W) of at least {format_size((h, w))} pixels, "
                f"but got {tuple(image.shape)}."
            )
    label = torch.randint(len(pool), (count,), generator=generator)
    place = torch.rand((count, 3), generator=generator).tolist()
    out = torch.empty(count, 3, h, w)
    for i, (k, (down, across, coin)) in enumerate(zip(label.tolist(), place, strict=True)):
        image = pool[k]
        top = int(down * (image.shape[1] - h + 1))
        left = int(across * (image.shape[2] - w + 1))
        crop = image[:, top : top + h, left : left + w]
        out[i] = crop.flip(-1) if flip and coin < 0.5 else crop
    return out, label


def standardize(x: Tensor) -> Tensor:
    """Map pixels from [0, 1] to the scale that the models read: ``(x - 0.5) / 0.25``.

    Raises:
        DTypeError: for integers, which are pixels from 0 to 255.
    """
    if not x.is_floating_point():
        raise DTypeError(
            f"Expected floating-point pixels in [0, 1], but got {x.dtype}: scale them first, "
            "as in x.float() / 255."
        )
    return (x - MEAN) / STD


def unstandardize(x: Tensor) -> Tensor:
    """Map standardised pixels back to [0, 1]: the inverse of :func:`standardize`, unclipped."""
    return x * STD + MEAN
