"""Every verdict word, by pairs that a comparison must refuse; expected words by hand."""

import hashlib

import numpy as np
import pytest

from gnomon.compare.verdict import WORDS, exit_code, judge, measure, rank, rule_of, worst

RAMP = np.arange(1, 25, dtype=np.float32).reshape(4, 6) / 7  # all different, none a power of two


def changed(index, value, base=RAMP):
    out = base.copy()
    out[index] = value
    return out


def stepped(index, ulps, base=RAMP):
    out = base.copy()
    out.view(f"i{base.itemsize}")[index] += ulps
    return out


def swapped(base=RAMP):
    return base[[1, 0, 2, 3]]


NEGATED_PAIR = RAMP * np.where(np.arange(6) < 2, -1, 1).astype(np.float32)
EXCHANGED = RAMP * np.where((np.arange(6) > 0) & (np.arange(6) < 3), -1, 1).astype(np.float32)
SPARSE = np.zeros((3, 24), np.float32)
SPARSE[:, 7] = 1.0

PAIRS = [
    ("the same array", RAMP, RAMP, "identical"),
    ("a copy in another layout", np.asfortranarray(RAMP), RAMP, "identical"),
    ("integers", np.arange(5), np.arange(5), "identical"),
    ("a scalar", np.float32(0.1), np.float32(0.1), "identical"),
    ("one zero of other sign", changed((0, 0), -0.0), changed((0, 0), 0.0), "zero-sign"),
    ("last bit", stepped((2, 3), 1), RAMP, "ulp<=1"),
    ("last bit downwards", stepped((2, 3), -1), RAMP, "ulp<=1"),
    ("last bit and zero sign", changed((0, 0), -0.0, stepped((2, 3), 1)), changed((0, 0), 0.0), "ulp<=1"),
    ("as far as near goes", stepped((0, 5), 16), RAMP, "ulp<=16"),
    ("just further than near", stepped((0, 5), 17), RAMP, "differs"),
    ("sign", -RAMP, RAMP, "differs"),
    ("two rows swapped", swapped(), RAMP, "differs"),
    ("transposed", RAMP[:4, :4].T, RAMP[:4, :4], "differs"),
    ("a sign pair exchanged", EXCHANGED, NEGATED_PAIR, "differs"),
    ("NaN against a number", changed((1, 1), np.nan), RAMP, "nonfinite"),
    ("NaN on both sides", changed((1, 1), np.nan), changed((1, 1), np.nan), "nonfinite"),
    ("infinity on both sides", changed((1, 1), np.inf), changed((1, 1), np.inf), "nonfinite"),
    ("all NaN", np.full((4, 6), np.nan), np.full((4, 6), np.nan), "nonfinite"),
    ("all zero", np.zeros((4, 6)), np.zeros((4, 6)), "dead"),
    ("zeros against numbers", np.zeros((4, 6), np.float32), RAMP, "dead"),
    ("numbers against zeros", RAMP, np.zeros((4, 6), np.float32), "dead"),
    ("one column of ones in 24", SPARSE, SPARSE, "dead"),
    ("8-bit zeros", np.zeros(9, np.int8), np.zeros(9, np.int8), "dead"),
    ("id zero", np.zeros(1, np.int32), np.zeros(1, np.int32), "identical"),
    ("float64 for float32", RAMP.astype(np.float64), RAMP, "dtype"),
    ("integers for floats", np.ones(3, np.int32), np.ones(3, np.float32), "dtype"),
    ("(5,1) against (5,2)", np.ones((5, 1)), np.ones((5, 2)), "shape"),
    ("a scalar against one value", np.ones(()), np.ones(1), "shape"),
    ("nothing against one value", np.ones(0), np.ones(1), "shape"),
    ("nothing against nothing", np.ones(0), np.ones(0), "not-run"),
    ("no rows", np.ones((0, 4)), np.ones((0, 4)), "not-run"),
    ("missing", None, RAMP, "missing"),
    ("extra", RAMP, None, "extra"),
    ("neither", None, None, "not-run"),
]


@pytest.mark.parametrize(("observed", "expected", "word"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS])
def test_verdict(observed, expected, word):
    found = judge(observed, expected, "case")
    assert found.verdict == word
    assert exit_code(word) == {"identical": 0}.get(word, 3 if word in WORDS[6:] else 1)


def test_every_word_has_its_falsifier():
    assert {p[3].partition("=")[0].replace("ulp<", "ulp<=k") for p in PAIRS} == set(WORDS)


def test_a_word_that_is_not_in_the_list_is_no_verdict():
    for word in ("equal", "ulp<=k", "ulp<=", "close<=3", ""):
        with pytest.raises(ValueError, match=r"invalid literal|not in tuple"):
            exit_code(word)


def test_the_worst_of_nothing_is_no_pass():
    assert worst([]) == "not-run"
    assert worst(["identical", "zero-sign", "ulp<=3", "ulp<=12", "ulp<=4"]) == "ulp<=12"
    assert worst(["missing", "differs"]) == "missing"
    assert [rank(w.replace("k", "1"))[0] for w in WORDS] == list(range(len(WORDS)))


LIVE_IN_EIGHT = np.tile(np.array([1, 0, 0, 0, 0, 0, 0, 0], np.float32), 9)
EXP = np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 1.0, 0.0, 0.0]], np.float32)


@pytest.mark.parametrize(
    ("array", "name", "word"),
    [
        (LIVE_IN_EIGHT, "mlp.act", "identical"),  # 9 of 72: one in eight
        (LIVE_IN_EIGHT[1:], "mlp.act", "dead"),  # 8 of 71: fewer
        (EXP, "blocks.0.attn.exp", "identical"),
        (EXP * np.float32(0.5), "blocks.0.attn.exp", "dead"),
        (np.nextafter(EXP, np.float32(0)), "blocks.0.attn.exp", "dead"),
        (EXP * [[1], [0]], "blocks.0.attn.exp", "dead"),
        (np.eye(64, dtype=np.float32), "blocks.0.attn.exp", "identical"),  # a window of one position
        (np.eye(64, dtype=np.float32), "blocks.0.attn.out", "dead"),
        (np.eye(64, dtype=np.float32), "blocks.0.attn.scores", "identical"),
        (np.zeros((2, 2), np.float32), "blocks.0.attn.scores", "identical"),
        (EXP * np.float32(0.5), "blocks.0.attn.not_exp", "identical"),
    ],
)
def test_liveness_is_counted_before_equality(array, name, word):
    assert judge(array.astype(np.float32), array.astype(np.float32), name).verdict == word


def test_bf16_is_judged_as_bf16():
    one, above, nan = (np.full(3, p, np.uint16) for p in (0x3F80, 0x3F81, 0x7FC0))
    assert judge(above, one, "x", uint16="bf16").verdict == "ulp<=1"
    assert judge(nan, nan, "x", uint16="bf16").verdict == "nonfinite"
    assert judge(one, one, "attn.exp", uint16="bf16").verdict == "identical"
    assert judge(above, above, "attn.exp", uint16="bf16").verdict == "dead"
    assert judge(nan, nan, "x").verdict == "identical"  # as integers
    assert judge(one, np.ones(3, np.float32), "x", uint16="bf16").verdict == "dtype"
    assert rule_of("kv.k", "bf16") == "dense"


def test_a_digest_is_of_little_endian_bytes_in_c_order():
    expected = hashlib.sha256(b"".join(v.tobytes() for v in RAMP.reshape(-1))).hexdigest()
    for same in (RAMP, np.asfortranarray(RAMP), RAMP.astype(">f4")):
        assert measure(same, "x").sha256 == expected
    counted = measure(changed((0, 0), 0.0, changed((1, 1), np.nan)), "x")
    assert (counted.values, counted.nbytes, counted.finite, counted.live) == (24, 96, 23, 22)


def test_a_mismatch_names_index_bits_and_distance():
    found = judge(stepped((2, 3), 1), RAMP, "blocks.0.ln1", op="rms_norm", inputs=("embed",), command="again")
    assert found.mismatch is not None
    (place,) = found.mismatch.first
    expected = int(RAMP.view(np.uint32)[2, 3])
    assert (place.index, place.ulp) == ((2, 3), 1)
    assert (int(place.observed.bits, 16), int(place.expected.bits, 16)) == (expected + 1, expected)
    assert found.mismatch.text().splitlines() == [
        "blocks.0.ln1 rms_norm f32 [4, 6] at [2, 3] of (embed): 0x40124926 => expected 0x40124925 (+1 ulp)",
        "  [2, 3]: 2.2857146 => expected 2.2857144   0x1.24924cp+1 => 0x1.24924ap+1   "
        "0x40124926 => 0x40124925 (+1 ulp; off by 2.38e-07, relative 1.04e-07)",
        "  1 of 24 values differs, at most 1 ulp apart; the largest error is 2.38e-07",
        "  to see it again: again",
    ]


def test_distances_carry_their_sign():
    found = judge(stepped((0, 0), -3, stepped((3, 5), 2)), RAMP, "x")
    assert found.mismatch is not None
    assert [(p.index, p.ulp) for p in found.mismatch.first] == [((0, 0), -3), ((3, 5), 2)]
    assert (found.mismatch.count, found.mismatch.max_ulp) == (2, 3)


def test_only_five_positions_are_listed_and_all_are_counted():
    found = judge(-RAMP, RAMP, "x")
    assert found.mismatch is not None
    assert [p.index for p in found.mismatch.first] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert found.mismatch.count == 24


def test_what_is_not_finite_has_no_distance_but_a_place():
    both = changed((1, 1), np.nan)
    found = judge(both, both, "x")
    assert found.mismatch is not None
    assert [(p.index, p.ulp) for p in found.mismatch.first] == [((1, 1), None)]
    assert found.mismatch.max_ulp is None
    assert "1 of 24 values differs or is not finite" in found.mismatch.text()
    assert found.detail == "NaN or infinity: 1 of 24 observed, 1 of 24 expected"
