"""What is offered in a run: the agent's tools, the call's own, or those that a function chooses round by round."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput, Tool

from agui_client import (
    ApprovalRequest,
    FunctionAgent,
    FunctionTool,
    FunctionToolset,
    HttpAgent,
    ToolLimits,
    UnrecognizedEvent,
    UsageError,
    tool,
)
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.tool_rounds import Ran, results_sent, tools_sent
from support.verbs import Verb, every_kind_of_verb, every_result_verb

ASK_USER = Tool(name="ask_user", description="Asks the user.", parameters={"type": "object"})
CALL = turn(tool_call("look", {"at": "sea"}))
DONE = turn(text("Done."))


@tool
def look(at: str) -> str:
    """Looks at something.

    Args:
        at: What to look at.
    """
    return f"seen {at}"


@every_kind_of_verb
def test_a_tool_is_offered_as_its_definition(verb: Verb) -> None:
    agent = ScriptedAgent(DONE, tools=[look, ASK_USER])
    verb(agent, "Hi")
    assert agent.inputs[0].tools == [look.definition, ASK_USER]
    assert look.definition.parameters == {
        "type": "object",
        "properties": {"at": {"type": "string", "description": "What to look at."}},
        "required": ["at"],
        "additionalProperties": False,
    }


@every_kind_of_verb
def test_tools_of_a_call_stand_instead_of_the_agents(verb: Verb) -> None:
    agent = ScriptedAgent(CALL, DONE, DONE, tools=Ran().tools)
    assert verb(agent, "Hi", tools=[look]).error is None
    assert verb(agent, "Hi").error is None
    assert [tools_sent(asked) for asked in agent.inputs] == [["look"], ["look"], ["look", "listen"]]
    verb(agent, "Hi", tools=())
    assert agent.inputs[3].tools == []


@every_kind_of_verb
@pytest.mark.requirement("SEC-4")
def test_a_function_chooses_the_tools_of_every_round(verb: Verb) -> None:
    seen: list[tuple[int, Any]] = []
    ran = Ran()

    def choose(asked: RunAgentInput) -> Sequence[FunctionTool[..., Any]]:
        seen.append((len(asked.messages), asked.tools))
        return ran.tools[:1] if len(asked.messages) == 1 else ran.tools[1:]

    calls = turn(tool_call("look"), tool_call("listen"))
    agent = ScriptedAgent(calls, calls, DONE, tools=choose)
    assert verb(agent, "Hi").error is None
    assert [tools_sent(asked) for asked in agent.inputs] == [["look"], ["listen"], ["listen"]]
    assert (ran.calls, seen) == (["look map", "listen"], [(1, None), (4, None), (7, None)])


@every_result_verb
def test_a_function_that_cannot_choose_ends_the_call(verb: Verb) -> None:
    def choose(asked: RunAgentInput) -> Sequence[Tool]:
        if len(asked.messages) > 1:
            raise KeyError("who is asking?")
        return Ran().tools  # type: ignore[return-value]

    agent = ScriptedAgent(CALL, DONE, tools=choose)
    error = verb(agent, "Hi").error
    assert isinstance(error, KeyError)
    assert (len(agent.inputs), agent.is_running) == (1, False)
    assert verb(agent, tools=()).error is None
    assert results_sent(agent)[1] == [("call-1", "seen sea", None)]


@pytest.mark.anyio
async def test_a_call_ended_by_its_chooser_does_not_succeed_when_asked_again() -> None:
    def choose(asked: RunAgentInput) -> Sequence[FunctionTool[..., Any]]:
        if len(asked.messages) > 1:
            raise KeyError("who is asking?")
        return [look]

    async with ScriptedAgent(CALL, DONE, tools=choose).stream("Hi") as run:
        with pytest.raises(KeyError) as first:
            async for _ in run:
                pass
        assert [event async for event in run] == []
        with pytest.raises(KeyError) as second:
            await run.result()
    assert first.value is second.value
    assert run.partial.messages[-1].content == "seen sea"


class Shop:
    @tool
    def order(self, item: str) -> str:
        return item


A_LIST = "tools= takes a list of tools, or a plain function that returns one"


def choose_nothing(asked: RunAgentInput) -> Any:
    return None


REFUSED: dict[str, tuple[list[Any] | FunctionTool[..., Any] | Callable[[RunAgentInput], Any], str]] = {
    "two of one name": ([look, look], "two tools are named 'look'; an agent could not distinguish them"),
    "a function": (
        [print],
        "tools= takes @tool functions and ag_ui.core.Tool definitions, not <built-in function print>; put @tool before",
    ),
    "a method": ([Shop.order], "'order' is a method; offer it with its instance, as shop.order and not Shop.order"),
    "a single tool": (look, f"{A_LIST}, not <FunctionTool look>"),
    "a chooser of nothing": (choose_nothing, f"{A_LIST}, not None"),
}


@pytest.mark.parametrize(("tools", "why"), REFUSED.values(), ids=list(REFUSED))
@every_kind_of_verb
def test_what_cannot_be_offered_is_refused_before_anything_is_sent(verb: Verb, tools: Any, why: str) -> None:
    agent = ScriptedAgent(DONE)
    error = verb(agent, "Hi", tools=tools).error
    assert isinstance(error, UsageError)
    assert str(error).startswith(why)
    assert (agent.inputs, agent.messages, agent.is_running) == ([], [], False)


def test_two_tools_of_one_name_are_refused_where_the_agent_is_made() -> None:
    with pytest.raises(UsageError, match="two tools are named 'look'; an agent could not distinguish them"):
        ScriptedAgent(DONE, tools=[look, Tool(name="look", description="", parameters={})])


@pytest.mark.parametrize("make", [tool, ScriptedAgent(DONE).tool], ids=["tool", "agent.tool"])
def test_an_unknown_option_of_a_tool_is_refused_with_the_one_that_is_meant(make: Any) -> None:
    with pytest.raises(TypeError) as refused:
        make(print, requires_approval=True)
    assert str(refused.value) == (
        'unknown keyword requires_approval= of a tool; approval="always" has each call wait for a person; '
        "help(tool) explains all keywords"
    )


def test_methods_of_an_instance_can_be_offered() -> None:
    agent = ScriptedAgent(turn(tool_call("order", {"item": "tea"})), DONE, tools=[Shop().order])
    agent.run_agent_sync("Hi")
    assert results_sent(agent)[1] == [("call-1", "tea", None)]


def test_an_agent_that_is_a_function_may_call_tools_and_wait_for_approval() -> None:
    async def answer(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        async for event in script.run(input):
            yield event

    script = ScriptedAgent(CALL, DONE)
    guarded = tool(look.function, approval="always")
    agent = FunctionAgent(answer, tools=[guarded], approve=lambda request: True, tool_limits=ToolLimits(rounds=1))
    assert agent.run_agent_sync("Hi").text == "Done."
    assert results_sent(script)[1] == [("call-1", "seen sea", None)]


def test_a_function_can_become_a_tool_of_an_agent() -> None:
    agent = ScriptedAgent(turn(tool_call("add", {"a": 1, "b": 2}), tool_call("times")), DONE)

    @agent.tool
    def add(a: int, b: int) -> int:
        return a + b

    @agent.tool(name="times", description="Multiplies.")
    async def multiply(a: int = 2, b: int = 3) -> int:
        await anyio.lowlevel.checkpoint()
        return a * b

    agent.run_agent_sync("Hi")
    assert results_sent(agent)[1] == [("call-1", "3", None), ("call-2", "6", None)]
    assert (add(1, 2), multiply.description, agent.tools) == (3, "Multiplies.", [add, multiply])


def test_a_function_that_chooses_and_a_toolset_leave_no_room_for_a_tool_of_the_agents() -> None:
    agent = HttpAgent("http://localhost:9", tools=lambda asked: [look])
    with pytest.raises(UsageError, match="let that function choose this one, too"):
        agent.tool(Ran().tools[0].function)
    agent.tools = FunctionToolset([])
    with pytest.raises(UsageError, match="is a toolset; give it in a list"):
        agent.tool(Ran().tools[0].function)


def test_a_clone_has_the_tools_and_the_people_of_its_agent() -> None:
    approved: list[str] = []

    @tool(approval="always")
    def pay() -> str:
        return "paid"

    def approve(request: ApprovalRequest) -> bool:
        approved.append(request.name)
        return True

    agent = ScriptedAgent(turn(tool_call("pay")), DONE, tools=[pay], approve=approve)
    twin = agent.clone(thread_id="other")
    twin.tool(look.function)
    assert twin.run_agent_sync("Hi").text == "Done."
    assert approved == ["pay"]
    assert [tools_sent(asked) for asked in agent.inputs] == [["pay", "look"]] * 2
    assert agent.tools == [pay]


@pytest.mark.parametrize("made", [lambda: [look], lambda: (look,)], ids=["list", "tuple"])
def test_the_agents_list_of_tools_is_its_own(made: Callable[[], Sequence[FunctionTool[..., Any]]]) -> None:
    given = made()
    agent = ScriptedAgent(DONE, tools=given)
    agent.tools = [*Ran().tools]
    assert list(given) == [look]
