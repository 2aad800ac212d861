"""`agui demo`: the same demo on a terminal, without one, and as a server for programs of one's own."""

from __future__ import annotations

import io
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import anyio.lowlevel
import httpx
import pytest
from ag_ui.core import RunStartedEvent
from rich.console import Console

from agui_client import HttpAgent, Resolve
from agui_client._cli.demo import PROGRAM
from agui_client._cli.live_view import DemoView
from agui_client.demo import demo_agent
from agui_client.testing import serve, serve_bytes
from agui_client.testing._steps import Pause
from support.programs import Program

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]
OnTerminal = Callable[..., Any]

QUESTION = "Buy two ferry tickets for 94 NOK?"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass in pauses."""

    async def no_wait(pause: Pause) -> None:
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(Pause, "wait", no_wait)


@pytest.mark.usefixtures("hurried")
def test_without_a_terminal_the_demo_prints_plain_lines_and_answers_itself(agui: Agui) -> None:
    done = agui("demo")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"The demo agent is served at http://127\.0\.0\.1:\d+/", lines[0])
    assert lines[1] == "It is a script without a model: whatever it is asked, it plans a Saturday in Oslo."
    assert lines[2] == "> Plan my Saturday in Oslo, and book the ferry."
    assert lines[3].startswith("thought: I am a script")
    assert "## A day in Oslo" in lines
    assert 'tool get_weather({"city": "Oslo", "day": "Saturday", "units": "celsius"})' in lines
    assert 'tool get_weather -> {"celsius": 18, "sky": "clear", "wind": "light"}' in lines
    assert sum(line.startswith("state: ") for line in lines) == 6
    assert not re.search(r"^state: .*\n\n", done.stdout, re.MULTILINE), "lines are not set apart from what follows"
    question = lines.index(f"question: {QUESTION}")
    assert lines[question + 1] == "answer: yes (there is no terminal to ask on, so the demo answers itself)"
    assert '"tickets": "bought"' in [line for line in lines if line.startswith("state: ")][-1]
    assert lines[-9] == "usage: demo-script: 1002 tokens in, 209 out"
    assert [line.partition(":")[0] for line in lines[-8:-6]] == ["run 1", "run 2"]
    assert lines[-6] == "The same in five lines of Python, with `agui demo --serve` in another terminal:"
    assert lines[-5:] == PROGRAM.splitlines()
    assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("hurried")
def test_the_program_at_the_end_of_the_demo_does_what_the_demo_did(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(demo_agent(pace=0)) as server:
        exec(PROGRAM.replace("http://localhost:8000/", server.url), {})
    printed = capsys.readouterr().out
    assert "a day for the *outdoors*" in printed
    assert "Done: **two tickets** for the 12:10 ferry." in printed


def test_on_a_terminal_the_demo_is_drawn_and_asks(on_terminal: OnTerminal) -> None:
    terminal = on_terminal("demo", is_hurried=True)
    terminal.read_until("[y/N] ")
    shown = plain(terminal.output)
    assert shown.index("It is a script without a model") < shown.index("thought for 0.")
    for sight in ("thought for 0.", "A day in Oslo", 'tool get_weather {"city": "Oslo", "day"', "state"):
        assert sight in shown
    assert "**" not in shown, "Markdown is drawn, not printed"
    assert QUESTION in shown
    terminal.send("y\n")
    assert terminal.finish() == 0
    shown = plain(terminal.output)
    assert '"tickets": "bought"' in shown
    assert "\n".join(PROGRAM.splitlines()) in shown.replace("\r", "")
    assert "usage: demo-script: 1002 tokens in, 209 out" in shown
    assert terminal.output.count("\x1b[?25l") == terminal.output.count("\x1b[?25h"), "the cursor is shown again"


@pytest.mark.parametrize(
    ("reply", "approved"), [("y", True), (" YES ", True), ("", False), ("n", False), ("sure", False), (EOFError, False)]
)
def test_only_a_yes_approves(monkeypatch: pytest.MonkeyPatch, reply: Any, approved: bool) -> None:
    def typed(prompt: str = "") -> str:
        if reply is EOFError:
            raise EOFError
        return str(reply)

    monkeypatch.setattr("builtins.input", typed)
    view = DemoView(Console(file=io.StringIO()), can_ask=True)
    assert view.ask(QUESTION) is approved


def test_a_screen_without_a_keyboard_is_asked_nothing() -> None:
    written = io.StringIO()
    assert DemoView(Console(file=written), can_ask=False).ask(QUESTION) is True
    assert "the demo answers itself" in " ".join(written.getvalue().split())


def test_ctrl_c_leaves_the_demo_and_a_clean_terminal(on_terminal: OnTerminal) -> None:
    terminal = on_terminal("demo", is_hurried=True)
    terminal.read_until("[y/N] ")
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    assert terminal.output.endswith("agui: stopped\r\n")
    assert "Traceback" not in terminal.output
    assert terminal.output.count("\x1b[?25l") == terminal.output.count("\x1b[?25h")


def test_the_demo_agent_can_be_served_for_programs_of_ones_own(start: Start) -> None:
    process = start("demo", "--serve", "--port", "0")
    assert process.stdout is not None
    line = process.stdout.readline()
    url = line.split()[6]
    assert line.startswith(f"The demo agent is served at {url} until Ctrl-C. It is a script without a model: ")
    assert httpx.post(url, json={}, headers={"host": "evil.test"}).status_code == 403
    with HttpAgent(url, thread_id="t").stream_sync("Is this on?", run_id="r") as run:
        assert next(iter(run)) == RunStartedEvent(thread_id="t", run_id="r", protocol_version="1.0")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (0, "")


def test_a_port_that_is_taken_is_told_in_one_sentence(agui: Agui) -> None:
    with serve_bytes(b"") as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        done = agui("demo", "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"agui: cannot serve on port {port}: Address already in use; name another with --port; see agui demo --help\n"
    )


@pytest.mark.anyio
@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("approved", [True, False])
async def test_the_demo_agent_is_a_conforming_producer(approved: bool) -> None:
    agent = demo_agent()
    first = await agent.run_agent("Book it")
    assert first.warnings == []
    assert [interrupt.id for interrupt in first.interrupts] == ["tickets"]
    assert first.state["trip"]["weather"] == {"celsius": 18, "sky": "clear", "wind": "light"}
    second = await agent.run_agent(resume={"tickets": Resolve({"approved": approved})})
    assert second.warnings == []
    assert second.result == {"tickets": "bought" if approved else "declined"}
    assert second.state == {"trip": {**first.state["trip"], "tickets": second.result["tickets"]}}
    assert len({message.id for message in second.messages}) == len(second.messages)


@pytest.mark.anyio
async def test_the_whole_demo_takes_less_than_six_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note_wait(pause: Pause) -> None:
        waits.append(pause.seconds)

    monkeypatch.setattr(Pause, "wait", note_wait)
    agent = demo_agent()
    await agent.run_agent("Book it")
    await agent.run_agent(resume={"tickets": Resolve({"approved": True})})
    assert 2 < sum(waits) < 5


def plain(output: str) -> str:
    """What was written, without the codes that place and colour it."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)
