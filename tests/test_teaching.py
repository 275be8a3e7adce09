"""The teaching pages say what is true: their code prints what they show, and their answers are those of the matrix."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.gates import matrix
from gnomon.gates.all import GATES
from gnomon.gates.mutations.all import MUTATIONS
from gnomon.gates.run import subject

TEACHING = Path(__file__).parent.parent / "docs" / "teaching"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
ANSWER = re.compile(r"\*\*(\S+ \S+)\*\* fires: ([a-z, -]+)\.(?: First:\s`([^`]+)`\.)?")
EXERCISES = (TEACHING / "exercises.md").read_text("utf-8")
ANSWERS = {name: (set(fires.split(", ")), first) for name, fires, first in ANSWER.findall(EXERCISES)}
QUICK = ("comparator", "finite", "golden", "incremental", "isolation", "repeat")


def test_no_block_prints_something_else() -> None:
    """One name space for all blocks of the page, as for one who pastes them one after the other."""
    names: dict[str, Any] = {}
    blocks = BLOCK.findall((TEACHING / "one-token.md").read_text("utf-8"))
    assert sum(bool(shown) for _, shown in blocks) >= 8
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "one-token.md", "exec"), names)
        assert printed.getvalue() == shown, code


def test_there_are_ten_exercises_with_answers() -> None:
    assert len(re.findall(r"^## \d+\. ", EXERCISES, re.MULTILINE)) == len(ANSWERS) == 10


@pytest.mark.parametrize("name", ANSWERS)
def test_no_answer_differs_from_the_matrix(name: str) -> None:
    fires, first = ANSWERS[name]
    mutation = MUTATIONS[name]
    assert (fires, first) == (mutation.must, mutation.first)
    assert mutation.must | mutation.blind == set(GATES), "an exercise leaves no gate open"


@pytest.mark.parametrize("name", ["M11 nan_dropped", "M38b cmp_tolerance", "X02 shared_theta"])
def test_no_answer_is_wrong(name: str) -> None:
    """Run, through the gates that are quick: one of them fires, the others are blind."""
    vectors = Path(gnomon.__file__).parent / "vectors"
    gates = {gate: GATES[gate] for gate in QUICK}
    (result,) = matrix.run_matrix(
        [MUTATIONS[name]], lambda engine: subject(gnomon.engine, gnomon.load, vectors, engine), gates=gates
    )
    fired = {line["gate"] for line in result.outcome.table if line["verdict"] == "FAIL"}
    assert (result.outcome.verdict, fired) == ("PASS", ANSWERS[name][0]), result.outcome.detail
