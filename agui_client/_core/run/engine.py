"""The engine: one call of a verb, from entering its block to leaving it.

It pulls, so that back-pressure is the socket's, and has no task of its own. Asynchronous work is done through a
`RunLoop`, so that the same code serves asynchronous and sync verbs. The phases that it leads a call through, and the
ways to stop it, are in `state`; what is about one run is in `round`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import uuid4
from weakref import WeakSet

from agui_client._core.ground.concurrency import unasked
from agui_client._core.run import ending
from agui_client._core.run.between_runs import Between
from agui_client._core.run.last_steps import abandon_run, finish_run, step
from agui_client._core.run.lost_run import repeated_request
from agui_client._core.run.round import Run
from agui_client._core.run.saving import Saving, checkpoint_of
from agui_client._core.run.state import Phase, Reason
from agui_client._core.run.steering import acquire_turn
from agui_client._core.run.subagents import is_of_a_member
from agui_client._core.run.time_limit import TimeLimit
from agui_client._core.run.turn_input import composed_input, event_of_result, request_of
from agui_client._core.tools.interrupts import AnsweredInterrupt, answered_by_caller
from agui_client._core.tools.toolset import CallTools
from agui_client._core.transport.waiting import Waiter
from agui_client.errors import IncompleteRunError, UsageError

if TYPE_CHECKING:
    from types import AsyncGeneratorType
    from typing import Self

    from ag_ui import core
    from ag_ui.core import RunAgentInput, Tool, ToolMessage

    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.run.call import Call
    from agui_client._core.run.checkpoint import Checkpoint
    from agui_client._core.run.next_step import Ask, Work
    from agui_client._core.run.run_loop import RunLoop
    from agui_client._core.transport.source import Source

T = TypeVar("T")

# Looking up the member of an enum costs as much as a step of an event.
_NO_STOP = Reason.NONE
_TURN_SECONDS = 0.03
"""The longest time between two turns of the event loop, if one event takes no longer."""
_ENGINES: WeakSet[Engine] = WeakSet()
"""The calls of this process, of which a forked process has only copies."""


class Engine:
    """Carries out one call.

    Args:
        call: The record of the call.
        loop: The event loop for asynchronous work.
    """

    def __init__(self, call: Call, prompt: Prompt, loop: RunLoop) -> None:
        self.call = call
        """The record of the call."""
        self._state, self._prompt, self._loop = call.state, prompt, loop
        self._saving = Saving(call, loop)
        self._between = Between(call, self._saving)
        self._waiter: Waiter | None = None
        self._stack = AsyncExitStack()
        self._iteration = cast("AsyncGeneratorType[core.Event, None]", self._events())
        self._next_event: Callable[[], Awaitable[core.Event]] = self._iteration.__anext__
        self._is_forked, self._next_run_id = False, str(uuid4())
        _ENGINES.add(self)

    # --- entering the block

    async def enter(self) -> None:
        """Check the call, open its toolsets and add its messages to the conversation; nothing is sent yet.

        Raises:
            UsageError: The call cannot be carried out; the conversation is as it was.
            ToolsetError: A toolset cannot be used; the conversation is as it was.
        """
        call, conversation = self.call, self.call.conversation
        async with AsyncExitStack() as stack:
            await acquire_turn(conversation.turns, call.owner, call.options.get("when_busy", "raise"), self, stack)
            call.time = TimeLimit(call.timeouts.total)
            if call.is_replay:
                first = composed_input(conversation, call.options, conversation.messages)
            else:
                repeated = repeated_request(conversation, self._prompt, call.options)
                can_answer = call.agent_options.get("answer") is not None
                call.request = repeated or await request_of(
                    conversation, self._prompt, call.options, can_answer=can_answer
                )
                first = call.request.input
            # Toolsets are opened before anything changes, so that one that cannot be opened leaves no trace.
            call.tools = CallTools(call.options.get("tools", call.agent_tools), first.tools or ())
            if call.tools.toolsets:
                await call.time.open(call.tools, stack)
            tools = await self._listed_tools(first)
            if call.request is not None:
                call.request.check_tools(call.tools)
                call.request.add_to_conversation()
                call.request.warn(call.warnings)
            # After the prompt was added: what the caller brought is not new in the result.
            call.messages_before = conversation.messages
            sent = {"tools": tools, "messages": conversation.messages, "state": conversation.state}
            asked = [*conversation.pending_interrupts, *conversation.answered_interrupts] if first.resume else []
            self._add_round(first.model_copy(update=sent), answered_by_caller(asked, first.resume or ()))
            self._between.begin()
            self._stack = stack.pop_all()

    async def _listed_tools(self, run_input: RunAgentInput) -> Sequence[Tool] | None:
        tools = self.call.tools
        listed = None if tools.is_empty else await self.call.time.wait(Waiter(), partial(tools.offer, run_input))
        return listed or None

    def _add_round(self, run_input: RunAgentInput, answered: Sequence[AnsweredInterrupt]) -> None:
        self.call.rounds.append(Run(self.call, run_input, self._loop, answered))

    # --- the loop

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[core.Event]:
        if self._iteration.ag_running and not self._is_forked:
            raise UsageError("two tasks iterate one run; use one, or clone() the agent and run it twice")
        return self._next_event()

    async def _events(self) -> AsyncGenerator[core.Event]:  # noqa: C901 - the one loop, to be read from top to bottom
        """Run the agent, let tools and people answer, and run it again, until nothing is left to answer here."""
        call, state = self.call, self._state
        subscribers, listeners, observers = call.subscribers, call.conversation.listeners, call.observers
        between = self._between
        is_saved = call.save is not None or call.also_save is not None
        with self._ending_call():
            if not state.is_stopped:
                observers.call("on_call_start", call.round)
            while True:
                while (step := between.step) is not None:
                    for result in await self._carry_out(step):
                        yield result
                if not await self._begin_run():
                    break
                run = call.round
                pipeline, failure = run.pipeline, None
                try:
                    source = await self._send(run)
                    turn_at = perf_counter() + _TURN_SECONDS
                    while source and (batch := await source.read() if state.reason is _NO_STOP else None) is not None:
                        for wire_event in batch:
                            # The events are yielded here and by no generator below: each one more costs every event.
                            if subscribers:
                                for event in pipeline.admitted(wire_event):
                                    await run.deliver(event)
                                    yield event
                            else:
                                # Watchers may come and go between two events.
                                is_watched = listeners or observers.of_events
                                for event in pipeline.feed(wire_event, run.publish if is_watched else None):
                                    yield event
                            if is_saved and is_of_a_member(wire_event):
                                await self._saving.save()
                            if state.reason is not _NO_STOP:
                                break
                            if perf_counter() > turn_at:
                                await self._pause(source)
                                turn_at = perf_counter() + _TURN_SECONDS
                    failure = self._verdict(run)
                except asyncio.CancelledError as error:
                    failure = ending.verdict_on_break(run, unasked(error), is_aborted=state.is_aborted)
                except Exception as error:
                    failure = ending.verdict_on_break(run, error, is_aborted=state.is_aborted)
                await finish_run(self.call, self._saving, failure)
                await between.take_over()

    @contextmanager
    def _ending_call(self) -> Generator[None]:
        """End the call with the block, or with its exception."""
        try:
            yield
            self.call.end(None)
        except Exception as error:
            self.call.end(error)
            raise
        except GeneratorExit:
            # `aclose` has more to close, and ends the call then.
            raise
        except BaseException:
            # A wait was cancelled, and cannot be taken up again; only the caller knows whether the block continues.
            self._state.cut()
            self._next_event = self._fail_after_cut
            raise

    async def _begin_run(self) -> bool:
        """Begin the next run, if one is to be sent; the first was made when the block was entered.

        Returns:
            Whether there is one.
        """
        state, between = self._state, self._between
        if state.phase is Phase.READY:
            # One that was stopped ends as a run that was not sent.
            return between.begins_first_run()
        following = between.prepare_next_run(self._next_run_id)
        if following is None:
            return False
        if state.phase is Phase.OVER:
            # The run left nothing to answer: the user steers. A stop while the tools are listed aborts the call.
            state.answer()
        answered, between.answered = between.answered, []
        tools = await self._loop.call(self._listed_tools, following)
        state.begin_run()
        self._next_run_id = str(uuid4())
        self._add_round(following.model_copy(update={"tools": tools}), answered)
        return True

    async def _pause(self, source: Source) -> None:
        await source.pause()
        # Not for `also_save` alone: a durable run continues from its beginning, so its middle is of no use there.
        if self.call.save is not None:
            await self._saving.sometimes()

    def _verdict(self, run: Run) -> Exception | None:
        """Return the failure of a run whose source is read to its end, or that was stopped."""
        if not self._state.is_stopped:
            self._state.read_to_end()
        # The terminal event may have come after the stop, in the same read.
        has_no_end = self._state.is_aborted and not run.outcome.is_terminal
        return None if has_no_end else ending.verdict(run)

    async def _send(self, run: Run) -> Source | None:
        """Call the agent's `run`; return the source of its events, or None if the run was stopped before."""
        call, state = self.call, self._state
        if call.executed and len(call.rounds) == 1:
            # The input was made when the block was entered, before the calls had their results.
            run.renew_input()
        if not state.is_stopped:
            await call.leaving.hold()
            run.started_at = perf_counter()
            call.observers.call("on_start", run)
            await run.call_hooks("on_run_initialized")
        if state.is_stopped:
            return None
        if call.subscribers:
            # Hooks may have changed messages and state.
            run.renew_input()
        if not await run.choose_messages(call, self._wait_for):
            return None
        call.conversation.note_sent_state(run.input.state)
        state.send()
        await self._saving.save()
        await run.prepare()
        source = run.open(call)
        if state.is_aborted:
            # `interrupt` may have come during the save, when there was no source to stop.
            self._give_up()
            return None
        if not run.is_replay:
            call.conversation.note_sent(call.agent_options.get("history", "full"), run.input.messages)
        return source

    # --- between two runs

    async def _carry_out(self, step: Ask | Work) -> list[core.Event]:
        """Have people or tools do a step; return events of results, and of what tools showed and asked beside."""
        if self._state.phase is Phase.OVER:
            # Here, between the check of the limits and the first question: a call that passes a limit ends with the
            # outcome of its last run, and one that is stopped while a person is asked has none.
            self._state.answer()
        return await self._add_answers(await self._between.carry_out(step, self._wait_for))

    async def _wait_for(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Wait for code of the application: tools, people, or the function of `history=`.

        Args:
            work: Begins the work.

        Returns:
            The result of the work; None if the call was stopped.

        Raises:
            RunTimeoutError: The call took too long.
        """
        return await self.call.round.inside(self._waited, work)

    async def _waited(self, work: Callable[[], Awaitable[T]]) -> T | None:
        self._waiter = Waiter()
        what = "tools, people or the function of history= were at work"
        return await self.call.time.wait(self._waiter, work, what)

    async def _add_answers(self, messages: Sequence[ToolMessage]) -> list[core.Event]:
        """Add results to the conversation and save them; return their events, and those of what tools did beside."""
        self.call.conversation.add_results(messages, are_own=True)
        shown = self.call.round.store_activities()
        self._between.look()
        if messages or self._state.is_stopped:
            # One save for the results and the run that is sent next. It is too early for answers of people: those of
            # a run that was sent are not known to have arrived. What a call that was stopped leaves is saved here, as
            # the save at its end is not a place to continue from.
            is_left = self._state.is_stopped or self.call.leaving.has_begun
            is_sent_next = self._state.phase is Phase.ANSWERING and self._between.is_sent
            is_sent_next = is_sent_next and not self._between.answered and not is_left
            await self._saving.save(self._next_run_id if is_sent_next else None)
        self.call.leaving.note_all_saved()
        # All are added before the first event is given, so that a caller that leaves here loses none of them.
        events = await self.call.round.collect_agents()
        stored: list[core.Event] = [*map(event_of_result, messages), *shown]
        for event in stored:
            await self.call.round.deliver_stored(event)
        return [*events, *stored]

    # --- from outside: another task or thread may call these

    def steer(self, prompt: Prompt) -> None:
        """Add a message of the user for the next run."""
        self.call.steer(prompt)

    def checkpoint(self) -> Checkpoint:
        """Return the conversation as it would be if the program ended now."""
        return checkpoint_of(self.call)

    # --- stopping, and leaving the block

    def interrupt(self) -> None:
        """Stop the call and give up what is waited for, from any thread.

        A run that has its terminal event already keeps that outcome (LIFE-7); no tool is executed after it.
        """
        if not self._state.has_ended:
            self._state.stop(is_done=self._is_done)
            self._give_up()

    @property
    def _is_done(self) -> bool:
        """Whether the present run has its terminal event; there is none yet while the call is being checked."""
        return bool(self.call.rounds) and self.call.round.outcome.is_terminal

    def _give_up(self) -> None:
        if self._waiter is not None:
            self._loop.thread.call(self._waiter.end)
        if self.call.rounds and (source := self.call.round.source) is not None:
            self._loop.thread.call(source.interrupt)

    def become_forked(self) -> None:
        """Leave the run to the process that this one was forked from, which has its event loop and connections."""
        self._is_forked, self._next_event = True, self._fail_after_fork

    async def _fail_after_fork(self) -> core.Event:
        what = "this process was forked in the middle of the run, which continues in the process it came from"
        raise UsageError(f"{what}; run a clone() of the agent here")

    async def _fail_after_cut(self) -> core.Event:
        """Fail for a caller that continues after a wait was cancelled (SSE-10)."""
        if self._state.has_ended:
            raise StopAsyncIteration
        how = "to limit how long a run may take, use timeout= or leave the block"
        what = f"the run was cancelled while it waited, so it cannot continue; {how}"
        failure: Exception = IncompleteRunError(what, rule="TRUNC-1")
        try:
            if not self._state.is_run_over:
                await finish_run(self.call, self._saving, failure)
        except Exception as error:
            failure = error
        self.call.end(failure)
        raise failure

    async def aclose(self) -> None:
        """Leave the call, wherever it is: close connections, generators and toolsets. Idempotent."""
        if self._is_forked:
            return
        async with self._stack:
            error = None
            if not self._state.has_ended:
                try:
                    await self._iteration.aclose()
                    self._state.exit(is_done=self._is_done)
                    if not self._state.is_run_over:
                        error = await abandon_run(self.call, self._saving)
                finally:
                    self.call.end(error)
            failure = await step(self.call, self._saving.save(is_at_end=True), self.call.error)
            if failure is not None and failure is not self.call.error:
                raise failure


def _leave_runs_to_parent() -> None:
    for engine in _ENGINES:
        engine.become_forked()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_leave_runs_to_parent)
