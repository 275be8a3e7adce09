"""The gated delta rule: a matrix per head that forgets, compares and writes, one row at a time."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunked_dot
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def delta_rule(q: F32, k: F32, v: F32, g: F32, beta: F32, state: F32) -> tuple[F32, F32]:
    """S = S e^g;  u = (v - S'k) beta;  S = S + k u';  o = S'q, for each row in the order of positions

    Shapes:   q, k [rows, H, dk] (unit length, q scaled), v [rows, H, dv], g, beta [rows, H], state [H, dk, dv]
              -> o [rows, H, dv], new state; H counts value heads, and q, k are already those of their key head
    Formats:  f32 in and out
    Order:    S = settle(S * exp_neg(g));  m = settle(chunked_dot over dk of (S[:, j], k));
              u = settle(settle(v - m) * beta);  S = settle(S + k[i]*u[j]);
              o = settle(chunked_dot over dk of (S[:, j], q)).  There is no chunk-parallel form: it has other bytes.
    Source:   Yang et al. 2024, arXiv 2412.06464; contract, section 5
    """
    S = state
    keep = exp_neg(g)[..., None, None]  # [rows, H, 1, 1]
    out = np.empty(v.shape, np.float32)
    for r in range(len(v)):
        S = settle(S * keep[r])  # [H, dk, dv]
        k_first = k[r].T[..., None]  # [dk, H, 1]
        m = settle(chunked_dot(S.swapaxes(0, 1), k_first))  # [H, dv]
        u = settle(settle(v[r] - m) * beta[r][:, None])  # [H, dv]
        S = settle(S + k[r][:, :, None] * u[:, None])
        out[r] = settle(chunked_dot(S.swapaxes(0, 1), q[r].T[..., None]))
    return out, S
