"""Runs that are removed: those whose time has passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from agui_client.runs import Runs, database_keeper
from agui_client.runs.run_tables import GROUP, RUN, url_of
from agui_client.testing import ScriptedAgent, interrupt, text, turn

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0


def made(url: str | None, **options: Any) -> Runs:
    """Runs with an agent that asks before it speaks, and one that speaks."""
    runs = Runs(url, **options)
    runs.add("asking", ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i")), turn(text("Done."))))
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

    sa.event.listen(sa.Engine, "after_cursor_execute", note)
    monkeypatch.setattr(database_keeper, "_BETWEEN_CLEANINGS", 0.02)
    try:
        with anyio.fail_after(_SECONDS):
            async with made(database_url) as runs:
                while len(await runs.list()) > 1:  # noqa: ASYNC110 - it is removed in a thread
                    await anyio.sleep(0.01)
                assert [(each.run_id, each.event_count) for each in await runs.list()] == [("asking", 2)]
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", note)
    # A set has about a thousand events, so that nothing waits long for its end.
    assert (sum(deleted), len(deleted)) == (251, 3)
    assert left(engine) == [("asking", 2)]
    engine.dispose()


def left(engine: sa.Engine) -> Sequence[tuple[str, int]]:
    """The runs whose events are stored, with the numbers of these."""
    counted = sa.select(RUN.c.run_id, sa.func.sum(GROUP.c.event_count)).select_from(
        sa.outerjoin(GROUP, RUN, GROUP.c.row_id == RUN.c.row_id)
    )
    with engine.connect() as database:
        return [(row[0], int(row[1])) for row in database.execute(counted.group_by(RUN.c.run_id))]
