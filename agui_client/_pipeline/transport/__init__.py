"""Transport: one POST goes out, the events of its SSE stream come back. Only this package knows httpx and httpx-sse."""

from agui_client._pipeline.transport.client import (
    DEFAULT_MAX_EVENT_BYTES,
    AuthSource,
    ClientSource,
    HeaderSource,
    Request,
    Transport,
)
from agui_client._pipeline.transport.stream import HttpSource, ResponseInfo

__all__ = [
    "DEFAULT_MAX_EVENT_BYTES",
    "AuthSource",
    "ClientSource",
    "HeaderSource",
    "HttpSource",
    "Request",
    "ResponseInfo",
    "Transport",
]
