"""Real checkpoints: whole models of other libraries, and their tables of positions alone."""

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dnnl.models.vit.checks import Size, as_pair, grid_shape
from dnnl.models.vit.config import ViTConfig
from dnnl.models.vit.encoder import ViTForImageClassification, ViTModel
from dnnl.models.vit.positions import RESIZE_SETTINGS, interpolate_pos_embedding
from dnnl.models.vit.pretrained.files import (
    CONFIG,
    PREPROCESSOR,
    Checkpoint,
    CheckpointError,
    Source,
    open_local,
    read_json,
    reading,
)
from dnnl.models.vit.pretrained.folder import load_own, own_config, own_description
from dnnl.models.vit.pretrained.hub import Repository, hub_id
from dnnl.models.vit.pretrained.layouts import TABLE, as_table, find_table, first_few, fit_grid
from dnnl.models.vit.pretrained.parameters import Parameters
from dnnl.models.vit.pretrained.preprocess import Preprocess, from_torchvision
from dnnl.models.vit.pretrained.settings import Settings


class PosEmbedding(NamedTuple):
    """A table of positions out of a checkpoint: the arguments of :func:`interpolate_pos_embedding`.

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
    about = own_description(checkpoint)
    if about is not None:
        return _own_pos_embedding(checkpoint, about)
    name, prefixes = find_table(checkpoint)
    with reading(checkpoint.title):  # a hostile header has sizes that no tensor can have
        rows = as_table(torch.empty(checkpoint.shapes[name], device="meta"), name).shape[1]
    grid, prefix = fit_grid(rows, prefixes, grid, checkpoint.title)
    table = as_table(checkpoint.read(name), name)
    return PosEmbedding(table.detach().clone(), grid, prefix)  # not a view of the file


def _own_pos_embedding(checkpoint: Checkpoint, about: Mapping[str, Any]) -> PosEmbedding:
    """Return the table of a model that this package saved."""
    config = own_config(checkpoint.title, about)
    grid = grid_shape(as_pair(config.image_size, "image_size"), as_pair(config.patch_size, ""))
    name = next((n for n in (TABLE, TABLE.removeprefix("backbone.")) if n in checkpoint.shapes), "")
    if not name:
        raise CheckpointError(f"{checkpoint.title} has no table of positions.")
    table = checkpoint.read(name).clone()
    if table.dim() != 3 or table.shape[1] != config.prefix + grid[0] * grid[1]:
        raise CheckpointError(f"{checkpoint.title}: its table does not fit its description.")
    return PosEmbedding(table, grid, config.prefix)


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

    The layout is recognised by its names: timm and all that took its names (ViT, DeiT with and
    without distillation, MAE, Facebook's DINOv2, ``no_embed_class``, ``fc_norm``, registers),
    transformers (ViT, DeiT, MAE, DINOv2 with and without registers; the vision towers of CLIP and
    SigLIP), OpenAI's CLIP, torchvision, and JAX's npz files; and what ``save_pretrained`` of this
    package wrote. Layer scale is multiplied into the layer before it. What shapes do not say is
    taken from a keyword, else from the ``config.json`` beside the weights, else from the rule
    below. A model of another function under the same names is refused if its configuration says so.

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
        image_size: the size of your images, if not that of the checkpoint. The table is resized as
            its library does it (:data:`.RESIZE_SETTINGS`).
        dynamic_image_size: accept every image that the patch divides, and resize the table as its
            library does it. The rule: True for DINOv2 of transformers and for Facebook's with
            registers, which do so; else False. (Facebook's first DINOv2 adds an offset of 0.1
            to its scale factor, which is not reproduced: at other sizes its features differ.)
        num_classes: how many logits. Another number than the checkpoint's puts a fresh head in its
            place, 0 leaves the head out.
        num_heads: how many attention heads. JAX's shapes say it; the rule for the others: heads are
            64 wide up to ``D = 1024``, ViT-H (1280) and timm's vit_base_patch16_gap_224 have 16,
            and beyond it must be given.
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
        ShapeError, ValueError: if a keyword of the caller is invalid.
        ImportError: if a package of ``dnnl[pretrained]`` is needed and not installed.

    Source: the libraries' own code; arXiv:2010.11929; for DeiT arXiv:2012.12877.
    """
    given = None if preprocess is None else _as_preprocess(preprocess)
    beside = {CONFIG: config, PREPROCESSOR: given}
    read = [name for name, value in beside.items() if value is None]
    checkpoint = _open(source, config, filename, revision, token, read)
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
    else:
        given_too = {**keywords, "config": config}
        model = load_own(checkpoint, about, {k: v for k, v in given_too.items() if v is not None})
    if given is not None:
        model.preprocess = given
    return model.to(device=device, dtype=dtype)


def _open(
    source: Source,
    config: Mapping[str, Any] | str | PathLike[str] | None,
    filename: str | None,
    revision: str | None,
    token: str | bool | None,
    read: Collection[str],
) -> Checkpoint:
    repository = hub_id(source)
    if repository is None:
        checkpoint = open_local(source, filename, read)
    else:
        checkpoint = Repository(repository, revision, token).download(filename, read)
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
    parameters = Parameters.of(checkpoint, keywords["num_classes"], strict)
    settings = Settings(parameters, keywords, checkpoint.config or {})
    table_name, prefixes = find_table(checkpoint)
    rows = as_table(parameters.on_meta(TABLE), table_name).shape[1]
    patch_size = settings.patch_size()
    old_grid, rows_of_prefix = fit_grid(rows, prefixes, settings.grid(patch_size), checkpoint.title)
    vit_config = settings.config(old_grid, patch_size)
    new_grid = grid_shape(as_pair(vit_config.image_size, "image_size"), patch_size)
    kind = ViTForImageClassification if vit_config.num_classes else ViTModel
    with torch.device("meta"):  # no storage, no random numbers yet
        model = kind.from_config(vit_config)

    outer = "" if vit_config.num_classes else "backbone."
    fresh = _fresh_head(parameters, vit_config)
    state = {}
    with torch.no_grad():
        for name, target in model.state_dict().items():
            parameter = outer + name
            value = fresh[parameter] if parameter in fresh else parameters.read(parameter, target)
            if parameter == TABLE:
                table = as_table(value, table_name)
                table = table.to(torch.promote_types(table.dtype, torch.float32))
                table = _with_rows_for(vit_config.prefix, table, rows_of_prefix)
                value = interpolate_pos_embedding(
                    table,
                    old_grid,
                    new_grid,
                    num_prefix_tokens=vit_config.prefix,
                    **RESIZE_SETTINGS[vit_config.resize],
                )
            parameters.check(parameter, value, target)
            # A copy: not a view of a file or of the caller's tensor; in the model's memory format.
            state[name] = torch.empty_like(target, device="cpu").copy_(value)
    if unused := parameters.sources.keys() - parameters.used:
        raise CheckpointError(
            f"{checkpoint.title} is incomplete: tensors that belong with {first_few(unused)} "
            "are missing."
        )
    model.load_state_dict(state, assign=True)
    model.preprocess = settings.preprocess(as_pair(vit_config.image_size, "image_size"))
    model.labels = settings.labels(vit_config.num_classes)
    return model.eval()


def _with_rows_for(prefix: int, table: Tensor, rows_of_prefix: int) -> Tensor:
    """Insert rows of zeros for prefix tokens that have no row, after those that have one."""
    zeros = table.new_zeros(1, prefix - rows_of_prefix, table.shape[2])
    return torch.cat([table[:, :rows_of_prefix], zeros, table[:, rows_of_prefix:]], dim=1)


def _fresh_head(parameters: "Parameters", config: ViTConfig) -> dict[str, Tensor]:
    """Return a new head where the checkpoint's own is not wanted; nothing if it is."""
    if not config.num_classes or parameters.has("head.head."):
        return {}
    head = nn.Linear(config.embed_dim, config.num_classes, device="cpu")
    return {f"head.head.{name}": value for name, value in head.state_dict().items()}


def _as_preprocess(value: Any) -> Preprocess:
    return value if isinstance(value, Preprocess) else from_torchvision(value)
