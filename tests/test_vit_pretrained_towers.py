"""Features of DINOv2, MAE, CLIP and SigLIP, and what is inside models, as in their libraries."""

import pytest
import torch
from checkpoints import (
    SMALL,
    openai_names,
    shaken,
    timm_at,
    timm_model,
    torchvision_at,
    torchvision_model,
    tower,
    transformers_model,
)
from peers import peer

import dnnl.models.vit as vit


def same(got, want, atol=2e-5):
    assert want.std() > 0.1  # there is something to compare
    torch.testing.assert_close(got, want, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "saved"])
@pytest.mark.parametrize("size", [(16, 16), (24, 24), (12, 32)])
@pytest.mark.parametrize("name", ["Dinov2Model", "Dinov2WithRegistersModel"])
def test_dinov2_gives_its_features_at_any_size(name, size, saved, tmp_path):
    theirs, x = tower(name), torch.randn(2, 3, *size)
    if saved:  # other names on disk than in memory
        theirs.save_pretrained(tmp_path)
        ours = vit.load_pretrained(tmp_path)
    else:
        ours = vit.load_pretrained(theirs.state_dict(), num_heads=4)
    assert isinstance(ours, vit.ViTModel) and ours.config.dynamic_image_size
    same(ours(x), theirs(x).last_hidden_state)


def test_facebooks_dinov2_differs_from_timms_and_gives_its_features():
    theirs = timm_model(init_values=0.1, num_classes=0, reg_tokens=2, no_embed_class=False)
    state = dict(theirs.state_dict())
    state["register_tokens"] = state.pop("reg_token")  # Facebook's name, and a row for the class
    registers = state["pos_embed"][:, 1:3].clone()
    state["pos_embed"] = torch.cat([state["pos_embed"][:, :1], state["pos_embed"][:, 3:]], dim=1)
    state["register_tokens"] = state["register_tokens"] + registers  # so that the sum is the same
    state["mask_token"] = torch.randn(1, 16)
    ours = vit.load_pretrained(state, num_heads=4)
    assert ours.config.resize == "dinov2-registers" and ours.config.dynamic_image_size
    x = torch.randn(2, 3, 16, 16)
    same(ours(x), theirs.forward_features(x))
    del state["register_tokens"]
    config = vit.load_pretrained(state, num_heads=4).config
    assert config.resize == "dinov2" and not config.dynamic_image_size  # its offset is not known
    assert not vit.load_pretrained(theirs.state_dict(), num_heads=4).config.dynamic_image_size


def test_the_head_of_dinov2_is_refused_by_name_and_left_out_on_request():
    transformers = peer("transformers")
    config = transformers.Dinov2Config(image_size=16, **SMALL)
    theirs = shaken(transformers.Dinov2ForImageClassification(config))
    with pytest.raises(
        vit.CheckpointError, match="class token and the mean of the patches.*num_cl"
    ):
        vit.load_pretrained(theirs.state_dict(), num_heads=4)
    x = torch.randn(2, 3, 16, 16)
    ours = vit.load_pretrained(theirs.state_dict(), num_heads=4, num_classes=0)
    same(ours(x), theirs.dinov2(x).last_hidden_state)
    assert vit.load_pretrained(theirs.state_dict(), num_heads=4, num_classes=5)(x).shape == (2, 5)


@pytest.mark.parametrize("pretraining", [False, True])
def test_the_encoder_of_mae_gives_its_features(pretraining, tmp_path):
    transformers = peer("transformers")
    decoder = {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 1}
    decoder |= {"decoder_num_attention_heads": 2, "decoder_intermediate_size": 16}
    config = transformers.ViTMAEConfig(image_size=16, mask_ratio=0.0, **SMALL, **decoder)
    kind = transformers.ViTMAEForPreTraining if pretraining else transformers.ViTMAEModel
    theirs = shaken(kind(config))
    theirs.save_pretrained(tmp_path)
    ours, x = vit.load_pretrained(tmp_path), torch.randn(2, 3, 16, 16)
    assert isinstance(ours, vit.ViTModel)
    in_order = torch.arange(16.0).expand(2, -1)  # MAE shuffles its patches by this noise
    encoder = theirs.vit if pretraining else theirs
    same(ours(x), encoder(x, noise=in_order).last_hidden_state)


def test_the_original_mae_keeps_its_decoder_to_itself():
    theirs = timm_model(num_classes=0)
    extra = {"mask_token": torch.randn(1, 1, 8), "decoder_blocks.0.norm1.weight": torch.ones(8)}
    ours = vit.load_pretrained({"model": {**theirs.state_dict(), **extra}}, num_heads=4)
    x = torch.randn(2, 3, 16, 16)
    same(ours(x), theirs.forward_features(x))
    assert ours.config.resize == "timm" and not ours.config.dynamic_image_size


@pytest.mark.parametrize("act", ["quick_gelu", "gelu"])
@pytest.mark.parametrize("size", [(16, 16), (24, 12)])
def test_the_vision_tower_of_clip_gives_its_features(size, act, tmp_path):
    theirs, x = tower("CLIPVisionModel", hidden_act=act), torch.randn(2, 3, *size)
    theirs.save_pretrained(tmp_path)
    ours = vit.load_pretrained(tmp_path, image_size=size)
    out = theirs(x, interpolate_pos_encoding=True)
    same(ours(x)[:, 0], out.pooler_output)
    (norm,) = (m for name, m in theirs.named_modules() if name.endswith("post_layernorm"))
    same(ours(x), norm(out.last_hidden_state))
    if act == "quick_gelu":  # the rule where nothing says it
        same(vit.load_pretrained(theirs.state_dict(), num_heads=4, image_size=size)(x), ours(x))


def test_a_whole_clip_gives_the_features_of_its_vision_tower(tmp_path):
    transformers = peer("transformers")
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
    text |= {"intermediate_size": 32, "vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
    vision = {"image_size": 16, **SMALL}
    theirs = shaken(
        transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision))
    )
    theirs.save_pretrained(tmp_path)
    x = torch.randn(2, 3, 16, 16)
    want = theirs.vision_model(x).pooler_output
    same(vit.load_pretrained(tmp_path)(x)[:, 0], want)
    same(vit.load_pretrained(openai_names(theirs), num_heads=4)(x)[:, 0], want)
    assert vit.load_pretrained(tmp_path, num_classes=5)(x).shape == (2, 5)


def test_the_head_of_clip_is_refused_by_name(tmp_path):
    transformers = peer("transformers")
    config = transformers.CLIPConfig(vision_config={"image_size": 16, **SMALL}, num_labels=7)
    shaken(transformers.CLIPForImageClassification(config)).save_pretrained(tmp_path)
    with pytest.raises(vit.CheckpointError, match="mean of the patches before the last norm"):
        vit.load_pretrained(tmp_path)
    assert isinstance(vit.load_pretrained(tmp_path, num_classes=0), vit.ViTModel)


@pytest.mark.parametrize("kind", ["ViTConfig", "Dinov2Config", "ViTMSNConfig"])
def test_what_a_configuration_leaves_out_is_the_default_of_transformers(kind):
    transformers = peer("transformers")
    shape = {"hidden_size": 48, "num_hidden_layers": 1, "intermediate_size": 32, "mlp_ratio": 2}
    config = getattr(transformers, kind)(image_size=16, patch_size=4, **shape)
    model = shaken(getattr(transformers, kind.replace("Config", "Model"))(config))
    ours = vit.load_pretrained(
        model.state_dict(), config={"model_type": config.model_type, "hidden_size": 48}
    )
    x = torch.randn(2, 3, 16, 16)
    same(ours(x), model(x).last_hidden_state)


def test_a_torchscript_archive_is_named_and_its_state_dict_is_read(tmp_path):
    model = vit.ViTForImageClassification(16, 4, 3, 7, 16, 4, 1, 32).eval()
    with pytest.warns():  # torch deprecates the tracer
        torch.jit.trace(model, (torch.randn(1, 3, 16, 16),)).save(tmp_path / "clip.pt")
    for read in (vit.load_pretrained, vit.extract_pos_embedding):
        with pytest.raises(vit.CheckpointError, match=r"TorchScript archive.*torch\.jit\.load"):
            read(tmp_path / "clip.pt")


@pytest.mark.parametrize("act", ["quick_gelu", "gelu"])
def test_a_clip_of_timm_gives_its_features(act):
    from functools import partial

    norm = partial(torch.nn.LayerNorm, eps=1e-5)
    theirs = timm_model(pre_norm=True, norm_layer=norm, act_layer=act, num_classes=0)
    assert "patch_embed.proj.bias" not in theirs.state_dict()
    name = f"vit_base_patch16_clip_{'quickgelu_' if act == 'quick_gelu' else ''}224"
    ours = vit.load_pretrained(theirs.state_dict(), num_heads=4, config={"architecture": name})
    x = torch.randn(2, 3, 16, 16)
    same(ours(x), theirs.forward_features(x))


def test_siglip_gives_its_features_and_its_logits_but_not_its_pooler(tmp_path):
    theirs, x = tower("SiglipVisionModel"), torch.randn(2, 3, 16, 16)
    theirs.save_pretrained(tmp_path)
    with pytest.raises(vit.CheckpointError, match="attention pooling.*num_classes=0"):
        vit.load_pretrained(tmp_path)
    ours = vit.load_pretrained(tmp_path, num_classes=0)
    same(ours(x), theirs(x).last_hidden_state)
    transformers = peer("transformers")
    config = transformers.SiglipConfig(vision_config={"image_size": 16, **SMALL}, num_labels=7)
    theirs = shaken(transformers.SiglipForImageClassification(config))
    theirs.save_pretrained(tmp_path / "classifier")
    same(vit.load_pretrained(tmp_path / "classifier")(x), theirs(x).logits)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"blocks.0.mlp.w12.weight": (64, 16)}, "a SwiGLU MLP"),
        ({"blocks.0.attn.q_norm.weight": (4,)}, "normalised queries and keys"),
        ({"blocks.0.attn.rel_pos_h": (7, 4)}, "relative positions"),
        ({"rope.freqs": (4,)}, "rotary positions"),
        ({"attn_pool.latent": (1, 1, 16)}, "attention pooling"),
    ],
)
def test_an_unsupported_part_is_named(change, part):
    state = timm_model(num_classes=0).state_dict()
    state |= {name: torch.zeros(shape) for name, shape in change.items()}
    with pytest.raises(vit.CheckpointError, match=part):
        vit.load_pretrained(state, num_heads=4)


@pytest.mark.parametrize("kind", ["audio-spectrogram-transformer", "yolos", "vivit"])
def test_a_model_type_of_another_function_is_refused(kind):
    state = transformers_model().state_dict()
    with pytest.raises(vit.CheckpointError, match=f"model_type '{kind}' is not supported"):
        vit.load_pretrained(state, num_heads=4, config={"model_type": kind})


@pytest.mark.parametrize(
    "config",
    [
        {"pool_include_prefix": True},
        {"model_args": {"pool_include_prefix": True}},
        {"model_args": {"block_fn": "parallel"}},
        {"model_args": {"mlp_layer": "swiglu"}},
    ],
)
def test_an_argument_of_timm_that_changes_the_function_is_refused(config):
    state = timm_model(global_pool="avg").state_dict()
    with pytest.raises(vit.CheckpointError, match="is not supported"):
        vit.load_pretrained(state, num_heads=4, config={"architecture": "vit_x", **config})


@pytest.mark.parametrize("library", ["timm", "transformers", "torchvision"])
def test_crops_of_other_sizes_are_read_as_by_the_library_itself(library):
    sizes = [(16, 16), (8, 8), (24, 24)]
    if library == "timm":
        native = timm_model()
        theirs = {size: timm_at(size, native.state_dict()) for size in sizes}
        sizes.append((8, 24))
        theirs[8, 24] = timm_at((8, 24), native.state_dict())
    elif library == "torchvision":
        native = torchvision_model()
        theirs = {size: torchvision_at(size[0], native.state_dict()) for size in sizes}
    else:
        native = transformers_model()
        theirs = {s: lambda x: native(x, interpolate_pos_encoding=True).logits for s in sizes}
    ours = vit.load_pretrained(native.state_dict(), num_heads=4, dynamic_image_size=True)
    for size in sizes:
        x = torch.randn(2, 3, *size)
        same(ours(x), theirs[size](x), atol=1e-4)


@pytest.mark.parametrize("name", ["ViTForImageClassification", "DeiTForImageClassification"])
def test_attention_and_hidden_states_are_those_of_transformers(name):
    """Learner question 25: of N + 1 hidden states the first is the input module's sequence."""
    theirs = transformers_model(name, attn_implementation="eager", layer_norm_eps=1e-6)
    model = vit.load_pretrained(theirs.state_dict(), num_heads=4, norm_eps=1e-6)
    x = torch.randn(3, 3, 16, 16)
    want = theirs(x, output_attentions=True, output_hidden_states=True)
    maps, states = vit.attention_maps(model, x), vit.hidden_states(model, x)
    assert (len(maps), len(states)) == (3, 4)
    torch.testing.assert_close(maps, list(want.attentions), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(states, list(want.hidden_states), rtol=1e-4, atol=1e-4)
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
    torch.testing.assert_close(
        vit.hidden_states(model, x), [seen[0], *seen[1::2]], rtol=1e-4, atol=1e-4
    )
