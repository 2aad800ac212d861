"""The state of a team that its members change: any JSON value, and changes side by side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
)

from agui_client.teams import Member, ParallelAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import Gate, Step, patch, pause, state, text, turn
from support.team_members import agent, events_of, nested

pytestmark = pytest.mark.anyio


def shared(name: str, *steps: Step) -> Member:
    """A member that changes the state of its team."""
    return Member(agent(name, turn(*steps)), state="shared")


def of_members(events: list[Event]) -> list[tuple[str, Any]]:
    """The names of members that changed the state, and what they sent, without the team's journal."""
    found: list[tuple[str, Any]] = []
    for event in events:
        if isinstance(event, StateDeltaEvent | StateSnapshotEvent) and event.subagent_run_id is not None:
            sent = event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"type"})
            if isinstance(event, StateSnapshotEvent):
                journal = sent["snapshot"].pop("_team")
                if "outer_state" in journal:
                    sent["snapshot"] = journal["outer_state"]
            found.append((sent.pop("subagentRunId").partition("-")[0], sent))
    return found


async def test_a_shared_state_may_become_any_value_and_an_object_again() -> None:
    team = SequentialAgent(
        shared("one", state(5)),
        shared("two", patch({"op": "replace", "path": "", "value": [1]}, {"op": "add", "path": "/-", "value": 2})),
        shared("three", patch({"op": "remove", "path": "/nowhere"}), patch()),
    )
    team.set_state({"before": 1})
    assert of_members(await events_of(team)) == [
        ("one", {"snapshot": 5}),
        ("two", {"snapshot": [1, 2]}),
    ]
    assert team.state == [1, 2]
    whole = {"op": "replace", "path": "", "value": {"a": {"x": 1}}}
    raised = {"op": "move", "path": "", "from": "/a"}
    team = SequentialAgent(
        shared("one", patch(whole), patch({"op": "move", "path": "/b", "from": "/a"})),
        shared("two", patch({"op": "copy", "path": "/a", "from": "/b"}), patch(raised)),
        strict=True,
    )
    team.set_state("before")
    assert of_members(await events_of(team)) == [
        ("one", {"snapshot": {"a": {"x": 1}}}),
        ("one", {"delta": [{"op": "move", "path": "/b", "from": "/a"}]}),
        ("two", {"delta": [{"op": "copy", "path": "/a", "from": "/b"}]}),
        ("two", {"snapshot": {"x": 1}}),
    ]
    assert team.state == {"x": 1}


async def test_a_change_of_a_member_that_began_with_an_older_state_is_sent_as_what_it_changes_now() -> None:
    gate, begun = Gate(), Gate()
    about: Any = {"timestamp": 7, "metadata": {"note": "kept"}}
    plan = "A long text, so that a difference is shorter than the whole state that it is about."
    slow = shared(
        "slow",
        gate,
        patch({"op": "remove", "path": "/nowhere"}),
        StateSnapshotEvent(snapshot={"n": 0, "plan": plan}),
        StateSnapshotEvent(snapshot={"n": 0, "plan": plan, "slow": [1]}, **about),
        patch({"op": "add", "path": "/slow/-", "value": 2}),
        StateSnapshotEvent(snapshot={"n": 0, "slow": [1, 2]}, **about),
    )
    team = ParallelAgent(slow, shared("quick", begun, patch({"op": "replace", "path": "/n", "value": 1})))
    team.set_state({"n": 0, "plan": plan})
    events: list[Event] = []
    async with team.stream("Hi") as run:
        async for event in run:
            events.append(event)
            if isinstance(event, SubagentStartedEvent) and event.subagent_run_id.startswith("slow"):
                begun.open()
            if isinstance(event, SubagentFinishedEvent):
                gate.open()
    assert of_members(events) == [
        ("quick", {"delta": [{"op": "replace", "path": "/n", "value": 1}]}),
        ("slow", {"delta": [{"op": "add", "path": "/slow", "value": [1]}], **about}),
        ("slow", {"delta": [{"op": "add", "path": "/slow/1", "value": 2}]}),
        ("slow", {"snapshot": {"n": 1, "slow": [1, 2]}, **about}),
    ]
    assert team.state == {"n": 1, "slow": [1, 2]}


async def test_a_member_with_a_place_of_its_own_and_one_that_shares_the_state_change_it_side_by_side() -> None:
    begun = Gate()
    own = agent("own", turn(patch({"op": "add", "path": "/n", "value": 1}), text("Begun."), begun, state({"n": 2})))
    sharing = shared("sharing", begun, patch({"op": "add", "path": "/seen", "value": True}))
    team = ParallelAgent(own, sharing, strict=True)
    async with team.stream("Hi") as run:
        async for event in run:
            if getattr(event, "delta", None) == "Begun.":
                begun.open()
    assert team.state == {"own": {"n": 2}, "seen": True}


async def test_what_members_append_side_by_side_to_one_list_stands_in_the_order_in_which_it_came() -> None:
    gate, begun = Gate(), Gate()
    slow = shared("slow", gate, patch({"op": "add", "path": "/notes/-", "value": "slow"}))
    team = ParallelAgent(slow, shared("quick", begun, patch({"op": "add", "path": "/notes/-", "value": "quick"})))
    team.set_state({"notes": ["old"]})
    async with team.stream("Hi") as run:
        async for event in run:
            if isinstance(event, SubagentStartedEvent) and event.subagent_run_id.startswith("slow"):
                begun.open()
            if isinstance(event, SubagentFinishedEvent):
                gate.open()
    assert team.state == {"notes": ["old", "quick", "slow"]}


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_many_calls_of_one_member_at_once_keep_what_each_writes_into_its_state(depth: int) -> None:
    async def writes(input: RunAgentInput) -> AsyncIterator[Any]:
        yield turn(pause(0.01), patch({"op": "add", "path": f"/{input.messages[-1].content}", "value": 1}))

    async def lead(team: Team) -> None:
        await team.map("worker", ["a", "b", "c"])

    team = TeamAgent(lead, worker=nested(agent("writer", writes), depth))
    state = (await team.run_agent("Hi")).state["worker"]
    for name in ["level-0", "writer"][2 - depth :]:
        state = state[name]
    assert state == {"a": 1, "b": 1, "c": 1}


async def test_a_caller_that_sends_no_state_gets_it_as_a_snapshot() -> None:
    team = SequentialAgent(shared("one", patch({"op": "add", "path": "/n", "value": 1})))
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], state=None, tools=[], context=[])
    events = [event async for event in team.run(given) if isinstance(event, StateSnapshotEvent | StateDeltaEvent)]
    assert isinstance(events[0], StateSnapshotEvent)
    assert list(events[0].snapshot) == ["_team"]
    assert events[-1] == StateDeltaEvent.model_validate({"delta": [{"op": "remove", "path": "/_team"}]})


async def test_a_member_with_a_journal_of_its_own_reads_nothing_of_the_teams() -> None:
    own: dict[str, Any] = {"op": "add", "path": "/_team", "value": {"flow": "01234567", "calls": {}}}
    taken = [{"op": op, "path": f"/{op}", "from": "/_team"} for op in ("copy", "move")]
    reader = agent("reader", turn(patch(own), *(patch(each) for each in taken)))
    other = agent("other", turn(text("Hi")))
    team = SequentialAgent(Member(reader, state="shared"), Member(other, state="shared"))
    await events_of(team)
    assert (other.inputs[0].state, team.state) == ({}, {})
