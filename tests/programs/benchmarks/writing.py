"""Runs whose events are written again, to a response and to a recording, held against runs that are only read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from agui_client.recording import record
from programs.benchmarks.measure import Row, Work, best_times, per_event
from programs.benchmarks.streams import DELTAS
from programs.benchmarks.wire import RUN_ID, Stream, iterate, text


def responses(repeat: int) -> list[Row]:
    """The body of an SSE response, made of a run."""
    stream = Stream(text(DELTAS))

    async def body() -> int:
        """Return the number of frames."""
        return sum([chunk.count(b"data: ") async for chunk in stream.agent().stream(run_id=RUN_ID).sse()])

    served: Work = lambda: stream.expect(asyncio.run(body()))  # noqa: E731
    ours, plain = best_times(repeat, served, stream.iterated())
    return [Row("run.sse(), 20 k text deltas", ours / plain, 1.8, "iterating", per_event(ours, plain, DELTAS))]


def recordings(repeat: int) -> list[Row]:
    """A recording in a file, whose every line is written before the next event is read."""
    stream = Stream(text(DELTAS))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.jsonl"

        def recorded() -> None:
            """Record into an empty file, and count its lines."""
            file.unlink(missing_ok=True)
            agent = stream.agent().use(record(file))
            stream.expect(asyncio.run(iterate(agent)))

        ours, plain = best_times(repeat, recorded, stream.iterated())
        events = file.read_bytes().count(b'{"kind":"event"')
    absolute, errors = per_event(ours, plain, DELTAS), int(events != stream.event_count)
    return [Row("recording 20 k text deltas", ours / plain, 4, "iterating", absolute, errors)]
