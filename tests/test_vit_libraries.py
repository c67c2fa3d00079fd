"""Whole models of timm, transformers and torchvision with our names give the same logits."""

import re

import pytest
import torch
from checkpoints import shaken
from peers import peer

import dnnl.models.vit as vit

SIZE = {"embed_dim": 16, "num_heads": 4, "num_layers": 3, "hidden_dim": 32}


def renamed(state, names):
    """Return the state with every name replaced by the first pattern that is its whole."""
    out = {}
    for name, value in state.items():
        for pattern, ours in names.items():
            if match := re.fullmatch(pattern, name):
                out[match.expand(ours)] = value
                break
        else:
            raise KeyError(f"no name of ours for {name}")
    return out


EMBEDDING = "backbone.embedding."
LAYER = r"backbone.encoder.layers.\1."

TIMM = {
    r"cls_token": EMBEDDING + "add_cls_token.cls_token",
    r"pos_embed": EMBEDDING + "pos_embed.pos_embed",
    r"patch_embed\.(.*)": EMBEDDING + r"patch_embed.\1",
    r"blocks\.(\d+)\.mlp\.fc1\.(.*)": LAYER + r"mlp.net.0.\2",
    r"blocks\.(\d+)\.mlp\.fc2\.(.*)": LAYER + r"mlp.net.3.\2",
    r"blocks\.(\d+)\.(.*)": LAYER + r"\2",
    r"norm\.(.*)": r"backbone.encoder.norm.\1",
    r"(head|head_dist)\.(.*)": r"head.\1.\2",
}


def timm_state(model):
    """Return a timm model's state with our names; its prefix tokens become one parameter."""
    state = dict(model.state_dict())
    prefix = [state.pop(name) for name in ("cls_token", "dist_token", "reg_token") if name in state]
    if prefix:
        state["cls_token"] = torch.cat(prefix, dim=1)
    if getattr(model, "no_embed_class", False):  # its table has no rows for the prefix: zeros
        state["pos_embed"] = torch.nn.functional.pad(
            state["pos_embed"], (0, 0, model.num_prefix_tokens, 0)
        )
    return renamed(state, TIMM)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({}, {}),
        ({"in_chans": 5}, {"in_channels": 5}),
        ({"reg_tokens": 4}, {"num_prefix_tokens": 5}),
        ({"reg_tokens": 4, "no_embed_class": True}, {"num_prefix_tokens": 5}),
        ({"global_pool": "avg", "fc_norm": False}, {"pool": "mean"}),
        ({"global_pool": "max", "fc_norm": False}, {"pool": "max"}),
        (
            {"global_pool": "avg", "fc_norm": False, "class_token": False},
            {"pool": "mean", "num_prefix_tokens": 0},
        ),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_model_of_timm_gives_our_logits(theirs, ours):
    timm = peer("timm.models.vision_transformer")
    their_model = shaken(
        timm.VisionTransformer(
            img_size=(12, 32),
            patch_size=(4, 8),
            num_classes=7,
            embed_dim=16,
            depth=3,
            num_heads=4,
            mlp_ratio=2,
            **theirs,
        )
    )
    our_model = vit.ViTForImageClassification((12, 32), (4, 8), num_classes=7, **SIZE, **ours)
    our_model.load_state_dict(timm_state(their_model))
    x = torch.randn(3, theirs.get("in_chans", 3), 12, 32)
    our_model.eval()
    torch.testing.assert_close(our_model.backbone(x), their_model.forward_features(x))
    torch.testing.assert_close(our_model(x), their_model(x), rtol=1e-4, atol=1e-4)


def test_a_distilled_model_of_timm_gives_our_logits_in_training_and_in_eval():
    timm = peer("timm.models.deit")
    theirs = shaken(
        timm.VisionTransformerDistilled(
            img_size=16,
            patch_size=4,
            num_classes=7,
            embed_dim=16,
            depth=3,
            num_heads=4,
            mlp_ratio=2,
        )
    )
    ours = vit.ViTForImageClassification(16, 4, num_classes=7, distillation=True, **SIZE)
    ours.load_state_dict(timm_state(theirs))
    x = torch.randn(3, 3, 16, 16)
    torch.testing.assert_close(ours.eval()(x), theirs(x), rtol=1e-4, atol=1e-4)
    theirs.set_distilled_training(True)
    for out, want in zip(ours.train()(x), theirs.train()(x), strict=True):
        torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-4)


TORCHVISION = {
    r"class_token": EMBEDDING + "add_cls_token.cls_token",
    r"conv_proj\.(.*)": EMBEDDING + r"patch_embed.proj.\1",
    r"encoder\.pos_embedding": EMBEDDING + "pos_embed.pos_embed",
    r"encoder\.layers\.encoder_layer_(\d+)\.ln_1\.(.*)": LAYER + r"norm1.\2",
    r"encoder\.layers\.encoder_layer_(\d+)\.ln_2\.(.*)": LAYER + r"norm2.\2",
    r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_(.*)": LAYER + r"attn.qkv.\2",
    r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.(.*)": LAYER
    + r"attn.proj.\2",
    r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(\d)\.(.*)": LAYER + r"mlp.net.\2.\3",
    r"encoder\.ln\.(.*)": r"backbone.encoder.norm.\1",
    r"heads\.head\.(.*)": r"head.head.\1",
}


def test_a_model_of_torchvision_gives_our_logits():
    models = peer("torchvision.models.vision_transformer")
    theirs = shaken(
        models.VisionTransformer(
            image_size=16,
            patch_size=4,
            num_layers=3,
            num_heads=4,
            hidden_dim=16,
            mlp_dim=32,
            num_classes=7,
        )
    )
    ours = vit.ViTForImageClassification(16, 4, num_classes=7, **SIZE).eval()
    ours.load_state_dict(renamed(theirs.state_dict(), TORCHVISION))
    x = torch.randn(3, 3, 16, 16)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


TRANSFORMERS = {
    r"vit\.embeddings\.cls_token": EMBEDDING + "add_cls_token.cls_token",
    r"vit\.embeddings\.position_embeddings": EMBEDDING + "pos_embed.pos_embed",
    r"vit\.embeddings\.patch_embeddings\.projection\.(.*)": EMBEDDING + r"patch_embed.proj.\1",
    r"vit\.layers\.(\d+)\.layernorm_before\.(.*)": LAYER + r"norm1.\2",
    r"vit\.layers\.(\d+)\.layernorm_after\.(.*)": LAYER + r"norm2.\2",
    r"vit\.layers\.(\d+)\.attention\.qkv\.(.*)": LAYER + r"attn.qkv.\2",
    r"vit\.layers\.(\d+)\.attention\.o_proj\.(.*)": LAYER + r"attn.proj.\2",
    r"vit\.layers\.(\d+)\.mlp\.fc1\.(.*)": LAYER + r"mlp.net.0.\2",
    r"vit\.layers\.(\d+)\.mlp\.fc2\.(.*)": LAYER + r"mlp.net.3.\2",
    r"vit\.layernorm\.(.*)": r"backbone.encoder.norm.\1",
    r"classifier\.(.*)": r"head.head.\1",
}


def transformers_state(model):
    """Return a transformers model's state with our names; its three projections become one."""
    state, joined = dict(model.state_dict()), {}
    for name in list(state):
        if match := re.fullmatch(r"(.*attention)\.q_proj\.(.*)", name):
            parts = [state.pop(f"{match[1]}.{p}_proj.{match[2]}") for p in "qkv"]
            joined[f"{match[1]}.qkv.{match[2]}"] = torch.cat(parts)
    return renamed({**state, **joined}, TRANSFORMERS)


def transformers_pair():
    transformers = peer("transformers")
    config = transformers.ViTConfig(
        image_size=16,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=32,
        num_labels=7,
        layer_norm_eps=1e-6,
        attn_implementation="eager",
    )
    theirs = shaken(transformers.ViTForImageClassification(config))
    ours = vit.ViTForImageClassification(16, 4, num_classes=7, dynamic_image_size=True, **SIZE)
    ours.load_state_dict(transformers_state(theirs))
    return ours.eval(), theirs


def test_a_model_of_transformers_gives_our_logits_and_our_attention():
    ours, theirs = transformers_pair()
    x = torch.randn(3, 3, 16, 16)
    want = theirs(x, output_attentions=True)
    logits, attention = ours(x, return_attention=True)
    torch.testing.assert_close(ours(x), want.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits, want.logits, rtol=1e-4, atol=1e-4)
    assert len(attention) == len(want.attentions) == 3
    for weights, theirs_weights in zip(attention, want.attentions, strict=True):
        torch.testing.assert_close(weights, theirs_weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(16, 32), (24, 24), (8, 12)])
def test_a_model_of_transformers_gives_our_logits_at_other_sizes(size):
    ours, theirs = transformers_pair()
    x = torch.randn(2, 3, *size)
    want = theirs(x, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(ours(x), want, rtol=1e-4, atol=1e-4)


def test_the_sequence_of_transformers_is_ours_before_the_encoder():
    """Learner question 25: of N + 1 hidden states the first is the input module's sequence."""
    ours, theirs = transformers_pair()
    x = torch.randn(2, 3, 16, 16)
    hidden = theirs(x, output_hidden_states=True).hidden_states
    assert len(hidden) == 4  # for three layers
    torch.testing.assert_close(ours.backbone.embedding(x), hidden[0])
