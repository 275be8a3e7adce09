"""The experiment `ids`: what it says of engines that are known through and through; no answer passes for another."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gnomon
from gnomon import cli
from gnomon.gates import ids
from gnomon.gates.all import EXPERIMENTS, GATES
from gnomon.gates.gate import VoidError
from gnomon.gates.golden import golden
from gnomon.gates.ids import HEADER, OwnSubject, Trial, clopper_pearson, experiment, judged, power
from gnomon.gates.ids_subject import Counters, RefusedError
from gnomon.gates.run import subject

TEXTS = ("7 3 9 11", "12 80 13 2 61 7 40", "5 6")


class Scripted:
    """An engine that is a list: it answers with what it holds. sound: of its transport, bytes, counters and ids"""

    name = "scripted"

    def __init__(self, checks: bool = True, counts: bool = True, feels: bool = True) -> None:
        self.checks, self.counts, self.feels = checks, counts, feels
        self.held: list[int] = []
        self.swapped = False
        self.counted = Counters(0, 0)

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def prefill(self, ids: Sequence[int]) -> None:
        self.held, self.swapped, self.counted = list(ids), False, Counters(0, len(ids))

    def save(self) -> bytes:
        return json.dumps([self.held, self.swapped, "sound"]).encode()

    def load(self, data: bytes) -> None:
        held, swapped, sound = json.loads(data)
        if self.checks and sound != "sound":
            raise RefusedError("a bad checksum")
        self.held, self.swapped = held, swapped
        self.counted = Counters(len(held), 0) if self.counts else Counters(0, len(held))

    def generate(self, ids: Sequence[int], n: int) -> list[int]:
        self.counted = Counters(self.counted.restored, self.counted.computed + len(ids) + n - 1)
        start = sum(self.held) + sum(ids) + (self.swapped and self.feels)
        return [start + i for i in range(n)]

    def counters(self) -> Counters:
        return self.counted

    def exchange(self, data: bytes) -> bytes:
        return json.dumps([json.loads(data)[0], True, "sound"]).encode()

    def flip(self, data: bytes) -> bytes:
        (first, *rest), swapped, _ = json.loads(data)
        return json.dumps([[first ^ 1, *rest], swapped, "flipped"]).encode()


class Spelled(OwnSubject):
    """micro, which has no tokenizer; a text is its ids."""

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]


def test_every_conversation_is_tried_in_three_forms() -> None:
    trials = experiment(Scripted(), TEXTS, 4)
    assert [(t.conversation, t.state) for t in trials] == [
        (n, state) for n in (1, 2, 3) for state in ("honest", "exchanged", "flipped")
    ]
    assert trials[:3] == [
        Trial("scripted", 1, 3, "honest", "", True, True, True, True, 4),
        Trial("scripted", 1, 3, "exchanged", "", False, True, True, False, 0),
        Trial("scripted", 1, 3, "flipped", "a bad checksum"),
    ]


def test_what_the_transport_lets_pass_is_told_apart_from_what_is_verified() -> None:
    flipped = experiment(Scripted(checks=False), TEXTS, 4)[2]
    assert (flipped.refused, flipped.verified, flipped.kept, flipped.ids) == ("", False, False, False)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"checks": False}, "conversation 1, flipped state: refused False"),
        ({"counts": False}, "conversation 1, honest state: counters False"),
        ({"feels": False}, "scripted: ids tell 0 of 5 exchanged states, bar 4 (95% interval 0.000 to 0.522)"),
    ],
    ids=["transport", "counters", "ids"],
)
def test_no_unsound_engine_passes(broken: dict[str, bool], says: str) -> None:
    texts = [*TEXTS, "1 2 3", "4 5 6 7"]
    assert judged(experiment(Scripted(), texts, 4)).verdict == "PASS"
    outcome = judged(experiment(Scripted(**broken), texts, 4))
    assert outcome.verdict == "FAIL"
    assert says in outcome.detail


@pytest.mark.parametrize("told", range(6))
def test_the_bar_is_four_of_five_for_every_subject(told: int) -> None:
    def trials(name: str, told: int) -> list[Trial]:
        exchanged = [Trial(name, n, 9, "exchanged", "", False, True, True, n > told, 32) for n in range(1, 6)]
        return [Trial(name, 1, 9, "honest", "", True, True, True, True, 32), *exchanged]

    assert judged(trials("a", told)).verdict == ("PASS" if told >= 4 else "FAIL")
    both = judged([*trials("a", told), *trials("b", 5)])
    assert both.verdict == ("PASS" if told >= 4 else "FAIL")
    assert both.figures["of 5 told by ids (a)"] == told


def test_a_refused_exchange_is_no_miss_of_ids() -> None:
    assert power([Trial("a", 1, 9, "exchanged", "no"), Trial("a", 2, 9, "exchanged", "", False, True, True, False, 0)])[
        :2
    ] == (1, 1)


def test_nothing_tried_is_no_answer() -> None:
    with pytest.raises(VoidError):
        judged([])
    with pytest.raises(VoidError, match="conversation 1 has 1 tokens"):
        experiment(Scripted(), ["5"], 4)


# Of an engine of ours.


@pytest.fixture(scope="module")
def own(engine_name: str) -> list[Trial]:
    return experiment(Spelled(gnomon.engine(engine_name, gnomon.load("micro"))), TEXTS, 6)


def test_bytes_tell_every_exchanged_state_and_counters_none(own: list[Trial]) -> None:
    for trial in own:
        if trial.state == "honest":
            assert (trial.refused, trial.verified, trial.kept, trial.counters, trial.ids) == (
                "",
                True,
                True,
                True,
                True,
            )
        if trial.state == "exchanged":
            assert (trial.refused, trial.verified, trial.kept, trial.counters) == ("", False, True, True)
        if trial.state == "flipped":
            assert "SHA-256" in trial.refused


@pytest.mark.parametrize("fault", EXPERIMENTS["ids"].faults)
def test_no_planted_fault_passes(fault: str) -> None:
    damage, shows = EXPERIMENTS["ids"].faults[fault]
    sound = subject(gnomon.engine, gnomon.load, Path())
    texts = [*TEXTS, "1 2 3", "4 5 6 7"]
    outcome = judged(experiment(Spelled(damage(sound).engine(gnomon.load("micro"))), texts, 3))
    assert outcome.verdict == "FAIL"
    assert shows in outcome.detail


# The interval. Values: scipy.stats.binomtest(k, n).proportion_ci(level, "exact"), SciPy 1.17.1.

INTERVALS = {
    (0, 5, 0.95): (0.0, 0.5218237501049814),
    (1, 5, 0.95): (0.005050763379468115, 0.7164179361180895),
    (4, 5, 0.95): (0.28358206388191054, 0.9949492366205319),
    (5, 5, 0.95): (0.47817624989501856, 1.0),
    (3, 10, 0.99): (0.03700722109620741, 0.7351139852871308),
}


@pytest.mark.parametrize("case", INTERVALS, ids=str)
def test_no_interval_is_another_than_the_exact_one(case: tuple[int, int, float]) -> None:
    assert clopper_pearson(*case) == pytest.approx(INTERVALS[case], abs=1e-10)


# The question.


def test_the_question_was_not_changed_after_the_run() -> None:
    assert HEADER.digest == golden("headers")["headers"]["ids"]
    assert len(HEADER.numbers["conversations"]) == 5
    assert (HEADER.numbers["tokens"], HEADER.numbers["bar"]) == (32, 4)
    tokenizer = gnomon.load("tiny-dense").tokenizer
    assert tokenizer is not None
    assert len({len(tokenizer.encode(text)) for text in HEADER.numbers["conversations"]}) == 5


def test_it_is_run_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ids" not in GATES
    trials = experiment(Scripted(), [*TEXTS, "1 2 3", "4 5 6 7"], 4)
    monkeypatch.setitem(EXPERIMENTS, "ids", replace(ids.GATE, run=lambda examined: judged(trials)))
    result = CliRunner().invoke(cli.app, ["gate", "ids", "-e", "numpy"])
    lines = result.stdout.splitlines()
    assert (result.exit_code, len(lines)) == (0, 1 + 1 + 15 + 1)
    assert lines[1].split() == [
        "subject",
        "conversation",
        "rows",
        "state",
        "refused",
        "verified",
        "kept",
        "counters",
        "ids",
        "agree",
    ]
    assert lines[3].split() == ["scripted", "1", "3", "exchanged", "no", "no", "yes", "yes", "no", "0"]
    summary: dict[str, Any] = json.loads(CliRunner().invoke(cli.app, ["gate", "ids", "-e", "numpy", "--json"]).stdout)
    assert summary["results"][0]["table"][2]["refused"] is True
