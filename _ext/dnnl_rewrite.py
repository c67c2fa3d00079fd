"""Rewriting what Sphinx, its extensions and the theme have written: their changes stop the build.

Every replacement says how many places it expects. A pattern that no longer matches would otherwise
go unnoticed: the page would look right, and load a font, a script or a server that it should not.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path

from sphinx.errors import ExtensionError

# The packages whose files are rewritten.
PACKAGES = (
    "sphinx-book-theme",
    "pydata-sphinx-theme",
    "myst-nb",
    "sphinx-thebe",
    "sphinx-togglebutton",
    "sphinx",
)

# The name of the files that `dnnl_slim` joins; a page that names one is finished.
BUNDLE = "_static/book-"


def stop(where: object, problem: str) -> ExtensionError:
    """Return the error that stops the build: what is wrong, where, and with which versions."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return ExtensionError(f"{where}: {problem} (installed: {versions})")


def replace(
    text: str,
    pattern: str | re.Pattern[str],
    new: str | Callable[[re.Match[str]], str],
    *,
    expect: int,
    where: object,
) -> str:
    """Replace a pattern, or a text as it stands, that must be found in ``expect`` places.

    As in :func:`re.sub`, ``new`` may refer to groups of a pattern.
    """
    if isinstance(pattern, str):
        found, done = text.count(pattern), text.replace(pattern, str(new))
    else:
        done, found = pattern.subn(new, text)
    if found != expect:
        name = pattern if isinstance(pattern, str) else pattern.pattern
        raise stop(where, f"{name!r} is in {found} places, not in {expect}")
    return done


def fresh_pages(site: Path) -> list[Path]:
    """Return the pages of the theme that are as Sphinx wrote them, in the order of their names.

    Others of an incremental build are finished; the first page only redirects.
    """
    found = []
    for page in sorted(site.rglob("*.html")):
        if site / "_static" in page.parents:
            continue
        text = page.read_text(encoding="utf-8")
        if "_static/" in text and BUNDLE not in text:
            found.append(page)
    return found
