"""The Chinese edition is the English one, in Chinese: the same code, whole, current, well set."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import autocorrect_py
import pytest
import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import book  # noqa: E402
import editions  # noqa: E402
import glossary  # noqa: E402

PAGES = sorted(path.stem for path in editions.ENGLISH.glob("*.ipynb"))
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
HAN = "\u4e00-\u9fff"

every_page = pytest.mark.parametrize("name", PAGES)


@cache
def page(edition: str, name: str) -> dict[str, Any]:
    return editions.read(ROOT / "chapters" / edition / f"{name}.ipynb")


# ---- the same book -------------------------------------------------------------------------------


def test_both_editions_have_the_pages_of_the_table_of_contents() -> None:
    for edition in book.EDITIONS:
        folder = ROOT / "chapters" / edition
        there = {path for path in folder.iterdir() if path.suffix in (".ipynb", ".md")}
        named = {f"{ROOT / one}" for one in book.pages(edition)}
        assert {str(path.with_suffix("")) for path in there} == named


def bare(nb: dict[str, Any]) -> str:
    """A notebook without the texts that an edition has for itself, as stored."""
    nb = copy.deepcopy(nb)
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = []
        image = cell["metadata"].get("mystnb", {}).get("image", {})
        image.pop("alt", None)
        for prompt in ("code_prompt_show", "code_prompt_hide"):
            cell["metadata"].get("mystnb", {}).pop(prompt, None)
    return editions.dump(nb)


@every_page
def test_all_but_the_text_is_the_same_byte_for_byte(name: str) -> None:
    """So nbval, which runs the English notebooks, proves the Chinese ones too."""
    path = editions.CHINESE / f"{name}.ipynb"
    assert path.read_text(encoding="utf-8") == editions.dump(page("zh", name)), "not as stored"
    assert bare(page("zh", name)) == bare(page("en", name)), "run `make sync`"


def pairs(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield each text of a page in English and in Chinese, with its name."""
    for english, chinese in zip(page("en", name)["cells"], page("zh", name)["cells"], strict=True):
        own = editions.texts(chinese)
        for key, text in editions.texts(english).items():
            yield f"{english['id']} {key}".strip(), text, own[key]


def wordless(markdown: str) -> str:
    """Return Markdown without code, formulas, addresses and HTML."""
    return re.sub(
        r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<[^>]*>",
        "",
        markdown,
        flags=re.DOTALL,
    )


@every_page
def test_every_text_is_in_chinese(name: str) -> None:
    for where, english, chinese in pairs(name):
        assert editions.MARK not in chinese, f"{where} waits for its Chinese: {english[:80]}"
        if re.search(r"[a-z]{3}", wordless(english)):
            assert re.search(f"[{HAN}]", chinese), f"{where}: {chinese[:80]}"


def outline(markdown: str) -> list[tuple[int, str]]:
    """The levels of the headings, with the number of the section where there is one."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^(#+) (11\.3(?:\.\d)?\b)?", prose, re.MULTILINE)
    return [(len(marks), number) for marks, number in found]


def links(markdown: str) -> list[str]:
    """Where a text leads; the names of headings differ between the editions."""
    tokens = [t for block in MARKDOWN.parse(markdown) for t in block.children or []]
    found = [str(t.attrs["href"]) for t in tokens if t.type == "link_open"]
    found += [str(t.attrs["src"]) for t in tokens if t.type == "image"]
    return sorted(re.sub(r"(\.ipynb|\.md)#.*", r"\1#", link) for link in found)


@every_page
def test_nothing_is_lost(name: str) -> None:
    for where, english, chinese in pairs(name):
        assert outline(chinese) == outline(english), where
        assert links(chinese) == links(english), where
        for mark in ("<details", "</details>", "<summary", "```", "\n> ", "|---", "$$"):
            assert chinese.count(mark) == english.count(mark), f"{where}: {mark!r}"


@every_page
def test_a_page_asks_the_questions_of_its_section(name: str) -> None:
    stored = page("en", name)["metadata"]["stored_widgets"].values()
    quizzes = [model for model in stored if model.get("explorer", "").endswith(".Quiz")]
    assert [quiz["traits"]["section"] for quiz in quizzes] == [name.split("_")[0]]


# ---- up to date ----------------------------------------------------------------------------------


def test_no_english_text_has_changed_since_its_chinese_was_confirmed() -> None:
    """Bring the Chinese up to date, then run `make confirm-zh`."""
    assert editions.stale() == []


def test_the_glossary_is_that_of_the_terms() -> None:
    for edition in glossary.EDITIONS:
        path = ROOT / "chapters" / edition / "glossary.md"
        assert path.read_text(encoding="utf-8") == glossary.page(edition), "run `make sync`"


def test_the_readmes_lead_to_each_other_and_have_the_same_parts() -> None:
    english, chinese = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md")
    )
    assert "(README.zh.md)" in english and "(README.md)" in chinese
    assert [level for level, _ in outline(chinese)] == [level for level, _ in outline(english)]
    blocks = [re.findall(r"^```\w*$", text, re.MULTILINE) for text in (english, chinese)]
    assert blocks[0] == blocks[1]


# ---- sync and confirm themselves -----------------------------------------------------------------


def markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": editions.lines(text)}


def code(name: str, text: str, shown: str = "", **image: str) -> dict[str, Any]:
    metadata = {"mystnb": {"image": image}} if image else {}
    outputs = [{"output_type": "stream", "name": "stdout", "text": [shown]}] if shown else []
    return {
        "cell_type": "code",
        "id": name,
        "metadata": metadata,
        "outputs": outputs,
        "source": editions.lines(text),
    }


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def test_sync_takes_code_and_outputs_from_english_and_leaves_the_text() -> None:
    english = notebook(
        markdown("new", "One more\nthing"),
        markdown("title", "# A title"),
        code("draw", "draw(2)", "2", alt="A picture.", width="3"),
        code("more", "more()", alt="More."),
        markdown("formula", "$$\n2\n$$"),
    )
    chinese = notebook(
        markdown("title", "# 标题"),
        markdown("gone", "没有了"),
        code("draw", "draw(1)", "1", alt="一张图。", width="1"),
    )
    result = editions.synced(english, chinese)
    assert result == notebook(
        markdown("new", f"{editions.MARK}One more\nthing"),
        markdown("title", "# 标题"),
        code("draw", "draw(2)", "2", alt="一张图。", width="3"),
        code("more", "more()", alt=f"{editions.MARK}More."),
        markdown("formula", "$$\n2\n$$"),
    )
    assert editions.synced(english, result) == result, "a second time changes nothing"
    assert english["cells"][1] == markdown("title", "# A title"), "English is only read"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small book of one page, confirmed."""
    for folder in ("en", "zh", "quizzes"):
        (tmp_path / folder).mkdir()
    names = {"ROOT": ".", "ENGLISH": "en", "CHINESE": "zh", "QUIZZES": "quizzes"}
    for name, folder in {**names, "CONFIRMED": "zh/confirmed.json"}.items():
        monkeypatch.setattr(editions, name, tmp_path / folder)
    english = notebook(markdown("title", "# A title"), code("draw", "draw()", alt="A picture."))
    (tmp_path / "en" / "01_page.ipynb").write_text(editions.dump(english), encoding="utf-8")
    quiz = {"sections": {"01": [{"id": "why", "ask": "Why?"}]}}
    (tmp_path / "quizzes" / "en.json").write_text(json.dumps(quiz), encoding="utf-8")
    (tmp_path / "README.md").write_text("# Book\n\nIt is.\n\n## Use\n\nRead.", encoding="utf-8")
    assert editions.confirm([]) == 0
    assert editions.stale() == []
    return tmp_path


@pytest.mark.parametrize(
    ("file", "before", "after", "named"),
    [
        ("en/01_page.ipynb", "# A title", "# The title", ["01_page: title"]),
        ("en/01_page.ipynb", "A picture.", "Another.", ["01_page: draw image.alt"]),
        ("en/01_page.ipynb", '"title"', '"other"', ["01_page: other", "01_page: title"]),
        ("en/01_page.ipynb", "draw()", "draw(2)", []),
        ("quizzes/en.json", "Why?", "Why not?", ["quiz 01: why"]),
        ("README.md", "Read.", "Read it.", ["README: Use"]),
    ],
)
def test_a_changed_text_is_named_until_it_is_confirmed(
    elsewhere: Path, file: str, before: str, after: str, named: list[str]
) -> None:
    path = elsewhere / file
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")
    assert editions.stale() == named
    pages = [name.split(": ")[0] for name in named]
    assert editions.confirm(pages) == 0
    assert editions.stale() == []


def test_what_waits_for_its_chinese_cannot_be_confirmed(elsewhere: Path) -> None:
    waiting = notebook(markdown("title", f"{editions.MARK}# A title"))
    (elsewhere / "zh" / "01_page.ipynb").write_text(editions.dump(waiting), encoding="utf-8")
    before = editions.CONFIRMED.read_bytes()
    assert editions.confirm([]) == 1
    assert editions.confirm(["02_no_such_page"]) == 2
    assert editions.CONFIRMED.read_bytes() == before


# ---- well set ------------------------------------------------------------------------------------


def settings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from settings(one)
    elif isinstance(value, str):
        yield value


def chinese_texts() -> Iterator[tuple[str, str]]:
    """Yield every Chinese text of the project, with its place."""
    for name in PAGES:
        for where, _, chinese in pairs(name):
            yield f"{name} {where}", chinese
    for section, questions in editions.read(editions.QUIZZES / "zh.json")["sections"].items():
        for q in questions:
            for text in [q["ask"], *(c[k] for c in q["choices"] for k in ("text", "why"))]:
                yield f"quiz {section} {q['id']}", text
    for path in sorted((ROOT / "dnnl" / "explorers").glob("*.js")):
        script = re.sub(
            r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        for _, text in re.findall(rf'(["`])((?:(?!\1)[^\n])*[{HAN}](?:(?!\1)[^\n])*)\1', script):
            # (what is put in may be a number or a word: only what stands between is looked at)
            for piece in re.split(r"\$\{[^}]*\}", text):
                yield path.name, piece
    yield "README.zh.md", (ROOT / "README.zh.md").read_text(encoding="utf-8")
    for text in settings(book.load("_config.zh.yml")):
        yield "_config.zh.yml", text


TEXTS = list(chinese_texts())
PLACES = sorted({place.split()[0] for place, _ in TEXTS})
every_place = pytest.mark.parametrize("place", PLACES)

# AutoCorrect takes the bracket of a link for one of the text, now and then.
autocorrect_py.load_config(json.dumps({"rules": {"space-bracket": 0}}))


def misset(text: str) -> list[str]:
    """List what is set wrongly in a Chinese Markdown text."""
    found = [f"{line.old} → {line.new}" for line in autocorrect_py.lint_for(text, "markdown").lines]
    if (fixed := autocorrect_py.format_for(text, "markdown")) != text and not found:
        found.append(f"{text} → {fixed}")
    # What it does not look at: formulas, code, breaks, and stars that CommonMark leaves standing.
    for block in MARKDOWN.parse(text):
        line = ""
        for token in block.children or []:
            if token.type == "text":
                line += token.content
                if re.search(r"\*\*|(?<!\w)\*|\*(?!\w)|__", token.content):
                    found.append(f"a star that shows: {token.content}")
            elif token.type == "softbreak":
                line += "\n"
            elif token.type == "code_inline" or token.type.startswith("math"):
                line += "\0"
        found += [
            f"{what}: {line[max(0, m.start() - 12) : m.end() + 12]}".replace("\0", "…")
            for what, pattern in FAULTS.items()
            for m in re.finditer(pattern, line)
        ]
    return found


FULL = "，。：；？！、（）“”"
FAULTS = {
    "a half-width mark": rf"[{HAN}][,.:;?!()]|[,:;?!()][{HAN}]",
    "no space": rf"[{HAN}][A-Za-z0-9\0]|[A-Za-z0-9\0][{HAN}]",
    "a stray space": rf"[{FULL}] (?! )|[^\n] [{FULL}]|[{HAN}] [{HAN}]",
    "a line break, which shows as a space": rf"[{HAN}{FULL}\w\0]\n[{HAN}{FULL}\w\0]",
}


@every_place
def test_chinese_is_well_set(place: str) -> None:
    found = [
        f"{where}: {fault}"
        for where, text in TEXTS
        if where.split()[0] == place
        for fault in misset(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "用token表示",
        "共196个",
        "你好,世界。",
        "它是什么?",
        "图像(patch)的",
        "用`code` 写",
        "用 `code`写",
        "维度$D$ 为",
        "维度 $D$为",
        "它是 “引号”",
        "，然后 。",
        "图像 块",
        "**重点：**这里",
        "一行\n又一行",
        "- 一项\n又一行",
        "| 表 |\n|---|\n| 有token的 |",
    ],
)
def test_a_text_set_wrongly_is_seen(text: str) -> None:
    assert misset(text)


@pytest.mark.parametrize(
    "text",
    [
        "用 token 表示，共 196 个（见 [11.3.7](07_two_dimensions.ipynb)）。",
        "**重点**：维度 $D$ 为 768，`x[:, 0]`，即 $x_0$。“引号”里的 token。",
        "# 标题\n\n一段。\n\n- 一项；\n- 又一项。\n\n$$\nx = 1\n$$\n\n```python\nx = f(1,2)\n```",
        "形状 `(B, N, D)`：224 × 224，错误率 5 %，第 3.2 节。",
        "图 1。*先看答案*：两行。",
    ],
)
def test_a_text_set_well_is_left_alone(text: str) -> None:
    assert misset(text) == []


# ---- one thing, one name -------------------------------------------------------------------------

TERMS = [term for group in glossary.groups() for term in group["terms"]]


def test_the_terms_are_well_formed() -> None:
    own = [term["zh"] for term in TERMS]
    assert len(set(own)) == len(own)
    unused = [name for term in TERMS for name in term["not"]]
    assert len(set(unused)) == len(unused)
    for name in unused:
        assert not [term for term in own if name in term], f"{name} is a part of a term"
    for term in TERMS:
        assert set(term) == {"zh", "en", "meaning", "not", "also"}
        assert term["meaning"]["zh"].endswith("。") and term["meaning"]["en"].endswith(".")
        assert not misset(term["meaning"]["zh"])
    searched = [name.lower() for term in TERMS for name in (*term["not"], *term["also"])]
    assert len(set(searched)) == len(searched), "one name leads to one term"


def other_names(text: str) -> list[str]:
    """List the names in a text that the book does not use, each with its term.

    A name between quotation marks, or with its English in brackets, is spoken of and not used.
    """
    return [
        f"{name} → {term['zh']}"
        for term in TERMS
        for name in term["not"]
        if re.search(rf"(?<!“){re.escape(name)}(?!”|（[A-Za-z])", text)
    ]


@every_place
def test_no_other_name_is_used(place: str) -> None:
    found = [
        f"{where}: {name}"
        for where, text in TEXTS
        if where.split()[0] == place
        for name in other_names(text)
    ]
    assert not found, "\n".join(found)


def test_another_name_is_seen_and_a_mention_is_not() -> None:
    assert other_names("它加上位置编码。") == ["位置编码 → 位置嵌入"]
    assert other_names("有人称之为“位置编码”，即位置编码（positional encoding）。") == []


# ---- how the editions are built ------------------------------------------------------------------


def test_an_edition_differs_only_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    english, chinese = book.config("en"), book.config("zh")
    assert english == yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert chinese["repository"] == english["repository"]
    assert chinese["sphinx"]["local_extensions"] == english["sphinx"]["local_extensions"]
    assert (english["sphinx"]["config"]["language"], chinese["sphinx"]["config"]["language"]) == (
        "en",
        "zh_CN",
    )
