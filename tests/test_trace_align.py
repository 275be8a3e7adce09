"""Tensors are matched by name and absolute position, however a run was cut into steps."""

from dataclasses import replace

import numpy as np
import pytest

from broken_engines import IDS, MODEL, TAPS, Engine, NumpyOps, ReversedSum, ShownOtherwise, reference
from gnomon.compare.record import Problem
from gnomon.compare.trace_align import align
from gnomon.compare.trace_measure import record_of
from gnomon.compare.trace_write import write_trace
from gnomon.reference.model import Model
from trace_edits import compare, copied, make, unequal

WAYS = ("one pass", "row by row", "prompt and steps", "digests", "digests row by row")


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """One sequence of 10 tokens, traced in several ways."""
    made = tmp_path_factory.mktemp("ways")
    make(made / "prompt and steps", steps=2)
    ids = [*IDS, *reference().generate(IDS, 2)]
    for name, schedule in (("one pass", "whole"), ("row by row", "rows")):
        write_trace(reference(), ids, made / name, schedule=schedule)
    write_trace(reference(), ids, made / "digests", digests_only=True)
    write_trace(
        Engine("numpy", MODEL, NumpyOps()), ids, made / "digests row by row", schedule="rows", digests_only=True
    )
    return made


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("observed", WAYS)
@pytest.mark.parametrize("expected", WAYS)
def test_the_cut_into_steps_changes_no_verdict(ways, expected, observed, digests):
    report = compare(ways / expected, ways / observed, digests=digests)
    assert (report.verdict, report.exit_code, unequal(report)) == ("identical", 0, [])
    positions = {name: set() for name in TAPS}
    for r in report.tensors:
        if r.kind == "tap":
            assert positions[r.name].isdisjoint(range(*r.pos))
            positions[r.name].update(range(*r.pos))
    assert all(seen == set(range(10)) for seen in positions.values())


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
def test_a_fault_of_one_op_is_named_across_schedules(ways, tmp_path, digests):
    ids = [*IDS, *reference().generate(IDS, 2)]
    write_trace(Engine("shadow", MODEL, ReversedSum("blocks.1.mlp.up")), ids, tmp_path / "t", schedule="rows")
    report = compare(ways / "one pass", tmp_path / "t", digests=digests)
    card = report.first_divergence
    assert (card.tap, card.op, card.inputs_equal, report.exit_code) == ("blocks.1.mlp.up", "linear", True, 1)
    assert [(i.name, i.kind) for i in card.inputs] == [("blocks.1.ln2", "tap"), ("blocks.1.mlp.up.weight", "weight")]
    assert (card.mismatch is None) == digests


def test_a_missing_row_is_missing_and_the_others_are_compared(ways, tmp_path):
    opened = copied(ways / "row by row", tmp_path / "less")
    opened.remove("blocks.0.mlp.act", start=4)
    less = opened.save()
    for other in ("one pass", "row by row"):
        for pair, verdict in (((ways / other, less), "missing"), ((less, ways / other), "extra")):
            report = compare(*pair)
            assert unequal(report) == [("blocks.0.mlp.act", (4, 5), verdict)]
            assert (report.verdict, report.exit_code) == (verdict, 3)
            rows = [r.pos for r in report.tensors if r.name == "blocks.0.mlp.act"]
            assert {p for pos in rows for p in range(*pos)} == set(range(10))


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "differs"), (-0.0, "zero-sign")])
def test_what_a_row_does_not_see_must_be_plus_zero(ways, tmp_path, value, verdict):
    opened = copied(ways / "one pass", tmp_path / "sees")
    opened["blocks.0.attn.scores"][3, 1, 7] = value  # position 3 looks ahead to position 7
    sees = opened.save()
    for pair in ((ways / "row by row", sees), (sees, ways / "row by row")):
        report = compare(*pair)
        assert unequal(report) == [("blocks.0.attn.scores", (0, 10), verdict)]
        assert report.first_divergence.mismatch.first[0].index == (3, 1, 7)
        assert compare(*pair, digests=True).verdict == "differs"


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "digests"])
def test_a_row_that_looks_ahead_is_found_across_schedules(ways, tmp_path, digests):
    def look_ahead(name, value, pos):
        if name == "blocks.0.attn.scores":
            value[2, 0, 5] = 0.5
        return [(name, value, pos)]

    engine = ShownOtherwise(look_ahead)
    ids = [*IDS, *reference().generate(IDS, 2)]
    write_trace(engine, ids, tmp_path / "ahead")
    report = compare(ways / "row by row", tmp_path / "ahead", digests=digests)
    assert (unequal(report), report.exit_code) == ([("blocks.0.attn.scores", (0, 10), "differs")], 1)


@pytest.mark.parametrize(
    ("expected", "observed", "units"),
    [
        ([(0, 4), (4, 8)], [(p, p + 1) for p in range(8)], [(0, 4), (4, 8)]),
        ([(0, 4), (4, 8)], [(0, 6), (6, 8)], [(0, 8)]),
        ([(0, 4)], [(4, 8)], [(0, 4), (4, 8)]),
        ([(0, 8)], [(2, 4), (4, 6)], [(0, 2), (2, 6), (6, 8)]),
        ([(0, 2), (4, 6)], [(0, 6)], [(0, 2), (2, 4), (4, 6)]),
        ([(3, 8)], [(3, 8)], [(3, 8)]),
    ],
    ids=str,
)
def test_pieces_are_joined_no_further_than_they_overlap(expected, observed, units):
    sides = [
        [
            record_of(np.ones((stop - start, 3)), "tap", "x", (start, stop), seq=i)
            for i, (start, stop) in enumerate(side)
        ]
        for side in (expected, observed)
    ]
    assert sorted(unit.pos for unit in align(*sides)) == units


def test_a_tensor_at_another_position_is_another_tensor(ways, tmp_path):
    opened = copied(ways / "row by row", tmp_path / "moved")
    record = opened.record("embed", start=9)
    opened.arrays["tap", "embed", 10] = opened.arrays.pop(("tap", "embed", 9))
    record["pos"] = [10, 11]
    report = compare(ways / "row by row", opened.save())
    assert unequal(report) == [("embed", (9, 10), "missing"), ("embed", (10, 11), "extra")]


def test_traces_of_other_weights_are_not_compared(ways, tmp_path):
    name = "blocks.1.mlp.up.weight"
    weight = MODEL.weights[name]
    data = weight.data.copy()
    data[0, 0] ^= 1
    other = Model("other", MODEL.config, {**MODEL.weights, name: replace(weight, data=data)})
    make(tmp_path / "t", engine=Engine("numpy", other, NumpyOps()), steps=2)
    report = compare(ways / "prompt and steps", tmp_path / "t")
    assert (report.verdict, report.exit_code, report.tensors) == ("not-run", 3, [])
    assert "model_sha256=" in "".join(p.message for p in report.records if isinstance(p, Problem))


@pytest.mark.parametrize("ids", [[*IDS[:-1], 1], IDS[:-1], [*IDS, 3]], ids=["other", "fewer", "more"])
def test_traces_of_other_ids_are_not_compared(tmp_path, ids):
    write_trace(reference(), ids, tmp_path / "other")
    report = compare(make(tmp_path / "t"), tmp_path / "other")
    assert (report.verdict, report.exit_code, report.tensors) == ("not-run", 3, [])
    (problem,) = (p for p in report.records if isinstance(p, Problem))
    at = 8 if len(ids) > 8 else 7
    assert f"ids of 8 and {len(ids)} tokens that part at position {at}" in problem.message


def test_an_input_that_no_side_shows_is_not_called_equal(ways, tmp_path):
    pair = []
    for side in ("expected", "observed"):
        opened = copied(ways / "one pass", tmp_path / side)
        opened.remove("blocks.1.ln2")
        if side == "observed":
            opened["blocks.1.mlp.up"].view(np.uint32)[0, 0] ^= 1
        pair.append(opened.save())
    card = compare(*pair).first_divergence
    assert (card.inputs[0].kind, card.inputs[0].verdict, card.inputs_equal) == ("unseen", "not-run", False)
