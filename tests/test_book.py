"""The built book, read as files: whole, self-contained, with links that lead somewhere."""

from __future__ import annotations

import copy
import json
import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup, NavigableString

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import book  # noqa: E402

# Where each page lies in the site, such as zh/chapters/zh/06_order, and its edition's settings.
ROOTS = {edition: "" if edition == "en" else f"{edition}/" for edition in book.EDITIONS}
CONFIG = {edition: book.config(edition) for edition in book.EDITIONS}
LANGUAGE = {"en": "en", "zh": "zh-CN"}
CHAPTERS = [root + page for edition, root in ROOTS.items() for page in book.pages(edition)]
PAGES = [*CHAPTERS, *(root + page for root in ROOTS.values() for page in ("genindex", "search"))]
NOTEBOOKS = [page for page in CHAPTERS if not page.endswith(("/glossary", "/api"))]
WIDGET = "application/vnd.jupyter.widget"

every_page = pytest.mark.parametrize("page", PAGES)
every_chapter = pytest.mark.parametrize("page", CHAPTERS)
every_notebook = pytest.mark.parametrize("page", NOTEBOOKS)


def edition(page: str) -> str:
    return "zh" if page.startswith("zh/") else "en"


def source(page: str) -> Path:
    """Return the file that a page was made from."""
    name = ROOT / page.removeprefix(ROOTS[edition(page)])
    return next(path for end in (".ipynb", ".md") if (path := Path(f"{name}{end}")).is_file())


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def html(site: Path, page: str) -> BeautifulSoup:
    return soup(site / f"{page}.html")


@pytest.mark.parametrize("language", book.EDITIONS)
def test_the_first_page_leads_to_the_chapter(site: Path, language: str) -> None:
    first = soup(site / ROOTS[language] / "index.html")
    refresh = first.find("meta", attrs={"http-equiv": re.compile("refresh", re.I)})
    assert refresh["content"].endswith(f"url={book.pages(language)[0]}.html")


@every_page
def test_nothing_is_loaded_from_elsewhere(site: Path, page: str) -> None:
    document = html(site, page)
    loaded = [tag.get("src") for tag in document.find_all(src=True)]
    loaded += [
        tag["href"]
        for tag in document.find_all("link", href=True)
        if "alternate" not in tag["rel"]  # for search engines
    ]
    assert loaded
    for url in loaded:
        assert not urlsplit(url).scheme and not urlsplit(url).netloc, url
        assert (site / f"{page}.html").parent.joinpath(unquote(urlsplit(url).path)).exists(), url
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), (
            style
        )


@every_page
def test_internal_links_lead_somewhere(site: Path, page: str) -> None:
    here = site / f"{page}.html"
    for anchor in html(site, page).find_all("a", href=True):
        link = urlsplit(anchor["href"])
        if link.scheme or link.netloc:
            continue
        target = (here.parent / unquote(link.path)).resolve() if link.path else here
        assert target.is_file(), anchor["href"]
        if link.fragment and target.suffix == ".html":
            wanted = unquote(link.fragment)
            assert soup(target).find(id=wanted) or soup(target).find(attrs={"name": wanted}), (
                anchor["href"]
            )


@every_chapter
def test_buttons_lead_to_the_source(site: Path, page: str) -> None:
    settings = CONFIG[edition(page)]["repository"]
    repository, branch = settings["url"], settings["branch"]
    slug = repository.removeprefix("https://github.com/")
    links = {anchor["href"] for anchor in html(site, page).find_all("a", href=True)}
    file = source(page).relative_to(ROOT).as_posix()
    assert f"/{edition(page)}/" in file
    colab = f"https://colab.research.google.com/github/{slug}/blob/{branch}/{file}"
    assert (colab in links) == (page in NOTEBOOKS)
    assert f"{repository}/edit/{branch}/{file}" in links
    assert repository in links


def markdown(page: str) -> str:
    """Return the text that a page begins with."""
    path = source(page)
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return str(next(cell for cell in cells if cell.cell_type == "markdown").source)


@every_chapter
def test_a_page_has_the_title_of_its_source(site: Path, page: str) -> None:
    title = markdown(page).splitlines()[0]
    document = html(site, page)
    headings = document.find("article").find_all("h1")
    assert len(headings) == 1
    shown = headings[0].get_text().removesuffix("#").strip()
    assert re.sub(r"[\W_]", "", shown) == re.sub(r"[\W_]", "", title)
    assert CONFIG[edition(page)]["title"] in document.title.get_text()


@every_page
def test_a_page_and_its_counterpart_lead_to_each_other(site: Path, page: str) -> None:
    here = (site / f"{page}.html").resolve()
    document, own = html(site, page), edition(page)
    assert document.html["lang"] == LANGUAGE[own]
    other = next(one for one in LANGUAGE if one != own)
    (switch,) = document.select("a.dnnl-language")
    assert switch["hreflang"] == switch["lang"] == LANGUAGE[other]
    there = (here.parent / switch["href"]).resolve()
    assert there.is_file() and soup(there).html["lang"] == LANGUAGE[other]
    (back,) = soup(there).select("a.dnnl-language")
    assert (there.parent / back["href"]).resolve() == here

    owner, name = CONFIG[own]["repository"]["url"].split("/")[-2:]
    address = f"https://{owner.lower()}.github.io/{name}/"
    alternates = {
        tag["hreflang"]: (site / tag["href"].removeprefix(address)).resolve()
        for tag in document.find_all("link", rel="alternate", hreflang=True)
    }
    both = {LANGUAGE[own]: here, LANGUAGE[other]: there}
    assert alternates == {**both, "x-default": both["en"]}


@pytest.mark.parametrize("page", book.pages("en"))
def test_parts_have_the_same_names_in_both_editions(site: Path, page: str) -> None:
    """So that the switch leads to the part that one reads."""

    def parts(name: str) -> list[tuple[str, str]]:
        found = html(site, name).select('article [id^="part-"]')
        return [(part["id"], part.find_next(re.compile("^h[1-6]$")).name) for part in found]

    assert parts(page)[0] == ("part-1", "h1")
    assert parts(page) == parts(f"zh/{page.replace('/en/', '/zh/')}")


# Names, code, and what readers of Chinese read in English as well.
ENGLISH_IN_CHINESE = re.compile(
    r"\b(?:English|Colab|Ctrl|dnnl|token|PyTorch|PDF|ViT)\b|\.(?:ipynb|pdf|md)\b|11\.3\S*"
)


@pytest.mark.parametrize("page", [page for page in PAGES if edition(page) == "zh"])
def test_the_theme_speaks_chinese(site: Path, page: str) -> None:
    document = copy.copy(html(site, page))  # to be taken apart
    for tag in document.select(
        'script, style, noscript, pre, code, .math, .anywidget-slot, [lang="en"]'
    ):
        tag.decompose()
    texts = [
        tag[name]
        for tag in document.body.find_all(True)
        for name in ("title", "aria-label", "placeholder", "alt")
        if tag.get(name)
    ]
    article = document.find("article")
    texts += [
        str(text)
        for text in document.body.find_all(string=True)
        if type(text) is NavigableString and (article is None or article not in text.parents)
    ]
    for text in texts:
        english = re.findall(r"[A-Za-z]{3,}", ENGLISH_IN_CHINESE.sub("", text))
        assert not english or re.search("[\u4e00-\u9fff]", text), text


@every_chapter
def test_a_number_stays_with_its_sign(site: Path, page: str) -> None:
    """A line never ends inside 14 × 14 or 16.7 %."""
    body = copy.copy(html(site, page).find("article"))
    for code in body.select("pre, code, script, .math, summary"):
        code.decompose()  # (a summary is raw HTML, which Sphinx does not read)
    assert not re.findall(r"\d [×%]|× \d", body.get_text())


@every_chapter
def test_every_picture_has_an_alternative_text(site: Path, page: str) -> None:
    for image in html(site, page).find_all("img"):
        alt = image.get("alt", "")
        assert alt.strip(), image["src"]
        assert not re.search(r"_images/|\.(png|svg|jpe?g)\b", alt), f"a path: {alt}"


@every_notebook
def test_stored_outputs_are_on_the_page_and_the_first_cell_is_not(site: Path, page: str) -> None:
    article = html(site, page).find("article")
    text = " ".join(article.get_text().split())
    code = [
        cell for cell in nbformat.read(source(page), as_version=4).cells if cell.cell_type == "code"
    ]
    assert "install the book's package" not in text
    removed = {"remove-cell", "remove-output", "hide-output"}
    shown = [cell for cell in code if not removed & set(cell.metadata.get("tags", []))]
    for cell in shown:
        for out in cell.outputs:
            if out.output_type == "stream":
                assert " ".join(out.text.split()) in text
    pictures = sum("image/png" in out.get("data", {}) for cell in shown for out in cell.outputs)
    assert len(article.select(".cell_output img")) == pictures


def test_the_site_carries_nothing_that_no_page_uses(site: Path) -> None:
    names = [path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()]
    for unwanted in (r"thebe", r"\.map$", r"fontawesome\.js", r"\.ttf$"):
        assert not [name for name in names if re.search(unwanted, name)]
    assert sum((site / name).stat().st_size for name in names) < 24_000_000


def test_both_editions_share_what_is_heavy(site: Path) -> None:
    for name in book.SHARED:
        assert (site / "_static" / name).is_dir()
        assert not (site / "zh" / "_static" / name).exists()


def test_formulas_are_drawn_and_no_page_carries_an_engine(site: Path) -> None:
    names = [path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()]
    assert not [name for name in names if "mathjax" in name.lower() or name.endswith(".woff")]
    seen = 0
    for page in PAGES:
        document = html(site, page)
        formulas = document.select(".math")
        for formula in formulas:
            assert len(formula.select("mjx-container > svg > g")) == 1
            assert formula.select_one("mjx-assistive-mml > math").get_text(strip=True)
            assert not re.search(r"\\[(\[]|\\[)\]]", formula.get_text())
        ids = [tag["id"] for tag in document.find_all(id=True)]
        assert len(ids) == len(set(ids))
        drawn = {use["href"].removeprefix("#") for use in document.select(".math use")}
        glyphs = [path["id"] for path in document.select("svg.dnnl-glyphs path")]
        assert sorted(drawn) == sorted(glyphs), "each glyph once, and none that is not used"
        assert not document.find_all("script", src=re.compile("mathjax", re.I))
        assert "MathJax =" not in (site / f"{page}.html").read_text(encoding="utf-8")
        seen += len(formulas)
    assert seen > 500


@every_chapter
def test_pictures_keep_their_place_while_they_load(site: Path, page: str) -> None:
    images = html(site, page).find_all("img")
    for image in images:
        assert image.get("width") and image.get("height"), image["src"]
    drawn = html(site, page).find("article").find_all("img")
    assert [image["src"] for image in drawn if image.get("loading") != "lazy"] == []


@every_chapter
def test_a_page_asks_for_few_files(site: Path, page: str) -> None:
    document = html(site, page)
    assert len(document.find_all("link", rel="stylesheet")) == 1
    scripts = document.find_all("script", src=True)
    assert len(scripts) <= 4
    assert [s["src"] for s in scripts if not {"defer", "async"} & set(s.attrs)] == []


@every_chapter
def test_a_link_to_a_page_has_a_preview(site: Path, page: str) -> None:
    def content(name: str) -> str:
        return html(site, page).find("meta", property=name)["content"]

    assert content("og:title") in html(site, page).title.get_text()
    assert len(content("og:description")) > (40 if edition(page) == "en" else 15)
    owner, name = CONFIG[edition(page)]["repository"]["url"].split("/")[-2:]
    image = content("og:image").removeprefix(f"https://{owner.lower()}.github.io/{name}/")
    assert (site / image).is_file()


@every_chapter
def test_an_explorer_has_a_place_and_a_still(site: Path, page: str) -> None:
    document = html(site, page)
    states = [
        json.loads(tag.string)["state"]
        for tag in document.find_all("script", type=f"{WIDGET}-state+json")
    ]
    views = [
        json.loads(tag.string)["model_id"]
        for tag in document.find_all("script", type=f"{WIDGET}-view+json")
    ]
    assert len(states) == bool(views)
    for view in views:
        model = states[0][view]
        if model["model_module"] != "anywidget":
            continue
        tag = next(t for t in document.find_all("script") if f'"{view}"' in (t.string or ""))
        slot = tag.find_parent(class_="anywidget-slot")
        assert "--anywidget-room: 0px" not in slot["style"]
        still = slot.find("img", class_="anywidget-still")
        assert (site / f"{page}.html").parent.joinpath(still["src"]).stat().st_size <= 60_000


def test_the_pages_style_sheet_has_the_rules_that_apply(site: Path) -> None:
    """Rules were left out because their class is nowhere; the others must all be there."""
    sheets = [path.read_text(encoding="utf-8") for path in site.glob("_static/book-*.css")]
    assert sheets
    for rule in (
        ".bd-sidebar-primary",
        ".anywidget-slot",
        ".highlight",
        ".copybtn",
        ".btn",
        "@media print",
        'html[data-theme="dark"] .highlight .k',
        ".fa-bars",
        ":root",
    ):
        assert all(rule in sheet.replace("\n", " ") for sheet in sheets), rule
    assert not [sheet for sheet in sheets if ".fa-yahoo" in sheet or ".table-hover" in sheet]
