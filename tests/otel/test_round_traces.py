"""The spans of a call that goes through several rounds: one trace."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agui_client import ToolError, tool
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.telemetry import use_tracer_provider
from support.verbs import Verb, every_verb

SECRET = "s3cr3t"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracer_provider(monkeypatch, provider)
    return exporter


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@tool
def look(at: str) -> str:
    """Look."""
    if at == "nothing":
        raise ToolError(SECRET)
    return SECRET


@every_verb
def test_tools_and_later_rounds_are_in_the_trace_of_the_first_run(verb: Verb, spans: InMemorySpanExporter) -> None:
    script = [turn(tool_call("look", {"at": "map"}), tool_call("look", {"at": "nothing"})), turn(text("Done."))]
    assert verb(ScriptedAgent(*script, tools=[look]), "Hi").error is None
    finished = spans.get_finished_spans()
    assert sorted(span.name for span in finished) == [
        *["execute_tool look"] * 2,
        "invoke_agent scripted",
        *["run scripted"] * 2,
    ]
    assert len({span.context.trace_id for span in finished if span.context}) == 1
    failed = [span for span in finished if "error.type" in attributes(span)]
    assert [attributes(span)["error.type"] for span in failed] == ["ToolError"]
    assert SECRET not in "".join(span.to_json() for span in finished)
