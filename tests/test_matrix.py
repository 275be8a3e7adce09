"""The kill matrix: what its rows expect is frozen, and a gate that fires or is silent against its row is a failure.

Here runs one mutation of each kind, through the gates that are quick; `gnomon gate --matrix` runs all through all.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gnomon
from gnomon import cli
from gnomon.engines import engines
from gnomon.gates import matrix
from gnomon.gates.all import GATES
from gnomon.gates.gate import Gate, Outcome, Subject
from gnomon.gates.golden import golden
from gnomon.gates.matrix_page import picture, written
from gnomon.gates.matrix_walk import WALKS, first_difference
from gnomon.gates.mutations.all import ELSEWHERE, MUTATIONS
from gnomon.gates.mutations.mutation import ALL, Mutation, only
from gnomon.gates.run import Result, subject
from gnomon.reference.errors import NotRunError, UsageError

VECTORS = Path(gnomon.__file__).parent / "vectors"
QUICK = ("comparator", "tokenizer", "finite", "golden", "shadow", "incremental", "isolation", "restore")
# The catalogue has gaps in its numbers.
CATALOGUE = """M01 M02 M03 M04 M05 M06 M07 M08 M10 M11 M12 M13 M15 M16 M17 M19 M21 M22 M24 M25 M27 M29 M30 M31 M32 M34
M35 M37 M38 M40""".split()  # noqa: SIM905 - thirty quoted words are no list to read


def sound(engine: str = "numpy") -> Subject:
    return subject(gnomon.engine, gnomon.load, VECTORS, engine)


def gates(*names: str) -> dict[str, Gate]:
    return {name: GATES[name] for name in names}


def row(mutation: Mutation, *names: str) -> Result:
    (result,) = matrix.run_matrix([mutation], sound, gates=gates(*names))
    return result


@pytest.fixture(scope="module")
def systems() -> dict[str, matrix.Sound]:
    """What the gates say of the sound system, once for all rows."""
    return {name: matrix.Sound(matrix.asked_on(sound(name), "micro")) for name in ("numpy", "host")}


# One of each kind: op table, a path, state path and checkpoints, tokenizer, comparator; and a plan.
@pytest.mark.parametrize("number", ["M08b", "M22", "X09", "X20", "M38", "X25"])
def test_no_row_of_the_matrix_is_wrong(number: str, systems: dict[str, matrix.Sound]) -> None:
    (mutation,) = matrix.chosen(number)
    if engines()[mutation.engine]:
        pytest.skip(str(engines()[mutation.engine]))
    outcome = matrix.run_row(mutation, systems[mutation.engine], lambda gate, engine: None, gates(*QUICK))
    assert (outcome.verdict, outcome.figures["gates"]) == ("PASS", len(QUICK)), outcome.detail


# What is expected.


def test_no_expectation_changes_unseen() -> None:
    """They are frozen. A wanted change: `python -m gnomon.gates.mutations.all`."""
    assert {name: m.digest for name, m in MUTATIONS.items()} == golden("matrix")["rows"]


@pytest.mark.parametrize("number", CATALOGUE)
def test_no_number_of_the_catalogue_is_left_out(number: str) -> None:
    assert any(re.match(rf"{number}[a-z]? ", name) for name in (*MUTATIONS, *ELSEWHERE))


def test_no_gate_lacks_a_mutation_of_its_own() -> None:
    assert {gate for gate in GATES if not any(m.must == {gate} for m in MUTATIONS.values())} == set(matrix.NOT_ALONE)
    assert set(GATES) == ALL


@pytest.mark.parametrize("name", MUTATIONS)
def test_no_row_says_nothing(name: str) -> None:
    mutation = MUTATIONS[name]
    assert mutation.must
    assert mutation.blind
    assert mutation.why
    assert mutation.walk in WALKS
    assert mutation.first or mutation.says or mutation.engine == "numpy"


def test_a_row_that_expects_nothing_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="must fire"):
        replace(MUTATIONS["M38 cmp_nan"], must=frozenset())
    with pytest.raises(ValueError, match="must fire"):
        replace(MUTATIONS["M38 cmp_nan"], must=frozenset({"comparators"}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["M99"], "Expected a mutation among M01, "),
        (["-e", "numpy"], "Expected --matrix without --falsify and --engine"),
        (["--falsify"], "Expected --matrix without --falsify and --engine"),
    ],
    ids=["unknown", "engine", "falsify"],
)
def test_no_matrix_of_something_else_is_run(words: list[str], said: str) -> None:
    result = CliRunner().invoke(cli.app, ["gate", "--matrix", *words])
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)


def test_the_matrix_on_the_command_line_ends_in_its_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through one gate, with a receipt that holds the digest of the row and what each gate did."""
    monkeypatch.setattr(matrix, "GATES", gates("comparator"))
    shown = CliRunner().invoke(cli.app, ["gate", "M38", "--matrix"]).stdout.splitlines()
    assert shown[0].startswith("PASS      matrix         numpy      caught: M38 cmp_nan: comparator")
    assert shown[1].split() == ["PASS", "matrix:", "-", "1", "PASS"]
    asked = ["gate", "M38", "--matrix", "--json", "--receipt", str(tmp_path / "r.jsonl")]
    result = CliRunner().invoke(cli.app, asked)
    summary = json.loads(result.stdout)
    assert (summary["what"], summary["verdict"], summary["exit_code"], result.exit_code) == ("matrix", "PASS", 0, 0)
    records = [json.loads(record) for record in (tmp_path / "r.jsonl").read_text("utf-8").splitlines()]
    (row,) = (record for record in records if record.get("fault") == NAN.name)
    assert row["header_sha256"] == NAN.digest
    assert row["table"][0]["verdict"] == "FAIL"
    verified = CliRunner().invoke(cli.app, ["receipts", "verify", str(tmp_path / "r.jsonl"), "--json"])
    assert json.loads(verified.stdout)["other_headers"] == []


# What must not pass.

NAN = MUTATIONS["M38 cmp_nan"]


def test_a_gate_that_is_blind_where_it_must_fire_is_seen() -> None:
    outcome = row(replace(NAN, must=frozenset({"finite"}), blind=frozenset(), says=""), "comparator", "finite").outcome
    assert outcome.verdict == "FAIL"
    assert outcome.detail.startswith("finite must fire but is PASS")


def test_a_gate_that_fires_where_it_must_be_blind_is_seen() -> None:
    outcome = row(replace(NAN, must=frozenset({"finite"}), blind=frozenset({"comparator"})), "comparator").outcome
    assert outcome.verdict == "FAIL"
    assert "comparator must be blind but is FAIL: judge_measures calls this pair identical" in outcome.detail


def test_a_mutation_that_survives_is_named() -> None:
    harmless = replace(NAN, apply=lambda subject: subject, must=frozenset({"comparator"}))
    result = row(harmless, "comparator")
    assert result.outcome.detail.startswith("no gate saw it: it survives")
    assert matrix.survivors([result]) == [NAN.name]


def test_a_gate_that_fires_for_another_reason_is_seen() -> None:
    outcome = row(replace(NAN, says="a tolerance"), "comparator").outcome
    assert (outcome.verdict, outcome.detail) == ("FAIL", "no gate says 'a tolerance'")


def test_another_first_difference_is_seen() -> None:
    mutation = replace(MUTATIONS["M04 gqa_head_tile"], first="blocks.1.attn.scores, position 0")
    outcome = row(mutation, "finite").outcome
    assert "first difference: blocks.0.attn.scores, position 0, expected blocks.1.attn.scores" in outcome.detail


def test_a_gate_that_fails_on_the_sound_system_is_seen() -> None:
    failing = replace(GATES["comparator"], run=lambda subject: Outcome("FAIL", "always"))
    (result,) = matrix.run_matrix([NAN], sound, gates={"comparator": failing})
    assert "comparator is FAIL on the sound system: always" in result.outcome.detail


def test_a_row_whose_engine_is_missing_is_not_run() -> None:
    def missing(*asked: Any) -> gnomon.Engine[Any]:
        raise NotRunError("no compiler")

    row = MUTATIONS["X25 plan_wrong_buffer"]
    (result,) = matrix.run_matrix([row], lambda name: replace(sound(), engine=missing), gates=gates("finite"))
    assert (result.outcome.verdict, result.outcome.detail) == ("NOT RUN", "finite: no compiler")


def test_no_walk_of_sound_engines_differs() -> None:
    examined = sound()
    for walk in ("prefill", "beside", "moved", "draft_wrong_at_first"):
        assert first_difference(examined, examined, walk, "micro") == "none"


# A verdict is taken over only where the gate reads nothing that is changed.


@pytest.mark.parametrize(
    ("part", "same"),
    [("comparators", True), ("engine", False), ("sample", True)],
    ids=["comparators", "engine", "sample"],
)
def test_no_verdict_is_taken_over_from_other_parts(part: str, same: bool) -> None:
    examined = sound()
    reading: Any = matrix.Reading(examined)
    GATES["finite"].run(reading)
    assert reading.unmoved(replace(examined, **{part: lambda *args: None})) is same


@pytest.mark.parametrize(("name", "same"), [("another", True), ("micro", False)])
def test_no_verdict_is_taken_over_from_another_model(name: str, same: bool) -> None:
    examined = replace(sound(), prompts={"micro": sound().prompts["micro"]})
    reading: Any = matrix.Reading(examined)
    GATES["finite"].run(reading)

    def load(source: Any) -> gnomon.Model:
        model = examined.load(source)
        return replace(model, config=replace(model.config, eps=1e-3)) if source == name else model

    assert reading.unmoved(replace(examined, load=load)) is same


def test_the_whole_matrix_names_gates_without_a_mutation() -> None:
    def result(name: str) -> Result:
        table = [{"gate": "finite", "verdict": "FAIL", "expected": "must", "detail": ""}]
        return Result("matrix", "numpy", Outcome("PASS", "", {"n": 1}, table=table), "", name)

    last = matrix.whole([result(name) for name in MUTATIONS])
    assert last is not None
    assert last.outcome.detail.startswith("no mutation of their own: comparator, repository, loader")
    assert "finite" not in last.outcome.detail
    assert matrix.whole([result("M38 cmp_nan")]) is None


def test_the_picture_shows_what_is_wrong() -> None:
    must, _ = only("comparator")
    table = [
        {"gate": "comparator", "verdict": "FAIL", "expected": "must", "detail": "<x>"},
        {"gate": "finite", "verdict": "FAIL", "expected": "blind", "detail": ""},
        {"gate": "shadow", "verdict": "PASS", "expected": "blind", "detail": ""},
    ]
    text = "\n".join(picture([{"fault": "M38 cmp_nan", "table": table}]))
    assert must == {"comparator"}
    assert [len(re.findall(rf'class="{kind}" x="\d+" y="96"', text)) for kind in ("must", "wrong", "none")] == [1, 1, 1]
    assert "&lt;x&gt;" in text


def test_the_page_lists_what_the_rows_expect() -> None:
    """After a change: `python -m gnomon.gates.matrix_page matrix.json docs`."""
    page = (Path(__file__).parent.parent / "docs" / "kill-matrix.md").read_text("utf-8")
    assert page == written(page)
    picture_shown = (Path(__file__).parent.parent / "docs" / "kill-matrix.svg").read_text("utf-8")
    assert all(f">{name}</text>" in picture_shown for name in MUTATIONS)
    assert picture_shown.count('class="wrong"') == 1  # in the legend
