"""Faults of mixtures of experts: who is chosen, with what weight, in which order they join."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.arms import arm_linear
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.mixture import softmax
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.silu import silu
from mutants.linear import ONE, Array, Change, Two


def usual_order(p: Array) -> Array:
    return np.argsort(-p, axis=-1, kind="stable")


def tie_to_the_higher_id(p: Array) -> Array:
    return p.shape[-1] - 1 - np.argsort(-p[:, ::-1], axis=-1, kind="stable")


def route_with(
    probabilities: Callable[[Array], Array] = softmax,
    order: Callable[[Array], Array] = usual_order,
    summed: Callable[[Array, Array], Array] = lambda weight, chosen: weight,
    quotient: Two = lambda weight, z: settle(weight / z),
) -> Change:
    """route from its parts; summed: the chosen weights and their ids -> the weights in the order of their sum"""

    def route(self: NumpyOps, at: str, logits: Array, top_k: int, normalise: bool) -> Array:
        p = probabilities(logits)
        chosen = order(p)[:, :top_k]
        weight = np.take_along_axis(p, chosen, axis=-1)
        if normalise:
            z = np.zeros((len(p), 1), np.float32)
            for term in summed(weight, chosen).T:
                z = z + term[:, None]
            weight = quotient(weight, z)
        out = np.zeros_like(p)
        np.put_along_axis(out, chosen, weight, axis=-1)
        return out

    return {"route": route}


def by_id(weight: Array, chosen: Array) -> Array:
    return np.take_along_axis(weight, np.argsort(chosen, axis=-1), axis=-1)


def smallest_first(weight: Array, chosen: Array) -> Array:
    return weight[:, ::-1]


def by_a_reciprocal(weight: Array, z: Array) -> Array:
    return settle(weight * (ONE / z))


def unsettled_softmax(s: Array) -> Array:
    e = exp_neg(settle(s - np.max(s, axis=-1, keepdims=True)))
    return e / chunked_sum(np.moveaxis(e, -1, 0))[..., None]


def softmax_of_the_chosen(self: NumpyOps, at: str, logits: Array, top_k: int, normalise: bool) -> Array:
    """The same real numbers as softmax, choice and normalisation, by another way."""
    if not normalise:
        return NumpyOps.route(self, at, logits, top_k, normalise)
    chosen = usual_order(logits)[:, :top_k]
    out = np.zeros_like(logits)
    np.put_along_axis(out, chosen, softmax(np.take_along_axis(logits, chosen, axis=-1)), axis=-1)
    return out


def experts_with(
    joined: Callable[[Array, Array, Array], Array] = lambda y, p, out: settle(y + settle(p * out)),
    order: Callable[[Array], Any] = lambda p: np.arange(len(p)),
    scaled: Two = lambda x, p: x,
    rows: Callable[[int], int] = lambda n: n,
    finish: Callable[[Array], Array] = settle,
) -> Change:
    """experts, one row after the other; joined: y, the weight and the expert's result -> y; order: of the experts"""

    def experts(self: NumpyOps, at: str, x: Array, p: Array, weights: Any) -> Array:
        y = np.zeros_like(x)
        for r in range(rows(len(x))):
            for e in order(p[r]):
                if p[r, e] > 0:
                    gate, up, out = weights[e]
                    a = scaled(x[r : r + 1], p[r, e])
                    act = settle(silu(arm_linear(a, gate)) * arm_linear(a, up))
                    y[r] = joined(y[r], p[r, e], arm_linear(act, out)[0])
        return finish(y)

    return {"experts": experts}


def likeliest_first(p: Array) -> Array:
    return np.argsort(-p, kind="stable")


def highest_id_first(p: Array) -> Array:
    return np.arange(len(p))[::-1]
