"""The response to one recorded request, taken through the pipeline event by event: changes, warnings and errors.

The changes are operations of JSON Patch, and one more: `{"op": "append", "path": ..., "value": ...}` appends to a text.
JSON Patch can only replace a text that grows, so that a streamed message would be in the page once for each delta.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui import core

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.plain_text import printable
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.events import TERMINAL
from agui_client._core.protocol.json_difference import Operation, difference
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.plain_json import write
from agui_client._core.protocol.reduce import Change, Reducer
from agui_client._core.protocol.traits import DELTAS
from agui_client._core.protocol.warnings import WarningLog, whole
from agui_client.errors import ProtocolError
from agui_client.recording._reading import Exchange, RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ag_ui.core import Event, Message, ResumeEntry, ToolCall

    from agui_client._core.protocol.outcome import OutcomeTracker
    from agui_client._rendering.story import EventStory
    from agui_client.recording._format import RequestLine

_MOST_WARNINGS = 20
"""The number of warnings that one event shows."""
_Delta: TypeAlias = core.TextMessageContentEvent | core.ReasoningMessageContentEvent | core.ToolCallArgsEvent
_Path: TypeAlias = tuple[str | int, ...]


@dataclass
class EventChanges:
    """The effects of one event."""

    operations: list[Operation] = field(default_factory=list[Operation])
    """The changes of the conversation, an object with `messages` and `state`."""
    warnings: list[list[str | None]] = field(default_factory=list["list[str | None]"])
    """The deviations from the protocol: rule, sentence, and the place in the event."""
    error: str | None = None
    """The violation of the protocol that ends the run for a client; None if there is none."""


class _Occurrences(WarningLog):
    """Collects each single warning, and writes none to the log."""

    def __init__(self) -> None:
        super().__init__()
        self.latest: list[list[str | None]] = []

    def add(self, rule: str, message: str, *, path: str | None = None, **about: str | None) -> None:
        """Collect a warning."""
        if len(self.latest) < _MOST_WARNINGS:
            said = whole(message, about.get("reaction"), about.get("fix"))
            self.latest.append([rule, printable(said), path and printable(path)])


class ResponseChanges:
    """Follows the response to a request.

    Args:
        story: Follows the tool calls of the thread.
    """

    def __init__(self, request: RequestLine, story: EventStory) -> None:
        self._story = story
        self.error: str | None = None
        """The reason why no event is reduced any more; None as long as there is none."""
        self.resume: Sequence[ResumeEntry] = ()
        """The answers to interrupts in the request."""
        messages, state = self._asked(request)
        self._known = frozenset(each.id for each in messages)
        self._log = _Occurrences()
        self._reducer = Reducer(messages, state, warnings=self._log)
        self._conversation = _Conversation(self._reducer)
        self._pipeline = Pipeline(self._reducer, self._log, null_fields="drop")
        is_run = request.verb == "run"
        thread_id, run_id = (str(request.input.get(name, "")) for name in ("threadId", "runId"))
        self.outcome: OutcomeTracker = self._pipeline.outcome
        """The outcome of the run so far."""
        self._pipeline.is_conforming = True
        self._pipeline.verifier.begin(thread_id, run_id if is_run else None)
        self._decode = Decoder(self._log).feed_all

    @property
    def messages(self) -> list[Message]:
        """The messages as they are now."""
        return self._reducer.messages

    @property
    def new_messages(self) -> list[Message]:
        """The messages that the request did not bring."""
        return [each for each in self._reducer.messages if each.id not in self._known]

    @property
    def state(self) -> Any:
        """The state as it is now."""
        return self._reducer.state

    @property
    def beginning(self) -> dict[str, Any]:
        """The conversation before the first event."""
        return {"messages": list(self._conversation.written), "state": self._conversation.state}

    def feed(self, event: dict[str, Any]) -> EventChanges:
        """Take in an event.

        Args:
            event: The event's JSON, as it was recorded.
        """
        effects = EventChanges()
        if self.error is not None:
            return effects

        def note(event: Event, change: Change) -> None:
            """Take note of an event that was reduced."""
            self._story.note(event)
            self._conversation.note(effects.operations, event, change)

        try:
            for decoded in self._decode([json.dumps(event)]):
                for _ in self._pipeline.feed(decoded, note):
                    pass
        except ProtocolError as error:
            self.error = effects.error = printable(f"{type(error).__name__}: {error}")
        effects.warnings, self._log.latest = self._log.latest, []
        return effects

    def call(self, tool_call_id: str) -> ToolCall | None:
        """Return a tool call as it is now; None if there is none with this id."""
        return self._reducer.tool_call(tool_call_id)

    def texts(self) -> list[str]:
        """Return the texts of the agent's messages as they are now."""
        replies = (each for each in self._reducer.messages if isinstance(each, core.AssistantMessage))
        return [each.content for each in replies if each.content]

    def completed_texts(self, event: dict[str, Any]) -> list[str]:
        """Return the texts of the agent that are complete with an event."""
        match event.get("type"):
            case "TEXT_MESSAGE_END":
                return [text] if (text := self._reducer.text_of(str(event.get("messageId")))) else []
            case "MESSAGES_SNAPSHOT" | "RUN_FINISHED" | "RUN_ERROR":
                return self.texts()
            case _:
                return []

    @property
    def result(self) -> Any:
        """The result that the run ended with; None if there was none."""
        return None if self.outcome.finished is None else self.outcome.finished.result

    def usage(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the tokens that an event reports as those of the run; empty for other events."""
        if event.get("type") not in TERMINAL or self.error is not None:
            return []
        return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in self.outcome.usage]

    def _asked(self, request: RequestLine) -> tuple[Sequence[Message], Any]:
        """Return the messages and the state that the response begins with; a replay begins with none."""
        if request.verb == "connect":
            return [], {}
        try:
            asked = Exchange(request).input
        except RecordingError as error:
            self.error = printable(str(error))
            return [], request.input.get("state")
        self.resume = asked.resume or ()
        return asked.messages, asked.state


class _Conversation:
    """The messages and the state as the page has them, to find what an event changed in them."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._messages = reducer.messages
        self.written = [_written(message) for message in self._messages]
        """The messages as JSON, as they were at the latest look."""
        self.state = reducer.state
        """The state at the latest look."""
        # The page has these deltas, by the path of their text; they are joined at the next look.
        self._deltas: defaultdict[_Path, list[str]] = defaultdict(list)
        # The characters in them.
        self._sizes: defaultdict[_Path, int] = defaultdict(int)

    def note(self, operations: list[Operation], event: Event, change: Change) -> None:
        """Append the operations for an event that was reduced."""
        if change & Change.STATE:
            before, self.state = self.state, self._reducer.state
            operations += _state_operations(event, before, self.state)
        if change & Change.MESSAGES:
            piece: Any = event
            if type(event) in DELTAS and (path := self._appended_to(piece)) is not None:
                self._deltas[path].append(piece.delta)
                self._sizes[path] += len(piece.delta)
                operations.append({"op": "append", "path": reduce(pointer, path, ""), "value": piece.delta})
                if not event.metadata:
                    return
            added = self._added(event)
            operations += self._look() if added is None else (added,)

    def _added(self, event: Event) -> Operation | None:
        """Return the operation for an event that only added a message or a call; None if it may have done more.

        To compare all messages at each of thousands of calls would take minutes.
        """
        thread, at = self._reducer.thread, len(self.written)
        match event:
            case core.ToolCallResultEvent() if not self._is_first(event):
                return None
            case core.TextMessageStartEvent() | core.ReasoningMessageStartEvent() | core.ToolCallResultEvent():
                message = thread.appended_to(at)
            case core.ToolCallStartEvent():
                message = thread.appended_to(at)
                if message is None:
                    return self._added_call(event.tool_call_id)
            case _:
                return None
        if message is None:
            return None
        self._messages.append(message)
        self.written.append(_written(message))
        return {"op": "add", "path": "/messages/-", "value": self.written[at]}

    def _is_first(self, event: core.ToolCallResultEvent) -> bool:
        """Return whether a result is that of the only call of its id: a result of another may withdraw a call."""
        call = self._reducer.thread.call(event.tool_call_id)
        return call is not None and call.ordinal == 1 and event.message_id != event.tool_call_id

    def _added_call(self, tool_call_id: str) -> Operation | None:
        """Return the operation for a call that was added behind the others of its message; None if it was not."""
        place, call = self._reducer.thread.place_of_call(tool_call_id), self._reducer.tool_call(tool_call_id)
        if place is None or call is None:
            return None
        at, number = place
        calls = self.written[at].get("toolCalls", ())
        if number == 0 or number != len(calls):
            return None
        written = _written(call)
        self.written[at] = {**self.written[at], "toolCalls": [*calls, written]}
        return {"op": "add", "path": f"/messages/{at}/toolCalls/{number}", "value": written}

    def _appended_to(self, event: _Delta) -> _Path | None:
        """Return the path of the text that a delta was appended to; None if it was replaced, or may have been."""
        if not isinstance(event, core.ToolCallArgsEvent):
            at = self._reducer.thread.place_of_message(event.message_id)
            is_there = at is not None and isinstance(self.written[at].get("content"), str)
            return ("messages", at, "content") if at is not None and is_there else None
        place = self._reducer.thread.place_of_call(event.tool_call_id)
        if place is None or place[1] >= len(calls := self.written[place[0]].get("toolCalls", ())):
            return None
        path = ("messages", place[0], "toolCalls", place[1], "function", "arguments")
        # The arguments of a call that starts again are replaced.
        size = len(calls[place[1]]["function"]["arguments"]) + self._sizes.get(path, 0) + len(event.delta)
        return path if self._reducer.arguments_size(event.tool_call_id) == size else None

    def _look(self) -> Iterator[Operation]:
        """Compare the messages with those of the latest look."""
        self._join_deltas()
        before, after = self._messages, self._reducer.messages
        if _first_other(before, after) < len(before):
            yield from self._replaced(before, after)
        else:
            new = [_written(message) for message in after[len(before) :]]
            yield from ({"op": "add", "path": "/messages/-", "value": each} for each in new)
            self.written += new
        for at in compress(count(), map(is_not, self._messages, after)):
            old, self.written[at] = self.written[at], _written(after[at])
            yield from _operations(old, self.written[at], f"/messages/{at}")
        self._messages = after

    def _replaced(self, before: list[Message], after: list[Message]) -> Iterator[Operation]:
        """Replace the messages between those that kept their places, seen from both ends."""
        start = _first_other(before, after)
        end = _first_other(before[start:][::-1], after[start:][::-1])
        new, stop = after[start : len(after) - end], len(before) - end
        self._messages = [*before[:start], *new, *before[stop:]]
        written = [_written(message) for message in new]
        self.written[start:stop] = written
        yield from [{"op": "remove", "path": f"/messages/{start}"}] * (stop - start)
        for at, value in enumerate(written, start):
            yield {"op": "add", "path": f"/messages/{at}", "value": value}

    def _join_deltas(self) -> None:
        for (_, at, *rest), pieces in self._deltas.items():
            self.written[int(at)] = _appended(self.written[int(at)], rest, "".join(pieces))
        self._deltas.clear()
        self._sizes.clear()


def _first_other(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return the first place at which two lists have messages with different ids; the length of the shorter if none."""
    # Without a loop of Python over the messages that are the same.
    changed = compress(count(), map(is_not, before, after))
    other = (at for at in changed if before[at].id != after[at].id)
    return next(other, min(len(before), len(after)))


def _state_operations(event: Event, before: Any, after: Any) -> list[Operation]:
    if isinstance(event, core.StateDeltaEvent):
        # It was applied as it is, so there is nothing to find.
        return _placed([each.model_dump(mode="json", by_alias=True) for each in event.delta], "/state")
    return _operations(before, after, "/state")


def _operations(before: Any, after: Any, place: str) -> list[Operation]:
    """Return the operations that make a value of another at a place of the conversation."""
    found = difference(before, after)
    return _placed([{"op": "replace", "path": "", "value": after}] if found is None else found, place)


def _placed(operations: list[Operation], place: str) -> list[Operation]:
    return [
        {name: f"{place}{each}" if name in ("from", "path") else each for name, each in operation.items()}
        for operation in operations
    ]


def _appended(value: Any, path: Sequence[str | int], text: str) -> Any:
    """Return a JSON value with a text appended to one of its texts; rows share the value itself."""
    if not path:
        return value + text
    copy = value.copy()
    copy[path[0]] = _appended(value[path[0]], path[1:], text)
    return copy


def _written(model: Message | ToolCall) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(write(model))
    return written
