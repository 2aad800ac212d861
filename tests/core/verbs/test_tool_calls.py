"""Tool calls while they stream: what can be read of their arguments so far (TOOL-1, TOOL-2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import MessagesSnapshotEvent, ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from agui_client import AGUIError, ToolArgumentsError, tool
from agui_client.testing import ScriptedAgent, tool_call, turn

TRIP = {"city": "Oslo", "days": [1, 2], "note": "by the sea"}


@tool
def plan(n: int) -> None:
    """Plan something."""


def streamed(*pieces: str, tool_call_id: str = "call-1") -> list[Any]:
    """A call whose arguments come in these pieces."""
    return [
        ToolCallStartEvent(tool_call_id=tool_call_id, tool_call_name="plan"),
        *(ToolCallArgsEvent(tool_call_id=tool_call_id, delta=piece) for piece in pieces),
        ToolCallEndEvent(tool_call_id=tool_call_id),
    ]


@pytest.mark.anyio
async def test_a_call_shows_what_can_be_read_of_it_after_each_event() -> None:
    agent = ScriptedAgent(turn(*streamed('{"city": "Os', 'lo", "da', 'ys": [1', ", 2]}")))
    async with agent.stream("Hi") as run:
        seen = [(call.arguments_text, call.partial_arguments, call.is_complete) async for call in run.tool_call_stream]
    assert seen == [
        ("", None, False),
        ('{"city": "Os', {"city": "Os"}, False),
        ('{"city": "Oslo", "da', {"city": "Oslo"}, False),
        ('{"city": "Oslo", "days": [1', {"city": "Oslo", "days": [1]}, False),
        ('{"city": "Oslo", "days": [1, 2]}', {"city": "Oslo", "days": [1, 2]}, False),
        ('{"city": "Oslo", "days": [1, 2]}', {"city": "Oslo", "days": [1, 2]}, True),
    ]


@pytest.mark.requirement("TOOL-1")
def test_arguments_are_given_out_only_when_the_call_has_ended() -> None:
    agent = ScriptedAgent(turn(tool_call("plan", TRIP)))
    with agent.stream_sync("Hi") as run:
        seen = [(call.name, call.arguments) for call in run.tool_call_stream]
    assert {arguments is None for _, arguments in seen[:-1]} == {True}
    assert seen[-1] == ("plan", TRIP)


@pytest.mark.requirement("TOOL-1")
def test_a_call_that_a_later_round_starts_again_is_not_complete_before_it_has_ended_again() -> None:
    agent = ScriptedAgent(turn(*streamed('{"n": 1}')), turn(*streamed('{"n"', ": 2}")), turn(), tools=[plan])
    with agent.stream_sync("Hi") as run:
        seen = [call.arguments for call in run.tool_call_stream]
    assert seen == [None, None, {"n": 1}, None, None, None, {"n": 2}]


@pytest.mark.anyio
async def test_calls_are_found_by_their_id_and_stay_what_they_were() -> None:
    agent = ScriptedAgent(turn(tool_call("plan", TRIP), tool_call("look")))
    async with agent.stream("Hi") as run:
        await run.result()
        assert list(run.tool_calls) == ["call-1", "call-2"]
        assert run.tool_calls["call-1"] is run.tool_calls["call-1"]
        assert (run.tool_calls["call-1"].arguments, run.tool_calls["call-2"].arguments) == (TRIP, {})
        with pytest.raises(KeyError):
            run.tool_calls["call-3"]


@pytest.mark.anyio
async def test_interleaved_calls_keep_their_arguments_apart() -> None:
    first, second = streamed('{"a"', ": 1}", tool_call_id="c1"), streamed('{"b"', ": 2}", tool_call_id="c2")
    woven = [event for pair in zip(first, second, strict=True) for event in pair]
    async with ScriptedAgent(turn(*woven)).stream("Hi") as run:
        await run.result()
        assert [call.arguments for call in run.tool_calls.values()] == [{"a": 1}, {"b": 2}]


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-2")
async def test_broken_arguments_name_the_call_and_end_nothing() -> None:
    agent = ScriptedAgent(turn(*streamed('{"city": "Oslo"', " and so on"), tool_call("look", tool_call_id="call-2")))
    async with agent.stream("Hi") as run:
        result = await run.result()
        call = run.tool_calls["call-1"]
        with pytest.raises(ToolArgumentsError, match="tool call 'call-1' are not JSON") as broken:
            _ = call.arguments
    assert (broken.value.tool_call_id, isinstance(broken.value, AGUIError), isinstance(broken.value, ValueError)) == (
        "call-1",
        True,
        True,
    )
    assert call.partial_arguments == {"city": "Oslo"}
    assert [each.id for each in result.pending_tool_calls] == ["call-1", "call-2"]


@given(value=st.recursive(st.none() | st.integers() | st.text(), st.lists), cuts=st.data())
def test_wherever_a_call_is_cut_its_parts_never_fail_and_the_whole_is_exact(value: Any, cuts: st.DataObject) -> None:
    text = json.dumps({"value": value})
    places = sorted(cuts.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    with ScriptedAgent(turn(*streamed(*pieces))).stream_sync("Hi") as run:
        for call in run.tool_call_stream:
            assert call.partial_arguments is None or set(call.partial_arguments) <= {"value"}
        assert run.tool_calls["call-1"].arguments == run.tool_calls["call-1"].partial_arguments == {"value": value}


@pytest.mark.anyio
async def test_looking_after_every_delta_reads_a_long_call_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(text: str, **options: Any) -> Any:
        read.append(len(text))
        return from_json(text, **options)

    monkeypatch.setattr("agui_client._core.verbs.async_run.from_json", counting)
    pieces = ['{"text": "', *["x" * 10] * 4000, '"}']
    async with ScriptedAgent(turn(*streamed(*pieces))).stream("Hi") as run:
        async for call in run.tool_call_stream:
            assert call.partial_arguments is None or len(call.partial_arguments["text"]) <= 40_000
    assert sum(read) < 40 * 40_000


@pytest.mark.anyio
async def test_a_call_that_a_snapshot_dropped_has_no_arguments_any_more() -> None:
    dropped = MessagesSnapshotEvent(messages=[])
    agent = ScriptedAgent(turn(*streamed("{}"), dropped))
    async with agent.stream("Hi") as run:
        await run.result()
    assert list(run.tool_calls) == ["call-1"]
    with pytest.raises(KeyError, match="call-1"):
        _ = run.tool_calls["call-1"].arguments_text


@pytest.mark.anyio
async def test_the_calls_of_a_run_show_their_names_and_how_far_they_are() -> None:
    agent = ScriptedAgent(turn(*streamed("{}")))
    async with agent.stream("Hi") as run:
        await run.result()
    assert repr(run.tool_calls) == "ToolCalls([<StreamedToolCall plan 'call-1': complete, 2 characters>])"
