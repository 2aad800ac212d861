"""The asynchronous surface: a run as a block to iterate, with lenses on it and a result.

The engine is written once. For asynchronous verbs its work is awaited in the caller's task (`RunLoop`). For sync verbs
the engine runs in the caller's thread, which waits for work in the loop of another thread (`WorkerLoop`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import chain
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple

from ag_ui.core import (
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pydantic_core import from_json

from agui_client._core.conversation.message_list import MessageList
from agui_client._core.ground.plain_text import brief_traceback
from agui_client._core.run.lost_run import RepeatedRequest, is_refused_repetition
from agui_client._core.run.result import Snapshot, annotate
from agui_client._core.run.run_loop import RunLoop
from agui_client._core.run.scope import StateT, typed
from agui_client._core.run.subagents import SubagentText
from agui_client.errors import HTTPStatusError, ToolArgumentsError, UsageError

if TYPE_CHECKING:
    from typing import Self

    from ag_ui.core import CustomEvent, Event, Message, ToolCall

    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.protocol.warnings import ProtocolWarning
    from agui_client._core.run.call import Call
    from agui_client._core.run.engine import Engine
    from agui_client._core.run.result import RunResult
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.verbs.signer import Signer
    from agui_client._core.verbs.team_journals import JournalPlace
    from agui_client.a2ui import Surfaces

SYNC_CALLER: ContextVar[Thread | None] = ContextVar("SYNC_CALLER", default=None)
"""The thread that waits for the work that is in progress; None if the work is awaited."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


Start = Callable[[RunLoop], "Engine"]
"""Makes the engine of a run for the event loop that it uses."""


class RunView(Generic[StateT]):
    """The parts of a run in progress that can be looked at, the same for asynchronous and sync runs."""

    _outside = "a run is used inside its block"

    def __init__(self, start: Start, connect: Start | None) -> None:
        self.signer: Signer | None = None
        """The signer of the interrupts that a caller of a served agent gets; None if they are not signed."""
        self.journal_place: JournalPlace | None = None
        """The place for the journal of a team that a caller does not get; None if its thread has it."""
        self._start, self._connect = start, connect
        self._entered: Engine | None = None
        self._tool_calls: ToolCalls | None = None

    def __repr__(self) -> str:
        if self._entered is None:
            return f"<{type(self).__name__}: not entered>"
        state = "over" if self.call.state.has_ended else "in progress"
        return f"<{type(self).__name__}: {state}, run_id={self.run_id!r}>"

    @property
    def is_entered(self) -> bool:
        """Whether the run's block was entered."""
        return self._entered is not None

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; neither the list nor the messages in it ever change."""
        call = self.call
        return MessageList(call.result().messages) if call.state.has_ended else call.conversation.messages_to_show()

    @property
    def state(self) -> Any:
        """The state so far, any JSON value; treat it as read-only."""
        call = self.call
        return call.result().state if call.state.has_ended else call.conversation.state

    @property
    def surfaces(self) -> Surfaces:
        """The user interfaces that the agent sent so far, as A2UI, by their ids; see `AbstractAgent.surfaces`."""
        from agui_client.a2ui._live import surfaces_of

        return surfaces_of(self.call.conversation)

    @property
    def typed_state(self) -> StateT:
        """The state so far as an object of the agent's `state_model`: a copy, made at each access.

        Raises:
            ParseError: The state does not fit, which may be so in the middle of a run.
            UsageError: The agent has no `state_model`.
        """
        read: Callable[[Any], StateT] | None = self.call.read_state
        return typed(self.state, read)

    @property
    def predicted_state(self) -> Any:
        """The state so far with what the server has announced of tool calls that arrive (`PredictState`).

        It is ahead of `state` while the arguments of such a call arrive, and until the server says what the state is
        after the call; without announcements, and after the run, both are the same. To be read only.
        """
        state = self.state
        for tool_call_id, predictions in self.call.round.predictions.live():
            arguments = self.tool_calls[tool_call_id].partial_arguments
            for prediction in predictions:
                state = prediction.applied(state, arguments)
        return state

    @property
    def partial(self) -> RunResult[StateT]:
        """The result so far, at any time; after the end, the result."""
        return self.call.result()

    @property
    def tool_calls(self) -> ToolCalls:
        """The tool calls so far, by id, live while their arguments arrive."""
        if self._tool_calls is None:
            self._tool_calls = ToolCalls(self.call)
        return self._tool_calls

    @property
    def custom(self) -> list[CustomEvent]:
        """The CUSTOM events so far, in order; their values are objects where `custom_models=` has a type for them."""
        return self.call.custom

    @property
    def warnings(self) -> list[ProtocolWarning]:
        """The deviations from the protocol that were tolerated so far."""
        return self.call.warnings.records()

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """The tools that are executed here, each as far as it has come; those of members when these are over."""
        return self.call.all_executions

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self.call.round.input.thread_id

    @property
    def run_id(self) -> str:
        """The id of the run that was asked for."""
        return self.call.round.input.run_id

    def cancel(self) -> None:
        """Stop the run from any task or thread: iteration ends, and `result()` returns with `aborted` set."""
        self._engine.interrupt()

    def detach(self) -> None:
        """Leave the run and let the server continue with it, from any task or thread.

        Iteration ends, the connection is closed, and `on_abort` is not called. `result()` returns what arrived, with
        `aborted` and `detached` set. `connect_agent` follows the run again, also in another process. The server has to
        keep runs whose callers leave; others end the run.

        Raises:
            UsageError: The agent runs in this process, so nothing would continue.
        """
        self.call.detach()
        self._engine.interrupt()

    def steer(self, prompt: Prompt) -> None:
        """Say something to the agent while the run is in progress, from any task or thread; see `AbstractAgent.steer`.

        Args:
            prompt: As for `run_agent`; text, usually.

        Raises:
            UsageError: The run has ended.
        """
        self.call.steer(prompt)

    @property
    def call(self) -> Call:
        """The record of the call, for other parts of the package; an application needs nothing of it."""
        return self._engine.call

    @property
    def _asks_again(self) -> bool:
        """Whether the turn asks once more for a run whose end did not arrive, which its server may refuse."""
        return self._connect is not None and isinstance(self.call.request, RepeatedRequest)

    @property
    def _engine(self) -> Engine:
        if self._entered is None:
            raise UsageError(self._outside)
        return self._entered

    def _snapshot(self, call: Call, event: Event) -> Snapshot[StateT]:
        snapshot: Snapshot[StateT] = Snapshot(event, call.conversation.messages, call.conversation.state)
        return snapshot.read_with(call.read_state)

    def _outcome(self) -> RunResult[StateT]:
        """Return the result of a run that is over.

        Raises:
            Exception: The run failed, or its block was left before it ended.
        """
        call = self.call
        if call.error is not None:
            raise call.error
        result = call.result()
        if result.aborted and not call.state.is_stopped:
            error = UsageError(
                "the block was left before the run ended; `partial` has what had arrived; to stop a run on purpose, "
                "call run.cancel() inside the block, and result() returns what had arrived"
            )
            annotate(error, result, may_have_started=call.round.may_have_started)
            raise error
        return result


class AgentRun(RunView[StateT]):
    """A run in progress: `async with agent.stream("...") as run`, then iterate it in one task at a time.

    Iterating gives typed events; `messages` and `state` already include the event that was just given. Leaving the
    block ends the run and closes its connection.
    """

    _outside = "a run is iterated inside its block: async with agent.stream(...) as run"

    def __init__(self, start: Start, connect: Start | None = None) -> None:
        super().__init__(start, connect)
        self._next: Callable[[], Awaitable[Event]] = self._not_open

    async def __aenter__(self) -> Self:
        if self._entered is not None:
            raise UsageError("a run's block can be entered once; call stream() again for another run")
        await self._enter(self._start)
        if self._asks_again:
            self._next = self._next_or_connected
        return self

    async def _enter(self, start: Start) -> None:
        engine = start(RunLoop())
        await engine.enter()
        self._entered, self._tool_calls, self._next = engine, None, engine.__anext__

    async def _next_or_connected(self) -> Event:
        """Return the next event; if the server refuses the run that was asked for once more, follow its thread."""
        engine = self._engine
        try:
            return await engine.__anext__()
        except HTTPStatusError as refused:
            if self._connect is None or not is_refused_repetition(engine.call, refused):
                raise
        await engine.aclose()
        await self._enter(self._connect)
        return await self._next()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        engine = self._engine
        # A run that ended may be iterated again, and ends at once; one that was left must say so.
        if not engine.call.state.has_ended:
            self._next = self._not_open
        if isinstance(error, asyncio.CancelledError) and "IPython" in sys.modules:
            # A cell that was interrupted; each frame down to the socket would be shown.
            vars(error)["_render_traceback_"] = partial(brief_traceback, error)
        if isinstance(error, asyncio.CancelledError | GeneratorExit) and _is_closing_generator():
            # The end of a loop closes all generators at once, those inside httpx as well: once each has begun to, this
            # run finds them closed, rather than runs one that asyncio closes. Before Python 3.13, GeneratorExit is also
            # thrown into the first wait of a closing that was cancelled before it began.
            with suppress(GeneratorExit):
                await asyncio.sleep(0)
        await engine.aclose()

    if not TYPE_CHECKING:  # type checkers tell by themselves

        def __enter__(self) -> None:
            raise UsageError("write `async with agent.stream(...)`, or `with agent.stream_sync(...)` without await")

        def __exit__(self, *_: object) -> None: ...

        def __iter__(self) -> None:
            raise UsageError("write `async for event in run`; in code without await, use agent.stream_sync()")

        def __await__(self) -> None:
            raise UsageError(
                "write `async with agent.stream(...) as run`; for the result alone, `await agent.run_agent(...)`"
            )

    def __aiter__(self) -> AsyncIterator[Event]:
        # The engine itself, without a step in between; a block that was left has none.
        return self._entered if self._entered is not None and self._next == self._entered.__anext__ else self

    def __anext__(self) -> Awaitable[Event]:
        return self._next()

    def sse(self, *, keep_alive: float = 15.0, expose_errors: bool = False) -> AsyncGenerator[bytes]:
        """Iterate the run as the body of an SSE response, in any framework; its block need not be entered.

        A call of several rounds is one run for its reader, with the results of the tools that ran here. An
        exception ends it with RUN_ERROR, and is logged.

        Args:
            keep_alive: Seconds of silence after which a comment is sent, so that no proxy closes the connection.
            expose_errors: Whether the reader gets the class and the text of exceptions, or only a code.

        Returns:
            Chunks of whole frames; closing the iterator stops the run.

        Raises:
            UsageError: The keep-alive is not a number of seconds above zero.
        """
        from agui_client._core.verbs.sse import sse_body

        return sse_body(self, keep_alive, expose_errors=expose_errors)

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The assistant's text as it arrives, a blank line between two messages; ends with the run.

        Text of subagents is left out.
        """
        return _EventView(self._next, ReplyText().with_gaps)

    @property
    def subagent_streams(self) -> AsyncIterator[tuple[str, str]]:
        """The text of subagents as it arrives: pairs of the name of one, and the next piece of its text."""
        return _EventView(self._next, SubagentText().text_in)

    @property
    def tool_call_stream(self) -> AsyncIterator[StreamedToolCall]:
        """The call that each event of a tool call is about, with its arguments as far as they came."""
        return _EventView(self._next, self.tool_calls.of)

    @property
    def snapshots(self) -> AsyncIterator[Snapshot[StateT]]:
        """Every event, with the messages and the state that include it."""
        return _EventView(self._next, partial(self._snapshot, self.call))

    async def result(self) -> RunResult[StateT]:
        """Wait for the end of the run.

        Returns:
            The result; of a run that was cancelled from here what had arrived, with `aborted` set.

        Raises:
            RunFailedError: The agent reported RUN_ERROR.
            ProtocolError: The stream broke the protocol, or stopped without a terminal event.
            TransportError: No usable response arrived.
            UsageError: The block was left before the run ended.
        """
        state = self.call.state
        while not state.has_ended:
            async for _ in self:
                pass
        return self._outcome()

    async def _not_open(self) -> Event:
        raise UsageError(self._outside)


def _is_closing_generator() -> bool:
    """Return whether the task is one in which asyncio closes a generator that a program left."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio closes generators one after the other
        return False
    return task is not None and type(task.get_coro()).__name__ == "async_generator_athrow"


class ReplyText:
    """Tells the assistant's own text from everything else in a stream."""

    def __init__(self) -> None:
        self._others: set[str] = set()
        self._latest: str | None = None

    def text_in(self, event: Event) -> str:
        """Return the text that an event adds to the assistant's reply; empty if it adds none.

        Args:
            event: The next event of the stream.
        """
        if isinstance(event, TextMessageContentEvent):
            return "" if event.message_id in self._others else event.delta
        if isinstance(event, TextMessageStartEvent):
            is_reply = event.role in (None, "assistant") and event.subagent_run_id is None
            # Discarded, too: a later run of the call may start a message of the same id as the assistant's.
            (self._others.discard if is_reply else self._others.add)(event.message_id)
        return ""

    def with_gaps(self, event: Event) -> str:
        """Return the same with a blank line before it if it is of another message than the text before it."""
        text = self.text_in(event)
        if not text or not isinstance(event, TextMessageContentEvent):
            return text
        gap = "" if self._latest in (None, event.message_id) else "\n\n"
        self._latest = event.message_id
        return gap + text


class _EventView(AsyncIterator[T]):
    """A view of the events. No generator, so that leaving it half-way leaves nothing to clean up."""

    def __init__(self, next_event: Callable[[], Awaitable[Event]], look: Callable[[Event], T | None]) -> None:
        self._next = next_event
        self._look = look

    if not TYPE_CHECKING:

        def __iter__(self) -> None:
            raise UsageError("write `async for` with the streams of agent.stream(); those of stream_sync() take `for`")

    async def __anext__(self) -> T:
        while True:
            if seen := self._look(await self._next()):
                return seen


_GROWTH = 32
"""Arguments are read again when they have grown by this part of what was read: linear, and seldom behind."""


class StreamedToolCall:
    """A tool call of a run, live: what it shows is what has arrived when it is looked at.

    Args:
        run: The call of the verb that it belongs to.
    """

    def __init__(self, tool_call_id: str, run: Call) -> None:
        self.tool_call_id = tool_call_id
        """The id of the call."""
        self._run = run
        self._read_until = 0
        self._partial: Any = None

    def __repr__(self) -> str:
        state = "complete" if self.is_complete else "arriving"
        return f"<StreamedToolCall {self.name} {self.tool_call_id!r}: {state}, {len(self.arguments_text)} characters>"

    @property
    def name(self) -> str:
        """The tool."""
        return self._call().function.name

    @property
    def is_complete(self) -> bool:
        """Whether the call has ended; nothing should be done about it before (TOOL-1)."""
        # A later round may start it again.
        outcomes = [each.outcome for each in self._run.rounds]
        started_in = [outcome for outcome in outcomes if self.tool_call_id in outcome.tool_call_ids]
        return bool(started_in) and self.tool_call_id in started_in[-1].ended_tool_call_ids

    @property
    def arguments_text(self) -> str:
        """The arguments so far, as they were sent."""
        return self._call().function.arguments

    @property
    def partial_arguments(self) -> Any:
        """The part of the arguments that can be read so far, for a screen; values may be cut short. None if none can.

        Looking after every delta costs a whole call no more than a constant times its length: a long text is read again
        when it has grown by a thirty-second part, or is complete.
        """
        size = self._run.conversation.arguments_size(self.tool_call_id)
        if size > self._read_until + (0 if self.is_complete else self._read_until // _GROWTH):
            self._read_until = size
            # Broken, now or for good: what could be read before stays on the screen.
            with suppress(ValueError):
                self._partial = from_json(self.arguments_text, allow_partial="trailing-strings")
        return self._partial

    @property
    def arguments(self) -> Any:
        """The arguments, decoded: any JSON value, `{}` for none at all; None while they are still arriving.

        Raises:
            ToolArgumentsError: They are not JSON. The run continues: the agent gets a message about it (TOOL-2).
        """
        if not self.is_complete:
            return None
        text = self.arguments_text
        try:
            return from_json(text) if text.strip() else {}
        except ValueError as error:
            raise ToolArgumentsError(
                f"the arguments of tool call {self.tool_call_id!r} are not JSON: {error}",
                tool_call_id=self.tool_call_id,
            ) from None

    def _call(self) -> ToolCall:
        call = self._run.conversation.tool_call(self.tool_call_id)
        if call is None:
            raise KeyError(self.tool_call_id)
        return call


class ToolCalls(Mapping[str, StreamedToolCall]):
    """The tool calls of a run by their ids, in the order they were begun.

    Args:
        run: The call of a verb.
    """

    def __init__(self, run: Call) -> None:
        self._run = run
        self._made: dict[str, StreamedToolCall] = {}

    def __getitem__(self, tool_call_id: str) -> StreamedToolCall:
        if tool_call_id not in self._made:
            if not any(tool_call_id in each.outcome.tool_call_ids for each in self._run.rounds):
                raise KeyError(tool_call_id)
            self._made[tool_call_id] = StreamedToolCall(tool_call_id, self._run)
        return self._made[tool_call_id]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain.from_iterable(each.outcome.tool_call_ids for each in self._run.rounds)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.values())!r})"

    def of(self, event: Event) -> StreamedToolCall | None:
        """Return the call that an event is about; None if it is about none."""
        if isinstance(event, ToolCallStartEvent | ToolCallArgsEvent | ToolCallEndEvent):
            return self.get(event.tool_call_id)
        return None
