"""The short cuts of the input module change its speed and nothing else."""

import copy
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dnnl.models.vit as vit
from dnnl.models.vit import embedding

BF16 = torch.bfloat16
NEAR = {"rtol": 2**-6, "atol": 2**-6}


def patch_embedding(dtype=BF16, width=128, channels=3):
    return vit.ViTConvPatchEmbedding((8, 12), (4, 2), channels, width).to(dtype)


def convolution(module, x):
    proj = module.proj
    out = F.conv2d(x, proj.weight, proj.bias, stride=proj.kernel_size)
    return out.flatten(2).transpose(1, 2)


@pytest.fixture
def by_rows():
    """Collect what is projected as rows: by a product, or as pictures of 1×N pixels."""
    calls, linear, conv2d = [], F.linear, F.conv2d

    def product(rows, weight, *args):
        calls.append(rows)
        return linear(rows, weight, *args)

    def convolution(images, weight, *args, **kwargs):
        if weight.shape[2:] == (1, 1):
            calls.append(images)
        return conv2d(images, weight, *args, **kwargs)

    with mock.patch.object(F, "linear", product), mock.patch.object(F, "conv2d", convolution):
        yield calls


# Patches are rows of numbers, or pixels with many channels


@pytest.mark.parametrize("dtype", [torch.float32, BF16], ids=str)
@pytest.mark.parametrize("batch", [0, 1, 3, 42, 43])  # 12 patches each: from 512 on, as pixels
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_rows_give_the_tokens_of_the_convolution(by_rows, batch, channels, dtype):
    module = patch_embedding(dtype, channels=channels)
    x = torch.randn(batch, channels, 8, 12).to(dtype)
    out = module(x)
    assert len(by_rows) == 1
    assert by_rows[0].dim() == (4 if batch == 43 else 3)
    if batch == 43:
        assert by_rows[0].is_contiguous(memory_format=torch.channels_last)  # else oneDNN copies
    assert out.is_contiguous()  # rows of tokens: the next step need not turn them over
    assert out.dtype == dtype
    near = NEAR if dtype == BF16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(out, convolution(module, x), **near)
    exact = module.double()
    torch.testing.assert_close(out.double(), convolution(exact, x.double()), **near)


@pytest.mark.parametrize("dtype", [torch.float32, BF16], ids=str)
@pytest.mark.parametrize("batch", [2, 43])
def test_rows_give_the_gradients_of_the_convolution(by_rows, batch, dtype):
    module = patch_embedding(dtype)
    x = torch.randn(batch, 3, 8, 12).to(dtype).requires_grad_()
    weight = torch.randn(batch, 12, 128).to(dtype)
    wanted = [x, *module.parameters()]
    ours = torch.autograd.grad((module(x) * weight).sum(), wanted)
    assert len(by_rows) == 1
    exact = copy.deepcopy(module).double()
    x = x.detach().double().requires_grad_()
    wanted = [x, *exact.parameters()]
    theirs = torch.autograd.grad((convolution(exact, x) * weight.double()).sum(), wanted)
    near = 2**-7 if dtype == BF16 else 1e-6
    for a, b in zip(ours, theirs, strict=True):
        assert (a.double() - b).norm() < near * b.norm()


@pytest.mark.parametrize(
    "why", ["float64", "float16", "images", "weights", "device", "build", "narrow"]
)
def test_it_stays_a_convolution_where_that_is_no_slower(by_rows, why, monkeypatch):
    dtype = {"float64": torch.float64, "float16": torch.float16}.get(why, torch.float32)
    module = patch_embedding(dtype, 127 if why == "narrow" else 128)
    x = torch.randn(2, 3, 8, 12).to(dtype)
    if why == "images":
        x = x.to(memory_format=torch.channels_last)
    if why == "weights":
        module.to(memory_format=torch.channels_last)
    if why == "device":
        module, x = module.to("meta"), x.to("meta")
    if why == "build":  # a torch without oneDNN
        monkeypatch.setattr(embedding, "_ONEDNN_DTYPES", ())
    out = module(x)
    assert by_rows == []
    if why != "device":
        assert torch.equal(out, convolution(module, x))


def test_it_is_a_convolution_to_everyone_else():
    module = patch_embedding()
    assert isinstance(module.proj, nn.Conv2d)
    plain = nn.Conv2d(3, 128, (4, 2), stride=(4, 2), dtype=BF16)
    plain.load_state_dict(module.proj.state_dict())
    x, seen = torch.randn(2, 3, 8, 12).to(BF16), []
    module.proj.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
    tokens = module(x)
    assert seen[0].shape == (2, 128, 2, 6)
    torch.testing.assert_close(seen[0], plain(x), **NEAR)
    module.proj = plain
    torch.testing.assert_close(module(x), tokens, **NEAR)


def test_the_memory_format_of_the_weights_is_the_users_and_outlives_a_load():
    module = vit.ViTEmbedding(16, 4, 3, 128).to(BF16, memory_format=torch.channels_last)
    other = vit.ViTEmbedding(16, 4, 3, 128).to(BF16)
    module.load_state_dict(other.state_dict())
    weight = module.patch_embed.proj.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()
    assert copy.deepcopy(module).patch_embed.proj.weight.stride() == weight.stride()
    x = torch.randn(2, 3, 16, 16).to(BF16)
    torch.testing.assert_close(module(x), other(x), **NEAR)
    torch.testing.assert_close(module(x.to(memory_format=torch.channels_last)), other(x), **NEAR)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("batch", [3, 40])  # of 16 patches each
def test_recorded_and_compiled_it_follows_the_batch(graph, batch):
    module = vit.ViTEmbedding(16, 4, 3, 128).to(BF16).eval()
    x = torch.randn(batch, 3, 16, 16).to(BF16)
    with torch.set_grad_enabled(graph):
        want = module(x)
        traced = torch.jit.trace(module, x[:2])
        torch.testing.assert_close(traced(x), want)
        torch.testing.assert_close(
            torch.compile(module, fullgraph=True, backend="aot_eager")(x), want
        )
        program = torch.export.export(
            module, (x[:2],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
        )
        torch.testing.assert_close(program.module()(x), want)


# Without gradients the patches are projected to where their tokens stay


@pytest.fixture
def kept():
    """Collect the sequences that are written in place."""
    written, plain = [], vit.ViTEmbedding._in_place
    with mock.patch.object(
        vit.ViTEmbedding,
        "_in_place",
        lambda self, *args: written.append(plain(self, *args)) or written[-1],
    ):
        yield written


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_without_gradients_it_computes_the_same_and_touches_nothing_of_ours(
    kept, prefix, mode, dynamic
):
    module = vit.ViTEmbedding(16, 4, 3, 128, num_prefix_tokens=prefix, dynamic_image_size=dynamic)
    state = copy.deepcopy(module.eval().state_dict())
    for batch, size in [(2, (16, 16)), (40, (16, 16)), (2, (8, 24))][: 2 + dynamic]:
        x = torch.randn(batch, 3, *size)
        before = x.clone()
        want = module(x).detach()
        assert kept == []
        with mode():
            for _ in range(2):
                assert torch.equal(module(x), want)
        assert len(kept) == 2
        kept.clear()
        assert torch.equal(x, before)
    for name, value in module.state_dict().items():
        assert torch.equal(value, state[name])


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("where", ["add_cls_token", "pos_embed", "everywhere"])
def test_a_hook_keeps_what_it_saw(kept, where, dynamic):
    module = vit.ViTEmbedding(16, 4, 3, 128, dynamic_image_size=dynamic).eval()
    x = torch.randn(2, 3, 16, 16)
    want = module(x)
    sequence = module.add_cls_token(module.patch_embed(x))
    kept.clear()
    seen = []

    def keep(owner, inputs, out):
        if owner in (module.add_cls_token, module.pos_embed):
            seen.append((owner, inputs[0], out))

    if where == "everywhere":
        handle = nn.modules.module.register_module_forward_hook(keep)
    else:
        handle = getattr(module, where).register_forward_hook(keep)
    exact = {"rtol": 1e-5, "atol": 1e-5} if where == "everywhere" else {"rtol": 0, "atol": 0}
    with handle:  # everywhere: on the convolution too, which then runs as such
        torch.testing.assert_close(module(x), want, **exact)
    assert kept == []
    for owner, taken, given in seen:
        if owner is module.add_cls_token:
            torch.testing.assert_close(given, sequence, **exact)
        else:
            torch.testing.assert_close(taken, sequence, **exact)
            torch.testing.assert_close(given, want, **exact)
    assert seen or (dynamic and where == "pos_embed")  # whose table is resized, not called
    assert torch.equal(module(x), want)
    assert len(kept) == 1  # the hook is gone


@torch.no_grad()
def test_a_hook_before_the_positions_keeps_the_sequence_without_them(kept):
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16)
    sequence, seen = module.add_cls_token(module.patch_embed(x)), []
    module.pos_embed.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    out = module(x)
    assert kept == []
    assert torch.equal(seen[0], sequence)
    assert torch.equal(out, sequence + module.pos_embed.pos_embed)


@torch.no_grad()
@pytest.mark.parametrize("where", ["patch_embed", "patch_embed.proj"])
def test_a_hook_keeps_the_tokens_without_class_token_and_positions(kept, where):
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16)
    want, tokens, seen = module(x), module.get_submodule(where)(x), []
    assert len(kept) == 1
    handle = module.get_submodule(where).register_forward_hook(lambda *args: seen.append(args[2]))
    with handle:
        torch.testing.assert_close(module(x), want, rtol=1e-5, atol=1e-5)
    assert len(kept) == 1
    torch.testing.assert_close(seen[0], tokens, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("where", ["patch_embed", "patch_embed.proj"])
def test_a_hook_on_the_way_back_is_called(where):
    module, seen = vit.ViTEmbedding(16, 4, 3, 128), []
    module.get_submodule(where).register_full_backward_hook(lambda *args: seen.append(args))
    module(torch.randn(2, 3, 16, 16, requires_grad=True)).sum().backward()
    assert len(seen) == 1


@torch.no_grad()
@pytest.mark.parametrize(
    "name",
    ["patch_embed.proj.weight", "patch_embed.proj.bias", "add_cls_token.cls_token"]
    + ["pos_embed.pos_embed"],
)
def test_a_tensor_in_place_of_a_parameter_counts(kept, name):
    """As `torch.autograd.forward_ad` is used with modules: the parameter goes, a tensor comes."""
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16)
    owner, _, own = name.rpartition(".")
    owner, change = module.get_submodule(owner), torch.randn_like(module.get_parameter(name))
    want = torch.func.functional_call(module, {name: module.get_parameter(name) + change}, (x,))
    changed = getattr(owner, own) + change
    delattr(owner, own)
    setattr(owner, own, changed)
    torch.testing.assert_close(module(x), want, rtol=1e-5, atol=1e-5)
    assert kept == []


@torch.no_grad()
def test_a_module_in_place_of_ours_keeps_what_it_made(kept):
    class Remembering(vit.ViTAddClassToken):
        def forward(self, x):
            self.made = super().forward(x)
            return self.made

    class Twice(vit.ViTPositionalEmbedding):
        def forward(self, x):
            return super().forward(x) + self.pos_embed

    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16)
    table = module.pos_embed.pos_embed
    sequence = module.add_cls_token(module.patch_embed(x))
    for name, stand_in in {"add_cls_token": Remembering(128), "pos_embed": Twice(128, 16)}.items():
        changed = copy.deepcopy(module)
        stand_in.load_state_dict(getattr(module, name).state_dict())
        setattr(changed, name, stand_in)
        times = 2 if name == "pos_embed" else 1
        torch.testing.assert_close(changed(x), sequence + times * table)
        if name == "add_cls_token":
            assert torch.equal(stand_in.made, sequence)
    patched = copy.deepcopy(module)
    made = []
    plain = patched.add_cls_token.forward
    patched.add_cls_token.forward = lambda tokens: made.append(plain(tokens)) or made[-1]
    assert torch.equal(patched(x), sequence + table)
    assert torch.equal(made[0], sequence)
    assert kept == []


def without_positions(module):
    module.pos_embed = nn.Identity()


def with_its_own_positions(module):
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x

    module.pos_embed = Twice()


def parameter(name, *shape, device="cpu"):
    def change(module):
        owner, _, own = name.rpartition(".")
        setattr(module.get_submodule(owner), own, nn.Parameter(torch.ones(shape, device=device)))

    return change


def of_other_prefix(module):
    module.add_cls_token = vit.ViTAddClassToken(128, 2)


def of_other_size(module):
    module.patch_embed.image_size, module.patch_embed.dynamic_image_size = (8, 8), True


def with_other_steps(module):
    module.patch_embed.proj.stride = (2, 2)


def with_padding(module):
    module.patch_embed.proj.padding = (4, 4)


def narrowed(module):
    proj = module.patch_embed.proj
    proj.weight = nn.Parameter(proj.weight[:64].detach())
    proj.bias = nn.Parameter(proj.bias[:64].detach())


def without_bias(module):
    module.patch_embed.proj.bias = None


def with_a_patched_convolution(module):
    proj = module.patch_embed.proj
    proj._conv_forward = lambda x, weight, bias: 2 * F.conv2d(x, weight, bias, proj.stride)


def with_a_parametrised_weight(module):
    torch.nn.utils.parametrizations.weight_norm(module.patch_embed.proj)


SURGERY = {
    "no positions": without_positions,
    "other positions": with_its_own_positions,
    "class token (1, 1, 1)": parameter("add_cls_token.cls_token", 1, 1, 1),
    "class token (D,)": parameter("add_cls_token.cls_token", 128),
    "two class tokens": of_other_prefix,
    "a table (1, T, 1)": parameter("pos_embed.pos_embed", 1, 17, 1),
    "a table (2, T, D)": parameter("pos_embed.pos_embed", 2, 17, 128),
    "a narrow table": parameter("pos_embed.pos_embed", 1, 17, 64),
    "a hollow table": parameter("pos_embed.pos_embed", 1, 17, 128, device="meta"),
    "a hollow class token": parameter("add_cls_token.cls_token", 1, 1, 128, device="meta"),
    "another image size": of_other_size,
    "stride": with_other_steps,
    "padding": with_padding,
    "narrowed": narrowed,
    "no bias": without_bias,
    "patched convolution": with_a_patched_convolution,
    "weight norm": with_a_parametrised_weight,
}


@pytest.mark.parametrize("batch", [1, 2, 40])
@pytest.mark.parametrize("change", SURGERY.values(), ids=SURGERY)
def test_whatever_was_done_to_it_it_does_the_same_without_gradients(change, batch):
    """And what plain torch does: with `double`, no short cut is taken."""
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(batch, 3, 16, 16)
    change(module)

    def outcome(gradients, dtype):
        with torch.set_grad_enabled(gradients):
            try:
                return copy.deepcopy(module).to(dtype)(x.to(dtype)).detach()
            except Exception as error:
                return type(error)

    want = outcome(True, torch.float64)
    for gradients in (False, True):
        got = outcome(gradients, torch.float32)
        if isinstance(want, type):
            assert got is want
        else:
            torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    "kind", [vit.ViTConvPatchEmbedding, vit.ViTAddClassToken, vit.ViTPositionalEmbedding]
)
def test_a_patched_class_is_heard(kind):
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16)
    plain, seen = kind.forward, []
    with mock.patch.object(kind, "forward", lambda *args: seen.append(1) or plain(*args)):
        module(x)
    assert seen == [1]


@torch.no_grad()
def test_a_compiled_part_is_used():
    module, x, seen = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16), []

    def backend(graph, _inputs):
        return lambda *args: seen.append(1) or graph(*args)

    want = module(x)
    module.patch_embed.compile(backend=backend)
    torch.testing.assert_close(module(x), want, rtol=1e-5, atol=1e-5)
    assert seen == [1]


def test_a_parametrised_weight_is_computed_once():
    module, made = vit.ViTConvPatchEmbedding(16, 4, 3, 128), []

    class Counted(nn.Module):
        def forward(self, weight):
            made.append(1)
            return weight

    torch.nn.utils.parametrize.register_parametrization(module.proj, "weight", Counted())
    made.clear()
    module(torch.randn(2, 3, 16, 16))
    assert made == [1]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_is_exported_has_the_convolution_that_it_is():
    module, x = vit.ViTConvPatchEmbedding(16, 4, 3, 128), torch.randn(2, 3, 16, 16)
    graph = str(torch.export.export(module, (x,)).graph)
    traced = torch.jit.trace(module, x).graph
    for text in (graph, str(traced)):
        assert "conv" in text
        assert "linear" not in text
    assert "[4, 4]" in graph


@torch.no_grad()
def test_a_fake_tensor_is_not_remembered():
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = vit.ViTEmbedding(16, 4, 3, 128, dynamic_image_size=True).eval()
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert module(torch.randn(1, 3, 24, 24)).shape == (1, 37, 128)
    assert module(torch.randn(1, 3, 24, 24)).shape == (1, 37, 128)


@torch.no_grad()
def test_a_table_of_another_length_is_refused_still():
    module = vit.ViTEmbedding(16, 4, 3, 128).eval()
    module.pos_embed.pos_embed = nn.Parameter(torch.zeros(1, 1, 128))  # it would broadcast
    with pytest.raises(vit.ShapeError, match="sequence length 1, but got 17"):
        module(torch.randn(2, 3, 16, 16))


@torch.no_grad()
@pytest.mark.parametrize("names", [("pos_embed.pos_embed",), None], ids=["table", "all"])
def test_many_tables_or_many_modules_at_once(names):
    """`vmap` over parameters: an ensemble, or candidates for a table."""
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(2, 3, 16, 16)
    state = dict(module.named_parameters())
    many = {n: torch.randn(3, *state[n].shape) for n in names or state}
    run = torch.vmap(lambda parameters: torch.func.functional_call(module, parameters, (x,)))
    for out, index in zip(run(many), range(3), strict=True):
        alone = {n: p[index] for n, p in many.items()}
        torch.testing.assert_close(
            out, torch.func.functional_call(module, alone, (x,)), rtol=1e-4, atol=1e-4
        )


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's, of its own jvp
@torch.no_grad()
def test_many_images_at_once_and_directional_derivatives():
    """`vmap` over images, and forward-mode derivatives, which gradients switched off leave on."""
    module, x = vit.ViTEmbedding(16, 4, 3, 128).eval(), torch.randn(5, 3, 16, 16)
    each = torch.vmap(lambda image: module(image[None])[0])(x)
    torch.testing.assert_close(each, module(x), rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(x)
    out, change = torch.func.jvp(module, (x,), (direction,))
    torch.testing.assert_close(out, module(x), rtol=1e-5, atol=1e-5)
    linear = module(direction) - module(torch.zeros_like(direction))
    torch.testing.assert_close(change, linear, rtol=1e-4, atol=1e-4)
    with torch.autograd.forward_ad.dual_level():
        dual = module(torch.autograd.forward_ad.make_dual(x, direction))
        primal, tangent = torch.autograd.forward_ad.unpack_dual(dual)
    torch.testing.assert_close(primal, out, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(tangent, linear, rtol=1e-4, atol=1e-4)
