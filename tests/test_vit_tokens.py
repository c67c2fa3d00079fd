"""The class token, registers, and what every module promises of its parameters."""

import copy
import pickle
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

import dnnl.models.vit as vit


@given(st.integers(0, 4), st.integers(0, 6), st.integers(1, 8), st.integers(1, 5))
def test_the_tokens_stand_first_and_the_patches_follow_unchanged(batch, n, dim, num_tokens):
    module = vit.ViTAddClassToken(dim, num_tokens)
    x = torch.randn(batch, n, dim)
    out = module(x)
    assert out.shape == (batch, num_tokens + n, dim)
    assert torch.equal(out[:, num_tokens:], x)
    for image in out:
        assert torch.equal(image[:num_tokens], module.cls_token[0])


def test_the_first_listing_of_the_chapter():
    assert vit.ViTAddClassToken(64)(torch.randn(2, 16, 64)).shape == (2, 17, 64)


def test_the_class_token_is_one_registered_parameter_for_all_images():
    """Public report 10: neither one per sample, nor a plain tensor left behind by ``.to()``."""
    module = vit.ViTAddClassToken(8, num_tokens=2)
    assert isinstance(module.cls_token, nn.Parameter)
    assert module.cls_token.is_leaf
    assert module.cls_token.requires_grad
    assert module.cls_token.shape == (1, 2, 8)
    assert [n for n, _ in module.named_parameters()] == ["cls_token"]
    for dtype in (torch.float64, torch.bfloat16):
        module.to(dtype)
        assert isinstance(module.cls_token, nn.Parameter)
        assert module.cls_token.dtype == dtype
    assert module.to("meta").cls_token.device.type == "meta"


def test_the_table_is_one_registered_parameter_for_all_images():
    """Public report 10."""
    module = vit.ViTPositionalEmbedding(8, 16)
    assert isinstance(module.pos_embed, nn.Parameter)
    assert module.pos_embed.is_leaf
    assert module.pos_embed.requires_grad
    assert module.pos_embed.shape == (1, 17, 8)
    assert [n for n, _ in module.named_parameters()] == ["pos_embed"]
    assert module.to(torch.float64).pos_embed.dtype == torch.float64
    assert module.to("meta").pos_embed.device.type == "meta"


def test_parameters_made_under_a_device_live_there_and_are_registered():
    with torch.device("meta"):
        module = vit.ViTForImageClassification(32, 8, 3, 10, 16, 2, 1, 32)
        assert module(torch.empty(2, 3, 32, 32)).shape == (2, 10)
    assert {p.device.type for p in module.parameters()} == {"meta"}
    assert {type(p) for p in module.parameters()} == {nn.Parameter}
    source = vit.ViTForImageClassification(32, 8, 3, 10, 16, 2, 1, 32)
    module.load_state_dict(source.state_dict(), assign=True)
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(module(x), source(x))


def test_the_gradient_of_the_token_is_the_sum_over_the_batch():
    module = vit.ViTAddClassToken(4, 2).double()
    x, g = torch.randn(3, 5, 4).double(), torch.randn(3, 7, 4).double()
    module(x).backward(g)
    torch.testing.assert_close(module.cls_token.grad[0], g[:, :2].sum(0))


def test_expand_and_repeat_give_the_same_gradient():
    """Learner question 21: they differ in memory, not in learning."""
    module = vit.ViTAddClassToken(4)
    x, g = torch.randn(3, 5, 4), torch.randn(3, 6, 4)
    module(x).backward(g)
    token = module.cls_token.detach().clone().requires_grad_()
    torch.cat([token.repeat(3, 1, 1), x], dim=1).backward(g)
    assert torch.equal(module.cls_token.grad, token.grad)


def test_a_class_token_of_zeros_learns():
    """Learner question 17: it gets a gradient, and one step moves it."""
    model = vit.ViTForImageClassification(16, 8, 3, 5, 16, 2, 2, 32)
    nn.init.zeros_(model.backbone.embedding.add_cls_token.cls_token)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 16, 16)), torch.arange(4))
    loss.backward()
    optimizer.step()
    assert (model.backbone.embedding.add_cls_token.cls_token != 0).all()


def test_the_input_module_computes_the_same_in_training_and_in_eval():
    """Learner question 19: with dropout 0 nothing depends on the mode."""
    module = vit.ViTEmbedding(16, 4, 3, 8)
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(module.train()(x), module.eval()(x))


@pytest.mark.parametrize(
    "parameter",
    [
        vit.ViTAddClassToken(768, 64).cls_token,
        vit.ViTPositionalEmbedding(768, 196).pos_embed,
    ],
    ids=["cls_token", "pos_embed"],
)
def test_tokens_and_tables_start_normal_with_deviation_0_02(parameter):
    assert abs(parameter.std().item() - 0.02) < 5e-4
    assert abs(parameter.mean().item()) < 5e-4
    # trunc_normal_ truncates at ±2 absolute, which is 100 deviations: nothing is cut at two
    beyond = (parameter.abs() > 0.04).float().mean().item()
    assert abs(beyond - 0.0455) < 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_tokens_keep_the_dtype_of_the_patches(dtype):
    x = torch.randn(2, 16, 8).to(dtype)
    out = vit.ViTAddClassToken(8)(x)  # the parameter itself is float32
    assert out.dtype == dtype
    assert vit.ViTPositionalEmbedding(8, 16)(out).dtype == dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), r"embed_dim of at least 1, but got 0"),
        ((-8,), r"embed_dim of at least 1, but got -8"),
        ((8, 0), r"num_tokens of at least 1, but got 0"),
        ((8, 1.5), r"a whole number as num_tokens, but got 1.5"),
        ((None,), r"a whole number as embed_dim, but got None"),
    ],
)
def test_the_token_refuses_counts_that_make_no_token(arguments, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTAddClassToken(*arguments)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 16, 7), r"tokens of width 8, but got 7"),
        (torch.zeros(16, 8), r"tokens of shape \(B, N, D\), but got \(16, 8\)"),
        (torch.zeros(2, 16, 8, dtype=torch.int64), r"floating-point tokens, but got torch.int64"),
        (None, r"torch.Tensor \(B, N, D\), but got NoneType"),
    ],
)
@pytest.mark.parametrize(
    "module", [vit.ViTAddClassToken(8), vit.ViTPositionalEmbedding(8, 16)], ids=["token", "table"]
)
def test_wrong_tokens_are_refused_by_name(module, x, message):
    with pytest.raises(vit.ShapeError, match=message):
        module(x)


# Errors


def test_the_error_is_a_value_error_and_an_assertion_error():
    assert issubclass(vit.ShapeError, ValueError)
    assert issubclass(vit.ShapeError, AssertionError)
    assert issubclass(vit.DTypeError, vit.ShapeError)
    assert issubclass(vit.DTypeError, TypeError)
    for expected in (ValueError, AssertionError, vit.ShapeError):
        with pytest.raises(expected):
            vit.ViTEmbedding(image_size=30, patch_size=8)


# Loading, copying, decaying


def tensors(module):
    return {k: v.clone() for k, v in module.state_dict().items()}


def same(module, before):
    after = module.state_dict()
    return after.keys() == before.keys() and all(
        torch.equal(after[k], v) for k, v in before.items()
    )


def misshapen(state):
    return {**state, "pos_embed.pos_embed": torch.zeros(1, 5, 8)}


def incomplete(state):
    return {k: v for k, v in state.items() if k != "pos_embed.pos_embed"}


def unexpected(state):
    return {**state, "registers": torch.zeros(1)}


def no_tensor(state):
    return {**state, "pos_embed.pos_embed": "a table"}


@pytest.mark.parametrize("broken", [misshapen, incomplete, unexpected, no_tensor])
@pytest.mark.parametrize("assign", [False, True])
def test_a_failed_load_changes_nothing(broken, assign):
    module = vit.ViTEmbedding(16, 4, 3, 8)
    before = tensors(module)
    identities = {n: id(p) for n, p in module.named_parameters()}
    state = broken({k: torch.full_like(v, 7) for k, v in before.items()})
    with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for ViTEmbedding"):
        module.load_state_dict(state, assign=assign)
    assert same(module, before)
    assert {n: id(p) for n, p in module.named_parameters()} == identities


def test_a_failed_load_changes_no_batch_norm_and_no_whole_model():
    cnn = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.BatchNorm2d(4))
    for module in (
        vit.ViTHybridPatchEmbedding(cnn, 16, 2, 3, 8),
        vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 1, 16),
    ):
        before = tensors(module)
        state = {k: torch.full_like(v, 7) for k, v in before.items()}
        last = list(state)[-1]
        state[last] = torch.zeros(3, 3, 3)
        with pytest.raises(RuntimeError, match="size mismatch"):
            module.load_state_dict(state)
        assert same(module, before)


def keeps_a_graph(module):
    module.last = module(torch.randn(1, 3, 16, 16))


def keeps_a_lock(module):
    module.lock = threading.Lock()


def has_a_hook_with_a_lock(module):
    class Log:
        def __init__(self):
            self.lock = threading.Lock()

        def write(self, *_):
            pass

    module.register_forward_hook(Log().write)


def is_pruned(module):
    prune.l1_unstructured(module.head.head, "weight", amount=0.5)


def is_normalised(module):
    torch.nn.utils.spectral_norm(module.head.head)


def has_a_lazy_head(module):
    module.head.head = nn.LazyLinear(5)


@pytest.mark.filterwarnings("ignore:.*spectral_norm:FutureWarning", "ignore:Lazy modules")
@pytest.mark.parametrize(
    "change",
    [keeps_a_graph, keeps_a_lock, has_a_hook_with_a_lock, is_pruned, is_normalised]
    + [has_a_lazy_head],
)
def test_what_users_put_into_a_module_does_not_keep_it_from_loading(change):
    module, source = (vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 1, 16) for _ in range(2))
    change(module)
    if change in (is_pruned, is_normalised):
        change(source)
    loads = []
    module.register_load_state_dict_post_hook(lambda *_: loads.append(1))
    module.load_state_dict(source.state_dict())
    assert same(module, tensors(source))
    assert loads == [1]  # what happened before, for a trial, was no load
    before = tensors(module)
    with pytest.raises(RuntimeError, match="size mismatch"):
        wrong = {"backbone.embedding.pos_embed.pos_embed": torch.zeros(1, 9, 8)}
        module.load_state_dict({k: torch.full_like(v, 7) for k, v in before.items()} | wrong)
    assert same(module, before)


def test_a_table_of_another_grid_is_refused_even_without_strict():
    """Learner question 53: ``strict=False`` does not skip a shape mismatch."""
    state = vit.ViTEmbedding(32, 4, 3, 8).state_dict()
    module = vit.ViTEmbedding(16, 4, 3, 8)
    before = tensors(module)
    with pytest.raises(RuntimeError, match="size mismatch"):
        module.load_state_dict(state, strict=False)
    assert same(module, before)


def test_another_patch_size_changes_two_tensors_and_no_others():
    """Learner question 5: resizing the table is not enough, the projection changes too."""
    old, new = (
        vit.ViTForImageClassification(32, patch, 3, 5, 8, 2, 1, 16).state_dict() for patch in (8, 4)
    )
    assert {k for k in old if old[k].shape != new[k].shape} == {
        "backbone.embedding.patch_embed.proj.weight",
        "backbone.embedding.pos_embed.pos_embed",
    }


def test_a_load_that_succeeds_loads_everything_and_reports_as_torch_does():
    source, module = vit.ViTEmbedding(16, 4, 3, 8), vit.ViTEmbedding(16, 4, 3, 8)
    parameter = module.pos_embed.pos_embed
    result = module.load_state_dict(source.state_dict())
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    assert same(module, tensors(source))
    assert module.pos_embed.pos_embed is parameter  # an optimizer keeps its hold on it
    partial = {"pos_embed.pos_embed": torch.ones(1, 17, 8), "extra": torch.zeros(1)}
    result = module.load_state_dict(partial, strict=False)
    assert result.unexpected_keys == ["extra"]
    assert len(result.missing_keys) == 3
    assert (module.pos_embed.pos_embed == 1).all()


def test_loading_leaves_frozen_parameters_frozen_and_tied_ones_tied():
    module = vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 2, 16)
    module.backbone.embedding.pos_embed.pos_embed.requires_grad_(False)
    first, second = module.backbone.encoder.layers
    second.mlp = first.mlp
    state = {k: torch.full_like(v, 0.5) for k, v in module.state_dict().items()}
    module.load_state_dict(state)
    assert not module.backbone.embedding.pos_embed.pos_embed.requires_grad
    assert second.mlp.net[0].weight is first.mlp.net[0].weight
    assert all((v == 0.5).all() for v in module.state_dict().values())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_equal_and_independent(copied):
    module = vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 1, 16)
    twin = copied(module)
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(twin(x), module(x))
    with torch.no_grad():
        for p in twin.parameters():
            p.zero_()
    assert module.head.head.weight.abs().sum() > 0


def test_class_token_and_positions_are_named_for_no_weight_decay():
    assert vit.ViTAddClassToken(8).no_weight_decay() == {"cls_token"}
    assert vit.ViTPositionalEmbedding(8, 4).no_weight_decay() == {"pos_embed"}
    assert vit.ViTConvPatchEmbedding(8, 4).no_weight_decay() == set()
    assert vit.ViTEmbedding(8, 4).no_weight_decay() == {
        "add_cls_token.cls_token",
        "pos_embed.pos_embed",
    }
    model = vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 1, 16)
    assert model.no_weight_decay() == {
        "backbone.embedding.add_cls_token.cls_token",
        "backbone.embedding.pos_embed.pos_embed",
    }
    assert model.no_weight_decay() <= {n for n, _ in model.named_parameters()}


def test_no_weight_decay_exempts_and_does_not_freeze():
    """Learner question 23: one step of AdamW moves both by the learning rate, the sign apart."""
    model = vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 1, 16)
    never = model.no_weight_decay()
    named = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in named.items() if n in never], "weight_decay": 0.0},
            {"params": [p for n, p in named.items() if n not in never], "weight_decay": 0.5},
        ],
        lr=1e-3,
    )
    before = {n: p.detach().clone() for n, p in named.items()}
    model(torch.randn(4, 3, 16, 16)).square().sum().backward()
    optimizer.step()
    for name in never:
        moved = (named[name] - before[name]).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, 1e-3), rtol=0.02, atol=0)
