"""Fixtures of the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# What the book is built from.
SOURCES = (
    "_*.yml",
    "_ext/*.py",
    "_ext/assets/*",
    "_ext/templates/*",
    "_ext/sphinx-anywidget/sphinx_anywidget/**/*",
    "_static/*",
    "chapters/terms.json",
    "chapters/*/*",
    "dnnl/**/*.py",  # the explorers, and the docstrings of the API pages
    "dnnl/explorers/css/*",
    "dnnl/explorers/static/*",
)

# Servers of the tests are on this machine, whatever proxy its network has.
for _name in ("NO_PROXY", "no_proxy"):
    _hosts = filter(None, [os.environ.get(_name), "127.0.0.1", "localhost"])
    os.environ[_name] = ",".join(_hosts)

# No deadline, because a busy machine is not an error. In CI the examples are always the same.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Start every test from the same seed, whichever tests ran before it."""
    if torch := sys.modules.get("torch"):  # the tests of the built book do not import it
        torch.manual_seed(0)


@pytest.fixture(scope="session")
def site() -> Path:
    """Return the folder of the built book, which must be newer than its sources."""
    built = ROOT / "_build" / "html"
    pages = [page for page in built.rglob("*.html") if page.name != "index.html"]
    if not pages:
        pytest.fail("the book is not built: run `make book` first")
    sources = [
        path
        for pattern in SOURCES
        for path in ROOT.glob(pattern)
        if path.is_file() and path.suffix != ".pyc" and path.name != "confirmed.json"
    ]
    newest = max(sources, key=lambda path: path.stat().st_mtime)
    if newest.stat().st_mtime > max(page.stat().st_mtime for page in pages):
        pytest.fail(f"{newest.relative_to(ROOT)} is newer than the built book: run `make book`")
    return built


@pytest.fixture(scope="session")
def javascript() -> Iterator[Any]:
    """Call functions of the explorers' JavaScript, without a browser."""
    from javascript import JavaScript

    started = JavaScript()
    yield started
    started.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start the browser that all tests of a worker share."""
    from explorer_page import start_browser

    with start_browser() as started:
        yield started


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Show explorers by ``show(*widgets, lang=…, theme=…, **options of the browser context)``.

    Returns an ``ExplorerPage``. The test fails if a page has written to its console.
    """
    from explorer_page import ExplorerPage, write_page

    opened: list[tuple[Any, ExplorerPage]] = []

    def start(*widgets: Any, lang: str = "en", theme: str = "light", **options: Any) -> Any:
        path = write_page(widgets, tmp_path / str(len(opened)), lang, theme)
        context = browser.new_context(color_scheme=theme, **options)
        opened.append((context, ExplorerPage(context.new_page(), path)))
        return opened[-1][1]

    yield start
    for context, _ in opened:
        context.close()
    for _, page in opened:
        assert not page.said, page.said
