"""A turn of a durable run in a stored thread, whose process is killed behind each of its commits, or stands still.

`AGUI_CLIENT_KILLS=1 pytest -n 0 tests/store/runs/test_commits.py` does so with every agent, on SQLite and on
PostgreSQL. `python -m tests.programs.stops` lets it stand still behind each commit, on both.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from agui_client.store import Store
from programs.stops import PROGRAM, TEXTS, Stop, carry_out, stops
from support.cut_calls import results_in
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


class Story:
    """A story of `cut_calls` in a run that is kept, with a database and a folder of its own."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self._name, self._url, self._folder = name, url, folder
        folder.mkdir()

    def program(self, commit: int) -> Program:
        """Begin the story, to be killed behind a commit, or go on with it: see `killed_turn.py`."""
        return Program(PROGRAM, self._url, str(self._folder), self._name, str(commit), stderr=2)

    def happened(self) -> list[tuple[str, str]]:
        """Return who was asked, what was given, and which functions were called, in this order."""
        lines = (self._folder / "happened").read_text().splitlines() if (self._folder / "happened").exists() else []
        return [(each.partition(" ")[0], each.partition(" ")[2]) for each in lines]

    def called(self) -> Counter[str]:
        """Return how often which functions were called."""
        return Counter(key for kind, key in self.happened() if kind == "called")

    def results(self) -> list[str]:
        """Return the results of tools in the thread, which has come to its end."""
        with Store(self._url) as store:
            saved = store.threads.get("t").result()
        assert saved is not None
        assert saved.conversation.messages[-1].content == "Done."
        return results_in(saved.conversation)

    def asked_again(self) -> set[str]:
        """Return what was asked for though the answer was taken, or the function called."""
        given, again = set[str](), set[str]()
        for kind, key in self.happened():
            if kind == "asked":
                again |= {key} & given
            else:
                given.add("old" if key == "new" else key)  # as the call was shown
        return again


@pytest.mark.soak
@pytest.mark.parametrize(
    "name",
    [
        "an edit,agent,answers",
        "a denial,agent,answers",
        "an interrupt,agent,answers",
        "an interrupt,team,handlers",
        "a question,agent,answers",
        "a question,team in a team,answers",
        "payments,agent,handlers",
        "two rounds,team in a team,answers",
        "payments,agent,page",
        "a question,team,page",
    ],
)
def test_behind_whichever_commit_a_kept_run_is_killed_nobody_is_asked_again_and_no_function_is_called_again(
    name: str, new_database: NewDatabase, tmp_path: Path
) -> None:
    whole = Story(name, new_database(), tmp_path / "whole")
    with whole.program(0) as program:
        count, *_ = program.communicate(timeout=_SECONDS)[0].split()
    expected = whole.results()
    for commit in range(1, int(count) + 1):
        story = Story(name, new_database(), tmp_path / str(commit))
        with story.program(commit) as killed:
            killed.wait(_SECONDS)
        with story.program(-1) as going_on:
            assert going_on.wait(_SECONDS) == 0
        results = story.results()
        unknown = [each for each in results if each.startswith("unknown")]
        assert (len(results), Counter(results) - Counter([*expected, *unknown])) == (len(expected), Counter()), commit
        assert (story.called() - whole.called(), story.asked_again()) == (Counter(), set()), commit


_STOPS = [*islice(stops(), 60)] if "AGUI_CLIENT_KILLS" in os.environ else [*islice(stops(), 0, 84, 7)]


@pytest.mark.parametrize("stop", _STOPS, ids=lambda each: "-".join(map(str, each)))
def test_a_process_that_stands_still_between_two_commits_pays_nothing_twice_and_loses_no_result(
    stop: Stop, new_database: NewDatabase, tmp_path: Path
) -> None:
    assert carry_out(stop, new_database(), tmp_path) == []
