"""Limits of the tool loop: how many rounds, how long, how much, and what counts as going in circles."""

from __future__ import annotations

from dataclasses import dataclass, fields

from agui_client.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """When a call stops answering tool calls, and how its tools are run. None sets no limit."""

    rounds: int | None = 10
    """How many times the agent's calls are answered before `ToolRoundsExceededError`."""
    seconds: float | None = None
    """How long the whole call may have taken when another round begins."""
    tokens: int | None = None
    """How many tokens it may have used by then, as far as the agent reports them."""
    repeats: int | None = 3
    """How many rounds in a row may make the same call with the same arguments; the last of them is not answered."""
    at_once: int = 8
    """How many tools run at the same time."""
    timeout: float | None = None
    """How many seconds a tool may take that says nothing itself."""
    approval: float | None = None
    """How many seconds a person has to approve a call; after that it is denied."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value: object = getattr(self, each.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if not is_number and (value is not None or each.name == "at_once"):
                raise UsageError(f"ToolLimits.{each.name} is a number above zero, or None, not {value!r}")
        if self.at_once != int(self.at_once):
            raise UsageError(f"ToolLimits.at_once is a whole number of tools, not {self.at_once!r}")
