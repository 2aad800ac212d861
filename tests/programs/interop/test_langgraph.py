"""LangGraph's own AG-UI adapter over real HTTP, with graphs that need no model; skipped where it is not installed.

Measured with ag-ui-langgraph 0.0.47: it declares no protocol version, sends a RAW event beside each of its own, and
snapshots of messages and state at the end. Interrupts are events of its own making unless it is told to speak 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

import pytest
from ag_ui.core import CustomEvent, EventType, Interrupt, RawEvent, RunStartedEvent
from fastapi import FastAPI
from typing_extensions import TypedDict

from agui_client import Cancel, HttpAgent, Resolve, RunFailedError
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import serve

_REASON = "needs LangGraph's adapter, which is not among the dev dependencies: pip install ag-ui-langgraph"
adapter = pytest.importorskip("ag_ui_langgraph", reason=_REASON)
graphs = pytest.importorskip("langgraph.graph", reason=_REASON)
prebuilt = pytest.importorskip("langgraph.prebuilt", reason=_REASON)
memory = pytest.importorskip("langgraph.checkpoint.memory", reason=_REASON)
pregel = pytest.importorskip("langgraph.types", reason=_REASON)
models = pytest.importorskip("langchain_core.language_models.fake_chat_models", reason=_REASON)
said = pytest.importorskip("langchain_core.messages", reason=_REASON)

# The adapter calls what its own library has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*get_config_jsonschema:DeprecationWarning")
add_messages: Any = graphs.add_messages


class Talk(TypedDict):
    """The state of every graph here."""

    messages: Annotated[list[Any], add_messages]
    city: str


Node = Callable[..., Any]
RunnableConfig: TypeAlias = Any
"""LangGraph knows the parameter for its configuration by this name."""


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 degrees in {city}"


@contextmanager
def served(node: Node, **options: Any) -> Generator[str, None, None]:
    """Serve a graph of one node, and of the tools it calls; gives its address."""
    graph = graphs.StateGraph(Talk)
    graph.add_node("talk", node)
    graph.add_node("tools", prebuilt.ToolNode([get_weather]))
    graph.add_edge(graphs.START, "talk")
    graph.add_conditional_edges("talk", prebuilt.tools_condition)
    graph.add_edge("tools", "talk")
    with hosted(graph, **options) as url:
        yield url


@contextmanager
def hosted(graph: Any, **options: Any) -> Generator[str, None, None]:
    """Serve a graph; gives its address."""
    compiled = graph.compile(checkpointer=memory.MemorySaver())
    app = FastAPI()
    adapter.add_langgraph_fastapi_endpoint(app, adapter.LangGraphAgent(name="talk", graph=compiled, **options))
    with serve(app) as server:
        yield server.url


async def speak(state: Talk, config: RunnableConfig) -> dict[str, Any]:
    """Streams one sentence, and sets the city."""
    answer = said.AIMessage(f"I heard {len(state['messages'])} messages.")
    model = models.GenericFakeChatModel(messages=iter([answer]))
    return {"messages": [await model.ainvoke(state["messages"], config)], "city": "Oslo"}


def test_text_streams_between_raw_events_and_ends_in_snapshots() -> None:
    with served(speak) as url, HttpAgent(url).stream_sync("Hello") as run:
        events = list(run)
        result = run.result()
    started = next(event for event in events if isinstance(event, RunStartedEvent))
    assert started.protocol_version is None
    kinds = [event.type for event in events if not isinstance(event, RawEvent)]
    assert [kind for kind in kinds if kind != EventType.TEXT_MESSAGE_CONTENT] == [
        EventType.RUN_STARTED,
        EventType.STEP_STARTED,
        EventType.TEXT_MESSAGE_START,
        EventType.TEXT_MESSAGE_END,
        EventType.STATE_SNAPSHOT,
        EventType.STEP_FINISHED,
        EventType.STATE_SNAPSHOT,
        EventType.MESSAGES_SNAPSHOT,
        EventType.RUN_FINISHED,
    ]
    assert [(message.role, message.content) for message in result.messages] == [
        ("user", "Hello"),
        ("assistant", "I heard 1 messages."),
    ]
    assert (result.text, result.state["city"], result.warnings) == ("I heard 1 messages.", "Oslo", [])


def test_the_conversation_goes_on_in_the_servers_own_thread() -> None:
    with served(speak, emit_raw_events=False) as url:
        agent = HttpAgent(url)
        answers = [agent.run_agent_sync(prompt).text for prompt in ("One?", "Two?")]
    assert answers == ["I heard 1 messages.", "I heard 3 messages."]
    assert [message.role for message in agent.messages] == ["user", "assistant", "user", "assistant"]


def test_a_tool_of_the_graph_is_called_and_answered_inside_the_run() -> None:
    async def look(state: Talk) -> dict[str, Any]:
        if isinstance(state["messages"][-1], said.ToolMessage):
            return {"messages": [said.AIMessage(f"It is {state['messages'][-1].content}.", id="answer")]}
        call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call-1"}
        return {"messages": [said.AIMessage("", tool_calls=[call], id="calling")]}

    with served(look) as url:
        result = HttpAgent(url).run_agent_sync("Weather?")
    assert [(message.role, message.content) for message in result.new_messages] == [
        ("assistant", ""),
        ("tool", "18 degrees in Oslo"),
        ("assistant", "It is 18 degrees in Oslo."),
    ]
    assert result.pending_tool_calls == []
    # Until the snapshot comes, the result has the id that the call's own message was given for want of another.
    assert {warning.rule for warning in result.warnings} <= {"TOOL-5"}


async def confirm(state: Talk) -> dict[str, Any]:
    """Asks before it answers."""
    answer = pregel.interrupt({"question": "Proceed?"})
    return {"messages": [said.AIMessage(f"You said {answer}.", id="answer")]}


def test_an_interrupt_of_the_graph_is_answered_with_resume() -> None:
    with served(confirm, emit_interrupt_outcome=True) as url:
        agent = HttpAgent(url)
        asked = agent.run_agent_sync("Hello")
        answers = {interrupt.id: Resolve({"approved": True}) for interrupt in asked.interrupts}
        done = agent.run_agent_sync(resume=answers)
    assert [type(interrupt) for interrupt in asked.interrupts] == [Interrupt]
    assert done.messages[-1].content == "You said {'approved': True}."
    assert (done.interrupts, asked.warnings, done.warnings) == ([], [], [])


@pytest.mark.parametrize("outcome", [True, False])
def test_an_interrupt_is_one_with_its_custom_event_and_without_an_outcome(outcome: bool) -> None:
    with served(confirm, emit_interrupt_outcome=outcome) as url:
        agent = HttpAgent(url)
        with agent.stream_sync("Hello") as run:
            asked = [event for event in run if isinstance(event, CustomEvent)]
            result = run.result()
    assert [(event.name, event.value) for event in asked] == [("on_interrupt", '{"question": "Proceed?"}')]
    assert (len(result.interrupts), result.warnings) == (1, [])
    assert result.interrupts == agent.pending_interrupts


def test_a_graph_asks_again_in_a_run_without_an_answer() -> None:
    with served(confirm) as url:
        agent = HttpAgent(url)
        asked = agent.run_agent_sync("Hello").interrupts
        again = agent.run_agent_sync("Are you there?").interrupts
        done = agent.run_agent_sync(forwarded_props={"command": {"resume": "yes"}})
    assert asked == again
    assert (done.messages[-1].content, done.interrupts) == ("You said yes.", [])


@pytest.mark.parametrize(
    ("raw", "answer", "heard"),
    [
        (True, Resolve({"approved": True}), "{'approved': True}"),
        (True, Resolve("42"), "42"),
        (True, Resolve(), "None"),
        (True, Resolve({}), "{}"),
        (False, Resolve({"approved": True}), "{'approved': True}"),
        (False, Resolve("42"), "42"),
        (False, Resolve(False), "False"),
        (False, Cancel(), "{'__agui_cancelled__': True, 'interrupt_id': 'run-1/0'}"),
    ],
)
def test_an_interrupt_in_its_older_form_is_answered(raw: bool, answer: Resolve | Cancel, heard: str) -> None:
    with served(confirm, emit_raw_events=raw) as url:
        agent = HttpAgent(url)
        asked = agent.run_agent_sync("Hello", run_id="run-1")
        (interrupt,) = asked.interrupts
        done = agent.run_agent_sync(resume={interrupt.id: answer})
    assert interrupt.metadata == {"langgraph": {"raw": {"question": "Proceed?"}}}
    assert ("/" in interrupt.id) is not raw
    assert done.messages[-1].content == f"You said {heard}."
    assert (done.interrupts, asked.warnings, done.warnings) == ([], [], [])


def test_two_interrupts_in_their_older_form_are_answered_at_once() -> None:
    """By LangGraph's ids; the adapter of 0.0.47 itself cannot, when it is told the answers in the protocol's form."""

    def asking(city: str) -> Node:
        def ask(state: Talk) -> dict[str, Any]:
            return {"messages": [said.AIMessage(f"{city}: {pregel.interrupt(f'To {city}?')}", id=city)]}

        return ask

    graph = graphs.StateGraph(Talk)
    for city in ("Oslo", "Turin"):
        graph.add_node(city, asking(city))
        graph.add_edge(graphs.START, city)
    with hosted(graph) as url:
        agent = HttpAgent(url)
        asked = agent.run_agent_sync("Hello").interrupts
        answers = {interrupt.id: Resolve(f"yes to {interrupt.message}") for interrupt in asked}
        done = agent.run_agent_sync(resume=answers)
    heard = sorted(str(message.content) for message in done.messages[1:])
    assert heard == ["Oslo: yes to To Oslo?", "Turin: yes to To Turin?"]
    assert done.interrupts == []


@pytest.mark.parametrize("is_answered_inside", [True, False])
@pytest.mark.parametrize("outcome", [True, False])
def test_a_graph_works_in_a_team_and_its_interrupt_is_answered_through_the_team(
    outcome: bool, is_answered_inside: bool
) -> None:
    yes = Resolve({"approved": True})

    def answer(interrupt: Interrupt) -> Resolve:
        return yes

    handlers: dict[str, Any] = {"answer": answer} if is_answered_inside else {}
    with served(speak) as speaking, served(confirm, emit_interrupt_outcome=outcome) as asking:
        speaker, asker = HttpAgent(speaking, agent_id="speaker"), HttpAgent(asking, agent_id="asker")
        judge = HttpAgent(speaking, agent_id="judge")
        team = ParallelAgent(speaker, SequentialAgent(asker, agent_id="desk"), then=judge, strict=True, **handlers)
        done = team.run_agent_sync("Hello")
        if not is_answered_inside:
            (asked,) = done.interrupts
            done = team.run_agent_sync(resume={asked.id: yes})
    # Who is done is not asked again, and the judge is shown both answers.
    assert {each.name: each.text for each in done.subagents} == {
        **({"speaker": "I heard 1 messages."} if is_answered_inside else {}),
        "desk": "You said {'approved': True}.",
        "asker": "You said {'approved': True}.",
        "judge": "I heard 3 messages.",
    }
    assert (done.text, done.interrupts, done.warnings) == ("I heard 3 messages.", [], [])


def test_a_node_that_breaks_down_fails_the_run() -> None:
    async def fail(state: Talk) -> dict[str, Any]:
        raise RuntimeError("the node is down")

    with served(fail) as url, pytest.raises(RunFailedError, match=r"^the node is down$"):
        HttpAgent(url).run_agent_sync("Hello")
