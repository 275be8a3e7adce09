"""A state can be copied, cut and used again, and no byte shows it.

Every test runs on each engine in each kv storage. `micro` carries recurrent state beside keys and values; without its
third layer it can be cut anywhere.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gnomon.compare.same import assert_same_bytes
from gnomon.engines import engines
from gnomon.gpu import host
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.state import STORED
from running import LONG, SHORT, STORAGES, assert_continues, assert_same_state, attention_only, fresh, in_steps

NewEngine = Callable[..., Engine[Any]]


@pytest.fixture(params=STORAGES, scope="module")
def kv(request: pytest.FixtureRequest) -> str:
    storage: str = request.param
    return storage


@pytest.fixture(scope="module")
def engine(new_engine: NewEngine, kv: str) -> Engine[Any]:
    return new_engine(micro(), kv=kv)


@pytest.fixture(scope="module")
def attention(new_engine: NewEngine, kv: str) -> Engine[Any]:
    return new_engine(attention_only(), kv=kv)


# Copies.


def test_a_copy_does_not_move_with_the_original(engine: Engine[Any]) -> None:
    _, state = engine.forward(SHORT[:6])
    copies = [engine.fork(state), engine.fork(state)]
    before = engine.export(state)
    assert_continues(engine, state, [1, 2, 3])
    for copy in copies:
        assert (copy.length, copy.ids) == (6, SHORT[:6])
        assert_same_state(engine.export(copy), before)
    assert_continues(engine, copies[0], [9, 8])
    assert_same_state(engine.export(copies[1]), before)
    assert_continues(engine, state, LONG[:30])  # beyond the memory that was there for the first rows
    assert_continues(engine, copies[1], LONG[60:100])


def test_an_original_does_not_move_with_its_copy(engine: Engine[Any]) -> None:
    _, state = engine.forward(SHORT[:6])
    before = engine.export(state)
    assert_continues(engine, engine.fork(engine.fork(state)), [1, 2, 3])
    assert (state.length, state.ids) == (6, SHORT[:6])
    assert_same_state(engine.export(state), before)
    assert_continues(engine, state, [4, 5])


def test_a_copy_of_an_empty_state_is_empty(engine: Engine[Any]) -> None:
    state = engine.new()
    copy = engine.fork(state)
    engine.forward([1, 2], state)
    assert (copy.length, copy.ids, engine.export(copy)) == (0, [], {})
    assert_continues(engine, copy, SHORT)


# Cuts.


@pytest.mark.parametrize("length", [1, 5, 6, 13])
def test_a_cut_leaves_no_trace(attention: Engine[Any], length: int) -> None:
    state = attention.new()
    in_steps(attention, state, SHORT, [9, 5])
    attention.truncate(state, length)
    assert (state.length, state.ids) == (length, SHORT[:length])
    assert_same_state(attention.export(state), fresh(attention, SHORT[:length])[1])
    assert_continues(attention, state, [3, 1, 4])


def test_a_cut_of_a_copy_leaves_the_original_alone(attention: Engine[Any]) -> None:
    _, state = attention.forward(SHORT)
    copy = attention.fork(state)
    attention.truncate(copy, 4)
    assert_continues(attention, copy, [90, 91, 92])
    assert_same_state(attention.export(state), fresh(attention, SHORT)[1])
    assert_continues(attention, state, [3, 1])


def test_a_cut_across_a_chunk_leaves_no_trace(attention: Engine[Any]) -> None:
    _, state = attention.forward(LONG[:131])
    attention.truncate(state, 127)
    assert_continues(attention, state, [7, 8, 9])


def test_a_cut_at_the_end_cuts_nothing(engine: Engine[Any]) -> None:
    _, state = engine.forward(SHORT)
    engine.truncate(state, len(SHORT))
    assert (state.length, state.ids) == (len(SHORT), SHORT)
    assert_continues(engine, state, [3, 1])


def test_a_recurrent_state_is_not_cut(engine: Engine[Any]) -> None:
    state = engine.new()
    for n in (3, 4, 3):
        engine.forward(SHORT[state.length : state.length + n], state)
        if state.length < 10:
            engine.fork(state)
    before = engine.export(state)
    for length, checkpoint in ((9, 7), (7, 7), (5, 3), (2, 0)):
        with pytest.raises(UsageError, match=f"recurrent.* nearest checkpoint, at position {checkpoint}$"):
            engine.truncate(state, length)
        assert (state.length, state.ids) == (10, SHORT[:10])
        assert_same_state(engine.export(state), before)
    assert_continues(engine, state, [3, 1])


def test_no_checkpoint_of_a_forgotten_sequence_is_named(engine: Engine[Any]) -> None:
    _, state = engine.forward(SHORT[:5])
    engine.fork(state)
    engine.truncate(state, 0)
    engine.forward(LONG[:9], state)
    with pytest.raises(UsageError, match=r"nearest checkpoint, at position 0$"):
        engine.truncate(state, 7)


@pytest.mark.parametrize("length", [-1, 15])
def test_no_cut_outside_the_state(attention: Engine[Any], length: int) -> None:
    _, state = attention.forward(SHORT)
    with pytest.raises(UsageError, match=f"Expected a length from 0 to 14 but got {length}$"):
        attention.truncate(state, length)


# Slots that are used again.


def test_a_slot_used_again_is_as_good_as_new(engine: Engine[Any]) -> None:
    _, state = engine.forward(LONG[:40])
    engine.truncate(state, 0)
    assert (state.length, state.ids, engine.export(state), engine.nbytes(state)) == (0, [], {}, 0)
    assert_continues(engine, state, SHORT)
    engine.truncate(state, 0)
    loaded = engine.load(fresh(engine, LONG[:9])[1], LONG[:9])
    engine.truncate(loaded, 0)
    assert_continues(engine, loaded, SHORT)


# Memory.


def test_a_state_takes_the_memory_of_what_is_stored(engine: Engine[Any], kv: str) -> None:
    """32 rows, for which the reference takes memory at once: keys and values of two layers, f32 of the delta layer.
    The host takes whole blocks, and one block more where a sequence outgrows them."""
    size, scale = STORED[kv].itemsize, 4 if kv == "int8" else 0
    c = micro().config
    d = c.delta
    assert d is not None
    rows = 2 * 2 * 32 * c.kv_heads * (c.head_dim * size + scale)
    recurrent = 4 * ((d.conv - 1) * d.channels + d.value_heads * d.dk * d.dv)
    state = engine.new()
    assert engine.nbytes(state) == 0
    engine.forward(LONG[:32], state)
    held = engine.nbytes(state)
    assert held > rows + recurrent if engine.name == "host" else held == rows + recurrent
    assert sum(array.nbytes for array in engine.export(state).values()) == rows + recurrent
    engine.forward(LONG[32:129], state)
    assert engine.nbytes(state) > held


@pytest.mark.parametrize("arm", STORAGES)
def test_what_memory_held_before_changes_no_bit(kv: str, arm: str) -> None:
    """NaN in every row that was never written; the reference and the host are the engines that have such rows."""
    clean = Engine("numpy", micro(), NumpyOps(arm, kv))  # type: ignore[arg-type]
    assert_unmoved(Engine("numpy", micro(), NumpyOps(arm, kv, scratch_fill=np.nan)), clean)  # type: ignore[arg-type]
    if not engines()["host"]:
        assert_unmoved(host.engine(micro(), arm, kv, scratch_fill=np.nan), clean)  # type: ignore[arg-type]


def assert_unmoved(engine: Engine[Any], clean: Engine[Any]) -> None:
    """The same steps, forks and loads as on a clean engine."""
    state = engine.new()
    logits = in_steps(engine, state, LONG[:35], [3, 1, 28, 1, 2])
    expected, exported = fresh(clean, LONG[:35])
    assert_same_bytes(logits, expected, "logits")
    assert_same_state(engine.export(state), exported)
    for other in (engine.fork(state), engine.load(exported, LONG[:35])):
        assert_continues(engine, other, [1, 2, 3])
    engine.truncate(state, 0)
    assert_continues(engine, state, SHORT)


def test_the_memory_of_the_test_above_is_full_of_nan(kv: str) -> None:
    engine = Engine("numpy", micro(), NumpyOps(kv=kv, scratch_fill=np.nan))  # type: ignore[arg-type]
    _, state = engine.forward(SHORT)
    cache = state.caches[0]
    assert cache.capacity > len(SHORT)
    beyond = cache.read("k", len(SHORT), cache.capacity)
    assert np.isnan(beyond).all()
