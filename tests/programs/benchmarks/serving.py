"""Serving: `agent_app` against a bare Starlette response under the same server, and a thousand runs at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx

from programs.benchmarks.concurrency import allow_many_files
from programs.benchmarks.loopback import loopback_server
from programs.benchmarks.measure import Row, per_event
from programs.benchmarks.served import DELTAS

_RUNS = 1000
_INPUT = json.dumps({"threadId": "t", "runId": "r", "messages": []}).encode()
_ROUNDS = 5


def served_events(repeat: int) -> list[Row]:
    """Serve runs of text, in bursts and one event at a time; the CPU time is the server's."""
    with loopback_server("programs.benchmarks.served") as url, httpx.Client(trust_env=False) as client:

        def cost(place: str) -> float:
            """Return the CPU seconds of one run."""
            before = client.get(f"{url}costs").json()["cpu"]
            body = client.post(f"{url}{place}", content=_INPUT, headers={"content-type": "application/json"}).content
            assert body.count(b'"TEXT_MESSAGE_CONTENT"') == DELTAS
            return float(client.get(f"{url}costs").json()["cpu"]) - float(before)

        return [_row(kind, repeat, cost) for kind in ("burst", "single")]


def _row(kind: str, repeat: int, cost: Callable[[str], float]) -> Row:
    ours = reference = float("inf")
    for _ in range(repeat * _ROUNDS):
        ours, reference = min(ours, cost(f"served/{kind}/")), min(reference, cost(f"bare/{kind}"))
    work = "agent_app, " + ("events in bursts" if kind == "burst" else "one event at a time")
    absolute = per_event(ours, reference, DELTAS)
    return Row(work, ours / reference, 1.35, "Starlette with EventEncoder", absolute)


def many_served_runs(repeat: int) -> list[Row]:
    """Serve 1 000 runs at once: memory per run, with what a bare response needs beside it."""
    allow_many_files()
    (ours, errors), (bare, bare_errors) = (asyncio.run(_held(place)) for place in ("served/held/", "bare/held"))
    absolute = f"{ours / _RUNS / 1024:.0f} / {bare / _RUNS / 1024:.0f} KiB per run"
    return [Row(f"{_RUNS} served runs at once, memory", ours / bare, 4, "Starlette", absolute, errors + bare_errors)]


async def _held(place: str) -> tuple[float, int]:
    """Hold a thousand runs open in a new server; return the memory that they took, and the number of errors."""
    with loopback_server("programs.benchmarks.served") as url:
        async with httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=None), timeout=60) as client:
            begun, all_begun = [0], asyncio.Event()

            async def read() -> bool:
                """Read one run to its end; return whether all of it came."""
                body = b""
                fields = {"content-type": "application/json"}
                async with client.stream("POST", f"{url}{place}", content=_INPUT, headers=fields) as response:
                    async for chunk in response.aiter_raw():
                        if b"TEXT_MESSAGE_START" in chunk:
                            begun[0] += 1
                            if begun[0] == _RUNS:
                                all_begun.set()
                        body += chunk
                return body.count(b"data: ") == 5

            before = (await client.get(f"{url}costs")).json()["memory"]
            runs = [asyncio.create_task(read()) for _ in range(_RUNS)]
            await asyncio.wait_for(all_begun.wait(), 60)
            after = (await client.get(f"{url}costs")).json()["memory"]
            await client.get(f"{url}release")
            ends = await asyncio.gather(*runs, return_exceptions=True)
        return float(after - before), sum(end is not True for end in ends)
