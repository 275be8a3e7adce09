"""Bit patterns, distances and texts. Expected values: IEEE 754 by hand, NumPy's own ordering."""

import numpy as np
import pytest

from gnomon.compare import bits
from gnomon.compare.bits import BF16, FORMATS, format_of
from gnomon.reference.errors import UsageError

F32, F16, F64 = FORMATS["float32"], FORMATS["float16"], FORMATS["float64"]


def pattern(value, dtype=np.float32):
    return bits.patterns(np.array([value], dtype))


@pytest.mark.parametrize("dtype", [name for name in FORMATS if name != "bool"])
def test_neighbours_are_one_apart(dtype):
    form = FORMATS[dtype]
    if form.kind == "float":
        x = np.array([-3.5, -1.0, 0.0, 1.0, 1.9999, 1e-3], dtype)
        y = np.nextafter(x, np.array(np.inf, dtype))
    else:
        x = np.array([0, 1, 5, np.iinfo(dtype).max - 1], dtype)
        y = x + np.array(1, dtype)
    distance = bits.ulp_distance(bits.patterns(y), bits.patterns(x), form)
    assert distance.tolist() == [1] * len(x)


def test_every_half_has_its_place_in_the_order():
    every = np.arange(1 << 16, dtype=np.uint16)
    finite = every[np.isfinite(every.view(np.float16))]
    by_value = finite[np.argsort(finite.view(np.float16), kind="stable")]
    steps = np.diff(bits.ordinal(by_value, F16).astype(np.int64))
    assert np.count_nonzero(steps == 0) == 1  # -0 and +0
    assert set(steps.tolist()) == {0, 1}


def test_every_bf16_has_its_place_in_the_order():
    every = np.arange(1 << 16, dtype=np.uint32)
    widened = (every << 16).view(np.float32)
    finite = every[np.isfinite(widened)]
    by_value = finite[np.argsort(widened[np.isfinite(widened)], kind="stable")].astype(np.uint16)
    assert set(np.diff(bits.ordinal(by_value, BF16).astype(np.int64)).tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("dtype", "low", "high", "distance"),
    [
        ("int64", -(1 << 63), (1 << 63) - 1, (1 << 64) - 1),
        ("int8", -128, 127, 255),
        ("uint64", 0, (1 << 64) - 1, (1 << 64) - 1),
        ("float64", -np.finfo(np.float64).max, np.finfo(np.float64).max, 2 * 0x7FEF_FFFF_FFFF_FFFF),
        ("float32", -(2.0**-149), 2.0**-149, 2),
        ("float16", -0.0, 0.0, 0),
    ],
)
def test_the_widest_distance_does_not_overflow(dtype, low, high, distance):
    a, b = bits.patterns(np.array([low], dtype)), bits.patterns(np.array([high], dtype))
    assert bits.ulp_distance(a, b, FORMATS[dtype]).tolist() == [distance]
    assert bits.ulp_distance(b, a, FORMATS[dtype]).tolist() == [distance]


def test_an_ulp_is_of_the_stored_type():
    one, above = np.array([1.0, 1.0078125], np.float32)  # one step of bf16 above 1, 65536 steps of f32
    assert bits.ulp_distance(pattern(one), pattern(above), F32).tolist() == [65536]
    narrow = np.array([0x3F80, 0x3F81], np.uint16)
    assert bits.ulp_distance(narrow[:1], narrow[1:], BF16).tolist() == [1]


def test_patterns_do_not_depend_on_the_layout_in_memory():
    x = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.1
    expected = x.view(np.uint32)
    for same in (x.astype(">f4"), np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        assert bits.patterns(same).tolist() == expected.tolist()
    assert bits.patterns(x).base is not None  # a view where the layout allows it
    assert bits.patterns(np.float32(1.0)).shape == ()
    assert bits.patterns(np.zeros((0, 3), np.float16)).shape == (0, 3)


@pytest.mark.parametrize("form", [F64, F32, F16, BF16], ids=lambda f: f.name)
def test_the_classes_of_floats_are_told_apart(form):
    infinity = ((1 << form.exponent) - 1) << form.mantissa
    sign = 1 << (form.bits - 1)
    one = ((1 << (form.exponent - 1)) - 1) << form.mantissa
    p = np.array([0, sign, 1, one, infinity, infinity | sign, infinity | 1], f"u{form.bits // 8}")
    assert bits.is_zero(p, form).tolist() == [True, True, False, False, False, False, False]
    assert bits.is_finite(p, form).tolist() == [True, True, True, True, False, False, False]
    assert bits.is_one(p, form).tolist() == [False, False, False, True, False, False, False]
    assert bits.number(one, form) == 1.0


@pytest.mark.parametrize(
    ("form", "pattern", "decimal", "hexadecimal", "text", "strip"),
    [
        (F32, 0x3DCCCCCD, "0.1", "0x1.99999ap-4", "0x3dcccccd", "0|01111011|10011001100110011001101"),
        (F32, 0x80000000, "-0.0", "-0x0p+0", "0x80000000", "1|00000000|" + "0" * 23),
        (F32, 0x00000001, "1e-45", "0x1p-149", "0x00000001", "0|00000000|" + "0" * 22 + "1"),
        (F32, 0x7FC00001, "nan", "nan", "0x7fc00001", "0|11111111|1" + "0" * 21 + "1"),
        (F32, 0xFF800000, "-inf", "-inf", "0xff800000", "1|11111111|" + "0" * 23),
        (F32, 0x3F800000, "1.0", "0x1p+0", "0x3f800000", "0|01111111|" + "0" * 23),
        (F16, 0x3C01, "1.001", "0x1.004p+0", "0x3c01", "0|01111|0000000001"),
        (F64, 0x3FF8000000000000, "1.5", "0x1.8p+0", "0x3ff8000000000000", "0|01111111111|1" + "0" * 51),
        (BF16, 0x3DCD, "0.1", "0x1.9ap-4", "0x3dcd", "0|01111011|1001101"),
        (BF16, 0x7F7F, "3.39e+38", "0x1.fep+127", "0x7f7f", "0|11111110|1111111"),
        (BF16, 0x0001, "9e-41", "0x1p-133", "0x0001", "0|00000000|0000001"),
        (BF16, 0x8000, "-0.0", "-0x0p+0", "0x8000", "1|00000000|0000000"),
        (BF16, 0xC040, "-3.0", "-0x1.8p+1", "0xc040", "1|10000000|1000000"),
        (FORMATS["int8"], 0xFB, "-5", "-0x5", "0xfb", "11111011"),
        (FORMATS["uint16"], 0x0102, "258", "0x102", "0x0102", "0000000100000010"),
        (FORMATS["bool"], 1, "1", "0x1", "0x01", "00000001"),
    ],
)
def test_no_form_of_a_number_loses_a_bit(form, pattern, decimal, hexadecimal, text, strip):
    assert bits.decimal(pattern, form) == decimal
    assert bits.hex_float(pattern, form) == hexadecimal
    assert bits.bit_text(pattern, form) == text
    assert bits.bit_strip(pattern, form) == strip


def test_the_decimal_of_a_bf16_reads_back():
    every = np.arange(0, 0x7F80, 11, dtype=np.uint32)  # all mantissas, all exponents
    for sign in (0, 0x8000):
        patterns = every | sign
        read = np.array([float(bits.decimal(int(p), BF16)) for p in patterns])
        size = np.abs(read).astype(np.float32).view(np.uint32)  # nine digits or fewer: f32 loses nothing that matters
        nearest = (size + 0x7FFF + ((size >> 16) & 1)) >> 16
        assert (nearest == every).all()


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1j]), np.array([None])], ids=["str", "complex", "object"])
def test_what_holds_no_numbers_is_refused(array):
    with pytest.raises(UsageError, match=r"Expected an array of floats, integers or booleans but got dtype="):
        format_of(array)


def test_bf16_is_a_name_for_uint16_only():
    assert format_of(np.zeros(1, np.uint16), "bf16") is BF16
    assert format_of(np.zeros(1, np.uint16)).name == "u16"
    assert format_of(np.zeros(1, np.float32), "bf16").name == "f32"
