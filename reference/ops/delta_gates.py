"""The two gates of the delta rule: how much a head forgets, and how much it writes (which is a plain sigmoid)."""

import mpmath
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.rope import round_once
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.softplus import softplus

F32 = NDArray[np.float32]


def delta_decay(a: F32, neg_a: F32, dt_bias: F32) -> F32:
    """g = settle(neg_a * softplus(settle(a + dt_bias))), the logarithm of what a step keeps of the state

    Shapes:   a [rows, heads], neg_a [heads], dt_bias [heads] -> g [rows, heads], all <= 0
    Formats:  f32 in and out
    Source:   Gu and Dao 2023, arXiv 2312.00752; contract, section 5
    """
    return settle(neg_a * softplus(settle(a + dt_bias)))


def negative_a(a_log: F32) -> F32:
    """-exp(A_log) as a real number, rounded once to f32 and settled, computed when a model is loaded: [heads]"""
    with mpmath.workprec(200):
        exact = [-mpmath.exp(mpmath.mpf(float(x))) for x in a_log]
    return settle(np.array([round_once(x) for x in exact], np.float32))
