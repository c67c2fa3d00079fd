"""The API page: what autodoc does not know of the package, and the language of the docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

import traitlets
from dnnl_rewrite import replace
from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

ENTRY = re.compile(r'<dl class="py ')
LABEL = re.compile(r'<dt class="field-(odd|even)">')


def sign(
    app: Sphinx, what: str, name: str, obj: Any, options: object, args: str | None, returns: str
) -> tuple[str, str] | None:
    """Give an explorer the signature of its own ``__init__``: autodoc reads traitlets' ``__new__``."""
    if what != "class" or not issubclass(obj, traitlets.HasTraits):
        return None
    if not obj.__init__.__module__.startswith("dnnl."):
        return "(**traits)", ""
    own = signature(obj.__init__, bound_method=True)
    return stringify_signature(own, unqualified_typehints=True), ""


def mark_language(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """On a Chinese page, mark what comes from the docstrings as English, for readers of screens."""
    body, language = context.get("body") or "", "zh-CN"
    if app.config.dnnl_edition != "zh" or '<dl class="py ' not in body:
        return
    entries, labels = len(ENTRY.findall(body)), len(LABEL.findall(body))
    body = replace(body, ENTRY, '<dl lang="en" class="py ', expect=entries, where=page)
    context["body"] = replace(
        body, LABEL, rf'<dt lang="{language}" class="field-\1">', expect=labels, where=page
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("autodoc-process-signature", sign)
    app.connect("html-page-context", mark_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
