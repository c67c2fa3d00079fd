"""The explorers in the notebooks are those of the package: their JavaScript is stored with them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(ROOT.glob("chapters/en/*.ipynb"))  # zh has the same code (test_editions)
STATE = "application/vnd.jupyter.widget-state+json"


def stored(path: Path) -> list[dict]:
    """Return the states of the explorers in a notebook."""
    metadata = nbformat.read(path, as_version=4).metadata
    models = metadata.get("widgets", {}).get(STATE, {}).get("state", {}).values()
    return [m["state"] for m in models if m["model_module"] == "anywidget"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_explorers_run_the_current_code(path: Path) -> None:
    for state in stored(path):
        module, _, name = state["_anywidget_id"].rpartition(".")
        explorer = getattr(import_module(module), name)
        for part in ("_esm", "_css"):
            assert state[part] == str(getattr(explorer, part)), (
                f"{name} has changed since `make execute` stored it in {path.name}: run it again"
            )


def test_notebooks_have_explorers() -> None:
    assert [path for path in NOTEBOOKS if stored(path)]
