"""Reading a trace, and believing none of it: every field is checked, every name, every size, every shard.

Raises UsageError or ModelError (both exit code 2), in one sentence, for whatever is broken or incomplete.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from gnomon.compare.trace_record import (
    BY_NAME,
    CONTRACT,
    SCHEMA,
    Counts,
    Manifest,
    RowRecords,
    TraceRecord,
)
from gnomon.compare.trace_shard import Shard
from gnomon.reference.errors import UsageError
from gnomon.reference.strict_json import parse_object, read_bytes, show

T = TypeVar("T")
MANIFEST = frozenset(Manifest.__dataclass_fields__) | {"format", "schema"}
RECORD = frozenset(TraceRecord.__dataclass_fields__)
ROWS = frozenset(RowRecords.__dataclass_fields__)
COUNTS = frozenset(Counts.__dataclass_fields__)
SHA256 = re.compile(r"[0-9a-f]{64}")
HEX = re.compile(r"[0-9a-f]*")
SHARD_NAME = re.compile(r"shard-[0-9]{5}\.safetensors")  # a plain name: no folder, no way out of the trace
TOP = 1 << 40  # no count of a trace comes near


class Source(Protocol):
    """One side of a comparison: records in execution order, and the bytes where there are any."""

    records: Sequence[TraceRecord]

    def array(self, record: TraceRecord) -> NDArray[Any] | None:
        """The stored values, bf16 as uint16; None where only digests are known."""
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
        known = like is not None and _same_records(path, self.manifest, like.manifest)
        self.records: Sequence[TraceRecord] = like.records if like and known else read_records(path, self.manifest)
        self.shards: dict[str, Shard] = {}
        if with_bytes:
            self._open_shards()

    def array(self, record: TraceRecord) -> NDArray[Any] | None:
        shard = self.shards.get(record.shard or "")
        return None if shard is None else shard.array(record.key)

    def _open_shards(self) -> None:
        told: dict[str, set[str]] = {}
        for r in self.records:
            if r.shard is None:
                continue
            if r.shard not in self.shards:
                self.shards[r.shard] = Shard(self.folder / r.shard)
            shard = self.shards[r.shard]
            if r.key not in shard.entries:
                raise UsageError(f"Expected {r.key} in {r.shard} but it is not there")
            if (shard.dtype(r.key), shard.shape(r.key)) != (r.dtype, r.shape):
                raise UsageError(
                    f"Expected {r.key} in {r.shard} to be {r.dtype} {list(r.shape)} "
                    f"but it is {shard.dtype(r.key)} {list(shard.shape(r.key))}"
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


def read_manifest(folder: Path) -> Manifest:
    """manifest.json, checked."""
    what = "manifest.json"
    d = parse_object(read_bytes(folder / what, 64 << 20), what)
    for key, value in (("format", "gnomon trace"), ("schema", SCHEMA), ("contract", CONTRACT)):
        if d.get(key) != value or type(d[key]) is not type(value):  # JSON's true is no 1
            raise UsageError(f"Expected {key} {value!r} in {what} but got {show(d.get(key))}")
    _keys(d, MANIFEST, what)
    ids = tuple(_listed(d, "ids", int, what))
    prompt = _natural(d, "prompt", what)
    if not 1 <= prompt <= len(ids):
        raise UsageError(f"Expected a prompt of 1 to {len(ids)} ids in {what} but got {prompt}")
    schedule = _typed(d, "schedule", str, what)
    if schedule not in ("one-pass", "row-by-row"):
        raise UsageError(f"Expected schedule one-pass or row-by-row in {what} but got {show(schedule)}")
    return Manifest(
        contract=CONTRACT,
        model=_typed(d, "model", str, what),
        model_sha256=_sha256(d, "model_sha256", what),
        weights=tuple(_listed(d, "weights", str, what)),
        engine=_texts(d, "engine", what),
        versions=_texts(d, "versions", what),
        schedule="one-pass" if schedule == "one-pass" else "row-by-row",
        prompt=prompt,
        digests_only=_typed(d, "digests_only", bool, what),
        ids=ids,
        failed=None if d["failed"] is None else _typed(d, "failed", str, what),
        records=_natural(d, "records", what),
        records_sha256=_sha256(d, "records_sha256", what),
    )


def read_records(path: Path, manifest: Manifest) -> tuple[TraceRecord, ...]:
    """tensors.jsonl, checked line by line and against the manifest."""
    records: list[TraceRecord] = []
    ends: dict[tuple[str, str], int] = {}
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                what = f"line {number + 1} of {path.name}"
                record = read_record(parse_object(line, what), what)
                digest.update(line)
                if record.seq != number:
                    raise UsageError(f"Expected seq {number} in {what} but got {record.seq}")
                if (record.shard is None) != manifest.digests_only:
                    raise UsageError(f"Expected a shard in {what} only where digests_only is false")
                place = record.kind, record.name
                if record.pos[0] < ends.get(place, 0):
                    raise UsageError(f"Expected each position of {show(record.name)} once but {what} repeats one")
                ends[place] = max(record.pos[1], record.pos[0] + 1)
                records.append(record)
    except OSError as error:
        raise UsageError(f"Expected to read {path.name} but got: {error.strerror}") from error
    if len(records) != manifest.records or digest.hexdigest() != manifest.records_sha256:
        raise UsageError(
            f"Expected the {manifest.records} records that the manifest was written for but {path.name} "
            f"has {len(records)}" + (" of another content" if len(records) == manifest.records else "")
        )
    return tuple(records)


def _same_records(path: Path, manifest: Manifest, like: Manifest) -> bool:
    """Whether the records have been read already, for a trace that another manifest describes alike."""
    told = [(m.records, m.records_sha256, m.digests_only) for m in (manifest, like)]
    if told[0] != told[1] or not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == manifest.records_sha256


def read_record(d: Mapping[str, Any], what: str) -> TraceRecord:
    """One line of tensors.jsonl."""
    _keys(d, RECORD, what)
    kind, name, dtype = (_typed(d, key, str, what) for key in ("kind", "name", "dtype"))
    shard = None if d["shard"] is None else _typed(d, "shard", str, what)
    if kind not in ("tap", "state") or not name or dtype not in BY_NAME:
        raise UsageError(f"Expected a kind, a name and a known dtype in {what} but got {show([kind, name, dtype])}")
    if shard is not None and not SHARD_NAME.fullmatch(shard):
        raise UsageError(f"Expected a shard such as shard-00000.safetensors in {what} but got {show(shard)}")
    pos = tuple(_listed(d, "pos", int, what))
    shape = tuple(_listed(d, "shape", int, what))
    if len(pos) != 2 or not 0 <= pos[0] <= pos[1] < TOP or any(not 0 <= n < TOP for n in shape):
        raise UsageError(f"Expected positions and sizes from 0 up in {what} but got {show([pos, shape])}")
    rows = _rows(_typed(d, "rows", dict, what), what)
    record = TraceRecord(
        seq=_natural(d, "seq", what),
        kind="tap" if kind == "tap" else "state",
        name=name,
        pos=(pos[0], pos[1]),
        dtype=dtype,
        shape=shape,
        sha256=_sha256(d, "sha256", what),
        stats=_counts(_typed(d, "stats", dict, what), what),
        rows=rows,
        op=_typed(d, "op", str, what),
        inputs=tuple(_listed(d, "inputs", str, what)),
        shard=shard,
    )
    by_row = kind == "tap" and len(shape) > 0 and shape[0] == pos[1] - pos[0] > 0
    if len(rows) != (shape[0] if by_row else 0) or (rows and rows.total() != record.stats):
        raise UsageError(f"Expected rows that add up to {list(shape)} in {what} but got {len(rows)} that do not")
    if not record.stats.live <= record.stats.finite <= record.values:
        raise UsageError(f"Expected live <= finite <= {record.values} values in {what} but got {record.stats}")
    return record


def _rows(d: Mapping[str, Any], what: str) -> RowRecords:
    _keys(d, ROWS, what)
    digests = _listed(d, "sha256", str, what)
    columns = [_listed(d, key, int, what) for key in ("finite", "live", "rows_without_one")]
    lengths, counts = set(map(len, digests)), {len(c) for c in columns} | {len(digests)}
    if not lengths <= {64} or not HEX.fullmatch("".join(digests)) or len(counts) > 1 or min(map(_least, columns)) < 0:
        raise UsageError(f"Expected a SHA-256 and three counts for each row in {what}")
    return RowRecords(tuple(digests), *map(tuple, columns))


def _least(numbers: list[int]) -> int:
    return min(numbers, default=0)


def _counts(d: Mapping[str, Any], what: str) -> Counts:
    _keys(d, COUNTS, what)
    return Counts(*(_natural(d, key, what) for key in ("finite", "live", "rows_without_one")))


def _keys(d: Mapping[str, Any], expected: frozenset[str], what: str) -> None:
    wrong = d.keys() ^ expected
    if wrong:
        word = "without" if min(wrong) in d else "with"
        raise UsageError(f"Expected {what} {word} a field {show(min(wrong))}")


def _typed(d: Mapping[str, Any], key: str, kind: type[T], what: str) -> T:
    value = d[key]
    if type(value) is not kind:
        raise UsageError(f"Expected {key} of {what} to be of type {kind.__name__} but got {show(value)}")
    return value


def _natural(d: Mapping[str, Any], key: str, what: str) -> int:
    value = _typed(d, key, int, what)
    if not 0 <= value < TOP:
        raise UsageError(f"Expected {key} of {what} to be at least 0 but got {value}")
    return value


def _sha256(d: Mapping[str, Any], key: str, what: str) -> str:
    value = _typed(d, key, str, what)
    if not SHA256.fullmatch(value):
        raise UsageError(f"Expected {key} of {what} to be a SHA-256 in hexadecimal digits but got {show(value)}")
    return value


def _listed(d: Mapping[str, Any], key: str, kind: type[T], what: str) -> list[T]:
    values: list[Any] = _typed(d, key, list, what)
    if not set(map(type, values)) <= {kind}:
        wrong = next(value for value in values if type(value) is not kind)
        raise UsageError(f"Expected {key} of {what} to hold {kind.__name__} only but got {show(wrong)}")
    return values


def _texts(d: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    values: dict[str, Any] = _typed(d, key, dict, what)
    for name in values:
        _typed(values, name, str, f"{key} of {what}")
    return values
