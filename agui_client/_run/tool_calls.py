"""The tool-call lens: calls as they stream, with what can be read of their arguments so far (TOOL-1, TOOL-2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent
from pydantic_core import from_json

from agui_client.errors import ToolArgumentsError

if TYPE_CHECKING:
    from ag_ui.core import Event, ToolCall

    from agui_client._run.engine import Engine

_GROWTH = 32
"""Arguments are read again when they have grown by this part of what was read: linear, and seldom behind."""


class StreamedToolCall:
    """A tool call of a run, live: what it shows is what has arrived when it is looked at.

    Args:
        tool_call_id: The id of the call.
        engine: The run.
    """

    def __init__(self, tool_call_id: str, engine: Engine) -> None:
        self.tool_call_id = tool_call_id
        """The id of the call."""
        self._engine = engine
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
        return any(self.tool_call_id in outcome.ended_tool_call_ids for outcome in self._engine.outcomes)

    @property
    def arguments_text(self) -> str:
        """The arguments so far, as they were sent."""
        return self._call().function.arguments

    @property
    def partial_arguments(self) -> Any:
        """The part of the arguments that can be read so far, for a screen; values may be cut short. None if none can.

        Looking after every delta costs a whole call no more than a constant times its length: a long text is read again
        when it has grown by a thirty-second part, or is complete.
        """
        size = self._engine.conversation.reducer.arguments_size(self.tool_call_id)
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
            ToolArgumentsError: They are not JSON. The run goes on: the agent gets a message about it (TOOL-2).
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
        call = self._engine.conversation.reducer.tool_call(self.tool_call_id)
        if call is None:
            raise KeyError(self.tool_call_id)
        return call


class ToolCalls(Mapping[str, StreamedToolCall]):
    """The tool calls of a run by their ids, in the order they were begun.

    Args:
        engine: The run.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: dict[str, StreamedToolCall] = {}

    def __getitem__(self, tool_call_id: str) -> StreamedToolCall:
        if tool_call_id not in self._made:
            if not any(tool_call_id in outcome.tool_call_ids for outcome in self._engine.outcomes):
                raise KeyError(tool_call_id)
            self._made[tool_call_id] = StreamedToolCall(tool_call_id, self._engine)
        return self._made[tool_call_id]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain.from_iterable(each.tool_call_ids for each in self._engine.outcomes)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.values())!r})"

    def of(self, event: Event) -> StreamedToolCall | None:
        """Return the call that an event is about; None if it is about none."""
        if isinstance(event, ToolCallStartEvent | ToolCallArgsEvent | ToolCallEndEvent):
            return self.get(event.tool_call_id)
        return None
