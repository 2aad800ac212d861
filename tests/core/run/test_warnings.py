"""What was tolerated is told: one record and one log line per kind, with a count, and never an exception."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator

import pytest
from ag_ui.core import Event, RunAgentInput, UserMessage

from agui_client import HttpAgent, ProtocolError, ProtocolWarning, tool
from agui_client.testing import ScriptedAgent, patch, serve_bytes, sse, state, text, tool_call, turn
from agui_client.types import Next
from support.verbs import RESULT_VERBS, Verb, every_kind_of_verb, every_result_verb

ODD = turn(
    {"type": "FUTURE_EVENT", "payload": 1},
    {"type": "CUSTOM", "name": "x", "value": 1, "futureProp": 1},
    {"type": "FUTURE_EVENT", "payload": 2},
    state({"n": 1}),
    patch({"op": "remove", "path": "/nowhere"}),
    text("Hi."),
)
TOLERATED = [
    ("PROC-7", "FUTURE_EVENT", None, 1, 2),
    ("PROC-8", "CUSTOM", "/futureProp", 2, 1),
    ("SNAP-5", "STATE_DELTA", None, 5, 1),
]


def told(records: list[ProtocolWarning]) -> list[tuple[str, str | None, str | None, int | None, int]]:
    return [(each.rule, each.event_type, each.path, each.event_index, each.count) for each in records]


@every_result_verb
@pytest.mark.requirement("PROC-5", "PROC-7", "PROC-8", "SNAP-5")
def test_what_was_tolerated_is_on_the_result(verb: Verb) -> None:
    result = verb(ScriptedAgent(ODD)).result
    assert result is not None
    assert [(rule, kind, index, count) for rule, kind, _, index, count in told(result.warnings)] == [
        (rule, kind, index, count) for rule, kind, _, index, count in TOLERATED
    ]
    assert result.warnings[1].path == "/futureProp"


@every_kind_of_verb
def test_each_kind_is_one_line_in_the_log(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    verb(ScriptedAgent(ODD))
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.name, record.levelname, record.message.rpartition(" ")[2]) for record in records] == [
        ("agui_client", "WARNING", f"({rule})") for rule, *_ in TOLERATED
    ]


@every_kind_of_verb
def test_nobody_is_interrupted_by_python_warnings(verb: Verb) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verb(ScriptedAgent(ODD)).error is None


@pytest.mark.anyio
async def test_warnings_can_be_watched_while_the_run_goes_on() -> None:
    counts: list[int] = []
    async with ScriptedAgent(ODD).stream() as run:
        async for _ in run:
            counts.append(len(run.warnings))  # noqa: PERF401 (what was tolerated is asked for between two events)
        assert run.warnings == (await run.result()).warnings
    assert (counts[0], counts[-1]) == (0, 3)
    assert counts == sorted(counts)


def test_a_warning_about_the_input_of_a_later_round_is_about_no_event() -> None:
    @tool
    def look() -> None:
        """Look."""

    async def add_an_odd_message(input: RunAgentInput, next: Next) -> AsyncIterator[Event]:
        odd = UserMessage.model_validate({"id": "u9", "role": "user", "content": "x", "futureProp": 1})
        messages = [*input.messages, odd] if agent.inputs else input.messages
        async for event in next(input.model_copy(update={"messages": messages})):
            yield event

    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Hi.")), tools=[look], middleware=[add_an_odd_message])
    (warning,) = agent.run_agent_sync("Hi").warnings
    assert (warning.rule, warning.event_index) == ("INPUT-3", None)


@every_result_verb
def test_a_run_has_its_own_warnings(verb: Verb) -> None:
    agent = ScriptedAgent(ODD, turn())
    first, second = verb(agent).result, verb(agent).result
    assert first is not None
    assert second is not None
    assert (len(first.warnings), second.warnings) == (3, [])


def test_a_conforming_run_has_none() -> None:
    assert ScriptedAgent(turn(text("Hi."), state(None))).run_agent_sync("Hi").warnings == []


@every_result_verb
@pytest.mark.requirement("LIFE-12", "SET-5")
def test_ids_that_do_not_match_are_warned_about(verb: Verb) -> None:
    with serve_bytes(sse(turn(text("Hi.")))) as server:
        result = verb(HttpAgent(server.url, thread_id="mine"), run_id="my-run").result
    assert result is not None
    assert [warning.rule for warning in result.warnings] == ["LIFE-12", "LIFE-12"]
    assert [word in warning.message for word, warning in zip(("thread", "run"), result.warnings, strict=True)] == [
        True
    ] * 2
    assert (result.thread_id, result.run_id) == ("mine", "my-run")


@every_kind_of_verb
@pytest.mark.requirement("LIFE-12", "SET-5")
@pytest.mark.parametrize(("thread_id", "run_id"), [("other", "my-run"), ("mine", "other")])
def test_ids_that_do_not_match_end_the_run_when_it_is_strict(verb: Verb, thread_id: str, run_id: str) -> None:
    ids = {"threadId": thread_id, "runId": run_id}
    agent = ScriptedAgent(
        [{"type": "RUN_STARTED", **ids}, {"type": "RUN_FINISHED", **ids}], thread_id="mine", strict=True
    )
    error = verb(agent, run_id="my-run").error
    assert isinstance(error, ProtocolError)
    assert error.rule == "LIFE-12"


@pytest.mark.requirement("PROC-17", "SET-1")
@pytest.mark.parametrize("verb", RESULT_VERBS.values(), ids=list(RESULT_VERBS))
def test_nulls_are_fatal_unless_they_are_to_be_dropped(verb: Verb) -> None:
    odd = turn({"type": "CUSTOM", "name": "x", "value": None, "timestamp": None})
    error = verb(ScriptedAgent(odd)).error
    assert isinstance(error, ProtocolError)
    assert "null_fields" in str(error)
    assert "timestamp" in str(error)
    result = verb(ScriptedAgent(odd, null_fields="drop")).result
    assert result is not None
    assert [warning.path for warning in result.warnings] == ["/timestamp"]


def test_a_flood_of_kinds_of_warnings_is_cut_and_the_rest_counted() -> None:
    odd = [{"type": f"FUTURE_{number}"} for number in range(205)]
    records = ScriptedAgent(turn(*odd)).run_agent_sync("Hi").warnings
    assert len(records) == 201
    assert (records[-1].rule, records[-1].count) == ("more", 5)
