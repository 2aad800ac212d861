"""Tool calls that nobody answered: the next prompt answers them, as servers want a result of each call (TOOL-10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NO_RESULT = "no result: the conversation went on without one"
"""The content of such an answer, and its error."""
MARK = {"agui-client": {"placeholder": True}}
"""The metadata of such an answer, which a late result replaces."""


def is_given_up(message: Any) -> bool:
    """Whether a message, as JSON or a model, answers a call that nobody answered."""
    plain: dict[str, object] = dict(message)
    return plain.get("content") == NO_RESULT


def without_given_up(messages: Iterable[Any]) -> list[Any]:
    """The messages without such answers."""
    return [message for message in messages if not is_given_up(message)]
