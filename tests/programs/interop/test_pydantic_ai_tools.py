"""Tools and people against a server none of us wrote: pydantic-ai's AG-UI adapter with an offline model, over a socket.

Measured with 2.68: it names the calls it leaves to the application, asks for approval with an interrupt about the call,
and hands the model a failed call's text without saying that it failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import anyio
import pytest
from ag_ui.core import Interrupt, RunFinishedSuccessOutcome

pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'pydantic-ai-slim[ag-ui]'")
from pydantic_ai import Agent, DeferredToolRequests

from agui_client import (
    ApprovalRequest,
    Approve,
    Deny,
    HttpAgent,
    Resolve,
    ToolContext,
    ToolError,
    Window,
    answer_model,
    tool,
)
from agui_client.types import History
from support.offline_model import Heard, House, OfflineModel, Saying, returned, served_alone
from support.programs import STRICT, run_program
from support.tool_rounds import results_in
from support.verbs import Verb, every_result_verb

HOUSE = House()
served = HOUSE.served


@pytest.fixture(autouse=True, scope="module")
def _open_house() -> Iterator[None]:
    with HOUSE.opened():
        yield


@tool
async def get_weather(ctx: ToolContext, city: str) -> dict[str, Any]:
    """Current weather for a city."""
    await anyio.lowlevel.checkpoint()
    if city == "Atlantis":
        raise ToolError("There is no such city.")
    if city == "Nowhere":
        raise LookupError("/srv/maps/secret.db")
    return {"city": city, "celsius": 18}


def asks_for(*calls: tuple[str, str, str]) -> OfflineModel:
    """A model that makes these calls, and then tells what came of them."""

    def script(given: Sequence[Heard]) -> Saying:
        results = returned(given)
        return f"I was told: {json.dumps(results)}" if results else calls

    return OfflineModel(script)


WEATHER = ("get_weather", "call-1", '{"city": "Oslo"}')


@every_result_verb
def test_a_frontend_tool_makes_its_round_trip(verb: Verb) -> None:
    model = asks_for(WEATHER)
    with served(Agent(model.model)) as url:
        agent = HttpAgent(url, tools=[get_weather])
        result = verb(agent, "Weather?").result
    assert result is not None
    assert model.offered == [["get_weather"]] * 2
    assert result.text == """I was told: [{"city": "Oslo", "celsius": 18}]"""
    assert [message.role for message in agent.messages] == ["user", "assistant", "tool", "assistant"]
    assert (result.pending_tool_calls, result.outcome) == ([], RunFinishedSuccessOutcome())
    assert (len(result.attempts), result.warnings) == (2, [])


@every_result_verb
def test_two_calls_in_one_turn_are_answered_with_one_request(verb: Verb) -> None:
    model = asks_for(WEATHER, ("get_weather", "call-2", '{"city": "Turin"}'))
    with served(Agent(model.model)) as url:
        result = verb(HttpAgent(url, tools=[get_weather]), "Weather?").result
    assert result is not None
    told = '[{"city": "Oslo", "celsius": 18}, {"city": "Turin", "celsius": 18}]'
    assert (result.text, len(result.attempts)) == (f"I was told: {told}", 2)
    assert [tool_call_id for tool_call_id, _, _ in results_in(result.messages)] == ["call-1", "call-2"]
    assert result.warnings == []


@pytest.mark.parametrize(
    ("history", "second_round"),
    [
        (Window(turns=1), ["user-prompt", "tool-call", "tool-return"]),
        (Window(messages=1), ["user-prompt", "tool-call", "tool-return"]),
        ("new", ["tool-call", "tool-return"]),
    ],
)
def test_the_model_sees_the_end_of_the_conversation_and_every_call_with_its_result(
    history: History, second_round: list[str]
) -> None:
    numbers = count(1)

    def script(given: Sequence[Heard]) -> Saying:
        return "18 degrees." if returned(given) else [("get_weather", f"call-{next(numbers)}", '{"city": "Oslo"}')]

    model = OfflineModel(script)
    with served(Agent(model.model)) as url:
        agent = HttpAgent(url, tools=[get_weather], history=history)
        results = [agent.run_agent_sync(f"Weather on day {day}?") for day in range(3)]
    assert [[kind for kind, _ in given] for given in model.given] == [["user-prompt"], second_round] * 3
    assert [message.role for message in agent.messages] == ["user", "assistant", "tool", "assistant"] * 3
    assert [result.warnings for result in results] == [[], [], []]


def test_a_tool_of_the_server_and_one_of_the_application_are_called_in_one_turn() -> None:
    model = asks_for(WEATHER, ("add", "call-2", '{"a": 1, "b": 2}'))
    server = Agent(model.model, output_type=[str, DeferredToolRequests])

    @server.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    with served(server) as url:
        result = HttpAgent(url, tools=[get_weather]).run_agent_sync("Weather?")
    assert sorted(map(str, returned(model.given[1]))) == ["3", "{'city': 'Oslo', 'celsius': 18}"]
    assert [each.name for each in result.tool_executions] == ["get_weather"]
    assert (len(result.attempts), result.warnings) == (2, [])


FAILURES = {
    "a tool error": ("Atlantis", "There is no such city."),
    "an exception": ("Nowhere", "The tool failed because of an internal error of the application."),
}


@pytest.mark.parametrize(("city", "told"), FAILURES.values(), ids=list(FAILURES))
@every_result_verb
def test_a_failure_of_the_tool_reaches_the_model_as_text(verb: Verb, city: str, told: str) -> None:
    model = asks_for(("get_weather", "call-1", json.dumps({"city": city})))
    with served(Agent(model.model)) as url:
        result = verb(HttpAgent(url, tools=[get_weather]), "Weather?").result
    assert result is not None
    assert result.text == f'I was told: ["{told}"]'
    assert results_in(result.messages) == [("call-1", told, told)]
    assert result.warnings == []


def test_arguments_that_do_not_fit_can_be_mended_by_the_model() -> None:
    def script(given: Sequence[Heard]) -> Saying:
        results = returned(given)
        if not results:
            return [("get_weather", "call-1", '{"town": "Oslo"}')]
        is_told = "'city': needs a value" in str(results[0])
        return [("get_weather", "call-2", '{"city": "Oslo"}')] if is_told else "Fine."

    model = OfflineModel(script)
    with served(Agent(model.model)) as url:
        result = HttpAgent(url, tools=[get_weather]).run_agent_sync("Weather?")
    assert (result.text, [each.status for each in result.tool_executions]) == ("Fine.", ["failed", "succeeded"])
    assert result.warnings == []


@tool(approval="always")
def delete_file(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


DELETE = ("delete_file", "call-1", '{"path": "/a"}')


@every_result_verb
def test_a_denial_reaches_the_model_with_its_reason(verb: Verb) -> None:
    def deny(request: ApprovalRequest) -> Deny:
        return Deny(f"{request.arguments['path']} is still needed")

    model = asks_for(DELETE)
    with served(Agent(model.model)) as url:
        result = verb(HttpAgent(url, tools=[delete_file], approve=deny), "Delete /a").result
    assert result is not None
    assert (result.text, result.warnings) == ('I was told: ["/a is still needed"]', [])


def test_an_approval_of_ours_may_change_the_arguments() -> None:
    model = asks_for(DELETE)
    with served(Agent(model.model)) as url:
        agent = HttpAgent(url, tools=[delete_file], approve=lambda request: Approve({"path": "/b"}))
        assert agent.run_agent_sync("Delete /a").text == 'I was told: ["deleted /b"]'


# --- the server's own approval, an interrupt


def approving(model: OfflineModel) -> Agent[None, Any]:
    """Deletes a file itself, once somebody has approved it."""
    agent = Agent(model.model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True, name="delete_file")
    def delete(path: str) -> str:
        return f"the server deleted {path}"

    return agent


async def edit(asked: Interrupt) -> Approve:
    await anyio.lowlevel.checkpoint()
    return Approve({"path": "/b"})


def fill_in(asked: Interrupt) -> Resolve:
    model = answer_model(asked)
    assert model is not None
    return Resolve(model.model_validate({"approved": True, "editedArgs": {"path": "/b"}}))


ANSWERERS = {"Approve with arguments": edit, "the model of its schema": fill_in}


@pytest.mark.parametrize("answer", ANSWERERS.values(), ids=list(ANSWERERS))
@every_result_verb
def test_its_interrupt_is_approved_with_other_arguments(verb: Verb, answer: Any) -> None:
    model = asks_for(DELETE)
    with served(approving(model)) as url:
        agent = HttpAgent(url, answer=answer)
        result = verb(agent, "Delete /a").result
    assert result is not None
    assert (result.text, result.interrupts) == ('I was told: ["the server deleted /b"]', [])
    assert (agent.pending_interrupts, agent.pending_tool_calls) == ([], [])
    assert (len(result.attempts), result.warnings) == (2, [])


@every_result_verb
def test_its_interrupt_is_denied_with_a_reason(verb: Verb) -> None:
    model = asks_for(DELETE)
    with served(approving(model)) as url:
        result = verb(HttpAgent(url, answer=lambda asked: Deny("no, keep it")), "Delete /a").result
    assert result is not None
    assert (result.text, result.warnings) == ('I was told: ["no, keep it"]', [])


def test_its_interrupt_and_a_call_of_ours_are_answered_with_one_request() -> None:
    model = asks_for(DELETE, ("get_weather", "call-2", '{"city": "Oslo"}'))
    with served(approving(model)) as url:
        agent = HttpAgent(url, tools=[get_weather], answer=lambda asked: Approve())
        result = agent.run_agent_sync("Delete /a, and how is the weather?")
    assert sorted(map(str, returned(model.given[-1]))) == [
        "the server deleted /a",
        "{'city': 'Oslo', 'celsius': 18}",
    ]
    assert (len(result.attempts), result.pending_tool_calls, result.interrupts) == (2, [], [])
    assert [each.name for each in result.tool_executions] == ["get_weather"]
    assert result.warnings == []


# --- in another process

PROGRAM = """
import sys
from agui_client import Approve, ConversationSnapshot, Deny, HttpAgent, People, tool

@tool(approval="always")
def delete_file(path: str) -> str:
    return f"deleted {path}"

agent = HttpAgent(
    sys.argv[1], tools=[delete_file] if sys.argv[2] == "ours" else [], people=People(fallback="leave")
)
saved = sys.stdin.read()
if saved:
    agent.restore(ConversationSnapshot.model_validate_json(saved))
    results = {call.id: Approve({"path": "/b"}) for call in agent.pending_tool_calls}
    resume = {asked.id: Approve({"path": "/b"}) for asked in agent.pending_interrupts}
    result = agent.run_agent_sync(tool_results=results, resume=resume)
    assert result.warnings == [], result.warnings
    print(result.text, agent.pending_tool_calls, agent.pending_interrupts)
else:
    result = agent.run_agent_sync("Delete /a")
    print(agent.snapshot().model_dump_json())
"""


def program(*arguments: str, given: str = "") -> str:
    printed, complaints, code = run_program("-c", PROGRAM, *arguments, flags=STRICT, given=given)
    assert (code, complaints) == (0, "")
    return printed.strip()


@pytest.mark.parametrize("whose", ["ours", "the server's"])
def test_what_waits_is_approved_after_both_processes_were_restarted(whose: str) -> None:
    model = asks_for(DELETE)
    server = Agent(model.model) if whose == "ours" else approving(model)
    with served_alone(server) as url:
        saved = program(url, whose)
    with served_alone(server) as url:
        done = program(url, whose, given=saved)
    deleted = "deleted /b" if whose == "ours" else "the server deleted /b"
    assert done == f'I was told: ["{deleted}"] [] []'
    assert [kind for kind, _ in model.given[1]] == ["user-prompt", "tool-call", "tool-return"]
