"""Nodes for tests: a server in a thread of its own, clients with real sockets, and a relay that may flip a byte."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import httpx2
import numpy as np
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from decoding import plainly
from gnomon.decode.state_file import state_stream
from gnomon.loading import load
from gnomon.reference.engine import Engine
from gnomon.reference.model import ChatTemplate, Model
from gnomon.reference.ops.sample import Sampling
from gnomon.serve.app import app
from gnomon.serve.connections import Server, settings

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"
BINARY = {"content-type": "application/octet-stream"}
JSON = {"content-type": "application/json"}
DRAWN = Sampling(0.9, 0, 0.95, 7)
FIELDS = {"temperature": 0.9, "top_p": 0.95, "seed": 7}  # what a request for DRAWN says
NewEngine = Callable[..., Engine[Any]]


def chatting() -> Model:
    """tiny-dense with a chat template."""
    return replace(load("tiny-dense"), chat=ChatTemplate(TEMPLATE, {}))


def plain_answer(
    engine: Engine[Any], ids: Sequence[int], tokens: int, how: Sampling, stop: Sequence[int] = ()
) -> dict[str, Any]:
    """What an answer must carry: ids and digest of the rows, from plain decoding."""
    made = plainly(engine, ids, tokens, how, stop)
    drawn = made.ids[:-1] if made.ids[-1] in stop else made.ids
    return {"ids": drawn, "logits_sha256": sha256(np.stack(made.rows).astype("<f4").tobytes()).hexdigest()}


def file_of(engine: Engine[Any], ids: Sequence[int]) -> bytes:
    """The state file of some ids, without a node."""
    return b"".join(state_stream(engine, engine.forward(ids, want="none")[1]))


@contextmanager
def listening(application: Any, buffer: int | None = None, patience: float = 30.0) -> Iterator[str]:
    """An ASGI application with real sockets. Gives its URL. buffer: bytes that wait for one who does not read"""
    server = Server(uvicorn.Config(application, log_level="critical", **settings(patience)))
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as bound:
        if buffer is not None:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=60)


@contextmanager
def serving(engine: Engine[Any], buffer: int | None = None, **named: Any) -> Iterator[httpx2.Client]:
    """A client of a node."""
    token = named.get("token")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with (
        listening(app(engine, **named), buffer, named.get("patience", 30.0)) as url,
        httpx2.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client,
    ):
        yield client


@dataclass
class Relay:
    """A way to a node that can change a byte. flip: which one of a body; seen: bearer of each request"""

    target: str
    flip: int | None = None
    seen: list[str | None] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        request = Request(scope, receive)
        body = bytearray(await request.body())
        if self.flip is not None:
            body[self.flip] ^= 1
        bearer = request.headers.get("authorization")
        self.seen.append(bearer)
        headers = {**BINARY, **({"authorization": bearer} if bearer else {})}
        async with httpx2.AsyncClient(timeout=60, trust_env=False, verify=False) as client:
            reply = await client.post(self.target + request.url.path, content=bytes(body), headers=headers)
        kind = reply.headers["content-type"]
        await Response(reply.content, reply.status_code, media_type=kind)(scope, receive, send)


def ask(client: httpx2.Client, **fields: Any) -> dict[str, Any]:
    """The answer to a request that has to be taken."""
    reply = client.post("/v1/completions", json=fields)
    assert reply.status_code == 200, reply.text
    out: dict[str, Any] = reply.json()
    return out


def own(answer: dict[str, Any]) -> dict[str, Any]:
    """What can be the same in two answers to the same request."""
    return {name: answer["gnomon"][name] for name in ("ids", "logits_sha256")}


def events(client: httpx2.Client, path: str, **fields: Any) -> list[dict[str, Any]]:
    """The pieces of a streamed answer."""
    reply = client.post(path, json={**fields, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream"), reply.text
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    assert lines.pop() == "[DONE]", reply.text
    return [json.loads(line) for line in lines]


def put(client: httpx2.Client, data: bytes) -> str:
    """Import a state -> its id"""
    reply = client.post("/v1/state/import", content=data, headers=BINARY)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["id"])


def get(client: httpx2.Client, name: str) -> bytes:
    """The file of a state."""
    reply = client.get("/v1/state/export", params={"id": name})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-length"] == str(len(reply.content)), len(reply.content)
    return reply.content


def held(client: httpx2.Client) -> Any:
    """What a node says of the states that it holds."""
    return client.get("/v1/state").json()["data"]


def go_on(client: httpx2.Client, name: str) -> dict[str, Any]:
    """Five greedy ids behind [3, 1] and the state, with the digest of their rows."""
    body = {"prompt": [3, 1], "state": name, "max_tokens": 5, "temperature": 0}
    return own(client.post("/v1/completions", json=body).json())


def together(client: httpx2.Client, bodies: Sequence[dict[str, Any]], retry: bool = False) -> list[httpx2.Response]:
    """All requests at once; with `retry`, those that were refused for now are sent until they are not."""

    async def one(sender: httpx2.AsyncClient, body: dict[str, Any]) -> httpx2.Response:
        while True:
            reply = await sender.post("/v1/completions", json=body)
            if reply.status_code != 503 or not retry:
                return reply
            await asyncio.sleep(int(reply.headers["retry-after"]) / 20)

    async def all_of_them() -> list[httpx2.Response]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=client.base_url, timeout=120, limits=limits, verify=False) as sender:
            return list(await asyncio.gather(*(one(sender, body) for body in bodies)))

    return asyncio.run(all_of_them())


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold."""
    for _ in range(500):
        if holds():
            return True
        time.sleep(0.02)
    return False


def dropped(client: httpx2.Client, head: str, body: bytes = b"", read: int = 0) -> None:
    """Send the beginning of a request, read so many bytes of what comes, and be gone as one who is killed is."""
    address = client.base_url.host, client.base_url.port or 80
    with socket.create_connection(address, timeout=30) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closed by a reset
        connection.sendall(f"{head}\nHost: 127.0.0.1\n\n".replace("\n", "\r\n").encode() + body)
        while read > 0 and (got := connection.recv(min(read, 4096))):
            read -= len(got)
