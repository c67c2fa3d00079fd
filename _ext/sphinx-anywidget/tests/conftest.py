"""The example book, built, and a browser without a network."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from example_book import EXAMPLE, build
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("book")
    done = build(EXAMPLE, target)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(params=["http", "file"])
def root(request: pytest.FixtureRequest, book: Path) -> Iterator[str]:
    """The address of the book, by http and from disk."""
    if request.param == "file":
        yield book.as_uri()
        return
    handler = functools.partial(Quiet, directory=str(book))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def visit(chromium: Browser, root: str) -> Iterator[Callable[..., Page]]:
    """Open a page of the book, which may fetch nothing else and must stay silent.

    ``visit.fetched`` lists the files that it has fetched.
    """
    complaints: list[str] = []
    contexts = []

    def start(name: str, **options: object) -> Page:
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: start.fetched.append(request.url.rpartition("/")[2]))

        def only_the_book(route) -> None:
            if route.request.url.startswith((root, "blob:", "data:")):
                route.continue_()
            else:
                complaints.append(f"request: {route.request.url}")
                route.abort()

        page.route("**/*", only_the_book)
        page.goto(f"{root}/{name}.html")
        return page

    start.fetched = []
    yield start
    for context in contexts:
        context.close()
    assert not complaints
