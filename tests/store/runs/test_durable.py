"""Runs that outlive their process: servers are killed, and others go on with their runs."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
import sqlalchemy as sa
from ag_ui.core import (
    Event,
    RunErrorEvent,
    RunFinishedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    Tool,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client import (
    AbstractAgent,
    Approve,
    ConnectError,
    FunctionAgent,
    HttpAgent,
    HTTPStatusError,
    IncompleteRunError,
    RunFailedError,
    RunInProgressError,
    TransportError,
    UsageError,
    tool,
)
from agui_client.asgi import AppLimits, agent_app
from agui_client.reconnect import Connect, LastEventId
from agui_client.store import RunInfo, Store
from agui_client.store._runs.runs import kept_by
from agui_client.store._sql.database import url_of
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from support.durable_servers import Servers, page, read_until, status_of, texts, told
from support.stores import FOR_ALL
from support.waiting import until

if TYPE_CHECKING:
    from ag_ui.core import Message

    from support.programs import Program


_SECONDS = 30.0
ASK = Tool(name="ask", description="Asks the person in front of the screen.", parameters={"type": "object"})
_ONCE = (TextMessageStartEvent, TextMessageEndEvent, SubagentStartedEvent, SubagentFinishedEvent)
_PIECES = (TextMessageContentEvent, ToolCallStartEvent)


pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


@pytest.fixture
def servers(shared_url: str, tmp_path: Path) -> Generator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, shared_url, stack)


def test_a_url_that_cannot_be_used_is_refused_without_its_password() -> None:
    for url in ("mysql://ann:hunter2@host/runs", "runs.db hunter2"):
        with pytest.raises(UsageError, match=r"^Store takes sqlite:///FILE or postgresql://") as refused:
            Store(url)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("postgresql://ann:pw@host:5433/x", "postgresql+psycopg://ann:pw@host:5433/x"),
        ("postgresql+psycopg2://host/x?sslmode=require", "postgresql+psycopg://host/x?sslmode=require"),
        ("postgresql+asyncpg://ann:pw@host/x?ssl=require", "postgresql+psycopg://ann:pw@host/x?sslmode=require"),
        ("postgresql+asyncpg://host/x", "postgresql+psycopg://host/x"),
        ("sqlite+aiosqlite:///runs.db", "sqlite:///runs.db"),
        ("sqlite+aiosqlite:////folder/runs.db?timeout=5", "sqlite:////folder/runs.db?timeout=5"),
    ],
)
def test_a_url_is_read_with_the_driver_of_stores_whichever_it_names(given: str, used: str) -> None:
    assert url_of(given).render_as_string(hide_password=False) == used
    Store(given).close()


async def test_of_starts_with_one_id_at_the_same_time_one_begins_the_run(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'runs.db'}")
    store.runs.add("echo", ScriptedAgent(turn(text("Hello."))))
    async with store:
        starts = [store.runs.start("echo", "Hi", run_id="r", thread_id="t") for _ in range(5)]
        with anyio.fail_after(_SECONDS):
            begun = await asyncio.gather(*starts, return_exceptions=True)
            events = [event.type.value async for _, event in store.runs.follow("r")]
    assert [type(each) for each in begun] == [RunInfo, *[RunInProgressError] * 4]
    assert events[-1] == "RUN_FINISHED"


async def test_two_runs_objects_of_one_process_share_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    carrying = Store(url)
    carrying.runs.add("echo", ScriptedAgent(turn(text("Hello."))))
    async with carrying, Store(url) as following:
        with anyio.fail_after(_SECONDS):
            await carrying.runs.start("echo", "Hi", run_id="r")
            events = [event.type.value async for _, event in following.runs.follow("r")]
    assert (events[0], events[-1]) == ("RUN_STARTED", "RUN_FINISHED")


async def test_nobody_waits_for_runs_that_are_closed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first, store = Store(url), Store(url)
    first.runs.add("asking", ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i"))))
    async with first:
        await first.runs.start("asking", "Hi", run_id="r")
        assert [event.type.value async for _, event in first.runs.follow("r")][-1] == "RUN_FINISHED"
        [waiting] = await first.runs.list()
        assert waiting.status == "waiting"
    with anyio.fail_after(_SECONDS):
        async with store:
            # Another process would have to carry the answer out.
            answer = asyncio.create_task(store.runs.answer("r", {"i": Approve()}))
            while (info := (await store.runs.list())[0]).run_id == "r":  # noqa: ASYNC110 - it is stored in a thread
                await anyio.sleep(0.01)
            follower = asyncio.create_task(anext(store.runs.follow(info.run_id)))
            log = (await kept_by(store.runs).find(info.run_id, None, None)).log
            await until(lambda: log.is_followed, _SECONDS)
        for work in (answer, follower, store.runs.list(), store.runs.info("r")):
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


@pytest.mark.parametrize("at", ["a text", "a call"])
async def test_a_stored_thread_has_the_conversation_once_and_goes_on_when_its_worker_was_killed(
    servers: Servers, at: str
) -> None:
    program, url = await servers.start()
    _, other = await servers.start()
    if at == "a call":
        servers.flag("hold", up=True)
    async with anyio.create_task_group() as tasks:
        killed = page(f"{url}stored/")
        spoken = list[str]()

        async def read() -> None:
            async with killed.stream("look pay", run_id="r") as run:
                async for each in run.text_stream:
                    spoken.append(each)

        tasks.start_soon(read)
        await until(lambda: bool(servers.calls) if at == "a call" else "1.2 " in spoken, _SECONDS)
        tasks.cancel_scope.cancel()
    program.kill()
    if at == "a call":
        servers.flag("hold", up=False)
    follower = page(f"{other}stored/")
    with anyio.fail_after(_SECONDS):
        await follower.connect_agent()
        assert await statuses(other) == [("r", "finished")]
        # The thread was given back: another run of it may begin.
        await follower.run_agent("Go on", run_id="s")
    stored = await servers.stored_messages("t")
    calls = ["look-0", "look-0", "pay-1"] if at == "a call" else ["look-0", "pay-1"]
    assert servers.calls == calls
    assert texts(stored) == texts(follower.messages) == told(4)
    assert [each.id for each in stored] == [each.id for each in follower.messages]
    assert [each.role for each in stored] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant"),
        *("user", "assistant"),
    ]
    assert [each.content for each in stored if isinstance(each, ToolMessage)] == ["look done", "pay done"]


async def test_a_caller_of_another_worker_gets_what_a_run_of_a_stored_thread_began_with(servers: Servers) -> None:
    _, url = await servers.start()
    _, other = await servers.start()
    await page(f"{url}stored/").run_agent("look", run_id="q")
    servers.flag("silent", up=True)
    follower, seen = page(f"{other}stored/"), list[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(f"{url}stored/"), "look", lambda: False)
        await until(lambda: len(servers.pids) == 3, _SECONDS)
        with anyio.fail_after(_SECONDS):
            async with follower.stream_connect() as run:
                async for event in run:
                    if event.type.value == "MESSAGES_SNAPSHOT":
                        seen = [each.role for each in follower.messages]
                        servers.flag("silent", up=False)
        tasks.cancel_scope.cancel()
    assert seen == ["user", "assistant", "tool", "assistant", "user"]
    assert [each.id for each in await servers.stored_messages("t")] == [each.id for each in follower.messages]


@pytest.mark.parametrize("path", ["stored/", "threads/"])
async def test_after_each_kill_a_caller_has_what_is_stored_or_is_told_the_difference(
    servers: Servers, path: str
) -> None:
    chance, kills, cut, lacking = random.Random(3), int(os.environ.get("AGUI_CLIENT_KILLS", "2")), 0, 0
    program, url = await servers.start()
    for number in range(kills):
        caller = page(f"{url}{path}", f"t{number}")
        await caller.run_agent("look", run_id="q")
        with anyio.move_on_after(chance.uniform(0.0, 0.4)), suppress(TransportError, IncompleteRunError):
            await caller.run_agent("And?", run_id="r")
        program.kill()
        program, url = await servers.start(int(url.rpartition(":")[2].strip("/")))
        with anyio.fail_after(_SECONDS):
            result = None
            while result is None:
                with suppress(HTTPStatusError, ConnectError):
                    result = await caller.connect_agent()
        stored = {each.id: each for each in await servers.stored_messages(f"t{number}")}
        shown = {each.id: each for each in caller.messages}
        told = " ".join(map(str, result.warnings))
        assert stored.keys() <= shown.keys()
        for each in shown.keys() - stored.keys():
            lacking += 1
            assert each in told
        for each, message in stored.items():
            if (shown[each].role, shown[each].content) != (message.role, message.content):
                cut += 1
                assert each in caller.incomplete_ids
    # To be read with -s.
    print(f"{kills} kills: {cut} texts cut, {lacking} messages not stored")  # noqa: T201


@pytest.mark.parametrize("through", ["a page", "its address"])
async def test_another_worker_takes_the_answer_to_what_a_run_of_a_stored_thread_asked(
    servers: Servers, through: str
) -> None:
    program, url = await servers.start()
    _, other = await servers.start()
    [asked] = (await page(f"{url}stored/").run_agent("pay book", run_id="r")).interrupts
    program.kill()
    entry = {"interruptId": asked.id, "status": "resolved", "payload": {"approved": True}}
    again = page(f"{other}stored/")
    with anyio.fail_after(_SECONDS):
        async with httpx.AsyncClient(timeout=_SECONDS) as client:
            await again.connect_agent()
            if through == "a page":
                await again.run_agent(resume={asked.id: Approve()}, run_id="s")
            else:
                begun = (await client.post(f"{other}stored/answer", json={"runId": "r", "resume": [entry]})).json()
                again = page(f"{other}stored/")
                await again.connect_agent()
                assert begun["runId"] == (await statuses(other))[0][0]
            # A second click on the approval.
            refused = await client.post(f"{other}stored/answer", json={"runId": "r", "resume": [entry]})
    assert refused.status_code in (409, 422)
    stored = await servers.stored_messages("t")
    assert servers.calls == ["pay-0", "book-1"]
    assert [status for _, status in await statuses(other)] == ["finished", "finished"]
    assert texts(stored) == texts(again.messages) == told(3)
    assert [each.id for each in stored] == [each.id for each in again.messages]
    assert [each.content for each in stored if isinstance(each, ToolMessage)] == ["pay done", "book done"]


async def test_a_question_is_answered_once_through_all_workers_and_after_a_take_over(servers: Servers) -> None:
    workers = [await servers.start(), await servers.start()]
    pages = [page(url) for _, url in workers]
    [asked] = (await pages[0].run_agent("book", run_id="r")).interrupts
    await pages[1].connect_agent()
    servers.flag("hold", up=True)
    refused: list[int] = []

    async def answer(number: int) -> None:
        try:
            async with pages[number].stream(resume={asked.id: Approve()}, run_id=f"by-{number}") as run:
                async for _ in run:
                    pass
        except HTTPStatusError as error:
            refused.append(number)
            assert error.status_code == 409  # noqa: PT017 - any other ends the test
        except TransportError:
            """The worker was killed."""

    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, 0)
            tasks.start_soon(answer, 1)
            await until(lambda: len(servers.calls) == len(refused) == 1, _SECONDS)
            winner = 1 - refused[0]
            workers[winner][0].kill()
        servers.flag("hold", up=False)
        # The other worker takes the run over.
        while await status_of(workers[refused[0]][1], "t") == "running":  # noqa: ASYNC110
            await anyio.sleep(0.05)
        with pytest.raises(HTTPStatusError, match="answered before"):
            await pages[refused[0]].run_agent(resume={asked.id: Approve()})
    assert servers.calls == ["book-0"]


def beat_of(url: str) -> float:
    """The time at which the process has renewed its lease last."""
    engine = sa.create_engine(url_of(url))
    with engine.connect() as database:
        found = database.execute(sa.text("select max(alive_until) from agui_processes")).scalar_one()
    engine.dispose()
    return float(found) / 1_000_000


async def test_a_function_that_takes_longer_than_the_time_to_stop_is_cut(tmp_path: Path) -> None:
    store, begun = Store(f"sqlite:///{tmp_path / 'runs.db'}"), asyncio.Event()

    @tool
    async def stay() -> str:
        """Stay."""
        begun.set()
        await asyncio.sleep(_SECONDS)
        return "never"

    store.runs.add("helper", ScriptedAgent(turn(tool_call("stay")), tools=[stay]))
    app = agent_app(ScriptedAgent(turn()), store=store, **FOR_ALL, limits=AppLimits(stop_within=0.1))
    await store.runs.start("helper", "Hi")
    # The usual time to stop is five seconds.
    with anyio.fail_after(4):
        await begun.wait()
        await app.shutdown()


@pytest.mark.parametrize(
    ("path", "calls"),
    [
        pytest.param("", "pay", marks=pytest.mark.soak),  # as with two calls
        ("", "pay+pay2"),
        ("stored/", "pay+pay2"),
        ("team/", "pay+pay2"),
    ],
)
async def test_a_server_that_is_told_to_stop_ends_what_was_begun_and_begins_nothing_new(
    servers: Servers, path: str, calls: str
) -> None:
    # One call at a time, so that the second one waits for its turn.
    servers.flag("alone", up=True)
    servers.flag("hold", up=True)
    program, url = await servers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(f"{url}{path}"), calls, lambda: False)
        await until(lambda: len(servers.calls) == 1, _SECONDS)
        tasks.cancel_scope.cancel()
    program.send_signal(signal.SIGTERM)
    told_at = beat_of(servers.url)
    await until(lambda: beat_of(servers.url) > told_at + 1.5, _SECONDS)
    servers.flag("hold", up=False)
    assert await anyio.to_thread.run_sync(program.wait, _SECONDS) in (0, -signal.SIGTERM)
    assert len(servers.calls) == 1
    _, url = await servers.start()
    again = page(f"{url}{path}")
    with anyio.fail_after(_SECONDS):
        await again.connect_agent()
    results = [str(each.content) for each in again.messages if isinstance(each, ToolMessage)]
    names = calls.split("+")
    assert (results, sorted(servers.calls)) == ([f"{each} done" for each in names], [f"{each}-0" for each in names])
    assert texts(again.messages).endswith(told(2))


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("", "asks"),
        ("stored/", "fails"),
        ("", "is stopped"),
        # The other half: each end, and each path, is above.
        pytest.param("stored/", "asks", marks=pytest.mark.soak),
        pytest.param("", "fails", marks=pytest.mark.soak),
        pytest.param("stored/", "is stopped", marks=pytest.mark.soak),
    ],
)
async def test_a_call_that_was_begun_is_told_to_be_unknown_however_its_run_ends_then(
    servers: Servers, path: str, end: str
) -> None:
    if end == "fails":
        servers.flag("fail", up=True)
    servers.flag("hold", up=True)
    program, url = await servers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(f"{url}{path}"), "pay+book", lambda: False)
        await until(lambda: servers.calls == ["pay-0"], _SECONDS)
        tasks.cancel_scope.cancel()
    program.kill()
    if end == "is stopped":
        stop_run(servers.url)
    servers.flag("hold", up=False)
    _, url = await servers.start()
    again, told = page(f"{url}{path}"), list[ToolCallResultEvent]()
    with anyio.fail_after(_SECONDS), suppress(RunFailedError):
        async with again.stream("pay+book", run_id="r") as run:
            async for event in run:
                told += [event] if isinstance(event, ToolCallResultEvent) else []
    assert [(each.tool_call_id, str(each.content)[:7]) for each in told] == [("pay-0", "unknown")]
    assert await status_of(url, "t") == {"asks": "waiting", "fails": "failed", "is stopped": "stopped"}[end]
    assert servers.calls == ["pay-0"]
    if path:
        stored = await servers.stored_messages("t")
        assert [each.id for each in stored if isinstance(each, ToolMessage)] == [each.message_id for each in told]


def stop_run(url: str) -> None:
    """Note that the run is to be stopped, as a process that carries none out does."""
    engine = sa.create_engine(url_of(url))
    with engine.begin() as database:
        database.execute(sa.text("update agui_runs set is_stop_wanted = true"))
    engine.dispose()


async def test_whenever_servers_are_killed_each_run_is_whole_and_no_payment_is_begun_twice(servers: Servers) -> None:
    kills, chance = int(os.environ.get("AGUI_CLIENT_KILLS", "2")), random.Random(7)
    workers = [await servers.start(), await servers.start()]
    rounds, number, unknown, while_waiting, asked_callers = 3, -1, 0, 0, 0

    async def kill_one() -> None:
        nonlocal kills
        kills -= 1
        workers.pop(chance.randrange(2))[0].kill()
        workers.append(await servers.start())

    async def kill_some(thread_id: str) -> None:
        while kills > 0 and await status_of(workers[0][1], thread_id) == "running":
            await anyio.sleep(chance.uniform(0.0, 1.0))
            await kill_one()

    while kills > 0:
        number += 1
        # A run, a team, one that ends with a question, one that calls tools of its caller, and two of stored threads.
        kind = ("plain", "team", "asking", "calling", "stored", "stored-team")[number % 6]
        path = f"{kind}/" if kind in ("team", "stored", "stored-team") else ""
        is_asking, is_calling = kind == "asking", kind == "calling"
        words = [*["pay", "look"] * rounds, *["book"] * is_asking]
        words = [*words[:3], "ask", *words[3:], "ask"] if is_calling else words
        thread_id, before = f"t{number}", len(servers.calls)
        caller = page(workers[0][1] + path, thread_id, tools=[ASK] * is_calling)
        await read_until(caller, " ".join(words), lambda: True)
        if is_calling:
            answers, is_over = dict[str, str](), anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer_calls, workers, thread_id, answers, is_over)
                while kills > 0 and not is_over.is_set():
                    await anyio.sleep(chance.uniform(0.0, 1.0))
                    await kill_one()
            assert list(answers) == [f"ask-{each}" for each, word in enumerate(words) if word == "ask"]
            asked_callers += 1
        else:
            await kill_some(thread_id)
        follower = page(chance.choice(workers)[1] + path, thread_id)
        with anyio.fail_after(_SECONDS):
            is_connecting = is_calling or "stored" in kind
            following = follower.connect_agent() if is_connecting else follower.run_agent(" ".join(words), run_id="r")
            result = await following
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
        assert "".join(each for each in said if each[0].isdecimal()) == told(len(words) + 1)
        by_members = sorted(each for each in said if not each[0].isdecimal())
        names = "abc" if "team" in kind else ""
        assert by_members == ["".join(f"{name}.{each} " for each in range(6)) for name in names]
        if "stored" in kind:
            # Ids of calls in a team are longer in its thread: what its members own has their names.
            stored = await servers.stored_messages(thread_id)
            assert [(each.role, each.content) for each in stored] == [
                (each.role, each.content) for each in follower.messages
            ]
        results = [str(each.content) for each in follower.messages if isinstance(each, ToolMessage)]
        begun = servers.calls[before:]
        # A server may be killed before the payment that it has marked as begun.
        assert all(begun.count(f"pay-{each}") <= 1 for each in range(len(words)))
        assert results.count("look done") == rounds
        assert begun.count(f"book-{2 * rounds}") == results.count("book done") == is_asking
        assert results.count("blue") == words.count("ask")
        assert len(results) == len(words)
        unknown += rounds - results.count("pay done")
        expected = ("pay done", "look done", "book done", "blue")
        assert all(each in expected or each.startswith("unknown") for each in results)
    # To be read with -s.
    counted = f"{while_waiting} killed while they waited, {asked_callers} with tools of the caller"
    print(f"{number + 1} runs, {counted}; {unknown} payments unknown")  # noqa: T201


async def answer_calls(
    workers: list[tuple[Program, str]], thread_id: str, answers: dict[str, str], is_over: anyio.Event
) -> None:
    """Follow a thread as its caller, who outlives the servers, until no call is left; answer each call once.

    Args:
        workers: The servers that live.
        thread_id: The thread.
        answers: The answers of the caller by call id, in the order in which they were asked for.
        is_over: Set when no call is left.
    """
    with anyio.fail_after(_SECONDS * 4):
        while True:
            caller = page(workers[-1][1], thread_id, tools=[ASK])
            with suppress(ConnectError, IncompleteRunError):
                result = await caller.connect_agent()
                while result.pending_tool_calls:
                    [call] = result.pending_tool_calls
                    answers.setdefault(call.id, "blue")
                    # The same run again if the caller does not know whether the server has got its request.
                    given, run_id = {call.id: answers[call.id]}, f"behind-{call.id}"
                    result = await caller.run_agent(tool_results=given, run_id=run_id)
                is_over.set()
                return


async def statuses(url: str) -> list[tuple[str, str]]:
    """The ids and the statuses of the runs, those that began last first."""
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        return [(each["runId"], each["status"]) for each in (await client.post(f"{url}runs", json={})).json()]


@pytest.mark.parametrize("path", ["team/", ""], ids=["a team", "an agent"])
async def test_each_follower_gets_the_final_attempt_once_whenever_the_worker_that_has_the_run_is_killed(
    servers: Servers, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGUI_PACE", "0.05")
    kills, chance, number = int(os.environ.get("AGUI_CLIENT_KILLS", "1")), random.Random(5), 0
    workers = [await servers.start(), await servers.start()]
    async with Store(servers.url) as store:
        while kills > 0:
            number += 1
            with anyio.fail_after(2 * _SECONDS):
                kills -= await follow_while_killing(servers, workers, path, f"t{number}", store, min(kills, 3), chance)
    # To be read with -s.
    print(f"{number} runs")  # noqa: T201


async def follow_while_killing(
    servers: Servers,
    workers: list[tuple[Program, str]],
    path: str,
    thread_id: str,
    store: Store,
    kills: int,
    chance: random.Random,
) -> int:
    """Follow a run in several ways, and kill the workers that have it; return how many were killed."""
    policies = [LastEventId(attempts=200), Connect(attempts=200)] * len(workers)
    urls = [url + path for _, url in workers for _ in range(2)]
    followers = [page(url, thread_id, how) for url, how in zip(urls, policies, strict=True)]
    seen: list[list[Event]] = [[] for _ in followers]
    in_program: list[Event] = []
    before, killed = len(servers.pids), 0
    await read_until(page(chance.choice(workers)[1] + path, thread_id), "look pay", lambda: True)
    async with anyio.create_task_group() as tasks:
        for follower, events in zip(followers, seen, strict=True):
            tasks.start_soon(read_all, follower, events)
        tasks.start_soon(follow_in_pieces, store, thread_id, chance, in_program)
        await until(lambda: len(servers.pids) > before, _SECONDS)
        while killed < kills:
            await anyio.sleep(chance.uniform(0.0, 1.0))
            if await status_of(workers[0][1], thread_id) != "running":
                break
            await kill_the_one_that_runs(servers, workers, thread_id)
            killed += 1
    final = [event async for _, event in store.runs.follow("r", thread_id=thread_id)]
    late = page(workers[0][1] + path, thread_id)
    await late.connect_agent()
    program = FunctionAgent(lambda _: iterated(in_program), thread_id=thread_id)
    await program.run_agent("look pay", run_id="r")
    agents: list[AbstractAgent] = [program, *followers]
    for agent, events in zip(agents, [in_program, *seen], strict=True):
        assert agent_messages(agent) == agent_messages(late)
        assert events[-1].type == "RUN_FINISHED"
        # A stream that is sent again from its beginning may divide texts and calls in another way.
        kinds = _ONCE if agent in followers[1::2] else (*_ONCE, *_PIECES)
        counts = Counter(each.model_dump_json() for each in events if isinstance(each, kinds))
        assert set(counts.values()) == {1}
        assert counts.keys() >= {each.model_dump_json() for each in final if isinstance(each, kinds)}
    return killed


async def kill_the_one_that_runs(servers: Servers, workers: list[tuple[Program, str]], thread_id: str) -> None:
    """Kill the worker that has the run, and start another one at its address."""
    before = [*servers.pids]
    at = next(number for number, (program, _) in enumerate(workers) if program.pid == before[-1])
    program, url = workers[at]
    program.kill()
    workers[at] = await servers.start(int(url.rpartition(":")[2].strip("/")))
    # What is waited for happens in another process.
    while servers.pids == before and await status_of(workers[0][1], thread_id) == "running":  # noqa: ASYNC110
        await anyio.sleep(0.02)


async def read_all(agent: HttpAgent, events: list[Event]) -> None:
    async with agent.stream("look pay", run_id="r") as run:
        async for event in run:
            events.append(event)  # noqa: PERF401 - what was read is looked at if the run fails


async def follow_in_pieces(store: Store, thread_id: str, chance: random.Random, events: list[Event]) -> None:
    """Follow a run, and leave it again and again."""
    cursor: str | None = None
    while not (events and isinstance(events[-1], RunFinishedEvent | RunErrorEvent)):
        async with aclosing(store.runs.follow("r", after=cursor, thread_id=thread_id)) as followed:
            async for each in followed:
                cursor = each.cursor
                events.append(each.event)
                if chance.random() < 0.1:
                    break


async def iterated(events: list[Event]) -> AsyncGenerator[Event]:
    for event in events:
        yield event


def agent_messages(agent: AbstractAgent) -> list[Message]:
    return [each for each in agent.messages if each.role != "user"]
