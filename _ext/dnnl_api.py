"""The API page: what autodoc does not know of the package, and the language of the docstrings."""

from __future__ import annotations

from typing import Any

import traitlets
from dnnl_rewrite import replace
from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

ENTRY = '<dl class="py '
# A screen reader reads each part in its language. (Sphinx translates the other labels.)
MARKS = {
    ENTRY: '<dl lang="en" class="py ',
    '<dt class="field-odd">': '<dt class="field-odd" lang="zh-CN">',
    '<dt class="field-even">': '<dt class="field-even" lang="zh-CN">',
    ">Attributes<": ">属性<",
}


def sign(
    app: Sphinx, what: str, name: str, obj: Any, options: object, args: str | None, returns: str
) -> tuple[str, str] | None:
    """Give an explorer the signature of its ``__init__``: autodoc reads traitlets' ``__new__``."""
    if what != "class" or not issubclass(obj, traitlets.HasTraits):
        return None
    if not obj.__init__.__module__.startswith("dnnl."):
        return "(**traits)", ""
    own = signature(obj.__init__, bound_method=True)
    shown = stringify_signature(own, show_return_annotation=False, unqualified_typehints=True)
    return shown, ""


def mark_language(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """On a Chinese page, mark docstrings as English and their labels as Chinese."""
    body = context.get("body") or ""
    if app.config.dnnl_edition != "zh" or ENTRY not in body:
        return
    for english, chinese in MARKS.items():
        body = replace(body, english, chinese, expect=max(body.count(english), 1), where=page)
    context["body"] = body


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    for extension in ("sphinx.ext.autodoc", "sphinx.ext.napoleon"):
        app.setup_extension(extension)
    app.connect("autodoc-process-signature", sign)
    app.connect("html-page-context", mark_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
