"""anywidgets in a Sphinx book: they work on its pages without a kernel, RequireJS or a network.

Pages come from notebooks by way of MyST-NB, which stores the state of their widgets in the page.
This extension shows them with one small script, ``assets/loader.js``. What is large (modules,
binary values) goes into files with a hash in their name, which pages share; a widget with large
values is fetched when the reader comes near. If a page also shows a stock control of ipywidgets,
``assets/controls.js`` loads the bundle that pip installed with ipywidgets. The README says more.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
import struct
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

__version__ = "0.1.0"

ASSETS = Path(__file__).parent / "assets"
FOLDER = "_static/anywidget"
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
VIEW_TAG = re.compile(rf'<script type="{re.escape(VIEW)}">(.*?)</script>', re.DOTALL)

#: A value of more characters goes into a file, which pages share; its widget is fetched when the
#: reader comes near.
LARGE = 30_000

# Traits that a front end with a kernel needs, but a page does not.
UNUSED = re.compile(r"_(model|view)_.*|_anywidget_id|_css|_dom_classes|layout|tabbable|tooltip")


class Module(NamedTuple):
    """What a handler of ``anywidget-module`` returns: a widget's module in files of its own.

    Attributes:
        name: the key under which the script finds its place.
        script: a classic script that sets ``globalThis.anywidgetModules[name]`` to what the
            widget's ES module exports by default.
        styles: style sheets, in place of the widget's ``_css``.
    """

    name: str
    script: Path
    styles: tuple[Path, ...] = ()


def configure(app: Sphinx, config: Config) -> None:
    """Leave out MyST-NB's scripts for widgets, which come from a CDN."""
    config.nb_ipywidgets_js = {}


def remember_pictures(app: Sphinx, docname: str, content: list[str]) -> None:
    """Remember the picture and the alternative text of each widget of a notebook."""
    pictures = _pictures(app.env)
    pictures.pop(docname, None)
    if VIEW not in content[0] or not app.env.doc2path(docname).endswith(".ipynb"):
        return
    for cell in json.loads(content[0])["cells"]:
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VIEW in data and "image/png" in data:
                png = "".join(data["image/png"])
                pictures.setdefault(docname, {})[data[VIEW]["model_id"]] = (png, alt)


def _pictures(env: BuildEnvironment) -> dict[str, dict[str, tuple[str, str]]]:
    """Return page → model id → (PNG in base64, alternative text)."""
    if not hasattr(env, "anywidget_pictures"):
        env.anywidget_pictures = {}  # type: ignore[attr-defined]
    found: dict[str, dict[str, tuple[str, str]]] = env.anywidget_pictures  # type: ignore[attr-defined]
    return found


def merge(app: Sphinx, env: BuildEnvironment, names: set[str], other: BuildEnvironment) -> None:
    """Take over the pictures that another process has read."""
    found = _pictures(other)
    _pictures(env).update({name: found[name] for name in names if name in found})


def take_state(context: dict[str, Any]) -> dict[str, Any]:
    """Remove the widgets' state from the head, where it delays the page; return the models."""
    models: dict[str, Any] = {}
    kept = []
    for file in context.get("script_files") or []:
        attributes = getattr(file, "attributes", {})
        if attributes.get("type") == STATE:
            models |= json.loads(attributes["body"])["state"]
        else:
            kept.append(file)
    context["script_files"] = kept
    return models


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:10]


class Files:
    """The files of a page, in the site's folder :data:`FOLDER`."""

    def __init__(self, app: Sphinx) -> None:
        self.folder = Path(app.outdir, FOLDER)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, stem: str, ending: str, content: bytes) -> str:
        """Write a file; return its name, which contains a hash of the content."""
        name = f"{stem}-{_hash(content)}{ending}"
        (self.folder / name).write_bytes(content)
        return name

    def copy(self, path: Path, stem: str | None = None) -> str:
        """Copy a file; return its name."""
        return self.write(stem or path.stem, path.suffix, path.read_bytes())

    def value(self, text: str) -> tuple[str, str]:
        """Write a script that defines a value; return its key and its name."""
        key = _hash(text.encode())
        script = f"(globalThis.anywidgetValues ??= {{}})[{json.dumps(key)}] = {json.dumps(text)};\n"
        return key, self.write("value", ".js", script.encode())

    def controls(self) -> str:
        """Copy the script and the bundle of stock controls; return the name of the script."""
        bundle = "widgetsnbextension/static/extension.js"
        try:
            installed = importlib.metadata.files("widgetsnbextension") or []
        except importlib.metadata.PackageNotFoundError:
            installed = []
        for file in installed:
            if file.as_posix() == bundle:
                text = Path(str(file.locate())).read_text(encoding="utf-8")
                text = re.sub(r"\n//# sourceMappingURL=\S+\s*$", "\n", text)
                (self.folder / "ipywidgets.js").write_text(text, encoding="utf-8")
                return self.copy(ASSETS / "controls.js")
        raise ExtensionError(
            "A page shows a control of ipywidgets, whose script is in the package "
            f"widgetsnbextension, but {bundle} is not installed: pip install widgetsnbextension."
        )


def _strings(value: Any, path: list[str | int]) -> Iterator[tuple[list[str | int], str]]:
    """Yield the large strings in a state, and where they are."""
    if isinstance(value, str) and len(value) > LARGE:
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _strings(one, [*path, key])
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _strings(one, [*path, i])


def _set(state: Any, path: list[str | int], value: Any) -> None:
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value


def page_model(model: dict[str, Any], module: Module | None, files: Files) -> dict[str, Any]:
    """Return a widget's model as a page holds it: small values, and the files of others."""
    state = {key: value for key, value in model["state"].items() if not UNUSED.fullmatch(key)}
    script = state.pop("_esm", "")
    page: dict[str, Any] = {"model_module": model["model_module"], "state": state}
    found = [(path, text, False) for path, text in _strings(state, [])]
    small = []
    for buffer in model.get("buffers", []):
        if len(buffer["data"]) > LARGE:
            found.append((buffer["path"], buffer["data"], True))
        else:
            small.append({"path": buffer["path"], "data": buffer["data"]})
    if small:
        page["buffers"] = small
    page["large"] = bool(found)
    if module:
        page["module"] = {"name": module.name, "file": files.copy(module.script)}
    else:
        found.append((["_esm"], script, False))
    for path, text, binary in found:
        key, file = files.value(text)
        _set(state, path, None)
        entry = {"path": path, "key": key, "file": file}
        page.setdefault("files", []).append({**entry, "binary": True} if binary else entry)
    return page


def show(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the state, the scripts and the style sheets to a page that has widgets."""
    models = take_state(context)
    body = context.get("body") or ""
    shown = [json.loads(match[1])["model_id"] for match in VIEW_TAG.finditer(body)]
    if not shown:
        return
    if missing := [model_id for model_id in shown if model_id not in models]:
        raise ExtensionError(
            f"The page {page} shows the widgets {missing}, but the notebook does not store their "
            "state. Execute it with store_widget_state=True."
        )
    files = Files(app)
    pictures = _pictures(app.env).get(page, {})
    anywidgets = {i: m for i, m in models.items() if m["model_module"] == "anywidget"}

    def place(match: re.Match[str]) -> str:
        """Put a view into a box that keeps its height free, with its picture."""
        model_id = json.loads(match[1])["model_id"]
        if model_id not in anywidgets:
            return match[0]
        narrow, wide = anywidgets[model_id]["state"].get("_room") or (0, 0)
        style = f"--anywidget-room: {wide}px; --anywidget-room-narrow: {narrow}px"
        return f'<div class="anywidget-slot" style="{style}">{match[0]}{still(model_id)}</div>'

    def still(model_id: str) -> str:
        if model_id not in pictures:
            return ""
        png, alt = pictures[model_id]
        file = f"_images/still-{model_id}.png"
        target = Path(app.outdir, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = base64.b64decode(png)
        target.write_bytes(content)
        width, height = struct.unpack(">II", content[16:24])  # of a PNG
        source = escape(context["pathto"](file, resource=True))
        return (
            f'<img class="anywidget-still" src="{source}" alt="{escape(alt)}" width="{width}"'
            f' height="{height}" loading="lazy">'
        )

    body = VIEW_TAG.sub(place, body)
    scripts, styles = [files.copy(ASSETS / "loader.js")], [files.copy(ASSETS / "anywidget.css")]
    content: dict[str, Any] = {}
    for model_id, model in anywidgets.items():
        module = app.emit_firstresult("anywidget-module", model["state"].get("_anywidget_id", ""))
        content[model_id] = page_model(model, module, files)
        if module:
            styles += [files.copy(path) for path in module.styles]
        elif css := model["state"].get("_css"):
            styles.append(files.write("widget", ".css", css.encode()))
        if not content[model_id]["large"]:  # fetched with the page
            scripts += [file["file"] for file in content[model_id].get("files", [])]
            scripts += [module["file"]] if (module := content[model_id].get("module")) else []
    # Every widget has a LayoutModel; anywidgets do not use it.
    others = {i: model for i, model in models.items() if i not in anywidgets}
    stock = any(model["model_name"] != "LayoutModel" for model in others.values())
    if stock:
        content |= others
    page_state = {"state": content, **({"controls": files.controls()} if stock else {})}
    state = json.dumps(page_state, separators=(",", ":")).replace("</", r"<\/")
    context["body"] = f'{body}\n<script type="{STATE}">{state}</script>\n'

    def url(name: str) -> str:
        return escape(context["pathto"](f"{FOLDER}/{name}", resource=True))

    tags = [f'<link rel="stylesheet" href="{url(name)}" />' for name in dict.fromkeys(styles)]
    tags += [f'<script async src="{url(name)}"></script>' for name in dict.fromkeys(scripts)]
    tags.append(
        "<noscript><style>.anywidget-still { display: block !important; }"
        " .anywidget-slot { min-height: 0 !important; }</style></noscript>"
    )
    context["metatags"] = "\n".join([context.get("metatags") or "", *tags])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    app.setup_extension("myst_nb")
    app.add_event("anywidget-module")
    app.connect("config-inited", configure)
    app.connect("source-read", remember_pictures, priority=900)  # after others have changed it
    app.connect("env-merge-info", merge)
    app.connect("html-page-context", show, priority=910)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
