"""The record of a tensor: hashed and counted, as a whole and row by row."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Format, Patterns, Uint16
from gnomon.compare.trace_record import Counts, RowRecords, TraceKind, TraceRecord, ragged
from gnomon.compare.verdict import rule_of

BLOCK = 1 << 16  # values looked at in one go: what is made of them stays in the cache


def record_of(
    array: NDArray[Any],
    kind: TraceKind,
    name: str,
    pos: tuple[int, int],
    *,
    uint16: Uint16 = "u16",
    seq: int = 0,
    op: str = "",
    inputs: tuple[str, ...] = (),
) -> TraceRecord:
    """The record of an array whose bytes are not stored yet. Raises UsageError for one that holds no numbers."""
    form = bits.format_of(array, uint16)
    pattern = bits.patterns(array)
    digest = hashlib.sha256(pattern.data).hexdigest()
    rows, stats = RowRecords(), total(pattern, form, name)
    if kind == "tap" and array.ndim > 0 and len(array) == pos[1] - pos[0] > 0:
        flat = pattern.reshape(len(array), -1)
        digests = tuple(hashlib.sha256(seen(row, name, p).data).hexdigest() for p, row in enumerate(pattern, pos[0]))
        rows = RowRecords(digests, *(tuple(c.tolist()) for c in counts(flat, form, name, array.shape)))
    return TraceRecord(seq, kind, name, pos, form.name, tuple(array.shape), digest, stats, rows, op, inputs, None)


def seen(row: Patterns, name: str, position: int) -> Patterns:
    """What the digest of a row covers. `scores` and `exp` [heads, T]: positions up to the row's own, where all later
    ones are +0.0 as they should be, so that rows of different T have one digest; everything otherwise."""
    if not ragged(name) or row.ndim == 0 or row.shape[-1] <= position + 1 or row[..., position + 1 :].any():
        return np.ascontiguousarray(row)
    return np.ascontiguousarray(row[..., : position + 1])


def total(pattern: Patterns, form: Format, name: str) -> Counts:
    """The counts of a whole tensor."""
    row = row_with_one(name, form, pattern.shape)
    return _sum([tally(block, form, row) for block in cut(pattern, values_at_a_time(row))])


def read_equal(
    expected: Iterable[Patterns], observed: Iterable[Patterns], form: Format, row: int
) -> tuple[str, Counts] | None:
    """The SHA-256 and the counts of two equal tensors; None where they are not equal.

    expected, observed: the same blocks of both, each of `values_at_a_time(row)` values. A block is compared, hashed
    and counted while it is in the cache, and hashed once for both.
    """
    digest = hashlib.sha256()
    tallies = []
    for block, other in zip(expected, observed, strict=True):
        if not (block == other).all():
            return None
        digest.update(block.data)
        tallies.append(tally(block, form, row))
    return digest.hexdigest(), _sum(tallies)


def tally(block: Patterns, form: Format, row: int) -> tuple[int, int, int]:
    """How many values are finite, and how many of these are not zero; how many rows of `row` values hold no 1.0."""
    without_one = int(np.count_nonzero(~bits.is_one(block.reshape(-1, row), form).any(axis=1))) if row else 0
    if form.kind != "float":
        return block.size, int(np.count_nonzero(block)), without_one
    infinity = ((1 << form.exponent) - 1) << form.mantissa
    magnitude = block & ((1 << (form.bits - 1)) - 1)
    finite = block.size if magnitude.max() < infinity else int(np.count_nonzero(magnitude < infinity))
    return finite, finite - block.size + int(np.count_nonzero(magnitude)), without_one


def _sum(tallies: list[tuple[int, int, int]]) -> Counts:
    return Counts(*(sum(t[i] for t in tallies) for i in range(3)))


def row_with_one(name: str, form: Format, shape: tuple[int, ...]) -> int:
    """How long the rows are that must hold a 1.0, along the last axis of `exp`; 0 where none must."""
    return shape[-1] if shape and rule_of(name, form.name) == "exp" else 0


def values_at_a_time(row: int) -> int:
    """About BLOCK values; whole rows."""
    return BLOCK if row == 0 else max(1, BLOCK // row) * row


def cut(pattern: Patterns, values: int) -> Iterator[Patterns]:
    """All values in order, so many at a time."""
    flat = pattern.reshape(-1)
    return (flat[at : at + values] for at in range(0, flat.size, values))


def counts(flat: Patterns, form: Format, name: str, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], ...]:
    """Finite, live and, for `exp`, rows without a 1.0, of every row of [rows, values].

    shape: of the tensor, along whose last axis a row of `exp` has its 1.0
    """
    rows, width = flat.shape
    finite, live, without_one = (np.zeros(rows, np.int64) for _ in range(3))
    for at, columns in blocks(rows, width):
        block = flat[at, columns]
        lives = np.count_nonzero(is_live(block, form), axis=1)
        live[at] += lives
        # A live value is finite, so only where one is not is there more to count.
        all_live = form.kind != "float" or int(lives.sum()) == block.size
        finite[at] += block.shape[1] if all_live else np.count_nonzero(bits.is_finite(block, form), axis=1)
    if rule_of(name, form.name) == "exp" and shape and flat.size:
        one = bits.is_one(flat.reshape(rows, -1, shape[-1]), form).any(axis=-1)
        without_one = np.count_nonzero(~one, axis=1)
    return finite, live, without_one


def is_live(block: Patterns, form: Format) -> NDArray[np.bool_]:
    """Finite and not zero, in one comparison: of an unsigned magnitude less 1, zero becomes the largest of all."""
    if form.kind != "float":
        nonzero: NDArray[np.bool_] = block != 0
        return nonzero
    magnitude = block & ((1 << (form.bits - 1)) - 1)
    magnitude -= 1
    live: NDArray[np.bool_] = magnitude < (((1 << form.exponent) - 1) << form.mantissa) - 1
    return live


def blocks(rows: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Cut [rows, width] into pieces of about BLOCK values."""
    high = max(1, BLOCK // max(1, width))
    for r in range(0, rows, high):
        for c in range(0, width, BLOCK):
            yield slice(r, r + high), slice(c, c + BLOCK)
