"""Layer normalisation, as in GPT-2."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def layer_norm(x: F32, w: F32, b: F32, eps: float) -> F32:
    """y = (x - mean(x)) / sqrt(var(x) + eps) * w + b

    Shapes:   x [..., n], w [n], b [n] -> y [..., n]
    Formats:  f32 in and out
    Order:    mu = chunked_sum(x) / n;  c = settle(x - mu);  v = chunked_sum(c*c) / n;  s = 1 / sqrt(v + eps);
              settle(settle(settle(c * s) * w) + b)
    Source:   Ba, Kiros and Hinton 2016, arXiv 1607.06450; contract, section 5
    """
    n = np.float32(x.shape[-1])
    mu = chunked_sum(np.moveaxis(x, -1, 0)) / n  # [...]
    c = settle(x - mu[..., None])
    v = chunked_sum(np.moveaxis(c * c, -1, 0)) / n  # [...]
    s = np.float32(1.0) / np.sqrt(v + np.float32(eps))  # [...]
    return settle(settle(settle(c * s[..., None]) * w) + b)
