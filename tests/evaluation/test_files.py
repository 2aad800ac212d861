"""Files of scenarios: YAML and JSON say the same as Python, and what is wrong is named with its place."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agui_client import UsageError
from agui_client.demo import demo_agent
from agui_client.evaluation import Scenario, Trial, evaluate_sync, read_scenarios

_FILE = """
defaults:
  limits: {turns: 3}
  tools:
    - name: get_weather
      parameters: {type: object, properties: {city: {type: string}}}
      results: [rain, {error: the station is down}]
scenarios:
  - name: plan
    says: [Plan my day, And again]
    checks:
      - said: outdoors
      - called: {tool: get_weather, arguments: {city: Oslo}, times: 2}
      - MODULE:short
  - name: ferry
    says: [Book the ferry]
    answer: {tickets: allow, "*": [deny, {value: 3}]}
    checks:
      - state: {/trip/tickets: bought}
"""


_CHECKS = (
    "said, not_said, called, not_called, called_in_order, valid_arguments, asked, denial_honoured, not_leaked, state, "
    "turns_at_most, conforms, seconds_at_most, first_text_at_most, judge, turn"
)
_TOOL = "name, description, parameters, results, approval, unchecked"


def short(trial: Trial) -> bool:
    return len(trial.turns) < 3


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_says_the_same_as_python(tmp_path: Path, suffix: str) -> None:
    path, text = tmp_path / f"scenarios{suffix}", _FILE.replace("MODULE", __name__)
    yaml: Any = import_module("yaml")
    path.write_text(text if suffix == ".yaml" else json.dumps(yaml.safe_load(text)), "utf-8")
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    results = ["rain", {"error": "the station is down"}]
    weather = {"name": "get_weather", "parameters": parameters, "results": results}
    of_all: dict[str, Any] = {"limits": {"turns": 3}, "tools": [weather]}
    called = {"tool": "get_weather", "arguments": {"city": "Oslo"}, "times": 2}
    plan: dict[str, Any] = {
        "says": ["Plan my day", "And again"],
        "checks": [{"said": "outdoors"}, {"called": called}, short],
    }
    ferry: dict[str, Any] = {
        "says": ["Book the ferry"],
        "answer": {"tickets": "allow", "*": ["deny", {"value": 3}]},
        "checks": [{"state": {"/trip/tickets": "bought"}}],
    }
    scenarios = {"plan": plan, "ferry": ferry}
    expected = [Scenario.model_validate({"name": name, **of_all, **each}) for name, each in scenarios.items()]
    assert read_scenarios(path) == expected
    assert evaluate_sync(demo_agent(pace=0), path).passed


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("scenarios: 3", ["scenarios.yaml has no list scenarios:, with a scenario in each entry"]),
        ("scenarios: []\nuser: x", ["scenarios.yaml: user: is not known; the file has defaults: and scenarios:"]),
        ("scenarios: [a", ["scenarios.yaml is not YAML: while parsing a flow sequence"]),
        ("scenarios: [a]", ["scenarios.yaml, scenarios[0]: a scenario is a mapping with name, says, goal"]),
        (
            "scenarios: [{name: x}]",
            ["scenarios.yaml, scenarios[0] (x): a scenario needs says: (a script) or goal: (for an agent)"],
        ),
        (
            "scenarios: [{name: x, says: [a, b], limits: {turns: 1}}]",
            ["scenarios.yaml, scenarios[0] (x): says: has more prompts than limits: {turns: }"],
        ),
        (
            "scenarios: [{nam: x, says: [a]}]",
            [
                "scenarios.yaml, scenarios[0].name: field required",
                f"scenarios.yaml, scenarios[0].nam: is not known; allowed: {', '.join(Scenario.model_fields)}",
            ],
        ),
        (
            "scenarios: [{name: x, says: [a], checks: [{sayd: x}, {called: {tol: x}}, nothing, no:thing]}]",
            [
                f"scenarios.yaml, scenarios[0] (x).checks[0].sayd: is not known; allowed: {_CHECKS}",
                "scenarios.yaml, scenarios[0] (x).checks[1].called.tool: field required",
                "scenarios.yaml, scenarios[0] (x).checks[1].called.tol: is not known; allowed: tool, arguments, times",
                "scenarios.yaml, scenarios[0] (x).checks[2]: a function is named as in 'shop.checks:polite'",
                "scenarios.yaml, scenarios[0] (x).checks[3]: there is no such function: No module named 'no'",
            ],
        ),
        (
            "scenarios: [{name: x, says: [a], approve: {buy: alow, sell: {edit: 3}}, answer: {a: [deny, {val: 3}]}}]",
            [
                "scenarios.yaml, scenarios[0] (x).approve.buy: input should be 'allow', 'deny' or 'cancel'",
                "scenarios.yaml, scenarios[0] (x).approve.sell.edit: input should be a valid dictionary",
                "scenarios.yaml, scenarios[0] (x).answer.a[1].value: field required",
                "scenarios.yaml, scenarios[0] (x).answer.a[1].val: is not known; allowed: deny, edit, value",
            ],
        ),
        (
            "scenarios: [{name: x, says: [a], tools: [{name: buy, results: [], aproval: always}]}]",
            [
                "scenarios.yaml, scenarios[0] (x).tools[0].results: list should have at least 1 item",
                f"scenarios.yaml, scenarios[0] (x).tools[0].aproval: is not known; allowed: {_TOOL}",
            ],
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place_and_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problems: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scenarios.yaml").write_text(text, "utf-8")
    with pytest.raises(UsageError) as raised:
        read_scenarios("scenarios.yaml")
    found = [str(raised.value), *getattr(raised.value, "__notes__", ())]
    assert [each[: len(problem)] for each, problem in zip(found, problems, strict=True)] == problems


def test_a_question_in_a_list_of_yaml_that_lacks_its_quotes_is_told_of_them(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.yaml"
    path.write_text("scenarios: [{says: [Why?]}]", "utf-8")
    with pytest.raises(UsageError, match=r"is not YAML: .*; between brackets or braces, put texts with \? : , or #"):
        read_scenarios(path)


def test_two_scenarios_of_one_name_and_none_at_all_are_refused() -> None:
    scenario = Scenario(name="x", says=["Hi"])
    with pytest.raises(UsageError, match="two scenarios are named 'x'"):
        evaluate_sync(demo_agent(pace=0), [scenario, scenario])
    with pytest.raises(UsageError, match="takes scenarios"):
        evaluate_sync(demo_agent(pace=0), [])
    with pytest.raises(UsageError, match=r"HttpAgent\(url\)"):
        evaluate_sync("http://localhost/", scenario)
