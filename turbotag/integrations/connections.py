"""Connections of the server: one on which the headers of a request do not arrive in time is ended.

uvicorn waits for the headers of a request as long as the connection lasts. A client that sends half
of them and no more would keep its connection for ever, and some hundreds of such clients would take
all connections that a process may have.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ANSWER = b"the headers of the request did not arrive in time\n"
LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8"
    b"\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
)


class Connection(H11Protocol):
    """HTTP/1.1, where the headers of a request must arrive within `patience` seconds: from the
    opening of the connection or, on a connection that is kept, from their first byte."""

    patience = 10.0

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._watch()

    def _watch(self) -> None:
        """Have a timer while headers are awaited. Between two requests uvicorn has a timer of its
        own. A running timer is not started again, so that single bytes gain no time."""
        awaited = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if not awaited or self.transport.is_closing():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
        elif self._timer is None:
            self._timer = self.loop.call_later(self.patience, self._end)

    def _end(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(LATE)
            self.transport.close()
