"""`validate`: a whole stream through the stages of every run, which continue behind each fault.

The stages are those of `Pipeline`, and no rule is stated here. A run ends with its first fault; a check continues, so
that one reading finds all faults. For that, the event at fault is left out, and three things are done about it:

- A RUN_STARTED, RUN_FINISHED or RUN_ERROR that is missing or at fault may count as if it had been there: without it,
  everything behind it would be out of place. A tag that disagrees with its item counts as none.
- Events that continue an item of which an event was left out are counted with that fault.
- Without the input of the run, what depends on messages and a state from before the stream is not judged.

To change

- a rule that `agui check` and `validate` judge: the stages of runs in `_core/protocol/` raise or warn, which needs
  nothing here (for the order of events see `_core/protocol/open_items.py`); what no run minds is judged by a method of
  `StreamCheck` here, such as `_advise`. Its weight and remedy stand in `_core/protocol/rules.py`, the rule itself in
  `tests/requirements/`, of which `tests/support/made_pages.py` makes docs/protocol.md
- how `agui check` and `validate` continue behind a fault: `StreamCheck.fail` here, and `Verifier.assume` in
  `_core/protocol/verify.py`; `Faults.add` in `_checking/stream_faults.py` makes the record and counts it,
  `_cli/check.py` prints it
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

import anyio.to_thread
from ag_ui.core import (
    BaseEvent,
    Event,
    EventType,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessageStartEvent,
    RunAgentInput,
    RunStartedEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic_core import from_json

from agui_client._checking.stream_faults import EventPlace, Faults, StreamFault
from agui_client._checking.texts import Piece, is_json, is_sse, pieces
from agui_client._core.ground.files import FILE_ERRORS, file_reason, opened
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.plain_json import members_as_json, object_in
from agui_client._core.protocol.reduce import Reducer
from agui_client._core.protocol.validation import NullFields
from agui_client._core.protocol.warnings import WarningLog, whole, without_positions
from agui_client.errors import EventOrderError, IncompleteRunError, InvalidEventError, ProtocolError, UsageError
from agui_client.recording._reading import Exchange, Recording

EventItem: TypeAlias = WireEvent | Mapping[str, Any] | str | bytes
"""An event as an object, or a part of a text with events: a line, a whole frame, bytes cut anywhere."""
StreamSource: TypeAlias = Iterable[EventItem] | str | bytes | os.PathLike[str] | Recording
"""The events of a stream: objects or parts of a text, a whole text, a file, or a recording."""

_RUN_EVENTS = frozenset({"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"})
_LEFT_OPEN = ("LIFE-5", "SUB-7")
"""The rules by which a run cannot finish yet."""
_OF_ITEMS = ("LIFE-16", "REASON-1", "REASON-2", "STREAM-1", "SUB-6")
"""The rules about the order of the events of one item."""
ID_FIELDS = ("messageId", "toolCallId", "stepName", "subagentRunId")
"""The members of events that name an item."""
_ABOUT_MESSAGES = frozenset({"ACT-4", "ACT-6", "REASON-7", "TOOL-4"})
"""The warnings about something that is not among the messages."""
_MOST_BYTES = 250_000_000
_SSE_FIELDS = ("data", "event", "id", "retry", ":")


class StreamCheck:
    """Reads the events of one stream, and notes their faults.

    Args:
        faults: The list of faults.
        input: The input of the run; None if it is not known.
        request: The key of the request in a recording.
        is_replay: Whether the stream sends a thread again, whose runs have ids of their own.
        strict: Whether ids that do not match are errors (LIFE-12).
        null_fields: The treatment of a null for a whole optional field (PROC-17).
        taken: The ids that earlier runs of the thread used, to which those of this one are added.
    """

    def __init__(
        self,
        faults: Faults,
        input: RunAgentInput | None = None,
        *,
        request: str | None = None,
        is_replay: bool = False,
        strict: bool = False,
        null_fields: NullFields = "reject",
        taken: dict[str, str] | None = None,
    ) -> None:
        self.events: int = 0
        """The number of events so far, those at fault included."""
        self._faults, self._end = faults, EventPlace("", request=request)
        self._place = self._end
        self._log = _Warnings(self._warn)
        reducer = (
            Reducer(warnings=self._log)
            if input is None or is_replay
            else Reducer(input.messages, input.state, warnings=self._log)
        )
        self._thread = reducer.thread
        self._pipeline = Pipeline(reducer, self._log, null_fields=null_fields, strict=strict)
        self._decoder = Decoder(self._log)
        self._knows_messages = self._knows_state = self._knows_thread = input is not None
        if input is not None:
            self._pipeline.verifier.begin(input.thread_id, None if is_replay else input.run_id)
        self._taken = {} if taken is None else taken
        """The ids of earlier runs, each with what it names."""
        if input is not None:
            self._taken |= _ids_of(input.messages)
        self._fresh: dict[str, str] = {}
        self._runs: set[str] = set()
        self._is_replay = is_replay
        self._left_out: dict[tuple[str, str], Hashable] = {}
        self._is_cut = self._has_late_start = False

    def add(self, item: EventItem | Piece) -> None:
        """Check the next event, or what came in its place.

        Args:
            item: The event; a text is its JSON.
        """
        piece = item if isinstance(item, Piece) else None
        event = item if isinstance(item, BaseEvent | UnrecognizedEvent) else None
        content = piece.content if piece is not None else _json_of(item)
        index = self.events
        self.events += 1
        line, byte = (None, None) if piece is None else (piece.line, piece.byte)
        self._place = EventPlace(content, index, _type_of(event), line, byte, self._end.request)
        # Events that were left out are counted, too, so that the numbers are those of the stream.
        self._log.event_index, self._pipeline.count = index - 1 if index else None, index
        # Typed events may hold anything, so that only what was decoded needs no validation.
        self._pipeline.is_conforming = event is None
        try:
            if piece is not None and piece.error is not None:
                raise piece.error
            if piece is not None and piece.is_joined:
                what = "no blank line stands between this event and the one before it, so that clients read no event"
                self._faults.add("SSE-4", what, self._place, severity="error", what="joined")
            if event is None:
                is_cut = piece is not None and piece.is_cut
                decode = self._decoder.finish if is_cut else self._decoder.feed
                *unpaired, event = self._decoder.with_unpaired([decode(content)])
                self._place = replace(self._place, event_type=_type_of(event))
                for each in unpaired:
                    _drain(self._pipeline.feed(each))
                self._log.event_index, self._pipeline.count = index - 1 if index else None, index
            if self._has_late_start and self._place.event_type == "RUN_STARTED":
                # The run counts as begun since its first event, so that this one would begin a second run inside it.
                self._has_late_start = False
                self._pipeline.verifier.assume("RUN_FINISHED")
            for admitted in self._pipeline.feed(event):
                if isinstance(admitted, ToolCallEndEvent):
                    self._advise(admitted)
                if not self._is_replay:
                    self._judge_id(admitted)
        except ProtocolError as error:
            self.fail(error)
        self._learn(event)

    def fail(self, error: ProtocolError) -> None:
        """Note the faults of the event that is read, and leave the event out."""
        is_malformed = isinstance(error, InvalidEventError)
        items = _items_of(self._place.content) if isinstance(error, EventOrderError | InvalidEventError) else []
        known = next((self._left_out[each] for each in items if each in self._left_out), None)
        if error.rule in _OF_ITEMS and known is not None:
            self._faults.count(known)
            return
        key = self._add(error)
        self._is_cut |= isinstance(error, IncompleteRunError)
        kind = str(self._place.event_type)
        if error.rule == "SUB-3" and isinstance(error, EventOrderError):
            with suppress(ProtocolError):
                _drain(self._pipeline.feed(cast("Event", error.event.model_copy(update={"subagent_run_id": None}))))
            return
        self._left_out.update(dict.fromkeys(items, key))
        if error.rule in _LEFT_OPEN and isinstance(error, EventOrderError):
            self._end_items(cast("Event", error.event))
        elif is_malformed and kind in _RUN_EVENTS:
            self._pipeline.verifier.assume(kind)
        elif error.rule == "LIFE-1":
            self._has_late_start = kind != "RUN_FINISHED"
            self._pipeline.verifier.assume("RUN_STARTED" if self._has_late_start else kind)

    def _add(self, error: ProtocolError) -> Hashable:
        """Note what an error says; of a malformed event, each value that is."""
        if not isinstance(error, InvalidEventError):
            # The text of the JSON parser names the position of the fault.
            what = (
                error.problem.removeprefix(error.place) if error.__cause__ is None else type(error.__cause__).__name__
            )
            return self._faults.add(error.rule, error.problem, self._place, severity="error", what=what)
        # In a long list, the same fault of many elements counts once.
        values = {(rule, without_positions(path)): (path, said) for rule, path, said in reversed(error.values)}
        keys = [
            self._faults.add(rule, f"{error.place}{said}", self._place, severity="error", path=path)
            for (rule, _), (path, said) in reversed(values.items())
        ]
        return keys[0]

    def _end_items(self, event: Event) -> None:
        """End what a RUN_FINISHED leaves open, and look for further faults of it."""
        ends = self._pipeline.verifier.ends("")
        items = [each for each in ends if not isinstance(each, SubagentErrorEvent)]
        try:
            for each in (*(items or ends), event):
                _drain(self._pipeline.feed(each))
        except ProtocolError as error:
            self.fail(error)

    def _advise(self, event: ToolCallEndEvent) -> None:
        """Note arguments that are not JSON: they break no stream, and no tool can be called with them (TOOL-2)."""
        call = self._thread.call(event.tool_call_id)
        try:
            from_json((call and call.build().function.arguments) or "{}")
        except ValueError:
            what = f"the arguments of tool call {quoted(event.tool_call_id)} are not JSON"
            self._faults.add("TOOL-2", what, self._place, severity="advice", path=None)

    def _judge_id(self, event: Event) -> None:
        """Note an id that an earlier run of the thread used: what it names is continued, not begun (LIFE-15)."""
        if isinstance(event, RunStartedEvent):
            self._taken |= self._fresh
            self._fresh.clear()
            # Another stream may send earlier runs again, before its own (LIFE-13).
            if event.run_id in self._runs:
                what = f"run {quoted(event.run_id)} has the id of an earlier run of the stream"
                self._faults.add("LIFE-15", what, self._place, severity="warning", what=f"run {event.run_id}")
            self._runs.add(event.run_id)
        field, kind = _BEGINNINGS.get(type(event), ("", ""))
        name: str = getattr(event, field, "") if field else ""
        if not name:
            return
        if (earlier := self._taken.get(name)) is not None:
            what = f"{kind} {quoted(name)} has the id of {earlier} of an earlier run or message of the thread"
            self._faults.add("LIFE-15", what, self._place, severity="warning", what=f"{kind} {name}")
        self._fresh[name] = kind

    def close(self) -> None:
        """Count the ids of the last run as taken, for the streams behind this one."""
        self._taken |= self._fresh

    def fail_at_end(self, error: ProtocolError) -> None:
        """Note the fault with which the source of the events ended; nothing comes behind it."""
        self._place = self._end
        self.fail(error)

    def finish(self) -> None:
        """Take in the end of the stream."""
        self._place = self._end
        if self._is_cut:  # which was noted
            return
        try:
            self._pipeline.verifier.finish()
        except ProtocolError as error:
            self.fail(error)

    def _learn(self, event: WireEvent | None) -> None:
        """Note what the event that was read makes known of the conversation."""
        self._knows_messages |= isinstance(event, MessagesSnapshotEvent)
        self._knows_state |= isinstance(event, StateSnapshotEvent)
        started = self._pipeline.outcome.started
        if not self._knows_thread and started is not None:
            # All runs of a stream belong to one thread.
            self._pipeline.verifier.begin(started.thread_id, None)
            self._knows_thread = True
        if isinstance(event, RunStartedEvent):
            self._left_out.clear()

    def _warn(self, rule: str, message: str, path: str | None, event_type: str | None) -> None:
        """Note a warning of the stages, unless it depends on messages or a state from before the stream."""
        is_of_state = rule == "SNAP-5" and event_type == "STATE_DELTA"
        if (is_of_state and not self._knows_state) or (rule in _ABOUT_MESSAGES and not self._knows_messages):
            return
        self._faults.add(rule, message, self._place, severity="warning", path=path)


_BEGINNINGS: Mapping[type[Any], tuple[str, str]] = {
    TextMessageStartEvent: ("message_id", "text message"),
    ReasoningMessageStartEvent: ("message_id", "reasoning message"),
    ToolCallStartEvent: ("tool_call_id", "tool call"),
    ToolCallResultEvent: ("message_id", "tool result"),
}
"""The events that begin something with an id of its own, each with the member and the name of what begins."""


def _ids_of(messages: Iterable[Message]) -> dict[str, str]:
    """Return the ids of messages and of their tool calls, each with what it names."""
    named = {message.id: f"a message of the {message.role}" for message in messages}
    return named | {call.id: "a tool call" for _, call in tool_calls_in(messages)}


class _Warnings(WarningLog):
    """Passes each single warning on, and writes none to the log."""

    def __init__(self, note: Callable[[str, str, str | None, str | None], object]) -> None:
        super().__init__()
        self._note = note

    def add(self, rule: str, message: str, **about: str | None) -> None:
        """Pass a warning on, without what is to be done about it here."""
        self._note(rule, whole(message, about.get("reaction"), None), about.get("path"), about.get("event_type"))


@overload
def validate(
    events: StreamSource,
    *,
    input: RunAgentInput | None = None,
    strict: bool = False,
    null_fields: NullFields = "reject",
) -> list[StreamFault]: ...
@overload
def validate(
    events: AsyncIterable[EventItem],
    *,
    input: RunAgentInput | None = None,
    strict: bool = False,
    null_fields: NullFields = "reject",
) -> Coroutine[Any, Any, list[StreamFault]]: ...
def validate(
    events: StreamSource | AsyncIterable[EventItem],
    *,
    input: RunAgentInput | None = None,
    strict: bool = False,
    null_fields: NullFields = "reject",
) -> list[StreamFault] | Coroutine[Any, Any, list[StreamFault]]:
    """Find all places in which the events of a stream break the protocol; nothing is sent or executed.

    An event at fault is left out, and the check continues behind it. An empty list means that every conforming client
    accepts the stream without a warning.

    Args:
        events: Events as objects (classes of `ag_ui.core`, dicts), as JSON or SSE (a text, its lines or frames, bytes
            cut anywhere), the `Path` of a file, or a recording of `agui_client.recording`. An async iterable, such as
            `agent.run(input)`, is awaited: `await validate(...)`.
        input: The input of the run. With it, ids are compared with those that were asked for, and patches
            and activities with the messages and the state from before the stream; without it, they are not judged. A
            recording has its inputs with it.
        strict: Whether ids of runs and threads that do not match are errors, not warnings (LIFE-12).
        null_fields: "drop" makes nulls in the places of optional fields warnings (PROC-17).

    Returns:
        The faults in the order in which they first occur, each kind once with a count.

    Raises:
        UsageError: What was given holds no events, or the file cannot be read.
    """
    if isinstance(events, AsyncIterable):
        return _validate_async(events, input, strict=strict, null_fields=null_fields)
    faults = Faults()
    read_stream(faults, events, input, strict=strict, null_fields=null_fields)
    return faults.records()


async def _validate_async(
    events: AsyncIterable[EventItem], input: RunAgentInput | None, *, strict: bool, null_fields: NullFields
) -> list[StreamFault]:
    faults, failure = Faults(), None
    items: list[EventItem] = []
    try:
        async for item in events:
            items.append(item)  # noqa: PERF401 - what came before an exception counts
    except ProtocolError as error:
        failure = error
    # A long stream takes seconds, for which the event loop has other things to do.
    judge = partial(read_stream, faults, items, input, failure=failure, strict=strict, null_fields=null_fields)
    await anyio.to_thread.run_sync(judge)
    return faults.records()


def read_stream(
    faults: Faults,
    source: StreamSource,
    input: RunAgentInput | None = None,
    *,
    failure: ProtocolError | None = None,
    strict: bool = False,
    null_fields: NullFields = "reject",
) -> int:
    """Take in a whole stream, or all those of a recording; return the number of events.

    Args:
        faults: The list of faults.
        source: The events.
        input: The input of the run.
        failure: The error with which the source ended.
        strict: As for `validate`.
        null_fields: As for `validate`.
    """
    content = _content(source)
    if isinstance(content, Recording):
        taken: dict[str, dict[str, str]] = {}
        return sum(
            _read_exchange(faults, each, taken, strict=strict, null_fields=null_fields) for each in content.exchanges
        )
    check = StreamCheck(faults, input, strict=strict, null_fields=null_fields)
    try:
        for item in content:
            check.add(item)
    except ProtocolError as error:
        failure = error
    if failure is not None:
        check.fail_at_end(failure)
    else:
        check.finish()
    return check.events


def _read_exchange(
    faults: Faults, exchange: Exchange, taken: dict[str, dict[str, str]], *, strict: bool, null_fields: NullFields
) -> int:
    """Take in the response to one request of a recording; `taken` has the ids of earlier ones by their threads."""
    try:
        input = exchange.input
    except UsageError:  # it was not written down whole
        input = None
    is_replay = exchange.request.verb == "connect"
    key = exchange.request.request
    of_thread = taken.setdefault(str(exchange.request.input.get("threadId")), {})
    settings: Any = {"strict": strict, "null_fields": null_fields, "taken": of_thread}
    check = StreamCheck(faults, input, request=key, is_replay=is_replay, **settings)
    for line in exchange.events:
        check.add(line.event)
    check.close()
    end = exchange.end
    # A stream that was left here has no end, and a request that was refused no stream.
    if end is not None and (end.reason == "ended" or (end.reason == "failed" and exchange.events)):
        check.finish()
    return check.events


def _content(source: Any) -> Iterable[EventItem | Piece] | Recording:
    """Return the events of a source, those of a text as pieces of it.

    Raises:
        UsageError: It holds no events.
    """
    if isinstance(source, Recording):
        return source
    if isinstance(source, os.PathLike):
        path = Path(cast("os.PathLike[str]", source))
        return _in_text(_read_file(path), path)
    if isinstance(source, str):
        if "\n" not in source and source.strip() and not source.lstrip().startswith(("{", "[", *_SSE_FIELDS)):
            raise UsageError("validate() takes a str for the text of a stream; give Path(...) for a file")
        return _in_text(source.encode("utf-8", "surrogatepass"))
    if isinstance(source, bytes | bytearray):
        return _in_text(bytes(source))
    if isinstance(source, Mapping | BaseEvent | UnrecognizedEvent) or not isinstance(source, Iterable):
        what = f"a {type(cast('object', source)).__name__}"
        advice = "give a list of them" if isinstance(source, Mapping | BaseEvent) else "such as agent.run(input)"
        raise UsageError(f"validate() takes the events of a stream, not {what}; {advice}")
    return _items(cast("Iterable[object]", source))


def _items(source: Iterable[object]) -> Iterator[EventItem | Piece]:
    """Yield the events of an iterable; parts of a text are joined before they are split."""
    text = bytearray()
    for index, item in enumerate(source):
        match item:
            case str():
                # Lines may come without their ends, as those of a response do.
                text += (item if item.endswith("\n") else f"{item}\n").encode("utf-8", "surrogatepass")
            case bytes():
                text += item
            case BaseEvent() | UnrecognizedEvent() | Mapping():
                yield from pieces(bytes(text))
                text.clear()
                yield cast("EventItem", item)
            case _:
                raise UsageError(f"item {index} is not an event, but of type {type(item).__name__}")
    yield from pieces(bytes(text))


def _in_text(text: bytes, path: Path | None = None) -> Iterable[Piece] | Recording:
    """Return the pieces of a text, or the recording that it is.

    Raises:
        UsageError: It is neither.
    """
    first = next(pieces(text), None) if is_json(text) else None
    if first is not None and object_in(first.content).get("kind") == "header":
        return Recording.parse(text, path=path or "-")
    if not is_json(text) and not is_sse(text):
        what = "the text" if path is None else path
        raise UsageError(f"{what} is neither an event stream nor a recording: no line of it begins as in SSE or JSON")
    return pieces(text)


def _read_file(path: Path) -> bytes:
    try:
        with opened(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except FILE_ERRORS as error:
        raise UsageError(f"{path} cannot be read: {file_reason(error)}") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path} is longer than {_MOST_BYTES / 1_000_000:g} MB; give a part of it")
    return content


def _drain(events: Iterable[Event]) -> None:
    """Take events through the stages, which is done as they are iterated."""
    deque(events, maxlen=0)


def _type_of(event: WireEvent | None) -> str | None:
    """Return the name of an event's type; of a typed event, it is a member of an enumeration."""
    kind = None if event is None else cast("object", event.type)
    return kind.value if isinstance(kind, EventType) else kind if isinstance(kind, str) else None


def _json_of(item: Any) -> str:
    """Return the JSON of an event; where it has none, a text that the decoder refuses."""
    if isinstance(item, str):
        return item
    if isinstance(item, UnrecognizedEvent):
        item = item.data
    elif isinstance(item, BaseEvent):
        item = members_as_json(item, [])
    try:
        return json.dumps(dict(item), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        with suppress(ValueError, RecursionError):  # numbers and nesting for which Python has no text either
            return repr(item)
        return f"[a {type(item).__name__} that is not JSON]"


def _items_of(content: str) -> list[tuple[str, str]]:
    """Return the names of the items that an event is about."""
    data = object_in(content)
    is_of_subagent = str(data.get("type")).startswith("SUBAGENT_")
    named = ((field, data.get(field)) for field in ID_FIELDS if is_of_subagent or field != "subagentRunId")
    return [(field, value) for field, value in named if isinstance(value, str)]
