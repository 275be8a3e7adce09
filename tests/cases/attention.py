"""The attention cases: ragged batches of sequences that already hold some positions."""

from typing import Any

import numpy as np

from cases.arms import ROUNDED, kept
from cases.case import Case, Results, in_forms, joined
from cases.values import F32, about_floor, cancelling, paired, scattered, sparse
from gnomon.reference.protocol import Ops, Rows
from gnomon.reference.state import State
from oracle import arms
from oracle import attention as oracle


def attention_case(
    name: str,
    spans: list[tuple[int, int]],
    heads: int,
    kv_heads: int,
    d: int,
    window: int | None = None,
    kind: str = "plain",
    scale: float | None = None,
    kv: str = "f32",
) -> Case:
    """spans: for each sequence the positions it holds and the rows that join it; kv: how keys and values are stored"""
    scale = oracle.usual_scale(d) if scale is None else scale
    sequences = [inputs(kind, f"{name} {i}", held, new, heads, kv_heads, d) for i, (held, new) in enumerate(spans)]

    def start(ops: Ops[Any]) -> Rows:
        """States that hold the earlier positions, and the rows of the step."""
        batch = []
        for (held, new), (_, k, v) in zip(spans, sequences, strict=True):
            state = State(ops, [ops.new_cache(0)])
            if held:
                rows = Rows.of([(state, [0] * held)])
                ops.kv_append("", ops.array(flat(k[:held])), ops.array(flat(v[:held])), rows, 0, kv_heads)
                ops.finish(rows, [])
                state.commit([0] * held)
            batch.append((state, [0] * new))
        return Rows.of(batch)

    def run(ops: Ops[Any]) -> Results:
        ops = in_forms(ops, kv=kv)
        q = ops.array(np.concatenate([flat(q) for q, _, _ in sequences]))
        k, v = (
            ops.array(np.concatenate([flat(s[side][held:]) for (held, _), s in zip(spans, sequences, strict=True)]))
            for side in (1, 2)
        )
        rows = start(ops)
        ops.kv_append("", k, v, rows, 0, kv_heads)
        s = ops.scores("", q, rows, 0, scale, window)
        e = ops.exp_scores("", s, rows, window)
        denom = ops.denom("", e)
        results = {"z": ops.numpy(ops.mix("", e, denom, rows, 0))}
        results["appended k"], results["appended v"] = map(ops.numpy, ops.appended(rows, 0))
        for i, steps in enumerate(zip(s, e, denom, strict=True)):
            results.update({f"{step} {i}": ops.numpy(x) for step, x in zip(STEPS, steps, strict=True)})
        rows = start(ops)
        whole = ops.attention("", q, k, v, rows, 0, kv_heads, scale, window)
        ops.finish(rows, [whole])
        results["whole"] = ops.numpy(whole)
        for i, span in enumerate(rows.spans):
            span.state.commit([0] * (span.stop - span.start))
            results.update({f"{key} {i}": x for key, x in ops.export_cache(span.state, 0).items()})
        return results

    def judge() -> Results:
        results: Results = {"z": [], "appended k": [], "appended v": []}
        for i, ((held, new), (q, k, v)) in enumerate(zip(spans, sequences, strict=True)):
            pos = list(range(held, held + new))
            keys, values = ([[arms.stored(head, kv) for head in row] for row in x.tolist()] for x in (k, v))
            found = oracle.attention(q.tolist(), keys, values, pos, scale, window)
            results["z"] += [joined(row) for row in found.z]
            results["appended k"] += [joined(row) for row in keys[held:]]
            results["appended v"] += [joined(row) for row in values[held:]]
            results |= {f"scores {i}": found.scores, f"exp {i}": found.exp, f"denom {i}": found.denom}
            state = kept("k", k.tolist(), kv) | kept("v", v.tolist(), kv)
            results |= {f"kv.{name} {i}": array for name, array in state.items()}
        results["whole"] = results["z"]
        return results

    return Case("attention", name, run, judge)


STEPS = ("scores", "exp", "denom")


def flat(x: F32) -> F32:
    """[rows, heads, d] -> [rows, heads * d]"""
    return x.reshape(len(x), -1)


def inputs(kind: str, name: str, held: int, new: int, heads: int, kv_heads: int, d: int) -> tuple[F32, F32, F32]:
    """q of the new rows, k and v of every position."""
    if kind == "tiny":  # keys in pairs have equal scores, so their values cancel
        q = sparse(scattered("tiny", f"q {name}", new, heads, d))
        k = paired(scattered("wide", f"k {name}", kv_heads, d, held + new)).transpose(2, 0, 1)
        v = cancelling(scattered("tiny", f"v {name}", kv_heads, d, held + new)).transpose(2, 0, 1)
        return q, np.ascontiguousarray(k), np.ascontiguousarray(v)
    if kind == "ones":  # scores 2^-23 and 0: the denominator is 2 - 2^-23, which no approximate reciprocal inverts
        q, k = np.zeros((new, heads, d), np.float32), np.zeros((held + new, kv_heads, d), np.float32)
        q[..., 0], k[0, :, 0] = 1.0, 2.0**-23
        v = np.zeros_like(k)
        v[0] = 2.0 ** np.arange(d) * (-1.0) ** np.arange(d)  # a dot of one term, a power of two
        return q, k, v
    if kind == "floor":  # of few bits, so that scores are equal or fall to the floor
        q = about_floor(f"q {name}", new, heads, d) * np.float32(2.0**25)
        k = about_floor(f"k {name}", held + new, kv_heads, d) * np.float32(2.0**24)
        k[..., 1:], v = 0.0, about_floor(f"v {name}", held + new, kv_heads, d)
        return q, k, v
    q = scattered(kind, f"q {name}", new, heads, d)
    k, v = (scattered(kind, f"{side} {name}", held + new, kv_heads, d) for side in "kv")
    return q, k, v


def attention_cases() -> list[Case]:
    return [
        attention_case("first row", [(0, 1)], 2, 1, 10),
        attention_case("prefill", [(0, 7)], 4, 2, 10),
        attention_case("prefill over 128", [(0, 131)], 2, 1, 10),
        attention_case("decode over 128", [(130, 1)], 4, 2, 10),
        attention_case("over 256, group 3", [(254, 4)], 6, 2, 10),
        attention_case("group 1, d 64", [(130, 2)], 3, 3, 64),
        attention_case("group 2, d 96", [(5, 2)], 4, 2, 96),
        attention_case("group 2, d 256", [(128, 2)], 2, 1, 256),
        attention_case("window 1", [(129, 2)], 2, 2, 10, window=1),
        attention_case("window 5", [(0, 9)], 4, 2, 10, window=5),
        attention_case("window 5 over 128", [(126, 4)], 4, 2, 10, window=5),
        attention_case("window 100 over 256", [(270, 3)], 3, 1, 10, window=100),
        attention_case("window 100 from the start", [(0, 131)], 2, 1, 10, window=100),
        attention_case("batch of three", [(3, 2), (0, 4), (140, 1)], 4, 2, 10),
        attention_case("batch of three, window 5", [(3, 2), (0, 8), (140, 1)], 4, 2, 10, window=5),
        attention_case("scale of the config", [(3, 2)], 4, 2, 10, scale=0.25),
        attention_case("tiny", [(130, 3)], 4, 2, 10, kind="tiny"),
        attention_case("tiny, window 5", [(130, 3)], 4, 2, 10, window=5, kind="tiny"),
        attention_case("wide", [(130, 3)], 4, 2, 10, kind="wide"),
        attention_case("large", [(130, 2)], 4, 2, 10, kind="large"),
        attention_case("denominator of all ones", [(1, 1)], 2, 1, 10, kind="ones", scale=1.0),
        attention_case("denominators of all ones in a batch", [(1, 1), (0, 2)], 4, 2, 10, kind="ones", scale=1.0),
        *(attention_case(f"floor, scale {s}", [(0, 3), (1, 1)], 8, 4, 20, kind="floor", scale=s) for s in (0.25, 1, 4)),
        *(case for kv in ROUNDED for case in stored_attention_cases(kv)),
    ]


def stored_attention_cases(kv: str) -> list[Case]:
    """Every row reads what is stored, its own key and value included."""
    return [
        attention_case(f"first row, {kv}", [(0, 1)], 2, 1, 10, kv=kv),
        attention_case(f"prefill, {kv}", [(0, 7)], 4, 2, 10, kv=kv),
        attention_case(f"decode over 128, {kv}", [(130, 1)], 4, 2, 10, kv=kv),
        attention_case(f"window 5 over 128, {kv}", [(126, 4)], 4, 2, 10, window=5, kv=kv),
        attention_case(f"batch of three, {kv}", [(3, 2), (0, 4), (140, 1)], 4, 2, 10, kv=kv),
        attention_case(f"tiny, {kv}", [(130, 3)], 4, 2, 10, kind="tiny", kv=kv),
        attention_case(f"wide, {kv}", [(30, 3)], 4, 2, 10, kind="wide", kv=kv),
    ]
