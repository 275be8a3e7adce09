"""Files that are whole or absent: written aside, then renamed into place."""

import os
from collections.abc import Iterable
from pathlib import Path

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
    try:
        with aside.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    except OSError as error:
        raise UsageError(f"Expected to write {said} but got: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
