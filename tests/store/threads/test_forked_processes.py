"""Threads in a process that forks: the child has connections of its own, and the parent goes on undisturbed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
if not hasattr(os, "fork"):
    pytest.skip("this system does not fork", allow_module_level=True)

from support.programs import STRICT, run_program

BEGIN = """
import asyncio, gc, os, sys, threading, time, warnings
from agui_client import UsageError
from agui_client.testing import ScriptedAgent, text, turn
from agui_client.store import MemoryStore, Store
from agui_client.store._sql.database import Database
from agui_client.store._sql.threads import SQLStore

def fork():
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 and later warn about forks of processes with threads
        return os.fork()

def end(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def turns(*thread_ids):
    for thread_id in thread_ids:
        with threads.open(thread_id, ScriptedAgent(turn(text("Yes."))), wait=0) as agent:
            agent.run_agent_sync(f"Hello, {thread_id}")

def ids():
    return sorted(each.thread_id for each in threads.list().result())

"""

USED = """
store = Store(sys.argv[1])
threads = store.threads
turns("before")
if (child := fork()) == 0:
    turns("child")
    assert ids() == ["before", "child"], ids()
    if (grandchild := fork()) == 0:
        turns("grandchild")
        sys.exit(0)  # with threads that are not closed
    assert end(grandchild) == 0
    store.close()
    store.close()
    sys.exit(7)
print(end(child), ids())
turns("after")
store.close()
if (child := fork()) == 0:
    try:
        threads.list()
    except UsageError as error:
        print(error)
    sys.exit(0)
end(child)
"""


UNUSED = """
threads = Store(sys.argv[1]).threads
if (child := fork()) == 0:
    print(list(threads.list().result()))
    sys.exit(0)
print(end(child))
"""


def test_a_store_that_nobody_has_used_makes_its_tables_in_a_forked_child(tmp_path: Path) -> None:
    printed = run_program("-c", BEGIN + UNUSED, f"sqlite:///{tmp_path}/threads.db", flags=STRICT)
    assert printed == ("[]\n0\n", "", 0)


def test_threads_that_were_used_work_in_a_forked_child_and_its_child(tmp_path: Path) -> None:
    printed = run_program("-c", BEGIN + USED, f"sqlite:///{tmp_path}/threads.db", flags=STRICT)
    assert printed == (
        "7 ['before', 'child', 'grandchild']\nthe store was closed: make another Store(...)\n",
        "",
        0,
    )


def test_no_write_of_a_child_has_the_id_of_one_of_its_parent(tmp_path: Path) -> None:
    run_program("-c", BEGIN + USED, f"sqlite:///{tmp_path}/threads.db")
    with closing(sqlite3.connect(tmp_path / "threads.db")) as database:
        written = [each for (each,) in database.execute("select write_id from agui_entries")]
    assert (len(written) >= 4, len({*written})) == (True, len(written))


OPEN = """
store = Store(sys.argv[1], lease=60)
threads = store.threads
agent = ScriptedAgent(turn(text("Yes.")))
with threads.open("t", agent) as ours:
    ours.run_agent_sync("first")
    begun, unused = threads.list(), threads.open("child", agent)
    if (child := fork()) == 0:
        with unused as new:
            new.run_agent_sync("of the child")
        for use in (lambda: ours.run_agent_sync("not this"), begun.result):
            try:
                use()
            except UsageError as error:
                print(error)
        ours.add_message({"role": "user", "content": "nor this"})
        with Store(sys.argv[1]) as other:
            others = other.threads
            try:
                others.delete("t", wait=0).result()
            except Exception as error:
                print(type(error).__name__)
        store.close()
        del ours, begun, threads, store
        gc.collect()
        sys.exit(7)  # leaves the block
    print(end(child))
    ours.run_agent_sync("second")
print([each.content for each in threads.get("t").result().conversation.messages], ids())
store.close()
"""


def test_a_child_neither_saves_nor_leaves_the_blocks_of_its_parent(tmp_path: Path) -> None:
    printed, complaints, code = run_program("-c", BEGIN + OPEN, f"sqlite:///{tmp_path}/threads.db", flags=STRICT)
    is_open = "thread 't' is open in the process that this one was forked from, which continues with it"
    assert printed.splitlines() == [
        f"{is_open}; open it in this one when it is free",
        "this call was begun before the process was forked, and ends in the parent; call it again",
        "ThreadBusyError",
        "7",
        "['first', 'Yes.', 'second', 'Yes.'] ['child', 't']",
    ]
    assert (complaints, code) == ("", 0)


# With connections that a parent had open when it forked, SQLite loses what the child wrote to a log that is deleted.
CLOSED = """
store = Store(sys.argv[1])
threads = store.threads
turns("before")
closed, go_on = os.pipe(), os.pipe()
if (child := fork()) == 0:
    ids()  # opens a connection
    os.write(go_on[1], b"x")
    os.read(closed[0], 1)
    turns("child")
    os.write(go_on[1], b"x")
    os.read(closed[0], 1)
    store.close()
    sys.exit(0)
os.read(go_on[0], 1)
store.close()
os.write(closed[1], b"x")
os.read(go_on[0], 1)
store = Store(sys.argv[1])
threads = store.threads
turns("after")
os.write(closed[1], b"x")
print(end(child), ids())
store.close()
"""


def test_what_a_child_saves_on_sqlite_outlives_the_connections_of_its_parent(tmp_path: Path) -> None:
    printed = run_program("-c", BEGIN + CLOSED, f"sqlite:///{tmp_path}/threads.db", flags=STRICT)
    assert printed == ("0 ['after', 'before', 'child']\n", "", 0)


# In a child that was forked in the middle of one, SQLite would have its lock for writers for ever.
WRITING = """
from sqlalchemy import text as statement

sql = SQLStore(Database(sys.argv[1]))
store = Store(sql)
threads = store.threads
turns("before")
begun = threading.Event()

def write(database):
    database.execute(statement("update agui_threads set title = 'written'"))
    begun.set()
    time.sleep(0.1)  # in which the process begins to fork

written = threads._loop.call(lambda: sql._database.write(write))
begun.wait()
if (child := fork()) == 0:
    turns("child")
    sys.exit(7)
written.result()
print(end(child), [each.title for each in threads.list().result()])
store.close()
"""


def test_a_fork_waits_for_the_end_of_a_transaction(tmp_path: Path) -> None:
    printed = run_program("-c", BEGIN + WRITING, f"sqlite:///{tmp_path}/threads.db", flags=STRICT)
    assert printed == ("7 ['Hello, child', 'written']\n", "", 0)


MEMORY = """
class Resting(MemoryStore):
    async def before_fork(self):
        print("rests", flush=True)

    def after_fork(self, *, is_child):
        print("goes on", "in the child" if is_child else "in the parent")

store = Store(Resting())
threads = store.threads
turns("before")
if (child := fork()) == 0:
    turns("child")
    assert ids() == ["before", "child"]
    sys.exit(7)
print(end(child), ids())
store.close()
"""


def test_a_child_has_a_copy_of_threads_in_memory_and_stores_are_asked_to_rest() -> None:
    printed, complaints, code = run_program("-c", BEGIN + MEMORY, flags=STRICT)
    assert (printed.splitlines()[0], sorted(printed.splitlines()[1:]), complaints, code) == (
        "rests",
        ["7 ['before']", "goes on in the child", "goes on in the parent"],
        "",
        0,
    )


def test_each_process_has_write_ids_of_its_own() -> None:
    children = """
from agui_client.store._write_ids import new_write_id
for _ in range(2):
    if not (child := fork()):
        print(new_write_id(), flush=True)
        os._exit(0)
    end(child)
print(new_write_id())
"""
    written, complaints, code = run_program("-c", BEGIN + children, flags=STRICT)
    prefixes = {each.rpartition("-")[0] for each in written.split()}
    assert (complaints, code, len(prefixes), {len(each) for each in prefixes}) == ("", 0, 3, {32})
