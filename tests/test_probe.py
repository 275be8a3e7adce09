"""The batteries of the probe: each is seen to report a planted deviation by its name, and none is accused in vain."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gnomon.cli import main
from gnomon.cli.gate import settings
from gnomon.compare.probe import CASES, on_device, probe
from gnomon.compare.probe_batteries import BATTERIES
from gnomon.compare.probe_cases import Finding, examine
from gnomon.compare.probe_short import refuse_inexact, short_probe
from gnomon.compare.probe_told import SPECIAL
from gnomon.reference.device import Device
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import Ops
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen
from probing import (
    device,
    flushed,
    flushing_inputs,
    flushing_products,
    flushing_results,
    fused,
    fused_cross,
    one_ulp_up,
)

N = 256


def rounded_by_adding_a_half(x: np.ndarray) -> np.ndarray:
    return np.floor(x + np.float32(0.5))


def chopped(x: np.ndarray) -> np.ndarray:
    """To bf16 without rounding"""
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def narrow(u: np.ndarray) -> np.ndarray:
    """f16 by a device that flushes the subnormals of f16"""
    wide = u.view(np.float16).astype(np.float32)
    return np.where(np.abs(wide) < 2.0**-14, np.copysign(np.float32(0), wide), wide)


def estimated(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x) by the bit trick and three steps of Newton's, as -ffast-math and GPUs do it"""
    y = (np.uint32(0x5F3759DF) - (x.view(np.uint32) >> 1)).view(np.float32)
    for _ in range(3):
        y = y * (np.float32(1.5) - np.float32(0.5) * x * y * y)
    return y


def by_reciprocal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * (np.float32(1) / b)


def through_doubles(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x) rounded once"""
    return (1 / np.sqrt(x.astype(np.float64))).astype(np.float32)


def toward_zero(f: Callable[..., Any]) -> Callable[..., Any]:
    """f of double precision, cut off instead of rounded"""

    def cut(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = f(a.astype(np.float64), b.astype(np.float64))
        near = exact.astype(np.float32)
        return np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)

    return cut


def as_f32(i: np.ndarray) -> np.ndarray:
    """int32 to f32 in two halves, rounded twice"""
    return (i >> 1).astype(np.float32) * np.float32(2) + (i & 1).astype(np.float32)


def at_the_end(f: Callable[..., Any], wrong: Callable[..., Any]) -> Callable[..., Any]:
    """A vector loop that is right, and a scalar tail that is not"""

    def both(*arrays: np.ndarray) -> np.ndarray:
        whole = len(arrays[0]) // 8 * 8
        return np.concatenate([f(*(a[:whole] for a in arrays)), wrong(*(a[whole:] for a in arrays))])

    return both


# battery, the planted operations, what the battery must call them
PLANTED: list[tuple[str, str, dict[str, Callable[..., Any]]]] = [
    ("contraction", "fused", {"mul_add": fused}),
    ("contraction", "mul_add unfused, cross fused left", {"cross": fused_cross}),
    ("contraction", "fused right", {"cross": lambda a, b, c, d: fused(-c, d, a * b)}),
    ("contraction", "partly fused", {"mul_add": at_the_end(lambda a, b, c: a * b + c, fused)}),
    ("contraction", "differs", {"mul_add": lambda a, b, c: np.zeros_like(a)}),
    ("order of a written sum", "reassociated", {"kept_order": lambda a, b: a}),
    ("rounding", "add differs, mul exact", {"add": toward_zero(np.add)}),
    ("rounding", "add exact, mul differs", {"mul": toward_zero(np.multiply)}),
    ("division", "differs", {"div": one_ulp_up(np.divide)}),
    ("division", "differs", {"div": one_ulp_up(np.divide, lambda a, b: a.view(np.uint32) % 97 == 0)}),
    ("division", "differs", {"div": by_reciprocal}),
    ("division", "differs", {"div": lambda a, b: a.astype(np.float64) / b}),
    ("square root", "differs", {"sqrt": one_ulp_up(np.sqrt)}),
    ("square root", "differs", {"sqrt": lambda x: x * estimated(x)}),
    ("1 / sqrt", "differs", {"inverse_sqrt": estimated}),
    ("1 / sqrt", "rounded once", {"inverse_sqrt": through_doubles}),
    ("rsqrt", "rounded once", {"rsqrt": through_doubles}),
    ("rsqrt", "differs", {"rsqrt": estimated}),
    ("integers", "from_int exact, to_int exact, rint differs", {"rint": rounded_by_adding_a_half}),
    ("integers", "from_int differs, to_int exact, rint exact", {"from_int": as_f32}),
    (
        "integers",
        "from_int exact, to_int differs, rint exact",
        {"to_int": lambda x: x.astype(np.int16).astype(np.int32)},
    ),
    ("f16 widening", "subnormals flushed", {"from_f16": narrow}),
    ("bf16", "from_bf16 exact, to_bf16 differs", {"to_bf16": chopped}),
    (
        "subnormal inputs",
        "flushed",
        {n: flushing_inputs(getattr(np, f)) for n, f in (("mul", "multiply"), ("add", "add"))},
    ),
    ("subnormal results", "flushed after rounding", {"mul": flushing_results(np.multiply)}),
    ("subnormal results", "flushed before rounding", {"mul": flushing_products}),
    ("subnormal results", "add flushed", {"add": flushing_results(np.add)}),
    ("exp", "differs", {"exp": one_ulp_up(np.exp)}),
    ("signed zeros", "differs", {"add": lambda a, b: np.abs(a + b)}),
    ("signed zeros", "differs", {"sqrt": lambda x: np.sqrt(x) + np.float32(0)}),
    ("NaN operands", "NaN loses", {"maximum": np.fmax}),
    ("NaN operands", "the second wins", {"maximum": lambda a, b: np.where(a > b, a, b)}),
    ("NaN operands", "the first wins", {"minimum": lambda a, b: np.where(b < a, b, a)}),
]


def found_on(planted: Device, battery: str, n: int = N) -> Finding:
    findings = [examine(b, planted, n) for b in BATTERIES] + [special(planted) for special in SPECIAL]
    return next(f for f in findings if f is not None and f.battery == battery)


@pytest.mark.parametrize(
    ("battery", "word", "planted"), PLANTED, ids=[f"{b}: {w}: {next(iter(p))}" for b, w, p in PLANTED]
)
def test_no_deviation_goes_unreported(battery: str, word: str, planted: dict[str, Callable[..., Any]]) -> None:
    found = found_on(device(**planted), battery)

    assert word in found.word
    needed = any(b.needed for b in BATTERIES if b.name == battery)
    assert found.verdict == ("FAIL" if needed else "told")
    if battery != "NaN operands":
        assert found.differ > 0
        assert next(name for name in planted if name in found.detail)


NEEDED = [(b, p) for b, _, p in PLANTED if any(x.needed for x in BATTERIES if x.name == b)]


@pytest.mark.parametrize(
    ("battery", "planted"), NEEDED, ids=[f"{b}: {next(iter(p))} {i}" for i, (b, p) in enumerate(NEEDED)]
)
def test_no_engine_starts_with_a_deviation_that_matters(battery: str, planted: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(NotRunError, match=f"but {battery} is .*`gnomon probe -e planted`"):
        refuse_inexact("planted", [device(**planted)])


def test_no_flush_stops_an_engine() -> None:
    """The contract settles below 2^-50, so a device that flushes computes the same bytes."""
    flushing = device(
        add=flushing_results(flushing_inputs(np.add)),
        mul=flushing_results(flushing_inputs(np.multiply)),
        from_bf16=lambda u: flushed((u.astype(np.uint32) << 16).view(np.float32)),
    )
    assert short_probe([flushing]) == []
    assert {f.verdict for f in on_device(flushing, N)} == {"PASS", "told"}


def test_nothing_of_the_library_stops_an_engine() -> None:
    """A compiled graph that fuses is told, and no byte of the engine comes from it."""
    graph = Device("compiled graph", {}, {"mul_add": fused})
    assert short_probe([graph]) == []
    found = next(f for f in on_device(graph, N) if f.battery == "contraction")
    assert (found.verdict, found.word) == ("told", "fused")


def test_no_engine_is_accused_in_vain(ops: Ops[Any]) -> None:
    assert short_probe(ops.devices()) == []
    found = probe("engine", ops)
    assert found.exit_code == 0, found.to_json()
    own = found.findings[ops.devices()[0].way]
    assert len(own) >= 13
    assert sum(f.cases for f in own) > 20 * CASES


def test_no_missing_operation_passes() -> None:
    class WithoutRoots(NumpyOps):
        def devices(self) -> tuple[Device, ...]:
            own = device()
            return (Device("arrays", {n: f for n, f in own.operations.items() if n != "sqrt"}, {}),)

    found = probe("incomplete", WithoutRoots(), N)
    assert found.exit_code == 3
    assert [f.battery for f in found.findings["arrays"] if f.verdict == "NOT RUN"] == ["square root: sqrt"]


def test_no_other_order_of_the_own_linear_passes() -> None:
    class Pairwise(NumpyOps):
        def pack(self, weight: Weight) -> Any:
            return widen(weight)

        def linear(self, at: str, x: Any, w: Any, b: Any = None) -> Any:
            return (x[:, None] * w).sum(axis=-1)

    found = probe("pairwise", Pairwise(), N).findings["linear"]
    assert [(f.verdict, f.detail) for f in found] == [("FAIL", "expected: chunk 128")] * 2
    assert found[0].word.startswith("K=300 (([lanes 8 neighbours 0..71] + ")


def test_no_linear_that_adds_by_row_count_passes() -> None:
    class Backwards(NumpyOps):
        def linear(self, at: str, x: Any, w: Any, b: Any = None) -> Any:
            return super().linear(at, x, w, b) if len(x) > 1 else np.array([[np.nan]])

    found = probe("by row count", Backwards(), N).findings["linear"]
    assert [(f.battery, f.verdict) for f in found] == [("sum order, one row", "FAIL"), ("sum order, many rows", "PASS")]


def test_no_engine_without_operations_passes() -> None:
    class Silent(NumpyOps):
        def devices(self) -> tuple[Device, ...]:
            return ()

    with pytest.raises(NotRunError, match=r"no devices\(\)"):
        probe("silent", Silent())


def test_equal_arithmetic_has_an_equal_fingerprint_and_another_has_another() -> None:
    class Fused(NumpyOps):
        def devices(self) -> tuple[Device, ...]:
            return (device(mul_add=fused),)

    one, again, other = (probe("engine", ops, N) for ops in (NumpyOps(), NumpyOps(), Fused()))
    assert one.sha256 == again.sha256 != other.sha256
    assert other.exit_code == 1
    json.dumps(other.for_receipt())


def planted_engine(model: Any) -> Engine[Any]:
    class Fused(NumpyOps):
        def devices(self) -> tuple[Device, ...]:
            return (device(mul_add=lambda a, b, c: (a.astype(np.float64) * b + c).astype(np.float32)),)

    return Engine("planted", model, Fused())


@pytest.mark.parametrize(("engine", "code"), [("numpy", 0), ("test_probe:planted_engine", 1), ("nothing", 2)])
def test_the_exit_code_is_the_verdict(
    engine: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gnomon", "probe", "-e", engine])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == code
    out = capsys.readouterr().out
    if code == 0:
        assert "numpy: the contract can stand on it; fingerprint " in out
    if code == 1:
        assert "arrays, contraction: mul_add at [0]: " in out
        assert "planted: not exact; fingerprint " in out


def test_json_is_one_object_an_engine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["gnomon", "probe", "-e", "numpy", "-e", "test_probe:planted_engine", "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(o["engine"], o["verdict"], len(o["sha256"])) for o in told] == [
        ("numpy", "PASS", 64),
        ("planted", "FAIL", 64),
    ]


def test_a_receipt_holds_the_fingerprint() -> None:
    told = settings("numpy")["probe"]
    assert told["arrays"]["contraction"] == "unfused"
    assert len(told["sha256"]) == 64
