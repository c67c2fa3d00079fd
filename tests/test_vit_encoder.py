"""What reads the sequence: attention, encoder, heads and the whole model."""

import pytest
import torch
from torch import nn

import dnnl.models.vit as vit


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
    out, weights = attention(x, return_attention=True)
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(weights, torch.stack(maps, dim=1))


def test_attention_is_that_of_torch():
    ours = shaken(vit.ViTSelfAttention(8, 2)).double()
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias)
        theirs.out_proj.weight.copy_(ours.proj.weight)
        theirs.out_proj.bias.copy_(ours.proj.bias)
    x = tokens()
    want, weights = theirs(x, x, x, average_attn_weights=False)
    out, ours_weights = ours(x, return_attention=True)
    torch.testing.assert_close(ours(x), want)
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(ours_weights, weights)


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
    out, weights = attention(x, return_attention=True)
    torch.testing.assert_close(out, nothing)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))  # those before dropout
    assert not torch.allclose(attention.eval()(x), nothing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((8, 3), r"embed_dim divisible by 3 heads, but got 8"),
        ((8, 0), r"num_heads of at least 1, but got 0"),
        ((8, -2), r"num_heads of at least 1, but got -2"),
        ((0, 1), r"embed_dim of at least 1, but got 0"),
        (("8", 1), r"a whole number as embed_dim, but got '8'"),
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
    assert [n for n, _ in model.backbone.named_children()] == ["embedding", "encoder"]
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
    model = small(norm_eps=1e-3)
    norms = [m.eps for m in model.modules() if isinstance(m, nn.LayerNorm)]
    assert norms == [1e-3] * 5


# What 11.3.4 rests on


def test_the_encoder_is_equivariant_to_a_permutation_of_its_tokens():
    encoder = shaken(vit.ViTEncoder(8, 2, 2, 16)).double()
    x = tokens(length=7)
    order = torch.tensor([0, 4, 2, 6, 1, 5, 3])  # the class token stays in front
    torch.testing.assert_close(encoder(x[:, order]), encoder(x)[:, order])
    torch.testing.assert_close(encoder(x[:, order])[:, 0], encoder(x)[:, 0])


def test_without_positions_a_model_cannot_see_an_arrangement_and_with_them_it_can():
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    swapped = torch.cat([x[:, :, 8:], x[:, :, :8]], dim=2)  # top and bottom halves
    for pool in ("cls", "mean", "max"):
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


def test_normalising_before_or_after_picking_the_class_token_is_the_same():
    """Learner question 41; for the mean it is not."""
    layer_norm = shaken(nn.LayerNorm(8)).double()
    x = tokens()
    assert torch.equal(layer_norm(x)[:, 0], layer_norm(x[:, 0]))
    assert not torch.allclose(layer_norm(x).mean(1), layer_norm(x.mean(1)), atol=1e-2)


@pytest.mark.parametrize(("deviation", "amplified"), [(0.0, 1000), (0.02, 50)])
def test_a_norm_amplifies_the_gradient_of_a_token_near_zero(deviation, amplified):
    """Surprise S4: by 1 / sqrt(eps) at zero, about 1 / 0.02 at the usual start."""
    layer_norm = vit.ViTEncoderLayer(768, 12).norm1
    token = (deviation * torch.randn(768)).requires_grad_()
    g = torch.randn(768)
    layer_norm(token).backward(g)
    assert abs((token.grad.norm() / g.norm()).item() / amplified - 1) < 0.1


def test_distillation_gives_both_in_training_and_their_average_in_eval():
    head = vit.ViTClassificationHead(8, 3, num_prefix_tokens=2, distillation=True).double()
    x = tokens()
    first = x[:, 0] @ head.head.weight.T + head.head.bias
    second = x[:, 1] @ head.head_dist.weight.T + head.head_dist.bias
    logits, taught = head.train()(x)
    torch.testing.assert_close(logits, first)
    torch.testing.assert_close(taught, second)
    torch.testing.assert_close(head.eval()(x), (first + second) / 2)


def test_a_distilled_model_has_two_prefix_tokens():
    model = small(distillation=True)
    embedding = model.backbone.embedding
    assert embedding.add_cls_token.cls_token.shape == (1, 2, 8)
    assert embedding.pos_embed.pos_embed.shape == (1, 18, 8)
    logits, taught = model.train()(torch.zeros(2, 3, 16, 16, dtype=torch.float64))
    assert logits.shape == taught.shape == (2, 5)


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
        ({"pool": "gap"}, ValueError, "a pool out of cls, mean, max, but got 'gap'"),
        ({"pool": "mean", "distillation": True}, ValueError, "pool='cls' with distillation"),
        ({"num_prefix_tokens": 0}, vit.ShapeError, "num_prefix_tokens of at least 1, but got 0"),
        ({"distillation": True}, vit.ShapeError, "num_prefix_tokens of at least 2, but got 1"),
    ],
)
def test_heads_with_nothing_to_read_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        vit.ViTClassificationHead(8, 3, **options)


@pytest.mark.parametrize("pool", ["cls", "mean", "max"])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 5, 7), r"tokens of width 8, but got 7"),
        (torch.zeros(2, 8), r"tokens of shape \(B, N, D\), but got \(2, 8\)"),
        (torch.zeros(2, 0, 8), r"at least (1|2) tokens, but got 0"),
        (torch.zeros(2, 5, 8, dtype=torch.float64), r"torch.float32.*but got torch.float64"),
        (torch.zeros(2, 5, 8, dtype=torch.int64), r"floating-point tokens, but got torch.int64"),
    ],
)
def test_a_head_refuses_what_it_cannot_read(pool, x, message):
    with pytest.raises(vit.ShapeError, match=message):
        vit.ViTClassificationHead(8, 3, pool=pool)(x)


@pytest.mark.parametrize("part", [vit.ViTSelfAttention, vit.ViTEncoderLayer, vit.ViTEncoder])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 5, 7), r"tokens of width 8, but got 7"),
        (torch.zeros(5, 8), r"tokens of shape \(B, N, D\), but got \(5, 8\)"),
        (torch.zeros(2, 5, 8, dtype=torch.float64), r"torch.float32.*but got torch.float64"),
        (torch.zeros(2, 5, 8, dtype=torch.bfloat16), r"torch.float32.*but got torch.bfloat16"),
        (torch.zeros(2, 5, 8, dtype=torch.int64), r"floating-point tokens, but got torch.int64"),
    ],
)
def test_attention_and_encoder_refuse_what_they_cannot_read(part, x, message):
    with pytest.raises(vit.ShapeError, match=message):
        part(8, 2)(x)


# The whole


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("part", ["layer", "encoder", "model", "classifier", "distilled"])
def test_attention_comes_on_request_and_changes_no_other_output(part, training):
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    model = small(distillation=part == "distilled").train(training)
    sequence = model.backbone.embedding(x)
    module, given = {
        "layer": (model.backbone.encoder.layers[0], sequence),
        "encoder": (model.backbone.encoder, sequence),
        "model": (model.backbone, x),
        "classifier": (model, x),
        "distilled": (model, x),
    }[part]
    out, attention = module(given, return_attention=True)
    torch.testing.assert_close(out, module(given))
    attention = [attention] if part == "layer" else attention
    assert len(attention) == (1 if part == "layer" else 2)
    length = sequence.shape[1]
    for weights in attention:
        assert weights.shape == (2, 2, length, length)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert (weights >= 0).all()


def test_gradients_reach_every_parameter_through_every_pool():
    for options in ({}, {"pool": "mean"}, {"pool": "max"}, {"distillation": True}):
        model = small(**options).eval()
        model(torch.randn(2, 3, 16, 16, dtype=torch.float64)).square().sum().backward()
        for name, p in model.named_parameters():
            assert p.grad is not None and p.grad.abs().sum() > 0, name


def test_a_short_training_learns_what_the_class_token_must_collect():
    model = vit.ViTForImageClassification(8, 4, 1, 2, 16, 2, 1, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    labels = torch.arange(32) % 2
    x = torch.randn(32, 1, 8, 8) * 0.1
    x[labels == 1, :, 4:, 4:] += 1  # bright in the last patch
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_runs_in_half_precision_and_under_autocast(dtype):
    model = small().float().eval()
    x = torch.randn(2, 3, 16, 16)
    want = model(x)
    with torch.autocast("cpu", dtype):
        logits, attention = model(x, return_attention=True)
        torch.testing.assert_close(model(x).float(), want, rtol=0.05, atol=0.05)
    assert logits.dtype == dtype
    assert len(attention) == 2
    out = model.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), want, rtol=0.05, atol=0.05)


def test_an_empty_batch_gives_no_logits():
    for pool in ("cls", "mean", "max"):
        model = small(pool=pool).eval()
        empty = torch.zeros(0, 3, 16, 16, dtype=torch.float64)
        assert model(empty).shape == (0, 5)
        with torch.no_grad():
            assert model(empty).shape == (0, 5)


def test_a_dynamic_model_reads_other_sizes_and_a_static_one_refuses():
    model = small(dynamic_image_size=True).eval()
    assert model(torch.zeros(2, 3, 8, 24, dtype=torch.float64)).shape == (2, 5)
    with pytest.raises(vit.ShapeError, match="16×16, but got 8×24"):
        small()(torch.zeros(2, 3, 8, 24, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its own vmap
def test_functional_calls_and_per_sample_gradients_work():
    model = small().eval()
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)

    def loss(parameters, image):
        return torch.func.functional_call(model, parameters, (image[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    model(x).square().sum().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(each[name].sum(0), p.grad)
