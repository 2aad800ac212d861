"""The pytest plugin: a program's tests are recorded once, and pass with the network blocked."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Context

from agui_client import HttpAgent, UsageError
from agui_client.recording import Recording, ReplayAgent
from agui_client.recording._cassettes import CassetteFixture
from agui_client.testing import ScriptedAgent, Server, serve, text, tool_call, turn
from support.programs import Program

PROGRAM = '''
from agui_client import HttpAgent, tool

@tool
def get_weather(city: str) -> str:
    """Weather."""
    return f"18 degrees in {city}"

def answer(question):
    return HttpAgent("URL", headers={"authorization": "Bearer abc"}, tools=[get_weather]).run_agent_sync(question)

async def answer_soon(question):
    return await HttpAgent("URL", tools=[get_weather], timeout=20).run_agent(question)
'''
TESTS = """
import asyncio
import pytest
from agui_client import HttpAgent
from agui_client.testing import ScriptedAgent, text, turn
from program import answer, answer_soon

def test_weather(agui_cassette):
    assert answer("WEATHER").text == "It is fine."

@pytest.mark.agui_cassette
@pytest.mark.parametrize("city", ["New-York", "New York"])
def test_cities(city):
    result = asyncio.run(answer_soon(f"How is {city}?"))
    assert [each.message.content for each in result.tool_executions] == ["18 degrees in Oslo"]

class TestNamed:
    @pytest.mark.agui_cassette("shared.jsonl", match=lambda recorded, asked: True)
    def test_named(self):
        assert answer("anything").text == "It is fine."

def test_without(request):
    assert ScriptedAgent(turn(text("No network."))).run_agent_sync("Hi").text == "No network."
    assert not hasattr(request, "agui_cassette")
"""


@pytest.fixture
def server() -> Generator[Server]:
    calling = turn(tool_call("get_weather", {"city": "Oslo"}))
    with serve(ScriptedAgent(calling, turn(text("It is fine.")))) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (tmp_path / "program.py").write_text(PROGRAM.replace("URL", server.url), "utf-8")
    (tmp_path / "test_program.py").write_text(TESTS, "utf-8")
    return tmp_path


def run(project: Path, *arguments: str) -> str:
    """What pytest says of the project, in a process of its own."""
    plugin = ("-p", "agui_client._pytest_plugin", "-p", "no:cacheprovider")
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "300", "PYTHONDONTWRITEBYTECODE": "1"}
    with Program(
        "-m", "pytest", "-c", str(project / "pytest.ini"), *plugin, *arguments, str(project), env=env
    ) as process:
        printed, complaints = process.communicate("", 60)
    assert complaints == ""
    return printed


def test_tests_are_recorded_once_and_pass_without_a_network(project: Path) -> None:
    blocked = run(project, "--agui-block-network", "--agui-record=once", "-k", "weather")
    assert "1 failed, 4 deselected" in blocked
    assert re.search(r"a connection to 127.0.0.1, port \d+, was blocked by --agui-block-network", blocked)
    missing = run(project)
    assert "4 failed, 1 passed" in missing
    assert re.search("there is no recording .*test_weather.jsonl; make it with `pytest --agui-record=once`", missing)

    assert "5 passed" in run(project, "--agui-record=once")
    folder = project / "cassettes"
    made = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    names = ["test_cities-New-York-58b883be.jsonl", "test_cities-New-York.jsonl", "test_weather.jsonl"]
    assert made == ["shared.jsonl", *(f"test_program/{name}" for name in names)]
    assert len(Recording.read(folder / "shared.jsonl").exchanges) == 2
    assert not any("Bearer" in path.read_text("utf-8") for path in folder.rglob("*.jsonl"))

    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    assert "5 passed" in run(project, "--agui-block-network", "--agui-record=once")
    assert {path: path.read_bytes() for path in folder.rglob("*.jsonl")} == before

    changed = TESTS.replace("WEATHER", "WEATHER in Oslo").replace("{city}?", "{city}!")
    (project / "test_program.py").write_text(changed, "utf-8")
    refused = run(project, "--agui-block-network")
    assert "3 failed, 2 passed" in refused
    difference = '/messages/0/content is "WEATHER in Oslo", recorded was "WEATHER"'
    assert (
        f"UnrecordedRequestError: the recording test_weather.jsonl has no response to this request: {difference}"
        in refused
    )
    # The test's own lines, and no frame of the package between them and the difference.
    assert not re.search(r"agui_client\W(_run|recording)\W\w+\.py:\d+", refused)

    assert "1 passed, 4 deselected" in run(project, "--agui-record=all", "-k", "weather")
    assert "WEATHER in Oslo" in (folder / "test_program" / "test_weather.jsonl").read_text("utf-8")


WAYS = """
import socket
import pytest

@pytest.mark.parametrize("reach", [
    lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
    lambda: socket.socket().connect_ex(("192.0.2.1", 80)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", 0, ("192.0.2.1", 53)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("192.0.2.1", 53)),
    lambda: socket.getaddrinfo("name.invalid", 80),
    lambda: socket.gethostbyname("name.invalid"),
])
def test_a_way_out_is_closed(reach):
    with pytest.raises(PermissionError, match="was blocked by --agui-block-network"):
        reach()

def test_what_stays_in_the_machine_is_open():
    assert socket.getaddrinfo("127.0.0.1", 80) and socket.getaddrinfo("localhost", 80)
    assert socket.getaddrinfo(None, 0, flags=socket.AI_PASSIVE)
    first, second = socket.socketpair()
    first.sendmsg([b"x"])
    assert second.recv(1) == b"x"
    first.close(), second.close()
"""


def test_every_way_to_a_network_is_blocked(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (tmp_path / "test_ways.py").write_text(WAYS, "utf-8")
    assert "8 passed" in run(tmp_path, "--agui-block-network")


def test_the_recording_of_a_test_that_fails_is_not_kept(project: Path) -> None:
    (project / "test_program.py").write_text(TESTS.replace("It is fine", "It is not"), "utf-8")
    assert "1 failed, 4 deselected" in run(project, "--agui-record=all", "-k", "weather")
    assert not [path for path in (project / "cassettes").rglob("*") if path.is_file()]


def test_two_agents_that_are_asked_the_same_are_told_apart_by_their_addresses(tmp_path: Path) -> None:
    path = tmp_path / "both.jsonl"

    def asked(*urls: str) -> list[str]:
        return [HttpAgent(url).run_agent_sync("Hi").text for url in urls]

    with (
        serve(ScriptedAgent(turn(text("one")))) as one,
        serve(ScriptedAgent(turn(text("other")))) as other,
        CassetteFixture(path, "record").inserted(),
    ):
        assert asked(one.url, other.url) == ["one", "other"]
    with CassetteFixture(path, "replay").inserted():
        assert asked(f"{other.url}?key=x", one.url, other.url) == ["other", "one", "other"]
    # A test server has another port each time, so that an address that is not recorded takes the answers in order.
    with CassetteFixture(path, "replay").inserted():
        assert asked("http://127.0.0.1:1/", "http://127.0.0.1:1/") == ["one", "other"]


def _matches_nothing(recorded: object, asked: object) -> bool:
    """Find no request like another."""
    return False


def test_values_that_are_ignored_do_not_count_and_requests_that_nobody_asks_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"

    def ask(*prompts: str, now: str) -> list[str]:
        agent = HttpAgent(url)
        return [
            agent.run_agent_sync(prompt, context=[Context(description="now", value=now)]).text for prompt in prompts
        ]

    with serve(ScriptedAgent(turn(text("Hello.")))) as server, CassetteFixture(path, "record").inserted():
        url = server.url
        ask("Hi", "Bye", now="Monday")
    with CassetteFixture(path, "replay", ignore=["/context"]).inserted():
        assert ask("Hi", "Bye", now="Friday") == ["Hello."] * 2
    pointed: list[tuple[dict[str, Any], str]] = [
        ({}, r'record it anew, or give ignore=\["/context"\]\n'),
        ({"ignore": ["/state"]}, r'record it anew, or give ignore=\["/context"\]\n'),
        ({"match": _matches_nothing}, "; record it anew\n"),
    ]
    for options, advice in pointed:
        with pytest.raises(UsageError, match=advice), CassetteFixture(path, "replay", **options).inserted():
            ask("Hi", now="Friday")
    with (
        pytest.warns(UserWarning, match="the test no longer asks 1 of the 2 requests in"),
        CassetteFixture(path, "replay").inserted(),
    ):
        ask("Hi", now="Monday")
    with pytest.warns(UserWarning, match="asks nothing of the recording"), CassetteFixture(path, "replay").inserted():
        pass
    with pytest.raises(UsageError, match="ignore= takes JSON pointers"):
        ReplayAgent(path, ignore=["context"])
