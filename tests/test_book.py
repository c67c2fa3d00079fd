"""The built book, read as files: whole, self-contained, with links that lead somewhere."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parent.parent
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
CHAPTERS = [TOC["root"], *(entry["file"] for entry in TOC["chapters"])]
PAGES = [*CHAPTERS, "genindex", "search"]
WIDGET = "application/vnd.jupyter.widget"

every_page = pytest.mark.parametrize("page", PAGES)
every_chapter = pytest.mark.parametrize("page", CHAPTERS)


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def html(site: Path, page: str) -> BeautifulSoup:
    return soup(site / f"{page}.html")


def test_the_first_page_leads_to_the_chapter(site: Path) -> None:
    refresh = soup(site / "index.html").find(
        "meta", attrs={"http-equiv": re.compile("refresh", re.I)}
    )
    assert refresh["content"].endswith(f"url={TOC['root']}.html")


@every_page
def test_nothing_is_loaded_from_elsewhere(site: Path, page: str) -> None:
    document = html(site, page)
    loaded = [tag.get("src") for tag in document.find_all(src=True)]
    loaded += [
        tag["href"] for tag in document.find_all("link", href=True) if "canonical" not in tag["rel"]
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
def test_buttons_lead_to_the_notebook(site: Path, page: str) -> None:
    repository, branch = CONFIG["repository"]["url"], CONFIG["repository"]["branch"]
    slug = repository.removeprefix("https://github.com/")
    links = {anchor["href"] for anchor in html(site, page).find_all("a", href=True)}
    assert (ROOT / f"{page}.ipynb").is_file()
    assert f"https://colab.research.google.com/github/{slug}/blob/{branch}/{page}.ipynb" in links
    assert f"{repository}/edit/{branch}/{page}.ipynb" in links
    assert repository in links


@every_chapter
def test_a_page_has_the_title_of_its_notebook(site: Path, page: str) -> None:
    cells = nbformat.read(ROOT / f"{page}.ipynb", as_version=4).cells
    title = next(c for c in cells if c.cell_type == "markdown").source.splitlines()[0]
    document = html(site, page)
    headings = document.find("article").find_all("h1")
    assert len(headings) == 1
    shown = headings[0].get_text().removesuffix("#").strip()
    assert re.sub(r"[\W_]", "", shown) == re.sub(r"[\W_]", "", title)
    assert CONFIG["title"] in document.title.get_text()
    assert document.html["lang"] == "en"


@every_chapter
def test_every_picture_has_an_alternative_text(site: Path, page: str) -> None:
    for image in html(site, page).find_all("img"):
        alt = image.get("alt", "")
        assert alt.strip(), image["src"]
        assert not re.search(r"_images/|\.(png|svg|jpe?g)\b", alt), f"a path: {alt}"


@every_chapter
def test_stored_outputs_are_on_the_page_and_the_first_cell_is_not(site: Path, page: str) -> None:
    article = html(site, page).find("article")
    text = " ".join(article.get_text().split())
    code = [
        cell
        for cell in nbformat.read(ROOT / f"{page}.ipynb", as_version=4).cells
        if cell.cell_type == "code"
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
    assert sum((site / name).stat().st_size for name in names) < 12_000_000


def test_mathjax_is_the_books_own(site: Path) -> None:
    assert (site / "_static/mathjax/mathjax.js").is_file()
    assert list((site / "_static/mathjax/output/chtml/fonts/woff-v2").glob("*.woff"))
    with_math = [page for page in CHAPTERS if html(site, page).select(".math")]
    assert with_math
    for page in with_math:
        scripts = html(site, page).find_all("script")
        sources = [script.get("src") or script.get("data-later", "") for script in scripts]
        assert [source for source in sources if "_static/mathjax/mathjax.js" in source]


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
    assert len(content("og:description")) > 40
    owner, name = CONFIG["repository"]["url"].split("/")[-2:]
    image = content("og:image").removeprefix(f"https://{owner}.github.io/{name}/")
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
        slot = tag.find_parent(class_="dnnl-slot")
        assert "--dnnl-room: 0px" not in slot["style"]
        still = slot.find("img", class_="dnnl-still")
        assert (site / f"{page}.html").parent.joinpath(still["src"]).stat().st_size <= 60_000


def test_the_pages_style_sheet_has_the_rules_that_apply(site: Path) -> None:
    """Rules were left out because their class is nowhere; the others must all be there."""
    sheets = [path.read_text(encoding="utf-8") for path in site.glob("_static/book-*.css")]
    assert sheets
    for rule in (
        ".bd-sidebar-primary",
        ".dnnl-slot",
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
