"""Where runs are kept: in the memory of this process, or in a database that several processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agui_client.runs.records import RunFilter, RunInfo, RunKey
    from agui_client.runs.server_run import ServerRun


class RunKeeper(Protocol):
    """Begins, finds and ends runs, wherever they are kept."""

    @property
    def is_durable(self) -> bool:
        """Whether the runs outlive this process."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the runs are in use."""
        ...

    def check_name(self, name: str, /) -> None:
        """Check that an agent can be given a name now.

        Raises:
            UsageError: Another agent has it, or it comes too late.
        """
        ...

    async def open(self) -> None:
        """Begin to carry out runs, also those that ended processes have left. Idempotent."""
        ...

    async def check(self) -> None:
        """Check that runs can begin now.

        Raises:
            RunsUnavailableError: The database does not answer.
        """
        ...

    async def begin(self, run: ServerRun, /) -> ServerRun:
        """Begin a run, and return it, or what follows it in this process.

        Raises:
            RequestRepeatedError: The run answers what another run of the thread has answered.
            RunInProgressError: A run of the thread is going on.
        """
        ...

    async def get(self, key: RunKey, /) -> ServerRun | None:
        """Return a run; None if it is not kept."""
        ...

    async def latest(self, owner: str, thread_id: str, /) -> ServerRun | None:
        """Return the latest run of a thread; None if none is kept."""
        ...

    async def infos(self, wanted: RunFilter, limit: int, after: RunInfo | None = None, /) -> Sequence[RunInfo]:
        """Return a page of descriptions, those that began last first.

        Args:
            wanted: The runs.
            limit: The most to return.
            after: The last one of the page before; None for the first page.
        """
        ...

    async def overdue(self, seconds: float, /) -> Sequence[RunKey]:
        """Return the identities of runs of this process's agents that have waited for an answer for some seconds."""
        ...

    async def stop(self, run: ServerRun, /) -> None:
        """Stop a run that is going on, wherever it is carried out, and wait for its end."""
        ...

    async def delete(self, owner: str | None, /) -> int:
        """Stop the runs of an owner, or of all, and remove them; return their number."""
        ...

    def stop_all(self, within: float) -> None:
        """End the runs of this process, or leave them to others, without waiting for that.

        Args:
            within: Seconds within which functions that were begun may end.
        """
        ...

    async def aclose(self, within: float) -> None:
        """Do what `stop_all` does, and wait for it. Idempotent."""
        ...
