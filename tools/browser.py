"""Find a Chromium for the browser tests.

With ``--install`` one is installed if none is found; with ``--path`` only its path is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the path of a Chromium: the system's, or else the one that Playwright downloaded."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if os.path.exists(path) else None


def install() -> str | None:
    """Install a Chromium in the first way that works here and return its path."""
    ways = []
    if shutil.which("apt-get") and os.geteuid() == 0:
        ways.append(["apt-get", "update", "--quiet"])
        ways.append(
            ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
        )
    ways.append([sys.executable, "-m", "playwright", "install", "chromium"])
    for way in ways:
        print("+", " ".join(way), flush=True)
        subprocess.run(way, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if path := find():
            return path
    return None


def main() -> int:
    path = find() or (install() if "--install" in sys.argv[1:] else None)
    if path is None:
        print(
            "The browser tests need Chromium, but it was not found and could not be installed. "
            f"Install it so that one of these commands is on PATH: {', '.join(NAMES)}.",
            file=sys.stderr,
        )
        return 1
    print(path if "--path" in sys.argv[1:] else f"browser: {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
