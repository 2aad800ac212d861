"""Expansion: chunk events become start, content and end events (CHUNK-1 … CHUNK-12, SUB-2, SUB-3).

One lane per owner has at most one open stream; a subagent's id names its lane, None is the parent's. Chunks have been
validated before (PROC-13); the order of the events that leave is verified afterwards. A stream that breaks off gets no
END from the client (TRUNC-3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from ag_ui import core
from pydantic.alias_generators import to_camel

from agui_client._core.protocol.open_items import Owner, order_error, owner_name, quoted
from agui_client._core.protocol.schema import EVENT_MODELS, assembled
from agui_client._core.protocol.traits import TRAITS, Subject, types_about
from agui_client._core.protocol.warnings import WarningLog

_Chunk: TypeAlias = core.TextMessageChunkEvent | core.ToolCallChunkEvent | core.ReasoningMessageChunkEvent


class Expander:
    """Turns chunks into start, content and end events; every other event passes, after the ENDs it brings about.

    Args:
        warnings: The run's log, which knows the position in the stream.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._fault = partial(order_error, warnings)
        self.lanes: dict[Owner, _OpenStream] = {}
        """The streams that are being assembled, by their owners, in the order in which they were opened."""
        self._items: dict[_Kind, dict[str, _OpenStream]] = {kind: {} for kind in _KINDS.values()}

    def feed(self, event: core.Event) -> Sequence[core.Event]:
        """Return the events that one event becomes, in the order of their delivery.

        Args:
            event: A typed event that validation has accepted.

        Raises:
            EventOrderError: A chunk that opens nothing and continues nothing (CHUNK-2), could continue several streams
                (CHUNK-5), or disagrees with the item it continues (CHUNK-6, SUB-3).
        """
        fields = event.__dict__
        stream = self.lanes.get(fields.get("subagent_run_id"))
        if (
            # Nearly every chunk continues its lane with nothing but a delta.
            stream is not None
            and stream.chunk is type(event)
            and stream.plain.issuperset(event.__pydantic_fields_set__)
            and fields[stream.id_field] in stream.names
            and (delta := fields["delta"]) is not None
        ):
            # As the constructor would make it, at a fraction of the cost.
            return (assembled(stream.model, {**stream.values, "delta": delta}, stream.given.copy(), {}),)
        if (kind := KIND_OF_CHUNK.get(type(event))) is not None:
            return self._expand(kind, event)
        if self.lanes:
            # The ENDs come first: the event that ends a lane may need its item to be closed.
            return (*[self._close(owner) for owner in self._lanes_ended_by(event)], event)
        return (event,)

    def _expand(self, kind: _Kind, chunk: Any) -> Sequence[core.Event]:
        stream = self._continued_by(kind, chunk)
        if stream is None:
            return self._open(kind, chunk)
        self._require_agreement(stream, chunk)
        carried = _given(raw_event=chunk.raw_event, metadata=chunk.metadata)
        if chunk.delta is None and not carried:
            return ()
        # Metadata alone adds no text, but it has to reach the item (CHUNK-11).
        return (stream.make("content", delta=chunk.delta or "", timestamp=chunk.timestamp, **carried),)

    def _open(self, kind: _Kind, chunk: _Chunk) -> Sequence[core.Event]:
        for field in kind.required:
            if getattr(chunk, field) is None:
                sentence = f"First {chunk.type.value} must have a {to_camel(field)}: it continues no open {kind.noun}"
                raise self._fault("CHUNK-2", chunk, sentence)
        owner = chunk.subagent_run_id
        # A lane has one item at a time, so another one ends it, of whatever kind (CHUNK-7).
        made = [self._close(owner)] if owner in self.lanes else []
        stream = self.lanes[owner] = _OpenStream(chunk, kind)
        self._items[kind][stream.item_id] = stream
        raw = _given(timestamp=chunk.timestamp, raw_event=chunk.raw_event)
        # Metadata belongs to both events (CHUNK-11); the raw event is passed on once, beside the text it is about.
        if chunk.delta is None:
            return (*made, stream.make("start", **stream.opener, metadata=chunk.metadata, **raw))
        opener = stream.make("start", **stream.opener, metadata=chunk.metadata, timestamp=chunk.timestamp)
        return (*made, opener, stream.make("content", delta=chunk.delta, metadata=chunk.metadata, **raw))

    def _continued_by(self, kind: _Kind, chunk: _Chunk) -> _OpenStream | None:
        """Return the open stream a chunk belongs to; None when it has to open one (CHUNK-4, CHUNK-5)."""
        item_id, streams = getattr(chunk, kind.id_field), self._items[kind]
        lane = self.lanes.get(chunk.subagent_run_id)
        if lane is not None and lane.kind is kind and item_id in lane.names:
            return lane
        if item_id is not None:
            return streams.get(item_id)
        # Without id and tag it continues the only stream of its kind, if the parent has none.
        if chunk.subagent_run_id is not None or not streams:
            return None
        if len(streams) > 1:
            sentence = (
                f"the chunk has neither {to_camel(kind.id_field)} nor subagentRunId, so which of the {len(streams)} "
                f"open {kind.noun}s it continues is ambiguous; parallel subagents must tag their chunks"
            )
            raise self._fault("CHUNK-5", chunk, sentence)
        return next(iter(streams.values()))

    def _require_agreement(self, stream: _OpenStream, chunk: _Chunk) -> None:
        tag = chunk.subagent_run_id
        if tag is not None and tag != stream.owner:
            sentence = f"chunk subagentRunId {quoted(tag)} does not match the owner of {stream.name}"
            raise self._fault("SUB-3", chunk, f"{sentence}, which is {owner_name(stream.owner)}")
        for field in stream.kind.repeatable:
            given, opened = getattr(chunk, field), stream.opener.get(field)
            if given is not None and given != opened:
                name, before = to_camel(field), f"with {quoted(opened)}" if opened else f"without a {to_camel(field)}"
                sentence = f"chunk {name} {quoted(given)} does not match the open stream's {name}"
                raise self._fault("CHUNK-6", chunk, f"{sentence}: {stream.name} was opened {before}")

    def _lanes_ended_by(self, event: core.Event) -> list[Owner]:
        """Return the lanes that end before this event, in the order they were opened (CHUNK-7 … CHUNK-10)."""
        ends = TRAITS[type(event)].ends
        if ends == "no lane":
            return []
        if ends == "every lane":
            return list(self.lanes)
        # An untagged event counts for the parent's lane, even where it continues a subagent's item (CHUNK-12).
        ended: set[Owner] = {getattr(event, "subagent_run_id", None)}
        # The two forms do not mix in one item: an explicit event ends the assembly of the item it names (CHUNK-10).
        kind = _KIND_OF_EXPLICIT.get(type(event))
        if kind is not None and (named := self._items[kind].get(getattr(event, kind.id_field))) is not None:
            ended.add(named.owner)
        return [owner for owner in self.lanes if owner in ended]

    def _close(self, owner: Owner) -> core.Event:
        stream = self.lanes.pop(owner)
        del self._items[stream.kind][stream.item_id]
        return stream.make("end")


class _OpenStream:
    """An item that is being assembled from chunks; it makes its start, content and end events.

    Args:
        chunk: The first chunk.
        kind: The kind of the item.
    """

    def __init__(self, chunk: _Chunk, kind: _Kind) -> None:
        self.kind, self.owner = kind, chunk.subagent_run_id
        # For each chunk that continues it, without a look at its kind.
        self.chunk, self.id_field, self.plain = type(chunk), kind.id_field, kind.plain
        self.item_id: str = getattr(chunk, kind.id_field)
        self.name = f"{kind.noun} {quoted(self.item_id)}"
        self.names = (self.item_id, None)
        """The values of the id in a chunk that continues it: its own, or none."""
        self.opener = {**kind.omitted, **_given(**{field: getattr(chunk, field) for field in kind.repeatable})}
        """The other fields of its START: those of the first chunk, and those it meant by omission."""
        template = self.make("content", delta="")
        # For a content event with nothing but a delta.
        self.model, self.values, self.given = type(template), template.__dict__, template.__pydantic_fields_set__

    def make(self, part: str, **fields: Any) -> core.Event:
        """Make its start, content or end event with the fields that have a value."""
        model, event_type = self.kind.parts[part]
        fields |= {"type": event_type, self.kind.id_field: self.item_id, "subagent_run_id": self.owner}
        return cast("core.Event", model(**_given(**fields)))


class _Kind:
    """One of the three kinds of item that chunks can stand for.

    Args:
        noun: The word for an item in a message.
        prefix: The beginning of the names of its events.
        content: The end of the name of its content event.
        required: The fields that a first chunk must have (CHUNK-2), the id first.
        repeatable: The fields that a later chunk may repeat but not change (CHUNK-6).
        omitted: The values of fields that the opener omits (STREAM-4, REASON-4).
    """

    def __init__(
        self, noun: str, prefix: str, content: str, required: Sequence[str], repeatable: Sequence[str], **omitted: str
    ) -> None:
        self.noun, self.required, self.repeatable, self.omitted = noun, required, repeatable, omitted
        self.id_field = required[0]
        self.plain = frozenset({"type", self.id_field, "delta", "subagent_run_id"})
        """The fields of a chunk that brings a delta and nothing else."""
        names = {"start": f"{prefix}_START", "content": f"{prefix}_{content}", "end": f"{prefix}_END"}
        self.parts = {part: (EVENT_MODELS[name], core.EventType(name)) for part, name in names.items()}
        """The class and type of each event."""


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value: an absent field stays absent, it is never set to None (PROC-17)."""
    return {field: value for field, value in fields.items() if value is not None}


_TEXT = _Kind("text message", "TEXT_MESSAGE", "CONTENT", ("message_id",), ("role", "name"), role="assistant")
_TOOL_CALL_FIELDS = ("tool_call_id", "tool_call_name"), ("tool_call_name", "parent_message_id")
_TOOL_CALL = _Kind("tool call", "TOOL_CALL", "ARGS", *_TOOL_CALL_FIELDS)
_REASONING = _Kind("reasoning message", "REASONING_MESSAGE", "CONTENT", ("message_id",), (), role="reasoning")
_KINDS: dict[Subject, _Kind] = {"text": _TEXT, "call": _TOOL_CALL, "reasoning": _REASONING}
KIND_OF_CHUNK: dict[type, _Kind] = {each: _KINDS[TRAITS[each].about] for each in types_about(part="chunk")}
"""The kind of item that each chunk stands for; every other event leaves as it came while nothing is assembled."""
_KIND_OF_EXPLICIT = {
    # A RESULT is not part of its call, which may be open in another lane (SET-20).
    each: _KINDS[TRAITS[each].about]
    for each in types_about(*_KINDS)
    if TRAITS[each].part not in ("chunk", "result")
}
