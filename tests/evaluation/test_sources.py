"""Scenarios that are made of recordings, and of the rows of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agui_client import Approve, UsageError, tool
from agui_client.demo import demo_agent
from agui_client.evaluation import Scenario, evaluate_sync, read_scenarios, recorded_scenarios
from agui_client.recording import record
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn


def recorded(path: Path, *prompts: str) -> Path:
    """Record a conversation of the demo agent in which a person and a tool decide."""

    @tool(approval="always")
    def buy_tickets(route: str, count: int) -> str:
        """Buy tickets."""
        return f"bought {count}"

    agent = demo_agent(pace=0).use(record(path))
    agent.tools = [buy_tickets]
    agent.set_handlers(approve=lambda request: Approve(arguments={**request.arguments, "count": 7}))
    for prompt in prompts:
        agent.run_agent_sync(prompt)
    return path


def test_a_recording_is_a_scenario_with_its_prompts_results_and_decisions(tmp_path: Path) -> None:
    path = recorded(tmp_path / "ferry.jsonl", "Plan my day", "Book the ferry")
    (scenario,) = recorded_scenarios(path)
    assert (scenario.name, scenario.says) == ("ferry", ["Plan my day", "Book the ferry"])
    (again,) = read_scenarios(path)
    (outcome,) = evaluate_sync(demo_agent(pace=0), again).outcomes
    assert outcome.passed, outcome
    assert outcome.trial is not None
    (bought,) = outcome.trial.tool_executions
    assert (bought.name, bought.arguments["count"]) == ("buy_tickets", 7)
    assert bought.message is not None
    assert bought.message.content == "bought 7"


def test_answers_are_those_of_the_recording_and_each_thread_is_a_scenario(tmp_path: Path) -> None:
    asks = turn(outcome=interrupt("Which city?", reason="input_required"))
    agent = ScriptedAgent(asks, turn(text("ok")), turn(text("hello")))
    agent.set_handlers(answer=lambda asked: Approve())
    agent.use(record(tmp_path / "two.jsonl"))
    agent.run_agent_sync("Go")
    agent.clone(thread_id="other").run_agent_sync("Hello")
    first, second = recorded_scenarios(tmp_path / "two.jsonl")
    # The clone began with a copy of the conversation.
    assert [(each.name, each.says) for each in (first, second)] == [("two 1", ["Go"]), ("two 2", ["Go", "Hello"])]
    (outcome,) = evaluate_sync(ScriptedAgent(asks, turn(text("ok"))), first).outcomes
    assert outcome.trial is not None
    assert [each.entry.status for each in outcome.trial.answered] == ["resolved"]


def written(path: Path, *scenarios: Any, **members: Any) -> Path:
    path.write_text(json.dumps({"scenarios": scenarios, **members}), "utf-8")
    return path


def test_an_entry_of_a_file_adds_checks_to_a_recording(tmp_path: Path) -> None:
    recorded(tmp_path / "ferry.jsonl", "Book the ferry")
    entry = {"recording": "ferry.jsonl", "name": "as before", "checks": [{"called": "buy_tickets"}]}
    (scenario,) = read_scenarios(written(tmp_path / "x.json", entry, defaults={"checks": [{"conforms": True}]}))
    assert (scenario.name, scenario.says) == ("as before", ["Book the ferry"])
    assert scenario.checks == [{"conforms": True}, {"called": "buy_tickets"}]
    assert evaluate_sync(demo_agent(pace=0), scenario).passed


def test_rows_of_a_table_are_scenarios(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,weather\nOslo,snow\nBergen,rain\n", "utf-8")
    entry = {
        "name": "weather in {city}",
        "rows": "cities.csv",
        "says": ["How is {city}?"],
        "checks": [{"said": "{weather} in {city}"}],
    }
    rows: list[dict[str, Any]] = [{"count": 2, "tags": ["a"]}, {"count": 3, "tags": []}]
    typed: dict[str, Any] = {
        "name": "buy",
        "rows": rows,
        "says": ["Buy {count}"],
        "state": {"count": "{count}", "tags": "{tags}"},
    }
    scenarios = read_scenarios(written(tmp_path / "x.json", entry, typed))
    assert [each.name for each in scenarios] == ["weather in Oslo", "weather in Bergen", "buy 1", "buy 2"]
    assert scenarios[1].says == ["How is Bergen?"]
    assert scenarios[1].checks == [{"said": "rain in Bergen"}]
    assert [each.state for each in scenarios[2:]] == rows
    agent = ScriptedAgent(turn(text("There is snow in Oslo.")))
    assert [each.passed for each in evaluate_sync(agent, scenarios[:2]).outcomes] == [True, False]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"name": "a", "says": ["{town}"], "rows": [{"city": "Oslo"}]}, "there is no column 'town'; there are city"),
        ({"name": "a", "says": ["x"], "rows": []}, "rows: there is none"),
        ({"name": "a", "says": ["x"], "rows": "no.csv"}, "no.csv"),
        ({"recording": "no.jsonl"}, "no.jsonl"),
    ],
)
def test_a_source_that_cannot_be_used_is_named_with_its_entry(tmp_path: Path, entry: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=rf"scenarios\[0\].*{problem}"):
        read_scenarios(written(tmp_path / "x.json", entry))


def test_a_recording_without_prompts_is_no_scenario(tmp_path: Path) -> None:
    agent = ScriptedAgent(turn(text("Hi"))).use(record(tmp_path / "x.jsonl"))
    agent.run_agent_sync()
    with pytest.raises(UsageError, match="the user says nothing"):
        recorded_scenarios(tmp_path / "x.jsonl")
    assert Scenario(name="x", says=["Hi"]).checks == ()


def test_a_denied_call_is_denied_again(tmp_path: Path) -> None:
    agent = ScriptedAgent(turn(tool_call("buy", {})), turn(text("ok"))).use(record(tmp_path / "x.jsonl"))

    @tool(approval="always")
    def buy() -> str:
        """Buy."""
        raise AssertionError

    agent.tools = [buy]
    agent.set_handlers(approve=lambda request: False)
    agent.run_agent_sync("Buy")
    (scenario,) = recorded_scenarios(tmp_path / "x.jsonl")
    (outcome,) = evaluate_sync(ScriptedAgent(turn(tool_call("buy", {})), turn(text("ok"))), scenario).outcomes
    assert outcome.trial is not None
    assert [each.status for each in outcome.trial.tool_executions] == ["denied"]


def test_a_recording_that_was_written_by_others_makes_a_scenario_or_says_why_not(tmp_path: Path) -> None:
    agent = ScriptedAgent(turn(tool_call("buy", {})), turn(text("ok"))).use(record(tmp_path / "x.jsonl"))

    @tool(approval="always")
    def buy() -> str:
        """Buy."""
        return "bought"

    agent.tools = [buy]
    agent.set_handlers(approve=lambda request: True)
    agent.run_agent_sync("Buy")
    recorded = (tmp_path / "x.jsonl").read_text("utf-8")
    # As a schema of JSON, it takes anything.
    (tmp_path / "any.jsonl").write_text(recorded.replace('"parameters":{', '"parameters":true,"x":{'), "utf-8")
    (scenario,) = recorded_scenarios(tmp_path / "any.jsonl")
    assert [each.get("parameters") for each in scenario.tools if isinstance(each, dict)] == [{"type": "object"}]
    (tmp_path / "nameless.jsonl").write_text(recorded.replace('"name":"buy"', '"name":""'), "utf-8")
    with pytest.raises(UsageError, match=r"nameless\.jsonl makes no scenario: approve"):
        recorded_scenarios(tmp_path / "nameless.jsonl")
