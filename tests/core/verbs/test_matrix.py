"""One run, every verb, every transport: the same messages, state, outcome, usage and events (PROC-1)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    RawEvent,
    RunFinishedSuccessOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
)

from agui_client import AbstractAgent, EventOrderError, HttpAgent
from agui_client.testing import Reply, ScriptedAgent, Step, serve, serve_bytes, sse, text, turn
from support import scenario
from support.bodies import memory_agent
from support.verbs import EVENT_VERBS, Verb, every_result_verb, every_verb, shown

Place = Callable[[], AbstractAgent]


@contextmanager
def behind_a_server() -> Generator[Place]:
    with serve(ScriptedAgent(scenario.TURN)) as server:
        yield partial(HttpAgent, server.url, thread_id="thread-1")


@contextmanager
def behind_bytes() -> Generator[Place]:
    frames = scenario.FRAMES.splitlines(keepends=True)
    with serve_bytes(Reply(frames)) as server:
        yield partial(HttpAgent, server.url, thread_id="thread-1")


@contextmanager
def in_process() -> Generator[Place]:
    yield partial(ScriptedAgent, scenario.TURN, thread_id="thread-1")


@contextmanager
def in_memory() -> Generator[Place]:
    yield partial(memory_agent, scenario.FRAMES)


@pytest.fixture(
    params=[in_process, in_memory, behind_a_server, behind_bytes], ids=lambda place: place.__name__, scope="module"
)
def agent_there(request: pytest.FixtureRequest) -> Iterator[Place]:
    with request.param() as place:
        yield place


@pytest.mark.requirement("PROC-1", "PROC-12", "SSE-1", "SSE-13", "USAGE-1", "USAGE-2", "USAGE-3", "CHUNK-1")
@every_verb
def test_every_verb_comes_to_the_same_on_every_transport(agent_there: Place, verb: Verb) -> None:
    agent = agent_there()
    ending = verb(agent, scenario.PROMPT, run_id="run-1")
    assert ending.error is None
    assert shown(agent.messages) == scenario.MESSAGES
    assert agent.state == scenario.STATE
    assert ending.outcome == RunFinishedSuccessOutcome()
    assert ending.usage == scenario.USAGE
    assert ending.events is None or ending.types == scenario.TYPES


@pytest.mark.requirement("PROC-1", "LIFE-9", "TOOL-9")
@every_result_verb
def test_every_result_says_the_same_on_every_transport(agent_there: Place, verb: Verb) -> None:
    agent = agent_there()
    result = verb(agent, scenario.PROMPT, run_id="run-1").result
    assert result is not None
    assert (result.thread_id, result.run_id) == ("thread-1", "run-1")
    assert result.text == "Kalt: -4 °C ❄️"
    assert result.result == {"low": -4}
    assert [call.id for call in result.pending_tool_calls] == ["call-2"]
    assert shown(result.messages) == scenario.MESSAGES
    assert shown(result.new_messages) == scenario.MESSAGES[1:]
    assert result.state == scenario.STATE
    assert (result.interrupts, result.warnings, result.aborted) == ([], [], False)
    assert (result.response is None) == isinstance(agent, ScriptedAgent)


def test_every_verb_shows_equal_events(agent_there: Place) -> None:
    first, *others = [verb(agent_there(), scenario.PROMPT, run_id="run-1").events for verb in EVENT_VERBS.values()]
    assert first
    assert all(events == first for events in others)


@every_verb
def test_a_conversation_goes_on_from_run_to_run_with_every_verb(agent_there: Place, verb: Verb) -> None:
    agent = agent_there()
    verb(agent, scenario.PROMPT, run_id="run-1")
    verb(agent, "And tomorrow?")
    users = [message for message in agent.messages if message.role == "user"]
    assert [message.content for message in users] == ["Wie wird das Wetter in Tromsø?", "And tomorrow?"]
    assert not agent.is_running


# --- what passes through

ODD = turn(
    RawEvent(event={"type": "RUN_FINISHED"}, timestamp=9, subagent_run_id="sub-1"),
    CustomEvent(name="https://example.org/never-heard-of", value={"nested": [None]}, metadata={"own": None}),
    TextMessageStartEvent(message_id="RUN_ERROR/0", timestamp=8, raw_event={"type": "RUN_ERROR"}),
    TextMessageContentEvent(message_id="RUN_ERROR/0", delta="later", timestamp=7),
    TextMessageContentEvent(message_id="RUN_ERROR/0", delta=" earlier", timestamp=-1),
    TextMessageEndEvent(message_id="RUN_ERROR/0", timestamp=-2),
)


@pytest.mark.requirement("PASS-1", "PASS-2", "PROC-16")
@every_verb
def test_raw_custom_timestamps_and_spellings_decide_nothing(verb: Verb) -> None:
    agent = ScriptedAgent(ODD)
    ending = verb(agent)
    assert ending.error is None
    assert shown(agent.messages) == [{"id": "RUN_ERROR/0", "role": "assistant", "content": "later earlier"}]
    assert agent.state == {}
    if ending.result:
        assert ending.result.warnings == []
    if ending.events:
        assert ending.events[1:3] == [
            RawEvent(event={"type": "RUN_FINISHED"}, timestamp=9, subagent_run_id="sub-1"),
            CustomEvent(name="https://example.org/never-heard-of", value={"nested": [None]}, metadata={"own": None}),
        ]


@pytest.mark.requirement("SUB-11", "STATE-3")
@every_verb
def test_a_tag_on_state_and_custom_events_changes_nothing(verb: Verb) -> None:
    delta = {"delta": [{"op": "add", "path": "/b", "value": 2}], "subagentRunId": "sub-1"}
    agent = ScriptedAgent(
        turn(
            StateSnapshotEvent(snapshot={"a": 1}, subagent_run_id="sub-1"),
            CustomEvent(name="note", value=None, subagent_run_id="sub-1"),
            StateDeltaEvent.model_validate(delta),
            text("Done."),
        )
    )
    ending = verb(agent)
    assert ending.error is None
    assert agent.state == {"a": 1, "b": 2}
    assert [message.content for message in agent.messages] == ["Done."]


@pytest.mark.requirement("USAGE-1")
@every_verb
def test_usage_nobody_reported_is_empty_and_an_unreported_count_is_none(verb: Verb) -> None:
    def usage_of(*reported: TokenUsage) -> list[TokenUsage]:
        return verb(ScriptedAgent(turn(usage=reported or None))).usage

    assert usage_of() == []
    [entry] = usage_of(TokenUsage(model="m", input_tokens=1), TokenUsage(model="m", input_tokens=0, reasoning_tokens=2))
    assert entry == TokenUsage(model="m", input_tokens=1, reasoning_tokens=2)
    assert entry.output_tokens is None


@pytest.mark.requirement("STATE-2", "STATE-4")
@pytest.mark.parametrize("value", [None, 0, "", [], False, [{"a": None}]], ids=repr)
@every_verb
def test_any_json_is_a_state_with_every_verb(verb: Verb, value: Any) -> None:
    agent = ScriptedAgent(turn(StateSnapshotEvent(snapshot=value)))
    assert verb(agent).error is None
    assert agent.state == value
    verb(agent)
    assert agent.inputs[1].state == value


@pytest.mark.requirement("PROC-12")
@every_verb
def test_an_in_process_agent_is_judged_as_a_remote_one(verb: Verb) -> None:
    misplaced: list[Step] = [turn(run_id="run-1"), StepStartedEvent(step_name="after the end")]
    local, remote = ScriptedAgent(misplaced, thread_id="thread-1"), memory_agent(sse(*misplaced))
    errors = [verb(agent, run_id="run-1").error for agent in (local, remote)]
    assert [type(error) for error in errors] == [EventOrderError, EventOrderError]
    assert str(errors[0]) == str(errors[1])
