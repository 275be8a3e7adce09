"""Gaussian error linear unit in its tanh form, written with the logistic function."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.exp_neg import from_bits
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid

F32 = NDArray[np.float32]

G, H = from_bits(0x3FCC422A, 0x3D372713)  # 2 sqrt(2 / pi), 0.044715


def gelu_tanh(x: F32) -> F32:
    """gelu_tanh(x) = settle(x * sigmoid(G * (x + H * (settle(x*x) * x))))

    Shapes:   any
    Formats:  f32 in and out; the cube overflows above 6.98e12 and the result is still right
    Source:   Hendrycks and Gimpel 2016, arXiv 1606.08415; contract, section 4
    """
    cube = settle(x * x) * x
    return settle(x * sigmoid(G * (x + H * cube)))
