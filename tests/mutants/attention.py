"""Faults of attention: masks, head maps, the order of its steps."""

from collections.abc import Callable

import numpy as np

from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops import attention as attend
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle
from gnomon.reference.protocol import Rows, Span
from mutants.linear import F32, ZERO, Array, Change


def seeing(look: Callable[[Span, Rows, int | None], Array]) -> Change:
    return {"_seen": staticmethod(look)}


def wider_by(more: int) -> Change:
    def look(span: Span, rows: Rows, window: int | None) -> Array:
        return attend.seen(rows.pos[span.start : span.stop], span.end, window and window + more)

    return seeing(look)


def future(span: Span, rows: Rows, window: int | None) -> Array:
    return np.ones((span.stop - span.start, 1, span.end), bool)


def tiled_heads(self: NumpyOps, at: str, q: Array, rows: Rows, i: int, scale: float, window: int | None) -> list[Array]:
    """Query head h reads key head h mod kv_heads."""
    _, kv_heads, d = rows.spans[0].state.cache(i).read("k", 0, 1).shape
    heads = q.shape[1] // d
    order = np.argsort([h % kv_heads for h in range(heads)], kind="stable")
    swapped = q.reshape(len(q), heads, d)[:, order].reshape(q.shape)
    return [s[:, np.argsort(order)] for s in NumpyOps.scores(self, at, swapped, rows, i, scale, window)]


def scale_first(self: NumpyOps, at: str, q: Array, rows: Rows, i: int, scale: float, window: int | None) -> list[Array]:
    return NumpyOps.scores(self, at, settle(q * F32(scale)), rows, i, 1.0, window)


def maximum_of_all(self: NumpyOps, at: str, s: list[Array], rows: Rows, window: int | None) -> list[Array]:
    """The maximum runs over unseen positions too."""
    look = [NumpyOps._seen(span, rows, window) for span in rows.spans]
    return [
        np.where(see, exp_neg(settle(x - np.max(x, axis=-1, keepdims=True))), ZERO)
        for x, see in zip(s, look, strict=True)
    ]


def library_exp(self: NumpyOps, at: str, s: list[Array], rows: Rows, window: int | None) -> list[Array]:
    e = NumpyOps.exp_scores(self, at, s, rows, window)
    return [np.where(x > 0, np.exp(y - np.max(y, axis=-1, keepdims=True)), x) for x, y in zip(e, s, strict=True)]


def plain_sum(self: NumpyOps, at: str, e: list[Array]) -> list[Array]:
    return [np.add.accumulate(x, axis=-1)[..., -1] for x in e]


def relative_chunks(self: NumpyOps, at: str, e: list[Array]) -> list[Array]:
    """Chunks counted from the first position that a row sees."""
    out = [np.empty(x.shape[:2], F32) for x in e]
    for x, total in zip(e, out, strict=True):
        for at_head in np.ndindex(total.shape):
            seen = np.flatnonzero(x[at_head])
            total[at_head] = chunked_sum(x[at_head][seen[0] :])
    return out


def probabilities_first(self: NumpyOps, at: str, e: list[Array], denom: list[Array], rows: Rows, i: int) -> Array:
    divided = [settle(x / total[..., None]) for x, total in zip(e, denom, strict=True)]
    return NumpyOps.mix(self, at, divided, [np.ones_like(total) for total in denom], rows, i)
