"""HttpAgent: an agent at a URL, spoken to with one POST per run and an SSE stream back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_client._pipeline.limits import Timeouts
from agui_client._pipeline.request import prepare_input
from agui_client._pipeline.transport import (
    DEFAULT_MAX_EVENT_BYTES,
    AuthSource,
    ClientSource,
    HeaderSource,
    HttpSource,
    Request,
    Transport,
)
from agui_client._pipeline.versions import version_key
from agui_client._pipeline.warnings import WarningLog
from agui_client.agent import AbstractAgent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from ag_ui.core import RunAgentInput, Tool

    from agui_client._pipeline import NullFields
    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.middleware import Middleware
    from agui_client.messages import MessageLike


class HttpAgent(AbstractAgent):
    """A remote AG-UI agent.

    As an `async with` block it keeps one HTTP client, and with it its connections, for all runs inside the block;
    otherwise each run has a client of its own, and nothing stays open between runs.

    Args:
        url: Where the agent takes runs.
        headers: Request headers, or a function that gives them anew for each run.
        auth: Any `httpx.Auth`, or (user, password).
        timeout: Seconds for every wait but the total, or a `Timeouts`.
        http_client: An `httpx.AsyncClient` of your own, or a function that makes one for each run. A client belongs to
            one event loop; give a function when runs happen in several. Redirects are reported, not followed.
        max_protocol_version: What the server is known to speak, such as "0.0.57", if that is older than 1.0; what is
            sent is turned into what it understands (VER-5).
        max_event_bytes: The largest event that is accepted, in bytes.
        agent_id: What the application calls this agent; a new id if left out.
        description: What it is for, in a sentence.
        thread_id: The conversation to go on with; a new one if left out.
        initial_messages: What was said before.
        initial_state: The state both sides write, any JSON value; `{}` if left out.
        tools: Tools of the application that the agent may call.
        middleware: Functions around each run, outermost first; see `use`.
        null_fields: "reject" a null that stands for a whole optional field, as the protocol says, or "drop" it with a
            warning, for servers that send them (PROC-17).
        strict: Whether ids of threads and runs that do not match what was asked are fatal; a warning otherwise.

    Raises:
        UsageError: `max_protocol_version` is no version.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        auth: AuthSource | None = None,
        timeout: float | Timeouts | None = None,
        http_client: ClientSource | None = None,
        agent_id: str | None = None,
        description: str = "",
        thread_id: str | None = None,
        initial_messages: Iterable[MessageLike] = (),
        initial_state: Any = None,
        tools: Sequence[Tool] = (),
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
            middleware=middleware,
            null_fields=null_fields,
            strict=strict,
        )
        self.url = url
        """Where the agent takes runs."""
        self._headers = headers
        self._timeouts = Timeouts.of(timeout)
        if max_protocol_version is not None:
            version_key(max_protocol_version)
        self._max_protocol_version = max_protocol_version
        self._transport = Transport(url, auth=auth, http_client=http_client, max_event_bytes=max_event_bytes)

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Post one run.

        Args:
            input: What is asked.

        Returns:
            Its events as they come over the wire, not yet judged; close it if you leave it early.
        """
        options = self._active_options
        request = Request(
            body=input.model_dump_json(by_alias=True).encode(),
            headers=self._headers,
            run_headers=options.get("headers"),
            timeouts=Timeouts.of(options["timeout"]) if "timeout" in options else self._timeouts,
        )
        if self._active is None:
            return HttpSource(self._transport, request, WarningLog())
        post = HttpSource(self._transport, request, self._active.plan.warnings)
        self._active.adopt(post)
        return post

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

    def __repr__(self) -> str:
        where = self._transport.address
        return f"{type(self).__name__}({where!r}, agent_id={self.agent_id!r}, thread_id={self.thread_id!r})"

    def _prepare(self, run_input: RunAgentInput, warnings: WarningLog) -> RunAgentInput:
        return prepare_input(run_input, warnings, max_protocol_version=self._max_protocol_version)
