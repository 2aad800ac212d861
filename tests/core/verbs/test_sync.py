"""The sync surface: in step with what was given out, in threads and notebooks, closed when left."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager

import anyio
import anyio.from_thread
import pytest
from ag_ui.core import (
    CustomEvent,
    RunAgentInput,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)
from anyio.lowlevel import EventLoopToken, current_token

from agui_client import HttpAgent, IncompleteRunError, RunFailedError, RunInProgressError, UsageError
from agui_client.testing import (
    Gate,
    Reply,
    ScriptedAgent,
    Step,
    patch,
    serve_bytes,
    sse,
    state,
    text,
    turn,
)
from support import scenario
from support.bodies import memory_agent
from support.verbs import shown
from support.waiting import LIMIT, in_thread, start_thread

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""
COUNTING = turn(state({"n": 0}), text("a b c"), patch({"op": "replace", "path": "/n", "value": 1}), text("d"))


# --- in step


@pytest.mark.requirement("PROC-1")
def test_messages_and_state_include_the_event_that_was_just_given_and_no_later_one() -> None:
    agent = ScriptedAgent(COUNTING)
    seen: list[tuple[str, str, object]] = []
    with agent.stream_sync("Hi") as run:
        for event in run:
            said = "".join(str(message.content) for message in run.messages[1:])
            assert run.messages == agent.messages
            assert run.state is agent.state
            seen.append((type(event).__name__.removesuffix("Event"), said, run.state))
    assert seen == [
        ("RunStarted", "", {}),
        ("StateSnapshot", "", {"n": 0}),
        ("TextMessageStart", "", {"n": 0}),
        ("TextMessageContent", "a ", {"n": 0}),
        ("TextMessageContent", "a b ", {"n": 0}),
        ("TextMessageContent", "a b c", {"n": 0}),
        ("TextMessageEnd", "a b c", {"n": 0}),
        ("StateDelta", "a b c", {"n": 1}),
        ("TextMessageStart", "a b c", {"n": 1}),
        ("TextMessageContent", "a b cd", {"n": 1}),
        ("TextMessageEnd", "a b cd", {"n": 1}),
        ("RunFinished", "a b cd", {"n": 1}),
    ]


def test_events_are_given_as_they_come_and_not_at_the_end() -> None:
    gate = Gate()
    reply = Reply([BEGUN, gate, FRAMES[len(BEGUN) :]])
    with serve_bytes(reply) as server, HttpAgent(server.url).stream_sync("Hi") as run:
        first = [in_thread(run.__next__) for _ in range(4)]
        gate.open()
        rest = list(run)
    assert isinstance(first[-1], TextMessageContentEvent)
    assert isinstance(rest[0], TextMessageEndEvent)


def test_the_text_stream_gives_the_text_with_a_blank_line_between_two_messages() -> None:
    with ScriptedAgent(COUNTING).stream_sync("Hi") as run:
        assert list(run.text_stream) == ["a ", "b ", "c", "\n\nd"]
        assert run.result().text == "d"


def test_snapshots_give_the_event_with_what_it_made() -> None:
    with ScriptedAgent(COUNTING).stream_sync("Hi") as run:
        found = [
            (snapshot.state, len(snapshot.messages))
            for snapshot in run.snapshots
            if isinstance(snapshot.event, StateSnapshotEvent | StateDeltaEvent)
        ]
    assert found == [({"n": 0}, 1), ({"n": 1}, 2)]


def test_the_lenses_take_turns_on_one_stream() -> None:
    with ScriptedAgent(COUNTING).stream_sync("Hi") as run:
        next(run)
        assert next(run.text_stream) == "a "
        assert next(run.snapshots).messages[-1].content == "a b "
        assert [event.type.value for event in run][:2] == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]


def test_a_result_needs_no_iterating_and_can_be_asked_for_twice() -> None:
    with ScriptedAgent(COUNTING).stream_sync(scenario.PROMPT) as run:
        result = run.result()
        assert run.result() is result
        assert list(run) == []
    assert run.result() is result
    assert shown(run.messages) == shown(result.messages)
    assert (run.thread_id, run.run_id, run.warnings) == (result.thread_id, result.run_id, [])


def test_partial_is_what_has_arrived() -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server, HttpAgent(server.url).stream_sync("Hi") as run:
        for _ in range(4):
            next(run)
        assert run.partial.text == "One two"
        assert run.partial.outcome is None


@pytest.mark.requirement("TRUNC-1")
def test_a_run_whose_agent_cancels_its_task_is_incomplete() -> None:
    async def run(input: RunAgentInput) -> AsyncIterator[Step]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.sleep_forever()
        yield turn()

    with pytest.raises(IncompleteRunError) as error:
        in_thread(lambda: ScriptedAgent(run).run_agent_sync("Hi"))
    assert error.value.rule == "TRUNC-1"


def test_an_error_is_raised_at_the_end_and_again_by_result() -> None:
    failing = sse(turn(text("Hm", message_id="m1")), {"type": "RUN_ERROR", "message": "overloaded"})
    with serve_bytes(failing) as server, HttpAgent(server.url).stream_sync("Hi") as run:
        with pytest.raises(RunFailedError, match="overloaded"):
            list(run)
        with pytest.raises(RunFailedError, match="overloaded"):
            run.result()
        assert list(run) == []


@pytest.mark.parametrize("count", [5_000, 20_000])
def test_a_thread_that_is_slower_than_the_stream_misses_nothing(count: int) -> None:
    agent = ScriptedAgent(turn(text("x" * count, chunk=1)))
    with agent.stream_sync("Hi") as run:
        given = sum(isinstance(event, TextMessageContentEvent) for event in run)
        assert given == count
        assert run.result().text == "x" * count


def test_the_stream_is_held_back_while_nobody_reads() -> None:
    produced, loops = itertools.count(), list[EventLoopToken]()

    async def endless(input: RunAgentInput) -> AsyncIterator[Step]:
        loops.append(current_token())
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        for number in produced:
            yield CustomEvent(name="tick", value=number)

    def read_one() -> int:
        with ScriptedAgent(endless).stream_sync("Hi") as run:
            next(run)
            return stand_still(produced, loops[0])

    assert in_thread(read_one) < 5000


def stand_still(counter: Iterator[int], loop: EventLoopToken) -> int:
    """What a counter shows when a loop has gone round many times and has not counted; `repr` looks without counting."""
    seen, quiet = "", 0
    for _ in range(100_000):
        before, seen = seen, anyio.from_thread.run_sync(repr, counter, token=loop)
        quiet = quiet + 1 if seen == before else 0
        if quiet == 100:
            return int(seen.removeprefix("count(").removesuffix(")"))
    raise TimeoutError(f"it goes on: {seen}")


# --- edits and hooks in the middle


EDITABLE = sse(turn(state({"n": 1}), text("a b", message_id="m1"), patch({"op": "add", "path": "/m", "value": 2})))


@contextmanager
def held_after(part: bytes) -> Generator[tuple[HttpAgent, Gate]]:
    """An agent whose stream goes on past this frame when the gate is opened."""
    at = EDITABLE.index(part) + len(part)
    gate = Gate()
    with serve_bytes(Reply([EDITABLE[:at], gate, EDITABLE[at:]])) as server:
        yield HttpAgent(server.url), gate


def test_a_state_that_is_set_in_the_middle_stays_set() -> None:
    with held_after(b'"snapshot":{"n":1}}\n\n') as (agent, gate), agent.stream_sync("Hi") as run:
        for event in run:
            if isinstance(event, StateSnapshotEvent):
                agent.set_state({"n": 1, "mine": True})
                gate.open()
    assert agent.state == {"n": 1, "mine": True, "m": 2}
    assert run.state == agent.state


def test_a_state_that_is_set_while_the_rest_has_arrived_stays_set() -> None:
    agent = memory_agent(EDITABLE)
    with agent.stream_sync("Hi") as run:
        for event in run:
            if isinstance(event, StateSnapshotEvent):
                agent.set_state({"n": 1, "mine": True})
    assert agent.state == {"n": 1, "mine": True, "m": 2}


def test_a_message_that_is_added_in_the_middle_stays_added() -> None:
    with held_after(b'"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}\n\n') as (agent, gate):
        with agent.stream_sync("Hi") as run:
            for event in run:
                if isinstance(event, TextMessageStartEvent):
                    agent.add_message(UserMessage(id="mine", content="and"))
                    gate.open()
        assert [message.content for message in agent.messages] == ["Hi", "a b", "and"]
        assert run.messages == agent.messages


# --- threads and loops


def test_it_works_in_many_threads_on_clones() -> None:
    agent = ScriptedAgent(turn(text("One two")), initial_messages=[UserMessage(id="u", content="Before")])
    clones = [agent.clone() for _ in range(8)]

    def ask(clone: ScriptedAgent) -> Callable[[float], str]:
        return start_thread(lambda: clone.run_agent_sync("Hi").text)

    joins = [ask(clone) for clone in clones]
    assert [join(LIMIT) for join in joins] == ["One two"] * 8
    assert all(len(clone.messages) == 3 for clone in clones)
    assert len(agent.messages) == 1


@pytest.mark.anyio
async def test_it_works_where_a_loop_is_running_as_in_a_notebook() -> None:
    with serve_bytes(FRAMES) as server:
        agent = HttpAgent(server.url)
        assert agent.run_agent_sync("Hi").text == "One two"
        with agent.clone().stream_sync("Hi") as run:
            assert "".join(run.text_stream).endswith("One two")
        assert (await agent.clone().run_agent("Hi")).outcome is not None


def test_a_second_run_is_refused_whichever_verb_asks() -> None:
    agent = ScriptedAgent(COUNTING)
    with agent.stream_sync("Hi") as run:
        next(run)
        with pytest.raises(RunInProgressError):
            agent.run_agent_sync("Me too")
        with pytest.raises(RunInProgressError), agent.stream_sync("Me too"):
            pass
        with pytest.raises(RunInProgressError):
            anyio.run(agent.run_agent, "Me too")
        assert [message.content for message in agent.messages] == ["Hi"]
        run.result()
    assert agent.run_agent_sync("Now").outcome is not None


def test_a_run_is_used_inside_its_block_and_once() -> None:
    run = ScriptedAgent(COUNTING).stream_sync("Hi")
    with pytest.raises(UsageError, match="inside its block"):
        next(run)
    with pytest.raises(UsageError, match="inside its block"):
        run.result()
    with run:
        run.result()
    with pytest.raises(UsageError, match="entered once"), run:
        pass


def test_a_run_that_was_left_early_cannot_be_iterated_on() -> None:
    with ScriptedAgent(COUNTING).stream_sync("Hi") as run:
        next(run)
    with pytest.raises(UsageError, match="inside its block"):
        next(run)
    with pytest.raises(UsageError):
        run.result()


def test_a_run_whose_block_was_entered_is_no_body_of_a_response() -> None:
    with ScriptedAgent(turn()).stream_sync() as run, pytest.raises(UsageError, match="call it on a new run"):
        next(run.sse())
