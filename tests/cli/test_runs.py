"""`agui serve --store` and `agui runs`: runs that go on without a caller, at a terminal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agui_client import HttpAgent
from agui_client.testing import ScriptedAgent, serve, text, turn
from support.programs import Program

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]

AGENTS = """
from agui_client import tool
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, pause, text, tool_call, turn

@tool(approval="always")
def pay(amount: int) -> str:
    'Pay.'
    return f"paid {amount}"

async def choose(request, input):
    if input.thread_id == "slow":
        return ScriptedAgent(turn(text("Well,"), pause(float("inf"))))
    asking = ScriptedAgent(turn(text("I pay."), tool_call("pay", {"amount": 3})), tools=[pay])
    return done if input.resume else asking

done = ScriptedAgent(turn(text("Done.")), tools=[pay])
app = agent_app(done)
"""

HOLDING = """
import asyncio
from pathlib import Path

async def words(input):
    yield "Well, "
    while Path({!r}).exists():
        await asyncio.sleep(0.05)
    yield "done."

from agui_client import FunctionAgent
hold = FunctionAgent(words)
"""


def test_runs_are_listed_followed_answered_and_stopped(start: Start, agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "paying.py"
    path.write_text(AGENTS, "utf-8")
    process = start("serve", f"{path}:choose", "--port", "0", "--store", "memory")
    assert process.stdout is not None
    url = process.stdout.readline().split(" is served at ")[1].split()[0]
    HttpAgent(url, thread_id="bills").run_agent_sync("Pay", run_id="r1")
    with HttpAgent(url, thread_id="slow").stream_sync("Wait", run_id="r2") as run:
        assert next(run.text_stream) == "Well,"

    def listed() -> list[tuple[str, str, str]]:
        infos: list[dict[str, Any]] = [
            json.loads(each) for each in agui("runs", "list", url, "--json").stdout.splitlines()
        ]
        return [(each["runId"], each["threadId"], each["status"]) for each in infos]

    assert listed() == [("r2", "slow", "running"), ("r1", "bills", "waiting")]
    assert agui("runs", "list", url, "--waiting").stdout.startswith("r1  bills  waiting")
    assert len(agui("runs", "list", url, "--waiting").stdout.splitlines()) == 1
    assert re.fullmatch(r'r2 .*\nr1 .* Allow the call of pay with {"amount": 3}\?\n', agui("runs", "list", url).stdout)
    followed, answered = agui("runs", "follow", url, "r1"), agui("runs", "answer", url, "r1", "approve")
    assert [(each.stdout, each.returncode) for each in (followed, answered)] == [("I pay.\n", 4), ("Done.\n", 0)]
    assert agui("runs", "stop", url, "r2").stdout.split()[:3] == ["r2", "slow", "stopped"]
    assert [each[2] for each in listed()] == ["finished", "stopped", "finished"]
    HttpAgent(url, thread_id="more").run_agent_sync("Pay", run_id="r3")
    HttpAgent(url, thread_id="more").run_agent_sync("Pay", run_id="r4")
    assert listed()[:2] == [("r4", "more", "waiting"), ("r3", "more", "superseded")]
    passed_over = agui("runs", "answer", url, "r3", "approve")
    assert (passed_over.returncode, "waits for no answer: it is superseded" in passed_over.stderr) == (2, True)
    wrong = [agui("runs", "answer", url, "r1", "deny"), agui("runs", "follow", url, "other")]
    assert [each.returncode for each in wrong] == [2, 2]
    HttpAgent(url, thread_id="later").run_agent_sync("Pay", run_id="r5")
    waits = "(agui runs answer URL r5 approve, or deny, cancel, JSON or text)\n"
    assert agui("runs", "follow", url, "r5").stderr.endswith(f': Allow the call of pay with {{"amount": 3}}? {waits}')
    [asked] = json.loads(agui("runs", "list", url, "--json").stdout.splitlines()[0])["interrupts"]
    for word in ("aprove", "nope=approve", "[" * 20_000):
        refused = agui("runs", "answer", url, "r5", word)
        words = "an answer is approve, deny, cancel, or JSON or text that fits; INTERRUPT=ANSWER is for"
        assert (refused.returncode, f"; {words} {asked['id']}; " in refused.stderr) == (2, True)
    HttpAgent(url, thread_id="bills").run_agent_sync("Pay", run_id="r5")
    assert "2 runs have the id 'r5'; name one with thread_id=" in agui("runs", "stop", url, "r5").stderr
    answered = agui("runs", "answer", url, "r5", f"{asked['id']}=approve", "--thread-id", "later")
    assert answered.stdout == "Done.\n"


def test_an_address_without_kept_runs_says_how_to_keep_them(agui: Agui) -> None:
    with serve(ScriptedAgent(turn(text("Hi")))) as server:
        refused = agui("runs", "list", server.url)
    assert refused.returncode == 2
    assert "no agent at this address keeps runs; check its path, or serve the agent with" in refused.stderr


def test_runs_are_not_kept_for_an_app_that_the_program_made(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "serving.py"
    path.write_text(AGENTS, "utf-8")
    refused = agui("serve", f"{path}:app", "--port", "0", "--store", "memory")
    assert (refused.returncode, "agent_app(..., store=Store())" in refused.stderr) == (2, True)


def test_runs_in_a_database_are_listed_followed_answered_and_stopped(start: Start, agui: Agui, tmp_path: Path) -> None:
    path, database = tmp_path / "paying.py", f"sqlite:///{tmp_path / 'runs.db'}"
    path.write_text(AGENTS, "utf-8")
    process = start("serve", f"{path}:choose", "--port", "0", "--store", database)
    assert process.stdout is not None
    url = process.stdout.readline().split(" is served at ")[1].split()[0]
    HttpAgent(url, thread_id="bills").run_agent_sync("Pay", run_id="r1")
    with HttpAgent(url, thread_id="slow").stream_sync("Wait", run_id="r2") as run:
        assert next(run.text_stream) == "Well,"
    file = str(tmp_path / "runs.db")
    stopped, answered = agui("runs", "stop", file, "r2"), agui("runs", "answer", database, "r1", "approve")
    assert stopped.stdout.split()[:3] == ["r2", "slow", "stopped"]
    assert (answered.stdout, answered.returncode) == ("Done.\n", 0)
    HttpAgent(url, thread_id="later").run_agent_sync("Pay", run_id="r3")
    process.kill()
    process.wait()
    answering = start("runs", "answer", database, "r3", "approve")
    assert answering.stderr is not None
    notes = ""
    while "is queued" not in notes:
        notes += answering.stderr.readline()
    assert "no process of this database has the agent 'agent'" in notes
    answering.send_signal(signal.SIGINT)
    assert answering.wait(30) == 130
    [line] = [each for each in agui("runs", "list", database).stdout.splitlines() if " queued " in each]
    assert re.fullmatch(r"\S+  later  queued +[-0-9T:]+ +0 events  waits for a process that has its agent", line)
    stopped = agui("runs", "stop", database, line.split()[0])
    assert stopped.stdout.split()[1:3] == ["later", "stopped"]
    listed, followed = agui("runs", "list", database), agui("runs", "follow", database, "r1")
    assert [line.split()[1:3] for line in listed.stdout.splitlines()] == [
        ["later", "stopped"],
        ["later", "waiting"],
        ["bills", "finished"],
        ["slow", "stopped"],
        ["bills", "finished"],
    ]
    assert (followed.stdout, followed.returncode) == ("I pay.\n", 4)


def test_a_run_that_is_followed_at_its_address_goes_on_when_the_server_is_started_again(
    start: Start, agui: Agui, tmp_path: Path
) -> None:
    path, hold = tmp_path / "holding.py", tmp_path / "hold"
    path.write_text(HOLDING.format(str(hold)), "utf-8")
    hold.touch()
    serving = ("serve", f"{path}:hold", "--store", f"sqlite:///{tmp_path / 'runs.db'}", "--port")
    first = start(*serving, "0")
    assert first.stdout is not None
    url = first.stdout.readline().split(" is served at ")[1].split()[0]
    with HttpAgent(url).stream_sync("Wait", run_id="r") as run:
        assert next(run.text_stream) == "Well, "
    follower = start("runs", "follow", url, "r")
    assert follower.stdout is not None
    assert follower.stdout.read(6) == "Well, "
    first.kill()
    first.wait()
    hold.unlink()
    start(*serving, str(urlsplit(url).port))
    assert follower.communicate(timeout=30)[0].endswith("Well, done.\n")
    assert follower.returncode == 0


def test_a_run_whose_server_has_forgotten_it_is_not_said_to_begin_anew(start: Start, tmp_path: Path) -> None:
    path, hold = tmp_path / "holding.py", tmp_path / "hold"
    path.write_text(HOLDING.format(str(hold)), "utf-8")
    hold.touch()
    serving = ("serve", f"{path}:hold", "--store", "memory", "--port")
    first = start(*serving, "0")
    assert first.stdout is not None
    url = first.stdout.readline().split(" is served at ")[1].split()[0]
    with HttpAgent(url).stream_sync("Wait", run_id="r") as run:
        assert next(run.text_stream) == "Well, "
    follower = start("runs", "follow", url, "r")
    assert follower.stdout is not None
    assert follower.stdout.read(6) == "Well, "
    first.kill()
    first.wait()
    start(*serving, str(urlsplit(url).port))
    said = follower.communicate(timeout=30)[1]
    assert "the run may continue without this command; agui runs list shows what became of it" in said
    assert ("begin a new run" in said, follower.returncode) == (False, 3)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("typo.db", "there is no file typo.db"),
        ("postgres://ann:secret@host/runs", "or postgresql://user@host/database, not postgres://"),
        ("localhost:8000", "did you mean http://localhost:8000?"),
    ],
)
def test_a_place_where_no_runs_can_be_says_how_to_write_it(agui: Agui, url: str, message: str) -> None:
    refused = agui("runs", "list", url)
    assert (refused.returncode, message in refused.stderr, "secret" in refused.stderr) == (2, True, False)


def test_a_database_without_runs_is_left_as_it_is(agui: Agui, tmp_path: Path) -> None:
    refused = agui("runs", "list", f"sqlite:///{tmp_path / 'typo.db'}")
    assert (refused.returncode, "no runs were ever kept" in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
