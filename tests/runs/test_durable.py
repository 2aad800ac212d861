"""Runs that outlive their process: servers are killed, and others go on with their runs."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from ag_ui.core import TextMessageContentEvent, ToolMessage

from agui_client import HttpAgent, UsageError
from agui_client.runs import Runs
from support.postgres import postgres_server
from support.programs import Program
from support.waiting import until

if TYPE_CHECKING:
    from ag_ui.core import Message

pytest.importorskip("dbos")

_PROGRAM = str(Path(__file__).parents[1] / "support" / "durable_server.py")
_SECONDS = 30.0
_PIECES = 6


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


pytestmark = pytest.mark.anyio


class Servers:
    """Servers on one database, and the folder that their tools write to."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self.folder, self.url, self._stack = folder, url, stack

    async def start(self) -> tuple[Program, str]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        # The output of a server would fill its pipe if nobody read it.
        program = self._stack.enter_context(
            Program(_PROGRAM, self.url, str(self.folder), str(port), stdout=_ERRORS, stderr=_ERRORS)
        )
        url = f"http://127.0.0.1:{port}/"
        async with httpx.AsyncClient() as client:
            with anyio.fail_after(_SECONDS):
                while True:
                    try:
                        await client.get(url)
                    except httpx.TransportError:
                        await anyio.sleep(0.02)
                    else:
                        return program, url

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().split() if file.exists() else []

    def flag(self, name: str, *, up: bool) -> None:
        (self.folder / name).touch() if up else (self.folder / name).unlink()


_ERRORS = 2


def page(url: str, thread_id: str = "t") -> HttpAgent:
    return HttpAgent(url, thread_id=thread_id, connect_url=f"{url}connect")


@pytest.fixture(params=["sqlite", *(["postgresql"] if os.environ.get("AGUI_CLIENT_KILLS") else [])])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Servers]:
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'runs.db'}"
        if request.param == "postgresql":
            url = f"postgresql://{stack.enter_context(postgres_server()).address}"
        yield Servers(tmp_path, url, stack)


async def read_until(agent: HttpAgent, prompt: str, is_enough: Callable[[], bool]) -> None:
    """Read a run until something holds, and leave it."""
    async with agent.stream(prompt, run_id="r") as run:
        async for _ in run:
            if is_enough():
                return


def texts(messages: list[Message]) -> str:
    return "".join(str(each.content) for each in messages if each.role == "assistant")


def told(rounds: int) -> str:
    return "".join(f"{each}.{number} " for each in range(rounds) for number in range(_PIECES))


def test_a_url_that_cannot_be_used_is_refused_without_its_password() -> None:
    for url in ("mysql://ann:hunter2@host/runs", "sqlite://", "runs.db hunter2"):
        with pytest.raises(UsageError, match="Runs takes the URL of a database") as refused:
            Runs(url)
        assert "hunter2" not in str(refused.value)


async def test_a_run_goes_on_after_a_restart_and_a_begun_call_is_unknown_unless_idempotent(servers: Servers) -> None:
    program, url = await servers.start()
    servers.flag("hold", up=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(url), "pay+look", lambda: False)
        await until(lambda: sorted(servers.calls) == ["look-0", "pay-0"], _SECONDS)
        tasks.cancel_scope.cancel()
    program.kill()
    servers.flag("hold", up=False)
    _, url = await servers.start()
    with anyio.fail_after(_SECONDS):
        again = page(url)
        await again.connect_agent()
        # The same request follows the run: what was cut is not in it.
        async with page(url).stream("pay+look", run_id="r") as run:
            pieces = [event.delta async for event in run if isinstance(event, TextMessageContentEvent)]
    results = {each.tool_call_id: each.content for each in again.messages if isinstance(each, ToolMessage)}
    assert results.pop("look-0") == "look done"
    assert list(results) == ["pay-0"]
    assert str(results["pay-0"]).startswith("unknown")
    assert sorted(servers.calls) == ["look-0", "look-0", "pay-0"]
    assert "".join(pieces) == texts(again.messages) == told(2)


async def test_another_worker_takes_a_run_over_and_its_followers_notice_only_a_snapshot(servers: Servers) -> None:
    program, url = await servers.start()
    _, other = await servers.start()
    follower, seen = page(other), list[str]()
    killed_at = seconds = 0.0
    async with page(url).stream("look", run_id="r") as run:
        await anext(aiter(run))
        with anyio.fail_after(_SECONDS):
            async with follower.stream("look", run_id="r") as followed:
                async for event in followed:
                    seen.append(event.type.value)
                    if isinstance(event, TextMessageContentEvent) and event.delta == "0.2 ":
                        program.kill()
                        killed_at = killed_at or time.monotonic()
                    if seen[-1] == "MESSAGES_SNAPSHOT":
                        seconds = time.monotonic() - killed_at
    assert seen.count("MESSAGES_SNAPSHOT") == seen.count("RUN_STARTED") == seen.count("RUN_FINISHED") == 1
    assert texts(follower.messages) == told(2)
    print(f"taken over after {seconds:.2f} s")  # noqa: T201 - the lease is 1.5 s


async def test_a_run_is_stopped_through_another_worker(servers: Servers) -> None:
    servers.flag("silent", up=True)
    _, url = await servers.start()
    _, other = await servers.start()
    async with httpx.AsyncClient(timeout=_SECONDS) as client, page(url).stream("pay", run_id="r") as run:
        await anext(aiter(run))
        begun_at = time.monotonic()
        stopped = (await client.post(f"{other}stop", json={"runId": "r"})).json()
        print(f"stopped after {time.monotonic() - begun_at:.2f} s")  # noqa: T201 - to be at most 1 s
        assert stopped["status"] == "stopped"
        assert [event.type.value async for event in run][-1] == "RUN_FINISHED"
    assert servers.calls == []


async def test_an_answer_goes_on_with_a_run_after_all_servers_were_killed(servers: Servers) -> None:
    program, url = await servers.start()
    agent = page(url)
    result = await agent.run_agent("book", run_id="r")
    [asked] = result.interrupts
    program.kill()
    _, url = await servers.start()
    again = page(url)
    with anyio.fail_after(_SECONDS):
        async with httpx.AsyncClient(timeout=_SECONDS) as client:
            [waiting] = (await client.post(f"{url}runs", json={})).json()
            assert (waiting["status"], waiting["interrupts"][0]["id"]) == ("waiting", asked.id)
            entry = {"interruptId": asked.id, "status": "resolved", "payload": {"approved": True}}
            begun = (await client.post(f"{url}answer", json={"runId": "r", "resume": [entry]})).json()
        assert begun["runId"] != "r"
        await again.connect_agent()
    assert servers.calls == ["book-0"]
    assert texts(again.messages) == told(2)


async def test_an_agent_that_must_not_be_repeated_fails_instead(servers: Servers) -> None:
    servers.flag("fail", up=True)
    program, url = await servers.start()
    await read_until(page(url), "pay", lambda: servers.calls == ["pay-0"])
    program.kill()
    _, url = await servers.start()
    with anyio.fail_after(_SECONDS):
        async with httpx.AsyncClient(timeout=_SECONDS) as client:
            # What is waited for happens in another process.
            while (info := (await client.post(f"{url}runs", json={})).json()[0])["status"] == "running":  # noqa: ASYNC110
                await anyio.sleep(0.05)
    assert info["status"] == "failed"
    assert servers.calls == ["pay-0"]


async def test_whenever_servers_are_killed_each_run_is_whole_and_no_payment_is_begun_twice(servers: Servers) -> None:
    kills, chance = int(os.environ.get("AGUI_CLIENT_KILLS", "2")), random.Random(7)
    workers = [await servers.start(), await servers.start()]
    rounds, number, unknown = 3, 0, 0
    prompt = " ".join(["pay", "look"] * rounds)
    while kills > 0:
        number += 1
        thread_id, before = f"t{number}", len(servers.calls)
        await read_until(page(workers[0][1], thread_id), prompt, lambda: True)
        while kills > 0 and await status_of(workers, thread_id) == "running":
            await anyio.sleep(chance.uniform(0.0, 1.0))
            kills -= 1
            workers.pop(chance.randrange(2))[0].kill()
            workers.append(await servers.start())
        follower = page(chance.choice(workers)[1], thread_id)
        with anyio.fail_after(_SECONDS):
            await follower.run_agent(prompt, run_id="r")
        assert texts(follower.messages) == told(2 * rounds + 1)
        results = [str(each.content) for each in follower.messages if isinstance(each, ToolMessage)]
        begun = servers.calls[before:]
        # A server may be killed before the payment that it has marked as begun.
        assert all(begun.count(f"pay-{each}") <= 1 for each in range(2 * rounds))
        assert results.count("look done") == rounds
        unknown += rounds - results.count("pay done")
        assert all(each in ("pay done", "look done") or each.startswith("unknown") for each in results)
    print(f"{number} runs; {unknown} payments unknown")  # noqa: T201 - to be read with -s


async def status_of(workers: list[tuple[Program, str]], thread_id: str) -> str:
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        infos = (await client.post(f"{workers[0][1]}runs", json={})).json()
    return next(str(each["status"]) for each in infos if each["threadId"] == thread_id)
