"""The worst places, the size of an error, and where in a tensor the errors lie. Expected values are written by hand."""

import numpy as np
import pytest

from gnomon.compare.verdict import judge
from gnomon.compare.where import Heads, pattern

BASE = np.arange(1, 41, dtype=np.float32).reshape(4, 10)


def changed(value, *index, base=BASE):
    out = base.copy()
    out[index] = value
    return out


def found(observed, expected=BASE, name="t", **options):
    mismatch = judge(observed, expected, name, **options).mismatch
    assert mismatch is not None
    return mismatch


def test_the_largest_error_is_listed_first_and_the_first_place_stays_the_anchor():
    observed = changed(1.5, 0, 0)
    observed[3, 9] = 140.0
    observed[2, 0] = np.nextafter(observed[2, 0], np.float32(99))
    m = found(observed)
    assert [p.index for p in m.worst] == [(3, 9), (0, 0), (2, 0)]
    assert [p.index for p in m.first] == [(0, 0), (2, 0), (3, 9)]
    assert [(p.absolute, p.relative) for p in m.worst[:2]] == [("100", "2.5"), ("0.5", "0.5")]
    assert m.headline().startswith("t f32 [4, 10] at [0, 0]: ")
    assert m.worst_title() == "all places, by absolute error"
    assert found(BASE + 1).worst_title() == "the 5 worst places, by absolute error"


def test_what_is_not_finite_is_worse_than_any_error():
    observed = changed(1e30, 0, 0)
    observed[1, 1] = np.nan
    m = found(observed)
    assert [(p.index, p.distance, p.size) for p in m.worst] == [((1, 1), "not finite", ""), ((0, 0), *LARGE)]
    assert m.total() == "2 of 40 values differ or are not finite"


LARGE = (f"+{0x7149F2CA - 0x3F800000:,} ulp", "off by 1e+30, relative 1e+30")


@pytest.mark.parametrize(
    ("observed", "expected", "distance", "size"),
    [
        (-9.8e-28, 0.0, "across zero", "off by 9.8e-28"),
        (0.0, -0.5, "across zero", "off by 0.5, relative 1"),
        (-0.5, 0.5, "other sign", "off by 1, relative 2"),
        (2.0**-60, 2.0**-40, "across 2^-50", "off by 9.09e-13, relative 1"),
        (2.0**-49, 2.0**-50, "+8,388,608 ulp", "off by 8.88e-16, relative 1"),
        (2.0**-51, 2.0**-52, "+8,388,608 ulp", "off by 2.22e-16, relative 1"),
        (-0.0, 0.0, "sign of zero", "off by 0"),
    ],
)
def test_no_distance_in_ulp_is_told_across_zero_or_settle(observed, expected, distance, size):
    m = found(changed(observed, 0, 3), changed(expected, 0, 3))
    (place,) = m.first
    assert (place.distance, place.size) == (distance, size)
    assert ("ulp" in m.total()) == distance.endswith("ulp")


def test_a_value_across_zero_is_never_near():
    tiny = np.float32(2.0**-149)
    finding = judge(changed(tiny, 0, 0), changed(0.0, 0, 0), "t")
    assert finding.verdict == "differs"
    assert (finding.histogram.across, finding.histogram.equal, finding.histogram.above) == (1, 39, ())


def test_integers_are_apart_by_numbers_and_not_by_ulp():
    m = found(np.int8([-3, 5]), np.int8([2, 5]))
    assert (m.first[0].distance, m.total()) == ("-5", "1 of 2 values differs, at most 5 apart")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (np.s_[1:3, 2:5], "only in rows 1 and 2 of 4, columns 2 to 4 of 10 (counted from 0)"),
        (np.s_[:, 8:], "only in columns 8 and 9 of 10 (counted from 0)"),
        (np.s_[2], "only in row 2 of 4 (counted from 0)"),
        (np.s_[:, 1::4], "only in every 4th column of 10, from 1 on (counted from 0)"),
        (np.s_[:, [0, 2, 3, 5, 7, 9]], ""),
        (np.s_[:], ""),
        (np.s_[1, 1], ""),
    ],
)
def test_rows_and_columns_are_named_only_where_all_errors_lie_in_them(where, said):
    observed = BASE.copy()
    observed[where] += 100
    assert found(observed).where == said


def test_heads_are_named_where_they_share_a_row():
    observed = BASE[:, :8].copy()
    observed[1:, 2:6] += 100
    m = found(observed, BASE[:, :8].copy(), heads=4)
    assert m.where == "only in rows 1 to 3 of 4, heads 1 and 2 of 4 (counted from 0)"
    observed[1:, 2:6] -= 100
    observed[0, [2, 3]] += 100
    m = found(observed[:, :8], BASE[:, :8].copy(), heads=2)
    assert m.where == "only in row 0 of 4, head 0 of 2, columns 2 and 3 of 8 (counted from 0)"


def test_the_middle_axis_of_scores_and_the_first_of_a_delta_state_are_heads():
    flat = np.flatnonzero(np.broadcast_to(np.array([[[0], [1], [1], [0]]]), (3, 4, 5)).reshape(-1))
    assert pattern((3, 4, 5), flat, "blocks.0.attn.scores") == "only in heads 1 and 2 of 4 (counted from 0)"
    assert pattern((3, 4), np.array([1, 5, 9]), "blocks.0.attn.denom") == "only in head 1 of 4 (counted from 0)"
    assert pattern((4, 2, 3), np.arange(6, 12), "blocks.2.rec.delta") == "only in head 1 of 4 (counted from 0)"


def test_a_trace_tells_its_heads_by_its_shapes():
    shapes = [("blocks.0.attn.denom", (5, 4)), ("blocks.0.kv.k", (5, 2, 10)), ("blocks.2.rec.delta", (6, 6, 9))]
    heads = Heads.seen(shapes)
    names = ("blocks.1.attn.q_rot", "blocks.1.attn.k", "blocks.1.kv.v", "blocks.2.delta.v", "blocks.1.mlp.up")
    assert [heads.in_row(name) for name in names] == [4, 2, 2, 6, 0]
