"""`agui run --record` and `agui replay`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agui_client import tool
from agui_client.recording import Recording, record
from agui_client.testing import ScriptedAgent, reasoning, serve, state, text, tool_call, turn

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
STORY = turn(reasoning("Hm."), text("18 degrees."), state({"city": "Oslo"}))


@tool
def look(place: str) -> str:
    """Looks."""
    return f"{place} is quiet"


def recorded(path: Path, *turns: object) -> str:
    agent = ScriptedAgent(*turns, tools=[look], thread_id="t")  # type: ignore[arg-type]
    agent.use(record(path)).run_agent_sync("How is Oslo?")
    return str(path)


def test_a_run_is_recorded_and_replayed(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with serve(ScriptedAgent(STORY)) as server:
        done = agui("run", server.url, "Weather?", "--record", str(path))
    assert (done.returncode, done.stdout) == (0, "18 degrees.\n")
    assert len(Recording.read(path).exchanges) == 1
    shown = agui("replay", str(path), "--speed", "0", "-v")
    assert (shown.returncode, shown.stdout) == (0, "18 degrees.\n")
    assert shown.stderr.startswith('> Weather?\nthought: Hm.\nstate: {"city": "Oslo"}\n')


def test_the_rounds_of_a_call_are_shown_with_the_results_of_its_tools(agui: Agui, tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.jsonl", turn(tool_call("look", {"place": "Oslo"})), turn(text("Quiet.")))
    shown = agui("replay", path, "--speed", "0")
    assert (shown.returncode, shown.stdout) == (0, "Quiet.\n")
    assert shown.stderr == '> How is Oslo?\ntool look({"place": "Oslo"})\ntool look -> Oslo is quiet\n'


def test_a_recording_that_was_cut_is_shown_as_far_as_it_goes(agui: Agui, tmp_path: Path) -> None:
    path = Path(recorded(tmp_path / "run.jsonl", STORY))
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"TEXT_MESSAGE_END")])
    shown = agui("replay", str(path), "--speed", "0")
    assert (shown.returncode, shown.stdout) == (3, "18 degrees.\n")
    assert "cut off" in shown.stderr


def test_a_file_that_is_no_recording_is_wrong_usage(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("{}\n", "utf-8")
    done = agui("replay", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not a recording" in done.stderr


@pytest.mark.parametrize("name", ["recording.jsonl", "packed.jsonl.gz"])
def test_the_commands_take_recordings_of_the_first_format(agui: Agui, name: str, tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "fixtures" / "first_version"
    path, page = str(folder / name), tmp_path / "page.html"
    assert "The ferry leaves at nine." in agui("replay", path).stdout
    assert "requests: 6," in agui("inspect", path, "--out", str(page)).stdout
    assert b"leaves" in page.read_bytes()
    both = agui("inspect", str(folder / "recording.jsonl"), path, "--out", str(page))
    assert both.stdout == f"{page} shows both; different: nothing\n"


def test_a_request_that_cannot_be_read_is_named_and_the_others_are_replayed(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = record(path)
    for thread_id, prompts in {"t": ("Hi", "How is Oslo?"), "u": ("Bye",)}.items():
        agent = ScriptedAgent(turn(text(f"In {thread_id}.")), thread_id=thread_id).use(recorder)
        for prompt in prompts:
            agent.run_agent_sync(prompt)
    lost = Recording.read(path).exchanges[0].request.request
    path.write_text("".join(line for line in path.read_text().splitlines(True) if f'"request":"{lost}"' not in line))
    shown = agui("replay", str(path))
    assert "cannot be read: it refers to request" in shown.stderr
    assert shown.stdout == "In u.\n"
