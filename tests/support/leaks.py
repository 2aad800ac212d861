"""A look for what a block left behind: threads, tasks, generators, open files and sockets, warnings nobody raised."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncGenerator, Collection, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any

import anyio
import pytest
import trio

from support.waiting import until, until_sync

_DESCRIPTORS = Path("/proc/self/fd")


@asynccontextmanager
async def nothing_left_behind(*, apart_from: frozenset[str] = frozenset()) -> AsyncGenerator[None]:
    """Fail if the block leaves a generator unfinished, a task, a thread, a descriptor or an unraisable exception.

    Args:
        apart_from: Libraries of others that leave their generators to the event loop, and the first words of the
            names of threads that end with it.
    """
    tasks = _tasks()
    with _finished_generators(apart_from), _no_unraisables():
        threads, descriptors = _threads(), _open_descriptors()
        yield
        kept = {thread for thread in _threads() if thread.name.startswith(tuple(apart_from))}
        # A loop closes the sockets of a connection one turn after it was told to.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        _assert_none("tasks", _tasks() - tasks)
        _assert_none("threads", _threads() - threads - kept)
        await until(lambda: _open_descriptors() <= descriptors, 1)


@contextmanager
def nothing_left_behind_sync() -> Generator[None]:
    """Fail if the block leaves a thread, a descriptor or an unraisable exception."""
    with _no_unraisables():
        threads, descriptors = _threads(), _open_descriptors()
        yield
        _assert_none("threads", _threads() - threads)
        until_sync(lambda: _open_descriptors() <= descriptors, 1)


def _tasks() -> set[object]:
    """Every task of the running loop."""
    try:
        return set(asyncio.all_tasks())
    except RuntimeError:
        return set(_trio_tasks())


def _trio_tasks() -> set[trio.lowlevel.Task]:
    found: set[trio.lowlevel.Task] = set()
    waiting = [trio.lowlevel.current_root_task()]
    while waiting:
        task = waiting.pop()
        if task is not None and task not in found:
            found.add(task)
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _threads() -> set[threading.Thread]:
    # The pytest plugin polls for trio in threads that trio keeps. A thread of asyncio that waits for a process still
    # has to return when the process is known to have ended.
    others = ("Trio thread", "asyncio-waitpid")
    return {thread for thread in threading.enumerate() if not thread.name.startswith(others)}


def _open_descriptors() -> int:
    return sum(1 for _ in _DESCRIPTORS.iterdir()) if _DESCRIPTORS.is_dir() else 0


@contextmanager
def _finished_generators(apart_from: frozenset[str]) -> Generator[None]:
    """Every async generator that is first iterated in the block, in this thread, must be finished at its end."""
    seen: list[AsyncGeneratorType[Any, Any]] = []
    hooks = sys.get_asyncgen_hooks()

    def first_iterated(generator: AsyncGenerator[Any, Any]) -> None:
        if not isinstance(generator, AsyncGeneratorType):
            return
        if apart_from.isdisjoint(Path(generator.ag_code.co_filename).parts):
            seen.append(generator)
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    sys.set_asyncgen_hooks(firstiter=first_iterated)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)
    _assert_none("generators", [generator.__qualname__ for generator in seen if generator.ag_frame is not None])


@contextmanager
def _no_unraisables() -> Generator[None]:
    """Coroutines never awaited, resources never closed and tasks never awaited are reported when they are collected."""
    reported: list[str] = []
    previous = sys.unraisablehook
    # What was there before is left out of this and of later collections: it is not the block's, and most of the cost.
    gc.collect()
    gc.freeze()
    sys.unraisablehook = lambda unraisable: reported.append(f"{unraisable.err_msg}: {unraisable.exc_value!r}")
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = previous
    _assert_none("reports from the garbage collector", reported)


def _assert_none(what: str, found: Collection[object]) -> None:
    if found:
        pytest.fail(f"left behind: {what} {found}", pytrace=False)
