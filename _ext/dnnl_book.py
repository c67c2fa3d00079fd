"""Make the built book self-contained: it includes every file that it needs, and needs few.

A reader may have a slow network or none, or open the pages from disk (``file://``). So formulas are
drawn when the book is built (``dnnl_math``), and explorers run without a kernel (``dnnl_widgets``).
Files of the theme that no page uses are removed, and the others are joined (``dnnl_slim``).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import dnnl_editions
import dnnl_slim
import dnnl_widgets
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

# Scripts of every page: for formulas that scroll, and for what is printed.
ASSETS = ("formulas.js", "paper.js")

# The alternative text of the picture in previews of a link to a page.
PICTURE = {
    "en": "A photograph in patches, a sequence, and the similarity of positions",
    "zh": "切成图像块的照片、token 序列，以及位置之间的相似度",
}

# The style sheet and its fonts draw the icons; this script would draw them a second time.
ICON_SCRIPT = re.compile(r'\s*<script[^>]*src="[^"]*scripts/fontawesome\.js[^"]*"[^>]*></script>')
# The settings of the live-kernel launcher, in the article.
LAUNCHER = re.compile(
    r'\s*<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = .*?</script>',
    re.DOTALL,
)
# The sidebar. Its logo must be inside a landmark.
SIDEBAR = re.compile(r'<div class="sidebar-primary-items__start')
# This aria-label hides the text of the summary from screen readers.
LABELLED_SUMMARY = '<summary aria-label="Toggle hidden content">'
# Calls that the scripts of the theme make for debugging, and the files that contain them.
LOG = re.compile(r"\bconsole\.log\(")
LOGGING = (
    "search.html",
    "_static/scripts/pydata-sphinx-theme.js",
    "_static/scripts/sphinx-book-theme.js",
    "_static/togglebutton.js",
)
UNUSED = ("**/*.map", "scripts/fontawesome.js*", "sphinx-thebe.*")


def configure(app: Sphinx, config: Config) -> None:
    """Change settings that Jupyter Book makes itself; it would overwrite those of `_config.yml`."""
    config.html_theme_options["navbar_persistent"] = []  # no search button without its dialog
    config.html_context["default_mode"] = "auto"  # light or dark, as the reader's system
    config.nb_ipywidgets_js = {}  # by default, scripts from a CDN


def drop_thebe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Remove the live-kernel launcher, which the theme adds even if it is not used."""

    def wanted(file: object) -> bool:
        name = str(getattr(file, "filename", file) or "")
        body = getattr(file, "attributes", {}).get("body") or ""
        return "thebe" not in name and "THEBE_JS_URL" not in body

    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind) or [] if wanted(file)]


def describe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add a description of the page, for search engines and for previews of a link to it."""
    if doctree is None:
        return
    question = next(doctree.findall(nodes.block_quote), None)
    text = " ".join(question.astext().split()) if question else app.config.html_title
    properties = {
        "og:type": "article",
        "og:title": next(doctree.findall(nodes.title)).astext(),
        "og:description": text,
        "og:image": f"{dnnl_editions.address(app)}/_static/cover.png",
        "og:image:alt": PICTURE[app.config.dnnl_edition or "en"],
    }
    tags = [f'<meta name="description" content="{escape(text)}">']
    tags += [f'<meta property="{k}" content="{escape(v)}">' for k, v in properties.items()]
    context["metatags"] = (context.get("metatags") or "") + "\n".join(tags)


def mark_captions(app: Sphinx, doctree: nodes.document) -> None:
    """Add a class to each caption, which is a paragraph that is all emphasis."""
    for paragraph in doctree.findall(nodes.paragraph):
        if len(paragraph) == 1 and isinstance(paragraph[0], nodes.emphasis):
            paragraph["classes"].append("dnnl-caption")


def rewrite(file: Path, edit: Callable[[str], str]) -> None:
    """Replace the text of ``file`` by ``edit(text)``."""
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copy the explorers' scripts into the site, and remove unused files."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    static = site / "_static"
    dnnl_widgets.copy(static)
    for asset in ASSETS:
        shutil.copyfile(dnnl_widgets.ASSETS / asset, static / asset)
    landmark = f'<div role="region" aria-label="{escape(app.config.html_title)}" class='
    for page in site.rglob("*.html"):
        rewrite(page, lambda text: LAUNCHER.sub("", ICON_SCRIPT.sub("", text)))
        rewrite(page, lambda text: text.replace(LABELLED_SUMMARY, "<summary>"))
        rewrite(page, lambda text: SIDEBAR.sub(f'{landmark}"sidebar-primary-items__start', text))
    for script in LOGGING:
        rewrite(site / script, lambda text: LOG.sub("void(", text))
    for pattern in UNUSED:
        for file in static.glob(pattern):
            file.unlink()
    dnnl_slim.slim(site)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    for asset in ASSETS:
        app.add_js_file(asset)
    app.setup_extension("dnnl_math")
    app.connect("config-inited", configure)
    app.connect("doctree-read", mark_captions)
    app.connect("html-page-context", drop_thebe, priority=900)  # after scripts have been added
    app.connect("html-page-context", dnnl_widgets.show, priority=910)
    app.connect("html-page-context", describe)
    app.connect("build-finished", finish, priority=900)  # after the theme's own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
