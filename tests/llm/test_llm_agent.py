"""Language models as agents: models of tests, and OpenAI's protocols over real HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'agui-client[llm]'")
from ag_ui.core import TextMessageContentEvent
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel as ModelOfTests

from agui_client import Approve, Deny, RunFailedError, ToolError, UsageError, tool
from agui_client.llm import LLMAgent
from support.leaks import nothing_left_behind, nothing_left_behind_sync
from support.model_server import ModelServer, model_server
from support.tool_rounds import results_in
from support.verbs import Verb, every_result_verb
from support.waiting import LIMIT, start_thread

KEPT = frozenset({"asyncio_"})
"""Threads in which the event loop looks names up; the loop ends them."""
NAMES = {
    "responses": "openai/gpt-5",
    "ollama": "ollama:llama3.2",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_BASE_URL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-s3cret")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
        yield server


@tool
async def get_weather(city: str) -> dict[str, Any]:
    """Current weather for a city."""
    await anyio.lowlevel.checkpoint()
    return {"city": city, "celsius": 18}


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_model_streams_calls_tools_and_counts_tokens_over_http(name: str, model: ModelServer) -> None:
    agent = LLMAgent(name, instructions="Be brief.", tools=[get_weather])
    with anyio.fail_after(LIMIT):
        async with nothing_left_behind(apart_from=KEPT), agent.stream("Weather in Oslo?") as run:
            deltas = [event.delta async for event in run if isinstance(event, TextMessageContentEvent)]
            result = await run.result()
    assert (result.text, deltas) == ("18 degrees.", ["18 ", "degrees."])
    [usage] = result.usage
    assert (usage.model, usage.input_tokens, usage.output_tokens) == (name.replace("/", ":").split(":")[1], 22, 6)
    [(_, content, error)] = results_in(result.new_messages)
    assert (content, error) == ('{"city":"Oslo","celsius":18}', None)
    assert len(model.requests) == 2
    assert "Be brief." in json.dumps(model.requests[0][1])
    is_ours = name.startswith("ollama")
    assert set(model.keys) == ({"Bearer api-key-not-set"} if is_ours else {"Bearer sk-s3cret"})
    assert "s3cret" not in repr(agent)


@every_result_verb
def test_a_named_model_runs_in_each_verb_and_in_one_event_loop_after_the_other(verb: Verb, model: ModelServer) -> None:
    agent = LLMAgent("ollama:llama3.2", tools=[get_weather])
    with nothing_left_behind_sync():
        first, second = verb(agent, "Weather?"), verb(agent.clone(), "Weather?")
    if first.error is not None:
        # Trio: pydantic-ai has asyncio only.
        assert isinstance(first.error, UsageError)
        assert "asyncio" in str(first.error)
        return
    assert [ending.result and ending.result.text for ending in (first, second)] == ["18 degrees."] * 2


@pytest.mark.anyio
async def test_runs_side_by_side_share_connections_and_leave_none(model: ModelServer) -> None:
    agent = LLMAgent("ollama:llama3.2", tools=[get_weather])
    texts: list[str] = []

    async def run(agent: LLMAgent) -> None:
        texts.append((await agent.run_agent("Weather?")).text)

    async with nothing_left_behind(apart_from=KEPT):
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(run, agent.clone())
    assert texts == ["18 degrees."] * 3


@pytest.mark.anyio
async def test_a_run_that_is_left_leaves_nothing(model: ModelServer) -> None:
    agent = LLMAgent("ollama:llama3.2")
    # Libraries below leave their generators to the event loop; the connection is closed.
    async with nothing_left_behind(apart_from=KEPT | {"pydantic_ai", "openai", "httpx2", "httpcore2"}):
        with anyio.fail_after(LIMIT):
            async with agent.stream("Hi") as run:
                async for event in run:
                    if isinstance(event, TextMessageContentEvent):
                        break


def test_two_threads_may_use_one_agent_at_once(model: ModelServer) -> None:
    agent = LLMAgent("ollama:llama3.2", tools=[get_weather])
    runs = [start_thread(lambda: agent.clone().run_agent_sync("Hi")) for _ in range(2)]
    assert [join(LIMIT).text for join in runs] == ["18 degrees."] * 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("gpt-5", "'gpt-5' cannot be used"),
        ("nobody:gpt-5", "'nobody:gpt-5' cannot be used"),
        (3, "a model is a name, such as .*, not 3"),
        (None, "a model is a name, such as .*, not None"),
    ],
)
def test_a_model_without_a_key_or_of_an_unknown_provider_is_refused_at_once(name: Any, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        LLMAgent(name)


def test_a_server_that_is_not_running_is_an_error_that_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("OLLAMA_BASE_URL", f"http://ann:s3cret@127.0.0.1:{port}/v1")
    with pytest.raises(RunFailedError, match=f"127.0.0.1:{port}.*is it running") as caught:
        LLMAgent("ollama:llama3.2").run_agent_sync("Hi")
    assert "ollama serve" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_server_without_the_protocol_of_responses_is_an_error_that_names_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with model_server(refusal=404) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-s3cret")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with pytest.raises(RunFailedError, match="'openai-chat:gpt-5'") as caught:
            LLMAgent("openai:gpt-5").run_agent_sync("Hi")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("given", [ModelOfTests(), Agent(ModelOfTests())], ids=["model", "agent"])
def test_a_model_or_an_agent_of_pydantic_ai_calls_our_tools(given: Any) -> None:
    result = LLMAgent(given, tools=[get_weather]).run_agent_sync("Hi")
    assert "celsius" in result.text
    assert [execution.name for execution in result.tool_executions] == ["get_weather"]
    assert result.usage[0].input_tokens


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    if amount > 100:
        raise ToolError("That is too much.")
    return f"paid {amount}"


async def pays(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """Pay once, and then repeat what came of it."""
    from pydantic_ai.models.function import DeltaToolCall

    results = [part for message in messages for part in message.parts if part.part_kind == "tool-return"]
    if results:
        yield f"Result: {results[-1].content}"
    else:
        yield {0: DeltaToolCall(name="pay", json_args='{"amount": 40}', tool_call_id="p1")}


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Approve(), "Result: paid 40"),
        (Approve(arguments={"amount": 200}), "Result: That is too much."),
        (Deny("Not today."), "Result: Not today."),
    ],
    ids=["approved", "edited", "denied"],
)
def test_calls_wait_for_approval_as_those_of_remote_agents_do(decision: Approve | Deny, expected: str) -> None:
    agent = LLMAgent(FunctionModel(stream_function=pays), tools=[pay], approve=lambda _: decision)
    assert agent.run_agent_sync("Pay 40").text == expected


def test_a_call_that_nobody_approves_here_waits_for_the_caller() -> None:
    agent = LLMAgent(FunctionModel(stream_function=pays), tools=[pay])
    waiting = agent.run_agent_sync("Pay 40")
    assert [call.id for call in waiting.pending_tool_calls] == ["p1"]
    assert agent.run_agent_sync(tool_results={"p1": "paid by hand"}).text == "Result: paid by hand"


class Weather(BaseModel):
    city: str
    celsius: int


def test_a_type_of_the_answer_is_the_arguments_of_the_last_call() -> None:
    result = LLMAgent(ModelOfTests(), output_type=Weather).run_agent_sync("Hi")
    [call] = [call for message in result.new_messages for call in getattr(message, "tool_calls", None) or ()]
    assert Weather.model_validate_json(call.function.arguments) == Weather(city="a", celsius=0)


def test_settings_of_an_agent_of_pydantic_ai_are_its_own() -> None:
    with pytest.raises(UsageError, match="part of the Agent"):
        LLMAgent(Agent(ModelOfTests()), instructions="Be brief.")
