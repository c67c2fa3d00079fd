"""Other libraries' names for the same parameters, and the defaults that names do not show."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from dnnl.models.vit.checks import format_size
from dnnl.models.vit.pretrained.files import Checkpoint, CheckpointError

TOKENS = "backbone.embedding.add_cls_token.cls_token"
TABLE = "backbone.embedding.pos_embed.pos_embed"
PATCH = "backbone.embedding.patch_embed.proj.weight"
PATCH_BIAS = "backbone.embedding.patch_embed.proj.bias"
NORM = "backbone.encoder.norm.weight"
LAYER = re.compile(r"backbone\.encoder\.layers\.(\d+)\.")

_E, _L = "backbone.embedding.", r"backbone.encoder.layers.\1."
_WB = r"\.(weight|bias)"
_ATTENTION_POOL = "attention pooling"


@dataclass(frozen=True)
class Layout:
    """One library's names for one family of models.

    Attributes:
        name: the name used in messages.
        patch: the name of the patch projection; it identifies the layout.
        table: the name of the table of positions.
        tokens: the names of the tokens that have rows in the table.
        rules: patterns of whole names, and our names. ``@n`` marks the ``n``-th part of what we
            keep as one parameter; ``*`` a factor of what the layer before it returns (layer scale).
        prefix: a pattern of what may stand before all of these names.
        marker: the pattern of another name that must be present.
        unless: the pattern of a name that must be absent.
        ignored: the pattern of names that do not affect the output.
        heads: patterns of the names of heads that are not supported, and what they are called.
        resize: the library's settings, a key of :data:`.RESIZE_SETTINGS`.
        norm_eps, activation: the library's defaults.
        optional: our parameters that may be absent, as patterns: they are zero.
        model_types: values of ``model_type`` in a ``config.json`` of transformers.
        dynamic: whether the library resizes the table to each image.
        convert: turns a parameter of the library into torch's shape.
    """

    name: str
    patch: str
    table: str
    tokens: tuple[str, ...]
    rules: Mapping[str, str]
    resize: str
    prefix: str = ""
    marker: str = ""
    unless: str = ""
    ignored: str = "(?!)"
    heads: Mapping[str, str] = field(default_factory=dict)
    norm_eps: float = 1e-6
    activation: str = "gelu"
    optional: str = r".*\.attn\.qkv\.bias"
    model_types: tuple[str, ...] = ()
    dynamic: bool = False
    convert: Callable[[str, Tensor], Tensor] = lambda _, tensor: tensor

    def matches(self, names: Sequence[str]) -> bool:
        """Whether names are of this layout."""
        needed = [re.escape(self.patch), self.marker] if self.marker else [re.escape(self.patch)]
        return all(self._any(pattern, names) for pattern in needed) and not (
            self.unless and self._any(self.unless, names)
        )

    def _any(self, pattern: str, names: Sequence[str]) -> bool:
        return any(re.fullmatch(self.prefix + pattern, name) for name in names)

    def assign(self, names: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
        """Return the names (in order) that make each of our parameters, and the names left over.

        Raises:
            CheckpointError: if two names stand for one parameter.
        """
        found: dict[str, dict[int, str]] = {}
        unknown = []
        for name in names:
            for pattern, rule in self.rules.items():
                if match := re.fullmatch(self.prefix + pattern, name):
                    target, _, part = match.expand(rule).partition("@")
                    parts = found.setdefault(target, {})
                    if int(part or 0) in parts:
                        raise CheckpointError(
                            f"{name} and {parts[int(part or 0)]} name the same parameter."
                        )
                    parts[int(part or 0)] = name
                    break
            else:
                if not re.fullmatch(self.ignored, name):
                    unknown.append(name)
        return {t: [parts[i] for i in sorted(parts)] for t, parts in found.items()}, unknown

    def head_of(self, name: str) -> str | None:
        """Return what the unsupported head is called to which a name belongs, if any."""
        kinds = (kind for pattern, kind in self.heads.items() if re.fullmatch(pattern, name))
        return next(kinds, None)


# The DeiT, DINO, MAE and DINOv2 repositories, and many others, took timm's names.
TIMM = Layout(
    "timm",
    patch="patch_embed.proj.weight",
    table="pos_embed",
    tokens=("cls_token", "dist_token", "reg_token"),
    rules={
        r"cls_token": TOKENS + "@0",
        r"dist_token": TOKENS + "@1",
        r"reg(?:ister)?_tokens?": TOKENS + "@2",
        r"pos_embed": TABLE,
        rf"patch_embed\.proj{_WB}": _E + r"patch_embed.proj.\1",
        rf"norm_pre{_WB}": r"backbone.pre_norm.\1",
        rf"blocks\.(\d+)\.(norm[12]|attn\.qkv|attn\.proj){_WB}": _L + r"\2.\3",
        rf"blocks\.(\d+)\.mlp\.fc1{_WB}": _L + r"mlp.net.0.\2",
        rf"blocks\.(\d+)\.mlp\.fc2{_WB}": _L + r"mlp.net.3.\2",
        r"blocks\.(\d+)\.(?:ls1\.gamma|gamma_1)": _L + "attn.proj*",
        r"blocks\.(\d+)\.(?:ls2\.gamma|gamma_2)": _L + "mlp.net.3*",
        rf"norm{_WB}": r"backbone.encoder.norm.\1",
        rf"(fc_norm|head|head_dist){_WB}": r"head.\1.\2",
    },
    # The mask token replaces patches in pre-training; MAE's decoder reads the output.
    ignored=r"mask_token|decoder_.*",
    heads={r"attn_pool\..*": _ATTENTION_POOL, r"pre_logits\..*": "pre_logits"},
    resize="timm",
)
# Facebook's own DINOv2: timm's names and a mask token (which timm removes), no decoder.
DINOV2_FACEBOOK = replace(
    TIMM,
    name="DINOv2",
    marker="mask_token",
    unless="decoder_.*",
    ignored="mask_token",
    resize="dinov2",  # not quite: Facebook's own resize adds an offset of 0.1, see RESIZE_SETTINGS
)
DINOV2_FACEBOOK_REGISTERS = replace(
    DINOV2_FACEBOOK, marker="register_tokens", resize="dinov2-registers", dynamic=True
)

# The names on disk, and those that transformers 5 keeps in memory.
_HF_LAYER = r"(?:encoder\.layer|layers)\.(\d+)\."
TRANSFORMERS = Layout(
    "transformers",
    patch="embeddings.patch_embeddings.projection.weight",
    table="embeddings.position_embeddings",
    tokens=("embeddings.cls_token", "embeddings.distillation_token"),
    prefix=r"(?:vit\.|deit\.)?",
    rules={
        r"embeddings\.cls_token": TOKENS + "@0",
        r"embeddings\.distillation_token": TOKENS + "@1",
        r"embeddings\.position_embeddings": TABLE,
        rf"embeddings\.patch_embeddings\.projection{_WB}": _E + r"patch_embed.proj.\1",
        **{
            _HF_LAYER + rf"attention\.(?:attention\.{part}|{part[0]}_proj){_WB}": _L
            + rf"attn.qkv.\2@{i}"
            for i, part in enumerate(("query", "key", "value"))
        },
        _HF_LAYER + rf"attention\.(?:output\.dense|o_proj){_WB}": _L + r"attn.proj.\2",
        _HF_LAYER + rf"layernorm_before{_WB}": _L + r"norm1.\2",
        _HF_LAYER + rf"layernorm_after{_WB}": _L + r"norm2.\2",
        _HF_LAYER + rf"(?:intermediate\.dense|mlp\.fc1){_WB}": _L + r"mlp.net.0.\2",
        _HF_LAYER + rf"(?:output\.dense|mlp\.fc2){_WB}": _L + r"mlp.net.3.\2",
        rf"layernorm{_WB}": r"backbone.encoder.norm.\1",
        rf"(?:cls_)?classifier{_WB}": r"head.head.\1",
        rf"distillation_classifier{_WB}": r"head.head_dist.\1",
    },
    # Pooler and decoder (MAE) read the output of the backbone; the mask token replaces patches.
    ignored=r"(?:vit\.|deit\.)?(?:pooler\.dense\.(?:weight|bias)|embeddings\.mask_token)|decoder\..*",
    norm_eps=1e-12,
    resize="hf-vit",
    model_types=("vit", "deit", "vit_mae", "vit_msn"),
)
DINOV2 = replace(
    TRANSFORMERS,
    name="transformers (DINOv2)",
    prefix=r"(?:dinov2\.|dinov2_with_registers\.)?",
    marker=r"(?:encoder\.layer|layers)\.0\.layer_scale1\.lambda1",
    rules={
        **{k: v for k, v in TRANSFORMERS.rules.items() if "classifier" not in k},
        r"embeddings\.register_tokens": TOKENS + "@2",
        _HF_LAYER + rf"(norm[12]){_WB}": _L + r"\2.\3",
        _HF_LAYER + r"layer_scale1\.lambda1": _L + "attn.proj*",
        _HF_LAYER + r"layer_scale2\.lambda1": _L + "mlp.net.3*",
    },
    ignored=r"(?:dinov2\.|dinov2_with_registers\.)?embeddings\.mask_token",
    heads={r"classifier\..*": "a head that reads the class token and the mean of the patches"},
    norm_eps=1e-6,
    resize="dinov2",
    model_types=("dinov2",),
    dynamic=True,
)
DINOV2_REGISTERS = replace(
    DINOV2,
    name="transformers (DINOv2 with registers)",
    marker=r"embeddings\.register_tokens",
    resize="dinov2-registers",
    model_types=("dinov2_with_registers",),
)


def _class_vector(name: str, tensor: Tensor) -> Tensor:
    """Return CLIP's class embedding ``(D,)`` as ``(1, 1, D)``."""
    return tensor[None, None] if name.endswith("class_embedding") else tensor


SIGLIP = Layout(
    "transformers (SigLIP)",
    patch="embeddings.patch_embedding.weight",
    table="embeddings.position_embedding.weight",
    tokens=("embeddings.class_embedding",),
    prefix=r"(?:vision_model\.)?",
    rules={
        rf"embeddings\.patch_embedding{_WB}": _E + r"patch_embed.proj.\1",
        r"embeddings\.position_embedding\.weight": TABLE,
        **{
            rf"encoder\.layers\.(\d+)\.self_attn\.{part}_proj{_WB}": _L + rf"attn.qkv.\2@{i}"
            for i, part in enumerate("qkv")
        },
        rf"encoder\.layers\.(\d+)\.self_attn\.out_proj{_WB}": _L + r"attn.proj.\2",
        rf"encoder\.layers\.(\d+)\.layer_norm([12]){_WB}": _L + r"norm\2.\3",
        rf"encoder\.layers\.(\d+)\.mlp\.fc1{_WB}": _L + r"mlp.net.0.\2",
        rf"encoder\.layers\.(\d+)\.mlp\.fc2{_WB}": _L + r"mlp.net.3.\2",
        rf"post_layernorm{_WB}": r"backbone.encoder.norm.\1",
        rf"classifier{_WB}": r"head.head.\1",
    },
    # The text tower, and what compares images with texts.
    ignored=r"text_model\..*|logit_scale|logit_bias|(?:.*\.)?position_ids",
    heads={r"(?:vision_model\.)?head\..*": _ATTENTION_POOL},
    activation="gelu_tanh",
    resize="hf-vit",
    model_types=("siglip", "siglip_vision_model"),
)
CLIP = replace(
    SIGLIP,
    name="transformers (CLIP)",
    marker=r"pre_layrnorm\.weight",
    rules={
        **{k: v for k, v in SIGLIP.rules.items() if "classifier" not in k},
        r"embeddings\.class_embedding": TOKENS,
        rf"pre_layrnorm{_WB}": r"backbone.pre_norm.\1",
    },
    ignored=SIGLIP.ignored + r"|text_projection\.weight|visual_projection\.weight",
    heads={r"classifier\..*": "a head that reads the mean of the patches before the last norm"},
    norm_eps=1e-5,
    activation="quick_gelu",
    optional=PATCH_BIAS,
    model_types=("clip", "clip_vision_model"),
    convert=_class_vector,
)
OPENAI_CLIP = Layout(
    "OpenAI's CLIP",
    patch="conv1.weight",
    table="positional_embedding",
    tokens=("class_embedding",),
    prefix=r"visual\.",
    rules={
        r"class_embedding": TOKENS,
        r"positional_embedding": TABLE,
        r"conv1\.weight": PATCH,
        rf"ln_pre{_WB}": r"backbone.pre_norm.\1",
        r"transformer\.resblocks\.(\d+)\.attn\.in_proj_(weight|bias)": _L + r"attn.qkv.\2",
        rf"transformer\.resblocks\.(\d+)\.attn\.out_proj{_WB}": _L + r"attn.proj.\2",
        rf"transformer\.resblocks\.(\d+)\.ln_([12]){_WB}": _L + r"norm\2.\3",
        rf"transformer\.resblocks\.(\d+)\.mlp\.c_fc{_WB}": _L + r"mlp.net.0.\2",
        rf"transformer\.resblocks\.(\d+)\.mlp\.c_proj{_WB}": _L + r"mlp.net.3.\2",
        rf"ln_post{_WB}": r"backbone.encoder.norm.\1",
    },
    ignored=r"(?!visual\.).*|visual\.proj",
    norm_eps=1e-5,
    activation="quick_gelu",
    optional=PATCH_BIAS,
    resize="timm",  # open_clip resizes so; OpenAI's own code does not resize
    convert=_class_vector,
)

TORCHVISION = Layout(
    "torchvision",
    patch="conv_proj.weight",
    table="encoder.pos_embedding",
    tokens=("class_token",),
    rules={
        r"class_token": TOKENS,
        r"encoder\.pos_embedding": TABLE,
        rf"conv_proj{_WB}": _E + r"patch_embed.proj.\1",
        **{
            r"encoder\.layers\.encoder_layer_(\d+)\." + source + r"(weight|bias)": _L + target
            for source, target in {
                r"ln_([12])\.": r"norm\2.\3",
                r"self_attention\.in_proj_": r"attn.qkv.\2",
                r"self_attention\.out_proj\.": r"attn.proj.\2",
                r"mlp\.(?:0|linear_1)\.": r"mlp.net.0.\2",  # linear_1: the released files
                r"mlp\.(?:3|linear_2)\.": r"mlp.net.3.\2",
            }.items()
        },
        rf"encoder\.ln{_WB}": r"backbone.encoder.norm.\1",
        rf"heads\.head{_WB}": r"head.head.\1",
    },
    heads={r"heads\.pre_logits\..*": "pre_logits"},
    resize="torchvision",
)


def _from_flax(name: str, tensor: Tensor) -> Tensor:
    """Turn a Flax parameter into torch's: kernels have their inputs first."""
    *_, module, kind = ("", *name.split("/"))
    if module in ("query", "key", "value"):  # (D, heads, width), and (heads, width)
        return tensor.flatten(1).transpose(0, 1) if kind == "kernel" else tensor.flatten(0, 1)
    if kind != "kernel":
        return tensor
    if module == "out":  # (heads, width, D)
        return tensor.flatten(0, 1).transpose(0, 1)
    return tensor.permute(3, 2, 0, 1) if tensor.dim() == 4 else tensor.transpose(0, -1)


# google-research/vision_transformer; and big_vision, whose modules are counted in another way.
_JAX_LAYER = r"Transformer/encoderblock_(\d+)/"
JAX = Layout(
    "JAX",
    patch="embedding/kernel",
    table="Transformer/posembed_input/pos_embedding",
    tokens=("cls",),
    prefix=r"(?:opt/target/|params/|params/img/)?",
    rules={
        "cls": TOKENS,
        r"(?:Transformer/posembed_input/)?pos_embedding": TABLE,
        "embedding/kernel": PATCH,
        "embedding/bias": _E + "patch_embed.proj.bias",
        **{
            _JAX_LAYER + rf"LayerNorm_{n}/{source}": _L + rf"norm{norm}.{target}"
            for n, norm in {"0": 1, "[12]": 2}.items()
            for source, target in {"scale": "weight", "bias": "bias"}.items()
        },
        **{
            _JAX_LAYER + module + "/" + source: _L + name.format(target)
            for module, name in {
                "MultiHeadDotProductAttention_[01]/query": "attn.qkv.{}@0",
                "MultiHeadDotProductAttention_[01]/key": "attn.qkv.{}@1",
                "MultiHeadDotProductAttention_[01]/value": "attn.qkv.{}@2",
                "MultiHeadDotProductAttention_[01]/out": "attn.proj.{}",
                "MlpBlock_[03]/Dense_0": "mlp.net.0.{}",
                "MlpBlock_[03]/Dense_1": "mlp.net.3.{}",
            }.items()
            for source, target in {"kernel": "weight", "bias": "bias"}.items()
        },
        "Transformer/encoder_norm/scale": NORM,
        "Transformer/encoder_norm/bias": "backbone.encoder.norm.bias",
        "head/kernel": "head.head.weight",
        "head/bias": "head.head.bias",
    },
    ignored="opt/(?!target/).*",  # what its optimiser remembers
    heads={r"(?:.*/)?pre_logits/.*": "pre_logits", r"(?:.*/)?MAPHead_0/.*": _ATTENTION_POOL},
    resize="jax",
    convert=_from_flax,
)

# A family that has one more name than another stands before it.
LAYOUTS = (
    DINOV2_FACEBOOK_REGISTERS,
    DINOV2_FACEBOOK,
    TIMM,
    DINOV2_REGISTERS,
    DINOV2,
    TRANSFORMERS,
    CLIP,
    SIGLIP,
    OPENAI_CLIP,
    TORCHVISION,
    JAX,
)

# Unsupported parts, and the names of tensors that identify them.
_PARTS = {
    r"mlp[./](w12|w3|weights_in|weights_out)|mlp\.fc1_[gx]": "a SwiGLU MLP",
    r"[qk]_norm|[qk]norm": "normalised queries and keys",
    r"rel_pos|relative_position": "relative positions",
    r"rope|rotary": "rotary positions",
}


def recognise(names: Iterable[str], title: str) -> Layout:
    """Return the layout whose patch projection is among ``names``.

    Raises:
        CheckpointError: if there is no such layout, or more than one library's.
    """
    names = list(names)
    if TABLE in names or TABLE.removeprefix("backbone.") in names:
        raise CheckpointError(
            f"{title} is a state dict of this package: build the model with from_config, then call "
            "its load_state_dict; or keep models with save_pretrained."
        )
    found: dict[str, Layout] = {}
    for layout in LAYOUTS:
        if layout.patch not in found and layout.matches(names):
            found[layout.patch] = layout
    if len(found) != 1:
        raise CheckpointError(
            f"{title} does not have the names of a ViT in timm, transformers (ViT, DeiT, MAE, "
            "DINOv2, CLIP, SigLIP), torchvision, OpenAI's CLIP or JAX. (Remove a prefix that all "
            f"names have, such as 'backbone.', first.) Its names begin with {first_few(names)}."
        )
    return next(iter(found.values()))


def missing_part(names: Iterable[str]) -> str:
    """Return the unsupported part that tensor names show, in brackets; else an empty text."""
    for pattern, part in _PARTS.items():
        if any(re.search(pattern, name) for name in names):
            return f" ({part})"
    return ""


# Tables of other models, whose function is not that of a ViT here, are found all the same.
_TABLES = (
    *LAYOUTS,
    replace(JAX, table="pos_embedding", tokens=()),  # big_vision: the class token comes after
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
    # Longest first; the patch projection beside it tells a table of patches from one of words.
    for layout in sorted(_TABLES, key=lambda layout: -len(layout.table)):
        for name in names:
            prefix = name.removesuffix(layout.table)
            ends = name.endswith(layout.table) and (not prefix or prefix[-1] in "./")
            if not ends or prefix + layout.patch not in names or name in found:
                continue
            rows = 0
            for token in layout.tokens:
                if prefix + token in names:
                    shape = names[prefix + token]
                    rows += shape[-2] if len(shape) > 1 else 1  # CLIP's is a vector
            # A distilled DeiT always has rows for its two tokens.
            open_question = (
                layout.table == TIMM.table and rows and prefix + "dist_token" not in names
            )
            found[name] = (rows, 0) if open_question else (rows,)
    if len(found) == 1:
        return found.popitem()
    if found:
        raise CheckpointError(f"{title} has more than one table: {first_few(found)}.")
    if relative := [name for name in names if "relative_position" in name or "rel_pos" in name]:
        raise CheckpointError(
            f"{title} has no table of positions; its positions are relative: {first_few(relative)}."
        )
    raise CheckpointError(
        f"{title} has no table of positions in a layout known here; "
        f"its names begin with {first_few(names)}."
    )


def fit_grid(
    rows: int, prefixes: Sequence[int], grid_size: tuple[int, int] | None, title: str
) -> tuple[tuple[int, int], int]:
    """Return the grid of a table and how many rows stand before it.

    The rule: the grid is a square, unless ``grid_size`` says something else.

    Raises:
        CheckpointError: if no grid fits the rule, or more than one.
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
    table = f"a table of {rows} rows with {before} prefix rows"
    if grid_size:
        raise CheckpointError(f"{title}: {table} does not fit grid_size {format_size(grid_size)}.")
    found = "more than one grid" if fits else "no square grid"
    raise CheckpointError(f"{title}: {table} fits {found}: pass grid_size=(rows, columns).")


def first_few(names: Iterable[str]) -> str:
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
