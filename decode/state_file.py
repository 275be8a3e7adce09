"""A state as one .safetensors file or one stream of bytes: the same state gives the same bytes, whatever the engine.

A reader knows the size of everything before it takes memory, and nothing of a state that is refused remains: not in the
engine, not on the disk. A sender holds one copy of the state, a receiver one layer beside what the engine keeps.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.decode.state_header import (
    LIMIT,
    Identity,
    StateCorruptError,
    StateFileError,
    StateHeader,
    StateIdentityError,
    identity,
)
from gnomon.reference.aside import write_aside
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.state import State, check_arrays, state_specs

__all__ = [
    "PIECE",
    "Identity",
    "StateCorruptError",
    "StateFile",
    "StateFileError",
    "StateHeader",
    "StateIdentityError",
    "identity",
    "open_state",
    "pack",
    "read_state",
    "receive",
    "signed",
    "state_stream",
    "unpack",
    "write_state",
]

PIECE = 8 << 20  # bytes that are held beside the state, at most
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class StateFile:
    """A state outside of any engine."""

    header: StateHeader
    arrays: Arrays

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.header.encode()) + self.header.nbytes

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the file, at most PIECE at a time."""
        yield self.header.encode()
        for array in self.arrays.values():
            for piece in _pieces(array):
                yield piece.tobytes()


def signed(whose: Identity, ids: Sequence[int], arrays: Arrays) -> StateFile:
    """The arrays of a state, with every digest made."""
    stored = {n: np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<"), copy=False) for n, a in arrays.items()}
    payload, digests = hashlib.sha256(), {}
    for name, array in stored.items():
        digest = hashlib.sha256()
        for piece in _pieces(array):
            digest.update(piece)
            payload.update(piece)
        digests[name] = digest.hexdigest()
    specs = {name: (array.shape, array.dtype) for name, array in stored.items()}
    return StateFile(StateHeader(whose, tuple(ids), specs, digests, payload.hexdigest()), stored)


def pack(engine: Engine[Any], state: State) -> StateFile:
    """The state as it leaves the engine. Raises UsageError where the engine exports other arrays than the model has."""
    whose, arrays = identity(engine), engine.export(state)
    specs = state_specs(engine.model.config, whose["kv"], state.length)
    check_arrays(arrays, specs)
    return signed(whose, state.ids, {name: arrays[name] for name in specs})


def state_stream(engine: Engine[Any], state: State) -> Iterator[bytes]:
    """The bytes of the state file, at most PIECE at a time; everything is read from the engine before the first."""
    return pack(engine, state).pieces()


def write_state(engine: Engine[Any], state: State, path: str | Path) -> StateHeader:
    """Write the state of an engine to a file: all of it or nothing."""
    packed = pack(engine, state)
    write_aside(path, packed.pieces())
    return packed.header


def receive(engine: Engine[Any], chunks: Iterable[bytes], size: int | None = None) -> State:
    """The state whose file comes as `chunks`, of any lengths. size: of the whole, where it is known

    Raises StateIdentityError for a state of another model, tokenizer, contract, arm or kv; StateCorruptError for other
    bytes than were signed; StateFileError for anything else that is no state file. Nothing but the header is held until
    all that it announces has been checked.
    """
    source = _Source(chunks)
    header = _header(source, size, engine)
    state = engine.load_layers(_layers(source, header, engine.model.config.layers), header.ids)
    source.end(header)
    return state


def read_state(engine: Engine[Any], path: str | Path) -> State:
    """The state that a file holds, on the engine. Raises what `receive` raises."""
    try:
        with Path(path).open("rb") as file:
            return receive(engine, iter(partial(file.read, PIECE), b""), os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise UsageError(f"Expected a state file at {str(path)!r} but got: {error.strerror}") from error


def unpack(chunks: Iterable[bytes], size: int | None = None) -> StateFile:
    """A state without an engine: sound by itself, and in memory. size: of the whole, where it is known"""
    source = _Source(chunks)
    header = _header(source, size, None)
    arrays = {name: source.tensor(name, header) for name in header.specs}
    source.end(header)
    return StateFile(header, arrays)


def open_state(path: str | Path) -> StateFile:
    """`unpack` of a file."""
    try:
        with Path(path).open("rb") as file:
            return unpack(iter(partial(file.read, PIECE), b""), os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise UsageError(f"Expected a state file at {str(path)!r} but got: {error.strerror}") from error


def _pieces(array: NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array in C order, as views."""
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), PIECE):
        yield flat[start : start + PIECE].data


def _header(source: "_Source", size: int | None, engine: Engine[Any] | None) -> StateHeader:
    limit = LIMIT if size is None else min(LIMIT, size - 8)
    length = int.from_bytes(source.take(8, "the length of the header"), "little")
    if length > limit:
        raise StateFileError(f"Expected a header of at most {max(0, limit)} bytes but the file announces {length}")
    header = StateHeader.parse(source.take(length, "the header"), engine)
    total = 8 + length + header.nbytes
    if size not in (None, total):
        raise StateFileError(f"Expected a state file of {total} bytes, as its header says, but it has {size}")
    return header


def _layers(source: "_Source", header: StateHeader, layers: int) -> Iterator[dict[str, NDArray[Any]]]:
    for i in range(layers if header.ids else 0):
        names = [name for name in header.specs if name.startswith(f"blocks.{i}.")]
        yield {name: source.tensor(name, header) for name in names}


class _Source:
    """Chunks as they come, as the parts that are asked for."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = iter(chunks)
        self.rest = memoryview(b"")
        self.payload = hashlib.sha256()

    def some(self, most: int) -> memoryview:
        """The next bytes: at least one and at most `most`, or none at the end."""
        while not self.rest:
            chunk = next(self.chunks, None)
            if chunk is None:
                break
            self.rest = memoryview(chunk)
        out, self.rest = self.rest[:most], self.rest[most:]
        return out

    def take(self, count: int, what: str) -> bytes:
        out = bytearray()
        while len(out) < count:
            piece = self.some(min(PIECE, count - len(out)))
            if not piece:
                raise StateFileError(f"Expected {count} bytes of {what} but the file ends after {len(out)}")
            out += piece
        return bytes(out)

    def tensor(self, name: str, header: StateHeader) -> NDArray[Any]:
        """The next tensor, checked against its digest."""
        shape, dtype = header.specs[name]
        array, digest, filled = np.empty(shape, dtype), hashlib.sha256(), 0
        flat = array.reshape(-1).view(np.uint8)
        while filled < len(flat):
            piece = self.some(min(PIECE, len(flat) - filled))
            if not piece:
                raise StateFileError(f"Expected {len(flat)} bytes of {name} but the file ends after {filled}")
            flat[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            digest.update(piece)
            self.payload.update(piece)
            filled += len(piece)
        if digest.hexdigest() != header.sha256[name]:
            raise StateCorruptError(
                f"Expected {name} to have SHA-256 {header.sha256[name]} but its bytes have {digest.hexdigest()}"
            )
        return array.astype(dtype.newbyteorder("="), copy=False)

    def end(self, header: StateHeader) -> None:
        """Raises unless all bytes were those of the header, and no more come."""
        if self.payload.hexdigest() != header.payload:
            raise StateCorruptError(
                f"Expected a payload of SHA-256 {header.payload} but its bytes have {self.payload.hexdigest()}"
            )
        if self.some(1):
            raise StateFileError(f"Expected the file to end after {header.nbytes} bytes of tensors but it goes on")
