"""Atomic replacement of files: as a whole or not at all, whatever interrupts the writing."""

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

_SUFFIX = ".partial"


def replace_file(path: Path, write: Callable[[str], Any]) -> None:
    """Let ``write`` fill a temporary file, then rename it to ``path``.

    Raises:
        OSError: if the file cannot be written; ``path`` then stays as it was.
    """
    with temporary_file(path) as temporary:
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)


@contextmanager
def temporary_file(path: Path) -> Iterator[str]:
    """Give a path in a temporary folder beside ``path``, and remove the folder at the end.

    Folders that a killed process left there are removed too. A folder in use is locked.
    """
    for abandoned in path.parent.glob(f".{glob.escape(path.name)}.????????{_SUFFIX}"):
        with suppress(OSError):  # another process is using it, or has just removed it
            handle = _lock(abandoned)
            shutil.rmtree(abandoned, ignore_errors=True)
            _unlock(handle)
    folder, handle = _new_folder(path)
    try:
        yield str(folder / path.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(handle)


def _new_folder(path: Path) -> tuple[Path, int]:
    """Make and lock a folder beside ``path``; return it with the handle of its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(_SUFFIX, f".{path.name}.", path.parent))
        with suppress(BlockingIOError, FileNotFoundError):  # it was taken for an abandoned one
            handle = _lock(folder)
            if folder.is_dir():
                return folder, handle
            _unlock(handle)


def _lock(folder: Path) -> int:
    """Open and lock a folder, or raise BlockingIOError if another process has locked it."""
    if sys.platform == "win32":  # where nobody can remove a file that is open
        return -1
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        pass  # a file system without locks
    return handle


def _unlock(handle: int) -> None:
    if handle >= 0:
        os.close(handle)
