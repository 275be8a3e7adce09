"""Observations with a known cause: op, the name that `explain` must give, what makes inputs, numbers and result.

Where two departures give the same bytes on these inputs, both names stand there, with " | " between them.
"""

from collections.abc import Callable, Sequence

import numpy as np

import departures as d
from departures import add, div, dot, f32, settle
from planted_ops import (
    Made,
    activation,
    denominators,
    exponentials,
    layer,
    mixes,
    norm,
    product,
    rotation,
    scores,
    sums,
)

F64 = "accumulator f64"


def fused_exp(x: float) -> float:
    return d.exp_neg(x, d.fma)


def plain_exp(x: float) -> float:
    return d.exp_neg(x, d.unfused)


def cut_small(x: float) -> float:
    """A subnormal flushed to zero"""
    return 0.0 if abs(x) < 2.0**-126 else x


def exact_float64(x: Sequence[float], w: Sequence[float]) -> float:
    return d.float64(a * b for a, b in zip(x, w, strict=True))


def mean64(row: Sequence[float]) -> float:
    """Of 200 squares, summed and divided in float64"""
    return f32(sum(d.products(row, row)) / 200)


def turned(x: d.F32, w: d.F32) -> tuple[d.F32, d.F32]:
    return x, w.T


OBSERVATIONS: list[tuple[str, str, Callable[[], Made]]] = [
    ("linear", "fused multiply-add", product(d.fused_dot)),
    ("linear", "order sequential", product(dot(d.sequential), bias=True)),
    ("linear", "order reversed sequential", product(dot(d.backwards(d.sequential)))),
    ("linear", "order reversed chunk 128", product(dot(d.backwards(d.chunk(128))))),
    ("linear", "order chunk 32", product(dot(d.chunk(32)))),
    ("linear", "order chunk 64", product(dot(d.chunk(64)))),
    ("linear", "order chunk 256", product(dot(d.chunk(256)), K=700)),
    ("linear", "order chunk 512", product(dot(d.chunk(512)), K=700)),
    ("linear", "order pairwise halves", product(dot(d.halves))),
    ("linear", "order pairwise neighbours", product(dot(d.neighbours))),
    ("linear", "order pairwise folded", product(dot(d.folded))),
    ("linear", "order lanes 4 folded", product(dot(d.lanes(4, d.folded)))),
    ("linear", "order lanes 8 neighbours", product(dot(d.lanes(8, d.neighbours)))),
    ("linear", "order lanes 16 folded", product(dot(d.lanes(16, d.folded)))),
    ("linear", "order lanes 32 folded tail after", product(dot(d.lanes(32, d.folded, tail=True)))),
    ("linear", "accumulator f64", product(dot(d.float64))),
    ("linear", "accumulator f64, products not rounded", product(exact_float64)),
    ("linear", "accumulator bf16", product(dot(d.narrow(d.bf16)))),
    ("linear", "accumulator f16", product(dot(d.narrow(d.f16)))),
    ("linear", "operands bf16", product(operand=d.bf16)),
    ("linear", "operands tf32, ties away from zero", product(operand=d.tf32, outputs=80)),
    ("linear", "results bf16", product(result=lambda y: d.bf16(settle(y)))),
    ("linear", "unsettled", product(K=3, scale=2.0**-25, result=float, outputs=40)),
    ("linear", "transposed matrix", product(K=30, outputs=30, rewire=turned)),
    ("linear", "x from the row before (wrapped)", product(rewire=lambda x, w: (np.roll(x, 1, axis=0), w))),
    ("linear", "w from the row after (edge kept)", product(rewire=lambda x, w: (x, np.concatenate([w[1:], w[-1:]])))),
    ("linear", "fused multiply-add + order sequential", product(lambda x, w: d.fused_dot(x, w, 300))),
    ("linear", "operands bf16 + order chunk 64", product(dot(d.chunk(64)), operand=d.bf16)),
    ("linear", "order sequential + transposed matrix", product(dot(d.sequential), K=150, outputs=150, rewire=turned)),
    ("linear", "unsettled + subnormal results flushed", product(K=1, scale=2.0**-63, result=cut_small, outputs=40)),
    ("rms_norm", "eps 1e-06", norm(eps=1e-6)),
    ("rms_norm", "eps 1e-12", norm(eps=1e-12, told=1e-6, scale=3e-5)),
    ("rms_norm", "eps outside the root", norm(root=lambda m, e: div(1.0, add(d.sqrt(m), e)))),
    ("rms_norm", "rsqrt for 1/sqrt", norm(root=lambda m, e: d.rsqrt(add(m, e)))),
    ("rms_norm", "divided by the root", norm(root=lambda m, e: d.sqrt(add(m, e)), divided=True)),
    ("rms_norm", "order sequential", norm(dot(d.sequential))),
    ("rms_norm", f"{F64} | {F64}, products not rounded", norm(mean=mean64)),
    ("rms_norm", "fused multiply-add + rsqrt for 1/sqrt", norm(d.fused_dot, root=lambda m, e: d.rsqrt(add(m, e)))),
    ("layer_norm", "eps 1e-12", layer(eps=1e-12, scale=3e-5)),
    ("layer_norm", "rsqrt for 1/sqrt", layer(root=d.rsqrt)),
    ("layer_norm", "order chunk 64", layer(dot(d.chunk(64)))),
    ("rope", "fused multiply-add of the first products", rotation("first")),
    ("rope", "fused multiply-add of the second products", rotation("second")),
    ("rope", "interleaved pairs", rotation("interleaved")),
    ("rope", "opposite angle", rotation("opposite")),
    ("rope", "positions + 1", rotation("next")),
    ("scores", "head h reads kv head h mod kv_heads", scores(head=lambda h: h % 3)),
    ("scores", "swapped K and V", scores(swap=True)),
    ("scores", "fused multiply-add", scores(d.fused_dot)),
    ("exp_scores", "float64 exp", exponentials(d.exp64)),
    ("exp_scores", "fused multiply-add", exponentials(fused_exp)),
    ("denom", "order sequential", denominators(d.sequential)),
    ("denom", "order pairwise halves", denominators(d.halves)),
    ("mix", "accumulator f64", mixes(dot(d.float64))),
    ("mix", "head h reads kv head h mod kv_heads", mixes(head=lambda h: h % 3)),
    ("mix", "swapped K and V", mixes(how="swapped")),
    ("mix", "division before the sum", mixes(how="early")),
    ("mix", "product with the reciprocal for a division", mixes(how="times")),
    ("silu", "fused multiply-add", activation("silu", fused_exp)),
    ("sigmoid", "float64 exp | float64 exp, also below -34.5", activation("sigmoid", d.exp64)),
    ("swiglu", "fused multiply-add", activation("swiglu", fused_exp)),
    ("swiglu", "swapped gate and up", activation("swiglu", plain_exp, swapped=True)),
    ("add", "operands bf16", sums(d.bf16)),
    ("add", "unsettled", sums(result=float, tiny=True)),
    ("add", "results bf16", sums(result=d.bf16)),
    ("add", "y from the row before (wrapped)", sums(roll=1)),
]  # fmt: skip
