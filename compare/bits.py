"""Numbers as bit patterns: distance in ulp of the stored type, hexadecimal floats, shortest decimals, strips.

A tensor is looked at as an array of unsigned integers, so nothing here rounds, and NaN, -0.0 and bf16 (which
NumPy lacks: a uint16 array plus the name "bf16") are patterns like any other.
"""

import struct
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.errors import UsageError

Uint16 = Literal["u16", "bf16"]
Patterns = NDArray[np.unsignedinteger[Any]]  # uint8 .. uint64, the shape of the tensor


@dataclass(frozen=True)
class Format:
    """A stored type. A float has `exponent` and `mantissa` bits below its sign bit."""

    name: str
    kind: Literal["float", "signed", "unsigned"]
    bits: int
    exponent: int = 0
    mantissa: int = 0


FORMATS = {
    "float64": Format("f64", "float", 64, 11, 52),
    "float32": Format("f32", "float", 32, 8, 23),
    "float16": Format("f16", "float", 16, 5, 10),
    "int64": Format("i64", "signed", 64),
    "int32": Format("i32", "signed", 32),
    "int16": Format("i16", "signed", 16),
    "int8": Format("i8", "signed", 8),
    "uint64": Format("u64", "unsigned", 64),
    "uint32": Format("u32", "unsigned", 32),
    "uint16": Format("u16", "unsigned", 16),
    "uint8": Format("u8", "unsigned", 8),
    "bool": Format("bool", "unsigned", 8),
}
BF16 = Format("bf16", "float", 16, 8, 7)
SETTLED = {"f32": (127 - 50) << 23, "bf16": (127 - 50) << 7}  # 2^-50: the contract makes smaller numbers zero


def format_of(array: NDArray[Any], uint16: Uint16 = "u16") -> Format:
    """The stored type of an array; uint16: what a uint16 array holds. Raises UsageError for others."""
    form = FORMATS.get(array.dtype.name)
    if form is None:
        raise UsageError(
            f"Expected an array of floats, integers or booleans but got dtype={array.dtype}; "
            "pass bf16 as uint16 with uint16='bf16'"
        )
    return BF16 if form.name == "u16" and uint16 == "bf16" else form


def patterns(array: NDArray[Any]) -> Patterns:
    """The bit patterns in C order, lowest byte first in memory; no copy where the array is laid out so."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(array.shape).view(f"<u{array.dtype.itemsize}")


def is_zero(bits: Patterns, form: Format) -> NDArray[np.bool_]:
    """+0 and, for floats, -0"""
    zero: NDArray[np.bool_] = (bits & _magnitude(form)) == 0
    return zero


def is_finite(bits: Patterns, form: Format) -> NDArray[np.bool_]:
    """Neither NaN nor infinity; integers always are."""
    if form.kind != "float":
        return np.ones(bits.shape, np.bool_)
    exponent = ((1 << form.exponent) - 1) << form.mantissa
    finite: NDArray[np.bool_] = (bits & exponent) != exponent
    return finite


def is_one(bits: Patterns, form: Format) -> NDArray[np.bool_]:
    """Exactly 1"""
    bias = (1 << (form.exponent - 1)) - 1 if form.kind == "float" else 1
    one: NDArray[np.bool_] = bits == bias << form.mantissa
    return one


def ordinal(bits: Patterns, form: Format) -> NDArray[np.uint64]:
    """Neighbouring numbers of the type get neighbouring integers, in order; -0.0 and +0.0 get the same one.

    Sign and magnitude (floats) and two's complement (signed integers) both become an offset from 2^63.
    """
    middle = np.uint64(1 << 63)
    if form.kind == "unsigned":
        return bits.astype(np.uint64)
    if form.kind == "signed":
        return bits.view(f"<i{form.bits // 8}").astype(np.int64).view(np.uint64) ^ middle
    size = (bits & _magnitude(form)).astype(np.uint64)
    return np.where(bits >> (form.bits - 1), middle - size, middle + size)


def ulp_distance(observed: Patterns, expected: Patterns, form: Format) -> NDArray[np.uint64]:
    """How many numbers of the type lie between, end included. Without meaning for NaN and infinity."""
    o, e = ordinal(observed, form), ordinal(expected, form)
    return np.where(o >= e, o - e, e - o)


def is_negative(bits: Patterns, form: Format) -> NDArray[np.bool_]:
    """The sign bit of a float."""
    negative: NDArray[np.bool_] = (bits >> (form.bits - 1)) != 0
    return negative


def comparable(observed: Patterns, expected: Patterns, form: Format) -> NDArray[np.bool_]:
    """Where a distance in ulp means something: one sign, and both above or both below the settle threshold.

    Two zeros are 0 apart. Integers always are comparable. Without meaning for NaN and infinity.
    """
    if form.kind != "float":
        return np.ones(observed.shape, np.bool_)
    zero = is_zero(observed, form), is_zero(expected, form)
    one_sign = is_negative(observed, form) == is_negative(expected, form)
    small = [(p & _magnitude(form)) < SETTLED.get(form.name, 0) for p in (observed, expected)]
    near: NDArray[np.bool_] = (zero[0] & zero[1]) | (one_sign & (zero[0] == zero[1]) & (small[0] == small[1]))
    return near


def absolute_error(observed: Patterns, expected: Patterns, form: Format) -> NDArray[np.float64]:
    """|observed - expected|, to show and to sort by: computed in float64. Without meaning for NaN and infinity."""
    if form.kind != "float":
        return ulp_distance(observed, expected, form).astype(np.float64)
    with np.errstate(all="ignore"):  # NaN, infinity, and the sum of two of the largest
        return np.abs(_values(observed, form) - _values(expected, form))


def number(bits: int, form: Format) -> float | int:
    """The number a pattern stands for; every float type fits a Python float exactly."""
    raw = bits.to_bytes(form.bits // 8, "little")
    if form.kind != "float":
        return int.from_bytes(raw, "little", signed=form.kind == "signed")
    if form is BF16:
        raw = b"\0\0" + raw
    value: float = struct.unpack({8: "<d", 4: "<f", 2: "<e"}[len(raw)], raw)[0]
    return value


def decimal(bits: int, form: Format) -> str:
    """The shortest decimal that reads back as this number in its own type."""
    value = number(bits, form)
    if form.kind != "float" or value != value or value in (float("inf"), -float("inf")):
        return str(value)
    if form is not BF16:
        return str(np.dtype(f"<f{form.bits // 8}").type(value))
    for digits in range(1, 10):
        text = str(float(f"{value:.{digits}g}"))
        if _reads_back(float(text), bits):
            return text
    raise AssertionError("nine digits tell any two bf16 values apart")


def hex_float(bits: int, form: Format) -> str:
    """C's hexadecimal notation, without trailing zeros: 0x1.8p+1; an integer in hexadecimal digits"""
    value = number(bits, form)
    if isinstance(value, int):
        return hex(value)
    head, p, power = value.hex().partition("p")
    return (head.rstrip("0").rstrip(".") if "." in head else head) + p + power


def bit_text(bits: int, form: Format) -> str:
    """0x3f800000: the pattern at its full width"""
    return f"0x{bits:0{form.bits // 4}x}"


def bit_strip(bits: int, form: Format) -> str:
    """sign|exponent|mantissa in binary; the plain binary pattern of an integer"""
    text = f"{bits:0{form.bits}b}"
    if form.kind != "float":
        return text
    return f"{text[0]}|{text[1 : 1 + form.exponent]}|{text[1 + form.exponent :]}"


def _values(bits: Patterns, form: Format) -> NDArray[np.float64]:
    """The numbers that patterns of a float type stand for; each fits a float64."""
    if form is BF16:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(f"<f{form.bits // 8}").astype(np.float64)


def _magnitude(form: Format) -> int:
    """Mask of every bit that counts towards being zero."""
    return (1 << (form.bits - (form.kind == "float"))) - 1


def _reads_back(value: float, bits: int) -> bool:
    """Whether bf16 pattern `bits` is nearest to `value`; midpoints are left out, so ties need no rule."""
    size = bits & 0x7FFF
    here, above = _bf16(size), _bf16(size + 1)
    below = _bf16(size - 1) if size else -above
    above = above if above != float("inf") else 2.0**128  # where the next bf16 would stand
    return (below + here) / 2 < abs(value) < (here + above) / 2


def _bf16(bits: int) -> float:
    return float(number(bits, BF16))
