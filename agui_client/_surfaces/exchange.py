"""One exchange: an input goes out, its events come back, and how that ended is decided (design: how a run ends).

This is the only driver. It pulls, so back-pressure is the socket's; it has no task of its own; whatever it opened it
closes in the task that iterates it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._pipeline import NullFields, Pipeline
from agui_client._pipeline.reduce import Change, Reducer
from agui_client._pipeline.source import CutSource
from agui_client._surfaces.hooks import HookContext
from agui_client._surfaces.outcome import build_result
from agui_client._surfaces.subscribers import Dispatcher, Roster
from agui_client.errors import AGUIError, ConnectError, IncompleteRunError, ProtocolError, RunFailedError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, RunAgentInput

    from agui_client._pipeline.middleware import Middleware, Run
    from agui_client._pipeline.source import Source
    from agui_client._pipeline.transport import HttpSource
    from agui_client._pipeline.warnings import WarningLog
    from agui_client.result import RunResult


_logger = logging.getLogger("agui_client")

# Looking up the member of an enum, or its truth, costs a tenth of what an event may.
_NO_CHANGE = Change.NONE


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an exchange needs; the agent makes it."""

    input: RunAgentInput
    """What is asked."""
    run: Run
    """The agent's `run`, with the input checked on its way in."""
    reducer: Reducer
    """Where the conversation is kept."""
    warnings: WarningLog
    """Where the stages report."""
    middleware: Sequence[Middleware] = ()
    """Outermost first."""
    roster: Roster = field(default_factory=Roster)
    """Who listens."""
    null_fields: NullFields = "reject"
    """What enforcement does with null for a whole optional field."""
    strict: bool = False
    """Whether ids that do not match are fatal."""
    listeners: Sequence[Callable[[Change], None]] = ()
    """Told what each event changed; looked at anew each time."""
    on_end: Callable[[Exchange], None] = lambda exchange: None
    """Told when the run is over, before anybody else."""
    is_ahead: bool = False
    """Whether the run is reduced ahead of the conversation; then whoever follows says when it is over."""


class Exchange:
    """One run from its input to its end.

    Args:
        plan: What to run, and on what.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.aborted = False
        """Whether the run was stopped from here."""
        self.ended = False
        """Whether the run is over."""
        self.error: Exception | None = None
        """What the run ended with; None while it is going, or if it finished."""
        self.revision = 0
        """Counts the changes to messages and state that did not come from the stream's own events."""
        self.pipeline = Pipeline(
            plan.run, plan.middleware, plan.warnings, null_fields=plan.null_fields, strict=plan.strict
        )
        self.started_at = time.perf_counter()
        """`time.perf_counter()` when the run was started."""
        self.ended_at: float | None = None
        """`time.perf_counter()` when the run was over."""
        self.known_ids = frozenset(message.id for message in plan.reducer.messages)
        """The messages that were there before."""
        self._context = HookContext(plan.input, plan.reducer)
        self._dispatcher = Dispatcher(plan.roster, self._context, plan.reducer)
        self._passes = self.pipeline.passes
        self._judge = self.pipeline.judge
        self._admit = self.pipeline.admit
        self._apply = plan.reducer.feed
        self._roster = plan.roster
        self._warnings = plan.warnings
        self._listeners = plan.listeners
        self._source: Source | None = None
        self._index = -1
        self._is_pulling = False
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
            failure = None if self.aborted else self._verdict()
        except Exception as error:
            failure = self._what_it_means(error)
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
        settled = self.pipeline.settlement
        if not self.ended:
            self.aborted = settled.finished is None and settled.error is None
            self._give_up()

    async def aclose(self) -> None:
        """Leave the run, wherever it is: close the connection and every generator. Idempotent."""
        if self.ended:
            return
        settled = self.pipeline.settlement
        self.aborted = settled.finished is None and settled.error is None
        expected = None if settled.error is None else RunFailedError(settled.error)
        failure = await self._conclude(expected)
        if failure is not expected:
            # Whoever leaves the block has reasons of their own, which this must not hide.
            _logger.error("while run %s was left: %s", self.plan.input.run_id, failure, exc_info=failure)

    def adopt(self, post: HttpSource) -> None:
        """Take over what the agent's `run` posts, to close it with the run, however it is wrapped."""
        self._posts.append(post)

    @property
    def post(self) -> HttpSource | None:
        """The latest POST of the run; None for agents in this process."""
        return self._posts[-1] if self._posts else None

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; once the run is over, as the run left it."""
        return self.plan.reducer.messages if self._final is None else list(self._final.messages)

    @property
    def state(self) -> Any:
        """The state so far; once the run is over, as the run left it."""
        return self.plan.reducer.state if self._final is None else self._final.state

    def result(self) -> RunResult:
        """What has arrived so far; once the run is over, what it came to."""
        return self._final or build_result(self)

    async def _open(self) -> Source:
        await self._dispatcher.tell("on_run_initialized")
        if self.aborted:
            raise StopAsyncIteration
        self._changed(self._dispatcher.take_mutated())
        run_input = self.plan.input
        if self.revision:
            run_input = run_input.model_copy(
                update={"messages": self.plan.reducer.messages, "state": self.plan.reducer.state}
            )
        self._source = self.pipeline.open(run_input)
        if self._was_aborted():
            self._give_up()
        return self._source

    def _was_aborted(self) -> bool:
        return self.aborted

    def _give_up(self) -> None:
        if self._source is not None:
            self._source.interrupt()

    def _take(self, event: Event) -> Event:
        """Admit and apply an event that nobody but the caller waits for: the hot path."""
        self._admit(event)
        change = self._apply(event)
        if self._listeners and change is not _NO_CHANGE:
            self._notify(change)
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
            self.revision += 1
        if dispatcher.watches_outcome:
            await dispatcher.after(event, change)
        if dispatcher.mutated is not _NO_CHANGE:
            self._changed(dispatcher.take_mutated())
        if self._listeners and change is not _NO_CHANGE:
            self._notify(change)
        return event

    def _changed(self, mutated: Change) -> None:
        if mutated is not _NO_CHANGE:
            self.revision += 1
            self._notify(mutated)

    def _notify(self, change: Change) -> None:
        if change is not _NO_CHANGE:
            for listener in tuple(self._listeners):
                listener(change)

    def _verdict(self) -> AGUIError | None:
        """What the end of the stream means: only a terminal event of the last run makes it a success (TRUNC-1)."""
        try:
            self.pipeline.verify.finish()
        except ProtocolError as error:
            return error
        reported = self.pipeline.settlement.error
        return None if reported is None else RunFailedError(reported)

    def _what_it_means(self, error: Exception) -> Exception | None:
        """What the run fails with when an exception ends it; what a stopped agent raises is no failure."""
        if self.aborted:
            _logger.warning("run %s was aborted, and then raised %r", self.plan.input.run_id, error)
            return None
        return self._broken(error) if isinstance(error, ConnectError) else error

    def _broken(self, error: ConnectError) -> AGUIError | None:
        """The connection broke: before any event nothing usable arrived, after a terminal event nothing is lost."""
        if self.pipeline.settlement.first_event_at is None:
            return error
        verdict = self._verdict()
        if isinstance(verdict, IncompleteRunError):
            cut = IncompleteRunError(f"{verdict}; {error}", rule=verdict.rule)
            cut.__cause__ = error
            return cut
        self.plan.warnings.add("TRUNC-1", f"after the run had ended, {error}")
        return verdict

    async def _conclude(self, failure: Exception | None) -> Exception | None:
        """Close everything, settle, and tell who wants to know; returns what the run failed with."""
        self.ended = True
        self.ended_at = time.perf_counter()
        failure = await self._try(self._close_shielded(), failure)
        self.error = failure
        self._final = build_result(self)
        self._annotate(failure, self._final)
        if not self.plan.is_ahead:
            self.plan.on_end(self)
        if failure is not None:
            await self._try(self._dispatcher.tell("on_run_failed", failure), failure)
        self.error = await self._try(self._dispatcher.tell("on_run_finalized"), failure)
        self._changed(self._dispatcher.take_mutated())
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

    def _annotate(self, failure: Exception | None, final: RunResult) -> None:
        if isinstance(failure, AGUIError):
            failure.thread_id, failure.run_id, failure.partial = final.thread_id, final.run_id, final
        elif failure is not None:
            # The agent's, a middleware's or a hook's own exception: it stays what it is, and says where it happened.
            failure.add_note(f"in run {final.run_id!r} of thread {final.thread_id!r}")
