"""Write the glossary of both editions from the book's terms. (part of make sync)

The pages ``glossary.md`` are made from ``chapters/terms.json``. There, ``not`` lists names that the
Chinese edition must not use (a test checks it), and ``also`` other names; the Chinese search finds
a term by all of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TERMS = ROOT / "chapters" / "terms.json"

EDITIONS = {
    "en": (
        "Glossary: the terms in English and Chinese",
        "**The question.** What does a word of this chapter mean, and what is it called in "
        "Chinese?",
        ("English", "中文", "Meaning"),
        "Both editions use these terms and no others for the same thing. Formulas and code use the "
        "field's own letters: `B` images in a batch, `N` patches of an image, `D` numbers in each "
        "token.",
    ),
    "zh": (
        "术语表：中英文对照",
        "**问题**：本章的术语是什么意思，英文怎么说？",
        ("中文", "English", "含义", "本书不用"),
        "全书只用“中文”一列的说法；最后一列是别处常见而本书不用的译名，在搜索框中输入它们也能找到对应的内容。",
    ),
}


def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(TERMS.read_text(encoding="utf-8"))["groups"]
    return found


def page(edition: str) -> str:
    """Return the Markdown of an edition's page."""
    title, question, columns, note = EDITIONS[edition]
    lines = [f"# {title}", "", f"> {question}", "", note, ""]
    for group in groups():
        lines += [f"## {group[edition]}", "", _row(columns), "|" + "---|" * len(columns)]
        for term in group["terms"]:
            names = [term["en"], term["zh"]] if edition == "en" else [term["zh"], term["en"]]
            cells = [f"**{names[0]}**", names[1], term["meaning"][edition]]
            if edition == "zh":
                cells.append("、".join(term["not"]))
            lines.append(_row(cells))
        lines.append("")
    return "\n".join(lines)


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def write() -> list[Path]:
    """Write both pages and return the paths of those that changed."""
    changed = []
    for edition in EDITIONS:
        path = ROOT / "chapters" / edition / "glossary.md"
        text = page(edition)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
