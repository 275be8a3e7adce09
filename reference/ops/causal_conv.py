"""Depthwise causal convolution over a few rows, then silu."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.silu import silu

F32 = NDArray[np.float32]


def causal_conv(x: F32, w: F32, state: F32) -> tuple[F32, F32]:
    """y[t, c] = silu(settle(sum over j of w[c, j] * x[t - k + 1 + j, c]))

    Shapes:   x [rows, C], w [C, k], state [k-1, C] (the inputs before row 0, oldest first) -> y [rows, C], new state
    Formats:  f32 in and out
    Order:    acc = +0.0; taps j = 0 .. k-1, oldest input first
    Source:   contract, section 5
    """
    rows, k = x.shape[0], w.shape[1]
    past = np.concatenate([state, x])  # [k-1 + rows, C]
    acc = np.zeros(x.shape, np.float32)
    for j in range(k):
        acc = acc + w[:, j] * past[j : j + rows]
    return silu(settle(acc)), past[rows:].copy()
