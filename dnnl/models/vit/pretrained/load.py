"""Real checkpoints: whole models of other libraries, and their tables of positions alone."""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dnnl.models.vit.checks import Size, as_int, as_pair, grid_shape
from dnnl.models.vit.encoder import ViTForImageClassification, ViTModel
from dnnl.models.vit.positions import RESIZE_SETTINGS, interpolate_pos_embedding
from dnnl.models.vit.pretrained.files import (
    Checkpoint,
    CheckpointError,
    Source,
    is_hub_id,
    open_checkpoint,
    reading,
)
from dnnl.models.vit.pretrained.layouts import (
    JAX,
    LAYER,
    PATCH,
    TABLE,
    TIMM,
    TOKENS,
    TRANSFORMERS,
    Layout,
    as_table,
    find_table,
    fit_grid,
    recognise,
    some,
)

# Tables 1 of the ViT and DeiT papers: heads are 64 wide, but in ViT-H (1280) 80.
_WIDEST, _HEAD_WIDTH, _HEADS_OF_HUGE = 1024, 64, {1280: 16}
_HEADS_OF = {"vit_base_patch16_gap_224": 16}  # the one ViT of timm that has others

_POOLS = {"token": "cls", "avg": "mean", "max": "max"}  # timm's words
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_LAYER_0 = "backbone.encoder.layers.0."


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
    CLIP and open_clip; of torchvision; and in JAX's npz files. From the hub two or three requests
    bring the header and the table of a safetensors file, and nothing else of it.

    Args:
        source: a state dict, a path, or the id ``"owner/name"`` of a hub repository, as for
            :func:`load_pretrained`.
        grid_size: the grid of the table, if it is no square.
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
    options: dict[str, Any] = {"filename": filename, "revision": revision, "token": token}
    if is_hub_id(source):
        from dnnl.models.vit.pretrained.hub import open_remote

        checkpoint = open_remote(str(source), **options)
    else:
        checkpoint = open_checkpoint(source, **options)
    name, prefixes = find_table(checkpoint)
    with reading(checkpoint.title):  # a hostile header has sizes that no tensor can have
        rows = as_table(torch.empty(checkpoint.shapes[name], device="meta"), name).shape[1]
    grid, prefix = fit_grid(rows, prefixes, grid, checkpoint.title)
    table = as_table(checkpoint.read(name), name)
    return PosEmbedding(table.detach().clone(), grid, prefix)  # not a view of somebody's file


def load_pretrained(
    source: Source,
    *,
    image_size: Size | None = None,
    num_classes: int | None = None,
    num_heads: int | None = None,
    norm_eps: float | None = None,
    activation: str | None = None,
    pool: str | None = None,
    grid_size: Size | None = None,
    config: Mapping[str, Any] | str | PathLike[str] | None = None,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    strict: bool = True,
) -> ViTForImageClassification | ViTModel:
    """Return a pretrained Vision Transformer that gives its own library's numbers.

    The layout is told by the names: timm and all that took its names (ViT, DeiT with and without
    distillation, ``no_embed_class``, ``fc_norm``, registers, layer scale, which is multiplied into
    the layer before it), transformers (ViT, DeiT), torchvision, and JAX's npz files. What the
    shapes do not say is taken from a keyword, else from the ``config.json`` beside the weights
    (transformers' or timm's, in a folder or on the hub), else from the rule given below. A model of
    another function under the same names (timm's ``rpn``) is refused if its configuration says so;
    without one nothing can tell.

    Args:
        source: a state dict; the path of a ``.safetensors``, ``.npz``, ``.pt``, ``.pth`` or
            ``.bin`` file (pickled code is never run); the path of a folder that ``save_pretrained``
            wrote; or the id ``"owner/name"`` of a hub repository.
        image_size: the images to come, if not those of the checkpoint. The table is resized as its
            library does it: timm bicubic with antialiasing, transformers bicubic, torchvision
            bicubic with aligned corners, JAX bilinear with aligned corners.
        num_classes: how many logits. Another number than the checkpoint's puts a fresh head in its
            place, 0 leaves the head out.
        num_heads: how many attention heads. JAX's shapes say it; the rule for the others: heads are
            64 wide up to ``D = 1024``, ViT-H (1280) has 16, and beyond it must be said.
        norm_eps: epsilon of the layer norms. The rule: the library's default, which is 1e-12 for
            transformers and 1e-6 for the others.
        activation: as for :class:`ViTMLP`. The rule: ``"gelu"``, with which timm and transformers
            run all of these checkpoints, JAX's too. (Flax's own is ``"gelu_tanh"``.)
        pool: as for :class:`ViTClassificationHead`. The rule: ``"mean"`` if there is no class token
            or a norm behind the pool, else ``"cls"``.
        grid_size: the grid of the checkpoint's own table. The rule: a square.
        config: a ``config.json``, or its content, in place of the one beside the weights.
        filename: the file to read in a folder or repository, if not ``model.safetensors`` (one or
            several) or ``pytorch_model.bin``.
        revision: a branch, tag or commit of the repository.
        token: an access token of the hub, if not the one that is logged in.
        strict: whether names that the layout does not know are an error; else they are left out,
            with a warning.

    Returns:
        ViTForImageClassification | ViTModel: the model in eval mode, on the CPU, in torch's default
        dtype; the backbone alone where there is no head.

    Raises:
        CheckpointError: if the file is damaged, hostile, of another layout or model; if names are
            missing or unknown, or a shape does not fit; if a setting must be said.
        ShapeError: if the patch does not divide ``image_size``.
        ImportError: if huggingface_hub is needed and not installed (``dnnl[pretrained]``).

    Source: the libraries' own code; arXiv:2010.11929; for DeiT arXiv:2012.12877.
    """
    checkpoint = open_checkpoint(
        source, config=config, filename=filename, revision=revision, token=token
    )
    parameters = _Parameters.of(checkpoint, num_classes, strict)
    settings = _Settings(parameters, checkpoint.config or {})

    dim, channels, *patch = parameters.shape(PATCH, dims=4)
    patch_size = (patch[0], patch[1])
    prefix = parameters.shape(TOKENS, dims=3)[1] if TOKENS in parameters.sources else 0
    table, prefixes = find_table(checkpoint)
    rows = as_table(parameters.hollow(TABLE), table).shape[1]
    old_grid = settings.grid(grid_size, patch_size)
    old_grid, rows_of_prefix = fit_grid(rows, prefixes, old_grid, checkpoint.title)
    old_size = (old_grid[0] * patch_size[0], old_grid[1] * patch_size[1])
    size = old_size if image_size is None else as_pair(image_size, "image_size")
    grid = grid_shape(size, patch_size, "an image size")

    classes = parameters.num_classes if num_classes is None else num_classes
    has_fc_norm = parameters.has("head.fc_norm.")
    with _said_of(checkpoint.title), torch.device("meta"):  # no storage, no random numbers yet
        options: dict[str, Any] = {
            "image_size": size,
            "patch_size": patch_size,
            "in_channels": channels,
            "embed_dim": dim,
            "num_heads": settings.heads(num_heads, dim),
            "num_layers": settings.layers(),
            "hidden_dim": parameters.shape(_LAYER_0 + "mlp.net.0.weight", dims=2)[0],
            "num_prefix_tokens": prefix,
            "norm_eps": settings.eps(norm_eps),
            "activation": settings.activation(activation),
            "final_norm": parameters.final_norm,
        }
        model: ViTForImageClassification | ViTModel
        if classes:
            model = ViTForImageClassification(
                **options,
                num_classes=classes,
                pool=settings.pool(pool, has_fc_norm),
                distillation=parameters.has("head.head_dist."),
                fc_norm=has_fc_norm,
            )
        else:
            model = ViTModel(**options)

    fresh: dict[str, Tensor] = {}
    if classes and not parameters.has("head.head."):
        head = nn.Linear(dim, classes, device="cpu")
        fresh = {f"head.head.{name}": value for name, value in head.state_dict().items()}
    state, outer = {}, "" if classes else "backbone."
    with torch.no_grad():
        for name, like in model.state_dict().items():
            ours = outer + name
            value = fresh[ours] if ours in fresh else parameters.read(ours, like)
            if ours == TABLE:  # tokens without a row get one of zeros: the same sum
                value = F.pad(as_table(value, table), (0, 0, prefix - rows_of_prefix, 0))
                value = interpolate_pos_embedding(
                    value,
                    old_grid,
                    grid,
                    num_prefix_tokens=prefix,
                    **RESIZE_SETTINGS[parameters.layout.like],
                )
            parameters.check(ours, value, like)
            # A copy: no view of a file or of the caller's tensor; and in the model's memory format.
            state[name] = torch.empty_like(like, device="cpu").copy_(value)
    if left := parameters.sources.keys() - parameters.used:
        raise CheckpointError(f"{checkpoint.title} is incomplete: nothing goes with {some(left)}.")
    model.load_state_dict(state, assign=True)
    return model.eval()


@dataclass
class _Parameters:
    """A checkpoint whose tensors are asked for by our names."""

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
        self._drop_heads(num_classes)
        if num_classes == 0:  # what stands between the pool and the head goes with it
            unknown = [n for n in unknown if not re.search(r"(^|[./])pre_logits[./]", n)]
        if unknown:
            message = (
                f"{checkpoint.title} has names that no {layout.name} ViT has whose function is "
                f"known here: {some(unknown)}."
            )
            if strict:
                raise CheckpointError(message)
            warnings.warn(message, stacklevel=3)
        return self

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
        """Tell whether there is a parameter whose name starts so."""
        return any(ours.startswith(start) for ours in self.sources)

    def hollow(self, ours: str) -> Tensor:
        """Return a parameter without its numbers: nothing is read."""
        shapes = self.checkpoint.shapes
        return self._join(ours, lambda name: torch.empty(shapes[name], device="meta"))

    def shape(self, ours: str, *, dims: int) -> tuple[int, ...]:
        """Return the shape of a parameter, which must have so many dimensions."""
        shape = tuple(self.hollow(ours).shape)
        if len(shape) != dims or 0 in shape:
            raise CheckpointError(f"{self._named(ours)} has the shape {shape}.")
        return shape

    def read(self, ours: str, like: Tensor) -> Tensor:
        """Return a parameter for a place like ``like``."""
        if ours not in self.sources and ours.endswith(".attn.qkv.bias"):
            # qkv_bias=False; that no layer has one is checked
            return torch.zeros(like.shape, device="cpu")
        value = self._join(ours, self.checkpoint.read)
        scale = ours.rpartition(".")[0] + "*"
        if scale in self.sources:  # layer scale: g * (W x + b) is (g * W) x + g * b
            gain = self._join(scale, self.checkpoint.read)
            self.check(ours, value, like)
            self.check(scale, gain, like.flatten(1)[:, 0] if like.dim() > 1 else like)
            # At least in float32: a small gain makes numbers that half precision cannot hold.
            exact = torch.promote_types(value.dtype, torch.float32)
            value, gain = value.to(exact), gain.to(exact)
            value = value * gain.reshape(-1, *[1] * (value.dim() - 1))
        return value

    def check(self, ours: str, value: Tensor, like: Tensor) -> None:
        """Raise unless ``value`` can take the place of ``like``."""
        if value.shape != like.shape:
            raise CheckpointError(
                f"{self._named(ours)}: expected shape {tuple(like.shape)} for {ours}, "
                f"but got {tuple(value.shape)}."
            )

    def _join(self, ours: str, read: Callable[[str], Tensor]) -> Tensor:
        """Return our parameter out of the ones that the library keeps in its place."""
        if ours not in self.sources:
            raise CheckpointError(
                f"{self.checkpoint.title} lacks what makes {ours} (names as of {self.layout.name})."
            )
        self.used.add(ours)
        names = self.sources[ours]
        with reading(self._named(ours)):
            parts = [self.layout.convert(name, read(name)) for name in names]
            if not all(part.is_floating_point() for part in parts):
                raise CheckpointError(f"{self._named(ours)}: not floating-point numbers.")
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=int(ours == TOKENS))

    def _named(self, ours: str) -> str:
        return f"{self.checkpoint.title}: {some(self.sources.get(ours, [ours]))}"


@dataclass
class _Settings:
    """What shapes do not say: the caller's word, else the configuration's, else the rule's."""

    parameters: _Parameters
    config: Mapping[str, Any]

    def __post_init__(self) -> None:
        layout = self.parameters.layout
        self.hf = self.config if layout is TRANSFORMERS else {}
        self.timm = self.config if layout is TIMM else {}
        self.timm_args = _mapping(self.timm.get("model_args"))
        # Some of timm's models differ from a ViT in what leaves no trace in names and shapes:
        # rotary positions, the approximate GELU of SigLIP, norms behind the layers (rpn).
        named = str(self.timm.get("architecture", "vit_"))
        if not re.match("(vit|deit3?|flexivit)_", named) or re.search("rope|siglip|rpn", named):
            raise CheckpointError(f"{self.title}: {named} is another model than a plain ViT.")

    @property
    def title(self) -> str:
        return self.parameters.checkpoint.title

    def heads(self, said: int | None, dim: int) -> int:
        name = _LAYER_0 + "attn.qkv.weight"
        if self.parameters.layout is JAX and name in self.parameters.sources:
            shape = self.parameters.checkpoint.shapes[self.parameters.sources[name][0]]
            if len(shape) != 3 or said not in (None, shape[1]):
                raise CheckpointError(f"{self.title}: its attention has the shape {shape}.")
            return shape[1]
        for heads in (
            said,
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
            raise CheckpointError(f"{self.title}: not every layer has {some(fewer)}.")
        told = self.hf.get("num_hidden_layers", self.timm_args.get("depth"))
        if told not in (None, found):
            raise CheckpointError(f"{self.title}: {found} layers, not {told} as configured.")
        return found

    def eps(self, said: float | None) -> float:
        if said is None:
            if "norm_layer" in self.timm_args:
                raise CheckpointError(f"{self.title}: a norm of its own: pass norm_eps=.")
            said = self.hf.get("layer_norm_eps", self.parameters.layout.norm_eps)
        if not isinstance(said, (int, float)) or not 0 < said < math.inf:
            raise CheckpointError(f"{self.title}: expected a positive norm_eps, not {said!r}.")
        return float(said)

    def activation(self, said: str | None) -> str:
        if said is not None:
            return said
        told = self.hf.get("hidden_act", self.timm_args.get("act_layer", "gelu"))
        if not isinstance(told, str) or told not in _ACTIVATIONS:
            raise CheckpointError(f"{self.title}: its activation {told!r} is not known here.")
        return _ACTIVATIONS[told]

    def pool(self, said: str | None, has_fc_norm: bool) -> str:
        told = self.timm.get("global_pool", self.timm_args.get("global_pool"))
        if said is not None:
            return said
        if told is None:
            tokens = self.parameters.sources.get(TOKENS, [])
            has_class = any(name.endswith(("cls_token", "class_token", "cls")) for name in tokens)
            return "cls" if has_class and not has_fc_norm else "mean"
        if not isinstance(told, str) or told not in _POOLS:
            raise CheckpointError(f"{self.title}: its pool {told!r} is not known here.")
        return _POOLS[told]

    def grid(self, said: Size | None, patch_size: tuple[int, int]) -> tuple[int, int] | None:
        """Return the grid of the checkpoint's own table, or None if nobody said it."""
        if said is not None:
            return as_pair(said, "grid_size")
        size = self.hf.get("image_size", self.timm_args.get("img_size"))
        if size is None:
            told = _mapping(self.timm.get("pretrained_cfg")).get("input_size")
            size = told[1:] if isinstance(told, list) and None not in told else None
        if size is None:
            return None
        with _said_of(self.title):
            return grid_shape(as_pair(size, "image_size"), patch_size, "an image size")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@contextmanager
def _said_of(title: str) -> Iterator[None]:
    """Let a model that cannot be built be an error of the checkpoint."""
    try:
        yield
    except CheckpointError:
        raise
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{title}: {error}") from error
