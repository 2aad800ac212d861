"""Compaction: fewer events that come to the same, and that no further compaction makes fewer."""

from __future__ import annotations

from random import Random

import pytest
from ag_ui.core import AssistantMessage, Message, UserMessage
from hypothesis import given
from hypothesis import strategies as st

from agui_client import EventOrderError
from agui_client.recording import compact
from agui_client.testing import Step, patch, reasoning, state, step, text, tool_call, tool_result, turn
from conformance_fixtures import Fixture, fixtures
from support import scenario
from support.teller import events_of_steps
from support.verbs import VERBS
from weaves import encoded, lost_in_compaction, weave
from weaves.compacting import came_to


def types(*steps: Step) -> list[str]:
    return [event.type.value for event in compact(events_of_steps(*steps))]


def test_a_message_has_one_content_event_and_the_state_one_snapshot() -> None:
    answer = turn(
        step("look", text("It is quite warm today.", message_id="m", chunk=3), reasoning("Hm, hm, hm.")),
        state({"a": 1}),
        patch({"op": "add", "path": "/b", "value": None}),
        tool_call("look", {"place": "Oslo"}, tool_call_id="c", parent_message_id="m"),
        tool_result("warm", tool_call_id="c"),
    )
    short = compact(events_of_steps(answer))
    assert [event.type.value for event in short] == [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert short[1].model_dump()["snapshot"] == {"a": 1, "b": None}
    assert short[3].model_dump()["delta"] == "It is quite warm today."
    assert compact(short) == short
    assert compact([]) == []


def test_a_stream_that_was_cut_stays_one() -> None:
    events = events_of_steps(scenario.TURN)
    for size in range(1, len(events)):
        cut = events[:size]
        short = compact(cut)
        assert came_to(short) == came_to(cut)
        assert compact(short) == short


def test_what_lay_before_a_stream_is_taken_into_account() -> None:
    before: list[Message] = [UserMessage(id="u", content="Hi"), AssistantMessage(id="m", content="Hello")]
    events = events_of_steps(turn(text(", you.", message_id="m"), patch({"op": "add", "path": "/b", "value": 2})))
    short = compact(events, messages=before, state={"a": 1})
    options = {"initial_messages": before, "initial_state": {"a": 1}}
    assert came_to(short, **options) == came_to(events, **options)
    assert compact(short, messages=before, state={"a": 1}) == short


def test_a_stream_that_breaks_the_protocol_is_refused() -> None:
    events = events_of_steps(turn(text("Hi", message_id="m")))
    with pytest.raises(EventOrderError):
        compact(events[1:])


@pytest.mark.parametrize("fixture", [pytest.param(each, id=each.name) for each in fixtures()])
def test_every_stream_of_the_corpus_comes_to_the_same(fixture: Fixture) -> None:
    from agui_client.testing import Reply, serve_bytes

    with serve_bytes(Reply([fixture.body])) as server:
        agent = fixture.agent(server.url)
        before, at_first = agent.messages, agent.state
        events = VERBS["stream-asyncio"](agent, **fixture.options).events or []
    short = compact(events, messages=before, state=at_first)
    options = {"initial_messages": before, "initial_state": at_first}
    assert came_to(short, **options) == came_to(events, **options)
    assert compact(short, messages=before, state=at_first) == short
    assert len(short) <= len(events) + 1


@given(random=st.randoms(use_true_random=False))
def test_a_random_stream_comes_to_the_same(random: Random) -> None:
    # `python tests/properties/soak.py --compact --streams 10000` does many more.
    assert lost_in_compaction([encoded(event) for event in weave(random).events]).findings == []
