"""Division as AMD's compiler builds it, on NumPy: an estimate of 1 / d, and fused steps that mend it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
ONE = np.float32(1.0)
Estimate = Callable[[F32], F32]


def fma(a: F32, b: F32, c: F32) -> F32:
    """a * b + c rounded once: the product is exact in double precision, what its sum loses makes its last bit odd"""
    p, c64 = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + c64
    back = s - p
    lost = (p - (s - back)) + (c64 - back)
    word = s.view(np.int64)
    step = np.where((lost != 0) & (word & 1 == 0), np.where((lost > 0) == (s > 0), 1, -1), 0)
    once: F32 = (word + step).view(np.float64).astype(np.float32)
    return once


def below(d: F32) -> F32:
    """v_rcp_f32 as it may be, one last place off: the f32 nearest to 1 / d on the side of zero"""
    exact = 1 / d.astype(np.float64)
    near = exact.astype(np.float32)
    return np.where(np.abs(near.astype(np.float64)) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


def above(d: F32) -> F32:
    """The f32 nearest to 1 / d on the other side; both neighbours keep what is promised"""
    exact = 1 / d.astype(np.float64)
    near = exact.astype(np.float32)
    away = np.copysign(np.float32(np.inf), near)
    return np.where(np.abs(near.astype(np.float64)) < np.abs(exact), np.nextafter(near, away), near)


def by_steps(estimate: Estimate) -> Callable[[Any, Any], F32]:
    """n / d: v_rcp_f32, the five v_fma_f32, and v_div_fmas_f32. Operands stay where v_div_scale_f32 scales nothing."""

    def divided(n: Any, d: Any) -> F32:
        n, d = (np.ascontiguousarray(x, np.float32) for x in np.broadcast_arrays(n, d))
        with np.errstate(all="ignore"):
            r = estimate(d)
            r = fma(fma(-d, r, np.ones_like(d)), r, r)
            q = n * r
            q = fma(fma(-d, q, n), r, q)
            q = fma(fma(-d, q, n), r, q)
            plain: F32 = np.where((n == 0) | ~np.isfinite(q), n / d, q)  # v_div_fixup_f32
        return plain

    return divided
