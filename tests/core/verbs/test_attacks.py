"""What once went wrong: cancelled waits, odd agents, exceptions at the end, errors that travel."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    TextMessageContentEvent,
)

from agui_client import (
    AGUIError,
    EventOrderError,
    FunctionAgent,
    HookContext,
    HttpAgent,
    HTTPStatusError,
    IncompleteRunError,
    Mutation,
    RunFailedError,
    RunObserver,
    Subscriber,
    UnrecognizedEvent,
    UsageError,
)
from agui_client._core.run.observers import RunKeeper
from agui_client.testing import Gate, Reply, ScriptedAgent, pause, serve, serve_bytes, sse, state, text, turn
from support.waiting import LIMIT, until


def started(input: RunAgentInput) -> RunStartedEvent:
    return RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)


def finished(input: RunAgentInput) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


@asynccontextmanager
async def given_up_when(condition: Callable[[], object]) -> AsyncGenerator[None]:
    """Cancel the block when the condition holds."""
    async with anyio.create_task_group() as tasks:

        async def give_up() -> None:
            await until(condition)
            tasks.cancel_scope.cancel()

        tasks.start_soon(give_up)
        yield
        raise AssertionError("it did not wait")


@pytest.mark.anyio
@pytest.mark.requirement("SSE-10")
async def test_a_wait_that_was_cancelled_is_never_posted_again() -> None:
    gate = Gate()
    with serve_bytes(Reply([gate, sse(turn(text("Hi")))])) as server:
        async with HttpAgent(server.url).stream("Pay Ada") as run:
            async with given_up_when(lambda: server.requests):
                await run.result()
            with pytest.raises(IncompleteRunError, match="the run was cancelled while it waited"):
                await run.result()
        gate.open()
        assert len(server.requests) == 1


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-4")
async def test_a_run_whose_wait_was_cancelled_never_succeeds_afterwards() -> None:
    agent = ScriptedAgent(turn(text("a"), RunFinishedEvent(thread_id="t", run_id="r"), pause(30)), thread_id="t")
    async with agent.stream("Hi", run_id="r") as run:
        async with given_up_when(lambda: run.partial.outcome is not None):
            await run.result()
        with pytest.raises(IncompleteRunError):
            await run.result()


def test_an_agent_whose_own_code_is_cancelled_ends_the_sync_run() -> None:
    async def agent(input: RunAgentInput) -> AsyncIterator[Event]:
        yield started(input)
        task = asyncio.ensure_future(asyncio.sleep(9))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(RunFailedError, match="cancelled"):
        FunctionAgent(agent).run_agent_sync("Hi")
    failures: list[Exception] = []
    FunctionAgent(agent).observe("Hi").subscribe(on_error=failures.append)
    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(until, lambda: bool(failures), 5)
    assert [type(failure) for failure in failures] == [RunFailedError]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_closing_an_agent_that_holds_a_task_group_leaves_the_callers_task_alone() -> None:
    async def agent(input: RunAgentInput) -> AsyncIterator[Event]:
        async with anyio.create_task_group():
            yield started(input)
            yield StepFinishedEvent(step_name="never started")

    with pytest.raises(EventOrderError):
        await FunctionAgent(agent).run_agent("Hi")
    await asyncio.sleep(0)


def test_a_producer_may_go_on_writing_into_what_it_yielded() -> None:
    async def agent(input: RunAgentInput) -> AsyncIterator[Event]:
        held = {"n": 0}
        yield started(input)
        yield StateSnapshotEvent(snapshot=held)
        held["n"] = 1
        yield CustomEvent(name="look", value=None)
        yield finished(input)

    with FunctionAgent(agent).stream_sync("Hi") as run:
        states = [snapshot.state for snapshot in run.snapshots]
    assert states == [{}, {"n": 0}, {"n": 0}, {"n": 0}]


def test_a_consumer_that_writes_into_an_event_does_not_write_into_the_state() -> None:
    agent = ScriptedAgent(turn(state({"n": 0})))
    with agent.stream_sync("Hi") as run:
        for event in run:
            if isinstance(event, StateSnapshotEvent):
                event.snapshot["n"] = "mine"
    assert agent.state == {"n": 0}


@pytest.mark.anyio
async def test_a_kept_client_serves_its_own_loop_only() -> None:
    with serve(ScriptedAgent(turn(text("Hi")))) as server:
        async with HttpAgent(server.url) as agent:
            await agent.run_agent("a")
            assert (await anyio.to_thread.run_sync(agent.run_agent_sync, "b")).text == "Hi"
            assert (await agent.run_agent("c")).text == "Hi"


@pytest.mark.anyio
async def test_leaving_a_clones_block_leaves_the_originals_connections() -> None:
    gate = Gate()
    with serve(ScriptedAgent(turn(text("a"), gate, text("b")))) as server:
        async with HttpAgent(server.url) as agent, agent.stream("Hi") as run:
            await anext(aiter(run))
            async with agent.clone():
                pass
            gate.open()
            assert (await run.result()).text == "b"


@pytest.mark.anyio
async def test_a_subclass_that_wraps_run_still_closes_its_connection() -> None:
    class Wrapping(HttpAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
            async for event in super().run(input):
                yield event

    with serve_bytes(Reply([sse(turn(text("a")))[:-40]], end="stall")) as server:
        async with Wrapping(server.url).stream("Hi") as run:
            await anext(aiter(run))
            assert run.partial.response is not None
        await until(server.disconnected.is_set, 1)


@pytest.mark.parametrize("options", [{"forwarded_props": {1}}, {"headers": {"X": "\n"}}], ids=["input", "headers"])
def test_a_prompt_that_was_not_sent_does_not_stay(options: dict[str, Any]) -> None:
    with serve(ScriptedAgent(turn(text("Hi")))) as server:
        agent = HttpAgent(server.url)
        with pytest.raises(UsageError):
            agent.run_agent_sync("Hello", **options)
        assert agent.messages == []
        assert agent.run_agent_sync("Hello").text == "Hi"


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-7")
async def test_a_failure_that_was_seen_is_not_hidden_by_a_cancel() -> None:
    agent = ScriptedAgent(turn(RunErrorEvent(message="over"), pause(30)))
    async with agent.stream("Hi") as run:
        async for event in run:
            if isinstance(event, RunErrorEvent):
                run.cancel()
                break
        with pytest.raises(RunFailedError):
            await run.result()


def pickled(error: Any) -> Any:
    return pickle.loads(pickle.dumps(error))


COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickled]


@pytest.mark.parametrize("copied", COPIES)
def test_an_error_can_be_copied_and_pickled(copied: Callable[[Any], Any]) -> None:
    with serve_bytes(Reply([b"no"], status=500)) as server, pytest.raises(HTTPStatusError) as refused:
        HttpAgent(server.url).run_agent_sync("Hi")
    with pytest.raises(RunFailedError) as failed:
        ScriptedAgent(turn(RunErrorEvent(message="over", code="busy"))).run_agent_sync("Hi")
    for error in (refused.value, failed.value):
        twin = copied(error)
        assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))


def test_what_a_generator_raises_while_it_is_closed_does_not_hide_the_failure() -> None:
    told: list[str] = []

    async def agent(input: RunAgentInput) -> AsyncIterator[Event]:
        try:
            yield started(input)
            yield TextMessageContentEvent(message_id="m", delta="orphan")
        finally:
            raise ValueError("in finally")

    class Listening(Subscriber):
        def on_run_failed(self, error: Exception, context: HookContext) -> None:
            told.append(type(error).__name__)
            raise KeyError("in the hook")

        def on_run_finalized(self, context: HookContext) -> None:
            told.append("finalized")

    listened = FunctionAgent(agent)
    listened.subscribe(Listening())
    with pytest.raises(EventOrderError):
        listened.run_agent_sync("Hi")
    assert told == ["EventOrderError", "finalized"]


@pytest.mark.anyio
async def test_a_mutation_that_is_none_leaves_the_conversation_whole() -> None:
    class Broken(Subscriber):
        def on_run_finished_event(self, event: RunFinishedEvent, context: HookContext) -> Mutation:
            messages: Any = [{"role": "user"}]
            return Mutation(messages=messages)

    agent = ScriptedAgent(turn(text("a")))
    agent.subscribe(Broken())
    with pytest.raises(UsageError, match="a message is one of"):
        await agent.run_agent("Hi")
    assert [message.role for message in agent.messages] == ["user", "assistant"]


@pytest.mark.anyio
async def test_a_refusal_whose_body_stalls_can_be_aborted() -> None:
    with serve_bytes(Reply([b"no"], status=500, end="stall")) as server:
        agent = HttpAgent(server.url)
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks, agent.stream("Hi") as run:

                async def abort() -> None:
                    await until(lambda: run.partial.response is not None)
                    agent.abort_run()

                tasks.start_soon(abort)
                result = await run.result()
                assert result.response is not None
                assert (result.aborted, result.response.status_code) == (True, 500)
        assert server.disconnected.wait(LIMIT)


@pytest.mark.parametrize(
    "call",
    [
        lambda: HttpAgent("http://host:99999/"),
        lambda: HttpAgent("http://host/", auth="s3cr3t"),  # type: ignore[arg-type] # what a caller may do
        lambda: HttpAgent("http://host/", timeout=-1),
        lambda: FunctionAgent("echo"),  # type: ignore[arg-type] # what a caller may do
    ],
)
def test_what_cannot_work_is_refused_at_once(call: Any) -> None:
    with pytest.raises(AGUIError) as refused:
        call()
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    ("base", "name", "nearest"),
    [
        (Subscriber, "on_text_mesage_content_event", "on_text_message_content_event"),
        (RunObserver, "on_evnt", "on_event"),
        (RunObserver, "on_tool_executed", "on_tool_execution"),
        (RunKeeper, "on_call_ended", "on_call_end"),
    ],
)
def test_a_misspelled_hook_is_refused_by_name_with_the_nearest(base: type, name: str, nearest: str) -> None:
    with pytest.raises(TypeError, match=f"Mine.{name} is not a hook; did you mean {nearest}\\?"):
        type("Mine", (base,), {name: print})


def test_a_class_of_hooks_may_override_what_another_base_has() -> None:
    class Window:
        def on_close(self) -> None: ...

    class Closing(Window, RunObserver):
        def on_close(self) -> None: ...
        def once(self) -> None: ...

    ScriptedAgent(turn()).add_observer(Closing())


def test_what_the_caller_edits_during_a_sync_run_is_in_its_result() -> None:
    agent = ScriptedAgent(turn(state({"a": 1}), text("a")))
    with agent.stream_sync("Hi") as run:
        for event in run:
            if isinstance(event, StateSnapshotEvent):
                agent.set_state({"mine": 1})
        result = run.result()
    assert (result.state, run.state, agent.state) == ({"mine": 1}, {"mine": 1}, {"mine": 1})
    agent.run_agent_sync("And?")
    assert run.messages == result.messages


@pytest.mark.anyio
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_origin_is_reported_and_not_followed(status: int) -> None:
    elsewhere = {"Location": "http://elsewhere.test/agent?token=s3cr3t"}
    with serve_bytes(Reply([b""], status=status, headers=elsewhere)) as server:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            with pytest.raises(
                HTTPStatusError, match=r"points to http://elsewhere\.test/agent, another origin"
            ) as refused:
                await HttpAgent(server.url, http_client=client).run_agent("Hi")
    assert (refused.value.status_code, len(server.requests)) == (status, 1)
    assert "s3cr3t" not in repr(vars(refused.value))


def test_an_observer_that_fails_does_not_break_the_runs_it_watches(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(turn(state({"n": 1}), state({"n": 2})))
    seen: list[Any] = []

    def look(value: Any) -> None:
        seen.append(value)
        if value:
            raise ValueError("cannot draw this")

    agent.observe_state().subscribe(look)
    assert agent.run_agent_sync("Hi").state == {"n": 2}
    assert seen == [{}, {"n": 1}]
    assert [each.name for each in caplog.records if "is not called any more" in each.message] == ["agui_client"]


def test_warnings_can_be_looked_at_while_a_sync_run_is_going_on() -> None:
    agent = ScriptedAgent(turn(*({"type": f"FUTURE_{number}"} for number in range(50))))
    with agent.stream_sync("Hi") as run:
        counts = [len(run.warnings) for _ in run]
    assert counts[-1] == 50
