"""Threads: conversations go on in another program, with everything that was pending, for every kind of program."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    AssistantMessage,
    Message,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    UserMessage,
)

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from agui_client import (
    Approve,
    ConnectError,
    ConversationSnapshot,
    HttpAgent,
    HTTPStatusError,
    Resolve,
    RunFailedError,
    ThreadBusyError,
    ThreadStoreError,
    UsageError,
    tool,
)
from agui_client._core.conversation import log
from agui_client._core.conversation.log import Members, empty_members, entry_of
from agui_client._core.run import engine, saving
from agui_client._core.run.subagents import JOURNAL
from agui_client.store import MemoryStore, SavedThread, Store, ThreadInfo, Threads
from agui_client.store._threads import opened as opened_threads
from agui_client.store._threads.entries import call_of
from agui_client.testing import ScriptedAgent, Step, faults, interrupt, serve_bytes, sse, state, text, tool_call, turn
from support.killed_threads import left_by_a_killed_program
from support.postgres import PostgresServer
from support.programs import STRICT, run_program
from support.waiting import LIMIT

pytestmark = pytest.mark.anyio
NewThreads = Callable[..., Threads]


_ON_POSTGRESQL = pytest.param(
    "asyncio-postgresql",
    marks=pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it"),
)
on_both = pytest.mark.parametrize("place", ["asyncio-sqlite", "trio-memory", _ON_POSTGRESQL], indirect=True)
"""Run a test on both event loops and all stores: those of the program and of the store know nothing of each other."""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    chosen: str = getattr(request, "param", "asyncio-sqlite")
    return chosen


@pytest.fixture
def anyio_backend(place: str) -> str:
    return place.partition("-")[0]


@pytest.fixture
def new_threads(request: pytest.FixtureRequest, place: str, tmp_path: Path) -> Iterator[NewThreads]:
    """Makes threads in one place, as several programs would."""
    made: list[Store] = []
    shared, url = MemoryStore(), f"sqlite:///{tmp_path}/threads.db"
    if "postgresql" in place:
        server: PostgresServer = request.getfixturevalue("postgresql")
        url = f"postgresql://{server.new_database()}"

    def make(**options: Any) -> Threads:
        made.append(Store(shared if "memory" in place else url, **options))
        return made[-1].threads

    yield make
    for each in made:
        each.close()


def roles(messages: Sequence[Message]) -> list[str]:
    return [each.role for each in messages]


async def saved(threads: Threads, thread_id: str = "t", owner: str = "") -> SavedThread:
    found = await threads.get(thread_id, owner=owner)
    assert found is not None
    return found


@on_both
def test_a_thread_goes_on_in_another_program_without_await(new_threads: NewThreads) -> None:
    agent = ScriptedAgent(turn(text("Hello."), state({"n": 1}), outcome=interrupt("Proceed?", interrupt_id="i")))
    with new_threads().open("t", agent, owner="ann") as first:
        assert first.run_agent_sync("Hi").text == "Hello."
    with new_threads().open("t", ScriptedAgent(turn(text("Done."))), owner="ann") as again:
        assert (roles(again.messages), again.state) == (["user", "assistant"], {"n": 1})
        assert [each.id for each in again.pending_interrupts] == ["i"]
        assert again.run_agent_sync(resume={"i": Resolve("yes")}).text == "Done."
    (info,) = new_threads().list(owner="ann").result()
    assert (info.thread_id, info.title, info.message_count) == ("t", "Hi", 3)
    assert agent.messages == []


@on_both
async def test_a_thread_goes_on_in_another_program(new_threads: NewThreads) -> None:
    agent = ScriptedAgent(turn(text("One.")), turn(text("Two.")))
    async with new_threads().open("t", agent) as first:
        await first.run_agent("Hi")
        first.state = {"by": "hand"}
    async with new_threads().open("t", agent) as again:
        assert (again.thread_id, again.state) == ("t", {"by": "hand"})
        async with again.stream("And?") as run:
            assert [piece async for piece in run.text_stream] == ["Two."]
    assert roles((await saved(new_threads())).conversation.messages) == ["user", "assistant"] * 2


async def test_a_new_thread_begins_with_the_conversation_of_the_agent(new_threads: NewThreads) -> None:
    agent = ScriptedAgent(
        turn(text("Hello.")), initial_messages=[{"role": "system", "content": "Be brief."}], initial_state={"n": 1}
    )
    block = new_threads().open(None, agent)
    async with block as new:
        await new.run_agent("Hi")
    conversation = (await saved(new_threads(), block.thread_id)).conversation
    assert (roles(conversation.messages), conversation.state) == (["system", "user", "assistant"], {"n": 1})


@on_both
async def test_it_is_saved_before_a_run_is_sent_before_a_tool_is_called_and_after_it_answered(
    new_threads: NewThreads,
) -> None:
    seen: list[tuple[str, list[str], list[str], list[str]]] = []
    other, slow, quick = new_threads(), anyio.Event(), anyio.Event()

    async def look(where: str) -> None:
        found = (await saved(other)).conversation
        results = [str(each.content) for each in found.messages if each.role == "tool"]
        begun = sorted(each.tool_call_id for each in found.tool_calls if each.status in ("executing", "answered"))
        seen.append((where, roles(found.messages)[-1:], begun, results))

    @tool
    async def fast() -> str:
        """Answers at once."""
        await look("in fast")
        quick.set()
        return "quick"

    @tool
    async def lasting() -> str:
        """Answers after the other one was saved."""
        await quick.wait()
        await until_saved_result()
        await look("in lasting")
        slow.set()
        return "slow"

    async def until_saved_result() -> None:
        with anyio.fail_after(LIMIT):
            while not any(each.role == "tool" for each in (await saved(other)).conversation.messages):  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def first(input: RunAgentInput) -> AsyncIterator[Step]:
        await look("sent")
        yield turn(tool_call("fast", tool_call_id="c1"), tool_call("lasting", tool_call_id="c2"))

    async def second(input: RunAgentInput) -> AsyncIterator[Step]:
        await look("sent again")
        yield turn(text("Done."))

    async with new_threads().open("t", ScriptedAgent(first, second, tools=[fast, lasting])) as agent:
        await agent.run_agent("Hi")
    assert seen[0] == ("sent", ["user"], [], [])
    assert ("c1" in seen[1][2], seen[1][3]) == (True, [])
    assert seen[2][2:] == (["c1", "c2"], ["quick"])
    assert seen[3] == ("sent again", ["tool"], ["c1", "c2"], ["quick", "slow"])


@on_both
async def test_a_call_that_was_killed_in_the_middle_is_unknown_and_not_made_again(
    new_threads: NewThreads, caplog: pytest.LogCaptureFixture
) -> None:
    other, copies, calls = new_threads(), list[Threads](), list[str]()

    @tool
    async def pay() -> str:
        """Pays."""
        calls.append("pay")
        copies.append(await left_by_a_killed_program(other))
        return "paid"

    @tool(approval="always")
    async def book() -> str:
        """Books."""
        calls.append("book")
        return "booked"

    script = [turn(tool_call("pay", tool_call_id="c1"), tool_call("book", tool_call_id="c2")), turn(text("Done."))]
    async with new_threads().open("t", ScriptedAgent(*script, tools=[pay, book])) as agent:
        await agent.run_agent("Pay")
    producer = ScriptedAgent(turn(text("I see.")), tools=[pay, book])
    async with copies[0].open("t", producer) as agent:
        assert "tool 'pay' was stopped in call 'c1'; its effect is unknown" in caplog.text
        assert [each.id for each in agent.unknown_tool_calls] == ["c1"]
        assert [each.id for each in agent.pending_tool_calls] == ["c1", "c2"]
        with pytest.raises(UsageError, match="whose function was called before"):
            await agent.run_agent(tool_results={"c1": Approve()})
        result = await agent.run_agent(tool_results={"c1": "paid, says the bank", "c2": Approve()})
    assert result.text == "I see."
    results = [str(each.content) for each in producer.inputs[0].messages if each.role == "tool"]
    assert results == ["paid, says the bank", "booked"]
    assert calls == ["pay", "book"]


@on_both
async def test_a_result_that_one_program_was_shown_is_shown_to_all_that_follow(new_threads: NewThreads) -> None:
    other, copies = new_threads(), list[Threads]()

    @tool
    async def charge() -> str:
        """Charges."""
        return "receipt 77"

    @tool(approval="always")
    async def send() -> str:
        """Sends."""
        with anyio.fail_after(LIMIT):
            while "tool" not in roles((await saved(other)).conversation.messages):
                await anyio.lowlevel.checkpoint()  # until what the other call returned is saved
        copies.append(await left_by_a_killed_program(other))
        return "sent"

    calls = [tool_call("charge", tool_call_id="c1"), tool_call("send", tool_call_id="c2")]
    script = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[charge, send], approve=lambda _: True)
    async with new_threads().open("t", script) as agent:
        await agent.run_agent("Charge, and send it")
    shown: list[tuple[list[str], list[str]]] = []
    # The program that opens the thread second only looks; what it leaves is what the third one finds.
    for _ in range(3):
        async with copies[0].open("t", ScriptedAgent(turn(text("I see.")))) as agent:
            results = [str(each.content) for each in agent.messages if each.role == "tool"]
            shown.append((results, [each.id for each in agent.unknown_tool_calls]))
    assert shown == [(["receipt 77"], ["c2"])] * 3
    producer = ScriptedAgent(turn(text("I see.")))
    async with copies[0].open("t", producer) as agent:
        await agent.run_agent("And?")
    assert [str(each.content)[:10] for each in producer.inputs[0].messages if each.role == "tool"][:1] == ["receipt 77"]


async def test_the_log_has_the_place_of_a_call_that_was_cut_until_the_thread_has_gone_on_without_it() -> None:
    threads, copies = Store().threads, list[Threads]()

    @tool
    async def look() -> str:
        """Looks."""
        copies.append(await left_by_a_killed_program(threads))
        return "seen"

    script = [turn(text("One.", message_id="m"), tool_call("look", tool_call_id="c")), turn(text("Two."))]
    async with threads.open("t", ScriptedAgent(*script, tools=[look])) as agent:
        await agent.run_agent("Hi", run_id="r")
        whole = await agent.stored_call("r")
    copy = copies[0]
    places = list[Any]()
    for change in ("nothing", "a look", "a rewind", "a turn", "a fork"):
        if change == "a rewind":
            await copy.rewind("t", (await saved(copy)).conversation.messages[0].id)
        if change == "a fork":
            await copy.fork("t", new_id="f")
        async with copy.open("f" if change == "a fork" else "t", ScriptedAgent(turn(text("Three.")))) as agent:
            if change == "a turn":
                await agent.run_agent("And?", run_id="s")
            assert await agent.stored_call("other") is None
            if change in ("a rewind", "a turn", "a fork"):
                # A place of before the turn or the rewind would take it back.
                with pytest.raises(UsageError, match="has continued without run"):
                    await agent.stored_call("r")
                continue
            cut = await agent.stored_call("r")
        assert cut is not None
        assert (roles(cut.beginning[0]), cut.place.is_between_runs) == (["user"], True)
        assert [(each.tool_call_id, each.status) for each in cut.place.document.tool_calls] == [("c", "executing")]
        places.append(
            cut.place.model_copy(update={"document": cut.place.document.model_copy(update={"thread_id": ""})})
        )
    assert places == places[:1] * 2
    assert whole is not None
    assert roles(whole.place.document.messages) == ["user", "assistant", "assistant", "tool"]
    assert not whole.place.is_between_runs


@pytest.mark.parametrize("state", [{}, {JOURNAL: {"flow": "f"}}], ids=["agent", "team"])
def test_what_an_agent_said_since_its_run_was_sent_is_no_part_of_the_place_and_of_a_team_it_is(
    state: dict[str, Any],
) -> None:
    before: Members = {**empty_members(), "state": state}
    sent: Members = {**before, "call_id": "r", "run": {"run_id": "r", "resume": []}}
    sent["messages"] = [UserMessage(id="u", content="Hi")]
    saying: Members = {**sent, "messages": [*sent["messages"], AssistantMessage(id="a", content="One")]}
    entries = [entry_of(*each) for each in ((empty_members(), sent, 1), (sent, saying, 2))]
    found = call_of("t", [each for each in entries if each is not None], "r")
    assert found is not None
    # A run is sent again, and its words come again; members that have spoken do not speak again.
    assert roles(found.place.document.messages) == (["user", "assistant"] if state else ["user"])


@on_both
async def test_calls_that_were_approved_while_the_agent_was_down_can_be_approved_again_in_a_later_block(
    new_threads: NewThreads,
) -> None:
    calls: list[int] = []

    @tool(approval="always")
    def pay(amount: int) -> str:
        """Pays."""
        calls.append(amount)
        return f"paid {amount}"

    first = turn(tool_call("pay", {"amount": 1}, tool_call_id="c1"), tool_call("pay", {"amount": 2}, tool_call_id="c2"))
    approvals = {"c1": Approve(), "c2": Approve()}
    with serve_bytes(sse(first), faults.status(503), sse(turn(text("Done.")))) as server:
        producer = HttpAgent(server.url, tools=[pay])
        async with new_threads().open("t", producer) as agent:
            await agent.run_agent("Pay", run_id="run-1")
        async with new_threads().open("t", producer) as agent:
            with pytest.raises(HTTPStatusError):
                await agent.run_agent(tool_results=approvals)
        async with new_threads().open("t", producer) as agent:
            assert (await agent.run_agent(tool_results=approvals)).text == "Done."
        sent = [each["content"] for each in server.requests[-1].json()["messages"] if each["role"] == "tool"]
    assert (sent, sorted(calls)) == (["paid 1", "paid 2"], [1, 2])


async def test_the_agent_is_told_that_a_result_is_unknown_when_the_conversation_goes_on_without_it(
    new_threads: NewThreads,
) -> None:
    other, copies = new_threads(), list[Threads]()

    @tool
    async def pay() -> str:
        """Pays."""
        copies.append(await left_by_a_killed_program(other))
        return "paid"

    script = [turn(tool_call("pay", tool_call_id="c1")), turn(text("Done."))]
    async with new_threads().open("t", ScriptedAgent(*script, tools=[pay])) as agent:
        await agent.run_agent("Pay")
    producer = ScriptedAgent(turn(text("I see.")))
    async with copies[0].open("t", producer) as agent:
        await agent.run_agent()
        assert ([each.id for each in agent.unknown_tool_calls], agent.pending_tool_calls) == (["c1"], [])
    assert "it may have had its effect or not" in str(producer.inputs[0].messages[-1].content)


async def test_a_result_that_no_run_got_is_sent_with_the_next(new_threads: NewThreads) -> None:
    other, copies, calls = new_threads(), list[Threads](), list[str]()

    @tool
    async def pay() -> str:
        """Pays."""
        calls.append("pay")
        return "paid"

    async def sent(input: RunAgentInput) -> AsyncIterator[Step]:
        copies.append(await left_by_a_killed_program(other))
        yield turn(text("Done."))

    async with new_threads().open(
        "t", ScriptedAgent(turn(tool_call("pay", tool_call_id="c1")), sent, tools=[pay])
    ) as agent:
        await agent.run_agent("Pay")
    producer, block = ScriptedAgent(turn(text("I see."))), copies[0].open("t", ScriptedAgent(turn(text("-"))))
    async with block as left:
        assert block.cut_off is not None
        assert (left.pending_tool_calls, left.unknown_tool_calls) == ([], [])
        producer.restore(left.snapshot())
    assert (await producer.run_agent()).text == "I see."
    assert [str(each.content) for each in producer.inputs[0].messages] == ["Pay", "None", "paid"]
    assert calls == ["pay"]


@on_both
async def test_an_answer_whose_run_was_cut_off_is_named_and_its_interrupt_is_pending_again(
    new_threads: NewThreads, caplog: pytest.LogCaptureFixture
) -> None:
    other, copies = new_threads(), list[Threads]()

    async def sent(input: RunAgentInput) -> AsyncIterator[Step]:
        copies.append(await left_by_a_killed_program(other))
        yield turn(text("Done."))

    asks = turn(text("Hm."), outcome=interrupt("Proceed?", interrupt_id="i"))
    async with new_threads().open("t", ScriptedAgent(asks, sent)) as agent:
        await agent.run_agent("Hi")
        result = await agent.run_agent(resume={"i": Resolve("yes")})
    block = copies[0].open("t", ScriptedAgent(turn(text("Again."))))
    async with block as left:
        assert block.cut_off is not None
        assert (block.cut_off.run_id, [each.payload for each in block.cut_off.resume]) == (result.run_id, ["yes"])
        assert [each.id for each in left.pending_interrupts] == ["i"]
        assert f"thread 't': its program ended during run {result.run_id!r}; its end is unknown" in caplog.messages
        assert (await left.run_agent(resume=block.cut_off.resume)).text == "Again."
    async with copies[0].open("t", ScriptedAgent(turn(text("-")))) as left:
        assert left.pending_interrupts == []


@on_both
async def test_what_had_arrived_of_a_run_that_was_cut_off_is_there(
    new_threads: NewThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, copies = new_threads(), list[Threads]()
    monkeypatch.setattr(saving, "SAVE_SECONDS", 0)
    monkeypatch.setattr(engine, "_TURN_SECONDS", 0)

    async def breaks(input: RunAgentInput) -> AsyncIterator[Step]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield text("All of this.", message_id="m1")
        yield tool_call("pay", tool_call_id="c1")
        yield TextMessageStartEvent(message_id="m2")
        yield TextMessageContentEvent(message_id="m2", delta="Some")
        copies.append(await left_by_a_killed_program(other))
        yield TextMessageEndEvent(message_id="m2")
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    async with new_threads().open("t", ScriptedAgent(breaks, turn(text("Done.")), tools=[pay])) as agent:
        await agent.run_agent("Hi")
    async with copies[0].open("t", ScriptedAgent(turn(text("-")), tools=[pay])) as left:
        assert [str(each.content) for each in left.messages] == ["Hi", "All of this.", "None", "Some"]
        assert left.incomplete_ids == ["m2"]
        assert [each.id for each in left.pending_tool_calls] == ["c1"]
        assert (await left.run_agent()).text == "-"


async def test_a_long_thread_is_restored_beside_the_event_loop(
    new_threads: NewThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_threads, "_LONG", 500)
    places = list[bool]()

    class Noting(ScriptedAgent):
        def restore(self, document: ConversationSnapshot) -> None:
            places.append(threading.current_thread() is threading.main_thread())
            super().restore(document)

    threads, agent = new_threads(), Noting(turn(text("Hello.")))
    for count in (2, 600):
        messages = [UserMessage(id=f"u{number}", content=f"{number}") for number in range(count)]
        async with threads.open(f"{count}", agent) as opened:
            opened.set_messages(messages)
        async with threads.open(f"{count}", agent) as opened:
            assert opened.messages == messages
    assert places == [True, False]


async def test_a_long_entry_is_read_as_a_short_one_is(new_threads: NewThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = new_threads()
    script = ScriptedAgent(
        turn(text("One."), tool_call("look", tool_call_id="c"), state({"n": [1.5, None, "🦜"]})),
        initial_messages=[UserMessage(id=f"u{number}", content=f"{number}") for number in range(20)],
    )
    async with threads.open("t", script) as agent:
        await agent.run_agent("Hi")
    found = await saved(threads)
    assert len(found.conversation.messages) > 20
    monkeypatch.setattr(log, "_LONG", 1)
    monkeypatch.setattr(log, "_SLICE", 3)
    assert await saved(threads) == found
    async with threads.open("t", script) as agent:
        assert agent.messages == found.conversation.messages
        assert [call.id for call in agent.pending_tool_calls] == ["c"]


async def test_a_new_thread_is_saved_if_something_happened_in_its_block(new_threads: NewThreads) -> None:
    threads, agent = new_threads(), ScriptedAgent(turn(text("Hello.")))
    agent.add_message(UserMessage(id="u", content="Before."))
    async with threads.open("t", agent) as opened:
        assert roles(opened.messages) == ["user"]
    assert await threads.get("t") is None
    async with threads.open("t", agent) as opened:
        await opened.run_agent("Hi")
        # The agent is again as it came, and what was saved of the run is not.
        opened.rewind("u")
    assert [each.content for each in (await saved(threads)).conversation.messages] == ["Before."]


async def test_a_run_that_never_started_leaves_the_thread_as_it_was(new_threads: NewThreads) -> None:
    threads = new_threads()
    async with threads.open("t", HttpAgent("http://127.0.0.1:1/")) as agent:
        with pytest.raises(ConnectError):
            await agent.run_agent("Hi")
    assert (await saved(threads)).conversation.messages == []


async def test_a_failed_run_leaves_what_had_arrived(new_threads: NewThreads) -> None:
    threads = new_threads()
    async with threads.open("t", ScriptedAgent(turn(text("Hm."), RunErrorEvent(message="overloaded")))) as agent:
        with pytest.raises(RunFailedError):
            await agent.run_agent("Hi")
    assert roles((await saved(threads)).conversation.messages) == ["user", "assistant"]


@on_both
async def test_a_second_holder_waits_and_then_gets_an_error(new_threads: NewThreads) -> None:
    threads, other = new_threads(), new_threads()
    agent = ScriptedAgent(turn(text("Hello.")))
    async with threads.open("t", agent) as first:
        with pytest.raises(ThreadBusyError, match=r"seconds of its lease are left.*wait= sets how long") as busy:
            async with other.open("t", agent, wait=0.05):
                raise AssertionError
        assert busy.value.retry_after is not None
        assert 0 < busy.value.retry_after <= 30
        with pytest.raises(ThreadBusyError):
            await other.delete("t", wait=0)
        await first.run_agent("Hi")
    async with other.open("t", agent, wait=0) as second:
        assert len(second.messages) == 2


@pytest.mark.parametrize("use", [Threads.open, Threads.rewind, Threads.delete])
def test_whoever_needs_a_thread_waits_five_seconds_for_it_by_default(use: Callable[..., Any]) -> None:
    assert signature(use).parameters["wait"].default == 5.0


@on_both
async def test_the_block_of_a_waiter_that_was_cancelled_has_no_lease(new_threads: NewThreads) -> None:
    threads, agent = new_threads(), ScriptedAgent(turn(text("Hello.")))
    async with threads.open("t", agent):
        with anyio.move_on_after(0.05):
            async with threads.open("t", agent, wait=LIMIT):
                raise AssertionError
    async with threads.open("t", agent, wait=LIMIT) as opened:
        assert opened.messages == []


class _Stopped(MemoryStore):
    """A store whose holder cannot renew its lease any more."""

    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        return number if number and seconds else await super().lease(owner, thread_id, seconds, number)


async def test_a_lost_lease_overwrites_nothing_and_calls_no_tool() -> None:
    store, calls = _Stopped(), list[str]()
    threads, other = Store(store, lease=0.05).threads, Store(store).threads

    @tool
    async def pay() -> str:
        """Pays."""
        calls.append("pay")
        return "paid"

    async def lasting(input: RunAgentInput) -> AsyncIterator[Step]:
        async with other.open("t", ScriptedAgent(turn(text("Mine."))), wait=LIMIT) as theirs:
            await theirs.run_agent("Their question")
        yield turn(tool_call("pay"))

    with pytest.raises(ThreadBusyError, match="taken over by another block"):
        async with threads.open("t", ScriptedAgent(lasting, tools=[pay])) as agent:
            await agent.run_agent("My question")
    messages = (await saved(other)).conversation.messages
    assert ([str(each.content) for each in messages], calls) == (["My question", "Their question", "Mine."], [])


async def test_a_lease_is_renewed_as_long_as_the_block_lasts(
    new_threads: NewThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agui_client.store._threads.opened._RENEWALS", 25
    )  # a busy machine may be late with most of them
    threads, other = new_threads(lease=0.5), new_threads()
    async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
        with pytest.raises(ThreadBusyError):
            async with other.open("t", agent, wait=0.6):  # longer than its seconds
                raise AssertionError
        await agent.run_agent("Hi")


async def test_an_agent_is_saved_in_its_block_only(new_threads: NewThreads) -> None:
    threads = new_threads()
    async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
        await agent.clone().run_agent("Not this")
        with pytest.raises(UsageError, match="went over to thread"):
            await agent.run_agent(RunAgentInput(thread_id="other", run_id="r", messages=[], state={}))
    with pytest.raises(UsageError, match="the block of thread 't' was left"):
        await agent.run_agent("Hi")
    assert await threads.get("t") is None


@on_both
async def test_titles_times_counts_and_tokens_are_in_the_list(new_threads: NewThreads) -> None:
    usage = [TokenUsage(provider="p", model="m", input_tokens=3)]
    agent = ScriptedAgent(turn(text("Hello."), usage=usage))

    def title(messages: Sequence[Message]) -> str:
        return f"{len(messages)} so far\0\n"

    threads = new_threads(title=title)
    for thread_id in ("t1", "t2", "t3"):
        async with threads.open(thread_id, agent) as opened:
            await opened.run_agent([f"About {thread_id}", "and more"])
            await opened.run_agent("And?")
            await opened.clone().run_agent("Not this")
    infos = await new_threads().list(limit=2)
    infos = [*infos, *await threads.list(after=infos[-1])]
    assert [each.thread_id for each in infos] == ["t3", "t2", "t1"]
    assert {(each.title, each.message_count) for each in infos} == {("1 so far", 4)}
    assert all(each.created_at < each.updated_at for each in infos)
    assert [count.input_tokens for each in infos for count in each.usage] == [6, 6, 6]


@on_both
async def test_half_a_character_in_a_title_is_replaced(new_threads: NewThreads) -> None:
    def title(messages: Sequence[Message]) -> str:
        return "Caf\udce9"

    threads = new_threads(title=title)
    async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
        await agent.run_agent("Hi")
    assert (await saved(threads)).info.title == "Caf?"


async def test_a_title_that_cannot_be_made_is_empty(new_threads: NewThreads, caplog: pytest.LogCaptureFixture) -> None:

    def title(messages: Sequence[Message]) -> str:
        return str(1 / 0)

    threads = new_threads(title=title)
    async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
        await agent.run_agent("Hi")
    assert ((await saved(threads)).info.title, "ZeroDivisionError" in caplog.text) == ("", True)


@tool
def look() -> str:
    """Looks."""
    return "seen"


async def a_long_thread(threads: Threads) -> list[str]:
    """Make a thread of three turns, the second with a tool; returns the ids of its messages."""
    script = [
        turn(text("One."), state({"n": 1})),
        turn(text("Let me see.", message_id="m2"), tool_call("look", tool_call_id="c1", parent_message_id="m2")),
        turn(text("Two."), state({"n": 2})),
        turn(text("Three."), state({"n": 3})),
    ]
    async with threads.open("t", ScriptedAgent(*script, tools=[look])) as agent:
        for prompt in ("first", "second", "third"):
            await agent.run_agent(prompt)
        return [each.id for each in agent.messages]


@on_both
async def test_a_fork_begins_like_its_thread_with_the_state_of_that_moment(new_threads: NewThreads) -> None:
    threads = new_threads()
    ids = await a_long_thread(threads)
    before = (await saved(threads)).conversation
    forked = await saved(threads, await threads.fork("t", at=ids[1]))
    assert ([each.id for each in forked.conversation.messages], forked.conversation.state) == (ids[:2], {"n": 1})
    called = ids.index(next(each.id for each in before.messages if each.role == "assistant" and each.tool_calls))
    forked = await saved(threads, await threads.fork("t", at=ids[called], new_id="f"))
    assert [each.id for each in forked.conversation.messages] == ids[: called + 2]
    async with threads.open("f", ScriptedAgent(turn(text("Other.")))) as agent:
        assert (await agent.run_agent("And now?")).warnings == []
    assert len((await saved(threads, "f")).conversation.messages) == called + 4
    whole = await saved(threads, await threads.fork("t"))
    assert whole.conversation.messages == before.messages
    assert (await saved(threads)).conversation == before
    with pytest.raises(UsageError, match="no message 'unknown'"):
        await threads.fork("t", at="unknown")
    with pytest.raises(UsageError, match="there is a thread 'f' already"):
        await threads.fork("t", new_id="f")


@on_both
async def test_a_fork_ends_with_its_message_when_a_result_came_in_before_that_message(new_threads: NewThreads) -> None:
    threads = new_threads()
    script = turn(tool_call("look"), text("B"), text("C")), turn(text("D"))
    async with threads.open("t", ScriptedAgent(*script, tools=[look])) as agent:
        await agent.run_agent("hi")
    messages = (await saved(threads)).conversation.messages
    assert [each.content for each in messages] == ["hi", None, "seen", "B", "C", "D"]
    for count in (4, 5):
        forked = await threads.fork("t", at=messages[count - 1].id)
        assert (await saved(threads, forked)).conversation.messages == messages[:count]


async def test_a_thread_that_was_rewound_goes_on_from_there(new_threads: NewThreads) -> None:
    threads = new_threads()
    ids = await a_long_thread(threads)
    await threads.rewind("t", ids[1])
    rewound = await saved(threads)
    assert ([each.id for each in rewound.conversation.messages], rewound.info.message_count) == (ids[:2], 2)
    assert rewound.conversation.state == {"n": 1}
    async with threads.open("t", ScriptedAgent(turn(text("Other.")))) as agent:
        await agent.run_agent("And now?")
    assert [each.content for each in (await saved(threads)).conversation.messages][1:] == ["One.", "And now?", "Other."]


@pytest.mark.parametrize("form", ["json", "jsonl"])
async def test_an_exported_thread_can_be_imported(new_threads: NewThreads, form: Any) -> None:
    threads = new_threads()
    await a_long_thread(threads)
    async with threads.open("t", ScriptedAgent(turn(text("One line.")))) as agent:
        await agent.run_agent("Python, and not JSON, ends lines at \u2028, \x85 and \x1c")
    text_of_it = await threads.export("t", form)
    assert '"toolCallId"' in text_of_it  # messages have the names of the protocol
    new_id = await threads.import_(text_of_it, thread_id="copy", owner="bob")
    original, copy = await saved(threads), await saved(threads, new_id, "bob")
    assert copy.conversation == original.conversation.model_copy(update={"thread_id": "copy", "unreceived_ids": None})
    assert (copy.info.title, copy.info.message_count) == (original.info.title, original.info.message_count)
    with pytest.raises(UsageError, match="already"):
        await threads.import_(text_of_it)
    other = text_of_it.replace('"version": 2', '"version": 1')
    with pytest.raises(UsageError, match="the exported thread has another version than 2, the only one that"):
        await threads.import_(other, thread_id="other")


@pytest.mark.parametrize("document", ["", "{}", "[1]", "no", '{"agui_thread": 2, "conversation": {}}', "1\n2"])
async def test_what_is_no_exported_thread_is_not_imported(new_threads: NewThreads, document: str) -> None:
    with pytest.raises(UsageError, match="not an exported thread"):
        await new_threads().import_(document)


async def test_a_document_in_one_line_with_a_message_that_cannot_be_read_is_not_imported_without_it(
    new_threads: NewThreads,
) -> None:
    threads = new_threads()
    async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
        await agent.run_agent("hi")
    document = json.loads(await threads.export("t"))
    document["conversation"]["messages"][1]["role"] = "nobody"
    with pytest.raises(UsageError, match="not an exported thread"):
        await threads.import_(json.dumps(document), thread_id="copy")
    assert await threads.get("copy") is None


@tool(approval="always")
def sell() -> str:
    """Sells."""
    return "sold"


async def test_markdown_is_for_reading(new_threads: NewThreads) -> None:
    threads = new_threads()
    await a_long_thread(threads)
    lines = (await threads.export("t", "md")).splitlines()
    assert lines[:3] == ["# first", "", "**User**"]
    called = lines.index("**Call of look** (c1), answered")
    assert lines[called + 2 : called + 10] == ["```", "{}", "```", "", "**Result of c1**", "", "```", "seen"]
    async with threads.open("u", ScriptedAgent(turn())) as agent:
        agent.add_message({"role": "user", "content": [{"type": "text", "text": each} for each in ("Two", "parts")]})
        agent.add_message({"role": "activity", "activityType": "plan", "content": {"to": "Köln"}})
    of_shapes = 'Two\n\nparts\n\n**Activity**\n\n```\n{\n  "to": "Köln"\n}\n```\n'
    assert await threads.export("u", "md") == f"# Two parts\n\n**User**\n\n{of_shapes}"
    refusing = ScriptedAgent(turn(tool_call("sell")), turn(text("Then not.")), tools=[sell], approve=lambda _: False)
    async with threads.open("d", refusing) as agent:
        await agent.run_agent("Hi")
    assert "**Call of sell** (call-1), denied by a person" in (await threads.export("d", "md")).splitlines()
    hostile = "\x1b[31m<b>\u202e\n```"
    async with threads.open("h", ScriptedAgent(turn(tool_call(hostile), text(hostile)))) as agent:
        await agent.run_agent("hi")
    assert (await threads.export("h", "md")).split("\n\n")[3:] == [
        "**Call of \\\\u001b\\[31m&lt;b&gt;\\\\u202e \\`\\`\\`** (call-1), called",
        "```\n{}\n```",
        "**Assistant**",
        "> \\u001b[31m&lt;b&gt;\\u202e\n> ```\n",
    ]
    with pytest.raises(UsageError, match="'md', 'json' or 'jsonl'"):
        await threads.export("t", "pdf")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def test_a_turn_writes_the_turn_and_not_the_thread(new_threads: NewThreads) -> None:
    threads = new_threads()
    sizes: list[int] = []
    async with threads.open("t", ScriptedAgent(turn(text("Answer."), state({"large": "x" * 1000})))) as agent:
        for _ in range(20):
            await agent.run_agent("Question")
            found = await threads._loop.call(lambda: threads._store.read("", "t"))
            assert found is not None
            sizes.append(sum(map(len, found[1])))
    growth = [after - before for before, after in pairwise(sizes[1:])]
    assert max(growth) <= 1.1 * min(growth)


def test_a_program_that_closes_nothing_ends() -> None:
    program = """
import sys
from agui_client.testing import ScriptedAgent, text, turn
from agui_client.store import Store, Threads

threads = Store("sqlite:///" + sys.argv[1]).threads
agent = threads.open("t", ScriptedAgent(turn(text("Hello.")))).__enter__()
print(agent.run_agent_sync("Hi").text, threads.list().result()[0].message_count)
"""
    with tempfile.TemporaryDirectory() as folder:
        printed = run_program("-c", program, f"{folder}/threads.db", flags=STRICT)
    assert printed == ("Hello. 2\n", "", 0)


async def test_closed_threads_say_so() -> None:
    store = Store()
    await store.aclose()
    await store.aclose()
    with pytest.raises(UsageError, match=r"^the store was closed: make another Store\(\.\.\.\)$"):
        await store.threads.list()


async def test_a_limit_of_a_list_is_a_number_of_threads(new_threads: NewThreads) -> None:
    threads = new_threads()
    assert list(await threads.list(limit=0)) == []
    for limit in (-1, 2.5, True, "5"):
        with pytest.raises(UsageError, match="limit= is a number of threads from 0 up, not"):
            await threads.list(limit=limit)  # type: ignore[arg-type]


async def test_a_database_that_cannot_be_used_is_an_error_of_ours(tmp_path: Path) -> None:
    for url in ("mysql://localhost/x", "chats.db", "mongodb://localhost/x"):
        with pytest.raises(UsageError, match="subclass ThreadStore"):
            Store(url)
    async with Store(f"sqlite:///{tmp_path}/missing/threads.db") as store:
        threads = store.threads
        with pytest.raises(ThreadStoreError, match="unable to open database file"):
            await threads.list()
    async with Store("postgresql://ann:secret@127.0.0.1:1/x") as store:
        threads = store.threads
        with pytest.raises(ThreadStoreError) as raised:
            await threads.list()
    assert "secret" not in str(raised.value)


async def test_tables_of_a_newer_version_are_left_alone(tmp_path: Path) -> None:
    async with Store(f"sqlite:///{tmp_path}/threads.db") as store:
        threads = store.threads
        await threads.list()
    with closing(sqlite3.connect(tmp_path / "threads.db")) as database:
        database.execute("update agui_versions set version = 2")
        database.commit()
    async with Store(f"sqlite:///{tmp_path}/threads.db") as store:
        threads = store.threads
        with pytest.raises(ThreadStoreError, match="of version 2, and this client knows 1"):
            await threads.list()


async def test_a_damaged_thread_is_an_error_of_ours() -> None:
    memory = MemoryStore()
    async with Store(memory) as store:
        threads = store.threads
        async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
            await agent.run_agent("Hi")
        memory._threads["", "t"].entries.append('{"version": 2}')
        with pytest.raises(ThreadStoreError, match="cannot be read"):
            await threads.get("t")


async def test_a_thread_with_lost_entries_is_no_new_thread(tmp_path: Path) -> None:
    async with Store(f"sqlite:///{tmp_path}/threads.db") as store:
        threads = store.threads
        async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
            await agent.run_agent("Hi")
        with closing(sqlite3.connect(tmp_path / "threads.db")) as database:
            database.execute("delete from agui_entries where number = 1")
            database.commit()
        with pytest.raises(ThreadStoreError, match=r"cannot be read: 1 of its \d entries are missing"):
            await threads.get("t")
        with pytest.raises(ThreadStoreError, match="are missing"):
            await threads.open("t", agent).__aenter__()
        assert await threads.delete("t")


@on_both
async def test_an_owner_or_id_that_is_no_text_is_refused(new_threads: NewThreads) -> None:
    threads, agent = new_threads(), ScriptedAgent(turn(text("Hello.")))
    wrong: list[Any] = [None, 7, b"ann", "\ud800"]
    for owner in wrong:
        with pytest.raises(UsageError, match=r"owner= takes a text"):
            threads.open("t", agent, owner=owner)
        with pytest.raises(UsageError, match=r"owner= takes a text"):
            await threads.list(owner=owner)
    for thread_id in (*wrong[1:], ""):
        with pytest.raises(UsageError, match=r"thread_id= "):
            threads.open(thread_id, agent)
    async with threads.open("t", agent) as opened:
        await opened.run_agent("hi")
    document = await threads.export("t")
    for new_id in (*wrong[1:], "a\0b", ""):
        with pytest.raises(UsageError, match=r"new_id= "):
            await threads.fork("t", new_id=new_id)
        with pytest.raises(UsageError, match=r"thread_id= "):
            await threads.import_(document, thread_id=new_id)
    with pytest.raises(UsageError, match=r"the id in the exported thread"):
        await threads.import_(document.replace('"t"', '""'))
    for thread_id in (*wrong, "a\0b"):
        for use in (threads.get, threads.fork, threads.export, threads.delete):
            with pytest.raises(UsageError, match="thread_id= takes a text of whole characters without NUL"):
                await use(thread_id)
    # PostgreSQL has an index of both, which holds no more.
    longest = "é" * 500
    async with threads.open(longest, agent, owner=longest) as opened:
        await opened.run_agent("hi")
    with pytest.raises(UsageError, match="thread_id= takes at most 1000 bytes, not 'éé"):
        threads.open(f"{longest}x", agent)


@on_both
async def test_what_json_cannot_hold_is_refused_before_it_is_sent(new_threads: NewThreads) -> None:
    threads, agent = new_threads(), ScriptedAgent(turn(text("Hello.")))
    with pytest.raises(UsageError, match=r"a text in its messages has half a character .* text\.encode"):
        async with threads.open("t", agent) as opened:
            await opened.run_agent("\ud800")
    with pytest.raises(UsageError, match="could not be read again: recursion limit exceeded"):
        async with threads.open("t", agent) as opened:
            await opened.run_agent({"role": "user", "content": "Hi", "metadata": nested(199)})
    assert agent.inputs == []


@on_both
async def test_a_state_that_nests_as_deeply_as_it_may_comes_back(new_threads: NewThreads) -> None:
    async with new_threads().open("t", ScriptedAgent(turn(text("Hello.")))) as opened:
        opened.state = nested(199)
    assert (await saved(new_threads())).conversation.state == nested(199)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@on_both
async def test_a_document_that_nests_too_deeply_is_refused_and_makes_no_thread(new_threads: NewThreads) -> None:
    threads = new_threads()
    async with threads.open("t", ScriptedAgent(turn(text("Hello.")), initial_state={"here": 1})) as opened:
        await opened.run_agent("Hi")
    for form in ("json", "jsonl"):
        exported = (await threads.export("t", form)).replace('"here": 1', '"here": 1, "deep": @')
        for levels in (199, 230, 300, 5000):
            document = exported.replace("@", '{"a":' * levels + "1" + "}" * levels)
            with pytest.raises(UsageError):
                await threads.import_(document, thread_id="deep")
    assert await threads.get("deep") is None


async def test_a_fork_has_nothing_of_a_thread_that_was_made_anew_meanwhile() -> None:
    class Racing(MemoryStore):
        async def append(
            self,
            owner: str,
            info: ThreadInfo,
            entry: str,
            number: int,
            count: int,
            shared: tuple[str, int] | None = None,
            **about: Any,
        ) -> bool:
            if shared == ("t", 2):
                await self.anew(owner)
            return await super().append(owner, info, entry, number, count, shared, **about)

        async def anew(self, owner: str) -> None:
            """Delete the thread, and let another one be made."""
            number = await self.lease(owner, "t", 60)
            assert number is not None
            await self.delete(owner, "t", number)
            async with Store(self).threads.open("t", agent, owner=owner) as another:
                await another.run_agent("Another person's")

    agent = ScriptedAgent(turn(text("Hello.")))
    async with Store(Racing()) as store:
        threads = store.threads
        async with threads.open("t", agent) as opened:
            await opened.run_agent("Hi")
        with pytest.raises(UsageError, match="the thread to fork was deleted meanwhile"):
            await threads.fork("t", new_id="fork")
        assert [each.thread_id for each in await threads.list()] == ["t"]


@on_both
async def test_nobody_but_the_owner_reaches_a_thread(new_threads: NewThreads) -> None:
    threads, agent = new_threads(), ScriptedAgent(turn(text("Hello.")))
    async with threads.open("t", agent, owner="ann") as opened:
        await opened.run_agent("Hi")
    before = await saved(threads, owner="ann")
    for owner in ("", "bob", "Ann", "ann ", "%", "ann' OR '1'='1"):
        assert (await threads.get("t", owner=owner), list(await threads.list(owner=owner))) == (None, [])
        for call in (
            threads.fork("t", owner=owner),
            threads.fork("t", new_id="x", at=before.conversation.messages[0].id, owner=owner),
            threads.rewind("t", before.conversation.messages[0].id, owner=owner),
            threads.export("t", owner=owner),
        ):
            with pytest.raises(UsageError, match=r"there is no thread 't' (without an|of) owner"):
                await call
        assert not await threads.delete("t", owner=owner)
        async with threads.open("t", agent, owner=owner) as theirs:
            assert theirs.messages == []
            await theirs.run_agent("Mine")
        assert await threads.delete("t", owner=owner)
    assert await saved(threads, owner="ann") == before
    assert [each.thread_id for each in await threads.list(owner="ann")] == ["t"]


async def test_all_threads_of_an_owner_are_deleted_whoever_has_them_open(new_threads: NewThreads) -> None:
    threads, agent = new_threads(), ScriptedAgent(turn(text("Hello.")))
    for owner in ("ann", "bob"):
        async with threads.open("t", agent, owner=owner) as opened:
            await opened.run_agent("Hi")
    await threads.fork("t", owner="ann")

    async def go_on() -> None:
        async with threads.open("t", agent, owner="ann") as opened:
            assert await threads.delete(owner="ann") == 2
            await opened.run_agent("What is saved no more is not sent.")

    with pytest.raises(ThreadBusyError, match="'t' was taken over by another block, or deleted"):
        await go_on()
    assert list(await threads.list(owner="ann")) == []
    assert [each.thread_id for each in await threads.list(owner="bob")] == ["t"]
    assert threads.delete(everybody=True).result() == 1
    no_id: Any = None
    with pytest.raises(UsageError, match="thread_id= takes a text"):
        _ = threads.delete(no_id, owner="bob")


async def test_a_fork_has_a_result_that_came_later_for_a_call_before_its_last_message(new_threads: NewThreads) -> None:
    threads = new_threads()
    said = [tool_call("locate", tool_call_id="c"), text("B", message_id="b"), text("C", message_id="c3")]
    async with threads.open("t", ScriptedAgent(turn(*said), turn(text("D")))) as agent:
        await agent.run_agent("Hi")
        await agent.run_agent(tool_results={"c": "Bergen"})
    forked = await saved(threads, await threads.fork("t", at="b"))
    found = [(each.role, each.content) for each in forked.conversation.messages]
    assert found == [("user", "Hi"), ("assistant", None), ("tool", "Bergen"), ("assistant", "B")]
