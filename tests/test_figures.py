"""The figures show what they are given: the numbers behind them, not only that they are drawn."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import dnnl.models.vit as vit
from dnnl import data, figures


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


IMAGE = torch.rand(3, 12, 24, generator=torch.Generator().manual_seed(0))


def _texts(figure):
    return [t.get_text() for ax in figure.axes for t in ax.texts]


def test_patch_grid_numbers_patches_row_by_row() -> None:
    assert _texts(figures.patch_grid(IMAGE, 6)) == [str(i) for i in range(8)]
    assert _texts(figures.patch_grid(IMAGE, 6, label="row")) == list("00001111")
    assert _texts(figures.patch_grid(IMAGE, 6, label="column")) == list("01230123")
    assert _texts(figures.patch_grid(IMAGE, 6, label="position"))[5] == "1,1"
    assert _texts(figures.patch_grid(IMAGE, 6, label=None)) == []
    figure = figures.patch_grid(IMAGE, (4, 8), highlight=[4])  # row 1, column 1
    marked = [p for p in figure.axes[0].patches if p.get_linewidth() > 2]
    assert [p.get_xy() for p in marked] == [(7.5, 3.5)]


def test_patch_grid_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(vit.ShapeError, match="divisible"):
        figures.patch_grid(IMAGE, 7)
    with pytest.raises(vit.ShapeError, match="image"):
        figures.patch_grid(IMAGE[None], 6)
    with pytest.raises(ValueError, match="'name'"):
        figures.patch_grid(IMAGE, 6, label="name")


def test_sequence_strip_shows_the_patches_in_order() -> None:
    figure = figures.sequence_strip(IMAGE, 6, num_prefix_tokens=1, positions=True, first=5)
    assert len(figure.axes) == 1 + 5 + 1  # the class token, five patches, "and so on"
    for i, ax in enumerate(figure.axes[1:6]):
        row, column = divmod(i, 4)
        patch = IMAGE[:, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6].permute(1, 2, 0)
        np.testing.assert_allclose(ax.images[0].get_array(), patch, atol=1 / 63)
    assert [t for t in _texts(figure) if t.startswith("P")] == [f"P{i}" for i in range(6)]


def test_similarity_maps_show_cosines_and_leave_out_the_prefix() -> None:
    """Public report 12: maps of a table with its class row are not shifted by one patch."""
    table = torch.randn(1, 2 + 12, 5, generator=torch.Generator().manual_seed(0))
    figure = figures.similarity_maps(table, (3, 4), num_prefix_tokens=2)
    maps = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    for i in range(12):
        expected = F.cosine_similarity(table[0, 2 + i], table[0, 2:], dim=-1).reshape(3, 4)
        np.testing.assert_allclose(maps[i], expected, atol=1e-5)
    with pytest.raises(vit.ShapeError, match="12 rows"):
        figures.similarity_maps(table, (3, 4), num_prefix_tokens=1)


def test_similarity_maps_of_a_large_grid_show_its_corners() -> None:
    table = vit.sincos_pos_embedding(14, 8)
    figure = figures.similarity_maps(table, 14, num_prefix_tokens=0)
    assert len([ax for ax in figure.axes if ax.images]) == 49
    last = [ax for ax in figure.axes if ax.images][-1]
    assert (last.lines[0].get_xdata()[0], last.lines[0].get_ydata()[0]) == (13, 13)


def test_similarity_rows_are_the_maps_of_each_table_in_its_own_colours() -> None:
    draw = torch.Generator().manual_seed(0)
    tables = {name: torch.randn(1, 1 + 12, 5, generator=draw) for name in ("one", "two")}
    spots = [(0, 0), (2, 3)]
    figure = figures.similarity_rows(tables, (3, 4), spots)
    for i, (name, table) in enumerate(tables.items()):
        row = figure.axes[2 * i : 2 * i + 2]
        for ax, (r, c) in zip(row, spots, strict=True):
            query = table[0, 1 + 4 * r + c]
            expected = F.cosine_similarity(query, table[0, 1:], dim=-1).reshape(3, 4)
            np.testing.assert_allclose(ax.images[0].get_array(), expected, atol=1e-5)
            assert (ax.lines[0].get_xdata()[0], ax.lines[0].get_ydata()[0]) == (c, r)
        low = min(ax.images[0].get_array().min() for ax in row)
        assert {ax.images[0].get_clim() for ax in row} == {(low, 1)}
        assert row[0].get_ylabel() == f"{name}\n{low:.1f} … 1"
    with pytest.raises(vit.ShapeError, match="12 rows"):
        figures.similarity_rows(tables, (3, 4), spots, num_prefix_tokens=0)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("old", "new"), [(6, 9), (9, 4), (5, 5), (7, 1)])
def test_sampling_positions_are_where_torch_samples(
    old: int, new: int, align_corners: bool
) -> None:
    # Inside the ramp a bilinear resize reads off the very position that it samples.
    ramp = torch.arange(old, dtype=torch.float64).reshape(1, 1, 1, old)
    read = F.interpolate(
        ramp, size=(1, new), mode="bilinear", align_corners=align_corners
    ).flatten()
    ours = torch.tensor(figures.sampling_positions(old, new, align_corners=align_corners))
    torch.testing.assert_close(read, ours.double().clamp(0, old - 1))


def test_sampling_grid_draws_both_conventions() -> None:
    figure = figures.sampling_grid(4, 6)
    for ax, corners in zip(figure.axes, (False, True), strict=True):
        drawn = ax.lines[1].get_xdata()
        np.testing.assert_allclose(drawn, figures.sampling_positions(4, 6, align_corners=corners))


def test_attention_maps_show_the_row_of_the_query() -> None:
    attention = torch.rand(2, 13, 13, generator=torch.Generator().manual_seed(0))
    figure = figures.attention_maps(attention, (3, 4), query=5)
    for head, ax in enumerate(figure.axes[:2]):
        np.testing.assert_allclose(ax.images[0].get_array(), attention[head, 5, 1:].reshape(3, 4))
    with pytest.raises(vit.ShapeError, match="9 patches"):
        figures.attention_maps(attention, 3)


def test_attention_maps_of_several_layers_begin_a_line_each() -> None:
    layers = torch.rand(3, 2, 13, 13, generator=torch.Generator().manual_seed(0))
    figure = figures.attention_maps(list(layers), (3, 4), image=IMAGE)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[:3] == ["image", "layer 0, head 0", "layer 0, head 1"]
    assert titles[3:6] == ["", "layer 1, head 0", "layer 1, head 1"]
    for layer in range(3):
        for head in range(2):
            shown = figure.axes[3 * layer + 1 + head].images[0].get_array()
            np.testing.assert_allclose(shown, layers[layer, head, 0, 1:].reshape(3, 4))
    assert len(figures.attention_maps(list(layers), (3, 4)).axes) == 6
    with pytest.raises(vit.ShapeError, match="9 patches"):
        figures.attention_maps(list(layers), 3)


def test_scatter_tells_groups_apart_by_colour_and_marker() -> None:
    generator = torch.Generator().manual_seed(0)
    points, labels = torch.randn(60, 2, generator=generator), torch.arange(60) % 12
    names = [f"group {i}" for i in range(12)]
    figure = figures.scatter(points, labels, names)
    drawn = figure.axes[0].collections
    for i, dots in enumerate(drawn):
        np.testing.assert_allclose(dots.get_offsets(), points[labels == i], atol=1e-6)
    looks = {(tuple(d.get_facecolor()[0]), d.get_paths()[0].vertices.tobytes()) for d in drawn}
    assert len(looks) == len(drawn) == 12
    assert [t.get_text() for t in figure.axes[0].texts] == names
    middle = figure.axes[0].texts[3].xy
    np.testing.assert_allclose(middle, points[labels == 3].median(dim=0).values, atol=1e-6)


def test_scatter_refuses_points_without_labels_and_skips_empty_groups() -> None:
    figure = figures.scatter(torch.zeros(2, 2), torch.tensor([0, 2]), ["a", "b", "c"])
    assert _texts(figure) == ["a", "c"]
    with pytest.raises(vit.ShapeError, match=r"\(3, 2\) and \(2,\)"):
        figures.scatter(torch.zeros(3, 2), torch.zeros(2, dtype=torch.long), ["a"])
    with pytest.raises(vit.ShapeError, match="labels"):
        figures.scatter(torch.zeros(3, 3), torch.zeros(3, dtype=torch.long), ["a"])


def test_pipeline_writes_the_shapes_and_shows_tokens_as_rows() -> None:
    tokens = torch.randn(5, 3)
    figure = figures.pipeline({"image": IMAGE, "tokens": tokens})
    assert [ax.get_title() for ax in figure.axes] == ["image\n(3, 12, 24)", "tokens\n(5, 3)"]
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), tokens)


def test_curves_and_bars_draw_their_numbers() -> None:
    figure = figures.curves({"a": [3.0, 1.0], "b": [2.0, 2.0]}, x=[0, 10], dashed=0.5)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_data(), [[0, 10], [3, 1]])
    figure = figures.bars({"one": 1.0, "two": 2.0})
    assert [p.get_width() for p in figure.axes[0].patches] == [2, 1]  # read from the top down
    assert {"1.00", "2.00"} <= set(_texts(figure))


def test_figures_have_no_background_and_leave_the_readers_style_alone() -> None:
    before = dict(plt.rcParams)
    figure = figures.images({"cat": data.photograph("cat", 32)})
    assert figure.get_facecolor()[3] == 0
    assert dict(plt.rcParams) == before


def test_a_photograph_is_shown_to_six_bits() -> None:
    image = data.photograph("cat", 64)
    shown = figures.images({"": image}, size=3).axes[0].images[0].get_array()
    assert np.abs(shown - image.permute(1, 2, 0).numpy()).max() <= 0.5 / 63 + 1e-6


# ---- what they refuse, and what they leave open --------------------------------------------------

ATTENTION = torch.full((2, 13, 13), 1 / 13)
TABLE = torch.randn(1, 13, 4, generator=torch.Generator().manual_seed(0))
PICTURES = {
    "two channels": (torch.rand(2, 8, 8), r"1, 3 or 4 channels, .* but got \(2, 8, 8\)"),
    "channels last": (torch.rand(8, 8, 3), r"1, 3 or 4 channels, .* but got \(8, 8, 3\)"),
    "a batch": (torch.rand(1, 3, 8, 8), r"but got \(1, 3, 8, 8\)"),
    "no pixels": (torch.rand(3, 0, 8), "with pixels"),
    "int64": (torch.zeros(3, 8, 8, dtype=torch.long), "uint8, but got torch.int64"),
    "an array": (np.zeros((3, 8, 8)), "torch.Tensor .* but got ndarray"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_pictures_of_other_layouts_are_refused_in_our_words(kind: str) -> None:
    picture, message = PICTURES[kind]
    for draw in (figures.images, figures.pipeline):
        with pytest.raises(vit.ShapeError, match=message):
            draw({"x": picture})


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figures.images({}), "at least one picture"),
        (lambda: figures.images({"a": IMAGE}, columns=0), "columns of at least 1"),
        (lambda: figures.pipeline({}), "at least one tensor"),
        (lambda: figures.curves({}), "at least one line"),
        (lambda: figures.curves({"a": []}), "values in the line 'a', but got 0"),
        (lambda: figures.curves({"a": [1, 2]}, x=[1]), "1 values in the line 'a', but got 2"),
        (lambda: figures.bars({}), "at least one value"),
        (lambda: figures.sequence_strip(IMAGE, 6, first=0), "first of at least 1"),
        (lambda: figures.sequence_strip(IMAGE, 6, num_prefix_tokens=-1), "num_prefix_tokens"),
        (lambda: figures.patch_grid(IMAGE, 6, highlight=[8]), "from 0 to 7, but got 8"),
        (lambda: figures.similarity_maps(TABLE, (3, 4), positions=[]), "at least one position"),
        (lambda: figures.similarity_maps(TABLE, (3, 4), positions=[(3, 0)]), r"but got \(3, 0\)"),
        (lambda: figures.similarity_maps(TABLE, (3, 4), positions=[(0, -1)]), "but got"),
        (lambda: figures.similarity_maps(TABLE.expand(2, -1, -1), (3, 4)), r"got \(2, 13, 4\)"),
        (lambda: figures.similarity_rows({}, (3, 4), [(0, 0)]), "at least one table"),
        (lambda: figures.similarity_rows({"a": TABLE}, (3, 4), []), "at least one position"),
        (lambda: figures.sampling_grid(0, 3), "old_size of at least 1"),
        (lambda: figures.sampling_grid(3, 0), "new_size of at least 1"),
        (lambda: figures.attention_maps(ATTENTION[:0], (3, 4)), "at least one head"),
        (lambda: figures.attention_maps(ATTENTION[:, :5], (3, 4)), r"got \(2, 5, 13\)"),
        (lambda: figures.attention_maps([], (3, 4)), "at least one layer"),
        (lambda: figures.attention_maps(ATTENTION, (3, 4), query=13), "query from 0 to 12"),
        (lambda: figures.attention_maps(ATTENTION, (3, 4), query=-1), "query from 0 to 12"),
        (
            lambda: figures.scatter(torch.zeros(2, 2), torch.tensor([0, 2]), ["a", "b"]),
            "labels from 0 to 1, one for each name, but got 2",
        ),
        (
            lambda: figures.scatter(torch.zeros(2, 2), torch.tensor([0, -1]), ["a", "b"]),
            "but got -1",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_our_words(draw, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()
    assert plt.get_fignums() == []


def test_a_figure_that_fails_half_way_is_closed_and_others_stay_open(monkeypatch) -> None:
    mine = figures.images({"a": IMAGE})
    with pytest.raises(vit.ShapeError):
        figures.images({"a": IMAGE, "b": torch.rand(2, 8, 8)})  # fails at the second picture
    with pytest.raises(KeyboardInterrupt), figures.drawing():
        plt.figure()
        raise KeyboardInterrupt
    assert plt.get_fignums() == [mine.number]


def test_many_curves_are_all_drawn_and_no_two_look_alike() -> None:
    lines = {f"line {i}": [float(i), i + 1.0] for i in range(20)}
    (ax,) = figures.curves(lines).axes
    assert [t.get_text() for t in ax.texts] == list(lines)
    for line, values in zip(ax.lines, lines.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), values)
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}
    assert len(looks) == 20
    assert {line._unscaled_dash_pattern[1] for line in ax.lines[:6]} == {None}  # solid


def test_pictures_of_bytes_are_shown_as_their_floats_are() -> None:
    image = (data.photograph("cat", 32) * 255).round()
    shown, expected = (
        figures.images({"": picture}).axes[0].images[0].get_array()
        for picture in (image.byte(), image / 255)
    )
    np.testing.assert_array_equal(shown, expected)
    assert 0.1 < float(np.mean(shown)) < 0.9


def test_half_precision_is_drawn() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        figures.images({"": IMAGE.to(dtype), "matrix": IMAGE[0].to(dtype)})
        figures.similarity_maps(TABLE.to(dtype), (3, 4))
        figures.attention_maps(ATTENTION.to(dtype), (3, 4))
