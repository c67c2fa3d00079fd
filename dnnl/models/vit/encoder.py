"""What reads the sequence: a pre-norm Transformer encoder, and heads that pool it."""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dnnl.models.vit import checks
from dnnl.models.vit.checks import ShapeError, Size, as_int
from dnnl.models.vit.config import POOLS, ViTConfig
from dnnl.models.vit.embedding import ViTEmbedding
from dnnl.models.vit.module import Module

if TYPE_CHECKING:
    from dnnl.models.vit.pretrained.preprocess import Preprocess


class QuickGELU(nn.Module):
    """``x * sigmoid(1.702 x)``: the approximation of GELU with which OpenAI trained CLIP."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to each number."""
        return x * torch.sigmoid(1.702 * x)


_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "quick_gelu": QuickGELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}


class ViTSelfAttention(Module):
    """Multi-head self-attention: every token reads every token, and itself.

    Args:
        embed_dim: the width ``D`` of a token.
        num_heads: how many heads share it; must divide it.
        dropout: probability of the dropout on the attention weights, in training.

    Attributes:
        qkv: ``nn.Linear(D, 3 * D)``, queries, keys and values; ``proj``: ``nn.Linear(D, D)``.

    Raises:
        ShapeError: if the heads do not divide ``embed_dim``.

    Source: Vaswani et al., arXiv:1706.03762, section 3.2; arXiv:2010.11929, appendix A.
    """

    def __init__(self, embed_dim: int = 768, num_heads: int = 12, dropout: float = 0.0) -> None:
        super().__init__()
        if as_int(embed_dim, "embed_dim") % as_int(num_heads, "num_heads"):
            raise ShapeError(
                f"Expected embed_dim divisible by {num_heads} heads, but got {embed_dim}."
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.attn_dropout = nn.Dropout(dropout)
        self.proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``."""
        q, k, v = self._heads(x)
        p = self.attn_dropout.p if self.attn_dropout.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p)  # never stores T × T weights
        return self.proj(y.transpose(1, 2).flatten(2))

    def weights(self, x: Tensor) -> Tensor:
        """Return the attention weights ``(B, heads, T, T)`` for tokens ``(B, T, D)``.

        Each row (query) sums to 1. They are those before dropout.
        """
        q, k, _ = self._heads(x)
        q = q * q.shape[-1] ** -0.5  # first, so that half precision does not overflow
        return (q @ k.transpose(-2, -1)).softmax(dim=-1)

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each ``(B, heads, T, D / heads)``."""
        checks.check_tokens(x, self.embed_dim, checks.input_dtype(self.qkv))
        qkv = self.qkv(x).unflatten(2, (3, self.num_heads, self.embed_dim // self.num_heads))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v


class ViTMLP(Module):
    """The feed-forward block: two linear layers with a GELU between, applied to each token.

    Args:
        embed_dim: the width ``D`` of a token.
        hidden_dim: the width between the layers.
        dropout: probability of the dropout after each layer.
        activation: ``"gelu"``; some checkpoints use ``"gelu_tanh"`` (its approximation by a tanh),
            ``"quick_gelu"`` (by a sigmoid), ``"relu"`` or ``"silu"``.

    Attributes:
        net: ``nn.Sequential`` of linear, GELU, dropout, linear, dropout.

    Raises:
        ValueError: if the activation is unknown.

    Source: arXiv:2010.11929, section 3.1 and table 1.
    """

    def __init__(
        self,
        embed_dim: int = 768,
        hidden_dim: int = 3072,
        dropout: float = 0.0,
        *,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        checks.check_choice(activation, _ACTIVATIONS, "activation")
        self.net = nn.Sequential(
            nn.Linear(as_int(embed_dim, "embed_dim"), as_int(hidden_dim, "hidden_dim")),
            _ACTIVATIONS[activation](),
            nn.Dropout(dropout),
            nn.Linear(hidden_dim, embed_dim),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``, each by itself."""
        return self.net(x)


class ViTEncoderLayer(Module):
    """One pre-norm layer: ``x + attention(norm(x))``, then ``x + mlp(norm(x))``.

    Args:
        embed_dim: the width ``D`` of a token.
        num_heads: how many attention heads share it; must divide it.
        hidden_dim: the width inside the MLP.
        dropout: probability of the dropout on both residual branches.
        attn_dropout: probability of the dropout on the attention weights.
        norm_eps: epsilon of the layer norms.
        activation: as for :class:`ViTMLP`.

    Attributes:
        norm1, attn, dropout1, norm2, mlp: the parts, in order.

    Raises:
        ShapeError: if the heads do not divide ``embed_dim``.

    Source: arXiv:2010.11929, equations 2 and 3.
    """

    def __init__(
        self,
        embed_dim: int = 768,
        num_heads: int = 12,
        hidden_dim: int = 3072,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        *,
        norm_eps: float = 1e-6,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(as_int(embed_dim, "embed_dim"), eps=norm_eps)
        self.attn = ViTSelfAttention(embed_dim, num_heads, attn_dropout)
        self.dropout1 = nn.Dropout(dropout)
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = ViTMLP(embed_dim, hidden_dim, dropout, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``."""
        checks.check_tokens(x, self.attn.embed_dim, checks.input_dtype(self.attn.qkv))
        x = x + self.dropout1(self.attn(self.norm1(x)))
        x = x + self.mlp(self.norm2(x))
        return x


class ViTEncoder(Module):
    """A stack of :class:`ViTEncoderLayer` and a last layer norm.

    Args:
        embed_dim, num_heads, hidden_dim, dropout, attn_dropout, norm_eps, activation: as for the
            layer.
        num_layers: how many layers.
        final_norm: whether to end with a layer norm; a head may have its own instead.

    Attributes:
        layers: ``nn.ModuleList``; ``norm``: the last ``nn.LayerNorm``, or ``nn.Identity``.

    Raises:
        ShapeError: if a count is out of range, or the heads do not divide ``embed_dim``.

    Source: arXiv:2010.11929, equations 2 to 4.
    """

    def __init__(
        self,
        embed_dim: int = 768,
        num_heads: int = 12,
        num_layers: int = 12,
        hidden_dim: int = 3072,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        *,
        norm_eps: float = 1e-6,
        activation: str = "gelu",
        final_norm: bool = True,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            ViTEncoderLayer(
                embed_dim,
                num_heads,
                hidden_dim,
                dropout,
                attn_dropout,
                norm_eps=norm_eps,
                activation=activation,
            )
            for _ in range(as_int(num_layers, "num_layers", minimum=0))
        )
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps) if final_norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``."""
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class ViTClassificationHead(Module):
    """Pool a sequence into one vector and map it to logits.

    Args:
        embed_dim: the width ``D`` of a token.
        num_classes: how many logits ``K``.
        pool: ``"cls"`` reads the first token; ``"mean"`` and ``"max"`` pool the patches, without
            the prefix.
        num_prefix_tokens: how many tokens stand before the patches.
        distillation: add DeiT's second head, which reads the second token.
        fc_norm: normalise what was pooled (MAE's fine-tuning, timm's name).
        norm_eps: epsilon of that norm.

    Attributes:
        head: ``nn.Linear(D, K)``; ``head_dist``: its twin, with distillation; ``fc_norm``:
            ``nn.LayerNorm``, or ``nn.Identity``.

    Raises:
        ShapeError: if there is no token to read.
        ValueError: if the pool is unknown.

    Source: arXiv:2010.11929, equation 4; Touvron et al., DeiT (arXiv:2012.12877), section 4.
    """

    def __init__(
        self,
        embed_dim: int,
        num_classes: int,
        *,
        pool: str = "cls",
        num_prefix_tokens: int = 1,
        distillation: bool = False,
        fc_norm: bool = False,
        norm_eps: float = 1e-6,
    ) -> None:
        super().__init__()
        checks.check_choice(pool, POOLS, "pool")
        if distillation and pool != "cls":
            raise ValueError(f"Expected pool='cls' with distillation, but got {pool!r}.")
        if distillation and fc_norm:
            raise ValueError("fc_norm cannot be combined with distillation.")
        self.pool = pool
        self.distillation = distillation
        self.embed_dim = as_int(embed_dim, "embed_dim")
        needed = 2 if distillation else int(pool == "cls")
        self.num_prefix_tokens = as_int(num_prefix_tokens, "num_prefix_tokens", minimum=needed)
        self.fc_norm = nn.LayerNorm(embed_dim, eps=norm_eps) if fc_norm else nn.Identity()
        self.head = nn.Linear(embed_dim, as_int(num_classes, "num_classes"))
        if distillation:
            self.head_dist = nn.Linear(embed_dim, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map encoded tokens ``(B, T, D)`` to logits ``(B, K)``.

        With distillation they are the average of both heads: DeiT's prediction.
        """
        if self.distillation:
            return torch.stack(self.both(x)).mean(dim=0)
        self._check(x)
        if self.pool == "cls":
            pooled = x[:, 0]
        else:
            patches = x[:, self.num_prefix_tokens :]
            pooled = patches.mean(dim=1) if self.pool == "mean" else patches.amax(dim=1)
        return self.head(self.fc_norm(pooled))

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map tokens ``(B, T, D)`` to the logits of both heads, for DeiT's two losses.

        Raises:
            ValueError: if the head was made without distillation.
        """
        if not self.distillation:
            raise ValueError("ViTClassificationHead.both requires distillation=True.")
        self._check(x)
        return self.head(x[:, 0]), self.head_dist(x[:, 1])

    def _check(self, x: Tensor) -> None:
        checks.check_tokens(x, self.embed_dim, checks.input_dtype(self.head))
        needed = self.num_prefix_tokens + int(self.pool != "cls")
        checks.check_length(x, needed, at_least=True)


class _Model(Module):
    """Base class of whole models: settings, preprocessing, labels, saving.

    Attributes:
        config: :class:`ViTConfig`, from which ``from_config`` builds the same model.
        preprocess: how a photograph becomes the model's input: :class:`Preprocess`, or None.
        labels: what the logits stand for, or an empty tuple.
    """

    config: ViTConfig
    preprocess: "Preprocess | None" = None
    labels: tuple[str, ...] = ()

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder, from which :func:`load_pretrained` reads it again.

        ``model.safetensors`` holds weights, settings, preprocessing and labels, and is replaced as
        a whole or not at all. ``config.json`` repeats all but the weights for people to read;
        editing it has no effect.

        Args:
            folder: where to write; it is created if needed.

        Raises:
            ValueError: if the modules are not those that ``config`` describes, so that the model
                could not be built again.
            OSError: if the folder cannot be written.
            ImportError: if safetensors is not installed (``dnnl[pretrained]``).
        """
        from dnnl.models.vit.pretrained.folder import save  # only here: it needs safetensors

        save(self, folder)


class ViTModel(_Model):
    """The backbone: from images to encoded tokens. The defaults are those of ViT-B/16.

    Args:
        image_size, patch_size, in_channels: the images, as for :class:`ViTConfig`.
        embed_dim, num_heads, num_layers, hidden_dim: the sizes, as there.
        dropout, attn_dropout: the probabilities of dropout, as there.
        settings: further settings of :class:`ViTConfig`, by name; those of a head have no effect.

    Attributes:
        embedding: :class:`ViTEmbedding`; ``pre_norm``: ``nn.LayerNorm``, or ``nn.Identity``;
            ``encoder``: :class:`ViTEncoder`.
        config, preprocess, labels: settings; how to prepare a photograph; names of the logits.

    Source: arXiv:2010.11929, equations 1 to 4 and table 1.
    """

    def __init__(
        self,
        image_size: Size = 224,
        patch_size: Size = 16,
        in_channels: int = 3,
        embed_dim: int = 768,
        num_heads: int = 12,
        num_layers: int = 12,
        hidden_dim: int = 3072,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.config = c = ViTConfig(
            image_size=image_size,
            patch_size=patch_size,
            in_channels=in_channels,
            num_classes=0,
            embed_dim=embed_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            hidden_dim=hidden_dim,
            dropout=dropout,
            attn_dropout=attn_dropout,
            **settings,
        )
        self.embedding = ViTEmbedding(
            c.image_size,
            c.patch_size,
            c.in_channels,
            c.embed_dim,
            c.dropout,
            num_prefix_tokens=c.prefix,
            dynamic_image_size=c.dynamic_image_size,
            resize=c.resize,
        )
        self.pre_norm = nn.LayerNorm(c.embed_dim, c.norm_eps) if c.pre_norm else nn.Identity()
        self.encoder = ViTEncoder(
            c.embed_dim,
            c.num_heads,
            c.num_layers,
            c.hidden_dim,
            c.dropout,
            c.attn_dropout,
            norm_eps=c.norm_eps,
            activation=c.activation,
            final_norm=c.final_norm,
        )

    @classmethod
    def from_config(cls, config: ViTConfig) -> "ViTModel":
        """Build the backbone of ``config``, with fresh weights."""
        settings = config.to_dict()
        del settings["num_classes"]
        return cls(**settings)

    def forward(self, x: Tensor) -> Tensor:
        """Map images ``(B, C, H, W)`` to encoded tokens ``(B, num_prefix_tokens + N, D)``."""
        return self.encoder(self.sequence(x))

    def sequence(self, x: Tensor) -> Tensor:
        """Return what the encoder reads: the tokens of images, before the first layer."""
        return self.pre_norm(self.embedding(x))


class ViTForImageClassification(_Model):
    """A Vision Transformer with a classification head: from images to logits.

    Args:
        image_size, patch_size, in_channels: the images, as for :class:`ViTConfig`.
        num_classes, embed_dim, num_heads, num_layers, hidden_dim: the sizes, as there.
        dropout, attn_dropout: the probabilities of dropout, as there.
        settings: further settings of :class:`ViTConfig`, by name.

    Attributes:
        backbone: :class:`ViTModel`; ``head``: :class:`ViTClassificationHead`.
        config, preprocess, labels: settings; how to prepare a photograph; names of the logits.

    Source: arXiv:2010.11929.
    """

    def __init__(
        self,
        image_size: Size = 224,
        patch_size: Size = 16,
        in_channels: int = 3,
        num_classes: int = 1000,
        embed_dim: int = 768,
        num_heads: int = 12,
        num_layers: int = 12,
        hidden_dim: int = 3072,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.config = c = ViTConfig(
            image_size=image_size,
            patch_size=patch_size,
            in_channels=in_channels,
            num_classes=num_classes,
            embed_dim=embed_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            hidden_dim=hidden_dim,
            dropout=dropout,
            attn_dropout=attn_dropout,
            **settings,
        )
        self.backbone = ViTModel.from_config(c)
        self.head = ViTClassificationHead(
            c.embed_dim,
            c.num_classes,
            pool=c.pool,
            num_prefix_tokens=c.prefix,
            distillation=c.distillation,
            fc_norm=c.fc_norm,
            norm_eps=c.norm_eps,
        )

    @classmethod
    def from_config(cls, config: ViTConfig) -> "ViTForImageClassification":
        """Build the model of ``config``, with fresh weights."""
        return cls(**config.to_dict())

    def forward(self, x: Tensor) -> Tensor:
        """Map images ``(B, C, H, W)`` to logits ``(B, K)``."""
        return self.head(self.backbone(x))


# ---- looking inside ------------------------------------------------------------------------------


def attention_maps(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the attention weights of every layer.

    The layers are run one by one; hooks on the model itself are not called.

    Args:
        model: :class:`ViTForImageClassification` or :class:`ViTModel`; or a :class:`ViTEncoder`.
        x: images ``(B, C, H, W)``; for an encoder tokens ``(B, T, D)``.

    Returns:
        list[Tensor]: one ``(B, heads, T, T)`` per layer, before dropout; each row (query) sums
        to 1.

    Raises:
        TypeError: for a model of another kind.
    """
    layers, states = _run(model, x)
    pairs = zip(layers, states[:-1], strict=True)
    return [layer.attn.weights(layer.norm1(z)) for layer, z in pairs]


def hidden_states(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the tokens before the first layer and after every layer, without the last norm.

    Args:
        model: as for :func:`attention_maps`.
        x: images, or tokens for an encoder.

    Returns:
        list[Tensor]: ``num_layers + 1`` tensors ``(B, T, D)``.

    Raises:
        TypeError: for a model of another kind.
    """
    return _run(model, x)[1]


def _run(model: nn.Module, x: Tensor) -> tuple[list[Any], list[Tensor]]:
    """Return the layers of a model, and the tokens before and after each of them."""
    if isinstance(model, ViTForImageClassification):
        model = model.backbone
    if isinstance(model, ViTModel):
        x = model.sequence(x)
        model = model.encoder
    if not isinstance(model, ViTEncoder):
        raise TypeError(
            "Expected a ViTForImageClassification, ViTModel or ViTEncoder, "
            f"but got {type(model).__name__}."
        )
    layers: list[Any] = list(model.layers)
    states = [x]
    for layer in layers:
        states.append(layer(states[-1]))
    return layers, states
