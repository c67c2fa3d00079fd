"""What reads the sequence: a pre-norm Transformer encoder, and heads that pool it."""

from collections.abc import Callable
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from dnnl.models.vit.embedding import ViTEmbedding
from dnnl.models.vit.errors import ShapeError, Size, check_tokens, count, sizes
from dnnl.models.vit.module import Module

_POOLS = ("cls", "mean", "max")
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}

Logits: TypeAlias = Tensor | tuple[Tensor, Tensor]
"""Logits ``(B, K)``; in the training of a distilled model a pair of them."""


class ViTSelfAttention(Module):
    """Multi-head self-attention: every token reads every token, and itself.

    ``nn.MultiheadAttention`` computes the same, but takes another path in eval mode without
    gradients, which a recorded graph (``torch.jit.trace``) cannot follow.

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
        if count(embed_dim, "embed_dim") % count(num_heads, "num_heads"):
            raise ShapeError(
                f"Expected embed_dim divisible by {num_heads} heads, but got {embed_dim}."
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.attn_dropout = nn.Dropout(dropout)
        self.proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self, x: Tensor, *, return_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``.

        With ``return_attention=True`` also return the weights ``(B, heads, T, T)``, whose rows
        (queries) sum to 1; they are those before dropout.
        """
        check_tokens(x, self.embed_dim, self.qkv)
        b, t, _ = x.shape
        width = self.embed_dim // self.num_heads
        qkv = self.qkv(x).reshape(b, t, 3, self.num_heads, width).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # each (B, heads, T, D / heads)
        weights = None
        if return_attention:
            weights = (q @ k.transpose(-2, -1) * width**-0.5).softmax(dim=-1)
            y = self.attn_dropout(weights) @ v
        else:  # the same in one fused call, which never stores the T × T weights
            p = self.attn_dropout.p if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        out: Tensor = self.proj(y.transpose(1, 2).reshape(b, t, self.embed_dim))
        return out if weights is None else (out, weights)


class ViTMLP(Module):
    """The feed-forward block: two linear layers with a GELU between, applied to each token.

    Args:
        embed_dim: the width ``D`` of a token.
        hidden_dim: the width between the layers.
        dropout: probability of the dropout after each layer.
        activation: ``"gelu"``; some checkpoints want ``"gelu_tanh"`` (its approximation by a tanh),
            ``"relu"`` or ``"silu"``.

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
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"Expected an activation out of {', '.join(_ACTIVATIONS)}, but got {activation!r}."
            )
        self.net = nn.Sequential(
            nn.Linear(count(embed_dim, "embed_dim"), count(hidden_dim, "hidden_dim")),
            _ACTIVATIONS[activation](),
            nn.Dropout(dropout),
            nn.Linear(hidden_dim, embed_dim),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``, each by itself."""
        out: Tensor = self.net(x)
        return out


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
        self.norm1 = nn.LayerNorm(count(embed_dim, "embed_dim"), eps=norm_eps)
        self.attn = ViTSelfAttention(embed_dim, num_heads, attn_dropout)
        self.dropout1 = nn.Dropout(dropout)
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = ViTMLP(embed_dim, hidden_dim, dropout, activation=activation)

    def forward(
        self, x: Tensor, *, return_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``.

        With ``return_attention=True`` also return the attention weights ``(B, heads, T, T)``, whose
        rows (queries) sum to 1.
        """
        check_tokens(x, self.attn.embed_dim, self.attn.qkv)
        y, weights = self.norm1(x), None
        if return_attention:
            y, weights = self.attn(y, return_attention=True)
        else:
            y = self.attn(y)
        x = x + self.dropout1(y)
        x = x + self.mlp(self.norm2(x))
        return x if weights is None else (x, weights)


class ViTEncoder(Module):
    """A stack of :class:`ViTEncoderLayer` and a last layer norm.

    Args:
        embed_dim, num_heads, hidden_dim, dropout, attn_dropout, norm_eps, activation: as for the
            layer.
        num_layers: how many layers.
        final_norm: whether the last layer norm stands here; a head may have one of its own instead.

    Attributes:
        layers: ``nn.ModuleList``; ``norm``: the last ``nn.LayerNorm``, or ``nn.Identity``.
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
            for _ in range(count(num_layers, "num_layers", least=0))
        )
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps) if final_norm else nn.Identity()

    def forward(
        self, x: Tensor, *, return_attention: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Map tokens ``(B, T, D)`` to ``(B, T, D)``.

        With ``return_attention=True`` also return a list with each layer's attention weights
        ``(B, heads, T, T)``.
        """
        attention = []
        for layer in self.layers:
            if return_attention:
                x, weights = layer(x, return_attention=True)
                attention.append(weights)
            else:
                x = layer(x)
        x = self.norm(x)
        return (x, attention) if return_attention else x


class ViTModel(Module):
    """The backbone: from images to encoded tokens. The defaults are those of ViT-B/16.

    Args:
        image_size, patch_size, in_channels, num_prefix_tokens, dynamic_image_size: as for
            :class:`ViTEmbedding`.
        embed_dim, num_heads, num_layers, hidden_dim, attn_dropout, norm_eps, activation,
            final_norm: as for :class:`ViTEncoder`.
        dropout: probability of every other dropout, that after the positions included.

    Attributes:
        embedding: :class:`ViTEmbedding`; ``encoder``: :class:`ViTEncoder`.

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
        *,
        num_prefix_tokens: int = 1,
        dynamic_image_size: bool = False,
        norm_eps: float = 1e-6,
        activation: str = "gelu",
        final_norm: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = ViTEmbedding(
            image_size,
            patch_size,
            in_channels,
            embed_dim,
            dropout,
            num_prefix_tokens=num_prefix_tokens,
            dynamic_image_size=dynamic_image_size,
        )
        self.encoder = ViTEncoder(
            embed_dim,
            num_heads,
            num_layers,
            hidden_dim,
            dropout,
            attn_dropout,
            norm_eps=norm_eps,
            activation=activation,
            final_norm=final_norm,
        )

    def forward(
        self, x: Tensor, *, return_attention: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Map images ``(B, C, H, W)`` to encoded tokens ``(B, num_prefix_tokens + N, D)``.

        With ``return_attention=True`` also return a list with each layer's attention weights
        ``(B, heads, T, T)``.
        """
        out: Tensor | tuple[Tensor, list[Tensor]]
        out = self.encoder(self.embedding(x), return_attention=return_attention)
        return out


class ViTClassificationHead(Module):
    """Pool a sequence into one vector and map it to logits.

    Args:
        embed_dim: the width ``D`` of a token.
        num_classes: how many logits ``K``.
        pool: ``"cls"`` reads the first token; ``"mean"`` and ``"max"`` pool the patches, without
            the prefix.
        num_prefix_tokens: how many leading tokens are no patches.
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
        if pool not in _POOLS:
            raise ValueError(f"Expected a pool out of {', '.join(_POOLS)}, but got {pool!r}.")
        if distillation and pool != "cls":
            raise ValueError(f"Expected pool='cls' with distillation, but got {pool!r}.")
        if distillation and fc_norm:
            raise ValueError("Expected no fc_norm with distillation, whose heads pool nothing.")
        self.pool = pool
        self.distillation = distillation
        needed = 2 if distillation else int(pool == "cls")
        self.num_prefix_tokens = count(num_prefix_tokens, "num_prefix_tokens", least=needed)
        self.fc_norm = nn.LayerNorm(embed_dim, eps=norm_eps) if fc_norm else nn.Identity()
        self.head = nn.Linear(count(embed_dim, "embed_dim"), count(num_classes, "num_classes"))
        if distillation:
            self.head_dist = nn.Linear(embed_dim, num_classes)

    def forward(self, x: Tensor) -> Logits:
        """Map encoded tokens ``(B, T, D)`` to logits ``(B, K)``.

        With distillation: in training the pair of both heads' logits, for two losses; in eval mode
        their average.
        """
        check_tokens(x, self.head.in_features, self.head)
        least, got = self.num_prefix_tokens + int(self.pool != "cls"), sizes(x)[1]
        if got < least:
            raise ShapeError(f"Expected a sequence of at least {least} tokens, but got {got}.")
        if self.distillation:
            logits, taught = self.head(x[:, 0]), self.head_dist(x[:, 1])
            return (logits, taught) if self.training else (logits + taught) / 2
        out: Tensor = self.head(self.fc_norm(self._pooled(x)))
        return out

    def _pooled(self, x: Tensor) -> Tensor:
        if self.pool == "cls":
            return x[:, 0]
        patches = x[:, self.num_prefix_tokens :]
        return patches.mean(dim=1) if self.pool == "mean" else patches.amax(dim=1)


class ViTForImageClassification(Module):
    """A Vision Transformer with a classification head: from images to logits.

    Args:
        num_classes: how many logits ``K``.
        pool, distillation, fc_norm: as for :class:`ViTClassificationHead`.
        num_prefix_tokens: by default 2 with distillation, else 1.
        image_size, patch_size, in_channels, embed_dim, num_heads, num_layers, hidden_dim, dropout,
            attn_dropout, dynamic_image_size, norm_eps, activation, final_norm: as for
            :class:`ViTModel`.

    Attributes:
        backbone: :class:`ViTModel`; ``head``: :class:`ViTClassificationHead`.

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
        *,
        pool: str = "cls",
        distillation: bool = False,
        num_prefix_tokens: int | None = None,
        dynamic_image_size: bool = False,
        norm_eps: float = 1e-6,
        activation: str = "gelu",
        final_norm: bool = True,
        fc_norm: bool = False,
    ) -> None:
        super().__init__()
        prefix = (2 if distillation else 1) if num_prefix_tokens is None else num_prefix_tokens
        self.backbone = ViTModel(
            image_size,
            patch_size,
            in_channels,
            embed_dim,
            num_heads,
            num_layers,
            hidden_dim,
            dropout,
            attn_dropout,
            num_prefix_tokens=prefix,
            dynamic_image_size=dynamic_image_size,
            norm_eps=norm_eps,
            activation=activation,
            final_norm=final_norm,
        )
        self.head = ViTClassificationHead(
            embed_dim,
            num_classes,
            pool=pool,
            num_prefix_tokens=prefix,
            distillation=distillation,
            fc_norm=fc_norm,
            norm_eps=norm_eps,
        )

    def forward(
        self, x: Tensor, *, return_attention: bool = False
    ) -> Logits | tuple[Logits, list[Tensor]]:
        """Map images ``(B, C, H, W)`` to logits ``(B, K)``.

        With ``return_attention=True`` also return a list with each layer's attention weights
        ``(B, heads, T, T)``. With distillation the logits are those of the head's ``forward``.
        """
        if return_attention:
            tokens, attention = self.backbone(x, return_attention=True)
            return self.head(tokens), attention
        logits: Logits = self.head(self.backbone(x))
        return logits
