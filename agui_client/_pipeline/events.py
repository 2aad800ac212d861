"""The currency of the stages: the protocol's typed events, and whatever else came over the wire in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ag_ui.core import Event
from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class UnrecognizedEvent:
    """An event as JSON, before enforcement: one the 1.0 models cannot hold, or that has not been judged yet.

    Middleware meets it where a producer speaks an older, newer or wrong dialect, and may translate it into a typed
    event. What nobody translated is judged by enforcement: an unknown type is dropped with a warning (PROC-7).
    """

    type: str
    """The value of the event's `type`."""
    data: dict[str, Any]
    """The whole JSON object, `type` included, with its keys as they were on the wire."""


WireEvent: TypeAlias = Event | UnrecognizedEvent
"""What travels between the agent and enforcement."""

VALIDATOR = TypeAdapter[Event](Event).validator
"""Validates any event; made once, since that takes milliseconds."""
