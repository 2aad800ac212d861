"""What a turn costs in a long thread: it reads only what came since this process had it open, whoever wrote that."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
from agui_client import FunctionTool, tool
from agui_client._core.protocol import message_index
from agui_client.store import LeasedThread, MemoryStore, Store, ThreadStore
from agui_client.store._threads import known_logs
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.postgres import PostgresServer
from support.stores import sql_store

NewStore = Callable[[], Store]
_read: list[int] = []
"""The number of entries that each opening of a block has read."""


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Makes stores on one database, each as a process of its own has it."""
    made, memory, url = list[Store](), MemoryStore(), f"sqlite:///{tmp_path}/threads.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        url = f"postgresql://{server.new_database()}"

    def new() -> Store:
        made.append(Store(_counted(memory if request.param == "memory" else sql_store(url))))
        return made[-1]

    _read.clear()
    yield new
    for each in made:
        each.close()


def _counted(store: ThreadStore) -> ThreadStore:
    """Have a store count the entries that it returns with a lease."""
    lease_and_read = type(store).lease_and_read.__get__(store)

    async def count(*args: Any, **about: Any) -> LeasedThread | None:
        """Count what was read."""
        taken: LeasedThread | None = await lease_and_read(*args, **about)
        _read.append(0 if taken is None or taken.found is None else len(taken.found[1]))
        return taken

    store.lease_and_read = count  # type: ignore[method-assign]
    return store


@pytest.fixture(autouse=True)
def _tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have messages found as those of long threads are."""
    monkeypatch.setattr(message_index, "_FEW", 0)


def _said(store: Store, prompt: str = "Hi", thread_id: str = "t") -> list[Any]:
    """Carry out a turn; return the contents of the messages that the thread has then."""
    with store.threads.open(thread_id, ScriptedAgent(turn(text("Yes.")))) as agent:
        agent.run_agent_sync(prompt)
        return [each.content for each in agent.messages]


def test_a_turn_reads_what_the_turn_before_it_has_written_however_long_the_thread_is(new_store: NewStore) -> None:
    store = new_store()
    contents = [_said(store, f"{number}") for number in range(40)][-1]
    assert contents == [each for number in range(40) for each in (f"{number}", "Yes.")]
    assert max(_read[20:]) == max(_read[2:10])
    assert sum(_read) < 40 * 5


def test_what_another_process_has_written_is_read_on(new_store: NewStore) -> None:
    here, there = new_store(), new_store()
    for number in range(4):
        _said(here, f"here {number}")
        _said(there, f"there {number}")
    expected = [f"{where} {number}" for number in range(4) for where in ("here", "there")]
    assert _said(here, "last")[::2] == [*expected, "last"]
    assert max(_read) < 10


def test_a_rewind_by_another_process_is_seen(new_store: NewStore) -> None:
    here, there = new_store(), new_store()
    for prompt in ("one", "two", "three"):
        _said(here, prompt)
    saved = there.threads.get("t").result()
    assert saved is not None
    there.threads.rewind("t", saved.conversation.messages[1].id).result()
    assert _said(here, "four") == ["one", "Yes.", "four", "Yes."]


def test_a_thread_that_another_process_has_deleted_and_made_again_is_another_thread(new_store: NewStore) -> None:
    here, there = new_store(), new_store()
    _said(here, "one")
    _said(here, "two")
    assert there.threads.delete("t").result()
    assert _said(here, "three") == ["three", "Yes."]
    assert there.threads.delete("t").result()
    for prompt in ("a", "b", "c"):
        _said(there, prompt)
    assert _said(here, "four")[::2] == ["a", "b", "c", "four"]


def test_a_fork_begins_with_what_it_shares_and_both_go_on_by_themselves(new_store: NewStore) -> None:
    here, there = new_store(), new_store()
    _said(here, "one")
    _said(here, "two")
    there.threads.fork("t", new_id="fork").result()
    assert _said(here, "of the fork", "fork")[::2] == ["one", "two", "of the fork"]
    assert _said(there, "of the other", "fork")[::2] == ["one", "two", "of the fork", "of the other"]
    assert _said(here, "three")[::2] == ["one", "two", "three"]
    assert _said(here, "last", "fork")[::2] == ["one", "two", "of the fork", "of the other", "last"]


@pytest.mark.parametrize("new_store", ["sqlite", "postgresql"], indirect=True)
def test_a_database_that_was_set_back_and_has_gone_on_is_read_anew(new_store: NewStore) -> None:
    from sqlalchemy import delete, select, update

    from agui_client.store._sql.tables import ENTRIES, THREADS

    here, there = new_store(), new_store()
    _said(here, "one")
    database: Any = there.threads._store
    _said(here, "two")
    known = here.threads._service.known.get("", "t")
    assert known is not None
    kept = known.log.count
    _said(here, "three")

    def set_back(db: Any) -> None:
        """Restore the backup that was made before the last two turns."""
        db.execute(delete(ENTRIES).where(ENTRIES.c.number > kept))
        db.execute(update(THREADS).values(entry_count=kept))
        assert db.execute(select(THREADS.c.entry_count)).scalar_one() == kept

    there.threads._loop.call(lambda: database._reach(lambda: database._database.write(set_back))).result()
    assert _said(there, "another two")[::2] == ["one", "another two"]
    assert _said(here, "another three")[::2] == ["one", "another two", "another three"]


def test_a_process_keeps_no_more_than_so_much_and_nothing_of_deleted_threads(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    known = store.threads._service.known
    for name in ("a", "b", "c"):
        _said(store, "one", name)
        _said(store, "two", name)
    size = known._size
    assert [each for _, each in known._logs] == ["a", "b", "c"]
    monkeypatch.setattr(known_logs, "_MOST_CHARACTERS", size + size // 6)
    assert _said(store, "three", "a")[::2] == ["one", "two", "three"]
    assert [each for _, each in known._logs] == ["c", "a"]
    assert _said(store, "three", "b")[::2] == ["one", "two", "three"]
    store.threads.delete("b").result()
    assert "b" not in [each for _, each in known._logs]
    store.threads.delete(owner="").result()
    assert (known._logs, known._size) == ({}, 0)


class Lines:
    """Counts the lines of the package that run in threads which begin after this; loops count, and no clock does."""

    def __init__(self) -> None:
        self.count = 0

    def begin(self, frame: FrameType, what: str, detail: object) -> Any:
        """Trace the functions of the package, but for those of the scripted agent, which looks at all messages."""
        name = frame.f_code.co_filename
        return self._count if "agui_client" in name and "testing" not in name else None

    def _count(self, frame: FrameType, what: str, detail: object) -> Any:
        self.count += what == "line"
        return self._count


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Count lines in this thread and all that begin during the test."""
    lines, before, collects = Lines(), sys.gettrace(), gc.isenabled()
    # What earlier tests have left would be forgotten meanwhile, line by line.
    gc.disable()
    threading.settrace(lines.begin)
    sys.settrace(lines.begin)
    yield lines
    threading.settrace(before)  # pyright: ignore[reportArgumentType]
    sys.settrace(before)
    if collects:
        gc.enable()


@tool
def look() -> str:
    """Look."""
    return "found"


@pytest.mark.parametrize("tools", [(), (look,)], ids=["texts", "calls of tools"])
@pytest.mark.parametrize("new_store", ["memory"], indirect=True)
def test_a_turn_of_a_long_thread_runs_no_lines_for_the_turns_before_it(
    lines: Lines, new_store: NewStore, tools: tuple[FunctionTool[..., Any], ...]
) -> None:
    store = new_store()

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        """Call a tool in a run that follows a prompt, and answer in the others."""
        number = len(input.messages)
        called = tool_call("look", {}, tool_call_id=f"call-{number}")
        yield turn(called if tools and input.messages[-1].role == "user" else text("Yes.", message_id=f"{number}"))

    agent = ScriptedAgent(play)

    def work_of_last(count: int) -> int:
        """Carry out turns; return the lines that the last of them ran."""
        for _ in range(count):
            lines.count = 0
            with store.threads.open("t", agent) as opened:
                opened.run_agent_sync("Hi", tools=[*tools])
        return lines.count

    early, late = work_of_last(20), work_of_last(80)
    assert early > 0
    assert late - early < 80 * 2, "lines for the 80 turns between"
