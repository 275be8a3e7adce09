"""The command line of transcripts: exit codes are verdicts, errors are one sentence, --json is one object."""

import json
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.gates.transcript import opened, sealed
from trace_edits import run

ASKED = ["micro", "--ids", "11,21,45,83", "--max-tokens", "6", "--temperature", "1.5", "--seed", "12"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("made") / "t.jsonl"
    assert run("transcript", "produce", *ASKED, "--engine", "numpy", "--out", path)[0] == 0
    return path


def changed(made: Path, tmp_path: Path, line: int, **fields: Any) -> Path:
    """A copy with other fields in one line, whose chain holds."""
    records = opened(made.read_text("ascii").splitlines())
    records[line].update(fields)
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(f"{text}\n" for text in sealed(records)), "ascii")
    return path


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_what_one_engine_makes_every_engine_verifies(
    made: Path, engine_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("transcript", "verify", "micro", made, "--engine", engine_name)[0] == 0
    assert f"all 6 tokens follow, ended by length; verified on {engine_name}" in capsys.readouterr().out
    assert run("transcript", "verify", "micro", made, "-e", engine_name, "--json")[0] == 0
    expected = {"valid": True, "tokens": 6, "reason": "length", "engine": engine_name, "signature_checked": False}
    assert told(capsys) == expected


def test_produce_says_what_it_wrote(tmp_path: Path, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcript", "produce", *ASKED, "-o", tmp_path / "t", "--json")[0] == 0
    result = told(capsys)
    assert (tmp_path / "t").read_bytes() == made.read_bytes()
    assert result["ids"] == [record["id"] for record in opened(made.read_text("ascii").splitlines())[1:-1]]
    assert (result["reason"], result["engine"], result["text"]) == ("length", "numpy", None)


def test_text_is_made_and_ends_with_the_stop_id_of_the_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gnomon.load("tiny-dense")
    assert model.tokenizer is not None
    words = ["tiny-dense", "-p", "def main(", "-n", "4", "-o", tmp_path / "t"]
    assert run("transcript", "produce", *words, "--json")[0] == 0
    result = told(capsys)
    assert result["text"] == model.tokenizer.decode(result["ids"])
    header = json.loads((tmp_path / "t").read_text("ascii").splitlines()[0])
    assert header["stop"] == sorted(model.tokenizer.eos_ids)
    assert header["tokenizer"] == model.tokenizer.digest


@pytest.mark.parametrize(
    ("line", "fields", "index"),
    [(3, {"id": 1}, 2), (0, {"prompt": [11, 21, 45, 84]}, 0), (-1, {"reason": "stop"}, 6), (0, {"arm": "f64"}, None)],
    ids=["an id", "the prompt", "the reason", "no arm"],
)
def test_what_does_not_follow_is_named_by_its_index(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: int, fields: dict[str, Any], index: int | None
) -> None:
    path = changed(made, tmp_path, line, **fields)
    assert run("transcript", "verify", "micro", path, "--json")[0] == 1
    result = told(capsys)
    assert (result["valid"], result["index"]) == (False, index)
    assert run("transcript", "verify", "micro", path)[0] == 1
    captured = capsys.readouterr()
    assert captured.err == f"gnomon: {result['detail']}\n"
    assert captured.out == ""


def test_a_cut_file_is_no_transcript(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut").write_bytes(made.read_bytes()[:-100])
    assert run("transcript", "verify", "micro", tmp_path / "cut")[0] == 2
    assert "cut" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "field"),
    [(["tiny-dense"], "model"), (["micro", "--arm", "bf16"], "arm"), (["micro", "--kv", "int8"], "kv")],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_is_not_loaded_is_not_judged(
    made: Path, capsys: pytest.CaptureFixture[str], words: list[str], field: str
) -> None:
    assert run("transcript", "verify", words[0], made, *words[1:], "--json")[0] == 3
    result = told(capsys)
    assert (result["valid"], result["field"]) == (None, field)
    assert run("transcript", "verify", words[0], made, *words[1:])[0] == 3
    assert capsys.readouterr().err.count(f"{field}=") == 2


def test_a_signature_is_demanded(tmp_path: Path, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = bytes(range(32))
    (tmp_path / "key").write_text(key.hex())
    public = ed25519.Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw().hex()
    assert run("transcript", "produce", *ASKED, "-o", tmp_path / "t", "--key", tmp_path / "key")[0] == 0
    assert run("transcript", "verify", "micro", tmp_path / "t", "--public-key", public)[0] == 0
    assert public in capsys.readouterr().out
    assert run("transcript", "verify", "micro", made, "--public-key", public)[0] == 1


MISUSES = {
    "no such file": ["verify", "micro", "nothing.jsonl"],
    "a folder": ["verify", "micro", "."],
    "no such model": ["produce", "nothing", "--ids", "1", "-o", "t"],
    "no such engine": ["produce", "micro", "--ids", "1", "-o", "t", "-e", "abacus"],
    "no prompt": ["produce", "micro", "-o", "t"],
    "a folder to write": ["produce", "micro", "--ids", "1", "-o", "."],
    "a file in no folder": ["produce", "micro", "--ids", "1", "-o", "no/t"],
    "too hot": ["produce", "micro", "--ids", "1", "-o", "t", "--temperature", "1e9"],
    "no temperature": ["produce", "micro", "--ids", "1", "-o", "t", "--temperature", "nan"],
    "top_p of 0": ["produce", "micro", "--ids", "1", "-o", "t", "--top-p", "0"],
    "a seed of 65 bits": ["produce", "micro", "--ids", "1", "-o", "t", "--seed", str(1 << 64)],
    "too many tokens": ["produce", "micro", "--ids", "1", "-o", "t", "-n", "4097"],
    "no key": ["produce", "micro", "--ids", "1", "-o", "t", "--key", "none"],
    "a short public key": ["verify", "micro", "t", "--public-key", "00"],
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_no_misuse_leaves_a_file_or_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], misuse: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("transcript", *MISUSES[misuse])[0] == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("gnomon: ")
    assert len(captured.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
