"""Rolling deploys under load: `python -m tests.programs.deploys --stops 100 --users 24`.

Users have one thread after the other paid, each at an app of another kind, while one server after the other is started,
and the oldest one is told to stop (SIGTERM). No payment is made twice, no result that was saved is lost or becomes
unknown, no user gets an answer after which it would give up, and each run that was accepted ends. What is otherwise is
printed, and the program ends with status 1. It needs PostgreSQL, or `--sqlite` alone.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

import anyio
import anyio.to_thread

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from agui_client import AGUIError, Approve, HttpAgent, HTTPStatusError, RunFailedError  # noqa: E402 - as below
from agui_client._core.protocol.placeholders import NO_RESULT  # noqa: E402 - as below
from agui_client.store import Store  # noqa: E402 - as below
from support.durable_servers import Servers, page  # noqa: E402 - as below
from support.postgres import postgres_server  # noqa: E402 - as below
from support.programs import Program  # noqa: E402 - found by the lines above

_SECONDS = 120.0
_KINDS = ("plain", "kept", "durable", "stored", "team")
_PAYMENTS = 5
_PROGRAM = _TESTS / "support" / "stopped_server.py"


class Talks:
    """Users that have threads of each kind paid, whichever servers stop meanwhile."""

    def __init__(self, workers: list[tuple[Program, str]]) -> None:
        self._workers, self._chance = workers, random.Random(5)
        self.is_over = False
        """Whether no further threads begin."""
        self.results: dict[str, list[str]] = {}
        """The results of the payments of each thread."""
        self.answers = Counter[str]()
        """The errors that users got."""
        self.fatal: list[str] = []
        """Those after which a user would give up."""

    async def go_on(self, kind: str, user: int) -> None:
        """Have one thread after the other paid."""
        number = 0
        while not self.is_over or not number:
            thread_id, number = f"{kind}-{user}-{number}-", number + 1
            with anyio.fail_after(_SECONDS):
                caller = self._page(kind, thread_id)
                while (results := self._results_of(caller)) is None:
                    caller = await self._attempt(kind, caller)
            self.results[thread_id] = results

    def _page(self, kind: str, thread_id: str) -> HttpAgent:
        return page(f"{self._chance.choice(self._workers)[1]}{kind}/", thread_id)

    def _results_of(self, caller: HttpAgent) -> list[str] | None:
        """Return the results of a thread; None as long as its agent has not said its last word."""
        results = [str(each.content) for each in caller.messages if each.role == "tool"]
        is_over = len(results) == _PAYMENTS and caller.messages[-1].role == "assistant"
        return results if is_over else None

    async def _attempt(self, kind: str, before: HttpAgent) -> HttpAgent:
        """Go on with a thread until its server stops, or all is paid; return the caller."""
        caller = self._page(kind, before.thread_id)
        try:
            if kind == "plain":
                caller.restore(before.snapshot())
                await caller.run_agent(None if caller.messages else caller.thread_id)
            elif kind == "kept":
                # A call that the server had not begun, in a run of its agent that was cut, waits for approval.
                asked = (await caller.connect_agent()).interrupts
                prompt = None if caller.messages else caller.thread_id
                await caller.run_agent(prompt, resume={each.id: Approve() for each in asked})
            else:
                # The same request follows the run, wherever it goes on.
                await caller.run_agent(caller.thread_id, run_id="r")
        except AGUIError as error:
            self._note(kind, error)
        await anyio.sleep(0.02)
        return caller

    def _note(self, kind: str, error: AGUIError) -> None:
        code = error.code if isinstance(error, RunFailedError) else getattr(error, "status_code", None)
        self.answers[f"{type(error).__name__} {code or ''}".strip()] += 1
        is_refused = isinstance(error, HTTPStatusError) and code not in (409, 503)
        if is_refused or (isinstance(error, RunFailedError) and code != "shutting_down"):
            self.fatal.append(f"{kind}: {error}")


async def deploy(folder: Path, url: str, *, stops: int, users: int) -> list[str]:
    """Stop one server after the other under load; return what is wrong.

    Args:
        folder: An empty folder.
        url: The URL of an empty database.
        stops: How many servers are told to stop.
        users: How many users are there.
    """
    chance = random.Random(11)
    with ExitStack() as stack:
        servers = Servers(folder, url, stack, _PROGRAM)
        workers = [await servers.start(), await servers.start()]
        talks, codes = Talks(workers), set[int]()
        async with anyio.create_task_group() as tasks:
            for user, kind in enumerate(islice(cycle(_KINDS), users)):
                tasks.start_soon(talks.go_on, kind, user)
            for _ in range(stops):
                await anyio.sleep(chance.uniform(0.1, 1.0))
                workers.append(await servers.start())
                program, _ = workers.pop(0)
                program.send_signal(signal.SIGTERM)
                codes.add(await anyio.to_thread.run_sync(program.wait, _SECONDS))
            talks.is_over = True
        unended = await _unended(url)
    calls = Counter(servers.calls)
    findings = [f"a caller got {each}" for each in talks.fatal]
    findings += [f"a server ended with {each}" for each in codes - {0, -signal.SIGTERM}]
    findings += [f"run {each} was accepted and has no end" for each in unended]
    findings += [f"{each} is there {count} times" for each, count in calls.items() if count > 1]
    begun, done = ({each[len(word) :] for each in calls if each.startswith(word)} for word in ("begun:", "done:"))
    findings += [f"payment {each} was begun, and did not end" for each in sorted(begun - done)]
    for thread_id, results in talks.results.items():
        keys = [f"{thread_id}-{number}" for number in range(_PAYMENTS)]
        # Where nothing is stored, a call that was not begun is not made later.
        made = [each for each in keys if not thread_id.startswith("plain") or calls[f"begun:{each}"]]
        if [each for each in results if each != NO_RESULT] != [f"paid {each}" for each in made]:
            findings.append(f"thread {thread_id} has {results}")
    about = f"{stops} servers stopped under {users} users, {len(talks.results)} threads, {len(begun)} payments"
    print(f"{url.partition(':')[0]}: {about}; errors that callers got: {dict(talks.answers)}")  # noqa: T201 - a program
    return findings


async def _unended(url: str) -> list[str]:
    """Return the runs that have no end, though their callers have their results."""
    give_up = anyio.current_time() + _SECONDS
    async with Store(url) as store:
        while True:
            found = [each.thread_id for each in await store.runs.list(limit=10_000) if each.ended_at is None]
            if not found or anyio.current_time() > give_up:
                return found
            await anyio.sleep(0.1)


def main() -> int:
    """Read the options, and deploy; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--stops", type=int, default=100, help="how many servers are told to stop, on each database")
    parser.add_argument("--users", type=int, default=24, help="how many users there are")
    parser.add_argument("--sqlite", action="store_true", help="not on PostgreSQL")
    options = parser.parse_args()
    findings = list[str]()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agui-deploys-")))
        urls = [f"sqlite:///{root / 'store.db'}"]
        if not options.sqlite:
            urls.append(f"postgresql://{stack.enter_context(postgres_server()).new_database()}")
        for number, url in enumerate(urls):
            folder = root / str(number)
            folder.mkdir()
            found = anyio.run(_deploy, folder, url, options.stops, options.users)
            findings += found
            for each in found:
                print(each, flush=True)  # noqa: T201 - a program
    print(f"{len(findings)} findings")  # noqa: T201 - a program
    return 1 if findings else 0


async def _deploy(folder: Path, url: str, stops: int, users: int) -> list[str]:
    return await deploy(folder, url, stops=stops, users=users)


if __name__ == "__main__":
    sys.exit(main())
