"""The log of a conversation: entries add up to the conversation, whatever changed, and cost what is new."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    FunctionCall,
    Interrupt,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

from agui_client import ThreadStoreError
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, Ledger, ToolCallRecord
from agui_client._core.conversation.log import Log, Members, add_up, as_text, empty_members, entry_of, log_of
from agui_client._core.protocol.begun_messages import BegunMessages
from agui_client._core.protocol.patch import is_same_json
from support.json_patches import value

TEXTS = st.text(max_size=6)
NAMES = st.sampled_from(["a", "b", "c", "d"])
STATUSES = st.sampled_from(list(CallStatus))


def _call(name: str, arguments: str) -> ToolCall:
    return ToolCall(id=name, function=FunctionCall(name="f", arguments=arguments))


def _prompt(name: str, text: str) -> UserMessage:
    return UserMessage(id=name, content=text)


def _interrupt(name: str, reason: str) -> Interrupt:
    return Interrupt(id=name, reason=reason)


def _result(name: str, content: str, call: str) -> ToolMessage:
    return ToolMessage(id=name, content=content, tool_call_id=call)


def _assistant(name: str, content: str | None, calls: list[ToolCall] | None = None) -> AssistantMessage:
    return AssistantMessage(id=name, content=content, tool_calls=calls)


MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(_prompt, NAMES, TEXTS),
    st.builds(_assistant, NAMES, st.none() | TEXTS),
    st.builds(_assistant, NAMES, TEXTS, st.lists(st.builds(_call, NAMES, TEXTS), min_size=1, max_size=2)),
    st.builds(_result, NAMES, TEXTS, NAMES),
)
RECORDS = st.builds(
    ToolCallRecord,
    tool_call_id=NAMES,
    message_id=NAMES,
    status=STATUSES,
    answered_by=st.sampled_from(list(AnsweredBy)),
    is_reported=st.booleans(),
)
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "state": st.randoms(use_true_random=False).map(value),
    "tool_calls": st.lists(RECORDS, max_size=3, unique_by=lambda each: each.tool_call_id),
    "results": st.lists(st.builds(_result, NAMES, TEXTS, NAMES), max_size=3),
    "pending_interrupts": st.lists(st.builds(_interrupt, NAMES, TEXTS), max_size=2),
    "abandoned": st.booleans(),
    "incomplete_ids": st.lists(NAMES, max_size=2),
    "unreceived_ids": st.none() | st.lists(NAMES, max_size=2),
    "run": st.none() | NAMES.map(lambda run_id: {"run_id": run_id, "resume": list[Any]()}),
}


def _grown(message: Message, more: str) -> Message:
    """The message with more text, and more arguments of its last call."""
    if message.role == "assistant" and message.tool_calls:
        *calls, last = message.tool_calls
        longer = _call(last.id, last.function.arguments + more)
        return message.model_copy(update={"content": f"{message.content or ''}{more}", "tool_calls": [*calls, longer]})
    return message.model_copy(update={"content": f"{message.content or ''}{more}"})


def _changed(data: st.DataObject, members: Members) -> Members:
    """The conversation after some changes."""
    messages: list[Message] = list(members["messages"])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(messages)))
        match data.draw(st.sampled_from(["put", "drop", "grow"])):
            case "put":
                messages.insert(at, data.draw(MESSAGES))
            case "drop":
                del messages[at:]
            case _ if at < len(messages):
                messages[at] = _grown(messages[at], data.draw(TEXTS))
            case _:
                pass
    names = data.draw(st.lists(st.sampled_from(list(CHANGES)), max_size=3, unique=True))
    return {**members, "messages": messages, **{name: data.draw(CHANGES[name]) for name in names}}


def _plain(members: Members) -> Any:
    return json.loads(as_text({name: value for name, value in members.items() if name != "version"}, 0))


@given(st.data())
def test_entries_add_up_to_the_conversation_after_each_of_them(data: st.DataObject) -> None:
    members, entries = empty_members(), list[str]()
    for _ in range(data.draw(st.integers(1, 5))):
        after = _changed(data, members)
        entry = entry_of(members, after, len(entries) + 1)
        # Not by ==, for which true is 1.
        assert (entry is None) is is_same_json(_plain(members), _plain(after))
        entries += [] if entry is None else [entry]
        assert is_same_json(_plain(add_up(entries)), _plain(after))
        members = after


def _found(begun: BegunMessages) -> Any:
    """Return what is found in messages by each name."""
    found = [(begun.find(name), begun.find_call(name), begun.find_result(name)) for name in ("a", "b", "c", "d")]
    return found, begun.has_namesakes, begun.is_answered


def _expected(messages: list[Message]) -> Any:
    """Return the same, looked for in the list."""
    calls = [(each, call) for each in messages if each.role == "assistant" for call in each.tool_calls or ()]
    results = [each for each in messages if each.role == "tool"]
    found = [
        (
            next((each for each in messages if each.id == name), None),
            next((each for each in calls if each[1].id == name), None),
            next((each for each in results if each.tool_call_id == name), None),
        )
        for name in ("a", "b", "c", "d")
    ]
    call_ids = {call.id for _, call in calls}
    return found, len(call_ids) < len(calls), call_ids <= {each.tool_call_id for each in results}


@given(st.data())
def test_messages_and_records_of_logs_that_grow_from_each_other_are_found_as_in_lists(data: st.DataObject) -> None:
    logs, begun = [Log()], list[Members]()
    for _ in range(data.draw(st.integers(1, 6))):
        log = data.draw(st.sampled_from(logs[-2:]))
        entry = entry_of(log.members, _changed(data, log.members), log.count + 1)
        logs.append(log_of([] if entry is None else [entry], log))
        begun.append(logs[-1].begun)
        if data.draw(st.booleans()):  # a turn may look for nothing, and an earlier one later
            _found(data.draw(st.sampled_from(begun))["messages"])
    for log, members in zip(logs[1:], begun, strict=True):
        assert [*members["messages"]] == log.members["messages"]
        assert _found(members["messages"]) == _expected(log.members["messages"])
        records = log.members["tool_calls"]
        assert [*members["tool_calls"]] == records
        assert members["tool_calls"].ledger.unsettled == Ledger(records).unsettled


@pytest.mark.parametrize("kind", ["the text of a message", "the arguments of a call"])
def test_a_text_that_streams_is_stored_once(kind: str) -> None:
    def at(size: int) -> Members:
        text = "wörter " * (size // 7)
        message = AssistantMessage(id="m", content=text)
        if kind != "the text of a message":
            message = AssistantMessage(id="m", tool_calls=[_call("c", text)])
        return {**empty_members(), "messages": [UserMessage(id="u", content="Go"), message]}

    stages = [empty_members(), *map(at, range(0, 200_000, 10_000))]
    entries = [entry_of(old, new, number) for number, (old, new) in enumerate(pairwise(stages), 1)]
    stored = sum(len((entry or "").encode()) for entry in entries)
    assert stored <= 1.1 * len(json.dumps(_plain(stages[-1])["messages"], ensure_ascii=False).encode())


def test_changes_of_one_number_in_a_large_state_store_no_more_than_the_state_again() -> None:
    def state(number: int) -> Any:
        return {"number": number, "rows": [{"id": each, "text": "row " * 20} for each in range(1000)]}

    stages = [{**empty_members(), "state": state(number)} for number in range(40)]
    entries = [entry_of(old, new, number) for number, (old, new) in enumerate(pairwise(stages), 2)]
    whole = entry_of(empty_members(), stages[0], 1) or ""
    assert sum(len(entry or "") for entry in entries) < 0.1 * len(whole)
    assert add_up([whole, *(entry or "" for entry in entries)])["state"] == state(39)


@pytest.mark.parametrize(
    "entries",
    [
        ['{"version": 2, "number": 2}'],
        ['{"version": 2, "number": 1, "colour": "red"}'],
        ['{"version": 2, "number": 1, "values": {"colour": "red"}}'],
        ['{"version": 3, "number": 1}'],
        ['{"version": 2, "number": 1, "text": [[0, 3, "more"]]}'],
        ['{"version": 2, "number": 1, "messages": [2, 1, []]}'],
        ['{"version": 2, "number": 1, "patch": [{"op": "remove", "path": "/a"}]}'],
    ],
    ids=[
        "one is lost",
        "an unknown kind",
        "an unknown value",
        "a newer version",
        "no message",
        "no splice",
        "no place",
    ],
)
def test_entries_that_do_not_fit_are_refused(entries: list[str]) -> None:
    with pytest.raises(ThreadStoreError):
        add_up(entries)


def test_a_value_in_a_message_or_an_interrupt_that_becomes_true_was_not_one() -> None:
    def members(flag: Any) -> Members:
        call = ToolCall(id="c", function=FunctionCall(name="f", arguments="{}"), metadata={"flag": flag})
        messages: list[Message] = [
            ActivityMessage(id="1", activity_type="plan", content={"done": [flag]}),
            UserMessage(id="2", content="hi", metadata={"flag": flag}),
            AssistantMessage(id="3", content="a" if flag is True else "", metadata={"flag": flag}),
            AssistantMessage(id="4", tool_calls=[call]),
        ]
        asked = Interrupt(id="i", reason="why", metadata={"flag": flag})
        return {**empty_members(), "messages": messages, "pending_interrupts": [asked]}

    first = entry_of(empty_members(), members(1), 1)
    assert first is not None
    second = entry_of(add_up([first]), members(True), 2)
    assert second is not None
    found = add_up([first, second])
    assert found["messages"][0].content["done"][0] is True
    assert all(each.metadata["flag"] is True for each in found["messages"][1:3])
    assert found["messages"][3].tool_calls[0].metadata["flag"] is True
    assert found["pending_interrupts"][0].metadata["flag"] is True
