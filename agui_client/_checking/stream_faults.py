"""Faults of a stream, each kind once with a count, and without secrets."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.json_reading import load_json
from agui_client._core.ground.secrets import hidden_json, hidden_text
from agui_client._core.protocol.rules import rule_of
from agui_client._core.protocol.warnings import without_positions
from agui_client._rendering.escaping import exact_line

FaultSeverity: TypeAlias = Literal["error", "warning", "advice"]
SEVERITIES: tuple[FaultSeverity, ...] = get_args(FaultSeverity)
"""The severities, the worst first."""
_MOST = 1000
"""The number of kinds of faults from which on the rest is only counted."""
_LONGEST_EVENT = 300
_REST = "more"


@dataclass(frozen=True, slots=True)
class StreamFault(Record):
    """A rule of the protocol that a stream breaks, as `validate` finds it."""

    rule: str
    """The id of the rule, such as "LIFE-3"; "more" for the record that counts the rest of a flood."""
    severity: FaultSeverity
    """ "error": clients reject the stream; "warning": they continue, and leave something out; "advice": the protocol
    allows it, and it is hardly meant."""
    problem: str
    """The fault, in a sentence."""
    fix: str
    """The way to fix it, for those who wrote the agent."""
    event: str = ""
    """The JSON of the event, shortened, without secrets; empty for a fault of the whole stream."""
    event_index: int | None = None
    """The position of the event in the stream, from 0; of several occurrences the first. None for the whole stream."""
    event_type: str | None = None
    """The type of the event; None if it has none."""
    path: str | None = None
    """The JSON pointer of the value inside the event; None if the whole event is meant."""
    line: int | None = None
    """The line of the text on which the event begins, from 1; None for events that were given as objects."""
    byte: int | None = None
    """The position of the event in the text, in bytes from 0; None as for `line`."""
    request: str | None = None
    """The key of the request whose response has the fault, in a recording."""
    count: int = 1
    """The number of events with the same fault."""

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [f"{self.severity} {self.rule}: {self.problem}{times}"]
        if self.event:
            lines.append(f"  {self.event}")
        return "\n".join([*lines, f"  fix: {self.fix}"])


@dataclass(frozen=True, slots=True)
class EventPlace:
    """The event that is read, and its place."""

    content: str
    """The JSON of the event, or whatever came in its place; empty at the end of the stream."""
    event_index: int | None = None
    """Its position in the stream."""
    event_type: str | None = None
    """Its type."""
    line: int | None = None
    """Its line in the text."""
    byte: int | None = None
    """Its position in the text."""
    request: str | None = None
    """The key of the request in a recording."""


class Faults:
    """Collects faults: those of one kind are one record with a count."""

    def __init__(self) -> None:
        self._found: dict[Hashable, StreamFault] = {}

    def add(
        self,
        rule: str,
        sentence: str,
        place: EventPlace,
        *,
        severity: FaultSeverity,
        path: str | None = None,
        what: str | None = None,
    ) -> Hashable:
        """Note a fault, and return the key under which it is counted.

        Args:
            rule: The id of the rule.
            sentence: The fault.
            place: The event with the fault.
            path: The JSON pointer of the value.
            what: What faults of one kind have in common, if there is no path; the sentence if left out.
        """
        # Values differ from event to event; an event out of order names its item, and items are faults of their own.
        what = sentence if what is None else what
        if path is not None:
            what = without_positions(path)
        kind = "" if path is None else place.event_type
        key = place.request, rule, severity, kind, what
        if key in self._found:
            return self.count(key)
        if len(self._found) >= _MOST:
            key = place.request, _REST, severity, "", ""
            if key in self._found:
                return self.count(key)
            rule, place = _REST, EventPlace("")
            sentence = f"more than {_MOST} kinds of faults; the rest is only counted"
        self._found[key] = StreamFault(
            rule=rule,
            severity=severity,
            problem=hidden_text(sentence),
            fix="fix those above first" if rule == _REST else rule_of(rule).remedy,
            event=_shown(place.content),
            event_index=place.event_index,
            event_type=place.event_type,
            path=path,
            line=place.line,
            byte=place.byte,
            request=place.request,
        )
        return key

    def count(self, key: Hashable) -> Hashable:
        """Count one more occurrence of a fault; return its key."""
        found = self._found[key]
        self._found[key] = replace(found, count=found.count + 1)
        return key

    def records(self) -> list[StreamFault]:
        """Return the faults so far, in the order in which they first occurred."""
        return list(self._found.values())


def _shown(content: str) -> str:
    """Return an event for a message: without secrets, on one line, cut, and harmless on a screen."""
    try:
        text = json.dumps(hidden_json(load_json(content)), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        text = hidden_text(content)
    except RecursionError:
        text = "[nested too deeply]"
    return exact_line(text, _LONGEST_EVENT)
