"""Decoding: the data of one SSE frame becomes one event (PROC-12, SSE-4, SSE-12).

The fast path is a conforming 1.0 event: strict validation of the official models accepts it, and nothing is in it that
enforcement would take out. Whatever is not plainly that leaves as an `UnrecognizedEvent`, for later stages to judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from ag_ui.core import BaseEvent, Event
from pydantic import ValidationError

from agui_client._pipeline.events import VALIDATOR, UnrecognizedEvent, WireEvent
from agui_client._pipeline.extent import DEEPEST_TEXT, DEEPEST_VALUE, nests_deeper
from agui_client._pipeline.halves import HalfCharacters
from agui_client._pipeline.schema import OPTIONAL_FIELDS, SHALLOW
from agui_client._pipeline.warnings import WarningLog
from agui_client.errors import DecodeError, IncompleteRunError

_LOOSE_FIELDS = {
    model: OPTIONAL_FIELDS[model]
    | {name for name, info in model.model_fields.items() if info.annotation is not str} - {"type"}
    for model in SHALLOW
}
"""Per event class that validation nearly judges alone, the fields in which it lets pass what is not conforming."""
_OPEN_FIELDS = {model: loose - {"timestamp", "subagent_run_id"} for model, loose in _LOOSE_FIELDS.items()}
"""Those of them that may hold numbers of any depth."""
_LIFTED_FIELDS = frozenset({"metadata", "content"})
"""What comes to lie deeper in a message than it did in its event; named alike in Python and on the wire."""
_SHALLOW_TEXT = 2 * DEEPEST_VALUE
"""Characters that can hold nothing too deep."""

_TOO_DEEP = "nests deeper than any event should"

_validate = VALIDATOR.validate_json


class Decoder:
    """Turns frame data into events, one for one.

    Args:
        warnings: Knows the index of the latest event, for error messages.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        self._halves = HalfCharacters()

    def feed(self, data: str) -> WireEvent:
        """Decode one frame.

        Args:
            data: The frame's `data`, its lines joined with newlines.

        Returns:
            A conforming typed event, or the JSON object as an `UnrecognizedEvent`.

        Raises:
            DecodeError: The data is no JSON object with a `type`.
        """
        is_too_deep = False
        try:
            event: Event = _validate(data, strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            is_too_deep = _is_too_deep(error)
        else:
            loose = _LOOSE_FIELDS.get(type(event))
            if loose is not None and not event.__pydantic_extra__ and not self._halves.waiting:
                given = event.__pydantic_fields_set__
                if loose.isdisjoint(given) or not _is_suspicious(event, loose & given, data):
                    return event
        # Outside of the handler: what is raised from here on must not drag along an error that quotes the frame.
        if is_too_deep:
            self._reject(_TOO_DEEP)
        return self._unrecognized(data)

    def finish(self, tail: str) -> WireEvent:
        """Decode a last frame that the blank line is missing from: it counts if it is whole.

        Args:
            tail: The data of the unterminated frame.

        Returns:
            The event it holds.

        Raises:
            IncompleteRunError: The frame was cut, and the run with it (TRUNC-1).
        """
        try:
            return self.feed(tail)
        except DecodeError as error:
            raise IncompleteRunError(
                f"the stream was cut inside a frame, {len(tail)} characters into it; the run has no outcome",
                rule="TRUNC-1",
            ) from error

    def _unrecognized(self, data: str) -> UnrecognizedEvent:
        try:
            value: Any = json.loads(data, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            self._reject(f"is not JSON ({error})", error)
        if not isinstance(value, dict):
            self._reject(f"is JSON but no object: it is a {type(value).__name__}")
        event_type = cast("dict[str, Any]", value).get("type")
        if not isinstance(event_type, str):
            self._reject("has no `type` that is a string")
        event = cast("dict[str, Any]", value)
        if nests_deeper(event, DEEPEST_TEXT) or _is_lifted_too_deep(event):
            self._reject(_TOO_DEEP)
        if not self._halves.mend(event, data):
            self._reject("holds half of a character (a lone surrogate)")
        return UnrecognizedEvent(event_type, event)

    def _reject(self, what: str, cause: Exception | None = None) -> NoReturn:
        latest = self._warnings.event_index
        index = 0 if latest is None else latest + 1
        raise DecodeError(
            f"event {index}: the frame {what}; the producer must send one AG-UI event per frame", rule="PROC-12"
        ) from cause


def _is_suspicious(event: BaseEvent, given: frozenset[str], data: str) -> bool:
    """Whether it may hold what validation lets pass: null for an optional field, no JSON number, or too many levels."""
    fields, optional = event.__dict__, OPTIONAL_FIELDS[type(event)]
    for name in given:
        if fields[name] is None and name in optional:
            return True
    if len(data) > _SHALLOW_TEXT and not _LIFTED_FIELDS.isdisjoint(given) and _is_lifted_too_deep(fields):
        return True
    return not _OPEN_FIELDS[type(event)].isdisjoint(given) and ("NaN" in data or "Infinity" in data)


def _is_lifted_too_deep(fields: Mapping[str, Any]) -> bool:
    return any(nests_deeper(fields.get(name), DEEPEST_VALUE) for name in _LIFTED_FIELDS)


def _is_too_deep(error: ValidationError) -> bool:
    first = error.errors(include_url=False, include_input=False)[0]
    return first["type"] == "json_invalid" and "recursion" in first["msg"]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
