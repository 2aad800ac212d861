"""The addresses of the messages of a stored thread: `/messages` and `/branches` below that of the app.

`/connect` sends a thread whole, with its state and its questions, for clients that continue with it; a page that shows
a long thread asks here for its end, and then for what comes before it, and for what the thread has left.

To change

- what a caller may read of a stored thread without a run: `ThreadAddresses` here
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ag_ui.core import MessagesSnapshotEvent
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agui_client._core.verbs.sse import frame_of
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client.asgi._request_body import command_validator, parsed
from agui_client.errors import ThreadStoreUnavailableError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client.asgi._run_addresses import Command
    from agui_client.store import Threads
    from agui_client.store._threads.worker import StoreCall

T = TypeVar("T")


class _AskedBranches(BaseModel):
    """The body of a request for branches."""

    model_config = ConfigDict(alias_generator=to_camel)

    thread_id: str


class _AskedPage(_AskedBranches):
    """The body of a request for messages."""

    limit: int = Field(default=50, ge=1, le=1000)
    before: str | None = None


_validated, _validated_branches = command_validator(_AskedPage), command_validator(_AskedBranches)


class ThreadAddresses:
    """Handles the requests for stored threads.

    Args:
        max_body_bytes: The largest request body that is accepted, in bytes.
        is_stopping: Returns whether the server stops, whose store is closed then.
    """

    def __init__(self, threads: Threads, *, max_body_bytes: int, is_stopping: Callable[[], bool]) -> None:
        self._threads, self._max_body_bytes, self._is_stopping = threads, max_body_bytes, is_stopping
        self.commands: Mapping[str, Command] = {"/messages": self._messages, "/branches": self._branches}
        """The functions that respond to requests with JSON, by the ends of their paths."""

    async def _messages(self, request: ServedRequest, body: bytes) -> Any:
        """Return a page of the messages of one of the caller's threads."""
        asked = await parsed(body, _validated, max_bytes=self._max_body_bytes)
        page = await self._read(
            partial(
                self._threads.messages, asked.thread_id, limit=asked.limit, before=asked.before, owner=request.owner
            )
        )
        return {"messages": _as_json(page.messages), "before": page.before}

    async def _branches(self, request: ServedRequest, body: bytes) -> Any:
        """Return what one of the caller's threads has left when it went back, the latest first."""
        asked = await parsed(body, _validated_branches, max_bytes=self._max_body_bytes)
        branches = await self._read(partial(self._threads.branches, asked.thread_id, owner=request.owner))
        return [{"after": each.after, "messages": _as_json(each.messages)} for each in branches]

    async def _read(self, ask: Callable[[], StoreCall[T]]) -> T:
        """Read from the threads.

        Args:
            ask: Begins to read.

        Raises:
            RequestRefusedError: The request does not fit, there is no such thread, or the threads cannot be reached.
        """
        if self._is_stopping():
            raise RequestRefusedError(503, "the server is shutting down", {"retry-after": "1"})
        try:
            reading = ask()
        except UsageError as error:
            raise RequestRefusedError(422, str(error)) from error
        try:
            return await reading
        except ThreadStoreUnavailableError as error:
            raise RequestRefusedError(503, "the threads cannot be reached now", {"retry-after": "5"}) from error
        except UsageError as error:
            raise RequestRefusedError(404, str(error)) from error


def _as_json(messages: Sequence[Message]) -> Any:
    """Return messages as a page that connects gets them."""
    frame = frame_of(MessagesSnapshotEvent(messages=[*messages]))
    return json.loads(frame.removeprefix(b"data: "))["messages"]
