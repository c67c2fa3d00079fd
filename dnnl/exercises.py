"""The exercises of the chapter: one a section, each with a check that runs the reader's answer."""

import textwrap
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import dnnl.models.vit as vit

Answer = Callable[..., Any]


class _NotYetError(Exception):
    """What is still wrong with an answer, as a sentence."""


def check(name: str, answer: Answer) -> None:
    """Run an answer on several inputs and print what is right or still wrong.

    Args:
        name: the exercise, a key of :data:`EXERCISES`.
        answer: the function that the exercise asks for.

    Raises:
        KeyError: for an unknown exercise. A wrong answer raises nothing: it is told.
    """
    if name not in EXERCISES:
        raise KeyError(f"Expected one of {', '.join(EXERCISES)}, but got {name!r}.")
    try:
        verdict = f"Right: {EXERCISES[name](answer)}"
    except _NotYetError as error:
        verdict = f"Not yet: {error}"
    except Exception as error:  # the reader's code may raise anything, and is to be told of it
        verdict = f"Not yet: your function raised {type(error).__name__}: {error}"
    print(textwrap.fill(verdict, 80))


def _equal(got: Any, expected: Tensor, case: str, *, tolerance: float = 1e-5) -> None:
    """Raise unless ``got`` is ``expected``, saying the first thing that differs."""
    if not isinstance(got, Tensor):
        raise _NotYetError(f"for {case} a tensor was expected, but {type(got).__name__} came.")
    if got.shape != expected.shape:
        raise _NotYetError(
            f"for {case} the shape {tuple(expected.shape)} was expected, "
            f"but {tuple(got.shape)} came."
        )
    error = (got.double() - expected.double()).abs().max().item() if got.numel() else 0.0
    if not error <= tolerance:
        raise _NotYetError(
            f"for {case} the shape is right, but values differ by up to {error:.2g}."
        )


def _images(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def _patchify(answer: Answer) -> str:
    for shape, patch in [((2, 3, 8, 8), 4), ((1, 1, 4, 6), 2), ((2, 5, 6, 12), 3)]:
        x = _images(*shape)
        expected = F.unfold(x, patch, stride=patch).transpose(1, 2)
        _equal(answer(x, patch), expected, f"images {shape} and patch size {patch}")
    return "the same patches, in the same order, as F.unfold cuts."


def _mean_pool(answer: Answer) -> str:
    for prefix in (0, 1, 5):
        x = _images(2, prefix + 6, 4)
        expected = x[:, prefix:].mean(1)
        _equal(answer(x, prefix), expected, f"{prefix} prefix and 6 patch tokens")
    return "the mean runs over the patches, and over nothing else."


def _add_registers(answer: Answer) -> str:
    for batch, registers in [(1, 4), (3, 2)]:
        x, cls, reg = _images(batch, 6, 4), _images(1, 1, 4), _images(1, registers, 4) + 1
        module = vit.ViTAddClassToken(4, 1 + registers)
        module.load_state_dict({"cls_token": torch.cat([cls, reg], 1)})
        expected = module(x).detach()
        case = f"a batch of {batch} and {registers} registers"
        _equal(answer(x, cls, reg), expected, case)
        leaf = cls.clone().requires_grad_()
        out = answer(x, leaf, reg)
        if not out.requires_grad:
            raise _NotYetError("the values are right, but no gradient reaches the class token.")
        out.sum().backward()
        assert leaf.grad is not None
        _equal(leaf.grad, torch.full_like(cls, batch), f"the gradient in {case}")
    return "one parameter serves the batch, and its gradient sums over it."


def _swap_halves(answer: Answer) -> str:
    for rows, columns in [(2, 2), (4, 4), (6, 3)]:
        x = _images(1, 3, rows * 2, columns * 2)
        swapped = x.roll(rows, dims=2)
        index = torch.as_tensor(answer((rows, columns)))
        if sorted(index.flatten().tolist()) != list(range(rows * columns)):
            raise _NotYetError(f"for the grid {rows}×{columns} the answer is no permutation.")
        got = vit.patchify(x, 2)[:, index]
        _equal(got, vit.patchify(swapped, 2), f"the grid {rows}×{columns}")
    return "permuting tokens is swapping the halves of the image."


def _sincos(answer: Answer) -> str:
    for positions, dim in [(5, 4), (16, 8), (196, 64)]:
        expected = vit.sincos_pos_embedding_1d(positions, dim)[0]
        _equal(answer(positions, dim), expected, f"{positions} positions of width {dim}")
    return "every row differs, and no parameter was trained."


def _fold(answer: Answer) -> str:
    for n, dim in [(4, 3), (9, 8)]:
        x, cls, table = _images(2, n, dim), _images(1, 1, dim), _images(1, n + 1, dim) * 2
        expected = torch.cat([cls.expand(2, -1, -1), x], 1) + table
        folded, patches = answer(cls, table)
        _equal(folded, cls + table[:, :1], f"the folded token of {n} patches")
        got = torch.cat([folded.expand(2, -1, -1), x + patches], 1)
        _equal(got, expected, f"the sequence of {n} patches")
    return "both orders compute the same sequence."


def _resize(answer: Answer) -> str:
    for old, new, prefix in [((4, 4), (6, 6), 1), ((2, 8), (4, 4), 1), ((3, 5), (6, 2), 2)]:
        table = _images(1, prefix + old[0] * old[1], 8)
        expected = vit.interpolate_pos_embedding(table, old, new, num_prefix_tokens=prefix)
        case = f"{old} → {new} with {prefix} prefix rows"
        _equal(answer(table, old, new, prefix), expected, case)
    return "a true resize on the grid, with the prefix rows untouched."


def _shapes(answer: Answer) -> str:
    for image, patch, dim, prefix in [
        ((224, 224), (16, 16), 768, 1),
        ((384, 384), (16, 16), 768, 2),
        ((96, 160), (8, 16), 32, 0),
    ]:
        module = vit.ViTEmbedding(image, patch, 3, dim, num_prefix_tokens=prefix)
        length = module.pos_embed.pos_embed.shape[1]
        parameters = sum(p.numel() for p in module.parameters())
        got = tuple(answer(image, patch, dim, prefix))
        if got != (length, parameters):
            raise _NotYetError(
                f"for image {image}, patch {patch}, D = {dim} and {prefix} prefix tokens "
                f"({length}, {parameters}) was expected, but {got} came."
            )
    return "length and parameters agree with the modules themselves."


EXERCISES: dict[str, Callable[[Answer], str]] = {
    "patchify": _patchify,
    "mean_pool": _mean_pool,
    "add_registers": _add_registers,
    "swap_halves": _swap_halves,
    "sincos": _sincos,
    "fold": _fold,
    "resize": _resize,
    "shapes": _shapes,
}
"""The exercises by name, in the order of the sections."""
