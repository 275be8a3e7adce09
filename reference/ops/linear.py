"""Matrix product with a weight, the op where nearly all time goes."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.tiling import PackedMatrix, tiled_dot

F32 = NDArray[np.float32]


def linear(x: F32, w: PackedMatrix, b: F32 | None = None) -> F32:
    """y[r, n] = settle(chunked_dot(x[r], W[n])), then settle(y + b[n]) if there is a bias

    Shapes:   x [rows, K], W [N, K] (packed by `pack_matrix`), b [N] -> y [rows, N]
    Formats:  f32 in and out, products and accumulators f32
    Order:    contract, section 3; rows, tiles and threads do not enter it
    Source:   contract, section 5
    """
    y = settle(tiled_dot(x, w))
    return y if b is None else settle(y + b)
