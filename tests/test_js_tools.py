"""The explorers' JavaScript is formatted, without complaints, typed, and bundled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from javascript import MODULES, JavaScript

from dnnl import explorers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bundle  # noqa: E402

LOADER = ROOT / "_ext" / "sphinx-anywidget"


def deno(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        ["deno", *arguments],
        cwd=cwd,
        env={**os.environ, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", [MODULES, LOADER], ids=["explorers", "sphinx-anywidget"])
@pytest.mark.parametrize("command", ["fmt --check", "lint"])
def test_a_tool_has_no_complaint(command: str, folder: Path) -> None:
    where = "." if folder == MODULES else "sphinx_anywidget"
    deno(*command.split(), where, cwd=folder)


def test_types_agree() -> None:
    deno("check", ".", cwd=MODULES)
    deno("check", "sphinx_anywidget/assets/loader.js", cwd=LOADER)


def test_every_explorer_is_a_module() -> None:
    modules = {getattr(explorers, name).__module__.rpartition(".")[2] for name in explorers.__all__}
    assert modules == set(bundle.names())


@pytest.mark.parametrize("name", bundle.names())
def test_a_bundle_is_fresh(name: str) -> None:
    assert bundle.is_fresh(name), f"the sources of {name} have changed: run `make bundle`"


def test_no_bundle_is_left_over() -> None:
    endings = (".js", ".en.js", ".zh.js", ".css")
    expected = {f"{name}{ending}" for name in bundle.names() for ending in endings}
    assert {path.name for path in bundle.STATIC.iterdir()} == expected


def test_a_changed_source_makes_a_bundle_stale(tmp_path, monkeypatch) -> None:
    for name, folder in (("SOURCES", "js"), ("STYLES", "css"), ("STATIC", "static")):
        copied = shutil.copytree(getattr(bundle, name), tmp_path / folder)
        monkeypatch.setattr(bundle, name, copied)
    monkeypatch.setattr(bundle, "EXPLORERS", tmp_path)
    assert bundle.is_fresh("offset") and bundle.is_fresh("quiz")
    with (tmp_path / "js" / "offset" / "compute.js").open("a") as file:
        file.write("// changed\n")
    assert not bundle.is_fresh("offset") and bundle.is_fresh("quiz")
    with (tmp_path / "css" / "base.css").open("a") as file:
        file.write("/* changed */\n")
    assert not bundle.is_fresh("quiz")


def keys(value: object, path: str = "") -> set[str]:
    if not isinstance(value, dict):
        return {path}
    return set().union({path}, *(keys(one, f"{path}.{key}") for key, one in value.items()))


@pytest.mark.parametrize("name", bundle.names())
def test_both_languages_have_the_same_texts(javascript: JavaScript, name: str) -> None:
    english, chinese = (javascript(f"{name}/{lang}.js", "default") for lang in ("en", "zh"))
    names = "live.names"  # of photographs, which are English already
    same = [{k for k in keys(one) if names not in k} for one in (english, chinese)]
    assert same[0] == same[1]


@pytest.mark.parametrize("name", bundle.names())
def test_a_page_gets_one_language(name: str) -> None:
    chinese = {}
    for ending in (".en.js", ".zh.js", ".js"):
        text = (bundle.STATIC / f"{name}{ending}").read_text(encoding="utf-8")
        chinese[ending] = bool(re.search(r"[\u4e00-\u9fff]|\\u[4-9][0-9a-fA-F]{3}", text))
    assert chinese == {".en.js": False, ".zh.js": True, ".js": True}
