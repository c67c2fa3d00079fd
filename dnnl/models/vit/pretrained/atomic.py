"""Files that are replaced as a whole or not at all, whatever interrupts the writing."""

import glob
import os
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
    """Let ``write`` fill a temporary file beside ``path``, then rename it to ``path``.

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
    """Make a temporary file beside ``path``, and remove it at the end if it is still there.

    Those that a killed process left there are removed too. A file that is being written is locked.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????{_SUFFIX}"):
        with suppress(OSError):  # another process is writing it, or has just renamed it
            with open(left, "rb") as file:
                _lock(file.fileno())
            left.unlink()
    handle, temporary = tempfile.mkstemp(_SUFFIX, f".{path.name}.", path.parent)
    if sys.platform == "win32":  # where a file cannot be renamed while it is open
        os.close(handle)
    else:
        with suppress(OSError):  # a file system without locks
            _lock(handle)
    try:
        yield temporary
    finally:
        if sys.platform != "win32":
            os.close(handle)
        Path(temporary).unlink(missing_ok=True)


def _lock(handle: int) -> None:
    """Lock an open file, or raise OSError if another process has locked it."""
    if sys.platform != "win32":  # where nobody can remove a file that is open
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
