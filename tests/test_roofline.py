"""Gate `roofline` on a clock that is moved by hand: no time is measured."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gnomon.gates import roofline
from gnomon.gates.all import EXPERIMENTS
from gnomon.gates.gate import Subject
from gnomon.gates.run import REFERENCE, ask, caught, subject
from gnomon.gates.streaming import Meter, Streaming
from gnomon.reference.errors import NotRunError

PASS_SECONDS = 0.001
SMALL = 1 << 16  # bytes of the last-level cache


class Bench:
    """An engine that does nothing but take time, and the clock that it moves. share: of what streaming reaches"""

    def __init__(self, share: float, jitter: Callable[[int], float] = lambda turn: 1.0) -> None:
        self.share, self.jitter = share, jitter
        self.now, self.steps, self.held = 0.0, 0, 0

    def engine(self, model: Any, *forms: str) -> Any:
        self.held = sum(w.data.nbytes for w in model.weights.values() if w.role == "linear")
        return SimpleNamespace(name="bench", model=model, new=lambda: SimpleNamespace(length=0), step=self.step)

    def step(self, rows: Any) -> None:
        self.steps += 1
        self.now += self.jitter(self.steps) * self.held / (4 * SMALL / PASS_SECONDS) / self.share

    def read(self) -> None:
        self.now += PASS_SECONDS

    def subject(self) -> Subject:
        meter = Meter(lambda: self.now, lambda engine: self.held, lambda engine: SMALL, self.streaming)
        sound = subject(lambda name, *given: self.engine(*given), lambda path: None, None, REFERENCE)  # type: ignore[arg-type,return-value]
        return replace(sound, engine=self.engine, meter=meter)

    def streaming(self, engine: Any, nbytes: int) -> Streaming:
        assert nbytes == 4 * SMALL
        return Streaming(self.read, nbytes)


def test_the_share_is_that_of_the_bytes_over_the_stream() -> None:
    outcome = ask(roofline.GATE, Bench(0.625).subject())
    assert (outcome.verdict, outcome.figures["share"]) == ("PASS", 0.625)


def test_more_than_all_of_the_memory_is_a_failure() -> None:
    outcome = ask(roofline.GATE, Bench(1.05).subject())
    assert (outcome.verdict, outcome.detail) == ("FAIL", "over 100%: decoding reads 105% of what memory streams")


def test_a_spread_over_a_tenth_is_void() -> None:
    """Every other round takes longer."""
    bench = Bench(0.5, lambda turn: 1.0 if (turn - 1) // roofline.HEADER.numbers["steps"] % 3 == 0 else 1.2)
    outcome = ask(roofline.GATE, bench.subject())
    assert outcome.verdict == "VOID"
    assert "spread of decode: the median takes 20% longer than the best" in outcome.detail


@pytest.mark.parametrize("fault", roofline.GATE.faults)
def test_a_planted_fault_is_caught(fault: str) -> None:
    damage, shows = roofline.GATE.faults[fault]
    outcome = caught(ask(roofline.GATE, damage(Bench(0.6).subject())), shows)
    assert outcome.verdict == "PASS", outcome.detail


def test_a_model_is_four_caches_or_more() -> None:
    matrices = [w.data.nbytes for w in roofline.decoder(20 << 20).weights.values() if w.role == "linear"]
    assert 20 << 20 <= sum(matrices) < 40 << 20


def test_it_runs_by_name_only() -> None:
    assert EXPERIMENTS["roofline"] is roofline.GATE


def test_an_engine_without_a_streaming_kernel_is_not_run() -> None:
    def none(engine: Any, nbytes: int) -> Streaming:
        raise NotRunError("Expected a streaming kernel for engine bench but it has none; try host or cupy")

    bench = Bench(0.5).subject()
    outcome = ask(roofline.GATE, replace(bench, meter=replace(bench.meter, streaming=none)))
    assert outcome.verdict == "NOT RUN"
