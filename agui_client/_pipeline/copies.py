"""Copies of JSON values: what an event carries stays the event's, whatever its producer or a consumer does to it."""

from __future__ import annotations

from typing import Any

from agui_client._pipeline.schema import is_array, is_object


def copied(value: Any) -> Any:
    """The same JSON value in containers of its own.

    Args:
        value: Anything; what is no list or dict is returned as it is.

    Returns:
        The copy.
    """
    if is_object(value):
        return {key: copied(item) for key, item in value.items()}
    if is_array(value):
        return [copied(item) for item in value]
    return value
