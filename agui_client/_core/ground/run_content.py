"""The content of a run so far, in types of the protocol alone, so that errors can have it as their `partial`.

Ends with the protocol's own values: what this side knows besides (attempts, tools, timings) is `RunResult`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.field_docs import Record

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, Message, RunFinishedOutcome, TokenUsage, ToolCall


@dataclass(frozen=True)
class RunContent(Record):
    """The content of a run: the base of `RunResult`, and the class of `error.partial`."""

    __slots__ = ()  # those of the derived record, as classes with slots of both bases cannot be made

    thread_id: str
    """The conversation."""
    run_id: str
    """The run, as it was asked for; of several rounds the last."""
    text: str
    """The last assistant message this run wrote, outside subagents; empty if it wrote none."""
    result: Any
    """The result in RUN_FINISHED, any JSON value; None if there was none."""
    outcome: RunFinishedOutcome | None
    """The outcome of the run, to `match` on: success, interrupt or cancelled; None if it did not finish."""
    interrupts: list[Interrupt]
    """The interrupts that the agent waits for, and questions of tools; answer all of them with `resume=`."""
    pending_tool_calls: list[ToolCall]
    """Calls of this run without a result; give it with `tool_results=`. Calls that an interrupt is about
    are left out: the agent continues with them itself."""
    new_messages: list[Message]
    """The messages that were not there when the run began."""
    messages: list[Message]
    """The whole conversation."""
    state: Any
    """The state as the run left it; any JSON value, to be read only."""
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    """Tokens per provider and model; a count that was not reported is None, not zero (USAGE-1)."""
