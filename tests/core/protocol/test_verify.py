"""Verification: which orders of events are accepted, which are refused, and what the refusal says."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from ag_ui.core import Event
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agui_client import ProtocolWarning
from agui_client._core.protocol.verify import Verifier
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import EventOrderError, IncompleteRunError

Wire: TypeAlias = dict[str, Any]

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)

START: Wire = {"type": "RUN_STARTED", "threadId": "t", "runId": "r1"}
FINISH: Wire = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r1"}
ERROR: Wire = {"type": "RUN_ERROR", "message": "no"}
RAW: Wire = {"type": "RAW", "event": {}}


def started(run_id: str, thread_id: str = "t") -> Wire:
    return {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id}


def finished(run_id: str, thread_id: str = "t", **fields: Any) -> Wire:
    return {"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id, **fields}


def message(kind: str, message_id: str, **fields: Any) -> Wire:
    """An event of an item that has a messageId."""
    if kind.endswith("_CONTENT"):
        fields = {"delta": "a", **fields}
    return {"type": kind, "messageId": message_id, **fields}


def call(part: str, call_id: str, **fields: Any) -> Wire:
    """TOOL_CALL_START, _ARGS, _END or _RESULT."""
    needed: Wire = {"START": {"toolCallName": "look"}, "ARGS": {"delta": "{}"}}.get(part, {})
    return {"type": f"TOOL_CALL_{part}", "toolCallId": call_id, **needed, **fields}


def step(part: str, name: str, **fields: Any) -> Wire:
    return {"type": f"STEP_{part}", "stepName": name, **fields}


def subagent(part: str, subagent_run_id: str, **fields: Any) -> Wire:
    needed: Wire = {"STARTED": {"name": "n"}, "ERROR": {"message": "no"}}.get(part, {})
    return {"type": f"SUBAGENT_{part}", "subagentRunId": subagent_run_id, **needed, **fields}


def activity(part: str, message_id: str, **fields: Any) -> Wire:
    needed: Wire = {"content": {}} if part == "SNAPSHOT" else {"patch": []}
    return {"type": f"ACTIVITY_{part}", "messageId": message_id, "activityType": "search", **needed, **fields}


def snapshot(*messages: Wire) -> Wire:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


def fed(*stream: Wire, asked: tuple[str, str] | None = None, strict: bool = False) -> tuple[Verifier, WarningLog]:
    """A verifier that has accepted the stream."""
    warnings = WarningLog()
    verifier = Verifier(warnings, strict=strict)
    if asked is not None:
        verifier.begin(*asked)
    for warnings.event_index, wire in enumerate(stream):
        verifier.check(_EVENT.validate_python(wire))
    return verifier, warnings


def accepted(*stream: Wire, asked: tuple[str, str] | None = None, strict: bool = False) -> list[ProtocolWarning]:
    """The warnings of a whole stream that is accepted."""
    verifier, warnings = fed(*stream, asked=asked, strict=strict)
    verifier.finish()
    return warnings.records()


def refusal(*stream: Wire, asked: tuple[str, str] | None = None, strict: bool = False) -> EventOrderError:
    """Why the last event of the stream is refused, the others being accepted."""
    verifier, warnings = fed(*stream[:-1], asked=asked, strict=strict)
    warnings.event_index = len(stream) - 1
    event = _EVENT.validate_python(stream[-1])
    with pytest.raises(EventOrderError) as caught:
        verifier.check(event)
    assert str(caught.value).startswith(f"event {len(stream) - 1} ({stream[-1]['type']}): ")
    assert caught.value.event is event
    return caught.value


def incomplete(*stream: Wire) -> str:
    """Why the end of the stream is refused."""
    verifier, _ = fed(*stream)
    with pytest.raises(IncompleteRunError) as caught:
        verifier.finish()
    assert caught.value.rule == "TRUNC-1"
    return str(caught.value)


# Runs


@pytest.mark.parametrize("event", [message("TEXT_MESSAGE_START", "m1"), FINISH, RAW, subagent("STARTED", "s1")])
@pytest.mark.requirement("LIFE-1")
def test_a_stream_that_does_not_open_with_a_run_is_rejected(event: Wire) -> None:
    error = refusal(event)

    assert error.rule == "LIFE-1"
    assert "First event must be 'RUN_STARTED'" in str(error)


@pytest.mark.requirement("LIFE-1", "LIFE-7")
def test_a_stream_may_open_with_a_failure() -> None:
    assert accepted(ERROR) == []


@pytest.mark.requirement("LIFE-2")
def test_a_run_that_starts_inside_another_is_rejected() -> None:
    error = refusal(START, started("r2"))

    assert error.rule == "LIFE-2"
    assert "Cannot start run 'r2' while run 'r1' is still open" in str(error)


@pytest.mark.parametrize("event", [FINISH, RAW, message("TEXT_MESSAGE_CONTENT", "m1")])
@pytest.mark.requirement("LIFE-3")
def test_after_a_run_has_finished_nothing_of_it_may_follow(event: Wire) -> None:
    error = refusal(START, FINISH, event)

    assert error.rule == "LIFE-3"
    assert "The run has already finished with 'RUN_FINISHED'" in str(error)


@pytest.mark.parametrize("event", [FINISH, ERROR, RAW])
@pytest.mark.requirement("LIFE-3")
def test_after_a_failure_only_a_new_run_may_follow(event: Wire) -> None:
    error = refusal(START, ERROR, event)

    assert error.rule == "LIFE-3"
    assert "The run has already errored with 'RUN_ERROR'" in str(error)


@pytest.mark.requirement("LIFE-3", "LIFE-13")
def test_runs_may_follow_each_other_however_the_one_before_ended() -> None:
    assert accepted(START, FINISH, started("r2"), ERROR, started("r3"), finished("r3")) == []


@pytest.mark.requirement("LIFE-3", "LIFE-4")
def test_a_finished_run_may_still_fail() -> None:
    verifier, _ = fed(START, FINISH, ERROR)

    verifier.finish()


@pytest.mark.parametrize(
    "outcome",
    [{"type": "success"}, {"type": "cancelled"}, {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "ask"}]}],
)
@pytest.mark.requirement("LIFE-9")
def test_a_run_may_end_with_any_outcome(outcome: Wire) -> None:
    assert accepted(START, finished("r1", outcome=outcome)) == []


_LEFT_OPEN: list[tuple[Wire, str, str]] = [
    (message("TEXT_MESSAGE_START", "m1"), "LIFE-5", "text message 'm1'"),
    (call("START", "c1"), "LIFE-5", "tool call 'c1'"),
    (message("REASONING_START", "x"), "LIFE-5", "reasoning span 'x'"),
    (message("REASONING_MESSAGE_START", "x"), "LIFE-5", "reasoning message 'x'"),
    (step("STARTED", "plan"), "LIFE-5", "step 'plan' of the parent agent"),
    (step("STARTED", "plan", subagentRunId="s1"), "LIFE-5", "step 'plan' of subagent 's1'"),
    (subagent("STARTED", "s1"), "SUB-7", "subagent 's1'"),
]


@pytest.mark.parametrize(("opener", "rule", "name"), _LEFT_OPEN)
@pytest.mark.requirement("LIFE-5", "SUB-7", "REASON-1", "REASON-2")
def test_a_run_that_finishes_with_something_open_is_rejected(opener: Wire, rule: str, name: str) -> None:
    error = refusal(START, opener, FINISH)

    assert error.rule == rule
    assert f"the producer finished run 'r1' with {name} still open" in str(error)


@pytest.mark.requirement("LIFE-5")
def test_of_many_open_items_the_message_names_five() -> None:
    openers = [message("TEXT_MESSAGE_START", f"m{number}") for number in range(7)]

    assert "'m4' and 2 more still open" in str(refusal(START, *openers, FINISH))


@pytest.mark.parametrize("opener", [opener for opener, _, _ in _LEFT_OPEN])
@pytest.mark.requirement("LIFE-6", "SUB-9")
def test_a_failure_ends_everything_that_was_open(opener: Wire) -> None:
    assert accepted(START, opener, ERROR, started("r2"), opener, ERROR) == []
    assert accepted(START, opener, ERROR, started("r2"), finished("r2")) == []


@pytest.mark.requirement("LIFE-6", "STREAM-1")
def test_nothing_of_a_failed_run_is_open_in_the_next() -> None:
    stream = (START, message("TEXT_MESSAGE_START", "m1"), ERROR, started("r2"), message("TEXT_MESSAGE_END", "m1"))

    assert refusal(*stream).rule == "STREAM-1"


@pytest.mark.requirement("LIFE-6", "SUB-3")
def test_ownership_lasts_as_long_as_its_run() -> None:
    mine = [message(f"TEXT_MESSAGE_{part}", "m1", subagentRunId="s1") for part in ("START", "END")]
    yours = [message(f"TEXT_MESSAGE_{part}", "m1", subagentRunId="s2") for part in ("START", "END")]

    assert accepted(START, *mine, FINISH, started("r2"), *yours, finished("r2")) == []


@pytest.mark.parametrize("end", [None, ERROR], ids=["cut", "failed"])
def test_it_tells_which_messages_and_calls_the_run_left_open(end: Wire | None) -> None:
    call = {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look"}
    texts = [message(f"TEXT_MESSAGE_{part}", name) for part, name in (("START", "m2"), ("START", "m1"), ("END", "m2"))]
    verifier, _ = fed(START, *texts, call, *([] if end is None else [end]))
    assert verifier.unclosed_ids == ["m1", "c1"]


def test_a_run_that_finished_left_nothing_open() -> None:
    verifier, _ = fed(START, message("TEXT_MESSAGE_START", "m1"), ERROR, started("r2"), finished("r2"))
    assert verifier.unclosed_ids == []


# The end of the stream


@pytest.mark.requirement("TRUNC-1")
def test_a_stream_without_any_event_has_no_outcome() -> None:
    assert "the stream ended without any event" in incomplete()


@pytest.mark.requirement("TRUNC-1")
def test_a_stream_whose_events_were_all_dropped_has_no_outcome() -> None:
    verifier, warnings = fed()
    warnings.event_index = 0

    with pytest.raises(IncompleteRunError, match="ended without an event that could be used"):
        verifier.finish()


@pytest.mark.requirement("TRUNC-1")
def test_a_run_that_was_cut_off_has_no_outcome_and_says_what_was_open() -> None:
    reason = incomplete(
        START, message("TEXT_MESSAGE_START", "m1"), message("TEXT_MESSAGE_START", "m2"), subagent("STARTED", "s1")
    )

    assert "The stream ended without 'RUN_FINISHED' or 'RUN_ERROR'" in reason
    assert (
        "run 'r1' was cut off, 3 of its items still open (text message 'm1', text message 'm2', subagent 's1')"
        in reason
    )


@pytest.mark.requirement("TRUNC-1")
def test_a_stream_whose_last_run_was_cut_off_has_no_outcome() -> None:
    assert "run 'r2' was cut off and has no outcome" in incomplete(START, FINISH, started("r2"))


# What was asked for


@pytest.mark.requirement("LIFE-12", "LIFE-13")
def test_the_run_that_was_asked_for_after_replayed_ones_is_as_expected() -> None:
    assert accepted(started("r0"), finished("r0"), START, FINISH, asked=("t", "r1"), strict=True) == []


@pytest.mark.requirement("LIFE-12", "LIFE-13")
@pytest.mark.parametrize("strict", [False, True])
def test_a_run_behind_the_one_that_was_asked_for_has_an_id_of_its_own(strict: bool) -> None:
    assert accepted(START, FINISH, started("r2"), finished("r2"), asked=("t", "r1"), strict=strict) == []


@pytest.mark.requirement("LIFE-3")
def test_what_comes_after_run_error_is_refused_with_what_that_said() -> None:
    said: Wire = {"type": "RUN_ERROR", "message": "the quota is used up"}
    assert "errored with 'RUN_ERROR' ('the quota is used up')" in str(refusal(START, said, RAW))
    assert "x" * 300 not in str(refusal(START, {**said, "message": "x" * 5_000}, RAW))


@pytest.mark.requirement("LIFE-12")
def test_without_a_question_any_answer_is_as_expected() -> None:
    assert accepted(started("r0", "elsewhere"), finished("r0", "elsewhere"), strict=True) == []


def mismatch(message: str, path: str, index: int, event_type: str) -> ProtocolWarning:
    return ProtocolWarning("LIFE-12", f"{event_type}: {message}", path, index, event_type)


@pytest.mark.requirement("LIFE-12", "SET-5")
def test_a_run_on_another_thread_is_worth_a_warning() -> None:
    said = "the producer named thread 'elsewhere' where 't' was expected"

    assert accepted(started("r1", "elsewhere"), finished("r1", "elsewhere"), asked=("t", "r1")) == [
        mismatch(said, "/threadId", 0, "RUN_STARTED")
    ]


@pytest.mark.requirement("LIFE-12")
def test_a_run_that_finishes_under_other_ids_than_it_started_is_worth_a_warning() -> None:
    assert accepted(START, finished("r2", "elsewhere")) == [
        mismatch("the producer named run 'r2' where 'r1' was expected", "/runId", 1, "RUN_FINISHED"),
        mismatch("the producer named thread 'elsewhere' where 't' was expected", "/threadId", 1, "RUN_FINISHED"),
    ]


@pytest.mark.requirement("LIFE-12", "LIFE-13", "TRUNC-3")
def test_a_stream_whose_last_run_is_another_than_asked_for_is_worth_a_warning() -> None:
    assert accepted(started("r0"), finished("r0"), asked=("t", "r1")) == [
        mismatch("the producer named run 'r0' where 'r1' was expected", "/runId", 1, "RUN_STARTED")
    ]


@pytest.mark.parametrize(
    "stream",
    [
        [started("r1", "elsewhere")],
        [START, finished("r2")],
        [START, finished("r1", "elsewhere")],
    ],
)
@pytest.mark.requirement("LIFE-12")
def test_with_strict_an_id_that_does_not_match_is_fatal(stream: list[Wire]) -> None:
    error = refusal(*stream, asked=("t", "r1"), strict=True)

    assert error.rule == "LIFE-12"
    assert "strict=False makes this a warning" in str(error)


@pytest.mark.requirement("LIFE-12")
def test_with_strict_another_last_run_than_asked_for_is_fatal() -> None:
    verifier, _ = fed(started("r0"), finished("r0"), asked=("t", "r1"), strict=True)

    with pytest.raises(EventOrderError, match="named run 'r0' where 'r1' was expected") as caught:
        verifier.finish()

    assert caught.value.rule == "LIFE-12"


@pytest.mark.requirement("LIFE-8", "LIFE-12")
def test_a_failure_stays_a_failure_whatever_its_ids() -> None:
    assert accepted(started("r0"), ERROR, asked=("t", "r1"), strict=True) == []


# Streamed items

_TRIADS: list[tuple[str, list[Wire]]] = [
    ("STREAM-1", [message(f"TEXT_MESSAGE_{part}", "i") for part in ("START", "CONTENT", "END")]),
    ("STREAM-1", [call(part, "i") for part in ("START", "ARGS", "END")]),
    ("REASON-2", [message(f"REASONING_MESSAGE_{part}", "i") for part in ("START", "CONTENT", "END")]),
    ("REASON-1", [message(f"REASONING_{part}", "i") for part in ("START", "END")]),
    ("LIFE-16", [step("STARTED", "i"), step("FINISHED", "i")]),
]
_STREAMED = [triad for triad in _TRIADS if triad[0] != "LIFE-16"]


@pytest.mark.parametrize(("rule", "triad"), _TRIADS)
@pytest.mark.requirement("STREAM-1", "REASON-1", "REASON-2", "LIFE-16")
def test_starting_what_is_open_is_rejected(rule: str, triad: list[Wire]) -> None:
    error = refusal(START, triad[0], triad[0])

    assert error.rule == rule
    assert "which is already open" in str(error)


@pytest.mark.parametrize(("rule", "triad"), _TRIADS)
@pytest.mark.requirement("STREAM-1", "REASON-1", "REASON-2", "LIFE-16")
def test_continuing_or_ending_what_was_not_started_is_rejected(rule: str, triad: list[Wire]) -> None:
    for event in triad[1:]:
        error = refusal(START, event)

        assert error.rule == rule
        assert "'i'" in str(error)
        assert "that was not started" in str(error)


@pytest.mark.parametrize(("rule", "triad"), _STREAMED)
@pytest.mark.requirement("STREAM-1", "REASON-1", "REASON-2")
def test_continuing_or_ending_what_is_closed_is_rejected(rule: str, triad: list[Wire]) -> None:
    for event in triad[1:]:
        error = refusal(START, *triad, event)

        assert error.rule == rule
        assert f"that is closed; {triad[0]['type']} has to come first" in str(error)


@pytest.mark.parametrize(("rule", "triad"), _TRIADS)
@pytest.mark.requirement("STREAM-2", "STREAM-5")
def test_what_is_closed_may_be_opened_again_and_a_start_may_be_ended_at_once(rule: str, triad: list[Wire]) -> None:
    assert accepted(START, *triad, triad[0], triad[-1], FINISH) == []


@pytest.mark.requirement("REASON-3")
def test_a_span_and_a_reasoning_message_may_share_an_id_but_a_span_opens_no_message() -> None:
    span, thought = _TRIADS[3][1], _TRIADS[2][1]

    assert accepted(START, span[0], *thought, span[1], FINISH) == []
    assert refusal(START, span[0], thought[1]).rule == "REASON-2"


@pytest.mark.requirement("STREAM-1")
def test_items_of_different_kinds_may_share_an_id() -> None:
    openers = [triad[0] for _, triad in _TRIADS]
    closers = [triad[-1] for _, triad in _TRIADS]

    assert accepted(START, *openers, *closers, FINISH) == []


def test_an_id_in_an_error_is_escaped_and_cut() -> None:
    reason = str(refusal(START, message("TEXT_MESSAGE_END", "\n" + "m" * 500)))

    assert f"text message '\\n{'m' * 79}…' that" in reason


# Whose an item is


@pytest.mark.parametrize(("_rule", "triad"), _STREAMED)
@pytest.mark.requirement("SUB-2")
def test_an_untagged_continuation_belongs_to_the_opener(_rule: str, triad: list[Wire]) -> None:
    assert accepted(START, {**triad[0], "subagentRunId": "s1"}, *triad[1:], FINISH) == []


@pytest.mark.parametrize(("_rule", "triad"), _STREAMED)
@pytest.mark.requirement("SUB-1")
def test_a_tag_that_was_never_announced_is_accepted(_rule: str, triad: list[Wire]) -> None:
    assert accepted(START, *({**event, "subagentRunId": "s1"} for event in triad), FINISH) == []


@pytest.mark.parametrize(("_rule", "triad"), _STREAMED)
@pytest.mark.parametrize("owner", [{}, {"subagentRunId": "s2"}, {"subagentRunId": ""}])
@pytest.mark.requirement("SUB-3")
def test_a_continuation_tagged_with_another_owner_is_rejected(_rule: str, triad: list[Wire], owner: Wire) -> None:
    for event in triad[1:]:
        error = refusal(START, {**triad[0], **owner}, {**event, "subagentRunId": "s1"})

        assert error.rule == "SUB-3"
        assert "subagentRunId 's1' does not match the owner of" in str(error)


@pytest.mark.parametrize(("_rule", "triad"), _STREAMED)
@pytest.mark.requirement("SUB-3", "STREAM-5")
def test_in_one_run_only_its_owner_may_reopen_an_item(_rule: str, triad: list[Wire]) -> None:
    owned = [{**event, "subagentRunId": "s1"} for event in triad]

    assert accepted(START, *owned, *owned, *triad, FINISH) == []
    assert accepted(START, *owned, triad[0], owned[-1], FINISH) == []
    assert refusal(START, *owned, {**triad[0], "subagentRunId": "s2"}).rule == "SUB-3"
    assert refusal(START, *owned, triad[0], {**triad[-1], "subagentRunId": "s2"}).rule == "SUB-3"


@pytest.mark.requirement("SUB-3", "REASON-8")
@pytest.mark.parametrize("owner", [{}, {"subagentRunId": "s2"}, {"subagentRunId": ""}])
@pytest.mark.parametrize("opener", ["TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_START"])
def test_an_encrypted_value_of_another_owner_than_its_item_is_rejected(opener: str, owner: Wire) -> None:
    triad = next(each for _, each in _STREAMED if each[0]["type"] == opener)
    subtype, field = ("tool-call", "toolCallId") if opener == "TOOL_CALL_START" else ("message", "messageId")
    value = {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": subtype,
        "encryptedValue": "x",
        "entityId": triad[0][field],
    }
    owned = [{**event, **owner} for event in triad]

    assert (
        accepted(START, *owned, value, {**value, **owner}, {**value, "entityId": "o", "subagentRunId": "s1"}, FINISH)
        == []
    )
    assert refusal(START, *owned, {**value, "subagentRunId": "s1"}).rule == "SUB-3"


@pytest.mark.requirement("SUB-8")
def test_items_of_parallel_subagents_are_told_apart_by_id_alone() -> None:
    stream = [
        subagent("STARTED", "s1"),
        subagent("STARTED", "s2"),
        message("TEXT_MESSAGE_START", "m1", subagentRunId="s1"),
        message("TEXT_MESSAGE_START", "m2", subagentRunId="s2"),
        subagent("FINISHED", "s1"),
        message("TEXT_MESSAGE_CONTENT", "m2"),
        message("TEXT_MESSAGE_END", "m1", subagentRunId="s1"),
        message("TEXT_MESSAGE_END", "m2"),
        subagent("ERROR", "s2"),
    ]

    assert accepted(START, *stream, FINISH) == []


_SPOKEN = [message(f"TEXT_MESSAGE_{part}", "m1", subagentRunId="s1") for part in ("START", "END")]


@pytest.mark.parametrize("tag", [{}, {"subagentRunId": "s1"}])
@pytest.mark.requirement("SUB-4", "TOOL-3")
def test_a_call_belongs_to_the_owner_of_its_message(tag: Wire) -> None:
    opener = call("START", "c1", parentMessageId="m1", **tag)

    assert accepted(START, *_SPOKEN, opener, call("END", "c1", subagentRunId="s1"), FINISH) == []
    assert refusal(START, *_SPOKEN, opener, call("ARGS", "c1", subagentRunId="s2")).rule == "SUB-3"


@pytest.mark.requirement("SUB-4")
def test_a_call_tagged_with_another_owner_than_its_message_is_rejected() -> None:
    error = refusal(START, *_SPOKEN, call("START", "c1", parentMessageId="m1", subagentRunId="s2"))

    assert error.rule == "SUB-4"
    assert (
        "tool call 'c1' of subagent 's2' does not match the owner of its message 'm1', which is subagent 's1'"
        in str(error)
    )


@pytest.mark.requirement("SUB-4")
def test_a_call_that_is_reopened_under_a_message_of_another_owner_is_rejected() -> None:
    mine = [call(part, "c1", subagentRunId="s2") for part in ("START", "END")]

    assert refusal(START, *_SPOKEN, *mine, call("START", "c1", parentMessageId="m1")).rule == "SUB-4"


@pytest.mark.requirement("SUB-4", "TOOL-3")
def test_a_call_under_an_unknown_message_belongs_to_its_own_tag() -> None:
    opener = call("START", "c1", parentMessageId="m9", subagentRunId="s1")

    assert accepted(START, opener, call("END", "c1", subagentRunId="s1"), FINISH) == []


@pytest.mark.requirement("SUB-3", "TOOL-5")
def test_the_message_that_a_result_makes_belongs_to_whoever_sent_it() -> None:
    result = call("RESULT", "c1", messageId="m1", content="a", subagentRunId="s1")

    assert refusal(START, result, message("TEXT_MESSAGE_START", "m1", subagentRunId="s2")).rule == "SUB-3"
    assert accepted(START, result, *_SPOKEN, FINISH) == []


@pytest.mark.requirement("SUB-3", "TOOL-5")
def test_a_result_does_not_take_over_a_message_that_somebody_has_already() -> None:
    result = call("RESULT", "c1", messageId="m1", content="a")

    assert accepted(START, _SPOKEN[0], result, _SPOKEN[1], FINISH) == []


# Activities


@pytest.mark.requirement("SUB-3")
def test_an_activity_delta_tagged_with_another_owner_than_the_activity_is_rejected() -> None:
    error = refusal(START, activity("SNAPSHOT", "a1"), activity("DELTA", "a1", subagentRunId="s1"))

    assert error.rule == "SUB-3"
    assert "activity 'a1', which is the parent agent" in str(error)


@pytest.mark.requirement("ACT-6", "SUB-2")
def test_an_activity_delta_is_accepted_without_a_tag_or_for_an_activity_this_run_has_not_shown() -> None:
    assert accepted(START, activity("SNAPSHOT", "a1", subagentRunId="s1"), activity("DELTA", "a1"), FINISH) == []
    assert accepted(START, activity("DELTA", "a1", subagentRunId="s1"), FINISH) == []


@pytest.mark.parametrize("replace", [{}, {"replace": True}])
@pytest.mark.requirement("ACT-3")
def test_an_activity_snapshot_that_replaces_hands_the_activity_over(replace: Wire) -> None:
    shown = [activity("SNAPSHOT", "a1", subagentRunId="s1"), activity("SNAPSHOT", "a1", subagentRunId="s2", **replace)]

    assert accepted(START, *shown, activity("DELTA", "a1", subagentRunId="s2"), FINISH) == []
    assert refusal(START, *shown, activity("DELTA", "a1", subagentRunId="s1")).rule == "SUB-3"


@pytest.mark.requirement("ACT-4")
def test_an_activity_snapshot_that_does_not_replace_leaves_the_owner_and_is_not_rejected() -> None:
    shown = [
        activity("SNAPSHOT", "a1", subagentRunId="s1", replace=False),
        activity("SNAPSHOT", "a1", subagentRunId="s2", replace=False),
    ]

    assert accepted(START, *shown, activity("DELTA", "a1", subagentRunId="s1"), FINISH) == []
    assert refusal(START, *shown, activity("DELTA", "a1", subagentRunId="s2")).rule == "SUB-3"


# Snapshots of the conversation

_RESTATED = snapshot(
    {"id": "m1", "role": "assistant", "toolCalls": [], "subagentRunId": "s2"},
    {
        "id": "m2",
        "role": "assistant",
        "subagentRunId": "s2",
        "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"id": "x", "role": "reasoning", "content": "a", "subagentRunId": "s2"},
    {"id": "a1", "role": "activity", "activityType": "search", "content": {}, "subagentRunId": "s2"},
)


@pytest.mark.parametrize(
    "event",
    [
        message("TEXT_MESSAGE_START", "m1"),
        call("START", "c1"),
        message("REASONING_MESSAGE_START", "x"),
        activity("DELTA", "a1"),
    ],
)
@pytest.mark.requirement("STATE-8", "SUB-3")
def test_a_messages_snapshot_says_whose_each_message_and_call_is(event: Wire) -> None:
    before = [*_SPOKEN, activity("SNAPSHOT", "a1", subagentRunId="s1")]

    fed(START, *before, _RESTATED, {**event, "subagentRunId": "s2"})
    assert refusal(START, *before, _RESTATED, {**event, "subagentRunId": "s1"}).rule == "SUB-3"


@pytest.mark.requirement("STATE-6", "STATE-7", "ACT-6")
def test_an_activity_that_a_snapshot_dropped_has_no_owner_left() -> None:
    shown = activity("SNAPSHOT", "a9", subagentRunId="s1")
    other = activity("DELTA", "a9", subagentRunId="s2")

    assert accepted(START, shown, _RESTATED, other, FINISH) == []
    assert refusal(START, shown, snapshot(), other).rule == "SUB-3"


# Steps


@pytest.mark.requirement("SUB-5", "LIFE-16")
def test_the_parent_and_a_subagent_may_have_steps_of_one_name() -> None:
    theirs = {"subagentRunId": "s1"}
    stream = [step("STARTED", "plan"), step("STARTED", "plan", **theirs), step("FINISHED", "plan")]

    assert accepted(START, *stream, step("FINISHED", "plan", **theirs), FINISH) == []


@pytest.mark.parametrize(("opened", "ended"), [({"subagentRunId": "s1"}, {}), ({}, {"subagentRunId": "s1"})])
@pytest.mark.requirement("SUB-5")
def test_a_step_that_ends_under_another_tag_than_it_started_with_is_rejected(opened: Wire, ended: Wire) -> None:
    error = refusal(START, step("STARTED", "plan", **opened), step("FINISHED", "plan", **ended))

    assert error.rule == "SUB-5"
    assert "that was not started; a step of that name is open for" in str(error)


# Subagents


@pytest.mark.parametrize(
    ("before", "event", "wording"),
    [
        ([subagent("STARTED", "s1")], subagent("STARTED", "s1"), "announced subagent 's1' which is already active"),
        (
            [subagent("STARTED", "s1"), subagent("ERROR", "s1")],
            subagent("STARTED", "s1"),
            "announced subagent 's1' which has already ended",
        ),
        (
            [],
            subagent("STARTED", "s2", parentSubagentRunId="s1"),
            "announced subagent 's2' as spawned by subagent 's1' that was not started in this run",
        ),
        ([], subagent("FINISHED", "s1"), "ended subagent 's1' that was not started"),
        ([], subagent("ERROR", "s1"), "ended subagent 's1' that was not started"),
        (
            [subagent("STARTED", "s1"), subagent("FINISHED", "s1")],
            subagent("FINISHED", "s1"),
            "ended subagent 's1' that has already ended",
        ),
    ],
)
@pytest.mark.requirement("SUB-6")
def test_an_announcement_or_an_end_that_fits_no_invocation_is_rejected(
    before: list[Wire], event: Wire, wording: str
) -> None:
    error = refusal(START, *before, event)

    assert error.rule == "SUB-6"
    assert wording in str(error)


@pytest.mark.parametrize("end", ["FINISHED", "ERROR"])
@pytest.mark.requirement("SUB-6", "SUB-9")
def test_a_subagent_may_be_spawned_by_one_that_is_active_or_has_ended(end: str) -> None:
    nested = [subagent("STARTED", "s2", parentSubagentRunId="s1"), subagent(end, "s2")]

    assert accepted(START, subagent("STARTED", "s1"), *nested, subagent(end, "s1"), FINISH) == []
    assert accepted(START, subagent("STARTED", "s1"), subagent(end, "s1"), *nested, FINISH) == []


@pytest.mark.requirement("SUB-1", "SUB-10")
def test_a_suspended_subagent_may_come_back_in_a_later_run() -> None:
    suspended = subagent("FINISHED", "s1", outcome={"type": "suspended"})
    first = [START, subagent("STARTED", "s1"), suspended, FINISH]

    assert accepted(*first, started("r2"), subagent("STARTED", "s1"), subagent("FINISHED", "s1"), finished("r2")) == []


# Weaves


@st.composite
def weaves(draw: st.DrawFn) -> list[tuple[int, Wire]]:
    """ItemTable of every kind, interleaved at will and with standalone events; each event knows its item."""
    items: list[list[Wire]] = []
    for number in range(draw(st.integers(1, 6))):
        triad = draw(st.sampled_from(_TRIADS))[1]
        tag = draw(st.sampled_from([{}, {"subagentRunId": "s1"}]))
        middle = triad[1:-1] * draw(st.integers(0, 3))
        items.append([renamed({**event, **tag}, number) for event in (triad[0], *middle, triad[-1])])
    items.append([RAW] * draw(st.integers(0, 2)) + [snapshot()] * draw(st.integers(0, 1)))
    order = draw(st.permutations([number for number, item in enumerate(items) for _ in item]))
    return [(number, items[number].pop(0)) for number in order]


def renamed(event: Wire, number: int) -> Wire:
    return {name: f"i{number}" if value == "i" else value for name, value in event.items()}


@given(weaves())
@pytest.mark.requirement("STREAM-3", "STREAM-2", "SUB-8")
def test_any_weave_of_well_formed_items_is_accepted(weave: list[tuple[int, Wire]]) -> None:
    assert accepted(START, *(event for _, event in weave), FINISH) == []


@given(weaves(), st.data())
@pytest.mark.requirement("STREAM-1", "LIFE-5", "LIFE-16")
def test_a_weave_that_lacks_one_start_or_one_end_is_rejected(
    weave: list[tuple[int, Wire]], data: st.DataObject
) -> None:
    edges = [
        at for at, (_, event) in enumerate(weave) if event["type"].endswith(("_START", "_STARTED", "_END", "_FINISHED"))
    ]
    lost = data.draw(st.sampled_from(edges))

    with pytest.raises(EventOrderError):
        accepted(START, *(event for at, (_, event) in enumerate(weave) if at != lost), FINISH)


@pytest.mark.requirement("VER-2")
def test_a_newer_version_of_the_producer_is_a_warning() -> None:
    warnings = accepted({**START, "protocolVersion": "1.7"}, FINISH)
    assert [(each.rule, each.path) for each in warnings] == [("VER-2", "/protocolVersion")]
