"""Measuring on a machine that others use as well: CPU time, works taking turns, the best of several."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import agui_client

TESTS = Path(__file__).resolve().parents[2]

LEAST_SECONDS = 0.5
"""The least CPU time of all works of a row together."""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")

Work: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    work: str
    """What was done."""
    ratio: float
    """What it cost, in units of `reference`."""
    limit: float
    """What it may cost."""
    reference: str
    """What it is held against."""
    absolute: str
    """Both costs, ours first, with their unit."""
    errors: int = 0
    """What failed; nothing may."""

    @property
    def cost(self) -> float:
        """The first number of `absolute`: what it cost, in its unit."""
        number = _NUMBER.search(self.absolute)
        return self.ratio if number is None else float(number[0])

    @property
    def verdict(self) -> str:
        """Whether the goal is met."""
        return "ok" if self.ratio <= self.limit and not self.errors else "over"


def best_times(repeat: int, *works: Work) -> list[float]:
    """The least CPU seconds that each work took, all threads included.

    Args:
        repeat: How often each work is done at least; short ones until all took half a second together. They
            take turns, so that a busy moment hits all of them.
        *works: What to do; everything that is not to be measured has been done before.
    """
    return [cpu for cpu, _ in best_times_and_waits(repeat, *works)]


def best_times_and_waits(repeat: int, *works: Work) -> list[tuple[float, float]]:
    """The least CPU seconds that each work took, all threads included, and the least seconds on the clock.

    Args:
        repeat: As for `best_times`.
        *works: As for `best_times`.
    """
    best, total = [(float("inf"), float("inf"))] * len(works), 0.0
    while repeat > 0 or total < LEAST_SECONDS:
        repeat -= 1
        for index, work in enumerate(works):
            cpu, wait = _seconds(work)
            total += cpu
            best[index] = min(best[index][0], cpu), min(best[index][1], wait)
    return best


@contextmanager
def without_collector() -> Generator[None]:
    """Switch the garbage collector off, which now and then walks over all that is alive."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def cpu_seconds(work: Work) -> float:
    """The CPU seconds that a work takes, starting without garbage of others."""
    return _seconds(work)[0]


def _seconds(work: Work) -> tuple[float, float]:
    gc.collect()
    start, began = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - start, time.perf_counter() - began


def per_event(ours: float, reference: float, events: int) -> str:
    """Two times as microseconds per event."""
    return f"{ours / events * 1e6:.2f} / {reference / events * 1e6:.2f} us"


def child_environment(**variables: str) -> dict[str, str]:
    """The environment in which another interpreter finds the same package and these programs."""
    # Of a package that is compared, another folder than that of these programs.
    package = Path(agui_client.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(TESTS)]), **variables}
