"""Who a node answers, and what no client can do to it: large bodies, slow ones, clients that go."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from gnomon.decode.state_file import state_stream
from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import state_specs
from gnomon.serve.app import BODY, TRANSFERS, app
from running import SHORT
from serving import BINARY, JSON, dropped, eventually, serving

PATHS = ["/v1/models", "/v1/state", "/v1/state/export?id=x", "/v1/ledger/verify", "/openapi.json", "/nothing"]
QUICK = {"prompt": SHORT, "max_tokens": 1}


@pytest.fixture(scope="module")
def node() -> Iterator[httpx2.Client]:
    with serving(engine_of("numpy", micro()), patience=1.0) as client:
        yield client


def serves_on(client: httpx2.Client) -> bool:
    return client.post("/v1/completions", json=QUICK).status_code == 200


# Who may ask.


@pytest.mark.parametrize(
    "bearer", [None, "Bearer ", "Bearer secre", "Bearer secret2", "Basic secret", "secret", "Bearer \xff"]
)
def test_no_one_without_the_token_is_answered(bearer: str | None) -> None:
    with TestClient(app(engine_of("numpy", micro()), token="secret")) as client:
        headers = {} if bearer is None else {"authorization": bearer.encode("latin-1")}
        for path in PATHS:
            reply = client.get(path, headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
            assert reply.headers["www-authenticate"] == "Bearer"
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/fork", "/v1/state/import"):
            assert client.post(path, json={}, headers=headers).status_code == 401
        assert client.get("/health", headers=headers).json() == {"status": "ok"}
        assert client.get("/v1/models", headers={"authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.x:1", ""])
def test_no_other_name_reaches_a_node_without_a_token(node: httpx2.Client, host: str) -> None:
    """A page that a browser was led to by its own name."""
    reply = node.get("/v1/models", headers={"host": host})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "host")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:81", "localhost", "localhost:8000", "[::1]", "[::1]:8000"])
def test_this_machine_reaches_it(node: httpx2.Client, host: str) -> None:
    assert node.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"])
def test_no_body_that_a_page_may_send_unasked_is_taken(node: httpx2.Client, kind: str) -> None:
    reply = node.post("/v1/completions", content=json.dumps(QUICK), headers={"content-type": kind})
    assert (reply.status_code, reply.json()["error"]["code"]) == (415, "content_type")


# Large and slow.


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in chunks"])
def test_a_body_of_100_mb_is_refused_and_told(node: httpx2.Client, announced: bool) -> None:
    piece, count = b" " * (1 << 20), 100
    headers = {**JSON, **({"content-length": str(count << 20)} if announced else {})}
    reply = node.post("/v1/completions", content=(piece for _ in range(count)), headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
    assert serves_on(node)


def test_a_client_that_sends_all_before_it_reads_sees_why(node: httpx2.Client) -> None:
    """A server that closes with bytes unread resets the connection, and the response is lost with it."""
    size = 32 << 20
    head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with socket.create_connection((node.base_url.host, node.base_url.port or 80), timeout=30) as connection:
        connection.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode() + b" " * size)
        assert b" 413 " in connection.recv(65536)


def test_the_largest_body_is_read(node: httpx2.Client) -> None:
    body = json.dumps(QUICK).encode()
    for size, status in ((BODY, 200), (BODY + 1, 413)):
        reply = node.post("/v1/completions", content=body + b" " * (size - len(body)), headers=JSON)
        assert reply.status_code == status


@pytest.mark.parametrize("path", ["completions", "state/import"])
def test_a_slow_client_is_not_waited_for(node: httpx2.Client, path: str) -> None:
    kind = "application/json" if path == "completions" else "application/octet-stream"
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((node.base_url.host, node.base_url.port or 80), timeout=30) as connection:
        connection.sendall(head.encode() + b"{")
        assert serves_on(node)  # meanwhile
        assert b" 408 " in connection.recv(65536)


def test_a_client_that_does_not_read_is_not_waited_for() -> None:
    """As many of them as may have a state sent, of which nobody takes more than the beginning."""
    engine = engine_of("numpy", micro())
    ids = [1] * 4000
    arrays = {name: np.zeros(*spec) for name, spec in state_specs(micro().config, "f32", len(ids)).items()}
    data = b"".join(state_stream(engine, engine.load(arrays, ids)))  # more than fits between two programs
    with serving(engine, buffer=16384, patience=1.0) as client, ExitStack() as stack:
        name = client.post("/v1/state/import", content=data, headers=BINARY).json()["id"]
        for _ in range(TRANSFERS):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((client.base_url.host, client.base_url.port or 80))
            connection.sendall(f"GET /v1/state/export?id={name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert eventually(lambda: client.get("/v1/state/export", params={"id": name}).content == data)


# Clients that go.


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_an_answer_ends_when_its_client_goes(stream: bool) -> None:
    engine = engine_of("numpy", micro())
    fed: list[int] = []
    step = engine.step

    def counted(rows: Rows, *args: Any) -> F32:
        fed.append(len(rows.ids))
        return step(rows, *args)

    engine.step = counted  # type: ignore[method-assign]
    with serving(engine, queue=1) as client:
        body = json.dumps({"prompt": SHORT, "max_tokens": 4000, "stream": stream, "temperature": 0}).encode()
        head = f"POST /v1/completions HTTP/1.1\nContent-Type: application/json\nContent-Length: {len(body)}"
        if stream:
            dropped(client, head, body, read=2000)
        else:
            dropped_after(client, head, body, fed)
        assert eventually(lambda: serves_on(client))  # the one place is free
        steps = len(fed)
        time.sleep(0.3)
        assert len(fed) == steps < 2000  # nothing goes on in silence
        assert [one["position"] for one in client.get("/v1/state").json()["data"]] == [
            len(SHORT) + 1
        ]  # that of serves_on
        assert client.get("/v1/ledger/verify").json()["records"] == 2  # of the start, and of serves_on


def dropped_after(client: httpx2.Client, head: str, body: bytes, fed: list[int]) -> None:
    """Be gone once the answer is in the making."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=30) as connection:
        connection.sendall(f"{head}\nHost: 127.0.0.1\n\n".replace("\n", "\r\n").encode() + body)
        assert eventually(lambda: len(fed) > 3)


def test_a_client_that_waits_in_line_and_goes_leaves_the_line() -> None:
    engine: Engine[Any] = engine_of("numpy", micro())
    with serving(engine, queue=40) as client:
        body = json.dumps({"prompt": SHORT, "max_tokens": 40, "temperature": 0}).encode()
        head = f"POST /v1/completions HTTP/1.1\nContent-Type: application/json\nContent-Length: {len(body)}"
        for _ in range(80):
            dropped(client, head, body)
        assert eventually(lambda: serves_on(client))
        assert client.post("/v1/state/import", content=b"", headers=BINARY).status_code == 400
