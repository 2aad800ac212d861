"""What the client costs, as a table of ratios: `python tests/programs/benchmarks/run.py --only text --repeat 9`.

Ratios are of CPU time unless they say otherwise; the absolute costs stand beside them, ours first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from programs.benchmarks import (
    batches,
    beginnings,
    concurrency,
    durable_runs,
    growing,
    imports,
    inspecting,
    kept_threads,
    memory,
    serving,
    showing,
    single_events,
    stages,
    state,
    streams,
    surfaces,
    teams,
    turns,
    writing,
)
from programs.benchmarks.measure import Row

BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {
    "text": streams.text_deltas,
    "result": streams.awaiting_results,
    "beginning": beginnings.short_runs,
    "turns": turns.calls_of_turns,
    "extensions": streams.extensions,
    "observed": streams.observed,
    "raw": streams.raw_events,
    "length": streams.message_length,
    "looking": streams.looking,
    "growing": growing.looked_at,
    "show": showing.shown_runs,
    "state": state.large_state,
    "differences": state.differences,
    "arguments": streams.arguments,
    "chunks": streams.chunks,
    "preparing": stages.preparing,
    "snapshot": stages.snapshot,
    "lists": stages.flat_lists,
    "growth": stages.growth,
    "warnings": stages.looking_at_warnings,
    "sync": surfaces.plain_iteration,
    "sync-socket": single_events.plain_reads,
    "rx": surfaces.observing,
    "memory": memory.passing_events,
    "fast": single_events.fast_reads,
    "concurrency": concurrency.many_runs,
    "sse": writing.responses,
    "recording": writing.recordings,
    "serving": serving.served_events,
    "served": serving.many_served_runs,
    "batch": batches.many_rows,
    "threads": kept_threads.threads_kept,
    "durable": durable_runs.durable_runs,
    "stored": kept_threads.stored_turns,
    "teams": teams.members_side_by_side,
    "rounds": teams.many_rounds,
    "history": teams.long_history,
    "import": imports.importing,
    "inspector": inspecting.long_recordings,
    "inspector-calls": inspecting.many_calls,
}

_LAYOUT = "{:<54}{:<52}{:<46}{}"


def main() -> int:
    """Measure and print; 1 if a goal was missed."""
    options = _options()
    print(_LAYOUT.format("work", "measured", "goal", "verdict"))
    rows = [row for name in options.only or BENCHMARKS for row in _measured(name, options.repeat)]
    return int(any(row.verdict != "ok" for row in rows))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the client costs, as ratios.")
    parser.add_argument("--only", metavar="NAME", action="append", choices=BENCHMARKS, help="; ".join(BENCHMARKS))
    parser.add_argument("--repeat", metavar="N", type=int, default=5, help="the best of N counts (5)")
    return parser.parse_args()


def _measured(name: str, repeat: int) -> list[Row]:
    rows = BENCHMARKS[name](repeat)
    for row in rows:
        measured = f"{row.ratio:.3g} x  ({row.absolute})" + (f", {row.errors} ERRORS" if row.errors else "")
        print(_LAYOUT.format(row.work, measured, f"<= {row.limit:g} x {row.reference}", row.verdict), flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
