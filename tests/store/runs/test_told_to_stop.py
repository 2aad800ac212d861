"""Servers that are told to stop (SIGTERM) under load: what was begun ends, is saved, and is not begun again.

`AGUI_CLIENT_KILLS=100 pytest -n 0 -s -o faulthandler_timeout=0 tests/store/runs/test_told_to_stop.py` stops a hundred.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from agui_client import AGUIError, Approve, HttpAgent
from agui_client._core.protocol.placeholders import NO_RESULT
from support.durable_servers import Servers, page
from support.programs import Program

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 60.0
_KINDS = ("plain", "kept", "durable", "stored", "team")
_PAYMENTS = 5
_PROGRAM = Path(__file__).parents[2] / "support" / "stopped_server.py"


class Talks:
    """Callers that have threads of each kind paid, whichever servers stop meanwhile."""

    def __init__(self, workers: list[tuple[Program, str]]) -> None:
        self._workers, self._chance = workers, random.Random(5)
        self.is_over = False
        """Whether no further threads begin."""
        self.results: dict[str, list[str]] = {}
        """The results of the payments of each thread."""

    async def go_on(self, kind: str) -> None:
        """Have one thread after the other paid."""
        number = 0
        while not self.is_over or not number:
            thread_id, number = f"{kind}{number}", number + 1
            with anyio.fail_after(_SECONDS):
                caller = self._page(kind, thread_id)
                while (results := self._results_of(caller)) is None:
                    caller = await self._attempt(kind, caller)
            self.results[thread_id] = results

    def _page(self, kind: str, thread_id: str) -> HttpAgent:
        return page(f"{self._chance.choice(self._workers)[1]}{kind}/", thread_id)

    def _results_of(self, caller: HttpAgent) -> list[str] | None:
        """Return the results of a thread; None as long as its agent has not said its last word."""
        results = [str(each.content) for each in caller.messages if each.role == "tool"]
        is_over = len(results) == _PAYMENTS and caller.messages[-1].role == "assistant"
        return results if is_over else None

    async def _attempt(self, kind: str, before: HttpAgent) -> HttpAgent:
        """Go on with a thread until its server stops, or all is paid; return the caller."""
        caller = self._page(kind, before.thread_id)
        with suppress(AGUIError):
            if kind == "plain":
                caller.restore(before.snapshot())
                await caller.run_agent(None if caller.messages else caller.thread_id)
            elif kind == "kept":
                # A call that the server had not begun, in a run of its agent that was cut, waits for approval.
                asked = (await caller.connect_agent()).interrupts
                prompt = None if caller.messages else caller.thread_id
                await caller.run_agent(prompt, resume={each.id: Approve() for each in asked})
            else:
                # The same request follows the run, wherever it goes on.
                await caller.run_agent(caller.thread_id, run_id="r")
        await anyio.sleep(0.02)
        return caller


async def test_servers_that_are_told_to_stop_lose_no_payment_and_make_none_twice(
    shared_url: str, tmp_path: Path
) -> None:
    stops, chance = int(os.environ.get("AGUI_CLIENT_KILLS", "2")), random.Random(11)
    with ExitStack() as stack:
        servers = Servers(tmp_path, shared_url, stack, _PROGRAM)
        workers = [await servers.start(), await servers.start()]
        talks = Talks(workers)
        async with anyio.create_task_group() as tasks:
            for kind in _KINDS:
                tasks.start_soon(talks.go_on, kind)
            for _ in range(stops):
                await anyio.sleep(chance.uniform(0.1, 1.0))
                workers.append(await servers.start())
                program, _ = workers.pop(chance.randrange(2))
                program.send_signal(signal.SIGTERM)
                assert await anyio.to_thread.run_sync(program.wait, _SECONDS) in (0, -signal.SIGTERM)
            talks.is_over = True
    calls, lost = Counter(servers.calls), dict[str, list[str]]()
    for thread_id, results in talks.results.items():
        keys = [f"{thread_id}-{number}" for number in range(_PAYMENTS)]
        # Where nothing is stored, a call that was not begun is not made later.
        made = [each for each in keys if not thread_id.startswith("plain") or calls[f"begun:{each}"]]
        if [each for each in results if each != NO_RESULT] != [f"paid {each}" for each in made]:
            lost[thread_id] = results
    print(f"{stops} servers stopped, {len(talks.results)} threads, {len(calls) // 2} payments; lost: {lost}")  # noqa: T201
    assert lost == {}
    begun, done = ({each[len(word) :] for each in calls if each.startswith(word)} for word in ("begun:", "done:"))
    assert begun == done
    assert set(calls.values()) == {1}
