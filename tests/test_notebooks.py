"""What must be true of the notebooks as files, and of the checks that run them again."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml
from nbformat import NotebookNode
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(ROOT.glob("chapters/*/*.ipynb"))
# The Chinese notebooks have the code and the outputs of the English ones, byte for byte, which
# test_editions.py makes sure of. So what is true of code and outputs is tested once.
ENGLISH = [path for path in NOTEBOOKS if path.parent.name == "en"]
PNG_LIMIT = 120_000


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
every_run = pytest.mark.parametrize("path", ENGLISH, ids=name)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code(nb: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def texts(cell: NotebookNode) -> list[str]:
    """What a cell shows as text: streams, and every textual form of its results."""
    found = []
    for out in cell.outputs:
        if out.output_type == "stream":
            found.append(out.text)
        for kind, data in out.get("data", {}).items():
            if not kind.startswith("image/") and isinstance(data, str):
                found.append(data)
    return found


def pngs(cell: NotebookNode) -> list[bytes]:
    data = [out.data["image/png"] for out in cell.outputs if "image/png" in out.get("data", {})]
    return [base64.b64decode(png) for png in data]


# ---- the files ---------------------------------------------------------------------------------


def test_the_table_of_contents_names_exactly_the_notebooks() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    named = [toc["root"], *(entry["file"] for entry in toc["chapters"])]
    there = [path.relative_to(ROOT).with_suffix("").as_posix() for path in ENGLISH]
    assert sorted(named) == sorted([*there, "chapters/en/api", "chapters/en/glossary"])


@every_notebook
def test_a_notebook_is_valid_and_plain(path: Path) -> None:
    nb = read(path)
    nbformat.validate(nb)
    assert nb.metadata.kernelspec.name == "python3"
    assert "version" not in nb.metadata.language_info, "it differs between two machines"
    ids = [cell.id for cell in nb.cells]
    assert len(set(ids)) == len(ids)
    assert path.read_text(encoding="utf-8") == nbformat.writes(nb) + "\n", "run `make execute`"


@every_run
def test_every_cell_was_executed_once_and_in_order(path: Path) -> None:
    cells = code(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert cell.source.strip(), "an empty cell"
        for out in cell.outputs:
            assert out.get("execution_count", cell.execution_count) == cell.execution_count


@every_run
def test_no_output_escapes_the_comparison(path: Path) -> None:
    marker = re.compile(r"^\s*#\s*(NBVAL_|PYTEST_VALIDATE)", re.MULTILINE)
    for cell in code(read(path)):
        assert not marker.search(cell.source)
        tags = cell.metadata.get("tags", [])
        assert not [t for t in tags if t.startswith("nbval-") or t == "raises-exception"]
        # The id of the widget that an output shows is the only one.
        found = [out.get("metadata") or {} for out in cell.outputs]
        assert not [one for one in found if one.keys() - {"widget"}], "nbval ignores metadata"


@every_run
def test_outputs_show_no_error_and_no_warning(path: Path) -> None:
    for cell in code(read(path)):
        for out in cell.outputs:
            assert out.output_type != "error"
            assert out.get("name") != "stderr", out.text


@every_run
def test_outputs_show_nothing_that_varies(path: Path) -> None:
    varying = {
        "an address": r"0x[0-9a-fA-F]{6,}",
        "a device": r"\bcuda(:\d+)?\b|\bmps:\d|device\(type=",
        "a time": r"\b\d+(\.\d+)?\s*(ns|µs|us|ms|s|sec|seconds|minutes)\b|it/s\b",
        "a path": r"(/home|/root|/tmp|/usr|/content|site-packages)/|[A-Z]:\\",
        "the repr of a figure": r"<Figure|<Axes|matplotlib\.\w+",
    }
    for cell in code(read(path)):
        for out in cell.outputs:
            drawn = out.output_type == "display_data" and "image/png" in out.data
            for text in texts(NotebookNode(outputs=[out])):
                if drawn and re.fullmatch(r"<Figure size \d+x\d+ with \d+ Axes>", text):
                    continue  # the text beside a picture, by plt.show()
                for what, pattern in varying.items():
                    assert not re.search(pattern, text), f"{what} in {text!r}"


def test_the_first_cell_is_the_same_everywhere_and_not_on_the_page() -> None:
    first = {name(path): code(read(path))[0] for path in NOTEBOOKS}
    assert len({cell.source for cell in first.values()}) == 1
    for cell in first.values():
        assert "remove-cell" in cell.metadata.get("tags", [])
        assert not cell.outputs


@every_notebook
def test_every_figure_has_a_conclusion_as_its_alternative_text(path: Path) -> None:
    for cell in code(read(path)):
        pictures = [
            out for out in cell.outputs if any(k.startswith("image/") for k in out.get("data", {}))
        ]
        if not pictures:
            continue
        assert len(pictures) == 1, "one figure a cell: its alternative text stands on the cell"
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        if path.parent.name == "zh":
            assert len(re.findall("[\u4e00-\u9fff]", alt)) >= 8, f"alternative text: {alt!r}"
        else:
            assert len(alt) >= 20 and " " in alt.strip(), f"alternative text: {alt!r}"
            assert alt[0].isupper() or not alt[0].isalpha(), f"a sentence: {alt!r}"
        assert alt.rstrip()[-1] in ".!?。！？", f"a sentence: {alt!r}"


@every_run
def test_figures_are_small_and_whole(path: Path) -> None:
    for cell in code(read(path)):
        for png in pngs(cell):
            assert len(png) <= PNG_LIMIT
            with Image.open(io.BytesIO(png)) as image:
                image.verify()  # every checksum: a picture that was edited by hand does not pass


@every_notebook
def test_headings_make_an_outline(path: Path) -> None:
    levels = []
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"^(```|:::|~~~).*?^\1", "", cell.source, flags=re.MULTILINE | re.DOTALL)
            levels += [len(marks) for marks in re.findall(r"^(#{1,6}) ", prose, re.MULTILINE)]
    assert levels[:1] == [1] and levels.count(1) == 1, "one title, at the top"
    for above, below in zip(levels, levels[1:], strict=False):
        assert below <= above + 1, f"a heading of level {below} below one of level {above}"


# ---- the checks: a stored output that is not what the code shows must fail -----------------------


def small_book(folder: Path) -> Path:
    """Put what governs a run of nbval into ``folder``: settings, plugin, sanitizer."""
    for name in ("conftest.py", "pyproject.toml", "tests/sanitize.cfg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def failing_cells(notebook: Path) -> dict[int, str]:
    """Run nbval on one notebook, as a reader would; return the cells that fail and why."""
    report = notebook.with_suffix(".xml")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", notebook.name, f"--junitxml={report}"],
        cwd=notebook.parent,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DNNL_DEVICE": "cpu", "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = {}
    for number, case in enumerate(ET.parse(report).iter("testcase")):
        assert case.find("skipped") is None
        if (failure := case.find("failure")) is not None:
            found[number] = failure.text or ""
    return found


def change_digit(text: str) -> str:
    """Change the last digit of ``text``."""
    return re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), text)


def smudge(png: str) -> str:
    """Change a few pixels of a picture: as many as another digit in a label would."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        pixels = np.array(image.convert("RGBA"))
    pixels[20:29, 20:26] = 255 - pixels[20:29, 20:26]
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def first(
    cells: list[NotebookNode], taken: set[int], wanted: Callable[[NotebookNode], bool]
) -> NotebookNode:
    """Take the first cell that is ``wanted`` and not yet taken, and note its number."""
    number = next(i for i, cell in enumerate(cells) if i not in taken and wanted(cell))
    taken.add(number)
    return cells[number]


def prints_a_digit(cell: NotebookNode) -> bool:
    return [out.output_type for out in cell.outputs] == ["stream"] and bool(
        re.search(r"\d", cell.outputs[0].text)
    )


def draws(cell: NotebookNode) -> bool:
    return len(cell.outputs) == 1 and bool(pngs(cell))


@pytest.mark.release
def test_a_tampered_output_fails_and_no_other(tmp_path: Path) -> None:
    """Tamper with a copy of a notebook in five ways at once: exactly these five cells fail."""
    for path in ENGLISH:
        cells = code(read(path))
        if sum(map(prints_a_digit, cells)) >= 3 and sum(map(draws, cells)) >= 2:
            break
    else:
        pytest.fail("no notebook has three cells that print digits and two that draw")
    nb, taken = read(path), set()
    cells = code(nb)

    first(cells, taken, prints_a_digit).outputs = []
    changed = first(cells, taken, prints_a_digit).outputs[0]
    changed.text = change_digit(changed.text)
    first(cells, taken, prints_a_digit).update(execution_count=None, outputs=[])
    first(cells, taken, draws).outputs = []
    picture = first(cells, taken, draws).outputs[0].data
    picture["image/png"] = smudge(picture["image/png"])

    copy = small_book(tmp_path) / path.name
    nbformat.write(nb, copy)
    failures = failing_cells(copy)
    assert sorted(failures) == sorted(taken), failures


@every_run
def test_the_comparison_sees_every_output(path: Path, request: pytest.FixtureRequest) -> None:
    """Compare each cell's outputs with themselves less one, or with one digit or spot changed.

    No code runs here: the stored outputs stand for what the kernel would show.
    """
    from nbval.plugin import IPyNbFile, get_sanitize_patterns

    strict = request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    file = IPyNbFile.from_parent(request.session, path=path)
    sanitizer = (ROOT / "tests" / "sanitize.cfg").read_text(encoding="utf-8")
    file.sanitize_patterns.update(get_sanitize_patterns(sanitizer))
    for cell in file.collect():
        strict.make_strict(cell)
        cell.format_output_compare = lambda *_: None  # the report of a difference, not needed
        shown = cell.cell.outputs
        assert cell.compare_outputs(shown, shown)
        for number, out in enumerate(shown):
            where = f"cell {cell.cell_num}, output {number}"
            assert not cell.compare_outputs(shown, [*shown[:number], *shown[number + 1 :]]), where
            for changed in changes(out):
                stored = [*shown[:number], changed, *shown[number + 1 :]]
                assert not cell.compare_outputs(shown, stored), where


def changes(out: NotebookNode) -> Iterator[NotebookNode]:
    """Yield copies of an output, each with one thing changed that a reader could see."""
    if out.output_type == "stream" and re.search(r"\d", out.text):
        yield NotebookNode(out, text=change_digit(out.text))
    for kind, value in out.get("data", {}).items():
        if kind == "image/png":
            yield NotebookNode(out, data=NotebookNode(out.data, **{kind: smudge(value)}))
        elif isinstance(value, str) and re.search(r"\d", value):
            yield NotebookNode(out, data=NotebookNode(out.data, **{kind: change_digit(value)}))


def test_two_runs_give_the_same_bytes_whatever_the_ids_of_widgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids are random, and a written notebook sorts by them; the order of making counts."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import execute

    cell = nbformat.v4.new_code_cell(
        "import ipywidgets\nbox = ipywidgets.HBox([ipywidgets.Label(c) for c in 'abcdef'])\nbox"
    )
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    first, second = execute.execute(path), execute.execute(path)
    assert first == second
    assert first.count('"model_name": "LabelModel"') == 6
