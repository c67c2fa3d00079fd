"""How a notebook stores its widgets: the traits of explorers, and nothing that the package has.

After a run, a notebook holds the whole state of each widget: an explorer's JavaScript, its style
sheet, the model's weights. :func:`strip` leaves the public traits, from which :func:`restore` makes
the whole state again (``make execute`` calls the one, the book's build the other). A stripped
notebook has pictures where it had widgets, so GitHub, Colab and VS Code show the pictures until it
is run.

Both functions change the notebook in place. It is a ``dict``, as ``json.load`` returns it.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from ipywidgets.embed import dependency_state

from dnnl.explorers.base import VIEW, Explorer

STATE = "application/vnd.jupyter.widget-state+json"
#: The key in the metadata of a notebook: model id → what is stored of the widget.
WIDGETS = "stored_widgets"
#: The key in the metadata of an output: the id of the widget that it shows.
WIDGET = "widget"


def _outputs(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [output for cell in cells for output in cell["outputs"] if "data" in output]


def _class(name: str) -> type[Explorer]:
    module, _, kind = name.rpartition(".")
    found: type[Explorer] = getattr(importlib.import_module(module), kind)
    return found


def public(traits: dict[str, Any]) -> dict[str, Any]:
    """Return the traits of an explorer's state that its constructor takes."""
    inherited = Explorer.class_traits().keys() - {"lang"}
    return {k: v for k, v in traits.items() if not k.startswith("_") and k not in inherited}


def _whole(name: str, traits: dict[str, Any]) -> dict[str, Any]:
    """Return the whole model of an explorer that has some traits, as a notebook stores it."""
    widget = _class(name)(**traits)
    model = dependency_state([widget], drop_defaults=False)[widget.model_id]
    widget.close()
    whole: dict[str, Any] = json.loads(json.dumps(model))
    return whole


def _without_layout(model: dict[str, Any]) -> dict[str, Any]:
    return {**model, "state": {k: v for k, v in model["state"].items() if k != "layout"}}


def strip(notebook: dict[str, Any]) -> None:
    """Store only the traits of a notebook's explorers.

    Raises:
        ValueError: if an explorer cannot be made again from its public traits: one holds bytes,
            or it shows an image or a model of the notebook's own.
    """
    models = notebook["metadata"].pop("widgets", {}).get(STATE, {}).get("state", {})
    if not models:
        return
    stored: dict[str, Any] = {}
    layouts = set()
    for model_id, model in models.items():
        state = model["state"]
        if "_anywidget_id" not in state:
            stored[model_id] = model
            continue
        traits = public(state)
        for buffer in model.get("buffers", []):
            path = buffer["path"]
            if buffer["data"] and not path[0].startswith("_"):
                raise ValueError(
                    f"Expected traits of {state['_anywidget_id']} that JSON can store, but "
                    f"{path[0]!r} holds bytes."
                )
        if _without_layout(_whole(state["_anywidget_id"], traits)) != _without_layout(model):
            raise ValueError(
                f"Expected a {state['_anywidget_id']} that its traits make again, but it was made "
                "with other data than the package's own: show it in a notebook that is not stored."
            )
        layouts.add(state["layout"].removeprefix("IPY_MODEL_"))
        stored[model_id] = {"explorer": state["_anywidget_id"], "traits": traits}
    for layout in layouts:  # an explorer has a layout like every widget, and does not use it
        stored.pop(layout, None)
    notebook["metadata"][WIDGETS] = stored
    for output in _outputs(notebook):
        view = output["data"].pop(VIEW, None)
        if view is not None:
            output["metadata"] = {WIDGET: view["model_id"]}


def restore(notebook: dict[str, Any]) -> None:
    """Bring back the whole state of a stripped notebook's widgets."""
    stored = notebook["metadata"].pop(WIDGETS, None)
    if not stored:
        return
    models: dict[str, Any] = {}
    for model_id, model in stored.items():
        if "explorer" in model:
            models[model_id] = _whole(model["explorer"], model["traits"])
        else:
            models[model_id] = model
    content = {"version_major": 2, "version_minor": 0, "state": models}
    notebook["metadata"]["widgets"] = {STATE: content}
    for output in _outputs(notebook):
        model_id = output["metadata"].pop(WIDGET, None)
        if model_id is not None:
            output["data"][VIEW] = {
                "model_id": model_id,
                "version_major": 2,
                "version_minor": 0,
            }
