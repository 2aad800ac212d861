"""Limits on the depth and size of JSON, so that what arrives can be stored, saved, loaded and sent (SNAP-5, INPUT-3).

pydantic reads 200 levels of arrays and objects and writes 255, but the values of an event come to lie elsewhere: in a
message or the state, in a saved conversation, in the next run input. Patches can nest them there, level by level.
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

from agui_client._protocol.schema import is_array, is_object

DEEPEST_TEXT = 200
"""The levels of a whole document, such as an event or a run input: as many as its reader can be expected to read."""
DEEPEST_VALUE = 195
"""The levels of a patched value, or of one that moves from an event into a message: up to five come to lie above it."""
LARGEST = 10_000_000
"""The weight that the copies and moves of patches may go through: about what one event may carry as text."""
LITTLE = 1_000
"""The weight that each operation adds to it, and the most that is copied for nothing."""


def copied(value: Any, levels: int = sys.maxsize) -> Any:
    """Copy a JSON value and all containers in it, so that changes of the one do not reach the other.

    Args:
        value: Any value; one that is no list or dict is returned as it is.
        levels: The number of levels of containers that it may have.

    Raises:
        RecursionError: It has more levels, or more than Python can follow.
    """
    if not (is_object(value) or is_array(value)):
        return value
    if levels <= 0:
        raise RecursionError("the value has too many levels")
    if is_object(value):
        return {key: copied(item, levels - 1) for key, item in value.items()}
    return [copied(item, levels - 1) for item in value]


def nests_deeper(value: Any, levels: int) -> bool:
    """Return whether a value has more levels of arrays and objects than these, empty ones at the end not counted."""
    if not value or not (is_object(value) or is_array(value)):
        return False
    if levels <= 0:
        return True
    for each in value.values() if is_object(value) else value:
        if isinstance(each, dict | list) and nests_deeper(each, levels - 1):
            return True
    return False


def levels(value: object, most: int) -> tuple[int, int]:
    """Count the levels of arrays and objects in a value, empty ones at the end not counted.

    Args:
        value: Any JSON value.
        most: The number of values after which counting may stop.

    Returns:
        The levels, and the number of values that were looked at: the levels are all if it is at most `most`.
    """
    found, looked_at = 0, 1
    containers: list[Any] = [value] if value and isinstance(value, dict | list) else []
    while containers:
        found += 1
        looked_at += sum(map(len, containers))
        if looked_at > most:
            break
        inside = chain.from_iterable(each.values() if is_object(each) else each for each in containers)
        containers = [each for each in inside if each and isinstance(each, (dict, list))]
    return found, looked_at


def weight(value: object, most: int) -> int:
    """Weigh a value: ten for itself and each value in it, and one for each character of its texts and names.

    Args:
        value: Any JSON value.
        most: The weight at which counting may stop.

    Returns:
        The weight if it is at most `most`, and some larger number otherwise.
    """
    total, waiting = 10, [value]
    while waiting and total <= most:
        each = waiting.pop()
        if isinstance(each, str):
            total += len(each)
        elif is_object(each):
            total += 10 * len(each)
            # Before its members are gone through, which may be a million.
            if total <= most:
                total += sum(map(len, map(str, each)))
                waiting.extend(each.values())
        elif is_array(each):
            total += 10 * len(each)
            if total <= most:
                waiting.extend(each)
    return total
