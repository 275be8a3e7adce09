"""Drafts change no byte: after every round ids, rows of logits and state are those of plain decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import pytest

import gnomon
from decoding import MODELS, SEEDS, Plain, assert_as_plain, plainly
from gnomon.decode.drafters import Drafter, EngineDrafter, Ngram, Replay
from gnomon.decode.generate import Generation, generate
from gnomon.decode.text import GREEDY, Request, until
from gnomon.planted import sum_from_the_end
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32
from running import LONG, VOCAB, assert_same_state

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
        assert drawn == plain.ids[: len(drawn)]
        assert_as_plain(made.engine, made.text, rows, plain, len(drawn))
    assert drawn == plain.ids


@pytest.fixture(scope="module")
def plain() -> Callable[..., Plain]:
    """Plain decoding on the reference, each case once."""
    known: dict[tuple[Any, ...], Plain] = {}

    def decoded(model: str, sampling: Sampling) -> Plain:
        if (model, sampling) not in known:
            known[model, sampling] = plainly(numpy(MODELS[model]), PROMPT, TOKENS, sampling)
        return known[model, sampling]

    return decoded


CASES = [("micro", sampling) for sampling in SAMPLINGS] + [("attention", "greedy"), ("attention", "seed 1")]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(("model", "sampling"), CASES)
def test_no_draft_changes_a_bit(plain: Callable[..., Plain], model: str, sampling: str, drafter: str) -> None:
    expected = plain(model, SAMPLINGS[sampling])
    guesser = DRAFTERS[drafter](MODELS[model], [*PROMPT, *expected.ids])
    asked = Request(PROMPT, TOKENS, SAMPLINGS[sampling])
    follow(Generation(numpy(MODELS[model]), asked, guesser, draft_tokens=4), expected)


@pytest.mark.parametrize("drafter", ["n-grams", "the same engine", "wrong third"])
def test_no_draft_changes_a_bit_on_any_engine(new_engine: NewEngine, plain: Callable[..., Plain], drafter: str) -> None:
    """Expected bytes are those of the reference."""
    expected = plain("micro", SEEDS[0])
    guesser = DRAFTERS[drafter](MODELS["micro"], [*PROMPT, *expected.ids])
    follow(Generation(new_engine(MODELS["micro"]), Request(PROMPT, TOKENS, SEEDS[0]), guesser), expected)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(1e-46, seed=3)], ids=["greedy", "T rounds to 0"])
def test_no_tie_goes_to_a_higher_id(new_engine: NewEngine, sampling: Sampling) -> None:
    """Every maximum stands twice. Plain, and with guesses that are always the higher id."""
    engine = new_engine(MODELS["ties"])
    expected = plainly(engine, PROMPT, 6, sampling)
    assert list(engine.generate(PROMPT, 6)) == expected.ids
    for row, drawn in zip(expected.rows, expected.ids, strict=True):
        assert np.flatnonzero(row == row.max()).tolist() == [drawn, drawn + 1]
    for wrong in (False, True):
        guesser = Guesses([*PROMPT, *expected.ids], lambda n, wrong=wrong: wrong)
        follow(Generation(engine, Request(PROMPT, 6, sampling), guesser), expected)


# The end of a text.


@pytest.mark.parametrize("at", range(TOKENS))
@pytest.mark.parametrize("model", ["micro", "attention"])
def test_no_row_behind_a_stop_stays(plain: Callable[..., Plain], model: str, at: int) -> None:
    """The stop stands at each place of a right draft."""
    sampling = SEEDS[1]
    ids = plain(model, sampling).ids
    stop = ids[at]
    end = ids.index(stop) + 1
    expected = plainly(numpy(MODELS[model]), PROMPT, TOKENS, sampling, [stop])
    assert len(expected.ids) == end
    asked = Request(PROMPT, TOKENS, sampling, stop_ids={stop})
    made = Generation(numpy(MODELS[model]), asked, Replay([*PROMPT, *ids]))
    follow(made, expected)
    assert (made.text.reason, made.text.ids) == ("stop", ids[: end - 1])


@pytest.fixture(scope="module")
def spelled_text() -> tuple[Engine[Any], list[int], Plain]:
    """A model with a tokenizer, a prompt, and its plain continuation."""
    model = gnomon.load("tiny-dense")
    assert model.tokenizer is not None
    engine, prompt = numpy(model), model.tokenizer.encode("def main(")
    return engine, prompt, plainly(engine, prompt, 9)


@pytest.mark.parametrize("draft", [None, "right"], ids=["plain", "right drafts"])
@pytest.mark.parametrize(
    ("stops", "text"),
    [(["level, le"], "self, "), (["vel", "e"], "s"), ([", level, level"], "self"), (["nowhere in it"], None)],
    ids=str,
)
def test_no_text_goes_on_behind_a_stop_text(
    spelled_text: tuple[Engine[Any], list[int], Plain], draft: Any, stops: list[str], text: str | None
) -> None:
    engine, prompt, expected = spelled_text
    model = engine.model
    assert model.tokenizer is not None
    spelled = model.tokenizer.decode(expected.ids)
    drafter = Replay([*prompt, *expected.ids]) if draft else None
    made = generate(engine, prompt, 9, draft=drafter, stop_texts=stops)
    pieces = list(until(model.tokenizer.stream(made), stops))
    assert "".join(pieces) == made.text.spelled() == (spelled if text is None else text)
    assert made.text.reason == ("length" if text is None else "stop")
    drawn = len(made.text.ids)
    assert made.text.ids == expected.ids[:drawn]
    if text is not None:  # the last id is the one that completed it
        assert not any(stop in model.tokenizer.decode(made.text.ids[:-1]) for stop in stops)
    assert_same_state(engine.export(made.text.state), expected.states[len(prompt) + drawn - 1])


@pytest.mark.parametrize(
    ("pieces", "stops", "given"),
    [
        (["ab", "cd"], [], ["ab", "cd"]),
        (["ab", "cd"], ["bc"], ["a"]),
        (["ab", "ab", "c"], ["bc"], ["a", "ba"]),
        (["aab"], ["ab"], ["a"]),
        (["xa", "a", "b", "y"], ["aab"], ["x"]),
        (["xa", "y"], ["ab"], ["x", "ay"]),
        (["a"], ["ab"], ["a"]),
        (["abcd"], ["cd", "b"], ["a"]),
        (["abcd", "x"], ["abcd"], []),
    ],
    ids=str,
)
def test_no_piece_of_a_stop_text_is_given(pieces: list[str], stops: list[str], given: list[str]) -> None:
    assert list(until(pieces, stops)) == given


# What it costs.


@pytest.mark.parametrize("model", ["micro", "attention"])
def test_right_drafts_cost_no_pass(plain: Callable[..., Plain], model: str) -> None:
    ids = plain(model, SEEDS[0]).ids
    made = Generation(numpy(MODELS[model]), Request(PROMPT, TOKENS, SEEDS[0]), Replay([*PROMPT, *ids]), 4)
    list(made)
    count = made.statistics
    assert count.passes == 1 + ceil((TOKENS - 1) / 5) == 3
    assert (count.drafted, count.accepted, count.recomputed) == (8, 8, 0)
    assert count.rows == len(PROMPT) + TOKENS - 1


def test_an_engine_accepts_all_its_own_drafts() -> None:
    """Sampled too: the drafter draws with the same seed at the same positions."""
    for model in (MODELS["micro"], MODELS["attention"]):
        for sampling in (GREEDY, SEEDS[0]):
            made = generate(numpy(model), PROMPT, 20, sampling=sampling, draft=EngineDrafter(numpy(model)))
            assert len(list(made)) == 20
            assert made.statistics.drafted == made.statistics.accepted == 16
            assert made.statistics.passes == 1 + ceil(19 / 9)


@pytest.mark.parametrize("model", ["micro", "attention"])
def test_every_pass_is_counted(plain: Callable[..., Plain], model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows run again after a rejection included; without recurrent layers nothing is copied and nothing run again."""
    ids, engine = plain(model, GREEDY).ids, numpy(MODELS[model])
    passes: list[int] = []
    forks: list[int] = []
    step, fork = engine.step, engine.fork
    monkeypatch.setattr(engine, "step", lambda rows, *rest: (passes.append(len(rows.ids)), step(rows, *rest))[1])
    monkeypatch.setattr(engine, "fork", lambda state: (forks.append(state.length), fork(state))[1])
    made = Generation(engine, Request(PROMPT, TOKENS), Guesses([*PROMPT, *ids], lambda n: n == 2), 4)
    list(made)
    count = made.statistics
    assert (count.passes, count.rows) == (len(passes), sum(passes))
    # Rounds draw 1 (the prompt), 3, 3, 3 and 1 ids; guesses: 4, 4, 3 and none.
    assert (count.drafted, count.accepted) == (11, 6)
    assert (len(forks), count.recomputed, len(passes)) == ((3, 9, 8) if model == "micro" else (0, 0, 5))


# Drafters.


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


def test_no_draft_reaches_beyond_the_last_position() -> None:
    model = replace(MODELS["micro"], config=replace(MODELS["micro"].config, max_positions=12))
    expected = plainly(numpy(model), PROMPT, 6)
    made = generate(numpy(model), PROMPT, 50, draft=Replay([*PROMPT, *expected.ids, *PROMPT]))
    assert list(made) == expected.ids
    assert made.text.reason == "positions"


def test_no_round_without_a_guess_is_asked_for() -> None:
    with pytest.raises(UsageError, match="at least one guess a round but got draft_tokens=0"):
        Generation(numpy(MODELS["micro"]), Request(PROMPT, 3), Ngram(), 0)
