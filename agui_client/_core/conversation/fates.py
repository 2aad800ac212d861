"""The fate of each tool call without a result when a call of a verb begins: one table, without effects (TOOL-10).

A verb that brings a prompt, answers or results leaves no call of the conversation open by accident, as agents and
models refuse a conversation in which a call has no result. `fate` goes from the first row of its table that fits.

To change

- what becomes of a tool call that a caller leaves without a result: `Fate` and `fate` here; `TurnInput` in
  `_core/run/turn_input.py` carries it out. `tests/core/conversation/test_fates.py` has the whole table
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from agui_client._core.tools.approval import Approve

if TYPE_CHECKING:
    from agui_client._core.conversation.ledger import ToolCallRecord


UNANSWERED = object()
"""Stands for the result of a caller who gives none, where None is one."""


class Fate(Enum):
    """The fate of a tool call without a result."""

    RUN = "it is approved, or waits to continue: it is carried through before anything is sent"
    GIVEN = "the caller gives its result"
    LATER = "it stays pending, and nothing is sent: the caller gave results of others, and asks nothing"
    LEFT = "the agent, or a member of a team, gives its result"
    UNKNOWN = "its function was called: the agent is told that the effect is unknown"
    WITHOUT = "the agent is told that it has no result"


class Brought(NamedTuple):
    """The arguments of a verb that decide the fate of tool calls."""

    continues: bool
    """Whether the conversation continues: with a prompt, or since no result says otherwise."""
    resumes: bool
    """Whether interrupts of the agent are answered."""
    is_of_team: bool
    """Whether members of a team continue with their own calls."""
    is_nothing: bool
    """Whether nothing was brought, so that the conversation continues with what waits in it."""


def fate(record: ToolCallRecord | None, answer: object, brought: Brought) -> Fate:
    """Return the fate of a call without a result.

    Args:
        record: Its record, with a decision only if that counts; None if no run of this side left it.
        answer: The caller's result or approval; `UNANSWERED` if there is none.
        brought: What the caller brought.
    """
    is_ours = record is not None and record.is_ours_to_answer
    if answer is not UNANSWERED:
        return Fate.RUN if isinstance(answer, Approve) else Fate.GIVEN
    if not brought.continues:
        return Fate.LATER if is_ours else Fate.LEFT
    if brought.is_nothing and record is not None and record.is_of_application and _can_continue(record):
        return Fate.RUN
    # The other calls of a run that resumes may be those that it continues with.
    if brought.resumes and not is_ours:
        return Fate.LEFT
    if record is not None and record.is_begun:
        return Fate.UNKNOWN
    return Fate.LEFT if brought.is_of_team else Fate.WITHOUT


def _can_continue(record: ToolCallRecord) -> bool:
    """Return whether a call that is not begun can be carried through, or be asked about."""
    return record.is_waiting or record.is_asked or record.is_decided
