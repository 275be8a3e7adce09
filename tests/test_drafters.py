"""Drafters guess from the text alone: nothing they saw before counts, and what fails in them only shortens a guess."""

from dataclasses import replace

import numpy as np
import pytest

from decoding import MODELS, SEEDS, plainly
from drafting import PROMPT, follow, numpy
from gnomon.decode.drafters import EngineDrafter, Ngram
from gnomon.decode.generate import Generation
from gnomon.decode.text import GREEDY, Request
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.sample import Sampling
from running import LONG, VOCAB


@pytest.mark.parametrize(
    ("text", "guesses"),
    [
        ([1, 2, 3, 1], [2, 3, 1, 2]),
        ([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], [9, 2, 3, 8]),  # longer before more recent
        ([2, 3, 9, 4, 2, 3, 8, 5, 2, 3], [8, 5, 2, 3]),  # of two as long, the more recent
        ([5, 5], [5, 5, 5, 5]),
        ([1, 2, 1, 2], [1, 2, 1, 2]),
        ([7, 8, 9], []),
        ([7], []),
    ],
    ids=str,
)
def test_n_grams_guess_nothing_else(text: list[int], guesses: list[int]) -> None:
    assert Ngram().draft(text, 4, GREEDY) == guesses


@pytest.mark.parametrize("model", ["micro", "attention"])
@pytest.mark.parametrize("sampling", [GREEDY, SEEDS[0]], ids=["greedy", "sampled"])
def test_what_a_drafter_saw_before_changes_no_guess(model: str, sampling: Sampling) -> None:
    """Rejected guesses, another text, a shorter one: it guesses as a new one does."""
    drafter = EngineDrafter(numpy(MODELS[model]))
    for text in (LONG[:5], LONG[:8], [*LONG[:8], 3], [*LONG[:8], 3, 4, 5], LONG[20:30], LONG[:6], LONG[:6], LONG[:3]):
        expected = plainly(numpy(MODELS[model]), text, 4, sampling).ids
        assert drafter.draft(text, 4, sampling) == expected


def test_a_drafter_that_fails_guesses_less() -> None:
    model = MODELS["micro"]
    engine = numpy(model)
    expected = plainly(engine, PROMPT, 6)
    table = model.weights["embed.weight"]
    data = table.data.copy()
    data.view("<f4")[expected.ids[2]] = np.nan
    failing = numpy(replace(model, weights={**model.weights, "embed.weight": replace(table, data=data)}))
    drafter = EngineDrafter(failing)
    assert drafter.draft([*PROMPT, expected.ids[0]], 5, GREEDY) == expected.ids[1:3]
    assert drafter.draft([*PROMPT, *expected.ids[:3]], 5, GREEDY) == []
    follow(Generation(engine, Request(PROMPT, 6), EngineDrafter(failing)), expected)


def test_a_drafter_stays_within_its_model() -> None:
    """Its positions and its vocabulary may be smaller than those of the text."""
    model = MODELS["attention"]
    drafter = EngineDrafter(numpy(replace(model, config=replace(model.config, max_positions=9))))
    assert len(drafter.draft(PROMPT, 8, GREEDY)) == 3
    assert drafter.draft(LONG[:10], 8, GREEDY) == []
    assert EngineDrafter(numpy(model)).draft([1, VOCAB], 8, GREEDY) == []


def test_no_round_without_a_guess_is_asked_for() -> None:
    with pytest.raises(UsageError, match="at least one guess a round but got draft_tokens=0"):
        Generation(numpy(MODELS["micro"]), Request(PROMPT, 3), Ngram(), 0)
