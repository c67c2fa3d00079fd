"""The explorers' JavaScript is formatted, without complaints, typed, tested, and bundled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from javascript import MODULES

from dnnl import explorers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bundle  # noqa: E402

LOADER = ROOT / "_ext" / "sphinx-anywidget"
TESTS = ROOT / "tests" / "js"


def deno(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        ["deno", *arguments],
        cwd=cwd,
        env={**os.environ, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr


FOLDERS = {
    "explorers": (MODULES, "."),
    "sphinx-anywidget": (LOADER, "sphinx_anywidget"),
    "tests": (TESTS, "."),
}


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("command", ["fmt --check", "lint"])
def test_a_tool_has_no_complaint(command: str, name: str) -> None:
    folder, where = FOLDERS[name]
    deno(*command.split(), where, cwd=folder)


@pytest.mark.parametrize("name", FOLDERS)
def test_types_agree(name: str) -> None:
    folder, where = FOLDERS[name]
    where = "sphinx_anywidget/assets/loader.js" if folder == LOADER else where
    deno("check", "--no-lock", where, cwd=folder)


@pytest.mark.parametrize("file", sorted(path.name for path in TESTS.glob("*_test.js")))
def test_a_unit_test_of_the_shared_modules_passes(file: str) -> None:
    deno("test", "--no-lock", f"--allow-read={MODULES}", file, cwd=TESTS)


def test_a_unit_test_that_fails_is_reported(tmp_path: Path) -> None:
    failing = tmp_path / "failing_test.js"
    failing.write_text('Deno.test("this fails", () => { throw new Error("as it should"); });\n')
    with pytest.raises(AssertionError, match="as it should"):
        deno("test", "--no-lock", "--no-check", failing.name, cwd=tmp_path)


def test_every_explorer_is_a_module() -> None:
    modules = {getattr(explorers, name).__module__.rpartition(".")[2] for name in explorers.__all__}
    assert modules == set(bundle.names())


@pytest.mark.parametrize("name", bundle.names())
def test_a_bundle_is_fresh(name: str) -> None:
    assert bundle.is_fresh(name), f"the sources of {name} have changed: run `make bundle`"


def test_no_bundle_is_left_over() -> None:
    endings = (".js", ".en.js", ".zh.js")
    expected = {f"{name}{ending}" for name in bundle.names() for ending in endings}
    assert {path.name for path in bundle.STATIC.iterdir()} == expected


def test_a_changed_source_makes_a_bundle_stale(tmp_path, monkeypatch) -> None:
    for name, folder in (("SOURCES", "js"), ("STATIC", "static")):
        copied = shutil.copytree(getattr(bundle, name), tmp_path / folder)
        monkeypatch.setattr(bundle, name, copied)
    monkeypatch.setattr(bundle, "EXPLORERS", tmp_path)
    assert bundle.is_fresh("offset") and bundle.is_fresh("quiz")
    with (tmp_path / "js" / "offset" / "compute.js").open("a") as file:
        file.write("// changed\n")
    assert not bundle.is_fresh("offset") and bundle.is_fresh("quiz")
    with (tmp_path / "js" / "lib" / "dom.js").open("a") as file:
        file.write("// changed\n")
    assert not bundle.is_fresh("quiz")


@pytest.mark.parametrize("name", bundle.names())
def test_a_page_gets_one_language(name: str) -> None:
    chinese = {}
    for ending in (".en.js", ".zh.js", ".js"):
        text = (bundle.STATIC / f"{name}{ending}").read_text(encoding="utf-8")
        chinese[ending] = bool(re.search(r"[\u4e00-\u9fff]|\\u[4-9][0-9a-fA-F]{3}", text))
    assert chinese == {".en.js": False, ".zh.js": True, ".js": True}
