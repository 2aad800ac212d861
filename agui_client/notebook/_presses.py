"""Messages of the pages on which a widget is shown, of which the last press of a button counts.

A kernel that was busy finds all that was pressed meanwhile, in order. A press is returned when its page says that it
has pressed nothing since, and the page presses nothing more until the kernel answers: `presses.js` is the other side.

To change

- which of several presses counts, and what a page says while the kernel is busy: this module, and `notebook/presses.js`
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._core.ground.concurrency import LoopThread

if TYPE_CHECKING:
    from agui_client.notebook._cell_widget import CellWidget


class Presses:
    """The messages of the pages on which one widget is shown; made in the event loop that waits for them."""

    def __init__(self) -> None:
        self._loop = LoopThread()
        self._incoming, self._messages = anyio.create_memory_object_stream[Mapping[str, Any]](math.inf)
        self._latest: Mapping[str, Any] = {}

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take a message of a page, in any thread."""
        self._loop.call(partial(self._take, message))

    def _take(self, message: Mapping[str, Any]) -> None:
        with suppress(anyio.ClosedResourceError):  # it comes late
            self._incoming.send_nowait(message)

    async def next(self, widget: CellWidget) -> Mapping[str, Any]:
        """Wait for a message.

        Args:
            widget: The widget, on whose pages a button is pressed.

        Returns:
            The message, in the order of arrival; a press only if no page has pressed a button since.
        """
        while True:
            message = await self._messages.receive()
            if "press_id" in message:
                self._latest = message
                widget.send({"arrived": message["press_id"]})
            elif "latest" not in message:
                return message
            elif message["latest"] == self._latest.get("press_id"):
                return self._latest

    def close(self) -> None:
        """Drop whatever comes later."""
        self._incoming.close()
        self._messages.close()
