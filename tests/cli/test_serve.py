"""`agui serve`: an agent of one's own, or a language model, behind a port."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from agui_client import AGUIError, ConversationSnapshot, HttpAgent, HTTPStatusError, Resolve, RunFailedError
from agui_client._cli.serve import ServeSettings
from agui_client.testing import serve_bytes
from support.model_server import model_server
from support.programs import Program
from support.waiting import LIMIT, until_sync

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]

AGENTS = """
from ag_ui.core import RunFinishedEvent, RunStartedEvent
from agui_client import tool
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, interrupt, pause, text, turn

agent = ScriptedAgent(turn(text("an agent")))
app = agent_app(agent)
asking = ScriptedAgent(turn(outcome=interrupt("How many?")))
slow = ScriptedAgent(turn(text("Well,"), pause(float("inf"))))
number = 3

@tool
def get_weather(city: str) -> str:
    'The weather.'
    return "18 degrees in " + city

def make():
    return ScriptedAgent(turn(text("made")))

async def make_later():
    return ScriptedAgent(turn(text("made later")))

async def choose(request, input):
    return ScriptedAgent(turn(text("chosen for " + request.path)))

async def echo(input):
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    raise ValueError(input.messages[-1].content)
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

def broken():
    raise LookupError("no key")

def wrong():
    return 4

def third(a, b, c): ...
"""


@pytest.fixture
def agents(tmp_path: Path) -> str:
    path = tmp_path / "my_agents.py"
    path.write_text(AGENTS, "utf-8")
    return str(path)


def address(process: Program) -> str:
    """Wait until an agent is served; returns its address."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert " is served at http://" in line, process.communicate(timeout=30)
    return line.split(" is served at ")[1].split()[0].rstrip(",")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("agent", "an agent"),
        ("make", "made"),
        ("make_later", "made later"),
        ("choose", "chosen for /"),
    ],
)
def test_an_agent_or_a_function_that_makes_or_chooses_one_is_served(
    start: Start, agents: str, name: str, told: str
) -> None:
    process = start("serve", f"{agents}:{name}", "--port", "0")
    url = address(process)
    assert HttpAgent(url).run_agent_sync("hello").text == told
    process.send_signal(signal.SIGINT)
    _, logged = process.communicate(timeout=30)
    assert process.returncode == 0
    assert re.fullmatch(r"INFO agui_client.call: call on thread \S+: success, .* in [0-9.]+ s\n", logged)


def test_a_server_on_a_loopback_address_answers_under_names_of_this_machine_and_allowed_ones_alone(
    start: Start, agents: str
) -> None:
    url = address(start("serve", f"{agents}:agent", "--port=0", "--allow-host=tunnel.test"))
    for name in ("evil.test", "localhost.evil.test", ""):
        assert httpx.post(url, json={}, headers={"host": name}).status_code == 403
        assert httpx.post(url, json={}, headers={"origin": f"http://{name}"}).status_code == 403
    for name in ("localhost:80", "127.0.0.1", "127.8.8.8", "[::1]:80", "tunnel.test", "Tunnel.Test:443"):
        assert httpx.post(url, json={}, headers={"host": name, "origin": f"http://{name}"}).status_code == 422


def test_a_server_with_a_page_shows_it_to_browsers_and_keeps_threads(start: Start, agents: str) -> None:
    process = start("serve", f"{agents}:agent", "--port=0", "--page")
    url = address(process)
    page = httpx.get(url)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert httpx.get(url, headers={"host": "evil.test"}).status_code == 403
    asked = HttpAgent(url, thread_id="a")
    asked.run_agent_sync("hello")
    again = HttpAgent(url, thread_id="a", connect_url=f"{url}connect")
    again.connect_agent_sync()
    assert [each.id for each in again.messages] == [each.id for each in asked.messages]


def test_a_server_that_other_machines_reach_answers_under_any_name(start: Start, agents: str) -> None:
    url = address(start("serve", f"{agents}:agent", "--port=0", "--host=0.0.0.0")).replace("0.0.0.0", "127.0.0.1")
    assert httpx.post(url, json={}, headers={"host": "anything.test"}).status_code == 422


def test_the_text_of_an_exception_is_logged_and_sent_on_request_only(start: Start, agents: str) -> None:
    quiet, open_ = (start("serve", f"{agents}:echo", "--port", "0", *more) for more in ((), ("--expose-errors",)))
    with pytest.raises(RunFailedError) as caught:
        HttpAgent(address(quiet)).run_agent_sync("swordfish")
    assert "swordfish" not in str(caught.value)
    with pytest.raises(RunFailedError, match="ValueError: swordfish"):
        HttpAgent(address(open_)).run_agent_sync("swordfish")
    quiet.send_signal(signal.SIGTERM)
    _, logged = quiet.communicate(timeout=30)
    assert "ValueError: swordfish" in logged
    assert quiet.returncode == 143


def test_ctrl_c_ends_a_server_in_the_middle_of_a_run(start: Start, agents: str) -> None:
    process = start("serve", f"{agents}:slow", "--port", "0", "--keep-alive", "0.05")
    with HttpAgent(address(process)).stream_sync("hello") as run:
        assert next(run.text_stream) == "Well,"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_a_change_of_a_file_is_served_as_soon_as_the_file_can_be_loaded(start: Start, agents: str) -> None:
    process = start("serve", f"{agents}:make", "--port", "0", "--reload")
    url = address(process)
    assert process.stderr is not None
    errors = process.stderr.fileno()
    os.set_blocking(errors, False)
    logged = b""

    def has_failed() -> bool:
        nonlocal logged
        with suppress(BlockingIOError):
            logged += os.read(errors, 65536)
        return b"SyntaxError" in logged

    assert HttpAgent(url).run_agent_sync("hello").text == "made"
    _change(Path(agents), "no Python", has_failed)
    _change(Path(agents), AGENTS.replace('"made"', '"made anew"'), lambda: _text(url) == "made anew")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


def _change(path: Path, source: str, has_happened: Callable[[], bool]) -> None:
    """Write a file until that was noticed: a change in the moment of a restart may not be."""
    for attempt in range(1, 7):
        path.write_text(source, "utf-8")
        changed_at = path.stat().st_mtime + attempt
        os.utime(path, (changed_at, changed_at))
        with suppress(TimeoutError):
            return until_sync(has_happened)
    raise AssertionError("the change was not noticed")


def _text(url: str) -> str:
    try:
        return HttpAgent(url, timeout=LIMIT).run_agent_sync("hello").text
    except AGUIError:  # the server was just ended
        return ""


def test_a_language_model_is_served_and_calls_tools_here(agents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_ai.models.ollama", reason="needs pydantic-ai: pip install 'agui-client[llm]'")

    async def ask(settings: ServeSettings, loaded: object) -> str:
        agent = HttpAgent("http://app/", app=await settings.make_app(loaded))
        return (await agent.run_agent("Weather?")).text

    with model_server() as model:
        monkeypatch.setenv("OLLAMA_BASE_URL", model.url)
        tools = (f"{agents}:get_weather",)
        settings = ServeSettings(place=None, model="ollama:llama3.2", tools=tools, keep_alive=15, expose_errors=False)
        assert asyncio.run(ask(settings, settings.load())) == "18 degrees."
    assert "18 degrees in Oslo" in json.dumps(model.requests[-1][1])


def test_interrupts_are_signed_with_the_secret_of_the_environment(agents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        settings = ServeSettings(place=f"{agents}:asking", model=None, tools=(), keep_alive=15, expose_errors=False)
        agent = HttpAgent("http://app/", app=await settings.make_app(settings.load()))
        (asked,) = (await agent.run_agent("hello")).interrupts
        forged = ConversationSnapshot.model_validate_json(
            agent.snapshot().model_dump_json(by_alias=True).replace(asked.id, "interrupt-1")
        )
        agent.restore(forged)
        with pytest.raises(HTTPStatusError, match="422"):
            await agent.run_agent(resume={"interrupt-1": Resolve(3)})

    monkeypatch.setenv("AGUI_SECRET", "a secret of this server")
    asyncio.run(ask())


def test_a_secret_that_is_too_short_is_refused_before_anything_is_served(
    agui: Agui, agents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGUI_SECRET", "short")
    done = agui("serve", f"{agents}:agent", "--port", "0", "--reload")
    assert (done.returncode, done.stdout) == (2, "")
    assert "AGUI_SECRET: the secret must be text or bytes, at least 16 bytes long" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_secret_beside_an_app_that_signs_nothing_is_refused(
    agui: Agui, agents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGUI_SECRET", "a secret of this server")
    done = agui("serve", f"{agents}:app", "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "AGUI_SECRET is not for apps; make this one with agent_app(..., secret=)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("{}:number",), "this is a int; name an agent, a function that makes one"),
        (("{}:third",), "this is a function; name an agent"),
        (("{}:broken",), "making the agent failed: LookupError: no key (my_agents.py, line "),
        (("{}:wrong",), "the function returned a int"),
        (("{}:nothing",), "there is no nothing in {}"),
        (("{}",), "write MODULE:NAME or FILE.py:NAME"),
        (("/no/such.py:agent",), "there is no file /no/such.py"),
        (("no_such_module:agent",), "ModuleNotFoundError: No module named 'no_such_module'"),
        ((), "give MODULE:AGENT or --model;"),
        (("{}:agent", "--model", "openai:gpt-5"), "give MODULE:AGENT or --model, not both"),
        (("{}:agent", "--tools", "{}:tools"), "--tools is for --model"),
        (("--model", "nothing"), "'nothing' cannot be used"),
        (("{}:app", "--page"), "--page is not for apps; make this one with agent_app(..., page=True)"),
        (("{}:agent", "--host", "192.0.2.1"), "cannot serve on 192.0.2.1, port 0: "),
    ],
)
def test_an_agent_that_cannot_be_served_is_an_error_in_one_sentence(
    agui: Agui, agents: str, arguments: tuple[str, ...], told: str
) -> None:
    done = agui("serve", "--port", "0", *(each.replace("{}", agents) for each in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert told.replace("{}", agents) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_an_error_in_one_sentence(agui: Agui, agents: str) -> None:
    with serve_bytes(b"") as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        done = agui("serve", f"{agents}:agent", "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot serve on 127.0.0.1, port {port}: Address already in use" in done.stderr
