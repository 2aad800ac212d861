"""`agui inspect`: the page of a recording."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agui_client.recording import record
from agui_client.testing import ScriptedAgent, Turn, state, text, tool_call, tool_result, turn
from support.programs import Program

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]
HOSTILE = "\x1b[2J\x1b]0;title\x07\u202e"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    agent = ScriptedAgent(turn(text("18 degrees.")), turn(text("And rain.")))
    agent.use(record(path))
    for prompt in ("Weather?", "And tomorrow?"):
        agent.run_agent_sync(prompt)
    return path


def test_the_page_lies_beside_the_recording_and_is_its_owners_alone(agui: Agui, recording: Path) -> None:
    done = agui("inspect", str(recording))
    page = recording.with_name("run.inspect.html")
    assert (done.returncode, done.stdout) == (0, f"{page} shows a recording of requests: 2, events: 12\n")
    assert b"And tomorrow?" in page.read_bytes()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_the_page_goes_where_it_is_wanted_and_is_opened(
    agui: Agui, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = tmp_path / "look.html"
    assert agui("inspect", str(recording), "--out", str(page), "--open").returncode == 0
    assert opened == [page.as_uri()]
    assert page.read_bytes().startswith(b"<!doctype html>")


def test_a_recording_that_was_cut_or_is_empty_has_a_page_that_says_so(agui: Agui, recording: Path) -> None:
    page = recording.with_name("run.inspect.html")
    content = recording.read_bytes()
    recording.write_bytes(content[: content.index(b"TEXT_MESSAGE_END")])
    assert agui("inspect", str(recording)).stdout.endswith("requests: 1, events: 4\n")
    assert b"cut off in the middle of a line" in page.read_bytes()
    recording.write_bytes(content[: content.index(b"\n") + 1])
    assert agui("inspect", str(recording)).returncode == 0
    assert b"has no requests" in page.read_bytes()


def test_two_recordings_have_one_page(agui: Agui, recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(recording.read_text("utf-8").replace("18 ", "19 "), "utf-8")
    done = agui("inspect", str(recording), str(other), "--price", "small=1/2")
    page = recording.with_name("run.compare.html")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            f"{page} shows both; different: request, text",
            'request: request 2: /messages/1/content is "19 degrees.", recorded was "18 degrees."',
            'text: request 1: message 1 is "19 degrees.", recorded was "18 degrees."',
        ],
    )
    content = page.read_bytes().decode()
    assert "A: run.jsonl" in content
    assert all(f"{celsius} degrees." in content for celsius in (18, 19))
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert agui("inspect", str(recording), str(recording)).stdout.endswith("different: nothing\n")


@pytest.mark.parametrize(
    ("turns", "line"),
    [
        ([turn(text("18 degrees."), text("Dry."))], 'text: request 1: message 2 is new: "Dry."'),
        ([turn(text("18 degrees."), state({"a": 1}))], "state: request 1: /a is new: 1"),
        ([turn(text("18 degrees."), tool_call("book", {}))], 'tools: request 1: call 1 is new: {"name": "book"'),
        ([turn(text("18 degrees."))] * 2, "request: request 2: only one of"),
        ([turn(text("18 degrees."), state({HOSTILE: "b"}))], "state: request 1: /[2J]0;title is new"),
    ],
)
def test_the_first_differences_are_printed(agui: Agui, tmp_path: Path, turns: list[Turn], line: str) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    scripts: dict[Path, list[Turn]] = {one: [turn(text("18 degrees."))], other: turns}
    for path, script in scripts.items():
        agent = ScriptedAgent(*script).use(record(path))
        for _ in script:
            agent.run_agent_sync("How is Oslo?")
    shown = agui("inspect", str(one), str(other)).stdout
    assert line in shown
    assert not {"\x1b", "\x07", "\u202e"} & {*shown}


def test_prices_that_cannot_be_read_and_a_second_place_for_a_url_are_refused(agui: Agui, recording: Path) -> None:
    done = agui("inspect", str(recording), "--price", "small")
    assert (done.returncode, "write model=in/out" in done.stderr) == (2, True)
    done = agui("inspect", "http://agent.test/", str(recording))
    assert (done.returncode, "two recordings are compared" in done.stderr) == (2, True)


def test_no_page_replaces_a_recording(agui: Agui, recording: Path, tmp_path: Path) -> None:
    before, other = recording.read_bytes(), tmp_path / "other.jsonl"
    other.write_bytes(before)
    for places in ([recording], [other, recording], ["http://agent.test/", "--record", recording]):
        done = agui("inspect", *map(str, places), "--out", str(recording))
        assert (done.returncode, "would replace the file that is read or recorded to" in done.stderr) == (2, True)
    assert recording.read_bytes() == before


def test_what_is_no_recording_is_refused(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Hello\nyou\n", "utf-8")
    done = agui("inspect", str(path))
    assert (done.returncode, "it is not JSON" in done.stderr) == (2, True)
    missing = agui("inspect", str(tmp_path / "nothing.jsonl"))
    assert (missing.returncode, "No such file" in missing.stderr) == (2, True)
    assert [*tmp_path.iterdir()] == [path]


def test_views_draw_the_calls_of_their_tools(start: Start, tmp_path: Path) -> None:
    path, views = tmp_path / "run.jsonl", tmp_path / "cards.py"
    views.write_text(
        "from agui_client.notebook import renders\n"
        "@renders('look')\n"
        "def card(call):\n"
        "    return call.name + ' came to ' + str(call.result)\n",
        "utf-8",
    )
    agent = ScriptedAgent(turn(tool_call("look", {}), tool_result("nothing")))
    agent.use(record(path)).run_agent_sync("Look!")
    # In a process of its own, as the view stays registered.
    done = start("inspect", str(path), "--views", str(views))
    assert done.wait(timeout=30) == 0
    assert b"look came to nothing" in path.with_name("run.inspect.html").read_bytes()
