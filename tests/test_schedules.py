"""How rows are grouped into steps changes no bit: of the logits, of the state, on any engine.

Expected bytes come from one engine, the bytes under test from another one of the same kind.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.compare.same import assert_same_bytes
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State
from running import LONG, SHORT, VOCAB, Exported, assert_same_state, in_batches, in_steps

SCHEDULES = {
    "row by row": (SHORT, [1] * 14),
    "4,3,1,2,4": (SHORT, [4, 3, 1, 2, 4]),
    "6,8": (SHORT, [6, 8]),
    "127,1,1,21": (LONG, [127, 1, 1, 21]),
    "64,64,22": (LONG, [64, 64, 22]),
    "33,97,20": (LONG, [33, 97, 20]),
}

NewEngine = Callable[[Model], Engine[Any]]


class Whole:
    """Each prompt in one step: logits of all rows [rows, vocab], and the state, computed once."""

    def __init__(self, engine: Engine[Any]) -> None:
        self.engine = engine
        self.known: dict[tuple[int, ...], tuple[np.ndarray[Any, Any], Exported]] = {}

    def __call__(self, ids: Sequence[int]) -> tuple[np.ndarray[Any, Any], Exported]:
        if tuple(ids) not in self.known:
            logits, state = self.engine.forward(ids, want="all")
            assert logits.shape == (len(ids), VOCAB)
            self.known[tuple(ids)] = logits, self.engine.export(state)
        return self.known[tuple(ids)]


@pytest.fixture(scope="module")
def whole(new_engine: NewEngine) -> Whole:
    return Whole(new_engine(micro()))


@pytest.fixture
def engine(new_engine: NewEngine) -> Engine[Any]:
    return new_engine(micro())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_chunking_changes_no_bit(engine: Engine[Any], whole: Whole, schedule: str) -> None:
    ids, lengths = SCHEDULES[schedule]
    state = engine.new()
    logits = in_steps(engine, state, ids, lengths)
    expected, exported = whole(ids)
    assert_same_bytes(logits, expected, "logits")
    assert_same_state(engine.export(state), exported)


def test_neighbours_in_a_ragged_batch_change_no_bit(engine: Engine[Any], whole: Whole) -> None:
    """Three sequences of other lengths that join, pause and leave."""
    sequences = {"a": SHORT, "b": LONG[:9], "c": LONG[40:43]}
    steps = [{"a": 5, "b": 1, "c": 3}, {"b": 2, "a": 1}, {"a": 7}, {"b": 6, "a": 1}]
    logits, states = in_batches(engine, sequences, steps)
    for name, ids in sequences.items():
        expected, exported = whole(ids)
        assert_same_bytes(logits[name], expected, f"logits of {name}")
        assert_same_state(engine.export(states[name]), exported)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 17])
def test_batch_size_changes_no_bit(engine: Engine[Any], whole: Whole, size: int) -> None:
    prompts = [SHORT, *(LONG[i : i + 2 + i % 5] for i in range(size - 1))]
    out = engine.step(Rows.of([(engine.new(), ids) for ids in prompts]), want="all")
    assert_same_bytes(out[: len(SHORT)], whole(SHORT)[0], "logits")
    assert_same_bytes(out[-len(prompts[-1]) :], whole(prompts[-1])[0], "logits of the last")


def test_place_in_the_batch_changes_no_bit(engine: Engine[Any], whole: Whole) -> None:
    out = engine.step(Rows.of([(engine.new(), ids) for ids in (LONG[:3], SHORT, LONG[:4])]), want="last")
    for row, ids in enumerate((LONG[:3], SHORT, LONG[:4])):
        assert_same_bytes(out[row], whole(ids)[0][-1], f"logits of sequence {row}")


@pytest.mark.parametrize("want", ["last", "none"])
def test_what_is_wanted_changes_no_bit(engine: Engine[Any], whole: Whole, want: Any) -> None:
    expected, exported = whole(SHORT)
    out, state = engine.forward(SHORT, want=want)
    if want == "last":
        assert_same_bytes(out, expected[-1:], "logits")
    else:
        assert out.shape == (0, VOCAB)
    assert_same_state(engine.export(state), exported)
    assert_same_bytes(engine.forward([5], state)[0], whole([*SHORT, 5])[0][-1:], "the next logits")


def test_the_same_step_twice_gives_the_same_bytes(engine: Engine[Any]) -> None:
    first, second = (engine.forward(LONG, want="all")[0] for _ in range(2))
    assert_same_bytes(first, second, "logits")


# A step that fails.

BAD_STEPS: dict[str, Callable[[State, State], Rows]] = {
    "id above the vocabulary": lambda a, b: Rows.of([(a, [1, 2]), (b, [3, VOCAB])]),
    "negative id": lambda a, b: Rows.of([(a, [1, 2]), (b, [-1])]),
    "no ids": lambda a, b: Rows.of([(a, [1, 2]), (b, [])]),
    "one state twice": lambda a, b: Rows.of([(a, [1]), (a, [2])]),
    "too many positions": lambda a, b: Rows.of([(a, [1]), (b, [2] * 4096)]),
    "positions with a gap": lambda a, b: replace(Rows.of([(a, [1])]), pos=np.array([a.length + 1])),
}


@pytest.mark.parametrize("bad", BAD_STEPS)
def test_a_refused_step_changes_no_state(engine: Engine[Any], whole: Whole, bad: str) -> None:
    states = [engine.forward(ids)[1] for ids in (SHORT, LONG[:3])]
    with pytest.raises(UsageError, match="Expected"):
        engine.step(BAD_STEPS[bad](*states))
    for state, ids in zip(states, (SHORT, LONG[:3]), strict=True):
        assert (state.length, state.ids) == (len(ids), ids)
        assert_same_state(engine.export(state), whole(ids)[1])
        assert_same_bytes(engine.forward([7], state)[0], whole([*ids, 7])[0][-1:], "the next logits")


POISON = 13  # a token id of no prompt here


def poisoned(value: float) -> Model:
    """micro with one embedding row set to `value`."""
    model = micro()
    table = model.weights["embed.weight"]
    data = table.data.copy()
    data.view("<f4")[POISON] = value
    return replace(model, weights={**model.weights, "embed.weight": replace(table, data=data)})


@pytest.mark.parametrize("want", ["last", "all", "none"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_value_that_is_not_finite_hides(new_engine: NewEngine, whole: Whole, value: float, want: Any) -> None:
    """Planted early in one sequence of a batch, far out of the window of its last row."""
    assert POISON not in SHORT + LONG[:3]
    engine = new_engine(poisoned(value))
    states = [engine.forward(ids)[1] for ids in (SHORT, LONG[:3])]
    step = Rows.of([(states[0], [1, POISON, *LONG[:9]]), (states[1], [1, 2])])
    with pytest.raises(NonFiniteError, match="was not committed"):
        engine.step(step, want)
    for state, ids in zip(states, (SHORT, LONG[:3]), strict=True):
        assert (state.length, state.ids) == (len(ids), ids)
        assert_same_state(engine.export(state), whole(ids)[1])
        assert_same_bytes(engine.forward([7], state)[0], whole([*ids, 7])[0][-1:], "the next logits")


def test_what_memory_held_before_changes_no_bit(whole: Whole) -> None:
    """NaN in every row that was never written; the reference is the engine that keeps such rows."""
    engine = Engine("numpy", micro(), NumpyOps(scratch_fill=np.nan))
    for ids, lengths in SCHEDULES.values():
        state = engine.new()
        assert_same_bytes(in_steps(engine, state, ids, lengths), whole(ids)[0], "logits")
        assert_same_state(engine.export(state), whole(ids)[1])
