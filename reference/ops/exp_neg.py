"""The only exponential there is."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def from_bits(*words: int) -> list[np.float32]:
    """f32 constants from their bit patterns."""
    return list(np.array(words, np.uint32).view(np.float32))


LOWEST = np.float32(-34.5)  # e^-34.5 is just above 2^-50
LOG2E, C1, C2 = from_bits(0x3FB8AA3B, 0x3F318000, 0xB95E8083)  # ln 2 = C1 + C2, n * C1 exact
P0, P1, P2, P3, P4, P5 = from_bits(0x3F000000, 0x3E2AAAAA, 0x3D2AA9C1, 0x3C088908, 0x3AB743CE, 0x39506967)


def exp_neg(x: F32) -> F32:
    """exp_neg(x) = e^x for x <= 0; +0.0 below -34.5

    Shapes:   any
    Formats:  f32 in and out, every step rounded; at most 0.981 ulp from e^x (1.0 above -2^-26)
    Order:    x = n ln 2 + r;  polynomial in r by Horner;  2^n by the exponent bits, exact
    Source:   contract, section 4; Cephes expf coefficients
    """
    below = x < LOWEST
    x = np.where(below, LOWEST, x)  # the branch comes before the conversion to an integer
    n = np.rint(x * LOG2E)
    r = (x - n * C1) - n * C2
    p = np.broadcast_to(P5, r.shape)
    for coefficient in (P4, P3, P2, P1, P0):
        p = p * r + coefficient
    y = (p * (r * r) + r) + np.float32(1.0)
    with np.errstate(invalid="ignore"):  # a NaN has no integer; it comes back below
        exponent = np.where(np.isnan(n), np.float32(0.0), n).astype(np.int32)
    power = ((exponent + 127) << 23).view(np.float32)  # 2^n, normal: n >= -50
    return np.where(below, np.float32(0.0), y * power)
