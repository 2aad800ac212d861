"""The exception that refuses a request to a served agent."""

from __future__ import annotations

from collections.abc import Mapping


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
