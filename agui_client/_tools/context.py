"""A tool call during execution: its checked arguments, the tool's context, and the record for observers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ag_ui.core import Message, ToolMessage

from agui_client._concurrency import LoopThread
from agui_client._field_docs import documented

MOST_REPORTS = 100
"""The number of progress reports that are kept of one execution."""

ToolStatus = Literal["waiting", "running", "succeeded", "failed", "denied", "timed out", "cancelled"]
"""The stage of a tool's execution; "waiting" is for approval, or for its turn."""


@documented
@dataclass(frozen=True, slots=True)
class BoundCall:
    """A tool call with arguments that were checked; an approval executes the very object that was shown."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """The agent's arguments as JSON, completed by defaults: approvers see these."""
    values: Any = field(default=None, repr=False)
    """Anything that the toolset wants to find here when the call is executed."""


@documented
@dataclass(frozen=True, slots=True)
class ToolExecution:
    """The execution of one tool call, as it was at one moment."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    status: ToolStatus
    """The stage of the execution."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The arguments of the call as JSON; empty if they do not fit the tool's schema."""
    progress: Sequence[Any] = ()
    """The latest 100 values that the tool passed to `ctx.report(...)`, in order."""
    message: ToolMessage | None = None
    """The result for the agent; None before the end."""
    seconds: float | None = None
    """The time that the tool ran, in seconds; None if it did not run, or is still running."""
    description: str = ""
    """The tool's description, as the agent was offered it."""
    error: str | None = None
    """The class of the exception that failed the call, or "denied", "timeout" or "cancelled"; None if none."""


@documented
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolContext:
    """The circumstances of a tool call; a function gets them as its first parameter if that is `ctx: ToolContext`."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name, as the agent knows it."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The arguments of the call as JSON; the function's parameters are the same values, validated."""
    thread_id: str
    """The id of the conversation."""
    run_id: str
    """The id of the run that made the call."""
    messages: Sequence[Message] = field(default=(), repr=False)
    """The conversation when the call was made."""
    state: Any = field(default=None, repr=False)
    """The state when the call was made; to be read only, and not to be trusted (SEC-6)."""
    on_report: Callable[[Any], None] | None = field(default=None, repr=False)
    """A function that takes what `report` is given, in the event loop's thread; None drops it."""
    ended: threading.Event = field(default_factory=threading.Event, repr=False)
    """An event that is set when the call is over; a function in a thread can wait on it instead of sleeping."""
    loop: LoopThread | None = field(default=None, repr=False)
    """The event loop that executes the tool; None where a test calls the tool by itself."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled or took too long, so that the tool can stop."""
        return self.ended.is_set()

    def report(self, progress: Any) -> None:
        """Report progress to those who watch the run; the agent does not get it.

        Never waits; a report after the call's end is dropped.

        Args:
            progress: Anything; a plain function's thread may go on meanwhile, so the value should not change any more.
        """
        if self.loop is None:
            self._deliver(progress)
        else:
            self.loop.call(partial(self._deliver, progress))

    def _deliver(self, progress: Any) -> None:
        if self.on_report is not None and not self.is_cancelled:
            self.on_report(progress)
