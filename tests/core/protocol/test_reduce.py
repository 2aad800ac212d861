"""What is streamed: the messages, calls, results, encrypted values and metadata that events make."""

from __future__ import annotations

from time import process_time

import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    Event,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessage,
    TextPart,
    ToolCallResultEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import Change, Reducer
from agui_client._core.protocol.placeholders import NO_RESULT, marked
from support.reduction import (
    IMAGE,
    activity,
    args,
    call,
    content,
    encrypted,
    end,
    event,
    reduced,
    result,
    search,
    snapshot,
    start,
    state_delta,
    thought,
    warned,
    wire,
)
from support.waiting import LIMIT


class TestTextMessages:
    @pytest.mark.requirement("STREAM-2")
    def test_deltas_join_in_arrival_order(self) -> None:
        reducer = reduced(start("m1"), content("m1", "Hello, "), content("m1", "world."), end("m1"))
        assert wire(reducer) == [{"id": "m1", "role": "assistant", "content": "Hello, world."}]
        assert warned(reducer) == []

    @pytest.mark.requirement("STREAM-2")
    def test_a_message_without_content_events_is_empty(self) -> None:
        assert reduced(start("m1"), end("m1")).messages == [AssistantMessage(id="m1", content="")]

    @pytest.mark.requirement("STREAM-3")
    def test_messages_and_calls_may_interleave(self) -> None:
        reducer = reduced(
            start("m1"), call("c1", "m1"), content("m1", "a"), start("m2"), args("c1", "{"), content("m2", "x"),
            args("c1", "}"), content("m1", "b"),
        )  # fmt: skip
        assert reducer.messages == [
            AssistantMessage(id="m1", content="ab", tool_calls=[search("c1", "{}")]),
            AssistantMessage(id="m2", content="x"),
        ]

    @pytest.mark.requirement("STREAM-4")
    @pytest.mark.parametrize("role", ["assistant", "developer", "system", "user"])
    def test_the_role_picks_the_message_type_and_the_name_its_speaker(self, role: str) -> None:
        reducer = reduced(start("m1", role=role, name="Ada"), content("m1", "Hi"))
        assert wire(reducer) == [{"id": "m1", "role": role, "name": "Ada", "content": "Hi"}]

    @pytest.mark.requirement("STREAM-5", "LIFE-13")
    def test_a_start_for_a_message_already_held_appends_and_its_established_values_stand(self) -> None:
        held = UserMessage(id="m1", content="A", name="Ada", subagent_run_id="s1")
        reducer = reduced(start("m1", role="assistant", name="Bob"), content("m1", "B"), end("m1"), messages=(held,))
        assert reducer.messages == [UserMessage(id="m1", content="AB", name="Ada", subagent_run_id="s1")]
        assert held.content == "A"

    def test_the_owner_of_a_message_is_that_of_its_start(self) -> None:
        assert wire(reduced(start("m1", subagentRunId="s1"))) == [
            {"id": "m1", "role": "assistant", "content": "", "subagentRunId": "s1"}
        ]

    def test_text_streamed_into_content_parts_is_one_more_text_part(self) -> None:
        held = UserMessage.model_validate({"id": "u1", "content": [IMAGE]})
        reducer = Reducer([held])
        reducer.feed(start("u1", role="user"))
        reducer.feed(content("u1", ""))
        assert reducer.messages[0].content == held.content
        reducer.feed(content("u1", "what is "))
        assert reducer.messages[0].content == [*held.content, TextPart(text="what is ")]
        reducer.feed(content("u1", "this?"))
        assert reducer.messages[0].content == [*held.content, TextPart(text="what is this?")]
        assert len(held.content) == 1

    @pytest.mark.requirement("SET-10")
    @pytest.mark.parametrize(
        "held",
        [ActivityMessage(id="x", activity_type="plan", content={}), ToolMessage(id="x", tool_call_id="c", content="r")],
    )
    def test_text_streamed_into_an_activity_or_tool_message_is_skipped_with_a_warning(self, held: Message) -> None:
        reducer = reduced(start("x"), content("x", "a"), end("x"), thought("CONTENT", "x", delta="b"), messages=(held,))
        assert reducer.messages == [held]
        assert warned(reducer)[:2] == [
            ("STREAM-5", f"TEXT_MESSAGE_START skipped: {held.role} message 'x' takes no text"),
            ("STREAM-5", f"TEXT_MESSAGE_CONTENT skipped: {held.role} message 'x' takes no text"),
        ]
        assert [warning.event_type for warning in reducer.warnings] == [
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "REASONING_MESSAGE_CONTENT",
        ]

    def test_text_under_the_id_of_a_reasoning_message_is_kept_there_with_a_warning(self) -> None:
        reducer = reduced(thought("START", "m", role="reasoning"), start("m"), content("m", "x"))
        assert reducer.messages == [ReasoningMessage(id="m", content="x")]
        assert warned(reducer) == [("STREAM-5", "TEXT_MESSAGE_START continues reasoning message 'm'; its role stands")]

    @pytest.mark.requirement("STREAM-5", "SET-29")
    def test_text_under_the_id_of_an_earlier_message_is_appended_and_another_role_is_warned_about(self) -> None:
        held = (UserMessage(id="u", content="Hi"), AssistantMessage(id="a", content="Hello"))
        reducer = reduced(start("u"), content("u", "!"), end("u"), start("a"), content("a", "!"), messages=held)
        assert [(each.role, each.content) for each in reducer.messages] == [("user", "Hi!"), ("assistant", "Hello!")]
        assert warned(reducer) == [("STREAM-5", "TEXT_MESSAGE_START continues user message 'u'; its role stands")]

    @pytest.mark.requirement("STREAM-1")
    @pytest.mark.parametrize(
        "orphan",
        [
            content("m", "x"),
            end("m"),
            thought("CONTENT", "m", delta="x"),
            thought("END", "m"),
            args("m", "x"),
            event("TOOL_CALL_END", toolCallId="m"),
        ],
        ids=lambda orphan: orphan.type.value,
    )
    def test_what_nothing_opened_is_skipped_with_a_warning(self, orphan: Event) -> None:
        reducer = Reducer()
        assert reducer.feed(orphan) is Change.NONE
        assert reducer.messages == []
        assert [(w.rule, w.event_type) for w in reducer.warnings] == [("STREAM-1", orphan.type.value)]

    @pytest.mark.requirement("CHUNK-1")
    @pytest.mark.parametrize("kind", ["TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE"])
    def test_a_chunk_is_not_reduced(self, kind: str) -> None:
        reducer = Reducer()
        assert reducer.feed(event(f"{kind}_CHUNK", messageId="m", toolCallId="c", toolCallName="t")) is Change.NONE
        assert (reducer.messages, warned(reducer)) == (
            [],
            [("CHUNK-1", f"{kind}_CHUNK skipped: expand chunks before they are reduced")],
        )


class TestToolCalls:
    @pytest.mark.requirement("TOOL-3")
    def test_a_call_goes_to_the_assistant_message_it_names(self) -> None:
        reducer = reduced(start("m1"), start("m2"), call("c1", "m1"), args("c1", '{"q":'), args("c1", "1}"))
        assert wire(reducer)[0] == {
            "id": "m1",
            "role": "assistant",
            "content": "",
            "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":1}'}}],
        }

    @pytest.mark.requirement("TOOL-3", "SET-2")
    def test_a_call_with_an_unknown_parent_makes_that_message_and_later_text_fills_it(self) -> None:
        reducer = reduced(call("c1", "m1", subagentRunId="s1"))
        made = {
            "id": "m1",
            "role": "assistant",
            "subagentRunId": "s1",
            "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": ""}}],
        }
        assert wire(reducer) == [made]
        reducer.feed(start("m1"))
        assert wire(reducer) == [made]
        reducer.feed(content("m1", "Looking"))
        assert wire(reducer) == [{**made, "content": "Looking"}]

    @pytest.mark.requirement("SET-2")
    @pytest.mark.parametrize("parent", [None, ""])
    def test_a_call_without_a_parent_gets_a_message_under_its_own_id(self, parent: str | None) -> None:
        assert reduced(call("c1", parent)).messages == [AssistantMessage(id="c1", tool_calls=[search("c1")])]

    @pytest.mark.requirement("SET-2")
    def test_a_call_that_names_another_kind_of_message_gets_a_message_under_its_own_id(self) -> None:
        user = UserMessage(id="u1", content="Hi")
        reducer = reduced(call("c1", "u1"), messages=(user,))
        assert reducer.messages == [user, AssistantMessage(id="c1", tool_calls=[search("c1")])]
        assert warned(reducer) == [
            ("TOOL-3", "TOOL_CALL_START names a user message as parent; the call gets one of its own")
        ]

    def test_a_call_without_a_parent_goes_to_an_assistant_message_that_has_its_id(self) -> None:
        assert reduced(start("c1"), call("c1")).messages == [
            AssistantMessage(id="c1", content="", tool_calls=[search("c1")])
        ]

    @pytest.mark.requirement("TOOL-4")
    def test_reopening_a_call_appends_to_its_arguments(self) -> None:
        ending = event("TOOL_CALL_END", toolCallId="c1")
        reducer = reduced(call("c1", "m1"), args("c1", "A"), ending, call("c1", "m2"), args("c1", "B"), ending)
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[search("c1", "AB")])]

    @pytest.mark.requirement("TOOL-4")
    def test_a_call_that_starts_again_with_whole_arguments_begins_them_anew(self) -> None:
        ending = event("TOOL_CALL_END", toolCallId="c1")
        once = [call("c1"), args("c1", '{"q": '), args("c1", '"a"}'), ending]
        again = [call("c1"), args("c1", '{"q": "b'), args("c1", '"}'), ending]
        assert reduced(*once, *once).tool_call("c1") == search("c1", '{"q": "a"}')
        reducer = reduced(*once, *again, *once, *again)
        assert reducer.tool_call("c1") == search("c1", '{"q": "b"}')
        assert reducer.arguments_size("c1") == len('{"q": "b"}')
        assert warned(reducer) == []

    @pytest.mark.parametrize(
        "arguments", ['{"q": "' + "x" * 1_000_000, "[" + "1," * 500_000, '{"q": "%s"}' % ("x" * 10**6)]
    )
    def test_a_call_that_starts_again_and_again_does_not_read_its_arguments_each_time(self, arguments: str) -> None:
        began = process_time()
        reducer = reduced(call("c1", "m1"), args("c1", arguments), *(call("c1", "m1") for _ in range(3000)))
        assert process_time() - began < LIMIT
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[search("c1", arguments)])]

    @pytest.mark.requirement("TOOL-4")
    def test_a_call_that_starts_again_without_arguments_keeps_those_it_had(self) -> None:
        ending = event("TOOL_CALL_END", toolCallId="c1")
        once = [call("c1"), args("c1", '{"q": "a"}'), ending]
        assert reduced(*once, call("c1"), args("c1", ""), ending).tool_call("c1") == search("c1", '{"q": "a"}')

    @pytest.mark.requirement("TOOL-4")
    def test_a_stored_call_that_is_streamed_again_begins_its_arguments_anew(self) -> None:
        stored = AssistantMessage(id="m1", tool_calls=[search("c1", '{"q": "a"}')])
        reducer = reduced(call("c1", "m1"), args("c1", '{"q": "a"}'), messages=(stored,))
        assert reducer.messages == [stored]

    @pytest.mark.requirement("TOOL-2")
    def test_arguments_that_are_no_json_are_kept_as_text(self) -> None:
        reducer = reduced(call("c1"), args("c1", '{"q": '), event("TOOL_CALL_END", toolCallId="c1"))
        assert reducer.tool_call("c1") == search("c1", '{"q": ')
        assert warned(reducer) == []

    @pytest.mark.requirement("TOOL-5", "SET-3")
    def test_a_result_stands_behind_its_call_and_the_results_already_there(self) -> None:
        reducer = reduced(
            call("c1", "m1"), call("c2", "m1"), start("m2"), result("r1", "c1"), result("r2", "c2"), result("r9", "c9")
        )
        assert [message.id for message in reducer.messages] == ["m1", "r1", "r2", "m2", "r9"]
        assert wire(reducer)[1] == {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "found"}
        assert warned(reducer) == []

    @pytest.mark.requirement("TOOL-5", "SET-24")
    def test_the_same_result_that_comes_twice_word_for_word_is_one_message(self) -> None:
        reducer = reduced(call("c1", "m1"), result("r1", "c1"), start("m2"), result("r2", "c1", metadata={"a": 1}))
        assert wire(reducer)[1:] == [
            {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "found", "metadata": {"a": 1}},
            {"id": "m2", "role": "assistant", "content": ""},
        ]
        other = reduced(
            call("c1", "m1"), call("c2", "m1"), result("r1", "c1"), result("r2", "c1", "none"), result("r3", "c2")
        )
        assert [message.id for message in other.messages] == ["m1", "r1", "r2", "r3"]

    @pytest.mark.requirement("TOOL-5")
    def test_a_result_that_the_application_gave_is_not_doubled_when_the_agent_restates_it(self) -> None:
        reducer = reduced(call("c1", "m1"))
        reducer.thread.insert_results([ToolMessage(id="mine", tool_call_id="c1", content="found")])
        reducer.feed(result("theirs", "c1"))
        assert [message.id for message in reducer.messages] == ["m1", "mine"]

    @pytest.mark.requirement("TOOL-5")
    def test_messages_behind_an_inserted_result_keep_growing_in_their_own_place(self) -> None:
        reducer = reduced(call("c1", "m1"), start("m2"), content("m2", "a"), start("m3"), result("r1", "c1"))
        reducer.feed(content("m2", "b"))
        reducer.feed(content("m3", "c"))
        assert reducer.messages[2:] == [AssistantMessage(id="m2", content="ab"), AssistantMessage(id="m3", content="c")]

    @pytest.mark.requirement("TOOL-6")
    def test_a_result_of_parts_keeps_its_shape(self) -> None:
        parts = [{"type": "text", "text": "two hits"}, IMAGE]
        assert wire(reduced(result("r1", "c1", parts, subagentRunId="s1", metadata={"k": 1}))) == [
            {
                "id": "r1",
                "role": "tool",
                "toolCallId": "c1",
                "content": parts,
                "subagentRunId": "s1",
                "metadata": {"k": 1},
            }
        ]

    def test_a_result_told_again_replaces_the_content_where_it_stands(self) -> None:
        reducer = reduced(call("c1", "m1"), result("r1", "c1"), start("m2"), result("r1", "c1", "corrected"))
        assert [message.id for message in reducer.messages] == ["m1", "r1", "m2"]
        assert reducer.message("r1") == ToolMessage(id="r1", tool_call_id="c1", content="corrected")

    @pytest.mark.parametrize("first", [start("x"), result("x", "c0")])
    def test_a_result_under_the_id_of_another_message_is_kept_beside_it_with_a_warning(self, first: Event) -> None:
        reducer = reduced(first, result("x", "c1"))
        assert reducer.messages[1:] == [ToolMessage(id="x", tool_call_id="c1", content="found")]
        assert [warning.rule for warning in reducer.warnings] == ["TOOL-5"]


class TestReasoning:
    @pytest.mark.requirement("REASON-4", "STREAM-2")
    def test_reasoning_is_a_message_of_its_own(self) -> None:
        reducer = reduced(
            event("REASONING_START", messageId="span"),
            thought("START", "r1", role="reasoning", subagentRunId="s1"),
            thought("CONTENT", "r1", delta="Let me "),
            thought("CONTENT", "r1", delta="see"),
            thought("END", "r1"),
            event("REASONING_END", messageId="span"),
        )
        assert wire(reducer) == [{"id": "r1", "role": "reasoning", "content": "Let me see", "subagentRunId": "s1"}]

    def test_a_reasoning_message_already_held_goes_on(self) -> None:
        held = ReasoningMessage(id="r1", content="a")
        reducer = reduced(
            thought("START", "r1", role="reasoning"), thought("CONTENT", "r1", delta="b"), messages=(held,)
        )
        assert reducer.messages == [ReasoningMessage(id="r1", content="ab")]
        assert warned(reducer) == []

    @pytest.mark.requirement("REASON-5", "REASON-6", "REASON-8")
    def test_an_encrypted_value_is_kept_on_the_message_or_the_call_it_names(self) -> None:
        reducer = reduced(
            start("x"), end("x"), call("x", "x"), encrypted("message", "x", "for the message"),
            encrypted("tool-call", "x", "for the call"),
        )  # fmt: skip
        assert reducer.messages == [
            AssistantMessage(
                id="x",
                content="",
                encrypted_value="for the message",
                tool_calls=[search("x", encrypted_value="for the call")],
            )
        ]

    @pytest.mark.requirement("REASON-7", "REASON-10", "SET-14")
    @pytest.mark.parametrize("subtype", ["message", "tool-call"])
    def test_an_encrypted_value_for_nothing_that_can_hold_it_is_skipped_without_showing_it(self, subtype: str) -> None:
        held = ActivityMessage(id="a1", activity_type="plan", content={})
        reducer = reduced(encrypted(subtype, "a1", "c2VjcmV0"), messages=(held,))
        assert reducer.messages == [held]
        assert warned(reducer) == [
            ("REASON-7", f"REASONING_ENCRYPTED_VALUE skipped: there is no {subtype} 'a1' to keep it on")
        ]


class TestMetadata:
    @pytest.mark.requirement("META-1", "META-2", "META-4")
    def test_metadata_of_all_events_of_a_message_merges_per_key_without_recursion(self) -> None:
        reducer = reduced(
            start("m1", metadata={"u": {"in": 1}, "a": 1, "n": 1}),
            content("m1", "x", metadata={"u": {"out": 2}}),
            end("m1", metadata={"a": 2, "n": None}),
        )
        assert reducer.messages[0].metadata == {"u": {"out": 2}, "a": 2, "n": None}

    @pytest.mark.requirement("META-3")
    def test_metadata_of_a_calls_events_is_the_calls_and_not_its_messages(self) -> None:
        reducer = reduced(
            call("c1", "m1", metadata={"a": 1, "b": 1}),
            args("c1", "{}", metadata={"b": 2}),
            event("TOOL_CALL_END", toolCallId="c1", metadata={"c": 3}),
            result("r1", "c1", metadata={"d": 4}),
        )
        assert reducer.messages == [
            AssistantMessage(id="m1", tool_calls=[search("c1", "{}", metadata={"a": 1, "b": 2, "c": 3})]),
            ToolMessage(id="r1", tool_call_id="c1", content="found", metadata={"d": 4}),
        ]

    @pytest.mark.requirement("META-3")
    def test_metadata_of_events_that_build_nothing_goes_nowhere(self) -> None:
        reducer = reduced(
            start("m1"),
            event("STATE_SNAPSHOT", snapshot={}, metadata={"k": 1}),
            event("REASONING_ENCRYPTED_VALUE", subtype="message", entityId="m1", encryptedValue="x", metadata={"k": 1}),
            event("RUN_FINISHED", threadId="t", runId="r", metadata={"k": 1}),
        )
        assert reducer.messages[0].metadata is None

    @pytest.mark.requirement("META-1")
    def test_metadata_merges_into_that_of_a_message_already_looked_at_without_changing_it(self) -> None:
        reducer = Reducer([AssistantMessage(id="m1", content="", metadata={"a": 1})])
        reducer.feed(content("m1", "x", metadata={"b": 2}))
        looked_at = reducer.messages[0]
        reducer.feed(content("m1", "y", metadata={"c": 3}))
        assert looked_at.metadata == {"a": 1, "b": 2}
        assert reducer.messages[0].metadata == {"a": 1, "b": 2, "c": 3}


class TestChanges:
    @pytest.mark.parametrize(
        ("fed", "change"),
        [
            (start("new"), Change.MESSAGES),
            (start("m1"), Change.NONE),
            (content("m1", "x"), Change.MESSAGES),
            (end("m1"), Change.NONE),
            (end("m1", metadata={"k": 1}), Change.MESSAGES),
            (call("c2"), Change.MESSAGES),
            (call("c1"), Change.NONE),
            (args("c1", "x"), Change.MESSAGES),
            (event("TOOL_CALL_END", toolCallId="c1"), Change.NONE),
            (result("r1", "c1"), Change.MESSAGES),
            (encrypted("tool-call", "c1"), Change.MESSAGES),
            (activity("a1", {}), Change.MESSAGES),
            (state_delta(), Change.STATE),
            (event("STATE_SNAPSHOT", snapshot=None), Change.STATE),
            (snapshot(), Change.MESSAGES),
            (event("RUN_STARTED", threadId="t", runId="r"), Change.NONE),
            (event("RUN_FINISHED", threadId="t", runId="r"), Change.NONE),
            (event("RUN_ERROR", message="no"), Change.NONE),
            (event("STEP_STARTED", stepName="s"), Change.NONE),
            (event("REASONING_START", messageId="m1"), Change.NONE),
            (event("RAW", event={}), Change.NONE),
            (event("CUSTOM", name="n", value=None), Change.NONE),
            (event("SUBAGENT_STARTED", subagentRunId="s", name="n"), Change.NONE),
        ],
        ids=lambda value: value.type.value if not isinstance(value, Change) else value.name,
    )
    def test_feed_says_what_an_event_touched(self, fed: Event, change: Change) -> None:
        reducer = Reducer([AssistantMessage(id="m1", content="", tool_calls=[search("c1")])])
        assert reducer.feed(fed) is change
        assert warned(reducer) == []


@pytest.mark.requirement("TOOL-3", "TOOL-5")
def test_a_result_under_the_id_that_the_client_chose_for_the_message_of_its_call_keeps_that_id() -> None:
    reducer = reduced(call("c1", None), args("c1", "{}"), result("c1", "c1"))
    asked, answered = reducer.messages
    assert answered == ToolMessage(id="c1", tool_call_id="c1", content="found")
    assert asked == AssistantMessage(id=asked.id, tool_calls=[search("c1", "{}")])
    assert asked.id != "c1"
    assert (reducer.message(asked.id), reducer.message("c1")) == (asked, answered)
    assert warned(reducer) == []


def test_a_placeholder_is_an_error_and_gives_way_to_a_result() -> None:
    said = ToolCallResultEvent(message_id="r1", tool_call_id="c1", content=NO_RESULT, metadata=marked())
    reducer = reduced(call("c1", None), args("c1", "{}"), said)
    placeholder = ToolMessage(id="r1", tool_call_id="c1", content=NO_RESULT, error=NO_RESULT, metadata=marked())
    assert reducer.messages[1:] == [placeholder]
    # A server that leaves metadata out of its snapshots takes nothing back.
    plain = placeholder.model_copy(update={"metadata": None})
    reducer.feed(MessagesSnapshotEvent(messages=[reducer.messages[0], plain]))
    assert reducer.messages[1:] == [placeholder]
    for message_id in ("r1", "late"):
        late = reduced(call("c1", None), args("c1", "{}"), said, result(message_id, "c1", "found"))
        assert late.messages[1:] == [ToolMessage(id=message_id, tool_call_id="c1", content="found")]


def test_a_result_is_no_placeholder_by_its_words() -> None:
    reducer = reduced(call("c1", None), args("c1", "{}"), result("r1", "c1", NO_RESULT), result("r2", "c1", "found"))
    assert [each.content for each in reducer.messages[1:] if isinstance(each, ToolMessage)] == [NO_RESULT, "found"]


@pytest.mark.requirement("TOOL-5")
def test_results_that_come_in_any_order_stand_in_the_order_of_their_calls() -> None:
    reducer = reduced(start("m1"), call("c1", "m1"), call("c2", "m1"), call("c3", "m1"))
    reducer.thread.insert_results([ToolMessage(id=each, tool_call_id=each, content=each) for each in ("c3", "c1")])
    reducer.thread.insert_results([ToolMessage(id="c2", tool_call_id="c2", content="c2")])
    assert [message.id for message in reducer.messages] == ["m1", "c1", "c2", "c3"]


@pytest.mark.requirement("STATE-5", "TOOL-5")
def test_a_result_follows_its_call_to_the_message_that_a_snapshot_has_it_on() -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    restated = [
        {"id": "renamed", "role": "assistant", "toolCalls": [made]},
        {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "found"},
        {"id": "m2", "role": "assistant", "content": "There."},
    ]
    reducer = reduced(call("c1", "m1"), result("r1", "c1"), start("m2"), event("MESSAGES_SNAPSHOT", messages=restated))
    assert [message.id for message in reducer.messages] == ["m2", "renamed", "r1"]
