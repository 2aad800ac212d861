"""What a process holds at one moment, and what has grown between two: nothing may that runs leave behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType
from typing import Any

import psutil

from programs.benchmarks.measure import without_collector

_PACKAGE = "agui_client"
_ALL = "objects in all"
_STRAYS = 100
"""So many more objects may there be in all: interpreters and libraries remember this and that."""
_LIBRARIES = ("ag_ui", "anyio", "h11", "h2", "httpcore", "httpx", "httpx_sse")


@dataclass(frozen=True, slots=True)
class Census:
    """What there is."""

    counts: Counter[str]
    """How many of what, by its name in the plural; a name that is missing stands for none."""
    resident: int
    """The resident bytes of the process."""

    @property
    def own_types(self) -> Counter[str]:
        """The objects of this package's types, by type."""
        return Counter({name: count for name, count in self.counts.items() if name.startswith(f"{_PACKAGE}.")})


def take_census() -> Census:
    """Count what this process holds, garbage left out."""
    gc.collect()
    process = psutil.Process()
    objects = gc.get_objects()
    counts = Counter(_named(objects))
    counts[_ALL] = len(objects)
    del objects
    counts["open descriptors"] = process.num_fds()
    counts["open sockets"] = len(process.net_connections("all"))
    counts["threads"] = threading.active_count()
    return Census(counts, process.memory_info().rss)


def growth(before: Census, after: Census) -> list[str]:
    """What there is more of, a sentence each; memory is judged by `resident_growth`."""
    return [
        f"{name} grew from {before.counts[name]} to {count}"
        for name, count in sorted(after.counts.items())
        if count > before.counts[name] + (_STRAYS if name == _ALL else 0)
    ]


def resident_growth(before: Census, after: Census, runs: int, limit: int) -> list[str]:
    """Whether the runs have cost more memory than so many bytes each; a sentence if so.

    Args:
        before: What there was.
        after: What there is.
        runs: How many runs there were in between.
        limit: Bytes per run.
    """
    each = (after.resident - before.resident) / runs
    if each <= limit:
        return []
    sizes = " to ".join(f"{census.resident / 1e6:.1f}" for census in (before, after))
    return [f"resident memory grew from {sizes} MB, {each:.0f} bytes a run"]


@contextmanager
def complaints() -> Generator[list[str]]:
    """Whatever is reported behind everybody's back while the block lasts.

    That is resources and tasks which nobody closed or awaited, what asyncio logs, and, inside an event loop that is
    running, async generators which were dropped half-way for the garbage collector to close.
    """
    heard: list[str] = []
    hook, hooks = sys.unraisablehook, sys.get_asyncgen_hooks()
    listener = _Listener(heard)

    def dropped(generator: AsyncGenerator[Any, Any]) -> None:
        heard.append(f"the async generator {getattr(generator, '__qualname__', generator)} was dropped half-way")
        if hooks.finalizer is not None:
            hooks.finalizer(generator)

    sys.unraisablehook = lambda unraisable: heard.append(f"{unraisable.err_msg}: {unraisable.exc_value!r}")
    sys.set_asyncgen_hooks(finalizer=dropped)
    logging.getLogger("asyncio").addHandler(listener)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            yield heard
            gc.collect()
    finally:
        logging.getLogger("asyncio").removeHandler(listener)
        sys.set_asyncgen_hooks(*hooks)
        sys.unraisablehook = hook


async def objects_in_cycles(run: Callable[[], Awaitable[object]], runs: int = 10) -> float:
    """Return how many objects each of several runs leaves to the garbage collector, which finds them in cycles."""
    for _ in range(2):
        await run()
    gc.collect()
    with without_collector():
        for _ in range(runs):
            await run()
        return gc.collect() / runs


class _Listener(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(f"asyncio logged: {record.getMessage()}")


def _named(objects: Iterable[object]) -> Iterator[str]:
    """What to count each object as; those that are of no interest are left out."""
    for each in objects:
        match each:
            case AsyncGeneratorType():
                is_wanted, name = each.ag_frame is not None, "suspended async generators"
            case CoroutineType():
                is_wanted, name = each.cr_frame is not None, "suspended coroutines"
            case asyncio.Task():
                is_wanted, name = not each.done(), "unfinished tasks"
            case _:
                is_wanted, name = _by_type(type(each))
        if is_wanted:
            yield name


def _by_type(kind: type) -> tuple[bool, str]:
    package = str(kind.__module__).partition(".")[0]
    if package == _PACKAGE:
        return True, f"{kind.__module__}.{kind.__qualname__}"
    return package in _LIBRARIES, f"objects of {package}"
