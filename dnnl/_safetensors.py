"""Read and write safetensors files with a JSON description; writing is atomic."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dnnl.models.vit.pretrained.atomic import replace_file, temporary_file


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], kind: str, about: Mapping[str, Any]
) -> None:
    """Write tensors and a description to a temporary file beside ``path``, then rename it.

    Args:
        path: the file; it is replaced as a whole, or stays as it was.
        tensors: name → tensor.
        kind: the format and its version, which :func:`read_safetensors` compares.
        about: the description; everything in it must be representable in JSON.

    Raises:
        ValueError: if the description is not valid JSON (NaN and infinity are not).
        OSError: if the file cannot be written.
    """
    try:
        metadata = {"format": kind, "about": json.dumps(about, allow_nan=False)}
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The description for {path} is not valid JSON: {error}") from None
    stored = {n: t.contiguous().cpu() for n, t in tensors.items()}
    try:
        replace_file(path, lambda temporary: save_file(stored, temporary, metadata))
    except SafetensorError as error:  # a full disk, for example
        raise OSError(f"Cannot write {path}: {error}") from error


def read_safetensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_safetensors` wrote: the tensors, and the description.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged or of another kind.
    """
    if not path.is_file():
        raise FileNotFoundError(f"File not found: {path}.")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            if header.get("format") != kind:
                raise ValueError(
                    f"Expected a file of format {kind!r}, but {path} has {header.get('format')!r}."
                )
            # Copies: what get_tensor returns lives in the file, and would die with it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
    except SafetensorError as error:
        raise ValueError(f"Expected a safetensors file, but {path} is damaged: {error}") from None
    try:
        about = json.loads(header["about"])
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected a JSON description in {path}, but it cannot be read: {error}"
        ) from None
    if not isinstance(about, dict):
        raise ValueError(
            f"Expected a JSON object as the description in {path}, but got {type(about).__name__}."
        )
    return tensors, about


def check_finite(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise ValueError if a tensor holds NaN or infinity; ``where`` begins the message."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{where}: the tensor {name!r} holds values that are not finite.")


def check_writable(path: Path) -> None:
    """Raise OSError unless :func:`write_safetensors` can write to ``path``.

    Temporary files that a killed process left there are removed.
    """
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file to write, but {path} is a folder.")
    if path.exists() and not path.is_file():  # /dev/null would be replaced by a file
        raise OSError(f"Expected a file to write, but {path} is not a regular file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"Expected a file in an existing folder, but {path.parent} is not a directory."
        )
    with temporary_file(path):
        pass
