"""Auth flows that read responses: an event stream is left to the run, or its events would come all at its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import closing

import httpx

from agui_client._pipeline.transport.response import is_event_stream


def streaming(auth: httpx.Auth) -> httpx.Auth:
    """An auth that does the same, and never has an event stream read for it.

    Args:
        auth: The caller's; one with an asynchronous flow of its own reads what it wants, and is returned as it is.
    """
    reads_all = auth.requires_response_body and type(auth).async_auth_flow is httpx.Auth.async_auth_flow
    return _Streaming(auth) if reads_all else auth


class _Streaming(httpx.Auth):
    def __init__(self, auth: httpx.Auth) -> None:
        self._auth = auth

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """What httpx's own does, but for event streams."""
        if self._auth.requires_request_body:
            await request.aread()
        with closing(self._auth.auth_flow(request)) as flow:
            following = next(flow)
            while True:
                response = yield following
                if not is_event_stream(response):
                    await response.aread()
                try:
                    following = flow.send(response)
                except StopIteration:
                    return
