"""What an application says, as the protocol's messages: prompts, answers to tool calls, messages kept as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast, get_args
from uuid import uuid4

from ag_ui.core import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from agui_client._pipeline.compat import upgraded_messages
from agui_client._pipeline.warnings import WarningLog
from agui_client.errors import UsageError

MessageLike: TypeAlias = Message | Mapping[str, Any]
"""A message, or one as the JSON object it is on the wire; without an `id` it gets one."""
Part: TypeAlias = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart
"""A piece of a message's content."""
Prompt: TypeAlias = str | MessageLike | Sequence[Part] | None
"""What a run is asked: text, content parts, a message of any role, or None to go on with what is there."""

_MESSAGES: tuple[type[Message], ...] = get_args(get_args(Message)[0])
_PARTS = (TextPart, ImagePart, AudioPart, VideoPart, DocumentPart)
_validate = TypeAdapter[Message](Message).validate_python


class ToolFailure:
    """Answers a tool call with an error the agent can act on (TOOL-10).

    Args:
        message: What went wrong, in a sentence.
    """

    def __init__(self, message: str) -> None:
        self.message = message


def as_messages(messages: Iterable[MessageLike]) -> list[Message]:
    """Messages as the protocol's models; retired content parts become what replaced them (VER-12).

    Args:
        messages: Models, or JSON objects with camelCase keys.

    Returns:
        The models, in order.

    Raises:
        UsageError: An object is no message.
    """
    return [_as_message(message) for message in messages]


def _as_message(message: object) -> Message:
    if isinstance(message, Mapping):
        return _from_json(cast("Mapping[str, Any]", message))
    if isinstance(message, _MESSAGES):
        return message
    raise UsageError(
        f"a message is one of ag_ui.core's, or its JSON object, not a {type(message).__name__}; "
        "for what a user says, UserMessage(id=..., content=...)"
    )


def _from_json(message: Mapping[str, Any]) -> Message:
    upgraded = upgraded_messages({"messages": [{"id": str(uuid4()), **message}]}, WarningLog())
    try:
        return _validate(upgraded["messages"][0], strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        refused = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'role'}: {each['msg']}" for each in error.errors())
        raise UsageError(f"this is no message of the protocol: {refused}") from None


def prompt_messages(prompt: Prompt) -> list[Message]:
    """The messages a prompt adds: one, or none for None.

    Raises:
        UsageError: It is nothing a run can be asked.
    """
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [UserMessage(id=str(uuid4()), content=prompt)]
    if isinstance(prompt, Mapping):
        return as_messages([prompt])
    if isinstance(prompt, _MESSAGES):
        return [prompt]
    if (parts := _as_parts(prompt)) is not None:
        return [UserMessage(id=str(uuid4()), content=parts)]
    raise UsageError(
        "a prompt is text, a message, or a list of content parts (TextPart, ImagePart, ...), "
        f"not {type(prompt).__name__}"
    )


def tool_messages(results: Mapping[str, Any]) -> list[ToolMessage]:
    """The tool messages that carry answers to tool calls.

    Raises:
        UsageError: An answer is no JSON value.
    """
    return [_tool_message(tool_call_id, value) for tool_call_id, value in results.items()]


def _tool_message(tool_call_id: str, value: Any) -> ToolMessage:
    if isinstance(value, ToolFailure):
        return ToolMessage(id=str(uuid4()), tool_call_id=tool_call_id, content=value.message, error=value.message)
    return ToolMessage(id=str(uuid4()), tool_call_id=tool_call_id, content=_content(tool_call_id, value))


def _as_parts(value: object) -> list[Part] | None:
    """The value as content parts, if it is a list of at least one of them and of nothing else."""
    if not isinstance(value, list | tuple) or not value:
        return None
    items = cast("list[object]", value)
    parts = [item for item in items if isinstance(item, _PARTS)]
    return parts if len(parts) == len(items) else None


def _content(tool_call_id: str, value: Any) -> str | list[Part]:
    if isinstance(value, str):
        return value
    if (parts := _as_parts(value)) is not None:
        return parts
    try:
        return to_json(value, by_alias=True).decode()
    except PydanticSerializationError as error:
        raise UsageError(f"the result of tool call {tool_call_id!r} is not JSON: {error}") from error
