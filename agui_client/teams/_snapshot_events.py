"""Snapshots of a member's messages as the events that lead to them, as a snapshot has no owner (SUB-11).

Where no events lead there, because a message was rewritten or removed, a snapshot of the whole team's messages does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ag_ui import core
from ag_ui.core import Event, Message

from agui_client._core.protocol.reduce import Reducer
from agui_client._core.run.turn_input import event_of_result
from agui_client.teams._id_scope import changed

_CUT_OFF = " before this call was answered."


def events_between(
    before: Sequence[Message], after: Sequence[Message], is_of_open: Callable[[Event], bool] = lambda _event: False
) -> list[Event] | None:
    """Return events that turn the messages before a snapshot into those after it.

    Args:
        before: The messages of a member, under the ids and owners that they have in the team's conversation.
        after: The same after the snapshot.
        is_of_open: Returns whether an event begins or ends an item that is open, and stays open without it (STREAM-1).

    Returns:
        The events; None if no events lead there.
    """
    known = {message.id: message for message in before}
    made = (event for message in after for event in _events(known.get(message.id), message))
    events = [event for event in made if not is_of_open(event)]
    reducer = Reducer(before)
    for event in events:
        reducer.feed(event)
    return events if reducer.messages == list(after) else None


def with_restated(messages: Iterable[Message], before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    """Return a team's messages, those of one member replaced.

    Args:
        messages: The team's messages.
        before: The member's messages before its snapshot.
        after: The member's messages after it.
    """
    new = {message.id: message for message in after}
    gone = {message.id for message in before} - new.keys()
    kept = [new.pop(message.id, message) for message in messages if message.id not in gone]
    return [*kept, *new.values()]


def whole_snapshot(
    messages: Iterable[Message], before: Sequence[Message], after: Sequence[Message]
) -> core.MessagesSnapshotEvent:
    """Make the snapshot of a team's messages in which those of one member are replaced.

    Activities are left out unless the member's have changed: those of earlier runs are the caller's alone (INPUT-4),
    and a snapshot that has one has all of them (STATE-7).

    Args:
        messages: The team's messages.
        before: The member's messages before its snapshot.
        after: The member's messages after it.
    """
    has_activities = _activities(before) != _activities(after)
    restated = with_restated(messages, before, after)
    shown: list[Message] = [each for each in restated if has_activities or each.role != "activity"]
    return core.MessagesSnapshotEvent(messages=shown)


def whole_steps(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of an attempt that failed without its partial words: up to the last result of a tool.

    Calls without a result are left out, and so are the results that stand in for those of calls that were cut off.

    Args:
        messages: The messages of the attempt.
    """
    results = {each.tool_call_id for each in messages if isinstance(each, core.ToolMessage) and not stands_in(each)}
    places = [at for at, each in enumerate(messages) if isinstance(each, core.ToolMessage) and not stands_in(each)]
    kept: list[Message] = []
    for message in messages[: places[-1] + 1 if places else 0]:
        if isinstance(message, core.AssistantMessage) and message.tool_calls:
            calls = [each for each in message.tool_calls if each.id in results]
            if calls or message.content:
                kept.append(message if calls == message.tool_calls else changed(message, tool_calls=calls or None))
        elif not isinstance(message, core.ToolMessage) or not stands_in(message):
            kept.append(message)
    return kept


def cut_off(name: str, how: str) -> str:
    """Return the result that stands in for that of a call which was cut off.

    Args:
        name: The name of the member.
        how: What happened to it: "failed" or "was cancelled".
    """
    return f"{name} {how}{_CUT_OFF}"


def _activities(messages: Sequence[Message]) -> list[Message]:
    return [each for each in messages if each.role == "activity"]


def stands_in(message: core.ToolMessage) -> bool:
    """Return whether a result stands in for that of a call which was cut off."""
    return isinstance(message.content, str) and message.content.endswith(_CUT_OFF)


def _events(before: Message | None, after: Message) -> Iterator[Event]:
    """Yield events for a message that is new, or has grown; for any other change, some that do not lead to it."""
    if before == after:
        return
    owner: dict[str, Any] = {"subagent_run_id": after.subagent_run_id}
    match after:
        case core.ActivityMessage():
            fields: dict[str, Any] = {"activity_type": after.activity_type, "content": after.content}
            yield core.ActivitySnapshotEvent(message_id=after.id, **fields, **_metadata(after), **owner)
        case core.ToolMessage():
            yield changed(event_of_result(after), **owner)
        case core.ReasoningMessage():
            yield core.ReasoningMessageStartEvent(message_id=after.id, role="reasoning", **_metadata(after), **owner)
            if delta := _added(before, after):
                yield core.ReasoningMessageContentEvent(message_id=after.id, delta=delta, **owner)
            yield core.ReasoningMessageEndEvent(message_id=after.id, **owner)
        case _:
            yield from _text(before, after)
    calls = (after.tool_calls or ()) if isinstance(after, core.AssistantMessage) else ()
    earlier = (before.tool_calls or ()) if isinstance(before, core.AssistantMessage) else ()
    known = {call.id: call for call in earlier}
    for call in calls:
        if call != known.get(call.id):
            yield from _call(call, after, known)
    if (value := getattr(after, "encrypted_value", None)) is not None and value != getattr(
        before, "encrypted_value", None
    ):
        yield _encrypted("message", after.id, value, after.subagent_run_id)


def _text(before: Message | None, after: Message) -> Iterator[Event]:
    """Yield the text of a message with a role; one without content needs none, as its calls make it."""
    if not isinstance(after.content, str) or isinstance(after, core.ActivityMessage | core.ToolMessage):
        return
    fields: dict[str, Any] = {"role": after.role, "name": getattr(after, "name", None)}
    owner: dict[str, Any] = {"subagent_run_id": after.subagent_run_id}
    yield core.TextMessageStartEvent(message_id=after.id, **_given(**fields), **_metadata(after), **owner)
    if delta := _added(before, after):
        yield core.TextMessageContentEvent(message_id=after.id, delta=delta, **owner)
    yield core.TextMessageEndEvent(message_id=after.id, **owner)


def _call(call: core.ToolCall, message: Message, known: Mapping[str, core.ToolCall]) -> Iterator[Event]:
    owner: dict[str, Any] = {"subagent_run_id": message.subagent_run_id}
    yield core.ToolCallStartEvent(
        tool_call_id=call.id,
        tool_call_name=call.function.name,
        parent_message_id=message.id,
        **_metadata(call),
        **owner,
    )
    before = known[call.id].function.arguments if call.id in known else ""
    if delta := call.function.arguments.removeprefix(before):
        yield core.ToolCallArgsEvent(tool_call_id=call.id, delta=delta, **owner)
    yield core.ToolCallEndEvent(tool_call_id=call.id, **owner)
    if call.encrypted_value is not None and (call.id not in known or known[call.id] != call):
        yield _encrypted("tool-call", call.id, call.encrypted_value, message.subagent_run_id)


def _added(before: Message | None, after: Message) -> str:
    """Return the text that a message has and did not have before."""
    text = after.content if isinstance(after.content, str) else ""
    earlier = before.content if before is not None and isinstance(before.content, str) else ""
    return text.removeprefix(earlier)


def _encrypted(subtype: Any, entity_id: str, value: str, owner: str | None) -> Event:
    return core.ReasoningEncryptedValueEvent(
        subtype=subtype, entity_id=entity_id, encrypted_value=value, subagent_run_id=owner
    )


def _metadata(item: Any) -> dict[str, Any]:
    return _given(metadata=item.metadata)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
