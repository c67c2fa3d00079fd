"""The built book as a reader sees it: in Chromium, without a network, over http and from disk."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import browser as chromium  # noqa: E402

pytestmark = pytest.mark.book

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = [TOC["root"], *(entry["file"] for entry in TOC["chapters"])]
PAGES = [*CHAPTERS, "genindex", "search"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="session")
def http(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium.find()
    if path is None:
        pytest.fail("no Chromium found: run `python tools/browser.py --install`")
    with sync_playwright() as playwright:
        # (the sandbox cannot be set up by root, as in a container)
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


class Reader:
    """A page in a browser that reaches nothing but the book, and all that went wrong on it."""

    def __init__(self, page: Page, root: str) -> None:
        self.page, self.root = page, root
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)
        page.route("**/*", self._only_the_book)

    def _failed(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # under way when the test went to another page
            self.said.append(f"failed: {request.url} ({request.failure})")

    def _answered(self, response) -> None:
        if response.status >= 400:
            self.said.append(f"{response.status}: {response.url}")

    def _only_the_book(self, route) -> None:
        if route.request.url.startswith((self.root, "data:", "blob:")):
            route.continue_()
        else:
            self.said.append(f"request: {route.request.url}")
            route.abort()

    def open(self, name: str) -> None:
        self.page.goto(f"{self.root}/{name}.html", wait_until="load")
        # Formulas are set after loading; their promise is there from the start.
        self.page.evaluate("window.MathJax?.startup?.promise")

    def all(self, script: str) -> list:
        return self.page.evaluate(script)


@pytest.fixture
def read(browser: Browser, site: Path, http: str) -> Iterator:
    """Open the book by ``read("http" | "file", **options of the browser context)``."""
    contexts = []

    def start(by: str = "http", **options) -> Reader:
        contexts.append(browser.new_context(**options))
        return Reader(contexts[-1].new_page(), http if by == "http" else site.as_uri())

    yield start
    for context in contexts:
        context.close()


WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("by", ["http", "file"])
def test_pages_are_silent_and_whole(read, by: str) -> None:
    reader, formulas = read(by), 0
    for name in PAGES:
        reader.open(name)
        unset = reader.all(
            "[...document.querySelectorAll('.math')].filter(e => !e.querySelector('mjx-container'))"
            ".map(e => e.textContent)"
        )
        assert not unset, f"{name}: {unset}"
        # What a screen reader reads in place of the drawn formula.
        drawn, spoken = reader.all(
            "['mjx-container', 'mjx-assistive-mml'].map(s => document.querySelectorAll(s).length)"
        )
        assert drawn == spoken, name
        assert not reader.all("document.querySelectorAll('mjx-merror').length"), name
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert not reader.all(broken), name
        assert not reader.said, f"{name}: {reader.said}"
        formulas += drawn
    assert formulas, "no page has a formula"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_narrow_phone(read, scheme: str) -> None:
    reader = read(color_scheme=scheme, viewport={"width": 320, "height": 640})
    for name in PAGES:
        reader.open(name)
        assert reader.all(WIDE) <= 0, name


def test_the_page_follows_the_readers_light_and_the_switch(read) -> None:
    for scheme in ("light", "dark"):
        reader = read(color_scheme=scheme)
        reader.open(CHAPTERS[1])
        assert reader.page.locator("html").get_attribute("data-theme") == scheme
    button = reader.page.locator("button.theme-switch-button:visible").first
    seen = set()
    for _ in range(3):
        button.click()
        seen.add(reader.page.locator("html").get_attribute("data-theme"))
    assert seen == {"light", "dark"}


def test_figures_stand_on_the_page_itself_in_the_dark(read) -> None:
    reader = read(color_scheme="dark")
    figures = 0
    for name in CHAPTERS:
        reader.open(name)
        styles = reader.all(
            "[...document.querySelectorAll('.cell_output img')].map(e => getComputedStyle(e))"
            ".map(s => [s.backgroundColor, s.backgroundImage, s.filter, s.opacity])"
        )
        for style in styles:
            assert style == ["rgba(0, 0, 0, 0)", "none", "none", "1"], name
        figures += len(styles)
    assert figures


@pytest.mark.parametrize("by", ["http", "file"])
def test_search_finds_a_page(read, by: str) -> None:
    reader = read(by)
    reader.page.goto(f"{reader.root}/search.html?q=class+token")
    results = reader.page.locator("#search-results li a")
    results.first.wait_for()
    assert [link for link in results.evaluate_all("a => a.map(e => e.href)") if "chapters/" in link]
    assert not reader.said


def test_icons_are_drawn(read) -> None:
    """The theme draws its icons by script; the book has the fonts alone."""
    reader = read()
    reader.open(CHAPTERS[0])
    reader.page.evaluate("document.fonts.ready")
    loaded = reader.all("[...document.fonts].filter(f => f.status === 'loaded').map(f => f.family)")
    assert [family for family in loaded if "Awesome" in family]


def test_the_book_can_be_read_from_page_to_page_by_keyboard(read) -> None:
    reader = read()
    reader.open(CHAPTERS[0])
    for following in CHAPTERS[1:3]:
        reader.page.locator("a.right-next").focus()
        reader.page.keyboard.press("Enter")
        reader.page.wait_for_url(f"**/{following}.html")
    assert not reader.said
