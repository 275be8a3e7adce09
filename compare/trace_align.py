"""Which tensors of two traces belong together: the same name at the same absolute positions.

A trace of one pass holds a tap of 16 positions as one tensor [16, ...], a trace row by row as 16 of [1, ...]. Where
the pieces differ, rows are joined by position; where one side lacks a position, it is missing or extra.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.compare.trace_record import BY_NAME, RowRecords, TraceKind, TraceRecord, ragged
from gnomon.compare.verdict import Measure


@dataclass(frozen=True)
class Piece:
    """Rows [start, stop) of a record; the whole tensor where it is not cut into rows."""

    record: TraceRecord
    start: int = 0
    stop: int = 0

    @property
    def rows(self) -> RowRecords:
        return self.record.rows.cut(self.start, self.stop)


@dataclass(frozen=True)
class Unit:
    """What is compared as one tensor. An empty side does not have it."""

    kind: TraceKind
    name: str
    pos: tuple[int, int]
    expected: tuple[Piece, ...]
    observed: tuple[Piece, ...]

    @property
    def source(self) -> TraceRecord:
        """The record that says how the tensor was made."""
        return (self.expected or self.observed)[0].record


def align(expected: Sequence[TraceRecord], observed: Sequence[TraceRecord]) -> list[Unit]:
    """All tensors of both sides, in the expected order of execution, extra ones last."""
    groups: dict[tuple[TraceKind, str], tuple[list[TraceRecord], list[TraceRecord]]] = {}
    for side, records in enumerate((expected, observed)):
        for r in records:
            groups.setdefault((r.kind, r.name), ([], []))[side].append(r)
    units = [unit for e, o in groups.values() for unit in align_name(e, o)]
    return sorted(units, key=lambda u: (not u.expected, u.source.seq, u.pos))


def align_name(expected: Sequence[TraceRecord], observed: Sequence[TraceRecord]) -> list[Unit]:
    """The records of one name on both sides -> units that share no row."""
    if [r.pos for r in expected] == [r.pos for r in observed]:  # as of two runs in the same steps
        return [_whole(e, o) for e, o in zip(expected, observed, strict=True)]
    at_e, at_o = ({r.pos: r for r in side} for side in (expected, observed))
    units = [_whole(at_e[pos], at_o[pos]) for pos in at_e.keys() & at_o.keys()]
    rest_e = [r for pos, r in at_e.items() if pos not in at_o]
    rest_o = [r for pos, r in at_o.items() if pos not in at_e]
    units += [_whole(r, None) for r in rest_e if not r.rows] + [_whole(None, r) for r in rest_o if not r.rows]
    return units + _join(_by_position(rest_e), _by_position(rest_o))


Form = tuple[str, tuple[int, ...]]  # type and shape of a row; a last axis of GROWS is as long as the row's T
GROWS = -1


def row_forms(pieces: Sequence[Piece]) -> set[Form]:
    """The forms of the rows: more than one where they cannot be joined."""
    return {
        (r.dtype, (*r.shape[1:-1], GROWS) if ragged(r.name) and len(r.shape) > 1 else r.shape[1:])
        for r in (p.record for p in pieces)
    }


def joined_measure(pieces: Sequence[Piece], tail: tuple[int, ...]) -> Measure:
    """The measure of joined rows, from their records alone. sha256: over the digests of the rows, in order

    tail: shape of a row; where a row of `scores` or `exp` is shorter, it is continued with +0.0
    """
    first = pieces[0].record
    counted = [p.rows.total() for p in pieces]
    shape = (sum(p.stop - p.start for p in pieces), *tail)
    values = math.prod(shape)
    held = sum(math.prod((p.stop - p.start, *p.record.shape[1:])) for p in pieces)
    return Measure(
        dtype=first.dtype,
        shape=shape,
        values=values,
        nbytes=values * BY_NAME[first.dtype].bits // 8,
        finite=sum(c.finite for c in counted) + values - held,  # what continues a row is finite
        live=sum(c.live for c in counted),
        rows_without_one=sum(c.rows_without_one for c in counted),
        sha256=hashlib.sha256("".join(digest for p in pieces for digest in p.rows.sha256).encode()).hexdigest(),
    )


Held = dict[int, tuple[TraceRecord, int]]  # by absolute position: the record that has it, and the row in there


def _by_position(records: Sequence[TraceRecord]) -> Held:
    return {r.pos[0] + row: (r, row) for r in records for row in range(len(r.rows))}


def _join(expected: Held, observed: Held) -> list[Unit]:
    """Cut at every gap, where a side begins or ends, and where all pieces begin anew."""
    runs: list[list[int]] = []
    for p in sorted(expected.keys() | observed.keys()):
        here = [side.get(p) for side in (expected, observed)]
        anew = all(held is None or held[1] == 0 for held in here)
        before = [p - 1 in side for side in (expected, observed)]
        if anew or before != [held is not None for held in here]:
            runs.append([])
        runs[-1].append(p)
    return [_unit(_pieces(expected, run), _pieces(observed, run), (run[0], run[-1] + 1)) for run in runs]


def _pieces(held: Held, run: Sequence[int]) -> tuple[Piece, ...]:
    """The rows of a run, cut by record."""
    pieces: list[Piece] = []
    for record, row in (held[p] for p in run if p in held):
        if pieces and pieces[-1].record is record:
            pieces[-1] = Piece(record, pieces[-1].start, row + 1)
        else:
            pieces.append(Piece(record, row, row + 1))
    return tuple(pieces)


def _whole(expected: TraceRecord | None, observed: TraceRecord | None) -> Unit:
    e: tuple[Piece, ...] = (Piece(expected, 0, len(expected.rows)),) if expected else ()
    o: tuple[Piece, ...] = (Piece(observed, 0, len(observed.rows)),) if observed else ()
    return _unit(e, o, (e or o)[0].record.pos)


def _unit(expected: tuple[Piece, ...], observed: tuple[Piece, ...], pos: tuple[int, int]) -> Unit:
    source = (expected or observed)[0].record
    return Unit(source.kind, source.name, pos, expected, observed)
