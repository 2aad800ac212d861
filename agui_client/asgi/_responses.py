"""The parts of a response to a caller: its beginning, the chunks of a run with comments in silence, and its end.

What a response has in it is not known here.

To change

- what keeps a response open, and how one ends that the server cancels: `ResponseBody` here
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from agui_client._core.transport.in_process import Receive, Send
from agui_client._core.verbs.sse import KEEP_ALIVE, frame_of, sse_headers
from agui_client._serving.served_request import RequestRefusedError

if TYPE_CHECKING:
    from ag_ui.core import RunErrorEvent
    from anyio.abc import TaskGroup

_LAST_SECONDS = 1.0
"""The time that a caller has to read the end of a response that the server has cancelled."""


class ResponseBody:
    """The response of one run: chunks as they come, and comments in silence."""

    def __init__(self, send: Send, keep_alive: float, headers: Mapping[str, str]) -> None:
        self._send, self._keep_alive, self._headers = send, keep_alive, headers
        self._latest, self._is_open, self._has_left = 0.0, False, False

    @property
    def is_cut(self) -> bool:
        """Whether the caller left before the end."""
        return self._is_open or self._has_left

    async def begin(self, tasks: TaskGroup) -> None:
        """Send the headers, and from now on comments in silence."""
        self._is_open = True
        await begin_response(self._send, 200, {**sse_headers(), **self._headers})
        self._latest = time.monotonic()
        tasks.start_soon(self._send_comments)

    async def send(self, chunk: bytes) -> None:
        """Send a chunk."""
        self._latest = time.monotonic()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End the response."""
        self._is_open = False
        await self._send({"type": "http.response.body", "body": b""})

    def leave(self) -> None:
        """Note that the caller has left; after the end it may."""
        self._has_left = self._is_open

    async def end_cancelled(self, last: RunErrorEvent | None) -> None:
        """End a response that the server has cancelled, so that its caller knows of the end.

        Args:
            last: The last event of the run; None if the run continues elsewhere.
        """
        if self._is_open and not self._has_left:
            with anyio.move_on_after(_LAST_SECONDS, shield=True), suppress(OSError):
                if last is not None:
                    await self.send(frame_of(last))
                await self.end()

    async def _send_comments(self) -> None:
        """Send a comment whenever there was no chunk for a while."""
        with suppress(OSError):  # the next chunk fails as well
            while self._is_open:
                silent = time.monotonic() - self._latest
                if silent >= self._keep_alive:
                    await self.send(KEEP_ALIVE)
                await anyio.sleep(self._latest + self._keep_alive - time.monotonic())


async def cancel_on_disconnect(
    receive: Receive, scope: anyio.CancelScope, on_leave: Callable[[], object] = lambda: None
) -> None:
    """Cancel the work on a response when its caller leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    on_leave()
    scope.cancel()


async def send_refusal(send: Send, refused: RequestRefusedError, headers: Mapping[str, str]) -> None:
    """Respond to a request that is refused."""
    await send_json(send, refused.status, {"detail": refused.reason}, {**headers, **refused.headers})


async def send_json(send: Send, status: int, value: object, headers: Mapping[str, str]) -> None:
    """Respond to a request with JSON."""
    await send_bytes(send, json.dumps(value).encode(), {"content-type": "application/json", **headers}, status)


async def send_bytes(send: Send, body: bytes, headers: Mapping[str, str], status: int = 200) -> None:
    """Respond to a request with bytes that are there."""
    await begin_response(send, status, {"content-length": str(len(body)), **headers})
    await send({"type": "http.response.body", "body": body})


async def begin_response(send: Send, status: int, fields: Mapping[str, str]) -> None:
    """Send the status and the headers of a response."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
