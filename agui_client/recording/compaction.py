"""Compaction: the shortest stream that comes to the same messages, the same state and the same outcome.

A short stream is made of what the events came to, and reduced again: it is only taken if it comes to the same. Where
that cannot be, as for a message that snapshots moved about, the events stay, pieces joined and everything left out that
changes nothing. Equal views make equal streams, so that compacting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ag_ui import core
from ag_ui.core import AssistantMessage, BaseEvent, Event, Message, RunAgentInput, ToolCall, ToolMessage

from agui_client._protocol.events import WireEvent
from agui_client._protocol.patch import is_same_json
from agui_client._protocol.pipeline import Pipeline
from agui_client._protocol.reduce import Reducer
from agui_client._protocol.traits import DELTAS, types_about
from agui_client._protocol.warnings import WarningLog
from agui_client.errors import ProtocolError

_Opener: TypeAlias = core.TextMessageStartEvent | core.ReasoningMessageStartEvent
_Whole: TypeAlias = core.ToolCallResultEvent | core.ActivitySnapshotEvent | core.ActivityDeltaEvent
_MESSAGES = types_about("run", "text", "reasoning", "value", "call", "messages", "activity")
EventT = TypeVar("EventT", bound=BaseEvent)


def compact(events: Iterable[WireEvent], *, messages: Sequence[Message] = (), state: Any = None) -> list[Event]:
    """Return the shortest stream with the same messages, state and outcome.

    It has one content event for each message, one snapshot of the state if the state changed, and the last run's begin
    and end; a stream that was cut stays without an end. Times, raw events, steps, custom events and the names of
    subagents are gone.

    Args:
        events: The events of one stream: those of a run, or of a recorded answer.
        messages: The messages before the first event.
        state: The state before it; None for an empty object.

    Returns:
        The events, which the same messages and state have to lie before.

    Raises:
        ProtocolError: The stream breaks the protocol.
    """
    base = _Base(list(messages), {} if state is None else state)
    view = base.view(events)
    if not view.delivered:
        return []
    if view.started is None:
        return _joined(base, view)
    for given in (view.given, set[str]()):
        streamed = _streamed(base, view, given)
        if streamed is not None and base.results_in(streamed, view):
            return streamed
    others = [*_restated(base, view), _joined(base, view)]
    # Of equal length the first, which is made of the view alone.
    return min((each for each in others if base.results_in(each, view)), key=len, default=view.delivered)


@dataclass(frozen=True)
class _Base:
    """The messages and the state before a stream."""

    messages: list[Message]
    state: Any

    def view(self, events: Iterable[WireEvent]) -> _View:
        """Reduce a stream."""
        log = WarningLog()
        reducer = Reducer(self.messages, self.state, warnings=log)
        pipeline = Pipeline(reducer, log, null_fields="drop")
        delivered = [each for event in events for each in pipeline.feed(event)]
        return _View(delivered, reducer, pipeline)

    def results_in(self, events: list[Event], view: _View) -> bool:
        """Return whether a stream is conforming and has the same result as another."""
        try:
            return self.view(events) == view
        except ProtocolError:
            return False


class _View:
    """The result of a stream; two are equal if callers cannot tell them apart."""

    def __init__(self, delivered: list[Event], reducer: Reducer, pipeline: Pipeline) -> None:
        outcome = pipeline.outcome
        self.delivered = delivered
        """The events that a caller got."""
        self.messages, self.state = reducer.messages, reducer.state
        self.started, self.finished, self.error = outcome.started, outcome.finished, outcome.error
        self.left_open = set(pipeline.verifier.unclosed_ids)
        """The messages and calls that have not ended."""
        starts = [index for index, event in enumerate(delivered) if isinstance(event, core.RunStartedEvent)]
        latest = delivered[starts[-1] :] if starts else delivered
        self.texts = {event.message_id for event in latest if isinstance(event, _Opener)}
        """The messages that the last run streamed to."""
        self.given = {event.message_id for event in latest if isinstance(event, _Whole)}
        """The results and activities that it sent; a part of no comparison."""
        self.calls = list(outcome.tool_call_ids)
        """The calls that it streamed, in order."""
        self.text = next((text for text in map(reducer.text_of, reversed(outcome.text_message_ids)) if text), None)
        """The answer that it streamed; None if it streamed none."""
        restated = [each for each in self.messages if each.role == "assistant" and each.id in outcome.restated_ids]
        if self.text is None:
            self.text = next((reducer.text_of(each.id) for each in reversed(restated) if each.content), None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _View):
            return NotImplemented
        same = all(
            getattr(self, name) == getattr(other, name) for name in ("texts", "calls", "text", "left_open", "messages")
        )
        ends = ("started", "finished", "error")
        return (
            same
            and all(_bare(getattr(self, name)) == _bare(getattr(other, name)) for name in ends)
            and is_same_json(self.state, other.state)
        )

    __hash__ = None  # type: ignore[assignment]


def _bare(event: EventT | None) -> EventT | None:
    """Return an event without what says nothing about messages, state and outcome."""
    if event is None:
        return None
    fields = {"timestamp": None, "raw_event": None}
    if isinstance(event, core.RunStartedEvent):
        fields["input"] = None
    return event.model_copy(update=fields)


def _streamed(base: _Base, view: _View, given: set[str]) -> list[Event] | None:
    """Return a stream that streams what the last run streamed; None if messages from before were changed."""
    if (new := _new_messages(base, view)) is None:
        return None
    streamed = [message for message in new if _is_of_run(message, view, given) and _is_streamable(message)]
    ids = {message.id for message in streamed}
    return _stream(base, view, [message for message in new if message.id not in ids], None, streamed)


def _restated(base: _Base, view: _View) -> Iterator[list[Event]]:
    """Yield streams that give all messages whole: in the input of the run, if they are new, and in a snapshot."""
    if (new := _new_messages(base, view)) is not None:
        yield _stream(base, view, new, None, [])
    yield _stream(base, view, [], view.messages, [])


def _new_messages(base: _Base, view: _View) -> list[Message] | None:
    known = {message.id for message in base.messages}
    if [message for message in view.messages if message.id in known] != base.messages:
        return None
    return [message for message in view.messages if message.id not in known]


def _is_of_run(message: Message, view: _View, given: set[str]) -> bool:
    """Return whether the last run streamed a message."""
    is_call = message.content is None and any(call.id in view.calls for call in _calls_of(message))
    return is_call or message.id in view.texts or message.id in given


def _stream(
    base: _Base, view: _View, echoed: list[Message], restated: list[Message] | None, streamed: list[Message]
) -> list[Event]:
    """Return a stream of one run.

    Args:
        base: What lies before it.
        view: What it has to come to.
        echoed: The new messages that its input has.
        restated: All messages, for a snapshot; None for no snapshot.
        streamed: The messages that are streamed.
    """
    started = view.started
    assert started is not None
    bare = _bare(started)
    assert bare is not None
    if echoed:
        given = RunAgentInput(thread_id=started.thread_id, run_id=started.run_id, messages=echoed)
        bare = bare.model_copy(update={"input": given})
    events: list[Event] = [bare]
    if not is_same_json(base.state, view.state):
        events.append(core.StateSnapshotEvent(snapshot=view.state))
    if restated is not None:
        events.append(core.MessagesSnapshotEvent(messages=restated))
    ids, ordered = {message.id for message in streamed}, view.messages
    if not streamed:
        # The answer is the text that was begun last.
        ordered = sorted(ordered, key=lambda each: each.id in view.texts and each.content == view.text)
    for message in ordered:
        events += _events_of(message, view.left_open) if message.id in ids else _reopened(message, view)
    end = _bare(view.error) or _bare(view.finished)
    return [*events, end] if end is not None else events


def _is_streamable(message: Message) -> bool:
    reducer = Reducer()
    for event in _events_of(message, set()):
        reducer.feed(event)
    return reducer.messages == [message]


def _events_of(message: Message, left_open: set[str]) -> list[Event]:
    """Return the events that make a message, if events can; those of an open one lack their end."""
    events = [*_content_events(message, left_open)]
    for call in _calls_of(message):
        events += _call_events(message, call, left_open)
    if message.role != "activity" and message.encrypted_value is not None:
        events.append(_sealed("message", message.id, message.encrypted_value))
    return events


def _content_events(message: Message, left_open: set[str]) -> Iterator[Event]:
    about = _given(message_id=message.id, subagent_run_id=message.subagent_run_id, metadata=message.metadata or None)
    match message:
        case core.ActivityMessage():
            yield core.ActivitySnapshotEvent(activity_type=message.activity_type, content=message.content, **about)
        case ToolMessage():
            yield core.ToolCallResultEvent(tool_call_id=message.tool_call_id, content=message.content, **about)
        case core.ReasoningMessage():
            yield core.ReasoningMessageStartEvent(role="reasoning", **about)
            if message.content:
                yield core.ReasoningMessageContentEvent(message_id=message.id, delta=message.content)
            if message.id not in left_open:
                yield core.ReasoningMessageEndEvent(message_id=message.id)
        case _ if isinstance(message.content, str):
            yield core.TextMessageStartEvent(role=message.role, **about, **_given(name=message.name))
            if message.content:
                yield core.TextMessageContentEvent(message_id=message.id, delta=message.content)
            if message.id not in left_open:
                yield core.TextMessageEndEvent(message_id=message.id)
        case _:
            pass


def _calls_of(message: Message) -> list[ToolCall]:
    return (message.tool_calls or []) if isinstance(message, AssistantMessage) else []


def _call_events(message: Message, call: ToolCall, left_open: set[str]) -> Iterator[Event]:
    about = _given(subagent_run_id=message.subagent_run_id, metadata=call.metadata or None)
    yield core.ToolCallStartEvent(
        tool_call_id=call.id, tool_call_name=call.function.name, parent_message_id=message.id, **about
    )
    if call.function.arguments:
        yield core.ToolCallArgsEvent(tool_call_id=call.id, delta=call.function.arguments)
    if call.id not in left_open:
        yield core.ToolCallEndEvent(tool_call_id=call.id)
    if call.encrypted_value is not None:
        yield _sealed("tool-call", call.id, call.encrypted_value)


def _sealed(kind: Any, entity_id: str, value: str) -> Event:
    return core.ReasoningEncryptedValueEvent(subtype=kind, entity_id=entity_id, encrypted_value=value)


def _reopened(message: Message, view: _View) -> Iterator[Event]:
    """Yield the events that say that the last run streamed to a message that is there already, and add nothing."""
    tag = _given(subagent_run_id=message.subagent_run_id)
    if message.id in view.texts:
        if message.role == "reasoning":
            yield core.ReasoningMessageStartEvent(message_id=message.id, role="reasoning", **tag)
        elif message.role != "tool" and message.role != "activity":
            yield core.TextMessageStartEvent(message_id=message.id, role=message.role, **tag)
        if message.id not in view.left_open:
            ended = core.ReasoningMessageEndEvent if message.role == "reasoning" else core.TextMessageEndEvent
            yield ended(message_id=message.id)
    for call in _calls_of(message):
        if call.id in view.calls:
            yield core.ToolCallStartEvent(
                tool_call_id=call.id, tool_call_name=call.function.name, parent_message_id=message.id, **tag
            )
            if call.id not in view.left_open:
                yield core.ToolCallEndEvent(tool_call_id=call.id)


def _joined(base: _Base, view: _View) -> list[Event]:
    """Return the events themselves, pieces joined, without those that change neither messages nor outcome."""
    events: list[Event] = []
    for event in view.delivered:
        if not isinstance(event, _MESSAGES):
            continue
        bare = event.model_copy(update={"timestamp": None, "raw_event": None})
        latest, id_field = events[-1] if events else None, DELTAS.get(type(event))
        if id_field is not None and not event.metadata:
            piece: Any = bare
            if not piece.delta:
                continue
            if type(latest) is type(event) and getattr(latest, id_field) == getattr(event, id_field):
                joined: Any = latest
                events[-1] = joined.model_copy(update={"delta": joined.delta + piece.delta})
                continue
        events.append(bare)
    starts = [index for index, event in enumerate(events) if isinstance(event, core.RunStartedEvent)]
    if starts and not is_same_json(base.state, view.state):
        events.insert(starts[-1] + 1, core.StateSnapshotEvent(snapshot=view.state))
    return events


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
