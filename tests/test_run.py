"""`gnomon run`: the text of plain decoding, whatever its drafts and neighbours; misuse ends in one sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gnomon
from decoding import plainly
from gnomon import cli
from gnomon.models import micro
from gnomon.reference.errors import GnomonError
from gnomon.reference.ops.sample import Sampling

PROMPT = "import os"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["run", *words])


def told(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def drawn() -> list[int]:
    """A sampled continuation of PROMPT by tiny-dense, decoded plainly."""
    model = gnomon.load("tiny-dense")
    assert model.tokenizer is not None
    engine = gnomon.engine("numpy", model)
    return plainly(engine, model.tokenizer.encode(PROMPT), 8, Sampling(0.9, 40, 0.95, 5)).ids


SAMPLED = ("--temperature", "0.9", "--top-k", "40", "--top-p", "0.95", "--seed", "5", "-p", PROMPT)


@pytest.mark.parametrize(
    "draft", [(), ("--draft", "ngram"), ("--draft", "engine:numpy"), ("--draft", "model:tiny-hybrid")]
)
def test_no_draft_changes_the_text(drawn: list[int], draft: tuple[str, ...]) -> None:
    found = told("tiny-dense", *SAMPLED, "-n", "8", *draft)
    assert found["ids"] == drawn
    assert found["reason"] == "length"
    assert "statistics" not in found


def test_max_tokens_has_two_names(drawn: list[int]) -> None:
    assert told("tiny-dense", *SAMPLED, "--steps", "3") == told("tiny-dense", *SAMPLED, "--max-tokens", "3")


def test_statistics_count_passes() -> None:
    found = told("micro", "--ids", "1,2,3", "-n", "10", "--draft", "engine:numpy", "--stats")["statistics"]
    assert (found["passes"], found["drafted"], found["accepted"], found["tokens"]) == (2, 8, 8, 10)
    result = run("micro", "--ids", "1,2,3", "-n", "10", "--draft", "engine:numpy", "--stats")
    assert result.stderr.startswith("passes 2, rows 12, recomputed 0, drafted 8, accepted 8, tokens 10, seconds ")


def test_no_text_is_given_behind_a_stop() -> None:
    whole = told("tiny-dense", "-p", "def main(", "-n", "8")
    words = ("tiny-dense", "-p", "def main(", "-n", "8", "--stop", ", level")
    assert whole["text"].startswith("self, level")
    assert (told(*words)["text"], told(*words)["reason"]) == ("self", "stop")
    assert run(*words).stdout == "def main(self\n"


# Many prompts.


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "prompts.txt"
    path.write_text("import os\n\ndef main(\r\n", "utf-8")
    return str(path)


@pytest.fixture
def objects(tmp_path: Path) -> str:
    given = [
        {"prompt": PROMPT, "temperature": 0.9, "top_k": 40, "top_p": 0.95, "seed": 5, "max_tokens": 8},
        {"ids": [1, 2]},
        {"prompt": "def main(", "stop": [", level", "x"]},
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in given), "utf-8")
    return str(path)


def test_no_neighbour_changes_a_text(lines: str) -> None:
    found = told("tiny-dense", "--batch", lines, "-n", "4", "--stats")
    assert [text["line"] for text in found["texts"]] == [1, 3]
    for text, prompt in zip(found["texts"], ["import os", "def main("], strict=True):
        alone = told("tiny-dense", "-p", prompt, "-n", "4")
        assert {name: text[name] for name in ("prompt", "ids", "text", "reason")} == {
            name: alone[name] for name in ("prompt", "ids", "text", "reason")
        }
    assert (found["statistics"]["steps"], found["statistics"]["tokens"]) == (4, 8)


def test_each_text_is_shown_when_it_ends(lines: str) -> None:
    result = run("tiny-dense", "--batch", lines, "-n", "1")
    first, second = (told("tiny-dense", "-p", prompt, "-n", "1")["text"] for prompt in ("import os", "def main("))
    assert result.stdout == (
        f"--- line 1: 1 tokens, length\nimport os{first}\n--- line 3: 1 tokens, length\ndef main({second}\n"
    )


def test_a_line_has_its_own_settings(objects: str, drawn: list[int]) -> None:
    first, second, third = told("tiny-dense", "--batch", objects, "-n", "3")["texts"]
    assert first["ids"] == drawn
    assert (second["prompt"], len(second["ids"])) == ([1, 2], 3)
    assert (third["text"], third["reason"]) == ("self", "stop")


BAD_LINES = {
    '{"ids": [1, 97]}': "line 2 of p.jsonl: Expected token ids from 0 to 96 but got 97",
    '{"ids": []}': "line 2 of p.jsonl: Expected a list of token ids but got []",
    '{"ids": [true]}': "line 2 of p.jsonl: Expected a list of token ids",
    '{"prompt": "x"}': "line 2 of p.jsonl: Expected a tokenizer for text",
    '{"max_tokens": 3}': "line 2 of p.jsonl: Expected --ids or --prompt but got neither",
    '{"ids": [1], "prompt": "x"}': "line 2 of p.jsonl: Expected prompt or ids but got both",
    '{"ids": [1], "max_token": 3}': "line 2 of p.jsonl: Expected fields among prompt, ids,",
    '{"ids": [1], "max_tokens": 0}': "line 2 of p.jsonl: Expected at least one token",
    '{"ids": [1], "max_tokens": true}': "line 2 of p.jsonl: Expected another type of value for max_tokens",
    '{"ids": [1], "temperature": 1e9}': "line 2 of p.jsonl: Expected a temperature",
    '{"ids": [1], "top_p": 0}': "line 2 of p.jsonl: Expected 0 < top_p <= 1",
    '{"ids": [1], "seed": 1}': "line 2 of p.jsonl: Expected a temperature above 0 beside",
    '{"ids": [1], "seed": -1}': "line 2 of p.jsonl: Expected a seed",
    '{"ids": [1], "seed": 1, "seed": 2}': "line 2 of p.jsonl: Expected each key once",
    '{"ids": [1], "stop": [3]}': "line 2 of p.jsonl: Expected stop to be a text or a list of texts",
    '{"ids": [1], "stop": "x"}': "line 2 of p.jsonl: Expected a tokenizer for stop texts",
    "[1]": "line 2 of p.jsonl: Expected it to be a JSON object",
    "{": "line 2 of p.jsonl: Expected it to be JSON",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_no_bad_line_runs(line: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"ids": [1]}}\n{line}\n', "utf-8")
    assert_refused(BAD_LINES[line], "micro", "--batch", str(path))


MISUSES: dict[tuple[str, ...], str] = {
    ("--seed", "5"): "Expected --temperature above 0 beside",
    ("--top-k", "5"): "Expected --temperature above 0 beside",
    ("--top-p", "0.5"): "Expected --temperature above 0 beside",
    ("--temperature", "-1"): "Expected a temperature",
    ("--temperature", "nan"): "Expected a temperature",
    ("--draft", "oracle"): "Expected --draft to be ngram, model:NAME or engine:NAME but got 'oracle'",
    ("--draft", "model:"): "Expected --draft to be",
    ("--draft", "model:nothing-here"): "Expected an embedded model",
    ("--draft", "engine:abacus"): "Expected an engine among",
    ("--stop", "x"): "Expected a tokenizer for stop texts",
    ("--batch", "x"): "Expected --batch without --prompt, --ids and --draft",
}


@pytest.mark.parametrize("words", MISUSES, ids=" ".join)
def test_no_misuse_runs(words: tuple[str, ...]) -> None:
    assert_refused(MISUSES[words], "micro", "--ids", "1", *words)


def test_no_unreadable_batch_runs(tmp_path: Path) -> None:
    assert_refused("Expected a file of prompts at ", "micro", "--batch", str(tmp_path / "nothing"))
    (tmp_path / "empty").write_text("\n\n")
    assert_refused("Expected at least one prompt in empty", "micro", "--batch", str(tmp_path / "empty"))
    (tmp_path / "latin").write_bytes(b"\xe9")
    assert_refused("Expected latin to be UTF-8 text but byte 0 is not", "micro", "--batch", str(tmp_path / "latin"))


def assert_refused(sentence: str, *words: str) -> None:
    result = run(*words)
    assert isinstance(result.exception, GnomonError), result.exception
    assert result.exception.exit_code == 2
    assert str(result.exception).startswith(sentence)
    assert "\n" not in str(result.exception)
    assert result.stdout == ""


def test_a_text_that_fails_is_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = micro()
    table = model.weights["embed.weight"]
    data = table.data.copy()
    data.view("<f4")[13] = float("nan")
    poisoned = replace(model, weights={**model.weights, "embed.weight": replace(table, data=data)})
    monkeypatch.setattr("gnomon.cli.run.load", lambda name: poisoned)
    path = tmp_path / "p.jsonl"
    path.write_text('{"ids": [13]}\n{"ids": [1, 2]}\n')
    result = run("micro", "--batch", str(path), "-n", "2", "--json")
    assert result.exit_code == 1
    assert [text["reason"] for text in json.loads(result.stdout)["texts"]] == ["nonfinite", "length"]
