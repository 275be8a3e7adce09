"""Cases of the ops on rows: linear, rope, embedding, and those that only move values."""

from typing import Any

import numpy as np

from cases.case import Case, Results, joined, loaded, pack, rows_at
from cases.values import F32, cancelling, paired, scattered, sparse, unsettled
from gnomon.reference.config import RopeScaling
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Ops, Rows
from gnomon.reference.state import State
from oracle import arms, rowwise
from oracle import rope as rope_oracle


def linear_case(name: str, x: F32, w: F32, b: F32 | None = None) -> Case:
    def run(ops: Ops[Any]) -> Results:
        bias = None if b is None else pack(ops, b, "vector")
        return {"y": ops.numpy(ops.linear("", ops.array(x), pack(ops, w, "linear"), bias))}

    return Case(
        "linear",
        name,
        run,
        lambda: {"y": arms.linear(x.tolist(), loaded(w), None if b is None else loaded(b))},
    )


def linear_cases() -> list[Case]:
    cases = []
    for K in (1, 127, 128, 129, 300):
        for R, N in ((1, 97), (2, 33), (5, 17)):
            x, w = scattered("plain", f"x{K}", R, K), scattered("plain", f"w{K}", N, K)
            cases.append(linear_case(f"K{K} N{N} rows{R}", x, w))
    for K in (5, 300):
        N = 19
        w, b = scattered("plain", f"w{K}", N, K), scattered("plain", "b", N)
        wide = paired(scattered("wide", f"w{K}", N, K))
        tiny, large = cancelling(scattered("tiny", "x", 2, K)), scattered("large", "x", 2, K)
        cases += [
            linear_case(f"bias K{K}", scattered("plain", "x", 2, K), w, b),
            linear_case(f"tiny K{K}", tiny, wide),
            linear_case(f"tiny by tiny K{K}", tiny, paired(scattered("tiny", f"w{K}", N, K))),
            linear_case(f"tiny bias K{K}", tiny, wide, cancelling(scattered("tiny", "b", N))),
            linear_case(f"large K{K}", large, scattered("large", f"w{K}", N, K)),
            linear_case(f"large cancelling K{K}", cancelling(large), paired(scattered("large", f"w{K}", N, K))),
            linear_case(f"wide K{K}", scattered("wide", "x", 2, K), scattered("wide", f"w{K}", N, K)),
            linear_case(f"zeros K{K}", sparse(scattered("plain", "x", 2, K)), -np.abs(w)),
            linear_case(f"unsettled weights K{K}", large, unsettled(scattered("tiny", "w", N, K)), unsettled(b)),
        ]
    cases.append(linear_case("all zero", np.zeros((2, 9), np.float32), -np.abs(scattered("plain", "w", 3, 9))))
    cases.append(linear_case("many tiles", scattered("plain", "x", 65, 3), scattered("plain", "w", 1025, 3)))
    return cases


def rope_case(name: str, pos: list[int], heads: int, d: int, dim: int, theta: float, kind: str = "plain") -> Case:
    x = scattered(kind, f"rope {d}", len(pos), heads * d)
    return rotation_case(name, cancelling(x) if kind == "tiny" else x, pos, heads, dim, theta)


def rotation_case(name: str, x: F32, pos: list[int], heads: int, dim: int, theta: float) -> Case:
    """x [rows, heads * d], a row at each position"""
    tables, d = RopeTables(theta, dim), x.shape[1] // heads

    def judge() -> Results:
        cos, sin = rope_oracle.tables(pos, rope_oracle.inverse_frequencies(theta, dim))
        rows = zip(x.reshape(len(pos), heads, d).tolist(), cos, sin, strict=True)
        return {"y": [joined([rope_oracle.rope(head, c, s) for head in row]) for row, c, s in rows]}

    return Case(
        "rope",
        name,
        lambda ops: {"y": ops.numpy(ops.rope("", ops.array(x), rows_at(*pos), heads, tables))},
        judge,
    )


def rope_cases() -> list[Case]:
    start, far = list(range(5)), [100, 4095, 65535, 65536, 1_000_003, (1 << 24) - 1]
    return [
        rope_case("start", start, 3, 10, 10, 10000.0),
        rope_case("part of a head", start, 2, 12, 6, 10000.0),
        rope_case("d64", [0, 1, 257], 2, 64, 64, 500000.0),
        rope_case("d96", [7], 1, 96, 96, 1e6),
        rope_case("far", far, 1, 64, 64, 10000.0),
        rope_case("far, large theta", far, 2, 10, 10, 1e6),
        rope_case("not ascending", [9, 2, 9, 0], 1, 10, 10, 10000.0),
        rope_case("tiny", [*start, 1000], 2, 10, 10, 10000.0, "tiny"),
        rope_case("large", start, 2, 10, 10, 10000.0, "large"),
        *(scaled_rope_case(kind, theta, 40) for kind in SCALINGS for theta in (10000.0, 500000.0)),
    ]


SCALINGS = {
    "linear": (RopeScaling("linear", 3.0), {"rope_type": "linear", "factor": 3.0}),
    "llama3": (  # of 20 frequencies some stay, some are blended, some divided
        RopeScaling("llama3", 8.0, low=1.0, high=4.0, original_positions=512),
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
    ),
}


def scaled_rope_case(kind: str, theta: float, dim: int) -> Case:
    """Scaled frequencies, and a rotation by them."""
    scaling, described = SCALINGS[kind]
    pos, x, tables = [0, 1, 77, 4095], scattered("plain", "scaled", 4, 2 * dim), RopeTables(theta, dim, scaling)

    def judge() -> Results:
        inv_freq = rope_oracle.inverse_frequencies(theta, dim, described)
        rows = zip(x.reshape(len(pos), 2, dim).tolist(), *rope_oracle.tables(pos, inv_freq), strict=True)
        return {
            "inv_freq": inv_freq,
            "y": [joined([rope_oracle.rope(head, c, s) for head in row]) for row, c, s in rows],
        }

    def run(ops: Ops[Any]) -> Results:
        y = ops.numpy(ops.rope("", ops.array(x), rows_at(*pos), 2, tables))
        return {"inv_freq": tables.inv_freq, "y": y}

    return Case("rope", f"{kind} scaling, theta {theta:g}", run, judge)


def embed_case() -> Case:
    table, ids = unsettled(scattered("wide", "table", 11, 7)), [10, 0, 3, 3]
    rows = Rows(np.array(ids, np.int32), np.arange(4), ())
    return Case(
        "embed",
        "unsettled table",
        lambda ops: {"y": ops.numpy(ops.embed("", rows, pack(ops, table, "table")))},
        lambda: {"y": rowwise.embed(ids, loaded(table))},
    )


def embed_positions_case() -> Case:
    table, pos = unsettled(scattered("wide", "positions", 11, 7)), [10, 0, 3, 4]
    return Case(
        "embed_positions",
        "not ascending",
        lambda ops: {"y": ops.numpy(ops.embed_positions("", rows_at(*pos), pack(ops, table, "table")))},
        lambda: {"y": rowwise.embed(pos, loaded(table))},
    )


def split_case(name: str, sizes: list[int], heads: int) -> Case:
    x = scattered("wide", "split", 3, heads * sum(sizes))

    def run(ops: Ops[Any]) -> Results:
        parts = ops.split([""] * len(sizes), ops.array(x), sizes, heads)
        return {f"part {i}": ops.numpy(part) for i, part in enumerate(parts)}

    def judge() -> Results:
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        of_heads = [[row[at : at + sum(sizes)] for at in range(0, len(row), sum(sizes))] for row in x.tolist()]
        return {
            f"part {i}": [joined([head[start : start + size] for head in row]) for row in of_heads]
            for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
        }

    return Case("split", name, run, judge)


def split_cases() -> list[Case]:
    return [
        split_case("q, k and v", [12, 12, 20], 1),
        split_case("query and gate per head", [5, 5], 3),
        split_case("one part", [7], 2),
    ]


def select_case() -> Case:
    x = scattered("plain", "select", 6, 5)

    def run(ops: Ops[Any]) -> Results:
        rows = Rows.of([(State(ops, []), [0] * n) for n in (3, 1, 2)])
        array = ops.array(x)
        return {want: ops.numpy(ops.select("", array, rows, want)) for want in ("last", "all")}

    return Case("select", "three spans", run, lambda: {"last": x[[2, 3, 5]].tolist(), "all": x.tolist()})
