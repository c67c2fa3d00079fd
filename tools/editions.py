"""Keep the Chinese edition in step with the English one.

    python tools/editions.py sync            (make sync; make execute ends with it)
    python tools/editions.py confirm [PAGE]  (make confirm-zh; PAGE such as 06_order, README)

Both editions have the same cells, in the same order, with the same ids, code and outputs; only
the Markdown and the texts in the metadata differ. `sync` copies everything else from English to
Chinese. A new text is copied in English, with a mark, until an author translates it.

`confirm` records which English text each Chinese text translates: a hash for every text of every
page, in ``chapters/zh/confirmed.json``. A test then names the English texts that have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import glossary

ROOT = Path(__file__).resolve().parent.parent
ENGLISH = ROOT / "chapters" / "en"
CHINESE = ROOT / "chapters" / "zh"
QUIZZES = ROOT / "dnnl" / "quizzes"
CONFIRMED = CHINESE / "confirmed.json"

# The mark in front of an English text in the Chinese edition that is not yet translated.
MARK = "[UNTRANSLATED] "

# The keys of texts in a cell's metadata; below ``mystnb``, at any depth.
WORDS = ("alt", "caption", "code_prompt_show", "code_prompt_hide")

Json = dict[str, Any]


def read(path: Path) -> Json:
    content: Json = json.loads(path.read_text(encoding="utf-8"))
    return content


def dump(content: Json) -> str:
    """Return JSON in the format of the stored notebooks."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def source(cell: Json) -> str:
    return "".join(cell["source"])


def lines(text: str) -> list[str]:
    """Return a cell's source as the list of lines that notebooks store."""
    return text.splitlines(keepends=True)


def words(holder: Json, where: str = "") -> Iterator[tuple[str, Json, str]]:
    """Yield, for each text in a ``mystnb`` entry, its name, the dict that holds it, and its key."""
    for key, value in holder.items():
        if isinstance(value, dict):
            yield from words(value, f"{where}{key}.")
        elif key in WORDS:
            yield f"{where}{key}", holder, key


def texts(cell: Json) -> dict[str, str]:
    """Return the texts of a cell that are translated, by their names."""
    found = {"": source(cell)} if cell["cell_type"] == "markdown" else {}
    for name, holder, key in words(cell["metadata"].get("mystnb", {})):
        found[name] = holder[key]
    return found


def put(cell: Json, own: dict[str, str]) -> None:
    """Put Chinese texts into a copy of an English cell; mark those that are missing."""

    def chosen(name: str, english: str) -> str:
        # A formula or a rule needs no translation.
        return own.get(name) or (f"{MARK}{english}" if any(map(str.isalpha, english)) else english)

    if cell["cell_type"] == "markdown":
        cell["source"] = lines(chosen("", source(cell)))
    for name, holder, key in words(cell["metadata"].get("mystnb", {})):
        holder[key] = chosen(name, holder[key])


def synced(english: Json, chinese: Json | None) -> Json:
    """Return the English notebook with the texts of the Chinese one."""
    own = {cell["id"]: texts(cell) for cell in (chinese or {"cells": []})["cells"]}
    prompts = {}  # equal labels have equal translations: "Show the set-up", for example
    for cell in english["cells"]:
        for name, text in texts(cell).items():
            if "prompt" in name and name in own.get(cell["id"], {}):
                prompts[text] = own[cell["id"]][name]
    result: Json = json.loads(json.dumps(english))
    for cell in result["cells"]:
        known = {name: prompts[text] for name, text in texts(cell).items() if text in prompts}
        put(cell, {**known, **own.get(cell["id"], {})})
    return result


def write(path: Path, text: str) -> bool:
    """Write ``text`` atomically if it differs from the file; return whether it did."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)
    return True


def sync() -> None:
    changed = glossary.write()
    for path in sorted(ENGLISH.glob("*.ipynb")):
        target = CHINESE / path.name
        text = dump(synced(read(path), read(target) if target.exists() else None))
        if write(target, text):
            changed.append(target)
        if waiting := text.count(MARK):
            print(f"{target.relative_to(ROOT)}: {waiting} texts are not yet translated")
    for path in sorted(CHINESE.glob("*.ipynb")):
        if not (ENGLISH / path.name).exists():
            print(f"{path.relative_to(ROOT)}: this page does not exist in English")
    for path in changed:
        print(f"{path.relative_to(ROOT)}: updated")


# ---- which English text each Chinese text translates ---------------------------------------------


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def english_texts() -> dict[str, dict[str, str]]:
    """Return every English text that has a Chinese counterpart: by page, by name."""
    found = {}
    for path in sorted(ENGLISH.glob("*.ipynb")):
        found[path.stem] = {
            f"{cell['id']} {name}".strip(): text
            for cell in read(path)["cells"]
            for name, text in texts(cell).items()
        }
    for section, questions in read(QUIZZES / "en.json")["sections"].items():
        found[f"quiz {section}"] = {q["id"]: json.dumps(q, sort_keys=True) for q in questions}
    parts = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")
    found["README"] = {part.partition("\n")[0].lstrip("# "): part for part in parts}
    return found


def hashes() -> dict[str, dict[str, str]]:
    return {
        page: {name: digest(text) for name, text in texts_.items()}
        for page, texts_ in english_texts().items()
    }


def stale() -> list[str]:
    """List the English texts that have changed since their translation was confirmed."""
    record, now = read(CONFIRMED) if CONFIRMED.exists() else {}, hashes()
    found = []
    for page in [*now, *(record.keys() - now.keys())]:
        before, after = record.get(page, {}), now.get(page, {})
        names = [name for name in [*after, *before] if before.get(name) != after.get(name)]
        found += [f"{page}: {name}" for name in dict.fromkeys(names)]
    return found


def confirm(pages: list[str]) -> int:
    """Record that the Chinese texts of some pages, or of all, translate the current English."""
    now = hashes()
    if unknown := set(pages) - set(now):
        print(f"Expected pages among {', '.join(now)}; got {', '.join(sorted(unknown))}.")
        return 2
    waiting = [
        p.name
        for p in sorted(CHINESE.glob("*.ipynb"))
        if (not pages or p.stem in pages) and MARK in p.read_text("utf-8")
    ]
    if waiting:
        print(f"These pages are not yet translated: {', '.join(waiting)}.")
        return 1
    for change in stale():
        if not pages or change.split(": ")[0] in pages:
            print(f"confirmed: {change}")
    record = read(CONFIRMED) if pages and CONFIRMED.exists() else {}
    kept = {page: content for page, content in record.items() if page in now}
    kept |= {page: now[page] for page in pages or now}
    write(CONFIRMED, json.dumps(dict(sorted(kept.items())), ensure_ascii=False, indent=1) + "\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sync", help="copy code and outputs from English to Chinese")
    confirming = commands.add_parser("confirm", help="record that the Chinese fits the English")
    confirming.add_argument("pages", nargs="*", metavar="PAGE")
    args = parser.parse_args()
    if args.command == "confirm":
        return confirm(args.pages)
    sync()
    return 0


if __name__ == "__main__":
    sys.exit(main())
