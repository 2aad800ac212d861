"""Operators that subscribe again, at the end of a run or in the middle of one: in a script, a loop and a notebook."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
import reactivex
from ag_ui.core import Event, RunErrorEvent, RunFinishedEvent, TextMessageContentEvent
from reactivex import Observable
from reactivex import operators as ops
from reactivex.abc import DisposableBase, SchedulerBase
from reactivex.disposable import SerialDisposable
from reactivex.scheduler import (
    CurrentThreadScheduler,
    EventLoopScheduler,
    ImmediateScheduler,
    NewThreadScheduler,
    ThreadPoolScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOScheduler, AsyncIOThreadSafeScheduler
from reactivex.subject import BehaviorSubject

from agui_client import AbstractAgent
from agui_client.testing import ScriptedAgent, Step, pause, text, turn
from support.leaks import nothing_left_behind_sync
from support.waiting import LIMIT, in_thread, until, until_sync
from support.watching import Watcher, observed, observed_here

Words = Observable[str]


def words(agent: AbstractAgent) -> Words:
    """The words of a run."""
    return agent.observe("Hi").pipe(
        ops.filter(lambda event: isinstance(event, TextMessageContentEvent)), ops.map(delta_of)
    )


def delta_of(event: Event) -> str:
    return event.delta if isinstance(event, TextMessageContentEvent) else ""


def says(word: str) -> Words:
    """An agent of its own that says a word."""
    return words(ScriptedAgent(turn(text(word))))


def slow(word: str) -> Words:
    """An agent that takes longer than others."""
    return words(ScriptedAgent(turn(pause(0.15), text(word))))


def fails() -> Words:
    """An agent that says x, and fails."""
    return words(failing_first())


def failing_first() -> ScriptedAgent:
    """An agent whose first run says x and fails; the second says a."""
    return ScriptedAgent(turn(text("x"), RunErrorEvent(message="no")), turn(text("a")))


def stalls(word: str = "s") -> Words:
    """An agent that says a word, when everybody has subscribed, and then nothing."""
    return words(ScriptedAgent(turn(pause(0.1), text(word), pause(math.inf))))


def times(count: int) -> Callable[[Any], bool]:
    """A condition that holds so many times."""
    left = iter([True] * count)
    return lambda _: next(left, False)


def refusing_once() -> Callable[[str], str]:
    """A mapper that fails for the first word."""
    refused: list[str] = []

    def refuse(word: str) -> str:
        if not refused:
            refused.append(word)
            raise ZeroDivisionError
        return word

    return refuse


def adding(suffix: str, ask: Callable[[str], Words] = says) -> Callable[[str], Words]:
    """A mapper of words to the runs of agents that say more."""
    return lambda word: ask(word + suffix)


def in_turn(*given: str) -> Observable[str]:
    return reactivex.of(*given)


def switching() -> Words:
    """One agent, asked again in the middle of its answer, as by a person who goes on typing."""
    agent = ScriptedAgent(*(turn(pause(0.1), text(word), pause(math.inf)) for word in "ab"), turn(text("c")))
    typed = BehaviorSubject("")

    def type_on(word: str) -> None:
        if word == "c":
            typed.on_completed()
        else:
            typed.on_next(word)

    return typed.pipe(ops.switch_map(lambda _: words(agent)), ops.do_action(type_on))


ONE_AGENT: dict[str, tuple[Callable[[], Observable[Any]], list[Any]]] = {
    "repeat": (lambda: says("a").pipe(ops.repeat(3)), ["a", "a", "a"]),
    "retry": (lambda: words(failing_first()).pipe(ops.retry(2)), ["x", "a"]),
    "while_do": (lambda: says("a").pipe(ops.while_do(times(2))), ["a", "a"]),
    "do_while": (lambda: says("a").pipe(ops.do_while(times(2))), ["a", "a", "a"]),
    "take, repeat": (lambda: stalls("a").pipe(ops.take(1), ops.repeat(3)), ["a", "a", "a"]),
    "mapper fails, retry": (
        lambda: slow("a").pipe(ops.map(refusing_once()), ops.retry(2)),
        ["a"],
    ),
    "timeout, retry": (
        lambda: words(ScriptedAgent(turn(pause(math.inf)), turn(text("a")))).pipe(ops.timeout(0.1), ops.retry(2)),
        ["a"],
    ),
    "switch_map": (switching, ["a", "b", "c"]),
    "concat with itself": (lambda: reactivex.concat(*[says("a")] * 2), ["a", "a"]),
}
"""Runs of one agent, one after the other."""

SEVERAL: dict[str, tuple[Callable[[], Observable[Any]], list[Any]]] = {
    "concat": (lambda: reactivex.concat(says("a"), says("b"), says("c")), ["a", "b", "c"]),
    "catch": (lambda: fails().pipe(ops.catch(says("b"))), ["x", "b"]),
    "catch function": (lambda: fails().pipe(ops.catch(lambda error, source: says("b"))), ["x", "b"]),
    "catch several": (lambda: reactivex.catch(fails(), fails(), says("b")), ["x", "x", "b"]),
    "on_error_resume_next": (lambda: reactivex.on_error_resume_next(fails(), says("b")), ["x", "b"]),
    "for_in": (lambda: reactivex.for_in(["a", "b"], says), ["a", "b"]),
    "start_with": (lambda: says("b").pipe(ops.start_with("a")), ["a", "b"]),
    "defer": (lambda: reactivex.defer(lambda _: says("a")).pipe(ops.repeat(2)), ["a", "a"]),
    "expand": (lambda: says("a").pipe(ops.expand(adding("b")), ops.take(3)), ["a", "ab", "abb"]),
    "merge": (lambda: reactivex.merge(slow("b"), says("a")), ["a", "b"]),
    "merge one by one": (lambda: in_turn("a", "b").pipe(ops.map(says), ops.merge(max_concurrent=1)), ["a", "b"]),
    "flat_map": (lambda: says("a").pipe(ops.flat_map(adding("b"))), ["ab"]),
    "flat_map of slower": (lambda: says("a").pipe(ops.flat_map(adding("b", slow))), ["ab"]),
    "flat_map twice": (lambda: says("a").pipe(ops.flat_map(adding("b", slow)), ops.flat_map(adding("c"))), ["abc"]),
    "concat_map": (lambda: in_turn("a", "b").pipe(ops.concat_map(says)), ["a", "b"]),
    "map, concat_all": (lambda: says("a").pipe(ops.map(adding("b")), ops.concat_all()), ["ab"]),
    "switch_latest": (lambda: in_turn("a", "b").pipe(ops.map(slow), ops.switch_latest()), ["b"]),
    "flat_map_latest": (lambda: says("a").pipe(ops.flat_map_latest(adding("b"))), ["ab"]),
    "exclusive": (lambda: reactivex.of(slow("a"), says("b")).pipe(ops.exclusive()), ["a"]),
    "amb": (lambda: reactivex.amb(says("a"), reactivex.never()), ["a"]),
    "amb of a silent one": (
        lambda: reactivex.amb(words(ScriptedAgent(turn(pause(math.inf)))), reactivex.timer(0.1).pipe(ops.map(str))),
        ["0"],
    ),
    "share": (lambda: reactivex.merge(*[slow("a").pipe(ops.share())] * 2), ["a", "a"]),
    "replay, ref_count": (
        lambda: reactivex.concat(*[says("a").pipe(ops.replay(), ops.ref_count())] * 2),
        ["a", "a"],
    ),
    "combine_latest": (
        lambda: reactivex.combine_latest(says("a"), says("b")).pipe(ops.last()),
        [("a", "b")],
    ),
    "zip": (lambda: reactivex.zip(says("a"), says("b")), [("a", "b")]),
    "with_latest_from": (lambda: slow("a").pipe(ops.with_latest_from(reactivex.of("b"))), [("a", "b")]),
    "fork_join": (lambda: reactivex.fork_join(says("a"), says("b")), [("a", "b")]),
    "sequence_equal": (lambda: says("a").pipe(ops.sequence_equal(says("a"))), [True]),
    "timeout with another": (lambda: stalls().pipe(ops.timeout(0.5, says("b"))), ["s", "b"]),
    "take_until": (lambda: stalls().pipe(ops.take_until(reactivex.timer(0.5))), ["s"]),
    # It subscribes at the timer's value, and again at its end, before it disposes the first: so each has its own agent.
    "delay_subscription": (
        lambda: reactivex.defer(lambda _: slow("a")).pipe(ops.delay_subscription(0.01)),
        ["a"],
    ),
    "window": (lambda: says("a").pipe(ops.window_with_count(1), ops.concat_all()), ["a"]),
}
"""Runs of several agents: one after the other, or in the middle of each other."""

OPERATORS = ONE_AGENT | SEVERAL

table = pytest.mark.parametrize(("operator", "expected"), OPERATORS.values(), ids=list(OPERATORS))


@table
def test_an_operator_subscribes_again_in_a_script(operator: Callable[[], Words], expected: list[object]) -> None:
    watcher = observed(operator())
    assert (watcher.values, watcher.errors, watcher.completions) == (expected, [], 1)


@table
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_an_operator_subscribes_again_in_a_running_loop(
    operator: Callable[[], Words], expected: list[object]
) -> None:
    watcher = await observed_here(operator())
    assert (watcher.values, watcher.errors, watcher.completions) == (expected, [], 1)


THREADED = [
    CurrentThreadScheduler,
    ImmediateScheduler,
    NewThreadScheduler,
    lambda: EventLoopScheduler(exit_if_empty=True),
    lambda: ThreadPoolScheduler(2),
]
OF_A_LOOP = [AsyncIOScheduler, AsyncIOThreadSafeScheduler]
RESUBSCRIBING = [OPERATORS[name] for name in ("retry", "flat_map", "switch_map")]

WAYS: dict[str, Callable[[Words, SchedulerBase, Watcher], DisposableBase]] = {
    "scheduler=": lambda cold, scheduler, watcher: cold.subscribe(
        watcher.next, watcher.error, watcher.completed, scheduler=scheduler
    ),
    "subscribe_on": lambda cold, scheduler, watcher: watcher.watch(cold.pipe(ops.subscribe_on(scheduler))),
    "observe_on": lambda cold, scheduler, watcher: watcher.watch(cold.pipe(ops.observe_on(scheduler))),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("scheduler", THREADED, ids=["current", "immediate", "new", "event loop", "pool"])
def test_every_scheduler_of_threads_serves(
    way: Callable[[Words, SchedulerBase, Watcher], DisposableBase], scheduler: Callable[[], SchedulerBase]
) -> None:
    for operator, expected in RESUBSCRIBING:
        watcher = Watcher()
        in_thread(lambda operator=operator, watcher=watcher: way(operator(), scheduler(), watcher))  # type: ignore[misc]
        assert watcher.over.wait(LIMIT)
        assert (watcher.values, watcher.errors) == (expected, [])


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("scheduler", OF_A_LOOP)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_every_scheduler_of_a_loop_serves(
    way: Callable[[Words, SchedulerBase, Watcher], DisposableBase],
    scheduler: Callable[[asyncio.AbstractEventLoop], SchedulerBase],
) -> None:
    for operator, expected in RESUBSCRIBING:
        watcher = Watcher()
        way(operator(), scheduler(asyncio.get_running_loop()), watcher)
        await until(watcher.over.is_set)
        assert (watcher.values, watcher.errors) == (expected, [])


# --- disposing from inside, and subscribers that fail


@pytest.mark.parametrize("moment", ["next", "error", "completed"])
def test_a_subscription_may_be_disposed_from_each_callback(moment: str) -> None:
    watcher = Watcher()
    subscription = SerialDisposable()

    def disposing(callback: Callable[..., None], name: str) -> Callable[..., None]:
        def call(*given: object) -> None:
            if name == moment:
                subscription.dispose()
            callback(*given)

        return call

    # The pause lasts until everybody has subscribed.
    endings: dict[str, list[Step]] = {
        "next": [pause(math.inf)],
        "error": [RunErrorEvent(message="no")],
        "completed": [],
    }
    agent = ScriptedAgent(turn(pause(0.3), text("a"), *endings[moment]))
    on_next, on_error = disposing(watcher.next, "next"), disposing(watcher.error, "error")
    with nothing_left_behind_sync():
        subscription.disposable = words(agent).subscribe(on_next, on_error, disposing(watcher.completed, "completed"))
        until_sync(lambda: watcher.over.is_set() or (moment == "next" and watcher.values))
        until_sync(lambda: "agui_client.observe" not in {thread.name for thread in threading.enumerate()})
    assert (len(watcher.errors), watcher.completions) == (moment == "error", moment == "completed")


def test_what_a_hook_of_a_sync_run_subscribes_to_outlives_this_run() -> None:
    watcher = Watcher()
    agent = ScriptedAgent(turn(text("a")))

    @agent.on(RunFinishedEvent)
    def ended(event: RunFinishedEvent) -> None:
        watcher.watch(slow("b"))

    agent.run_agent_sync("Hi")
    assert watcher.over.wait(LIMIT)
    assert (watcher.values, watcher.errors) == (["b"], [])


def test_a_subscriber_that_fails_at_the_end_harms_no_later_run(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = Queue[str]()

    def report(args: threading.ExceptHookArgs) -> None:
        reported.put(str(args.exc_value))

    monkeypatch.setattr(threading, "excepthook", report)

    def refuse() -> None:
        raise ZeroDivisionError("mine")

    agent = ScriptedAgent(turn(text("a")))
    in_thread(lambda: words(agent).subscribe(on_completed=refuse))
    assert reported.get(timeout=LIMIT) == "mine"
    assert observed(words(agent)).values == ["a"]
