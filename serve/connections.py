"""Connections that are given up: too many at a time, and those whose request does not come.

The server counts requests, and waits for the head of one as long as it takes. What stands between a request and its
endpoint is in guard.py.
"""

import asyncio
import resource
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST, WAITING = 1024, 2048  # connections at a time, and those not accepted yet


def settings(patience: float = 30.0) -> dict[str, Any]:
    """For uvicorn.Config. patience: seconds in which the head of a request must have come

    At the limit of descriptors the event loop tries to accept over and over and writes a line each time. So connections
    are fewer than that: without those that it accepts in four turns (`backlog` in each), after which one that is too
    many is closed, and without what else this process has open.
    """
    descriptors = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20)
    backlog = max(8, min(128, descriptors // 16))
    most = max(8, min(MOST, descriptors - 4 * backlog - 64))
    http = type("Connection", (LimitedConnection,), {"patience": patience, "most": most})
    return {"http": http, "ws": "none", "backlog": backlog, "access_log": False, "server_header": False}


class Server(uvicorn.Server):
    """Connections that the event loop has not accepted yet wait; it would let no more of them wait than it accepts."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for bound in sockets or []:
            bound.listen(WAITING)


class LimitedConnection(H11Protocol):
    """most: connections at a time, another is closed at once; patience: seconds for the head of a request"""

    patience: float
    most: int
    head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self.expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        super().connection_lost(exc)

    def expect(self) -> None:
        """Time a head that has not come; one that trickles has no more time."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.forget()
        elif self.head is None:
            self.head = self.loop.call_later(self.patience, self.late)

    def late(self) -> None:
        self.head = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()

    def forget(self) -> None:
        if self.head is not None:
            self.head.cancel()
            self.head = None
