"""A turn of a durable run in a stored thread: `killed_turn.py DATABASE-URL FOLDER AGENT COMMIT [SIGNAL]`.

The program begins the turn, and kills itself behind a commit of it, or stops itself if the signal is SIGSTOP; 0 is
for none, and -1 to go on with the turn of a program that was killed. It answers what the turn asks. Commits of
nothing, or of signs of life alone, do not count. At its end it prints the number of commits and the statuses of the
runs. Each call of a tool writes its id to the file `calls` of the folder.

An agent of the name `STORY,TEAM,WAY` has a story of `cut_calls`; who answers is a function of the agent ("handlers"),
whoever has the id of the run ("answers"), or a page ("page"). What happens outside is in the file `happened`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from sqlalchemy import Engine, event
from sqlalchemy.engine.default import DefaultDialect

from agui_client import AbstractAgent, Approve, FunctionAgent, HttpAgent, Resolve, ToolContext, UsageError, tool
from agui_client.asgi import agent_app
from agui_client.store import RunInfo, Store
from agui_client.store._runs import database_keeper
from agui_client.teams import SequentialAgent

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.cut_calls import ROUNDS, TEAMS, Caller, World, decision, own_id, payees_in

database_keeper._BEAT, LEASE = 0.05, 0.5
URL, FOLDER, AGENT, COMMIT = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
SIGNAL = signal.Signals[(*sys.argv, "SIGKILL")[5]]


class Commits:
    """Counts the commits of this process from a moment on, and kills it behind one."""

    def __init__(self) -> None:
        self.count, self.is_counting = 0, False
        self._writing = set[int]()
        event.listen(Engine, "before_cursor_execute", self._note)
        commit: Any = DefaultDialect.do_commit

        def do_commit(dialect: Any, connection: Any) -> None:
            commit(dialect, connection)
            self._committed(connection.dbapi_connection)

        DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]

    def _note(self, connection: Any, _: Any, statement: str, *__: Any) -> None:
        words = statement.split(None, 1)
        if words[0].lower() in ("insert", "update", "delete", "with") and "agui_processes" not in words[1][:40]:
            self._writing.add(id(connection.connection.dbapi_connection))

    def _committed(self, connection: Any) -> None:
        if id(connection) in self._writing and self.is_counting:
            self.count += 1
            if self.count == COMMIT:
                os.kill(os.getpid(), SIGNAL)
        self._writing.discard(id(connection))


def paid(ctx: ToolContext) -> str:
    """Pay."""
    with (FOLDER / "calls").open("a") as calls:
        calls.write(f"{ctx.tool_call_id}\n")
    return "paid"


TOOLS = [tool(paid, name="pay"), tool(paid, name="pay_if_approved", approval="always")]


def speaking(name: str, tool_name: str = "") -> FunctionAgent:
    """An agent that says its name, calls a tool if it has one, and says that it is done."""

    async def speak(asked: RunAgentInput) -> AsyncGenerator[Event]:
        own = [each for each in asked.messages if each.role == "assistant" and name in str(each.content)]
        yield RunStartedEvent(thread_id=asked.thread_id, run_id=asked.run_id)
        message_id = f"{name}-{len(own)}"
        yield TextMessageStartEvent(message_id=message_id)
        for delta in (name, " is done. " if own or not tool_name else " calls. "):
            yield TextMessageContentEvent(message_id=message_id, delta=delta)
        yield TextMessageEndEvent(message_id=message_id)
        if tool_name and not own:
            yield ToolCallStartEvent(
                tool_call_id=f"call-{name}", tool_call_name=tool_name, parent_message_id=message_id
            )
            yield ToolCallArgsEvent(tool_call_id=f"call-{name}", delta="{}")
            yield ToolCallEndEvent(tool_call_id=f"call-{name}")
        yield RunFinishedEvent(thread_id=asked.thread_id, run_id=asked.run_id)

    return FunctionAgent(speak, agent_id=name, tools=TOOLS)


AGENTS: dict[str, AbstractAgent[Any]] = {
    "plain": speaking("a"),
    "tool": speaking("a", "pay"),
    "approval": speaking("a", "pay_if_approved"),
    "served": speaking("a", "pay"),
    "team": SequentialAgent(speaking("a"), speaking("b", "pay"), agent_id="team"),
}


class Lasting(World):
    """What happens outside of the programs, in a file that outlives them."""

    def note(self, kind: str, key: str) -> None:
        with (FOLDER / "happened").open("a") as happened:
            happened.write(f"{kind} {key}\n")


async def answer_run(store: Store, waiting: RunInfo, world: World) -> None:
    """Answer all that a run waits for, by its id."""
    found = await store.threads.get("t")
    assert found is not None
    payees, answers = payees_in(found.conversation), dict[str, Any]()
    for each in waiting.interrupts:
        payee = payees.get(own_id(each.tool_call_id or ""), "")
        world.note("asked", payee or each.message or "")
        answers[each.id] = decision(payee) if payee else Resolve("Rome")
    # The other program may have answered just now.
    with suppress(UsageError):
        await store.runs.answer(waiting.run_id, answers)
        for each in waiting.interrupts:
            world.note("given", payees.get(own_id(each.tool_call_id or ""), "") or each.message or "")


async def tell(story: str, team: str, way: str) -> None:
    """Carry a story out."""
    world = Lasting(has_handlers=way == "handlers")
    agent, commits, store = TEAMS[team](world, ROUNDS[story]), Commits(), Store(URL, lease=LEASE)
    store.runs.add("helper", lambda thread_id: store.threads.open(thread_id, agent, wait=0))
    app = agent_app(agent, store=store, owner_of=lambda _: "", name="served", secret="one for all processes of it")
    async with asyncio.timeout(30), store:
        await store.threads.list()
        commits.is_counting = True
        if way == "page":
            page = HttpAgent("http://app/", app=app, connect_url="http://app/connect", thread_id="t")
            if COMMIT < 0 and await store.runs.list():
                await page.connect_agent()
            await Caller(world, is_patient=False).run(page, None if page.messages else "Hi")
        elif COMMIT >= 0 or not await store.runs.list():
            await store.runs.start("helper", "Hi", run_id="r", thread_id="t")
        answered = set[str]()
        while found := [each for each in await store.runs.list() if each.status in ("running", "waiting")]:
            for each in found:
                # A run waits until another one has begun with its answer.
                if each.status == "waiting" and way == "answers" and each.run_id not in answered:
                    answered.add(each.run_id)
                    await answer_run(store, each, world)
            await asyncio.sleep(0.01)
        found = await store.runs.list()
    print(commits.count, *sorted(each.status for each in found))  # noqa: T201


async def main() -> None:
    """Carry the turn out."""
    store, commits = Store(URL, lease=LEASE), Commits()
    threads = store.threads
    store.runs.add("helper", lambda thread_id: threads.open(thread_id, AGENTS[AGENT], wait=0))
    app = agent_app(AGENTS[AGENT], store=store, owner_of=lambda _: "", name="served")
    async with asyncio.timeout(30), store:
        await threads.list()
        commits.is_counting = True
        if COMMIT >= 0:
            if AGENT == "served":
                await HttpAgent("http://app/", app=app, thread_id="t").run_agent("Go.", run_id="r")
            else:
                await store.runs.start("helper", "Go.", run_id="r", thread_id="t")
        while True:
            found = await store.runs.list()
            if all(each.status != "running" for each in found):
                waiting = next((each for each in found if each.status == "waiting"), None)
                if waiting is None:
                    break
                # The other program may have answered just now.
                with suppress(UsageError):
                    await store.runs.answer(waiting.run_id, {each.id: Approve() for each in waiting.interrupts})
            await asyncio.sleep(0.01)
    print(commits.count, *sorted(f"{each.run_id == 'r'}:{each.status}" for each in found))  # noqa: T201


asyncio.run(tell(*AGENT.split(",")) if "," in AGENT else main())
