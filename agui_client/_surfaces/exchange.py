"""One exchange: an input goes out, its events come back, and how that ended is decided (design: how a run ends).

This is the only driver. It pulls, so back-pressure is the socket's; it has no task of its own; whatever it opened it
closes in the task that iterates it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._pipeline import Pipeline
from agui_client._pipeline.reduce import Change
from agui_client._pipeline.source import CutSource
from agui_client._pipeline.tracing import RunTrace
from agui_client._surfaces.abort import is_left, tell_abort
from agui_client._surfaces.hooks import HookContext
from agui_client._surfaces.logs import ending, log_end
from agui_client._surfaces.outcome import build_result
from agui_client._surfaces.subscribers import Dispatcher
from agui_client._surfaces.verdict import verdict, verdict_on, verdict_on_part
from agui_client.errors import AGUIError, RunFailedError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event, Message

    from agui_client._pipeline.replay import Replay
    from agui_client._pipeline.replies import Replies
    from agui_client._pipeline.source import Source
    from agui_client._pipeline.transport import HttpSource
    from agui_client._surfaces.course import Course
    from agui_client._surfaces.plan import Plan
    from agui_client.result import RunResult


_logger = logging.getLogger("agui_client")

# Looking up the member of an enum, or its truth, costs a tenth of what an event may.
_NO_CHANGE = Change.NONE


class Exchange:
    """One run from its input to its end.

    Args:
        plan: What to run, and on what.
        course: What the rounds of the call have in common.
    """

    def __init__(self, plan: Plan, course: Course) -> None:
        self.plan = plan
        self.course = course
        """What the rounds of the call have in common."""
        self.aborted = False
        """Whether the run was stopped from here."""
        self.ended = False
        """Whether the run is over."""
        self.error: Exception | None = None
        """What the run ended with; None while it is going, or if it finished."""
        self.pipeline = Pipeline(
            plan.run, plan.middleware, plan.warnings, null_fields=plan.null_fields, strict=plan.strict
        )
        self.trace = RunTrace()
        """The run's span; one that tells nothing before the agent's `run` is called."""
        course.settlements.append(self.pipeline.settlement)
        self.came_to_end = False
        """Whether the stream ended by itself: it was not left, and nothing broke it."""
        self.replay = _replay_of(plan)
        """What reduces a thread that is told again; None for a run."""
        self.ended_at: float | None = None
        """`time.perf_counter()` when the run was over."""
        self._dispatcher = Dispatcher(plan.roster, HookContext(plan.input, plan.reducer), plan.reducer)
        self._passes = self.pipeline.passes
        self._judge = self.pipeline.judge
        self._admit = self.pipeline.admit
        self._apply = plan.reducer.feed if self.replay is None else self.replay.feed
        self._roster = plan.roster
        self._warnings = plan.warnings
        self._listeners = plan.listeners
        self._source: Source | None = None
        self._index = -1
        self._is_pulling = False
        self._is_settled = False
        self._is_stopped = False
        self._break: Exception | None = None
        self._posts: list[HttpSource] = []
        self._ready: deque[Event] = deque()
        self._final: RunResult | None = None

    async def next_event(self) -> Event:
        """The next event, verified and already applied.

        Returns:
            A typed event.

        Raises:
            StopAsyncIteration: The run is over and did not fail.
            AGUIError: The run failed; see `agui_client.errors`.
        """
        if self.ended:
            raise StopAsyncIteration
        if self._is_pulling:
            raise UsageError("two tasks iterate one run; use one, or clone() the agent and run it twice")
        failure: Exception | None
        self._is_pulling = True
        try:
            source = self._source or await self._open()
            while not self._ready:
                event = await source.__anext__()
                self._warnings.event_index = self._index = self._index + 1
                if self._passes(event):
                    return await self._deliver(event) if self._roster.members else self._take(event)
                self._ready.extend(self._judge(event))
            return await self._deliver(self._ready.popleft())
        except StopAsyncIteration:
            self.came_to_end = not self._is_stopped
            failure = None if self.aborted or self._had_nothing_to_tell else verdict(self.pipeline)
        except Exception as error:
            failure = self._failure(error)
        except BaseException:
            self._source = CutSource()
            self._ready.clear()
            raise
        finally:
            self._is_pulling = False
        failure = await self._conclude(failure)
        if failure is None:
            raise StopAsyncIteration
        raise failure

    def interrupt(self) -> None:
        """Stop the run; what is waited for is given up. Called in the event loop's thread.

        A run that has its terminal event already is over: it stays what that event said (LIFE-7).
        """
        if not self.ended:
            self._is_stopped = True
            self.aborted = not self.has_terminal
            self._give_up()

    async def aclose(self) -> None:
        """Leave the run, wherever it is: close the connection and every generator. Idempotent."""
        if self.ended:
            return
        reported = self.pipeline.settlement.error
        self.aborted = not self.has_terminal
        expected = None if reported is None else RunFailedError(reported)
        failure = await self._conclude(expected)
        if failure is not expected and failure is not None:
            # Whoever leaves the block has reasons of their own, which this must not hide.
            _logger.error("while run %s was left: %s", self.plan.input.run_id, failure, exc_info=failure)

    def adopt(self, post: HttpSource) -> None:
        """Take over what the agent's `run` posts, to close it with the run, however it is wrapped."""
        self._posts.append(post)
        self.course.posts.append(post)

    async def tell(self, moment: str, *details: object) -> None:
        """Call the hooks of one moment of the run.

        Args:
            moment: The hook's name.
            details: What it is told, before the context.
        """
        await self._dispatcher.tell(moment, *details)
        self._changed(self._dispatcher.take_mutated())

    def settle(self) -> None:
        """Let the conversation know what the run, now over, has left. Idempotent."""
        if not self._is_settled:
            self._is_settled = True
            self.plan.on_end(self)

    def take_in(self, replies: Replies) -> None:
        """Put what was answered after the run into the conversation."""
        if replies.messages:
            self.plan.reducer.add_results(replies.messages)
            self.notify(Change.MESSAGES)
        if not replies.goes_on:
            self.course.kept_answers.update(entry.interrupt_id for entry in replies.entries)
        if not self.plan.is_ahead:
            self.plan.on_replies(replies)
        self.sum_up_again()

    def sum_up_again(self) -> None:
        """Let the result of a run that is over say what became of the conversation since."""
        if self._final is not None:
            self._final = self._sum_up()

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; once the run is over, as the run left it."""
        return self.plan.reducer.messages if self._final is None else list(self._final.messages)

    @property
    def state(self) -> Any:
        """The state so far; once the run is over, as the run left it."""
        return self.plan.reducer.state if self._final is None else self._final.state

    @property
    def incomplete_ids(self) -> list[str]:
        """The messages and tool calls that the run began and did not complete."""
        restored = () if self.replay is None else self.replay.restored
        return [item_id for item_id in self.pipeline.verify.left_open if item_id not in restored]

    @property
    def is_behind(self) -> bool:
        """Whether it told a thread again and ended before it came as far as what was held."""
        return self.replay is not None and self.replay.is_behind

    def _is_left(self, failure: Exception | None) -> bool:
        """Whether it is this side that ends the run; a wait that was cancelled cannot be taken up again."""
        return is_left(self.aborted or isinstance(self._source, CutSource), failure)

    @property
    def _may_have_started(self) -> bool:
        """Whether the agent may have begun to work."""
        if self._posts:
            return any(post.may_have_started for post in self._posts)
        return self._source is not None

    @property
    def has_terminal(self) -> bool:
        """Whether the last run has its terminal event."""
        settled = self.pipeline.settlement
        return settled.finished is not None or settled.error is not None

    def result(self) -> RunResult:
        """What has arrived so far; once the run is over, what it came to."""
        return self._final or self._sum_up()

    def _sum_up(self) -> RunResult:
        result = build_result(self)
        if not self.is_behind:
            return result
        # An older run's end is not the thread's.
        return replace(result, outcome=None, result=None, interrupts=[], pending_tool_calls=[])

    async def _open(self) -> Source:
        await self._dispatcher.tell("on_run_initialized")
        if self.aborted:
            raise StopAsyncIteration
        self._changed(self._dispatcher.take_mutated())
        run_input = self.plan.input
        if self._roster.members:
            held = {"messages": self.plan.reducer.messages, "state": self.plan.reducer.state}
            run_input = run_input.model_copy(update=held)
        self.trace = self.plan.trace(run_input, self.course.trace)
        self.course.trace = self.course.trace or self.trace
        self.plan.on_begin(self)
        self._source = self.pipeline.open(run_input, is_replay=self.plan.is_replay)
        if self._was_aborted():
            self._give_up()
        return self._source

    def _was_aborted(self) -> bool:
        """Whether a hook stopped the run meanwhile; type checkers would not believe that `aborted` can have changed."""
        return self.aborted

    def _give_up(self) -> None:
        if self._source is None or not self._source.interrupt():
            # Nobody would come to close the connection before a hook is done, or the block is left.
            for post in self._posts:
                post.interrupt()

    def _take(self, event: Event) -> Event:
        """Admit and apply an event that nobody but the caller waits for: the hot path."""
        self._admit(event)
        change = self._apply(event)
        if self._listeners and change is not _NO_CHANGE:
            self.notify(change)
        return event

    async def _deliver(self, event: Event) -> Event:
        if not self._roster.members:
            return self._take(event)
        self._admit(event)
        dispatcher = self._dispatcher
        hooks = dispatcher.hooks_for(event)
        is_wanted = not hooks or await dispatcher.call(hooks, event)
        change = self._apply(event) if is_wanted else _NO_CHANGE
        if not is_wanted:
            self.course.revision += 1
        if dispatcher.watches_outcome:
            await dispatcher.after(event, change)
        if dispatcher.mutated is not _NO_CHANGE:
            self._changed(dispatcher.take_mutated())
        if self._listeners and change is not _NO_CHANGE:
            self.notify(change)
        return event

    def _changed(self, mutated: Change) -> None:
        if mutated is not _NO_CHANGE:
            self.course.revision += 1
            self.notify(mutated)

    def notify(self, change: Change) -> None:
        """Tell the listeners what changed."""
        if change is not _NO_CHANGE:
            for listener in tuple(self._listeners):
                listener(change)

    @property
    def _had_nothing_to_tell(self) -> bool:
        return self.plan.is_replay and self._index < 0

    def _failure(self, error: Exception) -> Exception | None:
        """What the run fails with when an exception ends it; what a stopped agent raises is no failure."""
        if self.aborted:
            _logger.warning("run %s was aborted, and then raised %r", self.plan.input.run_id, error)
            return None
        self._break = error
        return verdict_on(error, self.pipeline, self._warnings)

    def _verdict_on_replay(self, failure: Exception | None) -> Exception | None:
        """What a replay fails with: while more is held than was told, the end of a run that it told ends nothing."""
        self.error = failure
        self.settle()
        if not self.has_terminal or not isinstance(failure, RunFailedError | None):
            return failure
        if not self.came_to_end and self._break is None:
            self.aborted = self.is_behind
            return None if self.aborted else failure
        return verdict_on_part(self._break, self._warnings) if failure is None and self.is_behind else failure

    async def _conclude(self, failure: Exception | None) -> Exception | None:
        """Close everything, settle, and tell who wants to know; returns what the run failed with."""
        self.ended = True
        self.ended_at = time.perf_counter()
        failure = await self._try(self._close_shielded(), failure)
        if self.plan.on_abort is not None and self._may_have_started and self._is_left(failure):
            told = HookContext(self.plan.input, self.plan.reducer, self.result().run_id)
            await tell_abort(self.plan.on_abort, told)
        self.error = failure = failure if self.replay is None else self._verdict_on_replay(failure)
        self._final = final = self._sum_up()
        if failure is not None:
            self.annotate(failure)
        events, usage = self._index + 1, self.pipeline.settlement.usage
        self.trace.end(outcome=ending(final, failure), error=failure, usage=usage, events=events)
        log_end(final, failure, events)
        if not self.plan.is_ahead:
            self.settle()
        if failure is not None:
            await self._try(self._dispatcher.tell("on_run_failed", failure), failure)
        self.error = await self._try(self._dispatcher.tell("on_run_finalized"), failure)
        self._changed(self._dispatcher.take_mutated())
        if self._roster.members:
            self.sum_up_again()
        return self.error

    async def _close_shielded(self) -> None:
        # Only where it is needed: a scope around the closing of a generator that holds one itself upsets both.
        if anyio.current_effective_deadline() == -math.inf:
            with anyio.CancelScope(shield=True):
                await self._close()
        else:
            await self._close()

    async def _close(self) -> None:
        try:
            await self.pipeline.aclose()
        finally:
            for post in self._posts:
                await post.aclose()

    async def _try(self, step: Awaitable[None], failure: Exception | None) -> Exception | None:
        """Do one of the last things; what it raises is the run's failure only if there is none yet."""
        try:
            await step
        except Exception as error:
            if failure is None:
                return error
            _logger.error("at the end of run %s", self.plan.input.run_id, exc_info=error)
        return failure

    def annotate(self, failure: Exception) -> None:
        """Tell an exception where it happened, and what had arrived."""
        final = self.result()
        if isinstance(failure, AGUIError):
            failure.thread_id, failure.run_id, failure.partial = final.thread_id, final.run_id, final
        else:
            # The agent's, a middleware's or a hook's own exception: it stays what it is, and says where it happened.
            failure.add_note(f"in run {final.run_id!r} of thread {final.thread_id!r}")


def _replay_of(plan: Plan) -> Replay | None:
    """What reduces a thread that is told again; loaded when one is."""
    if not plan.is_replay:
        return None
    from agui_client._pipeline.replay import Replay

    return Replay(plan.reducer, plan.warnings)
