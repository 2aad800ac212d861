"""Pages of the messages of a thread: whole in any order of entries, of one moment, and as cheap in long threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, FunctionCall, Message, ToolCall, ToolMessage, UserMessage

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
from agui_client import ThreadStoreError, UsageError, tool
from agui_client._core.conversation.log import empty_members, entry_of
from agui_client.store import MemoryStore, Store, ThreadInfo, Threads
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.postgres import PostgresServer
from support.statements import counted

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def threads(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Threads]:
    url: str | None = None if request.param == "memory" else f"sqlite:///{tmp_path}/threads.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        url = f"postgresql://{server.new_database()}"
    with Store(url) as store:
        yield store.threads


@tool
def look() -> str:
    """Look around."""
    return "seen"


def _talk(threads: Threads, turns: range, thread_id: str = "t", owner: str = "") -> None:
    """Carry out turns, every third of which calls a tool."""
    for number in turns:
        said = [turn(text(f"Answer {number}."))]
        said = [turn(tool_call("look", {})), *said] if number % 3 == 0 else said
        with threads.open(thread_id, ScriptedAgent(*said, tools=[look]), owner=owner) as agent:
            agent.run_agent_sync(f"Question {number}")


def _pages(threads: Threads, limit: int, thread_id: str = "t", owner: str = "") -> list[list[Message]]:
    """Return all pages of a thread, the last one first."""
    pages, before, is_first = list[list[Message]](), None, True
    while is_first or before is not None:
        page = threads.messages(thread_id, limit=limit, before=before, owner=owner).result()
        assert page.messages
        pages.append([*page.messages])
        before, is_first = page.before, False
    return pages


def _joined(pages: list[list[Message]]) -> list[Message]:
    return [message for page in reversed(pages) for message in page]


def _stored(threads: Threads, thread_id: str = "t", owner: str = "") -> list[Message]:
    saved = threads.get(thread_id, owner=owner).result()
    assert saved is not None
    return [*saved.conversation.messages]


@pytest.mark.parametrize("limit", [1, 4, 100])
def test_the_pages_of_a_thread_are_its_messages(threads: Threads, limit: int) -> None:
    _talk(threads, range(8))
    stored, pages = _stored(threads), _pages(threads, limit)
    assert len(stored) == 8 * 2 + 3 * 2
    assert _joined(pages) == stored
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert 0 < len(pages[-1]) <= limit


def test_a_fork_a_rewound_thread_and_an_imported_one_have_pages(threads: Threads) -> None:
    _talk(threads, range(5))
    at = _stored(threads)[4].id
    threads.fork("t", at=at, new_id="fork").result()
    _talk(threads, range(5, 8), "fork")
    threads.fork("fork", new_id="fork of fork").result()
    _talk(threads, range(8, 10), "fork of fork")
    threads.rewind("t", at).result()
    _talk(threads, range(10, 12))
    threads.import_(threads.export("fork").result(), thread_id="imported").result()
    for thread_id in ("t", "fork", "fork of fork", "imported"):
        for limit in (2, 3, 50):
            assert _joined(_pages(threads, limit, thread_id)) == _stored(threads, thread_id), (thread_id, limit)


def test_pages_are_of_the_moment_of_the_first_one_whatever_is_written_meanwhile(threads: Threads) -> None:
    _talk(threads, range(6))
    stored = _stored(threads)
    last = threads.messages("t", limit=5).result()
    _talk(threads, range(6, 8))
    threads.rewind("t", stored[1].id).result()
    _talk(threads, range(8, 9))
    rest, before = list[Message](), last.before
    while before is not None:
        page = threads.messages("t", limit=5, before=before).result()
        assert page.messages
        rest, before = [*page.messages, *rest], page.before
    assert [*rest, *last.messages] == stored


def test_another_owner_has_no_pages_of_a_thread_nor_has_anybody_of_one_that_was_deleted(threads: Threads) -> None:
    _talk(threads, range(3), owner="ann")
    before = threads.messages("t", limit=2, owner="ann").result().before
    assert before is not None
    for owner, place in (("bob", None), ("bob", before), ("", None)):
        with pytest.raises(UsageError, match="there is no thread 't'"):
            threads.messages("t", before=place, owner=owner).result()
    assert threads.delete("t", owner="ann").result()
    with pytest.raises(UsageError, match="there is no thread 't'"):
        threads.messages("t", before=before, owner="ann").result()
    _talk(threads, range(1), owner="ann")
    with pytest.raises(UsageError, match="before= is of another thread than 't', or of one that was deleted since"):
        threads.messages("t", before=before, owner="ann").result()


@pytest.mark.parametrize("before", ["", "1", "1-2-3", "-1-2", "1-2\n", "1e3-2", 7, "0" * 20 + "-1"])
def test_what_is_no_cursor_is_refused(before: Any) -> None:
    with Store() as store, pytest.raises(UsageError, match="before= takes the `before` of a page of messages, not"):
        _ = store.threads.messages("t", before=before)


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3"])
def test_a_limit_is_a_number_of_messages(limit: Any) -> None:
    with Store() as store, pytest.raises(UsageError, match="limit= is a number of messages from 0 up"):
        _ = store.threads.messages("t", limit=limit)


def test_a_page_of_no_messages_ends_where_the_thread_does(threads: Threads) -> None:
    _talk(threads, range(2))
    page = threads.messages("t", limit=0).result()
    assert not page.messages
    assert [*threads.messages("t", before=page.before).result().messages] == _stored(threads)


# --- any log


def _edited(messages: list[Message], draw: random.Random) -> list[Message]:
    """Return messages that grew, went, came at some place, or changed otherwise."""
    edited, name = [*messages], f"{draw.random()}"
    at = draw.randint(0, len(edited))
    match draw.randrange(6):
        case 0 if edited:
            del edited[at - 1 : at + draw.randrange(3)]
        case 1:
            edited.insert(at, ToolMessage(id=name, tool_call_id=name, content="seen"))
        case 2 | 3:
            edited += [UserMessage(id=f"{name}{each}", content="Hi") for each in range(draw.randint(1, 4))]
        case _:
            call = ToolCall(id=name, function=FunctionCall(name="f", arguments=""))
            edited.append(AssistantMessage(id=name, content="", tool_calls=[call]))
    for place, each in enumerate(edited):
        if isinstance(each, AssistantMessage) and each.tool_calls and draw.random() < 0.3:
            function = each.tool_calls[0].function
            calls = [
                each.tool_calls[0].model_copy(
                    update={"function": FunctionCall(name="f", arguments=f"{function.arguments}x")}
                )
            ]
            edited[place] = each.model_copy(update={"content": f"{each.content}é", "tool_calls": calls})
    return edited


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(8))
async def test_pages_are_whole_in_whatever_order_messages_came_grew_and_went(seed: int) -> None:
    draw, store, messages = random.Random(seed), MemoryStore(), list[Message]()
    number = await store.lease("", "t", 60)
    assert number is not None
    count = 0
    async with Store(store) as opened:
        for _ in range(40):
            before_it, messages = messages, _edited(messages, draw)
            old, new = ({**empty_members(), "messages": each} for each in (before_it, messages))
            if (entry := entry_of(old, new, count + 1)) is None:
                continue
            assert await store.append("", ThreadInfo("t", "", _NOW, _NOW, len(messages)), entry, number, count)
            count += 1
            limit = draw.randint(1, 5)
            before, found = None, list[Message]()
            while True:
                page = await opened.threads.messages("t", limit=limit, before=before)
                assert page.messages or not messages
                found, before = [*page.messages, *found], page.before
                if before is None:
                    break
            assert found == messages


@pytest.mark.anyio
async def test_a_thread_with_fewer_messages_than_its_description_says_is_damaged() -> None:
    store = MemoryStore()
    number = await store.lease("", "t", 60)
    entry = entry_of(empty_members(), {**empty_members(), "messages": [UserMessage(id="m", content="Hi")]}, 1)
    assert number is not None
    assert entry is not None
    assert await store.append("", ThreadInfo("t", "", _NOW, _NOW, 3), entry, number, 0)
    async with Store(store) as opened:
        with pytest.raises(ThreadStoreError, match="fewer messages than its description says"):
            await opened.threads.messages("t")


@pytest.mark.anyio
async def test_a_page_is_of_one_thread_also_if_another_is_made_of_its_name_meanwhile() -> None:
    class Remade(MemoryStore):
        """A store whose thread is made anew behind the first read."""

        async def read_latest(self, owner: str, thread_id: str, limit: int, end: int | None = None) -> Any:
            found = await super().read_latest(owner, thread_id, limit, end)
            if end is None:
                await _fill(self, "new", datetime(2026, 1, 2, tzinfo=UTC))
            return found

    store = Remade()
    await _fill(store, "old", _NOW)
    async with Store(store) as opened:
        with pytest.raises(UsageError, match="there is no thread 't'"):
            await opened.threads.messages("t", limit=20)


async def _fill(store: MemoryStore, name: str, created_at: datetime) -> None:
    """Make a thread of 20 messages, each of which has two entries."""
    await store.delete_all("")
    number = await store.lease("", "t", 60)
    assert number is not None
    messages, old = list[Message](), empty_members()
    for count in range(40):
        begun = AssistantMessage(id=f"{name}{count // 2}", content="Hi")
        messages = (
            [*messages, begun] if count % 2 == 0 else [*messages[:-1], begun.model_copy(update={"content": "Hi!"})]
        )
        new = {**empty_members(), "messages": messages}
        entry = entry_of(old, new, count + 1)
        assert entry is not None
        assert await store.append("", ThreadInfo("t", "", created_at, _NOW, len(messages)), entry, number, count)
        old = new


# --- what it costs


def _costs(threads: Threads, pages: int) -> list[tuple[int, int]]:
    """Return the statements and the entries that each of some pages reads."""
    store: Any = threads._store
    read_latest, entries, costs, before = store.read_latest, list[int](), list[tuple[int, int]](), None

    async def count(*args: Any) -> Any:
        found = await read_latest(*args)
        entries.append(len(found.entries))
        return found

    store.read_latest = count
    for _ in range(pages):
        entries.clear()
        with counted() as statements:
            before = threads.messages("t", limit=8, before=before).result().before
        costs.append((statements["statements"], sum(entries)))
    del store.read_latest
    return costs


def test_a_page_costs_the_same_in_a_thread_that_is_four_times_as_long(threads: Threads) -> None:
    _talk(threads, range(9))
    short = _costs(threads, 2)
    _talk(threads, range(9, 36))
    long = _costs(threads, 6)
    assert long[:2] == short
    # Nor does a page cost more the farther back it is.
    assert max(long) == max(short)
    # The row of the thread, its line, and the entries of the page.
    assert max(long) == (0 if isinstance(threads._store, MemoryStore) else 3, 16)
