"""Agents behind `agent_app` and `run.sse()`: one run for the caller, whatever happens inside."""

from __future__ import annotations

import inspect
import json
import logging
import pydoc
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import httpx
import pytest
from ag_ui.core import (
    Context,
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SubagentErrorEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    UserMessage,
)
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import SecretStr, StringConstraints

from agui_client import (
    AbstractAgent,
    Approve,
    ConversationSnapshot,
    Deny,
    FunctionAgent,
    HttpAgent,
    HTTPStatusError,
    Resolve,
    RunFailedError,
    Timeouts,
    TransportError,
    UsageError,
    tool,
)
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.warnings import WarningLog
from agui_client.asgi import (
    AgentApp,
    AppLimits,
    ASGITransport,
    RequestRefusedError,
    ServedRequest,
    agent_app,
    served_run_sync,
    sse_headers,
)
from agui_client.demo import demo_agent
from agui_client.store import Keeping, Store
from agui_client.teams import SequentialAgent
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    events_of,
    faults,
    interrupt,
    serve,
    serve_bytes,
    sse,
    text,
    tool_call,
    turn,
)
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from agui_client import RunResult, UnrecognizedEvent

pytestmark = pytest.mark.anyio
_SECONDS = 10.0
INPUT: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": []}


@tool
def look(where: str) -> str:
    """Look."""
    return f"sun in {where}"


paid: list[int] = []
SECRET: SecretStr = SecretStr("")


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount}"


def _ask(agent: AbstractAgent, **options: Any) -> HttpAgent:
    return HttpAgent("http://app/", app=agent_app(agent, **options))


async def _events(agent: HttpAgent, prompt: str, **options: Any) -> tuple[list[Event], RunResult]:
    with anyio.fail_after(_SECONDS):
        async with agent.stream(prompt, **options) as run:
            return [event async for event in run], await run.result()


async def test_a_call_of_several_rounds_is_one_run_for_the_caller() -> None:
    usage = [TokenUsage(provider="p", model="m", input_tokens=2)]
    agent = ScriptedAgent(
        turn(text("Let me look."), tool_call("look", {"where": "Oslo"}), usage=usage),
        turn(text("Sunny."), usage=usage),
        tools=[look],
    )
    events, result = await _events(_ask(agent), "How is the weather?", run_id="mine")
    names = [event.type.value for event in events]
    assert (names.count("RUN_STARTED"), names.count("RUN_FINISHED"), names.count("TOOL_CALL_RESULT")) == (1, 1, 1)
    last = events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert (last.run_id, [each.input_tokens for each in last.usage or ()]) == ("mine", [4])
    assert [message.content for message in result.new_messages][-2:] == ["sun in Oslo", "Sunny."]
    assert result.warnings == []


@pytest.mark.parametrize("name", ["Authorization", "content-type", "HOST", "Origin"])
async def test_a_request_with_two_headers_of_which_there_is_one_is_refused(name: str) -> None:
    app = agent_app(ScriptedAgent(turn()), authorize=lambda method, path, headers: headers.get("authorization"))
    two = [(name, "application/json"), (name.lower(), "application/json")]
    async with httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app") as client:
        request = client.build_request("POST", "/", content=b"{}")
        request.headers = httpx.Headers([*two, *(("authorization", "me"),) * (name != "Authorization")])
        answer = await client.send(request)
    assert (answer.status_code, answer.json()) == (400, {"detail": f"the request has several headers {name.lower()}"})


async def test_headers_that_came_in_parts_reach_the_application_whole() -> None:
    seen: list[str] = []

    def authorize(method: str, path: str, headers: Mapping[str, str]) -> bool:
        seen.extend(headers[each] for each in ("cookie", "x-forwarded-for"))
        return False

    parts = [("cookie", "a=1"), ("cookie", "b=2"), ("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2")]
    transport = ASGITransport(agent_app(ScriptedAgent(turn()), authorize=authorize))
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        await client.post("/", headers=parts)
    assert seen == ["a=1; b=2", "1.1.1.1,2.2.2.2"]


async def test_a_served_agent_gets_the_parent_of_its_callers_run() -> None:
    agent = ScriptedAgent(turn())
    await _events(_ask(agent), "Hi", parent_run_id="before")
    assert [each.parent_run_id for each in agent.inputs] == ["before"]


async def test_the_caller_answers_its_own_tools_in_a_later_request() -> None:
    agent = ScriptedAgent(
        turn(tool_call("look", {"where": "Oslo"}), tool_call("locate", {})), turn(text("Done.")), tools=[look]
    )
    caller = _ask(agent)
    locate = Tool(name="locate", description="Where the user is.", parameters={"type": "object", "properties": {}})
    _, result = await _events(caller, "Where am I?", tools=[locate])
    [call] = result.pending_tool_calls
    assert call.function.name == "locate"
    with anyio.fail_after(_SECONDS):
        result = await caller.run_agent(tool_results={call.id: "Bergen"}, tools=[locate])
    assert result.text == "Done."
    assert [each.content for each in agent.inputs[-1].messages if each.role == "tool"] == ["sun in Oslo", "Bergen"]
    assert [each.name for each in agent.inputs[-1].tools or ()] == ["look", "locate"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Approve(), "paid 3"),
        (Approve(arguments={"amount": 4}), "paid 4"),
        (Deny("too much"), "too much"),
    ],
)
async def test_a_call_that_wants_approval_is_an_interrupt_of_the_caller(answer: Any, outcome: str) -> None:
    paid.clear()
    agent = ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay])
    caller = _ask(agent)
    _, result = await _events(caller, "Pay.")
    [question] = result.interrupts
    assert (question.reason, paid) == ("tool_call", [])
    with anyio.fail_after(_SECONDS):
        result = await caller.run_agent(resume={question.id: answer})
    assert (result.text, result.warnings) == ("Done.", [])
    assert [each.content for each in result.messages if each.role == "tool"] == [outcome]
    assert paid == ([] if isinstance(answer, Deny) else [int(outcome.removeprefix("paid "))])


def _named(arguments: dict[str, Any], ask: str | None) -> str | None:
    """The question about a call of a served tool that sends a mail."""

    @tool(approval="always", ask=ask)
    def send(
        to: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)],
        body: str = "Hi",
        code: SecretStr = SECRET,
        api_key: str = "",
    ) -> None: ...

    caller = _ask(ScriptedAgent(turn(tool_call("send", arguments)), tools=[send]))
    [question] = caller.run_agent_sync("Send").interrupts
    return question.message


@pytest.mark.parametrize(
    ("ask", "begins", "ends"),
    [(None, "Allow the call of send with ", "?"), ("Write to {to}?", "Write to ann@x?\nsend with ", "")],
)
def test_the_question_about_a_call_names_the_values_that_would_be_used(ask: str | None, begins: str, ends: str) -> None:
    def named(**arguments: Any) -> str:
        question = _named({"to": " ANN@x ", **arguments}, ask) or ""
        assert (question.startswith(begins), question.endswith(ends)) == (True, True)
        return question.removeprefix(begins).removesuffix(ends)

    assert json.loads(named()) == {"to": "ann@x", "body": "Hi", "api_key": ""}
    hidden = named(code="hunter2", api_key="sk-hunter2")
    assert ("hunter2" in hidden, json.loads(hidden)["to"]) == (False, "ann@x")
    assert named(body="a\u202eb\n\x1b[2J").isprintable()
    assert len(named(body="x" * 100_000)) < 5000


@pytest.mark.parametrize("edits", ["", [], [["amount", 5]], '{"amount": 6}', False], ids=repr)
async def test_an_approval_with_arguments_that_are_no_object_is_refused(edits: object) -> None:
    paid.clear()
    app = agent_app(ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay]))
    caller = HttpAgent("http://app/", app=app)
    _, result = await _events(caller, "Pay.")
    answer = {"interruptId": result.interrupts[0].id, "status": "resolved"}
    messages = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in result.messages]
    document = {**INPUT, "threadId": caller.thread_id, "messages": messages}
    with anyio.fail_after(_SECONDS):
        async with httpx.AsyncClient(transport=ASGITransport(app)) as client:
            payload = {"approved": True, "editedArgs": edits}
            refused = await client.post("http://app/", json={**document, "resume": [{**answer, "payload": payload}]})
            assert (refused.status_code, paid) == (422, [])
            payload = {"approved": True, "editedArgs": {"amount": 4}}
            accepted = await client.post("http://app/", json={**document, "resume": [{**answer, "payload": payload}]})
    assert (accepted.status_code, paid) == (200, [4])


async def test_an_approval_of_other_arguments_than_those_shown_pays_nobody() -> None:
    paid.clear()
    caller = _ask(ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay]))
    _, result = await _events(caller, "Pay.")
    document = caller.snapshot().model_dump_json().replace('\\"amount\\": 3', '\\"amount\\": 3000')
    assert "3000" in document
    caller.restore(type(caller.snapshot()).model_validate_json(document))
    with anyio.fail_after(_SECONDS):
        await caller.run_agent(resume={result.interrupts[0].id: Approve()})
    assert paid == []


@pytest.mark.parametrize("depth", [1, 2])
async def test_an_approval_reaches_the_agent_that_asked_through_other_served_agents(depth: int) -> None:
    paid.clear()
    caller = _ask(ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay]))
    for _ in range(depth):
        caller = _ask(caller)
    _, result = await _events(caller, "Pay.")
    [question] = result.interrupts
    with anyio.fail_after(_SECONDS):
        result = await caller.run_agent(resume={question.id: Approve()})
    assert (result.text, paid, result.warnings) == ("Done.", [3], [])


@pytest.mark.parametrize("depth", [1, 2])
async def test_an_approval_reaches_the_agent_that_asked_through_proxies(depth: int) -> None:
    paid.clear()
    caller = _ask(ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay]))
    for _ in range(depth):
        caller = HttpAgent("http://app/", app=_proxy(caller))
    _, result = await _events(caller, "Pay.")
    [question] = result.interrupts
    with anyio.fail_after(_SECONDS):
        result = await caller.run_agent(resume={question.id: Approve()})
    assert (result.text, paid, result.warnings) == ("Done.", [3], [])


def _proxy(agent: HttpAgent) -> FastAPI:
    app = FastAPI()

    @app.post("/")
    async def answer(input: RunAgentInput) -> StreamingResponse:
        run = agent.clone(thread_id=input.thread_id).stream(input)
        return StreamingResponse(run.sse(), media_type="text/event-stream")

    return app


async def test_a_server_that_cannot_send_any_more_says_that_the_caller_left() -> None:
    left: list[str] = []

    class Watched(AgentApp):
        def _on_disconnect(self) -> None:
            left.append("left")

    async def receive() -> Any:
        if "asked" in left:
            await anyio.sleep_forever()
        left.append("asked")
        return {"type": "http.request", "body": json.dumps(INPUT).encode()}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("gone")

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/", "headers": []}
    with anyio.fail_after(_SECONDS):
        await Watched(ScriptedAgent(turn(text("Hi"))))(scope, receive, send)
    assert left == ["asked", "left"]


async def test_interrupts_of_the_agent_go_up_and_answers_come_down() -> None:
    caller = _ask(demo_agent(pace=0))
    _, result = await _events(caller, "Book the ferry.")
    [question] = result.interrupts
    with anyio.fail_after(_SECONDS):
        assert "two tickets" in (await caller.run_agent(resume={question.id: Resolve({"approved": True})})).text


async def test_an_agent_with_the_callers_thread_goes_on_with_its_own_conversation() -> None:
    agent = ScriptedAgent(turn(text("One.")), turn(outcome=interrupt("Go on?")), turn(text("Three.")), thread_id="t")
    app = agent_app(lambda request, input: agent)
    caller = HttpAgent("http://app/", app=app, thread_id="t")
    with anyio.fail_after(_SECONDS):
        await caller.run_agent("a")
        result = await caller.run_agent("b")
        assert (await caller.run_agent(resume={result.interrupts[0].id: Resolve(1)})).text == "Three."
    assert [each.content for each in agent.messages] == ["a", "One.", "b", "Three."]
    # Somebody with less than the whole thread adds to it.
    fresh = HttpAgent("http://app/", app=app, thread_id="t")
    with anyio.fail_after(_SECONDS):
        await fresh.run_agent("c")
    assert [each.content for each in agent.messages][-3:] == ["Three.", "c", "Three."]


async def test_a_function_chooses_agents_and_refuses_requests() -> None:
    async def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        if request.headers.get("authorization") != "Bearer ann":
            refusal = RequestRefusedError(401, "who are you?", {"www-authenticate": "Bearer"})
            assert str(refusal) == "who are you?"
            raise refusal
        return ScriptedAgent(turn(text(f"Hi from {request.path}")))

    app = FastAPI()
    app.mount("/agents", agent_app(choose))
    with anyio.fail_after(_SECONDS):
        agent = HttpAgent("http://app/agents/oslo", app=app, headers={"authorization": "Bearer ann"})
        assert (await agent.run_agent("hello")).text == "Hi from /oslo"
        with pytest.raises(HTTPStatusError) as caught:
            await HttpAgent("http://app/agents/oslo", app=app).run_agent("hello")
    assert caught.value.status_code == 401


class Kept:
    """Conversations that outlive their agents, as a thread store keeps them."""

    def __init__(self, *turns: Any, tools: Any = ()) -> None:
        self.saved: dict[str, ConversationSnapshot] = {}
        self.left: list[str] = []
        self.failure: Exception | None = None
        self._turns, self._tools = list(turns), tools

    @asynccontextmanager
    async def open(self, request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[AbstractAgent]:
        agent = ScriptedAgent(*self._turns[:1], tools=self._tools, thread_id=input.thread_id)
        del self._turns[:1]
        if input.thread_id in self.saved:
            agent.restore(self.saved[input.thread_id])
        try:
            async with anyio.create_task_group():  # a block may have tasks of its own
                yield agent
        finally:
            self.left.append(input.run_id)
        if self.failure is not None:
            raise self.failure
        self.saved[input.thread_id] = agent.snapshot()


async def test_the_block_of_a_chosen_agent_is_left_before_the_caller_reads_the_end_of_the_run() -> None:
    store = Kept(turn(text("One.")), turn(text("Two.")))
    agent = HttpAgent("http://app/", app=agent_app(store.open), thread_id="t")
    with anyio.fail_after(_SECONDS):
        async with agent.stream("a") as run:
            async for event in run:
                if isinstance(event, RunFinishedEvent):
                    assert "t" in store.saved
        # Another client of the same thread needs to send no more than the new message.
        await HttpAgent("http://app/", app=agent_app(store.open), thread_id="t").run_agent("b")
    assert [each.content for each in store.saved["t"].messages] == ["a", "One.", "b", "Two."]


async def test_a_thread_of_a_database_is_served_to_one_caller_at_a_time() -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(text("One."), gate), turn(text("Two.")))
    async with Store() as store:
        threads = store.threads
        app = agent_app(lambda request, input: threads.open(input.thread_id, agent, owner="ann", wait=0))
        with anyio.fail_after(_SECONDS):
            async with HttpAgent("http://app/", app=app, thread_id="t").stream("a") as run:
                assert await anext(run.text_stream) == "One."
                with pytest.raises(HTTPStatusError) as caught:
                    await HttpAgent("http://app/", app=app, thread_id="t").run_agent("b")
                gate.open()
                await run.result()
            assert (await HttpAgent("http://app/", app=app, thread_id="t").run_agent("b")).text == "Two."
        async with threads.open("t", agent, owner="ann") as stored:
            assert [each.content for each in stored.messages] == ["a", "One.", "b", "Two."]
    # The seconds that are left of the lease, of 5 in all.
    assert (caught.value.status_code, 1 <= int(caught.value.headers["retry-after"]) <= 5) == (409, True)


async def test_a_block_that_cannot_be_left_fails_the_run(caplog: pytest.LogCaptureFixture) -> None:
    store = Kept(turn(text("One.")))
    store.failure = LookupError("no disk")
    with caplog.at_level(logging.ERROR), pytest.raises(RunFailedError) as caught, anyio.fail_after(_SECONDS):
        await HttpAgent("http://app/", app=agent_app(store.open)).run_agent("a")
    assert (caught.value.code, "no disk" in caplog.text) == ("agent_failed", True)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "One."


async def test_the_block_of_a_chosen_agent_is_left_when_the_caller_leaves() -> None:
    store = Kept(turn(text("One."), Gate()))
    with anyio.fail_after(_SECONDS):
        async with HttpAgent("http://app/", app=agent_app(store.open)).stream("a", run_id="r") as run:
            assert await anext(run.text_stream) == "One."
        await until(lambda: store.left == ["r"])


async def test_an_approval_is_about_the_call_in_the_thread_store_whatever_messages_the_caller_sends() -> None:
    paid.clear()
    store = Kept(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay])
    app = agent_app(store.open)
    caller = HttpAgent("http://app/", app=app, thread_id="t")
    with anyio.fail_after(_SECONDS):
        [question] = (await caller.run_agent("Pay.")).interrupts
        elsewhere = HttpAgent("http://app/", app=app, thread_id="t")
        elsewhere.restore(ConversationSnapshot(thread_id="t", pending_interrupts=[question]))
        assert (await elsewhere.run_agent(resume={question.id: Approve()})).text == "Done."
    assert paid == [3]
    assert [each.role for each in store.saved["t"].messages] == ["user", "assistant", "tool", "assistant"]


async def test_the_caller_answers_its_own_tools_in_a_stored_thread() -> None:
    store = Kept(turn(tool_call("locate", {})), turn(text("Done.")))
    locate = Tool(name="locate", description="Where the user is.", parameters={"type": "object", "properties": {}})
    caller = HttpAgent("http://app/", app=agent_app(store.open), thread_id="t", tools=[locate])
    with anyio.fail_after(_SECONDS):
        [call] = (await caller.run_agent("Where am I?")).pending_tool_calls
        result = await caller.run_agent(tool_results={call.id: "Bergen"})
    assert (result.text, result.warnings) == ("Done.", [])
    stored = store.saved["t"].messages
    assert [(each.role, each.content) for each in stored if each.role == "tool"] == [("tool", "Bergen")]
    assert [each.id for each in stored] == [each.id for each in caller.messages]


class Replaying(ScriptedAgent):
    """An agent that can send a thread again."""

    inputs_of_connect: list[RunAgentInput]
    runs: list[list[Event]]
    failure: Exception | None = None

    async def connect(self, input: RunAgentInput) -> AsyncIterator[Event]:
        self.inputs_of_connect.append(input)
        for run in self.runs:
            for event in run:
                yield event
        if self.failure is not None:
            raise self.failure


def _replaying(*runs: list[Event], **options: Any) -> Replaying:
    agent = Replaying(turn(text("new")), **options)
    agent.runs, agent.inputs_of_connect = list(runs), []
    return agent


def _run(number: int, *, thread_id: str = "t") -> list[Event]:
    asked = UserMessage(id=f"u{number}", content=f"question {number}")
    input = RunAgentInput(thread_id=thread_id, run_id=f"r{number}", messages=[asked])
    said: list[Event] = [
        TextMessageStartEvent(message_id=f"a{number}"),
        TextMessageContentEvent(message_id=f"a{number}", delta=f"answer {number}"),
        TextMessageEndEvent(message_id=f"a{number}"),
    ]
    started = RunStartedEvent(thread_id=thread_id, run_id=f"r{number}", input=input)
    return [started, *said, RunFinishedEvent(thread_id=thread_id, run_id=f"r{number}")]


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("path", ["", "agents/oslo/"])
async def test_a_served_agent_sends_a_thread_again_if_it_can(path: str, depth: int) -> None:
    agent = _replaying(_run(1), _run(2))
    asked: list[tuple[str, bool]] = []

    def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        asked.append((request.path, request.is_connect))
        return agent

    app = agent_app(choose)
    for _ in range(depth):
        app = agent_app(HttpAgent(f"http://app/{path}", app=app, connect_url="connect"))
    caller = HttpAgent(f"http://app/{path}", app=app, connect_url="connect", thread_id="t")
    caller.add_message(UserMessage(id="u0", content="question 0"))
    place = Context(description="place", value="Oslo")
    with anyio.fail_after(_SECONDS):
        result = await caller.connect_agent(context=[place], forwarded_props={"a": 1})
    said = ["question 0", "question 1", "answer 1", "question 2", "answer 2"]
    assert sorted(str(each.content) for each in caller.messages) == sorted(said)
    assert (result.text, result.warnings) == ("answer 2", [])
    assert [each.content for each in agent.inputs_of_connect[0].messages] == ["question 0"]
    assert (agent.inputs_of_connect[0].thread_id, agent.inputs) == ("t", [])
    assert (agent.inputs_of_connect[0].context, agent.inputs_of_connect[0].forwarded_props) == ([place], {"a": 1})
    if not depth:
        assert asked == [(f"/{path}".rstrip("/") or "/", True)]


async def test_an_agent_without_anything_to_send_again_sends_an_empty_stream() -> None:
    caller = HttpAgent("http://app/", app=agent_app(_replaying()), connect_url="connect")
    with anyio.fail_after(_SECONDS):
        result = await caller.connect_agent()
    assert (result.outcome, result.messages) == (None, [])


async def test_a_thread_that_cannot_be_sent_to_its_end_fails_for_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    agent = _replaying(_run(1)[:2])
    agent.failure = LookupError("swordfish")
    caller = HttpAgent("http://app/", app=agent_app(agent), connect_url="connect", thread_id="t")
    with caplog.at_level(logging.ERROR), pytest.raises(RunFailedError) as caught, anyio.fail_after(_SECONDS):
        await caller.connect_agent()
    assert (caught.value.code, "swordfish" in str(caught.value)) == ("agent_failed", False)
    assert "swordfish" in caplog.text


@pytest.mark.parametrize(
    "agent", [ScriptedAgent(turn()), HttpAgent("http://app/", app=agent_app(ScriptedAgent(turn())))]
)
async def test_an_agent_that_cannot_send_a_thread_again_is_not_asked(agent: AbstractAgent) -> None:
    assert not agent.can_connect
    caller = HttpAgent("http://app/", app=agent_app(agent), connect_url="connect")
    with pytest.raises(HTTPStatusError, match="this agent cannot send a thread again") as caught:
        await caller.connect_agent()
    assert caught.value.status_code == 405


_WHOLE = sse(turn(text("Hello")))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (faults.unanswered(end="stall"), "upstream_timeout"),
        (faults.stall(_WHOLE, events=2), "upstream_timeout"),
        (faults.status(401), "upstream_refused"),
        (faults.status(429), "upstream_429"),
        (faults.status(500), "upstream_500"),
        (faults.status(503), "upstream_503"),
        (faults.unanswered(), "upstream_unreachable"),
        (faults.ended(_WHOLE, events=2), "upstream_incomplete"),
        (faults.html_page(), "upstream_invalid"),
        (faults.double_terminal(_WHOLE), "upstream_invalid"),
        (faults.healthy(sse(turn(text("Hm"), RunErrorEvent(message="swordfish", code="full")))), "full"),
    ],
)
async def test_a_caller_learns_the_cause_of_a_failure_behind_the_server_by_its_code(
    reply: Any, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_bytes(reply) as server, caplog.at_level(logging.ERROR), anyio.fail_after(_SECONDS):
        limits = Timeouts(first_event=0.3, idle=0.3)
        app = agent_app(HttpAgent(server.url, timeout=limits))
        with pytest.raises(RunFailedError) as caught:
            await HttpAgent("http://app/", app=app).run_agent("hello")
    message = "The agent failed; the server's log has the reason."
    assert (caught.value.code, caught.value.event.message) == (code, message)
    assert "failed" in caplog.text
    assert ("swordfish" in caplog.text) is (code == "full")


async def test_a_caller_learns_through_servers_when_the_one_behind_them_may_be_asked_again() -> None:
    with serve_bytes(faults.status(429, retry_after=7), faults.status(503)) as server, anyio.fail_after(_SECONDS):
        app = agent_app(HttpAgent(server.url))
        for _ in range(2):
            app = agent_app(HttpAgent("http://inner/", app=app))
        caller = HttpAgent("http://app/", app=app)
        for code, seconds in (("upstream_429", 7), ("upstream_503", None)):
            with pytest.raises(RunFailedError) as caught:
                await caller.run_agent("hello")
            assert (caught.value.code, caught.value.retry_after) == (code, seconds)


@pytest.mark.parametrize("is_exposed", [False, True])
async def test_what_a_server_behind_an_app_says_of_its_failure_is_for_callers_if_the_app_says_so(
    is_exposed: bool,
) -> None:
    failing = turn(text("Hm"), RunErrorEvent(message="swordfish", code="full"))
    with serve(ScriptedAgent(failing)) as server, anyio.fail_after(_SECONDS):
        app = agent_app(HttpAgent(server.url), expose_errors=is_exposed)
        with pytest.raises(RunFailedError) as asked:
            await HttpAgent("http://app/", app=app).run_agent("hello")
    assert (asked.value.code, "swordfish" in asked.value.event.message) == ("full", is_exposed)
    assert asked.value.partial is not None
    assert asked.value.partial.text == "Hm"
    with anyio.fail_after(_SECONDS), pytest.raises(RunFailedError, match="swordfish"):
        await _ask(ScriptedAgent(failing)).run_agent("hello")
    failed = [*_run(1)[:-1], RunErrorEvent(message="swordfish", code="full")]
    behind = HttpAgent("http://app/", app=agent_app(_replaying(failed)), connect_url="connect")
    follower = HttpAgent("http://app/", app=agent_app(behind, expose_errors=is_exposed), connect_url="connect")
    with anyio.fail_after(_SECONDS), pytest.raises(RunFailedError) as sent_again:
        await follower.connect_agent()
    assert (sent_again.value.code, "swordfish" in sent_again.value.event.message) == ("full", is_exposed)


@pytest.mark.parametrize("is_exposed", [False, True])
@pytest.mark.parametrize("place", ["agent", "member", "member of a member", "nested"])
async def test_the_words_of_a_failing_server_in_a_team_are_for_callers_if_the_app_says_so(
    place: str, is_exposed: bool
) -> None:
    begun = SubagentStartedEvent(subagent_run_id="s", name="inner")
    ended = SubagentErrorEvent(subagent_run_id="s", message="swordfish", code="full")
    fails = RunErrorEvent(message="swordfish", code="full")
    failing = turn(text("Hm"), fails) if "member" in place else turn(begun, ended, text("Hm"))
    remote = HttpAgent("http://up/", app=agent_app(ScriptedAgent(failing)), agent_id="remote")
    team = SequentialAgent(remote, agent_id="team")
    agents = {"agent": remote, "member of a member": SequentialAgent(team, agent_id="outer")}
    errors = list[RunErrorEvent | SubagentErrorEvent]()
    with anyio.fail_after(_SECONDS), suppress(RunFailedError):
        async with _ask(agents.get(place, team), expose_errors=is_exposed).stream("Hi") as run:
            async for event in run:
                if isinstance(event, RunErrorEvent | SubagentErrorEvent):
                    errors.append(event)
    message = "swordfish" if is_exposed else "The agent failed; the server's log has the reason."
    number = {"member": 2, "member of a member": 3}.get(place, 1)
    assert [(each.message, each.code) for each in errors] == [(message, "full")] * number


async def test_the_text_of_an_exception_stays_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise ValueError("the password is swordfish")

    with caplog.at_level(logging.ERROR), pytest.raises(RunFailedError) as caught:
        await _ask(FunctionAgent(broken)).run_agent("hello")
    assert (caught.value.code, "swordfish" in str(caught.value), "swordfish" in caplog.text) == (
        "agent_failed",
        False,
        True,
    )
    with pytest.raises(RunFailedError, match="ValueError: the password is swordfish"):
        await HttpAgent("http://app/", app=agent_app(FunctionAgent(broken), expose_errors=True)).run_agent("hello")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"method": "GET"}, 405),
        ({"method": "POST", "content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"method": "POST", "content": json.dumps(INPUT), "headers": {"origin": "https://evil.test"}}, 415),
        ({"method": "POST", "content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ({"method": "POST", "content": json.dumps({**INPUT, "state": float("nan")})}, 400),
        ({"method": "POST", "content": json.dumps({**INPUT, "forwardedProps": [float("-inf")]})}, 400),
        ({"method": "POST", "content": json.dumps({**INPUT, "state": 7}).replace("7", "-1E+999")}, 422),
        ({"method": "POST", "content": json.dumps({**INPUT, "state": [7]}).replace("7", f"{10**400}.0")}, 422),
        ({"method": "POST", "content": json.dumps({**INPUT, "state": 7}).replace("7", f"{10**250}e99")}, 422),
        ({"method": "POST", "content": json.dumps({**INPUT, "state": {"a": 7}}).replace("7", "9" * 309)}, 422),
        ({"method": "POST", "content": json.dumps({**INPUT, "state": 7}).replace("7", "9" * 800)}, 422),
        ({"method": "POST", "json": {"threadId": 1}}, 422),
        ({"method": "POST", "json": {**INPUT, "state": "x" * 2000}}, 413),
        (
            {"method": "POST", "json": {**INPUT, "resume": [{"interruptId": "approval:c:0", "status": "resolved"}]}},
            422,
        ),
    ],
)
def test_bad_requests_are_refused_with_a_reason(request_: Any, status: int) -> None:
    app = agent_app(ScriptedAgent(turn()), limits=AppLimits(max_body_bytes=1000))
    with serve(app) as server:
        response = httpx.request(url=server.url, **request_, verify=False)
    assert (response.status_code, bool(response.json()["detail"])) == (status, True)


@pytest.mark.parametrize("given", ["NaN, -Infinity, 1e999", 10**307, 1e300])
async def test_an_unusual_number_and_the_word_for_no_number_may_be_sent(given: Any) -> None:
    agent = _ask(ScriptedAgent(turn(text("Fine."))))
    agent.set_state(given)
    assert (await agent.run_agent(str(given))).text == "Fine."


async def _generator(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        (None, {}),
        ("agents.py:planner", {}),
        (ScriptedAgent, {}),
        (_generator, {}),
        (ScriptedAgent(turn()), {"authorize": "ann"}),
    ],
)
def test_an_app_that_could_answer_nobody_is_not_made(agent: Any, options: Any) -> None:
    with pytest.raises(UsageError, match="not "):
        agent_app(agent, **options)


@pytest.mark.parametrize(
    "limit",
    [
        *({"keep_alive": each} for each in (0, -1, None, float("nan"))),
        *({"max_body_bytes": each} for each in (0, None)),
        *({"body_timeout": each} for each in (0, "soon")),
        {"stop_within": 0},
    ],
)
def test_a_limit_that_lets_nobody_be_answered_is_refused_by_name(limit: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(limit))}= .*not "):
        AppLimits(**limit)


def test_comments_cannot_follow_each_other_without_a_pause() -> None:
    for seconds in (0, 10**400):
        with pytest.raises(UsageError, match=f"keep_alive= is a number of seconds above zero, not {seconds}"):
            ScriptedAgent(turn()).stream("hello").sse(keep_alive=seconds)


@asynccontextmanager
async def _block_of_no_agent(request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[Any]:
    yield 3


def _no_agent(request: ServedRequest, input: RunAgentInput) -> int:
    return 3


@pytest.mark.parametrize("choose", [_no_agent, _block_of_no_agent])
async def test_a_function_that_chooses_no_agent_is_named_in_the_log(
    choose: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TransportError, match="the app raised TypeError"):
        await HttpAgent("http://app/", app=agent_app(choose)).run_agent("hello")
    assert "the function that chooses agents returned no agent, but 3" in caplog.text


def test_a_silent_run_sends_comments_and_no_proxy_collects_the_events() -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(gate))
    with (
        serve(agent_app(agent, limits=AppLimits(keep_alive=0.05))) as server,
        httpx.stream("POST", server.url, verify=False, json=INPUT) as response,
    ):
        assert {name: response.headers[name] for name in sse_headers()} == {
            "content-type": "text/event-stream",
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",
        }
        body = b""
        for chunk in response.iter_raw():
            body += chunk
            if body.count(b": keep-alive\n\n") == 2:
                gate.open()
    assert body.replace(b": keep-alive\n\n", b"") == sse(turn(), input=RunAgentInput.model_validate(INPUT))


def test_the_agent_is_cancelled_when_the_caller_leaves() -> None:
    left = threading.Event()

    async def slow(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        try:
            await anyio.sleep(60)
        finally:
            left.set()

    with serve(agent_app(FunctionAgent(slow))) as server:
        with httpx.stream("POST", server.url, verify=False, json=INPUT) as response:
            next(response.iter_raw())
        assert left.wait(_SECONDS)  # before the first keep-alive comment, which would notice it, too


async def test_two_requests_of_one_stored_thread_are_kept_apart() -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(gate), thread_id="t")
    app = agent_app(lambda request, input: agent)
    with anyio.fail_after(_SECONDS):
        async with HttpAgent("http://app/", app=app, thread_id="t").stream("a") as run:
            await anext(run)
            with pytest.raises(HTTPStatusError) as caught:
                await HttpAgent("http://app/", app=app, thread_id="t").run_agent("b")
            gate.open()
    assert caught.value.status_code == 409


async def test_a_run_is_the_body_of_a_response_in_any_framework() -> None:
    app = FastAPI()

    @app.post("/")
    async def answer(input: RunAgentInput) -> StreamingResponse:
        agent = ScriptedAgent(turn(tool_call("look", {"where": "Oslo"})), turn(text("Sunny.")), tools=[look])
        return StreamingResponse(agent.stream("weather?").sse(), media_type="text/event-stream")

    with anyio.fail_after(_SECONDS):
        assert (await HttpAgent("http://app/", app=app).run_agent("hello")).text == "Sunny."


def test_a_sync_framework_answers_an_approval() -> None:
    paid.clear()
    agent = ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay])

    async def answer(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        body = b"".join(served_run_sync(agent, input).sse())
        for event in events_of(body):
            yield Decoder(WarningLog()).feed(event.decode().removeprefix("data: ").strip())

    caller = FunctionAgent(answer)
    result = caller.run_agent_sync("Pay.")
    assert paid == []
    assert caller.run_agent_sync(resume={result.interrupts[0].id: Approve()}).text == "Done."
    assert paid == [3]


def test_a_sync_framework_iterates_the_same_body() -> None:
    agent = ScriptedAgent(turn(tool_call("look", {"where": "Oslo"})), turn(text("Sunny.")), tools=[look])
    chunks = agent.stream_sync("weather?").sse()
    assert b"RUN_STARTED" in next(chunks)
    assert b"".join(chunks).endswith(b"\n\n")


async def test_a_served_agent_whose_tools_are_chosen_for_each_run_offers_those_of_its_caller_too() -> None:
    agent = ScriptedAgent(
        turn(tool_call("look", {"where": "Oslo"})), turn(text("Sunny.")), tools=lambda run_input: [look]
    )
    locate = Tool(name="locate", description="Where the user is.", parameters={"type": "object", "properties": {}})
    _, result = await _events(_ask(agent), "weather?", tools=[locate])
    assert result.text == "Sunny."
    assert [tool.name for tool in agent.inputs[0].tools or ()] == ["look", "locate"]


def _choose_no_list(input: RunAgentInput) -> object:
    return look


async def test_a_single_tool_in_place_of_a_list_is_refused_by_a_served_agent_and_not_called() -> None:
    tools: Any = _choose_no_list
    agent = ScriptedAgent(turn(), tools=tools)
    with pytest.raises(HTTPStatusError, match="tools= takes a list of tools"):
        await HttpAgent("http://app/", app=agent_app(agent, expose_errors=True)).run_agent("weather?")
    assert agent.inputs == []


async def test_a_thread_whose_last_run_failed_is_sent_again_with_that_failure_once() -> None:
    failed: list[Event] = [*_run(1)[:2], RunErrorEvent(message="out of order")]
    caller = HttpAgent("http://app/", app=agent_app(_replaying(failed)), connect_url="connect", thread_id="t")
    seen: list[Event] = []
    caller.on(RunErrorEvent)(seen.append)
    with anyio.fail_after(_SECONDS), pytest.raises(RunFailedError, match="out of order"):
        await caller.connect_agent()
    assert len(seen) == 1


async def test_the_body_of_a_silent_run_has_comments() -> None:
    gate = Gate()
    body = b""
    with anyio.fail_after(_SECONDS):
        async for chunk in ScriptedAgent(turn(gate)).stream("hello").sse(keep_alive=0.01):
            body += chunk
            if b": keep-alive\n\n" in body:
                gate.open()
    assert [json.loads(each[6:])["type"] for each in events_of(body.replace(b": keep-alive\n\n", b""))] == [
        "RUN_STARTED",
        "RUN_FINISHED",
    ]


async def test_a_run_whose_reader_is_slow_waits_for_it_and_loses_nothing() -> None:
    many = [{"type": "CUSTOM", "name": "number", "value": number} for number in range(500)]
    chunks = ScriptedAgent(turn(*many)).stream("hello").sse()
    with anyio.fail_after(_SECONDS):
        body = await anext(chunks)
        await anyio.wait_all_tasks_blocked()
        body += b"".join([chunk async for chunk in chunks])
    events = [json.loads(each[6:]) for each in events_of(body)]
    assert [each["value"] for each in events if each["type"] == "CUSTOM"] == list(range(500))


async def test_a_run_that_is_stopped_while_it_is_sent_on_ends_as_cancelled() -> None:
    run = ScriptedAgent(turn(Gate())).stream("hello")
    chunks = run.sse()
    with anyio.fail_after(_SECONDS):
        await anext(chunks)
        run.cancel()
        last = events_of(b"".join([chunk async for chunk in chunks]))[-1]
    assert json.loads(last[6:])["outcome"] == {"type": "cancelled"}


async def test_a_run_that_is_stopped_before_it_begins_has_a_beginning_for_its_caller() -> None:
    async with ScriptedAgent(turn()).stream("hello") as run:
        run.cancel()
        with anyio.fail_after(_SECONDS):
            first, last = map(
                json.loads, (each[6:] for each in events_of(b"".join([each async for each in run.sse()])))
            )
    ids = {"threadId": run.thread_id, "runId": run.run_id}
    assert first == {"type": "RUN_STARTED", **ids, "protocolVersion": "1.0"}
    assert last == {"type": "RUN_FINISHED", **ids, "outcome": {"type": "cancelled"}}


def test_the_help_of_an_app_fits_a_screen_and_names_each_keyword_once() -> None:
    text = pydoc.plain(pydoc.render_doc(AgentApp)).partition("Data descriptors")[0]
    keywords = [*inspect.signature(AgentApp).parameters]
    assert len(text.splitlines()) <= 62
    assert len(keywords) == 1 + 12
    assert [name for name in keywords if text.count(f"  {name}: ") != 1] == []
    public = [name for name in vars(AgentApp) if not name.startswith("_")]
    assert public == ["lifespan", "shutdown"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limits": 5}, r"limits= takes AppLimits\(...\), not 5"),
        ({"store": Store(), "owner_of": str, "keeping": "kept"}, r"keeping= takes Keeping\(...\)"),
        ({"keeping": Keeping()}, "keeping= says what a store keeps, and needs store="),
    ],
)
def test_a_record_of_another_kind_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        agent_app(ScriptedAgent(turn()), **options)


@pytest.mark.parametrize("given", [{"threads": "stored"}, {"when_left": "go"}, {"caller": 1}])
def test_what_a_store_cannot_keep_is_refused_by_name(given: dict[str, Any]) -> None:
    [name] = given
    with pytest.raises(UsageError, match=rf"Keeping\({name}=\)"):
        Keeping(**given)
