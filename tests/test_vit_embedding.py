"""The input module as a whole: its order, its sequence, its dtype and its errors."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dnnl.models.vit as vit

FEW = st.integers(1, 3)


def by_hand(module, x):
    """Compute the sequence from the parameters alone, by equation 1 of the paper."""
    weight, bias = module.patch_embed.proj.weight, module.patch_embed.proj.bias
    tokens = vit.patchify(x, module.patch_embed.patch_size) @ weight.flatten(1).T + bias
    if isinstance(module.add_cls_token, vit.ViTAddClassToken):
        prefix = module.add_cls_token.cls_token.repeat(x.shape[0], 1, 1)
        tokens = torch.cat([prefix, tokens], dim=1)
    return tokens + module.pos_embed.pos_embed


@given(
    st.tuples(FEW, FEW),
    st.tuples(FEW, FEW),
    st.integers(1, 13),
    st.integers(0, 4),
    st.integers(0, 2),
)
@settings(max_examples=40)
def test_the_sequence_is_equation_1(grid, patch, channels, prefix, batch):
    size = (grid[0] * patch[0], grid[1] * patch[1])
    module = vit.ViTEmbedding(size, patch, channels, 6, num_prefix_tokens=prefix).double()
    x = torch.randn(batch, channels, *size, dtype=torch.float64)
    out = module(x)
    assert out.shape == (batch, prefix + grid[0] * grid[1], 6)
    torch.testing.assert_close(out, by_hand(module, x))


def test_the_listing_of_the_chapter():
    module = vit.ViTEmbedding(image_size=32, patch_size=8, in_channels=3, embed_dim=64)
    assert module(torch.randn(2, 3, 32, 32)).shape == (2, 17, 64)
    assert module.patch_embed.num_patches == 16
    assert module.interpolate_pos_embedding((4, 4), (6, 6)).shape == (1, 37, 64)


def test_the_children_have_the_names_of_the_chapter_in_its_order():
    module = vit.ViTEmbedding(32, 8, 3, 64, 0.1)
    assert [n for n, _ in module.named_children()] == [
        "patch_embed",
        "add_cls_token",
        "pos_embed",
        "dropout",
    ]
    assert isinstance(module.patch_embed, vit.ViTConvPatchEmbedding)
    assert isinstance(module.add_cls_token, vit.ViTAddClassToken)
    assert isinstance(module.pos_embed, vit.ViTPositionalEmbedding)
    assert isinstance(module.dropout, nn.Dropout)
    assert module.dropout.p == 0.1


@pytest.mark.parametrize(
    ("name", "arguments", "count"),
    [
        ("B/16", (224, 16, 3, 768), 768 * 768 + 768 + 768 + 197 * 768),
        ("L/16", (224, 16, 3, 1024), 768 * 1024 + 1024 + 1024 + 197 * 1024),
        ("H/14", (224, 14, 3, 1280), 588 * 1280 + 1280 + 1280 + 257 * 1280),
    ],
)
def test_the_input_modules_of_the_paper_have_as_many_parameters(name, arguments, count):
    with torch.device("meta"):
        module = vit.ViTEmbedding(*arguments)
    assert sum(p.numel() for p in module.parameters()) == count


def test_at_384_pixels_the_table_has_577_rows():
    assert vit.ViTEmbedding(384, 16, 3, 8).pos_embed.pos_embed.shape == (1, 577, 8)


# Prefix tokens (public report 15)


@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
def test_the_prefix_does_not_depend_on_the_table(prefix):
    """Public report 15: with positions "none" (zeros) no prefix token is lost."""
    module = vit.ViTEmbedding(16, 4, 3, 8, num_prefix_tokens=prefix)
    nn.init.zeros_(module.pos_embed.pos_embed)
    x = torch.randn(2, 3, 16, 16)
    out = module(x)
    assert out.shape == (2, prefix + 16, 8)
    assert torch.equal(out[:, prefix:], module.patch_embed(x))
    if prefix:
        assert torch.equal(out[:, :prefix], module.add_cls_token.cls_token.repeat(2, 1, 1))


def test_registers_added_after_the_sum_get_no_position():
    """Public report 15: the place of the insertion decides, and it is the caller's choice."""
    embedding = vit.ViTEmbedding(16, 4, 3, 8)
    registers = vit.ViTAddClassToken(8, num_tokens=4)
    x = torch.randn(2, 3, 16, 16)
    after = registers(embedding(x))
    assert after.shape == (2, 4 + 17, 8)
    assert torch.equal(after[0, :4], registers.cls_token[0])
    inside = vit.ViTEmbedding(16, 4, 3, 8, num_prefix_tokens=5)
    rows = inside(x)[0, :5] - inside.add_cls_token.cls_token[0]
    torch.testing.assert_close(rows, inside.pos_embed.pos_embed[0, :5])
    assert (rows.abs().sum(dim=1) > 0).all()


def test_positions_before_the_token_are_the_same_family_with_the_row_folded_in():
    """Public report 13, learner question 39: the order matters to a checkpoint alone."""
    module = vit.ViTEmbedding(16, 4, 3, 8).double()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    table, token = module.pos_embed.pos_embed, module.add_cls_token.cls_token
    other_order = torch.cat(
        [(token + table[:, :1]).expand(2, -1, -1), module.patch_embed(x) + table[:, 1:]], dim=1
    )
    torch.testing.assert_close(other_order, module(x))


# Dropout


def test_dropout_comes_last_and_only_in_training():
    module = vit.ViTEmbedding(16, 4, 3, 64, dropout=0.5)
    x = torch.randn(4, 3, 16, 16)
    torch.testing.assert_close(module.eval()(x), by_hand(module, x))
    out, want = module.train()(x), by_hand(module, x)
    dropped = out == 0
    assert abs(dropped.float().mean().item() - 0.5) < 0.05
    torch.testing.assert_close(out[~dropped], 2 * want[~dropped])  # the sum is what is scaled
    assert vit.ViTEmbedding(16, 4).dropout.p == 0.0
    with pytest.raises(ValueError, match="probability"):
        vit.ViTEmbedding(16, 4, dropout=1.5)


# Gradients


def test_every_parameter_of_the_input_module_gets_its_gradient():
    module = vit.ViTEmbedding(8, 4, 2, 3, num_prefix_tokens=2).double()
    g = torch.randn(5, 6, 3, dtype=torch.float64)
    module(torch.randn(5, 2, 8, 8, dtype=torch.float64)).backward(g)
    torch.testing.assert_close(module.pos_embed.pos_embed.grad[0], g.sum(0))
    torch.testing.assert_close(module.add_cls_token.cls_token.grad[0], g[:, :2].sum(0))
    torch.testing.assert_close(module.patch_embed.proj.bias.grad, g[:, 2:].sum((0, 1)))


def test_it_passes_gradcheck_with_respect_to_images_and_parameters():
    module = vit.ViTEmbedding(4, 2, 2, 3).double()
    names = [n for n, _ in module.named_parameters()]
    x = torch.randn(2, 2, 4, 4, dtype=torch.float64, requires_grad=True)

    def call(x, *parameters):
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *module.parameters()))


# Dtypes and layouts


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_converted_module_keeps_its_dtype_to_the_end(dtype):
    module = vit.ViTEmbedding(16, 4, 3, 8)
    x = torch.randn(2, 3, 16, 16)
    want = module(x)
    out = module.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), want, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_under_autocast_the_tokens_keep_the_dtype_of_the_projection(dtype, dynamic):
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=dynamic)
    x = torch.randn(2, 3, 8, 32) if dynamic else torch.randn(2, 3, 16, 16)
    with torch.autocast("cpu", dtype):
        out = module(x)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), module(x), rtol=0.02, atol=0.02)
    out.sum().backward()
    assert module.pos_embed.pos_embed.grad.dtype == torch.float32
    assert module.add_cls_token.cls_token.grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_under_autocast_half_precision_images_are_read_too(dtype):
    module = vit.ViTEmbedding(16, 4, 3, 8)
    with torch.autocast("cpu", dtype):
        assert module(torch.zeros(1, 3, 16, 16, dtype=dtype)).dtype == dtype


def test_autocast_casts_no_float64_and_we_say_so():
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(vit.DTypeError, match="of dtype torch.float32.*got torch.float64"):
            vit.ViTEmbedding(16, 4, 3, 8)(torch.zeros(1, 3, 16, 16, dtype=torch.float64))
        with pytest.raises(vit.DTypeError, match="of dtype torch.float64.*got torch.float32"):
            vit.ViTEmbedding(16, 4, 3, 8).double()(torch.zeros(1, 3, 16, 16))


def test_channels_last_gives_the_same_sequence():
    module = vit.ViTEmbedding(16, 4, 3, 8).double()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    want = module(x)
    module.to(memory_format=torch.channels_last)
    torch.testing.assert_close(module(x.contiguous(memory_format=torch.channels_last)), want)


def test_an_empty_batch_gives_an_empty_sequence_and_gradients_of_zero():
    module = vit.ViTEmbedding(16, 4, 3, 8)
    out = module(torch.zeros(0, 3, 16, 16))
    assert out.shape == (0, 17, 8)
    out.sum().backward()
    assert all((p.grad == 0).all() for p in module.parameters())


def test_a_non_square_image_on_non_square_patches():
    module = vit.ViTEmbedding((12, 40), (3, 8), 2, 6)
    assert module.patch_embed.grid_size == (4, 5)
    assert module(torch.randn(1, 2, 12, 40)).shape == (1, 21, 6)
    with pytest.raises(vit.ShapeError, match="size 12×40, but got 15×32"):
        module(torch.randn(1, 2, 15, 32))  # 5×4 patches: as many


# Errors


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3, 448, 112), r"Expected images of size 224×224, but got 448×112"),
        ((2, 3, 112, 112), r"Expected images of size 224×224, but got 112×112"),
        ((2, 3, 230, 238), r"divisible by the patch size 16×16, but got 230×238"),
        ((2, 4, 224, 224), r"3 channels, but got 4"),
        ((3, 224, 224), r"\(B, C, H, W\), but got \(3, 224, 224\)"),
    ],
)
def test_images_that_do_not_fit_are_refused(shape, message):
    """Public reports 8 and 9: no table is sliced, no image cropped."""
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTEmbedding(embed_dim=8)(torch.zeros(shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": 30}, r"divisible by the patch size 8×8, but got 30×30"),
        ({"patch_size": -8}, r"patch_size of at least 1, but got -8"),
        ({"num_prefix_tokens": -1}, r"num_prefix_tokens of at least 0, but got -1"),
        ({"num_prefix_tokens": None}, r"a whole number as num_prefix_tokens, but got None"),
        ({"embed_dim": 0}, r"embed_dim of at least 1, but got 0"),
        ({"in_channels": 0}, r"in_channels of at least 1, but got 0"),
    ],
)
def test_arguments_that_make_no_module_are_refused(options, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTEmbedding(**{"image_size": 32, "patch_size": 8, "embed_dim": 8, **options})


def test_the_method_is_the_function_and_changes_nothing():
    module = vit.ViTEmbedding((8, 12), 4, 3, 8, num_prefix_tokens=2)
    before = copy.deepcopy(module.state_dict())
    out = module.interpolate_pos_embedding((2, 3), (4, 4), antialias=True)
    want = vit.interpolate_pos_embedding(
        module.pos_embed.pos_embed, (2, 3), (4, 4), num_prefix_tokens=2, antialias=True
    )
    assert torch.equal(out, want)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    with pytest.raises(vit.ShapeError, match="Expected old grid"):
        module.interpolate_pos_embedding((3, 3), (4, 4))
