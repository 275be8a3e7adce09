"""What a chat template is given in a request: dates, tools, arguments, calls, content that is null."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from gnomon.cli.serve import argument
from gnomon.decode.chat import render
from gnomon.engines import engine as engine_of
from gnomon.loading import load
from gnomon.reference.errors import UsageError
from gnomon.reference.model import ChatTemplate
from gnomon.serve.app import app

# It says what it was given, as JSON.
SAYS = (
    "{{ {'messages': messages, 'tools': tools, 'thinking': thinking, 'bos': bos_token} | tojson }}"
    "{{ strftime_now('%Y') }}"
)
USER = {"role": "user", "content": "hello"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1, null]}'}}


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prompts that were encoded."""
    seen: list[str] = []
    from gnomon.reference.tokenizer import Tokenizer

    encode = Tokenizer.encode

    def recorded(self: Tokenizer, text: str, **named: Any) -> list[int]:
        seen.append(text)
        return encode(self, text, **named)

    monkeypatch.setattr(Tokenizer, "encode", recorded)
    return seen


def node(source: str, **named: Any) -> TestClient:
    model = replace(load("tiny-dense"), chat=ChatTemplate(source, {"bos_token": "<s>"}))
    return TestClient(app(engine_of("numpy", model), **named), base_url="http://127.0.0.1")


@pytest.fixture
def client() -> Iterator[TestClient]:
    with node(SAYS, arguments={"thinking": True}) as made:
        yield made


def said(client: TestClient, prompts: list[str], **fields: Any) -> dict[str, Any]:
    reply = client.post("/v1/chat/completions", json={"messages": [USER], "max_tokens": 1, **fields})
    assert reply.status_code == 200, reply.text
    year = str(datetime.now().year)
    assert prompts[-1].endswith(year)
    out: dict[str, Any] = json.loads(prompts[-1].removesuffix(year))
    return out


def test_a_template_is_given_what_a_request_has(client: TestClient, prompts: list[str]) -> None:
    assert said(client, prompts) == {"messages": [USER], "tools": None, "thinking": True, "bos": "<s>"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    given = said(client, prompts, tools=tools, chat_template_kwargs={"thinking": False, "bos_token": "<b>"})
    assert (given["tools"], given["thinking"], given["bos"]) == (tools, False, "<b>")


def test_content_that_is_null_stays_null_and_calls_are_objects(client: TestClient, prompts: list[str]) -> None:
    """Clients send the arguments of a call as JSON text; templates read an object."""
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "2"},
    ]
    given = said(client, prompts, messages=messages)["messages"]
    assert given[1]["content"] is None
    assert "content" in given[1]
    assert given[1]["tool_calls"][0]["function"]["arguments"] == {"x": [1, None]}
    assert given[2] == messages[2]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [1]}, "tools"),
        ({"tools": {}}, "tools"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"messages": []}}, None),
        ({"messages": [{**USER, "tool_calls": "f"}]}, "messages"),
    ],
    ids=str,
)
def test_no_wrong_argument_of_a_template_is_taken(client: TestClient, fields: Any, param: str | None) -> None:
    reply = client.post("/v1/chat/completions", json={"messages": [USER], **fields})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


def test_no_tools_are_dropped_in_silence() -> None:
    with node("{{ messages[0].content }}") as client:
        body = {"messages": [USER], "tools": [{"type": "function"}]}
        reply = client.post("/v1/chat/completions", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tools")


def test_no_empty_conversation_is_rendered() -> None:
    with pytest.raises(UsageError, match="at least one message"):
        render(ChatTemplate("x", {}), [])


def test_no_message_is_taken_that_json_cannot_say() -> None:
    with pytest.raises(UsageError, match="JSON"):
        render(ChatTemplate("x", {}), [{"role": "user", "content": {1, 2}}])


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=false", False), ("a=3", 3), ("a=high", "high"), ('a={"b": null}', {"b": None}), ("a=x=y", "x=y"), ("a=", "")],
)
def test_a_template_argument_is_json_or_text(text: str, value: Any) -> None:
    assert argument(text) == ("a", value)


@pytest.mark.parametrize("text", ["", "a", "=1", "a b=1", "messages=[]", "tools=[]"])
def test_no_template_argument_without_a_free_name_is_taken(text: str) -> None:
    with pytest.raises(UsageError, match="--template-arg NAME=VALUE"):
        argument(text)
