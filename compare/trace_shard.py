"""Shards: .safetensors files that are written while the engine runs and read through a memory map.

Format:  u64 length of the header, the header (JSON, padded with spaces), then the tensors without a gap, little-endian.
         A writer keeps room for the header and fills it in when the shard is closed, so tensors go to the file as
         they come and memory never holds more than one of them.
Source:  https://github.com/huggingface/safetensors, "Format"
"""

import json
import math
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from gnomon.compare import bits
from gnomon.compare.bits import Patterns
from gnomon.reference.errors import UsageError
from gnomon.reference.strict_json import LIMIT, parse_object, show

HEADER = 1 << 17  # bytes kept for the header: about a thousand tensors
AHEAD = 64 << 20  # bytes that the system is asked to read before they are looked at
SHARD = 256 << 20  # bytes of tensors after which the next shard begins; a larger tensor has one to itself

FIRST = "shard-00000.safetensors"
DTYPES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8",
    "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8", "bool": "BOOL",
}  # fmt: skip
NAMES = {stored: name for name, stored in DTYPES.items()}
NUMPY = {form.name: np.dtype(name).newbyteorder("<") for name, form in bits.FORMATS.items()} | {"bf16": np.dtype("<u2")}


def read_ahead(file: int, start: int, length: int) -> None:
    """Ask the system to read a part of an open file into its own memory, and do not wait for it."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(file, start, length, os.POSIX_FADV_WILLNEED)


class ShardWriter:
    """A shard in the making; `close` completes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("xb")
        self.file.write(b" " * (8 + HEADER))
        self.entries: list[str] = []
        self.header = 2  # bytes of the header so far
        self.size = 0  # bytes of tensors so far

    def add(self, key: str, dtype: str, pattern: Patterns) -> bool:
        """Append a tensor. False, and nothing written, where it would outgrow the shard; an empty shard takes it."""
        span = [self.size, self.size + pattern.nbytes]
        entry = {"dtype": DTYPES[dtype], "shape": list(pattern.shape), "data_offsets": span}
        text = f"{json.dumps(key)}:{json.dumps(entry, separators=(',', ':'))}"
        if self.entries and (span[1] > SHARD or self.header + len(text) + 1 > HEADER):
            return False
        if self.header + len(text) > HEADER:
            raise UsageError(f"Expected a tensor name of at most {HEADER // 2} bytes but got {show(key)}")
        self.file.write(pattern.data)
        self.entries.append(text)
        self.header += len(text) + 1
        self.size = span[1]
        return True

    def close(self) -> None:
        header = ("{" + ",".join(self.entries) + "}").encode()
        self.file.seek(0)
        self.file.write(HEADER.to_bytes(8, "little") + header.ljust(HEADER))
        self.file.close()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.file.close()


class Entry(NamedTuple):
    """A tensor of a shard. start: its first byte, from the end of the header"""

    dtype: str
    shape: tuple[int, ...]
    start: int


class Shard:
    """A shard on disk, mapped. Raises UsageError where it is missing, truncated or at odds with itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.exists() and not path.is_file():
                raise UsageError(f"Expected {path.name} to be a file but it is a directory, a device or a pipe")
            with path.open("rb") as file:
                head = file.read(8)
                if not head:
                    raise UsageError(f"Expected {path.name} to hold tensors but it is empty")
                length = int.from_bytes(head, "little")
                if length > LIMIT:
                    raise UsageError(f"Expected a header of at most {LIMIT} bytes in {path.name} but it has {length}")
                raw = file.read(length)
                with safe_open(path, framework="numpy"):
                    pass  # it has checked types, shapes, gaps, overlaps and the size of the file
                self.data = 8 + length  # where the tensors begin
                self.bytes = np.asarray(np.memmap(file, np.uint8, mode="r"))[self.data :]
                self.file = os.dup(file.fileno())
            weakref.finalize(self, os.close, self.file)
        except OSError as error:
            raise UsageError(f"Expected to read {path.name} but got: {error.strerror or error}") from error
        except SafetensorError as error:
            reason = show(str(error))[1:-1]
            raise UsageError(f"Expected {path.name} to be a sound safetensors file but got: {reason}") from error
        header = parse_object(raw, f"the header of {path.name}")
        header.pop("__metadata__", None)
        for key, entry in header.items():
            if entry["dtype"] not in NAMES:
                raise UsageError(f"Expected {show(key)} in {path.name} to have a known type but got {entry['dtype']}")
        self.entries = {
            key: Entry(NAMES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"][0])
            for key, entry in header.items()
        }

    def array(self, key: str) -> NDArray[Any]:
        """A read-only view of the file; bf16 as uint16"""
        entry = self.entries[key]
        return np.ndarray(entry.shape, NUMPY[entry.dtype], self.bytes, entry.start)

    def blocks(self, key: str, values: int) -> Iterator[Patterns]:
        """The patterns of a tensor, in order, so many values at a time, read from the file and not from the map.

        Mapping a page costs more than copying it. The system is asked to read AHEAD bytes further on meanwhile.
        """
        entry = self.entries[key]
        size = NUMPY[entry.dtype].itemsize
        stop = entry.start + math.prod(entry.shape) * size
        for at in range(entry.start, stop, values * size):
            length = min(values * size, stop - at)
            read_ahead(self.file, self.data + at + AHEAD, length)
            raw = os.pread(self.file, length, self.data + at)
            if len(raw) < length:
                raise UsageError(f"Expected {self.path.name} to stay as it is while it is read but it was cut short")
            yield np.frombuffer(raw, f"<u{size}")
