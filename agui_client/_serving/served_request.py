"""The HTTP request that asked for a run, as functions of the application get it, and the exception that refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from agui_client.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """The HTTP request that asked for a run."""

    path: str
    """The path below the place where the app is mounted, such as "/", without a "/connect" at its end."""
    headers: Mapping[str, str] = field(repr=False)
    """The headers, with names in lower case; those of one name as one list, with commas between them."""
    scope: Mapping[str, Any] = field(repr=False)
    """The ASGI scope, for everything else."""
    is_connect: bool = False
    """Whether the caller wants a thread again, rather than a run."""
    caller: Any = field(default=None, repr=False)
    """The value that the function `authorize=` of the app returned; None without one. Where runs are stored, it is what
    `Keeping(caller=)` makes of that, or the owner."""
    owner: str = ""
    """The owner of all that the app keeps of this caller; empty if there is none."""

    def as_stored(self) -> ServedRequest:
        """Return the request as each process has it that carries the run out: without headers and scope."""
        return replace(self, headers=_NotStored("headers"), scope=_NotStored("scope"))


class _NotStored(Mapping[str, Any]):
    """Refuses to be read: the headers or the scope of a request whose run is stored.

    Otherwise a function that reads them would fail when the first run is taken over, and not at its first request.

    Args:
        name: The name of the attribute.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> NoReturn:
        self._refuse()

    def __iter__(self) -> Iterator[str]:
        self._refuse()

    def __len__(self) -> int:  # noqa: PLE0303 - it does not return
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(
            f"request.{self._name} cannot be read where runs are stored: another process may continue the run, and "
            "headers may have secrets; have authorize= read them, keep what is needed of the caller with "
            "Keeping(caller=), which is request.caller then, and make tokens for upstreams of that"
        )


class RequestRefusedError(Exception):
    """Raised by a function that authorizes requests or chooses agents, to refuse a request.

    Args:
        status: The HTTP status, such as 403.
        reason: The reason, which the caller gets.
        headers: Further headers of the response.
    """

    def __init__(self, status: int, reason: object, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """The HTTP status."""
        self.reason = reason
        """The reason: text, or any JSON value."""
        self.headers: Mapping[str, str] = headers or {}
        """Further headers of the response."""
