"""Threads that were saved before entries and documents had version 2; `make_threads.py` beside them says how."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra threads: pip install 'agui-client[threads]'")
from ag_ui.core import Message, Tool

from agui_client import AbstractAgent, Approve, ConversationSnapshot, FunctionTool, Resolve, ToolContext, tool
from agui_client.testing import ScriptedAgent, text, turn
from agui_client.threads import Threads

FIXTURES = Path(__file__).parents[1] / "fixtures" / "first_version"
FACTS: dict[str, dict[str, Any]] = json.loads((FIXTURES / "threads.json").read_text("utf-8"))
"""What the package that saved the threads showed of them."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "threads.db")) as connection:
        connection.executescript((FIXTURES / "threads.sql").read_text("utf-8"))
        yield connection


@pytest.fixture
def threads(database: sqlite3.Connection, tmp_path: Path) -> Iterator[Threads]:
    with Threads(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


def entry_count(database: sqlite3.Connection) -> int:
    (count,) = database.execute("select count(*) from agui_entries").fetchone()
    return int(count)


def plain(messages: list[Message]) -> list[dict[str, Any]]:
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in messages]


def shown(agent: AbstractAgent) -> dict[str, Any]:
    return {
        "messages": plain(agent.messages),
        "state": agent.state,
        "pending_tool_calls": [each.id for each in agent.pending_tool_calls],
        "unknown_tool_calls": [each.id for each in agent.unknown_tool_calls],
        "pending_interrupts": [each.id for each in agent.pending_interrupts],
        "incomplete_ids": agent.incomplete_ids,
    }


class Tools:
    """The tools of the threads, and the calls of their functions."""

    def __init__(self) -> None:
        self.called: list[Any] = []

        @tool
        def look(place: str) -> str:
            """Looks at a place."""
            self.called.append(("look", place))
            return f"{place} is quiet"

        @tool
        def stop(amount: int) -> str:
            """Ends the program in the middle of its work."""
            self.called.append(("stop", amount))
            return "stopped"

        @tool(approval="always")
        def pay(amount: int) -> str:
            """Pays."""
            self.called.append(("pay", amount))
            return f"paid {amount}"

        @tool
        async def book(ctx: ToolContext, seats: int) -> str:
            """Books, and asks for a name."""
            self.called.append(("book", seats, ctx.left))
            return f"{seats} seats for {await ctx.ask('Which name?')}"

        self.all: list[Tool | FunctionTool[..., Any]] = [look, stop, pay, book]


def agent_with(tools: Tools) -> ScriptedAgent:
    return ScriptedAgent(turn(text("Done.", message_id="z")), tools=tools.all)


def results_of(agent: AbstractAgent) -> dict[str, Any]:
    return {each.tool_call_id: each.content for each in agent.messages if each.role == "tool"}


@pytest.mark.parametrize("thread_id", FACTS)
def test_a_thread_shows_what_it_showed(thread_id: str, threads: Threads, database: sqlite3.Connection) -> None:
    fact, tools = FACTS[thread_id], Tools()
    block = threads.open(thread_id, agent_with(tools))
    with block as agent:
        assert shown(agent) == {name: fact[name] for name in shown(agent)}
        cut_off = None if block.cut_off is None else [block.cut_off.run_id, len(block.cut_off.resume)]
        assert cut_off == fact["cut_off"]
    count = entry_count(database)
    with threads.open(thread_id, agent_with(tools)) as again:
        assert shown(again) == {name: fact[name] for name in shown(again)}
    assert entry_count(database) == count
    assert tools.called == []


@pytest.mark.parametrize("thread_id", FACTS)
def test_a_document_shows_what_it_showed(thread_id: str) -> None:
    fact = FACTS[thread_id]
    document = ConversationSnapshot.model_validate_json(json.dumps(fact["snapshot"]))
    agent = ScriptedAgent(turn())
    agent.restore(document)
    assert shown(agent) == {name: fact[name] for name in shown(agent)}
    assert agent.snapshot().model_dump() == document.model_dump()
    again = ScriptedAgent(turn())
    again.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    assert shown(again) == shown(agent)


@pytest.mark.parametrize("thread_id", ["plain", "fork", "rewound"])
def test_a_conversation_goes_on(thread_id: str, threads: Threads) -> None:
    agent = ScriptedAgent(turn(text("Good.", message_id="z")))
    with threads.open(thread_id, agent) as opened:
        assert opened.run_agent_sync("And then?").text == "Good."
    assert plain(list(agent.inputs[0].messages))[:-1] == FACTS[thread_id]["messages"]
    with threads.open(thread_id, agent) as again:
        assert plain(again.messages)[:-2] == FACTS[thread_id]["messages"]
        assert [each.content for each in again.messages[-2:]] == ["And then?", "Good."]
        assert again.state == FACTS[thread_id]["state"]


def test_a_thread_is_forked_and_rewound_within_the_entries_of_the_first_version(threads: Threads) -> None:
    agent = ScriptedAgent(turn(text("Good.", message_id="z")))
    with threads.open("plain", agent) as opened:
        opened.run_agent_sync("And then?")
    new_id = threads.fork("plain", at="a2").result()
    threads.rewind("plain", "a1").result()
    before = FACTS["plain"]["messages"]
    with threads.open(new_id, agent) as fork, threads.open("plain", agent) as rewound:
        assert (plain(fork.messages), fork.state) == (before[:4], {"city": "Oslo", "plan": ["opera", "ferry"]})
        assert (plain(rewound.messages), rewound.state) == (before[:2], {"city": "Oslo", "plan": ["opera"]})


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_an_exported_thread_is_imported(form: str, threads: Threads) -> None:
    exported = (FIXTURES / f"export.{form}").read_text("utf-8")
    with threads.open(threads.import_(exported, thread_id="copy").result(), ScriptedAgent(turn())) as copy:
        assert shown(copy) == {name: FACTS["plain"][name] for name in shown(copy)}
    again = threads.import_(threads.export("copy", "json").result(), thread_id="again").result()
    with threads.open(again, ScriptedAgent(turn())) as opened:
        assert plain(opened.messages) == FACTS["plain"]["messages"]


def test_a_tool_that_was_killed_is_not_called_again_and_the_result_beside_it_is_kept(threads: Threads) -> None:
    tools = Tools()
    agent = agent_with(tools)
    with threads.open("killed", agent) as opened:
        assert opened.run_agent_sync(tool_results={"c2": "It has paid."}).text == "Done."
        assert results_of(opened) == {"c1": "Oslo is quiet", "c2": "It has paid."}
    with threads.open("killed", agent) as again:
        assert results_of(again) == {"c1": "Oslo is quiet", "c2": "It has paid."}
        assert (again.pending_tool_calls, again.unknown_tool_calls) == ([], [])
    assert tools.called == []


def test_a_result_that_no_agent_got_is_sent(threads: Threads) -> None:
    tools = Tools()
    agent = agent_with(tools)
    with threads.open("unheard", agent) as opened:
        assert opened.run_agent_sync().text == "Done."
        assert results_of(opened) == {"c1": "Oslo is quiet"}
    assert [each.role for each in agent.inputs[0].messages] == ["user", "assistant", "tool"]
    assert tools.called == []


def test_a_waiting_call_is_approved_and_runs_once(threads: Threads) -> None:
    tools = Tools()
    agent = agent_with(tools)
    with threads.open("approval", agent) as opened:
        assert opened.run_agent_sync(tool_results={"c1": Approve()}).text == "Done."
        assert results_of(opened) == {"c1": "paid 3"}
    with threads.open("approval", agent) as again:
        assert (results_of(again), again.pending_tool_calls) == ({"c1": "paid 3"}, [])
    assert tools.called == [("pay", 3)]


def test_a_question_of_a_tool_is_answered(threads: Threads) -> None:
    tools = Tools()
    agent = agent_with(tools)
    with threads.open("question", agent) as opened:
        (asked,) = opened.pending_interrupts
        assert opened.run_agent_sync(resume={asked.id: Resolve("Ada")}).text == "Done."
        assert results_of(opened) == {"c1": "2 seats for Ada"}
    with threads.open("question", agent) as again:
        assert (results_of(again), again.pending_interrupts) == ({"c1": "2 seats for Ada"}, [])
    assert tools.called == [("book", 2, {"held": 2})]


@pytest.mark.parametrize(
    ("thread_id", "asked", "sent"),
    [("interrupted", "i1", {"i1": "no"}), ("kept", "i2", {"i1": "yes", "i2": "no"}), ("sent", "i1", {"i1": "no"})],
)
def test_an_interrupt_is_answered_with_the_answers_that_were_kept(
    thread_id: str, asked: str, sent: dict[str, str], threads: Threads
) -> None:
    agent = ScriptedAgent(turn(text("Done.", message_id="z")))
    with threads.open(thread_id, agent) as opened:
        assert opened.run_agent_sync(resume={asked: Resolve("no")}).text == "Done."
    assert {each.interrupt_id: each.payload for each in agent.inputs[0].resume or ()} == sent
    with threads.open(thread_id, agent) as again:
        assert (again.pending_interrupts, again.snapshot().kept_answers) == ([], [])


def test_a_run_that_was_cut_off_goes_on_and_its_half_call_is_not_executed(threads: Threads) -> None:
    tools = Tools()
    agent = agent_with(tools)
    with threads.open("cut", agent) as opened:
        assert opened.run_agent_sync(tool_results={"c1": "never mind"}).text == "Done."
    with threads.open("cut", agent) as again:
        assert results_of(again) == {"c1": "never mind"}
        assert again.pending_tool_calls == []
    assert tools.called == []


@pytest.mark.parametrize("thread_id", ["killed", "unheard", "approval", "cut"])
def test_no_function_is_called_for_a_prompt_that_leaves_the_calls_unanswered(thread_id: str, threads: Threads) -> None:
    tools = Tools()
    agent = agent_with(tools)
    with threads.open(thread_id, agent) as opened:
        assert opened.run_agent_sync("Never mind.").text == "Done."
    (sent,) = agent.inputs
    calls = {call.id for each in sent.messages if each.role == "assistant" for call in each.tool_calls or ()}
    assert {each.tool_call_id for each in sent.messages if each.role == "tool"} == calls
    assert tools.called == []
