"""Tracing: what a run tells OpenTelemetry about itself, its HTTP attempts and its tool executions (the otel extra).

The classes here tell nothing, which is what a run gets where nobody traces; those of `spans` do. Whoever traces has
imported OpenTelemetry already, so nothing is imported on anybody else's behalf. Messages, arguments, results, state,
and the texts of errors, which may quote them, never go into a span.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ag_ui.core import TokenUsage


class AttemptTrace:
    """One HTTP request of a run."""

    def headers(self) -> dict[str, str]:
        """The headers that carry the trace to the server, such as `traceparent`; empty if there is no trace."""
        return {}

    def current(self) -> AbstractContextManager[None]:
        """A block in which the attempt is the current span, so that what happens while sending nests below it."""
        return nullcontext()

    def end(self, *, status_code: int | None = None, error: BaseException | None = None) -> None:
        """The attempt is over, best as soon as it is clear whether there is a stream to read. Idempotent.

        Args:
            status_code: The HTTP status; None if no response came.
            error: What was wrong with it; None and no status code mean that nobody waited for the response.
        """


class ToolTrace:
    """One execution of a tool, from entering the block to leaving it; the current span inside."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """An exception that leaves the block is what the tool failed with, unless `fail` said otherwise."""

    def fail(self, reason: BaseException | str) -> None:
        """The tool failed, and the agent will be told so. The first reason counts.

        Args:
            reason: The exception, of which only the class is kept, or one of a few words such as "denied".
        """


class RunTrace:
    """One run, in whose span attempts and tool executions nest."""

    def attempt(self, *, number: int, method: str, url: str) -> AttemptTrace:
        """An HTTP request begins.

        Args:
            number: Which attempt of the run it is, from 1.
            method: Such as "POST".
            url: Where it goes; user, password, query and fragment are left out of the span.

        Returns:
            The attempt, to be ended.
        """
        return _UNTRACED_ATTEMPT

    def tool(self, *, name: str, tool_call_id: str, description: str | None = None) -> ToolTrace:
        """A tool is about to be executed: `with trace.tool(...) as tool:`, in one task.

        Args:
            name: The tool.
            tool_call_id: The call.
            description: What the tool is for, as the agent was told.

        Returns:
            The execution.
        """
        return _UNTRACED_TOOL

    def end(
        self, *, outcome: str | None, error: BaseException | None, usage: Sequence[TokenUsage], events: int
    ) -> None:
        """The run is over. Idempotent.

        Args:
            outcome: "success", "interrupt", "cancelled" or "aborted"; None if it failed.
            error: What it failed with, of which only the class is kept; None if it did not fail.
            usage: Tokens per provider and model.
            events: How many events arrived.
        """


_UNTRACED_RUN, _UNTRACED_ATTEMPT, _UNTRACED_TOOL = RunTrace(), AttemptTrace(), ToolTrace()


def trace_run(
    *,
    thread_id: str,
    run_id: str,
    agent_id: str,
    agent_name: str | None = None,
    description: str = "",
    url: str | None = None,
    first: RunTrace | None = None,
) -> RunTrace:
    """A run begins, below the span that is current here.

    Args:
        thread_id: The conversation.
        run_id: The run.
        agent_id: The agent.
        agent_name: What the application calls the agent, for the name of the span; None if nobody named it: a
            generated id would give each agent a kind of span of its own.
        description: What the agent is for.
        url: Where the agent lives; None for one in this process.
        first: The run that this one goes on from, in whose span it nests; None for the first of a call.

    Returns:
        The run, to be ended; one that tells nothing if the application did not import OpenTelemetry.
    """
    if "opentelemetry.trace" not in sys.modules:
        return _UNTRACED_RUN
    from agui_client._pipeline.tracing.spans import start_run

    about = {
        "gen_ai.agent.id": agent_id if agent_name else None,
        "gen_ai.agent.name": agent_name,
        "gen_ai.agent.description": description or None,
        "gen_ai.conversation.id": thread_id,
        "agui.run.id": run_id,
    }
    return start_run({name: value for name, value in about.items() if value is not None}, url, first)
