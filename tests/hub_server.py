"""A small server that speaks the protocol of the hub, can misbehave, and counts its bytes."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Hub:
    """What the server has, how it behaves, and what it was asked.

    Attributes:
        folder: its files; ``owner/name/file`` is that file of that repository.
        cdn: the address to which it sends a reader of a large file, if any.
        behaviour: ``""``, or what ``_Handler`` does wrong.
        grown: by how many bytes a file that is ``pushed`` between two requests becomes longer.
        commit_on_errors: whether a missing file is answered with the commit, as by the real hub.
        asked: ``(method, path, range, authorization)`` of every request for a file.
        sent: bytes of files sent.
    """

    folder: Path
    url: str = ""
    cdn: str = ""
    behaviour: str = ""
    grown: int = 0
    commit_on_errors: bool = False
    asked: list[tuple[str, str, str, str]] = field(default_factory=list)
    sent: int = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, body: bool) -> None:
        hub, path = self.hub, self.path
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        told = self.headers.get("Authorization", "")
        if not path.startswith("/api/"):  # what the library asks for itself, once
            hub.asked.append((self.command, path, span[0] if span else "", told))
        if hub.behaviour == "401":
            return self._refuse(401, "GatedRepo")
        if hub.behaviour == "503":
            return self._refuse(503, "")
        if hub.behaviour == "no config" and path.endswith("config.json"):
            self.close_connection = True  # without an answer
            return
        if hub.behaviour == "endless error":
            return self._send_zeros(404, {"Content-Length": str(8 << 30)})
        match = re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/([\w.-]+)/(.+)", path)
        file = hub.folder / match[1] / match[3] if match else hub.folder / path.lstrip("/")
        if not (hub.folder / match[1]).is_dir() if match else False:
            return self._refuse(401, "RepoNotFound")
        if match and match[2] not in ("main", "v1"):
            return self._refuse(404, "RevisionNotFound")
        if not file.is_file():
            return self._refuse(404, "EntryNotFound")
        if hub.behaviour == "pushed" and span and int(span[1]) > 0:  # between two requests
            file.write_bytes(bytes(reversed(file.read_bytes())) + b"x" * hub.grown)
        size = file.stat().st_size
        headers = {
            "ETag": self._etag(match[3] if match else "cdn", file),
            "X-Repo-Commit": "0" * 40,
            "Accept-Ranges": "bytes",
        }
        if match and hub.cdn:  # as the hub does with large files
            headers |= {"X-Linked-Size": str(size), "X-Linked-Etag": headers["ETag"]}
            headers |= {"Location": f"{hub.cdn}/{match[1]}/{match[3]}", "Content-Length": "0"}
            return self._send(302, headers)
        first, last = (int(span[1]), min(int(span[2]), size - 1)) if span else (0, size - 1)
        if span and first >= size:
            return self._send(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
        if hub.behaviour == "no ranges":
            span, first, last = None, 0, size - 1
        if span:
            said = first + 1 if hub.behaviour == "shifted" else first
            headers["Content-Range"] = f"bytes {said}-{last}/{size}"
            if hub.behaviour == "no content range":
                del headers["Content-Range"]
        length = last + 1 - first
        if hub.behaviour == "short":  # a shorter range than was asked for
            length //= 2
        if hub.behaviour == "long":
            length += 1
        if hub.behaviour == "endless":
            length += 100 << 20
        headers["Content-Length"] = str(length)
        self._send(206 if span else 200, headers)
        if not body:
            return
        if hub.behaviour == "slow":
            return self._send_slowly(length)
        if hub.behaviour == "cut":  # the connection breaks half-way
            length //= 2
            self.close_connection = True
        with open(file, "rb") as content:
            content.seek(first)
            while length > 0:
                chunk = content.read(min(length, 1 << 16)) or bytes(min(length, 1 << 16))
                try:
                    self.wfile.write(chunk)
                except OSError:  # the reader has left
                    self.close_connection = True
                    return
                hub.sent += len(chunk)
                length -= len(chunk)

    def _etag(self, name: str, file: Path) -> str:
        """Return a tag that changes with the size and the first bytes of a file."""
        with open(file, "rb") as content:
            start = zlib.crc32(content.read(1 << 10))
        return f'"{name}-{file.stat().st_size}-{start}"'.replace("/", "-")

    def _send_zeros(self, status: int, headers: dict[str, str]) -> None:
        self._send(status, headers)
        self.close_connection = True
        with contextlib.suppress(OSError):
            while self.hub.sent < 1 << 30:
                self.wfile.write(bytes(1 << 16))
                self.hub.sent += 1 << 16

    def _send_slowly(self, length: int) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            for _ in range(length):
                self.wfile.write(b"\0")
                self.wfile.flush()
                time.sleep(0.02)

    def _refuse(self, status: int, code: str) -> None:
        headers = {"X-Error-Code": code, "Content-Length": "0"}
        if self.hub.commit_on_errors and code == "EntryNotFound":  # the library remembers it then
            headers["X-Repo-Commit"] = "0" * 40
        self._send(status, headers)

    def _send(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def serve(folder: Path) -> Iterator[Hub]:
    """Serve a folder on a free port of this machine."""
    hub = Hub(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
