"""The settings of a whole model in one place, so that a model can say how to build it again."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from dnnl.models.vit.checks import Size, as_int, as_pair
from dnnl.models.vit.positions import RESIZE_SETTINGS


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
        dynamic_image_size: accept every image that the patch divides.
        resize: how the table of positions is then resized: a key of :data:`RESIZE_SETTINGS`.
        norm_eps: epsilon of the layer norms.
        activation: of the MLP, as for :class:`ViTMLP`.
        pre_norm: a layer norm between the input module and the first layer (CLIP).
        final_norm: a layer norm behind the last layer.
        fc_norm: a layer norm behind the pool (MAE's fine-tuning).

    Raises:
        ShapeError: for a size or a count that is out of range.
        ValueError: for an unknown ``resize``.

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
    resize: str = "hf-vit"
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
        values = {
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
        if self.resize not in RESIZE_SETTINGS:
            raise ValueError(
                f"Expected resize out of {', '.join(RESIZE_SETTINGS)}, but got {self.resize!r}."
            )

    @property
    def prefix(self) -> int:
        """How many tokens stand before the patches: ``num_prefix_tokens``, or its default."""
        assert self.num_prefix_tokens is not None
        return self.num_prefix_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can store them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ViTConfig":
        """Return the settings that :meth:`to_dict` gave.

        Raises:
            ValueError: for a name that is not a setting.
        """
        if unknown := sorted(set(values) - {f.name for f in fields(cls)}):
            raise ValueError(f"Unknown settings of ViTConfig: {', '.join(map(str, unknown))}.")
        return cls(**values)
