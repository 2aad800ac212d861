"""Runs that are kept: in pages, until their time has passed or their owner is deleted, and questions that expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta, tzinfo
from inspect import signature
from pathlib import Path
from typing import Any, Self

import anyio
import httpx
import pytest
import sqlalchemy as sa
from ag_ui.core import Event, RunAgentInput, RunFinishedCancelledOutcome, RunFinishedEvent, ToolCallResultEvent
from sqlalchemy import event

from agui_client import Approve, ConnectError, HttpAgent, HTTPStatusError, Resolve, UsageError, tool
from agui_client._core.agent.run_records import RunKey
from agui_client._core.tools import interrupts
from agui_client._core.tools.interrupts import is_expired
from agui_client.asgi import AgentApp, ASGITransport, ServedRequest, agent_app
from agui_client.store import Keeping, MemoryStore, OpenThread, RunStatus, Store, ThreadInfo
from agui_client.store._runs import database_keeper
from agui_client.store._runs.database_keeper import DatabaseBackend
from agui_client.store._runs.memory_keeper import MemoryBackend
from agui_client.store._sql import lease
from agui_client.store._sql.database import url_of
from agui_client.store._sql.runs import Runs as StoredRuns
from agui_client.store._sql.tables import GROUP, RUN
from agui_client.store._sql.times import StoreTimes
from agui_client.testing import Gate, ScriptedAgent, interrupt, text, tool_call, turn
from support.stores import FOR_ALL
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
EXPIRED = "Nobody answered in time: the request has expired."
_SECONDS = 30.0
_SECRET = "s3cr3t-of-ann"


def made(url: str | None, **options: Any) -> Store:
    """Runs with an agent that asks before it speaks, and one that speaks."""
    store = Store(url, **options)
    store.runs.add("asking", ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i")), turn(text("Done."))))
    store.runs.add("silent", ScriptedAgent(turn(text("One."), Gate())))
    store.runs.add("speaking", ScriptedAgent(turn(text("Hello."))))
    return store


async def run_to_its_end(store: Store, agent: str, run_id: str, owner: str = "") -> None:
    await store.runs.start(agent, "Hi", run_id=run_id, thread_id=f"thread of {run_id}", owner=owner)
    async for _ in store.runs.follow(run_id):
        pass


async def test_ended_runs_are_removed_in_sets_when_their_time_has_passed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(database_url) as store:
        for agent in ("asking", "speaking"):
            await run_to_its_end(store, agent, agent)
    engine = sa.create_engine(url_of(database_url))
    with engine.begin() as database:
        # All have ended long ago, and one has ended 250 times.
        database.execute(sa.update(RUN).values(ended_at=RUN.c.ended_at - 9 * 86_400_000_000))
        [row] = database.execute(sa.select(RUN).where(RUN.c.run_id == "speaking")).mappings()
        copies = [{**row, "row_id": f"copy {each}", "run_id": f"r{each}", "event_count": 10} for each in range(250)]
        database.execute(sa.insert(RUN), copies)
        groups = database.execute(sa.select(GROUP).where(GROUP.c.row_id == row["row_id"])).mappings().all()
        database.execute(sa.insert(GROUP), [{**each, "row_id": copy["row_id"]} for copy in copies for each in groups])
    deleted: list[int] = []

    def note(_: Any, cursor: Any, statement: str, *__: Any) -> None:
        if statement.startswith("DELETE FROM agui_runs "):
            deleted.append(cursor.rowcount)

    event.listen(sa.Engine, "after_cursor_execute", note)
    monkeypatch.setattr(database_keeper, "_BETWEEN_CLEANINGS", 0.02)
    try:
        with anyio.fail_after(_SECONDS):
            async with made(database_url) as store:
                while len(await store.runs.list()) > 1:  # noqa: ASYNC110 - it is removed in a thread
                    await anyio.sleep(0.01)
                assert [(each.run_id, each.event_count) for each in await store.runs.list()] == [("asking", 2)]
    finally:
        event.remove(sa.Engine, "after_cursor_execute", note)
    # A set has about a thousand events, so that nothing waits long for its end.
    assert (sum(deleted), len(deleted)) == (251, 3)
    assert left(engine) == [("asking", 2)]
    engine.dispose()


async def test_a_run_that_ends_while_its_owner_is_removed_is_removed_too(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    want_stop = StoredRuns.want_stop
    async with made(database_url) as store:

        async def want_stop_too_late(self: StoredRuns, **which: Any) -> int:
            monkeypatch.setattr(StoredRuns, "want_stop", want_stop)
            await store.runs.stop("going on")
            return await want_stop(self, **which)

        await store.runs.start("silent", "Hi", run_id="going on", thread_id="a", owner="ann")
        with anyio.fail_after(_SECONDS):
            monkeypatch.setattr(StoredRuns, "want_stop", want_stop_too_late)
            assert await store.runs.delete(owner="ann") == 1
            assert await store.runs.list() == []


async def test_all_runs_of_an_owner_are_stopped_and_removed_wherever_they_are(runs_url: str | None) -> None:
    async with made(runs_url) as store:
        await store.runs.start("silent", "Hi", run_id="going on", thread_id="a", owner="ann")
        for agent, owner in (("asking", "ann"), ("asking", "bob"), ("speaking", "ann")):
            await run_to_its_end(store, agent, f"{agent} {owner}", owner)
        with anyio.fail_after(_SECONDS):
            seen: list[Event] = []

            async def follow() -> None:
                async for _, each in store.runs.follow("going on"):
                    seen.append(each)

            # As from a script: with a URL, other Runs stop and remove those of this one.
            async with (
                Store(runs_url) if runs_url else nullcontext(store) as script,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(follow)
                await until(lambda: len(seen) > 2, _SECONDS)
                assert (await script.runs.delete(owner="ann"), await script.runs.delete(owner="ann")) == (3, 0)
                assert [each.run_id for each in await script.runs.list()] == ["asking bob"]
            assert isinstance(seen[-1], RunFinishedEvent)
            assert seen[-1].outcome == RunFinishedCancelledOutcome()
            for work in (
                store.runs.info("going on"),
                store.runs.info("speaking ann"),
                store.runs.answer("asking ann", {"i": Approve()}),
            ):
                with pytest.raises(UsageError, match="no run"):
                    await work
            # Others keep theirs, and the owner may begin anew.
            await store.runs.answer("asking bob", {"i": Approve()})
            await run_to_its_end(store, "speaking", "speaking ann", "ann")
            assert await store.runs.delete(everybody=True) == 3
            assert await store.runs.list() == []
    if runs_url is not None:
        engine = sa.create_engine(url_of(runs_url))
        assert left(engine) == []
        engine.dispose()


@pytest.mark.parametrize("named", [{}, {"owner": None}, {"owner": 3}, {"owner": "ann", "everybody": True}])
async def test_an_owner_or_everybody_is_named_before_runs_and_threads_are_deleted(named: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"delete takes|owner= takes"):
        await Store().delete(**named)
    deleted: Any = Store().threads.delete
    with pytest.raises(UsageError, match=r"delete takes|owner= takes"):
        await deleted(**named)


def left(engine: sa.Engine) -> Sequence[tuple[str, int]]:
    """The runs whose events are stored, with the numbers of these."""
    counted = sa.select(RUN.c.run_id, sa.func.sum(GROUP.c.event_count)).select_from(
        sa.outerjoin(GROUP, RUN, GROUP.c.row_id == RUN.c.row_id)
    )
    with engine.connect() as database:
        return [(row[0], int(row[1])) for row in database.execute(counted.group_by(RUN.c.run_id))]


@pytest.mark.parametrize("place", ["plain", "stored"])
async def test_a_question_that_nobody_answers_in_time_is_denied_and_its_run_ends_cancelled(
    runs_url: str | None, place: str
) -> None:
    paid: list[str] = []

    @tool(approval="always")
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    payer = ScriptedAgent(turn(tool_call("pay", tool_call_id="c")), turn(text("Never.")), agent_id="payer", tools=[pay])
    store, threads = Store(runs_url, answer_within=0.2), Store().threads

    def stored(request: ServedRequest, asked: RunAgentInput) -> OpenThread[ScriptedAgent]:
        served.append((request.path, request.caller))
        return threads.open(asked.thread_id, payer)

    served: list[tuple[str, object]] = []
    chosen = stored if place == "stored" else payer
    secret = "a secret of these tests"
    app = agent_app(
        chosen,
        store=store,
        keeping=Keeping(threads="transcripts"),
        secret=secret,
        authorize=lambda _method, _path, _headers: "ann",
    )
    page = HttpAgent("http://app/", app=app, thread_id="t", connect_url="http://app/connect")
    async with store, httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app/") as client:
        result = await page.run_agent("Pay.", run_id="r")
        [asked] = result.interrupts
        assert asked.expires_at is not None
        with anyio.fail_after(_SECONDS):
            while len(infos := await store.runs.list()) < 2 or infos[0].status is RunStatus.RUNNING:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        ended = [event async for _, event in store.runs.follow(infos[0].run_id)]
        entry = {"interruptId": asked.id, "status": "resolved", "payload": {"approved": True}}
        link = await client.post("answer", json={"runId": "r", "resume": [entry]})
        given = {
            "threadId": "t",
            "runId": "late",
            "messages": [each.model_dump(by_alias=True) for each in page.messages],
        }
        late = await client.post("", json={**given, "resume": [entry]})
    assert [each.status.value for each in infos] == ["stopped", "finished"]
    assert [each.content for each in ended if isinstance(each, ToolCallResultEvent)] == [EXPIRED]
    assert isinstance(ended[-1], RunFinishedEvent)
    assert ended[-1].outcome == RunFinishedCancelledOutcome()
    assert (link.status_code, late.status_code, paid) == (410, 409, [])
    if place == "stored":
        saved = await threads.get("t")
        assert saved is not None
        assert [each.content for each in saved.conversation.messages] == ["Pay.", None, EXPIRED]
        assert saved.conversation.pending_interrupts == []
        # The denial, which no request asks for, opens the thread as the request did.
        assert served == [("/", "ann")] * max(2, len(served))


async def test_an_answer_that_comes_too_late_is_refused_before_anybody_has_looked(
    runs_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overdue(self: object, seconds: float) -> list[RunKey]:
        return []

    for keeper in (MemoryBackend, DatabaseBackend):
        monkeypatch.setattr(keeper, "overdue", overdue)
    store = Store(runs_url, answer_within=0.01)
    asking_agent = ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i")), turn(text("Done.")))
    app = agent_app(asking_agent, store=store, **FOR_ALL)
    async with store, httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app/") as client:
        asking = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "Hi"}]}
        await client.post("", json=asking)
        [asked] = (await store.runs.info("r")).interrupts
        await until(lambda: is_expired(asked), _SECONDS)
        entry = {"interruptId": asked.id, "status": "resolved", "payload": True}
        answers = [await client.post("answer", json={"runId": "r", "resume": [entry]})]
        answers.append(await client.post("", json={**asking, "runId": "late", "resume": [entry]}))
        with pytest.raises(UsageError, match="expired at"):
            await store.runs.answer("r", {asked.id: Resolve(True)})
        # Whoever gives up may still say so.
        answers.append(await client.post("answer", json={"runId": "r", "resume": [{**entry, "status": "cancelled"}]}))
    assert [each.status_code for each in answers] == [410, 410, 200]


async def test_runs_are_listed_in_pages_here_and_over_http(runs_url: str | None) -> None:
    store = made(runs_url)
    app = agent_app(
        ScriptedAgent(turn()),
        store=store,
        keeping=Keeping(threads="transcripts"),
        authorize=lambda _method, _path, _headers: "ann",
    )
    async with store, httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app/") as client:
        for number in range(7):
            await run_to_its_end(store, "speaking", f"r{number}", "bob" if number == 4 else "ann")
        seen: list[str] = []
        last = None
        while page := await store.runs.list(owner="ann", limit=2, after=last):
            seen += [each.run_id for each in page]
            last = page[-1]
        first = (await client.post("runs", json={"limit": 4})).json()
        rest = (await client.post("runs", json={"limit": 4, "after": first[-1]})).json()
        assert seen == [each["runId"] for each in (*first, *rest)] == ["r6", "r5", "r3", "r2", "r1", "r0"]
        # A run that has been removed since names its place all the same.
        third = (await store.runs.list(limit=3))[-1]
        await store.runs.delete(owner="bob")
        assert [third.owner, *(each.run_id for each in await store.runs.list(after=third, limit=2))] == [
            "bob",
            "r3",
            "r2",
        ]
        refused = await client.post("runs", json={"after": {"runId": "r6"}})
        assert refused.status_code == 422
        limits: list[Any] = [-1, True, "2"]
        for limit in limits:
            with pytest.raises(UsageError, match="limit= is a number of runs"):
                await store.runs.list(limit=limit)


async def test_the_inbox_of_a_person_has_the_runs_that_wait_here_and_over_http(runs_url: str | None) -> None:
    store = made(runs_url)
    app = agent_app(
        ScriptedAgent(turn()),
        store=store,
        keeping=Keeping(threads="transcripts"),
        authorize=lambda _method, _path, _headers: "ann",
    )
    agent = HttpAgent("http://app/", app=app)
    async with store:
        for number in range(9):
            owner = "bob" if number == 4 else "ann"
            await run_to_its_end(store, "speaking" if number % 2 else "asking", f"r{number}", owner)
        seen, last = list[str](), None
        while page := await store.runs.list(owner="ann", status="waiting", limit=2, after=last):
            seen += [each.run_id for each in page]
            last = page[-1]
        there = await agent.runs.list(status=RunStatus.WAITING)
        assert seen == [each.run_id for each in there] == ["r8", "r6", "r2", "r0"]
        assert [each.interrupts[0].id for each in there] == ["i"] * 4
        assert [each.run_id for each in await store.runs.list(status="waiting", limit=3)] == ["r8", "r6", "r4"]
        assert [each.run_id for each in await agent.runs.list(status="finished", limit=2)] == ["r7", "r5"]
        following = await store.runs.answer("r6", {"i": Resolve(True)})
        async for _ in store.runs.follow(following.run_id):
            pass
        assert [each.run_id for each in await agent.runs.list(status="waiting", limit=2)] == ["r8", "r2"]
        for runs in (store.runs, agent.runs):
            with pytest.raises(UsageError, match="status= is one of running, waiting, finished"):
                await runs.list(status="wait")


async def test_a_list_of_runs_that_wait_reads_no_others(database_url: str) -> None:
    plans = list[str]()

    def explain(_connection: sa.Connection, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if "interrupts" not in statement or not statement.startswith("SELECT"):
            return
        if database_url.startswith("sqlite"):
            cursor.execute(f"explain query plan {statement}", parameters)
        else:
            cursor.execute("set local enable_seqscan = off")  # which a table of three rows has rather
            cursor.execute(f"explain {statement}", parameters)
        plans.append(str(cursor.fetchall()))

    async with made(database_url) as store:
        await run_to_its_end(store, "asking", "r", "ann")
        event.listen(sa.Engine, "before_cursor_execute", explain)
        try:
            assert len(await store.runs.list(owner="ann", status="waiting")) == 1
        finally:
            event.remove(sa.Engine, "before_cursor_execute", explain)
    assert any("agui_runs_waiting_by_time" in each for each in plans), plans


async def test_runs_and_threads_are_ready_as_long_as_their_place_answers(runs_url: str | None, tmp_path: Path) -> None:
    store = made(runs_url)
    assert await store.ready()
    await store.aclose()
    assert not await store.ready()

    class Silent(MemoryStore):
        async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
            await asyncio.sleep(_SECONDS)
            return await super().list(owner, limit, after)

    nowhere = tmp_path / "missing" / "threads.db"
    for place, is_ready in ((None, True), (f"sqlite:///{nowhere}", False), (Silent(), False)):
        async with Store(place) as store:
            assert await store.ready(within=0.2) is is_ready


async def test_a_store_has_two_seconds_to_say_that_it_is_ready_unless_a_program_gives_it_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, limit = list[float | None](), asyncio.timeout

    def note(seconds: float | None) -> asyncio.Timeout:
        given.append(seconds)
        return limit(seconds)

    monkeypatch.setattr(asyncio, "timeout", note)
    async with Store() as store:
        assert await store.ready()
        assert await store.ready(within=0.2)
    assert given == [2.0, 0.2]


def test_a_database_is_used_with_the_times_that_a_store_names() -> None:
    named = {name: signature(Store).parameters[name].default for name in StoreTimes._fields}
    assert StoreTimes() == StoreTimes(**named)


async def test_of_a_caller_its_owner_and_what_keep_caller_returns_are_stored_and_no_secret(database_url: str) -> None:
    seen: list[tuple[str, object, str]] = []

    def new_app() -> AgentApp:
        def choose(request: ServedRequest, asked: RunAgentInput) -> ScriptedAgent:
            seen.append((request.path, request.caller, request.owner))
            return ScriptedAgent(turn(text("One."), Gate()) if len(seen) == 1 else turn(text("Two.")))

        about: Any = {"store": Store(database_url), "authorize": authorize, "owner_of": _user}
        return agent_app(choose, keeping=Keeping(caller=lambda caller: (caller["user"], "trial")), **about)

    def authorize(_method: str, _path: str, headers: Mapping[str, str]) -> dict[str, str]:
        return {"user": "ann", "token": headers["authorization"]}

    url = f"http://app/plans?key={_SECRET}"
    headers = {"authorization": f"Bearer {_SECRET}", "cookie": f"session={_SECRET}", "x-api-key": _SECRET}
    with anyio.fail_after(_SECONDS):
        app = new_app()
        async with app.lifespan():
            page = HttpAgent(url, app=app, headers=headers, thread_id="t")
            async with page.stream("Hi", run_id="r") as run:
                assert await anext(run.text_stream) == "One."
        left_by_first = stored_bytes(database_url)
        app = new_app()
        async with app.lifespan():
            page = HttpAgent(url, app=app, headers=headers, thread_id="t")
            assert (await page.run_agent("Hi", run_id="r")).text == "Two."
    assert seen == [("/plans", ["ann", "trial"], "ann")] * 2
    for stored in (left_by_first, stored_bytes(database_url)):
        assert (b"trial" in stored, _SECRET.encode() in stored) == (True, False)


@pytest.mark.parametrize("attribute", ["headers", "scope"])
async def test_a_function_that_reads_what_is_not_stored_fails_at_its_first_request_and_is_told_the_way(
    tmp_path: Path, attribute: str
) -> None:
    def choose(request: ServedRequest, asked: RunAgentInput) -> ScriptedAgent:
        assert request.caller == "ann"
        return ScriptedAgent(turn(text(str(len(getattr(request, attribute))))))

    about: Any = {"store": Store(f"sqlite:///{tmp_path / 'agents.db'}"), "owner_of": _user}
    app = agent_app(choose, authorize=lambda _, __, ___: {"user": "ann"}, expose_errors=True, **about)
    async with app.lifespan():
        for verb in ("run_agent", "connect_agent"):
            agent = HttpAgent("http://app/", app=app, connect_url="http://app/connect")
            with pytest.raises(HTTPStatusError, match=rf"request\.{attribute} cannot be read .*Keeping\(caller="):
                await getattr(agent, verb)()


async def test_what_keep_caller_returns_is_json_and_needs_runs(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match=r"Keeping\(caller=\) takes a function"):
        Keeping(caller="ann")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="keeping= says what a store keeps, and needs store="):
        agent_app(ScriptedAgent(turn()), keeping=Keeping(caller=_user))
    app = agent_app(
        ScriptedAgent(turn()),
        store=Store(),
        owner_of=lambda _: "",
        keeping=Keeping(threads="transcripts", caller=lambda caller: {caller}),
    )
    with pytest.raises(ConnectError, match="the app raised TypeError"):
        await HttpAgent("http://app/", app=app).run_agent("Hi")
    assert "Keeping(caller=) returned a set, which cannot be stored with a run" in caplog.text


def _user(caller: dict[str, str]) -> str:
    return caller["user"]


def stored_bytes(url: str) -> bytes:
    """All that a database has, row by row, and of SQLite also the bytes of its files."""
    made_url = url_of(url)
    engine, found = sa.create_engine(made_url), list[bytes]()
    with engine.connect() as database:
        for name in sa.inspect(database).get_table_names():
            for row in database.execute(sa.text(f"select * from {name}")):
                found += [each if isinstance(each, bytes) else str(each).encode() for each in row]
    engine.dispose()
    if made_url.get_backend_name() == "sqlite":
        file = Path(str(made_url.database))
        found += [each.read_bytes() for each in file.parent.glob(f"{file.name}*")]
    return b"\0".join(found)


async def test_questions_expire_by_the_clock_of_the_database_whatever_that_of_the_machine_says(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        """A clock that is an hour ahead."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=1)

    real = time.time
    monkeypatch.setattr(lease, "time", lambda: real() + 3600)
    monkeypatch.setattr(interrupts, "datetime", Ahead)
    async with made(database_url, answer_within=60) as store:
        await run_to_its_end(store, "asking", "asks")
        [asked] = (await store.runs.list())[0].interrupts
        assert asked.expires_at is not None
        assert abs(datetime.fromisoformat(asked.expires_at).timestamp() - real() - 60) < _SECONDS
        answer = await store.runs.answer("asks", {asked.id: Resolve("Yes")})
        assert [event.type.value async for _, event in store.runs.follow(answer.run_id)][-1] == "RUN_FINISHED"
