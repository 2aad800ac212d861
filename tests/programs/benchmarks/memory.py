"""Memory while a long stream passes, in an interpreter of its own: what is not kept must not stay."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain

import psutil

from agui_client import HttpAgent
from programs.benchmarks.measure import Row, child_environment
from programs.benchmarks.wire import CHUNK_BYTES, RUN_ID, THREAD_ID, URL, client_of, finished, frame, started

_EVENTS = 1_000_000
_LOOK_EVERY = _EVENTS // 10
_FLAT = 1.05  # A pointer kept for each event is more.


def passing_events(repeat: int) -> list[Row]:
    """RAW events, which leave nothing behind."""
    del repeat
    command = [sys.executable, "-m", "programs.benchmarks.memory"]
    output = subprocess.run(command, env=child_environment(), check=True, capture_output=True, text=True).stdout
    early, *later = (size / 1e6 for size in json.loads(output))
    absolute = f"{max(later):.1f} / {early:.1f} MB resident"
    return [Row("memory while 1 M RAW events pass", max(later) / early, _FLAT, "after a tenth", absolute)]


async def resident_sizes() -> list[int]:
    """The resident bytes of this process after each tenth of the stream."""
    process = psutil.Process()
    sizes: list[int] = []
    agent = HttpAgent(URL, thread_id=THREAD_ID, http_client=client_of(_pieces()))
    async with agent.stream(run_id=RUN_ID) as run:
        count = 0
        async for _ in run:
            count += 1
            if count % _LOOK_EVERY == 0:
                sizes.append(process.memory_info().rss)
    return sizes


def _pieces() -> Iterator[bytes]:
    piece = b""
    for event in chain([started()], map(_raw, range(_EVENTS)), [finished()]):
        piece += event
        if len(piece) >= CHUNK_BYTES:
            yield piece
            piece = b""
    yield piece


def _raw(index: int) -> bytes:
    return frame("RAW", event={"index": index, "node": "chat_node", "chunk": {"content": f"hello {index}"}})


if __name__ == "__main__":
    print(json.dumps(asyncio.run(resident_sizes())))
