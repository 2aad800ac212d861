"""`agui evaluate`: the table, exit codes, JUnit and cassettes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agui_client.demo import demo_agent
from agui_client.evaluation import cassettes
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
    assert (done.returncode, done.stdout.splitlines()[:4]) == (
        1,
        [
            "2 of 4 conversations passed",
            "scenario  passed",
            "ferry     0/2 0 % (0-66)",
            "plan      2/2 100 % (34-100)",
        ],
    )
    assert [(str(each), each.scenario.says) for each in cassettes(kept)] == [
        ("ferry-1", ["Book the ferry"]),
        ("ferry-2", ["Book the ferry"]),
    ]
    (suite,) = ElementTree.parse(junit).getroot()
    assert suite.attrib == {"name": "agent", "tests": "4", "failures": "2", "errors": "0"}
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
    assert agui("evaluate", str(good), "http://127.0.0.1:1/", "--retry", "0").returncode == 3
    assert agui("evaluate", str(good), server.url, "--shrink").returncode == 2


def test_a_failure_that_does_not_replay_costs_neither_the_table_nor_the_junit_file(
    agui: Agui, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
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
    assert [(str(each), each.scenario.says) for each in cassettes(kept) if str(each) == "b-1"] == [("b-1", ["Hello"])]
    assert len(ElementTree.parse(junit).getroot()[0]) == 2


@pytest.mark.parametrize("option", ["--junit"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_sent(
    agui: Agui, scenarios: str, tmp_path: Path, option: str
) -> None:
    with serve_bytes(b"") as server:
        done = agui("evaluate", scenarios, server.url, option, str(tmp_path / "no" / "such.xml"))
        assert (done.returncode, done.stdout, server.requests) == (2, "", [])
    assert "such.xml cannot be written; name a file in a folder that exists" in done.stderr
