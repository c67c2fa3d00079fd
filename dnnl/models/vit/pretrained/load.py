"""Real checkpoints: whole models of other libraries, and their tables of positions alone."""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dnnl.models.vit.checks import ShapeError, Size, as_int, as_pair, grid_shape
from dnnl.models.vit.config import ViTConfig
from dnnl.models.vit.encoder import ViTForImageClassification, ViTModel
from dnnl.models.vit.positions import RESIZE_SETTINGS, interpolate_pos_embedding
from dnnl.models.vit.pretrained.files import (
    Checkpoint,
    CheckpointError,
    Source,
    open_local,
    read_json,
    reading,
)
from dnnl.models.vit.pretrained.folder import load_own, own_description
from dnnl.models.vit.pretrained.hub import Repository, hub_id
from dnnl.models.vit.pretrained.layouts import (
    CLIP,
    JAX,
    LAYER,
    PATCH,
    PATCH_BIAS,
    TABLE,
    TIMM,
    TOKENS,
    Layout,
    as_table,
    find_table,
    first_few,
    fit_grid,
    missing_part,
    recognise,
)
from dnnl.models.vit.pretrained.preprocess import (
    Preprocess,
    from_timm,
    from_torchvision,
    from_transformers,
)

# Tables 1 of the ViT and DeiT papers: heads are 64 wide, but in ViT-H (1280) 80.
_WIDEST, _HEAD_WIDTH, _HEADS_OF_HUGE = 1024, 64, {1280: 16}
_HEADS_OF = {"vit_base_patch16_gap_224": 16}  # the one ViT of timm that has others

_POOLS = {"token": "cls", "avg": "mean", "max": "max"}  # timm's words
_ACTIVATIONS = {
    "gelu": "gelu",
    "quick_gelu": "quick_gelu",
    "quickgelu": "quick_gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_LAYER_0 = "backbone.encoder.layers.0."

# The arguments of timm's VisionTransformer that are read here, leave a trace in the names, or have
# no effect outside training; with any other argument the function may be another one.
_TIMM_ARGUMENTS = {
    *("img_size", "patch_size", "in_chans", "num_classes", "global_pool", "embed_dim", "depth"),
    *("num_heads", "mlp_ratio", "qkv_bias", "init_values", "class_token", "no_embed_class"),
    *("reg_tokens", "pre_norm", "final_norm", "fc_norm", "dynamic_img_size", "norm_layer"),
    *("act_layer", "weight_init", "fix_init", "drop_rate", "pos_drop_rate", "patch_drop_rate"),
    *("proj_drop_rate", "attn_drop_rate", "drop_path_rate", "pos_embed", "qk_norm", "proj_bias"),
    *("scale_attn_norm", "scale_mlp_norm"),
}


class PosEmbedding(NamedTuple):
    """A table of positions out of a checkpoint: what :func:`interpolate_pos_embedding` asks for.

    Attributes:
        table: ``(1, num_prefix_tokens + rows * columns, D)``, in the checkpoint's dtype.
        grid_size: ``(rows, columns)`` of the patches.
        num_prefix_tokens: how many leading rows belong to no patch.
    """

    table: Tensor
    grid_size: tuple[int, int]
    num_prefix_tokens: int


def extract_pos_embedding(
    source: Source,
    *,
    grid_size: Size | None = None,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> PosEmbedding:
    """Return the table of positions of a checkpoint, and how to read it.

    It is found in checkpoints of timm, DeiT, DINO, DINOv2 (also with registers, which have no
    rows), MAE and BEiT (with a table); of transformers (the same, CLIP and SigLIP); of OpenAI's
    CLIP and open_clip; of torchvision; and in JAX's npz files. A file of the hub is read from the
    local cache where it is there; else two or three requests bring the header and the table of a
    safetensors file, and nothing else of it.

    Args:
        source: a state dict, a path, or the id ``"owner/name"`` of a hub repository, as for
            :func:`load_pretrained`.
        grid_size: the grid of the table, if it is not square.
        filename: the file to read in a folder or repository, if not its ``model.safetensors``.
        revision: a branch, tag or commit of the repository.
        token: an access token of the hub, if not the one that is logged in.

    Returns:
        PosEmbedding: ``(table, grid_size, num_prefix_tokens)``. Whether a class token has a row is
        read from the names of the tensors; where timm leaves it open (``no_embed_class``), the one
        of both readings that leaves a full grid holds.

    Raises:
        CheckpointError: if there is no such table (relative or rotary positions), if its rows fit
            no grid, or if the file or the server is not what it should be.
        ImportError: if huggingface_hub is needed and not installed (``dnnl[pretrained]``).

    Source: the libraries' own code; safetensors' format: https://github.com/huggingface/safetensors
    """
    grid = None if grid_size is None else as_pair(grid_size, "grid_size")
    repository = hub_id(source)
    if repository is None:
        checkpoint = open_local(source, filename)
    else:
        checkpoint = Repository(repository, revision, token).table(filename)
    if own_description(checkpoint) is not None:
        return _own_pos_embedding(checkpoint)
    name, prefixes = find_table(checkpoint)
    with reading(checkpoint.title):  # a hostile header has sizes that no tensor can have
        rows = as_table(torch.empty(checkpoint.shapes[name], device="meta"), name).shape[1]
    grid, prefix = fit_grid(rows, prefixes, grid, checkpoint.title)
    table = as_table(checkpoint.read(name), name)
    return PosEmbedding(table.detach().clone(), grid, prefix)  # not a view of the file


def _own_pos_embedding(checkpoint: Checkpoint) -> PosEmbedding:
    """Return the table of a model that this package saved."""
    about = own_description(checkpoint) or {}
    with _errors_of(checkpoint.title):
        config = ViTConfig.from_dict(about["config"])
        grid = grid_shape(as_pair(config.image_size, ""), as_pair(config.patch_size, ""))
    names = [n for n in checkpoint.shapes if TABLE.endswith(n)]
    if not names:
        raise CheckpointError(f"{checkpoint.title} has no table of positions.")
    return PosEmbedding(checkpoint.read(names[0]).clone(), grid, config.prefix)


def load_pretrained(
    source: Source,
    *,
    image_size: Size | None = None,
    dynamic_image_size: bool | None = None,
    num_classes: int | None = None,
    num_heads: int | None = None,
    norm_eps: float | None = None,
    activation: str | None = None,
    pool: str | None = None,
    grid_size: Size | None = None,
    config: Mapping[str, Any] | str | PathLike[str] | None = None,
    preprocess: Any = None,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    strict: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ViTForImageClassification | ViTModel:
    """Return a pretrained Vision Transformer that gives its own library's numbers.

    The layout is told by the names: timm and all that took its names (ViT, DeiT with and without
    distillation, MAE, Facebook's DINOv2, ``no_embed_class``, ``fc_norm``, registers), transformers
    (ViT, DeiT, MAE, DINOv2 with and without registers; the vision towers of CLIP and SigLIP),
    OpenAI's CLIP, torchvision, and JAX's npz files; and what ``save_pretrained`` of this package
    wrote. Layer scale is multiplied into the layer before it. What shapes do not say is taken
    from a keyword, else from the ``config.json`` beside the weights, else from the rule below.
    A model of another function under the same names is refused if its configuration says so.

    The result knows how to prepare a photograph (``model.preprocess``) and what its logits stand
    for (``model.labels``), where the checkpoint says it::

        model = vit.load_pretrained("google/vit-base-patch16-224")
        logits = model(model.preprocess(photograph))
        print(model.labels[logits.argmax()])

    Args:
        source: a state dict; the path of a ``.safetensors``, ``.npz``, ``.pt``, ``.pth`` or
            ``.bin`` file (pickled code is never run); the path of a folder that ``save_pretrained``
            wrote; or the id ``"owner/name"`` of a hub repository. Of a training checkpoint with
            averaged weights (EMA) those are taken, as timm does.
        image_size: the images to come, if not those of the checkpoint. The table is resized as its
            library does it (:data:`RESIZE_SETTINGS`).
        dynamic_image_size: accept every image that the patch divides, and resize the table as its
            library does it. The rule: False, but True for DINOv2, whose libraries do so.
        num_classes: how many logits. Another number than the checkpoint's puts a fresh head in its
            place, 0 leaves the head out.
        num_heads: how many attention heads. JAX's shapes say it; the rule for the others: heads are
            64 wide up to ``D = 1024``, ViT-H (1280) has 16, and beyond it must be given.
        norm_eps: epsilon of the layer norms. The rule: 1e-12 for transformers' ViT, DeiT and MAE,
            1e-5 for CLIP, 1e-6 for the others.
        activation: as for :class:`ViTMLP`. The rule: ``"gelu"``, with which timm and transformers
            run these checkpoints, JAX's too (Flax's own is ``"gelu_tanh"``); ``"quick_gelu"`` for
            CLIP and ``"gelu_tanh"`` for SigLIP.
        pool: as for :class:`ViTClassificationHead`. The rule: ``"mean"`` if there is no class token
            or a norm behind the pool, else ``"cls"``.
        grid_size: the grid of the checkpoint's own table. The rule: a square.
        config: a ``config.json``, or its content, in place of the one beside the weights.
        preprocess: a :class:`Preprocess`, or the ``transforms()`` of torchvision weights, in place
            of what the checkpoint says.
        filename: the file to read in a folder or repository, if not ``model.safetensors`` (one or
            several) or ``pytorch_model.bin``.
        revision: a branch, tag or commit of the repository.
        token: an access token of the hub, if not the one that is logged in.
        strict: whether names that the layout does not have are an error; else they are left out,
            with a warning.
        device: where the model is put; by default the CPU.
        dtype: the dtype of its parameters; by default torch's default dtype, or the saved one for
            a model of this package.

    Returns:
        ViTForImageClassification | ViTModel: the model in eval mode; the backbone alone where there
        is no head.

    Raises:
        CheckpointError: if the file is damaged, hostile, of another layout or model; if names are
            missing or unknown, or a shape does not fit; if a setting must be given.
        ShapeError: if the patch does not divide ``image_size``.
        ImportError: if a package of ``dnnl[pretrained]`` is needed and not installed.

    Source: the libraries' own code; arXiv:2010.11929; for DeiT arXiv:2012.12877.
    """
    checkpoint = _open(source, config, filename, revision, token)
    given = None if preprocess is None else _as_preprocess(preprocess)
    about = own_description(checkpoint)
    keywords = {
        "image_size": image_size,
        "dynamic_image_size": dynamic_image_size,
        "num_classes": num_classes,
        "num_heads": num_heads,
        "norm_eps": norm_eps,
        "activation": activation,
        "pool": pool,
        "grid_size": grid_size,
    }
    if about is None:
        model = _convert(checkpoint, keywords, strict)
    elif changed := [name for name, value in keywords.items() if value is not None]:
        raise CheckpointError(
            f"{checkpoint.title} was saved by this package: {changed[0]}= cannot change it."
        )
    else:
        model = load_own(checkpoint, about)
    if given is not None:
        model.preprocess = given
    return model.to(device=device, dtype=dtype)


def _open(
    source: Source,
    config: Mapping[str, Any] | str | PathLike[str] | None,
    filename: str | None,
    revision: str | None,
    token: str | bool | None,
) -> Checkpoint:
    repository = hub_id(source)
    if repository is None:
        checkpoint = open_local(source, filename, with_config=config is None)
    else:
        hub = Repository(repository, revision, token)
        checkpoint = hub.download(filename, with_config=config is None)
    if isinstance(config, Mapping):
        checkpoint.config = config
    elif isinstance(config, (str, PathLike)):
        checkpoint.config = read_json(Path(config))
    elif config is not None:
        raise CheckpointError(
            f"Expected config as a mapping or the path of a file, but got {config!r}."
        )
    return checkpoint


def _convert(
    checkpoint: Checkpoint, keywords: Mapping[str, Any], strict: bool
) -> ViTForImageClassification | ViTModel:
    """Return the model of another library's checkpoint."""
    parameters = _Parameters.of(checkpoint, keywords["num_classes"], strict)
    settings = _Settings(parameters, keywords, checkpoint.config or {})
    table_name, prefixes = find_table(checkpoint)
    rows = as_table(parameters.on_meta(TABLE), table_name).shape[1]
    patch_size = settings.patch_size()
    old_grid, rows_of_prefix = fit_grid(rows, prefixes, settings.grid(patch_size), checkpoint.title)
    vit_config = settings.config(old_grid, patch_size)
    new_grid = grid_shape(as_pair(vit_config.image_size, "image_size"), patch_size)
    kind = ViTForImageClassification if vit_config.num_classes else ViTModel
    with _errors_of(checkpoint.title), torch.device("meta"):  # no storage, no random numbers yet
        model = kind.from_config(vit_config)

    outer = "" if vit_config.num_classes else "backbone."
    fresh = _fresh_head(parameters, vit_config)
    state = {}
    with torch.no_grad(), reading(checkpoint.title):
        for name, target in model.state_dict().items():
            ours = outer + name
            value = fresh[ours] if ours in fresh else parameters.read(ours, target)
            if ours == TABLE:
                value = _with_rows_for(
                    vit_config.prefix, as_table(value, table_name), rows_of_prefix
                )
                value = interpolate_pos_embedding(
                    value,
                    old_grid,
                    new_grid,
                    num_prefix_tokens=vit_config.prefix,
                    **RESIZE_SETTINGS[vit_config.resize],
                )
            parameters.check(ours, value, target)
            # A copy: not a view of a file or of the caller's tensor; in the model's memory format.
            state[name] = torch.empty_like(target, device="cpu").copy_(value)
    if left := parameters.sources.keys() - parameters.used:
        raise CheckpointError(
            f"{checkpoint.title} is incomplete: something is missing beside {first_few(left)}."
        )
    model.load_state_dict(state, assign=True)
    model.preprocess = settings.preprocess(as_pair(vit_config.image_size, "image_size"))
    model.labels = settings.labels(vit_config.num_classes)
    return model.eval()


def _with_rows_for(prefix: int, table: Tensor, rows_of_prefix: int) -> Tensor:
    """Give tokens that have no row in a table one of zeros, behind those that have one."""
    zeros = table.new_zeros(1, prefix - rows_of_prefix, table.shape[2])
    return torch.cat([table[:, :rows_of_prefix], zeros, table[:, rows_of_prefix:]], dim=1)


def _fresh_head(parameters: "_Parameters", config: ViTConfig) -> dict[str, Tensor]:
    """Return a new head where the checkpoint's own is not wanted; nothing if it is."""
    if not config.num_classes or parameters.has("head.head."):
        return {}
    head = nn.Linear(config.embed_dim, config.num_classes, device="cpu")
    return {f"head.head.{name}": value for name, value in head.state_dict().items()}


def _as_preprocess(value: Any) -> Preprocess:
    return value if isinstance(value, Preprocess) else from_torchvision(value)


@dataclass
class _Parameters:
    """A checkpoint whose tensors are read by our names."""

    checkpoint: Checkpoint
    layout: Layout
    sources: dict[str, list[str]]
    used: set[str] = field(default_factory=set)
    final_norm: bool = True

    @classmethod
    def of(cls, checkpoint: Checkpoint, num_classes: int | None, strict: bool) -> "_Parameters":
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
        if num_classes is not None or self._reads_patches_alone():
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


@dataclass
class _Settings:
    """What shapes do not say: a keyword, else the configuration, else a rule."""

    parameters: _Parameters
    keywords: Mapping[str, Any]
    file: Mapping[str, Any]

    def __post_init__(self) -> None:
        layout = self.parameters.layout
        transformers = bool(layout.model_types)
        self.hf = _mapping(self.file.get("vision_config", self.file)) if transformers else {}
        self.timm = self.file if layout.patch == TIMM.patch else {}
        self.timm_args = _mapping(self.timm.get("model_args"))
        self._refuse_other_models()

    def _refuse_other_models(self) -> None:
        """Raise if the configuration is of a model that computes something else."""
        kind = self.file.get("model_type") if self.parameters.layout.model_types else None
        if kind is not None and kind not in self.parameters.layout.model_types:
            raise CheckpointError(f"{self.title}: model_type {kind!r} is not supported.")
        # Some of timm's models differ from a ViT in what leaves no trace in names and shapes:
        # rotary positions, the approximate GELU of SigLIP, norms behind the layers (rpn).
        name = str(self.timm.get("architecture", "vit_"))
        if not re.match("(vit|deit3?|flexivit)_", name) or re.search("rope|siglip|rpn", name):
            raise CheckpointError(f"{self.title}: {name} is not a plain ViT.")
        for key, value in {**_only(self.timm, "pool_include_prefix"), **self.timm_args}.items():
            if value and key not in _TIMM_ARGUMENTS:
                raise CheckpointError(f"{self.title}: {key}={value!r} is not supported.")

    @property
    def title(self) -> str:
        return self.parameters.checkpoint.title

    def patch_size(self) -> tuple[int, int]:
        _, _, height, width = self.parameters.shape(PATCH, dims=4)
        return height, width

    def config(self, old_grid: tuple[int, int], patch_size: tuple[int, int]) -> ViTConfig:
        """Return the settings of the whole model."""
        parameters, layout = self.parameters, self.parameters.layout
        dim, channels, *_ = parameters.shape(PATCH, dims=4)
        prefix = parameters.shape(TOKENS, dims=3)[1] if TOKENS in parameters.sources else 0
        classes = self.keywords["num_classes"]
        dynamic = self.keywords["dynamic_image_size"]
        size = self.keywords["image_size"]
        if size is None:
            size = (old_grid[0] * patch_size[0], old_grid[1] * patch_size[1])
        grid_shape(as_pair(size, "image_size"), patch_size)  # a ShapeError is the caller's own
        with _errors_of(self.title):
            return ViTConfig(
                image_size=size,
                patch_size=patch_size,
                in_channels=channels,
                num_classes=parameters.num_classes if classes is None else classes,
                embed_dim=dim,
                num_heads=self.heads(dim),
                num_layers=self.layers(),
                hidden_dim=parameters.shape(_LAYER_0 + "mlp.net.0.weight", dims=2)[0],
                pool=self.pool(),
                distillation=parameters.has("head.head_dist."),
                num_prefix_tokens=prefix,
                dynamic_image_size=layout.dynamic if dynamic is None else dynamic,
                resize=layout.resize,
                norm_eps=self.eps(),
                activation=self.activation(),
                pre_norm=parameters.has("backbone.pre_norm."),
                final_norm=parameters.final_norm,
                fc_norm=parameters.has("head.fc_norm."),
            )

    def heads(self, dim: int) -> int:
        name, wanted = _LAYER_0 + "attn.qkv.weight", self.keywords["num_heads"]
        if self.parameters.layout is JAX and name in self.parameters.sources:
            shape = self.parameters.checkpoint.shapes[self.parameters.sources[name][0]]
            if len(shape) != 3 or wanted not in (None, shape[1]):
                raise CheckpointError(f"{self.title}: its attention has the shape {shape}.")
            return shape[1]
        for heads in (
            wanted,
            self.hf.get("num_attention_heads"),
            self.timm_args.get("num_heads"),
            _HEADS_OF.get(str(self.timm.get("architecture"))),
            _HEADS_OF_HUGE.get(dim),
        ):
            if heads is not None:
                return as_int(heads, "num_heads")
        if dim > _WIDEST or dim % _HEAD_WIDTH:
            raise CheckpointError(
                f"{self.title}: no shape says how many heads share the width {dim}: "
                "pass num_heads= or config=."
            )
        return dim // _HEAD_WIDTH

    def layers(self) -> int:
        """Return how many layers there are, if all are of one kind and none was lost."""
        kinds: dict[str, int] = {}
        for ours in self.parameters.sources:
            if LAYER.match(ours):
                kind = LAYER.sub("", ours)
                kinds[kind] = kinds.get(kind, 0) + 1
        found = max(kinds.values(), default=0)
        if fewer := [kind for kind, number in kinds.items() if number < found]:
            raise CheckpointError(f"{self.title}: not every layer has {first_few(fewer)}.")
        expected = self.hf.get("num_hidden_layers", self.timm_args.get("depth"))
        if expected not in (None, found):
            raise CheckpointError(
                f"{self.title}: it has {found} layers, but its configuration says {expected}."
            )
        return found

    def eps(self) -> float:
        eps = self.keywords["norm_eps"]
        if eps is None:
            if "norm_layer" in self.timm_args:
                raise CheckpointError(
                    f"{self.title}: this model uses a custom norm layer; pass norm_eps=..."
                )
            clip = self.parameters.has("backbone.pre_norm.")
            rule = CLIP.norm_eps if clip else self.parameters.layout.norm_eps
            eps = self.hf.get("layer_norm_eps", rule)
        if not isinstance(eps, (int, float)) or isinstance(eps, bool) or not 0 < eps < math.inf:
            raise CheckpointError(f"{self.title}: expected a positive norm_eps, but got {eps!r}.")
        return float(eps)

    def activation(self) -> str:
        if self.keywords["activation"] is not None:
            return self.keywords["activation"]
        rule = self.parameters.layout.activation
        if "quickgelu" in str(self.timm.get("architecture")):
            rule = "quick_gelu"
        name = self.hf.get("hidden_act", self.timm_args.get("act_layer", rule))
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise CheckpointError(f"{self.title}: the activation {name!r} is not supported.")
        return _ACTIVATIONS[name]

    def pool(self) -> str:
        if self.keywords["pool"] is not None:
            return self.keywords["pool"]
        name = self.timm.get("global_pool", self.timm_args.get("global_pool"))
        if name is None:
            tokens = self.parameters.sources.get(TOKENS, [])
            has_class = any(re.search(r"(cls|class)(_token|_embedding)?$", n) for n in tokens)
            return "cls" if has_class and not self.parameters.has("head.fc_norm.") else "mean"
        if self.keywords["num_classes"] == 0:
            return "cls"  # has no effect
        if not isinstance(name, str) or name not in _POOLS:
            raise CheckpointError(f"{self.title}: the pool {name!r} is not supported.")
        return _POOLS[name]

    def grid(self, patch_size: tuple[int, int]) -> tuple[int, int] | None:
        """Return the grid of the checkpoint's own table, or None if nothing says it."""
        if self.keywords["grid_size"] is not None:
            return as_pair(self.keywords["grid_size"], "grid_size")
        size = self.hf.get("image_size", self.timm_args.get("img_size"))
        if size is None:
            sizes = _mapping(self.timm.get("pretrained_cfg")).get("input_size")
            size = sizes[1:] if isinstance(sizes, list) and None not in sizes else None
        if size is None:
            return None
        with _errors_of(self.title):
            return grid_shape(as_pair(size, "image_size"), patch_size)

    def preprocess(self, image_size: tuple[int, int]) -> Preprocess | None:
        """Return what the checkpoint does to a photograph, or None if it does not say it."""
        file = self.parameters.checkpoint.preprocessor
        timm = _mapping(self.timm.get("pretrained_cfg"))
        try:
            if file is not None and self.parameters.layout.model_types:
                found = from_transformers(file, image_size)
            elif _is_size(timm.get("input_size")):
                found = from_timm(timm)
            else:
                return None
        except (KeyError, TypeError, ValueError) as error:
            warnings.warn(
                f"{self.title}: its preprocessing is not supported ({error}), so that "
                "model.preprocess is None.",
                stacklevel=4,
            )
            return None
        if self.keywords["image_size"] is not None:
            return found.for_size(image_size)
        return found

    def labels(self, num_classes: int) -> tuple[str, ...]:
        """Return what the logits stand for, or nothing if that is not said of each."""
        if self.keywords["num_classes"] is not None or not num_classes:
            return ()
        names: Any = self.file.get("id2label")
        if isinstance(names, Mapping):
            names = [names.get(str(i), names.get(i)) for i in range(num_classes)]
        else:
            timm = {**_mapping(self.timm.get("pretrained_cfg")), **self.timm}
            names, texts = timm.get("label_names"), timm.get("label_descriptions")
            if isinstance(names, list) and isinstance(texts, Mapping):
                names = [texts.get(name, name) for name in names]
        ok = isinstance(names, list) and len(names) == num_classes
        return tuple(names) if ok and all(isinstance(name, str) for name in names) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_size(value: Any) -> bool:
    """Whether a value of ``input_size`` says channels, height and width."""
    return (
        isinstance(value, (list, tuple)) and len(value) == 3 and all(type(n) is int for n in value)
    )


def _only(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: mapping[key] for key in keys if key in mapping}


@contextmanager
def _errors_of(title: str) -> Iterator[None]:
    """Re-raise what a configuration or shapes make impossible as a CheckpointError."""
    try:
        yield
    except CheckpointError:
        raise
    except (ShapeError, ValueError) as error:
        raise CheckpointError(f"{title}: {error}") from error
