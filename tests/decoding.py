"""Plain decoding, which batches and drafts are held against: steps of one row, and the sampler of the contract."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gnomon.compare.same import assert_same_bytes
from gnomon.decode.text import GREEDY, Text
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.protocol import F32
from running import Exported, assert_same_state, attention_only

SEEDS = [Sampling(1.0, 0, 0.95, seed) for seed in (1, 2, 3, 4, 2**64 - 1)]


@dataclass
class Plain:
    """ids: drawn, a stop id included; rows: of logits, one an id; states: exported, by number of positions"""

    ids: list[int] = field(default_factory=list)
    rows: list[F32] = field(default_factory=list)
    states: dict[int, Exported] = field(default_factory=dict)


def plainly(
    engine: Engine[Any], ids: Sequence[int], tokens: int, sampling: Sampling = GREEDY, stop: Collection[int] = ()
) -> Plain:
    out, state, new = Plain(), engine.new(), list(ids)
    while True:
        logits, _ = engine.forward(new, state)
        out.rows.append(logits[0])
        out.states[state.length] = engine.export(state)
        out.ids.append(sample(logits[0], sampling, state.length - 1))
        if len(out.ids) == tokens or out.ids[-1] in stop:
            return out
        new = out.ids[-1:]


def assert_as_plain(engine: Engine[Any], text: Text, rows: Sequence[F32], plain: Plain, drawn: int) -> None:
    """After so many ids: the text, the rows that they were drawn from, and the state."""
    known = [*text.request.ids, *plain.ids[:drawn]]
    assert (text.state.ids, text.state.length) == (known[:-1], len(known) - 1)
    assert len(rows) == drawn
    assert_same_bytes(np.stack(rows), np.stack(plain.rows[:drawn]), "logits")
    assert_same_state(engine.export(text.state), plain.states[len(known) - 1])


def with_ties(model: Model) -> Model:
    """Every odd id has the logit of the even id below it."""
    head = model.weights["head.weight"]
    data = head.data.copy()
    data[1::2] = data[: len(data) // 2 * 2 : 2]
    return replace(model, name="ties", weights={**model.weights, head.name: replace(head, data=data)})


MODELS = {"micro": micro(), "attention": attention_only(), "ties": with_ties(micro())}
