"""Ready checks: of texts, calls, arguments, times, denials, leaks and scores, of the whole or of one turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput
from pydantic import ValidationError

from agui_client import FunctionAgent, UsageError
from agui_client.evaluation import Scenario, evaluate_sync, read_scenarios
from agui_client.testing import ScriptedAgent, interrupt, reasoning, state, text, tool_call, tool_result, turn


def failed(agent: Any, *checks: Any, says: Any = ("Hi", "Bye"), **members: Any) -> list[str]:
    """Return the reasons of the checks that failed."""
    scenario = Scenario.model_validate({"name": "x", "says": list(says), "checks": list(checks), **members})
    (outcome,) = evaluate_sync(agent, scenario).outcomes
    assert outcome.trial is not None, outcome.error
    return [f"{name}: {verdict.reason}" for name, verdict in outcome.failed.items()]


def shop() -> ScriptedAgent:
    order = {"item": {"name": "tea", "size": {"grams": 100, "bag": True}}, "tags": [{"a": 1, "b": 2}], "count": 2}
    return ScriptedAgent(
        turn(tool_call("search", {"q": "tea"}), text("I look."), tool_result("1 hit")),
        turn(tool_call("order", order), tool_result("ordered"), text("Ordered 2 bags for 9.80 €.")),
    )


PASSES: list[Any] = [
    {"said": ["look", "ORDERED"]},
    {"said": {"matches": r"\d\.\d\d €"}},
    {"said": {"any": ["cheap", "bags"]}},
    {"said": "ordered", "turn": 2},
    {"not_said": ["taxi", "ordered"], "turn": 1},
    {"not_said": {"matches": r"ordered"}},
    {"called": {"tool": "search", "at_most": 1}},
    {"called": {"tool": "pay", "at_most": 0}},
    {"called": {"tool": "order", "arguments": {"item": {"size": {"grams": 100}}, "tags": [{"a": 1}]}}},
    {"called_in_order": ["search", {"tool": "order", "arguments": {"count": 2}}]},
    {"valid_arguments": True, "denial_honoured": True, "not_leaked": "s3cret"},
    {"seconds_at_most": 60, "first_text_at_most": 60},
    {"seconds_at_most": 60, "turn": 1},
]
FAILS: list[tuple[Any, str]] = [
    ({"said": ["look", "taxi", "train"]}, 'the agent did not say "taxi", "train" in 2 turns; its last reply is'),
    ({"said": {"matches": r"^\d+$"}}, r"the agent did not say {"),
    ({"said": "ordered", "turn": 1}, "the agent did not say it"),
    ({"said": "ordered", "turn": 3}, "there was no turn 3 in 2 turns"),
    ({"not_said": ["look", "bags"]}, 'the agent said "look" in turn 1'),
    ({"not_said": {"matches": r"\d\.\d+"}}, 'the agent said "9.80" in turn 2'),
    ({"called": {"tool": "order", "at_most": 0}}, "the agent made 1 such calls in 2 turns"),
    ({"called": {"tool": "order", "arguments": {"item": {"size": {"grams": 99}}}}}, "the agent made 0 such calls"),
    ({"called": "order", "turn": 1}, "the agent made 0 such calls"),
    ({"not_called": {"tool": "order", "arguments": {"item": {"name": "tea"}}}}, "the agent called it in turn 2"),
    ({"called_in_order": ["order", "search"]}, 'call 2, "search", did not come in this order in 2 turns'),
    ({"seconds_at_most": 1e-9}, "it took 0."),
    ({"first_text_at_most": 1e-9}, "the first text of turn 1 came after 0."),
]


def test_checks_that_hold() -> None:
    assert failed(shop(), *PASSES) == []


@pytest.mark.parametrize(("check", "reason"), FAILS, ids=str)
def test_a_check_that_does_not_hold_names_what_and_where(check: Any, reason: str) -> None:
    (found,) = failed(shop(), check)
    assert reason in found


def test_arguments_are_valid_if_they_are_json_and_fit_the_schema_of_the_tool() -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    tools = [{"name": "buy", "parameters": schema, "results": ["bought"]}]
    given: list[tuple[dict[str, Any], str | None]] = [
        ({"count": 1}, None),
        ({"count": "two"}, "in turn 1"),
        ({}, "in turn 1"),
    ]
    for arguments, problem in given:
        agent = ScriptedAgent(turn(tool_call("buy", arguments)), turn(text("ok")))
        found = failed(agent, {"valid_arguments": True}, says=["Hi"], tools=tools)
        assert [problem in each for each in found if problem] == [True] * (problem is not None) == [True] * len(found)
    agent = ScriptedAgent(turn(tool_call("own", '{"cut": '), tool_result("?"), text("ok")))
    assert "they are not a JSON object" in failed(agent, {"valid_arguments": True}, says=["Hi"])[0]


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        (text("it is S3CRET"), "a text"),
        (reasoning("hm, s3cret"), "its reasoning"),
        (tool_call("look", {"a": {"b": ["s3cret"]}}), "the arguments of look"),
        (state({"hidden": {"s3cret": 1}}), "the state has"),
    ],
)
def test_a_leak_is_found_wherever_the_agent_sent_it(sent: Any, place: str) -> None:
    tools = [{"name": "look", "results": ["nothing"]}]
    agent = ScriptedAgent(turn(sent), turn(text("Bye.")))
    (found,) = failed(agent, {"not_leaked": ["other", "s3cret"]}, says=["What is s3cret?"], tools=tools)
    assert place in found
    asking = ScriptedAgent(turn(outcome=interrupt("Is it s3cret?")), turn(text("ok")))
    assert "in a question in turn 1" in failed(asking, {"not_leaked": "s3cret"}, says=["Hi"], answer="allow")[0]
    own = ScriptedAgent(turn(tool_call("look", {})), turn(text("ok")))
    result = [{"name": "look", "results": ["s3cret"]}]
    assert failed(own, {"not_leaked": "s3cret"}, says=["Hi"], tools=result) == []


def test_a_denial_is_honoured_if_nothing_denied_is_tried_again_in_its_turn() -> None:
    tools = [{"name": "buy", "results": ["bought"], "approval": "always"}]
    buy = turn(tool_call("buy", {"count": 2}))
    stubborn = ScriptedAgent(buy, buy, turn(text("ok")))
    (found,) = failed(stubborn, {"denial_honoured": True}, says=["Hi"], tools=tools, approve="deny")
    assert "the agent called buy again in turn 1, which was denied" in found
    fair = ScriptedAgent(buy, turn(text("I do not.")), buy, turn(text("ok")))
    assert failed(fair, {"denial_honoured": True}, tools=tools, approve="deny") == []
    asks = turn(outcome=interrupt("Shall I buy?"))
    nagging = ScriptedAgent(asks, asks, turn(text("ok")))
    (found,) = failed(nagging, {"denial_honoured": True}, says=["Hi"], answer="deny")
    assert "the agent asked again in turn 1 what was denied: Shall I buy?" in found


def test_a_statement_is_judged_by_a_score_and_a_threshold() -> None:
    def judged(reply: str, at_least: float) -> list[str]:
        check = {"judge": {"statement": "it is polite", "at_least": at_least}}
        scenario = Scenario.model_validate({"name": "x", "says": ["Hi"], "checks": [check]})
        judge = ScriptedAgent(turn(text(reply)))
        (outcome,) = evaluate_sync(FunctionAgent(lambda input: "no"), scenario, judge=judge).outcomes
        return [each.reason for each in outcome.failed.values()]

    said = '{"passed": true, "score": 0.7, "reason": "it was short"}'
    assert judged(said, 0.7) == []
    assert judged(said, 0.8) == ["the score is 0.7: it was short"]
    assert judged('{"passed": true, "reason": "fine"}', 0.1) == ["the judge gave no score: fine"]


async def _slow(input: RunAgentInput) -> AsyncIterator[str]:
    await anyio.sleep(0.2)
    yield "late"


def test_times_are_those_of_the_agent() -> None:
    agent = FunctionAgent(_slow)
    found = failed(agent, {"seconds_at_most": 0.3}, {"seconds_at_most": 0.1, "turn": 2}, {"first_text_at_most": 0.1})
    assert [each.split(":")[0] for each in found] == ["seconds_at_most", "seconds_at_most", "first_text_at_most"]


def test_checks_of_the_defaults_are_added_to_those_of_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        '{"defaults": {"checks": [{"conforms": true}]}, "scenarios": [{"name": "a", "says": ["Hi"]},'
        '{"name": "b", "says": ["Hi"], "checks": [{"said": "x"}]}]}',
        "utf-8",
    )
    assert [each.checks for each in read_scenarios(path)] == [[{"conforms": True}], [{"conforms": True}, {"said": "x"}]]


def test_functions_are_found_beside_the_file_by_their_module_or_their_file(tmp_path: Path) -> None:
    (tmp_path / "own_checks_of_x.py").write_text("def polite(trial):\n    return 'rude'\n", "utf-8")
    (tmp_path / "broken_of_x.py").write_text("1 / 0\n", "utf-8")

    def read(check: str) -> list[str]:
        path = tmp_path / "x.json"
        path.write_text(f'{{"scenarios": [{{"name": "a", "says": ["Hi"], "checks": ["{check}"]}}]}}', "utf-8")
        (outcome,) = evaluate_sync(FunctionAgent(lambda input: "no"), path).outcomes
        return [verdict.reason for verdict in outcome.failed.values()]

    assert read("own_checks_of_x:polite") == read("own_checks_of_x.py:polite") == ["rude"]
    for wrong in ("own_checks_of_x:kind", "no_such.py:polite", "broken_of_x.py:polite", "broken_of_x:polite"):
        with pytest.raises(UsageError, match=r"checks\[0\]: there is no such function"):
            read(wrong)


def test_who_judges_is_known_before_anything_is_sent() -> None:
    agent = ScriptedAgent(turn(text("Hi")))
    scenario = Scenario(name="x", says=["Hi"], checks=[{"judge": "polite"}])
    with pytest.raises(UsageError, match="x: the check judge: needs judge:, an agent"):
        evaluate_sync(agent, scenario)
    with pytest.raises(UsageError, match="opnai:gpt-5"):
        evaluate_sync(agent, scenario, judge="opnai:gpt-5")
    with pytest.raises(UsageError, match="x: goal: needs user:"):
        evaluate_sync(agent, Scenario(name="x", goal="tea"))
    assert agent.inputs == []


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"said": {"matches": "("}}, "is not a regular expression"),
        ({"said": []}, "at least 1 item"),
        ({"state": {"/a": 1}, "turn": 2}, "turn: is not for state:"),
        ({"called_in_order": ["a"]}, "at least 2 items"),
        ({"judge": {"statement": "x"}}, "at_least"),
    ],
)
def test_a_check_that_cannot_be_meant_is_refused(check: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Scenario.model_validate({"name": "x", "says": ["Hi"], "checks": [check]})
