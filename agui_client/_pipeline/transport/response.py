"""What a response says of itself: whether it is an event stream (SSE-3), and what of it may be shown (SEC-9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

EVENT_STREAM = "text/event-stream"
_REDACTED = "[redacted]"
_SECRET_NAME = re.compile("auth(?!enticate$)|cookie|token|secret|key|session|signature|location")
"""Names of headers that may carry something secret. A challenge does not: it is for whoever has no credentials."""
_SECRET_VALUE = re.compile("[?#@]")
"""Behind or before these an address holds what may be secret: a query, a fragment, a password."""


@dataclass(frozen=True, slots=True)
class ResponseInfo:
    """The HTTP response that carried a run."""

    status_code: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """Response headers, names in lower case; those that may carry secrets read "[redacted]"."""
    http_version: str
    """Such as "HTTP/1.1"."""


def describe(response: httpx.Response) -> ResponseInfo:
    """What a result says about the response."""
    headers = {name: value if _may_be_shown(name, value) else _REDACTED for name, value in response.headers.items()}
    return ResponseInfo(response.status_code, headers, response.http_version)


def headers_to_show(response: httpx.Response) -> dict[str, str]:
    """The headers without those that may carry secrets."""
    return {name: value for name, value in response.headers.items() if _may_be_shown(name, value)}


def media_type_of(response: httpx.Response) -> str:
    """The type of the body, in lower case and without parameters; empty if the response does not say."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


def is_event_stream(response: httpx.Response) -> bool:
    """Whether it is what a run is answered with (SSE-3)."""
    return response.is_success and media_type_of(response) == EVENT_STREAM


def _may_be_shown(name: str, value: str) -> bool:
    return not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
