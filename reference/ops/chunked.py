"""The one order of addition: chunks of 128 terms, left to right within a chunk, then the chunks left to right.

The summed index comes first: a reduction reads whole contiguous slices t[i], and every chunk advances side by side,
which changes no addition. Zero terms change nothing (an accumulator starts at +0.0, and +0.0 + -0.0 = +0.0), so a
short last chunk is padded.
"""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.row_counts import chooses_by_rows

F32 = NDArray[np.float32]

CHUNK = 128
SMALL = chooses_by_rows(
    "reference.ops.chunked.SMALL", 1 << 14, "products"
)  # so few products are formed and added by one call each
PRODUCT_FLOATS = chooses_by_rows(
    "reference.ops.chunked.PRODUCT_FLOATS", 1 << 16, "floats"
)  # 256 KiB of products at a time stay in a core's cache


def chunks(t: F32) -> F32:
    """[K, ...] -> [min(K, 128), ceil(K / 128), ...]: term i of chunk c at [i, c], padded with +0.0"""
    K = t.shape[0]
    if K <= CHUNK:
        return t[:, None]
    count = -(-K // CHUNK)
    padded = np.zeros((count * CHUNK, *t.shape[1:]), np.float32)
    padded[:K] = t
    return padded.reshape(count, CHUNK, *t.shape[1:]).swapaxes(0, 1)


def chunked_sum(t: F32) -> F32:
    """chunked_sum(t[0..K)): acc_c = sum of chunk c from +0.0, i ascending; then the acc_c from +0.0, c ascending

    Shapes:   t [K, ...] -> [...]
    Formats:  f32 terms, f32 accumulators; not settled
    Order:    as above; nothing but K decides it
    Source:   contract, section 3
    """
    return total(left_to_right(chunks(t)))


def chunked_dot(x: F32, w: F32) -> F32:
    """chunked_sum(x[i] * w[i]), each product rounded before it is added

    Shapes:   x [K, ...], w [K, ...], broadcast against each other -> [...]
    Formats:  f32 factors, f32 products, f32 accumulators; not settled
    Source:   contract, section 3
    """
    return dot_of_chunks(chunks(x), chunks(w))


def dot_of_chunks(x: F32, w: F32) -> F32:
    """chunked_dot of arrays that `chunks` has laid out: [i, c, ...] each

    The products of several i are formed by one call and then added one i at a time, in order.
    """
    acc = np.zeros(np.broadcast_shapes(x.shape[1:], w.shape[1:]), np.float32)
    K = x.shape[0]
    if K * acc.size <= SMALL:
        return total(left_to_right(x * w))
    step = min(K, max(1, min(16, PRODUCT_FLOATS // acc.size)))
    products = np.empty((step, *acc.shape), np.float32)
    for i in range(0, K, step):
        block = products[: K - i]
        np.multiply(x[i : i + step], w[i : i + step], out=block)
        for product in block:
            np.add(acc, product, out=acc)
    return total(acc)


def left_to_right(t: F32) -> F32:
    """t[0] + t[1] + ..., one after the other: [i, ...] -> [...]

    `accumulate` is defined as the recurrence r[i] = r[i-1] + t[i], which leaves no order open; `np.sum` is not.
    """
    last: F32 = np.add.accumulate(t, axis=0)[-1]
    return last


def total(acc: F32) -> F32:
    """The sum of the chunks, ascending: [c, ...] -> [...]"""
    tot = np.zeros(acc.shape[1:], np.float32)
    for c in range(acc.shape[0]):
        tot += acc[c]
    return tot
