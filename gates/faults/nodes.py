"""Nodes that take states otherwise: the route of imports is another one, everything else as it is served."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.decode.state_header import StateHeader
from gnomon.gates.gate import AnyEngine, Fault, Subject
from gnomon.gates.node_client import Application

Taking = Callable[[Any, Any], Awaitable[Any]]  # the node, a request -> the response
IMPORT = "/v1/state/import"


def takes(change: Taking) -> Fault:
    """Imports go through `change`."""

    def apply(subject: Subject) -> Subject:
        def node(engine: AnyEngine) -> Application:
            from starlette.routing import Route

            application = subject.node(engine)
            routes = application.router.routes
            at = next(i for i, route in enumerate(routes) if route.path == IMPORT)
            endpoints = routes[at].endpoint.__self__

            async def take(request: Any) -> Any:
                return await change(endpoints, request)

            routes[at] = Route(IMPORT, take, methods=["POST"])
            return application

        return replace(subject, node=node)

    return apply


def layers_of(data: bytes, engine: AnyEngine) -> tuple[Any, list[int]]:
    """Layers and ids as the header announces them, whatever the bytes are; zeros where none have come."""
    length = int.from_bytes(data[:8], "little")
    header = StateHeader.parse(data[8 : 8 + length], engine)
    rest, arrays = data[8 + length :].ljust(header.nbytes, b"\0"), {}
    for name, (shape, dtype) in header.specs.items():
        size = int(np.prod(shape)) * dtype.itemsize
        arrays[name], rest = np.frombuffer(rest[:size], dtype).reshape(shape).copy(), rest[size:]
    layers = range(engine.model.config.layers)
    parts = deque({n: a for n, a in arrays.items() if n.startswith(f"blocks.{i}.")} for i in layers)
    return parts, list(header.ids)


async def _held_early(node: Any, request: Any) -> Any:
    """Held as soon as all but a little has come, given up where the check fails in the end."""
    from starlette.requests import Request

    pieces, early, scope, receive = [], None, request.scope, request.receive
    while True:
        message = await receive()
        pieces.append(message)
        data = b"".join(m.get("body", b"") for m in pieces)
        if early is None and len(pieces) == 2:
            early = await node.live.call(node.held.take, *layers_of(data, node.held.engine))
        if not message.get("more_body"):
            break
    rest = iter(pieces)

    async def again() -> Any:
        return next(rest)

    try:
        return await node.take(Request(scope, again))
    finally:
        if early is not None:
            getattr(node.held, "_by_id").pop(early.id, None)  # noqa: B009


async def _unchecked(node: Any, request: Any) -> Any:
    from starlette.responses import JSONResponse

    arrived = layers_of(await request.body(), node.held.engine)
    return JSONResponse((await node.live.call(node.held.take, *arrived)).fields())


async def _refused_stays(node: Any, request: Any) -> Any:
    """The file is checked after the state is held, and the state forgotten there."""
    from starlette.requests import Request

    data = await request.body()
    await node.live.call(node.held.take, *layers_of(data, node.held.engine))

    async def again() -> Any:
        return {"type": "http.request", "body": data, "more_body": False}

    return await node.take(Request(request.scope, again))


async def _refuses_all(node: Any, request: Any) -> Any:
    from starlette.responses import JSONResponse

    await request.body()
    return JSONResponse({}, 409)


held_early, unchecked = takes(_held_early), takes(_unchecked)
refused_stays, refuses_all = takes(_refused_stays), takes(_refuses_all)
