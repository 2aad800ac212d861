"""OpenTelemetry spans and metrics of calls, runs, HTTP attempts and tool executions (extra `otel`).

Every call has these observers once the application has imported OpenTelemetry; the package never imports it by itself.
Names and attributes are those of OpenTelemetry's conventions for GenAI (gen-ai-agent-spans, gen-ai-metrics), HTTP
(http-spans) and errors (recording-errors); `agui.*` is ours. Messages, arguments, results, state, and the texts of
errors, which may quote them, never go into a span or a metric.

To change

- a span, a metric or an attribute: this module: `SpanObserver`, `MetricObserver`, and `STORE_METRICS`, which stores
  measure with `measure` of `_core/plugs.py`; docs/observability.md
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.context import attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.trace import Link, ProxyTracerProvider, SpanKind, StatusCode

from agui_client._core.ground.secrets import address_of
from agui_client._core.run.observers import RunObserver
from agui_client._core.run.scope import CURRENT_SCOPE, RunScope
from agui_client._version import __version__

if TYPE_CHECKING:
    from contextvars import Token

    from ag_ui.core import TokenUsage
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider, UpDownCounter

    from agui_client._core.run.observers import CallEnd, RunEnd
    from agui_client._core.run.scope import AgentInfo
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.transport.client import Attempt

_HTTP_ERRORS = 400
_PORTS = {"http": 80, "https": 443}
_TOKEN_COUNTS = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cached_input_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "cache_write_input_tokens",
}
"""Both sides count in totals and parts of them, so that nothing needs adding up."""
_SECONDS = [0.01 * 2**step for step in range(14)]
"""The limits of the buckets of durations, as the conventions have them."""
_CALL_SECONDS = [0.1 * 2**step for step in range(13)]
_TEAM_SECONDS = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200]
_TOKENS = [4**step for step in range(14)]
"""The limits of the buckets of token counts."""
STORE_METRICS = {
    "agui.store.take_overs": ("counter", "{take_over}", "Number of threads and runs taken over from dead processes."),
    "agui.store.lease.missed_renewals": ("counter", "{renewal}", "Number of renewals of the lease that were due."),
    "agui.store.lease.losses": ("counter", "{lease}", "Number of leases that had passed before they were renewed."),
    "agui.store.outages": ("counter", "{outage}", "Number of outages of the database."),
    "agui.store.outage.time": ("counter", "s", "Time without the database."),
    "agui.store.write.duration": ("histogram", "s", "Duration of a write, until it is committed or has failed."),
    "agui.store.queued_runs": ("up_down_counter", "{run}", "Number of runs that wait."),
    "agui.store.size": ("gauge", "By", "Size of the tables in the database."),
}
"""The metrics of stores by their names: the kind of the instrument, the unit, and what is measured."""
_LONGEST_NAME = 100
"""The most characters of the name of a model or provider, which the server chose."""
_FIRST = "first-"
"""The prefix of the headers of a stored trace that are about the first attempt at the run."""
_SUPPRESSED: str = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "suppress_http_instrumentation")
"""The key under which OpenTelemetry's instrumentation of HTTP libraries looks whether to make a span."""
_ATTEMPT = create_key("agui_client.attempt")
"""The key under which a context has the span of the request that its task posts: one run may post several at once."""


def span_observer() -> RunObserver | None:
    """Return an observer that makes spans; None where they would go nowhere, and there is no trace to pass on."""
    is_unset = isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
    return None if is_unset and not get_current() else SpanObserver()


@contextmanager
def _attached(current: Context) -> Generator[None]:
    """Make a context the current one, for a block."""
    token = attach(current)
    try:
        yield
    finally:
        detach(token)


def incoming_trace(headers: Mapping[str, str]) -> AbstractContextManager[None]:
    """Make the trace and the baggage of an incoming request the current ones, for a block.

    Args:
        headers: The headers of the request, with names in lower case.
    """
    # A framework that is instrumented has a span of its own for the request, whose parent is the caller's.
    has_span = trace.get_current_span().get_span_context().is_valid
    return nullcontext() if has_span else _attached(propagate.extract(headers))


def trace_headers() -> dict[str, str]:
    """Return the current trace as headers, to be stored; baggage, which may be about users, is not."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    headers.pop("baggage", None)
    return headers


def without_inner_span() -> AbstractContextManager[None]:
    """Have an HTTP library that is instrumented make no span of its own for a request that has one here."""
    match get_value(_ATTEMPT):
        case (RunScope(), _Span() as span) if span.span.get_span_context().is_valid:
            return _attached(set_value(_SUPPRESSED, True))
        case _:
            return nullcontext()


class StoredAttemptSpan:
    """The span of one attempt at a stored run, in the trace of its caller; that of a later one is linked to the first.

    Args:
        thread_id: The thread of the run.
        number: The number of the attempt.
        stored: The trace that is stored with the run.
    """

    def __init__(self, thread_id: str, run_id: str, number: int, stored: Mapping[str, str]) -> None:
        ids: dict[str, str | int] = {"gen_ai.conversation.id": thread_id, "agui.run.id": run_id}
        first = {key.removeprefix(_FIRST): value for key, value in stored.items() if key.startswith(_FIRST)}
        before = trace.get_current_span(propagate.extract(first)).get_span_context()
        links = [Link(before)] if before.is_valid else []
        about = {**ids, "agui.attempt.number": number}
        self._span = _Span("attempt", propagate.extract(stored), SpanKind.INTERNAL, about, links)

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which the spans of later attempts find this one, as the first one."""
        headers: dict[str, str] = {}
        propagate.inject(headers, self._span.context)
        return {f"{_FIRST}{key}": value for key, value in headers.items() if key != "baggage"}

    def __enter__(self) -> None:
        self._span.enter()

    def __exit__(self, *about: object) -> None:
        self._span.end()


class SpanObserver(RunObserver):
    """Makes the spans of one call: one over all of it, and inside it one for each run, request and tool.

    Between two events, while the caller does other things, none of them is the current one. A run's span is while its
    middleware, hooks and agent are called, a tool's while it is executed, and a request's while it is sent.
    """

    def __init__(self) -> None:
        self._call: _Span | None = None
        self._runs: dict[RunScope, _Span] = {}
        self._tools: dict[tuple[RunScope, str], _Span] = {}

    def on_call_start(self, run: RunScope) -> None:
        """Begin the span of a call, in the current one: inside a run that is the run's, inside a tool the tool's."""
        attributes = {**_about(run), "gen_ai.conversation.id": run.input.thread_id}
        if run.agent.name:
            attributes["gen_ai.agent.id"] = run.agent.name
        if run.agent.description:
            attributes["gen_ai.agent.description"] = run.agent.description
        kind = SpanKind.INTERNAL if run.agent.is_local else SpanKind.CLIENT
        self._call = _Span(_named(_operation(run), run.agent), get_current(), kind, attributes)

    def on_start(self, run: RunScope) -> None:
        """Begin the span of a run."""
        if self._call is not None:
            attributes = {"gen_ai.conversation.id": run.input.thread_id, "agui.run.id": run.input.run_id}
            name = _named("run", run.agent)
            self._runs[run] = _Span(name, self._call.context, SpanKind.INTERNAL, attributes)

    def on_enter(self, run: RunScope) -> Callable[[], None] | None:
        """Make the span of the run the current one; between two runs that of the call."""
        span = self._runs.get(run) or self._call
        return None if span is None else span.inside(keeps_current=CURRENT_SCOPE.get() is run)

    def on_attempt_start(self, run: RunScope, number: int, url: str) -> Mapping[str, str] | None:
        """Begin the span of a request and make it current; return the headers that carry the trace."""
        if (outer := self._runs.get(run)) is None:
            return None
        attributes: dict[str, str | int] = {
            "http.request.method": "POST",
            "url.full": address_of(url),
            **_server(url),
        }
        if number > 1:
            attributes["http.request.resend_count"] = number - 1
        span = _Span("POST", outer.context, SpanKind.CLIENT, attributes)
        span.enter(set_value(_ATTEMPT, (run, span), span.context))
        headers: dict[str, str] = {}
        propagate.inject(headers, span.context)
        return headers

    def on_attempt_end(self, run: RunScope, attempt: Attempt, error: BaseException | None) -> None:
        """End the span of a request."""
        match get_value(_ATTEMPT):
            case (RunScope() as scope, _Span() as span) if scope is run:
                _end_attempt(span, attempt, error)
                if attempt.is_reconnect and error is None and (outer := self._runs.get(run)) is not None:
                    outer.span.add_event("agui.reconnect", {"agui.reconnect.reason": attempt.reason})
            case _:
                pass

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Begin the span of a tool when it runs, and end it when it is done."""
        key = run, execution.tool_call_id
        if execution.status == "running":
            if key not in self._tools:
                self._begin_tool(run, execution)
        elif (span := self._tools.pop(key, None)) is not None:
            if execution.error is not None:
                span.fail(execution.error)
            span.end()

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """End the span of a run."""
        if (span := self._runs.pop(run, None)) is None:
            return
        span.finish(end)

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        """End the span of a call."""
        if self._call is not None:
            counts = {"agui.run.count": end.runs, "agui.tool_execution.count": len(end.tool_executions)}
            self._call.span.set_attributes(counts)
            if end.cost is not None:
                self._call.span.set_attributes({"operation.cost": float(end.cost.dollars)})
            self._call.finish(end)

    def _begin_tool(self, run: RunScope, execution: ToolExecution) -> None:
        attributes = {**_about_tool(execution), "gen_ai.tool.call.id": execution.tool_call_id}
        if execution.description:
            attributes["gen_ai.tool.description"] = execution.description
        parent = get_current() if self._call is None else self._call.context
        span = _Span(f"execute_tool {execution.name}", parent, SpanKind.INTERNAL, attributes)
        self._tools[run, execution.tool_call_id] = span
        span.enter()


def metric_observer() -> RunObserver:
    """Return an observer that measures calls; without a meter provider its measurements cost next to nothing."""
    return MetricObserver(_instruments(metrics.get_meter_provider()))


def measure(name: str, value: float, attributes: Mapping[str, str] | None) -> None:
    """Take a measurement of a store.

    Args:
        name: The name of one of `STORE_METRICS`.
        value: What a counter is increased by; otherwise the measured value.
        attributes: Attributes of few values.
    """
    _instruments(metrics.get_meter_provider()).of_stores[name](value, attributes)


class MetricObserver(RunObserver):
    """Measures one call, its runs and its tools.

    Args:
        instruments: The instruments to record with.
    """

    def __init__(self, instruments: _Instruments) -> None:
        self._instruments = instruments
        self._call_started_at: float | None = None
        self._runs: dict[RunScope, float] = {}

    def on_call_start(self, run: RunScope) -> None:
        """Note the time."""
        self._call_started_at = perf_counter()

    def on_start(self, run: RunScope) -> None:
        """Count a run more that is under way."""
        self._runs[run] = perf_counter()
        self._instruments.active_runs.add(1, _about(run))

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Record the time that a run took, until its first event, and its tokens; count a run less."""
        if (started_at := self._runs.pop(run, None)) is None:
            return
        made, about = self._instruments, _about(run)
        made.active_runs.add(-1, about)
        made.duration.record(perf_counter() - started_at, {**about, **_error(end)})
        if end.timings.first_event is not None:
            made.first_event.record(end.timings.first_event, about)
        if end.timings.first_text is not None:
            made.first_text.record(end.timings.first_text, about)
        for usage in end.usage:
            of_model = {**about, **_model(usage)}
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count is not None:
                    made.tokens.record(count, {**of_model, "gen_ai.token.type": kind})

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Record the time that a tool took."""
        if execution.seconds is not None:
            error = {} if execution.error is None else {"error.type": execution.error}
            self._instruments.tool_duration.record(execution.seconds, {**_about_tool(execution), **error})

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        """Record the time that a call took."""
        if self._call_started_at is not None:
            seconds = perf_counter() - self._call_started_at
            made, agent = self._instruments, run.agent
            local = made.team_duration if agent.is_team else made.local_duration
            duration = local if agent.is_local else made.remote_duration
            duration.record(seconds, {**_about(run), **_error(end)})
            if end.cost is not None:
                made.cost.record(float(end.cost.dollars), _about(run))


class _Instruments:
    """The instruments of one meter provider."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter("agui_client", __version__)

        def seconds(name: str, description: str, limits: Sequence[float] = _SECONDS) -> Histogram:
            """Make a histogram of durations."""
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=limits)

        self.duration: Histogram = seconds("gen_ai.client.operation.duration", "Duration of a run.")
        # The conventions tell remote agents from those of this process, as the kinds of their spans do, and from teams.
        what = "Duration of a call, tools and people included."
        self.remote_duration: Histogram = seconds("gen_ai.client.invoke_agent.duration", what, _CALL_SECONDS)
        self.local_duration: Histogram = seconds("gen_ai.invoke_agent.duration", what, _CALL_SECONDS)
        self.team_duration: Histogram = seconds("gen_ai.invoke_workflow.duration", what, _TEAM_SECONDS)
        self.tool_duration: Histogram = seconds("gen_ai.execute_tool.duration", "Duration of a tool execution.")
        self.first_event: Histogram = seconds(
            "gen_ai.client.operation.time_to_first_chunk", "Time to the first event of a run."
        )
        self.first_text: Histogram = seconds(
            "agui.client.run.time_to_first_text", "Time to the first piece of text of a run."
        )
        self.tokens: Histogram = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used by a run.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        # The name under which pydantic-ai measures money and Logfire shows it: the conventions have none.
        self.cost: Histogram = meter.create_histogram(
            "operation.cost", "{USD}", "Price of the tokens of a call whose money is counted."
        )
        self.active_runs: UpDownCounter = meter.create_up_down_counter(
            "agui.client.active_runs", "{run}", "Number of runs under way."
        )
        makers: dict[str, Callable[..., Callable[[float, Mapping[str, str] | None], None]]] = {
            "counter": lambda *about: meter.create_counter(*about).add,
            "up_down_counter": lambda *about: meter.create_up_down_counter(*about).add,
            "gauge": lambda *about: meter.create_gauge(*about).set,
            "histogram": lambda *about: seconds(about[0], about[2]).record,
        }
        self.of_stores: dict[str, Callable[[float, Mapping[str, str] | None], None]] = {
            name: makers[kind](name, unit, what) for name, (kind, unit, what) in STORE_METRICS.items()
        }


@lru_cache(maxsize=1)
def _instruments(provider: MeterProvider) -> _Instruments:
    return _Instruments(provider)


def _about(run: RunScope) -> dict[str, str | int]:
    """Return the attributes of few values that spans and metrics share."""
    # The protocol hides which provider is behind an agent; the attribute names the family of the attributes.
    agent = run.agent
    about: dict[str, str | int] = {"gen_ai.operation.name": _operation(run), "gen_ai.provider.name": "agui"}
    if agent.name:
        about["gen_ai.agent.name"] = agent.name
    return {**about, **_server(agent.url)}


def _operation(run: RunScope) -> str:
    # A thread that is sent again is no work of the agent: its durations would hide those of runs.
    return "connect" if run.is_replay else "invoke_workflow" if run.agent.is_team else "invoke_agent"


def _about_tool(execution: ToolExecution) -> dict[str, str]:
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
    return {**names, "gen_ai.tool.name": execution.name}


def _named(operation: str, agent: AgentInfo) -> str:
    return " ".join(filter(None, [operation, agent.name]))


def _error(end: RunEnd) -> dict[str, str]:
    return {} if end.error is None else {"error.type": type(end.error).__qualname__}


def _model(usage: TokenUsage) -> dict[str, str]:
    """Return the model and the provider, as far as the agent reported them."""
    named = {"gen_ai.provider.name": usage.provider, "gen_ai.response.model": usage.model}
    return {key: name[:_LONGEST_NAME] for key, name in named.items() if name}


class _Span:
    """A span, and the context for what nests in it."""

    def __init__(
        self,
        name: str,
        parent: Context,
        kind: SpanKind,
        attributes: Mapping[str, str | int],
        links: Sequence[Link] = (),
    ) -> None:
        self.span = trace.get_tracer("agui_client", __version__).start_span(name, parent, kind, attributes, links)
        """The span itself."""
        # Where there is no SDK, some versions make an empty span, which would hide the trace that came in.
        is_valid = self.span.get_span_context().is_valid
        self.context = trace.set_span_in_context(self.span, parent) if is_valid else parent
        """The parent's context, baggage included, with this span as the current one."""
        self._token: Token[Context] | None = None
        self._entered = self.context

    def enter(self, context: Context | None = None) -> None:
        """Make the span the current one of this task, until it ends."""
        self._token = attach(context or self.context)

    def inside(self, *, keeps_current: bool) -> Callable[[], None]:
        """Make the span the current one for a step of the application's code; return the function that ends that.

        Args:
            keeps_current: Whether the span that is current at the end of the step is so again in the next such step,
                as for middleware that yields inside a `with tracer.start_as_current_span(...)`.
        """
        token = attach(self._entered if keeps_current else self.context)

        def leave() -> None:
            """Go back."""
            if keeps_current:
                self._entered = get_current()
            detach(token)

        return leave

    def fail(self, error_type: str) -> None:
        """Set the kind of error, without a description: its text may quote what an agent or a user wrote."""
        self.span.set_attribute("error.type", error_type)
        self.span.set_status(StatusCode.ERROR)

    def finish(self, end: RunEnd) -> None:
        """End the span of a run or call with its numbers and its ending."""
        self.span.set_attributes({"agui.event.count": end.events, **_tokens(end.usage)})
        if end.ending is not None:
            self.span.set_attributes({"agui.outcome": end.ending})
        if end.error is not None:
            self.fail(type(end.error).__qualname__)
        self.end()

    def end(self) -> None:
        """End the span."""
        if self._token is not None:
            detach(self._token)
        self.span.end()


def _end_attempt(span: _Span, attempt: Attempt, error: BaseException | None) -> None:
    if attempt.method != "POST":
        span.span.update_name(attempt.method)
        span.span.set_attributes({"http.request.method": attempt.method})
    if attempt.status_code is not None:
        span.span.set_attributes({"http.response.status_code": attempt.status_code})
    if attempt.status_code is not None and attempt.status_code >= _HTTP_ERRORS:
        # The status says more than the exception that was made of it.
        span.fail(str(attempt.status_code))
    elif error is not None:
        span.fail(type(error).__qualname__)
    elif attempt.status_code is None:
        span.fail("cancelled")
    span.end()


def _server(url: str | None) -> dict[str, str | int]:
    parts = urlsplit(url or "")
    if not parts.hostname:
        return {}
    port = parts.port or _PORTS.get(parts.scheme)
    return {"server.address": parts.hostname} | ({"server.port": port} if port else {})


def _tokens(usage: Sequence[TokenUsage]) -> dict[str, int]:
    """Return the counts of all providers and models together; a count that nobody reported is absent (USAGE-1)."""
    totals: dict[str, int] = {}
    for attribute, field in _TOKEN_COUNTS.items():
        counts: list[int] = [count for each in usage if (count := getattr(each, field)) is not None]
        if counts:
            totals[attribute] = sum(counts)
    return totals
