"""Attention in its four steps: scores, exponentials, denominator, mix. There is no online rescaling.

One sequence at a time. T is the number of positions the state holds; a row at position p sees 0..p, or the last
`window` of them. Unseen positions carry +0.0 and so contribute nothing. Chunks run over absolute positions.
"""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunked_dot, chunked_sum
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]
Seen = NDArray[np.bool_]


def seen(pos: NDArray[np.int64], T: int, window: int | None) -> Seen:
    """Which positions each row sees: [rows, 1, T]"""
    j = np.arange(T)
    see = j <= pos[:, None]
    if window is not None:
        see &= j > pos[:, None] - window
    return see[:, None]


def scores(q: F32, k: F32, see: Seen, scale: np.float32) -> F32:
    """s[r, h, j] = settle(settle(chunked_dot(q[r, h], k[j, h // group])) * scale)

    Shapes:   q [rows, heads, d], k [T, kv_heads, d], see [rows, 1, T] -> [rows, heads, T]
    Formats:  f32 in and out
    Source:   Vaswani et al. 2017, arXiv 1706.03762; Ainslie et al. 2023, arXiv 2305.13245; contract, section 5
    """
    rows, heads, d = q.shape
    T, kv_heads, _ = k.shape
    q_first = q.reshape(rows, kv_heads, -1, d).transpose(3, 0, 1, 2)[..., None]  # [d, rows, kv_heads, group, 1]
    k_first = np.ascontiguousarray(k.transpose(2, 1, 0))[:, None, :, None]  # [d, 1, kv_heads, 1, T]
    dot = settle(chunked_dot(q_first, k_first)).reshape(rows, heads, T)
    return np.where(see, settle(dot * scale), np.float32(0.0))


def exp_scores(s: F32, see: Seen) -> F32:
    """e[j] = exp_neg(settle(s[j] - m)), m the maximum over the seen positions

    Shapes:   s [rows, heads, T], see [rows, 1, T] -> [rows, heads, T]
    Formats:  f32 in and out; the exponential is at least 2^-50 or +0.0, so it needs no settling
    Source:   contract, section 5
    """
    m = np.max(np.where(see, s, np.float32(-np.inf)), axis=-1, keepdims=True)  # [rows, heads, 1]
    difference = np.where(see, settle(s - m), np.float32(0.0))
    return np.where(see, exp_neg(difference), np.float32(0.0))


def denom(e: F32) -> F32:
    """chunked_sum over positions: [rows, heads, T] -> [rows, heads]; not settled"""
    return chunked_sum(np.moveaxis(e, -1, 0))


def mix(e: F32, total: F32, v: F32) -> F32:
    """o[r, h] = settle(settle(chunked_dot over positions (e[r, h], v[:, h // group])) / denom[r, h])

    Shapes:   e [rows, heads, T], denom [rows, heads], v [T, kv_heads, d] -> [rows, heads, d]
    Formats:  f32 in and out; the division comes after the sum
    Source:   contract, section 5
    """
    rows, heads, T = e.shape
    _, kv_heads, d = v.shape
    e_first = e.reshape(rows, kv_heads, -1, T).transpose(3, 0, 1, 2)[..., None]  # [T, rows, kv_heads, group, 1]
    v_first = v[:, None, :, None]  # [T, 1, kv_heads, 1, d]
    o = settle(chunked_dot(e_first, v_first)).reshape(rows, heads, d)
    return settle(o / total[..., None])
