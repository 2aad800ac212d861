"""Exchanges as the doctor sees them: each request with the bytes and the times of its response.

A `ProbeAgent` is an `HttpAgent` on the transport of another one, with a tap in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack, cast

import httpx

from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.ground.sent_secrets import secrets_sent
from agui_client._core.protocol.plain_json import object_in
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.scope import AgentOptions
from agui_client._core.transport.client import ClientRequest, Transport
from agui_client._core.transport.http_source import HttpSource
from agui_client._core.transport.response import Unpacker, media_type_of
from agui_client._core.transport.retry import RetryPolicy
from agui_client._core.transport.sse import Framer
from agui_client.errors import AGUIError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.transport.timeouts import Timeouts

MOST_EVENT_BYTES = 4 * 1024 * 1024
"""The largest event that a probe reads."""
MOST_RUN_BYTES = 16 * 1024 * 1024
"""The most bytes that a probe reads of one response."""
_KEPT_BYTES = 1024 * 1024
_KEPT_PIECES = 4
_KEPT_FRAMES = 10_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of an event stream."""

    data: str
    """The data."""
    seconds: float
    """Seconds from the request until it was there."""

    @property
    def event(self) -> dict[str, Any]:
        """The JSON object in it; empty if it holds none."""
        return object_in(self.data)


@dataclass(slots=True)
class ProbeExchange:
    """A request and its response."""

    sent: bytes
    """The body of the request."""
    probe: str = ""
    """The probe that it belongs to."""
    started_at: float = field(default_factory=perf_counter)
    """`time.perf_counter()` when it was posted."""
    status: int | None = None
    """The HTTP status; None without a response."""
    media_type: str = ""
    """The content type, without parameters."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headers of the response."""
    http_version: str = ""
    """The version of HTTP."""
    content: bytearray = field(default_factory=bytearray)
    """The first bytes of the body, unpacked."""
    frames: list[Frame] = field(default_factory=list[Frame])
    """The frames of the event stream, as far as they were kept."""
    reads: list[float] = field(default_factory=list[float])
    """Seconds from the request to each read of the body."""
    longest_silence: float = 0.0
    """The longest time without a byte, from the request on."""
    silent_before: int = 0
    """The position of the first event behind that silence."""
    comments: int = 0
    """The number of keep-alive comments."""
    is_whole: bool = False
    """Whether the body was read to its end."""
    is_cut: bool = False
    """Whether only a part of the body was kept."""
    _framer: Framer = field(default_factory=lambda: Framer(MOST_EVENT_BYTES))
    _unpack: Callable[[bytes], Iterator[bytes]] | None = None
    _latest: float = 0.0

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events as JSON; empty objects for frames that hold none."""
        return [frame.event for frame in self.frames]

    def note_head(self, response: httpx.Response) -> None:
        """Note the head of the response."""
        self.status, self.media_type = response.status_code, media_type_of(response)
        self.headers, self.http_version = dict(response.headers), response.http_version
        if self.headers.get("content-encoding", "").strip().lower() in ("gzip", "x-gzip", "deflate"):
            self._unpack = Unpacker().feed
        self._note_silence()

    def receive(self, chunk: bytes) -> None:
        """Note bytes of the body."""
        self._note_silence()
        if len(self.content) >= _KEPT_BYTES or len(self.frames) >= _KEPT_FRAMES:
            self.is_cut = True
            return
        self.reads.append(self._latest)
        if self._unpack is not None:
            try:
                chunk = b"".join(islice(self._unpack(chunk), _KEPT_PIECES))
            except httpx.DecodingError:  # the run fails with it
                chunk = b""
        self.content += chunk
        with suppress(AGUIError):  # the run fails with it
            self._add(self._framer.feed(chunk))

    def end(self) -> None:
        """Note the end of the body."""
        self._note_silence()
        self.is_whole, self.comments = True, self._framer.keep_alives
        with suppress(AGUIError):
            self._add(self._framer.finish())

    def close(self) -> None:
        """Note that nothing more is read."""
        self.comments = self._framer.keep_alives

    def _add(self, frames: list[str]) -> None:
        self.frames += [Frame(data, self._latest) for data in frames]

    def _note_silence(self) -> None:
        now = perf_counter() - self.started_at
        if now - self._latest > self.longest_silence:
            self.longest_silence, self.silent_before = now - self._latest, len(self.frames)
        self._latest = now


@dataclass(slots=True)
class Capture:
    """The exchanges of an examination, in order, and the secrets that were sent."""

    exchanges: list[ProbeExchange] = field(default_factory=list[ProbeExchange])
    """The exchanges."""
    probe: str = ""
    """The probe that is made."""
    secrets: set[str] = field(default_factory=set[str], repr=False)
    """Parts of the request's headers and address that must not be shown."""


class CapturingTransport(Transport):
    """The way to an agent, with a tap in it."""

    tap: Capture
    """The tap."""

    @classmethod
    def around(cls, transport: Transport, tap: Capture) -> CapturingTransport:
        """Return the same way with a tap; it tries nothing again, and reads less.

        Args:
            transport: The way.
        """
        tapped = cls.__new__(cls)
        vars(tapped).update(vars(transport))
        tapped.tap, tapped.retry = tap, RetryPolicy.of(0)
        tapped.max_event_bytes, tapped.max_run_bytes = MOST_EVENT_BYTES, MOST_RUN_BYTES
        tap.secrets |= secrets_sent(str(transport.url), ())
        return tapped

    async def send(
        self, client: httpx.AsyncClient, url: httpx.URL, headers: httpx.Headers, request: ClientRequest
    ) -> httpx.Response:
        """Send the request, and note what comes back."""
        exchange = ProbeExchange(request.body, self.tap.probe)
        self.tap.exchanges.append(exchange)
        response = await super().send(client, url, headers, request)
        sent = response.request
        self.tap.secrets |= secrets_sent(str(sent.url), sent.headers.items())
        exchange.note_head(response)
        if not response.is_stream_consumed:
            response.stream = _TappedStream(cast("httpx.AsyncByteStream", response.stream), exchange)
        return response


class _TappedStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, exchange: ProbeExchange) -> None:
        self._stream, self._exchange = stream, exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._exchange.receive(chunk)
            yield chunk
        self._exchange.end()

    async def aclose(self) -> None:
        """Close the response."""
        self._exchange.close()
        await self._stream.aclose()


class ProbeAgent(HttpAgent):
    """An agent that asks for the runs of a probe.

    Args:
        agent: The agent that is examined.
        timeout: The time limits.
        changes: Members that are put into each input, whatever they are.
        options: See `AgentOptions`.
    """

    def __init__(
        self,
        agent: HttpAgent,
        tap: Capture,
        timeout: Timeouts,
        changes: dict[str, Any],
        **options: Unpack[AgentOptions[Any]],
    ) -> None:
        options["null_fields"] = "drop"  # with a warning, to see what else there is
        super().__init__(agent.url, timeout=timeout, **options)
        self._transport = CapturingTransport.around(agent._transport, tap)
        self._max_protocol_version = agent._max_protocol_version
        self._connect_url, self._examined = agent._connect_url, agent
        self.changes = changes
        """Members that are put into each input, whatever they are."""

    @property
    def address(self) -> str:
        """The address without the parts that may be secret."""
        return self._transport.address

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Post one run, with the changes in its input."""
        return self._post(input.model_copy(update=self.changes))

    def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Have the server send the thread again, as the examined agent would."""
        # With its policy for nothing else: in a run, that would hide a stream that is cut.
        self._reconnect = self._examined._reconnect
        try:
            return super().connect(input)
        finally:
            self._reconnect = None

    @property
    def can_connect(self) -> bool:
        """Whether the examined agent has a way to send a thread again."""
        return self._examined.can_connect

    async def post(self, body: bytes) -> None:
        """Post any bytes, and read the response to its end; the tap has it.

        Raises:
            AGUIError: The response is not an event stream, or cannot be read.
        """
        source = HttpSource(self._transport, ClientRequest(body, timeouts=self._timeouts), WarningLog())
        try:
            while (events := await source.read()) is not None:
                for _ in events:
                    pass
        finally:
            await source.aclose()
