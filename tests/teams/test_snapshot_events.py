"""Events that stand for a snapshot of a member's messages, and the words that are left of an attempt that failed."""

from __future__ import annotations

import pytest
from ag_ui.core import (
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    FunctionCall,
    Message,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client.teams._snapshot_events import cut_off, events_between, whole_snapshot, whole_steps, with_restated

_OWNER = "member-1"
_NOTE = {"note": "kept"}


def _call(tool_call_id: str, arguments: str = "{}", encrypted_value: str | None = None) -> ToolCall:
    made = ToolCall(id=tool_call_id, function=FunctionCall(name="look", arguments=arguments))
    return made.model_copy(update={"encrypted_value": encrypted_value})


def _said(message_id: str, content: str | None = None, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(id=message_id, content=content, tool_calls=list(calls) or None)


NEW: dict[str, tuple[Message, list[Event]]] = {
    "an activity": (
        ActivityMessage(id="m", activity_type="plan", content={"n": 1}, metadata=_NOTE, subagent_run_id=_OWNER),
        [
            ActivitySnapshotEvent(
                message_id="m", activity_type="plan", content={"n": 1}, metadata=_NOTE, subagent_run_id=_OWNER
            )
        ],
    ),
    "reasoning": (
        ReasoningMessage(id="m", content="Hm.", encrypted_value="x", metadata=_NOTE, subagent_run_id=_OWNER),
        [
            ReasoningMessageStartEvent(message_id="m", role="reasoning", metadata=_NOTE, subagent_run_id=_OWNER),
            ReasoningMessageContentEvent(message_id="m", delta="Hm.", subagent_run_id=_OWNER),
            ReasoningMessageEndEvent(message_id="m", subagent_run_id=_OWNER),
            ReasoningEncryptedValueEvent(subtype="message", entity_id="m", encrypted_value="x", subagent_run_id=_OWNER),
        ],
    ),
    "words of another role": (
        SystemMessage(id="m", content="Be brief.", name="ann", metadata=_NOTE, subagent_run_id=_OWNER),
        [
            TextMessageStartEvent(message_id="m", role="system", name="ann", metadata=_NOTE, subagent_run_id=_OWNER),
            TextMessageContentEvent(message_id="m", delta="Be brief.", subagent_run_id=_OWNER),
            TextMessageEndEvent(message_id="m", subagent_run_id=_OWNER),
        ],
    ),
    "an empty text": (
        _said("m", ""),
        [TextMessageStartEvent(message_id="m", role="assistant"), TextMessageEndEvent(message_id="m")],
    ),
    "a call": (
        AssistantMessage(
            id="m",
            tool_calls=[_call("c", '{"n": 1}').model_copy(update={"metadata": _NOTE})],
            subagent_run_id=_OWNER,
        ),
        [
            ToolCallStartEvent(
                tool_call_id="c",
                tool_call_name="look",
                parent_message_id="m",
                metadata=_NOTE,
                subagent_run_id=_OWNER,
            ),
            ToolCallArgsEvent(tool_call_id="c", delta='{"n": 1}', subagent_run_id=_OWNER),
            ToolCallEndEvent(tool_call_id="c", subagent_run_id=_OWNER),
        ],
    ),
    "a result": (
        ToolMessage(id="m", tool_call_id="c", content="sun", metadata=_NOTE, subagent_run_id=_OWNER),
        [ToolCallResultEvent(message_id="m", tool_call_id="c", content="sun", metadata=_NOTE, subagent_run_id=_OWNER)],
    ),
}


@pytest.mark.parametrize("kind", NEW)
def test_a_message_that_is_new_in_a_snapshot_becomes_its_events(kind: str) -> None:
    message, events = NEW[kind]
    before: list[Message] = [_said("call", None, _call("c"))] if kind == "a result" else []
    assert events_between(before, [*before, message]) == events


def test_messages_that_go_on_in_a_snapshot_become_what_they_have_more() -> None:
    before: list[Message] = [
        ReasoningMessage(id="r", content="Hm"),
        _said("a", "One.", _call("c", '{"n"')),
        ActivityMessage(id="plan", activity_type="plan", content={"n": 1}),
        UserMessage(id="u", content="Hi"),
    ]
    after: list[Message] = [
        ReasoningMessage(id="r", content="Hm, yes", encrypted_value="x"),
        _said("a", "One. Two.", _call("c", '{"n": 1}', encrypted_value="y"), _call("d", "")),
        ActivityMessage(id="plan", activity_type="plan", content={"n": 2}),
        UserMessage(id="u", content="Hi"),
    ]
    assert events_between(before, after) == [
        ReasoningMessageStartEvent(message_id="r", role="reasoning"),
        ReasoningMessageContentEvent(message_id="r", delta=", yes"),
        ReasoningMessageEndEvent(message_id="r"),
        ReasoningEncryptedValueEvent(subtype="message", entity_id="r", encrypted_value="x"),
        TextMessageStartEvent(message_id="a", role="assistant"),
        TextMessageContentEvent(message_id="a", delta=" Two."),
        TextMessageEndEvent(message_id="a"),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="look", parent_message_id="a"),
        ToolCallArgsEvent(tool_call_id="c", delta=": 1}"),
        ToolCallEndEvent(tool_call_id="c"),
        ReasoningEncryptedValueEvent(subtype="tool-call", entity_id="c", encrypted_value="y"),
        ToolCallStartEvent(tool_call_id="d", tool_call_name="look", parent_message_id="a"),
        ToolCallEndEvent(tool_call_id="d"),
        ActivitySnapshotEvent(message_id="plan", activity_type="plan", content={"n": 2}),
    ]
    assert events_between(after, after) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([_said("a", "One.")], []),
        ([_said("a", "One.")], [_said("a", "Two.")]),
        ([_said("a", "One."), _said("b", "Two.")], [_said("b", "Two."), _said("a", "One.")]),
        ([_said("a", "One.", _call("c"))], [_said("a", "One.")]),
        ([], [UserMessage(id="u", content=[TextPart(text="Hi")])]),
    ],
    ids=["it lacks one", "it has another text", "it has another order", "it lacks a call", "it has content parts"],
)
def test_no_events_lead_to_a_snapshot_that_changes_what_was_said(before: list[Message], after: list[Message]) -> None:
    assert events_between(before, after) is None


def test_the_messages_of_one_member_are_replaced_among_those_of_all() -> None:
    others: list[Message] = [UserMessage(id="u", content="Hi"), _said("other", "O")]
    own: list[Message] = [_said("a", "One."), _said("gone", "Two.")]
    now: list[Message] = [_said("new", "Three."), _said("a", "Rewritten.")]
    team = [others[0], own[0], others[1], own[1]]
    assert with_restated(team, own, now) == [others[0], now[1], others[1], now[0]]


@pytest.mark.requirement("STATE-7", "INPUT-4")
def test_a_snapshot_of_all_has_activities_only_where_those_of_the_member_have_changed() -> None:
    theirs = ActivityMessage(id="theirs", activity_type="plan", content={"n": 1})
    own = ActivityMessage(id="own", activity_type="plan", content={"n": 2})
    said, rewritten = _said("a", "One."), _said("a", "Rewritten.")
    team: list[Message] = [theirs, own, said]
    assert whole_snapshot(team, [own, said], [own, rewritten]).messages == [rewritten]
    assert whole_snapshot(team, [own, said], [rewritten]).messages == [theirs, rewritten]


def test_an_attempt_that_failed_keeps_what_comes_before_its_last_result_without_the_calls_that_have_none() -> None:
    def result(tool_call_id: str, content: str) -> ToolMessage:
        return ToolMessage(id=f"{tool_call_id}-result", tool_call_id=tool_call_id, content=content)

    thought, words = ReasoningMessage(id="r", content="Hm."), _said("w", "Let me look.")
    both = _said("b", "These two.", _call("c1"), _call("c2"))
    answered, mute = _said("a", None, _call("c3")), _said("n", None, _call("c4"))
    spoken = _said("s", "And this.", _call("c5"))
    cut = [result(each, cut_off("payer", how)) for each, how in (("c2", "failed"), ("c4", "was cancelled"))]
    attempt: list[Message] = [thought, words, both, result("c1", "sun"), cut[0], answered, mute, spoken, cut[1]]
    attempt.append(result("c3", "rain"))
    assert whole_steps([*attempt, _said("p", "Half a sen")]) == [
        thought,
        words,
        _said("b", "These two.", _call("c1")),
        result("c1", "sun"),
        answered,
        _said("s", "And this."),
        result("c3", "rain"),
    ]
    assert whole_steps([words, mute, cut[1]]) == []
    assert cut_off("payer", "failed") == "payer failed before this call was answered."
