"""The last steps of a run: close everything, settle the conversation, and tell subscribers and observers.

Each step is taken, whatever became of the ones before; the first failure is the run's, and the others are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING

from agui_client._core.ground.concurrency import whole
from agui_client._core.run import ending
from agui_client._core.run.hooks import HookContext
from agui_client._core.run.result import annotate
from agui_client._core.run.result_building import run_end
from agui_client._core.run.state import Phase
from agui_client.errors import RunFailedError

if TYPE_CHECKING:
    from agui_client._core.run.call import Call
    from agui_client._core.run.saving import Saving

_logger = logging.getLogger("agui_client")


async def finish_run(call: Call, saving: Saving, failure: Exception | None) -> None:
    """End the present run of a call.

    Args:
        saving: Saves the conversation.
        failure: The failure of the run; None without one.

    Raises:
        Exception: The failure of the run; without one, an exception of a cleanup or a hook.
    """
    run, state = call.round, call.state
    is_whole = state.phase is Phase.READ
    # First of all: from here on, an interrupt from another thread does not abort this run any more.
    state.end_run(is_done=run.outcome.is_terminal)
    call.warnings.hide_in(failure)
    run.ended_at, run.people_seconds = perf_counter(), run.people_time.seconds
    try:
        failure = await _wind_up(call, failure, is_whole=is_whole)
    finally:
        if call.observers.watches_ends:
            run.end = end = run_end(call.rounds, failure, is_aborted=state.is_aborted)
            call.observers.call("on_end", run, end)
    if failure is not None:
        # After the observers, as a save may fail, and every start of a run has to have its end. The end of a run
        # that did not fail is saved by `Between.take_over`.
        await step(call, saving.save(is_at_end=True), failure)
        raise failure


async def abandon_run(call: Call, saving: Saving) -> Exception | None:
    """End a run in the middle; return a failure, as it must not hide the exception that leaves the block.

    Args:
        saving: Saves the conversation.
    """
    reported = call.round.outcome.error
    expected = None if reported is None else RunFailedError(reported)
    try:
        await finish_run(call, saving, expected)
        await saving.save(is_at_end=True)
    except Exception as error:
        if error is not expected:
            _logger.error("while run %s was left: %s", call.round.input.run_id, error, exc_info=error)
        return error
    return None


async def _wind_up(call: Call, failure: Exception | None, *, is_whole: bool) -> Exception | None:
    """Take the last steps of a run; return its failure, or the exception of a step that failed."""
    run, source = call.round, call.round.source
    if source is not None:
        failure = await step(call, source.aclose(), failure)
    on_abort = None if call.is_detached else call.agent_options.get("on_abort")
    if (
        on_abort is not None
        and run.may_have_started
        and ending.may_still_run(failure, has_abandoned_run=call.state.has_abandoned_run)
    ):
        context = HookContext(run.input, call.conversation, run, run.run_id)
        await run.inside(ending.call_on_abort, on_abort, context)
    # Before the hooks, which see the conversation as the next run will.
    ending.settle(call, failure, is_whole=is_whole)
    if failure is not None and call.subscribers:
        annotate(failure, call.result(), may_have_started=run.may_have_started)
        await step(call, run.call_hooks("on_run_failed", failure), failure)
    return await step(call, run.call_hooks("on_run_finalized"), failure)


async def step(call: Call, work: Awaitable[None], failure: Exception | None) -> Exception | None:
    """Take one of the last steps; an exception of it is the run's failure only if there is none yet.

    Args:
        work: The step.
        failure: The failure so far.

    Returns:
        The failure after the step; None without one.
    """
    try:
        await whole(work)
    except Exception as error:
        # The step may have raised the failure itself again.
        if failure in (None, error):
            return error
        _logger.error("at the end of run %s", call.round.input.run_id, exc_info=error)
    return failure
