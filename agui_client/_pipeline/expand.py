"""Expansion: chunk events become start, content and end events (CHUNK-1 … CHUNK-12, SUB-2, SUB-3).

One lane per owner holds at most one open stream; a subagent's id names its lane, None is the parent's. A chunk is
judged before it comes here (enforce, PROC-13); whether the events that leave make sense is verify's to say. A stream
that breaks off gets no END from us (TRUNC-3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import (
    CustomEvent,
    Event,
    EventType,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic.alias_generators import to_camel

from agui_client._pipeline.ownership import Owner, order_error, owner_name, quoted
from agui_client._pipeline.schema import EVENT_MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agui_client._pipeline.warnings import WarningLog
    from agui_client.errors import EventOrderError

_Chunk: TypeAlias = TextMessageChunkEvent | ToolCallChunkEvent | ReasoningMessageChunkEvent


class Expander:
    """Turns chunks into start, content and end events; every other event passes, after the ENDs it brings about.

    Args:
        warnings: The run's log, which knows where the stream is.
    """

    __slots__ = ("_warnings", "lanes")

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        self.lanes: dict[Owner, _OpenStream] = {}
        """What is being assembled."""

    def feed(self, event: Event) -> Sequence[Event]:
        """What one event becomes, in the order it is to be delivered.

        Args:
            event: A typed event that enforcement has accepted.

        Raises:
            EventOrderError: A chunk that opens nothing and continues nothing (CHUNK-2), could continue several streams
                (CHUNK-5), or disagrees with the item it continues (CHUNK-6, SUB-3).
        """
        if type(event) in _KIND_OF_CHUNK:
            return self._expand(_KIND_OF_CHUNK[type(event)], event)
        if self.lanes:
            return (*[self._close(owner) for owner in self._lanes_ended_by(event)], event)
        return (event,)

    def finish(self) -> Sequence[Event]:
        """Nothing: an item that the end of the stream cut off has no END to report (TRUNC-3)."""
        self.lanes.clear()
        return ()

    def _expand(self, kind: _Kind, chunk: Any) -> Sequence[Event]:
        stream = self._continued_by(kind, chunk)
        if stream is None:
            return self._open(kind, chunk)
        self._require_agreement(stream, chunk)
        carried = _carried(chunk)
        if chunk.delta is None and not carried:
            return ()
        # Metadata alone adds no text, but it has to reach the item (CHUNK-11).
        return (stream.content(chunk.delta or "", timestamp=chunk.timestamp, **carried),)

    def _open(self, kind: _Kind, chunk: _Chunk) -> Sequence[Event]:
        for field in kind.required:
            if getattr(chunk, field) is None:
                sentence = f"First {chunk.type.value} must have a {to_camel(field)}: it continues no open {kind.noun}"
                raise self._fault("CHUNK-2", chunk, sentence)
        owner = chunk.subagent_run_id
        ended = [self._close(owner)] if owner in self.lanes else []
        stream = self.lanes[owner] = _OpenStream.opened_by(chunk, kind)
        carried = _carried(chunk)
        if chunk.delta is None:
            return (*ended, stream.start(timestamp=chunk.timestamp, **carried))
        # Metadata belongs to both events (CHUNK-11); what the provider said is told once, beside the text it is about.
        opener = stream.start(timestamp=chunk.timestamp, **_given(metadata=chunk.metadata))
        return (*ended, opener, stream.content(chunk.delta, timestamp=chunk.timestamp, **carried))

    def _continued_by(self, kind: _Kind, chunk: _Chunk) -> _OpenStream | None:
        """The open stream a chunk belongs to; None when it has to open one (CHUNK-4, CHUNK-5)."""
        item_id = getattr(chunk, kind.id_field)
        lane = self.lanes.get(chunk.subagent_run_id)
        if lane is not None and lane.kind is kind and item_id in (None, lane.item_id):
            return lane
        if item_id is not None:
            return next((stream for stream in self._streams(kind) if stream.item_id == item_id), None)
        return self._only_stream(kind, chunk) if chunk.subagent_run_id is None else None

    def _only_stream(self, kind: _Kind, chunk: _Chunk) -> _OpenStream | None:
        """What a chunk without id and tag continues when the parent has no stream of its kind open (CHUNK-5)."""
        streams = list(self._streams(kind))
        if len(streams) <= 1:
            return streams[0] if streams else None
        sentence = (
            f"the chunk has neither {to_camel(kind.id_field)} nor subagentRunId, so which of the {len(streams)} open "
            f"{kind.noun}s it continues is ambiguous; parallel subagents must tag their chunks"
        )
        raise self._fault("CHUNK-5", chunk, sentence)

    def _streams(self, kind: _Kind) -> Iterator[_OpenStream]:
        return (stream for stream in self.lanes.values() if stream.kind is kind)

    def _require_agreement(self, stream: _OpenStream, chunk: _Chunk) -> None:
        tag = chunk.subagent_run_id
        if tag is not None and tag != stream.owner:
            sentence = f"chunk subagentRunId {quoted(tag)} does not match the owner of {stream}"
            raise self._fault("SUB-3", chunk, f"{sentence}, which is {owner_name(stream.owner)}")
        for field in stream.kind.repeatable:
            given, opened = getattr(chunk, field), stream.opener.get(field)
            if given is not None and given != opened:
                raise self._fault("CHUNK-6", chunk, _conflict(stream, to_camel(field), given, opened))

    def _lanes_ended_by(self, event: Event) -> list[Owner]:
        """The lanes that cannot continue after this event, in the order they were opened (CHUNK-7 … CHUNK-10)."""
        if type(event) in _END_EVERY_LANE:
            return list(self.lanes)
        if type(event) not in _END_THEIR_LANE:
            return []
        # An untagged event counts for the parent's lane, even where it continues a subagent's item (CHUNK-12).
        tag: Owner = getattr(event, "subagent_run_id", None)
        return [owner for owner, stream in self.lanes.items() if owner == tag or stream.is_named_by(event)]

    def _close(self, owner: Owner) -> Event:
        return self.lanes.pop(owner).end()

    def _fault(self, rule: str, chunk: _Chunk, sentence: str) -> EventOrderError:
        return order_error(self._warnings, rule, chunk, sentence)


@dataclass(frozen=True, slots=True, eq=False)
class _OpenStream:
    """An item that is being assembled from chunks; it makes the events of its triad."""

    kind: _Kind
    item_id: str
    owner: Owner
    opener: Mapping[str, str]
    """The other fields of its START: what the first chunk said, and what it meant by omission."""

    @classmethod
    def opened_by(cls, chunk: _Chunk, kind: _Kind) -> _OpenStream:
        """The stream that a first chunk opens."""
        said = _given(**{field: getattr(chunk, field) for field in kind.repeatable})
        return cls(kind, getattr(chunk, kind.id_field), chunk.subagent_run_id, {**kind.by_omission, **said})

    def __str__(self) -> str:
        return f"{self.kind.noun} {quoted(self.item_id)}"

    def start(self, **carried: Any) -> Event:
        """Its START."""
        return self._make(self.kind.start, **self.opener, **carried)

    def content(self, delta: str, **carried: Any) -> Event:
        """A piece of it."""
        return self._make(self.kind.content, delta=delta, **carried)

    def end(self) -> Event:
        """Its END."""
        return self._make(self.kind.end)

    def is_named_by(self, event: Event) -> bool:
        """Whether an explicit event has the id under assembly: the two forms do not mix in one item (CHUNK-10)."""
        return type(event) in self.kind.explicit and getattr(event, self.kind.id_field) == self.item_id

    def _make(self, make: Callable[..., Event], **fields: Any) -> Event:
        fields[self.kind.id_field] = self.item_id
        return make(**_given(subagent_run_id=self.owner, **fields))


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """One of the three kinds of item that chunks can spell."""

    noun: str
    id_field: str
    required: tuple[str, ...]
    """What a first chunk must have (CHUNK-2)."""
    repeatable: tuple[str, ...]
    """What a later chunk may repeat but not change (CHUNK-6)."""
    by_omission: Mapping[str, str]
    """What the opener says where it is silent (STREAM-4, REASON-4)."""
    start: Callable[..., Event]
    content: Callable[..., Event]
    end: Callable[..., Event]
    explicit: frozenset[type]
    """The explicit events that name such an item."""


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value: an absent field stays absent, it is never set to None (PROC-17)."""
    return {field: value for field, value in fields.items() if value is not None}


def _carried(chunk: _Chunk) -> dict[str, Any]:
    """What a chunk says about itself, for the events that are made from it (CHUNK-11)."""
    return _given(raw_event=chunk.raw_event, metadata=chunk.metadata)


def _conflict(stream: _OpenStream, field: str, given: str, opened: str | None) -> str:
    before = f"without a {field}" if opened is None else f"with {quoted(opened)}"
    return f"chunk {field} {quoted(given)} does not match the open stream's {field}: {stream} was opened {before}"


_TEXT = _Kind(
    noun="text message",
    id_field="message_id",
    required=("message_id",),
    repeatable=("role", "name"),
    by_omission={"role": "assistant"},
    start=partial(TextMessageStartEvent, type=EventType.TEXT_MESSAGE_START),
    content=partial(TextMessageContentEvent, type=EventType.TEXT_MESSAGE_CONTENT),
    end=partial(TextMessageEndEvent, type=EventType.TEXT_MESSAGE_END),
    explicit=frozenset({TextMessageStartEvent, TextMessageContentEvent, TextMessageEndEvent}),
)
_TOOL_CALL = _Kind(
    noun="tool call",
    id_field="tool_call_id",
    required=("tool_call_id", "tool_call_name"),
    repeatable=("tool_call_name", "parent_message_id"),
    by_omission={},
    start=partial(ToolCallStartEvent, type=EventType.TOOL_CALL_START),
    content=partial(ToolCallArgsEvent, type=EventType.TOOL_CALL_ARGS),
    end=partial(ToolCallEndEvent, type=EventType.TOOL_CALL_END),
    explicit=frozenset({ToolCallStartEvent, ToolCallArgsEvent, ToolCallEndEvent, ToolCallResultEvent}),
)
_REASONING = _Kind(
    noun="reasoning message",
    id_field="message_id",
    required=("message_id",),
    repeatable=(),
    by_omission={"role": "reasoning"},
    start=partial(ReasoningMessageStartEvent, type=EventType.REASONING_MESSAGE_START),
    content=partial(ReasoningMessageContentEvent, type=EventType.REASONING_MESSAGE_CONTENT),
    end=partial(ReasoningMessageEndEvent, type=EventType.REASONING_MESSAGE_END),
    explicit=frozenset({ReasoningMessageStartEvent, ReasoningMessageContentEvent, ReasoningMessageEndEvent}),
)
_KIND_OF_CHUNK: dict[type, _Kind] = {
    TextMessageChunkEvent: _TEXT,
    ToolCallChunkEvent: _TOOL_CALL,
    ReasoningMessageChunkEvent: _REASONING,
}

# All others (RAW, ACTIVITY_*, REASONING_ENCRYPTED_VALUE, SUBAGENT_STARTED) stand aside from assembly (CHUNK-9).
_END_EVERY_LANE: frozenset[type] = frozenset({RunStartedEvent, RunFinishedEvent, RunErrorEvent, MessagesSnapshotEvent})
_END_THEIR_LANE: frozenset[type] = frozenset(
    {
        *_TEXT.explicit,
        *_TOOL_CALL.explicit,
        *_REASONING.explicit,
        ReasoningStartEvent,
        ReasoningEndEvent,
        StepStartedEvent,
        StepFinishedEvent,
        StateSnapshotEvent,
        StateDeltaEvent,
        CustomEvent,
        SubagentFinishedEvent,
        SubagentErrorEvent,
    }
)

UNEXPANDED: frozenset[type] = frozenset(EVENT_MODELS.values()) - _KIND_OF_CHUNK.keys()
"""The events that leave as they come while nothing is being assembled."""
