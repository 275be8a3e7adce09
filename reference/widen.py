"""Stored weights as f32: exactly as their format defines, then settled."""

import gguf
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.delta_gates import negative_a
from gnomon.reference.ops.settle import settle
from gnomon.reference.weights import Weight

F32 = NDArray[np.float32]


def widen(weight: Weight) -> F32:
    """f32 of the weight's logical shape, settled; settle(1 + w) where the family's norm multiplies by that; -exp(w),
    rounded once, for the decay of a delta layer

    Formats:  F32 and F16 as they are; BF16 by 16 zero bits; GGUF blocks as the contract, section 1, says,
              each operation rounded; NaN and infinity pass, for the engine to report
    """
    w = settle(widen_stored(weight.dtype, weight.data).reshape(weight.shape))
    if weight.role == "decay":
        return negative_a(w)
    return settle(np.float32(1.0) + w) if weight.plus_one else w


def widen_stored(dtype: str, data: NDArray[np.uint8]) -> F32:
    """Stored bytes [rows, bytes per row] -> f32 [rows, values per row], not settled"""
    data = np.ascontiguousarray(data)
    if dtype == "F32":
        return data.view("<f4").astype(np.float32)
    if dtype == "F16":
        return data.view("<f2").astype(np.float32)
    if dtype == "BF16":
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # an infinite scale times 0; the largest exponents of MXFP4
        blocks: F32 = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[dtype])
    return blocks
