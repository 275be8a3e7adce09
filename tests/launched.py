"""A shadow beside the reference on `micro`: bits of logits and states, for the tests of engines on GPUs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.compare.same import assert_same_bytes
from gnomon.engines import engine
from gnomon.models import micro
from gnomon.models.micro import CONFIG
from gnomon.reference.config import Moe
from gnomon.reference.engine import Engine
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State
from gnomon.reference.weights import Weight
from running import LONG, assert_same_state

PROMPT = LONG[:6]


def assert_same_steps(
    shadow: Engine[Any], steps: Sequence[int], arm: str = "f32", kv: str = "f32", start: int = 0
) -> None:
    """The ids of LONG in steps of so many rows, from a state of `start` positions that the reference made."""
    reference = engine("numpy", shadow.model, arm, kv)
    a, b = reference.new(), shadow.new()
    if start:
        reference.step(Rows.of([(a, LONG[:start])]), "none")
        b = shadow.load(reference.export(a), a.ids)
    for count in steps:
        ids = LONG[a.length : a.length + count]
        expected = reference.step(Rows.of([(a, ids)]), "all")
        assert_same_bytes(shadow.step(Rows.of([(b, ids)]), "all"), expected, f"logits at {b.length}")
    assert_same_state(shadow.export(b), reference.export(a))


def assert_same_batches(shadow: Engine[Any], batches: Sequence[Sequence[int]]) -> None:
    """Steps of several sequences; each step says how many rows of each."""
    reference = engine("numpy", shadow.model)
    pairs: list[tuple[State, State]] = [(reference.new(), shadow.new()) for _ in batches[0]]
    for counts in batches:
        ids = [LONG[a.length + 3 * i :][:n] for i, ((a, _), n) in enumerate(zip(pairs, counts, strict=True))]
        expected = reference.step(Rows.of([(a, new) for (a, _), new in zip(pairs, ids, strict=True)]))
        got = shadow.step(Rows.of([(b, new) for (_, b), new in zip(pairs, ids, strict=True)]))
        assert_same_bytes(got, expected, "logits")
    for a, b in pairs:
        assert_same_state(shadow.export(b), reference.export(a))


class Everything:
    """A tap that keeps all it is shown."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}

    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, value: Any, pos: Any, op: str, inputs: tuple[str, ...]) -> None:
        self.shown[name] = value


def assert_same_taps(shadow: Engine[Any]) -> None:
    ours, theirs = Everything(), Everything()
    shadow.forward(PROMPT, tap=ours)
    engine("numpy", shadow.model).forward(PROMPT, tap=theirs)
    assert ours.shown.keys() == theirs.shown.keys()
    for name, value in theirs.shown.items():
        assert_same_bytes(ours.shown[name], value, name)


def differs(shadow: Engine[Any], ids: Sequence[int] = PROMPT) -> bool:
    """Whether the shadow casts other bytes on a prompt and one more token."""
    reference = engine("numpy", shadow.model)
    for one in (shadow, reference):
        assert one.model.digest == micro().digest
    a, state = shadow.forward(ids, want="all")
    b, expected = reference.forward(ids, want="all")
    c, d = shadow.forward(ids[:1], state)[0], reference.forward(ids[:1], expected)[0]
    return not (np.array_equal(a, b) and np.array_equal(c, d))


def mixture() -> Model:
    """micro with experts in its last layer: no plan can be made of it."""
    config = replace(CONFIG, moe=Moe(experts=5, top_k=2, ffn=24, shared_ffn=8, normalise=True, layers=(2,)))
    rng, weights = np.random.default_rng(5), {}
    for name, spec in family(config.family).specs(config).items():
        values = rng.normal(size=spec.shape).astype("<f4") / np.float32(4)
        data = np.ascontiguousarray(values).view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "F32", spec.shape, data, spec.role)
    return Model("micro-mixture", config, weights)
