"""Reading a trace, and believing none of it: every field is checked, every name, every size, every shard.

Raises UsageError or ModelError (both exit code 2), in one sentence, for whatever is broken or incomplete.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from gnomon.compare.bits import Patterns
from gnomon.compare.trace_parse import read_manifest, read_records
from gnomon.compare.trace_record import Manifest, TraceRecord
from gnomon.compare.trace_shard import AHEAD, FIRST, Shard, read_ahead
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.strict_json import check_file, show


class Source(Protocol):
    """One side of a comparison: records in execution order, and the bytes where there are any."""

    records: Sequence[TraceRecord]

    def array(self, record: TraceRecord) -> NDArray[Any] | None:
        """The stored values, bf16 as uint16; None where only digests are known."""
        ...

    def blocks(self, record: TraceRecord, values: int) -> Iterator[Patterns] | None:
        """The patterns of the stored values, in order, so many at a time; None where only digests are known."""
        ...


class Trace:
    """A trace directory.

    with_bytes: open the shards too; without it only digests are looked at
    like: another trace, whose records are taken where the file that holds them has the same digest
    """

    def __init__(self, folder: Path, with_bytes: bool = True, like: "Trace | None" = None) -> None:
        if not folder.is_dir():
            raise UsageError(f"Expected a trace directory but there is none at {str(folder)!r}")
        self.folder = folder
        self.manifest = read_manifest(folder)
        path = folder / "tensors.jsonl"
        check_file(path)
        if with_bytes:
            _ask_for(path, folder / FIRST)
        known = like is not None and _same_records(path, self.manifest, like.manifest)
        self.records: Sequence[TraceRecord] = like.records if like and known else read_records(path, self.manifest)
        self.shards: dict[str, Shard] = {}
        if with_bytes:
            self._open_shards()

    def array(self, record: TraceRecord) -> NDArray[Any] | None:
        shard = self.shards.get(record.shard or "")
        return None if shard is None else shard.array(record.key)

    def blocks(self, record: TraceRecord, values: int) -> Iterator[Patterns] | None:
        shard = self.shards.get(record.shard or "")
        return None if shard is None else shard.blocks(record.key, values)

    def _open_shards(self) -> None:
        told: dict[str, set[str]] = {}
        for r in self.records:
            if r.shard is None:
                continue
            if r.shard not in self.shards:
                self.shards[r.shard] = Shard(self.folder / r.shard)
            shard = self.shards[r.shard]
            entry = shard.entries.get(r.key)
            if entry is None:
                raise UsageError(f"Expected {r.key} in {r.shard} but it is not there")
            if (entry.dtype, entry.shape) != (r.dtype, r.shape):
                raise UsageError(
                    f"Expected {r.key} in {r.shard} to be {r.dtype} {list(r.shape)} "
                    f"but it is {entry.dtype} {list(entry.shape)}"
                )
            told.setdefault(r.shard, set()).add(r.key)
        for name, shard in self.shards.items():
            untold = shard.entries.keys() - told[name]
            if untold:
                raise UsageError(f"Expected a record for each tensor of {name} but {show(min(untold))} has none")


class Renamed:
    """A trace whose tensors have the names that a map gives them."""

    def __init__(self, trace: Trace, names: Mapping[str, str | None]) -> None:
        self.trace = trace
        self.records: Sequence[TraceRecord] = [
            replace(r, name=name) for r in trace.records if (name := names[r.name]) is not None
        ]

    def array(self, record: TraceRecord) -> NDArray[Any] | None:
        return self.trace.array(self.trace.records[record.seq])

    def blocks(self, record: TraceRecord, values: int) -> Iterator[Patterns] | None:
        return self.trace.blocks(self.trace.records[record.seq], values)


def _ask_for(*paths: Path) -> None:
    """Let the disk work on files, in this order, while others are parsed; whether they are there is found out later."""
    for path in paths:
        with suppress(OSError, ModelError):
            check_file(path)
            with path.open("rb") as file:
                read_ahead(file.fileno(), 0, AHEAD)


def _same_records(path: Path, manifest: Manifest, like: Manifest) -> bool:
    """Whether the records have been read already, for a trace that another manifest describes alike."""
    told = [(m.records, m.records_sha256, m.digests_only) for m in (manifest, like)]
    if told[0] != told[1] or not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == manifest.records_sha256
