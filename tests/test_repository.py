"""The repository's address can be changed in every file at once, and the project's files agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import repository  # noqa: E402
from repository import Repository  # noqa: E402

PLACEHOLDER = Repository("example", "dnnl-vit")
ELSEWHERE = Repository("Some-Owner", "another.name_1")


def address(repo: Repository) -> str:
    return f"https://github.com/{repo.slug}"


def git(folder: Path, *args: str) -> str:
    run = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout


def snapshot(root: Path) -> dict[str, bytes]:
    files = repository.files(root)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy every file of the project into a fresh git repository."""
    for name, content in snapshot(ROOT).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    git(tmp_path, "init", "--quiet")
    return tmp_path


def move(root: Path, repo: Repository) -> int:
    changes = repository.plan(root, repo)
    repository.apply(changes)
    return len(changes)


# ---- the address -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "github.com/owner/name",
        "http://github.com/owner/name",
        "https://github.com/owner",
        "https://github.com/owner/",
        "https://github.com/owner/name/",
        "https://github.com/owner/name.git",
        "https://github.com/owner/name/tree/main",
        "https://github.com/owner/na me",
        "https://github.com/owner/..",
        "https://github.com/-owner/name",
        "https://github.com/owner_/name",
        "https://gitlab.com/owner/name",
        "git@github.com:owner/name.git",
        " https://github.com/owner/name",
        "https://github.com/owner/name\n",
    ],
)
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="Expected https://github.com/owner/name"):
        Repository.parse(url)


def test_a_well_formed_address_is_read() -> None:
    assert Repository.parse(address(ELSEWHERE)) == ELSEWHERE


def test_only_whole_names_move() -> None:
    old, new = Repository("own", "name"), Repository("new", "place")
    stays = (
        "https://github.com/own/name2 https://github.com/own/name-x github.com/down/name own/name.x"
    )
    assert repository.move(stays, old, new) == stays
    before = (
        "git+https://github.com/own/name.git (https://github.com/own/name). own.github.io/name/"
    )
    after = (
        "git+https://github.com/new/place.git (https://github.com/new/place). new.github.io/place/"
    )
    assert repository.move(before, old, new) == after


def test_every_occurrence_moves_and_nothing_else_changes(copy: Path) -> None:
    before, old = snapshot(copy), Repository.current(copy)
    assert move(copy, ELSEWHERE) > 5
    after = snapshot(copy)
    assert after.keys() == before.keys()
    assert Repository.current(copy) == ELSEWHERE
    for name, content in after.items():
        assert old.slug.encode() not in content, name
        assert old.pages.encode() not in content, name
    assert move(copy, ELSEWHERE) == 0, "a second time there is nothing to do"
    move(copy, old)
    assert snapshot(copy) == before, "and back again, byte for byte"


def test_a_failed_move_changes_nothing(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, replaced = snapshot(copy), []

    def replace(source: Path, target: Path) -> None:
        if len(replaced) == 3:
            raise OSError("the disk is full")
        replaced.append(target)
        Path(source).rename(target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="full"):
        move(copy, ELSEWHERE)
    assert snapshot(copy) == before


def test_the_command_says_what_it_did_and_refuses_nonsense(copy: Path) -> None:
    command = [sys.executable, "tools/repository.py"]
    good = subprocess.run([*command, address(ELSEWHERE)], cwd=copy, capture_output=True, text=True)
    assert good.returncode == 0 and "_config.yml" in good.stdout
    before = snapshot(copy)
    bad = subprocess.run([*command, "nonsense"], cwd=copy, capture_output=True, text=True)
    assert bad.returncode == 2 and "Nothing was changed" in bad.stderr
    assert snapshot(copy) == before


def test_no_address_is_a_stray() -> None:
    """The placeholder's name occurs in its address alone, where a move finds it."""
    here = Repository.current(ROOT)
    for name, content in snapshot(ROOT).items():
        if name == "tests/test_repository.py":
            continue  # this file
        text = content.decode("utf-8", errors="replace")
        for line in text.splitlines():
            bare = line.replace(here.slug, "").replace(here.pages, "")
            assert PLACEHOLDER.name not in bare, f"{name}: {line.strip()}"
            if here != PLACEHOLDER:
                assert PLACEHOLDER.slug not in line, f"{name}: {line.strip()}"


def test_the_files_that_readers_start_from_name_the_address() -> None:
    here = address(Repository.current(ROOT))
    for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
        assert here in (ROOT / name).read_text(encoding="utf-8"), name
    for path in sorted(ROOT.glob("chapters/*/*.ipynb")):
        first = next(
            cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
        )
        assert f'"dnnl[book] @ git+{here}"' in first.source, path.name


# ---- the project's files -------------------------------------------------------------------------


def requirements(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [line.split("#")[0].strip() for line in lines]
    return dict(pin.split("==") for pin in pins if pin and not pin.startswith("-r"))


def test_requirements_are_exact_and_explained() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in ("requirements.txt", "requirements-test.txt"):
        pins = requirements(name)
        assert pins
        for package in pins:
            assert f"`{package}`" in contributing, f"{package}: why is it here?"


def test_the_linter_is_one_version_everywhere() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    revisions = {hook["repo"].rsplit("/", 1)[-1]: hook["rev"] for hook in hooks["repos"]}
    assert revisions["ruff-pre-commit"] == f"v{requirements('requirements-test.txt')['ruff']}"


def test_the_version_is_named_once() -> None:
    import dnnl

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(
        rf"^## \[(Unreleased|{re.escape(dnnl.__version__)})\]", changelog, re.MULTILINE
    )
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert dnnl.__version__ not in pyproject


def test_no_file_names_a_place_on_one_machine() -> None:
    place = re.compile(rb"/(home|root|tmp|Users)/[A-Za-z0-9._-]+/")
    for name, content in snapshot(ROOT).items():
        assert not place.search(content), name


@pytest.mark.parametrize("workflow", ["ci.yml", "pages.yml"])
def test_workflows_run_what_anyone_can_run(workflow: str) -> None:
    text = (ROOT / ".github" / "workflows" / workflow).read_text(encoding="utf-8")
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    targets = {t for step in steps for t in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert targets
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
