"""Arguments that cannot be meant get one sentence of a UsageError: no traceback, and no answer to another question."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.compare.bisect import bisect
from gnomon.compare.isolate import isolate
from gnomon.compare.trace_write import write_trace
from gnomon.decode.drafters import Ngram
from gnomon.models import micro
from gnomon.reference.errors import UsageError

MODEL = micro()
IDS = [3, 1, 4]


def engine() -> Any:
    return gnomon.engine("numpy", MODEL)


Call = Callable[[Any], Any]
WRONG: dict[str, tuple[Call, str]] = {
    "steps of 2.5": (lambda e: gnomon.diff(e, e, IDS, steps=2.5), "steps to be a whole number but got steps=2.5"),
    "steps of True": (lambda e: gnomon.diff(e, e, IDS, steps=True), "whole number but got steps=True"),
    "steps as text": (lambda e: isolate(e, e, IDS, "3"), "whole number but got steps='3'"),  # type: ignore[arg-type]
    "repeats of 1.5": (lambda e: bisect(e, e, IDS, 1, 1.5), "whole number but got repeats=1.5"),  # type: ignore[arg-type]
    "trace of 2.5 steps": (lambda e: write_trace(e, IDS, Path("t"), steps=2.5), "steps=2.5"),  # type: ignore[arg-type]
    "a schedule as text": (lambda e: gnomon.diff(e, e, IDS, schedules="rows"), "a list of schedules"),
    "no schedule": (lambda e: gnomon.diff(e, e, IDS, schedules=[]), "a list of schedules"),
    "a number as schedule": (lambda e: gnomon.diff(e, e, IDS, schedules=[4]), "Expected a schedule"),
    "2.5 tokens": (lambda e: gnomon.generate(e, IDS, 2.5), "max_tokens to be a whole number"),  # type: ignore[arg-type]
    "one stop text": (lambda e: gnomon.generate(e, IDS, 2, stop_texts="level"), "a list of stop texts"),
    "None as stop text": (lambda e: gnomon.generate(e, IDS, 2, stop_texts=[None]), "a list of stop texts"),  # type: ignore[list-item]
    "a stop id below 0": (lambda e: gnomon.generate(e, IDS, 2, stop_ids=[-1]), "stop ids from 0 up"),
    "a seed of 1.5": (lambda e: gnomon.Sampling(seed=1.5), "seed to be a whole number"),  # type: ignore[arg-type]
    "temperature as text": (lambda e: gnomon.Sampling(temperature="0.8"), "temperature to be a number"),  # type: ignore[arg-type]
    "top_k of 2.5": (lambda e: gnomon.Sampling(top_k=2.5), "top_k to be a whole number"),  # type: ignore[arg-type]
    "top_p as text": (lambda e: gnomon.Sampling(top_p="0.9"), "top_p to be a number"),  # type: ignore[arg-type]
    "a drafter's class": (lambda e: gnomon.generate(e, IDS, 2, draft=Ngram), "a drafter"),  # type: ignore[arg-type]
    "sampling as a number": (lambda e: gnomon.generate(e, IDS, 2, sampling=0.8), "a gnomon.Sampling"),  # type: ignore[arg-type]
    "a model for an engine": (lambda e: gnomon.generate(MODEL, IDS, 2), "an engine, such as"),  # type: ignore[arg-type]
    "names for engines": (lambda e: gnomon.diff("numpy", "host", IDS), "an engine, such as"),  # type: ignore[arg-type]
    "swapped": (lambda e: gnomon.engine(MODEL, "numpy"), "the name of an engine"),  # type: ignore[arg-type]
    "a name for a model": (lambda e: gnomon.engine("numpy", "tiny-dense"), "a model, such as"),  # type: ignore[arg-type]
    "want for a state": (lambda e: e.forward(IDS, "all"), "a state of this engine, or None, but|a state of this"),
    "no path": (lambda e: gnomon.load(None), "the name of a model or a path"),  # type: ignore[arg-type]
    "a list for a path": (lambda e: gnomon.load(["tiny-dense"]), "the name of a model or a path"),  # type: ignore[arg-type]
    "a function as tap": (lambda e: e.forward(IDS, tap=lambda *shown: None), "a tap with wants"),
    "a class as tap": (lambda e: e.forward(IDS, tap=dict), "a tap with wants"),
    "a cut at 2.5": (lambda e: e.truncate(e.forward(IDS)[1], 2.5), "length to be a whole number"),
    "a cut at True": (lambda e: e.truncate(e.forward(IDS)[1], True), "length to be a whole number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_no_argument_that_cannot_be_meant_is_taken(what: str) -> None:
    call, said = WRONG[what]
    with pytest.raises(UsageError, match=said.partition(", but|")[0].replace("[", r"\[")):
        call(engine())


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert gnomon.diff(engine(), engine(), np.array(IDS), steps=np.int64(1)).verdict == "identical"  # type: ignore[arg-type]


def test_no_closed_engine_answers(new_engine: Callable[..., Any]) -> None:
    made = new_engine(MODEL)
    made.forward(IDS)
    made.close()
    for call in (
        lambda: made.forward(IDS),
        lambda: gnomon.diff(made, made, IDS),
        lambda: gnomon.generate(made, IDS, 2).round(),
    ):
        with pytest.raises(UsageError, match="was closed; make another one"):
            call()
