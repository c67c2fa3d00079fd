"""The class token and registers; what every module promises of its parameters and its state."""

import copy
import pickle
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import dnnl.models.vit as vit


def classifier():
    return vit.ViTForImageClassification(16, 8, 3, 5, 8, 2, 1, 16)


@given(st.integers(0, 4), st.integers(0, 6), st.integers(1, 8), st.integers(1, 5))
def test_the_tokens_stand_first_and_the_patches_follow_unchanged(batch, n, dim, num_tokens):
    module = vit.ViTAddClassToken(dim, num_tokens)
    x = torch.randn(batch, n, dim)
    out = module(x)
    assert out.shape == (batch, num_tokens + n, dim)
    assert torch.equal(out[:, num_tokens:], x)
    assert all(torch.equal(image[:num_tokens], module.cls_token[0]) for image in out)
    assert vit.ViTAddClassToken(dim)(x).shape == (batch, 1 + n, dim)


@pytest.mark.parametrize(
    ("module", "name", "rows"),
    [
        (vit.ViTAddClassToken(768, 64), "cls_token", 64),
        (vit.ViTPositionalEmbedding(768, 196), "pos_embed", 197),
    ],
)
def test_tokens_and_tables_are_one_registered_parameter_normal_with_deviation_0_02(
    module, name, rows
):
    """Public report 10: neither one per sample, nor a plain tensor left behind by ``.to()``."""
    assert [n for n, _ in module.named_parameters()] == [name]
    parameter = getattr(module, name)
    assert parameter.is_leaf and parameter.requires_grad and parameter.shape == (1, rows, 768)
    assert abs(parameter.std().item() - 0.02) < 5e-4
    assert abs(parameter.mean().item()) < 5e-4
    # trunc_normal_ truncates at ±2 absolute, which is 100 deviations: nothing is cut at two
    assert abs((parameter.abs() > 0.04).float().mean().item() - 0.0455) < 0.01
    assert getattr(copy.deepcopy(module).to(torch.bfloat16), name).dtype == torch.bfloat16
    assert getattr(copy.deepcopy(module).to("meta"), name).device.type == "meta"


def test_parameters_made_under_a_device_live_there_and_can_be_loaded_by_assignment():
    with torch.device("meta"):
        module = classifier()
        assert module(torch.empty(2, 3, 16, 16)).shape == (2, 5)
    assert {(type(p), p.device.type) for p in module.parameters()} == {(nn.Parameter, "meta")}
    source, x = classifier(), torch.randn(2, 3, 16, 16)
    module.load_state_dict(source.state_dict(), assign=True)
    torch.testing.assert_close(module(x), source(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), r"embed_dim of at least 1, but got 0"),
        ((8, 0), r"num_tokens of at least 1, but got 0"),
        ((8, 1.5), r"an integer as num_tokens, but got 1.5"),
        ((None,), r"an integer as embed_dim, but got None"),
    ],
)
def test_the_token_refuses_counts_that_make_no_token(arguments, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTAddClassToken(*arguments)


def test_the_error_is_a_value_error_and_an_assertion_error():
    assert issubclass(vit.ShapeError, (ValueError, AssertionError))
    assert vit.ShapeError.__mro__.index(ValueError) < vit.ShapeError.__mro__.index(AssertionError)
    assert issubclass(vit.DTypeError, vit.ShapeError) and issubclass(vit.DTypeError, TypeError)
    for expected in (ValueError, AssertionError):
        with pytest.raises(expected):
            vit.ViTEmbedding(image_size=30, patch_size=8)


# Loading is torch's own (cases 1, 5 and 21 to 24)


def same(module, state):
    own = module.state_dict()
    return own.keys() == state.keys() and all(torch.equal(own[k], v) for k, v in state.items())


def test_loading_is_that_of_torch_and_reports_as_torch_does():
    for module in (classifier(), vit.ViTEmbedding(), vit.ViTPositionalEmbedding(8, 4)):
        assert type(module).load_state_dict is nn.Module.load_state_dict
    source, module = vit.ViTEmbedding(16, 4, 3, 8), vit.ViTEmbedding(16, 4, 3, 8)
    parameter = module.pos_embed.pos_embed
    result = module.load_state_dict(source.state_dict())
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    assert same(module, source.state_dict())
    assert module.pos_embed.pos_embed is parameter  # an optimizer keeps its hold on it
    partial = {"pos_embed.pos_embed": torch.ones(1, 17, 8), "extra": torch.zeros(1)}
    result = module.load_state_dict(partial, strict=False)
    assert (len(result.missing_keys), result.unexpected_keys) == (3, ["extra"])
    assert (module.pos_embed.pos_embed == 1).all()
    with pytest.raises(RuntimeError, match="size mismatch"):  # learner question 53
        module.load_state_dict(vit.ViTEmbedding(32, 4, 3, 8).state_dict(), strict=False)


def keeps_a_graph(module):
    module.last = module(torch.randn(1, 3, 16, 16))


def cannot_be_copied(module):
    class Stubborn(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("this module cannot be copied")

        __copy__ = __reduce_ex__ = __deepcopy__

    module.lock = threading.Lock()
    module.head.head = Stubborn(8, 5)


def has_a_lazy_head(module):
    module.head.head = nn.LazyLinear(5)


def has_a_traced_head(module):
    module.head.head = torch.jit.trace(module.head.head, torch.randn(2, 8))


def parametrised(change):
    def apply(module):
        layer = module.backbone.encoder.layers[0]
        change(layer.attn.qkv), change(layer.mlp.net[0]), change(module.head.head)
        change(module.backbone.embedding.patch_embed.proj)

    return apply


CHANGES = {
    "keeps a graph": keeps_a_graph,
    "cannot be copied": cannot_be_copied,
    "lazy": has_a_lazy_head,
    "traced": has_a_traced_head,
    "pruned": parametrised(lambda m: prune.l1_unstructured(m, "weight", amount=0.5)),
    "weight_norm": parametrised(parametrizations.weight_norm),
    "spectral_norm": parametrised(parametrizations.spectral_norm),
    "orthogonal": parametrised(
        lambda m: parametrizations.orthogonal(m) if isinstance(m, nn.Linear) else m
    ),
}


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore:Lazy modules")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_users_put_into_a_model_it_loads_a_state_of_its_own_kind(change):
    module, source, x = classifier().eval(), classifier().eval(), torch.randn(2, 3, 16, 16)
    change(module)
    if change is not has_a_lazy_head and change is not keeps_a_graph:
        change(source)
    module.load_state_dict(source.state_dict())
    assert same(module, source.state_dict())
    torch.testing.assert_close(module(x), source(x))
    module.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(x), source(x))


def test_a_hook_may_fit_the_module_to_the_checkpoint_and_hooks_run_once():
    """Case 24: the table of another image size."""
    module, calls = vit.ViTEmbedding(16, 4, 3, 8), []

    def fit(owner, state, *_):
        calls.append("before")
        owner.pos_embed = nn.Parameter(torch.zeros_like(state["pos_embed.pos_embed"]))

    module.pos_embed.register_load_state_dict_pre_hook(fit)
    module.register_load_state_dict_post_hook(lambda *_: calls.append("after"))
    source = vit.ViTEmbedding(32, 4, 3, 8)
    module.load_state_dict(source.state_dict())
    assert calls == ["before", "after"]
    assert same(module, source.state_dict())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("compiled", [False, True])
def test_copies_are_equal_and_independent_even_of_a_compiled_input_module(copied, compiled):
    """Case 2: the copy of a compiled module computed with the original's weights."""
    module, x = classifier(), torch.randn(2, 3, 16, 16)
    if compiled:
        module.backbone.embedding.compile(backend="eager")
    twin = copied(module)
    want = module(x)
    torch.testing.assert_close(twin(x), want)
    with torch.no_grad():
        for p in twin.backbone.embedding.parameters():
            p.zero_()
    assert (twin.backbone.embedding(x) == 0).all()
    torch.testing.assert_close(module(x), want)


# Weight decay


def test_class_token_and_positions_are_named_for_no_weight_decay():
    assert vit.ViTAddClassToken(8).no_weight_decay() == {"cls_token"}
    assert vit.ViTPositionalEmbedding(8, 4).no_weight_decay() == {"pos_embed"}
    assert vit.ViTConvPatchEmbedding(8, 4).no_weight_decay() == set()
    inside = {"add_cls_token.cls_token", "pos_embed.pos_embed"}
    assert vit.ViTEmbedding(8, 4).no_weight_decay() == inside
    assert classifier().no_weight_decay() == {"backbone.embedding." + name for name in inside}


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize(
    "change",
    [
        lambda module, name: prune.l1_unstructured(module, name, amount=0.5),
        lambda module, name: parametrize.register_parametrization(module, name, Doubled()),
    ],
    ids=["pruned", "parametrised"],
)
def test_a_pruned_or_parametrised_table_is_still_not_decayed(change):
    model, embedding = (module := classifier()), module.backbone.embedding
    change(embedding.pos_embed, "pos_embed")
    change(embedding.add_cls_token, "cls_token")
    names = model.no_weight_decay()
    assert names <= {n for n, _ in model.named_parameters()}
    assert {".".join(n.split(".")[:3]) for n in names} == {
        "backbone.embedding.pos_embed",
        "backbone.embedding.add_cls_token",
    }
    assert len(names) == 2
