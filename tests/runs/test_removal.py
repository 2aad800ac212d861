"""Runs that are removed: those whose time has passed, and those of an owner."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from ag_ui.core import Event, RunFinishedCancelledOutcome, RunFinishedEvent
from sqlalchemy import event

from agui_client import Approve, UsageError
from agui_client.runs import Runs, database_keeper
from agui_client.runs.run_tables import GROUP, RUN, url_of
from agui_client.testing import Gate, ScriptedAgent, interrupt, text, turn
from agui_client.threads import Threads
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0


def made(url: str | None, **options: Any) -> Runs:
    """Runs with an agent that asks before it speaks, and one that speaks."""
    runs = Runs(url, **options)
    runs.add("asking", ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i")), turn(text("Done."))))
    runs.add("silent", ScriptedAgent(turn(text("One."), Gate())))
    runs.add("speaking", ScriptedAgent(turn(text("Hello."))))
    return runs


async def run_to_its_end(runs: Runs, agent: str, run_id: str, owner: str = "") -> None:
    await runs.start(agent, "Hi", run_id=run_id, thread_id=f"thread of {run_id}", owner=owner)
    async for _ in runs.follow(run_id):
        pass


async def test_ended_runs_are_removed_in_sets_when_their_time_has_passed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(database_url) as runs:
        for agent in ("asking", "speaking"):
            await run_to_its_end(runs, agent, agent)
    engine = sa.create_engine(url_of(database_url))
    with engine.begin() as database:
        # All have ended long ago, and one has ended 250 times.
        database.execute(sa.update(RUN).values(ended_at=RUN.c.ended_at - 9 * 86400))
        [row] = database.execute(sa.select(RUN).where(RUN.c.run_id == "speaking")).mappings()
        copies = [{**row, "row_id": f"copy {each}", "run_id": f"r{each}", "event_count": 10} for each in range(250)]
        database.execute(sa.insert(RUN), copies)
        groups = database.execute(sa.select(GROUP).where(GROUP.c.row_id == row["row_id"])).mappings().all()
        database.execute(sa.insert(GROUP), [{**each, "row_id": copy["row_id"]} for copy in copies for each in groups])
    deleted: list[int] = []

    def note(_: Any, cursor: Any, statement: str, *__: Any) -> None:
        if statement.startswith("DELETE FROM agui_run "):
            deleted.append(cursor.rowcount)

    event.listen(sa.Engine, "after_cursor_execute", note)
    monkeypatch.setattr(database_keeper, "_BETWEEN_CLEANINGS", 0.02)
    try:
        with anyio.fail_after(_SECONDS):
            async with made(database_url) as runs:
                while len(await runs.list()) > 1:  # noqa: ASYNC110 - it is removed in a thread
                    await anyio.sleep(0.01)
                assert [(each.run_id, each.event_count) for each in await runs.list()] == [("asking", 2)]
    finally:
        event.remove(sa.Engine, "after_cursor_execute", note)
    # A set has about a thousand events, so that nothing waits long for its end.
    assert (sum(deleted), len(deleted)) == (251, 3)
    assert left(engine) == [("asking", 2)]
    engine.dispose()


async def test_all_runs_of_an_owner_are_stopped_and_removed_wherever_they_are(runs_url: str | None) -> None:
    async with made(runs_url) as runs:
        await runs.start("silent", "Hi", run_id="going on", thread_id="a", owner="ann")
        for agent, owner in (("asking", "ann"), ("asking", "bob"), ("speaking", "ann")):
            await run_to_its_end(runs, agent, f"{agent} {owner}", owner)
        with anyio.fail_after(_SECONDS):
            seen: list[Event] = []

            async def follow() -> None:
                async for _, each in runs.follow("going on"):
                    seen.append(each)

            # As from a script: with a URL, other Runs stop and remove those of this one.
            async with Runs(runs_url) if runs_url else nullcontext(runs) as script, anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await until(lambda: len(seen) > 2, _SECONDS)
                assert (await script.delete(owner="ann"), await script.delete(owner="ann")) == (3, 0)
                assert [each.run_id for each in await script.list()] == ["asking bob"]
            assert isinstance(seen[-1], RunFinishedEvent)
            assert seen[-1].outcome == RunFinishedCancelledOutcome()
            for work in (runs.info("going on"), runs.info("speaking ann"), runs.answer("asking ann", {"i": Approve()})):
                with pytest.raises(UsageError, match="no run"):
                    await work
            # Others keep theirs, and the owner may begin anew.
            await runs.answer("asking bob", {"i": Approve()})
            await run_to_its_end(runs, "speaking", "speaking ann", "ann")
            assert await runs.delete(everybody=True) == 3
            assert await runs.list() == []
    if runs_url is not None:
        engine = sa.create_engine(url_of(runs_url))
        assert left(engine) == []
        engine.dispose()


@pytest.mark.parametrize("named", [{}, {"owner": None}, {"owner": 3}, {"owner": "ann", "everybody": True}])
async def test_an_owner_or_everybody_is_named_before_runs_and_threads_are_deleted(named: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"delete takes|owner= takes"):
        await Runs().delete(**named)
    with Threads() as threads, pytest.raises(UsageError, match=r"delete takes|owner= takes"):
        deleting: Any = threads.delete(**named)
        await deleting


def left(engine: sa.Engine) -> Sequence[tuple[str, int]]:
    """The runs whose events are stored, with the numbers of these."""
    counted = sa.select(RUN.c.run_id, sa.func.sum(GROUP.c.event_count)).select_from(
        sa.outerjoin(GROUP, RUN, GROUP.c.row_id == RUN.c.row_id)
    )
    with engine.connect() as database:
        return [(row[0], int(row[1])) for row in database.execute(counted.group_by(RUN.c.run_id))]
