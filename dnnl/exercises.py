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
        name: the exercise, a key of ``EXERCISES``.
        answer: the function that the exercise asks for.

    Raises:
        KeyError: for an unknown exercise. A wrong answer raises nothing: it is told.
    """
    if name not in EXERCISES:
        raise KeyError(f"Expected one of {', '.join(EXERCISES)}, but got {name!r}.")
    try:
        # The caller may be inside torch.no_grad(); a gradient is part of some answers.
        with torch.inference_mode(False), torch.enable_grad():
            verdict = f"Right: {EXERCISES[name](answer)}"
    except _NotYetError as error:
        verdict = f"Not yet: {error}"
    print(textwrap.fill(verdict, 80))


def _call(answer: Answer, *arguments: Any) -> Any:
    """Return what an answer returns; what it raises becomes a :class:`_NotYetError`."""
    try:
        return answer(*arguments)
    except (Exception, SystemExit) as error:
        raise _NotYetError(
            f"your function raised {type(error).__name__}: {_text(error)}"
        ) from error


def _text(value: object) -> str:
    """Return ``str(value)``, or a substitute if that raises."""
    try:
        return str(value)
    except Exception:
        return f"(a {type(value).__name__} that cannot be printed)"


def _equal(got: Any, expected: Tensor, case: str, *, tolerance: float = 1e-5) -> None:
    """Raise unless ``got`` is ``expected``, saying the first thing that differs."""
    if not isinstance(got, Tensor):
        raise _NotYetError(f"for {case} a tensor was expected, but {type(got).__name__} came.")
    if got.shape != expected.shape:
        raise _NotYetError(
            f"for {case} the shape {tuple(expected.shape)} was expected, "
            f"but {tuple(got.shape)} came."
        )
    if got.is_complex():
        raise _NotYetError(f"for {case} real numbers were expected, but {got.dtype} came.")
    try:
        values = got.detach().cpu().double()  # in this order: some devices have no float64
        gap = (values - expected.cpu().double()).abs().max().item() if got.numel() else 0.0
    except Exception as error:
        raise _NotYetError(f"for {case} the values cannot be read: {_text(error)}") from error
    if not gap <= tolerance:
        raise _NotYetError(f"for {case} the shape is right, but values differ by up to {gap:.2g}.")


def _images(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0), device="cpu")


# Every expectation is computed before the call, whose arguments are copies: an answer may work in
# place.


def _patchify(answer: Answer) -> str:
    for shape, patch in [((2, 3, 8, 8), 4), ((1, 1, 4, 6), 2), ((2, 5, 6, 12), 3)]:
        x = _images(*shape)
        expected = F.unfold(x, patch, stride=patch).transpose(1, 2)
        got = _call(answer, x.clone(), patch)
        _equal(got, expected, f"images {shape} and patch size {patch}")
    return "the same patches, in the same order, as F.unfold cuts."


def _mean_pool(answer: Answer) -> str:
    for prefix in (0, 1, 5):
        x = _images(2, prefix + 6, 4)
        expected = x[:, prefix:].mean(1)
        got = _call(answer, x.clone(), prefix)
        _equal(got, expected, f"{prefix} prefix and 6 patch tokens")
    return "the mean runs over the patches, and over nothing else."


def _add_registers(answer: Answer) -> str:
    for batch, registers in [(1, 4), (3, 2)]:
        x, cls, reg = _images(batch, 6, 4), _images(1, 1, 4), _images(1, registers, 4) + 1
        expected = torch.cat([t.expand(batch, -1, -1) for t in (cls, reg, x)], 1)
        case = f"a batch of {batch} and {registers} registers"
        _equal(_call(answer, x.clone(), cls.clone(), reg.clone()), expected, case)
        leaf = cls.clone().requires_grad_()
        out = _call(answer, x.clone(), leaf, reg.clone())
        _equal(out, expected, case)
        if not out.requires_grad:
            raise _NotYetError("the values are right, but no gradient reaches the class token.")
        try:
            (gradient,) = torch.autograd.grad(out.sum(), leaf, allow_unused=True)
        except Exception as error:
            raise _NotYetError(f"the gradient in {case} fails: {_text(error)}") from error
        if gradient is None:
            raise _NotYetError("the values are right, but no gradient reaches the class token.")
        _equal(gradient, torch.full_like(cls, batch), f"the gradient in {case}")
    return "one parameter serves the batch, and its gradient sums over it."


def _swap_halves(answer: Answer) -> str:
    for rows, columns in [(2, 2), (4, 4), (6, 3)]:
        x = _images(1, 3, rows * 2, columns * 2)
        expected = vit.patchify(x.roll(rows, dims=2), 2)
        index = _indices(_call(answer, (rows, columns)), f"the grid {rows}×{columns}")
        if sorted(index.flatten().tolist()) != list(range(rows * columns)):
            raise _NotYetError(f"for the grid {rows}×{columns} the answer is not a permutation.")
        _equal(vit.patchify(x, 2)[:, index], expected, f"the grid {rows}×{columns}")
    return "permuting tokens is swapping the halves of the image."


def _indices(got: Any, case: str) -> Tensor:
    """Return an answer as a tensor of int64 on the CPU: as an index, uint8 would be a mask."""
    try:
        index = torch.as_tensor(got).cpu()
        whole = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
        if whole:
            return index.long()
    except Exception as error:
        raise _NotYetError(
            f"for {case} indices of patches were expected, but {type(got).__name__} came."
        ) from error
    raise _NotYetError(f"for {case} integers were expected as indices, but {index.dtype} came.")


def _sincos(answer: Answer) -> str:
    for positions, dim in [(5, 4), (16, 8), (196, 64)]:
        expected = vit.sincos_pos_embedding_1d(positions, dim)[0]
        _equal(_call(answer, positions, dim), expected, f"{positions} positions of width {dim}")
    return "every row differs, and no parameter was trained."


def _fold(answer: Answer) -> str:
    for n, dim in [(4, 3), (9, 8)]:
        cls, table = _images(1, 1, dim), _images(1, n + 1, dim) * 2
        got = _call(answer, cls.clone(), table.clone())
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            raise _NotYetError(f"for {n} patches two tensors were expected, but {_kind(got)} came.")
        folded, patches = got
        _equal(folded, cls + table[:, :1], f"the folded token of {n} patches")
        if isinstance(patches, Tensor) and patches.dim() == 2:
            patches = patches[None]  # (N, D) is added to (B, N, D) as (1, N, D) is
        _equal(patches, table[:, 1:], f"the rows of {n} patches")
    return "both orders compute the same sequence."


def _kind(got: Any) -> str:
    """Name what came where several values were expected: ``Tensor``, or ``tuple of 3``."""
    size = f" of {len(got)}" if isinstance(got, (tuple, list)) else ""
    return type(got).__name__ + size


def _resize(answer: Answer) -> str:
    for old, new, prefix in [((4, 4), (6, 6), 1), ((2, 8), (4, 4), 1), ((3, 5), (6, 2), 2)]:
        table = _images(1, prefix + old[0] * old[1], 8)
        expected = vit.interpolate_pos_embedding(table, old, new, num_prefix_tokens=prefix)
        case = f"{old} → {new} with {prefix} prefix rows"
        _equal(_call(answer, table.clone(), old, new, prefix), expected, case)
    return "a true resize on the grid, with the prefix rows untouched."


def _shapes(answer: Answer) -> str:
    for image, patch, dim, prefix in [
        ((224, 224), (16, 16), 768, 1),
        ((384, 384), (16, 16), 768, 2),
        ((96, 160), (8, 16), 32, 0),
    ]:
        with torch.device("meta"):  # shapes alone: no memory, and no random numbers are drawn
            module = vit.ViTEmbedding(image, patch, 3, dim, num_prefix_tokens=prefix)
        length = module.pos_embed.pos_embed.shape[1]
        parameters = sum(p.numel() for p in module.parameters())
        got = _call(answer, image, patch, dim, prefix)
        try:
            got = tuple(got)
            right = got == (length, parameters)
        except Exception:  # not a sequence, or of things that cannot be compared
            right = False
        if not right:
            raise _NotYetError(
                f"for image {image}, patch {patch}, D = {dim} and {prefix} prefix tokens "
                f"({length}, {parameters}) was expected, but {_text(got)} came."
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
