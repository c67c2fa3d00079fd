"""What the explorers share, in a page of its own: elements, controls, canvases, the grid.

What needs no page is tested without one: ``tests/js`` and ``tests/test_js_compute.py``.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from javascript import MODULES, JavaScript
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bundle  # noqa: E402

from dnnl.explorers.base import stylesheet  # noqa: E402

pytestmark = pytest.mark.book
PARTS = ("bars", "controls", "dom", "draw", "grid_pad", "panels")


@pytest.fixture(scope="module")
def library() -> str:
    """Return the shared modules as one script, which sets ``lib``."""
    folder = (MODULES / "lib").as_uri()
    imports = "".join(f'import * as {part} from "{folder}/{part}.js";\n' for part in PARTS)
    every = ", ".join(f"...{part}" for part in PARTS)
    return bundle.bundle(f"{imports}globalThis.lib = {{ {every} }};\n", "iife")


@pytest.fixture
def page(browser: Any, library: str) -> Iterator[Any]:
    """Return a page that has ``lib`` and an empty ``main``, and may report no error."""
    page = browser.new_page()
    errors: list[Any] = []
    page.on("pageerror", lambda error: errors.append(error))
    page.set_content(f"<style>{stylesheet()}</style><main></main>")
    page.add_script_tag(content=library)
    yield page
    page.close()
    assert errors == []


def pixels(page: Any, expression: str) -> torch.Tensor:
    """Return the pixels ``(height, width, 4)`` of a canvas."""
    width, height, values = page.evaluate(
        f"() => {{ const c = {expression}; const {{ width, height }} = c;"
        " return [width, height, [...c.getContext('2d').getImageData(0, 0, width, height).data]] }"
    )
    return torch.tensor(values).reshape(height, width, 4)


# ---- elements ------------------------------------------------------------------------------------


def test_an_element_has_what_it_is_given(page) -> None:
    html = page.evaluate(
        """() => lib.h("p", { id: "x", hidden: true, title: null, draggable: false, tabindex: 0,
             dataset: { row: "3" }, style: { color: "red" }, onclick: () => window.clicked = true },
             "a", null, [lib.h("b", null, 1), undefined, "c"], 0).outerHTML"""
    )
    expected = '<p id="x" hidden="" tabindex="0" data-row="3" style="color: red;">a<b>1</b>c0</p>'
    assert html == expected
    page.evaluate("() => lib.h('p', { onclick: () => window.clicked = true }).click()")
    assert page.evaluate("window.clicked") is True


def test_the_frame_is_named_and_keeps_room(page) -> None:
    page.set_viewport_size({"width": 400, "height": 600})
    page.evaluate("lib.frame(document.querySelector('main'), { label: 'Named', room: [300, 200] })")
    group = page.get_by_role("group", name="Named")
    assert group.bounding_box()["height"] == 300
    page.set_viewport_size({"width": 900, "height": 600})
    assert group.bounding_box()["height"] == 200


def test_a_status_is_seen_at_once_and_heard_after_a_pause(page) -> None:
    page.clock.install(time=0)
    page.clock.pause_at(1)  # time goes on only when it is told to
    page.evaluate(
        """() => {
          window.status_ = lib.statusLine();
          document.querySelector("main").append(status_.root);
        }"""
    )
    seen, heard = page.locator(".dnnl-says"), page.locator("[aria-live=polite]")

    def say(*texts: str) -> list[str]:
        page.evaluate("texts => texts.forEach(status_.say)", list(texts))
        return [seen.text_content(), heard.text_content()]

    assert seen.get_attribute("aria-hidden") == "true"
    assert say("first") == ["first", "first"]
    assert say("second") == ["second", "first"]
    page.clock.run_for(300)
    assert say("third") == ["third", "first"]  # the pause begins again
    page.clock.run_for(399)
    assert heard.text_content() == "first"
    page.clock.run_for(2)
    assert heard.text_content() == "third"
    say("fourth")
    page.evaluate("status_.stop()")
    page.clock.run_for(1000)
    assert heard.text_content() == "third"


def test_a_change_of_theme_is_noticed_until_it_is_stopped(page) -> None:
    page.evaluate("() => { window.turns = 0; window.stop_ = lib.onTheme(() => { turns++; }); }")

    def turns() -> int:
        # (an observer is called after the script that made the change)
        return page.evaluate("new Promise(done => setTimeout(() => done(turns)))")

    # the book · JupyterLab · VS Code · Colab · the system
    changes = [
        "document.documentElement.dataset.theme = 'dark'",
        "document.body.dataset.jpThemeLight = 'false'",
        "document.body.className = 'vscode-dark'",
        "document.documentElement.setAttribute('theme', 'dark')",
    ]
    for n, change in enumerate(changes, start=1):
        page.evaluate(change)
        assert turns() == n, change
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("turns === 5")
    page.evaluate("stop_()")
    page.evaluate(changes[0].replace("dark", "light"))
    page.emulate_media(color_scheme="light")
    assert turns() == 5


# ---- controls ------------------------------------------------------------------------------------


def test_a_slider_says_its_value_and_only_the_reader_moves_it(page) -> None:
    page.evaluate(
        """() => {
          window.heard = [];
          window.control = lib.slider({ label: "Row", min: 2, max: 9, value: 4,
            format: (v) => `row ${v}`, oninput: (v) => heard.push(v) });
          document.querySelector("main").append(control.root);
        }"""
    )
    slider = page.get_by_role("slider", name="Row")
    assert slider.get_attribute("aria-valuetext") == "row 4"
    page.evaluate("control.set(7)")
    assert page.locator("output").text_content() == "row 7" and page.evaluate("heard") == []
    slider.press("ArrowRight")
    slider.press("End")
    slider.press("Home")
    assert page.evaluate("heard") == [8, 9, 2]
    assert slider.get_attribute("aria-valuetext") == "row 2"


@pytest.mark.parametrize("kind", ["select", "toggle"])
def test_one_of_a_few_is_chosen(page, kind: str) -> None:
    page.evaluate(
        """(kind) => {
          window.heard = [];
          const options = [[1, "one"], [null, "none"], ["x", "X"]];
          const onchange = (v) => heard.push(v);
          window.control = lib[kind]({ label: "Size", options, value: null, onchange });
          document.querySelector("main").append(control.root);
        }""",
        kind,
    )

    def chosen() -> str:
        if kind == "select":
            return page.get_by_label("Size").evaluate("e => e.selectedOptions[0].text")
        assert page.get_by_role("group", name="Size").count() == 1
        return page.evaluate("document.querySelector('input:checked').parentElement.innerText")

    assert chosen() == "none"
    page.evaluate("control.set(1)")
    assert chosen() == "one" and page.evaluate("heard") == []
    for text in ("X", "none"):
        if kind == "select":
            page.get_by_label("Size").select_option(label=text)
        else:
            page.get_by_role("radio", name=text).check(force=True)
        assert chosen() == text
    assert page.evaluate("heard") == ["x", None]


def test_bars_are_as_long_as_their_shares(page) -> None:
    page.evaluate(
        """() => {
          const { root, set } = lib.bars("Shares");
          document.querySelector("main").append(root);
          set([{ name: "old", text: "1", share: 1, shown: true }]);
          set([{ name: "a", text: "0.25", share: 0.25, shown: false },
               { name: "b", text: "0.5", share: 0.5, shown: true }]);
        }"""
    )
    assert page.locator("dt").all_inner_texts() == ["a", "b"]
    assert page.locator("dd:last-child").all_inner_texts() == ["0.25", "0.5"]
    widths = [bar.bounding_box()["width"] for bar in page.locator(".dnnl-bar, .dnnl-bar > *").all()]
    assert widths[1] / widths[0] == pytest.approx(0.25, abs=0.01)
    assert widths[3] / widths[2] == pytest.approx(0.5, abs=0.01)
    assert page.locator(".dnnl-bar-shown dt").all_inner_texts() == ["b"]


# ---- pictures ------------------------------------------------------------------------------------


def test_a_canvas_is_sharp_and_counts_in_its_own_units(browser, library) -> None:
    context = browser.new_context(device_scale_factor=2, viewport={"width": 216, "height": 600})
    page = context.new_page()
    page.set_content("<style>body { margin: 8px }</style><main></main>")
    page.add_style_tag(content=stylesheet())
    page.add_script_tag(content=library)
    found = page.evaluate(
        """() => {
          const view = lib.canvas(400, 100, "Drawn");
          document.querySelector("main").append(view.root);
          view.ctx.fillRect(0, 0, 400, 100);
          view.fit();
          view.ctx.fillRect(10, 20, 1, 1);
          const { data } = view.ctx.getImageData(0, 0, 800, 200);
          const drawn = data.filter((v, i) => i % 4 === 3 && v);
          const { width, height } = view.root.getBoundingClientRect();
          return [view.root.width, view.root.height, width, height, drawn.length,
            view.at({ clientX: 8 + 100, clientY: 8 + 25 })];
        }"""
    )
    context.close()
    # Shown at half its width; a square of its units is four pixels; the rest was cleared.
    assert found == [800, 200, 200, 50, 4, [200, 50]]


def test_a_heat_map_has_the_colours_of_its_numbers(page, javascript: JavaScript) -> None:
    values = torch.tensor([[0.0, 1.0, 2.0], [-1.0, 3.0, 0.5]])

    def expected(low: float, high: float) -> torch.Tensor:
        scaled = ((values - low) / (high - low)).flatten().tolist()
        colors = [[*javascript("lib/numbers.js", "viridis", v), 255] for v in scaled]
        return torch.tensor(colors).reshape(2, 3, 4)

    for options, low, high in [("{}", -1, 3), ("{ min: 0 }", 0, 3), ("{ min: -2, max: 2 }", -2, 2)]:
        sheet = f"lib.heatSheet({values.flatten().tolist()}, 2, 3, {options})"
        assert torch.equal(pixels(page, sheet), expected(low, high)), options
    equal = pixels(page, "lib.heatSheet([5, 5], 1, 2)")  # one number has the first colour
    assert torch.equal(equal, torch.tensor([[[68, 1, 84, 255]] * 2]))

    page.evaluate(
        """values => {
          window.view = lib.canvas(40, 30, "");
          lib.heatMap(view.ctx, values, 2, 3, { x: 4, y: 6, w: 30, h: 20 });
        }""",
        values.flatten().tolist(),
    )
    shown = pixels(page, "view.root")
    large = expected(-1, 3).repeat_interleave(10, dim=0).repeat_interleave(10, dim=1)
    assert torch.equal(shown[6:26, 4:34], large)
    assert shown[..., 3].count_nonzero() == 600


def test_pixels_are_those_of_the_bytes(page) -> None:
    image = torch.randint(0, 256, (4, 5, 3), dtype=torch.uint8)
    drawn = pixels(page, f"lib.sheetOf(lib.rgb({image.flatten().tolist()}, 5, 4))")
    assert torch.equal(drawn[..., :3].byte(), image) and (drawn[..., 3] == 255).all()
    packed = io.BytesIO()
    Image.fromarray(image.numpy()).save(packed, "PNG")
    decoded = page.evaluate(
        "async bytes => [...(await lib.decode(Uint8Array.from(bytes))).data]",
        list(packed.getvalue()),
    )
    assert torch.equal(torch.tensor(decoded).reshape(4, 5, 4)[..., :3].byte(), image)
    page.evaluate(
        """values => {
          window.view = lib.canvas(20, 20, "");
          lib.picture(view.ctx, lib.rgb(values, 5, 4), 5, 4, 10, 8);
        }""",
        image.flatten().tolist(),
    )
    large = image.repeat_interleave(2, dim=0).repeat_interleave(2, dim=1)
    assert torch.equal(pixels(page, "view.root")[4:12, 5:15, :3].byte(), large)


# ---- the grid ------------------------------------------------------------------------------------

# A grid of 3 × 4 cells of 30 × 20 in a canvas of 140 × 100: to its right and below, there is room.
GRID = """(options) => {
  window.picks = [];
  window.at = [1, 1];
  const pad = lib.gridPad({
    width: 140, height: 100, label: "Cells",
    cells: () => ({ rows: 3, columns: 4, width: 30, height: 20 }),
    onpick: (row, column, point) => {
      picks.push([row, column, point]);
      window.at = [row, column];
    },
    ...(options.keys ? { picked: () => at, home: () => [2, 0] } : {}),
    hover: options.hover,
  });
  window.pad = pad;
  document.querySelector("main").append(pad.root);
}"""


def spot(page: Any, row: float, column: float) -> tuple[float, float]:
    """Return where a point of the grid is in the window; (0, 0) is the corner of the first cell."""
    box = page.locator("canvas").bounding_box()
    return box["x"] + 30 * column, box["y"] + 20 * row


def picked(page: Any) -> list[list[int]]:
    return [pick[:2] for pick in page.evaluate("picks.splice(0)")]


def test_cells_are_picked_by_pressing_and_dragging(page) -> None:
    page.evaluate(GRID, {"keys": True})
    page.mouse.move(*spot(page, 0.5, 0.5))
    page.mouse.move(*spot(page, 1.5, 1.5))
    assert picked(page) == []  # only passed over
    page.mouse.down()
    page.mouse.move(*spot(page, 2.5, 3.5))
    page.mouse.up()
    page.mouse.move(*spot(page, 0.5, 0.5))
    assert picked(page) == [[1, 1], [2, 3]]
    for row, column in [(3.2, 0.5), (0.5, 4.3)]:  # below the grid, and to its right
        page.mouse.click(*spot(page, row, column))
        assert picked(page) == []
    for row, column in [(0.1, 0.1), (2.9, 3.9)]:
        page.mouse.click(*spot(page, row, column))
    assert picked(page) == [[0, 0], [2, 3]]
    page.mouse.click(*spot(page, 1.75, 2.5))
    assert page.evaluate("picks.at(-1)[2]") == pytest.approx([1.25, 2])


def test_a_mouse_that_hovers_picks_and_a_finger_taps(browser, library) -> None:
    context = browser.new_context(has_touch=True)
    page = context.new_page()
    page.set_content("<main></main>")
    page.add_style_tag(content=stylesheet())
    page.add_script_tag(content=library)
    page.evaluate(GRID, {"hover": True})
    page.mouse.move(*spot(page, 0.5, 0.5))
    page.mouse.move(*spot(page, 1.5, 2.5))
    assert picked(page) == [[0, 0], [1, 2]]
    page.touchscreen.tap(*spot(page, 2.5, 0.5))
    assert picked(page)[0] == [2, 0]
    # A finger that moves up or down scrolls the page.
    assert page.locator("canvas").evaluate("c => getComputedStyle(c).touchAction") == (
        "pan-y pinch-zoom"
    )
    context.close()


def test_arrow_keys_move_inside_the_grid(page) -> None:
    page.evaluate(GRID, {"keys": True})
    pad = page.get_by_role("application", name="Cells")
    page.keyboard.press("Tab")
    assert pad.evaluate("c => c === document.activeElement")
    for keys, expected in [
        (["ArrowUp", "ArrowUp"], [[0, 1], [0, 1]]),
        (["ArrowLeft", "ArrowLeft"], [[0, 0], [0, 0]]),
        (["ArrowDown", "ArrowDown", "ArrowDown"], [[1, 0], [2, 0], [2, 0]]),
        (["End", "ArrowRight"], [[2, 3], [2, 3]]),
        (["Home"], [[2, 0]]),
        (["ArrowRight"], [[2, 1]]),
        (["Control+ArrowRight", "x", "Enter"], []),
    ]:
        for key in keys:
            page.keyboard.press(key)
        assert picked(page) == expected, keys
    page.evaluate("() => { window.at = null; }")
    page.keyboard.press("ArrowRight")
    assert picked(page) == [[2, 0]]  # home
    page.evaluate("pad.name('Renamed')")
    assert page.get_by_role("application", name="Renamed").count() == 1


def test_without_keys_it_is_a_picture(page) -> None:
    page.evaluate(GRID, {})
    pad = page.get_by_role("img", name="Cells")
    assert pad.get_attribute("tabindex") is None
    page.mouse.click(*spot(page, 1.5, 1.5))
    assert picked(page) == [[1, 1]]


def test_a_grid_that_is_stopped_picks_no_more(page) -> None:
    page.evaluate(GRID, {"keys": True})
    page.evaluate("pad.stop()")
    page.mouse.click(*spot(page, 1.5, 1.5))
    page.mouse.down()
    page.mouse.move(*spot(page, 0.5, 0.5))
    page.locator("canvas").press("ArrowUp")
    assert picked(page) == []


def test_a_mark_lies_inside_its_cell(page) -> None:
    page.evaluate(GRID, {})
    page.evaluate("() => { pad.fit(); pad.mark([1, 2], [['#f00', 2]]); }")
    drawn = pixels(page, "pad.root")[..., 3].numpy() > 0
    rows, columns = np.nonzero(drawn)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (20, 39, 60, 89)
    assert not drawn[22:38, 62:88].any()
    page.evaluate("() => { pad.fit(); pad.mark([0, 0]); }")
    black, white = (
        (pixels(page, "pad.root")[10] == v).all(dim=-1)
        for v in (torch.tensor([0, 0, 0, 255]), torch.tensor([255, 255, 255, 255]))
    )
    assert black.any() and white.any()  # seen on every colour
