"""Connections that are given up: too many at a time, and those whose request does not come.

The server counts requests, and waits for the head of one as long as it takes. What stands between a request and its
endpoint is in guard.py.
"""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 1024  # connections at a time


def settings(patience: float = 30.0) -> dict[str, Any]:
    """For uvicorn.Config. patience: seconds in which the head of a request must have come

    At the limit of descriptors the event loop tries to accept over and over and writes a line each time; so
    connections, and those that it may accept at one time before any is counted, are fewer than this process may have.
    """
    descriptors = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20)
    backlog = max(1, min(256, descriptors // 4))
    most = max(1, min(MOST, descriptors - backlog - descriptors // 8))
    http = type("Connection", (LimitedConnection,), {"patience": patience, "most": most})
    return {"http": http, "ws": "none", "backlog": backlog, "access_log": False, "server_header": False}


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
