"""`agui evaluate`: the table, exit codes, JUnit and reproductions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ag_ui.core import RunAgentInput

from agui_client import FunctionAgent
from agui_client.demo import demo_agent
from agui_client.evaluation import reproductions
from agui_client.testing import Server, serve, serve_bytes
from cli.conftest import Agui


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(demo_agent(pace=0)) as server:
        yield server


@pytest.fixture
def scenarios(tmp_path: Path) -> str:
    path = tmp_path / "scenarios.yaml"
    path.write_text(
        "scenarios:\n"
        "- {name: plan, says: [Plan my day], checks: [said: outdoors]}\n"
        "- {name: ferry, says: [Hello, Book the ferry, Bye], answer: allow, checks: [not_called: buy_tickets]}\n",
        "utf-8",
    )
    return str(path)


def test_a_check_that_fails_is_told_kept_and_made_short(
    agui: Agui, server: Server, scenarios: str, tmp_path: Path
) -> None:
    kept, junit = tmp_path / "kept", tmp_path / "junit.xml"
    options = ("--repeat", "2", "--keep", str(kept), "--shrink", "--junit", str(junit))
    done = agui("evaluate", scenarios, server.url, *options)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()[:5]]
    assert (done.returncode, lines) == (
        1,
        [
            "2 of 4 conversations passed",
            "scenario passed",
            "ferry 0/2 0 % (0-66)",
            "plan 2/2 100 % (34-100)",
            "all 2/4 50 % (15-85)",
        ],
    )
    assert [(str(each), each.scenario.says) for each in reproductions(kept)] == [
        ("ferry-1", ["Book the ferry"]),
        ("ferry-2", ["Book the ferry"]),
    ]
    (suite,) = ElementTree.parse(junit).getroot()
    assert suite.attrib.items() >= {"name": "agent", "tests": "4", "failures": "2", "errors": "0"}.items()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["ferry #1", "ferry #2"]


def test_agents_stand_side_by_side_and_the_journal_goes_on(
    agui: Agui, server: Server, scenarios: str, tmp_path: Path
) -> None:
    named = (
        "--agent",
        f"old={server.url}",
        "--agent",
        f"new={server.url}",
        "--journal",
        str(tmp_path / "trials.jsonl"),
    )
    outs = [agui("evaluate", scenarios, *named) for _ in range(2)]
    assert [each.returncode for each in outs] == [1, 1]
    first, again = (each.stdout.splitlines() for each in outs)
    assert again == [f"{first[0]}; 4 of 4 from the journal", *first[1:]]
    assert outs[0].stdout.splitlines()[1].split() == ["scenario", "old", "new", "difference"]
    done = agui("evaluate", scenarios, server.url, f"{server.url}?x=1")
    assert (done.returncode, "two agents have one address; name them with --agent NAME=URL" in done.stderr) == (2, True)


def test_exit_codes(agui: Agui, server: Server, scenarios: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.yaml"
    good.write_text('{"scenarios": [{"name": "x", "says": ["Hi"]}]}', "utf-8")
    bad.write_text("scenarios: [{name: x, say: [a]}, {name: y}]", "utf-8")
    assert agui("evaluate", str(good), server.url).returncode == 0
    done = agui("evaluate", str(bad), server.url)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 2, "")
    assert "scenarios[0] (x).say: is not known; allowed: name, says" in done.stderr
    away = agui("evaluate", str(good), "http://127.0.0.1:1/", "--retry", "0", "--at-least", "0")
    assert (away.returncode, "x: no conversation was held" in away.stdout) == (3, True)
    assert agui("evaluate", str(good), server.url, "--shrink").returncode == 2


def test_a_failure_that_does_not_replay_costs_neither_the_table_nor_the_junit_file(
    agui: Agui, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "slow_checks.py").write_text(
        "seen = []\ndef quick(trial):\n    seen.append(trial)\n    return 'it was slow' if len(seen) == 1 else None\n",
        "utf-8",
    )
    scenarios, kept, junit = tmp_path / "x.json", tmp_path / "kept", tmp_path / "j.xml"
    scenarios.write_text(
        '{"scenarios": [{"name": "a", "says": ["Hi"], "checks": ["slow_checks:quick"]},'
        '{"name": "b", "says": ["Hello", "Hi"], "checks": [{"not_said": "e"}]}]}',
        "utf-8",
    )
    options = ("--keep", str(kept), "--junit", str(junit), "--shrink", "--at-once", "1")
    done = agui("evaluate", str(scenarios), server.url, *options)
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "0 of 2 conversations passed"), done.stderr
    assert "a-1.jsonl: does not replay quick" in done.stderr
    assert [(str(each), each.scenario.says) for each in reproductions(kept) if str(each) == "b-1"] == [
        ("b-1", ["Hello"])
    ]
    assert len(ElementTree.parse(junit).getroot()[0]) == 2


@pytest.mark.parametrize("option", ["--junit", "--json", "--html"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_sent(
    agui: Agui, scenarios: str, tmp_path: Path, option: str
) -> None:
    with serve_bytes(b"") as server:
        done = agui("evaluate", scenarios, server.url, option, str(tmp_path / "no" / "such.xml"))
        assert (done.returncode, done.stdout, server.requests) == (2, "", [])
    assert "such.xml cannot be written; name a file in a folder that exists" in done.stderr


def test_no_report_replaces_another_file_of_the_command(agui: Agui, scenarios: str, tmp_path: Path) -> None:
    one = str(tmp_path / "one")
    for options in (("--json", scenarios), ("--journal", one, "--html", one), ("--junit", one, "--json", one)):
        done = agui("evaluate", scenarios, "http://127.0.0.1:1/", *options)
        assert (done.returncode, f"agui: {' '.join(options[-2:])} would replace " in done.stderr) == (2, True)


def test_a_disk_that_is_full_costs_no_table(
    agui: Agui, server: Server, scenarios: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*about: object) -> None:
        raise OSError(28, "No space left on device", "ferry-1.jsonl")

    monkeypatch.setattr("agui_client.evaluation._evaluation.make_reproduction", fail)
    done = agui("evaluate", scenarios, server.url, "--at-once", "1", "--keep", str(tmp_path / "kept"))
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, "1 of 1 conversations passed")
    assert done.stderr.splitlines()[-1] == "agui: ferry-1.jsonl: No space left on device"


@pytest.fixture
def flaky() -> Iterator[Server]:
    """Serve an agent whose every third answer is no."""
    count = iter(range(1, 1000))

    def answer(input: RunAgentInput) -> str:
        return "yes" if next(count) % 3 else "no"

    with serve(FunctionAgent(answer)) as server:
        yield server


def test_a_gate_is_passed_by_enough_conversations_and_shut_by_what_became_certainly_worse(
    agui: Agui, flaky: Server, tmp_path: Path
) -> None:
    file, before, after = tmp_path / "x.json", tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    scenario = {"says": ["Hi"], "checks": [{"said": "yes"}]}
    file.write_text(json.dumps({"scenarios": [{"name": name, **scenario} for name in ("a", "b")]}), "utf-8")
    options = ("--repeat", "6", "--at-once", "1")
    assert agui("evaluate", str(file), flaky.url, *options, "--at-least", "0.6").returncode == 0
    done = agui("evaluate", str(file), flaky.url, *options, "--at-least", "0.7")
    assert (done.returncode, done.stdout.splitlines()[-3:]) == (
        1,
        ["a: 4 of 6 is below 70 %", "b: 4 of 6 is below 70 %", "all: 8 of 12 is below 70 %"],
    )
    assert agui("evaluate", str(file), flaky.url, *options).returncode == 1
    agui("evaluate", str(file), flaky.url, *options, "--journal", str(before))
    # As often as before, though not always.
    same = agui("evaluate", str(file), flaky.url, *options, "--journal", str(after), "--baseline", str(before))
    assert (same.returncode, same.stdout.splitlines()[-2:]) == (
        0,
        ["against the baseline:", "  nothing passes less often"],
    )
    with serve(FunctionAgent(lambda input: "no")) as bad:
        worse = agui("evaluate", str(file), bad.url, *options, "--baseline", str(before))
    assert (worse.returncode, worse.stdout.splitlines()[-4:]) == (
        1,
        [
            "against the baseline:",
            "  a: 67 % → 0 %; the 95 % interval of the difference, -90 to -13 points, excludes zero: worse",
            "  b: 67 % → 0 %; the 95 % interval of the difference, -90 to -13 points, excludes zero: worse",
            "  all: 67 % → 0 %; the 95 % interval of the difference, -86 to -30 points, excludes zero: worse",
        ],
    )
    few = agui("evaluate", str(file), flaky.url, "--at-once", "1", "--repeat", "1", "--baseline", str(before))
    assert few.returncode == 0
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"scenarios": [{"name": "a", **scenario, "says": ["Hello"]}]}), "utf-8")
    done = agui("evaluate", str(other), flaky.url, "--baseline", str(before))
    assert (done.returncode, done.stdout) == (2, "")
    assert "before.jsonl has no conversation of these scenarios" in done.stderr


def test_reports_have_rates_times_tokens_and_cost_and_open_in_the_inspector(
    agui: Agui, server: Server, scenarios: str, tmp_path: Path
) -> None:
    as_json, html, kept = tmp_path / "x.json", tmp_path / "x.html", tmp_path / "kept"
    options = ("--json", str(as_json), "--html", str(html), "--keep", str(kept), "--price", "demo-1=1/2")
    done = agui("evaluate", scenarios, server.url, *options)
    rows = [line.split("  ")[0] for line in done.stdout.splitlines()[1:8]]
    assert rows == ["scenario", "ferry", "plan", "all", "seconds", "first text", "tokens"]
    assert "cost        no price of demo-script" in done.stdout
    report = json.loads(as_json.read_text("utf-8"))
    assert report["agents"][""] | {"seconds": 0, "first_text": 0} == {
        "passed": 1,
        "held": 2,
        "broken": 0,
        "interval": pytest.approx([0.0945, 0.9055], abs=0.001),
        "seconds": 0,
        "first_text": 0,
        "tokens": sum(each["tokens"] for each in report["conversations"]),
        "cost": None,
        "unpriced": ["demo-script"],
    }
    assert [(each["scenario"], each["passed"]) for each in report["conversations"]] == [
        ("plan", True),
        ("ferry", False),
    ]
    assert all(0 < each["seconds"] < 60 for each in report["conversations"])
    assert report["gate"]["passed"] is False
    page = html.read_text("utf-8")
    assert page.count("Open in the inspector</button>") == 2
    assert page.count('"rows":[') == 2
    # What passed is on the page, and not among the reproductions.
    assert [each.name for each in kept.iterdir()] == ["ferry-1.jsonl"]


def test_only_some_scenarios_are_held_and_a_budget_ends_the_evaluation(
    agui: Agui, server: Server, scenarios: str
) -> None:
    done = agui("evaluate", scenarios, server.url, "--only", "pl*", "--per-minute", "6000")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 of 1 conversations passed")
    done = agui("evaluate", scenarios, server.url, "--only", "train")
    assert (done.returncode, "--only train: there is no such scenario; there are plan, ferry" in done.stderr) == (
        2,
        True,
    )
    prices = ("--price", "demo-script=1000/2000", "--price", "known")
    done = agui("evaluate", scenarios, server.url, *prices, "--max-cost", "0.01 USD", "--at-once", "1")
    assert (done.returncode, done.stdout.splitlines()[0]) == (4, "1 of 1 conversations passed; 1 of 2 not held")
    assert re.search(r"^cost +\d\.\d{4}$", done.stdout, re.MULTILINE)
    done = agui("evaluate", scenarios, server.url, "--max-tokens", "1", "--at-once", "1")
    assert (done.returncode, done.stdout.splitlines()[0]) == (4, "1 of 1 conversations passed; 1 of 2 not held")
