"""Spans of runs, HTTP attempts and tool executions; only loaded where the application has imported OpenTelemetry.

Names and attributes are those of OpenTelemetry's conventions for GenAI (gen-ai-agent-spans, gen-ai-spans), HTTP
(http-spans) and errors (recording-errors); `agui.*` is ours. Parents are handed on explicitly: a run's span that stayed
current would be the parent of whatever its caller does between two events, and be left in another context.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from opentelemetry import propagate, trace
from opentelemetry.context import attach, detach, get_current
from opentelemetry.trace import SpanKind, StatusCode

from agui_client._pipeline.tracing import AttemptTrace, RunTrace, ToolTrace

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType
    from typing import Self

    from ag_ui.core import TokenUsage
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

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


def start_run(about: Mapping[str, str], url: str | None, first: RunTrace | None = None) -> RunTrace:
    """Begin the span of a run, below the current one, or below that of the run it goes on from.

    Args:
        about: Attributes that say which agent, conversation and run it is.
        url: Where the agent lives; None for one in this process.
        first: The run that this one goes on from.
    """
    parent = first.context if isinstance(first, _RunSpan) else get_current()
    name = " ".join(("invoke_agent", *filter(None, [about.get("gen_ai.agent.name")])))
    kind = SpanKind.INTERNAL if url is None else SpanKind.CLIENT
    # The protocol hides which provider is behind an agent; the attribute names the family of a span's own attributes.
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "agui", **about, **_server(url)}
    return _RunSpan(_Node(trace.get_tracer("agui_client", _version()), name, parent, kind, attributes))


class _Node:
    """A span, and the context of what nests below it."""

    def __init__(
        self, tracer: Tracer, name: str, parent: Context, kind: SpanKind, attributes: Mapping[str, str | int]
    ) -> None:
        self._tracer = tracer
        self._span = tracer.start_span(name, parent, kind, attributes)
        self._has_failed = False
        # Where there is no SDK, some versions make an empty span, which would hide the trace that came in.
        is_valid = self._span.get_span_context().is_valid
        self.context = trace.set_span_in_context(self._span, parent) if is_valid else parent
        """The parent's context, baggage included, with this span as the current one."""

    @property
    def is_open(self) -> bool:
        """Whether the span is recorded and has not ended: otherwise there is nobody to tell anything."""
        return self._span.is_recording()

    def child(self, name: str, kind: SpanKind, attributes: Mapping[str, str | int]) -> _Node:
        """A span inside this one."""
        return _Node(self._tracer, name, self.context, kind, attributes)

    def add(self, attributes: Mapping[str, str | int]) -> None:
        """Put attributes on the span."""
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        """Say what kind of error it was, without a description: the text may quote what an agent or a user said."""
        if not self._has_failed:
            self._has_failed = True
            self._span.set_attribute("error.type", error_type)
            self._span.set_status(StatusCode.ERROR)

    def end(self) -> None:
        """End the span with what it came to."""
        self._span.end()


class _RunSpan(RunTrace):
    def __init__(self, node: _Node) -> None:
        self._node = node
        self.context = node.context

    def attempt(self, *, number: int, method: str, url: str) -> AttemptTrace:
        """A span for one POST."""
        attributes = {"http.request.method": method, "url.full": _address(url), **_server(url)}
        if number > 1:
            attributes["http.request.resend_count"] = number - 1
        return _AttemptSpan(self._node.child(method, SpanKind.CLIENT, attributes))

    def tool(self, *, name: str, tool_call_id: str, description: str | None = None) -> ToolTrace:
        """A span for one tool."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": tool_call_id,
            "gen_ai.tool.type": "function",
        }
        if description:
            attributes["gen_ai.tool.description"] = description
        return _ToolSpan(self._node.child(f"execute_tool {name}", SpanKind.INTERNAL, attributes))

    def end(
        self, *, outcome: str | None, error: BaseException | None, usage: Sequence[TokenUsage], events: int
    ) -> None:
        """End the span with what it came to."""
        if not self._node.is_open:
            return
        self._node.add({"agui.event.count": events, **_tokens(usage)})
        if outcome is not None:
            self._node.add({"agui.outcome": outcome})
        if error is not None:
            self._node.fail(_error_type(error))
        self._node.end()


class _AttemptSpan(AttemptTrace):
    def __init__(self, node: _Node) -> None:
        self._node = node

    def headers(self) -> dict[str, str]:
        """What carries the trace to the server."""
        headers: dict[str, str] = {}
        propagate.inject(headers, self._node.context)
        return headers

    def current(self) -> AbstractContextManager[None]:
        """Make the span the current one for a while."""
        return _attached(self._node.context)

    def end(self, *, status_code: int | None = None, error: BaseException | None = None) -> None:
        """End the span with what it came to."""
        if not self._node.is_open:
            return
        if status_code is not None:
            self._node.add({"http.response.status_code": status_code})
        if (error_type := _attempt_error(status_code, error)) is not None:
            self._node.fail(error_type)
        self._node.end()


class _ToolSpan(ToolTrace):
    def __init__(self, node: _Node) -> None:
        self._node = node
        self._token: Token[Context] | None = None

    def __enter__(self) -> Self:
        self._token = attach(self._node.context)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            detach(self._token)
        if exc_value is not None:
            self.fail(exc_value)
        self._node.end()

    def fail(self, reason: BaseException | str) -> None:
        """Say what the tool failed with."""
        self._node.fail(reason if isinstance(reason, str) else _error_type(reason))


@contextmanager
def _attached(context: Context) -> Generator[None]:
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def _attempt_error(status_code: int | None, error: BaseException | None) -> str | None:
    """What kind of error an attempt ended with: a status that is one says more than the exception made of it."""
    if status_code is not None and status_code >= _HTTP_ERRORS:
        return str(status_code)
    if error is not None:
        return _error_type(error)
    return "cancelled" if status_code is None else None


def _error_type(error: BaseException) -> str:
    return type(error).__qualname__


def _address(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _server(url: str | None) -> dict[str, str | int]:
    parts = urlsplit(url or "")
    if not parts.hostname:
        return {}
    port = parts.port or _PORTS.get(parts.scheme)
    return {"server.address": parts.hostname} | ({"server.port": port} if port else {})


def _tokens(usage: Sequence[TokenUsage]) -> dict[str, int]:
    """The counts of all providers and models together; what nobody reported stays absent (USAGE-1)."""
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
