"""The fused input module is one affine map that computes what the original computes."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import dnnl.models.vit as vit

FEW = st.integers(1, 3)
PAIR = st.tuples(FEW, FEW)
NEAR = {
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 2**-6, "atol": 2**-6},
    torch.float16: {"rtol": 2**-9, "atol": 2**-9},
}


def embedding(**options):
    return vit.ViTEmbedding((8, 12), (4, 2), 3, 8, **options)


def classifier(**options):
    return vit.ViTForImageClassification((8, 12), (4, 2), 3, 5, 8, 2, 2, 16, **options)


@given(PAIR, PAIR, PAIR, st.integers(1, 4), st.sampled_from([0, 1, 3]), st.integers(0, 3))
@settings(max_examples=40)
@pytest.mark.parametrize("dtype", NEAR)
def test_the_fused_module_gives_the_sequence_of_the_original(
    dtype, grid, other, patch, channels, prefix, batch
):
    own, size = ((g[0] * patch[0], g[1] * patch[1]) for g in (grid, other))
    options = {"num_prefix_tokens": prefix, "resize": "timm"}
    module = vit.ViTEmbedding(own, patch, channels, 8, dynamic_image_size=True, **options)
    module = module.to(dtype)
    for image_size in (own, size):
        fused = vit.fuse(module, None if image_size == own else image_size)
        x = torch.randn(batch, channels, *image_size).to(dtype)
        out, want = fused(x), module(x)
        assert (out.dtype, out.shape) == (want.dtype, want.shape)
        torch.testing.assert_close(out, want, **NEAR[dtype])
        assert fused.num_prefix_tokens == prefix and fused.in_channels == channels


@pytest.mark.parametrize("batch", [315, 316])  # 13 rows each: from 4096 on, as pixels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_products_give_the_same(batch, dtype, monkeypatch):
    module, used, conv2d = embedding().to(dtype), [], F.conv2d
    x = torch.randn(batch, 3, 8, 12).to(dtype)
    want, fused = module(x), vit.fuse(module)
    monkeypatch.setattr(F, "conv2d", lambda *args: used.append(1) or conv2d(*args))
    torch.testing.assert_close(fused(x), want, **NEAR[dtype])
    assert len(used) == (batch == 316 and dtype == torch.float32)


@pytest.mark.parametrize("options", [{}, {"distillation": True}, {"pool": "mean"}])
@pytest.mark.parametrize("size", [None, (4, 24)])
def test_a_whole_model_is_copied_with_the_same_logits_and_the_original_is_untouched(options, size):
    model = classifier(dynamic_image_size=True, **options).train()
    x = torch.randn(2, 3, *(size or (8, 12)))
    before, want = copy.deepcopy(model.state_dict()), model(x).detach()
    for part, name in [(model, "backbone.embedding"), (model.backbone, "embedding")]:
        fused = vit.fuse(part, size)
        assert type(fused) is type(part)
        assert fused.config == dataclasses.replace(
            part.config, image_size=size or part.config.image_size
        )
        assert type(fused.get_submodule(name)) is vit.FusedEmbedding
        torch.testing.assert_close(fused(x), part(x))
        assert not fused(x).requires_grad and not any(m.training for m in fused.modules())
    assert model.training and all(p.requires_grad for p in model.parameters())
    assert type(model.backbone.embedding) is vit.ViTEmbedding
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    fused = vit.fuse(model, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(x).square().sum().backward()
    optimizer.step()
    assert not torch.allclose(model(x), want, atol=1e-3)
    torch.testing.assert_close(fused(x), want)


def test_its_weights_are_buffers_that_load_copy_and_convert():
    module, x = embedding(), torch.randn(2, 3, 8, 12)
    fused, other = vit.fuse(module), vit.fuse(embedding())
    shapes = {k: tuple(v.shape) for k, v in fused.state_dict().items()}
    assert shapes == {"weight": (8, 24), "table": (1, 13, 8)}
    assert not list(fused.parameters()) and not fused.training
    other.load_state_dict(fused.state_dict())
    for twin in (other, copy.deepcopy(fused)):
        torch.testing.assert_close(twin(x), module(x))
    assert fused.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_the_gradient_with_respect_to_the_image_is_that_of_the_original():
    module, x = embedding().double(), torch.randn(2, 3, 8, 12).double().requires_grad_()
    g = torch.randn(2, 13, 8).double()
    grads = [torch.autograd.grad(m(x), x, g)[0] for m in (module, vit.fuse(module))]
    torch.testing.assert_close(*grads)
    each = torch.vmap(lambda image: vit.fuse(module)(image[None])[0])(x)
    torch.testing.assert_close(each, module(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [2, 60])
def test_under_autocast_it_has_the_dtype_of_the_original(dtype, batch):
    module, x = embedding(), torch.randn(batch, 3, 8, 12)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        fused = vit.fuse(module)
        out, want = fused(x), module(x)
    assert out.dtype == want.dtype == dtype
    torch.testing.assert_close(out, want, **NEAR[torch.bfloat16])
    assert fused.table.dtype == torch.float32


def test_it_compiles_to_one_graph_of_any_batch():
    torch.compiler.reset()
    fused = vit.fuse(embedding())
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch in (2, 60):
        x = torch.randn(batch, 3, 8, 12)
        torch.testing.assert_close(compiled(x), fused(x))


def test_a_projection_without_bias_and_a_frozen_model_can_be_fused():
    module, x = embedding().requires_grad_(False), torch.randn(2, 3, 8, 12)
    module.patch_embed.proj.bias = None
    module.to(memory_format=torch.channels_last)
    torch.testing.assert_close(vit.fuse(module)(x), module(x))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(1, 3, 12, 8), "images of size 8×12, but got 12×8"),
        (torch.zeros(1, 3, 9, 12), "divisible by the patch size 4×2, but got 9×12"),
        (torch.zeros(1, 4, 8, 12), "3 channels, but got 4"),
        (torch.zeros(3, 8, 12), r"\(B, C, H, W\), but got \(3, 8, 12\)"),
        (torch.zeros(1, 3, 8, 12, dtype=torch.uint8), "torch.uint8"),
        (torch.zeros(1, 3, 8, 12, dtype=torch.float64), "torch.float32.*got torch.float64"),
    ],
)
def test_it_refuses_the_images_that_the_original_refuses(x, message):
    for module in (embedding(), vit.fuse(embedding())):
        with pytest.raises(vit.ShapeError, match=message):
            module(x)


# Refused: whatever a copy would not compute as the original does


def replace(name, make):
    def change(module):
        owner, _, own = name.rpartition(".")
        setattr(module.get_submodule(owner), own, make())

    return change


def convolution(**options):
    options = {"out_channels": 8, "kernel_size": (4, 2), "stride": (4, 2), **options}
    return replace("patch_embed.proj", lambda: nn.Conv2d(3, **options))


def subclass(kind, *args):
    return lambda: type("Sub", (kind,), {})(*args)


def patched(name):
    def change(module):
        part = module.get_submodule(name)
        part.forward = part.forward

    return change


TABLE, TOKEN = vit.ViTPositionalEmbedding, vit.ViTAddClassToken
PROJ = "patch_embed.proj"
REFUSED = {
    "patch_embed is a ViTLinear": replace(
        "patch_embed", lambda: vit.ViTLinearPatchEmbedding((8, 12), (4, 2), 3, 8)
    ),
    "pos_embed is a Identity": replace("pos_embed", nn.Identity),
    "pos_embed is a Sub": replace("pos_embed", subclass(TABLE, 8, 12)),
    "add_cls_token is a Sub": replace("add_cls_token", subclass(TOKEN, 8)),
    "dropout is a LayerNorm": replace("dropout", lambda: nn.LayerNorm(8)),
    "proj is a Sub": replace(PROJ, subclass(nn.Conv2d, 3, 8, (4, 2), (4, 2))),
    "proj is not a plain conv": convolution(padding=1),
    "not a plain convolution": convolution(dilation=2),
    "a plain convolution whose": convolution(groups=3, out_channels=6),
    "convolution whose stride": convolution(stride=(2, 2)),
    "whose stride is its kernel": convolution(kernel_size=(2, 4)),
    "unexpected parameters .*weight_orig": lambda m: prune.l1_unstructured(
        m.patch_embed.proj, "weight", 0.5
    ),
    "unexpected parameters .*embed_orig": lambda m: prune.l1_unstructured(
        m.pos_embed, "pos_embed", 0.5
    ),
    "proj is a Parametrized": lambda m: parametrizations.weight_norm(m.patch_embed.proj),
    "pos_embed is a Param": lambda m: parametrize.register_parametrization(
        m.pos_embed, "pos_embed", nn.Identity()
    ),
    "forward method of ViTEmbedding was replaced": patched(""),
    **{
        f"forward method of {n} was replaced": patched(n)
        for n in ("patch_embed", PROJ, "pos_embed")
    },
}


@pytest.mark.parametrize(("message", "change"), REFUSED.items(), ids=REFUSED)
def test_what_is_not_our_input_module_of_one_convolution_is_refused(change, message):
    module, model = embedding(), classifier()
    change(module)
    model.backbone.embedding = module
    for refused in (module, model, model.backbone):
        with pytest.raises(TypeError, match=f"Cannot fuse this ViTEmbedding: .*{message}"):
            vit.fuse(refused)


@pytest.mark.parametrize("make", [subclass(vit.ViTEmbedding, 16, 4, 3, 8), nn.Identity])
def test_another_input_module_or_model_is_refused(make):
    model = classifier()
    model.backbone.embedding = make()
    with pytest.raises(TypeError, match="Expected a ViTEmbedding, but got (Sub|Identity)"):
        vit.fuse(model)
    with pytest.raises(TypeError, match="ViTEmbedding.*but got (Sub|Identity)"):
        vit.fuse(make())
    with pytest.raises(TypeError, match="Expected a ViTEmbedding, but got FusedEmbedding"):
        vit.fuse(vit.fuse(classifier()))


def test_a_size_that_the_patch_does_not_divide_and_a_table_that_does_not_fit_are_refused():
    with pytest.raises(vit.ShapeError, match="divisible by the patch size 4×2, but got 10×12"):
        vit.fuse(embedding(), (10, 12))
    module = embedding()
    module.add_cls_token = vit.ViTAddClassToken(8, 2)
    with pytest.raises(vit.ShapeError, match="Expected sequence length 13, but got 14"):
        vit.fuse(module)
