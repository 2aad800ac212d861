"""Runs that were recorded, and the same runs replayed: what must be equal, with the ids that callers mint numbered."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_jsonable_python

from agui_client import AGUIError, RunResult
from agui_client._core.ground.secrets import hidden_line
from agui_client.recording import Recording
from support.verbs import Ending

if TYPE_CHECKING:
    from pathlib import Path

    from ag_ui.core import Event, Message

    from agui_client import AbstractAgent

_MINTED = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")


def numbered(value: Any) -> Any:
    """A JSON value with the minted ids in it numbered in the order of their first occurrence, and without secrets."""
    numbers: dict[str, str] = {}
    plain = to_jsonable_python(value, by_alias=True, fallback=repr)
    text = hidden_line(json.dumps(plain, ensure_ascii=False))
    return json.loads(_MINTED.sub(lambda found: numbers.setdefault(found[0], f"id-{len(numbers) + 1}"), text))


def facts(ending: Ending, agent: AbstractAgent) -> Any:
    """Everything about a run that its replay has to bring again."""
    error, result = ending.error, ending.result
    if isinstance(error, AGUIError):
        result = cast("RunResult | None", error.partial)
    return numbered(
        {
            "events": None if ending.events is None else [dumped(event) for event in ending.events],
            "error": None if error is None else [type(error).__name__, str(error)],
            "messages": [dumped(message) for message in agent.messages],
            "state": agent.state,
            "interrupts": agent.pending_interrupts,
            "pending": agent.pending_tool_calls,
            "result": None
            if result is None
            else [result.text, result.result, result.outcome, result.usage, result.warnings, result.incomplete_ids],
            "tools": None if result is None else [(each.name, each.status) for each in result.tool_executions],
        }
    )


def dumped(model: Event | Message) -> Any:
    """A model as JSON, without the time at which it was sent."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"timestamp"}, warnings=False)


def lines_of(path: Path) -> Any:
    """A recording without its times and keys, and without what depends on how an answer was sent."""
    left_out = {"at", "request", "call", "session", "time", "timings", "seconds", "agent", "headers", "address"}
    lines = [line.model_dump(exclude=left_out) for line in Recording.read(path).lines]
    for line in lines:
        line.get("event", {}).pop("timestamp", None)
    return numbered(lines)
