"""The backend of `examples/`, over a real socket: with our client, and with the official one of TypeScript."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client import Deny, HttpAgent
from agui_client.testing import ScriptedAgent, Server, Step, pause, serve, text, turn
from support.programs import Program
from support.typescript import run_typescript

pytest.importorskip("pydantic_ai.ui.ag_ui", reason="the backend needs pydantic-ai: pip install 'agui-client[llm]'")
pytest.importorskip("mcp.server.mcpserver", reason="the backend needs the MCP SDK: pip install 'agui-client[mcp]'")

_HERE = Path(__file__).parent
_EXAMPLE = _HERE.parents[1] / "examples" / "backend_fastapi.py"
_SECONDS = 60.0
_CALLS = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]


class Backend:
    """The example as a program, and the remote agents that it asks."""

    def __init__(self, url: str, guide: Server, critic: Server, mood: threading.Event, reached: Path) -> None:
        self.url, self.guide, self.critic = url, guide, critic
        self.reached = reached
        """A file that is made when the guide begins to answer without an end."""
        self.is_endless = mood
        """Set to have the guide never come to an end."""


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    reached = tmp_path_factory.mktemp("backend") / "reached"
    mood = threading.Event()

    async def guide(input: RunAgentInput) -> AsyncIterator[Step]:
        if mood.is_set():
            reached.touch()
            yield turn(text("Well,"), pause(float("inf")))
        else:
            yield turn(text("Lovely."))

    failing = ScriptedAgent(turn(text("Hm."), RunErrorEvent(message="I hate Oslo")))
    environment = {**os.environ, "PORT": "0"}
    environment.pop("MODEL", None)
    with (
        serve(ScriptedAgent(guide)) as first,
        serve(failing) as second,
        Program(str(_EXAMPLE), first.url, second.url, env=environment) as program,
    ):
        assert program.stderr is not None
        line = next(line for line in program.stderr if "running on http://" in line)
        url = line.split("running on ")[1].split()[0]
        threading.Thread(target=program.stderr.read, daemon=True).start()
        yield Backend(url, first, second, mood, reached)


def test_the_backend_has_a_page_and_asks_before_it_books(backend: Backend) -> None:
    assert "<main>" in httpx.get(f"{backend.url}/agent/", trust_env=False).text
    agent = HttpAgent(f"{backend.url}/agent", timeout=_SECONDS)
    result = agent.run_agent_sync("Plan my Saturday, and book the ferry.")
    [question] = result.interrupts
    assert question.message == 'Allow the call of book_ferry with {"departure": "12:10"}?'
    results = [message.content for message in result.messages if message.role == "tool"]
    assert (results[0], "10:10 and 12:10 on Saturday" in str(results[2])) == ("Lovely.", True)
    assert "I hate Oslo" not in str(results[1])  # the text of an exception is for the log
    result = agent.run_agent_sync(resume={question.id: Deny("No money.")})
    assert result.text == "Done: ask_expert ask_expert departures book_ferry "
    assert [message.content for message in result.messages if message.role == "tool"][-1] == "No money."
    assert result.warnings == []


def test_the_typescript_client_streams_answers_and_resumes(backend: Backend) -> None:
    seen = _told(backend, "tools")
    first, second, third = seen["runs"]
    assert [name for name in first if "TEXT" not in name] == [
        "RUN_STARTED",
        *_CALLS * 4,
        *["TOOL_CALL_RESULT"] * 3,
        "RUN_FINISHED",
    ]
    assert [name for name in second if "TEXT" not in name] == ["RUN_STARTED", *_CALLS, "RUN_FINISHED"]
    assert seen["asked"] == ['Allow the call of book_ferry with {"departure": "12:10"}?']
    assert third[:2] == ["RUN_STARTED", "TOOL_CALL_RESULT"]
    assert third.count("TEXT_MESSAGE_CONTENT") == 6
    assert seen["results"][-2:] == ["Bergen", "booked for 12:10"]
    assert seen["answer"] == "Done: ask_expert ask_expert departures locate book_ferry "


def test_a_run_that_the_typescript_client_leaves_goes_on_and_its_remote_agent_is_left_when_it_is_stopped(
    backend: Backend,
) -> None:
    backend.is_endless.set()
    try:
        seen = _told(backend, "abort")
        [run] = httpx.post(f"{backend.url}/agent/runs", json={"status": "running"}, trust_env=False).json()
        assert not backend.guide.disconnected.is_set()
        httpx.post(f"{backend.url}/agent/stop", json={"runId": run["runId"]}, trust_env=False).raise_for_status()
        assert backend.guide.disconnected.wait(_SECONDS)
    finally:
        backend.is_endless.clear()
    assert (seen["results"], "RUN_FINISHED" in seen["runs"][0]) == ([], False)


def _told(backend: Backend, story: str) -> Any:
    """Run the program of the client; return what it saw."""
    return run_typescript(_HERE / "typescript_client.mjs", f"{backend.url}/agent/", story, str(backend.reached))
