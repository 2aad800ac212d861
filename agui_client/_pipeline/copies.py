"""Copies of JSON values: what an event carries stays the event's, whatever its producer or a consumer does to it."""

from __future__ import annotations

import sys
from typing import Any

from agui_client._pipeline.schema import is_array, is_object


def copied(value: Any, levels: int = sys.maxsize) -> Any:
    """The same JSON value in containers of its own.

    Args:
        value: Anything; what is no list or dict is returned as it is.
        levels: How many levels of containers it may have.

    Returns:
        The copy.

    Raises:
        RecursionError: It has more of them, or more than Python can follow.
    """
    if is_object(value):
        inner = _below(levels)
        return {key: copied(item, inner) for key, item in value.items()}
    if is_array(value):
        inner = _below(levels)
        return [copied(item, inner) for item in value]
    return value


def _below(levels: int) -> int:
    if levels <= 0:
        raise RecursionError("the value has too many levels")
    return levels - 1
