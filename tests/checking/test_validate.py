"""`validate` finds all faults of a stream in one reading, wherever its events come from."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    CustomEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    UserMessage,
)

import agui_client
from agui_client import HttpAgent, StreamFault, UnrecognizedEvent, UsageError, validate
from agui_client._core.protocol.rules import rule_of
from agui_client.recording import Recording, record
from agui_client.testing import ScriptedAgent, assert_conforms, serve_bytes, sse, text, tool_call, turn

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
SPOILED: list[dict[str, Any]] = [
    STARTED,
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hi"},
    {"type": "CUSTOM", "name": "x", "value": 1, "extra": True},
    {"type": "CUSTOM", "name": "x"},
    FINISHED,
]
RULES = [("STREAM-1", 1), ("PROC-8", 2), ("PROC-6", 3)]
"""The rules that these events break, with the positions of the events."""


FaultCase: TypeAlias = tuple[list[dict[str, Any]], list[tuple[str, int, int]]]

ANOTHER = [{**STARTED, "runId": "another"}, {**FINISHED, "runId": "another"}]


def within(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """Events inside a run."""
    return [STARTED, *events, FINISHED]


def rules(faults: list[StreamFault]) -> list[tuple[str, int | None]]:
    return [(fault.rule, fault.event_index) for fault in faults]


def as_lines(events: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dicts": list,
    "iterator": iter,
    "unrecognized": lambda events: [UnrecognizedEvent(event["type"], event) for event in events],
    "sse": lambda events: sse(*events),
    "sse, CR LF": lambda events: sse(*events, newline="\r\n"),
    "sse text": lambda events: sse(*events).decode(),
    "frames": lambda events: [sse(event).decode() for event in events],
    "lines of a response": lambda events: sse(*events).decode().split("\n"),
    "bytes cut anywhere": lambda events: [bytes([each]) for each in sse(*events)],
    "json lines": as_lines,
    "json lines, one by one": lambda events: [json.dumps(event) for event in events],
    "array": json.dumps,
    "indented array": lambda events: json.dumps(events, indent=2).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_events_are_found_at_fault_in_every_form(form: str) -> None:
    source: Iterable[Any] = FORMS[form](SPOILED)
    assert rules(validate(source)) == RULES


def test_typed_events_are_judged_like_those_of_the_wire() -> None:
    started, finished = RunStartedEvent(thread_id="t", run_id="r"), RunFinishedEvent(thread_id="t", run_id="r")
    orphan = TextMessageContentEvent(message_id="m", delta="Hi")
    wrong = CustomEvent.model_construct(name=5, value=None)
    assert rules(validate([started, orphan, wrong, finished])) == [("STREAM-1", 1), ("PROC-6", 2)]
    assert validate([started, finished]) == []


@pytest.mark.anyio
async def test_async_iterables_are_awaited() -> None:
    async def events() -> AsyncIterator[dict[str, Any]]:
        for event in SPOILED:
            yield event

    assert rules(await validate(events())) == RULES
    agent = ScriptedAgent(turn(text("Hi"), tool_call("look", {})))
    assert await validate(agent.run(RunAgentInput(thread_id="t", run_id="r", messages=[]))) == []


@pytest.mark.anyio
async def test_a_stream_that_cannot_be_decoded_any_further_ends_with_that_fault() -> None:
    with serve_bytes(sse(STARTED) + b"data: {nope\n\n") as server:
        faults = await validate(HttpAgent(server.url).run(RunAgentInput(thread_id="t", run_id="r", messages=[])))
    assert [fault.rule for fault in faults] == ["PROC-12"]


@pytest.mark.anyio
async def test_the_event_loop_has_its_turns_while_a_long_stream_is_judged() -> None:
    async def stream() -> AsyncIterator[dict[str, Any]]:
        for event in within(*[{"type": "CUSTOM", "name": "n", "value": 1}] * 6000):
            yield event

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        assert await validate(stream()) == []
        tasks.cancel_scope.cancel()
    assert turns > 3  # the threads take turns of 5 ms, and there is none where the loop judges


def test_a_fault_has_its_event_its_place_and_a_remedy() -> None:
    body = b": hello\n\n" + sse(STARTED, {"type": "CUSTOM", "name": "x", "value": {"password": "hush"}, "more": 1})
    [fault, cut] = validate(body)
    assert fault == StreamFault(
        rule="PROC-8",
        severity="warning",
        problem="unknown property /more of CUSTOM stripped",
        fix="leave the property out, or put it into `metadata`; check its spelling (camelCase)",
        event='{"type":"CUSTOM","name":"x","value":{"password":"[redacted]"},"more":1}',
        event_index=1,
        event_type="CUSTOM",
        path="/more",
        line=5,
        byte=body.index(b"data: ", 20),
    )
    assert (cut.rule, cut.severity, cut.event, cut.event_index, cut.line) == ("TRUNC-1", "error", "", None, None)
    assert str(fault).splitlines() == [f"warning PROC-8: {fault.problem}", f"  {fault.event}", f"  fix: {fault.fix}"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"type":"A"}\n\n{"type":"B"}\n', [(1, 0), (3, 14)]),
        ('[\n {"type":"Ä"},\n {"type":"B"}\n]', [(2, 3), (3, 19)]),
        ('\ufeff{"type":"A"} {"type":"B"}', [(1, 3), (1, 16)]),
        ('data: {"type":"A"}\n\n: x\nid: 4\ndata: {"type":"B"}\n\n', [(1, 0), (5, 30)]),
        ('data: {"type":"A"}\r\n\r\nevent: x\r\ndata: {"type":"B"}', [(1, 0), (4, 32)]),
    ],
    ids=["lines", "array", "mark", "sse", "CR LF"],
)
def test_places_are_lines_from_1_and_bytes_from_0(text: str, places: list[tuple[int, int]]) -> None:
    found = [(fault.line, fault.byte) for fault in validate(text.encode()) if fault.rule == "PROC-7"]
    assert found == places


SPOILED_ONCE: list[FaultCase] = [
    # An item without its beginning is one fault, however many events it has.
    (
        within(
            *[{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}] * 3,
            {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        ),
        [("STREAM-1", 1, 4)],
    ),
    # So is one whose beginning is malformed.
    (
        within(
            {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": 5},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"},
            {"type": "TOOL_CALL_END", "toolCallId": "c"},
        ),
        [("PROC-6", 1, 3)],
    ),
    # A run that may not finish yet counts as finished, and one that is malformed as begun.
    ([*within({"type": "STEP_STARTED", "stepName": "s"}), *ANOTHER], [("LIFE-5", 2, 1)]),
    ([{"type": "RUN_STARTED", "threadId": "t"}, *within()[1:]], [("PROC-6", 0, 1)]),
    ([STARTED, {"type": "RUN_FINISHED", "threadId": "t"}, *ANOTHER], [("PROC-6", 1, 1)]),
    # A missing RUN_STARTED is one fault, and so is one that comes late.
    (
        [{"type": "STEP_STARTED", "stepName": "s"}, {"type": "STEP_FINISHED", "stepName": "s"}, FINISHED],
        [("LIFE-1", 0, 2)],
    ),
    ([{"type": "STATE_SNAPSHOT", "snapshot": {}}, STARTED, FINISHED], [("LIFE-1", 0, 1)]),
    ([FINISHED], [("LIFE-1", 0, 1)]),
    # All that comes behind the end is one fault.
    (
        [*within(), {"type": "STEP_STARTED", "stepName": "s"}, {"type": "CUSTOM", "name": "x", "value": 1}],
        [("LIFE-3", 2, 2)],
    ),
    # A tag that disagrees leaves its item as it was.
    (
        within(
            {"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "a"},
            {"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": "b"},
        ),
        [("SUB-3", 2, 1)],
    ),
]


@pytest.mark.parametrize(
    ("events", "found"),
    SPOILED_ONCE,
    ids=[
        "no START",
        "malformed START",
        "open step",
        "malformed RUN_STARTED",
        "malformed RUN_FINISHED",
        "no RUN_STARTED",
        "late RUN_STARTED",
        "only RUN_FINISHED",
        "behind the end",
        "wrong tag",
    ],
)
def test_a_fault_is_found_without_what_follows_from_it(
    events: list[dict[str, Any]], found: list[tuple[str, int, int]]
) -> None:
    assert [(fault.rule, fault.event_index, fault.count) for fault in validate(events)] == found


def test_a_name_that_reads_like_advice_is_not_cut() -> None:
    [fault] = validate(within({"type": "STEP_FINISHED", "stepName": "load; raise limits"}))
    assert fault.problem.endswith("finished step 'load; raise limits' of the parent agent that was not started")


def test_each_fault_of_an_event_is_named() -> None:
    malformed = {"type": "TOOL_CALL_START", "toolCallId": 5, "toolCallName": None, "timestamp": None}
    many = {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": str(at), "role": "user"} for at in range(3)]}
    left = [{"type": "STEP_STARTED", "stepName": "s"}, {"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "n"}]
    faults = validate([STARTED, malformed, many, *left, {**FINISHED, "runId": "x"}, *ANOTHER])
    assert [(each.rule, each.path, each.event_index, each.count) for each in faults] == [
        ("PROC-17", "/timestamp", 1, 1),
        ("PROC-6", "/toolCallId", 1, 1),
        ("PROC-6", "/toolCallName", 1, 1),
        ("PROC-6", "/messages/0/content", 2, 1),
        ("LIFE-5", None, 5, 1),
        ("SUB-7", None, 5, 1),
        ("LIFE-12", "/runId", 5, 1),
    ]
    assert faults[1].problem == "TOOL_CALL_START (event 1) is malformed: /toolCallId should be a valid string, got 5"
    assert len({each.fix for each in faults}) > 3


@pytest.mark.parametrize(("arguments", "found"), [("{}", []), ("", []), ("[1]", []), ('{"a": 1', [("TOOL-2", 3)])])
@pytest.mark.requirement("TOOL-2")
def test_arguments_that_are_no_json_are_an_advice(arguments: str, found: list[tuple[str, int]]) -> None:
    called = within(
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": arguments},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
    )
    faults = validate(called)
    assert rules(faults) == found
    assert {fault.severity for fault in faults} <= {"advice"}
    assert_conforms(called)


def test_each_rule_that_is_named_has_a_remedy_of_its_own_or_of_its_family() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(agui_client.__file__).parent.rglob("*.py")]
    named = {rule for source in sources for rule in re.findall(r'"([A-Z]+-\d+)"', source)}
    ours = ("INPUT-3", "PASS", "SEC", "PROC")  # warnings about what this side did, and the family of all others
    assert not [each for each in named if rule_of(each) == rule_of("PROC-6") and not each.startswith(ours)]


def test_faults_of_different_items_are_faults_of_their_own() -> None:
    orphans = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": each, "delta": "x"} for each in "ab"]
    assert rules(validate(within(*orphans))) == [("STREAM-1", 1), ("STREAM-1", 2)]


def test_a_flood_of_faults_is_cut_short() -> None:
    orphans = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": str(each), "delta": "x"} for each in range(1200)]
    faults = validate(within(*orphans))
    assert (len(faults), faults[-1].rule, faults[-1].count) == (1001, "more", 200)


def test_what_depends_on_a_state_from_before_is_judged_with_the_input_only() -> None:
    delta = {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/a", "value": 2}]}
    events = within(delta)
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], state={"a": 1})
    without = given.model_copy(update={"state": {}})
    assert validate(events) == validate(events, input=given) == []
    assert rules(validate(events, input=without)) == [("SNAP-5", 1)]
    assert rules(validate(within({"type": "STATE_SNAPSHOT", "snapshot": {}}, delta))) == [("SNAP-5", 2)]


def test_ids_are_compared_with_the_input_and_a_mismatch_is_an_error_if_strict() -> None:
    given = RunAgentInput(thread_id="t", run_id="other", messages=[])
    assert [fault.severity for fault in validate(within(), input=given)] == ["warning"]
    assert [fault.rule for fault in validate(within(), input=given, strict=True)] == ["LIFE-12"]
    second = [{**event, "threadId": "t-2", "runId": "r-2"} for event in within()]
    assert rules(validate([*within(), *second])) == [("LIFE-12", 2)]


def test_nulls_are_errors_unless_they_are_to_be_dropped() -> None:
    events = within(
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "name": None}, {"type": "TEXT_MESSAGE_END", "messageId": "m"}
    )
    assert [(fault.rule, fault.severity, fault.count) for fault in validate(events)] == [("PROC-17", "error", 2)]
    dropped = validate(events, null_fields="drop")
    assert [(fault.rule, fault.severity, fault.count) for fault in dropped] == [("PROC-17", "warning", 1)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", ["TRUNC-1"]),
        (b"\xef\xbb\xbf\r\n: a comment\n\n", ["TRUNC-1"]),
        (sse(STARTED) + b"data: \xff\n\n" + sse(FINISHED), ["PROC-12"]),
        (sse(STARTED) + b'data: {"type": "RUN_FIN', ["TRUNC-1"]),
        (sse(*within()).removesuffix(b"\n\n"), []),
        (
            as_lines([STARTED]).encode() + b'{"type": "\xff"}\n5\nnope\n' + as_lines([FINISHED]).encode(),
            ["PROC-12"] * 3,
        ),
        (as_lines([STARTED]).encode() + b'{"type": "RUN_FIN', ["TRUNC-1"]),
        (b'data: {"a": 1}\n\n', ["PROC-12", "TRUNC-1"]),
        (b"[]", ["TRUNC-1"]),
        (b"[" * 100_000, ["TRUNC-1"]),
        (b'{"a":' * 100_000, ["TRUNC-1"]),
    ],
    ids=[
        "nothing",
        "a comment",
        "no UTF-8",
        "cut frame",
        "no blank line",
        "lines",
        "cut line",
        "no type",
        "no events",
        "brackets",
        "deep",
    ],
)
def test_bytes_that_are_no_event_are_faults(body: bytes, found: list[str]) -> None:
    assert [fault.rule for fault in validate(body)] == found


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [pytest.param(nested(100_000), id="nested"), pytest.param(10**5000, id="number")])
def test_an_object_that_python_cannot_write_is_a_fault(value: Any) -> None:
    faults = validate(within({"type": "CUSTOM", "name": "n", "value": value}))
    assert [(fault.rule, fault.event_index) for fault in faults] == [("PROC-12", 1)]


def test_the_time_for_lines_that_are_no_json_grows_with_their_number() -> None:
    line = b'{"type": "' + b"x" * 4000
    seconds: list[float] = []
    for body in ((b"data: " + line + b"\n\n") * 1000, (line + b"\n") * 1000):
        begun = time.process_time()
        assert [(fault.rule, fault.count) for fault in validate(body)] == [("PROC-12", 1000), ("TRUNC-1", 1)]
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 3 * seconds[0]


def test_the_time_for_events_on_one_line_grows_with_their_number() -> None:
    event = b'{"type": "CUSTOM", "name": "n", "value": [[]]}'
    seconds: list[float] = []
    for separator in (b"\n", b" "):
        begun = time.process_time()
        assert [(fault.rule, fault.count) for fault in validate((event + separator) * 3_000)][-1] == ("TRUNC-1", 1)
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 3 * seconds[0]


@pytest.mark.parametrize("filler", [b"\n", b"\r\n", b":\n\n"], ids=["LF", "CR LF", "comments"])
def test_blank_lines_and_comments_cost_next_to_nothing(filler: bytes) -> None:
    frames = sse({"type": "FUTURE"}) * 4_000
    seconds: list[float] = []
    for body in (frames, filler * (len(frames) // len(filler))):
        begun = time.process_time()
        assert validate(sse(STARTED) + body + sse(FINISHED))[1:] == []
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 3 * seconds[0]


def test_recordings_are_checked_request_by_request_with_their_inputs(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with serve_bytes(sse(*within({"type": "FUTURE"}))) as server:
        agent = HttpAgent(server.url, thread_id="t")
        agent.use(record(path))
        for _ in range(2):
            agent.run_agent_sync("Hi", run_id="r")
    keys = [exchange.request.request for exchange in Recording.read(path).exchanges]
    packed = tmp_path / "run.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for source in (path, packed, path.read_bytes(), path.read_text(encoding="utf-8"), Recording.read(path)):
        assert [(fault.rule, fault.request) for fault in validate(source)] == [("PROC-7", key) for key in keys]


def test_a_run_that_was_left_is_not_called_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(turn(text("Hello you"))).use(record(path))
    with agent.stream_sync("Hi") as run:
        next(iter(run))
    assert validate(path) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("run.jsonl", r"give Path\(\.\.\.\) for a file"),
        (STARTED, "not a dict; give a list of them"),
        (RunStartedEvent(thread_id="t", run_id="r"), "give a list of them"),
        (5, r"not a int; such as agent\.run\(input\)"),
        ([STARTED, 5], "item 1 is not an event, but of type int"),
        ("<html>\nBad Gateway\n", "the text is neither an event stream nor a recording"),
        (Path("missing.jsonl"), "missing.jsonl cannot be read: No such file"),
    ],
    ids=["name", "dict", "event", "number", "item", "other", "missing"],
)
def test_what_holds_no_events_is_refused_with_what_to_give(source: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        validate(source)


@pytest.mark.anyio
async def test_a_test_refuses_events_that_are_still_to_come() -> None:
    agent = ScriptedAgent(turn(text("Hi")))
    input = RunAgentInput(thread_id="t", run_id="r", messages=[])
    with pytest.raises(UsageError, match="takes a list of events"):
        assert_conforms(agent.run(input))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_conforms([event async for event in agent.run(input)], input=input)


def test_a_test_fails_with_every_rule_event_and_remedy() -> None:
    assert_conforms(within())
    assert_conforms(within({"type": "FUTURE"}), allow_warnings=True)
    with pytest.raises(AssertionError) as caught:
        assert_conforms(SPOILED)
    assert [line for line in str(caught.value).splitlines() if not line.startswith("  ")] == [
        "the stream breaks the protocol",
        *(str(fault).splitlines()[0] for fault in validate(SPOILED)),
    ]


@pytest.mark.requirement("LIFE-15", "SET-29")
def test_an_id_of_an_earlier_run_or_message_is_named(tmp_path: Path) -> None:
    def run(number: int, *events: dict[str, Any]) -> list[dict[str, Any]]:
        ids = {"threadId": "t", "runId": f"r{number}"}
        return [{"type": "RUN_STARTED", **ids}, *events, {"type": "RUN_FINISHED", **ids}]

    def said(name: str) -> list[dict[str, Any]]:
        return [
            {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": "Hi"},
            {"type": "TEXT_MESSAGE_END", "messageId": name},
        ]

    def called(name: str) -> list[dict[str, Any]]:
        start = {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": "look", "parentMessageId": f"of {name}"}
        result = {"type": "TOOL_CALL_RESULT", "toolCallId": name, "messageId": f"result {name}", "content": "1"}
        return [start, {"type": "TOOL_CALL_END", "toolCallId": name}, result]

    def found(*events: dict[str, Any], **options: Any) -> list[tuple[str, str, int | None]]:
        faults = validate([*events], **options)
        return [(each.rule, each.problem.split(" has the id of ")[0], each.event_index) for each in faults]

    assert found(*run(1, *said("a"), *called("c")), *run(2, *said("b"), *called("d"))) == []
    # A message that a tool call began is continued by its text in the same run.
    assert found(*run(1, *called("c"), *said("of c"))) == []
    again = [*run(1, *said("a"), *called("c")), *run(2, *said("a"), *called("c"))]
    assert found(*again) == [
        ("LIFE-15", "text message 'a'", 9),
        ("LIFE-15", "tool call 'c'", 12),
        ("LIFE-15", "tool result 'result c'", 14),
    ]
    asked = RunAgentInput(thread_id="t", run_id="r1", messages=[UserMessage(id="u", content="Hi")])
    glued, fault = validate(run(1, *said("u")), input=asked)
    assert (glued.rule, fault.rule, fault.severity) == ("STREAM-5", "LIFE-15", "warning")
    assert glued.problem == "TEXT_MESSAGE_START continues user message 'u'; its role stands"
    assert fault.problem.endswith("has the id of a message of the user of an earlier run or message of the thread")
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "u", "delta": "Hi"}
    assert ("LIFE-15", "text message 'u'", 1) in found(*run(1, chunk), input=asked)
    # A run and a message may have one id, and earlier runs may be sent again before the own one (LIFE-13).
    assert found(*run(1, *said("r1")), *run(2), *run(1)) == [("LIFE-15", "run 'r1'", 7)]
    assert found(*run(2), *run(1), input=asked) == []


def test_a_recording_names_ids_that_come_again_in_a_later_answer(tmp_path: Path) -> None:
    agent = ScriptedAgent(turn(text("one", message_id="m")), turn(text("two", message_id="m")))
    recorded = agent.use(record(tmp_path / "x.jsonl"))
    for prompt in ("Hi", "Bye"):
        recorded.run_agent_sync(prompt)
        recorded.set_messages([])  # as a client that sends the latest prompt only
    (fault,) = validate(tmp_path / "x.jsonl")
    assert (fault.rule, fault.request is None) == ("LIFE-15", False)


def test_events_without_a_blank_line_between_them_are_read_and_named() -> None:
    stream = sse(turn(text("Hello"))).decode()
    joined = stream.replace("\n\n", "\n")
    for spoiled in (joined, f"{joined}\n", joined.replace("\n", "\r\n")):
        (fault,) = validate(spoiled)
        assert (fault.rule, fault.severity, fault.line) == ("SSE-4", "error", 2)
        assert fault.count == stream.count("data: ") - 1
        assert "end each frame with a blank line" in fault.fix
    # Lines of one event are one event.
    assert validate(stream.replace('"type"', '\ndata: "type"', 1)) == []
