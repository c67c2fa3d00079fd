"""The photographs: where they are from, how they are cropped, and what a bad folder says."""

import os
from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image

from dnnl import data
from dnnl.models.vit import DTypeError, ShapeError


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


def _write(folder, name: str, image: Image.Image, **options) -> dict[str, torch.Tensor]:
    image.save(folder / name, **options)
    return data.photographs(folder, short_side=min(image.size))


def test_a_sixteen_bit_grey_png_keeps_its_greys(tmp_path) -> None:
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    (image,) = _write(tmp_path, "ramp.png", Image.fromarray(ramp)).values()
    expected = torch.from_numpy(ramp / 65535).float().expand(3, -1, -1)
    torch.testing.assert_close(image, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["turned.jpg", "turned.png"])
@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (3, 2), (6, 3), (8, 1)])
def test_photographs_are_turned_as_their_exif_data_say(name, orientation, turns, tmp_path) -> None:
    stored = np.zeros((40, 60, 3), np.uint8)
    stored[:20, :30] = 255  # the upper left quarter is white
    exif = Image.Exif()
    exif[274] = orientation
    (image,) = _write(tmp_path, name, Image.fromarray(stored), exif=exif).values()
    expected = np.rot90(stored[..., 0], turns) / 255  # 6: the camera was turned, undo clockwise
    np.testing.assert_allclose(image[0].numpy().round(), expected)


def test_a_photograph_one_pixel_wide_has_the_colours_of_its_crop() -> None:
    column = data.photograph("cat", (64, 1))
    whole = data.photograph("cat", None)  # 300 × 451: the crop is a strip of about 5 columns
    strip = whole[:, :, 223:228].mean(dim=(1, 2))
    torch.testing.assert_close(column.mean(dim=(1, 2)), strip, rtol=0, atol=0.02)


def test_only_png_and_jpeg_files_are_opened_whatever_their_name(tmp_path) -> None:
    Image.fromarray(np.ones((9, 9), np.float32)).save(tmp_path / "x.tiff")
    (tmp_path / "x.tiff").rename(tmp_path / "float.png")
    with pytest.raises(ValueError, match=r"PNG or JPEG image, but float\.png cannot be read"):
        data.photographs(tmp_path)


@pytest.mark.parametrize("most", [10, 60])  # pixels: Pillow's error, and its warning
def test_a_decompression_bomb_is_refused_by_name(most: int, tmp_path, monkeypatch) -> None:
    Image.new("L", (10, 10)).save(tmp_path / "huge.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(ValueError, match=r"huge\.png cannot be read: .*bomb"):
        data.photographs(tmp_path)


def test_whatever_pillow_raises_names_the_file(tmp_path, monkeypatch) -> None:
    Image.new("L", (9, 9)).save(tmp_path / "odd.png")

    def fail(*_: object, **__: object) -> None:
        raise AttributeError("deep inside")

    monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(ValueError, match=r"odd\.png cannot be read: deep inside"):
        data.photographs(tmp_path)


def test_extreme_proportions_are_refused_with_the_limit(tmp_path) -> None:
    Image.new("L", (160, 10)).save(tmp_path / "panorama.png")
    assert data.photographs(tmp_path, short_side=4)["panorama"].shape == (3, 4, 64)
    Image.new("L", (1, 17)).save(tmp_path / "line.png")
    with pytest.raises(ValueError, match=r"up to 16:1, but line\.png has 17×1 pixels"):
        data.photographs(tmp_path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path) -> None:
    Image.new("L", (9, 9)).save(tmp_path / "x.png")
    try:
        os.rename(tmp_path / "x.png", os.fsencode(tmp_path) + b"/caf\xe9.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    with pytest.raises(ValueError, match="file names in UTF-8, but got 'caf"):
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


def test_integer_pixels_are_not_standardised() -> None:
    with pytest.raises(DTypeError, match=r"\[0, 1\], but got torch.uint8: scale them first"):
        data.standardize(torch.zeros(3, 4, 4, dtype=torch.uint8))


def test_crops_larger_than_a_photograph_are_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(ShapeError, match=r"at least 8×9 pixels, but got \(3, 20, 8\)"):
        data.crops([torch.zeros(3, 20, 20), torch.zeros(3, 20, 8)], 2, (8, 9), generator)
    with pytest.raises(ShapeError, match="at least one photograph"):
        data.crops({}, 2, 8, generator)
