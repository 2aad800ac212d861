"""Saving: a checkpoint of the conversation is saved when something must not be lost, and at times while events arrive.

To change

- how often a conversation is saved while events arrive: `Saving` here
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from agui_client._core.ground.concurrency import whole
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.checkpoint import Checkpoint
from agui_client._core.run.ending import adopt_pending

if TYPE_CHECKING:
    from agui_client._core.run.call import Call
    from agui_client._core.run.run_loop import RunLoop

SAVE_SECONDS = 1.0
"""The time between two saves while events arrive."""
_SLOW_SAVES, _LONGEST_PAUSE = 20, 5
"""The pause of slow saves: the time between two of them, in times that one takes, and its bound, in usual times."""


class Saving:
    """Has the conversation of a call saved, if the agent says how.

    Args:
        loop: The event loop for asynchronous work.
    """

    def __init__(self, call: Call, loop: RunLoop) -> None:
        self._call, self._loop = call, loop
        self._next_at = 0.0
        self._saved: Checkpoint | None = None
        self._failure: Exception | None = None

    async def save(self, following: str | None = None, *, is_at_end: bool = False) -> None:
        """Save the conversation; during a replay, which asks nothing and changes nothing, there is no need.

        Args:
            following: The id of the run that is sent next, if the save is also the one before that; None if it is not.
            is_at_end: Whether the call is about to end.

        Raises:
            Exception: The first failure to save in this call.
        """
        call = self._call
        if (call.also_save is None and call.save is None) or (call.is_replay and call.state.is_run_open):
            return
        began = perf_counter()
        self._next_at = began + SAVE_SECONDS
        checkpoint = checkpoint_of(call, following)
        if is_at_end:
            # No place to continue from: the call is over here, and all that was said and done in it was saved before.
            checkpoint = replace(checkpoint, is_at_end=True, call_id=None)
        # Nearly always a run is sent, and the block left, with what the last save has. While events arrive they change
        # state and messages in place, so that two checkpoints of that time cannot be compared.
        is_changing = call.state.is_run_open and call.round.outcome.first_event_at is not None
        if not is_changing and checkpoint == self._saved:
            return
        try:
            # What a durable run continues from comes first: where the program ends between the two, its thread catches
            # up.
            for save in (call.also_save, call.save):
                if save is not None:
                    await whole(self._loop.call(save, checkpoint))
            self._saved = checkpoint
            # A save is slow where many are made: fewer of them make each one faster, and events wait for none of them
            # longer than a twentieth of the time.
            took = perf_counter() - began
            self._next_at = began + min(max(SAVE_SECONDS, _SLOW_SAVES * took), _LONGEST_PAUSE * SAVE_SECONDS)
        except Exception as error:
            # One failure is enough for a call; the steps of its end are tried all the same.
            self._failure = self._failure or error
            # With its own cause: `raise` inside of a handler would give it the later failure's.
            raise self._failure from self._failure.__cause__

    async def sometimes(self) -> None:
        """Save the conversation unless that was done just now: events arrive one after the other."""
        if perf_counter() > self._next_at:
            await self.save()


def checkpoint_of(call: Call, following: str | None = None) -> Checkpoint:
    """Return the conversation as it would be if the program ended now: a run that is in progress is cut off.

    Args:
        following: The id of the run that is sent next, after one that is over, to count as sent; None for the present.
    """
    conversation = call.conversation.branch()
    if not call.rounds:  # the block of the call is being entered
        return Checkpoint(conversation.members())
    run_input, is_run_open = call.round.input, call.state.is_run_open
    # A replay that is cut leaves the local thread as it was.
    if call.is_replay and is_run_open:
        conversation.end_replay(has_ended=False)
        return Checkpoint(conversation.members())
    call_id = call.rounds[0].run_id
    if following is not None:
        conversation.unreceived = None
        position = call.position_of(following)
        return Checkpoint(conversation.members(), run_id=following, call_id=call_id, position=position)
    has_started = call.round.outcome.started is not None
    if is_run_open and has_started:
        adopt_pending(call, conversation, WarningLog())
    if is_run_open:
        # Whether the agent got the messages of an open run is unknown, so the next run sends all of them.
        conversation.unreceived = None
    # A tool that has ended while others continue: its result is among the messages only when all have.
    done = [each.message for each in call.executions if each.message is not None]
    results = [message for message in done if conversation.message(message.id) is None]
    run_id = run_input.run_id if is_run_open else None
    return Checkpoint(
        members=conversation.members(),
        results=tuple(results),
        run_id=run_id,
        resume=run_input.resume or () if is_run_open and not has_started else (),
        call_id=call_id,
        position=call.position_of(run_id),
    )
