"""Two receipts differ where something differs, and say whether it is a result."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gnomon.cli import app
from gnomon.gates.receipt_compare import differences
from gnomon.reference.chain import Chain, Record, write

RUN: Record = {"type": "run", "source_sha256": "aa", "environment": {"cpu": "one", "os": "x"}}
ENGINE: Record = {"type": "engine", "name": "host", "settings": {"kernels": "k1", "threads": "2"}}
GATE: Record = {"type": "gate", "gate": "golden", "engine": "host", "verdict": "PASS", "figures": {"tensors": 3}}


def changed(record: Record, **fields: Any) -> Record:
    return json.loads(json.dumps(record)) | fields


CASES: dict[str, tuple[list[Record], list[tuple[str, str, bool]]]] = {
    "nothing": ([RUN, ENGINE, GATE], []),
    "another machine": (
        [changed(RUN, environment={"cpu": "two", "os": "x"}), ENGINE, GATE],
        [("run", "environment.cpu", False)],
    ),
    "a stale binary": (  # same sources, other kernels
        [RUN, changed(ENGINE, settings={"kernels": "k0", "threads": "2"}), GATE],
        [("engine host", "settings.kernels", False)],
    ),
    "another verdict": ([RUN, ENGINE, changed(GATE, verdict="FAIL")], [("gate golden host", "verdict", True)]),
    "other figures": (
        [RUN, ENGINE, changed(GATE, figures={"tensors": 2})],
        [("gate golden host", "figures.tensors", True)],
    ),
    "a gate not run": ([RUN, ENGINE], [("gate golden host", "record", False)]),
    "an engine more": ([RUN, ENGINE, changed(ENGINE, name="cupy"), GATE], [("engine cupy", "record", False)]),
}


@pytest.mark.parametrize("name", CASES)
def test_no_difference_is_lost_or_made_up(name: str) -> None:
    other, expected = CASES[name]
    assert [(d.record, d.field, d.result) for d in differences([RUN, ENGINE, GATE], other)] == expected


@pytest.fixture
def receipt(tmp_path: Path) -> Callable[[str, list[Record]], Path]:
    def made(name: str, records: list[Record]) -> Path:
        chain = Chain()
        for record in records:
            chain.append(record)
        chain.close("PASS", None)
        write(tmp_path / name, chain)
        return tmp_path / name

    return made


@pytest.mark.parametrize(
    ("name", "code"), [("another machine", 0), ("another verdict", 1), ("a gate not run", 3), ("an engine more", 3)]
)
def test_only_a_result_decides_the_exit_code(receipt: Callable[..., Path], name: str, code: int) -> None:
    files = [str(receipt("a", [RUN, ENGINE, GATE])), str(receipt("b", CASES[name][0]))]
    assert CliRunner().invoke(app, ["receipts", "compare", *files]).exit_code == code
    told = CliRunner().invoke(app, ["receipts", "compare", *files, "--json"])
    assert json.loads(told.stdout)["results_equal"] is (code != 1)


def test_an_edited_receipt_is_not_compared(receipt: Callable[..., Path]) -> None:
    a = receipt("a", [RUN, ENGINE, GATE])
    b = receipt("b", [RUN, ENGINE, GATE])
    b.write_text(b.read_text().replace('"tensors": 3', '"tensors": 4').replace('"tensors":3', '"tensors":4'))
    assert CliRunner().invoke(app, ["receipts", "compare", str(a), str(b)]).exit_code == 1
