"""The sync surface: the async run on an anyio portal, with one pump task that enters, iterates and leaves it.

Events are handed over in batches, so the pump runs ahead of the caller. The run therefore has a reducer of its own, and
the conversation is fed in the caller's thread, event by event as they are given out: what the caller sees is in step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
from ag_ui.core import (
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._pipeline.reduce import Change
from agui_client._surfaces.calls import CallBook, StreamedToolCall, ToolCalls
from agui_client._surfaces.handover import Handover
from agui_client._surfaces.stream import LEFT_EARLY, AnswerText
from agui_client.errors import IncompleteRunError, UsageError
from agui_client.result import Snapshot

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    from ag_ui.core import Event, Message, ToolCall
    from anyio.abc import TaskStatus
    from anyio.from_thread import BlockingPortal

    from agui_client._pipeline.reduce import Reducer
    from agui_client._pipeline.replies import Replies
    from agui_client._pipeline.warnings import ProtocolWarning
    from agui_client._surfaces.exchange import Exchange
    from agui_client._surfaces.stream import AgentRun
    from agui_client.result import RunResult, ToolExecution


T = TypeVar("T")

_OUTSIDE = "a run is used inside its block: with agent.stream_sync(...) as run"


@dataclass(frozen=True, slots=True)
class _Resync:
    """What hooks made of the conversation, on the way of an event or at the end of the run."""

    messages: list[Message]
    state: Any
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class _Replied:
    """A run is over, and was answered; another one may follow."""

    exchange: Exchange
    replies: Replies


@dataclass(frozen=True, slots=True)
class _End:
    """The run is over, and this is what it came to."""

    result: RunResult | None
    error: BaseException | None = None


_Item: TypeAlias = "Event | _Resync | _Replied | _End"
"""What is handed over to the caller's thread."""


def _escaped(error: BaseException) -> BaseException:
    """What the caller is told of an exception that ends programs, or that came out of the run's own depth."""
    if isinstance(error, asyncio.CancelledError):
        return IncompleteRunError("the agent's own code was cancelled, and the run with it", rule="TRUNC-1")
    return error


def _unanswered(book: CallBook, reducer: Reducer) -> list[ToolCall]:
    """The calls that were seen, and no result of them."""
    answered = {message.tool_call_id for message in reducer.messages if isinstance(message, ToolMessage)}
    calls = (reducer.tool_call(each) for each in book.tool_call_ids() if each not in answered)
    return [call for call in calls if call is not None]


def _open_before(unseen: Sequence[_Item], open_after: Sequence[str]) -> list[str]:
    """What had begun and not ended when the caller left, told from what nobody took."""
    still_open = dict.fromkeys(reversed(open_after))
    for item in reversed(unseen):
        match item.event if isinstance(item, _Resync) else item:
            case RunFinishedEvent():
                still_open.clear()
            case ToolCallEndEvent(tool_call_id=item_id):
                still_open[item_id] = None
            case ToolCallStartEvent(tool_call_id=item_id):
                still_open.pop(item_id, None)
            case TextMessageEndEvent(message_id=item_id) | ReasoningMessageEndEvent(message_id=item_id):
                still_open[item_id] = None
            case TextMessageStartEvent(message_id=item_id) | ReasoningMessageStartEvent(message_id=item_id):
                still_open.pop(item_id, None)
            case _:
                pass
    return list(reversed(still_open))


class SyncAgentRun:
    """A run in progress, for code without `await`: `with agent.stream_sync("...") as run`, then iterate it.

    As `AgentRun`: iterating gives typed events, `messages` and `state` include the event that was just given, leaving
    the block ends the run. Ctrl-C works. To be used in one thread; only `cancel()` may be called from any.

    Args:
        run: The run, not yet entered.
        ahead: The run's own reducer.
        reducer: The conversation's reducer, fed in the caller's thread.
        on_change: Told what each event changed, in the caller's thread.
    """

    def __init__(self, run: AgentRun, ahead: Reducer, reducer: Reducer, on_change: Callable[[Change], None]) -> None:
        self._run = run
        self._ahead = ahead
        self._revision = 0
        self._reducer = reducer
        self._on_change = on_change
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._future: Future[None] | None = None
        self._handover: Handover[_Item] | None = None
        self._end: _End | None = None
        self._has_left = False
        self._has_begun = False
        self._has_terminal = False
        self._book = CallBook()
        self._tool_calls = ToolCalls(self._book, reducer)

    def __enter__(self) -> Self:
        if self._future is not None:
            raise UsageError("a run's block can be entered once; call stream_sync() again for another run")
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._future, self._handover = self._portal.start_task(self._pump)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._has_left = True
        if self._future is not None:
            self._future.cancel()
        self._stack.close()
        if self._end is None and self._handover is not None:
            self._keep_what_was_done(self._handover.rest())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._handover is None or self._has_left:
            raise UsageError(_OUTSIDE)
        if self._end is not None:
            raise StopIteration
        while True:
            item = self._handover.get()
            if isinstance(item, _End):
                self._end = self._as_seen_here(item)
                self._run.settle()
                self._outcome()
                raise StopIteration
            self._has_begun = True
            self._has_terminal = isinstance(item, RunFinishedEvent | RunErrorEvent)
            if isinstance(item, _Replied):
                self._take_in(item)
                continue
            if isinstance(item, _Resync):
                self._reducer.set_messages(item.messages)
                self._reducer.set_state(item.state)
                self._on_change(Change.MESSAGES | Change.STATE)
                if item.event is not None:
                    return item.event
                continue
            if isinstance(item, ToolCallStartEvent | ToolCallEndEvent):
                self._book.note(item)
            if change := self._reducer.feed(item):
                self._on_change(change)
            return item

    @property
    def text_stream(self) -> Iterator[str]:
        """The assistant's text as it arrives, subagents' left out; ends with the run."""
        answer = AnswerText()
        return (text for event in self if (text := answer.of(event)))

    @property
    def tool_call_stream(self) -> Iterator[StreamedToolCall]:
        """After every event of a tool call that call, with its arguments as far as they came."""
        return (call for event in self if (call := self._tool_calls.of(event)) is not None)

    @property
    def tool_calls(self) -> ToolCalls:
        """The tool calls so far, by id, live while their arguments arrive."""
        return self._tool_calls

    @property
    def snapshots(self) -> Iterator[Snapshot]:
        """After every event, the event with the messages and the state that include it."""
        return (Snapshot(event, self.messages, self.state) for event in self)

    def result(self) -> RunResult:
        """Wait for the end of the run.

        Returns:
            What the run came to; if it was cancelled from here, what had arrived, with `aborted` set.

        Raises:
            AGUIError: As `AgentRun.result`.
        """
        if self._end is None and self._has_left:
            raise UsageError(LEFT_EARLY)
        if self._end is None:
            for _ in self:
                pass
        return self._outcome()

    @property
    def partial(self) -> RunResult:
        """What has arrived so far, at any time; after the end, the result."""
        return self._in_loop(lambda: self._run.partial)

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list; the messages in it never change afterwards."""
        if self._end is not None and self._end.result is not None:
            return list(self._end.result.messages)
        return self._reducer.messages

    @property
    def state(self) -> Any:
        """The state so far, any JSON value; treat it as read-only."""
        if self._end is not None and self._end.result is not None:
            return self._end.result.state
        return self._reducer.state

    @property
    def warnings(self) -> list[ProtocolWarning]:
        """What was tolerated so far."""
        return self._in_loop(lambda: self._run.warnings)

    @property
    def thread_id(self) -> str:
        """The conversation."""
        return self._run.thread_id

    @property
    def run_id(self) -> str:
        """The run that was asked for."""
        return self._run.run_id

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """The tools that are run here, each as far as it has come."""
        return self._in_loop(lambda: self._run.tool_executions)

    def cancel(self) -> None:
        """Stop the run from any thread: iteration ends, and `result()` returns with `aborted` set."""
        self._run.cancel()

    def _take_in(self, replied: _Replied) -> None:
        plan, replies = replied.exchange.plan, replied.replies
        if replied.exchange.ended:
            replied.exchange.settle()
        if replies.messages:
            self._reducer.add_results(replies.messages)
            self._on_change(Change.MESSAGES)
        plan.on_replies(replies)

    def _keep_what_was_done(self, unseen: Sequence[_Item]) -> None:
        """Tools may have run ahead of a caller who left early: their results belong to the calls that are held."""
        if unseen and isinstance(unseen[0], _Replied):
            self._take_in(unseen[0])
        elif self._has_terminal:
            self._run.settle()
        else:
            calls = _unanswered(self._book, self._reducer) if self._has_begun else None
            self._run.leave(calls, _open_before(unseen, self._run.partial.incomplete_ids))
        for item in unseen[1:]:
            if isinstance(item, _Replied):
                held = [each for each in item.replies.messages if self._reducer.tool_call(each.tool_call_id)]
                self._reducer.add_results(held)
                self._on_change(Change.MESSAGES)

    def _in_loop(self, look: Callable[[], T]) -> T:
        """Look at the run where nothing changes it meanwhile."""
        if self._portal is None or self._has_left:
            return look()
        return self._portal.call(look)

    def _as_seen_here(self, end: _End) -> _End:
        """The end of the run with the conversation as the caller has it, own edits included."""
        if end.result is None:
            return end
        return _End(replace(end.result, messages=self._reducer.messages, state=self._reducer.state))

    def _outcome(self) -> RunResult:
        if self._end is None or self._end.result is None:
            raise (self._end and self._end.error) or UsageError(_OUTSIDE)
        return self._end.result

    async def _pump(self, *, task_status: TaskStatus[Handover[_Item]]) -> None:
        """Run in the portal: iterate the run to its end, then hold its block open until the caller leaves."""
        handover: Handover[_Item] = Handover()
        async with self._run as run:
            run.on_replies(partial(self._hand_over_replies, handover))
            task_status.started(handover)
            try:
                await self._hand_over(run, handover)
                end = _End(await run.result())
            except Exception as error:
                end = _End(None, error)
            except BaseException as error:
                handover.put(_End(None, _escaped(error)))
                raise
            if run.revision != self._revision:
                handover.put(_Resync(self._ahead.messages, self._ahead.state))
            handover.put(end)
            await anyio.sleep_forever()

    def _hand_over_replies(self, handover: Handover[_Item], exchange: Exchange, replies: Replies) -> None:
        handover.put(_Replied(exchange, replies))

    async def _hand_over(self, run: AgentRun, handover: Handover[_Item]) -> None:
        async for event in run:
            item: Event | _Resync = event
            if run.revision != self._revision:
                self._revision = run.revision
                item = _Resync(self._ahead.messages, self._ahead.state, event)
            if handover.put(item):
                await handover.wait_for_space()
