"""Messages for a run that is going on (`steer`), and calls that wait for another one (`when_busy`)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from typing import Any, cast

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent, TextMessageEndEvent

from agui_client import FunctionAgent, RunFailedError, RunInProgressError, RunResult, UsageError, tool
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from agui_client.types import Next
from support.waiting import LIMIT, until_sync

pytestmark = pytest.mark.anyio


def contents(run_input: RunAgentInput) -> list[Any]:
    return [message.content for message in run_input.messages if message.role == "user"]


def test_a_message_goes_with_the_next_run_of_the_call() -> None:
    @tool
    def look() -> str:
        """Look, while the user says something in another thread."""
        steering = threading.Thread(target=agent.steer, args=("No museums.",))
        steering.start()
        steering.join(LIMIT)
        return "museums"

    agent, shown = ScriptedAgent(turn(tool_call("look")), turn(text("Parks.")), tools=[look]), list[str]()
    with agent.observe_messages().subscribe(lambda messages: shown.append(messages[-1].role if messages else "")):
        result = agent.run_agent_sync("Plan a trip")
    assert [*pairwise(shown)].count(("user", "user")) == 0, "each message is shown once"
    assert (result.text, result.unsent_messages) == ("Parks.", [])
    assert [contents(each) for each in agent.inputs] == [["Plan a trip"], ["Plan a trip", "No museums."]]
    assert [message.role for message in agent.messages] == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_message_after_the_last_run_is_sent_in_a_run_of_its_own(is_sync: bool) -> None:
    agent = ScriptedAgent(turn(text("Museums.")), turn(text("Parks.")))

    def follow() -> str:
        with agent.stream_sync("Plan a trip") as run:
            for event in run:
                if isinstance(event, TextMessageEndEvent) and len(agent.inputs) == 1:
                    run.steer("No museums.")
            return run.result().text

    if is_sync:
        assert await anyio.to_thread.run_sync(follow) == "Parks."
    else:
        async with agent.stream("Plan a trip") as run:
            async for event in run:
                if isinstance(event, TextMessageEndEvent) and len(agent.inputs) == 1:
                    run.steer("No museums.")
                    with pytest.raises(
                        UsageError, match=r"^steer\(\) takes a prompt: text, a message, or a list with att"
                    ):
                        run.steer(None)
            assert (await run.result()).text == "Parks."
            with pytest.raises(UsageError, match="has ended"):
                run.steer("Too late.")
    assert [contents(each) for each in agent.inputs] == [["Plan a trip"], ["Plan a trip", "No museums."]]
    assert len({each.run_id for each in agent.inputs} - {""}) == 2
    with pytest.raises(UsageError, match="no run is in progress"):
        agent.steer("Too late.")


@pytest.mark.parametrize("ending", ["a question", "a failure", "an abort"])
def test_a_message_that_no_run_was_sent_is_in_the_result(ending: str) -> None:
    failure = [RunErrorEvent(message="down")] if ending == "a failure" else []
    question = interrupt("Proceed?") if ending == "a question" else None
    agent = ScriptedAgent(turn(text("Museums."), *failure, outcome=question))
    result = None
    try:
        with agent.stream_sync("Plan a trip") as run:
            for event in run:
                if isinstance(event, TextMessageEndEvent):
                    run.steer("No museums.")
                    if ending == "an abort":
                        run.cancel()
            result = run.result()
    except RunFailedError as error:
        result = cast("RunResult", error.partial)
    assert [message.content for message in result.unsent_messages] == ["No museums."]
    assert [contents(each) for each in agent.inputs] == [["Plan a trip"]]


class Held:
    """An agent whose first run waits for a word."""

    def __init__(self) -> None:
        self.go_on, self.begun = threading.Event(), threading.Event()
        self.agent = ScriptedAgent(*(turn(text(each)) for each in "ABC"), middleware=[self.hold])

    async def hold(self, run_input: RunAgentInput, following: Next) -> AsyncIterator[Any]:
        async for event in following(run_input):
            if len(contents(run_input)) == 1 and not self.begun.is_set():
                self.begun.set()
                await anyio.to_thread.run_sync(self.go_on.wait, LIMIT, abandon_on_cancel=True)
            yield event


async def test_calls_that_queue_run_one_after_the_other_in_the_order_in_which_they_were_made() -> None:
    held, answers = Held(), list[str]()

    async def ask(prompt: str) -> None:
        answers.append((await held.agent.run_agent(prompt, when_busy="queue")).text)

    async def ask_in_thread() -> None:
        result = await anyio.to_thread.run_sync(lambda: held.agent.run_agent_sync("three", when_busy="queue"))
        answers.append(result.text)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for number, call in enumerate((lambda: ask("one"), lambda: ask("two"), ask_in_thread)):
                tasks.start_soon(call)
                await anyio.to_thread.run_sync(until_sync, partial(_are_waiting, held, number))
            with pytest.raises(RunInProgressError, match="when_busy="):
                await held.agent.run_agent("now")
            held.go_on.set()
    assert answers == ["A", "B", "C"]
    assert [contents(each)[-1] for each in held.agent.inputs] == ["one", "two", "three"]


def _are_waiting(held: Held, number: int) -> bool:
    return held.begun.is_set() and len(held.agent._conversation.turns._waiting) == number


async def test_a_call_that_has_waited_for_its_turn_keeps_others_out_and_is_the_one_that_is_aborted() -> None:
    held, aborted = Held(), list[bool]()

    async def ask() -> None:
        async with held.agent.stream("two", when_busy="queue") as run:
            async for _ in run:
                with pytest.raises(RunInProgressError, match="when_busy="):
                    await held.agent.run_agent("now")
                held.agent.abort_run()
            aborted.append((await run.result()).aborted)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held.agent.run_agent, "one")
            await anyio.to_thread.run_sync(held.begun.wait, LIMIT)
            tasks.start_soon(ask)
            await anyio.to_thread.run_sync(until_sync, partial(_are_waiting, held, 1))
            held.go_on.set()
    assert (aborted, len(held.agent.inputs)) == ([True], 2)


async def test_a_call_that_interrupts_stops_the_other_and_takes_its_place() -> None:
    held, results = Held(), list[tuple[str, bool]]()

    async def ask(prompt: str) -> None:
        result = await held.agent.run_agent(prompt, when_busy="interrupt")
        results.append((result.text, result.aborted))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "one")
            await anyio.to_thread.run_sync(held.begun.wait, LIMIT)
            await ask("two")
    assert results == [("", True), ("B", False)]


async def test_a_call_that_gives_up_waiting_leaves_its_place_to_the_next() -> None:
    held = Held()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held.agent.run_agent, "one")
            await anyio.to_thread.run_sync(held.begun.wait, LIMIT)
            with anyio.move_on_after(0.01):
                await held.agent.run_agent("two", when_busy="queue")
            held.go_on.set()
    assert (await held.agent.run_agent("three")).text == "B"
    assert [contents(each) for each in held.agent.inputs] == [["one"], ["one", "three"]]


@pytest.mark.parametrize("when_busy", ["queue", "interrupt"])
@pytest.mark.parametrize("kind", ["async", "sync", "through another agent"])
async def test_a_tool_that_would_wait_for_its_own_run_is_refused(kind: str, when_busy: Any) -> None:
    refused: list[str] = []

    @tool
    async def ask() -> str:
        with pytest.raises(RunInProgressError) as caught:
            await agent.run_agent("me, too", when_busy=when_busy)
        refused.append(str(caught.value))
        return "refused"

    @tool(name="ask")
    def ask_sync() -> str:
        with pytest.raises(RunInProgressError) as caught:
            agent.run_agent_sync("me, too", when_busy=when_busy)
        refused.append(str(caught.value))
        return "refused"

    @tool(name="ask")
    async def ask_other() -> str:
        return (await other.run_agent("ask", tools=[ask])).text

    other = ScriptedAgent(turn(tool_call("ask", {})), turn(text("Asked.")))
    agent = ScriptedAgent(turn(tool_call("ask", {})), turn(text("Done.")))
    tools: dict[str, Any] = {"async": ask, "sync": ask_sync, "through another agent": ask_other}
    with anyio.fail_after(LIMIT):
        assert (await agent.run_agent("hi", tools=[tools[kind]])).text == "Done."
    [reason] = refused
    assert reason.startswith(
        "the prompt would wait for the run that it is made in, and that run for it; steer() that run"
    )


async def test_a_call_that_would_wait_for_the_run_that_it_is_made_in_is_refused() -> None:
    async def inner(run_input: RunAgentInput) -> AsyncIterator[Any]:
        await agent.run_agent("me, too", when_busy="queue")
        yield None

    agent = FunctionAgent(inner)
    with pytest.raises(RunInProgressError, match=r"steer\(\) that run"):
        await agent.run_agent("hi")
    with pytest.raises(UsageError, match='"raise", "queue" or "interrupt"'):
        await agent.run_agent("hi", when_busy="later")  # type: ignore[arg-type]
