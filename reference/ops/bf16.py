"""Brain floating point: the upper half of an f32."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
U16 = NDArray[np.uint16]


def to_bf16(x: F32) -> U16:
    """Round to the nearest bf16, ties to even

    Shapes:   any
    Formats:  f32 in, the 16 bits of a bf16 out; x is finite (a NaN may come back as infinity)
    Order:    add 0x7fff plus the lowest kept bit to the bit pattern, drop 16 bits
    Source:   contract, section 7
    """
    u = np.ascontiguousarray(x).view(np.uint32)
    return ((u + np.uint32(0x7FFF) + ((u >> 16) & np.uint32(1))) >> 16).astype(np.uint16)


def from_bf16(u: U16) -> F32:
    """Widen, exactly."""
    return (u.astype(np.uint32) << 16).view(np.float32)


def round_bf16(x: F32) -> F32:
    """from_bf16(to_bf16(x)); a NaN stays one"""
    return np.where(np.isnan(x), x, from_bf16(to_bf16(x)))
