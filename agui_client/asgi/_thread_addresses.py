"""The address of the messages of a stored thread: `/messages` below that of the app.

`/connect` sends a thread whole, with its state and its questions, for clients that go on with it; a page that shows a
long thread asks here for its end, and then for what comes before it.

To change

- what a caller may read of a stored thread without a run: `ThreadAddresses` here
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ag_ui.core import MessagesSnapshotEvent
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agui_client._core.verbs.sse import frame_of
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client.asgi._request_body import command_validator, parsed
from agui_client.errors import ThreadStoreUnavailableError, UsageError

if TYPE_CHECKING:
    from agui_client.asgi._run_addresses import Command
    from agui_client.store import Threads


class _AskedPage(BaseModel):
    """The body of a request for messages."""

    model_config = ConfigDict(alias_generator=to_camel)

    thread_id: str
    limit: int = Field(default=50, ge=1, le=1000)
    before: str | None = None


_validated = command_validator(_AskedPage)


class ThreadAddresses:
    """Answers the requests for stored threads.

    Args:
        threads: The threads.
        max_body_bytes: The largest request body that is accepted, in bytes.
        is_stopping: Returns whether the server stops, whose store is closed then.
    """

    def __init__(self, threads: Threads, *, max_body_bytes: int, is_stopping: Callable[[], bool]) -> None:
        self._threads, self._max_body_bytes, self._is_stopping = threads, max_body_bytes, is_stopping
        self.commands: Mapping[str, Command] = {"/messages": self._messages}
        """The functions that answer requests with JSON, by the ends of their paths."""

    async def _messages(self, request: ServedRequest, body: bytes) -> Any:
        """Return a page of the messages of one of the caller's threads."""
        asked = await parsed(body, _validated, max_bytes=self._max_body_bytes)
        if self._is_stopping():
            raise RequestRefusedError(503, "the server is shutting down", {"retry-after": "1"})
        try:
            reading = self._threads.messages(
                asked.thread_id, limit=asked.limit, before=asked.before, owner=request.owner
            )
        except UsageError as error:
            raise RequestRefusedError(422, str(error)) from error
        try:
            page = await reading
        except ThreadStoreUnavailableError as error:
            raise RequestRefusedError(503, "the threads cannot be reached now", {"retry-after": "5"}) from error
        except UsageError as error:
            raise RequestRefusedError(404, str(error)) from error
        # As a page that connects gets them.
        frame = frame_of(MessagesSnapshotEvent(messages=[*page.messages]))
        return {"messages": json.loads(frame.removeprefix(b"data: "))["messages"], "before": page.before}
