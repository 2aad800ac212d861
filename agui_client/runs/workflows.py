"""DBOS, which carries out each attempt at a run as a workflow; the only module that imports it."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, Protocol

import anyio.to_thread
import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, WorkflowSerializationFormat
from sqlalchemy import event

from agui_client.runs.run_database import Claim
from agui_client.runs.run_tables import url_of

_VERSION = "agui-client-1"
"""The version of the application for DBOS, which recovers workflows of the same version only."""
_LAST_STEP_SECONDS = 5.0
"""The longest wait for the last steps of workflows when DBOS is ended."""
_logger = logging.getLogger("agui_client.runs")


class Engine(Protocol):
    """Carries out runs in this process."""

    async def carry_out(self, claim: Claim, /) -> None:
        """Carry out an attempt at a run, if this process has claimed it."""
        ...


class Workflows:
    """The workflows of the attempts at runs.

    Args:
        url: The URL of the database.
    """

    def __init__(self, url: sa.URL) -> None:
        self._url, self._owns_dbos = url, False
        self._going_on: set[asyncio.Future[Any]] = set()

    def launch(self, executor_id: str) -> None:
        """Launch DBOS in this event loop, unless the application has.

        Args:
            executor_id: The id of this process.
        """
        from dbos import _dbos  # pyright: ignore[reportPrivateUsage]

        own: Any = _dbos._dbos_global_instance  # pyright: ignore[reportPrivateUsage] # nothing public tells of it
        if own is not None and own._launched:
            theirs = url_of(own._config["system_database_url"])
            if theirs.set(drivername="") != self._url.set(drivername=""):
                what = f"the application's DBOS is on {theirs.render_as_string()}, and the workflows of runs with it"
                _logger.warning("%s; Runs(%r) has only their events", what, self._url.render_as_string())
            return
        config: DBOSConfig = {
            "name": "agui-client",
            "system_database_url": self._url.render_as_string(hide_password=False),
            "application_version": _VERSION,
            "executor_id": executor_id,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "ERROR",
        }
        if self._url.get_backend_name() == "sqlite":
            config["system_database_engine"] = _sqlite_engine(self._url)
        for handler in logging.getLogger("dbos").handlers:
            # Its stream is the stderr of the first launch, which may be closed: that of a test, for instance.
            if type(handler) is logging.StreamHandler:
                handler.stream = sys.stderr
        DBOS(config=config)
        DBOS.launch()
        self._owns_dbos = True

    async def start(self, claim: Claim) -> None:
        """Start the workflow of an attempt; called outside of other workflows, which would record it as a part."""
        with SetWorkflowID(_id_of(claim)):
            handle: Any = await DBOS.start_workflow_async(_run_workflow, *claim)
        # One that was recorded as ended before has no task.
        if (task := getattr(handle, "task", None)) is not None:
            self._going_on.add(task)
            task.add_done_callback(self._going_on.discard)

    async def end_cut(self, claim: Claim) -> None:
        """Note that an attempt was cut, as its process ended."""
        await DBOS.cancel_workflow_async(_id_of(claim))

    async def forget(self, claim: Claim) -> None:
        """Delete the workflows of a run.

        Args:
            claim: Its last attempt.
        """
        for attempt in range(1, claim.attempt + 1):
            await DBOS.delete_workflow_async(_id_of(claim._replace(attempt=attempt)))

    async def close(self) -> None:
        """End DBOS, unless it is the application's."""
        if self._owns_dbos:
            if self._going_on:
                # DBOS records the end of a workflow behind our function, in threads that it is about to end.
                await asyncio.wait(self._going_on, timeout=_LAST_STEP_SECONDS)
            await anyio.to_thread.run_sync(DBOS.destroy)


def _id_of(claim: Claim) -> str:
    """Return the id of the workflow of an attempt."""
    # Another attempt is another workflow: DBOS would compare its steps with those of the first, and the steps of tools
    # that use DBOS themselves need not come in the same order.
    return claim.workflow_id if claim.attempt == 1 else f"{claim.workflow_id}-{claim.attempt}"


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    """Return an engine for DBOS's tables, whose last changes may be lost if the machine loses power.

    All that a run needs to go on is in tables of ours, which are written to the disk before a run does the next thing.
    """
    # SQLite has one writer at a time: connections that wait for each other's locks take nearly twice as much CPU time.
    engine = sa.create_engine(url, hide_parameters=True, pool_size=1, max_overflow=0)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction] # the engine calls it
        """Set a connection up as DBOS does, but for the time of writing to the disk."""
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("busy_timeout=30000", "foreign_keys=ON", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")

    return engine


current: list[Engine] = []
"""The engine of this process, at most one: DBOS has one, too."""


@DBOS.workflow(name="agui_client.run", serialization_type=WorkflowSerializationFormat.PORTABLE)
async def _run_workflow(workflow_id: str, attempt: int) -> None:
    """Carry out an attempt at a run, unless the application's own DBOS has recovered it: then its lease decides."""
    if current:
        await current[0].carry_out(Claim(workflow_id, attempt))
