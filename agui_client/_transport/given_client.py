"""HTTP clients of the application: httpx's own, and others with the same methods, such as those of httpx2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import httpx

from agui_client.errors import UsageError


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
        UsageError: It is no asynchronous client.
    """
    if isinstance(given, httpx.AsyncClient):
        return given
    client: Any = given
    if not all(callable(getattr(client, name, None)) for name in ("build_request", "send", "aclose")):
        instead = "give an httpx.AsyncClient, also to the sync verbs, or a function that makes one"
        raise UsageError(f"http_client= cannot be a {type(given).__name__}; {instead}")
    return httpx.AsyncClient(transport=_ClientTransport(client), headers=client.headers.raw, trust_env=False)


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
                raise ours(str(error)) from error
        raise
