"""A node as an ASGI application: an engine behind endpoints in the OpenAI shape, and states that move between nodes."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from time import time
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gnomon.decode.held import Held
from gnomon.decode.live import Live
from gnomon.decode.state_file import identity
from gnomon.decode.state_header import as_objects
from gnomon.reference.chain import ChainError
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError
from gnomon.reference.ledger import Ledger
from gnomon.serve.answers import Answer
from gnomon.serve.asked import FORK, Asked, asked, read
from gnomon.serve.guard import LARGE, Guard, Places, body_of, steady, typed
from gnomon.serve.moves import BINARY, Arrival, pulled, send
from gnomon.serve.openapi import describe
from gnomon.serve.refusal import Refusal, Said, refusal, refused

T = TypeVar("T")
BODY, TRANSFERS, TRANSFER = 4 << 20, 4, 600.0  # bytes of a request, states that move at a time, seconds for one
LARGE_BODIES, SMALL_BODY = 16, 64 << 10  # at a time; bytes of a request that the event loop itself reads


class Stream(StreamingResponse):
    """A response in pieces; what it owns is let go of when it ends, however it ends."""

    def __init__(self, content: Any, owned: AsyncExitStack, **named: Any) -> None:
        super().__init__(content, **named)
        self.owned = owned

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.owned:
            await super().__call__(scope, receive, send)


class Node:
    """The endpoints. Arguments: see `app`."""

    def __init__(
        self,
        held: Held,
        ledger: Ledger,
        peers: Mapping[str, str | None],
        queue: int,
        patience: float,
        arguments: Mapping[str, Any],
    ) -> None:
        self.held, self.ledger, self.peers, self.patience = held, ledger, peers, patience
        self.arguments = arguments
        self.model, self.described = held.engine.model, held.engine.describe()
        self.own = {**as_objects(identity(held.engine)), "engine": self.described["engine"]}
        self.live = Live(held.engine)
        self.answers, self.transfers = Places(queue, "answers"), Places(TRANSFERS, "transfers of states")
        self.large, self.reading = Places(LARGE_BODIES, f"requests above {LARGE} bytes"), asyncio.Lock()

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncIterator[None]:
        self.ledger.append({"format": "gnomon ledger", "schema": 2, "created": int(time()), **self.own})
        self.live.start()
        yield
        self.live.stop()
        self.ledger.close()

    async def health(self, request: Request) -> Response:
        return Said({"status": "ok"}) if self.live.alive else Said({"status": "failed"}, 503)

    async def description(self, request: Request) -> Response:
        return Said(describe(self.model))

    async def models(self, request: Request) -> Response:
        one = {"id": self.model.name, "object": "model", "created": 0, "owned_by": "gnomon", "gnomon": self.own}
        return Said({"object": "list", "data": [one]})

    async def complete(self, request: Request) -> Response:
        async with AsyncExitStack() as stack:
            wanted = await self.wanted(request, stack)
            answer = Answer(wanted, self.held, self.ledger)
            events = self.live.text(answer.prepare, answer.finish, wanted.top)
            stack.push_async_callback(events.aclose)
            if not wanted.stream:
                return Said(await unless_gone(request, answer.whole(events)))
            await unless_gone(request, anext(events))
            return Stream(answer.pieces(events), stack.pop_all(), media_type="text/event-stream")

    async def wanted(self, request: Request, stack: AsyncExitStack) -> Asked:
        """What a body asks. It takes its place among the answers when all of it has come, so that one who is slow keeps
        none; large ones are few, and read one after the other, since a tokenizer takes many times their memory."""
        with ExitStack() as own:
            data = await body_of(request, BODY, self.patience, lambda: own.enter_context(self.large.take()))
            stack.enter_context(self.answers.take())
            chat = "chat" in request.url.path
            async with self.reading if len(data) > LARGE else nullcontext():
                return await run_in_threadpool(asked, self.model, data, chat=chat, arguments=self.arguments)

    async def states(self, request: Request) -> Response:
        data = await self.live.call(self.held.describe, request.query_params.get("id"))
        return Said({"object": "list", "data": data})

    async def export(self, request: Request) -> Response:
        async with AsyncExitStack() as stack:
            stack.enter_context(self.transfers.take())
            file = await self.live.call(self.held.pack, request.query_params.get("id", ""))
            headers = {"content-length": str(file.size)}
            return Stream(file.pieces(), stack.pop_all(), headers=headers, media_type=BINARY)

    async def take(self, request: Request) -> Response:
        typed(request, BINARY)
        given, budget = request.headers.get("content-length"), self.held.budget
        size = None if given is None else int(given)
        if size is not None and size > budget:
            raise refusal(413, "too_large", f"Expected a state of at most {budget} bytes but got {size}")
        with self.transfers.take():
            async with asyncio.timeout(TRANSFER):
                arrival = Arrival(self.model, self.described)
                chunks = pulled(steady(request.stream(), self.patience), asyncio.get_running_loop(), budget)
                layers, ids = await run_in_threadpool(arrival.take, chunks, size)
            return Said((await self.live.call(self.held.take, layers, ids)).fields())

    async def fork(self, request: Request) -> Response:
        given = read(await body_of(request, SMALL_BODY, self.patience), FORK)
        name, target = given["state"], given.get("target")
        if target is None:
            return Said((await self.live.call(self.held.fork, name)).fields())
        if target not in self.peers:
            raise refusal(403, "no_peer", "Expected a target that this node was given as --peer", "target")
        with self.transfers.take():
            return await send(await self.live.call(self.held.pack, name), target, self.peers[target])

    async def verify(self, request: Request) -> Response:
        try:
            found = await run_in_threadpool(self.ledger.verify)
        except ChainError as error:
            return Said({"verdict": "failed", "record": error.index, "message": str(error)})
        return Said({"verdict": "passed", **found._asdict()})


def app(
    engine: Engine[Any],
    *,
    token: str | None = None,
    peers: Mapping[str, str | None] | None = None,
    queue: int = 256,
    held: int = 1 << 30,
    ledger: Ledger | None = None,
    patience: float = 30.0,
    arguments: Mapping[str, Any] | None = None,
) -> Starlette:
    """token: what requests must bear; peers: URL -> its token, of the nodes that states may be sent to

    queue: answers at one time, those that wait included; held: bytes that conversations may take, and a state that
    comes; ledger: None for one that ends with the node; patience: seconds that a client may take for a piece
    arguments: of the chat template, where a request does not name them
    """
    node = Node(Held(engine, held), ledger or Ledger(), peers or {}, queue, patience, arguments or {})
    return Starlette(
        routes=[
            Route("/health", node.health),
            Route("/openapi.json", node.description),
            Route("/v1/models", node.models),
            Route("/v1/completions", node.complete, methods=["POST"]),
            Route("/v1/chat/completions", node.complete, methods=["POST"]),
            Route("/v1/state", node.states),
            Route("/v1/state/export", node.export),
            Route("/v1/state/import", node.take, methods=["POST"]),
            Route("/v1/fork", node.fork, methods=["POST"]),
            Route("/v1/ledger/verify", node.verify),
        ],
        middleware=[Middleware(Guard, token=token, patience=patience)],
        exception_handlers=dict.fromkeys([HTTPException, GnomonError, Refusal, ClientDisconnect, Exception], say),
        lifespan=node.running,
    )


async def say(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        error = refusal(error.status_code, "no_such", f"Expected an endpoint but got: {error.detail}", headers=headers)
    said = refused(error)
    return Said(said.body, said.status, said.headers)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work, which is given up when the client goes. Raises ClientDisconnect."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
