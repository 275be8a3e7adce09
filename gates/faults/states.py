"""State files that are not what they were: some no reader may take, some only one who knows the right bytes can tell.

Each fault is a function of a sound file, and of one of another conversation where it says so -> the bytes of the file.
"""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from gnomon.decode.state_file import StateFile, signed
from gnomon.reference.errors import UsageError

Arrays = Mapping[str, NDArray[Any]]
StateFault = Callable[[StateFile, StateFile | None], bytes]


def exchanged(file: StateFile, other: StateFile | None = None) -> bytes:
    """Keys stand where values stood and values where keys stood, in every layer; signed again."""
    names = {name: _partner(name) for name in file.arrays}
    if not set(names.values()) <= names.keys():
        raise UsageError("Expected a state with values for all its keys to exchange but it lacks some")
    if names == {name: name for name in names}:
        raise UsageError("Expected a state with keys and values to exchange but it has none")
    return _signed_again(file, {name: file.arrays[names[name]] for name in names})


def flipped(file: StateFile, other: StateFile | None = None) -> bytes:
    """One bit of the byte in the middle of the tensors is another one; not signed again."""
    data = bytearray(b"".join(file.pieces()))
    if not file.header.nbytes:
        raise UsageError("Expected a state with tensors to flip a bit of but it has none")
    data[len(data) - (file.header.nbytes + 1) // 2] ^= 1
    return bytes(data)


def of_another(kind: str) -> StateFault:
    """What the delta layers carry (kind: "conv" or "delta") comes from another conversation; signed again."""

    def mixed(file: StateFile, other: StateFile | None) -> bytes:
        names = [name for name in file.arrays if name.endswith(f".rec.{kind}")]
        if not names:
            raise UsageError(f"Expected a state of a model with delta layers for the fault {kind} but it has none")
        if other is None:
            raise UsageError(f"Expected a state of another conversation (--other) for the fault {kind} but got none")
        if other.header.identity != file.header.identity or not set(names) <= set(other.arrays):
            raise UsageError("Expected the other conversation to be one of the same model and forms but it is not")
        return _signed_again(file, {**file.arrays, **{name: other.arrays[name] for name in names}})

    return mixed


def shifted(file: StateFile, other: StateFile | None = None) -> bytes:
    """The first position is gone, every other stands one before the place its key was turned for; signed again."""
    if len(file.header.ids) < 2:
        raise UsageError(f"Expected a state of at least 2 positions to shift but it has {len(file.header.ids)}")
    arrays = {name: array[1:] if ".kv." in name else array for name, array in file.arrays.items()}
    return b"".join(signed(file.header.identity, file.header.ids[1:], arrays).pieces())


def other_position(file: StateFile, other: StateFile | None = None) -> bytes:
    """The header names the position after the one it has; nothing else changes."""
    here = len(file.header.ids)
    data = b"".join(file.pieces())
    start = len(file.header.encode())
    text = data[8:start].replace(b'"position":"%d"' % here, b'"position":"%d"' % (here + 1))
    return len(text).to_bytes(8, "little") + text + data[start:]


def truncated(file: StateFile, other: StateFile | None = None) -> bytes:
    """The last byte is missing."""
    return b"".join(file.pieces())[:-1]


FAULTS: dict[str, StateFault] = {
    "kv": exchanged,
    "flip": flipped,
    "conv": of_another("conv"),
    "delta": of_another("delta"),
    "shift": shifted,
    "position": other_position,
    "truncated": truncated,
}


def _signed_again(file: StateFile, arrays: Arrays) -> bytes:
    return b"".join(signed(file.header.identity, file.header.ids, arrays).pieces())


def _partner(name: str) -> str:
    """blocks.0.kv.k -> blocks.0.kv.v and back; other names stay"""
    prefix, found, last = name.partition(".kv.")
    return f"{prefix}.kv.{'v' if last[:1] == 'k' else 'k'}{last[1:]}" if found else name
