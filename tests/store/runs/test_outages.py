"""Durable runs whose database goes away, whose process stands still, and servers with several workers.

They take seconds each: `AGUI_CLIENT_OUTAGES=1 python -m pytest tests/store/runs/test_outages.py`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
import sqlalchemy as sa
from ag_ui.core import ToolMessage

from agui_client import Approve, ConnectError, HttpAgent
from agui_client.reconnect import Connect
from agui_client.store._sql.database import url_of
from support.durable_servers import Servers, page, read_until, texts, told
from support.postgres import PostgresServer, postgres_server
from support.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.one_loop,
    pytest.mark.skipif("AGUI_CLIENT_OUTAGES" not in os.environ, reason="AGUI_CLIENT_OUTAGES is not set"),
]
_SECONDS = 60.0
_LONG_LEASE = 6.0
"""A lease that a process renews in time on a busy machine, too, once the database is back."""
_PROMPT = "pay look pay look"


class Stage:
    """Servers, and a way to take their database away."""

    def __init__(self, servers: Servers, postgres: PostgresServer | None) -> None:
        self.servers, self._postgres = servers, postgres

    @asynccontextmanager
    async def away(self) -> AsyncGenerator[None]:
        """Take the database away while the block lasts."""
        if self._postgres is not None:
            await anyio.to_thread.run_sync(self._postgres.stop)
            yield
            await anyio.to_thread.run_sync(self._postgres.start)
            return
        with sqlite3.connect(self.servers.url.removeprefix("sqlite:///"), isolation_level=None) as lock:
            lock.execute("PRAGMA busy_timeout=20000")
            lock.execute("BEGIN EXCLUSIVE")
            yield
            lock.execute("COMMIT")

    def stored(self) -> list[tuple[int, int, int]]:
        """The attempts, positions and sizes of the groups of events that are stored."""
        engine = sa.create_engine(url_of(self.servers.url))
        with engine.connect() as database:
            rows = database.execute(
                sa.text("select attempt, position, length(frames) from agui_run_events order by attempt, position")
            ).all()
        engine.dispose()
        return [(row[0], row[1], row[2]) for row in rows]


@pytest.fixture(params=["sqlite", "postgresql"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Stage]:
    with ExitStack() as stack:
        url, postgres = f"sqlite:///{tmp_path / 'runs.db'}", None
        if request.param == "postgresql":
            postgres = stack.enter_context(postgres_server())
            url = f"postgresql://{postgres.address}"
        yield Stage(Servers(tmp_path, url, stack), postgres)


def lasting(url: str, thread_id: str = "t") -> HttpAgent:
    """A caller that takes up streams that were cut."""
    return page(url, thread_id, Connect(attempts=200))


async def insist(agents: dict[str, HttpAgent], url: str, thread_id: str) -> None:
    """Ask for a run until a server answers: the same request follows the run if it has begun."""
    while True:
        try:
            await agents[thread_id].run_agent(_PROMPT, run_id="r")
        except ConnectError:
            agents[thread_id] = lasting(url, thread_id)
            await anyio.sleep(0.1)
        else:
            return


async def status_of_a_new_run(url: str) -> int:
    body = {"threadId": "other", "runId": "r", "messages": [{"id": "u", "role": "user", "content": ""}]}
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        return (await client.post(url, json=body)).status_code


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_run_goes_on_when_its_database_was_away(
    stage: Stage, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = stage.servers
    monkeypatch.setenv("AGUI_LEASE", f"{_LONG_LEASE}")
    _, url = await servers.start()
    for _ in range(workers - 1):
        await servers.start()
    agent, statuses = lasting(url), list[int]()
    # The run stands in its first call until the database is away, however late this program notices.
    servers.flag("hold", up=True)
    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await agent.run_agent(_PROMPT, run_id="r")

            async def ask_meanwhile() -> None:
                statuses.append(await status_of_a_new_run(url))

            tasks.start_soon(run)
            await until(lambda: servers.calls == ["pay-0"], _SECONDS)
            async with stage.away():
                servers.flag("hold", up=False)
                tasks.start_soon(ask_meanwhile)
                await anyio.sleep(1.5 * _LONG_LEASE)
                assert statuses == []
    assert statuses == [200]
    assert texts(agent.messages) == told(5)
    results = [str(each.content) for each in agent.messages if isinstance(each, ToolMessage)]
    # None of the workers has taken the run over, though the leases of all of them had passed.
    assert [each.partition(" ")[0] for each in results] == ["pay", "look", "pay", "look"]
    assert {attempt for attempt, _, _ in stage.stored()} == {1}
    again = page(url)
    await again.connect_agent()
    assert texts(again.messages) == told(5)


_LEASE = 1.5
"""The lease of the servers."""


async def test_a_process_that_stood_still_for_less_than_its_lease_loses_nothing(stage: Stage) -> None:
    servers = stage.servers
    program, url = await servers.start()
    await servers.start()
    agent = lasting(url)
    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await agent.run_agent(_PROMPT, run_id="r")

            tasks.start_soon(run)
            for number in range(3):
                await until(lambda seen=number: len(servers.calls) > seen, _SECONDS)  # type: ignore[misc]
                program.send_signal(signal.SIGSTOP)
                await anyio.sleep(_LEASE / 2)
                program.send_signal(signal.SIGCONT)
    assert texts(agent.messages) == told(5)
    assert {attempt for attempt, _, _ in stage.stored()} == {1}


@pytest.mark.parametrize("at", ["a text", "a call"])
async def test_a_process_that_stood_still_longer_than_its_lease_writes_and_calls_nothing_more(
    stage: Stage, at: str
) -> None:
    servers = stage.servers
    old, old_url = await servers.start()
    _, url = await servers.start()
    if at == "a call":
        servers.flag("hold", up=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(old_url), _PROMPT, lambda: False)
        await until(lambda: bool(servers.calls if at == "a call" else servers.pids and stage.stored()), _SECONDS)
        old.send_signal(signal.SIGSTOP)
        tasks.cancel_scope.cancel()
    if at == "a call":
        servers.flag("hold", up=False)
    follower = lasting(url)
    with anyio.fail_after(_SECONDS):
        await follower.run_agent(_PROMPT, run_id="r")
    stored, calls = stage.stored(), servers.calls
    old.send_signal(signal.SIGCONT)
    returned = lasting(old_url)
    with anyio.fail_after(_SECONDS):
        await returned.run_agent(_PROMPT, run_id="r")
        # The old process has noticed that the run is not its own when it answers, and has had time to write.
        await anyio.sleep(1.0)
    assert (stage.stored(), servers.calls) == (stored, calls)
    assert texts(follower.messages) == texts(returned.messages) == told(5)
    assert all(calls.count(f"pay-{each}") <= 1 for each in range(4))
    assert {attempt for attempt, _, _ in stored} == {1, 2}


@pytest.mark.parametrize("kind", ["spawned", "forked"])
async def test_each_worker_of_a_server_carries_out_runs_and_takes_those_of_another_one_over(
    stage: Stage, kind: str
) -> None:
    servers = stage.servers
    server, url = await servers.start_many(kind)
    pids = servers.folder / "pids"
    agents: dict[str, HttpAgent] = {}
    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            while len(set(pids.read_text().split() if pids.exists() else [])) < 2:
                thread_id = f"t{len(agents)}"
                agents[thread_id] = lasting(url, thread_id)
                tasks.start_soon(insist, agents, url, thread_id)
                await anyio.sleep(0.1)
            os.kill(int(pids.read_text().split()[0]), signal.SIGKILL)
    assert server.poll() is None
    assert [texts(each.messages) for each in agents.values()] == [told(5)] * len(agents)


async def test_a_team_goes_on_behind_its_finished_members_and_asks_a_person(stage: Stage) -> None:
    servers = stage.servers
    program, url = await servers.start()
    await read_until(page(f"{url}team/"), "pay book", lambda: {"t:a.", "t:b", "t:c"} <= {*servers.members})
    program.kill()
    program, url = await servers.start()
    agent = page(f"{url}team/")
    with anyio.fail_after(_SECONDS):
        result = await agent.run_agent("pay book", run_id="r")
    assert servers.members.count("t:a") == servers.members.count("t:b.") == servers.members.count("t:c.") == 1
    assert sorted(servers.calls) == ["pay-0"]
    [asked] = result.interrupts
    program.kill()
    await anyio.to_thread.run_sync(program.wait)
    await servers.start(int(url.rpartition(":")[2].strip("/")))
    with anyio.fail_after(_SECONDS):
        await agent.run_agent(resume={asked.id: Approve()})
    assert sorted(servers.calls) == ["book-1", "pay-0"]
    spoken = [str(each.content) for each in agent.messages if each.role == "assistant"]
    by_members = sorted(each for each in spoken if not each[0].isdecimal())
    assert by_members == ["".join(f"{name}.{number} " for number in range(6)) for name in "abc"]
    assert "".join(each for each in spoken if each[0].isdecimal()) == told(3)


async def test_a_tool_of_the_caller_is_called_once_when_the_server_is_killed_meanwhile(stage: Stage) -> None:
    servers = stage.servers
    program, url = await servers.start()
    programs, asked = [program], list[str]()

    async def ask(question: str = "") -> str:
        """Ask the person in front of the screen."""
        asked.append(question)
        programs[-1].kill()
        await anyio.to_thread.run_sync(programs[-1].wait)
        programs.append((await servers.start(int(url.rpartition(":")[2].strip("/"))))[0])
        return "blue"

    agent = lasting(url)
    agent.tool(ask)
    with anyio.fail_after(_SECONDS):
        await agent.run_agent("pay ask look", run_id="r")
    again = page(url)
    with anyio.fail_after(_SECONDS):
        await again.connect_agent()
    assert (asked, servers.calls) == ([""], ["pay-0", "look-2"])
    assert texts(agent.messages) == texts(again.messages) == told(4)
