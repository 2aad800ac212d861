"""A whole input as the prompt: it is sent as it is, and the conversation becomes that one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    Context,
    Event,
    FunctionCall,
    ResumeEntry,
    RunAgentInput,
    SystemMessage,
    Tool,
    ToolCall,
    UserMessage,
)

from agui_client import HttpAgent, IncompleteRunError, Resolve, UsageError, tool
from agui_client.testing import ScriptedAgent, interrupt, serve, state, text, tool_call, turn
from agui_client.types import Next, RunOptions
from support import scenario
from support.verbs import Verb, every_kind_of_verb

WEATHER = Tool(name="get_weather", description="Weather.", parameters={"type": "object", "properties": {}})
GIVEN = RunAgentInput(
    thread_id="theirs",
    run_id="run-of-theirs",
    parent_run_id="run-before",
    messages=[SystemMessage(id="s", content="Be brief."), UserMessage(id="u", content="Hi")],
    state={"n": 1},
    tools=[WEATHER],
    context=[Context(description="d", value="v")],
    forwarded_props={"tenant": "acme"},
    resume=[ResumeEntry(interrupt_id="i", status="resolved", payload={"approved": True})],
)


def sent(run_input: RunAgentInput) -> dict[str, Any]:
    dumped = run_input.model_dump(by_alias=True)
    dumped.pop("protocolVersion", None)
    return dumped


@every_kind_of_verb
def test_an_input_is_sent_as_it_is_and_the_conversation_becomes_that_one(verb: Verb) -> None:
    upstream = ScriptedAgent(turn(text("Hello.", message_id="m"), state({"n": 2})), turn(text("Again.")))
    with serve(upstream) as server:
        agent = HttpAgent(server.url, thread_id="ours", initial_messages=[scenario.PROMPT], initial_state="ours")
        ending = verb(agent, GIVEN)  # type: ignore[arg-type]
        assert ending.error is None
        assert sent(upstream.inputs[0]) == sent(GIVEN)
        assert (agent.thread_id, agent.state) == ("theirs", {"n": 2})
        assert [message.id for message in agent.messages] == ["s", "u", "m"]
        if ending.result is not None:
            assert [message.id for message in ending.result.new_messages] == ["m"]
        verb(agent, "And now?")
    second = upstream.inputs[1]
    assert (second.thread_id, second.resume, second.tools or None) == ("theirs", None, None)


async def refusing(given: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    """Let nothing come of a run on another thread than ours."""
    if given.thread_id == "ours":
        async for event in following(given):
            yield event


def test_a_call_that_the_input_leaves_without_a_result_stays_without_one() -> None:
    call = ToolCall(id="c", function=FunctionCall(name="book", arguments="{}"))
    given = GIVEN.model_copy(update={"messages": [*GIVEN.messages, AssistantMessage(id="a", tool_calls=[call])]})
    agent = ScriptedAgent(turn(text("Booked.")))
    result = agent.run_agent_sync(given)
    assert (sent(agent.inputs[0]), result.warnings) == (sent(given), [])


@every_kind_of_verb
def test_an_input_that_never_started_a_run_leaves_the_conversation_as_it_was(verb: Verb) -> None:
    waiting = turn(text("Hello.", message_id="m"), outcome=interrupt("Proceed?"))
    agent = ScriptedAgent(waiting, thread_id="ours", initial_state="ours")
    agent.use(refusing)
    verb(agent, "Hi")
    before = agent.snapshot()
    assert isinstance(verb(agent, GIVEN).error, IncompleteRunError)  # type: ignore[arg-type]
    assert agent.snapshot() == before


@every_kind_of_verb
def test_a_call_of_the_callers_tool_is_left_to_the_caller_and_one_of_ours_is_executed(verb: Verb) -> None:
    @tool
    def look_up(name: str) -> str:
        return f"{name} found"

    agent = ScriptedAgent(
        turn(tool_call("look_up", {"name": "Oslo"})), turn(tool_call("get_weather", tool_call_id="c")), tools=[look_up]
    )
    assert verb(agent, GIVEN).error is None  # type: ignore[arg-type]
    assert [[each.name for each in run.tools or ()] for run in agent.inputs] == [["get_weather", "look_up"]] * 2
    assert [call.id for call in agent.pending_tool_calls] == ["c"]


KEYWORDS = RunOptions.__annotations__


@pytest.mark.parametrize("name", sorted(KEYWORDS.keys() - {"tools", "headers", "new_run", "timeout", "when_busy"}))
def test_what_is_in_an_input_is_no_keyword_beside_it(name: str) -> None:
    options: Any = {name: "given"}
    with pytest.raises(UsageError, match=f"^{name}= goes with a prompt; a RunAgentInput is sent as it is"):
        ScriptedAgent(turn()).run_agent_sync(GIVEN, **options)


ANSWER = ResumeEntry(interrupt_id="interrupt-1", status="resolved", payload=True)
USED: dict[str, tuple[Any, Any, Callable[[RunAgentInput], Any]]] = {
    "run_id": ("r", "r", lambda run: run.run_id),
    "parent_run_id": ("p", "p", lambda run: run.parent_run_id),
    "context": (GIVEN.context, GIVEN.context, lambda run: run.context),
    "forwarded_props": ({"tenant": "acme"}, {"tenant": "acme"}, lambda run: run.forwarded_props),
    "tools": ([WEATHER], [WEATHER], lambda run: run.tools),
    "resume": ({"interrupt-1": Resolve(True)}, [ANSWER], lambda run: run.resume),
    "tool_results": ({"c": "Rain."}, ["Rain."], lambda run: [each.content for each in run.messages][-1:]),
}
"""For each keyword a value, and what the agent gets of it."""


@pytest.mark.parametrize("name", USED)
def test_every_keyword_reaches_the_agent(name: str) -> None:
    asking, calling = turn(outcome=interrupt("Proceed?")), turn(tool_call("get_weather", tool_call_id="c"))
    waiting = {"resume": asking, "tool_results": calling}
    agent = ScriptedAgent(waiting.get(name, turn()), turn())
    agent.run_agent_sync("Hi")
    given, expected, got = USED[name]
    options: Any = {name: given}
    agent.run_agent_sync(None, **options)
    assert got(agent.inputs[1]) == expected != got(agent.inputs[0])


def test_no_keyword_is_left_out_of_these_tests() -> None:
    # The first two are the request's, see tests/core/transport; the last one is not for the agent, see test_steering.
    assert KEYWORDS.keys() - USED.keys() == {"headers", "new_run", "timeout", "when_busy"}


def test_the_table_of_keywords_in_the_docs_has_each_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "start.md").read_text("utf-8")
    table = page.partition("| keyword | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(KEYWORDS)


def test_the_parent_of_a_run_is_not_that_of_the_round_after_it() -> None:
    @tool
    def look_up(name: str) -> str:
        return f"{name} found"

    agent = ScriptedAgent(turn(tool_call("look_up", {"name": "Oslo"})), turn(), tools=[look_up])
    agent.run_agent_sync("Hi", parent_run_id="p")
    assert [each.parent_run_id for each in agent.inputs] == ["p", None]
