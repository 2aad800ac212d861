"""Checkpoints: a conversation as it would be if the program ended now, to be saved when something must not be lost.

A checkpoint shares messages and state with the conversation, so that it costs little on long threads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from agui_client._field_docs import Record
from agui_client._protocol.warnings import WarningLog
from agui_client._run.ending import take_over
from agui_client.conversation import Conversation, ConversationSnapshot, document_of

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry, ToolMessage

    from agui_client._run.async_run import RunLoop
    from agui_client._run.engine import Engine

SECONDS = 1.0
"""The time between two saves while events arrive."""


@dataclass(frozen=True, slots=True)
class Checkpoint(Record):
    """A conversation as it would be if the program ended now."""

    members: Mapping[str, Any]
    """The members of its `ConversationSnapshot`; messages and state are shared, and to be read only."""
    results: Sequence[ToolMessage] = ()
    """Results of tools that the application executed, which are not among the messages yet."""
    run_id: str | None = None
    """The id of the run that is sent or going on; None between runs. If the program ends now, nobody knows what became
    of that run."""
    resume: Sequence[ResumeEntry] = ()
    """The answers to interrupts that the run carries, as long as it is unknown whether the agent got them."""

    def snapshot(self) -> ConversationSnapshot:
        """Return the conversation as a document that can be restored, with the results in it."""
        document = document_of(self.members)
        if not self.results:
            return document
        conversation = Conversation(document.thread_id)
        conversation.restore(document)
        conversation.add_results(self.results)
        return conversation.snapshot()


Save: TypeAlias = Callable[[Checkpoint], Awaitable[None]]
"""Saves a conversation; the call waits for it, and fails if it fails."""


class Saving:
    """Has the conversation of a call saved, if the agent says how.

    Args:
        engine: The call.
        loop: The event loop for asynchronous work.
    """

    def __init__(self, engine: Engine, loop: RunLoop) -> None:
        self._engine, self._loop = engine, loop
        self._next_at = 0.0
        self._failure: Exception | None = None

    async def save(self) -> None:
        """Save the conversation; during a replay, which asks nothing and changes nothing, there is no need.

        Raises:
            Exception: The first failure to save in this call.
        """
        setup = self._engine.setup
        if setup.save is None or (setup.is_replay and self._engine.is_run_open):
            return
        try:
            await self._loop.call(setup.save, checkpoint_of(self._engine))
        except Exception as error:
            # One failure is enough for a call; the steps of its end are tried all the same.
            self._failure = self._failure or error
            raise self._failure from error.__cause__

    async def sometimes(self) -> None:
        """Save the conversation unless that was done just now: events arrive one after the other."""
        if perf_counter() > self._next_at:
            await self.save()
            self._next_at = perf_counter() + SECONDS


def checkpoint_of(engine: Engine) -> Checkpoint:
    """Return the conversation as it would be if the program ended now: a run that is going on is cut off."""
    conversation, outcome = engine.conversation.branch(), engine.outcome
    has_started = outcome.started is not None
    if engine.is_run_open and has_started:
        take_over(engine, conversation, WarningLog())
    if engine.is_run_open:
        conversation.unreceived = None
    waiting = {each.id for each in conversation.pending_interrupts}
    conversation.keep_answers([each for each in engine.between.kept_entries if each.interrupt_id in waiting])
    answered = conversation.reducer.answered_call_ids
    done = [each.message for each in engine.executions.values() if each.message is not None]
    return Checkpoint(
        members=conversation.members(),
        results=[message for message in done if message.tool_call_id not in answered],
        run_id=engine.input.run_id if engine.is_run_open else None,
        resume=engine.input.resume or () if engine.is_run_open and not has_started else (),
    )
