"""The checks of the exercises: right answers pass, plausible wrong ones are told why not."""

import pytest
import torch
import torch.nn.functional as F

import dnnl.models.vit as vit
from dnnl import exercises


def _sincos(n, d):
    w = 10000.0 ** (-torch.arange(d // 2, dtype=torch.float64) / (d // 2))
    a = torch.arange(n, dtype=torch.float64)[:, None] * w
    return torch.cat([a.sin(), a.cos()], 1).float()


def _resize(table, old, new, prefix):
    head, grid = table[:, :prefix], table[:, prefix:].reshape(1, *old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=new, mode="bicubic").permute(0, 2, 3, 1)
    return torch.cat([head, grid.reshape(1, new[0] * new[1], -1)], 1)


def _rows(grid):
    return torch.arange(grid[0] * grid[1]).reshape(grid)


def _parameters(image, patch, dim, prefix):
    n = image[0] // patch[0] * (image[1] // patch[1])
    return prefix + n, (3 * patch[0] * patch[1] + 1) * dim + prefix * dim + (prefix + n) * dim


RIGHT = {
    "patchify": vit.patchify,
    "mean_pool": lambda x, prefix: x[:, prefix:].mean(1),
    "add_registers": lambda x, c, r: torch.cat(
        [c.expand(len(x), -1, -1), r.expand(len(x), -1, -1), x], 1
    ),
    "swap_halves": lambda grid: _rows(grid).roll(grid[0] // 2, 0).flatten(),
    "sincos": _sincos,
    "fold": lambda cls, table: (cls + table[:, :1], table[:, 1:]),
    "resize": _resize,
    "shapes": _parameters,
}

WRONG = {
    "patchify": [
        lambda x, p: x.reshape(len(x), -1, x.shape[1] * p * p),
        lambda x, p: F.unfold(x, p, stride=p),
        lambda x, p: None,
    ],
    "mean_pool": [lambda x, prefix: x.mean(1), lambda x, prefix: x[:, prefix:].amax(1)],
    "add_registers": [
        lambda x, c, r: torch.cat([r.expand(len(x), -1, -1), c.expand(len(x), -1, -1), x], 1),
        lambda x, c, r: torch.cat(
            [c.detach().expand(len(x), -1, -1), r.expand(len(x), -1, -1), x], 1
        ),
        lambda x, c, r: torch.cat([c, r, x], 1),
    ],
    "swap_halves": [
        lambda grid: _rows(grid).flip(0).flatten(),
        lambda grid: _rows(grid).roll(1, 1).flatten(),
        lambda grid: torch.zeros(grid[0] * grid[1], dtype=torch.long),
    ],
    "sincos": [lambda n, d: torch.zeros(n, d), lambda n, d: _sincos(n, d).roll(1, 0)],
    "fold": [
        lambda cls, table: (cls, table[:, 1:]),
        lambda cls, table: (cls + table[:, :1], table[:, :-1]),
    ],
    "resize": [
        lambda t, old, new, prefix: _resize(t, old[::-1], new, prefix),
        lambda t, old, new, prefix: _resize(t, old, new, 1),
        lambda t, old, new, prefix: t[:, : prefix + new[0] * new[1]],
    ],
    "shapes": [lambda image, patch, dim, prefix: _parameters(image, patch, dim, 1)],
}


def test_every_exercise_is_tried_here() -> None:
    assert set(RIGHT) == set(WRONG) == set(exercises.EXERCISES)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_right(name: str, capsys) -> None:
    exercises.check(name, RIGHT[name])
    assert capsys.readouterr().out.startswith("Right: ")


@pytest.mark.parametrize(("name", "answer"), [(n, a) for n, many in WRONG.items() for a in many])
def test_a_plausible_wrong_answer_is_told_why_not(name: str, answer, capsys) -> None:
    exercises.check(name, answer)
    out = capsys.readouterr().out
    assert out.startswith("Not yet: ") and len(out) > 30
    assert max(map(len, out.splitlines())) <= 80


def test_an_answer_that_gives_nan_is_not_right(capsys) -> None:
    exercises.check("mean_pool", lambda x, prefix: x[:, prefix:].mean(1) * float("nan"))
    assert capsys.readouterr().out.startswith("Not yet: ")


def test_an_unknown_exercise_is_an_error() -> None:
    with pytest.raises(KeyError, match="patchify"):
        exercises.check("no such", len)
