"""Replies: what the application has to say to what a run left, its tool calls and its interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry, ToolMessage


@dataclass(frozen=True, slots=True)
class Replies:
    """Answers to one run."""

    messages: Sequence[ToolMessage] = ()
    """Results of tool calls, in call order."""
    entries: Sequence[ResumeEntry] = ()
    """Answers to interrupts."""
    goes_on: bool = True
    """Whether another run is to follow; False where something still waits for the caller."""
