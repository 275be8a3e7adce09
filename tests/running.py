"""Running prompts in steps, for the tests of schedules and of states."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.same import assert_same_bytes
from gnomon.models import micro
from gnomon.models.micro import CONFIG
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import State

VOCAB = 97
SHORT = [(7 * i * i + 3 * i + 11) % VOCAB for i in range(14)]  # longer than the window of 5
LONG = [(5 * i * i + 13 * i + 2) % VOCAB for i in range(150)]  # longer than a chunk of 128 positions
STORAGES = ("f32", "bf16", "int8")

Exported = dict[str, NDArray[Any]]


def parts(ids: Sequence[int], lengths: Sequence[int]) -> list[Sequence[int]]:
    assert sum(lengths) == len(ids)
    return [ids[start:stop] for start, stop in pairwise(accumulate(lengths, initial=0))]


def in_steps(engine: Engine[Any], state: State, ids: Sequence[int], lengths: Sequence[int]) -> F32:
    """The ids joined to the state in steps of these lengths -> logits of every row"""
    steps = [engine.step(Rows.of([(state, part)]), want="all") for part in parts(ids, lengths)]
    return np.concatenate(steps)


def in_batches(
    engine: Engine[Any], sequences: Mapping[str, Sequence[int]], steps: Sequence[Mapping[str, int]]
) -> tuple[dict[str, F32], dict[str, State]]:
    """Several sequences; each step says how many rows of which sequence it holds -> logits and state of each"""
    states = {name: engine.new() for name in sequences}
    logits: dict[str, list[F32]] = {name: [] for name in sequences}
    for step in steps:
        batch = [(states[name], sequences[name][states[name].length :][:n]) for name, n in step.items()]
        out = engine.step(Rows.of(batch), want="all")
        for name, rows in zip(step, np.split(out, np.cumsum(list(step.values()))[:-1]), strict=True):
            logits[name].append(rows)
    for name, ids in sequences.items():
        assert states[name].ids == ids
    return {name: np.concatenate(rows) for name, rows in logits.items()}, states


def assert_same_state(got: Exported, expected: Exported) -> None:
    """Of two exported states."""
    assert expected
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert_same_bytes(got[name], array, name, uint16="bf16")


def attention_only(windows: tuple[int | None, int | None] = (5, None), **changes: Any) -> Model:
    """micro without its delta layer: two layers of attention, one of them behind a window. changes: of its shape"""
    return micro(replace(CONFIG, layers=2, windows=windows, kinds=("attention",) * 2, delta=None, **changes))


def fresh(engine: Engine[Any], ids: list[int]) -> tuple[Any, Exported]:
    """Logits of every row, and the state, of a state that never held anything else."""
    logits, state = engine.forward(ids, want="all")
    return logits, engine.export(state)


def assert_continues(engine: Engine[Any], state: State, more: list[int]) -> None:
    """The state goes on with `more` as one does that has consumed the same ids in one step."""
    start, ids = state.length, [*state.ids, *more]
    expected, exported = fresh(engine, ids)
    got = in_steps(engine, state, more, [1, len(more) - 1])
    assert_same_bytes(got, expected[start:], "logits")
    assert_same_state(engine.export(state), exported)
    assert (state.length, state.ids) == (len(ids), ids)
