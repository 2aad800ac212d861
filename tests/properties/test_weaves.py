"""Legal streams of every event family, woven at random: they pass, and come to what a naive model says."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import cast, get_args

import anyio
import pytest
from ag_ui.core import EventType
from hypothesis import given
from hypothesis import strategies as st

from agui_client import HttpAgent, RunFailedError, RunResult
from weaves import Verdict, Way, Weave, as_json, encoded, exact, findings, judged, weave
from weaves.memory import Server, framed
from weaves.naive import Json

weaves = st.randoms(use_true_random=False).map(weave)


def frames(woven: Weave) -> list[str]:
    return [encoded(event) for event in woven.events]


def expect(woven: Weave, verdict: Verdict) -> None:
    assert verdict.name.startswith("run failed" if woven.has_failed else "finished"), verdict.error
    assert exact([verdict.messages, verdict.state]) == exact([woven.messages, woven.state])
    assert findings(verdict) == []


@pytest.mark.requirement("PROC-15", "STREAM-2", "STREAM-3", "STREAM-5", "META-1", "META-2", "META-3", "LIFE-13")
@given(woven=weaves)
def test_a_legal_stream_comes_to_what_the_naive_model_says(woven: Weave) -> None:
    expect(woven, judged(frames(woven)))


@pytest.mark.requirement("PROC-12")
@given(woven=weaves)
def test_it_comes_to_the_same_however_its_events_reach_the_pipeline(woven: Weave) -> None:
    verdicts = {way: judged(frames(woven), way=way).comparable for way in get_args(Way)}
    assert verdicts["loose"] == verdicts["wire"]
    assert verdicts["typed"] == verdicts["wire"]


def told(events: list[Json]) -> list[Json]:
    """What events say about streamed items, without the ENDs: those of chunks are the client's to add."""
    kept = [each for each in events if not each["type"].endswith(("_MESSAGE_END", "_CALL_END"))]
    names = ("type", "messageId", "toolCallId", "delta", "subagentRunId", "role", "name", "toolCallName", "metadata")
    return [{name: each[name] for name in names if each.get(name) is not None} for each in kept]


@pytest.mark.requirement("CHUNK-1", "CHUNK-3", "CHUNK-4", "CHUNK-11", "PROC-4")
@given(woven=weaves)
def test_chunks_are_delivered_as_the_starts_and_contents_they_stand_for(woven: Weave) -> None:
    delivered = [as_json(event) for event in judged(frames(woven)).delivered]
    assert exact(told(delivered)) == exact(told(woven.meant))


@pytest.mark.requirement("CHUNK-7", "CHUNK-8", "LIFE-5")
@given(woven=weaves)
def test_what_was_started_has_ended_when_its_run_finishes(woven: Weave) -> None:
    pending: Counter[tuple[str, str]] = Counter()
    for event in map(as_json, judged(frames(woven)).delivered):
        kind, _, part = event["type"].value.rpartition("_")
        if kind in ("TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE") and part in ("START", "END"):
            item = event.get("toolCallId") or event["messageId"]
            pending[kind, item] += 1 if part == "START" else -1
            assert pending[kind, item] in (0, 1)
        elif kind == "RUN" and part == "FINISHED":
            assert not any(pending.values())
        elif kind == "RUN":
            pending.clear()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(woven=weaves)
def test_an_agent_over_http_holds_the_same(backend: str, woven: Weave) -> None:
    async def ran(agent: HttpAgent) -> RunResult | None:
        try:
            return await agent.run_agent(run_id="run-1")
        except RunFailedError as failure:
            return cast("RunResult | None", failure.partial)

    agent = Server([framed(frames(woven))]).agent()
    result = anyio.run(ran, agent, backend=backend)
    assert result is not None
    expected = exact([woven.messages, woven.state])
    assert exact([[as_json(message) for message in agent.messages], agent.state]) == expected
    assert exact([[as_json(message) for message in result.messages], result.state]) == expected
    assert (result.outcome is None) == woven.has_failed


def test_the_weaves_have_events_of_every_type_in_them() -> None:
    seen: Counter[str] = Counter()
    for seed in range(300):
        seen.update(event["type"] for event in weave(Random(seed)).events)
    assert set(seen) == {each.value for each in EventType}
