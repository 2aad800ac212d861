"""The state as a server has announced that it will be, while the arguments of tool calls arrive."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import CustomEvent, StepFinishedEvent, StepStartedEvent, ToolCallArgsEvent, ToolCallEndEvent
from ag_ui.core import ToolCallStartEvent as Start

from agui_client.testing import ScriptedAgent, state, text, turn

WRITES: list[Any] = [{"state_key": "document", "tool": "write", "tool_argument": "text"}]
ALL: list[Any] = [{"state_key": "plan", "tool": "write"}, {"state_key": 5, "tool": "write"}, "nonsense"]


def announced(value: Any) -> CustomEvent:
    return CustomEvent(name="PredictState", value=value)


def called(name: str, *pieces: str, tool_call_id: str = "c") -> list[Any]:
    args = [ToolCallArgsEvent(tool_call_id=tool_call_id, delta=each) for each in pieces]
    start = Start(tool_call_id=tool_call_id, tool_call_name=name)
    return [start, *args, ToolCallEndEvent(tool_call_id=tool_call_id)]


def predicted(*steps: Any, before: Any = None) -> list[Any]:
    """The predicted states of a run, each once, from the first one on."""
    agent = ScriptedAgent(turn(*steps), initial_state=before)
    states: list[Any] = []
    with agent.stream_sync("Write") as run:
        for _ in run:
            if not states or states[-1] != run.predicted_state:
                states.append(run.predicted_state)
        assert (run.predicted_state, run.partial.warnings) == (run.state, [])
    return states


DRAFT, DONE = {"n": 1, "document": "One t"}, {"n": 1, "document": "One two"}
PIECES = ('{"text": "One t', 'wo"}')


@pytest.mark.parametrize("is_behind_start", [False, True])
def test_an_argument_is_in_the_predicted_state_while_it_arrives_and_until_the_server_says_the_state(
    *, is_behind_start: bool
) -> None:
    start, *rest = called("write", *PIECES)
    first = [start, announced(WRITES)] if is_behind_start else [announced(WRITES), start]
    states = predicted(*first, *rest, text("Done."), state({"n": 2, "document": "Two"}), text("Yes."), before={"n": 1})
    assert states == [{"n": 1}, DRAFT, DONE, {"n": 2, "document": "Two"}]


def test_a_prediction_that_the_server_does_not_confirm_ends_with_the_run() -> None:
    assert predicted(announced(WRITES), *called("write", *PIECES), before={"n": 1}) == [{"n": 1}, DRAFT, DONE, {"n": 1}]


def test_a_state_in_the_middle_of_a_call_is_taken_and_the_prediction_goes_on() -> None:
    start, one, two, end = called("write", *PIECES)
    states = predicted(announced(WRITES), start, one, state({"n": 2}), two, end, before={"n": 1})
    assert states == [{"n": 1}, DRAFT, {**DRAFT, "n": 2}, {**DONE, "n": 2}, {"n": 2}]


def test_without_an_argument_all_arguments_are_predicted_and_what_cannot_be_read_is_left_out() -> None:
    states = predicted(announced(ALL), *called("write", '{"a": 1'), before=[])
    assert states == [[], {"plan": {"a": 1}}, []]


def test_calls_of_other_tools_earlier_ones_and_those_of_later_steps_are_not_predicted() -> None:
    begin, end = StepStartedEvent(step_name="s"), StepFinishedEvent(step_name="s")
    early, other, late = (called("write", *PIECES, tool_call_id=each) for each in "123")
    other[0] = Start(tool_call_id="2", tool_call_name="read")
    assert predicted(*early, begin, announced(WRITES), *other, end, *late, before={"n": 1}) == [{"n": 1}]
