"""The diff of two engines, each broken in a known way and place: the report must name that place."""

from dataclasses import replace

import numpy as np
import pytest

from broken_engines import (
    CONFIG,
    IDS,
    MODEL,
    TAPS,
    Constant,
    FlipsExport,
    ForgetsExport,
    OtherChoice,
    ReversedSum,
    ShownOtherwise,
    reference,
    shows,
)
from gnomon.compare.diff import diff
from gnomon.compare.record import Problem, Tensor, Token
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps


def tensors(report):
    return [r for r in report.records if isinstance(r, Tensor)]


def unequal(report):
    return [r for r in tensors(report) if r.verdict != "identical"]


def test_engines_that_agree_are_identical_in_every_tensor():
    report = diff(reference(), reference(), IDS, steps=3)
    assert (report.verdict, report.exit_code, report.first_divergence) == ("identical", 0, None)
    assert [r.name for r in tensors(report) if r.step == 0 and r.kind == "tap"] == TAPS
    counts = {(kind, step): 0 for kind in ("tap", "result", "state") for step in range(4)}
    for r in tensors(report):
        counts[r.kind, r.step] += 1
    assert list(counts.values()) == [43, 43, 43, 43, 1, 1, 1, 1, 4, 0, 0, 4]
    assert (report.summary.steps, report.summary.tensors, report.summary.compared) == (4, 184, 184)
    rows = len(IDS) + 3
    of_embed = sum(r.expected.values for r in tensors(report) if r.name == "embed")
    of_logits = sum(r.expected.values for r in tensors(report) if r.name == "logits")
    assert (of_embed, of_logits) == (rows * 40, 2 * rows * 97)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("where", ["blocks.0.attn.k", "blocks.1.mlp.gate", "blocks.1.mlp.out"])
def test_another_order_of_one_sum_is_found_where_it_is(where, step):
    shadow = Engine("reversed", MODEL, ReversedSum(where, decode_only=step > 0))
    report = diff(reference(), shadow, IDS, steps=step)
    card = report.first_divergence
    assert (card.tap, card.op) == (where, "linear")
    assert (card.step, report.exit_code) == (step, 1)
    assert card.inputs_equal
    assert [i.verdict for i in card.inputs] == ["identical", "identical"]
    assert card.mismatch.count >= 1
    assert card.mismatch.command == (
        f"gnomon diff small --engine numpy --engine reversed --ids {','.join(map(str, IDS))} --steps {step}"
    )


@pytest.mark.parametrize("tap", TAPS)
def test_one_flipped_mantissa_bit_is_named(tap):
    def flip(value):
        flat = value.reshape(-1)
        index = int(np.flatnonzero((flat != 0) & (flat != 1))[-1])  # a 1.0 of exp would make its row dead as well
        flat.view(np.uint32)[index] ^= 1
        planted.append((tuple(int(i) for i in np.unravel_index(index, value.shape)), int(flat.view(np.uint32)[index])))
        return value

    planted = []
    report = diff(reference(), shows(tap, flip), IDS, steps=0)
    assert [(r.name, r.verdict) for r in unequal(report)] == [(tap, "ulp<=1")]
    card = report.first_divergence
    (place,) = card.mismatch.first
    assert (card.tap, place.index, int(place.observed.bits, 16)) == (tap, *planted[0])
    assert (abs(place.ulp), card.position, report.verdict) == (1, planted[0][0][0], "ulp<=1")


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda v: v[[1, 0, *range(2, len(v))]], "differs"),
        (lambda v: np.where(np.abs(v) == np.abs(v[3, 3]), -v, v), "differs"),
        (lambda v: v.astype(np.float64), "dtype"),
        (lambda v: v[:, :-1], "shape"),
        (lambda v: v[:, None], "shape"),
        (lambda v: v[:0], "shape"),
        (np.zeros_like, "dead"),
        (lambda v: v * np.float32("inf"), "nonfinite"),
        (lambda v: np.full_like(v, np.nan), "nonfinite"),
    ],
    ids=["rows swapped", "sign", "dtype", "shape", "axis", "empty", "zeros", "inf", "nan"],
)
def test_a_changed_tensor_is_the_only_finding(change, verdict):
    report = diff(reference(), shows("blocks.1.ln2", change), IDS, steps=0)
    assert [(r.name, r.verdict) for r in unequal(report)] == [("blocks.1.ln2", verdict)]
    assert (report.verdict, report.first_divergence.verdict) == (verdict, verdict)
    assert report.exit_code == (3 if verdict in ("dtype", "shape") else 1)


def test_the_sign_of_a_zero_is_seen():
    def negative(value):
        value[0, 0, -1] = -0.0  # the first row does not see the last position
        return value

    report = diff(reference(), shows("blocks.1.attn.scores", negative), IDS, steps=0)
    assert [(r.name, r.verdict) for r in unequal(report)] == [("blocks.1.attn.scores", "zero-sign")]
    assert (report.verdict, report.exit_code) == ("zero-sign", 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0], ids=str)
def test_an_engine_of_nothing_fails_even_against_itself(value):
    broken = Engine("broken", MODEL, Constant(value))
    report = diff(broken, broken, IDS, steps=2)
    assert report.verdict == ("dead" if value == 0 else "nonfinite")
    assert (report.exit_code, report.first_divergence.tap) == (1, "embed")
    assert report.first_divergence.verdict == report.verdict


@pytest.mark.parametrize("change", [np.zeros_like, lambda v: np.full_like(v, np.nan)], ids=["zeros", "nan"])
def test_taps_that_show_nothing_fail_even_against_themselves(change):
    broken = ShownOtherwise(lambda name, value, pos: [(name, change(value), pos)])
    report = diff(broken, broken, IDS, steps=0)
    exempt = {"blocks.0.attn.scores", "blocks.1.attn.scores"} if change is np.zeros_like else set()
    assert {r.name for r in unequal(report)} == set(TAPS) - exempt
    assert report.exit_code == 1


@pytest.mark.parametrize("side", ["expected", "observed"])
def test_a_step_that_is_refused_ends_the_run_as_a_finding(side):
    broken = Engine("broken", MODEL, Constant(np.nan, start=len(IDS) + 1))
    pair = (broken, reference()) if side == "expected" else (reference(), broken)
    report = diff(*pair, IDS, steps=5)
    assert (report.verdict, report.exit_code, report.summary.steps) == ("nonfinite", 1, 2)
    assert [(r.side, r.step, r.verdict) for r in report.records if isinstance(r, Problem)] == [(side, 2, "nonfinite")]
    card = report.first_divergence
    assert (card.tap, card.step, card.position) == ("embed", 2, len(IDS) + 1)


@pytest.mark.parametrize("tap", ["embed", "blocks.0.kv.v", "logits"])
def test_a_removed_tap_is_missing_and_an_added_one_extra(tap):
    without = ShownOtherwise(lambda name, value, pos: [] if name == tap else [(name, value, pos)])
    for pair, verdict in (((reference(), without), "missing"), ((without, reference()), "extra")):
        report = diff(*pair, IDS, steps=1)
        assert [(r.name, r.step, r.verdict) for r in unequal(report)] == [
            (tap, 0, verdict),
            (tap, 1, verdict),
        ]
        assert (report.verdict, report.exit_code) == (verdict, 3)
        assert (report.first_divergence.tap, report.first_divergence.step) == (tap, 0)


def test_engines_that_show_nothing_do_not_pass():
    silent = ShownOtherwise(lambda name, value, pos: [])
    report = diff(silent, silent, IDS, steps=0)
    assert (report.verdict, report.exit_code) == ("not-run", 3)
    assert "showed none" in report.text()


def test_a_tap_shown_twice_does_not_hide_its_first_value():
    twice = ShownOtherwise(lambda name, value, pos: [(name, value * 2, pos), (name, value, pos)][name != "embed" :])
    report = diff(reference(), twice, IDS, steps=0)
    assert [(r.name, r.verdict) for r in unequal(report)] == [("embed", "differs"), ("embed#2", "extra")]


def test_a_tap_at_another_position_is_another_tensor():
    shifted = ShownOtherwise(lambda name, value, pos: [(name, value, pos + (name == "embed"))])
    report = diff(reference(), shifted, IDS, steps=0)
    assert [(r.pos, r.verdict) for r in unequal(report)] == [((0, 8), "missing"), ((1, 9), "extra")]


@pytest.mark.parametrize(("steps", "found"), [(0, [0]), (3, [0, 3])])
def test_an_exported_state_is_compared_after_the_prompt_and_at_the_end(steps, found):
    report = diff(reference(), FlipsExport("flips", MODEL, NumpyOps()), IDS, steps=steps)
    assert [(r.name, r.kind, r.step) for r in unequal(report)] == [("blocks.1.kv.v", "state", s) for s in found]
    card = report.first_divergence
    assert (card.op, card.verdict, card.mismatch.first[0].index) == ("export", "ulp<=2", (len(IDS) - 1, 1, 4))
    assert (card.position, card.inputs_equal) == (len(IDS) - 1, True)


def test_a_state_without_an_array_is_missing():
    report = diff(reference(), ForgetsExport("forgets", MODEL, NumpyOps()), IDS, steps=0)
    assert [(r.name, r.kind, r.verdict) for r in unequal(report)] == [("blocks.0.kv.k", "state", "missing")]


def test_another_greedy_choice_is_a_finding_and_the_first_engine_is_followed():
    expected = list(reference().generate(IDS, 4))
    shadow = OtherChoice()
    report = diff(reference(), shadow, IDS, steps=3)
    assert [(r.step, r.pos, r.observed, r.expected) for r in report.records if isinstance(r, Token)] == [
        (step, len(IDS) + step, 3, expected[step]) for step in (1, 2, 3)
    ]
    assert shadow.fed[:4] == [IDS, [expected[0]], [expected[1]], [expected[2]]]
    card = report.first_divergence
    assert (card.tap, card.op, card.step, report.exit_code) == ("logits", "step", 1, 1)
    assert "token: step 1" in report.text()


def test_a_run_that_does_not_repeat_is_reported():
    engine = ShownOtherwise(lambda name, value, pos: [(name, value + (engine.calls == 1), pos)])
    report = diff(reference(), engine, IDS, steps=0)
    (problem,) = (r for r in report.records if isinstance(r, Problem))
    assert (problem.side, problem.verdict) == ("observed", "differs")
    assert "Expected engine shown to repeat itself but embed of step 0 came out otherwise" in problem.message
    assert (report.first_divergence.tap, report.first_divergence.mismatch) == ("embed", None)
    assert [(r.name, r.verdict) for r in unequal(report)] == [("embed", "differs")]


def test_the_second_run_wants_what_the_first_run_wanted():
    wanted = []

    class Notes(ReversedSum):
        def attention(self, *arguments):
            wanted.append("fused")
            return super().attention(*arguments)

    report = diff(reference(), Engine("notes", MODEL, Notes("blocks.1.mlp.up")), IDS, steps=1, unwatched=False)
    assert report.first_divergence.tap == "blocks.1.mlp.up"
    assert wanted == []


def other_vocab():
    return Model("narrow", replace(CONFIG, vocab=96), MODEL.weights)


def other_weight():
    name = "blocks.1.mlp.up.weight"
    weight = MODEL.weights[name]
    data = weight.data.copy()
    data[0, 0] ^= 1
    return Model("other", CONFIG, {**MODEL.weights, name: replace(weight, data=data)})


@pytest.mark.parametrize(("model", "field"), [(other_vocab, "vocab=97"), (other_weight, "weights=")])
def test_engines_of_other_models_are_not_compared(model, field):
    report = diff(reference(), Engine("numpy", model(), NumpyOps()), IDS)
    assert (report.verdict, report.exit_code, tensors(report)) == ("not-run", 3, [])
    assert f"Expected two engines of one model but got {field}" in report.to_jsonl()


@pytest.mark.parametrize(
    ("ids", "steps", "message"),
    [
        ([], 3, "at least one token id"),
        ([1], -1, "steps=-1"),
        ([1, 2], 4095, "max_positions=4096"),
        ([97], 0, "token ids from 0 to 96"),
    ],
)
def test_arguments_that_cannot_be_run_are_refused(ids, steps, message):
    with pytest.raises(UsageError, match=message):
        diff(reference(), reference(), ids, steps)


def test_progress_is_told_after_every_step():
    told = []
    diff(reference(), reference(), IDS, 2, lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
