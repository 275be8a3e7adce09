"""Contract, section 5: attention in four steps. Row r of q stands at pos[r]; k and v hold every position."""

from typing import NamedTuple

import mpmath

from oracle.f32 import chunked_dot, chunked_sum, div, mul, nearest, settle
from oracle.rowwise import exponentials

Heads = list[list[list[float]]]  # [rows or positions, heads, d]


class Steps(NamedTuple):
    """scores, exp [rows, heads, T], +0.0 where a row does not see; denom [rows, heads]; z [rows, heads, d]"""

    scores: Heads
    exp: Heads
    denom: list[list[float]]
    z: Heads


def usual_scale(d: int) -> float:
    """f32(1 / sqrt(d))"""
    with mpmath.workprec(200):
        return nearest(1 / mpmath.sqrt(d))


def attention(q: Heads, k: Heads, v: Heads, pos: list[int], scale: float, window: int | None = None) -> Steps:
    T, steps = len(k), Steps([], [], [], [])
    group = len(q[0]) // len(k[0])
    for row, p in zip(q, pos, strict=True):
        first = 0 if window is None else max(0, p - window + 1)
        unseen = [0.0] * first, [0.0] * (T - p - 1)
        for results in steps:
            results.append([])
        for head, query in enumerate(row):
            keys = [k[j][head // group] for j in range(first, p + 1)]
            values = [v[j][head // group] for j in range(first, p + 1)]
            s = [settle(mul(settle(chunked_dot(query, key)), scale)) for key in keys]
            e = exponentials(s)
            denom = chunked_sum(e, first)
            columns = list(zip(*values, strict=True))
            z = [settle(div(settle(chunked_dot(e, column, first)), denom)) for column in columns]
            steps.scores[-1].append(unseen[0] + s + unseen[1])
            steps.exp[-1].append(unseen[0] + e + unseen[1])
            steps.denom[-1].append(denom)
            steps.z[-1].append(z)
    return steps
