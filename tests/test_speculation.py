"""Drafts change no byte: after every round ids, rows of logits and state are those of plain decoding."""

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

import gnomon
from decoding import MODELS, SEEDS, Plain, plainly
from drafting import DRAFTERS, PROMPT, SAMPLINGS, TOKENS, Guesses, NewEngine, follow, numpy, plain
from gnomon.decode.drafters import EngineDrafter, Replay
from gnomon.decode.generate import Generation, generate
from gnomon.decode.stops import until
from gnomon.decode.text import GREEDY, Request
from gnomon.reference.engine import Engine
from gnomon.reference.ops.sample import Sampling
from running import assert_same_state

CASES = [("micro", sampling) for sampling in SAMPLINGS] + [("attention", "greedy"), ("attention", "seed 1")]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(("model", "sampling"), CASES)
def test_no_draft_changes_a_bit(model: str, sampling: str, drafter: str) -> None:
    expected = plain(model, SAMPLINGS[sampling])
    guesser = DRAFTERS[drafter](MODELS[model], [*PROMPT, *expected.ids])
    asked = Request(PROMPT, TOKENS, SAMPLINGS[sampling])
    follow(Generation(numpy(MODELS[model]), asked, guesser, draft_tokens=4), expected)


@pytest.mark.parametrize("drafter", ["n-grams", "the same engine", "wrong third"])
def test_no_draft_changes_a_bit_on_any_engine(new_engine: NewEngine, drafter: str) -> None:
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
def test_no_row_behind_a_stop_stays(model: str, at: int) -> None:
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


def test_no_draft_reaches_beyond_the_last_position() -> None:
    model = replace(MODELS["micro"], config=replace(MODELS["micro"].config, max_positions=12))
    expected = plainly(numpy(model), PROMPT, 6)
    made = generate(numpy(model), PROMPT, 50, draft=Replay([*PROMPT, *expected.ids, *PROMPT]))
    assert list(made) == expected.ids
    assert made.text.reason == "positions"


# What it costs.


@pytest.mark.parametrize("model", ["micro", "attention"])
def test_right_drafts_cost_no_pass(model: str) -> None:
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
def test_every_pass_is_counted(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
