"""What a node is sent: bodies of completions, chats, states and forks, mutated; and a chat template that is."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from starlette.testclient import TestClient

from fuzz import formats
from fuzz import mutators as m
from gnomon.engines import engine
from gnomon.loading import load
from gnomon.reference.model import ChatTemplate
from gnomon.serve.app import app
from template_judge import OWN, SPECIAL

JSON, BINARY = "application/json", "application/octet-stream"
SAMPLED = {"temperature": 0.9, "top_p": 0.95, "top_k": 9, "seed": 7, "max_tokens": 3}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1, null]}'}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
TALK = [{"role": "system", "content": "he"}, {"role": "user", "content": "hell"}]
CALLED = [*TALK, {"role": "assistant", "content": None, "tool_calls": [CALL]},
          {"role": "tool", "tool_call_id": "1", "content": "5"}]  # fmt: skip
BODIES: dict[str, list[Any]] = {
    "/v1/completions": [
        {"prompt": "hell", "max_tokens": 2}, {"prompt": [1, 2, 3], **SAMPLED, "stop": ["l", "he"], "n": 1},
        {"prompt": "he", "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}},
        {"prompt": [4], "state": "STATE", "max_tokens": 2},
        {"prompt": "l", "state": "STATE", **SAMPLED, "stream": True},
    ],
    "/v1/chat/completions": [
        {"messages": TALK, "max_tokens": 2},
        {"messages": CALLED, "tools": [TOOL], "logprobs": True, "top_logprobs": 2, **SAMPLED},
        {"messages": TALK, "chat_template_kwargs": {"enable_thinking": False}, "max_completion_tokens": 2},
        {"messages": TALK, "max_tokens": 2, "stream": True},
    ],
    "/v1/fork": [{"state": "STATE"}, {"state": "STATE", "target": "http://127.0.0.1:1"}],
}  # fmt: skip
PATHS = [
    "/v1/state",
    "/v1/state/export",
    "/v1/ledger/verify",
    "/v1/models",
    "/openapi.json",
    "/health",
    "/x",
    "/v1/fork",
]
KNOWN = {"prompt": [1, 2, 3], "max_tokens": 2}


@dataclass(frozen=True)
class Request:
    """body: with STATE for the id of the state that is held; query: for its `id`"""

    method: str
    path: str
    body: bytes = b""
    kind: str = JSON
    query: str | None = None


@dataclass(frozen=True)
class Requests:
    """template: of the model of the node; seeds: where its weights are"""

    asked: list[Request]
    template: str = OWN
    seeds: Path | None = None


def requests(rng: Random, seeds: Path) -> Requests:
    """One to three, at least one of them mutated."""
    return Requests([one(rng, seeds) for _ in range(rng.choice([1, 1, 2, 3]))])


def one(rng: Random, seeds: Path) -> Request:
    kind = rng.random()
    if kind < 0.2:
        return Request("POST", "/v1/state/import", formats.state(rng, (seeds / "whole.state").read_bytes()), BINARY)
    if kind < 0.3:
        return Request(
            rng.choice(["GET", "GET", "POST", "PUT", "HEAD"]),
            rng.choice(PATHS),
            query=rng.choice(["STATE", *m.TEXTS])[:8000],
        )
    path = rng.choice(list(BODIES))
    body = m.json_text(rng, json.dumps(rng.choice(BODIES[path])).encode())
    return Request("POST", path, body, rng.choice([JSON] * 9 + [BINARY, "", "application/json; charset=x"]))


def conversation(rng: Random) -> Requests:
    """Whole requests, and another template."""
    source = m.text(rng, OWN) if rng.random() < 0.7 else OWN.replace("messages", rng.choice(TERMS), 1)
    if rng.random() < 0.3:
        source = m.raw_bytes(rng, source.encode("utf-8", "replace")).decode("utf-8", "replace")
    return Requests(
        [Request("POST", "/v1/chat/completions", json.dumps(rng.choice(BODIES["/v1/chat/completions"])).encode())],
        source,
    )


TERMS = [
    "range(10**10)", "messages|map('x')", "2**10**6", "'x'*10**7", "messages[9]", "none", "().__class__",
    "raise_exception(1)", "strftime_now(5)", "messages|tojson(indent=10**9)", "namespace()", "'%10000000d'%1",
    "messages[0].content.format(1)",
]  # fmt: skip


@cache
def engine_of(seeds: Path) -> Any:
    """With a tokenizer, and a template to be replaced."""
    return engine("numpy", load(seeds / "models" / "whole"))


def answer(asked: Requests, seeds: Path, told: Callable[[str], object]) -> str:
    """What is wrong with how a fresh node answers; "" for nothing. told: hears each request and reply

    Behind them comes a request with a known answer: one client must not spoil what another gets.
    """
    running = engine_of(seeds)
    running.model = replace(running.model, chat=ChatTemplate(asked.template, SPECIAL))
    with TestClient(app(running, held=64 << 20), base_url="http://127.0.0.1") as client:
        held = client.post(
            "/v1/state/import", content=(seeds / "whole.state").read_bytes(), headers={"content-type": BINARY}
        )
        state, known = held.json()["id"], client.post("/v1/completions", json=KNOWN).json()["gnomon"]["ids"]
        for request in asked.asked:
            body = request.body.replace(b"STATE", state.encode())
            query = (
                None
                if request.query is None
                else {"id": request.query.replace("STATE", state).encode("utf-8", "replace").decode()}
            )
            told(f"{request.method} {request.path} {query} {request.kind} {body!r:.2000}")
            reply = client.request(
                request.method, request.path, content=body, headers={"content-type": request.kind}, params=query
            )
            told(f"{reply.status_code} {reply.content!r:.2000}")
            if wrong := judged(request, reply):
                return wrong
        after = client.post("/v1/completions", json=KNOWN)
        if after.status_code != 200 or after.json()["gnomon"]["ids"] != known:
            return f"another answer than before to the same request: {after.text:.500}"
    return ""


def judged(request: Request, reply: Any) -> str:
    if reply.status_code >= 500 and reply.status_code != 503:
        return f"status {reply.status_code}: {reply.text:.500}"
    kind = reply.headers.get("content-type", "")
    if kind.startswith(JSON) and request.method != "HEAD":
        m_ = strict(reply.text)
        return m_ if m_ or reply.status_code < 400 or "error" in reply.json() else "a refusal without an error"
    if kind.startswith("text/event-stream"):
        events = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
        if not events or (events[-1] != "[DONE]" and '"error"' not in events[-1]):
            return f"a stream without an end: {events[-1:]}"
        if '"server_error"' in events[-1]:
            return f"a stream that ends in {events[-1]}"
        return next(filter(None, map(strict, [e for e in events if e != "[DONE]"])), "")
    return ""


def strict(text: str) -> str:
    """What is wrong with a text as JSON."""
    try:
        json.loads(text, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError) as error:
        return f"no JSON on its own ({error}): {text[:200]!r}"
    return ""
