"""The explorers in which the chapter's model computes in the page: as PyTorch, by every hand."""

from __future__ import annotations

import base64
import copy
import io
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from ipywidgets import Widget
from PIL import Image
from traitlets import TraitError

import dnnl
import dnnl.models.vit as vit
from dnnl import data
from dnnl.chapter_model import ChapterModel
from dnnl.explorers import ClassAttention, EraseAndReconstruct
from dnnl.explorers.base import rgb8
from dnnl.explorers.live import pack, quantized

BOTH = [EraseAndReconstruct, ClassAttention]
book = pytest.mark.book


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Forget the widgets of a test, which the pages of the next would carry."""
    yield
    Widget.close_all()


@pytest.fixture(scope="module")
def model() -> ChapterModel:
    return dnnl.load_chapter_model()


def crop(seed: int = 0, size: tuple[int, int] = (56, 56)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return data.crops(data.photographs(), 1, size, generator)[0].clamp(0, 1)


def error_of(explorer: EraseAndReconstruct) -> float:
    """The squared error on the erased patches, by PyTorch."""
    image, mask = explorer.image(), explorer.mask()
    with torch.no_grad():
        filled = explorer.model.reconstruct(image, mask, explorer.table())
    return (filled - explorer.model.standardize(image))[mask].square().mean().item()


# ---- in Python -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_stills_are_small_pictures_of_the_state(kind) -> None:
    first, second = kind().still(), kind(photograph="astronaut").still()
    assert first != second
    for still in (first, second):
        assert len(still) <= 60_000
        with Image.open(io.BytesIO(still)) as image:
            assert image.format == "PNG" and min(image.size) > 100
    bundle, _ = kind()._repr_mimebundle_()
    assert bundle["text/plain"] == f"{kind.__name__}()"
    assert base64.b64decode(bundle["image/png"]) == first


WRONG = [
    (
        EraseAndReconstruct,
        "photograph",
        "dog",
        "photograph to be one of 'cat'.* got 'dog'",
    ),
    (EraseAndReconstruct, "photograph", "own", "Expected an image in own before"),
    (EraseAndReconstruct, "photograph", np.array(["cat", "dog"]), "Expected photograph .* array"),
    (EraseAndReconstruct, "erased", np.arange(3), "Expected erased .* array"),
    (EraseAndReconstruct, "positions", np.zeros(2), "Expected positions .* array"),
    (ClassAttention, "hide", torch.zeros(2), "Expected hide .* tensor"),
    (ClassAttention, "head", np.zeros(2), "Expected head .* array"),
    (EraseAndReconstruct, "own", b"123", "Expected own to be 9408 bytes .* got 3 bytes"),
    (EraseAndReconstruct, "own", None, "Expected own to be 9408 bytes .* got None"),
    (EraseAndReconstruct, "positions", "on", "Expected positions to be one of .* got 'on'"),
    (EraseAndReconstruct, "brush", 6, "Expected brush to be an integer from 1 to 5, but got 6"),
    (EraseAndReconstruct, "brush", True, "Expected brush .* got True"),
    (EraseAndReconstruct, "erased", [196], r"Expected erased .* from 0 to 195, but got \[196\]"),
    (EraseAndReconstruct, "erased", [3, 3], "Expected erased to be a list of different integers"),
    (EraseAndReconstruct, "erased", [0.5], "Expected erased"),
    (EraseAndReconstruct, "erased", None, "Expected erased .* got None"),
    (ClassAttention, "layer", 2, "Expected layer to be an integer from 0 to 1, but got 2"),
    (ClassAttention, "head", 4, "Expected head to be an integer from 0 to 3, but got 4"),
    (ClassAttention, "head", "mean", "Expected head .* got 'mean'"),
    (ClassAttention, "patch", -1, "Expected patch to be an integer from 0 to 195, but got -1"),
    (ClassAttention, "hide", "all", "Expected hide to be one of 'nothing'.* got 'all'"),
    (ClassAttention, "count", 196, "Expected count to be an integer from 1 to 195, but got 196"),
    (ClassAttention, "lang", "fr", "Expected lang to be one of .* got 'fr'"),
]


@pytest.mark.parametrize(("kind", "name", "value", "message"), WRONG)
def test_wrong_values_are_refused_and_change_nothing(kind, name, value, message) -> None:
    explorer = kind()
    before = {key: getattr(explorer, key) for key in explorer.trait_names() if key[0] != "_"}
    with pytest.raises(TraitError, match=message):
        setattr(explorer, name, value)
    with pytest.raises(TraitError, match=message):
        kind(**{name: value})
    after = {key: getattr(explorer, key) for key in before}
    assert after == before


def test_wrong_crops_are_refused() -> None:
    with pytest.raises(vit.ShapeError, match=r"Expected crops of shape \(3, 56, 56\), but 'a' has"):
        EraseAndReconstruct(crops={"a": torch.zeros(3, 64, 64)})
    with pytest.raises(ValueError, match="none of them named 'own'"):
        ClassAttention(crops={"own": torch.zeros(3, 56, 56)})
    with pytest.raises(ValueError, match="Expected at least one crop"):
        ClassAttention(crops={})
    with pytest.raises(vit.DTypeError, match="'a' has torch.uint8: scale it first"):
        ClassAttention(crops={"a": torch.zeros(3, 56, 56, dtype=torch.uint8)})


def _model(image_size: int, num_layers: int = 1) -> ChapterModel:
    return ChapterModel(
        ["a", "b"],
        image_size=image_size,
        embed_dim=8,
        num_heads=2,
        num_layers=num_layers,
        hidden_dim=8,
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("kind", BOTH)
def test_a_model_of_another_dtype_is_shown_and_left_as_it_was(kind, dtype) -> None:
    model = _model(8).to(dtype)
    explorer = kind(model)
    assert explorer.still() and {p.dtype for p in model.parameters()} == {dtype}
    assert explorer._weights == pack(copy.deepcopy(model).float())[0]


def test_a_model_is_copied_and_rounded() -> None:
    model = _model(8)
    explorer = EraseAndReconstruct(model)
    assert explorer.model is not model
    expected = quantized(model).state_dict()
    assert all(torch.equal(t, expected[n]) for n, t in explorer.model.state_dict().items())


def test_a_model_that_cannot_be_shown_is_refused_in_our_words() -> None:
    with pytest.raises(vit.ShapeError, match=r"'cat', 256×385, .* are 300×300: pass crops"):
        EraseAndReconstruct(_model(300))
    assert EraseAndReconstruct(_model(300), {"mine": torch.rand(3, 300, 300)}).photograph == "mine"
    with pytest.raises(ValueError, match="at least two patches and one layer, but got 1 and 1"):
        ClassAttention(_model(4))
    with pytest.raises(ValueError, match="at least two patches and one layer, but got 4 and 0"):
        ClassAttention(_model(8, num_layers=0))
    assert EraseAndReconstruct(_model(4)).still()
    model = _model(8)
    with torch.no_grad():
        model.mask_token[0, 0, 0] = 1e9
    with pytest.raises(ValueError, match="finite weights of at most 8e6"):
        EraseAndReconstruct(model)


def test_an_image_of_ones_own_is_shown_and_kept() -> None:
    image = crop(5)[0]
    explorer = EraseAndReconstruct(own=rgb8(image), photograph="own")
    torch.testing.assert_close(explorer.image()[0], image, atol=1 / 255, rtol=0)
    with pytest.raises(TraitError, match="while photograph is 'own'"):
        explorer.own = b""
    explorer.set_state({"own": memoryview(rgb8(1 - image)), "photograph": "own"})  # as a page does
    torch.testing.assert_close(explorer.image()[0], 1 - image, atol=1 / 255, rtol=0)


def test_python_tells_the_same_story_as_the_chapter(model) -> None:
    errors = {kind: error_of(EraseAndReconstruct(positions=kind)) for kind in vit_positions()}
    assert errors["true"] < errors["shuffled"] < errors["off"]
    explorer = ClassAttention()
    attention = explorer.attention()
    assert attention.shape == (2, 4, 197)
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, 4))
    explorer.hide, explorer.count = "most", 20
    hidden = explorer.mask()[0]
    shown = attention[explorer.layer, explorer.head, 1:]
    assert hidden.sum() == 20 and shown[hidden].min() >= shown[~hidden].max()


def vit_positions() -> tuple[str, ...]:
    from dnnl.explorers.erase import POSITIONS

    return POSITIONS


# ---- EraseAndReconstruct, operated ---------------------------------------------------------------

PIXELS = """
(canvas, [height, width]) => {
  const copy = document.createElement("canvas");
  const [w, h] = [copy.width, copy.height] = [canvas.width, canvas.height];
  const ctx = copy.getContext("2d", { willReadFrequently: true });
  ctx.drawImage(canvas, 0, 0);
  const { data } = ctx.getImageData(0, 0, w, h), out = [];
  for (let r = 0; r < height; r++) for (let c = 0; c < width; c++) {
    const y = Math.floor((r + 0.5) / height * h), x = Math.floor((c + 0.5) / width * w);
    out.push(...data.slice(4 * (y * w + x), 4 * (y * w + x) + 3));
  }
  return out;
}
"""


def pixels(canvas, height: int = 56, width: int = 56) -> torch.Tensor:
    """What a canvas shows, as an image ``(3, height, width)`` in [0, 1]."""
    values = torch.tensor(canvas.evaluate(PIXELS, [height, width]))
    return values.reshape(height, width, 3).permute(2, 0, 1) / 255


def middle(canvas, row: int, column: int) -> tuple[float, float]:
    """Where the middle of a patch is in the window."""
    box = canvas.bounding_box()
    x, y = ((i + 0.5) / 14 for i in (column, row))
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


class Eraser:
    """An EraseAndReconstruct on a page, as a reader handles it, and its twin in Python."""

    def __init__(self, page, nth: int = 0) -> None:
        self.page = page.page
        self.shown = page
        self.root = self.page.locator(".dnnl-explorer").nth(nth)
        self.seen, self.filled, self.photo = (self.root.locator("canvas").nth(i) for i in range(3))

    def patch(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a patch in the window."""
        box = self.seen.bounding_box()
        return box["x"] + (column + 0.5) * box["width"] / 14, box["y"] + (row + 0.5) * box[
            "height"
        ] / 14

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        self.seen.scroll_into_view_if_needed()
        self.page.mouse.move(*self.patch(*start))
        self.page.mouse.down()
        self.page.mouse.move(*self.patch(*end))
        self.page.mouse.up()
        self.shown.frames()

    def press(self, *keys: str) -> None:
        self.seen.focus()
        for key in keys:
            self.page.keyboard.press(key)
        self.shown.frames()

    def radio(self, text: str) -> None:
        self.root.get_by_role("radio", name=text).check(force=True)
        self.shown.frames()

    @property
    def says(self) -> str:
        return self.root.locator(".dnnl-says").inner_text()

    def holes(self, photo: torch.Tensor) -> set[int]:
        """The patches that the first picture does not show."""
        self.page.mouse.move(0, 0)
        self.page.evaluate("document.activeElement.blur()")  # else the eraser is in sight
        self.shown.frames()
        off = (pixels(self.seen) - photo).abs()
        return set(vit.patchify(off[None], 4)[0].mean(1).gt(0.02).nonzero().flatten().tolist())

    def check(self, twin: EraseAndReconstruct) -> None:
        """Text, pictures and holes are those that PyTorch computes for the twin's state."""
        count, mask = len(twin.erased), twin.mask()
        with torch.no_grad():
            image = twin.image()
            own = twin.model.standardize(image)
            filled = twin.model.reconstruct(image, mask, twin.table())
            logits = twin.model.vit.head(twin.model.encode(image, mask, twin.table()))
        expected = twin.model.picture(torch.where(mask[..., None], filled, own), (14, 14))[0]
        assert (pixels(self.filled) - expected).abs().max() <= 1.01 / 255
        assert (pixels(self.photo) - image[0]).abs().max() < 1e-6
        probability, best = logits.softmax(-1)[0].max(-1)
        assert f"{twin.model.photographs[best]}, {100 * probability:.0f} %" in self.says
        if count:
            shown = float(re.search(r"erased; .*: ([\d.]+)\. ", self.says)[1])
            assert shown == pytest.approx(error_of(twin), abs=6e-4)
            assert f"{count} of 196" in self.says
        assert self.holes(image[0]) == set(twin.erased)


@book
def test_it_starts_with_half_of_the_cat_erased_and_filled_in(show) -> None:
    Eraser(show(EraseAndReconstruct())).check(EraseAndReconstruct())


@book
def test_dragging_erases_and_dragging_from_a_hole_restores(show) -> None:
    eraser = Eraser(show(EraseAndReconstruct(erased=[], brush=1)))
    assert "Nothing is erased" in eraser.says
    eraser.drag((3, 2), (3, 9))  # one step of the pointer: nothing in between is skipped
    row = [3 * 14 + column for column in range(2, 10)]
    eraser.check(EraseAndReconstruct(erased=row))
    eraser.drag((3, 4), (3, 6))
    eraser.check(EraseAndReconstruct(erased=[i for i in row if i % 14 not in (4, 5, 6)]))


@book
@pytest.mark.parametrize(("brush", "expected"), [(2, (0, 2)), (3, (-1, 2)), (5, (-2, 3))])
def test_the_eraser_has_the_size_that_was_set(show, brush, expected) -> None:
    eraser = Eraser(show(EraseAndReconstruct(erased=[])))
    eraser.root.get_by_label("Eraser").fill(str(brush))
    eraser.shown.frames()
    eraser.drag((6, 7), (6, 7))
    span = range(*expected)
    square = sorted((6 + r) * 14 + 7 + c for r in span for c in span)
    eraser.check(EraseAndReconstruct(erased=square))


@book
def test_the_keyboard_does_all_that_the_pointer_does(show) -> None:
    eraser = Eraser(show(EraseAndReconstruct(erased=[], brush=1)))
    eraser.press("Home", *["ArrowUp"] * 9, "Space", "ArrowRight", "ArrowDown", "Enter")
    assert eraser.says.startswith("2 of 196")
    eraser.check(EraseAndReconstruct(erased=[0, 15]))
    eraser.press("ArrowUp", "ArrowLeft")
    assert eraser.says == "Row 0, column 0: erased."
    eraser.press("Space")
    eraser.check(EraseAndReconstruct(erased=[15]))


@book
def test_a_finger_erases_without_scrolling_the_page(show) -> None:
    page = show(
        EraseAndReconstruct(erased=[], brush=1),
        viewport={"width": 360, "height": 640},
        has_touch=True,
        is_mobile=True,
    )
    eraser = Eraser(page)
    eraser.seen.scroll_into_view_if_needed()
    top = page.page.evaluate("scrollY")
    session = page.page.context.new_cdp_session(page.page)

    def touch(kind, *places):
        points = [{"x": x, "y": y} for x, y in places]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", eraser.patch(2, 5))
    for row in (4, 6, 9):
        touch("touchMove", eraser.patch(row, 5))
        page.frames(1)
    touch("touchEnd")
    page.frames()
    assert page.page.evaluate("scrollY") == top
    eraser.check(EraseAndReconstruct(erased=[14 * row + 5 for row in range(2, 10)]))
    page.page.touchscreen.tap(*eraser.patch(0, 0))
    page.frames()
    assert eraser.says.startswith("9 of 196")


@book
@pytest.mark.parametrize("positions", ["off", "shuffled"])
def test_positions_can_be_switched(show, positions) -> None:
    eraser = Eraser(show(EraseAndReconstruct()))
    eraser.radio({"off": "off (zeros)", "shuffled": "shuffled"}[positions])
    eraser.check(EraseAndReconstruct(positions=positions))


@book
def test_without_positions_all_holes_get_one_and_the_same_patch(show) -> None:
    """What the caption says."""
    explorer = EraseAndReconstruct(positions="off")
    eraser = Eraser(show(explorer))
    patches = vit.patchify(pixels(eraser.filled)[None], 4)[0, explorer.erased]
    assert (patches - patches[0]).abs().max() == 0


@book
def test_the_errors_of_all_three_kinds_stand_side_by_side(show) -> None:
    eraser = Eraser(show(EraseAndReconstruct()))
    eraser.page.wait_for_timeout(400)
    lines = eraser.root.locator(".dnnl-bars > div").all_inner_texts()
    shown = [float(line.split()[-1]) for line in lines]
    expected = [error_of(EraseAndReconstruct(positions=k)) for k in ("true", "off", "shuffled")]
    assert shown == pytest.approx(expected, abs=6e-4)


@book
def test_another_photograph_half_erased_and_restored(show) -> None:
    eraser = Eraser(show(EraseAndReconstruct()))
    eraser.root.get_by_label("Photograph", exact=True).select_option("astronaut")
    eraser.shown.frames()
    eraser.check(EraseAndReconstruct(photograph="astronaut"))
    before = eraser.holes(EraseAndReconstruct(photograph="astronaut").image()[0])
    eraser.root.get_by_role("button", name="Erase half").click()
    eraser.shown.frames()
    holes = eraser.holes(EraseAndReconstruct(photograph="astronaut").image()[0])
    assert len(before) == len(holes) == 98 and holes != before
    eraser.check(EraseAndReconstruct(photograph="astronaut", erased=sorted(holes)))
    eraser.root.get_by_role("button", name="Restore").click()
    eraser.shown.frames()
    eraser.check(EraseAndReconstruct(photograph="astronaut", erased=[]))
    lines = eraser.root.locator(".dnnl-bars > div").all_inner_texts()
    assert all(line.split()[-1] == "–" for line in lines)


def png_file(image: torch.Tensor) -> bytes:
    out = io.BytesIO()
    pixels_ = (image * 255).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(pixels_).save(out, "PNG")
    return out.getvalue()


def choose(page, content: bytes) -> None:
    """Choose a file as one's own image, and wait until it is shown."""
    chosen = {"name": "a.png", "mimeType": "image/png", "buffer": content}
    page.page.locator("input[type=file]").set_input_files(chosen)
    own_is_shown(page)


def own_is_shown(page) -> None:
    page.page.wait_for_function("document.querySelector('select').value === '5'")
    page.frames()


@book
@pytest.mark.parametrize("kind", BOTH)
def test_an_image_file_of_ones_own_can_be_chosen(show, kind) -> None:
    page = show(kind())
    own = crop(7)[0]
    wide = torch.nn.functional.pad(own, (20, 20, 0, 0))  # its middle is taken
    choose(page, png_file(wide))
    option = page.page.locator("select option:checked").inner_text()
    assert option == "your own image"
    if kind is EraseAndReconstruct:
        Eraser(page).check(EraseAndReconstruct(own=rgb8(own), photograph="own"))
    page.page.get_by_label("Photograph", exact=True).select_option("cat")
    page.frames()
    if kind is EraseAndReconstruct:
        Eraser(page).check(EraseAndReconstruct())


@book
def test_a_large_photograph_is_reduced_without_skipping_pixels(show) -> None:
    page = show(EraseAndReconstruct(erased=[]))
    fine = torch.zeros(3, 448, 448)
    fine[:, ::2] = 1  # stripes of one pixel: grey, if every pixel counts
    choose(page, png_file(fine))
    assert (pixels(Eraser(page).photo) - 0.5).abs().max() < 0.03


@book
def test_an_image_can_be_dropped_and_other_files_are_refused_politely(show) -> None:
    page = show(EraseAndReconstruct())
    drop = """([content, type]) => {
      const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
      const files = new DataTransfer();
      files.items.add(new File([bytes], "a", { type }));
      const options = { dataTransfer: files, bubbles: true, cancelable: true };
      const event = (kind) => new DragEvent(kind, options);
      const root = document.querySelector(".dnnl-explorer");
      root.dispatchEvent(event("dragover"));
      const marked = root.classList.contains("dnnl-live-over");
      return [marked, !root.dispatchEvent(event("drop"))];
    }"""
    text = base64.b64encode(b"no image").decode()
    assert page.page.evaluate(drop, [text, "text/plain"]) == [True, True]
    says = page.page.locator(".dnnl-says")
    page.page.wait_for_function(
        "document.querySelector('.dnnl-says').textContent.includes('not an image')"
    )
    Eraser(page).radio("as learned")
    assert "not an image" in says.inner_text()  # nothing else has changed
    own = crop(8)[0]
    assert page.page.evaluate(
        drop, [base64.b64encode(png_file(own)).decode(), "a.png", "image/png"]
    ) == [True, True]
    own_is_shown(page)
    Eraser(page).check(EraseAndReconstruct(own=rgb8(own), photograph="own"))
    assert not page.page.locator(".dnnl-live-over").count()


# ---- ClassAttention, operated --------------------------------------------------------------------


class Reader:
    """A ClassAttention on a page."""

    def __init__(self, page) -> None:
        self.page, self.shown = page.page, page
        self.root = self.page.locator(".dnnl-explorer").first
        self.map, self.photo = (self.root.locator(".dnnl-live-view canvas").nth(i) for i in (0, 1))

    def check(self, twin: ClassAttention) -> None:
        """Texts, bars and brightest patch are those that PyTorch computes for the twin's state."""
        weights = twin.attention()[twin.layer]
        row = weights.mean(0) if twin.head is None else weights[twin.head]
        says, verdict = self.root.locator(".dnnl-says").all_inner_texts()
        plain, own = 100 / 197, 100 * row[0]
        picked = re.search(r"Patch (\d+) \(row (\d+), column (\d+)\) gets ([\d.]+) %", says)
        assert [int(picked[i]) for i in (1, 2, 3)] == [twin.patch, *divmod(twin.patch, 14)]
        assert float(picked[4]) == pytest.approx(100 * row[1 + twin.patch].item(), abs=6e-3)
        assert f"a plain mean would give it {plain:.2f} %" in says
        assert f"the class token itself {own:.1f} %" in says
        with torch.no_grad():
            p = twin.model.vit.head(twin.model.encode(twin.image(), twin.mask())).softmax(-1)[0]
        best = p.argmax()
        assert f"{twin.model.photographs[best]}, {100 * p[best]:.0f} %" in verdict
        bars = self.root.locator(".dnnl-bars > div").all_inner_texts()
        assert [bar.split()[0] for bar in bars] == list(twin.model.photographs)
        shown = torch.tensor([float(bar.split()[-2]) for bar in bars])
        assert (shown - 100 * p).abs().max() <= 0.51
        label = self.map.get_attribute("aria-label")
        top = row[1:].argmax().item()
        assert f"most at row {top // 14}, column {top % 14}" in label
        # the map itself: brighter means more (viridis grows in luminance)
        light = pixels(self.map, 14, 14).mul(torch.tensor([0.3, 0.59, 0.11])[:, None, None]).sum(0)
        light, row = light.flatten(), row[1:]
        keep = torch.arange(196) != twin.patch  # (under the frame)
        order = row[keep].argsort()
        assert (light[keep][order].diff() > -0.02).all()


@book
def test_the_maps_are_those_of_pytorch_for_every_layer_and_head(show) -> None:
    page = show(ClassAttention())
    reader = Reader(page)
    reader.check(ClassAttention())
    for layer in (0, 1):
        for head in (None, 0, 1, 2, 3):
            name = f"layer {layer}, " + ("mean" if head is None else f"head {head}")
            page.page.get_by_role("radio", name=name, exact=True).check(force=True)
            page.frames()
            reader.check(ClassAttention(layer=layer, head=head))


@book
def test_a_patch_is_picked_by_mouse_key_and_finger(show) -> None:
    page = show(ClassAttention(), has_touch=True)
    reader = Reader(page)

    def place(canvas, row, column):
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        return box["x"] + (column + 0.5) * box["width"] / 14, box["y"] + (row + 0.5) * box[
            "height"
        ] / 14

    page.page.mouse.move(*place(reader.map, 2, 3))
    page.frames()
    reader.check(ClassAttention(patch=31))
    page.page.touchscreen.tap(*place(reader.photo, 13, 13))
    page.frames()
    reader.check(ClassAttention(patch=195))
    reader.map.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft", "Home"):  # the border holds
        page.page.keyboard.press(key)
    page.frames()
    reader.check(ClassAttention(patch=12 * 14))


@book
@pytest.mark.parametrize("photograph", ["temple", "flower", "astronaut"])
def test_hiding_what_is_attended_most_costs_the_name(show, photograph) -> None:
    """What the caption suggests to try; hiding as many of the others does not cost it."""
    state = {"photograph": photograph, "layer": 0, "head": None}
    page = show(ClassAttention(**state))
    reader = Reader(page)
    slider = page.page.get_by_label("How many")
    assert slider.is_disabled()
    names = []
    for kind in ("most", "least"):
        page.page.get_by_role("radio", name=f"{kind} attended").check(force=True)
        page.frames()
        twin = ClassAttention(hide=kind, **state)
        reader.check(twin)
        off = (pixels(reader.photo) - twin.image()[0]).abs()
        hidden = vit.patchify(off[None], 4)[0].mean(1) > 0.02
        near = [-15, -14, -13, -1, 0, 1, 13, 14, 15]  # (under the frame)
        around = [i for i in (twin.patch + step for step in near) if 0 <= i < 196]
        hidden[around] = twin.mask()[0, around]
        assert torch.equal(hidden, twin.mask()[0])
        names.append(
            re.search(r"named: (\w+)", page.page.locator(".dnnl-says").nth(1).inner_text())[1]
        )
    assert names[0] != photograph and names[1] == photograph
    slider.fill("10")
    page.frames()
    reader.check(ClassAttention(hide="least", count=10, **state))


# ---- both ----------------------------------------------------------------------------------------


@book
@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("width", [320, 360, 800])
def test_it_fits_and_can_be_touched_and_keeps_its_room(show, kind, width) -> None:
    page = show(kind(), viewport={"width": width, "height": 700})
    assert page.overflow() <= 0
    small = page.page.evaluate(
        "[...document.querySelectorAll('.dnnl-explorer :is(button, select, input[type=range],"
        " fieldset label)')]"
        ".map(e => [e.outerHTML.slice(0, 90), e.getBoundingClientRect()])"
        ".filter(([, box]) => Math.min(box.width, box.height) < 39.5).map(([html]) => html)"
    )
    assert not small
    explorer = page.page.locator(".dnnl-explorer")
    room = float(explorer.evaluate("e => parseFloat(getComputedStyle(e).minHeight)"))
    height = explorer.bounding_box()["height"]
    print(kind.__name__, width, "height", height, "room", room)
    assert height - room < 0.05 * room


@book
@pytest.mark.parametrize("kind", BOTH)
def test_it_works_in_the_dark_and_without_motion(show, kind) -> None:
    page = show(kind(), theme="dark", reduced_motion="reduce")
    moving = page.page.evaluate("document.getAnimations().length")
    paper = page.page.evaluate(
        "getComputedStyle(document.querySelector('.dnnl-explorer')).backgroundColor"
    )
    assert not moving and paper == "rgb(18, 18, 18)"
    if kind is EraseAndReconstruct:
        Eraser(page).check(EraseAndReconstruct())
