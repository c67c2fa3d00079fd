"""The API pages: every public name with its docstring, in both editions, linked from sections."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup, Tag

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import book  # noqa: E402

# Modules without a list of their public names have those that they define and describe.
MODULES = ("dnnl.data", "dnnl.training", "dnnl.exercises", "dnnl.figures", "dnnl.chapter_model")
SECTIONS = [page for page in book.pages("en") if re.search(r"/\d\d_", page)]

every_edition = pytest.mark.parametrize("edition", book.EDITIONS)


def defined(module: str) -> list[str]:
    names = vars(importlib.import_module(module))
    return [
        name
        for name, value in names.items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module
        and not name.startswith("_")
        and name != "main"  # the command line, which --help describes
    ]


def public() -> list[str]:
    listed = ("dnnl", "dnnl.models.vit", "dnnl.explorers")
    names = [f"{m}.{n}" for m in listed for n in importlib.import_module(m).__all__]
    names += [f"{m}.{n}" for m in MODULES for n in defined(m)]
    return sorted(set(names) - {"dnnl.__version__"})


@cache
def page(site: Path, edition: str, name: str = "api") -> BeautifulSoup:
    folder = site if edition == "en" else site / edition
    text = (folder / "chapters" / edition / f"{name}.html").read_text(encoding="utf-8")
    return BeautifulSoup(text, "html.parser")


def entries(site: Path, edition: str) -> dict[str, Tag]:
    return {tag["id"]: tag.parent for tag in page(site, edition).select("dl.py > dt[id]")}


def words(text: str) -> str:
    """Return the letters and digits of a text, without the marks of roles, code and emphasis."""
    text = re.sub(r":\w+:`[.~]?([^`]*)`", r"\1", text)
    return "".join(re.findall(r"\w", text.replace("_", "")))


@every_edition
def test_every_public_name_has_its_docstring(site: Path, edition: str) -> None:
    shown = entries(site, edition)
    missing, other = [], []
    for name in public():
        # (a value has no docstring of its own: it is read where the value is defined)
        where = name.replace(".vit.", ".vit.positions.") if name.endswith("_SETTINGS") else name
        if where not in shown:
            missing.append(name)
            continue
        module, _, own = name.rpartition(".")
        value = getattr(importlib.import_module(module), own)
        summary = "How each library resizes a table"
        if where == name:
            summary = (value.__doc__ or "").strip().split("\n\n")[0]
        description = shown[where].find("dd", recursive=False).get_text()
        if not summary or words(summary) not in words(description):
            other.append(name)
    assert len(public()) > 70
    assert not missing and not other


@every_edition
def test_no_markup_of_docstrings_is_left(site: Path, edition: str) -> None:
    article = page(site, edition).find("article")
    text = article.get_text()
    assert not re.findall(r":\w+:`|``|\.\. \w+::|<cyfunction|0x[0-9a-f]{6}| object at ", text)
    assert str(ROOT) not in text
    for signature in article.select("dt.sig"):
        assert not re.search("[~<>]", signature.get_text().replace("→", "")), signature.get_text()
    assert not article.select(".problematic, .system-message")
    # Roles became links, and a link of this page leads to an entry.
    linked = {
        a["href"].removeprefix("#") for a in article.select("a.reference.internal[href^='#dnnl.']")
    }
    assert len(linked) > 20 and linked <= entries(site, edition).keys()


@every_edition
def test_methods_of_torch_are_not_repeated(site: Path, edition: str) -> None:
    names = entries(site, edition)
    assert "dnnl.models.vit.ViTModel.save_pretrained" in names
    assert "dnnl.models.vit.ViTEmbedding.forward" in names
    own = {name.rpartition(".")[2] for name in names}
    assert not own & {"state_dict", "named_parameters", "train_mode", "add_module", "eval"}


def test_both_editions_have_the_same_entries(site: Path) -> None:
    english, chinese = (entries(site, edition) for edition in book.EDITIONS)
    assert list(english) == list(chinese)
    sources = [(ROOT / "chapters" / e / "api.md").read_text("utf-8") for e in book.EDITIONS]
    directives = [re.findall(r"```\{eval-rst\}.*?```", text, re.DOTALL) for text in sources]
    assert directives[0] == directives[1]
    # A screen reader is told the language of each part.
    for tag in chinese.values():
        assert tag["lang"] == "en"
    for label in page(site, "zh").select("dl.field-list > dt"):
        assert label["lang"] == "zh-CN" and re.search("[\u4e00-\u9fff]", label.get_text())


@every_edition
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_links_to_the_entries_of_what_it_uses(
    site: Path, edition: str, section: str
) -> None:
    name = Path(section).name
    article = page(site, edition, name).find("article")
    links = [a for a in article.find_all("a", href=True) if a["href"].startswith("api.html")]
    assert links
    notebook = json.loads((ROOT / f"{section}.ipynb").read_text(encoding="utf-8"))
    used = "\n".join("".join(cell["source"]) for cell in notebook["cells"][:-1])
    for link in links:
        anchor = unquote(link["href"].partition("#")[2])
        target = page(site, edition).find(id=anchor)
        part = target if target.name == "section" else target.find_parent("section")
        own = link.get_text().rpartition(".")[2]
        assert part.select_one(f'dl.py > dt[id$=".{own}"]'), link
        assert own in used, f"{own} is not on the page"
