"""The files of the project."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files() -> list[str]:
    """Return the files that git tracks, or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def copy(target: Path) -> None:
    """Copy the files of the project, without git's own folder."""
    for name in files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
