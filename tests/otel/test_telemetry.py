"""Spans, metrics and log records of whole calls: they add up, and code of the application runs in the run's span."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import RunAgentInput, RunStartedEvent, TextMessageContentEvent, TokenUsage
from opentelemetry import trace

from agui_client import (
    AbstractAgent,
    ApprovalRequest,
    FunctionAgent,
    HookContext,
    HttpAgent,
    RunFailedError,
    Subscriber,
    Timeouts,
    ToolLimits,
    tool,
)
from agui_client._otel import SpanObserver, span_observer
from agui_client.asgi import agent_app
from agui_client.teams import SequentialAgent
from agui_client.testing import Reply, ScriptedAgent, faults, serve_bytes, sse, text, tool_call, turn
from support.on_call import rows, signs_of
from support.telemetry import Measured, spans_in_memory
from support.verbs import Verb, every_verb

if TYPE_CHECKING:
    from ag_ui.core import Event
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from agui_client import UnrecognizedEvent
    from agui_client.types import Next

DURATION = "gen_ai.client.operation.duration"
CALL_DURATION = "gen_ai.client.invoke_agent.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
FIRST_TEXT = "agui.client.run.time_to_first_text"
TOKENS = "gen_ai.client.token.usage"
ACTIVE = "agui.client.active_runs"
LIMITS = {DURATION: (0.01, 81.92), CALL_DURATION: (0.1, 409.6), TOKENS: (1, 67_108_864)}
"""The first and the last limit of histograms: seconds of a request and of a call, and tokens."""
HELLO = turn(text("Hello."))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    return spans_in_memory(monkeypatch)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return Measured(monkeypatch)


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def usage_of(span: ReadableSpan) -> tuple[Any, Any]:
    found = attributes(span)
    return found.get("gen_ai.usage.input_tokens"), found.get("gen_ai.usage.output_tokens")


def is_inside(span: ReadableSpan, other: ReadableSpan) -> bool:
    """Whether a span is the child of another, and began and ended within it."""
    assert span.start_time is not None
    assert other.start_time is not None
    assert span.end_time is not None
    assert other.end_time is not None
    is_child = span.parent is not None and span.parent == other.get_span_context()
    return is_child and other.start_time <= span.start_time and span.end_time <= other.end_time


# --- adding up


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_the_numbers_of_a_call_with_two_rounds_an_approval_and_a_tool_server_add_up(
    spans: InMemorySpanExporter, measured: Measured, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")
    from agui_client.mcp import mcp_server
    from support.mcp_house import make_server

    caplog.set_level(logging.INFO, "agui_client")
    seen: list[trace.SpanContext] = []

    def approve(request: ApprovalRequest) -> bool:
        seen.append(trace.get_current_span().get_span_context())
        return True

    first = [TokenUsage(provider="p", model="small", input_tokens=10, output_tokens=3)]
    second = [
        TokenUsage(provider="p", model="small", input_tokens=20, output_tokens=4),
        TokenUsage(provider="p", model="large", input_tokens=5),
    ]
    calls = turn(tool_call("pay", {"amount": 3}), tool_call("add", {"a": 1}), usage=first)
    with serve_bytes(sse(calls), sse(turn(text("Done."), usage=second))) as server:
        agent = HttpAgent(server.url, agent_id="shop", tools=[pay, mcp_server(make_server())], approve=approve)
        result = agent.run_agent_sync("Hi")
    assert [each.message.content for each in result.tool_executions if each.message] == ["paid 3", "2"]

    found = {name: [span for span in spans.get_finished_spans() if span.name == name] for name in names(spans)}
    [call], runs, requests = found["invoke_agent shop"], found["run shop"], found["POST"]
    tools_run = [*found["execute_tool pay"], *found["execute_tool add"]]
    assert (len(runs), len(requests), len(tools_run)) == (2, 2, 2)
    assert all(is_inside(span, call) for span in (*runs, *tools_run))
    assert all(is_inside(request, run) for request, run in zip(requests, runs, strict=True))
    assert seen == [call.get_span_context()]
    assert [usage_of(run) for run in runs] == [(10, 3), (25, 4)]
    assert usage_of(call) == (35, 7)
    about_call = attributes(call)
    assert (about_call["agui.run.count"], about_call["agui.tool_execution.count"]) == (2, 2)
    assert about_call["agui.event.count"] == sum(attributes(run)["agui.event.count"] for run in runs)

    points = measured.read()
    # A store of another test may still renew its lease.
    of_calls = {each for each in points if not each.startswith("agui.store.")}
    assert of_calls == {DURATION, CALL_DURATION, TOOL_DURATION, FIRST_CHUNK, FIRST_TEXT, TOKENS, ACTIVE}
    assert [each.value for each in points[ACTIVE]] == [0]
    [durations], [whole], [chunks] = points[DURATION], points[CALL_DURATION], points[FIRST_CHUNK]
    assert (durations.count, whole.count, chunks.count, points[FIRST_TEXT][0].count) == (2, 1, 2, 1)
    assert sum(point.count for point in points[TOOL_DURATION]) == 2
    # In seconds both; what is imported at a first run is in one of them alone.
    assert 0 < durations.sum == pytest.approx(sum(map(seconds, runs)), abs=0.5)
    assert 0 < whole.sum == pytest.approx(seconds(call), abs=0.5)
    assert chunks.sum <= durations.sum <= whole.sum
    assert durations.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agui",
        "gen_ai.agent.name": "shop",
        "server.address": "127.0.0.1",
        "server.port": urlsplit(server.url).port,
    }
    keys = ("gen_ai.provider.name", "gen_ai.response.model", "gen_ai.token.type")
    tokens = {tuple(point.attributes[key] for key in keys): point.sum for point in points[TOKENS]}
    assert tokens == {("p", "small", "input"): 30, ("p", "small", "output"): 7, ("p", "large", "input"): 5}
    assert {point.attributes["gen_ai.tool.name"] for point in points[TOOL_DURATION]} == {"pay", "add"}

    of_runs = [record.__dict__["agui"] for record in caplog.records if record.name == "agui_client.run"]
    [of_call] = [record.__dict__["agui"] for record in caplog.records if record.name == "agui_client.call"]
    for field in ("events", "attempts", "warnings"):
        assert of_call[field] == sum(each[field] for each in of_runs)
    assert [each["attempts"] for each in of_runs] == [1, 1]
    assert sum(each["total_seconds"] for each in of_runs) <= of_call["total_seconds"]
    assert (of_call["runs"], of_call["tool_executions"], of_call["ending"]) == (2, 2, "success")
    assert all(0 < each["first_event_seconds"] <= each["total_seconds"] for each in of_runs)


def names(spans: InMemorySpanExporter) -> set[str]:
    return {span.name for span in spans.get_finished_spans()}


def local_agent(url: str) -> ScriptedAgent:
    return ScriptedAgent(HELLO)


def team(url: str) -> SequentialAgent:
    return SequentialAgent(ScriptedAgent(HELLO, agent_id="one"))


def test_the_money_of_a_call_is_measured_where_it_is_counted(spans: InMemorySpanExporter, measured: Measured) -> None:
    usage = [TokenUsage(model="own", input_tokens=500_000, output_tokens=1), TokenUsage(model="new", output_tokens=1)]
    for prices in ({"own": (3, 0)}, None):
        limits = ToolLimits(prices=prices)
        ScriptedAgent(turn(text("Hi."), usage=usage), agent_id="shop", tool_limits=limits).run_agent_sync("Hi")
    [point] = measured.read()["operation.cost"]
    assert (point.count, point.sum, point.attributes["gen_ai.agent.name"]) == (1, 1.5, "shop")
    calls = [attributes(span) for span in spans.get_finished_spans() if span.name == "invoke_agent shop"]
    assert [each.get("operation.cost") for each in calls] == [1.5, None]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (HttpAgent, "gen_ai.client.invoke_agent.duration"),
        (local_agent, "gen_ai.invoke_agent.duration"),
        (team, "gen_ai.invoke_workflow.duration"),
    ],
    ids=["remote", "local", "team"],
)
def test_the_duration_of_a_call_is_named_for_the_kind_of_its_agent(
    make: Callable[[str], AbstractAgent[Any]], named: str, measured: Measured
) -> None:
    with serve_bytes(sse(HELLO)) as server:
        make(server.url).run_agent_sync("Hi")
    of_calls = {name: [point.count for point in points] for name, points in measured.read().items() if "invoke" in name}
    assert of_calls.pop(named) == [1]
    assert set(of_calls) <= {"gen_ai.invoke_agent.duration"}  # that of the member


def test_histograms_have_limits_for_what_they_measure(measured: Measured) -> None:
    usage = [TokenUsage(provider="p", model="m", input_tokens=10, output_tokens=3)]
    with serve_bytes(sse(turn(text("Hello."), usage=usage))) as server:
        HttpAgent(server.url).run_agent_sync("Hi")
    points = measured.read()
    ends = {name: (points[name][0].explicit_bounds[0], points[name][0].explicit_bounds[-1]) for name in LIMITS}
    assert ends == LIMITS


@every_verb
def test_runs_are_under_way_from_their_start_to_their_end_however_they_end(verb: Verb, measured: Measured) -> None:
    under_way: list[int] = []

    class Counting(Subscriber):
        def on_event(self, event: Event, context: HookContext) -> None:
            under_way.append(sum(point.value for point in measured.read()[ACTIVE]))

    for reply in (sse(HELLO), faults.cut(sse(HELLO), events=3), faults.status(500)):
        with serve_bytes(reply) as server:
            agent = HttpAgent(server.url)
            agent.subscribe(Counting())
            verb(agent, "Hi")
    points = measured.read()
    assert set(under_way) == {1}
    assert [point.value for point in points[ACTIVE]] == [0] * len(points[ACTIVE])
    errors = {point.attributes.get("error.type") for point in points[DURATION]}
    assert errors == {None, "IncompleteRunError", "HTTPStatusError"}
    assert errors == {point.attributes.get("error.type") for point in points[CALL_DURATION]}


_FAILURES: dict[str, Reply] = {
    "HTTPStatusError": faults.status(500),
    "FirstEventTimeoutError": faults.unanswered(end="stall"),
    "IdleTimeoutError": faults.stall(sse(HELLO), events=1, seconds=5),
    "IncompleteRunError": faults.cut(sse(HELLO), events=3),
    "UnexpectedContentTypeError": faults.html_page(),
    "RunFailedError` of a server": faults.late_error(sse(HELLO)),
}
"""Answers of a server that fails, by the exceptions as the page has them."""


@pytest.mark.anyio
@pytest.mark.parametrize("name", [*_FAILURES, "ConnectError", "RunFailedError` of an agent in this process"])
async def test_the_type_of_an_error_is_the_exception_and_callers_get_the_code_that_the_page_has_for_it(
    name: str, measured: Measured, caplog: pytest.LogCaptureFixture
) -> None:
    [code] = [code for about, code in rows("What error.type is") if f"`{name}" in about]

    async def fail(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise ZeroDivisionError

    with serve_bytes(_FAILURES.get(name, faults.status(500))) as server:
        url = "http://127.0.0.1:9/" if name == "ConnectError" else server.url
        agent: Any = HttpAgent(url, timeout=Timeouts(first_event=0.3, idle=0.3) if "Timeout" in name else None)
        app = agent_app(FunctionAgent(fail) if "in this process" in name else agent)
        with pytest.raises(RunFailedError) as failed:
            await HttpAgent("http://app/", app=app).run_agent("Hi")
    errors = [point.attributes.get("error.type") for point in measured.read()[DURATION]]
    assert errors[0] == name.partition("`")[0]
    assert failed.value.code in re.findall(r"`(\w+)`", code)
    assert signs_of("the server behind the agent fails").are_in(caplog.records)


@pytest.mark.anyio
async def test_a_run_that_is_left_is_measured_and_is_not_under_way_any_more(measured: Measured) -> None:
    agent = ScriptedAgent(HELLO)
    async with agent.stream("Hi") as run:
        await anext(run)
        assert [point.value for point in measured.read()[ACTIVE]] == [1]
    points = measured.read()
    assert [point.value for point in points[ACTIVE]] == [0]
    assert [point.count for point in points[DURATION]] == [1]


def test_names_that_the_server_chose_are_cut(measured: Measured) -> None:
    ScriptedAgent(turn(usage=[TokenUsage(model="m" * 1000, input_tokens=1)])).run_agent_sync()
    [point] = measured.read()[TOKENS]
    assert point.attributes["gen_ai.response.model"] == "m" * 100


# --- the current span


@every_verb
def test_middleware_hooks_and_the_agent_run_in_the_span_of_their_run(verb: Verb, spans: InMemorySpanExporter) -> None:
    tracer = trace.get_tracer("application")

    def note(name: str) -> None:
        tracer.start_span(name).end()

    async def answer(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        async for event in ScriptedAgent(HELLO).run(input):
            note("agent")
            yield event

    async def middleware(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        with tracer.start_as_current_span("around"):
            async for event in following(input):
                note("middleware")
                yield event

    class Hooks(Subscriber):
        def on_run_initialized(self, context: HookContext) -> None:
            note("initialized")

        async def on_event(self, event: Event, context: HookContext) -> None:
            await anyio.lowlevel.checkpoint()
            note("hook")

        def on_run_finalized(self, context: HookContext) -> None:
            note("finalized")

    agent = FunctionAgent(answer, middleware=[middleware])
    agent.subscribe(Hooks())
    assert verb(agent, "Hi").error is None
    found = spans.get_finished_spans()
    [run], [around] = [[span for span in found if span.name == name] for name in ("run answer", "around")]
    for name, outer in [
        *((each, run) for each in ("around", "initialized", "hook", "finalized")),
        *((each, around) for each in ("agent", "middleware")),
    ]:
        inner = [span for span in found if span.name == name]
        assert inner
        assert all(is_inside(span, outer) for span in inner), name
    assert trace.get_current_span().get_span_context() == trace.INVALID_SPAN_CONTEXT


@pytest.mark.anyio
async def test_a_hook_that_waits_keeps_its_span_and_the_caller_has_none(spans: InMemorySpanExporter) -> None:
    agent = ScriptedAgent(HELLO)
    seen: set[int] = set()

    @agent.on(TextMessageContentEvent)
    async def wait(event: TextMessageContentEvent) -> None:
        await anyio.lowlevel.checkpoint()
        seen.add(trace.get_current_span().get_span_context().span_id)

    async with agent.stream("Hi") as run:
        async for _ in run:
            assert trace.get_current_span().get_span_context() == trace.INVALID_SPAN_CONTEXT
    [of_run] = [span for span in spans.get_finished_spans() if span.name == "run scripted"]
    assert seen == {of_run.context.span_id if of_run.context else None}


@every_verb
def test_agents_that_are_run_inside_runs_are_in_one_trace(verb: Verb, spans: InMemorySpanExporter) -> None:
    script = ScriptedAgent(turn(tool_call("ask")), HELLO)

    async def outer(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        await ScriptedAgent(HELLO, agent_id="inner").run_agent("Hi")
        async for event in script.run(input):
            yield event

    @tool
    async def ask() -> str:
        """Ask another agent."""
        return (await ScriptedAgent(HELLO, agent_id="asked").run_agent("Hi")).text

    assert verb(FunctionAgent(outer, tools=[ask]), "Hi").error is None
    found = {span.name: span for span in spans.get_finished_spans()}
    above = {"invoke_agent inner": "run outer", "invoke_agent asked": "execute_tool ask"}
    for name, parent in above.items():
        context = found[name].parent
        assert context is not None
        parents = [span for span in spans.get_finished_spans() if span.name == parent]
        assert context.span_id in {span.context.span_id for span in parents if span.context}
    assert len({span.context.trace_id for span in found.values() if span.context}) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_spans_and_runs_end_for_a_task_that_is_cancelled_again_while_it_closes(
    spans: InMemorySpanExporter, measured: Measured
) -> None:
    started, closing = anyio.Event(), anyio.Event()

    async def hold(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        try:
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            started.set()
            await anyio.sleep_forever()
        finally:
            closing.set()
            await anyio.sleep_forever()

    task = asyncio.create_task(FunctionAgent(hold).run_agent("Hi"))
    with anyio.fail_after(10):
        await started.wait()
        task.cancel()
        await closing.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert [span.name for span in spans.get_finished_spans()] == ["run hold", "invoke_agent hold"]
    assert [point.value for point in measured.read()[ACTIVE]] == [0]


# --- without


def test_without_a_provider_and_a_trace_no_span_is_made() -> None:
    assert span_observer() is None
    token = trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=True)))
    with token:
        assert isinstance(span_observer(), SpanObserver)
