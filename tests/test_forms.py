"""In every arm and every kv storage, schedules change no bit, and every engine gives the bytes of the reference.

Expected bytes are those of the reference, the whole prompt in one step; its ops are judged by the oracle.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.compare.same import assert_same_bytes
from gnomon.models import TRAINED
from gnomon.reference.engine import Engine
from gnomon.reference.protocol import Rows
from gnomon.reference.state import state_specs
from running import LONG, SHORT, STORAGES, Exported, assert_same_state, in_batches, in_steps

NewEngine = Callable[..., Engine[Any]]
Form = tuple[str, str, str]  # model, arm, kv storage

PAIRS = [(form, form) for form in STORAGES]
FORMS: list[Form] = [
    *(("micro", arm, kv) for arm in STORAGES for kv in STORAGES),
    *((name, *pair) for name in TRAINED for pair in PAIRS),
]
SCHEDULES = {"row by row": [1] * 14, "4,3,1,2,4": [4, 3, 1, 2, 4], "6,8": [6, 8]}
SEQUENCES = {"a": SHORT, "b": LONG[:6], "c": LONG[40:43]}
RAGGED = [{"a": 5, "b": 1, "c": 2}, {"b": 2, "a": 1}, {"a": 7, "c": 1}, {"b": 3, "a": 1}]


@cache
def whole(form: Form, ids: tuple[int, ...]) -> tuple[Any, Exported]:
    """Logits of every row and the state, on the reference."""
    name, arm, kv = form
    engine = gnomon.engine("numpy", gnomon.load(name), arm, kv)
    logits, state = engine.forward(ids, want="all")
    return logits, engine.export(state)


@pytest.fixture(params=FORMS, ids=lambda form: " ".join(form), scope="module")
def form(request: pytest.FixtureRequest) -> Form:
    made: Form = request.param
    return made


@pytest.fixture(scope="module")
def engine(new_engine: NewEngine, form: Form) -> Engine[Any]:
    name, arm, kv = form
    return new_engine(gnomon.load(name), arm, kv)


def test_the_engine_runs_in_the_form_that_was_asked_for(engine: Engine[Any], form: Form) -> None:
    facts = engine.describe()
    assert (facts["model"], facts["arm"], facts["kv"]) == form


@pytest.mark.parametrize("schedule", ["whole", *SCHEDULES])
def test_no_schedule_and_no_engine_changes_a_bit(engine: Engine[Any], form: Form, schedule: str) -> None:
    expected, exported = whole(form, tuple(SHORT))
    state = engine.new()
    got = in_steps(engine, state, SHORT, SCHEDULES.get(schedule, [len(SHORT)]))
    assert_same_bytes(got, expected, "logits")
    assert_same_state(engine.export(state), exported)


def test_neighbours_change_no_bit(engine: Engine[Any], form: Form) -> None:
    logits, states = in_batches(engine, SEQUENCES, RAGGED)
    for name, ids in SEQUENCES.items():
        expected, exported = whole(form, tuple(ids))
        assert_same_bytes(logits[name], expected, f"logits of {name}")
        assert_same_state(engine.export(states[name]), exported)


def test_the_state_has_the_arrays_that_are_promised(engine: Engine[Any], form: Form) -> None:
    _, exported = whole(form, tuple(SHORT))
    specs = state_specs(engine.model.config, form[2], len(SHORT))
    assert {name: (array.shape, array.dtype) for name, array in exported.items()} == specs


def test_no_two_forms_are_the_same() -> None:
    """What would pass every test above: an engine that pays no heed to its arm or its storage."""
    micro = [form for form in FORMS if form[0] == "micro"]
    assert len({whole(form, tuple(SHORT))[0].tobytes() for form in micro}) == len(micro)


@pytest.mark.parametrize("form", [("micro", "bf16", "int8")], ids=str)
def test_no_form_loses_its_bytes_beyond_a_chunk(new_engine: NewEngine, form: Form) -> None:
    """Over position 128, where stored keys and values begin another chunk."""
    ids = LONG[:132]
    expected, exported = whole(form, tuple(ids))
    name, arm, kv = form
    engine = new_engine(gnomon.load(name), arm, kv)
    state = engine.new()
    engine.step(Rows.of([(state, ids[:126])]), want="none")
    assert_same_bytes(in_steps(engine, state, ids[126:], [1, 3, 2]), expected[126:], "logits")
    assert_same_state(engine.export(state), exported)
    assert np.isfinite(expected).all()
