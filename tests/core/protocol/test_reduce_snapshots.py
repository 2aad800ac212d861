"""What is replaced and patched: state, the conversation as a whole, activity messages."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import ActivityMessage, AssistantMessage, ReasoningMessage, ToolMessage, UserMessage

from agui_client import Change, Reducer
from support.reduction import (
    Wire,
    activity,
    activity_delta,
    args,
    call,
    calls_of,
    content,
    encrypted,
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


def _said(message_id: str) -> AssistantMessage:
    return AssistantMessage(id=message_id, content="Said")


class TestState:
    @pytest.mark.requirement("STATE-1")
    def test_state_is_an_empty_object_unless_given_and_null_is_a_state(self) -> None:
        assert Reducer().state == {}
        assert Reducer(state=None).state is None

    @pytest.mark.requirement("STATE-1")
    def test_later_runs_go_on_from_the_state_of_earlier_ones(self) -> None:
        reducer = reduced(
            event("RUN_STARTED", threadId="t", runId="1"),
            state_delta({"op": "add", "path": "/a", "value": 1}),
            event("RUN_FINISHED", threadId="t", runId="1"),
            event("RUN_STARTED", threadId="t", runId="2"),
            state_delta({"op": "add", "path": "/b", "value": 2}),
        )
        assert reducer.state == {"a": 1, "b": 2}

    @pytest.mark.requirement("STATE-2", "SNAP-1")
    @pytest.mark.parametrize("value", [None, 0, False, "", [], {}, {"b": 1}])
    def test_a_snapshot_replaces_the_state_by_any_json(self, value: Any) -> None:
        reducer = Reducer(state={"a": 1})
        assert reducer.feed(event("STATE_SNAPSHOT", snapshot=value)) is Change.STATE
        assert reducer.state == value

    @pytest.mark.requirement("STATE-3")
    def test_the_state_events_of_a_subagent_change_the_one_state(self) -> None:
        tagged = state_delta({"op": "add", "path": "/a", "value": 1}, subagentRunId="s1")
        assert reduced(tagged, state={"b": 2}).state == {"a": 1, "b": 2}

    @pytest.mark.requirement("SNAP-2")
    def test_operations_apply_in_order(self) -> None:
        reducer = reduced(
            state_delta(
                {"op": "add", "path": "/plan", "value": []},
                {"op": "add", "path": "/plan/-", "value": "a"},
                {"op": "move", "from": "/plan/0", "path": "/first"},
            )
        )
        assert reducer.state == {"plan": [], "first": "a"}

    @pytest.mark.requirement("SNAP-5", "SNAP-6")
    def test_a_patch_that_fails_is_warned_about_and_the_next_snapshot_adopted(self) -> None:
        reducer = Reducer(state={"secret": 1})
        failing = state_delta({"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/zz"})
        assert reducer.feed(failing) is Change.NONE
        assert reducer.state == {"secret": 1}
        (warning,) = reducer.warnings
        assert (warning.rule, warning.path, warning.event_type) == ("SNAP-5", "/delta", "STATE_DELTA")
        assert warning.message == (
            "Failed to apply state patch: operation 1 (remove '/zz'): the path fits nothing in the current value; "
            "nothing was changed"
        )
        reducer.feed(event("STATE_SNAPSHOT", snapshot={"b": 2}))
        assert reducer.state == {"b": 2}

    def test_set_state_takes_any_value_and_does_not_change_it(self) -> None:
        mine = {"a": {"b": 1}}
        reducer = Reducer()
        reducer.set_state(mine)
        reducer.feed(state_delta({"op": "replace", "path": "/a/b", "value": 2}))
        assert (reducer.state, mine) == ({"a": {"b": 2}}, {"a": {"b": 1}})


class TestMessagesSnapshot:
    @pytest.mark.requirement("STATE-5", "STATE-6", "STATE-7")
    def test_known_messages_are_replaced_in_place_unseen_ones_appended_and_others_dropped(self) -> None:
        u1, u1b = UserMessage(id="u1", content="a"), UserMessage(id="u1", content="b")
        r1 = ReasoningMessage(id="r1", content="hm")
        a1, a9 = (ActivityMessage(id=i, activity_type="plan", content={}) for i in ("a1", "a9"))
        x1, x2 = AssistantMessage(id="x1", content="x"), AssistantMessage(id="x2", content="y")
        reducer = Reducer([u1, r1, a1, x1])
        assert reducer.feed(snapshot(x2, u1b)) is Change.MESSAGES
        assert reducer.messages == [u1b, r1, a1, x2]
        reducer.feed(snapshot(u1, a9))
        assert reducer.messages == [u1, r1, a9]
        assert warned(reducer) == []

    @pytest.mark.requirement("STATE-7")
    def test_a_snapshot_with_reasoning_is_the_full_set_of_it_and_says_nothing_of_activities(self) -> None:
        r1, r2 = ReasoningMessage(id="r1", content="1"), ReasoningMessage(id="r2", content="2")
        a1 = ActivityMessage(id="a1", activity_type="plan", content={})
        assert reduced(snapshot(r2), messages=(r1, a1)).messages == [a1, r2]

    @pytest.mark.requirement("STATE-5", "SET-9")
    def test_of_one_id_twice_the_last_message_counts_in_the_first_place(self) -> None:
        a, b, a2 = (AssistantMessage(id=i, content=c) for i, c in (("a", "1"), ("b", "2"), ("a", "3")))
        reducer = reduced(snapshot(a, b, a2))
        assert reducer.messages == [a2, b]
        assert warned(reducer) == [
            ("STATE-5", "MESSAGES_SNAPSHOT has several messages with one id; the last of them counts")
        ]

    @pytest.mark.requirement("STATE-8")
    def test_a_restated_message_is_replaced_whole_with_owner_encrypted_value_and_calls(self) -> None:
        reducer = reduced(
            start("m1", subagentRunId="s1", metadata={"k": 1}), call("c1", "m1"), encrypted("message", "m1"),
            snapshot(AssistantMessage(id="m1", content="anew", subagent_run_id="s2")),
        )  # fmt: skip
        assert wire(reducer) == [{"id": "m1", "role": "assistant", "content": "anew", "subagentRunId": "s2"}]
        assert reducer.tool_call("c1") is None

    @pytest.mark.requirement("STREAM-5")
    def test_a_result_under_a_new_id_stands_behind_its_call(self) -> None:
        asked = AssistantMessage(id="m1", tool_calls=[search("c1"), search("c2")])
        mine = [ToolMessage(id=f"mine-{each}", tool_call_id=each, content="found") for each in ("c1", "c2")]
        theirs = [ToolMessage(id=f"theirs-{each}", tool_call_id=each, content="found") for each in ("c1", "c2")]
        answer, more = AssistantMessage(id="m2", content="Done."), AssistantMessage(id="m3", tool_calls=[search("c3")])
        late = ToolMessage(id="late", tool_call_id="c3", content="found")
        stray = ToolMessage(id="stray", tool_call_id="c9", content="found")
        reducer = reduced(snapshot(asked, *theirs, answer, stray, more, late), messages=(asked, *mine, answer))
        assert reducer.messages == [asked, *theirs, answer, stray, more, late]
        assert reduced(snapshot(asked, answer, *theirs), messages=(asked, *mine, answer)).messages == [
            asked,
            *theirs,
            answer,
        ]

    @pytest.mark.requirement("STATE-5")
    def test_of_messages_with_one_id_the_first_is_restated_and_the_others_are_dropped(self) -> None:
        reducer = Reducer([UserMessage(id="x", content="1"), UserMessage(id="y", content=""), *[_said("x")] * 2])
        reducer.feed(snapshot(UserMessage(id="x", content="2")))
        assert reducer.messages == [UserMessage(id="x", content="2")]
        reducer.feed(content("x", "!"))
        assert reducer.text_of("x") == "2!"

    def test_after_a_message_is_dropped_the_next_with_its_call_is_found(self) -> None:
        calls = [AssistantMessage(id=each, tool_calls=[search("c1", "{}")]) for each in ("a", "b")]
        reducer = Reducer(calls)
        reducer.feed(snapshot(calls[1]))
        assert reducer.messages == [calls[1]]
        reducer.feed(args("c1", "1"))
        assert reducer.tool_call("c1") == search("c1", "{}1")

    @pytest.mark.parametrize("first", [True, False])
    def test_a_call_that_a_snapshot_gives_another_message_is_found_there(self, first: bool) -> None:
        made, other = AssistantMessage(id="a", tool_calls=[search("c1", "{}")]), AssistantMessage(id="b")
        reducer = Reducer([made, other] if first else [other, made])
        reducer.feed(snapshot(other.model_copy(update={"id": "a"}), made.model_copy(update={"id": "b"})))
        reducer.feed(args("c1", "1"))
        assert reducer.message("b") == AssistantMessage(id="b", tool_calls=[search("c1", "{}1")])

    def test_a_result_stands_behind_its_call_after_the_last_result_was_dropped(self) -> None:
        made = AssistantMessage(id="a", tool_calls=[search("c1"), search("c2")])
        reducer = reduced(result("r1", "c1"), result("r2", "c2"), messages=(made, _said("z")))
        reducer.feed(snapshot(made, _said("z")))
        reducer.feed(result("r3", "c1"))
        assert [message.id for message in reducer.messages] == ["a", "r3", "z"]

    @pytest.mark.parametrize("kind", ["activity", "reasoning"])
    def test_a_snapshot_costs_the_same_however_many_messages_it_is_silent_about(self, kind: str) -> None:
        def steps(size: int) -> int:
            begin = activity("a", {}) if kind == "activity" else thought("START", "a", role="reasoning")
            reducer = reduced(*(begin.model_copy(update={"message_id": str(index)}) for index in range(size)))
            return calls_of(lambda: reducer.feed(snapshot(UserMessage(id="u", content="Hi"))))

        assert steps(2000) == steps(20)

    def test_a_message_restated_while_it_is_open_goes_on_from_the_restated_text(self) -> None:
        restated = AssistantMessage(id="m1", content="AB", tool_calls=[search("c1", "{")])
        reducer = reduced(start("m1"), content("m1", "A"), snapshot(restated), content("m1", "C"), args("c1", "}"))
        assert reducer.messages == [AssistantMessage(id="m1", content="ABC", tool_calls=[search("c1", "{}")])]

    @pytest.mark.requirement("LIFE-14")
    def test_echoed_messages_that_are_not_held_are_appended_in_order(self) -> None:
        held = UserMessage(id="u1", content="mine")
        echo = [{"id": i, "role": "user", "content": i} for i in ("u2", "u1", "u3", "u3")]
        echoing = event("RUN_STARTED", threadId="t", runId="r", input={"threadId": "t", "runId": "r", "messages": echo})
        reducer = Reducer([held])
        assert reducer.feed(echoing) is Change.MESSAGES
        assert reducer.messages == [held, UserMessage(id="u2", content="u2"), UserMessage(id="u3", content="u3")]
        assert reducer.feed(echoing) is Change.NONE

    @pytest.mark.requirement("LIFE-14", "TOOL-5")
    def test_an_echoed_result_stands_behind_its_call(self) -> None:
        echo = [{"id": "r1", "role": "tool", "toolCallId": "c1", "content": "found"}]
        echoing = event("RUN_STARTED", threadId="t", runId="r", input={"threadId": "t", "runId": "r", "messages": echo})
        reducer = reduced(start("m1"), call("c1", "m1"), start("m2"), echoing)
        assert [message.id for message in reducer.messages] == ["m1", "r1", "m2"]


class TestActivities:
    @pytest.mark.requirement("ACT-1", "ACT-2")
    def test_a_snapshot_with_a_new_id_makes_an_activity_where_it_arrived(self) -> None:
        seen = activity("a1", {"n": 1}, activityType="x.made-up", replace=False, subagentRunId="s1", metadata={"k": 1})
        reducer = reduced(start("m1"), seen, start("m2"))
        assert wire(reducer)[1] == {
            "id": "a1",
            "role": "activity",
            "activityType": "x.made-up",
            "content": {"n": 1},
            "subagentRunId": "s1",
            "metadata": {"k": 1},
        }
        assert [message.id for message in reducer.messages] == ["m1", "a1", "m2"]

    @pytest.mark.requirement("ACT-3")
    @pytest.mark.parametrize("replace", [{}, {"replace": True}])
    def test_a_snapshot_on_a_known_id_replaces_all_but_the_metadata(self, replace: Wire) -> None:
        reducer = reduced(
            activity("a1", {"n": 1}, subagentRunId="s1", metadata={"k": 1, "l": 1}),
            activity("a1", {"m": 2}, activityType="other", metadata={"l": 2}, **replace),
        )
        assert wire(reducer) == [
            {
                "id": "a1",
                "role": "activity",
                "activityType": "other",
                "content": {"m": 2},
                "metadata": {"k": 1, "l": 2},
            }
        ]
        assert "subagent_run_id" not in reducer.messages[0].model_fields_set

    @pytest.mark.requirement("ACT-4", "ACT-7")
    def test_replace_false_leaves_content_type_and_owner_and_merges_metadata(self) -> None:
        reducer = Reducer()
        reducer.feed(activity("a1", {"n": 1}))
        ignored = {"activityType": "other", "subagentRunId": "s1", "replace": False}
        assert reducer.feed(activity("a1", {"m": 2}, **ignored)) is Change.NONE
        assert reducer.feed(activity("a1", {"m": 2}, **ignored, metadata={"k": 1})) is Change.MESSAGES
        assert reducer.messages == [ActivityMessage(id="a1", activity_type="plan", content={"n": 1}, metadata={"k": 1})]

    @pytest.mark.requirement("ACT-5")
    def test_a_delta_patches_the_content_and_sets_the_type(self) -> None:
        reducer = reduced(
            activity("a1", {"n": 1, "steps": []}),
            activity_delta("a1", {"op": "add", "path": "/steps/-", "value": "x"}, activityType="other"),
            activity_delta("a1", {"op": "replace", "path": "/n", "value": 2}, activityType="third", metadata={"k": 1}),
        )
        assert reducer.messages == [
            ActivityMessage(id="a1", activity_type="third", content={"n": 2, "steps": ["x"]}, metadata={"k": 1})
        ]

    @pytest.mark.requirement("ACT-6", "SET-14")
    @pytest.mark.parametrize("message_id", ["missing", "m1"])
    def test_a_delta_for_what_is_no_activity_is_skipped_with_a_warning(self, message_id: str) -> None:
        reducer = Reducer([AssistantMessage(id="m1", content="x")])
        assert reducer.feed(activity_delta(message_id)) is Change.NONE
        assert reducer.messages == [AssistantMessage(id="m1", content="x")]
        assert warned(reducer) == [("ACT-6", f"ACTIVITY_DELTA skipped: there is no activity message {message_id!r}")]

    @pytest.mark.requirement("ACT-7", "SNAP-5")
    @pytest.mark.parametrize(
        ("operation", "reason"),
        [
            (
                {"op": "test", "path": "/n", "value": 5},
                "operation 0 (test '/n'): the value there is not the tested one",
            ),
            (
                {"op": "replace", "path": "", "value": [1]},
                "operation 0 (replace ''): the result would not be an object",
            ),
        ],
    )
    def test_a_patch_that_fails_or_leaves_no_object_is_warned_about_and_metadata_merges(
        self, operation: Wire, reason: str
    ) -> None:
        reducer = reduced(
            activity("a1", {"n": 1}), activity_delta("a1", operation, activityType="other", metadata={"k": 1})
        )
        assert reducer.messages == [ActivityMessage(id="a1", activity_type="plan", content={"n": 1}, metadata={"k": 1})]
        assert warned(reducer) == [("SNAP-5", f"Failed to apply activity patch to 'a1': {reason}; nothing was changed")]
        assert reducer.warnings[0].path == "/patch"

    def test_replacing_an_activity_costs_the_same_however_many_calls_there_are(self) -> None:
        def steps(size: int) -> int:
            reducer = reduced(activity("a", {}), *(call(str(index)) for index in range(size)))
            return calls_of(lambda: reducer.feed(activity("a", {"n": 1})))

        assert steps(500) == steps(5)

    def test_a_snapshot_under_the_id_of_another_message_replaces_it_with_a_warning(self) -> None:
        reducer = reduced(start("x", metadata={"k": 1}), call("c1", "x"), content("x", "gone"), activity("x", {"n": 1}))
        assert reducer.messages == [ActivityMessage(id="x", activity_type="plan", content={"n": 1})]
        assert reducer.tool_call("c1") is None
        assert warned(reducer) == [("ACT-3", "ACTIVITY_SNAPSHOT replaces assistant message 'x'")]

    def test_a_snapshot_with_replace_false_under_the_id_of_another_message_is_skipped_with_a_warning(self) -> None:
        reducer = reduced(start("x"), activity("x", {"n": 1}, replace=False, metadata={"k": 1}))
        assert reducer.messages == [AssistantMessage(id="x", content="")]
        assert warned(reducer) == [("ACT-4", "ACTIVITY_SNAPSHOT skipped: 'x' is not an activity message")]
