"""How other libraries name the same parameters, and what they mean where names do not say it."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dnnl.models.vit.checks import format_size
from dnnl.models.vit.pretrained.files import Checkpoint, CheckpointError

TOKENS = "backbone.embedding.add_cls_token.cls_token"
TABLE = "backbone.embedding.pos_embed.pos_embed"
PATCH = "backbone.embedding.patch_embed.proj.weight"
NORM = "backbone.encoder.norm.weight"
LAYER = re.compile(r"backbone\.encoder\.layers\.(\d+)\.")

_E, _L = "backbone.embedding.", r"backbone.encoder.layers.\1."


@dataclass(frozen=True)
class Layout:
    """One library's names.

    Attributes:
        name: how messages call it.
        marker: the name of the patch projection, which tells the layout.
        rules: patterns of whole names, and ours. ``@n`` marks the ``n``-th part of what we keep as
            one parameter; ``*`` a factor of what the layer before it returns (layer scale).
        ignored: names that play no part in the output.
        norm_eps: the library's epsilon, which no tensor says.
        like: the name of its settings in :data:`RESIZE_SETTINGS`.
        convert: turns a parameter of the library into torch's shape.
    """

    name: str
    marker: str
    rules: Mapping[str, str]
    like: str
    ignored: str = "(?!)"
    norm_eps: float = 1e-6
    convert: Callable[[str, Tensor], Tensor] = lambda _, tensor: tensor

    def assign(self, names: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
        """Return the names (in order) that make each parameter of ours, and the names left over.

        Raises:
            CheckpointError: if two names stand for one parameter.
        """
        found: dict[str, dict[int, str]] = {}
        unknown = []
        for name in names:
            for pattern, ours in self.rules.items():
                if match := re.fullmatch(pattern, name):
                    target, _, part = match.expand(ours).partition("@")
                    parts = found.setdefault(target, {})
                    if int(part or 0) in parts:
                        raise CheckpointError(f"{name} and {parts[int(part or 0)]} are the same.")
                    parts[int(part or 0)] = name
                    break
            else:
                if not re.fullmatch(self.ignored, name):
                    unknown.append(name)
        return {t: [parts[i] for i in sorted(parts)] for t, parts in found.items()}, unknown


# The DeiT and MAE repositories, and many others, took timm's names.
TIMM = Layout(
    "timm",
    r"patch_embed\.proj\.weight",
    {
        r"cls_token": TOKENS + "@0",
        r"dist_token": TOKENS + "@1",
        r"reg_token": TOKENS + "@2",
        r"pos_embed": TABLE,
        r"patch_embed\.proj\.(weight|bias)": _E + r"patch_embed.proj.\1",
        r"blocks\.(\d+)\.(norm[12]|attn\.qkv|attn\.proj)\.(weight|bias)": _L + r"\2.\3",
        r"blocks\.(\d+)\.mlp\.fc1\.(weight|bias)": _L + r"mlp.net.0.\2",
        r"blocks\.(\d+)\.mlp\.fc2\.(weight|bias)": _L + r"mlp.net.3.\2",
        r"blocks\.(\d+)\.(?:ls1\.gamma|gamma_1)": _L + "attn.proj*",
        r"blocks\.(\d+)\.(?:ls2\.gamma|gamma_2)": _L + "mlp.net.3*",
        r"norm\.(weight|bias)": r"backbone.encoder.norm.\1",
        r"(fc_norm|head|head_dist)\.(weight|bias)": r"head.\1.\2",
    },
    like="timm",
)

# The names on disk, and those that transformers 5 keeps in memory.
_HF_LAYER = r"(?:vit\.|deit\.)?(?:encoder\.layer|layers)\.(\d+)\."
_HF = r"(?:vit\.|deit\.)?"
TRANSFORMERS = Layout(
    "transformers",
    _HF + r"embeddings\.patch_embeddings\.projection\.weight",
    {
        _HF + r"embeddings\.cls_token": TOKENS + "@0",
        _HF + r"embeddings\.distillation_token": TOKENS + "@1",
        _HF + r"embeddings\.position_embeddings": TABLE,
        _HF + r"embeddings\.patch_embeddings\.projection\.(weight|bias)": _E
        + r"patch_embed.proj.\1",
        **{
            _HF_LAYER + rf"attention\.(?:attention\.{part}|{part[0]}_proj)\.(weight|bias)": _L
            + rf"attn.qkv.\2@{i}"
            for i, part in enumerate(("query", "key", "value"))
        },
        _HF_LAYER + r"attention\.(?:output\.dense|o_proj)\.(weight|bias)": _L + r"attn.proj.\2",
        _HF_LAYER + r"layernorm_before\.(weight|bias)": _L + r"norm1.\2",
        _HF_LAYER + r"layernorm_after\.(weight|bias)": _L + r"norm2.\2",
        _HF_LAYER + r"(?:intermediate\.dense|mlp\.fc1)\.(weight|bias)": _L + r"mlp.net.0.\2",
        _HF_LAYER + r"(?:output\.dense|mlp\.fc2)\.(weight|bias)": _L + r"mlp.net.3.\2",
        _HF + r"layernorm\.(weight|bias)": r"backbone.encoder.norm.\1",
        r"(?:cls_)?classifier\.(weight|bias)": r"head.head.\1",
        r"distillation_classifier\.(weight|bias)": r"head.head_dist.\1",
    },
    # The pooler reads the output of the backbone; the mask token replaces patches in pre-training.
    ignored=_HF + r"(?:pooler\.dense\.(?:weight|bias)|embeddings\.mask_token)",
    norm_eps=1e-12,
    like="hf-vit",
)

TORCHVISION = Layout(
    "torchvision",
    r"conv_proj\.weight",
    {
        r"class_token": TOKENS,
        r"encoder\.pos_embedding": TABLE,
        r"conv_proj\.(weight|bias)": _E + r"patch_embed.proj.\1",
        **{
            r"encoder\.layers\.encoder_layer_(\d+)\." + theirs + r"(weight|bias)": _L + ours
            for theirs, ours in {
                r"ln_([12])\.": r"norm\2.\3",
                r"self_attention\.in_proj_": r"attn.qkv.\2",
                r"self_attention\.out_proj\.": r"attn.proj.\2",
                r"mlp\.(?:0|linear_1)\.": r"mlp.net.0.\2",  # linear_1: the released files
                r"mlp\.(?:3|linear_2)\.": r"mlp.net.3.\2",
            }.items()
        },
        r"encoder\.ln\.(weight|bias)": r"backbone.encoder.norm.\1",
        r"heads\.head\.(weight|bias)": r"head.head.\1",
    },
    like="torchvision",
)


def _from_flax(name: str, tensor: Tensor) -> Tensor:
    """Turn a Flax parameter into torch's: kernels have their inputs first."""
    *_, module, kind = ("", *name.split("/"))
    if module in ("query", "key", "value"):  # (D, heads, width), and (heads, width)
        return tensor.flatten(1).T if kind == "kernel" else tensor.flatten(0, 1)
    if kind != "kernel":
        return tensor
    if module == "out":  # (heads, width, D)
        return tensor.flatten(0, 1).T
    return tensor.permute(3, 2, 0, 1) if tensor.dim() == 4 else tensor.transpose(0, -1)


# google-research/vision_transformer; and big_vision, whose modules are counted in another way.
_JAX = r"(?:opt/target/|params/|params/img/)?"
_JAX_LAYER = _JAX + r"Transformer/encoderblock_(\d+)/"
JAX = Layout(
    "JAX",
    _JAX + "embedding/kernel",
    {
        _JAX + "cls": TOKENS,
        _JAX + r"(?:Transformer/posembed_input/)?pos_embedding": TABLE,
        _JAX + "embedding/kernel": PATCH,
        _JAX + "embedding/bias": _E + "patch_embed.proj.bias",
        **{
            _JAX_LAYER + rf"LayerNorm_{n}/{theirs}": _L + rf"norm{norm}.{ours}"
            for n, norm in {"0": 1, "[12]": 2}.items()
            for theirs, ours in {"scale": "weight", "bias": "bias"}.items()
        },
        **{
            _JAX_LAYER + module + "/" + theirs: _L + name.format(ours)
            for module, name in {
                "MultiHeadDotProductAttention_[01]/query": "attn.qkv.{}@0",
                "MultiHeadDotProductAttention_[01]/key": "attn.qkv.{}@1",
                "MultiHeadDotProductAttention_[01]/value": "attn.qkv.{}@2",
                "MultiHeadDotProductAttention_[01]/out": "attn.proj.{}",
                "MlpBlock_[03]/Dense_0": "mlp.net.0.{}",
                "MlpBlock_[03]/Dense_1": "mlp.net.3.{}",
            }.items()
            for theirs, ours in {"kernel": "weight", "bias": "bias"}.items()
        },
        _JAX + "Transformer/encoder_norm/scale": NORM,
        _JAX + "Transformer/encoder_norm/bias": "backbone.encoder.norm.bias",
        _JAX + "head/kernel": "head.head.weight",
        _JAX + "head/bias": "head.head.bias",
    },
    ignored="opt/(?!target/).*",  # what its optimiser remembers
    like="jax",
    convert=_from_flax,
)

LAYOUTS = (TIMM, TRANSFORMERS, TORCHVISION, JAX)


def recognise(names: Iterable[str], title: str) -> Layout:
    """Return the layout of which the patch projection is there.

    Raises:
        CheckpointError: if it is none, or more than one.
    """
    names = list(names)
    found = [
        layout for layout in LAYOUTS if any(re.fullmatch(layout.marker, name) for name in names)
    ]
    if len(found) != 1:
        raise CheckpointError(
            f"{title} has no layout of timm, transformers (ViT, DeiT), torchvision or JAX; "
            f"its names begin with {some(names)}."
        )
    return found[0]


class _Table(NamedTuple):
    """Where a family of models keeps its table, and which of its tokens have a row in it."""

    table: str
    patch: str
    tokens: tuple[str, ...] = ()


# Longest first. The patch projection beside it tells a table of patches from one of words.
_TABLES = (
    _Table(
        "embeddings.position_embeddings",  # transformers: ViT, DeiT, MAE, BEiT, DINOv2 (registers
        "embeddings.patch_embeddings.projection.weight",  # come after the sum: no rows)
        ("embeddings.cls_token", "embeddings.distillation_token"),
    ),
    _Table(
        "embeddings.position_embedding.weight",  # transformers: CLIP; SigLIP has no class token
        "embeddings.patch_embedding.weight",
        ("embeddings.class_embedding",),
    ),
    _Table("positional_embedding", "conv1.weight", ("class_embedding",)),  # OpenAI, open_clip
    _Table("encoder.pos_embedding", "conv_proj.weight", ("class_token",)),  # torchvision
    _Table("Transformer/posembed_input/pos_embedding", "embedding/kernel", ("cls",)),  # JAX
    _Table("pos_embedding", "embedding/kernel"),  # big_vision: the class token comes after the sum
    # timm, DeiT, MAE, BEiT, DINOv2 (whose `register_tokens` come after the sum)
    _Table("pos_embed", "patch_embed.proj.weight", ("cls_token", "dist_token", "reg_token")),
)


def find_table(checkpoint: Checkpoint) -> tuple[str, tuple[int, ...]]:
    """Return the name of the table, and how many rows may stand before those of the patches.

    Two numbers where the layout leaves it open: timm's ``no_embed_class`` gives its tokens no rows
    and is written nowhere.

    Raises:
        CheckpointError: if there is no table, or more than one.
    """
    names, title = checkpoint.shapes, checkpoint.title
    found: dict[str, tuple[int, ...]] = {}
    for table, patch, tokens in _TABLES:
        for name in names:
            prefix = name.removesuffix(table)
            ends = name.endswith(table) and (not prefix or prefix[-1] in "./")
            if not ends or prefix + patch not in names or name in found:
                continue
            rows = 0
            for token in tokens:
                if prefix + token in names:
                    shape = names[prefix + token]
                    rows += shape[-2] if len(shape) > 1 else 1  # CLIP's is a vector
            # A distilled DeiT always has rows for its two tokens.
            unsaid = table == "pos_embed" and rows and prefix + "dist_token" not in names
            found[name] = (rows, 0) if unsaid else (rows,)
    if len(found) == 1:
        return found.popitem()
    if found:
        raise CheckpointError(f"{title} has more than one table: {some(found)}.")
    if relative := [name for name in names if "relative_position" in name or "rel_pos" in name]:
        raise CheckpointError(
            f"{title} has no table of positions: its positions are relative ({some(relative)})."
        )
    raise CheckpointError(
        f"{title} has no table of positions in a layout known here; "
        f"its names begin with {some(names)}."
    )


def fit_grid(
    rows: int, prefixes: Sequence[int], grid_size: tuple[int, int] | None, title: str
) -> tuple[tuple[int, int], int]:
    """Return the grid of a table and how many rows stand before it.

    The rule: the grid is a square, unless ``grid_size`` says something else.

    Raises:
        CheckpointError: if the rule leaves nothing, or a choice.
    """
    fits = []
    for prefix in prefixes:
        side = math.isqrt(max(rows - prefix, 0))
        grid = grid_size or (side, side)
        if grid[0] * grid[1] == rows - prefix > 0:
            fits.append((grid, prefix))
    if len(fits) == 1:
        return fits[0]
    before = " or ".join(map(str, prefixes))
    wanted = format_size(grid_size) if grid_size else "a square"
    raise CheckpointError(
        f"{title}: {rows} rows of positions, {before} of them before the patches', are "
        f"{'more than one grid' if fits else f'not {wanted}'}: pass grid_size=(rows, columns)."
    )


def some(names: Iterable[str]) -> str:
    """List the first few names for a message."""
    names = sorted(map(str, names))
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def as_table(tensor: Tensor, title: str) -> Tensor:
    """Return a table as ``(1, T, D)``; CLIP's and SigLIP's are ``(T, D)``."""
    table = tensor[None] if tensor.dim() == 2 else tensor
    if table.dim() != 3 or table.shape[0] != 1 or 0 in table.shape:
        raise CheckpointError(
            f"{title}: expected a table of positions (1, T, D), but got {tuple(tensor.shape)}."
        )
    if table.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise CheckpointError(f"{title}: expected a floating-point table, not {table.dtype}.")
    return table
