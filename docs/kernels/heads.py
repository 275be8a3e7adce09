"""A sample with a bug that `gnomon check-op scores docs/kernels/heads.py:scores` finds: the wrong key head.

Query head h reads key head h // (heads / kv_heads). This kernel reads h mod kv_heads, which is right for one key head,
and for as many key heads as query heads, so that small tests pass.
"""

import numpy as np

FLOOR = np.float32(2.0**-50)


def settle(x):
    return np.where(np.abs(x) < FLOOR, np.float32(0), x)


def scores(q, k, pos, scale, window, key_head=lambda h, heads, kv_heads: h % kv_heads):
    """q [rows, heads, d], k [T, kv_heads, d], pos [rows] -> [rows, heads, T], +0.0 where a row does not see"""
    (rows, heads, d), (T, kv_heads, _) = q.shape, k.shape
    out = np.zeros((rows, heads, T), np.float32)
    for r in range(rows):
        first = 0 if window is None else max(0, pos[r] - window + 1)
        for h in range(heads):
            for j in range(first, pos[r] + 1):
                total = np.float32(0)
                for start in range(0, d, 128):
                    acc = np.float32(0)
                    for i in range(start, min(start + 128, d)):
                        acc += q[r, h, i] * k[j, key_head(h, heads, kv_heads), i]
                    total += acc
                out[r, h, j] = settle(settle(total) * np.float32(scale))
    return out


def scores_right(q, k, pos, scale, window):
    """The same without the bug."""
    return scores(q, k, pos, scale, window, key_head=lambda h, heads, kv_heads: h // (heads // kv_heads))
