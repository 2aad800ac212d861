"""The verdict on a stream that ended: only a terminal event of its last run makes a success (TRUNC-1)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agui_client.errors import (
    AGUIError,
    ConnectError,
    IncompleteRunError,
    ProtocolError,
    RunFailedError,
    StreamTimeoutError,
)

if TYPE_CHECKING:
    from agui_client._protocol.pipeline import Pipeline
    from agui_client._protocol.warnings import WarningLog

_logger = logging.getLogger("agui_client")


def verdict(pipeline: Pipeline, *, may_be_empty: bool = False) -> AGUIError | None:
    """Return the failure of a run whose stream ended by itself; None if the run finished.

    Args:
        pipeline: The stages that the stream went through.
        may_be_empty: Whether a stream without any event is fine, as a replay of nothing is.
    """
    if may_be_empty and not pipeline.count:
        return None
    try:
        pipeline.verifier.finish()
    except ProtocolError as error:
        return error
    reported = pipeline.outcome.error
    return None if reported is None else RunFailedError(reported)


def verdict_on_break(
    error: Exception, pipeline: Pipeline, warnings: WarningLog, *, is_aborted: bool
) -> Exception | None:
    """Return the failure of a run whose stream ended in an exception; None if the run had finished before.

    A connection that breaks or falls silent after a terminal event has lost nothing, and an exception of an agent that
    was stopped is no failure.

    Args:
        error: The exception.
        pipeline: The stages that the stream went through.
        warnings: The log that it is reported to if nothing was lost.
        is_aborted: Whether the run was stopped from here.
    """
    if is_aborted:
        _logger.warning("a run was aborted, and then raised %r", error)
        return None
    if not isinstance(error, ConnectError | StreamTimeoutError) or pipeline.outcome.first_event_at is None:
        return error
    failure = verdict(pipeline)
    if not isinstance(failure, IncompleteRunError):
        warnings.add("TRUNC-1", f"after the run had ended, {error}")
        return failure
    if isinstance(error, StreamTimeoutError):
        return error
    cut = IncompleteRunError(f"{failure}; {error}", rule=failure.rule)
    cut.__cause__ = error
    return cut
