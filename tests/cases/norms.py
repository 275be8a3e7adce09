"""Cases of the norms."""

import numpy as np

from cases.case import Case, Results, joined, loaded, pack
from cases.values import F32, cancelling, scattered, sparse, unsettled
from oracle import attention, f32, norms


def grouped(x: F32, groups: int) -> list[list[list[float]]]:
    """[rows, groups * n] -> rows of groups, for the oracle"""
    parts: list[list[list[float]]] = x.reshape(len(x), groups, -1).tolist()
    return parts


def rms_norm_case(name: str, x: F32, w: F32, eps: float = 1e-5, groups: int = 1) -> Case:
    return Case(
        "rms_norm",
        name,
        lambda ops: {"y": ops.numpy(ops.rms_norm("", ops.array(x), pack(ops, w, "vector"), eps, groups))},
        lambda: {"y": [joined([norms.rms_norm(part, loaded(w), eps) for part in row]) for row in grouped(x, groups)]},
    )


def rms_norm_cases() -> list[Case]:
    cases = []
    for K in (1, 127, 128, 129, 300):
        for R in (1, 2, 5):
            x = scattered("plain", f"norm {K}", R, K)
            cases.append(rms_norm_case(f"K{K} rows{R}", x, scattered("plain", f"gain {K}", K)))
    w = scattered("plain", "gain", 300)
    cases += [rms_norm_case(kind, scattered(kind, "norm", 3, 300), w) for kind in ("tiny", "large", "wide")]
    cases += [
        rms_norm_case("eps 1e-6", scattered("plain", "norm", 2, 300) * np.float32(2.0**-10), w, eps=1e-6),
        rms_norm_case("2 groups", scattered("plain", "norm", 2, 20), w[:10], groups=2),
        rms_norm_case("3 groups", scattered("plain", "norm", 2, 390), w[:130], groups=3),
        rms_norm_case("zeros", sparse(scattered("plain", "norm", 2, 9)), -np.abs(w[:9])),
        rms_norm_case("all zero", np.zeros((1, 9), np.float32), -np.abs(w[:9])),
        rms_norm_case("unsettled weights", scattered("large", "norm", 2, 300), unsettled(w)),
        rms_norm_case("tiny by tiny", scattered("tiny", "norm", 3, 40), scattered("tiny", "gain", 40)),
    ]
    return cases


def layer_norm_case(name: str, x: F32, w: F32, b: F32, eps: float = 1e-5) -> Case:
    def judge() -> Results:
        return {"y": [norms.layer_norm(row, loaded(w), loaded(b), eps) for row in x.tolist()]}

    return Case(
        "layer_norm",
        name,
        lambda ops: {
            "y": ops.numpy(ops.layer_norm("", ops.array(x), pack(ops, w, "vector"), pack(ops, b, "vector"), eps))
        },
        judge,
    )


def layer_norm_cases() -> list[Case]:
    cases = []
    for K in (1, 2, 127, 128, 129, 300):
        x, w, b = scattered("plain", f"layer {K}", 3, K), scattered("plain", f"w {K}", K), scattered("plain", "b", K)
        cases.append(layer_norm_case(f"K{K}", x, w, b))
    w, b = scattered("plain", "gain", 300), scattered("plain", "shift", 300)
    far = scattered("plain", "far", 2, 300) + np.float32(1000)  # the mean takes most of it
    about = np.float32(2.0**-42) + scattered("tiny", "about", 2, 40) / np.float32(16)  # differences at the floor
    cases += [
        layer_norm_case("tiny", cancelling(scattered("tiny", "layer", 3, 300)), w, scattered("tiny", "shift", 300)),
        layer_norm_case("tiny by tiny", scattered("tiny", "layer", 3, 40), scattered("tiny", "gain", 40), b[:40]),
        layer_norm_case("tiny about a mean", about, w[:40], np.zeros(40, np.float32)),
        layer_norm_case("large", scattered("large", "layer", 2, 300), w, scattered("large", "shift", 300)),
        layer_norm_case("wide", scattered("wide", "layer", 2, 300), w, scattered("wide", "shift", 300)),
        layer_norm_case("far from zero", far, w, b),
        layer_norm_case("eps 1e-6", scattered("plain", "layer", 2, 300) * np.float32(2.0**-10), w, b, 1e-6),
        layer_norm_case("taken back", scattered("plain", "layer", 2, 300), w, -w),
        layer_norm_case("zeros", sparse(scattered("plain", "layer", 2, 300)), -np.abs(w), b),
        layer_norm_case("all equal", np.full((2, 9), 3.0, np.float32), -np.abs(w[:9]), sparse(b[:9])),
        layer_norm_case("unsettled weights", scattered("large", "layer", 2, 300), unsettled(w), unsettled(b)),
    ]
    return cases


def l2_norm_case(name: str, x: F32, groups: int = 1, scale: float | None = None) -> Case:
    def one(part: list[float]) -> list[float]:
        y = norms.l2_norm(part)
        return y if scale is None else [f32.settle(f32.mul(a, scale)) for a in y]

    return Case(
        "l2_norm",
        name,
        lambda ops: {"y": ops.numpy(ops.l2_norm("", ops.array(x), groups, scale))},
        lambda: {"y": [joined([one(part) for part in row]) for row in grouped(x, groups)]},
    )


def l2_norm_cases() -> list[Case]:
    cases = [l2_norm_case(f"K{K}", scattered("plain", f"unit {K}", 3, K)) for K in (1, 127, 128, 129, 300)]
    x = scattered("plain", "unit", 2, 60)
    return [
        *cases,
        *(l2_norm_case(kind, scattered(kind, "unit", 3, 130)) for kind in ("tiny", "large", "wide")),
        l2_norm_case("tiny, scaled", scattered("tiny", "unit", 3, 40), 4, attention.usual_scale(10)),
        l2_norm_case("about eps", scattered("plain", "unit", 2, 60) * np.float32(2.0**-12)),
        l2_norm_case("6 groups", x, 6),
        l2_norm_case("6 groups, scaled", x, 6, attention.usual_scale(10)),
        l2_norm_case("2 groups of 130, scaled", scattered("plain", "unit", 2, 260), 2, attention.usual_scale(130)),
        l2_norm_case("zeros", sparse(x), 3, attention.usual_scale(20)),
        l2_norm_case("all zero", np.zeros((1, 9), np.float32)),
    ]


def gated_norm_case(name: str, o: F32, w: F32, z: F32, groups: int, eps: float = 1e-6) -> Case:
    def judge() -> Results:
        rows = zip(grouped(o, groups), grouped(z, groups), strict=True)
        heads = (list(zip(*row, strict=True)) for row in rows)
        return {"y": [joined([norms.gated_norm(part, loaded(w), gate, eps) for part, gate in row]) for row in heads]}

    return Case(
        "gated_norm",
        name,
        lambda ops: {
            "y": ops.numpy(ops.gated_norm("", ops.array(o), pack(ops, w, "vector"), ops.array(z), eps, groups))
        },
        judge,
    )


def gated_norm_cases() -> list[Case]:
    w, z = scattered("plain", "gain", 130), scattered("wide", "z", 3, 260)
    return [
        gated_norm_case("2 heads of 9", scattered("plain", "o", 3, 18), w[:9], z[:, :18], 2),
        gated_norm_case("2 heads of 130", scattered("plain", "o", 3, 260), w, z, 2),
        gated_norm_case("eps 1e-5", scattered("plain", "o", 2, 18) * np.float32(2.0**-10), w[:9], z[:2, :18], 2, 1e-5),
        gated_norm_case("tiny", scattered("tiny", "o", 3, 18), w[:9], z[:, :18], 2),
        gated_norm_case("tiny gates", scattered("plain", "o", 3, 18), w[:9], scattered("tiny", "z", 3, 18), 2),
        gated_norm_case("tiny by tiny", scattered("tiny", "o", 3, 18), w[:9], scattered("tiny", "z", 3, 18), 2),
        gated_norm_case("large", scattered("large", "o", 3, 18), w[:9], scattered("large", "z", 3, 18), 2),
        gated_norm_case("closed gates", scattered("plain", "o", 2, 18), w[:9], np.full((2, 18), -40.0, np.float32), 2),
        gated_norm_case("zeros", sparse(scattered("plain", "o", 2, 18)), -np.abs(w[:9]), sparse(z[:2, :18]), 2),
    ]


def norm_cases() -> list[Case]:
    return [*rms_norm_cases(), *layer_norm_cases(), *l2_norm_cases(), *gated_norm_cases()]
