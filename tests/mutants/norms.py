"""Faults of layer_norm, l2_norm and the gated norm."""

from collections.abc import Callable

import numpy as np

from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.ops.silu import silu
from mutants.linear import F32, ONE, Array, Change, Three, Two


def total(x: Array) -> Array:
    return chunked_sum(np.moveaxis(x, -1, 0))[..., None]


def layer_norm_with(
    centred: Two = lambda x, mu: settle(x - mu),
    variance: Three = lambda x, c, n: total(c * c) / n,
    scale: Two = lambda v, eps: ONE / np.sqrt(v + eps),
    finish: Three = lambda y, w, b: settle(settle(settle(y) * w) + b),
) -> Change:
    def layer_norm(self: NumpyOps, at: str, x: Array, w: Array, b: Array, eps: float) -> Array:
        n = F32(x.shape[-1])
        c = centred(x, total(x) / n)
        return finish(c * scale(variance(x, c, n), F32(eps)), w, b)

    return {"layer_norm": layer_norm}


def mean_of_squares(x: Array, c: Array, n: Array) -> Array:
    """E[x x] - E[x]^2"""
    mu = total(x) / n
    return np.maximum(total(x * x) / n - mu * mu, F32(0))


def l2_norm_with(
    unit: Callable[[Array, Array], Array], scaled: Two = lambda y, scale: settle(settle(y) * scale)
) -> Change:
    """unit: x and its sum of squares -> y, before it is settled"""

    def l2_norm(self: NumpyOps, at: str, x: Array, groups: int, scale: float | None = None) -> Array:
        split = x.reshape(len(x), groups, -1)
        y = unit(split, total(split * split)).reshape(x.shape)
        return settle(y) if scale is None else scaled(y, F32(scale))

    return {"l2_norm": l2_norm}


EPS = F32(1e-6)


def usual_unit(x: Array, squares: Array) -> Array:
    return x * (ONE / np.sqrt(squares + EPS))


def divided(x: Array, squares: Array) -> Array:
    return x / np.sqrt(squares + EPS)


def no_smaller_than_eps(x: Array, squares: Array) -> Array:
    """As torch.nn.functional.normalize does it."""
    return x / np.maximum(np.sqrt(squares), EPS)


def mean_square(x: Array, squares: Array) -> Array:
    return x * (ONE / np.sqrt(squares / F32(x.shape[-1]) + EPS))


def gated_with(combine: Callable[[NumpyOps, Array, Array, Array, float, int], Array]) -> Change:
    def gated_norm(self: NumpyOps, at: str, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
        return combine(self, o, w, z, eps, groups)

    return {"gated_norm": gated_norm}


def gate_first(self: NumpyOps, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
    return self.rms_norm("", settle(o * silu(z)), w, eps, groups)


def sigmoid_gate(self: NumpyOps, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
    return settle(self.rms_norm("", o, w, eps, groups) * sigmoid(z))


def gate_unsettled(self: NumpyOps, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
    return settle(self.rms_norm("", o, w, eps, groups) * (z * sigmoid(z)))


def one_plus_gain(self: NumpyOps, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
    return settle(self.rms_norm("", o, settle(ONE + w), eps, groups) * silu(z))


def over_all_heads(self: NumpyOps, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
    return settle(self.rms_norm("", o, np.tile(w, groups), eps) * silu(z))


def in_order(self: NumpyOps, o: Array, w: Array, z: Array, eps: float, groups: int) -> Array:
    return settle(silu(z) * self.rms_norm("", o, w, eps, groups))
