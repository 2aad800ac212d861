"""Results of tool calls stand in the order of their calls, whenever they arrive; a result keeps text under its id."""

from __future__ import annotations

import pytest
from ag_ui.core import ToolMessage

from agui_client import tool
from agui_client.testing import ScriptedAgent, text, tool_call, tool_result, turn


@tool
def second() -> str:
    """Answer at once."""
    return "2"


@pytest.mark.requirement("TOOL-5")
def test_the_result_of_an_earlier_call_stands_first_though_the_caller_gives_it_later() -> None:
    calls = [tool_call(name, tool_call_id=name, parent_message_id="m1") for name in ("first", "second", "third")]
    agent = ScriptedAgent(turn(text("Wait.", message_id="m1"), *calls), turn(text("Done.")), tools=[second])
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(tool_results={"third": "3", "first": "1"})
    sent = agent.inputs[-1]
    assert [each.content for each in sent.messages if isinstance(each, ToolMessage)] == ["1", "2", "3"]


@pytest.mark.requirement("TOOL-5")
def test_a_result_that_has_the_id_of_a_text_does_not_rename_the_text() -> None:
    agent = ScriptedAgent(
        turn(
            text("Let me look.", message_id="c1"),
            tool_call("look", tool_call_id="c1", parent_message_id="c1"),
            tool_result("seen", tool_call_id="c1", message_id="c1"),
        )
    )
    result = agent.run_agent_sync("Hi")
    assert [(each.id, each.role) for each in result.new_messages] == [("c1", "assistant"), ("c1", "tool")]
    assert [each.rule for each in result.warnings] == ["TOOL-5"]
