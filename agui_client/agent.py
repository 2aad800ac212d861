"""AbstractAgent: a conversation and the verbs that run it.

`run(input)` is what an agent is; the five verbs are how people use one. Here the parts are wired: the conversation
gives the input, the pipeline judges what comes back, a surface hands it over.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast, get_args
from uuid import uuid4

from ag_ui.core import RunAgentInput

from agui_client._memory import Memory
from agui_client._participants import Participants
from agui_client._pipeline import NullFields
from agui_client._pipeline.reduce import Reducer
from agui_client._pipeline.request import prepare_input
from agui_client._pipeline.threads import LoopThread
from agui_client._pipeline.tracing import trace_run
from agui_client._pipeline.warnings import WarningLog
from agui_client._settling import leave, settle
from agui_client._surfaces.course import Course
from agui_client._surfaces.exchange import Exchange
from agui_client._surfaces.plan import Plan
from agui_client._surfaces.rounds import Rounds
from agui_client._surfaces.stream import AgentRun
from agui_client._tools.limits import ToolLimits
from agui_client.conversation import Conversation
from agui_client.errors import UsageError
from agui_client.messages import MessageLike, Prompt
from agui_client.options import ConnectOptions, RunOptions, given

if TYPE_CHECKING:
    from contextlib import ExitStack
    from typing import Self

    from ag_ui.core import Event, Message
    from reactivex import Observable

    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.middleware import Middleware, Run
    from agui_client._pipeline.tracing import RunTrace
    from agui_client._surfaces.abort import OnAbort
    from agui_client._surfaces.stream import Start
    from agui_client._surfaces.sync import SyncAgentRun
    from agui_client._tools.approval import Approver
    from agui_client._tools.offer import ToolSource
    from agui_client.interrupts import Answerer
    from agui_client.result import RunResult


class AbstractAgent(Memory, Participants, ABC):
    """A conversation with an agent, wherever that agent runs.

    Subclasses say how a run is carried out, by overriding `run`. One run at a time; `clone()` for parallel work.

    Args:
        agent_id: What the application calls this agent; a new id if left out.
        description: What it is for, in a sentence.
        thread_id: The conversation to go on with; a new one if left out.
        initial_messages: What was said before.
        initial_state: The state both sides write, any JSON value; `{}` if left out.
        tools: Tools of the application that the agent may call: `@tool` functions, definitions of tools that are
            answered elsewhere, or a function of the `RunAgentInput` that chooses them for each run.
        approve: Asked, sync or async, before a tool runs that wants approval; without it such calls come back pending.
        answer: Asked, sync or async, what a run was interrupted for; without it interrupts come back on the result.
        tool_limits: When to stop answering tool calls, and how tools are run.
        on_abort: Called, sync or async, when a run is left before its end, for servers that have a way to stop one.
        middleware: Functions around each run, outermost first; see `use`.
        null_fields: "reject" a null that stands for a whole optional field, as the protocol says, or "drop" it with a
            warning, for servers that send them (PROC-17).
        strict: Whether ids of threads and runs that do not match what was asked are fatal; a warning otherwise.
    """

    _takes_wire_options = False
    """Whether `headers` and `timeout` mean something to this kind of agent."""

    def __init__(
        self,
        *,
        agent_id: str | None = None,
        description: str = "",
        thread_id: str | None = None,
        initial_messages: Iterable[MessageLike] = (),
        initial_state: Any = None,
        tools: ToolSource = (),
        approve: Approver | None = None,
        answer: Answerer | None = None,
        tool_limits: ToolLimits | None = None,
        on_abort: OnAbort | None = None,
        middleware: Iterable[Middleware] = (),
        null_fields: NullFields = "reject",
        strict: bool = False,
    ) -> None:
        Memory.__init__(self, Conversation(thread_id, initial_messages, initial_state))
        Participants.__init__(self, tools, middleware)
        self.agent_id = agent_id or str(uuid4())
        """What the application calls this agent."""
        self._agent_name = agent_id
        self.description = description
        """What it is for."""
        self._approve, self._answer, self._on_abort = approve, answer, on_abort
        self._limits = tool_limits or ToolLimits()
        if null_fields not in get_args(NullFields):
            raise UsageError(f"null_fields is 'reject' or 'drop', not {null_fields!r}")
        self._null_fields: NullFields = null_fields
        self._strict = strict
        self._active: Exchange | None = None
        self._stop: Callable[[], None] | None = None
        self._active_options: RunOptions = {}

    @abstractmethod
    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Carry out one run: override this, usually as an async generator.

        Like any async generator it should not hold a task group or a cancel scope open across a `yield`; on trio that
        breaks the run.

        Args:
            input: What is asked, with the whole conversation.

        Returns:
            The run's events, as they happen; they are judged like a remote agent's.
        """

    def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Tell the thread again, and go on with a run that is still going: override this where the agent can.

        Args:
            input: The thread, with what is held of it.

        Returns:
            The thread's events from its beginning, as far as the agent has them; none if there is nothing to tell.

        Raises:
            UsageError: There is no way to, which is so unless a subclass says otherwise.
        """
        raise UsageError(f"{type(self).__name__} has no way to reconnect: override connect(), or see connect_url=")

    async def run_agent(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> RunResult:
        """Run the agent and wait for its answer.

        Args:
            prompt: Text, content parts, a message, or None to go on with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            What the run came to; interrupts and unanswered tool calls are in it, not raised.

        Raises:
            RunFailedError: The agent reported RUN_ERROR.
            ProtocolError: The stream broke the protocol, or stopped without a terminal event.
            TransportError: No usable response arrived.
            UsageError: Another run is going on, interrupts are not covered, or the input cannot be sent.
        """
        async with self.stream(prompt, **options) as run:
            return await run.result()

    def stream(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> AgentRun:
        """Run the agent and iterate what happens: `async with agent.stream("...") as run: async for event in run`.

        Args:
            prompt: Text, content parts, a message, or None to go on with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The run, as an async context manager; nothing is sent before the first event is asked for.
        """
        return AgentRun(self._plan_run(prompt, given(options), self._conversation.reducer))

    def run_agent_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> RunResult:
        """`run_agent` for code without `await`: scripts, threads, and notebooks with a running loop.

        Args:
            prompt: Text, content parts, a message, or None to go on with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            What the run came to.

        Raises:
            AGUIError: As `run_agent`.
        """
        with self.stream_sync(prompt, **options) as run:
            return run.result()

    def stream_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> SyncAgentRun:
        """`stream` for code without `await`: `with agent.stream_sync("...") as run: for event in run`.

        Events may arrive ahead of the iteration; tools begin when it has come to the end of the run that called them.

        Args:
            prompt: Text, content parts, a message, or None to go on with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The run, as a context manager.
        """
        from agui_client._surfaces.sync import SyncAgentRun

        ahead = Reducer()
        start = self._plan_run(prompt, given(options), ahead)
        return SyncAgentRun(start, ahead, self._conversation)

    def observe(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Observable[Event]:
        """The run as a cold RxPY observable: subscribing starts it, disposing aborts it.

        Inside an asyncio loop the events come in that loop; without one, in a thread of the subscription's own.

        Args:
            prompt: Text, content parts, a message, or None to go on with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            An observable of events; what `run_agent` would raise comes as `on_error`.
        """
        from agui_client._surfaces.observable import observe_run

        given(options)
        return observe_run(lambda: self.stream(prompt, **options))

    async def connect_agent(self, **options: Unpack[ConnectOptions]) -> RunResult:
        """Take up the thread where the agent has it: after a cut connection, a restart, or on another machine.

        What the agent tells again replaces what is held of it, so nothing is doubled; a run that is still going is
        followed to its end. Nothing is asked, and no tool is run.

        Args:
            options: See `ConnectOptions`.

        Returns:
            What the thread's last run came to; without an outcome if there was nothing to tell.

        Raises:
            AGUIError: As `run_agent`.
        """
        async with self.stream_connect(**options) as run:
            return await run.result()

    def stream_connect(self, **options: Unpack[ConnectOptions]) -> AgentRun:
        """`connect_agent`, to be iterated: `async with agent.stream_connect() as run`.

        Args:
            options: See `ConnectOptions`.

        Returns:
            The run, as an async context manager.
        """
        return AgentRun(self._plan_replay(given(cast("RunOptions", options), ConnectOptions)))

    def abort_run(self) -> None:
        """Stop the run that is going on, from any task or thread: it returns what arrived, with `aborted` set."""
        if (stop := self._stop) is not None:
            stop()

    def clone(self, *, thread_id: str | None = None) -> Self:
        """A second line of thought: the same agent with a copy of the conversation.

        Nothing that is said to one reaches the other here. The transport and attributes of subclasses are shared.

        Args:
            thread_id: The copy's thread; the same one if left out. A server that remembers threads wants another.

        Returns:
            The copy.
        """
        twin = copy.copy(self)
        Participants.__init__(twin, self.tools, self._middleware, self._roster.copy())
        twin._conversation = self._conversation.clone(thread_id)
        twin._active = twin._stop = None
        twin._active_options = {}
        return twin

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent_id={self.agent_id!r}, thread_id={self.thread_id!r})"

    def _prepare(self, run_input: RunAgentInput, warnings: WarningLog) -> RunAgentInput:
        """The last look at an input before the agent gets it (INPUT-3)."""
        return prepare_input(run_input, warnings)

    def _plan_run(self, prompt: Prompt, options: RunOptions, reducer: Reducer) -> Start:
        """A run that starts when its block is entered, reduced by the conversation or by a reducer ahead of it."""

        def begin() -> Rounds:
            """Ask, in the run's event loop."""
            # Loaded when something is asked: importing the package should cost next to nothing.
            from agui_client._asking import Asking
            from agui_client._following import followed

            asking = Asking(self._conversation, prompt, options, self.tools)
            asking.take_in(self._conversation)
            warnings = WarningLog()
            asking.warn(warnings)
            plan = self._plan(asking.input, reducer, warnings, self.run, asking.added)
            following = followed(asking, self._conversation, reducer, self._approve, self._answer, self._limits)
            return Rounds(Exchange(plan, Course(self.messages)), following)

        return self._run_of(begin, options)

    def _plan_replay(self, options: RunOptions) -> Start:
        """A run that tells the thread again, through `connect`."""

        def begin() -> Rounds:
            """Ask, in the run's event loop."""
            from agui_client._asking import replay_input

            asked, reducer = replay_input(self._conversation, options, self.tools), self._conversation.reducer
            plan = self._plan(asked, reducer, WarningLog(), self.connect, ())
            return Rounds(Exchange(replace(plan, is_replay=True), Course(self.messages)))

        return self._run_of(begin, options)

    def _run_of(self, begin: Callable[[], Rounds], options: RunOptions) -> Start:
        """A run that holds the conversation from entering its block to leaving it."""
        if not self._takes_wire_options and not options.keys().isdisjoint(("headers", "timeout")):
            raise UsageError("headers= and timeout= are for an HttpAgent; this agent runs in the process")

        def start(stack: ExitStack) -> Rounds:
            """Hold the conversation, and begin."""
            stack.enter_context(self._conversation.running())
            rounds = begin()
            self._active_options, self._stop = options, partial(LoopThread().call, rounds.interrupt)
            stack.callback(self._forget)
            return rounds

        return start

    def _plan(
        self, asked: RunAgentInput, reducer: Reducer, warnings: WarningLog, run: Run, added: Sequence[Message]
    ) -> Plan:
        own = self._conversation.reducer
        if reducer is not own:
            reducer.set_messages(own.messages)
            reducer.set_state(own.state)
            own.use_warnings(WarningLog(is_logged=False))
        reducer.use_warnings(warnings)
        return Plan(
            input=asked,
            run=lambda prepared: run(self._prepare(prepared, warnings)),
            reducer=reducer,
            warnings=warnings,
            middleware=tuple(self._middleware),
            roster=self._roster,
            null_fields=self._null_fields,
            strict=self._strict,
            listeners=self._conversation.listeners if reducer is own else (),
            trace=self._trace,
            on_begin=self._begin,
            on_end=partial(settle, self._conversation, added),
            on_left=partial(leave, self._conversation, added),
            on_replies=self._conversation.keep,
            on_abort=self._on_abort,
            is_ahead=reducer is not own,
        )

    def _trace(self, asked: RunAgentInput, first: RunTrace | None) -> RunTrace:
        """The span of a run."""
        return trace_run(
            thread_id=asked.thread_id,
            run_id=asked.run_id,
            agent_id=self.agent_id,
            agent_name=self._agent_name,
            description=self.description,
            url=self._url(),
            first=first,
        )

    def _url(self) -> str | None:
        """Where the agent lives; None for one in this process."""
        return None

    def _begin(self, exchange: Exchange) -> None:
        self._active = exchange

    def _forget(self) -> None:
        self._active = self._stop = None
        self._active_options = {}
