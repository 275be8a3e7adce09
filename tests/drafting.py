"""Drafters for tests, right and wrong ones, and what a text that is drafted is held against after every round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from decoding import MODELS, SEEDS, Plain, assert_as_plain, plainly
from gnomon.decode.drafters import Drafter, EngineDrafter, Ngram, Replay
from gnomon.decode.generate import Generation
from gnomon.decode.text import GREEDY
from gnomon.planted import sum_from_the_end
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32
from running import LONG, VOCAB

PROMPT = LONG[:7]
TOKENS = 11
NewEngine = Callable[[Model], Engine[Any]]


@dataclass
class Guesses:
    """The right guesses but for those of each draft at which `wrong` is true."""

    text: Sequence[int]
    wrong: Callable[[int], bool]

    def draft(self, ids: Sequence[int], limit: int, sampling: Sampling) -> list[int]:
        right = self.text[len(ids) : len(ids) + limit]
        return [(guess + 1) % VOCAB if self.wrong(n) else guess for n, guess in enumerate(right)]


def numpy(model: Model) -> Engine[Any]:
    return Engine("numpy", model, NumpyOps())


def inexact(model: Model) -> Engine[Any]:
    """Its sums have other bytes."""
    return sum_from_the_end(numpy(model), "blocks.1.mlp.gate")


Make = Callable[[Model, list[int]], Drafter | None]
DRAFTERS: dict[str, Make] = {
    "none": lambda model, text: None,
    "n-grams": lambda model, text: Ngram(),
    "the same engine": lambda model, text: EngineDrafter(numpy(model)),
    "an inexact engine": lambda model, text: EngineDrafter(inexact(model)),
    "another model": lambda model, text: EngineDrafter(numpy(MODELS["attention"])),
    "another model with recurrent layers": lambda model, text: EngineDrafter(numpy(MODELS["micro"])),
    "all right": lambda model, text: Replay(text),
    "all wrong": lambda model, text: Guesses(text, lambda n: True),
    "wrong first": lambda model, text: Guesses(text, lambda n: n == 0),
    "wrong third": lambda model, text: Guesses(text, lambda n: n == 2),
    "out of the vocabulary": lambda model, text: Replay([*text[:10], VOCAB, -1, *text[12:]]),
}
SAMPLINGS = {"greedy": GREEDY} | {f"seed {sampling.seed}": sampling for sampling in SEEDS}


def follow(made: Generation, plain: Plain) -> None:
    """Every round against plain decoding."""
    drawn: list[int] = []
    rows: list[F32] = []
    while not made.text.reason:
        this = made.round()
        drawn += this.ids
        rows.extend(this.logits)
        assert drawn == plain.ids[: len(drawn)], (drawn, plain.ids)
        assert_as_plain(made.engine, made.text, rows, plain, len(drawn))
    assert drawn == plain.ids, (drawn, plain.ids)


@cache
def plain(model: str, sampling: Sampling) -> Plain:
    """TOKENS ids behind PROMPT, decoded plainly on the reference; each case once."""
    return plainly(numpy(MODELS[model]), PROMPT, TOKENS, sampling)
