"""Operators that subscribe again, at the end of a run or in the middle of one: in a script, a loop and a notebook."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from functools import partial
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
from reactivex.subject import BehaviorSubject, Subject

from agui_client import AbstractAgent
from agui_client.testing import Gate, ScriptedAgent, Step, pause, text, turn
from support.leaks import nothing_left_behind_sync
from support.waiting import LIMIT, in_thread, until, until_sync
from support.watching import Watcher, observed, observed_here

Words = Observable[str]
Made = Callable[[float], Observable[Any]]
"""What makes an observable, given the seconds until everybody has subscribed."""
IN_A_SCRIPT = 0.05
IN_A_LOOP = 0.0
"""No run begins before the turn in which it is subscribed to is over."""


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


def late(word: str, wait: float) -> Words:
    """An agent that says a word when everybody has subscribed."""
    return words(ScriptedAgent(turn(pause(wait), text(word))))


def fails() -> Words:
    """An agent that says x, and fails."""
    return words(failing_first())


def failing_first() -> ScriptedAgent:
    """An agent whose first run says x and fails; the second says a."""
    return ScriptedAgent(turn(text("x"), RunErrorEvent(message="no")), turn(text("a")))


def stalls(word: str, wait: float) -> Words:
    """An agent that says a word, when everybody has subscribed, and then nothing."""
    return words(ScriptedAgent(turn(pause(wait), text(word), pause(math.inf))))


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


def switching(wait: float) -> Words:
    """One agent, asked again in the middle of its answer, as by a person who goes on typing."""
    agent = ScriptedAgent(*(turn(pause(wait), text(word), pause(math.inf)) for word in "ab"), turn(text("c")))
    typed = BehaviorSubject("")

    def type_on(word: str) -> None:
        if word == "c":
            typed.on_completed()
        else:
            typed.on_next(word)

    return typed.pipe(ops.switch_map(lambda _: words(agent)), ops.do_action(type_on))


def merged(wait: float) -> Words:
    """Two agents, the first of which speaks when the second has spoken."""
    spoken = Gate()
    second = says("a").pipe(ops.do_action(lambda _: spoken.open()))
    return reactivex.merge(words(ScriptedAgent(turn(spoken, text("b")))), second)


def silent_after_a_word(wait: float) -> Words:
    """An agent that is waited for no longer, as it says no second word; another takes its place."""
    silence = reactivex.timer(0.02)
    return stalls("s", wait).pipe(ops.timeout_with_mapper(reactivex.never(), lambda _: silence, says("b")))


def stopped_by_a_word(wait: float) -> Words:
    """An agent that is left before its second word passes, and then says nothing."""
    spoken = Subject[str]()
    agent = ScriptedAgent(turn(pause(wait), text("s"), text("t"), pause(math.inf)))
    second = spoken.pipe(ops.filter(lambda word: word == "t"))
    return words(agent).pipe(ops.do_action(spoken.on_next), ops.take_until(second))


ONE_AGENT: dict[str, tuple[Made, list[Any]]] = {
    "repeat": (lambda wait: says("a").pipe(ops.repeat(3)), ["a", "a", "a"]),
    "retry": (lambda wait: words(failing_first()).pipe(ops.retry(2)), ["x", "a"]),
    "while_do": (lambda wait: says("a").pipe(ops.while_do(times(2))), ["a", "a"]),
    "do_while": (lambda wait: says("a").pipe(ops.do_while(times(2))), ["a", "a", "a"]),
    "take, repeat": (lambda wait: stalls("a", wait).pipe(ops.take(1), ops.repeat(3)), ["a", "a", "a"]),
    "mapper fails, retry": (
        lambda wait: late("a", wait).pipe(ops.map(refusing_once()), ops.retry(2)),
        ["a"],
    ),
    "timeout, retry": (
        lambda wait: words(ScriptedAgent(turn(pause(math.inf)), turn(text("a")))).pipe(ops.timeout(0.1), ops.retry(2)),
        ["a"],
    ),
    "switch_map": (switching, ["a", "b", "c"]),
    "concat with itself": (lambda wait: reactivex.concat(*[says("a")] * 2), ["a", "a"]),
}
"""Runs of one agent, one after the other."""

SEVERAL: dict[str, tuple[Made, list[Any]]] = {
    "concat": (lambda wait: reactivex.concat(says("a"), says("b"), says("c")), ["a", "b", "c"]),
    "catch": (lambda wait: fails().pipe(ops.catch(says("b"))), ["x", "b"]),
    "catch function": (lambda wait: fails().pipe(ops.catch(lambda error, source: says("b"))), ["x", "b"]),
    "catch several": (lambda wait: reactivex.catch(fails(), fails(), says("b")), ["x", "x", "b"]),
    "on_error_resume_next": (lambda wait: reactivex.on_error_resume_next(fails(), says("b")), ["x", "b"]),
    "for_in": (lambda wait: reactivex.for_in(["a", "b"], says), ["a", "b"]),
    "start_with": (lambda wait: says("b").pipe(ops.start_with("a")), ["a", "b"]),
    "defer": (lambda wait: reactivex.defer(lambda _: says("a")).pipe(ops.repeat(2)), ["a", "a"]),
    "expand": (lambda wait: says("a").pipe(ops.expand(adding("b")), ops.take(3)), ["a", "ab", "abb"]),
    "merge": (merged, ["a", "b"]),
    "merge one by one": (lambda wait: in_turn("a", "b").pipe(ops.map(says), ops.merge(max_concurrent=1)), ["a", "b"]),
    "flat_map": (lambda wait: says("a").pipe(ops.flat_map(adding("b"))), ["ab"]),
    "flat_map of slower": (
        lambda wait: says("a").pipe(ops.flat_map(adding("b", partial(late, wait=wait)))),
        ["ab"],
    ),
    "flat_map twice": (
        lambda wait: says("a").pipe(ops.flat_map(adding("b", partial(late, wait=wait))), ops.flat_map(adding("c"))),
        ["abc"],
    ),
    "concat_map": (lambda wait: in_turn("a", "b").pipe(ops.concat_map(says)), ["a", "b"]),
    "map, concat_all": (lambda wait: says("a").pipe(ops.map(adding("b")), ops.concat_all()), ["ab"]),
    "switch_latest": (
        lambda wait: in_turn("a", "b").pipe(ops.map(partial(late, wait=wait)), ops.switch_latest()),
        ["b"],
    ),
    "flat_map_latest": (lambda wait: says("a").pipe(ops.flat_map_latest(adding("b"))), ["ab"]),
    "exclusive": (lambda wait: reactivex.of(late("a", wait), says("b")).pipe(ops.exclusive()), ["a"]),
    "amb": (lambda wait: reactivex.amb(says("a"), reactivex.never()), ["a"]),
    "amb of a silent one": (
        lambda wait: reactivex.amb(
            words(ScriptedAgent(turn(pause(math.inf)))), reactivex.timer(0.02).pipe(ops.map(str))
        ),
        ["0"],
    ),
    "share": (lambda wait: reactivex.merge(*[late("a", wait).pipe(ops.share())] * 2), ["a", "a"]),
    "replay, ref_count": (
        lambda wait: reactivex.concat(*[says("a").pipe(ops.replay(), ops.ref_count())] * 2),
        ["a", "a"],
    ),
    "combine_latest": (
        lambda wait: reactivex.combine_latest(says("a"), says("b")).pipe(ops.last()),
        [("a", "b")],
    ),
    "zip": (lambda wait: reactivex.zip(says("a"), says("b")), [("a", "b")]),
    "with_latest_from": (lambda wait: late("a", wait).pipe(ops.with_latest_from(reactivex.of("b"))), [("a", "b")]),
    "fork_join": (lambda wait: reactivex.fork_join(says("a"), says("b")), [("a", "b")]),
    "sequence_equal": (lambda wait: says("a").pipe(ops.sequence_equal(says("a"))), [True]),
    "timeout with another": (silent_after_a_word, ["s", "b"]),
    "take_until": (stopped_by_a_word, ["s"]),
    # It subscribes at the timer's value, and again at its end, before it disposes the first: so each has its own agent,
    # which says nothing until then, and the timer has a thread of its own in a loop, too.
    "delay_subscription": (
        lambda wait: reactivex.defer(lambda _: late("a", wait + 0.5)).pipe(ops.delay_subscription(0.01)),
        ["a"],
    ),
    "window": (lambda wait: says("a").pipe(ops.window_with_count(1), ops.concat_all()), ["a"]),
}
"""Runs of several agents: one after the other, or in the middle of each other."""

OPERATORS = ONE_AGENT | SEVERAL

table = pytest.mark.parametrize(("operator", "expected"), OPERATORS.values(), ids=list(OPERATORS))


@table
def test_an_operator_subscribes_again_in_a_script(operator: Made, expected: list[object]) -> None:
    watcher = observed(operator(IN_A_SCRIPT))
    assert (watcher.values, watcher.errors, watcher.completions) == (expected, [], 1)


@table
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_an_operator_subscribes_again_in_a_running_loop(operator: Made, expected: list[object]) -> None:
    watcher = await observed_here(operator(IN_A_LOOP))
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
        observable = operator(IN_A_SCRIPT)
        in_thread(lambda observable=observable, watcher=watcher: way(observable, scheduler(), watcher))  # type: ignore[misc]
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
        way(operator(IN_A_LOOP), scheduler(asyncio.get_running_loop()), watcher)
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

    endings: dict[str, list[Step]] = {
        "next": [pause(math.inf)],
        "error": [RunErrorEvent(message="no")],
        "completed": [],
    }
    everybody_has_subscribed = Gate()
    agent = ScriptedAgent(turn(everybody_has_subscribed, text("a"), *endings[moment]))
    on_next, on_error = disposing(watcher.next, "next"), disposing(watcher.error, "error")
    with nothing_left_behind_sync():
        subscription.disposable = words(agent).subscribe(on_next, on_error, disposing(watcher.completed, "completed"))
        everybody_has_subscribed.open()
        until_sync(lambda: watcher.over.is_set() or (moment == "next" and watcher.values))
        until_sync(lambda: "agui_client.observe" not in {thread.name for thread in threading.enumerate()})
    assert (len(watcher.errors), watcher.completions) == (moment == "error", moment == "completed")


def test_what_a_hook_of_a_sync_run_subscribes_to_outlives_this_run() -> None:
    watcher, is_over = Watcher(), Gate()
    agent = ScriptedAgent(turn(text("a")))

    @agent.on(RunFinishedEvent)
    def ended(event: RunFinishedEvent) -> None:
        watcher.watch(words(ScriptedAgent(turn(is_over, text("b")))))

    agent.run_agent_sync("Hi")
    is_over.open()
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
