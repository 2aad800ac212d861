"""Enforcement: what is stripped and where, what is fatal, and that nothing else is touched."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    EventType,
    MessagesSnapshotEvent,
    ReasoningMessageStartEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCallResultEvent,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agui_client import UnrecognizedEvent
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.events import VALIDATOR
from agui_client._core.protocol.plain_json import members_as_json
from agui_client._core.protocol.schema import (
    EVENT_MODELS,
    Anything,
    ChoiceSchema,
    Integer,
    ListSchema,
    ObjectSchema,
    OpenObject,
    Pinned,
    Shape,
    TextOrItems,
    Variants,
    record,
)
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import InvalidEventError

Wire = dict[str, Any]

CONTENT: Wire = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x"}
FINISHED: Wire = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
TEXT: Wire = {"type": "text", "text": "hi"}
EMPTY: Wire = {}
IMAGE: Wire = {"type": "image", "source": {"type": "url", "value": "https://example.test/a.png"}}


def judged(data: Wire, null_fields: Literal["reject", "drop"] = "reject") -> tuple[Wire | None, list[tuple[str, ...]]]:
    """What is left of a JSON event, and the warnings as (rule, message, path)."""
    warnings = WarningLog()
    given_data = copy.deepcopy(data)
    event = Validator(warnings, null_fields=null_fields).feed(UnrecognizedEvent(data["type"], data))
    assert data == given_data, "the incoming object must not be changed"
    left = None if event is None else event.model_dump(mode="json", by_alias=True)
    return left, [(w.rule, w.message, w.path or "") for w in warnings.records()]


def refused(data: Wire, null_fields: Literal["reject", "drop"] = "reject") -> InvalidEventError:
    warnings = WarningLog()
    warnings.event_index = 7
    with pytest.raises(InvalidEventError) as caught:
        Validator(warnings, null_fields=null_fields).feed(UnrecognizedEvent(data["type"], data))
    assert caught.value.__cause__ is None
    return caught.value


def snapshot(*messages: Any) -> Wire:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


def user(*parts: Any, **fields: Any) -> Wire:
    return {"id": "u1", "role": "user", "content": list(parts), **fields}


def delta(*operations: Any) -> Wire:
    return {"type": "STATE_DELTA", "delta": list(operations)}


# Unknown material


@pytest.mark.requirement("PROC-5", "PROC-7")
def test_an_event_of_an_unknown_type_is_dropped_whole() -> None:
    assert judged({"type": "FUTURE_EVENT", "timestamp": "nonsense"}) == (
        None,
        [("PROC-7", "unknown event type FUTURE_EVENT dropped", "")],
    )


@pytest.mark.requirement("PROC-5", "PROC-8")
def test_an_unknown_property_is_stripped() -> None:
    message = "unknown property /futureProp of TEXT_MESSAGE_CONTENT stripped"
    assert judged({**CONTENT, "futureProp": None}) == (CONTENT, [("PROC-8", message, "/futureProp")])


@pytest.mark.requirement("PROC-8")
def test_the_path_of_an_unknown_property_is_a_json_pointer() -> None:
    _, warnings = judged({**CONTENT, "a/b~c": 1})
    assert warnings[0][2] == "/a~1b~0c"


@pytest.mark.requirement("PROC-9")
def test_unknown_properties_are_stripped_at_every_depth() -> None:
    function = {"name": "f", "arguments": "{}"}
    call: Wire = {"id": "c", "type": "function", "function": function}
    noisy_call: Wire = {**call, "x1": 1, "function": {**function, "x2": 1}}
    source = {"type": "data", "value": "AAAA", "mimeType": "image/png"}
    left, warnings = judged(
        snapshot(
            user({"type": "image", "source": {**source, "x3": 1}}, {**TEXT, "x4": 1}, x5=1),
            {"id": "a1", "role": "assistant", "toolCalls": [noisy_call]},
        )
    )
    assert left == snapshot(
        user({"type": "image", "source": source}, TEXT), {"id": "a1", "role": "assistant", "toolCalls": [call]}
    )
    assert {path for _, _, path in warnings} == {
        "/messages/0/content/0/source/x3",
        "/messages/0/content/1/x4",
        "/messages/0/x5",
        "/messages/1/toolCalls/0/x1",
        "/messages/1/toolCalls/0/function/x2",
    }


@pytest.mark.requirement("PROC-19")
def test_a_python_spelling_is_an_unknown_property() -> None:
    error = refused({"type": "TEXT_MESSAGE_CONTENT", "message_id": "m1", "delta": "x"})
    assert error.errors == ["/messageId is missing"]
    left, warnings = judged({**CONTENT, "subagent_run_id": "s1"})
    assert left == CONTENT
    assert [path for _, _, path in warnings] == ["/subagent_run_id"]


@pytest.mark.requirement("REASON-11")
def test_the_type_of_an_encrypted_value_is_stripped_and_the_value_kept() -> None:
    event = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m1", "encryptedValue": "s"}
    left, warnings = judged({**event, "encryptedValueType": "signature"})
    assert left == event
    assert [(rule, path) for rule, _, path in warnings] == [("PROC-8", "/encryptedValueType")]


@pytest.mark.requirement("PROC-9")
def test_an_unknown_member_in_an_optional_slot_takes_its_field() -> None:
    message = "/outcome of RUN_FINISHED dropped: unknown type 'paused'"
    assert judged({**FINISHED, "outcome": {"type": "paused"}}) == (FINISHED, [("PROC-9", message, "/outcome")])


@pytest.mark.requirement("PROC-6", "SET-23")
@pytest.mark.parametrize("given", [{}, {"type": 5}, {"type": None}, {"type": ["success"]}])
def test_a_member_of_a_union_without_its_discriminator_ends_the_run(given: dict[str, Any]) -> None:
    result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c"}
    events = [
        ("/outcome", {**FINISHED, "outcome": given}),
        ("/messages/0/content/0", snapshot(user(given))),
        ("/content/0/source", {**result, "content": [{"type": "image", "source": given}]}),
    ]
    for path, event in events:
        with pytest.raises(InvalidEventError) as caught:
            judged(event)
        assert (caught.value.rule, caught.value.path) == ("PROC-6", path)


@pytest.mark.requirement("PROC-9")
def test_an_unknown_member_in_a_list_takes_itself() -> None:
    left, warnings = judged(snapshot(user(TEXT, {"type": "hologram", "beam": "x"}, IMAGE)))
    assert left == snapshot(user(TEXT, IMAGE))
    message = "/messages/0/content/1 of MESSAGES_SNAPSHOT dropped: unknown type 'hologram'"
    assert warnings == [("PROC-9", message, "/messages/0/content/1")]


@pytest.mark.requirement("PROC-9", "INPUT-10")
def test_an_unknown_member_in_a_required_slot_takes_the_object_around_it() -> None:
    part = {"type": "image", "metadata": None, "x": 1, "source": {"type": "hologram", "value": 5}, "id": 5}
    left, warnings = judged({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [part, TEXT]})
    # What is wrong with the part itself goes unjudged: it is not there any more.
    assert left == {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [TEXT]}
    reason = "/content/0 of TOOL_CALL_RESULT dropped: /content/0/source has the unknown type 'hologram'"
    assert warnings[-1] == ("PROC-9", reason, "/content/0")


@pytest.mark.requirement("PROC-9", "REASON-9")
def test_an_unknown_member_that_the_event_requires_takes_the_event() -> None:
    event = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "part", "entityId": "m1", "encryptedValue": "s3cret"}
    message = "REASONING_ENCRYPTED_VALUE dropped: /subtype has the unknown value 'part'"
    assert judged(event) == (None, [("REASON-9", message, "")])


@pytest.mark.requirement("PROC-18")
def test_an_unknown_role_of_a_streamed_message_is_stripped() -> None:
    start = {"type": "TEXT_MESSAGE_START", "messageId": "m1"}
    message = "/role of TEXT_MESSAGE_START dropped: unknown value 'narrator'"
    assert judged({**start, "role": "narrator"}) == (start, [("PROC-18", message, "/role")])


@pytest.mark.requirement("PROC-18")
def test_a_message_of_an_unknown_role_is_dropped_from_its_list() -> None:
    left, warnings = judged(snapshot({"id": "n1", "role": "narrator", "content": 5}, user(TEXT)))
    assert left == snapshot(user(TEXT))
    assert [path for _, _, path in warnings] == ["/messages/0"]


@pytest.mark.requirement("PROC-18")
def test_a_resume_entry_of_an_unknown_status_is_dropped_from_its_list() -> None:
    entries = [{"interruptId": "i1", "status": "postponed"}, {"interruptId": "i2", "status": "cancelled"}]
    started = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    echo: Wire = {"threadId": "t", "runId": "r", "messages": []}
    left, warnings = judged({**started, "input": {**echo, "resume": entries}})
    assert left == {**started, "input": {**echo, "resume": entries[1:]}}
    reason = "/input/resume/0 of RUN_STARTED dropped: /input/resume/0/status has the unknown value 'postponed'"
    assert warnings == [("PROC-18", reason, "/input/resume/0")]


@pytest.mark.requirement("SNAP-4")
def test_an_operation_of_an_unknown_kind_is_dropped_from_its_patch() -> None:
    add = {"op": "add", "path": "/a", "value": None}
    left, warnings = judged(delta({"op": "increment", "path": 5}, add))
    assert left == delta(add)
    assert warnings == [("SNAP-4", "/delta/0 of STATE_DELTA dropped: unknown op 'increment'", "/delta/0")]


@pytest.mark.requirement("PROC-10", "PROC-17", "META-4")
@pytest.mark.parametrize(
    "data",
    [
        delta(
            {"op": "remove", "path": "/a", "value": 1, "x": None}, {"op": "move", "from": "/a", "path": "/b", "y": 1}
        ),
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "m",
            "activityType": "t",
            "patch": [{"op": "test", "path": "", "value": None, "x": 1}],
        },
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {"x": None, "type": "y"}},
        {**CONTENT, "metadata": {"acme/trace": None, "ag-ui": {"a": [None]}}},
        {**CONTENT, "rawEvent": {"choices": [None, {"delta": None}]}},
        {"type": "CUSTOM", "name": "n", "value": None},
        {"type": "RAW", "event": None, "source": "s"},
        {"type": "STATE_SNAPSHOT", "snapshot": None},
        {"type": "STATE_SNAPSHOT", "snapshot": {"type": "x", "message_id": None}},
        {**FINISHED, "result": {"a": None}},
        {
            "type": "RUN_STARTED",
            "threadId": "t",
            "runId": "r",
            "input": {
                "threadId": "t",
                "runId": "r",
                "messages": [],
                "state": {"a": None},
                "forwardedProps": {"b": None},
                "tools": [{"name": "f", "description": "d", "parameters": {"default": None}}],
            },
        },
        {
            **FINISHED,
            "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "r", "responseSchema": {"x": None}}]},
        },
    ],
)
def test_open_objects_and_payloads_arrive_whole_and_unwarned(data: Wire) -> None:
    assert judged(data) == (data, [])


# Malformed values


@pytest.mark.requirement("PROC-6", "PROC-19")
@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({**CONTENT, "delta": 42}, "/delta should be a valid string, got 42"),
        ({**CONTENT, "timestamp": "5"}, "/timestamp should be a valid integer, got '5'"),
        ({**CONTENT, "timestamp": 5.5}, "/timestamp should be a valid integer, got 5.5"),
        ({**CONTENT, "timestamp": True}, "/timestamp should be a valid integer, got a boolean"),
        (
            {**CONTENT, "timestamp": 2**60},
            f"/timestamp should be less than or equal to {2**53 - 1}, got a number beyond the range of JSON integers",
        ),
        ({**CONTENT, "metadata": ["x"]}, "/metadata should be an object, got an array"),
        ({**CONTENT, "delta": {}}, "/delta should be a valid string, got an object"),
        ({"type": "TEXT_MESSAGE_END"}, "/messageId is missing"),
        (
            {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": 5},
            "/role should be 'developer', 'system', 'assistant' or 'user', got 5",
        ),
        (
            {"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {}, "replace": "false"},
            "/replace should be a valid boolean, got 'false'",
        ),
        (
            {**FINISHED, "usage": [{"inputTokens": -1}]},
            "/usage/0/inputTokens should be greater than or equal to 0, got -1",
        ),
        ({**FINISHED, "usage": [None]}, "/usage/0 should be an object, got null"),
        (
            {**FINISHED, "outcome": {"type": "interrupt", "interrupts": []}},
            "/outcome/interrupts should have at least 1 item after validation, not 0, got an array",
        ),
        (snapshot(user(), 5), "/messages/1 should be an object, got 5"),
        (snapshot({"id": "u1", "content": "x"}), "/messages/0 should have a string as its role"),
        (
            snapshot({"id": "u1", "role": "user", "content": 42}),
            "/messages/0/content should be a string or an array of parts, got 42",
        ),
        (
            snapshot(user({"type": "image", "source": {"type": "url", "value": 5}})),
            "/messages/0/content/0/source/value should be a valid string, got 5",
        ),
        (snapshot(user({"type": 5})), "/messages/0/content/0 should have a string as its type"),
        ({"type": "SUBAGENT_STARTED", "subagentRunId": "s"}, "/name is missing"),
    ],
)
def test_a_malformed_value_is_fatal_and_named_with_its_path(data: Wire, error: str) -> None:
    caught = refused(data)
    assert caught.errors == [error]
    assert (caught.rule, caught.path) == ("PROC-6", error.partition(" ")[0])
    assert str(caught) == f"{data['type']} (event 7) is malformed: {error}"


@pytest.mark.requirement("PROC-6")
def test_every_malformed_value_is_told() -> None:
    caught = refused({"type": "TOOL_CALL_START", "toolCallId": 1, "toolCallName": None, "parentMessageId": False})
    assert caught.errors == [
        "/toolCallId should be a valid string, got 1",
        "/toolCallName should be a valid string, got null",
        "/parentMessageId should be a valid string, got a boolean",
    ]
    many = refused(snapshot(*([5] * 8)))
    assert len(many.errors) == 8
    assert str(many).endswith("/messages/4 should be an object, got 5; and 3 more")


@pytest.mark.requirement("PROC-6")
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (snapshot(*([{}] * 2000)), "/messages/0 should have a string as its role"),
        (snapshot(*[user(TEXT)] * 1500, *([5] * 1500)), "/messages/1500 should be an object, got 5"),
        (snapshot(user(*([{}] * 2000))), "/messages/0/content/0 should have a string as its type"),
        (
            snapshot({"id": "a", "role": "assistant", "toolCalls": [5] * 2000}),
            "/messages/0/toolCalls/0 should be an object, got 5",
        ),
        ({"type": "STATE_DELTA", "delta": [EMPTY] * 2000}, "/delta/0 should have a string as its op"),
        (
            {**FINISHED, "outcome": {"type": "interrupt", "interrupts": [{"id": "i"}] * 2000}},
            "/outcome/interrupts/0/reason is missing",
        ),
    ],
    ids=["messages", "later messages", "parts", "calls", "operations", "interrupts"],
)
def test_of_thousands_of_malformed_values_the_first_of_each_list_is_told(data: Wire, error: str) -> None:
    caught = refused(data)
    assert caught.errors == [error]
    assert (caught.path, str(caught)) == (error.partition(" ")[0], f"{data['type']} (event 7) is malformed: {error}")
    # The decoder comes first, and validates what may be typed.
    with pytest.raises(ValidationError) as found:
        VALIDATOR.validate_json(json.dumps(data), strict=True, by_alias=True, by_name=False)
    assert found.value.error_count() <= 2


def test_the_official_classes_go_on_to_find_every_fault() -> None:
    with pytest.raises(ValidationError) as found:
        MessagesSnapshotEvent.model_validate(snapshot(*([user(5)] * 8)))
    assert (found.value.error_count(), UserMessage.__pydantic_complete__) == (16, True)


@pytest.mark.requirement("PROC-17")
def test_of_thousands_of_nulls_a_thousand_are_told() -> None:
    nulls = refused(snapshot(*([{"id": "u", "role": "user", "content": "hi", "name": None}] * 3000)))
    assert len(nulls.errors) == 1000
    assert "/messages/4/name is null where an optional field should be absent; and at least 995 more; " in str(nulls)


@pytest.mark.requirement("PROC-18", "REASON-4")
@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "assistant"}, "/role"),
        ({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "x", "role": "user"}, "/role"),
        (
            snapshot(
                {
                    "id": "a",
                    "role": "assistant",
                    "toolCalls": [{"id": "c", "type": "mcp", "function": {"name": "f", "arguments": ""}}],
                }
            ),
            "/messages/0/toolCalls/0/type",
        ),
    ],
)
def test_another_value_in_a_pinned_field_is_fatal(data: Wire, path: str) -> None:
    caught = refused(data)
    assert (caught.rule, caught.path) == ("PROC-6", path)


@pytest.mark.requirement("PROC-6")
def test_a_pinned_member_that_is_required_may_not_be_missing() -> None:
    assert refused({"type": "REASONING_MESSAGE_START", "messageId": "m"}).errors == ["/role is missing"]
    call = {"id": "c", "function": {"name": "f", "arguments": ""}}
    caught = refused(snapshot({"id": "a", "role": "assistant", "toolCalls": [call]}))
    assert caught.errors == ["/messages/0/toolCalls/0/type is missing"]
    assert judged({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "x"})[1] == []


@pytest.mark.requirement("PROC-11")
@pytest.mark.parametrize("outcome", [["paused"], "paused", 5, {"type": 5}, {"type": ["success"]}, {}])
def test_the_wrong_kind_of_json_in_the_place_of_a_union_is_fatal(outcome: Any) -> None:
    caught = refused({**FINISHED, "outcome": outcome})
    assert (caught.rule, caught.path) == ("PROC-6", "/outcome")


@pytest.mark.requirement("REASON-9")
def test_a_subtype_that_is_no_string_is_fatal() -> None:
    event = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": 7, "entityId": "m1", "encryptedValue": "s"}
    assert refused(event).errors == ["/subtype should be 'tool-call' or 'message', got 7"]


@pytest.mark.requirement("SNAP-3")
@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"type": "STATE_DELTA", "delta": {"op": "add"}}, "/delta"),
        (delta({"path": "/a"}), "/delta/0"),
        (delta({"op": 5, "path": "/a"}), "/delta/0"),
        (delta({"op": "add", "path": "/a"}), "/delta/0/value"),
        (delta({"op": "remove", "path": "a"}), "/delta/0/path"),
        (delta({"op": "move", "path": "/a"}), "/delta/0/from"),
        (delta({"op": "copy", "path": "/a", "from_": "/b"}), "/delta/0/from"),
        ({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "t", "patch": ["x"]}, "/patch/0"),
    ],
)
def test_a_malformed_patch_is_fatal(data: Wire, path: str) -> None:
    caught = refused(data)
    assert (caught.rule, caught.path) == ("SNAP-3", path)


@pytest.mark.requirement("PROC-19")
@pytest.mark.parametrize("number", [5.0, -0.0, 1e3])
def test_a_whole_number_is_an_integer_however_it_is_written(number: float) -> None:
    left, warnings = judged({**CONTENT, "timestamp": number})
    assert left == {**CONTENT, "timestamp": number}
    assert left is not None
    assert isinstance(left["timestamp"], int)
    assert warnings == []


@pytest.mark.requirement("PROC-13")
@pytest.mark.parametrize("role", [0, False, ["assistant"]])
def test_a_malformed_chunk_is_fatal_and_not_defaulted(role: Any) -> None:
    assert refused({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": role, "delta": "x"}).path == "/role"


@pytest.mark.requirement("INT-2", "SET-6")
def test_two_interrupts_with_one_id_are_fatal() -> None:
    interrupts = [{"id": name, "reason": "approve"} for name in ("i1", "i2", "i1")]
    data = {**FINISHED, "outcome": {"type": "interrupt", "interrupts": interrupts}}
    caught = refused(data)
    assert (caught.rule, caught.path) == ("INT-2", "/outcome/interrupts/2/id")
    assert judged({**data, "outcome": {"type": "interrupt", "interrupts": interrupts[:2]}})[1] == []


# Nulls


@pytest.mark.requirement("PROC-17", "SET-1")
@pytest.mark.parametrize("name", ["timestamp", "metadata", "subagentRunId", "rawEvent"])
def test_a_null_for_a_whole_optional_field_is_fatal_and_the_error_names_the_way_out(name: str) -> None:
    caught = refused({**CONTENT, name: None})
    sentence = f"/{name} is null where an optional field should be absent"
    assert (caught.rule, caught.path, caught.errors) == ("PROC-17", f"/{name}", [sentence])
    advice = 'null_fields="drop" drops such nulls with a warning'
    assert str(caught) == f"TEXT_MESSAGE_CONTENT (event 7) is malformed: {sentence}; {advice}"


@pytest.mark.requirement("PROC-17")
def test_a_null_deep_inside_is_fatal_too() -> None:
    assert refused(snapshot(user(TEXT, encryptedValue=None))).path == "/messages/0/encryptedValue"
    both = refused({**CONTENT, "timestamp": None, "delta": None})
    assert (both.rule, len(both.errors)) == ("PROC-6", 2)


@pytest.mark.requirement("SET-1")
def test_nulls_for_optional_fields_are_dropped_on_request() -> None:
    event = snapshot(user(TEXT, name=None), {"id": "a", "role": "assistant", "content": None})
    left, warnings = judged({**event, "timestamp": None}, null_fields="drop")
    assert left == snapshot(user(TEXT), {"id": "a", "role": "assistant"})
    assert [(rule, path) for rule, _, path in warnings] == [
        ("PROC-17", "/messages/0/name"),
        ("PROC-17", "/messages/1/content"),
        ("PROC-17", "/timestamp"),
    ]
    assert warnings[2][1] == "null for the optional /timestamp of MESSAGES_SNAPSHOT dropped"


@pytest.mark.requirement("SET-1")
def test_a_null_for_a_required_field_stays_fatal_on_request() -> None:
    assert refused({**CONTENT, "delta": None}, null_fields="drop").path == "/delta"


# What errors and warnings tell


def test_an_encrypted_value_is_never_told() -> None:
    event = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m1", "encryptedValue": ["s3cret"]}
    assert refused(event).errors == ["/encryptedValue should be a valid string"]
    message = snapshot({"id": "a", "role": "assistant", "encryptedValue": 53, "content": 5})
    assert refused(message).errors == [
        "/messages/0/encryptedValue should be a valid string",
        "/messages/0/content should be a valid string, got 5",
    ]


def test_long_values_types_and_names_are_told_in_part() -> None:
    error = refused({"type": "TEXT_MESSAGE_START", "messageId": "m", "name": {"x": "y" * 500}, "timestamp": "z" * 500})
    assert len(str(error)) < 300
    _, warnings = judged({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "n" * 500, "k" * 500: 1})
    assert [len(message) < 300 for _, message, _ in warnings] == [True, True]
    _, (dropped,) = judged({"type": "F" * 500})
    assert len(dropped[1]) < 100
    assert len(str(refused({**CONTENT, "timestamp": 10**400}))) < 200


# Typed events


@pytest.mark.parametrize(
    "event",
    [
        TextMessageContentEvent(message_id="m1", delta="x", metadata={"a": None}),
        TextMessageStartEvent(message_id="m1"),
        ReasoningMessageStartEvent(message_id="m1"),
        StateSnapshotEvent(snapshot=None),
        StateDeltaEvent.model_validate(delta({"op": "add", "path": "/a", "value": 1, "x": 2})),
        CustomEvent(name="n", value={"a": 1}),
        RunStartedEvent(thread_id="t", run_id="r"),
        ToolCallResultEvent(message_id="m", tool_call_id="c", content=[TextPart(text="x")]),
        MessagesSnapshotEvent(messages=[UserMessage(id="u1", content="x", name=None)]),
        RunFinishedEvent(thread_id="t", run_id="r"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_conforming_typed_event_passes_as_the_same_object(event: Event) -> None:
    warnings = WarningLog()
    assert Validator(warnings).feed(event) is event
    assert warnings.records() == []


def test_unknown_properties_of_a_typed_event_are_stripped_from_a_copy() -> None:
    warnings = WarningLog()
    event = TextMessageContentEvent.model_validate({**CONTENT, "futureProp": 1})
    left = Validator(warnings).feed(event)
    assert left == TextMessageContentEvent(message_id="m1", delta="x")
    assert event.__pydantic_extra__ == {"futureProp": 1}
    assert [w.path for w in warnings.records()] == ["/futureProp"]


def test_unknown_properties_inside_a_typed_event_are_stripped() -> None:
    event = MessagesSnapshotEvent.model_validate(snapshot(user({**TEXT, "x": 1})))
    warnings = WarningLog()
    assert Validator(warnings).feed(event) == MessagesSnapshotEvent.model_validate(snapshot(user(TEXT)))
    assert [w.path for w in warnings.records()] == ["/messages/0/content/0/x"]


@pytest.mark.requirement("PROC-6", "PROC-12")
@pytest.mark.parametrize(
    ("event", "path"),
    [
        (TextMessageContentEvent(message_id="m1", delta="x").model_copy(update={"delta": 5}), "/delta"),
        (TextMessageContentEvent.model_construct(message_id="m1"), "/delta"),
        (TextMessageContentEvent.model_construct(message_id=None, delta="x"), "/messageId"),
        (StateDeltaEvent.model_construct(delta=[{"op": "add", "path": "/a"}]), "/delta/0/value"),
        (MessagesSnapshotEvent(messages=[UserMessage.model_construct(id=5, content="x")]), "/messages/0/id"),
        (MessagesSnapshotEvent.model_construct(messages=[TextPart(text="x")]), "/messages/0"),
        (TextMessageContentEvent.model_construct(type=5, message_id="m1", delta="x"), "/type"),
        (RunStartedEvent.model_construct(thread_id="t", run_id=5), "/runId"),
        (RunFinishedEvent.model_construct(thread_id="t", run_id="r", outcome=""), "/outcome"),
        (TextMessageContentEvent.model_construct(type=EventType.RUN_STARTED, run_id="r"), "/threadId"),
    ],
)
def test_a_typed_event_with_a_malformed_value_is_fatal(event: Event, path: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        Validator(WarningLog()).feed(event)
    assert caught.value.path == path


@pytest.mark.requirement("PROC-18")
def test_an_unknown_role_of_a_typed_event_is_stripped() -> None:
    warnings = WarningLog()
    event = TextMessageStartEvent(message_id="m1").model_copy(update={"role": "narrator"})
    assert Validator(warnings).feed(event) == TextMessageStartEvent(message_id="m1")
    assert [w.rule for w in warnings.records()] == ["PROC-18"]


@pytest.mark.requirement("PROC-7")
def test_a_typed_event_of_an_unknown_type_is_dropped() -> None:
    warnings = WarningLog()
    event = TextMessageContentEvent.model_construct(type="FUTURE_EVENT", message_id="m1", delta="x")
    assert Validator(warnings).feed(event) is None
    assert [w.rule for w in warnings.records()] == ["PROC-7"]


def test_json_in_the_place_of_models_is_made_typed() -> None:
    event = MessagesSnapshotEvent.model_construct(messages=[user(TEXT)])
    left = Validator(WarningLog()).feed(event)
    assert left == MessagesSnapshotEvent.model_validate(snapshot(user(TEXT)))
    patch = StateDeltaEvent.model_construct(delta=[{"op": "remove", "path": "/a"}])
    assert Validator(WarningLog()).feed(patch) == StateDeltaEvent.model_validate(delta({"op": "remove", "path": "/a"}))


def test_a_whole_float_in_a_typed_event_becomes_an_integer() -> None:
    event = TextMessageContentEvent(message_id="m1", delta="x").model_copy(update={"timestamp": 5.0})
    left = Validator(WarningLog()).feed(event)
    assert left is not None
    assert isinstance(left.timestamp, int)


def test_an_event_of_an_application_s_own_class_becomes_one_of_the_protocol_s() -> None:
    class OwnEvent(TextMessageContentEvent):
        note: str = "n"

    warnings = WarningLog()
    left = Validator(warnings).feed(OwnEvent(message_id="m1", delta="x"))
    assert type(left) is TextMessageContentEvent
    assert [w.path for w in warnings.records()] == ["/note"]


@pytest.mark.parametrize("thing", [{"type": "RUN_STARTED"}, None, "data: {}"])
def test_what_is_no_event_at_all_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidEventError, match=r"yield the event classes of ag_ui\.core"):
        Validator(WarningLog()).feed(thing)


def test_what_json_cannot_hold_inside_the_models_of_a_typed_event_is_fatal() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    first = UserMessage(id="u1", content="x", metadata={"seen": {1, 2}, "score": float("nan")})
    with pytest.raises(InvalidEventError) as caught:
        Validator(WarningLog()).feed(MessagesSnapshotEvent(messages=[first], metadata=loop))
    assert caught.value.errors == [
        "/metadata contains itself, or is nested too deeply",
        "/messages/0/metadata/seen is of type set, which JSON cannot hold",
        "/messages/0/metadata/score is nan, which is not a JSON number",
    ]


# Whatever the protocol describes

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=3,
)
_POINTERS = st.sampled_from(["", "/a", "/a/0"])
_SCALARS: dict[str, st.SearchStrategy[Any]] = {"replace": st.booleans(), "path": _POINTERS, "from": _POINTERS}


def _values(shape: Shape, name: str = "") -> st.SearchStrategy[Any]:
    match shape:
        case ListSchema(item=item):
            return st.lists(_values(item), min_size=name == "interrupts", max_size=2)
        case TextOrItems(items=items):
            return st.text(max_size=3) | _values(items)
        case Variants(members=members):
            return st.one_of([_values(member) for member in members.values()])
        case ObjectSchema():
            return _objects(shape)
        case _:
            return _leaves(shape, name)


def _leaves(shape: Shape, name: str) -> st.SearchStrategy[Any]:
    match shape:
        case Anything():
            return _JSON
        case OpenObject():
            return st.dictionaries(st.text("ab", max_size=2), _JSON, max_size=2)
        case Integer():
            return st.integers(0, 2**53 - 1)
        case Pinned(value=value):
            return st.just(value)
        case ChoiceSchema(values=values):
            return st.sampled_from(sorted(values))
        case _:
            return _SCALARS.get(name, st.text(max_size=3))


def _objects(structure: ObjectSchema) -> st.SearchStrategy[Wire]:
    values = {
        wire: _values(slot.shape, wire) if slot.required else _values(slot.shape, wire).filter(lambda v: v is not None)
        for wire, slot in structure.slots.items()
    }
    required = {wire: value for wire, value in values.items() if structure.slots[wire].required}
    return st.fixed_dictionaries(required, optional={k: v for k, v in values.items() if k not in required})


def _has_repeated_interrupts(data: Wire) -> bool:
    interrupts = [interrupt["id"] for interrupt in data.get("outcome", {}).get("interrupts", [])]
    return len(interrupts) != len(set(interrupts))


_EVENTS = st.sampled_from(sorted(EVENT_MODELS)).flatmap(lambda name: _objects(record(EVENT_MODELS[name])))
_CONFORMING = _EVENTS.filter(lambda data: not _has_repeated_interrupts(data))


def _polluted(shape: Shape, value: Any) -> Any:
    """The value with an unknown property in every closed object and an unknown element in every list of variants."""
    match shape:
        case ObjectSchema(slots=slots, is_open=False):
            return {name: _polluted(slots[name].shape, member) for name, member in value.items()} | {"x-future": None}
        case Variants(discriminator=discriminator, members=members):
            return _polluted(members[value[discriminator]], value)
        case ListSchema(item=Variants(discriminator=discriminator) as item):
            return [*(_polluted(item, element) for element in value), {discriminator: "x-future"}]
        case ListSchema(item=item):
            return [_polluted(item, element) for element in value]
        case TextOrItems(items=items) if isinstance(value, list):
            return _polluted(items, value)
        case _:
            return value


@pytest.mark.requirement("PROC-15")
@given(_CONFORMING)
def test_a_conforming_event_passes_whole_and_unwarned(data: Wire) -> None:
    assert judged(data) == (data, [])


@pytest.mark.requirement("PROC-3", "PROC-9")
@given(_CONFORMING)
def test_what_is_unknown_goes_and_nothing_else(data: Wire) -> None:
    left, warnings = judged(_polluted(record(EVENT_MODELS[data["type"]]), data))
    assert left == data
    assert warnings


@pytest.mark.requirement("PROC-12")
@given(_CONFORMING)
def test_a_conforming_event_passes_typed_as_the_same_object(data: Wire) -> None:
    event: Event = TypeAdapter[Event](Event).validate_python(data)
    warnings = WarningLog()
    assert Validator(warnings).feed(event) is event
    assert warnings.records() == []


# Agents of this process


HALF = "\ud83d"


@pytest.mark.requirement("PROC-12", "SET-18")
@pytest.mark.parametrize(
    ("event", "mended"),
    [
        (TextMessageContentEvent(message_id="m1", delta=f"{HALF}a"), '{"delta":"\ufffda","messageId":"m1"}'),
        (TextMessageStartEvent(message_id=HALF), '{"messageId":"\ufffd"}'),
        (StateSnapshotEvent(snapshot={"a": [HALF], f"b{HALF}": 1}), '{"snapshot":{"a":["\ufffd"],"b\ufffd":1}}'),
        (CustomEvent(name="n", value={"a": HALF}), '{"name":"n","value":{"a":"\ufffd"}}'),
        (
            RunFinishedEvent(thread_id="t", run_id="r", result=[HALF]),
            '{"result":["\ufffd"],"runId":"r","threadId":"t"}',
        ),
        (
            TextMessageContentEvent(message_id="m1", delta="x", metadata={"a": HALF}),
            '{"delta":"x","messageId":"m1","metadata":{"a":"\ufffd"}}',
        ),
        (
            MessagesSnapshotEvent(messages=[UserMessage(id="u1", content=HALF)]),
            '{"messages":[{"content":"\ufffd","id":"u1","role":"user"}]}',
        ),
    ],
)
def test_half_of_a_character_is_replaced_with_a_warning_whatever_the_way_in(event: Event, mended: str) -> None:
    frame = json.dumps(event.model_dump(by_alias=True, exclude_none=True))
    for is_local in (True, False):
        warnings = WarningLog()
        fed = Validator(warnings).feed(event if is_local else Decoder(warnings).feed(frame))
        assert fed is not None
        left = fed.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"type"})
        assert json.dumps(left, sort_keys=True, ensure_ascii=False, separators=(",", ":")) == mended
        [warning] = warnings.records()
        assert (warning.rule, warning.reaction) == ("PROC-12", "replaced by U+FFFD")


@pytest.mark.requirement("PROC-6")
def test_what_json_cannot_hold_is_refused_in_a_state_of_an_agent_in_this_process() -> None:
    with pytest.raises(InvalidEventError, match="/snapshot/a is of type set, which JSON cannot hold"):
        Validator(WarningLog()).feed(StateSnapshotEvent(snapshot={"a": {1}}))


def test_whole_characters_and_numbers_of_an_agent_in_this_process_pass_as_they_are() -> None:
    for event in (
        TextMessageContentEvent(message_id="m1", delta="\N{GRINNING FACE}", timestamp=7),
        StateSnapshotEvent(snapshot={"a": [1, 2.5, None, "\N{GRINNING FACE}"]}, timestamp=7),
    ):
        assert Validator(WarningLog()).feed(event) is event


def test_a_large_state_of_an_agent_in_this_process_is_examined_by_compiled_code() -> None:
    event = StateSnapshotEvent(snapshot={"rows": [{"at": index, "text": "x"} for index in range(2_000)]})

    def cost(work: Callable[[], object]) -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    fed = min(cost(lambda: Validator(WarningLog()).feed(event)) for _ in range(5))
    assert fed < 0.8 * min(cost(lambda: members_as_json(event, [])) for _ in range(5))
