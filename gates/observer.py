"""Watching changes nothing: a step without a tap, under boundary taps and under all taps leaves the same bytes."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.gates.faults import watching as broken
from gnomon.gates.gate import AnyEngine, Array, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.tally import Tally, prompts
from gnomon.reference.protocol import F32

HEADER = Header(
    name="observer",
    question="Does an engine compute the same whether nobody watches, the boundaries are watched, or every tensor is?",
    instrument="logits and exported state of three runs on three engine objects, and what the two taps saw of the "
    "same tensor, by compare.judge",
    threshold="every tensor alive and identical, bit for bit; at least one boundary tensor per layer seen",
    disproof="a tensor that differs between the fused path and the one that shows every op",
    void="no prompt, a tap that saw nothing",
    numbers={"steps": [9, 1, 3, 1], "boundary": ["resid_post", "logits"]},
)


class Watch:
    """A tap that keeps what it wants."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.wanted = wanted
        self.seen: list[tuple[str, int, F32]] = []

    def wants(self, name: str) -> bool:
        return self.wanted(name)

    def __call__(self, name: str, value: F32, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
        self.seen.append((name, int(pos[0]), value))


def run(subject: Subject) -> Outcome:
    tally = Tally()
    boundary = tuple(HEADER.numbers["boundary"])
    for model, ids in prompts(subject):
        plain, plain_state = watched(subject.engine(model), ids, None)
        some, every = Watch(lambda name: name.endswith(boundary)), Watch(lambda name: True)
        for how, watch in (("boundary taps", some), ("all taps", every)):
            logits, state = watched(subject.engine(model), ids, watch)
            for step, (got, expected) in enumerate(zip(logits, plain, strict=True)):
                tally.compare(f"{model.name}, {how}, step {step}", got, expected, "logits")
            tally.compare_all(f"{model.name}, {how}, state", state, plain_state)
        inner = {(name, pos): value for name, pos, value in every.seen}
        if len(some.seen) <= model.config.layers:
            raise VoidError(f"{model.name}: a tap of the boundaries saw {len(some.seen)} tensors")
        for name, pos, value in some.seen:
            tally.compare(f"{model.name}, {name} at position {pos}", value, inner.get((name, pos)), name)
    return tally.outcome()


def watched(engine: AnyEngine, ids: Sequence[int], tap: Watch | None) -> tuple[list[F32], dict[str, Array]]:
    """The steps of the header, one after the other -> logits of each, and the state"""
    state, at, out = engine.new(), 0, []
    for rows in HEADER.numbers["steps"]:
        logits, state = engine.forward(ids[at : at + rows], state, "all", tap)
        out.append(logits)
        at += rows
    return out, engine.export(state)


GATE = Gate(
    HEADER,
    run,
    {
        "the path without a tap is off by one bit": (broken.flips_without_a_tap, "boundary taps, step 0"),
        "a tap of everything changes a result": (broken.flips_under_all_taps, "all taps, step 0"),
        "the boundary tap shows something else": (broken.shows_otherwise, "resid_post at position 0"),
    },
)
