"""The record that every run leaves on `agui_client.run`, whatever became of it, and what is never in a log."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from ag_ui.core import RunFinishedCancelledOutcome

from agui_client import EventLog, HttpAgent, RetryPolicy, Timeouts, UsageError, tool
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    Step,
    events_of,
    faults,
    interrupt,
    reasoning,
    serve_bytes,
    sse,
    state,
    text,
    tool_call,
    tool_result,
    turn,
)
from support.faults_matrix import FaultCase, every_fault_by_turns
from support.verbs import RESULT_VERBS, Verb, by_verb, every_kind_of_verb
from support.waiting import LIMIT

FRAMES = sse(turn(text("One two")))
STALLING = Reply([b"".join(events_of(FRAMES)[:4])], end="stall")
MARK = "m4rk"
"""Stands for whatever users, agents and tools say."""


def runs(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.name == "agui_client.run"]


def ours(caplog: pytest.LogCaptureFixture) -> str:
    """Everything this package logged, tracebacks and fields included."""
    shown = logging.Formatter()
    return "\n".join(
        f"{shown.format(record)} {record.__dict__}"
        for record in caplog.records
        if record.name.startswith("agui_client")
    )


# --- one record a run

FIELDS = {
    "thread_id",
    "run_id",
    "ending",
    "events",
    "attempts",
    "reconnects",
    "warnings",
    "connect_seconds",
    "first_event_seconds",
    "first_text_seconds",
    "total_seconds",
}


@every_fault_by_turns()
def test_every_run_is_one_record_and_no_alarm_however_it_ends(
    case: FaultCase, verb: Verb, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    with serve_bytes(case.reply()) as server:
        error = verb(HttpAgent(server.url, thread_id="thread-1", **case.options), "Hi", run_id="run-1").error
    (record,) = runs(caplog)
    numbers = record.agui
    assert record.levelno == logging.INFO
    assert set(numbers) == FIELDS
    ending = "success" if case.error is None else type(error).__name__
    assert (numbers["thread_id"], numbers["run_id"], numbers["ending"]) == ("thread-1", "run-1", ending)
    told = f"run run-1 of thread thread-1: {ending}, {numbers['events']} events in {numbers['total_seconds']:.3f} s"
    assert record.getMessage() == told
    assert (numbers["attempts"], numbers["connect_seconds"] is None) == (1, not case.is_accepted)
    moments = [numbers[f"{name}_seconds"] for name in ("connect", "first_event", "first_text", "total")]
    assert (known := [each for each in moments if each is not None]) == sorted(known)
    assert moments[-1] is not None
    alarming = [each for each in caplog.records if each.name.startswith("agui_client") and each.levelno > logging.INFO]
    assert [each.getMessage() for each in alarming if case.error is not None] == []


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (None, "success"),
        (interrupt("Sure?"), "interrupt"),
        (RunFinishedCancelledOutcome(type="cancelled"), "cancelled"),
    ],
    ids=["success", "interrupt", "cancelled"],
)
def test_the_ending_of_a_run_that_finished_is_its_outcome(
    outcome: Any, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agui_client.run")
    ScriptedAgent(turn(outcome=outcome)).run_agent_sync("Hi")
    assert [record.agui["ending"] for record in runs(caplog)] == [word]


@pytest.mark.anyio
async def test_a_run_that_was_left_is_aborted_and_says_how_far_it_came(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agui_client.run")
    with serve_bytes(STALLING) as server:
        async with HttpAgent(server.url).stream("Hi") as run:
            for _ in range(3):
                await anext(run)
    (record,) = runs(caplog)
    assert (record.agui["ending"], record.agui["events"], record.agui["attempts"]) == ("aborted", 3, 1)
    alarming = [each.getMessage() for each in caplog.records if each.levelno > logging.INFO]
    assert [each for each in alarming if "LIFE-12" not in each] == []


@pytest.mark.anyio
async def test_a_thread_that_has_nothing_to_tell_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agui_client.run")
    with serve_bytes(b"") as server:
        await HttpAgent(server.url, connect_url="again").connect_agent()
    assert [record.agui["ending"] for record in runs(caplog)] == ["nothing"]


def test_a_call_that_is_refused_before_it_is_a_run_leaves_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    agent = ScriptedAgent(turn())
    with pytest.raises(UsageError):
        agent.run_agent_sync("Hi", tool_results={"nobody": 1})
    assert caplog.records == []


@every_kind_of_verb
def test_each_round_of_a_call_is_a_record(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agui_client.run")

    @tool
    def look() -> str:
        """Looks."""
        return MARK

    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=[look])
    assert verb(agent, "Hi").error is None
    assert [(each.agui["ending"], each.agui["run_id"]) for each in runs(caplog)] == [
        ("success", asked.run_id) for asked in agent.inputs
    ]


@every_kind_of_verb
def test_a_call_is_a_record_with_the_sums_of_its_rounds(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agui_client")

    @tool
    def look() -> str:
        """Looks."""
        return MARK

    with serve_bytes(faults.status(503, retry_after=0), sse(turn(tool_call("look"))), FRAMES) as server:
        agent = HttpAgent(server.url, tools=[look], retry=RetryPolicy(status=1))
        assert verb(agent, "Hi").error is None
    (record,) = [each for each in caplog.records if each.name == "agui_client.call"]
    of_call: dict[str, Any] = record.__dict__["agui"]
    of_runs: list[dict[str, Any]] = [each.agui for each in runs(caplog)]
    assert set(of_call) == {*FIELDS, "runs", "tool_executions"}
    assert [each["attempts"] for each in of_runs] == [2, 1]
    for field in ("events", "attempts", "warnings"):
        assert of_call[field] == sum(each[field] for each in of_runs)
    assert sum(each["total_seconds"] for each in of_runs) <= of_call["total_seconds"]
    assert (of_call["runs"], of_call["tool_executions"], of_call["ending"]) == (2, 1, "success")
    told = f"success, 2 runs, {of_call['events']} events, 1 tools in {of_call['total_seconds']:.3f} s"
    assert record.getMessage() == f"call on thread {agent.thread_id}: {told}"
    assert of_call["run_id"] == of_runs[-1]["run_id"]
    assert MARK not in ours(caplog)


@every_kind_of_verb
def test_every_attempt_is_counted_and_told_at_debug(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    busy = faults.status(503, retry_after=0, body=MARK.encode())
    with serve_bytes(busy, faults.redirect(f"/there?key={MARK}"), faults.status(401), FRAMES) as server:
        agent = HttpAgent(server.url, retry=RetryPolicy(status=1), on_unauthorized=lambda: {"X-Key": MARK})
        assert verb(agent, "Hi").error is None
    assert [record.agui["attempts"] for record in runs(caplog)] == [4]
    told = [each for each in caplog.records if each.name == "agui_client.transport"]
    assert {each.levelno for each in told} == {logging.DEBUG}
    assert [each.getMessage() for each in told] == [
        "attempt 1: first attempt; 503",
        "attempt 2: 503, Retry-After; waited 0.00 s; 307",
        "attempt 3: redirected with 307; 401",
        "attempt 4: 401, and the credentials were renewed; accepted",
    ]
    assert MARK not in ours(caplog)


def test_nothing_is_made_for_a_log_that_nobody_reads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "agui_client")
    ScriptedAgent(turn()).run_agent_sync("Hi")
    assert caplog.records == []


# --- no payload

TALK: list[Step] = [
    text(MARK),
    reasoning(MARK, encrypted_value=MARK),
    state({MARK: MARK}),
    tool_call("look", {"at": MARK}),
    tool_result(MARK),
    {"type": "RAW", "event": {MARK: MARK}, "rawEvent": MARK},
    {"type": "CUSTOM", "name": MARK, "value": MARK},
    {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": MARK, "content": {MARK: MARK}},
    {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "s", "role": "user", "content": MARK}]},
]
"""Everything that carries content."""
ODD: dict[str, list[Step]] = {
    "as it should be": [],
    "unknown type": [{"type": "FUTURE", "value": MARK}],
    "unknown property": [{"type": "CUSTOM", "name": "n", "value": MARK, "future": MARK}],
    "wrong value": [{"type": "CUSTOM", "name": "n", "value": MARK, "timestamp": MARK}],
    "patch that fails": [{"type": "STATE_DELTA", "delta": [{"op": "test", "path": "/x", "value": MARK}]}],
    "orphan": [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "nobody", "delta": MARK}],
    "error": [{"type": "RUN_ERROR", "message": MARK, "code": MARK}],
}


@by_verb("odd", ODD, ["error"])
@pytest.mark.requirement("SEC-7")
def test_no_log_holds_what_anybody_said(odd: list[Step], verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serve_bytes(sse(turn(*TALK, *odd))) as server:
        agent = HttpAgent(server.url, headers={"Authorization": MARK}, initial_state={MARK: MARK})
        verb(agent, MARK, forwarded_props={MARK: MARK})
    assert MARK not in ours(caplog)
    assert MARK not in caplog.text


@every_kind_of_verb
@pytest.mark.parametrize(
    "reply",
    [
        faults.status(500, body=MARK.encode(), headers={"X-Mark": MARK}),
        faults.html_page(page=MARK.encode()),
        faults.cut(sse(turn(text(MARK))), events=3),
        faults.trailing_garbage(sse(turn(text(MARK))), garbage=b"data: " + MARK.encode() + b"\n\n"),
        Reply([sse(turn(text(MARK)))[:90], f'{{"{MARK}'.encode()]),
    ],
    ids=["refused", "page", "cut", "garbage", "cut in a frame"],
)
def test_no_log_of_ours_holds_what_a_broken_answer_said(
    verb: Verb, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve_bytes(reply) as server:
        assert verb(HttpAgent(server.url, timeout=Timeouts(idle=LIMIT)), MARK).error is not None
    assert MARK not in ours(caplog)


@every_kind_of_verb
def test_no_log_holds_what_tools_are_told_and_say(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    @tool
    def look(at: str) -> str:
        """Looks."""
        return at

    calls = turn(tool_call("look", {"at": MARK}), tool_call("look", {"to": MARK}), tool_call("look", MARK))
    assert verb(ScriptedAgent(calls, turn(text(MARK)), tools=[look]), MARK).error is None
    assert MARK not in ours(caplog)


# --- payloads for who asks


@pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in RESULT_VERBS.items()])
@pytest.mark.requirement("SEC-7")
def test_an_event_log_shows_every_event_without_what_is_secret(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client.events")
    secret = {"type": "CUSTOM", "name": "n", "value": {"deep": [{"encryptedValue": MARK}]}, "rawEvent": {"k": MARK}}
    agent = ScriptedAgent(turn(text("One", chunk=9), reasoning("Hm.", encrypted_value=MARK), secret))
    with agent.subscribe(EventLog()):
        assert verb(agent, "Hi", run_id="run-1").error is None
    told = [each for each in caplog.records if each.name == "agui_client.events"]
    assert {each.levelno for each in told} == {logging.DEBUG}
    assert all(each.getMessage().startswith("run run-1: {'type': '") for each in told)
    (said,) = [each.getMessage() for each in told if "TEXT_MESSAGE_CONTENT" in each.getMessage()]
    assert said == "run run-1: {'type': 'TEXT_MESSAGE_CONTENT', 'messageId': 'message-1', 'delta': 'One'}"
    (custom,) = [each.getMessage() for each in told if "CUSTOM" in each.getMessage()]
    assert custom == (
        "run run-1: {'type': 'CUSTOM', 'rawEvent': '[redacted]', 'name': 'n', "
        "'value': {'deep': [{'encryptedValue': '[redacted]'}]}}"
    )
    assert MARK not in caplog.text
    caplog.clear()
    verb(agent, "Again")
    assert [each for each in caplog.records if each.name == "agui_client.events"] == []


def test_an_event_log_that_nobody_reads_makes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agui_client.events")
    agent = ScriptedAgent(turn(text("One")))
    agent.subscribe(EventLog())
    agent.run_agent_sync("Hi")
    assert [each.name for each in caplog.records if each.name == "agui_client.events"] == []
