"""Tables of positions out of real models of many families, and what their rows mean."""

import numpy as np
import pytest
import torch
from checkpoints import jax_arrays, shaken, timm_model, torchvision_model
from peers import peer

import dnnl.models.vit as vit


def check(found, table, prefix, grid=(4, 4)):
    """The table is the one, its prefix and grid are said, and all of it fits our own resize."""
    assert found._fields == ("table", "grid_size", "num_prefix_tokens")
    assert found.grid_size == grid and found.num_prefix_tokens == prefix
    assert torch.equal(found.table, table.reshape(1, -1, table.shape[-1]))
    assert not found.table.requires_grad
    resized = vit.interpolate_pos_embedding(*found[:2], (6, 6), num_prefix_tokens=found[2])
    assert resized.shape[1] == prefix + 36


TRANSFORMERS = {
    "ViTModel": ({}, "embeddings.position_embeddings", 1),
    "ViTForImageClassification": ({}, "vit.embeddings.position_embeddings", 1),
    "DeiTForImageClassificationWithTeacher": ({}, "deit.embeddings.position_embeddings", 2),
    "ViTMAEForPreTraining": ({}, "vit.embeddings.position_embeddings", 1),
    "Dinov2Model": ({}, "embeddings.position_embeddings", 1),
    "Dinov2WithRegistersModel": ({}, "embeddings.position_embeddings", 1),
    "BeitModel": ({"use_absolute_position_embeddings": True}, "embeddings.position_embeddings", 1),
    "CLIPVisionModel": ({}, "embeddings.position_embedding.weight", 1),
    "SiglipVisionModel": ({}, "embeddings.position_embedding.weight", 0),
}


def transformers_model(name, **options):
    transformers = peer("transformers")
    family = next(f for f in ("Dinov2WithRegisters", "Dinov2", "ViTMAE", "ViT", "DeiT", "Beit",
                              "CLIPVision", "SiglipVision") if name.startswith(f))  # fmt: skip
    if family == "ViTMAE":
        options |= {"decoder_num_attention_heads": 4, "decoder_hidden_size": 16}
    config = getattr(transformers, family + "Config")(
        image_size=16,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        **options,
    )
    return shaken(getattr(transformers, name)(config))


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "saved"])
def test_the_tables_of_transformers(name, saved, tmp_path):
    options, key, prefix = TRANSFORMERS[name]
    model = transformers_model(name, **options)
    table = model.state_dict()[key]
    if saved:
        model.save_pretrained(tmp_path)
    check(vit.extract_pos_embedding(tmp_path if saved else model.state_dict()), table, prefix)


def test_the_tables_of_whole_clip_and_siglip_are_those_of_the_images():
    peer("torchvision")
    transformers = peer("transformers")
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 20}
    text |= {"intermediate_size": 32, "max_position_embeddings": 17, "projection_dim": 16}
    image = {k: text[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    image |= {"image_size": 16, "patch_size": 4, "intermediate_size": 32}
    for family, prefix in {"CLIP": 1, "Siglip": 0}.items():
        config = getattr(transformers, family + "Config")(text_config=text, vision_config=image)
        model = shaken(getattr(transformers, family + "Model")(config))
        key = "vision_model.embeddings.position_embedding.weight"
        state = model.state_dict()
        assert state["text_model.embeddings.position_embedding.weight"].shape == (17, 16)
        check(vit.extract_pos_embedding(state), state[key], prefix)


def test_siglip_has_no_prefix_even_where_a_square_and_one_would_do():
    """A 1x2 grid has no class row; 196 rows are 14x14, whatever 195 is divisible by."""
    state = {
        "vision_model.embeddings.patch_embedding.weight": torch.zeros(8, 3, 4, 4),
        "vision_model.embeddings.position_embedding.weight": torch.randn(196, 8),
    }
    found = vit.extract_pos_embedding(state)
    assert found.grid_size == (14, 14) and found.num_prefix_tokens == 0
    state["vision_model.embeddings.position_embedding.weight"] = torch.randn(197, 8)
    with pytest.raises(vit.CheckpointError, match="grid_size"):
        vit.extract_pos_embedding(state)


TIMM = {
    "plain": ({}, 1),
    "distilled": ({"distilled": True}, 2),
    "registers": ({"reg_tokens": 4}, 5),
    "no_embed_class": ({"no_embed_class": True}, 0),
    "registers, no_embed_class": ({"reg_tokens": 4, "no_embed_class": True}, 0),
    "no class token": ({"class_token": False, "global_pool": "avg"}, 0),
}


@pytest.mark.parametrize(("options", "prefix"), TIMM.values(), ids=TIMM)
@pytest.mark.parametrize("inside", ["", "module.", "visual.trunk.", "encoder."])
def test_the_tables_of_timm_also_inside_of_other_models(options, prefix, inside):
    state = timm_model(**options).state_dict()
    renamed = {inside + name: value for name, value in state.items()}
    check(vit.extract_pos_embedding(renamed), state["pos_embed"], prefix)


@pytest.mark.parametrize(("options", "prefix"), TIMM.values(), ids=TIMM)
def test_a_grid_that_is_not_square_must_be_given(options, prefix):
    state = timm_model((8, 24), **options).state_dict()
    with pytest.raises(vit.CheckpointError, match="grid_size"):
        vit.extract_pos_embedding(state)
    for wrong in ((6, 3), (4, 4), (2, 4)):
        with pytest.raises(vit.CheckpointError, match="grid_size"):
            vit.extract_pos_embedding(state, grid_size=wrong)
    for grid in ((2, 6), (6, 2), (1, 12)):
        found = vit.extract_pos_embedding(state, grid_size=grid)
        check(found, state["pos_embed"], prefix, grid)


def test_two_readings_of_one_table_are_not_guessed_at():
    """With 5 tokens in front, 9 rows may be 3x3, or 5 and 2x2."""
    state = timm_model(8, reg_tokens=4).state_dict()
    assert state["pos_embed"].shape == (1, 9, 16)
    with pytest.raises(vit.CheckpointError, match="more than one grid"):
        vit.extract_pos_embedding(state)
    check(vit.extract_pos_embedding(state, grid_size=2), state["pos_embed"], 5, (2, 2))


def test_the_tables_of_facebook_openai_torchvision_and_jax(tmp_path):
    table = torch.randn(1, 17, 16)
    patch = {
        "patch_embed.proj.weight": torch.zeros(16, 3, 4, 4),
        "cls_token": torch.zeros(1, 1, 16),
    }
    dino = {**patch, "pos_embed": table, "register_tokens": torch.zeros(1, 4, 16)}
    check(vit.extract_pos_embedding({**dino, "mask_token": torch.zeros(1, 16)}), table, 1)
    mae = {**patch, "pos_embed": table, "decoder_pos_embed": torch.zeros(1, 17, 8)}
    check(vit.extract_pos_embedding({"model": mae}), table, 1)
    clip = {
        "visual.conv1.weight": torch.zeros(16, 3, 4, 4),
        "visual.class_embedding": torch.zeros(16),
        "visual.positional_embedding": table[0],
        "positional_embedding": torch.zeros(77, 16),  # that of the words
    }
    check(vit.extract_pos_embedding(clip), table, 1)
    state = torchvision_model().state_dict()
    check(vit.extract_pos_embedding(state), state["encoder.pos_embedding"], 1)
    for options, prefix in (
        ({}, 1),
        ({"prefix": "opt/target/"}, 1),
        ({"class_token": False}, 0),
        ({"big_vision": True}, 0),  # its class token comes after the sum
        ({"big_vision": True, "prefix": "params/img/", "class_token": False}, 0),
    ):
        arrays = jax_arrays(**options)
        np.savez(tmp_path / "x.npz", **arrays)
        table = next(array for name, array in arrays.items() if name.endswith("pos_embedding"))
        check(vit.extract_pos_embedding(tmp_path / "x.npz"), torch.from_numpy(table), prefix)


def test_relative_positions_are_named_as_such(tmp_path):
    model = transformers_model("BeitModel", use_relative_position_bias=True)
    model.save_pretrained(tmp_path)
    for source in (model.state_dict(), tmp_path):
        with pytest.raises(vit.CheckpointError, match="relative"):
            vit.extract_pos_embedding(source)
    state = peer("timm.models").create_model("beit_base_patch16_224", depth=1).state_dict()
    with pytest.raises(vit.CheckpointError, match="relative"):
        vit.extract_pos_embedding(state)


@pytest.mark.parametrize(
    "change",
    [
        {"pos_embed": torch.zeros(2, 17, 16)},
        {"pos_embed": torch.zeros(1, 1, 17, 16)},
        {"pos_embed": torch.zeros(1, 17, 16).int()},
        {"pos_embed": torch.zeros(1, 17, 0)},
        {"pos_embed": torch.zeros(1, 0, 16)},
        {"text.pos_embed": torch.zeros(1, 17, 16), "text.patch_embed.proj.weight": torch.zeros(1)},
    ],
)
def test_a_table_that_is_malformed_or_not_alone_is_an_error(change):
    with pytest.raises(vit.CheckpointError):
        vit.extract_pos_embedding({**timm_model().state_dict(), **change})


def test_no_table_is_an_error_that_says_what_there_is():
    state = timm_model().state_dict()
    del state["pos_embed"]
    with pytest.raises(vit.CheckpointError, match=r"blocks\.0\.attn"):
        vit.extract_pos_embedding(state)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_table_keeps_its_precision_and_its_source(dtype):
    state = {name: value.to(dtype) for name, value in timm_model().state_dict().items()}
    found = vit.extract_pos_embedding(state)
    assert found.table.dtype == dtype
    before = state["pos_embed"].clone()
    found.table.zero_()
    assert torch.equal(state["pos_embed"], before)
