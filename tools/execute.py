"""Execute the book's notebooks in fresh kernels and store their outputs.

    python tools/execute.py [--check] [NOTEBOOK ...]        (no name: every notebook of the book)

Two runs give the same bytes: times are not recorded, metadata is reduced to what Jupyter needs, the
random ids of widget models are replaced by numbers, and of the explorers only the traits are stored
(``dnnl.explorers.stored``). A notebook is written only if every cell
ran without stderr output, the result is valid, and its content changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from dnnl.explorers import stored

ROOT = Path(__file__).resolve().parent.parent
CELL_TIMEOUT = 120
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

# What Jupyter needs to open the page, without versions that differ between machines.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


class StderrError(Exception):
    """A cell wrote to stderr, for example a warning."""


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join consecutive outputs of one stream: where the kernel splits them depends on timing."""
    merged: list[NotebookNode] = []
    for out in outputs:
        last = merged[-1] if merged else None
        if last and out.output_type == last.output_type == "stream" and out.name == last.name:
            last.text += out.text
        else:
            merged.append(out)
    return merged


def renumber_widgets(nb: NotebookNode, name: str) -> str:
    """Return a notebook's text with the random ids of widget models replaced by numbers.

    Models are numbered in the order in which the kernel created them. The client keeps that order;
    a written notebook is sorted by id.
    """
    text = nbformat.writes(nb)
    state = nb.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    for number, model_id in enumerate(state):
        text = text.replace(model_id, f"{zlib.crc32(name.encode()):08x}{number:024x}")
    return text


def execute(path: Path) -> str:
    """Return the text of the notebook at ``path`` after a run in a fresh kernel."""
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        for transient in ("collapsed", "execution", "ExecuteTime", "scrolled"):
            cell.metadata.pop(transient, None)
    nb.metadata = nbformat.from_dict(METADATA)
    NotebookClient(
        nb,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    widgets = nb.metadata.get("widgets")
    nb.metadata = nbformat.from_dict(METADATA)  # the client has added the version of Python
    if widgets and widgets.get(WIDGET_STATE, {}).get("state"):
        nb.metadata["widgets"] = widgets
    for number, cell in enumerate(nb.cells):
        if cell.cell_type != "code":
            continue
        cell.outputs = merge_streams(cell.outputs)
        for out in cell.outputs:
            # With this hint of matplotlib, Jupyter puts a light background behind a figure; the
            # book's figures are legible on white and on black.
            out.get("metadata", {}).pop("needs_background", None)
            if out.output_type == "stream" and out.name == "stderr":
                raise StderrError(f"cell {number} of {path.name} wrote to stderr:\n{out.text}")
    stripped = json.loads(renumber_widgets(nb, path.stem))
    stored.strip(stripped)
    done = nbformat.from_dict(stripped)
    nbformat.validate(done)
    return nbformat.writes(done) + "\n"


def store(path: Path, text: str) -> bool:
    """Write ``text`` in one step, if it is new; say whether it was."""
    if path.read_text(encoding="utf-8") == text:
        return False
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)
    return True


def main() -> int:
    os.environ["HF_HUB_OFFLINE"] = "1"  # for the kernels: stored outputs do not depend on a network
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a change")
    args = parser.parse_args()
    paths = [p.resolve() for p in args.notebooks] or sorted(ROOT.glob("chapters/en/*.ipynb"))
    if not paths:
        parser.error("chapters/en/ does not contain any notebooks")
    # Stored outputs come from the CPU; each of the two kernels uses one core.
    os.environ["DNNL_DEVICE"] = "cpu"
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    def run(path: Path) -> str | Exception:
        try:
            return execute(path)
        except (CellExecutionError, CellTimeoutError, DeadKernelError, StderrError) as error:
            return error

    failures = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for path, result in zip(paths, pool.map(run, paths), strict=True):
            if isinstance(result, Exception):
                failures += 1
                print(f"{path.name}: FAILED, not changed\n{result}", file=sys.stderr)
            elif args.check:
                changed = path.read_text(encoding="utf-8") != result
                failures += changed
                print(f"{path.name}: {'would change' if changed else 'unchanged'}")
            else:
                print(f"{path.name}: {'stored' if store(path, result) else 'unchanged'}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
