"""Requests that refer to the one before: what a recording takes, and that nobody who reads it sees a difference."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import RunAgentInput, SystemMessage
from hypothesis import given
from hypothesis import strategies as st

from agui_client._core.protocol.request import request_body
from agui_client._core.protocol.schema import is_array
from agui_client.inspector import inspector_page
from agui_client.recording import Recording, RecordingError, ReplayAgent, UnrecordedRequestError, record
from agui_client.recording._format import LINE
from agui_client.recording._references import InputReferences, WholeInputs
from agui_client.testing import ScriptedAgent, text, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ag_ui.core import Event

    from agui_client import UnrecognizedEvent
    from agui_client.types import Next

ANSWER = turn(text("The ferry to the island leaves at nine, at noon and at five."))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def requests_of(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(path) if line["kind"] == "request"]


def read_inputs(path: Path) -> list[dict[str, Any]]:
    return [exchange.request.input for exchange in Recording.read(path).exchanges]


def sent_inputs(agent: ScriptedAgent) -> list[dict[str, Any]]:
    return [json.loads(request_body(each)) for each in agent.inputs]


def test_forty_eight_turns_take_at_most_five_times_the_bytes_of_twelve(tmp_path: Path) -> None:
    path, sizes = tmp_path / "run.jsonl", list[int]()
    agent = ScriptedAgent(ANSWER).use(record(path))
    for number in range(48):
        agent.run_agent_sync(f"Question {number}: when does the ferry leave, and how long does it take?")
        sizes.append(path.stat().st_size)
    assert sizes[47] <= 5 * sizes[11]
    assert read_inputs(path) == sent_inputs(agent)


def test_agents_and_threads_that_share_a_recorder_refer_to_their_own_requests(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = record(path)
    agents = [
        ScriptedAgent(ANSWER, agent_id=agent_id, thread_id=thread_id).use(recorder)
        for agent_id, thread_id in (("one", "t"), ("other", "t"), ("one", "u"))
    ]
    for number in range(3):
        for agent in agents:
            agent.run_agent_sync(f"Question {number}")
    written = requests_of(path)
    keys = [line["request"] for line in written]
    assert [line.get("base") for line in written] == [None, None, None, *keys[:6]]
    assert [line["input"]["messages"][0] for line in written[3:]] == [[0, 1]] * 3 + [[0, 3]] * 3
    assert read_inputs(path) == [sent_inputs(agents[place])[number] for number in range(3) for place in range(3)]


def test_a_request_without_the_oldest_messages_refers_to_those_that_stayed(tmp_path: Path) -> None:
    """Middleware also puts another message before them each time."""

    async def latest(run_input: RunAgentInput, following: Next) -> AsyncIterator[Event | UnrecognizedEvent]:
        now = SystemMessage(id="now", content=f"It is {len(run_input.messages)} o'clock.")
        async for event in following(run_input.model_copy(update={"messages": [now, *run_input.messages[-4:]]})):
            yield event

    path = tmp_path / "run.jsonl"
    answers = [turn(text("At nine.", message_id=f"answer-{number}")) for number in range(5)]
    agent = ScriptedAgent(*answers, middleware=[latest]).use(record(path))
    for number in range(5):
        agent.run_agent_sync(f"Question {number}")
    last = requests_of(path)[-1]["input"]["messages"]
    assert [part if is_array(part) else part["role"] for part in last] == ["system", [3, 5], "assistant", "user"]
    assert read_inputs(path) == sent_inputs(agent)


def test_a_large_state_is_written_again_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(ANSWER, initial_state={"plan": "x" * 1000}).use(record(path))
    agent.run_agent_sync("Hi")
    agent.run_agent_sync("And now?")
    agent.set_state({"plan": "y" * 1000})
    agent.run_agent_sync("And then?")
    states = [line["input"].get("state", line.get("same")) for line in requests_of(path)]
    assert states == [{"plan": "x" * 1000}, ["state"], {"plan": "y" * 1000}]
    assert read_inputs(path) == sent_inputs(agent)


def test_what_is_referred_to_is_redacted_as_ever(tmp_path: Path) -> None:
    """A function may redact a message in one place, and leave it in another."""

    def first_only(value: str, place: str) -> str:
        return "***" if place.startswith("/input/messages/1/content") else value

    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(ANSWER, initial_state={"password": "hunter2" * 30}).use(record(path, redact=first_only))
    for number in range(3):
        agent.run_agent_sync(f"Question {number}, password=hunter2")
    assert "hunter2" not in path.read_text()
    found = [[message["content"] for message in each["messages"]] for each in read_inputs(path)]
    answer, asked = agent.messages[1].content, [f"Question {number}, password=[redacted]" for number in range(3)]
    assert found == [[asked[0]], [asked[0], "***", asked[1]], [asked[0], "***", asked[1], answer, asked[2]]]
    assert {str(each["state"]) for each in read_inputs(path)} == {"{'password': '[redacted]'}"}
    replay = ReplayAgent(path, initial_state={"password": "other"}, redact=first_only)
    assert [replay.run_agent_sync(f"Question {number}, password=x").text for number in range(3)] == [answer] * 3


def test_a_request_whose_base_is_lost_says_so_and_the_others_are_read(tmp_path: Path) -> None:
    path, cut = tmp_path / "run.jsonl", tmp_path / "cut.jsonl"
    recorder = record(path)
    one, other = (ScriptedAgent(ANSWER, thread_id=name).use(recorder) for name in ("one", "other"))
    for number in range(3):
        one.run_agent_sync(f"One {number}")
        other.run_agent_sync(f"Other {number}")
    lost = requests_of(path)[2]["request"]
    cut.write_text("".join(f"{json.dumps(line)}\n" for line in lines_of(path) if line.get("request") != lost))
    exchanges = Recording.read(cut).exchanges
    readable = [each.request.base is None for each in exchanges]
    assert readable == [True, True, True, False, True]
    assert [each.input.messages for each in exchanges if each.request.base is None] == [
        each.messages for each in (one.inputs[0], other.inputs[0], other.inputs[1], other.inputs[2])
    ]
    with pytest.raises(RecordingError, match=rf"cannot be read: it refers to request {lost}, which is not in the file"):
        _ = exchanges[3].input
    replay = ReplayAgent(cut)
    assert [replay.run_agent_sync(f"Other {number}").text for number in range(3)] == [one.messages[1].content] * 3
    with pytest.raises(UnrecordedRequestError) as failure:
        ReplayAgent(cut, initial_messages=one.inputs[2].messages).run_agent_sync()
    assert "Of its requests 1 cannot be read: they refer to others that are not in the file." in failure.value.__notes__
    assert b"which is not in the file before it" in inspector_page(Recording.read(cut))


def test_a_recorder_that_was_closed_begins_with_a_whole_request(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = record(path)
    agent = ScriptedAgent(ANSWER).use(recorder)
    agent.run_agent_sync("Hi")
    recorder.close()
    path.rename(tmp_path / "before.jsonl")
    agent.run_agent_sync("And now?")
    assert read_inputs(path) == sent_inputs(agent)[1:]


def test_references_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    header = {"kind": "header", "format": 2, "protocol": "1.0", "package": "", "session": "s", "time": 0}
    messages: list[Any] = [{"id": "m", "role": "user", "content": "Hi"}]
    lines: list[dict[str, Any]] = [header]
    for number in range(40):
        head = {"kind": "request", "request": f"s-1.{number}", "call": "s-1", "at": 0, "agent": {"agent_id": "a"}}
        base = {"base": f"s-1.{number - 1}"} if number else {}
        lines.append({**head, **base, "input": {"messages": messages}})
        messages = [[0, 2**number], [0, 2**number]]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RecordingError, match=r"line \d+: the inputs so far take more than 1 MB; raise max_bytes="):
        Recording.read(path, max_bytes=1_000_000)


VALUES = st.sampled_from(["", "x" * 200, "y" * 200])
MESSAGES = st.lists(st.fixed_dictionaries({"id": st.sampled_from("abcde"), "content": VALUES}))
MEMBERS = st.dictionaries(st.sampled_from(["state", "tools", "resume"]), VALUES)


@given(st.lists(st.tuples(MESSAGES, MEMBERS)))
def test_any_inputs_are_read_as_they_were(inputs: list[tuple[list[dict[str, str]], dict[str, str]]]) -> None:
    references, whole = InputReferences(), WholeInputs()
    for number, (messages, others) in enumerate(inputs):
        head = {"kind": "request", "request": f"s-1.{number}", "call": "s-1", "at": 0, "agent": {"agent_id": "a"}}
        given = {"threadId": "t", **others, "messages": messages}
        line = whole.restore(LINE.validate_json(json.dumps(references.shorten({**head, "input": given}))))
        assert line == LINE.validate_python({**head, "input": given})
