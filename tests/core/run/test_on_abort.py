"""`on_abort` hears once of every run that is left while its agent may be at work, and of no other."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import httpx
import pytest
import trio.testing
from ag_ui.core import RunStartedEvent

from agui_client import (
    AgentRun,
    AGUIError,
    EventOrderError,
    FirstEventTimeoutError,
    HookContext,
    HttpAgent,
    IdleTimeoutError,
    IncompleteRunError,
    RetryPolicy,
    RunTimeoutError,
    Subscriber,
    Timeouts,
    UsageError,
)
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    events_of,
    faults,
    serve_bytes,
    sse,
    text,
    turn,
)
from support.bodies import URL, memory_agent, refused
from support.leaks import nothing_left_behind, nothing_left_behind_sync
from support.programs import DEV, Program
from support.verbs import Verb, every_result_verb
from support.waiting import LIMIT, in_thread, start_thread, until, until_sync
from support.watching import Watcher

pytestmark = pytest.mark.both_loops

FRAMES = sse(turn(text("One two", message_id="message-1")))
BEGUN = b"".join(events_of(FRAMES)[:4])
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""
STALLING = Reply([BEGUN], end="stall")
VIRTUAL = ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})
"""A clock that jumps whenever everybody waits."""


async def read_two_words(run: AgentRun) -> None:
    for _ in range(4):
        await anext(run)


# --- who hears of it


class Heard:
    """Notes what `on_abort` is told, and in which thread."""

    def __init__(self) -> None:
        self.contexts: list[HookContext] = []
        self.threads: list[int] = []

    async def __call__(self, context: HookContext) -> None:
        await anyio.lowlevel.checkpoint()
        self.contexts.append(context)

    def told_soon(self, context: HookContext) -> Awaitable[None]:
        return self.told_later(context)

    async def told_later(self, context: HookContext) -> None:
        self.told(context)

    def told(self, context: HookContext) -> None:
        self.contexts.append(context)
        self.threads.append(threading.get_ident())


class OwnError(Exception):
    """The application's own."""


Leave: TypeAlias = Callable[[HttpAgent], Awaitable[None]]


async def run_cancelled(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        run.cancel()
        run.cancel()
        agent.abort_run()
        assert (await run.result()).aborted


async def broken_off(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        async for _ in run.text_stream:
            break


async def left_by_an_exception(agent: HttpAgent) -> None:
    async def fail() -> None:
        async with agent.stream("Hi") as run:
            await read_two_words(run)
            raise OwnError

    with pytest.raises(OwnError):
        await fail()


async def timed_out(agent: HttpAgent) -> None:
    with anyio.CancelScope() as scope:

        @agent.on(RunStartedEvent)
        def begin_to_count(_: RunStartedEvent) -> None:
            scope.deadline = anyio.current_time() + 0.05

        await agent.run_agent("Hi")
    assert scope.cancelled_caught


async def timed_out_inside(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        await anext(run)
        with anyio.move_on_after(0.05) as scope:
            await run.result()
        assert scope.cancelled_caught


async def timed_out_inside_and_asked_again(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        await anext(run)
        with anyio.move_on_after(0.05):
            await run.result()
        with pytest.raises(IncompleteRunError):
            await run.result()


async def task_cancelled(agent: HttpAgent) -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return await timed_out(agent)
    task = asyncio.create_task(agent.run_agent("Hi"))
    await until(lambda: len(agent.messages) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return None


LEAVES: list[Leave] = [
    run_cancelled,
    broken_off,
    left_by_an_exception,
    timed_out,
    timed_out_inside,
    timed_out_inside_and_asked_again,
    task_cancelled,
]


@pytest.mark.anyio
@pytest.mark.parametrize("leave", LEAVES, ids=lambda leave: leave.__name__)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_on_abort_hears_once_of_every_way_to_leave(leave: Leave, is_async: bool) -> None:
    heard = Heard()
    with serve_bytes(STALLING) as server:
        agent = HttpAgent(server.url, on_abort=heard.told_later if is_async else heard.told)
        async with nothing_left_behind():
            await leave(agent)
        asked = server.requests[0].json()
    (context,) = heard.contexts
    assert (context.thread_id, context.run_id) == (asked["threadId"], asked["runId"])
    assert context.messages == agent.messages
    assert [each == threading.get_ident() for each in heard.threads] == [is_async]


def sync_cancelled(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        next(run)
        run.cancel()
        assert run.result().aborted


def sync_broken_off(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        for _ in run:
            break


def sync_interrupted(agent: HttpAgent) -> None:
    def interrupt() -> None:
        with agent.stream_sync("Hi") as run:
            next(run)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()


def observed_and_aborted(agent: HttpAgent) -> None:
    watcher = Watcher()
    watcher.watch(agent.observe("Hi"))
    until_sync(lambda: watcher.values)
    agent.abort_run()
    assert watcher.over.wait(LIMIT)


def disposed_in_a_loop(agent: HttpAgent) -> None:
    async def main() -> None:
        watcher = Watcher()
        subscription = watcher.watch(agent.observe("Hi"))
        await until(lambda: watcher.values)
        subscription.dispose()
        await until(lambda: not agent.is_running)

    anyio.run(main)


@pytest.mark.parametrize(
    "leave",
    [sync_cancelled, sync_broken_off, sync_interrupted, observed_and_aborted, disposed_in_a_loop],
    ids=lambda leave: leave.__name__,
)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_on_abort_hears_once_of_every_way_to_leave_without_await(
    leave: Callable[[HttpAgent], None], is_async: bool
) -> None:
    heard = Heard()
    with serve_bytes(STALLING) as server:
        agent = HttpAgent(server.url, on_abort=heard.told_later if is_async else heard.told)
        with nothing_left_behind_sync():
            in_thread(lambda: leave(agent))
            until_sync(lambda: heard.contexts)
            until_sync(lambda: "agui_client.observe" not in {each.name for each in threading.enumerate()})
        assert [context.run_id for context in heard.contexts] == [server.requests[0].json()["runId"]]


PROGRAM = """
import sys
from agui_client import HttpAgent
from ag_ui.core import TextMessageContentEvent

def stop(context):
    print("told of", context.run_id, flush=True)

agent = HttpAgent(sys.argv[1], on_abort=stop)

@agent.on(TextMessageContentEvent)
def ready(event):
    print("ready", flush=True)
"""
RUNS = {
    "sync": "agent.run_agent_sync('Hi', run_id='run-7')",
    "trio": "import trio, functools; trio.run(functools.partial(agent.run_agent, 'Hi', run_id='run-7'))",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals to another process are POSIX's")
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_on_abort_hears_of_ctrl_c(run: str) -> None:
    with serve_bytes(STALLING) as server, Program("-c", PROGRAM + run, server.url, flags=DEV) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=LIMIT)
    assert (printed, process.returncode) == ("told of run-7\n", -signal.SIGINT)
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    assert "Warning" not in complaints


# --- who does not


async def never_iterated(agent: HttpAgent) -> None:
    async with agent.stream("Hi"):
        pass


async def cancelled_before_the_first_event(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        run.cancel()
        assert (await run.result()).aborted


async def left_after_the_last_event(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        async for event in run:
            if event.type.value in ("RUN_FINISHED", "RUN_ERROR"):
                break


async def failing(agent: HttpAgent) -> None:
    with pytest.raises(AGUIError):
        await agent.run_agent("Hi")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("leave", "reply"),
    [
        (never_iterated, STALLING),
        (cancelled_before_the_first_event, STALLING),
        (left_after_the_last_event, Reply([FRAMES], end="stall")),
        (left_after_the_last_event, Reply([sse(turn({"type": "RUN_ERROR", "message": "no"}))], end="stall")),
        (failing, faults.late_error(FRAMES)),
        (failing, faults.reset(FRAMES, events=3)),
        (failing, faults.ended(FRAMES, events=3)),
        (failing, faults.html_page()),
        (failing, faults.redirect("/elsewhere", status=303)),
    ],
)
async def test_on_abort_does_not_hear_of_what_was_not_begun_or_is_over(leave: Leave, reply: Reply) -> None:
    heard = Heard()
    with serve_bytes(reply) as server:
        await leave(HttpAgent(server.url, on_abort=heard))
    assert heard.contexts == []


@pytest.mark.anyio
async def test_on_abort_does_not_hear_of_an_input_that_cannot_be_sent() -> None:
    heard = Heard()
    with serve_bytes(STALLING) as server:
        with pytest.raises(UsageError):
            await HttpAgent(server.url, on_abort=heard).run_agent("Hi", forwarded_props={1})
        with pytest.raises(UsageError):
            await HttpAgent(server.url, on_abort=heard, headers={"X": "\n"}).run_agent("Hi")
    assert (heard.contexts, server.requests) == ([], [])


def refusing(request: httpx.Request) -> httpx.Response:
    raise refused()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL])
async def test_on_abort_does_not_hear_of_a_run_that_waits_to_be_sent() -> None:
    heard = Heard()
    client = httpx.AsyncClient(transport=httpx.MockTransport(refusing))
    agent = HttpAgent(URL, http_client=client, on_abort=heard, retry=RetryPolicy(connect=9, first_wait=60))
    with anyio.move_on_after(10) as scope:
        await agent.run_agent("Hi")
    assert (scope.cancelled_caught, heard.contexts) == (True, [])


@pytest.mark.anyio
@pytest.mark.parametrize("is_failing", [True, False], ids=["failing", "aborted"])
async def test_on_abort_does_not_hear_of_a_run_that_never_had_its_headers(is_failing: bool) -> None:
    heard = Heard()

    async def headers() -> dict[str, str]:
        if is_failing:
            raise OwnError
        agent.abort_run()
        await anyio.sleep_forever()
        raise AssertionError

    agent = HttpAgent(URL, on_abort=heard, headers=headers)
    if is_failing:
        with pytest.raises(OwnError):
            await agent.run_agent("Hi")
    else:
        assert (await agent.run_agent("Hi")).aborted
    assert heard.contexts == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("limits", "reply", "error"),
    [
        (Timeouts(idle=0.05), STALLING, IdleTimeoutError),
        (Timeouts(total=0.1), STALLING, RunTimeoutError),
        (Timeouts(first_event=0.05), faults.unanswered(end="stall"), FirstEventTimeoutError),
    ],
    ids=["idle", "total", "first event"],
)
async def test_on_abort_hears_of_a_run_that_takes_too_long(
    limits: Timeouts, reply: Reply, error: type[AGUIError]
) -> None:
    heard = Heard()
    with serve_bytes(reply) as server, pytest.raises(error):
        await HttpAgent(server.url, on_abort=heard.told_later, timeout=limits).run_agent("Hi")
    assert len(heard.contexts) == 1


@pytest.mark.anyio
async def test_on_abort_hears_of_a_run_that_this_side_gives_up() -> None:
    heard = Heard()
    orphan = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "nobody", "delta": "?"}
    with serve_bytes(Reply([sse(turn(orphan))], end="stall")) as server, pytest.raises(EventOrderError):
        await HttpAgent(server.url, on_abort=heard).run_agent("Hi")
    assert len(heard.contexts) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("is_object", [True, False], ids=["an object", "a plain function"])
async def test_on_abort_may_be_anything_that_returns_an_awaitable(is_object: bool) -> None:
    heard = Heard()
    with serve_bytes(STALLING) as server:
        await broken_off(HttpAgent(server.url, on_abort=heard if is_object else heard.told_soon))
    assert len(heard.contexts) == 1


@pytest.mark.anyio
async def test_on_abort_is_for_agents_in_this_process_too() -> None:
    heard = Heard()
    async with ScriptedAgent(turn(text("One two")), on_abort=heard).stream("Hi") as run:
        await anext(run)
    assert len(heard.contexts) == 1


# --- when it does not do well


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL])
async def test_an_on_abort_that_hangs_is_given_up_after_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def hang(context: HookContext) -> None:
        await anyio.sleep_forever()

    started = anyio.current_time()
    async with memory_agent(BEGUN, anyio.sleep_forever, on_abort=hang).stream("Hi", run_id="run-1") as run:
        await anext(run)
    assert anyio.current_time() - started == pytest.approx(5)
    (record,) = [record for record in caplog.records if record.name == "agui_client.run"]
    assert (record.levelname, record.getMessage()) == (
        "WARNING",
        "on_abort of run run-1 took longer than 5 s, and was given up",
    )


@pytest.mark.anyio
async def test_an_on_abort_that_hangs_in_its_thread_is_left_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agui_client._core.run.ending._ABORT_SECONDS", 0.05)
    may_end, ended = threading.Event(), threading.Event()

    def hang(context: HookContext) -> None:
        # Only such a thread does not keep a program from ending.
        assert threading.current_thread().daemon
        may_end.wait(LIMIT)
        ended.set()

    with anyio.fail_after(LIMIT), serve_bytes(STALLING) as server:
        await broken_off(HttpAgent(server.url, on_abort=hang))
        assert not ended.is_set()
        may_end.set()
        await until(ended.is_set)
    assert "took longer than 0.05 s, and was given up" in caplog.text


@every_result_verb
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_an_on_abort_that_fails_is_logged_with_its_traceback_and_changes_nothing(
    verb: Verb, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: HookContext) -> None:
        raise OwnError("no such endpoint")

    async def fail_later(context: HookContext) -> None:
        fail(context)

    with serve_bytes(STALLING) as server:
        agent = HttpAgent(server.url, on_abort=fail_later if is_async else fail)

        def abort() -> None:
            until_sync(lambda: server.requests)
            agent.abort_run()

        join = start_thread(abort)
        result = verb(agent, "Hi", run_id="run-1").result
        join(LIMIT)
    assert result is not None
    assert result.aborted
    (record,) = [record for record in caplog.records if record.name == "agui_client.run" and record.exc_info]
    assert (record.levelname, record.getMessage()) == ("ERROR", "on_abort of run run-1 failed")
    assert record.exc_info is not None
    assert record.exc_info[0] is OwnError


@pytest.mark.anyio
@pytest.mark.parametrize("has_on_abort", [True, False])
async def test_hooks_of_a_thread_that_is_told_again_hear_of_the_run_that_was_asked_for(has_on_abort: bool) -> None:
    heard: list[str] = []
    aborted: list[str] = []

    class Watch(Subscriber):
        def on_run_finalized(self, context: HookContext) -> None:
            """Take note."""
            heard.append(context.run_id)

    def note(context: HookContext) -> None:
        aborted.append(context.run_id)

    with serve_bytes(sse(turn(text("One two three."), run_id="told"))) as server:
        agent = HttpAgent(server.url, connect_url="connect", on_abort=note if has_on_abort else None)
        agent.subscribe(Watch())
        async with agent.stream_connect() as run:
            await anext(run)
    assert (heard, aborted) == ([run.run_id], ["told"] if has_on_abort else [])
