"""The chapter's model and the resize of its table in JavaScript, beside torch; no browser."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from javascript import JavaScript, JavaScriptError

import dnnl
import dnnl.models.vit as vit
from dnnl import data, figures
from dnnl.chapter_model import ChapterModel
from dnnl.explorers import Resize, live
from dnnl.explorers.resize import MODES, MOST

VIT, KERNELS, COMPUTE = "live/vit.js", "resize/kernels.js", "resize/compute.js"


@pytest.fixture(scope="module")
def model() -> ChapterModel:
    return dnnl.load_chapter_model()


def crop(seed: int = 0, size: tuple[int, int] = (56, 56)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return data.crops(data.photographs(), 1, size, generator)[0].clamp(0, 1)


def random_mask(n: int, share: float) -> torch.Tensor:
    return torch.rand(1, n) < share


# ---- packed weights ------------------------------------------------------------------------------


def test_a_row_is_rounded_to_half_a_scale() -> None:
    matrix = torch.randn(20, 30) * torch.logspace(-4, 3, 20)[:, None]
    matrix[7] = 0
    integers, scales = live.quantize(matrix)
    assert integers.dtype == torch.int8 and scales.dtype == torch.float16
    back = integers * scales.float()[:, None]
    gap = (back - matrix).abs() / scales.float().clamp_min(1e-9)[:, None]
    assert gap.max() <= 0.5 + 127 * 2**-10  # the largest may be cut, since its scale is rounded
    assert torch.equal(back[7], matrix[7])


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e9])
def test_weights_that_cannot_be_packed_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="Expected finite weights of at most 8e6"):
        live.quantize(torch.tensor([[0.0, wrong]]))


def test_the_page_unpacks_what_was_packed(javascript: JavaScript, model: ChapterModel) -> None:
    packed, index = live.pack(model)
    json.dumps(index)
    assert len(packed) < 130_000
    found = javascript(VIT, "unpack", packed, index)
    assert list(found) == list(model.state_dict())
    for name, tensor in live.quantized(model).state_dict().items():
        torch.testing.assert_close(found[name], tensor.flatten(), rtol=0, atol=0)


def test_int8_changes_little(model: ChapterModel) -> None:
    """The numbers in the docstring of ``live.pack``."""
    rounded = live.quantized(model)
    for image in live.chapter_crops(56, 56).values():
        results = []
        for one in (model, rounded):
            with torch.no_grad():
                tokens = one.encoder(one.sequence(image[None]))
                named = one.vit.head(tokens).softmax(dim=-1)
                mask = random_mask(196, 0.6) if not results else results[0][3]
                filled = one.reconstruct(image[None], mask)
            error = (filled - one.standardize(image[None]))[mask].square().mean()
            results.append((tokens, named, error, mask))
        (tokens, named, error, _), (tokens8, named8, error8, _) = results
        assert (tokens8 - tokens).norm() / tokens.norm() <= 0.02
        assert (named8 - named).abs().max() <= 0.005
        assert (error8 - error).abs() <= 0.006


# ---- the forward pass ----------------------------------------------------------------------------


def run_in_page(javascript, model, image, mask=None, table=None) -> dict[str, torch.Tensor]:
    page = javascript.new(VIT, "ChapterVit", *live.pack(model))
    options = {"attention": True}
    if mask is not None:
        options["mask"] = mask[0].to(torch.uint8)
    if table is not None:
        options["table"] = table.flatten()
    out = page("forward", image[0].flatten(), *image.shape[2:], options)
    attention = out.pop("attention")
    return {**out, **{str(i): weights for i, weights in enumerate(attention)}}


def run_in_torch(model, image, mask=None, table=None) -> dict[str, torch.Tensor]:
    model = live.quantized(model)
    with torch.no_grad():
        sequence = model.sequence(image, mask, table)
        tokens, attention = model.encoder(sequence), vit.attention_maps(model.encoder, sequence)
        return {
            "tokens": tokens,
            "logits": model.vit.head(tokens),
            "patches": model.decoder(tokens[:, 1:]),
            "target": model.standardize(image),
            **{str(i): weights for i, weights in enumerate(attention)},
        }


def assert_equal(page: dict, expected: dict, relative: float = 1e-4) -> None:
    """Every output agrees, relative to its largest value (measured: 2e-6)."""
    assert page.keys() == expected.keys()
    for name, values in expected.items():
        got = page[name].reshape(values.shape)
        tolerance = relative * values.abs().max().item()
        torch.testing.assert_close(got, values, rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize("share", [None, 0.0, 0.5, 1.0])
def test_the_page_computes_what_pytorch_computes(javascript, model, share) -> None:
    image, mask = crop(1), None if share is None else random_mask(196, share)
    assert_equal(run_in_page(javascript, model, image, mask), run_in_torch(model, image, mask))


@pytest.mark.parametrize("grid", [(24, 20), (7, 9), (1, 1)])
def test_other_grids_and_tables_too(javascript, model, grid) -> None:
    image = crop(2, (4 * grid[0], 4 * grid[1]))
    table, mask = model.embedding.table_for(grid).detach(), random_mask(grid[0] * grid[1], 0.4)
    page = run_in_page(javascript, model, image, mask, table)
    assert_equal(page, run_in_torch(model, image, mask, table))


def test_other_models_too(javascript: JavaScript) -> None:
    shape = {"image_size": (24, 40), "patch_size": (3, 5), "embed_dim": 30, "hidden_dim": 50}
    other = ChapterModel(["a", "b", "c"], num_heads=5, num_layers=3, **shape).eval()
    for parameter in other.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    image, mask = torch.rand(1, 3, 24, 40), random_mask(64, 0.5)
    assert_equal(run_in_page(javascript, other, image, mask), run_in_torch(other, image, mask))


def test_a_table_that_does_not_fit_is_refused(javascript, model) -> None:
    with pytest.raises(JavaScriptError, match="197 positions for 100 tokens"):
        run_in_page(javascript, model, torch.zeros(1, 3, 36, 44))


def test_probabilities_and_the_error_of_hidden_patches(javascript: JavaScript) -> None:
    logits, patches, target = torch.randn(7), torch.randn(9, 12), torch.randn(9, 12)
    found = javascript(VIT, "probabilities", logits)
    torch.testing.assert_close(found, logits.softmax(0), rtol=1e-5, atol=1e-7)
    mask = torch.tensor([0, 1, 0, 0, 1, 1, 0, 0, 0], dtype=torch.uint8)
    error = javascript(VIT, "hiddenError", patches, target, mask)
    expected = (patches - target)[mask.bool()].square().mean().item()
    assert error == pytest.approx(expected, rel=1e-5)
    assert np.isnan(javascript(VIT, "hiddenError", patches, target, torch.zeros_like(mask)))


# ---- Resize --------------------------------------------------------------------------------------

GRIDS = [((14, 14), (r, c)) for r in (4, 7, 13, 14, 15, 24, 28) for c in (4, 9, 14, 28)] + [
    ((2, 8), (4, 4)),
    ((9, 5), (5, 9)),
    ((3, 31), (40, 2)),
    ((1, 6), (3, 1)),
    ((37, 1), (16, 1)),
]


@pytest.mark.parametrize("mode", MODES)
def test_a_table_is_resized_as_torch_does(javascript: JavaScript, mode: str) -> None:
    smooth = javascript(KERNELS, "isSmooth", mode)
    assert smooth == (mode in ("bicubic", "bilinear"))
    flags = (
        [(False, False), (True, False), (False, True), (True, True)] if smooth else [(False,) * 2]
    )
    for old, new in GRIDS:
        table = torch.randn(1, 1 + old[0] * old[1], 4)
        for corners, antialias in flags:
            options = {"dim": 4, "mode": mode, "alignCorners": corners, "antialias": antialias}
            ours = javascript(KERNELS, "resizeTable", table, old, new, options)
            expected = vit.interpolate_pos_embedding(
                table, old, new, mode=mode, align_corners=corners, antialias=antialias
            )
            torch.testing.assert_close(ours, expected.flatten(), rtol=0, atol=1e-4)
            assert torch.equal(ours[:4], table[0, 0])  # the class row, bit for bit


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
def test_whole_cells_are_chosen_as_torch_does(javascript: JavaScript, mode: str) -> None:
    """Where a cell is chosen by rounding, one cell to the side would be a large error."""
    for old in range(1, 33):
        line = torch.arange(float(old)).reshape(1, old, 1).expand(1, old, 3)
        for new in range(1, 41):
            taps = javascript(KERNELS, "resizeTaps", old, new, {"mode": mode})
            ours = [sum(k * w for k, w in zip(t["index"], t["weight"], strict=True)) for t in taps]
            expected = vit.interpolate_pos_embedding(
                line, (old, 1), (new, 1), num_prefix_tokens=0, mode=mode
            )
            assert ours == pytest.approx(expected[0, :, 0].tolist(), abs=1e-4), (old, new)


@pytest.mark.parametrize(("old", "new"), [(14, 24), (14, 7), (5, 1), (1, 4)])
def test_sampling_points_are_those_of_the_figures(javascript: JavaScript, old, new) -> None:
    for corners in (False, True):
        options = {"mode": "bicubic", "alignCorners": corners}
        ours = [javascript(KERNELS, "samplingPoint", old, new, i, options) for i in range(new)]
        assert ours == pytest.approx(figures.sampling_positions(old, new, align_corners=corners))


@pytest.mark.parametrize("grid", [(4, 4), (7, 9), (16, 24), (28, 28)])
def test_the_crop_and_its_holes_are_pythons(javascript: JavaScript, grid) -> None:
    explorer = Resize(rows=grid[0], columns=grid[1])
    ranks = torch.frombuffer(bytearray(explorer._order), dtype=torch.uint16)
    found = javascript(COMPUTE, "crop", explorer._pixels, ranks, MOST, 4, grid)
    image, mask = explorer.crop()
    assert (found["height"], found["width"]) == tuple(image.shape[2:])
    torch.testing.assert_close(found["image"], image.flatten(), rtol=0, atol=0.51 / 255)
    assert torch.equal(found["mask"].bool(), mask[0])


def test_colours_of_a_table_are_its_principal_components(javascript: JavaScript, model) -> None:
    explorer = Resize()
    values = torch.frombuffer(bytearray(explorer._colours), dtype=torch.float32)
    basis = javascript(COMPUTE, "basisOf", values, 64)
    mean, axes = values[:64], values[64:256].reshape(3, 64)
    low, high = values[256:259], values[259:]
    assert torch.equal(basis["mean"], mean) and torch.equal(basis["axes"], axes.flatten())
    assert torch.equal(basis["low"], low) and torch.equal(basis["high"], high)
    table = model.embedding.pos_embed.pos_embed.detach()[0]
    found = javascript(COMPUTE, "tableColours", table, basis).reshape(196, 4)
    places = (table[1:] - mean) @ axes.T
    expected = (255 * (places - low) / (high - low)).clamp(0, 255)
    torch.testing.assert_close(found[:, :3].float(), expected, rtol=0, atol=0.51)
    assert (found[:, 3] == 255).all()
    centred = table[1:] - table[1:].mean(dim=0)
    spread = torch.linalg.svdvals(centred)[:3].square().sum()
    torch.testing.assert_close((centred @ axes.T).square().sum(), spread, rtol=1e-4, atol=0)


def test_patches_become_pixels(javascript: JavaScript) -> None:
    patches = torch.randn(6, 48) / 2
    hide = torch.tensor([0, 1, 0, 0, 1, 0], dtype=torch.uint8)
    sizes = {"p": 4, "mean": data.MEAN, "std": data.STD}
    for mask in (None, hide):
        found = javascript(COMPUTE, "pixelsOf", patches, [2, 3], sizes, mask).reshape(8, 12, 4)
        values = patches * data.STD + data.MEAN
        if mask is not None:
            values = torch.where(mask.bool()[:, None], torch.full_like(values, 0.5), values)
        image = vit.unpatchify(values[None], 4, (2, 3))[0].permute(1, 2, 0)
        expected = (255 * image).clamp(0, 255)
        torch.testing.assert_close(found[..., :3].float(), expected, rtol=0, atol=0.51)
        assert (found[..., 3] == 255).all()
