"""The built book as a reader sees it: in Chromium, without a network, over http and from disk."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
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
        self.page.wait_for_function(
            "!document.querySelector('.math') || window.MathJax?.startup?.promise"
        )
        self.page.evaluate("window.MathJax?.startup?.promise")
        if self.page.evaluate(VIEWS):
            self.page.wait_for_function(READY)

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


READY = "performance.getEntriesByName('dnnl-explorers-ready').length"
VIEWS = "document.querySelectorAll('script[type*=\"widget-view+json\"]').length"
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


@pytest.mark.parametrize("by", ["http", "file"])
def test_every_explorer_is_there(read, by: str) -> None:
    reader, seen = read(by), 0
    for name in CHAPTERS:
        reader.open(name)
        slots, empty = reader.all(
            "[document.querySelectorAll('.dnnl-slot').length, document.querySelectorAll("
            "'.dnnl-slot:not(:has(.dnnl-explorer :is(button, input, canvas)))').length]"
        )
        assert not empty, name
        seen += slots
        assert not reader.all("document.querySelectorAll('.dnnl-slot [role=alert]').length"), name
    assert seen
    assert not reader.said


def test_a_stock_control_is_there_where_a_page_shows_one(read) -> None:
    """Besides explorers, a page may show a control of ipywidgets; its bundle comes afterwards."""
    reader, controls = read(), 0
    for name in CHAPTERS:
        reader.open(name)
        if not reader.all("document.querySelectorAll('script[src*=\"controls.js\"]').length"):
            continue
        reader.page.locator(".dnnl-stock").first.scroll_into_view_if_needed()
        reader.page.wait_for_function("performance.getEntriesByName('dnnl-controls-ready').length")
        controls += reader.all("document.querySelectorAll('.jupyter-widgets').length")
        assert not reader.said, name
    assert controls


def test_on_paper_and_without_scripts_a_still_stands_in(read) -> None:
    seen = 0
    for options in ({"java_script_enabled": False}, {}):
        reader = read(**options)
        for name in CHAPTERS:
            reader.page.goto(f"{reader.root}/{name}.html")
            if not options:
                reader.page.emulate_media(media="print")
            slots = reader.page.locator(".dnnl-slot")
            for i in range(slots.count()):
                still = slots.nth(i).locator(".dnnl-still").is_visible()
                # (a quiz is text and buttons, and stands on paper itself)
                own = slots.nth(i).locator(".dnnl-quiz").is_visible()
                assert still != own, name
                assert own or not slots.nth(i).locator(".dnnl-explorer:visible").count(), name
            seen += slots.count()
    assert seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(read, scheme: str) -> None:
    """No violation of WCAG 2.2 A and AA, nor of the good practice that axe knows."""
    reader = read(color_scheme=scheme, reduced_motion="reduce")
    for name in PAGES:
        reader.open(name)
        reader.page.add_script_tag(path=str(AXE_FILE_PATH))
        found = reader.all(
            "axe.run({ resultTypes: ['violations'] }).then(r => r.violations.map("
            "v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200)]))"
        )
        assert not found, f"{name}: {found}"


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_moves_while_a_page_appears(read, width: int) -> None:
    """The sum of all shifts, as browsers measure it; below 0.1 is what they call good."""
    reader = read(viewport={"width": width, "height": 800})
    reader.page.add_init_script(
        "window.shift = 0; new PerformanceObserver(list => { for (const e of list.getEntries())"
        " window.shift += e.value; }).observe({ type: 'layout-shift', buffered: true });"
    )
    for name in CHAPTERS:
        reader.open(name)
        assert reader.all("window.shift") < 0.1, name
