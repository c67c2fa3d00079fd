"""Builds the example book."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
EXAMPLE = PROJECT / "example"


def build(source: Path, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build a book strictly: a warning is an error."""
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", *options, source, target],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
