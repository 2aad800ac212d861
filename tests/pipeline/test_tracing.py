"""A run's spans are named and nest as OpenTelemetry's conventions have it, reach the server, and hold no content."""

from __future__ import annotations

import contextvars
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import RunErrorEvent, TokenUsage
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, NoOpTracerProvider, SpanContext, SpanKind, StatusCode, TraceFlags

from agui_client import ConnectError, HTTPStatusError, RunFailedError
from agui_client._pipeline.tracing import RunTrace, trace_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from opentelemetry.sdk.trace import ReadableSpan

    Use: TypeAlias = Callable[[trace.TracerProvider], None]

SECRET = "s3cr3t"
URL = "https://agent.example/support"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Make a tracer provider the process's own for one test; OpenTelemetry itself lets it be set only once."""
    get_tracer = trace.get_tracer
    return lambda provider: monkeypatch.setattr(trace, "get_tracer", partial(get_tracer, tracer_provider=provider))


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


def begin(**more: Any) -> RunTrace:
    return trace_run(thread_id="thread-1", run_id="run-1", agent_id="agent-1", **more)


def finish(run: RunTrace, *, error: BaseException | None = None, usage: tuple[TokenUsage, ...] = ()) -> None:
    run.end(outcome=None if error else "success", error=error, usage=usage, events=5)


def ended(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def span_id(span: ReadableSpan) -> int:
    itself = span.get_span_context()
    assert itself is not None
    return itself.span_id


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def test_a_run_says_who_was_asked_and_what_it_came_to(exporter: InMemorySpanExporter) -> None:
    run = begin(agent_name="support", description="Answers customers.", url=URL)
    finish(run, usage=(TokenUsage(input_tokens=10, output_tokens=3),))
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind, span.parent) == ("invoke_agent support", SpanKind.CLIENT, None)
    assert attributes(span) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agui",
        "gen_ai.agent.id": "agent-1",
        "gen_ai.agent.name": "support",
        "gen_ai.agent.description": "Answers customers.",
        "gen_ai.conversation.id": "thread-1",
        "server.address": "agent.example",
        "server.port": 443,
        "agui.run.id": "run-1",
        "agui.outcome": "success",
        "agui.event.count": 5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "agui_client"


def test_a_run_in_this_process_by_an_agent_nobody_named_has_a_span_of_few_words(exporter: InMemorySpanExporter) -> None:
    finish(begin())
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("invoke_agent", SpanKind.INTERNAL)
    assert attributes(span) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agui",
        "gen_ai.conversation.id": "thread-1",
        "agui.run.id": "run-1",
        "agui.outcome": "success",
        "agui.event.count": 5,
    }


@pytest.mark.requirement("USAGE-1")
def test_tokens_are_counted_over_all_models_and_stay_absent_where_nobody_counted(
    exporter: InMemorySpanExporter,
) -> None:
    small = TokenUsage(model="small", input_tokens=10, cached_input_tokens=0)
    large = TokenUsage(model="large", input_tokens=5, cached_input_tokens=2, cache_write_input_tokens=1)
    finish(begin(), usage=(small, large, TokenUsage(model="large", reasoning_tokens=7)))
    (span,) = exporter.get_finished_spans()
    assert {name: value for name, value in attributes(span).items() if ".usage." in name} == {
        "gen_ai.usage.input_tokens": 15,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.cache_creation.input_tokens": 1,
    }


def test_a_failed_run_says_what_kind_of_error_it_was_and_not_a_word_of_its_text(
    exporter: InMemorySpanExporter,
) -> None:
    event = RunErrorEvent(message=SECRET, code=SECRET)
    for error in (RunFailedError(event), ConnectError(SECRET), KeyboardInterrupt(SECRET)):
        finish(begin(), error=error)
    told = [(attributes(span)["error.type"], span.status.status_code) for span in exporter.get_finished_spans()]
    assert told == [(name, StatusCode.ERROR) for name in ("RunFailedError", "ConnectError", "KeyboardInterrupt")]
    assert not any(span.status.description for span in exporter.get_finished_spans())
    assert not any("agui.outcome" in attributes(span) for span in exporter.get_finished_spans())
    assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_a_run_ends_once_and_as_it_ended_first(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin()
    attempt = run.attempt(number=1, method="POST", url=URL)
    for _ in range(2):
        attempt.end(status_code=200)
        finish(run)
    attempt.end(error=ConnectError("late"))
    finish(run, error=ConnectError("late"))
    assert [span.status.status_code for span in exporter.get_finished_spans()] == [StatusCode.UNSET] * 2
    assert caplog.records == []


def test_a_run_is_below_the_span_it_was_started_in_and_is_not_the_current_one_itself(
    exporter: InMemorySpanExporter, caller: SpanContext
) -> None:
    run = begin()
    assert trace.get_current_span().get_span_context() == caller
    finish(run)
    (span,) = exporter.get_finished_spans()
    assert span.parent == caller


def test_an_attempt_is_an_http_request_below_its_run(exporter: InMemorySpanExporter) -> None:
    run = begin()
    run.attempt(number=1, method="POST", url="http://[::1]:8000/agent").end(status_code=200)
    finish(run)
    spans = ended(exporter)
    assert (spans["POST"].kind, spans["POST"].status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert parent_id(spans["POST"]) == span_id(spans["invoke_agent"])
    assert attributes(spans["POST"]) == {
        "http.request.method": "POST",
        "url.full": "http://[::1]:8000/agent",
        "server.address": "::1",
        "server.port": 8000,
        "http.response.status_code": 200,
    }


def test_what_may_be_secret_in_an_address_stays_out_of_every_span(exporter: InMemorySpanExporter) -> None:
    url = f"http://user:{SECRET}@agent.example/support?token={SECRET}#{SECRET}"
    run = begin(url=url)
    run.attempt(number=1, method="POST", url=url).end(status_code=200)
    finish(run)
    assert attributes(ended(exporter)["POST"])["url.full"] == "http://agent.example/support"
    assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_a_second_attempt_is_counted_as_one_resend(exporter: InMemorySpanExporter) -> None:
    run = begin()
    run.attempt(number=1, method="POST", url=URL).end(status_code=503)
    run.attempt(number=2, method="POST", url=URL).end(status_code=200)
    first, second = exporter.get_finished_spans()
    assert "http.request.resend_count" not in attributes(first)
    assert attributes(second)["http.request.resend_count"] == 1


@pytest.mark.parametrize(
    ("status_code", "error", "error_type"),
    [
        (503, None, "503"),
        (503, HTTPStatusError("503", status_code=503, body=SECRET, headers={}), "503"),
        (302, HTTPStatusError("302", status_code=302, body=SECRET, headers={}), "HTTPStatusError"),
        (None, ConnectError(SECRET), "ConnectError"),
        (None, None, "cancelled"),
    ],
)
def test_a_failed_attempt_says_what_kind_of_error_it_was(
    exporter: InMemorySpanExporter, status_code: int | None, error: Exception | None, error_type: str
) -> None:
    begin().attempt(number=1, method="POST", url=URL).end(status_code=status_code, error=error)
    (span,) = exporter.get_finished_spans()
    assert (attributes(span)["error.type"], span.status.status_code) == (error_type, StatusCode.ERROR)
    assert attributes(span).get("http.response.status_code") == status_code
    assert SECRET not in span.to_json()


def test_the_server_is_told_the_attempt_and_the_callers_baggage_wherever_the_run_goes_on(
    exporter: InMemorySpanExporter, caller: SpanContext
) -> None:
    run = begin()
    attempt = contextvars.Context().run(lambda: run.attempt(number=1, method="POST", url=URL))
    headers = contextvars.Context().run(attempt.headers)
    attempt.end(status_code=200)
    (span,) = exporter.get_finished_spans()
    assert headers == {
        "traceparent": f"00-{caller.trace_id:032x}-{span_id(span):016x}-01",
        "baggage": "tenant=blue",
    }


@pytest.mark.usefixtures("exporter")
def test_an_attempt_is_current_while_it_is_sent_and_no_longer() -> None:
    attempt = begin().attempt(number=1, method="POST", url=URL)
    with attempt.current():
        current = trace.get_current_span().get_span_context()
    assert attempt.headers()["traceparent"].split("-")[2] == f"{current.span_id:016x}"
    assert trace.get_current_span().get_span_context() == trace.INVALID_SPAN_CONTEXT


def test_an_unsampled_run_passes_its_trace_on_as_unsampled(use: Use, caller: SpanContext) -> None:
    use(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    headers = begin().attempt(number=1, method="POST", url=URL).headers()
    _, trace_id, _, flags = headers["traceparent"].split("-")
    assert (trace_id, flags) == (f"{caller.trace_id:032x}", "00")


def test_without_a_tracer_the_callers_trace_is_passed_on_as_it_is(use: Use, caller: SpanContext) -> None:
    use(NoOpTracerProvider())
    run = begin()
    with run.tool(name="search", tool_call_id="call-1"):
        headers = run.attempt(number=1, method="POST", url=URL).headers()
    finish(run)
    assert headers == {
        "traceparent": f"00-{caller.trace_id:032x}-{caller.span_id:016x}-01",
        "baggage": "tenant=blue",
    }


def test_a_tool_is_executed_below_its_run_and_what_it_does_below_itself(exporter: InMemorySpanExporter) -> None:
    run = begin()
    with run.tool(name="search", tool_call_id="call-1", description="Finds things."):
        trace.get_tracer("application").start_span("query").end()
    finish(run)
    spans = ended(exporter)
    tool = spans["execute_tool search"]
    assert (tool.kind, tool.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
    assert attributes(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Finds things.",
    }
    assert parent_id(tool) == span_id(spans["invoke_agent"])
    assert parent_id(spans["query"]) == span_id(tool)
    assert trace.get_current_span().get_span_context() == trace.INVALID_SPAN_CONTEXT


def test_a_tool_failed_with_what_was_said_first_or_left_its_block(
    exporter: InMemorySpanExporter,
) -> None:
    run = begin()
    with pytest.raises(KeyError), run.tool(name="a", tool_call_id="1"):
        raise KeyError(SECRET)
    with run.tool(name="b", tool_call_id="2") as tool:
        tool.fail("timeout")
        tool.fail(ValueError(SECRET))
    with run.tool(name="c", tool_call_id="3") as tool:
        tool.fail(ValueError(SECRET))
    told = [(attributes(span)["error.type"], span.status.status_code) for span in exporter.get_finished_spans()]
    assert told == [(error_type, StatusCode.ERROR) for error_type in ("KeyError", "timeout", "ValueError")]
    assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())


@pytest.mark.anyio
async def test_tools_that_run_at_once_keep_their_spans_apart(exporter: InMemorySpanExporter) -> None:
    run = begin()
    both = anyio.Event()

    async def execute(name: str, *, is_last: bool) -> None:
        with run.tool(name=name, tool_call_id=name):
            if is_last:
                both.set()
            await both.wait()
            trace.get_tracer("application").start_span(f"query of {name}").end()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(execute, "a", is_last=False))
            tasks.start_soon(partial(execute, "b", is_last=True))
    finish(run)
    spans = ended(exporter)
    for name in "ab":
        assert parent_id(spans[f"query of {name}"]) == span_id(spans[f"execute_tool {name}"])
        assert parent_id(spans[f"execute_tool {name}"]) == span_id(spans["invoke_agent"])


@pytest.mark.anyio
async def test_a_cancelled_tool_ends_with_its_task(exporter: InMemorySpanExporter) -> None:
    with anyio.CancelScope() as scope, begin().tool(name="search", tool_call_id="call-1"):
        scope.cancel()
        await anyio.sleep_forever()
    (span,) = exporter.get_finished_spans()
    assert (attributes(span)["error.type"], span.status.status_code) == (
        anyio.get_cancelled_exc_class().__qualname__,
        StatusCode.ERROR,
    )


def test_where_the_application_has_not_imported_opentelemetry_nothing_is_told(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    run = begin(url=URL)
    assert run is begin()
    attempt = run.attempt(number=1, method="POST", url=URL)
    with attempt.current(), run.tool(name="search", tool_call_id="call-1") as tool:
        assert attempt.headers() == {}
        tool.fail("denied")
    attempt.end(status_code=200)
    finish(run)
    assert exporter.get_finished_spans() == ()
    assert "opentelemetry.trace" not in sys.modules
