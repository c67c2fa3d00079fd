"""The book is the same on every machine: what decides its pages is in the checkout."""

from __future__ import annotations

import filecmp
import subprocess
import sys
from pathlib import Path

import checkout
import pytest

pytestmark = [pytest.mark.book, pytest.mark.release]

SCRIPT = """
import os, runpy, sys
os.umask(0o077)
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core
sys.argv = ["tools/book.py"]
runpy.run_path("tools/book.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the book where nothing is as usual, and return the site."""
    folder = tmp_path_factory.mktemp("machine") / "a path with spaces, 汉字 & 'quotes'"
    checkout.copy(folder)
    programs = tmp_path_factory.mktemp("bin")  # neither git nor a shell
    for name in ("python", "jupyter-book", "deno"):
        (programs / name).symlink_to(Path(sys.executable).parent / name)
    environment = {
        "PATH": str(programs),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "Pacific/Kiritimati",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "7",
        **{f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https", "all")},
    }
    # The package is installed in place; the copy's own must be found first.
    environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "_build" / "html"


def names(site: Path) -> set[str]:
    """Return the files of a site, without Sphinx's hash of the settings, which name folders."""
    files = (path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file())
    return {name for name in files if not name.endswith(".buildinfo")}


def test_a_build_elsewhere_gives_the_same_site(site: Path, elsewhere: Path) -> None:
    """No locale, another time zone, no home, no git, one core, a dead proxy, an odd path."""
    assert names(elsewhere) == names(site)
    _, different, unread = filecmp.cmpfiles(site, elsewhere, sorted(names(site)), shallow=False)
    assert not different and not unread
