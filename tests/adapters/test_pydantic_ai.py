"""Agents as tools and as models of pydantic-ai."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agui_client import FunctionAgent, HttpAgent, RunFailedError, tool
from agui_client.adapters import pydantic_ai_model, pydantic_ai_tool
from agui_client.asgi import agent_app
from agui_client.demo import demo_agent
from agui_client.testing import ScriptedAgent, interrupt, serve, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # pydantic-ai does not run on trio


def _asking(*prompts: str) -> FunctionModel:
    """A model that asks the planner for each prompt at once, and then says what it got."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse(parts=[TextPart(" / ".join(str(part.content) for part in returned))])
        name = info.function_tools[0].name
        calls = [ToolCallPart(name, {"prompt": each}, tool_call_id=f"c{at}") for at, each in enumerate(prompts)]
        return ModelResponse(parts=calls)

    return FunctionModel(answer)


async def test_an_agent_is_a_tool_each_of_whose_calls_is_a_conversation_of_its_own() -> None:
    def echo(input: RunAgentInput) -> str:
        return f"{len(input.messages)}: {input.messages[-1].content}"

    planner = pydantic_ai_tool(FunctionAgent(echo), "ask_planner", "Plans a day.")
    team: Agent[None, str] = Agent(_asking("one", "two"), tools=[planner])
    assert (await team.run("plan")).output == "1: one / 1: two"


async def test_a_remote_agent_is_a_tool() -> None:
    with serve(agent_app(FunctionAgent(lambda input: f"Hello {input.messages[-1].content}"))) as server:
        planner = pydantic_ai_tool(HttpAgent(server.url), "ask_planner", "Plans a day.")
        assert (await Agent(_asking("ann"), tools=[planner]).run("plan")).output == "Hello ann"


async def test_what_the_agent_asks_is_a_deferred_call_that_another_process_can_answer() -> None:
    executed = list[int]()

    @tool(approval="always")
    def pay(amount: int) -> str:
        """Pay."""
        executed.append(amount)
        return f"paid {amount}"

    def team() -> Agent[None, Any]:
        planner = FunctionAgent(_pay_once, tools=[pay])
        asked = pydantic_ai_tool(planner, "ask_planner", "Plans a day.")
        return Agent(_asking("pay"), tools=[asked], output_type=[str, DeferredToolRequests])

    first = await team().run("plan")
    requests = first.output
    assert isinstance(requests, DeferredToolRequests)
    assert [call.tool_name for call in requests.approvals] == ["ask_planner"]
    ((call_id, asked),) = requests.metadata.items()
    assert len(asked["interrupts"]) == 1
    assert executed == []
    # Another process: the metadata has come through JSON, and the agents are other objects.
    metadata = json.loads(json.dumps(requests.metadata))
    history = first.all_messages()
    answers = DeferredToolResults(approvals={call_id: True}, metadata=metadata)
    last = await team().run(message_history=history, deferred_tool_results=answers)
    assert (last.output, executed) == ("paid 3", [3])
    denied = DeferredToolResults(approvals={call_id: ToolDenied("no")}, metadata=metadata)
    assert (await team().run(message_history=history, deferred_tool_results=denied)).output == "no"
    assert executed == [3]


def _pay_once(input: RunAgentInput) -> Generator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    if input.messages[-1].role == "tool":
        yield from _said(str(input.messages[-1].content))
    else:
        yield from _call("pay", '{"amount": 3}')
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


def _said(*deltas: str) -> Generator[Event]:
    yield TextMessageStartEvent(message_id="m1")
    for delta in deltas:
        yield TextMessageContentEvent(message_id="m1", delta=delta)
    yield TextMessageEndEvent(message_id="m1")


def _call(name: str, args: str) -> Generator[Event]:
    yield ToolCallStartEvent(tool_call_id="t1", tool_call_name=name)
    yield ToolCallArgsEvent(tool_call_id="t1", delta=args)
    yield ToolCallEndEvent(tool_call_id="t1")


async def test_an_error_of_the_agent_passes_through_the_framework_with_what_came_before_it() -> None:
    def failing(input: RunAgentInput) -> Generator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield from _said("Well,")
        yield RunErrorEvent(message="the kettle is broken")

    team = Agent(_asking("tea"), tools=[pydantic_ai_tool(FunctionAgent(failing), "ask_planner", "Plans a day.")])
    with pytest.raises(RunFailedError, match="the kettle is broken") as failed:
        await team.run("plan")
    assert failed.value.partial is not None
    assert failed.value.partial.text == "Well,"


async def test_a_cancelled_run_of_the_framework_cancels_the_agent() -> None:
    begun, left = anyio.Event(), list[str]()

    async def slow(input: RunAgentInput) -> AsyncIterator[str]:
        begun.set()
        try:
            yield "Well,"
            await anyio.sleep_forever()
        finally:
            left.append(input.run_id)

    team = Agent(_asking("tea"), tools=[pydantic_ai_tool(FunctionAgent(slow), "ask_planner", "Plans a day.")])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(team.run, "plan")
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert len(left) == 1


def _modelled(input: RunAgentInput) -> Generator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    offered = [each.name for each in input.tools or ()]
    if input.messages[-1].role == "tool":
        yield from _said("It is ", str(input.messages[-1].content))
    elif "weather" in offered:
        yield from _call("weather", '{"city": "Oslo"}')
    elif "final_result" in offered:
        yield from _call("final_result", '{"name": "Oslo"}')
    else:
        yield from _said("Hello", " you")
    usage = [TokenUsage(input_tokens=7, output_tokens=2, cached_input_tokens=3)]
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, usage=usage)


async def test_an_agent_stands_in_for_a_model_with_the_frameworks_tools_and_usage() -> None:
    team: Agent[str, str] = Agent(pydantic_ai_model(FunctionAgent(_modelled)), deps_type=str)

    @team.tool
    def weather(ctx: RunContext[str], city: str) -> str:
        """Tell the weather."""
        return f"{ctx.deps} in {city}"

    result = await team.run("weather?", deps="18")
    assert result.output == "It is 18 in Oslo"
    used = result.usage
    assert (used.requests, used.input_tokens, used.output_tokens, used.cache_read_tokens) == (2, 14, 4, 6)


async def test_its_text_comes_as_it_is_streamed() -> None:
    team: Agent[None, str] = Agent(pydantic_ai_model(FunctionAgent(_modelled)), instructions="Be brief.")
    async with team.run_stream("hello") as stream:
        deltas = [delta async for delta in stream.stream_text(delta=True, debounce_by=None)]
    assert deltas == ["Hello", " you"]


class _City(BaseModel):
    name: str


async def test_a_typed_answer_is_a_call_of_the_frameworks_output_tool() -> None:
    assert (await Agent(pydantic_ai_model(FunctionAgent(_modelled)), output_type=_City).run("x")).output == _City(
        name="Oslo"
    )


async def test_instructions_and_history_reach_the_agent() -> None:
    inputs = list[RunAgentInput]()

    def noting(input: RunAgentInput) -> str:
        inputs.append(input)
        return "Noted."

    team: Agent[None, str] = Agent(pydantic_ai_model(FunctionAgent(noting)), instructions="Be brief.")
    first = await team.run("one")
    await team.run("two", message_history=first.all_messages())
    said = [(each.role, each.content) for each in inputs[-1].messages]
    assert said == [("system", "Be brief."), ("user", "one"), ("assistant", "Noted."), ("user", "two")]


async def test_a_model_that_asks_people_says_what_to_use_instead() -> None:
    asking = ScriptedAgent(turn(outcome=interrupt("May I?")))
    with pytest.raises(UserError, match=r"May I\?.*pydantic_ai_tool"):
        await Agent(pydantic_ai_model(asking)).run("x")


async def test_the_demo_agent_stands_in_for_a_model_over_http() -> None:
    with serve(demo_agent(pace=0)) as server:
        result = await Agent(pydantic_ai_model(HttpAgent(server.url))).run("hello")
    assert result.output
