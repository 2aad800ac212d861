"""A question of an MCP server that nobody was there to answer waits, and its call is made again with the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from ag_ui.core import Interrupt, ResumeEntry, RunAgentInput

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

from agui_client import (
    ApprovalRequest,
    Approve,
    Cancel,
    ConversationSnapshot,
    Deny,
    HttpAgent,
    HTTPStatusError,
    InterruptsNotCoveredError,
    Resolve,
    RunResult,
    tool,
)
from agui_client.asgi import agent_app
from agui_client.mcp import mcp_server
from agui_client.store import Store
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, interrupt, serve, text, tool_call, turn
from agui_client.types import Answer
from support.mcp_house import make_older_server, make_server
from support.tool_rounds import results_in
from support.verbs import Verb, every_result_verb

pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator '(mcp|httpx2|httpcore2)[.]:ResourceWarning"),
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]
SECONDS = 20.0
RESERVE = tool_call("reserve", {"day": "Monday"}, tool_call_id="call-1")
ORDER = tool_call("order", {"dish": "Soup"}, tool_call_id="call-1")
DONE = turn(text("Done."))


@pytest.fixture(scope="module")
def older() -> Iterator[str]:
    """The URL of a server that asks in the middle of a call."""
    with serve(make_older_server().streamable_http_app()) as served:
        yield f"{served.url}mcp"


@pytest.fixture(params=["input_required", "in mid-call"])
def server(request: pytest.FixtureRequest) -> Any:
    return make_server() if request.param == "input_required" else request.getfixturevalue("older")


def saved(agent: ScriptedAgent) -> str:
    return agent.snapshot().model_dump_json()


def restored(document: str, server: Any, **options: Any) -> ScriptedAgent:
    """An agent of another process, with the conversation of the first."""
    agent = ScriptedAgent(DONE, tools=mcp_server(server), **options)
    agent.restore(ConversationSnapshot.model_validate_json(document))
    return agent


def results(result: RunResult) -> list[tuple[Any, str | None]]:
    return [(content, error) for _, content, error in results_in(result.messages)]


async def left(*steps: Any, server: Any, **options: Any) -> ScriptedAgent:
    """An agent whose call left a question."""
    agent = ScriptedAgent(turn(*steps), DONE, tools=mcp_server(server), **options)
    with anyio.fail_after(SECONDS):
        await agent.run_agent("Hi")
    return agent


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Resolve({"seats": 4}), "4 seats on monday"), (Deny(), "decline"), (Cancel(), "cancel")],
    ids=["answered", "denied", "cancelled"],
)
async def test_the_answer_is_given_in_another_process(server: Any, answer: Answer, expected: str) -> None:
    first = ScriptedAgent(turn(RESERVE), DONE, tools=mcp_server(server))
    with anyio.fail_after(SECONDS):
        result = await first.run_agent("Hi")
    [question] = result.interrupts
    assert (question.message, question.tool_call_id) == ("How many seats on Monday?", "call-1")
    assert question.response_schema is not None
    assert list(question.response_schema["properties"]) == ["seats"]
    assert (result.pending_tool_calls, first.pending_tool_calls, results(result)) == ([], [], [])
    assert [each.status for each in result.tool_executions] == ["waiting"]
    second = restored(saved(first), server)
    assert second.pending_interrupts == [question]
    with anyio.fail_after(SECONDS):
        answered = await second.run_agent(resume={question.id: answer})
    [(content, error)] = results(answered)
    assert expected in content.lower()
    assert (error is None) == isinstance(answer, Resolve)
    assert (answered.text, answered.interrupts, second.pending_interrupts) == ("Done.", [], [])
    # The question was a tool's: the agent is sent a result, and no answer to an interrupt.
    assert second.inputs[0].resume is None


@every_result_verb
def test_every_verb_leaves_the_question_and_takes_the_answer(verb: Verb, anyio_backend: str) -> None:
    agent = ScriptedAgent(turn(RESERVE), DONE, tools=mcp_server(make_server()))
    assert verb(agent, "Hi").error is None
    [question] = agent.pending_interrupts
    entry = ResumeEntry(interrupt_id=question.id, status="resolved", payload={"seats": 2})
    assert verb(agent, None, resume=[entry]).error is None
    assert [content for _, content, _ in results_in(agent.messages)] == ["2 seats on Monday"]
    assert len(agent.inputs) == 2


@pytest.mark.anyio
async def test_a_second_question_waits_too_and_keeps_the_first_answer(server: Any) -> None:
    first = await left(ORDER, server=server)
    [question] = first.pending_interrupts
    second = restored(saved(first), server)
    with anyio.fail_after(SECONDS):
        result = await second.run_agent(resume={question.id: Resolve({"seats": 3})})
    # Nothing was sent: the agent waits for the result of the call.
    assert (second.inputs, results(result), result.outcome) == ([], [], None)
    [again] = result.interrupts
    assert again.message == "A drink for 3?"
    third = restored(saved(second), server)
    with anyio.fail_after(SECONDS):
        result = await third.run_agent(resume={again.id: Resolve({"name": "Tea"})})
    assert results(result) == [("Soup and Tea for 3", None)]


@pytest.mark.anyio
async def test_an_answer_that_was_given_at_once_is_kept_with_the_question_that_was_left(server: Any) -> None:
    def answer(question: Interrupt) -> Answer | None:
        return Resolve({"seats": 5}) if "seats" in str(question.message) else None

    first = await left(ORDER, server=server, answer=answer)
    [question] = first.pending_interrupts
    second = restored(saved(first), server)
    with anyio.fail_after(SECONDS):
        result = await second.run_agent(resume={question.id: Resolve({"name": "Tea"})})
    assert results(result) == [("Soup and Tea for 5", None)]


@pytest.mark.anyio
async def test_a_call_is_made_again_with_the_arguments_that_were_approved() -> None:
    def approve(request: ApprovalRequest) -> Approve:
        return Approve({"day": "Tuesday"})

    tools = mcp_server(make_server(), approval="always")
    first = ScriptedAgent(turn(RESERVE), DONE, tools=tools, approve=approve)
    await first.run_agent("Hi")
    [question] = first.pending_interrupts
    second = ScriptedAgent(DONE, tools=tools)
    second.restore(ConversationSnapshot.model_validate_json(saved(first)))
    result = await second.run_agent(resume={question.id: Resolve({"seats": 1})})
    assert results(result) == [("1 seats on Tuesday", None)]


@pytest.mark.anyio
async def test_other_calls_of_the_run_are_executed_once_and_interrupts_are_answered_together() -> None:
    count: list[int] = []

    @tool
    def look() -> str:
        """Look."""
        count.append(1)
        return "seen"

    asked = interrupt("Sure?", interrupt_id="sure")
    agent = ScriptedAgent(
        turn(tool_call("look", tool_call_id="call-0"), RESERVE, outcome=asked),
        DONE,
        tools=[look, mcp_server(make_server())],
    )
    result = await agent.run_agent("Hi")
    sure, question = result.interrupts
    assert (sure.id, question.tool_call_id) == ("sure", "call-1")
    incomplete: list[dict[str, Answer]] = [{"sure": Approve()}, {question.id: Resolve({"seats": 1})}, {}]
    for resume in incomplete:
        with pytest.raises(InterruptsNotCoveredError, match="nothing was sent"):
            await agent.run_agent(resume=resume)
    with pytest.raises(InterruptsNotCoveredError, match="does not fit its responseSchema"):
        await agent.run_agent(resume={"sure": Approve(), question.id: Resolve({"seats": "many"})})
    result = await agent.run_agent(resume={"sure": Approve(), question.id: Resolve({"seats": 1})})
    assert [content for content, _ in results(result)] == ["seen", "1 seats on Monday"]
    assert [entry.interrupt_id for entry in agent.inputs[1].resume or ()] == ["sure"]
    assert count == [1]


@pytest.mark.anyio
async def test_an_answer_for_the_agent_waits_for_the_second_question_of_a_tool() -> None:
    asked = interrupt("Sure?", interrupt_id="sure")
    agent = ScriptedAgent(turn(ORDER, outcome=asked), DONE, tools=mcp_server(make_server()))
    _, question = (await agent.run_agent("Hi")).interrupts
    [again] = (await agent.run_agent(resume={"sure": Approve(), question.id: Resolve({"seats": 3})})).interrupts
    assert (again.message, len(agent.inputs)) == ("A drink for 3?", 1)
    await agent.run_agent(resume={again.id: Resolve({"name": "Tea"})})
    assert [entry.interrupt_id for entry in agent.inputs[1].resume or ()] == ["sure"]


@pytest.mark.anyio
@pytest.mark.parametrize("depth", [1, 2])
async def test_a_question_passes_through_served_agents_that_keep_nothing(depth: int) -> None:
    caller: Any = ScriptedAgent(turn(ORDER), DONE, tools=mcp_server(make_server()))
    for _ in range(depth):
        caller = HttpAgent("http://app/", app=agent_app(caller))
    with anyio.fail_after(SECONDS):
        [question] = (await caller.run_agent("Hi")).interrupts
        [again] = (await caller.run_agent(resume={question.id: Resolve({"seats": 2})})).interrupts
        assert (question.message, again.message) == ("How many seats for Soup?", "A drink for 2?")
        result = await caller.run_agent(resume={again.id: Resolve({"name": "Tea"})})
    assert results(result) == [("Soup and Tea for 2", None)]
    assert (result.text, result.warnings) == ("Done.", [])


@pytest.mark.anyio
async def test_a_question_of_a_member_waits_for_the_caller_of_its_team() -> None:
    member = ScriptedAgent(turn(ORDER), DONE, tools=mcp_server(make_server()), agent_id="waiter")
    caller = SequentialAgent(member)
    with anyio.fail_after(SECONDS):
        [question] = (await caller.run_agent("Hi")).interrupts
        [again] = (await caller.run_agent(resume={question.id: Resolve({"seats": 2})})).interrupts
        assert (question.message, again.message) == ("How many seats for Soup?", "A drink for 2?")
        result = await caller.run_agent(resume={again.id: Resolve({"name": "Tea"})})
    assert result.text == "Done."
    assert member.inputs[-1].messages[-1].content == "Soup and Tea for 2"


@pytest.mark.anyio
async def test_a_question_is_stored_with_its_thread_and_with_a_fork_of_it() -> None:
    tools = mcp_server(make_server())
    threads = Store().threads
    with anyio.fail_after(SECONDS):
        async with threads.open("thread-1", ScriptedAgent(turn(RESERVE), DONE, tools=tools)) as agent:
            await agent.run_agent("Hi")
            last = agent.messages[-1].id
        await threads.fork("thread-1", at=last, new_id="thread-2")
        for thread_id, seats in (("thread-1", 1), ("thread-2", 2)):
            async with threads.open(thread_id, ScriptedAgent(DONE, tools=tools)) as agent:
                [question] = agent.pending_interrupts
                result = await agent.run_agent(resume={question.id: Resolve({"seats": seats})})
            assert results(result) == [(f"{seats} seats on Monday", None)]


@pytest.mark.anyio
async def test_an_answer_to_a_question_that_was_made_up_is_refused() -> None:
    app = agent_app(ScriptedAgent(turn(ORDER), DONE, tools=mcp_server(make_server())))
    caller = HttpAgent("http://app/", app=app)
    entry = ResumeEntry(interrupt_id="question:abc", status="resolved", payload=1)
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], resume=[entry])
    with anyio.fail_after(SECONDS), pytest.raises(HTTPStatusError, match="422"):
        await caller.run_agent(given)


@pytest.mark.anyio
async def test_a_question_may_be_abandoned_or_its_call_be_given_a_result() -> None:
    agent = await left(RESERVE, server=make_server())
    twin = agent.clone()
    agent.abandon_interrupts()
    [(content, error)] = results(await agent.run_agent("Never mind."))
    assert "went on without" in content
    assert error == content
    assert results(await twin.run_agent(tool_results={"call-1": "by phone"})) == [("by phone", None)]
    assert agent.pending_interrupts == twin.pending_interrupts == []


@pytest.mark.anyio
async def test_a_function_that_asked_nobody_still_fails_as_it_is_called_only_once() -> None:
    from agui_client import ToolContext

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return await ctx.ask("Which?")

    agent = ScriptedAgent(turn(tool_call("ask")), DONE, tools=[ask])
    result = await agent.run_agent("Hi")
    [(_, error)] = results(result)
    assert "Nobody is here to answer" in str(error)
    assert result.interrupts == []
