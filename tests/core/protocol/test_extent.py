"""How deep and how large values may become: whatever arrives can be kept, saved, loaded and sent again."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from ag_ui.core import (
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    FunctionCall,
    RunAgentInput,
    StateDeltaEvent,
    StateSnapshotEvent,
    ToolCall,
    UserMessage,
)
from pydantic_core import from_json

from agui_client import (
    AbstractAgent,
    ConversationSnapshot,
    DecodeError,
    InvalidEventError,
    UnrecognizedEvent,
    UsageError,
)
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.patch import (
    DEEPEST_TEXT,
    DEEPEST_VALUE,
    LARGEST,
    LITTLE,
    Document,
    PatchFailed,
    extent,
    nests_deeper,
    parse_json,
)
from agui_client._core.protocol.request import prepare_input
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog
from agui_client.testing import ScriptedAgent, patch, state, text, turn

DOUBLING = {"op": "copy", "from": "/a", "path": "/a/-"}


def nested(levels: int, inmost: Any = 1) -> Any:
    """A value in so many arrays."""
    for _ in range(levels):
        inmost = [inmost]
    return inmost


def within(levels: int) -> Any:
    """A value in so many objects."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def array(levels: int) -> str:
    return "[" * levels + "1" + "]" * levels


def patched(document: Any, *operations: dict[str, Any]) -> Any:
    changed = Document(document)
    changed.patch(StateDeltaEvent.model_validate({"delta": operations}).delta)
    return changed.look()


def refusal(document: Any, *operations: dict[str, Any]) -> str:
    before = repr(document)
    with pytest.raises(PatchFailed) as caught:
        patched(document, *operations)
    assert repr(document) == before
    return str(caught.value)


def saved_loaded_and_cloned(agent: AbstractAgent) -> ConversationSnapshot:
    """The conversation, once it was found to survive all that can be done to it."""
    document = agent.snapshot()
    assert ConversationSnapshot.model_validate_json(document.model_dump_json()) == document
    clone = agent.clone()
    assert (clone.messages, clone.state) == (agent.messages, agent.state)
    asked = RunAgentInput.model_construct(thread_id="t", run_id="r", messages=agent.messages, state=agent.state)
    sent = prepare_input(asked, WarningLog()).model_dump_json(by_alias=True)
    assert RunAgentInput.model_validate_json(sent).state == agent.state
    return document


# --- the limits


def test_a_document_may_be_as_deep_as_pydantic_reads_it() -> None:
    for inmost in ("1", "[]", "{}"):
        deepest, deeper = ("[" * levels + inmost + "]" * levels for levels in (DEEPEST_TEXT, DEEPEST_TEXT + 1))
        assert not nests_deeper(from_json(deepest), DEEPEST_TEXT)
        with pytest.raises(ValueError, match="recursion"):
            from_json(deeper)
        assert nests_deeper(json.loads(deeper), DEEPEST_TEXT)


@pytest.mark.parametrize("levels", [DEEPEST_TEXT + 1, 992, 1_497, 9_998, 100_000])
def test_json_that_nests_deeper_is_refused_in_the_same_words_by_every_python(levels: int) -> None:
    assert parse_json("[" * DEEPEST_TEXT + "1" + "]" * DEEPEST_TEXT) == nested(DEEPEST_TEXT, 1)
    with pytest.raises(ValueError, match=r"^it nests deeper than 200 levels$"):
        parse_json('{"a":' * levels + "1" + "}" * levels)


@pytest.mark.parametrize("value", [nested(3), within(3), {"b": 1, "a": nested(2)}, [1, within(2)]])
def test_levels_are_those_of_arrays_and_objects(value: Any) -> None:
    assert (nests_deeper(value, 2), nests_deeper(value, 3)) == (True, False)
    flat: list[Any] = ["text", 1, None, [], {}]
    assert not any(nests_deeper(each, 0) for each in flat)


def test_a_value_that_contains_itself_twice_is_too_deep_and_that_is_found_at_once() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    assert nests_deeper(loop, DEEPEST_TEXT)


def test_values_names_and_texts_have_a_weight() -> None:
    assert extent({"name": ["four", 1, None]}, 1_000) == (2, 5 * 10 + len("name") + len("four"))
    assert extent([1] * 100, 50)[1] > 50


# --- patches that go ever deeper


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("op", ["add", "replace"])
@pytest.mark.parametrize("make", [nested, within])
def test_a_value_goes_only_as_deep_as_can_be_saved(op: str, make: Any) -> None:
    document = {"a": {"b": 0}}
    deepest = {"op": op, "path": "/a/b", "value": make(DEEPEST_VALUE - 2)}
    assert patched(document, deepest) == {"a": {"b": make(DEEPEST_VALUE - 2)}}
    deeper = {"op": op, "path": "/a/b", "value": make(DEEPEST_VALUE - 1)}
    assert refusal(document, deeper) == f"operation 0 ({op} '/a/b'): the value is nested too deeply"


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("op", ["copy", "move"])
@pytest.mark.parametrize("siblings", [0, 500], ids=["little", "much"])
def test_what_is_copied_or_moved_goes_only_as_deep_as_can_be_saved(op: str, siblings: int) -> None:
    more = ["text"] * siblings
    document: Any = {"a": [nested(DEEPEST_VALUE - 3), *more], "b": {"c": {}}}
    there = {"op": op, "from": "/a", "path": "/b/c"}
    assert patched(document, there)["b"]["c"] == document["a"]
    below = {"op": op, "from": "/a", "path": "/b/c/d"}
    assert refusal(document, below) == f"operation 0 ({op} '/a' to '/b/c/d'): the value is nested too deeply"


@pytest.mark.requirement("SNAP-5")
def test_something_little_may_be_too_deep_where_it_is_moved_to() -> None:
    document = {"little": nested(95), "deep": within(99) | {"b": 1}}
    there = {"op": "move", "from": "/little", "path": "/deep" + "/a" * 99}
    below = {"op": "move", "from": "/little", "path": "/deep" + "/a" * 100}
    assert nests_deeper(patched(document, there), DEEPEST_VALUE - 1)
    assert "nested too deeply" in refusal(document | {"deep": within(101)}, below)


@pytest.mark.requirement("SNAP-5")
def test_of_several_moves_the_one_that_went_too_deep_is_named() -> None:
    document: Any = {"a": nested(DEEPEST_VALUE - 2), "b": {}, "c": {}}
    patch = [{"op": "move", "from": "/a", "path": "/b/a"}, {"op": "move", "from": "/b", "path": "/c/b"}]
    assert refusal(document, *patch).startswith("operation 1 ")
    assert patched(document, patch[0]) == {"b": {"a": document["a"]}, "c": {}}


@pytest.mark.requirement("SNAP-5", "STATE-4")
@pytest.mark.parametrize("levels", [100, 240, 1_000])
def test_a_conversation_whose_state_grew_level_by_level_can_be_saved_loaded_and_sent(levels: int) -> None:
    deltas = [patch({"op": "add", "path": "/a" + "/0" * depth, "value": nested(20)}) for depth in range(0, levels, 20)]
    agent = ScriptedAgent(turn(*deltas, text("Done.")), turn(text("Again.")), initial_state={})
    warnings = agent.run_agent_sync("Hi").warnings
    assert sum(each.count for each in warnings) == max(0, len(deltas) - DEEPEST_VALUE // 20)
    assert {each.rule for each in warnings} <= {"SNAP-5"}
    assert nests_deeper(saved_loaded_and_cloned(agent).state, 100)
    assert agent.run_agent_sync("And?").text == "Again."


@pytest.mark.requirement("SNAP-5")
def test_an_activity_that_is_patched_level_by_level_can_be_saved() -> None:
    deltas = [
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "map",
            "activityType": "MAP",
            "patch": [{"op": "replace" if depth else "add", "path": "/a" + "/0" * depth, "value": [1]}],
        }
        for depth in range(300)
    ]
    begun = ActivitySnapshotEvent(message_id="map", activity_type="MAP", content={})
    agent = ScriptedAgent(turn(begun, *deltas))
    agent.run_agent_sync("Hi")
    message = saved_loaded_and_cloned(agent).messages[-1]
    assert isinstance(message, ActivityMessage)
    assert message.content == {"a": nested(DEEPEST_VALUE - 1)}


# --- patches that copy and copy


@pytest.mark.requirement("SNAP-5")
def test_copies_that_double_a_value_again_and_again_fail_before_it_is_large() -> None:
    said = refusal({"a": ["x" * 900]}, *[DOUBLING] * 60)
    assert said.endswith("(copy '/a' to '/a/-'): the copies and moves go through too much")


@pytest.mark.requirement("SNAP-5")
def test_patches_that_double_a_value_one_after_the_other_fail_before_it_is_large() -> None:
    document = Document({"a": ["x" * 900]})
    assert "too much" in outcomes(document, [[DOUBLING]], 60)[-1]
    assert LARGEST / 4 < extent(document.look(), 2 * LARGEST)[1] <= LARGEST + 60 * LITTLE
    assert outcomes(document, [[{"op": "copy", "from": "/a/0", "path": "/b"}]], 1) == [""]


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("long", [["x" * 1_000_000], {"x" * 1_000_000: 1}], ids=["text", "name"])
def test_copies_of_long_texts_count_by_their_length(long: Any) -> None:
    assert "too much" in refusal({"a": [long]}, *[DOUBLING] * 4)


@pytest.mark.requirement("SNAP-5")
def test_what_a_patch_copies_and_takes_away_again_counts_too() -> None:
    document = {"a": ["x" * 1_000] * 100}
    there = {"op": "copy", "from": "/a", "path": "/b"}
    assert patched(document, *[there] * 50)["b"] == document["a"]
    assert "too much" in refusal(document, *[there] * 200)


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("small", [{}, [], {"a": 1}], ids=str)
def test_copies_take_no_more_memory_than_their_budget_and_what_an_operation_may_always_take(small: Any) -> None:
    copies = [patch(*[{"op": "copy", "from": "/many", "path": "/copies/-"}] * 10)] * 40
    many = state({"many": [small] * 90, "copies": []})
    agent = ScriptedAgent(turn(many, *copies, many, *copies))
    tracemalloc.start()
    try:
        warnings = agent.run_agent_sync("Hi").warnings
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * LARGEST
    assert "too much" in warnings[0].message


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("renewed", [state({"a": ["x" * 100_000]}), text("More.")], ids=["by a snapshot", "not at all"])
def test_the_patches_of_a_run_share_what_they_may_do_and_the_next_run_may_do_as_much(renewed: Any) -> None:
    copies = [patch({"op": "copy", "from": "/a", "path": f"/b{at}"}) for at in range(60)]
    agent = ScriptedAgent(*[turn(state({"a": ["x" * 100_000]}), *copies, renewed, *copies)] * 2)
    said = [agent.run_agent_sync("Hi").warnings for _ in range(2)]
    failed = [sum(each.count for each in warnings if each.rule == "SNAP-5") for warnings in said]
    assert failed[0] == failed[1] > 15


@pytest.mark.requirement("SNAP-5")
def test_shifts_that_are_undone_count_as_much_as_those_that_stay() -> None:
    added: dict[str, Any] = {"op": "add", "path": "/0", "value": 1}
    said = outcomes(Document([0] * 200_000), [[*[added] * 40, {"op": "remove", "path": "/none"}]], 60)
    assert "fits nothing" in said[0]
    assert "shift too much" in said[-1]


@pytest.mark.requirement("SNAP-2")
def test_many_copies_of_something_little_are_what_they_always_were() -> None:
    template = {"title": "", "tags": ["a", "b"]}
    copies = [{"op": "copy", "from": "/template", "path": "/rows/-"}] * 5_000
    assert patched({"template": template, "rows": []}, *copies)["rows"] == [template] * 5_000


@pytest.mark.requirement("SNAP-2")
def test_in_a_document_that_came_large_something_little_can_be_copied() -> None:
    document = {"text": "x" * LARGEST, "template": [1, 2]}
    assert patched(document, {"op": "copy", "from": "/template", "path": "/a"})["a"] == [1, 2]
    assert "too much" in refusal(document, {"op": "copy", "from": "/text", "path": "/a"})


@pytest.mark.requirement("SNAP-2")
def test_a_copy_is_nobody_else_s() -> None:
    document = {"a": {"x": [1]}}
    copy, write = {"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a/x/-", "value": 2}
    copied = patched(document, copy, write)
    assert copied == {"a": {"x": [1, 2]}, "b": {"x": [1]}}
    assert patched(document, copy)["b"] is not document["a"]


@pytest.mark.requirement("SNAP-5")
def test_a_long_path_is_told_in_part() -> None:
    assert len(refusal({}, {"op": "copy", "from": "/a" * 5_000, "path": "/b" * 5_000})) < 600


# --- patches that go through much again and again


MUCH: Any = {"a": [{"k": "x" * 400}] * 1_000, "b": {"c": {}}}
AGAIN: dict[str, list[list[dict[str, Any]]]] = {
    "copies": [[{"op": "copy", "from": "/a", "path": "/x"}], [{"op": "remove", "path": "/x"}]],
    "copies that fail": [[{"op": "copy", "from": "/a", "path": "/x"}, {"op": "test", "path": "/b", "value": 1}]],
}


def outcomes(document: Document, patches: list[list[dict[str, Any]]], times: int) -> list[str]:
    """What became of each patch: nothing is said of one that applied."""
    events = [StateDeltaEvent.model_validate({"delta": operations}).delta for operations in patches]
    said: list[str] = []
    for index in range(times):
        try:
            document.patch(events[index % len(events)])
        except PatchFailed as failure:
            said.append(str(failure))
        else:
            said.append("")
    return said


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("name", AGAIN)
def test_one_large_value_is_copied_a_few_times_and_not_for_ever(name: str) -> None:
    document = Document(MUCH, is_private=False)
    said = outcomes(document, AGAIN[name], 200)
    much = [each for each in said if each.endswith("the copies and moves go through too much")]
    assert said.index(much[0]) > 10
    assert len(much) > 50
    # What comes later has room again, the sooner the less it goes through.
    little: list[dict[str, Any]] = [{"op": "add", "path": "/later", "value": 1}]
    assert set(outcomes(document, [little], 1_000)) == {""}
    assert outcomes(document, [[{"op": "copy", "from": "/a", "path": "/y"}]], 1) == [""]


@pytest.mark.requirement("SNAP-2")
def test_a_large_value_is_moved_beside_as_often_as_one_likes_and_further_down_many_times() -> None:
    def moves(document: Any, path: str, times: int) -> set[str]:
        there, back = {"op": "move", "from": "/a", "path": path}, {"op": "move", "from": path, "path": "/a"}
        return set(outcomes(Document(document), [[there], [back]], times))

    large: Any = {"a": dict.fromkeys(map(str, range(300_000))), "b": {"c": {}}}
    assert moves(large, "/z", 2_000) == moves(MUCH, "/z", 2_000) == moves(MUCH, "/b/c/a", 20) == {""}
    # Text cannot nest, so that a look at its length is not needed.
    assert moves({**MUCH, "a": "x" * 1_000_000}, "/b/c/a", 2_000) == {""}


@pytest.mark.requirement("SNAP-5")
def test_a_value_that_is_moved_down_again_and_again_goes_only_as_deep_as_can_be_saved() -> None:
    down: list[dict[str, Any]] = [
        {"op": "move", "from": "/a", "path": "/b/a"},
        {"op": "move", "from": "/b", "path": "/a"},
        {"op": "add", "path": "/b", "value": {}},
    ]
    for siblings in (1, 500):
        document = Document({"a": {str(each): each for each in range(siblings)}, "b": {}})
        said = outcomes(document, [down], 400)
        assert said.index("operation 0 (move '/a' to '/b/a'): the value is nested too deeply") == DEEPEST_VALUE - 2
        assert not nests_deeper(document.look(), DEEPEST_VALUE)
        assert nests_deeper(document.look(), DEEPEST_VALUE - 1)


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize("op", ["add", "replace", "copy"])
def test_what_is_added_after_a_move_counts_when_it_moves_on(op: str) -> None:
    wide = {str(each): each for each in range(500)}
    document = Document({"a": wide, "b": {}, "c": 1, "deep": {"x": nested(150), **wide}})
    brings = {"op": op, "path": "/c", "from": "/deep", "value": {"x": nested(150), **wide}}
    patches: list[list[dict[str, Any]]] = [
        [{"op": "remove", "path": "/deep"}] if op != "copy" else [],
        [{"op": "move", "from": "/a", "path": "/b/a"}],
        [brings],
        [{"op": "add", "path": f"/{name}", "value": within(60)} for name in "ef"],
        [{"op": "move", "from": "/c", "path": "/e" + "/a" * 30}],
        [{"op": "move", "from": "/e" + "/a" * 30, "path": "/f" + "/a" * 50}],
    ]
    said = outcomes(document, patches, len(patches))
    assert said[:-1] == [""] * (len(patches) - 1)
    assert said[-1].endswith("the value is nested too deeply")


@pytest.mark.requirement("SNAP-2")
def test_small_parts_of_a_large_document_are_copied_and_moved_as_often_as_one_likes() -> None:
    patches = [
        [{"op": "copy", "from": "/a/0", "path": "/b/c/x"}],
        [{"op": "move", "from": "/b/c/x", "path": "/b/c/y/-"}],
    ]
    document = Document({**MUCH, "b": {"c": {"y": []}}})
    assert set(outcomes(document, patches, 4_000)) == {""}
    assert len(document.look()["b"]["c"]["y"]) == 2_000


# --- events


def decoded(frame: str) -> Event | UnrecognizedEvent:
    return Decoder(WarningLog()).feed(frame)


@pytest.mark.requirement("PROC-12")
@pytest.mark.parametrize(
    "frame",
    [
        '{"type": "TEXT_MESSAGE_START", "messageId": "m", "metadata": {"a": %s}}',
        '{"type": "TEXT_MESSAGE_START", "messageId": "m", "metadata": {"a": %s}, "future": 1}',
        '{"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "MAP", "content": {"a": %s}}',
    ],
    ids=["metadata", "metadata and something unknown", "activity"],
)
def test_what_lies_deeper_in_a_message_than_in_its_event_has_room_for_that(frame: str) -> None:
    assert decoded(frame % array(DEEPEST_VALUE - 1)) is not None
    with pytest.raises(DecodeError, match="nests deeper than any event should"):
        decoded(frame % array(DEEPEST_VALUE))


@pytest.mark.requirement("PROC-12")
@pytest.mark.parametrize("levels", [DEEPEST_TEXT, 900, 5_000])
@pytest.mark.parametrize("delta", ["x", "\\ud83d"], ids=["plain", "half a character"])
def test_half_a_character_lets_nothing_pass_that_is_too_deep(levels: int, delta: str) -> None:
    frame = f'{{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "{delta}", "rawEvent": {array(levels)}}}'
    with pytest.raises(DecodeError):
        decoded(frame)


@pytest.mark.requirement("STATE-4")
def test_the_deepest_conversation_that_can_arrive_can_be_saved_loaded_and_sent() -> None:
    deep = {"a": nested(DEEPEST_VALUE - 1)}
    call = ToolCall(id="call", function=FunctionCall(name="look", arguments="{}"), metadata=deep)
    agent = ScriptedAgent(
        turn(),
        initial_messages=[
            AssistantMessage(id="answer", tool_calls=[call], metadata=deep),
            ActivityMessage(id="map", activity_type="MAP", content=deep),
            UserMessage(id="user", content="Hi", metadata=deep),
        ],
        initial_state=nested(DEEPEST_TEXT - 1),
    )
    saved_loaded_and_cloned(agent)


@pytest.mark.requirement("PROC-6")
@pytest.mark.parametrize("levels", [DEEPEST_TEXT - 1, 5_000])
def test_an_agent_of_this_process_is_held_to_the_same_depth(levels: int) -> None:
    state = StateSnapshotEvent(snapshot=nested(DEEPEST_TEXT - 1))
    assert Validator(WarningLog()).feed(state) is state
    for event, path in (
        (StateSnapshotEvent(snapshot=nested(levels + 1)), "/snapshot"),
        (ActivitySnapshotEvent(message_id="m", activity_type="MAP", content={"a": nested(levels)}), "/content"),
        (StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/a", "value": nested(levels)}]}), "/delta"),
    ):
        with pytest.raises(InvalidEventError, match=f"{path} contains itself, or is nested too deeply"):
            Validator(WarningLog()).feed(event)


# --- the application's own


@pytest.mark.requirement("INPUT-3")
@pytest.mark.parametrize("levels", [DEEPEST_TEXT, 300, 400, 20_000])
def test_an_input_that_is_too_deep_is_refused_before_anything_is_sent(levels: int) -> None:
    empty = RunAgentInput.model_construct(thread_id="t", run_id="r", messages=[])
    for field in ({"state": nested(levels)}, {"forwarded_props": {"a": nested(levels - 1)}}):
        given = empty.model_copy(update=field)
        with pytest.raises(UsageError, match="contains itself, or is nested too deeply; nothing was sent"):
            prepare_input(given, WarningLog())


@pytest.mark.requirement("INPUT-3")
def test_the_deepest_input_can_be_written_and_read() -> None:
    given = RunAgentInput.model_construct(thread_id="t", run_id="r", messages=[], state=nested(DEEPEST_TEXT - 1))
    sent = prepare_input(given, WarningLog()).model_dump_json(by_alias=True)
    assert RunAgentInput.model_validate_json(sent).state == given.state


@pytest.mark.parametrize("levels", [DEEPEST_TEXT, 400, 20_000])
def test_a_state_that_no_run_and_no_document_could_hold_is_not_taken(levels: int) -> None:
    state = nested(levels)
    with pytest.raises(UsageError, match="nests deeper than 199 levels; it was not taken"):
        ScriptedAgent(turn(), initial_state=state)
    agent = ScriptedAgent(turn(), initial_state={"a": 1})
    with pytest.raises(UsageError, match="the state contains itself, or nests deeper"):
        agent.set_state(state)
    assert agent.state == {"a": 1}
