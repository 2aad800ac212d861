"""Leaving a run at odd moments: before it began, while it waits for the response, after its end (LIFE-11)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import closing, contextmanager, suppress

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput, RunStartedEvent

from agui_client import AbstractAgent, AgentRun, FunctionAgent, HookContext, HttpAgent, Subscriber, UsageError
from agui_client.testing import Reply, serve_bytes, sse, text, turn
from agui_client.types import Next
from support.leaks import nothing_left_behind
from support.waiting import LIMIT, SOON, start_thread, until

pytestmark = pytest.mark.both_loops

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""


async def read_two_words(run: AgentRun) -> None:
    for _ in range(4):
        await anext(run)


async def wait_for_more(run: AgentRun) -> None:
    async for _ in run:
        pass
    raise AssertionError("the stream has no end")


class SilentServer:
    """A server that does not even send a status line.

    Args:
        listener: Where it accepts one connection.
        hears_all: Whether it reads the request at once; otherwise it stops after the first bytes of it.
    """

    def __init__(self, listener: socket.socket, *, hears_all: bool) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        self.asked = threading.Event()
        """Set when it has heard what it wanted to hear."""
        self.may_go_on = threading.Event()
        """Lets it read the rest."""
        self.gone = threading.Event()
        """Set when the client has closed the connection."""
        self._listener = listener
        self._hears_all = hears_all

    def listen(self) -> None:
        """Read one request to the end of its connection."""
        connection, _ = self._listener.accept()
        with connection, suppress(ConnectionResetError):
            connection.settimeout(LIMIT)
            while piece := connection.recv(65536):
                if not self._hears_all:
                    self.asked.set()
                    self.may_go_on.wait(LIMIT)
                elif piece.endswith(b"}"):
                    self.asked.set()
        self.gone.set()


@contextmanager
def silent_server(*, hears_all: bool = True) -> Generator[SilentServer]:
    """A silent server in a thread."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(LIMIT)
        server = SilentServer(listener, hears_all=hears_all)
        join = start_thread(server.listen)
        try:
            yield server
        finally:
            server.may_go_on.set()
            join(LIMIT)


@pytest.mark.anyio
async def test_nothing_is_sent_when_the_block_is_left_before_the_first_event_is_asked_for() -> None:
    with serve_bytes(FRAMES) as server:
        async with nothing_left_behind(), HttpAgent(server.url).stream("Hi"):
            pass
        assert server.requests == []


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
async def test_a_run_cancelled_before_its_first_event_sends_nothing_and_is_aborted() -> None:
    with serve_bytes(FRAMES) as server:
        agent = HttpAgent(server.url)
        async with nothing_left_behind(), agent.stream("Hi") as run:
            run.cancel()
            assert [event async for event in run] == []
            result = await run.result()
        assert (result.aborted, result.outcome, result.text) == (True, None, "")
        assert server.requests == []


class AbortedInRun(AbstractAgent):
    """Its run is aborted by the function that makes its events."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
        """Abort, then say something all the same."""
        self.abort_run()
        return self._events(input)

    async def _events(self, input: RunAgentInput) -> AsyncIterator[Event]:
        self.given.append("RUN_STARTED")
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
async def test_a_run_aborted_while_its_agent_makes_it_gives_no_events() -> None:
    agent = AbortedInRun()
    async with nothing_left_behind(), agent.stream("Hi") as run:
        assert [event async for event in run] == []
        result = await run.result()
    assert (result.aborted, result.outcome, agent.given) == (True, None, [])


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
async def test_a_run_aborted_while_its_middleware_is_set_up_sends_nothing() -> None:
    def aborting(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        agent.abort_run()
        return following(input)

    with serve_bytes(FRAMES) as server:
        agent = HttpAgent(server.url, middleware=[aborting])
        async with nothing_left_behind():
            result = await agent.run_agent("Hi")
        assert (result.aborted, result.outcome, result.text) == (True, None, "")
        assert server.requests == []


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
async def test_a_run_aborted_by_the_first_hook_is_not_even_made() -> None:
    asked: list[RunAgentInput] = []

    class Aborting(Subscriber):
        def on_run_initialized(self, context: HookContext) -> None:
            agent.abort_run()

    def answer(input: RunAgentInput) -> AsyncIterator[Event]:
        asked.append(input)
        raise AssertionError

    agent = FunctionAgent(answer)
    agent.subscribe(Aborting())
    async with nothing_left_behind():
        result = await agent.run_agent("Hi")
    assert (result.aborted, result.outcome, asked) == (True, None, [])


class Clumsy(AbstractAgent):
    """Falls over when it is closed."""

    async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
        """Begin, and never end."""
        try:
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            await anyio.sleep_forever()
        finally:
            raise OSError("the disk is full")


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize("reason", [None, LookupError("not what I asked for")], ids=["no reason", "a reason"])
async def test_what_fails_while_a_run_is_left_is_logged_and_hides_nothing(
    reason: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Clumsy()
    raised: Exception | None = None
    try:
        async with nothing_left_behind(), agent.stream("Hi", run_id="run-1") as run:
            await anext(run)
            if reason is not None:
                raise reason
    except LookupError as error:
        raised = error
    assert raised is reason
    (record,) = (each for each in caplog.records if each.levelname == "ERROR")
    assert record.getMessage() == "while run run-1 was left: the disk is full"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], OSError)
    assert not agent.is_running


@pytest.mark.anyio
async def test_a_run_can_be_left_while_it_waits_for_the_response() -> None:
    with silent_server() as server:

        async def run() -> None:
            await HttpAgent(server.url).run_agent("Hi")

        async with nothing_left_behind():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await until(server.asked.is_set)
                tasks.cancel_scope.cancel()
            await until(server.gone.is_set, SOON)


@pytest.mark.anyio
async def test_a_run_can_be_aborted_while_it_waits_for_the_response() -> None:
    with silent_server() as server:
        agent = HttpAgent(server.url)

        async def abort() -> None:
            await until(server.asked.is_set)
            agent.abort_run()

        async with nothing_left_behind():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(abort)
                result = await agent.run_agent("Hi")
                assert (result.aborted, result.response) == (True, None)
            await until(server.gone.is_set, SOON)


@pytest.mark.anyio
async def test_a_run_can_be_left_while_it_is_still_being_sent() -> None:
    with silent_server(hears_all=False) as server:
        agent = HttpAgent(server.url)

        async def abort() -> None:
            await until(server.asked.is_set)
            agent.abort_run()

        async with nothing_left_behind():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(abort)
                result = await agent.run_agent("Hi", forwarded_props={"large": "x" * 10_000_000})
                assert (result.aborted, result.response) == (True, None)
            server.may_go_on.set()
            await until(server.gone.is_set, SOON)


@pytest.mark.anyio
async def test_cancelling_twice_and_after_the_end_does_nothing() -> None:
    with serve_bytes(FRAMES) as server:
        agent = HttpAgent(server.url)
        async with agent.stream("Hi") as run:
            result = await run.result()
            run.cancel()
            run.cancel()
            assert await run.result() is result
        run.cancel()
        agent.abort_run()
        assert not result.aborted


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
async def test_a_result_after_an_early_end_of_the_block_is_an_error_and_partial_is_kept() -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        async with HttpAgent(server.url).stream("Hi") as run:
            await read_two_words(run)
        with pytest.raises(
            UsageError, match=r"left before the run ended; .*call run\.cancel\(\) inside the block"
        ) as caught:
            await run.result()
        assert caught.value.partial is not None
        assert (caught.value.partial.text, caught.value.run_id) == ("One two", run.run_id)
        assert run.partial.text == "One two"
        assert (run.partial.aborted, run.partial.outcome) == (True, None)


@pytest.mark.anyio
async def test_a_cancellation_from_outside_never_looks_like_a_finished_run() -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        async with HttpAgent(server.url).stream("Hi") as run:
            await read_two_words(run)
            with anyio.move_on_after(0.01):
                await wait_for_more(run)
        assert (run.partial.aborted, run.partial.outcome) == (True, None)


@pytest.mark.anyio
async def test_leaving_after_the_terminal_event_is_no_abort() -> None:
    with serve_bytes(Reply([FRAMES], end="stall")) as server:
        agent = HttpAgent(server.url)
        async with nothing_left_behind(), agent.stream("Hi") as run:
            async for event in run:
                if event.type == "RUN_FINISHED":
                    break
        assert not run.partial.aborted
        assert run.partial.outcome is not None


@pytest.mark.anyio
async def test_a_finished_run_leaves_nothing_behind() -> None:
    with serve_bytes(FRAMES) as server:
        async with nothing_left_behind():
            await HttpAgent(server.url).run_agent("Hi")
        assert not server.disconnected.is_set()


# --- asyncio's own ways


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_cancelled_task_ends_as_cancelled() -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        agent = HttpAgent(server.url)
        async with nothing_left_behind():
            task = asyncio.create_task(agent.run_agent("Hi"))
            await until(lambda: len(agent.messages) == 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            await until(server.disconnected.is_set, SOON)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_wait_for_and_timeout_work() -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        async with nothing_left_behind():
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(HttpAgent(server.url).run_agent("Hi"), 0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), HttpAgent(server.url).stream("Hi") as run:
                    await wait_for_more(run)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_task_cancelled_before_it_ever_ran_leaves_nothing_behind() -> None:
    with serve_bytes(FRAMES) as server:
        agent = HttpAgent(server.url)
        async with nothing_left_behind():
            task = asyncio.create_task(agent.run_agent("Hi"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not agent.is_running
        assert server.requests == []
