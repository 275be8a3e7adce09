"""Transcripts of SmolLM2-135M: made on the fastest engine here, verified on all; the reverse for the first tokens."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gnomon
from conftest import NEEDS, running
from gnomon.decode.transcript import produce, verify
from gnomon.decode.transcript_file import parse
from gnomon.reference.ops.sample import Sampling

PROMPT = "The first law of thermodynamics states that"
SAMPLED = Sampling(0.8, 0, 0.95, 7)
LENGTHS = {"host": 240}  # what an engine makes and verifies; others are slow
FIRST = 16

pytestmark = pytest.mark.real


@cache
def model() -> gnomon.Model:
    path = Path(os.environ.get("GNOMON_SMOLLM2", ".cache/SmolLM2-135M-Instruct.Q4_1.gguf"))
    if not path.is_file():
        pytest.skip(f"no SmolLM2 at {path}: make test-real fetches it")
    return gnomon.load(path)


@cache
def on(engine: str) -> gnomon.Engine[Any]:
    return gnomon.engine(running(engine), model())


@cache
def made(engine: str, tokens: int) -> list[str]:
    tokenizer = model().tokenizer
    assert tokenizer is not None
    lines = produce(on(engine), tokenizer.encode(PROMPT), tokens, SAMPLED).chain.lines
    assert len(lines) == tokens + 2
    return lines


@pytest.mark.parametrize("engine", NEEDS)
def test_no_engine_rejects_its_own_text(engine: str) -> None:
    lines, verified = made(engine, LENGTHS.get(engine, FIRST)), list[tuple[int, int]]()
    verify(on(engine), parse(lines), lambda done, total: verified.append((done, total)))
    assert verified[-1] == (len(lines) - 2, len(lines) - 2)  # all tokens


@pytest.mark.parametrize("other", NEEDS)
@pytest.mark.parametrize("engine", NEEDS)
def test_no_engine_rejects_the_first_tokens_of_another(engine: str, other: str) -> None:
    verify(on(other), parse(made(engine, FIRST)))
    assert made(engine, FIRST) == made(other, FIRST)
