"""States on their way in and out, in pieces: neither the event loop nor the engine waits for a slow client."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, cast

import httpx2
from numpy.typing import NDArray
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response

from gnomon.decode.held import Layers
from gnomon.decode.state_file import StateFile, receive
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.serve.refusal import refusal

BINARY = "application/octet-stream"
TIMES = httpx2.Timeout(60.0, connect=5.0)
REPLY = 64 << 10  # bytes of what a target says, at most


class Arrival:
    """What `receive` sees instead of the engine, which another thread uses: it is checked the same, the layers kept."""

    def __init__(self, model: Model, described: dict[str, str]) -> None:
        self.model, self._described = model, described

    def describe(self) -> dict[str, str]:
        return self._described

    def load_layers(self, layers: Iterable[Mapping[str, NDArray[Any]]], ids: Iterable[int]) -> tuple[Layers, list[int]]:
        return deque(layers), list(ids)

    def take(self, chunks: Iterator[bytes], size: int | None) -> tuple[Layers, list[int]]:
        """The layers and ids of a state file. Raises what `receive` raises."""
        return cast(tuple[Layers, list[int]], receive(cast(Engine[Any], self), chunks, size))


def pulled(chunks: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop, most: int) -> Iterator[bytes]:
    """The chunks of a body, for another thread than the event loop's. Raises Refusal beyond `most` bytes."""

    async def following() -> bytes | None:
        return await anext(chunks, None)

    while (chunk := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        most -= len(chunk)
        if most < 0:
            raise refusal(413, "too_large", "Expected a smaller state: it takes more than all that is held may take")
        yield chunk


async def send(file: StateFile, target: str, token: str | None) -> Response:
    """Send a state to another node -> what that one says, with its status. It is sent no token but its own.

    Raises Refusal where it says nothing that could be relayed.
    """
    headers = {"content-type": BINARY, "content-length": str(file.size)}
    headers |= {"authorization": f"Bearer {token}"} if token else {}
    content = iterate_in_threadpool(file.pieces())
    try:
        async with (
            httpx2.AsyncClient(timeout=TIMES, trust_env=False) as client,
            client.stream("POST", f"{target}/v1/state/import", content=content, headers=headers) as reply,
        ):
            body = b""
            async for chunk in reply.aiter_bytes():
                body += chunk
                if len(body) > REPLY:
                    raise refusal(502, "peer_failed", f"Expected at most {REPLY} bytes as reply of {target}")
            kind = reply.headers.get("content-type", BINARY)
            return Response(body, reply.status_code, {"gnomon-target": target}, kind)
    except httpx2.TimeoutException as error:
        raise refusal(504, "peer_silent", f"Expected {target} to reply but it took too long") from error
    except httpx2.HTTPError as error:
        raise refusal(502, "peer_failed", f"Expected {target} to reply but got: {error!r:.200}") from error
