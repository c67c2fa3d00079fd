"""What the explorers share in which the chapter's model computes in the page."""

import copy
import functools
from collections.abc import Mapping
from typing import Any

import torch
import traitlets
from torch import Tensor

import dnnl
from dnnl import data
from dnnl.chapter_model import ChapterModel
from dnnl.explorers.base import Explorer, Setting, choice, half, rgb8
from dnnl.models.vit.checks import DTypeError, ShapeError, check_dims, format_size

OWN = "own"

_CENTRES = {  # row and column, in a photograph whose shorter side has 256 pixels
    "cat": (94, 140),
    "coffee": (84, 178),
    "astronaut": (58, 112),
    "temple": (52, 124),
    "flower": (128, 178),
}


def quantize(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Round a matrix ``(rows, width)`` to int8, with a scale for each row.

    Returns:
        tuple[Tensor, Tensor]: the integers from -127 to 127, and the scales ``(rows,)`` in float16;
        ``integers * scales[:, None]`` is the matrix up to half a scale.

    Raises:
        ValueError: if a number is not finite, or too large.
    """
    scales = (matrix.abs().amax(dim=1) / 127).half()
    if not bool(scales.isfinite().all()):
        raise ValueError("Expected finite weights of at most 8e6, for int8 with a scale.")
    divisors = scales.float().clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    return (matrix / divisors).round().clamp(-127, 127).to(torch.int8), scales


def _matrix(tensor: Tensor) -> Tensor:
    """Return a tensor as a matrix: a row for each output, or for each token of a table."""
    return tensor[0] if tensor.shape[0] == 1 else tensor.flatten(1)


def pack(model: ChapterModel) -> tuple[bytes, dict[str, Any]]:
    """Pack a model for the class ``ChapterVit`` of ``js/live/vit.js``.

    Matrices are packed in int8 with a scale for each row (:func:`quantize`), vectors in float16. On
    the chapter's photographs this changes a probability by at most 0.005 and the masked error by at
    most 0.006, compared with the model in float32 (``tests/test_js_live.py``).

    Returns:
        tuple[bytes, dict]: the tensors of the state dict in its order, nothing between them, in
        little-endian order; and an index for JSON: ``config`` with the numbers that the forward
        pass needs, ``photographs`` with the names of the logits, ``tensors`` with
        ``[name, shape, packing]`` of each. Before a tensor in ``"int8"`` come the scales of its
        rows in float16.

    Raises:
        ValueError: if a weight is not finite, or too large for float16.
    """
    packed, tensors = [], []
    for name, tensor in model.state_dict().items():
        if tensor.dim() == 1:
            tensors.append([name, list(tensor.shape), "float16"])
            packed.append(half(tensor))
            continue
        integers, scales = quantize(_matrix(tensor))
        tensors.append([name, list(integers.shape), "int8"])
        packed += [half(scales), integers.numpy().tobytes()]
    patch_embed = model.embedding.patch_embed
    config = {
        "image_size": list(patch_embed.image_size),
        "patch_size": list(patch_embed.patch_size),
        **{k: model.config[k] for k in ("embed_dim", "num_heads", "num_layers", "hidden_dim")},
        "eps": model.encoder.norm.eps,
        "mean": data.MEAN,
        "std": data.STD,
    }
    index = {"config": config, "photographs": list(model.photographs), "tensors": tensors}
    return b"".join(packed), index


def quantized(model: ChapterModel) -> ChapterModel:
    """Return a copy of a model, in float32 on the CPU, with the weights of a page."""
    copied = copy.deepcopy(model).float().cpu()
    with torch.no_grad():
        for tensor in copied.state_dict().values():
            if tensor.dim() == 1:
                tensor.copy_(tensor.half().float())
                continue
            integers, scales = quantize(_matrix(tensor))
            tensor.copy_((integers * scales.float()[:, None]).reshape(tensor.shape))
    return copied


@functools.lru_cache(maxsize=1)
def _photographs() -> dict[str, Tensor]:
    return data.photographs()


def chapter_crops(height: int, width: int) -> dict[str, Tensor]:
    """Return crops ``(3, height, width)`` of five photographs that the chapter's model knows.

    Raises:
        ShapeError: if a photograph is smaller.
    """
    out = {}
    for name, (row, column) in _CENTRES.items():
        image = _photographs()[name]
        if height > image.shape[1] or width > image.shape[2]:
            raise ShapeError(
                f"Expected a model of images that fit into the photograph {name!r}, "
                f"{format_size((image.shape[1], image.shape[2]))}, but its images are "
                f"{format_size((height, width))}: pass crops of your own."
            )
        top = min(max(0, row - height // 2), image.shape[1] - height)
        left = min(max(0, column - width // 2), image.shape[2] - width)
        out[name] = image[:, top : top + height, left : left + width]
    return out


class LiveExplorer(Explorer):
    """An explorer that carries a model, which computes in the page, and crops for it to read.

    Args:
        model: a :class:`dnnl.chapter_model.ChapterModel`; by default the chapter's trained one.
            ``model`` is a copy with the weights of the page, rounded to int8.
        crops: name → image ``(3, H, W)`` in [0, 1] of the model's image size; by default crops of
            five of the chapter's photographs.

    Attributes:
        photograph: the name of the crop that is shown, or ``"own"``.
        own: an image of the reader's, ``H * W * 3`` bytes (``dnnl.explorers.base.rgb8``), or
            nothing.

    Raises:
        ShapeError: if a crop has another size, or integers as pixels.
        traitlets.TraitError: for a wrong value, here and later; the explorer stays as it was.
    """

    photograph = Setting("").tag(sync=True)
    # (what comes from the page is a memoryview)
    own = Setting(b"").tag(sync=True, from_json=lambda value, _: bytes(value))
    _weights = traitlets.Bytes().tag(sync=True)
    _index = traitlets.Dict().tag(sync=True)
    _crops = traitlets.Bytes().tag(sync=True)
    _names = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        model: ChapterModel | None = None,
        crops: Mapping[str, Tensor] | None = None,
        **traits: Any,
    ) -> None:
        self.model = quantized(dnnl.load_chapter_model() if model is None else model)
        patch_embed = self.model.embedding.patch_embed
        self._image_size, self._grid_size = patch_embed.image_size, patch_embed.grid_size
        height, width = self._image_size
        crops = chapter_crops(height, width) if crops is None else crops
        if not crops or OWN in crops:
            raise ValueError(f"Expected at least one crop, none of them named {OWN!r}.")
        for name, crop in crops.items():
            check_dims(crop, "(3, H, W)", f"the crop {name!r}")
            if not crop.is_floating_point():
                raise DTypeError(
                    f"Expected crops of floats in [0, 1], but {name!r} has {crop.dtype}: scale it "
                    "first, as in crop.float() / 255."
                )
            if tuple(crop.shape) != (3, height, width):
                raise ShapeError(
                    f"Expected crops of shape {(3, height, width)}, but {name!r} has "
                    f"{tuple(crop.shape)}."
                )
        weights, index = pack(self.model)
        super().__init__(
            _weights=weights,
            _index=index,
            _crops=b"".join(rgb8(crop) for crop in crops.values()),
            _names=list(crops),
            **{"photograph": next(iter(crops)), **traits},
        )

    @property
    def num_patches(self) -> int:
        """How many patches the photograph has."""
        return self._grid_size[0] * self._grid_size[1]

    @traitlets.validate("photograph")
    def _valid_photograph(self, proposal: Any) -> str:
        name = choice("photograph", proposal["value"], (*self._names, OWN))
        if name == OWN and not self.own:
            raise traitlets.TraitError("Expected an image in own before photograph is 'own'.")
        return name

    @traitlets.validate("own")
    def _valid_own(self, proposal: Any) -> bytes:
        value, size = proposal["value"], 3 * self._image_size[0] * self._image_size[1]
        if not isinstance(value, bytes) or len(value) not in (0, size):
            got = f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)
            raise traitlets.TraitError(
                f"Expected own to be {size} bytes (an image {format_size(self._image_size)} in "
                f"RGB) or none, but got {got}."
            )
        if not value and self.photograph == OWN:
            raise traitlets.TraitError("Expected an image in own while photograph is 'own'.")
        return value

    def image(self) -> Tensor:
        """Return the image that is shown, ``(1, 3, H, W)`` in [0, 1], as the page has it."""
        height, width = self._image_size
        size = 3 * height * width
        if self.photograph == OWN:
            pixels = self.own
        else:
            at = self._names.index(self.photograph) * size
            pixels = self._crops[at : at + size]
        flat = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
        return flat.reshape(1, height, width, 3).permute(0, 3, 1, 2) / 255
