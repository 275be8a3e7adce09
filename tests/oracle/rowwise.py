"""Contract, section 5: embedding, sum, product, gated unit, softmax, argmax; all on one row."""

import mpmath

from oracle.elementary import exp_neg, silu
from oracle.f32 import add as add_f32
from oracle.f32 import chunked_sum, div, nearest, settle, sub
from oracle.f32 import mul as mul_f32


def embed(ids: list[int], table: list[list[float]], scaled: bool = False) -> list[list[float]]:
    """scaled: this family multiplies its embedding by f32(sqrt(width))"""
    if not scaled:
        return [table[i] for i in ids]
    with mpmath.workprec(200):
        factor = nearest(mpmath.sqrt(len(table[0])))
    return [[settle(mul_f32(x, factor)) for x in table[i]] for i in ids]


def add(x: list[float], y: list[float]) -> list[float]:
    return [settle(add_f32(a, b)) for a, b in zip(x, y, strict=True)]


def mul(x: list[float], y: list[float]) -> list[float]:
    return [settle(mul_f32(a, b)) for a, b in zip(x, y, strict=True)]


def swiglu(gate: list[float], up: list[float]) -> list[float]:
    return mul([silu(g) for g in gate], up)


def exponentials(s: list[float]) -> list[float]:
    """exp_neg(settle(s[j] - m)), m the maximum"""
    m = max(s)
    return [exp_neg(settle(sub(x, m))) for x in s]


def softmax(s: list[float]) -> list[float]:
    e = exponentials(s)
    denom = chunked_sum(e)
    return [settle(div(x, denom)) for x in e]


def argmax(x: list[float]) -> int:
    """The first index of the maximum."""
    return x.index(max(x))
