"""The settings of a whole model in one place, so that a model can say how to build it again."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dnnl.models.vit.checks import ShapeError, Size, as_int, as_pair, check_choice, grid_shape
from dnnl.models.vit.positions import DEFAULT_RESIZE, RESIZE_SETTINGS

POOLS = ("cls", "mean", "max")
ACTIVATIONS = ("gelu", "gelu_tanh", "quick_gelu", "relu", "silu")


@dataclass(frozen=True)
class ViTConfig:
    """Everything that decides the architecture of a model. The defaults are those of ViT-B/16.

    Attributes:
        image_size: ``(height, width)`` of the images, in pixels; an ``int`` is a square.
        patch_size: ``(height, width)`` of a patch, which must divide the image.
        in_channels: how many channels ``C`` the images have.
        num_classes: how many logits ``K``; 0 for a backbone without a head.
        embed_dim: the width ``D`` of a token.
        num_heads: how many attention heads share it; must divide it.
        num_layers: how many encoder layers.
        hidden_dim: the width inside the MLP.
        dropout: probability of every dropout outside attention.
        attn_dropout: probability of the dropout on the attention weights.
        pool: what the head reads: ``"cls"``, ``"mean"`` or ``"max"``.
        distillation: DeiT's second head, which reads the second token.
        num_prefix_tokens: tokens before the patches; by default 2 with distillation, else 1.
        dynamic_image_size: accept every image size that is a multiple of the patch size.
        resize: how the table of positions is then resized: a key of :data:`.RESIZE_SETTINGS`.
        norm_eps: epsilon of the layer norms.
        activation: activation of the MLP; see :class:`ViTMLP`.
        pre_norm: a layer norm between the input module and the first layer (CLIP).
        final_norm: a layer norm after the last layer.
        fc_norm: a layer norm after the pool (MAE's fine-tuning).

    Raises:
        ShapeError: for sizes and counts that do not fit.
        ValueError: for an unknown ``pool``, ``resize`` or ``activation``.

    Source: arXiv:2010.11929, table 1.
    """

    image_size: Size = 224
    patch_size: Size = 16
    in_channels: int = 3
    num_classes: int = 1000
    embed_dim: int = 768
    num_heads: int = 12
    num_layers: int = 12
    hidden_dim: int = 3072
    dropout: float = 0.0
    attn_dropout: float = 0.0
    pool: str = "cls"
    distillation: bool = False
    num_prefix_tokens: int | None = None
    dynamic_image_size: bool = False
    resize: str = DEFAULT_RESIZE
    norm_eps: float = 1e-6
    activation: str = "gelu"
    pre_norm: bool = False
    final_norm: bool = True
    fc_norm: bool = False

    def __post_init__(self) -> None:
        """Bring sizes and defaults into one form, so that equal settings compare equal."""
        prefix = self.num_prefix_tokens
        if prefix is None:
            prefix = 2 if self.distillation else 1
        values: dict[str, Any] = {
            "image_size": as_pair(self.image_size, "image_size"),
            "patch_size": as_pair(self.patch_size, "patch_size"),
            "num_prefix_tokens": as_int(prefix, "num_prefix_tokens", minimum=0),
        }
        for name in ("in_channels", "embed_dim", "num_heads", "hidden_dim"):
            values[name] = as_int(getattr(self, name), name)
        for name in ("num_classes", "num_layers"):
            values[name] = as_int(getattr(self, name), name, minimum=0)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        grid_shape(values["image_size"], values["patch_size"])
        if values["embed_dim"] % values["num_heads"]:
            raise ShapeError(
                f"Expected embed_dim divisible by {self.num_heads} heads, but got {self.embed_dim}."
            )
        for name in ("dropout", "attn_dropout", "norm_eps"):
            object.__setattr__(self, name, _as_float(getattr(self, name), name))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in (bool, "bool") and not isinstance(value, bool):
                raise ValueError(f"Expected {field.name} as True or False, but got {value!r}.")
        check_choice(self.pool, POOLS, "pool")
        check_choice(self.resize, RESIZE_SETTINGS, "resize")
        check_choice(self.activation, ACTIVATIONS, "activation")

    @property
    def prefix(self) -> int:
        """How many tokens stand before the patches (``num_prefix_tokens``, or its default)."""
        assert self.num_prefix_tokens is not None
        return self.num_prefix_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can store them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ViTConfig":
        """Return the settings in a dictionary: the inverse of :meth:`to_dict`.

        Raises:
            ValueError: for a name that is not a setting.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"Expected settings as a mapping, but got {type(values).__name__}.")
        if unknown := sorted(set(map(str, values)) - {f.name for f in fields(cls)}):
            raise ValueError(f"Unknown settings of ViTConfig: {', '.join(map(str, unknown))}.")
        return cls(**values)


def _as_float(value: Any, name: str) -> float:
    """Return ``value`` as a ``float`` of at least 0, or raise ValueError."""
    try:
        number = float(value) if not isinstance(value, (bool, str)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"Expected {name} as a number of at least 0, but got {value!r}.")
    return number
