"""The run that is going on, for everything that is called inside it: a context variable.

An agent's `run` and its middleware, and every agent that they run in turn, find here the run that they belong to: the
log of its warnings, the options of its caller, its observers. Outside a run, and between two events, there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from agui_client._field_docs import Record

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._interrupts.answers import Answerer
    from agui_client._protocol.warnings import WarningLog
    from agui_client._run.observers import Observers, RunEnd
    from agui_client._tools.approval import Approver
    from agui_client._transport.client import Attempt
    from agui_client._transport.http_source import HttpSource
    from agui_client.options import RunOptions

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
    until: float = math.inf
    """The `time.perf_counter()` at which the call has taken too long; infinite if that is not limited."""
    is_replay: bool = False
    """Whether the thread is sent again (`connect_agent`)."""
    first: RunScope | None = field(default=None, repr=False)
    """The first run of the same call; None if this is it."""
    parent: RunScope | None = field(default_factory=CURRENT_SCOPE.get, repr=False)
    """The run inside which the call was made; None if there was none."""
    requests: list[HttpSource] = field(default_factory=list["HttpSource"], repr=False)
    """The requests that were posted for this run, in order."""
    started_at: float = field(default_factory=perf_counter, repr=False)
    """`time.perf_counter()` when the run began."""
    end: RunEnd | None = field(default=None, repr=False)
    """The end of the run; None while it goes on."""

    @property
    def may_have_started(self) -> bool:
        """Whether a run that was called may have begun to work: not if no request of it can have."""
        return not self.requests or any(request.delivery.may_have_started for request in self.requests)

    def enter(self) -> Callable[[], object]:
        """Make this the run that the code of the present task belongs to.

        Returns:
            A function that goes back to the run before, in the same task.
        """
        reset = partial(CURRENT_SCOPE.reset, CURRENT_SCOPE.set(self))
        if not self.observers.of_code:
            return reset
        leave = self.observers.enter(self)

        def end() -> None:
            """Tell the observers, and go back."""
            leave()
            reset()

        return end

    def attempt_start(self, number: int, url: str) -> dict[str, str]:
        """Call `on_attempt_start`; return the headers that observers add to the request."""
        return self.observers.attempt_start(self, number, url)

    def attempt_end(self, attempt: Attempt, error: BaseException | None) -> None:
        """Call `on_attempt_end`."""
        self.observers.call("on_attempt_end", self, attempt, error)
