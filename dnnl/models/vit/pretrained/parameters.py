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
        self = cls(checkpoint, layout, sources)
        # A norm behind the pool may stand in place of the last one: nothing else may.
        self.final_norm = self.has("backbone.encoder.norm.") or not self.has("head.fc_norm.")
        heads = [name for name in unknown if layout.head_of(name)]
        if heads and num_classes is None and not self.has("head.head."):
            raise CheckpointError(
                f"{checkpoint.title} ends in {layout.head_of(heads[0])}, which is not supported "
                f"({first_few(heads)}): pass num_classes=0 for the tokens of the encoder."
            )
        own_head = num_classes in (None, self.num_classes) and self.has("head.head.")
        if not own_head or self._reads_patches_alone():
            unknown = [name for name in unknown if name not in heads]
        self._drop_heads(num_classes)
        if unknown:
            message = (
                f"{checkpoint.title} has names that no supported {layout.name} model has"
                f"{missing_part(unknown)}: {first_few(unknown)}."
            )
            if strict:
                raise CheckpointError(message)
            warnings.warn(message, stacklevel=5)
        return self

    def _reads_patches_alone(self) -> bool:
        """Whether the classifier is beside the other head, as in SigLIP, and not behind it."""
        return self.layout.head_of("head.probe") is not None

    def _drop_heads(self, num_classes: int | None) -> None:
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
        return any(ours.startswith(start) for ours in self.sources)

    def on_meta(self, ours: str) -> Tensor:
        """Return a parameter on the meta device: no values are read."""
        shapes = self.checkpoint.shapes
        return self._join(ours, lambda name: torch.empty(shapes[name], device="meta"))

    def shape(self, ours: str, *, dims: int) -> tuple[int, ...]:
        """Return the shape of a parameter, which must have so many dimensions."""
        shape = tuple(self.on_meta(ours).shape)
        if len(shape) != dims or 0 in shape:
            raise CheckpointError(f"{self._named(ours)} has the shape {shape}.")
        return shape

    def read(self, ours: str, target: Tensor) -> Tensor:
        """Return a parameter in the shape of ``target``."""
        if ours not in self.sources and self._may_be_absent(ours):
            return torch.zeros(target.shape, device="cpu")
        value = self._join(ours, self.checkpoint.read)
        scale = ours.rpartition(".")[0] + "*"
        if scale in self.sources:  # layer scale: g * (W x + b) is (g * W) x + g * b
            gain = self._join(scale, self.checkpoint.read)
            self.check(ours, value, target)
            self.check(scale, gain, target.flatten(1)[:, 0] if target.dim() > 1 else target)
            # At least in float32: a small gain makes numbers that half precision cannot hold.
            exact = torch.promote_types(value.dtype, torch.float32)
            value, gain = value.to(exact), gain.to(exact)
            value = value * gain.reshape(-1, *[1] * (value.dim() - 1))
        return value

    def _may_be_absent(self, ours: str) -> bool:
        """Whether a bias is left out on purpose; that no layer has it is checked elsewhere."""
        if ours == PATCH_BIAS and self.has("backbone.pre_norm."):  # CLIP, under timm's names too
            return True
        return re.fullmatch(self.layout.optional, ours) is not None

    def check(self, ours: str, value: Tensor, target: Tensor) -> None:
        """Raise unless ``value`` has the shape of ``target``."""
        if value.shape != target.shape:
            raise CheckpointError(
                f"{self._named(ours)}: expected shape {tuple(target.shape)} for {ours}, "
                f"but got {tuple(value.shape)}."
            )

    def _join(self, ours: str, read: Callable[[str], Tensor]) -> Tensor:
        """Return our parameter out of the ones that the library keeps in its place."""
        if ours not in self.sources:
            raise CheckpointError(
                f"{self.checkpoint.title} has no parameter for {ours} ({self.layout.name} names)."
            )
        self.used.add(ours)
        names = self.sources[ours]
        with reading(self._named(ours)):
            parts = [self.layout.convert(name, read(name)) for name in names]
            if not all(part.is_floating_point() for part in parts):
                raise CheckpointError(f"{self._named(ours)}: expected floating-point numbers.")
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=int(ours == TOKENS))

    def _named(self, ours: str) -> str:
        return f"{self.checkpoint.title}: {first_few(self.sources.get(ours, [ours]))}"
