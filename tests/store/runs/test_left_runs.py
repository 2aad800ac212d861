"""Durable runs that no process carries out, and ends of which nobody was told, in SQLite and in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import string
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest
import sqlalchemy as sa
from ag_ui.core import RunErrorEvent

from agui_client import Approve, UsageError, tool
from agui_client.asgi import ASGITransport, agent_app
from agui_client.store import RunInfo, RunStatus, RunsUnavailableError, Store, WaitingRun
from agui_client.store._runs import database_keeper
from agui_client.store._runs.remote_runs import OtherRuns
from agui_client.store._runs.server_run import ServerRun
from agui_client.store._sql.database import url_of
from agui_client.testing import Gate, ScriptedAgent, interrupt, text, tool_call, turn
from support.durable_servers import Servers, page, read_until
from support.postgres import PostgresServer
from support.programs import Program
from support.stores import FOR_ALL
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0


@pytest.fixture
def servers(database_url: str, tmp_path: Path) -> Generator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, database_url, stack)


def asking() -> ScriptedAgent:
    return ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i")), turn(text("Done.")))


def with_agent(url: str, agent: ScriptedAgent, *functions: Callable[[WaitingRun], object]) -> Store:
    store = Store(url, lease=1.0)
    store.runs.add("helper", agent)
    for each in functions:
        store.runs.on_waiting(each)
    return store


def shown(info: RunInfo) -> str:
    return "queued" if info.is_queued else info.status.value


async def statuses(store: Store) -> list[str]:
    return [shown(each) for each in await store.runs.list()]


async def until_status(store: Store, run_id: str, status: str) -> None:
    with anyio.fail_after(_SECONDS):
        # What is waited for happens in another process.
        while shown(await store.runs.info(run_id)) != status:  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def wait_in_database(url: str) -> None:
    """Store a run `r` of the agent `helper` that waits for an answer."""
    async with with_agent(url, asking()) as store:
        await store.runs.start("helper", "Hi", run_id="r", thread_id="t")
        await until_status(store, "r", "waiting")


async def test_a_run_without_a_process_that_has_its_agent_is_queued_and_a_stop_takes_it_out(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await wait_in_database(database_url)
    with anyio.fail_after(_SECONDS), caplog.at_level(logging.WARNING, "agui_client.runs"):
        async with Store(database_url, lease=1.0) as store:
            answer = asyncio.create_task(store.runs.answer("r", {"i": Approve()}))
            await until(lambda: caplog.messages, _SECONDS)
            [queued, _] = await store.runs.list()
            assert (queued.is_queued, queued.status, queued.event_count) == (True, RunStatus.RUNNING, 0)
            [record] = caplog.records
            what = f"run {queued.run_id!r} is queued: no process of this database has the agent 'helper'; start the"
            assert (record.name, record.getMessage().startswith(what)) == ("agui_client.runs", True)
            following = store.runs.follow(queued.run_id)
            follower = asyncio.create_task(anext(following))
            stopped = await store.runs.stop(queued.run_id)
            assert (stopped.status, stopped.event_count) == (RunStatus.STOPPED, 1)
            message = "The run was stopped before it had begun."
            assert (await follower).event == RunErrorEvent(message=message, code="stopped")
            assert [each async for each in following] == []
            assert (await answer).status is RunStatus.STOPPED
            assert await statuses(store) == ["stopped", "waiting"]
    agent = asking()
    async with with_agent(database_url, agent) as store:
        with anyio.fail_after(_SECONDS):
            second = await store.runs.answer("r", {"i": Approve()})
            assert [event.type async for _, event in store.runs.follow(second.run_id)][-1] == "RUN_FINISHED"
        assert await statuses(store) == ["waiting", "stopped", "finished"]
    assert [each.run_id for each in agent.inputs] == [second.run_id]


@pytest.mark.parametrize("is_seen", [False, True])
async def test_an_answer_that_the_process_with_the_agent_refuses_is_an_error_and_may_be_given_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    seen, get = anyio.Event(), OtherRuns.get

    async def get_and_tell(runs: OtherRuns, row_id: str) -> ServerRun | None:
        run = await get(runs, row_id)
        if run is not None and run.log.key.run_id != "r":
            seen.set()
        return run

    @asynccontextmanager
    async def refuse(thread_id: str) -> AsyncGenerator[ScriptedAgent]:
        # The process that answers looks while the other one has the run, and has not refused it yet.
        if is_seen:
            await seen.wait()
        if thread_id:
            raise UsageError(f"thread {thread_id!r} is closed today")
        yield asking()

    monkeypatch.setattr(OtherRuns, "get", get_and_tell)
    await wait_in_database(database_url)
    refusing = Store(database_url)
    refusing.runs.add("helper", refuse)
    message = r"^the process that has the agent refused the run; its log says why$"
    with anyio.fail_after(_SECONDS):
        async with refusing, Store(database_url) as store:
            with pytest.raises(UsageError, match=message):
                await store.runs.answer("r", {"i": Approve()})
        async with with_agent(database_url, ScriptedAgent(turn(text("Done.")))) as store:
            second = await store.runs.answer("r", {"i": Approve()})
            assert [event.type async for _, event in store.runs.follow(second.run_id)][-1] == "RUN_FINISHED"


async def test_a_cancelled_answer_is_carried_out_by_the_next_process_that_has_the_agent(database_url: str) -> None:
    await wait_in_database(database_url)
    async with Store(database_url, lease=1.0) as store:
        with anyio.move_on_after(_SECONDS) as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel() -> None:
                    while (await store.runs.list())[0].run_id == "r":  # noqa: ASYNC110 - it is stored in a thread
                        await anyio.sleep(0.01)
                    scope.cancel()

                tasks.start_soon(cancel)
                await store.runs.answer("r", {"i": Approve()})
        queued = (await store.runs.list())[0]
        await until_status(store, queued.run_id, "queued")
    async with with_agent(database_url, ScriptedAgent(turn(text("Done.")))) as store:
        await until_status(store, queued.run_id, "finished")
        assert await statuses(store) == ["finished", "finished"]


async def test_a_run_that_a_closed_process_has_left_goes_on_in_the_thread_that_its_function_opens(
    database_url: str,
) -> None:
    threads, first, second = Store().threads, Store(database_url), Store(database_url)
    agent = ScriptedAgent(turn(text("One. "), Gate()), turn(text("Two.")))
    for store in (first, second):
        store.runs.add("helper", lambda thread_id: threads.open(thread_id, agent))
    async with first:
        await first.runs.start("helper", "Hi", run_id="r", thread_id="t")
        await until(lambda: agent.inputs, _SECONDS)
    async with second:
        await until_status(second, "r", "finished")
    found = await threads.get("t")
    assert found is not None
    assert [each.content for each in found.conversation.messages] == ["Hi", "Two."]
    assert [[each.content for each in input.messages] for input in agent.inputs] == [["Hi"], ["Hi"]]


async def test_a_run_of_a_plain_agent_goes_on_behind_the_tools_that_the_closed_process_has_called(
    database_url: str,
) -> None:
    called, first, second = list[str](), Store(database_url), Store(database_url)

    @tool
    def look() -> str:
        """Look."""
        called.append("look")
        return "found"

    agent = ScriptedAgent(turn(tool_call("look")), turn(text("One."), Gate()), turn(text("Two.")), tools=[look])
    for store in (first, second):
        store.runs.add("helper", agent)
    async with first:
        await first.runs.start("helper", "Hi", run_id="r", thread_id="t")
        await until(lambda: len(agent.inputs) == 2, _SECONDS)
    async with second:
        await until_status(second, "r", "finished")
    sent = [[each.role for each in input.messages] for input in agent.inputs]
    assert sent == [["user"], ["user", "assistant", "tool"], ["user", "assistant", "tool"]]
    assert called == ["look"]


@pytest.mark.parametrize("has_events", [True, False])
async def test_a_run_that_the_next_process_refuses_ends_with_the_reason(
    database_url: str, caplog: pytest.LogCaptureFixture, has_events: bool
) -> None:
    first, second, entering, free = Store(database_url), Store(database_url), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def take(thread_id: str) -> AsyncGenerator[ScriptedAgent]:
        entering.set()
        if not has_events:
            await free.wait()
        yield ScriptedAgent(turn(text("One."), Gate()), thread_id=thread_id)

    def refuse(thread_id: str) -> ScriptedAgent:
        raise UsageError(f"thread {thread_id!r} is closed today")

    first.runs.add("helper", take)
    second.runs.add("helper", refuse)
    starting = asyncio.create_task(first.runs.start("helper", "Hi", run_id="r", thread_id="t", expose_errors=True))
    with anyio.fail_after(_SECONDS):
        await (starting if has_events else entering.wait())
        async with second:
            if has_events:
                async for _ in second.runs.follow("r"):
                    break  # they are stored
            await first.aclose()
            free.set()
            with suppress(RunsUnavailableError):  # it has left the run
                await starting
            await until_status(second, "r", "failed")
            *_, last = [each.event async for each in second.runs.follow("r")]
    assert last == RunErrorEvent(message="UsageError: thread 't' is closed today", code="agent_failed")
    assert "run 'r' of thread 't' failed" in caplog.messages


async def test_a_run_whose_thread_is_in_another_database_is_stored_in_its_own(tmp_path: Path) -> None:
    here, there = (Store(f"sqlite:///{tmp_path / name}.db") for name in ("runs", "threads"))
    agent = ScriptedAgent(turn(text("Done.")))
    here.runs.add("helper", lambda thread_id: there.threads.open(thread_id, agent))
    async with there:
        async with here:
            await here.runs.start("helper", "Hi", run_id="r", thread_id="t")
            assert [event.type.value async for _, event in here.runs.follow("r")][-1] == "RUN_FINISHED"
        found = await there.threads.get("t")
    assert found is not None
    assert [each.content for each in found.conversation.messages] == ["Hi", "Done."]
    async with Store(f"sqlite:///{tmp_path / 'runs'}.db") as again:
        assert [shown(each) for each in await again.runs.list()] == ["finished"]


async def test_a_caller_whose_run_is_left_before_it_begins_gets_503_and_follows_it_at_another_server(
    database_url: str,
) -> None:
    entering, free = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow(request: object, input: object) -> AsyncGenerator[ScriptedAgent]:
        """Open the agent of a request, which may take long."""
        entering.set()
        await free.wait()
        yield ScriptedAgent(turn(text("Done.")))

    apps = [agent_app(slow, store=Store(database_url, lease=1.0), **FOR_ALL) for _ in range(2)]
    given = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "Hi"}]}
    bodies = [{**given, **dict.fromkeys(("tools", "context"), ())}] * 2
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app/"))
            for app in apps
        ]
        async with apps[0].lifespan():
            asked = asyncio.create_task(clients[0].post("", json=bodies[0]))
            with anyio.fail_after(_SECONDS):
                await entering.wait()
                await apps[0].shutdown()
                left = await asked
        assert (left.status_code, left.headers.get("retry-after")) == (503, "1")
        free.set()
        async with apps[1].lifespan():
            with anyio.fail_after(_SECONDS):
                followed = await clients[1].post("", json=bodies[1])
        assert (followed.status_code, followed.text.count('"Done."'), followed.text.count("RUN_FINISHED")) == (
            200,
            1,
            1,
        )


async def test_the_end_of_a_run_is_stored_with_a_thread_that_has_nothing_new(database_url: str) -> None:
    store, threads = Store(database_url), list[str]()

    @asynccontextmanager
    async def opened(thread_id: str) -> AsyncGenerator[ScriptedAgent]:
        """Open a thread in a block of the program's own, which saves the end of a call before it is left."""
        async with store.threads.open(thread_id, ScriptedAgent(turn(text("Done.")))) as agent:
            yield agent
            threads.append(thread_id)

    store.runs.add("helper", opened)
    async with store:
        await store.runs.start("helper", "Hi", run_id="r", thread_id="t")
        ends = [event.type.value async for _, event in store.runs.follow("r")]
    # The block saves what the call has come to, and once more, with the end of the run, when it is left.
    engine = sa.create_engine(url_of(database_url))
    with engine.connect() as database:
        bodies = database.execute(sa.text("select body from agui_entries order by number")).scalars().all()
    engine.dispose()
    assert (ends[-1], threads, json.loads(bodies[-1])) == ("RUN_FINISHED", ["t"], {"version": 2, "number": len(bodies)})


async def test_a_run_whose_process_was_killed_is_stopped_where_no_process_has_its_agent(servers: Servers) -> None:
    servers.flag("silent", up=True)
    program, served = await servers.start()
    await read_until(page(served), "pay", lambda: True)
    async with Store(servers.url, lease=1.0) as store:
        with anyio.fail_after(_SECONDS):
            while not (await store.runs.info("r")).event_count:  # noqa: ASYNC110 - another process stores them
                await anyio.sleep(0.02)
        program.kill()
        await until_status(store, "r", "queued")
        with anyio.fail_after(_SECONDS):
            stopped = await store.runs.stop("r")
            events = [event.type.value async for _, event in store.runs.follow("r")]
        assert (stopped.status, events[0], events[-1]) == (RunStatus.STOPPED, "RUN_STARTED", "RUN_FINISHED")
        assert (await store.runs.info("r")).event_count == stopped.event_count == len(events)
    servers.flag("silent", up=False)
    _, served = await servers.start()
    with anyio.fail_after(_SECONDS):
        async with page(served).stream("pay", run_id="r") as run:
            assert [event.type.value async for event in run][-1] == "RUN_FINISHED"
    assert servers.calls == []


_KILLED_BY_ITS_AGENT = """
import asyncio, os, signal, sys
from agui_client import FunctionAgent
from agui_client.store import Store

async def answer(input):
    os.kill(os.getpid(), signal.SIGKILL)
    yield "never"

async def main():
    store = Store(sys.argv[1], lease=1.0)
    store.runs.add("helper", FunctionAgent(answer))
    async with store:
        await store.runs.start("helper", "Hi", run_id="r", thread_id="t")
        await asyncio.sleep(30)

asyncio.run(main())
"""


async def test_a_run_whose_process_was_killed_before_its_first_event_is_stopped_with_an_error(
    database_url: str,
) -> None:
    with Program("-c", _KILLED_BY_ITS_AGENT, database_url, stderr=2) as program:
        assert await anyio.to_thread.run_sync(program.wait, _SECONDS) < 0
    async with Store(database_url, lease=1.0) as store:
        await until_status(store, "r", "queued")
        with anyio.fail_after(_SECONDS):
            assert (await store.runs.stop("r")).status is RunStatus.STOPPED
            events = [event async for _, event in store.runs.follow("r")]
    assert events == [RunErrorEvent(message="The run was stopped before it had begun.", code="stopped")]


async def test_the_events_of_a_run_of_another_process_are_counted_while_it_goes_on(servers: Servers) -> None:
    servers.flag("hold", up=True)
    _, served = await servers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(served), "pay", lambda: False)
        await until(lambda: servers.calls == ["pay-0"], _SECONDS)
        tasks.cancel_scope.cancel()
    # The start of the run, eight events of a text, three of a call.
    expected = 1 + 8 + 3
    async with Store(servers.url, lease=1.0) as store:
        with anyio.fail_after(_SECONDS):
            # The last events are stored a moment after they came.
            while (info := await store.runs.info("r")).event_count != expected:
                assert info.event_count < expected
                await anyio.sleep(0.02)
        assert await store.runs.list() == [info]
        assert info.status is RunStatus.RUNNING
        servers.flag("hold", up=False)
        await until_status(store, "r", "finished")
        count = len([each async for each in store.runs.follow("r")])
        assert (await store.runs.info("r")).event_count == count > expected
        with pytest.raises(UsageError, match="no run 'other' is kept here"):
            await store.runs.info("other")


async def test_whenever_a_start_is_cancelled_its_run_goes_on_or_was_never_asked_for(database_url: str) -> None:
    agent, tried = ScriptedAgent(turn(text("Hello."))), 40
    async with with_agent(database_url, agent) as store:
        for number in range(tried):
            starting = asyncio.create_task(store.runs.start("helper", "Hi", run_id=f"r{number}"))
            for _ in range(number):
                await asyncio.sleep(0)
                if number % 2:
                    await store.runs.list()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        with anyio.fail_after(_SECONDS):
            while {*(found := await statuses(store))} != {"finished"}:  # noqa: ASYNC110 - they end in their tasks
                await anyio.sleep(0.02)
        asked = sorted(each.run_id for each in agent.inputs)
        assert sorted(each.run_id for each in await store.runs.list()) == asked
    assert 0 < len(found) < tried


_KILLED = """
import asyncio, os, signal, sys
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, interrupt, turn

async def main():
    store = Store(sys.argv[1], lease=1.0)
    store.runs.add("helper", ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i"))))

    @store.runs.on_waiting
    def tell(waiting):
        os.kill(os.getpid(), signal.SIGKILL)

    async with store:
        await store.runs.start("helper", "Hi", run_id="r", thread_id="t", owner="ann")
        await asyncio.sleep(30)

asyncio.run(main())
"""


async def test_of_a_run_whose_process_was_killed_while_it_told_of_it_another_one_tells_once(database_url: str) -> None:
    with Program("-c", _KILLED, database_url, stderr=2) as program:
        assert await anyio.to_thread.run_sync(program.wait, _SECONDS) < 0
    told: list[WaitingRun] = []
    # One that has the agent but no functions, and one that has functions but not the agent, tell nobody.
    async with with_agent(database_url, asking()) as store:
        assert await statuses(store) == ["waiting"]
    other = Store(database_url, lease=1.0)
    other.runs.add("other", asking())
    other.runs.on_waiting(told.append)
    async with other as store:
        await store.runs.start("other", "Hi", run_id="o", thread_id="o")
        await until(lambda: told, _SECONDS)
    assert [each.run_id for each in told] == ["o"]

    def fail(waiting: WaitingRun) -> None:
        raise ValueError("no mail today")

    told.clear()
    async with with_agent(database_url, asking(), fail, told.append) as store:
        await until(lambda: told, _SECONDS)
        [waiting] = told
        assert (waiting.run_id, waiting.thread_id, waiting.owner) == ("r", "t", "ann")
        assert [each.id for each in waiting.interrupts] == ["i"]
    async with with_agent(database_url, asking(), told.append) as store:
        # The next one is told of after those that were left.
        await store.runs.start("helper", "Hi", run_id="s")
        await until(lambda: len(told) > 1, _SECONDS)
    assert [each.run_id for each in told] == ["r", "s"]


async def test_a_function_that_is_at_work_is_called_once_and_returns_before_the_runs_are_closed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process looks many times for runs that nobody was told of while the function is at work.
    monkeypatch.setattr(database_keeper, "_BEAT", 0.005)
    begun, told = anyio.Event(), list[str]()

    async def tell(waiting: WaitingRun) -> None:
        begun.set()
        await anyio.sleep(0.2)
        told.append(waiting.run_id)

    with anyio.fail_after(_SECONDS):
        async with with_agent(database_url, asking(), tell) as store:
            await store.runs.start("helper", "Hi", run_id="r", thread_id="t")
            await begun.wait()
        assert told == ["r"]
        async with with_agent(database_url, asking(), tell) as store:
            await store.runs.start("helper", "Hi", run_id="s")
            await until(lambda: len(told) > 1, _SECONDS)
    assert told == ["r", "s"]


async def test_an_id_that_a_database_cannot_store_is_refused_and_no_other_request_with_it(database_url: str) -> None:
    store = Store(database_url, lease=1.0)
    app = agent_app(ScriptedAgent(turn(text("Hello."))), name="helper", store=store, **FOR_ALL)
    too_long = "".join(random.Random(7).choices(string.ascii_letters, k=20_000))
    found: dict[str, httpx.Response] = {}

    async def ask(thread_id: str) -> None:
        body = {"threadId": thread_id, "runId": "r", "messages": [{"id": "u", "role": "user", "content": "Hi"}]}
        found[thread_id] = await client.post("http://app/", json=body)

    async with store, httpx.AsyncClient(transport=ASGITransport(app)) as client, anyio.create_task_group() as tasks:
        for thread_id in ("one", too_long, "two", "NUL \0", "three"):
            tasks.start_soon(ask, thread_id)
    refused = 422 if database_url.startswith("postgresql") else 200
    statuses = {thread_id: each.status_code for thread_id, each in found.items()}
    assert statuses == {"one": 200, "two": 200, "three": 200, too_long: refused, "NUL \0": refused}
    assert [each for each in found.values() if each.status_code == 422 and too_long[:9] in each.text] == []


@pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it")
async def test_the_first_question_after_a_restart_of_the_database_is_answered(postgresql: PostgresServer) -> None:
    async with with_agent(f"postgresql://{postgresql.new_database()}", ScriptedAgent(turn(text("Hello.")))) as store:
        run = await store.runs.start("helper", "Hi")
        await until_status(store, run.run_id, "finished")
        postgresql.stop()
        assert not await store.ready()
        postgresql.start()
        assert (await store.runs.info(run.run_id)).status is RunStatus.FINISHED
        assert await store.ready()
