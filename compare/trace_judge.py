"""One tensor of two traces: joined where it has to be, checked against its records, judged by its bytes or digests."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Uint16
from gnomon.compare.record import Side
from gnomon.compare.trace_align import GROWS, Piece, Unit, joined_measure, row_forms
from gnomon.compare.trace_measure import read_equal, record_of, row_with_one, values_at_a_time
from gnomon.compare.trace_read import Source
from gnomon.compare.trace_record import BY_NAME, TraceRecord
from gnomon.compare.verdict import Finding, Measure, judge, judge_measures
from gnomon.compare.where import NO_HEADS, Heads

Array = NDArray[Any]
Pieces = tuple[Piece, ...]
Stale = tuple[tuple[Side, TraceRecord], ...]


@dataclass(frozen=True)
class Judged:
    """A unit with its finding; stale: records whose stored bytes have another digest, with their side"""

    unit: Unit
    found: Finding
    stale: Stale = ()


def judge_unit(
    unit: Unit, expected: Source, observed: Source, digests: bool = False, command: str = "", heads: Heads = NO_HEADS
) -> Judged:
    """Compare one tensor: by its bytes where both sides have them, else by digests. digests: look at no byte"""
    e, o, name = unit.expected, unit.observed, unit.name
    if not e or not o:
        return Judged(unit, judge_measures(_alone(o, unit), _alone(e, unit), name))
    if digests:
        return Judged(unit, _judge_records(e, o, unit))
    same = _same_bytes(unit, expected, observed)
    if same is not None:
        return same
    e, stale_e = _read_again("expected", e, expected)
    o, stale_o = _read_again("observed", o, observed)
    return Judged(unit, _judge_bytes(e, o, unit, (expected, observed), command, heads), (*stale_e, *stale_o))


def uint16_of(record: TraceRecord) -> Uint16:
    """What a uint16 array of this record holds."""
    return "bf16" if record.dtype == "bf16" else "u16"


def _judge_bytes(
    e: Pieces, o: Pieces, unit: Unit, sources: tuple[Source, Source], command: str, heads: Heads
) -> Finding:
    """By bytes where both sides have them in one form."""
    tail, unlike = _common_tail(e, o, unit.name)
    if unlike is not None:
        return unlike
    arrays = [_joined(pieces, source, tail) for pieces, source in zip((e, o), sources, strict=True)]
    if arrays[0] is None or arrays[1] is None or e[0].record.dtype != o[0].record.dtype:
        return _judge_records(e, o, unit)
    r = unit.source
    return judge(
        arrays[1],
        arrays[0],
        unit.name,
        uint16=uint16_of(r),
        op=r.op,
        inputs=r.inputs,
        command=command,
        heads=heads.in_row(unit.name),
    )


def _judge_records(e: Pieces, o: Pieces, unit: Unit) -> Finding:
    """By digests alone: of the whole tensors, or of their rows where a side has to be joined."""
    tail, unlike = _common_tail(e, o, unit.name)
    if unlike is not None:
        return unlike
    if tail is None or all(p.record.pos == unit.pos and p.record.shape[1:] == tail for p in (*e, *o)):
        return judge_measures(o[0].record.measure(), e[0].record.measure(), unit.name)
    return judge_measures(joined_measure(o, tail), joined_measure(e, tail), unit.name)


def _alone(pieces: Pieces, unit: Unit) -> Measure | None:
    """The measure of a side that finds no partner; None of the side that does not have it."""
    if not pieces:
        return None
    r = pieces[0].record
    return r.measure() if r.pos == unit.pos else joined_measure(pieces, r.shape[1:])


def _common_tail(e: Pieces, o: Pieces, name: str) -> tuple[tuple[int, ...] | None, Finding | None]:
    """The shape of a row of both sides, or why there is none; (None, None) for tensors that are not cut into rows."""
    if not all(p.record.rows for p in (*e, *o)):
        return None, None
    forms = [sorted(row_forms(side)) for side in (o, e)]
    if len(forms[0]) == len(forms[1]) == 1 and forms[0] == forms[1]:
        ((_, tail),) = forms[0]
        longest = max(p.record.shape[-1] for p in (*e, *o)) if tail[-1:] == (GROWS,) else 0
        return tuple(longest if n == GROWS else n for n in tail), None
    if len(e) == len(o) == 1:
        return None, judge_measures(o[0].record.measure(), e[0].record.measure(), name)
    verdict = "shape" if {d for d, _ in forms[0]} == {d for d, _ in forms[1]} else "dtype"
    shown = [", ".join(f"{dtype} {list(tail)}" for dtype, tail in side) for side in forms]
    return None, Finding(name, verdict, f"rows: observed {shown[0]}, expected {shown[1]}", None, None)


def _same_bytes(unit: Unit, expected: Source, observed: Source) -> Judged | None:
    """The quick way through equal tensors of one shape: read once, hashed once for both; None if not equal."""
    e, o = unit.expected[0].record, unit.observed[0].record
    if not e.pos == o.pos == unit.pos or (e.dtype, e.shape) != (o.dtype, o.shape):
        return None
    form = BY_NAME[e.dtype]
    row = row_with_one(unit.name, form, e.shape)
    x, y = (source.blocks(r, values_at_a_time(row)) for source, r in ((expected, e), (observed, o)))
    read = None if x is None or y is None else read_equal(x, y, form, row)
    if read is None:
        return None
    digest, stats = read
    measured = (
        e.measure() if (digest, stats) == (e.sha256, e.stats) else replace(e, sha256=digest, stats=stats).measure()
    )
    sides: Stale = (("expected", e), ("observed", o))
    stale = tuple((side, record) for side, record in sides if record.sha256 != digest)
    return Judged(unit, judge_measures(measured, measured, unit.name), stale)


def _read_again(side: Side, pieces: Pieces, source: Source) -> tuple[Pieces, Stale]:
    """Pieces whose records tell what is stored, and the records that did not."""
    out: list[Piece] = []
    stale: list[tuple[Side, TraceRecord]] = []
    for p in pieces:
        r, array = p.record, source.array(p.record)
        if array is not None and hashlib.sha256(bits.patterns(array).data).hexdigest() != r.sha256:
            stale.append((side, r))
            actual = record_of(array, r.kind, r.name, r.pos, uint16=uint16_of(r))
            p = replace(p, record=replace(r, sha256=actual.sha256, stats=actual.stats, rows=actual.rows))
        out.append(p)
    return tuple(out), tuple(stale)


def _joined(pieces: Pieces, source: Source, tail: tuple[int, ...] | None) -> Array | None:
    """The rows of the pieces as one array [rows, *tail], or the tensor itself; None where the bytes are not kept."""
    arrays = [source.array(p.record) for p in pieces]
    if any(a is None for a in arrays):
        return None
    if tail is None:
        return arrays[0]
    rows = [a[p.start : p.stop] for a, p in zip(arrays, pieces, strict=True) if a is not None]
    if len(rows) == 1 and rows[0].shape[1:] == tail:
        return rows[0]
    joined = np.zeros((sum(len(r) for r in rows), *tail), rows[0].dtype)  # +0.0 continues a shorter row
    at = 0
    for r in rows:
        joined[at : at + len(r), ..., : r.shape[-1]] = r
        at += len(r)
    return joined
