"""The two text files of a trace, parsed: every field is there, of its type and within its bounds, and no other is.

Raises UsageError or ModelError (both exit code 2), in one sentence, for whatever is broken or incomplete.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from gnomon.compare.schedule import lengths
from gnomon.compare.trace_record import BY_NAME, SCHEMA, Counts, Manifest, RowRecords, TraceRecord
from gnomon.compare.unwatched import OBSERVED
from gnomon.compare.verdict import WORDS
from gnomon.reference import CONTRACT_VERSION
from gnomon.reference.errors import UsageError
from gnomon.reference.identity import lacking
from gnomon.reference.strict_json import parse_object, read_bytes, show

T = TypeVar("T")
Kinds = Mapping[str, type]  # the fields of a JSON object, and the type of each
MANIFEST = frozenset(Manifest.__dataclass_fields__) | {"format", "schema"}
RECORD: Kinds = {
    "seq": int, "kind": str, "name": str, "pos": list, "dtype": str, "shape": list, "sha256": str, "stats": dict,
    "rows": dict, "op": str, "inputs": list, "shard": str,
}  # fmt: skip
BARE = {**RECORD, "shard": type(None)}  # a record whose bytes were not kept
UNWATCHED: Kinds = {
    "form": str, "rows": int, "compared": int, "step": int, "verdict": str, "name": str, "detail": str,
    "hidden_by": list, "narrowest": list, "tap": str, "op": str, "inputs_equal": bool,
}  # fmt: skip
ULP = re.compile(r"ulp<=[0-9]{1,10}")
COUNTS: Kinds = {"finite": int, "live": int, "rows_without_one": int}
ROWS: Kinds = {"sha256": list, "finite": list, "live": list, "rows_without_one": list}
SHA256 = re.compile(r"[0-9a-f]{64}")
HEX = b"0123456789abcdef"
SHARD_NAME = re.compile(r"shard-[0-9]{5}\.safetensors")  # a plain name: no folder, no way out of the trace
TOP = 1 << 40  # no count of a trace comes near


def read_manifest(folder: Path) -> Manifest:
    """manifest.json, checked."""
    what = "manifest.json"
    d = parse_object(read_bytes(folder / what, 64 << 20), what)
    for key, value in (("format", "gnomon trace"), ("schema", SCHEMA), ("contract", CONTRACT_VERSION)):
        if d.get(key) != value or type(d[key]) is not type(value):  # JSON's true is no 1
            old = lacking("a trace", 1) if key == "schema" and type(d.get(key)) is int and d[key] == 1 else ""
            raise UsageError(f"Expected {key} {value!r} in {what} but got {show(d.get(key))}{old}")
    _keys(d, MANIFEST, what)
    ids = tuple(_listed(d, "ids", int, what))
    prompt = _natural(d, "prompt", what)
    if not 1 <= prompt <= len(ids):
        raise UsageError(f"Expected a prompt of 1 to {len(ids)} ids in {what} but got {prompt}")
    schedule = _typed(d, "schedule", str, what)
    lengths(schedule, 1)
    return Manifest(
        contract=CONTRACT_VERSION,
        model=_typed(d, "model", str, what),
        model_sha256=_sha256(d, "model_sha256", what),
        config=_typed(d, "config", dict, what),
        weights=tuple(_listed(d, "weights", str, what)),
        engine=_texts(d, "engine", what),
        versions=_texts(d, "versions", what),
        schedule=schedule,
        prompt=prompt,
        digests_only=_typed(d, "digests_only", bool, what),
        ids=ids,
        failed=None if d["failed"] is None else _typed(d, "failed", str, what),
        unwatched=tuple(_unwatched(one, what) for one in _listed(d, "unwatched", dict, what)),
        records=_natural(d, "records", what),
        records_sha256=_sha256(d, "records_sha256", what),
    )


def _unwatched(d: dict[str, Any], what: str) -> dict[str, Any]:
    """How one form of the unwatched run came out."""
    values = dict(zip(UNWATCHED, _fields(d, UNWATCHED, what), strict=True))
    _all(str, [*values["hidden_by"], *values["narrowest"]], "names of taps", what)
    if values["form"] not in OBSERVED or (values["verdict"] not in WORDS and not ULP.fullmatch(values["verdict"])):
        raise UsageError(f"Expected a form and a verdict in {what} but got {show([values['form'], values['verdict']])}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


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


def read_record(d: Mapping[str, Any], what: str) -> TraceRecord:
    """One line of tensors.jsonl."""
    kinds = BARE if d.get("shard") is None else RECORD
    seq, kind, name, pos, dtype, shape, _, stats, rows, op, inputs, shard = _fields(d, kinds, what)
    if kind not in ("tap", "state") or not name or dtype not in BY_NAME:
        raise UsageError(f"Expected a kind, a name and a known dtype in {what} but got {show([kind, name, dtype])}")
    if shard is not None and not SHARD_NAME.fullmatch(shard):
        raise UsageError(f"Expected a shard such as shard-00000.safetensors in {what} but got {show(shard)}")
    _all(int, [*pos, *shape], "pos and shape", what)
    _all(str, inputs, "inputs", what)
    if len(pos) != 2 or not 0 <= pos[0] <= pos[1] < TOP or (shape and not 0 <= min(shape) <= max(shape) < TOP):
        raise UsageError(f"Expected positions and sizes from 0 up in {what} but got {show([pos, shape])}")
    record = TraceRecord(
        seq=seq,
        kind=kind,
        name=name,
        pos=(pos[0], pos[1]),
        dtype=dtype,
        shape=tuple(shape),
        sha256=_sha256(d, "sha256", what),
        stats=Counts(*_fields(stats, COUNTS, what)),
        rows=_rows(rows, what),
        op=op,
        inputs=tuple(inputs),
        shard=shard,
    )
    by_row = kind == "tap" and len(shape) > 0 and shape[0] == pos[1] - pos[0] > 0
    counted = len(record.rows)
    if counted != (shape[0] if by_row else 0) or (counted and record.rows.total() != record.stats):
        raise UsageError(f"Expected rows that add up to {shape} in {what} but got {counted} that do not")
    c = record.stats
    if not 0 <= c.live <= c.finite <= record.values or not 0 <= c.rows_without_one < TOP:
        raise UsageError(f"Expected live <= finite <= {record.values} values in {what} but got {c}")
    return record


def _rows(d: Mapping[str, Any], what: str) -> RowRecords:
    digests, *columns = _fields(d, ROWS, what)
    counts = list(chain.from_iterable(columns))
    _all(str, digests, "sha256", what)
    _all(int, counts, "counts", what)
    # Of all rows at once: 64 digits each, nothing but such digits, as many counts, none below 0.
    as_long = set(map(len, digests)) <= {64} and {len(digests)} == set(map(len, columns))
    if not as_long or "".join(digests).encode("ascii", "replace").translate(None, HEX) or min(counts, default=0) < 0:
        raise UsageError(f"Expected a SHA-256 and three counts for each row in {what}")
    return RowRecords(tuple(digests), *map(tuple, columns))


def _fields(d: Mapping[str, Any], kinds: Kinds, what: str) -> list[Any]:
    """The values of an object that has these fields and no others, in this order."""
    _keys(d, kinds.keys(), what)
    values = [d[key] for key in kinds]
    if list(map(type, values)) != list(kinds.values()):
        for key, kind in kinds.items():
            _typed(d, key, kind, what)
    return values


def _keys(d: Mapping[str, Any], expected: Set[str], what: str) -> None:
    if d.keys() != expected:
        wrong = min(d.keys() ^ expected)
        raise UsageError(f"Expected {what} {'without' if wrong in d else 'with'} a field {show(wrong)}")


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
    _all(kind, values, key, what)
    return values


def _all(kind: type, values: Sequence[Any], key: str, what: str) -> None:
    if not set(map(type, values)) <= {kind}:
        wrong = next(value for value in values if type(value) is not kind)
        raise UsageError(f"Expected {key} of {what} to hold {kind.__name__} only but got {show(wrong)}")


def _texts(d: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    values: dict[str, Any] = _typed(d, key, dict, what)
    for name in values:
        _typed(values, name, str, f"{key} of {what}")
    return values
