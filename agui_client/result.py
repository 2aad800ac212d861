"""What a run came to: `RunResult`, and `Snapshot`, the reduced view after one event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ag_ui.core import Event, Interrupt, Message, RunFinishedOutcome, TokenUsage, ToolCall, ToolMessage

    from agui_client._pipeline.transport import Attempt, ResponseInfo
    from agui_client._pipeline.warnings import ProtocolWarning

T = TypeVar("T")

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An event, and the conversation with that event in it."""

    event: Event
    """What happened."""
    messages: list[Message]
    """The messages, the event's change included; never changed afterwards."""
    state: Any
    """The state, the event's change included; any JSON value, to be read only."""


@dataclass(frozen=True, slots=True)
class Timings:
    """When things happened, in seconds since the run was started; None for what did not happen."""

    connect: float | None = None
    """Until the response's headers were there; None for agents in this process."""
    first_event: float | None = None
    """Until the first event."""
    first_text: float | None = None
    """Until the first piece of a text message."""
    total: float | None = None
    """Until the run ended."""


MOST_REPORTS = 100
"""How much of what a tool reports is kept."""

ToolStatus = Literal["waiting", "running", "succeeded", "failed", "denied", "timed out", "cancelled"]
"""How far the execution of a tool has come; "waiting" is for approval, or for its turn."""


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """A tool of the application at work on one call, as it was at one moment."""

    tool_call_id: str
    """The call."""
    name: str
    """The tool."""
    status: ToolStatus
    """How far it has come."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it was called with, held against its schema; empty if the arguments do not fit."""
    progress: Sequence[Any] = ()
    """What it reported with `ctx.report(...)`, in order; the latest 100."""
    message: ToolMessage | None = None
    """What the agent is told; None before the end."""
    seconds: float | None = None
    """How long the function ran; None if it did not, or is still running."""


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """What a run came to. Of a stream with several runs, the last one counts (LIFE-13).

    Where tools were run here, the call went through several rounds: outcome, text and run id are the last round's,
    messages, usage, attempts and timings are about all of them.
    """

    thread_id: str
    """The conversation."""
    run_id: str
    """The run, as it was asked for; of several rounds the last."""
    text: str
    """The last assistant message this run wrote, outside subagents; empty if it wrote none."""
    result: Any
    """What RUN_FINISHED carried as its result, any JSON value; None if nothing."""
    outcome: RunFinishedOutcome | None
    """How the run finished, to `match` on: success, interrupt or cancelled; None if it did not finish."""
    interrupts: list[Interrupt]
    """What the agent waits for; answer all of it with `resume=`."""
    pending_tool_calls: list[ToolCall]
    """Calls of this run that nobody answered yet; answer them with `tool_results=`, apart from those that an interrupt
    is about (its `tool_call_id`), which the agent goes on with itself."""
    new_messages: list[Message]
    """The messages that were not there when the run began."""
    messages: list[Message]
    """The whole conversation."""
    state: Any
    """The state as the run left it; any JSON value, to be read only."""
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    """Tokens per provider and model; a count that was not reported is None, not zero (USAGE-1)."""
    warnings: list[ProtocolWarning] = field(default_factory=list["ProtocolWarning"])
    """What was tolerated on the way; empty for a conforming agent."""
    timings: Timings = field(default_factory=Timings)
    """When things happened."""
    response: ResponseInfo | None = None
    """The HTTP response, of several the last, secrets redacted; None for agents in this process."""
    attempts: list[Attempt] = field(default_factory=list["Attempt"])
    """Every POST that was tried, why, and what became of it; empty for agents in this process."""
    tool_executions: list[ToolExecution] = field(default_factory=list["ToolExecution"])
    """The tools that were run here, in the order they were begun."""
    incomplete_ids: list[str] = field(default_factory=list[str])
    """The messages and tool calls that the run began and did not complete; empty when it finished."""
    aborted: bool = False
    """Whether the run was stopped from here with `abort_run()` or `cancel()`; then there is no outcome."""

    def __repr__(self) -> str:
        outcome = self.outcome.type if self.outcome else "aborted" if self.aborted else None
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        waiting = f", interrupts={len(self.interrupts)}" if self.interrupts else ""
        if self.pending_tool_calls:
            waiting += f", pending_tool_calls={len(self.pending_tool_calls)}"
        return (
            f"RunResult(outcome={outcome!r}, text={text!r}{waiting}, new_messages={len(self.new_messages)}, "
            f"warnings={len(self.warnings)}, run_id={self.run_id!r})"
        )

    def parse(self, shape: type[T]) -> T:
        """Read the run's result as a type of your own.

        The `result` of RUN_FINISHED is read if there is one, otherwise the final text as JSON.

        Args:
            shape: A pydantic model, dataclass, or any type pydantic can validate.

        Returns:
            An instance of it.

        Raises:
            pydantic.ValidationError: It does not fit, or the text is not JSON.
        """
        adapter = TypeAdapter(shape)
        if self.result is not None:
            return adapter.validate_python(self.result)
        return adapter.validate_json(self.text)
