"""The integers behind the known answers: judged by exact rationals, and by inputs that are as hard as they claim."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from gnomon.compare import probe_exact as exact
from gnomon.compare import probe_inputs as draw

ROUNDED = [
    (Fraction(0), 0x00000000),
    (Fraction(1, 3), 0x3EAAAAAB),
    (Fraction(-1, 3), 0xBEAAAAAB),
    (Fraction(2**24 + 1), 0x4B800000),  # a tie, to the even one below
    (Fraction(2**24 + 3), 0x4B800002),  # a tie, to the even one above
    (Fraction(2**25 - 1), 0x4C000000),  # the carry runs into the exponent
    (Fraction(1, 2**149), 0x00000001),
    (Fraction(1, 2**150), 0x00000000),  # a tie with zero
    (Fraction(3, 2**151), 0x00000001),
    (Fraction(2**24 - 1, 2**150), 0x00800000),  # rounding lifts it out of the subnormals
    (Fraction(2**24 - 1) * 2**104, 0x7F7FFFFF),
    (Fraction(2**25 - 1) * 2**103, 0x7F800000),  # half a place above the largest
]


@pytest.mark.parametrize(("value", "bits"), ROUNDED, ids=[f"{bits:08x}" for _, bits in ROUNDED])
def test_no_other_rounding(value: Fraction, bits: int) -> None:
    assert exact.nearest(value.numerator, value.denominator) == bits


def value_of(word: int) -> Fraction:
    m, e = exact.parts(word)
    return m * Fraction(2) ** e


@pytest.mark.parametrize("operation", ["added", "subtracted", "multiplied", "divided"])
def test_no_float_is_nearer(operation: str) -> None:
    """The result is at most half a place away, and even at a tie."""
    apply = {
        "added": lambda x, y: x + y,
        "subtracted": lambda x, y: x - y,
        "multiplied": lambda x, y: x * y,
        "divided": lambda x, y: x / y,
    }[operation]
    for a, b in zip(draw.normals(300, 31, -12, 12).tolist(), draw.normals(300, 32, -12, 12).tolist(), strict=True):
        got = getattr(exact, operation)(a, b)
        right = apply(value_of(a), value_of(b))
        distance = abs(value_of(got) - right)
        for neighbour in (got - 1, got + 1):
            other = abs(value_of(neighbour) - right)
            assert distance < other or (distance == other and got % 2 == 0)


def test_no_root_is_nearer() -> None:
    for word in draw.normals(300, 33, -40, 40, signed=False).tolist():
        root, inverse = value_of(exact.rooted(word)), value_of(exact.inverse_rooted(word))
        place, small = Fraction(2) ** (exact.parts(exact.rooted(word))[1] - 1), exact.parts(exact.inverse_rooted(word))
        assert (root - place) ** 2 < value_of(word) < (root + place) ** 2
        half = Fraction(2) ** (small[1] - 1)
        assert (inverse - half) ** 2 < 1 / value_of(word) < (inverse + half) ** 2


def test_every_f16_is_widened_as_numpy_widens_it() -> None:
    u = np.arange(65536, dtype=np.uint16)
    u = u[~np.isnan(u.view(np.float16))]
    expected = u.view(np.float16).astype(np.float32).view(np.uint32)
    assert [exact.widened_f16(word) for word in u.tolist()] == expected.tolist()


def test_hard_quotients_lie_next_to_a_tie() -> None:
    """Within one part in 2^24 of a place from halfway: no quotient of two floats lies nearer, but a tie, of which
    division has none."""
    for a, b in zip(*(x.tolist() for x in draw.hard_quotients(300, 34)), strict=True):
        quotient = value_of(a) / value_of(b)
        place = Fraction(2) ** exact.parts(exact.divided(a, b))[1]
        beyond = quotient / place % 1 - Fraction(1, 2)
        assert 0 < abs(beyond) <= Fraction(1, 2**23)


def test_hard_squares_have_a_root_next_to_a_tie() -> None:
    for word in draw.hard_squares(300).tolist():
        m, e = exact.parts(word)
        place = exact.parts(exact.rooted(word))[1]
        scaled = m * Fraction(4) ** 40 * Fraction(2) ** (e - 2 * place)  # the square of root / place * 2^40
        beyond = Fraction(isqrt(int(scaled)), 2**40) % 1 - Fraction(1, 2)
        assert abs(beyond) < Fraction(1, 2**13)


def test_the_inputs_are_the_same_everywhere() -> None:
    """SplitMix64 from seed 0, as its authors publish it."""
    assert draw.words(3, 0).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
