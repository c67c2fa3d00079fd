"""Checkpoints as names, shapes, and one tensor at a time; from memory, a file, a folder, the hub.

A file is somebody else's: it is read without running code of it (no pickles), its sizes are checked
before memory is taken, and whatever is wrong with it becomes a :class:`CheckpointError`. Libraries
that only files need (numpy, safetensors, huggingface_hub) are imported when such a file is read.
"""

import importlib
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that does not hold a known model: nothing was loaded."""


Source: TypeAlias = Mapping[str, Any] | str | PathLike[str]
"""A state dict, the path of a file or folder, or the id ``"owner/name"`` of a hub repository."""

SUFFIXES = (".safetensors", ".npz", ".pt", ".pth", ".bin")
HUB_ID = re.compile(r"[\w\-][\w.\-]*/[\w\-][\w.\-]*")
SAFE_PATH = re.compile(r"(?:[\w\-][\w.\-]*/)*[\w\-][\w.\-]*")  # no "..", no root, no backslash
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

_JSON_LIMIT = 32 << 20  # bytes; the index of a model in hundreds of files has a few MB
_SLACK, _RATIO = 64 << 20, 16  # what an archive may unpack to: weights hardly compress at all


@dataclass
class Checkpoint:
    """An opened checkpoint.

    Attributes:
        title: how messages call it.
        shapes: the shape of every tensor by its name; nothing has been read yet.
        read: returns one tensor by its name.
        config: the ``config.json`` beside the weights, where there is one.
    """

    title: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]
    config: Mapping[str, Any] | None = None


@contextmanager
def reading(title: str) -> Iterator[None]:
    """Turn whatever goes wrong while ``title`` is read into a CheckpointError."""
    try:
        yield
    except (CheckpointError, ImportError):
        raise
    except Exception as error:  # the readers of files raise a dozen kinds
        said = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{title} cannot be read: {type(error).__name__}: {said}") from error


def open_checkpoint(
    source: Source,
    *,
    config: Mapping[str, Any] | str | PathLike[str] | None = None,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Checkpoint:
    """Open a state dict, a file, a folder (as ``save_pretrained`` writes it) or a hub repository.

    Raises:
        CheckpointError: if there is nothing, or nothing that can be read.
        ImportError: if the hub is asked and huggingface_hub is not installed.
    """
    beside = config is None  # else what lies beside the weights plays no part
    if isinstance(source, Mapping):
        opened = _from_state(source, "the state dict")
    elif not isinstance(source, (str, PathLike)):
        raise CheckpointError(
            "Expected a state dict, a path or a hub repository 'owner/name', but got "
            f"{type(source).__name__}: a model gives its state_dict()."
        )
    elif is_hub_id(source):
        opened = _from_hub(str(source), filename, revision, token, beside)
    elif (path := Path(source)).is_dir():
        opened = _from_folder(str(source), lambda name: _present(path / name), filename, beside)
    else:
        opened = _from_file(path)
    if isinstance(config, Mapping):
        opened.config = config
    elif isinstance(config, (str, PathLike)):
        opened.config = read_json(Path(config))
    elif config is not None:
        raise CheckpointError(
            f"Expected config as a mapping or the path of a file, but got {config!r}."
        )
    return opened


def is_hub_id(source: Any) -> bool:
    """Tell whether ``source`` names a repository of the hub rather than a file or a folder."""
    if not isinstance(source, str) or not HUB_ID.fullmatch(source):
        return False
    return Path(source).suffix not in SUFFIXES and not Path(source).exists()


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    with reading(path.name):
        if path.stat().st_size > _JSON_LIMIT:
            raise CheckpointError(f"{path.name} is too large for what it should be.")
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise CheckpointError(f"{path.name} holds no JSON object.")
    return content


def shards_of(index: Mapping[str, Any], title: str) -> dict[str, str]:
    """Return the file of each tensor, as the index of a checkpoint in several files says.

    Raises:
        CheckpointError: if it says anything else than the names of files beside it.
    """
    files = index.get("weight_map")
    if not isinstance(files, dict) or not files:
        raise CheckpointError(f"{title}: {INDEX} names no files.")
    for file in files.values():
        ok = isinstance(file, str) and SAFE_PATH.fullmatch(file) and "/" not in file
        if not ok or not file.endswith(".safetensors"):
            raise CheckpointError(f"{title}: {INDEX} names {file!r}, which is no file beside it.")
    return files


def safe_filename(filename: str) -> str:
    """Return ``filename`` if it stays inside its repository, else raise CheckpointError."""
    if not isinstance(filename, str) or not SAFE_PATH.fullmatch(filename):
        raise CheckpointError(f"Expected the name of a file in the repository, not {filename!r}.")
    return filename


def import_hub(part: str = "") -> Any:
    """Return huggingface_hub, or a module of it like ``".utils"``; or say how to get it."""
    try:
        return importlib.import_module("huggingface_hub" + part)
    except ImportError as error:
        raise ImportError(
            "Reading from the hub needs huggingface_hub: pip install 'dnnl[pretrained]'."
        ) from error


def _present(path: Path) -> Path | None:
    return path if path.is_file() else None


def _from_file(path: Path) -> Checkpoint:
    if not path.is_file():
        raise CheckpointError(
            f"There is no file {path}; and a hub repository is written 'owner/name'."
        )
    with reading(path.name):
        if path.suffix == ".safetensors":
            return _from_safetensors(path.name, [path])
        if path.suffix == ".npz":
            return _from_npz(path)
        if path.suffix in SUFFIXES:
            return _from_torch(path)
    raise CheckpointError(f"Expected a file that ends in {', '.join(SUFFIXES)}, not {path.name}.")


def _from_folder(
    title: str, locate: Callable[[str], Path | None], filename: str | None, config: bool
) -> Checkpoint:
    """Open what a folder holds, with its ``config.json`` if ``config``.

    ``locate`` returns the path of a file of it, or None.
    """
    if filename is not None:
        path = locate(safe_filename(filename))
        if path is None:
            raise CheckpointError(f"{title} holds no {filename}.")
        opened = _from_file(path)
    elif path := locate(WEIGHTS):
        opened = _from_file(path)
    elif path := locate(INDEX):
        files = shards_of(read_json(path), title)
        shards = [locate(file) for file in sorted(set(files.values()))]
        if None in shards:
            raise CheckpointError(f"{title}: a file that {INDEX} names is missing.")
        with reading(title):
            opened = _from_safetensors(title, [shard for shard in shards if shard])
        if lacking := files.keys() - opened.shapes.keys():
            raise CheckpointError(f"{title}: no file holds {min(lacking)}, which {INDEX} lists.")
    elif path := locate("pytorch_model.bin"):
        opened = _from_file(path)
    else:
        raise CheckpointError(f"{title} holds no {WEIGHTS}, {INDEX} or pytorch_model.bin.")
    if config and (beside := locate("config.json")):
        opened.config = read_json(beside)
    return opened


def _from_hub(
    repo_id: str,
    filename: str | None,
    revision: str | None,
    token: str | bool | None,
    config: bool,
) -> Checkpoint:
    """Open a repository of the hub; its files land in the hub's own cache."""
    hub, errors = import_hub(), import_hub(".errors")

    def locate(name: str) -> Path | None:
        try:
            return Path(hub.hf_hub_download(repo_id, name, revision=revision, token=token))
        except errors.LocalEntryNotFoundError:  # no connection: not the same as no such file
            raise
        except errors.EntryNotFoundError:
            return None

    with reading(repo_id):
        return _from_folder(repo_id, locate, filename, config)


def _from_state(state: Mapping[str, Any], title: str) -> Checkpoint:
    """Open a state dict, also one wrapped as ``{"model": …}`` or by DataParallel or compile."""
    for _ in range(2):
        inner = [state[k] for k in ("model", "state_dict") if isinstance(state.get(k), Mapping)]
        if len(inner) == 1:
            state = inner[0]
    if not any(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"{title} holds no tensors.")
    tensors: dict[str, Tensor] = {}
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CheckpointError(f"{title}: {name!r} is no tensor but {type(value).__name__}.")
        if value.is_meta or value.layout != torch.strided:
            raise CheckpointError(f"{title}: {name} is no plain tensor of numbers.")
        name = name.replace("_orig_mod.", "")  # torch.compile, of a model or of each layer
        if name in tensors:
            raise CheckpointError(f"{title} holds {name} twice.")
        tensors[name] = value
    if all(name.startswith("module.") for name in tensors):
        tensors = {name.removeprefix("module."): value for name, value in tensors.items()}
    return Checkpoint(title, {k: tuple(v.shape) for k, v in tensors.items()}, tensors.__getitem__)


def _from_safetensors(title: str, paths: list[Path]) -> Checkpoint:
    from safetensors import safe_open  # its parser is in Rust and checks every offset

    home: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for path in paths:
        file: Any = safe_open(path, framework="pt")
        for name in file.keys():
            if name in home:
                raise CheckpointError(f"{title} holds {name} twice.")
            home[name], shapes[name] = file, tuple(file.get_slice(name).get_shape())

    def read(name: str) -> Tensor:
        with reading(title):
            tensor: Tensor = home[name].get_tensor(name)
        return tensor

    return Checkpoint(title, shapes, read)


def _from_torch(path: Path) -> Checkpoint:
    """Open what ``torch.save`` wrote; ``weights_only=True``: nothing in it is executed."""
    zipped = zipfile.is_zipfile(path)
    if zipped:
        with zipfile.ZipFile(path) as archive:
            _refuse_bomb(archive, path)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path.name} cannot be read as tensors alone, and code in it is not run."
        ) from error
    if not isinstance(loaded, Mapping):
        raise CheckpointError(f"{path.name} holds no state dict but a {type(loaded).__name__}.")
    opened = _from_state(loaded, path.name)
    for name in opened.shapes:
        tensor = opened.read(name)
        # A view may repeat a few stored bytes to any size; a saved parameter never does.
        plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise CheckpointError(f"{path.name}: {name} is no plain tensor.")
    return opened


def _from_npz(path: Path) -> Checkpoint:
    import numpy as np

    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    archive = zipfile.ZipFile(path)
    _refuse_bomb(archive, path)
    entries: dict[str, zipfile.ZipInfo] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        with archive.open(entry) as member:
            read_header = headers.get(np.lib.format.read_magic(member))
            if read_header is None or name in entries:
                raise CheckpointError(f"{path.name}: {name} is no plain array.")
            shape, _, dtype = read_header(member)
            if dtype.hasobject:
                raise CheckpointError(f"{path.name}: {name} holds pickled objects, which may run.")
            size = dtype.itemsize
            for n in shape:  # Python's integers: no product of sizes overflows
                size *= n
            if size != entry.file_size - member.tell():
                raise CheckpointError(f"{path.name}: {name} is not as long as its shape says.")
        entries[name], shapes[name] = entry, shape

    def read(name: str) -> Tensor:
        with reading(path.name), archive.open(entries[name]) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
            if array.dtype.kind == "V" and array.dtype.itemsize == 2:  # numpy knows no bfloat16
                return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))

    return Checkpoint(path.name, shapes, read)


def _refuse_bomb(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise if an archive would unpack to far more than it holds."""
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(_SLACK, _RATIO * path.stat().st_size):
        raise CheckpointError(
            f"{path.name} would unpack to {unpacked:,} bytes: weights do not compress like this."
        )
