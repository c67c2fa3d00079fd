"""Checkpoints as names, shapes, and one tensor at a time; from memory, a file or a folder.

A file may be damaged or hostile. No code in it is run (``weights_only=True``, no pickled arrays),
headers and pickles are checked before tensors are read, and every fault becomes a
:class:`CheckpointError`.
"""

import importlib
import json
import pickle
import pickletools
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeAlias

import torch
from torch import Tensor


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that does not hold a known model: nothing was loaded."""


Source: TypeAlias = Mapping[str, Any] | str | PathLike[str]
"""A state dict, the path of a file or folder, or the id ``"owner/name"`` of a hub repository."""

SUFFIXES = (".safetensors", ".npz", ".pt", ".pth", ".bin")
SAFE_PATH = re.compile(r"(?:[\w\-][\w.\- ]*/)*[\w\-][\w.\- ]*")  # no "..", no root, no backslash
WEIGHTS, INDEX, BIN = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
OWN = "dnnl"  # the entry of a safetensors file's metadata that describes a model of this package

_JSON_LIMIT = 32 << 20  # bytes; the index of a model in hundreds of files has a few MB
_SLACK, _RATIO = 64 << 20, 16  # what an archive may unpack to: weights hardly compress at all
_DEEPEST = 20  # of tuples in a pickle
_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")  # in the order of timm


@dataclass
class Checkpoint:
    """An opened checkpoint.

    Attributes:
        title: the name used in messages.
        shapes: the shape of every tensor by its name; no tensor has been read yet.
        read: returns one tensor by its name.
        metadata: the metadata of a safetensors file.
        config: the ``config.json`` beside the weights, where there is one.
        preprocessor: the ``preprocessor_config.json`` beside them, where there is one.
    """

    title: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    preprocessor: Mapping[str, Any] | None = None


@contextmanager
def reading(title: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn the errors with which a file, a server or a parser fails into a CheckpointError."""
    try:
        yield
    except (CheckpointError, ImportError):
        raise
    except (*_reading_errors(), *errors) as error:
        detail = " ".join(str(error).split())[:300]
        raise CheckpointError(
            f"{title} cannot be read: {type(error).__name__}: {detail}"
        ) from error


def _reading_errors() -> tuple[type[Exception], ...]:
    """Return what readers raise; the libraries that they need are not imported for it."""
    errors: list[type[Exception]] = [
        OSError,
        EOFError,
        ValueError,  # of JSON, of text encodings, of numpy's headers
        LookupError,
        RuntimeError,
        OverflowError,
        MemoryError,
        RecursionError,
        TypeError,
        struct.error,
        zipfile.BadZipFile,
        pickle.UnpicklingError,
    ]
    try:
        errors.append(importlib.import_module("safetensors").SafetensorError)
    except ImportError:
        pass
    return tuple(errors)


def open_local(
    source: Source, filename: str | None = None, read: Collection[str] = ()
) -> Checkpoint:
    """Open a state dict, a file, or a folder as ``save_pretrained`` writes it.

    ``read`` says which of ``CONFIG`` and ``PREPROCESSOR`` are read too.

    Raises:
        CheckpointError: if the source is missing or cannot be read.
    """
    if isinstance(source, Mapping):
        return _from_state(source, "the state dict")
    if not isinstance(source, (str, PathLike)):
        raise CheckpointError(
            "Expected a state dict, a path or a hub repository 'owner/name', but got "
            f"{type(source).__name__}. (For a model, pass model.state_dict().)"
        )
    path = Path(source)
    if _is(path, Path.is_dir):
        return from_folder(str(source), lambda name: existing(path / name), filename, read=read)
    return _from_file(path)


def _is(path: Path, test: Callable[[Path], bool]) -> bool:
    try:
        return test(path)
    except (OSError, ValueError):  # a name that is too long, or has a NUL in it
        return False


def existing(path: Path) -> Path | None:
    """Return the path of a file if it exists."""
    return path if _is(path, Path.is_file) else None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    with reading(path.name):
        if path.stat().st_size > _JSON_LIMIT:
            raise CheckpointError(f"{path.name} is too large: more than {_JSON_LIMIT:,} bytes.")
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise CheckpointError(f"{path.name} does not contain a JSON object.")
    return content


def shards_of(index: Mapping[str, Any], title: str) -> dict[str, str]:
    """Return the file of each tensor, as the index of a checkpoint in several files says.

    Raises:
        CheckpointError: if a value is not the name of a safetensors file in the same folder.
    """
    files = index.get("weight_map")
    if not isinstance(files, dict) or not files:
        raise CheckpointError(f"{title}: {INDEX} does not list any files.")
    for file in files.values():
        ok = isinstance(file, str) and SAFE_PATH.fullmatch(file) and "/" not in file
        if not ok or not file.endswith(".safetensors"):
            raise CheckpointError(
                f"{title}: {INDEX} refers to {file!r}, expected a safetensors file beside it."
            )
    return files


def safe_filename(filename: str) -> str:
    """Return ``filename`` if it stays inside its repository, else raise CheckpointError."""
    if not isinstance(filename, str) or not SAFE_PATH.fullmatch(filename):
        raise CheckpointError(
            f"Expected the name of a file in the repository, but got {filename!r}."
        )
    return filename


def needs(package: str) -> Any:
    """Import a package of ``dnnl[pretrained]``, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(
            f"Reading or saving this needs {name}: pip install 'dnnl[pretrained]'."
        ) from error


def _from_file(path: Path) -> Checkpoint:
    if existing(path) is None:
        shown = str(path) if len(str(path)) < 200 else f"{str(path)[:200]}…"
        raise CheckpointError(
            f"File not found: {shown} (hub repositories are written 'owner/name')."
        )
    with reading(path.name):
        if path.suffix == ".safetensors":
            return from_safetensors(path.name, [path])
        if path.suffix == ".npz":
            return _from_npz(path)
        if path.suffix in SUFFIXES:
            return _from_torch(path)
    raise CheckpointError(
        f"Expected a file that ends in {', '.join(SUFFIXES)}, but got {path.name}."
    )


def from_folder(
    title: str,
    locate: Callable[[str], Path | None],
    filename: str | None,
    *,
    read: Collection[str],
) -> Checkpoint:
    """Open the weights of a folder, and those configurations beside them that ``read`` names.

    ``locate`` returns the path of a file in the folder, or None.
    """
    if filename is not None:
        path = locate(safe_filename(filename))
        if path is None:
            raise CheckpointError(f"{title}: file not found: {filename}.")
        opened = _from_file(path)
    elif path := locate(WEIGHTS):
        opened = _from_file(path)
    elif path := locate(INDEX):
        files = shards_of(read_json(path), title)
        located = {file: locate(file) for file in sorted(set(files.values()))}
        if missing := [file for file, shard in located.items() if shard is None]:
            raise CheckpointError(f"{title}: {missing[0]}, which {INDEX} lists, is missing.")
        with reading(title):
            opened = from_safetensors(title, [shard for shard in located.values() if shard])
        if lacking := files.keys() - opened.shapes.keys():
            raise CheckpointError(f"{title}: no file contains {min(lacking)}, which {INDEX} lists.")
    elif path := locate(BIN):
        opened = _from_file(path)
    else:
        raise CheckpointError(f"{title} contains no {WEIGHTS}, {INDEX} or {BIN}.")
    if OWN in opened.metadata:  # a model of this package: complete in itself
        return opened
    if CONFIG in read and (path := locate(CONFIG)):
        opened.config = read_json(path)
    if PREPROCESSOR in read and (path := locate(PREPROCESSOR)):
        opened.preprocessor = read_json(path)
    return opened


def _from_state(state: Mapping[str, Any], title: str) -> Checkpoint:
    """Open a state dict, also one inside ``{"model": …}`` or of a model in DataParallel or compile.

    Of a training checkpoint with averaged weights (EMA) those are taken, as timm does.
    """
    for _ in range(2):
        wrapped = next((state[k] for k in _WRAPPERS if isinstance(state.get(k), Mapping)), None)
        state = state if wrapped is None else wrapped
    if not any(isinstance(value, Tensor) for value in state.values()):
        keys = ", ".join(map(repr, list(state)[:5])) or "none"
        raise CheckpointError(
            f"{title} has no tensors at its top level; its keys are {keys}. If one of them holds "
            f'the weights, pass that: load_pretrained(torch.load(path)["key"]).'
        )
    tensors: dict[str, Tensor] = {}
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CheckpointError(
                f"{title}: {name!r} is a {type(value).__name__}, expected a tensor."
            )
        if value.is_meta or value.layout != torch.strided or value.is_nested:
            raise CheckpointError(f"{title}: {name} is not a dense tensor with values.")
        name = name.replace("_orig_mod.", "")  # torch.compile, of a model or of each layer
        if name in tensors:
            raise CheckpointError(f"{title} contains {name} twice.")
        tensors[name] = value
    if all(name.startswith("module.") for name in tensors):
        tensors = {name.removeprefix("module."): value for name, value in tensors.items()}
    return Checkpoint(title, {k: tuple(v.shape) for k, v in tensors.items()}, tensors.__getitem__)


def from_safetensors(title: str, paths: list[Path]) -> Checkpoint:
    """Open safetensors files; their parser checks every offset."""
    safe_open = needs("safetensors").safe_open
    home: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    metadata: dict[str, str] = {}
    for path in paths:
        file: Any = safe_open(path, framework="pt")
        metadata |= file.metadata() or {}
        for name in file.keys():
            if name in home:
                raise CheckpointError(f"{title} contains {name} twice.")
            home[name], shapes[name] = file, tuple(file.get_slice(name).get_shape())

    def read(name: str) -> Tensor:
        with reading(title):
            return home[name].get_tensor(name)

    return Checkpoint(title, shapes, read, metadata)


def _from_torch(path: Path) -> Checkpoint:
    """Open what ``torch.save`` wrote; ``weights_only=True``: no code in it is executed."""
    zipped = zipfile.is_zipfile(path)
    if zipped:
        with zipfile.ZipFile(path) as archive:
            _refuse_bomb(archive, path)
            names = archive.namelist()
            if any(name.endswith("constants.pkl") for name in names):
                raise CheckpointError(
                    f"{path.name} is a TorchScript archive: "
                    "pass torch.jit.load(path).state_dict() instead."
                )
            for name in names:
                if name.endswith("data.pkl"):
                    with archive.open(name) as pickled:
                        _refuse_hostile_pickle(pickled, path)
    else:
        with open(path, "rb") as pickled:
            for _ in range(5):  # magic number, protocol, system, state dict, storage keys
                _refuse_hostile_pickle(pickled, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols that other programs chose
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        kind = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f"an object of {kind[1]}" if kind else "something"
        raise CheckpointError(
            f"{path.name} contains {what} that is not a tensor, and code in a file is never run. "
            "If you trust the file, pass load_pretrained(torch.load(path, weights_only=False)), or "
            "allow the class by torch.serialization.safe_globals around the call."
        ) from error
    if not isinstance(loaded, Mapping):
        raise CheckpointError(f"{path.name} is a {type(loaded).__name__}, expected a state dict.")
    opened = _from_state(loaded, path.name)
    for name in opened.shapes:
        tensor = opened.read(name)
        # A view may repeat a few stored bytes to any size; a saved parameter never does.
        plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise CheckpointError(f"{path.name}: {name} is larger than its stored values.")
    return opened


def _refuse_hostile_pickle(pickled: IO[bytes], path: Path) -> None:
    """Raise if a few bytes of a pickle ask for gigabytes or for hours; weights need neither.

    ``bytearray(n)`` takes any n bytes. A tuple that contains another one twice, which contains
    another one twice, …, takes twice the time at each level when it becomes a key.
    """
    depths: dict[Any, int] = {}  # of the tuples in the memo
    depth, fetched, memoized = 0, 0, 0
    operations = pickletools.genops(pickled)
    while True:
        try:
            operation, argument, _ = next(operations)
        except (StopIteration, ValueError):  # the end, or not a pickle: torch.load will say so
            return
        name = operation.name
        if isinstance(argument, str) and argument.split()[-1:] == ["bytearray"]:
            raise CheckpointError(f"{path.name} contains a bytearray, which weights do not need.")
        if name in ("GET", "BINGET", "LONG_BINGET"):
            fetched = max(fetched, depths.get(argument, 0))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            depths[memoized if argument is None else argument] = depth
            memoized += 1
        elif name.startswith("TUPLE"):
            depth, fetched = fetched + 1, 0
            if depth > _DEEPEST:
                raise CheckpointError(f"{path.name} contains tuples nested more than {depth} deep.")
        else:
            depth = 0


def _from_npz(path: Path) -> Checkpoint:
    np = needs("numpy")
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
                raise CheckpointError(f"{path.name}: {name} is not a plain array.")
            shape, _, dtype = read_header(member)
            if dtype.hasobject:
                raise CheckpointError(
                    f"{path.name}: {name} holds pickled objects, which are refused."
                )
            size = dtype.itemsize
            for n in shape:  # Python's integers: no product of sizes overflows
                size *= n
            if size != entry.file_size - member.tell():
                raise CheckpointError(f"{path.name}: the length of {name} does not fit its shape.")
        entries[name], shapes[name] = entry, shape

    def read(name: str) -> Tensor:
        with reading(path.name), archive.open(entries[name]) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
            if array.dtype.kind == "V" and array.dtype.itemsize == 2:  # numpy has no bfloat16
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
