"""Cases of what delta layers do: decay, convolution and delta rule, over several steps and sequences."""

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from cases.case import Case, Results, committed, joined, loaded, pack
from cases.values import F32, about_floor, cancelling, near, scattered, sparse, uniform, unsettled
from gnomon.reference.protocol import Ops, Rows
from gnomon.reference.state import State
from oracle import attention, recurrent

Steps = list[list[int]]  # for each step the rows of each sequence; a sequence with none is not in the batch


def delta_decay_case(name: str, a: F32, A_log: F32, dt_bias: F32) -> Case:
    def run(ops: Ops[Any]) -> Results:
        negative_a, bias = pack(ops, A_log, "decay"), pack(ops, dt_bias, "vector")
        return {"g": ops.numpy(ops.delta_decay("", ops.array(a), negative_a, bias))}

    return Case(
        "delta_decay",
        name,
        run,
        lambda: {"g": [recurrent.delta_decay(row, loaded(A_log), loaded(dt_bias)) for row in a.tolist()]},
    )


def delta_decay_cases() -> list[Case]:
    A_log, bias = scattered("plain", "A_log", 6), scattered("plain", "bias", 6)
    floor = np.linspace(-36, -30, 48, dtype=np.float32).reshape(8, 6)  # softplus and negA reach the floor
    return [
        delta_decay_case("plain", scattered("plain", "a", 3, 6), A_log, bias),
        delta_decay_case("wide", scattered("wide", "a", 3, 6), A_log, scattered("wide", "bias", 6)),
        delta_decay_case("taken back", -bias[None], A_log, bias),
        delta_decay_case("tiny", floor, near(-34.6, 1.0), scattered("tiny", "bias", 6)),
        delta_decay_case("floor", *floor_decays()),
        delta_decay_case("unsettled bias", scattered("tiny", "a", 3, 6), A_log, unsettled(bias)),
    ]


def floor_decays() -> tuple[F32, F32, F32]:
    """Products of negA and softplus that are the floor itself, and the place below it: found by trying 2,000 A_log"""
    words = [0xC209E77C, 0xBE39A6B5], [0xC209E32F, 0xBE3DF3B6], [0xC209F54F, 0xBE2BD3C3], [0xC209D1FB, 0xBE4F27BB]
    a, A_log = np.array(words, np.uint32).view(np.float32).T
    return np.ascontiguousarray(a)[None], np.ascontiguousarray(A_log), np.zeros(len(a), np.float32)


def cut(steps: Steps) -> list[list[tuple[int, int]]]:
    """For each step the rows [start, stop) of each sequence, counted from its own start."""
    ends = [list(accumulate(lengths, initial=0)) for lengths in zip(*steps, strict=True)]
    return [list(spans) for spans in zip(*(pairwise(end) for end in ends), strict=True)]


def batches(ops: Ops[Any], states: list[State], steps: Steps) -> Any:
    """Rows and [(sequence, start, stop), ...] of every step."""
    for spans in cut(steps):
        present = [(i, *span) for i, span in enumerate(spans) if span[0] < span[1]]
        yield Rows.of([(states[i], [0] * (stop - start)) for i, start, stop in present]), present


def causal_conv_case(name: str, xs: list[F32], w: F32, steps: Steps, held: list[F32] | None = None) -> Case:
    """xs: the rows of each sequence; held: the conv state each starts from, or nothing: a fresh one"""
    taps = w.shape[1]

    def run(ops: Ops[Any]) -> Results:
        delta, handle = np.zeros((1, 1, 1), np.float32), pack(ops, w, "table")
        caches = [ops.new_cache(0) for _ in xs]
        if held is not None:
            caches = [ops.load_cache({"rec.conv": conv, "rec.delta": delta}) for conv in held]
        states = [State(ops, [cache]) for cache in caches]
        found: dict[str, list[F32]] = {f"y {i}": [] for i in range(len(xs))}
        for rows, present in batches(ops, states, steps):
            x = ops.array(np.concatenate([xs[i][start:stop] for i, start, stop in present]))
            (y,) = committed(ops, rows, ops.causal_conv("", x, handle, rows, 0))
            for (i, *_), span in zip(present, rows.spans, strict=True):
                found[f"y {i}"].append(y[span.start : span.stop])
        results: Results = {key: np.concatenate(parts) for key, parts in found.items()}
        if held is not None:
            results |= {f"state {i}": ops.export_cache(state, 0)["rec.conv"] for i, state in enumerate(states)}
        return results

    def judge() -> Results:
        results: Results = {}
        for i, x in enumerate(xs):
            start = np.zeros((taps - 1, len(w))) if held is None else held[i]
            results[f"y {i}"], state = recurrent.causal_conv(x.tolist(), loaded(w), start.tolist())
            if held is not None:
                results[f"state {i}"] = state
        return results

    return Case("causal_conv", name, run, judge)


def causal_conv_cases() -> list[Case]:
    w, held = scattered("plain", "w", 7, 4), [scattered("plain", f"held {i}", 3, 7) for i in range(3)]
    xs = [scattered("plain", f"x {i}", 6, 7) for i in range(3)]
    tiny = [cancelling(scattered("tiny", "x", 7, 6)).T.copy()]  # neighbouring rows cancel where taps are alike
    alike = scattered("plain", "w", 7, 1).repeat(4, axis=1)
    ragged = [[3, 0, 1], [0, 1, 1], [2, 5, 0], [1, 0, 4]]
    return [
        causal_conv_case("one step", xs[:1], w, [[6]]),
        causal_conv_case("fewer rows than taps", xs[:1], w, [[1], [1], [2], [2]]),
        causal_conv_case("fewer rows than taps, held", xs[:1], w, [[2], [1], [3]], held[:1]),
        causal_conv_case("two taps", xs[:1], scattered("plain", "w2", 7, 2), [[1], [5]], [held[0][:1]]),
        causal_conv_case("batch of three", xs, w, ragged),
        causal_conv_case("batch of three, held", xs, w, ragged, held),
        causal_conv_case("tiny", tiny, alike, [[2], [4]], [scattered("tiny", "held", 3, 7)]),
        causal_conv_case("tiny by tiny", tiny, scattered("tiny", "w", 7, 4), [[6]]),
        causal_conv_case("large", [scattered("large", "x", 3, 7)], scattered("large", "w", 7, 4), [[1], [2]]),
        causal_conv_case("zeros", [sparse(xs[0])], -np.abs(w), [[6]]),
        causal_conv_case("unsettled weights", [scattered("large", "x", 4, 7)], unsettled(w), [[4]]),
    ]


def delta_rule_case(
    name: str,
    sizes: tuple[int, int, int, int],
    steps: Steps,
    kind: str = "plain",
    fresh: bool = False,
    decay: float = 0.25,
) -> Case:
    """sizes: key heads, value heads, dk, dv; fresh: start from an empty state, else from a held one"""
    key_heads, value_heads, dk, _ = sizes
    lengths = [sum(column) for column in zip(*steps, strict=True)]
    sequences = [inputs(f"{name} {i}", kind, n, sizes, decay) for i, n in enumerate(lengths)]
    scale = attention.usual_scale(dk)

    def run(ops: Ops[Any]) -> Results:
        states = []
        for *_, S in sequences:
            conv, S = np.zeros((1, 1), np.float32), np.zeros_like(S) if fresh else S
            states.append(State(ops, [ops.load_cache({"rec.conv": conv, "rec.delta": S})]))
        found: dict[str, list[Any]] = {f"o {i}": [] for i in range(len(sequences))}
        for rows, present in batches(ops, states, steps):
            q, k, v, g, beta = (
                ops.array(
                    np.concatenate(
                        [sequences[i][side][start:stop].reshape(stop - start, -1) for i, start, stop in present]
                    )
                )
                for side in range(5)
            )
            q, k = ops.l2_norm("", q, key_heads, scale), ops.l2_norm("", k, key_heads)
            (o,) = committed(ops, rows, ops.delta_rule("", q, k, v, g, beta, rows, 0, key_heads, value_heads))
            for (i, *_), span in zip(present, rows.spans, strict=True):
                found[f"o {i}"].append(o[span.start : span.stop])
        results: Results = {key: np.concatenate(parts) for key, parts in found.items()}
        return results | {f"state {i}": ops.export_cache(state, 0)["rec.delta"] for i, state in enumerate(states)}

    def judge() -> Results:
        results: Results = {}
        for i, (*rows, S) in enumerate(sequences):
            start = np.zeros_like(S) if fresh else S
            q, k, v, g, beta = (x.tolist() for x in rows)
            o, state = recurrent.delta_rule(q, k, v, g, beta, start.tolist())
            results |= {f"o {i}": [joined(row) for row in o], f"state {i}": state}
        return results

    return Case("delta_rule", name, run, judge)


def inputs(name: str, kind: str, rows: int, sizes: tuple[int, int, int, int], decay: float) -> tuple[F32, ...]:
    """q, k [rows, key heads, dk], v [rows, value heads, dv], g, beta [rows, value heads], S [value heads, dk, dv]"""
    key_heads, value_heads, dk, dv = sizes
    if kind == "floor":
        return floor_inputs(name, rows, sizes)
    q, k = (scattered("plain", f"{side} {name}", rows, key_heads, dk) for side in "qk")
    v, state = (
        cancelling(scattered(kind, f"v {name}", rows, value_heads, dv)),
        scattered(kind, f"S {name}", value_heads, dk, dv),
    )
    if kind == "tiny":  # a decayed state falls below the floor, and what is written lies about it
        v, state = (np.where(np.abs(x) < 2.0**-45, np.float32(0), x / np.float32(32)) for x in (v, state))
    written = np.abs(scattered("plain", f"beta {name}", rows, value_heads))
    beta = (1 - written / 16).astype(np.float32)  # 1/2 to 1
    g: F32 = -np.abs(scattered("plain", f"g {name}", rows, value_heads)) * np.float32(decay)  # at most 8 times as much
    return q, k, v, g, beta, state


def floor_inputs(name: str, rows: int, sizes: tuple[int, int, int, int]) -> tuple[F32, ...]:
    """As above: lengths, decays and betas are powers of two, exactly, so that every step can end at the floor"""
    key_heads, value_heads, dk, dv = sizes
    along = np.zeros((rows, key_heads, dk), np.float32)
    along[..., 0] = 16.0  # 256 + 1e-6 is 256: the unit vector is exact
    even = np.full((rows, key_heads, dk), 16 / np.sqrt(dk), np.float32)
    one = uniform(f"axis {name}", rows, key_heads, 1) < 0.5
    q, k = np.where(uniform(f"q {name}", rows, key_heads, 1) < 0.5, along, even), np.where(one, along, even)
    halving = np.float32(-0.6931472)
    g = np.where(uniform(f"g {name}", rows, value_heads) < 0.5, np.float32(0), halving)
    beta = np.where(uniform(f"beta {name}", rows, value_heads) < 0.5, np.float32(1), np.float32(0.5))
    v, state = about_floor(f"v {name}", rows, value_heads, dv), about_floor(f"S {name}", value_heads, dk, dv)
    return q, k, v, g, beta, state


def delta_rule_cases() -> list[Case]:
    grouped = (2, 4, 9, 5)
    return [
        delta_rule_case("one step", grouped, [[4]]),
        delta_rule_case("from nothing", grouped, [[4]], fresh=True),
        delta_rule_case("several steps", grouped, [[1], [3], [1], [2]]),
        delta_rule_case("batch of three", grouped, [[2, 0, 1], [0, 3, 1], [1, 1, 0]]),
        delta_rule_case("group 1", (3, 3, 6, 9), [[2], [2]]),
        delta_rule_case("group 3", (1, 3, 6, 9), [[3]]),
        delta_rule_case("dk 128", (1, 2, 128, 3), [[1], [1]]),
        delta_rule_case("dk 130", (1, 2, 130, 3), [[1], [2]]),
        delta_rule_case("dv 130", (1, 2, 3, 130), [[2]]),
        delta_rule_case("forgets all", grouped, [[3]], decay=40.0),  # down to exp_neg(-320)
        delta_rule_case("large", grouped, [[2]], kind="large"),
        delta_rule_case("tiny", grouped, [[3], [2]], kind="tiny"),
        delta_rule_case("floor", (4, 8, 4, 40), [[1, 2], [3, 1]], kind="floor"),
        delta_rule_case("tiny, forgets much", grouped, [[3], [2]], kind="tiny", decay=2.0),
    ]


def recurrent_cases() -> list[Case]:
    return [*delta_decay_cases(), *causal_conv_cases(), *delta_rule_cases()]
