"""Agents that are evaluated: behind an address, a team, a language model; and models that play the user and judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agui_client import AbstractAgent, FunctionAgent, HttpAgent, UsageError, tool
from agui_client.demo import demo_agent
from agui_client.evaluation import Reproduction, Scenario, evaluate, evaluate_sync
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, Server, interrupt, serve, text, turn
from support.model_server import ModelServer, model_server

_NEEDS_MODELS = "needs pydantic-ai: pip install 'agui-client[llm]'"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(demo_agent(pace=0)) as server:
        yield server


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    pytest.importorskip("pydantic_ai.ui.ag_ui", reason=_NEEDS_MODELS)
    with model_server() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-s3cret")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def _team() -> AbstractAgent[Any]:
    asking = ScriptedAgent(turn(outcome=interrupt("Which city?")), turn(text("Oslo it is.")), agent_id="asking")
    return SequentialAgent(asking, FunctionAgent(lambda input: "18 degrees.", agent_id="weather"))


@pytest.mark.parametrize("kind", ["remote", "team"])
def test_a_remote_agent_and_a_team_are_asked_over_several_turns(kind: str, server: Server) -> None:
    agent = HttpAgent(server.url) if kind == "remote" else _team()
    scenario = Scenario(
        name="trip",
        says=["Book the ferry", "Thanks"],
        answer={"*": {"value": {"approved": True}}},
        checks=[{"said": "18 degrees", "conforms": True}, {"asked": "Buy two" if kind == "remote" else "Which city"}],
    )
    evaluation = evaluate_sync(agent, scenario, repeat=2)
    assert evaluation.passed, str(evaluation)
    failing = scenario.model_copy(update={"checks": [{"said": "a taxi"}]})
    (failure,) = evaluate_sync(agent, failing).failures
    assert failure.reproduction is not None
    again = Reproduction.read(failure.reproduction).replay()
    assert again.failed == failure.failed
    assert again.trial is not None
    assert failure.trial is not None
    assert again.trial.transcript == failure.trial.transcript


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_conversations_share_the_connections_of_a_remote_agent(server: Server) -> None:
    agents: dict[str, Any] = {"one": HttpAgent(server.url), "made": lambda: HttpAgent(server.url)}
    evaluation = await evaluate(agents, Scenario(name="trip", says=["Hi"]), repeat=3)
    assert evaluation.passed
    assert evaluation.agents == ["one", "made"]


def test_a_model_is_evaluated_by_models_that_play_the_user_and_judge(model: ModelServer) -> None:
    from agui_client.llm import LLMAgent

    @tool
    def get_weather(city: str) -> str:
        """Tell the weather."""
        return f"18 degrees in {city}"

    model.arguments = ('{"city": "Oslo", ', '"passed": false, "reason": "It is cold."}')
    scenario = Scenario(
        name="weather",
        says=["How is it?"],
        goal="to know the weather",
        user="openai:gpt-5",
        tools=[{"name": "get_weather", "results": ["18 degrees"]}],
        limits={"turns": 3},
        checks=[{"called": {"tool": "get_weather", "arguments": {"city": "Oslo"}}}],
    )
    agent = LLMAgent("openai:gpt-5", instructions="Be brief.", tools=[get_weather])
    (outcome,) = evaluate_sync(agent, scenario).outcomes
    assert outcome.trial is not None
    assert [each.prompt for each in outcome.trial.turns] == ["How is it?", "18 degrees.", "18 degrees."]
    assert list(outcome.failed) == ["completes"]

    judged = Scenario(name="cold", says=["How is it?"], checks=[{"judge": "it is warm"}])
    (failure,) = evaluate_sync(agent, judged, judge="openai:gpt-5").failures
    assert failure.failed['judge: "it is warm"'].reason == "It is cold."
    model.refusal = 500
    assert failure.reproduction is not None
    again = Reproduction.read(failure.reproduction).replay()
    assert again.failed == failure.failed, str(again)


def test_a_model_that_cannot_be_used_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_ai", reason=_NEEDS_MODELS)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = ScriptedAgent(turn(text("x")))
    scenario = Scenario(name="x", says=["Hi"], judge="openai:gpt-5", checks=[{"judge": "x"}])
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        evaluate_sync(agent, scenario)
    assert agent.inputs == []
