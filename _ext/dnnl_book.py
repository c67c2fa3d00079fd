"""Make the built book self-contained: it includes every file that it needs, and needs few.

A reader may have a slow network or none, or open the pages from disk (``file://``). So formulas are
drawn when the book is built (``dnnl_math``), and explorers run without a kernel
(``dnnl_explorers``).
Files of the theme that no page uses are removed, and the others are joined (``dnnl_slim``).
"""

from __future__ import annotations

import re
import shutil
from html import escape
from pathlib import Path
from typing import Any

import dnnl_editions
import dnnl_slim
import yaml
from dnnl_rewrite import fresh_pages, replace, stop
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

# Scripts of every page: for formulas that scroll, and for what is printed.
ASSETS = ("formulas.js", "paper.js")
ASSETS_FOLDER = Path(__file__).parent / "assets"

# The repository that the sources name.
SETTINGS = Path(__file__).resolve().parent.parent / "_config.yml"
HOME: str = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))["repository"]["url"]

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
SIDEBAR = '<div class="sidebar-primary-items__start'
# The aria-label hides the text of the summary from screen readers.
FOLDED = '<details class="admonition hide '
LABELLED_SUMMARY = '<summary aria-label="Toggle hidden content">'
# Calls that the scripts of the theme make for debugging: how many there are in each file.
LOG = re.compile(r"\bconsole\.log\(")
LOGGING = {
    "search.html": 1,
    "_static/scripts/pydata-sphinx-theme.js": 8,
    "_static/scripts/sphinx-book-theme.js": 2,
    "_static/togglebutton.js": 3,
}
UNUSED = (
    "**/*.map",
    "*-macros.html",
    "locales/**/*.?o",
    "scripts/fontawesome.js*",
    "sphinx-thebe.*",
)


def configure(app: Sphinx, config: Config) -> None:
    """Change settings that Jupyter Book makes itself; it would overwrite those of `_config.yml`."""
    config.html_theme_options["navbar_persistent"] = []  # no search button without its dialog
    config.html_context["default_mode"] = "auto"  # light or dark, as the reader's system


def name_this_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links and install commands of a page name the repository in which the book is built."""
    here = app.config.html_theme_options["repository_url"]
    source[0] = source[0].replace(HOME, here)


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


def clean(text: str, title: str, *, document: bool, where: object) -> str:
    """Remove from a page what nobody uses, and mend what hinders readers of screens.

    ``document``: the page was made from a file of the book, and not by Sphinx alone.
    """
    landmark = f'<div role="region" aria-label="{escape(title)}"{SIDEBAR.removeprefix("<div")}'
    text = replace(text, ICON_SCRIPT, "", expect=1, where=where)
    text = replace(text, LAUNCHER, "", expect=int(document), where=where)
    text = replace(text, SIDEBAR, landmark, expect=1, where=where)
    folded = text.count(FOLDED)
    return replace(text, LABELLED_SUMMARY, "<summary>", expect=folded, where=where)


def rewrite_site(site: Path, documents: set[str], title: str) -> None:
    """Rewrite the pages that have just been written, and the scripts and styles of the theme.

    ``documents`` names the pages that were made from files of the book.
    """
    pages = fresh_pages(site)
    if not pages:  # nothing has changed since the last build
        return
    names = {page: page.relative_to(site).with_suffix("").as_posix() for page in pages}
    folded = 0
    for page, name in names.items():
        text = page.read_text(encoding="utf-8")
        folded += text.count(FOLDED)
        text = clean(text, title, document=name in documents, where=f"{name}.html")
        page.write_text(text, encoding="utf-8")
    if not folded and documents <= set(names.values()):
        raise stop("the site", f"{FOLDED!r} is on no page")
    for script, calls in LOGGING.items():
        text = (site / script).read_text(encoding="utf-8")
        text = replace(text, LOG, "void(", expect=calls, where=script)
        (site / script).write_text(text, encoding="utf-8")
    static = site / "_static"
    for pattern in UNUSED:
        files = list(static.glob(pattern))
        if not files:
            raise stop("_static", f"there is no file {pattern!r}, which would be removed")
        for file in files:
            file.unlink()
    dnnl_slim.slim(site, pages)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copy scripts into the site, and rewrite what the theme has written."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    for asset in ASSETS:
        shutil.copyfile(ASSETS_FOLDER / asset, site / "_static" / asset)
    rewrite_site(site, set(app.env.found_docs), app.config.html_title)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    for asset in ASSETS:
        app.add_js_file(asset)
    app.setup_extension("dnnl_math")
    app.connect("config-inited", configure)
    app.connect("source-read", name_this_repository)
    app.connect("doctree-read", mark_captions)
    app.connect("html-page-context", drop_thebe, priority=900)  # after scripts have been added
    app.connect("html-page-context", describe)
    app.connect("build-finished", finish, priority=900)  # after the theme's own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
