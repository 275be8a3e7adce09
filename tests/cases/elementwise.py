"""Cases of the elementary functions, of chunked sums and of the ops on pairs."""

import numpy as np

from cases.case import Case
from cases.values import F32, cancelling, near, scattered, sparse
from oracle import elementary, f32, rowwise

BELOW_FLOOR = f32.from_bits(0x267FFFFF)
EDGES = np.unique(
    np.concatenate(
        [
            near(-34.5, -34.0, -1.0, -0.5, -(2.0**-26), -(2.0**-25), -(2.0**-50), -100.0, -(2.0**59), -6.98e12),
            near(*(-(n + 0.5) / float(np.log2(np.e)) for n in range(50))),  # where rint changes
            -np.abs(scattered("plain", "edges", 100)),
            -np.abs(scattered("wide", "edges", 100)),
        ]
    )
)
EDGES = EDGES[np.abs(EDGES) >= 2.0**-50]
BOTH_SIGNS = np.concatenate([EDGES, np.array([-0.0, 0.0], np.float32), -EDGES])
NOT_POSITIVE = np.concatenate([EDGES, np.array([-0.0, 0.0], np.float32)])
UNIT = np.concatenate([np.exp(EDGES.astype(np.float64)).astype(np.float32), near(2.0**-24, 2.0**-50), [0.0, 1.0]])
UNIT = UNIT[(UNIT == 0) | (UNIT >= 2.0**-50)].astype(np.float32)


def elementary_case(op: str, name: str, x: F32) -> Case:
    judge = f32.settle if op == "settle" else getattr(elementary, op)
    return Case(
        op,
        name,
        lambda ops: {"y": ops.numpy(ops.elementary()[op](ops.array(x)))},
        lambda: {"y": [judge(value) for value in x.tolist()]},
    )


def elementary_cases() -> list[Case]:
    floor = near(0.0, BELOW_FLOOR, -BELOW_FLOOR, 1e-40, -1.0)
    return [
        elementary_case("settle", "floor", np.append(floor, np.float32(-0.0))),
        elementary_case("exp_neg", "edges", NOT_POSITIVE),
        *(elementary_case(op, "edges", BOTH_SIGNS) for op in ("sigmoid", "silu", "gelu_tanh", "softplus")),
        *(
            elementary_case(op, "tiny", cancelling(scattered("tiny", op, 400)))
            for op in ("sigmoid", "silu", "gelu_tanh", "softplus")
        ),
        elementary_case("exp_neg", "tiny", -np.abs(scattered("tiny", "exp_neg", 400))),
        elementary_case("log1p01", "edges", UNIT),
        elementary_case("log1p01", "tiny", np.abs(scattered("tiny", "log1p01", 400))),
        *(chunked_sum_case(f"K{K}", scattered("plain", "sum", 2, K)) for K in (1, 127, 128, 129, 300)),
        chunked_sum_case("tiny", cancelling(scattered("tiny", "sum", 3, 300))),
        chunked_sum_case("zeros", np.array([[-0.0] * 130, [-0.0, 0.0] * 65], np.float32)),
    ]


def chunked_sum_case(name: str, t: F32) -> Case:
    return Case(
        "chunked_sum",
        name,
        lambda ops: {"y": ops.numpy(ops.elementary()["chunked_sum"](ops.array(t)))},
        lambda: {"y": [f32.chunked_sum(row) for row in t.tolist()]},
    )


def pair_case(op: str, name: str, x: F32, y: F32) -> Case:
    judge = getattr(rowwise, op)
    return Case(
        op,
        name,
        lambda ops: {"y": ops.numpy(getattr(ops, op)("", ops.array(x), ops.array(y)))},
        lambda: {"y": [judge(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]},
    )


def row_case(op: str, name: str, x: F32) -> Case:
    """An elementary function that is an op by itself."""
    judge = getattr(elementary, op)
    return Case(
        op,
        name,
        lambda ops: {"y": ops.numpy(getattr(ops, op)("", ops.array(x)))},
        lambda: {"y": [[judge(value) for value in row] for row in x.tolist()]},
    )


def pair_cases() -> list[Case]:
    cases = []
    for op in ("silu", "sigmoid", "gelu_tanh"):
        cases += [
            row_case(op, "rows", scattered("plain", op, 3, 97)),
            row_case(op, "edges of a row", BOTH_SIGNS[None]),
            row_case(op, "tiny row", scattered("tiny", op, 2, 97)),
            row_case(op, "large row", scattered("large", op, 2, 97)),
        ]
    for kind in ("plain", "tiny", "large", "wide"):
        x, y = (scattered(kind, f"pair {side}", 2, 97) for side in "xy")
        cases += [pair_case(op, kind, x, y) for op in ("add", "mul", "swiglu")]
    tiny = scattered("tiny", "cancel", 1, 600)
    taken_back = cancelling(np.stack([tiny[0], tiny[0]], axis=-1)).reshape(1, -1)
    cases.append(pair_case("add", "tiny cancelling", taken_back[:, ::2], taken_back[:, 1::2]))
    exact = np.array([[2.0**-49, 2.0**-49, 3.0, -3.0, 0.0, 0.0]], np.float32)
    other = np.array([[-(2.0**-50), -(2.0**-50) * (1 + 2.0**-23), -3.0, 3.0, 0.0, 1.0]], np.float32)
    cases.append(pair_case("add", "floor", exact, other))
    root = near(2.0**-25)[None]
    cases.append(pair_case("mul", "floor", root, np.full_like(root, 2.0**-25)))
    cases.append(
        pair_case(
            "mul",
            "zeros",
            sparse(scattered("plain", "zeros x", 2, 30)),
            -np.abs(root[0, 1]) * np.ones((2, 30), np.float32),
        )
    )
    cases.append(pair_case("swiglu", "edges", BOTH_SIGNS[None], scattered("plain", "up", 1, len(BOTH_SIGNS))))
    return cases
