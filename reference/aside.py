"""Files that are whole or absent: written aside, then renamed into place."""

import fcntl
import glob
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from gnomon.reference.errors import UsageError


def write_aside(path: str | os.PathLike[str], pieces: Iterable[bytes]) -> None:
    """Write a file from its pieces; a symbolic link is followed to the file that it names.

    Raises UsageError where that cannot be done, and where a device or a pipe stands: to rename would put a file in its
    place.
    """
    said, target = repr(str(path)), Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise UsageError(f"Expected {said} to be a file, or nothing yet, but it is a device or a pipe; name a file")
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    sweep(target)
    try:
        with aside.open("wb") as file:
            hold(file)
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    except OSError as error:
        raise UsageError(f"Expected to write {said} but got: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)


def hold(file: IO[Any]) -> None:
    """Whoever writes aside holds a lock, which tells what dead processes have left from what is in the making."""
    with suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sweep(target: Path, within: str = "") -> None:
    """Remove what processes that were killed have left beside `target`. within: the file of a folder that is held"""
    with suppress(OSError):
        for left in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
            with suppress(OSError), (left / within if within else left).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else it is being written
                if within:
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink()
