"""What the inspector's page is made of: a row for each line, and operations that come to what the reducer comes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui_client import tool
from agui_client._core.protocol.plain_json import write
from agui_client._core.protocol.schema import is_object
from agui_client._rendering.inline_parts import escaped_json
from agui_client.a2ui import change_surface, show_surface
from agui_client.inspector import inspector_page
from agui_client.inspector._rows import Inspection
from agui_client.inspector._summary import summary_of
from agui_client.recording import Recording, record
from agui_client.recording._format import EndLine, EventLine, HeaderLine, Line, RequestLine
from agui_client.testing import ScriptedAgent, Turn, patch, reasoning, state, text, tool_call, turn
from conformance_fixtures import Fixture, fixtures
from support.proportion import GROWING, lines_of, other, stream
from weaves import weave

Json = dict[str, Any]
HEADER = HeaderLine(protocol="1.0", package="0", session="s", time="2026-01-01T00:00:00Z")  # type: ignore[arg-type]


def applied(conversation: Json, operation: Json) -> Json:
    """Apply an operation as the page does: as JSON Patch, apart from "append"."""
    if operation["op"] == "append":
        text = jsonpatch.JsonPointer(operation["path"]).resolve(conversation)
        operation = {**operation, "op": "replace", "value": text + operation["value"]}
    return jsonpatch.apply_patch(conversation, [operation])  # type: ignore[no-any-return]


def rows_of(events: Iterable[Json], **asked: Any) -> list[Json]:
    """The rows of a recording of one request."""
    inspection = Inspection()
    # Written at once, and as text: a row is not to change afterwards.
    return [json.loads(json.dumps(inspection.row(line))) for line in (HEADER, *_lines_of(events, **asked))]


def _lines_of(events: Iterable[Json], **asked: Any) -> list[Line]:
    input: Json = {"threadId": "thread-1", "runId": "run-1", "messages": [], "state": {}, **asked}
    request = RequestLine(request="s-1.2", call="s-1", at=0, agent={"agent_id": "a"}, input=input)  # type: ignore[arg-type]
    return [request, *(EventLine(request="s-1.2", at=at, event=event) for at, event in enumerate(events))]


def conversations(rows: list[Json]) -> list[Json]:
    """The conversation after each row of one request, from its row on."""
    asked = rows[1]["d"]["input"]
    found = [rows[1].get("c", {"messages": asked["messages"], "state": asked.get("state")})]
    for row in rows[2:]:
        conversation = found[-1]
        for operation in row.get("o", ()):
            conversation = applied(conversation, operation)
        found.append(conversation)
    return found


def same(one: Any, other: Any) -> bool:
    return bool(json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


@given(random=st.randoms(use_true_random=False))
def test_the_operations_of_a_random_stream_come_to_what_it_means(random: Random) -> None:
    woven = weave(random)
    last = conversations(rows_of(woven.events))[-1]
    assert same(last["state"], woven.state)
    shown = [json.loads(write(each)) for each in _messages(woven.messages)]
    assert same(last["messages"], shown)


def _messages(plain: list[Json]) -> list[Any]:
    from ag_ui.core import RunAgentInput

    given: Json = {"threadId": "t", "runId": "r", "messages": plain, "state": {}, "tools": [], "context": []}
    return RunAgentInput.model_validate({**given, "forwardedProps": {}}, by_alias=True).messages


@pytest.mark.parametrize("fixture", [pytest.param(each, id=each.name) for each in fixtures()])
def test_every_stream_of_the_corpus_has_rows(fixture: Fixture) -> None:
    frames = [line.removeprefix("data:") for line in fixture.body.decode("utf-8", "replace").splitlines()]
    events: list[Json] = []
    for frame in frames:
        try:
            value = json.loads(frame)
        except ValueError:
            continue
        if is_object(value):
            events.append(value)
    rows = rows_of(events)
    assert len(rows) == len(events) + 2
    conversations(rows)


def test_a_delta_is_one_small_operation_however_long_the_text_is() -> None:
    ends = {"threadId": "thread-1", "runId": "run-1"}
    deltas = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": f"{number} "} for number in range(100)]
    start, end = ({"type": f"TEXT_MESSAGE_{part}", "messageId": "m"} for part in ("START", "END"))
    rows = rows_of([{"type": "RUN_STARTED", **ends}, start, *deltas, end, {"type": "RUN_FINISHED", **ends}])
    assert rows[50]["o"] == [{"op": "append", "path": "/messages/0/content", "value": "46 "}]
    assert "o" not in rows[-2]


def test_a_delta_with_metadata_does_not_repeat_the_text() -> None:
    ends = {"threadId": "thread-1", "runId": "run-1"}
    start, *deltas = (
        {"type": f"TEXT_MESSAGE_{part}", "messageId": "m", "metadata": {"n": number}, **more}
        for number, (part, more) in enumerate(
            [("START", {"role": "assistant"}), ("CONTENT", {"delta": "x" * 500}), ("CONTENT", {"delta": "y"})]
        )
    )
    rows = rows_of([{"type": "RUN_STARTED", **ends}, start, *deltas])
    assert rows[-1]["o"] == [
        {"op": "append", "path": "/messages/0/content", "value": "y"},
        {"op": "replace", "path": "/messages/0/metadata/n", "value": 2},
    ]


def test_a_patch_of_the_state_stands_as_it_came_and_a_snapshot_as_what_is_different() -> None:
    ends = {"threadId": "thread-1", "runId": "run-1"}
    state = {"~": "x" * 500, "list": [1, 2]}
    patch: list[Json] = [
        {"op": "test", "path": "/list/0", "value": 1},
        {"op": "move", "from": "/list/0", "path": "/a~1b"},
    ]
    events: list[Json] = [
        {"type": "STATE_SNAPSHOT", "snapshot": state},
        {"type": "STATE_DELTA", "delta": patch},
        {"type": "STATE_SNAPSHOT", "snapshot": {**state, "list": [1]}},
    ]
    rows = rows_of([{"type": "RUN_STARTED", **ends}, *events])
    assert [row["o"] for row in rows[-3:]] == [
        [{"op": "replace", "path": "/state", "value": state}],
        [
            {"op": "test", "path": "/state/list/0", "value": 1},
            {"op": "move", "from": "/state/list/0", "path": "/state/a~1b"},
        ],
        [
            {"op": "remove", "path": "/state/a~1b"},
            {"op": "replace", "path": "/state/list/0", "value": 1},
        ],
    ]
    assert [each["state"] for each in conversations(rows)[-3:]] == [
        state,
        {"~": "x" * 500, "list": [2], "a/b": 1},
        {**state, "list": [1]},
    ]


def test_a_violation_stops_the_reduction_and_keeps_the_events() -> None:
    rows = rows_of(
        [
            {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "nobody's", "delta": "?"},
            {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}},
        ]
    )
    assert "EventOrderError" in rows[3]["e"]
    assert rows[4]["d"]["type"] == "STATE_SNAPSHOT"
    assert "o" not in rows[4]


def test_warnings_stand_at_their_events_with_their_rules() -> None:
    rows = rows_of(
        [
            {"type": "RUN_STARTED", "threadId": "another", "runId": "run-1"},
            {"type": "NEVER_SEEN", "a": 1},
            {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/nothing"}]},
        ]
    )
    assert [[rule for rule, *_ in row.get("w", ())] for row in rows[2:]] == [["LIFE-12"], ["PROC-7"], ["SNAP-5"]]


def test_an_input_that_cannot_be_read_is_shown_with_the_reason() -> None:
    rows = rows_of([{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}], messages=[{"role": "alien"}])
    assert "the input of request s-1.2 cannot be read" in rows[1]["e"]
    assert rows[1]["c"]["messages"] == []


def test_subagents_have_lanes_below_their_agent_and_reuse_those_that_are_free() -> None:
    def began(subagent: str, name: str, **parent: str) -> Json:
        return {"type": "SUBAGENT_STARTED", "subagentRunId": subagent, "name": name, **parent}

    rows = rows_of(
        [
            {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"},
            began("1", "reader"),
            began("2", "reader"),
            began("3", "writer", parentSubagentRunId="1"),
            {"type": "SUBAGENT_FINISHED", "subagentRunId": "2"},
            began("4", "reader"),
        ]
    )
    lanes = [(lane["name"], lane["parent"]) for row in rows for lane in row.get("lanes", ())]
    assert lanes == [("a", None), ("reader", 0), ("reader", 0), ("writer", 1)]
    assert [row.get("l") for row in rows] == [None, 0, 0, 1, 2, 3, 2, 2]


def test_a_state_as_deep_as_it_may_be_has_rows() -> None:
    ends = {"threadId": "thread-1", "runId": "run-1"}
    deep: Any = 1
    for _ in range(180):
        deep = {"a": [deep]} if _ % 2 else {"a": deep}
    path = "".join("/a" if each % 2 else "/a/0" for each in range(60))
    snapshots = [{"type": "STATE_SNAPSHOT", "snapshot": {"v": value}} for value in (deep, json.loads(json.dumps(deep)))]
    delta = {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": f"/v{path}", "value": 2}]}
    rows = rows_of([{"type": "RUN_STARTED", **ends}, *snapshots, delta])
    assert "e" not in rows[-1]


@given(st.recursive(st.none() | st.text() | st.integers(), lambda each: st.dictionaries(st.text(), each)))
def test_any_json_can_stand_in_a_script(value: Any) -> None:
    written = escaped_json(value)
    assert json.loads(written) == value
    assert not {*"<>&\u2028\u2029"} & {*written.decode()}


STORY: tuple[Turn, ...] = (
    turn(reasoning("Hm."), state({"city": "Oslo"}), tool_call("look", {"place": "Oslo"})),
    turn(text("Quiet."), patch({"op": "add", "path": "/seen", "value": True})),
)


@tool
def look(place: str) -> str:
    """Looks."""
    return f"{place} is quiet"


def test_the_page_has_every_line_and_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(*STORY, tools=[look], thread_id="t")
    agent.use(record(path)).run_agent_sync("How is <Oslo> & co.\u2028?")
    recording = Recording.read(path)
    page = inspector_page(recording).decode()
    data = page.partition('<script id="data" type="application/json">')[2].partition("</script>")[0]
    assert len(json.loads(data)["rows"]) == len(recording.lines)
    assert not {"<", ">", "&", "\u2028"} & {*data}
    assert "default-src 'none'" in page
    assert "unsafe" not in page.partition("</head>")[0].partition("<style>")[0]
    assert "http://" not in page.replace(data, "")


@pytest.mark.requirement("SET-15")
@pytest.mark.parametrize("name", sorted({*GROWING} - {"one text"}))
def test_four_times_as_many_events_take_four_times_the_work_and_the_bytes(name: str) -> None:
    """The members of metadata that grows are compared with those before, in "one text"."""
    written: dict[int, int] = {}

    def inspect(n: int) -> Callable[[], None]:
        events = stream(GROWING[name], n, other)

        def inspect_all() -> None:
            written[n] = len(json.dumps(rows_of(events)))

        return inspect_all

    inspect(3)()
    none, little, much = (lines_of(inspect(n)) for n in (1, 25, 97))
    assert much - little <= 1.15 * 3 * (little - none) + 500
    assert written[97] - written[25] <= 1.15 * 3 * (written[25] - written[1]) + 500


def test_a_surface_that_grows_is_painted_in_proportion_and_whole_at_the_end() -> None:
    items = [{"name": f"Ferry {at}"} for at in range(2_000)]
    listed = [
        {"id": "root", "component": "List", "children": {"componentId": "each", "path": "/items"}},
        {"id": "each", "component": "Text", "text": {"path": "name"}},
    ]
    first = show_surface("s", listed, {"items": items})
    events: list[Json] = [
        {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"},
        json.loads(first.model_dump_json(by_alias=True, exclude_none=True)),
    ]
    for at in range(100):
        changed = change_surface("s", path="/items/0/name", data=f"Change {at}")
        events.append(json.loads(changed.model_dump_json(by_alias=True, exclude_none=True)))
    end = EndLine(request="s-1.2", at=200, reason="ended")
    inspection = Inspection()
    rows = [json.loads(json.dumps(inspection.row(line))) for line in (HEADER, *_lines_of(events), end)]
    assert "Change 0" in rows[4]["f"][0][1]
    assert "Change 99" in rows[-1]["f"][0][1]
    assert len(json.dumps(rows)) < 5_000_000


@pytest.mark.parametrize("messages", [True, 5, "none", {"a": 1}, None])
def test_a_request_whose_messages_are_no_list_is_shown_without_them(messages: object) -> None:
    asked: Json = {"threadId": "thread-1", "runId": "run-1", "messages": messages, "state": {}}
    request: Json = {"kind": "request", "request": "s-1.2", "call": "s-1", "at": 0, "agent": {"agent_id": "a"}}
    lines: list[Json] = [HEADER.model_dump(mode="json"), {**request, "input": asked}]
    recording = Recording.parse("\n".join(map(json.dumps, lines)).encode())
    (shown,) = summary_of(recording).requests
    assert [each.summary for each in shown.rows] == ["run, messages: 0"]
