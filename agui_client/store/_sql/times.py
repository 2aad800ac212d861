"""The times with which a process uses a database of threads or runs; it needs no extra."""

from __future__ import annotations

from typing import NamedTuple

from agui_client._core.transport.timeouts import check_number, check_seconds


class StoreTimes(NamedTuple):
    """The times with which a process uses a database, in seconds."""

    lease: float = 5.0
    """The time after which others take what a process has that gave no sign of life."""
    hung_after: float = 60.0
    """The time after which an event loop that has not turned is taken for hung."""
    patience: float = 120.0
    """The time for which operations wait while the database is away."""

    def check(self) -> None:
        """Check times that a caller gave.

        Raises:
            UsageError: One of them is no such number.
        """
        check_seconds("lease", self.lease)
        check_seconds("hung_after", self.hung_after)
        check_number("patience", self.patience, least=0)
