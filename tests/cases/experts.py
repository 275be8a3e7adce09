"""Cases of mixtures of experts: which experts a row goes to, and what they add up to."""

from typing import Any

import numpy as np

from cases.case import Case, Results, in_forms, loaded, pack
from cases.values import F32, cancelling, scattered
from gnomon.reference.protocol import Ops
from oracle import arms
from oracle import experts as oracle
from oracle.rowwise import swiglu

Weights = list[tuple[F32, F32, F32]]  # gate, up and out of each expert


def route_case(name: str, logits: F32, top_k: int, normalise: bool) -> Case:
    def judge() -> Results:
        chosen = [oracle.route(row, top_k, normalise) for row in logits.tolist()]
        return {"p": [[weights.get(e, 0.0) for e in range(logits.shape[1])] for weights in chosen]}

    return Case("route", name, lambda ops: {"p": ops.numpy(ops.route("", ops.array(logits), top_k, normalise))}, judge)


def route_cases() -> list[Case]:
    cases = []
    for normalise in (False, True):
        how = ", normalised" if normalise else ""
        x = scattered("plain", "router", 5, 9)
        ties = np.round(x)  # many experts as likely as one another
        spread = np.float32(12) * np.round(x)  # some probabilities are 0
        spread[0], spread[1] = np.linspace(-34.5, -33.5, 9), np.linspace(-34.5, -34.0, 9)  # some lie about the floor
        spread[:2, 4:6] = 0.0
        cases += [
            route_case(f"top 1{how}", x, 1, normalise),
            route_case(f"top 3{how}", x, 3, normalise),
            route_case(f"all{how}", x, 9, normalise),
            route_case(f"ties{how}", ties, 4, normalise),
            route_case(f"all equal{how}", np.full((2, 9), 0.5, np.float32), 4, normalise),
            route_case(f"one expert{how}", x[:, :1], 1, normalise),
            route_case(f"130 experts{how}", scattered("plain", "many", 2, 130), 8, normalise),
            route_case(f"tiny{how}", scattered("tiny", "router", 4, 9), 4, normalise),
            route_case(f"tiny probabilities{how}", spread, 6, normalise),
        ]
    return cases


def experts_case(name: str, logits: F32, x: F32, weights: Weights, top_k: int, arm: str = "f32") -> Case:
    def run(ops: Ops[Any]) -> Results:
        ops = in_forms(ops, arm=arm)
        p = ops.route("", ops.array(logits), top_k, True)
        handles = [
            (pack(ops, gate, "linear"), pack(ops, up, "linear"), pack(ops, out, "linear")) for gate, up, out in weights
        ]
        return {"y": ops.numpy(ops.experts("", ops.array(x), p, handles))}

    def expert(gate: F32, up: F32, out: F32) -> oracle.Expert:
        def mlp(a: list[float]) -> list[float]:
            wide = [arms.linear([a], loaded(w), arm=arm)[0] for w in (gate, up)]
            return arms.linear([swiglu(*wide)], loaded(out), arm=arm)[0]

        return mlp

    def judge() -> Results:
        made = [expert(*each) for each in weights]
        rows = zip(x.tolist(), logits.tolist(), strict=True)
        return {"y": [oracle.mixture(a, router, made, top_k, True) for a, router in rows]}

    return Case("experts", name, run, judge)


def experts_cases() -> list[Case]:
    D, F, E = 7, 11, 5

    def weights(kind: str) -> Weights:
        at = [(scattered(kind, f"gate {e}", F, D), scattered(kind, f"up {e}", F, D)) for e in range(E)]
        return [(gate, up, scattered(kind, f"out {e}", D, F)) for e, (gate, up) in enumerate(at)]

    plain, x = weights("plain"), scattered("plain", "a", 6, D)
    logits = scattered("plain", "router", 6, E)  # rows that choose differently
    opposite = [(*plain[0][:2], plain[0][2] * np.float32(sign)) for sign in (1, -1, 1, -1, 1)]
    faint = [(gate, up, scattered("tiny", f"out {e}", D, F) / np.float32(32)) for e, (gate, up, _) in enumerate(plain)]
    to_one = np.tile(np.eye(1, E, 3, dtype=np.float32) * np.float32(8), (6, 1))  # the other experts get no row
    return [
        experts_case("top 1", logits, x, plain, 1),
        experts_case("top 2", logits, x, plain, 2),
        experts_case("all", logits, x, plain, E),
        experts_case("ties", np.round(logits), x, plain, 3),
        experts_case("one for all rows", to_one, x, plain, 1),
        experts_case("one row", logits[:1], x[:1], plain, 2),
        experts_case("cancelling", np.zeros((6, E), np.float32), x, opposite, 2),
        experts_case("tiny", logits, cancelling(scattered("tiny", "a", 6, D)), weights("large"), 3),
        experts_case("tiny results", logits, x / np.float32(4), faint, 4),
        experts_case("in the bf16 arm", logits, x, plain, 2, "bf16"),
        experts_case("in the int8 arm", logits, x, plain, 2, "int8"),
    ]


def mixture_cases() -> list[Case]:
    return [*route_cases(), *experts_cases()]
