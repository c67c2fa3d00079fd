"""The README: its picture is computed, its code runs, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_cover_is_what_its_program_draws() -> None:
    picture = [sys.executable, str(ROOT / "tools" / "cover.py"), "--check"]
    assert subprocess.run(picture).returncode == 0, "run `make execute`"


def test_the_code_runs_and_gives_the_shapes_of_its_comments() -> None:
    # (the second block asks the hub: test_vit_pretrained_hub)
    block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(block, names)
    for name, shape in re.findall(r"^(\w+) = .*# (\(.*\))$", block, re.MULTILINE):
        assert str(tuple(names[name].shape)) == shape
    assert re.search(r"^table = ", block, re.MULTILINE)


def test_its_relative_links_exist() -> None:
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in t]
    assert targets
    for target in targets:
        if target.startswith(
            "../../actions/"
        ):  # GitHub's own page, of whichever repository shows it
            target = ".github/workflows/" + target.split("/")[4]
        assert (ROOT / target).exists(), target


def test_the_folders_it_names_exist() -> None:
    for path in re.findall(r"`((?:[\w.]+/)+|dnnl/\w+\.py|_\w+\.yml)`", README):
        assert (ROOT / path).exists(), path
