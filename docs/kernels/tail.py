"""A sample with a bug that `gnomon check-op linear docs/kernels/tail.py:linear` finds: the tail of a row is lost.

The kernel reads four terms at a time, as a vector unit does, and forgets what is left when K is not a multiple of 4.
"""

import numpy as np

CHUNK, VECTOR = 128, 4
FLOOR = np.float32(2.0**-50)


def linear(x, w, read=lambda K: K // VECTOR * VECTOR):
    """x [rows, K], w [N, K] -> [rows, N]; read: how many of a chunk's K terms are added"""
    total = np.zeros((len(x), len(w)), np.float32)
    for start in range(0, x.shape[1], CHUNK):
        size = min(CHUNK, x.shape[1] - start)
        acc = np.zeros_like(total)
        for i in range(start, start + read(size)):
            acc += x[:, i, None] * w[:, i]
        total += acc
    return np.where(np.abs(total) < FLOOR, np.float32(0), total)


def linear_right(x, w):
    """The same without the bug."""
    return linear(x, w, read=lambda K: K)
