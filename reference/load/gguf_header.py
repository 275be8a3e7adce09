"""The header of a GGUF file, read strictly: each count and offset is held against the size of the file.

    magic "GGUF", u32 version, u64 number of tensors, u64 number of metadata entries
    metadata:  string key, u32 type, value                   string: u64 length, UTF-8 bytes
    tensors:   string name, u32 number of dimensions, u64 each (row length first), u32 type, u64 offset
    padding to the alignment, then the data, in order and padded alike; offsets count from there

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.errors import ModelError
from gnomon.reference.load.stored import BLOCKS, Stored
from gnomon.reference.strict_json import show

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_LIMIT = 32 << 20  # bytes; a vocabulary of half a million tokens with its merges stays below
# What Python makes of a value takes up to a hundred times its bytes in the file, so their numbers are limited too.
MAX_VALUES, MAX_ENTRIES, MAX_TENSORS = 1 << 22, 1 << 16, 1 << 17
BOOL, STRING, ARRAY = 7, 8, 9
NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 10: "<u8", 11: "<i8", 12: "<f8"}

TYPE_NAMES = {int(kind): kind.name for kind in gguf.GGMLQuantizationType}


@dataclass(frozen=True)
class GgufFile:
    """metadata: str, int, float, bool or a list of one of these, by key; tensors: by name"""

    metadata: dict[str, Any]
    tensors: dict[str, Stored]


def read_gguf(path: Path) -> GgufFile:
    """Metadata and tensors. Raises ModelError, before it allocates, where the file contradicts itself."""
    size = path.stat().st_size
    if size < 24:
        raise ModelError(f"Expected a GGUF file of at least 24 bytes but {show(path.name)} has {size}")
    data = np.asarray(np.memmap(path, np.uint8, mode="r"))
    scan = Scan(data.data)
    if scan.take(4, "the magic") != MAGIC:
        raise ModelError(f"Expected {show(path.name)} to start with the magic GGUF but it does not")
    version = scan.u32("the version")
    if version not in VERSIONS:
        kind = "a big-endian file" if version & 0xFFFF == 0 else f"version {version}"
        raise ModelError(f"Expected a little-endian GGUF file of version 2 or 3 but got {kind}")
    tensor_count, entry_count = scan.u64("the number of tensors"), scan.u64("the number of metadata entries")
    scan.room(entry_count, 13, "metadata entries", MAX_ENTRIES)  # 8 + 4 bytes and a value of at least one
    scan.room(tensor_count, 32, "tensors", MAX_TENSORS)  # 8 + 4 + 8 + 4 + 8 bytes
    metadata: dict[str, Any] = {}
    for _ in range(entry_count):
        key = scan.text("a metadata key")
        if key in metadata:
            raise ModelError(f"Expected each metadata key once but {show(key)} stands there twice")
        metadata[key] = scan.value(scan.u32(f"the type of {show(key)}"), show(key))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise ModelError(f"Expected general.alignment to be a power of two but got {show(alignment)}")
    infos = [scan.tensor() for _ in range(tensor_count)]
    return GgufFile(metadata, place(infos, data, padded(scan.at, alignment), alignment))


@dataclass(frozen=True)
class Info:
    """What the header says of a tensor; offset: bytes from the start of the data"""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        per_block, block_bytes = BLOCKS[self.dtype]
        return prod(self.shape) // per_block * block_bytes


def padded(offset: int, alignment: int) -> int:
    """The first multiple of the alignment from `offset` on."""
    return -(-offset // alignment) * alignment


def place(infos: list[Info], data: NDArray[np.uint8], start: int, alignment: int) -> dict[str, Stored]:
    """The tensors as views of `data`, the whole file. Each begins where the one before ends, padded."""
    tensors: dict[str, Stored] = {}
    expected = 0
    for info in infos:
        if info.name in tensors:
            raise ModelError(f"Expected each tensor once but {show(info.name)} stands there twice")
        if info.offset != expected:
            raise ModelError(
                f"Expected {show(info.name)} at offset {expected}, where the tensor before it ends, "
                f"but the file places it at {info.offset}"
            )
        begin, end = start + info.offset, start + info.offset + info.nbytes
        if end > len(data):
            raise ModelError(f"Expected {show(info.name)} to end within the file, at {len(data)}, but it ends at {end}")
        tensors[info.name] = Stored(info.dtype, info.shape, data[begin:end])
        expected = padded(info.offset + info.nbytes, alignment)
    if len(data) > start + expected:
        raise ModelError(
            f"Expected the file to end with its last tensor, at {start + expected}, but got {len(data)} bytes"
        )
    return tensors


class Scan:
    """A cursor over the header. Each read names what it is after, for the message where the header ends."""

    def __init__(self, file: memoryview) -> None:
        self.data = file[:HEADER_LIMIT]
        self.at = 0
        self.values = 0  # of lists, read so far

    def take(self, size: int, what: str) -> memoryview:
        """The next `size` bytes."""
        self.room(size, 1, f"bytes of {what}")
        self.at += size
        return self.data[self.at - size : self.at]

    def room(self, count: int, least: int, what: str, limit: int | None = None) -> None:
        """Refuses a count of things, each of at least `least` bytes, that is more than what is left can hold, or more
        than the limit."""
        left = len(self.data) - self.at
        if count * least > left:
            raise ModelError(
                f"Expected the GGUF header to hold what it announces but {count} {what} do not fit into the "
                f"{left} bytes after byte {self.at}"
            )
        if limit is not None and count > limit:
            raise ModelError(f"Expected a GGUF header of at most {limit} {what} but it announces {count}")

    def u32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little")

    def text(self, what: str) -> str:
        """A string."""
        raw = self.take(self.u64(f"the length of {what}"), what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"Expected UTF-8 in {what} at byte {self.at - len(raw)} of the GGUF header") from error

    def value(self, kind: int, what: str) -> Any:
        """The metadata value of GGUF type `kind`."""
        if kind == STRING:
            return self.text(what)
        if kind == ARRAY:
            kind = self.u32(f"the element type of {what}")
            count = self.u64(f"the length of {what}")
            self.room(count, 8 if kind == STRING else 1, f"values of {what}", MAX_VALUES - self.values)
            self.values += count
            if kind == STRING:
                return [self.text(what) for _ in range(count)]
            return self.numbers(kind, count, what)
        return self.numbers(kind, 1, what)[0]

    def numbers(self, kind: int, count: int, what: str) -> list[Any]:
        """`count` numbers of GGUF type `kind`, or bytes 0 and 1 as booleans. Arrays of arrays are refused."""
        dtype = "<u1" if kind == BOOL else NUMBERS.get(kind)
        if dtype is None:
            raise ModelError(f"Expected numbers, booleans or strings in {what} but its GGUF type is {kind}")
        values: list[Any] = np.frombuffer(self.take(count * np.dtype(dtype).itemsize, what), dtype).tolist()
        if kind != BOOL:
            return values
        if not set(values) <= {0, 1}:
            raise ModelError(f"Expected 0 or 1 for a boolean in {what} but got {max(values)}")
        return [value == 1 for value in values]

    def tensor(self) -> Info:
        """The entry of one tensor; its dimensions multiply to less than 2^63 values of whole blocks."""
        name = self.text("a tensor name")
        what = f"tensor {show(name)}"
        dimensions = self.u32(f"the dimensions of {what}")
        if not 1 <= dimensions <= 4:
            raise ModelError(f"Expected 1 to 4 dimensions for {what} but got {dimensions}")
        shape = tuple(self.u64(f"the shape of {what}") for _ in range(dimensions))[::-1]
        number, offset = self.u32(f"the type of {what}"), self.u64(f"the offset of {what}")
        dtype = TYPE_NAMES.get(number, f"number {number}")
        if dtype not in BLOCKS:
            raise ModelError(f"Expected {what} to have a type among {', '.join(BLOCKS)} but got {dtype}")
        if min(shape) < 1 or prod(shape) >= 1 << 63:
            raise ModelError(f"Expected {what} to have 1 to 2^63 values but its shape is {list(shape)}")
        if shape[-1] % BLOCKS[dtype][0]:
            raise ModelError(
                f"Expected the rows of {what} to be whole {dtype} blocks of {BLOCKS[dtype][0]} values "
                f"but they have {shape[-1]}"
            )
        return Info(name, dtype, shape, offset)
