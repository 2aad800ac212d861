"""Decisions of people: what an approver is asked and may answer (SEC-3).

Deny by default: only the literal `True` or an `Approve` approves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agui_client.errors import UsageError, sendable

if TYPE_CHECKING:
    from ag_ui.core import Message, Tool

DENIED = "The user denied this tool call."
"""What the agent is told when nobody gave a reason."""


@dataclass(frozen=True, slots=True)
class Approve:
    """Approves a tool call, with its arguments or with others."""

    arguments: Mapping[str, Any] | None = None
    """The arguments to use instead of the agent's; None approves them as they are."""

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.arguments), Mapping | None):
            raise UsageError(f"Approve takes the arguments by their names, not {self.arguments!r}")


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuses a tool call; the agent is told why."""

    reason: str = DENIED
    """A sentence for the agent."""

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.reason), str):
            raise UsageError(f"Deny takes the reason as text, not {self.reason!r}")
        object.__setattr__(self, "reason", sendable(self.reason))


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A tool call that waits for a person."""

    tool_call_id: str
    """The call."""
    tool: Tool
    """What the agent was offered: name, description and the schema of the arguments."""
    arguments: Mapping[str, Any]
    """What it would be called with, as JSON: held against the schema, defaults filled in."""
    thread_id: str
    """The conversation."""
    run_id: str
    """The run that made the call."""
    messages: Sequence[Message] = field(default=(), repr=False)
    """The conversation so far."""
    state: Any = field(default=None, repr=False)
    """The state so far; to be read only."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


Decision: TypeAlias = bool | Approve | Deny | None
"""What an approver answers; anything but `True` and `Approve` denies."""
Approver: TypeAlias = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]
"""Asked before a tool runs that wants approval; a plain function is called in a worker thread."""


def as_decision(answer: object) -> Approve | Deny:
    """Read what an approver answered.

    Args:
        answer: Whatever came back.

    Returns:
        An approval only for `True` and `Approve`; everything else is a denial.
    """
    if answer is True:
        return Approve()
    return answer if isinstance(answer, Approve | Deny) else Deny()
