"""Drafts and batches on trained models, on the twenty prompts: too long for `make test`.

Fast engines take all prompts, slow ones some; expected bytes are those of plain decoding on the same engine.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gnomon
from decoding import SEEDS, Plain, assert_as_plain, plainly
from drafting import follow
from gnomon.decode.batch import Batch
from gnomon.decode.drafters import Drafter, EngineDrafter, Ngram, Replay
from gnomon.decode.generate import Generation
from gnomon.decode.text import GREEDY, Request
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32

pytestmark = pytest.mark.wide

PROMPTS = [p["text"] for p in json.loads((Path(__file__).parent / "prompts.json").read_text("utf-8"))["prompts"]]
SLOW = {"numpy": 4, "mlx-array": 2}  # engine -> how many prompts of a tiny model it takes; of SmolLM2 it takes one
SAMPLINGS = [GREEDY, *SEEDS]
MODELS = ["tiny-dense", "tiny-hybrid", "SmolLM2"]


class Wrong:
    """The right text but for guesses that `wrong` names: of all, or of the first of each draft."""

    def __init__(self, text: list[int], vocab: int, first_only: bool) -> None:
        self.text, self.vocab, self.first_only = text, vocab, first_only

    def draft(self, ids: Any, limit: int, sampling: Sampling) -> list[int]:
        right = self.text[len(ids) : len(ids) + limit]
        return [guess if n and self.first_only else (guess + 1) % self.vocab for n, guess in enumerate(right)]


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    if request.param != "SmolLM2":
        return gnomon.load(request.param)
    path = Path(os.environ.get("GNOMON_SMOLLM2", ".cache/SmolLM2-135M-Instruct.Q4_1.gguf"))
    if not path.is_file():
        pytest.skip(f"no SmolLM2 at {path}: make test-real fetches it")
    return gnomon.load(path)


@pytest.fixture(scope="module")
def engine(engine_name: str, model: Model) -> Engine[Any]:
    return gnomon.engine(engine_name, model)


@pytest.fixture(scope="module")
def plain(engine: Engine[Any]) -> Callable[[list[int], int, Sampling], Plain]:
    """Plain decoding, each case once."""
    known: dict[tuple[Any, ...], Plain] = {}

    def decoded(ids: list[int], tokens: int, sampling: Sampling) -> Plain:
        key = (tuple(ids), tokens, sampling)
        if key not in known:
            known[key] = plainly(engine, ids, tokens, sampling)
        return known[key]

    return decoded


def cases(engine: Engine[Any], n: int) -> tuple[list[int], int, list[Sampling]]:
    """Ids of the prompt, ids to draw, samplings; skips what a slow engine does not take."""
    small = engine.model.name.startswith("tiny")
    slow = engine.name in SLOW
    if slow and n >= (SLOW[engine.name] if small else 1):
        pytest.skip(f"{engine.name} takes the first prompts only")
    assert engine.model.tokenizer is not None
    ids = engine.model.tokenizer.encode(PROMPTS[n])
    return ids, 16 if small or not slow else 6, SAMPLINGS if small or not slow else SAMPLINGS[:2]


KNOWN: dict[tuple[str, str, str], Engine[Any]] = {}


def other(engine_name: str, model: str | Model, arm: str) -> Engine[Any]:
    """An engine that drafts, made once."""
    key = (engine_name, model if isinstance(model, str) else model.name, arm)
    if key not in KNOWN:
        KNOWN[key] = gnomon.engine(engine_name, gnomon.load(model) if isinstance(model, str) else model, arm)
    return KNOWN[key]


DRAFTERS: dict[str, Callable[[Engine[Any], list[int]], Drafter]] = {
    "n-grams": lambda engine, text: Ngram(),
    "the same model": lambda engine, text: EngineDrafter(engine),
    "another model": lambda engine, text: EngineDrafter(other(engine.name, "tiny-hybrid", "f32")),
    "another arm": lambda engine, text: EngineDrafter(other(engine.name, engine.model, "int8")),
    "all right": lambda engine, text: Replay(text),
    "all wrong": lambda engine, text: Wrong(text, engine.model.config.vocab, False),
    "wrong first": lambda engine, text: Wrong(text, engine.model.config.vocab, True),
}


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("n", range(len(PROMPTS)))
def test_no_draft_changes_a_bit(engine: Engine[Any], plain: Callable[..., Plain], drafter: str, n: int) -> None:
    ids, tokens, samplings = cases(engine, n)
    for sampling in samplings:
        expected = plain(ids, tokens, sampling)
        guesser = DRAFTERS[drafter](engine, [*ids, *expected.ids])
        follow(Generation(engine, Request(ids, tokens, sampling), guesser, 4), expected)


@pytest.mark.parametrize("n", range(len(PROMPTS)))
def test_no_row_behind_a_stop_stays(engine: Engine[Any], plain: Callable[..., Plain], n: int) -> None:
    ids, tokens, samplings = cases(engine, n)
    for sampling in samplings:
        drawn = plain(ids, tokens, sampling).ids
        stop = drawn[len(drawn) // 2]
        expected = plainly(engine, ids, tokens, sampling, [stop])
        asked = Request(ids, tokens, sampling, stop_ids=[stop])
        follow(Generation(engine, asked, Replay([*ids, *drawn])), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_no_neighbour_changes_a_bit(engine: Engine[Any], plain: Callable[..., Plain], size: int) -> None:
    """A text joins at every second step; the second leaves before its end."""
    _, tokens, samplings = cases(engine, 0)
    assert engine.model.tokenizer is not None
    requests = [
        Request(engine.model.tokenizer.encode(text), tokens - n % 3, samplings[n % len(samplings)])
        for n, text in enumerate(PROMPTS[:size])
    ]
    batch, texts, step = Batch(engine, slots=5, rows=24), [], 0
    rows: list[list[F32]] = []
    while len(texts) < size or batch.active or batch.waiting:
        if step % 2 == 0 and len(texts) < size:
            texts.append(batch.join(requests[len(texts)]))
            rows.append([])
        for drawn in batch.step():
            rows[texts.index(drawn.text)].append(drawn.row)
        if size > 1 and len(texts) > 1 and len(texts[1].ids) == 3:
            batch.leave(texts[1])
        step += 1
    for text, request, got in zip(texts, requests, rows, strict=True):
        alone = plain(list(request.ids), request.max_tokens, request.sampling)
        assert text.ids == alone.ids[: len(text.ids)]
        assert len(text.ids) == (3 if text.reason == "left" else request.max_tokens)
        assert_as_plain(engine, text, got, alone, len(text.ids))
