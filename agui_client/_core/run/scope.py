"""The run that the running code belongs to, which is a context variable, and the keywords of agents.

An agent's `run` and its middleware, and every agent that they run in turn, find here the run that they belong to: the
log of its warnings, the options of its caller, its observers. Outside a run, and between two events, there is none.

To change

- a new keyword of the constructors: `AgentOptions` here, which a call has as `Call.agent_options`; `HttpAgent.__init__`
  if it is about HTTP
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypedDict

from ag_ui.core import SubagentErrorEvent
from typing_extensions import TypeVar

from agui_client._core.conversation.state_base import STATE_BASE_HEADER
from agui_client._core.ground.field_docs import Record
from agui_client._core.tools.people import PeopleTime
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from types import UnionType

    from ag_ui.core import AgentCapabilities, Event, RunAgentInput
    from pydantic import TypeAdapter

    from agui_client._core.conversation.history import History
    from agui_client._core.conversation.state_merging import ConflictPolicy
    from agui_client._core.protocol.prompts import MessageLike
    from agui_client._core.protocol.validation import NullFields
    from agui_client._core.protocol.warnings import WarningLog
    from agui_client._core.run.hooks import OnAbort
    from agui_client._core.run.middleware import Middleware
    from agui_client._core.run.observers import Observers, RunEnd, RunObserver
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.approval import Approver
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.interrupts import AnsweredInterrupt, Answerer
    from agui_client._core.tools.leaving import Leaving
    from agui_client._core.tools.people import People
    from agui_client._core.tools.tool_limits import ToolLimits
    from agui_client._core.tools.toolset import ToolSource
    from agui_client._core.transport.client import Attempt
    from agui_client._core.transport.http_source import HttpSource

CURRENT_SCOPE: ContextVar[RunScope | None] = ContextVar("agui_client.run", default=None)
"""The run that the running code belongs to."""


@dataclass(frozen=True, slots=True)
class AgentInfo(Record):
    """An agent as observers of its runs see it."""

    agent_id: str
    """The id of the agent in the application."""
    name: str | None
    """The id, if the application chose it; None for a generated one."""
    description: str
    """The purpose of the agent; may be empty."""
    url: str | None
    """The address of a remote agent, without user, password and query; None for one in this process."""
    is_team: bool = False
    """Whether the agent is a team of agents, each of which has calls of its own."""
    takes: frozenset[str] = frozenset()
    """The keywords of the verbs that the agent itself carries out, such as "headers"."""
    is_local: bool = True
    """Whether the agent's work is done in this process."""
    goes_on_alone: bool = False
    """Whether a run may continue when its caller leaves it."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class RunScope(Record):
    """One run of a call."""

    agent: AgentInfo
    """The agent that is run."""
    input: RunAgentInput
    """The input of the run, before middleware."""
    warnings: WarningLog = field(repr=False)
    """The log of the call's warnings."""
    observers: Observers = field(repr=False)
    """The observers of the call."""
    owner: object = field(repr=False)
    """The agent object whose verb was called; `options` are meant for it alone."""
    options: RunOptions = field(repr=False)
    """The keywords that the caller gave."""
    approve: Approver | None = field(default=None, repr=False)
    """The approver of the agent, or else the nearest one around it: also for agents that are run inside this run."""
    answer: Answerer | None = field(default=None, repr=False)
    """The answerer of the agent, or else the nearest one around it: for questions of tools."""
    people: People | None = field(default=None, repr=False)
    """The bounds of the waits for people of the agent, or else the nearest ones around it; None for the usual ones."""
    until: float = math.inf
    """The `time.perf_counter()` at which the call has taken too long; infinite if that is not limited."""
    is_replay: bool = False
    """Whether the thread is sent again (`connect_agent`)."""
    is_saved: bool = False
    """Whether the conversation, or that of a run around this one, is saved while the run is in progress."""
    first: RunScope | None = field(default=None, repr=False)
    """The first run of the same call; None if this is it."""
    parent: RunScope | None = field(default_factory=CURRENT_SCOPE.get, repr=False)
    """The run inside which the call was made; None if there was none."""
    leaving: Leaving | None = field(default=None, repr=False)
    """The functions of the call that are at work."""
    answered: Sequence[AnsweredInterrupt] = field(default=(), repr=False)
    """The interrupts of earlier runs whose answers the run is sent."""
    people_time: PeopleTime = field(default_factory=PeopleTime, repr=False)
    """The time in which people were asked in the call so far."""
    requests: list[HttpSource] = field(default_factory=list["HttpSource"], repr=False)
    """The requests that were posted for this run, in order."""
    started_at: float = field(default_factory=perf_counter, repr=False)
    """`time.perf_counter()` when the run began."""
    tool_events: list[Event] = field(default_factory=list["Event"], repr=False)
    """The events of tools after the run, in order: what they showed, and the beginnings and ends of agents."""
    failures: dict[str, BaseException] = field(default_factory=dict[str, BaseException], repr=False)
    """The exceptions of subagents that failed in this process, by the ids of the invocations."""
    remote_texts: set[str] = field(default_factory=set[str], repr=False)
    """The texts with which servers of members have failed, in the call and in those around it: not for its callers."""
    executed_inside: list[ToolExecution] = field(default_factory=list["ToolExecution"], repr=False)
    """The tools that members of a team have executed in this process, with the ids that their calls have in the run."""
    unread: Callable[[], Iterable[Event]] | None = field(default=None, repr=False)
    """Takes the events that a team has for a reader that left it; None for other agents."""
    end: RunEnd | None = field(default=None, repr=False)
    """The end of the run; None while it is running, or if no observer watches ends."""

    @property
    def may_have_started(self) -> bool:
        """Whether a run that was called may have begun to work: a remote agent's only by a request that may have."""
        if not self.requests:
            return self.agent.is_local
        return any(request.delivery.may_have_started for request in self.requests)

    @property
    def is_kept(self) -> bool:
        """Whether the run continues at its server without this caller, as the server has said of its runs."""
        return bool(self.requests) and self.requests[-1].is_kept

    @property
    def takes_state_base(self) -> bool:
        """Whether the server of the run takes the hash of the state that a later one begins with."""
        response = self.requests[-1].delivery.response if self.requests else None
        return not self.agent.is_local and response is not None and STATE_BASE_HEADER in response.headers

    def note_tool_event(self, event: Event, failure: BaseException | None) -> None:
        """Note an activity that a tool shows, or the beginning or end of an agent that it asks.

        Args:
            event: ACTIVITY_SNAPSHOT, SUBAGENT_STARTED, SUBAGENT_FINISHED or SUBAGENT_ERROR.
            failure: The exception that an agent failed with; None if there is none.
        """
        self.tool_events.append(event)
        if failure is not None and isinstance(event, SubagentErrorEvent):
            self.failures[event.subagent_run_id] = failure

    def enter(self) -> Callable[[], object]:
        """Make this the run that the code of the present task belongs to.

        Returns:
            A function that goes back to the run before, in the same task.
        """
        reset = partial(CURRENT_SCOPE.reset, CURRENT_SCOPE.set(self))
        if not self.observers.of_code:
            return reset
        block = ExitStack()
        block.callback(reset)
        block.enter_context(self.observers.enter(self))
        return block.close

    def attempt_start(self, number: int, url: str) -> dict[str, str]:
        """Call `on_attempt_start`; return the headers that observers add to the request."""
        return self.observers.attempt_start(self, number, url)

    def attempt_end(self, attempt: Attempt, error: BaseException | None) -> None:
        """Call `on_attempt_end`."""
        self.observers.call("on_attempt_end", self, attempt, error)


StateT = TypeVar("StateT", default=Any)
"""The type of an agent's state; any JSON value unless `state_model` says more."""


def typed(state: Any, read: Callable[[Any], StateT] | None) -> StateT:
    """Return a state as an object of the agent's `state_model`.

    Args:
        read: Reads it as an object of the model; None if the agent has no model, or it is not known here.

    Raises:
        ParseError: The state does not fit.
        UsageError: There is no model.
    """
    if read is None:
        raise UsageError("typed_state needs to know the type: give the agent state_model=, or read `state`")
    return read(state)


class AgentOptions(TypedDict, Generic[StateT], total=False):
    """The keywords that the constructor of every agent takes."""

    agent_id: str | None
    """The id of the agent in the application; a new one if left out."""
    description: str | None
    """The purpose of the agent, in a sentence."""
    thread_id: str | None
    """The thread to continue with; a new one if left out."""
    initial_messages: Iterable[MessageLike]
    """The messages that the conversation begins with."""
    initial_state: Any
    """The state that the conversation begins with, any JSON value; models and dataclasses in it are dumped by alias.
    `{}` if left out."""
    history: History
    """The messages that a run sends: "full" for all; "new" for those since the last finished run, for servers that
    remember threads; a `Window`; or a function of the messages, sync or async. What is stored stays whole."""
    state_model: type[StateT] | TypeAdapter[StateT] | UnionType
    """The type of the state, such as a pydantic model, for `typed_state` and `edit_state()`; for a union use a
    `TypeAdapter`, which type checkers understand. A state of the agent that does not fit is a warning."""
    custom_models: Mapping[str, Any]
    """The types of the values of CUSTOM events, by the names of the events, for `result.custom` and `run.custom`. A
    value that does not fit is a warning, and stays JSON."""
    on_conflict: ConflictPolicy
    """The value that stands where `edit_state()` and the agent changed the same place: the agent's ("theirs", also if
    left out), the edit's ("mine"), the one that a function of the `Conflict` returns, or a `StateConflictError`
    ("raise")."""
    capabilities: AgentCapabilities | None
    """The declaration of what the agent can do, for `capabilities()`; None for none, as nothing is guessed."""
    tools: ToolSource
    """Tools of the application that the agent may call: `@tool` functions, definitions of tools that are executed
    elsewhere, `Toolset`s, or a function of the `RunAgentInput` that chooses tools for each run."""
    approve: Approver | None
    """Called, sync or async, before a tool runs that wants approval; without it such calls come back pending."""
    answer: Answerer | None
    """Called, sync or async, to answer interrupts; without it interrupts come back on the result."""
    people: People | None
    """The time that `approve=` and `answer=` have, and what happens after that; 15 minutes and a denial if left out,
    and no limit for the handlers for terminals and notebooks."""
    tool_limits: ToolLimits | None
    """Limits of the tool rounds, and of how tools are executed."""
    on_abort: OnAbort | None
    """Called, sync or async, when a run is left before its end, for servers that have a way to stop one; for those that
    keep runs, `agui_client.reconnect.stop_run`."""
    middleware: Iterable[Middleware]
    """Functions around each run, outermost first; see `use`."""
    observers: Iterable[RunObserver]
    """Observers of the runs: they can neither change nor fail them."""
    null_fields: NullFields
    """"reject" a null that stands for a whole optional field, as the protocol says, or "drop" it with a warning, for
    servers that send them (PROC-17)."""
    strict: bool
    """Whether ids of threads and runs that do not match what was asked are fatal; a warning otherwise."""
