"""A turn of a durable run in a stored thread, whose process is killed behind each of its commits, or stands still.

`AGUI_CLIENT_KILLS=1 pytest -n 0 tests/store/runs/test_commits.py` does so with every agent, on SQLite and on
PostgreSQL. `python -m tests.programs.stops` lets it stand still behind each commit, on both.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from agui_client.store import Store
from programs.stops import PROGRAM, TEXTS, Stop, carry_out, stops
from support.programs import Program

_SECONDS = 60.0
_AGENTS = list(TEXTS) if "AGUI_CLIENT_KILLS" in os.environ else ["served"]
NewDatabase = Callable[[], str]


@pytest.fixture
def new_database(shared_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> NewDatabase:
    """Makes an empty database, and returns its URL."""
    if shared_url.startswith("postgresql"):
        server = request.getfixturevalue("postgresql")
        return lambda: f"postgresql://{server.new_database()}"
    numbers = iter(range(1000))
    return lambda: f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"


class Turn:
    """A turn that has a database and a folder of its own."""

    def __init__(self, agent: str, url: str, folder: Path) -> None:
        self._agent, self._url, self._folder = agent, url, folder
        folder.mkdir()

    def program(self, commit: int) -> Program:
        """Begin the turn, to be killed behind a commit, or go on with it: see `killed_turn.py`."""
        return Program(PROGRAM, self._url, str(self._folder), self._agent, str(commit), stderr=2)

    def check(self) -> str:
        """Check that the thread has the turn once, and no call was made twice; return the result of the tool."""
        with Store(self._url) as store:
            threads = store.threads
            saved = threads.get("t").result()
        assert saved is not None
        messages = saved.conversation.messages
        assert [each.content for each in messages if each.role == "user"] == ["Go."]
        assert [each.content for each in messages if each.role == "assistant"] == TEXTS[self._agent]
        results = [str(each.content) for each in messages if each.role == "tool"]
        calls = (self._folder / "calls").read_text().split() if (self._folder / "calls").exists() else []
        assert len(calls) <= 1
        if results and not results[0].startswith("unknown"):
            assert (results, len(calls)) == (["paid"], 1)
        return results[0] if results else ""


@pytest.mark.parametrize("agent", _AGENTS)
def test_behind_whichever_commit_a_process_is_killed_its_turn_is_whole_and_no_call_is_made_twice(
    agent: str, new_database: NewDatabase, tmp_path: Path
) -> None:
    whole = Turn(agent, new_database(), tmp_path / "whole")
    with whole.program(0) as program:
        count, *statuses = program.communicate(timeout=_SECONDS)[0].split()
    assert whole.check() in ("", "paid")
    turns = {number: Turn(agent, new_database(), tmp_path / str(number)) for number in range(1, int(count) + 1)}
    with ExitStack() as stack:
        killed = [stack.enter_context(each.program(number)) for number, each in turns.items()]
        codes = {program.wait(_SECONDS) for program in killed}
        # One that had fewer commits, as some came together, is not killed.
        assert codes in ({-signal.SIGKILL}, {0, -signal.SIGKILL})
        going_on = {number: stack.enter_context(each.program(-1)) for number, each in turns.items()}
        ended = {number: program.communicate(timeout=_SECONDS)[0].split()[1:] for number, program in going_on.items()}
    assert ended == dict.fromkeys(turns, statuses)
    for each in turns.values():
        each.check()


_STOPS = [*islice(stops(), 60)] if "AGUI_CLIENT_KILLS" in os.environ else [*islice(stops(), 0, 84, 7)]


@pytest.mark.parametrize("stop", _STOPS, ids=lambda each: "-".join(map(str, each)))
def test_a_process_that_stands_still_between_two_commits_pays_nothing_twice_and_loses_no_result(
    stop: Stop, new_database: NewDatabase, tmp_path: Path
) -> None:
    assert carry_out(stop, new_database(), tmp_path) == []
