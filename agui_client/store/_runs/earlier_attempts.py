"""Attempts at a run whose processes ended, and the way of their followers to the present attempt.

A run whose process ended is attempted again, from its last checkpoint: the events behind that are cut out of the log,
and snapshots of the conversation and new events take their place. A follower that has read some of the cut events
first gets the ends of the messages, calls and steps that they left open. Subagents continue instead: a team that is run
again gives its members the ids that they had, and no id is announced twice in a stream (SUB-6). So such a follower gets
the beginning and the end of each subagent once, whichever attempts they are of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ag_ui.core import SubagentErrorEvent, SubagentStartedEvent

from agui_client._core.agent.run_records import Place
from agui_client._core.protocol.open_items import RunItems
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.verbs.sse import event_of, frame_of

_SUBAGENT = b'data: {"type":"SUBAGENT_'
"""The beginning of a frame with the beginning or the end of a subagent."""
_FINISHED = b'data: {"type":"RUN_FINISHED"'
"""The beginning of the frame with which a run finishes."""


class _Cut(NamedTuple):
    """Events that were replaced, as the process that wrote them ended."""

    attempt: int
    """The attempt that wrote them."""
    position: int
    """The number of events before them."""
    frames: Sequence[bytes]
    """Their frames."""


class EarlierAttempts:
    """The events of a run that were cut out of its log, from the first attempt on."""

    def __init__(self) -> None:
        self._cuts: list[_Cut] = []

    def add(self, attempt: int, position: int, frames: Sequence[bytes]) -> None:
        """Add the events of an attempt that the next one replaces.

        Args:
            attempt: The attempt that wrote them.
            position: The number of events before them.
            frames: Their frames.
        """
        self._cuts.append(_Cut(attempt, position, frames))

    def ends(self, place: Place) -> list[tuple[Place, bytes]]:
        """Return the ends of what a follower saw of an earlier attempt, apart from those that it has.

        Args:
            place: The place of the follower in that attempt.

        Returns:
            The frames, each with the place behind it.
        """
        ends = _ends_of(self._seen(place))[place.ends :]
        return [(place._replace(ends=number), each) for number, each in enumerate(ends, place.ends + 1)]

    def caught_up(self, place: Place, attempt: int) -> Place:
        """Return the place in the present attempt where a follower of an earlier one continues.

        Args:
            place: The place of the follower in the earlier attempt.
            attempt: The present attempt.
        """
        position = min([place.position, *(each.position for each in self._cuts if each.attempt >= place.attempt)])
        has_subagents = any(each.startswith(_SUBAGENT) for each in self._seen(place))
        left = [Place(place.position, place.attempt)] if has_subagents else []
        return Place(position, attempt, (*place.earlier, *left))

    def passed_on(self, frames: Sequence[bytes], place: Place, written: Sequence[bytes]) -> list[tuple[Place, bytes]]:
        """Return frames of the present attempt as a follower gets them.

        Args:
            frames: The frames behind the follower's place.
            written: All frames of the present attempt.

        Returns:
            The frames, each with the place behind it.
        """
        if not place.earlier:
            return [(Place(number, place.attempt), each) for number, each in enumerate(frames, place.position + 1)]
        subagents = _KnownSubagents(frame for earlier in place.earlier for frame in self._seen(earlier))
        for frame in written[: place.position]:
            subagents.passed_on(frame)
        found: list[tuple[Place, bytes]] = []
        for frame in frames:
            passed = subagents.passed_on(frame)
            ends = [(place._replace(ends=number), each) for number, each in enumerate(passed[:-1], 1)]
            found += ends[place.ends :]
            place = Place(place.position + 1, place.attempt, place.earlier)
            found += [(place, each) for each in passed[-1:]]
        return found

    def _seen(self, place: Place) -> Sequence[bytes]:
        """Return the frames that were cut and that a follower has seen."""
        cut = next((each for each in self._cuts if each.attempt >= place.attempt), None)
        return cut.frames[: max(0, place.position - cut.position)] if cut is not None else ()


class _KnownSubagents:
    """The subagents that a follower saw begin in earlier attempts.

    Args:
        seen: The frames of these attempts that the follower saw.
    """

    def __init__(self, seen: Iterable[bytes]) -> None:
        self._is_active: dict[str, bool] = {}
        for frame in seen:
            if frame.startswith(_SUBAGENT):
                event: Any = event_of(frame)
                is_begin = isinstance(event, SubagentStartedEvent)
                self._is_active[event.subagent_run_id] = is_begin and self._is_active.get(event.subagent_run_id, True)

    def passed_on(self, frame: bytes) -> Sequence[bytes]:
        """Take in a frame of the present attempt; return what the follower gets for it."""
        if frame.startswith(_FINISHED):
            return [*self._ends(), frame]
        if not frame.startswith(_SUBAGENT):
            return [frame]
        event: Any = event_of(frame)
        is_active = self._is_active.get(event.subagent_run_id)
        if is_active is None:
            return [frame]
        if isinstance(event, SubagentStartedEvent):
            return ()
        self._is_active[event.subagent_run_id] = False
        return [frame] if is_active else ()

    def _ends(self) -> list[bytes]:
        """Return the ends of those that the present attempt did not make again (SUB-7), the inner ones first."""
        active = [each for each, is_active in reversed(self._is_active.items()) if is_active]
        message = "The process of the run ended."
        return [
            frame_of(SubagentErrorEvent(subagent_run_id=each, message=message, code="cancelled")) for each in active
        ]


def _ends_of(frames: Sequence[bytes]) -> list[bytes]:
    """Return the ends of messages, calls and steps that events leave open."""
    run = RunItems(WarningLog())
    checks = run.checks()
    for frame in frames:
        event = event_of(frame)
        if (check := checks.get(type(event))) is not None:
            check(event)
    return [frame_of(each) for each in run.ends()]
