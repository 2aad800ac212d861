"""Decoding: the data of one SSE frame becomes one event (PROC-12, SSE-4, SSE-12).

The fast path is a conforming 1.0 event: strict validation of the official models accepts it, and nothing is in it that
the validator would take out. Every other frame becomes an `UnrecognizedEvent`, which the later stages examine. Most
frames of a stream repeat the one before but for the text of a delta, and are made of that one without validation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ag_ui.core import Event, RunFinishedEvent, RunFinishedInterruptOutcome
from pydantic import ValidationError

from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.events import VALIDATOR, UnrecognizedEvent, WireEvent
from agui_client._core.protocol.patch import DEEPEST_TEXT, DEEPEST_VALUE, nests_deeper
from agui_client._core.protocol.schema import (
    EVENT_MODELS,
    conforms,
    is_object,
    members,
    new_model,
    set_extra,
    set_given,
    set_private,
    set_values,
)
from agui_client._core.protocol.split_characters import SplitCharacters
from agui_client._core.protocol.traits import DELTAS, types_about
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import DecodeError, IncompleteRunError

_PLAIN_FIELDS = {model: members(model).plain for model in EVENT_MODELS.values()}
"""The fields of every event class that need no more than strict validation, if there is no null in the frame."""

_PIECES = frozenset({*DELTAS, *types_about(part="chunk")})
"""The classes of events with a piece of a text."""
_MAYBE_HUGE = re.compile(r"[0-9](?:[eE]\+?[0-9]{3}|[0-9]{208})")
"""A sign of each number that no float can hold, and that would become infinity: 208 digits and e99 still fit. Random
ids have it, too."""
_HUGE = re.compile(r"[\[:,\s]-?(?:[0-9]{209}|[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{3})")
"""The same where a number may stand; it costs twice as much as the search for any."""
_ESCAPE = re.compile(r"\\u[dD]")
_TOO_DEEP = "nests deeper than any event should"
_validate = VALIDATOR.validate_json
_is_rest_of_delta = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*"\}').fullmatch
"""Matches what follows the beginning of a delta, if its text has no escapes and ends the frame."""


class Decoder:
    """Turns frame data into events, one for one.

    Args:
        warnings: The log that knows the index of the latest event, for error messages.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        self._characters = SplitCharacters(warnings)
        self._halves = self._characters.halves
        self._beginning = "\0"  # begins no frame
        """The latest plain frame with a piece of text at its end, up to that text."""
        self._kind: type[Any]
        self._fields: dict[str, Any]
        self._given: set[str]

    def feed(self, data: str) -> WireEvent:
        """Decode one frame.

        Args:
            data: The frame's `data`, its lines joined with newlines.

        Returns:
            A conforming typed event, or the JSON object as an `UnrecognizedEvent`.

        Raises:
            DecodeError: The data is not a JSON object with a `type`.
        """
        beginning = self._beginning
        # To validate the frame as well would take half as much time again.
        if data.startswith(beginning) and _is_rest_of_delta(data, len(beginning)) and not self._halves:
            fields = self._fields.copy()
            fields["delta"] = data[len(beginning) : -2]
            # As `assembled` does, which would be one more call for most events of a stream.
            delta: Event = new_model(self._kind)
            set_values(delta, fields)
            set_given(delta, self._given.copy())
            set_extra(delta, {})
            set_private(delta, None)
            return delta
        is_too_deep = False
        try:
            event: Event = _validate(data, strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            is_too_deep = first["type"] == "json_invalid" and "recursion" in first["msg"]
        else:
            # A substring search of the frame costs less than a look at each field of the event.
            has_nulls = "null" in data
            is_plain = not has_nulls and _PLAIN_FIELDS[type(event)].issuperset(event.__pydantic_fields_set__)
            conforms_plainly = is_plain and not event.__pydantic_extra__
            # While half a character waits, every event may bring its other half, and takes the slow way.
            if not self._halves and (conforms_plainly or _conforms(event, data, has_nulls=has_nulls)):
                # With a time, no frame is like the one before.
                if conforms_plainly and type(event) in _PIECES and event.timestamp is None:
                    self._learn(event, data)
                return event
        # Outside of the handler: an error raised from here on must not have one as context that quotes the frame.
        if is_too_deep:
            self._reject(_TOO_DEEP)
        return self._unrecognized(data)

    def feed_all(self, frames: Sequence[str]) -> Iterable[WireEvent]:
        """Decode frames, each when the iteration comes to it; U+FFFD for half of a character is an event of its own.

        Args:
            frames: The data of the frames.

        Raises:
            DecodeError: The data of a frame is not a JSON object with a `type`.
        """
        # Few streams have escapes of halves, and others need no generator.
        events = map(self.feed, frames)
        return self.with_unpaired(events) if self._halves or _ESCAPE.search("".join(frames)) else events

    def with_unpaired(self, events: Iterable[WireEvent]) -> Iterator[WireEvent]:
        """Yield events as they are decoded, before each of them the deltas with U+FFFD of the items that it ended."""
        for event in events:
            for each in self._characters.unpaired():
                yield UnrecognizedEvent(each["type"], each)
            yield event

    def finish(self, tail: str) -> WireEvent:
        """Decode a last frame that ends without a blank line: it counts if it is complete.

        Args:
            tail: The data of the unterminated frame.

        Returns:
            The event in it.

        Raises:
            IncompleteRunError: The frame was cut, and the run with it (TRUNC-1).
        """
        try:
            return self.feed(tail)
        except DecodeError as error:
            what = f"the stream was cut inside a frame, {len(tail)} characters into it; the run has no outcome"
            raise IncompleteRunError(what, rule="TRUNC-1") from error

    def _learn(self, event: Any, data: str) -> None:
        """Remember a plain event with a piece of text, unless the text has escapes or does not end the frame."""
        beginning = data.removesuffix(f'{event.delta}"}}')
        if beginning.endswith(('"delta":"', '"delta": "')) and _is_rest_of_delta(data, len(beginning)):
            self._beginning, self._kind, self._fields = beginning, type(event), event.__dict__.copy()
            self._given = event.__pydantic_fields_set__.copy()

    def _unrecognized(self, data: str) -> UnrecognizedEvent:
        try:
            event: Any = load_json(data, parse_constant=_refuse_constant, parse_float=_finite)
        except ValueError as error:
            self._reject(f"is not JSON ({error})", error)
        except RecursionError as error:
            self._reject(_TOO_DEEP, error)
        if not is_object(event):
            self._reject(f"is JSON but no object: it is a {type(event).__name__}")
        if not isinstance(event.get("type"), str):
            self._reject("has no `type` that is a string")
        # What nests deeper than a recorder or a store can write again is refused where it enters.
        if nests_deeper(event, DEEPEST_TEXT) or _is_lifted_too_deep(event):
            self._reject(_TOO_DEEP)
        # Only an escape can spell half a character: in UTF-8 it would not have come through the framer.
        self._characters.mend(event, may_have_halves=_ESCAPE.search(data) is not None)
        return UnrecognizedEvent(event["type"], event)

    def _reject(self, what: str, cause: Exception | None = None) -> NoReturn:
        latest = self._warnings.event_index
        index = 0 if latest is None else latest + 1
        problem = f"the frame {what}; the producer must send one AG-UI event per frame"
        raise DecodeError(problem, rule="PROC-12", event_index=index, place=f"event {index}: ") from cause


def _conforms(event: Event, data: str, *, has_nulls: bool) -> bool:
    """Return whether the validator would return an event of the official classes unchanged."""
    if "NaN" in data or "Infinity" in data or (_MAYBE_HUGE.search(data) and _HUGE.search(data)):
        return False
    # A few characters are too few to nest too deeply.
    if len(data) > 2 * DEEPEST_VALUE and _is_lifted_too_deep(event.__dict__):
        return False
    # The ids of interrupts are compared by the validator (INT-2).
    has_interrupts = type(event) is RunFinishedEvent and isinstance(event.outcome, RunFinishedInterruptOutcome)
    return not has_interrupts and conforms(event, has_nulls=has_nulls)


def _is_lifted_too_deep(fields: Mapping[str, Any]) -> bool:
    # These come to lie deeper in a message than in their event; they are named alike in Python and on the wire.
    return any(nests_deeper(fields.get(name), DEEPEST_VALUE) for name in ("metadata", "content"))


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError("a number in it is out of range")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
