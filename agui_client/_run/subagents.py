"""The subagents of a run: a record of each, from the events that are about it (SUB-5 … SUB-10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ag_ui.core import TokenUsage

from agui_client._field_docs import Record


@dataclass(frozen=True, slots=True)
class SubagentResult(Record):
    """One invocation of a subagent."""

    name: str
    """The name that it was announced with."""
    subagent_run_id: str
    """The id of the invocation."""
    status: Literal["running", "success", "suspended", "error", "abandoned"]
    """How far it came: "suspended" waits for answers, "abandoned" was cut off with the run."""
    text: str = ""
    """The last text that it wrote; empty if it wrote none."""
    result: Any = None
    """The result that it ended with, any JSON value; None if there was none."""
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    """Tokens per provider and model; empty where the agent does not say."""
    seconds: float | None = None
    """The seconds from its beginning to its end; None while it is running."""
    error: str | None = None
    """The message of its failure; None if it did not fail."""
    parent_subagent_run_id: str | None = None
    """The invocation that began it; None if the run's own agent did."""
