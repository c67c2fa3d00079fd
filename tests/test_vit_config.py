"""The settings of a model in one place: equal, frozen, stored as JSON, and enough to build it."""

import dataclasses
import inspect
import json

import pytest
import torch
from torch import nn

import dnnl.models.vit as vit

SMALL = {"image_size": 16, "patch_size": 4, "num_classes": 5, "embed_dim": 8}
SMALL |= {"num_heads": 2, "num_layers": 1, "hidden_dim": 16}
OTHERS = {
    "image_size": (8, 24),
    "patch_size": (2, 4),
    "in_channels": 5,
    "num_classes": 7,
    "embed_dim": 12,
    "num_heads": 4,
    "num_layers": 2,
    "hidden_dim": 9,
    "dropout": 0.1,
    "attn_dropout": 0.2,
    "pool": "max",
    "distillation": True,
    "num_prefix_tokens": 3,
    "dynamic_image_size": True,
    "resize": "timm",
    "norm_eps": 1e-3,
    "activation": "quick_gelu",
    "pre_norm": True,
    "final_norm": False,
    "fc_norm": True,
}


def test_the_defaults_are_vit_b_16():
    assert vit.ViTConfig().to_dict() == {
        **{"image_size": (224, 224), "patch_size": (16, 16), "in_channels": 3, "num_classes": 1000},
        **{"embed_dim": 768, "num_heads": 12, "num_layers": 12, "hidden_dim": 3072},
        **{"dropout": 0.0, "attn_dropout": 0.0, "pool": "cls", "distillation": False},
        **{"num_prefix_tokens": 1, "dynamic_image_size": False, "resize": "hf-vit"},
        **{"norm_eps": 1e-6, "activation": "gelu"},
        **{"pre_norm": False, "final_norm": True, "fc_norm": False},
    }
    assert vit.ViTConfig(distillation=True).prefix == 2


@pytest.mark.parametrize("name", [n for n in vit.__all__ if n.startswith("ViT")])
def test_every_constructor_has_the_same_defaults(name):
    expected = {f.name: f.default for f in dataclasses.fields(vit.ViTConfig)}
    del expected["resize"], expected["num_prefix_tokens"]  # of other types in the parts
    if name == "ViTHybridPatchEmbedding":
        expected["patch_size"] = 1
    for p in inspect.signature(getattr(vit, name)).parameters.values():
        if p.name in expected and p.default is not p.empty:
            assert (p.name, p.default) == (p.name, expected[p.name])


@pytest.mark.parametrize(("name", "value"), OTHERS.items(), ids=OTHERS)
def test_every_setting_survives_json_and_reaches_the_model(name, value):
    assert set(OTHERS) == {f.name for f in dataclasses.fields(vit.ViTConfig)}
    config = vit.ViTConfig(**{**SMALL, name: value})
    assert config != vit.ViTConfig(**SMALL)
    assert len({config, vit.ViTConfig(**{**SMALL, name: value})}) == 1  # equal, and hashed alike
    again = vit.ViTConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    model = vit.ViTForImageClassification(**{**SMALL, name: value})
    assert model.config == config
    twin = vit.ViTForImageClassification.from_config(again)
    twin.load_state_dict(model.state_dict())
    assert repr(twin) == repr(model)
    x = torch.randn(2, config.in_channels, *config.image_size)
    torch.testing.assert_close(twin.eval()(x), model.eval()(x))
    backbone = vit.ViTModel.from_config(config)
    assert backbone.config == dataclasses.replace(config, num_classes=0)
    backbone.load_state_dict(model.backbone.state_dict())
    torch.testing.assert_close(backbone.eval()(x), model.backbone(x))
    assert repr(vit.ViTModel.from_config(backbone.config)) == repr(model.backbone)


def test_settings_that_have_no_shape_reach_their_modules():
    model = vit.ViTForImageClassification(**{**SMALL, "resize": "jax", "dynamic_image_size": True})
    assert model.backbone.embedding.pos_embed.resize == "jax"
    assert model.backbone.embedding.dynamic_image_size
    x = torch.randn(1, 3, 8, 24)
    other = vit.ViTForImageClassification(**{**SMALL, "dynamic_image_size": True})
    other.load_state_dict(model.state_dict())
    assert not torch.allclose(other.eval()(x), model.eval()(x), atol=1e-5)
    assert model.preprocess is None and model.labels == ()


def test_a_config_cannot_be_changed_and_equal_settings_are_equal():
    config = vit.ViTConfig(image_size=32, patch_size=[8, 8], distillation=True)
    assert config == vit.ViTConfig(
        image_size=(32, 32), patch_size=8, distillation=True, num_prefix_tokens=2
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.embed_dim = 8


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"image_size": 0}, vit.ShapeError, "image_size of at least 1, but got 0"),
        ({"image_size": 10**12}, vit.ShapeError, "image_size of at most"),
        ({"patch_size": (4, 4, 4)}, vit.ShapeError, r"patch_size as \(height, width\)"),
        ({"num_heads": 0}, vit.ShapeError, "num_heads of at least 1"),
        ({"in_channels": 0}, vit.ShapeError, "in_channels of at least 1"),
        ({"embed_dim": "8"}, vit.DTypeError, "an integer as embed_dim, but got '8'"),
        ({"hidden_dim": True}, vit.DTypeError, "an integer as hidden_dim, but got True"),
        ({"num_layers": -1}, vit.ShapeError, "num_layers of at least 0, but got -1"),
        ({"num_classes": -1}, vit.ShapeError, "num_classes of at least 0, but got -1"),
        ({"num_prefix_tokens": -1}, vit.ShapeError, "num_prefix_tokens of at least 0"),
        ({"image_size": 225}, vit.ShapeError, "divisible by the patch size 16×16"),
        ({"num_heads": 7}, vit.ShapeError, "embed_dim divisible by 7 heads"),
        ({"norm_eps": "1e-6"}, ValueError, "norm_eps as a number of at least 0, but got '1e-6'"),
        ({"dropout": float("nan")}, ValueError, "dropout as a number of at least 0"),
        ({"pre_norm": "no"}, ValueError, "pre_norm as True or False, but got 'no'"),
        ({"pool": ["cls"]}, ValueError, "pool to be one of cls, mean, max"),
        ({"resize": "hugging"}, ValueError, "resize to be one of timm, .*siglip2, but got 'hugg"),
    ],
)
def test_settings_out_of_range_are_refused(settings, error, message):
    for make in (vit.ViTConfig, vit.ViTForImageClassification):
        with pytest.raises(error, match=message):
            make(**settings)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="Unknown settings of ViTConfig: depth, heads"):
        vit.ViTConfig.from_dict({"heads": 3, "depth": 2, "embed_dim": 8})
    for kind in (vit.ViTModel, vit.ViTForImageClassification):
        with pytest.raises(TypeError, match="depth"):
            kind(depth=2)


def test_a_model_may_have_no_layers_and_no_prefix():
    model = vit.ViTModel(16, 4, 3, 8, 2, 0, 16, num_prefix_tokens=0, final_norm=False)
    x = torch.randn(1, 3, 16, 16)
    torch.testing.assert_close(model(x), model.embedding(x))
    assert isinstance(model.embedding.add_cls_token, nn.Identity)
