"""A sample with a bug that `gnomon check-op softmax docs/kernels/nan.py:softmax` finds: a maximum that drops NaN.

`fmaxf` of C, CUDA and Metal gives the other operand where one is NaN. Here it finds the largest score, and it keeps the
exponent in range; both times a NaN becomes a number, and a broken model goes on as if nothing had happened.
"""

import numpy as np

LOWEST = np.float32(-34.5)
LOG2E, C1, C2 = np.array([0x3FB8AA3B, 0x3F318000, 0xB95E8083], np.uint32).view(np.float32)
P = np.array([0x39506967, 0x3AB743CE, 0x3C088908, 0x3D2AA9C1, 0x3E2AAAAA, 0x3F000000], np.uint32).view(np.float32)


def exp_neg(x, maximum):
    below = x < LOWEST
    x = maximum(x, LOWEST)
    n = np.rint(x * LOG2E)
    r = (x - n * C1) - n * C2
    p = P[0]
    for c in P[1:]:
        p = p * r + c
    y = (p * (r * r) + r) + np.float32(1)
    return np.where(below, np.float32(0), np.ldexp(y, np.nan_to_num(n).astype(np.int32)))


def softmax(s, maximum=np.fmax):
    """s [rows, n] -> [rows, n]; maximum: np.fmax drops NaN, np.maximum hands it on"""
    e = exp_neg(s - maximum.reduce(s, axis=1, keepdims=True), maximum)
    total = np.zeros(len(s), np.float32)
    for start in range(0, s.shape[1], 128):
        acc = np.zeros_like(total)
        for i in range(start, min(start + 128, s.shape[1])):
            acc += e[:, i]
        total += acc
    p = e / total[:, None]
    return np.where(np.abs(p) < np.float32(2.0**-50), np.float32(0), p)


def softmax_right(s):
    """The same without the bug."""
    return softmax(s, np.maximum)
