"""The ways to join the responses that carry one run: which of their events are new, and when the run has ended.

Events with members that the protocol does not know, or with nulls, are JSON until they are validated. They are joined
by what validation will make of them, and delivered as they came.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ag_ui.core import EventType, RunStartedEvent

from agui_client._core.protocol.compat import Translator
from agui_client._core.protocol.events import TERMINAL, UnrecognizedEvent, WireEvent, is_terminal
from agui_client._core.protocol.plain_json import object_in
from agui_client._core.protocol.schema import EVENT_MODELS
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.transport.replay_filter import Delivered, ReplayFilter
from agui_client.errors import InvalidEventError


class Joining(ABC):
    """Joins the responses that carry one run."""

    is_pending = False
    """Whether the server has responded without the end of the run, so that it may still work on it."""
    is_known = False
    """Whether it is certain that the server has the run."""

    @abstractmethod
    def new(self, events: Iterable[WireEvent] | None) -> Iterable[WireEvent] | None:
        """Return the events that the application does not have, possibly none.

        Args:
            events: The events that arrived together; None at the end of a response.

        Returns:
            The events; None to continue with the end of the response.
        """

    @abstractmethod
    def begin_response(self, *, has_begun: bool) -> None:
        """Continue with a response that takes up the run.

        Args:
            has_begun: Whether an event of the run has arrived.
        """

    @abstractmethod
    def has_ended(self, frame: str | None) -> bool:
        """Return whether the run has ended.

        Args:
            frame: The data of the latest frame; None before the first.
        """


class ContinueAtCursor(Joining):
    """Each response continues where the one before broke off.

    Args:
        run_id: The id of the run; None for a replay.
    """

    def __init__(self, run_id: str | None) -> None:
        self._run_id = run_id
        self._is_reconnected = False

    def new(self, events: Iterable[WireEvent] | None) -> Iterable[WireEvent] | None:
        """Return all events; they are decoded as they are iterated."""
        return self._without_second_start(events) if events is not None and self._is_reconnected else events

    def begin_response(self, *, has_begun: bool) -> None:
        """Continue with a response that takes up the run; an id may come before the first event."""
        self._is_reconnected = has_begun

    def has_ended(self, frame: str | None) -> bool:
        """Return whether the latest frame is the end of a run."""
        if frame is None or not any(name in frame for name in TERMINAL):
            return False
        return str(object_in(frame).get("type")) in TERMINAL

    def _without_second_start(self, events: Iterable[WireEvent]) -> Iterator[WireEvent]:
        """Leave out the RUN_STARTED with which a server may begin each response."""
        for event in events:
            # Only this one is validated here: at a cursor, all others are delivered as they came.
            known = _validated(event) if event.type == EventType.RUN_STARTED else event
            if not (isinstance(known, RunStartedEvent) and known.run_id == self._run_id):
                yield event


class SkipDelivered(Joining):
    """Each further response sends the run again from its beginning; what was delivered is skipped.

    Events are decoded at once, and not as they are iterated: what is new says whether the server gets on.

    Args:
        state: The state that was sent for it.
    """

    def __init__(self, run_id: str, state: Any) -> None:
        self._delivered, self._state = Delivered(run_id), state
        self._filter: ReplayFilter | None = None
        self._fault: Exception | None = None
        self._has_ended = False

    def new(self, events: Iterable[WireEvent] | None) -> Iterable[WireEvent] | None:
        """Return the events that the application does not have."""
        if self._fault is not None:
            raise self._fault
        if events is None:
            return None
        found: list[WireEvent] = []
        try:
            for event in events:
                found += self._new(event)
        except Exception as error:
            if not found:
                raise
            self._fault = error  # raised behind the events before it
        return found

    def begin_response(self, *, has_begun: bool) -> None:
        """Continue with a response that sends the run again."""
        self._filter = ReplayFilter(self._delivered, self._state)

    def has_ended(self, frame: str | None) -> bool:
        """Return whether the application has the end of the run."""
        return self._has_ended

    @property
    def has_begun(self) -> bool:
        """Whether the application has the beginning of the run."""
        return self._delivered.has_begun

    def _new(self, event: WireEvent) -> list[WireEvent]:
        known = _validated(event)
        if self._filter is None:
            self._delivered.note(known)
            found = [event]
        else:
            found = [event if each is known else each for each in self._filter.feed(known)]
        self._has_ended = self._has_ended or any(map(is_terminal, found))
        return found


class PollUntilFinished(Joining):
    """Further responses have the thread as it is stored, and nothing of a run that has not finished.

    Args:
        first: Joins the responses that have the end of the run; None for a replay, of which the first response that has
            it is all.
        is_whole: Returns whether a response has the end of the run.
    """

    def __init__(self, first: SkipDelivered | None, is_whole: Callable[[Sequence[WireEvent]], bool]) -> None:
        self._first, self._is_whole = first, is_whole
        self._response: list[WireEvent] | None = [] if first is None else None
        self._has_ended = False

    def new(self, events: Iterable[WireEvent] | None) -> Iterable[WireEvent] | None:
        """Collect a response; return what is new when it is over."""
        if self._response is None:
            assert self._first is not None
            return self._first.new(events)
        if events is not None:
            self._response += events
            return ()
        response, self._response = self._response, []
        # Without its end, the response was cut.
        if not response or not is_terminal(response[-1]):
            return None
        if not self._is_whole([*map(_validated, response)]):
            self.is_pending = True
            self.is_known = self.is_known or self._first is None or self._first.has_begun
            return None
        self._has_ended = True
        return response if self._first is None else self._first.new(response)

    def begin_response(self, *, has_begun: bool) -> None:
        """Continue with a response that has the thread as it is stored."""
        self._response = []
        if self._first is not None:
            self._first.begin_response(has_begun=has_begun)

    def has_ended(self, frame: str | None) -> bool:
        """Return whether the application has the end of the run."""
        return self._has_ended or (self._first is not None and self._first.has_ended(frame))


class _NoWarnings(WarningLog):
    """Drops warnings: validation gives them later, for the events that are delivered."""

    def add(self, rule: str, message: str, **about: str | None) -> None:
        """Drop a warning."""


# One of each serves all streams: what they remember of one belongs to retired types, which do not come here.
_translated = Translator(_NoWarnings()).feed
_without_unknown = Validator(_NoWarnings(), null_fields="drop").feed


def _validated(event: WireEvent) -> WireEvent:
    """Return what validation makes of an event; the event itself if its type is unknown, or it is malformed."""
    # Retired types are left, too: their events have no ids by which they could be joined.
    if not isinstance(event, UnrecognizedEvent) or event.type not in EVENT_MODELS:
        return event
    try:
        return _without_unknown(_translated(event)) or event
    except InvalidEventError:
        return event
