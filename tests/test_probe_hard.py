"""A fault on one input alone is seen by the start of an engine and the full probe, in a vector loop and in its tail."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from gnomon.compare import probe_hard as hard
from gnomon.compare.probe_batteries import BATTERIES
from gnomon.compare.probe_cases import examine
from gnomon.compare.probe_short import refuse_inexact, short_probe
from gnomon.reference.errors import NotRunError
from probing import device
from reciprocals import above, below, by_steps

ONE = np.float32(1.0)
MANTISSA = np.uint32(0x7FFFFF)


def f32(*words: int) -> np.ndarray:
    return np.array(words, np.uint32).view(np.float32)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def only_at(f: Callable[..., Any], *words: int, mantissa: bool = False, to: int = 1) -> Callable[..., Any]:
    """f, off by `to` last places where the inputs are these bits, or, scaled by a power of two, their mantissas"""

    def wrong(*arrays: np.ndarray) -> Any:
        y = np.array(f(*arrays))
        mask = MANTISSA if mantissa else np.uint32(0xFFFFFFFF)
        given = [np.ascontiguousarray(a).view(f"u{a.itemsize}") & mask for a in arrays]
        seen = [a == (w & mask) for a, w in zip(given, words, strict=True)]
        y.view(f"u{y.itemsize}")[np.logical_and.reduce(seen)] += np.array(to).astype(f"u{y.itemsize}")
        return y

    return wrong


def magic_rint(x: np.ndarray) -> np.ndarray:
    """By adding 1.5 * 2^23, which is right below 2^22 only"""
    big = np.float32(1.5 * 2.0**23)
    return (x + big) - big


def half_added(x: np.ndarray) -> np.ndarray:
    """floor(x + 0.5), ties mended: the neighbour of 0.5 is left, and every odd integer from 2^23 on"""
    up = np.floor(x + np.float32(0.5))
    return np.where(x - np.floor(x) == np.float32(0.5), np.rint(x), up)


def tie_away(x: np.ndarray) -> np.ndarray:
    return ((x.view(np.uint32) + np.uint32(0x8000)) >> 16).astype(np.uint16)


def without_sticky(f: Callable[..., Any]) -> Callable[..., Any]:
    """A sum or product cut to 26 bits, which is then rounded: what lies further below breaks no tie"""

    def cut(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = f(a.astype(np.float64), b.astype(np.float64))
        mantissa, exponent = np.frexp(exact)
        return np.ldexp(np.trunc(mantissa * 2.0**26) / 2.0**26, exponent).astype(np.float32)

    return cut


def clipped(x: np.ndarray) -> np.ndarray:
    return np.maximum(x.astype(np.int64), -(2**31) + 1).astype(np.int32)


def widened(u: np.ndarray) -> np.ndarray:
    return u.view(np.float16).astype(np.float32)


def narrowed(x: np.ndarray) -> np.ndarray:
    word = x.view(np.uint32)
    return ((word + 0x7FFF + (word >> 16 & 1)) >> 16).astype(np.uint16)


# name: battery, operation, the planted one
FAULTS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "AMD's division by a reciprocal below": ("division", "div", by_steps(below)),
    "1 / sqrt by that division": ("1 / sqrt", "inverse_sqrt", lambda x: by_steps(below)(ONE, np.sqrt(x))),
    "a quotient of 1 by all ones": ("division", "div", only_at(np.divide, 0x3F800000, 0x3FFFFFFF, to=-1)),
    "quotients of powers of two by all ones": (
        "division",
        "div",
        only_at(np.divide, 0x3F800000, 0x3FFFFFFF, mantissa=True, to=-1),
    ),
    "a root just below 1": ("square root", "sqrt", only_at(np.sqrt, 0x3F7FFFFF)),
    "a root just above 1": ("square root", "sqrt", only_at(np.sqrt, 0x3F800001)),
    "a root just below 2": ("square root", "sqrt", only_at(np.sqrt, 0x407FFFFF)),
    "an exact root": ("square root", "sqrt", only_at(np.sqrt, 0x41100000, to=-1)),
    "1 / sqrt just below 4": ("1 / sqrt", "inverse_sqrt", only_at(lambda x: ONE / np.sqrt(x), 0x407FFFFF, to=-1)),
    "rint by adding 1.5 * 2^23": ("integers", "rint", magic_rint),
    "rint by adding a half": ("integers", "rint", half_added),
    "rint below one half": ("integers", "rint", only_at(np.rint, 0x3EFFFFFF, to=0x3F800000)),
    "rint of the largest half": ("integers", "rint", only_at(np.rint, 0x4AFFFFFF, to=-1)),
    "int to float at 2^24 + 1": ("integers", "from_int", only_at(lambda i: i.astype(np.float32), 2**24 + 1)),
    "int to float at 2^24 + 3": ("integers", "from_int", only_at(lambda i: i.astype(np.float32), 2**24 + 3, to=-1)),
    "int to float at the end": ("integers", "from_int", only_at(lambda i: i.astype(np.float32), 2**31 - 1, to=-1)),
    "float to int at -2^31": ("integers", "to_int", clipped),
    "bf16 ties away from even": ("bf16", "to_bf16", tie_away),
    "bf16 just above a tie": ("bf16", "to_bf16", only_at(narrowed, 0x3F808001, to=-1)),
    "bf16 just below a tie": ("bf16", "to_bf16", only_at(narrowed, 0x3F817FFF)),
    "bf16 with a carry into the exponent": ("bf16", "to_bf16", only_at(narrowed, 0x3FFF8000, to=-0x80)),
    "f16, its smallest": ("f16 widening", "from_f16", only_at(widened, 0x0001)),
    "f16, its largest subnormal": ("f16 widening", "from_f16", only_at(widened, 0x03FF)),
    "f16, its largest": ("f16 widening", "from_f16", only_at(widened, 0x7BFF)),
    "sums without a sticky bit": ("rounding", "add", without_sticky(np.add)),
    "products without a sticky bit": ("rounding", "mul", without_sticky(np.multiply)),
    "a sum at a tie below 1": ("rounding", "add", only_at(np.add, 0x3F800000, 0xB3000000, to=-1)),
    "a sum at 2^24 + 1": ("rounding", "add", only_at(np.add, 0x4B800000, 0x3F800000)),
    "a product that carries": ("rounding", "mul", only_at(np.multiply, 0x3FFFFFFF, 0x3F800001, to=-1)),
}


def in_the_tail(right: Callable[..., Any], wrong: Callable[..., Any]) -> Callable[..., Any]:
    """Eight at a time as it should be, the rest not"""

    def both(*arrays: np.ndarray) -> np.ndarray:
        whole = len(arrays[0]) // 8 * 8
        return np.concatenate([right(*(a[:whole] for a in arrays)), wrong(*(a[whole:] for a in arrays))])

    return both


@pytest.mark.parametrize("name", FAULTS)
def test_no_engine_starts_with_a_fault_on_one_input(name: str) -> None:
    battery, operation, wrong = FAULTS[name]
    with pytest.raises(NotRunError, match=f"but {battery} is .*first {operation} at "):
        refuse_inexact("planted", [device(**{operation: wrong})])


@pytest.mark.parametrize("n", [256, 4096])
@pytest.mark.parametrize("name", FAULTS)
def test_no_probe_passes_a_fault_on_one_input(name: str, n: int) -> None:
    battery, operation, wrong = FAULTS[name]
    found = examine(next(b for b in BATTERIES if b.name == battery), device(**{operation: wrong}), n)
    assert found is not None
    assert (found.verdict, found.detail.split(" at ")[0]) == ("FAIL", operation)


@pytest.mark.parametrize("operation", ["div", "inverse_sqrt"])
def test_no_fault_of_the_tail_alone_starts(operation: str) -> None:
    """The body of a vector loop may divide with an instruction that its scalar tail does not have."""
    name = "AMD's division by a reciprocal below" if operation == "div" else "1 / sqrt by that division"
    wrong = FAULTS[name][2]
    assert short_probe([device(**{operation: in_the_tail(device().operations[operation], wrong)})])


def test_no_sound_division_is_refused() -> None:
    """The same steps from the other neighbour, which is as far off: they give every quotient as it should be."""
    assert short_probe([device(div=by_steps(above), inverse_sqrt=lambda x: by_steps(above)(ONE, np.sqrt(x)))]) == []


def test_no_other_divisor_shows_the_reciprocal_below() -> None:
    """One divisor, and of the dividends by it the powers of two, so that a battery drawn at random misses it. Here are
    2^18 mantissas of each; all 2^23 were tried once, with the same result."""
    d = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)[-(1 << 18) :]
    assert bits(d[by_steps(below)(ONE, d) != ONE / d]).tolist() == [0x3FFFFFFF]
    n = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)[: 1 << 18]
    assert bits(n[by_steps(below)(n, f32(0x3FFFFFFF)) != n / f32(0x3FFFFFFF)]).tolist() == [0x3F800000]


def test_no_hard_quotient_or_root_is_expected_to_be_another() -> None:
    """By mpmath: the answers that the batteries hold, not the code that made them."""
    by_name = {c.operation: c for b in BATTERIES for c in b.make(21) if b.needed}
    div, root, inverse = by_name["div"], by_name["sqrt"], by_name["inverse_sqrt"]
    with mpmath.workprec(300):

        def once(value: mpmath.mpf) -> np.float32:
            with mpmath.workprec(24):
                return np.float32(float(+value))

        quotients = zip(*(a.tolist() for a in div.inputs), strict=True)
        expected = [once(mpmath.mpf(n) / mpmath.mpf(d)) for n, d in quotients]
        assert bits(np.array(expected)).tolist() == bits(div.expected).tolist()
        roots = [once(mpmath.sqrt(mpmath.mpf(x))) for x in root.inputs[0].tolist()]
        assert bits(np.array(roots)).tolist() == bits(root.expected).tolist()
        steps = [once(1 / mpmath.mpf(float(once(mpmath.sqrt(mpmath.mpf(x)))))) for x in inverse.inputs[0].tolist()]
        assert bits(np.array(steps)).tolist() == bits(inverse.expected).tolist()


def test_one_by_all_ones_is_told() -> None:
    """The known answer itself, and the root that leads to it"""
    n, d = hard.QUOTIENTS
    assert (n[0], d[0]) == (0x3F800000, 0x3FFFFFFF)
    assert bits(f32(0x3F800000) / f32(0x3FFFFFFF))[0] == 0x3F000001
    assert bits(np.sqrt(f32(0x407FFFFF)))[0] == 0x3FFFFFFF
