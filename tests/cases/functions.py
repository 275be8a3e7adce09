"""Cases of functions of the reference that no op table offers yet: they are run by themselves."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import norms, recurrent

from cases.case import Case, Results
from cases.values import cancelling, near, scattered, sparse


def function(op: str, file: str = "") -> Callable[..., Any]:
    """The function of this name in its file in gnomon.reference.ops."""
    made: Callable[..., Any] = getattr(importlib.import_module(f"gnomon.reference.ops.{file or op}"), op)
    return made


def norm_cases(kind: str) -> list[Case]:
    """Rows [3, 130], and heads [3, 2, 9] for the gated norm."""
    x, w, b = scattered(kind, "row", 3, 130), scattered("plain", "gain", 130), scattered(kind, "shift", 130)
    x = cancelling(x) if kind == "tiny" else sparse(x)
    o, gate = scattered(kind, "o", 3, 2, 9), scattered("wide", "z", 3, 2, 9)

    def gated() -> Results:
        heads = zip(o.reshape(6, 9).tolist(), gate.reshape(6, 9).tolist(), strict=True)
        rows = [norms.gated_norm(a, w[:9].tolist(), z, 1e-6) for a, z in heads]
        return {"y": np.array(rows).reshape(o.shape)}

    return [
        Case(
            "layer_norm",
            kind,
            lambda ops: {"y": function("layer_norm")(x, w, b, 1e-5)},
            lambda: {"y": [norms.layer_norm(row, w.tolist(), b.tolist(), 1e-5) for row in x.tolist()]},
        ),
        Case(
            "l2_norm",
            kind,
            lambda ops: {"y": function("l2_norm")(x)},
            lambda: {"y": [norms.l2_norm(row) for row in x.tolist()]},
        ),
        Case("gated_norm", kind, lambda ops: {"y": function("gated_norm")(o, w[:9], gate, 1e-6)}, gated),
    ]


def causal_conv_case(kind: str) -> Case:
    x, w, state = scattered(kind, "x", 5, 7), scattered(kind, "w", 7, 4), scattered(kind, "state", 3, 7)
    if kind == "tiny":  # neighbouring rows cancel where neighbouring taps are alike
        x, w = cancelling(x.T).T, scattered("plain", "w", 7, 1).repeat(4, axis=1)

    def judge() -> Results:
        return dict(zip(("y", "state"), recurrent.causal_conv(x.tolist(), w.tolist(), state.tolist()), strict=True))

    return Case(
        "causal_conv",
        kind,
        lambda ops: dict(zip(("y", "state"), function("causal_conv")(x, w, state), strict=True)),
        judge,
    )


def delta_decay_case(kind: str) -> Case:
    a, bias, a_log = scattered(kind, "a", 3, 6), scattered(kind, "bias", 6), scattered("plain", "A_log", 6)
    if kind == "tiny":  # softplus and negA reach the floor
        a, a_log = np.linspace(-36, -30, 48, dtype=np.float32).reshape(8, 6), near(-34.6, 1.0)

    def run(ops: Any) -> Results:
        negative_a = function("negative_a", "delta_gates")(a_log)
        return {"g": function("delta_decay", "delta_gates")(a, negative_a, bias)}

    return Case(
        "delta_decay",
        kind,
        run,
        lambda: {"g": [recurrent.delta_decay(row, a_log.tolist(), bias.tolist()) for row in a.tolist()]},
    )


def delta_rule_case(kind: str) -> Case:
    """Two key heads of width 9, four value heads of width 5."""
    q, k = (scattered("plain", name, 4, 2, 9) for name in "qk")
    v, state = cancelling(scattered(kind, "v", 4, 4, 5)), scattered(kind, "state", 4, 9, 5)
    if kind == "tiny":  # a decayed state falls below the floor, and what is written lies about it
        v, state = function("settle")(v / np.float32(32)), function("settle")(state / np.float32(32))
    beta = np.float32(1) - np.abs(scattered("plain", "beta", 4, 4)) / np.float32(16)  # 1/2 to 1
    g = -np.abs(scattered("plain", "g", 4, 4)) / np.float32(4)  # at most 2

    def run(ops: Any) -> Results:
        settle, l2_norm = function("settle"), function("l2_norm")
        query = settle(l2_norm(q) * np.float32(1 / np.sqrt(np.float64(9)))).repeat(2, axis=1)
        out = function("delta_rule")(query, l2_norm(k).repeat(2, axis=1), v, g, beta, state)
        return dict(zip(("o", "state"), out, strict=True))

    def judge() -> Results:
        out = recurrent.delta_rule(*(x.tolist() for x in (q, k, v, g, beta, state)))
        return dict(zip(("o", "state"), out, strict=True))

    return Case("delta_rule", kind, run, judge)


def function_cases() -> list[Case]:
    kinds = ("plain", "tiny")
    return [
        *(case for kind in (*kinds, "large") for case in norm_cases(kind)),
        *(make(kind) for make in (causal_conv_case, delta_decay_case, delta_rule_case) for kind in kinds),
    ]
