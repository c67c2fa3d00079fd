"""Resizing the table of positions, against kernels written from their formulas and libraries."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import peer

import dnnl.models.vit as vit

SIDE = st.integers(1, 9)
GRID = st.tuples(SIDE, SIDE)
SEED = st.integers(0, 2**31)


def table(grid, dim=3, prefix=1, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = prefix + grid[0] * grid[1]
    return torch.randn(1, rows, dim, dtype=torch.float64, generator=generator).to(dtype)


# The independent reference: one matrix of weights per axis, in float64


def cubic(x, a):
    """Return Keys's kernel: zero beyond 2, and one parameter that says how sharp it is."""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def weights(old, new, mode, antialias=False, align_corners=False):
    """Return the matrix (new, old) that resamples one axis."""
    w = np.zeros((new, old))
    for i in range(new):
        if mode == "nearest":
            w[i, i * old // new] = 1
        elif mode == "nearest-exact":
            w[i, (2 * i + 1) * old // (2 * new)] = 1
        elif mode == "area":
            cells = range(i * old // new, -(-(i + 1) * old // new))
            w[i, list(cells)] = 1 / len(cells)
        elif antialias:  # the kernel is as wide as a new cell, and sums to one where it is cut off
            scale = old / new
            wide = max(scale, 1.0)
            for j in range(old):
                x = (j + 0.5 - scale * (i + 0.5)) / wide
                w[i, j] = cubic(x, -0.5) if mode == "bicubic" else max(0.0, 1 - abs(x))
            w[i] /= w[i].sum()
        else:  # the border cell goes on for ever
            if align_corners:
                x = i * (old - 1) / (new - 1) if new > 1 else 0.0
            else:
                x = (i + 0.5) * old / new - 0.5
            for j in range(math.floor(x) - 1, math.floor(x) + 3):
                weight = cubic(x - j, -0.75) if mode == "bicubic" else max(0.0, 1 - abs(x - j))
                w[i, min(max(j, 0), old - 1)] += weight
    return torch.from_numpy(w)


def reference(pos_embed, old, new, prefix, **options):
    options = {"mode": "bicubic", **options}
    down, across = (weights(o, n, **options) for o, n in zip(old, new, strict=True))
    grid = pos_embed[0, prefix:].double().reshape(*old, -1)
    patches = torch.einsum("ih,jw,hwd->ijd", down, across, grid)
    return torch.cat([pos_embed[0, :prefix].double(), patches.flatten(0, 1)])[None]


OPTIONS = [
    {"mode": "bicubic"},
    {"mode": "bicubic", "align_corners": True},
    {"mode": "bicubic", "antialias": True},
    {"mode": "bilinear"},
    {"mode": "bilinear", "align_corners": True},
    {"mode": "bilinear", "antialias": True},
    {"mode": "nearest"},
    {"mode": "nearest-exact"},
    {"mode": "area"},
]
every_option = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: "-".join(map(str, o.values()))
)


@every_option
@given(GRID, GRID, st.integers(0, 3), SEED)
@settings(max_examples=40)
def test_every_option_is_its_formula(options, old, new, prefix, seed):
    pos_embed = table(old, prefix=prefix, seed=seed)
    out = vit.interpolate_pos_embedding(pos_embed, old, new, num_prefix_tokens=prefix, **options)
    if old == new:
        want = pos_embed
    else:
        want = reference(pos_embed, old, new, prefix, **options)
    assert out.shape == (1, prefix + new[0] * new[1], 3)
    torch.testing.assert_close(out, want, rtol=1e-9, atol=1e-9)


def test_the_defaults_are_bicubic_without_antialias_and_without_aligned_corners():
    pos_embed = table((4, 6))
    out = vit.interpolate_pos_embedding(pos_embed, (4, 6), (7, 5))
    torch.testing.assert_close(out, reference(pos_embed, (4, 6), (7, 5), 1, mode="bicubic"))


# What must be true whatever the kernel


@every_option
@given(GRID, GRID, SEED)
@settings(max_examples=20)
def test_it_is_linear_and_keeps_a_constant(options, old, new, seed):
    def resize(pos_embed):
        return vit.interpolate_pos_embedding(pos_embed, old, new, **options)

    a, b = table(old, seed=seed), table(old, seed=seed + 1)
    torch.testing.assert_close(resize(2 * a - 3 * b), 2 * resize(a) - 3 * resize(b))
    flat = torch.ones_like(a) * torch.tensor([1.0, -2.0, 3.0])
    n = new[0] * new[1]
    torch.testing.assert_close(resize(flat), flat[:, :1].expand(1, 1 + n, 3))


@every_option
@given(GRID, GRID, SEED)
@settings(max_examples=20)
def test_it_commutes_with_a_permutation_of_channels_and_a_transposition(options, old, new, seed):
    pos_embed = table(old, dim=4, prefix=0, seed=seed)

    def resize(pos_embed, old, new):
        return vit.interpolate_pos_embedding(pos_embed, old, new, num_prefix_tokens=0, **options)

    def transpose(pos_embed, grid):
        return pos_embed.reshape(1, *grid, 4).transpose(1, 2).reshape(1, -1, 4)

    out = resize(pos_embed, old, new)
    mixed = [2, 0, 3, 1]
    torch.testing.assert_close(resize(pos_embed[..., mixed], old, new), out[..., mixed])
    flipped = resize(transpose(pos_embed, old), old[::-1], new[::-1])
    torch.testing.assert_close(flipped, transpose(out, new))


@given(
    GRID,
    GRID,
    st.integers(0, 5),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    st.sampled_from(OPTIONS),
)
def test_the_prefix_is_copied_bit_for_bit_whatever_the_dtype(old, new, prefix, dtype, options):
    pos_embed = table(old, prefix=prefix, dtype=dtype)
    out = vit.interpolate_pos_embedding(pos_embed, old, new, num_prefix_tokens=prefix, **options)
    assert torch.equal(out[:, :prefix], pos_embed[:, :prefix])
    assert out.dtype == dtype


@given(GRID, GRID, SEED)
def test_it_is_the_identity_for_equal_grids_and_only_for_those(old, new, seed):
    """Public report 1: equal counts of patches are not equal grids."""
    pos_embed = table(old, seed=seed)
    out = vit.interpolate_pos_embedding(pos_embed, old, new)
    assert (out.shape == pos_embed.shape and torch.equal(out, pos_embed)) == (old == new)


@every_option
def test_the_result_never_shares_storage_with_the_table(options):
    for new in [(2, 8), (4, 4), (3, 3)]:
        pos_embed = table((2, 8))
        before = pos_embed.clone()
        out = vit.interpolate_pos_embedding(pos_embed, (2, 8), new, **options)
        out.zero_()
        assert torch.equal(pos_embed, before)


@every_option
@pytest.mark.parametrize("new", [(2, 3), (3, 3), (5, 2)])
def test_it_is_differentiable(options, new):
    pos_embed = table((2, 3)).requires_grad_()

    def resize(pos_embed):
        return vit.interpolate_pos_embedding(pos_embed, (2, 3), new, **options)

    assert torch.autograd.gradcheck(resize, pos_embed)
    assert torch.autograd.gradgradcheck(resize, pos_embed)


# Public reports


def test_equal_counts_of_patches_are_a_true_resize_between_different_grids():
    """Public report 1: 1 + 16 rows, (2, 8) to (4, 4)."""
    pos_embed = table((2, 8))
    out = vit.interpolate_pos_embedding(pos_embed, (2, 8), (4, 4))
    assert out.shape == pos_embed.shape
    assert not torch.allclose(out, pos_embed, atol=0.1)
    torch.testing.assert_close(out, reference(pos_embed, (2, 8), (4, 4), 1))


def test_the_old_grid_is_given_and_never_guessed():
    """Public report 2: int(sqrt(512)) = 22."""
    pos_embed = table((64, 8))
    out = vit.interpolate_pos_embedding(pos_embed, (64, 8), (32, 8))
    assert out.shape == (1, 257, 3)
    torch.testing.assert_close(out, reference(pos_embed, (64, 8), (32, 8), 1))
    with pytest.raises(vit.ShapeError, match=r"Expected old grid with 512 patches.* 22×22 = 484"):
        vit.interpolate_pos_embedding(pos_embed, (22, 22), (32, 8))


@pytest.mark.parametrize(
    ("old", "new"),
    [(14, 61), (37, 39), (37, 43), (37, 78), (37, 86), (37, 115), (37, 123), (37, 156)],
)
def test_the_size_is_exact_where_a_scale_factor_rounds_down(old, new):
    """Public report 3, learner question 49."""
    image = torch.randn(1, 2, old, old, dtype=torch.float64)
    by_factor = F.interpolate(image, scale_factor=new / old, mode="bilinear")
    assert by_factor.shape[-1] == math.floor(old * (new / old))
    pos_embed = image.permute(0, 2, 3, 1).reshape(1, -1, 2)
    out = vit.interpolate_pos_embedding(pos_embed, old, new, num_prefix_tokens=0, mode="bilinear")
    assert out.shape == (1, new * new, 2)


def test_the_scale_factor_of_14_to_61_does_lose_a_row():
    """Public report 3: the control of the test above."""
    assert int(14 * (61 / 14)) == 60
    image = torch.zeros(1, 1, 14, 14)
    assert F.interpolate(image, scale_factor=61 / 14, mode="bicubic").shape[-1] == 60


def test_a_tenth_more_in_the_scale_factor_moves_the_sampling_grid():
    """Learner question 49: 37 to 16 by (16 + .1) / 37 has the size but other values."""
    pos_embed = table((37, 37), dim=8, prefix=0)
    image = pos_embed.reshape(1, 37, 37, 8).permute(0, 3, 1, 2)
    factor = 16.1 / 37
    shifted = F.interpolate(image, scale_factor=(factor, factor), mode="bicubic")
    ours = vit.interpolate_pos_embedding(pos_embed, 37, 16, num_prefix_tokens=0)
    assert shifted.shape[-1] == 16
    assert (shifted.permute(0, 2, 3, 1).reshape(1, -1, 8) - ours).abs().max() > 0.1


def ramp(rows, columns):
    """Return a table whose two channels are the centre of the patch, in units of the image."""
    row, column = torch.meshgrid(
        (torch.arange(rows, dtype=torch.float64) + 0.5) / rows,
        (torch.arange(columns, dtype=torch.float64) + 0.5) / columns,
        indexing="ij",
    )
    return torch.stack([row, column], dim=-1).reshape(1, -1, 2)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"mode": "bilinear"}, 1e-9),
        ({"mode": "bicubic", "antialias": True}, 1e-9),
        ({"mode": "bicubic"}, 0.02),  # with a = -0.75 the kernel bends a straight line a little
    ],
)
def test_a_ramp_of_coordinates_stays_a_ramp_and_swapped_axes_show(options, tolerance):
    """Public report 4: height and width swapped are invisible on squares."""

    def resize(old):
        return vit.interpolate_pos_embedding(
            ramp(4, 6), old, (8, 12), num_prefix_tokens=0, **options
        )

    def inner(table):  # away from the borders, where there is nothing beyond to lean on
        return table.reshape(8, 12, 2)[3:5, 3:9]

    right, swapped = resize((4, 6)), resize((6, 4))
    torch.testing.assert_close(inner(right), inner(ramp(8, 12)), rtol=0, atol=tolerance)
    assert (inner(swapped) - inner(ramp(8, 12))).abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_option
def test_half_precision_is_resized_in_float32_and_cast_back(options, dtype):
    """Public report 5, learner question 55."""
    pos_embed = table((4, 6), dtype=dtype)
    out = vit.interpolate_pos_embedding(pos_embed, (4, 6), (7, 3), **options)
    want = vit.interpolate_pos_embedding(pos_embed.float(), (4, 6), (7, 3), **options).to(dtype)
    assert out.dtype == dtype
    assert torch.equal(out, want)


def test_float64_is_not_rounded_to_float32():
    pos_embed = table((4, 6))
    out = vit.interpolate_pos_embedding(pos_embed, (4, 6), (7, 3))
    assert not torch.equal(out, out.float().double())


def test_class_and_distillation_rows_are_both_kept():
    """Public report 6: 198 rows, 14×14 to 24×24."""
    pos_embed = table((14, 14), prefix=2)
    out = vit.interpolate_pos_embedding(pos_embed, (14, 14), (24, 24), num_prefix_tokens=2)
    assert out.shape == (1, 578, 3)
    assert torch.equal(out[:, :2], pos_embed[:, :2])
    torch.testing.assert_close(out, reference(pos_embed, (14, 14), (24, 24), 2))
    with pytest.raises(vit.ShapeError, match=r"Expected old grid with 197 patches \(198 rows"):
        vit.interpolate_pos_embedding(pos_embed, (14, 14), (24, 24))  # one prefix row: no guess


def test_a_table_without_a_class_row_keeps_its_first_patch():
    """Public report 7: 196 rows."""
    pos_embed = table((14, 14), prefix=0)
    out = vit.interpolate_pos_embedding(pos_embed, 14, 24, num_prefix_tokens=0)
    torch.testing.assert_close(out, reference(pos_embed, (14, 14), (24, 24), 0))
    with pytest.raises(vit.ShapeError, match="Expected old grid with 195 patches"):
        vit.interpolate_pos_embedding(pos_embed, 14, 24)
    # asked for, 1 + 13 × 15 is a grid like any other: the function obeys and guesses nothing
    assert vit.interpolate_pos_embedding(pos_embed, (13, 15), 24).shape == (1, 577, 3)


def test_the_chapters_own_example_has_577_rows():
    assert vit.interpolate_pos_embedding(torch.randn(1, 197, 64), 14, 24).shape == (1, 577, 64)


def test_slicing_the_first_rows_gives_other_positions_than_resizing():
    """Public report 8, learner question 43: token (1, 0) would get the position of (0, 4)."""
    pos_embed = torch.cat([torch.zeros(1, 1, 2), ramp(8, 8).float()], dim=1)
    resized = vit.interpolate_pos_embedding(pos_embed, 8, 4, mode="area")[0, 1:]
    sliced = pos_embed[0, 1:17]
    torch.testing.assert_close(resized, ramp(4, 4)[0].float())
    assert torch.equal(sliced[4], ramp(8, 8)[0, 4].float())
    own = [k for k in range(64) if divmod(k, 8) == divmod(k, 14)]
    assert len(own) == 8  # of an 8×8 image on a 14×14 table, 8 patches in 64 are placed right


# Libraries (public report 14, learner question S3); each by its name: test_vit_like.py


@given(GRID, GRID, st.integers(0, 3), st.booleans(), SEED)
@settings(max_examples=60)
def test_timms_resize_is_ours_on_any_grid(old, new, prefix, antialias, seed):
    layers = peer("timm.layers")
    pos_embed = table(old, prefix=prefix, dtype=torch.float32, seed=seed)
    want = layers.resample_abs_pos_embed(
        pos_embed,
        new_size=list(new),
        old_size=list(old),
        num_prefix_tokens=prefix,
        antialias=antialias,
    )
    options = {"antialias": antialias, "num_prefix_tokens": prefix}
    out = vit.interpolate_pos_embedding(pos_embed, old, new, **options)
    torch.testing.assert_close(out, want, rtol=0, atol=0)


def test_four_libraries_make_four_tables_of_one_checkpoint():
    """Surprise S3: sin-cos, 14 to 24, relative distances."""
    pos_embed = vit.sincos_pos_embedding(14, 768)
    tables = {
        name: vit.interpolate_pos_embedding(pos_embed, 14, 24, num_prefix_tokens=0, like=name)
        for name in ("timm", "hf-vit", "torchvision", "jax")
    }

    def distance(a, b):
        return round(((tables[a] - tables[b]).norm() / tables[a].norm()).item(), 3)

    assert distance("hf-vit", "torchvision") == 0.028
    assert distance("hf-vit", "timm") == 0.009
    assert distance("hf-vit", "jax") == 0.035
    assert distance("torchvision", "timm") == 0.029


# Kernels (learner questions S2, S5, 47)


@pytest.mark.parametrize(
    ("antialias", "values"),
    [(False, [0.8789, 0.2617]), (True, [0.8672, 0.2266])],
)
def test_antialias_changes_the_bicubic_kernel_even_when_the_grid_grows(antialias, values):
    """Surprise S2: a = -0.5 in place of -0.75, seen on an impulse enlarged twice."""
    impulse = torch.zeros(1, 9, 1)
    impulse[0, 4] = 1
    row = vit.interpolate_pos_embedding(
        impulse, (1, 9), (1, 18), num_prefix_tokens=0, antialias=antialias
    )[0, :, 0]
    assert [round(v, 4) for v in row[9:11].tolist()] == values
    flat = vit.interpolate_pos_embedding(
        impulse, (1, 9), (1, 18), num_prefix_tokens=0, mode="bilinear", antialias=antialias
    )
    assert flat[0, 9:11, 0].tolist() == [0.75, 0.25]  # bilinear keeps its kernel


def test_without_antialias_a_shrinking_table_can_miss_a_comb_entirely():
    """Surprise S5: period 4, mean .25, from 28 to 7."""
    comb = torch.zeros(28)
    comb[::4] = 1
    pos_embed = comb.expand(28, 28).reshape(1, 784, 1)

    def shrink(antialias):
        return vit.interpolate_pos_embedding(
            pos_embed, 28, 7, num_prefix_tokens=0, mode="bilinear", antialias=antialias
        )

    assert (shrink(False) == 0).all()
    torch.testing.assert_close(shrink(True).reshape(7, 7)[1:-1, 1:-1], torch.full((5, 5), 0.25))


def test_how_much_bilinear_shrinks_a_table_depends_on_how_rough_it_is():
    """Learner question 47 and public report 17: resizing is not free, most of all on noise."""

    def shrinkage(pos_embed, mode):
        out = vit.interpolate_pos_embedding(pos_embed, 14, 24, num_prefix_tokens=0, mode=mode)
        return (out.norm(dim=-1).mean() / pos_embed.norm(dim=-1).mean()).item()

    noise = table((14, 14), dim=768, prefix=0, dtype=torch.float32)
    smooth = vit.sincos_pos_embedding(14, 768)
    assert abs(shrinkage(noise, "bilinear") - 0.68) < 0.01
    assert abs(shrinkage(noise, "bicubic") - 0.86) < 0.01
    assert abs(shrinkage(smooth, "bilinear") - 1) < 0.01
    assert abs(shrinkage(smooth, "bicubic") - 1) < 0.01


def test_there_and_back_again_loses_a_rough_table_and_keeps_a_smooth_one():
    """Public report 17: "resizing makes other resolutions work" is oversold."""

    def loss(pos_embed):
        there = vit.interpolate_pos_embedding(pos_embed, 14, 9, num_prefix_tokens=0)
        back = vit.interpolate_pos_embedding(there, 9, 14, num_prefix_tokens=0)
        return ((back - pos_embed).norm() / pos_embed.norm()).item()

    assert loss(table((14, 14), dim=768, prefix=0)) > 0.5
    assert loss(vit.sincos_pos_embedding(14, 768)) < 0.2


# Errors


@pytest.mark.parametrize(
    ("pos_embed", "old", "new", "options", "message"),
    [
        (torch.zeros(1, 17, 8), (3, 5), 4, {}, r"old grid with 16 patches .*but got 3×5 = 15"),
        (torch.zeros(1, 17, 8), 4, 0, {}, r"new_grid_size of at least 1, but got 0"),
        (torch.zeros(1, 17, 8), (4, -4), 4, {}, r"old_grid_size of at least 1, but got -4"),
        (torch.zeros(1, 17, 8), (4, 4, 1), 4, {}, r"old_grid_size as \(height, width\)"),
        (torch.zeros(1, 17, 8), 4, 2.5, {}, r"a whole number .*new_grid_size, but got 2.5"),
        (
            torch.zeros(1, 17, 8),
            4,
            4,
            {"num_prefix_tokens": -1},
            r"num_prefix_tokens of at least 0",
        ),
        (torch.zeros(1, 1, 8), 4, 4, {}, r"old grid with 0 patches"),
        (torch.zeros(1, 1, 8), 4, 4, {"num_prefix_tokens": 2}, r"Expected old grid"),
        (torch.zeros(2, 17, 8), 4, 4, {}, r"shape \(1, T, D\), but got \(2, 17, 8\)"),
        (torch.zeros(17, 8), 4, 4, {}, r"shape \(1, T, D\), but got \(17, 8\)"),
        (torch.zeros(1, 17, 8, dtype=torch.int64), 4, 2, {}, r"floating-point table.*torch.int64"),
        ([[1.0]], 4, 2, {}, r"torch.Tensor \(1, T, D\), but got list"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(pos_embed, old, new, options, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.interpolate_pos_embedding(pos_embed, old, new, **options)


@pytest.mark.parametrize("new", [4, 6])  # also where nothing has to be resized
def test_options_that_do_not_exist_or_do_not_apply_are_refused(new):
    pos_embed = torch.zeros(1, 17, 8)
    with pytest.raises(ValueError, match="Expected a mode out of .*bicubic.*, but got 'cubic'"):
        vit.interpolate_pos_embedding(pos_embed, 4, new, mode="cubic")
    for option in ("antialias", "align_corners"):
        with pytest.raises(ValueError, match="apply to .*'bilinear', 'bicubic'.*not to 'nearest'"):
            vit.interpolate_pos_embedding(pos_embed, 4, new, mode="nearest", **{option: True})
