"""A ledger: a hash chain in a file that only grows, written by one process at a time.

The chain of a ledger has no last line. Who keeps its number of records and the hash of the last one, its head, sees a
cut and a rewriting; who has the hash of one record can show that it is in there.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple

from gnomon.reference.chain import LONGEST, START, ChainError, Record, UnreadableError, canonical, verify
from gnomon.reference.errors import UsageError
from gnomon.reference.strict_json import parse_object, show


class Extent(NamedTuple):
    """records: how many; head: the hash of the last one"""

    records: int
    head: str


class Ledger:
    """extent: of what is written. `append` from one thread, `verify` from any."""

    def __init__(self, path: Path | None = None) -> None:
        """path: a file to go on with or to begin; None: one without a name, which is gone with the process.

        Raises UsageError where the file cannot be had alone, ChainError where it does not hold together.
        """
        self._lock = Lock()
        opened: Callable[[], Any] = tempfile.TemporaryFile if path is None else partial(path.open, "a+b")
        with ExitStack() as stack:
            try:
                self._file: BinaryIO = stack.enter_context(opened())
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(
                    f"Expected a ledger at {show(str(path))} that no other process writes but got: {error.strerror}"
                ) from error
            self.extent = _extent(self._file)
            stack.pop_all()  # it stays open

    def append(self, record: Record) -> Extent:
        """Write a line. Gives the extent up to it."""
        linked = {**record, "prev": self.extent.head}
        digest = hashlib.sha256(canonical(linked)).hexdigest()
        line = canonical({**linked, "hash": digest}) + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._file.fileno(), line) :]
            self.extent = Extent(self.extent.records + 1, digest)
            return self.extent

    def verify(self) -> Extent:
        """Read what is written from the start. Raises ChainError where it is no longer what was written."""
        with self._lock:
            size, written = os.fstat(self._file.fileno()).st_size, self.extent
        found = _extent(self._file, size)
        if found != written:
            raise ChainError(
                min(found.records, written.records),
                f"Expected {written.records} records up to {written.head} but the file has {found.records} up to "
                f"{found.head}",
            )
        return found

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def verify_file(path: Path, record: str | None = None) -> Extent:
    """The extent of the ledger in a file. record: the hash of a record that must be in it

    Raises UsageError where it cannot be read, ChainError where a line does not follow or the record is not there.
    """
    seen: list[str] = []
    try:
        with path.open("rb") as file:
            extent = _extent(file, seen=seen)
    except OSError as error:
        raise UsageError(f"Expected a ledger at {show(str(path))} but got: {error.strerror}") from error
    if record is not None and record not in seen:
        raise ChainError(extent.records, f"Expected a record of hash {show(record)} but there is none in the ledger")
    return extent


def _extent(file: BinaryIO, size: int | None = None, seen: list[str] | None = None) -> Extent:
    """Of a chain without a last line: it is verified with the line that would have to come. Raises ChainError."""
    hashes: list[str] = [] if seen is None else seen

    def closed() -> Iterator[str]:
        for line in _lines(file.fileno(), os.fstat(file.fileno()).st_size if size is None else size):
            yield line
            hashes.append(str(parse_object(line.encode("utf-8"), "a line")["hash"]))
        last = {"end": len(hashes), "reason": "open", "prev": hashes[-1] if hashes else START}
        yield canonical({**last, "hash": hashlib.sha256(canonical(last)).hexdigest()}).decode("ascii")

    records = len(verify(closed()))
    return Extent(records, hashes[-1] if hashes else START)


def _lines(descriptor: int, size: int) -> Iterator[str]:
    """The lines in the first `size` bytes, read beside whoever writes. Raises ChainError where the last has no end."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UsageError("Expected a ledger to be a file but it is a directory, a device or a pipe")
    at, index, rest = 0, 0, b""
    while block := os.pread(descriptor, min(1 << 20, size - at), at):
        at += len(block)
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.decode("ascii", "replace")
        index += len(whole)
        if len(rest) > LONGEST:
            raise UnreadableError(index, f"Expected at most {LONGEST} bytes on line {index} but it is longer")
    if rest:
        raise UnreadableError(index, f"Expected line {index} to have an end but the file is cut there; move it aside")
