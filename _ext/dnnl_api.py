"""The API page: signatures of the explorers, and HTML that readers of screens understand."""

from __future__ import annotations

import re
from typing import Any

import traitlets
from dnnl_rewrite import replace
from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

ENTRY = '<dl class="py '
PAREN = '<span class="sig-paren">(</span>\n\n'
PARAMETERS = re.compile(re.escape(PAREN) + "<dl>(.*?)</dl>", re.DOTALL)
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
    """Give an explorer the signature of its ``__init__``: autodoc reads traitlets' ``__new__``.

    A dataclass writes ``<factory>`` for some defaults, which Sphinx cannot read.
    """
    if args and "<factory>" in args:
        return args.replace("<factory>", "..."), returns
    if what != "class" or not issubclass(obj, traitlets.HasTraits):
        return None
    if not obj.__init__.__module__.startswith("dnnl."):
        return "(**traits)", ""
    own = signature(obj.__init__, bound_method=True)
    shown = stringify_signature(own, show_return_annotation=False, unqualified_typehints=True)
    return shown, ""


def rewrite(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Mend the lists of parameters; on a Chinese page, mark docstrings as English."""
    body = context.get("body") or ""
    if ENTRY not in body:
        return
    lists = body.count(PAREN + "<dl>")
    body = replace(body, PARAMETERS, lines, expect=max(lists, 1), where=page)
    for english, chinese in MARKS.items() if app.config.dnnl_edition == "zh" else ():
        body = replace(body, english, chinese, expect=max(body.count(english), 1), where=page)
    context["body"] = body


def lines(match: re.Match[str]) -> str:
    """Return parameters as plain lines: Sphinx writes a list of definitions without terms."""
    items = match[1].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'{PAREN}<div class="dnnl-parameters">{items}</div>'


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    for extension in ("sphinx.ext.autodoc", "sphinx.ext.napoleon"):
        app.setup_extension(extension)
    app.connect("autodoc-process-signature", sign)
    app.connect("html-page-context", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
