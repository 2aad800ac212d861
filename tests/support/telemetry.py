"""OpenTelemetry in memory, for one test."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    import pytest


def use_tracer_provider(monkeypatch: pytest.MonkeyPatch, provider: trace.TracerProvider) -> None:
    """Make a tracer provider the process's own for one test; OpenTelemetry itself lets it be set only once."""
    monkeypatch.setattr(trace, "get_tracer", partial(trace.get_tracer, tracer_provider=provider))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)


def spans_in_memory(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Keep the spans of one test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracer_provider(monkeypatch, provider)
    return exporter


class Measured:
    """The measurements of one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], shutdown_on_exit=False)
        monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)

    def read(self) -> dict[str, list[Any]]:
        """Return the data points of each metric that was recorded, by name."""
        data = self._reader.get_metrics_data()
        scopes = [scope for each in (data.resource_metrics if data else ()) for scope in each.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


class StoreMetrics:
    """The metrics of stores in one test, each point by its name and its attributes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._measured = Measured(monkeypatch)
        self._last: dict[tuple[str, ...], float] = {}

    def read(self, *key: str) -> float:
        """Return the last value of a metric with an attribute; of durations their number, 0 of none."""
        # A gauge is said once.
        for name, points in self._measured.read().items():
            if name.startswith("agui.store."):
                for each in points:
                    place = (name.removeprefix("agui.store."), *dict(each.attributes).values())
                    self._last[place] = each.count if hasattr(each, "count") else each.value
        return self._last.get(key, 0)
