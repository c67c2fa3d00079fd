"""The package installs with torch alone; what lacks an extra says which one to install."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dnnl._extras import needs_extra

tomllib = pytest.importorskip("tomllib")  # Python 3.11

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = {"pillow": "PIL", "scikit-image": "skimage", "scikit-learn": "sklearn"}
TOP = ["dnnl/__init__.py", "dnnl/_device.py", "dnnl/_extras.py", "dnnl/exercises.py"]

# What Colab has (August 2026). A range that excludes one of these would change Colab's own.
COLAB = {
    "torch": "2.11.0",
    "numpy": "2.1.3",
    "matplotlib": "3.10.0",
    "pillow": "11.3.0",
    "scikit-learn": "1.6.1",
    "scipy": "1.16.3",
    "safetensors": "0.8.0",
    "tqdm": "4.67.3",
    "ipywidgets": "7.7.1",
    "traitlets": "5.7.1",
}


def requirements(extra: str) -> list[Requirement]:
    """Return what an extra asks for, with the extras that it includes."""
    found = []
    for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if requirement.name == "dnnl":
            found += [r for included in requirement.extras for r in requirements(included)]
        else:
            found.append(requirement)
    return found


def modules(*extras: str) -> set[str]:
    """Return the modules that the packages of some extras bring."""
    return {MODULES.get(r.name, r.name) for extra in extras for r in requirements(extra)}


OPTIONAL = modules("book", "pretrained", "train")


def errors(absent: set[str], statements: list[str], tmp_path: Path) -> list[str | None]:
    """Run statements in a process that cannot import some modules; return the messages."""
    code = f"""
import json, sys, warnings
warnings.simplefilter("ignore")  # torch without numpy warns
for module in {sorted(absent)}:
    sys.modules[module] = None  # an import of it raises ModuleNotFoundError
found = []
for statement in {statements!r}:
    try:
        exec(statement, {{}})
        found.append(None)
    except ImportError as error:
        found.append(str(error))
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# ---- what is declared ----------------------------------------------------------------------------


def imported(path: Path, *, lazily: bool) -> set[str]:
    """Return the third-party packages that a file imports; lazily: inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    names = set()
    for node in ast.walk(tree):
        if (id(node) in inside) != lazily:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    packages = {name.partition(".")[0] for name in names}
    return packages - set(sys.stdlib_module_names) - {"dnnl"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("dnnl/**/*.py")), ids=lambda p: p.name)
def test_every_import_is_declared(path):
    name = path.relative_to(ROOT).as_posix()
    now, later = imported(path, lazily=False), imported(path, lazily=True)
    if name in TOP or name.startswith("dnnl/models/"):
        assert now <= {"torch"}
        assert later <= {"torch"} | modules("pretrained")
    else:
        extra = "book" if name.startswith(("dnnl/explorers/", "dnnl/figures")) else "train"
        assert now | later <= {"torch"} | modules(extra)


def test_the_core_is_torch_alone():
    assert [Requirement(text).name for text in PROJECT["dependencies"]] == ["torch"]
    assert set(PROJECT["optional-dependencies"]) == {"book", "pretrained", "train", "test"}


def test_no_range_excludes_what_colab_has():
    asked = [Requirement(text) for text in PROJECT["dependencies"]] + requirements("book")
    for requirement in asked:
        if version := COLAB.get(requirement.name):
            assert version in requirement.specifier, requirement
    assert {r.name for r in asked} - set(COLAB) == {"anywidget", "scikit-image"}


# ---- what works without an extra, and the messages -----------------------------------------------


def test_with_torch_alone_the_model_runs_and_everything_else_names_its_extra(tmp_path):
    model = (
        "import dnnl.models.vit as vit, torch;"
        "z = vit.ViTEmbedding(32, 8, 3, 64)(torch.zeros(2, 3, 32, 32));"
        "assert z.shape == (2, 17, 64)"
    )
    train, book = 'pip install "dnnl[train]"', 'pip install "dnnl[book]"'
    expected = {
        "import dnnl": None,
        model: None,
        "import dnnl.exercises": None,
        "import dnnl.data": f"dnnl.data needs numpy: {train}",
        "import dnnl.figures": f"dnnl.figures needs matplotlib: {book}",
        "import dnnl; dnnl.load_chapter_model()": ("dnnl.load_chapter_model() needs ", train),
        "import dnnl.chapter_model": ("dnnl.chapter_model needs ", train),
        "import dnnl.training": ("dnnl.training needs ", train),
        "from dnnl import explorers": ("dnnl.explorers needs ", book),
    }
    got = errors(OPTIONAL, list(expected), tmp_path)
    for (statement, message), error in zip(expected.items(), got, strict=True):
        if isinstance(message, tuple):
            start, end = message
            assert error and error.startswith(start) and error.endswith(end), (statement, error)
        else:
            assert error == message, statement


def test_an_explorer_names_the_one_package_that_is_absent(tmp_path):
    (error,) = errors({"anywidget"}, ["import dnnl.explorers"], tmp_path)
    assert error == 'dnnl.explorers needs anywidget: pip install "dnnl[book]"'


WORKS = {
    "train": [
        "import dnnl.training",
        "import dnnl; dnnl.load_chapter_model()",
        "from dnnl import data; assert len(data.photographs(short_side=32)) == 10",
    ],
    "book": [
        "import dnnl.figures, dnnl.training, scipy.ndimage",
        "from dnnl import explorers; explorers.PatchGrid(patch_size=16)",
    ],
    "pretrained": [
        "import dnnl.models.vit as vit;"
        "vit.ViTModel(32, 8, 3, 64, 4, 2, 128).save_pretrained('model');"
        "assert vit.load_pretrained('model').config.embed_dim == 64",
        "import huggingface_hub, numpy",
    ],
}


@pytest.mark.parametrize("extra", WORKS)
def test_an_extra_brings_what_it_promises(extra, tmp_path):
    # scikit-learn brings scipy, huggingface_hub brings tqdm
    absent = OPTIONAL - modules(extra) - {"scipy", "tqdm"}
    assert errors(absent, WORKS[extra], tmp_path) == [None] * len(WORKS[extra])


def test_a_photograph_names_the_extra_that_brings_it(tmp_path):
    (error,) = errors({"skimage"}, ["from dnnl import data; data.photograph('cat')"], tmp_path)
    assert error and "needs scikit-image" in error and "dnnl[train]" in error


# ---- the mechanism -------------------------------------------------------------------------------


def test_the_outermost_context_names_itself():
    with (
        pytest.raises(ImportError, match=r'^outer needs pillow: pip install "dnnl\[book\]"$'),
        needs_extra("book", "outer"),
        needs_extra("train", "inner"),
    ):
        raise ModuleNotFoundError("No module named 'PIL.Image'", name="PIL.Image")


@pytest.mark.parametrize(
    "error",
    [ModuleNotFoundError("a bug", name="dnnl.typo"), ImportError("a bug"), ValueError("a bug")],
)
def test_other_errors_pass_unchanged(error):
    with pytest.raises(type(error), match=r"^a bug$") as caught, needs_extra("book", "outer"):
        raise error
    assert caught.value is error
