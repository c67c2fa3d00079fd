"""What the extension writes, and what stops the build."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from example_book import EXAMPLE, build

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
# A PNG of one pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJg"
    "gg=="
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the example book, to be changed."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "source"))


def state(page: Path) -> dict:
    """The state in a page, by model id."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf'<script type="{re.escape(STATE)}">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])["state"]


def edit(path: Path, change) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_a_page_holds_small_values_and_names_the_files_of_others(book: Path) -> None:
    counter, strip = sorted(state(book / "index.html").values(), key=lambda m: m["large"])
    assert counter["state"]["value"] == 41 and not counter["large"]
    assert strip["large"]
    for model in (counter, strip):
        assert model["state"]["_esm"] is None
        for file in model["files"]:
            text = (book / "_static" / "anywidget" / file["file"]).read_text(encoding="utf-8")
            assert json.dumps(file["key"]) in text
    unused = {"layout", "_model_module", "_view_name", "_anywidget_id", "_css"}
    assert not unused & counter["state"].keys()


def test_two_pages_share_files_and_a_second_build_writes_the_same(book: Path, tmp_path) -> None:
    assert build(EXAMPLE, tmp_path / "again").returncode == 0
    names = [
        sorted(path.name for path in (site / "_static" / "anywidget").iterdir())
        for site in (book, tmp_path / "again")
    ]
    assert names[0] == names[1]


def test_a_widget_whose_state_is_not_stored_stops_the_build(copy: Path, tmp_path: Path) -> None:
    edit(copy / "index.ipynb", lambda notebook: notebook["metadata"].pop("widgets"))
    done = build(copy, tmp_path / "out")
    assert done.returncode
    assert "store_widget_state=True" in done.stderr and "index" in done.stderr


def test_a_picture_stands_in_without_scripts_and_on_paper(copy: Path, tmp_path, chromium) -> None:
    def draw(notebook: dict) -> None:
        for cell in notebook["cells"]:
            for output in cell.get("outputs", []):
                if VIEW in output.get("data", {}):
                    output["data"]["image/png"] = PIXEL
                    cell["metadata"]["mystnb"] = {"image": {"alt": "a pixel"}}

    edit(copy / "index.ipynb", draw)
    done = build(copy, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    page = chromium.new_page(java_script_enabled=False)
    page.goto((tmp_path / "out" / "index.html").as_uri())
    assert page.get_by_alt_text("a pixel").count() == 2
    assert all(one.is_visible() for one in page.get_by_alt_text("a pixel").all())
    page.close()
    page = chromium.new_page()
    page.goto((tmp_path / "out" / "index.html").as_uri())
    page.get_by_role("button", name="count").wait_for()
    page.add_style_tag(content=".document .body img { display: block; }")  # as a theme may have it
    assert not page.get_by_alt_text("a pixel").first.is_visible()
    page.emulate_media(media="print")
    assert page.get_by_alt_text("a pixel").first.is_visible()
    assert not page.get_by_role("button", name="count").is_visible()
    page.close()


def test_a_handler_gives_a_widget_a_script_and_styles(copy: Path, tmp_path, chromium) -> None:
    (copy / "counter.js").write_text(
        '(globalThis.anywidgetModules ??= {}).counter = { render({ el }) { el.append("mine"); } };'
    )
    (copy / "counter.css").write_text(".mine { color: red; }")
    with (copy / "conf.py").open("a") as conf:
        conf.write(
            """
from pathlib import Path
from sphinx_anywidget import Module

HERE = Path(__file__).parent


def module(app, anywidget_id):
    if anywidget_id.endswith(".Counter"):
        return Module("counter", HERE / "counter.js", (HERE / "counter.css",))


def setup(app):
    app.connect("anywidget-module", module)
"""
        )
    done = build(copy, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    models = state(tmp_path / "out" / "index.html").values()
    counter = next(model for model in models if "module" in model)
    assert "_esm" not in counter["state"] and "files" not in counter
    page = chromium.new_page()
    page.goto((tmp_path / "out" / "index.html").as_uri())
    page.get_by_text("mine", exact=True).wait_for()
    sheets = page.evaluate("[...document.styleSheets].map(s => s.href ?? '')")
    assert [sheet for sheet in sheets if "counter-" in sheet]
    page.close()


def test_a_broken_module_says_so_in_its_place(copy: Path, tmp_path, chromium) -> None:
    def spoil(notebook: dict) -> None:
        models = notebook["metadata"]["widgets"][STATE]["state"].values()
        for model in models:
            if model["state"].get("_anywidget_id", "").endswith("Counter"):
                model["state"]["_esm"] = "export default {"

    edit(copy / "index.ipynb", spoil)
    assert build(copy, tmp_path / "out").returncode == 0
    page = chromium.new_page()
    page.goto((tmp_path / "out" / "index.html").as_uri())
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").inner_text() == "This figure failed to load."
    page.evaluate("sphinxAnywidget.then((widgets) => widgets.showAll())")
    assert page.locator("canvas").is_visible()  # the other widget works
    page.close()
