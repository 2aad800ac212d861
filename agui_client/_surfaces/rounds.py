"""Rounds: one call as a row of runs, each of which answers the tool calls and interrupts that the one before left.

The surfaces drive this. Without anybody to answer, a call is a single exchange, and its events take no detour.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agui_client._pipeline.replies import Replies
from agui_client._pipeline.waiting import Patience
from agui_client._surfaces.exchange import Exchange
from agui_client.errors import IncompleteRunError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, ResumeEntry, RunAgentInput

    from agui_client._surfaces.plan import Plan
    from agui_client.result import RunResult


Reply = Callable[[Exchange], Awaitable[Replies | None]]
"""Answers what an exchange left; None if there is nothing for it to do."""


@dataclass(frozen=True, slots=True)
class Following:
    """How a call goes on after a run."""

    reply: Reply
    """Answers what the run left."""
    ask: Callable[[RunAgentInput, Sequence[ResumeEntry]], RunAgentInput]
    """Makes the next input out of the one before, with the conversation as it is now."""
    before: Reply | None = None
    """Answers what must be answered before the first run is sent; None if nothing."""


class Rounds:
    """A call, from its first run to the last.

    Args:
        first: The first run.
        following: How it goes on; None for a single run.
    """

    def __init__(self, first: Exchange, following: Following | None = None) -> None:
        self.current = first
        """The run that is going on, or was the last."""
        self.on_replies: Callable[[Exchange, Replies], None] = lambda exchange, replies: None
        """Told what was answered after a run."""
        self.meet: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        """Entered while a run is answered; where the run is ahead of its caller, it waits for the caller."""
        self._following = following
        self._has_begun = False
        self.is_stopped = False
        """Whether somebody asked for its end."""
        self._ended = False
        self._error: Exception | None = None
        self._cut: IncompleteRunError | None = None
        self._aborted = False
        self._patience: Patience | None = None

    @property
    def next_event(self) -> Callable[[], Awaitable[Event]]:
        """What gives the next event."""
        return self.current.next_event if self._following is None else self._next

    @property
    def plan(self) -> Plan:
        """What the present run was given."""
        return self.current.plan

    @property
    def ended(self) -> bool:
        """Whether the call is over."""
        return self.current.ended if self._following is None else self._ended

    @property
    def error(self) -> Exception | None:
        """What the call ended with; None while it is going on, or if it finished."""
        return self._error or (self.current.error if self.ended else None)

    @property
    def aborted(self) -> bool:
        """Whether the call was stopped from here."""
        return self._aborted or self.current.aborted

    @property
    def revision(self) -> int:
        """Counts the changes to messages and state that came neither from events nor from tool results."""
        return self.current.course.revision

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; once the call is over, as it left it."""
        return self.current.messages

    @property
    def state(self) -> Any:
        """The state so far; once the call is over, as it left it."""
        return self.current.state

    def result(self) -> RunResult:
        """What has arrived so far; once the call is over, what it came to."""
        result = self.current.result()
        if self._following is not None:
            # Tools go on, or are given up, when their run is over; and what is odd about its calls shows only then.
            executions = list(self.current.course.executions.values())
            result = replace(result, tool_executions=executions, warnings=self.plan.warnings.records())
        # Stopped between two runs: the last one's outcome is not the call's.
        return replace(result, aborted=True, outcome=None) if self._aborted else result

    def left_early(self) -> UsageError:
        """What whoever left the block before the end is told when asking for the result."""
        error = UsageError("the block was left before the run ended; `partial` has what had arrived")
        self.current.annotate(error)
        return error

    def interrupt(self) -> None:
        """Stop the call; what is waited for is given up. Called in the event loop's thread.

        Between a terminal event and the tools that follow it, the run stays what it is, and no tool is run.
        """
        if self.ended:
            return
        self.is_stopped = True
        if not self.current.ended:
            self.current.interrupt()
        elif self._patience is not None:
            self._aborted = True
        if self._patience is not None:
            self._patience.end()

    async def aclose(self) -> None:
        """Leave the call, wherever it is. Idempotent."""
        await self.current.aclose()
        if self._patience is not None:
            self._patience.end()
        if not self.ended:
            self._aborted = self._ended = True

    async def _next(self) -> Event:
        if self._patience is not None:
            raise UsageError("two tasks iterate one run; use one, or clone() the agent and run it twice")
        if self._cut is not None and not self._ended:
            self._fail(self._cut)
            raise self._cut
        if not self._has_begun:
            self._has_begun = True
            await self._begin()
        while not self._ended:
            try:
                return await self.current.next_event()
            except StopAsyncIteration:
                self._ended = not await self._goes_on()
            except Exception:
                self._ended = self.current.ended
                raise
        raise StopAsyncIteration

    async def _begin(self) -> None:
        """Answer what waits from earlier, if anything does, and ask the first run with it."""
        first, following = self.current, self._following
        if following is None or following.before is None:
            return
        replies = await self._replies(following.before)
        if replies is not None:
            self._take_in(first, replies)
        if not first.aborted:
            held = {"messages": first.plan.reducer.messages, "state": first.plan.reducer.state}
            asked = first.plan.input.model_copy(update=held)
            self.current = Exchange(replace(first.plan, input=asked), first.course)

    async def _goes_on(self) -> bool:
        """Answer what the run left, and begin the next one if there is to be one."""
        following, done = self._following, self.current
        if following is None or done.aborted or done.error is not None or self.is_stopped:
            return False
        replies = await self._replies(following.reply)
        if replies is None:
            return False
        if self._aborted:
            replies = replace(replies, goes_on=False)
        self._take_in(done, replies)
        if replies.goes_on:
            self._ask(following, done, replies)
        return replies.goes_on

    def _ask(self, following: Following, done: Exchange, replies: Replies) -> None:
        try:
            asked = following.ask(done.plan.input, replies.entries)
        except Exception as error:
            self._fail(error)
            raise
        self.current = Exchange(replace(done.plan, input=asked), done.course)

    def _take_in(self, done: Exchange, replies: Replies) -> None:
        done.take_in(replies)
        self.on_replies(done, replies)

    async def _replies(self, reply: Reply) -> Replies | None:
        self._patience = Patience.here()
        begun = frozenset(self.current.course.executions)
        self.current.course.answers.clear()
        try:
            replies = await self._patience.wait(self._met(reply))
        except Exception as error:
            self._keep_finished(begun)
            self._fail(error)
            raise
        except BaseException:
            # What was being done cannot be taken up again: it may have been done in part.
            self._keep_finished(begun)
            self._cut = IncompleteRunError("the wait for tools or people was cancelled", rule="TRUNC-1")
            raise
        finally:
            self.current.sum_up_again()
            self._patience.close()
            self._patience = None
        if replies is None:
            self._keep_finished(begun)
        return replies

    async def _met(self, reply: Reply) -> Replies | None:
        """Answer, with the caller where the run is: tools see and change what the caller and the next run will see."""
        async with self.meet():
            return await reply(self.current)

    def _keep_finished(self, begun: Collection[str]) -> None:
        """Keep what people and tools were done with when the rest was given up: nothing is asked or run again."""
        course = self.current.course
        fresh = [each for tool_call_id, each in course.executions.items() if tool_call_id not in begun]
        finished = [each.message for each in fresh if each.message is not None]
        if finished or course.answers:
            self._take_in(self.current, Replies(finished, tuple(course.answers), goes_on=False))

    def _fail(self, error: Exception) -> None:
        self._ended, self._error = True, error
        self.current.annotate(error)
