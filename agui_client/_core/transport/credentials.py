"""Credentials: the headers of each attempt, and their renewal when the server responds with 401."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
import httpx

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.secrets import is_secret_header
from agui_client.errors import HTTPStatusError, UsageError

if TYPE_CHECKING:
    from agui_client._core.transport.clock import Clock

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"(?:[!-~\x80-\xff]+(?:[ \t]+[!-~\x80-\xff]+)*)?")
"""Names and values as RFC 9110, 5.1 and 5.5 have them: no line breaks, no blanks at the ends."""
_OF_THE_CONNECTION = frozenset({b"content-length", b"te", b"transfer-encoding"})
"""Headers about the framing of messages on the connection, which only the HTTP client knows."""
_CREDENTIALS = frozenset({"authorization", "cookie"})
_TURN_SECONDS = 0.02
"""Seconds between two looks at whether another run has renewed the credentials."""

Headers: TypeAlias = Mapping[str, str]
"""Request headers."""
HeaderSource: TypeAlias = Headers | Callable[[], Headers | Awaitable[Headers]]
"""Request headers, or a function, sync or async, that returns them anew for each attempt."""


@dataclass(frozen=True, slots=True)
class UnauthorizedContext(Record):
    """A request whose response was 401, for `on_unauthorized`."""

    error: HTTPStatusError
    """The response: status, body and headers."""
    attempt: int
    """The number of the attempt within its run, from 1."""
    headers: Headers = field(repr=False)
    """The headers that were sent, by names in lower case, and with them the token that was refused."""


Renewed: TypeAlias = Headers | Awaitable[Headers | None] | None
"""The headers to use from now on, or None to have the header function called again."""
Refresh: TypeAlias = Callable[[], Renewed] | Callable[[UnauthorizedContext], Renewed]
"""Renews credentials; takes an `UnauthorizedContext` if it wants."""


class Credentials:
    """One set of credentials: the headers of requests, renewed together.

    Args:
        on_unauthorized: Called once in a run when the server responds with 401; a plain function is called in a thread.
    """

    def __init__(self, headers: HeaderSource | None, on_unauthorized: Refresh | None = None) -> None:
        if on_unauthorized is not None and not callable(on_unauthorized):
            raise UsageError(f"on_unauthorized is a function, not a {type(on_unauthorized).__name__}")
        if not callable(headers):
            _merged(headers)  # now, where the headers stand in the program, rather than with the first run
        self._headers, self._on_unauthorized = headers, on_unauthorized
        self._renewed: Headers | None = None
        # By number, and not by comparing headers: renewed ones may be equal to those before.
        self.generation: int = 0
        """The number of times they were renewed."""
        self._lock = Lock()

    def __reduce__(self) -> tuple[Callable[..., Credentials], tuple[object, ...], dict[str, object]]:
        # Another process renews them by itself: a lock cannot be carried there.
        return Credentials, (self._headers, self._on_unauthorized), {"_renewed": self._renewed}

    @property
    def are_renewable(self) -> bool:
        """Whether there is a function that renews them."""
        return self._on_unauthorized is not None

    async def headers(self, run_headers: Headers | None, clock: Clock) -> httpx.Headers:
        """Return the headers of one attempt.

        Args:
            run_headers: The run's own, which stand over these.
            clock: Limits the time a header function takes.

        Raises:
            UsageError: They are not valid headers.
        """
        given = self._headers
        own: Headers | None = await clock.wait_for_caller(_called(given)) if callable(given) else given
        return _merged(own, self._renewed, run_headers)

    def can_renew(self, run_headers: Headers | None) -> bool:
        """Return whether these were refused, and not credentials that a run brought itself, and can be renewed."""
        names = {name.lower() for name in self._renewed or ()}
        if not callable(self._headers):
            names |= {name.lower() for name in self._headers or ()}
        ours = _CREDENTIALS | set(filter(is_secret_header, names))
        return self._on_unauthorized is not None and ours.isdisjoint(map(str.lower, run_headers or ()))

    async def refresh(self, generation: int, context: UnauthorizedContext) -> None:
        """Renew them, for all runs that use this set.

        Args:
            generation: The generation that the server refused; nothing happens if it is renewed already.
            context: What was refused.
        """
        from agui_client._core.ground.concurrency import call_aside

        renew = cast("Callable[..., Any]", self._on_unauthorized)
        # Runs that are refused at once renew once, in whichever threads and event loops they are.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - an event belongs to one event loop
            await anyio.sleep(_TURN_SECONDS)
        try:
            if self.generation != generation:
                return
            step = partial(renew, context) if _takes_context(renew) else renew
            renewed: Any = await call_aside(step, "on_unauthorized")
            if renewed is not None:
                # Checked before they are kept: headers that cannot be sent would fail every later run as well.
                _merged(renewed)
                self._renewed = renewed
            self.generation += 1
        finally:
            self._lock.release()


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        shown = inspect.signature(function)
        shown.bind()
    except TypeError:
        return True
    except ValueError:  # It has none, as `dict`.
        return False
    return "context" in shown.parameters


async def _called(function: Callable[[], Any]) -> Any:
    given = function()
    return await given if inspect.isawaitable(given) else given


def _check_texts(headers: object) -> None:
    """Check that headers are text; the error shows no value, and no name that may be one.

    Raises:
        UsageError: They are not a mapping, or one of them is something else.
    """
    what = "headers are a mapping from names to ASCII text"
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise UsageError(f'{what}, such as {{"Authorization": "Bearer ..."}}, not a {type(headers).__name__}')
    for name, value in cast("Mapping[object, object]", headers).items():
        is_name = isinstance(name, str) and name.isascii() and _NAME.fullmatch(name.encode())
        shown = name if is_name else "one of a wrong name"
        if not isinstance(value, str | bytes):
            raise UsageError(f"{what}, and {shown} is of type {type(value).__name__}")
        if isinstance(value, str) and not value.isascii():
            raise UsageError(f"{what}, and {shown} has other characters")


def _merged(*layers: Headers | None) -> httpx.Headers:
    merged = httpx.Headers()
    # httpx decodes all headers anew at each step, so absent layers, which nearly all are, are left out.
    given = [layer for layer in layers if layer is not None]
    for layer in given:
        _check_texts(layer)
    try:
        for layer in given:
            merged.update(layer)
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
