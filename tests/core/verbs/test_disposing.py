"""Disposing a subscription closes the connection at once, in a loop and in a thread (LIFE-11)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    Event,
    TextMessageContentEvent,
)
from reactivex import operators as ops
from reactivex.abc import DisposableBase

from agui_client import AbstractAgent, HttpAgent
from agui_client.testing import Reply, ScriptedAgent, serve_bytes, sse, text, turn
from support.leaks import nothing_left_behind, nothing_left_behind_sync
from support.waiting import LIMIT, SOON, in_thread, until, until_sync
from support.watching import Watcher, observed_here

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]


def disposing_from_outside(agent: AbstractAgent) -> None:
    watcher = Watcher()
    subscription = watcher.watch(agent.observe("Hi"))
    until_sync(lambda: len(watcher.values) == 4)
    subscription.dispose()
    subscription.dispose()
    assert (watcher.errors, watcher.completions) == ([], 0)


def disposing_in_on_next(agent: AbstractAgent) -> None:
    watcher = Watcher()
    subscription: Future[DisposableBase] = Future()

    def dispose(event: Event) -> None:
        watcher.next(event)
        if isinstance(event, TextMessageContentEvent):
            subscription.result(LIMIT).dispose()

    subscription.set_result(agent.observe("Hi").subscribe(dispose))
    until_sync(lambda: len(watcher.values) == 3)


def taking_the_first(agent: AbstractAgent) -> None:
    watcher = Watcher()
    watcher.watch(agent.observe("Hi").pipe(ops.take(1)))
    assert watcher.over.wait(LIMIT)
    assert watcher.completions == 1


def aborting(agent: AbstractAgent) -> None:
    watcher = Watcher()
    watcher.watch(agent.observe("Hi"))
    until_sync(lambda: len(watcher.values) == 4)
    agent.abort_run()
    assert watcher.over.wait(LIMIT)
    assert (watcher.errors, watcher.completions) == ([], 1)


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize(
    "leave",
    [disposing_from_outside, disposing_in_on_next, taking_the_first, aborting],
    ids=lambda way: way.__name__,
)
def test_a_run_in_a_thread_is_closed_at_once(leave: Callable[[AbstractAgent], None]) -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server, nothing_left_behind_sync():
        agent = HttpAgent(server.url)
        in_thread(lambda: leave(agent))
        left_at = time.monotonic()
        until_sync(server.disconnected.is_set, SOON)
        assert server.disconnected_at is not None
        assert server.disconnected_at - left_at < SOON
        until_sync(lambda: not agent.is_running, SOON)
        until_sync(lambda: "agui_client.observe" not in {thread.name for thread in threading.enumerate()}, SOON)


async def disposing_in_the_loop(agent: AbstractAgent) -> None:
    watcher = Watcher()
    subscription = watcher.watch(agent.observe("Hi"))
    await until(lambda: len(watcher.values) == 4)
    subscription.dispose()
    subscription.dispose()
    await anyio.lowlevel.checkpoint()
    assert (watcher.errors, watcher.completions) == ([], 0)


async def disposing_from_another_thread(agent: AbstractAgent) -> None:
    watcher = Watcher()
    subscription = watcher.watch(agent.observe("Hi"))
    await until(lambda: len(watcher.values) == 4)
    in_thread(subscription.dispose)


async def taking_the_first_in_the_loop(agent: AbstractAgent) -> None:
    watcher = await observed_here(agent.observe("Hi").pipe(ops.take(1)))
    assert len(watcher.values) == 1


async def aborting_in_the_loop(agent: AbstractAgent) -> None:
    watcher = Watcher()
    watcher.watch(agent.observe("Hi"))
    await until(lambda: len(watcher.values) == 4)
    agent.abort_run()
    await until(watcher.over.is_set)
    assert (watcher.errors, watcher.completions) == ([], 1)


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize(
    "leave",
    [disposing_in_the_loop, disposing_from_another_thread, taking_the_first_in_the_loop, aborting_in_the_loop],
    ids=lambda way: way.__name__,
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_run_in_a_loop_is_closed_at_once(leave: Callable[[AbstractAgent], Any]) -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        agent, tasks = HttpAgent(server.url), asyncio.all_tasks()
        async with nothing_left_behind():
            await leave(agent)
            left_at = time.monotonic()
            await until(server.disconnected.is_set, SOON)
            assert server.disconnected_at is not None
            assert server.disconnected_at - left_at < SOON
            await until(lambda: not agent.is_running, SOON)
            await until(lambda: asyncio.all_tasks() == tasks, SOON)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_subscription_disposed_before_its_run_began_sends_nothing() -> None:
    with serve_bytes(FRAMES) as server:
        agent, tasks = HttpAgent(server.url), asyncio.all_tasks()
        async with nothing_left_behind():
            agent.observe("Hi").subscribe().dispose()
            await until(lambda: asyncio.all_tasks() == tasks, SOON)
        assert server.requests == []
        assert not agent.is_running


def test_disposing_after_the_end_does_nothing() -> None:
    watcher = Watcher()
    subscription = in_thread(lambda: watcher.watch(ScriptedAgent(turn()).observe()))
    assert watcher.over.wait(LIMIT)
    in_thread(subscription.dispose)
    assert (watcher.errors, watcher.completions) == ([], 1)


def test_disposing_after_its_loop_was_closed_does_nothing() -> None:
    async def main() -> DisposableBase:
        watcher = Watcher()
        subscription = watcher.watch(ScriptedAgent(turn()).observe())
        await until(watcher.over.is_set)
        return subscription

    anyio.run(main).dispose()
