"""Print the spans and the metrics of a call, as a backend would send them to its collector.

    python examples/telemetry.py                               # asks the demo agent, which it starts itself
    python examples/telemetry.py http://localhost:8000/agent   # asks yours

Only `set_up` is about OpenTelemetry: from then on every call has its spans and metrics.
"""

import sys

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agui_client import HttpAgent, tool
from agui_client.demo import demo_agent
from agui_client.testing import serve


@tool
def get_weather(city: str) -> dict[str, object]:
    """Tell the weather in a city."""
    return {"city": city, "celsius": 18, "sky": "clear"}


def set_up() -> tuple[InMemorySpanExporter, InMemoryMetricReader]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    return exporter, reader


def main(url: str) -> None:
    exporter, reader = set_up()
    HttpAgent(url, agent_id="guide", tools=[get_weather]).run_agent_sync("Plan my Saturday in Oslo.")

    def show(parent: int | None, indent: str = "") -> None:
        for span in sorted(exporter.get_finished_spans(), key=lambda each: each.start_time or 0):
            if (span.parent.span_id if span.parent else None) == parent and span.context is not None:
                took = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
                print(f"{indent}{span.name}: {took:.3f} seconds")
                show(span.context.span_id, f"{indent}    ")

    show(None)
    data = reader.get_metrics_data()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
        print(f"{metric.name} in {metric.unit}: {len(list(metric.data.data_points))} series")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        main(sys.argv[1] if len(sys.argv) > 1 else server.url)
