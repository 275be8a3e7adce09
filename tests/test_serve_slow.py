"""Requests that want much, come late or never: the node answers others meanwhile and is told to stop."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import pytest

from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.serve import app as node_of
from gnomon.serve import connections
from gnomon.serve.guard import LARGE
from running import SHORT
from serving import JSON, chatting, eventually, serving

QUICK = {"prompt": SHORT, "max_tokens": 1}
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def chatty() -> Iterator[httpx2.Client]:
    with serving(engine_of("numpy", chatting())) as client:
        yield client


def connect(client: httpx2.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=30)


def closed(connection: socket.socket) -> bool:
    """Whether the node has given it up, without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


# Requests that want much.


def test_a_stop_text_of_a_million_characters_is_refused(chatty: httpx2.Client) -> None:
    """Every beginning of it was held against the text, in the event loop."""
    for stop in ("x" * 1_000_000, ["y", "x" * 1025]):
        reply = chatty.post("/v1/completions", json={"prompt": "def", "max_tokens": 2, "stop": stop})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stop")
        assert len(reply.text) < 500
    reply = chatty.post("/v1/completions", json={"prompt": "def", "max_tokens": 2, "stop": "x" * 1_000_000})
    assert "it has 1000000 characters" in reply.json()["error"]["message"]
    assert chatty.post("/v1/completions", json={"prompt": "x", "max_tokens": 2, "stop": "x" * 1024}).status_code == 200


def test_a_prompt_that_is_too_long_is_told_its_length(chatty: httpx2.Client) -> None:
    model = chatting()
    assert model.tokenizer is not None
    most = model.config.max_positions
    word = model.tokenizer.decode(model.tokenizer.encode(" self", add_special=False)[:1])
    text = word * (most + 1)
    assert len(model.tokenizer.encode(text)) == most + 1
    for prompt, length in (([5] * (most + 1), most + 1), (text, most + 1), ("x " * 2_000_000, 4_000_000)):
        reply = chatty.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1})
        error = reply.json()["error"]
        assert (reply.status_code, error["param"]) == (400, "prompt")
        assert str(length) in error["message"]
        assert f"at most {'max_positions=' * isinstance(prompt, str)}{most} token" in error["message"]
        assert len(error["message"]) < 300
    messages = [{"role": "user", "content": text}]
    error = chatty.post("/v1/chat/completions", json={"messages": messages}).json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


def test_no_large_body_is_read_in_the_event_loop(chatty: httpx2.Client) -> None:
    body = json.dumps({"state": "x" * 100_000}).encode()
    assert chatty.post("/v1/fork", content=body, headers=JSON).status_code == 413


def test_prompts_that_were_refused_leave_nothing_behind(chatty: httpx2.Client) -> None:
    """In the tokenizer of a node of its own, in bytes."""
    model = chatting()
    with serving(engine_of("numpy", model)) as client:
        for n in range(4):
            reply = client.post("/v1/completions", json={"prompt": "x" * 100_000 + str(n), "max_tokens": 1})
            assert reply.status_code == 400
    assert model.tokenizer is not None
    assert all(len(word) <= 256 for word in model.tokenizer._core.remembered)  # type: ignore[union-attr]


# Requests that come late, or never.


def test_no_head_is_waited_for_without_end() -> None:
    with serving(engine_of("numpy", micro()), patience=0.5) as client, ExitStack() as stack:
        kept = stack.enter_context(connect(client))  # one that has asked before
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = b""
        while not said.endswith(b"}"):
            said += kept.recv(65536)
        silent, begun = (stack.enter_context(connect(client)) for _ in range(2))
        began = time.monotonic()
        for connection in (kept, begun):
            connection.sendall(HEAD + b"X-Never: ")
        while time.monotonic() - began < 0.8:  # more of it is no more time
            with suppress(OSError):  # once it is closed
                begun.sendall(b"x")
            time.sleep(0.1)
        assert closed(silent)
        assert closed(begun)
        assert closed(kept)
        assert client.post("/v1/completions", json=QUICK).status_code == 200


def test_an_answer_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of("numpy", micro())
    step = engine.step

    def slowly(*args: Any) -> Any:
        time.sleep(0.3)
        return step(*args)

    monkeypatch.setattr(engine, "step", slowly)
    with serving(engine, patience=0.5) as client:
        assert client.post("/v1/completions", json={**QUICK, "max_tokens": 3}).status_code == 200


def test_a_stalled_body_keeps_no_place_of_an_answer() -> None:
    with serving(engine_of("numpy", micro()), queue=1) as client, ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(connect(client))
            connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        time.sleep(0.2)
        assert client.post("/v1/completions", json=QUICK).status_code == 200


def test_no_state_trickles_in() -> None:
    """A byte at a time keeps within the time for each piece, and kept one of four places for ten minutes."""
    head = b"POST /v1/state/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
    with serving(engine_of("numpy", micro()), patience=0.5) as client, connect(client) as connection:
        connection.sendall(head + b"Content-Length: 1000000\r\n\r\n")
        connection.settimeout(0.1)
        came = b""
        for _ in range(100):
            with suppress(OSError):
                connection.sendall(b"x")
                came = connection.recv(65536)
                break
        assert b" 408 " in came


def test_no_more_large_bodies_are_kept_than_there_are_places_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_of, "LARGE_BODIES", 2)
    with serving(engine_of("numpy", micro())) as client, ExitStack() as stack:
        body = json.dumps(QUICK).encode() + b" " * LARGE
        assert client.post("/v1/completions", content=body, headers=JSON).status_code == 200
        for _ in range(2):
            connection = stack.enter_context(connect(client))
            connection.sendall(HEAD + f"Content-Length: {len(body) + 1}\r\n\r\n".encode() + body)
            time.sleep(0.5)  # until they have come

        def refused() -> bool:
            return client.post("/v1/completions", content=body, headers=JSON).status_code == 503

        assert eventually(refused)
        assert client.post("/v1/completions", json=QUICK).status_code == 200
        stack.close()
        assert eventually(lambda: not refused())


def test_more_connections_than_may_be_are_closed_and_the_rest_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 8)
    with serving(engine_of("numpy", micro())) as client, ExitStack() as stack:
        assert client.get("/health").status_code == 200  # on a connection that is kept
        many = [stack.enter_context(connect(client)) for _ in range(12)]
        assert all(closed(one) for one in many[8:])
        assert client.get("/health").status_code == 200
        for one in many:
            one.close()
        assert eventually(lambda: httpx2.get(f"{client.base_url}/health", trust_env=False).status_code == 200)


def test_a_node_lives_on_at_its_limit_of_descriptors() -> None:
    """The event loop accepted over and over, and wrote two thousand lines each second."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160));"
        "from gnomon.cli import main; sys.argv[1:] = ['serve', 'micro', '-e', 'numpy', '--port', '0', '--json']; main()"
    )
    with subprocess.Popen([sys.executable, "-c", limited], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = json.loads(process.stdout.readline())["url"]
        address = "127.0.0.1", int(url.rpartition(":")[2])
        try:
            assert eventually(lambda: answers(url))
            with ExitStack() as stack:
                for _ in range(300):
                    stack.enter_context(socket.create_connection(address, timeout=30))
                time.sleep(0.5)
            assert eventually(lambda: answers(url))
        finally:
            process.terminate()
            said = process.stderr.read()
        assert process.wait(timeout=60) == 0
        assert said == b""


def answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", trust_env=False, timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False
