"""An ASGI app that serves an agent: one POST in, the events of one run out as SSE (SSE-1 … SSE-4, SSE-8).

To change

- requests and statuses of served agents: `AgentApp` here; `asgi/_request_body.py` reads and parses bodies
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import anyio
import anyio.to_thread
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.conversation.state_base import STATE_BASE_HEADER
from agui_client._core.ground.concurrency import whole
from agui_client._core.plugs import INCOMING_TRACES
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.hooks import takes_two
from agui_client._core.transport.client import RUNS_HEADER
from agui_client._core.transport.in_process import Receive, Send
from agui_client._core.transport.timeouts import check_number, check_seconds
from agui_client._core.verbs.caller_run import caller_events
from agui_client._core.verbs.signer import SignedInterrupts, UnverifiedError
from agui_client._core.verbs.sse import KEEP_ALIVE, frame_of, frames_of, sse_headers
from agui_client._core.verbs.team_journals import TeamJournals
from agui_client._serving.caller_input import ResumedRun, answering_run, continued_run, of_caller
from agui_client._serving.connecting import check_wants_run, connected_run, replayed_events
from agui_client._serving.divergence import check_on_divergence
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client._serving.stopping import SHUTTING_DOWN, STOP_WITHIN, Stopping, on_signals
from agui_client.asgi._request_body import check_length, input_of, is_large, read_body
from agui_client.errors import (
    RequestExpiredError,
    RequestRepeatedError,
    RunInProgressError,
    ThreadBusyError,
    ThreadStoreUnavailableError,
    UsageError,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agui_client._core.agent.run_records import OnCrash, WhenLeft
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._core.verbs.signer import Secret
    from agui_client._serving.divergence import OnDivergence
    from agui_client.asgi._run_addresses import Command, RunAddresses
    from agui_client.store import Store

DEFAULT_MAX_BODY_BYTES = 4 * 1024 * 1024
DEFAULT_BODY_TIMEOUT = 20.0
_LAST_SECONDS = 1.0
# One sentence for all that is signed, whatever was wrong with it.
_UNVERIFIED = (
    "an answer cannot be verified: it was signed with another secret, or for another caller or thread, or was changed "
    "since; what was asked before has to be asked again"
)
"""The time that a caller has to read the end of a response that the server has cancelled."""
_CONNECT = "/connect"
"""The end of the paths at which a thread is sent again."""
_SOON, _AFTER_OUTAGE = {"retry-after": "1"}, {"retry-after": "5"}
"""When a caller may try again: where another process may take it or a run may end, and where a database is away."""
_SINGLE = (b"authorization", b"content-type", b"host", b"origin")
"""Headers that a request has once."""
_logger = logging.getLogger("agui_client.asgi")


Chosen: TypeAlias = AbstractAgent | AbstractAsyncContextManager[AbstractAgent]
"""An agent, or a block with one."""
Chooser: TypeAlias = Callable[[ServedRequest, RunAgentInput], Chosen | Awaitable[Chosen]]
"""A function, sync or async, that returns the agent for a request; the block of an agent lasts as long as its run."""

Authorizer: TypeAlias = Callable[[str, str, Mapping[str, str]], object]
"""A function, sync or async, of the method, the path and the headers of a request; only what it returns a true value
for is answered."""


class AgentApp:
    """An ASGI app that serves an agent on every path: mount it in FastAPI or Starlette, or run it by itself.

    Args:
        agent: The agent; or a function, sync or async, of the `ServedRequest` and the `RunAgentInput` that returns one,
            for agents per user or per thread. The function may return an async context manager that gives the agent: it
            is left when the run is over, before the caller reads the run's last event, so that it can save the thread.
            See `served_run` for which conversation an agent goes on with.
        authorize: A function, sync or async, of the method, the path below the mount and the headers (names in lower
            case) of every request, called before anything of its body is read. A true value that it returns lets the
            request in, and a function that chooses the agent gets it as `request.caller`. Any other value, such as
            None, False or "", is answered with 401; raise `RequestRefusedError` for another status.
        owner_of: A function that returns the owner of a caller's threads and runs, a text, of what `authorize=`
            returned. By default that is the owner itself, if it is a text. Nobody can read, follow, list, stop or
            answer those of another owner over HTTP. `lambda caller: ""` has one owner for all callers.
        keep_alive: Seconds of silence after which a comment is sent, so that no proxy closes the connection.
        max_body_bytes: The largest request body that is accepted, in bytes; by default 4 MiB.
        body_timeout: Seconds that a request body may take to arrive; None for no limit.
        expose_errors: Whether callers get the class and the text of exceptions; otherwise they get a code, and the
            log has the rest.
        secret: A key of at least 16 bytes, with which the ids of interrupts are signed, so that callers can approve and
            answer only what this app asked them in that thread; or a list, of which the first signs, and all verify.
            Give all processes of a server the same, and another app another. Without it, the app makes a key, which
            lasts as long as the process; threads that are stored here need none.
        trust_caller: Whether all that callers send is taken for true, for proxies and programs of your own: a stored
            thread then takes assistant, system and tool messages from them, and their answers need no signature
            unless there is a secret. A caller that others can reach through must not be trusted.
        on_divergence: What becomes of an input whose messages leave the stored thread, as those of a page do that has
            edited a message or asks for another answer. "append" puts what is new behind the thread; "rewind" takes the
            thread back to the last message that both have, and keeps what it leaves as one of `threads.branches()`;
            "refuse" answers 409. An input that brings nothing new is answered with 409 by all of them.
        store: The `agui_client.store.Store` of the callers' threads, and of the runs, which belong to it instead of
            their callers, who may leave and come back; without it, a run ends when its caller leaves. It needs
            `authorize=` or `owner_of=`. It adds addresses below the app's, which take POST requests: `/connect` follows
            the run of a thread, `/stop` stops a run, `/answer` answers one that waits, `/runs` lists the caller's, and
            `/messages` has the messages of a thread in pages (docs/serving-reference.md). The app opens and closes the
            store in its `lifespan()`.
        threads: With a store, "kept" has the agent go on with the conversation in it, whatever the caller sends of it;
            "transcripts" has the agent take the conversation from the caller, as it does without a store.
        when_left: With a store, says what becomes of a run when its last caller has left: "continue", or "stop".
        name: The name of the agent, which is the same in each process: signatures and stored runs are for it. Apps
            that share a store need different ones.
        on_crash: With a database, says what becomes of a run whose process ends: "again" runs the part again
            that was cut, "fail" ends the run with RUN_ERROR (`process_ended`).
        keep_caller: With a store, a function of what `authorize=` returned, which returns what a run keeps of its
            caller: text or other JSON, without credentials. A function that chooses the agent gets that as
            `request.caller`, in each process. Without it, a database keeps the owner alone.
        coalesce: Seconds, such as 0.03, within which deltas of one message or call are joined to one event, for agents
            that send a token at a time; the first one after a silence is not delayed. None sends each as it comes.
        stop_within: Seconds within which the runs are ended one after the other when the server stops, those that began
            last first; runs that are over before their turn are not cut. Functions of tools that are at work may end
            within that time. Callers have five seconds more to read the end, so the server needs this and some seconds
            more before it is killed. Runs of a store end at once, and their functions within this time.

    Raises:
        UsageError: An argument has a wrong value.
    """

    _own_headers: Mapping[str, str] = {STATE_BASE_HEADER: "sha256"}
    """The headers of its responses, beside those of all event streams."""

    def __init__(
        self,
        agent: AbstractAgent | Chooser,
        *,
        authorize: Authorizer | None = None,
        owner_of: Callable[[Any], str] | None = None,
        keep_alive: float = 15.0,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
        body_timeout: float | None = DEFAULT_BODY_TIMEOUT,
        expose_errors: bool = False,
        secret: Secret | None = None,
        trust_caller: bool = False,
        on_divergence: OnDivergence = "append",
        store: Store | None = None,
        threads: Literal["kept", "transcripts"] = "kept",
        when_left: WhenLeft = "continue",
        name: str = "agent",
        on_crash: OnCrash = "again",
        keep_caller: Callable[[Any], object] | None = None,
        coalesce: float | None = None,
        stop_within: float = STOP_WITHIN,
    ) -> None:
        _check(agent, authorize, max_body_bytes, body_timeout, when_left)
        if owner_of is not None and not callable(owner_of):
            raise UsageError(f"owner_of= is a function of what authorize= returned, not {owner_of!r}")
        if threads not in ("kept", "transcripts"):
            raise UsageError(f'threads= is "kept" or "transcripts", not {threads!r}')
        if keep_caller is not None and (store is None or not callable(cast("object", keep_caller))):
            raise UsageError("keep_caller= takes a function of what authorize= returned, and needs store=")
        check_seconds("coalesce=", coalesce, may_be_none=True)
        if coalesce is not None and store is not None:
            raise UsageError("coalesce= is for runs that end with their connection: give either coalesce= or store=")
        check_seconds("stop_within=", stop_within)
        check_seconds("keep_alive=", keep_alive)
        check_on_divergence(on_divergence)
        self._on_divergence: OnDivergence = on_divergence
        self.is_signing: bool = secret is not None
        """Whether interrupts are signed with a key that the application gave."""
        # A key of the app's own, as an answer to another app's question must not be taken for one to its own.
        key, journals = token_bytes(32), TeamJournals()
        self._agent, self._has_warned = agent, False
        self._signing = SignedInterrupts(secret, key, is_caller_trusted=trust_caller, app=name, journals=journals)
        self._keep_alive, self._expose_errors, self._coalesce = keep_alive, expose_errors, coalesce
        self._owner_of, self._store, self._has_stored_threads = owner_of, store, store is not None and threads == "kept"
        self._authorize, self._body_timeout = authorize, body_timeout
        self.max_body_bytes: int = max_body_bytes
        """The size of the largest request body that is accepted, in bytes."""
        self._keep_caller, self._are_runs_stored = keep_caller, False
        self._stop_within, self._stopping = stop_within, Stopping(stop_within)
        self._addresses: RunAddresses | None = None
        self._commands: Mapping[str, Command] = {}
        if not callable(self._agent):
            self._note_team(self._agent)
        if store is not None:
            # Loaded here: many servers keep nothing.
            from agui_client._core.agent.run_records import StoredRequest, check_on_crash
            from agui_client.asgi._run_addresses import RunAddresses
            from agui_client.asgi._thread_addresses import ThreadAddresses
            from agui_client.store import Store as KindOfStore
            from agui_client.store._runs.runs import kept_by

            if not is_a(store, KindOfStore):
                raise UsageError(f"store= takes Store() of agui_client.store, or Store(URL), not {store!r}")
            if authorize is None and owner_of is None:
                what = "an app with a store needs authorize=, whose text is the owner of the caller's threads and runs"
                raise UsageError(f'{what}, or owner_of=; owner_of=lambda caller: "" has one owner for all callers')
            self._are_runs_stored = kept_by(store.runs).keeper.is_durable
            check_on_crash(on_crash, is_durable=self._are_runs_stored)
            how = StoredRequest(name, {}, {}, when_left, expose_errors, on_crash)
            self._addresses = RunAddresses(store.runs, self, how, max_body_bytes=max_body_bytes)
            addresses = ThreadAddresses(
                store.threads, max_body_bytes=max_body_bytes, is_stopping=lambda: self._stopping.has_begun
            )
            self._commands = {**self._addresses.commands, **addresses.commands}
            self._own_headers = {**self._own_headers, RUNS_HEADER: when_left}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request (the ASGI interface)."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"an AG-UI endpoint speaks HTTP, not {scope['type']}")
        else:
            with ExitStack() as traces:
                for incoming in INCOMING_TRACES:
                    traces.enter_context(incoming(_joined_headers(scope)))
                await self._answer(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """End the runs when the server stops: the lifespan of an app that this one is mounted in.

        At SIGTERM or Ctrl-C, runs end with RUN_ERROR (code `shutting_down`), and the blocks of their agents are left,
        so that threads are saved and others can have them; the server's own handling of the signal goes on. An
        app that is served alone needs no lifespan for it. A store is opened when the server starts, and closed when
        it stops: in a database, its runs are left to other processes at once.

        Args:
            app: The app that has the lifespan, as frameworks pass it; not used.
        """
        self._stopping = Stopping(self._stop_within)
        if self._addresses is not None:
            await self._addresses.kept.open()
        with on_signals(self._begin_shutdown):
            try:
                yield
            finally:
                await self.shutdown()

    async def shutdown(self) -> None:
        """End the runs with RUN_ERROR (code `shutting_down`), refuse others with 503, and wait for the end; idempotent.

        For servers that stop in other ways than by a signal; see `lifespan`. Runs end one after the other, within the
        seconds of `stop_within`. A caller that does not read the end of its run is disconnected five seconds later.
        """
        self._begin_shutdown()
        with anyio.CancelScope(shield=True):
            if self._addresses is not None:
                await self._addresses.kept.aclose(self._stop_within)
            await self._stopping.wait()
            if self._store is not None:
                await self._store.aclose()

    def _begin_shutdown(self) -> None:
        self._stopping.begin()
        if self._addresses is not None:
            self._addresses.kept.stop_all(self._stop_within)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Answer the server's lifespan messages."""
        await receive()
        async with self.lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        is_read = False
        try:
            request, command = await self._admit(scope)
            body = await self.body_of(receive)
            is_read = True
            if command is not None:
                await _send_json(send, 200, await command(request, body), self._own_headers)
            else:
                input = await input_of(body, max_bytes=self.max_body_bytes)
                await self._respond(request, of_caller(input), receive, send)
        except RequestRefusedError as refused:
            # A server would go on to read the rest of the body, however long that takes; HTTP/2 has no such header.
            is_last = not is_read and scope.get("http_version", "1.1").startswith("1")
            await _refuse(send, refused, {**self._own_headers, **({"connection": "close"} if is_last else {})})

    async def _admit(self, scope: Mapping[str, Any]) -> tuple[ServedRequest, Command | None]:
        """Judge a request by its headers, before its body is read.

        Returns:
            The request, and the function that answers it with JSON; None if it asks for a run or a thread.

        Raises:
            RequestRefusedError: It is refused.
        """
        path, headers, caller = await self.authorized(scope)
        if scope["method"] != "POST":
            reason = f"{scope['method']} is not allowed; POST a RunAgentInput"
            raise RequestRefusedError(405, reason, {"allow": "POST"})
        # A browser sends bytes without a type for a page of any site, unasked; other callers need not name one.
        usual = "" if "origin" in headers else "application/json"
        kind = headers.get("content-type", usual).partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRefusedError(415, "the content type must be application/json")
        check_length(headers, self.max_body_bytes)
        bare = path.rstrip("/")
        end = next((each for each in (_CONNECT, *self._commands) if bare.endswith(each)), "")
        below = (bare.removesuffix(end) or "/") if end else path
        owner = self.owner_of(caller)
        caller = self._kept_of(caller, owner)
        is_connect = end == _CONNECT
        request = ServedRequest(below, headers, scope, is_connect=is_connect, caller=caller, owner=owner)
        return request, self._commands.get(end)

    async def authorized(self, scope: Mapping[str, Any]) -> tuple[str, dict[str, str], object]:
        """Ask `authorize=` about a request.

        Returns:
            The path below the mount, the headers, and the value that `authorize=` returned; None without it.

        Raises:
            RequestRefusedError: The request is refused.
        """
        headers = _joined_headers(scope)
        names = Counter(name.lower() for name, _ in scope["headers"])
        if repeated := next((name.decode() for name in _SINGLE if names[name] > 1), ""):
            # Which of them counts is another one for a proxy in between, and for `authorize=`.
            raise RequestRefusedError(400, f"the request has several headers {repeated}")
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        caller: object = None
        if self._authorize is not None:
            caller = self._authorize(scope["method"], path, headers)
            if inspect.isawaitable(caller):
                caller = await whole(caller)
            if not caller:
                raise RequestRefusedError(401, "the request is not authorized", {"www-authenticate": "Bearer"})
        return path, headers, caller

    async def body_of(self, receive: Receive) -> bytes:
        """Read the body of a request, within the limits of the app.

        Raises:
            RequestRefusedError: The body is too long, took too long, or was cut.
        """
        return await read_body(receive, max_bytes=self.max_body_bytes, seconds=self._body_timeout)

    async def _respond(self, request: ServedRequest, input: RunAgentInput, receive: Receive, send: Send) -> None:
        """Answer a request with the events of a run, until the run ends or the caller leaves."""
        body, failure = _Body(send, self._keep_alive, self._own_headers), None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_disconnect, receive, tasks.cancel_scope, body.leave)
            try:
                with self._stopping.response(tasks.cancel_scope):
                    async with self._chunks(request, input) as chunks:
                        with suppress(OSError):  # servers may say so that the caller has left
                            await body.begin(tasks)
                            send_chunk = self._sender(body, tasks)
                            async for chunk in chunks:
                                await send_chunk(chunk)
                            await body.end()
            except Exception as error:  # raised outside: a task group would make a group of it
                failure = error
            except anyio.get_cancelled_exc_class():
                # A run that is stored goes on in another process: an end would be untrue.
                await body.end_cancelled(None if self._are_runs_stored else SHUTTING_DOWN)
                raise
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if body.is_cut:
            self.on_disconnect()

    def _sender(self, body: _Body, tasks: TaskGroup) -> Callable[[Any], Awaitable[None]]:
        """Return the function that sends the chunks of a response; with `coalesce`, they are events yet."""
        if self._coalesce is None:
            return body.send
        from agui_client._serving.coalescing import DeltaJoiner

        async def send_frame(event: WireEvent) -> None:
            """Send one event."""
            await body.send(frame_of(event))

        joiner = DeltaJoiner(send_frame, self._coalesce)
        joiner.begin(tasks)
        return joiner.take

    @asynccontextmanager
    async def _chunks(
        self, request: ServedRequest, input: RunAgentInput
    ) -> AsyncGenerator[AsyncIterator[bytes | WireEvent]]:
        """Begin or follow a run, as a block with the chunks of its response, or its events where they are joined.

        Raises:
            RequestRefusedError: The run cannot be begun, or is not there.
        """
        if self._addresses is not None:
            async with self._addresses.open(request, input) as chunks:
                yield chunks
        elif self._coalesce is not None:
            async with self.open(request, input) as events:
                yield events
        else:
            async with self.open(request, input) as events, aclosing(frames_of(events)) as frames:
                yield frames

    @asynccontextmanager
    async def open(self, request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[AsyncIterator[WireEvent]]:
        """Begin a run, as a block with the events of its response; leaving the block ends the run.

        Raises:
            RequestRefusedError: The run cannot be begun.
        """
        if self._stopping.has_begun:
            raise RequestRefusedError(503, "the server is shutting down", _SOON)
        check_wants_run(request)
        async with AsyncExitStack() as stack:
            run = await self.enter(request, input, stack)
            events_of = replayed_events if request.is_connect else caller_events
            stack.enter_context(self._stopping.run(run))
            # The block of the chosen agent is left before the run's last event is sent: it may have saved the thread.
            block = aclosing(stack)
            last_event = self._stopping.last_event
            events = events_of(run, expose_errors=self._expose_errors, block=block, stopped_with=last_event)
            async with aclosing(events):
                yield events

    async def enter(
        self, request: ServedRequest, input: RunAgentInput, stack: AsyncExitStack, cut: ResumedRun | None = None
    ) -> AgentRun:
        """Enter a run, with the block that its agent may come in.

        Args:
            request: The request that asks for the run.
            input: The input.
            stack: The stack of blocks in which both are entered.
            cut: What is known of the run if its process ended; None if it begins.

        Raises:
            RequestRefusedError: The run cannot be begun.
        """
        answer = connected_run if request.is_connect else partial(answering_run, on_divergence=self._on_divergence)
        # Tools of one name may differ from agent to agent: what one agent asked is no approval of another one's call.
        path = request.path.rstrip("/") if callable(self._agent) else ""
        signing = replace(self._signing, path=path, owner=request.owner)
        try:
            agent = await self.choose(request, input, stack)
            if request.is_connect and not agent.can_connect and agent.thread_id != input.thread_id:
                raise RequestRefusedError(405, "this agent cannot send a thread again", {"allow": ""})
            begin = partial(answer, agent, input, signing)
            if cut is not None and (place := await cut.find(agent)) is not None:
                begin = partial(continued_run, agent, input, place, signing)
            # The conversation of a large input is copied, which takes some tenths of a second.
            run = await anyio.to_thread.run_sync(begin) if is_large(request.headers) else begin()
            return await stack.enter_async_context(run)
        except (RunInProgressError, ThreadBusyError) as error:
            raise RequestRefusedError(409, "a run is going on in this thread", _retry_after(error)) from error
        except RequestExpiredError as error:
            raise RequestRefusedError(410, str(error)) from error
        except RequestRepeatedError as error:
            raise RequestRefusedError(409, str(error)) from error
        except ThreadStoreUnavailableError as error:
            _logger.error("refused a request: %s", error)
            raise RequestRefusedError(503, "the threads cannot be reached now", _AFTER_OUTAGE) from error
        except UsageError as error:
            _logger.warning("refused a request: %s", error)
            shown = _UNVERIFIED if isinstance(error, UnverifiedError) else "the run cannot be begun"
            raise RequestRefusedError(422, str(error) if self._expose_errors else shown) from error

    def owner_of(self, caller: object) -> str:
        """Return the owner of a caller's threads and runs, for whom interrupts are signed, too.

        Raises:
            TypeError: It is no text.
        """
        owner = caller if self._owner_of is None else self._owner_of(caller)
        if isinstance(owner, str):
            return owner
        if self._store is None and self._owner_of is None:
            return ""
        what = f"the owner of threads and runs is a text, not a {type(owner).__name__}"
        raise TypeError(f"{what}; agent_app(owner_of=...) takes a function that makes one of what authorize= returned")

    def _kept_of(self, caller: object, owner: str) -> object:
        """Return what the run of a caller knows of it, the same in each process.

        Raises:
            TypeError: It has no JSON form.
        """
        if self._keep_caller is None:
            return owner if self._are_runs_stored else caller
        kept = self._keep_caller(caller)
        try:
            return json.loads(json.dumps(kept))
        except (TypeError, ValueError) as error:
            what = f"keep_caller= returned a {type(kept).__name__}, which cannot be stored with a run"
            raise TypeError(f"{what}; return a text or other JSON") from error

    async def choose(self, request: ServedRequest, input: RunAgentInput, stack: AsyncExitStack) -> AbstractAgent:
        """Return the agent for a request, with its stored thread; blocks that it comes in are left with the stack."""
        agent = self._agent
        if callable(agent):
            agent = await self._chosen(agent, request, input, stack)
            self._note_team(agent)
        if self._store is None or not self._has_stored_threads or agent.is_stored:
            return agent
        from agui_client.store._threads.opened import enter_for_call

        return await enter_for_call(self._store.threads.open(input.thread_id, agent, owner=request.owner), stack)

    def _note_team(self, agent: AbstractAgent) -> None:
        """Log, once, that what teams ask is in the memory of this process."""
        if agent.is_team and self._store is None and not agent.is_stored and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "app %s serves a team and has no store: what its members ask and have done is kept in the memory of "
                "this process for an hour, so other workers and restarts lose questions; agent_app(store=Store(URL)) "
                "keeps it",
                quoted(self._signing.app),
            )

    async def _chosen(
        self, choose: Chooser, request: ServedRequest, input: RunAgentInput, stack: AsyncExitStack
    ) -> AbstractAgent:
        chosen = choose(request.as_stored() if self._are_runs_stored else request, input)
        if inspect.isawaitable(chosen):
            chosen = await whole(chosen)
        _check_chosen(chosen, AbstractAgent, AbstractAsyncContextManager)
        if isinstance(chosen, AbstractAgent):
            return chosen
        from agui_client.store._threads.opened import enter_for_call

        agent = await whole(enter_for_call(chosen, stack))
        _check_chosen(agent, AbstractAgent)
        return agent

    def on_disconnect(self) -> None:
        """Handle that a caller left a run before its end."""


agent_app = AgentApp
"""Makes an `AgentApp`: `app = agent_app(agent)`."""


def _check_chosen(chosen: object, *kinds: type[Any]) -> None:
    if not isinstance(chosen, kinds):
        raise TypeError(f"the function that chooses agents returned no agent, but {chosen!r}")


def _check(agent: Any, authorize: object, max_body_bytes: object, body_timeout: object, when_left: object) -> None:
    is_chooser = callable(agent) and not (inspect.isclass(agent) or inspect.isasyncgenfunction(agent))
    if not isinstance(agent, AbstractAgent) and not is_chooser:
        takes = "an agent, such as FunctionAgent(function), or a function of the request and the input that returns one"
        raise UsageError(f"agent_app takes {takes}, not {agent!r}")
    if is_chooser and not isinstance(agent, AbstractAgent) and not takes_two(agent, if_unknown=True):
        raise UsageError(
            "the function that agent_app takes is called with (request, input), and has to return an agent"
        )
    check_number("max_body_bytes=", max_body_bytes, least=1, is_whole=True)
    check_seconds("body_timeout=", body_timeout, may_be_none=True)
    if authorize is not None and not callable(authorize):
        raise UsageError(f"authorize= takes a function of method, path and headers, not {authorize!r}")
    if when_left not in ("continue", "stop"):
        raise UsageError(f'when_left= is "continue" or "stop", not {when_left!r}')


class _Body:
    """The response of one run: chunks as they come, and comments in silence."""

    def __init__(self, send: Send, keep_alive: float, headers: Mapping[str, str]) -> None:
        self._send, self._keep_alive, self._headers = send, keep_alive, headers
        self._latest, self._is_open, self._has_left = 0.0, False, False

    @property
    def is_cut(self) -> bool:
        """Whether the caller left before the end."""
        return self._is_open or self._has_left

    async def begin(self, tasks: TaskGroup) -> None:
        """Send the headers, and from now on comments in silence."""
        self._is_open = True
        await begin_response(self._send, 200, {**sse_headers(), **self._headers})
        self._latest = time.monotonic()
        tasks.start_soon(self._send_comments)

    async def send(self, chunk: bytes) -> None:
        """Send a chunk."""
        self._latest = time.monotonic()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End the response."""
        self._is_open = False
        await self._send({"type": "http.response.body", "body": b""})

    def leave(self) -> None:
        """Note that the caller has left; after the end it may."""
        self._has_left = self._is_open

    async def end_cancelled(self, last: RunErrorEvent | None) -> None:
        """End a response that the server has cancelled, so that its caller knows of the end.

        Args:
            last: The last event of the run; None if the run goes on elsewhere.
        """
        if self._is_open and not self._has_left:
            with anyio.move_on_after(_LAST_SECONDS, shield=True), suppress(OSError):
                if last is not None:
                    await self.send(frame_of(last))
                await self.end()

    async def _send_comments(self) -> None:
        """Send a comment whenever there was no chunk for a while."""
        with suppress(OSError):  # the next chunk fails as well
            while self._is_open:
                silent = time.monotonic() - self._latest
                if silent >= self._keep_alive:
                    await self.send(KEEP_ALIVE)
                await anyio.sleep(self._latest + self._keep_alive - time.monotonic())


async def cancel_on_disconnect(
    receive: Receive, scope: anyio.CancelScope, on_leave: Callable[[], object] = lambda: None
) -> None:
    """Cancel the work on a response when its caller leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    on_leave()
    scope.cancel()


def _joined_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request, with names in lower case; those of one name are one list (RFC 9110, 5.3)."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        between = "; " if name == "cookie" else ","
        headers[name] = f"{headers[name]}{between}{value}" if name in headers else value
    return headers


def _retry_after(error: RunInProgressError | ThreadBusyError) -> dict[str, str]:
    """Return the header that says when a thread may be free."""
    seconds = error.retry_after if isinstance(error, ThreadBusyError) else None
    return _SOON if seconds is None else {"retry-after": str(max(1, math.ceil(seconds)))}


async def _refuse(send: Send, refused: RequestRefusedError, headers: Mapping[str, str]) -> None:
    await _send_json(send, refused.status, {"detail": refused.reason}, {**headers, **refused.headers})


async def _send_json(send: Send, status: int, value: object, headers: Mapping[str, str]) -> None:
    await begin_response(send, status, {"content-type": "application/json", **headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def begin_response(send: Send, status: int, fields: Mapping[str, str]) -> None:
    """Send the status and the headers of a response."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
