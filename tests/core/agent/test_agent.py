"""An agent's conversation: what it holds, how it is edited, saved, cloned, and sent with the next run."""

from __future__ import annotations

import copy
import inspect
import json
import operator
import pickle
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, cast
from uuid import UUID

import anyio
import httpx
import pytest
from ag_ui.core import (
    AssistantMessage,
    Context,
    Event,
    Message,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    SystemMessage,
    TextPart,
    Tool,
    UserMessage,
)

from agui_client import (
    AbstractAgent,
    AGUIError,
    FunctionAgent,
    HookContext,
    HttpAgent,
    InvalidEventError,
    Subscriber,
    UsageError,
)
from agui_client.notebook import NotebookApprover
from agui_client.testing import ScriptedAgent, serve_bytes, sse, state, text, tool_call, turn
from support import scenario
from support.verbs import Verb, every_kind_of_verb, shown

HELLO = turn(text("Hello."))
SYSTEM = SystemMessage(id="system", content="Be brief.")
BEFORE: list[Message] = [
    SYSTEM,
    UserMessage(id="user-1", content="Hi"),
    AssistantMessage(id="answer-1", content="Hello."),
]


def contents(agent: AbstractAgent) -> list[Any]:
    return [message.content for message in agent.messages]


# --- what an agent is


@pytest.mark.requirement("LIFE-15")
def test_an_agent_has_ids_of_its_own_unless_they_are_given() -> None:
    one, other = HttpAgent("http://host/"), HttpAgent("http://host/")
    ids = {one.agent_id, other.agent_id, one.thread_id, other.thread_id}
    assert len({UUID(each) for each in ids}) == 4
    given = HttpAgent("http://host/", agent_id="writer", description="Writes.", thread_id="t")
    assert (given.agent_id, given.description, given.thread_id) == ("writer", "Writes.", "t")


def test_an_agent_begins_with_what_it_is_given() -> None:
    agent = HttpAgent("http://host/", initial_messages=BEFORE, initial_state={"language": "English"})
    assert agent.messages == BEFORE
    assert agent.state == {"language": "English"}
    fresh = HttpAgent("http://host/")
    assert (fresh.messages, fresh.state, fresh.pending_interrupts, fresh.tools) == ([], {}, [], [])
    assert not fresh.is_running


def test_a_representation_names_the_agent_and_its_thread() -> None:
    agent = HttpAgent("http://ada:secret@host/runs?key=secret", agent_id="a", thread_id="t")
    assert repr(agent) == "HttpAgent('http://host/runs', agent_id='a', thread_id='t')"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a sync client": ({"http_client": httpx.Client()}, "http_client= cannot be a Client; give an httpx.AsyncClient"),
    "a number as client": ({"http_client": 5}, "http_client= cannot be a int; give an httpx.AsyncClient"),
    "a text as client": ({"http_client": "http://ada:secret@proxy/"}, "http_client= cannot be a str; give an httpx."),
    "a text as retry": ({"retry": "3"}, "retry= is how often to try again, 0 or more, or RetryPolicy(...), not '3'"),
    "true as retry": ({"retry": True}, "retry= is how often to try again, 0 or more, or RetryPolicy(...), not True"),
    "less than none": ({"retry": -1}, "retry= is how often to try again, 0 or more, or RetryPolicy(...), not -1"),
    "a text as answer": ({"answer": "yes"}, "answer= takes a function of an Interrupt, not 'yes'"),
    "true as approve": ({"approve": True}, "approve= takes a function of an ApprovalRequest, not True"),
    "a class as approve": (
        {"approve": NotebookApprover},
        "approve= takes a function of an ApprovalRequest, not a class; did you mean NotebookApprover()?",
    ),
    "a text as on_abort": ({"on_abort": "stop"}, "on_abort= takes a function of a HookContext, not 'stop'"),
    "another treatment of nulls": ({"null_fields": "keep"}, "null_fields is 'reject' or 'drop', not 'keep'"),
    "a word as version": ({"max_protocol_version": "new"}, "'new' is not a version; write numbers and dots"),
    "a number as people": ({"people": 600}, "people= takes People(...), such as People(wait=600), not 600"),
    "a number as limits": ({"tool_limits": 5}, "tool_limits= takes ToolLimits(...), such as ToolLimits(rounds=5), not"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_an_option_does_not_take_is_refused_where_it_is_given(case: str) -> None:
    options, refusal = WRONG[case]
    with pytest.raises(UsageError, match=re.escape(refusal)) as error:
        HttpAgent("http://host/", **options)
    assert "secret" not in str(error.value)


def test_a_prompt_given_to_run_is_answered_with_the_verbs_that_take_one() -> None:
    wrong: Any = "Hi"
    for agent in (HttpAgent("http://host/"), FunctionAgent(echo)):
        with pytest.raises(UsageError, match="did you mean run_agent\\(\\) or run_agent_sync\\(\\)"):
            agent.run(wrong)


@pytest.mark.parametrize("verb", ["run_agent", "stream", "run_agent_sync", "stream_sync", "observe"])
@pytest.mark.parametrize("agent_class", [AbstractAgent, HttpAgent, FunctionAgent, ScriptedAgent])
def test_the_five_verbs_take_the_same_arguments(agent_class: type[AbstractAgent], verb: str) -> None:
    signature = inspect.signature(getattr(agent_class, verb))
    reference = inspect.signature(AbstractAgent.run_agent)
    assert [(p.name, p.kind, p.default, p.annotation) for p in signature.parameters.values()] == [
        (p.name, p.kind, p.default, p.annotation) for p in reference.parameters.values()
    ]


@pytest.mark.parametrize("verb", ["run_agent", "stream", "run_agent_sync", "stream_sync", "observe"])
def test_an_unknown_keyword_is_a_type_error_that_names_the_nearest(verb: str) -> None:
    async def call() -> None:
        agent: Any = ScriptedAgent(HELLO)
        said = r"^unknown keyword runid=; did you mean run_id=\? help\(ScriptedAgent.\w+\) explains"
        with pytest.raises(TypeError, match=said):
            await agent.run_agent("Hi", runid="x") if verb == "run_agent" else getattr(agent, verb)("Hi", runid="x")
        assert agent.messages == []

    anyio.run(call)


@every_kind_of_verb
def test_headers_are_for_agents_behind_http(verb: Verb) -> None:
    agent = ScriptedAgent(HELLO)
    error = verb(agent, "Hi", headers={"X": "1"}).error
    assert isinstance(error, UsageError)
    assert "HttpAgent" in str(error)
    assert agent.messages == []


# --- prompts


@every_kind_of_verb
@pytest.mark.requirement("LIFE-15", "INPUT-1")
def test_text_is_a_user_message_with_an_id_of_its_own(verb: Verb) -> None:
    agent = ScriptedAgent(HELLO)
    verb(agent, "Hi")
    verb(agent, "Hi")
    first, _, second, _ = agent.messages
    assert isinstance(first, UserMessage)
    assert first.content == "Hi"
    assert first.id != second.id
    assert [len(each.messages) for each in agent.inputs] == [1, 3]
    assert agent.inputs[0].run_id != agent.inputs[1].run_id
    assert agent.inputs[0].thread_id == agent.inputs[1].thread_id == agent.thread_id


@every_kind_of_verb
def test_a_message_of_any_role_is_a_prompt(verb: Verb) -> None:
    agent = ScriptedAgent(HELLO)
    verb(agent, SYSTEM)
    assert agent.messages[0] == SYSTEM


@every_kind_of_verb
@pytest.mark.requirement("LIFE-15")
def test_messages_may_be_json_objects(verb: Verb) -> None:
    agent = ScriptedAgent(HELLO)
    agent.add_messages([{"role": "system", "content": "Be brief.", "id": "system"}])
    verb(agent, {"role": "user", "content": "Hi"})
    first, second, _ = agent.messages
    assert first == SYSTEM
    assert (type(second), second.content) == (UserMessage, "Hi")
    assert str(UUID(second.id)) == second.id


@pytest.mark.parametrize("message", [{}, {"role": "elf", "content": ""}, {"role": "user", "content": 7}], ids=repr)
def test_an_object_that_is_no_message_is_refused(message: dict[str, Any]) -> None:
    agent = ScriptedAgent(HELLO)
    with pytest.raises(UsageError, match="not a message"):
        agent.add_message(message)
    assert agent.messages == []


@pytest.mark.requirement("INPUT-8")
def test_content_parts_are_a_user_message() -> None:
    agent = ScriptedAgent(HELLO)
    agent.run_agent_sync([TextPart(text="Look: "), TextPart(text="this")])
    assert shown(agent.messages)[0]["content"] == [{"type": "text", "text": "Look: "}, {"type": "text", "text": "this"}]


@every_kind_of_verb
def test_no_prompt_goes_on_with_what_is_there(verb: Verb) -> None:
    agent = ScriptedAgent(HELLO, initial_messages=BEFORE)
    verb(agent)
    assert agent.inputs[0].messages == BEFORE


@pytest.mark.parametrize("prompt", [7, b"Hi", [], [7], pytest.param(object(), id="object"), {"role": "user"}], ids=repr)
def test_anything_else_is_no_prompt(prompt: Any) -> None:
    agent = ScriptedAgent(HELLO)
    with pytest.raises(UsageError):
        agent.run_agent_sync(prompt)
    assert (agent.messages, agent.inputs, agent.is_running) == ([], [], False)


@pytest.mark.requirement("INPUT-1", "INPUT-5", "INPUT-7", "STATE-4")
def test_the_whole_input_is_what_was_given() -> None:
    tool = Tool(name="look", description="Looks.", parameters={})
    other = Tool(name="listen", description="Listens.", parameters={})
    agent = ScriptedAgent(HELLO, thread_id="t", initial_messages=BEFORE, initial_state={"n": 1}, tools=[tool])
    context = [Context(description="unit", value="°C")]
    agent.run_agent_sync(run_id="r1", context=context, forwarded_props={"a": None})
    agent.run_agent_sync(run_id="r2", tools=[other])
    agent.run_agent_sync(run_id="r3", tools=[])
    first, second, third = agent.inputs
    assert first == RunAgentInput(
        thread_id="t",
        run_id="r1",
        protocol_version="1.0",
        messages=BEFORE,
        state={"n": 1},
        tools=[tool],
        context=context,
        forwarded_props={"a": None},
    )
    assert (second.tools, second.context, second.forwarded_props) == ([other], [], {})
    assert third.tools == []
    assert agent.tools == [tool]


@every_kind_of_verb
def test_an_input_that_cannot_be_sent_changes_nothing(verb: Verb) -> None:
    with serve_bytes(b"") as server:
        agent = HttpAgent(server.url)
        options: Any = {"context": ["not a context"]}
        ending = verb(agent, "Hi", **options)
        assert isinstance(ending.error, UsageError)
        assert server.requests == []
    assert (agent.messages, agent.is_running) == ([], False)


# --- editing


def test_messages_are_added_and_replaced() -> None:
    agent = ScriptedAgent(HELLO)
    agent.add_message(SYSTEM)
    agent.add_messages(BEFORE[1:])
    assert agent.messages == BEFORE
    agent.set_messages([SYSTEM])
    assert agent.messages == [SYSTEM]
    agent.run_agent_sync("Hi")
    assert contents(agent) == ["Be brief.", "Hi", "Hello."]


def test_the_list_of_messages_that_an_agent_is_given_stays_the_callers_own() -> None:
    given = list(BEFORE)
    agent = ScriptedAgent(HELLO, initial_messages=given)
    given.clear()
    assert agent.messages == BEFORE


def add_in_place(messages: list[Message]) -> None:
    messages += [SYSTEM]


def repeat_in_place(messages: list[Message]) -> None:
    messages *= 2


CHANGES: dict[str, Callable[[list[Message]], object]] = {
    "append": lambda messages: messages.append(SYSTEM),
    "extend": lambda messages: messages.extend([SYSTEM]),
    "insert": lambda messages: messages.insert(0, SYSTEM),
    "remove": lambda messages: messages.remove(SYSTEM),
    "pop": lambda messages: messages.pop(),
    "clear": lambda messages: messages.clear(),
    "sort": lambda messages: messages.sort(key=str),
    "reverse": lambda messages: messages.reverse(),
    "setitem": lambda messages: operator.setitem(messages, 0, SYSTEM),
    "delitem": lambda messages: operator.delitem(messages, slice(None)),
    "+=": add_in_place,
    "*=": repeat_in_place,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_list_of_messages_is_refused_with_the_verb_to_use(change: str) -> None:
    class Changing(Subscriber):
        def on_run_started_event(self, event: RunStartedEvent, context: HookContext) -> None:
            with pytest.raises(UsageError):
                CHANGES[change](context.messages)

    agent = ScriptedAgent(HELLO, initial_messages=BEFORE)
    agent.subscribe(Changing())
    with agent.stream_sync("Hi") as run:
        for _ in run:
            with pytest.raises(UsageError, match=r"agent\.set_messages\(\[\.\.\.\]\) replaces them"):
                CHANGES[change](run.messages)
    with pytest.raises(UsageError, match=r"agent\.add_messages\(\[\.\.\.\]\) adds some.*, write list\(\.\.\.\)$"):
        CHANGES[change](agent.messages)
    assert agent.messages[:-2] == BEFORE


@pytest.mark.parametrize("way", ["list", "copy", "deepcopy", "pickle"])
def test_a_copy_of_the_list_of_messages_is_a_list_to_change(way: str) -> None:
    agent = ScriptedAgent(HELLO, initial_messages=BEFORE)
    given = agent.messages
    ways: dict[str, Callable[[], list[Message]]] = {
        "list": lambda: list(given),
        "copy": lambda: copy.copy(given),
        "deepcopy": lambda: copy.deepcopy(given),
        "pickle": lambda: pickle.loads(pickle.dumps(given)),
    }
    changed = ways[way]()
    changed.append(SYSTEM)
    assert changed == [*BEFORE, SYSTEM]
    agent.set_messages(changed)
    assert agent.messages == changed


def test_a_change_in_place_of_the_state_leaves_earlier_results_alone() -> None:
    agent = ScriptedAgent(turn(state({"n": {"m": 1}})), HELLO, HELLO)
    first, second = agent.run_agent_sync("One"), agent.run_agent_sync("Two")
    agent.state["n"]["m"] = 2
    assert agent.state is agent.state
    third = agent.run_agent_sync("Three")
    agent.state["n"]["m"] = 3
    assert [each.state for each in (first, second, third)] == [{"n": {"m": each}} for each in (1, 1, 2)]
    assert [each.state for each in agent.inputs] == [{}, {"n": {"m": 1}}, {"n": {"m": 2}}]
    assert agent.state == {"n": {"m": 3}}


def test_a_look_at_the_state_after_a_run_keeps_the_edits_that_were_made_in_it() -> None:
    def edit(event: object) -> None:
        with agent.edit_state() as edited:
            edited["mine"] = 1

    agent = ScriptedAgent(turn(state({"n": 1})), HELLO)
    agent.on(RunFinishedEvent)(edit)
    result = agent.run_agent_sync("Hi")
    agent.state["n"] = 2
    assert (agent.state, result.state) == ({"n": 2, "mine": 1}, {"n": 1, "mine": 1})
    agent.run_agent_sync("Hi")
    assert agent.inputs[1].state == {"n": 2, "mine": 1}


@pytest.mark.requirement("STATE-2", "STATE-4")
@pytest.mark.parametrize("value", [None, 0, "", False, [], {"a": {"b": None}}], ids=repr)
def test_the_state_is_any_json(value: Any) -> None:
    agent = ScriptedAgent(turn())
    agent.set_state(value)
    assert agent.state == value
    agent.run_agent_sync()
    assert agent.state == value
    assert agent.inputs[0].state == value


@pytest.mark.requirement("STATE-4", "INPUT-6")
def test_a_null_state_is_left_out_on_the_wire() -> None:
    with serve_bytes(sse(turn())) as server:
        agent = HttpAgent(server.url)
        agent.set_state(None)
        agent.run_agent_sync()
        assert "state" not in server.requests[0].json()


@pytest.mark.requirement("INPUT-4")
def test_activities_stay_at_home() -> None:
    with serve_bytes(scenario.FRAMES, sse(turn(text("Ok.", message_id="m9")))) as server:
        agent = HttpAgent(server.url, thread_id="thread-1")
        agent.run_agent_sync(scenario.PROMPT)
        agent.run_agent_sync("Thanks")
        sent = server.requests[1].json()["messages"]
    assert [message["role"] for message in sent] == [
        "user", "reasoning", "assistant", "tool", "reasoning", "assistant", "tool", "user"
    ]  # fmt: skip
    assert agent.messages[4].role == "activity"


# --- agents in this process


async def echo(input: RunAgentInput) -> AsyncIterator[Event]:
    """Says what it was told.

    And nothing else.
    """
    for step in (RunStartedEvent, RunFinishedEvent):
        yield step(thread_id=input.thread_id, run_id=input.run_id)


@every_kind_of_verb
@pytest.mark.requirement("SSE-13")
def test_a_function_is_an_agent(verb: Verb) -> None:
    agent = FunctionAgent(echo)
    assert (agent.agent_id, agent.description) == ("echo", "Says what it was told.")
    assert verb(agent, "Hi").error is None
    assert contents(agent) == ["Hi"]


def test_an_agent_is_described_by_the_first_line_of_its_functions_docstring_and_by_no_other_objects() -> None:
    async def indented(input: RunAgentInput) -> AsyncIterator[Event]:
        for _ in ():
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)

    indented.__doc__ = "\n        Says nothing.\n\n        Ever.\n        "
    assert FunctionAgent(indented).description == "Says nothing."
    assert FunctionAgent(partial(echo)).description == ""


@every_kind_of_verb
@pytest.mark.requirement("SSE-13")
def test_a_subclass_is_an_agent(verb: Verb) -> None:
    class Mine(AbstractAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
            async for event in echo(input):
                yield event

    assert verb(Mine(thread_id="t"), "Hi", run_id="r").error is None


def test_an_agent_without_run_cannot_be_made() -> None:
    unfinished: Any = AbstractAgent
    with pytest.raises(TypeError, match="abstract"):
        unfinished()


@every_kind_of_verb
@pytest.mark.requirement("SSE-13")
def test_a_run_that_returns_nothing_to_iterate_is_an_error(verb: Verb) -> None:
    def nothing(input: RunAgentInput) -> Any:
        return None

    agent = FunctionAgent(nothing)
    assert isinstance(verb(agent, "Hi").error, AGUIError | TypeError | AttributeError)
    assert not agent.is_running


def test_calls_left_to_the_application_are_kept_on_the_agent() -> None:
    agent = ScriptedAgent(turn(tool_call("look")))
    assert [call.id for call in agent.run_agent_sync("Hi").pending_tool_calls] == ["call-1"]
    assert agent.snapshot().pending_tool_call_ids == ["call-1"]


def test_what_is_no_subscriber_and_no_class_of_events_is_refused() -> None:
    agent, wrong = ScriptedAgent(HELLO), cast("Any", print)
    with pytest.raises(UsageError, match=r"subscribe\(\) takes an instance of a Subscriber subclass"):
        agent.subscribe(wrong)
    with pytest.raises(UsageError, match=r"on\(\) takes a class of events"):
        agent.on(wrong)


def test_an_older_peer_is_posted_an_input_that_it_understands() -> None:
    with serve_bytes(sse(HELLO)) as server:
        HttpAgent(server.url, max_protocol_version="0.0.57").run_agent_sync("Hi")
        assert "protocolVersion" not in json.loads(server.requests[0].body)


async def listing(input: RunAgentInput) -> list[Event]:
    """Return events in a list, as an agent may not."""
    return []


@every_kind_of_verb
def test_an_agent_that_returns_its_events_in_a_coroutine_is_told_to_yield_them(verb: Verb) -> None:
    error = verb(FunctionAgent(cast("Any", listing)), "Hi").error
    assert isinstance(error, UsageError)
    assert "yields events or text, or returns text, not [" in str(error)


@every_kind_of_verb
def test_a_snapshot_of_an_agent_in_this_process_that_nests_too_deeply_is_refused(verb: Verb) -> None:
    deep: Any = []
    for _ in range(2000):
        deep = [deep]

    async def nesting(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield StateSnapshotEvent(snapshot=deep)

    error = verb(FunctionAgent(nesting), "Hi").error
    assert isinstance(error, InvalidEventError)
    assert "nested too deeply" in str(error)
