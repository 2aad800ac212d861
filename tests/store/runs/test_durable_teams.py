"""Durable runs of teams whose servers are killed: no tool of a member begins twice unless it says that it may.

`AGUI_CLIENT_KILLS=60 pytest -n 0 tests/store/runs/test_durable_teams.py` kills as often, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from agui_client import HttpAgent
from support.durable_servers import Servers, page, read_until, status_of
from support.payers import KEYS, results_of
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

_PROGRAM = Path(__file__).parents[2] / "support" / "durable_payers.py"
_SECONDS = 60.0


@pytest.fixture
def servers(shared_url: str, tmp_path: Path) -> Generator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, shared_url, stack, _PROGRAM)


def lines_of(servers: Servers, what: str, thread_id: str) -> list[str]:
    """The keys of the calls of a thread that have begun, or ended."""
    lines = (each.split(" ") for each in servers.lines("payments"))
    return [
        place.removeprefix(f"{thread_id}:")
        for place, done in lines
        if done == what and place.startswith(f"{thread_id}:")
    ]


async def ended(url: str, thread_id: str) -> HttpAgent:
    """Wait for the end of a run; return a caller that has followed it."""
    with anyio.fail_after(_SECONDS):
        while await status_of(url, thread_id) == "running":  # noqa: ASYNC110 - it ends in another process
            await anyio.sleep(0.05)
        follower = page(url, thread_id)
        await follower.run_agent("Go", run_id="r")
    return follower


# One with a conversation of its own beside others, and one of an inner team; all are in teams/test_in_flight_tools.py.
@pytest.mark.parametrize("member", ["worker:five", "taker:seven"])
async def test_a_member_goes_on_behind_the_tool_that_was_at_work_wherever_it_is(servers: Servers, member: str) -> None:
    servers.flag("one", up=True)
    held = f"{member}:pay-1"
    (servers.folder / "hold").write_text(held)
    program, url = await servers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until, page(url), "Go", lambda: False)
        await until(lambda: held in lines_of(servers, "begins", "t"), _SECONDS)
        tasks.cancel_scope.cancel()
    program.kill()
    servers.flag("hold", up=False)
    follower = await ended((await servers.start())[1], "t")
    results = results_of(follower.messages)
    begun = Counter(lines_of(servers, "begins", "t"))
    unknown = sorted(key for key, each in results.items() if each.startswith("unknown"))
    assert set(results) == KEYS
    assert held in unknown
    # The first worker was at work beside the second one.
    assert {key.rpartition(":")[0] for key in unknown} <= {member, "worker:four"}
    assert [key for key, count in begun.items() if count > 1 and "pay" in key] == []
    assert begun[f"{member}:look-1"] == begun[f"{member}:pay-2"] == begun[f"{member}:pay-3"] == 1
    assert results[f"{member}:look-1"] == f"seen {member}:look-1"
    assert results[f"{member}:pay-2"] == f"paid {member}:pay-2"
    # Three runs of it, as if nobody had been killed: each round has calls, and then there are none.
    assert servers.lines("thoughts").count(f"t:{member}") == 3


async def test_whenever_servers_are_killed_no_payment_of_a_member_begins_twice(servers: Servers) -> None:
    kills, chance = int(os.environ.get("AGUI_CLIENT_KILLS", "2")), random.Random(11)
    workers = [await servers.start(), await servers.start()]
    number, unknown, known = 0, 0, 0

    async def kill_one() -> None:
        nonlocal kills
        kills -= 1
        workers.pop(chance.randrange(2))[0].kill()
        workers.append(await servers.start())

    while kills > 0:
        number += 1
        thread_id, killed = f"t{number}", 0
        await read_until(page(workers[0][1], thread_id), "Go", lambda: True)
        while kills > 0 and await status_of(workers[0][1], thread_id) == "running":
            await anyio.sleep(chance.uniform(0.0, 1.0))
            await kill_one()
            killed += 1
        follower = await ended(chance.choice(workers)[1], thread_id)
        results, begun = results_of(follower.messages), Counter(lines_of(servers, "begins", thread_id))
        finished = set(lines_of(servers, "ends", thread_id))
        assert await status_of(workers[0][1], thread_id) == "finished"
        assert follower.state == {}
        assert [key for key, count in begun.items() if count > 1 and "pay" in key] == []
        assert set(results) == KEYS
        for key, result in results.items():
            if result.startswith("unknown"):
                assert "pay" in key
                unknown += 1
            else:
                assert result == f"{'seen' if 'look' in key else 'paid'} {key}"
                assert key in finished
                known += 1
        # Of all that were at work: at most two members side by side, each with two payments.
        assert sum(each.startswith("unknown") for each in results.values()) <= 4 * killed
    # To be read with -s.
    print(f"{number} runs; {known} results known, {unknown} unknown")  # noqa: T201
