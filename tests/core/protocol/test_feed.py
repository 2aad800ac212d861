"""Both ways through the pipeline do the same: `feed`, and the stated order, which subscribers' events take."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from agui_client import Change, Reducer
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.schema import EVENT_MODELS
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import ProtocolError

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client._core.protocol.events import WireEvent

Way: TypeAlias = Callable[[Pipeline, "WireEvent"], "Iterable[tuple[Event, Change]]"]
"""Takes an event through a pipeline; yields what leaves it, and the parts of the conversation that changed."""

CALL, MESSAGE, THOUGHT, SUBAGENT = ({f"{name}Id": "1"} for name in ("toolCall", "message", "message", "subagentRun"))
MEMBERS: dict[str, dict[str, Any]] = {
    "ACTIVITY_DELTA": {"messageId": "a", "activityType": "PLAN", "patch": [{"op": "add", "path": "/x", "value": 2}]},
    "ACTIVITY_SNAPSHOT": {"messageId": "a", "activityType": "PLAN", "content": {"x": 1}},
    "CUSTOM": {"name": "on_interrupt", "value": {"why": None}},
    "MESSAGES_SNAPSHOT": {"messages": [{"id": "u", "role": "user", "content": "Hi"}]},
    "RAW": {"event": {"a": [1]}, "source": "provider"},
    "REASONING_ENCRYPTED_VALUE": {"subtype": "message", "entityId": "1", "encryptedValue": "secret"},
    "REASONING_END": THOUGHT,
    "REASONING_MESSAGE_CHUNK": {**THOUGHT, "delta": "Hm"},
    "REASONING_MESSAGE_CONTENT": {**THOUGHT, "delta": "Hm"},
    "REASONING_MESSAGE_END": THOUGHT,
    "REASONING_MESSAGE_START": {**THOUGHT, "role": "reasoning"},
    "REASONING_START": THOUGHT,
    "RUN_ERROR": {"message": "out of tokens"},
    "RUN_FINISHED": {"threadId": "thread-1", "runId": "run-1", "result": {"n": 1}},
    "RUN_STARTED": {"threadId": "thread-1", "runId": "run-1", "protocolVersion": "9.9"},
    "STATE_DELTA": {"delta": [{"op": "add", "path": "/x", "value": 2}]},
    "STATE_SNAPSHOT": {"snapshot": {"x": 1}},
    "STEP_FINISHED": {"stepName": "look"},
    "STEP_STARTED": {"stepName": "look"},
    "SUBAGENT_ERROR": {**SUBAGENT, "message": "lost"},
    "SUBAGENT_FINISHED": SUBAGENT,
    "SUBAGENT_STARTED": {**SUBAGENT, "name": "scout"},
    "TEXT_MESSAGE_CHUNK": {**MESSAGE, "delta": "Hi"},
    "TEXT_MESSAGE_CONTENT": {**MESSAGE, "delta": "Hi", "metadata": {"acme": 1}},
    "TEXT_MESSAGE_END": MESSAGE,
    "TEXT_MESSAGE_START": {**MESSAGE, "role": "assistant"},
    "TOOL_CALL_ARGS": {**CALL, "delta": "{}"},
    "TOOL_CALL_CHUNK": {**CALL, "toolCallName": "look", "delta": "{}"},
    "TOOL_CALL_END": CALL,
    "TOOL_CALL_RESULT": {**CALL, "messageId": "r", "content": "18 degrees"},
    "TOOL_CALL_START": {**CALL, "toolCallName": "look"},
}
"""The members of an event of each type."""
SPOILED = {"x-future": 1, "timestamp": None}
"""Members that validation strips or rejects."""
BEFORE = {
    "at the beginning": [],
    "in a run": ["RUN_STARTED"],
    "in a message": ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"],
    "in a call": ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS"],
    "in a thought": ["RUN_STARTED", "REASONING_START", "REASONING_MESSAGE_START"],
    "among chunks": ["RUN_STARTED", "TEXT_MESSAGE_CHUNK"],
    "with all that is open": ["RUN_STARTED", "STEP_STARTED", "SUBAGENT_STARTED", "ACTIVITY_SNAPSHOT", "STATE_SNAPSHOT"],
    "after the run": ["RUN_STARTED", "RUN_FINISHED"],
    "after a failure": ["RUN_STARTED", "RUN_ERROR"],
}


def _fed(pipeline: Pipeline, event: WireEvent) -> Iterable[tuple[Event, Change]]:
    seen: list[tuple[Event, Change]] = []
    for _ in pipeline.feed(event, lambda each, change: seen.append((each, change))):
        yield seen.pop()
    assert not seen


def _stated(pipeline: Pipeline, event: WireEvent) -> Iterable[tuple[Event, Change]]:
    return ((each, pipeline.apply(each)) for each in pipeline.admitted(event))


def _unwatched(pipeline: Pipeline, event: WireEvent) -> Iterable[tuple[Event, Change]]:
    return ((each, Change.NONE) for each in pipeline.feed(event))


def _shown(events: Iterable[Event]) -> list[object]:
    return [(type(each), each.model_dump(by_alias=True), sorted(each.model_fields_set)) for each in events]


def judged(way: Way, events: list[dict[str, Any]], *, is_conforming: bool = True) -> tuple[list[object], list[Change]]:
    """Take a stream one way; return everything that can be seen of it, and the changes."""
    log = WarningLog()
    reducer, decode = Reducer(warnings=log), Decoder(log).feed
    pipeline = Pipeline(reducer, log)
    pipeline.is_conforming = is_conforming
    pipeline.verifier.begin("thread-1", "another run")
    left: list[tuple[Event, Change]] = []
    error = None
    try:
        for event in events:
            left.extend(way(pipeline, decode(json.dumps(event))))
    except ProtocolError as raised:
        error = (type(raised), raised.rule, str(raised))
    outcome = pipeline.outcome
    ended = (outcome.started, outcome.finished, outcome.error, outcome.tool_call_ids, outcome.text_message_ids)
    reduced = copy.deepcopy((reducer.messages, reducer.state))
    seen: list[object] = [_shown(each for each, _ in left), reduced, log.records(), error, ended, pipeline.count]
    return seen, [change for _, change in left]


def test_there_is_an_event_of_each_type() -> None:
    assert MEMBERS.keys() == EVENT_MODELS.keys()


@pytest.mark.parametrize("name", MEMBERS)
def test_an_event_of_each_type_leaves_both_ways_as_the_same(name: str) -> None:
    for before, earlier in BEFORE.items():
        events = [{"type": each, **MEMBERS[each]} for each in (*earlier, name, "CUSTOM")]
        stated, changes = judged(_stated, events)
        assert judged(_fed, events) == (stated, changes), before
        assert judged(_unwatched, events)[0] == stated, before
        assert judged(_fed, events, is_conforming=False) == judged(_stated, events, is_conforming=False), before
        events[-2].update(SPOILED)
        assert judged(_fed, events) == judged(_stated, events), before
