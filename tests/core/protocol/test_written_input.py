"""The quick writer of run inputs writes what pydantic writes, and refuses what does not conform."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, FunctionCall, RunAgentInput, TextPart, Tool, ToolCall, ToolMessage, UserMessage

from agui_client._core.protocol.plain_json import write

CALL = ToolCall(id="c1", type="function", function=FunctionCall(name="look", arguments="{}"))
INPUT = RunAgentInput(
    thread_id="t",
    run_id="r",
    state={"n": [1, None, {"deep": True}]},
    messages=[
        UserMessage(id="u", content=[TextPart(type="text", text="Hi")]),
        AssistantMessage(id="a", tool_calls=[CALL]),
        ToolMessage(id="x", tool_call_id="c1", content="seen"),
    ],
    tools=[Tool(name="look", description="Look.", parameters={"type": "object"})],
    context=[],
    forwarded_props={},
)


def test_a_conforming_input_is_written_as_pydantic_writes_it() -> None:
    assert json.loads(write(INPUT)) == json.loads(INPUT.model_dump_json(by_alias=True, exclude_none=True))


@pytest.mark.parametrize("wrong", [{"messages": [3]}, {"thread_id": 3}, {"tools": "look"}])
def test_an_input_that_does_not_conform_is_not_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        write(INPUT.model_copy(update=wrong))
