"""Change the repository's address in every file. (make repository URL=...)

The current address is read from ``_config.yml`` and replaced in every file that git tracks or would
track: links, badges, Colab buttons, install commands, and the address of the site on GitHub Pages.
If a file cannot be written, no file is changed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# GitHub only: Colab opens notebooks from there, and the workflows run there.
ADDRESS = re.compile(
    r"https://github\.com/(?P<owner>[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?)"
    r"/(?P<name>[A-Za-z0-9._-]{1,100})"
)
NAMED_IN = "_config.yml"
NAMED_AS = re.compile(r"^  url: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Repository:
    """The owner and the name of a repository on GitHub."""

    owner: str
    name: str

    @classmethod
    def parse(cls, url: str) -> Repository:
        """Parse ``https://github.com/owner/name``; any other form raises ValueError."""
        match = ADDRESS.fullmatch(url)
        if not match or match["name"] in {".", ".."} or match["name"].endswith(".git"):
            raise ValueError(
                f"Expected https://github.com/owner/name without a trailing slash or .git, "
                f"but got {url!r}."
            )
        return cls(match["owner"], match["name"])

    @classmethod
    def current(cls, root: Path) -> Repository:
        """Read the current address from the settings of the book."""
        found = NAMED_AS.findall((root / NAMED_IN).read_text(encoding="utf-8"))
        if len(found) != 1:
            raise ValueError(f"Expected one `url:` in {NAMED_IN}, but found {len(found)}.")
        return cls.parse(found[0])

    @property
    def slug(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def pages(self) -> str:
        """The address of the site that GitHub Pages serves, without ``https://``."""
        return f"{self.owner.lower()}.github.io/{self.name}"


def move(text: str, old: Repository, new: Repository) -> str:
    """Return ``text`` with every address of ``old`` replaced by that of ``new``."""
    for before, after in ((old.slug, new.slug), (old.pages, new.pages)):
        # Whole names only: not the end of a longer owner or the start of a longer name.
        whole = rf"(?<![\w.-]){re.escape(before)}(?![\w-]|\.(?!git\b)\w)"
        text = re.sub(whole, after, text)  # names contain no backslash
    return text


def files(root: Path) -> list[Path]:
    """Return the files that git tracks, or would track, below ``root``."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    paths = (root / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def plan(root: Path, new: Repository) -> dict[Path, tuple[bytes, bytes]]:
    """Return the bytes before and after of each file that would change."""
    old = Repository.current(root)
    changes = {}
    for path in files(root):
        before = path.read_bytes()
        try:
            after = move(before.decode("utf-8"), old, new).encode("utf-8")
        except UnicodeDecodeError:
            continue  # a binary file
        if after != before:
            changes[path] = (before, after)
    return changes


def apply(changes: dict[Path, tuple[bytes, bytes]]) -> None:
    """Write every file; if one fails, restore all of them."""
    parts: list[tuple[Path, Path]] = []
    done: list[Path] = []
    try:
        for path, (_, after) in changes.items():
            part = path.with_name(path.name + ".part")
            parts.append((part, path))
            part.write_bytes(after)
            part.chmod(path.stat().st_mode)
        for part, path in parts:
            os.replace(part, path)
            done.append(path)
    except OSError:
        for path in done:
            path.write_bytes(changes[path][0])
        for part, _ in parts:
            part.unlink(missing_ok=True)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", metavar="URL", help="https://github.com/owner/name")
    url = parser.parse_args().url
    try:
        changes = plan(ROOT, Repository.parse(url))
        apply(changes)
    except (OSError, ValueError) as error:
        parser.exit(2, f"{error} Nothing was changed.\n")
    for path in changes:
        print(path.relative_to(ROOT))
    print(
        f"{len(changes)} files now name {url}." if changes else f"Every file names {url} already."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
