"""A fault on one value alone, at one place of one op, is seen by the shared op cases: places and faults one by one.

The reference is run with one division, settling or rounding of its op modules exchanged. Where no case can see a fault,
no bytes come of it, and SOUND says why.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases
import gnomon
from cases.values import neighbours
from gnomon.compare.check_op import check_op
from gnomon.compare.vectors import read_case, run_case
from gnomon.reference.numpy_ops import NumpyOps
from oracle import elementary, f32
from planted_sites import changed, places, planted
from reciprocals import below, by_steps

FLOOR = np.float32(2.0**-50)
WORDS = ("floor", "all ones", "tiny rows", "tiny heads", "ties of int8")
HARD = [case for case in cases.OPS + cases.ELEMENTARY if any(word in case.name for word in WORDS)]


def floor_taken(x: np.ndarray) -> np.ndarray:
    """<= in the place of <"""
    return np.where(np.abs(x) <= FLOOR, np.float32(0), x)


def place_below_kept(x: np.ndarray) -> np.ndarray:
    """The constant one place too small"""
    return np.where(np.abs(x) < np.nextafter(FLOOR, np.float32(0)), np.float32(0), x)


def away_from_zero(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(np.float32(0.5), x))


FAULTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "/": (by_steps(below),),
    "settle": (floor_taken, place_below_kept),
    "np.rint": (away_from_zero,),
}
HOST = "the engines share what the host computes"
TWO_SETTLED = "a sum of settled values is a multiple of 2^-73 and never the place below"
NO_BYTE = "the contract, section 2: this settling changes no byte"
SOUND = {
    "layer_norm, / 0": "the width is below 2^24 - 1",
    "layer_norm, / 1": "the width is below 2^24 - 1",
    "rms_norm, / 0": "the width is below 2^24 - 1",
    "quant, / 0": "the divisor is 127",
    "log1p01, / 0": "the divisor is from 2 to 3",
    **{f"scaled, / {i}": HOST for i in range(6)},
    "inverse_frequencies, / 0": HOST,
    "table, / 0": HOST,
    "sample, / 0": "no op of a table: its vector file sees it",
    **{f"{function}, settle {i}": HOST for function, i in (("table", 0), ("negative_a", 0))},
    **{f"{function}, settle 0": NO_BYTE for function in ("gelu_tanh", "log1p01", "exp_scores", "softmax")},
    "sample, settle 0": "exp_neg is 1 on both sides of the floor",
    "sample, settle 1": "exp_neg is 1 on both sides of the floor",
    "gated_norm, settle 0": "the op table makes it of rms_norm, silu and mul, whose cases see it",
    "causal_conv, settle 0": "silu halves it, and settles it again",
    "delta_decay, settle 1": "softplus is log 2 on both sides of the floor",
    "sigmoid, settle 0": "it is above e^-34.6, or +0.0",
    "softplus, settle 0": "it is above e^-34.6, or +0.0",
    "exp_neg, np.rint 0": "the two sides of a tie give the same bytes: the test below",
}
NEVER_BELOW = {
    **{f"{place}, settle 0": TWO_SETTLED for place in ("add",)},
    **{f"{place}, settle 1": TWO_SETTLED for place in ("int8_linear", "linear", "layer_norm")},
    "delta_rule, settle 3": TWO_SETTLED,
    "mix, settle 0": "the quotient by 1 or more is settled again",
    "route, settle 0": "the dividend is settled, and the divisor is 1 or less",
}
PLACES = {
    f"{name}: {fault.__name__}": (name, primitive, fault)
    for primitive, faults in FAULTS.items()
    for name in places(primitive)
    for fault in faults
}


@cache
def place(name: str, primitive: str) -> Any:
    return places(primitive)[name]


def unseen(name: str, fault: Callable[..., Any]) -> bool:
    return name in SOUND or (fault is place_below_kept and name in NEVER_BELOW)


def seen_by(name: str, primitive: str, fault: Callable[..., Any]) -> str:
    """The first case that sees it; "" where none does"""
    function, at = place(name, primitive)
    with planted(function, primitive, at, fault):
        for case in HARD:
            try:
                with np.errstate(all="ignore"):
                    case.check(NumpyOps())
            except AssertionError:
                return str(case)
    return ""


@pytest.mark.parametrize("planted_at", [key for key, (name, _, fault) in PLACES.items() if not unseen(name, fault)])
def test_no_fault_on_one_value_survives(planted_at: str) -> None:
    assert seen_by(*PLACES[planted_at])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("sigmoid, / 0", "sigmoid_ones"),
        ("sigmoid, / 0", "silu_ones"),
        ("sigmoid, / 0", "gelu_tanh_ones"),
        ("sigmoid, / 0", "swiglu_ones"),
        ("rms_norm, / 1", "rms_norm_ones"),
        ("rms_norm, / 1", "gated_norm_ones"),
        ("layer_norm, / 2", "layer_norm_ones"),
        ("l2_norm, / 0", "l2_norm_ones"),
        ("mix, / 0", "attention_ones"),
        ("quant, / 1", "kv_int8_ones"),
        ("quant, / 1", "linear_int8_ones"),
        ("route, / 0", "route_ones"),
        ("sample, / 0", "sample_ones"),
    ],
)
def test_no_self_test_passes_a_reciprocal_one_place_low(name: str, file: str) -> None:
    """The vector file alone sees it; the files that there were did not."""
    function, at = place(name, "/")
    path = Path(gnomon.__file__).parent / "vectors" / f"{file}.json"
    with planted(function, "/", at, by_steps(below)):
        assert run_case(*read_case(path), NumpyOps()).verdict == "FAIL"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, by_steps(below)) for name in ("sigmoid, / 0", "rms_norm, / 1")),
        *((f"{op}, settle 0", floor_taken) for op in ("add", "mul", "silu", "rms_norm")),
        *((f"{op}, settle 0", place_below_kept) for op in ("mul", "silu", "rms_norm")),
    ],
)
def test_no_kernel_of_a_user_passes_with_a_fault_on_one_value(name: str, fault: Callable[..., Any]) -> None:
    primitive = name.split()[1]
    function, at = place(name, primitive)
    found = check_op(function.__name__, changed(function, primitive, at, fault))
    assert found.verdict == "FAIL"
    assert "kind=hard" in found.case or "kind=tiny" in found.case


def test_no_reason_is_given_for_a_place_that_is_gone() -> None:
    names = {name for name, _, _ in PLACES.values()}
    assert set(SOUND) | set(NEVER_BELOW) <= names


def test_a_tie_of_the_exponential_has_the_same_bytes_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """All x with x * LOG2E halfway between two integers, so that no rint needs an answer there but a near one."""
    ties = [
        (n, x)
        for n in range(50)
        for x in neighbours(-(n + 0.5) / float(np.log2(np.e)), 40).tolist()
        if f32.mul(x, elementary.LOG2E) == -(n + 0.5)
    ]
    assert len(ties) == 54
    for n, x in ties:
        found = set()
        for side in (-float(n), -float(n + 1)):
            monkeypatch.setattr(elementary, "rint", lambda _, side=side: side)
            found.add(f32.bits(elementary.exp_neg(x)))
        assert len(found) == 1, x
