"""A prompt that was seen before costs nothing and changes no byte; a prompt that only looks like it shares nothing.

Every test runs on each engine.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from gnomon.compare.same import assert_same_bytes
from gnomon.decode.checkpoints import Checkpoints, Counts
from gnomon.decode.state_file import state_stream
from gnomon.gates.faults.restoring import ByLastId, ByPosition
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from running import LONG, SHORT, assert_continues, assert_same_state, attention_only, fresh

NewEngine = Callable[..., Engine[Any]]
ROOM = 1 << 24
TWIN = [SHORT[0] + 1, *SHORT[1:-1], SHORT[-1]]  # of the same length, beginning otherwise, with the same end


@pytest.fixture(scope="module")
def engine(new_engine: NewEngine) -> Engine[Any]:
    return new_engine(micro())


def file(engine: Engine[Any], state: Any) -> bytes:
    return b"".join(state_stream(engine, state))


def assert_cold(checkpoints: Checkpoints, ids: Sequence[int]) -> None:
    """The prompt through checkpoints is the prompt on an engine that has seen nothing."""
    engine = checkpoints.engine
    logits, state = checkpoints.extend(ids)
    expected, cold = engine.forward(ids)
    assert_same_bytes(logits, expected, "logits")
    assert file(engine, state) == file(engine, cold)
    assert_continues(engine, state, [3, 1, 4])  # the caller's own: what is kept does not move with it


def test_no_hit_shows(engine: Engine[Any]) -> None:
    checkpoints = Checkpoints(engine, ROOM)
    for ids in (SHORT, SHORT, [*SHORT, 5], SHORT[:6], [*SHORT[:6], 90], [*SHORT, 5, 6], LONG[:140], LONG, SHORT[:1]):
        assert_cold(checkpoints, ids)
    assert checkpoints.counts == Counts(
        restored=14 + 14 + 6 + 15 + 140, recomputed=14 + 1 + 6 + 1 + 1 + 140 + 10 + 1, hits=5, misses=4
    )


def check_twins(checkpoints: Checkpoints) -> None:
    """Two prompts of equal length and layout: each has its own state, whichever came first."""
    engine = checkpoints.engine
    exported = []
    for ids in (SHORT, TWIN, SHORT):
        _, state = checkpoints.extend(ids)
        exported.append(engine.export(state))
        assert state.ids == ids
        assert_same_state(exported[-1], fresh(engine, ids)[1])
    assert {n: (a.shape, a.dtype) for n, a in exported[0].items()} == {
        n: (a.shape, a.dtype) for n, a in exported[1].items()
    }
    assert checkpoints.counts.restored == len(SHORT)


def test_no_prompt_gets_the_state_of_its_twin(engine: Engine[Any]) -> None:
    check_twins(Checkpoints(engine, ROOM))


@pytest.mark.parametrize("kind", [ByPosition, ByLastId], ids=["the position", "position and last id"])
def test_a_key_cut_short_is_seen(engine: Engine[Any], kind: type[Checkpoints]) -> None:
    """The test above, on checkpoints that are found by less than all of their ids."""
    with pytest.raises(AssertionError):
        check_twins(kind(engine, ROOM))


def test_no_key_hangs_on_where_ids_are_cut(engine: Engine[Any]) -> None:
    checkpoints = Checkpoints(engine, ROOM)

    def keys(ids: list[int], lengths: list[int]) -> Iterator[str]:
        return checkpoints.keys(ids, lengths)

    every = list(keys(SHORT, list(range(1, 15))))
    assert len(set(every)) == 14
    assert [next(keys(SHORT, [n])) for n in range(1, 15)] == every
    assert next(keys([1, 256], [2])) != next(keys([257, 0], [2]))


def test_no_key_is_shared_by_models_or_forms(new_engine: NewEngine) -> None:
    engines = [
        new_engine(micro()),
        new_engine(attention_only()),
        new_engine(micro(), "int8"),
        new_engine(micro(), kv="bf16"),
    ]
    assert len({next(Checkpoints(e, ROOM).keys(SHORT, [14])) for e in engines}) == 4
    again = new_engine(micro())
    assert next(Checkpoints(again, ROOM).keys(SHORT, [14])) == next(Checkpoints(engines[0], ROOM).keys(SHORT, [14]))


def test_the_least_recently_used_goes_first(engine: Engine[Any]) -> None:
    one = Checkpoints(engine, ROOM)
    one.extend(SHORT)
    checkpoints = Checkpoints(engine, 3 * one.nbytes)
    first, second, third, fourth = ([n, *SHORT[1:]] for n in range(4))
    for ids in (first, second, third, first, fourth):  # second has not been used for the longest time
        checkpoints.extend(ids)
        assert checkpoints.nbytes <= checkpoints.budget
    assert (len(checkpoints), checkpoints.counts.evicted, checkpoints.counts.hits) == (3, 1, 1)
    for ids, known in ((first, 14), (third, 14), (fourth, 14), (second, 0)):
        before = checkpoints.counts.restored
        checkpoints.extend(ids)
        assert checkpoints.counts.restored - before == known


@pytest.mark.parametrize("budget", [0, 100])
def test_no_checkpoint_outgrows_the_budget(engine: Engine[Any], budget: int) -> None:
    checkpoints = Checkpoints(engine, budget)
    for _ in range(2):
        assert_cold(checkpoints, SHORT)
    assert (len(checkpoints), checkpoints.nbytes) == (0, 0)
    assert checkpoints.counts == Counts(recomputed=28, misses=2)


def test_an_answer_can_be_kept(engine: Engine[Any]) -> None:
    """A conversation goes on from the end of the last answer."""
    checkpoints = Checkpoints(engine, ROOM)
    _, state = checkpoints.extend(SHORT)
    logits, _ = engine.forward([7, 8], state)
    checkpoints.keep(state, logits)
    assert_cold(checkpoints, [*SHORT, 7, 8, 9])
    assert checkpoints.counts.restored == 16


def test_no_logits_are_shared(engine: Engine[Any]) -> None:
    checkpoints = Checkpoints(engine, ROOM)
    logits, _ = checkpoints.extend(SHORT)
    logits.fill(0)
    checkpoints.extend(SHORT)[0].fill(0)
    assert_cold(checkpoints, SHORT)


def test_no_hit_makes_the_next_one_dearer(engine: Engine[Any]) -> None:
    checkpoints = Checkpoints(engine, ROOM)
    states = [checkpoints.extend(SHORT)[1] for _ in range(20)]
    assert max(len(state.forks) for state in states) <= 2


def test_a_failed_step_keeps_nothing(engine: Engine[Any]) -> None:
    checkpoints = Checkpoints(engine, ROOM)
    checkpoints.extend(SHORT)
    before = (len(checkpoints), checkpoints.nbytes, checkpoints.counts)
    with pytest.raises(UsageError, match="Expected token ids from 0 to 96 but got 97"):
        checkpoints.extend([*SHORT, 97])
    assert (len(checkpoints), checkpoints.nbytes, checkpoints.counts) == before
    assert_cold(checkpoints, [*SHORT, 96])


def test_no_nonsense_is_taken(engine: Engine[Any]) -> None:
    with pytest.raises(UsageError, match="at least one token id"):
        Checkpoints(engine, ROOM).extend([])
    with pytest.raises(UsageError, match="a budget of at least 0 bytes for checkpoints but got -1"):
        Checkpoints(engine, -1)
