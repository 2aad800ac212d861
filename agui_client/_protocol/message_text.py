"""The content of messages as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


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
