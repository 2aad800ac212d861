"""How deep and how large JSON may be, so that what arrives can be kept, saved, loaded and sent (SNAP-5, INPUT-3).

pydantic reads 200 levels of arrays and objects and writes 255, but what an event brings comes to lie elsewhere: in a
message or the state, in a saved conversation, in the next run input. A patch can pile it up there, level by level.
"""

from __future__ import annotations

from collections.abc import Iterable

from agui_client._pipeline.schema import is_array, is_object

DEEPEST_TEXT = 200
"""Levels of a whole document, such as an event or a run input: as many as its reader can be expected to read."""
DEEPEST_VALUE = 195
"""Levels of what is put together here, or lifted from an event into a message: up to five more come to lie above it."""
LARGEST = 10_000_000
"""Weight of the largest document that copies within a patch may make: about what one event may carry as text."""
LITTLE = 1_000
"""What may be copied without weighing the whole document: an operation takes up nearly as much itself."""

_VALUE = 10


def nests_deeper(value: object, levels: int) -> bool:
    """Whether a value is of more levels of arrays and objects than these; empty ones count as little as in reading."""
    if not value or not (is_object(value) or is_array(value)):
        return False
    if levels <= 0:
        return True
    inner: Iterable[object] = value.values() if is_object(value) else value
    for each in inner:  # noqa: SIM110 - a generator would take a second Python frame per level
        if (is_object(each) or is_array(each)) and nests_deeper(each, levels - 1):
            return True
    return False


def weight(value: object, most: int) -> int:
    """What a value weighs: ten for itself and each value in it, and one for each character of its texts and names.

    Args:
        value: Any JSON value.
        most: Where counting may stop.

    Returns:
        The weight if it is at most `most`, and some larger number otherwise.
    """
    total = 0
    waiting = [value]
    while waiting and total <= most:
        each = waiting.pop()
        total += _VALUE
        if isinstance(each, str):
            total += len(each)
        elif is_object(each):
            total += sum(map(len, map(str, each)))
            waiting.extend(each.values())
        elif is_array(each):
            waiting.extend(each)
    return total
