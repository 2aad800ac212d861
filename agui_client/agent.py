"""AbstractAgent: a conversation and the verbs that run it.

`run(input)` is what an agent is; the five verbs are how people use one. Here the parts are wired: the conversation
gives the input, the pipeline judges what comes back, a surface hands it over.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, get_args
from uuid import uuid4

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic import ValidationError

from agui_client._pipeline import NullFields
from agui_client._pipeline.reduce import Change, Reducer
from agui_client._pipeline.request import prepare_input
from agui_client._pipeline.warnings import WarningLog
from agui_client._surfaces.exchange import Exchange, Plan
from agui_client._surfaces.hooks import Subscriber
from agui_client._surfaces.stream import AgentRun
from agui_client._surfaces.subscribers import EventSubscriber, Roster, Subscription
from agui_client._surfaces.sync import SyncAgentRun
from agui_client.conversation import Conversation, ConversationSnapshot
from agui_client.errors import UsageError
from agui_client.messages import MessageLike, Prompt, prompt_messages, tool_messages
from agui_client.options import RunOptions, given

if TYPE_CHECKING:
    from contextlib import ExitStack
    from typing import Self

    from ag_ui.core import Event, Interrupt, Message, ResumeEntry, Tool
    from reactivex import Observable

    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.middleware import Middleware
    from agui_client.result import RunResult

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class AbstractAgent(ABC):
    """A conversation with an agent, wherever that agent runs.

    Subclasses say how a run is carried out, by overriding `run`. One run at a time; `clone()` for parallel work.

    Args:
        agent_id: What the application calls this agent; a new id if left out.
        description: What it is for, in a sentence.
        thread_id: The conversation to go on with; a new one if left out.
        initial_messages: What was said before.
        initial_state: The state both sides write, any JSON value; `{}` if left out.
        tools: Tools of the application that the agent may call.
        middleware: Functions around each run, outermost first; see `use`.
        null_fields: "reject" a null that stands for a whole optional field, as the protocol says, or "drop" it with a
            warning, for servers that send them (PROC-17).
        strict: Whether ids of threads and runs that do not match what was asked are fatal; a warning otherwise.
    """

    def __init__(
        self,
        *,
        agent_id: str | None = None,
        description: str = "",
        thread_id: str | None = None,
        initial_messages: Iterable[MessageLike] = (),
        initial_state: Any = None,
        tools: Sequence[Tool] = (),
        middleware: Iterable[Middleware] = (),
        null_fields: NullFields = "reject",
        strict: bool = False,
    ) -> None:
        self.agent_id = agent_id or str(uuid4())
        """What the application calls this agent."""
        self.description = description
        """What it is for."""
        self.tools = list(tools)
        """Tools of the application that the agent may call."""
        self._conversation = Conversation(thread_id, initial_messages, initial_state)
        self._middleware: list[Middleware] = []
        self.use(*middleware)
        self._roster = Roster()
        if null_fields not in get_args(NullFields):
            raise UsageError(f"null_fields is 'reject' or 'drop', not {null_fields!r}")
        self._null_fields: NullFields = null_fields
        self._strict = strict
        self._active: Exchange | None = None
        self._active_run: AgentRun | None = None
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

    # --- the five verbs

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
        return self._plan_run(prompt, given(options), self._conversation.reducer)

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

        Args:
            prompt: Text, content parts, a message, or None to go on with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The run, as a context manager.
        """
        ahead = Reducer()
        run = self._plan_run(prompt, given(options), ahead)
        return SyncAgentRun(run, ahead, self._conversation.reducer, self._conversation.notify)

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

    def observe_messages(self) -> Observable[list[Message]]:
        """The messages as a hot RxPY observable: what they are now, then every change, across runs."""
        from agui_client._surfaces.observable import observe_changes

        return observe_changes(self._conversation.listen, Change.MESSAGES, lambda: self.messages)

    def observe_state(self) -> Observable[Any]:
        """The state as a hot RxPY observable: what it is now, then every change, across runs."""
        from agui_client._surfaces.observable import observe_changes

        return observe_changes(self._conversation.listen, Change.STATE, lambda: self.state)

    def abort_run(self) -> None:
        """Stop the run that is going on, from any task or thread: it returns what arrived, with `aborted` set."""
        if (run := self._active_run) is not None:
            run.cancel()

    # --- the conversation

    @property
    def thread_id(self) -> str:
        """The conversation."""
        return self._conversation.thread_id

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list; the messages in it never change afterwards."""
        return self._conversation.reducer.messages

    @property
    def state(self) -> Any:
        """The state both sides write; treat it as read-only, and use `set_state`."""
        return self._conversation.reducer.state

    @property
    def pending_interrupts(self) -> list[Interrupt]:
        """What the last run waits for; the next run must answer all of it with `resume=`."""
        return list(self._conversation.pending_interrupts)

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._conversation.is_running

    def add_message(self, message: MessageLike) -> None:
        """Append a message."""
        self.add_messages([message])

    def add_messages(self, messages: Iterable[MessageLike]) -> None:
        """Append messages."""
        self._conversation.add_messages(messages)

    def set_messages(self, messages: Iterable[MessageLike]) -> None:
        """Replace the conversation's messages."""
        self._conversation.set_messages(messages)

    def set_state(self, state: Any) -> None:
        """Replace the state by a copy of any JSON value."""
        self._conversation.set_state(state)

    def abandon_interrupts(self) -> None:
        """Let the next run go on without answers: it cancels every pending interrupt."""
        self._conversation.abandon_interrupts()

    def snapshot(self) -> ConversationSnapshot:
        """The conversation as a pydantic document that survives JSON; see `restore`."""
        return self._conversation.snapshot()

    def restore(self, document: ConversationSnapshot) -> None:
        """Go on with a conversation that was saved with `snapshot()`, in this process or another.

        Args:
            document: The saved conversation.

        Raises:
            RunInProgressError: A run is going on.
        """
        self._conversation.restore(document)

    def clone(self, *, thread_id: str | None = None) -> Self:
        """A second line of thought: the same agent with a copy of the conversation.

        Nothing that is said to one reaches the other here. The transport and attributes of subclasses are shared.

        Args:
            thread_id: The copy's thread; the same one if left out. A server that remembers threads wants another.

        Returns:
            The copy.
        """
        twin = copy.copy(self)
        twin.tools = list(self.tools)
        twin._conversation = self._conversation.clone(thread_id)
        twin._middleware = list(self._middleware)
        twin._roster = self._roster.copy()
        twin._active = twin._active_run = None
        twin._active_options = {}
        return twin

    # --- extension

    def use(self, *middleware: Middleware) -> Self:
        """Put functions around every run, inside those that are there already.

        Args:
            middleware: `async def function(input, next)` that yields events, usually those of `next(input)`.

        Returns:
            The agent itself.

        Raises:
            UsageError: One of them is no function.
        """
        for function in middleware:
            if not callable(function):
                raise UsageError(f"middleware is a function (input, next), not {function!r}")
        self._middleware += middleware
        return self

    def subscribe(self, subscriber: Subscriber) -> Subscription:
        """Let a subscriber's hooks be called, from the next event on.

        Args:
            subscriber: An instance of a `Subscriber` subclass.

        Returns:
            The subscription; leave it as a block, or call `unsubscribe()`.

        Raises:
            UsageError: It is none.
        """
        if not isinstance(cast("object", subscriber), Subscriber):
            raise UsageError(f"subscribe() takes an instance of a Subscriber subclass, not {subscriber!r}; see on()")
        return self._roster.add(subscriber)

    def on(self, event_type: type[BaseEvent]) -> Callable[[FunctionT], FunctionT]:
        """Decorate a function, sync or async, to be called with every event of a type.

        Args:
            event_type: An event class of `ag_ui.core`; `BaseEvent` for all.

        Returns:
            The decorator; the function takes the event, and the `HookContext` after it if it wants.

        Raises:
            UsageError: The type is no class of events.
        """
        given: Any = event_type
        if not (isinstance(given, type) and issubclass(given, BaseEvent)):
            raise UsageError(f"on() takes a class of events, such as TextMessageContentEvent, not {event_type!r}")

        def register(function: FunctionT) -> FunctionT:
            self._roster.add(EventSubscriber(event_type, function))
            return function

        return register

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent_id={self.agent_id!r}, thread_id={self.thread_id!r})"

    # --- wiring

    def _prepare(self, run_input: RunAgentInput, warnings: WarningLog) -> RunAgentInput:
        """The last look at an input before the agent gets it (INPUT-3)."""
        return prepare_input(run_input, warnings)

    def _plan_run(self, prompt: Prompt, options: RunOptions, reducer: Reducer) -> AgentRun:
        """A run that starts when its block is entered, reduced by the conversation or by a reducer ahead of it."""

        def start(stack: ExitStack) -> Exchange:
            self._active = self._begin(prompt, options, reducer, stack)
            self._active_options, self._active_run = options, run
            stack.callback(self._forget)
            return self._active

        run = AgentRun(start)
        return run

    _takes_wire_options = False
    """Whether `headers` and `timeout` mean something to this kind of agent."""

    def _begin(self, prompt: Prompt, options: RunOptions, reducer: Reducer, stack: ExitStack) -> Exchange:
        """Start a run: everything that can be refused is refused before anything changes."""
        if not self._takes_wire_options and not options.keys().isdisjoint(("headers", "timeout")):
            raise UsageError("headers= and timeout= are for an HttpAgent; this agent runs in the process")
        stack.enter_context(self._conversation.running())
        entries = self._conversation.answers(options.get("resume"))
        results = options.get("tool_results", {})
        unanswered = self._conversation.check_results(results)
        added = [*tool_messages(results), *prompt_messages(prompt)]
        run_input = self._compose(added, entries, options)
        self._conversation.add_messages(added)
        warnings = WarningLog()
        if unanswered:
            names = ", ".join(map(repr, unanswered))
            warnings.add(
                "TOOL-10", f"the conversation goes on without results of tool calls {names}; see tool_results="
            )
        own = self._conversation.reducer
        if reducer is not own:
            reducer.set_messages(own.messages)
            reducer.set_state(own.state)
            own.use_warnings(WarningLog(is_logged=False))
        reducer.use_warnings(warnings)
        return Exchange(
            Plan(
                input=run_input,
                run=lambda prepared: self.run(self._prepare(prepared, warnings)),
                reducer=reducer,
                warnings=warnings,
                middleware=tuple(self._middleware),
                roster=self._roster,
                null_fields=self._null_fields,
                strict=self._strict,
                listeners=self._conversation.listeners if reducer is own else (),
                on_end=partial(self._settle, added),
                is_ahead=reducer is not own,
            )
        )

    def _compose(self, added: Sequence[Message], entries: Sequence[ResumeEntry], options: RunOptions) -> RunAgentInput:
        try:
            return RunAgentInput(
                thread_id=self.thread_id,
                run_id=options.get("run_id") or str(uuid4()),
                messages=[*self.messages, *added],
                state=self.state,
                tools=list(options.get("tools", self.tools)) or None,
                context=list(options.get("context", ())) or None,
                forwarded_props=options.get("forwarded_props"),
                resume=list(entries) or None,
            )
        except ValidationError as error:
            refused = "; ".join(f"{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise UsageError(f"the run cannot be asked for: {refused}") from None

    def _settle(self, added: Sequence[Message], exchange: Exchange) -> None:
        """What a run leaves: interrupts, tool calls; one that never began leaves what was pending before."""
        if exchange.pipeline.settlement.started is not None:
            result = exchange.result()
            self._conversation.settle(result.interrupts, result.pending_tool_calls)
        elif isinstance(exchange.error, UsageError):
            # Nothing was sent: a prompt that cannot be sent must not stand in the way of the next one.
            self._conversation.take_back(added)

    def _forget(self) -> None:
        self._active = self._active_run = None
        self._active_options = {}
