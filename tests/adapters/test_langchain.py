"""Agents as runnables of LangChain, alone, in chains and in graphs of LangGraph."""

from __future__ import annotations

import json
import operator
from collections.abc import AsyncIterator, Generator
from typing import Annotated, Any

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
from typing_extensions import TypedDict

pytest.importorskip("langchain_core", reason="needs the extra langchain: pip install 'agui-client[langchain]'")
pytest.importorskip("langgraph", reason="needs the extra langchain: pip install 'agui-client[langchain]'")
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage
from langchain_core.messages import ToolMessage as Returned
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command

from agui_client import FunctionAgent, HttpAgent, RunFailedError, UsageError, tool
from agui_client.adapters import langchain_runnable
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, interrupt, serve, turn

pytestmark = pytest.mark.anyio
_SECONDS = 30


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # LangChain does not run on trio


def _said(input: RunAgentInput, *deltas: str) -> Generator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield TextMessageStartEvent(message_id="m")
    for delta in deltas:
        yield TextMessageContentEvent(message_id="m", delta=delta)
    yield TextMessageEndEvent(message_id="m")
    usage = [TokenUsage(input_tokens=7, output_tokens=2)]
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, usage=usage)


def _echo(input: RunAgentInput) -> Generator[Event]:
    yield from _said(input, f"{len(input.messages)}: ", str(input.messages[-1].content))


async def test_invoke_stream_and_batch_answer_with_and_without_await() -> None:
    echo = langchain_runnable(FunctionAgent(_echo))
    answer = echo.invoke("Hi")
    assert isinstance(answer, AIMessage)
    assert (answer.content, answer.usage_metadata) == (
        "1: Hi",
        {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
    )
    assert [each.content for each in echo.stream("Hi")] == ["1: ", "Hi", ""]
    assert [each.content for each in echo.batch(["a", "b"])] == ["1: a", "1: b"]
    assert (await echo.ainvoke("Hi")).content == "1: Hi"
    assert [each.content async for each in echo.astream("Hi")] == ["1: ", "Hi", ""]
    assert [each.content for each in await echo.abatch(["a", "b"])] == ["1: a", "1: b"]


async def test_messages_and_prompts_of_the_framework_reach_the_agent() -> None:
    inputs = list[RunAgentInput]()

    def noting(input: RunAgentInput) -> str:
        inputs.append(input)
        return "Noted."

    agent = langchain_runnable(FunctionAgent(noting))
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{question}")])
    assert await (prompt | agent | StrOutputParser()).ainvoke({"question": "Why?"}) == "Noted."
    call: Any = {"id": "c", "name": "look", "args": {"at": 1}}
    await agent.ainvoke([HumanMessage("a"), AIMessage("", tool_calls=[call]), Returned("seen", tool_call_id="c")])
    said = [[(each.role, each.content) for each in input.messages] for input in inputs]
    assert said == [
        [("system", "Be brief."), ("user", "Why?")],
        [("user", "a"), ("assistant", ""), ("tool", "seen")],
    ]
    [called] = getattr(inputs[1].messages[1], "tool_calls", [])
    assert (called.id, called.function.name, json.loads(called.function.arguments)) == ("c", "look", {"at": 1})
    picture: Any = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    for messages in ([HumanMessage(picture)], [SystemMessage("x"), ChatMessage(content="y", role="critic")]):
        with pytest.raises(UsageError, match=r"content that is not text|sends no chat message"):
            await agent.ainvoke(messages)


async def test_a_remote_agent_is_a_runnable() -> None:
    with serve(agent_app(FunctionAgent(_echo))) as server:
        remote = langchain_runnable(HttpAgent(server.url))
        assert (await remote.ainvoke("Hi")).content == "1: Hi"
        with anyio.fail_after(_SECONDS):
            assert (await anyio.to_thread.run_sync(remote.invoke, "Hi")).content == "1: Hi"


async def test_an_error_of_the_agent_passes_through_a_chain_with_what_came_before_it() -> None:
    def failing(input: RunAgentInput) -> Generator[Event]:
        for event in _said(input, "Well,"):
            if not isinstance(event, RunFinishedEvent):
                yield event
        yield RunErrorEvent(message="the kettle is broken")

    agent = langchain_runnable(FunctionAgent(failing))
    results: list[Any] = agent.batch(["tea"], return_exceptions=True)
    with pytest.raises(RunFailedError, match="the kettle is broken") as failed:
        await (agent | StrOutputParser()).ainvoke("tea")
    for error in (failed.value, results[0]):
        assert isinstance(error, RunFailedError)
        assert error.partial is not None
        assert error.partial.text == "Well,"


@pytest.mark.parametrize("way", ["a task", "a stream", "a stream without await"])
async def test_a_call_of_the_framework_that_is_left_cancels_the_agent(way: str) -> None:
    left = anyio.Event()

    async def slow(input: RunAgentInput) -> AsyncIterator[str]:
        try:
            yield "Well,"
            await anyio.sleep_forever()
        finally:
            left.set()

    agent = langchain_runnable(FunctionAgent(slow))

    def first() -> str:
        chunks: Any = agent.stream("tea")
        text = next(chunks).content
        chunks.close()
        return str(text)

    with anyio.fail_after(_SECONDS):
        if way == "a task":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.ainvoke, "tea")
                await anyio.sleep(0.2)
                tasks.cancel_scope.cancel()
        elif way == "a stream":
            chunks: Any = agent.astream("tea")
            assert (await anext(chunks)).content == "Well,"
            await chunks.aclose()
        else:
            assert await anyio.to_thread.run_sync(first) == "Well,"
        await left.wait()


class _State(TypedDict):
    said: Annotated[list[str], operator.add]


def _last_of(state: _State) -> str:
    return state["said"][-1]


def _as_state(message: AIMessage) -> dict[str, Any]:
    return {"said": [message.content]}


def _node(agent: Runnable[Any, AIMessage]) -> Any:
    """Make a node of a graph, which has the texts that were said."""
    return RunnableLambda(_last_of) | agent | RunnableLambda(_as_state)


def _pay_twice(input: RunAgentInput) -> Generator[Event]:
    results = [str(each.content) for each in input.messages if each.role == "tool"]
    if len(results) == 2:
        yield from _said(input, " / ".join(results))
        return
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield ToolCallStartEvent(tool_call_id=f"t{len(results)}", tool_call_name="pay")
    yield ToolCallArgsEvent(tool_call_id=f"t{len(results)}", delta=json.dumps({"amount": len(results) + 1}))
    yield ToolCallEndEvent(tool_call_id=f"t{len(results)}")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_the_agent_asks_interrupts_the_graph_and_is_answered_once_also_in_another_process(
    *, is_async: bool
) -> None:
    paid, saver, config = list[int](), InMemorySaver(), {"configurable": {"thread_id": "t"}}

    @tool(approval="always")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    def graph() -> Any:
        made: Any = StateGraph(_State)
        made.add_node("pay", _node(langchain_runnable(FunctionAgent(_pay_twice, tools=[pay]))))
        made.add_edge(START, "pay")
        return made.compile(checkpointer=saver)

    async def run(given: Any) -> Any:
        found = graph()
        return await found.ainvoke(given, config) if is_async else found.invoke(given, config)

    first = await run({"said": ["Pay."]})
    [asked] = first["__interrupt__"]
    assert (len(asked.value["interrupts"]), paid) == (1, [])
    value = json.loads(json.dumps(asked.value))
    second = await run(Command(resume=value))
    assert paid == [1]
    [again] = second["__interrupt__"]
    [question] = again.value["interrupts"]
    answers = {question["id"]: {"approved": False}}
    last = await run(Command(resume={**again.value, "answers": answers}))
    assert paid == [1]
    assert last["said"][-1].startswith("paid 1 / ")
    assert "__interrupt__" not in last


async def test_a_question_without_a_graph_and_an_answer_without_its_question_are_refused() -> None:
    asking = langchain_runnable(ScriptedAgent(turn(outcome=interrupt("May I?"))))
    with pytest.raises(UsageError, match=r"the agent asks people, .*: May I\?; call it in a node"):
        asking.invoke("x")
    made: Any = StateGraph(_State)
    made.add_node("ask", _node(asking))
    made.add_edge(START, "ask")
    graph, config = made.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
    assert len((await graph.ainvoke({"said": ["x"]}, config))["__interrupt__"]) == 1
    with pytest.raises(UsageError, match="resume the graph with the value of its interrupt"):
        await graph.ainvoke(Command(resume=True), config)
