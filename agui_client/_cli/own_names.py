"""The guard of servers that listen on this machine alone: a page of another site gets no response from them.

A name that such a site owns may lead to 127.0.0.1 (DNS rebinding), so that a browser takes this server for a part of
the site. The names in `Host` and `Origin` of the request tell.

To change

- the names by which a server of the command line may be addressed: `TrustedHosts` here; `serve_app` in `_cli/serve.py`
  puts it in front, `--allow-host` adds names
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from agui_client._core.transport.in_process import ASGIApp, Receive, Send

_REFUSAL = (
    b"This server is for this machine only, and the request names another one in Host or Origin; "
    b"`agui serve --allow-host NAME` allows a name.\n"
)


class TrustedHosts:
    """Passes on HTTP requests to an app that name this machine, or a name that is allowed, and refuses others with 403.

    Args:
        allowed: Further names, as in a `Host` header without the port.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str] = ()) -> None:
        self._app, self._allowed = app, frozenset(each.lower() for each in allowed)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (the ASGI interface)."""
        if scope["type"] != "http" or self._is_allowed(scope):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_REFUSAL)).encode())]
        await send({"type": "http.response.start", "status": int(HTTPStatus.FORBIDDEN), "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSAL})

    def _is_allowed(self, scope: Mapping[str, Any]) -> bool:
        given = [(name, value.decode("latin-1")) for name, value in scope["headers"] if name in (b"host", b"origin")]
        names = [f"//{value}" if name == b"host" else value for name, value in given]
        with suppress(ValueError):
            return bool(names) and all(self._is_own(urlsplit(each).hostname or "") for each in names)
        return False

    def _is_own(self, name: str) -> bool:
        return name in self._allowed or is_loopback(name)


def is_loopback(name: str) -> bool:
    """Return whether a name or an address of a host is this machine's own, which no other machine reaches."""
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost"
