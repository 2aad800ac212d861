"""The whole suite on `fast_client`: `AGUI_CLIENT_FAST=1 pytest tests/core/transport tests/core/verbs`.

Every agent that would make an HTTP client of its own makes this one, on asyncio; on trio it makes httpx's, as always.
"""

from __future__ import annotations

import asyncio

import httpx

from agui_client._core.transport.clients import Clients
from agui_client.fast import fast_client

UNLIKE = {
    "broken chunk": "a response whose framing is broken in the read that brought its head is lost whole",
    "size of a chunk": "as above",
    "trailer after the end": "as above",
    "gzip broken": "what was packed well and came in one read with what was not is lost",
    "deflate broken": "as above",
    "test_what_is_not_http_is_an_error": "aiohttp's reasons have other words",
    "test_no_library_below_logs": "about the log of httpcore",
    "test_connections_that_are_there_need_no_look_up": "there is no look-up of our own before httpx's",
}
"""Parts of the names of tests that fail there, and the reasons."""


def use_fast_client() -> None:
    """Make it the client of agents that were given none."""
    make = Clients._made

    def make_fast(self: Clients) -> httpx.AsyncClient:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return make(self)
        if self._given is not None:
            return make(self)
        self._given = fast_client
        try:
            return make(self)
        finally:
            self._given = None

    Clients._made = make_fast  # type: ignore[method-assign]
