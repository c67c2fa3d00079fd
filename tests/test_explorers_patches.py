"""PatchGrid and Pipeline: what Python accepts, and what the page shows, compared with torch."""

from __future__ import annotations

import io
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image
from traitlets import TraitError

import dnnl.models.vit as vit
from dnnl import data, explorers
from dnnl.explorers.base import half, packed_image
from dnnl.explorers.pipeline import ORDERS

ROOT = Path(__file__).resolve().parent.parent
STEPS = ["image", "patches", "tokens", "class_token", "positions", "dropout"]
in_browser = pytest.mark.book
both = pytest.mark.parametrize("explorer", [explorers.PatchGrid, explorers.Pipeline])

# ---- Python -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("patch_size", 0, "from 8 to 112, but got 0"),
        ("patch_size", 16.0, "an integer"),
        ("patch_size", True, "an integer"),
        ("patch_size", 113, "but got 113"),
        ("patch_size", None, "but got None"),
        ("index", 196, "from 0 to 195, but got 196"),
        ("index", -1, "but got -1"),
        ("index", None, "but got None"),
        ("lang", "de", "'en', 'zh', but got 'de'"),
    ],
)
def test_a_grid_refuses_a_wrong_value_and_stays_as_it_was(name, value, says) -> None:
    grid = explorers.PatchGrid()
    before = grid.get_state()
    with pytest.raises(TraitError, match=re.escape(says)):
        setattr(grid, name, value)
    assert grid.get_state() == before
    with pytest.raises(TraitError):
        explorers.PatchGrid(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", 6),
        ("step", None),
        ("step", "tokens"),
        ("order", "last"),
        ("order", np.array(["sliced", "last"])),
        ("token", 17),
    ],
)
def test_a_pipeline_refuses_a_wrong_value_and_stays_as_it_was(name, value) -> None:
    pipeline = explorers.Pipeline()
    before = pipeline.get_state()
    with pytest.raises(TraitError, match="Expected " + name):
        setattr(pipeline, name, value)
    assert pipeline.get_state() == before
    with pytest.raises(TraitError):
        explorers.Pipeline(**{name: value})


@pytest.mark.parametrize("shape", [(1, 64, 64), (64, 64), (3, 8, 64), (3, 64, 300)])
@both
def test_images_of_other_shapes_are_refused(explorer, shape) -> None:
    with pytest.raises(vit.ShapeError, match="Expected an image"):
        explorer(torch.zeros(shape))


def test_the_pick_stays_on_the_grid_when_patches_grow() -> None:
    grid = explorers.PatchGrid(index=195)
    grid.patch_size = 56
    assert grid.index == 15
    grid.index = 0


def test_the_picked_patch_is_the_one_of_patchify() -> None:
    grid = explorers.PatchGrid(data.photograph("coffee", (128, 224)), patch_size=32, index=10)
    patches = vit.patchify(grid.image[None], 32)
    assert torch.equal(grid.patch.reshape(-1), patches[0, 10])


@both
def test_a_still_is_a_small_picture_and_the_text_is_constant(explorer) -> None:
    widget = explorer()
    bundle, _ = widget._repr_mimebundle_()
    assert bundle["text/plain"] == f"{explorer.__name__}()"
    assert "application/vnd.jupyter.widget-view+json" in bundle
    still = widget.still()
    assert len(still) < 60_000
    assert Image.open(io.BytesIO(still)).size[0] >= 300


def test_stills_exist_for_every_order_and_for_patches_that_do_not_divide() -> None:
    for order in ORDERS:
        assert explorers.Pipeline(order=order, step=5).still()
    assert explorers.PatchGrid(patch_size=30).still()


def test_the_orders_differ_as_the_page_says() -> None:
    ends = {order: list(explorers.Pipeline().stages(order).values())[-1] for order in ORDERS}
    right = ends["class_first"]
    assert torch.allclose(ends["positions_first"], right, atol=0)
    assert not torch.isclose(ends["sliced"], right).all(-1).any()
    assert not torch.allclose(ends["dropout_first"], right)


def test_the_stages_are_those_of_the_library() -> None:
    pipeline = explorers.Pipeline(dropout=0.0)
    torch.manual_seed(0)
    embed = vit.ViTEmbedding(64, 16, 3, 32).eval()
    with torch.no_grad():
        embed.add_cls_token.cls_token.copy_(pipeline.class_token)
        embed.pos_embed.pos_embed.copy_(pipeline.positions)
        expected = embed(data.standardize(pipeline.image)[None])
    assert torch.allclose(pipeline.stages()["dropout"], expected, atol=2e-3)  # (half precision)


@pytest.mark.parametrize("order", ORDERS)
def test_dropout_of_everything_gives_zeros_as_torch_has_it(order: str) -> None:
    stages = explorers.Pipeline(dropout=1.0).stages(order)
    assert torch.equal(stages["dropout"], torch.zeros(1, 17, 32))
    assert all(bool(x.isfinite().all()) for x in stages.values())


@pytest.mark.parametrize("dropout", [float("nan"), -0.1, 1.1, "0.1", None, True])
def test_a_wrong_dropout_is_refused(dropout) -> None:
    with pytest.raises(TraitError, match="Expected dropout to be a number from 0 to 1, but got"):
        explorers.Pipeline(dropout=dropout)


@both
def test_images_of_bytes_or_arrays_are_refused(explorer) -> None:
    with pytest.raises(vit.DTypeError, match="torch.uint8: scale it first"):
        explorer(torch.zeros(3, 64, 64, dtype=torch.uint8))
    with pytest.raises(vit.DTypeError, match="ndarray"):
        explorer(np.zeros((3, 64, 64)))


# ---- the page ---------------------------------------------------------------------------------


def slider(shown, label):
    return shown.page.get_by_role("slider", name=label)


def drag(shown, label, value) -> None:
    """Move a slider as a hand does: the browser sends `input`."""
    slider(shown, label).evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )
    shown.frames()


def text(shown) -> str:
    return shown.page.locator(".dnnl-explorer").first.inner_text()


def numbers(shown) -> list[list[float]]:
    """Read the three lists of numbers that a grid shows."""
    lines = shown.page.locator(".dnnl-pg-numbers p").all_inner_texts()
    return [[float(v) for v in re.findall(r"\d\.\d{3}", line)] for line in lines]


def check_patch(shown, grid) -> None:
    """What is written equals what torch says, to the third decimal."""
    read = torch.tensor(numbers(shown))
    expected = vit.patchify(
        grid.image[
            None,
            :,
            : 224 // grid.patch_size * grid.patch_size,
            : 224 // grid.patch_size * grid.patch_size,
        ],
        grid.patch_size,
    )[0, grid.index]
    assert torch.allclose(read.reshape(-1), expected, atol=5.01e-4)


@in_browser
def test_a_grid_shows_the_numbers_of_torch(show) -> None:
    grid = explorers.PatchGrid()
    shown = show(grid)
    check_patch(shown, grid)
    assert "(1, 3, 224, 224)" in text(shown) and "(1, 196, 768)" in text(shown)
    assert "38,416" in text(shown)
    for patch_size, index in [(32, 48), (8, 783), (30, 17), (16, 0)]:
        drag(shown, "Patch size P", patch_size)
        drag(shown, "Patch i", index)
        grid = explorers.PatchGrid(patch_size=patch_size, index=index)
        check_patch(shown, grid)
        rows = 224 // patch_size
        assert f"N = {rows} · {rows} = {rows * rows}" in text(shown)
        lost = 224 * 224 - (rows * patch_size) ** 2
        assert (f"{lost} pixels" in text(shown)) == bool(lost)


@in_browser
def test_a_grid_is_worked_by_mouse_keyboard_and_finger(show) -> None:
    shown = show(explorers.PatchGrid())
    photo = shown.page.locator(".dnnl-pg-photo")
    box = photo.bounding_box()

    def at(row, column):
        return {"x": (column + 0.5) * box["width"] / 14, "y": (row + 0.5) * box["height"] / 14}

    photo.hover(position=at(2, 3))
    shown.frames()
    assert "Patch 31: row 2, column 3" in text(shown)
    photo.focus()
    for key, index in [("ArrowRight", 32), ("ArrowDown", 46), ("ArrowLeft", 45), ("ArrowUp", 31)]:
        shown.page.keyboard.press(key)
        shown.frames()
        assert f"Patch {index}:" in text(shown)
    slider(shown, "Patch i").focus()
    shown.page.keyboard.press("Home")
    shown.frames()
    assert "Patch 0:" in text(shown)
    said = shown.page.locator("[aria-live]").first
    shown.page.wait_for_function(
        "e => e.textContent.startsWith('Patch 0:')", arg=said.element_handle()
    )
    finger = show(explorers.PatchGrid(), has_touch=True, viewport={"width": 360, "height": 800})
    photo = finger.page.locator(".dnnl-pg-photo")
    box = photo.bounding_box()
    photo.tap(position=at(13, 13))
    finger.frames()
    assert "Patch 195:" in text(finger)


@in_browser
def test_a_finer_grid_keeps_the_place_of_the_pick(show) -> None:
    shown = show(explorers.PatchGrid(patch_size=56, index=5))
    drag(shown, "Patch size P", 28)
    row, column = divmod(int(re.search(r"Patch (\d+):", text(shown))[1]), 8)
    assert (row // 2, column // 2) == (1, 1)


@in_browser
@pytest.mark.parametrize("order", ORDERS)
def test_a_pipeline_shows_the_numbers_of_torch(show, order) -> None:
    pipeline = explorers.Pipeline(order=order, step=0)
    shown = show(pipeline)
    stages = pipeline.stages(order)
    for step, (name, value) in enumerate(stages.items()):
        if step:
            shown.page.get_by_role("button", name="Next").click()
            shown.frames()
        assert str(tuple(value.shape)) in text(shown), name
        if not step:
            continue
        for token in (1, 6, 16):
            drag(shown, "Token i", token)
            row = value[0, token - (value.shape[1] == 16)]
            read = re.search(r"begins (.*), …", text(shown))[1].replace("−", "-")
            begins = [float(v) for v in read.split(", ")]
            assert begins == pytest.approx(row[:4].tolist(), abs=5.01e-3), (name, token)
    assert shown.page.get_by_role("button", name="Next").is_disabled()
    verdict = "the same sequence" if order == "positions_first" else "tokens differ"
    assert (verdict in text(shown)) == (order != "class_first")


@in_browser
def test_a_pipeline_draws_the_numbers_of_torch(show) -> None:
    """The colours of the last heat map, turned back to numbers: within one step of the colours."""
    pipeline = explorers.Pipeline(step=4)
    shown = show(pipeline)
    pixels = shown.page.locator(".dnnl-pl-row canvas").last.evaluate(
        """e => { const w = e.width / 190, out = [];
        const { data } = e.getContext('2d').getImageData(0, 0, e.width, e.height);
        for (let i = 0; i < 17; i++) for (let k = 0; k < 32; k++) {
          const x = Math.round((9 + (k + .5) * 181 / 32) * w), y = Math.round((i + .5) * 12 * w);
          out.push([...data.slice(4 * (y * e.width + x), 4 * (y * e.width + x) + 4)]);
        }
        return out; }"""
    )
    table = np.array(matplotlib.colormaps["viridis"].colors) * 255
    drawn = np.array(pixels)[:, :3]
    nearest = np.abs(drawn[:, None] - table[None]).sum(-1)
    read = nearest.argmin(1) / 255 * 4 - 2
    expected = pipeline.stages()["positions"][0].clamp(-2, 2).reshape(-1).numpy()
    free = np.ones((17, 32), bool)
    free[5:8] = False  # the outline of the picked token
    assert np.abs(read - expected)[free.reshape(-1)].max() < 0.06
    assert nearest.min(1)[free.reshape(-1)].max() <= 8


@in_browser
def test_another_order_is_chosen_and_compared(show) -> None:
    shown = show(explorers.Pipeline())
    assert "tokens differ" not in text(shown)
    shown.page.get_by_role("combobox", name="Order of the steps").select_option(index=2)
    shown.frames()
    ends = explorers.Pipeline().stages
    gap = (list(ends("sliced").values())[-1] - list(ends().values())[-1]).abs().max().item()
    assert f"17 of 17 tokens differ from the module's, by up to {gap:.2f}" in text(shown)
    shown.page.get_by_role("combobox").select_option(index=1)
    shown.frames()
    assert "the same sequence as the module's" in text(shown)
    shown.page.get_by_role("radio", name="class token").focus()
    shown.page.keyboard.press("ArrowLeft")
    shown.frames()
    assert "+ positions\n(1, 16, 32)" in text(shown)


def test_packing_keeps_numbers() -> None:
    x = torch.randn(7)
    assert torch.equal(torch.frombuffer(bytearray(half(x)), dtype=torch.float16), x.half())
    file, image = packed_image(data.photograph("cat", 32))
    pixels = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).copy()
    assert torch.equal(torch.from_numpy(pixels).permute(2, 0, 1) / 255, image)
    assert (image - data.photograph("cat", 32)).abs().mean() < 0.02
