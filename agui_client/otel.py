"""OpenTelemetry spans of runs, HTTP attempts and tool executions (extra `otel`).

Every call has this observer once the application has imported OpenTelemetry; the package never imports it by itself.
Names and attributes are those of OpenTelemetry's conventions for GenAI (gen-ai-agent-spans, gen-ai-spans), HTTP
(http-spans) and errors (recording-errors); `agui.*` is ours. Messages, arguments, results, state, and the texts of
errors, which may quote them, never go into a span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from opentelemetry import propagate, trace
from opentelemetry.context import attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.trace import SpanKind, StatusCode

from agui_client._run.observers import RunObserver
from agui_client._run.scope import RunScope

if TYPE_CHECKING:
    from contextvars import Token

    from ag_ui.core import TokenUsage
    from opentelemetry.context import Context

    from agui_client._run.observers import RunEnd
    from agui_client._tools.context import ToolExecution
    from agui_client._transport.client import Attempt

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
_CONTEXTS: WeakKeyDictionary[RunScope, Context] = WeakKeyDictionary()
"""The context with a run's span in it, for runs that nest in it."""
_ATTEMPT = create_key("agui_client.attempt")
"""The key under which a context has the span of the request that its task posts: one run may post several at once."""


class SpanObserver(RunObserver):
    """Makes the spans of one call.

    A run's span is never the current one: between two events its caller does other things. The span of a request or a
    tool is, as long as it lasts.
    """

    def __init__(self) -> None:
        self._runs: dict[RunScope, _Span] = {}
        self._tools: dict[tuple[RunScope, str], _Span] = {}

    def on_start(self, run: RunScope) -> None:
        """Begin the span of a run: in that of the call's first run, of the run that made the call, or the current."""
        outer = run.first or run.parent
        parent = _CONTEXTS.get(outer, get_current()) if outer is not None else get_current()
        agent = run.agent
        about = {
            "gen_ai.operation.name": "invoke_agent",
            # The protocol hides which provider is behind an agent; the attribute names the family of the attributes.
            "gen_ai.provider.name": "agui",
            "gen_ai.agent.id": agent.name,
            "gen_ai.agent.name": agent.name,
            "gen_ai.agent.description": agent.description,
            "gen_ai.conversation.id": run.input.thread_id,
            "agui.run.id": run.input.run_id,
        }
        attributes = {key: value for key, value in about.items() if value}
        kind = SpanKind.INTERNAL if agent.url is None else SpanKind.CLIENT
        name = " ".join(("invoke_agent", *filter(None, [agent.name])))
        span = _Span(name, parent, kind, {**attributes, **_server(agent.url)})
        self._runs[run] = span
        _CONTEXTS[run] = span.context

    def on_attempt_start(self, run: RunScope, number: int, url: str) -> Mapping[str, str] | None:
        """Begin the span of a request and make it current; return the headers that carry the trace."""
        if (outer := self._runs.get(run)) is None:
            return None
        attributes: dict[str, str | int] = {
            "http.request.method": "POST",
            "url.full": _without_secrets(url),
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
        # Kept in _CONTEXTS: tools are executed after their run has ended, and nest in its span.
        span.add({"agui.event.count": end.events, **_tokens(end.usage)})
        if end.ending is not None:
            span.add({"agui.outcome": end.ending})
        if end.error is not None:
            span.fail(type(end.error).__qualname__)
        span.end()

    def _begin_tool(self, run: RunScope, execution: ToolExecution) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": execution.name,
            "gen_ai.tool.call.id": execution.tool_call_id,
            "gen_ai.tool.type": "function",
        }
        if execution.description:
            attributes["gen_ai.tool.description"] = execution.description
        parent = _CONTEXTS.get(run, get_current())
        span = _Span(f"execute_tool {execution.name}", parent, SpanKind.INTERNAL, attributes)
        self._tools[run, execution.tool_call_id] = span
        span.enter()


class _Span:
    """A span, and the context for what nests in it."""

    def __init__(self, name: str, parent: Context, kind: SpanKind, attributes: Mapping[str, str | int]) -> None:
        self._span = trace.get_tracer("agui_client", _version()).start_span(name, parent, kind, attributes)
        # Where there is no SDK, some versions make an empty span, which would hide the trace that came in.
        is_valid = self._span.get_span_context().is_valid
        self.context = trace.set_span_in_context(self._span, parent) if is_valid else parent
        """The parent's context, baggage included, with this span as the current one."""
        self._token: Token[Context] | None = None

    def enter(self, context: Context | None = None) -> None:
        """Make the span the current one of this task, until it ends."""
        self._token = attach(context or self.context)

    def add(self, attributes: Mapping[str, str | int]) -> None:
        """Put attributes on the span."""
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        """Set the kind of error, without a description: its text may quote what an agent or a user wrote."""
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(StatusCode.ERROR)

    def end(self) -> None:
        """End the span."""
        if self._token is not None:
            detach(self._token)
        self._span.end()


def _end_attempt(span: _Span, attempt: Attempt, error: BaseException | None) -> None:
    if attempt.status_code is not None:
        span.add({"http.response.status_code": attempt.status_code})
    if attempt.status_code is not None and attempt.status_code >= _HTTP_ERRORS:
        # The status says more than the exception that was made of it.
        span.fail(str(attempt.status_code))
    elif error is not None:
        span.fail(type(error).__qualname__)
    elif attempt.status_code is None:
        span.fail("cancelled")
    span.end()


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


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


@cache
def _version() -> str | None:
    try:
        return version("agui-client")
    except PackageNotFoundError:
        return None
