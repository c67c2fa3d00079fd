"""The explorers on the book's pages: their state, reserved space for each, and a still picture.

A page that shows explorers gets one small script, ``assets/explorers.js``. If it also shows a stock
control of ipywidgets, ``assets/controls.js`` then loads the bundle that pip installed with
ipywidgets. Nothing comes from a CDN.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import os
import re
import shutil
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ASSETS = Path(__file__).parent / "assets"
FOLDER = "explorers"  # below the built _static
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
VIEW_TAG = re.compile(rf'<script type="{re.escape(VIEW)}">(.*?)</script>', re.DOTALL)

# Traits that a front end with a kernel needs, but an explorer on a page does not.
UNUSED = re.compile(r"_(model|view)_.*|_anywidget_id|_dom_classes|layout|tabbable|tooltip")

# Without JavaScript the still picture replaces the explorer.
NOSCRIPT = (
    "<noscript><style>.dnnl-still { display: block !important; }"
    " .dnnl-slot { min-height: 0 !important; }</style></noscript>"
)


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


def outputs(path: Path) -> dict[str, tuple[str, str]]:
    """Return the picture and the alternative text of each widget in a notebook, by model id."""
    found = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VIEW in data and "image/png" in data:
                found[data[VIEW]["model_id"]] = ("".join(data["image/png"]), alt)
    return found


def slot(script: str, model: dict[str, Any], image: str) -> str:
    """Return a view's script and its picture in a box that has the height of the explorer."""
    narrow, wide = model["state"].get("_room", (0, 0))
    style = f"--dnnl-room: {wide}px; --dnnl-room-narrow: {narrow}px"
    return f'<div class="dnnl-slot" style="{style}">{script}{image}</div>'


def share(explorers: dict[str, Any]) -> dict[str, str]:
    """Remove the common beginning of the explorers' scripts and styles, and return it."""
    shared = {}
    for key in ("_esm", "_css"):
        texts = [model["state"].get(key, "") for model in explorers.values()]
        shared[key] = os.path.commonprefix(texts)
        for model, text in zip(explorers.values(), texts, strict=True):
            model["state"][key] = text[len(shared[key]) :]
    return shared


def show(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the state and the loader to a page that has explorers."""
    models = take_state(context)
    body = context.get("body") or ""
    if not VIEW_TAG.search(body):
        return
    pictures = outputs(Path(app.env.doc2path(page)))

    def place(match: re.Match[str]) -> str:
        model_id = json.loads(match[1])["model_id"]
        model = models[model_id]
        if model["model_module"] != "anywidget":
            return match[0]
        png, alt = pictures[model_id]
        file = f"_images/still-{model_id}.png"
        target = Path(app.outdir, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(png))
        source = context["pathto"](file, resource=True)
        return slot(
            match[0],
            model,
            f'<img class="dnnl-still" src="{escape(source)}" alt="{escape(alt)}" loading="lazy">',
        )

    body = VIEW_TAG.sub(place, body)
    explorers = {i: m for i, m in models.items() if m["model_module"] == "anywidget"}
    for model in explorers.values():
        state = model["state"]
        model["state"] = {key: state[key] for key in state if not UNUSED.fullmatch(key)}
    # Every widget has a LayoutModel; explorers do not use it.
    others = {model["model_name"] for i, model in models.items() if i not in explorers}
    stock = bool(others - {"LayoutModel"})
    content = {"shared": share(explorers), "state": models if stock else explorers}
    state = json.dumps(content, separators=(",", ":")).replace("</", r"<\/")
    context["body"] = f'{body}\n<script type="{STATE}">{state}</script>\n'
    # The loader is inline and above the style sheet, so that it does not wait for a file.
    loader = (ASSETS / "explorers.js").read_text(encoding="utf-8")
    context["metatags"] = f"{context.get('metatags') or ''}{NOSCRIPT}\n<script>{loader}</script>"
    if stock:
        source = context["pathto"](f"_static/{FOLDER}/controls.js", resource=True)
        context["metatags"] += f'\n<script defer src="{source}"></script>'


def copy(static: Path) -> None:
    """Copy the script and the bundle of stock controls into the built ``_static``."""
    target = static / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ASSETS / "controls.js", target / "controls.js")
    bundle = "widgetsnbextension/static/extension.js"
    for file in importlib.metadata.files("widgetsnbextension") or []:
        if file.as_posix() == bundle:
            text = Path(str(file.locate())).read_text(encoding="utf-8")
            text = re.sub(r"\n//# sourceMappingURL=\S+\s*$", "\n", text)
            (target / "ipywidgets.js").write_text(text, encoding="utf-8")
            return
    raise FileNotFoundError(f"The package widgetsnbextension does not contain {bundle}.")
