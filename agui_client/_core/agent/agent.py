"""AbstractAgent: what subclasses carry out, the options and parts of an agent, and what a turn is made of.

Subclasses say how one run is carried out (`run`). How people use an agent stands in the classes below it: `thread_view`
has its messages and state, `verbs` runs it, `observing` joins it to RxPY. A turn is carried out by `_core.run.engine`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar, Unpack, cast, overload
from uuid import uuid4

from ag_ui.core import AgentCapabilities, BaseEvent, RunAgentInput

from agui_client._core.agent.observing import Observables
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.protocol.prompts import Prompt
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.hooks import EventSubscriber, Subscriber, Subscription
from agui_client._core.run.observers import Observers, RunObserver, asynchronous_method
from agui_client._core.run.options import (
    BY_CALL,
    BY_REQUEST,
    IN_INPUT,
    ConnectOptions,
    RunOptions,
    checked_options,
    lists_keywords,
)
from agui_client._core.run.scope import CURRENT_SCOPE, AgentInfo, AgentOptions, StateT
from agui_client._core.tools.people import People
from agui_client._core.tools.tool_limits import ToolLimits
from agui_client._core.transport.timeouts import UNLIMITED, Timeouts
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from typing import Self

    from ag_ui.core import Message

    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.run.custom_models import CustomModels
    from agui_client._core.run.engine import Engine
    from agui_client._core.run.middleware import Middleware
    from agui_client._core.run.run_loop import RunLoop
    from agui_client._core.tools.approval import ApprovalRule, Approver
    from agui_client._core.tools.function import FunctionTool, NamedToolOptions
    from agui_client._core.tools.interrupts import Answerer
    from agui_client._core.tools.toolset import ToolSource
    from agui_client._core.verbs.async_run import Start

P = ParamSpec("P")
R = TypeVar("R")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_FUNCTIONS = {"approve": "an ApprovalRequest", "answer": "an Interrupt", "on_abort": "a HookContext"}
"""The options that are functions, with what they take."""
_RECORDS: dict[str, tuple[type, str]] = {
    "tool_limits": (ToolLimits, "ToolLimits(...), such as ToolLimits(rounds=5)"),
    "people": (People, "People(...), such as People(wait=600)"),
    "capabilities": (AgentCapabilities, "ag_ui.core.AgentCapabilities"),
}
"""The options that are records, with their classes."""


@lists_keywords(AgentOptions)
class AbstractAgent(Observables[StateT]):
    """A conversation with an agent, wherever that agent runs.

    Subclasses say how a run is carried out, by overriding `run`. One run at a time; `clone(thread_id=...)` for parallel
    work.

    Args:
        options: See `AgentOptions`.

    Raises:
        UsageError: An option has a value that it does not take.
        TypeError: There is no such option.
    """

    _needs: tuple[str, ...] = ("agui_client._core.verbs.async_run", "agui_client._core.run.engine")
    """The modules that the runs of this kind of agent need."""
    _max_protocol_version: str | None = None
    """The newest version that the agent is known to speak, if that is older than 1.0."""

    is_local: ClassVar[bool] = True
    """Whether the agent's work is done in this process: False for one whose `run` sends its input, as it is, away."""
    goes_on_alone: ClassVar[bool] = False
    """Whether a run may continue when its caller leaves it, so that `detach()` makes sense."""
    takes: ClassVar[frozenset[str]] = frozenset()
    """The keywords of the verbs, such as "headers", that `run` carries out: it finds them in `call_options`. Without
    them, a call with a keyword that is not for agents of every kind is refused."""

    def __init__(self, **options: Unpack[AgentOptions[StateT]]) -> None:
        options = checked_options(options, AgentOptions, type(self).__name__, type(self))
        for module in self._needs:
            # With the first agent, so that importing the package is quick, and so is the first run.
            import_module(module)
        agent_id = options.get("agent_id")
        self.agent_id: str = agent_id or str(uuid4())
        """The id of the agent in the application."""
        self.description: str = options.get("description") or ""
        """The purpose of the agent."""
        from agui_client._core.tools.toolset import checked_source

        self.tools: ToolSource = checked_source(options.get("tools", ()))
        """Tools of the application that the agent may call, or a function that chooses them."""
        # Compared, and not a flag: an application may set `agent_id` later, and has chosen it then.
        self._generated_id = "" if agent_id else self.agent_id
        self._conversation = Conversation(
            options.get("thread_id"), options.get("initial_messages", ()), options.get("initial_state")
        )
        for name, takes in _FUNCTIONS.items():
            _check_function(name, takes, options.get(name))
        for name, (kind, takes) in _RECORDS.items():
            if not isinstance(given := options.get(name), kind | None):
                raise UsageError(f"{name}= takes {takes}, not {given!r}")
        if (nulls := options.get("null_fields", "reject")) not in ("reject", "drop"):
            raise UsageError(f"null_fields is 'reject' or 'drop', not {nulls!r}")
        if (history := options.get("history", "full")) != "full":
            from agui_client._core.conversation.history import check_history

            check_history(history)
        self._options = options
        self._state_model = None
        self._on_conflict = options.get("on_conflict", "theirs")
        self._middleware: list[Middleware] = []
        self._subscribers: list[Subscriber] = []
        self._observers: list[RunObserver] = []
        self._save = self._log = None
        self.use(*options.get("middleware", ()))
        for observer in options.get("observers", ()):
            self.add_observer(observer)
        self._custom_models: CustomModels | None = None
        if (models := options.get("custom_models")) is not None:
            from agui_client._core.run.custom_models import CustomModels

            self._custom_models = CustomModels(models)
        if "state_model" in options or "on_conflict" in options:
            self._type_state(options.get("state_model"), options.get("on_conflict"))

    @abstractmethod
    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Carry out one run: override this, usually as an async generator.

        Like any async generator it should not hold a task group or a cancel scope open across a `yield`; on trio that
        breaks the run.

        Args:
            input: The input of the run, with the whole conversation.

        Returns:
            The run's events, as they happen; they are validated like a remote agent's.
        """

    def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Send the thread again, and follow a run that is in progress: override this where the agent can.

        Args:
            input: The thread, with the messages that the client has.

        Returns:
            The thread's events from its beginning, as far as the agent has them; none if there is nothing to send.

        Raises:
            UsageError: There is no way to, which is so unless a subclass says otherwise.
        """
        raise UsageError(f"{type(self).__name__} has no way to reconnect: override connect(), or see connect_url=")

    @property
    def can_connect(self) -> bool:
        """Whether the agent has a way to send a thread again."""
        return type(self).connect is not AbstractAgent.connect

    def is_of_member(self, message: Message) -> bool:
        """Return whether a message of the conversation belongs to a member, by its id and owner; False but in teams."""
        return False

    async def capabilities(self) -> AgentCapabilities | None:
        """Return what the agent declares to be able to do: the `capabilities=` of its constructor.

        A subclass overrides this where it knows more. What is not declared is unknown, not absent, and no run is judged
        by a declaration.

        Returns:
            The declaration; None without one.
        """
        return self._options.get("capabilities")

    # --- itself

    @property
    def name(self) -> str | None:
        """The id, if the application chose it; None for a generated one."""
        return None if self.agent_id == self._generated_id else self.agent_id

    def clone(self, *, thread_id: str | None = None) -> Self:
        """Return the same agent with a copy of the conversation, for a second line of thought.

        Changes to one conversation do not reach the other. The transport and attributes of subclasses are shared.

        Args:
            thread_id: The copy's thread; the same one if left out. A server that remembers threads wants another.
        """
        # A copy, and no call of the constructor: a subclass may take other arguments.
        twin = copy.copy(self)
        twin.tools = _own_list(self.tools)
        twin._middleware, twin._observers = list(self._middleware), list(self._observers)
        # Two conversations that are saved as one thread would overwrite each other.
        twin._subscribers, twin._save, twin._log = list(self._subscribers), None, None
        twin._conversation = self._conversation.clone(thread_id)
        return twin

    # --- middleware, subscribers, observers, tools

    @property
    def handlers(self) -> tuple[Approver | None, Answerer | None]:
        """The functions that approve tool calls and answer interrupts; None for one that there is not."""
        return self._options.get("approve"), self._options.get("answer")

    def set_handlers(self, *, approve: Approver | None = None, answer: Answerer | None = None) -> Self:
        """Have other functions approve tool calls and answer interrupts, from the next call on.

        Args:
            approve: As `approve=` of the constructor; None leaves the function that there is.
            answer: As `answer=` of the constructor; None leaves the function that there is.

        Returns:
            The agent itself.

        Raises:
            UsageError: One of them is not a function.
        """
        given = {"approve": approve, "answer": answer}
        for name, function in given.items():
            _check_function(name, _FUNCTIONS[name], function)
        # A dict of its own: clones share the options.
        changed: Any = {name: function for name, function in given.items() if function is not None}
        options: Any = {**self._options, **changed}
        self._options = options
        return self

    def use(self, *added: Middleware | RunObserver) -> Self:
        """Put functions around every run, inside those that are there already, or let observers watch all runs.

        Args:
            added: `async def function(input, next)` that yields events, usually those of `next(input)`; or an observer,
                such as `record("run.jsonl")`.

        Returns:
            The agent itself.

        Raises:
            UsageError: One of them is neither.
        """
        for each in added:
            if isinstance(each, RunObserver):
                self.add_observer(each)
            elif callable(each):
                self._middleware.append(each)
            else:
                raise UsageError(f"middleware is a function (input, next), not {each!r}")
        return self

    def answers_aside(self, input: RunAgentInput) -> bool:
        """Return whether a middleware makes the events of an input itself, which is part of no conversation.

        A server that keeps threads stores none for it. Middleware says so with a method of this name.

        Args:
            input: The input of a run.
        """
        asked = (getattr(each, "answers_aside", None) for each in self._middleware)
        return any(is_aside(input) for is_aside in asked if is_aside is not None)

    def subscribe(self, subscriber: Subscriber) -> Subscription:
        """Call a subscriber's hooks, from the next event on.

        Args:
            subscriber: An instance of a `Subscriber` subclass.

        Returns:
            The subscription; leave it as a block, or call `unsubscribe()`.

        Raises:
            UsageError: It is not a subscriber.
        """
        if not is_a(subscriber, Subscriber):
            raise UsageError(f"subscribe() takes an instance of a Subscriber subclass, not {subscriber!r}; see on()")
        # Added to the list that a running call has, so that the next event finds the subscriber.
        self._subscribers.append(subscriber)
        return Subscription(self._subscribers, subscriber)

    def on(self, event_type: type[BaseEvent]) -> Callable[[FunctionT], FunctionT]:
        """Decorate a function, sync or async, to be called with every event of a type.

        Args:
            event_type: An event class of `ag_ui.core`; `BaseEvent` for all.

        Returns:
            The decorator; the function takes the event, and the `HookContext` after it if it wants.

        Raises:
            UsageError: The type is not a class of events.
        """
        kind: Any = event_type
        if not (isinstance(kind, type) and issubclass(kind, BaseEvent)):
            raise UsageError(f"on() takes a class of events, such as TextMessageContentEvent, not {event_type!r}")

        def register(function: FunctionT) -> FunctionT:
            """Call the function from the next event on."""
            self._subscribers.append(EventSubscriber(event_type, function))
            return function

        return register

    def add_observer(self, observer: RunObserver) -> Self:
        """Let an observer watch runs, from the next call on.

        Args:
            observer: An instance of a `RunObserver` subclass.

        Returns:
            The agent itself.

        Raises:
            UsageError: It is not an observer, or a method of it is async.
        """
        if not is_a(observer, RunObserver):
            raise UsageError(f"an observer is an instance of a RunObserver subclass, not {observer!r}")
        if (name := asynchronous_method(observer)) is not None:
            how = "make it a plain method that starts a task, or use a Subscriber, whose hooks are awaited"
            raise UsageError(f"{type(observer).__name__}.{name} is async, and no run waits for observers: {how}")
        self._observers.append(observer)
        return self

    @overload
    def tool(self, function: Callable[P, R], /, **options: Unpack[NamedToolOptions]) -> FunctionTool[P, R]: ...
    @overload
    def tool(self, /, **options: Unpack[NamedToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Unpack[NamedToolOptions]) -> Any:
        """Decorate a function to make it a tool of this agent: `@agent.tool`, or `@agent.tool(approval="always")`.

        Args:
            function: A function, a coroutine function or a bound method; see `agui_client.tool`.
            options: The tool's name, description, approval and timeout; see `NamedToolOptions`.

        Returns:
            The tool, which can be called like the function.

        Raises:
            UsageError: It cannot be offered, or a toolset or a function chooses this agent's tools.
        """
        from agui_client._core.tools.function import tool
        from agui_client._core.tools.toolset import Toolset, chooses_tools, tool_list

        if function is None:
            return partial(self.tool, **options)
        if isinstance(self.tools, Toolset):
            raise UsageError("tools= of this agent is a toolset; give it in a list, so that functions can be added")
        if chooses_tools(self.tools):
            raise UsageError("this agent's tools are chosen by a function; let that function choose this one, too")
        made = tool(function, **options)
        self.tools = [*tool_list(self.tools), made]
        return made

    def as_tool(self, name: str, description: str, *, approval: ApprovalRule = "never") -> FunctionTool[..., Any]:
        """Return this agent as a tool of another one: `HttpAgent(url, tools=[coder.as_tool("ask_coder", "...")])`.

        Each call begins a conversation of its own with a clone. What the clone asks, and approvals that its tools wait
        for and nobody of its own gives, go to the other agent's `answer=`, or become interrupts of that agent, whose
        answers let the clone continue; its text is reported as progress.

        Args:
            name: The tool's name.
            description: What the agent is good for, for the other agent.
            approval: The calls that wait for approval; see `tool`.

        Returns:
            The tool.

        Raises:
            UsageError: It cannot be offered under that name.
        """
        from agui_client._core.agent.agent_tool import agent_tool

        return agent_tool(self, name, description, approval)

    def __repr__(self) -> str:
        where = "" if (address := self._address()) is None else f"{address!r}, "
        return f"{type(self).__name__}({where}agent_id={self.agent_id!r}, thread_id={self.thread_id!r})"

    # --- putting a call together

    @property
    def call_options(self) -> RunOptions:
        """The keywords of the call that `run` is carrying out; none between runs, and inside a run of another agent."""
        scope = CURRENT_SCOPE.get()
        # Another agent in this run must not get them: they may hold the credentials for one server.
        return scope.options if scope is not None and scope.owner is self else {}

    def _type_state(self, model: Any, policy: object) -> None:
        """Take the type of the state, and the policy for conflicts."""
        from agui_client._core.agent.state_edits import check_policy
        from agui_client._core.agent.state_model import ModelCheck, StateModel

        check_policy(policy)
        if model is not None:
            self._state_model = StateModel(model)
            self._observers.append(ModelCheck(self._state_model))

    def _address(self) -> str | None:
        """Return the address of a remote agent; None for one in this process."""
        return None

    def _starting(self, prompt: Prompt, options: ConnectOptions, *, is_replay: bool = False) -> Start:
        kind, verb = (ConnectOptions, "connect_agent") if is_replay else (RunOptions, "run_agent")
        checked = checked_options(options, kind, f"{type(self).__name__}.{verb}")
        self.check_options(checked)
        # The engine is made in the block: the agent may be changed until then, and a run that is never entered is
        # nothing that has to be closed.
        return partial(self._engine, prompt, cast("RunOptions", checked), is_replay)

    def check_options(self, options: Mapping[str, object]) -> None:
        """Refuse keywords of a call that nobody would carry out.

        Args:
            options: Keywords of `RunOptions`.

        Raises:
            UsageError: A keyword becomes no part of the input, is not the call's, and this kind of agent does not take
                it.
        """
        for name in sorted(options.keys() - IN_INPUT - BY_CALL - self.takes):
            takers = (kind.__name__ for kind in _kinds(AbstractAgent) if name in kind.takes)
            taker = "HttpAgent" if name in BY_REQUEST else next(takers, "agent that takes it")
            raise UsageError(f"{name}= is for an {taker}; a {type(self).__name__} does not take it")

    def _timeouts_of(self, options: RunOptions) -> Timeouts:
        """Return the time limits of a call; an agent in this process has none of its own."""
        return Timeouts.of(options["timeout"]) if "timeout" in options else UNLIMITED

    def _engine(self, prompt: Prompt, options: RunOptions, is_replay: bool, loop: RunLoop) -> Engine:
        """Make the engine of a call, with the parts that the agent has now."""
        from agui_client._core.run.call import Call
        from agui_client._core.run.engine import Engine

        info = AgentInfo(
            self.agent_id,
            self.name,
            self.description,
            self._address(),
            is_team=self.is_team,
            takes=self.takes,
            is_local=self.is_local,
            goes_on_alone=self.goes_on_alone,
        )
        call = Call(
            agent=info,
            owner=self,
            agent_options=self._options,
            agent_run=self.connect if is_replay else self.run,
            max_protocol_version=self._max_protocol_version,
            conversation=self._conversation,
            agent_tools=self.tools,
            middleware=tuple(self._middleware),  # the runs of one call have the same, whatever `use` adds meanwhile
            subscribers=self._subscribers,
            observers=Observers(self._observers),
            read_state=self._read_state,
            custom_models=self._custom_models,
            save=self._save,
            timeouts=self._timeouts_of(options),
            options=options,
            is_replay=is_replay,
        )
        call.leave_agent, call.thread_log = partial(self.save_with, None), self._log
        return Engine(call, prompt, loop)


def _kinds(kind: Any) -> Iterator[type[AbstractAgent[Any]]]:
    """Yield the kinds of agents that are known, general ones first."""
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def as_run_input(given: object) -> RunAgentInput:
    """Return the input of a run as it is.

    Args:
        given: The argument of `run`.

    Raises:
        UsageError: It is no `RunAgentInput`.
    """
    if not isinstance(given, RunAgentInput):
        kind = type(given).__name__
        raise UsageError(f"run() takes a RunAgentInput, not a {kind}; did you mean run_agent() or run_agent_sync()?")
    return given


def _check_function(name: str, takes: str, function: object) -> None:
    """Refuse an option that is not a function; a class would be called, and its instance be taken for a decision."""
    if isinstance(function, type):
        raise UsageError(f"{name}= takes a function of {takes}, not a class; did you mean {function.__name__}()?")
    if function is not None and not callable(function):
        raise UsageError(f"{name}= takes a function of {takes}, not {function!r}")


def _own_list(tools: ToolSource) -> ToolSource:
    """Return tools as a list of their own; a toolset or a function that chooses tools as it is."""
    return list(cast("Iterable[Any]", tools)) if isinstance(tools, Iterable) else tools
