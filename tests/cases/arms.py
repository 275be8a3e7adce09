"""Cases of the bf16 and int8 arms of linear, and of keys and values as they are stored."""

from typing import Any

import numpy as np

from cases.case import Case, Results, in_forms, joined, loaded, pack
from cases.values import F32, cancelling, near, paired, scattered, sparse, unsettled
from gnomon.reference.protocol import Ops, Rows
from gnomon.reference.state import State
from oracle import arms, f32

ROUNDED = ("bf16", "int8")
# Halfway between two bf16 numbers, of which the lower or the upper one is even, and the neighbours of both.
BF16_TIES = near(1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8), -(1 + 3 * 2.0**-8), 2.0**-50 * (1 + 2.0**-8), 255.5)
# The largest is 127 * 2^n, so the scale is 2^n: halves between two integers, and the neighbours of some.
INT8_TIES = np.concatenate([[127.0, 0.5, 1.5, -2.5, -0.5, 126.5, -125.5, -126.5], near(0.5, 1.5, -2.5, 63.5)])
INT8_TIES = INT8_TIES.astype(np.float32)
# The scale is no power of two: products of scale and half are near ties, and a reciprocal decides some otherwise.
NEAR_TIES = np.concatenate(
    [[100.0], near(*((n + 0.5) * float(np.float32(100.0) / np.float32(127.0)) for n in range(99)))]
)
NEAR_TIES = NEAR_TIES.astype(np.float32)
SMALLEST = 127.0 * 2.0**-50  # of a row's largest: below it the scale is 1 and every integer 0


def linear_case(arm: str, name: str, x: F32, w: F32, b: F32 | None = None) -> Case:
    def run(ops: Ops[Any]) -> Results:
        ops = in_forms(ops, arm=arm)
        bias = None if b is None else pack(ops, b, "vector")
        return {"y": ops.numpy(ops.linear("", ops.array(x), pack(ops, w, "linear"), bias))}

    return Case(
        f"linear_{arm}",
        name,
        run,
        lambda: {"y": arms.linear(x.tolist(), loaded(w), None if b is None else loaded(b), arm)},
    )


def linear_cases(arm: str) -> list[Case]:
    def case(name: str, x: F32, w: F32, b: F32 | None = None) -> Case:
        return linear_case(arm, name, x, w, b)

    cases = []
    for K in (1, 127, 128, 129, 300):
        for R, N in ((1, 37), (4, 11)):
            x, w = scattered("plain", f"x{K}", R, K), scattered("plain", f"w{K}", N, K)
            cases.append(case(f"K{K} N{N} rows{R}", x, w))
    w, b = scattered("plain", "w", 9, 300), scattered("plain", "b", 9)
    one, ties = np.eye(len(INT8_TIES), dtype=np.float32), np.stack([INT8_TIES, INT8_TIES * np.float32(2.0**-20)])
    extreme = np.full((2, 2100), 127.0, np.float32)  # 2100 * 127^2 is beyond 2^24: the dot itself is rounded
    extreme[1, ::2] = -127.0
    extreme[:, 7] = 1.0  # an odd sum
    low = paired(w[:, :9]) / np.float32(64)  # products below the floor, which a bias may join
    small = near(SMALLEST)[:, None] * np.ones((1, 5), np.float32)
    return [
        *cases,
        case("bias", scattered("plain", "x", 3, 300), w, b),
        case("ties of bf16", np.stack([BF16_TIES, BF16_TIES[::-1]]), np.eye(len(BF16_TIES), dtype=np.float32)),
        case("ties of bf16 in the weights", np.eye(len(BF16_TIES), dtype=np.float32), BF16_TIES[None]),
        case("ties of int8", ties, one),
        case("ties of int8 in the weights", one, ties),
        case("nearly ties of int8", NEAR_TIES[None], np.eye(len(NEAR_TIES), dtype=np.float32)[::7]),
        case("rows of zeros", np.stack([np.zeros(300), scattered("plain", "x", 300)]).astype(np.float32), w),
        case("weights of zeros", scattered("plain", "x", 2, 300), np.stack([w[0] * 0, -w[1]])),
        case("zeros", sparse(scattered("plain", "x", 2, 300)), -np.abs(w)),
        case("extremes", extreme, np.stack([extreme[0], extreme[1], extreme[0][::-1]])),
        case("tiny", cancelling(scattered("tiny", "x", 3, 300)), paired(scattered("plain", "w", 9, 300))),
        case("tiny by wide", scattered("tiny", "x", 3, 300), scattered("wide", "w", 9, 300)),
        case("tiny by tiny", scattered("tiny", "x", 3, 300), scattered("tiny", "w", 9, 300)),
        case("tiny bias", cancelling(scattered("tiny", "x", 3, 9)), low, cancelling(scattered("tiny", "b", 9))),
        case("tiny rows", small, np.concatenate([small, scattered("plain", "w", 4, 5)])),
        case("large", scattered("large", "x", 2, 300), scattered("large", "w", 9, 300)),
        case("wide", scattered("wide", "x", 2, 300), scattered("wide", "w", 9, 300)),
        case(
            "unsettled weights",
            scattered("large", "x", 2, 300),
            unsettled(scattered("tiny", "w", 9, 300)),
            unsettled(b),
        ),
    ]


def stored_case(kv: str, name: str, x: F32, kv_heads: int, steps: list[int]) -> Case:
    """Keys x and values -2 x, appended in several steps: what the appending row reads, and what the state holds"""
    sides = {"k": x, "v": x * np.float32(-2.0)}

    def run(ops: Ops[Any]) -> Results:
        ops = in_forms(ops, kv=kv)
        state, results, start = State(ops, [ops.new_cache(0)]), {}, 0
        for step, n in enumerate(steps):
            rows = Rows.of([(state, [0] * n)])
            k, v = (ops.array(side[start : start + n]) for side in sides.values())
            ops.kv_append("", k, v, rows, 0, kv_heads)
            for key, read in zip("kv", ops.appended(rows, 0), strict=True):
                results[f"{key} of step {step}"] = ops.numpy(read)
            ops.finish(rows, [])
            state.commit([0] * n)
            start += n
        return results | ops.export_cache(state, 0)

    def judge() -> Results:
        results: Results = {}
        for key, side in sides.items():
            heads = side.reshape(len(side), kv_heads, -1).tolist()
            read = [joined([arms.stored(head, kv) for head in row]) for row in heads]
            for step, (start, n) in enumerate(zip(np.cumsum([0, *steps[:-1]]).tolist(), steps, strict=True)):
                results[f"{key} of step {step}"] = read[start : start + n]
            results |= {f"kv.{name}": array for name, array in kept(key, heads, kv).items()}
        return results

    return Case(f"kv_{kv}", name, run, judge)


def kept(name: str, heads: list[list[list[float]]], kv: str) -> Results:
    """[positions, kv heads, d] as the state holds it, in its stored type"""
    if kv == "bf16":
        return {name: np.array([[[f32.bits(arms.bf16(a)) >> 16 for a in h] for h in row] for row in heads], np.uint16)}
    if kv == "int8":
        pairs = [[arms.quant(h) for h in row] for row in heads]
        scales = np.array([[s for _, s in row] for row in pairs], np.float32)
        return {name: np.array([[q for q, _ in row] for row in pairs], np.int8), f"{name}_scale": scales}
    return {name: heads}


def stored_cases(kv: str) -> list[Case]:
    ties = np.stack([INT8_TIES, INT8_TIES[::-1], INT8_TIES * np.float32(0.25)])
    rounded = np.stack([BF16_TIES[:12], BF16_TIES[-12:]])
    small = (near(SMALLEST)[:, None] * np.array([1, -1, 0.5, 0.25], np.float32)).astype(np.float32)
    return [
        stored_case(kv, "one step", scattered("plain", "kv", 5, 20), 2, [5]),
        stored_case(kv, "several steps", scattered("plain", "kv", 40, 20), 2, [3, 1, 33, 2, 1]),
        stored_case(kv, "wide", scattered("wide", "kv", 5, 27), 3, [2, 3]),
        stored_case(kv, "tiny", scattered("tiny", "kv", 5, 20), 2, [5]),
        stored_case(kv, "tiny heads", small, 1, [1, 2]),
        stored_case(kv, "large", scattered("large", "kv", 2, 20), 1, [2]),
        stored_case(kv, "ties of int8", ties, 1, [3]),
        stored_case(kv, "nearly ties of int8", NEAR_TIES[None], 1, [1]),
        stored_case(kv, "ties of bf16", rounded, 2, [1, 1]),
        stored_case(kv, "zeros", sparse(scattered("plain", "kv", 3, 20)), 2, [3]),
        stored_case(kv, "heads of zeros", np.zeros((3, 6), np.float32), 2, [1, 2]),
    ]


def arm_cases() -> list[Case]:
    return [case for form in ROUNDED for case in (*linear_cases(form), *stored_cases(form))]
