"""Metrics of stores: what an operator can be woken by, measured through a store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from agui_client import Resolve
from agui_client._otel import STORE_METRICS
from agui_client.store import RunsUnavailableError, Store
from agui_client.store._sql.database import url_of
from agui_client.testing import Gate, ScriptedAgent, interrupt, text, turn
from support.on_call import signs_of
from support.postgres import PostgresServer
from support.telemetry import StoreMetrics
from support.waiting import until, until_sync

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 20.0
_GUIDE = Path(__file__).parents[3] / "docs" / "store.md"


def _store(url: str | None, *turns: Any, **options: Any) -> Store:
    store = Store(url, **options)
    store.runs.add("helper", ScriptedAgent(*turns, turn(text("Hello."))))
    return store


def _let_die(url: str) -> None:
    """Leave all that processes have to one that gives no sign of life."""
    _change(
        url,
        "update agui_runs set process_id = 'dead' where status = 'running'",
        "update agui_threads set process_id = 'dead'",
    )


def _let_take_over(url: str) -> None:
    """Give the runs that processes have to another one, which has taken them over and lives."""
    _change(
        url,
        "insert into agui_processes select 'other', max(alive_until) + 60000000 from agui_processes",
        "update agui_runs set process_id = 'other', attempt = attempt + 1",
    )


def _change(url: str, *statements: str) -> None:
    engine = sa.create_engine(url_of(url))
    with engine.begin() as database:
        for each in statements:
            database.execute(sa.text(each))
    engine.dispose()


async def test_take_overs_from_dead_processes_are_counted_and_writes_and_bytes_are_measured(
    database_url: str, metrics: StoreMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    with anyio.fail_after(_SECONDS):
        async with _store(database_url, turn(text("One."), gate)) as store, _store(database_url) as other:
            await store.runs.start("helper", "Hi", run_id="r")
            async with store.threads.open("t", ScriptedAgent(turn(text("Yes.")))):
                _let_die(database_url)
                await until(lambda: metrics.read("take_overs", "run"))
                async with other.threads.open("t", ScriptedAgent(turn(text("Yes.")))):
                    assert metrics.read("take_overs", "thread") == 1
            assert metrics.read("take_overs", "run") == 1
            assert metrics.read("write.duration") > 3
            signs = signs_of("a process is killed")
            assert signs.are_in(caplog.records)
            assert (signs.metrics, await store.ready()) == (["take_overs"], signs.is_ready)
            assert metrics.read("size") > 40_000
            assert metrics.read("outages") == metrics.read("lease.losses") == 0
            gate.open()


async def test_a_run_is_queued_until_it_has_its_turn(runs_url: str | None, metrics: StoreMetrics) -> None:
    gate = Gate()
    with anyio.fail_after(_SECONDS):
        async with _store(runs_url, turn(text("One."), gate), at_once=1) as store, anyio.create_task_group() as tasks:
            await store.runs.start("helper", "Hi", thread_id="t1")
            tasks.start_soon(lambda: store.runs.start("helper", "Hi", thread_id="t2"))
            await until(lambda: metrics.read("queued_runs", "at_once") == 1)
            gate.open()
            await until(lambda: metrics.read("queued_runs", "at_once") == 0)


async def test_a_run_is_queued_until_a_process_has_its_agent(
    database_url: str, metrics: StoreMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    signs = signs_of("no process has the agent")
    with anyio.fail_after(_SECONDS):
        async with _store(database_url, turn(interrupt("Proceed?", interrupt_id="i"))) as store:
            await store.runs.start("helper", "Hi", run_id="r")
            async for _ in store.runs.follow("r"):
                """It ends with a question."""
        async with Store(database_url, lease=0.5) as store, anyio.create_task_group() as tasks:
            tasks.start_soon(store.runs.answer, "r", {"i": Resolve(True)})
            await until(lambda: metrics.read("queued_runs", "no_agent") == 1)
            await until(lambda: signs.are_in(caplog.records))
            assert (signs.metrics, await store.ready()) == (["queued_runs"], signs.is_ready)
            async with _store(database_url):
                await until(lambda: metrics.read("queued_runs", "no_agent") == 0)


async def test_a_loop_that_does_not_turn_misses_renewals_of_the_lease_and_loses_it(
    database_url: str, metrics: StoreMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    signs = signs_of("a process is frozen")
    with anyio.fail_after(_SECONDS):
        async with _store(database_url, turn(text("One."), Gate()), lease=0.5, hung_after=0.1) as store:
            await store.runs.start("helper", "Hi", run_id="r")
            # A start on a busy machine may take longer than such a lease.
            before = metrics.read("lease.losses")
            # This blocks the loop, and no other thread.
            until_sync(lambda: metrics.read("lease.missed_renewals", "event_loop") > 5)
            assert metrics.read("lease.losses") == before
            _let_take_over(database_url)
            await until(lambda: metrics.read("lease.losses") == before + 1)
            await until(lambda: signs.are_in(caplog.records))
            assert (signs.metrics, await store.ready()) == (["lease.losses"], signs.is_ready)


async def test_an_outage_is_counted_once_and_its_seconds_while_it_lasts(tmp_path: Path, metrics: StoreMetrics) -> None:
    store = _store(f"sqlite:///{tmp_path / 'away' / 'runs.db'}")
    with anyio.fail_after(_SECONDS):
        with pytest.raises(RunsUnavailableError):
            await store.runs.list()
        await until(lambda: metrics.read("outages") == 1)
        assert metrics.read("outage.time") == 0
        with pytest.raises(RunsUnavailableError):
            await store.runs.list()
        await until(lambda: metrics.read("outage.time"))
        (tmp_path / "away").mkdir()
        async with store:
            await store.runs.start("helper", "Hi")
            # What comes behind the end of the outage is behind its measurement.
            await store.runs.start("helper", "Hi")
            assert metrics.read("outages") == 1
            passed = metrics.read("outage.time")
            await store.runs.start("helper", "Hi")
            assert metrics.read("outage.time") == passed


@pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it")
async def test_an_outage_of_a_server_misses_renewals_too(postgresql: PostgresServer, metrics: StoreMetrics) -> None:
    with anyio.fail_after(_SECONDS):
        async with _store(f"postgresql://{postgresql.new_database()}") as store:
            await store.runs.start("helper", "Hi")
            postgresql.stop()
            try:
                await until(lambda: metrics.read("outage.time") and metrics.read("lease.missed_renewals", "database"))
            finally:
                postgresql.start()
            await store.runs.start("helper", "Hi")
            assert metrics.read("outages") == 1


def test_the_guide_lists_each_metric_of_stores_with_its_unit() -> None:
    rows = re.findall(r"^\| `(agui\.store\.\S+)` \| `(\S+)` \|", _GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(name, unit) for name, (_, unit, _) in STORE_METRICS.items()]
