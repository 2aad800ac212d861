"""Recordings of format 1, whose inputs are all whole; `make_recordings.py` beside them says how they were made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agui_client import AbstractAgent, Resolve, RunFailedError, tool
from agui_client.inspector import compare
from agui_client.recording import Recording, ReplayAgent, record
from agui_client.testing import ScriptedAgent, text, turn

FIXTURES = Path(__file__).parents[1] / "fixtures" / "first_version"
PLAIN, PACKED = FIXTURES / "recording.jsonl", FIXTURES / "packed.jsonl.gz"
FACTS: dict[str, Any] = json.loads((FIXTURES / "recording.json").read_text("utf-8"))
"""What the package that made the recordings showed of them."""
both = pytest.mark.parametrize("path", [PLAIN, PACKED], ids=["plain", "packed"])


@tool
def look(place: str) -> str:
    """Looks at a place."""
    return f"{place} is quiet"


def play(agent: AbstractAgent) -> list[Any]:
    runs: list[dict[str, Any]] = [
        {"prompt": "How is Oslo?"},
        {"prompt": "Book the opera."},
        {"resume": {"i1": Resolve({"seats": 2, "password": "hunter3"})}},
        {"prompt": "And one more seat."},
    ]
    found: list[Any] = []
    for run in runs:
        try:
            result = agent.run_agent_sync(**run)
            found.append([result.text, [each.id for each in result.interrupts], agent.state])
        except RunFailedError as error:
            found.append([type(error).__name__, error.code, agent.state])
    return found


@both
def test_a_recording_is_read_as_it_was(path: Path) -> None:
    exchanges = [
        {
            "input": each.request.input,
            "events": len(each.events),
            "end": each.end and each.end.reason,
            "outcome": each.outcome and each.outcome.ending,
            "tools": [step.status for step in each.tools],
        }
        for each in Recording.read(path).exchanges
    ]
    assert exchanges == FACTS["exchanges"]


@both
def test_a_recording_is_replayed(path: Path) -> None:
    assert play(ReplayAgent(path, tools=[look])) == FACTS["results"]
    assert ReplayAgent(path).run_agent_sync("When does the ferry leave?").text == "The ferry leaves at nine."


def test_a_replay_that_is_recorded_is_the_same_recording(tmp_path: Path) -> None:
    again = tmp_path / "again.jsonl"
    agent = ReplayAgent(PLAIN, tools=[look]).use(record(again))
    play(agent)
    trip = Recording.read(PLAIN)
    trip.exchanges.pop()
    (difference,) = compare(trip, Recording.read(again)).differences
    # A password was no secret in format 1.
    hidden = '/resume/0/payload/password is "[redacted]", recorded was "hunter2"'
    assert (difference.aspect, difference.request, difference.what) == ("request", 4, hidden)
    assert {line.format for line in Recording.read(again).headers} == {2}


def test_sessions_of_both_formats_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    shutil.copy(PLAIN, path)
    agent = ScriptedAgent(turn(text("Hello."))).use(record(path))
    for prompt in ("Hi", "Hi again"):
        agent.run_agent_sync(prompt)
    inputs = [each["input"] for each in FACTS["exchanges"]]
    exchanges = Recording.read(path).exchanges
    assert [each.request.input for each in exchanges[:-2]] == inputs
    assert [len(each.input.messages) for each in exchanges[-2:]] == [1, 3]
