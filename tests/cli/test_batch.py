"""`agui batch`: an agent on every row of a file."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client.testing import Gate, ScriptedAgent, Server, Step, serve, text, turn
from cli.conftest import Agui, Start
from support.waiting import LIMIT, until_sync


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
        prompt = str(input.messages[-1].content)
        yield RunErrorEvent(message="no idea") if prompt == "fail" else turn(text(f"You said {prompt}."))

    with serve(ScriptedAgent(echo)) as server:
        yield server


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.csv"
    path.write_text("id,question\nx,one\ny,two\n", encoding="utf-8")
    return str(path)


def test_every_row_is_answered_and_the_next_start_asks_nothing(
    agui: Agui, server: Server, prompts: str, tmp_path: Path
) -> None:
    out = tmp_path / "answers.jsonl"
    for before in ("", ", 2 of them before"):
        done = agui("batch", server.url, prompts, "--out", str(out), "--prompt", "question", "--key", "id")
        assert (done.returncode, done.stdout) == (0, "")
        assert re.match(rf"2 of 2 rows in \d+ s{before}: 0 failed\nagent: ", done.stderr)
        lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert {line["key"]: line["text"] for line in lines} == {"x": "You said one.", "y": "You said two."}


def test_a_table_is_made_at_the_end_for_several_agents(
    agui: Agui, server: Server, prompts: str, tmp_path: Path
) -> None:
    out, agents = tmp_path / "answers.csv", ("--agent", f"old={server.url}", "--agent", f"new={server.url}")
    done = agui("batch", *agents, prompts, "--out", str(out), "--prompt", "question", "--key", "id")
    assert done.returncode == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = [(row["id"], row["agent"], row["text"]) for row in csv.DictReader(file)]
    assert rows == [
        (key, agent, f"You said {said}.") for key, said in (("x", "one"), ("y", "two")) for agent in ("old", "new")
    ]


def test_answers_never_replace_the_rows(agui: Agui, server: Server, tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text("prompt\nHi\n")
    done = agui("batch", server.url, str(path), "--out", str(path))
    assert (done.returncode, "would replace the file that is read" in done.stderr) == (2, True)
    assert ([each.name for each in tmp_path.iterdir()], path.read_text()) == (["prompts.csv"], "prompt\nHi\n")


def test_failures_and_budgets_have_exit_codes_of_their_own(agui: Agui, server: Server, tmp_path: Path) -> None:
    path, out = tmp_path / "prompts.jsonl", str(tmp_path / "out.jsonl")
    path.write_text('{"prompt": "fail"}\n{"prompt": "b"}\n')
    spent = agui("batch", server.url, str(path), "--out", out, "--max-rows", "1", "--at-once", "1")
    assert (spent.returncode, "stopped by the budget of rows; 1 rows are left" in spent.stderr) == (4, True)
    failed = agui("batch", server.url, str(path), "--out", out)
    assert (failed.returncode, "  1 RunFailedError: no idea\n" in failed.stderr) == (1, True)
    again = agui("batch", server.url, str(path), "--out", out, "--rerun-failed")
    assert (again.returncode, "agui: row 1 failed: RunFailedError: no idea\n" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("URL",), "row 1 has no column 'prompt'; it has 'id', 'question'"),
        ((), "Missing argument 'URL'"),
        (("URL", "--agent", "a=URL"), "give a URL or --agent, not both"),
        (("--agent", "a=b"), "an agent reads NAME=URL"),
        (("URL", "--out", "answers.xls"), "answers.xls: the name of a file of results ends with"),
    ],
)
def test_wrong_usage_is_explained(
    arguments: tuple[str, ...], complaint: str, agui: Agui, server: Server, prompts: str, tmp_path: Path
) -> None:
    given = [each.replace("URL", server.url) for each in arguments]
    where = [given.pop(0)] if given and given[0] == server.url else []
    done = agui("batch", *where, prompts, "--out", str(tmp_path / "out.jsonl"), *given)
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr


def test_ctrl_c_ends_at_once_and_says_how_to_go_on(start: Start, tmp_path: Path) -> None:
    gate, path, out = Gate(), tmp_path / "prompts.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        if input.messages[-1].content == "b":
            yield gate
        yield turn(text("hello"))

    agent = ScriptedAgent(answer)
    with serve(agent) as server:
        program = start("batch", server.url, str(path), "--out", str(out))
        until_sync(lambda: out.exists() and out.read_bytes().endswith(b"\n") and len(agent.inputs) == 2, 3 * LIMIT)
        program.send_signal(signal.SIGINT)
        _, complaints = program.communicate(timeout=LIMIT)
        assert program.wait(LIMIT) == 130
        assert f"the same command continues with {out}" in complaints
        assert complaints.endswith("agui: stopped\n")
        gate.open()
    assert len(out.read_text("utf-8").splitlines()) == 1
