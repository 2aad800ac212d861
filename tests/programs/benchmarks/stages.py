"""The stages without any I/O: preparing a run, snapshots, patches, and how costs grow with the size of a thread."""

from __future__ import annotations

import gc
import json
import math
from typing import TYPE_CHECKING, Any

from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    Message,
    RunAgentInput,
    StateDeltaEvent,
    StateSnapshotEvent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic import TypeAdapter

from agui_client import Change, Reducer
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.request import prepare_input, request_body
from agui_client._core.protocol.warnings import WarningLog
from programs.benchmarks.measure import Row, Work, best_times, per_event, without_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MESSAGES = 5_000
_LINEAR = 1.15
_SMALL, _LARGE = 1_000, 4_000
_PATCHES = 1_000

_events: TypeAdapter[Event] = TypeAdapter(Event)


def preparing(repeat: int) -> list[Row]:
    """Preparing and writing a run input with a long history."""
    given = RunAgentInput(thread_id="t", run_id="r", messages=_history(), state={}, tools=[], context=[])
    plain = json.loads(given.model_dump_json(by_alias=True))

    def prepare() -> None:
        assert request_body(prepare_input(given, WarningLog(), is_copied=False))

    ours, dumps = best_times(repeat, prepare, lambda: json.dumps(plain))
    return [Row("preparing and writing a run, 5 k messages", ours / dumps, 5, "json.dumps", _milliseconds(ours, dumps))]


def snapshot(repeat: int) -> list[Row]:
    """A snapshot of a long history, from the text of its frame to the messages."""
    messages = [message.model_dump(by_alias=True) for message in _history()]
    frames = [_STARTED, json.dumps({"type": "MESSAGES_SNAPSHOT", "messages": messages})]

    kept: list[object] = []

    def reduce() -> None:
        kept.append(reducer := _reduced(frames))
        assert len(reducer.messages) == _MESSAGES

    def validate() -> None:
        kept.append(_events.validate_json(frames[1]))

    def row(collector: str, limit: float) -> Row:
        ours, bare = best_times(repeat, reduce, validate)
        kept.clear()
        what = f"a snapshot of 5 k messages that stay, collector {collector}"
        return Row(what, ours / bare, limit, "validate_json", _milliseconds(ours, bare))

    with without_collector():
        rows = [row("off", 2)]
    return [*rows, row("on", 4)]


def flat_lists(repeat: int) -> list[Row]:
    """One patch at a time on a list nobody has looked at in between."""
    long, short = best_times(repeat, _patched(100_000), _patched(100))
    absolute = per_event(long, short, _PATCHES)
    return [Row("1 k patches of a flat list of 100 k, unseen", long / short, 2, "a list of 100", absolute)]


def growth(repeat: int) -> list[Row]:
    """The exponent of the cost in the size: 1 is linear, 2 quadratic.

    Without the garbage collector, which now and then walks over all that is alive.
    """
    works: list[tuple[str, Callable[[int], list[str]]]] = [
        ("calls and results on one message", _calls_on_one_message),
        ("calls first, results afterwards", _late_results),
        ("tool rounds", _tool_rounds),
        ("a list state that grows", _growing_state),
        ("chunk lanes", _chunk_lanes),
        ("snapshots between activities", _snapshots_between_activities),
    ]
    gc.collect()
    with without_collector():
        return [_growth_row(repeat, work, frames) for work, frames in works]


def _growth_row(repeat: int, work: str, frames: Callable[[int], list[str]]) -> Row:
    small, large = frames(_SMALL), frames(_LARGE)
    short, long = best_times(repeat, lambda: _reduced(small), lambda: _reduced(large))
    exponent = math.log(long / short) / math.log(_LARGE / _SMALL)
    return Row(f"growth: {work}", exponent, _LINEAR, "exponent", _milliseconds(long, short))


def looking_at_warnings(repeat: int) -> list[Row]:
    """Looking at a full log of warnings again and again."""
    log = WarningLog()
    for index in range(300):
        log.add(f"RULE-{index}", "Something was skipped.")
    looks, copy = best_times(repeat, _again(log.records, 1_000), _again(log.records().copy, 1_000))
    return [Row("looking at 200 warnings", looks / copy, 5, "copying a list", per_event(looks, copy, 1_000))]


def _again(work: Work, times: int) -> Work:
    def repeated() -> None:
        for _ in range(times):
            work()

    return repeated


def _reduced(frames: Sequence[str]) -> Reducer:
    """Feed frames to the stages, as a run does."""
    log = WarningLog()
    decode, reducer = Decoder(log).feed, Reducer(warnings=log)
    pipeline = Pipeline(reducer, log)
    pipeline.is_conforming = True
    pipeline.verifier.begin("t", "r")
    for frame in frames:
        for _ in pipeline.feed(decode(frame)):
            pass
    assert not log.records(), log.records()
    return reducer


def _frame(event_type: str, **members: Any) -> str:
    return json.dumps({"type": event_type, **members})


_STARTED = _frame("RUN_STARTED", threadId="t", runId="r")


def _call(message_id: str, call_id: str) -> list[str]:
    return [
        _frame("TOOL_CALL_START", toolCallId=call_id, toolCallName="look", parentMessageId=message_id),
        _frame("TOOL_CALL_ARGS", toolCallId=call_id, delta='{"town": 1}'),
        _frame("TOOL_CALL_END", toolCallId=call_id),
    ]


def _result(call_id: str) -> str:
    return _frame("TOOL_CALL_RESULT", messageId=f"result-{call_id}", toolCallId=call_id, content="sunny")


def _calls_on_one_message(size: int) -> list[str]:
    calls = [[*_call("m", f"c{index}"), _result(f"c{index}")] for index in range(size)]
    return [_STARTED, *(frame for call in calls for frame in call)]


def _late_results(size: int) -> list[str]:
    calls = [frame for index in range(size) for frame in _call(f"m{index}", f"c{index}")]
    return [_STARTED, *calls, *(_result(f"c{index}") for index in range(size))]


def _tool_rounds(size: int) -> list[str]:
    rounds = [
        [
            _frame("TEXT_MESSAGE_START", messageId=f"m{index}"),
            _frame("TEXT_MESSAGE_CONTENT", messageId=f"m{index}", delta="Looking."),
            _frame("TEXT_MESSAGE_END", messageId=f"m{index}"),
            *_call(f"m{index}", f"c{index}"),
            _result(f"c{index}"),
        ]
        for index in range(size)
    ]
    return [_STARTED, *(frame for each in rounds for frame in each)]


def _growing_state(size: int) -> list[str]:
    deltas = [
        _frame("STATE_DELTA", delta=[{"op": "add", "path": "/rows/-", "value": {"n": index}}]) for index in range(size)
    ]
    return [_STARTED, _frame("STATE_SNAPSHOT", snapshot={"rows": []}), *deltas]


def _chunk_lanes(size: int) -> list[str]:
    chunks = [
        _frame("TEXT_MESSAGE_CHUNK", messageId=f"m{index}", delta=delta, subagentRunId=f"s{index}")
        for delta in ("Hello", "world")
        for index in range(size)
    ]
    return [_STARTED, *chunks]


def _snapshots_between_activities(size: int) -> list[str]:
    frames = [_STARTED]
    for index in range(size):
        frames.append(_frame("ACTIVITY_SNAPSHOT", messageId=f"a{index}", activityType="MAP", content={}))
        prompt = {"id": f"u{index}", "role": "user", "content": "Hello"}
        frames.append(_frame("MESSAGES_SNAPSHOT", messages=[prompt]))
    return frames


def _patched(size: int) -> Work:
    reducer = Reducer()
    reducer.feed(StateSnapshotEvent(snapshot=[0] * size))
    operations = [{"op": "replace", "path": f"/{index % 100}", "value": index} for index in range(_PATCHES)]
    events = [StateDeltaEvent.model_validate({"delta": [operation]}) for operation in operations]

    def patch() -> None:
        for event in events:
            assert reducer.feed(event) is Change.STATE

    return patch


def _history() -> list[Message]:
    """Questions, calls, results and answers."""
    messages: list[Message] = []
    for index in range(_MESSAGES // 4):
        call = ToolCall(id=f"c{index}", function=FunctionCall(name="weather", arguments='{"town": "Oslo"}'))
        messages += [
            UserMessage(id=f"u{index}", content=f"What is the weather in town {index}?"),
            AssistantMessage(id=f"a{index}", tool_calls=[call]),
            ToolMessage(id=f"t{index}", tool_call_id=call.id, content='{"sunny": true}'),
            AssistantMessage(id=f"b{index}", content=f"It is sunny in town {index}, as it was yesterday."),
        ]
    return messages


def _milliseconds(ours: float, theirs: float) -> str:
    return f"{ours * 1e3:.1f} / {theirs * 1e3:.1f} ms"
