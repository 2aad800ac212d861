"""What docs promise the operator of a database: commands and snippets of docs/operate.md, store.md and engines.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from ag_ui.core import RunAgentInput

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
import psycopg
import sqlalchemy as sa

from agui_client import Approve, ThreadStoreUnavailableError, ToolContext, UsageError, tool
from agui_client.store import RunsUnavailableError, Store
from agui_client.store._sql.database import url_of
from agui_client.testing import Gate, ScriptedAgent, Step, serve, text, tool_call, turn
from support.on_call import rows
from support.pgbouncer import pgbouncer
from support.postgres import PostgresServer, postgres_server
from support.snippets import ROOT, SNIPPETS
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0
_PAGE = (ROOT / "docs" / "operate.md").read_text("utf-8")
_REFERENCE = (ROOT / "docs" / "store.md").read_text("utf-8")
_JOBS = (ROOT / "docs" / "engines.md").read_text("utf-8")
_SNIPPETS = [each for each in SNIPPETS.findall(_REFERENCE) if "HOSTS = " in each or "def store_of" in each]
_POSTGRESQL = pytest.param(
    "postgresql",
    marks=pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it"),
)


class Place:
    """A database, and the commands of the page for it.

    Args:
        kind: The kind of the database.
        url: Its URL.
        folder: The folder in which commands are carried out.
        programs: The folder of the programs of PostgreSQL.
    """

    def __init__(self, kind: str, url: str, folder: Path, programs: Path | None) -> None:
        self.url = url
        """The URL."""
        self._kind, self._folder, self._programs = kind, folder, programs

    def do(self, what: str) -> None:
        """Carry out a command of the page."""
        [command] = re.findall(rf"<!-- database:{what}-{self._kind} -->\n```sh\n(.*)\n```", _PAGE)
        environment = {**os.environ, "DATABASE_URL": self.url}
        if self._programs is not None:
            environment["PATH"] = f"{self._programs}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(params=["sqlite", _POSTGRESQL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        if shutil.which("sqlite3") is None:
            pytest.skip("the program sqlite3 is not installed: apt-get install sqlite3")
        return Place("sqlite", f"sqlite:///{tmp_path / 'service.db'}", tmp_path, None)
    server: PostgresServer = request.getfixturevalue("postgresql")
    return Place("postgresql", f"postgresql://{server.new_database()}", tmp_path, server.programs)


class Bank:
    """A bank that knows payments again by their keys, and the stores of a service that pays."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        """The keys of all requests."""
        self.answers, self.asks = Gate(), Gate()
        self._numbers = iter(range(1, 100))

    def store(self, url: str) -> Store:
        """Return a store whose agents pay."""

        async def transfer(ctx: ToolContext) -> str:
            """Pay."""
            self.requests.append(ctx.tool_call_id)
            await self.answers.wait()
            return "paid"

        tools = [tool(transfer, name="transfer"), tool(transfer, name="transfer_if_approved", approval="always")]

        async def play(input: RunAgentInput) -> AsyncIterator[Step]:
            prompt = str(next(each.content for each in input.messages if each.role == "user"))
            if input.messages[-1].role == "tool":
                yield turn(text(f"{input.messages[-1].content}."))
            elif prompt == "later":
                yield turn(self.asks, tool_call("transfer", {}, tool_call_id=f"call-{next(self._numbers)}"))
            else:
                name = "transfer_if_approved" if prompt == "asked" else "transfer"
                yield turn(tool_call(name, {}, tool_call_id=f"call-{prompt}"))

        made = Store(url, lease=0.5)
        made.runs.add("payer", lambda thread: made.threads.open(thread, ScriptedAgent(play, tools=tools), owner="ann"))
        return made


async def _told(store: Store, thread_id: str) -> str:
    """Wait until the agent has said its last word in a thread, and return it."""
    while True:
        saved = await store.threads.get(thread_id, owner="ann")
        last = saved.conversation.messages[-1] if saved is not None else None
        if last is not None and last.role == "assistant" and last.content:
            return last.content
        await anyio.sleep(0.02)


async def _until_waiting(store: Store) -> None:
    while not [each for each in await store.runs.list() if each.status == "waiting"]:  # noqa: ASYNC110
        await anyio.sleep(0.02)


async def _approve(store: Store) -> None:
    [waiting] = [each for each in await store.runs.list() if each.status == "waiting"]
    await store.runs.answer(waiting.run_id, {each.id: Approve() for each in waiting.interrupts})


async def test_a_service_on_an_older_backup_asks_again_and_pays_with_the_same_key(place: Place) -> None:
    bank = Bank()
    with anyio.fail_after(_SECONDS):
        async with bank.store(place.url) as store:
            for each in ("asked", "begun", "later"):
                await store.runs.start("payer", each, thread_id=each, run_id=each, owner="ann")
            await until(lambda: bank.requests == ["call-begun"])
            await _until_waiting(store)
            await anyio.to_thread.run_sync(place.do, "backup")
            bank.answers.open()
            bank.asks.open()
            await _approve(store)
            assert [await _told(store, each) for each in ("asked", "begun", "later")] == ["paid."] * 3
        assert sorted(bank.requests) == ["call-1", "call-asked", "call-begun"]
        await anyio.to_thread.run_sync(place.do, "restore")
        async with bank.store(place.url) as store:
            await _approve(store)
            told = {each: await _told(store, each) for each in ("asked", "begun", "later")}
    # The call that was approved has its key again; the one that had begun is not made; the last one has a new id.
    assert sorted(bank.requests) == ["call-1", "call-2", "call-asked", "call-asked", "call-begun"]
    assert (told["asked"], told["later"]) == ("paid.", "paid.")
    assert told["begun"].startswith("unknown")


async def test_what_was_deleted_since_a_backup_is_there_again(place: Place) -> None:
    bank = Bank()
    with anyio.fail_after(_SECONDS):
        async with bank.store(place.url) as store:
            await store.runs.start("payer", "asked", thread_id="asked", owner="ann")
            await _until_waiting(store)
            await anyio.to_thread.run_sync(place.do, "backup")
            await store.delete(owner="ann")
        await anyio.to_thread.run_sync(place.do, "restore")
        async with bank.store(place.url) as store:
            assert len(await store.threads.list(owner="ann")) == 1


async def test_a_copy_of_the_file_alone_is_no_backup(tmp_path: Path) -> None:
    async with Store(f"sqlite:///{tmp_path / 'service.db'}") as store:
        async with store.threads.open("t", ScriptedAgent(turn(text("Yes.")))) as agent:
            await agent.run_agent("Hi")
        shutil.copy(tmp_path / "service.db", tmp_path / "copy.db")
    async with Store(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert await copy.threads.get("t") is None


# --- poolers, standbys, schemas


def _schemas(url: str, *names: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        for each in names:
            database.execute(f"create schema {each}".encode())


def _snippets(url: str) -> dict[str, Any]:
    """The names of the page's first snippets, with the addresses of a database of this machine."""
    user_and_host, _, name = url.removeprefix("postgresql://").partition("/")
    code = "\n".join(_SNIPPETS)
    code = code.replace("agui@db1.internal/service", f"{user_and_host}/{name}")
    names: dict[str, Any] = {}
    exec(code, names)
    return names


async def test_each_tenant_has_a_schema_which_is_all_that_a_store_has_of_it(postgresql: PostgresServer) -> None:
    url = f"postgresql://{postgresql.new_database()}"
    _schemas(url, "acme", "other")
    store_of = _snippets(url)["store_of"]
    async with store_of("acme") as acme, store_of("other") as other:
        async with acme.threads.open("t", ScriptedAgent(turn(text("Yes.")))) as agent:
            await agent.run_agent("Hi")
        other.runs.add("helper", ScriptedAgent(turn(text("No."))))
        await other.runs.start("helper", "Hi", thread_id="t")
        assert (len(await acme.threads.list()), len(await other.threads.list())) == (1, 0)
        assert (len(await acme.runs.list()), len(await other.runs.list())) == (0, 1)
        with psycopg.connect(url, autocommit=True) as database:
            of = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            assert (database.execute(of).fetchone() or (9,))[0] <= 4
    with psycopg.connect(url, autocommit=True) as database:
        where = "select distinct table_schema from information_schema.tables where table_name like 'agui%'"
        assert sorted(row[0] for row in database.execute(where)) == ["acme", "other"]
        database.execute("drop schema acme cascade")
    async with store_of("other") as other:
        assert len(await other.runs.list()) == 1


async def test_behind_a_pooler_the_role_of_a_tenant_names_its_schema(postgresql: PostgresServer) -> None:
    address = postgresql.new_database()
    url = f"postgresql://{address}"
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("create role tenant login")
        database.execute("create schema tenant authorization tenant")
        database.execute("alter role tenant set search_path = tenant")
    with pgbouncer(address, role="tenant") as pooled:
        async with Store(f"postgresql://{pooled}") as store:
            async with store.threads.open("t", ScriptedAgent(turn(text("Yes.")))) as agent:
                await agent.run_agent("Hi")
            assert await store.ready()
        with pytest.raises(ThreadStoreUnavailableError, match="options"):
            await Store(f"postgresql://{pooled}?options=-csearch_path%3Dtenant").threads.list()
    with psycopg.connect(url) as database:
        assert database.execute("select count(*) from tenant.agui_threads").fetchone() == (1,)


@pytest.mark.parametrize("mode", ["session", "statement"])
async def test_of_the_modes_of_a_pooler_only_that_without_transactions_is_refused(
    mode: str, postgresql: PostgresServer
) -> None:
    with pgbouncer(postgresql.new_database(), mode=mode) as pooled:
        store = Store(f"postgresql://{pooled}", patience=0.5)
        assert await store.ready() is (mode == "session")
        await store.aclose()


async def test_a_store_finds_the_new_primary_and_nothing_that_was_confirmed_is_lost() -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(text("One.")), turn(text("Two."), gate))
    with ExitStack() as stack:
        primary = stack.enter_context(postgres_server())
        standby = stack.enter_context(postgres_server(primary))
        with psycopg.connect(f"postgresql://{primary.address}", autocommit=True) as admin:
            admin.execute("alter system set synchronous_standby_names = '*'")
            admin.execute("select pg_reload_conf()")
        ports = [re.findall(r":(\d+)/", each.address)[0] for each in (standby, primary)]
        hosts = "&".join(f"host=127.0.0.1:{port}" for port in ports)
        names: dict[str, Any] = {}
        snippet = _SNIPPETS[0].replace("agui@/service", "agui@/postgres")
        exec(re.sub(r'HOSTS = ".*"', f'HOSTS = "{hosts}"', snippet), names)
        store: Store = names["store"]
        store.runs.add("helper", lambda thread: store.threads.open(thread, agent))
        with anyio.fail_after(_SECONDS):
            async with store:
                await store.runs.start("helper", "Hi", run_id="r1", thread_id="t")
                events = [each.event.type.value async for each in store.runs.follow("r1")]
                await _reads_threads_alone(f"postgresql://{standby.address}")
                await store.runs.start("helper", "Hi again", run_id="r2", thread_id="t")
                await anyio.to_thread.run_sync(primary.stop)
                gate.open()
                assert not await store.ready()
                await anyio.to_thread.run_sync(standby.promote)
                events += [each.event.type.value async for each in store.runs.follow("r2")]
                saved = await store.threads.get("t")
        primary.start()  # for the end of its block
    assert events.count("RUN_FINISHED") == 2
    assert saved is not None
    assert [str(each.content) for each in saved.conversation.messages] == ["Hi", "One.", "Hi again", "Two."]


async def _reads_threads_alone(url: str) -> None:
    """See that a store with the URL of a standby does what the page says."""
    async with AsyncExitStack() as stack:
        store = Store(url, patience=0.2)
        stack.push_async_callback(store.aclose)
        assert [each.thread_id for each in await store.threads.list()] == ["t"]
        assert await store.threads.get("t") is not None
        assert await store.threads.export("t")
        assert not await store.ready()
        with pytest.raises(RunsUnavailableError):
            await store.runs.list()
        with pytest.raises(ThreadStoreUnavailableError):
            async with store.threads.open("new", ScriptedAgent(turn(text("No.")))) as agent:
                await agent.run_agent("Hi")


# --- jobs


def _job(folder: str, url: str, answers: Any, *, dies: bool = False) -> None:
    """Carry out the job of the page in a forked process, as Celery's pool does."""
    os.chdir(folder)
    [code] = [each for each in SNIPPETS.findall(_JOBS) if each.startswith("# job.py")]
    code = code.replace("http://localhost:8000/", url).replace("import asyncio", "import asyncio, os")
    if dies:
        code = code.replace("        async for _, event", "        os._exit(9)\n        async for _, event", 1)
    names: dict[str, Any] = {}
    try:
        exec(code, names)
    except UsageError as error:
        answers.put(f"again: {error}")
    else:
        answers.put(names["text"])


async def test_a_job_that_is_begun_again_is_one_run(tmp_path: Path) -> None:
    asked = list[str]()

    async def play(input: RunAgentInput) -> AsyncIterator[Step]:
        asked.append(str(input.messages[-1].content))
        yield turn(text("All is well."))

    context = get_context("fork")
    answers = context.Queue()
    with serve(ScriptedAgent(play)) as server:
        for dies in (True, False, False):
            job = context.Process(target=partial(_job, str(tmp_path), server.url, answers, dies=dies))
            job.start()
            await anyio.to_thread.run_sync(job.join, _SECONDS)
            assert job.exitcode == (9 if dies else 0)
    assert [answers.get(timeout=_SECONDS) for _ in range(2)] == ["All is well."] * 2
    assert 1 <= len(asked) <= 2, "the run that was cut is run again, and no other one"
    assert set(asked) == {"Write the report of 2026-12-24."}


async def test_a_process_of_an_older_version_does_not_start_and_says_why(place: Place) -> None:
    [row] = [each for each in rows() if each[0] == "a newer version has made the tables"]
    [sentence] = re.findall(r'"(.*?)"', row[1])
    async with Bank().store(place.url) as store:
        assert await store.ready()
    engine = sa.create_engine(url_of(place.url))
    with engine.begin() as database:
        database.execute(sa.text("update agui_versions set version = 99"))
    engine.dispose()
    with pytest.raises(UsageError, match=sentence):
        await Bank().store(place.url).__aenter__()
