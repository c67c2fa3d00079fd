"""Recorded, compiled and transformed models compute what the model does."""

import shutil
from unittest import mock

import pytest
import torch
from peers import peer
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

import dnnl.models.vit as vit

deprecated = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
scripted = pytest.mark.filterwarnings("ignore:`torch.jit.script`")  # torch's, of its own jvp
DYNAMIC = torch.export.Dim.DYNAMIC
NATIVE, OTHER = (3, 16, 16), (3, 8, 24)  # grids 4×4 and 2×6 of patches of 4 pixels


def embedding(**options):
    return vit.ViTEmbedding(16, 4, 3, 8, **options)


def classifier(**options):
    return vit.ViTForImageClassification(16, 4, 3, 5, 8, 2, 2, 16, **options).eval()


MODULES = {
    "linear": lambda: vit.ViTLinearPatchEmbedding(16, 4, 3, 8),
    "hybrid": lambda: vit.ViTHybridPatchEmbedding(nn.Conv2d(3, 4, 2, 2), 16, 2, 3, 8),
    "embedding": embedding,
    "no-prefix": lambda: embedding(num_prefix_tokens=0),
    "dynamic": lambda: embedding(dynamic_image_size=True),
    "backbone": lambda: classifier(pre_norm=True).backbone,
    "mean": lambda: classifier(pool="mean", fc_norm=True),
    "max": lambda: classifier(pool="max"),
    "distilled": lambda: classifier(distillation=True),
    "dynamic-model": lambda: classifier(dynamic_image_size=True),
    "fused": lambda: vit.fuse(classifier()),
}
every_module = pytest.mark.parametrize("name", MODULES)


def sizes(name):
    return [NATIVE, OTHER] if name.startswith("dynamic") else [NATIVE]


def images(*batches, size=NATIVE):
    return [torch.randn(b, *size) for b in batches]


# Recorded: torch.fx, torch.export, torch.jit


@pytest.mark.parametrize("name", [n for n in MODULES if n != "fused"])
def test_a_symbolic_trace_computes_the_same_at_every_size_and_refuses_bad_images(name):
    module = MODULES[name]()
    graph = torch.fx.symbolic_trace(module)
    for size in sizes(name):
        for x in images(1, 3, size=size):
            torch.testing.assert_close(graph(x), module(x), rtol=0, atol=0)
    bad = [torch.zeros(1, 4, 16, 16), torch.zeros(1, 3, 18, 16), torch.zeros(3, 16, 16)]
    bad += [torch.zeros(1, 3, 16, 16, dtype=torch.uint8)]
    if not name.startswith("dynamic"):
        bad.append(torch.zeros(1, 3, 8, 32))
    for x in bad:
        with pytest.raises(vit.ShapeError):
            graph(x)


def test_torchvisions_feature_extractor_takes_a_model_apart():
    extract = peer("torchvision.models.feature_extraction").create_feature_extractor
    model = classifier(dynamic_image_size=True)
    nodes = {"backbone.embedding": "first", "backbone.encoder.layers.0": "second", "head": "logits"}
    extractor = extract(model, nodes)
    for size in (NATIVE, OTHER):
        (x,) = images(2, size=size)
        out, states = extractor(x), vit.hidden_states(model, x)
        torch.testing.assert_close(out["first"], states[0])
        torch.testing.assert_close(out["second"], states[1])
        torch.testing.assert_close(out["logits"], model(x))


@every_module
def test_an_export_follows_the_batch(name):
    module = MODULES[name]()
    (x,) = images(2, size=sizes(name)[-1])
    program = torch.export.export(module, (x,), dynamic_shapes=({0: DYNAMIC},)).module()
    for y in images(1, 40, size=sizes(name)[-1]):
        torch.testing.assert_close(program(y), module(y))


@pytest.mark.parametrize("name", ["dynamic", "dynamic-model"])
def test_an_export_follows_the_size_of_the_image(name):
    module = MODULES[name]()
    rows, columns = (4 * torch.export.Dim(n, min=2, max=20) for n in ("rows", "columns"))
    shapes = ({0: DYNAMIC, 2: rows, 3: columns},)
    program = torch.export.export(module, (torch.randn(2, 3, 24, 12),), dynamic_shapes=shapes)
    for size in (NATIVE, OTHER, (3, 80, 8)):
        (x,) = images(3, size=size)
        torch.testing.assert_close(program.module()(x), module(x))


@deprecated  # and every other warning is an error, TracerWarning aside for sizes
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@every_module
def test_a_jit_trace_follows_the_batch(name):
    module = MODULES[name]()
    for size in sizes(name):
        first, second = images(2, 5, size=size)
        traced = torch.jit.trace(module, first)
        torch.testing.assert_close(traced(second), module(second))


@pytest.mark.parametrize("name", [n for n in MODULES if n not in ("linear", "hybrid")])
def test_every_forward_takes_one_tensor_and_returns_one(name):
    """Round 2, case 8: exporters that fill in defaults by position, and the notes' own calls."""
    import inspect

    model = MODULES[name]()
    for module in model.modules():
        if type(module).__module__.startswith("dnnl"):
            parameters = list(inspect.signature(module.forward).parameters.values())
            assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
            module.register_forward_hook(lambda owner, args, out: kinds.append(type(out)))
    (x,), kinds = images(1), []
    model(x, *[p.default for p in list(inspect.signature(model.forward).parameters.values())[1:]])
    assert set(kinds) == {torch.Tensor}


# Compiled


@pytest.mark.parametrize("name", ["linear", "hybrid", "dynamic", "mean", "distilled"])
def test_a_compiled_module_is_one_graph_with_the_same_output_and_gradients(name):
    """The backend here records and differentiates, but generates no code."""
    torch.compiler.reset()
    module = MODULES[name]()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for size in sizes(name):
        (x,) = images(2, size=size)
        out, want = compiled(x), module(x)
        torch.testing.assert_close(out, want)
        parameters = list(module.parameters())
        got = torch.autograd.grad(out.square().sum(), parameters)
        torch.testing.assert_close(got, torch.autograd.grad(want.square().sum(), parameters))
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(2)
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.release
@deprecated
def test_generated_code_follows_sizes_and_gradients():
    """Case 25: inductor failed at the second size for D of 128 and more."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler: torch.compile generated NO code here")
    torch.compiler.reset()
    module = vit.ViTEmbedding(16, 4, 3, 128, dynamic_image_size=True)
    compiled = torch.compile(module, dynamic=True)
    for size in (16, 24):
        x = torch.randn(2, 3, size, size)
        out, want = compiled(x), module(x)
        torch.testing.assert_close(out, want)
        parameters = list(module.parameters())
        got = torch.autograd.grad(out.square().sum(), parameters)
        right = torch.autograd.grad(want.square().sum(), parameters)
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("where", ["backbone.encoder.layers.0", "backbone.embedding", "head"])
def test_a_model_with_a_compiled_child_loads_its_own_state(where):
    """Case 1: the recipe that compiles layer by layer."""
    torch.compiler.reset()
    model, (x,) = classifier(), images(2)
    owner, _, name = where.rpartition(".")
    compiled = torch.compile(model.get_submodule(where), backend="eager")
    model.get_submodule(owner).register_module(name, compiled)
    want = model(x)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    for p in model.parameters():
        p.zero_()
    model.load_state_dict(state)
    torch.testing.assert_close(model(x), want)
    assert model.no_weight_decay() <= {n for n, _ in model.named_parameters()}


# Transformed: torch.func


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its own vmap
@pytest.mark.parametrize("size", [NATIVE, OTHER])
def test_per_sample_gradients_and_many_tables_at_once(size):
    model, x = classifier(dynamic_image_size=True).double(), torch.randn(3, *size).double()
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def call(parameters, image):
        return torch.func.functional_call(model, parameters, (image[None],))[0]

    grad = torch.func.grad(lambda p, image: call(p, image).square().sum())
    each = torch.func.vmap(grad, in_dims=(None, 0))(parameters, x)
    model(x).square().sum().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(each[name].sum(0), p.grad)
    many = {n: torch.randn(4, *p.shape).double() for n, p in parameters.items()}
    out = torch.func.vmap(call, in_dims=(0, None))(many, x[0])
    for i in range(4):
        torch.testing.assert_close(out[i], call({n: p[i] for n, p in many.items()}, x[0]))


@scripted
def test_a_hessian_can_be_taken_twice_and_is_that_of_the_square():
    """Case 26: at a size that is not the model's own, in eval mode."""
    module, x = embedding(dynamic_image_size=True).double().eval(), torch.randn(1, 3, 4, 8).double()
    jacobian = torch.func.jacrev(module)(x).reshape(24, 96)
    for _ in range(2):
        hessian = torch.func.hessian(lambda x: module(x).square().sum())(x).reshape(96, 96)
        torch.testing.assert_close(hessian, 2 * jacobian.T @ jacobian)


@scripted
def test_directional_derivatives_of_the_input_module():
    module, x, v = embedding(), torch.randn(5, *NATIVE), torch.randn(5, *NATIVE)
    out, change = torch.func.jvp(module, (x,), (v,))
    torch.testing.assert_close(out, module(x))
    torch.testing.assert_close(
        change, module(v) - module(torch.zeros_like(v)), rtol=1e-4, atol=1e-4
    )


# Watched: what one puts between our modules and torch is called (case 18)


class Functions(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("width", [8, 128])
@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_the_projection_is_one_convolution_to_everyone(width, context):
    module, (x,) = vit.ViTEmbedding(16, 4, 3, width).eval(), images(2)
    plain, seen = nn.Conv2d.forward, []

    def patched(self, x):
        seen.append(self)
        return 2 * plain(self, x)

    with context():
        want = module.patch_embed(x)
        with mock.patch.object(nn.Conv2d, "forward", patched):
            torch.testing.assert_close(module.patch_embed(x), 2 * want)
        assert seen == [module.patch_embed.proj]
        with Functions() as functions:
            module(x)
        assert functions.names.count("conv2d") == 1
    if context is not torch.inference_mode:
        with context(), FlopCounterMode(display=False) as flops:
            module(x)
        assert flops.get_total_flops() == 2 * 2 * 16 * 48 * width


@pytest.mark.parametrize("where", ["patch_embed", "patch_embed.proj", "add_cls_token", "pos_embed"])
@pytest.mark.parametrize("size", [NATIVE, OTHER])
def test_hooks_on_every_part_see_it_forward_and_backward(where, size):
    module, (x,) = embedding(dynamic_image_size=True).eval(), images(2, size=size)
    part, seen = module.get_submodule(where), []
    with torch.no_grad():
        want = module(x)
        with part.register_forward_hook(lambda owner, args, out: seen.append((args[0], out))):
            torch.testing.assert_close(module(x), want, rtol=0, atol=0)
        with part.register_forward_hook(lambda owner, args, out: out + 1):
            assert not torch.allclose(module(x), want, atol=0.5)
    assert len(seen) == 1
    part.register_full_backward_hook(lambda *args: seen.append(args))
    module(x.requires_grad_()).sum().backward()
    assert len(seen) == 2
