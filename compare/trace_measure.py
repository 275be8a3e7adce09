"""The record of a tensor: hashed and counted, as a whole and row by row."""

import hashlib
from collections.abc import Iterator
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
    flat = pattern.reshape(1, -1)
    return Counts(*(int(column[0]) for column in counts(flat, form, name, pattern.shape)))


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
