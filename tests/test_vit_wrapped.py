"""Modules that others put into a model, or around its parts: sharded, offloaded, quantised."""

import copy
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

import dnnl.models.vit as vit

SIZES = [(16, 16), (8, 24)]  # grids 4×4 and 2×6 of patches of 4 pixels
pytestmark = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view")


def classifier(**options):
    return vit.ViTForImageClassification(16, 4, 3, 5, 8, 2, 2, 16, **options)


def owners(model):
    """Return every module that has parameters of its own."""
    return [m for m in model.modules() if list(m.parameters(recurse=False))]


def outcome(model, x):
    """Return the logits, and the gradient of their squares for every parameter, by name."""
    out = model(x)
    model.zero_grad()
    out.float().square().sum().backward()
    grads = {n: p.grad for n, p in model.named_parameters()}
    return out.detach(), {n: getattr(g, "full_tensor", lambda g=g: g)() for n, g in grads.items()}


# Each module's parameters are there only while it runs itself (round 2, case 6; case 23)


@pytest.fixture(scope="module")
def mesh():
    """Start a group of one process."""
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def shard(model, mesh, **options):
    from torch.distributed.fsdp import fully_shard

    for module in owners(model):
        fully_shard(module, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", [{}, {"dynamic_image_size": True, "distillation": True}])
def test_a_model_sharded_module_by_module_computes_the_same(mesh, options, training):
    model = classifier(**options).train(training)
    state = copy.deepcopy(model.state_dict())
    for size in SIZES[: 1 + len(options)]:
        x = torch.randn(2, 3, *size)
        want = outcome(model, x)
        torch.testing.assert_close(outcome(shard(copy.deepcopy(model), mesh), x), want)
    sharded = shard(classifier(**options), mesh)
    assert sharded.no_weight_decay() == model.no_weight_decay()
    sharded.load_state_dict(shard(copy.deepcopy(model), mesh).state_dict())
    for name, value in sharded.state_dict().items():
        assert torch.equal(value.full_tensor(), state[name])


@pytest.mark.parametrize("options", [{}, {"dynamic_image_size": True}])
def test_a_model_sharded_in_mixed_precision_runs_in_bfloat16(mesh, options):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    model = classifier(**options)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    sharded = shard(copy.deepcopy(model), mesh, mp_policy=policy)
    for size in SIZES[: 1 + len(options)]:
        x = torch.randn(2, 3, *size)
        (out, grads), (want, _) = outcome(sharded, x), outcome(model, x)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out.float(), want, rtol=0.05, atol=0.05)
        assert {g.dtype for g in grads.values()} == {torch.float32}


def put(parameters, module, *_):
    for name, parameter in parameters.items():
        setattr(module, name, parameter)


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"dynamic_image_size": True, "pool": "mean"}])
def test_a_model_whose_parts_are_offloaded_between_their_calls_computes_the_same(options):
    """As accelerate's ``cpu_offload`` does it: a parameter is on ``meta`` unless its owner runs."""
    model = classifier(**options).eval()
    images = [torch.randn(2, 3, *size) for size in SIZES[: 1 + len(options)]]
    wants = [model(x) for x in images]
    for module in owners(model):
        real = dict(module.named_parameters(recurse=False))
        away = {n: nn.Parameter(p.to("meta")) for n, p in real.items()}
        put(away, module)
        module.register_forward_pre_hook(partial(put, real))
        module.register_forward_hook(partial(put, away))
    assert {p.device.type for p in model.parameters()} == {"meta"}
    for x, want in zip(images, wants, strict=True):
        torch.testing.assert_close(model(x), want)


def test_ddp_takes_a_model_that_was_evaluated_and_converted_before(mesh):
    """Case 16: in eval mode, at another size than its own."""
    model, x = classifier(dynamic_image_size=True).eval(), torch.randn(2, 3, 8, 24)
    want = outcome(model, x)
    ddp = nn.parallel.DistributedDataParallel(model.double().float())
    for _ in range(2):
        logits, grads = outcome(ddp, x)
        got = logits, {n.removeprefix("module."): g for n, g in grads.items()}
        torch.testing.assert_close(got, want)


# Other layers in the places of ours (cases 21, 22, 28)


class WeightOnly(nn.Module):
    """A linear layer whose weights are stored in eight bits: gpt-fast's kind."""

    def __init__(self, linear, dtype):
        nn.Module.__init__(self)
        largest = 127 if dtype == torch.int8 else torch.finfo(dtype).max
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / largest
        weight = linear.weight.detach() / scale
        self.register_buffer(
            "weight", (weight.round() if dtype == torch.int8 else weight).to(dtype)
        )
        self.register_buffer("scale", scale)
        self.bias, self.in_features = linear.bias, linear.in_features

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale.to(x.dtype), self.bias)


class WeightOnlyLinear(WeightOnly, nn.Linear):
    """One that is an ``nn.Linear`` too: bitsandbytes' kind."""


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("kind", [WeightOnly, WeightOnlyLinear])
@pytest.mark.parametrize("distillation", [False, True])
def test_weight_only_layers_may_stand_everywhere(dtype, kind, distillation):
    model, x = classifier(distillation=distillation).eval(), torch.randn(2, 3, 16, 16)
    want = model(x)
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear:
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, kind(module, dtype))
    assert sum(isinstance(m, WeightOnly) for m in model.modules()) == 9 + distillation
    torch.testing.assert_close(model(x), want, rtol=0.1, atol=0.05)
    loaded = copy.deepcopy(model)
    loaded.load_state_dict(model.state_dict())
    torch.testing.assert_close(loaded(x), model(x))


@pytest.mark.filterwarnings("ignore")  # torchao's own
def test_a_model_quantised_by_torchao_loads_and_computes():
    quantization = pytest.importorskip("torchao.quantization", exc_type=Exception)
    model, x = classifier().eval(), torch.randn(2, 3, 16, 16)
    want = model(x)
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    assert type(model.head.head.weight).__name__ != "Parameter"
    torch.testing.assert_close(model(x), want, rtol=0.1, atol=0.05)
    model.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(x), want, rtol=0.1, atol=0.05)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, tensor):
        self.calls += 1
        return 2 * tensor


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name", ["pos_embed.pos_embed", "add_cls_token.cls_token", "patch_embed.proj.weight"]
)
def test_a_parametrised_tensor_counts_and_is_computed_once_in_a_forward_pass(name, size):
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True)
    x, counted = torch.randn(2, 3, *size), Counted()
    parameter = module.get_parameter(name)
    want = torch.func.functional_call(module, {name: 2 * parameter}, (x,))
    owner, _, own = name.rpartition(".")
    parametrize.register_parametrization(module.get_submodule(owner), own, counted)
    counted.calls = 0
    torch.testing.assert_close(module(x), want)
    assert counted.calls == 1
    module.load_state_dict(module.state_dict())
