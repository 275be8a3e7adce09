"""Kernels on states, as CUDA, HIP and Metal get them, run by the stand-in: stored keys and values in every storage,
attention on and off the tile of 4 queries and the chunk of 128 positions, convolution and delta rule."""

import numpy as np
import pytest

from gnomon.gpu.host_state import FORMAT, HostKV
from gnomon.reference.kv import KV
from gnomon.reference.ops import attention as attend
from gnomon.reference.ops.causal_conv import causal_conv
from gnomon.reference.ops.delta_rule import delta_rule
from gnomon.reference.ops.settle import settle
from kernels_on import (
    F32,
    TARGETS,
    On,
    Span,
    append,
    assert_same,
    attention,
    batches,
    cache_arguments,
    numbers,
    on,
    row_arguments,
)

SCALE = 0.3
# heads, kv heads, entries of a head, window, (rows, length) per sequence
SHAPES = {
    "one position": (1, 1, 8, 0, [(1, 0)]),
    "a group of 3, a chunk and a bit": (3, 1, 64, 0, [(1, 128)]),
    "a group of 5, off every tile": (10, 2, 70, 0, [(3, 250)]),
    "a window within a chunk": (2, 2, 32, 5, [(4, 126)]),
    "a window over chunks": (4, 2, 130, 140, [(2, 300)]),
    "sequences of all lengths": (4, 2, 32, 0, [(2, 0), (1, 260), (5, 62)]),
}


@pytest.fixture(params=TARGETS, scope="module")
def run(request: pytest.FixtureRequest) -> On:
    return on(request.param)


def spans_of(sizes: list[tuple[int, int]]) -> list[Span]:
    starts = np.cumsum([0, *(rows for rows, _ in sizes)])
    return [Span(int(start), int(start) + rows, length) for start, (rows, length) in zip(starts, sizes, strict=False)]


def filled(run: On, storage: str, kv_heads: int, d: int, span: Span, seed: int) -> tuple[HostKV, KV]:
    """The positions before the step as the kernels lay them out, in memory that was NaN, and as the reference does"""
    k, v = (numbers(span.length, kv_heads * d, seed=seed + i) for i in (0, 1))
    cache = HostKV(storage, kv_heads, d, span.end, np.nan)
    if span.length:
        append(run, storage, k, v, [cache], [Span(0, span.length, 0)])
    one = [x.reshape(span.length, kv_heads, d) for x in (k, v)]
    return cache, KV.append(None, 0, *one, storage, 0.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("storage", FORMAT)
def test_attention_changes_no_bit(run: On, storage: str, shape: str) -> None:
    heads, kv_heads, d, window, sizes = SHAPES[shape]
    spans = spans_of(sizes)
    rows = spans[-1].stop
    q = numbers(rows, heads * d, seed=1)
    k, v = numbers(rows, kv_heads * d, seed=2), numbers(rows, kv_heads * d, seed=3)
    caches = [filled(run, storage, kv_heads, d, span, 10 * i) for i, span in enumerate(spans)]
    append(run, storage, k, v, [mine for mine, _ in caches], spans)
    made = attention(run, storage, q, [mine for mine, _ in caches], spans, SCALE, window)
    for span, (mine, kept) in zip(spans, caches, strict=True):
        at = slice(span.start, span.stop)
        one = [x[at].reshape(span.stop - span.start, kv_heads, d) for x in (k, v)]
        kept = KV.append(kept, span.length, *one, storage, 0.0)
        for name, stored in kept.rows(0, span.end).items():
            assert mine.arrays(0, span.end)[name].tobytes() == stored.tobytes(), name
        see = attend.seen(np.arange(span.length, span.end), span.end, window or None)
        queries = q[at].reshape(-1, heads, d)
        s = attend.scores(queries, kept.read("k", 0, span.end), see, np.float32(SCALE))
        e = attend.exp_scores(s, see)
        denom = attend.denom(e)
        o = attend.mix(e, denom, kept.read("v", 0, span.end))
        assert_same(made[at], o.reshape(len(o), -1))
        taps(run, storage, mine, span, q, window, (s, e, denom, o))


def taps(run: On, storage: str, cache: HostKV, span: Span, q: F32, window: int, expected: tuple[F32, ...]) -> None:
    """The steps by themselves, as taps see them"""
    s, e, denom, o = expected
    rows, heads, T = s.shape
    sizes = {
        "heads": heads, "kv_heads": cache.kv_heads, "d": cache.d, "window": window, "chunks": -(-T // 128),
        "scale": SCALE, "tiles": 0,
    }  # fmt: skip
    per_span = cache_arguments([cache]) | row_arguments([span])
    assert_same(run.spans(f"tap_scores_{storage}", {"q": q}, per_span, {"out": s.shape}, **sizes)["out"], s)
    at = {"rows": rows, "heads": heads, "length": span.length, "window": window, "T": T}
    assert_same(run("tap_exp", {"s": s}, {"e": e.shape}, **at)["e"], e)
    per_span = cache_arguments([cache])
    made = run.spans(
        f"tap_mix_{storage}", {"e": e, "denom": denom}, per_span, {"out": (rows, heads * cache.d)}, rows=rows,
        heads=heads, kv_heads=cache.kv_heads, d=cache.d, T=T,
    )  # fmt: skip
    assert_same(made["out"], o.reshape(rows, -1))


@pytest.mark.parametrize(("channels", "taps_"), [(1, 4), (70, 2), (513, 4)])
def test_causal_conv_changes_no_bit(run: On, channels: int, taps_: int) -> None:
    spans = spans_of([(1, 0), (6, 0)])
    x, w = numbers(7, channels), numbers(channels, taps_, seed=1)
    olds = [numbers(taps_ - 1, channels, seed=2 + i) for i in range(2)]
    for batch in batches(run.target, spans):
        fresh = [np.full((taps_ - 1, channels), np.nan, np.float32) for _ in batch]
        padded = [np.ascontiguousarray(olds[i]) for i in batch]
        starts, stops = [spans[i].start for i in batch], [spans[i].stop for i in batch]
        per_span = {"old": padded, "fresh": fresh, "start": starts, "stop": stops}
        inputs = {"x": x, "w": np.ascontiguousarray(w.T)}
        made = run.spans("causal_conv", inputs, per_span, {"out": x.shape}, C=channels, taps=taps_)
        for i, state in zip(batch, fresh, strict=True):
            at = slice(spans[i].start, spans[i].stop)
            y, conv = causal_conv(x[at], w, olds[i])
            assert_same(made["out"][at], y)
            assert_same(state, conv)


@pytest.mark.parametrize(("key_heads", "value_heads", "dk", "dv"), [(1, 1, 8, 8), (2, 4, 130, 70)])
def test_delta_rule_changes_no_bit(run: On, key_heads: int, value_heads: int, dk: int, dv: int) -> None:
    spans = spans_of([(3, 0), (1, 0)])
    q, k = numbers(4, key_heads * dk), numbers(4, key_heads * dk, seed=1)
    v, g = numbers(4, value_heads * dv, seed=2), -np.abs(numbers(4, value_heads, seed=3))
    beta = settle(np.abs(numbers(4, value_heads, seed=4)) / np.float32(16))
    olds = [numbers(value_heads, dk, dv, seed=5 + i) for i in range(2)]
    group = value_heads // key_heads
    for batch in batches(run.target, spans):
        fresh = [np.full((value_heads, dk, dv), np.nan, np.float32) for _ in batch]
        starts, stops = [spans[i].start for i in batch], [spans[i].stop for i in batch]
        per_span = {"old": [olds[i] for i in batch], "fresh": fresh, "start": starts, "stop": stops}
        inputs, sizes = {"q": q, "k": k, "v": v, "g": g, "beta": beta}, {"dk": dk, "dv": dv}
        heads = {"key_heads": key_heads, "value_heads": value_heads}
        made = run.spans("delta_rule", inputs, per_span, {"out": v.shape}, **heads, **sizes)
        for i, state in zip(batch, fresh, strict=True):
            at = slice(spans[i].start, spans[i].stop)
            keys = (np.repeat(a[at].reshape(-1, key_heads, dk), group, axis=1) for a in (q, k))
            o, delta = delta_rule(*keys, v[at].reshape(-1, value_heads, dv), g[at], beta[at], olds[i])
            assert_same(made["out"][at], o.reshape(len(o), -1))
            assert_same(state, delta)
