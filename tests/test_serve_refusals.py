"""Every request that a node does not take is refused by name; what only looks odd is answered."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.serve.app import app
from running import SHORT
from serving import DRAWN, FIELDS, ask, chatting, own, plain_answer


@pytest.fixture(scope="module")
def numpy() -> Engine[Any]:
    return engine_of("numpy", micro())


@pytest.fixture(scope="module")
def node(numpy: Engine[Any]) -> Iterator[TestClient]:
    with TestClient(app(numpy), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def chatty() -> Iterator[TestClient]:
    with TestClient(app(engine_of("numpy", chatting())), base_url="http://127.0.0.1") as client:
        yield client


WRONG = {
    "no prompt": ({}, "prompt"),
    "an empty prompt": ({"prompt": []}, "prompt"),
    "text without a tokenizer": ({"prompt": "text"}, "prompt"),
    "an id outside": ({"prompt": [97]}, "prompt"),
    "an id that is true": ({"prompt": [True]}, "prompt"),
    "several prompts": ({"prompt": [[1], [2]]}, "prompt"),
    "no tokens": ({"prompt": [1], "max_tokens": 0}, "max_tokens"),
    "tokens as text": ({"prompt": [1], "max_tokens": "5"}, "max_tokens"),
    "a temperature below the least": ({"prompt": [1], "temperature": 1e-9}, "temperature"),
    "a negative temperature": ({"prompt": [1], "temperature": -1}, "temperature"),
    "top_p of 0": ({"prompt": [1], "top_p": 0}, "top_p"),
    "a seed of 2^64": ({"prompt": [1], "seed": 2**64}, "seed"),
    "another model": ({"prompt": [1], "model": "gpt"}, "model"),
    "two answers": ({"prompt": [1], "n": 2}, "n"),
    "a penalty": ({"prompt": [1], "presence_penalty": 0.5}, "presence_penalty"),
    "tools": ({"prompt": [1], "tools": []}, "tools"),
    "a grammar": ({"prompt": [1], "response_format": {"type": "json_object"}}, "response_format"),
    "stop texts without a tokenizer": ({"prompt": [1], "stop": "x"}, "stop"),
    "a path": ({"prompt": [1], "path": "/etc/passwd"}, "path"),
}


@pytest.mark.parametrize("what", WRONG)
def test_no_wrong_field_is_taken(node: TestClient, what: str) -> None:
    body, name = WRONG[what]
    reply = node.post("/v1/completions", json=body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"] == name
    assert name in error["message"]
    assert error["type"] == "invalid_request_error"


MALFORMED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"prompt": [1], "prompt": [2]}',
    b'{"prompt": NaN}',
    b"\xff\xfe",
    b"[" * 99999,
]


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_no_malformed_body_is_taken(node: TestClient, body: bytes) -> None:
    reply = node.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid")
    assert own(ask(node, prompt=[1, 2], max_tokens=1))


def test_a_field_that_is_null_is_not_there(node: TestClient) -> None:
    answer = ask(node, prompt=SHORT, max_tokens=3, temperature=0)
    assert own(ask(node, prompt=SHORT, max_tokens=3, temperature=0, seed=None, stream=None)) == own(answer)


def test_values_that_change_nothing_are_taken(node: TestClient, numpy: Engine[Any]) -> None:
    idle = {"n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "model": "micro"}
    assert own(ask(node, prompt=SHORT, max_tokens=4, **FIELDS, **idle)) == plain_answer(numpy, SHORT, 4, DRAWN)


def test_no_conversation_is_made_up(node: TestClient) -> None:
    reply = node.post("/v1/completions", json={"prompt": [1], "state": "state-0"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "no_state")


def test_no_chat_without_a_template(node: TestClient) -> None:
    reply = node.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]})
    assert reply.status_code == 400
    assert "no" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "messages",
    [[], [{}], [{"role": "user"}], [{"role": "user", "content": "x", "name": "y"}], [{"role": "user", "content": []}]],
    ids=["none", "empty", "no content", "a name", "parts"],
)
def test_no_wrong_message_is_taken(chatty: TestClient, messages: Any) -> None:
    reply = chatty.post("/v1/chat/completions", json={"messages": messages})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages")


def test_no_text_is_longer_than_the_model() -> None:
    short = replace(micro(), config=replace(micro().config, max_positions=24))
    with TestClient(app(engine_of("numpy", short)), base_url="http://127.0.0.1") as client:
        whole = [1] * 24
        assert client.post("/v1/completions", json={"prompt": [*whole, 1]}).json()["error"]["param"] == "prompt"
        answer = ask(client, prompt=whole, max_tokens=3, temperature=0)
        assert (len(answer["gnomon"]["ids"]), answer["choices"][0]["finish_reason"]) == (1, "length")
        state = answer["gnomon"]["state"]
        assert client.get("/v1/state", params={"id": state}).json()["data"][0]["position"] == len(whole)
        reply = client.post("/v1/completions", json={"prompt": [1], "state": state})
        assert reply.status_code == 400
        assert "max_positions=24" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("GET", "/v1/completions", 405), ("POST", "/health", 405)]
)
def test_no_other_endpoint(node: TestClient, method: str, path: str, status: int) -> None:
    reply = node.request(method, path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, "no_such")
