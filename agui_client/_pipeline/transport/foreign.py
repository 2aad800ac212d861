"""Foreign exceptions: the one place where httpx's become ours."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import httpx

from agui_client._pipeline.transport.client import address_of
from agui_client.errors import ConnectError, ConnectTimeoutError, DecodeError, TransportError, UsageError

if TYPE_CHECKING:
    from agui_client._pipeline.limits import Timeouts

FOREIGN = (httpx.RequestError, httpx.InvalidURL)
"""What httpx raises about a request."""


def translate(error: Exception, limits: Timeouts, address: str) -> NoReturn:
    """Raise what one of httpx's exceptions means.

    Args:
        error: One of `FOREIGN`.
        limits: The time limits it was raised under.
        address: Where the run was posted.

    Raises:
        TransportError: No connection, or a broken one; `may_have_started` tells them apart.
        DecodeError: The body's content coding is broken.
        UsageError: The request cannot be sent at all.
    """
    address = _address(error) or address
    match error:
        case httpx.ConnectTimeout():
            raise ConnectTimeoutError(f"no connection to {address} within {limits.connect:g} s") from error
        case httpx.PoolTimeout():
            raise ConnectTimeoutError(f"the HTTP client had no connection free within {limits.pool:g} s") from error
        case httpx.ConnectError():
            raise _not_made(f"no connection to {address}: {error}; is the agent running there?") from error
        case httpx.LocalProtocolError() if "outbound streams" in str(error):
            raise _not_made(f"a shared HTTP/2 connection to {address} takes no more runs at once") from error
        case httpx.LocalProtocolError():
            # Its text shows the header that is wrong, and that may be the one with the secret.
            raise UsageError("the request cannot be sent: a header's name or value is not valid in HTTP") from None
        case httpx.RemoteProtocolError() if ": " in str(error):
            # Behind the colon its text quotes what cannot be read, and that may be a cookie, or a token in a location.
            what = str(error).partition(": ")[0]
            raise ConnectError(f"the connection to {address} broke: what came is not HTTP ({what})") from None
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            # Its text shows the url.
            raise UsageError(
                "the request cannot be sent: the auth or the HTTP client made its url one that is not http"
            ) from None
        case httpx.TransportError():
            raise ConnectError(f"the connection to {address} broke: {str(error) or type(error).__name__}") from error
        case httpx.DecodingError():
            raise DecodeError(f"the body of {address} cannot be unpacked: {error}", rule="SSE-4") from error
        case _:
            raise TransportError(f"{type(error).__name__}: {error}") from error


def _address(error: Exception) -> str | None:
    """Where the request went that failed; an auth may make some of its own, elsewhere."""
    with suppress(RuntimeError):
        return address_of(error.request.url) if isinstance(error, httpx.RequestError) else None
    return None


def _not_made(message: str) -> ConnectError:
    error = ConnectError(message)
    error.may_have_started = False
    return error
