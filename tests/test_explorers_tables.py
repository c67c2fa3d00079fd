"""SimilarityMap and Resize: the explorers of 11.3.7, checked against torch."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from traitlets import TraitError

from dnnl.explorers.resize import MODES, Resize
from dnnl.explorers.similarity_map import SimilarityMap
from dnnl.models import vit
from dnnl.models.vit import positions

EXPLORERS = (SimilarityMap, Resize)

# ---- in Python --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "wrong", "message"),
    [
        (SimilarityMap, "table", "learned", "Expected table to be one of 'trained', 'sincos'"),
        (SimilarityMap, "token", 197, "Expected token to be an integer from 0 to 196, but got 197"),
        (SimilarityMap, "token", -1, "but got -1"),
        (SimilarityMap, "token", "7", "token"),
        (SimilarityMap, "scale", "auto", "Expected scale to be one of 'full', 'own', but got"),
        (SimilarityMap, "lang", "fr", "Expected lang to be one of"),
        (Resize, "rows", 3, "Expected rows to be an integer from 4 to 28, but got 3"),
        (Resize, "columns", 29, "Expected columns to be an integer from 4 to 28, but got 29"),
        (Resize, "rows", 7.5, "rows"),
        (Resize, "mode", "lanczos", "Expected mode to be one of 'bicubic', .* but got 'lanczos'"),
        (Resize, "antialias", "yes", "antialias"),
        (Resize, "row", 28, "Expected row to be an integer from 0 to 27, but got 28"),
        (Resize, "column", -1, "Expected column to be an integer from 0 to 27, but got -1"),
    ],
)
def test_a_wrong_value_is_refused_and_changes_nothing(kind, name, wrong, message) -> None:
    explorer = kind()
    before = explorer.get_state()
    with pytest.raises(TraitError, match=message):
        setattr(explorer, name, wrong)
    assert explorer.get_state() == before
    with pytest.raises(TraitError, match=message):
        kind(**{name: wrong})


def test_an_unknown_photograph_is_refused() -> None:
    with pytest.raises(TraitError, match="Expected photograph to be one of .* but got 'dog'"):
        Resize("dog")
    with pytest.raises(TraitError, match="Expected photograph to be one of .* but got array"):
        Resize(np.array(["cat", "dog"]))


def test_every_mode_of_the_resize_is_offered() -> None:
    assert sorted(MODES) == sorted(positions._MODES)


def test_the_random_table_is_the_one_that_the_page_shows() -> None:
    torch.manual_seed(0)
    fresh = vit.ViTPositionalEmbedding(embed_dim=64, num_patches=196).pos_embed.detach()
    shown = SimilarityMap(table="random").rows()
    torch.testing.assert_close(shown, fresh, rtol=1e-3, atol=1e-6)  # (it travels in float16)


@pytest.mark.parametrize(
    "explorer",
    [
        lambda: SimilarityMap(),
        lambda: SimilarityMap(table="sincos", token=0, scale="own"),
        lambda: Resize(),
        lambda: Resize("cat", rows=4, columns=28, mode="nearest", antialias=True, row=27),
    ],
)
def test_a_still_picture_is_a_small_png(explorer) -> None:
    png = explorer().still()
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG" and min(image.size) > 150
        assert len(image.convert("RGBA").getcolors(1 << 20)) > 20  # something is drawn
    assert len(png) <= 60_000


def test_the_still_picture_follows_the_state() -> None:
    assert SimilarityMap().still() != SimilarityMap(token=0).still()
    assert Resize().still() != Resize(mode="nearest").still()


def test_the_measure_hides_six_patches_of_ten() -> None:
    for rows, columns in [(4, 4), (7, 9), (28, 28)]:
        x, mask = Resize(rows=rows, columns=columns).crop()
        assert x.shape == (1, 3, 4 * rows, 4 * columns)
        assert mask.sum() == round(0.6 * rows * columns)


# ---- in the page ------------------------------------------------------------------------------


def says(page: Any) -> str:
    page.frames(3)
    return page.page.locator(".dnnl-says").last.text_content()


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def spoken(explorer: SimilarityMap) -> list[float]:
    """What the line of the map says of a picked patch, in numbers."""
    token = explorer.token
    row, column = divmod(token - 1, 14)
    values = explorer.similarity()
    patches = values[1:].reshape(14, 14)
    y, x = torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")
    far = (y - row).abs() + (x - column).abs()
    best = patches.masked_fill(far == 0, -2).max()
    means = [patches[far == 1].mean().item(), patches[far > 1].mean().item()]
    return [row, column, token, *means, best.item(), values[0].item()]


@pytest.mark.book
@pytest.mark.parametrize("table", ["trained", "sincos", "random"])
def test_similarities_are_torch_s(show, table: str) -> None:
    explorer = SimilarityMap(table=table, token=61)
    page = show(explorer)
    said = numbers(says(page))
    likest = said.pop(5), said.pop(5)  # one of the best, of which there may be several
    assert said == pytest.approx(spoken(explorer), abs=0.0051)
    token = 1 + 14 * int(likest[0]) + int(likest[1])
    assert explorer.similarity()[token].item() == pytest.approx(said[5], abs=0.0051)
    # Each patch in turn, by the line under the map.
    canvas = page.page.get_by_role("application", name=re.compile("^Map of"))
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for row, column in [(0, 0), (4, 5), (7, 2), (13, 13)]:
        page.page.mouse.move(
            box["x"] + (column + 0.5) * box["width"] / 14,
            box["y"] + (row + 0.5) * box["height"] / 14,
        )
        shown = numbers(page.page.get_by_text("under the pointer").text_content())
        value = explorer.similarity()[1 + 14 * row + column].item()
        assert shown == pytest.approx([row, column, value], abs=0.0051)


@pytest.mark.book
def test_a_patch_is_picked_by_mouse_keys_sliders_and_finger(show) -> None:
    explorer = SimilarityMap()
    page = show(explorer, has_touch=True)
    canvas = page.page.get_by_role("application", name=re.compile("^Map of"))

    def picked() -> tuple[int, int]:
        row, column, token = (int(n) for n in numbers(says(page))[:3])
        assert token == 1 + 14 * row + column
        return row, column

    assert picked() == (4, 4)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    cell = box["width"] / 14
    page.page.mouse.click(box["x"] + 9.5 * cell, box["y"] + 2.5 * cell)
    assert picked() == (2, 9)
    canvas.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.page.keyboard.press(key)
    assert picked() == (3, 11)
    for _ in range(5):
        page.page.keyboard.press("ArrowRight")  # the border stops it
    assert picked() == (3, 13)
    page.page.get_by_label("row", exact=True).fill("7")
    assert picked() == (7, 13)
    page.page.get_by_label("column", exact=True).focus()
    page.page.keyboard.press("ArrowLeft")
    assert picked() == (7, 12)
    page.page.touchscreen.tap(box["x"] + 0.5 * cell, box["y"] + 12.5 * cell)
    assert picked() == (12, 0)

    # The class token's row, and back.
    button = page.page.get_by_role("button", name="class token's row")
    button.click()
    values = SimilarityMap(token=0).similarity()[1:]
    said = numbers(says(page).split("Cosine")[1])
    expected = [values.min().item(), values.max().item(), *divmod(int(values.argmax()), 14)]
    assert said == pytest.approx(expected, abs=0.0051)
    assert button.get_attribute("aria-pressed") == "true"
    page.page.get_by_label("sin-cos").check(force=True)
    assert "all zeros" in says(page)
    button.click()
    assert picked() == (12, 0)


@pytest.mark.book
def test_a_screen_reader_hears_what_the_eye_reads(show) -> None:
    page = show(SimilarityMap())
    heard = page.page.locator("[aria-live=polite]")
    assert heard.text_content() == says(page)
    page.page.get_by_label("random").check(force=True)
    line = says(page)
    page.page.wait_for_timeout(600)
    assert heard.text_content() == line


def measured(page: Any) -> list[float]:
    """The two errors, once they are those of the grid that is shown."""
    page.frames(3)  # a change that is under way takes the old ones off
    page.page.wait_for_function(
        "() => { const line = [...document.querySelectorAll('.dnnl-says')].at(-1).textContent;"
        " return /Squared error|平方误差/.test(line); }"
    )
    text = says(page)
    return numbers(re.split("Squared error|平方误差", text)[1])


@pytest.mark.book
def test_the_error_is_the_one_that_torch_measures(show) -> None:
    cases = [
        {"rows": 14, "columns": 14},
        {"rows": 7, "columns": 7, "antialias": True},
        {"rows": 10, "columns": 24, "mode": "bilinear", "align_corners": True},
        {"rows": 24, "columns": 6, "mode": "nearest", "antialias": True},
        {"rows": 28, "columns": 28},
    ]
    for case in cases:
        explorer = Resize(**case)
        page = show(explorer)
        assert measured(page) == pytest.approx(explorer.measure(), rel=1e-3, abs=0.0006), case
    assert Resize(rows=24, columns=24).measure()[0] < 0.5 * Resize(rows=24, columns=24).measure()[1]


def pixels(page: Any, number: int) -> np.ndarray:
    """The pixels of a canvas, as large as it is drawn."""
    data = (
        page.page.locator("canvas")
        .nth(number)
        .evaluate(
            "c => [c.width, c.height, Array.from(c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data)]"
        )
    )
    return np.array(data[2], dtype=np.uint8).reshape(data[1], data[0], 4)


@pytest.mark.book
@pytest.mark.parametrize(
    "case",
    [
        {"rows": 24, "columns": 24},
        {"rows": 7, "columns": 11, "antialias": True},
        {"rows": 11, "columns": 28, "mode": "nearest"},
    ],
)
def test_the_colours_are_those_of_the_resized_table(show, case) -> None:
    explorer = Resize(row=0, column=0, **case)
    rows, columns = explorer.rows, explorer.columns
    page = show(explorer)
    drawn = pixels(page, 1)
    cell = drawn.shape[1] / max(rows, columns)
    middle = [[int((i + 0.5) * cell) for i in range(n)] for n in (rows, columns)]
    ours = drawn[np.ix_(*middle)][..., :3].astype(float)
    expected = 255 * explorer.colours(explorer.table()).reshape(rows, columns, 3).numpy()
    assert np.abs(ours - expected).max() <= 1.0


@pytest.mark.book
def test_a_grid_is_chosen_by_mouse_and_keys(show) -> None:
    explorer = Resize()
    page = show(explorer)
    assert numbers(says(page))[:3] == [16, 24, 385]
    page.page.get_by_label("rows", exact=True).fill("8")
    page.page.get_by_label("columns", exact=True).focus()
    page.page.keyboard.press("ArrowLeft")
    said = says(page)
    assert numbers(said)[:3] == [8, 23, 185]
    assert "16 old rows" in said
    page.page.get_by_label("mode", exact=True).select_option(label="nearest")
    said = says(page)
    assert "one old row" in said and "do not apply to nearest" in said
    for name in ("align_corners", "antialias"):
        group = page.page.get_by_role("group", name=name)
        assert group.get_by_label("True").is_disabled()
    page.page.get_by_label("mode", exact=True).select_option(label="bilinear")
    assert "4 old rows" in says(page)
    page.page.get_by_role("group", name="antialias").get_by_label("True").check(force=True)
    assert "old rows" in says(page) and "4 old rows" not in says(page)  # wider along the rows
    explorer.rows, explorer.columns, explorer.mode, explorer.antialias = 8, 23, "bilinear", True
    assert measured(page) == pytest.approx(explorer.measure(), rel=1e-3, abs=0.0006)


@pytest.mark.book
def test_a_cell_is_picked_on_the_new_grid_and_on_the_old_one(show) -> None:
    page = show(Resize(rows=28, columns=28))

    def picked() -> list[float]:
        return numbers(says(page).split("New cell")[1])[:4]

    new = page.page.get_by_role("application", name=re.compile("^The resized table"))
    new.scroll_into_view_if_needed()
    box = new.bounding_box()
    page.page.mouse.click(box["x"] + 20.5 * box["width"] / 28, box["y"] + 3.5 * box["height"] / 28)
    assert picked() == pytest.approx([3, 20, 1.25, 9.75], abs=0.006)
    new.focus()
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("ArrowRight")
    assert picked() == pytest.approx([2, 21, 0.75, 10.25], abs=0.006)
    old = page.page.get_by_role("img", name=re.compile("^The old grid"))
    box = old.bounding_box()
    page.page.mouse.click(box["x"] + 2, box["y"] + box["height"] - 2)
    assert picked() == pytest.approx([27, 0, 13.25, -0.25], abs=0.006)


@pytest.mark.book
def test_a_slider_that_is_dragged_in_fits_and_starts_ends_in_the_right_error(show) -> None:
    """A change may come while the model waits, between its two passes, or after them."""
    explorer = Resize(rows=4, columns=12)
    page = show(explorer)
    page.page.get_by_label("rows", exact=True).evaluate(
        """async (field) => {
          for (let i = 0; i < 40; i++) {
            field.value = 4 + (7 * i) % 12;
            field.dispatchEvent(new Event("input"));
            await new Promise((done) => setTimeout(done, 80 + 9 * (i % 9)));
          }
          field.value = 9;
          field.dispatchEvent(new Event("input"));
        }"""
    )
    explorer.rows = 9
    assert measured(page) == pytest.approx(explorer.measure(), rel=1e-3, abs=0.0006)


@pytest.mark.book
def test_values_that_a_linked_control_may_set_leave_no_blank_figure(show) -> None:
    resize, similarity = Resize(), SimilarityMap()
    # (past the validators, as a link inside the page goes)
    resize._trait_values.update(rows=99, columns=-3, mode="?", row=50)
    similarity._trait_values.update(token=1000, table="?", scale="?")
    page = show(resize)
    assert numbers(says(page))[:3] == [28, 4, 113]
    assert measured(page)
    page = show(similarity)
    assert numbers(says(page))[:3] == [13, 13, 196]
