"""What stands between the network and every endpoint: who may ask, how long a piece may take, how many at a time."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gnomon.serve.refusal import Refusal, Said, refusal

OPEN = "/health"  # for everyone, so that a supervisor needs no token
RATE = 16 << 10  # bytes a second of a body that takes longer than it need have patience for, at least
LARGE = 256 << 10  # bytes of a body beyond which there is a place for few
LOCAL = ("127.0.0.1", "localhost", "[::1]")


class Places:
    """A bounded number of something at one time. For the event loop's thread only."""

    def __init__(self, most: int, what: str) -> None:
        self.most, self.what, self.taken = most, what, 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Raises Refusal where all are taken."""
        if self.taken >= self.most:
            sentence = f"Expected fewer than {self.most} {self.what} at a time; try again"
            raise refusal(503, "busy", sentence, headers={"retry-after": "1"})
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Guard:
    """token: what every request must bear; without one only requests under a local name are answered, so that no page
    in a browser reaches the node under a name of its own

    patience: seconds in which a piece of a body must come, and a piece of a response go
    """

    def __init__(self, app: ASGIApp, token: str | None, patience: float) -> None:
        self.app, self.token, self.patience = app, token, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        more = True  # of the body is to come

        async def receiving() -> Message:
            nonlocal more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout(self.patience):
                    message = await receive()
            except TimeoutError as error:
                more = False
                raise slow(self.patience) from error
            more = message.get("more_body", False)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                with suppress(Refusal, TimeoutError):  # a client that is still sending sees no response
                    async with asyncio.timeout(self.patience):
                        while more:
                            await receiving()
            async with asyncio.timeout(self.patience):
                await send(message)

        with suppress(TimeoutError):  # the server closes what has not ended
            try:
                self._check(scope["path"], Headers(scope=scope))
            except Refusal as error:
                await Said(error.body, error.status, error.headers)(scope, receiving, sending)
            else:
                await self.app(scope, receiving, sending)

    def _check(self, path: str, headers: Headers) -> None:
        host, bearer = headers.get("host", ""), headers.get("authorization", "").encode()
        if path == OPEN:
            return
        if self.token is None and host not in LOCAL and host.rpartition(":")[0] not in LOCAL:
            raise refusal(403, "host", f"Expected a request to {', '.join(LOCAL)} but it names {host[:80]!r}")
        if self.token is not None and not hmac.compare_digest(bearer, f"Bearer {self.token}".encode()):
            challenge = {"www-authenticate": "Bearer"}
            raise refusal(401, "invalid_api_key", "Expected the token of this node as bearer", headers=challenge)


def typed(request: Request, kind: str) -> None:
    """Raises Refusal for a body of another type: of these, no page in a browser sends one without asking first."""
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != kind:
        raise refusal(415, "content_type", f"Expected content-type {kind} but got {given[:80]!r}")


async def body_of(request: Request, most: int, patience: float, large: Callable[[], object] | None = None) -> bytes:
    """A body of JSON. Raises Refusal where it is another, larger than `most` bytes, or not there in time.

    large: called once, before a body of more than LARGE bytes is kept
    """
    typed(request, "application/json")
    data = bytearray()
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                if len(data) + len(chunk) > most:
                    raise refusal(413, "too_large", f"Expected a request of at most {most} bytes")
                if large is not None and len(data) <= LARGE < len(data) + len(chunk):
                    large()
                data += chunk
    except TimeoutError as error:
        raise slow(patience) from error
    return bytes(data)


async def steady(chunks: AsyncIterator[bytes], patience: float) -> AsyncIterator[bytes]:
    """Pieces of a body that may take long but must not trickle. Raises Refusal."""
    clock = asyncio.get_running_loop().time
    began, came = clock(), 0
    async for chunk in chunks:
        came += len(chunk)
        if came < (clock() - began - patience) * RATE:
            raise slow(patience)
        yield chunk


def slow(patience: float) -> Refusal:
    return refusal(408, "slow", f"Expected the body within {patience:g} seconds", headers={"connection": "close"})
