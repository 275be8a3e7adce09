"""Logarithm of 1 + u on the unit interval, the inner part of softplus."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.exp_neg import from_bits
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]

Q0, Q1, Q2, Q3, Q4 = from_bits(0x3EAAAAAB, 0x3E4CCC6A, 0x3E1264AA, 0x3DDE437A, 0x3DEDE0B9)


def log1p01(u: F32) -> F32:
    """log1p01(u) = log(1 + u) for 0 <= u <= 1, by 2 artanh(u / (2 + u))

    Shapes:   any
    Formats:  f32 in and out, every step rounded; at most 1.97 ulp from log(1 + u); not settled, not monotone
    Order:    s = u / (2 + u);  z = settle(s*s);  polynomial q in z by Horner;  t = s + s;  t + t*(z*q)
    Source:   contract, section 4
    """
    s = u / (np.float32(2.0) + u)
    z = settle(s * s)
    q = np.broadcast_to(Q4, z.shape)
    for coefficient in (Q3, Q2, Q1, Q0):
        q = q * z + coefficient
    t = s + s
    y: F32 = t + t * (z * q)
    return y
