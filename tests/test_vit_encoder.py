"""What reads the sequence: attention, encoder, heads and the whole model."""

import pytest
import torch
from torch import nn

import dnnl.models.vit as vit

POOLS = ("cls", "mean", "max")


def tokens(batch=2, length=5, dim=8, dtype=torch.float64):
    return torch.randn(batch, length, dim, dtype=dtype)


def shaken(module):
    """Move every parameter away from where it starts, so that none hides behind 0 or 1."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return module


def small(**options):
    """Return a whole model of 16 patches of a 16×16 image, D = 8, in float64."""
    options = {"embed_dim": 8, "num_heads": 2, "num_layers": 2, "hidden_dim": 16, **options}
    return shaken(vit.ViTForImageClassification(16, 4, 3, 5, **options)).double()


# Attention


def test_attention_is_the_softmax_of_queries_by_keys_times_values():
    attention = shaken(vit.ViTSelfAttention(8, 2)).double()
    x = tokens()
    q, k, v = (x @ attention.qkv.weight.T + attention.qkv.bias).split(8, dim=-1)
    heads, maps = [], []
    for h in range(2):  # head h owns four channels of each
        own = slice(4 * h, 4 * h + 4)
        scores = torch.einsum("bid,bjd->bij", q[..., own], k[..., own]) / 4**0.5
        maps.append(scores.exp() / scores.exp().sum(-1, keepdim=True))
        heads.append(maps[-1] @ v[..., own])
    want = torch.cat(heads, dim=-1) @ attention.proj.weight.T + attention.proj.bias
    torch.testing.assert_close(attention(x), want)
    torch.testing.assert_close(attention.weights(x), torch.stack(maps, dim=1))


def test_every_image_attends_to_its_own_tokens_only():
    """Learner question 35: attention over the batch made a published example blind."""
    model = small().eval()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    alone = torch.cat([model(image[None]) for image in x])
    torch.testing.assert_close(model(x), alone)
    x.requires_grad_()
    model(x)[1].sum().backward()
    assert (x.grad[[0, 2]] == 0).all()
    assert (x.grad[1].abs().sum((0, 2)) > 0).all()


def test_attention_dropout_acts_in_training_on_the_weights():
    attention = vit.ViTSelfAttention(8, 2, dropout=1.0)
    x = tokens(dtype=torch.float32)
    nothing = attention.proj.bias.expand(2, 5, 8)  # every weight dropped: only the bias is left
    torch.testing.assert_close(attention(x), nothing)
    torch.testing.assert_close(attention.weights(x).sum(-1), torch.ones(2, 2, 5))  # before dropout
    assert not torch.allclose(attention.eval()(x), nothing)


def test_large_logits_do_not_overflow_half_precision():
    """Case 15: products of 1.9e5 are infinite in float16 if they are scaled afterwards."""
    attention = vit.ViTSelfAttention(64, 1).half().eval()
    with torch.no_grad():
        attention.qkv.weight.copy_(torch.eye(64).repeat(3, 1))
        attention.qkv.bias.zero_()
    x = torch.full((1, 3, 64), 55.0).half()
    x[0, 1] = -55  # 64 * 55 * 55 = 193600
    weights, out = attention.weights(x), attention(x)
    assert weights.isfinite().all() and out.isfinite().all()
    want = torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]).half()
    torch.testing.assert_close(weights[0, 0], want)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((8, 3), r"embed_dim divisible by 3 heads, but got 8"),
        ((8, 0), r"num_heads of at least 1, but got 0"),
        ((0, 1), r"embed_dim of at least 1, but got 0"),
        (("8", 1), r"an integer as embed_dim, but got '8'"),
    ],
)
@pytest.mark.parametrize("part", [vit.ViTSelfAttention, vit.ViTEncoderLayer, vit.ViTEncoder])
def test_heads_that_do_not_divide_the_width_are_refused(part, arguments, message):
    with pytest.raises(vit.ShapeError, match=message):
        part(*arguments)


# Layer, encoder, MLP


def norm(x, layer):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + layer.eps).sqrt() * layer.weight + layer.bias


def test_a_layer_normalises_before_and_adds_after():
    layer = shaken(vit.ViTEncoderLayer(8, 2, 16)).double()
    x = tokens()
    y = x + layer.attn(norm(x, layer.norm1))
    first, _, _, second, _ = layer.mlp.net
    z = norm(y, layer.norm2) @ first.weight.T + first.bias
    z = z * (1 + torch.erf(z / 2**0.5)) / 2  # the exact GELU
    want = y + z @ second.weight.T + second.bias
    torch.testing.assert_close(layer(x), want)


def test_the_encoder_is_its_layers_and_one_norm():
    encoder = shaken(vit.ViTEncoder(8, 2, 3, 16)).double()
    x = tokens()
    y = x
    for layer in encoder.layers:
        y = layer(y)
    torch.testing.assert_close(encoder(x), norm(y, encoder.norm))
    assert len(encoder.layers) == 3
    empty = shaken(vit.ViTEncoder(8, 2, 0, 16)).double()
    torch.testing.assert_close(empty(x), norm(x, empty.norm))


def test_the_parts_have_the_names_of_the_chapter():
    layer = vit.ViTEncoderLayer(8, 2, 16, 0.1, 0.2)
    assert [n for n, _ in layer.named_children()] == ["norm1", "attn", "dropout1", "norm2", "mlp"]
    kinds = [nn.Linear, nn.GELU, nn.Dropout, nn.Linear, nn.Dropout]
    assert [type(m) for m in vit.ViTMLP(8, 16).net] == kinds
    model = small()
    assert [n for n, _ in model.named_children()] == ["backbone", "head"]
    assert [n for n, _ in model.backbone.named_children()] == ["embedding", "pre_norm", "encoder"]
    assert [n for n, _ in model.backbone.encoder.named_children()] == ["layers", "norm"]
    assert isinstance(model.head.head, nn.Linear)


def test_each_dropout_has_the_probability_that_was_asked_for():
    model = vit.ViTForImageClassification(16, 4, 3, 5, 8, 2, 1, 16, 0.1, 0.2)
    (layer,) = model.backbone.encoder.layers
    assert model.backbone.embedding.dropout.p == 0.1
    assert layer.dropout1.p == 0.1
    assert [layer.mlp.net[i].p for i in (2, 4)] == [0.1, 0.1]
    assert layer.attn.attn_dropout.p == 0.2
    assert [m.p for m in vit.ViTModel().modules() if isinstance(m, nn.Dropout)] == [0.0] * 49


def test_the_defaults_are_vit_b_16():
    with torch.device("meta"):
        model = vit.ViTForImageClassification()
    assert sum(p.numel() for p in model.parameters()) == 86_567_656  # the count of torchvision
    assert len(model.backbone.encoder.layers) == 12
    assert model.backbone.encoder.layers[0].attn.num_heads == 12
    assert model.backbone.encoder.layers[0].mlp.net[0].out_features == 3072
    assert {m.eps for m in model.modules() if isinstance(m, nn.LayerNorm)} == {1e-6}
    assert model(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 1000)


def test_norm_eps_reaches_every_norm():
    model = small(norm_eps=1e-3, pre_norm=True, fc_norm=True, pool="mean")
    assert [m.eps for m in model.modules() if isinstance(m, nn.LayerNorm)] == [1e-3] * 7


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gelu", lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2),
        (
            "gelu_tanh",
            lambda x: x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
        ),
        ("quick_gelu", lambda x: x / (1 + torch.exp(-1.702 * x))),
        ("relu", lambda x: x.clamp(min=0)),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_every_activation_is_its_formula(name, formula):
    x = torch.linspace(-4, 4, 33, dtype=torch.float64)
    model = small(activation=name)
    for mlp in (vit.ViTMLP(8, 16, activation=name), model.backbone.encoder.layers[1].mlp):
        torch.testing.assert_close(mlp.net[1](x), formula(x))
    with pytest.raises(ValueError, match="activation to be one of gelu, .*silu, but got 'tanh'"):
        vit.ViTMLP(8, 16, activation="tanh")


def test_the_norms_around_the_encoder_stand_where_they_are_asked_for():
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    model = small(pre_norm=True, final_norm=False, fc_norm=True, pool="mean").eval()
    backbone, head = model.backbone, model.head
    z = norm(backbone.embedding(x), backbone.pre_norm)
    torch.testing.assert_close(backbone.sequence(x), z)
    for layer in backbone.encoder.layers:
        z = layer(z)
    torch.testing.assert_close(backbone(x), z)
    want = norm(z[:, 1:].mean(dim=1), head.fc_norm) @ head.head.weight.T + head.head.bias
    torch.testing.assert_close(model(x), want)


# What 11.3.4 rests on


def test_without_positions_a_model_cannot_see_an_arrangement_and_with_them_it_can():
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    swapped = torch.cat([x[:, :, 8:], x[:, :, :8]], dim=2)  # top and bottom halves
    for pool in POOLS:
        model = small(pool=pool).eval()
        assert not torch.allclose(model(x), model(swapped), atol=1e-4)
        nn.init.zeros_(model.backbone.embedding.pos_embed.pos_embed)
        torch.testing.assert_close(model(x), model(swapped))


# Heads


@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
@pytest.mark.parametrize(("pool", "reduce"), [("mean", torch.mean), ("max", torch.amax)])
def test_mean_and_max_read_the_patches_without_the_prefix(pool, reduce, prefix):
    head = vit.ViTClassificationHead(8, 3, pool=pool, num_prefix_tokens=prefix).double()
    x = tokens(length=prefix + 4)
    want = reduce(x[:, prefix:], dim=1) @ head.head.weight.T + head.head.bias
    torch.testing.assert_close(head(x), want)
    x[:, :prefix] = 1e6
    torch.testing.assert_close(head(x), want)


@pytest.mark.parametrize("prefix", [1, 3])
def test_cls_reads_the_first_token_alone(prefix):
    head = vit.ViTClassificationHead(8, 3, num_prefix_tokens=prefix).double()
    x = tokens()
    want = x[:, 0] @ head.head.weight.T + head.head.bias
    x[:, 1:] = 1e6
    torch.testing.assert_close(head(x), want)
    assert head.pool == "cls"


def test_a_distilled_head_averages_its_two_heads_in_both_modes_and_gives_both_on_request():
    head = vit.ViTClassificationHead(8, 3, num_prefix_tokens=2, distillation=True).double()
    x = tokens()
    first = x[:, 0] @ head.head.weight.T + head.head.bias
    second = x[:, 1] @ head.head_dist.weight.T + head.head_dist.bias
    for training in (True, False):
        torch.testing.assert_close(head.train(training)(x), (first + second) / 2)
        torch.testing.assert_close(head.both(x), (first, second))
    with pytest.raises(ValueError, match="requires distillation=True"):
        vit.ViTClassificationHead(8, 3).both(x.float())


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_a_model_of_any_prefix_tells_its_head(prefix):
    model = small(pool="mean", num_prefix_tokens=prefix).eval()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    h = model.backbone(x)
    assert h.shape == (2, prefix + 16, 8)
    torch.testing.assert_close(model(x), model.head.head(h[:, prefix:].mean(dim=1)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_classes": 0}, vit.ShapeError, "num_classes of at least 1, but got 0"),
        ({"embed_dim": 0}, vit.ShapeError, "embed_dim of at least 1, but got 0"),
        ({"pool": "gap"}, ValueError, "pool to be one of cls, mean, max, but got 'gap'"),
        ({"pool": "mean", "distillation": True}, ValueError, "pool='cls' with distillation"),
        ({"fc_norm": True, "distillation": True}, ValueError, "fc_norm cannot be combined"),
        ({"num_prefix_tokens": 0}, vit.ShapeError, "num_prefix_tokens of at least 1, but got 0"),
        ({"distillation": True}, vit.ShapeError, "num_prefix_tokens of at least 2, but got 1"),
    ],
)
def test_heads_with_nothing_to_read_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        vit.ViTClassificationHead(**{"embed_dim": 8, "num_classes": 3, **options})


F64, BF16, INT64 = (
    torch.zeros(2, 5, 8, dtype=t) for t in (torch.double, torch.bfloat16, torch.int64)
)
READERS = {
    "token": lambda: vit.ViTAddClassToken(8),
    "table": lambda: vit.ViTPositionalEmbedding(8, 4),
    "attention": lambda: vit.ViTSelfAttention(8, 2),
    "layer": lambda: vit.ViTEncoderLayer(8, 2),
    "encoder": lambda: vit.ViTEncoder(8, 2, 1),
    **{pool: lambda pool=pool: vit.ViTClassificationHead(8, 3, pool=pool) for pool in POOLS},
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 5, 7), r"tokens of width 8, but got 7"),
        (torch.zeros(5, 8), r"tokens of shape \(B, N, D\), but got \(5, 8\)"),
        (None, r"torch.Tensor \(B, N, D\), but got NoneType"),
        (INT64, r"floating-point tokens, but got torch.int64"),
        (F64, r"of dtype torch.float32, the dtype of the layer .*but got torch.float64"),
        (BF16, r"of dtype torch.float32, the dtype of the layer .*but got torch.bfloat16"),
    ],
)
def test_whatever_reads_tokens_refuses_what_it_cannot_read(name, x, message):
    module = READERS[name]()
    if name in ("token", "table") and "the layer" in message:
        assert module(x).dtype == x.dtype  # these two follow the tokens
    else:
        with pytest.raises(vit.ShapeError, match=message):
            module(x)


@pytest.mark.parametrize(("pool", "needed"), [("cls", 1), ("mean", 2), ("max", 2)])
def test_a_head_refuses_a_sequence_that_is_too_short(pool, needed):
    head = vit.ViTClassificationHead(8, 3, pool=pool)
    assert head(torch.zeros(2, needed, 8)).shape == (2, 3)
    with pytest.raises(vit.ShapeError, match=f"at least {needed} tokens, but got {needed - 1}"):
        head(torch.zeros(2, needed - 1, 8))


# The whole


@pytest.mark.parametrize("options", [{}, {"pre_norm": True}, {"distillation": True}])
def test_attention_maps_and_hidden_states_are_those_of_the_forward_pass(options):
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    model = small(**options).eval()
    encoder, seen, states = model.backbone.encoder, [], []
    for layer in encoder.layers:
        layer.attn.register_forward_hook(lambda attn, args, out: seen.append(attn.weights(*args)))
        layer.register_forward_hook(lambda layer, args, out: states.extend([*args, out]))
    logits = model(x)
    sequence, want, tokens = states[0], seen[:], [states[0], states[1], states[3]]
    for part, given in [(model, x), (model.backbone, x), (encoder, sequence)]:
        torch.testing.assert_close(vit.attention_maps(part, given), want)
        torch.testing.assert_close(vit.hidden_states(part, given), tokens)
    torch.testing.assert_close(model(x), logits)
    rows = torch.stack(want)
    assert rows.shape == (2, 2, 2, sequence.shape[1], sequence.shape[1]) and (rows >= 0).all()
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
    for function in (vit.attention_maps, vit.hidden_states):
        with pytest.raises(TypeError, match="ViTModel or ViTEncoder, but got ViTEmbedding"):
            function(model.backbone.embedding, x)


@pytest.mark.parametrize("head", [nn.Identity(), nn.Sequential(nn.Linear(8, 9), nn.ReLU())])
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_the_head_may_be_replaced_for_features_or_fine_tuning(head, pool):
    """Case 27."""
    model, x = small(pool=pool).float().eval(), torch.randn(2, 3, 16, 16)
    model.head.head = head
    z = model.backbone(x)
    torch.testing.assert_close(model(x), head(z[:, 0] if pool == "cls" else z[:, 1:].mean(1)))
    model.head = nn.Identity()
    torch.testing.assert_close(model(x), z)


def test_gradients_reach_every_parameter_through_every_pool():
    for options in ({}, {"pool": "mean"}, {"pool": "max"}, {"distillation": True}):
        model = small(**options).eval()
        model(torch.randn(2, 3, 16, 16, dtype=torch.float64)).square().sum().backward()
        for name, p in model.named_parameters():
            assert p.grad is not None and p.grad.abs().sum() > 0, name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_runs_in_half_precision_and_under_autocast(dtype):
    model = small().float().eval()
    x = torch.randn(2, 3, 16, 16)
    want = model(x)
    with torch.autocast("cpu", dtype):
        logits = model(x)
        assert {a.dtype for a in vit.attention_maps(model, x)} <= {dtype, torch.float32}
    assert logits.dtype == dtype
    torch.testing.assert_close(logits.float(), want, rtol=0.05, atol=0.05)
    out = model.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), want, rtol=0.05, atol=0.05)


def test_an_empty_batch_gives_no_logits():
    for pool in POOLS:
        model = small(pool=pool).eval()
        empty = torch.zeros(0, 3, 16, 16, dtype=torch.float64)
        assert model(empty).shape == (0, 5)
        with torch.no_grad():
            assert model(empty).shape == (0, 5)
