"""What a notebook stores of its widgets, and what the package makes of it."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import ipywidgets
import nbformat
import pytest
import torch
from ipywidgets.embed import dependency_state
from nbformat.v4 import new_code_cell, new_notebook, new_output

from dnnl import explorers
from dnnl.explorers import stored

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(ROOT.glob("chapters/*/*.ipynb"))
every_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def models(notebook: dict[str, Any]) -> dict[str, Any]:
    return notebook["metadata"]["widgets"][stored.STATE]["state"]


@every_notebook
def test_a_notebook_stores_traits_and_no_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'"_\w*(esm|css|weights|pixels|crops)"|addEventListener', text)
    assert "application/vnd.jupyter.widget" not in text
    for model in read(path)["metadata"].get(stored.WIDGETS, {}).values():
        assert "buffers" not in model
        assert not [name for name in model.get("traits", {}) if name.startswith("_")]


@every_notebook
def test_a_widget_is_a_picture_or_text_until_the_notebook_runs(path: Path) -> None:
    notebook = read(path)
    kept = notebook["metadata"].get(stored.WIDGETS, {})
    for output in stored._outputs(notebook):
        model_id = output.get("metadata", {}).get(stored.WIDGET)
        if model_id is not None:
            shown = "image/png" if "explorer" in kept[model_id] else "text/plain"
            assert shown in output["data"]


def test_notebooks_have_explorers() -> None:
    kept = [
        m for path in NOTEBOOKS for m in read(path)["metadata"].get(stored.WIDGETS, {}).values()
    ]
    names = {model["explorer"].rpartition(".")[2] for model in kept if "explorer" in model}
    assert names == set(explorers.__all__)


@every_notebook
def test_the_package_makes_the_whole_state_again(path: Path) -> None:
    kept = read(path)
    notebook = copy.deepcopy(kept)
    stored.restore(notebook)
    nbformat.validate(nbformat.from_dict(notebook))
    for model_id, model in kept["metadata"].get(stored.WIDGETS, {}).items():
        if "explorer" not in model:
            continue
        state = models(notebook)[model_id]["state"]
        kind = getattr(explorers, model["explorer"].rpartition(".")[2])
        assert state["_esm"] == str(kind._esm)
        assert model["traits"].items() <= state.items()
        assert model["traits"].keys() == {
            name
            for name in kind().trait_names(sync=True)
            if not name.startswith("_") and name not in ("layout", "tabbable", "tooltip", "own")
        }
    stored.strip(notebook)
    assert notebook == kept


def run(*widgets: Any) -> dict[str, Any]:
    """A notebook that shows widgets, as nbclient stores it."""
    outputs = []
    for widget in widgets:
        bundle = widget._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        outputs.append(new_output("display_data", data=data))
    state = dependency_state(list(widgets), drop_defaults=False)
    notebook = new_notebook(cells=[new_code_cell("…", outputs=outputs)])
    content = {"version_major": 2, "version_minor": 0, "state": state}
    notebook.metadata["widgets"] = {stored.STATE: content}
    return json.loads(nbformat.writes(notebook))


@pytest.mark.parametrize("name", explorers.__all__)
def test_an_explorer_is_the_same_after_it_was_stored(name: str) -> None:
    widget = getattr(explorers, name)()
    before = run(widget)
    notebook = copy.deepcopy(before)
    stored.strip(notebook)
    stored.restore(notebook)
    first, second = (models(one)[widget.model_id] for one in (before, notebook))
    for state in (first["state"], second["state"]):
        del state["layout"]  # a random id
    assert first == second
    assert stored._outputs(before)[0]["data"] == stored._outputs(notebook)[0]["data"]


def test_a_changed_explorer_and_its_linked_control_are_stored() -> None:
    widget = explorers.SimilarityMap(token=7, scale="own")
    slider = ipywidgets.IntSlider(7, max=196)
    ipywidgets.jslink((slider, "value"), (widget, "token"))
    notebook = run(slider, widget)
    stored.strip(notebook)
    kept = notebook["metadata"][stored.WIDGETS]
    assert kept[widget.model_id]["traits"]["token"] == 7
    assert kept[slider.model_id]["state"]["value"] == 7
    stored.restore(notebook)
    links = [m for m in models(notebook).values() if m["model_name"] == "LinkModel"]
    assert links[0]["state"]["target"] == [f"IPY_MODEL_{widget.model_id}", "token"]
    assert models(notebook)[widget.model_id]["state"]["scale"] == "own"


def test_an_image_of_the_readers_cannot_be_stored() -> None:
    widget = explorers.ClassAttention()
    widget.own = bytes(3 * 56 * 56)
    with pytest.raises(ValueError, match="'own' holds bytes"):
        stored.strip(run(widget))


def test_an_explorer_with_data_of_its_own_cannot_be_stored() -> None:
    for widget in (
        explorers.PatchGrid(torch.rand(3, 64, 64)),
        explorers.Resize("cat"),
        explorers.Pipeline(seed=1),
    ):
        with pytest.raises(ValueError, match="made with other data than the package's own"):
            stored.strip(run(widget))


def test_a_notebook_without_widgets_stays_as_it_is() -> None:
    notebook = json.loads(nbformat.writes(new_notebook(cells=[new_code_cell("1")])))
    before = copy.deepcopy(notebook)
    stored.strip(notebook)
    stored.restore(notebook)
    assert notebook == before
