"""`gnomon state`: what is written, restored, compared and corrupted; the exit code is the verdict."""

import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gnomon import cli
from gnomon.compare.state_diff import diff_states
from gnomon.decode.state_file import StateCorruptError, StateFileError, StateIdentityError, open_state
from gnomon.engines import engine
from gnomon.gates.faults.states import FAULTS
from gnomon.models import micro
from gnomon.reference.errors import GnomonError, UsageError
from running import LONG, SHORT

IDS, OTHER = (",".join(map(str, ids)) for ids in (SHORT, LONG[:14]))


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["state", *map(str, words)])


def said(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state, one of another conversation, and every corruption of the first."""
    out = tmp_path_factory.mktemp("states")
    for name, ids in (("a", IDS), ("b", OTHER)):
        assert run("export", "micro", "--ids", ids, "--out", out / name).exit_code == 0
    for name in FAULTS:
        assert run("swap", out / "a", "--fault", name, "--other", out / "b", "--out", out / name).exit_code == 0
    return out


def test_no_engine_writes_another_file(folder: Path, engine_name: str, tmp_path: Path) -> None:
    result = run("export", "micro", "--ids", IDS, "-e", engine_name, "-o", tmp_path / "a", "--json")
    assert (tmp_path / "a").read_bytes() == (folder / "a").read_bytes()
    found = said(result)
    assert (found["position"], found["bytes"]) == (14, (tmp_path / "a").stat().st_size)
    assert found["payload"] == open_state(folder / "a").header.payload


def test_a_restored_state_goes_on_as_the_unmoved_one(folder: Path, engine_name: str, tmp_path: Path) -> None:
    words = (
        "import",
        "micro",
        folder / "a",
        "-e",
        engine_name,
        "--reexport",
        tmp_path / "again",
        "--ids",
        "5",
        "--steps",
        "4",
    )
    found = said(run(*words, "--json"))
    assert (tmp_path / "again").read_bytes() == (folder / "a").read_bytes()
    running, ids = engine("numpy", micro()), []
    logits, state = running.forward([*SHORT, 5])
    for _ in range(4):
        ids.append(int(np.argmax(logits[-1])))
        logits, _ = running.forward(ids[-1:], state)
    assert (found["restored"], found["ids"], found["engine"]) == (14, ids, engine_name)
    assert f"ids {' '.join(map(str, ids))}" in run(*words).stdout


@pytest.mark.parametrize("fault", ["kv", "conv", "delta", "shift"])
def test_what_is_signed_again_is_taken_and_comes_back(folder: Path, tmp_path: Path, fault: str) -> None:
    result = run("import", "micro", folder / fault, "--reexport", tmp_path / "again")
    assert result.exit_code == 0
    assert (tmp_path / "again").read_bytes() == (folder / fault).read_bytes()


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [("flip", StateCorruptError, 1), ("position", StateFileError, 2), ("truncated", StateFileError, 2)],
)
def test_what_is_not_signed_again_is_refused(
    folder: Path, tmp_path: Path, fault: str, error: type[GnomonError], code: int
) -> None:
    for result in (
        run("import", "micro", folder / fault, "--reexport", tmp_path / "again"),
        run("diff", folder / "a", folder / fault),
        run("swap", folder / fault, "--fault", "kv", "--out", tmp_path / "again"),
    ):
        assert isinstance(result.exception, error)
        assert result.exception.exit_code == code
    assert list(tmp_path.iterdir()) == []


def places(ids: list[int]) -> int:
    """How many positions hold another id than SHORT, or none."""
    return sum(x != y for x, y in zip_longest(ids, SHORT))


UNEQUAL = {
    "a": {},
    "kv": {"K": 2, "V": 2},
    "conv": {"conv": 1},
    "delta": {"delta": 1},
    "b": {"ids": places(LONG[:14]), "conv": 1, "delta": 1, "K": 2, "V": 2},
    "shift": {"ids": places(SHORT[1:]), "K": 2, "V": 2},
}


@pytest.mark.parametrize("other", UNEQUAL)
def test_every_section_that_differs_is_named_and_no_other(folder: Path, other: str) -> None:
    result = run("diff", folder / "a", folder / other, "--json")
    found = said(result)
    assert [s["name"] for s in found["sections"]] == ["ids", "conv", "delta", "K", "V"]
    assert {s["name"]: s["unequal"] for s in found["sections"] if s["unequal"]} == UNEQUAL[other]
    verdict = {"a": "identical", "shift": "shape"}.get(other, "differs")
    assert (found["verdict"], result.exit_code) == (verdict, {"a": 0, "shift": 3}.get(other, 1))
    text = run("diff", folder / "a", folder / other)
    assert (text.exit_code, text.stdout.splitlines()[-1]) == (result.exit_code, verdict)


def test_the_first_difference_is_told_to_the_bit() -> None:
    keys = {"blocks.0.kv.k": np.ones((2, 1, 2), np.uint16) * 0x3F80}
    other = {"blocks.0.kv.k": keys["blocks.0.kv.k"].copy()}
    other["blocks.0.kv.k"][1, 0, 1] += 1
    ids, found = diff_states([1, 2], keys, [1, 3], other)
    assert ids.first == "ids [1]: 3 => expected 2"
    assert (found.name, found.verdict) == ("K", "ulp<=1")
    assert "bf16" in found.first
    assert "[1, 0, 1]: 0x3f81 => expected 0x3f80 (+1 ulp)" in found.first


def test_states_of_other_forms_are_not_compared(folder: Path, tmp_path: Path) -> None:
    assert run("export", "micro", "--ids", IDS, "--kv", "int8", "--out", tmp_path / "c").exit_code == 0
    result = run("diff", folder / "a", tmp_path / "c")
    assert isinstance(result.exception, StateIdentityError)
    as_json = run("diff", folder / "a", tmp_path / "c", "--json")
    assert as_json.exit_code == 3
    assert said(as_json) == {"error": "state_identity", "field": "kv", "ours": "f32", "theirs": "int8"}


@pytest.mark.parametrize(
    ("words", "field", "ours", "theirs"),
    [(["--arm", "int8"], "arm", "int8", "f32"), (["--kv", "bf16"], "kv", "bf16", "f32")],
    ids=["arm", "kv"],
)
def test_no_state_of_something_else_is_restored(
    folder: Path, tmp_path: Path, words: list[str], field: str, ours: str, theirs: str
) -> None:
    words = ["import", "micro", str(folder / "a"), *words, "--reexport", str(tmp_path / "again")]
    result = run(*words)
    assert isinstance(result.exception, StateIdentityError)
    assert (result.exception.exit_code, result.exception.field) == (3, field)
    as_json = run(*words, "--json")
    assert as_json.exit_code == 3
    assert said(as_json) == {"error": "state_identity", "field": field, "ours": ours, "theirs": theirs}
    assert list(tmp_path.iterdir()) == []


WRONG = {
    "no such fault": (["swap", "{}/a", "--fault", "x", "--out", "{}/x"], "a fault among kv, flip, conv"),
    "no other conversation": (["swap", "{}/a", "--fault", "conv", "--out", "{}/x"], "(--other)"),
    "no such folder": (["export", "micro", "--ids", "1", "--out", "{}/no/x"], "in a directory that can be written"),
    "a folder as the file": (["export", "micro", "--ids", "1", "--out", "{}"], "in a directory that can be written"),
    "steps from nowhere": (["import", "micro", "{}/a", "--steps", "3"], "to go on with, but got neither"),
    "text without a tokenizer": (["import", "micro", "{}/a", "-p", "x"], "Expected a tokenizer"),
    "both": (["import", "micro", "{}/a", "-p", "x", "--ids", "1"], "but got both"),
    "no file": (["import", "micro", "{}/none"], "a state file at"),
    "no prompt": (["export", "micro", "--out", "{}/x"], "Expected --ids or --prompt"),
}


@pytest.mark.parametrize("case", WRONG)
def test_no_misuse_writes_anything(folder: Path, case: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    words, sentence = WRONG[case]
    result = run(*(word.format(folder) for word in words))
    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)
    assert "\n" not in str(result.exception)
    assert sorted(path.name for path in folder.iterdir()) == before
