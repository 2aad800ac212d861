"""`python -m tests.programs.interop`: real servers, each in an environment of its framework, and what holds with it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from .environments import made, running, say
from .frameworks import FRAMEWORKS, Framework, NotOffered, ServerBug
from .stories import LIMIT, NOISY, STORIES, Server, tell

HANGS = LIMIT + 20


@dataclass
class Told:
    """A story, and how it ended with one server."""

    mark: str
    """pass, FAIL, bug (the server's own), mended (a bug that is no more), - (not offered), or nothing (not told)."""
    why: str = ""
    warnings: list[str] = field(default_factory=list[str])


@contextmanager
def _warned() -> Generator[list[str]]:
    """Collect every warning that a user would see."""
    seen: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield seen
        finally:
            root.removeHandler(handler)
            seen += [str(each.message) for each in caught]


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do work in a thread that is left behind when it hangs, so that no story can stop the program."""
    ended: Queue[Exception | None] = Queue()

    def run() -> None:
        try:
            work()
        except Exception as error:
            ended.put(error)
        else:
            ended.put(None)

    Thread(target=run, daemon=True).start()
    try:
        error = ended.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"the story hangs: even its cancellation did not end it in {seconds} s") from None
    if error is not None:
        raise error


def _told(name: str, server: Server) -> Told:
    if name not in (server.framework.stories or STORIES):
        return Told(" ")
    verdict = server.framework.verdicts.get(name)
    if isinstance(verdict, NotOffered):
        return Told("-", verdict.why)
    with _warned() as seen:
        try:
            _within(HANGS, lambda: asyncio.run(tell(name, server)))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if isinstance(verdict, ServerBug) and verdict.error in why:
                return Told("bug", verdict.proof)
            return Told("FAIL", why, seen)
    if isinstance(verdict, ServerBug):
        return Told("mended", f"no longer true: {verdict.proof}")
    return Told("pass", "", [] if name in NOISY else seen)


def _tested(
    environment: str, frameworks: Sequence[Framework], names: Sequence[str], root: Path
) -> dict[str, list[Told]]:
    try:
        with running(environment, made(environment, root)) as (url, printed):
            say(f"{environment}: telling {len(names)} stories to {len(frameworks)} servers")
            told = {framework.name: [_told(name, Server(framework, url)) for name in names] for framework in frameworks}
            if any(each.mark == "FAIL" for row in told.values() for each in row):
                print(printed.read_text(errors="replace")[-40000:], file=sys.stderr)
            return told
    except RuntimeError as error:
        say(str(error))
        failures = [Told("FAIL", str(error)), *([Told("FAIL")] * (len(names) - 1))]
        return {framework.name: failures for framework in frameworks}


def _print(names: Sequence[str], matrix: dict[str, list[Told]]) -> None:
    width = max(map(len, matrix)) + 2
    for server, row in matrix.items():
        print(f"\n{server}")
        for name, told in zip(names, row, strict=True):
            if told.why:
                print(f"  {name}: {told.mark}: {told.why}")
            for warning in dict.fromkeys(told.warnings):
                print(f"  {name}: warning: {warning}")
    print("\n" + "server".ljust(width) + " ".join(names))
    for server, row in matrix.items():
        print(server.ljust(width) + " ".join(told.mark.ljust(len(name)) for name, told in zip(names, row, strict=True)))
    marks = [told.mark for row in matrix.values() for told in row]
    print("\n" + ", ".join(f"{marks.count(mark)} {mark}" for mark in ("pass", "FAIL", "bug", "mended", "-")))
    print("warnings when nothing is wrong:", sum(len(told.warnings) for row in matrix.values() for told in row))


def main() -> int:
    """Tell the stories, and print the matrix of servers and stories."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS), help="only these servers")
    parser.add_argument("--story", nargs="+", choices=STORIES, default=list(STORIES), help="only these stories")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments here for the next time")
    chosen = parser.parse_args()
    frameworks = sorted((FRAMEWORKS[name] for name in chosen.only), key=lambda each: each.environment)
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as directory:
        root = (chosen.keep or Path(directory)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        matrix: dict[str, list[Told]] = {}
        for environment, group in groupby(frameworks, key=lambda each: each.environment):
            matrix |= _tested(environment, list(group), chosen.story, root)
    _print(chosen.story, matrix)
    return int(any(told.mark in ("FAIL", "mended") for row in matrix.values() for told in row))


sys.exit(main())
