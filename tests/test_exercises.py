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


def _said(capsys, name: str, answer) -> str:
    exercises.check(name, answer)
    return " ".join(capsys.readouterr().out.split())


def _fold_in_place(cls, table):
    cls += table[:, :1]
    return cls, table[:, 1:]


def _mean_in_place(x, prefix):
    return x.mul_(2)[:, prefix:].mean(1).div_(2)


def _patchify_in_place(x, p):
    out = vit.patchify(x, p).clone()
    x.zero_()
    return out


def _resize_in_place(table, old, new, prefix):
    out = _resize(table, old, new, prefix)
    table.zero_()
    return out


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("fold", _fold_in_place),
        ("fold", lambda cls, table: [cls + table[:, :1], table[0, 1:]]),  # broadcast when added
        ("mean_pool", _mean_in_place),
        ("patchify", _patchify_in_place),
        ("resize", _resize_in_place),
        ("swap_halves", lambda grid: RIGHT["swap_halves"](grid).to(torch.uint8)),
        ("swap_halves", lambda grid: RIGHT["swap_halves"](grid).int()),
        ("swap_halves", lambda grid: RIGHT["swap_halves"](grid).to(torch.int16).numpy()),
        ("swap_halves", lambda grid: RIGHT["swap_halves"](grid).tolist()),
        ("shapes", lambda *sizes: list(_parameters(*sizes))),
    ],
)
def test_a_right_answer_in_another_way_is_right(name: str, answer, capsys) -> None:
    assert _said(capsys, name, answer).startswith("Right: ")


def _stop(*_):
    raise SystemExit("enough")


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _mute(*_):
    raise _Mute


def _cut_gradient(x, c, r):
    out = RIGHT["add_registers"](x, c.detach(), r)
    return out + torch.zeros((), requires_grad=True)  # it has a gradient, but not this one


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("mean_pool", lambda x, p: x[:, p:].mean(1).to(torch.complex64) + 1j, "complex64 came"),
        ("mean_pool", _stop, "your function raised SystemExit: enough"),
        ("mean_pool", _mute, "your function raised _Mute: (a _Mute that cannot be printed)"),
        ("mean_pool", lambda x, p: x[:, p:].mean(1).to("meta"), "the values cannot be read"),
        ("mean_pool", 3, "your function raised TypeError"),
        ("swap_halves", lambda g: RIGHT["swap_halves"](g).float(), "torch.float32 came"),
        ("swap_halves", lambda g: RIGHT["swap_halves"](g) > 0, "torch.bool came"),
        ("swap_halves", lambda g: None, "indices of patches were expected, but NoneType came"),
        ("swap_halves", lambda g: [[0], [1, 2]], "indices of patches were expected, but list"),
        ("fold", lambda c, t: c + t[:, :1], "two tensors were expected, but Tensor came"),
        ("fold", lambda c, t: (c, t, t), "two tensors were expected, but tuple of 3 came"),
        ("fold", lambda c, t: (c + t[:, :1], None), "a tensor was expected, but NoneType came"),
        ("fold", lambda c, t: (c + t[:, :1], t), "the shape (1, 4, 3) was expected"),
        ("shapes", lambda *_: 197, "was expected, but 197 came"),
        ("shapes", lambda *_: torch.zeros(2, 2), "was expected, but"),
        ("add_registers", _cut_gradient, "no gradient reaches the class token"),
    ],
)
def test_what_is_wrong_is_said_of_the_answer(name: str, answer, message: str, capsys) -> None:
    said = _said(capsys, name, answer)
    assert said.startswith("Not yet: ") and message in said


def test_a_keyboard_interrupt_passes() -> None:
    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exercises.check("fold", interrupted)


def test_a_failure_of_the_check_is_not_blamed_on_the_answer(monkeypatch, capsys) -> None:
    def broken(*_, **__):
        raise IndexError("in the check")

    monkeypatch.setattr(vit, "interpolate_pos_embedding", broken)
    with pytest.raises(IndexError, match="in the check"):
        exercises.check("resize", _resize)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_right_answer_is_right_without_gradients_around_it(mode, capsys) -> None:
    with mode():
        assert _said(capsys, "add_registers", RIGHT["add_registers"]).startswith("Right: ")


@pytest.mark.parametrize("name", RIGHT)
def test_a_check_leaves_the_global_random_numbers_alone(name: str, capsys) -> None:
    state = torch.random.get_rng_state()
    exercises.check(name, RIGHT[name])
    assert torch.equal(torch.random.get_rng_state(), state)


class _Elsewhere(torch.Tensor):
    """A tensor as on a device without float64: such a conversion raises until it is on the CPU."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        out = super().__torch_function__(function, types, args, kwargs or {})
        if isinstance(out, torch.Tensor) and out.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        if function is torch.Tensor.__sub__:
            raise RuntimeError("Expected all tensors to be on the same device")
        return out


@pytest.mark.parametrize("name", [n for n in RIGHT if n not in ("shapes", "swap_halves", "fold")])
def test_a_right_answer_on_another_device_is_right(name: str, capsys) -> None:
    def there(*arguments):
        return RIGHT[name](*arguments).as_subclass(_Elsewhere)

    assert _said(capsys, name, there).startswith("Right: ")
    with torch.device("meta"):  # the default device of the reader
        assert _said(capsys, name, RIGHT[name])


def test_an_unknown_exercise_is_an_error() -> None:
    with pytest.raises(KeyError, match="patchify"):
        exercises.check("no such", len)
