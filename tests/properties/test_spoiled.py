"""Streams in which one thing is wrong: a clean verdict each, never another exception, and nothing half done."""

from __future__ import annotations

from random import Random

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agui_client import AGUIError, EventOrderError, HttpAgent, ProtocolError, RunFailedError
from weaves import Spoiled, Weave, as_json, encoded, exact, findings, judged, spoil, weave
from weaves.memory import Server, framed
from weaves.naive import Json

randoms = st.randoms(use_true_random=False)


@st.composite
def spoiled_weaves(draw: st.DrawFn) -> tuple[Weave, Spoiled]:
    random: Random = draw(randoms)
    woven = weave(random)
    return woven, spoil(random, woven.events)


@pytest.mark.requirement("LIFE-8", "PROC-3", "PROC-5", "PROC-6", "REASON-5")
@given(pair=spoiled_weaves())
def test_a_spoiled_stream_ends_in_a_verdict_and_what_was_delivered_is_what_is_held(pair: tuple[Weave, Spoiled]) -> None:
    _, spoiled = pair
    assert findings(judged(spoiled.frames)) == []


@pytest.mark.requirement("PROC-12", "PROC-13")
@given(pair=spoiled_weaves())
def test_the_verdict_is_the_same_with_and_without_the_short_cut_for_conforming_events(
    pair: tuple[Weave, Spoiled],
) -> None:
    _, spoiled = pair
    assert judged(spoiled.frames, way="loose").comparable == judged(spoiled.frames).comparable


@pytest.mark.requirement("LIFE-8")
@given(pair=spoiled_weaves())
def test_what_came_before_the_fault_is_delivered_as_if_there_were_none(pair: tuple[Weave, Spoiled]) -> None:
    woven, spoiled = pair
    before = [as_json(event) for event in judged(spoiled.intact(woven.events)).delivered]
    delivered = [as_json(event) for event in judged(spoiled.frames).delivered]
    assert delivered[: len(before)] == before


@pytest.mark.requirement("TRUNC-1", "TRUNC-3", "LIFE-4")
@given(woven=randoms.map(weave), data=st.data())
def test_a_stream_that_stops_early_is_what_its_last_run_said_and_else_incomplete(
    woven: Weave, data: st.DataObject
) -> None:
    events = woven.events[: data.draw(st.integers(0, len(woven.events)))]
    turns = [event["type"] for event in events if event["type"].startswith("RUN_")]
    said = {"RUN_FINISHED": "finished", "RUN_ERROR": "run failed"}.get(turns[-1] if turns else "")
    verdict = judged(map(encoded, events))
    assert verdict.name.startswith(said or "IncompleteRunError TRUNC-1")


OUT_OF_ORDER = {"STREAM-1", "REASON-1", "REASON-2", "CHUNK-6"}
"""CHUNK-6, because the event that is left out may be the one that would have ended a chunk stream of the same id."""


def closed_items(woven: Weave) -> list[tuple[int, int]]:
    """Where the items that are started and ended explicitly have their START and their END."""
    opened: dict[tuple[str, str], int] = {}
    found: list[tuple[int, int]] = []
    for at, event in enumerate(woven.events):
        kind, _, part = event["type"].rpartition("_")
        if kind == "RUN":
            opened.clear()
        elif part == "START":
            opened[kind, event.get("toolCallId") or event["messageId"]] = at
        elif part == "END":
            found.append((opened.pop((kind, event.get("toolCallId") or event["messageId"])), at))
    return found


weaves_with_items = randoms.map(weave).filter(closed_items)


def rule_without(events: list[Json], at: int) -> str:
    error = judged(encoded(event) for index, event in enumerate(events) if index != at).error
    assert isinstance(error, EventOrderError)
    return error.rule


@pytest.mark.requirement("STREAM-1", "REASON-1", "REASON-2")
@given(woven=weaves_with_items, data=st.data())
def test_an_item_without_its_start_is_rejected(woven: Weave, data: st.DataObject) -> None:
    start, _ = data.draw(st.sampled_from(closed_items(woven)))
    assert rule_without(woven.events, start) in OUT_OF_ORDER


@pytest.mark.requirement("LIFE-5")
@given(woven=weaves_with_items, data=st.data())
def test_an_item_without_its_end_is_rejected_unless_its_run_fails(woven: Weave, data: st.DataObject) -> None:
    _, end = data.draw(st.sampled_from(closed_items(woven)))
    turns = [event["type"] for event in woven.events[end:] if event["type"].startswith("RUN_")]
    assume(turns[0] == "RUN_FINISHED")
    assert rule_without(woven.events, end) in OUT_OF_ORDER | {"LIFE-5"}


@pytest.mark.requirement("SUB-3")
@given(woven=weaves_with_items, data=st.data())
def test_an_item_that_goes_on_under_another_owner_is_rejected(woven: Weave, data: st.DataObject) -> None:
    _, end = data.draw(st.sampled_from(closed_items(woven)))
    events = list(woven.events)
    events[end] = {**events[end], "subagentRunId": "somebody else"}
    error = judged(map(encoded, events)).error
    assert isinstance(error, EventOrderError)
    assert error.rule == "SUB-3"


@pytest.mark.requirement("PROC-5", "PROC-7", "PROC-8")
@given(woven=randoms.map(weave), data=st.data())
def test_what_nobody_described_changes_nothing_but_the_warnings(woven: Weave, data: st.DataObject) -> None:
    events = [dict(event) for event in woven.events]
    at = data.draw(st.integers(0, len(events) - 1))
    events[at]["future"] = data.draw(st.sampled_from([None, 1, {"a": [None]}]))
    # Not before the first event, which would be dropped, and not between what the rules keep together.
    events.insert(at + 1, {"type": "FUTURE_EVENT", "messageId": 7})
    plain, verdict = judged(map(encoded, woven.events)), judged(map(encoded, events))
    assert verdict.comparable[1:4] == plain.comparable[1:4]
    rules = {warning.rule for warning in verdict.warnings} - {warning.rule for warning in plain.warnings}
    assert rules == {"PROC-7", "PROC-8"}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(pair=spoiled_weaves())
def test_an_agent_over_http_tells_the_same_and_goes_on(backend: str, pair: tuple[Weave, Spoiled]) -> None:
    _, spoiled = pair
    assume(spoiled.how != "odd_literal")  # test_aftermath.py has the values that cannot be sent on
    frames = [frame for frame in spoiled.frames if frame.strip()]
    verdict = judged(frames)
    server = Server([framed(frames)], [framed(AFTERWARDS)])
    agent = server.agent()

    async def twice() -> AGUIError | None:
        error: AGUIError | None = None
        try:
            await agent.run_agent(run_id="run-1")
        except (ProtocolError, RunFailedError) as raised:
            error = raised
        await asked_again(agent)
        return error

    error = anyio.run(twice, backend=backend)
    assert (type(error), rule_of(error)) == (type(verdict.error), rule_of(verdict.error))
    assert exact(server.requests[1].get("state", {})) == exact(verdict.state if verdict.state is not None else {})


AFTERWARDS = (
    '{"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-2"}',
    '{"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-2"}',
)


def rule_of(error: AGUIError | None) -> str | None:
    return error.rule if isinstance(error, ProtocolError) else None


async def asked_again(agent: HttpAgent) -> None:
    agent.abandon_interrupts()
    result = await agent.run_agent(run_id="run-2")
    # Calls that the spoiled run left open are no reason to stop, only to say so.
    assert {warning.rule for warning in result.warnings} <= {"TOOL-10"}
