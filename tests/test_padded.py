"""Ids without a token, and errors of one text: whoever decodes beside it has its whole text."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from gnomon import cli
from gnomon.cli import run as run_verb
from gnomon.decode.batch import Batch
from gnomon.decode.spelling import Spelling
from gnomon.decode.text import Request, Text
from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.library_tokenizer import LibraryTokenizer
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32
from gnomon.reference.tokenizer import Tokenizer
from gnomon.serve.app import app
from serving import ask
from test_tokenizer_library import unigram


@pytest.fixture(scope="module")
def padded() -> Model:
    """A model of 97 rows whose tokenizer has 4 tokens, as published vocabularies have some rows more than tokens."""
    model = micro()
    return replace(model, tokenizer=Tokenizer(LibraryTokenizer(unigram().to_str()), rows=model.config.vocab))


def test_an_id_without_a_token_spells_nothing(padded: Model) -> None:
    made = padded.tokenizer
    assert made is not None
    assert made.decode([96, 2, 50, 3, 96]) == made.decode([2, 3]) == "a ab"
    assert list(made.stream([96, 2, 50, 3])) == ["a", " ab"]
    assert made.token_bytes(96) == b""
    spelling = Spelling(padded, ("ab",))
    assert [spelling.add(one) for one in (96, 2, 3)] == ["", "", "a "]
    assert spelling.stopped
    with pytest.raises(UsageError, match="from 0 to 96 but got 97"):
        made.decode([97])


def test_an_id_without_a_token_ends_no_answer_beside_it(padded: Model) -> None:
    """Stop texts have every id spelled as it is drawn."""
    engine = engine_of("numpy", padded)
    with TestClient(app(engine), base_url="http://127.0.0.1") as client:
        answer = ask(client, prompt=[1, 2, 3], max_tokens=6, temperature=0, stop="never")
    assert any(one > 3 for one in answer["gnomon"]["ids"])
    made = padded.tokenizer
    assert made is not None
    assert answer["choices"][0]["text"] == made.decode([one for one in answer["gnomon"]["ids"] if one < 4])


def failing(monkeypatch: pytest.MonkeyPatch, prompt: list[int]) -> None:
    """The third id of the text with this prompt cannot be drawn."""
    draw = Text.draw

    def drawn(self: Text, row: F32) -> int:
        if [*self.request.ids] == prompt and len(self.ids) == 2:
            raise UsageError("Expected no fault but one was planted")
        return draw(self, row)

    monkeypatch.setattr(Text, "draw", drawn)


def test_an_error_of_one_text_ends_that_text_alone(
    monkeypatch: pytest.MonkeyPatch, new_engine: Callable[[Model], Engine[Any]]
) -> None:
    engine = new_engine(micro())
    whole = Batch(engine)
    expected = [whole.join(Request([n, n + 1], 6)) for n in (1, 5, 9)]
    list(whole.run())
    failing(monkeypatch, [5, 6])
    batch = Batch(engine)
    texts = [batch.join(Request([n, n + 1], 6)) for n in (1, 5, 9)]
    list(batch.run())
    assert [text.reason for text in texts] == ["length", "failed", "length"]
    assert texts[1].ids == expected[1].ids[:2]
    assert str(texts[1].error).startswith("Expected no fault")
    assert [texts[n].ids for n in (0, 2)] == [expected[n].ids for n in (0, 2)]


def test_a_node_tells_an_error_of_one_text_to_its_client_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, [5, 6])
    with TestClient(app(engine_of("numpy", micro())), base_url="http://127.0.0.1") as client:
        reply = client.post("/v1/completions", json={"prompt": [5, 6], "max_tokens": 6, "temperature": 0})
        assert (reply.status_code, "planted" in reply.json()["error"]["message"]) == (400, True)
        assert len(ask(client, prompt=[1, 2], max_tokens=6, temperature=0)["gnomon"]["ids"]) == 6


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_batch_loses_what_its_other_lines_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, padded: Model, as_json: bool
) -> None:
    monkeypatch.setattr(run_verb, "load", lambda _: padded)
    failing(monkeypatch, [5, 6])
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"ids": [n, n + 1]}) + "\n" for n in (1, 5, 9)))
    words = ["run", "padded", "--batch", str(prompts), "-n", "4", "-e", "numpy", *(["--json"] if as_json else [])]
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 1, result.exception
    if as_json:
        texts = json.loads(result.stdout)["texts"]
        assert [len(text["ids"]) for text in texts] == [4, 2, 4]
        assert [text.get("error", "")[:8] for text in texts] == ["", "Expected", ""]
    else:
        assert "--- line 2: 2 tokens, failed: Expected no fault but one was planted" in result.stdout
        assert result.stdout.count(", length\n") == 2
