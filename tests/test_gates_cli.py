"""`gnomon gate` and `gnomon receipts`: a line each, an exit code that is the verdict; receipts that hold."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gnomon import cli
from gnomon.gates import leaks, receipt
from gnomon.gates.all import GATES
from gnomon.reference.chain import ChainError, verify
from gnomon.reference.errors import GnomonError, UsageError

KEY = bytes(range(32)).hex()


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, list(words))


def last(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_no_json_is_printed_unless_it_is_asked_for() -> None:
    result = run("gate", "repeat", "-e", "numpy")
    line, sums = result.stdout.splitlines()
    assert re.match(r"PASS      repeat         numpy      [\d,]+ tensors", line)
    assert re.fullmatch(r"PASS +gates: +- +1 PASS", sums)
    result = run("gate", "repeat", "-e", "numpy", "--json")
    summary = json.loads(result.stdout)
    assert (summary["verdict"], summary["exit_code"], result.exit_code) == ("PASS", 0, 0)
    assert summary["results"][0]["header_sha256"] == GATES["repeat"].header.digest


def test_json_alone_where_it_is_asked_for() -> None:
    result = run("gate", "comparator", "--json")
    assert len(result.stdout.splitlines()) == 1
    assert last(result)["counts"]["PASS"] == 1


def test_a_missing_engine_is_not_run() -> None:
    result = run("gate", "repeat", "-e", "no_such_module:engine")
    assert result.exit_code == 3
    assert result.stdout.startswith("NOT RUN   repeat         no_such_module:engine Expected a factory")
    assert result.stdout.splitlines()[-1].startswith("NOT RUN")


def test_a_broken_engine_fails() -> None:
    result = run("gate", "shadow", "-e", "gnomon.planted:reordered")
    assert result.exit_code == 1
    assert "blocks.1.mlp.gate, step 0" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("FAIL")


def test_faults_are_looked_for() -> None:
    result = run("gate", "repeat", "-e", "numpy", "--falsify")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert len(lines) == 2 + len(GATES["repeat"].faults)
    assert "caught: a race: first difference: micro, run 3" in lines[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "a gate among comparator,"),
        (["-e", "nonsense"], "an engine among numpy"),
        (["--key", "k"], "--receipt FILE beside --key"),
        (["--receipt", "/no/such/folder/r.jsonl"], "a folder for the receipt"),
        (["--receipt", "r.jsonl", "--key", "no-such-key"], "a key file of 64 hexadecimal digits"),
    ],
    ids=lambda x: str(x[0]) if isinstance(x, list) else "",
)
def test_no_wrong_argument_runs(words: list[str], says: str) -> None:
    result = run("gate", *words)
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
    assert result.stdout == ""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed receipt."""
    folder = tmp_path_factory.mktemp("receipt")
    (folder / "key").write_text(KEY + "\n")
    path = folder / "receipt.jsonl"
    result = run("gate", "repeat", "-e", "numpy", "--receipt", str(path), "--key", str(folder / "key"))
    assert result.exit_code == 0
    assert result.stdout.endswith(f"signed by {receipt.public_key(bytes.fromhex(KEY))}\n")
    assert sorted(p.name for p in folder.iterdir()) == ["key", "receipt.jsonl"]
    return path


def test_a_receipt_says_what_ran(written: Path) -> None:
    records = verify(written.read_text().splitlines(), bytes.fromhex(receipt.public_key(bytes.fromhex(KEY))))
    by_type = {record["type"]: record for record in records}
    assert [record["type"] for record in records] == ["run", "model", "model", "engine", "gate", "summary"]
    assert re.fullmatch(r"[0-9a-f]{64}", by_type["run"]["source_sha256"])
    assert by_type["run"]["environment"].keys() >= {"python", "compiler", "system", "release", "build", "machine"}
    assert by_type["run"]["packages"].keys() >= {"numpy", "safetensors"}
    assert by_type["engine"]["settings"].keys() >= {"engine", "weights", "arm", "kv", "numpy"}
    assert by_type["gate"]["header_sha256"] == GATES["repeat"].header.digest
    assert by_type["gate"]["figures"]["values"] > 0
    assert by_type["summary"]["verdict"] == "PASS"


def test_an_honest_receipt_is_verified(written: Path) -> None:
    result = run("receipts", "verify", str(written), "--public-key", receipt.public_key(bytes.fromhex(KEY)))
    assert result.exit_code == 0
    assert "6 records, unchanged; verdict PASS\nsigned by" in result.stdout
    assert "asked otherwise" not in result.stdout


CHANGES = {
    "edited": lambda lines: [lines[0], *(x.replace('"verdict":"PASS"', '"verdict":"FAIL"') for x in lines[1:])],
    "removed": lambda lines: [*lines[:4], *lines[5:]],
    "added": lambda lines: [*lines[:4], lines[4], *lines[4:]],
    "reordered": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "cut": lambda lines: lines[:-1],
    "emptied": lambda lines: [],
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_changed_receipt_is_verified(written: Path, tmp_path: Path, change: str) -> None:
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(f"{line}\n" for line in CHANGES[change](written.read_text().splitlines())))
    result = run("receipts", "verify", str(path))
    assert isinstance(result.exception, GnomonError)
    assert result.exception.exit_code == (2 if change in ("cut", "emptied") else 1)
    if change != "emptied":
        as_json = run("receipts", "verify", str(path), "--json")
        assert (as_json.exit_code, last(as_json)["valid"]) == ((2, None) if change == "cut" else (1, False))


def test_another_signer_is_seen(written: Path) -> None:
    result = run("receipts", "verify", str(written), "--public-key", "00" * 32)
    assert isinstance(result.exception, ChainError)
    without = run("receipts", "verify", str(written))
    assert "give --public-key to check" in without.stdout


@pytest.mark.parametrize("words", [["no-such-file"], ["{}", "--public-key", "00"]], ids=["file", "key"])
def test_no_unreadable_receipt_is_verified(written: Path, words: list[str]) -> None:
    result = run("receipts", "verify", *(word.format(written) if word == "{}" else word for word in words))
    assert isinstance(result.exception, GnomonError)
    assert result.exception.exit_code == 2


def test_a_failed_run_has_a_receipt_too(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    assert run("gate", "repeat", "-e", "no_such_module:engine", "--receipt", str(path)).exit_code == 3
    records = verify(path.read_text().splitlines())
    assert [r["verdict"] for r in records if r["type"] in ("gate", "summary")] == ["NOT RUN", "NOT RUN"]
    assert "absent" in next(r for r in records if r["type"] == "engine")


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with a name, a user, a home folder."""
    monkeypatch.setattr("getpass.getuser", lambda: "gwendolyn")
    monkeypatch.setattr("socket.gethostname", lambda: "zeppelin-7.example.org")
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/people/gwendolyn"))
    caches = (leaks.names_of_this_machine, leaks.home_of_this_machine)
    for function in caches:
        function.cache_clear()
    yield
    monkeypatch.undo()
    for function in caches:
        function.cache_clear()


@pytest.mark.usefixtures("somebody")
def test_no_name_of_a_machine_gets_into_a_receipt(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    result = run("gate", "repeat", "-e", "gwendolyn.zeppelin-7:engine", "--receipt", str(path))
    assert "gwendolyn" in result.stdout
    assert not re.search("gwendolyn|zeppelin|/srv/people", path.read_text(), re.IGNORECASE)


@pytest.mark.usefixtures("somebody")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("read /srv/people/gwendolyn/model", "read ~/model"),
        ("by Gwendolyn on ZEPPELIN-7", "by ~ on ~"),
        ("/" + "home/anybody/x and /" + "Users/anybody/y", "~/x and ~/y"),
        ("gwendolyns zeppelin-77", "gwendolyns zeppelin-77"),
    ],
)
def test_names_are_cut_out_of_texts(text: str, clean: str) -> None:
    assert leaks.scrubbed(text) == clean
    assert bool(leaks.traces_of(text.encode(), leaks.private_names())) == (text != clean)


def test_no_name_that_many_share_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "runner")
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    leaks.names_of_this_machine.cache_clear()
    assert leaks.names_of_this_machine() == ()
    leaks.names_of_this_machine.cache_clear()
