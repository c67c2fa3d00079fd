"""The built book as a reader sees it: in Chromium, without a network, over http and from disk."""

from __future__ import annotations

import functools
import io
import os
import re
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from PIL import Image
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.book

sys.path.insert(0, str(ROOT / "tools"))

import book  # noqa: E402

# Where each page lies in the site, by edition: chapters/en/06_order, zh/chapters/zh/06_order.
ROOTS = {"en": "", "zh": "zh/"}
CHAPTERS = {lang: [root + page for page in book.pages(lang)] for lang, root in ROOTS.items()}
PAGES = [
    *(page for pages in CHAPTERS.values() for page in pages),
    *(root + page for root in ROOTS.values() for page in ("genindex", "search")),
]
LOCALE = {"en": "en-US", "zh": "zh-CN"}  # of a reader who is offered no other language


def edition(page: str) -> str:
    return "zh" if page.startswith("zh/") else "en"


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
        if self.page.evaluate(VIEWS):
            self.page.wait_for_function(READY)

    def show_all(self) -> None:
        """Show the explorers with large data, too, which wait until the reader comes near."""
        self.page.evaluate("window.sphinxAnywidget?.then((all) => all.showAll()).then(() => 0)")

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


READY = "performance.getEntriesByName('anywidgets-ready').length"
VIEWS = "document.querySelectorAll('script[type*=\"widget-view+json\"]').length"
LAID_OUT = "document.documentElement.classList.contains('dnnl-laid-out')"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

# The sum of all shifts, as browsers measure it; they call what is below 0.1 good.
SHIFT = """
window.shift = 0;
new PerformanceObserver(list => { for (const e of list.getEntries()) window.shift += e.value; })
  .observe({ type: 'layout-shift', buffered: true });
"""

# ---- what must be true of every page, however it is opened ---------------------------------------


def unset_formulas(reader: Reader) -> object:
    """Formulas without a drawing of a sensible size, or with glyphs missing."""
    reader.page.wait_for_function(LAID_OUT)
    return reader.all("""[...document.querySelectorAll('.math mjx-container')].filter(e => {
      const svg = e.querySelector('svg'), em = parseFloat(getComputedStyle(e).fontSize);
      const { width, height } = svg.getBoundingClientRect();
      const ink = svg.querySelector('g').getBBox();
      const glyphs = [...svg.querySelectorAll('use')].map(u => u.getAttribute('href'));
      return width < 0.2 * em || height < 0.3 * em || !ink.width || !ink.height
        || !glyphs.every(href => document.querySelector(`.dnnl-glyphs ${href}`));
    }).map(e => e.textContent)""")


def broken_pictures(reader: Reader) -> object:
    return reader.all(
        "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    )


def cards_under_figures(reader: Reader) -> object:
    """Figures are transparent and stand on the page itself, in the dark too."""
    return reader.all("""[...document.querySelectorAll('.cell_output img')].map(e => {
      const { backgroundColor, backgroundImage, filter, opacity } = getComputedStyle(e);
      return [backgroundColor, backgroundImage, filter, opacity].join(' ');
    }).filter(style => style !== 'rgba(0, 0, 0, 0) none none 1')""")


def missing_explorers(reader: Reader) -> object:
    return reader.all("""(() => {
      const there = '.dnnl-explorer :is(button, input, canvas)';
      const empty = document.querySelectorAll(`.anywidget-slot:not(:has(${there}))`).length;
      return empty + document.querySelectorAll('.anywidget-slot [role=alert]').length;
    })()""")


def explorers_in_another_language(reader: Reader) -> object:
    """Explorers and quizzes speak the language of the page."""
    return reader.all("""(() => {
      const chinese = document.documentElement.lang.startsWith('zh');
      return [...document.querySelectorAll('.dnnl-explorer')].map(e => e.textContent)
        .filter(text => /[\u4e00-\u9fff]/.test(text) !== chinese);
    })()""")


# Of the tokens of code that look alike, one remains a token, and the others become plain text. Axe
# would take ten seconds to find the contrast of each.
ALIKE = """(() => {
  const seen = new Set();
  for (const token of document.querySelectorAll('.highlight pre span')) {
    const { color, backgroundColor } = getComputedStyle(token);
    const behind = getComputedStyle(token.closest('.highlight')).backgroundColor;
    const look = [token.className, color, backgroundColor, behind].join(' ');
    if (seen.has(look)) token.replaceWith(...token.childNodes);
    seen.add(look);
  }
})()"""


def violations(reader: Reader, where: str = "html") -> object:
    """What axe finds against WCAG 2.2 A and AA, and against the good practice that it knows.

    (It would fetch the style sheets once more, which file:// forbids, for a rule on orientation.)
    """
    # All of the page, what is out of sight too.
    reader.page.add_style_tag(content="article section { content-visibility: visible !important }")
    reader.page.evaluate("document.fonts.ready")
    reader.page.wait_for_timeout(200)
    reader.page.add_script_tag(path=str(AXE_FILE_PATH))
    reader.all(ALIKE)
    return reader.all(
        f"axe.run('{where}', {{ resultTypes: ['violations'], preload: false }})"
        ".then(r => r.violations.map("
        "v => [v.id, v.nodes.length, String(v.nodes[0].target), v.nodes[0].html.slice(0, 200)]))"
    )


def missing_controls(reader: Reader) -> object:
    """A stock control of ipywidgets, where a page shows one: its bundle comes afterwards."""
    state = 'script[type="application/vnd.jupyter.widget-state+json"]'
    stock = f"""[...document.querySelectorAll('{state}')]
      .some((tag) => JSON.parse(tag.textContent).controls)"""
    if not reader.all(stock):
        return None
    reader.page.wait_for_function("""() => {
      document.querySelector('.anywidget-stock').scrollIntoView();  // what is above may still grow
      return performance.getEntriesByName('anywidget-controls-ready').length;
    }""")
    return not reader.all("document.querySelectorAll('.jupyter-widgets').length")


def missing_stills(reader: Reader) -> object:
    """On paper, a still stands in for an explorer; a quiz is text, and stands there itself."""
    reader.page.emulate_media(media="print")
    return reader.page.locator(".anywidget-slot").evaluate_all("""slots => {
      const seen = (slot, s) => [...slot.querySelectorAll(s)].some(e => e.checkVisibility());
      return slots.filter(slot => {
        const own = seen(slot, '.dnnl-quiz');
        const still = seen(slot, '.anywidget-still');
        return own === still || (!own && seen(slot, '.dnnl-explorer'));
      }).length;
    }""")


# One visit serves many checks: over http in the dark on a wide screen, from disk in the light on
# the narrowest phone.
VISITS = {
    "http": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "file": {"color_scheme": "light", "viewport": {"width": 320, "height": 640}},
}


@pytest.mark.parametrize("by", VISITS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(read, name: str, by: str) -> None:
    """Silent, without a network, nothing broken or moving or too wide, and open to everyone."""
    reader = read(by, locale=LOCALE[edition(name)], reduced_motion="reduce", **VISITS[by])
    reader.page.add_init_script(SHIFT)
    reader.open(name)
    shift = reader.all("window.shift")
    reader.show_all()
    found = {
        "moved while it appeared": shift if shift > 0.02 else None,
        "wider than the window": max(0, reader.all(WIDE)),
        "an offer to a reader at home": reader.page.locator(".dnnl-offer").is_visible(),
        "formulas": unset_formulas(reader),
        "pictures": broken_pictures(reader),
        "figures": cards_under_figures(reader),
        "explorers": missing_explorers(reader),
        "language": explorers_in_another_language(reader),
        "controls": missing_controls(reader),
        # Once for a page: the English ones in the dark, their counterparts in the light.
        "axe": violations(reader) if (edition(name) == "en") == (by == "http") else None,
        "stills on the screen": reader.page.locator(".anywidget-still:visible").count(),
        "on paper": missing_stills(reader),  # (the last: it turns the page into paper)
    }
    assert not {what: complaint for what, complaint in found.items() if complaint}
    assert not reader.said


def test_the_checks_have_something_to_look_at(read) -> None:
    reader = read()
    count = dict.fromkeys(
        [".math", ".anywidget-slot", ".cell_output img", ".anywidget-stock", ".dnnl-quiz"], 0
    )
    for name in CHAPTERS["zh"]:
        reader.open(name)
        for what in count:
            count[what] += reader.page.locator(what).count()
    assert all(count.values()), count


def test_without_scripts_a_still_stands_in(read) -> None:
    reader, seen = read(java_script_enabled=False), 0
    for name in CHAPTERS["en"]:
        reader.page.goto(f"{reader.root}/{name}.html")
        slots = reader.page.locator(".anywidget-slot")
        for i in range(slots.count()):
            assert slots.nth(i).locator(".anywidget-still").is_visible(), name
        seen += slots.count()
    assert seen


# ---- the contents of a page, and paper -----------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 390])
def test_a_link_of_the_contents_leads_to_its_section(read, width: int) -> None:
    name = CHAPTERS["en"][7]
    for how in ("at once", "when the page is laid out"):
        reader = read(viewport={"width": width, "height": 800}, reduced_motion="reduce")
        links = "nav.page-toc a, .bd-toc a" if width > 1000 else "article a.headerlink"
        for at in (3, -4, -2):
            reader.page.goto(f"{reader.root}/{name}.html", wait_until="domcontentloaded")
            if how != "at once":
                reader.page.wait_for_function(LAID_OUT)
            link = reader.page.locator(links).nth(at)
            wanted = link.get_attribute("href")
            assert wanted and wanted.startswith("#")
            link.evaluate("link => link.click()")
            reader.page.wait_for_load_state("load")
            top = reader.page.evaluate(
                "id => document.getElementById(id).getBoundingClientRect().top", wanted[1:]
            )
            assert -5 <= top <= 200, (how, wanted, top)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_white_and_complete_and_the_screen_as_before(read, scheme: str) -> None:
    for name in (CHAPTERS["en"][1], CHAPTERS["zh"][7]):
        reader = read(color_scheme=scheme)
        reader.open(name)
        closed = reader.page.locator("article details:not([open])").count()
        assert closed > 5
        reader.page.emulate_media(media="print")
        reader.page.wait_for_function("!document.querySelector('article details:not([open])')")
        assert reader.page.locator("html").get_attribute("data-theme") == "light"
        colour = "getComputedStyle(document.body).backgroundColor"
        assert reader.page.evaluate(colour) == "rgb(255, 255, 255)"
        dark = reader.page.evaluate("""[...document.querySelectorAll('article :is(p, li, pre, h2)')]
          .map(e => getComputedStyle(e).color.match(/[0-9]+/g).map(Number))
          .filter(([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b > 130).length""")
        assert dark == 0
        # What was folded is there at once: a print shows the first moment of an animation.
        opened = reader.page.locator("article details.hide > :not(summary)").evaluate_all(
            "all => all.map(e => [getComputedStyle(e).opacity, getComputedStyle(e).animationName])"
        )
        assert opened and all(style == ["1", "none"] for style in opened)
        reader.page.emulate_media(media="screen")
        reader.page.wait_for_function(
            "n => document.querySelectorAll('article details:not([open])').length === n", arg=closed
        )
        assert reader.page.locator("html").get_attribute("data-theme") == scheme


def test_a_capture_of_the_whole_page_is_complete(read) -> None:
    """No screenful of it is empty."""
    reader = read(viewport={"width": 1280, "height": 800})
    reader.open(CHAPTERS["en"][7])
    reader.page.wait_for_function(LAID_OUT)
    # A window as tall as the page, as browsers take for it, brings every explorer near.
    height = reader.page.evaluate("document.documentElement.scrollHeight")
    reader.page.set_viewport_size({"width": 1280, "height": height})
    reader.page.wait_for_function(
        "!document.querySelector('.anywidget-slot:not(:has(canvas, button))')"
    )
    with Image.open(io.BytesIO(reader.page.screenshot(full_page=True))) as image:
        assert image.height > 8000
        for top in range(0, image.height - 800, 800):
            article = image.convert("L").crop((400, top, 1000, top + 800))
            darkest, lightest = article.getextrema()
            assert lightest - darkest > 100, f"empty from {top} on"


# ---- light and dark, icons, keyboard -------------------------------------------------------------


def test_the_page_follows_the_readers_light_and_the_switch(read) -> None:
    for scheme in ("light", "dark"):
        reader = read(color_scheme=scheme)
        reader.open(CHAPTERS["en"][1])
        assert reader.page.locator("html").get_attribute("data-theme") == scheme
    button = reader.page.locator("button.theme-switch-button:visible").first
    seen = set()
    for _ in range(3):
        button.click()
        seen.add(reader.page.locator("html").get_attribute("data-theme"))
    assert seen == {"light", "dark"}


def test_icons_are_drawn(read) -> None:
    """The theme draws its icons by script; the book has the fonts alone."""
    reader = read()
    reader.open(CHAPTERS["en"][0])
    reader.page.evaluate("document.fonts.ready")
    loaded = reader.all("[...document.fonts].filter(f => f.status === 'loaded').map(f => f.family)")
    assert [family for family in loaded if "Awesome" in family]


@pytest.mark.parametrize("lang", CHAPTERS)
def test_the_book_can_be_read_from_page_to_page_by_keyboard(read, lang: str) -> None:
    reader = read(locale=LOCALE[lang])
    reader.open(CHAPTERS[lang][0])
    for following in CHAPTERS[lang][1:3]:
        reader.page.locator("a.right-next").focus()
        reader.page.keyboard.press("Enter")
        reader.page.wait_for_url(f"**/{following}.html")
    assert not reader.said


# ---- two languages -------------------------------------------------------------------------------

# A page, its counterpart, and the languages of readers who are at home in one of them.
SECTION = {"en": "chapters/en/07_two_dimensions", "zh": "zh/chapters/zh/07_two_dimensions"}
OFFER = ".dnnl-offer"


def other(lang: str) -> str:
    return "zh" if lang == "en" else "en"


@pytest.mark.parametrize("by", ["http", "file"])
def test_the_switch_leads_to_the_same_part_of_the_other_edition(read, by: str) -> None:
    """On a small phone, and back."""
    reader = read(by, viewport={"width": 320, "height": 640})
    reader.open(SECTION["en"])
    reader.page.locator("#part-4").evaluate("e => e.nextElementSibling.scrollIntoView()")
    for lang in ("zh", "en"):
        switch = reader.page.locator("a.dnnl-language")
        assert switch.is_visible()
        box = switch.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 320 and box["height"] >= 24
        switch.click()
        reader.page.wait_for_url(f"**/{SECTION[lang]}.html#part-4")
        reader.page.wait_for_function("document.readyState === 'complete'")
        reader.page.wait_for_function(READY)
        reader.page.wait_for_function(
            "Math.abs(document.querySelector('#part-4').getBoundingClientRect().top) < 200"
        )
        reader.page.wait_for_function("'ready' in document.querySelector('.dnnl-language').dataset")
    assert not reader.said


def test_the_switch_at_the_top_leads_to_the_top_and_takes_the_query_along(read) -> None:
    reader = read()
    reader.open("chapters/en/index")
    reader.page.locator("a.dnnl-language").click()
    reader.page.wait_for_url("**/zh/chapters/zh/index.html")
    reader.page.goto(f"{reader.root}/search.html?q=interpolate_pos_embedding")
    reader.page.wait_for_function("'ready' in document.querySelector('.dnnl-language').dataset")
    reader.page.locator("a.dnnl-language").click()
    reader.page.wait_for_url("**/zh/search.html?q=interpolate_pos_embedding")
    reader.page.locator("#search-results li a").first.wait_for()


@pytest.mark.parametrize("by", ["http", "file"])
@pytest.mark.parametrize("lang", LOCALE)
def test_a_first_reader_is_offered_the_language_of_the_browser(read, lang: str, by: str) -> None:
    """Once, at the foot of the window, where nothing moves; and the answer is remembered."""
    reader = read(by, locale=LOCALE[lang], viewport={"width": 360, "height": 700})
    reader.page.add_init_script(SHIFT)
    foreign, home = SECTION[other(lang)], SECTION[lang]
    reader.open(foreign)
    offer = reader.page.locator(OFFER)
    offer.wait_for()
    assert reader.page.url.endswith(f"{foreign}.html"), "never redirected"
    assert (
        re.search("[\u4e00-\u9fff]", offer.inner_text())
        if lang == "zh"
        else ("English" in offer.inner_text())
    )
    assert not violations(reader, OFFER)
    assert reader.all(WIDE) <= 0 and reader.all("window.shift") <= 0.02

    offer.locator("button").click()  # no, thank you
    assert not offer.is_visible()
    reader.open(foreign)
    reader.page.wait_for_function("'ready' in document.querySelector('.dnnl-language').dataset")
    assert not offer.is_visible()

    reader.page.evaluate("localStorage.clear()")
    reader.open(foreign)
    offer.locator("a").click()  # yes
    reader.page.wait_for_url(f"**/{home}.html")
    reader.page.wait_for_function("'ready' in document.querySelector('.dnnl-language').dataset")
    assert not reader.page.locator(OFFER).is_visible()
    assert not reader.page.context.cookies()
    assert not reader.said


@pytest.mark.parametrize("locale", ["fr-FR", "zh-TW", "en-GB"])
def test_only_readers_of_the_other_language_are_asked(read, locale: str) -> None:
    reader = read(locale=locale)
    for lang, name in SECTION.items():
        reader.open(name)
        reader.page.wait_for_function("'ready' in document.querySelector('.dnnl-language').dataset")
        asked = not locale.startswith(("fr", lang))
        assert reader.page.locator(OFFER).is_visible() == asked, name


@pytest.mark.parametrize("by", ["http", "file"])
def test_the_first_page_leads_to_the_language_that_was_chosen(read, by: str) -> None:
    reader = read(by, locale="zh-CN")
    reader.page.goto(f"{reader.root}/index.html")
    reader.page.wait_for_url(f"{reader.root}/chapters/en/index.html")
    reader.page.wait_for_function("'ready' in document.querySelector('.dnnl-language').dataset")
    reader.page.locator("a.dnnl-language").click()
    reader.page.wait_for_url("**/zh/chapters/zh/index.html")
    reader.page.goto(f"{reader.root}/index.html")
    reader.page.wait_for_url("**/zh/chapters/zh/index.html")


def test_it_works_where_nothing_can_be_remembered(read) -> None:
    reader = read(locale="zh-CN")
    reader.page.add_init_script(
        "for (const name of ['getItem', 'setItem']) { const own = Storage.prototype[name];"
        " Storage.prototype[name] = function (key, ...rest) { if (key === 'dnnl-language')"
        " throw new Error('off'); return own.call(this, key, ...rest); } }"
    )
    reader.open(SECTION["en"])
    reader.page.locator(OFFER).locator("a").click()
    reader.page.wait_for_url(f"**/{SECTION['zh']}.html")
    assert not reader.said


DRAW = """text => {
  const canvas = Object.assign(document.createElement('canvas'), { width: 40, height: 40 });
  const brush = canvas.getContext('2d', { willReadFrequently: true });
  brush.font = `30px ${getComputedStyle(document.body).fontFamily}`;
  return [...text].map(character => {
    brush.clearRect(0, 0, 40, 40);
    brush.fillText(character, 2, 32);
    return canvas.toDataURL();
  });
}"""


def test_chinese_is_drawn_and_not_boxes(read) -> None:
    reader = read(locale="zh-CN")
    reader.open(CHAPTERS["zh"][0])
    missing, first = reader.page.evaluate(DRAW, chr(0x10FFFE) + "类")
    if first == missing and os.environ.get("DNNL_REQUIRE_CHINESE_FONT") != "1":
        pytest.skip("no Chinese font (Debian: fonts-noto-cjk): the glyphs were NOT checked")
    text = reader.page.locator("article").inner_text()
    characters = sorted(set(re.findall("[\u4e00-\u9fff，。：；？“”（）]", text)))
    drawings = reader.page.evaluate(DRAW, "".join(characters))
    boxes = [c for c, drawing in zip(characters, drawings, strict=True) if drawing == missing]
    assert len(characters) > 200 and not boxes


# ---- search --------------------------------------------------------------------------------------


def found(reader: Reader, root: str, query: str) -> list[str]:
    """Return the names of the pages that a search finds, best first."""
    address = f"{reader.root}/{root}search.html"
    if reader.page.url.split("?")[0] != address:
        reader.page.goto(f"{address}?q={quote(query)}")
    else:  # ask the page again
        reader.page.evaluate(
            """query => {
              document.querySelector('#search-results').replaceChildren();
              Search.performSearch(query);
            }""",
            query,
        )
    reader.page.wait_for_function(
        "document.querySelector('#search-results .search-summary')?.textContent.trim()"
    )
    links = reader.page.locator("#search-results li a").evaluate_all("a => a.map(e => e.href)")
    return list(dict.fromkeys(link.split(".html")[0].rsplit("/", 1)[-1] for link in links))


@pytest.mark.parametrize("by", ["http", "file"])
def test_search_finds_a_page(read, by: str) -> None:
    reader = read(by)
    assert found(reader, "", "class token")
    assert "07_two_dimensions" in found(reader, "", "interpolate_pos_embedding")
    assert "07_two_dimensions" in found(reader, "", "bicubic")[:3]
    assert "07_two_dimensions" in found(reader, "", "14×14")
    assert not reader.said


# What readers type, in the book's words or others', and a page that must be among the first three.
QUERIES = {
    "位置编码": "04_positional_embedding",
    "位置向量": "04_positional_embedding",
    "位置嵌入": "05_positional_embedding_pytorch",
    "自注意力机制": "02_class_token",
    "类别标记": "02_class_token",
    "分类令牌": "03_class_token_pytorch",
    "[CLS]": "02_class_token",
    "cls token": "03_class_token_pytorch",
    "插值": "07_two_dimensions",
    "双三次": "07_two_dimensions",
    "双立方插值": "07_two_dimensions",
    "interpolate_pos_embedding": "07_two_dimensions",
    "相似度": "07_two_dimensions",
    "图像块": "01_patch_tokens",
    "补丁": "01_patch_tokens",
    "归纳偏置": "01_patch_tokens",
    "置换等变": "04_positional_embedding",
    "排列等变性": "04_positional_embedding",
    "随机失活": "06_order",
    "步骤的顺序": "06_order",
    "梯度": "03_class_token_pytorch",
    "词元": "01_patch_tokens",
    "编码器收到什么": "08_summary",
    "模型是怎样训练的": "09_training",
    "术语": "glossary",
}


def test_search_finds_chinese_from_disk(read) -> None:
    reader = read("file", locale="zh-CN")
    assert "04_positional_embedding" in found(reader, "zh/", "位置编码")[:3]
    assert not found(reader, "zh/", "鲸")
    assert not reader.said


def test_search_finds_chinese_as_readers_type_it(read) -> None:
    reader, missed = read(locale="zh-CN"), {}
    for query, wanted in QUERIES.items():
        first = found(reader, "zh/", query)[:3]
        if wanted not in first:
            missed[query] = first
    assert not missed
    assert not found(reader, "zh/", "量子色动力学"), "what the book does not speak of"
    for character in "类块头层行列图":  # each is somewhere on nearly every page
        assert len(found(reader, "zh/", character)) >= 9, character
    assert not found(reader, "zh/", "鲸")
    assert "07_two_dimensions" in found(reader, "zh/", "14×14")
    assert not reader.said
