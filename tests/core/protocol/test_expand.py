"""Chunk expansion: what each chunk becomes, which event ends which lane, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from ag_ui.core import Event, EventType
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agui_client._core.protocol.expand import Expander
from agui_client._core.protocol.verify import Verifier
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import EventOrderError

Wire = dict[str, Any]

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_ALL_TYPES = {str(model.model_fields["type"].default.value) for model in get_args(get_args(Event)[0])}
_CHUNKS = {"TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "REASONING_MESSAGE_CHUNK"}

START: Wire = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISH: Wire = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
CUSTOM: Wire = {"type": "CUSTOM", "name": "n", "value": 1}
RAW: Wire = {"type": "RAW", "event": {}}


def text(message_id: str | None = None, delta: str | None = None, **fields: Any) -> Wire:
    return present(type="TEXT_MESSAGE_CHUNK", messageId=message_id, delta=delta, **fields)


def tool(call_id: str | None = None, name: str | None = None, delta: str | None = None, **fields: Any) -> Wire:
    return present(type="TOOL_CALL_CHUNK", toolCallId=call_id, toolCallName=name, delta=delta, **fields)


def reasoning(message_id: str | None = None, delta: str | None = None, **fields: Any) -> Wire:
    return present(type="REASONING_MESSAGE_CHUNK", messageId=message_id, delta=delta, **fields)


def text_start(message_id: str, **fields: Any) -> Wire:
    return {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant", **fields}


def content(message_id: str, delta: str, **fields: Any) -> Wire:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta, **fields}


def text_end(message_id: str, **fields: Any) -> Wire:
    return {"type": "TEXT_MESSAGE_END", "messageId": message_id, **fields}


def tool_start(call_id: str, name: str, **fields: Any) -> Wire:
    return {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name, **fields}


def args(call_id: str, delta: str, **fields: Any) -> Wire:
    return {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta, **fields}


def tool_end(call_id: str, **fields: Any) -> Wire:
    return {"type": "TOOL_CALL_END", "toolCallId": call_id, **fields}


def thought_start(message_id: str, **fields: Any) -> Wire:
    return {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning", **fields}


def thought(message_id: str, delta: str, **fields: Any) -> Wire:
    return {"type": "REASONING_MESSAGE_CONTENT", "messageId": message_id, "delta": delta, **fields}


def thought_end(message_id: str, **fields: Any) -> Wire:
    return {"type": "REASONING_MESSAGE_END", "messageId": message_id, **fields}


def present(**fields: Any) -> Wire:
    return {name: value for name, value in fields.items() if value is not None}


def typed(wire: Wire) -> Event:
    return _EVENT.validate_python(wire)


def expand(*stream: Wire) -> list[Wire]:
    """What the stream becomes, as wire objects with exactly the fields that were set."""
    expander = Expander(WarningLog())
    made = [event for wire in stream for event in expander.feed(typed(wire))]
    return [event.model_dump(mode="json", by_alias=True, exclude_unset=True) for event in made]


def verify(stream: list[Wire]) -> None:
    verifier = Verifier(WarningLog())
    for wire in stream:
        verifier.check(typed(wire))
    verifier.finish()


def refusal(*stream: Wire) -> EventOrderError:
    """Why the last event of the stream is refused, the others being accepted."""
    warnings = WarningLog()
    expander = Expander(warnings)
    for warnings.event_index, wire in enumerate(stream[:-1]):
        expander.feed(typed(wire))
    warnings.event_index = len(stream) - 1
    with pytest.raises(EventOrderError) as caught:
        expander.feed(typed(stream[-1]))
    assert str(caught.value).startswith(f"event {len(stream) - 1} ({stream[-1]['type']}): ")
    assert caught.value.event == typed(stream[-1])
    return caught.value


# What chunks become


@pytest.mark.requirement("CHUNK-1", "CHUNK-4", "STREAM-4")
def test_text_chunks_become_a_start_contents_and_an_end() -> None:
    made = expand(text("m1", "Hel"), text(None, "lo"), text("m1", "!"), FINISH)

    assert made == [
        text_start("m1"),
        content("m1", "Hel"),
        content("m1", "lo"),
        content("m1", "!"),
        text_end("m1"),
        FINISH,
    ]


@pytest.mark.requirement("CHUNK-1")
def test_what_the_first_text_chunk_says_about_the_message_is_on_its_start() -> None:
    made = expand(text("m1", "hi", role="user", name="Ada", subagentRunId="s1"))

    assert made == [
        text_start("m1", role="user", name="Ada", subagentRunId="s1"),
        content("m1", "hi", subagentRunId="s1"),
    ]


@pytest.mark.requirement("CHUNK-1")
def test_tool_call_chunks_become_a_start_arguments_and_an_end() -> None:
    made = expand(tool("c1", "look", '{"a"', parentMessageId="m0"), tool(None, None, ":1}"), CUSTOM)

    assert made == [
        tool_start("c1", "look", parentMessageId="m0"),
        args("c1", '{"a"'),
        args("c1", ":1}"),
        tool_end("c1"),
        CUSTOM,
    ]


@pytest.mark.requirement("CHUNK-1", "REASON-4")
def test_reasoning_chunks_become_a_start_contents_and_an_end() -> None:
    made = expand(reasoning("x", "so"), reasoning(None, " on"), FINISH)

    assert made == [thought_start("x"), thought("x", "so"), thought("x", " on"), thought_end("x"), FINISH]


@pytest.mark.parametrize(
    ("chunk", "made"),
    [
        (text("m1"), [text_start("m1")]),
        (tool("c1", "look"), [tool_start("c1", "look")]),
        (reasoning("x"), [thought_start("x")]),
        (text("m1", ""), [text_start("m1"), content("m1", "")]),
    ],
)
@pytest.mark.requirement("CHUNK-1", "STREAM-2")
def test_a_first_chunk_has_a_content_only_when_it_has_a_delta(chunk: Wire, made: list[Wire]) -> None:
    assert expand(chunk) == made


@pytest.mark.requirement("CHUNK-2", "CHUNK-4")
def test_an_empty_id_is_an_id_and_opens_an_item_of_its_own() -> None:
    made = expand(text("m1", "a"), text("", "b"))

    assert made == [text_start("m1"), content("m1", "a"), text_end("m1"), text_start(""), content("", "b")]


def test_an_event_that_is_no_chunk_passes_as_the_same_object() -> None:
    expander = Expander(WarningLog())
    event = typed(content("m1", "a"))

    (passed,) = expander.feed(event)

    assert passed is event


@pytest.mark.requirement("TRUNC-3")
def test_the_end_of_the_stream_ends_no_item() -> None:
    assert [made["type"] for made in expand(text("m1", "a"))] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]


# First chunks


@pytest.mark.parametrize(
    ("stream", "wording"),
    [
        ([text(None, "a")], "First TEXT_MESSAGE_CHUNK must have a messageId"),
        ([reasoning(None, "a")], "First REASONING_MESSAGE_CHUNK must have a messageId"),
        ([tool(None, "look", "a")], "First TOOL_CALL_CHUNK must have a toolCallId"),
        ([tool("c1", None, "a")], "First TOOL_CALL_CHUNK must have a toolCallName"),
        ([tool("c1", "look"), tool("c2", None, "a")], "First TOOL_CALL_CHUNK must have a toolCallName"),
        ([text("m1"), reasoning(None, "a")], "First REASONING_MESSAGE_CHUNK must have a messageId"),
        ([text("m1"), text(None, "a", subagentRunId="s1")], "First TEXT_MESSAGE_CHUNK must have a messageId"),
        ([text("m1"), CUSTOM, text(None, "a")], "First TEXT_MESSAGE_CHUNK must have a messageId"),
    ],
)
@pytest.mark.requirement("CHUNK-2")
def test_a_first_chunk_without_what_opens_the_item_is_rejected(stream: list[Wire], wording: str) -> None:
    error = refusal(*stream)

    assert error.rule == "CHUNK-2"
    assert wording in str(error)


# Lanes


@pytest.mark.requirement("CHUNK-3", "CHUNK-7")
def test_a_tool_chunk_ends_the_text_that_its_lane_was_assembling() -> None:
    made = expand(text("m1", "a"), tool("c1", "look"), reasoning("x"))

    assert made == [
        text_start("m1"),
        content("m1", "a"),
        text_end("m1"),
        tool_start("c1", "look"),
        tool_end("c1"),
        thought_start("x"),
    ]


@pytest.mark.requirement("CHUNK-4")
def test_a_chunk_with_another_id_ends_the_item_before_it() -> None:
    made = expand(text("m1", "a"), text("m2", "b"), text("m1", "c"))

    assert made == [
        text_start("m1"),
        content("m1", "a"),
        text_end("m1"),
        text_start("m2"),
        content("m2", "b"),
        text_end("m2"),
        text_start("m1"),
        content("m1", "c"),
    ]


@pytest.mark.requirement("CHUNK-3", "SUB-8")
def test_two_subagents_and_the_parent_assemble_side_by_side() -> None:
    made = expand(
        text("m1", "a", subagentRunId="s1"),
        text("m2", "b", subagentRunId="s2"),
        tool("c1", "look", "{"),
        text(None, "c", subagentRunId="s1"),
        text(None, "d", subagentRunId="s2"),
        tool(None, None, "}"),
    )

    assert made == [
        text_start("m1", subagentRunId="s1"),
        content("m1", "a", subagentRunId="s1"),
        text_start("m2", subagentRunId="s2"),
        content("m2", "b", subagentRunId="s2"),
        tool_start("c1", "look"),
        args("c1", "{"),
        content("m1", "c", subagentRunId="s1"),
        content("m2", "d", subagentRunId="s2"),
        args("c1", "}"),
    ]


@pytest.mark.requirement("CHUNK-5")
def test_a_chunk_without_id_and_tag_continues_the_parents_stream_first() -> None:
    made = expand(text("m1", subagentRunId="s1"), text("m2"), text("m3", subagentRunId="s2"), text(None, "a"))

    assert made[-1] == content("m2", "a")


@pytest.mark.requirement("CHUNK-5", "SUB-2")
def test_a_chunk_without_id_and_tag_continues_the_only_open_stream_of_its_kind() -> None:
    made = expand(text("m1", subagentRunId="s1"), tool("c1", "look"), text(None, "a"))

    assert made[-1] == content("m1", "a", subagentRunId="s1")


@pytest.mark.requirement("CHUNK-5")
def test_a_chunk_that_could_continue_two_subagents_is_rejected() -> None:
    error = refusal(text("m1", subagentRunId="s1"), text("m2", subagentRunId="s2"), text(None, "a"))

    assert error.rule == "CHUNK-5"
    assert "neither messageId nor subagentRunId" in str(error)
    assert "ambiguous" in str(error)


@pytest.mark.requirement("SUB-2")
def test_an_untagged_chunk_with_an_id_continues_the_subagent_that_holds_it() -> None:
    made = expand(text("m1", subagentRunId="s1"), text("m2"), text("m1", "a"), text(None, "b"))

    assert made[-2:] == [content("m1", "a", subagentRunId="s1"), content("m2", "b")]


@pytest.mark.parametrize(
    ("opener", "chunk", "item"),
    [
        (text("m1", subagentRunId="s1"), text("m1", "a", subagentRunId="s2"), "text message 'm1'"),
        (text("m1"), text("m1", "a", subagentRunId="s1"), "text message 'm1'"),
        (tool("c1", "look", subagentRunId="s1"), tool("c1", None, "a", subagentRunId="s2"), "tool call 'c1'"),
        (reasoning("x", subagentRunId="s1"), reasoning("x", subagentRunId="s2"), "reasoning message 'x'"),
    ],
)
@pytest.mark.requirement("CHUNK-6", "SUB-3")
def test_a_chunk_tagged_with_another_owner_than_its_item_is_rejected(opener: Wire, chunk: Wire, item: str) -> None:
    error = refusal(opener, chunk)

    assert error.rule == "SUB-3"
    assert f"does not match the owner of {item}" in str(error)


# Repeats


@pytest.mark.parametrize(
    ("opener", "chunk", "wording"),
    [
        (
            text("m1", role="user"),
            text("m1", "a", role="assistant"),
            "chunk role 'assistant' does not match the open stream's role",
        ),
        (text("m1"), text("m1", "a", role="user"), "text message 'm1' was opened with 'assistant'"),
        (text("m1"), text(None, None, name="Ada"), "text message 'm1' was opened without a name"),
        (tool("c1", "look"), tool(None, "find"), "toolCallName 'find' does not match the open stream's toolCallName"),
        (tool("c1", "look"), tool("c1", None, "a", parentMessageId="m1"), "opened without a parentMessageId"),
        (tool("c1", "look", parentMessageId="m1"), tool(None, parentMessageId="m2"), "was opened with 'm1'"),
    ],
)
@pytest.mark.requirement("CHUNK-6")
def test_a_repeat_that_contradicts_the_opener_is_rejected(opener: Wire, chunk: Wire, wording: str) -> None:
    error = refusal(opener, chunk)

    assert error.rule == "CHUNK-6"
    assert wording in str(error)


@pytest.mark.parametrize(
    ("opener", "chunk", "made"),
    [
        (text("m1"), text("m1", "a", role="assistant"), content("m1", "a")),
        (text("m1", role="user", name="Ada"), text(None, "a", role="user", name="Ada"), content("m1", "a")),
        (
            tool("c1", "look", parentMessageId="m0"),
            tool("c1", "look", "a", parentMessageId="m0"),
            args("c1", "a"),
        ),
    ],
)
@pytest.mark.requirement("CHUNK-6")
def test_a_repeat_that_says_the_same_is_accepted(opener: Wire, chunk: Wire, made: Wire) -> None:
    assert expand(opener, chunk)[1:] == [made]


# What ends a lane

_OWN_LANE: list[Wire] = [
    text_start("m9"),
    content("m9", "a"),
    text_end("m9"),
    tool_start("c9", "look"),
    args("c9", "a"),
    tool_end("c9"),
    {"type": "TOOL_CALL_RESULT", "messageId": "m9", "toolCallId": "c9", "content": "a"},
    {"type": "STEP_STARTED", "stepName": "plan"},
    {"type": "STEP_FINISHED", "stepName": "plan"},
    {"type": "STATE_SNAPSHOT", "snapshot": {}},
    {"type": "STATE_DELTA", "delta": []},
    CUSTOM,
    {"type": "REASONING_START", "messageId": "x9"},
    {"type": "REASONING_END", "messageId": "x9"},
    thought_start("x9"),
    thought("x9", "a"),
    thought_end("x9"),
]
_EVERY_LANE: list[Wire] = [
    START,
    FINISH,
    {"type": "RUN_ERROR", "message": "no"},
    {"type": "MESSAGES_SNAPSHOT", "messages": []},
]
_SUBAGENT_ENDS: list[Wire] = [
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"},
    {"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "no"},
]
_ASIDES: list[Wire] = [
    RAW,
    {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "search", "content": {}},
    {"type": "ACTIVITY_DELTA", "messageId": "a1", "activityType": "search", "patch": []},
    {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m1", "encryptedValue": "?"},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s9", "name": "n"},
]


def by_type(wires: list[Wire]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("event", wires, ids=[wire["type"] for wire in wires])


def test_the_tables_of_these_tests_name_every_event_type_once() -> None:
    named = [wire["type"] for wire in (*_OWN_LANE, *_EVERY_LANE, *_SUBAGENT_ENDS, *_ASIDES)]

    assert sorted([*named, *_CHUNKS]) == sorted(_ALL_TYPES) == sorted(EventType)


@by_type(_OWN_LANE)
@pytest.mark.requirement("CHUNK-7")
def test_an_event_of_the_parent_ends_the_parents_chunk_stream_and_no_other(event: Wire) -> None:
    made = expand(text("m1"), text("m2", subagentRunId="s1"), event)

    assert made[2:] == [text_end("m1"), event]


@by_type(_OWN_LANE)
@pytest.mark.requirement("CHUNK-7")
def test_an_event_of_a_subagent_ends_that_subagents_chunk_stream_and_no_other(event: Wire) -> None:
    tagged = {**event, "subagentRunId": "s1"}
    made = expand(text("m1"), tool("c2", "look", subagentRunId="s1"), reasoning("x3", subagentRunId="s2"), tagged)

    assert made[3:] == [tool_end("c2", subagentRunId="s1"), tagged]


@by_type(_EVERY_LANE)
@pytest.mark.requirement("CHUNK-8")
def test_an_event_about_the_run_ends_every_chunk_stream_in_the_order_they_were_opened(event: Wire) -> None:
    made = expand(text("m2", subagentRunId="s1"), tool("c1", "look"), reasoning("x3", subagentRunId="s2"), event)

    ends = [text_end("m2", subagentRunId="s1"), tool_end("c1"), thought_end("x3", subagentRunId="s2")]
    assert made[3:] == [*ends, event]


@by_type(_SUBAGENT_ENDS)
@pytest.mark.requirement("CHUNK-8", "SUB-8")
def test_the_end_of_a_subagent_ends_its_own_chunk_stream_first(event: Wire) -> None:
    made = expand(text("m1"), text("m2", subagentRunId="s1"), text("m3", subagentRunId="s2"), event)

    assert made[3:] == [text_end("m2", subagentRunId="s1"), event]


@by_type(_ASIDES)
@pytest.mark.requirement("CHUNK-9", "REASON-8")
def test_an_event_that_stands_aside_ends_nothing(event: Wire) -> None:
    made = expand(text("m1", "a"), event, text(None, "b"))

    assert made[2:] == [event, content("m1", "b")]


@pytest.mark.requirement("CHUNK-12", "SET-4")
def test_an_untagged_continuation_of_a_subagents_message_ends_the_parents_chunk_stream() -> None:
    explicit = text_start("m2", subagentRunId="s1")
    made = expand(explicit, text("m1"), text("m3", subagentRunId="s1"), content("m2", "a"))

    assert made[3:] == [text_end("m1"), content("m2", "a")]


@pytest.mark.requirement("CHUNK-10")
def test_an_explicit_event_with_the_id_under_assembly_ends_it_even_without_the_tag() -> None:
    assert expand(text("m1", subagentRunId="s1"), content("m1", "a"))[1:] == [
        text_end("m1", subagentRunId="s1"),
        content("m1", "a"),
    ]
    assert expand(text("x", subagentRunId="s1"), thought_start("x"))[1:] == [thought_start("x")]


@pytest.mark.requirement("CHUNK-7", "CHUNK-12", "SET-20")
def test_the_result_of_a_call_in_another_lane_closes_nothing_there() -> None:
    result: Wire = {"type": "TOOL_CALL_RESULT", "messageId": "m9", "toolCallId": "c1", "content": "a"}
    of_another = {**result, "subagentRunId": "s2"}
    call, more = tool("c1", "look", "{", subagentRunId="s1"), tool("c1", None, "}", subagentRunId="s1")
    rest = args("c1", "}", subagentRunId="s1")

    assert expand(call, text("m1"), result, more)[3:] == [text_end("m1"), result, rest]
    assert expand(call, of_another, more)[2:] == [of_another, rest]
    assert expand(tool("c1", "look"), of_another, tool("c1", None, "}"))[1:] == [of_another, args("c1", "}")]
    assert expand(tool("c1", "look"), result)[1:] == [tool_end("c1"), result]


@pytest.mark.parametrize(
    "stream",
    [
        [text("m1", "a"), content("m1", "b")],
        [text("m1", "a", subagentRunId="s1"), content("m1", "b")],
        [text("m1", "a", subagentRunId="s1"), text_end("m1")],
        [text_start("m1"), text("m1", "a")],
        [tool("c1", "look"), args("c1", "{}")],
        [thought_start("x"), reasoning("x", "a")],
    ],
)
@pytest.mark.requirement("CHUNK-10", "PROC-4")
def test_the_two_forms_do_not_mix_in_one_item(stream: list[Wire]) -> None:
    made = expand(START, *stream)

    with pytest.raises(EventOrderError) as caught:
        verify(made)

    assert caught.value.rule in {"STREAM-1", "REASON-2"}


# What travels with a chunk


@pytest.mark.requirement("CHUNK-11", "META-1")
def test_what_a_chunk_carries_goes_to_the_events_made_of_it_and_never_to_the_end_before() -> None:
    made = expand(text("m1", "a"), text("m2", "b", metadata={"k": 1}, rawEvent={"p": 2}, timestamp=3))

    assert made[2:] == [
        text_end("m1"),
        text_start("m2", metadata={"k": 1}, timestamp=3),
        content("m2", "b", metadata={"k": 1}, rawEvent={"p": 2}, timestamp=3),
    ]


@pytest.mark.requirement("CHUNK-11", "META-1")
def test_what_a_later_chunk_carries_goes_to_its_content() -> None:
    made = expand(tool("c1", "look"), tool(None, None, "{}", metadata={"k": None}, rawEvent=0, timestamp=3))

    assert made[1:] == [args("c1", "{}", metadata={"k": None}, rawEvent=0, timestamp=3)]


@pytest.mark.parametrize("carried", [{"metadata": {"usage": 3}}, {"metadata": {}}, {"rawEvent": False}])
@pytest.mark.requirement("CHUNK-11", "META-1")
def test_a_later_chunk_with_nothing_but_metadata_becomes_an_empty_content(carried: Wire) -> None:
    assert expand(text("m1"), text(None, None, **carried))[1:] == [content("m1", "", **carried)]
    assert expand(tool("c1", "f"), tool("c1", None, None, **carried))[1:] == [args("c1", "", **carried)]
    assert expand(reasoning("x"), reasoning(None, None, **carried))[1:] == [thought("x", "", **carried)]


@pytest.mark.requirement("CHUNK-4")
def test_a_later_chunk_with_nothing_at_all_becomes_nothing() -> None:
    assert expand(text("m1", "a"), text("m1"), text(None, None, timestamp=3))[2:] == []


# Everything together

_OWNERS = [None, "s1", "s2"]


@st.composite
def mixed_streams(draw: st.DrawFn) -> list[Wire]:
    """Chunks of every kind in three lanes, each item of one owner, with events that end lanes or stand aside."""
    stream: list[Wire] = []
    for _ in range(draw(st.integers(0, 25))):
        owner = draw(st.sampled_from(_OWNERS))
        item_id = f"{owner}-{draw(st.integers(0, 1))}"
        delta = draw(st.sampled_from([None, "", "a", "bc"]))
        make = draw(st.sampled_from(["text", "tool", "reasoning", "custom", "raw", "snapshot"]))
        match make:
            case "text":
                stream.append(text(item_id, delta, subagentRunId=owner))
            case "tool":
                stream.append(tool(item_id, "look", delta, subagentRunId=owner))
            case "reasoning":
                stream.append(reasoning(item_id, delta, subagentRunId=owner))
            case "custom":
                stream.append(present(**CUSTOM, subagentRunId=owner))
            case "raw":
                stream.append(present(**RAW, subagentRunId=owner))
            case _:
                stream.append({"type": "MESSAGES_SNAPSHOT", "messages": []})
    return stream


def deltas(stream: list[Wire], id_field: str, *types: str) -> dict[str, str]:
    whole: dict[str, str] = {}
    for wire in stream:
        if wire["type"] in types:
            whole[wire[id_field]] = whole.get(wire[id_field], "") + wire.get("delta", "")
    return whole


@given(mixed_streams())
@pytest.mark.requirement("CHUNK-1", "PROC-4")
def test_what_chunks_become_passes_verification_and_loses_no_text(stream: list[Wire]) -> None:
    made = expand(START, *stream, FINISH)

    verify(made)
    for id_field, family, part in (("messageId", "TEXT_MESSAGE", "CONTENT"), ("toolCallId", "TOOL_CALL", "ARGS")):
        assert deltas(made, id_field, f"{family}_START", f"{family}_{part}") == deltas(
            stream, id_field, f"{family}_CHUNK"
        )


@pytest.mark.parametrize("owner", [{}, {"subagentRunId": "s"}])
@pytest.mark.parametrize(
    ("opener", "continued", "made"),
    [
        (text("m", "a"), text(delta="b"), content("m", "b")),
        (tool("c", "f"), tool("c", delta="b"), args("c", "b")),
        (reasoning("m"), reasoning("m", "b"), {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "b"}),
    ],
)
@pytest.mark.requirement("CHUNK-4")
def test_a_chunk_with_only_a_delta_makes_the_event_that_the_constructor_makes(
    opener: Wire, continued: Wire, made: Wire, owner: Wire
) -> None:
    expander = Expander(WarningLog())
    expander.feed(_EVENT.validate_python(opener | owner))
    (event,) = expander.feed(_EVENT.validate_python(continued | owner))
    expected = _EVENT.validate_python(made | owner)
    assert event == expected
    assert list(event.__dict__) == list(expected.__dict__)
    assert event.model_fields_set == expected.model_fields_set
    assert event.model_dump_json(by_alias=True) == expected.model_dump_json(by_alias=True)
    assert event.model_copy(update={"delta": "c"}) != event
