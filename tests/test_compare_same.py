"""The assertion: pairs it must refuse, most of which `allclose` or `assert_array_equal` let pass."""

import numpy as np
import pytest

from gnomon.compare.same import assert_same_bytes

ONE = np.ones(1, np.float32)

REFUSED = [
    ("broadcast", np.ones((5, 1)), np.ones((5, 2)), "shape"),
    ("empty against one", [], 1, "dtype"),
    ("empty against one float", [], 1.0, "shape"),
    ("one against empty", 3.0, [], "shape"),
    ("empty against empty", [], [], "not-run"),
    ("empty rows", np.ones((0, 3)), np.ones((0, 3)), "not-run"),
    ("float32 against float64", ONE, ONE.astype(np.float64), "dtype"),
    ("float32 against int32", ONE, ONE.astype(np.int32), "dtype"),
    ("NaN against NaN", np.full(2, np.nan), np.full(2, np.nan), "nonfinite"),
    ("infinity against infinity", np.full(2, np.inf), np.full(2, np.inf), "nonfinite"),
    ("zero signs", [-0.0, 1.0], [0.0, 1.0], "zero-sign"),
    ("one ulp", np.nextafter(ONE, np.float32(2)), ONE, "ulp<=1"),
    ("a constant", np.full(9, 2.5), np.linspace(2.4, 2.6, 9), "differs"),
    ("all zeros", np.zeros(8), np.zeros(8), "dead"),
]


@pytest.mark.parametrize(("got", "expected", "word"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(got, expected, word):
    with pytest.raises(AssertionError, match=rf"^case: {word}"):
        assert_same_bytes(got, expected, "case")


@pytest.mark.parametrize(
    "value", [ONE, 0.1, [1, 2, 3], True, np.arange(4, dtype=np.int8), np.array([-0.0, 5.0])], ids=str
)
def test_the_same_bytes_pass(value):
    assert_same_bytes(value, np.array(value, copy=True))


def test_expected_zeros_have_to_be_announced():
    assert_same_bytes(np.zeros(8), np.zeros(8), sparse=True)
    with pytest.raises(AssertionError, match=r"zero-sign"):
        assert_same_bytes(np.zeros(8), -np.zeros(8), sparse=True)
    with pytest.raises(AssertionError, match=r"pass sparse=True where zeros are expected"):
        assert_same_bytes(np.zeros(8), np.zeros(8))
    with pytest.raises(AssertionError, match=r"not-run"):
        assert_same_bytes([], [], sparse=True)


def test_bf16_bits_are_read_as_numbers():
    with pytest.raises(AssertionError, match=r"nonfinite"):
        assert_same_bytes(np.full(2, 0x7FC0, np.uint16), np.full(2, 0x7FC0, np.uint16), uint16="bf16")


def test_the_message_holds_the_mismatch():
    with pytest.raises(AssertionError) as failure:
        assert_same_bytes(np.array([[1.0, 2.0]], np.float32), np.array([[1.0, 4.0]], np.float32), "probe")
    assert str(failure.value).splitlines() == [
        "probe: differs",
        "probe f32 [1, 2] at [0, 1]: 0x40000000 => expected 0x40800000 (-8,388,608 ulp)",
        "  [0, 1]: 2.0 => expected 4.0   0x1p+1 => 0x1p+2   0x40000000 => 0x40800000 "
        "(-8,388,608 ulp; off by 2, relative 0.5)",
        "  1 of 2 values differs, at most 8,388,608 ulp apart; the largest error is 2",
    ]


def test_the_failure_is_shown_at_the_caller():
    with pytest.raises(AssertionError) as failure:
        assert_same_bytes(ONE, ONE + 1)
    assert failure.traceback[-1].ishidden(None)
    assert not failure.traceback[0].ishidden(None)
