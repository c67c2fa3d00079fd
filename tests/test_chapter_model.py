"""The trained model: what the shipped weights can do, and what the class does with bad input."""

import json
import os
import re
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import dnnl
import dnnl.models.vit as vit
from dnnl import data, training
from dnnl.chapter_model import ASSET, ChapterModel


@pytest.fixture(scope="module")
def model() -> ChapterModel:
    return dnnl.load_chapter_model()


@pytest.fixture(scope="module")
def images() -> dict[str, torch.Tensor]:
    return data.photographs()


@pytest.fixture(scope="module")
def results(model, images) -> dict[str, float]:
    return training.evaluate(model, images, training.Recipe())


# ---- what it can do -----------------------------------------------------------------------------


def test_the_shipped_weights_reach_the_promised_quality(results) -> None:
    assert results["masked_error"] <= 0.20
    assert results["accuracy"] >= 0.98
    assert results["masked_error"] <= 0.25 * results["zeroed_error"]
    assert results["masked_error"] <= 0.5 * results["shuffled_error"]


def test_file_and_card_say_what_is_measured(model, results) -> None:
    card = (ASSET.parent / "README.md").read_text()
    for name, value in results.items():
        assert model.about["results"][name] == pytest.approx(value, abs=2e-3), name
        assert f"| {value:.3f} |" in card, name
    assert model.about["recipe"] == training.asdict(training.Recipe())
    parameters = sum(p.numel() for p in model.parameters())
    assert f"{parameters:,} parameters" in card
    assert ASSET.stat().st_size < 1_000_000


def test_the_card_names_every_photograph_with_its_author_and_licence(model) -> None:
    card = (ASSET.parent / "README.md").read_text()
    assert model.photographs == tuple(data.PHOTOGRAPHS)
    for name, p in data.PHOTOGRAPHS.items():
        assert f"| {name} | {p.subject} | {p.author} | {p.licence} |" in card


def test_it_names_the_photograph_of_a_crop_of_another_draw(model, images) -> None:
    x, label = data.crops(images, 300, 56, torch.Generator().manual_seed(2026))
    with torch.no_grad():
        right = (model(x).argmax(1) == label).float().mean().item()
    assert right >= 0.98


def test_its_positions_are_bumps_on_the_grid(model) -> None:
    """The nearer two patches, the more alike their rows; the class row is like none of them."""
    table = model.embedding.pos_embed.pos_embed[0].detach()
    unit = torch.nn.functional.normalize(table, dim=-1)
    place = torch.cartesian_prod(torch.arange(14.0), torch.arange(14.0))
    distance = torch.cdist(place, place).round()
    similarity = unit[1:] @ unit[1:].T
    means = torch.stack([similarity[distance == d].mean() for d in range(8)])
    assert bool((means[1:] < means[:-1]).all())  # falls with distance
    similarity.fill_diagonal_(-1)
    nearest = distance[torch.arange(196), similarity.argmax(1)]
    assert (nearest == 1).float().mean() > 0.95
    assert (unit[0] @ unit[1:].T).abs().max() < 0.5


# ---- what the class does ------------------------------------------------------------------------


def test_shapes_and_the_target(model, images) -> None:
    x, _ = data.crops(images, 2, 56, torch.Generator().manual_seed(0))
    target = model.standardize(x)
    assert target.shape == (2, 196, 48)
    torch.testing.assert_close(target, vit.patchify((x - 0.5) / 0.25, 4))
    torch.testing.assert_close(model.picture(target, 14), x)
    assert model(x).shape == (2, len(model.photographs)) and not model.training


def test_a_hidden_patch_is_not_seen_and_the_others_are(model, images) -> None:
    x, _ = data.crops(images, 1, 56, torch.Generator().manual_seed(0))
    mask = torch.zeros(1, 196, dtype=torch.bool)
    mask[0, 30] = True
    x.requires_grad_()
    model.reconstruct(x, mask).square().sum().backward()
    felt = vit.patchify(x.grad, 4)[0].abs().sum(1)
    assert felt[30] == 0 and (felt > 0).sum() == 195


def test_an_empty_mask_hides_nothing(model, images) -> None:
    x, _ = data.crops(images, 2, 56, torch.Generator().manual_seed(0))
    none = torch.zeros(2, 196, dtype=torch.bool)
    assert torch.equal(model.encode(x, none), model.encode(x))


def test_its_own_table_given_by_hand_changes_nothing(model, images) -> None:
    x, _ = data.crops(images, 2, 56, torch.Generator().manual_seed(0))
    table = model.embedding.pos_embed.pos_embed
    assert torch.equal(model.encode(x, pos_embed=table), model.encode(x))
    wide, _ = data.crops(images, 2, (40, 72), torch.Generator().manual_seed(0))
    resized = vit.interpolate_pos_embedding(table, 14, (10, 18))
    assert torch.equal(model.encode(wide, pos_embed=resized), model.encode(wide))


def test_without_positions_the_holes_get_one_flat_patch(model, images) -> None:
    x, _ = data.crops(images, 4, 56, torch.Generator().manual_seed(0))
    mask = torch.rand(4, 196) < 0.5
    zeros = torch.zeros_like(model.embedding.pos_embed.pos_embed)
    with torch.no_grad():
        filled = model.reconstruct(x, mask, zeros)
    for i in range(4):
        torch.testing.assert_close(filled[i][mask[i]].std(0).max().item(), 0.0, atol=1e-4, rtol=0)


def test_bad_masks_and_tables_are_told(model) -> None:
    x = torch.rand(2, 3, 56, 56)
    with pytest.raises(vit.ShapeError, match=r"mask of shape \(2, 196\), but got \(1, 196\)"):
        model.reconstruct(x, torch.zeros(1, 196, dtype=torch.bool))
    with pytest.raises(vit.DTypeError, match=r"boolean mask .* torch.float32"):
        model.reconstruct(x, torch.zeros(2, 196))
    with pytest.raises(vit.ShapeError, match=r"table of shape \(1, 197, 64\)"):
        model.encode(x, pos_embed=torch.zeros(1, 196, 64))
    with pytest.raises(vit.ShapeError, match="divisible"):
        model(torch.rand(2, 3, 57, 56))


def test_it_works_on_other_grids(model, images) -> None:
    x, label = data.crops(images, 64, (40, 72), torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert (model(x).argmax(1) == label).float().mean() > 0.9


# ---- its file -----------------------------------------------------------------------------------


def test_a_saved_model_comes_back_up_to_float16(model, tmp_path, images) -> None:
    model.save(tmp_path / "m", results={"a": 1})
    again = ChapterModel.load(tmp_path / "m")
    assert again.photographs == model.photographs and again.about["results"] == {"a": 1}
    x, _ = data.crops(images, 2, 56, torch.Generator().manual_seed(0))
    assert torch.equal(again(x), model(x))  # what is shipped already is float16


@pytest.mark.parametrize(
    "how", ["truncated", "empty", "pickle", "foreign", "no photographs", "misfit"]
)
def test_a_damaged_or_foreign_file_is_refused(how: str, model, tmp_path) -> None:
    path = tmp_path / "m"
    model.save(path)
    weights = {name: t.half() for name, t in model.state_dict().items()}
    header = {"format": "dnnl-chapter-model/1", "about": json.dumps(model.about)}
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "pickle":
        torch.save(weights, path)
    elif how == "foreign":
        save_file(weights, path)
    elif how == "no photographs":
        save_file(weights, path, {**header, "about": "{}"})
    else:
        weights["mask_token"] = torch.zeros(1, 1, 63)
        save_file(weights, path, header)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        ChapterModel.load(path)
    with pytest.raises(FileNotFoundError):
        ChapterModel.load(tmp_path / "absent")


@pytest.fixture
def small() -> ChapterModel:
    return ChapterModel(
        ["a", "b"], image_size=8, embed_dim=8, num_heads=2, num_layers=1, hidden_dim=8
    )


def test_integer_pictures_are_refused(small) -> None:
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    mask = torch.zeros(2, 4, dtype=torch.bool)
    for use in (small, small.standardize, small.encode, lambda x: small.reconstruct(x, mask)):
        with pytest.raises(vit.DTypeError, match=r"torch.uint8: scale them first"):
            use(images)


@pytest.mark.parametrize("value", [65520.0, -1e6, float("inf"), float("nan")])
def test_weights_that_float16_cannot_hold_are_not_saved(value: float, small, tmp_path) -> None:
    path = tmp_path / "m"
    small.save(path)
    before = path.read_bytes()
    with torch.no_grad():
        small.decoder.weight[0, 0] = value
    with pytest.raises(ValueError, match="65504: the tensor 'decoder.weight'"):
        small.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m"]
    with torch.no_grad():
        small.decoder.weight[0, 0] = 65504.0
    small.save(path)
    assert ChapterModel.load(path).decoder.weight[0, 0] == 65504.0


def test_what_json_cannot_hold_is_refused_before_the_old_file_is_touched(small, tmp_path) -> None:
    path = tmp_path / "m"
    small.save(path)
    before = path.read_bytes()
    for about in ({"error": float("nan")}, {"results": [{"error": float("inf")}]}, {"x": object()}):
        with pytest.raises(ValueError, match="not valid JSON"):
            small.save(path, **about)
    assert path.read_bytes() == before


def test_the_file_has_the_format_that_it_always_had(small, tmp_path) -> None:
    small.save(tmp_path / "m", results={"a": 1}, photographs=["no"])
    with safe_open(tmp_path / "m", "pt") as file:
        header = file.metadata()
        assert all(file.get_tensor(name).dtype == torch.float16 for name in file.keys())
    about = json.loads(header["about"])
    assert header["format"] == "dnnl-chapter-model/1"
    assert about == {
        "config": {
            "image_size": [8, 8],
            "patch_size": [4, 4],
            "embed_dim": 8,
            "num_heads": 2,
            "num_layers": 1,
            "hidden_dim": 8,
        },
        "photographs": ["a", "b"],
        "results": {"a": 1},
    }


@pytest.mark.parametrize(
    "change",
    [
        {"num_layers": 10**6},
        {"embed_dim": 2**30, "num_heads": 1},
        {"image_size": 2**30},
        {"hidden_dim": 2**31},
        {"num_layers": "1"},
        {"num_layers": -1},
        {"depth": 1},
    ],
)
def test_an_absurd_description_is_refused_quickly(change, small, tmp_path) -> None:
    weights = {name: t.half() for name, t in small.state_dict().items()}
    about = {"photographs": ["a", "b"], "config": {**small.config, **change}}
    header = {"format": "dnnl-chapter-model/1", "about": json.dumps(about)}
    save_file(weights, tmp_path / "m", header)
    start = time.monotonic()
    with pytest.raises(ValueError, match="do not fit their description"):
        ChapterModel.load(tmp_path / "m")
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("about", ["[]", "NaN", "{", "[" * 10**5, '{"photographs": "ab"}'])
def test_a_description_of_another_kind_is_refused(about: str, small, tmp_path) -> None:
    weights = {name: t.half() for name, t in small.state_dict().items()}
    if about.startswith("{") and len(about) > 1:
        about = json.dumps({"config": small.config, "photographs": "ab"})
    save_file(weights, tmp_path / "m", {"format": "dnnl-chapter-model/1", "about": about})
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "m"))):
        ChapterModel.load(tmp_path / "m")


def test_a_file_of_weights_that_are_not_finite_is_refused(small, tmp_path) -> None:
    weights = {name: t.half() for name, t in small.state_dict().items()}
    weights["mask_token"][0, 0, 0] = float("nan")
    about = json.dumps({"config": small.config, "photographs": ["a", "b"]})
    save_file(weights, tmp_path / "m", {"format": "dnnl-chapter-model/1", "about": about})
    with pytest.raises(ValueError, match="'mask_token' holds values that are not finite"):
        ChapterModel.load(tmp_path / "m")


def test_loading_leaves_the_global_random_numbers_alone() -> None:
    state = torch.random.get_rng_state()
    loaded = dnnl.load_chapter_model()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(p.requires_grad and p.dtype == torch.float32 for p in loaded.parameters())


def test_the_weights_are_part_of_the_wheel() -> None:
    assert ASSET.is_file() and ASSET.is_relative_to(Path(dnnl.__file__).parent)
