"""What is written down of a run, when, and what never is."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput
from hypothesis import given
from hypothesis import strategies as st

from agui_client import (
    AbstractAgent,
    AGUIError,
    Cancel,
    FunctionAgent,
    HttpAgent,
    IncompleteRunError,
    RunFailedError,
    UnrecognizedEvent,
    UsageError,
    tool,
)
from agui_client.asgi import agent_app
from agui_client.recording import Recorder, Recording, ReplayAgent, record
from agui_client.recording._format import HeaderLine, ToolLine
from agui_client.testing import Reply, ScriptedAgent, serve_bytes, sse, text, tool_call, turn
from agui_client.types import Next
from support.programs import run_program
from support.sampling import cuts_of
from weaves import SECRET, encoded, weave
from weaves.memory import Server, framed

ANSWER = turn(text("Hello."))


def kinds(path: Path) -> list[str]:
    return [line.kind for line in Recording.read(path).lines]


@tool
def look() -> str:
    """Looks."""
    return "seen"


def test_a_run_is_a_header_a_request_events_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with serve_bytes(Reply([sse(ANSWER)])) as server:
        agent = HttpAgent(server.url, agent_id="helper", thread_id="t", headers={"authorization": "Bearer abc"})
        agent.use(record(path)).run_agent_sync("Hi", run_id="r")
    assert kinds(path) == ["header", "request", "response", *["event"] * 5, "end", "outcome", "call"]
    (exchange,) = Recording.read(path).exchanges
    assert (exchange.request.agent.name, exchange.request.agent.url) == ("helper", server.url)
    assert (exchange.input.run_id, exchange.input.messages[0].content) == ("r", "Hi")
    assert [(each.status, each.headers) for each in exchange.responses] == [
        (200, {"content-type": "text/event-stream"})
    ]
    assert exchange.end is not None
    assert exchange.end.reason == "ended"
    assert exchange.outcome is not None
    assert (exchange.outcome.ending, exchange.outcome.run_id) == ("success", "r")
    times = [exchange.request.at, *(each.at for each in exchange.events), exchange.end.at]
    assert times == sorted(times)


def test_events_are_recorded_as_the_server_sent_them(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "THINKING_START", "title": "old"},
        {"type": "THINKING_END"},
        {"type": "NEW", "x": [1, None]},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "ä", "unknown": True},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "usage": [{"model": "m"}]},
    ]

    async def shouting(run_input: RunAgentInput, following: Next) -> AsyncIterator[Event | UnrecognizedEvent]:
        async for event in following(run_input):
            yield event if event.type != "TEXT_MESSAGE_CHUNK" else event.model_copy(update={"delta": "LOUD"})

    agent = Server([framed(map(json.dumps, sent))]).agent(middleware=[shouting])
    agent.use(record(tmp_path / "run.jsonl"))
    agent.run_agent_sync(run_id="r")
    (exchange,) = Recording.read(tmp_path / "run.jsonl").exchanges
    assert [line.event for line in exchange.events] == sent
    assert exchange.outcome is not None
    assert {warning.rule for warning in exchange.outcome.warnings} >= {"VER-10", "PROC-7"}


@pytest.mark.parametrize("member", ["messageId", "toolCallId", "subagentRunId", "delta", "runId"])
@pytest.mark.parametrize("value", [{"a": [1]}, [1], 1, None])
@pytest.mark.parametrize("kind", ["TEXT_MESSAGE_CHUNK", "TOOL_CALL_ARGS", "TEXT_MESSAGE_END", "NEWS"])
def test_an_event_with_anything_in_place_of_an_id_is_recorded_as_everything_around_it(
    kind: str, member: str, value: Any, tmp_path: Path
) -> None:
    run: dict[str, Any] = {"threadId": "t", "runId": "r"}
    said = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"}
    broken = {"type": kind, "messageId": "m", "toolCallId": "c", "delta": "more", member: value}
    sent = [{"type": "RUN_STARTED", **run}, said, broken, {"type": "RUN_FINISHED", **run}]
    with (
        serve_bytes(b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in sent)) as server,
        suppress(AGUIError),
    ):
        HttpAgent(server.url).use(record(tmp_path / "run.jsonl")).run_agent_sync("Hi")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    assert [each["event"] for each in lines if each["kind"] == "event"][:3] == sent[:3]
    assert [each["kind"] for each in lines[-3:]] == ["end", "outcome", "call"]


def test_tools_are_recorded_between_the_rounds_of_a_call(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c")), ANSWER, tools=[look])
    agent.use(record(path)).run_agent_sync("Hi")
    recording = Recording.read(path)
    first, second = recording.exchanges
    assert first.request.call == second.request.call
    assert [(each.status, each.result) for each in first.tools] == [
        ("waiting", None),
        ("running", None),
        ("succeeded", "seen"),
    ]
    assert isinstance(recording.lines[-1 - len(second.events) - 4], ToolLine)


def test_middleware_that_asks_again_makes_two_requests_of_one_run(tmp_path: Path) -> None:
    async def again(run_input: RunAgentInput, following: Next) -> AsyncIterator[Event | UnrecognizedEvent]:
        async for _ in following(run_input):
            pass
        async for event in following(run_input.model_copy(update={"state": {"again": True}})):
            yield event

    agent = ScriptedAgent(turn(text("No.")), turn(text("Yes.")), middleware=[again]).use(record(tmp_path / "a.jsonl"))
    assert agent.run_agent_sync("Hi").text == "Yes."
    first, second = Recording.read(tmp_path / "a.jsonl").exchanges
    assert first.request.call == second.request.call
    assert [each.input.state for each in (first, second)] == [{}, {"again": True}]
    assert [each.end.reason for each in (first, second) if each.end] == ["ended", "ended"]
    assert ReplayAgent(tmp_path / "a.jsonl", middleware=[again]).run_agent_sync("Hi").text == "Yes."


def test_a_run_that_is_left_says_so(tmp_path: Path) -> None:
    agent = ScriptedAgent(ANSWER).use(record(tmp_path / "run.jsonl"))
    with agent.stream_sync("Hi") as run:
        next(run)
    (exchange,) = Recording.read(tmp_path / "run.jsonl").exchanges
    assert exchange.end is not None
    assert exchange.outcome is not None
    assert (exchange.end.reason, exchange.outcome.ending, len(exchange.events)) == ("left", "aborted", 1)


def test_many_agents_and_calls_go_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    inner = ScriptedAgent(ANSWER).use(recorder := record(path))

    async def outer(run_input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        await inner.clone().run_agent("from inside")
        async for event in ScriptedAgent(ANSWER).run(run_input):
            yield event

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                agent = FunctionAgent(outer).use(recorder)
                tasks.start_soon(agent.run_agent, f"Prompt {number}")

    anyio.run(main)
    exchanges = Recording.read(path).exchanges
    assert (len(exchanges), kinds(path).count("header")) == (10, 1)
    calls = {each.request.call for each in exchanges if each.request.parent is None}
    assert {each.request.parent for each in exchanges if each.request.parent} == calls
    assert all(each.end is not None and len(each.events) == 5 for each in exchanges)


def test_a_served_agent_is_recorded_behind_its_app(tmp_path: Path) -> None:
    served = ScriptedAgent(turn(tool_call("look")), ANSWER, tools=[look]).use(record(tmp_path / "server.jsonl"))
    agent = HttpAgent("http://app/", app=agent_app(served)).use(record(tmp_path / "client.jsonl"))
    agent.run_agent_sync("Hi")
    assert len(Recording.read(tmp_path / "server.jsonl").exchanges) == 2
    assert len(Recording.read(tmp_path / "client.jsonl").exchanges) == 1
    replay = ReplayAgent(tmp_path / "server.jsonl", tools=[look])
    assert HttpAgent("http://app/", app=agent_app(replay)).run_agent_sync("Hi").text == "Hello."


def test_use_takes_observers_and_middleware_and_nothing_else() -> None:
    with pytest.raises(UsageError, match="middleware is a function"):
        ScriptedAgent(ANSWER).use("run.jsonl")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="gzip"):
        record("run.jsonl.gz")


def test_a_session_is_appended_to_a_file_that_was_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ScriptedAgent(ANSWER).use(record(path)).run_agent_sync("One")
    whole = path.read_bytes()
    for size in cuts_of(whole, b"\n", whole.index(b"\n") + 1):
        path.write_bytes(whole[:size])
        complete, _, rest = whole[:size].rpartition(b"\n")
        is_whole = rest + b"\n" in whole.splitlines(keepends=True)
        recording = Recording.read(path)
        assert recording.is_cut == (bool(rest) and not is_whole)
        assert len(recording.lines) == complete.count(b"\n") + 1 + is_whole
    path.write_bytes(whole[:-10])
    ScriptedAgent(ANSWER).use(record(path)).run_agent_sync("Two")
    again = Recording.read(path)
    assert ([type(line) for line in again.lines].count(HeaderLine), len(again.exchanges), again.is_cut) == (2, 2, False)


def test_a_recording_that_an_editor_saved_with_a_mark_of_its_encoding_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ScriptedAgent(ANSWER).use(record(path)).run_agent_sync("Hi")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert ReplayAgent(path).run_agent_sync("Hi").text == "Hello."


def test_a_packed_recording_can_be_read(tmp_path: Path) -> None:
    ScriptedAgent(ANSWER).use(record(tmp_path / "run.jsonl")).run_agent_sync("Hi")
    packed = tmp_path / "run.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "run.jsonl").read_bytes()))
    assert ReplayAgent(packed).run_agent_sync("Hi").text == "Hello."


def test_a_recording_is_read_up_to_a_number_of_bytes_and_not_unpacked_any_further(tmp_path: Path) -> None:
    plain, packed, endless = tmp_path / "run.jsonl", tmp_path / "run.jsonl.gz", tmp_path / "one-line.jsonl"
    ScriptedAgent(ANSWER).use(record(plain)).run_agent_sync("Hi")
    content = plain.read_bytes()
    packed.write_bytes(gzip.compress(content))
    longest = max(map(len, content.splitlines(keepends=True)))
    assert Recording.read(plain, max_bytes=longest).lines == Recording.read(packed, max_bytes=len(content)).lines
    with pytest.raises(UsageError, match=r"run\.jsonl, line \d is longer than .* raise max_bytes= of Recording\.read"):
        Recording.read(plain, max_bytes=longest - 1)
    with pytest.raises(UsageError, match=r"run\.jsonl\.gz unpacks to more than .*; raise max_bytes= .* gunzip"):
        Recording.read(packed, max_bytes=len(content) - 1)
    packed.write_bytes(gzip.compress(bytes(20_000_000), 1))
    with endless.open("wb") as file:
        file.truncate(20_000_000)  # without a block on the disk
    tracemalloc.start()
    try:
        for path, bound in ((packed, "unpacks to more than 1 MB"), (endless, "line 1 is longer than 1 MB")):
            with pytest.raises(UsageError, match=bound):
                Recording.read(path, max_bytes=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


PROGRAM = """
import os, signal, sys
from agui_client.recording import record
from agui_client.testing import ScriptedAgent, text, turn
agent = ScriptedAgent(turn(text("Hello."))).use(record(sys.argv[1]))
agent.run_agent_sync("Hi")
child = os.fork()
with agent.clone().stream_sync("from the child" if child == 0 else "from the parent") as run:
    next(run), next(run)
    if child:
        os.waitpid(child, 0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_programs_that_fork_and_are_killed_leave_what_had_happened_with_keys_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert run_program("-c", PROGRAM, str(path))[2] == -signal.SIGKILL
    exchanges = Recording.read(path).exchanges
    assert [(len(each.events), each.end is None) for each in exchanges] == [(5, False), (2, True), (2, True)]
    assert len({each.request.request for each in exchanges}) == 3
    assert path.stat().st_mode & 0o077 == 0


def test_threads_may_share_a_recorder(tmp_path: Path) -> None:
    recorder = record(tmp_path / "run.jsonl")
    agents: Sequence[AbstractAgent] = [ScriptedAgent(ANSWER).use(recorder) for _ in range(8)]
    threads = [threading.Thread(target=agent.run_agent_sync, args=("Hi",)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    recorder.close()
    assert [len(each.events) for each in Recording.read(recorder.path).exchanges] == [5] * 8


@given(random=st.randoms(use_true_random=False))
def test_no_secret_is_ever_written(random: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("secrets") / "run.jsonl"
    woven = weave(random)
    server = Server([framed(encoded(event) for event in woven.events)])
    headers = {"authorization": f"Bearer {SECRET}", "cookie": SECRET, "x-api-key": SECRET}
    initial: Any = [{"id": "old", "role": "assistant", "content": "x", "encryptedValue": SECRET}]
    agent = HttpAgent(
        f"http://{SECRET}:{SECRET}@agent.test/?key={SECRET}",
        http_client=server._client,
        thread_id="thread-1",
        headers=headers,
        initial_messages=initial,
        initial_state={"inner": [{"encrypted_value": SECRET, "encryptedContent": [SECRET]}]},
    )
    agent.use(record(path))
    for _ in range(2):
        with suppress(RunFailedError):
            agent.run_agent_sync(run_id="run-1", resume={each.id: Cancel() for each in agent.pending_interrupts})
    assert SECRET not in path.read_text("utf-8")


@given(random=st.randoms(use_true_random=False), secret=st.sampled_from(["e", "Oslo", "ä"]))
def test_a_function_takes_out_what_the_user_wants_out(
    random: Random, secret: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("secrets") / "run.jsonl"
    seen: list[str] = []

    def redact(text: str, where: str) -> str:
        seen.append(where)
        return text.replace(secret, "*")

    agent = ScriptedAgent(turn(text(f"I say {secret} to {random.random()}."), tool_call("look", {"at": secret})))
    agent.set_state({"said": [secret]})
    agent.use(record(path, redact=redact)).run_agent_sync(f"Hi {secret}")
    assert {"/input/messages/0/content", "/input/state/said/0", "/event/delta"} <= set(seen)
    (exchange,) = Recording.read(path).exchanges
    asked = exchange.request.input
    assert secret not in json.dumps([asked["messages"][0]["content"], asked["state"]["said"]])
    assert secret not in "".join(line.event.get("delta", "") for line in exchange.events)
    replay = ReplayAgent(path, redact=redact)
    replay.set_state({"said": [secret]})
    assert replay.run_agent_sync(f"Hi {secret}").text.startswith("I say * to ")


def test_a_function_that_returns_no_text_writes_nothing_that_it_should_have_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(text: str, where: str) -> Any:
        return None

    agent = ScriptedAgent(ANSWER).use(record(tmp_path / "run.jsonl", redact=redact))
    assert agent.run_agent_sync("Hi").text == "Hello."
    assert "redact= returns the text to write, not a NoneType" in caplog.text
    assert not (tmp_path / "run.jsonl").exists()


def test_an_answer_with_a_line_that_could_not_be_written_counts_for_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(text: str, where: str) -> str:
        if text == "Hel":
            raise ValueError("cannot judge this")
        return text

    agent = ScriptedAgent(turn(text("Hello.", chunk=3))).use(record(tmp_path / "run.jsonl", redact=redact))
    assert agent.run_agent_sync("Hi").text == "Hello."
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "an observer of runs failed; the run continues"
    ]
    assert kinds(tmp_path / "run.jsonl") == ["header", "request", "event", "event", "outcome", "call"]
    with pytest.raises(IncompleteRunError):
        ReplayAgent(tmp_path / "run.jsonl").run_agent_sync("Hi")


def test_json_that_is_a_text_is_written_without_secrets(tmp_path: Path) -> None:
    @tool
    def think() -> dict[str, Any]:
        """Thinks."""
        inner = json.dumps({"encrypted_value": SECRET})
        return {"encryptedValue": SECRET, "inner": inner, "deep": f"{400 * '['}{inner}{400 * ']'}"}

    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(turn(tool_call("think", {})), ANSWER, tools=[think]).use(record(path))
    assert SECRET in str(agent.run_agent_sync("Is it encrypted?").messages)
    assert SECRET not in path.read_text("utf-8")
    assert ReplayAgent(path, tools=[think]).run_agent_sync("Is it encrypted?").text == "Hello."


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    refused = {
        tmp_path / "nowhere" / "run.jsonl": "No such file or directory",
        tmp_path: "Is a directory",
        plain / "run.jsonl": "Not a directory",
        tmp_path / ("x" * 300): "File name too long",
    }
    for path, why in refused.items():
        with pytest.raises(UsageError, match=f"^the recording {re.escape(repr(str(path)))} cannot be written: {why}$"):
            record(path)
    assert isinstance(record(tmp_path / "run.jsonl"), Recorder)
    assert [*tmp_path.iterdir()] == [plain]


@pytest.mark.parametrize("content", [b"Notes.\n", b'{"kind": "note"}\n'], ids=["text", "JSON"])
def test_what_is_no_recording_is_not_appended_to(tmp_path: Path, content: bytes) -> None:
    notes = tmp_path / "notes"
    notes.write_bytes(content)
    with pytest.raises(UsageError, match=r"notes' is not a recording, and is left as it is: name another file$"):
        record(notes)
    assert notes.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b'{"kind":"hea'], ids=["empty", "cut in its header"])
def test_a_recording_that_was_hardly_begun_is_appended_to(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    ScriptedAgent(ANSWER, observers=[record(path)]).run_agent_sync("Hi")
    assert ReplayAgent(path).run_agent_sync("Hi").text == "Hello."


def test_what_is_no_function_of_texts_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    async def hide(text: str, where: str) -> str:
        return text

    wrong: list[Any] = [hide, "password", {"password"}]
    for redact in wrong:
        with pytest.raises(UsageError, match=r"redact= takes a plain function \(text, pointer\)"):
            record(tmp_path / "run.jsonl", redact=redact)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit for the size of files")
def test_a_full_disk_costs_what_did_not_fit_and_nothing_else(tmp_path: Path) -> None:
    import resource

    path, (soft, hard) = tmp_path / "run.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    agent = ScriptedAgent(turn(text("Hello. " * 100)), ANSWER).use(record(path))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        assert len(agent.run_agent_sync("Hi").text) == 700
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert agent.run_agent_sync("Again").text == "Hello."
    cut, whole = Recording.read(path).exchanges
    assert (cut.end, len(cut.events) > 10, len(whole.events)) == (None, True, 5)
    assert whole.end is not None
