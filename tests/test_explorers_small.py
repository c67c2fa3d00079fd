"""TokenGradient, Offset and ShapeFlow: what they show is what PyTorch computes."""

from __future__ import annotations

import base64
import io
import itertools
import re
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ipywidgets import Widget
from ipywidgets.embed import dependency_state
from PIL import Image
from torch import nn
from traitlets import TraitError

import dnnl
import dnnl.models.vit as vit
from dnnl import data
from dnnl.explorers import Offset, ShapeFlow, TokenGradient
from dnnl.explorers import offset as offset_data
from dnnl.explorers import token_gradient as gradient_data

book = pytest.mark.book
ALL = [TokenGradient, Offset, ShapeFlow]
PHONE = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Forget the widgets of a test, which the pages of the next would carry."""
    yield
    Widget.close_all()


# ---- in other people's notebooks ----------------------------------------------------------------


def test_in_colab_the_manager_of_widgets_is_named(monkeypatch) -> None:
    """Without it Colab shows no widget of a third party (anywidget, issue 63)."""
    assert "colab" not in str(ShapeFlow()._repr_mimebundle_()[1])
    output = ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: None
    output._widgets = SimpleNamespace(_installed_url="https://example.org/manager.js")
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    data, metadata = ShapeFlow()._repr_mimebundle_()
    assert "custom_widget_manager" in metadata["application/vnd.jupyter.widget-view+json"]["colab"]
    assert data["image/png"]


@book
def test_plain_keys_are_the_controls_own(show) -> None:
    """JupyterLab takes keys for its cells unless the focused element says it wants them."""
    page = show(ShapeFlow()).page
    page.evaluate(
        """() => {
          window.kept = {};
          const lab = (e) => { kept[e.key] = e.target.hasAttribute("data-lm-suppress-shortcuts"); };
          document.addEventListener("keydown", lab, true);
        }"""
    )
    page.locator(".dnnl-explorer input[type=range]").first.focus()
    for key in ("ArrowRight", "x", "Shift+Enter", "Control+s", "ArrowLeft"):
        page.keyboard.press(key)
    kept = page.evaluate("kept")
    assert kept["ArrowRight"] and kept["x"] and kept["ArrowLeft"]
    assert not kept["Enter"] and not kept["s"]  # the notebook's own: run the cell, save
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("y")
    assert not page.evaluate("kept.y")


# ---- in Python --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        (TokenGradient, "images", [], r"at least one name, but got \[\]"),
        (TokenGradient, "images", "cat", "Expected images to be a list .* got 'cat'"),
        (TokenGradient, "images", ["dog"], "Expected every name in images .* got 'dog'"),
        (TokenGradient, "images", ["cat", "cat"], "Expected no name twice in images"),
        (TokenGradient, "reduction", "max", "Expected reduction to be one of .* got 'max'"),
        (TokenGradient, "spread", None, "Expected spread to be one of .* got None"),
        (Offset, "scale", 1.6, "Expected scale to be a number from 0 to 1.5, but got 1.6"),
        (Offset, "scale", float("nan"), "Expected scale .* got nan"),
        (Offset, "scale", "1", "Expected scale .* got '1'"),
        (Offset, "table", np.array(["trained", "x"]), "Expected table .* got array"),
        (TokenGradient, "images", np.array(["cat"]), "Expected images to be a list .* got array"),
        (TokenGradient, "reduction", np.zeros(2), "Expected reduction .* got array"),
        (Offset, "scale", np.zeros(2), "Expected scale .* got array"),
        (Offset, "table", "fresh", "Expected table to be one of .* got 'fresh'"),
        (Offset, "patch", 196, "Expected patch to be an integer from 0 to 195, but got 196"),
        (Offset, "patch", 1.0, "Expected patch .* got 1.0"),
        (ShapeFlow, "height", 15, "Expected height to be an integer from 16 to 512, but got 15"),
        (ShapeFlow, "width", 513, "Expected width to be an integer from 16 to 512, but got 513"),
        (ShapeFlow, "width", None, "Expected width .* got None"),
        (ShapeFlow, "patch_size", 0, "Expected patch_size .* from 1 to 32, but got 0"),
        (ShapeFlow, "in_channels", True, "Expected in_channels .* got True"),
        (ShapeFlow, "embed_dim", 100, "Expected embed_dim to be a multiple of 8, but got 100"),
        (ShapeFlow, "num_prefix_tokens", -1, "Expected num_prefix_tokens .* got -1"),
        (ShapeFlow, "lang", "fr", "Expected lang to be one of .* got 'fr'"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(kind, name, value, message) -> None:
    explorer = kind()
    before = {key: getattr(explorer, key) for key in explorer.trait_names() if key[0] != "_"}
    with pytest.raises(TraitError, match=message):
        setattr(explorer, name, value)
    with pytest.raises(TraitError, match=message):
        kind(**{name: value})
    assert {key: getattr(explorer, key) for key in before} == before


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        (TokenGradient, {"reduction": "mean"}),
        (Offset, {"table": "sincos"}),
        (ShapeFlow, {"height": 230}),
    ],
)
def test_stills_are_small_pictures_of_the_state(kind, other) -> None:
    first, second = kind().still(), kind(**other).still()
    assert first != second
    for still in (first, second):
        assert len(still) <= 60_000
        with Image.open(io.BytesIO(still)) as image:
            assert image.format == "PNG" and min(image.size) > 90
    assert repr(kind()) == f"{kind.__name__}()"


@pytest.mark.parametrize("kind", ALL)
def test_the_state_is_small_and_making_it_draws_no_random_numbers(kind) -> None:
    for cached in (gradient_data.gradients, offset_data.tables, offset_data.views):
        cached.cache_clear()
    before = torch.random.get_rng_state()
    explorer = kind()
    stored = dependency_state(explorer)[explorer.model_id]
    assert sum(len(buffer["data"]) for buffer in stored.get("buffers", [])) < 60_000
    assert torch.equal(torch.random.get_rng_state(), before)


# ---- TokenGradient: gradients of the parameter itself, by autograd ------------------------------


class Repeat(vit.ViTAddClassToken):
    """The class token, put in front by ``repeat`` in place of ``expand``."""

    def forward(self, x):
        return torch.cat([self.cls_token.repeat(x.shape[0], 1, 1), x], dim=1)


def batch_gradient(chosen: list[int], reduction: str, spread: str) -> torch.Tensor:
    model, images, labels = gradient_data.build()
    if spread == "repeat":
        module = Repeat(gradient_data.DIM).double()
        module.load_state_dict(model.backbone.embedding.add_cls_token.state_dict())
        model.backbone.embedding.add_cls_token = module
    token = model.backbone.embedding.add_cls_token.cls_token
    loss = F.cross_entropy(model(images[chosen]), labels[chosen], reduction=reduction)
    return torch.autograd.grad(loss, token)[0].flatten()


@pytest.mark.parametrize("chosen", [[0], [3], [1, 4], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]])
def test_the_tokens_gradient_is_what_autograd_gives_by_expand_and_by_repeat(chosen) -> None:
    names = [gradient_data.PHOTOGRAPHS[i] for i in chosen]
    for reduction, spread in itertools.product(("sum", "mean"), ("expand", "repeat")):
        shown = TokenGradient(images=names, reduction=reduction, spread=spread).batch_gradient()
        expected = batch_gradient(chosen, reduction, spread)
        torch.testing.assert_close(shown, expected, rtol=1e-9, atol=1e-12)


def test_the_plane_is_the_one_that_keeps_most() -> None:
    g, plane = gradient_data.gradients(), gradient_data.plane()
    torch.testing.assert_close(plane @ plane.T, torch.eye(2).double())
    most = torch.linalg.eigvalsh(g.T @ g)[-2:].sum()
    torch.testing.assert_close((g @ plane.T).square().sum(), most)


def gradient_page(show, **options: Any):
    shown = show(TokenGradient(), **options)
    page = shown.page
    return shown, page, page.locator(".dnnl-strip"), page.locator(".dnnl-total output")


def painted(canvas) -> torch.Tensor:
    """The pixels of a canvas, ``(height, width, 4)``."""
    data = canvas.evaluate("c => c.toDataURL()").split(",")[1]
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return torch.from_numpy(np.array(image.convert("RGBA")))


@book
def test_the_page_adds_up_the_gradients_of_the_ticked_images(show) -> None:
    shown, page, strips, total = gradient_page(show)
    g = gradient_data.gradients()
    lengths = page.locator(".dnnl-flow:not(.dnnl-total) output").all_inner_texts()
    assert [float(v) for v in lengths] == pytest.approx(g.norm(dim=1).tolist(), abs=0.006)

    chosen = [0, 1, 2, 3]
    for tick in (4, 1, 0, 5):
        page.get_by_role("checkbox").nth(tick).click()
        chosen = sorted(set(chosen) ^ {tick})
        for name in ("sum", "mean"):
            page.get_by_role("radio", name=name).click()
            shown.frames()
            expected = getattr(g[chosen], name)(dim=0)
            length = total.inner_text()
            assert float(length) == pytest.approx(expected.norm().item(), abs=0.006)
            says = page.locator(".dnnl-says").inner_text()
            assert says == (
                f"A batch of {len(chosen)}: the token receives the {name}, of length {length}."
            )
            # The colours of the strip: orange where the gradient is positive, purple elsewhere.
            colours = painted(strips.last)[0]
            clear = expected.abs() > 0.1
            orange = colours[:, 0] > colours[:, 2]
            assert torch.equal(orange[clear], expected[clear] > 0)


@book
def test_expand_or_repeat_changes_memory_and_not_the_gradient(show) -> None:
    shown, page, strips, total = gradient_page(show)
    memory, rows = page.locator(".dnnl-memory"), page.locator(".dnnl-copies span")
    before, strip = total.inner_text(), painted(strips.last)
    assert "4 views of one row in memory, 256 bytes" in memory.inner_text()
    assert page.locator(".dnnl-copies .dnnl-view").count() == 3
    page.get_by_role("radio", name="repeat").click()
    shown.frames()
    assert "4 rows in memory, 1024 bytes" in memory.inner_text()
    assert rows.count() == 4 and page.locator(".dnnl-copies .dnnl-view").count() == 0
    assert total.inner_text() == before and torch.equal(painted(strips.last), strip)
    token = torch.zeros(1, 1, 64)
    for spread, size in (("expand", 256), ("repeat", 1024)):
        copies = token.expand(4, -1, -1) if spread == "expand" else token.repeat(4, 1, 1)
        assert copies.untyped_storage().nbytes() == size


@book
def test_a_batch_keeps_its_last_image_and_keys_work(show) -> None:
    shown, page, _, total = gradient_page(show)
    boxes = page.get_by_role("checkbox")
    for i in range(3):
        boxes.nth(i).focus()
        page.keyboard.press("Space")
    shown.frames()
    alone = total.inner_text()
    assert float(alone) == pytest.approx(gradient_data.gradients()[3].norm().item(), abs=0.006)
    boxes.nth(3).focus()
    page.keyboard.press("Space")
    shown.frames()
    assert boxes.nth(3).is_checked() and total.inner_text() == alone
    assert page.locator(".dnnl-says").inner_text() == "A batch needs at least one image."
    page.locator(".dnnl-toggle input").nth(0).focus()
    page.keyboard.press("ArrowRight")
    shown.frames()
    assert page.get_by_role("radio", name="mean").is_checked()


# ---- Offset -------------------------------------------------------------------------------------


def true_tokens(explorer: Offset) -> torch.Tensor:
    """The tokens of the photograph with the patch pasted, by the model: ``(N, D)``."""
    embedding = dnnl.load_chapter_model().embedding.double()
    with torch.no_grad():
        return embedding.patch_embed(data.standardize(explorer.image())[None].double())[0]


@pytest.mark.parametrize("table", offset_data.TABLES)
def test_the_plane_shows_the_models_own_tokens(table) -> None:
    explorer = Offset(table=table, patch=100)
    x, rows = true_tokens(explorer), offset_data.tables()[table]
    view = offset_data.views()[table]
    places = list(offset_data.PLACES)
    assert all(torch.equal(x[i], x[100]) for i in places)
    torch.testing.assert_close(view.rows, rows[places])

    # Of the photograph itself: z is moved along the plane as z is moved in space.
    plain = offset_data.tokens()
    z = plain + rows
    centred = z - z.mean(dim=0)
    shown = view.tokens + view.offsets
    torch.testing.assert_close(
        shown.square().sum(), torch.linalg.svdvals(centred)[:2].square().sum()
    )
    torch.testing.assert_close(shown @ shown.T, project(centred) @ project(centred).T)
    assert (torch.pdist(view.offsets) <= torch.pdist(rows) + 1e-9).all()


def project(centred: torch.Tensor) -> torch.Tensor:
    """The part of ``(N, D)`` that lies in its own main plane."""
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:2]
    return centred @ axes.T @ axes


def offset_page(show, *widgets: Offset, **options: Any):
    shown = show(*(widgets or (Offset(),)), **options)
    return shown, shown.page, shown.page.locator(".dnnl-says")


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"\d+\.\d+", text)]


def green(canvas) -> int:
    """How many pixels have the colour of the numbers' discs."""
    disc = torch.tensor([0, 0x69, 0x4D, 255], dtype=torch.uint8)
    return (painted(canvas) == disc).all(dim=-1).sum().item()


def expect_text(locator, start: str) -> None:
    from playwright.sync_api import expect

    expect(locator).to_contain_text(start)


@book
def test_without_the_table_the_eight_are_one_point(show) -> None:
    shown, page, says = offset_page(show)
    plane = page.locator(".dnnl-offset canvas").nth(1)
    apart = green(plane)
    slider = page.locator("input[type=range]").first
    slider.focus()
    page.keyboard.press("Home")
    expect_text(says, "the eight equal patches are one token: all distances are 0")
    assert "0.00 times" in plane.get_attribute("aria-label")
    assert green(plane) < 0.35 * apart  # one disc in place of eight
    page.keyboard.press("ArrowRight")
    expect_text(says, "0.05 ·")


@book
def test_a_patch_is_chosen_by_mouse_by_keys_and_by_finger(show) -> None:
    _, page, _ = offset_page(show)
    photo = page.locator(".dnnl-offset canvas").first
    box = photo.bounding_box()
    cell = box["width"] / 14
    photo.click(position={"x": 9.5 * cell, "y": 2.5 * cell})
    value = page.locator(".dnnl-slider output").nth(1)
    expect_text(value, "37 (2, 9)")
    for key in ("ArrowDown", "ArrowRight", "ArrowUp", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    expect_text(value, "23 (1, 9)")
    for _ in range(3):  # the border stops it
        page.keyboard.press("ArrowUp")
    expect_text(value, "9 (0, 9)")
    assert "patch 9 (row 0, column 9)" in photo.get_attribute("aria-label")

    shown, page, _ = offset_page(show, **PHONE)
    photo = page.locator(".dnnl-offset canvas").first
    photo.tap(position={"x": 5, "y": 5})
    expect_text(page.locator(".dnnl-slider output").nth(1), "0 (0, 0)")
    assert shown.overflow() <= 0


@book
def test_the_photograph_shows_the_patch_in_all_its_places(show) -> None:
    explorer = Offset(patch=150)
    _, page, _ = offset_page(show, explorer)
    photo = page.locator(".dnnl-offset canvas").first
    # A point of each place, away from outline and number, beside that of the patch itself.
    picture, middles = painted(photo), []
    side = picture.shape[0] / 14
    for i in (150, *offset_data.PLACES):
        row, column = divmod(i, 14)
        middles.append(picture[int((row + 0.6) * side), int((column + 0.4) * side), :3].tolist())
    row, column = divmod(150, 14)
    pixel = explorer.image()[:, row * 4 + 2, column * 4 + 1] * 255
    assert middles[0] == pixel.round().int().tolist()
    assert all(middle == middles[0] for middle in middles)


# ---- ShapeFlow ----------------------------------------------------------------------------------


SIZES = [
    (224, 224, 16, 3, 768, 1),
    (384, 384, 16, 3, 768, 1),
    (448, 112, 16, 4, 192, 0),
    (210, 84, 14, 1, 1280, 5),
    (16, 512, 1, 13, 8, 8),
]
NAMES = ("height", "width", "patch_size", "in_channels", "embed_dim", "num_prefix_tokens")


def true_shapes(sizes: tuple[int, ...]) -> tuple[list[str], list[int]]:
    """The shapes, with B for the batch, and the parameters, from the modules themselves."""
    H, W, P, C, D, prefix = sizes
    with torch.device("meta"):
        embed = vit.ViTEmbedding((H, W), P, C, D, num_prefix_tokens=prefix)
        image = torch.empty(1, C, H, W)
    tokens = embed.patch_embed(image)
    z = embed(image)
    T = z.shape[1]
    steps = [image, vit.patchify(image, P), tokens, embed.add_cls_token(tokens), z]
    shapes = [tuple(step.shape[1:]) for step in steps] + [(T, T)]
    weights = [
        sum(p.numel() for p in part.parameters())
        for part in (embed.patch_embed, embed.add_cls_token, embed.pos_embed)
    ]
    return [f"(B, {', '.join(map(str, shape))})" for shape in shapes], weights


@book
@pytest.mark.parametrize("sizes", SIZES)
def test_shapes_and_parameters_are_those_of_the_module(show, sizes) -> None:
    page = show(ShapeFlow(**dict(zip(NAMES, sizes, strict=True)))).page
    shapes, weights = true_shapes(sizes)
    assert page.locator(".dnnl-shape").all_inner_texts() == shapes
    text = page.locator(".dnnl-steps").inner_text()
    for count in weights:
        if count:
            assert f"= {count:,} parameters" in text
    assert f"{sum(weights):,} parameters" in page.locator(".dnnl-says").inner_text()
    T = int(shapes[-1][4:-1].split(", ")[0])
    assert f"= {T * T:,} weights" in text
    assert page.locator(".dnnl-refusal").is_hidden()


@book
@pytest.mark.parametrize("sizes", [(230, 238, 16), (224, 225, 16), (32, 17, 5), (16, 20, 32)])
def test_sizes_that_do_not_fit_are_refused_in_the_modules_own_words(show, sizes) -> None:
    H, W, P = sizes
    page = show(ShapeFlow(height=H, width=W, patch_size=P)).page
    with pytest.raises(vit.ShapeError) as raised:
        vit.ViTEmbedding((H, W), P)
    refusal = page.locator(".dnnl-refusal")
    assert refusal.locator("code").inner_text() == f"ShapeError: {raised.value}"
    assert page.locator(".dnnl-shape").all_inner_texts() == [f"(B, 3, {H}, {W})"]
    assert page.locator(".dnnl-parts").is_hidden()

    conv, said = nn.Conv2d(3, 1, P, stride=P), refusal.locator("p").inner_text()
    try:
        rows, columns = conv(torch.zeros(1, 3, H, W)).shape[2:]
    except RuntimeError:
        assert "Even a bare Conv2d refuses" in said
        return
    lost = [H - rows * P, W - columns * P]
    gone = H * W - rows * columns * P * P
    assert f"a grid of {rows} × {columns}" in said and f"{gone:,} pixels" in said
    for n, name in zip(lost, ("rows", "columns"), strict=True):
        assert (f"{n} {name}" in said) == (n > 0)
    for size in re.findall(r"(\d+) × (\d+)(?= /| would)", said):  # what it proposes does fit
        vit.ViTEmbedding((int(size[0]), int(size[1])), P, embed_dim=8)


@book
def test_sizes_are_chosen_by_slider_by_keys_and_from_the_list(show) -> None:
    page = show(ShapeFlow()).page
    sliders, list_ = page.locator("input[type=range]"), page.locator("select")
    assert list_.evaluate("s => s.selectedOptions[0].text") == "ViT-B/16 at 224"
    sliders.nth(2).focus()
    page.keyboard.press("ArrowLeft")
    expect_text(page.locator(".dnnl-refusal code"), "divisible by the patch size 15×15")
    assert list_.evaluate("s => s.selectedOptions[0].text") == "your own choice"
    sliders.nth(2).fill("8")
    expect_text(page.locator(".dnnl-says"), "784 patches; the encoder reads 785 tokens")
    list_.select_option(label="the chapter’s model")
    expect_text(page.locator(".dnnl-says"), "196 patches; the encoder reads 197 tokens of width 64")
    assert [s.input_value() for s in sliders.all()] == ["56", "56", "4", "3", "64", "1"]
    rows = dnnl.load_chapter_model().embedding
    total = sum(p.numel() for p in rows.parameters())
    expect_text(page.locator(".dnnl-says"), f"{total:,} parameters")


# ---- all three ----------------------------------------------------------------------------------
