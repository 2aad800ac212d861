"""A process that ends at any step of a turn: each story, wherever it runs, and whoever answers what it asks.

A step is a save, a write, a function that is called, a person who is asked, or a part of a server's answer. Whatever
the step, the next process asks for nothing that was saved, calls no function twice, and comes to the same end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from typing import Any

import anyio
import pytest
from ag_ui.core import ToolMessage

from agui_client import AbstractAgent, AGUIError, ConversationSnapshot, HttpAgent
from agui_client.asgi import agent_app
from agui_client.store import MemoryStore, Store
from support.cut_calls import ROUNDS, TEAMS, Caller, World, given_in, own_id, payees_in, results_in
from support.killed_server import Connection, KilledServer, Process

pytestmark = pytest.mark.anyio


class _Place(ABC):
    """Where the processes of a turn run, one after the other; what they share outlives them."""

    def __init__(self, world: World, story: str, team: str, caller: Caller) -> None:
        self.world, self.caller = world, caller
        self._story, self._team = story, team

    def begin_process(self, steps: int) -> AbstractAgent:
        """Begin a process that is killed at a step; 0 for none."""
        self.world.process = process = Process()
        process.steps = steps
        return TEAMS[self._team](self.world, ROUNDS[self._story])

    @abstractmethod
    async def run(self, steps: int) -> AbstractAgent | None:
        """Run the story; return the agent, or None if its process was killed."""

    @abstractmethod
    async def saved(self) -> ConversationSnapshot | None:
        """Return the conversation as it was saved last."""

    def answered(self, document: ConversationSnapshot) -> set[str]:
        """Return what is not asked again, by the conversation as it was saved last."""
        return given_in(document)


async def _until_killed(process: Process, work: Callable[[], Awaitable[object]]) -> bool:
    """Wait for work whose process may be killed; return whether it has come to its end."""
    is_over = False

    async def whole() -> None:
        nonlocal is_over
        await work()
        is_over = True
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(whole)
        await process.killed.wait()
        tasks.cancel_scope.cancel()
    return is_over


class _Saved(_Place):
    """A program that saves the conversation."""

    document: ConversationSnapshot | None = None

    async def run(self, steps: int) -> AbstractAgent | None:
        agent = self.begin_process(steps).save_with(self._save)
        if self.document is not None:
            agent.restore(ConversationSnapshot.model_validate_json(self.document.model_dump_json(by_alias=True)))
        prompt = None if agent.messages else "Hi"
        assert self.world.process is not None
        return agent if await _until_killed(self.world.process, lambda: self.caller.run(agent, prompt)) else None

    async def _save(self, checkpoint: Any) -> None:
        await self.world.live()
        self.document = checkpoint.snapshot()
        await self.world.live()

    async def saved(self) -> ConversationSnapshot | None:
        return self.document


class _Stored(_Place):
    """A program that stores the thread."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._memory = MemoryStore()

    async def run(self, steps: int) -> AbstractAgent | None:
        agent = self.begin_process(steps)
        process = self.world.process
        assert process is not None
        connection = Connection(self._memory, process)
        opened = list[AbstractAgent]()

        async def run() -> None:
            try:
                async with Store(connection) as store, store.threads.open("t", agent) as thread:
                    opened.append(thread)
                    await self.caller.run(thread, None if thread.messages else "Hi")
            except Exception:
                if not process.is_killed:
                    raise

        is_over = await _until_killed(process, run) and not process.is_killed
        await connection.run_out()
        return opened[0] if is_over else None

    async def saved(self) -> ConversationSnapshot | None:
        async with Store(self._memory) as store:
            found = await store.threads.get("t")
        return None if found is None else found.conversation


class _Served(_Stored):
    """A page of a server that stores its threads."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._server = KilledServer()

    async def run(self, steps: int) -> AbstractAgent | None:
        agent = self.begin_process(steps)
        process = self.world.process
        assert process is not None
        self._server.process = process
        connection = Connection(self._memory, process)
        urls = {"connect_url": "http://team/connect"}
        page = HttpAgent("http://team/", app=self._server, thread_id="t", **urls)  # type: ignore[arg-type]
        async with Store(connection) as store:
            self._server.app = agent_app(
                lambda _, input: store.threads.open(input.thread_id, agent), secret="of all processes of the server"
            )
            try:
                if await self.saved() is not None:
                    await page.connect_agent()
                await self.caller.run(page, None if page.messages else "Hi")
            except AGUIError:
                if not process.is_killed:
                    raise
            await connection.run_out()
        return None if process.is_killed else page

    def answered(self, document: ConversationSnapshot) -> set[str]:
        # What a failed run was to answer waits again for a page, which has no other way to have it gone on with.
        payees = payees_in(document)
        return {payees[own_id(each.tool_call_id)] for each in document.messages if isinstance(each, ToolMessage)}


_PLACES: dict[str, type[_Place]] = {"saved": _Saved, "stored": _Stored, "served": _Served}
_WAYS = {"handlers": (True, False), "the caller": (False, False), "the caller, one by one": (False, True)}


async def _carried(story: str, team: str, place: str, way: str, steps: int) -> tuple[World, list[str], list[str]]:
    """Carry a story through two processes; return what happened outside, the results, and what is wrong."""
    has_handlers, is_patient = _WAYS[way]
    world, found = World(has_handlers=has_handlers), list[str]()
    made = _PLACES[place](world, story, team, Caller(world, is_patient=is_patient))
    with anyio.fail_after(20):
        agent = await made.run(steps)
        if agent is None:
            document, before = await made.saved(), Counter(world.asked)
            given = set[str]() if document is None else made.answered(document)
            # The second question is asked when the answer to the first one is saved.
            given |= {"First?"} if has_handlers and "Second?" in before else set[str]()
            agent = await made.run(0)
            found += [f"{each} is asked again" for each in given if world.asked[each] > before[each]]
    if agent is None or agent.messages[-1].content != "Done.":
        found.append("it does not end")
    return world, [] if agent is None else results_in(agent.snapshot()), found


_SMALL = {
    *((story, "agent", "saved", "handlers") for story in ROUNDS),
    *((story, "team in a team", "saved", "handlers") for story in ("an interrupt", "a question", "a denial")),
    ("a question", "team", "saved", "the caller"),
    ("an approval", "team in a team", "saved", "the caller"),
    ("payments", "agent", "saved", "the caller, one by one"),
    ("an interrupt", "agent", "stored", "handlers"),
    ("two rounds", "agent", "stored", "the caller"),
    ("an approval", "agent", "served", "the caller"),
}
"""The cases of a normal run; the others are for a soak."""


def _cases() -> Iterator[Any]:
    for case in product(ROUNDS, TEAMS, _PLACES, _WAYS):
        # A page answers for itself.
        if case[2:] != ("served", "handlers"):
            yield pytest.param(*case, marks=() if case in _SMALL else pytest.mark.soak)


@pytest.mark.parametrize(("story", "team", "place", "way"), list(_cases()))
@pytest.mark.requirement("SEC-3", "TOOL-10", "INT-7")
async def test_at_each_step_a_turn_goes_on_in_another_process_and_asks_for_nothing_that_was_saved(
    story: str, team: str, place: str, way: str, anyio_backend: str
) -> None:
    if place == "served" and anyio_backend == "trio":
        pytest.skip("the server that is killed runs in an event loop of asyncio")
    whole, expected, found = await _carried(story, team, place, way, 0)
    assert found == []
    assert whole.process is not None
    # Behind the last step the turn is over, and another one begins anew.
    for steps in range(1, -whole.process.steps):
        world, results, wrong = await _carried(story, team, place, way, steps)
        unknown = [each for each in results if each.startswith("unknown")]
        if len(results) != len(expected) or Counter(results) - Counter([*expected, *unknown]):
            wrong.append(f"the results are {results}")
        wrong += [f"{each} is called again" for each, count in world.called.items() if count > whole.called[each]]
        found += [f"step {steps}: {each}" for each in wrong]
    assert found == []
