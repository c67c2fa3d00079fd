"""Models of this package in a folder: what ``save_pretrained`` writes and how it is read.

``model.safetensors`` is complete in itself: its metadata hold settings, preprocessing and labels
beside the weights, so that one rename replaces the whole model. ``config.json`` repeats them for
people.
"""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dnnl.models.vit.config import ViTConfig
from dnnl.models.vit.encoder import ViTForImageClassification, ViTModel
from dnnl.models.vit.pretrained.atomic import replace_file
from dnnl.models.vit.pretrained.files import (
    CONFIG,
    WEIGHTS,
    Checkpoint,
    CheckpointError,
    needs,
)
from dnnl.models.vit.pretrained.preprocess import Preprocess

FORMAT = "dnnl-model/1"


def save(model: Any, folder: str | PathLike[str]) -> None:
    """Write a model; see :meth:`ViTModel.save_pretrained`."""
    safetensors_error = needs("safetensors").SafetensorError
    save_file = needs("safetensors.torch").save_file

    state = model.state_dict()
    _check_like_config(model, state)
    about = {
        "format": FORMAT,
        "config": model.config.to_dict(),
        "preprocess": None if model.preprocess is None else model.preprocess.to_dict(),
        "labels": list(model.labels),
    }
    text = json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False)
    weights = {name: t.detach().cpu().contiguous() for name, t in state.items()}
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    metadata = {"format": "pt", "dnnl": text}
    try:
        replace_file(path / WEIGHTS, lambda temporary: save_file(weights, temporary, metadata))
    except safetensors_error as error:  # a full disk, for example
        raise OSError(f"Cannot write {path / WEIGHTS}: {error}") from error
    replace_file(path / CONFIG, lambda temporary: Path(temporary).write_text(text + "\n", "utf-8"))


def _check_like_config(model: Any, state: Mapping[str, Tensor]) -> None:
    """Raise unless ``from_config`` builds a model of the same classes, names and shapes."""
    with torch.device("meta"):
        built = type(model).from_config(model.config)
    expected = {name: tuple(t.shape) for name, t in built.state_dict().items()}
    got = {name: tuple(t.shape) for name, t in state.items()}
    changed = sorted(name for name in expected.keys() | got if expected.get(name) != got.get(name))
    kinds = {name: type(m) for name, m in built.named_modules()}
    changed += [name for name, m in model.named_modules() if kinds.get(name) is not type(m)]
    if changed:
        raise ValueError(
            f"model.config does not describe this model, so that it could not be built again: "
            f"{changed[0] or type(model).__name__} differs."
        )


def own_description(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Return what :func:`save` wrote beside the weights; None for a checkpoint of another origin.

    Raises:
        CheckpointError: if the description is damaged, or of a later version.
    """
    text = checkpoint.metadata.get("dnnl")
    if text is None:
        return None
    try:
        about = json.loads(text)
        version = about["format"]
    except (TypeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{checkpoint.title}: its description is damaged.") from error
    if version != FORMAT:
        raise CheckpointError(f"{checkpoint.title}: expected format {FORMAT}, got {version!r}.")
    return dict(about)


def load_own(
    checkpoint: Checkpoint, about: Mapping[str, Any]
) -> ViTModel | ViTForImageClassification:
    """Return the model that :func:`save` wrote, in its own dtypes.

    Raises:
        CheckpointError: if weights and description do not belong together.
    """
    try:
        config = ViTConfig.from_dict(about["config"])
        if config.num_layers > len(checkpoint.shapes):
            raise ValueError(f"num_layers {config.num_layers}, more than there are tensors")
        with torch.device("meta"):
            kind = ViTForImageClassification if config.num_classes else ViTModel
            model = kind.from_config(config)
        given = about["preprocess"]
        preprocess = None if given is None else Preprocess(**given)
        labels = tuple(map(str, about["labels"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.title}: its description is damaged: {error}") from error
    expected = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    if expected != dict(checkpoint.shapes):
        raise CheckpointError(f"{checkpoint.title}: its weights do not fit its description.")
    model.load_state_dict({name: checkpoint.read(name).clone() for name in expected}, assign=True)
    model.preprocess, model.labels = preprocess, labels
    return model.eval()
