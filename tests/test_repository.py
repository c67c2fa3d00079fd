"""The repository's address is one, a fork's pages name the fork, and the project's files agree."""

from __future__ import annotations

import json
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

import book  # noqa: E402
from checkout import copy, files  # noqa: E402

HOME: str = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
SLUG = HOME.removeprefix("https://github.com/")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def git(folder: Path, *args: str) -> str:
    run = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout


# ---- the address -------------------------------------------------------------------------------


@pytest.mark.parametrize("edition", book.EDITIONS)
def test_the_pages_of_a_fork_lead_to_the_fork(edition: str, monkeypatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert book.config(edition)["repository"]["url"] == HOME
    monkeypatch.setenv("GITHUB_REPOSITORY", "Some-Owner/another.name_1")
    settings = book.config(edition)["repository"]
    assert settings["url"] == "https://github.com/Some-Owner/another.name_1"
    assert settings["branch"] == "main"


def test_the_command_of_contributing_moves_every_address(tmp_path: Path) -> None:
    """It runs in a copy, with another owner and name."""
    before = {name: (ROOT / name).read_bytes() for name in files()}
    copy(tmp_path)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    (command,) = re.findall(r"^    (git grep .*)$", CONTRIBUTING, re.MULTILINE)
    command = command.replace("owner/name", "some-owner/another.name")
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True)
    after = {name: (tmp_path / name).read_bytes() for name in before}
    changed = {name for name in before if before[name] != after[name]}
    assert {"_config.yml", "README.md", "pyproject.toml", "CITATION.cff"} < changed
    old, new = SLUG.encode(), b"some-owner/another.name"
    for name in changed:
        if name != "CONTRIBUTING.md":  # its command names the old address and the new one
            assert before[name].replace(old, new) == after[name], name
    settings = yaml.safe_load(after["_config.yml"])
    assert settings["repository"]["url"] == "https://github.com/some-owner/another.name"


def test_no_address_is_a_stray() -> None:
    """The name of the repository occurs in its address alone, where the command finds it."""
    name = SLUG.split("/")[1]
    for file in files():
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace")
        assert name not in text.replace(SLUG, ""), file


def test_the_files_that_readers_start_from_name_the_address() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml", "CITATION.cff"):
        assert HOME in (ROOT / name).read_text(encoding="utf-8"), name
    for path in sorted(ROOT.glob("chapters/*/*.ipynb")):
        first = next(
            cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
        )
        assert f'"dnnl[book] @ git+{HOME}"' in first.source, path.name


# ---- the project's files -------------------------------------------------------------------------


def requirements(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [line.split("#")[0].strip() for line in lines]
    return dict(pin.split("==") for pin in pins if pin and not pin.startswith("-r"))


def test_requirements_are_exact_and_explained() -> None:
    for name in ("requirements.txt", "requirements-test.txt"):
        pins = requirements(name)
        assert pins
        for package in pins:
            assert f"`{package}`" in CONTRIBUTING, f"{package}: why is it here?"


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
    for name in files():
        assert not place.search((ROOT / name).read_bytes()), name


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(workflow: Path) -> dict[str, dict]:
    return yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_anyone_can_run(workflow: Path) -> None:
    commands = [
        step["run"] for job in jobs(workflow).values() for step in job["steps"] if "run" in step
    ]
    versions = [
        target
        for job in jobs(workflow).values()
        for target in job.get("strategy", {}).get("matrix", {}).get("versions", [])
    ]
    targets = {t for run in commands for t in re.findall(r"\bmake ([a-z-]+)", run)} | {*versions}
    assert targets
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_what_is_published_is_what_was_tested() -> None:
    (path,) = [path for path in WORKFLOWS if "deploy-pages" in path.read_text(encoding="utf-8")]
    publish = jobs(path)["publish"]
    assert "test" in publish["needs"]
    assert [step.get("run") for step in publish["steps"]] == [None], "it builds nothing"
    uses = [step.get("uses", "") for step in jobs(path)["test"]["steps"]]
    runs = [step.get("run", "") for step in jobs(path)["test"]["steps"]]
    tested = max(i for i, run in enumerate(runs) if run.startswith("make"))
    (uploaded,) = [i for i, use in enumerate(uses) if "upload-pages-artifact" in use]
    assert tested < uploaded


def test_every_requirement_but_torch_is_locked_with_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(r"^([a-z0-9.-]+)==([^ ;]+).*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert len(locked) == len(re.findall(r"^[a-z]", text, re.MULTILINE)), "one has no hash"
    wanted = {p: v for p, v in requirements("requirements.txt").items() if "torch" not in p}
    assert wanted.items() <= set(locked), "run `make lock`"
    assert {"docutils", "pydata-sphinx-theme", "pygments", "jinja2"} < dict(locked).keys()
    assert "://" not in text, "it names no index"


# ---- what GitHub and others read -----------------------------------------------------------------


def test_the_citation_is_as_its_format_asks() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'license = "{citation["license"]}"' in pyproject
    assert citation["repository-code"] == HOME
    for author in citation["authors"]:
        assert f'name = "{author["name"]}"' in pyproject


@pytest.mark.parametrize("name", ["page.yml", "package.yml"])
def test_an_issue_form_has_what_github_asks_for(name: str) -> None:
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE" / name).read_text(encoding="utf-8"))
    assert form["name"] and form["description"] and form["body"]
    fields = [item for item in form["body"] if item["type"] != "markdown"]
    assert len({item["id"] for item in fields}) == len(fields)
    assert all(item["attributes"]["label"] for item in fields)


def test_the_container_and_binder_have_what_the_book_needs() -> None:
    settings = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (ROOT / ".devcontainer" / settings["build"]["dockerfile"]).is_file()
    assert settings["postCreateCommand"] == "make book"
    options = settings["customizations"]["vscode"]["settings"]
    assert (ROOT / options["deno.config"]).is_file() and os.path.isdir(
        ROOT / options["deno.enablePaths"][0]
    )
    binder = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8")
    assert "-e .[book,pretrained]" in binder.splitlines()
    (version,) = re.findall(r"python-(\d\.\d+)", (ROOT / "binder/runtime.txt").read_text())
    assert version in {"3.11", "3.12", "3.13"}
