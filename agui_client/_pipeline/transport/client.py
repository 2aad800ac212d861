"""Reaching an agent: its address, the client and its connections, what a POST carries (SSE-2, PB-2)."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from typing import TypeAlias

import anyio.lowlevel
import httpx

from agui_client._pipeline.limits import Timeouts
from agui_client._pipeline.tracing import RunTrace
from agui_client._pipeline.transport.auth import streaming
from agui_client._pipeline.transport.credentials import Credentials, Headers
from agui_client._pipeline.transport.response import EVENT_STREAM
from agui_client._pipeline.transport.retry import RetryPolicy
from agui_client._pipeline.transport.unpack import ACCEPTED
from agui_client.errors import UsageError

DEFAULT_MAX_EVENT_BYTES = 10 * 1024 * 1024
_PORTS = 65536

ClientSource: TypeAlias = httpx.AsyncClient | Callable[[], httpx.AsyncClient]
"""An HTTP client, or a function that makes one for each run."""
Address: TypeAlias = httpx.URL
"""An address that was checked."""
AuthSource: TypeAlias = httpx.Auth | tuple[str, str]
"""Any `httpx.Auth`, or (user, password) for HTTP basic."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one run sends; nothing of it is shown that may be secret (SEC-9)."""

    body: bytes = field(repr=False)
    """The `RunAgentInput` as JSON."""
    url: Address | None = field(default=None, repr=False)
    """Where to post it; None for the agent's address."""
    may_find_nothing: bool = False
    """Whether 204 No Content is an answer: there is nothing to tell."""
    headers: Headers | None = field(default=None, repr=False)
    """Headers for this run, which stand over the agent's."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long to wait."""
    trace: RunTrace = field(default_factory=RunTrace)
    """The run's span, in which those of its attempts nest."""


class Transport:
    """Where an agent lives and how to reach it.

    Without a client of the caller's, each run has one of its own: nothing is left open between runs, no cookie is
    carried over, and the agent works in any event loop. `keep_client()` trades that for kept connections.

    Args:
        url: The agent's address.
        auth: Any `httpx.Auth` or (user, password).
        credentials: The headers of each attempt.
        retry: What is tried again.
        http_client: A client to use instead, or a function that makes one for each run.
        max_event_bytes: The largest frame that is accepted, in bytes.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: AuthSource | None = None,
        credentials: Credentials | None = None,
        retry: RetryPolicy | None = None,
        http_client: ClientSource | None = None,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        self.url = _checked(url)
        """The agent's address, a user and password included."""
        self.credentials = credentials or Credentials(None)
        """The headers of each attempt."""
        self.retry = retry or RetryPolicy()
        """What is tried again."""
        self.max_event_bytes = max_event_bytes
        """The largest frame that is accepted, in bytes."""
        self._auth = _auth_of(auth)
        self._given = http_client
        self._kept: httpx.AsyncClient | None = None
        self._kept_in: object = None
        self._keepers = 0

    @property
    def address(self) -> str:
        """The URL without what may be secret in it: user, password, query."""
        return address_of(self.url)

    def resolve(self, address: str) -> Address:
        """Another address of the agent's: absolute, or relative to the agent's own.

        Raises:
            UsageError: It cannot be read.
        """
        return _checked(str(self.url.join(_checked_reference(address))))

    async def send(
        self, client: httpx.AsyncClient, url: httpx.URL, headers: httpx.Headers, request: Request
    ) -> httpx.Response:
        """Send the POST and return as soon as the response's headers are there (SSE-2, PB-2)."""
        limits = request.timeouts
        # Reads are timed one by one by the `Clock`, where a first event, an idle stream and a total can be told apart.
        timeout = httpx.Timeout(connect=limits.connect, write=limits.write, pool=limits.pool, read=None)
        headers.update({"accept": EVENT_STREAM, "accept-encoding": ACCEPTED, "cache-control": "no-store"})
        headers["content-type"] = "application/json"
        # Credentials in the address would be in httpx's log lines, too.
        bare = url.copy_with(username=None, password=None)
        post = client.build_request("POST", bare, content=request.body, headers=headers, timeout=timeout)
        post.stream = _Body(request.body)
        # A redirect would turn the POST into a GET, or carry the caller's headers to another origin: see `Delivery`.
        auth = self._auth or _auth_in(url) or client.auth
        return await client.send(post, stream=True, follow_redirects=False, auth=auth and streaming(auth))

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient]:
        """The client for one run; it is closed afterwards unless it is the caller's or a kept one."""
        if self._kept is not None and self._kept_in is _running_loop():
            yield self._kept
        elif isinstance(self._given, httpx.AsyncClient):
            yield self._given
        else:
            async with self._make_client(http2=_has_http2()) as client:
                yield client

    def keep_client(self) -> None:
        """Keep one client, and with it its connections, for runs in this event loop, until all keepers dropped it."""
        self._keepers += 1
        if self._kept is None and not isinstance(self._given, httpx.AsyncClient):
            # Of an HTTP/2 connection that runs share, httpcore resets no stream that is left (encode/httpcore#943).
            self._kept, self._kept_in = self._make_client(http2=False), _running_loop()

    async def drop_client(self) -> None:
        """Close the kept client, if nobody else keeps it."""
        self._keepers = max(0, self._keepers - 1)
        if self._kept is not None and not self._keepers:
            kept, self._kept = self._kept, None
            await kept.aclose()

    def _make_client(self, *, http2: bool) -> httpx.AsyncClient:
        if callable(self._given):
            return self._given()
        refuse_all = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        verify = _ssl_context(is_needed=self.url.scheme == "https")
        return httpx.AsyncClient(verify=verify, cookies=refuse_all, http2=http2)


class _Body(httpx.AsyncByteStream):
    """The request's content, given by a plain iterator: httpx's own is a generator, left suspended by an abort."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> _Pieces:
        return _Pieces([self._content])


class _Pieces(AsyncIterator[bytes]):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


@lru_cache(maxsize=2)
def _ssl_context(*, is_needed: bool) -> ssl.SSLContext:
    """Loading the certificate store takes tens of milliseconds: once per process, and not for plain HTTP.

    Without the store no certificate is trusted, so a connection that wants TLS after all fails.
    """
    return httpx.create_ssl_context() if is_needed else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@lru_cache(maxsize=1)
def _has_http2() -> bool:
    """Whether the extra `http2` is installed; a server that speaks it is then spoken to in it."""
    return find_spec("h2") is not None


def _running_loop() -> object:
    """What tells one event loop from another."""
    return anyio.lowlevel.current_token().native_token


def _auth_of(given: object) -> httpx.Auth | None:
    match given:
        case None | httpx.Auth():
            return given
        case (str(user), str(password)):
            return httpx.BasicAuth(user, password)
        case _:
            raise UsageError("auth is an httpx.Auth, or a pair of texts: user and password")


def _auth_in(url: httpx.URL) -> httpx.Auth | None:
    return httpx.BasicAuth(url.username, url.password) if url.userinfo else None


def _checked_reference(url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        # Behind the colon its text quotes a part of the url, which may be a password that stands in the wrong place.
        raise UsageError(f"the agent's url cannot be read: {str(error).partition(':')[0]}") from None


def _checked(url: str) -> httpx.URL:
    parsed = _checked_reference(url)
    if parsed.port is not None and not 0 < parsed.port < _PORTS:
        raise UsageError(f"the agent's url names a port that there cannot be: ports are 1 to {_PORTS - 1}")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError("the agent's url must start with http:// or https:// and a host: http://localhost:8000/agent")
    return parsed


def address_of(url: httpx.URL) -> str:
    """A URL without what may be secret in it: user, password and query."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))
