"""Runs that outlive their process: servers are killed, and others go on with their runs."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from ag_ui.core import TextMessageContentEvent, ToolMessage

from agui_client import Approve, RunInProgressError, UsageError
from agui_client.runs import RunInfo, Runs
from agui_client.testing import ScriptedAgent, interrupt, text, turn
from support.durable_servers import Servers, page, read_until, texts, told
from support.postgres import postgres_server
from support.waiting import until

if TYPE_CHECKING:
    from support.programs import Program

pytest.importorskip("dbos")

_SECONDS = 30.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", *(["postgresql"] if os.environ.get("AGUI_CLIENT_KILLS") else [])])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Servers]:
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'runs.db'}"
        if request.param == "postgresql":
            url = f"postgresql://{stack.enter_context(postgres_server()).address}"
        yield Servers(tmp_path, url, stack)


def test_a_url_that_cannot_be_used_is_refused_without_its_password() -> None:
    for url in ("mysql://ann:hunter2@host/runs", "sqlite://", "runs.db hunter2"):
        with pytest.raises(UsageError, match="Runs takes the URL of a database") as refused:
            Runs(url)
        assert "hunter2" not in str(refused.value)


async def test_of_starts_with_one_id_at_the_same_time_one_begins_the_run(tmp_path: Path) -> None:
    runs = Runs(f"sqlite:///{tmp_path / 'runs.db'}")
    runs.add("echo", ScriptedAgent(turn(text("Hello."))))
    async with runs:
        starts = [runs.start("echo", "Hi", run_id="r", thread_id="t") for _ in range(5)]
        with anyio.fail_after(_SECONDS):
            begun = await asyncio.gather(*starts, return_exceptions=True)
            events = [event.type.value async for _, event in runs.follow("r")]
    assert [type(each) for each in begun] == [RunInfo, *[RunInProgressError] * 4]
    assert events[-1] == "RUN_FINISHED"


async def test_nobody_waits_for_runs_that_are_closed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first, runs = Runs(url), Runs(url)
    first.add("asking", ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i"))))
    async with first:
        await first.start("asking", "Hi", run_id="r")
        await first.stop("r")
        [waiting] = await first.list()
        assert waiting.status == "waiting"
    with anyio.fail_after(_SECONDS):
        async with runs:
            # Another process would have to carry the answer out.
            answer = asyncio.create_task(runs.answer("r", {"i": Approve()}))
            while (info := (await runs.list())[0]).run_id == "r":  # noqa: ASYNC110 - it is stored in a thread
                await anyio.sleep(0.01)
            follower = asyncio.create_task(anext(runs.follow(info.run_id)))
            log = (await runs.find(info.run_id, None, None)).log
            await until(lambda: log.is_followed, _SECONDS)
        for work in (answer, follower, runs.list(), runs.find("r", None, None)):
            with pytest.raises(UsageError):
                await work


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
    rounds, number, unknown, while_waiting = 3, -1, 0, 0

    async def kill_one() -> None:
        nonlocal kills
        kills -= 1
        workers.pop(chance.randrange(2))[0].kill()
        workers.append(await servers.start())

    while kills > 0:
        number += 1
        # A plain run, one of a team, and one that ends with a question.
        path, is_asking = "team/" if number % 3 == 1 else "", number % 3 == 2
        prompt = " ".join(["pay", "look"] * rounds + ["book"] * is_asking)
        thread_id, before = f"t{number}", len(servers.calls)
        await read_until(page(workers[0][1] + path, thread_id), prompt, lambda: True)
        while kills > 0 and await status_of(workers, thread_id) == "running":
            await anyio.sleep(chance.uniform(0.0, 1.0))
            await kill_one()
        # Who follows a team while it is taken over has to begin anew.
        while path and await status_of(workers, thread_id) == "running":  # noqa: ASYNC110
            await anyio.sleep(0.1)
        follower = page(chance.choice(workers)[1] + path, thread_id)
        with anyio.fail_after(_SECONDS):
            result = await follower.run_agent(prompt, run_id="r")
        if is_asking:
            [asked] = result.interrupts
            while_waiting += 1
            await kill_one()
            answerer = page(chance.choice(workers)[1], thread_id)
            with anyio.fail_after(_SECONDS):
                await answerer.connect_agent()
                await answerer.run_agent(resume={asked.id: Approve()})
            follower = answerer
        said = [str(each.content) for each in follower.messages if each.role == "assistant"]
        assert "".join(each for each in said if each[0].isdecimal()) == told(2 * rounds + 1 + is_asking)
        by_members = sorted(each for each in said if not each[0].isdecimal())
        assert by_members == ["".join(f"{name}.{each} " for each in range(6)) for name in ("abc" if path else "")]
        results = [str(each.content) for each in follower.messages if isinstance(each, ToolMessage)]
        begun = servers.calls[before:]
        # A server may be killed before the payment that it has marked as begun.
        assert all(begun.count(f"pay-{each}") <= 1 for each in range(2 * rounds))
        assert results.count("look done") == rounds
        assert begun.count(f"book-{2 * rounds}") == results.count("book done") == is_asking
        unknown += rounds - results.count("pay done")
        expected = ("pay done", "look done", "book done")
        assert all(each in expected or each.startswith("unknown") for each in results)
    # To be read with -s.
    print(f"{number + 1} runs, {while_waiting} killed while they waited; {unknown} payments unknown")  # noqa: T201


async def status_of(workers: list[tuple[Program, str]], thread_id: str) -> str:
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        infos = (await client.post(f"{workers[0][1]}runs", json={})).json()
    return next(str(each["status"]) for each in infos if each["threadId"] == thread_id)
