"""The content of messages as text, and the tool calls in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agui_client._core.protocol.schema import is_array

if TYPE_CHECKING:
    from ag_ui.core import AssistantMessage, Message, ToolCall


_PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LONGEST_PICTURE = 4_000_000
"""The characters of a picture that is shown: a notebook that is saved keeps them all."""


class Picture(NamedTuple):
    """A picture that came by value."""

    mime_type: str
    """Its format."""
    data: str
    """Its bytes, in base64."""


def content_text(
    content: str | Sequence[Any] | Mapping[str, Any] | None, between: str = ", ", *, names_media: bool = True
) -> str:
    """Return the content of a message as text.

    Args:
        content: The content; of an activity, an object.
        between: The text between two parts.
        names_media: Whether a part that is not text is named by its type, or left out.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False)
    parts: Sequence[Any] = content
    shown = (part for part in parts if names_media or part.type == "text")
    return between.join(part.text if part.type == "text" else f"[{part.type}]" for part in shown)


def split_pictures(content: Any) -> tuple[Any, list[Picture]]:
    """Take the pictures that came by value out of the content of a message; those behind an address are not fetched.

    Returns:
        The other content, and the pictures of a few plain formats, which can run nothing.
    """
    pictures = dict[int, Picture]()
    parts: Sequence[Any] = content if is_array(content) else ()
    for place, part in enumerate(parts):
        source: Any = getattr(part, "source", None)
        if getattr(part, "type", "") != "image" or getattr(source, "type", "") != "data":
            continue
        is_plain = source.mime_type in _PICTURE_TYPES and len(source.value) <= _LONGEST_PICTURE
        if is_plain and _BASE64.fullmatch(source.value) is not None:
            pictures[place] = Picture(source.mime_type, source.value)
    rest = [part for place, part in enumerate(parts) if place not in pictures]
    return rest if pictures else content, [*pictures.values()]


def tool_calls_in(messages: Iterable[Message]) -> Iterator[tuple[AssistantMessage, ToolCall]]:
    """Iterate the tool calls in messages, each with its message."""
    for message in messages:
        # By the role: to ask a model for its class takes long, and there may be thousands.
        if message.role == "assistant":
            for call in message.tool_calls or ():
                yield message, call


def answered_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of the tool calls that have a result behind them; servers use ids again."""
    answered = set[str]()
    for message in messages:
        if message.role == "tool":
            answered.add(message.tool_call_id)
        elif message.role == "assistant":
            answered.difference_update(call.id for call in message.tool_calls or ())
    return answered
