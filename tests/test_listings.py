"""The listing is the library: what a page defines under a name of ``dnnl.models.vit`` is the same.

Every class and function that a notebook defines, and whose name the library exports, is taken out
of its cell and compared with the library's: signature, ``state_dict``, outputs, errors.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from dnnl.models import vit

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(ROOT.glob("chapters/en/*.ipynb"))  # zh has the same code (test_editions)

# What a page may run before a listing: imports and definitions, no experiment.
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)


def definitions(path: Path) -> list[ast.stmt]:
    """Return the imports, classes and functions of a notebook's cells, in order."""
    found: list[ast.stmt] = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            plain = re.sub(r"^(\s*)%.*$", r"\1pass", cell.source, flags=re.MULTILINE)  # no magics
            found += [s for s in ast.parse(plain).body if isinstance(s, DEFINITIONS)]
    return found


LISTINGS = [
    pytest.param(path, statement.name, id=f"{path.stem}-{statement.name}")
    for path in NOTEBOOKS
    for statement in definitions(path)
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)) and statement.name in vit.__all__
]


def listing(path: Path, name: str) -> Any:
    """Return what the notebook defines as ``name``, made from definitions up to it."""
    space: dict[str, Any] = {"__name__": path.stem}
    for statement in definitions(path):
        exec(compile(ast.Module([statement], []), str(path), "exec"), space)
        if getattr(statement, "name", None) == name:
            return space[name]
    raise LookupError(name)


Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


@dataclass
class Case:
    """Arguments to compare with: for a class, of its constructor (``builds``) and its ``forward``.

    The calls of ``bad_builds`` and ``bad_calls`` must fail, in the library and in the listing.
    """

    calls: list[Call]
    bad_calls: list[Call] = field(default_factory=list)
    builds: list[Call] = field(default_factory=list)
    bad_builds: list[Call] = field(default_factory=list)


def image(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


SMALL = {"image_size": 32, "patch_size": 8, "in_channels": 5, "embed_dim": 64}
PATCH_EMBEDDING = Case(
    builds=[call(**SMALL)],
    calls=[call(image(2, 5, 32, 32)), call(image(1, 5, 32, 32))],
    bad_builds=[call(**{**SMALL, "image_size": 30})],
    bad_calls=[call(image(1, 5, 16, 64)), call(image(1, 5, 64, 64))],
)
CASES: dict[str, Case] = {
    "patchify": Case(
        calls=[call(image(2, 5, 32, 48), 8), call(image(0, 3, 32, 32), 8)],
        bad_calls=[call(image(1, 3, 30, 32), 8), call(image(1, 3, 32, 30), 8)],
    ),
    "unpatchify": Case(
        calls=[call(image(2, 24, 5 * 64), 8, (4, 6))],
        bad_calls=[call(image(2, 24, 5 * 64), 8, (4, 5))],
    ),
    "ViTLinearPatchEmbedding": PATCH_EMBEDDING,
    "ViTConvPatchEmbedding": PATCH_EMBEDDING,
    "ViTAddClassToken": Case(
        builds=[call(64)],
        calls=[call(image(2, 16, 64)), call(image(1, 16, 64)), call(image(2, 0, 64))],
    ),
    "ViTPositionalEmbedding": Case(
        builds=[call(64, 16), call(64, 16, use_cls_token=True)],
        calls=[call(image(2, 17, 64))],
        bad_calls=[call(image(2, 16, 64)), call(image(2, 18, 64)), call(image(2, 1, 64))],
    ),
    "ViTEmbedding": Case(
        builds=[call(**SMALL), call(**SMALL, dropout=0.0)],
        calls=[call(image(2, 5, 32, 32))],
        bad_builds=[call(**{**SMALL, "image_size": 30})],
        bad_calls=[call(image(1, 5, 16, 64)), call(image(1, 5, 64, 64))],
    ),
    "interpolate_pos_embedding": Case(
        calls=[
            call(image(1, 17, 8), (4, 4), (6, 6)),
            call(image(1, 17, 8), (2, 8), (4, 4)),
            call(image(1, 17, 8), (4, 4), (4, 4)),
            call(image(1, 17, 8), (4, 4), (3, 7), mode="bilinear"),
            call(image(1, 18, 8), (4, 4), (6, 6), num_prefix_tokens=2),
            call(image(1, 16, 8), (4, 4), (2, 2), num_prefix_tokens=0),
        ],
        bad_calls=[call(image(1, 17, 8), (4, 5), (6, 6)), call(image(1, 16, 8), (4, 4), (6, 6))],
    ),
    "sincos_pos_embedding": Case(
        calls=[call((4, 6), 64), call((2, 8), 16)], bad_calls=[call((4, 6), 6)]
    ),
    "sincos_pos_embedding_1d": Case(calls=[call(16, 64)], bad_calls=[call(16, 7)]),
}

# The listings that the chapter is built around.
EXPECTED = {
    "patchify",
    "ViTLinearPatchEmbedding",
    "ViTConvPatchEmbedding",
    "ViTAddClassToken",
    "ViTPositionalEmbedding",
    "ViTEmbedding",
    "interpolate_pos_embedding",
}


def fails_alike(theirs: Callable[[], Any], ours: Callable[[], Any]) -> None:
    """Both fail; the listing's error is of a type that the library's is too, and says the same.

    A listing may be briefer: it begins with the library's words, and names no other numbers.
    """
    with pytest.raises(Exception) as library:
        ours()
    assert isinstance(library.value, vit.ShapeError), "the case must be one the library rejects"
    with pytest.raises(Exception) as page:
        theirs()
    assert isinstance(library.value, type(page.value)), f"{page.value!r} != {library.value!r}"
    said, meant = str(page.value), str(library.value)
    begins = re.match(r"[^\d(]+", said)
    assert begins and meant.startswith(begins[0]), f"{said!r} != {meant!r}"
    assert set(re.findall(r"\d+", said)) <= set(re.findall(r"\d+", meant)), f"{said!r} != {meant!r}"
    assert re.search(r"\d", said), "an error names what was expected and what came"


def same_parameters(theirs: Any, ours: Any) -> None:
    """The listing takes parameters of the library's, with the same defaults."""
    library = inspect.signature(ours).parameters
    for name, parameter in inspect.signature(theirs).parameters.items():
        assert name in library, f"the library has no parameter {name}"
        assert parameter.default == library[name].default, f"another default of {name}"


@pytest.mark.parametrize(("path", "name"), LISTINGS)
def test_a_listing_is_the_library(path: Path, name: str) -> None:
    assert name in CASES, f"a page defines {name}: say in CASES what to compare it with"
    case, theirs, ours = CASES[name], listing(path, name), getattr(vit, name)
    same_parameters(theirs, ours)
    if not inspect.isclass(ours):
        for args, kwargs in case.calls:
            torch.testing.assert_close(theirs(*args, **kwargs), ours(*args, **kwargs))
        for args, kwargs in case.bad_calls:
            fails_alike(lambda: theirs(*args, **kwargs), lambda: ours(*args, **kwargs))  # noqa: B023
        return
    for args, kwargs in case.builds:
        page, library = theirs(*args, **kwargs), ours(*args, **kwargs)
        shapes = {key: value.shape for key, value in library.state_dict().items()}
        assert {key: value.shape for key, value in page.state_dict().items()} == shapes
        page.load_state_dict(library.state_dict())
        for inputs, _ in case.calls:
            torch.testing.assert_close(page(*inputs), library(*inputs))
        for inputs, _ in case.bad_calls:
            fails_alike(lambda: page(*inputs), lambda: library(*inputs))  # noqa: B023
    for args, kwargs in case.bad_builds:
        fails_alike(lambda: theirs(*args, **kwargs), lambda: ours(*args, **kwargs))  # noqa: B023


def test_the_chapter_has_its_listings() -> None:
    assert {param.values[1] for param in LISTINGS} >= EXPECTED
