"""The runs that the server of an `HttpAgent` keeps, over HTTP: `agent.runs`.

The addresses are those of `asgi._run_addresses`, and the records those of the server's own `Runs`. A method with
`_sync` does the same in code without `await`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ag_ui.core import RunAgentInput
from anyio.from_thread import start_blocking_portal

from agui_client._core.agent.reconnect import LastEventId
from agui_client._core.agent.run_records import FollowedEvent, Place, RunInfo, cursor_of, status_of
from agui_client._core.ground.concurrency import iterated
from agui_client._core.ground.waiting import result_of
from agui_client._core.protocol.events import VALIDATOR
from agui_client._core.protocol.patch import parse_json
from agui_client._core.protocol.request import request_body
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.tools.interrupts import HOW_BY_ID, cover
from agui_client._core.transport.client import RUNS_HEADER, ClientRequest
from agui_client._core.transport.delivery import fetch
from agui_client._core.transport.numbered import NumberedFramer
from agui_client._core.transport.resuming import ResumableSource
from agui_client.errors import (
    HTTPStatusError,
    RequestExpiredError,
    RequestRepeatedError,
    RunInProgressError,
    RunNotFoundError,
    UsageError,
)

if TYPE_CHECKING:
    from agui_client._core.tools.interrupts import Resume
    from agui_client._core.transport.client import Transport
    from agui_client._core.transport.timeouts import Timeouts

__all__ = ["RunsClient"]

T = TypeVar("T")
Infos: TypeAlias = list[RunInfo]
"""Descriptions, in a class that has a method `list`."""

_PAGE = 1000
"""The most descriptions that a server sends at once."""
_KEEPS_NONE = (404, 405, 422)
"""Statuses of servers without kept runs at the address; an `agent_app` reads the request as an incomplete input."""


class RunsClient:
    """The caller's runs that the server of an agent keeps.

    Args:
        transport: The way to the agent.
        timeouts: The time limits of each request.
    """

    def __init__(self, transport: Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts = transport, timeouts

    async def list(self, *, status: str | None = None, limit: int = 50, after: RunInfo | None = None) -> list[RunInfo]:
        """List the caller's runs, those that began last first.

        Args:
            status: The status of the runs, a `RunStatus` or its text, such as "waiting"; None for any.
            limit: The most to return, up to 1000.
            after: The last run of the page before; None for the first page.

        Raises:
            UsageError: The server keeps no runs, or refuses the arguments.
            TransportError: No response arrived.
        """
        page = {"status": status_of(status), "limit": limit, "after": None if after is None else after.to_dict()}
        return await self._ask("runs", page, lambda infos: [*map(RunInfo.of_dict, infos)])

    async def info(self, run_id: str, *, thread_id: str | None = None) -> RunInfo:
        """Describe a run.

        Args:
            thread_id: The thread of the run; None for any.

        Raises:
            RunNotFoundError: The server keeps no such run.
            UsageError: It keeps several, in several threads, or no runs at all.
        """
        found, page = list[RunInfo](), await self.list(limit=_PAGE)
        while page:
            found += [each for each in page if each.run_id == run_id and thread_id in (None, each.thread_id)]
            page = await self.list(limit=_PAGE, after=page[-1]) if len(page) == _PAGE else []
        if not found:
            raise RunNotFoundError(f"no run {run_id!r} is kept there; runs.list() has those that are")
        if len(found) > 1:
            raise UsageError(f"{len(found)} runs have the id {run_id!r}; name one with thread_id=")
        return found[0]

    async def stop(self, run_id: str, *, thread_id: str | None = None) -> RunInfo:
        """Stop a run, and wait until it has ended; one that has ended stays as it is.

        Args:
            thread_id: The thread of the run; None for any.

        Returns:
            The description of the run.

        Raises:
            RunNotFoundError: The server keeps no such run.
            UsageError: It keeps no runs.
        """
        return await self._ask("stop", {"runId": run_id, "threadId": thread_id}, RunInfo.of_dict)

    async def answer(self, run_id: str, answers: Resume, *, thread_id: str | None = None) -> RunInfo:
        """Answer the interrupts of a run: another run of the thread begins, and continues with the answers.

        Args:
            run_id: The id of the run that waits.
            answers: The answers by interrupt id, as `resume=` of `agent.run_agent` takes them.
            thread_id: The thread of the run; None for any.

        Returns:
            The description of the run that has begun.

        Raises:
            InterruptsNotCoveredError: The answers do not answer each interrupt once.
            RequestExpiredError: The time to answer has passed.
            RequestRepeatedError: The run waits for no answer, or was answered.
            RunInProgressError: A run of the thread is in progress.
            RunNotFoundError: The server keeps no such run.
        """
        info = await self.info(run_id, thread_id=thread_id)
        # Of a run that waits no longer, the server says why.
        entries = cover(info.interrupts, answers, HOW_BY_ID) if info.interrupts else []
        resume = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in entries]
        named = {"runId": run_id, "threadId": info.thread_id, "resume": resume}
        return await self._ask("answer", named, RunInfo.of_dict)

    async def follow(
        self, run_id: str, *, after: str | None = None, thread_id: str | None = None
    ) -> AsyncGenerator[FollowedEvent]:
        """Iterate the events of a run, those that were there before and then those that come, until its end.

        A stream that is cut is taken up.

        Args:
            after: The cursor of the last event that you have; None begins with the first event.
            thread_id: The thread of the run; None for any.

        Yields:
            Each event, with its cursor.

        Raises:
            RunNotFoundError: The server keeps no such run, or not so many events of it.
            UsageError: It keeps no runs, or the cursor is none.
        """
        if thread_id is None:
            thread_id = (await self.info(run_id)).thread_id
        asked = RunAgentInput(
            thread_id=thread_id, run_id=run_id, messages=[], tools=[], context=[], state={}, forwarded_props={}
        )
        address = self._transport.below("connect")
        # At a cursor, as the same request without one might begin a run.
        first = ClientRequest(body=request_body(asked), url=address, timeouts=self._timeouts, last_event_id=after)
        if after is None:
            first = replace(first, last_event_id=cursor_of(run_id, Place(0)))
        source = _CursorSource(self._transport, first, asked)
        try:
            # The frames are read here, as the server's own `follow` reads them, and not the events made of them.
            while await source.read() is not None:
                while source.framer.frames:
                    cursor, data = source.framer.frames.popleft()
                    event = VALIDATOR.validate_json(data, by_alias=True, by_name=False)
                    yield FollowedEvent(cursor, event)
        except HTTPStatusError as refused:
            raise _error_of(refused) from refused
        finally:
            await source.aclose()

    def list_sync(self, *, status: str | None = None, limit: int = 50, after: RunInfo | None = None) -> Infos:
        """`list` for code without `await`."""
        return _waited(partial(self.list, status=status, limit=limit, after=after))

    def info_sync(self, run_id: str, *, thread_id: str | None = None) -> RunInfo:
        """`info` for code without `await`."""
        return _waited(partial(self.info, run_id, thread_id=thread_id))

    def stop_sync(self, run_id: str, *, thread_id: str | None = None) -> RunInfo:
        """`stop` for code without `await`."""
        return _waited(partial(self.stop, run_id, thread_id=thread_id))

    def answer_sync(self, run_id: str, answers: Resume, *, thread_id: str | None = None) -> RunInfo:
        """`answer` for code without `await`."""
        return _waited(partial(self.answer, run_id, answers, thread_id=thread_id))

    def follow_sync(
        self, run_id: str, *, after: str | None = None, thread_id: str | None = None
    ) -> Generator[FollowedEvent]:
        """`follow` for code without `await`."""
        return iterated(self.follow(run_id, after=after, thread_id=thread_id))

    async def _ask(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        transport = self._transport
        try:
            response = await fetch(transport, transport.below(path), self._timeouts, json.dumps(body).encode())
        except HTTPStatusError as refused:
            raise _error_of(refused) from refused
        try:
            return read(parse_json(response))
        except (ValueError, LookupError, TypeError) as error:
            what = "the response describes no runs that this version knows; does the agent at this address keep runs?"
            raise UsageError(f"{transport.address}: {what}") from error


class _CursorFramer(NumberedFramer):
    """Splits a stream as its base does, and keeps the frames with their ids."""

    def __init__(self, max_event_bytes: int) -> None:
        super().__init__(max_event_bytes, drops_known=True)
        self.frames = deque[tuple[str, str]]()
        """The ids and the data of the frames that were not taken yet."""

    def _came_before(self, own_id: str | None, data: str) -> bool:
        if super()._came_before(own_id, data):
            return True
        self.frames.append((own_id or "", data))
        return False


class _CursorSource(ResumableSource):
    """The events of a run that is followed."""

    def __init__(self, transport: Transport, request: ClientRequest, asked: RunAgentInput) -> None:
        plan = LastEventId().plan(request, asked, request.url, is_replay=True)
        super().__init__(transport, request, WarningLog(), plan)
        self._framer = self._numbered = self.framer = _CursorFramer(transport.max_event_bytes)


def _error_of(refused: HTTPStatusError) -> Exception:
    """Return the exception for a status of a server that keeps runs; the given one if it is no such."""
    if RUNS_HEADER not in refused.headers:
        if refused.status_code not in _KEEPS_NONE:
            return refused
        return UsageError(
            "no agent at this address keeps runs; check its path, or serve the agent with agui serve --store memory or "
            "agent_app(..., store=Store())"
        )
    try:
        detail = parse_json(refused.body.encode())["detail"]
    except (ValueError, LookupError, TypeError):
        detail = refused.body
    # A thread that is busy may be free later, as the server says; what was answered stays so.
    busy = RunInProgressError if "retry-after" in refused.headers else RequestRepeatedError
    kinds: dict[int, type[Exception]] = {
        HTTPStatus.NOT_FOUND: RunNotFoundError,
        HTTPStatus.CONFLICT: busy,
        HTTPStatus.GONE: RequestExpiredError,
        HTTPStatus.UNPROCESSABLE_ENTITY: UsageError,
    }
    kind = kinds.get(refused.status_code)
    return refused if kind is None else kind(str(detail))


def _waited(function: Callable[[], Awaitable[T]]) -> T:
    """Call an asynchronous function in an event loop of its own, and wait for its result."""
    with start_blocking_portal() as portal:
        return result_of(portal.start_task_soon(function))
