"""The plan of a run: what the agent gives the driver of one exchange, and what it wants to be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput, ToolCall

    from agui_client._pipeline import NullFields
    from agui_client._pipeline.middleware import Middleware, Run
    from agui_client._pipeline.reduce import Change, Reducer
    from agui_client._pipeline.replies import Replies
    from agui_client._pipeline.tracing import RunTrace
    from agui_client._pipeline.warnings import WarningLog
    from agui_client._surfaces.abort import OnAbort
    from agui_client._surfaces.exchange import Exchange
    from agui_client._surfaces.subscribers import Roster


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything an exchange needs; the agent makes it."""

    input: RunAgentInput
    """What is asked."""
    run: Run
    """The agent's `run`, with the input checked on its way in."""
    reducer: Reducer
    """Where the conversation is kept."""
    warnings: WarningLog
    """Where the stages report."""
    middleware: Sequence[Middleware]
    """Outermost first."""
    roster: Roster
    """Who listens."""
    null_fields: NullFields
    """What enforcement does with null for a whole optional field."""
    strict: bool
    """Whether ids that do not match are fatal."""
    listeners: Sequence[Callable[[Change], None]]
    """Told what each event changed; looked at anew each time."""
    trace: Callable[[RunAgentInput, RunTrace | None], RunTrace]
    """Makes the span of a run; of a later round it nests in the first one's."""
    on_begin: Callable[[Exchange], None]
    """Told before the agent's `run` is called."""
    on_end: Callable[[Exchange], None]
    """Told when the run is over, before anybody else."""
    on_left: Callable[[Exchange, Sequence[ToolCall] | None, Sequence[str]], None]
    """Told when whoever follows a run that is ahead leaves it before its end: the calls without a result and the
    incomplete items that were seen; None instead of calls if nothing was."""
    on_replies: Callable[[Replies], None]
    """Told what was answered after the run was over."""
    on_abort: OnAbort | None
    """Told when a run that the agent had begun is left before its end."""
    is_replay: bool = False
    """Whether the thread is told again, rather than gone on with; then there may be nothing to tell."""
    is_ahead: bool
    """Whether the run is reduced ahead of the conversation; then whoever follows says when it is over."""
