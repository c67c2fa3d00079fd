"""The table of positions as a module, and the fixed sin-cos tables."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peers import peer

import dnnl.models.vit as vit

SIDE = st.integers(1, 6)


# The module


def test_row_i_of_the_table_is_added_to_token_i():
    """Learner question 37: the index of the row is the numbering of the patches."""
    module, x = vit.ViTPositionalEmbedding(4, 6), torch.randn(3, 7, 4)
    for b, image in enumerate(module(x)):
        for i, token in enumerate(image):
            assert torch.equal(token, x[b, i] + module.pos_embed[0, i])


def test_two_positions_get_different_rows_and_row_0_is_the_class_tokens():
    """Public report 13: no vector is shared by all patches; the class token is there before."""
    module = vit.ViTEmbedding(16, 4, 3, 8)
    white = module(torch.ones(1, 3, 16, 16))[0]  # equal patches: they differ by position alone
    table = module.pos_embed.pos_embed[0]
    torch.testing.assert_close(white[1:] - white[1], table[1:] - table[1])
    torch.testing.assert_close(white[0], module.add_cls_token.cls_token[0, 0] + table[0])


@pytest.mark.parametrize(
    ("arguments", "prefix", "has_token"),
    [
        ({}, 1, True),
        ({"use_cls_token": False}, 0, False),
        ({"num_prefix_tokens": 0}, 0, False),
        ({"use_cls_token": False, "num_prefix_tokens": 5}, 5, True),
    ],
)
def test_the_prefix_is_as_long_as_one_says(arguments, prefix, has_token):
    module = vit.ViTPositionalEmbedding(8, 12, **arguments)
    assert (module.num_prefix_tokens, module.num_patches) == (prefix, 12)
    assert module.use_cls_token is has_token
    assert module.pos_embed.shape == (1, prefix + 12, 8)
    assert module(torch.zeros(2, prefix + 12, 8)).shape == (2, prefix + 12, 8)


@pytest.mark.parametrize("length", [16, 18, 1, 0])
def test_a_sequence_of_the_wrong_length_is_refused(length):
    module = vit.ViTPositionalEmbedding(8, 16)
    with pytest.raises(vit.ShapeError, match=f"Expected sequence length 17, but got {length}"):
        module(torch.zeros(2, length, 8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((8, 0), r"num_patches of at least 1, but got 0"),
        ((0, 8), r"embed_dim of at least 1, but got 0"),
        ((8, 8, True, -1), r"num_prefix_tokens of at least 0, but got -1"),
        ((8, 4.0), r"an integer as num_patches, but got 4.0"),
    ],
)
def test_the_table_refuses_counts_that_make_no_table(arguments, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTPositionalEmbedding(*arguments)


def test_the_methods_resize_with_the_modules_own_prefix_and_settings_and_change_nothing():
    timm, jax = vit.RESIZE_SETTINGS["timm"], vit.RESIZE_SETTINGS["jax"]
    embedding = vit.ViTEmbedding((12, 16), 4, 3, 8, num_prefix_tokens=3, resize="timm")
    table = embedding.pos_embed.pos_embed
    for method in (embedding.pos_embed.interpolate, embedding.interpolate_pos_embedding):
        for options in ({}, {"mode": "bilinear"}, jax):
            want = vit.interpolate_pos_embedding(
                table, (3, 4), (2, 2), num_prefix_tokens=3, **{**timm, **options}
            )
            assert torch.equal(method((3, 4), (2, 2), **options), want)
        with pytest.raises(TypeError):
            method((3, 4), (2, 2), interpolation="bicubic")
        with pytest.raises(vit.ShapeError, match="Expected old grid"):
            method((4, 4), (2, 2))
    own = embedding.table_for((3, 4))
    assert torch.equal(own, table) and own is not table
    want = vit.interpolate_pos_embedding(table, (3, 4), 5, num_prefix_tokens=3, **timm)
    assert torch.equal(embedding.table_for(5), want)
    assert embedding.pos_embed.pos_embed is table and table.shape == (1, 15, 8)
    plain = vit.ViTPositionalEmbedding(8, 12)  # bicubic without antialias
    want = vit.interpolate_pos_embedding(plain.pos_embed, (3, 4), (2, 2))
    assert torch.equal(plain.interpolate((3, 4), (2, 2)), want)


def test_a_table_for_another_grid_is_computed_each_time():
    """Case 3: what a caller does with one has no effect on the next."""
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval()
    x = torch.randn(1, 3, 8, 24)
    want = module(x)
    with torch.no_grad():
        module.table_for((2, 6)).zero_()
    module.table_for((2, 6)).register_hook(lambda g: g * 0)
    assert torch.equal(module(x), want)
    module(x).sum().backward()
    assert module.pos_embed.pos_embed.grad.abs().sum() > 0


# Sin-cos


def waves(position, width):
    """Write the code of one position as the papers do, number by number."""
    half = width // 2
    angles = [position / 10000 ** (j / half) for j in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


@given(st.tuples(SIDE, SIDE), st.integers(1, 5), st.integers(0, 3))
def test_the_2d_table_is_the_code_of_the_column_then_that_of_the_row(grid, quarter, prefix):
    dim = 4 * quarter
    table = vit.sincos_pos_embedding(grid, dim, prefix)
    assert table.shape == (1, prefix + grid[0] * grid[1], dim)
    assert table.dtype == torch.float32 and not table.requires_grad
    assert (table[:, :prefix] == 0).all()
    want = [
        waves(column, dim // 2) + waves(row, dim // 2)
        for row in range(grid[0])
        for column in range(grid[1])
    ]
    torch.testing.assert_close(table[0, prefix:], torch.tensor(want), rtol=0, atol=1e-6)


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 3))
def test_the_1d_table_is_the_code_of_the_index(n, half, prefix):
    table = vit.sincos_pos_embedding_1d(n, 2 * half, prefix)
    want = torch.tensor([waves(i, 2 * half) for i in range(n)])
    assert table.shape == (1, prefix + n, 2 * half)
    assert (table[:, :prefix] == 0).all()
    torch.testing.assert_close(table[0, prefix:], want, rtol=0, atol=1e-6)


def test_a_far_position_is_as_exact_as_a_near_one():
    """In float32 the angles of position 4999 are wrong by 1e-4."""
    code = vit.sincos_pos_embedding_1d(5000, 64)[0, 4999]
    torch.testing.assert_close(code, torch.tensor(waves(4999, 64)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("grid", [(14, 14), (3, 5), (8, 32)])
def test_the_2d_table_is_that_of_transformers_but_for_the_order_of_its_halves(grid):
    """transformers (from 5 on) puts the code of the row before that of the column."""
    mae = peer("transformers.models.vit_mae.modeling_vit_mae")
    want = mae.build_2d_sinusoidal_position_embedding(*grid, embed_dim=64, cls_token=True)
    ours = vit.sincos_pos_embedding(grid, 64, num_prefix_tokens=1)[0]
    torch.testing.assert_close(ours.roll(32, dims=1), want, rtol=0, atol=1e-6)


def test_a_table_made_under_a_device_has_its_dtype_and_shape_there():
    """Round 2, case 9: some devices have no float64; ``meta`` stands for the default device."""
    for make in (
        lambda: vit.sincos_pos_embedding((2, 3), 8, 1),
        lambda: vit.sincos_pos_embedding_1d(6, 8, 1),
    ):
        with torch.device("meta"):
            table = make()
        assert (table.device.type, table.dtype, table.shape) == ("meta", torch.float32, (1, 7, 8))
        assert make().device.type == "cpu"


@pytest.mark.parametrize("grid", [(4, 6), (14, 14)])
def test_every_patch_is_most_similar_to_itself_once_the_prefix_is_dropped(grid):
    """Public report 12, learner question 45: to drop the last row in its place shifts every map."""
    n = grid[0] * grid[1]
    table = vit.sincos_pos_embedding(grid, 64, num_prefix_tokens=1)[0]
    code = vit.sincos_pos_embedding(grid, 64)[0]  # row i is the code of patch i
    right = torch.nn.functional.normalize(table[1:], dim=1) @ code.T
    wrong = torch.nn.functional.normalize(table[:-1], dim=1) @ code.T
    assert torch.equal(right.argmax(dim=1), torch.arange(n))
    assert torch.equal(wrong[1:].argmax(dim=1), torch.arange(n - 1))  # shifted by one patch


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vit.sincos_pos_embedding(4, 6), "embed_dim divisible by 4, but got 6"),
        (lambda: vit.sincos_pos_embedding(4, 0), "embed_dim of at least 1, but got 0"),
        (lambda: vit.sincos_pos_embedding(0, 8), "grid_size of at least 1, but got 0"),
        (lambda: vit.sincos_pos_embedding((4, 4, 1), 8), r"grid_size as \(height, width\)"),
        (lambda: vit.sincos_pos_embedding(4, 8, -1), "num_prefix_tokens of at least 0"),
        (lambda: vit.sincos_pos_embedding_1d(4, 3), "embed_dim divisible by 2, but got 3"),
        (lambda: vit.sincos_pos_embedding_1d(4, 0), "embed_dim of at least 1, but got 0"),
        (lambda: vit.sincos_pos_embedding_1d(0, 4), "num_positions of at least 1, but got 0"),
    ],
)
def test_a_table_that_cannot_be_is_refused(make, message):
    with pytest.raises(vit.ShapeError, match=message):
        make()
