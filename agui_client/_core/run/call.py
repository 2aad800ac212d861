"""The record of a turn (`Call`): its state, its runs, and what came with it.

The engine carries a turn out. All other code gets this record instead of the engine: results, the end of a run, the
time between two runs, the verbs, and features such as served agents and teams (`run.call`).

To change

- what a feature gets to know of a call: `Call` here
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any

from agui_client._core.conversation.pending import open_records
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.lost_run import lost_run
from agui_client._core.run.result import annotate
from agui_client._core.run.result_building import build_result, call_end
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.run.state import CallState
from agui_client._core.run.steering import Steering
from agui_client._core.run.subagents import unreported_usage
from agui_client._core.run.turn_input import FirstRun
from agui_client._core.tools.leaving import Leaving
from agui_client._core.tools.people import PeopleTime
from agui_client._core.tools.tool_limits import RoundLimits, ToolLimits
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import CustomEvent, Message, TokenUsage, ToolCall, ToolMessage

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.run.checkpoint import Save
    from agui_client._core.run.continuing import ThreadLog
    from agui_client._core.run.custom_models import CustomModels
    from agui_client._core.run.hooks import Subscriber
    from agui_client._core.run.middleware import Middleware, RunFunction
    from agui_client._core.run.observers import Observers
    from agui_client._core.run.options import RunOptions
    from agui_client._core.run.result import RunResult
    from agui_client._core.run.round import Run
    from agui_client._core.run.scope import AgentInfo, AgentOptions
    from agui_client._core.run.time_limit import TimeLimit
    from agui_client._core.run.turn_input import TurnInput
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.interrupts import AnsweredInterrupt
    from agui_client._core.tools.toolset import CallTools, ToolSource
    from agui_client._core.transport.timeouts import Timeouts

_LIMITS = ToolLimits()


def _leaving() -> Leaving:
    """Return what leaves a call, together with the team that it is made in, if it is one of a member."""
    around = CURRENT_SCOPE.get()
    return Leaving(around.leaving if around is not None and around.agent.is_team else None)


def _people_time() -> PeopleTime:
    """Return the clock of a call, which is one of the call around it, too."""
    around = CURRENT_SCOPE.get()
    return PeopleTime(around.people_time if around else None)


# Without a repr: it would show prompts, headers and state wherever a call is logged.
@dataclass(eq=False, repr=False, kw_only=True)
class Call:
    """One turn: what a call of a verb does, as one run or several, as far as it has come."""

    # --- what was given: by the agent, as it was when the verb was called, and by the caller

    agent: AgentInfo
    """The agent, as observers see it."""
    owner: object
    """The agent object."""
    agent_options: AgentOptions
    """The keywords that the agent was made with."""
    agent_run: RunFunction
    """The agent's `run`, or `connect` for a replay."""
    max_protocol_version: str | None
    """The newest version that the agent is known to speak, if that is older than 1.0."""
    conversation: Conversation
    """The conversation."""
    agent_tools: ToolSource
    """The agent's tools."""
    middleware: Sequence[Middleware]
    """Functions around each run, outermost first."""
    # The agent's own list, not a copy as of middleware, whose chain is built when a run begins.
    subscribers: Sequence[Subscriber]
    """The subscribers, whose hooks are called; they may come and go."""
    observers: Observers
    """The observers."""
    read_state: Callable[[Any], Any] | None
    """Reads a state as an object of the agent's `state_model`; None without one."""
    custom_models: CustomModels | None
    """Reads the values of CUSTOM events as types of the application; None if there are no types."""
    save: Save | None
    """Awaited when something must not be lost; None if nothing is saved."""
    timeouts: Timeouts
    """The time limits of the call."""
    options: RunOptions
    """The keywords of the verb."""
    is_replay: bool = False
    """Whether the server sends the thread again, rather than continues with it; there may be nothing to send."""

    # --- what has become of it

    time: TimeLimit = field(init=False)
    """The time that the call may take, from when it has its turn."""
    tools: CallTools = field(init=False)
    """The tools of the call."""
    request: TurnInput | None = field(default=None, init=False)
    """The messages, answers and results that came with the call; None for a replay."""
    messages_before: Sequence[Message] = field(default=(), init=False)
    """The messages that existed before the first run."""
    also_save: Save | None = field(default=None, init=False)
    """Awaited before the agent's own function that saves; None if nothing else is saved."""
    thread_log: ThreadLog | None = field(default=None, init=False)
    """The log of the stored thread of the agent; None without one."""
    leave_agent: Callable[[], object] = field(default_factory=lambda: lambda: None, init=False)
    """Has the agent save nothing more."""
    position_of: Callable[[str | None], int] = field(default_factory=lambda: lambda _: 0, init=False)
    """Returns the number of events that the log of the call has where a run was sent, or, for None, now."""
    error: Exception | None = field(default=None, init=False)
    """The exception that the call ended with; None while it is running, or if it did not fail."""
    state: CallState = field(default_factory=CallState, init=False)
    """The phase of the call, and the reason why it stops."""
    leaving: Leaving = field(default_factory=_leaving, init=False)
    """The functions at work, and what becomes of the call when the process is about to end."""
    people_time: PeopleTime = field(default_factory=_people_time, init=False)
    """The time in which people are asked."""
    has_caller: bool = field(default_factory=lambda: CURRENT_SCOPE.get() is not None, init=False)
    """Whether the call is made for a request or another call, whose caller gets what nobody decides here."""
    is_detached: bool = field(default=False, init=False)
    """Whether the call was left so that the server continues with its run."""
    steering: Steering = field(default_factory=Steering, init=False)
    """Messages of the user that came while the call is in progress."""
    warnings: WarningLog = field(default_factory=WarningLog, init=False)
    """The log of the call's warnings."""
    rounds: list[Run] = field(default_factory=list["Run"], init=False)
    """The runs of the call, the present one last."""
    executed: list[dict[str, ToolExecution]] = field(default_factory=list[dict[str, "ToolExecution"]], init=False)
    """The tools that were executed here, by call id, for each time that some were: ids may come again."""
    limits: RoundLimits = field(init=False)
    """The rounds of tools so far, and their limits."""
    _result: RunResult | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.limits = RoundLimits(self.agent_options.get("tool_limits") or _LIMITS)

    @property
    def round(self) -> Run:
        """The present run, or the last one."""
        return self.rounds[-1]

    def detach(self) -> None:
        """Note that the server continues when the run is left.

        Raises:
            UsageError: Nothing of the agent continues without its caller.
        """
        if not self.agent.goes_on_alone:
            raise UsageError(
                "this agent runs in the process, so nothing continues when its run is left; cancel() it"
                if self.agent.is_local
                else f"{type(self.owner).__name__}.goes_on_alone is False: its runs end when they are left"
            )
        # A call that is over has left nothing running: its result must not say that it was detached.
        self.is_detached = not self.state.has_ended

    def steer(self, prompt: Prompt) -> None:
        """Add a message of the user, from any thread; the next run gets it.

        Raises:
            UsageError: The call takes no message any more.
        """
        if self.is_replay:
            raise UsageError("connecting asks nothing, so nothing can steer it; ask with run_agent() when it is over")
        self.steering.add(prompt)

    @cached_property
    def known_ids(self) -> frozenset[str]:
        """The ids of the messages that existed before the first run."""
        return frozenset([each.id for each in self.messages_before])

    def new_of(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that did not exist before the first run."""
        before = self.messages_before
        # A look at each of thousands takes longer than many a run.
        if len(messages) >= len(before) and all(map(is_, before, messages)):
            return list(messages[len(before) :])
        return [each for each in messages if each.id not in self.known_ids]

    @property
    def executions(self) -> list[ToolExecution]:
        """The tools that were executed here, in order."""
        return [*chain.from_iterable(each.values() for each in self.executed)]

    @property
    def all_executions(self) -> list[ToolExecution]:
        """The tools that were executed here, and those that members of a team have executed."""
        return [*self.executions, *(execution for each in self.rounds for execution in each.executed_inside)]

    @property
    def answered(self) -> list[AnsweredInterrupt]:
        """The interrupts whose answers the agent was sent, in order."""
        return [answered for each in self.rounds for answered in each.answered]

    @property
    def custom(self) -> list[CustomEvent]:
        """The CUSTOM events so far, in order."""
        return [*chain.from_iterable(each.outcome.custom for each in self.rounds)]

    def result(self) -> RunResult:
        """Return what has arrived so far; once the call is over, its result."""
        # Built anew at each look until then, as a later event may change each part of it.
        return self._result or build_result(self)

    def end(self, error: Exception | None) -> None:
        """End the call: build its result, and note on an exception where it happened and what had arrived.

        Args:
            error: The exception that the call failed with; None if it did not fail.
        """
        self.error = error
        self.warnings.hide_in(error)
        # First, so that a message that is refused from here on is not in `unsent_messages`, and all others are.
        self.steering.close()
        try:
            # Before the phase is ENDED: the result tells a run that waits for answers by its phase.
            self._result = build_result(self, is_over=True)
            self.conversation.state_of_result = self._result.state
        finally:
            # Also where the result cannot be built: nothing may wait for a call that will never end.
            self.state.end()
        annotate(error, self._result, may_have_started=self.round.may_have_started)
        self.conversation.lost_run = lost_run(self, error)
        if self.observers.watches_ends:
            self.observers.call("on_call_end", self.round, call_end(self, self._result))

    # --- for features, which get this from `run.call`

    @property
    def undecided(self) -> list[ToolCall]:
        """The tool calls that nobody has decided about."""
        records = open_records(self.conversation)
        waiting = [each.tool_call_id for each in records if each.is_waiting and each.is_of_application]
        return [call for key in waiting if (call := self.conversation.tool_call(key)) is not None]

    @property
    def has_given_input(self) -> bool:
        """Whether the caller made the input of the first run, which is sent as it is."""
        return self.request is not None and self.request.first_run is FirstRun.GIVEN

    @property
    def unreported_usage(self) -> list[TokenUsage]:
        """The tokens that no end of a run reports: of agents that tools asked, and of runs that have no end."""
        return [each for run in self.rounds for each in unreported_usage(run.outcome, run.tool_events)]

    def save_also(self, save: Save) -> None:
        """Have the conversation saved by one more function, from the first run on, which is not sent yet.

        Args:
            save: The function, awaited before the agent's own one.
        """
        self.also_save = save
        # The first run was made when the block was entered, before a feature had the call.
        for run in self.rounds:
            run.is_saved = True

    def leave_as_saved(self) -> None:
        """Save nothing more, as another process continues with the call from what was saved last."""
        self.save = self.also_save = None
        self.leave_agent()

    @property
    def is_saved(self) -> bool:
        """Whether the conversation is saved here, so that a caller need not be sent what it has."""
        return self.save is not None

    @property
    def given_results(self) -> Sequence[ToolMessage]:
        """The results of tool calls that came with the call, and not from a tool, as far as its caller lacks them."""
        return () if self.request is None else self.request.given_results
