"""An ASGI app that serves an agent: one POST in, the events of one run out as SSE (SSE-1 … SSE-4, SSE-8).

It puts the parts together, and ends with its server. Who is let in is `_admission`, which run a request begins
`_served_agent`, what goes out `_responses`; a store adds `_run_addresses` and `_thread_addresses`.

To change

- requests and statuses of served agents: `AgentApp` here; `asgi/_request_body.py` reads and parses bodies
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager, suppress
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import anyio
from ag_ui.core import RunAgentInput

from agui_client._core.conversation.state_base import STATE_BASE_HEADER
from agui_client._core.plugs import INCOMING_TRACES
from agui_client._core.protocol.schema import is_a
from agui_client._core.transport.client import RUNS_HEADER
from agui_client._core.transport.in_process import Receive, Send
from agui_client._core.transport.timeouts import check_seconds
from agui_client._core.verbs.signer import SignedInterrupts
from agui_client._core.verbs.sse import frame_of, frames_of
from agui_client._core.verbs.team_journals import TeamJournals
from agui_client._serving.answering import of_caller
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client._serving.stopping import SHUTTING_DOWN, Stopping, on_signals
from agui_client.asgi._admission import Admission, Authorizer, joined_headers
from agui_client.asgi._limits import AppLimits
from agui_client.asgi._request_body import input_of, read_body
from agui_client.asgi._responses import ResponseBody, cancel_on_disconnect, send_bytes, send_json, send_refusal
from agui_client.asgi._served_agent import Chooser, ServedAgent
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.verbs.signer import Secret
    from agui_client._serving.divergence import OnDivergence
    from agui_client.asgi._page import ChatPage
    from agui_client.asgi._run_addresses import Command, RunAddresses
    from agui_client.store import Keeping, Store

_LIMITS = AppLimits()


class AgentApp:
    """An ASGI app that serves an agent on every path: mount it in FastAPI or Starlette, or run it by itself.

    Args:
        agent: The agent; or a function, sync or async, of the `ServedRequest` and the `RunAgentInput`, which returns
            one, or a block with one that lasts as long as its run (docs/serving.md).
        authorize: A function, sync or async, of the method, the path below the mount and the headers (names in lower
            case) of every request. What it returns is `request.caller`; a false one leads to 401.
        owner_of: A function that returns the owner of a caller's threads and runs, a text, of what `authorize=`
            returned; by default that itself. `lambda caller: ""` has one owner for all.
        store: The `Store` of the callers' threads and runs, which adds `/connect`, `/stop`, `/answer`, `/runs` and
            `/messages`, and needs `authorize=` or `owner_of=`. Without it, a run ends when its caller leaves.
        keeping: What the store keeps, a `Keeping`.
        name: The name of the agent, which is the same in each process, and another one for each app of a store.
        on_divergence: What becomes of an input whose messages leave the stored thread: "append" puts what is new behind
            it, "rewind" takes it back to the last message that both have, "refuse" responds with 409.
        secret: A key of at least 16 bytes that signs interrupts, the same in all processes of a server; or a list, of
            which the first signs, and all verify. By default one that lasts as long as the process.
        trust_caller: Whether all that callers send is taken for true, for proxies and programs of your own; a caller
            that others can reach through must not be trusted.
        expose_errors: Whether callers get the class and the text of exceptions; otherwise they get a code.
        coalesce: Seconds, such as 0.03, within which deltas of one message or call are joined, without a store.
        limits: The limits of bytes and seconds, an `AppLimits`.
        page: Whether a GET gets a chat page for the agent, which needs `store=`. `authorize=` is asked about it, too.

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
        store: Store | None = None,
        keeping: Keeping | None = None,
        name: str = "agent",
        on_divergence: OnDivergence = "append",
        secret: Secret | None = None,
        trust_caller: bool = False,
        expose_errors: bool = False,
        coalesce: float | None = None,
        limits: AppLimits = _LIMITS,
        page: bool = False,
    ) -> None:
        _check(limits, coalesce, store, keeping)
        self.limits: AppLimits = limits
        """The limits of bytes and seconds."""
        self.is_signing: bool = secret is not None
        """Whether interrupts are signed with a key that the application gave."""
        self.admission: Admission = Admission(authorize, owner_of, limits.max_body_bytes)
        """Lets requests in."""
        # A key of the app's own, as an answer to another app's question must not be taken for one to its own.
        key, journals = token_bytes(32), TeamJournals()
        signing = SignedInterrupts(secret, key, is_caller_trusted=trust_caller, app=name, journals=journals)
        self._stopping, self._coalesce, self._store = Stopping(limits.stop_within), coalesce, store
        self._agent = ServedAgent(
            agent, signing, on_divergence, expose_errors=expose_errors, stopping=lambda: self._stopping
        )
        self._addresses: RunAddresses | None = None
        self._commands: Mapping[str, Command] = {}
        self._are_runs_stored = False
        self._page: ChatPage | None = None
        if store is not None:
            self._serve_store(store, keeping, name, expose_errors=expose_errors)
        if page:
            self._serve_page(name, can_rewind=on_divergence == "rewind")
        self._agent.warn_of_team()

    def _serve_store(self, store: Store, keeping: Keeping | None, name: str, *, expose_errors: bool) -> None:
        """Have a store behind the app, with the addresses of its runs and threads."""
        # Loaded here: many servers keep nothing.
        from agui_client._core.agent.run_records import StoredRequest, check_on_crash
        from agui_client.asgi._run_addresses import RunAddresses
        from agui_client.asgi._thread_addresses import ThreadAddresses
        from agui_client.store import Keeping
        from agui_client.store._runs.runs import kept_by

        keeping = keeping or Keeping()
        self._are_runs_stored = kept_by(store.runs).keeper.is_durable
        check_on_crash(keeping.on_crash, is_durable=self._are_runs_stored)
        most = self.limits.max_body_bytes
        threads = ThreadAddresses(store.threads, max_body_bytes=most, is_stopping=lambda: self._stopping.has_begun)
        self.admission.serve_store(keeping, are_runs_stored=self._are_runs_stored)
        kept_threads = store.threads if keeping.threads == "kept" else None
        self._agent.serve_store(kept_threads, are_runs_stored=self._are_runs_stored)
        how = StoredRequest(name, {}, {}, keeping.when_left, expose_errors, keeping.on_crash)
        self._addresses = RunAddresses(store.runs, self._agent, how, max_body_bytes=most)
        self._add_commands({**self._addresses.commands, **threads.commands})
        self._own_headers = {**self._own_headers, RUNS_HEADER: keeping.when_left}

    def _serve_page(self, title: str, *, can_rewind: bool) -> None:
        """Respond to a GET with the chat page.

        Raises:
            UsageError: There is no store.
        """
        if self._store is None:
            raise UsageError("page=True needs store=, such as Store(): the page leaves the conversations to the server")
        from agui_client.asgi._page import ChatPage

        most, keep_alive = self.limits.max_body_bytes, self.limits.keep_alive
        self._page = ChatPage(title, can_rewind=can_rewind, keep_alive=keep_alive, max_body_bytes=most)
        self._add_commands(self._page.commands)

    def _add_commands(self, commands: Mapping[str, Command]) -> None:
        """Respond to requests with JSON, by the ends of their paths."""
        self.admission.add_commands(commands)
        self._commands = {**self._commands, **commands}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (the ASGI interface)."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"an AG-UI endpoint speaks HTTP, not {scope['type']}")
        else:
            with ExitStack() as traces:
                for incoming in INCOMING_TRACES:
                    traces.enter_context(incoming(joined_headers(scope)))
                await self._answer(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """End the runs when the server stops: the lifespan of an app that this one is mounted in.

        At SIGTERM or Ctrl-C, runs end with RUN_ERROR (code `shutting_down`), and the blocks of their agents are left,
        so that threads are saved and others can have them; the server's own handling of the signal continues. An
        app that is served alone needs no lifespan for it. A store is opened when the server starts, and closed when
        it stops: in a database, its runs are left to other processes at once.

        Args:
            app: The app that has the lifespan, as frameworks pass it; not used.
        """
        self._stopping = Stopping(self.limits.stop_within)
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
                await self._addresses.kept.aclose(self.limits.stop_within)
            await self._stopping.wait()
            if self._store is not None:
                await self._store.aclose()

    def _begin_shutdown(self) -> None:
        self._stopping.begin()
        if self._addresses is not None:
            self._addresses.kept.stop_all(self.limits.stop_within)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Handle the server's lifespan messages."""
        await receive()
        async with self.lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""
        is_read = False
        try:
            if self._page is not None and scope["method"] == "GET":
                await self.admission.authorized(scope)
                await send_bytes(send, *self._page.response(scope["path"]))
                return
            request, command = await self.admission.admit(scope)
            body = await read_body(receive, max_bytes=self.limits.max_body_bytes, seconds=self.limits.body_timeout)
            is_read = True
            if command:
                await send_json(send, 200, await self._commands[command](request, body), self._own_headers)
            else:
                input = await input_of(body, max_bytes=self.limits.max_body_bytes)
                await self._respond(request, of_caller(input), receive, send)
        except RequestRefusedError as refused:
            # A server would continue to read the rest of the body, however long that takes; HTTP/2 has no such header.
            is_last = not is_read and scope.get("http_version", "1.1").startswith("1")
            await send_refusal(send, refused, {**self._own_headers, **({"connection": "close"} if is_last else {})})

    async def _respond(self, request: ServedRequest, input: RunAgentInput, receive: Receive, send: Send) -> None:
        """Respond to a request with the events of a run, until the run ends or the caller leaves."""
        body, failure = ResponseBody(send, self.limits.keep_alive, self._own_headers), None
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
                # A run that is stored continues in another process: an end would be untrue.
                await body.end_cancelled(None if self._are_runs_stored else SHUTTING_DOWN)
                raise
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if body.is_cut:
            self._on_disconnect()

    def _sender(self, body: ResponseBody, tasks: TaskGroup) -> Callable[[Any], Awaitable[None]]:
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
            async with self._open(request, input) as events:
                yield events
        else:
            async with self._open(request, input) as events, aclosing(frames_of(events)) as frames:
                yield frames

    def _open(
        self, request: ServedRequest, input: RunAgentInput
    ) -> AbstractAsyncContextManager[AsyncIterator[WireEvent]]:
        """Begin a run, as a block with the events of its response; leaving the block ends the run.

        Raises:
            RequestRefusedError: The run cannot be begun; entering the block raises it.
        """
        return self._agent.open(request, input)

    def _on_disconnect(self) -> None:
        """Handle that a caller left a run before its end."""


agent_app = AgentApp
"""Makes an `AgentApp`: `app = agent_app(agent)`."""


def _check(limits: object, coalesce: object, store: object, keeping: object) -> None:
    """Check arguments that belong to each other."""
    if not isinstance(limits, AppLimits):
        raise UsageError(f"limits= takes AppLimits(...), not {limits!r}")
    check_seconds("coalesce=", coalesce, may_be_none=True)
    if store is None:
        if keeping is not None:
            raise UsageError("keeping= says what a store keeps, and needs store=")
        return
    from agui_client.store import Keeping as KindOfKeeping
    from agui_client.store import Store as KindOfStore

    if not is_a(store, KindOfStore):
        raise UsageError(f"store= takes Store() of agui_client.store, or Store(URL), not {store!r}")
    if keeping is not None and not isinstance(keeping, KindOfKeeping):
        raise UsageError(f"keeping= takes Keeping(...) of agui_client.store, not {keeping!r}")
    if coalesce is not None:
        raise UsageError("coalesce= is for runs that end with their connection: give either coalesce= or store=")
