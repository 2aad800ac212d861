"""The tool-call lens: calls as they stream, with what can be read of their arguments so far (TOOL-1, TOOL-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent
from pydantic_core import from_json

from agui_client.errors import ToolArgumentsError

if TYPE_CHECKING:
    from ag_ui.core import Event, ToolCall

    from agui_client._pipeline.reduce import Reducer

_GROWTH = 32
"""Arguments are read again when they have grown by this part of what was read: linear, and seldom behind."""


class StreamedToolCall:
    """A tool call of a run, live: what it shows is what has arrived when it is looked at.

    Args:
        tool_call_id: The call.
        reducer: Where it is kept.
        has_ended: Tells whether a call has ended.
    """

    def __init__(self, tool_call_id: str, reducer: Reducer, has_ended: Callable[[str], bool]) -> None:
        self.tool_call_id = tool_call_id
        """The call."""
        self._reducer = reducer
        self._has_ended = has_ended
        self._read_until = 0
        self._partial: Any = None

    def __repr__(self) -> str:
        state = "complete" if self.is_complete else "arriving"
        return f"<StreamedToolCall {self.name} {self.tool_call_id!r}: {state}, {len(self.arguments_text)} characters>"

    @property
    def name(self) -> str:
        """The tool."""
        return self._call().function.name

    @property
    def is_complete(self) -> bool:
        """Whether the call has ended; nothing should be done about it before (TOOL-1)."""
        return self._has_ended(self.tool_call_id)

    @property
    def arguments_text(self) -> str:
        """The arguments so far, as they were sent."""
        return self._call().function.arguments

    @property
    def partial_arguments(self) -> Any:
        """What can be read of the arguments so far, for a screen: values may be cut short. None if nothing can.

        Looking after every delta costs a whole call no more than a constant times its length: a long text is read again
        when it has grown by a thirty-second part, or is complete.
        """
        size = self._reducer.arguments_size(self.tool_call_id)
        if size > self._read_until + (0 if self.is_complete else self._read_until // _GROWTH):
            self._read_until = size
            # Broken, now or for good: what could be read before stays on the screen.
            with suppress(ValueError):
                self._partial = from_json(self.arguments_text, allow_partial="trailing-strings")
        return self._partial

    @property
    def arguments(self) -> Any:
        """The arguments, decoded: any JSON value, `{}` for none at all; None while they are still arriving.

        Raises:
            ToolArgumentsError: They are not JSON. That ends no run: the tool loop tells the agent (TOOL-2).
        """
        if not self.is_complete:
            return None
        text = self.arguments_text
        try:
            return from_json(text) if text.strip() else {}
        except ValueError as error:
            raise ToolArgumentsError(
                f"the arguments of tool call {self.tool_call_id!r} are not JSON: {error}",
                tool_call_id=self.tool_call_id,
            ) from None

    def _call(self) -> ToolCall:
        call = self._reducer.tool_call(self.tool_call_id)
        if call is None:
            raise KeyError(self.tool_call_id)
        return call


class Book(Protocol):
    """Which calls were made, and which of them have ended."""

    def tool_call_ids(self) -> Sequence[str]:
        """The calls, in the order they were begun."""
        ...

    def has_begun(self, tool_call_id: str) -> bool:
        """Whether a call was made."""
        ...

    def has_ended(self, tool_call_id: str) -> bool:
        """Whether a call is complete."""
        ...


class CallBook:
    """Which calls a stream began and ended, for whoever sees its events only one by one."""

    def __init__(self) -> None:
        self._ended: dict[str, bool] = {}

    def note(self, event: ToolCallStartEvent | ToolCallEndEvent) -> None:
        """Take note of a call's beginning or end."""
        self._ended[event.tool_call_id] = isinstance(event, ToolCallEndEvent)

    def tool_call_ids(self) -> list[str]:
        """The calls, in the order they were begun."""
        return list(self._ended)

    def has_begun(self, tool_call_id: str) -> bool:
        """Whether a call was made."""
        return tool_call_id in self._ended

    def has_ended(self, tool_call_id: str) -> bool:
        """Whether a call is complete."""
        return self._ended.get(tool_call_id, False)


class ToolCalls(Mapping[str, StreamedToolCall]):
    """The tool calls of a run by their ids, in the order they were begun.

    Args:
        book: Knows which calls there are, and which have ended.
        reducer: Where they are kept.
    """

    def __init__(self, book: Book, reducer: Reducer) -> None:
        self._book = book
        self._reducer = reducer
        self._made: dict[str, StreamedToolCall] = {}

    def __getitem__(self, tool_call_id: str) -> StreamedToolCall:
        if tool_call_id not in self._made:
            if not self._book.has_begun(tool_call_id):
                raise KeyError(tool_call_id)
            self._made[tool_call_id] = StreamedToolCall(tool_call_id, self._reducer, self._book.has_ended)
        return self._made[tool_call_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._book.tool_call_ids())

    def __len__(self) -> int:
        return len(self._book.tool_call_ids())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.values())!r})"

    def of(self, event: Event) -> StreamedToolCall | None:
        """The call an event is about; None if it is about none."""
        if isinstance(event, ToolCallStartEvent | ToolCallArgsEvent | ToolCallEndEvent):
            return self.get(event.tool_call_id)
        return None


class ToolCallStream(AsyncIterator[StreamedToolCall]):
    """After every event of a tool call, that call.

    Args:
        next_event: Gives the next event.
        calls: Gives the calls.
    """

    def __init__(self, next_event: Callable[[], Awaitable[Event]], calls: ToolCalls) -> None:
        self._next = next_event
        self._calls = calls

    async def __anext__(self) -> StreamedToolCall:
        while True:
            if (call := self._calls.of(await self._next())) is not None:
                return call
