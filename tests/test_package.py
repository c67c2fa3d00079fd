"""The package: what it exports, what its import costs, and code written for its model."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import dnnl
import dnnl.models.vit as vit

PACKAGE = Path(dnnl.__file__).parent
REQUIRED = inspect.Parameter.empty


def test_the_version_is_a_version_and_the_types_are_marked():
    assert re.fullmatch(r"\d+\.\d+\.\d+", dnnl.__version__)
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("module", [dnnl, vit])
def test_what_is_exported_exists_is_sorted_and_documented(module):
    assert list(module.__all__) == sorted(module.__all__)
    for name in module.__all__:
        thing = getattr(module, name)
        if callable(thing):
            assert thing.__doc__, name


@pytest.mark.parametrize("name", [n for n in vit.__all__ if n.startswith("ViT")])
def test_every_public_method_says_what_it_does(name):
    for method, function in vars(getattr(vit, name)).items():
        if inspect.isfunction(function) and not method.startswith("_"):
            assert function.__doc__, f"{name}.{method}"


def test_the_import_adds_nothing_to_torch_but_our_own_modules():
    """A model that is to run anywhere imports torch; figures and explorers come when asked."""
    code = (
        "import json, sys, torch; before = set(sys.modules); import dnnl.models.vit;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True
    )
    added = json.loads(done.stdout)
    assert "dnnl.models.vit" in added
    assert [m for m in added if m.partition(".")[0] != "dnnl"] == []
    beside = [m for m in added if not m.startswith("dnnl.models") and m != "dnnl"]
    assert beside == ["dnnl._device"]


def test_the_import_works_where_nothing_but_torch_can_be_imported():
    code = """
import sys, torch
for absent in ("matplotlib", "ipywidgets", "anywidget", "IPython", "skimage", "PIL"):
    sys.modules[absent] = None  # an import of it raises
import dnnl.models.vit as vit
print(vit.ViTEmbedding(32, 8, 3, 64)(torch.zeros(2, 3, 32, 32)).shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.stdout.strip() == "torch.Size([2, 17, 64])", done.stderr


# Code written for the notes' own package runs with only the import changed. These are its
# constructors, argument by argument, in the order in which they may be given.

IMAGE = {"image_size": 224, "patch_size": 16, "in_channels": 3}
DROPOUTS = {"dropout": 0.0, "attn_dropout": 0.0}
CONSTRUCTORS = {
    "ViTLinearPatchEmbedding": {**IMAGE, "embed_dim": 768},
    "ViTConvPatchEmbedding": {**IMAGE, "embed_dim": 768},
    "ViTAddClassToken": {"embed_dim": REQUIRED},
    "ViTPositionalEmbedding": {
        "embed_dim": REQUIRED,
        "num_patches": REQUIRED,
        "use_cls_token": True,
    },
    "ViTEmbedding": {**IMAGE, "embed_dim": 768, "dropout": 0.0},
    "ViTMLP": {"embed_dim": 768, "hidden_dim": 3072, "dropout": 0.0},
    "ViTEncoderLayer": {"embed_dim": 768, "num_heads": 12, "hidden_dim": 3072, **DROPOUTS},
    "ViTEncoder": {
        "embed_dim": 768,
        "num_heads": 12,
        "num_layers": 12,
        "hidden_dim": 3072,
        **DROPOUTS,
    },
    "ViTModel": {
        **IMAGE,
        "embed_dim": 768,
        "num_heads": 12,
        "num_layers": 12,
        "hidden_dim": 3072,
        **DROPOUTS,
    },
    "ViTClassificationHead": {"embed_dim": REQUIRED, "num_classes": REQUIRED},
    "ViTForImageClassification": {
        **IMAGE,
        "num_classes": 1000,
        "embed_dim": 768,
        "num_heads": 12,
        "num_layers": 12,
        "hidden_dim": 3072,
        **DROPOUTS,
    },
    "patchify": {"x": REQUIRED, "patch_size": REQUIRED},
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_arguments_have_the_names_order_and_defaults_of_the_notes(name):
    parameters = list(inspect.signature(getattr(vit, name)).parameters.values())
    expected = CONSTRUCTORS[name]
    first = parameters[: len(expected)]
    assert {p.name: p.default for p in first} == expected
    assert [p.name for p in first] == list(expected)
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in first)
    rest = [p for p in parameters[len(expected) :] if p.kind is not p.VAR_KEYWORD]
    assert all(p.default is not REQUIRED for p in rest)


@pytest.mark.parametrize(
    "function", [vit.ViTPositionalEmbedding.interpolate, vit.ViTEmbedding.interpolate_pos_embedding]
)
def test_resizing_takes_the_old_grid_and_the_new_one(function):
    names = list(inspect.signature(function).parameters)
    assert names[:3] == ["self", "old_grid_size", "new_grid_size"]


def test_attributes_that_the_notes_show_are_there():
    model = vit.ViTForImageClassification(32, 8, 3, 10, 64, 4, 2, 128)
    embedding = model.backbone.embedding
    assert embedding.patch_embed.num_patches == 16
    assert embedding.pos_embed.use_cls_token is True
    assert embedding.pos_embed.pos_embed.shape == (1, 17, 64)
    assert embedding.add_cls_token.cls_token.shape == (1, 1, 64)
    layer = model.backbone.encoder.layers[0]
    for part in ("norm1", "attn", "dropout1", "norm2", "mlp"):
        assert isinstance(getattr(layer, part), torch.nn.Module)
    assert isinstance(layer.mlp.net, torch.nn.Sequential)
    assert isinstance(model.backbone.encoder.norm, torch.nn.LayerNorm)
    assert isinstance(model.head.head, torch.nn.Linear)


def test_a_state_of_the_notes_input_module_loads_unchanged():
    state = {
        "patch_embed.proj.weight": torch.randn(64, 3, 8, 8),
        "patch_embed.proj.bias": torch.randn(64),
        "add_cls_token.cls_token": torch.randn(1, 1, 64),
        "pos_embed.pos_embed": torch.randn(1, 17, 64),
    }
    module = vit.ViTEmbedding(image_size=32, patch_size=8, in_channels=3, embed_dim=64)
    assert list(module.state_dict()) == list(state)
    module.load_state_dict(state)
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    linear = vit.ViTLinearPatchEmbedding(32, 8, 3, 64)
    assert {k: v.shape for k, v in linear.state_dict().items()} == {
        "proj.weight": (64, 192),
        "proj.bias": (64,),
    }


def test_errors_of_the_notes_are_caught_as_they_were():
    with pytest.raises(AssertionError):
        vit.ViTConvPatchEmbedding(image_size=30, patch_size=8)
    with pytest.raises(AssertionError):
        vit.patchify(torch.zeros(1, 3, 30, 32), 8)
    with pytest.raises(AssertionError, match="Expected sequence length 17, but got 16"):
        vit.ViTPositionalEmbedding(8, 16)(torch.zeros(1, 16, 8))
    with pytest.raises(AssertionError, match="Expected old grid with 16 patches"):
        vit.ViTPositionalEmbedding(8, 16).interpolate((3, 3), (4, 4))
