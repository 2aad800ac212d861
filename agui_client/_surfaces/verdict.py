"""The verdict: what the end of a stream means, however it came (design: how a run ends)."""

from __future__ import annotations

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
    from agui_client._pipeline import Pipeline
    from agui_client._pipeline.warnings import WarningLog


def verdict(pipeline: Pipeline) -> AGUIError | None:
    """What a run failed with whose stream ended: only a terminal event of the last run makes it a success (TRUNC-1).

    Args:
        pipeline: What the stream went through.

    Returns:
        The failure; None if the run finished.
    """
    try:
        pipeline.verify.finish()
    except ProtocolError as error:
        return error
    reported = pipeline.settlement.error
    return None if reported is None else RunFailedError(reported)


def verdict_on(error: Exception, pipeline: Pipeline, warnings: WarningLog) -> Exception | None:
    """What a run failed with whose stream ended in an exception.

    A connection that broke or fell silent after a terminal event has lost nothing.

    Args:
        error: The exception.
        pipeline: What the stream went through.
        warnings: Where it is reported if nothing was lost.

    Returns:
        The failure; None if the run finished before.
    """
    if not isinstance(error, ConnectError | StreamTimeoutError) or pipeline.settlement.first_event_at is None:
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


def verdict_on_part(error: Exception | None, warnings: WarningLog) -> Exception | None:
    """What a replay failed with that stopped between two runs, and told less than is held (TRUNC-1).

    Args:
        error: What it was broken by; None if it ended.
        warnings: Where it is reported if it ended.

    Returns:
        The failure; None if it ended.
    """
    what = "the replay stopped after a run, before it came as far as what is held; that stays"
    if error is None:
        warnings.add("TRUNC-1", what)
        return None
    if isinstance(error, StreamTimeoutError):
        return error
    cut = IncompleteRunError(f"{what}; {error}", rule="TRUNC-1")
    cut.__cause__ = error
    return cut
