"""Every gate passes here and fails on each of its planted faults, for the reason that the fault gives."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.gates.all import EXPERIMENTS, GATES
from gnomon.gates.gate import Gate, Header, Outcome, Subject
from gnomon.gates.golden import golden
from gnomon.gates.run import FAULT_MODEL, Result, ask, caught, exit_code, run_faults, run_gates, subject
from make_golden import entry, micro_config, stored_weights
from oracle import f32, model

VECTORS = Path(gnomon.__file__).parent / "vectors"
PER_ENGINE = [name for name, gate in GATES.items() if gate.per_engine]
ONCE = [name for name, gate in GATES.items() if not gate.per_engine]


def sound(engine: str) -> Subject:
    return subject(gnomon.engine, gnomon.load, VECTORS, engine)


def small(engine: str) -> Subject:
    """On the model that faults are looked for on."""
    return replace(sound(engine), prompts={FAULT_MODEL: sound(engine).prompts[FAULT_MODEL]})


def assert_passes(outcome: Outcome) -> None:
    if outcome.verdict == "NOT RUN" and not outcome.required:
        pytest.skip(outcome.detail)
    assert (outcome.verdict, outcome.detail) == ("PASS", "")
    assert any(value > 0 for value in outcome.figures.values())


@pytest.mark.parametrize("name", ONCE)
def test_no_gate_that_is_asked_once_fails(name: str) -> None:
    assert_passes(ask(GATES[name], sound("numpy")))


@pytest.mark.parametrize("name", PER_ENGINE)
def test_no_gate_fails_on_any_engine(engine_name: str, name: str) -> None:
    assert_passes(ask(GATES[name], sound(engine_name)))


def planted(names: list[str]) -> list[object]:
    return [
        pytest.param(name, fault, id=f"{name}-{fault.replace(' ', '_')}")
        for name in names
        for fault in GATES[name].faults
    ]


@pytest.mark.parametrize(("name", "fault"), planted(ONCE))
def test_no_planted_fault_passes(name: str, fault: str) -> None:
    examined = sound("numpy")
    if name == "repository" and examined.checkout() is None:
        pytest.skip("not in a source checkout")
    damage, shows = GATES[name].faults[fault]
    outcome = ask(GATES[name], damage(examined))
    assert outcome.verdict == "FAIL"
    assert shows in outcome.detail


@pytest.mark.parametrize(("name", "fault"), planted(PER_ENGINE))
def test_no_planted_fault_passes_on_any_engine(engine_name: str, name: str, fault: str) -> None:
    damage, shows = GATES[name].faults[fault]
    outcome = ask(GATES[name], damage(small(engine_name)))
    assert outcome.verdict == "FAIL"
    assert shows in outcome.detail


BLIND = {
    "incremental": (
        "chunk",
        "several rows after the first step take another path",
    ),  # M21: only another schedule sees it
    "repeat": ("shadow", "query head h reads kv head h mod kv_heads"),  # M04: wrong mathematics repeats itself
    "chunk": ("golden", "ten times the epsilon in every engine"),  # M03
    "shadow": ("golden", "rope with another theta in every engine"),  # a mistake that the reference shares
}


@pytest.mark.parametrize("name", BLIND)
def test_no_gate_raises_a_false_alarm(name: str) -> None:
    """A gate that fires where it must be blind says less than it seems to."""
    owner, fault = BLIND[name]
    damage, _ = GATES[owner].faults[fault]
    outcome = ask(GATES[name], damage(small("numpy")))
    assert_passes(outcome)


@pytest.mark.parametrize("name", GATES)
def test_no_header_changes_unseen(name: str) -> None:
    """Thresholds are frozen. A wanted change: `python tests/make_golden.py headers`."""
    assert GATES[name].header.digest == golden("headers")["headers"][name]


@pytest.mark.parametrize("name", GATES)
def test_no_header_lacks_an_answer(name: str) -> None:
    header = GATES[name].header
    for field in ("question", "instrument", "threshold", "disproof", "void"):
        assert len(getattr(header, field)) > 10, field


def test_the_stored_tensors_are_those_of_the_oracle() -> None:
    """Made again, for the first tokens: what is stored was not edited by hand."""
    case = golden("micro")["cases"][0]
    run = model.run(micro_config(), stored_weights(), case["ids"])
    assert {name: entry(name, values) for name, values in run.tensors.items()} == {
        name: expected for name, expected in case["tensors"].items() if not name.startswith(("state ", "result"))
    }


# What must not pass.


def gate_that(run: Callable[[Subject], Outcome]) -> Gate:
    return Gate(Header("g", "q", "i", "t", "d", "v"), run, {"f": (lambda s: s, "")})


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("PASS"),
        Outcome("PASS", "", {"values": 0}),
        Outcome("PASS", "", {"values": 4, "share": float("nan")}),
        Outcome("PASS", "", {"values": float("inf")}),
    ],
    ids=["no figures", "nothing counted", "nan", "infinity"],
)
def test_no_empty_answer_passes(outcome: Outcome) -> None:
    assert ask(gate_that(lambda s: outcome), sound("numpy")).verdict == "VOID"


def test_a_gate_without_a_fault_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="planted fault"):
        Gate(Header("g", "q", "i", "t", "d", "v"), lambda s: Outcome("PASS"), {})


@pytest.mark.parametrize("name", PER_ENGINE)
@pytest.mark.parametrize("prompts", [{}, {"micro": []}], ids=["no prompt", "an empty prompt"])
def test_no_empty_prompt_set_passes(name: str, prompts: dict[str, list[int]]) -> None:
    assert ask(GATES[name], replace(sound("numpy"), prompts=prompts)).verdict == "VOID"


@pytest.mark.parametrize("name", [n for n in GATES if n not in ("comparator", "repository", "sampler", "kernels")])
def test_no_deleted_weights_file_passes(name: str, tmp_path: Path) -> None:
    """Of the embedded models, as a damaged installation would have it."""

    def load(source: str | Path) -> gnomon.Model:
        return gnomon.load(tmp_path / str(source) if isinstance(source, str) else source)

    for model_name in ("micro", "tiny-dense"):
        (tmp_path / model_name).mkdir()
    outcome = ask(GATES[name], replace(sound("numpy"), load=load))
    assert outcome.verdict in ("VOID", "FAIL")
    assert "config.json" in outcome.detail


@pytest.mark.parametrize("name", PER_ENGINE)
def test_no_missing_engine_passes(name: str) -> None:
    results = list(run_gates([GATES[name]], ["no.such.module:engine"], sound))
    assert [r.outcome.verdict for r in results] == ["NOT RUN"]
    assert exit_code(results) == 3


def test_no_run_of_nothing_passes() -> None:
    assert exit_code([]) == 3
    assert exit_code(list(run_gates(list(GATES.values())[:0], ["numpy"], sound))) == 3
    assert exit_code(list(run_gates([GATES["repeat"]], [], sound))) == 3


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("y"), AssertionError()], ids=repr)
def test_no_crash_of_an_engine_passes(error: Exception) -> None:
    def engine(model: gnomon.Model) -> gnomon.Engine[Any]:
        raise error

    assert ask(GATES["repeat"], replace(sound("numpy"), engine=engine)).verdict == "FAIL"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["PASS", "PASS"], 0),
        (["PASS", "FAIL", "NOT RUN"], 1),
        (["PASS", "VOID"], 1),
        (["PASS", "NOT RUN"], 3),
        (["NOT RUN"], 3),
    ],
    ids=str,
)
def test_no_exit_code_hides_a_verdict(words: list[Any], code: int) -> None:
    assert exit_code([Result("g", "", Outcome(word), "") for word in words]) == code


def test_what_is_not_required_may_be_left_out() -> None:
    outside = replace(sound("numpy"), checkout=lambda: None)
    results = list(run_gates([GATES["repository"], GATES["comparator"]], ["numpy"], lambda engine: outside))
    assert [r.outcome.verdict for r in results] == ["NOT RUN", "PASS"]
    assert exit_code(results) == 0
    assert exit_code(results[:1]) == 3  # alone, nothing was answered


# Looking for faults.


def test_a_gate_that_sees_nothing_is_seen() -> None:
    blind = replace(GATES["repeat"], run=lambda s: Outcome("PASS", "", {"values": 1}))
    results = list(run_faults([blind], ["numpy"], sound))
    assert [r.outcome.verdict for r in results] == ["PASS", *["FAIL"] * len(blind.faults)]
    assert exit_code(results) == 1


def test_a_gate_that_always_fails_is_seen() -> None:
    results = list(run_faults([replace(GATES["repeat"], run=lambda s: Outcome("FAIL", "no"))], ["numpy"], sound))
    assert [r.outcome.verdict for r in results] == ["FAIL"]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("PASS", "", {"n": 1}),
        Outcome("VOID", "this"),
        Outcome("NOT RUN", "this"),
        Outcome("FAIL", "another reason"),
    ],
    ids=lambda o: o.verdict,
)
def test_only_a_failure_for_the_right_reason_catches(outcome: Outcome) -> None:
    assert caught(outcome, "this").verdict == "FAIL"
    assert caught(Outcome("FAIL", "this one"), "this").verdict == "PASS"


# The prompts.

PROMPTS = json.loads((Path(__file__).parent / "prompts.json").read_text("utf-8"))["prompts"]


def test_there_are_twenty_prompts_with_names_and_notes() -> None:
    assert len(PROMPTS) == len({p["name"] for p in PROMPTS}) == len({p["text"] for p in PROMPTS}) == 20
    assert all(p["note"] for p in PROMPTS)
    assert sum("strongly determined" in p["note"] for p in PROMPTS) >= 5


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda p: p["name"])
def test_no_prompt_is_lost_in_tokens(prompt: dict[str, str]) -> None:
    tokenizer = gnomon.load("tiny-dense").tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode(prompt["text"])
    assert ids
    assert tokenizer.decode(ids) == prompt["text"]


def test_the_oracle_of_the_golden_file_rounds_every_step() -> None:
    """The stored rows are f32 numbers, settled, and not a handful of repeated ones."""
    rows = golden("micro")["cases"][0]["tensors"]["logits"]["rows"]
    words = [int(word, 16) for row in rows.values() for word in row]
    assert len(set(words)) > 90
    assert np.isfinite([f32.from_bits(word) for word in words]).all()


def test_no_gate_is_missing_from_the_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "gates.md").read_text("utf-8")
    table = page.partition("## The questions")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w\S*) \|", table, re.MULTILINE) == ["gate", *GATES, *EXPERIMENTS]
