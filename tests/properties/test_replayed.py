"""Threads of every event family, told again at random: onto what is held of them, cut anywhere, and gone on with."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import pytest
from ag_ui.core import RunStartedEvent, UserMessage
from hypothesis import assume, given
from hypothesis import strategies as st

from agui_client import HttpAgent, IncompleteRunError, RunFailedError
from support.given_up import without_given_up
from weaves import Weave, as_json, encoded, exact, judged, weave
from weaves.memory import Server, framed
from weaves.naive import Json, Naive

weaves = st.randoms(use_true_random=False).map(weave)
ONE_WAY = {"MESSAGES_SNAPSHOT", "REASONING_ENCRYPTED_VALUE"}
"""What does not come to the same twice: a snapshot moves what it does not know, and the value finds its message now."""
PROMPT = UserMessage(id="prompt", content="And then?")
FINISHED = framed(
    [encoded({"type": f"RUN_{part}", "threadId": "thread-1", "runId": "run-9"}) for part in ("STARTED", "FINISHED")]
)


def thread_of(woven: Weave) -> list[Json]:
    """A thread that can be told again: its first run says which state it was asked with."""
    assume(ONE_WAY.isdisjoint(event["type"] for event in woven.events))
    # Of a local message and the replayed one the larger stays, so a result that shrinks does not come to the same.
    results = [event for event in woven.events if event["type"] == "TOOL_CALL_RESULT"]
    contents = {event["messageId"]: event["content"] for event in results}
    assume(all(event["content"] == contents[event["messageId"]] for event in results))
    first, *rest = woven.events
    asked: Json = {"threadId": "thread-1", "runId": "run-1", "messages": [], **first.get("input", {}), "state": {}}
    return [{**first, "input": asked}, *rest] if first["type"] == "RUN_STARTED" else woven.events


def body_of(events: list[Json]) -> list[bytes]:
    return [framed(map(encoded, events))]


async def connected(agent: HttpAgent) -> None:
    with suppress(IncompleteRunError, RunFailedError):
        await agent.connect_agent()


def held(agent: HttpAgent) -> object:
    return exact([[as_json(message) for message in agent.messages], agent.state])


@pytest.mark.requirement("PROC-1", "LIFE-13")
@given(woven=weaves, data=st.data())
def test_a_thread_told_again_onto_any_part_of_it_is_the_whole_thread(woven: Weave, data: st.DataObject) -> None:
    events = thread_of(woven)
    cut = data.draw(st.integers(0, len(events)))
    fresh = Server(body_of(events)).agent(connect_url="/connect")
    agent = Server(body_of(events[:cut]), body_of(events)).agent(connect_url="/connect")

    async def tell() -> None:
        await connected(fresh)
        await connected(agent)
        await connected(agent)
        await connected(agent)

    anyio.run(tell)
    assert held(agent) == held(fresh)
    assert sorted(agent.incomplete_ids) == sorted(fresh.incomplete_ids)


@pytest.mark.requirement("PROC-1", "TRUNC-1")
@given(woven=weaves, data=st.data())
def test_a_replay_that_was_cut_anywhere_is_mended_by_the_next(woven: Weave, data: st.DataObject) -> None:
    events = thread_of(woven)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=3))
    fresh = Server(body_of(events)).agent(connect_url="/connect")
    agent = Server(*(body_of(events[:cut]) for cut in [len(events), *cuts, len(events)])).agent(connect_url="/connect")

    async def tell() -> None:
        await connected(fresh)
        for _ in range(len(cuts) + 2):
            await connected(agent)

    anyio.run(tell)
    assert held(agent) == held(fresh)


@pytest.mark.requirement("TRUNC-2", "INPUT-1", "INPUT-4", "LIFE-8")
@given(woven=weaves, data=st.data())
def test_any_stream_that_is_cut_anywhere_is_gone_on_with(woven: Weave, data: st.DataObject) -> None:
    events = woven.events[: data.draw(st.integers(0, len(woven.events)))]
    naive = Naive(as_json_of([PROMPT]))
    delivered = judged(map(encoded, events)).delivered
    for event in delivered:
        naive.take(as_json(event))
    never_started = not any(isinstance(event, RunStartedEvent) for event in delivered)
    server = Server(body_of(events), [FINISHED])
    agent = server.agent()

    async def go_on() -> None:
        with suppress(IncompleteRunError, RunFailedError):
            await agent.run_agent(PROMPT, run_id="run-1")
        assert held(agent) == exact([[] if never_started else naive.messages, naive.state])
        agent.abandon_interrupts()
        await agent.run_agent(PROMPT if never_started else None, run_id="run-9")

    anyio.run(go_on)
    expected = [message for message in naive.messages if message["role"] != "activity"]
    assert exact(without_given_up(server.requests[1]["messages"])) == exact(expected)
    assert exact(server.requests[1].get("state", {})) == exact({} if naive.state is None else naive.state)
    agent.set_messages(without_given_up(agent.messages))
    assert held(agent) == exact([naive.messages, naive.state])


def as_json_of(messages: list[Any]) -> list[Json]:
    return [as_json(message) for message in messages]
