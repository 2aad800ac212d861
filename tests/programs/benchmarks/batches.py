"""A batch of many rows over real sockets, held against the loop that everybody writes without it."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from agui_client import HttpAgent
from agui_client.batch import run_many
from programs.benchmarks.loopback import HEAD, chunked, listen, loopback_server
from programs.benchmarks.measure import Row, cpu_seconds
from programs.benchmarks.wire import frame, text

_ROWS = 2000
_AT_ONCE = 20
_DELTAS = 50


def many_rows(repeat: int) -> list[Row]:
    """2 000 rows at 20 at once with a journal, against a loop of `run_agent` on clones and a semaphore."""
    prompts = [f"prompt {number}" for number in range(_ROWS)]
    best, plain, answered = float("inf"), float("inf"), list[int]()
    with loopback_server("programs.benchmarks.batches") as url, TemporaryDirectory() as folder:
        for number in range(min(repeat, 3)):
            journal = Path(folder) / f"{number}.jsonl"
            plain = min(plain, cpu_seconds(partial(_loop, url, prompts, answered)))
            best = min(best, cpu_seconds(partial(_batch, url, prompts, journal, answered)))
    errors = sum(_ROWS - count for count in answered)
    absolute = f"{best / _ROWS * 1e3:.2f} / {plain / _ROWS * 1e3:.2f} ms a row"
    return [
        Row(f"{_ROWS} rows, {_AT_ONCE} at once, with a journal", best / plain, 1.3, "a plain loop", absolute, errors)
    ]


def _batch(url: str, prompts: list[str], journal: Path, answered: list[int]) -> None:
    async def run() -> int:
        batch = run_many(HttpAgent(url), prompts, at_once=_AT_ONCE, journal=journal)
        return sum([bool(done.text) async for done in batch])

    answered.append(asyncio.run(run()))


def _loop(url: str, prompts: list[str], answered: list[int]) -> None:
    async def run() -> int:
        room = asyncio.Semaphore(_AT_ONCE)
        async with HttpAgent(url) as agent:

            async def ask(prompt: str) -> bool:
                async with room:
                    return bool((await agent.clone(thread_id=str(uuid4())).run_agent(prompt)).text)

            return sum(await asyncio.gather(*map(ask, prompts)))

    answered.append(asyncio.run(run()))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a run under its own ids, so that no warning costs anything."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    asked = json.loads(await reader.readexactly(length))
    ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
    frames = [frame("RUN_STARTED", **ids), *text(_DELTAS), frame("RUN_FINISHED", **ids)]
    writer.write(b"".join([HEAD, *chunked(frames), b"0\r\n\r\n"]))
    await writer.drain()


if __name__ == "__main__":
    asyncio.run(listen(_answer))
