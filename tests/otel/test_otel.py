"""A run's spans are named and nest as OpenTelemetry's conventions have it, reach the server, and hold no content."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from ag_ui.core import RunAgentInput, TokenUsage
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracerProvider,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
)

from agui_client import Deny, FunctionAgent, HttpAgent, Resolve, RetryPolicy, tool
from agui_client._core.ground.concurrency import side_by_side
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.observers import Observers
from agui_client._otel import SpanObserver, trace_headers
from agui_client.asgi import AgentApp, ASGITransport, agent_app
from agui_client.reconnect import LastEventId
from agui_client.store import Store
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import Gate, ScriptedAgent, interrupt, serve_bytes, sse, text, tool_call, turn
from agui_client.types import AgentInfo, Attempt, RunEnd, RunScope, Timings
from support.stores import FOR_ALL
from support.telemetry import spans_in_memory, use_tracer_provider
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any, TypeAlias

    from ag_ui.core import Event
    from opentelemetry.sdk.trace import ReadableSpan

    from agui_client import UnrecognizedEvent

    Use: TypeAlias = Callable[[trace.TracerProvider], None]

SECRET = "s3cr3t"
URL = "https://agent.example/support"
TURN = turn(text("Hello."))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Make a tracer provider the process's own for one test; OpenTelemetry itself lets it be set only once."""
    return partial(use_tracer_provider, monkeypatch)


@pytest.fixture
def exporter(use: Use) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use(provider)
    return exporter


@pytest.fixture
def caller() -> Iterator[SpanContext]:
    """The caller is part of a trace that began in another process, as the handler of a request is."""
    caller = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))
    token = context.attach(baggage.set_baggage("tenant", "blue", trace.set_span_in_context(NonRecordingSpan(caller))))
    yield caller
    context.detach(token)


class Server:
    """A server in this process that notes what it is sent, and which span is the current one then."""

    def __init__(self, usage: list[TokenUsage] | None = None) -> None:
        self.requests: list[httpx.Request] = []
        self.spans: list[SpanContext] = []
        self._frames = sse(turn(text("Hello."), usage=usage))

    def agent(self, url: str = URL, **options: Any) -> HttpAgent:
        """Return an agent there."""
        client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        return HttpAgent(url, http_client=client, thread_id="thread-1", **options)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        self.spans.append(trace.get_current_span().get_span_context())
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._frames)

    def headers(self) -> dict[str, str]:
        """Return the headers of the only request that carry a trace."""
        (request,) = self.requests
        return {name: request.headers[name] for name in ("traceparent", "baggage") if name in request.headers}


def ended(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def span_id(span: ReadableSpan) -> int:
    itself = span.get_span_context()
    assert itself is not None
    return itself.span_id


def trace_id(span: ReadableSpan) -> int:
    itself = span.get_span_context()
    assert itself is not None
    return itself.trace_id


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


# --- runs


def test_a_run_has_the_names_of_agent_server_and_thread_and_its_outcome(exporter: InMemorySpanExporter) -> None:
    server = Server(usage=[TokenUsage(input_tokens=10, output_tokens=3)])
    server.agent(agent_id="support", description="Answers customers.").run_agent_sync(run_id="run-1")
    spans = ended(exporter)
    span = spans["invoke_agent support"]
    assert (span.kind, span.parent, span.status.status_code) == (SpanKind.CLIENT, None, StatusCode.UNSET)
    assert attributes(span) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agui",
        "gen_ai.agent.id": "support",
        "gen_ai.agent.name": "support",
        "gen_ai.agent.description": "Answers customers.",
        "gen_ai.conversation.id": "thread-1",
        "server.address": "agent.example",
        "server.port": 443,
        "agui.run.count": 1,
        "agui.tool_execution.count": 0,
        "agui.outcome": "success",
        "agui.event.count": 5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
    }
    assert attributes(spans["run support"]) == {
        "gen_ai.conversation.id": "thread-1",
        "agui.run.id": "run-1",
        "agui.outcome": "success",
        "agui.event.count": 5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
    }
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "agui_client"


def test_a_run_of_an_agent_without_a_name_in_this_process_has_a_span_of_few_words(
    exporter: InMemorySpanExporter,
) -> None:
    ScriptedAgent(TURN, agent_id="", description="", thread_id="thread-1").run_agent_sync(run_id="run-1")
    run, span = exporter.get_finished_spans()
    assert (run.name, span.name, span.kind) == ("run", "invoke_agent", SpanKind.INTERNAL)
    assert attributes(span) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agui",
        "gen_ai.conversation.id": "thread-1",
        "agui.run.count": 1,
        "agui.tool_execution.count": 0,
        "agui.outcome": "success",
        "agui.event.count": 5,
    }


@pytest.mark.requirement("USAGE-1")
def test_tokens_are_counted_over_all_models_and_stay_absent_where_nobody_counted(
    exporter: InMemorySpanExporter,
) -> None:
    small = TokenUsage(model="small", input_tokens=10, cached_input_tokens=0)
    large = TokenUsage(model="large", input_tokens=5, cached_input_tokens=2, cache_write_input_tokens=1)
    usage = [small, large, TokenUsage(model="large", reasoning_tokens=7)]
    ScriptedAgent(turn(usage=usage)).run_agent_sync()
    for span in exporter.get_finished_spans():
        assert {name: value for name, value in attributes(span).items() if ".usage." in name} == {
            "gen_ai.usage.input_tokens": 15,
            "gen_ai.usage.reasoning.output_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.cache_creation.input_tokens": 1,
        }


def test_a_run_and_a_request_end_once_and_as_they_ended_first(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    observer, run = SpanObserver(), scope()
    observer.on_call_start(run)
    observer.on_start(run)
    observer.on_attempt_start(run, 1, URL)
    for error in (None, ConnectionError("late")):
        observer.on_attempt_end(run, Attempt("first attempt", URL, 0.1, status_code=200), error)
        observer.on_end(run, RunEnd("run-1", "success" if error is None else None, error, 5, [], Timings()))
    assert [span.status.status_code for span in exporter.get_finished_spans()] == [StatusCode.UNSET] * 2
    assert caplog.records == []


def scope() -> RunScope:
    """Return a run of nobody's, for the methods of an observer."""
    run_input = RunAgentInput(thread_id="thread-1", run_id="run-1", messages=[])
    info = AgentInfo("agent-1", None, "", None)
    return RunScope(info, run_input, WarningLog(), observers=Observers([]), owner=None, options={})


def test_an_agent_that_is_run_inside_a_run_is_in_its_span(exporter: InMemorySpanExporter) -> None:
    inner = ScriptedAgent(TURN, agent_id="inner")

    async def outer(input: RunAgentInput) -> AsyncIterator[Event]:
        async with inner.stream("Hi", run_id=input.run_id) as run:
            async for event in run:
                yield event.model_copy(update={"thread_id": input.thread_id}) if "RUN" in event.type else event

    FunctionAgent(outer).run_agent_sync("Hi")
    spans = ended(exporter)
    assert parent_id(spans["invoke_agent inner"]) == span_id(spans["run outer"])
    assert parent_id(spans["run outer"]) == span_id(spans["invoke_agent outer"])


# --- requests


def test_a_request_has_the_address_of_its_server(exporter: InMemorySpanExporter) -> None:
    Server().agent("http://[::1]:8000/agent").run_agent_sync()
    spans = ended(exporter)
    assert (spans["POST"].kind, spans["POST"].status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert parent_id(spans["POST"]) == span_id(spans["run"])
    assert attributes(spans["POST"]) == {
        "http.request.method": "POST",
        "url.full": "http://[::1]:8000/agent",
        "server.address": "::1",
        "server.port": 8000,
        "http.response.status_code": 200,
    }


def test_what_may_be_secret_in_an_address_stays_out_of_every_span(exporter: InMemorySpanExporter) -> None:
    Server().agent(f"http://user:{SECRET}@agent.example/support?token={SECRET}#{SECRET}").run_agent_sync()
    spans = ended(exporter)
    assert attributes(spans["POST"])["url.full"] == "http://agent.example/support"
    assert SECRET not in "".join(span.to_json() for span in spans.values())


CALLS: dict[str, Callable[[HttpAgent], object]] = {
    "asyncio": lambda agent: anyio.run(agent.run_agent),
    "trio": lambda agent: anyio.run(agent.run_agent, backend="trio"),
    "sync": lambda agent: agent.run_agent_sync(),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_call
def test_the_server_gets_the_trace_of_the_request_and_the_callers_baggage(
    call: Callable[[HttpAgent], object], exporter: InMemorySpanExporter, caller: SpanContext
) -> None:
    server = Server()
    call(server.agent())
    request = span_id(ended(exporter)["POST"])
    assert server.headers() == {
        "traceparent": f"00-{caller.trace_id:032x}-{request:016x}-01",
        "baggage": "tenant=blue",
    }


@every_call
def test_a_request_is_the_current_span_while_it_is_sent_and_no_longer(
    call: Callable[[HttpAgent], object], exporter: InMemorySpanExporter
) -> None:
    server = Server()
    call(server.agent())
    assert [span.span_id for span in server.spans] == [span_id(ended(exporter)["POST"])]
    assert trace.get_current_span().get_span_context() == trace.INVALID_SPAN_CONTEXT


def test_two_requests_of_one_run_have_a_span_each(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    is_crowded = anyio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        response = server.answer(request)
        if len(server.requests) > 1:
            is_crowded.set()
        with anyio.fail_after(5):
            await is_crowded.wait()
        return response

    async def both(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        async def drain() -> None:
            client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
            async for _ in HttpAgent(URL, http_client=client).run(input):
                pass

        await side_by_side([drain, drain])
        async for event in ScriptedAgent(TURN).run(input):
            yield event

    anyio.run(FunctionAgent(both).run_agent)
    requests = [span for span in exporter.get_finished_spans() if span.name == "POST"]
    assert sorted(map(span_id, requests)) == sorted(span.span_id for span in server.spans)
    assert {parent_id(span) for span in requests} == {span_id(ended(exporter)["run both"])}
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


def test_a_stream_that_is_taken_up_is_a_request_of_its_run_and_an_event_on_its_span(
    exporter: InMemorySpanExporter,
) -> None:
    frames = [b"id: %d\n%b\n\n" % (number, frame) for number, frame in enumerate(sse(TURN).strip().split(b"\n\n"))]

    def answer(request: httpx.Request) -> httpx.Response:
        content = b"".join(frames[1:] if request.method == "GET" else frames[:1])
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    agent = HttpAgent(URL, http_client=client, retry=RetryPolicy(first_wait=0), reconnect=LastEventId())
    assert agent.run_agent_sync().reconnects == 1
    spans = ended(exporter)
    assert attributes(spans["GET"])["http.request.method"] == "GET"
    assert parent_id(spans["GET"]) == span_id(spans["run"])
    assert [event.name for event in spans["run"].events] == ["agui.reconnect"]


@pytest.mark.anyio
@pytest.mark.parametrize("is_instrumented", [False, True], ids=["alone", "in an instrumented framework"])
async def test_a_served_run_goes_on_with_the_trace_of_its_caller(
    exporter: InMemorySpanExporter, *, is_instrumented: bool
) -> None:
    carried: list[object] = []
    tracer = trace.get_tracer("framework")

    async def run(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        carried.append(baggage.get_baggage("tenant"))
        async for event in ScriptedAgent(TURN).run(input):
            yield event

    served = agent_app(FunctionAgent(run, agent_id="planner"))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with tracer.start_as_current_span("request") if is_instrumented else nullcontext():
            await served(scope, receive, send)

    headers = {"traceparent": f"00-{7:032x}-{8:016x}-01", "tracestate": "a=1", "baggage": "tenant=ann"}
    async with httpx.AsyncClient(transport=ASGITransport(app)) as client:
        await client.post("http://app/", json={"threadId": "t", "runId": "r", "messages": list[str]()}, headers=headers)
    spans = {each.name: each for each in exporter.get_finished_spans()}
    call = spans["invoke_agent planner"]
    assert call.parent is not None
    if is_instrumented:
        assert call.parent == spans["request"].get_span_context()
    else:
        assert (call.parent.trace_id, call.parent.span_id, call.parent.trace_state.get("a")) == (7, 8, "1")
        assert carried == ["ann"]
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.anyio
@pytest.mark.one_loop
async def test_stored_runs_are_in_the_traces_of_their_callers_and_a_take_over_is_a_link(
    exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    turns = turn(interrupt("Proceed?", interrupt_id="i")), turn(text("Done.")), turn(text("One."), Gate())

    def app() -> AgentApp:
        return agent_app(agent, store=Store(f"sqlite:///{tmp_path / 'agents.db'}"), **FOR_ALL)

    agent = ScriptedAgent(*turns, turn(text("Two.")))
    first = app()
    tracer = trace.get_tracer("application")
    with anyio.fail_after(20):
        async with first.lifespan():
            page = HttpAgent("http://app/", app=first, thread_id="t")
            with tracer.start_as_current_span("work"):
                asked = await page.run_agent("Hi")
                await page.run_agent(resume={asked.interrupts[0].id: Resolve(True)})
        spans = exporter.get_finished_spans()
        exporter.clear()
        async with (first := app()).lifespan():
            page = HttpAgent("http://app/", app=first, thread_id="t")
            with tracer.start_as_current_span("more"):
                async with page.stream("Go on", run_id="r") as run:
                    assert await anext(run.text_stream) == "One."
        async with (second := app()).lifespan():
            assert (
                await HttpAgent("http://app/", app=second, thread_id="t").run_agent("Go on", run_id="r")
            ).text == "Two."
    # Both ends of both calls.
    names = Counter(each.name.split()[0] for each in spans)
    assert names == {
        "work": 1,
        "invoke_agent": 4,
        "run": 4,
        "POST": 2,
        "attempt": 2,
    }
    assert len({trace_id(each) for each in spans}) == 1
    by_id = {span_id(each): each for each in spans}
    assert {by_id[parent_id(each) or 0].name for each in spans if each.name == "attempt"} == {"POST"}
    one, two = (each for each in exporter.get_finished_spans() if each.name == "attempt")
    assert (attributes(one)["agui.attempt.number"], attributes(two)["agui.attempt.number"]) == (1, 2)
    assert (trace_id(one), parent_id(one)) == (trace_id(two), parent_id(two))
    assert ([*one.links], [each.context.span_id for each in two.links]) == ([], [span_id(one)])


def test_an_unsampled_run_passes_its_trace_on_as_unsampled(use: Use, caller: SpanContext) -> None:
    use(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    server = Server()
    server.agent().run_agent_sync()
    _, trace_id, _, flags = server.headers()["traceparent"].split("-")
    assert (trace_id, flags) == (f"{caller.trace_id:032x}", "00")


def test_without_a_tracer_the_callers_trace_is_passed_on_as_it_is(use: Use, caller: SpanContext) -> None:
    use(NoOpTracerProvider())
    server = Server()
    server.agent().run_agent_sync()
    assert server.headers() == {
        "traceparent": f"00-{caller.trace_id:032x}-{caller.span_id:016x}-01",
        "baggage": "tenant=blue",
    }


@pytest.mark.usefixtures("caller")
def test_without_a_tracer_tools_run_in_the_callers_trace(use: Use, caller: SpanContext) -> None:
    use(NoOpTracerProvider())
    seen: list[SpanContext] = []

    @tool
    def look() -> None:
        seen.append(trace.get_current_span().get_span_context())

    ScriptedAgent(turn(tool_call("look")), TURN, tools=[look]).run_agent_sync()
    assert seen == [caller]


# --- tools


def test_a_tool_is_named_and_described(exporter: InMemorySpanExporter) -> None:
    @tool
    async def search() -> None:
        """Finds things."""

    ScriptedAgent(turn(tool_call("search", tool_call_id="call-1")), TURN, tools=[search]).run_agent_sync()
    span = ended(exporter)["execute_tool search"]
    assert (span.kind, span.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
    assert attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Finds things.",
    }
    assert trace.get_current_span().get_span_context() == trace.INVALID_SPAN_CONTEXT


def test_a_tool_that_was_denied_has_no_span(exporter: InMemorySpanExporter) -> None:
    @tool(approval="always")
    def send() -> None:
        raise AssertionError

    agent = ScriptedAgent(turn(tool_call("send")), TURN, tools=[send], approve=lambda _: Deny(SECRET))
    agent.run_agent_sync()
    assert [span.name for span in exporter.get_finished_spans()] == ["run scripted"] * 2 + ["invoke_agent scripted"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tools_that_run_at_once_keep_their_spans_apart(backend: str, exporter: InMemorySpanExporter) -> None:
    ready: list[str] = []

    def named(name: str) -> Any:
        @tool(name=name)
        async def execute() -> None:
            ready.append(name)
            await until(lambda: len(ready) == 2)
            trace.get_tracer("application").start_span(f"query of {name}").end()

        return execute

    script = turn(tool_call("a", tool_call_id="1"), tool_call("b", tool_call_id="2"))
    anyio.run(ScriptedAgent(script, TURN, tools=[named("a"), named("b")]).run_agent, backend=backend)
    spans = ended(exporter)
    for name in "ab":
        assert parent_id(spans[f"query of {name}"]) == span_id(spans[f"execute_tool {name}"])


@pytest.mark.anyio
async def test_a_team_is_a_workflow_over_its_members_in_one_trace(exporter: InMemorySpanExporter) -> None:
    desk = SequentialAgent(ScriptedAgent(TURN), agent_id="desk")
    await ParallelAgent(desk, ScriptedAgent(TURN, agent_id="guide"), agent_id="office").run_agent("Hi")
    spans = exporter.get_finished_spans()
    names = {span_id(span): span.name for span in spans}
    calls = {(names.get(parent_id(span) or 0), span.name) for span in spans}
    assert [span.name for span in spans if span.parent is None] == ["invoke_workflow office"]
    assert {call for call in calls if "invoke" in call[1]} == {
        (None, "invoke_workflow office"),
        ("run office", "invoke_workflow desk"),
        ("run desk", "invoke_agent scripted"),
        ("run office", "invoke_agent guide"),
    }


def test_the_headers_that_are_stored_of_a_trace_have_no_baggage() -> None:
    caller = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "1")]))
    outer = context.attach(baggage.set_baggage("user", "ann", trace.set_span_in_context(NonRecordingSpan(caller))))
    try:
        assert trace_headers() == {"traceparent": f"00-{7:032x}-{8:016x}-01", "tracestate": "a=1"}
    finally:
        context.detach(outer)


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_request_of_an_instrumented_http_library_has_one_span(
    is_traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    suppressed: list[tuple[str, bool]] = []

    def note(where: str) -> None:
        suppressed.append((where, bool(context.get_value(context._SUPPRESS_HTTP_INSTRUMENTATION_KEY))))

    class Instrumented(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            note("request")
            return await super().handle_async_request(request)

    def headers() -> dict[str, str]:
        note("headers")  # a request for a token has no other span
        return {}

    if is_traced:
        spans_in_memory(monkeypatch)
    with serve_bytes(sse(turn(text("Hi")))) as server:
        client = partial(httpx.AsyncClient, transport=Instrumented())
        HttpAgent(server.url, headers=headers, http_client=client).run_agent_sync("Hi")
    assert suppressed == [("headers", False), ("request", is_traced)]
