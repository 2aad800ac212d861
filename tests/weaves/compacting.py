"""What a stream loses when it is compacted: nothing, or it is said here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ag_ui.core import Event, RunAgentInput

from agui_client import AGUIError, FunctionAgent, RunResult
from agui_client._protocol.decode import Decoder
from agui_client._protocol.warnings import WarningLog
from agui_client.recording import compact
from weaves.checks import exact
from weaves.stages import as_json, judged

if TYPE_CHECKING:
    from agui_client._protocol.events import WireEvent


@dataclass(frozen=True)
class Compacted:
    """A stream that was compacted."""

    compacted: list[Event]
    findings: list[str]
    """What is wrong with it, in words."""


def lost_in_compaction(frames: Sequence[str]) -> Compacted:
    """Compact a stream, and hold it against itself."""
    decode = Decoder(WarningLog()).feed
    events = [decode(frame) for frame in frames]
    short = compact(events)
    wrong: list[str] = []
    before, now = came_to(events), came_to(short)
    wrong += [f"{name} is {now[name]}, and was {before[name]}" for name in before if now[name] != before[name]]
    if compact(short) != short:
        wrong.append("compacting twice is not compacting once")
    snapshots = [event.type.value for event in short].count("STATE_SNAPSHOT")
    delivered = len(judged(frames).delivered)
    if snapshots > 1 or len(short) > delivered + 1:
        wrong.append(f"{delivered} events became {len(short)}, {snapshots} of them states")
    return Compacted(short, wrong)


def came_to(events: Sequence[WireEvent], **options: Any) -> dict[str, Any]:
    """What a caller gets of a run with these events."""

    async def tell(run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        for event in events:
            yield event

    agent = FunctionAgent(tell, thread_id="thread-1", **options)
    error: AGUIError | None = None
    result: RunResult | None = None
    try:
        result = asyncio.run(agent.run_agent(run_id="run-1"))
    except AGUIError as raised:
        error, result = raised, raised.partial
    assert result is not None
    return {
        "error": None if error is None else (type(error).__name__, str(error.__cause__ or "")),
        "messages": exact([as_json(message) for message in agent.messages]),
        "state": exact(agent.state),
        "text": result.text,
        "outcome": (result.outcome, result.result, result.interrupts, result.usage),
        "pending": result.pending_tool_calls,
        "incomplete": set(result.incomplete_ids),
    }
