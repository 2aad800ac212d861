"""Random teams, at most four deep: whatever their members do, nothing is lost, run twice, or left open."""

from __future__ import annotations

import os
from random import Random

import anyio
import pytest
from ag_ui.core import Event

from agui_client import HttpAgent
from agui_client.asgi import agent_app
from support.random_recovery import PLACES, invalid, recovered
from support.random_teams import Town, closed, findings, judged, left, random_team, run_to_the_end

_MANY = int(os.environ.get("AGUI_TEAMS", "1"))
"""The factor of the number of teams: 1 for a normal run, more for a soak."""

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One event loop: what depends on it is in the other tests."""
    backend: str = request.param
    return backend


@pytest.mark.requirement("LIFE-5", "LIFE-16", "SUB-3", "SUB-6", "SUB-7", "INT-2", "INT-4", "STREAM-1", "USAGE-3")
@pytest.mark.parametrize("start", range(0, 15 * _MANY, 15))
async def test_a_random_team_keeps_to_the_protocol_and_loses_nothing(start: int) -> None:
    assert {seed: found for seed in range(start, start + 15) if (found := await judged(seed))} == {}


@pytest.mark.requirement("USAGE-3")
async def test_the_tokens_of_a_member_whose_team_is_cut_before_anybody_has_read_its_end_are_counted() -> None:
    assert await judged(67) == []


@pytest.mark.requirement("STATE-7", "INPUT-4")
@pytest.mark.parametrize("seed", [353, 763])
async def test_the_caller_of_a_served_team_keeps_the_activities_of_earlier_runs(seed: int) -> None:
    made = random_team(Random(seed), may_hang=False, timeout=5)
    app = agent_app(made.agent, secret="s" * 32)
    caller = HttpAgent("http://app.test/", app=app, agent_id="team", thread_id="t", strict=True)
    with anyio.fail_after(60):
        result = await run_to_the_end(made, caller)
        await closed(made)
    assert findings(made, result) == []


@pytest.mark.parametrize("start", range(0, 8 * _MANY, 8))
async def test_leaving_a_random_team_at_any_event_closes_every_member(start: int) -> None:
    assert {seed: found for seed in range(start, start + 8) if (found := (await left(seed))[1])} == {}


@pytest.mark.parametrize("start", range(0, 2 * _MANY, 2))
async def test_random_teams_of_agents_on_a_server_lose_nothing_and_let_go_of_it_when_they_are_left(start: int) -> None:
    with Town().opened() as town:
        for seed in range(start, start + 2):
            assert (seed, await judged(seed, town)) == (seed, [])
            assert (seed, (await left(seed, town))[1]) == (seed, [])


@pytest.mark.requirement("LIFE-5", "SUB-6", "INT-4", "TOOL-10", "SEC-3")
@pytest.mark.parametrize("place", PLACES)
async def test_a_random_team_pays_once_and_asks_once_whatever_fails_and_is_killed(place: str) -> None:
    found: dict[int, list[str]] = {}
    for seed in range(3 * _MANY):
        streams: list[list[Event]] = []
        world = await recovered(seed, place, streams=streams)
        if findings := world.findings + [each for events in streams for each in invalid(events)]:
            found[seed] = findings
    assert found == {}


@pytest.mark.requirement("TOOL-10")
@pytest.mark.parametrize("seed", [20021, 20049])
async def test_a_stored_team_that_was_cut_behind_a_call_is_resumed_by_a_caller_who_brings_nothing(seed: int) -> None:
    assert (await recovered(seed, "stored")).findings == []
