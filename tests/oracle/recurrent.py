"""Contract, section 5: the convolution and the delta rule, one row after the other."""

import mpmath

from oracle.attention import Heads, usual_scale
from oracle.elementary import exp_neg, silu, softplus
from oracle.f32 import add, chunked_dot, mul, nearest, settle, sub
from oracle.norms import l2_norm

Matrix = list[list[float]]


def causal_conv(x: Matrix, w: Matrix, state: Matrix) -> tuple[Matrix, Matrix]:
    """x [R, C], w [C, k], state [k-1, C], oldest row first -> y [R, C], state"""
    taps = len(w[0])
    rows = state + x
    y = []
    for t in range(len(x)):
        out = []
        for c, weights in enumerate(w):
            acc = 0.0
            for j in range(taps):
                acc = add(acc, mul(weights[j], rows[t + j][c]))
            out.append(silu(settle(acc)))
        y.append(out)
    return y, rows[len(rows) - (taps - 1) :]


def delta_decay(a: list[float], A_log: list[float], dt_bias: list[float]) -> list[float]:
    """g of one row, per value head; negA is a weight, so it is settled like one"""
    with mpmath.workprec(200):
        neg_a = [settle(nearest(-mpmath.exp(x))) for x in A_log]
    inner = [softplus(settle(add(x, bias))) for x, bias in zip(a, dt_bias, strict=True)]
    return [settle(mul(n, s)) for n, s in zip(neg_a, inner, strict=True)]


def delta_rule(q: Heads, k: Heads, v: Heads, g: Matrix, beta: Matrix, state: Heads) -> tuple[Heads, Heads]:
    """q, k [R, Hk, dk] before l2_norm, v [R, Hv, dv], g, beta [R, Hv], state S [Hv, dk, dv] -> o like v, S"""
    value_heads, dk = len(state), len(state[0])
    group = value_heads // len(q[0])
    scale = usual_scale(dk)
    out = []
    for row in range(len(q)):
        o, new = [], []
        for j, S in enumerate(state):
            key = l2_norm(k[row][j // group])
            query = [settle(mul(a, scale)) for a in l2_norm(q[row][j // group])]
            decay = exp_neg(g[row][j])
            S = [[settle(mul(a, decay)) for a in line] for line in S]
            m = [settle(chunked_dot(column, key)) for column in zip(*S, strict=True)]
            u = [settle(mul(settle(sub(a, b)), beta[row][j])) for a, b in zip(v[row][j], m, strict=True)]
            S = [outer_update(line, x, u) for line, x in zip(S, key, strict=True)]
            o.append([settle(chunked_dot(column, query)) for column in zip(*S, strict=True)])
            new.append(S)
        state = new
        out.append(o)
    return out, state


def outer_update(line: list[float], x: float, u: list[float]) -> list[float]:
    """One line of S + k u^T"""
    return [settle(add(a, mul(x, b))) for a, b in zip(line, u, strict=True)]
