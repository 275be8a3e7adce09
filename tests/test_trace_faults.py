"""A trace with one planted fault: the comparison must name the tensor, the place and the kind of the fault."""

import numpy as np
import pytest

from gnomon.compare import trace_measure
from gnomon.compare.record import Problem
from trace_edits import IDS, SHOWN, STORED, EveryType, Opened, compare, copied, describe, make, unequal

PLACES = 200
NAME = "blocks.1.ln2"


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A trace that holds every stored type."""
    return make(tmp_path_factory.mktemp("typed") / "trace", engine=EveryType(), steps=1)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make(tmp_path_factory.mktemp("plain") / "trace")


@pytest.fixture(scope="module")
def by_row(tmp_path_factory):
    return make(tmp_path_factory.mktemp("rows") / "trace", "rows")


def test_the_trace_under_test_holds_every_type(typed):
    assert {r["dtype"] for r in Opened(typed).records} == STORED.keys()
    assert set(SHOWN.values()) | {"f32", "bf16"} == STORED.keys()


@pytest.mark.parametrize("values", [1, 7, 1 << 16])
def test_the_size_of_a_block_changes_no_digest_and_no_count(typed, tmp_path, monkeypatch, values):
    monkeypatch.setattr(trace_measure, "BLOCK", values)
    opened = copied(typed, tmp_path / "t")
    opened["blocks.0.attn.exp"][2:4, 1] = 0.5  # two rows without a 1.0
    opened["blocks.1.ln2"][0, :3] = [np.nan, 0, -0.0]
    report = compare(opened.save(), opened.folder)
    for r, told in zip(report.tensors, opened.records, strict=True):
        describe(told, opened.arrays[told["kind"], told["name"], told["pos"][0]])
        found = {key: getattr(r.observed, key) for key in told["stats"]}
        assert (r.name, r.observed.sha256, found) == (told["name"], told["sha256"], told["stats"])


@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("record", ["left as it was", "hashed again"])
def test_one_flipped_mantissa_bit_is_named(typed, tmp_path, place, record):
    rng = np.random.Generator(np.random.PCG64(place))
    opened = copied(typed, tmp_path / "flipped")
    types = sorted(STORED)
    chosen = [r for r in opened.records if r["dtype"] == types[place % len(types)]]
    told = chosen[rng.integers(len(chosen))]
    array = opened.arrays[told["kind"], told["name"], told["pos"][0]]
    pattern = array.view(f"<u{array.itemsize}").reshape(-1)
    # Unseen positions stay +0.0, and a row of `exp` keeps its 1.0: without it the verdict would be `dead`.
    fit = (
        np.arange(pattern.size)
        if told["dtype"] == "bool"
        else np.flatnonzero((pattern != 0) & (array != 1).reshape(-1))
    )
    spot = int(rng.choice(fit))
    pattern[spot] ^= 1
    index = tuple(int(i) for i in np.unravel_index(spot, array.shape))
    report = compare(typed, opened.save(hashed=record == "hashed again"))

    assert unequal(report) == [(told["name"], tuple(told["pos"]), "ulp<=1")]
    card = report.first_divergence
    assert (card.tap, card.mismatch.count, card.mismatch.first[0].index) == (told["name"], 1, index)
    assert abs(card.mismatch.first[0].ulp) == 1
    assert card.position == told["pos"][0] + index[0]
    assert (report.verdict, report.exit_code) == ("ulp<=1", 1)
    problems = [p.message for p in report.records if isinstance(p, Problem)]
    if record == "hashed again":
        assert problems == []
    else:
        (message,) = problems
        assert told["name"] in message
        assert "stored bytes do not match their record" in message


def test_a_flipped_bit_is_seen_when_rows_are_joined(plain, by_row, tmp_path):
    opened = copied(by_row, tmp_path / "flipped")
    opened.arrays["tap", NAME, 5].view(np.uint32)[0, 7] ^= 1
    for pair in ((plain, opened.save(hashed=False)), (opened.folder, plain)):
        report = compare(*pair)
        assert unequal(report) == [(NAME, (0, len(IDS)), "ulp<=1")]
        place = report.first_divergence.mismatch.first[0]
        assert (place.index, report.first_divergence.position, report.exit_code) == ((5, 7), 5, 1)
        assert "stored bytes do not match their record" in report.text()


def equal_norms(array):
    """Rows 2 and 3 of one norm, and a pair of numbers that differ in sign only."""
    array[3] = array[2][::-1]
    array[4, 1] = -array[4, 0]


CHANGES = {
    "two rows of equal norm swapped": (lambda a: a.__setitem__([2, 3], a[[3, 2]]), "differs", 1),
    "a sign pair exchanged": (lambda a: a.__setitem__((4, [0, 1]), a[4, [1, 0]]), "differs", 1),
    "one infinity": (lambda a: a.__setitem__((1, 1), np.inf), "nonfinite", 1),
    "all zeros": (lambda a: a.fill(0), "dead", 1),
}


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_tensor_has_its_own_verdict(plain, tmp_path, change, digests):
    sides = [copied(plain, tmp_path / side) for side in ("expected", "observed")]
    for side in sides:
        equal_norms(side[NAME])
    apply, verdict, code = CHANGES[change]
    apply(sides[1][NAME])
    report = compare(*(side.save() for side in sides), digests=digests)
    assert unequal(report) == [(NAME, (0, len(IDS)), verdict)]
    assert (report.verdict, report.exit_code, report.first_divergence.verdict) == (verdict, code, verdict)
    assert (report.first_divergence.mismatch is None) == digests


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize(("value", "verdict"), [(np.nan, "nonfinite"), (0.0, "dead")], ids=["nan", "zeros"])
def test_the_same_nothing_on_both_sides_fails(plain, tmp_path, value, verdict, digests):
    opened = copied(plain, tmp_path / "both")
    opened[NAME].fill(value)
    report = compare(opened.save(), opened.folder, digests=digests)
    assert unequal(report) == [(NAME, (0, len(IDS)), verdict)]
    assert (report.verdict, report.exit_code) == (verdict, 1)


def test_a_record_cannot_hide_what_is_not_finite(plain, tmp_path):
    opened = copied(plain, tmp_path / "both")
    told = dict(opened.record(NAME))
    opened[NAME][2, 2] = np.nan
    opened.save()
    opened.record(NAME)["stats"], opened.record(NAME)["rows"] = told["stats"], told["rows"]
    report = compare(opened.save_records(), opened.folder)
    assert (unequal(report), report.exit_code) == ([(NAME, (0, len(IDS)), "nonfinite")], 1)


def test_the_sign_of_a_zero_is_seen(plain, tmp_path):
    opened = copied(plain, tmp_path / "observed")
    opened["blocks.1.attn.scores"][0, 0, -1] = -0.0  # the first row does not see the last position
    report = compare(plain, opened.save())
    assert unequal(report) == [("blocks.1.attn.scores", (0, len(IDS)), "zero-sign")]
    assert (report.verdict, report.exit_code) == ("zero-sign", 1)
    assert compare(plain, opened.folder, digests=True).verdict == "differs"


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("removed_from", ["observed", "expected"])
def test_a_removed_tensor_is_missing_and_an_added_one_extra(plain, tmp_path, removed_from, digests):
    opened = copied(plain, tmp_path / "less")
    opened.remove(NAME)
    less = opened.save()
    pair, verdict = ((plain, less), "missing") if removed_from == "observed" else ((less, plain), "extra")
    report = compare(*pair, digests=digests)
    assert unequal(report) == [(NAME, (0, len(IDS)), verdict)]
    assert (report.verdict, report.exit_code, report.first_divergence.tap) == (verdict, 3, NAME)


def test_a_tensor_of_another_name_is_extra(plain, tmp_path):
    opened = copied(plain, tmp_path / "more")
    opened.add("blocks.7.ln2", like=NAME)
    report = compare(plain, opened.save())
    assert (unequal(report), report.exit_code) == ([("blocks.7.ln2", (0, len(IDS)), "extra")], 3)


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
def test_an_emptied_tensor_has_another_shape_and_two_are_not_run(plain, tmp_path, digests):
    opened = copied(plain, tmp_path / "emptied")
    opened[NAME] = opened[NAME][:0]
    emptied = opened.save()
    for pair, verdict in (((plain, emptied), "shape"), ((emptied, plain), "shape"), ((emptied, emptied), "not-run")):
        report = compare(*pair, digests=digests)
        assert unequal(report) == [(NAME, (0, len(IDS)), verdict)]
        assert (report.verdict, report.exit_code) == (verdict, 3)


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
def test_another_type_or_shape_is_not_compared(plain, by_row, tmp_path, digests):
    for change, verdict in ((lambda a: a[:, :-1], "shape"), (lambda a: a[:, None], "shape"), (None, "dtype")):
        opened = copied(plain, tmp_path / f"{verdict}{change}")
        if change is None:
            opened.record(NAME)["dtype"] = "f64"
            opened[NAME] = opened[NAME].astype(np.float64)
        else:
            opened[NAME] = np.ascontiguousarray(change(opened[NAME]))
        changed = opened.save()
        for other in (plain, by_row):
            report = compare(other, changed, digests=digests)
            assert unequal(report) == [(NAME, (0, len(IDS)), verdict)]
            assert (report.verdict, report.exit_code) == (verdict, 3)


def test_a_record_that_lies_is_a_finding_though_the_bytes_are_equal(plain, tmp_path):
    opened = copied(plain, tmp_path / "lies")
    opened.record(NAME)["sha256"] = "0" * 64
    report = compare(plain, opened.save_records())
    assert unequal(report) == []
    assert (report.verdict, report.exit_code) == ("differs", 1)
    assert "observed: blocks.1.ln2 at positions 0 to 7: stored bytes do not match their record" in report.text()
