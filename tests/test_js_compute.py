"""What the explorers compute in JavaScript, beside torch and cases worked by hand; no browser."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from javascript import JavaScript
from torch import Tensor

from dnnl import data
from dnnl.explorers import ClassAttention, EraseAndReconstruct, Pipeline, SimilarityMap
from dnnl.explorers import token_gradient as gradient_data
from dnnl.explorers.pipeline import ORDERS
from dnnl.models import vit
from dnnl.models.vit.checks import grid_shape

# ---- the shared library --------------------------------------------------------------------------


def test_float16_is_read_as_torch_does(javascript: JavaScript) -> None:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    expected = bits.view(torch.float16).float()
    found = javascript("lib/numbers.js", "halfToFloat", bits.view(torch.uint8))
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_viridis_is_matplotlibs(javascript: JavaScript) -> None:
    for i in range(101):
        expected = [255 * c for c in mpl.colormaps["viridis"](i / 100)[:3]]
        assert javascript("lib/numbers.js", "viridis", i / 100) == pytest.approx(expected, abs=4)
    ends = [javascript("lib/numbers.js", "viridis", t) for t in (-1, 0, 1, 2)]
    assert ends[0] == ends[1] == [68, 1, 84] and ends[2] == ends[3] == [253, 231, 37]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(-0.5, 2, "−0.50"), (1.005, 1, "1.0"), (-12, 0, "−12"), (0, 2, "0.00")],
)
def test_a_number_has_a_true_minus_sign(javascript: JavaScript, value, digits, text) -> None:
    assert javascript("lib/numbers.js", "decimal", value, digits) == text


@given(value=st.integers(-9, 9), low=st.integers(-5, 0), high=st.integers(0, 5))
@settings(max_examples=30)
def test_clamp_is_torchs(javascript: JavaScript, value: int, low: int, high: int) -> None:
    assert javascript("lib/numbers.js", "clamp", value, low, high) == min(max(value, low), high)


def test_rows_and_cosines_are_those_of_torch(javascript: JavaScript) -> None:
    table = torch.randn(7, 12)
    table[3] = 0  # a row of zeros stays
    unit = javascript("lib/tables.js", "unitRows", table, 12)
    expected = torch.nn.functional.normalize(table, dim=1)
    torch.testing.assert_close(unit.reshape(7, 12), expected, rtol=1e-6, atol=1e-6)
    cosines = javascript("lib/tables.js", "cosines", unit, 12, 2)
    torch.testing.assert_close(cosines, expected @ expected[2], rtol=1e-5, atol=1e-6)
    dot = javascript("lib/tables.js", "dotRows", table, 12, 1, 4)
    assert dot == pytest.approx((table[1] @ table[4]).item(), rel=1e-5)


@pytest.mark.parametrize(("grid", "dim"), [((14, 14), 64), ((3, 5), 12)])
def test_the_sin_cos_table_is_the_librarys(javascript: JavaScript, grid, dim) -> None:
    ours = javascript("lib/tables.js", "sincosTable", *grid, dim)
    expected = vit.sincos_pos_embedding(grid, dim).flatten()
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)


# ---- Offset --------------------------------------------------------------------------------------


def test_distances_are_those_of_torch(javascript: JavaScript) -> None:
    rows = torch.randn(8, 64)
    found = javascript("offset/compute.js", "distances", rows, 64)
    apart = torch.pdist(rows)
    expected = {"smallest": apart.min(), "largest": apart.max(), "first": apart[0]}
    assert found == pytest.approx({k: v.item() for k, v in expected.items()}, rel=1e-5)


def test_a_token_is_its_content_plus_the_scaled_row(javascript: JavaScript) -> None:
    tokens, offsets = torch.randn(2, 6, 2)
    for scale in (0.0, 0.5, 1.5):
        found = javascript("offset/compute.js", "point", tokens, offsets, 4, 2, scale)
        assert found == pytest.approx((tokens[4] + scale * offsets[2]).tolist(), rel=1e-6)


def test_the_box_holds_the_tokens_at_every_scale(javascript: JavaScript) -> None:
    tokens, offsets = torch.randn(2, 30, 2)
    box = torch.tensor(javascript("offset/compute.js", "extent", tokens, offsets, 1.5))
    scales = torch.linspace(0, 1.5, 16)[:, None, None]
    points = (tokens + scales * offsets).reshape(-1, 2)
    expected = torch.stack([points.min(dim=0).values, points.max(dim=0).values], dim=1)
    torch.testing.assert_close(box, expected, rtol=1e-6, atol=1e-6)


# ---- PatchGrid -----------------------------------------------------------------------------------


@given(
    height=st.integers(16, 256),
    width=st.integers(16, 256),
    P=st.integers(8, 40),
    pick=st.integers(0),
)
@settings(max_examples=40)
def test_facts_of_a_grid(javascript: JavaScript, height, width, P, pick) -> None:
    if P > min(height, width) // 2:
        P = min(height, width) // 2
    s = javascript("patch_grid/compute.js", "facts", height, width, P, pick)
    shape = torch.nn.functional.conv2d(
        torch.zeros(1, 1, height, width), torch.zeros(1, 1, P, P), stride=P
    ).shape[2:]
    n = math.prod(shape)
    assert (s["rows"], s["cols"], s["n"]) == (*shape, n)
    assert s["index"] == min(pick, n - 1) and s["width"] == 3 * P * P
    assert divmod(s["index"], shape[1]) == (s["row"], s["col"])
    assert s["pairs"] == f"{n * n:,}"
    kept = torch.zeros(height, width, dtype=torch.bool)
    kept[: shape[0] * P, : shape[1] * P] = True
    assert s["lost"] == (~kept).sum().item()
    assert float(s["percent"]) == pytest.approx(100 * (~kept).float().mean().item(), abs=0.0501)
    odd = [side for side in dict.fromkeys((height, width)) if side % P]
    assert s["odd"] == ", ".join(map(str, odd))


def test_the_values_of_a_patch_are_those_of_patchify(javascript: JavaScript) -> None:
    rgba = torch.randint(0, 256, (20, 28, 4), dtype=torch.uint8)
    grid = javascript("patch_grid/compute.js", "facts", 20, 28, 8, 0)
    patches = vit.patchify(rgba[:16, :24].permute(2, 0, 1)[None].float(), 8)[0].reshape(6, 4, 64)
    for i in range(6):
        for channel in range(3):
            found = javascript("patch_grid/compute.js", "patchValues", rgba, 28, grid, i, channel)
            assert found == patches[i, channel].tolist()


def test_the_pick_stays_in_its_place_when_the_patches_change(javascript: JavaScript) -> None:
    def facts(P: int, pick: int = 0) -> dict:
        return javascript("patch_grid/compute.js", "facts", 64, 96, P, pick)

    picked = facts(16, 1 * 6 + 4)  # row 1, column 4: the middle is pixel (24, 72)
    for P in (8, 12, 20, 32):
        to = facts(P)
        index = javascript("patch_grid/compute.js", "samePlace", picked, to)
        assert divmod(index, to["cols"]) == (24 // P, 72 // P)
    corner = facts(16, 4 * 6 - 1)  # the last patch: the middle is pixel (56, 88)
    to = facts(30)  # a grid of 2 × 3 ends at pixel (60, 90)
    assert javascript("patch_grid/compute.js", "samePlace", corner, to) == 1 * 3 + 2
    to = facts(25)  # a grid of 2 × 3 ends at pixel (50, 75): the last patch is the nearest
    assert javascript("patch_grid/compute.js", "samePlace", corner, to) == 5


# ---- Pipeline ------------------------------------------------------------------------------------


def matrix(x: Tensor) -> dict:
    return {"values": x.flatten().contiguous(), "cols": x.shape[-1], "rows": x.shape[-2]}


@pytest.mark.parametrize("order", ORDERS)
def test_the_steps_are_those_of_torch(javascript: JavaScript, order: str) -> None:
    explorer = Pipeline(dropout=0.25, seed=3)
    patches = javascript(
        "pipeline/compute.js", "patchesOf", explorer._photo, {"H": 64, "W": 64, "P": 16}
    )
    parts = {
        "patches": patches,
        "tokens": matrix(explorer.tokens),
        "token0": matrix(explorer.class_token),
        "table": matrix(explorer.positions),
        "kept": matrix(explorer.kept.float()),
        "p": 0.25,
    }
    found = javascript("pipeline/compute.js", "run", parts, order)
    stages = explorer.stages(order)
    names = javascript("pipeline/compute.js", "sequenceOf", order)
    assert names == list(stages)
    for name in names[1:]:
        after, expected = found["steps"][name]["after"], stages[name][0]
        shown = after["values"].reshape(after["rows"], after["cols"])
        torch.testing.assert_close(shown, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found["end"]["values"], expected.flatten(), rtol=1e-5, atol=1e-6)

    # What a step used turns what was before it into what is after it.
    steps = found["steps"]
    added = steps["positions"]["used"]["values"]
    before = stages[names[names.index("positions") - 1]][0]
    torch.testing.assert_close(before.flatten() + added, stages["positions"][0].flatten())
    first = steps["class_token"]["used"]["values"]
    torch.testing.assert_close(first, stages["class_token"][0, 0])


def test_rows_that_differ_are_counted(javascript: JavaScript) -> None:
    a = torch.zeros(4, 3)
    b = a.clone()
    b[1, 2], b[3, 0], b[3, 1] = 0.5, -2, 1
    found = javascript("pipeline/compute.js", "difference", matrix(a), matrix(b))
    assert found == {"rows": 2, "most": 2}
    same = javascript("pipeline/compute.js", "difference", matrix(a), matrix(a))
    assert same == {"rows": 0, "most": 0}


# ---- ShapeFlow -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes",
    [
        (224, 224, 16, 3, 768, 1),
        (448, 112, 16, 4, 192, 0),
        (210, 84, 14, 1, 1280, 5),
        (16, 512, 1, 13, 8, 8),
    ],
)
def test_shapes_and_parameters_are_the_modules(javascript: JavaScript, sizes) -> None:
    H, W, P, C, D, prefix = sizes
    with torch.device("meta"):
        embed = vit.ViTEmbedding((H, W), P, C, D, num_prefix_tokens=prefix)
        z = embed(torch.empty(1, C, H, W))
    found = javascript("shape_flow/compute.js", "shapeFlow", *sizes)
    assert found["fits"] and (found["down"], found["across"], found["lost"]) == (0, 0, 0)
    assert (found["rows"], found["columns"]) == embed.patch_embed.grid_size
    assert (found["N"], found["T"]) == (embed.patch_embed.num_patches, z.shape[1])
    modules = (embed.patch_embed, embed.add_cls_token, embed.pos_embed)
    counts = [sum(p.numel() for p in module.parameters()) for module in modules]
    assert list(found["parameters"].values()) == counts and found["total"] == sum(counts)


@given(H=st.integers(16, 512), W=st.integers(16, 512), P=st.integers(1, 32))
@settings(max_examples=60)
def test_what_does_not_fit_is_counted_and_sizes_that_do_are_offered(javascript, H, W, P) -> None:
    found = javascript("shape_flow/compute.js", "shapeFlow", H, W, P, 3, 8, 1)
    try:
        grid_shape((H, W), (P, P), "an image size")
        fits = True
    except vit.ShapeError:
        fits = False
    assert found["fits"] == fits
    assert (found["down"], found["across"]) == (H % P, W % P)
    assert found["lost"] == H * W - (H - H % P) * (W - W % P)
    sizes = javascript("shape_flow/compute.js", "sizesThatFit", H, W, P)
    assert 1 <= len(sizes) <= 2 and len(set(sizes)) == len(sizes)
    for size in sizes:
        h, w = map(int, size.split(" × "))
        grid_shape((h, w), (P, P), "an image size")
        assert abs(h - H) < P and abs(w - W) < P
    assert (len(sizes) == 1) == (fits or P > min(H, W))


# ---- SimilarityMap -------------------------------------------------------------------------------


def test_a_row_of_similarities_is_described_as_torch_does(javascript: JavaScript) -> None:
    explorer = SimilarityMap(token=61)
    patches = explorer.similarity()[1:].contiguous()
    row, column = divmod(60, 14)
    assert javascript("similarity_map/compute.js", "place", 61, 14) == [row, column]
    y, x = torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")
    far = ((y - row).abs() + (x - column).abs()).flatten()
    found = javascript("similarity_map/compute.js", "nearAndFar", patches, 61, 14)
    expected = {"near": patches[far == 1].mean(), "far": patches[far > 1].mean()}
    assert found == pytest.approx({k: v.item() for k, v in expected.items()}, abs=1e-6)
    most = javascript("similarity_map/compute.js", "mostAlike", patches, 61)
    assert most == patches.masked_fill(far == 0, -2).argmax().item()
    assert javascript("similarity_map/compute.js", "mostAlike", patches, 0) == 60  # itself is 1


def test_the_patch_most_alike_is_never_the_picked_one(javascript: JavaScript) -> None:
    patches = torch.tensor([0.3, 1.0, 0.9, 0.9])  # of two that are alike, the first
    found = [javascript("similarity_map/compute.js", "mostAlike", patches, n) for n in range(5)]
    assert found == [1, 1, 2, 1, 1]
    assert javascript("similarity_map/compute.js", "mostAlike", patches.flip(0), 1) == 2
    assert javascript("similarity_map/compute.js", "mostAlike", torch.tensor([1.0, 0.2]), 1) == 1
    negative = torch.tensor([-0.5, -0.2, -0.9])
    assert javascript("similarity_map/compute.js", "mostAlike", negative, 2) == 0


def test_a_corner_has_two_neighbours(javascript: JavaScript) -> None:
    patches = torch.arange(6.0)  # two rows of three
    for token, near, far in [
        (1, [1, 3], [2, 4, 5]),
        (5, [1, 3, 5], [0, 2]),
        (6, [2, 4], [0, 1, 3]),
    ]:
        found = javascript("similarity_map/compute.js", "nearAndFar", patches, token, 3)
        assert found == pytest.approx({"near": sum(near) / len(near), "far": sum(far) / len(far)})


@pytest.mark.parametrize("columns", [1, 3, 14])
def test_tokens_lie_row_by_row(javascript: JavaScript, columns: int) -> None:
    for token in range(1, 30):
        found = javascript("similarity_map/compute.js", "place", token, columns)
        assert tuple(found) == divmod(token - 1, columns)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("sincos", 61, "own"), ("sincos", 61, True)),
        (("random", 0, "full"), ("random", 0, False)),
        (("trained", 196, "?"), ("trained", 196, False)),
        (("?", 197, None), ("trained", 196, False)),
        ((None, -1, "own"), ("trained", 0, True)),
        (("toString", "x", ""), ("trained", 0, False)),
        (("random", 7.6, "own"), ("random", 8, True)),
        (("random", None, "own"), ("random", 0, True)),
    ],
)
def test_what_a_linked_control_sets_is_made_safe(javascript: JavaScript, given, expected) -> None:
    found = javascript("similarity_map/compute.js", "safe", *given, 196)
    assert (found["table"], found["token"], found["own"]) == expected


def test_all_maps_form_one_picture(javascript: JavaScript) -> None:
    rows, columns = 3, 4
    maps = torch.randn(1 + rows * columns, 1 + rows * columns)
    found = javascript("similarity_map/compute.js", "mosaic", list(maps), rows, columns)
    expected = maps[1:, 1:].reshape(rows, columns, rows, columns).permute(0, 2, 1, 3)
    assert torch.equal(found, expected.flatten())
    maps[1, 1] = -5
    maps[0] = maps[:, 0] = -9  # the class token is not a patch
    low = javascript("similarity_map/compute.js", "smallest", list(maps))
    assert low == maps[1:, 1:].min().item()


# ---- TokenGradient -------------------------------------------------------------------------------


def test_the_gradient_of_a_batch_is_that_of_torch(javascript: JavaScript) -> None:
    gradients = gradient_data.gradients().float()
    for reduction in ("sum", "mean"):
        found = javascript(
            "token_gradient/compute.js", "batchGradient", list(gradients), [0, 2, 5], reduction
        )
        expected = getattr(gradients[[0, 2, 5]], reduction)(dim=0)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    alone = javascript("token_gradient/compute.js", "batchGradient", [gradients[0]], [0], "mean")
    assert torch.equal(alone, gradients[0])
    length = javascript("token_gradient/compute.js", "norm", gradients[1])
    assert length == pytest.approx(gradients[1].norm().item(), rel=1e-6)


def test_arrows_are_projections_and_the_plane_holds_every_sum(javascript: JavaScript) -> None:
    gradients, basis = gradient_data.gradients().float(), gradient_data.plane().float()
    arrows = [
        javascript("token_gradient/compute.js", "project", one, basis.flatten())
        for one in gradients
    ]
    expected = gradients @ basis.reshape(2, -1).T
    torch.testing.assert_close(torch.tensor(arrows), expected, rtol=1e-4, atol=1e-5)
    ends = torch.tensor(javascript("token_gradient/compute.js", "reach", arrows))
    subsets = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * len(arrows))
    sums = subsets @ torch.tensor(arrows)
    extremes = torch.stack([sums.min(dim=0).values, sums.max(dim=0).values], dim=1)
    torch.testing.assert_close(ends, extremes, rtol=1e-5, atol=1e-5)


def test_the_plane_keeps_its_share_of_the_gradients(javascript: JavaScript) -> None:
    gradients, basis = torch.randn(5, 8), torch.linalg.qr(torch.randn(8, 2)).Q.T
    arrows = gradients @ basis.T
    found = javascript("token_gradient/compute.js", "kept", arrows.tolist(), list(gradients))
    assert found == pytest.approx((arrows.square().sum() / gradients.square().sum()).item())


def test_the_largest_number_has_the_last_colour(javascript: JavaScript) -> None:
    vectors = torch.randn(3, 8)
    vectors[1, 5] = -9
    assert javascript("token_gradient/compute.js", "peak", list(vectors)) == 9
    vectors[2, 0] = 11
    assert javascript("token_gradient/compute.js", "peak", list(vectors)) == 11


def test_arrows_follow_one_another_to_their_sum(javascript: JavaScript) -> None:
    arrows = torch.randn(4, 2, dtype=torch.float64)
    found = torch.tensor(javascript("token_gradient/compute.js", "chain", arrows.tolist()))
    expected = torch.cat([torch.zeros(1, 2), arrows.cumsum(dim=0)])
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


def test_all_that_is_reached_fits_the_canvas(javascript: JavaScript) -> None:
    def spot(x: float, y: float, ends: list[list[float]]) -> list[float]:
        return javascript("token_gradient/compute.js", "spot", [x, y], ends, 320, 290, 20)

    wide = [[-2.0, 12.0], [-1.0, 4.0]]  # 14 × 5 in a room of 280 × 250: 20 pixels each
    assert spot(-2, -1, wide) == pytest.approx([20, 195])
    assert spot(12, 4, wide) == pytest.approx([300, 95])
    assert spot(0, 0, wide) == pytest.approx([60, 175])
    tall = [[0.0, 1.0], [-20.0, 5.0]]  # 1 × 25: 10 pixels each
    assert spot(0, -20, tall) == pytest.approx([155, 270])
    assert spot(1, 5, tall) == pytest.approx([165, 20])


def test_an_arrow_has_its_head_at_its_end(javascript: JavaScript) -> None:
    def head(start: list[float], end: list[float], width: float) -> torch.Tensor:
        found = javascript("token_gradient/compute.js", "arrowhead", start, end, width)
        return torch.tensor([found["neck"], *found["wings"]])

    # Ten long at a width of 2, with wings that part from it by 0.42 in angle.
    across, along = 10 * math.sin(0.42), 10 * math.cos(0.42)
    expected = torch.tensor([[42.0, 7.0], [50 - along, 7 + across], [50 - along, 7 - across]])
    torch.testing.assert_close(head([0, 7], [50, 7], 2), expected)
    turned = head([0, 0], [0, -50], 2)  # the same, upwards
    expected = torch.tensor([[0, -42.0], [across, along - 50], [-across, along - 50]])
    torch.testing.assert_close(turned, expected)
    short = head([1, 1], [4, 5], 4)  # an arrow of length 5 is all head
    torch.testing.assert_close(short[0], torch.tensor([4 - 0.8 * 3, 5 - 0.8 * 4]))
    lengths = (short[1:] - torch.tensor([4.0, 5.0])).norm(dim=1)
    torch.testing.assert_close(lengths, torch.tensor([5.0, 5.0]))


def test_signs_have_two_colours(javascript: JavaScript) -> None:
    for i in range(-10, 11):
        expected = [255 * c for c in mpl.colormaps["PuOr_r"]((i / 10 + 1) / 2)[:3]]
        found = javascript("token_gradient/compute.js", "diverging", i / 10)
        assert found == pytest.approx(expected, abs=40)  # five of the map's eleven colours
        knots = [[0x2D, 0x80, 0xF7, 0xE0, 0x7F], [0, 0x73, 0xF7, 0x82, 0x3B], [75, 172, 247, 20, 8]]
        assert found == [round(np.interp(i / 10, np.linspace(-1, 1, 5), c)) for c in knots]
    knots = {-1: "2d004b", -0.5: "8073ac", 0: "f7f7f7", 0.5: "e08214", 1: "7f3b08"}
    for t, code in knots.items():
        found = javascript("token_gradient/compute.js", "diverging", t)
        assert bytes(found).hex() == code
    assert javascript("token_gradient/compute.js", "diverging", 7) == found
    first = javascript("token_gradient/compute.js", "diverging", -7)
    assert bytes(first).hex() == knots[-1]


# ---- Quiz ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    [
        "A “heading” of ours#",
        ' A "heading"  of ours ',
        'A "heading" of ours¶ ',
        "A „heading“ of\n ours",
    ],
)
def test_headings_are_compared_as_a_reader_does(javascript: JavaScript, shown: str) -> None:
    assert javascript("quiz/compute.js", "plain", shown) == 'A "heading" of ours'


def test_signs_that_are_part_of_a_heading_stay(javascript: JavaScript) -> None:
    assert (
        javascript("quiz/compute.js", "plain", "C# and ¶ are ‘signs’ #") == "C# and ¶ are 'signs'"
    )


def test_code_stands_between_backticks(javascript: JavaScript) -> None:
    found = javascript("quiz/compute.js", "parts", "Add `P` to `x[0]`.")
    assert [(one["part"], one["code"]) for one in found] == [
        ("Add ", False),
        ("P", True),
        (" to ", False),
        ("x[0]", True),
        (".", False),
    ]


def test_an_answer_is_right_wrong_or_not_given(javascript: JavaScript) -> None:
    choices = [{"text": "a", "why": "x"}, {"text": "b", "why": "y", "right": True}]
    found = [javascript("quiz/compute.js", "verdict", choices, n) for n in (0, 1, 2, -1)]
    assert found == ["wrong", "right", "", ""]


# ---- ClassAttention ------------------------------------------------------------------------------


def test_the_class_tokens_row_is_that_of_torch(javascript: JavaScript) -> None:
    weights = torch.rand(3, 10, 10)
    for head in (None, 0, 2):
        found = javascript("attention/compute.js", "classRow", weights, 3, 10, head)
        expected = weights[:, 0].mean(dim=0) if head is None else weights[head, 0]
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("hide", ["nothing", "most", "least"])
def test_the_hidden_patches_are_those_of_python(javascript: JavaScript, hide: str) -> None:
    explorer = ClassAttention(hide=hide, count=40, layer=0, head=None)
    weights = explorer.attention()[0, :, 1:].mean(dim=0)
    mask = javascript("attention/compute.js", "hiddenPatches", weights.contiguous(), hide, 40)
    assert torch.equal(mask.bool(), explorer.mask()[0])


# ---- EraseAndReconstruct -------------------------------------------------------------------------


def covered(row: int, column: int, brush: int, grid: tuple[int, int]) -> set[int]:
    """The patches under the eraser: those within the brush, one more below and to the right."""
    reach = range(-((brush - 1) // 2), brush // 2 + 1)
    cells = [(row + r, column + c) for r in reach for c in reach]
    return {r * grid[1] + c for r, c in cells if 0 <= r < grid[0] and 0 <= c < grid[1]}


@given(row=st.integers(0, 4), column=st.integers(0, 6), brush=st.integers(1, 5))
@settings(max_examples=40)
def test_the_eraser_covers_what_is_under_it(javascript, row, column, brush) -> None:
    grid = (5, 7)
    found = javascript("erase/compute.js", "under", [row, column], brush, grid)
    top, left, high, wide = found
    cells = {r * 7 + c for r in range(top, top + high) for c in range(left, left + wide)}
    assert cells == covered(row, column, brush, grid)


@pytest.mark.parametrize("hide", [True, False])
def test_the_eraser_goes_from_cell_to_cell(javascript: JavaScript, hide: bool) -> None:
    grid, start = (6, 8), [0, 9, 18, 47]
    found = javascript("erase/compute.js", "rub", start, [0, 0], [4, 2], hide, 2, grid)
    # Four steps down and two to the right, halves rounded up.
    way = [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2)]
    under = set().union(*(covered(r, c, 2, grid) for r, c in way))
    assert found == sorted(set(start) | under if hide else set(start) - under)
    once = javascript("erase/compute.js", "rub", start, [5, 7], [5, 7], hide, 1, grid)
    assert once == sorted(set(start) | {47} if hide else set(start) - {47})


def test_a_shuffled_table_is_pythons(javascript: JavaScript) -> None:
    explorer = EraseAndReconstruct(positions="shuffled")
    table = explorer.model.embedding.pos_embed.pos_embed.detach()
    found = javascript("erase/compute.js", "shuffledTable", table, 64, explorer._order)
    assert torch.equal(found.reshape(1, 197, 64), explorer.table())


def test_holes_are_filled_with_patches(javascript: JavaScript) -> None:
    size, p = (8, 12), 4
    image = torch.rand(1, 3, *size)
    rgba = torch.full((*size, 4), 255, dtype=torch.uint8)
    rgba[..., :3] = (image[0].permute(1, 2, 0) * 255).round().to(torch.uint8)
    patches = torch.randn(6, 3 * p * p) / 2
    mask = torch.tensor([0, 1, 1, 0, 0, 1], dtype=torch.uint8)
    sizes = {"width": 12, "patch_size": [p, p], "mean": data.MEAN, "std": data.STD}
    found = javascript("erase/compute.js", "filled", rgba, patches, mask, sizes)
    own = vit.patchify(rgba[..., :3].permute(2, 0, 1)[None].float(), p)[0]
    shown = torch.where(mask.bool()[:, None], 255 * (patches * data.STD + data.MEAN), own)
    expected = vit.unpatchify(shown[None], p, (2, 3))[0].permute(1, 2, 0).clamp(0, 255)
    got = found.reshape(*size, 4).float()
    torch.testing.assert_close(got[..., :3], expected, rtol=0, atol=0.51)
    assert (got[..., 3] == 255).all()
