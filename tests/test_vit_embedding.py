"""The input module as a whole: its order, its sequence, its dtype, its errors, and other sizes."""

import sys
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dnnl.models.vit as vit

FEW = st.integers(1, 3)
PAIR = st.tuples(FEW, FEW)


def by_hand(module, x):
    """Compute the sequence from the parameters alone, by equation 1 of the paper."""
    embed = module.patch_embed
    tokens = vit.patchify(x, embed.patch_size) @ embed.proj.weight.flatten(1).T + embed.proj.bias
    prefix = module.pos_embed.num_prefix_tokens
    if prefix:
        token = module.add_cls_token.cls_token
        tokens = torch.cat([token.to(x.dtype).repeat(x.shape[0], 1, 1), tokens], dim=1)
    size = (x.shape[2] // embed.patch_size[0], x.shape[3] // embed.patch_size[1])
    table = vit.interpolate_pos_embedding(
        module.pos_embed.pos_embed,
        embed.grid_size,
        size,
        num_prefix_tokens=prefix,
        **vit.RESIZE_SETTINGS[module.pos_embed.resize],
    )
    return tokens + table


@given(PAIR, PAIR, PAIR, st.integers(1, 13), st.integers(0, 4), st.integers(0, 2), st.booleans())
@settings(max_examples=60)
def test_the_sequence_is_equation_1_at_the_own_and_any_other_size(
    grid, other, patch, channels, prefix, batch, training
):
    own, size = ((g[0] * patch[0], g[1] * patch[1]) for g in (grid, other))
    options = {"num_prefix_tokens": prefix, "dynamic_image_size": True}
    if training:
        options["resize"] = "timm"
    module = vit.ViTEmbedding(own, patch, channels, 6, **options).double().train(training)
    static = vit.ViTEmbedding(own, patch, channels, 6, num_prefix_tokens=prefix).double()
    static.load_state_dict(module.state_dict())
    x = torch.randn(batch, channels, *size, dtype=torch.float64)
    out = module(x)
    assert out.shape == (batch, prefix + other[0] * other[1], 6)
    torch.testing.assert_close(out, by_hand(module, x))
    x = torch.randn(batch, channels, *own, dtype=torch.float64)
    torch.testing.assert_close(static(x), by_hand(module, x))
    torch.testing.assert_close(module(x), static(x), rtol=0, atol=0)


def test_the_listing_of_the_chapter_and_the_names_of_its_children():
    module = vit.ViTEmbedding(32, 8, 3, 64, 0.1)
    assert module(torch.randn(2, 3, 32, 32)).shape == (2, 17, 64)
    kinds = [
        vit.ViTConvPatchEmbedding,
        vit.ViTAddClassToken,
        vit.ViTPositionalEmbedding,
        nn.Dropout,
    ]
    names = ["patch_embed", "add_cls_token", "pos_embed", "dropout"]
    assert [(n, type(m)) for n, m in module.named_children()] == list(
        zip(names, kinds, strict=True)
    )
    assert module.dropout.p == 0.1
    assert not module.dynamic_image_size


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((), 768 * 768 + 768 + 768 + 197 * 768),  # B/16, the defaults
        ((224, 16, 3, 1024), 768 * 1024 + 1024 + 1024 + 197 * 1024),  # L/16
        ((224, 14, 3, 1280), 588 * 1280 + 1280 + 1280 + 257 * 1280),  # H/14
        ((384, 16, 3, 8), 768 * 8 + 8 + 8 + 577 * 8),
    ],
)
def test_the_input_modules_of_the_paper_have_as_many_parameters(arguments, count):
    with torch.device("meta"):
        module = vit.ViTEmbedding(*arguments)
    assert sum(p.numel() for p in module.parameters()) == count
    assert module.dropout.p == 0.0


def test_registers_added_after_the_sum_get_no_position():
    """Public report 15: the place of the insertion decides, and it is the caller's choice."""
    embedding = vit.ViTEmbedding(16, 4, 3, 8)
    registers = vit.ViTAddClassToken(8, num_tokens=4)
    x = torch.randn(2, 3, 16, 16)
    after = registers(embedding(x))
    assert after.shape == (2, 4 + 17, 8)
    assert torch.equal(after[0, :4], registers.cls_token[0])


def test_dropout_comes_last_and_only_in_training():
    module = vit.ViTEmbedding(16, 4, 3, 64, dropout=0.5)
    x = torch.randn(4, 3, 16, 16)
    want = by_hand(module, x)
    torch.testing.assert_close(module.eval()(x), want, rtol=1e-4, atol=1e-5)
    out = module.train()(x)
    dropped = out == 0
    assert abs(dropped.float().mean().item() - 0.5) < 0.05
    torch.testing.assert_close(out[~dropped], 2 * want[~dropped], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="probability"):
        vit.ViTEmbedding(16, 4, dropout=1.5)


# Gradients


@pytest.mark.parametrize("size", [(4, 4), (2, 8)])
def test_it_passes_gradcheck_with_respect_to_images_and_every_parameter(size):
    module = vit.ViTEmbedding(4, 2, 2, 3, num_prefix_tokens=2, dynamic_image_size=True).double()
    names = [n for n, _ in module.named_parameters()]
    x = torch.randn(2, 2, *size, dtype=torch.float64, requires_grad=True)

    def call(x, *parameters):
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *module.parameters()))


# Dtypes and layouts


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("size", [(16, 16), (8, 32)])
def test_a_converted_module_keeps_its_dtype_to_the_end(dtype, size):
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True)
    x = torch.randn(2, 3, *size)
    want = module(x)
    out = module.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), want, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [(16, 16), (8, 32)])
def test_under_autocast_the_tokens_keep_the_dtype_of_the_projection(dtype, size):
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True)
    x = torch.randn(2, 3, *size)
    with torch.autocast("cpu", dtype):
        out = module(x)
        assert module(x.to(dtype)).dtype == dtype  # images in half precision are read, too
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), module(x), rtol=0.02, atol=0.02)
    out.sum().backward()
    assert module.pos_embed.pos_embed.grad.dtype == torch.float32
    assert module.add_cls_token.cls_token.grad.dtype == torch.float32


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
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True)
    for size in [(16, 16), (8, 24)]:
        out = module(torch.zeros(0, 3, *size))
        assert out.shape == (0, 1 + size[0] * size[1] // 16, 8)
        out.sum().backward()
    assert all((p.grad == 0).all() for p in module.parameters())


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": 30}, r"divisible by the patch size 8×8, but got 30×30"),
        ({"num_prefix_tokens": -1}, r"num_prefix_tokens of at least 0, but got -1"),
        ({"num_prefix_tokens": None}, r"an integer as num_prefix_tokens, but got None"),
        ({"embed_dim": 0}, r"embed_dim of at least 1, but got 0"),
    ],
)
def test_arguments_that_make_no_module_are_refused(options, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTEmbedding(**{"image_size": 32, "patch_size": 8, "embed_dim": 8, **options})


# Any size


def test_the_model_can_be_made_dynamic_afterwards_and_static_again():
    module, x = vit.ViTEmbedding(16, 4, 3, 8), torch.randn(1, 3, 8, 24)
    for _ in range(2):
        module.dynamic_image_size = True
        torch.testing.assert_close(module(x), by_hand(module, x))
        for size in [(8, 22), (3, 16), (0, 16)]:
            with pytest.raises(vit.ShapeError, match=f"{size[0]}×{size[1]}"):
                module(torch.zeros(1, 3, *size))
        module.dynamic_image_size = False
        with pytest.raises(vit.ShapeError, match="images of size 16×16, but got 8×24"):
            module(x)


def other_grid(module, monkeypatch):
    module.patch_embed.grid_size = (2, 8)


def other_resize(module, monkeypatch):
    interpolate, timm = module.pos_embed.interpolate, vit.RESIZE_SETTINGS["timm"]
    module.pos_embed.interpolate = lambda old, new: interpolate(old, new, **timm)


def other_module(module, monkeypatch):
    class Twice(vit.ViTPositionalEmbedding):
        def interpolate(self, *grids, **options):
            return 2 * super().interpolate(*grids, **options)

    twice = Twice(8, 16)
    twice.pos_embed = module.pos_embed.pos_embed
    module.pos_embed = twice


def other_class(module, monkeypatch):
    plain = vit.ViTPositionalEmbedding.forward
    monkeypatch.setattr(
        vit.ViTPositionalEmbedding, "forward", lambda *args: 3 * plain(*args), raising=True
    )


def other_numbers(module, monkeypatch):
    module.pos_embed.pos_embed.data[0, 5, 3] += 1


def other_parameter(module, monkeypatch):
    module.pos_embed.pos_embed = nn.Parameter(torch.randn(1, 17, 8))


@pytest.mark.parametrize(
    "change",
    [other_grid, other_resize, other_module, other_class, other_numbers, other_parameter],
)
@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_evaluation_follows_whatever_decides_the_table_as_training_does(
    change, context, monkeypatch
):
    """Case 9: nothing is remembered from one call to the next."""
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval()
    x = torch.randn(2, 3, 8, 24)
    with context():
        before = module(x)
    change(module, monkeypatch)
    with context():
        after = module(x)
    assert torch.equal(after, module.train()(x))
    assert not torch.allclose(after, before, atol=1e-3)


def test_one_image_walks_through_three_files_of_ours():
    """Its way is the page's listing: no other room is entered."""
    module, x = vit.ViTEmbedding(16, 4, 3, 8), torch.randn(1, 3, 16, 16)
    folder, visited = Path(vit.__file__).parents[2], set()

    def trace(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(folder):
            visited.add(path.name)

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        module(x)
    finally:
        sys.setprofile(before)
    assert {"embedding.py", "checks.py"} <= visited <= {"embedding.py", "patches.py", "checks.py"}


def test_threads_may_share_one_module():
    module, errors = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval(), []
    images = [torch.randn(1, 3, 4, 4 * n) for n in range(1, 9)]
    wants = [module(x).detach() for x in images]

    def work():
        for x, want in 20 * list(zip(images, wants, strict=True)):
            if not torch.equal(module(x), want):
                errors.append(x.shape)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
