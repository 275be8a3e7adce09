"""The ops that `check-op` knows: how a kernel is called, on which sizes, and what the contract gives."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.op_cases import Case, Draw
from gnomon.reference.ops import attention as attend
from gnomon.reference.ops.add import add
from gnomon.reference.ops.causal_conv import causal_conv
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.delta_gates import delta_decay
from gnomon.reference.ops.delta_rule import delta_rule
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.gated_norm import gated_norm
from gnomon.reference.ops.gelu_tanh import gelu_tanh
from gnomon.reference.ops.l2_norm import l2_norm
from gnomon.reference.ops.layer_norm import layer_norm
from gnomon.reference.ops.linear import linear
from gnomon.reference.ops.log1p01 import log1p01
from gnomon.reference.ops.mixture import route, softmax
from gnomon.reference.ops.mul import mul
from gnomon.reference.ops.rms_norm import rms_norm
from gnomon.reference.ops.rope import RopeTables, Rotation, rope
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.ops.silu import silu
from gnomon.reference.ops.softplus import softplus
from gnomon.reference.ops.tiling import pack_matrix

Array = NDArray[Any]
Sizes = Mapping[str, Sequence[int | str]]

# From simple to awkward, which is the order of shrinking.
LENGTHS = (1, 2, 3, 4, 5, 7, 15, 17, 31, 33, 63, 65, 100, 127, 128, 129, 300)  # of a sum, or of a row
ROWS = (1, 2, 5)
WIDTHS = (1, 2, 3, 5, 17, 33)  # outputs that share nothing
HEADS = ("1x1", "1x2", "2x1", "2x2", "3x2")  # kv heads x heads that read each of them
HEAD_WIDTHS = (2, 4, 10, 64, 130)
BEFORE = (0, 1, 3, 126, 127, 128, 130, 299)  # positions that the state holds already
WINDOWS = ("none", "1", "3", "130")
EPS = (1e-5, 1e-6)
HARD_EPS = (2.0**50, 4 - 2.0**-22)  # 1 / sqrt is 2^-25; the root is 2 - 2^-23


@dataclass(frozen=True)
class OpUnderTest:
    """signature: how the kernel is called, with shapes; result: of what it returns
    arguments: of a case, in the order of the signature; contract: from these to the results
    unit: where the contract gives NaN or infinity, no byte is promised, but the result must not be finite either: the
          leading axes of a result within which one such value is enough; None: it must be the same element
    """

    signature: str
    result: str
    sizes: Sizes
    arguments: Callable[[Case, Draw], list[Any]]
    contract: Callable[..., Any]
    unit: int | None = None


def wider(case: Case) -> np.float32:
    """What a draw is multiplied by, so that functions reach both of their ends; hard values are hard as they are"""
    return np.float32(1.0 if case.kind == "hard" else 3.0)


def elementwise(function: Callable[..., Any], count: int = 1, shape: Callable[[Array], Array] = settle) -> OpUnderTest:
    names = ("x", "y")[:count] if function is not swiglu else ("gate", "up")
    return OpUnderTest(
        ", ".join(f"{name} [n]" for name in names), "[n]", {"n": LENGTHS},
        lambda case, draw: [shape(draw(case["n"]) * wider(case)) for _ in range(count)], function,
    )  # fmt: skip


def swiglu(gate: Array, up: Array) -> Array:
    return mul(silu(gate), up)


def unsettled(x: Array) -> Array:
    """As an op may hand values to settle: subnormals and both zeros among them."""
    return np.concatenate([x[: len(x) // 2] * np.float32(2.0**-100), -x[len(x) // 2 :]])


def eps_of(case: Case) -> float:
    return (HARD_EPS if case.kind == "hard" else EPS)[case.draw % 2]


def norm_arguments(count: int) -> Callable[[Case, Draw], list[Any]]:
    def make(case: Case, draw: Draw) -> list[Any]:
        rows, n = case["rows"], case["n"]
        return [draw(rows, n), *(draw(n) for _ in range(count)), eps_of(case)]

    return make


def heads_of(case: Case) -> tuple[int, int]:
    """kv heads, heads"""
    kv_heads, group = (int(n) for n in case["heads"].split("x"))
    return kv_heads, kv_heads * group


def window_of(case: Case) -> int | None:
    return None if case["window"] == "none" else int(case["window"])


def positions(case: Case) -> tuple[int, Array]:
    """T, and the positions of the rows"""
    T = case["before"] + case["rows"]
    return T, np.arange(case["before"], T)


def inverse_root(d: int) -> float:
    return float(np.float32(1.0 / math.sqrt(d)))


def attention_arguments(case: Case, draw: Draw) -> list[Any]:
    (kv_heads, heads), (T, pos), d = heads_of(case), positions(case), case["d"]
    q, k, v = draw(case["rows"], heads, d), draw(T, kv_heads, d), draw(T, kv_heads, d)
    return [q, k, v, pos, inverse_root(d), window_of(case)]


def attention(q: Array, k: Array, v: Array, pos: Array, scale: float, window: int | None) -> Array:
    see = attend.seen(pos, len(k), window)
    e = attend.exp_scores(attend.scores(q, k, see, np.float32(scale)), see)
    return attend.mix(e, attend.denom(e), v)


def scores_arguments(case: Case, draw: Draw) -> list[Any]:
    q, k, _, pos, scale, window = attention_arguments(case, draw)
    return [q, k, pos, scale, window]


def scores(q: Array, k: Array, pos: Array, scale: float, window: int | None) -> Array:
    return attend.scores(q, k, attend.seen(pos, len(k), window), np.float32(scale))


def exp_scores_arguments(case: Case, draw: Draw) -> list[Any]:
    T, pos = positions(case)
    see = attend.seen(pos, T, window_of(case))
    return [np.where(see, draw(case["rows"], heads_of(case)[1], T), np.float32(0.0)), pos, window_of(case)]


def exp_scores(s: Array, pos: Array, window: int | None) -> Array:
    return attend.exp_scores(s, attend.seen(pos, s.shape[-1], window))


def exponentials(case: Case, draw: Draw) -> Array:
    return exp_scores(*exp_scores_arguments(case, draw))


def mix_arguments(case: Case, draw: Draw) -> list[Any]:
    e = exponentials(case, draw)
    return [e, attend.denom(e), draw(e.shape[-1], heads_of(case)[0], case["d"])]


def rope_arguments(case: Case, draw: Draw) -> list[Any]:
    d = case["d"]
    dim = d if case["rotary"] == "all" else max(2, d // 4 * 2)
    cos, sin = RopeTables(10000.0, dim).at(np.arange(case["rows"]) + 7 * case.draw)
    return [draw(case["rows"], heads_of(case)[1], d), cos, sin]


def conv_arguments(case: Case, draw: Draw) -> list[Any]:
    C, taps = case["channels"], case["taps"]
    return [draw(case["rows"], C), draw(C, taps), draw(taps - 1, C)]


def delta_arguments(case: Case, draw: Draw) -> list[Any]:
    rows, H, dk, dv = case["rows"], case["value_heads"], case["dk"], case["dv"]
    q, k = l2_norm(draw(rows, H, dk)), l2_norm(draw(rows, H, dk))
    gate = settle(np.minimum(np.abs(draw(rows, H)), np.float32(1.0)))
    return [q, k, draw(rows, H, dv), -np.abs(draw(rows, H)) + np.float32(0.0), gate, draw(H, dk, dv)]


ACROSS: Sizes = {"heads": HEADS, "rows": ROWS, "before": BEFORE, "window": WINDOWS}
NORM: Sizes = {"rows": ROWS, "n": LENGTHS}
PRODUCT: Sizes = {"rows": ROWS, "N": WIDTHS, "K": LENGTHS}

OPS: dict[str, OpUnderTest] = {
    "settle": elementwise(settle, shape=unsettled),
    "exp_neg": elementwise(exp_neg, shape=lambda x: np.float32(0.0) - np.abs(x * np.float32(4.0))),
    "sigmoid": elementwise(sigmoid),
    "silu": elementwise(silu),
    "gelu_tanh": elementwise(gelu_tanh),
    "log1p01": elementwise(log1p01, shape=lambda x: settle(np.abs(x) - np.floor(np.abs(x)))),
    "softplus": elementwise(softplus),
    "swiglu": elementwise(swiglu, 2),
    "add": elementwise(add, 2),
    "mul": elementwise(mul, 2),
    "chunked_sum": OpUnderTest(
        "t [rows, n]", "[rows], not settled", NORM, lambda c, draw: [draw(c["rows"], c["n"])],
        lambda t: chunked_sum(np.moveaxis(t, -1, 0)),
    ),
    "linear": OpUnderTest(
        "x [rows, K], w [N, K]", "[rows, N]", PRODUCT,
        lambda c, draw: [draw(c["rows"], c["K"]), draw(c["N"], c["K"])], lambda x, w: linear(x, pack_matrix(w)),
    ),
    "linear_bias": OpUnderTest(
        "x [rows, K], w [N, K], b [N]", "[rows, N]", PRODUCT,
        lambda c, draw: [draw(c["rows"], c["K"]), draw(c["N"], c["K"]), draw(c["N"])],
        lambda x, w, b: linear(x, pack_matrix(w), b),
    ),
    "rms_norm": OpUnderTest("x [rows, n], w [n], eps", "[rows, n]", NORM, norm_arguments(1), rms_norm),
    "layer_norm": OpUnderTest("x [rows, n], w [n], b [n], eps", "[rows, n]", NORM, norm_arguments(2), layer_norm),
    "l2_norm": OpUnderTest("x [rows, n]", "[rows, n]", NORM, lambda c, draw: [draw(c["rows"], c["n"])], l2_norm),
    "gated_norm": OpUnderTest(
        "o [rows, n], w [n], z [rows, n], eps", "[rows, n]", NORM,
        lambda c, draw: [draw(c["rows"], c["n"]), draw(c["n"]), draw(c["rows"], c["n"]), eps_of(c)], gated_norm,
    ),
    "rope": OpUnderTest(
        "x [rows, heads, d], cos [rows, dim / 2], sin [rows, dim / 2]; entries from dim on pass", "[rows, heads, d]",
        {"heads": HEADS, "rows": ROWS, "rotary": ("all", "half"), "d": HEAD_WIDTHS}, rope_arguments,
        lambda x, cos, sin: rope(x, Rotation(cos, sin)),
    ),
    "scores": OpUnderTest(
        "q [rows, heads, d], k [T, kv_heads, d], pos [rows] i64, scale, window or None",
        "[rows, heads, T], +0.0 where not seen", {**ACROSS, "d": HEAD_WIDTHS}, scores_arguments, scores,
    ),
    "exp_scores": OpUnderTest(
        "s [rows, heads, T], pos [rows] i64, window or None", "[rows, heads, T], +0.0 where not seen", ACROSS,
        exp_scores_arguments, exp_scores, unit=2,
    ),
    "denom": OpUnderTest(
        "e [rows, heads, T]", "[rows, heads], not settled", ACROSS,
        lambda c, draw: [exponentials(c, draw)], attend.denom,
    ),
    "mix": OpUnderTest(
        "e [rows, heads, T], denom [rows, heads], v [T, kv_heads, d]", "[rows, heads, d]",
        {**ACROSS, "d": HEAD_WIDTHS}, mix_arguments, attend.mix, unit=0,
    ),
    "attention": OpUnderTest(
        "q [rows, heads, d], k [T, kv_heads, d], v [T, kv_heads, d], pos [rows] i64, scale, window or None",
        "[rows, heads, d]", {**ACROSS, "d": HEAD_WIDTHS}, attention_arguments, attention, unit=0,
    ),
    "softmax": OpUnderTest(
        "s [rows, n]", "[rows, n]", NORM, lambda c, draw: [draw(c["rows"], c["n"])], softmax, unit=1,
    ),
    "route": OpUnderTest(
        "logits [rows, experts], top_k, normalise", "[rows, experts], +0.0 where not chosen",
        {"rows": ROWS, "experts": (2, 3, 5, 17, 130)},
        lambda c, draw: [draw(c["rows"], c["experts"]), 1 + c.draw % 2, c.draw % 3 > 0], route, unit=1,
    ),
    "causal_conv": OpUnderTest(
        "x [rows, C], w [C, taps], state [taps - 1, C], oldest first", "y [rows, C] and the new state",
        {"rows": ROWS, "channels": WIDTHS, "taps": (1, 2, 4)}, conv_arguments, causal_conv,
    ),
    "delta_decay": OpUnderTest(
        "a [rows, heads], neg_a [heads], dt_bias [heads]", "[rows, heads]", {"rows": ROWS, "value_heads": WIDTHS},
        lambda c, draw: [
            draw(c["rows"], c["value_heads"]), np.float32(0.0) - np.abs(draw(c["value_heads"])), draw(c["value_heads"])
        ],
        delta_decay,
    ),
    "delta_rule": OpUnderTest(
        "q [rows, H, dk], k [rows, H, dk], v [rows, H, dv], g [rows, H], beta [rows, H], state [H, dk, dv]",
        "o [rows, H, dv] and the new state",
        {"rows": ROWS, "value_heads": (1, 2, 3), "dk": (1, 2, 5, 64, 129), "dv": (1, 3, 16)},
        delta_arguments, delta_rule,
    ),
}  # fmt: skip
