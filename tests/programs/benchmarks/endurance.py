"""`python tests/programs/benchmarks/endurance.py`: thousands of runs in sequence, and what they leave.

The runs end well and badly. Sockets, descriptors, threads, tasks, generators, objects and memory are counted after a
warm-up and at the end; the program ends with status 1 if there is more of anything, or if a run ended otherwise than it
had to.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import anyio
import httpx
from ag_ui.core import TextMessageContentEvent

from agui_client import AGUIError, HttpAgent
from programs.benchmarks.census import Census, complaints, growth, resident_growth, take_census
from programs.benchmarks.concurrency import many_runs
from programs.benchmarks.endings import HEADER, PROGRAM, Ending
from programs.benchmarks.loopback import loopback_server
from programs.benchmarks.wire import RUN_ID, THREAD_ID

if TYPE_CHECKING:
    from agui_client import AgentRun, RunResult, SyncAgentRun

_TURNS = [*Ending, Ending.FINISHED, Ending.FINISHED, Ending.FINISHED]
"""Four of ten runs end well, and one in each of the other ways."""
_COMES_TO = {
    Ending.FINISHED: "success",
    Ending.CUT: "IncompleteRunError",
    Ending.REFUSED: "HTTPStatusError",
    Ending.FAILED: "RunFailedError",
    **dict.fromkeys((Ending.ABORTED, Ending.LEFT, Ending.STOPPED), "aborted"),
}
_MOST_SHOWN = 10
_BYTES_PER_RUN = 400
_JUDGES_MEMORY = 5_000
"""Runs from which on what is left per run can be told from what an allocator keeps."""


class Course:
    """The runs of one mode: which endings are asked for, what came of them, and what there was before and after.

    Args:
        name: The mode.
        runs: How many runs are counted.
        warm_up: How many there are before.
        shows_progress: Whether to say on stderr how far it is.
    """

    def __init__(self, name: str, runs: int, warm_up: int, *, shows_progress: bool = False) -> None:
        self.name = name
        self.runs = runs
        self.seconds = 0.0
        """How long the runs took, the warm-up left out."""
        self.outcomes: Counter[str] = Counter()
        """What the runs came to, the warm-up included."""
        self.before: Census
        self.after: Census
        self.findings: list[str] = []
        """What is wrong, a sentence each."""
        self._warm_up = warm_up
        self._shows_progress = shows_progress

    def endings(self) -> Iterator[Ending]:
        """The ending of each run in turn; what there is, is counted in between."""
        yield from islice(cycle(_TURNS), self._warm_up)
        self.before = take_census()
        began = time.perf_counter()
        for number, ending in enumerate(islice(cycle(_TURNS), self.runs)):
            self.tell(number)
            yield ending
        self.tell(self.runs)
        self.seconds = time.perf_counter() - began
        self.after = take_census()

    def note(self, ending: Ending, outcome: str) -> None:
        """Say what a run came to."""
        self.outcomes[outcome] += 1
        if outcome != _COMES_TO[ending]:
            self.findings.append(f"a run that was to be {ending} came to {outcome}")

    def judge(self) -> None:
        """Find what has grown."""
        self.findings += growth(self.before, self.after)
        if self.runs >= _JUDGES_MEMORY:
            self.findings += resident_growth(self.before, self.after, self.runs, _BYTES_PER_RUN)

    def tell(self, done: int) -> None:
        """Say how far it is, from time to time."""
        if self._shows_progress and done % max(1, self.runs // 20) == 0:
            print(f"\r{self.name}: {done} of {self.runs} runs", end="", file=sys.stderr, flush=True)


# --- the modes


def client_per_run(url: str, course: Course) -> None:
    """One agent, its conversation emptied after each run, with an HTTP client for each."""
    asyncio.run(_one_after_the_other(HttpAgent(url, thread_id=THREAD_ID), course))


def kept_client(url: str, course: Course) -> None:
    """One agent as a block, which keeps its client."""

    async def main() -> None:
        async with HttpAgent(url, thread_id=THREAD_ID) as agent:
            await _one_after_the_other(agent, course)

    asyncio.run(main())


def shared_client(url: str, course: Course) -> None:
    """A clone for each run, all with one HTTP client of the caller's."""

    async def main() -> None:
        async with httpx.AsyncClient() as client:
            agent = HttpAgent(url, thread_id=THREAD_ID, http_client=client)
            with complaints() as heard:
                for ending in course.endings():
                    course.note(ending, await _come_to(agent.clone(), ending))
            course.findings += heard

    asyncio.run(main())


def without_await(url: str, course: Course) -> None:
    """One agent, its conversation emptied after each run, with the verbs for code without `await`."""
    agent = HttpAgent(url, thread_id=THREAD_ID)
    with complaints() as heard:
        for ending in course.endings():
            course.note(ending, _come_to_sync(agent, ending))
            agent.set_messages([])
    course.findings += heard


Mode: TypeAlias = Callable[[str, Course], None]

MODES: dict[str, Mode] = {
    "client-per-run": client_per_run,
    "kept-client": kept_client,
    "shared-client": shared_client,
    "sync": without_await,
}


async def _one_after_the_other(agent: HttpAgent, course: Course) -> None:
    with complaints() as heard:
        for ending in course.endings():
            course.note(ending, await _come_to(agent, ending))
            agent.set_messages([])
    course.findings += heard


# --- one run


async def _come_to(agent: HttpAgent, ending: Ending) -> str:
    """What a run with this ending comes to."""
    run = agent.stream("Hi", run_id=RUN_ID, headers={HEADER: ending})
    try:
        with anyio.CancelScope() as scope:
            async with run:
                await _follow(agent, run, ending, scope)
        outcome = _outcome(run.partial)
    except AGUIError as error:
        outcome = type(error).__name__
    # A loop closes the sockets of a connection one turn after it was told to.
    await asyncio.sleep(0)
    return outcome


async def _follow(agent: HttpAgent, run: AgentRun, ending: Ending, scope: anyio.CancelScope) -> None:
    async for event in run:
        if isinstance(event, TextMessageContentEvent):
            if ending is Ending.LEFT:
                return
            if ending is Ending.ABORTED:
                agent.abort_run()
            if ending is Ending.STOPPED:
                scope.cancel()


def _come_to_sync(agent: HttpAgent, ending: Ending) -> str:
    try:
        with agent.stream_sync("Hi", run_id=RUN_ID, headers={HEADER: ending}) as run:
            _follow_sync(agent, run, ending)
        return _outcome(run.partial)
    except AGUIError as error:
        return type(error).__name__


def _follow_sync(agent: HttpAgent, run: SyncAgentRun, ending: Ending) -> None:
    for event in run:
        if isinstance(event, TextMessageContentEvent):
            if ending is Ending.LEFT:
                return
            if ending is Ending.ABORTED:
                agent.abort_run()
            if ending is Ending.STOPPED:
                another = threading.Thread(target=agent.abort_run)
                another.start()
                another.join()


def _outcome(result: RunResult) -> str:
    return "aborted" if result.aborted else result.outcome.type if result.outcome else "nothing"


# --- the program


def endure(name: str, url: str, runs: int, warm_up: int, *, shows_progress: bool = False) -> Course:
    """Do the runs of one mode.

    Args:
        name: One of `MODES`.
        url: Where `benchmarks.endings` answers.
        runs: How many runs are counted.
        warm_up: How many there are before.
        shows_progress: Whether to say on stderr how far it is.

    Returns:
        What came of them; `findings` is empty if all is well.
    """
    course = Course(name, runs, warm_up, shows_progress=shows_progress)
    MODES[name](url, course)
    course.judge()
    return course


def crowd() -> Course:
    """1 000 runs at once, twice: once to warm up, once to be counted."""
    course = Course("1000 at once", 1000, 1000)
    many_runs(1)
    course.before = take_census()
    began = time.perf_counter()
    rows = many_runs(1)
    course.seconds = time.perf_counter() - began
    course.after = take_census()
    course.outcomes["failed"] = errors = sum(row.errors for row in rows)
    for row in rows:
        print(f"{row.work}: {row.ratio:.2f} x {row.reference} ({row.absolute}), {row.errors} errors")
    if errors:
        course.findings.append(f"{errors} of 1000 runs at once failed")
    course.judge()
    return course


def main() -> int:
    """Run the modes that were asked for, print what there was before and after; 1 if anything has grown."""
    options = _options()
    courses: list[Course] = []
    with loopback_server(PROGRAM) as url:
        for name in options.only or MODES:
            courses.append(endure(name, url, options.runs, max(100, options.runs // 10), shows_progress=True))
            _report(courses[-1])
    if not options.only:
        courses.append(crowd())
        _report(courses[-1])
    findings = [
        f"{course.name}: {each}" for course in courses for each in [*dict.fromkeys(course.findings)][:_MOST_SHOWN]
    ]
    print("\n".join(findings) if findings else "nothing has grown, and every run ended as it had to")
    return int(bool(findings))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Thousands of runs in sequence, and what they leave behind.")
    parser.add_argument("--runs", metavar="N", type=int, default=10_000, help="in each mode, after a warm-up (10000)")
    parser.add_argument("--only", metavar="MODE", action="append", choices=MODES, help="; ".join(MODES))
    return parser.parse_args()


def _report(course: Course) -> None:
    print("\r", end="", file=sys.stderr)
    print(f"{course.name}: {course.runs} runs in {course.seconds:.1f} s, {dict(course.outcomes.most_common())}")
    before, after = course.before, course.after
    rows = {"resident MB": [f"{census.resident / 1e6:.1f}" for census in (before, after)]}
    for name in sorted((before.counts | after.counts).keys() - before.own_types.keys() - after.own_types.keys()):
        rows[name] = [str(census.counts[name]) for census in (before, after)]
    for name, (then, now) in rows.items():
        print(f"  {name:<32}{then:>10}{now:>10}")
    print(f"  objects of agui_client: {_own_types(before, after)}")


def _own_types(before: Census, after: Census) -> str:
    """How many of each type; before and after, where they differ."""
    return ", ".join(
        f"{name.rpartition('.')[2]} {count}" + (f" -> {after.counts[name]}" if after.counts[name] != count else "")
        for name in sorted(before.own_types | after.own_types)
        for count in [before.counts[name]]
    )


if __name__ == "__main__":
    sys.exit(main())
