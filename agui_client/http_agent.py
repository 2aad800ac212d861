"""HttpAgent: an agent at a URL, spoken to with one POST per run and an SSE stream back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_client._pipeline.limits import Timeouts
from agui_client._pipeline.request import prepare_input
from agui_client._pipeline.tracing import RunTrace
from agui_client._pipeline.transport import (
    DEFAULT_MAX_EVENT_BYTES,
    AuthSource,
    ClientSource,
    Credentials,
    HeaderSource,
    HttpSource,
    Refresh,
    Request,
    RetryPolicy,
    Transport,
)
from agui_client._pipeline.versions import version_key
from agui_client._pipeline.warnings import WarningLog
from agui_client.agent import AbstractAgent
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from types import TracebackType
    from typing import Self

    from ag_ui.core import RunAgentInput

    from agui_client._pipeline import NullFields
    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.middleware import Middleware
    from agui_client._pipeline.transport import Address
    from agui_client._surfaces.abort import OnAbort
    from agui_client._tools.approval import Approver
    from agui_client._tools.limits import ToolLimits
    from agui_client._tools.offer import ToolSource
    from agui_client.interrupts import Answerer
    from agui_client.messages import MessageLike


class HttpAgent(AbstractAgent):
    """A remote AG-UI agent.

    As an `async with` block it keeps one HTTP client, and with it its connections, for all runs inside the block;
    otherwise each run has a client of its own, and nothing stays open between runs.

    Args:
        url: Where the agent takes runs.
        headers: Request headers, or a function, sync or async, that gives them anew for each attempt.
        auth: Any `httpx.Auth`, or (user, password).
        on_unauthorized: Called, sync or async, when the server answers 401: it renews the credentials, and the run is
            posted once more. It returns the headers to use from now on, or None to have `headers` asked again.
        timeout: Seconds for every wait but the total, or a `Timeouts`.
        retry: What is tried again; by default only what could not be sent, see `RetryPolicy`.
        http_client: An `httpx.AsyncClient` of your own, or a function that makes one for each run. A client belongs to
            one event loop; give a function when runs happen in several. Redirects are followed within the origin if
            the POST stays one (307, 308), whatever the client would do, and reported otherwise.
        connect_url: Where the agent tells a thread again, absolute or relative to `url`; see `connect_agent`.
        max_protocol_version: What the server is known to speak, such as "0.0.57", if that is older than 1.0; what is
            sent is turned into what it understands (VER-5).
        max_event_bytes: The largest event that is accepted, in bytes.
        agent_id: What the application calls this agent; a new id if left out.
        description: What it is for, in a sentence.
        thread_id: The conversation to go on with; a new one if left out.
        initial_messages: What was said before.
        initial_state: The state both sides write, any JSON value; `{}` if left out.
        tools: Tools of the application that the agent may call: `@tool` functions, definitions of tools that are
            answered elsewhere, or a function of the `RunAgentInput` that chooses them for each run.
        approve: Asked, sync or async, before a tool runs that wants approval; without it such calls come back pending.
        answer: Asked, sync or async, what a run was interrupted for; without it interrupts come back on the result.
        tool_limits: When to stop answering tool calls, and how tools are run.
        on_abort: Called, sync or async, when a run is left before its end, for servers that have a way to stop one.
        middleware: Functions around each run, outermost first; see `use`.
        null_fields: "reject" a null that stands for a whole optional field, as the protocol says, or "drop" it with a
            warning, for servers that send them (PROC-17).
        strict: Whether ids of threads and runs that do not match what was asked are fatal; a warning otherwise.

    Raises:
        UsageError: `max_protocol_version` is no version, an address cannot be read, or `connect_url` means `url`.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        auth: AuthSource | None = None,
        on_unauthorized: Refresh | None = None,
        timeout: float | Timeouts | None = None,
        retry: RetryPolicy | None = None,
        http_client: ClientSource | None = None,
        connect_url: str | None = None,
        agent_id: str | None = None,
        description: str = "",
        thread_id: str | None = None,
        initial_messages: Iterable[MessageLike] = (),
        initial_state: Any = None,
        tools: ToolSource = (),
        approve: Approver | None = None,
        answer: Answerer | None = None,
        tool_limits: ToolLimits | None = None,
        on_abort: OnAbort | None = None,
        middleware: Iterable[Middleware] = (),
        null_fields: NullFields = "reject",
        strict: bool = False,
        max_protocol_version: str | None = None,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        super().__init__(
            agent_id=agent_id,
            description=description,
            thread_id=thread_id,
            initial_messages=initial_messages,
            initial_state=initial_state,
            tools=tools,
            approve=approve,
            answer=answer,
            tool_limits=tool_limits,
            on_abort=on_abort,
            middleware=middleware,
            null_fields=null_fields,
            strict=strict,
        )
        self.url = url
        """Where the agent takes runs."""
        self._timeouts = Timeouts.of(timeout)
        if max_protocol_version is not None:
            version_key(max_protocol_version)
        self._max_protocol_version = max_protocol_version
        self._transport = Transport(
            url,
            auth=auth,
            credentials=Credentials(headers, on_unauthorized),
            retry=retry,
            http_client=http_client,
            max_event_bytes=max_event_bytes,
        )
        self._connect_url = None if connect_url is None else self._elsewhere(connect_url)

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Post one run.

        Args:
            input: What is asked.

        Returns:
            Its events as they come over the wire, not yet judged; close it if you leave it early.
        """
        return self._post(input)

    def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Have the thread told again, with a POST to `connect_url`.

        Args:
            input: The thread, with what is held of it.

        Returns:
            Its events as they come over the wire, not yet judged; close it if you leave it early.

        Raises:
            UsageError: The agent has no `connect_url`.
        """
        if self._connect_url is None:
            raise UsageError("this agent has no way to reconnect: give it connect_url=, or override connect()")
        return self._post(input, self._connect_url)

    def _post(self, input: RunAgentInput, url: Address | None = None) -> HttpSource:
        options, exchange = self._active_options, self._active
        request = Request(
            body=input.model_dump_json(by_alias=True).encode(),
            url=url,
            may_find_nothing=url is not None,
            headers=options.get("headers"),
            timeouts=Timeouts.of(options["timeout"]) if "timeout" in options else self._timeouts,
            trace=RunTrace() if exchange is None else exchange.trace,
        )
        post = HttpSource(self._transport, request, WarningLog() if exchange is None else exchange.plan.warnings)
        if exchange is not None:
            exchange.adopt(post)
        return post

    def _elsewhere(self, connect_url: str) -> Address:
        """Where threads are told again: what is posted to the address of runs starts one."""
        address = self._transport.resolve(connect_url)
        if _target(address) == _target(self._transport.url):
            raise UsageError(
                "connect_url is empty, or means the agent's own url, where connecting would start a run; give the "
                "address that tells a thread again, or None if there is none"
            )
        return address

    async def aclose(self) -> None:
        """Close the connections that an `async with` block keeps."""
        await self._transport.drop_client()

    async def __aenter__(self) -> Self:
        self._transport.keep_client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    _takes_wire_options = True

    def _url(self) -> str:
        return self._transport.address

    def __repr__(self) -> str:
        where = self._transport.address
        return f"{type(self).__name__}({where!r}, agent_id={self.agent_id!r}, thread_id={self.thread_id!r})"

    def _prepare(self, run_input: RunAgentInput, warnings: WarningLog) -> RunAgentInput:
        return prepare_input(run_input, warnings, max_protocol_version=self._max_protocol_version)


def _target(url: Address) -> tuple[object, ...]:
    """What a request to an address reaches; whoever asks, and for which part of the answer, makes no difference."""
    return url.scheme, url.host, url.port, url.path, url.query
