"""How long turns wait while their servers are killed: each turn that waits longer than the lease and 5 s is told.

python -m load.turns [SECONDS] [CALLERS] [sqlite | postgresql]   (in `tests/`) has callers begin one turn after the
other at two servers, in stored threads with and without durable runs, and kills one of the servers every few seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from agui_client import AGUIError, Approve
from agui_client.store._sql.database import url_of
from agui_client.types import RunOptions
from support.durable_servers import Servers, page
from support.postgres import postgres_server
from support.programs import Program

_LEASE = 1.5
"""The lease of the servers."""
_MOST = _LEASE + 5.0
"""The longest wait that needs no explanation."""
_PROMPT = "look pay"
_BETWEEN_KILLS = 2.0


@dataclass
class Turn:
    """A turn, and what its caller saw of it."""

    name: str
    """The thread."""
    seen_at: float
    """The moment of the last event, or of the beginning."""
    longest: float = 0.0
    """The longest time between two events."""
    is_over: bool = False
    """Whether it came to its end."""
    story: list[str] = field(default_factory=list[str])
    """The attempts of the caller."""

    def see(self) -> None:
        """Note that an event has come."""
        now = time.monotonic()
        self.longest, self.seen_at = max(self.longest, now - self.seen_at), now

    def tell(self, what: str) -> None:
        """Note what the caller tried, or got."""
        self.story.append(f"{time.monotonic():.2f} {what}")


class Load:
    """Callers and the servers that are killed."""

    def __init__(self, servers: Servers, workers: list[tuple[Program, str]]) -> None:
        self._servers, self._workers, self._chance = servers, workers, random.Random(3)
        self.is_over = False
        """Whether no further turns begin."""
        self.turns: list[Turn] = []
        """The turns that have begun."""
        self.kills: list[str] = []
        """The moments of the kills."""

    async def kill(self, seconds: float) -> None:
        """Kill one server after the other, and start another one in its place."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await anyio.sleep(self._chance.uniform(0.5, 1.5) * _BETWEEN_KILLS)
            program, url = self._workers.pop(self._chance.randrange(2))
            program.kill()
            self.kills.append(f"{time.monotonic():.2f} {url} killed")
            self._workers.append(await self._servers.start())
            self.kills.append(f"{time.monotonic():.2f} {self._workers[-1][1]} started")
        self.is_over = True

    async def call(self, number: int) -> None:
        """Take one turn after the other, each in a thread of its own."""
        path, count = ("stored/", "threads/")[number % 2], 0
        while not self.is_over:
            count += 1
            turn = Turn(f"{path[:-1]}-{number}-{count}", time.monotonic())
            self.turns.append(turn)
            while not await self._attempt(turn, path):  # noqa: ASYNC110 - the servers are other processes
                await anyio.sleep(0.05)

    async def _attempt(self, turn: Turn, path: str) -> bool:
        """Ask for the turn at one of the servers; return whether it came to its end."""
        url = self._chance.choice(self._workers)[1]
        caller = page(f"{url}{path}", turn.name)
        # A durable run is followed by the same request; without one, the turn is gone on with, and what waits approved.
        options: RunOptions = {"run_id": "r"}
        try:
            if path == "threads/":
                asked = (await caller.connect_agent()).interrupts
                options = {"resume": {each.id: Approve() for each in asked}} if asked else {}
            async with caller.stream(None if caller.messages else _PROMPT, **options) as run:
                async for _ in run:
                    turn.see()
        except AGUIError as error:
            turn.tell(f"{url} {type(error).__name__}: {error}"[:200])
            return False
        turn.is_over = True
        return True

    def report(self) -> None:
        """Print how long turns waited, and the story of each that waited too long."""
        for each in self.turns:
            if not each.is_over:
                each.see()
        waits = sorted(each.longest for each in self.turns)
        p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        beyond = [each for each in self.turns if each.longest > _MOST]
        kills = len(self.kills) // 2
        print(f"{len(waits)} turns, {kills} kills: longest wait of a turn {p50:.2f} s (p50), {p99:.2f} (p99), ", end="")
        print(f"{waits[-1]:.2f} at most; {len(beyond)} beyond {_MOST:g} s; load {os.getloadavg()[0]:.1f}")
        for each in beyond:
            print(
                f"{each.name}: {each.longest:.2f} s until {each.seen_at:.2f}",
                *each.story[-40:],
                *self.kills,
                sep="\n  ",
            )
            self._show_rows(each.name)

    def _show_rows(self, thread_id: str) -> None:
        engine = sa.create_engine(url_of(self._servers.url))
        with engine.connect() as database:
            for table in ("agui_runs", "agui_thread"):
                with suppress(SQLAlchemyError):
                    rows = database.execute(
                        sa.text(f"select * from {table} where thread_id = :id"), {"id": thread_id}
                    ).mappings()
                    print(table, *map(dict, rows))
        engine.dispose()


async def main(seconds: float, callers: int, url: str, folder: Path) -> None:
    """Have turns taken while servers are killed."""
    with ExitStack() as stack:
        servers = Servers(folder, url, stack)
        load = Load(servers, [await servers.start(), await servers.start()])
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(load.kill, seconds)
                with anyio.move_on_after(seconds + 60):
                    async with anyio.create_task_group() as calling:
                        for number in range(callers):
                            calling.start_soon(load.call, number)
        finally:
            load.report()


if __name__ == "__main__":
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        url = f"sqlite:///{made}/runs.db"
        if "postgresql" in given:
            url = f"postgresql://{stack.enter_context(postgres_server()).address}"
        numbers = [float(each) for each in given if each.isdecimal()] or [60.0, 8.0]
        asyncio.run(main(numbers[0], int(numbers[-1]), url, Path(made)))
