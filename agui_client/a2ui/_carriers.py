"""The three carriers of surfaces in a conversation: activities, results of tools, and calls of `render_a2ui`.

A conversation with one `a2ui-surface` activity came through the official middleware, which writes activities from the
others: then activities are read alone, or surfaces would be shown twice. Otherwise, within one turn, a surface that a
call of `render_a2ui` has drawn is not drawn again by a tool's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ag_ui.core import ActivityMessage, AssistantMessage, Message, ToolCall, ToolMessage
from pydantic_core import from_json

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._operations import limited, of_render_call
from agui_client.a2ui._words import ACTIVITY_TYPE, EXHAUSTED, KINDS, OPERATIONS, RENDER_TOOL, TYPED_ACTIVITY_TYPE

_NAME_OF_CALL = attrgetter("function.name")


@dataclass(frozen=True, slots=True)
class Carried:
    """The surfaces that one message, or one call in it, carries."""

    key: str
    """The id of the message or the call."""
    message_id: str
    """The id of the message."""
    operations: Sequence[Any] = field(default_factory=list[Any])
    """The operations, as the agent wrote them."""
    lifecycle: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The members of a lifecycle content, such as `status`; empty if there are operations."""


def may_carry(message: Message, carried: Sequence[Carried]) -> bool:
    """Return whether a message may change what a conversation carries.

    Args:
        message: A message that is new, has changed, or is not there any more.
        carried: What the conversation carries without it.
    """
    match message:
        case ActivityMessage(activity_type=kind):
            return kind in (ACTIVITY_TYPE, TYPED_ACTIVITY_TYPE)
        case AssistantMessage(tool_calls=list(calls)):
            return RENDER_TOOL in map(_NAME_OF_CALL, calls)
        case ToolMessage(content=str(text)):
            return OPERATIONS in text or EXHAUSTED in text
        case _:
            # A turn begins, in which what was drawn before may be drawn again.
            return message.role == "user" and bool(carried)


def carried_in(messages: Sequence[Message]) -> list[Carried]:
    """Return what the messages of a conversation carry, in order."""
    surfaces = [each for each in messages if isinstance(each, ActivityMessage) and each.activity_type == ACTIVITY_TYPE]
    if surfaces:
        return [_of_activity(each) for each in surfaces]
    return list(_of_tools(messages))


def entered_in(messages: Sequence[Message]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Iterate over what a person entered, as this client keeps it: the surface, and what `Surfaces.kept` returned."""
    for each in messages:
        if isinstance(each, ActivityMessage) and each.activity_type == TYPED_ACTIVITY_TYPE:
            content: Mapping[str, Any] = each.content
            if isinstance(surface_id := content.get("surfaceId"), str) and is_object(content.get("entered")):
                yield surface_id, content


def _of_activity(activity: ActivityMessage) -> Carried:
    content: Mapping[str, Any] = activity.content
    if OPERATIONS in content:
        return Carried(activity.id, activity.id, limited(content[OPERATIONS]))
    return Carried(activity.id, activity.id, lifecycle=content)


def _of_tools(messages: Sequence[Message]) -> Iterator[Carried]:
    drawn: set[str] = set()
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=list(calls)):
                for call in calls:
                    if call.function.name == RENDER_TOOL:
                        carried, surface_id = _of_call(call, message.id)
                        drawn.add(surface_id)
                        yield carried
            case ToolMessage(content=str(text)):
                yield from _of_result(message.id, text, drawn)
            case _:
                if message.role == "user":
                    drawn.clear()


def _of_call(call: ToolCall, message_id: str) -> tuple[Carried, str]:
    arguments = _json(call.function.arguments)
    if not is_object(arguments):
        return Carried(call.id, message_id, lifecycle={"status": "building"}), ""
    operations = of_render_call(arguments)
    return Carried(call.id, message_id, operations), str(arguments.get("surfaceId"))


def _of_result(message_id: str, text: str, drawn: set[str]) -> Iterator[Carried]:
    # Most results are about something else, and are not parsed.
    if OPERATIONS not in text and EXHAUSTED not in text:
        return
    result = _json(text)
    if isinstance(result, str):
        result = _json(result)
    if not is_object(result):
        return
    if is_array(given := result.get(OPERATIONS)):
        yield Carried(message_id, message_id, limited([each for each in given if _surface_of(each) not in drawn]))
    elif result.get("code") == EXHAUSTED:
        yield Carried(message_id, message_id, lifecycle={**result, "status": "failed"})


def _surface_of(operation: Any) -> Any:
    bodies = [operation.get(kind) for kind in KINDS] if is_object(operation) else []
    return next((each.get("surfaceId") for each in bodies if is_object(each)), None)


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
