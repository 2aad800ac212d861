"""What an application says, as the protocol's messages: prompts, answers to tool calls, messages kept as JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, get_args
from uuid import uuid4

from ag_ui.core import (
    AudioPart,
    DataSource,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from agui_client._pipeline.compat import upgraded_messages
from agui_client._pipeline.plain import members_as_json
from agui_client._pipeline.refusal import Refusal, summary
from agui_client._pipeline.warnings import WarningLog
from agui_client._tools.approval import Deny
from agui_client.errors import UsageError, sendable

MessageLike: TypeAlias = Message | Mapping[str, Any]
"""A message, or one as the JSON object it is on the wire; without an `id` it gets one."""
Part: TypeAlias = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart
"""A piece of a message's content."""
Prompt: TypeAlias = str | MessageLike | Sequence[Part] | None
"""What a run is asked: text, content parts, a message of any role, or None to go on with what is there."""

_MESSAGES: tuple[type[Message], ...] = get_args(get_args(Message)[0])
_PARTS = (TextPart, ImagePart, AudioPart, VideoPart, DocumentPart)
_MEDIA: Mapping[str, type[ImagePart | AudioPart | VideoPart | DocumentPart]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
}
_validate = TypeAdapter[Message](Message).validate_python


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """Answers a tool call with an error the agent can act on (TOOL-10)."""

    message: str
    """What went wrong, in a sentence."""

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.message), str):
            raise UsageError(f"ToolFailure takes the message as text, not {self.message!r}")
        object.__setattr__(self, "message", sendable(self.message))


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
    if isinstance(value, ToolFailure | Deny):
        why = value.message if isinstance(value, ToolFailure) else value.reason
        return ToolMessage(id=str(uuid4()), tool_call_id=tool_call_id, content=why, error=why)
    try:
        return ToolMessage(id=str(uuid4()), tool_call_id=tool_call_id, content=content_of(value))
    except ValueError as error:
        raise UsageError(f"the result of tool call {tool_call_id!r} is not JSON: {error}") from error


def content_of(value: object) -> str | list[Part]:
    """What a tool gave back, as the content of its message (TOOL-6).

    Args:
        value: Text, which stays as it is; a content part or a list of them; anything else goes as JSON: models under
            their aliases, None as `null`, and so do numbers that JSON does not have (NaN, infinity).

    Returns:
        Text, or content parts.

    Raises:
        ValueError: It has no form in JSON, its text holds half a character, or a part is not what it should be.
    """
    if (parts := _as_parts([value] if isinstance(value, _PARTS) else value)) is not None:
        return [_sound(part) for part in parts]
    if isinstance(value, str):
        return str.encode(value).decode()
    return to_json(value, by_alias=True, inf_nan_mode="null").decode()


def _sound(part: Part) -> Part:
    """A part of its own, as it can be sent: what cannot would stand in the way of all that follows.

    Raises:
        ValueError: It cannot be sent.
    """
    refusals: list[Refusal] = []
    plain = members_as_json(part, refusals)
    if refusals:
        raise ValueError(f"a content part {summary(refusals)}")
    kind = next(kind for kind in _PARTS if isinstance(cast("object", part), kind))
    return kind.model_validate(plain, by_alias=True, by_name=False, strict=True)


def _as_parts(value: object) -> list[Part] | None:
    """The value as content parts, if it is a list of at least one of them and of nothing else."""
    if not isinstance(value, list | tuple) or not value:
        return None
    items = cast("list[object]", value)
    parts = [item for item in items if isinstance(item, _PARTS)]
    return parts if len(parts) == len(items) else None


def media_part(data: bytes, mime_type: str) -> ImagePart | AudioPart | VideoPart | DocumentPart:
    """Bytes as a content part, for a prompt or for what a tool gives back.

    Args:
        data: The bytes; they travel inside the message.
        mime_type: What they are, such as "image/png"; what is no image, audio or video becomes a document.

    Returns:
        The part.
    """
    source = DataSource(value=b64encode(data).decode(), mime_type=mime_type)
    return _MEDIA.get(mime_type.partition("/")[0].lower(), DocumentPart)(source=source)
