"""Settings by name: ``like="timm"`` makes the table that timm makes; and where a library errs."""

import math

import numpy as np
import pytest
import torch
from peers import peer

import dnnl.models.vit as vit

SETTINGS = vit.RESIZE_SETTINGS
every_name = pytest.mark.parametrize("like", SETTINGS)


def table(grid, prefix=0, dtype=torch.float32, dim=8):
    rows = prefix + grid[0] * grid[1]
    return torch.randn(1, rows, dim, generator=torch.Generator().manual_seed(rows)).to(dtype)


# What each library makes of the rows of the patches, by its own function and its own defaults


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


def by_pillow(patches, old, new):
    """``jax.image.resize("linear")`` and Pillow's BILINEAR are one filter: a widened triangle."""
    image = peer("PIL.Image")
    grid = patches.float().reshape(*old, -1).numpy()
    channels = [
        np.asarray(image.fromarray(channel).resize(new[::-1], image.Resampling.BILINEAR))
        for channel in np.moveaxis(grid, -1, 0)
    ]
    out = torch.from_numpy(np.stack(channels, axis=-1))
    return out.reshape(1, -1, len(channels)).to(patches.dtype)


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
    "flexivit": by_pillow,
    "siglip2": by_siglip2,
}
ANY_OLD_GRID = {"timm", "jax", "flexivit"}  # the others take the root of the number of rows
SQUARE = [((14, 14), (24, 24)), ((14, 14), (7, 7)), ((7, 7), (16, 16)), ((14, 14), (61, 61))]
NEW = [((14, 14), (9, 20)), ((14, 14), (7, 28)), ((16, 16), (3, 5))]  # to a grid of another form
BOTH = [((4, 9), (6, 6)), ((2, 8), (4, 4)), ((4, 6), (8, 12)), ((20, 5), (3, 14))]
CASES = [
    pytest.param(name, *grids, id=f"{name}-{grids[0]}-{grids[1]}")
    for name in LIBRARIES
    for grids in SQUARE
    + (NEW if name != "torchvision" else [])
    + (BOTH if name in ANY_OLD_GRID else [])
]


def test_every_name_has_a_reference():
    assert set(LIBRARIES) == set(SETTINGS)


# These two resample in the table's own dtype, and round half-way: up to a unit in the last place of
# the numbers below 4. The others go through float32, as ours does, and round once.
ROUNDS_TWICE = {"hf-vit", "torchvision"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("like", "old", "new"), CASES)
def test_a_name_makes_the_table_of_its_library(like, old, new, dtype):
    tolerance = {"rtol": 1e-5, "atol": 5e-6}
    if dtype == torch.bfloat16:
        tolerance = {"rtol": 2**-7, "atol": 2**-6 if like in ROUNDS_TWICE else 1e-5}
    for prefix in (0, 1, 2):
        pos_embed = table(old, prefix, dtype)
        want = LIBRARIES[like](pos_embed[:, prefix:].contiguous(), old, new)
        out = vit.interpolate_pos_embedding(
            pos_embed, old, new, num_prefix_tokens=prefix, like=like
        )
        assert torch.equal(out[:, :prefix], pos_embed[:, :prefix])
        torch.testing.assert_close(out[:, prefix:], want, **tolerance)


@pytest.mark.parametrize("like", sorted(ROUNDS_TWICE))
def test_in_half_precision_ours_is_nearer_to_the_exact_table_than_a_library_that_rounds_twice(like):
    pos_embed = table((14, 14), dtype=torch.bfloat16, dim=64)
    exact = vit.interpolate_pos_embedding(
        pos_embed.double(), 14, 24, num_prefix_tokens=0, like=like
    )
    ours = vit.interpolate_pos_embedding(pos_embed, 14, 24, num_prefix_tokens=0, like=like)
    theirs = LIBRARIES[like](pos_embed, (14, 14), (24, 24))
    assert not torch.equal(ours, theirs)
    assert (ours - exact).norm() < (theirs - exact).norm()


@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_the_whole_table_of_timm_with_any_prefix(prefix):
    pos_embed = table((4, 9), prefix)
    want = peer("timm.layers").resample_abs_pos_embed(
        pos_embed, [6, 6], old_size=[4, 9], num_prefix_tokens=prefix
    )
    out = vit.interpolate_pos_embedding(pos_embed, (4, 9), 6, num_prefix_tokens=prefix, like="timm")
    assert torch.equal(out, want)


@pytest.mark.parametrize("other", SETTINGS)
@every_name
def test_names_of_other_settings_make_other_tables(like, other):
    """The comparisons above can tell the libraries apart, growing and shrinking."""
    same = SETTINGS[like] == SETTINGS[other]
    for new in (24, 7):
        a, b = (
            vit.interpolate_pos_embedding(table((14, 14), 1), 14, new, like=n)
            for n in (like, other)
        )
        assert torch.equal(a, b) == same or (new == 24 and torch.allclose(a, b, atol=1e-5))


# The name among the keywords


@every_name
def test_a_name_is_its_keywords(like):
    pos_embed = table((4, 6), 2)
    want = vit.interpolate_pos_embedding(
        pos_embed, (4, 6), (7, 3), num_prefix_tokens=2, **SETTINGS[like]
    )
    options = {"num_prefix_tokens": 2, "like": like}
    assert torch.equal(vit.interpolate_pos_embedding(pos_embed, (4, 6), (7, 3), **options), want)
    agreeing = {**options, **SETTINGS[like]}
    assert torch.equal(vit.interpolate_pos_embedding(pos_embed, (4, 6), (7, 3), **agreeing), want)
    compiled = torch.compile(vit.interpolate_pos_embedding, fullgraph=True, backend="eager")
    assert torch.equal(compiled(pos_embed, (4, 6), (7, 3), **options), want)


@pytest.mark.parametrize("new", [4, 6])  # also where nothing has to be resized
@pytest.mark.parametrize(
    ("like", "keyword", "message"),
    [
        ("timm", {"antialias": False}, r"like='timm' means antialias=True, but got False"),
        ("timm", {"align_corners": True}, r"like='timm' means align_corners=False, but got True"),
        ("jax", {"mode": "bicubic"}, r"like='jax' means mode='bilinear', but got 'bicubic'"),
        ("hf-vit", {"antialias": True}, r"like='hf-vit' means antialias=False, but got True"),
        ("huggingface", {}, r"Expected like out of timm, hf-vit, .*siglip2, but got 'huggingface'"),
        (["timm"], {}, r"Expected like out of .* but got \['timm'\]"),
    ],
)
def test_a_keyword_that_contradicts_the_name_is_refused_even_if_it_is_the_default(
    like, keyword, message, new
):
    with pytest.raises(ValueError, match=message):
        vit.interpolate_pos_embedding(table((4, 4), 1), 4, new, like=like, **keyword)


def test_modules_take_the_name_too():
    module = vit.ViTEmbedding(16, 4, 3, 8)
    pos_embed = module.pos_embed.pos_embed
    want = vit.interpolate_pos_embedding(pos_embed, 4, 6, mode="bilinear", align_corners=True)
    assert torch.equal(module.interpolate_pos_embedding(4, 6, like="jax"), want)
    assert torch.equal(module.pos_embed.interpolate(4, 6, like="jax"), want)


# Where a library's own function errs or refuses, and ours obeys the grid that it is told


def test_timm_takes_rows_of_an_unnamed_grid_for_a_square():
    """36 rows are 4×9 or 6×6: without `old_size` it guesses, and returns them as they are."""
    resize = peer("timm.layers").resample_abs_pos_embed
    pos_embed = table((4, 9), 1)
    ours = vit.interpolate_pos_embedding(pos_embed, (4, 9), (6, 6), like="timm")
    assert resize(pos_embed, [6, 6]) is pos_embed
    assert (ours - pos_embed).abs().max() > 0.1
    as_square = vit.interpolate_pos_embedding(pos_embed, (6, 6), (8, 18), like="timm")
    assert torch.equal(resize(pos_embed, [8, 18]), as_square)  # no error: the rows of another grid
    assert not torch.allclose(
        as_square, vit.interpolate_pos_embedding(pos_embed, (4, 9), (8, 18), like="timm"), atol=0.1
    )
    with pytest.raises(RuntimeError, match="shape"):  # int(sqrt(512)) = 22
        resize(table((64, 8), 1), [32, 8])


@pytest.mark.parametrize("like", ["hf-vit", "dinov2", "dinov2-registers"])
def test_transformers_reads_a_grid_that_is_not_square_as_if_it_were(like):
    """Its config accepts images of 16×36 in patches of 4, a grid of 4×9; its resize does not."""
    pos_embed = table((4, 9))
    ours = vit.interpolate_pos_embedding(pos_embed, (4, 9), (6, 6), num_prefix_tokens=0, like=like)
    theirs = LIBRARIES[like](pos_embed, (4, 9), (6, 6))
    assert torch.equal(theirs, pos_embed)  # "as many rows, and a square image"
    assert (ours - theirs).abs().max() > 0.1
    as_square = vit.interpolate_pos_embedding(
        pos_embed, (6, 6), (8, 18), num_prefix_tokens=0, like=like
    )
    torch.testing.assert_close(LIBRARIES[like](pos_embed, (4, 9), (8, 18)), as_square)


def test_torchvision_keeps_equal_counts_and_refuses_what_is_not_square():
    resize = peer("torchvision.models.vision_transformer").interpolate_embeddings

    def rows(pos_embed, image_size):
        return resize(image_size, 4, {"encoder.pos_embedding": pos_embed})["encoder.pos_embedding"]

    long = table((2, 8), 1)
    assert rows(long, 16) is long  # to 4×4, and it is still the table of 2×8
    ours = vit.interpolate_pos_embedding(long, (2, 8), 4, like="torchvision")
    assert (ours - long).abs().max() > 0.1
    for refused in (table((64, 8), 1), table((14, 14), 2)):  # 512 patches; a distillation token
        with pytest.raises(ValueError, match="not a perfect square"):
            rows(refused, 96)
    with pytest.raises(TypeError):
        rows(table((4, 4), 1), (16, 32))  # there is no other new grid than a square
    assert vit.interpolate_pos_embedding(
        table((14, 14), 2), 14, 24, num_prefix_tokens=2, like="torchvision"
    ).shape == (1, 578, 8)


def test_siglip2_refuses_a_table_that_is_not_square():
    with pytest.raises(RuntimeError):
        by_siglip2(table((4, 9)), (4, 9), (6, 6))


def test_the_tenth_of_the_first_dinov2_moves_the_grid_and_no_name_reproduces_it():
    """facebookresearch/dinov2, ``interpolate_offset=0.1``: by scale factor, as it was computed."""
    pos_embed = table((37, 37))
    image = pos_embed.reshape(1, 37, 37, 8).permute(0, 3, 1, 2)
    for new in (16, 39):
        factor = (new + 0.1) / 37
        moved = torch.nn.functional.interpolate(
            image, scale_factor=(factor, factor), mode="bicubic", antialias=False
        )
        assert moved.shape[-1] == new == math.floor(37 * factor)
        moved = moved.permute(0, 2, 3, 1).reshape(1, -1, 8)
        for like in SETTINGS:
            ours = vit.interpolate_pos_embedding(pos_embed, 37, new, num_prefix_tokens=0, like=like)
            assert (ours - moved).abs().max() > 0.01
