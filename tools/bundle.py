"""Bundle the explorers' JavaScript: one self-contained file for each. (make bundle)

    python tools/bundle.py [--watch]

``dnnl/explorers/js/NAME/`` holds the modules of an explorer. From them this program writes, into
``dnnl/explorers/static/``:

    NAME.js        an ES module with both languages, which anywidget loads in a notebook
    NAME.en.js     the same for a page of the book: a classic script with the page's language,
    NAME.zh.js     which works from disk, too

With ``--watch`` it writes them again whenever a source changes; together with anywidget's hot
reload (``ANYWIDGET_HMR=1 jupyter lab``) an open notebook shows the change at once.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPLORERS = ROOT / "dnnl" / "explorers"
SOURCES, STATIC = EXPLORERS / "js", EXPLORERS / "static"
SHARED = ("lib", "live")  # folders of modules that explorers import
LANGUAGES = ("en", "zh")


def names() -> list[str]:
    """Return the names of the explorers."""
    return sorted(view.parent.name for view in SOURCES.glob("*/view.js"))


def sources(name: str) -> list[Path]:
    """Return the files of which the bundles of an explorer are made."""
    folders = [SOURCES / folder for folder in (name, *SHARED)]
    return sorted(file for folder in folders for file in folder.rglob("*.js"))


def checksum(name: str) -> str:
    """Return a checksum of the sources of an explorer. Each of its bundles begins with it."""
    content = hashlib.sha256()
    for file in sources(name):
        content.update(f"{file.relative_to(EXPLORERS).as_posix()}\n".encode())
        content.update(file.read_bytes())
    return content.hexdigest()[:16]


def bundle(entry: str, form: str) -> str:
    """Return the module ``entry`` and all that it imports as one minified script."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "entry.js")
        file.write_text(entry, encoding="utf-8")
        done = subprocess.run(
            ["deno", "bundle", "--quiet", "--no-config", "--no-lock", "--platform", "browser"]
            + ["--format", form, "--minify", file.name],
            cwd=folder,
            env={**os.environ, "DENO_NO_UPDATE_CHECK": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    if done.returncode:
        raise RuntimeError(f"deno bundle failed:\n{done.stderr}")
    return done.stdout


def bundles(name: str) -> dict[str, str]:
    """Return the files of an explorer in ``static/`` and their contents."""
    folder = (SOURCES / name).as_uri()

    def entry(languages: tuple[str, ...], last: str) -> str:
        texts = "".join(f'import {lang} from "{folder}/{lang}.js";\n' for lang in languages)
        view = f'import view from "{folder}/view.js";\n'
        return f"{texts}{view}const explorer = view({{ {', '.join(languages)} }});\n{last}\n"

    head = f"/* Made by tools/bundle.py from ../js/{name}, {checksum(name)} */\n"
    # A page's script puts the module where the page's loader finds it (sphinx_anywidget).
    define = f'(globalThis.anywidgetModules ??= {{}})["{name}"] = explorer;'
    files = {f"{name}.js": bundle(entry(LANGUAGES, "export default explorer;"), "esm")}
    for lang in LANGUAGES:
        files[f"{name}.{lang}.js"] = bundle(entry((lang,), define), "iife")
    return {file: head + text for file, text in files.items()}


def is_fresh(name: str) -> bool:
    """Say whether the bundles of an explorer were made from its sources as they are now."""
    endings = ("js", *(f"{lang}.js" for lang in LANGUAGES))
    files = [STATIC / f"{name}.{ending}" for ending in endings]
    current = checksum(name)
    return all(file.is_file() and current in file.read_text("utf-8")[:200] for file in files)


def write(name: str) -> None:
    """Write the bundles of an explorer."""
    STATIC.mkdir(exist_ok=True)
    for file, text in bundles(name).items():
        (STATIC / file).write_text(text, encoding="utf-8", newline="\n")
    print(f"{name}: bundled")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--watch", action="store_true", help="bundle again when a source changes")
    watch = parser.parse_args().watch
    failed: dict[str, str] = {}  # explorer → the checksum of sources that have an error
    while True:
        for name in names():
            if is_fresh(name) or failed.get(name) == checksum(name):
                continue
            try:
                write(name)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
                failed[name] = checksum(name)
        if not watch:
            return 1 if failed else 0
        time.sleep(0.5)


if __name__ == "__main__":
    raise SystemExit(main())
