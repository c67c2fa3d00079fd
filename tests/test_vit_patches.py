"""Patches: cutting, putting back, and the three embeddings of them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dnnl.models.vit as vit

FEW = st.integers(1, 4)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.uint8, torch.int64]


@st.composite
def images(draw, least_batch=0):
    """Draw images of any batch, channels, grid, dtype and memory layout, with their patch."""
    b, c = draw(st.integers(least_batch, 3)), draw(FEW)
    patch, grid = (draw(FEW), draw(FEW)), (draw(FEW), draw(FEW))
    h, w = grid[0] * patch[0], grid[1] * patch[1]
    x = torch.arange(b * c * h * w).reshape(b, c, h, w) % 251
    x = x.to(draw(st.sampled_from(DTYPES)))
    layout = draw(st.sampled_from(["contiguous", "channels_last", "transposed", "strided"]))
    if layout == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif layout == "transposed":
        x = x.transpose(2, 3).contiguous().transpose(2, 3)
    elif layout == "strided":
        x = x.repeat_interleave(2, dim=3)[..., ::2]
    return x, patch, grid


# patchify and unpatchify


@given(images())
def test_unpatchify_undoes_patchify_exactly(case):
    x, patch, grid = case
    p = vit.patchify(x, patch)
    assert p.shape == (x.shape[0], grid[0] * grid[1], x.shape[1] * patch[0] * patch[1])
    assert p.dtype == x.dtype
    assert torch.equal(vit.unpatchify(p, patch, grid), x)


@given(images())
def test_patchify_undoes_unpatchify_exactly(case):
    x, patch, grid = case
    p = vit.patchify(x, patch).flip(1)  # patches that stand in another order than any image's
    assert torch.equal(vit.patchify(vit.unpatchify(p, patch, grid), patch), p)


@given(images(least_batch=1))  # F.unfold refuses an empty batch
def test_patchify_has_the_order_of_unfold(case):
    x, patch, _ = case
    x = x.float()
    assert torch.equal(vit.patchify(x, patch), F.unfold(x, patch, stride=patch).transpose(1, 2))


def test_patchify_of_a_small_image_is_what_one_writes_by_hand():
    x = torch.tensor(
        [
            [0, 1, 2, 3, 4, 5],
            [6, 7, 8, 9, 10, 11],
            [12, 13, 14, 15, 16, 17],
            [18, 19, 20, 21, 22, 23],
        ]
    )
    x = torch.stack([x, 100 + x])[None]  # (1, 2, 4, 6), two channels
    assert vit.patchify(x, (2, 3)).tolist() == [
        [
            [0, 1, 2, 6, 7, 8, 100, 101, 102, 106, 107, 108],
            [3, 4, 5, 9, 10, 11, 103, 104, 105, 109, 110, 111],
            [12, 13, 14, 18, 19, 20, 112, 113, 114, 118, 119, 120],
            [15, 16, 17, 21, 22, 23, 115, 116, 117, 121, 122, 123],
        ]
    ]


def test_a_patch_is_a_square_of_the_image_and_not_a_strip_of_its_rows():
    """Learner question 3: a reshape without permute gives 256 pixels of the top rows."""
    x = torch.arange(3 * 32 * 32).reshape(1, 3, 32, 32)
    assert torch.equal(vit.patchify(x, 16)[0, 1], x[0, :, :16, 16:].flatten())
    strips = x.reshape(1, 3, 2, 2, 16, 16).permute(0, 2, 3, 1, 4, 5).reshape(1, 4, -1)
    assert torch.equal(strips[0, 0, :256], x[0, 0, :8].flatten())  # 8 rows, all 32 columns
    assert not torch.equal(vit.patchify(x, 16), strips)


def test_patchify_of_an_empty_batch_keeps_the_other_sizes():
    """Public report 11."""
    assert vit.patchify(torch.zeros(0, 3, 32, 32), 8).shape == (0, 16, 192)
    assert vit.unpatchify(torch.zeros(0, 16, 192), 8, 4).shape == (0, 3, 32, 32)


def test_an_int_patch_is_a_square_and_an_int_grid_too():
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(vit.patchify(x, 4), vit.patchify(x, (4, 4)))
    p = vit.patchify(x, 4)
    assert torch.equal(vit.unpatchify(p, 4, 2), vit.unpatchify(p, (4, 4), (2, 2)))


def test_gradients_pass_through_patchify_and_unpatchify():
    x = torch.randn(2, 2, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: vit.patchify(x, (2, 3)), x)
    p = torch.randn(2, 4, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: vit.unpatchify(p, (2, 3), (2, 2)), p)


@pytest.mark.parametrize(
    ("shape", "patch", "message"),
    [
        ((1, 3, 230, 238), 16, r"divisible by the patch size 16×16, but got 230×238"),
        ((1, 3, 32, 30), (8, 8), r"divisible by the patch size 8×8, but got 32×30"),
        ((3, 32, 32), 8, r"Expected images of shape \(B, C, H, W\), but got \(3, 32, 32\)"),
        ((1, 3, 32, 32), 0, r"patch_size of at least 1, but got 0"),
        ((1, 3, 32, 32), (8, -8), r"a width in patch_size of at least 1, but got -8"),
        ((1, 3, 32, 32), (8, 8, 8), r"patch_size as \(height, width\), but got \(8, 8, 8\)"),
        ((1, 3, 32, 32), 8.0, r"a whole number .*patch_size, but got 8.0"),
        ((1, 3, 32, 32), True, r"a whole number .*patch_size, but got True"),
        ((1, 3, 0, 32), 8, r"at least one patch, but got 0×32"),
    ],
)
def test_patchify_says_what_it_expected_and_what_came(shape, patch, message):
    """Public report 9: a size that the patch does not divide is an error, never a crop."""
    with pytest.raises(vit.ShapeError, match=message):
        vit.patchify(torch.zeros(shape), patch)


@pytest.mark.parametrize(
    ("shape", "patch", "grid", "message"),
    [
        ((1, 16, 192), 8, (2, 4), r"Expected 8 patches for a grid of 2×4, but got 16"),
        ((1, 16, 100), 8, 4, r"divisible by 64 \(8×8 pixels\), but got 100"),
        ((16, 192), 8, 4, r"Expected patches of shape \(B, N, C\*P\*P\), but got \(16, 192\)"),
        ((1, 16, 192), 8, 0, r"grid_size of at least 1, but got 0"),
    ],
)
def test_unpatchify_says_what_it_expected_and_what_came(shape, patch, grid, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.unpatchify(torch.zeros(shape), patch, grid)


def test_patchify_of_something_else_than_a_tensor_is_refused_by_name():
    with pytest.raises(vit.DTypeError, match="torch.Tensor .*, but got list"):
        vit.patchify([[1]], 8)


# The embeddings

PATCH_EMBEDDINGS = [vit.ViTLinearPatchEmbedding, vit.ViTConvPatchEmbedding]
both = pytest.mark.parametrize("embedding", PATCH_EMBEDDINGS)


def twins(image_size, patch_size, in_channels, embed_dim):
    """Return a linear and a convolutional embedding with equal weights, in float64."""
    linear = vit.ViTLinearPatchEmbedding(image_size, patch_size, in_channels, embed_dim).double()
    conv = vit.ViTConvPatchEmbedding(image_size, patch_size, in_channels, embed_dim).double()
    with torch.no_grad():
        conv.proj.weight.copy_(linear.proj.weight.reshape_as(conv.proj.weight))
        conv.proj.bias.copy_(linear.proj.bias)
    return linear, conv


@given(
    st.tuples(FEW, FEW),
    st.tuples(FEW, FEW),
    st.integers(1, 13),
    st.integers(1, 8),
    st.integers(0, 3),
)
@settings(max_examples=40)
def test_linear_and_convolutional_embeddings_are_one_map(grid, patch, channels, dim, batch):
    size = (grid[0] * patch[0], grid[1] * patch[1])
    linear, conv = twins(size, patch, channels, dim)
    x = torch.randn(batch, channels, *size, dtype=torch.float64)
    torch.testing.assert_close(linear(x), conv(x), rtol=1e-12, atol=1e-12)
    assert linear(x).shape == (batch, grid[0] * grid[1], dim)


def test_the_embedding_is_the_formula_for_every_patch():
    linear, conv = twins((8, 12), 4, 2, 5)
    x = torch.randn(2, 2, 8, 12, dtype=torch.float64)
    for row in range(2):
        for column in range(3):
            patch = x[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            want = patch.flatten(1) @ linear.proj.weight.T + linear.proj.bias
            for module in (linear, conv):
                torch.testing.assert_close(module(x)[:, 3 * row + column], want)


@both
def test_defaults_are_those_of_vit_b_16(embedding):
    module = embedding()
    assert module.image_size == (224, 224)
    assert module.patch_size == (16, 16)
    assert module.grid_size == (14, 14)
    assert module.num_patches == 196
    assert sum(p.numel() for p in module.parameters()) == 768 * 768 + 768 == 590_592


@both
def test_attributes_of_sizes_are_height_and_width(embedding):
    module = embedding(image_size=(8, 32), patch_size=(2, 4), in_channels=2, embed_dim=6)
    assert module.grid_size == (4, 8)
    assert module.num_patches == 32
    assert (module.in_channels, module.embed_dim) == (2, 6)
    assert module(torch.zeros(1, 2, 8, 32)).shape == (1, 32, 6)


def test_channels_in_and_channels_out_are_not_swapped():
    """Public report 16."""
    linear, conv = twins(8, 4, 5, 7)
    assert isinstance(conv.proj, nn.Conv2d)
    assert (conv.proj.in_channels, conv.proj.out_channels) == (5, 7)
    assert conv.proj.weight.shape == (7, 5, 4, 4)
    assert conv.proj.kernel_size == conv.proj.stride == (4, 4)
    assert isinstance(linear.proj, nn.Linear)
    assert linear.proj.weight.shape == (7, 5 * 4 * 4)


@both
@pytest.mark.parametrize("channels", [1, 13])
def test_grey_and_multispectral_images_are_images(embedding, channels):
    module = embedding(32, 8, channels, 16)
    assert module(torch.zeros(2, channels, 32, 32)).shape == (2, 16, 16)


@both
def test_channels_last_images_give_the_same_tokens(embedding):
    module = embedding(32, 8, 3, 16).double()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    last = copy.deepcopy(module).to(memory_format=torch.channels_last)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last)), module(x))


@both
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3, 448, 112), r"Expected images of size 224×224, but got 448×112"),
        ((2, 3, 240, 224), r"Expected images of size 224×224, but got 240×224"),
        ((2, 3, 230, 238), r"divisible by the patch size 16×16, but got 230×238"),
        ((2, 1, 224, 224), r"Expected images with 3 channels, but got 1"),
        ((3, 224, 224), r"Expected images of shape \(B, C, H, W\), but got \(3, 224, 224\)"),
    ],
)
def test_a_wrong_image_is_refused_even_if_its_count_of_patches_fits(embedding, shape, message):
    """Public report 9, and 448×112 in place of 224×224 (both are 196 patches)."""
    with pytest.raises(vit.ShapeError, match=message):
        embedding(embed_dim=8)(torch.zeros(shape))


@both
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), r"floating-point images.*torch.uint8.*255"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.complex64), r"floating-point images.*complex64"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.float64), r"torch.float32.*but got torch.float64"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.float16), r"torch.float32.*but got torch.float16"),
        ("a photograph", r"torch.Tensor .*, but got str"),
    ],
)
def test_a_wrong_dtype_gets_a_message_of_ours(embedding, x, message):
    with pytest.raises(vit.DTypeError, match=message):
        embedding(32, 8, 3, 16)(x)


@both
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((230, 16), r"divisible by the patch size 16×16, but got 230×230"),
        (((32, 30), 8), r"divisible by the patch size 8×8, but got 32×30"),
        ((0, 16), r"image_size of at least 1, but got 0"),
        ((-32, 16), r"image_size of at least 1, but got -32"),
        ((32, 0), r"patch_size of at least 1, but got 0"),
        ((32, 8, 0), r"in_channels of at least 1, but got 0"),
        ((32, 8, 3, -4), r"embed_dim of at least 1, but got -4"),
        ((32.0, 8), r"a whole number .*image_size, but got 32.0"),
        (("32", 8), r"a whole number .*image_size, but got '32'"),
        (((32,), 8), r"image_size as \(height, width\), but got \(32,\)"),
        ((32, 8, 3, 6.5), r"a whole number as embed_dim, but got 6.5"),
    ],
)
def test_the_constructor_refuses_sizes_that_make_no_grid(embedding, arguments, message):
    with pytest.raises(vit.ShapeError, match=message):
        embedding(*arguments)


@both
def test_a_dynamic_embedding_takes_every_size_that_the_patch_divides(embedding):
    module = embedding(32, 8, 3, 16, dynamic_image_size=True)
    x = torch.randn(2, 3, 16, 64)
    want = vit.patchify(x, 8) @ module.proj.weight.flatten(1).T + module.proj.bias
    torch.testing.assert_close(module(x), want)
    assert module.grid_of(x) == (2, 8)
    for height, width in [(30, 32), (32, 30), (0, 32), (4, 4)]:
        with pytest.raises(vit.ShapeError, match=f"{height}×{width}"):
            module(torch.zeros(1, 3, height, width))


def test_sizes_may_be_lists_numpy_integers_and_torch_sizes():
    from numpy import int64

    for size in ([8, 16], (int64(8), int64(16)), torch.zeros(8, 16).shape):
        assert vit.ViTConvPatchEmbedding(size, 4, 3, 8).grid_size == (2, 4)


# The hybrid


def backbone():
    """Return a CNN that quarters height and width, and counts in its batch norm."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
    )


def test_the_hybrid_embeds_patches_of_the_feature_map():
    cnn = backbone()
    module = vit.ViTHybridPatchEmbedding(cnn, (32, 48), (2, 3), 3, 10).double()
    assert tuple(module.feature_size) == (8, 12)
    assert module.grid_size == (4, 4)
    assert module.num_patches == 16
    x = torch.randn(2, 3, 32, 48, dtype=torch.float64)
    module.eval()
    want = vit.patchify(cnn(x), (2, 3)) @ module.proj.weight.flatten(1).T + module.proj.bias
    torch.testing.assert_close(module(x), want)
    assert module(x[:0]).shape == (0, 16, 10)


def test_the_hybrid_trains_its_backbone():
    module = vit.ViTHybridPatchEmbedding(backbone(), 32, 1, 3, 8)
    module(torch.randn(2, 3, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.proj.parameters())
    assert module.backbone[0].weight.grad.abs().sum() > 0


def test_the_hybrid_leaves_modes_and_statistics_of_its_backbone_alone():
    cnn = backbone()
    cnn.train()
    cnn[1].eval()  # a frozen batch norm in a training network
    before = copy.deepcopy(cnn.state_dict())
    vit.ViTHybridPatchEmbedding(cnn, 32, 1, 3, 8)
    assert [m.training for m in cnn] == [True, False, True, True]
    assert all(torch.equal(v, before[k]) for k, v in cnn.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((32, 3, 3), vit.ShapeError),  # 3 does not divide the 8×8 feature map
        ((32, 1, 5), RuntimeError),  # the backbone itself wants 3 channels
    ],
)
def test_a_hybrid_that_fails_to_be_made_leaves_its_backbone_as_it_was(arguments, error):
    cnn = backbone().train()
    cnn[1].eval()
    before = copy.deepcopy(cnn.state_dict())
    with pytest.raises(error):
        vit.ViTHybridPatchEmbedding(cnn, *arguments, 8)
    assert [m.training for m in cnn] == [True, False, True, True]
    assert all(torch.equal(v, before[k]) for k, v in cnn.state_dict().items())


def test_the_hybrid_says_what_is_wrong():
    with pytest.raises(vit.ShapeError, match="a feature map divisible by .* 3×3, but got 8×8"):
        vit.ViTHybridPatchEmbedding(backbone(), 32, 3)
    flat = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(vit.ShapeError, match=r"feature map .*\(B, F, h, w\), but got \(1, 3\)"):
        vit.ViTHybridPatchEmbedding(flat, 32)
    module = vit.ViTHybridPatchEmbedding(backbone(), 32, 1, 3, 8)
    with pytest.raises(vit.ShapeError, match="Expected images of size 32×32, but got 64×16"):
        module(torch.zeros(1, 3, 64, 16))
    with pytest.raises(vit.ShapeError, match="3 channels, but got 4"):
        module(torch.zeros(1, 4, 32, 32))
    with pytest.raises(vit.DTypeError, match="torch.uint8"):
        module(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))


def test_the_hybrid_takes_a_backbone_without_parameters_or_of_another_dtype():
    assert vit.ViTHybridPatchEmbedding(nn.AvgPool2d(2), 8, 2, 3, 4).grid_size == (2, 2)
    half = vit.ViTHybridPatchEmbedding(backbone().bfloat16(), 32, 1, 3, 4).bfloat16()
    assert half(torch.zeros(1, 3, 32, 32, dtype=torch.bfloat16)).dtype == torch.bfloat16
