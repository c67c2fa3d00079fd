"""Models of this package in a folder: what ``save_pretrained`` writes and how it is read.

``model.safetensors`` is complete in itself: its metadata hold settings, preprocessing and labels
beside the weights, so that one rename replaces the whole model. ``config.json`` repeats them for
people.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dnnl.models.vit.checks import as_pair, grid_shape
from dnnl.models.vit.config import ViTConfig
from dnnl.models.vit.encoder import ViTForImageClassification, ViTModel
from dnnl.models.vit.positions import RESIZE_SETTINGS, interpolate_pos_embedding
from dnnl.models.vit.pretrained.atomic import replace_file
from dnnl.models.vit.pretrained.files import (
    CONFIG,
    OWN,
    WEIGHTS,
    Checkpoint,
    CheckpointError,
    needs,
)
from dnnl.models.vit.pretrained.preprocess import Preprocess

FORMAT = "dnnl-model/1"
_CHANGES = ("image_size", "dynamic_image_size", "num_classes")


def save(model: Any, folder: str | PathLike[str]) -> None:
    """Write a model; see :meth:`ViTModel.save_pretrained`."""
    safetensors_error = needs("safetensors").SafetensorError
    save_file = needs("safetensors.torch").save_file

    _check_like_config(model)
    if not (model.preprocess is None or isinstance(model.preprocess, Preprocess)):
        raise ValueError(f"Expected preprocess as vit.Preprocess, but got {model.preprocess!r}.")
    labels = list(map(str, model.labels or ()))
    if labels and len(labels) != model.config.num_classes:
        raise ValueError(
            f"Expected {model.config.num_classes} labels, one a class, but got {len(labels)}."
        )
    about = {
        "format": FORMAT,
        "config": model.config.to_dict(),
        "preprocess": None if model.preprocess is None else model.preprocess.to_dict(),
        "labels": labels,
    }
    text = json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False)
    # Copies, because tied parameters share memory, which safetensors refuses.
    weights = {
        name: t.detach().cpu().clone().contiguous() for name, t in model.state_dict().items()
    }
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    metadata = {"format": "pt", OWN: text}
    try:
        replace_file(path / WEIGHTS, lambda temporary: save_file(weights, temporary, metadata))
    except safetensors_error as error:  # a full disk, for example
        raise OSError(f"Cannot write {path / WEIGHTS}: {error}") from error
    replace_file(path / CONFIG, lambda temporary: Path(temporary).write_text(text + "\n", "utf-8"))


def _check_like_config(model: Any) -> None:
    """Raise unless ``from_config`` builds a model of the same modules, settings and shapes."""
    if type(model) not in (ViTModel, ViTForImageClassification):
        raise ValueError(f"Cannot save a {type(model).__name__}: it would come back as its base.")
    with torch.device("meta"):
        built = type(model).from_config(model.config)
    expected, got = _description(built), _description(model)
    if changed := sorted(
        name for name in expected.keys() | got if expected.get(name) != got.get(name)
    ):
        raise ValueError(
            "model.config does not describe this model, so that it could not be built again: "
            f"{changed[0].strip() or type(model).__name__} differs."
        )
    if any(not isinstance(t, Tensor) or t.is_meta for t in model.state_dict().values()):
        raise ValueError(
            "Cannot save a model whose state dict holds more than tensors with values."
        )


def _description(model: nn.Module) -> dict[str, Any]:
    """Return classes and plain settings of all modules, and the shapes of all tensors."""
    found: dict[str, Any] = {
        name: tuple(getattr(value, "shape", ())) for name, value in model.state_dict().items()
    }
    for name, module in model.named_modules():
        own = {k: v for k, v in vars(module).items() if k != "training" and not k.startswith("_")}
        plain = {k: v for k, v in own.items() if isinstance(v, (bool, int, float, str, tuple))}
        plain.pop("labels", None)  # they do not decide how a model is built
        found[f"{name} "] = (type(module), plain, "forward" in own)
    return found


def own_description(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Return what :func:`save` wrote beside the weights; None for a checkpoint of another origin.

    Raises:
        CheckpointError: if the description is damaged, or of a later version.
    """
    text = checkpoint.metadata.get(OWN)
    if text is None:
        return None
    try:
        about = json.loads(text)
        version = about["format"]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint.title}: its description is damaged.") from error
    if version != FORMAT:
        raise CheckpointError(f"{checkpoint.title}: expected format {FORMAT}, got {version!r}.")
    return dict(about)


def own_config(title: str, about: Mapping[str, Any]) -> ViTConfig:
    """Return the settings of a model that :func:`save` wrote.

    Raises:
        CheckpointError: if the description is damaged.
    """
    try:
        return ViTConfig.from_dict(about["config"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{title}: its description is damaged: {error}") from error


def load_own(
    checkpoint: Checkpoint, about: Mapping[str, Any], changes: Mapping[str, Any]
) -> ViTModel | ViTForImageClassification:
    """Return the model that :func:`save` wrote, in its own dtypes.

    ``changes`` may hold another ``image_size`` or ``num_classes``, and ``dynamic_image_size``.

    Raises:
        CheckpointError: if weights and description do not belong together, or for other changes.
        ShapeError: if the patch does not divide the new ``image_size``.
    """
    title, config = checkpoint.title, own_config(checkpoint.title, about)
    if other := [name for name in changes if name not in _CHANGES]:
        raise CheckpointError(f"{title} was saved by this package: {other[0]}= cannot change it.")
    if config.num_layers > len(checkpoint.shapes):
        raise CheckpointError(f"{title}: its description is damaged: {config.num_layers} layers.")
    try:
        given, labels = about["preprocess"], about["labels"]
        preprocess = None if given is None else Preprocess(**given)
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ValueError("labels is not a list of strings")
        expected = {name: tuple(t.shape) for name, t in _on_meta(config).state_dict().items()}
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{title}: its description is damaged: {error}") from error
    if expected != dict(checkpoint.shapes):
        raise CheckpointError(f"{title}: its weights do not fit its description.")
    state = {name: checkpoint.read(name).clone() for name in expected}
    new = replace(config, **changes)
    if new.image_size != config.image_size:
        _resize_table(state, config, new)
        preprocess = preprocess and preprocess.for_size(new.image_size)
    if new.num_classes != config.num_classes:
        state, labels = _with_other_head(state, new), []
    model = _on_meta(new)
    model.load_state_dict(state, assign=True)
    model.preprocess, model.labels = preprocess, tuple(labels)
    return model.eval()


def _on_meta(config: ViTConfig) -> ViTModel | ViTForImageClassification:
    """Build the model of ``config`` without storage."""
    with torch.device("meta"):
        return (ViTForImageClassification if config.num_classes else ViTModel).from_config(config)


def _resize_table(state: dict[str, Tensor], old: ViTConfig, new: ViTConfig) -> None:
    """Resize the table of positions in ``state`` from one image size to another."""
    patch = as_pair(old.patch_size, "patch_size")
    sizes = (as_pair(config.image_size, "image_size") for config in (old, new))
    name = next(name for name in state if name.endswith("pos_embed.pos_embed"))
    state[name] = interpolate_pos_embedding(
        state[name],
        *(grid_shape(size, patch) for size in sizes),
        num_prefix_tokens=old.prefix,
        **RESIZE_SETTINGS[old.resize],
    )


def _with_other_head(state: dict[str, Tensor], new: ViTConfig) -> dict[str, Tensor]:
    """Return a state with a fresh head for ``new.num_classes``, or that of the backbone for 0."""
    backbone = {n.removeprefix("backbone."): t for n, t in state.items() if n[:5] != "head."}
    if not new.num_classes:
        return backbone
    kept = {n: t for n, t in state.items() if n.startswith("head.fc_norm.")}
    dtype = next(iter(backbone.values())).dtype
    for name in ("head", "head_dist") if new.distillation else ("head",):
        fresh = nn.Linear(new.embed_dim, new.num_classes, device="cpu", dtype=dtype)
        kept |= {f"head.{name}.{n}": t for n, t in fresh.state_dict().items()}
    return {**{f"backbone.{n}": t for n, t in backbone.items()}, **kept}
