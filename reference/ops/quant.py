"""Eight-bit integers with one scale per row: the int8 arm, and int8 storage of keys and values."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]
I8 = NDArray[np.int8]


def quant(x: F32) -> tuple[I8, F32]:
    """s = settle(max|x| / 127), or 1 where that is +0.0;  q[i] = rint(x[i] / s)

    Shapes:   x [..., n] -> q [..., n], s [...]
    Formats:  f32 in; integers in [-127, 127] and an f32 scale out
    Source:   contract, section 7
    """
    with np.errstate(invalid="ignore"):  # infinities and NaN, which the engine reports; weights come here before a step
        s = settle(np.max(np.abs(x), axis=-1) / np.float32(127.0))  # [...]
        s = np.where(s == 0.0, np.float32(1.0), s)
        q = np.rint(x / s[..., None])
    return np.where(np.isnan(q), np.float32(0.0), q).astype(np.int8), s  # the NaN is still in s


def dequant(q: I8, s: F32) -> F32:
    """f32(q) * s: [..., n]"""
    return q.astype(np.float32) * s[..., None]
