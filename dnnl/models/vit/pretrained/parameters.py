"""The tensors of another library's checkpoint under our names."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dnnl.models.vit.checks import as_int
from dnnl.models.vit.pretrained.files import Checkpoint, CheckpointError, reading
from dnnl.models.vit.pretrained.layouts import (
    PATCH_BIAS,
    TOKENS,
    Layout,
    first_few,
    missing_part,
    recognise,
)


@dataclass
class Parameters:
    """A checkpoint whose tensors are read by our names."""

    checkpoint: Checkpoint
    layout: Layout
    sources: dict[str, list[str]]
    used: set[str] = field(default_factory=set)
    final_norm: bool = True

    @classmethod
    def of(cls, checkpoint: Checkpoint, num_classes: int | None, strict: bool) -> "Parameters":
        """Find the layout and its names, less the head where another is wanted."""
        layout = recognise(checkpoint.shapes, checkpoint.title)
        sources, unknown = layout.assign(checkpoint.shapes)
        found = cls(checkpoint, layout, sources)
        # A norm behind the pool may stand in place of the last one: nothing else may.
        found.final_norm = found.has("backbone.encoder.norm.") or not found.has("head.fc_norm.")
        heads = [name for name in unknown if layout.head_of(name)]
        if heads and num_classes is None and not found.has("head.head."):
            raise CheckpointError(
                f"{checkpoint.title} ends in {layout.head_of(heads[0])}, which is not supported "
                f"({first_few(heads)}): pass num_classes=0 for the tokens of the encoder."
            )
        own_head = num_classes in (None, found.num_classes) and found.has("head.head.")
        if not own_head or found.has_a_head_beside():
            unknown = [name for name in unknown if name not in heads]
        found.drop_heads(num_classes)
        if unknown:
            message = (
                f"{checkpoint.title} has names that no supported {layout.name} model has"
                f"{missing_part(unknown)}: {first_few(unknown)}."
            )
            if strict:
                raise CheckpointError(message)
            warnings.warn(message, stacklevel=5)
        return found

    def has_a_head_beside(self) -> bool:
        """Whether the classifier stands beside the unsupported head, as in SigLIP, not after it."""
        return self.layout.head_of("head.probe") is not None

    def drop_heads(self, num_classes: int | None) -> None:
        """Forget the parameters of heads that the model is not to have."""
        if num_classes is not None and as_int(num_classes, "num_classes", minimum=0) == 0:
            dropped = "head."
        elif num_classes is None and not self.has("head.head"):
            dropped = "head.fc_norm."  # the backbone ends before the pool
        elif num_classes not in (None, self.num_classes):
            dropped = "head.head"  # and head.head_dist
        else:
            return
        self.sources = {n: s for n, s in self.sources.items() if not n.startswith(dropped)}

    @property
    def num_classes(self) -> int:
        """The number of logits of the checkpoint's own head; 0 if there is none."""
        name = "head.head.weight"
        return self.shape(name, dims=2)[0] if name in self.sources else 0

    def has(self, start: str) -> bool:
        """Whether the name of a parameter starts with ``start``."""
        return any(parameter.startswith(start) for parameter in self.sources)

    def on_meta(self, parameter: str) -> Tensor:
        """Return a parameter on the meta device: no values are read."""
        shapes = self.checkpoint.shapes
        return self._join(parameter, lambda name: torch.empty(shapes[name], device="meta"))

    def shape(self, parameter: str, *, dims: int) -> tuple[int, ...]:
        """Return the shape of a parameter, which must have so many dimensions."""
        shape = tuple(self.on_meta(parameter).shape)
        if len(shape) != dims or 0 in shape:
            raise CheckpointError(
                f"{self._named(parameter)}: expected {dims} dimensions of at least 1, "
                f"but got shape {shape}."
            )
        return shape

    def read(self, parameter: str, target: Tensor) -> Tensor:
        """Return a parameter in the shape of ``target``."""
        if parameter not in self.sources and self._may_be_absent(parameter):
            return torch.zeros(target.shape, device="cpu")
        value = self._join(parameter, self.checkpoint.read)
        scale = parameter.rpartition(".")[0] + "*"
        if scale in self.sources:  # layer scale: g * (W x + b) is (g * W) x + g * b
            gain = self._join(scale, self.checkpoint.read)
            self.check(parameter, value, target)
            self.check(scale, gain, target.flatten(1)[:, 0] if target.dim() > 1 else target)
            with reading(self._named(parameter)):  # not every dtype can be converted
                # At least in float32: a small gain makes numbers that half precision cannot hold.
                exact = torch.promote_types(value.dtype, torch.float32)
                value, gain = value.to(exact), gain.to(exact)
                value = value * gain.reshape(-1, *[1] * (value.dim() - 1))
        return value

    def _may_be_absent(self, parameter: str) -> bool:
        """Whether a bias is left out on purpose; that no layer has it is checked elsewhere."""
        if parameter == PATCH_BIAS and self.has(
            "backbone.pre_norm."
        ):  # CLIP, under timm's names too
            return True
        return re.fullmatch(self.layout.optional, parameter) is not None

    def check(self, parameter: str, value: Tensor, target: Tensor) -> None:
        """Raise unless ``value`` has the shape of ``target``."""
        if value.shape != target.shape:
            raise CheckpointError(
                f"{self._named(parameter)}: expected shape {tuple(target.shape)} for {parameter}, "
                f"but got {tuple(value.shape)}."
            )

    def _join(self, parameter: str, read: Callable[[str], Tensor]) -> Tensor:
        """Return our parameter out of the ones that the library keeps in its place."""
        if parameter not in self.sources:
            raise CheckpointError(
                f"{self.checkpoint.title} has no parameter for {parameter} "
                f"({self.layout.name} names)."
            )
        self.used.add(parameter)
        names = self.sources[parameter]
        with reading(self._named(parameter)):
            parts = [self.layout.convert(name, read(name)) for name in names]
            if not all(part.is_floating_point() for part in parts):
                raise CheckpointError(f"{self._named(parameter)}: expected floating-point numbers.")
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=int(parameter == TOKENS))

    def _named(self, parameter: str) -> str:
        return f"{self.checkpoint.title}: {first_few(self.sources.get(parameter, [parameter]))}"
