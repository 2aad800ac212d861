"""Logs: one record per run on `agui_client.run`, with counts and timings and no payload; events only for who asks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from agui_client._pipeline.schema import is_array, is_object
from agui_client._surfaces.hooks import HookContext, Subscriber

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client.result import RunResult

_logger = logging.getLogger("agui_client.run")
_events = logging.getLogger("agui_client.events")
_SECRET = frozenset({"encryptedValue", "encrypted_value", "rawEvent"})


def ending(result: RunResult, failure: Exception | None) -> str | None:
    """How a run ended, in a word: its outcome, or "aborted"; None if it failed, whatever it had said before.

    Args:
        result: What it came to.
        failure: What it failed with.
    """
    if failure is not None:
        return None
    if result.aborted:
        return "aborted"
    # A thread that is told again may have nothing to tell.
    return "nothing" if result.outcome is None else result.outcome.type


def log_end(result: RunResult, failure: Exception | None, events: int) -> None:
    """Log at INFO that a run is over, also one that failed, as that is raised; `record.agui` has the numbers.

    Args:
        result: What it came to.
        failure: What it failed with; only its class is logged.
        events: How many events arrived.
    """
    if not _logger.isEnabledFor(logging.INFO):
        return
    how = ending(result, failure) or type(failure).__name__
    timings = result.timings
    fields = {
        "thread_id": result.thread_id,
        "run_id": result.run_id,
        "ending": how,
        "events": events,
        "attempts": len(result.attempts),
        "warnings": len(result.warnings),
        "connect_seconds": timings.connect,
        "first_event_seconds": timings.first_event,
        "first_text_seconds": timings.first_text,
        "total_seconds": timings.total,
    }
    _logger.info(
        "run %s of thread %s: %s, %d events in %.3f s",
        result.run_id,
        result.thread_id,
        how,
        events,
        timings.total or 0.0,
        extra={"agui": fields},
    )


class EventLog(Subscriber):
    """Logs every event with its payload, at DEBUG on `agui_client.events`: `agent.subscribe(EventLog())`.

    Without it no payload is ever logged. What is named `encryptedValue` or `rawEvent` is left out.
    """

    def on_event(self, event: Event, context: HookContext) -> None:
        """Log an event as JSON."""
        if _events.isEnabledFor(logging.DEBUG):
            shown = _without_secrets(event.model_dump(mode="json", by_alias=True, exclude_none=True))
            _events.debug("run %s: %s", context.run_id, shown)


def _without_secrets(value: Any) -> Any:
    if is_object(value):
        return {key: "[left out]" if key in _SECRET else _without_secrets(inner) for key, inner in value.items()}
    return [_without_secrets(inner) for inner in value] if is_array(value) else value
