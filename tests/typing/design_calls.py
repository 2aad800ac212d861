"""A user's file: every call shape of the design that exists, to type-check under mypy and pyright strict; never run."""

# ruff: noqa: T201 (a user prints)

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import httpx
import httpx2
from ag_ui.core import (
    Context,
    Event,
    Interrupt,
    Message,
    RunAgentInput,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    TextMessageContentEvent,
    TextPart,
    TokenUsage,
    Tool,
    ToolCall,
    ToolCallEndEvent,
    ToolCallStartEvent,
    UserMessage,
)
from pydantic import BaseModel, TypeAdapter
from reactivex import Observable
from reactivex import operators as ops

from agui_client import (
    AbstractAgent,
    AgentRun,
    AGUIError,
    Cancel,
    Change,
    ConversationSnapshot,
    FunctionAgent,
    HookContext,
    HttpAgent,
    HTTPStatusError,
    InvalidEventError,
    Mutation,
    ProtocolError,
    ProtocolWarning,
    Resolve,
    RetryPolicy,
    RunFailedError,
    RunObserver,
    RunResult,
    StreamFault,
    Subscriber,
    SyncAgentRun,
    Timeouts,
    ToolError,
    UnrecognizedEvent,
    Window,
    attach,
    validate,
)
from agui_client.batch import Batch, RowResult, Summary, run_many, write_table
from agui_client.notebook import show
from agui_client.state import ABSENT, Conflict, merge
from agui_client.teams import SequentialAgent
from agui_client.testing import Raw, Reply, assert_conforms, events_of, faults, serve_bytes, sse, text, turn
from agui_client.types import History, Next, Prompt, RunEnd, RunScope, Snapshot

URL = "http://localhost:8000/agent"


class Trip(BaseModel):
    city: str
    days: int


def token() -> Mapping[str, str]:
    return {"Authorization": "Bearer ..."}


def make_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(http2=False)


def making_agents(look: Tool) -> list[HttpAgent]:
    return [
        HttpAgent(URL),
        HttpAgent(URL, headers={"Authorization": "Bearer ..."}, timeout=30),
        HttpAgent(URL, headers=token, timeout=Timeouts(connect=5, first_event=60, idle=None, total=600)),
        HttpAgent(URL, auth=("ada", "secret"), http_client=make_client, max_event_bytes=1_000_000),
        HttpAgent(URL, auth=httpx.BasicAuth("ada", "secret"), http_client=httpx.AsyncClient()),
        HttpAgent(URL, http_client=httpx2.AsyncClient(), retry=3),
        HttpAgent(URL, http_client=httpx2.AsyncClient, retry=RetryPolicy(status=3)),
        HttpAgent(
            URL,
            agent_id="writer",
            description="Writes.",
            thread_id="thread-1",
            initial_messages=[UserMessage(id="1", content="Hi"), {"role": "user", "content": "Hi"}],
            initial_state={"preferred_language": "English"},
            tools=[look],
            middleware=[add_tenant],
            null_fields="drop",
            strict=True,
            max_protocol_version="0.0.57",
        ),
    ]


async def asking(agent: HttpAgent, look: Tool) -> None:
    result = assert_type(await agent.run_agent("Which river runs through Turin?"), RunResult)
    print(result.text)
    await agent.run_agent()
    await agent.run_agent(UserMessage(id="1", content="Hi"))
    await agent.run_agent([TextPart(text="Look at this")])
    await agent.run_agent(["Look at this", Path("photo.png"), attach("https://example.org/photo.jpg")])
    await agent.run_agent(RunAgentInput(thread_id="t", run_id="r", messages=[]), headers={"X-Tenant": "acme"})
    assert_type(result.parse(Trip), Trip)
    assert_type(result.parse(list[int]), list[int])
    assert_type(result.to_json(indent=2), str)
    agent.state = Trip(city="Oslo", days=1)
    await agent.run_agent({"role": "user", "content": "Hi"})
    await agent.run_agent(
        "Hi",
        run_id="run-1",
        tools=[look],
        context=[Context(description="unit", value="°C")],
        forwarded_props={"tenant": "acme"},
        tool_results={"call-1": {"any": "json"}, "call-2": ToolError("no light"), "call-3": "text"},
        headers={"X-Request-Id": "42"},
        timeout=5,
    )
    async with agent, agent.clone() as clone:
        assert_type(clone, HttpAgent)
        await clone.run_agent("Hi", timeout=Timeouts(total=timedelta(minutes=1).total_seconds()))
    await agent.aclose()


async def ask(agent: HttpAgent, prompt: Prompt) -> str:
    return (await agent.run_agent(prompt)).text


async def streaming(agent: HttpAgent) -> RunResult:
    async with agent.stream("Plan a trip") as run:
        assert_type(run, AgentRun)
        async for event in run:
            match event:
                case TextMessageContentEvent(delta=delta):
                    print(delta, end="")
                case ToolCallStartEvent(tool_call_name=name):
                    print(f"[{name}]")
                case StateDeltaEvent():
                    print(run.state)
                case _:
                    assert_type(run.messages, list[Message])
        result = await run.result()
    async with agent.stream("Tell me a story") as run:
        async for text in run.text_stream:
            print(assert_type(text, str), end="", flush=True)
    async with agent.stream("...") as run:
        async for snapshot in run.snapshots:
            assert_type(snapshot, Snapshot)
            assert_type(snapshot.messages, list[Message])
            run.cancel()
    agent.abort_run()
    return result


def without_await(agent: HttpAgent) -> None:
    print(agent.run_agent_sync("hi").text)
    with agent.stream_sync("Tell me a story", run_id="run-1") as run:
        assert_type(run, SyncAgentRun)
        for text in run.text_stream:
            print(assert_type(text, str))
        for event in run:
            print(event.type)
        for snapshot in run.snapshots:
            print(snapshot.state)
        assert_type(run.result(), RunResult)
        assert_type(run.partial, RunResult)


def observing(agent: HttpAgent) -> None:
    def is_text(event: Event) -> bool:
        return isinstance(event, TextMessageContentEvent)

    def render(events: list[Event]) -> None:
        print(len(events))

    def report(error: Exception) -> None:
        print(error)

    def done() -> None:
        print("done")

    subscription = (
        agent.observe("Tell me a story")
        .pipe(ops.filter(is_text), ops.buffer_with_time(0.1))
        .subscribe(on_next=render, on_error=report, on_completed=done)
    )
    subscription.dispose()
    assert_type(agent.observe("Hi", timeout=3), Observable[Event]).subscribe(print)
    assert_type(agent.observe_messages(), Observable[list[Message]]).subscribe(print)
    agent.observe_state().subscribe(print)


def sharing_state(adapter: TypeAdapter[Trip | None]) -> None:
    agent = HttpAgent(URL, state_model=Trip, on_conflict="mine", initial_state=Trip(city="Oslo", days=1))
    assert_type(agent, HttpAgent[Trip])
    assert_type(agent.typed_state.city, str)
    with agent.edit_state() as trip:
        assert_type(trip, Trip).days = 2
    assert_type(agent.clone().typed_state, Trip)
    assert_type(HttpAgent(URL, state_model=adapter).typed_state, Trip | None)
    assert_type(FunctionAgent(echo, state_model=list[int]).typed_state, list[int])
    assert_type(HttpAgent(URL, on_conflict="raise").typed_state, Any)

    def settle(conflict: Conflict) -> object:
        return conflict.ours if conflict.base is ABSENT else conflict.theirs

    HttpAgent(URL, on_conflict=settle).observe_state("/legs/*/price").subscribe(print)

    @agent.on_state("/days")
    def days(value: int, path: str) -> None:
        print(value, path)

    days(1, "/days")
    merged, conflicts = merge({"a": 1}, {"a": 2}, {"a": 3}, settle)
    print(merged, [each.path for each in conflicts])


async def reading_typed_states(agent: HttpAgent[Trip], plain: HttpAgent, local: SequentialAgent[Trip]) -> None:
    result = assert_type(await agent.run_agent("Hi"), RunResult[Trip])
    assert_type(result.typed_state, Trip)
    assert_type(result.typed_state.city, str)
    assert_type(agent.run_agent_sync("Hi").typed_state, Trip)
    assert_type((await agent.connect_agent()).typed_state, Trip)
    async with agent.stream("Hi") as run:
        assert_type(run, AgentRun[Trip])
        async for snapshot in run.snapshots:
            assert_type(snapshot, Snapshot[Trip])
            assert_type(snapshot.typed_state, Trip)
        assert_type(run.typed_state, Trip)
        assert_type(run.partial.typed_state, Trip)
        assert_type((await run.result()).typed_state, Trip)
    async with agent.stream_connect() as replay:
        assert_type(replay.typed_state, Trip)
    with agent.stream_sync("Hi") as sync_run:
        assert_type(sync_run, SyncAgentRun[Trip])
        for snapshot in sync_run.snapshots:
            assert_type(snapshot.typed_state, Trip)
        assert_type(sync_run.typed_state, Trip)
        assert_type(sync_run.result().typed_state, Trip)
    assert_type(await show(agent.stream("Hi")), RunResult[Trip])
    assert_type(show(agent.stream_sync("Hi")), RunResult[Trip])
    assert_type(await plain.run_agent("Hi"), RunResult[Any])
    assert_type((await plain.run_agent("Hi")).typed_state, Any)
    assert_type(plain.stream("Hi"), AgentRun[Any])
    assert_type((await local.run_agent("Hi")).typed_state, Trip)
    assert_type(SequentialAgent(plain, state_model=Trip), SequentialAgent[Trip])


async def asking_many(agent: HttpAgent, rows: list[str]) -> None:
    batch = assert_type(run_many(agent, rows, parse=Trip), Batch[Trip])
    async for done in batch:
        assert_type(done, RowResult[Trip])
        assert_type(done.parsed, Trip | None)
    for done in batch:
        assert_type(done.parsed, Trip | None)
    write_table(batch, "trips.parquet")
    print(assert_type(batch.summary, Summary).failed)
    assert_type(run_many(agent, rows, parse=list[int]), Batch[list[int]])
    assert_type(run_many(agent, rows, parse=Trip | None), Batch[Any])
    assert_type(run_many(agent, rows), Batch[Any])


def reading(result: RunResult) -> Trip:
    assert_type(result.text, str)
    assert_type(result.interrupts, list[Interrupt])
    assert_type(result.pending_tool_calls, list[ToolCall])
    assert_type(result.new_messages, list[Message])
    assert_type(result.messages, list[Message])
    assert_type(result.usage, list[TokenUsage])
    assert_type(result.warnings, list[ProtocolWarning])
    assert_type(result.timings.first_text, float | None)
    print(result.result, result.state, result.thread_id, result.run_id, result.aborted)
    if result.response is not None:
        print(result.response.status_code, result.response.headers["date"])
    match result.outcome:
        case RunFinishedSuccessOutcome(pending_tool_call_ids=pending):
            print(pending)
        case RunFinishedInterruptOutcome(interrupts=interrupts):
            print(len(interrupts))
        case RunFinishedCancelledOutcome() | None:
            print("no")
    assert_type(result.parse(list[Trip]), list[Trip])
    return result.parse(Trip)


class MyAgent(AbstractAgent):
    async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


async def echo(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


async def add_tenant(input: RunAgentInput, next: Next) -> AsyncIterator[Event]:
    async for event in next(input.model_copy(update={"forwarded_props": {"tenant": "acme"}})):
        yield event


async def quoting(input: RunAgentInput, next: Next) -> AsyncIterator[Event | UnrecognizedEvent]:
    async for event in next(input):
        yield event
    yield UnrecognizedEvent("QUOTE", {"type": "QUOTE"})


def agents_of_all_kinds() -> list[AbstractAgent]:
    agents: list[AbstractAgent] = [MyAgent(), FunctionAgent(echo), HttpAgent(URL)]
    for agent in agents:
        agent.use(add_tenant).use(quoting, add_tenant)
    return agents


class Watching(Subscriber):
    def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> None:
        print(event.delta, context.messages, context.state, context.input.run_id)

    async def on_run_initialized(self, context: HookContext) -> Mutation:
        return Mutation(messages=[*context.messages], state={"any": "json"})

    def on_event(self, event: Event, context: HookContext) -> Mutation | None:
        return Mutation(stop_propagation=True) if isinstance(event, ToolCallEndEvent) else None

    async def on_run_failed(self, error: Exception, context: HookContext) -> None:
        print(error)


async def shorten(messages: list[Message]) -> list[Message]:
    return messages[-1:]


def choosing_history() -> list[HttpAgent]:
    windows = [Window(turns=20), Window(messages=50, tokens=8000, count=lambda message: len(message.id))]
    histories: list[History] = ["full", "new", *windows, shorten, lambda messages: messages[-1:]]
    return [HttpAgent("http://localhost:8000/", history=each) for each in histories]


def subscribing(agent: HttpAgent) -> None:
    with agent.subscribe(Watching()) as subscription:
        subscription.unsubscribe()

    @agent.on(ToolCallEndEvent)
    def ended(event: ToolCallEndEvent) -> None:
        print(event.tool_call_id)

    @agent.on(TextMessageContentEvent)
    async def said(event: TextMessageContentEvent, context: HookContext) -> None:
        print(event.delta, context.thread_id)

    ended(ToolCallEndEvent(tool_call_id="call-1"))
    print(said)


def wanted(interrupt: Interrupt) -> bool:
    return interrupt.reason == "confirmation"


async def answering(agent: HttpAgent) -> None:
    result = await agent.run_agent("Wire 100 EUR to Ada")
    while result.interrupts:
        answers = {i.id: Resolve({"approved": True}) if wanted(i) else Cancel() for i in result.interrupts}
        result = await agent.run_agent(resume=answers)
    agent.abandon_interrupts()
    await agent.run_agent("Go on", resume={"i1": Resolve(True, metadata={"by": "ada"}), "i2": Cancel()})
    print(agent.pending_interrupts, agent.pending_tool_calls)


def conversing(agent: HttpAgent) -> HttpAgent:
    agent.add_message(UserMessage(id="1", content="Hi"))
    agent.add_messages([UserMessage(id="2", content="Hi"), {"role": "user", "content": "Hi"}])
    agent.set_messages(agent.messages)
    state: Any = agent.state
    agent.set_state(state)
    document = assert_type(agent.snapshot(), ConversationSnapshot).model_dump_json()
    agent.restore(ConversationSnapshot.model_validate_json(document))
    print(agent.agent_id, agent.description, agent.thread_id, agent.is_running, agent.tools)
    return agent.clone()


async def failing(agent: HttpAgent) -> None:
    try:
        await agent.run_agent("Hi")
    except RunFailedError as error:
        print(error.code, error.event.message)
    except HTTPStatusError as error:
        print(error.status_code, error.body, error.headers.get("retry-after"))
    except InvalidEventError as error:
        print(error.path, error.errors, error.rule)
    except ProtocolError as error:
        print(error.rule)
    except AGUIError as error:
        if error.partial is not None:
            assert_type(error.partial.text, str)
            assert_type(error.partial.new_messages, list[Message])
            assert_type(error.partial.usage, list[TokenUsage])
            print(error.thread_id, error.run_id)


def spoiling() -> list[Reply]:
    body = sse(turn(text("Hello you")))
    middle = len(assert_type(events_of(body), list[bytes])) // 2
    with serve_bytes(faults.status(503, retry_after=1), faults.healthy(body)) as server:
        print(assert_type(HttpAgent(server.url).run_agent_sync("Hi").text, str))
    return [
        faults.cut(body, events=middle),
        faults.ended(body, size=100),
        faults.reset(body, events=middle),
        faults.stall(body, events=middle, comments=3, seconds=0.1),
        faults.unanswered(end="reset"),
        faults.trickle(body, seconds=0.1, size=10),
        faults.split(body, size=1),
        faults.burst(body, size=1_000_000),
        faults.crlf(body),
        faults.cr(body),
        faults.gzipped(body, encoding="deflate", events=middle, broken=True),
        faults.trailing_garbage(body, garbage=b"\xff"),
        faults.late_error(body, message="overloaded", code="E7"),
        faults.double_terminal(body),
        faults.broken_chunk(body, size=100),
        faults.oversized_headers(body, size=200_000),
        faults.second_response(body, second=sse(turn(text("Not for you")))),
        faults.html_page(status=502),
        faults.status(401, headers={"WWW-Authenticate": "Bearer"}, body=b"no", content_type="text/plain"),
        faults.status(429, retry_after=datetime.now(UTC)),
        faults.redirect(URL, status=308),
        Reply([body, Raw(b"no chunk")], end="cut"),
    ]


def observing_runs() -> HttpAgent:
    """Type-check an observer as users write it."""

    class Metrics(RunObserver):
        def on_event(self, run: RunScope, event: Event, change: Change) -> None:
            assert_type(run.agent.agent_id, str)

        def on_end(self, run: RunScope, end: RunEnd) -> None:
            assert_type(end.timings.total, float | None)

    return HttpAgent(URL, observers=[Metrics()]).add_observer(Metrics())


async def checking_streams(body: bytes, agent: HttpAgent, asked: RunAgentInput, events: list[Event]) -> None:
    """Type-check the checks of streams as users write them."""
    faults: list[StreamFault] = assert_type(validate(body), list[StreamFault])
    for each in (
        validate(events, input=asked),
        validate([{"type": "CUSTOM", "name": "x"}]),
        validate(Path("run.jsonl")),
    ):
        faults += each
    assert_type(await validate(agent.run(asked), strict=True, null_fields="drop"), list[StreamFault])
    for fault in faults:
        print(fault.rule, fault.severity, assert_type(fault.line, int | None), fault.event)
    assert_conforms(body, allow_warnings=True)
