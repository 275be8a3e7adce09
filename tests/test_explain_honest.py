"""`explain` never guesses: faults that are not on its menu get no name, and neither does a fit on too little data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gnomon.compare.explain import explain
from gnomon.compare.explain.ops import OPS
from gnomon.compare.explain.recipe import Recipe
from gnomon.reference.errors import UsageError
from gnomon.reference.ops import attention as attend
from gnomon.reference.ops.add import add
from gnomon.reference.ops.layer_norm import layer_norm
from gnomon.reference.ops.linear import linear
from gnomon.reference.ops.rms_norm import rms_norm
from gnomon.reference.ops.rope import RopeTables, rope
from gnomon.reference.ops.silu import silu
from gnomon.reference.ops.tiling import pack_matrix
from planted_ops import values

F32 = NDArray[np.float32]
Fault = Callable[[F32], F32]
X, W, B = values(31, 4, 130), values(32, 12, 130), values(33, 12)
NORM_X, NORM_W, NORM_B = values(34, 6, 130), values(35, 130), values(36, 130)
POS = np.arange(3, 8)
TABLES = RopeTables(10000.0, 8)
Q, K, V = values(37, 5, 4, 10), values(38, 8, 2, 10), values(39, 8, 2, 10)
SEEN = attend.seen(POS, 8, None)
SCALE = float(np.float32(10**-0.5))
S = attend.scores(Q, K, SEEN, np.float32(SCALE))
E = attend.exp_scores(S, SEEN)
GATE = values(40, 6, 40, scale=3.0)


def times(x: F32, w: F32, b: F32 | None = None) -> F32:
    return linear(x, pack_matrix(w), b)


def chunked(size: int) -> F32:
    """x W' in chunks of another length"""
    t = X[:, None] * W[None]
    out = np.zeros((len(X), len(W)), np.float32)
    for start in range(0, t.shape[-1], size):
        out += np.add.accumulate(t[..., start : start + size], axis=-1)[..., -1]
    return out


def kahan() -> F32:
    """x W' with compensated sums"""
    out, lost = np.zeros((len(X), len(W)), np.float32), np.zeros((len(X), len(W)), np.float32)
    for i in range(X.shape[1]):
        y = X[:, i, None] * W[:, i] - lost
        new = out + y
        lost, out = (new - out) - y, new
    return out


def flipped(at: tuple[int, ...], bit: int) -> Fault:
    def fault(y: F32) -> F32:
        out = y.copy()
        out.view(np.uint32)[at] ^= np.uint32(1 << bit)
        return out

    return fault


def swapped(y: F32) -> F32:
    """Two channels change places."""
    out = y.copy()
    out[..., [2, 5]] = y[..., [5, 2]]
    return out


def noisy(size: float) -> Fault:
    return lambda y: (y * (1 + values(41, *y.shape) * np.float32(size))).astype(np.float32)


def put(x: F32, at: tuple[int, ...], value: float) -> F32:
    out = x.copy()
    out[at] = value
    return out


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], F32]] = {
    "linear": ("linear", {"x": X, "w": W}, {}, times(X, W)),
    "rms_norm": ("rms_norm", {"x": NORM_X, "w": NORM_W}, {"eps": 1e-5}, rms_norm(NORM_X, NORM_W, 1e-5)),
    "layer_norm": (
        "layer_norm",
        {"x": NORM_X, "w": NORM_W, "b": NORM_B},
        {"eps": 1e-5},
        layer_norm(NORM_X, NORM_W, NORM_B, 1e-5),
    ),
    "rope": (
        "rope",
        {"x": Q.reshape(5, 40), "pos": POS},
        {"heads": 4, "tables": TABLES},
        rope(Q, TABLES.at(POS)).reshape(5, 40),
    ),
    "scores": ("scores", {"q": Q, "k": K, "v": V, "pos": POS}, {"scale": SCALE}, S),
    "exp_scores": ("exp_scores", {"s": S, "pos": POS}, {}, E),
    "mix": ("mix", {"e": E, "denom": attend.denom(E), "v": V, "k": K}, {}, attend.mix(E, attend.denom(E), V)),
    "silu": ("silu", {"x": GATE}, {}, silu(GATE)),
    "add": ("add", {"x": GATE, "y": GATE[::-1].copy()}, {}, add(GATE, GATE[::-1])),
}  # fmt: skip

FAULTS: list[tuple[str, str, Fault]] = [
    ("linear", "lowest bit of one value", flipped((1, 3), 0)),
    ("linear", "middle bit of one value", flipped((2, 7), 12)),
    ("linear", "sign of one value", flipped((0, 0), 31)),
    ("linear", "one wrong weight element", lambda y: times(X, put(W, (3, 9), 0.5))),
    ("linear", "one wrong activation", lambda y: times(put(X, (2, 9), 0.5), W)),
    ("linear", "two swapped channels", swapped),
    ("linear", "two swapped channels of x", lambda y: times(swapped(X), W)),
    ("linear", "chunk 100", lambda y: chunked(100)),
    ("linear", "chunk 48", lambda y: chunked(48)),
    ("linear", "compensated sums", lambda y: kahan()),
    ("linear", "last term lost", lambda y: times(X[:, :-1], W[:, :-1])),
    ("linear", "last two terms lost", lambda y: times(X[:, :128], W[:, :128])),
    ("linear", "a bias where there is none", lambda y: times(X, W, B)),
    ("linear", "noise of an ulp", noisy(1e-7)),
    ("linear", "a dead row", lambda y: put(y, (2,), 0.0)),
    ("rms_norm", "eps 3e-5", lambda y: rms_norm(NORM_X, NORM_W, 3e-3)),
    ("rms_norm", "divided by n - 1", lambda y: rms_norm(NORM_X * np.float32((130 / 129) ** 0.5), NORM_W, 1e-5)),
    ("rms_norm", "two swapped channels", swapped),
    ("rms_norm", "noise", noisy(1e-6)),
    ("layer_norm", "bias left out", lambda y: layer_norm(NORM_X, NORM_W, 0 * NORM_B, 1e-5)),
    ("layer_norm", "the mean left in", lambda y: add(rms_norm(NORM_X, NORM_W, 1e-5), np.broadcast_to(NORM_B, y.shape))),
    ("rope", "another theta", lambda y: rope(Q, RopeTables(5000.0, 8).at(POS)).reshape(y.shape)),
    ("rope", "rotary width 10", lambda y: rope(Q, RopeTables(10000.0, 10).at(POS)).reshape(y.shape)),
    ("rope", "positions + 2", lambda y: rope(Q, TABLES.at(POS + 2)).reshape(y.shape)),
    ("scores", "another scale", lambda y: attend.scores(Q, K, SEEN, np.float32(0.3))),
    ("scores", "a window of 3", lambda y: attend.scores(Q, K, attend.seen(POS, 8, 3), np.float32(SCALE))),
    ("exp_scores", "base 2", lambda y: np.where(SEEN, np.exp2(S - S.max(-1, keepdims=True)), 0).astype(np.float32)),
    ("mix", "one value lost", lambda y: attend.mix(E, attend.denom(E), put(V, (4,), 0.0))),
    ("mix", "heads in reverse", lambda y: y[:, ::-1].copy()),
    ("silu", "1.702 approximation", lambda y: (GATE / (1 + np.exp(-np.float32(1.702) * GATE))).astype(np.float32)),
    ("silu", "lowest bit of one value", flipped((3, 3), 0)),
    ("add", "y twice", lambda y: y + GATE[::-1]),
    ("add", "rows of y in another order", lambda y: add(GATE, GATE[[3, 1, 4, 0, 5, 2]])),
]


@pytest.mark.parametrize(("case", "what", "fault"), FAULTS, ids=[f"{case}: {what}" for case, what, _ in FAULTS])
def test_no_fault_outside_the_menu_gets_a_name(case: str, what: str, fault: Fault) -> None:
    op, inputs, numbers, right = CASES[case]
    found = explain(op, inputs, fault(right), numbers)
    assert found.differing > 0
    assert found.verdict == "not explained", found.text()
    assert found.causes == ()
    assert "no variant reproduces every byte" in found.text()


@pytest.mark.parametrize("case", CASES)
def test_no_contract_result_is_called_a_difference(case: str) -> None:
    op, inputs, numbers, right = CASES[case]
    assert explain(op, inputs, right, numbers).verdict == "identical"


@pytest.mark.parametrize("seed", range(12))
def test_no_fit_by_luck_gets_a_name(seed: int) -> None:
    """A norm of three rows has three roots: an order of addition that is not on the menu gives what one of forty others
    gives often enough, and that must not count."""
    x, w = values(50 + seed, 3, 300), values(35, 300)
    t = x * x
    sums = [np.add.accumulate(t[:, i : i + 100], axis=-1)[:, -1] for i in (0, 100, 200)]
    root = np.float32(1) / np.sqrt(((sums[0] + sums[1]) + sums[2]) / np.float32(300) + np.float32(1e-5))
    found = explain("rms_norm", {"x": x, "w": w}, (x * root[:, None]) * w, {"eps": 1e-5})
    assert found.verdict != "explained", found.text()


def test_no_single_value_is_enough_for_a_name() -> None:
    x, w = values(60, 1, 300), values(61, 1, 300)
    one = OPS["linear"].function(Recipe(order="sequential"), {"x": x, "w": w}, {})
    found = explain("linear", {"x": x, "w": w}, one)
    assert found.verdict == "undecided"
    assert ("order sequential",) in found.causes
    assert "too few values differ" in found.text()


def test_no_nan_is_reproduced() -> None:
    op, inputs, numbers, right = CASES["add"]
    found = explain(op, inputs, np.full_like(right, np.nan), numbers)
    assert (found.verdict, found.candidates[0].reproduced) == ("not explained", 0)


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("linear", {"x": X}, "Expected w for linear but got x"),
        ("gelu", {"x": X}, "Expected an op among linear, "),
        ("rms_norm", {"x": NORM_X, "w": NORM_W}, "Expected eps for rms_norm but got x, w"),
        ("linear", {"x": X, "w": W}, "Expected observed f32 [4, 12] of linear but got float32 [2]"),
    ],
)
def test_no_call_that_cannot_be_meant_goes_on(op: str, inputs: dict[str, F32], message: str) -> None:
    with pytest.raises(UsageError, match="^" + message.replace("[", r"\[")):
        explain(op, inputs, np.zeros(2, np.float32))
