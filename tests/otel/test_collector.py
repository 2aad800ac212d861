"""The recipe of docs/otlp.md sends the spans and metrics of a call to a collector, with its header and no content."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agui_client.testing import serve_bytes

_NEEDED = "needs opentelemetry-exporter-otlp-proto-http"
_COLLECTOR = "opentelemetry.proto.collector"
_TRACES: Any = pytest.importorskip(f"{_COLLECTOR}.trace.v1.trace_service_pb2", reason=_NEEDED)
_METRICS: Any = pytest.importorskip(f"{_COLLECTOR}.metrics.v1.metrics_service_pb2", reason=_NEEDED)

_PAGE = Path(__file__).parents[2] / "docs/otlp.md"
_CALL = """
from agui_client import tool
from agui_client.testing import ScriptedAgent, text, tool_call, turn

@tool
def look(where: str) -> str:
    "Look."
    return "a whisper"

set_up()
agent = ScriptedAgent(turn(tool_call("look", {"where": "the harbour"})), turn(text("A secret.")), tools=[look])
assert agent.run_agent_sync("A question").text == "A secret."
"""


def test_a_program_with_the_recipe_of_the_page_is_seen_in_a_collector() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    with serve_bytes(*[b""] * 4) as collector:
        given = {"ENDPOINT": collector.url.rstrip("/"), "HEADERS": "Authorization=Bearer%20t0ken"}
        variables = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in given.items()}
        environment = {**os.environ, **variables, "OTEL_SERVICE_NAME": "support"}
        subprocess.run([sys.executable, "-c", block + _CALL], env=environment, timeout=60, check=True)
        requests = {each.path: each for each in collector.requests}
    assert requests.keys() == {"/v1/traces", "/v1/metrics"}
    assert {each.headers["authorization"] for each in requests.values()} == {"Bearer t0ken"}
    traces = _decoded(_TRACES.ExportTraceServiceRequest, requests["/v1/traces"])
    (resource,) = traces.resource_spans
    assert "support" in [each.value.string_value for each in resource.resource.attributes if each.key == "service.name"]
    names = sorted(span.name for scope in resource.scope_spans for span in scope.spans)
    assert names == ["execute_tool look", "invoke_agent scripted", "run scripted", "run scripted"]
    measured = _decoded(_METRICS.ExportMetricsServiceRequest, requests["/v1/metrics"])
    scopes = [scope for one in measured.resource_metrics for scope in one.scope_metrics]
    metrics = {metric.name for scope in scopes for metric in scope.metrics}
    assert {"gen_ai.client.operation.duration", "gen_ai.execute_tool.duration"} <= metrics
    for said in ("A question", "A secret", "whisper", "harbour", "t0ken"):
        assert said not in str(traces)
        assert said not in str(measured)


def _decoded(kind: Any, request: Any) -> Any:
    """Return the message of a kind, whose classes have no types, that a request has."""
    is_packed = request.headers.get("content-encoding") == "gzip"
    return kind.FromString(gzip.decompress(request.body) if is_packed else request.body)
