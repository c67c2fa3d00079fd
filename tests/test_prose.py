"""Numbers in the text are the numbers of the cells, or name their source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(ROOT.glob("chapters/*/*.ipynb"))
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)

PERCENT = r"\s?(?:[%％]|per\s?cent\b)"
# A decimal number or a percentage. What goes on is neither: 11.3.4 is a section, 1.0.31 a version.
NUMBER = re.compile(
    rf"(?<![\w.])[-−]?(?:(?:\d{{1,3}}(?:,\d{{3}})+|\d*)\.\d+|\d+(?={PERCENT}))(?!\.?\d)(?:{PERCENT})?"
)
# What follows these names a section, a version or a licence, and no measurement.
NAMED = re.compile(
    r"\b(?:[Ss]ections?|[Cc]hapters?|[Vv]ersions?|CC BY|Python|PyTorch|torch|torchvision|torchao"
    r"|timm|transformers|jupyter-book|Jupyter Book|CUDA)\s*$"
    r"|(?:第|附录|版本)\s*$"
)
THIS_CHAPTER = re.compile(r"11\.\d{1,2}")
FILE = re.compile(r"\b[\w-]+\.(?:py|ipynb|md|json|toml|safetensors)\b")
HTML_TEXT = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)


@dataclass
class Unit:
    """A paragraph (of a list, too), a row of a table, a fold's summary, or an alternative text.

    Attributes:
        text: its prose, without code, formulas and addresses.
        links: where it points.
        files: the files that it names.
    """

    text: str = ""
    links: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def read(self, inline: Token) -> None:
        for token in inline.children or []:
            if token.type == "text":
                self.text += token.content
                self.files += FILE.findall(token.content)
            elif token.type == "code_inline":
                self.text += "`"  # a placeholder for what is not prose
                self.files += FILE.findall(token.content)
            elif token.type == "link_open":
                self.links.append(str(token.attrs["href"]))
            elif token.type in ("softbreak", "hardbreak"):
                self.text += " "
            elif token.type.startswith("math"):
                self.text += "$"
        self.text += " "

    @property
    def sourced(self) -> bool:
        return bool(self.files) or any(link.startswith("http") for link in self.links)

    @property
    def pages(self) -> list[str]:
        """The pages of the book that it points to."""
        return [m[1] for link in self.links if (m := re.match(r"([\w-]+)\.ipynb", link))]

    def numbers(self) -> Iterator[str]:
        for found in NUMBER.finditer(self.text):
            if NAMED.search(self.text[: found.start()]) or THIS_CHAPTER.fullmatch(found[0]):
                continue
            yield found[0]


def units(markdown: str) -> Iterator[Unit]:
    """Split Markdown into units; headings and code have none.

    A paragraph that ends in a colon right before a table gives its links to the table's rows.
    """
    row: Unit | None = None
    heading = False
    last = Unit()
    before = ""
    for token in MARKDOWN.parse(markdown):
        if token.type == "table_open":
            introduced = before == "paragraph_close" and last.text.rstrip().endswith((":", "："))
            introduction = last if introduced else Unit()
        elif token.type == "tr_open":
            row = Unit(links=[*introduction.links], files=[*introduction.files])
        elif token.type == "tr_close" and row is not None:
            yield row
            row = None
        elif token.type in ("heading_open", "heading_close"):
            heading = token.type == "heading_open"
        elif token.type == "inline" and row is not None:
            row.read(token)
        elif token.type == "inline" and not heading:
            last = Unit()
            last.read(token)
            yield last
        elif token.type == "html_block":
            for summary in HTML_TEXT.findall(token.content):
                yield from units(summary)
        before = token.type


def prose(nb: NotebookNode) -> Iterator[Unit]:
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            yield from units(cell.source)
        else:
            yield Unit(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))


def shown(nb: NotebookNode) -> str:
    """Everything that the cells of a page print."""
    texts = []
    for cell in nb.cells:
        for out in cell.get("outputs", []):
            texts.append(out.get("text", ""))
            texts.append(out.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)


def is_shown(number: str, output: str) -> bool:
    """Say whether an output has this very number: the same digits, sign and percent sign."""
    bare = re.sub(PERCENT, "", number)
    sign = "[-−]" if bare[0] in "-−" else ""
    percent = r"\s?[%％]" if bare != number else ""
    digits = re.escape(bare.lstrip("-−"))
    return re.search(rf"(?<![\d.])(?<!\d,){sign}{digits}(?!\.?\d){percent}", output) is not None


def unsupported(nb: NotebookNode, others: dict[str, NotebookNode]) -> list[str]:
    """List the numbers that no output shows and no source covers, each with its surroundings."""
    found = []
    output = shown(nb)
    for unit in prose(nb):
        if unit.sourced:
            continue
        nearby = [others[page] for page in unit.pages if page in others]
        for number in unit.numbers():
            if is_shown(number, output) or any(_has(page, number) for page in nearby):
                continue
            found.append(f"{number} in: {unit.text.strip()[:160]}")
    return found


def _has(page: NotebookNode, number: str) -> bool:
    """Say whether a page that is pointed to shows a number, or gives it with a source."""
    sourced = (n for unit in prose(page) if unit.sourced for n in unit.numbers())
    return is_shown(number, shown(page)) or number in sourced


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def edition(path: Path) -> dict[str, NotebookNode]:
    return {p.stem: read(p) for p in NOTEBOOKS if p.parent == path.parent}


every_page = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: f"{p.parent.name}-{p.stem}")


@every_page
def test_numbers_in_the_text_are_shown_by_a_cell_or_have_a_source(path: Path) -> None:
    found = unsupported(read(path), edition(path))
    assert not found, "\n".join(found)


# ---- the check itself: what it must see, and what it must leave alone ----------------------------


def page(markdown: str, output: str = "") -> NotebookNode:
    stream = [new_output("stream", name="stdout", text=output)]
    return new_notebook(cells=[new_markdown_cell(markdown), new_code_cell(outputs=stream)])


@pytest.mark.parametrize(
    ("markdown", "output"),
    [
        ("The error is 0.17.", "error 0.18"),
        ("The error is 0.17.", "error 0.173"),
        ("The error is 0.17.", "error 10.17 or 0.17.3"),
        ("The error is .17.", "error 0.17"),
        ("It is -0.17.", "0.17"),
        ("It is 5 %.", "5"),
        ("It is 5 per cent.", "15 %"),
        ("It is 5.0%.", "5 %"),
        ("It has 85.8M parameters.", "85.6M"),
        ("It has 1,234.5 bytes.", "234.5"),
        ("Moved by 0.22 cells.", ""),
        ("From 0.17,0.15 on.", "0.17"),
        ("See [11.3.5](05_page.ipynb): 0.17.", ""),
        ("- a list\n- of 0.17 and [another](https://example.org)\n\nThen 0.2.", ""),
        ("| a | b |\n|---|---|\n| 0.17 | [source](https://example.org) |\n| 0.18 | none |", ""),
        ("<details>\n<summary>Why 0.17?</summary>\n\nSo.\n\n</details>", ""),
        ("**0.17** in `bold.code()`, $0.18$.", ""),
        ("误差为 0.17，占 5 %。", "error 0.18, 5 %"),
    ],
)
def test_a_number_without_a_cell_or_a_source_is_seen(markdown: str, output: str) -> None:
    assert len(unsupported(page(markdown, output), {})) == 1


@pytest.mark.parametrize(
    ("markdown", "output"),
    [
        ("The error is 0.17.", "error 0.17, and more"),
        ("It is −0.17, or 5 %.", "-0.17 5%"),
        ("It is 5 per cent.", "5.0 %, then 5 %"),
        ("It falls by 0.17.", "-0.17"),
        ("It has 1,234.5 bytes.", "1,234.5"),
        ("Section 11.4, 11.3.4, section 3.2, torch 2.13, timm 1.0.31, CC BY 4.0.", ""),
        ("`0.17`, $0.18$ and\n\n$$\n0.19\n$$\n\n```\n0.2\n```\n\n## On 0.21", ""),
        ("It is 0.17 ([a paper](https://arxiv.org/abs/2010.11929), table 8).", ""),
        ("It is 0.17 (in `timm`, `layers/pos_embed.py`).", ""),
        ("误差为 0.17，占 5 %（见第 3.2 节）。", "error 0.17, 5%"),
        ("[论文](https://example.org)给出：\n\n| 甲 | 乙 |\n|---|---|\n| 丙 | 0.17 |", ""),
        ("[A paper](https://example.org) has:\n\n| a | b |\n|---|---|\n| c | 0.17 |", ""),
    ],
)
def test_a_shown_or_sourced_number_and_a_name_are_left_alone(markdown: str, output: str) -> None:
    assert unsupported(page(markdown, output), {}) == []


def test_a_page_that_is_pointed_to_may_show_the_number() -> None:
    text = page("As [there](05_page.ipynb): 0.17.")
    assert unsupported(text, {"05_page": page("", "0.17")}) == []
    assert unsupported(text, {"05_page": page("0.17 [source](https://example.org)")}) == []
    assert len(unsupported(text, {"05_page": page("0.17", "0.16")})) == 1


def test_a_changed_digit_in_the_text_of_any_page_is_seen() -> None:
    """Change, one by one, each number that stands on a page's own output: the check must object."""
    changed = 0
    for path in NOTEBOOKS:
        nb, others = read(path), edition(path)
        output = shown(nb)
        for cell in nb.cells:
            if cell.cell_type != "markdown":
                continue
            checked = [u for u in units(cell.source) if not u.sourced and not u.pages]
            for number in {n for unit in checked for n in unit.numbers() if is_shown(n, output)}:
                digit = re.search(r"\d(?=\D*$)", number)
                assert digit
                variants = [
                    f"{number[: digit.start()]}{d}{number[digit.end() :]}" for d in range(10)
                ]
                other = next((v for v in variants if not is_shown(v, output)), None)
                if other is None or cell.source.count(number) != 1:
                    continue
                original, cell.source = cell.source, cell.source.replace(number, other)
                assert any(f.startswith(other) for f in unsupported(nb, others)), (path, number)
                cell.source = original
                changed += 1
    assert changed >= len(NOTEBOOKS)
