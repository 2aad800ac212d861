"""Looking: what has been handed out never changes, and looking changes nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    Event,
    Message,
    ReasoningMessage,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

from agui_client import Reducer
from agui_client._core.protocol import message_index
from agui_client._core.protocol.warnings import WarningLog
from support.proportion import GROWING, Growing, Ids, equal, other, stream
from support.reduction import (
    IMAGE,
    Wire,
    activity,
    activity_delta,
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
    wire,
)


class TestLooking:
    def test_a_call_that_is_not_there_has_no_arguments(self) -> None:
        reducer = reduced(call("c1"), args("c1", "{}"))
        assert [reducer.arguments_size(each) for each in ("c1", "c2")] == [2, 0]

    def test_a_message_is_the_same_object_until_its_next_delta(self) -> None:
        reducer = reduced(start("m1"), content("m1", "a"), start("m2"))
        first, second = reducer.messages
        assert reducer.messages is not reducer.messages
        reducer.feed(content("m2", "b"))
        seen = reducer.message("m2")
        assert seen == AssistantMessage(id="m2", content="b")
        assert seen is not second
        assert reducer.messages[0] is first
        assert reducer.messages[1] is seen

    def test_one_message_and_one_call_can_be_looked_at_alone(self) -> None:
        reducer = reduced(start("m1"), content("m1", "a"), call("c1", "m1"), args("c1", "{"))
        assert reducer.tool_call("c1") == search("c1", "{")
        assert reducer.message("m1") == AssistantMessage(id="m1", content="a", tool_calls=[search("c1", "{")])
        reducer.feed(args("c1", "}"))
        assert reducer.tool_call("c1") == search("c1", "{}")
        assert reducer.messages == [AssistantMessage(id="m1", content="a", tool_calls=[search("c1", "{}")])]
        assert (reducer.message("other"), reducer.tool_call("other")) == (None, None)

    def test_the_text_of_any_message_can_be_looked_at_alone(self) -> None:
        parts = UserMessage.model_validate({"id": "u", "content": [{"type": "text", "text": "a"}, IMAGE]})
        reducer = Reducer([parts, ActivityMessage(id="a", activity_type="plan", content={})])
        for each in (start("m"), content("m", "x"), call("c", "n"), result("r", "c"), content("u", "b")):
            reducer.feed(each)
        assert [reducer.text_of(message_id) for message_id in "umnrao"] == ["ab", "x", "", "found", "", ""]
        reducer.feed(content("m", "y"))
        assert (reducer.text_of("m"), reducer.text_of("m"), reducer.messages[2].content) == ("xy", "xy", "xy")

    def test_looking_at_the_text_of_a_message_that_has_none_gives_it_none(self) -> None:
        reducer = reduced(call("c1", "m1"))
        assert reducer.text_of("m1") == ""
        reducer.feed(args("c1", "{}"))
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[search("c1", "{}")])]

    def test_a_call_looked_at_keeps_its_arguments_and_metadata_while_its_successor_grows(self) -> None:
        reducer = reduced(call("c1", "m1"), args("c1", "{", metadata={"a": 1}))
        before, listed = reducer.tool_call("c1"), reducer.messages
        reducer.feed(args("c1", "}", metadata={"b": 2}))
        assert listed == [AssistantMessage(id="m1", tool_calls=[search("c1", "{", metadata={"a": 1})])]
        after = [AssistantMessage(id="m1", tool_calls=[search("c1", "{}", metadata={"a": 1, "b": 2})])]
        assert reducer.messages == after
        assert listed == [AssistantMessage(id="m1", tool_calls=[search("c1", "{", metadata={"a": 1})])]
        assert before == search("c1", "{", metadata={"a": 1})

    def test_what_happens_to_a_call_after_a_look_shows_at_the_next(self) -> None:
        reducer = reduced(call("c1", "m1"))
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[search("c1")])]
        reducer.feed(event("TOOL_CALL_END", toolCallId="c1", metadata={"k": 1}))
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[search("c1", metadata={"k": 1})])]
        reducer.feed(encrypted("tool-call", "c1", "x"))
        expected = search("c1", metadata={"k": 1}, encrypted_value="x")
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[expected])]

    def test_of_two_calls_with_one_id_events_find_the_first(self) -> None:
        one, two = (AssistantMessage(id=i, tool_calls=[search("c1")]) for i in ("m1", "m2"))
        reducer = Reducer([one, two])
        reducer.feed(args("c1", "{}"))
        assert reducer.messages == [AssistantMessage(id="m1", tool_calls=[search("c1", "{}")]), two]

    @pytest.mark.parametrize(("gone", "first"), [("m2", "m1"), ("m1", "m2"), ("m1 m2", "m3"), ("m2 m1", "m3")])
    def test_a_call_is_found_in_the_first_message_that_has_it_after_others_were_replaced(
        self, gone: str, first: str
    ) -> None:
        all_three = [AssistantMessage(id=each, tool_calls=[search("c1", each)]) for each in ("m1", "m2", "m3")]
        reducer = reduced(snapshot(*all_three), *(activity(each, {}) for each in gone.split()))
        reducer.feed(args("c1", "!"))
        assert reducer.message(first) == AssistantMessage(id=first, tool_calls=[search("c1", f"{first}!")])

    def test_fields_nobody_knows_stay_on_the_messages_the_application_put_in(self) -> None:
        held = AssistantMessage.model_validate({"id": "m1", "content": "a", "x-mine": 1})
        assert wire(reduced(content("m1", "b"), messages=(held,))) == [
            {"id": "m1", "role": "assistant", "content": "ab", "x-mine": 1}
        ]

    def test_only_fields_that_were_given_a_value_count_as_set(self) -> None:
        reducer = reduced(start("m1"), content("m1", "a"), call("c1", "m2"), result("r1", "c1"))
        fields = [message.model_fields_set for message in reducer.messages]
        assert fields == [{"id", "content"}, {"id", "tool_calls"}, {"id", "tool_call_id", "content"}]

    def test_set_messages_holds_others_instead_and_accepts_what_was_looked_at(self) -> None:
        reducer = reduced(start("m1"), call("c1", "m1"), start("m2"))

        def others() -> Iterator[Message]:
            yield from (message for message in reducer.messages if message.id != "m1")

        reducer.set_messages(others())
        reducer.feed(content("m2", "x"))
        assert reducer.messages == [AssistantMessage(id="m2", content="x")]
        assert reducer.tool_call("c1") is None

    def test_add_messages_appends_and_events_find_the_first_of_one_id(self) -> None:
        one, two = SystemMessage(id="s", content="a"), SystemMessage(id="s", content="b")
        reducer = Reducer([one])
        reducer.add_messages([two])
        reducer.feed(content("s", "!"))
        assert reducer.messages == [SystemMessage(id="s", content="a!"), two]

    def test_warnings_go_to_the_log_of_the_run(self) -> None:
        first, second = WarningLog(), WarningLog()
        reducer = Reducer(warnings=first)
        reducer.feed(end("m1"))
        reducer.thread.log = second
        assert reducer.warnings == []
        reducer.feed(end("m2"))
        assert [len(log.records()) for log in (first, second)] == [1, 1]
        assert reducer.warnings == second.records()


_IDS = st.sampled_from(["m1", "m2", "m3"])
_CALLS = st.sampled_from(["c1", "c2", "m1"])
_TEXT = st.sampled_from(["", "a", "bc"])
_VALUES: st.SearchStrategy[Any] = st.sampled_from([1, None, {"x": [1]}, [1, {"y": 2}]])
_OBJECTS: st.SearchStrategy[Wire] = st.fixed_dictionaries({}, optional={"a": _VALUES, "b": _VALUES})


@st.composite
def _extras(draw: st.DrawFn) -> Wire:
    """Metadata and an owner, or not."""
    metadata = st.dictionaries(st.sampled_from("kl"), st.integers(0, 3), max_size=2)
    owner = st.sampled_from(["s1", "s2"])
    return draw(st.fixed_dictionaries({}, optional={"metadata": metadata, "subagentRunId": owner}))


@st.composite
def _patches(draw: st.DrawFn) -> list[Wire]:
    op = st.sampled_from(["add", "replace", "remove"])
    path = st.sampled_from(["/a", "/a/x", "/a/x/0", "/b/1/y", "/b", "/b/-", ""])
    return draw(st.lists(st.fixed_dictionaries({"op": op, "path": path, "value": _VALUES}), max_size=3))


@st.composite
def _messages(draw: st.DrawFn) -> Message:
    message_id, text = draw(_IDS), draw(_TEXT)
    match draw(st.integers(0, 5)):
        case 0:
            return AssistantMessage(id=message_id, content=text)
        case 1:
            return AssistantMessage(id=message_id, tool_calls=[search(draw(_CALLS), text)])
        case 2:
            return UserMessage(id=message_id, content=[TextPart(text=text)])
        case 3:
            return ReasoningMessage(id=message_id, content=text)
        case 4:
            return ActivityMessage(id=message_id, activity_type="plan", content=draw(_OBJECTS))
        case _:
            return ToolMessage(id=message_id, tool_call_id=draw(_CALLS), content=text)


@st.composite
def _streamed(draw: st.DrawFn) -> Event:
    message_id, tool_call_id, extras = draw(_IDS), draw(_CALLS), draw(_extras())
    match draw(st.integers(0, 9)):
        case 0:
            return start(message_id, **extras)
        case 1 | 2:
            return content(message_id, draw(_TEXT), **extras)
        case 3:
            return end(message_id, **extras)
        case 4:
            return thought("START", message_id, role="reasoning", **extras)
        case 5:
            return thought("CONTENT", message_id, delta=draw(_TEXT))
        case 6:
            return call(tool_call_id, draw(st.none() | _IDS), **extras)
        case 7:
            return args(tool_call_id, draw(_TEXT), **extras)
        case 8:
            return result(draw(st.sampled_from(["r1", "r2", "m2"])), tool_call_id, **extras)
        case _:
            return encrypted(draw(st.sampled_from(["message", "tool-call"])), draw(st.sampled_from(["m1", "c1"])))


@st.composite
def _restated(draw: st.DrawFn) -> Event:
    match draw(st.integers(0, 5)):
        case 0:
            return activity(draw(_IDS), draw(_OBJECTS), **draw(_extras()))
        case 1:
            return activity_delta(draw(_IDS), *draw(_patches()), metadata={"d": 1})
        case 2 | 3:
            return state_delta(*draw(_patches()))
        case 4:
            return event("STATE_SNAPSHOT", snapshot=draw(_OBJECTS | _VALUES))
        case _:
            return snapshot(*draw(st.lists(_messages(), max_size=3)))


_EVENTS = _streamed() | _restated()
_LOOKS = st.sampled_from(["", "messages", "state", "message", "call"])


def _look(reducer: Reducer, what: str) -> Any:
    match what:
        case "messages":
            return reducer.messages
        case "state":
            return reducer.state
        case "message":
            return [reducer.message("m1"), reducer.text_of("m2")]
        case _:
            return reducer.tool_call("c1")


@given(st.lists(_messages(), max_size=3), _OBJECTS, st.lists(st.tuples(_EVENTS, _LOOKS), max_size=30))
def test_nothing_handed_in_or_out_ever_changes_and_looking_makes_no_difference(
    messages: list[Message], state: Any, steps: list[tuple[Event, str]]
) -> None:
    watched, unwatched = Reducer(messages, state), Reducer(deepcopy(messages), deepcopy(state))
    handed_out: list[Any] = [messages, state, [fed for fed, _ in steps]]
    as_it_was = deepcopy(handed_out)
    for fed, what in steps:
        assert watched.feed(fed) == unwatched.feed(deepcopy(fed))
        if what:
            handed_out.append(_look(watched, what))
            as_it_was.append(deepcopy(handed_out[-1]))
    assert handed_out == as_it_was
    assert watched.messages == unwatched.messages
    assert wire(watched) == wire(unwatched)
    assert [m.model_fields_set for m in watched.messages] == [m.model_fields_set for m in unwatched.messages]
    assert (watched.state, watched.warnings) == (unwatched.state, unwatched.warnings)


@given(st.lists(_EVENTS, max_size=40))
def test_each_message_and_call_is_found_where_it_stands(events: list[Event]) -> None:
    reducer = reduced(*events)
    held = reducer.messages
    calls = [call for message in held if isinstance(message, AssistantMessage) for call in message.tool_calls or ()]
    ids, call_ids = Counter(message.id for message in held), Counter(call.id for call in calls)
    assert all(reducer.message(message.id) is message for message in held if ids[message.id] == 1)
    assert all(reducer.tool_call(call.id) is call for call in calls if call_ids[call.id] == 1)
    assert [reducer.message(message_id) is None for message_id in ("m1", "r1")] == [i not in ids for i in ("m1", "r1")]


_PROJECT = Path(__file__).parents[3]
_LOOKING = """
import resource
from ag_ui.core import TextMessageContentEvent, TextMessageStartEvent
from agui_client import Reducer
reducer, delta = Reducer(), TextMessageContentEvent(message_id="m", delta="x" * 1000)
reducer.feed(TextMessageStartEvent(message_id="m"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(1000):
    reducer.feed(delta)
    reducer.messages
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries map memory in other ways")
def test_a_text_that_is_looked_at_while_it_grows_is_not_given_new_memory_for_each_look() -> None:
    # In an interpreter of its own: where a program has freed a large block, its memory is reused anyway.
    command = [sys.executable, "-c", _LOOKING]
    # Dask tells the processes of its clusters by the environment to give memory back, in the program that starts them.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(command, cwd=_PROJECT, env=variables, capture_output=True, text=True, timeout=60, check=True)
    assert 0 < int(done.stdout) < 40_000, "pages of 4 kB; with a new block for each look, 94 000"


@pytest.mark.parametrize("ids", [other, equal], ids=["other ids", "equal ids"])
@pytest.mark.parametrize("growing", GROWING.values(), ids=GROWING)
def test_messages_that_a_thread_begins_with_are_read_before_they_have_places_as_behind_that(
    growing: Growing, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_index, "_FEW", 0)
    events = [event(**each) for each in stream(growing, 3, ids) if "LATER" not in each["type"].upper()]
    for cut in (len(events) // 3, len(events) // 2, len(events)):
        messages = reduced(*events[:cut]).messages
        begun, placed = Reducer(messages), Reducer(messages)
        assert placed.thread.slots.keys() == {each.id for each in messages}
        for each in events[cut:]:
            begun.feed(each)
            placed.feed(each)
        assert _read(begun) == _read(placed)


def _read(reducer: Reducer) -> Any:
    """Return what can be read of messages and of their calls."""
    messages = reducer.messages
    call_ids = [each.id for message in messages if message.role == "assistant" for each in message.tool_calls or ()]
    called = {each: (reducer.tool_call(each), reducer.place_of_call(each)) for each in call_ids}
    answered = {each: (each in reducer.answered_call_ids, reducer.thread.has_placeholder(each)) for each in call_ids}
    return messages, [reducer.message(each.id) for each in messages], called, answered, reducer.open_call_ids
