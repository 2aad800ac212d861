"""The course of one call: what its rounds have in common, and what adds up over them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ag_ui.core import aggregate_token_usage

if TYPE_CHECKING:
    from ag_ui.core import Message, ResumeEntry, TokenUsage

    from agui_client._pipeline.settle import Settlement
    from agui_client._pipeline.tracing import RunTrace
    from agui_client._pipeline.transport import Attempt, HttpSource
    from agui_client.result import ToolExecution


class Course:
    """What happened since the call began.

    Args:
        messages: The conversation before it.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self.started_at = time.perf_counter()
        """`time.perf_counter()` when the call was made."""
        self.known_ids = frozenset(message.id for message in messages)
        """The messages that were there before."""
        self.revision = 0
        """Counts the changes to messages and state that came neither from events nor from tool results."""
        self.settlements: list[Settlement] = []
        """What each round came to, the present one last."""
        self.posts: list[HttpSource] = []
        """What was posted, in order; none for agents in this process."""
        self.kept_answers: set[str] = set()
        """The interrupts that were answered while others still wait for the caller."""
        self.answers: list[ResumeEntry] = []
        """What people answered since the present round was over, while tools are still at work."""
        self.trace: RunTrace | None = None
        """The span of the first run."""
        self.executions: dict[str, ToolExecution] = {}
        """The tools that were run here, by the id of the call."""

    @property
    def has_started(self) -> bool:
        """Whether any run of it began."""
        return any(settled.started is not None for settled in self.settlements)

    def tool_call_ids(self) -> list[str]:
        """The tool calls it made, in the order they were begun."""
        made = [tool_call_id for settled in self.settlements for tool_call_id in settled.tool_call_ids]
        return list(dict.fromkeys(made))

    def has_begun(self, tool_call_id: str) -> bool:
        """Whether a tool call was made."""
        return any(tool_call_id in settled.tool_call_ids for settled in self.settlements)

    def has_ended(self, tool_call_id: str) -> bool:
        """Whether a tool call is complete."""
        return any(tool_call_id in settled.ended_tool_call_ids for settled in self.settlements)

    @property
    def attempts(self) -> list[Attempt]:
        """Every POST, in order."""
        return [attempt for post in self.posts for attempt in post.attempts]

    @property
    def connect_seconds(self) -> float | None:
        """Until the first response's headers were there; None for agents in this process."""
        return next((post.connect_seconds for post in self.posts), None)

    @property
    def usage(self) -> list[TokenUsage]:
        """Tokens per provider and model, over all rounds."""
        return aggregate_token_usage([usage for settled in self.settlements for usage in settled.usage])

    @property
    def first_event_at(self) -> float | None:
        """`time.perf_counter()` of the first event."""
        return _first(settled.first_event_at for settled in self.settlements)

    @property
    def first_text_at(self) -> float | None:
        """`time.perf_counter()` of the first text delta."""
        return _first(settled.first_text_at for settled in self.settlements)


def _first(moments: Iterator[float | None]) -> float | None:
    return next((moment for moment in moments if moment is not None), None)
