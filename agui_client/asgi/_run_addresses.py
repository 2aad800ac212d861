"""The addresses of a served agent whose runs are kept.

POST to the app's path begins a run, or follows the one of that id; with `Last-Event-ID`, it continues behind that
event. Below it, `/connect` sends the thread and follows the run that is in progress, `/stop` stops a run, `/answer`
answers one that waits, and `/runs` lists the caller's runs. The last three take and return JSON. An empty stream of
`/connect` says that there is nothing to send.

To change

- the addresses of runs that are kept, and their statuses: `RunAddresses` here; `AgentApp` asks it for the chunks of a
  response, and `ServedAgent.enter` enters the run for its task
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import (
    AsyncExitStack,
    ExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import ResumeEntry, RunAgentInput
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import to_json

from agui_client._core.agent.run_records import (
    Place,
    RunFilter,
    RunInfo,
    RunKey,
    RunsClosedError,
    RunStatus,
    RunsUnavailableError,
    TextRefusedError,
    cursor_of,
    read_cursor,
)
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.continuing import READS_ONLY
from agui_client._core.run.subagents import JOURNAL, has_journal
from agui_client._core.verbs.sse import frames_of
from agui_client._core.verbs.team_journals import open_calls, state_with
from agui_client._serving.connecting import check_wants_run
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client.asgi._request_body import command_validator, parsed
from agui_client.errors import RequestExpiredError, RequestRepeatedError, RunInProgressError, UsageError
from agui_client.store._runs.runs import kept_by

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client._core.agent.run_records import StoredRequest
    from agui_client.asgi._served_agent import ServedAgent
    from agui_client.store import Runs
    from agui_client.store._runs.kept_runs import RunService
    from agui_client.store._runs.run_log import RunLog
    from agui_client.store._runs.server_run import Enter, ServerRun

Command: TypeAlias = Callable[["ServedRequest", bytes], Awaitable[Any]]
"""Responds to a request and its body with JSON."""

_CANNOT_CONNECT = 405
_LONGEST_ID = 256
"""The characters of the longest id of a run, which is in the cursor of each event."""
_MOST_LATEST = 50
"""The latest runs of a thread among which the one that waits is looked for."""


class _Last(BaseModel):
    """The description of the last run of a page."""

    model_config = ConfigDict(alias_generator=to_camel)

    thread_id: str
    run_id: str
    begun_at: AwareDatetime


class _Named(BaseModel):
    """The body of a command: it names a run, or a page of runs."""

    model_config = ConfigDict(alias_generator=to_camel)

    thread_id: str | None = None
    run_id: str | None = None
    resume: list[ResumeEntry] = []
    status: RunStatus | None = None
    limit: int = Field(default=50, ge=1, le=1000)
    after: _Last | None = None


_validated = command_validator(_Named)


class RunAddresses:
    """Handles the requests to a served agent whose runs are kept.

    Args:
        served: The agent.
        how: The name of the agent, and what becomes of its runs; the rest of it is put in for each run.
        max_body_bytes: The largest request body that is accepted, in bytes.

    Raises:
        UsageError: Callers cannot stop the runs by leaving, or the name of the agent is taken.
    """

    PATHS = ("/stop", "/answer", "/runs")
    """The ends of the paths of requests whose responses are JSON."""

    def __init__(self, runs: Runs, served: ServedAgent, how: StoredRequest, *, max_body_bytes: int) -> None:
        kept = kept_by(runs)
        if kept.keeper.is_durable and how.when_left == "stop":
            what = 'when_left="stop" is for runs of one process: in a database, nobody knows the callers of the others'
            raise UsageError(what)
        self.kept = kept
        """The keeper of the runs."""
        self._runs, self._served, self._how = runs, served, how
        self._max_body_bytes = max_body_bytes
        kept.name(how.agent, self)
        commands = zip(self.PATHS, (self._stop, self._answer, self._list), strict=True)
        self.commands: Mapping[str, Command] = {path: _reached(command) for path, command in commands}
        """The functions that respond to requests with JSON, by the ends of their paths."""

    @asynccontextmanager
    async def open(self, request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Follow a run, which may begin with this, as a block with the chunks of the response.

        Raises:
            RequestRefusedError: There is no such run, or it cannot begin.
        """
        with _reaching():
            run, place, latest = await self._run_of(request, input)
        if run is None:
            async with self._replay(request, input, latest) as chunks:
                yield chunks
            return
        with run.log.followed(), ExitStack() as stack:
            with _reaching():
                run = await self.kept.opened(run)
            stack.enter_context(run.log.followed())
            with _reaching(), _missing("no such run is kept here, or not so many events of it"):
                run.log.check(place or Place(0))
            if place is None and run.log.before is None:
                run.log.before = await self._beginning(request, input, run.log.key.run_id)
            async with aclosing(_chunks(self.kept, run, place, input.messages)) as chunks:
                yield chunks

    async def _run_of(
        self, request: ServedRequest, input: RunAgentInput
    ) -> tuple[ServerRun | None, Place | None, ServerRun | None]:
        """Find or begin the run that a request follows.

        Returns:
            The run, and the place behind the events that the caller has; None if it has nothing of the thread. If no
            run is in progress in a thread that is asked for, None, None and its latest run.
        """
        owner = request.owner
        cursor = request.headers.get("last-event-id", "")
        if cursor:
            return *(await self._at(cursor, owner, input.thread_id)), None
        key = RunKey(owner, input.thread_id, input.run_id)
        if not request.is_connect:
            check_wants_run(request)
            if not 0 < len(input.run_id) <= _LONGEST_ID:
                raise RequestRefusedError(422, f"the runId of a run that is kept has 1 to {_LONGEST_ID} characters")
            # A database finds out with the new row whether the run is stored already.
            known = None if self.kept.keeper.is_durable else await self.kept.keeper.get(key)
            run = known or await self._begin(key, request, input)
            _check_same(run, input)
            return run, Place(0), None
        # A caller whose stream was cut, and who has no cursor, names its run, which may have ended meanwhile.
        if (named := await self.kept.keeper.get(key)) is not None:
            return named, None, None
        latest = await self.kept.keeper.latest(owner, input.thread_id)
        if latest is not None and await latest.log.is_followable():
            return latest, None, None
        return None, None, await self._shown(owner, input.thread_id)

    async def _shown(self, owner: str, thread_id: str) -> ServerRun | None:
        """Return the run that shows a thread in which none is in progress: the latest, or the one that waits again."""
        # One that was refused is kept no longer, so there may be another latest one.
        latest = await self.kept.keeper.latest(owner, thread_id)
        if latest is None or not latest.input.resume or latest.log.status not in (RunStatus.FAILED, RunStatus.STOPPED):
            return latest
        infos = await self.kept.keeper.infos(RunFilter(owner, thread_id), _MOST_LATEST)
        waiting = next((each.key for each in infos if each.status is RunStatus.WAITING), None)
        return (await self.kept.keeper.get(waiting) if waiting is not None else None) or latest

    def enter_as(self, stored_request: StoredRequest, /) -> Enter:
        """Return what enters a run that a request asked for."""
        return partial(self._served.enter, ServedRequest(headers={}, scope={}, **stored_request.about))

    # --- inside

    async def _begin(self, key: RunKey, request: ServedRequest, input: RunAgentInput) -> ServerRun:
        how = self._how
        enter: Enter = partial(self._served.enter, request)
        if self.kept.keeper.is_durable:
            input = await self._with_journal(request, input)
            dumped = _dumped(input)
            about = {"path": request.path, "caller": request.caller, "owner": request.owner}
            how = replace(how, about=about, input=dumped, asked=_asked(dumped))
            # The run is the same in each process: the headers, which may have secrets, are not stored.
            enter = self.enter_as(how)
        try:
            return await self.kept.begin(
                key,
                input,
                enter,
                when_left=how.when_left,
                expose_errors=how.expose_errors,
                stored_request=how,
                input_size=len(to_json(input)),
            )
        except (RunInProgressError, RunsClosedError) as error:
            # The same request may have come before, also to another process.
            with suppress(RunsClosedError):
                if (run := await self.kept.keeper.get(key)) is not None:
                    return run
            raise _refusal_of(error) from error
        except RequestRepeatedError as error:
            raise _refusal_of(error) from error

    async def _with_journal(self, request: ServedRequest, input: RunAgentInput) -> RunAgentInput:
        """Return an input with the journal of the team's run that it continues, which any process may have executed.

        A new prompt comes without a look at what was there before.

        Raises:
            RequestRefusedError: A call that waits is another one in the input.
        """
        continues = bool(input.resume) or (bool(input.messages) and input.messages[-1].role != "user")
        latest = await self.kept.keeper.latest(request.owner, input.thread_id) if continues else None
        left = None if latest is None else latest.log.left_input
        state: Any = None if left is None else left.state
        if latest is None or left is None or not has_journal(state):
            return input
        by = latest.stored_request
        if by is None or (by.agent, by.about.get("path")) != (self._how.agent, request.path):
            return input
        try:
            state = state_with(state[JOURNAL], open_calls(left.messages), input.state, input.messages)
        except UsageError as error:
            raise _refusal_of(error) from error
        return input.model_copy(update={"state": state})

    async def _beginning(
        self, request: ServedRequest, input: RunAgentInput, run_id: str
    ) -> tuple[Sequence[Message], Any] | None:
        """Return what a run began with, as its stored thread has it, which another process may have open."""
        reads = READS_ONLY.set(True)
        try:
            async with AsyncExitStack() as stack:
                agent = await self._served.choose(request, input, stack)
                call = await agent.stored_call(run_id)
                return None if call is None else call.beginning
        finally:
            READS_ONLY.reset(reads)

    async def _at(self, cursor: str, owner: str, thread_id: str) -> tuple[ServerRun, Place]:
        """Return the run and the place of a cursor."""
        try:
            run_id, place = read_cursor(cursor)
        except UsageError as error:
            raise RequestRefusedError(422, f"Last-Event-ID: {error}") from None
        run = await self.kept.keeper.get(RunKey(owner, thread_id, run_id))
        if run is None:
            raise RequestRefusedError(404, f"no run {run_id!r} of thread {thread_id!r} is kept here")
        return run, place

    @asynccontextmanager
    async def _replay(
        self, request: ServedRequest, input: RunAgentInput, latest: ServerRun | None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Send a thread in which no run is in progress: as its agent sends it, or else its latest run that is kept.

        Pages connect before their thread has a run, and an empty stream tells them that there is nothing to send.
        """
        async with AsyncExitStack() as stack:
            try:
                events = await stack.enter_async_context(self._served.open(request, input))
            except RequestRefusedError as refused:
                if refused.status != _CANNOT_CONNECT:
                    raise
            else:
                async with aclosing(frames_of(events)) as frames:
                    yield frames
                return
        if latest is None:
            yield _no_chunks()
            return
        with latest.log.followed():
            async with aclosing(_chunks(self.kept, latest, None, input.messages)) as chunks:
                yield chunks

    async def _stop(self, request: ServedRequest, body: bytes) -> Any:
        run, _ = await self._named(request, body)
        key = run.log.key
        return (await self._runs.stop(key.run_id, thread_id=key.thread_id, owner=key.owner)).to_dict()

    async def _answer(self, request: ServedRequest, body: bytes) -> Any:
        run, resume = await self._named(request, body)
        key = run.log.key
        try:
            info = await self._runs.answer(key.run_id, resume, thread_id=key.thread_id, owner=key.owner)
        except UsageError as error:
            raise _refusal_of(error) from error
        return info.to_dict()

    async def _list(self, request: ServedRequest, body: bytes) -> Any:
        asked = await parsed(body, _validated, max_bytes=self._max_body_bytes)
        owner, last = request.owner, asked.after
        after = None
        if last is not None:
            after = RunInfo(last.run_id, last.thread_id, owner, RunStatus.RUNNING, last.begun_at, None, 0)
        infos = await self._runs.list(owner=owner, status=asked.status, limit=asked.limit, after=after)
        return [each.to_dict() for each in infos]

    async def _named(self, request: ServedRequest, body: bytes) -> tuple[ServerRun, list[ResumeEntry]]:
        """Return the run that a command is about, and the answers in it.

        Raises:
            RequestRefusedError: The caller has no such run, or the command names none.
        """
        named = await parsed(body, _validated, max_bytes=self._max_body_bytes)
        owner = request.owner
        if named.run_id is not None:
            with _missing("no such run is kept here"):
                return await self.kept.find(named.run_id, named.thread_id, owner), named.resume
        if named.thread_id is None:
            raise RequestRefusedError(422, "name a run with threadId, runId or both")
        latest = await self.kept.keeper.latest(owner, named.thread_id)
        if latest is None:
            raise RequestRefusedError(404, f"no run of thread {named.thread_id!r} is kept here")
        return latest, named.resume


def _refusal_of(error: UsageError) -> RequestRefusedError:
    """Return the response to a request that runs refuse."""
    match error:
        case RunInProgressError():
            what = "a run is in progress in this thread: follow it at /connect, stop it at /stop, or use another thread"
            return RequestRefusedError(409, what, {"retry-after": "1"})
        case RequestExpiredError():
            return RequestRefusedError(410, str(error))
        case RequestRepeatedError():
            return RequestRefusedError(409, str(error))
        case RunsClosedError():
            return RequestRefusedError(503, "the server is shutting down", {"retry-after": "1"})
        case _:
            return RequestRefusedError(422, str(error))


def _check_same(run: ServerRun, input: RunAgentInput) -> None:
    """Check that a request for a run that has begun asks for the same.

    Raises:
        RequestRefusedError: It does not.
    """
    if run.input is input:
        return
    begun = run.stored_request.asked if run.stored_request is not None else ""
    if (begun or _asked(_dumped(run.input))) != _asked(_dumped(input)):
        what = f"run {quoted(input.run_id)} of this thread was begun with other messages, tools or answers"
        raise RequestRefusedError(409, f"{what}; a new request needs a runId of its own")


def _dumped(input: RunAgentInput) -> dict[str, Any]:
    return input.model_dump(mode="json", by_alias=True, exclude_none=True)


def _asked(dumped: Mapping[str, Any]) -> str:
    """Return the hash of what an input asks for, without the ids of messages, which a page may make anew."""
    messages = [{**each, "id": None} for each in dumped["messages"]]
    asked = [messages, dumped.get("tools") or [], dumped.get("resume") or []]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@contextmanager
def _reaching() -> Generator[None]:
    """Respond with 503 if runs cannot be reached now, and with 422 to a text that their database refuses."""
    try:
        yield
    except TextRefusedError as error:
        raise _refusal_of(error) from None
    except RunsUnavailableError as error:
        raise RequestRefusedError(503, "the runs cannot be reached now", {"retry-after": "1"}) from error


def _reached(command: Command) -> Command:
    """Return a command that responds with 503 if the database of runs cannot be reached."""

    async def reached(request: ServedRequest, body: bytes) -> Any:
        """Call the command."""
        with _reaching():
            return await command(request, body)

    return reached


@contextmanager
def _missing(what: str) -> Generator[None]:
    """Respond with 404 to a `UsageError` about a run that is not kept, as a block."""
    try:
        yield
    except RunsClosedError:
        raise  # the run is kept, and continues elsewhere
    except UsageError:
        raise RequestRefusedError(404, what) from None


async def _chunks(
    kept: RunService, run: ServerRun, place: Place | None, theirs: Sequence[Message]
) -> AsyncGenerator[bytes]:
    """Yield the frames of a run with their cursors, as many at once as are there, in whichever process it continues.

    Args:
        kept: The keeper of the runs.
        place: The place behind the events that the caller has; None if it gets the thread.
        theirs: The messages that the caller has.
    """
    with suppress(UsageError, RunsUnavailableError):  # the response ends without a terminal event
        while True:
            log = run.log
            try:
                with log.followed():
                    if place is None:
                        first, messages, state = await log.beginning(theirs)
                        place = Place(1, log.attempt)
                        # Only the last frame has the cursor: a caller who is cut off before it has to connect again.
                        yield b"%b%bid: %b\n%b" % (first, messages, _cursor(log, place), state)
                    while frames := await log.read(place):
                        yield b"".join(b"id: %b\n%b" % (_cursor(log, at), each) for at, each in frames)
                        place = frames[-1][0]
            except RunsClosedError as error:
                left = error
            else:
                return
            run = await kept.elsewhere(run, left)


async def _no_chunks() -> AsyncGenerator[bytes]:
    for chunk in list[bytes]():
        yield chunk


def _cursor(log: RunLog, place: Place) -> bytes:
    return cursor_of(log.key.run_id, place).encode()
