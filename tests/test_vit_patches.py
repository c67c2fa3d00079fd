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
PAIR = st.tuples(FEW, FEW)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.uint8, torch.int64]


@st.composite
def images(draw, least_batch=0):
    """Draw images of any batch, channels, grid, dtype and memory layout, with patch and grid."""
    b, c, patch, grid = draw(st.integers(least_batch, 3)), draw(FEW), draw(PAIR), draw(PAIR)
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
def test_patchify_and_unpatchify_are_exact_inverses(case):
    x, patch, grid = case
    p = vit.patchify(x, patch)
    assert p.shape == (x.shape[0], grid[0] * grid[1], x.shape[1] * patch[0] * patch[1])
    assert p.dtype == x.dtype
    assert torch.equal(vit.unpatchify(p, patch, grid), x)
    p = p.flip(1)  # patches in an order that no image above has
    assert torch.equal(vit.patchify(vit.unpatchify(p, patch, grid), patch), p)


@given(images(least_batch=1))  # F.unfold refuses an empty batch
def test_patchify_has_the_order_of_unfold(case):
    x, patch, _ = case
    x = x.float()
    assert torch.equal(vit.patchify(x, patch), F.unfold(x, patch, stride=patch).transpose(1, 2))


def test_patchify_of_a_small_image_is_what_one_writes_by_hand():
    x = torch.arange(16).reshape(4, 4)
    x = torch.stack([x, 100 + x])[None, :, :2]  # (1, 2, 2, 4), two channels
    assert vit.patchify(x, 2).tolist() == [
        [[0, 1, 4, 5, 100, 101, 104, 105], [2, 3, 6, 7, 102, 103, 106, 107]]
    ]


def test_an_int_means_a_square_and_pairs_may_be_lists_or_numpy_integers():
    from numpy import int64

    x = torch.randn(2, 3, 8, 16)
    p = vit.patchify(x, 4)
    for patch in [(4, 4), [4, 4], (int64(4), int64(4)), torch.zeros(4, 4).shape]:
        assert torch.equal(vit.patchify(x, patch), p)
    assert torch.equal(vit.unpatchify(p[:, :4], 4, 2), vit.unpatchify(p[:, :4], (4, 4), (2, 2)))
    assert vit.ViTConvPatchEmbedding([8, 16], 4, 3, 8).grid_size == (2, 4)


@pytest.mark.parametrize(
    ("shape", "patch", "message"),
    [
        ((1, 3, 230, 238), 16, r"an image size divisible by .* 16×16, but got 230×238"),
        ((1, 3, 32, 30), (8, 8), r"divisible by the patch size 8×8, but got 32×30"),
        ((1, 3, 30, 32), (8, 8), r"divisible by the patch size 8×8, but got 30×32"),
        ((3, 32, 32), 8, r"Expected images of shape \(B, C, H, W\), but got \(3, 32, 32\)"),
        ((1, 3, 32, 32), 0, r"patch_size of at least 1, but got 0"),
        ((1, 3, 32, 32), (8, -8), r"a width in patch_size of at least 1, but got -8"),
        ((1, 3, 32, 32), (-8, 8), r"a height in patch_size of at least 1, but got -8"),
        ((1, 3, 32, 32), (8, 8, 8), r"patch_size as \(height, width\), but got \(8, 8, 8\)"),
        ((1, 3, 32, 32), 8.0, r"an integer as a height in patch_size, but got 8.0"),
        ((1, 3, 32, 32), True, r"an integer .*patch_size, but got True"),
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


# The embeddings

PATCH_EMBEDDINGS = [vit.ViTLinearPatchEmbedding, vit.ViTConvPatchEmbedding]
both = pytest.mark.parametrize("embedding", PATCH_EMBEDDINGS)


@given(PAIR, PAIR, st.integers(1, 13), st.integers(1, 8), st.integers(0, 3))
@settings(max_examples=40)
def test_both_embeddings_apply_one_affine_map_to_every_patch(grid, patch, channels, dim, batch):
    size = (grid[0] * patch[0], grid[1] * patch[1])
    linear, conv = (kind(size, patch, channels, dim).double() for kind in PATCH_EMBEDDINGS)
    weight = linear.proj.weight.reshape_as(conv.proj.weight)
    conv.load_state_dict({"proj.weight": weight, "proj.bias": linear.proj.bias})
    x = torch.randn(batch, channels, *size, dtype=torch.float64)
    for module in (linear, conv):
        out = module(x)
        assert out.shape == (batch, module.num_patches, dim)
        for i in range(module.num_patches):
            row, column = divmod(i, grid[1])
            top, left = row * patch[0], column * patch[1]
            cut = x[:, :, top : top + patch[0], left : left + patch[1]].flatten(1)
            want = cut @ linear.proj.weight.T + linear.proj.bias
            torch.testing.assert_close(out[:, i], want, rtol=1e-12, atol=1e-12)


@both
def test_sizes_are_height_and_width_and_channels_are_not_swapped(embedding):
    """Public report 16: ``Conv2d(embed_dim, in_channels, …)``."""
    module = embedding(image_size=(8, 32), patch_size=(2, 4), in_channels=5, embed_dim=7)
    assert (module.grid_size, module.num_patches) == ((4, 8), 32)
    assert (module.in_channels, module.embed_dim) == (5, 7)
    assert module.proj.weight.flatten(1).shape == (7, 5 * 2 * 4)
    assert module(torch.zeros(1, 5, 8, 32)).shape == (1, 32, 7)
    assert repr(module).startswith(f"{embedding.__name__}(\n  image_size=(8, 32), patch_size=(2, 4")
    assert "grid=(4, 8)" in repr(module)


@both
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3, 64, 16), r"Expected images of size 32×32, but got 64×16"),
        (torch.zeros(2, 3, 40, 32), r"Expected images of size 32×32, but got 40×32"),
        (torch.zeros(2, 3, 32, 40), r"Expected images of size 32×32, but got 32×40"),
        (torch.zeros(2, 3, 30, 34), r"divisible by the patch size 8×8, but got 30×34"),
        (torch.zeros(2, 1, 32, 32), r"Expected images with 3 channels, but got 1"),
        (torch.zeros(3, 32, 32), r"Expected images of shape \(B, C, H, W\), but got \(3, 32, 32\)"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), r"floating-point images.*torch.uint8.*255"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.complex64), r"floating-point images.*complex64"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.float64), r"torch.float32.*but got torch.float64"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.float16), r"torch.float32.*but got torch.float16"),
        ("a photograph", r"torch.Tensor \(B, C, H, W\), but got str"),
    ],
)
def test_a_wrong_image_gets_a_message_of_ours(embedding, x, message):
    """Public report 9; and 448×112 in place of 224×224, which is as many patches."""
    with pytest.raises(vit.ShapeError, match=message) as error:
        embedding(32, 8, 3, 16)(x)
    wrong_type = isinstance(x, str) or x.dtype != torch.float32
    assert isinstance(error.value, vit.DTypeError) == wrong_type


@both
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((230, 16), r"divisible by the patch size 16×16, but got 230×230"),
        ((0, 16), r"image_size of at least 1, but got 0"),
        ((32, 0), r"patch_size of at least 1, but got 0"),
        ((32, 8, 0), r"in_channels of at least 1, but got 0"),
        ((32, 8, 3, -4), r"embed_dim of at least 1, but got -4"),
        (("32", 8), r"an integer .*image_size, but got '32'"),
        (((32,), 8), r"image_size as \(height, width\), but got \(32,\)"),
        ((32, 8, 3, 6.5), r"an integer as embed_dim, but got 6.5"),
        ((10**12, 10**12), r"image_size of at most 2147483647, but got 1000000000000"),
        ((2**31, 1), r"image_size of at most 2147483647, but got 2147483648"),
    ],
)
def test_the_constructor_refuses_sizes_that_make_no_grid(embedding, arguments, message):
    with pytest.raises(vit.ShapeError, match=message):
        embedding(*arguments)


@both
def test_a_dynamic_embedding_takes_every_size_that_the_patch_divides(embedding):
    module = embedding(32, 8, 3, 16, dynamic_image_size=True).double()
    x = torch.randn(2, 3, 16, 64, dtype=torch.float64)
    want = vit.patchify(x, 8) @ module.proj.weight.flatten(1).T + module.proj.bias
    torch.testing.assert_close(module(x), want)
    assert module.grid_of(x) == (2, 8)
    for height, width in [(30, 32), (32, 30), (0, 32), (4, 4)]:
        with pytest.raises(vit.ShapeError, match=f"{height}×{width}"):
            module(torch.zeros(1, 3, height, width, dtype=torch.float64))


# The hybrid


def backbone():
    """Return a CNN that quarters height and width, and counts in its batch norm."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
    )


def test_the_hybrid_embeds_patches_of_the_feature_map_and_trains_its_backbone():
    cnn = backbone()
    module = vit.ViTHybridPatchEmbedding(cnn, (32, 48), (2, 3), 3, 10).double().eval()
    assert tuple(module.feature_size) == (8, 12)
    assert (module.grid_size, module.num_patches) == ((4, 4), 16)
    x = torch.randn(2, 3, 32, 48, dtype=torch.float64)
    want = vit.patchify(cnn(x), (2, 3)) @ module.proj.weight.flatten(1).T + module.proj.bias
    torch.testing.assert_close(module(x), want)
    assert module(x[:0]).shape == (0, 16, 10)
    embedding = vit.ViTEmbedding(16, 4, 3, 10).double()  # a table of as many patches
    embedding.patch_embed = module
    assert not embedding.dynamic_image_size
    torch.testing.assert_close(embedding(x), embedding.pos_embed(embedding.add_cls_token(want)))
    module.train()(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.proj.parameters())
    assert cnn[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((32, 1, 3), None),
        ((32, 3, 3), vit.ShapeError),  # 3 does not divide the 8×8 feature map
        ((32, 1, 5), RuntimeError),  # the backbone itself wants 3 channels
    ],
)
@pytest.mark.parametrize("frozen", [True, False])  # the batch norm, in a training network
def test_the_hybrid_leaves_modes_and_statistics_of_its_backbone_alone(arguments, error, frozen):
    cnn = backbone().train()
    cnn[1].train(not frozen)
    before = copy.deepcopy(cnn.state_dict())
    if error:
        with pytest.raises(error):
            vit.ViTHybridPatchEmbedding(cnn, *arguments, 8)
    else:
        vit.ViTHybridPatchEmbedding(cnn, *arguments, 8)
    assert [m.training for m in cnn] == [True, not frozen, True, True]
    assert all(torch.equal(v, before[k]) for k, v in cnn.state_dict().items())


def test_the_hybrid_says_what_is_wrong():
    with pytest.raises(vit.ShapeError, match="a feature map divisible by .* 3×3, but got 8×8"):
        vit.ViTHybridPatchEmbedding(backbone(), 32, 3)
    flat = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(vit.ShapeError, match=r"feature map .*\(B, F, h, w\), but got \(1, 3\)"):
        vit.ViTHybridPatchEmbedding(flat, 32)
    module = vit.ViTHybridPatchEmbedding(backbone(), 32, 1, 3, 8)
    for x, message in [
        (torch.zeros(1, 3, 64, 16), "Expected images of size 32×32, but got 64×16"),
        (torch.zeros(1, 4, 32, 32), "3 channels, but got 4"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "torch.uint8"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.float64), "torch.float32.*got torch.float64"),
    ]:
        with pytest.raises(vit.ShapeError, match=message):
            module(x)


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "make", [backbone, lambda: nn.LazyConv2d(6, 4, 4), lambda: nn.AvgPool2d(4)]
)
def test_the_hybrid_takes_any_backbone_in_half_precision_made_before_or_after(make, dtype):
    """Case 34: of a half-precision backbone, a lazy one, and one without parameters."""
    x = torch.randn(2, 3, 32, 32, dtype=dtype)
    converted = vit.ViTHybridPatchEmbedding(make(), 32, 1, 3, 4).to(dtype)
    assert converted(x).dtype == dtype
    built = vit.ViTHybridPatchEmbedding(make().to(dtype), 32, 1, 3, 4)  # its proj is float32
    assert built(x).shape == (2, 64, 4)
