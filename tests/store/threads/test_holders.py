"""Holders of one thread in several processes: every turn is there, and one that was stopped too long writes nothing."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from agui_client import UsageError
from agui_client.store import MemoryStore, Store, StoreCall, Threads, ThreadStore
from agui_client.testing import ScriptedAgent, text, turn
from support.programs import STRICT, Program
from support.stores import sql_store
from support.waiting import LIMIT

HAMMER = """
import sys
from agui_client.testing import ScriptedAgent, text, turn
from agui_client.store import Store, Threads

url, name, count = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with Store(url) as store:
    threads = store.threads
    for number in range(int(count)):
        with threads.open("t", ScriptedAgent(turn(text("Yes.", message_id=f"{name}{number}"))), wait=60) as agent:
            agent.run_agent_sync(f"{name} {number}")
print("done")
"""
STOPPED = """
import sys
from agui_client import ThreadBusyError
from agui_client.testing import ScriptedAgent, text, turn
from agui_client.store import Store, Threads
from agui_client.store._threads import opened

# Stopped in the middle of a renewal, it would have SQLite's only lock for writers.
opened._RENEWALS = 0.001
with Store(sys.argv[1], lease=0.3) as store:
    threads = store.threads
    try:
        with threads.open("t", ScriptedAgent(turn(text("Mine.")))) as agent:
            agent.run_agent_sync("first")
            print("open", flush=True)
            sys.stdin.readline()
            agent.run_agent_sync("second")
    except ThreadBusyError as error:
        print(error)
"""


def test_two_processes_that_hammer_one_thread_lose_no_turn(tmp_path: Path) -> None:
    url, count = f"sqlite:///{tmp_path}/threads.db", 4
    with (
        Program("-c", HAMMER, url, "a", str(count), flags=STRICT, stdin=subprocess.PIPE) as a,
        Program("-c", HAMMER, url, "b", str(count), flags=STRICT, stdin=subprocess.PIPE) as b,
    ):
        for each in (a, b):
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        told = [each.communicate("go\n", 60) for each in (a, b)]
        assert (told, a.wait(), b.wait()) == ([("done\n", "")] * 2, 0, 0)
    with Store(url) as store:
        threads = store.threads
        found = threads.get("t").result()
    assert found is not None
    messages = found.conversation.messages
    prompts = [str(each.content) for each in messages[::2]]
    assert sorted(prompts) == sorted(f"{name} {number}" for name in "ab" for number in range(count))
    assert [each.id for each in messages[1::2]] == [prompt.replace(" ", "") for prompt in prompts]
    for name in "ab":
        assert [each for each in prompts if each[0] == name] == [f"{name} {number}" for number in range(count)]


def test_a_holder_that_was_stopped_past_its_lease_writes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/threads.db"
    with Program("-c", STOPPED, url, flags=STRICT, stdin=subprocess.PIPE) as program, Store(url) as store:
        threads = store.threads
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
        program.send_signal(signal.SIGSTOP)
        with threads.open("t", ScriptedAgent(turn(text("Theirs."))), wait=3 * LIMIT) as agent:
            program.send_signal(signal.SIGCONT)
            told, complaints = program.communicate("go\n", 60)
            agent.run_agent_sync("their own")
        found = threads.get("t").result()
    assert ("taken over by another block" in told, "Traceback" in complaints) == (True, False)
    assert found is not None
    assert [each.content for each in found.conversation.messages] == ["first", "Mine.", "their own", "Theirs."]


def _methods(threads: Threads, thread_id: str, message_id: str, owner: str) -> list[Callable[[], StoreCall[Any]]]:
    return [
        lambda: threads.get(thread_id, owner=owner),
        lambda: threads.list(owner=owner),
        lambda: threads.fork(thread_id, owner=owner),
        lambda: threads.fork(thread_id, at=message_id, new_id=f"{thread_id} of {owner}", owner=owner),
        lambda: threads.rewind(thread_id, message_id, owner=owner),
        lambda: threads.export(thread_id, "jsonl", owner=owner),
        lambda: threads.delete(thread_id, owner=owner),
    ]


_NAMES = st.one_of(
    st.sampled_from(["", "ann", "Ann", "ann ", "ánn", "a\u0301nn", "%", "_nn", "ann'--", "ann\n"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=settings().max_examples // 3)
@given(owner=_NAMES, other=_NAMES, moves=st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=8))
def test_an_owner_reaches_no_thread_of_another_by_any_method(
    kind: str, owner: str, other: str, moves: list[tuple[bool, int]]
) -> None:
    store: ThreadStore = MemoryStore() if kind == "memory" else sql_store("sqlite://")
    agent = ScriptedAgent(turn(text("Secret.", message_id="m1")))
    with Store(store) as whole:
        threads = whole.threads
        with threads.open("t", agent, owner=owner) as opened:
            opened.run_agent_sync("Prompt")
        before = threads.get("t", owner=owner).result()
        assert before is not None
        if other == owner:
            return
        for is_opened, choice in moves:
            if is_opened and choice == 7:
                with threads.open("t", agent, owner=other) as theirs:
                    assert "Secret." not in [each.content for each in theirs.messages]
                    theirs.state = {"theirs": True}
                    theirs.add_message({"role": "user", "content": "theirs"})
                continue
            got = ""
            with suppress(UsageError):
                got = str(_methods(threads, "t", "m1", other)[choice % 7]().result())
            assert "Secret." not in got
            assert threads.get("t", owner=owner).result() == before
        assert [each.thread_id for each in threads.list(owner=owner).result()] == ["t"]
        assert threads.get("t", owner=owner).result() == before
