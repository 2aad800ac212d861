"""How a run ends, for each verb: the table of the design, and what arrived before is never lost (LIFE, TRUNC, SSE)."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from ag_ui.core import (
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TokenUsage,
)

from agui_client import (
    AGUIError,
    ConnectError,
    DecodeError,
    EventOrderError,
    HttpAgent,
    HTTPStatusError,
    IncompleteRunError,
    InvalidEventError,
    ProtocolError,
    RetryPolicy,
    RunFailedError,
    RunResult,
    StreamTooLargeError,
    UnexpectedContentTypeError,
    UsageError,
)
from agui_client.testing import Reply, ScriptedAgent, Step, interrupt, serve_bytes, sse, text, tool_call, turn
from support.verbs import EVENT_VERBS, VERBS, Ending, Verb, by_verb, every_result_verb, every_verb

STARTED = RunStartedEvent(thread_id="thread-1", run_id="run-1")
HALF: list[Step] = [
    STARTED,
    TextMessageStartEvent(message_id="m1", role="assistant"),
    TextMessageContentEvent(message_id="m1", delta="Half an"),
]
"""What had arrived when it went wrong."""
WHOLE = sse(turn(text("All of it.", message_id="m1")))


@dataclass
class Failure:
    """Something that goes wrong, and what must be raised."""

    reply: Reply
    error: type[AGUIError]
    says: str
    rule: str | None = None
    said: str | None = None
    """The text that must be kept; None when nothing arrived."""


def broken(body: bytes | str, **reply: Any) -> Reply:
    tail = body.encode() if isinstance(body, str) else body
    return Reply([sse(*HALF) + tail], **reply)


HTML = "<!doctype html><title>Welcome</title>" + "x" * 1000

FAILURES = {
    "RUN_ERROR": Failure(
        broken(sse(RunErrorEvent(message="overloaded", code="E503"))),
        RunFailedError, "overloaded (code E503)", said="Half an",
    ),
    "RUN_ERROR at once": Failure(Reply([sse(RunErrorEvent(message="no"))]), RunFailedError, "no"),
    "RUN_ERROR after RUN_FINISHED": Failure(
        Reply([WHOLE, sse(RunErrorEvent(message="billing"))]), RunFailedError, "billing", said="All of it.",
    ),
    "an event out of order": Failure(
        broken(sse(TextMessageContentEvent(message_id="m2", delta="?"))),
        EventOrderError, "m2", rule="STREAM-1", said="Half an",
    ),
    "no RUN_STARTED": Failure(Reply([sse(*HALF[1:])]), EventOrderError, "TEXT_MESSAGE_START", rule="LIFE-1"),
    "an event after the end": Failure(
        Reply([WHOLE, sse(*HALF[1:])]), EventOrderError, "TEXT_MESSAGE_START", rule="LIFE-3", said="All of it.",
    ),
    "a wrong value": Failure(
        broken('data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":7}\n\n'),
        InvalidEventError, "/delta", rule="PROC-6", said="Half an",
    ),
    "no terminal event": Failure(broken(""), IncompleteRunError, "", rule="TRUNC-1", said="Half an"),
    "an empty body": Failure(Reply(), IncompleteRunError, "", rule="TRUNC-1"),
    "only comments": Failure(Reply([b": hello\n\n"]), IncompleteRunError, "", rule="TRUNC-1"),
    "a reset": Failure(broken("", end="reset"), IncompleteRunError, " broke: ", rule="TRUNC-1", said="Half an"),
    "a missing last chunk": Failure(
        broken("", end="cut"), IncompleteRunError, " broke: ", rule="TRUNC-1", said="Half an"
    ),
    "a cut inside a frame": Failure(
        broken('data: {"type":"TEXT_MESS'), IncompleteRunError, "inside a frame", rule="TRUNC-1", said="Half an"
    ),
    "broken JSON": Failure(broken("data: {\n\n"), DecodeError, "event 3", rule="PROC-12", said="Half an"),
    "JSON that is no object": Failure(broken("data: [1]\n\n"), DecodeError, "event 3", rule="PROC-12", said="Half an"),
    "an event without a type": Failure(broken("data: {}\n\n"), DecodeError, "event 3", rule="PROC-12", said="Half an"),
    "invalid UTF-8": Failure(broken(b'data: "\xff"\n\n'), DecodeError, "UTF-8", rule="PROC-12", said="Half an"),
    "UTF-8 cut at the end": Failure(
        broken(b'data: "\xe2\x82'), IncompleteRunError, "inside a frame", rule="TRUNC-1", said="Half an"
    ),
    "a frame too large": Failure(
        broken("data: " + "x" * 100_000), StreamTooLargeError, "max_event_bytes", rule="SSE-12", said="Half an"
    ),
    "401 with JSON": Failure(
        Reply([b'{"detail":"who are you?"}'], status=401, content_type="application/json"),
        HTTPStatusError, 'responded with 401 Unauthorized: {"detail":"who are you?"}',
    ),
    "500": Failure(Reply([b"oops"], status=500, content_type=None), HTTPStatusError, "responded with 500 Internal"),
    "405 with an event stream": Failure(
        Reply([WHOLE], status=405), HTTPStatusError, "; is this the address that takes runs?"
    ),
    "302": Failure(
        Reply(status=302, headers={"Location": "/agent/"}), HTTPStatusError, "/agent/, but the POST would become a GET"
    ),
    "a page": Failure(
        Reply([HTML.encode()], content_type="text/html; charset=utf-8"), UnexpectedContentTypeError, "<title>Welcome",
    ),
    "no content type": Failure(Reply([WHOLE], content_type=None), UnexpectedContentTypeError, "no content type"),
    "a reset before anything": Failure(Reply(end="reset"), ConnectError, " broke: "),
}  # fmt: skip


CHOSEN = ("RUN_ERROR", "an event out of order", "a wrong value", "no terminal event", "a reset", "broken JSON", "500")
every_failure = by_verb("name", {name: name for name in FAILURES}, CHOSEN)
"""Run a test with each failure and thorough verb, and with one failure of each kind by every other verb."""


_runs: dict[tuple[int, str], tuple[HttpAgent, Ending]] = {}


def failed_run(verb: Verb, name: str) -> tuple[HttpAgent, Ending]:
    """A run that goes wrong; carried out once for all the tests that look at it."""
    key = (id(verb), name)
    if key not in _runs:
        with serve_bytes(FAILURES[name].reply) as server:
            agent = HttpAgent(server.url, thread_id="thread-1", max_event_bytes=50_000)
            _runs[key] = agent, verb(agent, "Hi", run_id="run-1")
    return _runs[key]


@every_failure
@pytest.mark.requirement(
    "LIFE-7", "LIFE-8", "TRUNC-1", "TRUNC-3", "SSE-8", "SSE-9", "SSE-12", "SET-8", "SET-12", "SET-13", "SET-15"
)
def test_every_verb_raises_what_went_wrong(name: str, verb: Verb) -> None:
    failure, (_, ending) = FAILURES[name], failed_run(verb, name)
    assert type(ending.error) is failure.error
    assert failure.says in str(ending.error)
    if isinstance(ending.error, ProtocolError):
        assert ending.error.rule == failure.rule


@every_failure
@pytest.mark.requirement("LIFE-8", "TRUNC-1")
def test_every_error_carries_its_run_and_what_had_arrived(name: str, verb: Verb) -> None:
    failure, (agent, ending) = FAILURES[name], failed_run(verb, name)
    error = ending.error
    assert isinstance(error, AGUIError)
    assert (error.thread_id, error.run_id) == ("thread-1", "run-1")
    assert isinstance(error.partial, RunResult)
    assert (error.partial.thread_id, error.partial.run_id) == ("thread-1", "run-1")
    assert error.partial.text == (failure.said or "")
    assert (error.partial.outcome is None) or isinstance(error, ProtocolError)
    assert not error.partial.aborted
    # A run that never started leaves the conversation as it was.
    kept = [] if failure.said is None else ["Hi", failure.said]
    assert [message.content for message in error.partial.messages] == kept
    assert agent.messages == error.partial.messages
    assert not agent.is_running


@by_verb("name", {name: name for name in FAILURES}, CHOSEN, EVENT_VERBS)
def test_what_came_before_the_failure_was_given_out(name: str, verb: Verb) -> None:
    _, ending = failed_run(verb, name)
    assert ending.events is not None
    given = "".join(event.delta for event in ending.events if isinstance(event, TextMessageContentEvent))
    assert given == (FAILURES[name].said or "")


@every_verb
@pytest.mark.requirement("LIFE-7")
@pytest.mark.parametrize("name", ["RUN_ERROR", "RUN_ERROR at once", "RUN_ERROR after RUN_FINISHED"])
def test_a_run_error_is_given_out_before_it_is_raised(name: str, verb: Verb) -> None:
    _, ending = failed_run(verb, name)
    assert isinstance(ending.error, RunFailedError)
    assert ending.events is None or ending.events[-1] == ending.error.event


@every_verb
@pytest.mark.parametrize("name", CHOSEN)
def test_an_agent_can_run_again_after_a_failure(name: str, verb: Verb) -> None:
    with serve_bytes(FAILURES[name].reply, sse(turn(text("Better.", message_id="m9")))) as server:
        agent = HttpAgent(server.url, max_event_bytes=50_000)
        assert verb(agent, "Hi").error is not None
        assert verb(agent, "Again").error is None
        assert agent.messages[-1].content == "Better."


# --- what the errors say besides


def error_of(name: str) -> Any:
    return failed_run(VERBS["run_agent-asyncio"], name)[1].error


@pytest.mark.requirement("SSE-8")
def test_a_status_error_keeps_status_body_and_headers() -> None:
    error = error_of("401 with JSON")
    assert (error.status_code, error.body) == (401, '{"detail":"who are you?"}')
    assert error.headers["content-type"] == "application/json"
    assert isinstance(error.partial, RunResult)
    assert error.partial.response is not None
    assert error.partial.response.status_code == 401


@pytest.mark.requirement("SET-13")
def test_a_page_is_quoted_with_its_first_512_characters() -> None:
    error = error_of("a page")
    assert (error.content_type, error.body) == ("text/html", HTML[:512])
    assert "is this the agent's address?" in str(error)


def test_a_failed_run_tells_its_code_and_usage() -> None:
    usage = [TokenUsage(model="m", input_tokens=3)]
    reply = Reply([sse(STARTED, RunErrorEvent(message="out of tokens", code="E1", usage=usage))])
    with serve_bytes(reply) as server, pytest.raises(RunFailedError) as caught:
        HttpAgent(server.url).run_agent_sync("Hi")
    assert caught.value.code == "E1"
    assert caught.value.event == RunErrorEvent(message="out of tokens", code="E1", usage=usage)
    assert caught.value.partial is not None
    assert caught.value.partial.usage == usage


def test_an_invalid_event_tells_where_and_what() -> None:
    error = error_of("a wrong value")
    assert error.path == "/delta"
    assert len(error.errors) == 1


def test_an_event_out_of_order_is_on_its_error() -> None:
    assert error_of("an event out of order").event == TextMessageContentEvent(message_id="m2", delta="?")


@pytest.mark.requirement("TRUNC-1")
def test_a_broken_connection_is_the_cause_of_an_incomplete_run() -> None:
    assert isinstance(error_of("a reset").__cause__, ConnectError)


@every_verb
def test_an_agent_that_is_not_there_cannot_be_connected_to(verb: Verb) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    agent = HttpAgent(url, thread_id="thread-1", retry=RetryPolicy(first_wait=0.01))
    ending = verb(agent, "Hi", run_id="run-1")
    assert type(ending.error) is ConnectError
    assert "is the agent running" in str(ending.error)
    assert (ending.error.thread_id, ending.error.run_id) == ("thread-1", "run-1")
    assert agent.messages == []


@pytest.mark.parametrize("url", ["ftp://host/", "nowhere", "/agent", "", "http://", "http://[::"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="the agent's url"):
        HttpAgent(url)


# --- endings that are no failures

OUTCOMES: dict[str, tuple[Any, type]] = {
    "none": (None, RunFinishedSuccessOutcome),
    "success": (RunFinishedSuccessOutcome(type="success"), RunFinishedSuccessOutcome),
    "interrupt": (interrupt("Proceed?"), RunFinishedInterruptOutcome),
    "cancelled": (RunFinishedCancelledOutcome(type="cancelled"), RunFinishedCancelledOutcome),
}


@every_verb
@pytest.mark.requirement("LIFE-9", "LIFE-10", "INT-1")
@pytest.mark.parametrize(("outcome", "expected"), OUTCOMES.values(), ids=list(OUTCOMES))
def test_a_run_that_finished_returns_with_its_outcome(verb: Verb, outcome: Any, expected: type) -> None:
    agent = ScriptedAgent(turn(text("Half"), outcome=outcome))
    ending = verb(agent, "Hi")
    assert ending.error is None
    assert type(ending.outcome) is expected
    assert [message.content for message in agent.messages] == ["Hi", "Half"]
    assert len(agent.pending_interrupts) == (expected is RunFinishedInterruptOutcome)


@every_verb
@pytest.mark.requirement("LIFE-4", "SET-8")
def test_a_late_run_error_takes_the_interrupts_with_it(verb: Verb) -> None:
    agent = ScriptedAgent([turn(outcome=interrupt("Proceed?")), RunErrorEvent(message="never mind")])
    error = verb(agent, "Hi").error
    assert isinstance(error, RunFailedError)
    assert error.partial is not None
    assert (error.partial.interrupts, error.partial.outcome) == ([], None)
    assert agent.pending_interrupts == []


@every_result_verb
@pytest.mark.requirement("SET-11", "TOOL-11")
@pytest.mark.parametrize("outcome", [None, RunFinishedCancelledOutcome(type="cancelled")], ids=["success", "cancelled"])
def test_calls_nobody_answered_are_reported(verb: Verb, outcome: Any) -> None:
    result = verb(ScriptedAgent(turn(tool_call("unheard_of", "{not json"), outcome=outcome))).result
    assert result is not None
    assert [(call.id, call.function.arguments) for call in result.pending_tool_calls] == [("call-1", "{not json")]


@every_verb
@pytest.mark.requirement("SET-11")
@pytest.mark.parametrize("end", [[RunErrorEvent(message="no")], []], ids=["failed", "truncated"])
def test_calls_of_a_run_that_went_wrong_are_reported(verb: Verb, end: list[Step]) -> None:
    error = verb(ScriptedAgent([STARTED, tool_call("charge_card"), *end], thread_id="thread-1"), run_id="run-1").error
    assert isinstance(error, AGUIError)
    assert error.partial is not None
    assert [call.function.name for call in error.partial.pending_tool_calls] == ["charge_card"]


@every_verb
def test_a_connection_that_breaks_after_the_run_has_ended_is_only_warned_about(verb: Verb) -> None:
    with serve_bytes(Reply([WHOLE], end="reset")) as server:
        ending = verb(HttpAgent(server.url, thread_id="thread-1"), "Hi", run_id="run-1")
    assert ending.error is None
    if ending.result:
        assert [warning.rule for warning in ending.result.warnings] == ["TRUNC-1"]


# --- agents in this process


def raising(error: BaseException) -> Callable[[Any], Any]:
    async def run(input: Any) -> Any:
        for step in HALF:
            yield step
        raise error

    return run


@every_verb
@pytest.mark.requirement("SSE-13")
def test_an_in_process_agent_that_just_stops_is_incomplete(verb: Verb) -> None:
    ending = verb(ScriptedAgent(HALF, thread_id="thread-1"), run_id="run-1")
    assert type(ending.error) is IncompleteRunError


@every_verb
def test_what_an_in_process_agent_raises_is_a_failure_of_the_run(verb: Verb) -> None:
    own = ZeroDivisionError("mine")
    agent = ScriptedAgent(raising(own), thread_id="thread-1")
    ending = verb(agent, "Hi", run_id="run-1")
    assert isinstance(ending.error, RunFailedError)
    assert (ending.error.raised, ending.error.__cause__, ending.error.code) == (own, own, "ZeroDivisionError")
    assert (ending.error.run_id, str(ending.error)) == ("run-1", "the agent raised ZeroDivisionError: mine")
    assert ending.error.partial is not None
    assert ending.error.partial.text == "Half an"
    assert [message.content for message in agent.messages] == ["Hi", "Half an"]
    assert not agent.is_running


def test_a_save_that_fails_after_a_run_has_failed_is_logged_and_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(turn(text("Hm."), RunErrorEvent(message="overloaded")))

    async def save(_checkpoint: object) -> None:
        if agent.inputs:
            raise OSError("disk full")

    with pytest.raises(RunFailedError, match="overloaded"):
        agent.save_with(save).run_agent_sync("Hi", run_id="r")
    logged = [(each.getMessage(), str(each.exc_info and each.exc_info[1])) for each in caplog.records]
    # It is tried at the end of the run, and once more when the call is left.
    assert [each for each in logged if "run r" in each[0]] == [("at the end of run r", "disk full")] * 2
