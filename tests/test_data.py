"""The photographs: where they are from, how they are cropped, and what a bad folder says."""

from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image

from dnnl import data
from dnnl.models.vit import ShapeError


@pytest.mark.parametrize("name", data.PHOTOGRAPHS)
def test_every_photograph_opens_and_names_its_author_and_licence(name: str) -> None:
    entry = data.PHOTOGRAPHS[name]
    assert entry.author and entry.licence and entry.subject
    image = data.photograph(name, None)
    assert image.dtype == torch.float32 and image.shape[0] == 3
    assert 0 <= image.min() and image.max() <= 1 and image.std() > 0.05  # a picture, not a plane


def test_the_pixels_are_those_of_the_file() -> None:
    with files("skimage").joinpath("data/chelsea.png").open("rb") as file:
        pixels = np.asarray(Image.open(file))
    image = data.photograph("cat", None)
    np.testing.assert_array_equal((image * 255).round().permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize("size", [(224, 224), (230, 238), (32, 96), (1, 1), (300, 10)])
def test_a_photograph_comes_in_the_asked_size(size: tuple[int, int]) -> None:
    image = data.photograph("coffee", size)
    assert image.shape == (3, *size)
    assert -1e-5 <= image.min() and image.max() <= 1 + 1e-5


def test_the_crop_is_the_middle_and_keeps_proportions() -> None:
    whole = data.photograph("cat", None)  # 300 × 451: a square crop loses 75 and 76 columns
    square = data.photograph("cat", 300)
    torch.testing.assert_close(square, whole[:, :, 75:375], rtol=0, atol=1e-6)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"cat.*'dog'"):
        data.photograph("dog")
    with pytest.raises(ShapeError):
        data.photograph("cat", 0)


def test_whole_photographs_share_their_short_side() -> None:
    for name, image in data.photographs(short_side=64).items():
        assert min(image.shape[1:]) == 64, name


def test_a_folder_of_ones_own_photographs_is_read_in_order(tmp_path) -> None:
    for i, name in enumerate(["b.png", "a.jpg", "c.PNG"]):
        Image.new("RGB" if i else "L", (90, 70 + i), 50 * i).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a picture")
    images = data.photographs(tmp_path, short_side=60)
    assert list(images) == ["a", "b", "c"]
    assert all(image.shape[0] == 3 and min(image.shape[1:]) == 60 for image in images.values())


def test_a_bad_folder_says_what_is_wrong(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="folder of photographs"):
        data.photographs(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="found none"):
        data.photographs(tmp_path)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")
    with pytest.raises(ValueError, match=r"broken\.png cannot be read"):
        data.photographs(tmp_path)
    Image.new("RGB", (9, 9)).save(tmp_path / "broken.png")
    Image.new("RGB", (9, 9)).save(tmp_path / "broken.jpg")
    with pytest.raises(ValueError, match="named 'broken'"):
        data.photographs(tmp_path)


def test_crops_are_cut_from_the_photograph_that_their_label_names() -> None:
    # Every pixel of image k holds k, its row and its column: a crop says where it is from.
    pool = [
        torch.stack(
            [
                torch.full((20 + k, 30), float(k)),
                torch.arange(20.0 + k)[:, None].expand(-1, 30),
                torch.arange(30.0).expand(20 + k, -1),
            ]
        )
        for k in range(3)
    ]
    x, label = data.crops(pool, 200, (8, 5), torch.Generator().manual_seed(0))
    assert x.shape == (200, 3, 8, 5)
    assert torch.equal(x[:, 0, 0, 0].long(), label)
    assert bool((x[:, 1, 1:] - x[:, 1, :-1] == 1).all())
    assert bool((x[:, 2, :, 1:] - x[:, 2, :, :-1] == 1).all())
    assert set(x[label == 0][:, 1, 0, 0].int().tolist()) == set(range(13))  # both borders reached
    assert int(x[:, 2].max()) == 29 and int(x[:, 2].min()) == 0


def test_crops_repeat_with_the_generator_and_flip_half_of_them() -> None:
    pool = [torch.arange(40.0).expand(3, 9, 40)]
    one, two = (
        data.crops(pool, 400, 6, torch.Generator().manual_seed(7), flip=True)[0] for _ in range(2)
    )
    assert torch.equal(one, two)
    mirrored = (one[:, 0, 0, 1] < one[:, 0, 0, 0]).float().mean()
    assert 0.4 < mirrored < 0.6


def test_standardising_is_undone() -> None:
    x = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(data.unstandardize(data.standardize(x)), x)
    torch.testing.assert_close(
        data.standardize(torch.tensor([0.0, 0.5, 1.0])), torch.tensor([-2.0, 0, 2])
    )
