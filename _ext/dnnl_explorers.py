"""The explorers on the book's pages: their state and scripts come from the package ``dnnl``.

A notebook stores the traits of its explorers (``dnnl.explorers.stored``). When Sphinx reads it, the
package fills in the rest; ``sphinx_anywidget`` then puts the explorers on the page, with scripts
that hold the page's language only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx_anywidget import Module

from dnnl.explorers import stored
from dnnl.explorers.base import STATIC, STYLES, stylesheet
from dnnl.explorers.stored import STATE

STYLE = "explorers.css"


def restore(app: Sphinx, docname: str, content: list[str]) -> None:
    """Bring back the whole state of a notebook's widgets."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(content[0])
        stored.restore(notebook)
        for model in (
            notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {}).values()
        ):
            if questions := model["state"].get("_content"):  # of a quiz, by language
                lang = language(app)
                model["state"]["_content"] = {lang: questions[lang]}
        content[0] = json.dumps(notebook)


def language(app: Sphinx) -> str:
    """Return the language of the book as the explorers name it."""
    return str(app.config.language).split("_")[0]


def module(app: Sphinx, anywidget_id: str) -> Module | None:
    """Return the files of an explorer, in the language of the book."""
    if not anywidget_id.startswith("dnnl.explorers."):
        return None
    name = anywidget_id.split(".")[2]
    script = STATIC / f"{name}.{language(app)}.js"
    if not script.is_file():
        raise ExtensionError(f"The explorer {name} is not bundled: run `make bundle`.")
    return Module(name, script)


def write_styles(app: Sphinx, error: Exception | None) -> None:
    """Write the style sheets of all explorers as one, which is the same for every page."""
    if error is None and app.builder.format == "html":
        names = dict.fromkeys(["live", *sorted(path.stem for path in STYLES.glob("*.css"))])
        del names["base"]  # it comes first
        Path(app.outdir, "_static", STYLE).write_text(stylesheet(*names), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    app.setup_extension("sphinx_anywidget")
    app.connect("source-read", restore)
    app.connect("anywidget-module", module)
    app.add_css_file(STYLE)
    app.connect("build-finished", write_styles, priority=850)  # before dnnl_slim joins the sheets
    return {"parallel_read_safe": True, "parallel_write_safe": True}
