"""HTTP clients: one for each active run, the caller's or our own; also those of another library, such as httpx2.

A pool that many runs share costs the square of their number in httpcore, has a limit that runs wait for, and shares
HTTP/2 connections, whose streams it does not reset when they are left (encode/httpcore#943).

To change

- an HTTP client of another library that is made like httpx's, such as httpx2: this module: `as_client` puts it behind
  an httpx transport, `_httpx_errors` translates its exceptions
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import lru_cache, partial
from http.cookiejar import CookieJar
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any, Protocol, TypeAlias
from urllib.request import getproxies

import anyio
import anyio.lowlevel
import httpx

from agui_client._core.ground.secrets import address_of
from agui_client.errors import ConnectError, ConnectTimeoutError, UsageError

_HAS_HTTP2 = find_spec("h2") is not None
"""Whether the extra `http2` is installed; runs then use HTTP/2 with servers that offer it."""
_ADDRESS = re.compile(r"[\d.]+|.*:.*")
"""A host that is not a name."""
PROXIES = frozenset({"http", "https", "all"})
"""The kinds of proxies that the environment may name for us."""
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
"""Variables of the environment that name files for TLS."""
_NETWORKS = r"[\da-fA-F.:]+/(?!128$)\d+"
"""Entries of NO_PROXY that no client here reads, as httpx compares the names of hosts."""
_PORTS = 65536
_MOST_IDLE = 100
"""The number of clients that are kept for later runs."""


class AsyncClientLike(Protocol):
    """An HTTP client with the methods of `httpx.AsyncClient`."""

    def build_request(self, *args: Any, **options: Any) -> Any:
        """Make a request."""

    async def send(self, *args: Any, **options: Any) -> Any:
        """Send a request."""

    async def aclose(self) -> None:
        """Close the client."""


ClientSource: TypeAlias = AsyncClientLike | Callable[[], AsyncClientLike]
"""An HTTP client of httpx or httpx2, or a function that makes one for each run."""


def as_client(given: object) -> httpx.AsyncClient:
    """Return an application's client as one of httpx's.

    Args:
        given: The client; another library's is put behind a transport, and keeps its headers, auth and cookies.

    Raises:
        UsageError: It is not an asynchronous client.
    """
    if isinstance(given, httpx.AsyncClient):
        return given
    client: Any = given
    if not all(callable(getattr(client, name, None)) for name in ("build_request", "send", "aclose")):
        instead = "give an httpx.AsyncClient, also to the sync verbs, or a function that makes one"
        raise UsageError(f"http_client= cannot be a {type(given).__name__}; {instead}")
    return httpx.AsyncClient(transport=_ClientTransport(client), headers=client.headers.raw, trust_env=False)


class Clients:
    """The HTTP clients of an agent and its clones.

    Without a client of the caller's, each run has one of its own: nothing stays open between runs, no cookie is
    carried over, and the agent works in any event loop. `keep()` trades that for clients that are used again.

    Args:
        given: A client to use instead, or a function that makes one.
        has_tls: Whether certificates are needed.
    """

    def __init__(self, given: ClientSource | None, *, has_tls: bool) -> None:
        self._given = given if given is None or callable(given) else as_client(given)
        self._loop_of_given: object = None
        self._has_tls = has_tls
        self._idle: list[httpx.AsyncClient] = []
        self._fresh: set[httpx.AsyncClient] = set()
        self._loop, self._keepers = object(), 0

    def __reduce__(self) -> tuple[Callable[..., Clients], tuple[object, ...]]:
        # Another process makes clients of its own.
        return partial(Clients, has_tls=self._has_tls), (self._given,)

    async def lend(self, stack: AsyncExitStack) -> httpx.AsyncClient:
        """Lend a client to one run.

        Args:
            stack: The blocks of the run; the client is taken back when they are left.

        Raises:
            UsageError: It cannot be made.
        """
        if isinstance(self._given, httpx.AsyncClient):
            if self._loop_of_given is None:
                self._loop_of_given = anyio.lowlevel.current_token().native_token
            return self._given
        client = self._idle.pop() if self._is_keeping and self._idle else await self._made().__aenter__()
        stack.push_async_callback(self._release, client)
        return client

    async def _release(self, client: httpx.AsyncClient) -> None:
        self._fresh.discard(client)
        if self._is_keeping and len(self._idle) < _MOST_IDLE:
            self._idle.append(client)
            return
        # Shielded: a run that is cancelled has to close its connections, or the server works on.
        with anyio.CancelScope(shield=True):
            await client.__aexit__()

    async def look_up(self, client: httpx.AsyncClient, url: httpx.URL, seconds: float | None) -> None:
        """Look up the name of a host to which one of our own clients is going to connect directly.

        httpx does so in a thread of the event loop, for which the loop's end and the program's wait; so the first
        look-up, which may be slow, is done in a thread that can be left.

        Args:
            url: An address at the host.
            seconds: The longest wait.

        Raises:
            ConnectError: Nobody knows the name.
            ConnectTimeoutError: It took too long.
        """
        if client not in self._fresh or _ADDRESS.fullmatch(url.host) or not PROXIES.isdisjoint(getproxies()):
            return
        from agui_client._core.ground.concurrency import call_aside

        find = partial(socket.getaddrinfo, url.host, url.port, type=socket.SOCK_STREAM)
        try:
            with anyio.fail_after(seconds):
                await call_aside(find, "name look-up")
        except TimeoutError:
            late = f"no connection to {address_of(url)} within {seconds:g} s: the name {url.host} was not found by then"
            raise ConnectTimeoutError(late) from None
        except socket.gaierror as error:
            unknown = ConnectError(f"no connection to {address_of(url)}: the name {url.host} is not known ({error})")
            unknown.may_have_started = False
            raise unknown from None

    def explain(self, error: RuntimeError) -> Exception:
        """Return our error for one of a client: a given client may be closed, or belong to another event loop."""
        if "client has been closed" in str(error):  # as httpx says it
            return UsageError(
                "the client of http_client= is closed; nothing was sent: give one that is open, or a function"
            )
        is_elsewhere = self._loop_of_given not in (None, anyio.lowlevel.current_token().native_token)
        # An app in this process may raise anything; these say "Event loop is closed", or "bound to a different loop".
        if not is_elsewhere or "loop" not in str(error):
            return error
        what = "the client of http_client= has connections of another event loop, in which an earlier run was"
        how = "give a function that makes a client, such as http_client=httpx.AsyncClient"
        return UsageError(f"{what}; each sync verb and each asyncio.run() has a loop of its own: {how}")

    def keep(self) -> None:
        """Keep clients and their connections for runs in this event loop, until every keeper dropped them."""
        if not self._keepers:
            self._loop = anyio.lowlevel.current_token().native_token
        self._keepers += 1

    async def drop(self) -> None:
        """Close the kept clients, if there is no other keeper; those in use are closed by their runs."""
        self._keepers = max(0, self._keepers - 1)
        while self._idle and not self._keepers:
            await self._idle.pop().__aexit__()

    @property
    def _is_keeping(self) -> bool:
        return self._keepers > 0 and self._loop is anyio.lowlevel.current_token().native_token

    def _made(self) -> httpx.AsyncClient:
        try:
            if callable(self._given):
                return as_client(self._given())
            check_proxies()
            http2 = _HAS_HTTP2 and not self._is_keeping
            options: dict[str, Any] = {"verify": _ssl_context(has_tls=self._has_tls), "http2": http2}
            mounts = _mounts(**options)
            made = httpx.AsyncClient(cookies=NoCookies(), mounts=mounts, trust_env=mounts is None, **options)
        except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
            raise UsageError(f"the HTTP client cannot be made: {_reason(error)}") from None
        self._fresh.add(made)
        return made


class NoCookies(CookieJar):
    """A jar that stays empty: no cookie is carried from one run to another (SEC-9)."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Ignore the cookies of a response."""


@lru_cache(maxsize=2)
def _ssl_context(*, has_tls: bool) -> ssl.SSLContext:
    """Return the settings of TLS, made once: loading the certificate store takes tens of milliseconds.

    Plain HTTP does without it. No certificate is trusted then, so a connection that wants TLS after all fails.
    """
    return httpx.create_ssl_context() if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def can_exist(url: httpx.URL) -> bool:
    """Return whether there can be a host of that name, with that port."""
    try:
        url.raw_host.decode().encode("idna")
    except UnicodeError:
        return False
    is_name = bool(url.host) and ("%" not in url.host or ":" in url.host)
    return is_name and 0 < (1 if url.port is None else url.port) < _PORTS


def check_proxies() -> None:
    """Look at proxies before httpx does, which takes some that nothing can connect to."""
    for kind, address in getproxies().items():
        if kind in PROXIES and not can_exist(httpx.URL(address if "://" in address else f"http://{address}")):
            raise ValueError("no such host or port can exist")


def _mounts(**options: Any) -> dict[str, httpx.AsyncBaseTransport | None] | None:
    """Return the transports of proxies where NO_PROXY has addresses of IPv6, of which httpx takes the bare ones alone.

    Args:
        options: The options of the transports.

    Returns:
        The transports by patterns of addresses; None where httpx reads the environment itself.
    """
    proxies = getproxies()
    exempt = [each.strip() for each in proxies.pop("no", "").split(",") if each.strip()]
    if "*" in exempt or not any(":" in each and "://" not in each for each in exempt):
        return None
    mounts: dict[str, httpx.AsyncBaseTransport | None] = {}
    for kind, address in proxies.items():
        if kind in PROXIES and address:
            proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
            mounts[f"{kind}://"] = httpx.AsyncHTTPTransport(proxy=proxy, **options)
    return mounts | dict.fromkeys([_exempt_pattern(each) for each in exempt if not re.fullmatch(_NETWORKS, each)])


def _exempt_pattern(host: str) -> str:
    """Return the pattern of the addresses that an entry of NO_PROXY exempts, as httpx has them."""
    if "://" in host:
        return host
    if host == "localhost" or host.startswith("["):  # with or without a port
        return f"all://{host}"
    with suppress(ValueError):
        address = ip_address(host.removesuffix("/128"))
        return f"all://[{address}]" if address.version == 6 else f"all://{host}"
    return f"all://*{host}"


def _reason(error: Exception) -> str:
    """Return the setting that is wrong, without addresses: there may be a password in one."""
    match error:
        case OSError():
            named = " and ".join(f"{name}={os.environ[name]}" for name in CERTIFICATES if name in os.environ)
            return f"certificates cannot be loaded ({error}); check {named or 'the file that verify= names'}"
        case ImportError():
            return f"{error} Or unset the variable ALL_PROXY, HTTP_PROXY or HTTPS_PROXY that names the proxy"
        case _:
            what = str(error).partition(":")[0].partition(" URL")[0]
            return f"a proxy cannot be used ({what}); correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY"


class _ClientTransport(httpx.AsyncBaseTransport):
    """Sends requests with a client of another library."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, and return as soon as the response's headers are there."""
        with _httpx_errors():
            own = self._client.build_request(
                request.method,
                str(request.url),
                content=await request.aread(),
                headers=request.headers.raw,
                extensions=request.extensions,
            )
            response = await self._client.send(own, stream=True, follow_redirects=False)
        return httpx.Response(
            response.status_code,
            headers=response.headers.raw,
            stream=_Stream(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors():
            async for chunk in self._stream:
                yield chunk

    async def aclose(self) -> None:
        """Close the response."""
        with _httpx_errors():
            await self._stream.aclose()


@contextmanager
def _httpx_errors() -> Generator[None]:
    """Translate the exceptions of another library into those of httpx that have the same name."""
    try:
        yield
    except Exception as error:
        for kind in type(error).__mro__:
            ours = getattr(httpx, kind.__name__, None)
            if isinstance(ours, type) and issubclass(ours, httpx.RequestError | httpx.InvalidURL):
                # The cause is the other library's, which tells whether anything was sent.
                raise ours(str(error)) from error.__cause__ or error
        raise
