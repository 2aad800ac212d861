"""The content of messages as text, and the tool calls in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ag_ui.core import AssistantMessage, Message, ToolCall


def content_text(
    content: str | Sequence[Any] | Mapping[str, Any] | None, between: str = ", ", *, names_media: bool = True
) -> str:
    """Return the content of a message as text.

    Args:
        content: The content; of an activity, an object.
        between: The text between two parts.
        names_media: Whether a part that is no text is named by its type, or left out.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False)
    parts: Sequence[Any] = content
    shown = (part for part in parts if names_media or part.type == "text")
    return between.join(part.text if part.type == "text" else f"[{part.type}]" for part in shown)


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
