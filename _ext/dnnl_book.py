"""Make the built book complete in itself: every file it needs lies in it, and it needs few.

A reader may have no network, or open the pages straight from disk (``file://``). So MathJax is
served from the book, copied out of the installed package sphinx-mathjax-offline, and whatever the
theme brings but no page uses (a kernel launcher, icons drawn by script, source maps, old font
formats) is left out.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

# Only what MathJax loads for TeX input and HTML output. It goes into the built `_static`: in the
# source's `_static`, Jupyter Book would add every script to every page.
MATHJAX = ("tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions")

# The icons come from the style sheet and its woff2 fonts; the script would draw them once more.
ICON_SCRIPT = re.compile(r'\s*<script[^>]*src="[^"]*scripts/fontawesome\.js[^"]*"[^>]*></script>')
# In the article: the launcher's settings. In the theme's scripts: what they did, for the console.
LAUNCHER = re.compile(
    r'\s*<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = .*?</script>',
    re.DOTALL,
)
LOG = re.compile(r"\bconsole\.log\(")
TALKATIVE = (
    "search.html",
    "_static/scripts/pydata-sphinx-theme.js",
    "_static/scripts/sphinx-book-theme.js",
    "_static/togglebutton.js",
)
UNUSED = ("**/*.map", "scripts/fontawesome.js*", "**/fa-*.ttf", "sphinx-thebe.*")


def configure(app: Sphinx, config: Config) -> None:
    """Settings that Jupyter Book makes itself and would replace if `_config.yml` named them."""
    config.mathjax_path = "mathjax/tex-chtml.js"
    config.mathjax3_config = {
        **(config.mathjax3_config or {}),
        # The menu offers speech files and other outputs that the book does not carry. The hidden
        # MathML that screen readers use does not depend on it.
        "options": {
            **(config.mathjax3_config or {}).get("options", {}),
            "enableMenu": False,
            "enableAssistiveMml": True,
        },
    }
    config.html_theme_options["navbar_persistent"] = []  # else a search button without a dialog
    config.html_context["default_mode"] = "auto"  # light or dark, as the reader's system has it
    config.nb_ipywidgets_js = {}  # from a CDN


def drop_thebe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Leave out the live-kernel launcher, which the theme adds whether or not it is used."""

    def wanted(file: object) -> bool:
        name = str(getattr(file, "filename", file) or "")
        body = getattr(file, "attributes", {}).get("body") or ""
        return "thebe" not in name and "THEBE_JS_URL" not in body

    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind) or [] if wanted(file)]


def _mathjax_folder() -> Path:
    for file in importlib.metadata.files("sphinx-mathjax-offline") or []:
        if file.name == "tex-chtml.js":
            return Path(str(file.locate())).parent
    raise FileNotFoundError("tex-chtml.js in the package sphinx-mathjax-offline")


def rewrite(file: Path, edit: Callable[[str], str]) -> None:
    """Replace the text of ``file`` by its edited form."""
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copy MathJax into the site and remove what no page asks for."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    for part in MATHJAX:
        source, target = _mathjax_folder() / part, static / "mathjax" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    for page in Path(app.outdir).rglob("*.html"):
        rewrite(page, lambda text: LAUNCHER.sub("", ICON_SCRIPT.sub("", text)))
    for script in TALKATIVE:
        rewrite(Path(app.outdir, script), lambda text: LOG.sub("void(", text))
    for pattern in UNUSED:
        for file in static.glob(pattern):
            file.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    app.connect("config-inited", configure)
    app.connect("html-page-context", drop_thebe, priority=900)  # after those who add
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
