"""A quicker HTTP client (extra `fast`): httpx in front, the connections and the parser of aiohttp behind it.

    agent = HttpAgent("http://localhost:8000/", http_client=fast_client)

Where a server writes one event at a time, httpx's own transport costs more than all the rest of a run. This one keeps
what runs rely on: httpx's exceptions, time-outs, proxies and certificates. It is not a subclass of httpx-aiohttp's,
which stores cookies, has no limit for writing, and hides the connection, so that an abort could not close it.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, cast
from urllib.request import getproxies, proxy_bypass

import httpx

try:
    import aiohttp
except ModuleNotFoundError as _missing:
    raise ImportError("agui_client.fast needs aiohttp: pip install 'agui-client[fast]'") from _missing
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from agui_client._core.transport.clients import CERTIFICATES, PROXIES, NoCookies, check_proxies
from agui_client.errors import UsageError

if TYPE_CHECKING:
    import ssl

__all__ = ["fast_client"]

_LARGEST_HEAD = 100 * 1024
"""The most bytes in the head of a response, as in httpx."""
_IDLE_SECONDS = 5.0
"""Seconds for which a connection without a request stays open, as in httpx."""
_PIECE = 64 * 1024
_INSTEAD = "leave http_client= out, or give an httpx.AsyncClient"


def fast_client(
    *,
    verify: ssl.SSLContext | str | bool = True,
    cert: str | tuple[str, str] | tuple[str, str, str] | None = None,
    proxy: str | httpx.Proxy | None = None,
    trust_env: bool = True,
    http2: bool = False,
) -> httpx.AsyncClient:
    """Make an HTTP client that reads single events for about half of the cost.

    As `http_client=`, give the function itself, or `functools.partial(fast_client, verify=...)`; each run then has a
    client of its own. One client may also serve all runs of an event loop: it has no limit of connections.

    Args:
        verify: The certificates to trust, as in httpx: True for the usual ones, or those of `SSL_CERT_FILE` and
            `SSL_CERT_DIR`; False for any; or an `ssl.SSLContext`, which may have a certificate of the client, too.
        cert: The client's certificate, as in httpx.
        proxy: The address of an HTTP proxy; None for the one that the environment names.
        trust_env: Whether `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and `SSL_CERT_DIR` are
            read.
        http2: False; HTTP/2 is not supported.

    Returns:
        The client, for asyncio.

    Raises:
        UsageError: HTTP/2 or a SOCKS proxy is asked for.
        ValueError: The address of a proxy cannot be one.
        OSError: Certificates cannot be loaded.
    """
    if http2:
        raise UsageError(f"fast_client speaks HTTP/1.1 only; for HTTP/2, {_INSTEAD}(http2=True)")
    if trust_env and proxy is None:
        check_proxies()
    given = httpx.Proxy(proxy) if isinstance(proxy, str) else proxy
    proxies = {"all": given} if given else _proxies_of_environment() if trust_env else {}
    if any(each.url.scheme.startswith("socks") for each in proxies.values()):
        raise UsageError(f"fast_client has no SOCKS proxies: {_INSTEAD} with httpx[socks], or unset ALL_PROXY")
    files = tuple(os.environ.get(name) for name in CERTIFICATES)
    transport = _Transport(_ssl_context(verify, cert, trust_env, files), proxies, may_bypass=given is None)
    return httpx.AsyncClient(transport=transport, cookies=NoCookies(), trust_env=False)


class _Transport(httpx.AsyncBaseTransport):
    """Sends requests with aiohttp.

    Args:
        context: The settings of TLS.
        proxies: The proxy for each scheme, or for "all".
        may_bypass: Whether the environment may exempt hosts from proxies.
    """

    def __init__(self, context: ssl.SSLContext, proxies: dict[str, httpx.Proxy], *, may_bypass: bool) -> None:
        self._context, self._proxies, self._may_bypass = context, proxies, may_bypass
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, and return as soon as the response's headers are there.

        Raises:
            UsageError: The event loop is not asyncio's.
            httpx.TransportError: The request failed; the exception of aiohttp is the `__cause__`.
        """
        limits = request.extensions.get("timeout", {})
        content = await request.aread()
        upload = _Upload(content, limits.get("write")) if content else None
        proxy = self._proxy_for(request.url)
        to_proxy, has_tunnel = _headers_for(proxy), request.url.scheme == "https"
        # In aiohttp, `connect` is the time for all that comes before the request.
        timeout = aiohttp.ClientTimeout(
            connect=limits.get("connect"), sock_read=limits.get("read"), ceil_threshold=math.inf
        )
        try:
            response = await self._open().request(
                request.method,
                URL(str(request.url.copy_with(username=None, password=None)), encoded=True),
                headers=[*_as_text(request.headers), *([] if has_tunnel else to_proxy)],
                data=upload,
                allow_redirects=False,
                timeout=timeout,
                server_hostname=request.extensions.get("sni_hostname"),
                proxy=str(proxy.url) if proxy else None,
                proxy_headers=CIMultiDict(to_proxy) if has_tunnel else None,
            )
        except BaseException as error:
            if upload is not None:
                upload.abort()
            _raise_as_httpx(error)
        return _as_httpx(response)

    def _open(self) -> aiohttp.ClientSession:
        """Return the session, which belongs to the event loop of its first use."""
        if self._session is None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                raise UsageError(f"fast_client works with asyncio only; on trio, {_INSTEAD}") from None
            connector = aiohttp.TCPConnector(
                limit=0, ssl=self._context, keepalive_timeout=_IDLE_SECONDS, use_dns_cache=False
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_line_size=_LARGEST_HEAD,
                max_field_size=_LARGEST_HEAD,
            )
        return self._session

    def _proxy_for(self, url: httpx.URL) -> httpx.Proxy | None:
        found = self._proxies.get(url.scheme) or self._proxies.get("all")
        # The standard library compares names: of an address of IPv6 it has to be shown the usual spellings.
        names = (url.netloc.decode(), url.host, *([f"[{url.host}]", f"{url.host}/128"] if ":" in url.host else []))
        return None if found is None or (self._may_bypass and any(map(proxy_bypass, names))) else found

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


class _Upload(aiohttp.Payload):
    """The content of a request, sent in pieces, each within a time limit.

    Args:
        seconds: The longest time that a piece may take; None for no limit.
    """

    def __init__(self, content: bytes, seconds: float | None) -> None:
        super().__init__(content, content_type="application/octet-stream")
        self._size = len(content)
        self._content, self._seconds = content, seconds
        self._connection: asyncio.Transport | None = None

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the content.

        Raises:
            httpx.WriteTimeout: The server did not take a piece in time.
        """
        self._connection = cast("Any", writer).transport
        try:
            for start in range(0, len(self._content), _PIECE):
                async with asyncio.timeout(self._seconds):
                    await writer.write(self._content[start : start + _PIECE])
        except TimeoutError as error:
            raise httpx.WriteTimeout("the server did not take the request in time") from error
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Close the connection without sending the rest, for which `close()` would wait."""
        if self._connection is not None:
            self._connection.abort()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content as text."""
        return self._content.decode(encoding, errors)


class _Stream(httpx.AsyncByteStream):
    """The body of a response; no generator, as each costs a step for every event."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response, self._read = response, response.content.readany

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._read()
        except BaseException as error:
            self._abort()
            _raise_as_httpx(error)
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._abort()

    def _abort(self) -> None:
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


def _as_httpx(response: aiohttp.ClientResponse) -> httpx.Response:
    version, connection = response.version or aiohttp.HttpVersion11, response.connection
    extensions: dict[str, Any] = {
        "reason_phrase": (response.reason or "").encode("ascii", "ignore"),
        "http_version": f"HTTP/{version.major}.{version.minor}".encode(),
    }
    if connection is not None:
        extensions["network_stream"] = connection.transport
    return httpx.Response(
        response.status, headers=response.raw_headers, stream=_Stream(response), extensions=extensions
    )


def _raise_as_httpx(error: BaseException) -> NoReturn:
    """Translate an exception of aiohttp; those that mean that nothing was sent are told apart by their `__cause__`."""
    if isinstance(error, aiohttp.ClientError | OSError | ValueError):
        raise _translated(error) from error
    raise error


def _translated(error: Exception) -> httpx.HTTPError:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout("")
        case aiohttp.SocketTimeoutError():
            return httpx.ReadTimeout("")
        case aiohttp.ClientConnectorError(__cause__=socket.gaierror() as unknown):
            return httpx.ConnectError(f"the name {error.host} is not known ({unknown})")
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(str(error.__cause__ or error))
        case aiohttp.ClientHttpProxyError():
            return httpx.ProxyError(f"{error.status} {error.message}")
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return httpx.RemoteProtocolError(_FAULTS.get(type(error), "illegal response: ..."))
        case aiohttp.ClientConnectionError(__cause__=httpx.WriteTimeout() as late):
            return late
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return httpx.UnsupportedProtocol("the address is not one of HTTP")
        case aiohttp.ClientError() | OSError():
            return httpx.ReadError(str(error))
        case _:
            return httpx.LocalProtocolError("aiohttp cannot send this request")


_FAULTS: dict[type[Exception], str] = {
    aiohttp.ClientPayloadError: "the response ended before its end, or is not framed as HTTP wants",
    aiohttp.ServerDisconnectedError: "the server closed the connection without a response",
}


def _proxies_of_environment() -> dict[str, httpx.Proxy]:
    named = {kind: address for kind, address in getproxies().items() if kind in PROXIES and address}
    return {kind: httpx.Proxy(at if "://" in at else f"http://{at}") for kind, at in named.items()}


def _headers_for(proxy: httpx.Proxy | None) -> list[tuple[str, str]]:
    """Return the headers that a proxy wants; aiohttp's own option for its password is deprecated."""
    if proxy is None:
        return []
    headers = _as_text(proxy.headers)
    if proxy.raw_auth is not None:
        headers.append(("Proxy-Authorization", f"Basic {b64encode(b':'.join(proxy.raw_auth)).decode()}"))
    return headers


def _as_text(headers: httpx.Headers) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in headers.raw]


@lru_cache(maxsize=8)
def _ssl_context(
    verify: ssl.SSLContext | str | bool, cert: Any, trust_env: bool, files: tuple[str | None, ...]
) -> ssl.SSLContext:
    """Return the settings of TLS, made once for all clients: loading certificates takes tens of milliseconds."""
    return httpx.create_ssl_context(verify=verify, cert=cert, trust_env=trust_env)
