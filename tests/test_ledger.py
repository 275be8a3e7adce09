"""A ledger only grows: whatever else happens to it is found, by who writes it and mostly by whoever reads it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from gnomon.cli.serve import verify_ledger
from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.reference.chain import START, ChainError
from gnomon.reference.errors import UsageError
from gnomon.reference.ledger import Ledger, verify_file
from gnomon.serve.app import app
from running import SHORT


def written(path: Path, count: int = 4) -> list[str]:
    """A ledger of some records -> its lines"""
    with Ledger(path) as ledger:
        for n in range(count):
            ledger.append({"n": n})
    return path.read_text().splitlines()


def test_a_line_names_the_hash_of_the_one_before(tmp_path: Path) -> None:
    """By the words of the format, without the code that wrote it."""
    prev = START
    for n, line in enumerate(written(tmp_path / "ledger")):
        record = json.loads(line)
        own = record.pop("hash")
        assert record == {"n": n, "prev": prev}
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        prev = hashlib.sha256(text.encode()).hexdigest()
        assert own == prev
    assert verify_file(tmp_path / "ledger") == (4, prev)


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = written(tmp_path / "ledger", 2)
    lines = written(tmp_path / "ledger", 2)
    assert lines[:2] == first
    assert verify_file(tmp_path / "ledger").records == 4


def test_an_empty_one_is_sound(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.verify() == verify_file(tmp_path / "ledger") == (0, START)


CHANGES: dict[str, tuple[Any, int]] = {
    "a number changed": (lambda lines: [lines[0], lines[1].replace('"n":1', '"n":2'), *lines[2:]], 1),
    "a line removed": (lambda lines: [lines[0], *lines[2:]], 1),
    "the first line removed": (lambda lines: lines[1:], 0),
    "lines exchanged": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 1),
    "a line twice": (lambda lines: [*lines[:2], *lines[1:]], 2),
    "a line that is none": (lambda lines: [*lines[:2], "{}", *lines[2:]], 2),
    "an empty line": (lambda lines: [*lines[:3], "", lines[3]], 3),
    "other letters": (lambda lines: [*lines[:3], "\u00e9"], 3),
}


@pytest.mark.parametrize("what", CHANGES)
def test_no_changed_line_is_missed(tmp_path: Path, what: str) -> None:
    change, index = CHANGES[what]
    path = tmp_path / "ledger"
    path.write_text("".join(f"{line}\n" for line in change(written(path))), encoding="utf-8")
    for read in (verify_file, Ledger):
        with pytest.raises(ChainError) as raised:
            read(path)
        assert raised.value.index == index


def test_a_line_cut_in_its_midst_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    written(path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ChainError, match="Expected line 3 to have an end but the file is cut there; move it aside"):
        Ledger(path)


@pytest.mark.parametrize("change", ["cut", "rewritten", "emptied"])
def test_whoever_writes_it_sees_what_a_reader_cannot(tmp_path: Path, change: str) -> None:
    """A sound file with fewer or other lines."""
    path = tmp_path / "ledger"
    other = written(tmp_path / "other", 3)
    with Ledger(path) as ledger:
        for n in range(3):
            ledger.append({"n": n + 10})
        lines = {"cut": path.read_text().splitlines()[:2], "rewritten": other, "emptied": []}[change]
        path.write_text("".join(f"{line}\n" for line in lines))
        verify_file(path)
        with pytest.raises(ChainError, match="Expected 3 records up to"):
            ledger.verify()


def test_no_two_write_one_file(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger"), pytest.raises(UsageError, match="that no other process writes"):
        Ledger(tmp_path / "ledger")
    Ledger(tmp_path / "ledger").close()
    with pytest.raises(UsageError, match="No such file"):
        Ledger(tmp_path / "no" / "ledger")


def test_an_answer_can_be_shown_to_be_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ledger"
    with TestClient(app(engine_of("numpy", micro()), ledger=Ledger(path)), base_url="http://127.0.0.1") as client:
        asked = {"prompt": SHORT, "max_tokens": 3, "seed": 5, "temperature": 0.5}
        own = client.post("/v1/completions", json=asked).json()["gnomon"]
        told = client.get("/v1/ledger/verify").json()
        assert told == {"verdict": "passed", "records": 2, "head": own["ledger"]["hash"]}
        (path.with_name("copy")).write_bytes(path.read_bytes())
        path.write_text(path.read_text().replace('"restored":0', '"restored":9'))
        assert client.get("/v1/ledger/verify").json()["verdict"] == "failed"
    assert verify_ledger(path.with_name("copy"), own["ledger"]["hash"], as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == told
    start, record = map(json.loads, path.with_name("copy").read_text().splitlines())
    assert (start["format"], start["model"], start["engine"]) == ("gnomon ledger", micro().digest, "numpy")
    assert own["ledger"]["record"] == 1
    assert record["prompt_sha256"] == hashlib.sha256(np.array(SHORT, "<i4").tobytes()).hexdigest()
    assert record["completion_sha256"] == hashlib.sha256(np.array(own["ids"], "<i4").tobytes()).hexdigest()
    assert record["logits_sha256"] == own["logits_sha256"]
    assert record["sampling"] == {"temperature": 0.5, "top_k": 0, "top_p": 1.0, "seed": 5}
    with pytest.raises(ChainError, match="a record of hash"):
        verify_ledger(path.with_name("copy"), "0" * 64)
    assert verify_ledger(path, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["record"] == 1
