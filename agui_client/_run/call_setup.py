"""The keywords of agents, and the parts that an agent brings to a call: all that the engine needs to know of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypedDict

from typing_extensions import TypeVar

from agui_client._run.scope import CURRENT_SCOPE, RunScope

if TYPE_CHECKING:
    from types import UnionType

    from ag_ui.core import AgentCapabilities, RunAgentInput
    from pydantic import TypeAdapter

    from agui_client._interrupts.answers import Answerer
    from agui_client._protocol.pipeline import NullFields
    from agui_client._protocol.warnings import WarningLog
    from agui_client._run.checkpoint import Save
    from agui_client._run.ending import OnAbort
    from agui_client._run.hooks import Subscriber
    from agui_client._run.middleware import Middleware, Run
    from agui_client._run.observers import Observers, RunObserver
    from agui_client._run.scope import AgentInfo
    from agui_client._tools.approval import Approver
    from agui_client._tools.tool_limits import ToolLimits
    from agui_client._tools.toolset import ToolSource
    from agui_client.conversation import Conversation
    from agui_client.history import History
    from agui_client.messages import MessageLike
    from agui_client.options import RunOptions
    from agui_client.state.merging import ConflictPolicy


StateT = TypeVar("StateT", default=Any)
"""The type of an agent's state; any JSON value unless `state_model` says more."""


class AgentOptions(TypedDict, Generic[StateT], total=False):
    """The keywords that the constructor of every agent takes."""

    agent_id: str | None
    """The id of the agent in the application; a new one if left out."""
    description: str | None
    """The purpose of the agent, in a sentence."""
    thread_id: str | None
    """The thread to go on with; a new one if left out."""
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
    on_conflict: ConflictPolicy
    """The value that stands where `edit_state()` and the agent changed the same place: the agent's ("theirs", also if
    left out), the edit's ("mine"), the one that a function of the `Conflict` returns, or a `StateConflictError`
    ("raise")."""
    capabilities: AgentCapabilities | None
    """The declaration of what the agent can do, for `capabilities()`; None for none, as nothing is guessed."""
    tools: ToolSource
    """Tools of the application that the agent may call: `@tool` functions, definitions of tools that are answered
    elsewhere, `Toolset`s, or a function of the `RunAgentInput` that chooses tools for each run."""
    approve: Approver | None
    """Called, sync or async, before a tool runs that wants approval; without it such calls come back pending."""
    answer: Answerer | None
    """Called, sync or async, to answer interrupts; without it interrupts come back on the result."""
    tool_limits: ToolLimits | None
    """Limits of the tool rounds, and of how tools are executed."""
    on_abort: OnAbort | None
    """Called, sync or async, when a run is left before its end, for servers that have a way to stop one."""
    middleware: Iterable[Middleware]
    """Functions around each run, outermost first; see `use`."""
    observers: Iterable[RunObserver]
    """Observers of the runs: they can neither change nor fail them."""
    null_fields: NullFields
    """"reject" a null that stands for a whole optional field, as the protocol says, or "drop" it with a warning, for
    servers that send them (PROC-17)."""
    strict: bool
    """Whether ids of threads and runs that do not match what was asked are fatal; a warning otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSetup:
    """The parts that an agent brings to a call."""

    agent: AgentInfo
    """The agent, as observers see it."""
    owner: object
    """The agent object."""
    options: AgentOptions
    """The keywords that the agent was made with."""
    run: Run
    """The agent's `run`, or `connect` for a replay."""
    max_protocol_version: str | None
    """The newest version that the agent is known to speak, if that is older than 1.0."""
    conversation: Conversation
    """The conversation."""
    tools: ToolSource
    """The agent's tools."""
    middleware: Sequence[Middleware]
    """Functions around each run, outermost first."""
    subscribers: Sequence[Subscriber]
    """The subscribers, whose hooks are called; they may come and go."""
    observers: Observers
    """The observers."""
    save: Save | None = None
    """Awaited when something must not be lost; None if nothing is saved."""
    total: float = math.inf
    """The seconds that the call may take; infinite if that is not limited."""
    is_replay: bool = False
    """Whether the server sends the thread again, rather than goes on with it; there may be nothing to send."""

    def scope(
        self, input: RunAgentInput, options: RunOptions, warnings: WarningLog, until: float, first: RunScope | None
    ) -> RunScope:
        """Make the scope of a run.

        Args:
            input: The input of the run.
            options: The keywords of the call.
            warnings: The log of the call's warnings.
            until: The `time.perf_counter()` at which the call has taken too long.
            first: The first run of the call; None if this is it.
        """
        own, around = self.options, CURRENT_SCOPE.get()
        return RunScope(
            agent=self.agent,
            input=input,
            warnings=warnings,
            observers=self.observers,
            owner=self.owner,
            options=options,
            approve=own.get("approve") or (around.approve if around else None),
            answer=own.get("answer") or (around.answer if around else None),
            until=until,
            is_replay=self.is_replay,
            first=first,
        )
