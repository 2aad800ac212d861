"""Turns whose process stands still between two commits: `python -m tests.programs.stops --stops 200`.

A durable run in a stored thread is stopped by SIGSTOP behind one commit after the other. Another program takes it over
once the lease has passed; the first one is woken before, at and behind that. Whatever the moment, both programs end,
nothing is paid twice, no result that was saved becomes unknown, and the thread has the turn once. What is otherwise is
printed, and the program ends with status 1. It needs PostgreSQL, or `--sqlite` alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, NamedTuple

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

import sqlalchemy as sa  # noqa: E402 - as below

from agui_client.store import Store  # noqa: E402 - as below
from agui_client.store._sql.database import url_of  # noqa: E402 - as below
from support.postgres import postgres_server  # noqa: E402 - as below
from support.programs import Program  # noqa: E402 - found by the lines above

When = Literal["before", "at", "behind"]
"""When the first program is woken: before the take-over, at it, or when the other program has ended."""
WHENS: tuple[When, ...] = ("before", "at", "behind")
TEXTS = {
    "plain": ["a is done. "],
    "tool": ["a calls. ", "a is done. "],
    "served": ["a calls. ", "a is done. "],
    "approval": ["a calls. ", "a is done. "],
    "team": ["a is done. ", "b calls. ", "b is done. "],
}
"""The texts of a turn of each agent of `killed_turn.py`."""
PROGRAM = str(_TESTS / "support" / "killed_turn.py")
_SECONDS = 60.0
_COMMITS = 14
"""The most commits of a turn; a program that has fewer is not stopped."""


class Stop(NamedTuple):
    """A turn that is stopped."""

    agent: str
    """The agent."""
    commit: int
    """The commit behind which its process stops."""
    when: When
    """When the process is woken."""


def stops(agents: tuple[str, ...] = tuple(TEXTS), whens: tuple[When, ...] = WHENS) -> Iterator[Stop]:
    """Yield a stop for each agent, commit and moment."""
    for commit in range(1, _COMMITS + 1):
        for agent in agents:
            yield from (Stop(agent, commit, when) for when in whens)


def carry_out(stop: Stop, url: str, folder: Path) -> list[str]:
    """Carry a turn out, and return what is wrong with it.

    Args:
        stop: The stop.
        url: The URL of an empty database.
        folder: An empty folder.
    """
    arguments = (PROGRAM, url, str(folder), stop.agent)
    with ExitStack() as stack:
        first = stack.enter_context(Program(*arguments, str(stop.commit), "SIGSTOP", stderr=2))
        was_stopped = _waits_for(lambda: first.poll() is not None or _is_stopped(first.pid)) and first.poll() is None
        second = stack.enter_context(Program(*arguments, "-1", stderr=2)) if was_stopped else None
        try:
            if second is not None and stop.when == "at":
                _waits_for(lambda: second.poll() is not None or _is_taken_over(url))
            elif second is not None and stop.when == "behind":
                second.wait(_SECONDS)
        finally:
            if was_stopped:
                first.send_signal(signal.SIGCONT)
        codes = [each.wait(_SECONDS) for each in (first, second) if each is not None]
    return [*([] if not any(codes) else [f"programs ended with {codes}"]), *faults(stop.agent, url, folder)]


def faults(agent: str, url: str, folder: Path) -> list[str]:
    """Return what is wrong with a turn that was cut and taken over.

    Args:
        agent: The agent.
        url: The URL of the database.
        folder: The folder with the calls of its tool.
    """
    with Store(url) as store:
        saved = store.threads.get("t").result()
    if saved is None:
        return ["there is no thread"]
    messages, found = saved.conversation.messages, list[str]()
    if [each.content for each in messages if each.role == "user"] != ["Go."]:
        found.append("the prompt is not there once")
    if (texts := [each.content for each in messages if each.role == "assistant"]) != TEXTS[agent]:
        found.append(f"the texts are {texts}")
    results = [str(each.content) for each in messages if each.role == "tool"]
    calls = (folder / "calls").read_text().split() if (folder / "calls").exists() else []
    if len(calls) > 1:
        found.append(f"paid {len(calls)} times")
    if results and results[0].startswith("unknown"):
        # The result may be lost with the process that had it, unless it was saved.
        engine = sa.create_engine(url_of(url))
        with engine.connect() as database:
            bodies = database.execute(sa.text("select body from agui_entries")).scalars().all()
        engine.dispose()
        if any('"paid"' in body for body in bodies):
            found.append("a saved result became unknown")
    elif results and (results, len(calls)) != (["paid"], 1):
        found.append(f"the results are {results}, of {len(calls)} calls")
    return found


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended since it was looked at


def _is_taken_over(url: str) -> bool:
    engine = sa.create_engine(url_of(url))
    try:
        with engine.connect() as database:
            return (database.execute(sa.text("select max(attempt) from agui_runs")).scalar_one() or 0) > 1
    finally:
        engine.dispose()


def _waits_for(condition: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + _SECONDS
    while not (is_met := condition()) and time.monotonic() < give_up:
        time.sleep(0.01)
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--stops", type=int, default=200, help="how many on each database")
    parser.add_argument("--sqlite", action="store_true", help="not on PostgreSQL")
    options = parser.parse_args()
    findings = 0
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agui-stops-")))
        places: list[Callable[[Path], str]] = [lambda folder: f"sqlite:///{folder / 'store.db'}"]
        if not options.sqlite:
            server = stack.enter_context(postgres_server())
            places.append(lambda _: f"postgresql://{server.new_database()}")
        for number, place in enumerate(places):
            for index, stop in enumerate(islice(cycle(stops()), options.stops)):
                folder = root / f"{number}-{index}"
                folder.mkdir()
                url = place(folder)
                for each in carry_out(stop, url, folder):
                    findings += 1
                    print(f"{url.partition(':')[0]} {stop}: {each}", flush=True)  # noqa: T201 - a program
    print(f"{options.stops} stops on each database, {findings} findings")  # noqa: T201 - a program
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
