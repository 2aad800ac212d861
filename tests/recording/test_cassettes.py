"""The pytest plugin: a program's tests are recorded once, and pass with the network blocked."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from agui_client.recording import Recording
from agui_client.testing import ScriptedAgent, Server, serve, text, tool_call, turn

pytest_plugins = ("pytester",)

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
@pytest.mark.parametrize("city", ["Oslo", "Turin"])
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
def project(pytester: pytest.Pytester, server: Server, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]")
    pytester.syspathinsert()
    pytester.makepyfile(program=PROGRAM.replace("URL", server.url), test_program=TESTS)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess(
        "-p", "agui_client.recording.pytest_plugin", "-p", "no:cacheprovider", *arguments
    )


def test_tests_are_recorded_once_and_pass_without_a_network(project: pytest.Pytester) -> None:
    blocked = run(project, "--agui-block-network", "--agui-record=once", "-k", "weather")
    blocked.assert_outcomes(failed=1, deselected=4)
    blocked.stdout.fnmatch_lines(["a connection to 127.0.0.1, port *, was blocked by --agui-block-network"])
    missing = run(project)
    missing.assert_outcomes(failed=4, passed=1)
    missing.stdout.fnmatch_lines(
        ["*there is no recording *test_weather.jsonl; make it with `pytest --agui-record=once`*"]
    )

    run(project, "--agui-record=once").assert_outcomes(passed=5)
    folder = project.path / "cassettes"
    made = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    names = ["test_cities-Oslo.jsonl", "test_cities-Turin.jsonl", "test_weather.jsonl"]
    assert made == ["shared.jsonl", *(f"test_program/{name}" for name in names)]
    assert len(Recording.read(folder / "shared.jsonl").exchanges) == 2
    assert not any("Bearer" in path.read_text("utf-8") for path in folder.rglob("*.jsonl"))

    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    run(project, "--agui-block-network", "--agui-record=once").assert_outcomes(passed=5)
    assert {path: path.read_bytes() for path in folder.rglob("*.jsonl")} == before

    project.makepyfile(test_program=TESTS.replace("WEATHER", "WEATHER in Oslo").replace("{city}?", "{city}!"))
    changed = run(project, "--agui-block-network")
    changed.assert_outcomes(failed=3, passed=2)
    difference = '/messages/0/content is "WEATHER in Oslo", recorded was "WEATHER"'
    changed.stdout.fnmatch_lines([f"*UnrecordedRequestError: the recording test_weather.jsonl has *{difference}*"])

    run(project, "--agui-record=all", "-k", "weather").assert_outcomes(passed=1, deselected=4)
    assert "WEATHER in Oslo" in (folder / "test_program" / "test_weather.jsonl").read_text("utf-8")


def test_the_recording_of_a_test_that_fails_is_not_kept(project: pytest.Pytester, tmp_path: Path) -> None:
    project.makepyfile(test_program=TESTS.replace("It is fine", "It is not"))
    run(project, "--agui-record=all", "-k", "weather").assert_outcomes(failed=1, deselected=4)
    assert not [path for path in (project.path / "cassettes").rglob("*") if path.is_file()]
