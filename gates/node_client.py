"""A node in this process, asked without a socket: requests whose bodies come in pieces, and stop where one likes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError

Application = Any  # ASGI


def node(engine: Engine[Any]) -> Application:
    """The node on an engine, as `gnomon serve` runs it. Raises NotRunError where its packages are absent."""
    try:
        from gnomon.serve.app import app
    except ImportError as error:
        raise NotRunError(f"Expected the packages of a node but got: {error}; install 'gnomon[serve]'") from error
    return app(engine)


@dataclass
class Reply:
    status: int = 0
    body: bytes = b""

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass
class Upload:
    """Pieces of a body. waiting: is set when all but the last have been taken and the last is asked for; go_on: lets it
    come; gone: the client leaves instead of sending it"""

    pieces: Sequence[bytes]
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False


async def ask(application: Application, method: str, path: str, upload: Upload | None = None) -> Reply:
    """The reply to one request."""
    reply, sent, ended = Reply(), 0, asyncio.Event()
    pieces = upload.pieces if upload else [b""]

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent == len(pieces):
            await ended.wait()
            return {"type": "http.disconnect"}
        sent += 1
        if upload and sent == len(pieces):
            upload.waiting.set()
            await upload.go_on.wait()
            if upload.gone:
                return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces[sent - 1], "more_body": sent < len(pieces)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
        reply.body += message.get("body", b"")

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/octet-stream")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    try:
        await application(scope, receive, send)
    finally:
        ended.set()
    return reply


async def held(application: Application) -> list[dict[str, Any]]:
    """The conversations that the node lists."""
    listed: list[dict[str, Any]] = (await ask(application, "GET", "/v1/state")).content["data"]
    return listed


async def imported(application: Application, pieces: Sequence[bytes], during: Callable[[], Any], gone: bool) -> Reply:
    """The reply to a state that comes in pieces; `during` is awaited while the last piece is on its way."""
    upload = Upload(pieces, gone=gone)
    sending = asyncio.ensure_future(ask(application, "POST", "/v1/state/import", upload))
    waiting = asyncio.ensure_future(upload.waiting.wait())
    await asyncio.wait((sending, waiting), return_when=asyncio.FIRST_COMPLETED)  # it may be refused at once
    waiting.cancel()
    await during()
    upload.go_on.set()
    return await sending
