"""The tool loop: calls of the application's tools are carried out, and their results go out with one follow-up run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    Event,
    EventType,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from agui_client import (
    AGUIError,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    HookContext,
    HttpAgent,
    Mutation,
    RunFailedError,
    RunResult,
    Subscriber,
    ToolContext,
    ToolError,
    ToolLimits,
    UsageError,
    tool,
)
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    Step,
    Turn,
    interrupt,
    patch,
    pause,
    serve,
    state,
    text,
    tool_call,
    turn,
)
from support.tool_rounds import Ran, results_in, results_sent, told, tools_sent
from support.verbs import RESULT_VERBS, Ending, Verb, every_kind_of_verb, every_result_verb
from support.waiting import LIMIT

ASK_USER = Tool(name="ask_user", description="Asks the user.", parameters={"type": "object"})
USAGE = [TokenUsage(provider="p", model="m", input_tokens=3, output_tokens=5)]
ROUNDS = (
    turn(
        text("Let me see.", message_id="m1"),
        tool_call("look", {"at": "sea"}, tool_call_id="c1", parent_message_id="m1"),
        tool_call("listen", tool_call_id="c2", parent_message_id="m1"),
        usage=USAGE,
    ),
    turn(tool_call("look", {"at": "sky"}, tool_call_id="c3"), usage=USAGE),
    turn(text("Done.", message_id="m2"), usage=USAGE),
)


def call(tool_call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": tool_call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {
        "id": "m1",
        "role": "assistant",
        "content": "Let me see.",
        "toolCalls": [call("c1", "look", '{"at": "sea"}'), call("c2", "listen", "{}")],
    },
    {"role": "tool", "toolCallId": "c1", "content": "seen sea"},
    {"role": "tool", "toolCallId": "c2", "content": '{"heard":true}'},
    {"id": "c3", "role": "assistant", "toolCalls": [call("c3", "look", '{"at": "sky"}')]},
    {"role": "tool", "toolCallId": "c3", "content": "seen sky"},
    {"id": "m2", "role": "assistant", "content": "Done."},
]


def result_of(ending: Ending) -> RunResult:
    assert ending.error is None
    assert ending.result is not None
    return ending.result


@every_kind_of_verb
@pytest.mark.requirement("TOOL-8", "TOOL-10", "SET-3")
def test_rounds_of_run_execute_and_run_until_no_call_is_ours(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(*ROUNDS, tools=ran.tools)
    ending = verb(agent, "Hi")
    assert ending.error is None
    assert sorted(ran.calls) == ["listen", "look sea", "look sky"]
    assert told(agent.messages) == CONVERSATION
    assert [told(asked.messages) for asked in agent.inputs] == [CONVERSATION[:1], CONVERSATION[:4], CONVERSATION[:6]]
    assert [tools_sent(asked) for asked in agent.inputs] == [["look", "listen"]] * 3
    assert len({asked.run_id for asked in agent.inputs}) == 3
    if ending.events is not None:
        runs = [event.run_id for event in ending.events if isinstance(event, RunStartedEvent | RunFinishedEvent)]
        assert runs == [asked.run_id for asked in agent.inputs for _ in range(2)]


@every_result_verb
def test_the_result_is_about_all_rounds_and_its_text_and_run_id_are_the_last_ones(verb: Verb) -> None:
    agent = ScriptedAgent(*ROUNDS, tools=Ran().tools)
    result = result_of(verb(agent, "Hi"))
    assert (result.text, result.outcome) == ("Done.", RunFinishedSuccessOutcome())
    assert result.run_id == agent.inputs[2].run_id
    assert (told(result.new_messages), result.messages) == (CONVERSATION[1:], agent.messages)
    assert result.usage == [TokenUsage(provider="p", model="m", input_tokens=9, output_tokens=15)]
    assert [(each.tool_call_id, each.status) for each in result.tool_executions] == [
        ("c1", "succeeded"),
        ("c2", "succeeded"),
        ("c3", "succeeded"),
    ]
    assert (result.pending_tool_calls, result.warnings) == ([], [])


@every_result_verb
def test_over_http_every_round_is_one_post(verb: Verb) -> None:
    with serve(ScriptedAgent(*ROUNDS)) as server:
        agent = HttpAgent(server.url, tools=Ran().tools)
        result = result_of(verb(agent, "Hi"))
    assert told(agent.messages) == CONVERSATION
    assert [attempt.status_code for attempt in result.attempts] == [200, 200, 200]
    times = result.timings
    passed = [times.connect, times.first_event, times.first_text, times.total]
    seconds = [each for each in passed if each is not None]
    assert (len(seconds), sorted(seconds)) == (4, seconds)
    assert result.response is not None


@every_kind_of_verb
def test_the_warnings_of_every_round_are_there(verb: Verb) -> None:
    odd = {"type": "FUTURE_EVENT"}, {"type": "LATER_EVENT"}
    agent = ScriptedAgent(turn(odd[0], tool_call("look")), turn(odd[1], text("Done.")), tools=Ran().tools)
    ending = verb(agent, "Hi")
    assert ending.error is None
    if ending.result is not None:
        assert [warning.event_type for warning in ending.result.warnings] == ["FUTURE_EVENT", "LATER_EVENT"]


@every_kind_of_verb
def test_results_stand_in_call_order_whatever_finishes_first(verb: Verb) -> None:
    is_second_done = Gate()

    @tool
    async def first() -> str:
        await is_second_done.wait()
        return "1"

    @tool
    def second() -> str:
        is_second_done.open()
        return "2"

    calls = tool_call("first", tool_call_id="c1"), tool_call("second", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[first, second])
    assert verb(agent, "Hi").error is None
    assert results_sent(agent)[1] == [("c1", "1", None), ("c2", "2", None)]


@pytest.mark.requirement("SET-3")
def test_a_result_stands_right_after_the_message_that_made_its_call() -> None:
    calls = (
        text("One.", message_id="m1"),
        tool_call("look", {"at": "a"}, tool_call_id="c1", parent_message_id="m1"),
        text("Two.", message_id="m2"),
        tool_call("look", {"at": "b"}, tool_call_id="c2", parent_message_id="m2"),
        text("Three.", message_id="m3"),
    )
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=Ran().tools)
    agent.run_agent_sync("Hi")
    contents = [message.content for message in agent.inputs[1].messages]
    assert contents == ["Hi", "One.", "seen a", "Two.", "seen b", "Three."]


@pytest.mark.parametrize("at_once", [1, 2, 8])
@every_kind_of_verb
def test_no_more_tools_run_at_once_than_allowed(verb: Verb, at_once: int) -> None:
    running = most = 0

    @tool
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running -= 1

    calls = [tool_call("work") for _ in range(4)]
    agent = ScriptedAgent(turn(*calls), turn(), tools=[work], tool_limits=ToolLimits(at_once=at_once))
    assert verb(agent, "Hi").error is None
    assert most == min(at_once, 4)
    assert len(results_sent(agent)[1]) == 4


# --- calls that are not carried out


async def _truncated(input: RunAgentInput) -> AsyncIterator[Step]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield tool_call("look")


async def _failed_late(input: RunAgentInput) -> AsyncIterator[Step]:
    yield turn(tool_call("look"))
    yield RunErrorEvent(message="after all")


async def _broken(input: RunAgentInput) -> AsyncIterator[Step]:
    yield turn(tool_call("look"), TextMessageStartEvent(message_id="m1"), TextMessageStartEvent(message_id="m1"))


async def _raising(input: RunAgentInput) -> AsyncIterator[Step]:
    yield turn(tool_call("look"))
    raise KeyError("in the agent")


NOT_FINISHED: dict[str, Turn] = {
    "cancelled": turn(tool_call("look"), outcome=RunFinishedCancelledOutcome()),
    "failed": turn(tool_call("look"), RunErrorEvent(message="no")),
    "failed late": _failed_late,
    "truncated": _truncated,
    "broken": _broken,
    "raising": _raising,
}


@pytest.mark.parametrize("ended", NOT_FINISHED.values(), ids=list(NOT_FINISHED))
@every_kind_of_verb
@pytest.mark.requirement("SET-11", "LIFE-4")
def test_calls_of_a_run_that_did_not_finish_are_not_carried_out(verb: Verb, ended: Turn) -> None:
    ran = Ran()
    agent = ScriptedAgent(ended, tools=ran.tools)
    ending = verb(agent, "Hi")
    assert (ran.calls, len(agent.inputs)) == ([], 1)
    if isinstance(ending.error, AGUIError):
        assert ending.error.partial is not None
        assert [each.id for each in ending.error.partial.pending_tool_calls] == ["call-1"]
    elif ending.result is not None:
        assert [each.id for each in ending.result.pending_tool_calls] == ["call-1"]


class Stop(Subscriber):
    """Aborts the run when a call is complete."""

    def on_tool_call_end_event(self, event: ToolCallEndEvent, context: HookContext) -> None:
        """Abort."""
        self.abort()

    abort: Callable[[], None] = staticmethod(lambda: None)


@every_result_verb
@pytest.mark.requirement("SET-11")
def test_calls_of_a_run_that_was_aborted_are_not_carried_out(verb: Verb) -> None:
    ran, stop = Ran(), Stop()
    agent = ScriptedAgent(turn(tool_call("look"), pause(60)), tools=ran.tools)
    stop.abort = agent.abort_run
    agent.subscribe(stop)
    result = result_of(verb(agent, "Hi"))
    assert (result.aborted, ran.calls, len(agent.inputs)) == (True, [], 1)
    assert [each.id for each in result.pending_tool_calls] == ["call-1"]


@pytest.mark.anyio
@pytest.mark.requirement("SET-11")
async def test_cancelled_after_it_finished_a_run_stays_finished_and_its_calls_pending() -> None:
    ran = Ran()
    agent = ScriptedAgent(turn(tool_call("look")), tools=ran.tools)
    with anyio.fail_after(LIMIT):
        async with agent.stream("Hi") as run:
            async for event in run:
                if event.type is EventType.RUN_FINISHED:
                    run.cancel()
            result = await run.result()
    assert (result.aborted, result.outcome) == (False, RunFinishedSuccessOutcome())
    assert ([each.id for each in result.pending_tool_calls], ran.calls) == (["call-1"], [])


@pytest.mark.anyio
async def test_left_after_it_finished_a_runs_calls_stay_pending() -> None:
    ran = Ran()
    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=ran.tools)
    with anyio.fail_after(LIMIT):
        async with agent.stream("Hi") as run:
            async for event in run:
                if event.type is EventType.RUN_FINISHED:
                    break
        assert ran.calls == []
        result = await agent.run_agent(tool_results={"call-1": "seen by hand"})
    assert (result.text, results_sent(agent)[1]) == ("Done.", [("call-1", "seen by hand", None)])


REPEATED: dict[str, Turn] = {
    "in the same run": turn(
        tool_call("look", {"at": "sea"}, tool_call_id="c1"), tool_call("look", "", tool_call_id="c1")
    ),
    "in the next run": turn(tool_call("look", {"at": "sea"}, tool_call_id="c1")),
    "named by the next run": turn(
        text("Well."), outcome=RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c1"])
    ),
}


# A call that starts when the one of its id has a result is another call; one that is only named is not.
@pytest.mark.parametrize(("again", "count"), [*zip(REPEATED.values(), (2, 2, 1), strict=True)], ids=list(REPEATED))
@every_result_verb
@pytest.mark.requirement("TOOL-4", "TOOL-9")
def test_a_call_is_carried_out_once_in_each_run_that_makes_it(verb: Verb, again: Turn, count: int) -> None:
    ran = Ran()
    first = turn(tool_call("look", {"at": "sea"}, tool_call_id="c1"))
    agent = ScriptedAgent(first, again, turn(text("Done.")), tools=ran.tools)
    result = result_of(verb(agent, "Hi"))
    assert ran.calls == ["look sea"] * count
    assert (len(results_in(agent.messages)), result.pending_tool_calls) == (count, [])


@every_result_verb
def test_a_call_repeated_in_its_own_run_is_carried_out_once(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(REPEATED["in the same run"], turn(text("Done.")), tools=ran.tools)
    assert result_of(verb(agent, "Hi")).text == "Done."
    assert ran.calls == ["look sea"]


async def _forgetful(input: RunAgentInput) -> AsyncIterator[Step]:
    """Tells the conversation again without the results it was given, and makes the same call."""
    kept: list[Message] = [message for message in input.messages if message.role != "tool"]
    yield turn(MessagesSnapshotEvent(messages=kept), tool_call("look", "", tool_call_id="c1"))


@every_result_verb
def test_a_call_is_carried_out_once_though_the_agent_forgot_its_result(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), _forgetful, tools=ran.tools)
    verb(agent, "Hi")
    assert (ran.calls, len(agent.inputs)) == (["look map"], 2)


async def _naming_again(input: RunAgentInput) -> AsyncIterator[Step]:
    """Tells the conversation again without the results it was given, and waits for the call."""
    kept: list[Message] = [message for message in input.messages if message.role != "tool"]
    named = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c1"])
    yield turn(MessagesSnapshotEvent(messages=kept), outcome=named)


@every_result_verb
@pytest.mark.requirement("TOOL-11", "SEC-3")
def test_a_call_is_carried_out_once_though_the_agent_forgot_and_names_it_in_another_conversation(verb: Verb) -> None:
    ran = Ran()
    first = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), turn(text("Done.")), tools=ran.tools)
    verb(first, "Hi")
    agent = ScriptedAgent(_naming_again, tools=ran.tools)
    agent.restore(ConversationSnapshot.model_validate_json(first.snapshot().model_dump_json()))
    result = result_of(verb(agent, "Again"))
    assert (ran.calls, len(agent.inputs)) == (["look map"], 1)
    assert [call.id for call in result.pending_tool_calls] == ["c1"]
    assert [(each.rule, each.message) for each in result.warnings] == [
        ("TOOL-11", "tool call 'c1' is left to the application: its function was called before")
    ]
    error = verb(agent, tool_results={"c1": Approve()}).error
    assert isinstance(error, UsageError)
    assert "'c1', whose function was called before; give its result instead" in str(error)
    assert result_of(verb(agent, tool_results={"c1": "seen map"})).warnings != []


async def _cut_within_arguments(input: RunAgentInput) -> AsyncIterator[Step]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield ToolCallStartEvent(tool_call_id="c1", tool_call_name="look")
    yield ToolCallArgsEvent(tool_call_id="c1", delta='{"at": "s')


NAMED = turn(text("Well."), outcome=RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c1"]))
LEFT: dict[str, tuple[Any, str]] = {
    "failed": (
        turn(tool_call("look", tool_call_id="c1"), RunErrorEvent(message="no")),
        "the run that made it did not finish",
    ),
    "cancelled": (
        turn(tool_call("look", tool_call_id="c1"), outcome=RunFinishedCancelledOutcome()),
        "the run that made it did not finish",
    ),
    "cut off": (_cut_within_arguments, "its arguments never ended"),
}


@pytest.mark.parametrize(("left", "why"), LEFT.values(), ids=list(LEFT))
@every_result_verb
@pytest.mark.requirement("TOOL-11", "SEC-2")
def test_a_later_run_that_names_the_call_of_one_that_did_not_finish_gets_no_answer_by_itself(
    verb: Verb, left: Any, why: str
) -> None:
    ran = Ran()
    agent = ScriptedAgent(left, NAMED, turn(text("Done.")), tools=ran.tools)
    approval = Approve({"at": "sky"}) if why.startswith("its arguments") else Approve()
    verb(agent, "Hi")
    asked = agent.clone()
    result = result_of(verb(asked, "Again"))
    assert (ran.calls, result.pending_tool_calls) == ([], [])
    assert [each[:1] for each in results_sent(agent)[1]] == [("c1",)]
    assert result_of(verb(agent, tool_results={"c1": approval})).text == "Done."
    assert ran.calls == ["look sky" if approval.arguments else "look map"]


@every_result_verb
@pytest.mark.requirement("TOOL-11", "SEC-2")
def test_a_call_that_kept_waiting_after_a_run_that_failed_is_left_to_the_application(verb: Verb) -> None:
    ran = Ran()
    calls = tool_call("look", tool_call_id="c1"), tool_call("look", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls, RunErrorEvent(message="no")), turn(text("Done.")), tools=ran.tools)
    verb(agent, "Hi")
    result = result_of(verb(agent, tool_results={"c1": "x"}))
    assert (ran.calls, [call.id for call in result.pending_tool_calls], len(agent.inputs)) == ([], ["c2"], 1)
    assert result_of(verb(agent, tool_results={"c2": Approve()})).text == "Done."
    assert ran.calls == ["look map"]


@every_kind_of_verb
@pytest.mark.requirement("SEC-2")
def test_a_call_whose_arguments_never_ended_cannot_be_approved_as_it_is(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(_cut_within_arguments, turn(text("Done.")), tools=ran.tools)
    verb(agent, "Hi")
    error = verb(agent, tool_results={"c1": Approve()}).error
    assert isinstance(error, UsageError)
    assert "'c1', whose arguments never ended; give them: Approve(arguments={...})" in str(error)
    assert (ran.calls, len(agent.inputs)) == ([], 1)
    assert verb(agent, tool_results={"c1": Approve({"at": "sky"})}).error is None
    assert (ran.calls, results_sent(agent)[1]) == (["look sky"], [("c1", "seen sky", None)])


def _in_a_tool(edit: Callable[[], object]) -> dict[str, Any]:
    @tool
    def look() -> None:
        edit()

    return {"tools": [look]}


def _in_an_async_tool(edit: Callable[[], object]) -> dict[str, Any]:
    @tool
    async def look() -> None:
        edit()

    return {"tools": [look]}


def _in_an_approver(edit: Callable[[], object]) -> dict[str, Any]:
    @tool(approval="always")
    def look() -> None: ...

    def approve(request: object) -> bool:
        edit()
        return True

    return {"tools": [look], "approve": approve}


@every_kind_of_verb
@pytest.mark.parametrize("where", [_in_a_tool, _in_an_async_tool, _in_an_approver], ids=lambda made: made.__name__)
@pytest.mark.requirement("STATE-1")
def test_what_is_changed_while_tools_are_at_work_is_part_of_the_next_round(verb: Verb, where: Any) -> None:
    def edit() -> None:
        agent.set_state({**agent.state, "mine": 1})
        agent.set_messages([*agent.messages, {"id": "n", "role": "user", "content": "a note"}])
        agent.add_message({"id": "o", "role": "user", "content": f"{agent.state} {len(agent.messages)}"})

    told, patched = state({"theirs": 1}), patch({"op": "add", "path": "/later", "value": 1})
    agent = ScriptedAgent(turn(told, text("So."), tool_call("look")), turn(patched, text("Done.")), **where(edit))
    assert verb(agent, "Hi").error is None
    sent = agent.inputs[1]
    assert (sent.state, agent.state) == ({"theirs": 1, "mine": 1}, {"theirs": 1, "mine": 1, "later": 1})
    assert [each.role for each in sent.messages] == ["user", "assistant", "assistant", "tool", "user", "user"]
    assert sent.messages[-1].content == "{'theirs': 1, 'mine': 1} 4"
    assert agent.messages[:-1] == sent.messages


@pytest.mark.parametrize("backend", ["asyncio", "sync"])
def test_what_the_caller_changes_in_the_middle_of_a_run_is_part_of_the_next_round(backend: str) -> None:
    patched = patch({"op": "add", "path": "/later", "value": 1})
    agent = ScriptedAgent(turn(state({}), patched, tool_call("look")), turn(text("Done.")), tools=Ran().tools)

    def edit(event: Event) -> None:
        if event.type is EventType.STATE_SNAPSHOT:
            agent.set_state({"mine": 1})

    async def main() -> None:
        async with agent.stream("Hi") as run:
            async for event in run:
                edit(event)

    if backend == "asyncio":
        anyio.run(main)
    else:
        with agent.stream_sync("Hi") as run:
            for event in run:
                edit(event)
    assert agent.inputs[1].state == agent.state == {"mine": 1, "later": 1}


@pytest.mark.parametrize("is_sync", [False, True])
def test_tools_and_approvers_see_what_the_caller_changed_at_the_end_of_the_run(is_sync: bool) -> None:
    seen: list[Any] = []

    def approve(request: ApprovalRequest) -> bool:
        seen.append((request.state, len(request.messages)))
        return True

    @tool(approval="always")
    def look(ctx: ToolContext) -> None:
        seen.append((ctx.state, len(ctx.messages)))

    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=[look], approve=approve)

    def edit(event: Event) -> None:
        if event.type is EventType.RUN_FINISHED and len(agent.inputs) == 1:
            agent.set_state({"budget": 5})
            agent.add_message({"role": "user", "content": "no more than five"})

    async def main() -> None:
        async with agent.stream("Hi") as run:
            async for event in run:
                edit(event)

    if is_sync:
        with agent.stream_sync("Hi") as run:
            for event in run:
                edit(event)
    else:
        anyio.run(main)
    assert seen == [({"budget": 5}, 3), ({"budget": 5}, 3)]
    assert agent.inputs[1].state == {"budget": 5}


@every_kind_of_verb
def test_what_an_approved_tool_changes_is_part_of_the_run_that_follows(verb: Verb) -> None:
    @tool(approval="always")
    def buy() -> str:
        agent.set_state({"bought": 1})
        return "bought"

    agent = ScriptedAgent(turn(tool_call("buy", tool_call_id="c1")), turn(text("Done.")), tools=[buy])
    assert verb(agent, "Hi").error is None
    assert verb(agent, tool_results={"c1": Approve()}).error is None
    assert agent.inputs[1].state == agent.state == {"bought": 1}


@every_result_verb
def test_a_result_says_what_was_changed_at_the_end_of_the_run(verb: Verb) -> None:
    class Closing(Subscriber):
        def on_run_finalized(self, context: HookContext) -> Mutation:
            """Close the books."""
            return Mutation(state={"closed": True})

    agent = ScriptedAgent(turn(text("Done.")))
    agent.subscribe(Closing())
    assert result_of(verb(agent, "Hi")).state == agent.state == {"closed": True}


@every_kind_of_verb
def test_what_a_hook_changes_at_the_end_of_a_run_is_part_of_the_next_round(verb: Verb) -> None:
    class Counting(Subscriber):
        def on_run_finalized(self, context: HookContext) -> Mutation:
            """Count the runs."""
            return Mutation(state={"runs": context.state.get("runs", 0) + 1})

    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=Ran().tools)
    agent.subscribe(Counting())
    assert verb(agent, "Hi").error is None
    assert (agent.inputs[1].state, agent.state) == ({"runs": 1}, {"runs": 2})


@every_kind_of_verb
def test_results_that_are_given_at_different_times_stand_in_call_order(verb: Verb) -> None:
    @tool(approval="always")
    def pay() -> str:
        return "paid"

    calls = tool_call("pay", tool_call_id="c1"), tool_call("look", tool_call_id="c2")
    agent = ScriptedAgent(turn(text("So.", message_id="m"), *calls), turn(text("Done.")), tools=[pay, *Ran().tools])
    assert verb(agent, "Hi").error is None
    assert verb(agent, tool_results={"c1": Approve()}).error is None
    assert [each[0] for each in results_sent(agent)[1]] == [each[0] for each in results_in(agent.messages)]


@every_result_verb
@pytest.mark.parametrize("where", ["answerer", "hook", "tools"])
def test_the_end_of_somebody_elses_iteration_is_not_the_end_of_the_run(verb: Verb, where: str) -> None:
    async def answer(asked: object) -> None:
        raise StopAsyncIteration

    class Watch(Subscriber):
        def on_run_finished_event(self, event: RunFinishedEvent, context: HookContext) -> None:
            """Stop."""
            raise StopAsyncIteration

    def choose(asked: RunAgentInput) -> list[Any]:
        if len(asked.messages) > 1:
            raise StopAsyncIteration
        return Ran().tools

    first = turn(outcome=interrupt("Go?")) if where == "answerer" else turn(tool_call("look"))
    agent = ScriptedAgent(first, turn(text("Done.")), answer=answer, tools=choose if where == "tools" else Ran().tools)
    if where == "hook":
        agent.subscribe(Watch())
    error = verb(agent, "Hi").error
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, StopAsyncIteration)
    assert not agent.is_running


@every_kind_of_verb
@pytest.mark.requirement("TOOL-9")
def test_of_named_calls_only_those_are_carried_out(verb: Verb) -> None:
    ran = Ran()
    named = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c2"])
    calls = tool_call("look", tool_call_id="c1"), tool_call("listen", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls, outcome=named), turn(text("Done.")), tools=ran.tools)
    assert verb(agent, "Hi").error is None
    assert ran.calls == ["listen"]
    assert results_sent(agent)[1] == [("c2", '{"heard":true}', None)]


# --- calls that are somebody else's


@every_result_verb
@pytest.mark.requirement("TOOL-8", "TOOL-10")
def test_a_plain_definition_comes_back_pending_and_holds_the_follow_up_back(verb: Verb) -> None:
    ran = Ran()
    calls = tool_call("look", tool_call_id="c1"), tool_call("ask_user", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[*ran.tools, ASK_USER])
    result = result_of(verb(agent, "Hi"))
    assert (ran.calls, len(agent.inputs)) == (["look map"], 1)
    assert [each.id for each in result.pending_tool_calls] == ["c2"]
    assert results_in(result.messages) == [("c1", "seen map", None)]
    done = result_of(verb(agent, tool_results={"c2": "tea"}))
    assert (done.text, done.warnings) == ("Done.", [])
    assert results_sent(agent)[1] == [("c1", "seen map", None), ("c2", "tea", None)]


@every_result_verb
@pytest.mark.requirement("TOOL-8")
def test_of_calls_the_agent_named_those_answered_here_are_no_longer_pending(verb: Verb) -> None:
    named = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c1", "c2"])
    calls = tool_call("look", tool_call_id="c1"), tool_call("ask_user", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls, outcome=named), turn(text("Done.")), tools=[*Ran().tools, ASK_USER])
    result = result_of(verb(agent, "Hi"))
    assert [each.id for each in result.pending_tool_calls] == ["c2"]
    given = {each.id: "given" for each in result.pending_tool_calls}
    assert result_of(verb(agent, tool_results=given)).warnings == []


@every_kind_of_verb
@pytest.mark.requirement("TOOL-11", "SEC-4")
def test_a_call_of_a_tool_that_was_not_offered_is_the_agents_own(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("search"), tool_call("look")), turn(text("Done.")), tools=Ran().tools)
    ending = verb(agent, "Hi")
    assert ending.error is None
    assert results_sent(agent)[1] == [("call-2", "seen map", None)]
    if ending.result is not None:
        (warning,) = ending.result.warnings
        assert (warning.rule, warning.message) == (
            "TOOL-11",
            "a call to 'search', which was not offered, is taken for the agent's own",
        )


@every_kind_of_verb
@pytest.mark.requirement("TOOL-10", "TOOL-11", "SEC-4")
def test_a_call_that_the_agent_waits_for_is_the_callers_if_its_tool_was_not_offered(verb: Verb) -> None:
    ran = Ran()
    named = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c1", "c2"])
    calls = tool_call("search", tool_call_id="c1"), tool_call("look", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls, outcome=named), turn(text("Done.")), tools=ran.tools)
    ending = verb(agent, "Hi")
    # The function of the other call is called; the agent, which waits for both, is asked when it can have both.
    assert (ending.error, len(agent.inputs), ran.calls) == (None, 1, ["look map"])
    if ending.result is not None:
        assert [each.id for each in ending.result.pending_tool_calls] == ["c1"]
    assert verb(agent, tool_results={"c1": "found"}).error is None
    assert results_sent(agent)[1] == [("c1", "found", None), ("c2", "seen map", None)]


@every_kind_of_verb
@pytest.mark.requirement("SEC-2", "TOOL-2", "TOOL-10")
def test_arguments_that_do_not_fit_are_the_agents_to_mend(verb: Verb) -> None:
    ran = Ran()
    calls = tool_call("look", '{"at": ', tool_call_id="c1"), tool_call("look", {"at": 3}, tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=ran.tools)
    ending = verb(agent, "Hi")
    assert (ending.error, ran.calls) == (None, [])
    broken, unfit = results_sent(agent)[1]
    assert broken[1] == broken[2]
    assert str(broken[2]).startswith("tool call 'c1': the arguments are not JSON: ")
    assert unfit[2] == "tool call 'c2': the arguments do not fit: 'at': Input should be a valid string"
    if ending.result is not None:
        assert [(each.status, each.arguments) for each in ending.result.tool_executions] == [("failed", {})] * 2


@every_kind_of_verb
@pytest.mark.requirement("TOOL-10")
def test_half_a_character_in_an_error_can_still_be_sent(verb: Verb) -> None:
    @tool
    def read() -> str:
        raise ToolError("no file named \ud83d")

    agent = ScriptedAgent(turn(tool_call("read")), turn(text("Done.")), tools=[read])
    assert verb(agent, "Hi").error is None
    assert results_sent(agent)[1] == [("call-1", "no file named ?", "no file named ?")]


@pytest.mark.parametrize("verb", [RESULT_VERBS["run_agent_sync"]])
@pytest.mark.requirement("TOOL-10")
def test_a_follow_up_run_that_fails_leaves_the_results_to_go_on_with(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(
        turn(tool_call("look")), turn(RunErrorEvent(message="overloaded")), turn(text("Done.")), tools=ran.tools
    )
    assert isinstance(verb(agent, "Hi").error, RunFailedError)
    assert result_of(verb(agent)).text == "Done."
    assert ran.calls == ["look map"]
    assert results_sent(agent) == [[], *[[("call-1", "seen map", None)]] * 2]


@every_kind_of_verb
def test_the_result_of_a_tool_is_an_event_before_the_follow_up_run(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=Ran().tools)
    ending = verb(agent, "Hi")
    events: list[Event] | None = ending.events
    if events is not None:
        first = [EventType.RUN_STARTED, EventType.TOOL_CALL_START, EventType.TOOL_CALL_ARGS, EventType.TOOL_CALL_END]
        second = [EventType.RUN_STARTED, EventType.TEXT_MESSAGE_START, EventType.TEXT_MESSAGE_CONTENT]
        finished = EventType.RUN_FINISHED
        assert [event.type for event in events] == [
            *(*first, finished, EventType.TOOL_CALL_RESULT),
            *(*second, EventType.TEXT_MESSAGE_END, finished),
        ]
