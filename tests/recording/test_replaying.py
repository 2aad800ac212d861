"""A recorded run is replayed without its server: the same events, messages, state, outcome, errors and warnings."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    UserMessage,
)

from agui_client import ApprovalRequest, Approve, FunctionAgent, HttpAgent, Resolve, ToolError, UsageError, tool
from agui_client.errors import RunFailedError
from agui_client.recording import (
    Recording,
    RecordingError,
    ReplayAgent,
    ReplayedError,
    UnrecordedRequestError,
    record,
)
from agui_client.recording._matching import differences
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    interrupt,
    pause,
    reasoning,
    serve,
    serve_bytes,
    sse,
    state,
    text,
    tool_call,
    turn,
)
from conformance_fixtures import Fixture, fixtures
from support import scenario
from support.replays import facts, lines_of
from support.sampling import cuts_of
from support.verbs import VERBS, Ending, Verb, by_verb
from weaves.memory import Server


@tool
def look(place: str) -> str:
    """Looks at a place."""
    if place == "nowhere":
        raise ToolError("There is no such place.")
    return f"{place} is quiet"


@tool(approval="always")
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


def echoed(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Sends the messages of the caller again."""

    async def events() -> AsyncIterator[Any]:
        restated: list[Message] = [*run_input.messages, UserMessage(id="theirs", content="by the server")]
        yield turn(MessagesSnapshotEvent(messages=restated), CustomEvent(name="at", value=run_input.thread_id))

    return events()


OPEN: list[Event] = [RunStartedEvent(thread_id="thread-1", run_id="run-1"), TextMessageStartEvent(message_id="m")]
CUT: list[Event] = [*OPEN, TextMessageContentEvent(message_id="m", delta="Half")]
FULL = sse(turn(reasoning("Hm."), text("Hello."), state({"a": [1, None]})))

STORIES: dict[str, Any] = {
    "everything": Reply([scenario.FRAMES]),
    "tools": ScriptedAgent(
        turn(text("Wait."), tool_call("look", {"place": "Oslo"}), tool_call("look", {"place": "nowhere"})),
        turn(tool_call("delete", {"path": "/a"})),
        turn(text("Done.")),
    ),
    "an interrupt": ScriptedAgent(turn(outcome=interrupt("Go on?")), turn(text("Thanks."))),
    "a snapshot of the caller's messages": ScriptedAgent(echoed),
    "an error": ScriptedAgent(turn(text("Well"), RunErrorEvent(message="no more", code="X"))),
    "an end without a word": Reply([sse(*CUT)]),
    "a cut in a frame": Reply([FULL[:-20]]),
    "a broken connection": Reply([sse(*CUT)], end="reset"),
    "a broken connection after the end": Reply([FULL], end="reset"),
    "no JSON": Reply([sse(*CUT) + b"data: {broken\n\n"]),
    "a broken order": Reply([sse(*CUT, TextMessageStartEvent(message_id="m"))]),
    "warnings": Reply([sse(OPEN[0], {"type": "NEW"}, {"type": "CUSTOM", "name": "n", "value": 1, "x": 2})]),
    "a refusal": Reply([b"not yours"], status=403, content_type="text/plain"),
    "another content": Reply([b"<html>"], content_type="text/html"),
}


def run(verb: Verb, agent: Any) -> Any:
    return facts(verb(agent, "How is Oslo?", run_id="run-1"), agent)


def approve(request: ApprovalRequest) -> Approve:
    return Approve()


def answer(asked: Interrupt) -> Resolve:
    return Resolve({"yes": True})


OPTIONS: dict[str, Any] = {
    "thread_id": "thread-1",
    "tools": [look, delete],
    "approve": approve,
    "answer": answer,
}


@by_verb("story", STORIES, ["tools", "a cut in a frame"])
def test_a_replay_is_equal_to_the_run_that_was_recorded(verb: Verb, story: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with serve_bytes(story) if isinstance(story, Reply) else serve(story.clone()) as server:
        agent = HttpAgent(server.url, **OPTIONS).use(record(path))
        expected = run(verb, agent)
    assert run(verb, ReplayAgent(path, **OPTIONS)) == expected
    assert run(verb, ReplayAgent(Recording.read(path), speed=math.inf, **OPTIONS)) == expected


@pytest.mark.parametrize("fixture", [pytest.param(each, id=each.name) for each in fixtures()])
def test_every_stream_of_the_corpus_is_replayed_as_it_was(fixture: Fixture, tmp_path: Path) -> None:
    path, verb = tmp_path / "run.jsonl", VERBS["stream-asyncio"]
    with serve_bytes(Reply([fixture.body])) as server:
        agent = fixture.agent(server.url).use(record(path))
        expected = facts(verb(agent, **fixture.options), agent)
    if expected["error"] and expected["error"][0] == "UsageError":
        return  # the input was refused, and nothing sent
    saved, options = fixture.agent("http://nowhere.test/"), {**fixture.options}
    del options["timeout"]
    replay = ReplayAgent(path, tools=saved.tools, max_protocol_version=fixture.max_protocol_version)
    replay.restore(saved.snapshot())
    assert facts(verb(replay, **options), replay) == expected  # type: ignore[arg-type]


def test_a_recording_is_the_same_however_the_bytes_were_split(tmp_path: Path) -> None:
    story = FULL[:-20] if "AGUI_ALL_SPLITS" not in os.environ else scenario.FRAMES
    found: list[Any] = []
    for at in cuts_of(story, b"\n\n"):
        path = tmp_path / f"{at}.jsonl"
        agent = Server([story[:at], story[at:]]).agent().use(record(path))
        VERBS["stream-asyncio"](agent, "Hi", run_id="run-1")
        found.append(lines_of(path))
    assert len(found) > 10
    assert all(each == found[0] for each in found)


def test_a_replayed_agent_of_this_process_raises_what_it_raised(tmp_path: Path) -> None:
    class BrokenError(Exception):
        pass

    async def fails(run_input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        group = ExceptionGroup("out of paper", [ValueError("A4")])
        raise {"key": KeyError("out of paper"), "group": group}.get(
            str(run_input.messages[0].content), BrokenError("out of paper")
        )

    agent = FunctionAgent(fails).use(record(tmp_path / "run.jsonl"))
    for prompt, kind, message in (
        ("key", KeyError, "out of paper"),
        ("group", ReplayedError, "ExceptionGroup: out of paper"),
        ("other", ReplayedError, "BrokenError: out of paper"),
    ):
        with pytest.raises(RunFailedError) as first:
            agent.clone().run_agent_sync(prompt)
        assert isinstance(first.value.raised, KeyError | BrokenError | ExceptionGroup)
        with pytest.raises((RunFailedError, ReplayedError), match=message) as again:
            ReplayAgent(tmp_path / "run.jsonl").run_agent_sync(prompt)
        assert isinstance(getattr(again.value, "raised", again.value), kind)


def test_a_thread_that_is_sent_again_is_replayed_too(tmp_path: Path) -> None:
    with serve(ScriptedAgent(turn(text("One.")), turn(text("Two.")))) as server:
        agent = HttpAgent(server.url, connect_url="again").use(record(tmp_path / "run.jsonl"))
        agent.run_agent_sync("Hi")
        expected = anyio.run(agent.connect_agent).text
    replay = ReplayAgent(tmp_path / "run.jsonl")
    replay.run_agent_sync("Hi")
    assert anyio.run(replay.connect_agent).text == expected == "Two."
    assert [each.request.verb for each in replay.recording.exchanges] == ["run", "connect"]


def recorded(path: Path, *prompts: str) -> Path:
    agent = ScriptedAgent(*(turn(text(f"Answer {number}.")) for number in range(len(prompts))))
    agent.use(record(path))
    for prompt in prompts:
        agent.run_agent_sync(prompt)
    return path


def test_a_changed_question_is_refused_with_a_readable_difference(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.jsonl", "What is the weather like in Oslo today?", "Thanks")
    with pytest.raises(UnrecordedRequestError) as refused:
        ReplayAgent(path).run_agent_sync("What is the weather like in Turin today?")
    difference = (
        '/messages/0/content is "What is the weather like in Turin today?", '
        'recorded was "What is the weather like in Oslo today?"'
    )
    assert str(refused.value) == (
        f"the recording run.jsonl has no response to this request: {difference}; record it anew, or give match="
    )
    assert refused.value.__notes__ == [
        f"What was asked differs from run.jsonl; the nearest of its 2 requests is number 1:\n  {difference}"
    ]


def test_a_long_text_is_shown_where_it_differs_and_so_is_everything_else(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.jsonl", "x" * 500 + "old" + "y" * 500)
    with pytest.raises(UnrecordedRequestError) as refused:
        ReplayAgent(path, initial_state={"a": 1}, tools=[look]).run_agent_sync("x" * 500 + "new" + "y" * 500)
    (note,) = refused.value.__notes__
    x, y = "x" * 30, "y" * 87
    assert f'/messages/0/content is …"{x}new{y}"…, recorded was …"{x}old{y}"…' in note
    assert "/state/a is new: 1" in note
    assert '/tools is new: [{"name": "look"' in note


@pytest.mark.parametrize(
    ("before", "now", "sentences"),
    [
        (["Hello.", "Bye."], ["Hello.", "Well.", "Bye."], ['/1 is new: "Well."']),
        ({"a": [1, 2, 3]}, {"a": [3]}, [f"/a/0 was recorded, and is missing now: {each}" for each in (1, 2)]),
        # The earlier operation moved the text to another place.
        (
            {"a": [0, 1, {"x": "a" * 99}]},
            {"a": [1, {"x": "a" * 98 + "b"}]},
            ["/a/0 was recorded, and is missing now: 0", f'/a/1/x is …"{"a" * 30}b", recorded was …"{"a" * 31}"'],
        ),
        ({"a/b": {"~": "text"}}, {"c": "text", "a/b": {}}, ["/c was recorded as /a~1b/~0"]),
        (None, "failed", ['it is "failed", recorded was null']),
        ([[number] for number in range(7000)], list(range(7000)), ["nearly everything is different"]),
        ({"n": 1}, {"n": 1.0}, []),
    ],
)
def test_differences_are_sentences_with_both_values(before: Any, now: Any, sentences: list[str]) -> None:
    assert list(differences(before, now)) == sentences


def test_an_equal_question_that_a_function_refuses_is_refused_in_words(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.jsonl", "Hi")
    with pytest.raises(UnrecordedRequestError, match=r"no response to this request: match= refused the same question"):
        ReplayAgent(path, match=lambda _recorded, _asked: False).run_agent_sync("Hi")


def test_equal_questions_get_their_answers_in_turn_and_then_the_last_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for answer in ("One.", "Two."):
        ScriptedAgent(turn(text(answer))).use(record(path)).run_agent_sync("Hi")
    agent = ReplayAgent(path)
    assert [agent.clone().run_agent_sync("Hi").text for _ in range(3)] == ["One.", "Two.", "Two."]


def test_a_function_may_decide_what_matches(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.jsonl", "One?", "Two?")
    agent = ReplayAgent(path, match=lambda recorded, asked: len(recorded.messages) == len(asked.messages))
    assert [agent.run_agent_sync(prompt).text for prompt in ("a", "b")] == ["Answer 0.", "Answer 1."]


def test_the_recorded_pace_is_kept_and_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ScriptedAgent(turn(text("One."), pause(0.3), text("Two."))).use(record(path)).run_agent_sync("Hi")
    slow = ReplayAgent(path, speed=1).run_agent_sync("Hi").timings.total
    fast = ReplayAgent(path).run_agent_sync("Hi").timings.total
    assert slow is not None
    assert fast is not None
    assert slow >= 0.3
    assert fast < slow
    with pytest.raises(UsageError, match="speed"):
        ReplayAgent(path, speed=-1)


def test_ids_in_events_become_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(echoed).use(record(path))
    first = agent.run_agent_sync("Hi")
    ending: Ending = VERBS["stream-asyncio"](replay := ReplayAgent(path), "Hi")
    assert replay.thread_id != agent.thread_id
    assert replay.messages[0].id != first.messages[0].id
    assert [message.content for message in replay.messages] == ["Hi", "by the server"]
    assert ending.result is not None
    assert ending.result.warnings == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file"),
        (b"", "it has no header"),
        (b'{"type":"RUN_STARTED"}\n{"type":"RUN_FINISHED"}\n', "line 1: it is not a line of a recording"),
        (b'{"kind":"header","format":3,"protocol":"2","package":"9","session":"s","time":0}\n', "upgrade agui_client"),
        (b'{"kind":"header","protocol":"1.0","package":"","session":"s","time":0}\n{"ki\n{"kind":"end"}\n', "line 2: "),
        (b'{"kind":"event","event":' + 100_000 * b"[" + b"\n{}\n", "line 1: it is nested too deeply"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordingError, match=complaint):
        ReplayAgent(path)


@pytest.mark.parametrize("messages", ["5", "[5, null]", '[{"role": "robot"}]'])
def test_a_recorded_request_that_is_none_is_like_nothing_that_is_asked(messages: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    header = '{"kind":"header","protocol":"1.0","package":"","session":"s","time":0}\n'
    head = '{"kind":"request","request":"s-1.1","call":"s-1","at":0,"agent":{"agent_id":"a"},"input":{"messages":'
    path.write_text(f"{header}{head}{messages}}}}}\n", "utf-8")
    with pytest.raises(UnrecordedRequestError, match="has no response"):
        ReplayAgent(path).run_agent_sync("Hi")
    with pytest.raises(RecordingError, match=r"the input of request s-1\.1 cannot be read"):
        _ = Recording.read(path).exchanges[0].input
