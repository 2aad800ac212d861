"""Scenarios: conversations with an agent, held and checked; several agents side by side, with a journal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Interrupt, RunAgentInput, RunErrorEvent, TextMessageEndEvent, TokenUsage

from agui_client import FunctionAgent, tool
from agui_client.demo import demo_agent
from agui_client.evaluation import Evaluation, Rate, Scenario, Trial, evaluate_sync
from agui_client.evaluation._junit import write_junit
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn

pytestmark = pytest.mark.filterwarnings("error")
DEMO = demo_agent(pace=0)


def reasons(evaluation: Evaluation) -> dict[str, str]:
    """Return the reasons of the only conversation, by the checks that failed."""
    (outcome,) = evaluation.outcomes
    return {name: verdict.reason for name, verdict in outcome.failed.items()}


def table(evaluation: Evaluation) -> list[str]:
    """Return the lines of the text, with one space between cells."""
    return [" ".join(line.split()) for line in str(evaluation).splitlines()]


def test_a_conversation_of_several_turns_passes_its_checks() -> None:
    scenario = Scenario(
        name="ferry",
        says=["Plan my day", "Book the ferry"],
        answer="allow",
        checks=[
            {"said": "OUTDOORS", "not_said": "bus", "asked": "two ferry tickets", "turns_at_most": 2},
            {"called": "buy_tickets", "not_called": "buy_house", "conforms": True},
            {"called": {"tool": "get_weather", "arguments": {"city": "Oslo"}, "times": 2}},
            {"state": {"/trip/tickets": "bought", "/trip/weather/celsius": 18}},
            lambda trial: trial.tokens == 412 + 168 + 412 + 168 + 590 + 41,
        ],
    )
    evaluation = evaluate_sync(DEMO, scenario)
    assert evaluation.passed
    (outcome,) = evaluation.outcomes
    assert outcome.trial is not None
    assert [each.name for each in outcome.trial.calls] == ["get_weather", "get_weather", "buy_tickets"]
    assert [each.outcome for each in outcome.trial.turns] == ["success", "success"]
    assert 0 <= sum(each.seconds for each in outcome.trial.turns) <= outcome.trial.seconds < 60
    assert outcome.trial.turns[1].result == {"tickets": "bought"}
    assert str(evaluation).splitlines()[0] == "1 of 1 conversations passed"


def test_a_check_that_fails_says_why() -> None:
    def polite(trial: Trial) -> str | None:
        return "nobody thanked" if "thank" not in trial.said else None

    def asserting(trial: Trial) -> None:
        assert trial.turns == [], "there were turns"

    def broken(trial: Trial) -> bool:
        return trial.turns[7].text == ""

    scenario = Scenario(
        name="ferry",
        says=["Book the ferry"],
        answer={"tickets": "deny"},
        checks=[
            {"said": "taxi", "not_said": "outdoors", "asked": "taxi", "turns_at_most": 0},
            {"called": "buy_tickets"},
            {"not_called": {"tool": "get_weather", "arguments": {"city": "Oslo"}}},
            {"state": {"/trip/tickets": "bought"}},
            {"state": {"/nothing": 1}},
            polite,
            asserting,
            broken,
        ],
    )
    found = reasons(evaluate_sync(DEMO, scenario))
    local = "test_a_check_that_fails_says_why.<locals>."
    assert found.pop('said: "taxi"').startswith("the agent did not say it in 1 turn; its last reply is ")
    assert found.pop(f"{local}asserting").startswith("there were turns")
    assert found == {
        'not_said: "outdoors"': "the agent said it in turn 1",
        'asked: "taxi"': 'the agent did not ask it in 1 turn; it asked "Buy two ferry tickets for 94 NOK?"',
        "turns_at_most: 0": "it took 1 turns",
        'called: "buy_tickets"': "the agent made 0 such calls in 1 turn; it called get_weather("
        '{"city": "Oslo", "day": "Saturday", "units": "celsius"}) in turn 1',
        'not_called: {"tool": "get_weather", "arguments": {"city": "Oslo"}}': "the agent called it in turn 1 with "
        '{"city": "Oslo", "day": "Saturday", "units": "celsius"}',
        'state: {"/trip/tickets": "bought"}': '/trip/tickets is "declined", not "bought" in 1 turn',
        'state: {"/nothing": 1}': "the state has no /nothing in 1 turn",
        f"{local}polite": "nobody thanked",
        f"{local}broken": "the check itself raised IndexError: list index out of range",
    }


def test_scripted_tools_take_the_place_of_the_agents_own_and_fail_in_their_turn() -> None:
    @tool
    def get_weather(city: str) -> str:
        """Tell the weather."""
        raise AssertionError("the scenario replaces it")

    @tool
    def get_time() -> str:
        """Tell the time."""
        return "noon"

    call = turn(tool_call("get_weather", {"city": "Oslo"}), tool_call("get_time", {}))
    agent = ScriptedAgent(call, turn(text("one")), call, turn(text("two")), call, turn(text("three")))
    agent.tools = [get_weather, get_time]
    results: list[Any] = [{"sky": "clear"}, {"error": "the station is down"}]
    scenario = Scenario(name="weather", says=["1", "2", "3"], tools=[{"name": "get_weather", "results": results}])
    (outcome,) = evaluate_sync(agent, scenario).outcomes
    assert outcome.trial is not None
    found = [(each.name, each.result) for each in outcome.trial.calls]
    first, later = ("get_weather", '{"sky":"clear"}'), ("get_weather", "the station is down")
    assert found == [first, ("get_time", "noon"), later, ("get_time", "noon"), later, ("get_time", "noon")]
    assert [each.status for each in outcome.trial.tool_executions] == [
        "succeeded",
        "succeeded",
        *["failed", "succeeded"] * 2,
    ]


def test_policies_decide_about_calls_by_their_tool_and_in_their_order() -> None:
    call = turn(tool_call("buy", {"count": 4}), tool_call("sell", {"count": 1}))
    agent = ScriptedAgent(call, turn(text("ok")), call, turn(text("ok")))
    scenario = Scenario(
        name="shop",
        says=["1", "2"],
        tools=[{"name": each, "results": ["done"], "approval": "always"} for each in ("buy", "sell")],
        approve={"buy": [{"edit": {"count": 1}}, {"deny": "too many"}], "*": "allow"},
    )
    (outcome,) = evaluate_sync(agent, scenario).outcomes
    assert outcome.trial is not None
    decided = [(each.name, each.arguments, each.status) for each in outcome.trial.tool_executions]
    one = ("sell", {"count": 1}, "succeeded")
    assert decided == [("buy", {"count": 1}, "succeeded"), one, ("buy", {"count": 4}, "denied"), one]
    assert [each.result for each in outcome.trial.calls] == ["done", "done", "too many", "done"]


def _leave(asked: Interrupt) -> None:
    """Leave a question."""


@pytest.mark.parametrize(
    ("answer", "payload"),
    [
        ("allow", {"approved": True}),
        ({"which city": {"value": {"city": "Oslo"}}}, {"city": "Oslo"}),
        ({"input_required": {"value": 3}}, 3),
        ({"other": "deny", "*": {"value": "rest"}}, "rest"),
        (_leave, None),
    ],
)
def test_answers_are_found_by_words_of_the_question_or_its_reason(answer: Any, payload: Any) -> None:
    asks = turn(outcome=interrupt("In which city?", reason="input_required"))
    agent = ScriptedAgent(asks, turn(text("Thank you.")))
    (outcome,) = evaluate_sync(agent, Scenario(name="city", says=["Hi"], answer=answer)).outcomes
    assert outcome.trial is not None
    assert [each.entry.payload for each in outcome.trial.answered] == ([] if payload is None else [payload])
    assert [each.message for each in outcome.trial.asked] == ["In which city?"]


def test_a_function_of_the_trial_may_say_the_next_line_and_end_the_conversation() -> None:
    echo = FunctionAgent(_echo)
    says: list[Any] = ["one", _louder, _leave, "never"]
    (outcome,) = evaluate_sync(echo, Scenario(name="echo", says=says)).outcomes
    assert outcome.trial is not None
    assert [each.text for each in outcome.trial.turns] == ["one!", "ONE!!"]


def _louder(trial: Trial) -> str:
    return trial.turns[-1].text.upper()


def _echo(input: RunAgentInput) -> str:
    return f"{input.messages[-1].content}!"


def test_an_agent_plays_the_user_until_its_goal_is_reached() -> None:
    user = ScriptedAgent(turn(text("A table for two, please.")), turn(text("At eight.")), turn(text("[done]")))
    agent = ScriptedAgent(turn(text("When?")), turn(text("Done.")), turn(text("?")))
    scenario = Scenario(name="table", says=["Hello"], goal="a table for two at eight", persona="You are in a hurry.")
    (outcome,) = evaluate_sync(agent, scenario, user=user).outcomes
    assert outcome.passed
    assert outcome.trial is not None
    assert [each.prompt for each in outcome.trial.turns] == ["Hello", "A table for two, please.", "At eight."]
    asked = [str(each.messages[-1].content) for each in user.inputs]
    assert all(each in asked[0] for each in ("a table for two at eight", "in a hurry", '"text": "When?"'))
    assert asked[1:] == ["Done.", "?"]


def test_a_judge_is_an_agent_with_a_typed_verdict() -> None:
    judge = ScriptedAgent(turn(text('It is so: {"passed": false, "reason": "It was rude."}')))
    scenario = Scenario(name="polite", says=["Hi"], checks=[{"judge": "the agent is polite"}])
    evaluation = evaluate_sync(FunctionAgent(_echo), scenario, judge=judge)
    assert reasons(evaluation) == {'judge: "the agent is polite"': "It was rude."}
    (asked,) = judge.inputs
    assert "the agent is polite" in str(asked.messages[-1].content)
    said = str(asked.messages[-1].content)
    assert json.loads(said[said.index("[") :]) == [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hi!"}]


@pytest.mark.parametrize(
    ("scenario", "options", "error"),
    [
        (
            {"says": ["x"], "checks": [{"judge": "x"}]},
            {"judge": FunctionAgent(_echo)},
            "the judge gave no verdict",
        ),
        ({"goal": "x"}, {"user": ScriptedAgent([RunErrorEvent(message="no")])}, "the agent that plays the user failed"),
    ],
)
def test_what_is_no_fault_of_the_agent_breaks_the_conversation(
    scenario: dict[str, Any], options: dict[str, Any], error: str
) -> None:
    evaluation = evaluate_sync(FunctionAgent(_echo), Scenario(name="x", **scenario), **options)
    assert not evaluation.failures
    (broken,) = evaluation.broken
    assert broken.error is not None
    assert (broken.error.type, broken.error.message[: len(error)]) == ("UsageError", error)


async def _slow(input: RunAgentInput) -> AsyncIterator[str]:
    yield "a beginning"
    await asyncio.sleep(30)


async def _blocking(input: RunAgentInput) -> AsyncIterator[str]:
    time.sleep(0.1)  # noqa: ASYNC251 - it holds up the event loop, as an agent may
    yield "late"


@pytest.mark.parametrize(
    ("agent", "scenario", "error"),
    [
        (FunctionAgent(_slow), {"limits": {"seconds": 0.05}}, "the conversation took longer than 0.05 seconds"),
        (
            FunctionAgent(_echo),
            {"goal": "x", "limits": {"turns": 2}, "user": ScriptedAgent(turn(text("More.")))},
            "the user is not done after 2 turns",
        ),
        (
            ScriptedAgent(turn(text("x"), usage=[TokenUsage(total_tokens=70)])),
            {"says": ["1", "2", "3"], "limits": {"tokens": 100}},
            "the agent used 140 tokens, and may use 100",
        ),
        (
            ScriptedAgent(turn(text("x"), usage=[TokenUsage(total_tokens=70)])),
            {"limits": {"tokens": 60}},
            "the agent used 70 tokens, and may use 60",
        ),
        (FunctionAgent(_blocking), {"limits": {"seconds": 0.05}}, "the conversation took longer than 0.05 seconds"),
        (
            ScriptedAgent(turn(outcome=interrupt("Sure?"))),
            {"says": ["1", "2"]},
            "the agent asks: Sure?; give the scenario answer:",
        ),
        (ScriptedAgent([RunErrorEvent(message="no idea")]), {}, "in turn 1, RunFailedError: no idea"),
        (
            ScriptedAgent(turn(TextMessageEndEvent(message_id="m"))),
            {},
            "in turn 1, EventOrderError (STREAM-1): event 1",
        ),
    ],
)
def test_a_conversation_that_ends_too_early_has_failed(agent: Any, scenario: dict[str, Any], error: str) -> None:
    evaluation = evaluate_sync(agent, Scenario.model_validate({"name": "x", "says": ["Hi"], **scenario}))
    assert reasons(evaluation)["completes"].startswith(error)
    (failure,) = evaluation.failures
    assert failure.reproduction is not None
    assert failure.reproduction.exists()


def test_checks_of_one_name_are_all_judged() -> None:
    long = "no" * 200
    checks: list[Any] = [
        _judge("first"),
        _judge(None),
        _judge("third"),
        partial(_lacks, "yes"),
        partial(_lacks, "Hi"),
        {"said": f"{long}1"},
        {"not_said": "Hi"},
        {"said": f"{long}2"},
    ]
    found = reasons(evaluate_sync(FunctionAgent(_echo), Scenario(name="x", says=["Hi"], checks=checks)))
    assert [reason for reason in found.values() if len(reason) < 30] == [
        "first",
        "third",
        "yes is missing",
        "the agent said it in turn 1",
    ]
    assert len([name for name in found if name.startswith("said: ")]) == 2


def _judge(verdict: str | None) -> Callable[[Trial], str | None]:
    return lambda _: verdict


def _lacks(text: str, trial: Trial) -> str | None:
    return None if text in trial.said else f"{text} is missing"


def test_rules_of_the_protocol_that_were_broken_are_named() -> None:
    agent = ScriptedAgent(turn(TextMessageEndEvent(message_id="m")))
    evaluation = evaluate_sync({"mine": agent}, Scenario(name="x", says=["Hi"], checks=[{"conforms": True}]), repeat=2)
    assert evaluation.faults == {"mine: STREAM-1 (error)": 2}
    assert evaluation.failures[0].failed["conforms: true"].reason.startswith("in turn 1, STREAM-1 (error): ")
    assert str(evaluation).splitlines()[-1] == "  mine: STREAM-1 (error) in 2 conversations"


def test_agents_stand_side_by_side_with_rates_and_intervals() -> None:
    count = iter(range(100))

    def flaky(input: RunAgentInput) -> str:
        return "yes" if next(count) % 2 else "no"

    agents = {"old": FunctionAgent(flaky), "new": FunctionAgent(_yes)}
    scenarios = [
        Scenario(name="easy", says=["Hi"]),
        Scenario(name="hard", says=["Hi"], checks=[{"said": "yes"}]),
    ]
    evaluation = evaluate_sync(agents, scenarios, repeat=4, at_once=1)
    assert evaluation.rates["hard"] == {"old": Rate(passed=2, held=4), "new": Rate(passed=4, held=4)}
    assert list(evaluation.rates) == ["hard", "easy"]
    assert table(evaluation)[:5] == [
        "14 of 16 conversations passed",
        "scenario old new difference",
        "hard 2/4 50 % (15-85) 4/4 100 % (51-100) not certain",
        "easy 4/4 100 % (51-100) 4/4 100 % (51-100)",
        "all 6/8 75 % (41-93) 8/8 100 % (68-100) not certain",
    ]
    assert [(each.agent, each.name) for each in evaluation.failures] == [("old", "hard #1"), ("old", "hard #3")]


def test_a_notebook_shows_the_table_and_the_chats_of_failures() -> None:
    scenario = Scenario(name="x", says=["<Hi>"], checks=[{"said": "yes"}])
    shown = evaluate_sync({"old": FunctionAgent(_no), "new": FunctionAgent(_yes)}, scenario)._repr_mimebundle_()
    for part in (
        "1 of 2 conversations passed",
        ">old</button>",
        "x #1 (old) failed",
        "&lt;Hi&gt;",
        "1/1 100 % (21-100)",
    ):
        assert part in shown["text/html"]
    assert "x #1 (new)" not in shown["text/html"]


def _yes(input: RunAgentInput) -> str:
    return "yes"


def _no(input: RunAgentInput) -> str:
    return "no"


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [  # the values of Newcombe's paper (1998), table II, method 10
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_the_difference_of_two_rates_has_newcombes_interval(
    one: tuple[int, int], other: tuple[int, int], least: float, most: float
) -> None:
    assert Rate(*one).minus(Rate(*other)) == pytest.approx((least, most), abs=0.0001)


@pytest.mark.parametrize(
    ("passed", "held", "least", "most"),
    [(0, 10, 0.0, 0.278), (5, 10, 0.237, 0.763), (10, 10, 0.722, 1.0), (0, 0, 0, 1)],
)
def test_a_rate_has_wilsons_interval(passed: int, held: int, least: float, most: float) -> None:
    assert Rate(passed, held).interval == pytest.approx((least, most), abs=0.001)


def test_two_evaluations_are_compared_and_a_difference_is_only_told_where_it_is_certain() -> None:
    scenario = Scenario(name="x", says=["Hi"], checks=[{"said": "yes"}])
    monday = evaluate_sync(FunctionAgent(_no), scenario, repeat=5)
    today = evaluate_sync(FunctionAgent(_yes), scenario, repeat=5)
    both = monday.compare(today, ("monday", "today"))
    assert both.agents == ["monday", "today"]
    assert table(both)[1:3] == [
        "scenario monday today difference",
        "x 0/5 0 % (0-43) 5/5 100 % (57-100) today is better",
    ]
    once = evaluate_sync(FunctionAgent(_no), scenario)
    few = once.compare(evaluate_sync(FunctionAgent(_yes), scenario))
    assert str(few).splitlines()[2].endswith("not certain")


def test_a_keyword_of_an_evaluation_that_is_unknown_is_refused_by_name() -> None:
    wrong: dict[str, Any] = {"repeats": 2}
    with pytest.raises(TypeError, match=r"^unknown keyword repeats=; did you mean repeat=\? help\(evaluate\) explains"):
        evaluate_sync(ScriptedAgent(turn(text("Hi"))), Scenario(name="x", says=["Hi"]), **wrong)


def test_journal_junit_and_reproductions_hold_no_secret_and_belong_to_their_owner(tmp_path: Path) -> None:
    told = "Your password=hunter2-s3cret, and\nanother line"
    agent = ScriptedAgent(turn(text(told), tool_call("login", {"api_key": "k3y-s3cret"})), turn(text("in")))
    scenario = Scenario(
        name="x",
        says=["My token: t0ken-s3cret"],
        tools=[{"name": "login", "results": [{"client_secret": "client-s3cret"}]}],
        checks=[{"said": "yes"}, lambda trial: "it sent Bearer abcdef-s3cret"],
    )
    before = os.umask(0)
    try:
        for _ in range(2):
            (outcome,) = evaluate_sync(agent, scenario, journal=tmp_path / "journal", keep=tmp_path / "kept").outcomes
            write_junit(Evaluation([outcome]), tmp_path / "junit.xml")
            assert not outcome.passed
            outcome.save(tmp_path / "again" / "x.jsonl")
    finally:
        os.umask(before)
    for file in ("journal", "junit.xml", "kept/x-1.jsonl", "again/x.jsonl"):
        content = (tmp_path / file).read_text("utf-8")
        assert "s3cret" not in content
        assert "another line" in content
        assert "login" in content
    if sys.platform != "win32":
        own = [tmp_path / file for file in ("journal", "kept/x-1.jsonl", "again/x.jsonl")]
        assert [each.stat().st_mode & 0o777 for each in own] == [0o600] * 3


def test_a_broken_rule_is_named_with_its_turns() -> None:
    looking = turn(tool_call("look", {}), text("one"))
    agent = ScriptedAgent(looking, turn(text("two", message_id="m")), *[turn(text("again", message_id="m"))] * 2)

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    checks: list[Any] = [{"conforms": True}, {"conforms": True, "turn": 1}, {"conforms": True, "turn": 3}]
    scenario = Scenario(name="x", says=["a", "b", "c"], tools=[look], checks=checks)
    (outcome,) = evaluate_sync(agent, scenario).outcomes
    assert outcome.trial is not None
    # The first turn has two requests.
    assert [[each.rule for each in one.faults] for one in outcome.trial.turns] == [[], ["LIFE-15"], ["LIFE-15"]]
    assert list(outcome.failed) == ["conforms: true", "conforms: true in turn 3"]
    assert outcome.failed["conforms: true"].reason.startswith("in turn 2, 3, LIFE-15 (warning): text message 'm' has")
