"""Build the site: English at its root, Chinese below ``zh/``. (make book)

Both editions have the settings of ``_config.yml`` and the contents of ``_toc.yml``;
``_config.zh.yml`` holds the settings that differ in the Chinese edition. `jupyter-book build .`
alone builds the English edition, without links to the Chinese one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
SITE = BUILD / "html"
EDITIONS = ("en", "zh")

# Large folders that are equal in both editions: the site keeps one copy, so that a reader who
# changes the language downloads nothing twice.
SHARED = ("anywidget",)

# The first page of the site redirects to the edition that the reader chose earlier.
CHOICE = (
    '<script>try { if (localStorage.getItem("dnnl-language") === "zh-CN")'
    ' location.replace("zh/index.html"); } catch { /* not remembered */ }</script>\n'
)


def load(name: str) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return settings


def merged(settings: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return ``settings`` updated with ``other``, at any depth."""
    both = {**settings, **other}
    for key in settings.keys() & other.keys():
        if isinstance(settings[key], dict) and isinstance(other[key], dict):
            both[key] = merged(settings[key], other[key])
    return both


def pages(edition: str) -> list[str]:
    """Return the pages of an edition in their order, such as ``chapters/zh/06_order``."""
    toc = load("_toc.yml")
    english = [toc["root"], *(entry["file"] for entry in toc["chapters"])]
    return [page.replace("/en/", f"/{edition}/") for page in english]


def config(edition: str) -> dict[str, Any]:
    """Return the settings of an edition, as Jupyter Book reads them."""
    settings = load("_config.yml")
    if edition != "en":
        settings = merged(settings, load(f"_config.{edition}.yml"))
    # GitHub names the repository in which a workflow runs. So a fork's pages lead to the fork.
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        settings["repository"]["url"] = f"https://github.com/{repository}"
    return settings


def start(edition: str) -> subprocess.Popen[bytes]:
    """Start the build of an edition in a folder of its own."""
    folder = BUILD / edition
    folder.mkdir(parents=True)
    settings = config(edition)
    # Only this program builds both editions, so only its pages link to each other.
    settings["sphinx"]["config"]["dnnl_edition"] = edition
    settings["sphinx"]["local_extensions"] = {
        name: str(ROOT / path) for name, path in settings["sphinx"]["local_extensions"].items()
    }
    root, *chapters = pages(edition)
    toc = {**load("_toc.yml"), "root": root, "chapters": [{"file": page} for page in chapters]}
    for name, content in (("_config.yml", settings), ("_toc.yml", toc)):
        text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
        (folder / name).write_text(text, encoding="utf-8")
    strict = ["--all", "-W", "-n", "--keep-going", "-q"]
    files = ["--config", str(folder / "_config.yml"), "--toc", str(folder / "_toc.yml")]
    return subprocess.Popen(
        ["jupyter-book", "build", str(ROOT), *strict, *files, "--path-output", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,  # it names a folder from which the pages are moved later
    )


def assemble() -> None:
    """Move both editions into one site."""
    for edition in EDITIONS:
        target = SITE if edition == "en" else SITE / edition
        shutil.move(BUILD / edition / "_build" / "html", target)
        if edition == "en":
            continue
        for name in SHARED:
            shared, own = SITE / "_static" / name, target / "_static" / name
            shutil.copytree(own, shared, dirs_exist_ok=True)
            shutil.rmtree(own)
        moved = dict.fromkeys(SHARED, 0)
        for page in target.rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            up = "../" * len(page.relative_to(target).parent.parts)
            for name in SHARED:
                moved[name] += text.count(link := f'"{up}_static/{name}/')
                text = text.replace(link, f'"{up}../_static/{name}/')
            page.write_text(text, encoding="utf-8")
        if unused := [name for name, links in moved.items() if not links]:
            raise SystemExit(f"No page of {target} has a link to {unused} of _static.")
    first = SITE / "index.html"
    text = first.read_text(encoding="utf-8")
    if 'http-equiv="Refresh"' not in text:
        raise SystemExit(f"{first} does not redirect to the first page of the book.")
    first.write_text(CHOICE + text, encoding="utf-8")


def main() -> int:
    # Always a clean build: an incremental one would not repeat the warnings of unchanged pages and
    # would keep removed pages. It takes seconds.
    for folder in (SITE, *(BUILD / edition for edition in EDITIONS)):
        shutil.rmtree(folder, ignore_errors=True)
    builds = {edition: start(edition) for edition in EDITIONS}  # in parallel
    failed = False
    for edition, build in builds.items():
        output, _ = build.communicate()
        if build.returncode:
            print(f"The build of the edition {edition!r} failed:", file=sys.stderr)
            sys.stderr.buffer.write(output)
            failed = True
    if failed:
        return 1
    assemble()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
