"""The engine: one call of a verb, from entering its block to leaving it.

It pulls, so that back-pressure is the socket's, and has no task of its own. Asynchronous work is done through a
`RunLoop`, so that the same code serves asynchronous and sync verbs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

import anyio

from agui_client._protocol.pipeline import Pipeline
from agui_client._protocol.reduce import Change
from agui_client._protocol.request import prepare_input
from agui_client._protocol.warnings import WarningLog
from agui_client._run import ending
from agui_client._run.between_runs import answers_to, approved_results
from agui_client._run.ending import Saving
from agui_client._run.hooks import HookCalls, HookContext
from agui_client._run.middleware import RunSource, observed_run
from agui_client._run.result import annotate, build_result, call_end, latest_run_id, run_end
from agui_client._run.run_request import composed_input, event_of_result, next_input, request_of, with_conversation
from agui_client._run.scope import CURRENT_SCOPE, RunScope
from agui_client._tools.tool_limits import RoundLimits, ToolLimits
from agui_client._tools.toolset import CallTools
from agui_client._transport.waiting import Waiter
from agui_client.errors import IncompleteRunError, RunFailedError, RunTimeoutError, UsageError
from agui_client.history import chosen_messages

if TYPE_CHECKING:
    from types import AsyncGeneratorType
    from typing import Self

    from ag_ui import core
    from ag_ui.core import RunAgentInput, ToolMessage

    from agui_client._protocol.events import WireEvent
    from agui_client._protocol.outcome import Outcome
    from agui_client._run.async_run import RunLoop
    from agui_client._run.result import RunResult
    from agui_client._run.run_request import Answers, RunRequest
    from agui_client._run.scope import CallSetup
    from agui_client._tools.approval import Approve
    from agui_client._tools.context import ToolExecution
    from agui_client._transport.source import Source
    from agui_client.messages import Prompt
    from agui_client.options import RunOptions

T = TypeVar("T")

_logger = logging.getLogger("agui_client")
# Looking up the member of an enum, or its truth, costs a tenth of what an event may.
_NO_CHANGE = Change.NONE
_LISTING = "its toolsets were opened and listed"
_TURN_SECONDS = 0.03
"""The longest time between two turns of the event loop, if one event takes no longer."""


class Engine:
    """One call.

    Args:
        setup: The parts that the agent brings.
        prompt: The prompt.
        options: The keywords of the verb.
        loop: The event loop for asynchronous work.
    """

    ended_at: float | None = None
    """`time.perf_counter()` when the latest run ended."""
    request: RunRequest | None = None
    """The messages, answers and results that came with the call; None for a replay."""
    known_ids: frozenset[str] = frozenset()
    """The ids of the messages that existed before the first run."""
    approved: Mapping[str, Approve] = MappingProxyType({})
    """The approvals that came with the call, by call id."""
    is_stopped = False
    """Whether the caller asked for the end of the call."""
    is_aborted = False
    """Whether the call was stopped from here before the end of its run, or while tools or people were at work."""
    is_answering = False
    """Whether tools or people answer what the present run left, or have answered it."""
    is_behind = False
    """Whether a replay ended before it came as far as the local thread."""
    has_come_to_end = False
    """Whether the events of the present run were read to their end."""
    is_run_open = False
    """Whether the present run is about to be sent, or was sent and has not ended."""
    ended = False
    """Whether the call is over."""
    error: Exception | None = None
    """The exception that the call ended with; None while it goes on, or if it did not fail."""
    _waiter: Waiter | None = None
    _source: Source | None = None
    _result: RunResult | None = None
    _is_cut = _is_run_over = False

    def __init__(self, setup: CallSetup, prompt: Prompt, options: RunOptions, loop: RunLoop) -> None:
        self.setup = setup
        """The parts that the agent brings."""
        self.conversation = setup.conversation
        """The conversation."""
        self.warnings = WarningLog()
        """The log of the call's warnings."""
        self.started_at = perf_counter()
        """`time.perf_counter()` when the call was made."""
        self.scopes: list[RunScope] = []
        """The runs of the call, the present one last."""
        self.outcomes: list[Outcome] = []
        """Their outcomes."""
        self.executions: dict[str, ToolExecution] = {}
        """The tools that were executed here, by call id."""
        self.rounds = RoundLimits(setup.options.get("tool_limits") or ToolLimits())
        """The rounds of tools so far, and their limits."""
        self.saving = Saving(self, loop)
        """Saves the conversation."""
        self._prompt, self._options, self._loop = prompt, options, loop
        self._until = self.started_at + setup.total
        self._stack = AsyncExitStack()
        self._iteration = cast("AsyncGeneratorType[core.Event, None]", self._events())

    # --- entering and leaving the block

    async def enter(self) -> None:
        """Check the call, open its toolsets and add its messages to the conversation; nothing is sent yet.

        Raises:
            UsageError: The call cannot be carried out; the conversation is as it was.
            ToolsetError: A toolset cannot be used; the conversation is as it was.
        """
        conversation, options = self.conversation, self._options
        async with AsyncExitStack() as stack:
            stack.enter_context(conversation.running(self.interrupt, partial(ending.checkpoint_of, self)))
            if self.setup.is_replay:
                first = composed_input(conversation, options, conversation.messages)
            else:
                self.request = request_of(conversation, self._prompt, options)
                first = self.request.input
            self.tools = CallTools(options.get("tools", self.setup.tools), first.tools or ())
            await stack.enter_async_context(self._open_toolsets())
            first = await self._with_tools(first)
            if self.request is not None:
                self.approved = self.request.check_tools(self.tools)
                self.request.add_to_conversation()
                self.request.warn(self.warnings)
            self.known_ids = frozenset(message.id for message in conversation.messages)
            self._new_run(with_conversation(first, conversation))
            self._stack = stack.pop_all()

    async def aclose(self) -> None:
        """Leave the call, wherever it is: close connections, generators and toolsets. Idempotent."""
        async with self._stack:
            if not self.ended:
                try:
                    await self._iteration.aclose()
                    if self._is_run_over:
                        self.is_aborted = True
                    else:
                        await self._leave_run()
                finally:
                    self._finish(self.error)
            failure = await self._try(self.saving.save(), self.error)
            if failure is not None and failure is not self.error:
                raise failure

    async def _leave_run(self) -> None:
        """End a run in the middle; whoever leaves the block has reasons of their own, which failures must not hide."""
        expected = RunFailedError(self.outcome.error) if self.outcome.error else None
        self.is_aborted = True
        try:
            await self._end_run(expected)
        except Exception as error:
            self.error = error
            if error is not expected:
                _logger.error("while run %s was left: %s", self.input.run_id, error, exc_info=error)

    def interrupt(self) -> None:
        """Stop the call and give up what is waited for, from any thread.

        A run that has its terminal event already stays what that event said (LIFE-7); no tool is executed after it.
        """
        if self.ended:
            return
        self.is_stopped = True
        if not self._is_run_over:
            self.is_aborted = not (self.outcomes and self.outcome.is_terminal)
        elif self.is_answering:
            self.is_aborted = True
        self._give_up()

    def _give_up(self) -> None:
        if self._waiter is not None:
            self._loop.thread.call(self._waiter.end)
        if self._source is not None:
            self._loop.thread.call(self._source.interrupt)

    # --- the call

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[core.Event]:
        if self._iteration.ag_running:
            raise UsageError("two tasks iterate one run; use one, or clone() the agent and run it twice")
        return self._fail_after_cut() if self._is_cut else self._iteration.__anext__()

    async def _events(self) -> AsyncGenerator[core.Event]:  # noqa: C901 - the one loop, to be read from top to bottom
        """Run the agent, let tools and people answer, and run it again, until nothing is left to answer here."""
        subscribers, listeners, observers = self.setup.subscribers, self.conversation.listeners, self.setup.observers
        is_saved = self.setup.save is not None
        try:
            if not self.is_stopped:
                observers.call("on_call_start", self.scope)
            for result in await self._take_in(await approved_results(self)):
                yield result
            while not (self.approved and self.conversation.questions):
                try:
                    failure: Exception | None = None
                    pipeline, source, turn_at = self.pipeline, await self._begin_run(), 0.0
                    while source and (batch := None if self.is_stopped else await source.read()) is not None:
                        for wire_event in batch:
                            if subscribers:
                                for event in pipeline.prepare(wire_event):
                                    await self._deliver(event)
                                    yield event
                            else:
                                is_watched = listeners or observers.of_events
                                for event in pipeline.feed(wire_event, self._publish if is_watched else None):
                                    yield event
                            if self.is_stopped:
                                break
                            if perf_counter() > turn_at:
                                await source.pause()
                                if is_saved:
                                    await self.saving.sometimes()
                                turn_at = perf_counter() + _TURN_SECONDS
                    self.has_come_to_end = not self.is_stopped
                    failure = None if self.is_aborted else ending.verdict(self)
                except Exception as error:
                    failure = ending.verdict_on_break(self, error)
                await self._end_run(failure)
                answers = await answers_to(self)
                for result in await self._take_in(answers):
                    yield result
                if not answers.is_complete or self.is_stopped:
                    break
                following = next_input(self.input, self.conversation, answers.entries)
                self._new_run(await self._loop.call(self._with_tools, following))
            self._finish(None)
        except Exception as error:
            self._finish(error)
            raise
        except BaseException as error:
            # A wait was cancelled, and cannot be taken up again; only the caller knows whether the block goes on.
            self._is_cut = not isinstance(error, GeneratorExit)
            raise

    async def _fail_after_cut(self) -> core.Event:
        """Fail for a caller that goes on after a wait was cancelled (SSE-10)."""
        if self.ended:
            raise StopAsyncIteration
        how = "to limit how long a run may take, use timeout= or leave the block"
        what = f"the run was cancelled while it waited, so it cannot go on; {how}"
        failure: Exception = IncompleteRunError(what, rule="TRUNC-1")
        try:
            if not self._is_run_over:
                await self._end_run(failure)
        except Exception as error:
            failure = error
        self._finish(failure)
        raise failure

    def _finish(self, error: Exception | None) -> None:
        """End the call: build its result, and note on an exception where it happened and what had arrived."""
        self.ended, self.error = True, error
        self._result = build_result(self)
        annotate(error, self._result)
        self.setup.observers.call("on_call_end", self.scope, call_end(self))

    # --- one run

    def _new_run(self, run_input: RunAgentInput) -> None:
        setup, conversation = self.setup, self.conversation
        if setup.is_replay:
            from agui_client._protocol.replay import ReplayReducer

            conversation.begin_replay(ReplayReducer(conversation.reducer, self.warnings))
        reducer = conversation.reducer
        reducer.thread.log = self.warnings
        self.input = run_input
        # An agent without handlers of its own uses those of the run around it.
        own, around = setup.options, CURRENT_SCOPE.get()
        self.scope = RunScope(
            agent=setup.agent,
            input=run_input,
            warnings=self.warnings,
            observers=setup.observers,
            owner=setup.owner,
            options=self._options,
            approve=own.get("approve") or (around.approve if around else None),
            answer=own.get("answer") or (around.answer if around else None),
            until=self._until,
            is_replay=setup.is_replay,
            first=self.scopes[0] if self.scopes else None,
        )
        nulls, strict = own.get("null_fields", "reject"), own.get("strict", False)
        self.pipeline = Pipeline(reducer, self.warnings, null_fields=nulls, strict=strict)
        self.outcome = self.pipeline.outcome
        self.scopes.append(self.scope)
        self.outcomes.append(self.outcome)
        self._inside = partial(setup.observers.inside, self.scope)
        self._hooks = HookCalls(setup.subscribers, HookContext(run_input, conversation), conversation)
        self._source = None
        self.has_come_to_end = self._is_run_over = self.is_run_open = self.is_answering = False

    async def _with_tools(self, run_input: RunAgentInput) -> RunAgentInput:
        listed = await self._in_time(Waiter(), partial(self.tools.offer, run_input), _LISTING)
        return run_input.model_copy(update={"tools": listed or None})

    async def _begin_run(self) -> Source | None:
        """Call the agent's `run`; return the source of its events, or None if the run was stopped before."""
        setup, conversation, scope = self.setup, self.conversation, self.scope
        if self.approved:
            self.input = scope.input = with_conversation(self.input, conversation)
        if not self.is_stopped:
            scope.started_at = perf_counter()
            setup.observers.call("on_start", scope)
            await self._call_hooks("on_run_initialized")
        if self.is_stopped:
            return None
        if setup.subscribers:
            self.input = scope.input = with_conversation(self.input, conversation)
        if not await self._choose_messages():
            return None
        conversation.note_sent_state(self.input.state)
        self.is_run_open = True
        await self.saving.save()
        agent_run = observed_run(setup, scope)

        def run(run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
            """Call the agent with an input that was checked after middleware."""
            peer, is_copied = setup.max_protocol_version, setup.agent.url is None
            return agent_run(prepare_input(run_input, self.warnings, max_protocol_version=peer, is_copied=is_copied))

        source = self._loop.source(partial(RunSource, run, setup.middleware, self.pipeline.compat, scope))
        self._source, self.pipeline.is_conforming = source, source.conforming
        self.pipeline.verifier.begin(self.input.thread_id, None if setup.is_replay else self.input.run_id)
        if self.is_aborted:
            self._give_up()
            return None
        return source

    async def _choose_messages(self) -> bool:
        """Leave out what `history=` does not send; return whether the call goes on."""
        history, conversation = self.setup.options.get("history", "full"), self.conversation
        is_passed = self.request is not None and self.request.is_passed and self.scope.first is None
        if history != "full" and not is_passed:
            choose = partial(chosen_messages, history, conversation.messages, conversation.unreceived)
            chosen = await self.wait_for(choose)
            if chosen is None:
                return False
            self.input = self.scope.input = self.input.model_copy(update={"messages": chosen})
        if not self.setup.is_replay:
            conversation.note_sent(history, self.input.messages)
        return True

    async def _deliver(self, event: core.Event) -> None:
        """Verify and reduce an event, and call the hooks of subscribers."""
        self.pipeline.admit(event)
        if self._hooks.concern(event):
            change = await self._loop.call(self._inside, self._hooks.deliver, event, self.pipeline.apply)
        else:
            change = self.pipeline.apply(event)
        if self.conversation.listeners or self.setup.observers.of_events:
            self._publish(event, change)

    def _publish(self, event: core.Event, change: Change) -> None:
        if change is not _NO_CHANGE:
            self.conversation.notify(change)
        self.setup.observers.event(self.scope, event, change)

    async def _end_run(self, failure: Exception | None) -> None:
        """Close everything, settle the conversation, and tell subscribers and observers.

        Raises:
            Exception: The failure of the run; without one, an exception of a cleanup or a hook.
        """
        self._is_run_over, self.ended_at = True, perf_counter()
        try:
            failure = await self._wind_up(failure)
        finally:
            self.scope.end = run_end(self, failure)
            self.setup.observers.call("on_end", self.scope, self.scope.end)
        failure = await self._try(self.saving.save(), failure)
        if failure is not None:
            raise failure

    async def _wind_up(self, failure: Exception | None) -> Exception | None:
        """Take the last steps of a run; return its failure, or the exception of a step that failed."""
        setup, self.is_run_open = self.setup, False
        if self._source is not None:
            failure = await self._try(self._source.aclose(), failure)
        self.is_aborted = self.is_aborted and not self.outcome.is_terminal
        has_begun = self._source is not None and self.scope.may_have_started
        on_abort = setup.options.get("on_abort")
        if on_abort is not None and has_begun and ending.is_left(self.is_aborted or self._is_cut, failure):
            context = HookContext(self.input, self.conversation, latest_run_id(self))
            await self._loop.call(self._inside, ending.call_on_abort, on_abort, context)
        ending.settle(self, failure)
        if failure is not None and setup.subscribers:
            annotate(failure, self.result())
            await self._try(self._call_hooks("on_run_failed", failure), failure)
        return await self._try(self._call_hooks("on_run_finalized"), failure)

    async def _try(self, step: Awaitable[None], failure: Exception | None) -> Exception | None:
        """Take one of the last steps; an exception of it is the run's failure only if there is none yet."""
        try:
            await step
        except Exception as error:
            if failure in (None, error):
                return error
            _logger.error("at the end of run %s", self.input.run_id, exc_info=error)
        return failure

    async def _call_hooks(self, moment: str, *details: object) -> None:
        if self.setup.subscribers:
            await self._loop.call(self._inside, self._hooks.tell, moment, *details)

    # --- between runs

    async def wait_for(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Wait for code of the application: tools, people, or the function of `history=`.

        Args:
            work: Begins the work.

        Returns:
            The result of the work; None if the call was stopped.

        Raises:
            RunTimeoutError: The call took too long.
        """
        return await self._loop.call(self._inside, self._waited, work)

    async def _waited(self, work: Callable[[], Awaitable[T]]) -> T | None:
        self._waiter = Waiter()
        return await self._in_time(self._waiter, work, "tools, people or the function of history= were at work")

    async def _take_in(self, answers: Answers) -> list[core.Event]:
        """Add answers to the conversation; return events of the results, which watchers have seen."""
        self.conversation.add_own_results(answers.messages)
        events: list[core.Event] = []
        for message in answers.messages:
            event = event_of_result(message)
            if self.setup.subscribers:
                await self._loop.call(self._inside, self._hooks.deliver, event)
            self.setup.observers.event(self.scope, event, Change.MESSAGES)
            events.append(event)
        return events

    # --- the time that the whole call may take, where no source is read

    @asynccontextmanager
    async def _open_toolsets(self) -> AsyncGenerator[None]:
        """Open the toolsets; they stay open while the block lasts."""
        if not self.tools.toolsets or self._until == math.inf:
            async with self.tools:
                yield
            return
        # Around the toolsets as long as they are open: their own scopes begin inside of it, and must end there, too.
        with anyio.CancelScope(deadline=anyio.current_time() + self._until - perf_counter()) as scope:
            async with self.tools:
                scope.deadline = math.inf
                yield
        if scope.cancelled_caught:
            raise self._too_late(_LISTING)

    async def _in_time(self, waiter: Waiter, work: Callable[[], Awaitable[T]], what: str) -> T | None:
        """Wait for work that is not begun if the time is up already; return None if the wait was ended."""
        result, left = None, self._until - perf_counter()
        try:
            if left > 0:
                result = await waiter.wait(work(), left)
        finally:
            waiter.close()
        if result is None and self._until <= perf_counter():
            raise self._too_late(what)
        return result

    def _too_late(self, what: str) -> RunTimeoutError:
        took = f"the call took longer than {self.setup.total:g} s, and was stopped while {what}"
        return RunTimeoutError(
            f"{took}; raise Timeouts.total to allow more", silent=0.0, keep_alives=0, last_event=None
        )

    # --- looking

    @property
    def given_results(self) -> Sequence[ToolMessage]:
        """The results of tool calls that came with the call, and not from a tool, as far as its caller lacks them."""
        return () if self.request is None else self.request.results_to_tell

    def result(self) -> RunResult:
        """Return what has arrived so far; once the call is over, its result."""
        return self._result or build_result(self)
