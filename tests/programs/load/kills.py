"""The time from a SIGKILL of a server until the runs that it had are asked again, with and without a stored thread.

python -m load.kills [KILLS] [RUNS]   (in `tests/`) kills one of two servers while it has RUNS runs at each address.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from agui_client.store._sql.database import url_of
from support.durable_servers import Servers, page

_LEASE = 1.5
"""The lease of the servers."""
_PROMPT = "look pay look pay look pay"


async def main(kills: int, runs: int) -> None:
    """Kill servers, and print when the last run of each kind was asked again."""
    for path in ("", "stored/"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            servers = Servers(Path(folder), f"sqlite:///{folder}/runs.db", stack)
            seconds = [await _killed(servers, path, number, runs) for number in range(kills)]
            shown = ", ".join(f"{each:.2f}" for each in sorted(seconds))
            print(f"{path or 'plain'}: lease {_LEASE}, {runs} runs at once: asked again after {shown} s")


async def _killed(servers: Servers, path: str, number: int, runs: int) -> float:
    program, url = await servers.start()
    survivor, _ = await servers.start()
    engine = sa.create_engine(url_of(servers.url))
    killed_at, ids = 0.0, [f"{number}-{each}" for each in range(runs)]
    async with anyio.create_task_group() as tasks:

        async def ask(run_id: str) -> None:
            """Ask for a run, whose server is killed."""
            with suppress(Exception):
                await page(f"{url}{path}", run_id).run_agent(_PROMPT, run_id=run_id)

        for each in ids:
            tasks.start_soon(ask, each)
        while await _count(engine, ids, 1) < runs:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.02)
        program.kill()
        killed_at = time.perf_counter()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(60):
        while await _count(engine, ids, 2) < runs:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.02)
    seconds = time.perf_counter() - killed_at
    survivor.kill()
    engine.dispose()
    return seconds


async def _count(engine: sa.Engine, ids: list[str], attempt: int) -> int:
    """Return the number of runs whose agent has sent something in an attempt."""
    asked = sa.text(
        "select count(distinct run_id) from agui_runs r join agui_run_events e on e.row_id = r.row_id "
        "where run_id in :ids and e.attempt >= :attempt and e.event_count > 2"
    ).bindparams(sa.bindparam("ids", expanding=True))

    def count() -> int:
        """Look."""
        with suppress(OperationalError), engine.connect() as database:
            return int(database.execute(asked, {"ids": ids, "attempt": attempt}).scalar_one())
        return 0

    return await anyio.to_thread.run_sync(count)


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    asyncio.run(main(*(given or [3, 5])))
