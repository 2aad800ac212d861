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


def extent(value: object, most: int) -> tuple[int, int]:
    """Measure a JSON value.

    Args:
        value: Any JSON value.
        most: The weight at which measuring may stop.

    Returns:
        The levels of arrays and objects in it, empty ones at the end not counted, and its weight: ten for itself and
        each value in it, and one for each character of its texts and names. If the weight is more than `most`, there
        may be more of both.
    """
    levels, weight, row = 0, 10, [value]
    while row and weight <= most:
        weight += sum(len(each) for each in row if isinstance(each, str))
        containers: list[Any] = [each for each in row if each and isinstance(each, dict | list)]
        levels += bool(containers)
        weight += 10 * sum(map(len, containers))
        # Before their members are gone through, which may be a million.
        if weight > most:
            break
        weight += sum(len(str(name)) for each in containers if is_object(each) for name in each)
        row = list(chain.from_iterable(each.values() if is_object(each) else each for each in containers))
    return levels, weight
