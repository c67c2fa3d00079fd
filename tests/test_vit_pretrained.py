"""Real models of timm, transformers, torchvision and JAX give their own logits once loaded."""

import json
import math
import random
import re
import warnings

import numpy as np
import pytest
import torch
from checkpoints import (
    CLASSES,
    jax_arrays,
    shaken,
    timm_at,
    timm_from_npz,
    timm_model,
    torchvision_at,
    torchvision_model,
    transformers_model,
)
from peers import peer
from safetensors.torch import save_file
from scipy import ndimage

import dnnl.models.vit as vit

SIZES = [(16, 16), (24, 24), (16, 32), (8, 12)]


def assert_same(ours, theirs, *size, batch=2, channels=3):
    x = torch.randn(batch, channels, *size)
    out = theirs(x)
    got, want = ours(x), getattr(out, "logits", out)
    assert got.shape == want.shape == (batch, CLASSES)
    assert want.std() > 0.1  # there is something to compare
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


TIMM = {
    "plain": {},
    "distilled": {"distilled": True},
    "no_embed_class": {"no_embed_class": True},
    "registers": {"reg_tokens": 4},
    "registers, no_embed_class": {"reg_tokens": 4, "no_embed_class": True},
    "no class token": {"class_token": False, "global_pool": "avg"},
    "no class token, no fc_norm": {"class_token": False, "global_pool": "avg", "fc_norm": False},
    "mean and fc_norm": {"global_pool": "avg"},
    "registers and mean": {"class_token": False, "reg_tokens": 4, "global_pool": "avg"},
    "registers alone": {
        "class_token": False,
        "reg_tokens": 4,
        "global_pool": "avg",
        "fc_norm": False,
    },
    "layer scale": {"init_values": 0.1, "no_embed_class": True},  # DeiT III
    "no bias of qkv": {"qkv_bias": False},
    "five channels": {"in_chans": 5},
}


@pytest.mark.parametrize("options", TIMM.values(), ids=TIMM)
@pytest.mark.parametrize("size", SIZES)
def test_a_model_of_timm_gives_its_logits(options, size):
    native = timm_model(**options)
    theirs = native if size == (16, 16) else timm_at(size, native.state_dict(), **options)
    ours = vit.load_pretrained(native.state_dict(), image_size=size, num_heads=4)
    assert isinstance(ours, vit.ViTForImageClassification) and not ours.training
    assert_same(ours, theirs, *size, channels=options.get("in_chans", 3))


def test_the_pool_of_timm_can_be_given_as_a_keyword():
    for theirs, ours in {"max": "max", "avg": "mean"}.items():
        model = timm_model(global_pool=theirs, fc_norm=False)
        assert_same(vit.load_pretrained(model.state_dict(), num_heads=4, pool=ours), model, 16, 16)


def test_a_deit_of_facebook_with_its_wrapper_and_names_is_one_of_timm():
    model = timm_model(init_values=0.1, no_embed_class=True)
    state = {
        re.sub(r"ls([12])\.gamma", r"gamma_\1", "module." + name): value
        for name, value in model.state_dict().items()
    }
    ours = vit.load_pretrained({"model": state, "epoch": 300}, num_heads=4)
    assert_same(ours, model, 16, 16)


@pytest.mark.parametrize("distilled", [False, True])
def test_a_non_square_checkpoint_of_timm_says_its_grid(distilled):
    native = timm_model((8, 24), distilled)
    with pytest.raises(vit.CheckpointError, match="grid_size"):
        vit.load_pretrained(native.state_dict(), num_heads=4)
    ours = vit.load_pretrained(native.state_dict(), num_heads=4, grid_size=(2, 6))
    assert_same(ours, native, 8, 24)
    other = peer("timm.models.vision_transformer").checkpoint_filter_fn
    theirs = timm_model((16, 16), distilled)
    theirs.pretrained_cfg = {"input_size": (3, 8, 24)}
    state = dict(native.state_dict())
    state["pos_embed"] = peer("timm.layers").resample_abs_pos_embed(
        state["pos_embed"], (4, 4), (2, 6), num_prefix_tokens=1 + distilled
    )
    theirs.load_state_dict(other(state, theirs))
    ours = vit.load_pretrained(
        native.state_dict(), num_heads=4, grid_size=(2, 6), image_size=(16, 16)
    )
    assert_same(ours, theirs, 16, 16)


HF = {
    "ViT": ("ViTForImageClassification", {}),
    "ViT, eps 0.01": ("ViTForImageClassification", {"layer_norm_eps": 1e-2}),
    "ViT, tanh": ("ViTForImageClassification", {"hidden_act": "gelu_new"}),
    "ViT, ReLU": ("ViTForImageClassification", {"hidden_act": "relu"}),
    "ViT, no bias of qkv": ("ViTForImageClassification", {"qkv_bias": False}),
    "DeiT": ("DeiTForImageClassification", {}),
    "DeiT, distilled": ("DeiTForImageClassificationWithTeacher", {}),
}


@pytest.mark.parametrize(("name", "options"), HF.values(), ids=HF)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "saved"])
def test_a_model_of_transformers_gives_its_logits(name, options, size, saved, tmp_path):
    theirs = transformers_model(name, **options)
    if saved:
        theirs.save_pretrained(tmp_path)  # other names on disk than in memory
        ours = vit.load_pretrained(tmp_path, image_size=size)
    else:
        config = theirs.config.to_dict()
        ours = vit.load_pretrained(theirs.state_dict(), image_size=size, config=config)
    assert_same(ours, lambda x: theirs(x, interpolate_pos_encoding=True), *size)


def test_a_large_model_of_transformers_in_several_files_loads(tmp_path):
    theirs = transformers_model()
    theirs.save_pretrained(tmp_path, max_shard_size="4kB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_same(vit.load_pretrained(tmp_path), theirs, 16, 16)
    next(tmp_path.glob("*00002*.safetensors")).unlink()  # half a download
    with pytest.raises(vit.CheckpointError, match="missing"):
        vit.load_pretrained(tmp_path)


@pytest.mark.parametrize("size", [16, 24, 12])
@pytest.mark.parametrize("released", [False, True])
def test_a_model_of_torchvision_gives_its_logits(size, released):
    native = torchvision_model()
    theirs = native if size == 16 else torchvision_at(size, native.state_dict())
    state = native.state_dict()
    if released:  # the names of the released files, which torchvision renames as it loads
        state = {
            re.sub(r"mlp\.([03])\.", lambda m: f"mlp.linear_{int(m[1]) // 3 + 1}.", name): value
            for name, value in state.items()
        }
        assert any("linear_2" in name for name in state)
    assert_same(vit.load_pretrained(state, image_size=size, num_heads=4), theirs, size, size)


JAX = {
    "original": ({}, {}),
    "opt/target": ({"prefix": "opt/target/"}, {}),
    "no class token": (
        {"class_token": False},
        {"class_token": False, "global_pool": "avg", "fc_norm": False},
    ),
    "big_vision": (
        {"big_vision": True, "class_token": False, "prefix": "params/"},
        {"class_token": False, "global_pool": "avg", "fc_norm": False},
    ),
    "big_vision, class token": ({"big_vision": True}, {"no_embed_class": True}),
}


@pytest.mark.parametrize(("arrays", "options"), JAX.values(), ids=JAX)
@pytest.mark.parametrize("size", SIZES)
def test_an_npz_of_jax_gives_the_logits_that_timm_reads_from_it(arrays, options, size, tmp_path):
    made = jax_arrays(**arrays)
    np.savez(tmp_path / "native.npz", **made)
    grid = (size[0] // 4, size[1] // 4)
    table = next(name for name in made if name.endswith("pos_embedding"))
    rows = made[table].shape[1] - 16
    patches = made[table][0, rows:].reshape(4, 4, 16)
    zoomed = ndimage.zoom(patches, (grid[0] / 4, grid[1] / 4, 1), order=1)  # as its own code does
    made[table] = np.concatenate([made[table][:, :rows], zoomed.reshape(1, -1, 16)], axis=1)
    np.savez(tmp_path / "zoomed.npz", **made)
    theirs = timm_from_npz(tmp_path / "zoomed.npz", size, **options)
    ours = vit.load_pretrained(tmp_path / "native.npz", image_size=size)
    assert_same(ours, theirs, *size)


def test_the_gelu_of_flax_can_be_given_as_a_keyword(tmp_path):
    np.savez(tmp_path / "x.npz", **jax_arrays())
    theirs = timm_from_npz(tmp_path / "x.npz", act_layer="gelu_tanh")
    ours = vit.load_pretrained(tmp_path / "x.npz", activation="gelu_tanh")
    assert_same(ours, theirs, 16, 16)
    x = torch.randn(2, 3, 16, 16)
    assert (vit.load_pretrained(tmp_path / "x.npz")(x) - theirs(x)).abs().max() > 1e-4


def test_an_npz_in_bfloat16_and_in_fortran_order_reads_as_it_is(tmp_path):
    made = jax_arrays()
    halves = {k: torch.from_numpy(v).bfloat16() for k, v in made.items()}
    raw = {k: v.view(torch.int16).numpy().view("V2") for k, v in halves.items()}
    np.savez(tmp_path / "half.npz", **raw)
    np.savez(tmp_path / "full.npz", **{k: np.asfortranarray(v.float()) for k, v in halves.items()})
    a, b = (vit.load_pretrained(tmp_path / f"{n}.npz").state_dict() for n in ("half", "full"))
    assert all(torch.equal(a[k], b[k]) and a[k].dtype == torch.float32 for k in a)


# Settings.


@pytest.mark.parametrize(
    "name",
    [
        "vit_tiny_patch16_224",
        "vit_small_patch16_224",
        "vit_base_patch16_224",
        "vit_large_patch16_224",
        "vit_huge_patch14_224",
        "deit3_medium_patch16_224",
        "vit_base_patch16_gap_224",  # 16 heads of 48: only its name says so
    ],
)
def test_the_rule_of_the_heads_holds_for_the_published_models(name):
    peer("timm")
    theirs = peer("timm.models").create_model(name, depth=1, num_classes=2)
    config = {"architecture": name} if "_gap_" in name else None
    ours = vit.load_pretrained(theirs.state_dict(), config=config)
    assert ours.backbone.encoder.layers[0].attn.num_heads == theirs.blocks[0].attn.num_heads
    assert ours.backbone.embedding.patch_embed.image_size == (224, 224)


def norms(model):
    return {m.eps for m in model.modules() if isinstance(m, torch.nn.LayerNorm)}


def test_every_library_has_its_own_epsilon_and_a_keyword_another(tmp_path):
    np.savez(tmp_path / "x.npz", **jax_arrays())
    fc_norm = timm_model(global_pool="avg").state_dict()
    sources = {
        1e-12: [transformers_model().state_dict()],
        1e-6: [fc_norm, torchvision_model().state_dict(), tmp_path / "x.npz"],
    }
    for eps, checkpoints in sources.items():
        for source in checkpoints:
            assert norms(vit.load_pretrained(source, num_heads=4)) == {eps}
            assert norms(vit.load_pretrained(source, num_heads=4, norm_eps=0.5)) == {0.5}
    for bad in (0, -1, float("nan"), "small"):
        with pytest.raises(vit.CheckpointError, match="norm_eps"):
            vit.load_pretrained(fc_norm, num_heads=4, norm_eps=bad)


@pytest.mark.parametrize("options", [{}, {"global_pool": "avg"}, {"class_token": False}])
def test_a_model_that_timm_saves_for_the_hub_needs_no_keyword(options, tmp_path):
    if "class_token" in options:
        options |= {"global_pool": "avg"}
    hub = peer("timm.models")
    shape = {"img_size": (32, 16), "patch_size": 8, "embed_dim": 32, "num_heads": 8, "depth": 2}
    theirs = hub.create_model("vit_tiny_patch16_224", num_classes=CLASSES, **shape, **options)
    hub.save_for_hf(shaken(theirs), tmp_path, safe_serialization=True)
    assert_same(vit.load_pretrained(tmp_path), theirs, 32, 16)


def test_a_setting_that_nobody_says_is_asked_for():
    state = timm_model().state_dict()
    with pytest.raises(vit.CheckpointError, match="num_heads="):
        vit.load_pretrained(state)
    with pytest.raises(vit.CheckpointError, match="norm_eps="):
        vit.load_pretrained(state, num_heads=4, config={"model_args": {"norm_layer": "rmsnorm"}})


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"num_attention_heads": 5}, "5 heads"),
        ({"num_attention_heads": "four"}, "num_heads"),
        ({"hidden_act": "mish"}, "mish"),
        ({"hidden_act": ["gelu"]}, "gelu"),
        ({"layer_norm_eps": None}, "norm_eps"),
        ({"image_size": 24}, "grid_size"),
        ({"image_size": 15}, "divisible"),
        ({"image_size": {"height": 16}}, "image_size"),
        ({"num_hidden_layers": 4}, "3 layers"),
    ],
)
def test_a_configuration_that_does_not_fit_is_an_error_of_the_checkpoint(config, match):
    state = transformers_model().state_dict()
    with pytest.raises(vit.CheckpointError, match=match):
        vit.load_pretrained(state, config={"num_attention_heads": 4} | config)


@pytest.mark.parametrize("config", [{"global_pool": "map"}, {"model_args": {"act_layer": "x"}}])
def test_a_configuration_of_timm_that_is_not_supported_is_an_error(config):
    with pytest.raises(vit.CheckpointError, match="is not supported"):
        vit.load_pretrained(timm_model().state_dict(), num_heads=4, config=config)


@pytest.mark.parametrize(
    "name",
    [
        "vit_so400m_patch16_siglip_gap_256",
        "vit_small_patch16_rope_ape_224",
        "beit3_base_patch16_224",
        "eva02_tiny_patch14_224",
        "vit_base_patch16_rpn_224",
    ],
)
def test_a_model_of_timm_that_only_its_name_tells_from_a_vit_is_refused(name):
    peer("timm.models")
    assert peer("timm").is_model(name)
    state = timm_model().state_dict()
    with pytest.raises(vit.CheckpointError, match=name):
        vit.load_pretrained(state, num_heads=4, config={"architecture": name})
    plain = {"architecture": "vit_tiny_patch16_224"}
    assert vit.load_pretrained(state, num_heads=4, config=plain)


def test_the_keyword_wins_over_the_configuration(tmp_path):
    theirs = transformers_model(hidden_act="relu", layer_norm_eps=1e-3)
    theirs.save_pretrained(tmp_path)
    ours = vit.load_pretrained(tmp_path, num_heads=2, norm_eps=1e-5, activation="silu")
    layer = ours.backbone.encoder.layers[0]
    assert layer.attn.num_heads == 2 and norms(ours) == {1e-5}
    assert isinstance(layer.mlp.net[1], torch.nn.SiLU)
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"num_attention_heads": 1}))
    ours = vit.load_pretrained(tmp_path, config=path)  # the one beside is not read
    assert ours.backbone.encoder.layers[0].attn.num_heads == 1 and norms(ours) == {1e-12}


# Heads.


def test_no_head_leaves_the_backbone():
    for theirs in (timm_model(), timm_model(global_pool="avg"), timm_model(distilled=True)):
        ours = vit.load_pretrained(theirs.state_dict(), num_classes=0, num_heads=4)
        assert type(ours) is vit.ViTModel
        x = torch.randn(2, 3, 16, 16)
        torch.testing.assert_close(ours(x), theirs.forward_features(x), rtol=1e-4, atol=1e-4)


def test_a_checkpoint_without_a_head_is_a_backbone(tmp_path):
    theirs = transformers_model()
    theirs.vit.save_pretrained(tmp_path)
    ours = vit.load_pretrained(tmp_path)
    assert type(ours) is vit.ViTModel
    x = torch.randn(2, 3, 16, 16)
    want = theirs.vit(x).last_hidden_state
    torch.testing.assert_close(ours(x), want, rtol=1e-4, atol=1e-4)
    with_head = vit.load_pretrained(tmp_path, num_classes=5)
    torch.testing.assert_close(with_head.backbone(x), want, rtol=1e-4, atol=1e-4)
    assert with_head(x).shape == (2, 5)


def test_a_backbone_ends_before_the_norm_behind_the_pool():
    theirs = timm_model(global_pool="avg")
    theirs.reset_classifier(0)
    state = theirs.state_dict()
    assert "fc_norm.weight" in state and "head.weight" not in state
    ours = vit.load_pretrained(state, num_heads=4)
    assert type(ours) is vit.ViTModel
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(ours(x), theirs.forward_features(x), rtol=1e-4, atol=1e-4)


def test_a_pooler_and_a_mask_token_of_transformers_change_nothing(tmp_path):
    transformers_model()  # skips where there is none
    transformers = peer("transformers")
    config = transformers_model().config
    theirs = shaken(transformers.ViTModel(config, add_pooling_layer=True, use_mask_token=True))
    theirs.save_pretrained(tmp_path)
    x = torch.randn(2, 3, 16, 16)
    want = theirs(x).last_hidden_state
    torch.testing.assert_close(vit.load_pretrained(tmp_path)(x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"distilled": True}, {"global_pool": "avg"}])
def test_another_number_of_classes_gets_a_fresh_head(options):
    theirs = timm_model(**options)
    ours = vit.load_pretrained(theirs.state_dict(), num_classes=3, num_heads=4)
    x = torch.randn(2, 3, 16, 16)
    assert ours(x).shape == (2, 3) and ours.train()(x).shape == (2, 3)
    torch.testing.assert_close(ours.backbone(x), theirs.forward_features(x), rtol=1e-4, atol=1e-4)
    assert ours.head.head.weight.std() > 0.01
    if "global_pool" in options:  # the norm before it was trained
        assert torch.equal(ours.head.fc_norm.weight, theirs.fc_norm.weight)


def test_both_heads_of_a_distilled_model_can_be_read():
    theirs = timm_model(distilled=True)
    ours = vit.load_pretrained(theirs.state_dict(), num_heads=4)
    theirs.set_distilled_training(True)
    x = torch.randn(2, 3, 16, 16)
    both = ours.head.both(ours.backbone(x))
    for got, want in zip(both, theirs.train()(x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_a_representation_layer_is_refused_unless_the_head_is_left_out(tmp_path):
    extra = {"pre_logits/kernel": np.zeros((16, 16), "f4"), "pre_logits/bias": np.zeros(16, "f4")}
    np.savez(tmp_path / "x.npz", **jax_arrays(), **extra)
    with pytest.raises(vit.CheckpointError, match="pre_logits"):
        vit.load_pretrained(tmp_path / "x.npz")
    with pytest.raises(vit.CheckpointError, match="pre_logits"):  # its own head reads that layer
        vit.load_pretrained(tmp_path / "x.npz", num_classes=CLASSES)
    assert vit.load_pretrained(tmp_path / "x.npz", num_classes=3).head.head.out_features == 3
    assert type(vit.load_pretrained(tmp_path / "x.npz", num_classes=0)) is vit.ViTModel


def every_state(tmp_path):
    np.savez(tmp_path / "x.npz", **jax_arrays())
    return {
        "timm": timm_model(distilled=True).state_dict(),
        "fc_norm": timm_model(global_pool="avg", init_values=0.1).state_dict(),
        "transformers": transformers_model("DeiTForImageClassificationWithTeacher").state_dict(),
        "torchvision": torchvision_model().state_dict(),
        "JAX": {name: torch.from_numpy(array) for name, array in jax_arrays().items()},
    }


@pytest.mark.parametrize("library", ["timm", "fc_norm", "transformers", "torchvision", "JAX"])
@pytest.mark.parametrize("share", [0.1, pytest.param(1.0, marks=pytest.mark.release)])
def test_a_name_too_few_or_too_many_or_a_wrong_shape_is_an_error(library, share, tmp_path):
    """Every name of every library before a release; else one of ten, others in every library."""
    state = every_state(tmp_path)[library]
    vit.load_pretrained(state, num_heads=4)
    chosen = random.Random(library).sample(sorted(state), math.ceil(share * len(state)))
    for name in chosen:
        value = state[name]
        with pytest.raises(vit.CheckpointError):
            vit.load_pretrained({k: v for k, v in state.items() if k != name}, num_heads=4)
        wrongs = [value[None], value.int(), value[..., :0]]
        if value.dim() < 4:  # a patch of another size is one of ours
            wrongs += [torch.cat([value, value], dim) for dim in range(value.dim())]
        for wrong in wrongs:
            with pytest.raises(vit.CheckpointError):
                vit.load_pretrained({**state, name: wrong}, num_heads=4)
    for name in ("extra.weight", "blocks.0.attn.q_norm.weight", "norm_post.weight"):
        with pytest.raises(vit.CheckpointError, match=re.escape(name)):
            vit.load_pretrained({**state, name: torch.zeros(16)}, num_heads=4)


def test_unknown_names_can_be_skipped_with_a_warning_but_missing_ones_cannot():
    theirs = timm_model()
    state = {**theirs.state_dict(), "extra.weight": torch.zeros(16)}
    with pytest.warns(UserWarning, match=r"extra\.weight"):
        ours = vit.load_pretrained(state, num_heads=4, strict=False)
    assert_same(ours, theirs, 16, 16)
    del state["blocks.1.norm1.bias"]
    with (
        pytest.warns(UserWarning, match="extra"),
        pytest.raises(vit.CheckpointError, match="norm1"),
    ):
        vit.load_pretrained(state, num_heads=4, strict=False)


def test_a_missing_layer_in_the_middle_is_an_error():
    state = {k: v for k, v in timm_model().state_dict().items() if not k.startswith("blocks.1.")}
    with pytest.raises(vit.CheckpointError, match="layer"):
        vit.load_pretrained(state, num_heads=4)


def test_two_names_for_one_parameter_are_an_error():
    state = timm_model(init_values=0.1).state_dict()
    state["blocks.0.gamma_1"] = state["blocks.0.ls1.gamma"]
    with pytest.raises(vit.CheckpointError, match="gamma_1"):
        vit.load_pretrained(state, num_heads=4)


def test_the_new_size_must_be_whole_patches():
    with pytest.raises(vit.ShapeError, match="divisible"):
        vit.load_pretrained(timm_model().state_dict(), num_heads=4, image_size=18)


@pytest.mark.parametrize(
    "config",
    [{"input_size": 7}, {"input_size": None}, {"input_size": "xyz"}, {"input_size": [3, None, 1]}],
)
def test_an_input_size_that_is_not_a_size_is_ignored(config):
    state = timm_model().state_dict()
    model = vit.load_pretrained(state, num_heads=4, config={"pretrained_cfg": config})
    assert model.backbone.embedding.patch_embed.image_size == (16, 16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_small_layer_scale_in_half_precision_is_multiplied_in_float32(dtype):
    theirs = timm_model(init_values=1e-5)
    for name, p in theirs.named_parameters():
        if "gamma" in name:
            torch.nn.init.normal_(p, std=1e-5)
    state = {name: value.to(dtype) for name, value in theirs.state_dict().items()}
    theirs.load_state_dict(state)  # rounded, and run in float32 by timm
    ours = vit.load_pretrained(state, num_heads=4)
    for got, block in zip(ours.backbone.encoder.layers, theirs.blocks, strict=True):
        want = block.ls1.gamma[:, None] * block.attn.proj.weight
        torch.testing.assert_close(got.attn.proj.weight, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "renamed",
    [
        lambda name: f"_orig_mod.module.{name}",
        lambda name: f"module._orig_mod.{name}",
        lambda name: re.sub(r"(blocks\.\d+\.)", r"\1_orig_mod.", name),
    ],
    ids=["compile of DDP", "DDP of compile", "each layer"],
)
def test_wrappers_in_any_order_are_taken_off(renamed):
    theirs = timm_model()
    state = {renamed(name): value for name, value in theirs.state_dict().items()}
    assert_same(vit.load_pretrained(state, num_heads=4), theirs, 16, 16)
    twice = {**state, **theirs.state_dict()}
    with pytest.raises(vit.CheckpointError, match=r"twice|the names of a ViT|names that no|same"):
        vit.load_pretrained(twice, num_heads=4)


@pytest.mark.parametrize("read", [vit.load_pretrained, vit.extract_pos_embedding])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.to("meta"),
        lambda t: t.to_sparse(),
        lambda t: torch.nested.as_nested_tensor([t[0]], layout=torch.jagged),
    ],
)
def test_a_tensor_that_is_not_dense_is_an_error(read, change):
    state = timm_model().state_dict()
    state["pos_embed"] = change(state["pos_embed"])
    with pytest.raises(vit.CheckpointError, match="pos_embed is not a dense tensor"):
        read(state)


@pytest.mark.parametrize("source", [None, 5, torch.nn.Linear(2, 2)], ids=["None", "5", "module"])
def test_a_source_of_another_kind_is_named(source):
    with pytest.raises(vit.CheckpointError, match="Expected a state dict, a path or a hub"):
        vit.load_pretrained(source)
    with pytest.raises(vit.CheckpointError, match="Expected config as"):
        vit.load_pretrained(timm_model().state_dict(), num_heads=4, config=5)


def test_a_default_device_of_the_caller_does_not_matter():
    theirs = timm_model(qkv_bias=False)
    with torch.device("meta"):
        ours = vit.load_pretrained(theirs.state_dict(), num_heads=4)
        fresh = vit.load_pretrained(theirs.state_dict(), num_heads=4, num_classes=3)
    assert_same(ours, theirs, 16, 16)
    assert {p.device.type for m in (ours, fresh) for p in m.parameters()} == {"cpu"}


@pytest.mark.parametrize("state", [{}, {"weight": torch.zeros(2)}, {"a": 1}, {"model": {}}])
def test_a_state_dict_that_is_not_a_vit_is_an_error(state):
    with pytest.raises(vit.CheckpointError):
        vit.load_pretrained(state)


def test_a_state_that_holds_itself_ends():
    state = {}
    state["model"] = state
    with pytest.raises(vit.CheckpointError, match="no tensors"):
        vit.load_pretrained(state)


def test_the_model_shares_nothing_with_its_source_and_trains():
    state = timm_model().state_dict()
    before = {name: value.clone() for name, value in state.items()}
    ours = vit.load_pretrained(state, num_heads=4)
    with torch.no_grad():
        for p in ours.parameters():
            p.zero_()
    assert all(torch.equal(before[name], value) for name, value in state.items())
    ours = vit.load_pretrained(state, num_heads=4).train()
    ours(torch.randn(2, 3, 16, 16)).sum().backward()
    assert all(p.grad is not None and p.is_leaf for p in ours.parameters())
    assert all(p.device.type == "cpu" and p.dtype == torch.float32 for p in ours.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_checkpoint_in_another_precision_comes_in_float32(dtype, tmp_path):
    state = {k: v.to(dtype) for k, v in timm_model().state_dict().items()}
    save_file(state, tmp_path / "x.safetensors")
    ours = vit.load_pretrained(tmp_path / "x.safetensors", num_heads=4)
    weight = ours.backbone.encoder.layers[2].mlp.net[3].weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, state["blocks.2.mlp.fc2.weight"].float())
    larger = vit.load_pretrained(state, num_heads=4, image_size=24)
    table = state["pos_embed"].to(torch.promote_types(dtype, torch.float32))
    want = vit.interpolate_pos_embedding(table, 4, 6, **vit.RESIZE_SETTINGS["timm"]).float()
    assert torch.equal(larger.backbone.embedding.pos_embed.pos_embed, want)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth", ".bin", "legacy.pt"])
def test_every_kind_of_file_gives_the_same_model(suffix, tmp_path):
    theirs = timm_model()
    path = tmp_path / ("x" + suffix)
    if suffix == ".safetensors":
        save_file(theirs.state_dict(), path)
    else:
        zipped = not suffix.startswith("legacy")
        torch.save(theirs.state_dict(), path, _use_new_zipfile_serialization=zipped)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (path, str(path)):
            assert_same(vit.load_pretrained(source, num_heads=4), theirs, 16, 16)


def test_a_loaded_model_says_how_to_build_it_again():
    theirs = timm_model(global_pool="avg")
    ours = vit.load_pretrained(theirs.state_dict(), num_heads=4, activation="relu")
    again = vit.ViTForImageClassification.from_config(ours.config)
    again.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(again.eval()(x), ours(x))
