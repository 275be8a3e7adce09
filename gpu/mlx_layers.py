"""What attention and delta layers do with the state of one sequence, in MLX array operations. Formulas, order and
sources stand in `gnomon.reference.ops`."""

import mlx.core as mx

from gnomon.gpu.mlx_math import (
    INFINITY,
    ZERO,
    by_rows,
    dot_of_chunks,
    exp_neg,
    in_chunks,
    settle,
    silu,
)


def query_key(q: mx.array, k: mx.array) -> mx.array:
    """settle(chunked_dot(q[r, h], k[j, h // group]))

    q [rows, heads, d], k [T, kv_heads, d] -> [rows, heads, T]
    """
    T, kv_heads, d = k.shape
    k = in_chunks(k.transpose(2, 1, 0)[:, None, :, None])  # [i, c, 1, kv_heads, 1, T]

    def some(q: mx.array) -> mx.array:
        grouped = q.reshape(q.shape[0], kv_heads, -1, d).transpose(3, 0, 1, 2)  # [d, rows, kv_heads, group]
        return dot_of_chunks(in_chunks(grouped)[..., None], k).reshape(q.shape[0], -1, T)

    return settle(by_rows(some, q, k.shape[1] * q.shape[1] * T))


def softmax_terms(s: mx.array, see: mx.array) -> mx.array:
    """exp_neg(settle(s[j] - max)) where seen, else +0.0: s [rows, heads, T], see [rows, 1, T]"""
    m = mx.max(mx.where(see, s, -INFINITY), axis=-1, keepdims=True)  # [rows, heads, 1]; NaN stays NaN
    return mx.where(see, exp_neg(mx.where(see, settle(s - m), ZERO)), ZERO)


def mix(e: mx.array, denom: mx.array, v: mx.array) -> mx.array:
    """settle(settle(chunked_dot over positions (e[r, h], v[:, h // group])) / denom[r, h])

    e [rows, heads, T], denom [rows, heads], v [T, kv_heads, d] -> [rows, heads, d]
    """
    T, kv_heads, d = v.shape
    v = in_chunks(v[:, None, :, None])  # [i, c, 1, kv_heads, 1, d]

    def some(e: mx.array) -> mx.array:
        grouped = e.reshape(e.shape[0], kv_heads, -1, T).transpose(3, 0, 1, 2)  # [T, rows, kv_heads, group]
        return dot_of_chunks(in_chunks(grouped)[..., None], v).reshape(e.shape[0], -1, d)

    return settle(settle(by_rows(some, e, v.shape[1] * e.shape[1] * d)) / denom[..., None])


def causal_conv(x: mx.array, w: mx.array, state: mx.array) -> tuple[mx.array, mx.array]:
    """x [rows, C], w [C, taps], state [taps - 1, C] -> [rows, C], the new state"""
    rows, taps = x.shape[0], w.shape[1]
    past = mx.concatenate([state, x])  # [taps - 1 + rows, C]
    acc = ZERO
    for j in range(taps):
        acc = acc + w[:, j] * past[j : j + rows]
    return silu(settle(acc)), past[rows:]


def delta_rule(
    q: mx.array, k: mx.array, v: mx.array, g: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, mx.array]:
    """q, k [rows, H, dk], v [rows, H, dv], g, beta [rows, H], state [H, dk, dv] -> o [rows, H, dv], the new state"""
    S = state
    keep = exp_neg(g)[..., None, None]  # [rows, H, 1, 1]
    out = []
    for r in range(v.shape[0]):
        S = settle(S * keep[r])
        m = settle(over_keys(S, k[r]))
        u = settle(settle(v[r] - m) * beta[r][:, None])  # [H, dv]
        S = settle(S + k[r][:, :, None] * u[:, None])
        out.append(settle(over_keys(S, q[r])))
        mx.eval(S, out[-1])  # row by row: a long prompt is never one graph
    return mx.stack(out), S


def over_keys(S: mx.array, x: mx.array) -> mx.array:
    """chunked_dot over dk: S [H, dk, dv], x [H, dk] -> [H, dv], not settled"""
    return dot_of_chunks(in_chunks(S.swapaxes(0, 1)), in_chunks(x.T[..., None]))
