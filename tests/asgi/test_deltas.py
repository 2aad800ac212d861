"""The events that make up most of a stream have a way of their own, with the same bytes and the same checks."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from itertools import product
from typing import Any, cast

import anyio
import pytest
from ag_ui.core import (
    Event,
    EventType,
    ReasoningMessageContentEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticSerializationError

from agui_client import FunctionAgent, HttpAgent, InvalidEventError, UsageError
from agui_client._core.protocol.delta_json import delta_json
from agui_client._core.protocol.plain_json import write
from agui_client._core.verbs.sse import frame_of
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.testing import Gate

_OTHERS: list[dict[str, Any]] = [
    {},
    {"timestamp": 3, "raw_event": {"a": None, "b": float("nan")}, "metadata": {"x": None}},
    {"subagent_run_id": "s", "odd": {"kept_as": 1}},
]


@pytest.mark.parametrize("others", _OTHERS)
@pytest.mark.parametrize("delta", ["word", 'Ærøskøbing \u2028 🚢\x00"\\'])
def test_a_delta_has_the_bytes_of_the_official_encoder(delta: str, others: dict[str, Any]) -> None:
    for event in (
        TextMessageContentEvent(message_id="ü", delta=delta, **others),
        ReasoningMessageContentEvent(message_id="ü", delta=delta, **others),
        ToolCallArgsEvent(tool_call_id="ü", delta=delta, **others),
        TextMessageContentEvent.model_construct(message_id="ü", delta=delta, **others),
    ):
        assert frame_of(event) == EventEncoder().encode(event).encode()
        assert (delta_json(event) is None) == (others != {}), "the usual ones have a way of their own"


_ODD_WORDS = ["m", "\ud83d", '\x00\x1f\x7f\\"/']
_WORDS = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(_ODD_WORDS)
_CHANGES: dict[str, list[Any]] = {
    "type": [EventType.TEXT_MESSAGE_CONTENT, "TOOL_CALL_ARGS", "TEXT", None, 3],
    "timestamp": [None, 0, 5],
    "raw_event": [None, {}, {"a": None}],
    "metadata": [None, {}, {"x": 1}],
    "subagent_run_id": [None, "", "s"],
    "message_id": [None, "other", 4, "\ud83d"],
    "tool_call_id": [None, "other", 4],
    "delta": [None, "other", 4, b"x"],
    "odd": [None, 1, {"kept_as": None}],
}
_SUBCLASSES: dict[type[Any], type[Any]] = {}
for _model in (TextMessageContentEvent, ReasoningMessageContentEvent, ToolCallArgsEvent):
    _SUBCLASSES[_model] = type(f"My{_model.__name__}", (_model,), {"__annotations__": {"mine": int}, "mine": 3})


@pytest.mark.parametrize("is_subclass", [False, True])
@pytest.mark.parametrize("model", list(_SUBCLASSES))
def test_a_delta_that_was_changed_is_written_as_the_official_encoder_and_the_model_write_it(
    model: type[Any], is_subclass: bool
) -> None:
    changes = [(name, value) for name, values in _CHANGES.items() for value in values]
    for one, other in product(changes, repeat=2):
        event = _delta(_SUBCLASSES[model] if is_subclass else model, "m", "word")
        for name, value in (one, other):
            setattr(event, name, value)
        _assert_written_alike(event)


@given(st.sampled_from(list(_SUBCLASSES)), _WORDS, _WORDS)
def test_the_words_of_a_delta_are_written_as_the_official_encoder_and_the_model_write_them(
    model: type[Any], item_id: str, delta: str
) -> None:
    _assert_written_alike(_delta(model, item_id, delta))


def _delta(model: type[Any], item_id: str, delta: str) -> Any:
    values: dict[str, Any] = {"tool_call_id" if issubclass(model, ToolCallArgsEvent) else "message_id": item_id}
    return model.model_construct(**values, delta=delta)


def _assert_written_alike(event: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's, about values of other types
        assert _written(frame_of, event) == _written(lambda it: EventEncoder().encode(it).encode(), event)
        if (text := delta_json(event)) is not None:
            assert text.encode() == write(event)


def _written(encode: Callable[[Any], bytes], event: Any) -> object:
    """What an encoder makes of an event, its refusal included."""
    try:
        return encode(event)
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        return type(error)


def _assigned(**values: Any) -> TextMessageContentEvent:
    event = TextMessageContentEvent(message_id="m", delta="x")
    for name, value in values.items():
        setattr(event, name, value)
    return event


@pytest.mark.parametrize(
    "event",
    [
        _assigned(delta=4),
        _assigned(message_id=None),
        _assigned(timestamp="now"),
        TextMessageContentEvent.model_construct(message_id="m", delta=b"x"),
        TextMessageContentEvent.model_construct(message_id="m"),
    ],
)
@pytest.mark.anyio
async def test_a_delta_that_an_agent_of_this_process_has_spoiled_is_refused(event: TextMessageContentEvent) -> None:
    async def run(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield TextMessageStartEvent(message_id="m")
        yield event

    with pytest.raises(InvalidEventError):
        await FunctionAgent(run).run_agent("hello")


# --- deltas that are joined


def _streaming(*steps: Any) -> FunctionAgent:
    """An agent that sends these events, and waits for gates between them."""

    async def answer(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        for each in steps:
            if isinstance(each, Gate):
                await each.wait()
            else:
                yield each
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    return FunctionAgent(answer)


def _said(delta: str, message_id: str = "m", **more: Any) -> TextMessageContentEvent:
    return TextMessageContentEvent(message_id=message_id, delta=delta, **more)


async def _frames(agent: FunctionAgent, seconds: float, gate: Gate | None = None) -> list[str]:
    """The deltas of a response; the gate is opened once the second one has arrived."""
    url, deltas = "http://app/", list[str]()
    async with HttpAgent(url, app=agent_app(agent, coalesce=seconds)).stream("Hi") as run:
        async for event in run:
            deltas += [event.delta] if isinstance(event, TextMessageContentEvent | ToolCallArgsEvent) else []
            if gate is not None and len(deltas) == 2:
                gate.open()
    return deltas


@pytest.mark.anyio
async def test_deltas_of_one_message_that_come_together_are_one_event_and_nothing_is_lost() -> None:
    begin, end = (TextMessageStartEvent(message_id="m", role="assistant"), TextMessageEndEvent(message_id="m"))
    called = [ToolCallStartEvent(tool_call_id="c", tool_call_name="f"), ToolCallEndEvent(tool_call_id="c")]
    arguments = [ToolCallArgsEvent(tool_call_id="c", delta=each) for each in ("{", "}")]
    words = [_said(each) for each in "abcd"]
    agent = _streaming(begin, *words, _said("e", metadata={"x": 1}), _said("f"), end, called[0], *arguments, called[1])
    with anyio.fail_after(10):
        assert await _frames(agent, 5) == ["a", "bcd", "e", "f", "{}"]


@pytest.mark.anyio
async def test_a_delta_that_is_held_is_sent_in_time_though_no_other_event_comes() -> None:
    gate, begin = Gate(), TextMessageStartEvent(message_id="m", role="assistant")
    agent = _streaming(begin, _said("a"), _said("b"), _said("c"), gate, TextMessageEndEvent(message_id="m"))
    with anyio.fail_after(10):
        assert await _frames(agent, 0.02, gate) == ["a", "bc"]


@pytest.mark.parametrize(
    ("options", "problem"), [({"coalesce": 0}, "not 0"), ({"store": Store()}, "either")], ids=["0", "runs"]
)
def test_a_time_that_is_none_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        cast("Any", agent_app)(_streaming(), **{"coalesce": 0.03, **options})
