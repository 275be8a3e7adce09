"""The norm after a delta layer: root mean square over a value head, gated by silu."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.rms_norm import rms_norm
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.silu import silu

F32 = NDArray[np.float32]


def gated_norm(o: F32, w: F32, z: F32, eps: float) -> F32:
    """y = rms_norm(o) * w * silu(z)

    Shapes:   o [..., dv], w [dv], z [..., dv] -> y [..., dv]
    Formats:  f32 in and out
    Order:    s = 1 / sqrt(chunked_sum(o*o) / dv + eps);  settle(settle(settle(o * s) * w) * silu(z))
    Source:   Yang et al. 2024, arXiv 2412.06464; contract, section 8
    """
    return settle(rms_norm(o, w, eps) * silu(z))
