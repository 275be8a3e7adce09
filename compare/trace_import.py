"""Tensors that other software has dumped, as the observed side of a comparison.

A dump is a file or a directory of files: .npy (named by the file), .npz, .safetensors, .pt (a dictionary of tensors,
or one tensor named by the file). Nothing in it is executed: no pickle but through torch's weights-only reader.
A dump knows no positions: a tensor stands for the whole sequence. A leading axis of one (a batch of one sequence) is
dropped, and where our tap is [positions, width], trailing axes that multiply to the width are flattened.
"""

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Patterns, Uint16
from gnomon.compare.trace_map import NameMap
from gnomon.compare.trace_measure import cut, record_of
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_record import TraceRecord
from gnomon.compare.trace_shard import Shard
from gnomon.reference.errors import GnomonError, NotRunError, UsageError
from gnomon.reference.strict_json import show

Array = NDArray[Any]
Load = Callable[[], tuple[Array, Uint16]]  # one tensor, read when it is asked for


class Dump:
    """Foreign tensors under our names. records: hashed on opening, one tensor in memory at a time

    left_out: the foreign names that the map leaves out
    compared: the taps of the trace that the dump is held against
    """

    def __init__(self, path: Path, trace: Trace, names: NameMap | None) -> None:
        taps = {r.name: r for r in trace.records if r.kind == "tap"}
        found = dict(tensors(path))
        resolved = names.resolve(found, taps) if names else {name: name for name in found}
        self.compared = names.targets(found, taps) if names else set(taps)
        self.left_out = tuple(sorted(name for name, ours in resolved.items() if ours is None))
        self.length = len(trace.manifest.ids)
        self.tails = {name: r.shape[1:] for name, r in taps.items()}
        self.loads = {ours: found[name] for name, ours in resolved.items() if ours is not None}
        self.records: Sequence[TraceRecord] = [self._record(seq, name) for seq, name in enumerate(self.loads)]

    def array(self, record: TraceRecord) -> Array:
        return self._load(record.name)[0]

    def blocks(self, record: TraceRecord, values: int) -> Iterator[Patterns]:
        return cut(bits.patterns(self.array(record)), values)

    def _record(self, seq: int, name: str) -> TraceRecord:
        array, uint16 = self._load(name)
        return record_of(array, "tap", name, (0, self.length), uint16=uint16, seq=seq, op="dump")

    def _load(self, name: str) -> tuple[Array, Uint16]:
        array, uint16 = self.loads[name]()
        return fitted(array, self.length, self.tails.get(name)), uint16


def fitted(array: Array, length: int, tail: tuple[int, ...] | None) -> Array:
    """Drop a batch axis of one; flatten [positions, heads, d] where ours is [positions, width]. No value moves."""
    if tail is None or array.shape == (length, *tail):
        return array
    if array.ndim > 2 and array.shape[:2] == (1, length):
        array = array[0]
    if array.ndim > 2 and len(array) == length and (math.prod(array.shape[1:]),) == tail:
        array = array.reshape(length, *tail)
    return array


def tensors(path: Path) -> Iterator[tuple[str, Load]]:
    """Every tensor of a dump, by name. Raises UsageError for a name that stands twice, and for what cannot be read."""
    files = files_of(path)
    if not files or not all(f.is_file() and f.suffix in READERS for f in files):
        raise UsageError(f"Expected a trace or a dump ({', '.join(READERS)}) but there is none at {str(path)!r}")
    seen: dict[str, str] = {}
    for file in files:
        name_of_file = (file.relative_to(path) if path.is_dir() else Path(file.name)).with_suffix("").as_posix()
        with reading(file):
            listed = READERS[file.suffix](file, name_of_file)
        for name, load in listed.items():
            if name in seen:
                raise UsageError(f"Expected each name once but {show(name)} is in {seen[name]} and in {file.name}")
            seen[name] = file.name
            yield name, load


def files_of(path: Path) -> list[Path]:
    """The file, or of a folder all that dumps are made of, in order. Raises UsageError where it cannot be read."""
    if not path.is_dir():
        return [path]
    with reading(path):
        return sorted(file for file in path.rglob("*") if file.suffix in READERS)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Whatever a foreign file makes its reader raise becomes one sentence."""
    try:
        yield
    except GnomonError:
        raise
    except Exception as error:
        raise UsageError(f"Expected to read {file.name} but got: {show(str(error))[1:-1]}") from error


def read_npy(file: Path, name: str) -> dict[str, Load]:
    def load() -> tuple[Array, Uint16]:
        with reading(file):
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise UsageError(f"Expected one array in {file.name} but it is another kind of file")
        return array, "u16"

    return {name: load}


def read_npz(file: Path, name: str) -> dict[str, Load]:
    def load(key: str) -> tuple[Array, Uint16]:
        with reading(file), np.load(file, allow_pickle=False) as arrays:
            return arrays[key], "u16"

    with np.load(file, allow_pickle=False) as arrays:
        return {key: partial(load, key) for key in arrays.files}


def read_safetensors(file: Path, name: str) -> dict[str, Load]:
    shard = Shard(file)

    def load(key: str) -> tuple[Array, Uint16]:
        return shard.array(key), "bf16" if shard.entries[key].dtype == "bf16" else "u16"

    return {key: partial(load, key) for key in shard.entries}


def read_torch(file: Path, name: str) -> dict[str, Load]:
    try:
        import torch
    except ImportError as error:
        raise NotRunError(
            f"Expected torch to read {file.name} but it is not installed; install it, or dump .npz or .safetensors"
        ) from error
    held = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file) or None)
    named = {name: held} if isinstance(held, torch.Tensor) else held
    if not isinstance(named, dict) or not all(isinstance(t, torch.Tensor) for t in named.values()):
        raise UsageError(f"Expected a tensor or a dictionary of tensors in {file.name} but got {type(held).__name__}")

    def load(key: str) -> tuple[Array, Uint16]:
        with reading(file):
            tensor = named[key].detach().contiguous()
            if tensor.dtype == torch.bfloat16:
                return tensor.view(torch.int16).numpy().view(np.uint16), "bf16"
            return tensor.numpy(), "u16"

    return {str(key): partial(load, key) for key in named}


READERS: Mapping[str, Callable[[Path, str], dict[str, Load]]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".safetensors": read_safetensors,
    ".pt": read_torch,
}
