"""The sources keep to public names of other packages, and their messages to plain English."""

import ast
import re
from pathlib import Path

import pytest

import dnnl

PACKAGE = Path(dnnl.__file__).parent
SOURCES = {p.relative_to(PACKAGE).as_posix(): p.read_text() for p in PACKAGE.rglob("*.py")}
every_source = pytest.mark.parametrize("name", sorted(SOURCES))


# Private names


def private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(source):
    """List the private names that a source reads from other packages or other objects."""
    tree, found = ast.parse(source), []
    ours = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            ours.add(node.name)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dnnl":
            ours |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            for path in [f"{module}.{alias.name}" for alias in node.names]:
                if any(private(part) for part in path.split(".")):
                    found.append(path.strip("."))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            owner = node.value
            is_super = isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
            if not is_super and not (isinstance(owner, ast.Name) and owner.id in ours):
                found.append(ast.unparse(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "getattr",
            "setattr",
            "hasattr",
        ):
            names = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)]
            found += [ast.unparse(node) for name in names if private(str(name))]
    return found


@every_source
def test_a_source_uses_public_names_of_other_packages_only(name):
    assert private_names(SOURCES[name]) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch._C._len_torch_dispatch_stack()",
        "import torch._dynamo",
        "from torch import _C",
        "from torch.nn.modules.module import _has_any_global_hook",
        "proj._conv_forward(x)",
        "class A:\n    def f(self, other):\n        return other._modules",
        "self.proj._parameters",
        "getattr(module, '_forward_hooks', {})",
    ],
)
def test_a_private_name_of_another_package_is_found(source):
    assert private_names(source)


def test_private_names_of_ours_are_allowed():
    source = "from dnnl.models.vit import positions\nclass A(B):\n    def f(self):\n"
    assert not private_names(source + "        return self._x, super()._x, A._y, positions._MODES")


# Plain English


DIALECT = {
    r"(?<![Tt]here )\b(is|are|was) (no|none|nothing)\b(?! longer| more)": "write “is not a …”",
    r"\b(holds?|sends?|names?|keeps?|makes?|takes?) no\b": "write “does not …”",
    r"\bno \w+ but\b": "write “not …, but …”",
    r"\b[Tt]ells? whether\b": "write “Whether …”",
    r"\b(it|that) is meant\b": "write “intended”",
    r"\bof (its|their|our|your) own:": "write a sentence with a verb",
    r"; and (a|the) [^.;]* is (written|none|called)": "write two sentences",
    r"\bwhat (comes|came) of (it|them)\b": "name the result",
}
SAYING = {"warn", "print", "error", "exit", "write", "info", "warning"}


def texts(source):
    """Yield line and text of every message that a source raises, warns or prints, and docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text
        called = getattr(
            getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", "")
        )
        is_message = isinstance(called, str) and (called in SAYING or called.endswith("Error"))
        if isinstance(node, ast.Raise) or is_message:
            for part in ast.walk(node):
                if isinstance(part, ast.JoinedStr):
                    values = (getattr(v, "value", "") for v in part.values)
                    yield part.lineno, "".join(v if isinstance(v, str) else "x" for v in values)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def telegrams(source):
    return {
        f"{line}: “{match[0]}”: {plainer}"
        for line, text in texts(source)
        for pattern, plainer in DIALECT.items()
        for match in re.finditer(pattern, re.sub(r"\s+", " ", text))
    }


@every_source
def test_messages_and_docstrings_are_sentences_with_subject_verb_and_object(name):
    assert telegrams(SOURCES[name]) == set()


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError(f"the shape of {name} is none.")',
        'raise CheckpointError(f"{file!r}, which is no file beside it.")',
        'print("photographs: there, but none of them are no PNG")',
        'warnings.warn("the file holds no tensors")',
        'raise OSError("the server sends whole files, " "no ranges but all")',
        'error = TypeError("it names no table")',
        'def f():\n    """Tell whether nobody would see."""',
        'class A:\n    """What is between them is nothing."""',
        'raise ValueError("a norm of its own: pass norm_eps=.")',
        'raise FileNotFoundError("not found; and a repository is written owner/name")',
    ],
)
def test_a_telegram_is_found(source):
    assert telegrams(source)


@pytest.mark.parametrize(
    "text",
    [
        "There is no table in the file.",
        "The file is not a checkpoint.",
        "It is no longer needed.",
        "Expected images with 3 channels, but got 4.",
    ],
)
def test_plain_sentences_are_accepted(text):
    assert not telegrams(f"raise ValueError({text!r})")
