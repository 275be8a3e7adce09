"""Looking into a trace: its tensors by kind, and one tensor in numbers a reader can check."""

import difflib
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Format
from gnomon.compare.mismatch import Number, listed
from gnomon.compare.trace_judge import uint16_of
from gnomon.compare.trace_measure import record_of
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_record import TraceKind, TraceRecord
from gnomon.reference.errors import UsageError
from gnomon.reference.strict_json import show


@dataclass(frozen=True)
class KindOfTensor:
    """All records of one name without its block number. shape: of the first of them"""

    name: str
    dtype: str
    records: int
    shape: tuple[int, ...]
    values: int
    live: int
    op: str


@dataclass(frozen=True)
class View:
    """One record, or one position of it.

    matches: whether the stored bytes have the digest of the record; None where none are stored
    low, high, mean: over the finite values, in float64; None where there is none
    first: index and number of the first values, in C order
    """

    record: TraceRecord
    pos: tuple[int, int]
    shape: tuple[int, ...]
    sha256: str
    finite: int
    live: int
    values: int
    matches: bool | None
    low: float | None
    high: float | None
    mean: float | None
    first: tuple[tuple[tuple[int, ...], Number], ...]

    @property
    def title(self) -> str:
        r = self.record
        return f"{r.name} ({r.kind})  positions {self.pos[0]} to {self.pos[1] - 1}  {r.dtype} {listed(self.shape)}"

    @property
    def origin(self) -> str:
        told = {None: "", True: "", False: ": the stored bytes do not match"}[self.matches]
        return f"{self.record.op} of ({', '.join(self.record.inputs)}), sha256 {self.sha256}{told}"

    @property
    def statistics(self) -> str:
        numbers = "" if self.mean is None else f", from {self.low:.9g} to {self.high:.9g}, mean {self.mean:.9g}"
        return f"{self.values:,} values, {self.finite:,} finite, {self.live:,} live{numbers}"

    def to_json(self) -> dict[str, Any]:
        out = asdict(self)
        record = out.pop("record")
        kept = {key: record[key] for key in ("seq", "kind", "name", "dtype", "op", "inputs")}
        return kept | out | {"first": [{"index": i} | asdict(n) for i, n in self.first]}


def overview(trace: Trace) -> list[KindOfTensor]:
    """One line per kind of tensor, in the order in which the kinds first ran."""
    kinds: dict[tuple[str, str, str], list[TraceRecord]] = {}
    for r in trace.records:
        name = re.sub(r"\bblocks\.\d+\.", "blocks.*.", r.name) + (" (state)" if r.kind == "state" else "")
        kinds.setdefault((name, r.dtype, r.op), []).append(r)
    return [
        KindOfTensor(
            name, dtype, len(records), records[0].shape,
            sum(r.values for r in records), sum(r.stats.live for r in records), op,
        )
        for (name, dtype, op), records in kinds.items()
    ]  # fmt: skip


def look_at(trace: Trace, name: str, kind: TraceKind, pos: int | None, first: int) -> list[View]:
    """Every record of the name, or the one row at position `pos`. Raises UsageError where there is none."""
    named = [r for r in trace.records if (r.kind, r.name) == (kind, name)]
    if not named:
        near = difflib.get_close_matches(name, sorted({r.name for r in trace.records if r.kind == kind}))
        hint = f"; near it: {', '.join(show(n)[1:-1] for n in near)}" if near else ""
        raise UsageError(f"Expected a {kind} of the trace but got {show(name)}{hint}")
    if pos is None:
        return [_view(trace, r, None, first) for r in named]
    at = [r for r in named if r.pos[0] <= pos < r.pos[1] and r.rows]
    if not at:
        raise UsageError(f"Expected a position that {show(name)} has as a row but got {pos}")
    return [_view(trace, at[0], pos - at[0].pos[0], first)]


def _view(trace: Trace, r: TraceRecord, row: int | None, first: int) -> View:
    sha256 = r.sha256 if row is None else r.rows.sha256[row]
    pos = r.pos if row is None else (r.pos[0] + row, r.pos[0] + row + 1)
    shape = r.shape if row is None else r.shape[1:]
    stored = trace.array(r)
    values = int(np.prod(shape, dtype=np.int64))
    if stored is None:
        c = r.stats if row is None else r.rows.cut(row, row + 1).total()
        return View(r, pos, shape, sha256, c.finite, c.live, values, None, None, None, None, ())
    again = record_of(stored, r.kind, r.name, r.pos, uint16=uint16_of(r))
    array = stored if row is None else stored[row]
    form = bits.format_of(array, uint16_of(r))
    pattern = bits.patterns(array).reshape(-1)
    numbers = _widened(array, form)
    numbers = numbers[np.isfinite(numbers)]
    low, high, mean = (float(f(numbers)) for f in (np.min, np.max, np.mean)) if numbers.size else (None, None, None)
    counted = again.stats if row is None else again.rows.cut(row, row + 1).total()
    listed_first = tuple(
        (tuple(int(n) for n in np.unravel_index(i, shape)), Number.of(int(pattern[i]), form))
        for i in range(min(first, pattern.size))
    )
    matches = again.sha256 == r.sha256
    return View(r, pos, shape, sha256, counted.finite, counted.live, values, matches, low, high, mean, listed_first)


def _widened(array: NDArray[Any], form: Format) -> NDArray[np.float64]:
    """The values as float64: exact for every float type, and for integers below 2^53."""
    flat = np.asarray(array).reshape(-1)
    if form is bits.BF16:
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one, and is left out
        return flat.astype(np.float64)
