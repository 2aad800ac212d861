"""Reconnecting: what is asked, a run that is followed to its end, what waits afterwards, and agents of one's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    BaseEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    Tool,
    UserMessage,
)

from agui_client import (
    AbstractAgent,
    ConnectError,
    DecodeError,
    EventOrderError,
    HttpAgent,
    HTTPStatusError,
    IncompleteRunError,
    InterruptsNotCoveredError,
    Resolve,
    RunFailedError,
    RunInProgressError,
    UnexpectedContentTypeError,
    UsageError,
    tool,
)
from agui_client.testing import (
    Gate,
    Reply,
    Request,
    ScriptedAgent,
    Step,
    Turn,
    events_of,
    faults,
    interrupt,
    serve_bytes,
    sse,
    text,
    tool_call,
    turn,
)
from agui_client.types import Next
from support.leaks import nothing_left_behind
from support.thread import FIRST_RUN, HELD, MESSAGES, SECOND_RUN, STATE, THREAD, WEATHER, agent_of, told
from support.verbs import shown
from support.waiting import LIMIT

pytestmark = pytest.mark.anyio


# --- what is asked


async def test_connecting_posts_what_is_held_and_asks_nothing() -> None:
    with serve_bytes(THREAD) as server:
        agent = agent_of(server, initial_messages=[WEATHER], initial_state={"a": 1}, headers={"X-A": "1"})
        await agent.connect_agent(forwarded_props={"cursor": 7}, headers={"X-B": "2"}, timeout=5)
        (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/connect")
    assert (request.headers["x-a"], request.headers["x-b"]) == ("1", "2")
    asked = request.json()
    assert asked.pop("runId")
    assert asked == {
        "threadId": "thread-1",
        "protocolVersion": "1.0",
        "messages": [{"id": "user-1", "role": "user", "content": "Weather?"}],
        "state": {"a": 1},
        "tools": [],
        "context": [],
        "forwardedProps": {"cursor": 7},
    }


def test_code_without_await_connects_in_the_same_way() -> None:
    with serve_bytes(THREAD) as server, agent_of(server) as agent:
        with agent.stream_connect_sync(forwarded_props={"cursor": 7}) as run:
            kinds = [event.type for event in run]
        result = agent.connect_agent_sync()
        asked = [request.json()["forwardedProps"] for request in server.requests]
    assert (kinds[0].value, kinds[-1].value) == ("RUN_STARTED", "RUN_FINISHED")
    assert (result.outcome, shown(agent.messages), agent.state) == (run.result().outcome, MESSAGES, STATE)
    assert asked == [{"cursor": 7}, {}]


@pytest.mark.parametrize(
    ("url", "connect_url", "path"),
    [
        ("agent", "connect", "/connect"),
        ("agent", "/elsewhere", "/elsewhere"),
        ("agents/one/run", "connect", "/agents/one/connect"),
        ("agent", "?connect", "/agent?connect"),
    ],
)
async def test_the_address_may_be_relative_to_the_agents(url: str, connect_url: str, path: str) -> None:
    with serve_bytes(THREAD) as server:
        await HttpAgent(server.url + url, connect_url=connect_url, thread_id="thread-1").connect_agent()
        assert [request.path for request in server.requests] == [path]


async def test_the_address_may_be_somewhere_else() -> None:
    with serve_bytes(faults.status(500)) as server, serve_bytes(THREAD) as other:
        agent = HttpAgent(server.url, connect_url=f"{other.url}threads/1", thread_id="thread-1")
        await agent.connect_agent()
        assert (server.requests, [request.path for request in other.requests]) == ([], ["/threads/1"])


@pytest.mark.parametrize("connect_url", ["ftp://host/", "http://[::", "//host:70000/"])
async def test_an_address_that_is_none_is_refused_at_once(connect_url: str) -> None:
    with pytest.raises(UsageError, match="the agent's url"):
        HttpAgent("http://localhost/", connect_url=connect_url)


@pytest.mark.parametrize(
    "connect_url",
    [
        "",
        "?",
        "#again",
        "http:",
        "http://",
        "agent",
        "./agent",
        "/agent",
        "//host/agent",
        "http://HOST:80/ag%65nt#again",
    ],
)
async def test_the_address_where_runs_are_started_is_no_address_to_connect_to(connect_url: str) -> None:
    with pytest.raises(UsageError, match="connecting would start a run; give the address that sends a thread again"):
        HttpAgent("http://host/agent", connect_url=connect_url)


async def test_an_address_that_is_refused_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        HttpAgent("http://host/agent", connect_url="http://ada:s3cr3t@host/agent")
    assert "s3cr3t" not in str(caught.value)


async def test_without_an_address_nothing_is_sent() -> None:
    with serve_bytes(sse(turn(text("Fine.")))) as server:
        agent = HttpAgent(server.url, thread_id="thread-1", initial_messages=[WEATHER])
        with pytest.raises(UsageError, match="no way to reconnect: give it connect_url=, or override connect"):
            await agent.connect_agent()
        assert server.requests == []
        assert (agent.messages, agent.is_running) == ([WEATHER], False)
        assert (await agent.run_agent("Go on", run_id="run-1")).text == "Fine."


@pytest.mark.parametrize("option", ["run_id", "resume", "tool_results", "tools", "unheard_of"])
async def test_connecting_takes_no_answers_and_no_questions(option: str) -> None:
    options: Any = {option: {}}
    with serve_bytes(THREAD) as server:
        said = f"^unknown keyword {option}=; help\\(HttpAgent.connect_agent\\) explains all keywords$"
        with pytest.raises(TypeError, match=said):
            await agent_of(server).connect_agent(**options)
        assert server.requests == []


async def test_one_run_at_a_time_is_true_for_connecting_too() -> None:
    with serve_bytes(Reply([THREAD[:200]], end="stall")) as server:
        agent = agent_of(server)
        async with agent.stream_connect() as run:
            await anext(run)
            with pytest.raises(RunInProgressError):
                await agent.run_agent("Hi")
            with pytest.raises(RunInProgressError):
                await agent.connect_agent()


# --- what is told


async def test_nothing_to_tell_is_no_error() -> None:
    no_content = Reply(status=204, content_type=None)
    for reply in (b"", b": nobody knows this thread\n\n", no_content):
        with serve_bytes(reply) as server:
            agent = agent_of(server, initial_messages=[WEATHER], initial_state={"a": 1})
            result = await agent.connect_agent()
        assert (result.outcome, result.text, result.new_messages, result.warnings) == (None, "", [], [])
        assert (result.messages, result.state, result.aborted) == ([WEATHER], {"a": 1}, False)
        assert (agent.messages, agent.state) == ([WEATHER], {"a": 1})


@pytest.mark.requirement("SSE-3")
async def test_a_run_that_is_answered_with_nothing_at_all_is_no_run() -> None:
    no_content = Reply(status=204, content_type=None)
    with serve_bytes(no_content) as server, pytest.raises(UnexpectedContentTypeError, match="204 No Content"):
        await agent_of(server).run_agent("Hi")


async def test_no_usable_answer_leaves_what_is_held() -> None:
    with serve_bytes(faults.status(500), faults.unanswered()) as server:
        agent = agent_of(server)
        await told(agent, *HELD["all"])
        with pytest.raises(HTTPStatusError):
            await agent.connect_agent()
        with pytest.raises(ConnectError):
            await agent.connect_agent()
    assert (shown(agent.messages), agent.state, agent.incomplete_ids) == (MESSAGES, STATE, [])


@pytest.mark.requirement("LIFE-7", "LIFE-13")
async def test_a_thread_whose_last_run_failed_says_so() -> None:
    with serve_bytes(sse(*FIRST_RUN, *SECOND_RUN[:-1], RunErrorEvent(message="overloaded"))) as server:
        agent = agent_of(server)
        with pytest.raises(RunFailedError, match="overloaded"):
            await agent.connect_agent()
    assert (shown(agent.messages), agent.state) == (MESSAGES, STATE)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.requirement("LIFE-12", "LIFE-13")
async def test_the_runs_of_others_have_ids_of_their_own(strict: bool) -> None:
    with serve_bytes(THREAD) as server:
        assert (await agent_of(server, strict=strict).connect_agent()).warnings == []


@pytest.mark.requirement("LIFE-12")
async def test_another_thread_is_another_thread() -> None:
    with serve_bytes(THREAD) as server:
        agent = HttpAgent(server.url, connect_url="connect", thread_id="thread-2")
        warnings = (await agent.connect_agent()).warnings
        assert {(each.rule, each.path) for each in warnings} == {("LIFE-12", "/threadId")}
        strict = HttpAgent(server.url, connect_url="connect", thread_id="thread-2", strict=True)
        with pytest.raises(EventOrderError, match="thread"):
            await strict.connect_agent()


@pytest.mark.requirement("LIFE-13")
async def test_an_activity_that_shrank_meanwhile_is_shown_as_it_is_now() -> None:
    def run_with(number: int, content: dict[str, Any]) -> list[dict[str, Any]]:
        ids = {"threadId": "t", "runId": f"run-{number}"}
        shown = {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "plan", "content": content}
        return [{"type": "RUN_STARTED", **ids}, shown, {"type": "RUN_FINISHED", **ids}]

    first = run_with(1, {"steps": ["find a boat", "pay"]})
    with serve_bytes(sse(*first), sse(*first, *run_with(2, {}))) as server:
        agent = HttpAgent(server.url, thread_id="t", connect_url="connect")
        await agent.connect_agent()
        await agent.connect_agent()
    assert [message.content for message in agent.messages] == [{}]


# --- a run that is still going


async def test_a_run_that_is_still_going_is_followed_to_its_end() -> None:
    gate = Gate()
    events = events_of(THREAD)
    there = len(events) - 4
    reply = Reply([b"".join(events[:there]), gate, b"".join(events[there:])])
    with serve_bytes(reply) as server:
        agent = agent_of(server)
        await told(agent, *HELD["half of the second answer"])
        with anyio.fail_after(LIMIT):
            async with nothing_left_behind(), agent.stream_connect() as run:
                for _ in range(there):
                    await anext(run)
                assert [each.content for each in run.messages][-1] == "Tomorrow it "
                gate.open()
                rest = [event async for event in run]
                result = await run.result()
    assert len(rest) == 4
    assert (shown(result.messages), result.state) == (MESSAGES, STATE)


async def test_following_can_be_aborted() -> None:
    events = events_of(THREAD)
    with serve_bytes(Reply([b"".join(events[:-4])], end="stall")) as server:
        agent = agent_of(server)
        with anyio.fail_after(LIMIT):
            async with agent.stream_connect() as run:
                for _ in events[:-4]:
                    await anext(run)
                agent.abort_run()
                result = await run.result()
        assert server.disconnected.wait(LIMIT)
    assert (result.aborted, result.outcome) == (True, None)
    assert (agent.messages, agent.incomplete_ids) == ([], [])


# --- what waits


@pytest.mark.parametrize("body", [b"", THREAD], ids=["nothing", "the thread"])
async def test_a_prompt_that_nobody_heard_is_not_doubled_because_of_connecting(body: bytes) -> None:
    answer = sse(turn(text("Fine."), run_id="run-3"))
    with serve_bytes(faults.status(503), body, answer) as server:
        agent = agent_of(server)
        await told(agent, *HELD["all"])
        with pytest.raises(HTTPStatusError):
            await agent.run_agent("Hi")
        await agent.connect_agent()
        await agent.run_agent("Hi", run_id="run-3")
    assert shown(agent.messages)[:-2] == MESSAGES
    assert [message.content for message in agent.messages[-2:]] == ["Hi", "Fine."]


@pytest.mark.requirement("INT-1", "INT-3")
async def test_the_interrupts_of_the_last_run_can_be_answered() -> None:
    asking = turn(text("Ready."), outcome=interrupt("Proceed?"), run_id="run-9")
    answer = turn(text("Done.", message_id="answer-9"))
    with serve_bytes(sse(asking), sse(answer)) as server:
        agent = agent_of(server)
        result = await agent.connect_agent()
        assert isinstance(result.outcome, RunFinishedInterruptOutcome)
        assert [each.id for each in agent.pending_interrupts] == ["interrupt-1"]
        with pytest.raises(InterruptsNotCoveredError):
            await agent.run_agent("Hm?")
        await agent.run_agent(resume={"interrupt-1": Resolve({"approved": True})}, run_id="run-1")
        assert server.requests[1].path == "/"
        assert server.requests[1].json()["resume"] == [
            {"interruptId": "interrupt-1", "status": "resolved", "payload": {"approved": True}}
        ]


@pytest.mark.requirement("INT-3")
async def test_interrupts_that_are_held_do_not_stand_in_the_way() -> None:
    asking = sse(turn(text("Ready."), outcome=interrupt("Proceed?"), run_id="run-9"))
    with serve_bytes(asking, b"", faults.cut(asking, events=3), faults.status(503), asking) as server:
        agent = agent_of(server)
        await agent.connect_agent()
        await agent.connect_agent()
        with pytest.raises(IncompleteRunError):
            await agent.connect_agent()
        with pytest.raises(HTTPStatusError):
            await agent.connect_agent()
        assert [each.id for each in agent.pending_interrupts] == ["interrupt-1"]
        await agent.connect_agent()
        assert [each.id for each in agent.pending_interrupts] == ["interrupt-1"]
        assert not any("resume" in request.json() for request in server.requests)


@pytest.mark.requirement("INT-4")
async def test_interrupts_that_were_answered_elsewhere_wait_no_more() -> None:
    asked = turn(text("Ready."), outcome=interrupt("Proceed?"), run_id="run-8")
    answered = turn(text("Done.", message_id="answer-9"), run_id="run-9")
    with serve_bytes(sse(asked), sse(asked, answered)) as server:
        agent = agent_of(server)
        await agent.connect_agent()
        await agent.connect_agent()
    assert agent.pending_interrupts == []


@pytest.mark.requirement("TOOL-8", "TOOL-9", "TOOL-10")
async def test_the_tool_calls_of_the_last_run_can_be_answered_and_none_is_carried_out() -> None:
    executed: list[str] = []

    @tool
    def look(city: str) -> str:
        """Look."""
        executed.append(city)
        return "-3"

    calling = turn(tool_call("look", {"city": "Oslo"}), tool_call("ask", {}, tool_call_id="call-2"), run_id="run-9")
    with serve_bytes(sse(calling), sse(turn(text("Done.", message_id="answer-9")))) as server:
        agent = agent_of(server, tools=[look, Tool(name="ask", description="", parameters={})])
        result = await agent.connect_agent()
        assert [call.id for call in result.pending_tool_calls] == ["call-1", "call-2"]
        await agent.run_agent(tool_results={"call-1": "-3", "call-2": "yes"}, run_id="run-1")
        sent = server.requests[1].json()["messages"]
    assert [(each["toolCallId"], each["content"]) for each in sent if each["role"] == "tool"] == [
        ("call-1", "-3"),
        ("call-2", "yes"),
    ]
    assert executed == []


# --- cursors, and agents of one's own


async def test_a_middleware_may_ask_from_a_cursor_on() -> None:
    finished: list[str] = []

    async def cursor(input: RunAgentInput, next: Next) -> AsyncIterator[Any]:
        async for event in next(input.model_copy(update={"forwarded_props": {"after": finished[-1:]}})):
            if isinstance(event, RunFinishedEvent):
                finished.append(event.run_id)
            yield event

    def answer(request: Request) -> Reply:
        return Reply([sse(*SECOND_RUN)] if request.json()["forwardedProps"]["after"] else [sse(*FIRST_RUN)])

    with serve_bytes(answer) as server:
        agent = agent_of(server, middleware=[cursor])
        for _ in range(3):
            assert (await agent.connect_agent()).warnings == []
    assert finished == ["run-1", "run-2", "run-2"]
    assert (shown(agent.messages), agent.state) == (MESSAGES, STATE)


@pytest.mark.requirement("STREAM-5", "LIFE-14")
async def test_a_middleware_may_go_on_in_the_middle_of_a_message() -> None:
    seen: list[BaseEvent] = []

    async def cursor(input: RunAgentInput, next: Next) -> AsyncIterator[Any]:
        if seen:
            # What the server leaves out stands in what it is asked with.
            yield RunStartedEvent(thread_id=input.thread_id, run_id="run-2", input=input)
            yield TextMessageStartEvent(message_id="answer-2")
        async for event in next(input.model_copy(update={"forwarded_props": {"after": len(seen)}})):
            seen.append(event)
            yield event

    events = events_of(THREAD)

    def answer(request: Request) -> Reply:
        rest = b"".join(events[request.json()["forwardedProps"]["after"] :])
        return faults.cut(rest, events=len(events) - 4) if rest == THREAD else faults.healthy(rest)

    with serve_bytes(answer) as server:
        agent = agent_of(server, middleware=[cursor])
        with pytest.raises(IncompleteRunError):
            await agent.run_agent()
        assert (agent.messages[-1].content, agent.incomplete_ids) == ("Tomorrow it ", ["answer-2"])
        await agent.connect_agent()
    assert (shown(agent.messages), agent.incomplete_ids) == (MESSAGES, [])


@pytest.mark.requirement("PROC-2")
async def test_a_middleware_may_drop_what_was_told_before() -> None:
    async def only_the_last_run(input: RunAgentInput, next: Next) -> AsyncIterator[Any]:
        skipping = True
        async for event in next(input):
            skipping = skipping and getattr(event, "run_id", "") != "run-2"
            if not skipping:
                yield event

    with serve_bytes(THREAD) as server:
        agent = agent_of(server)
        await told(agent, *FIRST_RUN)
        agent.use(only_the_last_run)
        result = await agent.connect_agent()
    assert (shown(agent.messages), agent.state) == (MESSAGES, STATE)
    assert [message.id for message in result.new_messages] == ["user-2", "answer-2"]


class Remembering(ScriptedAgent):
    """An agent in this process that remembers its threads."""

    def __init__(self, *turns: Turn, past: list[Step]) -> None:
        super().__init__(*turns, thread_id="thread-1")
        self.past = past
        self.asked: list[RunAgentInput] = []

    async def connect(self, input: RunAgentInput) -> AsyncIterator[Any]:
        """Tell the thread again."""
        self.asked.append(input)
        teller = ScriptedAgent(self.past)
        async for event in teller.run(input):
            yield event


@pytest.mark.requirement("SSE-13", "PROC-1")
async def test_an_agent_in_this_process_may_tell_its_threads_again() -> None:
    agent = Remembering(turn(text("On it goes.")), past=[*FIRST_RUN, *SECOND_RUN])
    async with nothing_left_behind():
        for _ in range(2):
            assert (await agent.connect_agent()).outcome == RunFinishedSuccessOutcome()
            assert (shown(agent.messages), agent.state) == (MESSAGES, STATE)
    assert [len(asked.messages) for asked in agent.asked] == [0, len(MESSAGES) - 1]
    assert (await agent.run_agent("And then?")).text == "On it goes."


async def test_an_agent_in_this_process_may_have_nothing_to_tell_or_break_off() -> None:
    assert (await Remembering(turn(), past=[]).connect_agent()).outcome is None
    with pytest.raises(IncompleteRunError):
        await Remembering(turn(), past=FIRST_RUN[:-1]).connect_agent()


async def test_an_agent_that_remembers_nothing_says_so() -> None:
    agent = ScriptedAgent(turn())
    with pytest.raises(UsageError, match=r"ScriptedAgent has no way to reconnect: override connect\(\)"):
        await agent.connect_agent()
    assert (agent.messages, agent.is_running) == ([], False)


@pytest.mark.parametrize("status", [404, 405])
async def test_a_refused_connection_asks_about_its_own_address(status: int) -> None:
    with serve_bytes(Reply(status=status)) as server:
        with pytest.raises(HTTPStatusError, match="is this the address that sends threads again"):
            await HttpAgent(server.url, connect_url="connect").connect_agent()
        with pytest.raises(HTTPStatusError, match="is this the address that takes runs"):
            await HttpAgent(server.url).run_agent("Hi")


async def test_headers_mean_nothing_to_it() -> None:
    with pytest.raises(UsageError, match="headers= is for an HttpAgent"):
        await Remembering(turn(), past=FIRST_RUN).connect_agent(headers={})


async def test_an_agent_of_ones_own_is_an_agent() -> None:
    class Teller(AbstractAgent):
        def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            """Unused."""
            raise AssertionError

        async def connect(self, input: RunAgentInput) -> AsyncIterator[Any]:
            """One message."""
            yield RunStartedEvent(thread_id=input.thread_id, run_id="run-9")
            yield TextMessageStartEvent(message_id="m")
            yield TextMessageContentEvent(message_id="m", delta="Hello")
            yield TextMessageEndEvent(message_id="m")
            yield RunFinishedEvent(thread_id=input.thread_id, run_id="run-9")

    async with Teller().stream_connect() as run:
        assert [each async for each in run.text_stream] == ["Hello"]


def _document(*messages: dict[str, Any]) -> Reply:
    return Reply([json.dumps({"messages": messages, "state": {}}).encode()], content_type="application/json")


def _calling(message_id: str, tool_call_id: str, **more: Any) -> dict[str, Any]:
    call = {"id": tool_call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {"id": message_id, "role": "assistant", "toolCalls": [call], **more}


async def test_a_document_with_ids_of_its_own_doubles_nothing_of_what_is_there() -> None:
    # The stream has a text and a call in two messages, the document in one, or the other way round.
    begun = [{"id": "u", "role": "user", "content": "Hi"}, {"id": "a", "role": "assistant", "content": "Let me see."}]
    local = [*begun, _calling("b", "c"), {"id": "r", "role": "tool", "toolCallId": "c", "content": "sun"}]
    local += [{"id": "v", "role": "user", "content": "Hi"}, _calling("d", "c2", content="Again.")]
    cut = {"id": "e", "role": "assistant", "content": "It is "}
    told = [{"id": "1", "role": "user", "content": "Hi"}, _calling("2", "c", content="Let me see.")]
    told += [{"id": "3", "role": "tool", "toolCallId": "c", "content": "sun"}]
    told += [{"id": "4", "role": "user", "content": "Hi"}, {"id": "5", "role": "assistant", "content": "Again."}]
    told += [_calling("6", "c2"), {"id": "7", "role": "assistant", "content": "It is sunny."}]
    further = [*told, {"id": "8", "role": "user", "content": "Bye"}]
    with serve_bytes(_document(*told), _document(*further)) as server:
        agent = HttpAgent(server.url, thread_id="t", connect_url="/agents/state")
        agent.set_messages(MessagesSnapshotEvent.model_validate({"messages": [*local, cut]}).messages)
        warnings = (await agent.connect_agent()).warnings
        assert (shown(agent.messages), warnings) == ([*local, {**cut, "content": "It is sunny."}], [])
        agent.add_message(UserMessage(id="unsent", content="And tomorrow?"))
        await agent.connect_agent()
    assert [each.id for each in agent.messages] == ["u", "a", "b", "r", "v", "d", "e", "unsent", "8"]


@pytest.mark.anyio
async def test_a_thread_that_comes_as_one_json_document_is_gone_on_with() -> None:
    messages = [
        {"id": "u", "role": "user", "content": "Hi", "name": None},
        {"id": "a", "role": "assistant", "content": "Hello.", "toolCalls": None},
    ]
    known = {"threadId": "t", "threadExists": True, "state": {"city": "Oslo"}, "messages": messages}
    unknown: dict[str, Any] = {"threadId": "t", "threadExists": False, "state": {}, "messages": []}

    def answer(document: object) -> Reply:
        return Reply([json.dumps(document).encode()], content_type="application/json")

    with serve_bytes(answer(known), answer(unknown), answer({"detail": "?"})) as server:
        agent = HttpAgent(server.url, thread_id="t", connect_url="/agents/state")
        result = await agent.connect_agent()
        assert [(each.role, each.content) for each in agent.messages] == [("user", "Hi"), ("assistant", "Hello.")]
        assert (agent.state, result.warnings) == ({"city": "Oslo"}, [])
        assert (await agent.connect_agent()).outcome is None
        with pytest.raises(DecodeError, match="no list of `messages`"):
            await agent.connect_agent()
    assert len(agent.messages) == 2
