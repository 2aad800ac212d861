"""One GET of a JSON document beside an agent, with the agent's credentials, retries and time-outs."""

from __future__ import annotations

import anyio

from agui_client._transport.client import Address, Request, Transport
from agui_client._transport.clock import Clock
from agui_client._transport.delivery import Delivery
from agui_client._transport.response import Body, address_of
from agui_client._transport.sse import Framer
from agui_client._transport.timeouts import Timeouts
from agui_client.errors import AGUIError, StreamTooLargeError


async def fetch(transport: Transport, url: Address, timeouts: Timeouts) -> bytes:
    """Get a document.

    Args:
        transport: The way to the agent.
        url: The address of the document.
        timeouts: The time limits; the one for the first event is that for the answer.

    Returns:
        The document, not yet read as JSON.

    Raises:
        TransportError: The server did not send a document.
        StreamTooLargeError: The document is larger than an event may be.
    """
    clock = Clock(timeouts, Framer(transport.max_event_bytes), address_of(url))
    request = Request(body=b"", url=url, is_document=True, timeouts=timeouts)
    try:
        async with transport.clients.client() as client:
            body = await Delivery(transport, request, clock).deliver(client)
            clock.latest_frame = ""  # the answer has begun: what is late from here on is no first event
            try:
                return await _content(body, clock, transport.max_event_bytes)
            finally:
                with anyio.CancelScope(shield=True):
                    await body.aclose()
    finally:
        clock.close()


async def _content(body: Body, clock: Clock, most: int) -> bytes:
    content = bytearray()
    while True:
        try:
            chunk = await clock.wait(body.chunks.__anext__(), clock.idle_seconds)
        except StopAsyncIteration:
            return bytes(content)
        except Exception as error:
            if isinstance(error, AGUIError):
                raise
            clock.fail(error)
        if chunk is None:
            clock.give_up()
        content += chunk
        if len(content) > most:
            raise StreamTooLargeError(f"the document has more than max_event_bytes={most}", rule="SSE-12")
