"""The events that pass between the stages: the protocol's typed events, and JSON objects that are none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ag_ui.core import Event
from pydantic import TypeAdapter

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.fail_fast import failing_fast


@dataclass(frozen=True, slots=True)
class UnrecognizedEvent(Record):
    """An event as JSON, before validation: one that the 1.0 models cannot represent, or that is not validated yet.

    Middleware receives it where a producer uses an older, newer or wrong dialect, and may translate it into a typed
    event. Validation gets those that were not translated: an unknown type is dropped with a warning (PROC-7).
    """

    type: str
    """The value of the event's `type`."""
    data: dict[str, Any]
    """The whole JSON object, `type` included, with its keys as they were on the wire."""


WireEvent: TypeAlias = Event | UnrecognizedEvent
"""The events between the agent and validation."""

TERMINAL = ("RUN_FINISHED", "RUN_ERROR")
"""The types of the events that end a run; no set, as the type of an event may be any JSON before it is decoded."""

VALIDATOR = failing_fast(TypeAdapter[Event](Event).core_schema)
"""The validator of any event, which stops at its first faults; made once, since that takes milliseconds."""


def is_terminal(event: WireEvent) -> bool:
    """Return whether an event ends its run, also if it is not validated yet."""
    return event.type in TERMINAL
