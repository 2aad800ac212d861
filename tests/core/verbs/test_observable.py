"""The RxPY surface: cold runs, hot messages and state, in a loop and in a thread."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    UserMessage,
)
from reactivex import operators as ops

from agui_client import (
    CannotWaitError,
    FunctionAgent,
    HttpAgent,
    IncompleteRunError,
    RunInProgressError,
    UsageError,
)
from agui_client.testing import Reply, ScriptedAgent, patch, serve_bytes, sse, state, text, turn
from support.waiting import LIMIT, SOON, in_thread
from support.watching import Watcher, observed, observed_here

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]


# --- a run


def test_a_run_is_observed_in_a_thread_of_its_own() -> None:
    watcher = observed(ScriptedAgent(turn(text("One two"))).observe("Hi"))
    assert [event.type.value for event in watcher.values][-1] == "RUN_FINISHED"
    assert (watcher.errors, watcher.completions) == ([], 1)
    assert watcher.threads == {"agui_client.observe"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_run_is_observed_in_the_running_loop() -> None:
    watcher = await observed_here(ScriptedAgent(turn(text("One two"))).observe("Hi"))
    assert isinstance(watcher.values[-1], RunFinishedEvent)
    assert watcher.threads == {threading.current_thread().name}


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.anyio
async def test_under_trio_a_run_is_observed_in_a_thread() -> None:
    watcher = await observed_here(ScriptedAgent(turn(text("One two"))).observe("Hi"))
    assert isinstance(watcher.values[-1], RunFinishedEvent)
    assert watcher.threads == {"agui_client.observe"}


def test_an_agent_that_ends_its_program_ends_the_run_of_its_observer_with_an_error() -> None:
    async def play(input: RunAgentInput) -> AsyncGenerator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise SystemExit(3)

    watcher = observed(FunctionAgent(play).observe("Hi"))
    [error] = watcher.errors
    assert isinstance(error, IncompleteRunError)
    assert (str(error), repr(error.__cause__)) == ("the run was ended by SystemExit", "SystemExit(3)")


def test_nothing_happens_before_somebody_subscribes_and_each_subscription_is_a_run() -> None:
    agent = ScriptedAgent(turn(text("One")))
    cold = agent.observe("Hi")
    assert (agent.inputs, agent.messages) == ([], [])
    observed(cold)
    observed(cold)
    assert [len(each.messages) for each in agent.inputs] == [1, 3]
    assert agent.inputs[0].run_id != agent.inputs[1].run_id


def test_many_short_runs_in_a_row_all_come_to_their_end() -> None:
    agent = ScriptedAgent(turn())
    for _ in range(300):
        assert observed(agent.observe()).completions == 1


def test_an_unknown_keyword_is_refused_at_once() -> None:
    observe: Any = ScriptedAgent(turn()).observe
    said = r"^unknown keyword colour=; help\(ScriptedAgent.observe\) explains all keywords$"
    with pytest.raises(TypeError, match=said):
        observe("Hi", colour="red")


def test_a_second_run_comes_as_an_error() -> None:
    agent = ScriptedAgent(turn(text("a")))
    with agent.stream_sync("Hi") as run:
        next(run)
        watcher = observed(agent.observe("Me too"))
    assert [type(error) for error in watcher.errors] == [RunInProgressError]
    assert watcher.values == []


def test_the_end_is_told_after_everything_is_closed() -> None:
    agent = ScriptedAgent(turn(text("a")))
    running: list[bool] = []
    over = threading.Event()

    def completed() -> None:
        running.append(agent.is_running)
        over.set()

    in_thread(lambda: agent.observe("Hi").subscribe(on_completed=completed))
    assert over.wait(LIMIT)
    assert running == [False]


def test_operators_work_on_a_run() -> None:
    words = ScriptedAgent(turn(text("a b c d"))).observe("Hi").pipe(
        ops.filter(lambda event: isinstance(event, TextMessageContentEvent)),
        ops.map(lambda event: event.delta if isinstance(event, TextMessageContentEvent) else ""),
        ops.buffer_with_count(2),
        ops.to_list(),
    )  # fmt: skip
    assert observed(words).values == [[["a ", "b "], ["c ", "d"]]]


def refuse(event: Event) -> None:
    """An observer's own mistake."""
    raise ZeroDivisionError("mine")


def test_an_exception_of_the_observers_own_ends_the_run_and_goes_to_on_error() -> None:
    watcher = Watcher()
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        agent = HttpAgent(server.url)
        in_thread(lambda: agent.observe("Hi").subscribe(refuse, watcher.error, watcher.completed))
        assert watcher.over.wait(LIMIT)
        assert server.disconnected.wait(SOON)
    assert [str(error) for error in watcher.errors] == ["mine"]
    assert not agent.is_running


def test_an_exception_of_an_observer_without_on_error_is_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    over = threading.Event()

    def report(args: threading.ExceptHookArgs) -> None:
        reported.append(str(args.exc_value))
        over.set()

    monkeypatch.setattr(threading, "excepthook", report)
    in_thread(lambda: ScriptedAgent(turn()).observe("Hi").subscribe(refuse))
    assert over.wait(LIMIT)
    assert reported == ["mine"]


# --- messages and state


def test_messages_are_hot_the_current_value_first_then_every_change_across_runs() -> None:
    agent = ScriptedAgent(turn(text("a b", message_id="m1")), turn(CustomEvent(name="x", value=1)))
    watcher = Watcher()
    subscription = watcher.watch(agent.observe_messages())
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(None)
    agent.add_message(UserMessage(id="u", content="by hand"))
    agent.set_messages([])
    subscription.dispose()
    agent.add_message(UserMessage(id="v", content="unheard"))
    said = [[message.content for message in value] for value in watcher.values]
    assert said == [
        [],
        ["Hi"],
        ["Hi", ""],
        ["Hi", "a "],
        ["Hi", "a b"],
        ["Hi", "a b", "by hand"],
        [],
    ]
    assert (watcher.errors, watcher.completions) == ([], 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_state_is_hot_the_current_value_first_then_every_change_across_runs() -> None:
    change = patch({"op": "add", "path": "/n", "value": 1})
    agent = ScriptedAgent(turn(text("a"), state({"city": "Oslo"}), change), initial_state={"city": None})
    watcher = Watcher()
    watcher.watch(agent.observe_state())
    await agent.run_agent("Hi")
    agent.set_state([])
    agent.restore(agent.snapshot())
    assert watcher.values == [{"city": None}, {"city": "Oslo"}, {"city": "Oslo", "n": 1}, [], []]


@pytest.mark.parametrize("path", [None, "/n"], ids=["the messages", "a place of the state"])
def test_an_observer_that_was_disposed_is_not_kept(path: str | None) -> None:
    agent, watcher = ScriptedAgent(turn(state({"n": 1}))), Watcher()
    watcher.watch(agent.observe_messages() if path is None else agent.observe_state(path)).dispose()
    disposed = weakref.ref(watcher)
    del watcher
    gc.collect()
    assert disposed() is None
    assert agent.run_agent_sync("Hi").state == {"n": 1}


def test_a_subscriber_that_comes_late_gets_the_current_value() -> None:
    agent = ScriptedAgent(turn(state({"n": 1})))
    agent.run_agent_sync()
    late = Watcher()
    late.watch(agent.observe_state())
    assert late.values == [{"n": 1}]


def test_a_subscriber_may_leave_while_it_is_told() -> None:
    agent = ScriptedAgent(turn(text("a b c")))
    watcher = Watcher()
    watcher.watch(agent.observe_messages().pipe(ops.take(3)))
    agent.run_agent_sync("Hi")
    assert len(watcher.values) == 3
    assert watcher.completions == 1


def test_what_observers_hold_never_changes() -> None:
    agent = ScriptedAgent(turn(text("a b c"), state({"n": 1}), patch({"op": "add", "path": "/m", "value": 2})))
    messages, states = Watcher(), Watcher()
    messages.watch(agent.observe_messages())
    states.watch(agent.observe_state())
    agent.run_agent_sync("Hi")
    assert [len(value) for value in messages.values] == [0, 1, 2, 2, 2, 2]
    assert [value[-1].content for value in messages.values[2:]] == ["", "a ", "a b ", "a b c"]
    assert states.values == [{}, {"n": 1}, {"n": 1, "m": 2}]


def test_a_clone_is_observed_apart() -> None:
    agent = ScriptedAgent(turn(StateSnapshotEvent(snapshot=1)))
    watcher = Watcher()
    watcher.watch(agent.observe_state())
    agent.clone().run_agent_sync()
    assert watcher.values == [{}]


def test_events_of_observed_runs_reach_the_hot_observables_too() -> None:
    agent = ScriptedAgent(turn(StateSnapshotEvent(snapshot=1)))
    watcher = Watcher()
    watcher.watch(agent.observe_state())
    observed(agent.observe())
    assert watcher.values == [{}, 1]


def test_usage_errors_reach_the_observer() -> None:
    agent = ScriptedAgent(turn())
    watcher = observed(agent.observe("Hi", forwarded_props=object()))
    assert [isinstance(error, UsageError) for error in watcher.errors] == [True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_to_wait_for_a_run_in_the_loop_that_carries_it_out_is_refused() -> None:
    with pytest.raises(CannotWaitError, match="would wait for ever inside a running event loop"):
        ScriptedAgent(turn()).observe("Hi").run()


def test_an_observer_that_fails_at_the_present_value_is_not_called_again() -> None:
    agent, seen = ScriptedAgent(turn()), list[Any]()

    def fail(messages: Any) -> None:
        seen.append(messages)
        raise LookupError

    with pytest.raises(LookupError):
        agent.observe_messages().subscribe(on_next=fail)
    agent.add_message({"role": "user", "content": "Hi"})
    assert seen == [[]]
