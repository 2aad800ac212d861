"""Agents as tools of other agents, and who answers what they ask."""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import Event, Interrupt, RunAgentInput, RunErrorEvent, RunStartedEvent, Tool

from agui_client import (
    Approve,
    Cancel,
    ConversationSnapshot,
    Deny,
    FunctionAgent,
    HttpAgent,
    Resolve,
    RunFailedError,
    ToolError,
    tool,
)
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.teams import SequentialAgent, TeamLimits
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from support.team_members import FIVE, agent, events_of, nested, pay_tool, resumed, says, shown, told

pytestmark = pytest.mark.anyio


async def test_an_agent_asks_another_one_by_a_tool() -> None:
    coder = says("coder", "def f()")
    asker = agent("asker", turn(tool_call("ask_coder", {"prompt": "A function?"})), turn(text("There.")))
    ask = coder.as_tool("ask_coder", "Answers programming questions.")
    assert ask.definition == Tool(
        name="ask_coder",
        description="Answers programming questions.",
        parameters={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "What to ask, with all that is needed to answer."}
            },
            "required": ["prompt"],
        },
    )
    asker.tools = [ask]
    result = await SequentialAgent(asker, strict=True).run_agent("Hi")
    assert (result.text, shown(coder), shown(asker)[-1]) == ("There.", [("user", "A function?")], ("tool", "def f()"))


async def test_what_an_agent_that_is_a_tool_says_is_the_progress_of_its_call() -> None:
    ask = says("coder", "def f()").as_tool("ask_coder", "Answers programming questions.")
    asker = ScriptedAgent(turn(tool_call("ask_coder", {"prompt": "A function?"})), turn(text("There.")), tools=[ask])
    [execution] = (await asker.run_agent("Hi")).tool_executions
    assert "".join(map(str, execution.progress)) == "def f()"


async def test_approvals_of_an_agent_that_is_a_tool_go_to_who_answers_for_the_other_agent() -> None:
    paid: list[int] = []
    asked: list[str | None] = []

    def answer(question: Interrupt) -> Resolve | Approve:
        asked.append(question.message)
        return Approve() if question.tool_call_id else Resolve(True)

    helper = agent(
        "helper",
        turn(tool_call("pay", {"amount": 5})),
        turn(text("Sure?"), outcome=interrupt("Proceed?")),
        turn(text("Paid.")),
        tools=[pay_tool(paid)],
    )
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Pay"})), turn(text("There.")), answer=answer)
    asker.tools = [helper.as_tool("ask", "Pays.")]
    assert (await asker.run_agent("Hi")).text == "There."
    assert (asked, paid) == (['Allow the call of pay with {"amount": 5}?', "Proceed?"], [5])
    assert shown(asker)[-1] == ("tool", "Paid.")


def a_helper_that_asks_twice(paid: list[int], *, later: bool = False) -> ScriptedAgent:
    """An agent that wants to pay, then asks; `later` is the same one in another process."""
    first = turn(text("Look:"), tool_call("pay", {"amount": 5}, tool_call_id="p1"))
    rest = (turn(tool_call("pay", {"amount": 5}, tool_call_id="p2"), text("Sure?")), turn(text("Paid twice.")))
    return agent("helper", *(rest if later else (first, *rest)), tools=[pay_tool(paid)])


@pytest.mark.requirement("SEC-3")
async def test_what_an_agent_that_is_a_tool_asks_waits_for_a_later_process_and_goes_on_where_it_was() -> None:
    paid: list[int] = []
    helper = a_helper_that_asks_twice(paid)
    ask = tool_call("ask", {"prompt": "Pay"}, tool_call_id="a1")
    asker = agent("asker", turn(ask, tool_call("note", {}, tool_call_id="n1")))
    noted: list[str] = []

    @tool
    def note() -> str:
        noted.append("noted")
        return "noted"

    asker.tools = [helper.as_tool("ask", "Pays."), note]
    result = await asker.run_agent("Hi")
    (asked,) = result.interrupts
    assert [(each.name, each.status, each.parent_tool_call_id) for each in result.subagents] == [
        ("helper", "suspended", "a1")
    ]
    assert (asked.message, asked.tool_call_id) == ('Allow the call of pay with {"amount": 5}?', "a1")
    assert (paid, noted, shown(helper)) == ([], ["noted"], [("user", "Pay")])
    later = agent("asker", turn(text("There.")))
    helper = a_helper_that_asks_twice(paid, later=True)
    later.tools = [helper.as_tool("ask", "Pays."), note]
    later.restore(ConversationSnapshot.model_validate_json(asker.snapshot().model_dump_json()))
    # One approval is for one call: the same call once more is asked about again.
    (again,) = (await later.run_agent(resume={asked.id: Approve()})).interrupts
    assert (again.message, paid, later.inputs) == (asked.message, [5], [])
    assert shown(helper)[-1] == ("tool", "paid")
    result = await later.run_agent(resume={again.id: Approve()})
    assert (result.text, paid, noted, result.interrupts) == ("There.", [5, 5], ["noted"], [])
    assert ("tool", "Paid twice.") in shown(later)
    assert (len(helper.inputs), len(later.inputs)) == (2, 1)


@pytest.mark.requirement("USAGE-3")
@pytest.mark.parametrize("depth", [0, 1])
async def test_the_tokens_of_an_agent_that_is_a_tool_and_asks_twice_are_counted_once(depth: int) -> None:
    asks = [turn(text("?"), outcome=interrupt("Sure?", interrupt_id=each), usage=FIVE) for each in ("q1", "q2")]
    helper = agent("helper", *asks, turn(text("There."), usage=FIVE))
    ask = turn(tool_call("ask", {"prompt": "Go"}), usage=FIVE)
    asker = nested(agent("asker", ask, turn(text("Done."), usage=FIVE), tools=[helper.as_tool("ask", "Asks.")]), depth)
    used: list[int] = []
    result = await asker.run_agent("Hi")
    while True:
        used.append(sum(each.total_tokens or 0 for each in result.usage))
        if not result.interrupts:
            break
        result = await asker.run_agent(resume={each.id: Resolve(True) for each in result.interrupts})
    # Between the two questions, only the helper has run.
    assert (used, len(helper.inputs)) == ([10, 5, 10], 3)


async def test_a_denial_reaches_an_agent_that_is_a_tool_of_a_served_agent_and_of_a_member() -> None:
    paid: list[int] = []
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Pay"})), turn(text("There.")))
    helper = agent("helper", turn(tool_call("pay", {"amount": 5})), turn(outcome=interrupt("Sad?")), turn(text("No.")))
    helper.tools = [pay_tool(paid)]
    asker.tools = [helper.as_tool("ask", "Pays.")]
    http = HttpAgent("http://team/", app=agent_app(SequentialAgent(asker, strict=True)), strict=True)
    (asked,) = (await http.run_agent("Hi")).interrupts
    (again,) = (await resumed(http, resume={asked.id: Deny("No money.")})).interrupts
    assert (again.message, shown(helper)[-1][0], paid) == ("Sad?", "tool", [])
    result = await resumed(http, resume={again.id: Resolve(payload=True)})
    assert (result.text, shown(asker)[-1], len(helper.inputs)) == ("There.", ("tool", "No."), 3)


async def test_questions_of_an_agent_that_is_a_tool_and_of_its_asker_are_answered_together() -> None:
    helper = agent("helper", turn(outcome=interrupt("Which hotel?")), turn(text("The Ritz.")))
    asker = agent(
        "asker", turn(tool_call("ask", {"prompt": "Book"}), outcome=interrupt("How many?")), turn(text("Two."))
    )
    asker.tools = [helper.as_tool("ask", "Books.")]
    asked = (await asker.run_agent("Hi")).interrupts
    assert {each.message for each in asked} == {"How many?", "Which hotel?"}
    result = await asker.run_agent(resume={each.id: Resolve(each.message) for each in asked})
    assert (result.text, result.interrupts) == ("Two.", [])
    assert [[entry.payload for entry in each.inputs[-1].resume or ()] for each in (asker, helper)] == [
        ["How many?"],
        ["Which hotel?"],
    ]


async def test_an_agent_that_is_a_tool_is_announced_as_a_subagent_and_ends_with_what_it_used() -> None:
    broken = agent("broken", turn(text("Half"), RunErrorEvent(message="out of order", usage=FIVE)))
    asks = agent("asks", turn(outcome=interrupt("Proceed?"), usage=FIVE))
    quiet, counts = agent("quiet", turn(text("Yes."))), says("counts", "Yes.")
    usage = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in FIVE]
    metadata = {"agui-client": {"usage": usage}}
    waits = {"type": "suspended", "interruptIds": ["interrupt-1"]}
    failed = {"message": "the agent failed", "code": "agent_failed"}
    for helper, ended in (
        (quiet, {"type": "SUBAGENT_FINISHED"}),
        (counts, {"type": "SUBAGENT_FINISHED", "metadata": metadata}),
        (asks, {"type": "SUBAGENT_FINISHED", "metadata": metadata, "outcome": waits}),
        (broken, {"type": "SUBAGENT_ERROR", "metadata": metadata, **failed}),
    ):
        asker = agent("asker", turn(tool_call("ask", {"prompt": "Do"}, tool_call_id="a")), turn(text("There.")))
        asker.tools = [helper.as_tool("ask", "Does.")]
        found = [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in await events_of(asker)]
        begin, end = (each for each in found if each["type"].startswith("SUBAGENT"))
        own = {"subagentRunId": begin["subagentRunId"]}
        assert begin == {"type": "SUBAGENT_STARTED", "name": helper.name, "parentToolCallId": "a", **own}
        assert end == {**ended, **own}


async def test_an_agent_that_is_a_tool_is_not_asked_when_the_team_has_made_its_calls() -> None:
    helper = says("helper", "Never.")
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Do"})), turn(text("There.")))
    asker.tools = [helper.as_tool("ask", "Does.")]
    result = await SequentialAgent(asker, limits=TeamLimits(calls=1), strict=True).run_agent("Hi")
    refused = "The agent was not asked: the team made more than 1 calls; see TeamLimits(calls=...)"
    assert (result.text, shown(asker)[-1], helper.inputs) == ("There.", ("tool", refused), [])
    assert [each.name for each in result.subagents] == ["asker"]


@pytest.mark.parametrize(
    ("script", "says_why"),
    [
        (RunErrorEvent(message="out of order"), "The agent failed: out of order"),
        (turn(tool_call("elsewhere", {})), "The agent called tools that nobody here answers: elsewhere."),
    ],
    ids=["it fails", "it calls tools of nobody"],
)
async def test_an_agent_that_is_a_tool_and_comes_to_nothing_says_why(script: Any, says_why: str) -> None:
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Do"})), turn(text("There.")))
    asker.tools = [agent("helper", script).as_tool("ask", "Does.")]
    result = await asker.run_agent("Hi")
    assert (result.text, shown(asker)[-1]) == ("There.", ("tool", says_why))
    (helper,) = result.subagents
    assert (helper.status, helper.error, helper.text) == ("error", "the agent failed", says_why)
    assert isinstance(helper.exception, RunFailedError if isinstance(script, RunErrorEvent) else ToolError)


async def test_a_question_that_is_not_answered_is_cancelled_for_an_agent_that_is_a_tool() -> None:
    def cancel(question: Interrupt) -> Cancel:
        return Cancel()

    helper = agent("helper", turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Stopped.")))
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Go"})), turn(text("There.")), answer=cancel)
    asker.tools = [helper.as_tool("ask", "Goes.")]
    assert (await asker.run_agent("Hi")).text == "There."
    assert shown(asker)[-1] == ("tool", "Stopped.")
    assert [entry.status for entry in helper.inputs[-1].resume or ()] == ["cancelled"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_conversation_of_the_asked_agent_is_in_no_id_where_the_conversation_is_saved() -> None:
    def make() -> ScriptedAgent:
        helper = agent("helper", turn(text("Secret."), outcome=interrupt("Proceed?")), turn(text("Done.")))
        asker = agent("asker", turn(tool_call("ask", {"prompt": "Hm?"})), turn(text("There.")))
        asker.tools = [helper.as_tool("ask", "Knows.")]
        return asker

    async with Store() as store:
        threads = store.threads
        saved = make()
        apps = (agent_app(make()), agent_app(lambda _request, input: threads.open(input.thread_id, saved)))
        are_readable: list[bool] = []
        for app in apps:
            http = HttpAgent("http://agent/", app=app, strict=True)
            (asked,) = (await http.run_agent("Hi")).interrupts
            are_readable.append(b"Secret." in urlsafe_b64decode(asked.id.removeprefix("question:")))
            result = await http.run_agent(resume={asked.id: Resolve()})
            assert (result.text, result.interrupts) == ("There.", [])
            assert ("tool", "Done.") in told(http.messages)
    assert are_readable == [True, False]


async def test_the_text_of_an_exception_of_an_agent_that_is_a_tool_is_for_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def failing(run_input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        raise LookupError("the password is sesame")

    caplog.set_level(logging.DEBUG, "agui_client.tools")
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Do"})), turn(text("There.")))
    asker.tools = [FunctionAgent(failing).as_tool("ask", "Does.")]
    found = [event.model_dump_json() for event in await events_of(asker)]
    assert "sesame" not in "".join(found)
    (helper,) = (event for event in map(json.loads, found) if event["type"] == "SUBAGENT_ERROR")
    assert helper["code"] == "agent_failed"
    assert "sesame" in caplog.text
    assert "sesame" not in "".join(each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG)
