"""Attention and hidden states of other libraries are ours; test_vit_pretrained.py: logits."""

import pytest
import torch
from checkpoints import timm_model, torchvision_model, transformers_model

import dnnl.models.vit as vit

NEAR = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("name", ["ViTForImageClassification", "DeiTForImageClassification"])
def test_attention_and_hidden_states_are_those_of_transformers(name):
    """Learner question 25: of N + 1 hidden states the first is the input module's sequence."""
    theirs = transformers_model(name, attn_implementation="eager", layer_norm_eps=1e-6)
    model = vit.load_pretrained(theirs.state_dict(), num_heads=4, norm_eps=1e-6).eval()
    x = torch.randn(3, 3, 16, 16)
    want = theirs(x, output_attentions=True, output_hidden_states=True)
    maps, states = vit.attention_maps(model, x), vit.hidden_states(model, x)
    assert (len(maps), len(states)) == (3, 4)
    torch.testing.assert_close(maps, list(want.attentions), **NEAR)
    torch.testing.assert_close(states, list(want.hidden_states), **NEAR)
    torch.testing.assert_close(states[0], model.backbone.embedding(x))


@pytest.mark.parametrize(
    ("make", "layers"),
    [
        (timm_model, lambda m: m.blocks),
        (lambda: timm_model(reg_tokens=4), lambda m: m.blocks),
        (lambda: timm_model(distilled=True), lambda m: m.blocks),
        (torchvision_model, lambda m: m.encoder.layers),
    ],
    ids=["timm", "timm with registers", "timm distilled", "torchvision"],
)
def test_the_hidden_states_of_timm_and_torchvision_are_ours(make, layers):
    theirs, seen, x = make(), [], torch.randn(3, 3, 16, 16)
    model = vit.load_pretrained(theirs.state_dict(), num_heads=4).eval()
    for layer in layers(theirs):
        layer.register_forward_hook(lambda layer, args, out: seen.extend([args[0], out]))
    theirs(x)
    torch.testing.assert_close(vit.hidden_states(model, x), [seen[0], *seen[1::2]], **NEAR)
