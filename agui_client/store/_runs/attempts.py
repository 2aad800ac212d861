"""One attempt at a durable run: its events and checkpoints are stored in groups, and its end with the last group."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._core.agent.run_records import Place, RunsUnavailableError
from agui_client._core.run.continuing import Carried, Continuation
from agui_client._core.run.subagents import JOURNAL
from agui_client._core.verbs.sse import frame_of
from agui_client.store._runs.run_log import MESSAGES, interrupts_in, status_after
from agui_client.store._sql.run_rows import EventGroup
from agui_client.store._sql.runs import Answered, ClaimedRun, RunChange, RunLostError, Runs

if TYPE_CHECKING:
    from ag_ui.core import Event, RunAgentInput

    from agui_client._core.agent.run_records import RunKey
    from agui_client._core.plugs import AttemptSpan
    from agui_client._core.run.checkpoint import Checkpoint
    from agui_client._core.run.continuing import ThreadLog
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client.store._runs.server_run import ServerRun

_SECONDS = 0.05
"""The time for which an event waits for others of its group: a transaction for each would cost more than the event."""
_logger = logging.getLogger("agui_client.runs")


class _Phase(Enum):
    RUNNING = "running"
    """The events are stored as they come."""
    ENDING = "ending"
    """The end is about to be stored, by its thread or here, and nothing else of the run."""
    ENDED = "ended"
    """The end is stored, and nothing behind it."""


class RunAttempt:
    """Stores the events of one attempt at a run, and the places where another attempt would continue.

    While the database cannot be reached, the run continues until it has to store something before it does the next
    thing: before its input is sent, before a tool is called, and before its end. Of a run in a stored thread, the
    thread has the places.

    Args:
        database: The tables.
        claim: The run and the number of the attempt.
        go_back: Takes the log back to the place where the run continues, and returns the number of events before it;
            None if the run begins.
        has_begun: Whether an earlier attempt has sent the run, or called tools.
        span: The span of the attempt; None without OpenTelemetry.
    """

    def __init__(
        self,
        database: Runs,
        claim: ClaimedRun,
        run: ServerRun,
        go_back: Callable[[], int] | None = None,
        *,
        has_begun: bool = False,
        span: AttemptSpan | None = None,
    ) -> None:
        self.claim = claim
        """The run and the number of the attempt."""
        self.run = run
        """The run."""
        self.span = span
        """The span of the attempt; None without OpenTelemetry."""
        self._database, self._go_back, self._has_begun = database, go_back, has_begun
        self._phase = _Phase.RUNNING
        # Numbers of events: before the attempt, that are stored, and before the place where another one would continue.
        self._first = self._stored = self._position = 0
        self._sent_run_id: str | None = None
        self._has_groups = self._is_certain = self._is_carrying = False
        self._saved_run_id: str | None = None
        # Of a stored thread; None for another one, whose messages are stored with the run.
        self._log_of_thread: ThreadLog | None = None
        self._carried: Event | None = None
        self.settles: bool = True
        """Whether other runs of the thread may wait for what this one answers or abandons."""
        self._turns = asyncio.Lock()

    @property
    def is_ending(self) -> bool:
        """Whether the end of the run is stored, or about to be."""
        return self._phase is not _Phase.RUNNING

    async def withdraw(self) -> bool:
        """Remove the run, which was refused; return False if another process has taken it over, where it continues."""
        return await self._database.withdraw(self.claim)

    async def carry_out(self) -> None:
        """Carry the run out, until it ends or is given up."""
        async with anyio.create_task_group() as self._tasks:
            if self.run.ends_with is not None and not self._has_begun:
                await self.run.finish(self.run.ends_with)
            else:
                await self.run.carry_out(())
            # All is stored, or not to be stored.
            self._tasks.cancel_scope.cancel()

    async def begin(self, run: AgentRun) -> None:
        """Have the run saved where it can continue, and its events stored."""
        self._log_of_thread = run.call.thread_log
        self._begin_log()
        run.call.position_of = self._position_of
        run.call.save_also(self._save if self._log_of_thread is None else self._note_certain)
        self._tasks.start_soon(self._write)

    def _begin_log(self) -> None:
        """Begin the log, or continue with that of the attempt before."""
        go_back, self._go_back = self._go_back, None
        if go_back is not None:
            self._first = self._stored = self._position = go_back()
        self.run.log.show(self._stored)

    async def _write(self) -> None:
        """Store the events as they come, those that come soon after each other as one group, until the log ends."""
        log = self.run.log
        try:
            while await log.has_more(self._stored) and not self.is_ending:
                if log.is_running:
                    await asyncio.sleep(_SECONDS)
                if not self._is_carrying:
                    await self._store()
        except RunLostError:
            self.run.give_up()
        except Exception:
            _logger.exception("the events of run %r cannot be stored; it is left to another process", log.key)
            self.run.give_up()

    async def prepare_end(self, last: Event, left_input: RunAgentInput | None) -> None:
        """Have the end of the run stored with the last write to its thread, both or neither.

        Args:
            last: The last event; the others are in the log.
            left_input: The conversation that the run leaves, for answers; None if it waits for none.
        """
        if self._log_of_thread is None:
            return
        self._phase = _Phase.ENDING
        async with self._turns:
            log, frame = self.run.log, frame_of(last)
            values = self._values_of_end(last, left_input)
            position = self._first
            frames = [*log.frames_behind(position), frame]
            beginning = None if position else self._beginning()
            group = EventGroup(self.claim.row_id, Place(position, self.claim.attempt), frames, beginning, is_end=True)
            change = RunChange(self.claim, group, values, None, self._has_groups, self._answered())
            write = await self._database.storing(change)
            done = partial(setattr, self, "_carried", last)
            undone = partial(asyncio.get_running_loop().call_soon_threadsafe, self.run.give_up)
            self._log_of_thread.carry(Carried(self._database.database, write, done, undone))

    def _values_of_end(self, last: Event, left_input: RunAgentInput | None) -> dict[str, Any]:
        asked = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in interrupts_in(last)]
        values: dict[str, Any] = {"status": status_after(last).value, "interrupts": json.dumps(asked)}
        values["event_count"] = self.run.log.end.position + 1
        values["answers"] = json.dumps(sorted(self.run.answered_ids))
        left = left_input and left_input.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert self.run.stored_request is not None
        values |= {"left_input": left, "stored_request": self.run.stored_request.of_ended_run().as_text()}
        return {**values, "threadless_checkpoint": None}

    def _answered(self) -> Answered | None:
        """Return what becomes of the run that this one was to answer; None if it answers none."""
        return Answered(self.run.log.key, self.run.waits_again) if self.run.input.resume else None

    async def end(self, last: Event, left_input: RunAgentInput | None) -> None:
        """Store the end of the run, unless its thread has done so; if it fails, the run is left to another process."""
        if self._carried is last:
            self._phase = _Phase.ENDED
            return
        self._phase = _Phase.ENDING
        try:
            with anyio.CancelScope(shield=True):
                self._begin_log()
                await self._store(self._values_of_end(last, left_input), last=frame_of(last), answered=self._answered())
        except (RunLostError, RunsUnavailableError):
            self.run.give_up()
        except Exception:
            _logger.exception("the end of run %r cannot be stored", self.run.log.key.run_id)
            self.run.give_up()

    def _position_of(self, run_id: str | None) -> int:
        """Return the number of events where a run was sent, or the present one.

        Members of a team speak side by side, so there is no place between their events where the log could be cut: all
        of the team's run is, and the conversation that takes its place has what the members have said.
        """
        if run_id is None or run_id != self._sent_run_id:
            self._sent_run_id, self._position = run_id, self.run.log.end.position
        return self._position

    async def _note_certain(self, checkpoint: Checkpoint) -> None:
        """Have the thread, which gets the place where the run continues, carry the events before that place.

        With the first one, what the thread waited for is answered.
        """
        log = self._log_of_thread
        if log is None or checkpoint.call_id is None or (self._is_certain and checkpoint.position <= self._stored):
            return
        async with self._turns:
            frames = self.run.log.frames_behind(self._stored)
            place, first = Place(self._stored, self.claim.attempt), {} if self._is_certain else {"has_begun": True}
            group = EventGroup(self.claim.row_id, place, frames, None, is_end=False) if frames else None
            answers = self.run.log.key if self.settles and not self._is_certain else None
            work = await self._database.storing(RunChange(self.claim, group, first, answers))
            stored, loop = self._stored + len(frames), asyncio.get_running_loop()
            # Until the thread has carried them, no events behind these are stored.

            def done() -> None:
                """Note in the loop of the run that both are committed."""
                loop.call_soon_threadsafe(self._note_carried, stored)

            # The run is lost: this process writes nothing more to the thread, either.
            undone = partial(loop.call_soon_threadsafe, self.run.give_up)
            self._is_carrying = log.carry(Carried(self._database.database, work, done, undone))
        if self._is_carrying:
            self._has_groups, self._is_certain = self._has_groups or group is not None, True
        else:
            await self._store_certain({})

    def _note_carried(self, stored: int) -> None:
        self._is_carrying, self._stored = False, stored
        self.run.log.show(stored)

    async def _save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint if a run can continue from it: before a run is sent, and while tools or members work."""
        is_sent = checkpoint.run_id is not None and checkpoint.run_id == self._saved_run_id
        if checkpoint.call_id is None or (is_sent and not _has_journal(checkpoint)):
            return
        self._saved_run_id = checkpoint.run_id
        place = Continuation.from_checkpoint(checkpoint).model_dump_json(by_alias=True)
        await self._store_certain({"threadless_checkpoint": place, "threadless_position": checkpoint.position})

    async def _store_certain(self, values: dict[str, Any]) -> None:
        # The first checkpoint is made when the run is certain: what its thread waited for is answered.
        answers = self.run.log.key if self.settles and not self._is_certain else None
        first = {} if self._is_certain else {"has_begun": True}
        try:
            await self._store({**values, **first}, answers=answers)
        except RunLostError:
            self.run.give_up()
            raise
        self._is_certain = True

    async def _store(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        last: bytes = b"",
        answers: RunKey | None = None,
        answered: Answered | None = None,
    ) -> None:
        # A caller that is cancelled does not take back what is stored, so neither does the place in the log go back.
        stored = asyncio.create_task(self._store_in_turn(values or {}, last, answers, answered))
        # A caller that was cancelled does not look at its exception; that a run is lost, the keeper finds out itself.
        stored.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(stored)

    async def _store_in_turn(
        self, values: Mapping[str, Any], last: bytes, answers: RunKey | None, answered: Answered | None
    ) -> None:
        async with self._turns:
            # Behind the end, which its thread may have carried, nothing of the run is stored.
            if self._phase is _Phase.ENDED or (self._phase is _Phase.ENDING and not last):
                return
            log, position = self.run.log, self._first if last else self._stored
            frames = [*log.frames_behind(position), *([last] if last else ())]
            if not frames and not values:
                return
            place, beginning = Place(position, self.claim.attempt), None if position else self._beginning()
            group = EventGroup(self.claim.row_id, place, frames, beginning, is_end=bool(last)) if frames else None
            had_groups, self._has_groups = self._has_groups, self._has_groups or group is not None
            change = RunChange(self.claim, group, values, answers, bool(last) and had_groups, answered)
            await self._database.store(change)
            self._stored = position + len(frames) - bool(last)
            if last:
                self._phase = _Phase.ENDED
            log.show(self._stored)

    def _beginning(self) -> Sequence[Any] | None:
        """Return the messages and the state before the run as JSON values, for its first group."""
        before = self.run.log.before
        # Entries of its thread have it.
        if before is None or self._log_of_thread is not None:
            return None
        messages, state = before
        return [MESSAGES.dump_python([*messages], mode="json", by_alias=True, exclude_none=True), state]


def _has_journal(checkpoint: Checkpoint) -> bool:
    """Return whether a team is at work that continues, if it is run again, behind the members that have finished."""
    state = checkpoint.members["state"]
    return isinstance(state, dict) and JOURNAL in state
