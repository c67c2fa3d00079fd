"""Photographs are prepared as each library does it, labels are read, and models keep both."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import timm_model, transformers_model
from hypothesis import given
from hypothesis import strategies as st
from peers import peer
from PIL import Image

import dnnl.models.vit as vit
from dnnl import data

LEVEL = 1 / 255


def photographs():
    """Return photographs of several proportions, as 8-bit images ``(3, H, W)``."""
    cat, coffee = data.photograph("cat", None), data.photograph("coffee", None)
    images = [cat, coffee, cat[:, :, :200], coffee[:, :97, :131]]
    return [(image * 255).round().to(torch.uint8) for image in images]


def assert_close(ours, theirs, std):
    """At most two grey levels apart, and a third of one on average."""
    assert ours.shape == theirs.shape
    error = (ours - theirs).abs() * torch.tensor(std).reshape(3, 1, 1)
    assert error.max() <= 2.01 * LEVEL, error.max() / LEVEL
    assert error.mean() <= 0.35 * LEVEL, error.mean() / LEVEL


PROCESSORS = {
    "ViT": ("ViTImageProcessor", {}),
    "ViT at 20": ("ViTImageProcessor", {"size": {"height": 20, "width": 24}}),
    "DeiT": ("DeiTImageProcessor", {}),
    "DINOv2": (
        "BitImageProcessor",
        {
            "size": {"shortest_edge": 256},
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
        },
    ),
    "CLIP": ("CLIPImageProcessor", {}),
    "SigLIP": ("SiglipImageProcessor", {}),
    "odd crop": ("CLIPImageProcessor", {"crop_size": {"height": 201, "width": 198}}),
    "nearest": ("ViTImageProcessor", {"resample": 0}),
    "no resize": (
        "BitImageProcessor",
        {"do_resize": False, "crop_size": {"height": 80, "width": 96}},
    ),
}


@pytest.mark.parametrize(("name", "options"), PROCESSORS.values(), ids=PROCESSORS)
def test_photographs_are_prepared_as_by_transformers(name, options, tmp_path):
    processor = getattr(peer("transformers"), name)(**options)
    transformers_model().save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    assert (tmp_path / "preprocessor_config.json").is_file()
    preprocess = vit.load_pretrained(tmp_path).preprocess
    for image in photographs():
        theirs = processor(image, return_tensors="pt")["pixel_values"]
        assert_close(preprocess(image), theirs, processor.image_std)
        torch.testing.assert_close(preprocess(image / 255), preprocess(image))  # in [0, 1], too


TIMM = {
    "center": {},
    "whole": {"crop_pct": 1.0},
    "squash": {"crop_pct": 0.95, "crop_mode": "squash"},
    "bilinear": {"crop_pct": 0.9, "interpolation": "bilinear"},
    "not square": {"crop_pct": 0.9, "input_size": [3, 160, 224]},
    "means": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.5]},
}


@pytest.mark.parametrize("options", TIMM.values(), ids=TIMM)
def test_photographs_are_prepared_as_by_timm(options):
    cfg = {"input_size": [3, 224, 224], **options}
    timm = peer("timm.data")
    resolved = timm.resolve_data_config(pretrained_cfg=cfg)
    transform = timm.create_transform(**resolved)
    native = timm_model(cfg["input_size"][1:], patch_size=32)
    config = {"architecture": "vit_x", "pretrained_cfg": cfg}
    ours = vit.load_pretrained(native.state_dict(), num_heads=4, config=config)
    for image in photographs():
        theirs = transform(Image.fromarray(image.permute(1, 2, 0).numpy()))
        assert_close(ours.preprocess(image), theirs[None], resolved["std"])


@pytest.mark.parametrize("weights", ["IMAGENET1K_V1", "IMAGENET1K_SWAG_LINEAR_V1"])
def test_photographs_are_prepared_as_by_torchvision(weights):
    from checkpoints import torchvision_model

    models = peer("torchvision.models.vision_transformer")
    weights = models.ViT_B_16_Weights[weights]
    preset = weights.transforms()
    ours = vit.load_pretrained(torchvision_model().state_dict(), num_heads=4, preprocess=preset)
    for image in photographs():
        theirs = preset(Image.fromarray(image.permute(1, 2, 0).numpy()))
        assert_close(ours.preprocess(image), theirs[None], preset.std)


def test_the_preparation_by_hand():
    """Cropped in the middle, with means and deviations by hand."""
    image = torch.rand(3, 8, 12)
    ours = vit.Preprocess(crop=4, resize=None, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0))
    want = (image[:, 2:6, 4:8] - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor(
        [0.5, 0.25, 1.0]
    )[:, None, None]
    torch.testing.assert_close(ours(image), want[None])


@given(st.integers(4, 40), st.integers(4, 40), st.integers(1, 4), st.integers(5, 30))
def test_the_result_has_the_size_of_the_crop_whatever_the_photograph(height, width, batch, side):
    preprocess = vit.Preprocess(crop=side - 1, resize=side)
    assert preprocess(torch.rand(batch, 3, height, width)).shape == (batch, 3, side - 1, side - 1)


def test_a_photograph_in_one_column_is_averaged_and_not_misread():
    image = torch.rand(3, 64, 48)
    column = vit.Preprocess(
        crop=(64, 1), resize=(64, 1), keep_ratio=False, interpolation="bilinear"
    )
    rows = [Image.fromarray(c.numpy()).resize((1, 64), Image.Resampling.BILINEAR) for c in image]
    want = torch.from_numpy(np.stack([np.asarray(row) for row in rows]))
    torch.testing.assert_close(column(image)[0] * 0.5 + 0.5, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (torch.rand(1, 8, 8), r"\(3, H, W\)"),
        (torch.rand(8, 8, 3), r"\(3, H, W\)"),
        (torch.rand(2, 2, 3, 8, 8), r"\(3, H, W\)"),
        (torch.ones(3, 8, 8, dtype=torch.int64), "torch.int64"),
        (np.zeros((3, 8, 8)), "ndarray"),
        (torch.rand(3, 3, 8), "at least 4×4 after the resize, but got 3×8"),
        (torch.rand(3, 8, 8) * 255, "divide by 255 first"),
        (torch.full((3, 8, 8), float("nan")), r"in \[0, 1\]"),
    ],
)
def test_what_is_not_a_photograph_is_refused(bad, match):
    with pytest.raises(vit.ShapeError, match=match):
        vit.Preprocess(crop=4)(bad)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"crop": 0}, "at least 1"),
        ({"crop": 4, "interpolation": "lanczos"}, "bicubic"),
        ({"crop": 4, "std": (1, 0, 1)}, "positive std"),
        ({"crop": 4, "mean": (1, 2)}, "three numbers as mean"),
        ({"crop": 4, "mean": (1, 2, float("nan"))}, "three numbers as mean"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        vit.Preprocess(**options)


@pytest.mark.parametrize(
    "file",
    [
        {"resample": 1},
        {"size": {"longest_edge": 8}},
        {"size": "large"},
        {"do_normalize": False},
        {"rescale_factor": 1.0},
        {"do_center_crop": True, "crop_size": {"height": 8}},
        {"image_mean": [0.5]},
        {"size": {"height": "x", "width": 8}},
        {"size": {"shortest_edge": 8}},
        {"image_processor_type": "ConvNextImageProcessor"},
        {"crop_pct": 0.9},
    ],
)
def test_a_preparation_that_is_not_supported_warns_and_the_model_loads(file, tmp_path):
    transformers_model().save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(file))
    with pytest.warns(UserWarning, match=r"model\.preprocess is None"):
        assert vit.load_pretrained(tmp_path).preprocess is None
    by_hand = vit.Preprocess(crop=16)
    assert vit.load_pretrained(tmp_path, preprocess=by_hand).preprocess == by_hand


@pytest.mark.parametrize("bad", [5, {}, object()])
def test_a_wrong_preprocess_is_refused(bad):
    with pytest.raises(ValueError, match=r"vit\.Preprocess or the transforms"):
        vit.load_pretrained(timm_model().state_dict(), num_heads=4, preprocess=bad)


@pytest.mark.parametrize("kind", ["ViT", "DeiT", "Bit", "CLIP", "Siglip"])
def test_what_a_processor_does_not_say_is_its_librarys_default(kind, tmp_path):
    transformers_model().save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({"image_processor_type": f"{kind}ImageProcessor"}))
    processor = getattr(peer("transformers"), f"{kind}ImageProcessor")()
    image = photographs()[0]
    theirs = processor(image, return_tensors="pt")["pixel_values"]
    assert_close(vit.load_pretrained(tmp_path).preprocess(image), theirs, processor.image_std)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_photographs_in_half_precision_are_resized_in_float32(dtype):
    preprocess, image = vit.Preprocess(crop=16, resize=20), torch.rand(3, 30, 40).to(dtype)
    assert preprocess(image).dtype == dtype
    torch.testing.assert_close(preprocess(image), preprocess(image.float()).to(dtype))


def test_another_image_size_is_prepared_for(tmp_path):
    transformers_model().save_pretrained(tmp_path)
    processor = peer("transformers").DeiTImageProcessor(
        size={"height": 20, "width": 20}, crop_size={"height": 16, "width": 16}
    )
    processor.save_pretrained(tmp_path)
    model = vit.load_pretrained(tmp_path, image_size=32)
    assert model.preprocess.crop == (32, 32) and model.preprocess.resize == (40, 40)
    assert model(model.preprocess(photographs()[0])).shape == (1, 7)


def test_labels_are_read_where_each_logit_has_one(tmp_path):
    names = [f"name {i}" for i in range(7)]
    transformers_model(id2label=dict(enumerate(names))).save_pretrained(tmp_path)
    assert vit.load_pretrained(tmp_path).labels == tuple(names)
    assert vit.load_pretrained(tmp_path, num_classes=3).labels == ()
    assert vit.load_pretrained(tmp_path, num_classes=0).labels == ()
    state = timm_model().state_dict()
    for config, labels in [
        ({"label_names": names}, tuple(names)),
        ({"pretrained_cfg": {"label_names": names}}, tuple(names)),
        ({"label_names": names, "label_descriptions": {"name 0": "cat"}}, ("cat", *names[1:])),
        ({"label_names": names[1:]}, ()),
        ({"label_names": [*names[1:], 5]}, ()),
        ({"label_names": "x"}, ()),
    ]:
        loaded = vit.load_pretrained(state, num_heads=4, config={"architecture": "vit_x", **config})
        assert loaded.labels == labels


# ---- save_pretrained -----------------------------------------------------------------------------


def prepared(**options):
    settings = {"image_size": 16, "patch_size": 4, "embed_dim": 16, "num_heads": 4}
    model = vit.ViTForImageClassification(
        **{**settings, "num_layers": 2, "hidden_dim": 32, "num_classes": 3, **options}
    )
    model.preprocess = vit.Preprocess(16, 20, mean=(0.1, 0.2, 0.3), floor_crop=True)
    model.labels = ("猫", "cup", "rocket")
    return model


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"distillation": True, "dropout": 0.5},
        {"pool": "mean", "fc_norm": True, "final_norm": False, "num_prefix_tokens": 0},
        {"image_size": (16, 24), "dynamic_image_size": True, "resize": "timm", "pre_norm": True},
        {"activation": "quick_gelu", "norm_eps": 0.25, "num_prefix_tokens": 4},
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_model_comes_back_whole(options, dtype, tmp_path):
    model = prepared(**options).to(dtype)
    model.save_pretrained(tmp_path / "new" / "folder")
    loaded = vit.load_pretrained(tmp_path / "new" / "folder")
    assert type(loaded) is type(model) and not loaded.training
    assert (loaded.config, loaded.labels) == (model.config, model.labels)
    assert loaded.preprocess == model.preprocess
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
        assert loaded.state_dict()[name].dtype == dtype
    x = torch.rand(2, 3, *model.config.image_size, dtype=dtype)
    assert torch.equal(loaded(x), model.eval()(x))
    table, grid, prefix = vit.extract_pos_embedding(tmp_path / "new" / "folder")
    embedding = model.backbone.embedding
    assert torch.equal(table, embedding.pos_embed.pos_embed)
    assert (grid, prefix) == (embedding.patch_embed.grid_size, model.config.num_prefix_tokens)
    model.backbone.save_pretrained(tmp_path / "backbone")
    backbone = vit.load_pretrained(tmp_path / "backbone", device="cpu", dtype=torch.float64)
    assert type(backbone) is vit.ViTModel and backbone.config == model.backbone.config
    assert {p.dtype for p in backbone.parameters()} == {torch.float64}


def test_what_another_library_trained_can_be_kept(tmp_path):
    theirs = transformers_model(id2label={i: str(i) for i in range(7)})
    theirs.save_pretrained(tmp_path / "theirs")
    peer("transformers").ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(
        tmp_path / "theirs"
    )
    loaded = vit.load_pretrained(tmp_path / "theirs")
    loaded.save_pretrained(tmp_path / "ours")
    again, image = vit.load_pretrained(tmp_path / "ours"), photographs()[0]
    logits = again(again.preprocess(image))
    assert again.labels[logits.argmax()] == loaded.labels[loaded(loaded.preprocess(image)).argmax()]
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(again(x), theirs(x).logits, rtol=1e-4, atol=1e-4)


def test_config_json_repeats_what_the_weights_say_for_people_to_read(tmp_path):
    prepared().save_pretrained(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert about["config"]["image_size"] == [16, 16] and about["labels"][0] == "猫"
    (tmp_path / "config.json").unlink()
    assert vit.load_pretrained(tmp_path).labels[0] == "猫"  # the weights are complete in themselves
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]


def test_a_model_that_its_config_does_not_describe_is_not_saved(tmp_path):
    def other_head(model):
        model.head.head = torch.nn.Linear(16, 4)

    def other_activation(model):
        model.backbone.encoder.layers[1].mlp.net[1] = torch.nn.ReLU()

    def fewer_layers(model):
        del model.backbone.encoder.layers[1]

    def parametrised(model):
        torch.nn.utils.parametrizations.weight_norm(model.head.head)

    def other_pool(model):
        model.head.pool = "mean"

    def other_eps(model):
        model.backbone.encoder.norm.eps = 0.1

    def made_dynamic(model):
        model.backbone.embedding.dynamic_image_size = True

    def patched(model):
        model.forward = lambda x: x

    changes = (other_head, other_activation, fewer_layers, parametrised)
    for change in (*changes, other_pool, other_eps, made_dynamic, patched):
        model = prepared()
        change(model)
        with pytest.raises(ValueError, match=r"model\.config does not describe .*: \S+ differs\.$"):
            model.save_pretrained(tmp_path / "never")
    other = type("Other", (vit.ViTForImageClassification,), {})
    with pytest.raises(ValueError, match="Cannot save a Other"):
        other(16, 4, 3, 3, 16, 4, 1, 32).save_pretrained(tmp_path / "never")
    model = prepared()
    model.labels = ("one",)
    with pytest.raises(ValueError, match="Expected 3 labels"):
        model.save_pretrained(tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_tied_parameters_are_saved_and_come_back_equal(tmp_path):
    model = prepared()
    first, second = model.backbone.encoder.layers
    second.mlp.net[0].weight = first.mlp.net[0].weight
    model.save_pretrained(tmp_path)
    loaded = vit.load_pretrained(tmp_path)
    assert all(torch.equal(v, loaded.state_dict()[k]) for k, v in model.state_dict().items())


def test_several_processes_save_to_one_folder_at_once(tmp_path):
    code = f"""
import torch, dnnl.models.vit as vit
model = vit.ViTForImageClassification(16, 4, 3, 3, 16, 4, 2, 32)
for _ in range(20):
    model.save_pretrained({str(tmp_path)!r})
"""
    cwd = Path(vit.__file__).parents[3]
    runs = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], cwd=cwd) for _ in "ab"]
    assert [run.wait() for run in runs] == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert vit.load_pretrained(tmp_path)


@pytest.mark.parametrize("mess", ["{", "[]", '{"labels": 5}'])
def test_a_broken_config_json_beside_our_own_weights_does_not_matter(mess, tmp_path):
    prepared().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(mess)
    assert vit.load_pretrained(tmp_path).labels[0] == "猫"
    assert vit.extract_pos_embedding(tmp_path).grid_size == (4, 4)


def test_a_saved_model_is_taken_to_another_size_or_another_number_of_classes(tmp_path):
    model = prepared(resize="timm").eval()
    model.save_pretrained(tmp_path)
    larger = vit.load_pretrained(tmp_path, image_size=24)
    table = model.backbone.embedding.pos_embed.pos_embed
    want = vit.interpolate_pos_embedding(table, 4, 6, **vit.RESIZE_SETTINGS["timm"])
    assert torch.equal(larger.backbone.embedding.pos_embed.pos_embed, want)
    assert larger.config.image_size == (24, 24) and larger.preprocess.crop == (24, 24)
    dynamic = vit.load_pretrained(tmp_path, dynamic_image_size=True)
    x = torch.rand(2, 3, 24, 24)
    torch.testing.assert_close(dynamic(x), larger(x))
    other = vit.load_pretrained(tmp_path, num_classes=5)
    assert other(torch.rand(1, 3, 16, 16)).shape == (1, 5) and other.labels == ()
    backbone, x = vit.load_pretrained(tmp_path, num_classes=0), torch.rand(2, 3, 16, 16)
    assert torch.equal(backbone(x), model.backbone(x))
    with pytest.raises(vit.ShapeError, match="divisible"):
        vit.load_pretrained(tmp_path, image_size=18)


def test_a_save_that_fails_leaves_the_old_model_and_nothing_else(tmp_path, monkeypatch):
    import safetensors.torch

    old = prepared()
    old.save_pretrained(tmp_path)

    def full_disk(tensors, path, metadata):
        with open(path, "wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full_disk)
    with pytest.raises(OSError, match="No space"):
        prepared().save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    x = torch.rand(1, 3, 16, 16)
    assert torch.equal(vit.load_pretrained(tmp_path)(x), old.eval()(x))


def rewritten(tmp_path, **change):
    """Save a model, then change its description and keep its weights."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    prepared().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["dnnl"])
        weights = {name: file.get_tensor(name).clone() for name in file.keys()}
    about["config"] |= change.pop("config", {})
    save_file(weights, path, {"dnnl": json.dumps({**about, **change})})


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"num_layers": 10**6}},
        {"config": {"num_layers": 1}},
        {"config": {"embed_dim": 2**40}},
        {"config": {"hidden_dim": 64}},
        {"config": {"num_heads": 5}},
        {"config": {"activation": ["gelu"]}},
        {"config": {"surprise": 1}},
        {"config": {"patch_size": "large"}},
        {"labels": 5},
        {"labels": "abc"},
        {"config": {"norm_eps": "a"}},
        {"config": {"norm_eps": None}},
        {"config": {"dynamic_image_size": "false"}},
        {"config": {"embed_dim": 2**31 - 1}},
        {"preprocess": {"crop": 16, "mean": [10**400, 0, 0]}},
        {"preprocess": {"crop": -1}},
        {"preprocess": {"code": "import os"}},
        {"format": "dnnl-model/99"},
        {"format": None},
    ],
)
def test_a_description_that_does_not_fit_its_weights_is_an_error(change, tmp_path):
    rewritten(tmp_path, **change)
    with pytest.raises(vit.CheckpointError, match=r"model\.safetensors"):
        vit.load_pretrained(tmp_path)


def test_settings_of_a_saved_model_are_not_overridden_in_silence(tmp_path):
    prepared().save_pretrained(tmp_path)
    with pytest.raises(vit.CheckpointError, match="num_heads= cannot change it"):
        vit.load_pretrained(tmp_path, num_heads=2)
