"""Spoiling: one thing in a stream goes wrong, as a careless producer or a broken line would do it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from agui_client._core.protocol.schema import is_array, is_object
from weaves.naive import Json
from weaves.stages import encoded

_ODD_VALUES: tuple[Any, ...] = (None, True, 0, -1, 2.5, 2**70, "", "x", "m0", [], [None], {}, {"type": "hologram"})
_ODD_TYPES = (
    "FUTURE_EVENT",
    "",
    "text_message_start",
    "THINKING_START",
    "THINKING_END",
    "THINKING_TEXT_MESSAGE_CONTENT",
)
_NO_EVENTS = ("", "null", "[]", "7", '"RUN_FINISHED"', "{}", '{"type": null}', '{"type": 7}', "{", "[DONE]", "\ufeff{}")
_LITERALS = (
    "NaN",
    "-Infinity",
    "1e999",
    "1E400",
    '"\\ud83d"',
    "01",
    "'x'",
    "9" * 5000,
    "[" * 5000,
    "[" * 300 + "]" * 300,
)


@dataclass(frozen=True)
class Spoiled:
    """A stream in which one thing is wrong."""

    how: str
    """What was done to it."""
    frames: list[str]
    """The data of its frames."""

    def intact(self, events: list[Json]) -> list[str]:
        """The frames before the first that is not as it was."""
        same = 0
        for frame, event in zip(self.frames, events, strict=False):
            if frame != encoded(event):
                break
            same += 1
        return self.frames[:same]


def spoil(random: Random, events: list[Json]) -> Spoiled:
    """Spoil one event of a legal stream.

    Args:
        random: Decides what and how.
        events: The stream; it is not changed.
    """
    spoiler = random.choice(_SPOILERS)
    spoiled = copy.deepcopy(events)
    frames = spoiler(random, spoiled, random.randrange(len(spoiled)))
    how = spoiler.__name__.removeprefix("_")
    return Spoiled(how, [encoded(event) for event in spoiled] if frames is None else frames)


# --- events out of place


def _drop(_random: Random, events: list[Json], at: int) -> None:
    del events[at]


def _double(_random: Random, events: list[Json], at: int) -> None:
    events.insert(at, events[at])


def _swap(random: Random, events: list[Json], at: int) -> None:
    other = random.randrange(len(events))
    events[at], events[other] = events[other], events[at]


def _move(random: Random, events: list[Json], at: int) -> None:
    events.insert(random.randrange(len(events)), events.pop(at))


def _cut_off(_random: Random, events: list[Json], at: int) -> None:
    del events[at:]


# --- events about something else


def _retag(random: Random, events: list[Json], at: int) -> None:
    tag = random.choice(("s1", "s2", "s3", "nobody", "", None))
    if tag is None:
        events[at].pop("subagentRunId", None)
    else:
        events[at]["subagentRunId"] = tag


def _rename(random: Random, events: list[Json], at: int) -> None:
    names = [name for name in events[at] if name.endswith(("Id", "Name"))]
    if names:
        events[at][random.choice(names)] = random.choice(
            ("m0", "m1", "c0", "r0", "t0", "a0", "u1", "", "nobody", "look")
        )


def _change_type(random: Random, events: list[Json], at: int) -> None:
    events[at]["type"] = random.choice([*_ODD_TYPES, *(event["type"] for event in events)])


# --- events with something in them


def _null(random: Random, events: list[Json], at: int) -> None:
    _set_anywhere(random, events[at], None)


def _retype(random: Random, events: list[Json], at: int) -> None:
    _set_anywhere(random, events[at], random.choice(_ODD_VALUES))


def _remove_field(random: Random, events: list[Json], at: int) -> None:
    container, key = random.choice(_places(events[at]))
    del container[key]


def _add_null(random: Random, events: list[Json], at: int) -> None:
    name = random.choice(
        ("timestamp", "rawEvent", "metadata", "subagentRunId", "role", "parentMessageId", "outcome", "input")
    )
    events[at][name] = None


def _add_property(random: Random, events: list[Json], at: int) -> None:
    objects = [item for item in _values(events[at]) if is_object(item)]
    random.choice(objects)[random.choice(("future", "message_id", "from", "_"))] = random.choice(_ODD_VALUES)


def _unknown_member(random: Random, events: list[Json], at: int) -> None:
    objects = [item for item in _values(events[at]) if is_object(item)]
    random.choice(objects)[random.choice(("role", "subtype", "op", "type", "outcome", "status"))] = random.choice(
        ("narrator", {"type": "paused"}, ["paused"], 7)
    )


# --- frames that are no events


def _no_event(random: Random, events: list[Json], at: int) -> list[str]:
    frames = [encoded(event) for event in events]
    frames[at] = random.choice(_NO_EVENTS)
    return frames


def _cut_frame(random: Random, events: list[Json], at: int) -> list[str]:
    frames = [encoded(event) for event in events]
    frames[at] = frames[at][: random.randrange(len(frames[at]))]
    return frames


def _odd_literal(random: Random, events: list[Json], at: int) -> list[str]:
    """A value in the spelling of another language than JSON, or one that Python reads differently."""
    _set_anywhere(random, events[at], "@literal@")
    frames = [encoded(event) for event in events]
    frames[at] = frames[at].replace('"@literal@"', random.choice(_LITERALS))
    return frames


def _noise(random: Random, events: list[Json], at: int) -> list[str]:
    frames = [encoded(event) for event in events]
    place = random.randrange(len(frames[at]))
    frames[at] = frames[at][:place] + random.choice(('"', "}", ",", "\\", "\x00", "é")) + frames[at][place + 1 :]
    return frames


def _set_anywhere(random: Random, event: Json, value: Any) -> None:
    container, key = random.choice(_places(event))
    container[key] = copy.deepcopy(value)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every member and element in a value, at any depth, as its container and its key."""
    keys: list[Any] = list(value) if is_object(value) else list(range(len(value))) if is_array(value) else []
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


def _values(value: Any) -> list[Any]:
    return [value, *(container[key] for container, key in _places(value))]


_SPOILERS: tuple[Callable[[Random, list[Json], int], list[str] | None], ...] = (
    *(_drop, _double, _swap, _move, _cut_off, _retag, _rename, _change_type),
    *(_null, _retype, _retype, _remove_field, _add_null, _add_property, _unknown_member),
    *(_no_event, _cut_frame, _odd_literal, _noise),
)
