"""Logs: a record of each run and of each call, with counts and timings and no payload; events only on request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from agui_client._protocol.schema import is_array, is_object
from agui_client._run.hooks import HookContext, Subscriber
from agui_client._run.observers import RunObserver
from agui_client.errors import printable

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client._run.observers import CallEnd, RunEnd
    from agui_client._run.scope import RunScope

_logger = logging.getLogger("agui_client.run")
_calls = logging.getLogger("agui_client.call")
_events = logging.getLogger("agui_client.events")
_SECRET = frozenset({"encryptedValue", "encrypted_value", "rawEvent"})


class RunLog(RunObserver):
    """Logs the end of each run and call at INFO, also of a failed one, whose error is raised.

    `record.agui` has the numbers: of a run its own, of a call those of all its runs.
    """

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Log the end of a run; of a failure only its class."""
        thread_id, seconds = printable(run.input.thread_id), end.timings.total or 0.0
        shown = printable(end.run_id), thread_id, _ending(end), end.events, seconds
        _logger.info("run %s of thread %s: %s, %d events in %.3f s", *shown, extra={"agui": _fields(run, end)})

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        """Log the end of a call, and what its runs add up to."""
        tools = len(end.tool_executions)
        fields = {**_fields(run, end), "runs": end.runs, "tool_executions": tools}
        shown = printable(run.input.thread_id), _ending(end), end.runs, end.events, tools, end.timings.total or 0.0
        form = "call on thread %s: %s, %d runs, %d events, %d tools in %.3f s"
        _calls.info(form, *shown, extra={"agui": fields})


def _ending(end: RunEnd) -> str:
    return end.ending or type(end.error).__name__


def _fields(run: RunScope, end: RunEnd) -> dict[str, object]:
    return {
        "thread_id": run.input.thread_id,
        "run_id": end.run_id,
        "ending": _ending(end),
        "events": end.events,
        "attempts": len(end.attempts),
        "warnings": end.warnings,
        "connect_seconds": end.timings.connect,
        "first_event_seconds": end.timings.first_event,
        "first_text_seconds": end.timings.first_text,
        "total_seconds": end.timings.total,
    }


class EventLog(Subscriber):
    """Logs every event with its payload, at DEBUG on `agui_client.events`: `agent.subscribe(EventLog())`.

    Without it no payload is ever logged. Values of `encryptedValue` and `rawEvent` are left out.
    """

    def on_event(self, event: Event, context: HookContext) -> None:
        """Log an event as JSON."""
        if _events.isEnabledFor(logging.DEBUG):
            shown = without_secrets(event.model_dump(mode="json", by_alias=True, exclude_none=True))
            _events.debug("run %s: %s", context.run_id, shown)


def without_secrets(value: Any) -> Any:
    """Return a JSON value with the members left out that may be secret."""
    if is_object(value):
        return {key: "[left out]" if key in _SECRET else without_secrets(inner) for key, inner in value.items()}
    return [without_secrets(inner) for inner in value] if is_array(value) else value
