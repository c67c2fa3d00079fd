"""Read checkpoints of the hub: from the cache, downloaded, or one tensor by range requests."""

import json
import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dnnl.models.vit.pretrained.files import (
    CONFIG,
    INDEX,
    SUFFIXES,
    WEIGHTS,
    Checkpoint,
    CheckpointError,
    Source,
    from_folder,
    needs,
    read_json,
    reading,
    safe_filename,
    shards_of,
)

_LOGGER = logging.getLogger(__name__)

HUB_ID = re.compile(r"[\w\-][\w.\-]*/[\w\-][\w.\-]*")

_FIRST = 64 << 10  # bytes; one request brings the whole header of most models
_HEADER_LIMIT = 16 << 20
_TENSOR_LIMIT = 256 << 20
_ERROR_PAGE = 64 << 10
_SECONDS, _BYTES_PER_SECOND = 60, 10_000  # slower downloads are aborted


def hub_id(source: Source) -> str | None:
    """Return the repository id that ``source`` names, or None if it is a file or a folder."""
    if not isinstance(source, str):
        return None
    for prefix in ("hf-hub:", "hf_hub:"):  # timm's way to write it
        if source.startswith(prefix):
            return source.removeprefix(prefix)
    if not HUB_ID.fullmatch(source) or Path(source).suffix in SUFFIXES or Path(source).exists():
        return None
    return source


class Repository:
    """A repository of the hub.

    Args:
        repo_id: ``"owner/name"``.
        revision: a branch, tag or commit.
        token: an access token, if not the one that is logged in.

    Raises:
        CheckpointError: for a token that cannot be sent.
        ImportError: if huggingface_hub is not installed.
    """

    def __init__(self, repo_id: str, revision: str | None, token: str | bool | None) -> None:
        self.hub = needs("huggingface_hub")
        self.errors = needs("huggingface_hub.errors")
        self.id, _, tag = repo_id.partition("@")  # timm writes a revision so
        if not HUB_ID.fullmatch(self.id):
            raise CheckpointError(f"Expected a repository 'owner/name', but got {self.id!r}.")
        self.revision, self.token = revision or tag or None, _clean(token)
        self.offline = self.online = False

    def download(self, filename: str | None, read: Collection[str]) -> Checkpoint:
        """Open the whole checkpoint; its files land in the hub's own cache."""
        with self._reading():
            try:
                return from_folder(self.id, self._download, filename, read=read)
            except CheckpointError as error:
                if self.offline:
                    raise CheckpointError(
                        f"{error} (The hub cannot be reached: only the local cache was read.)"
                    ) from error
                raise

    def table(self, filename: str | None) -> Checkpoint:
        """Open the checkpoint for a tensor or two: from the cache, else by range requests."""
        with self._reading():
            try:
                return from_folder(self.id, self._cached, filename, read=())
            except CheckpointError:
                pass  # not in the cache as a whole
            if filename is not None and not filename.endswith(".safetensors"):
                raise CheckpointError(
                    f"{self.id}: only safetensors files can be read in parts, not {filename}."
                )
            return self._in_parts(filename)

    def _reading(self) -> Any:
        return reading(self.id, self.errors.HTTPError)

    def _cached(self, name: str) -> Path | None:
        path = self.hub.try_to_load_from_cache(self.id, name, revision=self.revision)
        return Path(path) if isinstance(path, str) else None

    def _download(self, name: str) -> Path | None:
        cached = self._cached(name)
        if self.offline:
            if cached is None:
                self._warn_of(name)
            return cached
        try:
            path = self.hub.hf_hub_download(self.id, name, revision=self.revision, token=self.token)
        except self.errors.LocalEntryNotFoundError:  # no connection, and not in the cache
            if self.online:  # the connection broke between two files
                raise
            self.offline = True
            self._warn_of(name)
            return None
        except self.errors.EntryNotFoundError:
            self.online = True
            return None
        self.online = self.online or cached is None
        return Path(path)

    def _warn_of(self, name: str) -> None:
        """Log that a configuration is neither in the cache nor known to be absent."""
        found = self.hub.try_to_load_from_cache(self.id, name, revision=self.revision)
        if found is None and name == CONFIG:
            _LOGGER.warning(
                "%s: %s is not in the local cache and the hub cannot be reached; "
                "settings follow the rules of load_pretrained.",
                self.id,
                name,
            )

    def _in_parts(self, filename: str | None) -> Checkpoint:
        missing = self.errors.EntryNotFoundError
        try:
            file = _RemoteFile(self, filename or WEIGHTS)
            return Checkpoint(self.id, file.shapes, file.read, file.metadata)
        except missing:
            if filename is not None:
                raise
        try:
            index = self.hub.hf_hub_download(
                self.id, INDEX, revision=self.revision, token=self.token
            )
        except missing as error:
            raise CheckpointError(f"{self.id} contains no {WEIGHTS} and no {INDEX}.") from error
        shards = _Shards(self, shards_of(read_json(Path(index)), self.id))
        return Checkpoint(self.id, shards, shards.read)


def _clean(token: str | bool | None) -> str | bool | None:
    """Return a token without white space around it; one that no header can carry is an error."""
    if not isinstance(token, str):
        return token
    token = token.strip()
    if not token:
        raise CheckpointError("The token is empty.")
    if not re.fullmatch(r"[\x21-\x7e]+", token):  # the message must not show it
        raise CheckpointError("The token has characters that an HTTP header cannot carry.")
    return token


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, which must not have a name twice."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice in the header")
    return dict(pairs)


class _RemoteFile:
    """A remote safetensors file: the header is read at once, each tensor when it is needed.

    Attributes:
        shapes: the shape of every tensor by its name.
        metadata: the metadata of the file.
    """

    def __init__(self, repository: Repository, filename: str) -> None:
        hub = repository.hub
        self.repository = repository
        self.url = hub.hf_hub_url(
            repository.id, safe_filename(filename), revision=repository.revision
        )
        self.headers = needs("huggingface_hub.utils").build_hf_headers(token=repository.token)
        self.version: tuple[int, str | None] | None = None  # size and ETag, once they are known
        start = self._fetch(0, _FIRST)
        length = int.from_bytes(start[:8], "little")
        self.begin = 8 + length
        if len(start) < 8 or self.begin > min(8 + _HEADER_LIMIT, self.size):
            raise CheckpointError(
                f"{self.title} is not a safetensors file: its header claims {length:,} bytes."
            )
        if self.begin > len(start):
            start += self._fetch(len(start), self.begin)
        header = json.loads(start[8 : self.begin], object_pairs_hook=_unique)
        self.metadata: dict[str, str] = header.pop("__metadata__", {})
        self.entries: dict[str, Any] = header
        self.shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}

    @property
    def title(self) -> str:
        return self.repository.id

    @property
    def size(self) -> int:
        assert self.version is not None
        return self.version[0]

    def read(self, name: str) -> Tensor:
        """Return one tensor: one request, for its bytes alone."""
        with reading(self.title, self.repository.errors.HTTPError):
            entry = self.entries[name]
            first, last = entry["data_offsets"]
            if not 0 <= first < last:
                raise CheckpointError(f"{self.title}: invalid data_offsets for tensor {name!r}.")
            if last - first > _TENSOR_LIMIT:
                raise CheckpointError(f"{self.title}: {name} has {last - first:,} bytes.")
            data = self._fetch(self.begin + first, self.begin + last)
            # A file of this tensor alone, so that safetensors checks its dtype, shape and length.
            alone = json.dumps({name: {**entry, "data_offsets": [0, last - first]}}).encode()
            load = needs("safetensors.torch").load
            return load(len(alone).to_bytes(8, "little") + alone + data)[name]

    def _fetch(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` to ``stop``, or to the end of the file."""
        headers = {
            **self.headers,
            "Range": f"bytes={start}-{stop - 1}",
            "Accept-Encoding": "identity",
        }
        utils, constants = needs("huggingface_hub.utils"), needs("huggingface_hub.constants")
        # The session is one of httpx, whose stream lets us stop when a server sends too much.
        with utils.get_session().stream(
            "GET", self.url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
        ) as answer:
            if answer.status_code >= 400:
                page = self._body(answer, _ERROR_PAGE)[:_ERROR_PAGE]
                kept = {k: v for k, v in answer.headers.items() if k.startswith("x-")}
                utils.hf_raise_for_status(
                    type(answer)(
                        answer.status_code, headers=kept, content=page, request=answer.request
                    )
                )
            span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.headers.get("Content-Range", ""))
            if span is None or int(span[1]) != start:
                raise CheckpointError(
                    f"{self.title}: the server does not support HTTP range requests."
                )
            version = (int(span[3]), answer.headers.get("ETag"))
            if self.version not in (None, version):
                raise CheckpointError(f"{self.title} changed while it was read: try again.")
            self.version = version
            wanted = min(stop, self.size) - start
            data = self._body(answer, wanted)
        if len(data) != wanted:
            raise CheckpointError(
                f"{self.title}: the server sent {len(data)} bytes where {wanted} were asked for."
            )
        return data

    def _body(self, answer: Any, limit: int) -> bytes:
        """Return the body of an answer; stop soon after ``limit`` bytes, or after a long wait."""
        data, deadline = bytearray(), time.monotonic() + _SECONDS + limit / _BYTES_PER_SECOND
        for chunk in answer.iter_bytes():
            data += chunk
            if len(data) > limit:
                break
            if time.monotonic() > deadline:
                raise CheckpointError(f"{self.title}: the server is too slow.")
        return bytes(data)


class _Shards(Mapping[str, tuple[int, ...]]):
    """The shapes of a model in several files; a file's header is read when it is asked for."""

    def __init__(self, repository: Repository, files: dict[str, str]) -> None:
        self.repository, self.files = repository, files
        self.opened: dict[str, _RemoteFile] = {}

    def read(self, name: str) -> Tensor:
        return self._file(name).read(name)

    def __getitem__(self, name: str) -> tuple[int, ...]:
        return self._file(name).shapes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __contains__(self, name: Any) -> bool:  # Mapping's own would read headers
        return name in self.files

    def _file(self, name: str) -> _RemoteFile:
        file, title = self.files[name], self.repository.id
        with reading(title, self.repository.errors.HTTPError):
            if file not in self.opened:
                self.opened[file] = _RemoteFile(self.repository, file)
            if name not in self.opened[file].shapes:
                raise CheckpointError(f"{title}: {file} lacks {name}, which {INDEX} lists.")
        return self.opened[file]
