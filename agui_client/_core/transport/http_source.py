"""Reading the response to one POST: bytes become frames, and frames events; timed and interruptible (SSE-3 … SSE-13).

Leaving early finishes every generator inside httpx before the run is left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import TypeAlias

import anyio
import anyio.lowlevel
from ag_ui.core import RunErrorEvent

from agui_client._core.ground.secrets import without_sent
from agui_client._core.ground.sent_secrets import SentSecrets
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent
from agui_client._core.protocol.problems import without_quotes, words_in
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.transport.client import RUNS_HEADER, ClientRequest, Transport
from agui_client._core.transport.clock import Clock
from agui_client._core.transport.delivery import Delivery, fetch
from agui_client._core.transport.response import JSON, Body
from agui_client._core.transport.run_end import RunEnd
from agui_client._core.transport.source import Source
from agui_client._core.transport.sse import Framer
from agui_client.errors import AGUIError, StreamTooLargeError

_LONGEST_BEGINNING = 4096
"""The bytes of a response that are kept until its first event, to be quoted if there is none."""
_NO_DATA = re.compile("(?:event|id|retry)?:")
"""The beginning of a line of SSE without data."""
_WAITED_SECONDS = 0.01
"""A read that takes longer has waited: bytes that are there already take a thousandth of it."""
Reading: TypeAlias = tuple[Clock, Callable[[], Awaitable[bytes]]]
"""The clock of a run, and the function that reads the next chunk of its response."""


class HttpSource(Source):
    """The events of one POST (SSE-4 … SSE-11).

    Args:
        transport: The way to the agent.
        request: The request to post.
        warnings: The run's warnings, which know the index of the present event.
    """

    conforming = True

    def __init__(self, transport: Transport, request: ClientRequest, warnings: WarningLog) -> None:
        self.delivery = Delivery(transport, request)
        """The attempts to deliver the POST, and the response."""
        self._transport, self._request = transport, request
        self._decoder, self._framer = Decoder(warnings), Framer(transport.max_event_bytes)
        self._runs, self._is_over = RunEnd(request.run_id), False
        self.secrets: SentSecrets = warnings.secrets
        """The secrets that the requests send."""
        self._received, self._has_waited = 0, False
        self._beginning = b""
        self._most = math.inf if transport.max_run_bytes is None else transport.max_run_bytes
        self._stack = AsyncExitStack()
        self._clock: Clock | None = None
        self._body: Body | None = None
        self._reading: Reading | None = None

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait until at least one frame is complete."""
        try:
            clock, next_chunk = self._reading or await self._open()
            while not clock.is_interrupted:
                silence = clock.idle_seconds if clock.latest_frame else clock.remaining_for_first_event
                if self._is_over:
                    silence = min(silence, clock.begin_wait_after_end())
                chunk = await clock.wait(next_chunk(), silence)
                if chunk is None:
                    clock.give_up()
                if self.is_interrupted:
                    # It found no wait to cancel, as the chunk had just come.
                    self._shut()
                self._received += len(chunk)
                is_beginning = clock.latest_frame is None and len(self._beginning) < _LONGEST_BEGINNING
                self._beginning += chunk[:_LONGEST_BEGINNING] if is_beginning else b""
                # Counted here, behind the content coding: a small body may unpack to any size.
                if self._received > self._most:
                    raise self._too_large()
                if frames := self._framer.feed(chunk):
                    self._has_waited |= clock.now() - clock.since > _WAITED_SECONDS
                    clock.latest_frame = frames[-1]
                    # Searched as one text: nearly every read has neither the beginning nor the end of a run.
                    self._is_over = "RUN_" in "".join(frames) and self._runs.end_with(frames)
                    clock.ended_at = None
                    events = self._decoder.feed_all(frames)
                    return map(self._without_secrets, events) if self.secrets else events
        except StopAsyncIteration:
            pass
        except Exception as error:
            if self._reading is None or isinstance(error, AGUIError):
                raise
            self._reading[0].fail(error)
        return self._finish()

    @property
    def is_kept(self) -> bool:
        """Whether the server continues with runs whose caller leaves, as it said with its latest response."""
        return self._transport.keeps_runs

    @property
    def posted(self) -> bytes:
        """The JSON that was posted."""
        return self._request.body

    @property
    def beginning(self) -> str:
        """The beginning of the response in a few words, with the address, where no event came before them."""
        where = self._transport.address
        if not self._beginning:
            return f"{where} responded with nothing"
        first, *_ = re.split(r"(?:\r?\n){2}|\r\r", self._beginning.decode(errors="replace").lstrip("\ufeff"))
        lines = (line.removeprefix("data:").strip() for line in first.splitlines() if not _NO_DATA.match(line))
        text = without_sent("\n".join(lines), self.secrets)
        words = "" if "\ufffd" in text else words_in(text)
        return f"{where} responded with {words}" if words else f"the response came from {where}"

    async def ask_below(self, path: str, posted: bytes) -> bytes:
        """Post JSON to an address below the agent's, with the credentials of this POST.

        Args:
            path: The path below the agent's, such as "stop".
            posted: The JSON.

        Returns:
            The JSON of the response.

        Raises:
            TransportError: No such response arrived.
        """
        request, transport = self._request, self._transport
        return await fetch(transport, transport.below(path), request.timeouts, posted, headers=request.headers)

    async def pause(self) -> None:
        """Let the event loop have its turn, unless it had one since the last time; see that the run has time left."""
        if self._has_waited:
            self._has_waited = False
        else:
            await anyio.lowlevel.checkpoint()
        clock = self._clock
        if clock is not None and clock.now() >= clock.until and not self.is_interrupted:
            clock.give_up()

    def interrupt(self) -> bool:
        """Stop reading now, even in the middle of a wait; if nothing waits, the connection is closed at once."""
        self.is_interrupted = True
        if self._clock is None:
            return False
        was_waiting = self._clock.interrupt()
        if not was_waiting:
            self._shut()
        return was_waiting

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        self.is_interrupted = True
        if self._clock is not None:
            self._clock.is_interrupted = True
        # The response and the client shield their closing where they wait; most runs were read to their end by now.
        await self._stack.aclose()

    async def _open(self) -> Reading:
        """Post the run; return what reads the response."""
        if self.is_interrupted:
            raise StopAsyncIteration
        request, transport = self._request, self._transport
        self._clock = clock = Clock(request.timeouts, self._framer, transport.address, request.until, self.secrets)
        self._stack.callback(clock.close)
        self._client = await transport.clients.lend(self._stack)
        self._body = await self.delivery.deliver(self._client, clock)
        response = self.delivery.response
        transport.keeps_runs = response is not None and response.headers.get(RUNS_HEADER) == "continue"
        self._has_waited = True
        self._stack.push_async_callback(self._body.aclose)
        if request.is_replay and self._body.media_type == JSON:
            from agui_client._core.transport.thread_document import DocumentFramer

            self._framer = DocumentFramer(transport.max_event_bytes, request.body)
        self._reading = clock, self._body.chunks.__anext__
        return self._reading

    def _without_secrets(self, event: WireEvent) -> WireEvent:
        """Hide the secrets that were sent, if the server quotes them in what is not content."""
        return without_quotes(event, self.secrets) if type(event) in (UnrecognizedEvent, RunErrorEvent) else event

    def _shut(self) -> None:
        if self._body is not None:
            self._body.shut()

    def _finish(self) -> Iterable[WireEvent] | None:
        """Return the event of a last frame that no blank line terminated, once."""
        if self.is_interrupted or self._body is None:
            return None
        self._body = None
        frames = self._framer.finish()
        return self._decoder.with_unpaired(map(self._decoder.finish, frames)) if frames else None

    def _too_large(self) -> StreamTooLargeError:
        what = f"the run brought {self._received} bytes, which exceeds max_run_bytes={self._most}"
        advice = "raise that option, or give None, if the agent really sends as much"
        return StreamTooLargeError(what, rule="SSE-12", fix=advice)
