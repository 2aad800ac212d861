"""Credentials: the headers of each attempt, and their renewal when the server answers 401."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio.lowlevel
import httpx

from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._transport.clock import Clock

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"(?:[!-~\x80-\xff]+(?:[ \t]+[!-~\x80-\xff]+)*)?")
"""Names and values as RFC 9110, 5.1 and 5.5 have them: no line breaks, no blanks at the ends."""
_OF_THE_CONNECTION = frozenset({b"content-length", b"te", b"transfer-encoding"})
"""Headers about the framing of messages on the connection, which only the HTTP client knows."""

Headers: TypeAlias = Mapping[str, str]
"""Request headers."""
HeaderSource: TypeAlias = Headers | Callable[[], Headers | Awaitable[Headers]]
"""Request headers, or a function, sync or async, that returns them anew for each attempt."""
Refresh: TypeAlias = Callable[[], Headers | Awaitable[Headers | None] | None]
"""Renews credentials: returns the headers to use from now on, or None to have the header function called again."""


class Credentials:
    """The headers of an agent's requests.

    Args:
        headers: The agent's headers.
        on_unauthorized: Called once in a run when the server answers 401; a plain function is called in a thread.
    """

    def __init__(self, headers: HeaderSource | None, on_unauthorized: Refresh | None = None) -> None:
        if on_unauthorized is not None and not callable(cast("object", on_unauthorized)):
            raise UsageError(f"on_unauthorized is a function, not a {type(on_unauthorized).__name__}")
        self._headers, self._on_unauthorized = headers, on_unauthorized
        self._renewed: Headers = {}
        self.generation = 0
        """The number of times they were renewed."""
        self._lock: tuple[object, anyio.Lock] | None = None

    @property
    def can_refresh(self) -> bool:
        """Whether they can be renewed."""
        return self._on_unauthorized is not None

    async def headers(self, run_headers: Headers | None, clock: Clock, *, is_renewed: bool) -> httpx.Headers:
        """Return the headers of one attempt.

        Args:
            run_headers: The run's own, which stand over the agent's.
            clock: Limits the time a header function takes.
            is_renewed: Whether this run had them renewed; then the renewed ones stand over the run's own, too.

        Raises:
            UsageError: They are not valid headers.
        """
        given = self._headers
        own: Headers | None = await clock.wait_for_caller(_called(given)) if callable(given) else given
        layers = (own, run_headers, self._renewed) if is_renewed else (own, self._renewed, run_headers)
        return _merged(layers)

    async def refresh(self, clock: Clock, refused: int) -> None:
        """Renew them for this run and all later ones, of this agent and its clones.

        Args:
            clock: Limits the time it takes.
            refused: The generation that the server refused; nothing happens if it is renewed already.
        """
        await clock.wait_for_caller(self._refresh(refused))

    async def _refresh(self, refused: int) -> None:
        from agui_client._concurrency import call_aside

        assert self._on_unauthorized is not None
        # Runs that are refused at once renew once: a token for renewing is often good for one use.
        async with self._lock_here():
            if self.generation != refused:
                return
            renewed: Any = await call_aside(self._on_unauthorized, "on_unauthorized")
            if renewed is not None:
                _merged((renewed,))
                self._renewed = renewed
            self.generation += 1

    def _lock_here(self) -> anyio.Lock:
        """Return the lock of the running event loop: two loops cannot share one."""
        loop: object = anyio.lowlevel.current_token().native_token
        if self._lock is None or self._lock[0] is not loop:
            self._lock = (loop, anyio.Lock())
        return self._lock[1]


async def _called(function: Callable[[], Any]) -> Any:
    given = function()
    return await given if inspect.isawaitable(given) else given


def _merged(layers: tuple[Headers | None, ...]) -> httpx.Headers:
    merged = httpx.Headers()
    try:
        for layer in layers:
            merged.update(httpx.Headers(layer))
    except (TypeError, ValueError, AttributeError) as error:
        # The exception's own text may show a header's value.
        raise UsageError(f"headers are a mapping from names to ASCII text: {type(error).__name__}") from None
    # HTTP/1 refuses such headers late, and HTTP/2 at the cost of a shared connection.
    for name, value in merged.raw:
        if not _NAME.fullmatch(name):
            # The error does not show it: it may be a value that took the place of the name.
            raise UsageError("a header's name holds more than letters, digits and hyphens, or is empty")
        if not _VALUE.fullmatch(value):
            raise UsageError(f"the value of the header {name.decode()} holds a control character, or blanks at an end")
        if name.lower() in _OF_THE_CONNECTION:
            raise UsageError(f"the header {name.decode()} is the HTTP client's to set; leave it out")
    return merged
