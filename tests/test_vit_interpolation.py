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
SETTINGS = vit.RESIZE_SETTINGS


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
def test_every_option_is_its_formula_on_any_grids_with_any_prefix(options, old, new, prefix, seed):
    """Public reports 1, 2, 6 and 7: the old grid is given, and the prefix is copied."""
    pos_embed = table(old, prefix=prefix, seed=seed)
    before = pos_embed.clone()
    out = vit.interpolate_pos_embedding(pos_embed, old, new, num_prefix_tokens=prefix, **options)
    want = pos_embed if old == new else reference(pos_embed, old, new, prefix, **options)
    assert out.shape == (1, prefix + new[0] * new[1], 3)
    torch.testing.assert_close(out, want, rtol=1e-9, atol=1e-9)
    assert old != new or torch.equal(out, pos_embed)
    out.zero_()
    assert torch.equal(pos_embed, before)  # a new tensor, for equal grids too


def test_the_defaults_are_bicubic_without_antialias_and_one_row_of_prefix():
    pos_embed = table((4, 6))
    out = vit.interpolate_pos_embedding(pos_embed, (4, 6), (7, 3))
    torch.testing.assert_close(out, reference(pos_embed, (4, 6), (7, 3), 1, mode="bicubic"))
    assert vit.interpolate_pos_embedding(torch.randn(1, 197, 8), 14, 24).shape == (1, 577, 8)


@given(
    GRID,
    GRID,
    st.integers(0, 5),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    st.sampled_from(OPTIONS),
)
def test_half_precision_is_resized_in_float32_and_its_prefix_copied_bit_for_bit(
    old, new, prefix, dtype, options
):
    """Public report 5, learner question 55."""
    pos_embed, options = (
        table(old, prefix=prefix, dtype=dtype),
        {"num_prefix_tokens": prefix, **options},
    )
    out = vit.interpolate_pos_embedding(pos_embed, old, new, **options)
    assert out.dtype == dtype
    assert torch.equal(out[:, :prefix], pos_embed[:, :prefix])
    wide = vit.interpolate_pos_embedding(pos_embed.float(), old, new, **options)
    assert torch.equal(out, wide.to(dtype))


@every_option
@pytest.mark.parametrize("new", [(2, 3), (3, 3), (5, 2), (3, 1)])
def test_it_is_differentiable_twice(options, new):
    pos_embed = table((2, 3)).requires_grad_()

    def resize(pos_embed):
        return vit.interpolate_pos_embedding(pos_embed, (2, 3), new, **options)

    assert torch.autograd.gradcheck(resize, pos_embed)
    assert torch.autograd.gradgradcheck(resize, pos_embed)


# Public reports


@pytest.mark.parametrize(
    ("old", "new"),
    [(14, 61), (37, 39), (37, 43), (37, 78), (37, 86), (37, 115), (37, 123), (37, 156)],
)
def test_the_size_is_exact_where_a_scale_factor_rounds_down(old, new):
    """Public report 3, learner question 49: ``int(14 * (61 / 14)) == 60``."""
    pos_embed = table((old, old), 2, 0)
    image = pos_embed.reshape(1, old, old, 2).permute(0, 3, 1, 2)
    lost = F.interpolate(image, scale_factor=new / old, mode="bilinear").shape[-1]
    assert lost == math.floor(old * (new / old))
    assert lost == 60 or new != 61
    out = vit.interpolate_pos_embedding(pos_embed, old, new, num_prefix_tokens=0, mode="bilinear")
    assert out.shape == (1, new * new, 2)


def ramp(rows, columns):
    """Return a table whose two channels are the centre of the patch, in units of the image."""
    row, column = ((torch.arange(n, dtype=torch.float64) + 0.5) / n for n in (rows, columns))
    return torch.cartesian_prod(row, column)[None]


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

    def inner(table):  # away from the borders, where there is nothing beyond to lean on
        return table.reshape(8, 12, 2)[3:5, 3:9]

    right, swapped = (
        vit.interpolate_pos_embedding(ramp(4, 6), old, (8, 12), num_prefix_tokens=0, **options)
        for old in [(4, 6), (6, 4)]
    )
    torch.testing.assert_close(inner(right), inner(ramp(8, 12)), rtol=0, atol=tolerance)
    assert (inner(swapped) - inner(ramp(8, 12))).abs().max() > 0.1


def test_slicing_the_first_rows_gives_other_positions_than_resizing():
    """Public report 8, learner question 43: token (1, 0) would get the position of (0, 4)."""
    options = {"num_prefix_tokens": 0, "mode": "area"}
    resized = vit.interpolate_pos_embedding(ramp(8, 8), 8, 4, **options)
    torch.testing.assert_close(resized, ramp(4, 4))
    assert torch.equal(ramp(8, 8)[0, :16][4], ramp(8, 8)[0, 4])
    assert not torch.allclose(resized[0, 4], ramp(8, 8)[0, 4], atol=0.1)


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded": lambda t: t[..., :1].expand_as(t),
    "strided": lambda t: t.repeat_interleave(2, dim=2)[..., ::2],
    "one channel": lambda t: t[..., :1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("old", "new"), [((9, 4), (5, 1)), ((3, 7), (8, 1)), ((6, 5), (1, 1))])
def test_a_resize_to_one_column_is_right_however_the_table_lies_in_memory(old, new, mode, layout):
    """Case 13: torch's CPU kernel is wrong for one column of an NCHW image."""
    pos_embed = LAYOUTS[layout](table(old, dim=4)).detach().requires_grad_()
    options = {"mode": mode, "antialias": True}
    out = vit.interpolate_pos_embedding(pos_embed, old, new, **options)
    want = reference(pos_embed, old, new, 1, **options)
    torch.testing.assert_close(out, want)
    (got,) = torch.autograd.grad(out.square().sum(), pos_embed)
    (right,) = torch.autograd.grad(want.square().sum(), pos_embed)
    torch.testing.assert_close(got, right)
    torch.testing.assert_close(out[:, 1:], by_pillow(mode)(pos_embed[:, 1:].detach(), old, new))


# Libraries (public report 14, learner question S3): each makes this of the rows of the patches


def by_timm(patches, old, new):
    resize = peer("timm.layers").resample_abs_pos_embed
    return resize(patches, list(new), old_size=list(old), num_prefix_tokens=0)


def by_transformers(family, config, embeddings):
    def resize(patches, old, new):
        modeling = peer(f"transformers.models.{family}.modeling_{family}")
        options = getattr(peer("transformers"), config)(
            hidden_size=patches.shape[-1], image_size=(4 * old[0], 4 * old[1]), patch_size=4
        )
        module = getattr(modeling, embeddings)(options)
        module.position_embeddings = torch.nn.Parameter(with_class_row(patches))
        tokens = torch.zeros(1, 1 + new[0] * new[1], patches.shape[-1])
        return module.interpolate_pos_encoding(tokens, 4 * new[0], 4 * new[1])[:, 1:].detach()

    return resize


def by_torchvision(patches, old, new):
    resize = peer("torchvision.models.vision_transformer").interpolate_embeddings
    state = {"encoder.pos_embedding": with_class_row(patches)}
    assert new[0] == new[1], "it takes an int for the image"
    return resize(4 * new[0], 4, state)["encoder.pos_embedding"][:, 1:]


def by_scipy(patches, old, new):
    grid = patches.float().reshape(*old, -1).numpy()
    factors = (new[0] / old[0], new[1] / old[1], 1)
    out = peer("scipy.ndimage").zoom(grid, factors, order=1)
    return torch.from_numpy(out).reshape(1, -1, grid.shape[-1]).to(patches.dtype)


def by_pillow(mode):
    """``jax.image.resize("linear")`` and Pillow's BILINEAR are one filter: a widened triangle."""

    def resize(patches, old, new):
        image = peer("PIL.Image")
        grid = patches.float().reshape(*old, -1).numpy()
        channels = [
            np.asarray(image.fromarray(channel).resize(new[::-1], image.Resampling[mode.upper()]))
            for channel in np.moveaxis(grid, -1, 0)
        ]
        out = torch.from_numpy(np.stack(channels, axis=-1))
        return out.reshape(1, -1, len(channels)).to(patches.dtype)

    return resize


def by_siglip2(patches, old, new):
    modeling = peer("transformers.models.siglip2.modeling_siglip2")
    return modeling.Siglip2VisionEmbeddings.resize_positional_embeddings(
        patches.reshape(*old, -1), torch.tensor([new]), max_length=new[0] * new[1]
    )


def with_class_row(patches):
    return torch.cat([torch.full_like(patches[:, :1], 7), patches], dim=1)


LIBRARIES = {
    "timm": by_timm,
    "hf-vit": by_transformers("vit", "ViTConfig", "ViTEmbeddings"),
    "dinov2": by_transformers("dinov2", "Dinov2Config", "Dinov2Embeddings"),
    "dinov2-registers": by_transformers(
        "dinov2_with_registers", "Dinov2WithRegistersConfig", "Dinov2WithRegistersEmbeddings"
    ),
    "torchvision": by_torchvision,
    "jax": by_scipy,
    "flexivit": by_pillow("bilinear"),
    "siglip2": by_siglip2,
}
ANY_OLD_GRID = {"timm", "jax", "flexivit"}  # the others take the root of the number of rows
SQUARE = [((14, 14), (24, 24)), ((14, 14), (7, 7)), ((7, 7), (16, 16)), ((14, 14), (61, 61))]
NEW = [((14, 14), (9, 20)), ((16, 16), (3, 5))]  # to a grid of another form
BOTH = [((4, 9), (6, 6)), ((2, 8), (4, 4)), ((20, 5), (3, 14))]
CASES = [
    pytest.param(name, *grids, id=f"{name}-{grids[0]}-{grids[1]}")
    for name in LIBRARIES
    for grids in SQUARE
    + (NEW if name != "torchvision" else [])
    + (BOTH if name in ANY_OLD_GRID else [])
]
# These two resample in the table's own dtype, and round half-way: up to a unit in the last place of
# the numbers below 4. The others go through float32, as ours does, and round once.
ROUNDS_TWICE = {"hf-vit", "torchvision"}


def ours(name, pos_embed, old, new, prefix=0):
    return vit.interpolate_pos_embedding(
        pos_embed, old, new, num_prefix_tokens=prefix, **SETTINGS[name]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "old", "new"), CASES)
def test_the_settings_of_a_library_make_its_table(name, old, new, dtype):
    tolerance = {"rtol": 1e-5, "atol": 5e-6}
    if dtype == torch.bfloat16:
        tolerance = {"rtol": 2**-7, "atol": 2**-6 if name in ROUNDS_TWICE else 1e-5}
    for prefix in (0, 2):
        pos_embed = table(old, 8, prefix, dtype)
        want = LIBRARIES[name](pos_embed[:, prefix:].contiguous(), old, new)
        out = ours(name, pos_embed, old, new, prefix)
        torch.testing.assert_close(out[:, prefix:], want, **tolerance)


def test_every_library_has_its_settings_and_different_settings_make_different_tables():
    assert set(LIBRARIES) == set(SETTINGS)
    for name in SETTINGS:
        for other in SETTINGS:
            for new in (24, 7):
                a, b = (ours(n, table((14, 14), prefix=0), 14, new) for n in (name, other))
                smooth = new == 24 and torch.allclose(a, b, atol=1e-5)  # antialias, bilinear
                assert torch.equal(a, b) == (SETTINGS[name] == SETTINGS[other]) or smooth


@pytest.mark.parametrize("name", sorted(ROUNDS_TWICE))
def test_in_half_precision_ours_is_nearer_to_the_exact_table_than_a_library_that_rounds_twice(name):
    pos_embed = table((14, 14), 64, 0, torch.bfloat16)
    exact = ours(name, pos_embed.double(), 14, 24)
    theirs = LIBRARIES[name](pos_embed, (14, 14), (24, 24))
    assert (ours(name, pos_embed, 14, 24) - exact).norm() < (theirs - exact).norm()


# Where a library's own function guesses or refuses the grid (11.3.7), and ours uses the one given


def test_timm_transformers_and_torchvision_take_an_unnamed_grid_for_a_square():
    long = table((4, 9), 8, 0, torch.float32)  # 36 rows: 4×9 or 6×6
    resize = peer("timm.layers").resample_abs_pos_embed
    guesses = {"timm": lambda new: resize(long, list(new), num_prefix_tokens=0)}
    for name in ("hf-vit", "dinov2", "dinov2-registers"):
        guesses[name] = lambda new, name=name: LIBRARIES[name](long, (4, 9), new)
    for name, guess in guesses.items():
        assert torch.equal(guess((6, 6)), long)  # "as many rows, and a square image"
        assert (ours(name, long, (4, 9), (6, 6)) - long).abs().max() > 0.1
        as_square = ours(name, long, (6, 6), (8, 18))
        torch.testing.assert_close(guess((8, 18)), as_square)
        assert not torch.allclose(as_square, ours(name, long, (4, 9), (8, 18)), atol=0.1)
    long = table((2, 8), 8, 0, torch.float32)
    assert torch.equal(by_torchvision(long, (2, 8), (4, 4)), long)
    assert (ours("torchvision", long, (2, 8), (4, 4)) - long).abs().max() > 0.1


@pytest.mark.parametrize("library", [by_timm, by_torchvision, by_siglip2])
def test_libraries_refuse_rows_that_are_not_a_square(library):
    """Public report 2: int(sqrt(512)) = 22."""
    if library is by_timm:
        resize = peer("timm.layers").resample_abs_pos_embed
        with pytest.raises(RuntimeError, match="shape"):
            resize(table((64, 8)), [32, 8])
    else:
        if peer("transformers").__version__ < "5.24":
            pytest.skip("transformers before 5.24 reshapes such a table without a word")
        with pytest.raises((ValueError, RuntimeError)):
            library(table((64, 8), 8, 0, torch.float32), (64, 8), (24, 24))


# Errors


@pytest.mark.parametrize(
    ("pos_embed", "old", "new", "options", "message"),
    [
        (torch.zeros(1, 17, 8), (3, 5), 4, {}, r"old grid with 16 patches \(17 rows minus 1 .*3×5"),
        (torch.zeros(1, 513, 8), 22, 4, {}, r"Expected old grid with 512 patches.* 22×22 = 484"),
        (torch.zeros(1, 198, 8), 14, 24, {}, r"Expected old grid with 197 patches \(198 rows"),
        (torch.zeros(1, 17, 8), 4, 0, {}, r"new_grid_size of at least 1, but got 0"),
        (torch.zeros(1, 17, 8), (4, -4), 4, {}, r"old_grid_size of at least 1, but got -4"),
        (torch.zeros(1, 17, 8), (4, 4, 1), 4, {}, r"old_grid_size as \(height, width\)"),
        (torch.zeros(1, 17, 8), 4, 2.5, {}, r"an integer .*new_grid_size, but got 2.5"),
        (
            torch.zeros(1, 17, 8),
            4,
            4,
            {"num_prefix_tokens": -1},
            r"num_prefix_tokens of at least 0",
        ),
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
    with pytest.raises(ValueError, match="Expected mode to be one of .*bicubic.*, but got 'cubic'"):
        vit.interpolate_pos_embedding(pos_embed, 4, new, mode="cubic")
    for option in ("antialias", "align_corners"):
        with pytest.raises(ValueError, match="apply to .*'bilinear', 'bicubic'.*not to 'nearest'"):
            vit.interpolate_pos_embedding(pos_embed, 4, new, mode="nearest", **{option: True})
    with pytest.raises(TypeError, match="multiple values for keyword argument 'antialias'"):
        vit.interpolate_pos_embedding(pos_embed, 4, new, antialias=False, **SETTINGS["timm"])
