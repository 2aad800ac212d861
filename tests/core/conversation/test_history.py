"""`history=` decides what a run sends; the conversation stays whole, and no call is parted from its result."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import httpcore
import httpx
import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    DeveloperMessage,
    Event,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessage,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunStartedEvent,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from agui_client import (
    AGUIError,
    Approve,
    ConnectError,
    ConversationSnapshot,
    HistoryError,
    HttpAgent,
    Mutation,
    Resolve,
    RunFailedError,
    RunTimeoutError,
    Subscriber,
    Timeouts,
    UsageError,
    Window,
    tool,
)
from agui_client.testing import ScriptedAgent, Step, interrupt, serve, sse, text, tool_call, turn
from agui_client.types import Next
from support.verbs import Verb, every_verb
from support.waiting import LIMIT

SYSTEM = SystemMessage(id="system", content="Be brief.")


def user(number: int) -> UserMessage:
    return UserMessage(id=f"user-{number}", content=f"Question {number}")


def answer(number: int) -> AssistantMessage:
    return AssistantMessage(id=f"answer-{number}", content=f"Answer {number}")


def calling(*ids: str) -> AssistantMessage:
    calls = [ToolCall(id=each, function=FunctionCall(name="look", arguments="{}")) for each in ids]
    return AssistantMessage(id=f"calling-{'-'.join(ids)}", tool_calls=calls)


def result(call_id: str) -> ToolMessage:
    return ToolMessage(id=f"result-{call_id}", tool_call_id=call_id, content="seen")


LONG: list[Message] = [
    SYSTEM,
    DeveloperMessage(id="developer", content="English."),
    user(1), answer(1),
    user(2), calling("a", "b"), result("a"), result("b"), answer(2),
    user(3), answer(3),
]  # fmt: skip
HEAD = ["system", "developer"]
_MINTED = 36
"""The length of a UUID."""


def ids(messages: Iterable[Message]) -> list[str]:
    return [message.id for message in messages]


def named(messages: Iterable[Message]) -> list[str]:
    """The ids of messages, minted ones by the role."""
    return [message.role if len(message.id) == _MINTED else message.id for message in messages]


def sent(agent: ScriptedAgent) -> list[list[str]]:
    """The messages of every run."""
    return [named(run.messages) for run in agent.inputs]


# --- windows


def ten(message: Message) -> int:
    return 10


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(Window(turns=1), ["user-3", "answer-3"], id="the last turn"),
        pytest.param(Window(turns=2), ids(LONG[4:]), id="two turns, with calls and results"),
        pytest.param(Window(turns=9), ids(LONG[2:]), id="more turns than there are"),
        pytest.param(Window(messages=5), ["user-3", "answer-3"], id="a window begins with a turn"),
        pytest.param(Window(messages=8), ["user-3", "answer-3"], id="half a turn is left out"),
        pytest.param(Window(messages=9), ids(LONG[4:]), id="exactly two turns"),
        pytest.param(Window(messages=1), ["user-3", "answer-3"], id="at least the last message and its question"),
        pytest.param(Window(turns=3, messages=9), ids(LONG[4:]), id="all limits count"),
        pytest.param(Window(tokens=40, count=ten), ["user-3", "answer-3"], id="tokens"),
        pytest.param(Window(tokens=90, count=ten), ids(LONG[4:]), id="as many turns as tokens allow"),
    ],
)  # fmt: skip
def test_a_window_is_the_end_of_the_conversation_with_the_instructions_before_it(
    window: Window, expected: list[str]
) -> None:
    assert ids(window.of(LONG)) == HEAD + expected


def test_of_a_turn_that_is_too_large_the_question_and_the_end_are_sent() -> None:
    rounds = [each for call in "cdef" for each in (calling(call), result(call))]
    window = Window(messages=6)
    assert ids(window.of([*LONG, user(4), *rounds])) == [
        *HEAD, "user-4", "calling-f", "result-f"
    ]  # fmt: skip


def test_calls_and_results_that_stand_apart_are_sent_together_or_not_at_all() -> None:
    apart: list[Message] = [user(1), calling("a"), user(2), answer(2), result("a"), answer(1), user(3)]
    assert ids(Window(messages=3).of(apart)) == ["user-3"]
    assert ids(Window(messages=7).of(apart)) == ids(apart)


def test_reasoning_stays_with_the_message_that_it_led_to() -> None:
    thought = ReasoningMessage(id="thought", content="Hm.")
    turns: list[Message] = [user(1), thought, calling("a"), result("a"), answer(1)]
    assert ids(Window(messages=4).of(turns)) == ["user-1", "answer-1"]
    assert ids(Window(messages=3).of([user(1), answer(1), thought, calling("a"), result("a")])) == [
        "user-1", "thought", "calling-a", "result-a"
    ]  # fmt: skip


def test_activities_are_neither_counted_nor_sent() -> None:
    activity = ActivityMessage(id="map", activity_type="MAP", content={})
    assert ids(Window(messages=2).of([user(1), answer(1), user(2), activity, answer(2)])) == ["user-2", "answer-2"]
    assert Window(turns=1).of([]) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "a Window needs a limit"),
        ({"turns": 0}, r"Window\(turns=...\) takes a positive whole number, not 0"),
        ({"messages": True}, "not True"),
        ({"tokens": 0.5}, "not 0.5"),
        ({"tokens": 5, "count": 3}, r"Window\(tokens=...\) needs count=, a function of a message, not 3"),
        ({"tokens": 5}, "needs count=, a function of a message, not None"),
    ],
)
def test_a_window_says_which_limit_it_does_not_take(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Window(**arguments)


@pytest.mark.parametrize("history", ["none", 20, Window, ["full"]])
def test_other_values_are_refused_when_the_agent_is_made(history: Any) -> None:
    with pytest.raises(UsageError, match=r'history= takes "full", "new", a Window'):
        ScriptedAgent(turn(), history=history)


# --- what is sent


@every_verb
def test_a_window_counts_in_every_verb_and_what_is_stored_stays_whole(verb: Verb) -> None:
    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history=Window(turns=2))
    ending = verb(agent, "And now?")
    assert ending.error is None
    assert sent(agent) == [[*HEAD, "user-3", "answer-3", "user"]]
    assert ids(agent.messages)[: len(LONG)] == ids(LONG)
    assert len(agent.messages) == len(LONG) + 2


@every_verb
def test_new_sends_everything_once_and_then_what_was_added(verb: Verb) -> None:
    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history="new")
    for _ in range(3):
        assert verb(agent, "And now?").error is None
    agent.add_message(user(9))
    assert verb(agent).error is None
    assert sent(agent) == [[*ids(LONG), "user"], [*HEAD, "user"], [*HEAD, "user"], [*HEAD, "user-9"]]


ASK = Tool(name="ask", description="Asks the user.", parameters={"type": "object"})


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("history", ["new", Window(turns=1), Window(messages=1)])
@every_verb
def test_the_next_round_of_a_call_sends_the_call_with_its_result(verb: Verb, history: Any) -> None:
    rounds = (turn(tool_call("look", tool_call_id="c1", parent_message_id="m1")), turn(text("Done.")))
    agent = ScriptedAgent(*rounds, initial_messages=LONG, history=history, tools=[look])
    assert verb(agent, "And now?").error is None
    question = [] if history == "new" else ["user"]
    assert sent(agent)[1] == [*HEAD, *question, "m1", "tool"]
    assert [message.role for message in agent.messages[len(LONG) :]] == ["user", "assistant", "tool", "assistant"]


def test_results_given_by_hand_take_their_calls_and_the_other_results_with_them() -> None:
    calls = [
        tool_call(name, tool_call_id=each, parent_message_id="m1") for name, each in (("look", "c1"), ("ask", "c2"))
    ]
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), history="new", tools=[look, ASK])
    assert [call.id for call in agent.run_agent_sync("Hi").pending_tool_calls] == ["c2"]
    agent.run_agent_sync(tool_results={"c2": "yes"})
    assert sent(agent) == [["user"], ["m1", "tool", "tool"]]


def test_approved_calls_are_sent_with_their_results() -> None:
    @tool(approval="always")
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = ScriptedAgent(
        turn(tool_call("pay", tool_call_id="c1", parent_message_id="m1")), turn(), history="new", tools=[pay]
    )
    assert agent.run_agent_sync("Hi").pending_tool_calls
    agent.run_agent_sync(tool_results={"c1": Approve()})
    assert sent(agent) == [["user"], ["m1", "tool"]]


def test_a_resumed_run_sends_the_call_that_waits_for_the_answer() -> None:
    asks = turn(
        text("Hm.", message_id="m0"),
        tool_call("pay", tool_call_id="c1", parent_message_id="m1"),
        outcome=interrupt("May I?", interrupt_id="i1", tool_call_id="c1"),
    )
    agent = ScriptedAgent(asks, turn(text("Paid.")), history="new")
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(resume={"i1": Resolve(True)})
    assert sent(agent) == [["user"], ["m1"]]
    assert agent.inputs[1].resume


def test_a_whole_input_is_sent_as_it_is_and_the_next_round_of_its_call_follows_history() -> None:
    rounds = (turn(tool_call("look", tool_call_id="c1", parent_message_id="m1")), turn(text("Done.")))
    agent = ScriptedAgent(*rounds, history=Window(turns=1), tools=[look])
    agent.run_agent_sync(RunAgentInput(thread_id="t", run_id="r", messages=[*LONG, user(4)]))
    assert sent(agent) == [[*ids(LONG), "user-4"], [*HEAD, "user-4", "m1", "tool"]]


def test_connecting_sends_what_history_chooses() -> None:
    class Connected(ScriptedAgent):
        def connect(self, input: RunAgentInput) -> AsyncIterator[Any]:
            return self.run(input)

    agent = Connected(turn(text("Hello.")), initial_messages=LONG, history=Window(turns=1))
    anyio.run(agent.connect_agent)
    assert sent(agent) == [[*HEAD, "user-3", "answer-3"]]


# --- "new" after failures, edits and saving


@pytest.mark.parametrize(
    "failed",
    [
        pytest.param(turn(RunErrorEvent(message="overloaded")), id="RUN_ERROR"),
        pytest.param([RunStartedEvent(thread_id="t", run_id="r")], id="cut off"),
        pytest.param(turn(outcome=RunFinishedCancelledOutcome()), id="cancelled"),
        pytest.param([], id="never started"),
    ],
)
def test_new_sends_everything_after_a_run_that_did_not_finish(failed: Step | Sequence[Step]) -> None:
    agent = ScriptedAgent(turn(text("Hello.")), failed, turn(text("Again.")), initial_messages=LONG, history="new")
    agent.run_agent_sync("One")
    with suppress(AGUIError):
        agent.run_agent_sync("Two")
    everything = named(agent.messages)
    agent.run_agent_sync("Three")
    agent.run_agent_sync("Four")
    assert sent(agent)[2:] == [[*everything, "user"], [*HEAD, "user"]]


class _Connections(httpx.AsyncBaseTransport):
    """Answers requests, except one that finds no connection."""

    def __init__(self, missing: int) -> None:
        self.sent: list[list[str]] = []
        self._left = missing

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._left -= 1
        if self._left == 0:
            # As httpx's own transport raises it.
            raise httpx.ConnectError("refused") from httpcore.ConnectError(ConnectionRefusedError())
        messages = json.loads(await request.aread())["messages"]
        self.sent.append([each["content"] for each in messages if each["role"] == "user"])
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=sse(turn(text("Yes."))))


async def _no_connection(number: int) -> list[list[str]]:
    """Have one of four requests find no connection; return what the others were sent."""
    connections = _Connections(number)
    client = httpx.AsyncClient(transport=connections)
    agent = HttpAgent("http://agent.test/", history="new", http_client=client, retry=0)
    for prompt in ("one", "two", "three", "four"):
        with suppress(ConnectError):
            await agent.run_agent(prompt)
    return connections.sent


@pytest.mark.anyio
async def test_new_sends_what_is_new_after_a_request_that_never_reached_the_server() -> None:
    assert await _no_connection(1) == [["two"], ["three"], ["four"]]
    assert await _no_connection(3) == [["one"], ["two"], ["four"]]


@pytest.mark.anyio
async def test_new_sends_what_is_new_after_runs_of_which_nothing_was_sent() -> None:
    def refusing(run_input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        if is_refusing:
            raise ValueError
        return following(run_input)

    connections, is_refusing = _Connections(0), False
    client = httpx.AsyncClient(transport=connections)
    agent = HttpAgent("http://agent.test/", history="new", http_client=client, middleware=[refusing])
    await agent.run_agent("one")
    is_refusing = True
    with suppress(ValueError):
        await agent.run_agent("two")
    is_refusing = False
    await agent.run_agent("three")
    async with agent.stream("four") as run:
        run.cancel()
    await agent.run_agent("five")
    assert connections.sent == [["one"], ["three"], ["five"]]


def test_new_sends_everything_after_a_run_that_was_left() -> None:
    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history="new")
    agent.run_agent_sync("One")
    with agent.stream_sync("Two") as run:
        next(iter(run))
    everything = named(agent.messages)
    agent.run_agent_sync("Three")
    assert sent(agent)[2] == [*everything, "user"]


def test_new_sends_everything_after_the_application_replaced_the_messages() -> None:
    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history="new")
    agent.run_agent_sync("One")
    agent.set_messages(LONG[:4])
    agent.run_agent_sync("Two")
    assert sent(agent)[1] == [*ids(LONG[:4]), "user"]


def test_new_sends_everything_after_a_hook_replaced_the_messages() -> None:
    class Forgetful(Subscriber):
        def on_run_started_event(self, event: Any, context: Any) -> Mutation:
            return Mutation(messages=context.messages[-1:])

    agent = ScriptedAgent(
        turn(text("Hello.", message_id="m1")), turn(text("Yes.")), initial_messages=LONG, history="new"
    )
    with agent.subscribe(Forgetful()):
        agent.run_agent_sync("One")
    agent.run_agent_sync("Two")
    assert sent(agent)[1] == ["user", "m1", "user"]


def test_a_message_added_while_a_run_goes_on_is_new_to_the_next() -> None:
    agent = ScriptedAgent(turn(text("Hello.")), history="new")
    with agent.stream_sync("One") as run:
        next(iter(run))
        agent.add_message(user(9))
        run.result()
    agent.run_agent_sync("Two")
    assert sent(agent)[1] == ["user-9", "user"]


def test_a_saved_conversation_knows_what_is_new() -> None:
    first = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history="new")
    first.run_agent_sync("One")
    first.add_message(user(9))
    saved = first.snapshot().model_dump_json()
    second = ScriptedAgent(turn(text("Hello.")), history="new")
    second.restore(ConversationSnapshot.model_validate_json(saved))
    second.run_agent_sync("Two")
    assert sent(second) == [[*HEAD, "user-9", "user"]]


@pytest.mark.parametrize("is_old", [True, False])
def test_a_saved_conversation_that_does_not_know_what_is_new_is_sent_whole(is_old: bool) -> None:
    first = ScriptedAgent(turn(text("Hello.")), history="full" if is_old else Window(turns=1))
    first.run_agent_sync("One")
    saved = first.snapshot().model_dump(mode="json", by_alias=True)
    if is_old:
        del saved["unreceived_ids"]
    second = ScriptedAgent(turn(text("Hello.")), history="new")
    second.restore(ConversationSnapshot.model_validate_json(json.dumps(saved)))
    second.run_agent_sync("Two")
    assert len(second.inputs[0].messages) == 3


def test_a_copy_on_another_thread_is_sent_whole_and_one_on_the_same_goes_on() -> None:
    agent = ScriptedAgent(turn(text("Hello.")), history="new")
    agent.run_agent_sync("One")
    agent.clone().run_agent_sync("Two")
    agent.clone(thread_id="other").run_agent_sync("Three")
    assert [len(run.messages) for run in agent.inputs] == [1, 1, 3]


# --- functions


async def summarized(messages: list[Message]) -> list[Any]:
    await anyio.lowlevel.checkpoint()
    return [{"id": "summary", "role": "system", "content": f"{len(messages) - 1} messages before."}, messages[-1]]


def as_it_is(messages: list[Message]) -> list[Message]:
    return messages


def first_and_last(messages: list[Message]) -> list[Message]:
    return [messages[0], messages[-1]]


@pytest.mark.parametrize(("history", "first"), [(summarized, "summary"), (first_and_last, "system")])
@every_verb
def test_a_function_chooses_what_is_sent(verb: Verb, history: Any, first: str) -> None:
    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history=history)
    assert verb(agent, "And now?").error is None
    assert sent(agent) == [[first, "user"]]
    assert len(agent.messages) == len(LONG) + 2


def since_the_question(messages: list[Message]) -> list[Message]:
    return messages[[each.role for each in messages].index("user") :]


def without_calls(messages: list[Message]) -> list[Message]:
    return messages[6:]


def without_results(messages: list[Message]) -> list[Message]:
    return messages[:6]


def with_a_call_of_its_own(messages: list[Message]) -> list[Message]:
    return [*messages, calling("made up")]


def returning(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def with_a_mistake(messages: list[Message]) -> list[Message]:
    return [messages[99]]


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (without_calls, "returned a result of tool call 'a' without that call; return both or neither"),
        (without_results, "returned tool call 'a' without its result; return both or neither"),
        (with_a_call_of_its_own, "returned tool call 'made up' without its result"),
        (returning(None), "the function of history= failed: TypeError"),
        (returning("Hi"), "the function of history= failed: a message is one of ag_ui.core's"),
        (returning([{"role": "user"}]), "the function of history= failed: this is not a message"),
        (with_a_mistake, "the function of history= failed: IndexError: list index out of range"),
        (Window(tokens=9, count=returning(None)), "the function of history= failed: TypeError"),
    ],
)
@every_verb
def test_a_function_that_fails_sends_nothing_and_leaves_the_conversation_as_it_was(
    verb: Verb, history: Any, says: str
) -> None:
    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history=history)
    ending = verb(agent, "And now?")
    assert isinstance(ending.error, HistoryError)
    assert says in str(ending.error)
    assert str(ending.error).endswith("nothing was sent")
    assert (agent.inputs, agent.messages) == ([], LONG)


def test_a_call_without_a_result_may_be_sent_as_the_conversation_has_it() -> None:
    asks = turn(
        tool_call("pay", tool_call_id="c1", parent_message_id="m1"), outcome=interrupt("May I?", interrupt_id="i1")
    )
    agent = ScriptedAgent(asks, turn(text("Paid.")), history=as_it_is)
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(resume={"i1": Resolve(True)})
    assert sent(agent)[1] == ["user", "m1"]


def test_a_function_may_leave_out_an_earlier_call_whose_id_comes_again() -> None:
    """As servers number the calls of each run anew."""
    paying = turn(tool_call("pay", tool_call_id="a", parent_message_id="m1"), outcome=interrupt("?", interrupt_id="i1"))
    known: list[Message] = [calling("a"), result("a")]
    agent = ScriptedAgent(paying, turn(text("Paid.")), initial_messages=known, history=since_the_question)
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(resume={"i1": Resolve(True)})
    assert sent(agent)[1] == ["user", "m1"]


@pytest.mark.anyio
async def test_a_function_that_takes_long_ends_with_the_call() -> None:
    async def summarize(messages: list[Message]) -> list[Message]:
        agent.abort_run()
        await anyio.sleep_forever()
        return messages

    agent = ScriptedAgent(turn(text("Hello.")), initial_messages=LONG, history=summarize)
    with anyio.fail_after(LIMIT):
        ended = await agent.run_agent("And now?")
    assert (ended.aborted, agent.inputs, agent.messages) == (True, [], LONG)


@pytest.mark.anyio
async def test_a_function_that_takes_longer_than_the_call_may_is_a_time_out() -> None:
    async def summarize(messages: list[Message]) -> list[Message]:
        await anyio.sleep_forever()
        return messages

    agent = HttpAgent("http://localhost:1/", history=summarize, timeout=Timeouts(total=0.05))
    with anyio.fail_after(LIMIT), pytest.raises(RunTimeoutError, match="the function of history="):
        await agent.run_agent("And now?")


# --- snapshots


def echo(change: Callable[[list[Message]], list[Message]] = list) -> Callable[[RunAgentInput], AsyncIterator[Step]]:
    """An agent that echoes its input, and restates what it knows of the conversation: what was sent to it."""

    async def answers(input: RunAgentInput) -> AsyncIterator[Step]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id, input=input)
        yield MessagesSnapshotEvent(messages=change([*input.messages, answer(9)]))
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    return answers


@pytest.mark.parametrize("history", [Window(turns=1), Window(messages=4), first_and_last, summarized])
def test_a_snapshot_of_what_was_sent_drops_nothing_that_was_not(history: Any) -> None:
    agent = ScriptedAgent(echo(), initial_messages=LONG, history=history)
    agent.run_agent_sync(user(4))
    assert ids(agent.messages) == [*ids(LONG), "user-4", "answer-9"]


def test_what_a_function_rewrote_is_not_stored() -> None:
    def shortened(messages: list[Message]) -> list[Message]:
        return [
            message.model_copy(update={"content": "(left out)"}) if message.role == "tool" else message
            for message in messages
        ]

    agent = ScriptedAgent(echo(), initial_messages=LONG, history=shortened)
    agent.run_agent_sync(user(4))
    assert agent.inputs[0].messages[6].content == "(left out)"
    assert agent.messages == [*LONG, user(4), answer(9)]


def test_a_snapshot_still_drops_and_changes_what_was_sent() -> None:
    def edited(known: list[Message]) -> list[Message]:
        return [UserMessage(id=each.id, content="Edited") if each.role == "user" else each for each in known[2:]]

    agent = ScriptedAgent(echo(edited), initial_messages=LONG, history=Window(turns=1))
    agent.run_agent_sync(user(4))
    assert ids(agent.messages) == [*ids(LONG[2:]), "user-4", "answer-9"]
    assert agent.messages[-2].content == "Edited"


def test_a_later_input_that_is_sent_whole_may_be_restated_whole() -> None:
    agent = ScriptedAgent(echo(), echo(lambda known: known[-1:]), initial_messages=LONG, history=Window(turns=1))
    agent.run_agent_sync(user(4))
    agent.run_agent_sync(RunAgentInput(thread_id=agent.thread_id, run_id="r", messages=LONG))
    assert ids(agent.messages) == ["answer-9"]


# --- over HTTP


@pytest.mark.anyio
async def test_only_the_chosen_messages_cross_the_wire() -> None:
    served = ScriptedAgent(turn(text("Hello.")))
    with serve(served) as server:
        agent = HttpAgent(server.url, initial_messages=LONG, history=Window(turns=1))
        await agent.run_agent("And now?")
        failing = HttpAgent(server.url, initial_messages=LONG, history="new")
        await failing.run_agent("One")
        await failing.run_agent("Two")
    assert sent(served) == [[*HEAD, "user"], [*ids(LONG), "user"], [*HEAD, "user"]]


def test_a_failed_run_is_reported_as_ever() -> None:
    agent = ScriptedAgent(turn(RunErrorEvent(message="overloaded")), history=Window(turns=1))
    with pytest.raises(RunFailedError, match="overloaded"):
        agent.run_agent_sync("Hi")
