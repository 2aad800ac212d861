"""Reaching an agent: its address, and the request of a POST (SSE-2, PB-2)."""

from __future__ import annotations

import copy
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import ExitStack, aclosing, closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, TypeAlias

import httpx

from agui_client._core import plugs
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.secrets import address_of, is_secret_header
from agui_client._core.transport.clients import Clients, ClientSource, can_exist
from agui_client._core.transport.credentials import Credentials, Headers
from agui_client._core.transport.quiet_logs import quiet_logs
from agui_client._core.transport.response import ACCEPTED, JSON, bound_body, is_of
from agui_client._core.transport.retry import RetryPolicy
from agui_client._core.transport.sse import EVENT_STREAM
from agui_client._core.transport.timeouts import Timeouts, check_number
from agui_client.errors import UsageError

DEFAULT_MAX_EVENT_BYTES = 10 * 1024 * 1024
DEFAULT_MAX_RUN_BYTES = 256 * 1024 * 1024
_OF_DOCUMENTS = {"accept": JSON, "accept-encoding": ACCEPTED}
_OF_STREAMS = _OF_DOCUMENTS | {"accept": EVENT_STREAM, "cache-control": "no-store"}
"""Headers that are always sent."""
CONNECT_HEADER = "x-agui-connect"
"""The header of requests for a thread, by which `agent_app` knows one at an address that would begin a run."""
RUNS_HEADER = "x-agui-runs"
"""The header of responses of servers that keep runs, with addresses for them below the agent's. Its value says what
becomes of a run whose caller leaves: "continue" or "stop"."""

Address: TypeAlias = httpx.URL
"""An address that was checked."""
AuthSource: TypeAlias = httpx.Auth | tuple[str, str]
"""Any `httpx.Auth`, or (user, password) for HTTP basic."""


@dataclass(frozen=True, slots=True)
class Attempt(Record):
    """One request of a run, and its outcome."""

    reason: str
    """The reason for it: "first attempt", or the end of the attempt before."""
    address: str
    """The address it went to, without user, password and query."""
    seconds: float
    """Seconds until its response's headers were there, or it failed."""
    status_code: int | None = None
    """The HTTP status; None without a response."""
    error: str | None = None
    """The reason for its failure; None if an event stream came back."""
    method: str = "POST"
    """The HTTP method."""
    is_reconnect: bool = False
    """Whether it takes up a stream that was cut, rather than starts the run."""


class AttemptObserver(Protocol):
    """An observer of one run's attempts."""

    def attempt_start(self, number: int, url: str) -> Mapping[str, str]:
        """Handle that a request is about to be posted; return headers that are added to it."""
        ...

    def attempt_end(self, attempt: Attempt, error: BaseException | None) -> None:
        """Handle that an event stream came, or that it failed."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """The request of one run; nothing of it is shown that may be secret (SEC-9)."""

    body: bytes = field(repr=False)
    """The `RunAgentInput` as JSON."""
    url: Address | None = field(default=None, repr=False)
    """The address to post it to; None for the agent's."""
    run_id: str | None = None
    """The id of the run that it starts or takes up; None if it asks for something else."""
    is_replay: bool = False
    """Whether a thread is sent again: 204 No Content is an empty stream then, and the thread may come as JSON."""
    is_document: bool = False
    """Whether a JSON document is asked for, instead of an event stream."""
    is_reconnect: bool = False
    """Whether it takes up a stream that was cut, rather than starts a run."""
    last_event_id: str | None = field(default=None, repr=False)
    """The id of the last event that arrived, after which the server continues; None if the request names none."""
    headers: Headers | None = field(default=None, repr=False)
    """Headers for this run, which stand over the agent's."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """The time limits of the run."""
    until: float = math.inf
    """The `time.perf_counter()` at which the call that the run belongs to has taken too long."""
    observer: AttemptObserver | None = field(default=None, repr=False)
    """The observer of its attempts; None without one."""

    @property
    def method(self) -> str:
        """The HTTP method: POST with a body, or else GET."""
        return "POST" if self.body else "GET"


class Transport:
    """The way to an agent: its address, credentials, retries and HTTP client.

    Args:
        url: The agent's address.
        auth: Any `httpx.Auth` or (user, password).
        credentials: The headers of each attempt.
        retry: The rules for trying again.
        http_client: A client to use instead, or a function that makes one for each run.
        max_event_bytes: The largest frame that is accepted, in bytes.
        max_run_bytes: The most bytes that one response may bring, counted after decompression; None for no bound.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: AuthSource | None = None,
        credentials: Credentials | None = None,
        retry: RetryPolicy | int | None = None,
        http_client: ClientSource | None = None,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        max_run_bytes: int | None = DEFAULT_MAX_RUN_BYTES,
    ) -> None:
        check_number("max_event_bytes=", max_event_bytes, least=1, is_whole=True)
        if max_run_bytes is not None:
            check_number("max_run_bytes=", max_run_bytes, least=1, is_whole=True)
        self.url: Address = _checked(url)
        """The agent's address, a user and password included."""
        self.address: str = address_of(self.url)
        """The URL without the parts that may be secret: user, password, query."""
        self.credentials: Credentials = credentials or Credentials(None)
        """The headers of each attempt."""
        self.retry: RetryPolicy = RetryPolicy.of(retry)
        """The rules for trying again."""
        self.max_event_bytes = max_event_bytes
        """The largest frame that is accepted, in bytes."""
        self.max_run_bytes = max_run_bytes
        """The most bytes that one response may bring, counted after decompression; None for no bound."""
        self.keeps_runs = False
        """Whether the server's latest response said that runs continue without their caller (`RUNS_HEADER`)."""
        self._auth = _auth_of(auth)
        self._is_for_another = False
        self.clients: Clients = Clients(http_client, has_tls=self.url.scheme == "https")
        """The HTTP clients, shared with clones."""

    def with_credentials(self, auth: AuthSource | None, credentials: Credentials) -> Transport:
        """Return a transport to the same agent for another user: it shares no credentials with this one.

        Args:
            auth: Any `httpx.Auth` or (user, password), in place of this one's, the address's and the client's.
            credentials: The headers of each attempt.
        """
        other = copy.copy(self)
        other._auth, other.credentials, other._is_for_another = _auth_of(auth), credentials, True
        return other

    def is_of_agent(self, url: Address) -> bool:
        """Return whether an address has the agent's origin, for which the credentials were given."""
        return url is self.url or origin_of(url) == origin_of(self.url)

    def credentials_for(self, url: Address) -> Credentials:
        """Return the headers of attempts at an address; another origin than the agent's gets none of the agent's."""
        return self.credentials if self.is_of_agent(url) else Credentials(None)

    def resolve(self, address: str) -> Address:
        """Return another address of the agent's, given absolute or relative to its own.

        Raises:
            UsageError: It cannot be read.
        """
        return _checked(address, self.url)

    def below(self, path: str) -> Address:
        """Return an address below the agent's, such as that of "stop"; the query of the agent's stays."""
        own_path, mark, query = self.url.raw_path.partition(b"?")
        return self.url.copy_with(raw_path=b"%b/%b%b%b" % (own_path.rstrip(b"/"), path.encode(), mark, query))

    async def send(
        self, client: httpx.AsyncClient, url: httpx.URL, headers: httpx.Headers, request: ClientRequest
    ) -> httpx.Response:
        """Send the request and return as soon as the response's headers are there (SSE-2, PB-2)."""
        limits = request.timeouts
        # The `Clock` limits each read, where a first event, an idle stream and a total can be told apart.
        timeout = httpx.Timeout(connect=limits.connect, write=limits.write, pool=limits.pool, read=None)
        headers.update(_own_headers(request))
        if request.last_event_id is not None:
            headers.encoding = "utf-8"  # as browsers send it; httpx may take only ASCII otherwise
            headers["last-event-id"] = request.last_event_id
        sent = client.build_request(request.method, _bare(url), content=request.body, headers=headers, timeout=timeout)
        # After `build_request`, which has set the length of the content by then.
        sent.stream = _Content(request.body)
        if not self.is_of_agent(url):
            _drop_secrets(sent.headers, client.headers, headers)
            sent.url = _bare(url)  # without the parameters that the client adds to each address
        # A redirect would turn the POST into a GET, or carry the caller's headers to another origin: see `Delivery`.
        auth = self._auth_for(client, url)
        # A run's own header stands over the auth, and the agent's over an address: they were given for this request.
        stands_over = httpx.Headers(request.headers) if auth is self._auth or not url.userinfo else headers
        if auth and "authorization" in stands_over:
            auth = None
        if auth:
            auth = _BoundedAuth(auth, self.max_event_bytes + 1)
        await self.clients.look_up(client, url, limits.connect)
        try:
            with ExitStack() as blocks:
                blocks.enter_context(quiet_logs())
                for sending in plugs.SENDING:
                    blocks.enter_context(sending())
                return await client.send(sent, stream=True, follow_redirects=False, auth=auth)
        except RuntimeError as error:
            raise self.clients.explain(error) from error

    def _auth_for(self, client: httpx.AsyncClient, url: httpx.URL) -> httpx.Auth | None:
        if not self.is_of_agent(url):
            return _auth_in(url)
        return self._auth or (None if self._is_for_another else _auth_in(url) or client.auth)


class _BoundedAuth(httpx.Auth):
    """An auth whose responses are unpacked in bounded pieces and to a bound, by it and by httpx (SSE-12).

    Event streams are left to the run: one that is read for an auth would bring all events at the end.
    """

    def __init__(self, auth: httpx.Auth, most: int) -> None:
        self._auth, self._most = auth, most

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same as the auth."""
        is_sync = type(self._auth).async_auth_flow is httpx.Auth.async_auth_flow
        async with aclosing(self._steps(request) if is_sync else self._auth.async_auth_flow(request)) as flow:
            with suppress(StopAsyncIteration):
                following = await anext(flow)
                while True:
                    response = yield following
                    if not is_of(response, EVENT_STREAM):
                        bound_body(response, self._most)
                    following = await flow.asend(response)

    async def _steps(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same as httpx, except for event streams."""
        if self._auth.requires_request_body:
            await request.aread()
        with closing(self._auth.auth_flow(request)) as flow:
            following = next(flow)
            while True:
                response = yield following
                if self._auth.requires_response_body and not is_of(response, EVENT_STREAM):
                    await response.aread()
                try:
                    following = flow.send(response)
                except StopIteration:
                    return


class _Content(httpx.AsyncByteStream, AsyncIterator[bytes]):
    """The request's content; httpx's own iterates a generator, which an abort would leave suspended."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._unsent: list[bytes] = []

    def __aiter__(self) -> _Content:
        self._unsent = [self._content]
        return self

    async def __anext__(self) -> bytes:
        if not self._unsent:
            raise StopAsyncIteration
        return self._unsent.pop()


def _own_headers(request: ClientRequest) -> dict[str, str]:
    """Return the headers that no caller chooses."""
    headers = {**(_OF_DOCUMENTS if request.is_document else _OF_STREAMS)}
    if request.is_replay:
        headers["accept"] = f"{EVENT_STREAM}, {JSON};q=0.5"
        headers[CONNECT_HEADER] = "1"
    if request.method == "POST":
        headers["content-type"] = JSON
    return headers


def origin_of(url: Address) -> tuple[str, str, int | None]:
    """Return the origin of an address: scheme, host and port."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _drop_secrets(sent: httpx.Headers, of_client: httpx.Headers, given: httpx.Headers) -> None:
    """Drop the credentials that the HTTP client adds to each request, and that were not given for this one."""
    for name in {"cookie", *filter(is_secret_header, of_client)} - {each.lower() for each in given}:
        sent.pop(name, None)


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


def _checked(url: str, base: Address | None = None) -> Address:
    try:
        parsed = base.join(url) if base else httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        # Behind the colon its text quotes a part of the url, which may be a password that stands in the wrong place.
        raise UsageError(f"the agent's url cannot be read: {str(error).partition(':')[0]}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError("the agent's url must start with http:// or https:// and a host, as in http://localhost:8000/")
    if not can_exist(parsed):
        raise UsageError(
            "the agent's url names a host or port that there cannot be: ports are 1 to 65535, names have no blanks"
        )
    return parsed


@lru_cache(maxsize=64)
def _bare(url: httpx.URL) -> httpx.URL:
    """Return a URL without credentials, which httpx would write into its log lines."""
    return url.copy_with(username=None, password=None)
