"""Transport: one POST goes out, the events of its SSE stream come back. Only this package knows httpx and httpx-sse."""

from agui_client._pipeline.transport.client import (
    DEFAULT_MAX_EVENT_BYTES,
    Address,
    AuthSource,
    ClientSource,
    Request,
    Transport,
)
from agui_client._pipeline.transport.credentials import Credentials, HeaderSource, Refresh
from agui_client._pipeline.transport.delivery import Attempt
from agui_client._pipeline.transport.response import ResponseInfo
from agui_client._pipeline.transport.retry import RetryPolicy
from agui_client._pipeline.transport.stream import HttpSource

__all__ = [
    "DEFAULT_MAX_EVENT_BYTES",
    "Address",
    "Attempt",
    "AuthSource",
    "ClientSource",
    "Credentials",
    "HeaderSource",
    "HttpSource",
    "Refresh",
    "Request",
    "ResponseInfo",
    "RetryPolicy",
    "Transport",
]
