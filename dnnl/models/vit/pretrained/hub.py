"""A safetensors file of the hub, read in parts: its header, and one tensor of hundreds of MB."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dnnl.models.vit.pretrained.files import (
    INDEX,
    WEIGHTS,
    Checkpoint,
    CheckpointError,
    import_hub,
    read_json,
    reading,
    safe_filename,
    shards_of,
)

_FIRST = 64 << 10  # one request brings the whole header of most models
_HEADER_LIMIT = 16 << 20
_TENSOR_LIMIT = 256 << 20
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


def open_remote(
    repo_id: str, *, filename: str | None, revision: str | None, token: str | bool | None
) -> Checkpoint:
    """Open the safetensors weights of a hub repository without downloading them.

    ``HF_ENDPOINT`` and the rest of huggingface_hub's settings apply.

    Raises:
        CheckpointError: if there are none, or the server or the file is not what it should be.
        ImportError: if huggingface_hub is not installed.
    """
    hub, utils = import_hub(), import_hub(".utils")
    absent = import_hub(".errors").EntryNotFoundError

    def part(name: str) -> "_Part":
        return _Part(
            repo_id,
            hub.hf_hub_url(repo_id, safe_filename(name), revision=revision),
            utils.build_hf_headers(token=token),
        )

    if filename is not None and not filename.endswith(".safetensors"):
        raise CheckpointError(f"Only a safetensors file can be read in parts, not {filename}.")
    with reading(repo_id):
        try:
            file = part(filename or WEIGHTS)
            return Checkpoint(repo_id, file.shapes, file.read)
        except absent:
            if filename is not None:
                raise
        try:
            path = hub.hf_hub_download(repo_id, INDEX, revision=revision, token=token)
        except absent as error:
            raise CheckpointError(f"{repo_id} holds no {WEIGHTS} and no {INDEX}.") from error
        files = shards_of(read_json(Path(path)), repo_id)
        shards = _Shards(repo_id, files, part)
        return Checkpoint(repo_id, shards, shards.read)


class _Part:
    """One remote file, of which the header has been read."""

    def __init__(self, title: str, url: str, headers: dict[str, str]) -> None:
        self.title, self.url, self.headers = title, url, headers
        start, self.size = self._fetch(0, _FIRST)
        length = int.from_bytes(start[:8], "little")
        self.begin = 8 + length
        if len(start) < 8 or length > min(_HEADER_LIMIT, self.size - 8):
            raise CheckpointError(f"{title}: no safetensors file, its header cannot be that long.")
        if self.begin > len(start):
            start += self._fetch(len(start), self.begin)[0]
        header = json.loads(start[8 : self.begin])
        header.pop("__metadata__", None)
        self.tensors: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
        for name, entry in header.items():
            shape, (first, last) = tuple(entry["shape"]), entry["data_offsets"]
            if not all(type(n) is int and n >= 0 for n in (*shape, first, last)):
                raise CheckpointError(f"{title}: the shape or the place of {name} is none.")
            self.tensors[name] = (entry["dtype"], shape, first, last)
        self.shapes = {name: entry[1] for name, entry in self.tensors.items()}

    def read(self, name: str) -> Tensor:
        """Return one tensor: a request for its bytes and no others."""
        with reading(self.title):
            kind, shape, first, last = self.tensors[name]
            dtype = _DTYPES.get(kind)
            if dtype is None:
                raise CheckpointError(f"{self.title}: {name} is of dtype {kind}, not floating.")
            size = torch.finfo(dtype).bits // 8
            for n in shape:
                size *= n
            if last - first != size or self.begin + last > self.size:
                raise CheckpointError(f"{self.title}: the offsets of {name} do not fit its shape.")
            if not 0 < size <= _TENSOR_LIMIT:
                raise CheckpointError(f"{self.title}: {name} has {size:,} bytes.")
            data, _ = self._fetch(self.begin + first, self.begin + last)
            return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)

    def _fetch(self, start: int, stop: int) -> tuple[bytes, int]:
        """Return bytes ``start`` to ``stop`` (or the file's end), and the size of the file."""
        utils, constants = import_hub(".utils"), import_hub(".constants")
        headers = {
            **self.headers,
            "Range": f"bytes={start}-{stop - 1}",
            "Accept-Encoding": "identity",
        }
        # Streamed, so that a server that answers with the whole file is left before it has sent it.
        with utils.get_session().stream(
            "GET", self.url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
        ) as answer:
            if answer.status_code >= 400:
                answer.read()
                utils.hf_raise_for_status(answer)
            said = answer.headers.get("Content-Range", "")
            span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", said)
            if span is None or int(span[1]) != start:
                raise CheckpointError(f"{self.title}: the server sends whole files, no ranges.")
            size = int(span[3])
            data, wanted = bytearray(), min(stop, size) - start
            for chunk in answer.iter_bytes():
                data += chunk
                if len(data) > wanted:
                    break
        if len(data) != wanted:
            raise CheckpointError(
                f"{self.title}: the server sent {len(data)} bytes where {wanted} were asked for."
            )
        return bytes(data), size


class _Shards(Mapping[str, tuple[int, ...]]):
    """The shapes of a model in several files; a file's header is read when it is asked for."""

    def __init__(self, title: str, files: dict[str, str], part: Callable[[str], _Part]) -> None:
        self.title, self.files, self.part = title, files, part
        self.opened: dict[str, _Part] = {}

    def read(self, name: str) -> Tensor:
        return self._home(name).read(name)

    def __getitem__(self, name: str) -> tuple[int, ...]:
        return self._home(name).shapes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __contains__(self, name: Any) -> bool:  # Mapping's own would read headers
        return name in self.files

    def _home(self, name: str) -> _Part:
        file = self.files[name]
        with reading(self.title):
            if file not in self.opened:
                self.opened[file] = self.part(file)
            if name not in self.opened[file].shapes:
                raise CheckpointError(f"{self.title}: {file} lacks {name}, which {INDEX} lists.")
        return self.opened[file]
