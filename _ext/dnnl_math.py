"""Formulas set when the book is built: pages carry drawings, and no formula engine or font.

MathJax (the package sphinx-mathjax-offline) draws every formula as SVG, in a process of Deno that
may read MathJax's folder and nothing else. A drawing has its exact size from the start, so nothing
moves; each glyph is on a page once. For screen readers there is MathML beside the drawing.
"""

from __future__ import annotations

import atexit
import functools
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from deno import find_deno_bin
from dnnl_rewrite import fresh_pages, replace
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.locale import _
from sphinx.util.math import get_node_equation_number

ASSETS = Path(__file__).parent / "assets"
SCRIPT, STYLE = ASSETS / "formulas.cjs", "formulas.css"

# Deno may read one folder; it asks for nothing, and there is no network.
DENO = ("run", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--quiet")

GLYPH = re.compile(r'<use\b[^>]* href="#(TEX-[^"]+)"')
GLYPHS = '<svg class="dnnl-glyphs" style="display: none" aria-hidden="true"><defs>'

# What the glyphs look like that formulas of this build use.
_glyphs: dict[str, str] = {}


def mathjax_folder() -> Path:
    """Return the installed folder of MathJax's parts."""
    for file in importlib.metadata.files("sphinx-mathjax-offline") or []:
        if file.name == "startup.js":
            return Path(str(file.locate())).resolve().parent  # Deno compares without links
    raise ExtensionError("The package sphinx-mathjax-offline does not contain startup.js.")


@functools.cache
def _engine() -> subprocess.Popen[str]:
    """Start the process that sets formulas; it ends with this one."""
    folder = mathjax_folder()
    readable = str(folder).replace(",", ",,")  # a comma separates paths
    cache = tempfile.mkdtemp(prefix="deno-")
    engine = subprocess.Popen(
        [find_deno_bin(), *DENO, f"--allow-read={readable}", str(SCRIPT), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "DENO_DIR": cache, "DENO_NO_UPDATE_CHECK": "1"},
    )

    def end() -> None:
        engine.communicate()
        shutil.rmtree(cache, ignore_errors=True)

    atexit.register(end)
    return engine


@functools.cache
def draw(tex: str, display: bool) -> str:
    """Return the HTML of a formula. A ``ValueError`` says what is wrong with it."""
    engine = _engine()
    assert engine.stdin and engine.stdout
    engine.stdin.write(json.dumps({"tex": tex, "display": display}) + "\n")
    engine.stdin.flush()
    line = engine.stdout.readline()
    if not line:
        raise ExtensionError(f"The program that sets formulas has ended: {engine.args!r}")
    answer = json.loads(line)
    if error := answer.get("error"):
        raise ValueError(error)
    _glyphs.update(answer["glyphs"])
    return str(answer["html"])


def _formula(translator: Any, tex: str, display: bool) -> str:
    try:
        return draw(tex, display)
    except ValueError as error:
        page = translator.builder.current_docname
        raise ExtensionError(f"{page}: the formula {tex!r} cannot be set: {error}") from error


def aligned(tex: str) -> str:
    r"""Return a displayed formula as Sphinx gives it to MathJax: lines end at ``\\``."""
    parts = [part for part in tex.split("\n\n") if part.strip()]
    parts = [rf"\begin{{split}}{part}\end{{split}}" if r"\\" in part else part for part in parts]
    if len(parts) == 1:
        return parts[0]
    return r"\begin{align}\begin{aligned}" + r"\\".join(parts) + r"\end{aligned}\end{align}"


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula of the text."""
    tag = self.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    self.body.append(f"{tag}{_formula(self, node.astext(), False)}</span>")
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    tex = node.astext() if node["nowrap"] else aligned(node.astext())
    self.body.append(f"{_formula(self, tex, True)}</div>\n")
    raise nodes.SkipNode


def with_glyphs(page: str, where: object) -> str:
    """Add the glyphs of a page's formulas at its end, where they delay no text."""
    names = sorted(set(GLYPH.findall(page)))
    if not names:
        return page
    glyphs = "".join(_glyphs[name] for name in names)
    return replace(
        page, "</body>", f"{GLYPHS}{glyphs}</defs></svg>\n</body>", expect=1, where=where
    )


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copy the style of formulas into the site, and add the glyphs to every page."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    shutil.copyfile(ASSETS / STYLE, site / "_static" / STYLE)
    for page in fresh_pages(site):
        text = with_glyphs(page.read_text(encoding="utf-8"), page.relative_to(site))
        page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer: Sphinx prefers it to its own."""
    app.add_html_math_renderer("dnnl", (visit_inline, None), (visit_block, None))
    app.add_css_file(STYLE)
    app.connect("build-finished", finish, priority=880)  # before dnnl_book joins the styles
    return {"parallel_read_safe": True, "parallel_write_safe": False}
