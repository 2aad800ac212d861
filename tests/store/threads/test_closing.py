"""`Threads` that are closed while blocks are open: the blocks are saved and left, and nothing goes on in them."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from ag_ui.core import RunAgentInput, TextMessageContentEvent

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from ag_ui.core import Event

from agui_client import ThreadStoreError, UnrecognizedEvent, UsageError, tool
from agui_client.store import MemoryStore, Store, Threads
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.waiting import LIMIT, in_thread, until

pytestmark = pytest.mark.anyio

HELLO = ScriptedAgent(turn(text("Hello.")))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/threads.db"


@pytest.fixture
def others(url: str) -> Iterator[Threads]:
    """The same threads, as another program sees them."""
    with Store(url) as store:
        yield store.threads


async def test_open_blocks_are_saved_and_left_when_their_threads_are_closed(url: str, others: Threads) -> None:
    store = Store(url)
    threads = store.threads
    async with threads.open("t", HELLO) as agent, threads.open("u", HELLO) as second:
        await agent.run_agent("Hi")
        agent.state = {"by": "hand"}
        second.add_message({"role": "user", "content": "By hand"})
        await store.aclose()
        async with others.open("t", HELLO, wait=0) as theirs:
            assert ([each.role for each in theirs.messages], theirs.state) == (["user", "assistant"], {"by": "hand"})
        inputs = len(agent.inputs)
        closed = "the store was closed, so nothing more of thread 't' is saved; make another Store()"
        with pytest.raises(UsageError, match=f"^{re.escape(closed)}$"):
            await agent.run_agent("And?")
        assert len(agent.inputs) == inputs
        await store.aclose()
    counts = {each.thread_id: each.message_count for each in await others.list()}
    assert counts == {"t": 2, "u": 1}


def test_blocks_without_await_are_closed_once_by_several_threads(url: str, others: Threads) -> None:
    with Store(url) as store:
        threads = store.threads
        blocks = [threads.open(str(number), HELLO) for number in range(4)]
        for block in blocks:
            block.__enter__().run_agent_sync("Hi")
        with ThreadPoolExecutor() as pool:
            for close in [pool.submit(store.close) for _ in range(4)]:
                close.result(LIMIT)
        for block in blocks:
            with others.open(block.thread_id, HELLO, wait=0) as theirs:
                assert len(theirs.messages) == 2
            block.__exit__(None, None, None)


async def test_a_run_in_the_middle_is_saved_as_cut_off_and_fails_with_its_next_save(url: str, others: Threads) -> None:
    store, calls = Store(url), list[str]()
    threads = store.threads

    @tool
    async def pay() -> str:
        """Pays."""
        calls.append("pay")
        return "paid"

    script = [turn(text("Some and more.", message_id="m"), tool_call("pay")), turn(text("Done."))]
    async with threads.open("t", ScriptedAgent(*script, tools=[pay])) as agent:

        async def close_in_the_middle() -> None:
            async with agent.stream("Hi") as run:
                async for event in run:
                    if isinstance(event, TextMessageContentEvent):
                        await store.aclose()

        with pytest.raises(UsageError, match="the store was closed"):
            await close_in_the_middle()
    assert (calls, len(agent.inputs)) == ([], 1)
    block = others.open("t", HELLO, wait=0)
    async with block as theirs:
        assert block.cut_off is not None
        assert block.cut_off.run_id == agent.inputs[0].run_id
        assert theirs.messages[0].content == "Hi"
        assert "Some and more.".startswith(str(theirs.messages[1].content))
        assert theirs.incomplete_ids == ["m"]


def test_a_run_of_another_thread_is_saved_as_cut_off_and_executes_nothing_more(url: str, others: Threads) -> None:
    store, calls = Store(url), list[str]()
    threads = store.threads

    @tool
    def pay() -> str:
        """Pays."""
        calls.append("pay")
        in_thread(store.close)
        return "paid"

    script = [turn(tool_call("pay", tool_call_id="c1")), turn(text("Done."))]
    with (
        threads.open("t", ScriptedAgent(*script, tools=[pay])) as agent,
        pytest.raises(UsageError, match="the store was closed"),
    ):
        agent.run_agent_sync("Pay")
    assert (calls, len(agent.inputs)) == (["pay"], 1)
    with others.open("t", HELLO, wait=0) as theirs:
        assert [each.id for each in theirs.unknown_tool_calls] == ["c1"]


async def test_a_replay_in_the_middle_leaves_the_thread_as_it_was(url: str, others: Threads) -> None:
    store = Store(url)
    threads = store.threads

    class Replaying(ScriptedAgent):
        def connect(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
            return self.run(input)

    async with threads.open("t", Replaying(turn(text("Hello.")))) as agent:
        await agent.run_agent("Hi")
        before = agent.messages
        async with agent.stream_connect() as run:
            await anext(run)
            await store.aclose()
    found = await others.get("t")
    assert found is not None
    assert found.conversation.messages == before


async def test_who_waits_for_a_thread_gets_an_error_at_once(url: str, others: Threads) -> None:
    store = Store(url)
    threads = store.threads
    async with others.open("t", HELLO), anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(UsageError, match="the store was closed"):
                async with threads.open("t", HELLO, wait=10 * LIMIT):
                    raise AssertionError

        tasks.start_soon(wait)
        await until(lambda: threads._loop._tasks)
        with anyio.fail_after(LIMIT):
            await store.aclose()


class _Failing(MemoryStore):
    fails = False

    async def append(self, *args: object, **options: object) -> bool:
        if self.fails:
            raise ThreadStoreError("the disk is full")
        return await super().append(*args, **options)  # type: ignore[arg-type]


async def test_a_thread_that_cannot_be_saved_is_named_and_left_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    failing = _Failing()
    store = Store(failing)
    threads = store.threads
    async with threads.open("t", HELLO) as agent, threads.open("u", HELLO) as other:
        await agent.run_agent("Hi")
        await other.run_agent("Hi")
        agent.state = {"n": 1}
        failing.fails = True
        with pytest.raises(ThreadStoreError, match="the disk is full"):
            await store.aclose()
        await store.aclose()
    assert "thread 't' was not saved when its threads were closed: the disk is full" in caplog.text
    assert "thread 'u'" not in caplog.text
    async with Store(failing) as later, later.threads.open("t", HELLO, wait=0) as left:
        assert left.state == {}


def test_blocks_that_are_opened_while_threads_are_closed_keep_no_lease() -> None:
    memory, stop = MemoryStore(), threading.Event()
    with Store(memory) as store, ThreadPoolExecutor() as pool:
        threads = store.threads

        def open_blocks(name: str) -> None:
            while not stop.is_set():
                try:
                    with threads.open(name, HELLO, wait=0):
                        pass
                except UsageError:
                    return

        opening = [pool.submit(open_blocks, str(number)) for number in range(4)]
        store.close()
        stop.set()
        for each in opening:
            each.result(LIMIT)
    assert memory._threads == {}
