"""A run that is sent again from its beginning, as the rest of a stream that was cut.

`Delivered` notes how much of each message and call the application has. `ReplayFilter` leaves that out of what the
server sends again: a cut message continues at the character where it broke off, however its text is divided now.
Other events are counted; new changes of the state and of activities become snapshots, which fit whatever was before
them. Messages that the server restates come at the end, when no message of the run is open any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from ag_ui import core

from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent, is_terminal
from agui_client._core.protocol.reduce import Reducer
from agui_client._core.protocol.traits import STATE_EVENTS, TRAITS, Part, types_about
from agui_client.errors import ConnectError

Item: TypeAlias = tuple[str, str]
"""The kind and the id of a message, a call or a reasoning phase."""


def _items(part: Part) -> dict[type[Any], str]:
    """Return the kind of item that each event is about which is one part of a message, a call or a phase."""
    return {each: TRAITS[each].about for each in types_about("text", "reasoning", "phase", "call", part=part)}


_STARTS, _CONTENTS, _ENDS, _CHUNKS = _items("start"), _items("content"), _items("end"), _items("chunk")
_ACTIVITIES = types_about("activity")


class Delivered:
    """The events of a run that the application has.

    Args:
        run_id: The id of the run that was asked for.
    """

    def __init__(self, run_id: str) -> None:
        self.run_ids = {run_id}
        """The ids of the run: the one that was asked for, and the one that the server gave it."""
        self.has_begun = False
        """Whether the run's RUN_STARTED is among the events."""
        self.openers: dict[Item, Any] = {}
        """The events that opened messages, calls and phases that are not closed; chunks stand for themselves."""
        self.starts: Counter[Item] = Counter()
        """The number of times that each message, call and phase was opened; a closed one may be opened again."""
        self.parents: defaultdict[str, set[str | None]] = defaultdict(set)
        """The messages of each call, by its id: in a further attempt, a server may give the id to a call of another."""
        self.sizes: Counter[Item] = Counter()
        """Characters of each message and call; those that were opened have an entry."""
        self.closed: set[Item] = set()
        """The messages, calls and phases that were closed."""
        self.ends: dict[tuple[str, ...], WireEvent] = {}
        """The events that end the steps and subagents that are open, by these."""
        self.others: Counter[tuple[str, ...]] = Counter()
        """The number of the events of each other type and subject."""
        self._chunk_ids: dict[str, str] = {}

    def note(self, event: WireEvent) -> None:
        """Note an event that the application gets."""
        kind, known = type(event), cast("Any", event)  # the tables know the members of a kind, and type checkers do not
        if isinstance(event, core.RunStartedEvent):
            self.has_begun = True
            self.run_ids.add(event.run_id)
        elif (name := _STARTS.get(kind)) is not None:
            item = name, _id_of(event)
            self.openers[item] = event
            self.closed.discard(item)
            self.starts[item] += 1
            self.note_parent(event)
            self.sizes[item] += 0
        elif (name := _CONTENTS.get(kind)) is not None:
            self.sizes[name, _id_of(event)] += len(known.delta)
        elif (name := _ENDS.get(kind)) is not None:
            item = name, _id_of(event)
            self.openers.pop(item, None)
            self.closed.add(item)
        elif (name := _CHUNKS.get(kind)) is not None:
            item = name, self.id_of_chunk(name, event)
            self.openers[item] = event
            self.starts[item] = max(self.starts[item], 1)
            self.sizes[item] += len(known.delta or "")
        else:
            self.others[_subject(event)] += 1
            self._note_end(event)

    def note_parent(self, event: WireEvent) -> None:
        """Note the message of a call that begins."""
        if isinstance(event, core.ToolCallStartEvent):
            self.parents[event.tool_call_id].add(event.parent_message_id)

    def _note_end(self, event: WireEvent) -> None:
        """Note the event that would end the step or the subagent that begins; forget it when that has ended."""
        owner: str | None = getattr(event, "subagent_run_id", None)
        match event:
            case core.StepStartedEvent(step_name=name):
                self.ends[name, owner or ""] = core.StepFinishedEvent(step_name=name, subagent_run_id=owner)
            case core.StepFinishedEvent(step_name=name):
                self.ends.pop((name, owner or ""), None)
            case core.SubagentStartedEvent(subagent_run_id=name):
                end = core.SubagentErrorEvent(subagent_run_id=name, message="its end did not arrive", code="cancelled")
                self.ends[(name,)] = end
            case core.SubagentFinishedEvent(subagent_run_id=name) | core.SubagentErrorEvent(subagent_run_id=name):
                self.ends.pop((name,), None)
            case _:
                """Nothing that has an end."""

    def id_of_chunk(self, name: str, event: Any) -> str:
        """Return the id of the item that a chunk belongs to: only the first one of an item has to name it."""
        self._chunk_ids[name] = _id_of(event) or self._chunk_ids.get(name, "")
        return self._chunk_ids[name]


class ReplayFilter:
    """Leaves out what the application has of one stream that sends the run again.

    Args:
        delivered: The events that the application has; it adds those that this returns.
        state: The state that the run begins with, unless the server sends an earlier one.
    """

    def __init__(self, delivered: Delivered, state: Any) -> None:
        self._delivered, self._state = delivered, state
        self._thread = Reducer((), {})
        self._starts: Counter[Item] = Counter()
        self._openers: dict[Item, Any] = {}
        self._offsets: Counter[Item] = Counter()
        self._others: Counter[tuple[str, ...]] = Counter()
        self._before = Counter(delivered.others)
        self._chunks = Delivered("")
        self._is_in_run = self._has_messages = self._has_state = False
        # The latest change of the state, and of each activity, that was left out.
        self._latest: dict[tuple[str, ...], Any] = {}

    def feed(self, event: WireEvent) -> Iterator[WireEvent]:
        """Take in the next event of the stream; return the events that the application does not have."""
        if isinstance(event, core.RunStartedEvent):
            self._is_in_run = event.run_id in self._delivered.run_ids
            self._thread.feed(event)
            if self._is_in_run and not self._has_state:
                self._thread.feed(core.StateSnapshotEvent(snapshot=self._state))
            if self._is_in_run and not self._delivered.has_begun:
                self._delivered.note(event)
                yield event
            return
        if not isinstance(event, UnrecognizedEvent) and type(event) not in _CHUNKS:
            self._thread.feed(event)
            self._has_state = self._has_state or isinstance(event, STATE_EVENTS)
        if not self._is_in_run:
            return
        for each in self._rest_of(event):
            self._delivered.note(each)
            yield each

    def _rest_of(self, event: Any) -> Iterable[WireEvent]:
        """Return the part of an event of the run that the application does not have."""
        delivered = self._delivered
        kind = cast("type[object]", type(event))
        if (name := _STARTS.get(kind)) is not None:
            item = name, _id_of(event)
            self._starts[item] += 1
            self._openers[item] = event
            delivered.note_parent(event)
            return (event,) if self._starts[item] > delivered.starts[item] else ()
        if (name := _CONTENTS.get(kind)) is not None:
            return self._tail((name, _id_of(event)), event)
        if (name := _ENDS.get(kind)) is not None:
            item = name, _id_of(event)
            by_chunks = type(delivered.openers.get(item)) in _CHUNKS
            return () if by_chunks or item in delivered.closed else (event,)
        if (name := _CHUNKS.get(kind)) is not None:
            return self._tail((name, self._chunks.id_of_chunk(name, event)), event)
        if isinstance(event, core.MessagesSnapshotEvent):
            self._has_messages = True
            return ()
        if is_terminal(event):
            return (*self._closing(event), event)
        subject = _subject(event)
        self._others[subject] += 1
        is_known = self._others[subject] <= self._before[subject]
        if isinstance(event, STATE_EVENTS + _ACTIVITIES):
            self._latest[subject] = event
            return () if is_known else self._as_it_is(event)
        return () if is_known else (event,)

    def _tail(self, item: Item, event: Any) -> Iterable[WireEvent]:
        """Return what a piece of a text adds to the text that the application has."""
        delta: str = event.delta or ""
        before = self._offsets[item]
        self._offsets[item] = before + len(delta)
        is_known = item in self._delivered.sizes
        missing = delta[max(self._delivered.sizes[item] - before, 0) :] if is_known else delta
        if is_known and not missing:
            return ()
        if item in self._delivered.closed and item in self._openers:
            return self._reopened(item, event)
        opener: Any = self._delivered.openers.get(item)
        if type(opener) in _CHUNKS and type(event) not in _CHUNKS:
            return (opener.model_copy(update={"delta": missing}),)
        if type(event) in _CHUNKS and opener is not None and type(opener) not in _CHUNKS:
            return (_content(item, missing, opener),)
        return (event.model_copy(update={"delta": missing}),)

    def _reopened(self, item: Item, event: Any) -> Iterable[WireEvent]:
        """Return events that open an item again, with all of it: it was closed when an earlier attempt ended."""
        kind, item_id = item
        call = self._thread.tool_call(item_id) if kind == "call" else None
        content = getattr(self._thread.message(item_id), "content", None) if call is None else call.function.arguments
        whole = content if isinstance(content, str) else event.delta
        self._starts[item] = self._delivered.starts[item] + 1
        self._offsets[item] = self._delivered.sizes[item] + len(whole)
        return self._openers[item], event.model_copy(update={"delta": whole})

    def _as_it_is(self, event: Any) -> Iterable[WireEvent]:
        """Return the state, or an activity, with the event in it: a patch fits only what was before it."""
        self._latest.pop(_subject(event), None)
        if isinstance(event, STATE_EVENTS):
            return (core.StateSnapshotEvent(snapshot=self._thread.state),)
        message: Any = self._thread.message(event.message_id)
        if message is None:
            return ()
        about = {"message_id": event.message_id, "subagent_run_id": event.subagent_run_id}
        return (core.ActivitySnapshotEvent(activity_type=event.activity_type, content=message.content, **about),)

    def _closing(self, end: Any) -> Iterator[WireEvent]:
        """Complete what is open from the messages that the server restated, and restate them.

        Raises:
            ConnectError: The rest of a tool call did not come again, and no messages: its arguments may be incomplete.
        """
        if end.type == core.EventType.RUN_FINISHED:
            for item, opener in list(self._delivered.openers.items()):
                if type(opener) not in _CHUNKS:
                    yield from self._completing(item, opener)
            # What was begun last is the innermost.
            yield from [*self._delivered.ends.values()][::-1]
        # The server may have put several changes into one, so that counting them left out too many.
        for latest in list(self._latest.values()):
            yield from self._as_it_is(latest)
        if self._has_messages:
            messages = self._thread.messages
            # A result stands behind the first message of its call, and a snapshot leaves it there (STATE-5).
            again = {each for each, parents in self._delivered.parents.items() if len(parents) > 1}
            placed = [each for each in messages if getattr(each, "tool_call_id", None) not in again]
            if len(placed) < len(messages):
                yield core.MessagesSnapshotEvent(messages=placed)
            yield core.MessagesSnapshotEvent(messages=messages)

    def _completing(self, item: Item, opener: Any) -> Iterator[WireEvent]:
        kind, item_id = item
        if kind == "call":
            call = self._thread.tool_call(item_id)
            if call is None and not self._has_messages:
                raise ConnectError(f"the server sent the thread again without the tool call {item_id!r} that was cut")
            # One that a further attempt at the run did not make goes with the messages that are restated.
            whole = "" if call is None else call.function.arguments
        else:
            content = getattr(self._thread.message(item_id), "content", None)
            whole = content if isinstance(content, str) else ""
        if missing := whole[self._delivered.sizes[item] :]:
            yield _content(item, missing, opener)
        ends = {name: each for each, name in _ENDS.items()}
        yield ends[kind](**_about(item, opener))


def _content(item: Item, delta: str, opener: Any) -> WireEvent:
    contents = {name: each for each, name in _CONTENTS.items()}
    event: WireEvent = contents[item[0]](delta=delta, **_about(item, opener))
    return event


def _about(item: Item, opener: Any) -> dict[str, Any]:
    id_field = "tool_call_id" if item[0] == "call" else "message_id"
    return {id_field: item[1], "subagent_run_id": opener.subagent_run_id}


def _id_of(event: Any) -> str:
    """Return the id of the message or call that an event is about; empty if it names none."""
    return getattr(event, "tool_call_id", None) or getattr(event, "message_id", None) or ""


def _subject(event: Any) -> tuple[str, ...]:
    """Return the type of an event, what tells it from others of the type, and its owner."""
    if isinstance(event, STATE_EVENTS):
        return "STATE", ""
    if isinstance(event, _ACTIVITIES):
        return "ACTIVITY", event.message_id
    names = ("tool_call_id", "entity_id", "step_name", "name")
    subject = next((str(value) for name in names if (value := getattr(event, name, None)) is not None), "")
    return str(event.type), subject, getattr(event, "subagent_run_id", None) or ""
