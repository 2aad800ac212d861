"""The events of one run, read by read or one by one, and decoded only when somebody looks at them."""

from __future__ import annotations

import re
import socket
import traceback
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import httpcore
import httpx
import pytest
from ag_ui.core import CustomEvent

from agui_client import (
    ConnectError,
    ConnectTimeoutError,
    DecodeError,
    HttpAgent,
    IncompleteRunError,
    RetryPolicy,
    Timeouts,
    TransportError,
)
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.transport.client import ClientRequest, Transport
from agui_client._core.transport.http_source import HttpSource
from agui_client._core.transport.response import Body
from agui_client._core.transport.source import IteratorSource, Source
from agui_client.testing import events_of, sse, text, turn
from support.bodies import URL, Memory, Piece, memory_agent, refused
from support.waiting import LIMIT

FRAMES = events_of(sse(turn(text("One two."))))
TYPE = re.compile(r'"type":"(\w+)"')

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def source_of(*pieces: Piece, **limits: Any) -> HttpSource:
    request = ClientRequest(body=b"{}", timeouts=Timeouts(**limits))
    return HttpSource(Transport(URL, http_client=Memory(*pieces).client), request, WarningLog())


async def types_of(source: Source) -> list[list[Any]]:
    """The types of the events of each read."""
    reads: list[list[Any]] = []
    while (events := await source.read()) is not None:
        reads.append([event.type for event in events])
    return reads


async def test_a_read_gives_the_events_that_arrived_together() -> None:
    source = source_of(FRAMES[0] + FRAMES[1], b": alive\n\n", FRAMES[2][:9], FRAMES[2][9:], b"".join(FRAMES[3:])[:-1])
    reads = await types_of(source)
    await source.aclose()
    assert reads == [
        ["RUN_STARTED", "TEXT_MESSAGE_START"],
        ["TEXT_MESSAGE_CONTENT"],
        ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
        ["RUN_FINISHED"],
    ]
    assert await source.read() is None


async def test_events_are_decoded_as_they_are_iterated_and_the_ones_before_a_broken_frame_are_given() -> None:
    source = source_of(FRAMES[0] + b"data: no JSON\n\n" + FRAMES[1])
    events = await source.read()
    assert events is not None
    each = iter(events)
    assert next(each).type == "RUN_STARTED"
    with pytest.raises(DecodeError):
        next(each)
    await source.aclose()


async def test_a_read_of_which_nothing_was_decoded_is_an_event_that_arrived() -> None:
    source = source_of(FRAMES[0], anyio.sleep_forever, idle=0.05, first_event=60)
    await source.read()
    with anyio.fail_after(LIMIT), pytest.raises(TransportError, match="the last event was RUN_STARTED") as caught:
        await source.read()
    assert getattr(caught.value, "last_event", None) == "RUN_STARTED"
    await source.aclose()


@pytest.mark.parametrize("frame", [b"data: no JSON\n\n", b"data: [1]\n\n", b'data: {"type": 1}\n\n'], ids=repr)
async def test_a_frame_without_an_event_has_no_type_in_a_time_out(frame: bytes) -> None:
    source = source_of(frame, anyio.sleep_forever, idle=0.05)
    await source.read()
    with anyio.fail_after(LIMIT), pytest.raises(TransportError, match=r"no keep-alive comment had come; raise"):
        await source.read()
    await source.aclose()


async def test_reads_can_be_iterated_event_by_event() -> None:
    source = source_of(b"".join(FRAMES))
    assert [event.type async for event in source] == [TYPE.findall(frame)[0] for frame in map(bytes.decode, FRAMES)]
    await source.aclose()


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_nothing_is_read_after_an_interrupt(is_waiting: bool) -> None:
    source = source_of(FRAMES[0] + FRAMES[1], anyio.sleep_forever)
    assert (await anext(source)).type == "RUN_STARTED"
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            if is_waiting:
                await anext(source)

                async def interrupt() -> None:
                    await anyio.wait_all_tasks_blocked()
                    assert source.interrupt()

                tasks.start_soon(interrupt)
                assert await source.read() is None
            else:
                assert not source.interrupt()
        assert await anext(source, None) is None
        assert await source.read() is None
    await source.aclose()


async def test_an_iterator_is_read_one_event_at_a_time() -> None:
    async def events() -> AsyncIterator[Any]:
        yield CustomEvent(name="one", value=1)
        yield CustomEvent(name="two", value=2)

    assert await types_of(IteratorSource(events())) == [["CUSTOM"], ["CUSTOM"]]


# --- what proves that nothing was sent


UNSENT = {
    "connect": (refused(), ConnectError),
    "connect in time": (refused(httpx.ConnectTimeout("late")), ConnectTimeoutError),
}


@pytest.mark.parametrize("name", UNSENT)
async def test_only_httpxs_own_transport_proves_that_nothing_was_sent(name: str) -> None:
    proof, expected = UNSENT[name]
    for error, attempts in ((proof, 3), (type(proof)("by another transport"), 1)):
        tries = list[httpx.Request]()

        def answer(request: httpx.Request) -> httpx.Response:
            tries.append(request)  # noqa: B023 - called within the same turn
            raise error  # noqa: B023 - as above

        client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        with pytest.raises(expected) as caught:
            await HttpAgent(URL, http_client=client, retry=RetryPolicy(first_wait=0)).run_agent("Hi")
        assert (len(tries), caught.value.may_have_started) == (attempts, attempts == 1)


async def test_a_connection_that_broke_proves_nothing() -> None:
    error = httpx.ConnectError("broke later")
    error.__cause__ = httpcore.ReadError("reset")
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: (_ for _ in ()).throw(error)))
    with pytest.raises(ConnectError) as caught:
        await HttpAgent(URL, http_client=client).run_agent("Hi")
    assert caught.value.may_have_started


# --- exceptions of transports that are not httpx's


def foreign(library: str, text: str) -> Exception:
    """An exception of another HTTP library, which httpx does not know."""
    kind: type[Exception] = type("ClientError", (Exception,), {"__module__": f"{library}.exceptions"})
    return kind(text)


def raising(error: Exception) -> Memory:
    """A transport that raises it instead of answering."""

    def fail() -> httpx.Response:
        raise error

    return Memory(make=fail)


@pytest.mark.parametrize("library", ["aiohttp", "pyreqwest"])
async def test_an_exception_of_another_library_is_ours_shows_no_secret_and_is_not_tried_again(library: str) -> None:
    memory = raising(foreign(library, "400, url='http://host/?key=s3cr3t'"))
    with pytest.raises(ConnectError, match=r"broke: ClientError$") as caught:
        await HttpAgent(URL, http_client=memory.client).run_agent("Hi")
    assert (len(memory.requests), caught.value.may_have_started) == (1, True)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


async def test_any_exception_while_a_stream_is_read_is_a_broken_connection() -> None:
    with pytest.raises(IncompleteRunError, match=r"the run was cut off, as the connection to .* broke: ClientError"):
        await memory_agent(FRAMES[0], foreign("aiohttp", "payload")).run_agent("Hi")
    with pytest.raises(IncompleteRunError, match="broke: OSError"):
        await memory_agent(FRAMES[0], OSError("gone")).run_agent("Hi")


async def test_an_exception_of_the_applications_own_hook_stays_its_own() -> None:
    async def refuse(_: httpx.Request) -> None:
        raise LookupError("no token")

    client = httpx.AsyncClient(event_hooks={"request": [refuse]})
    with pytest.raises(LookupError, match="no token"):
        await HttpAgent(URL, http_client=client).run_agent("Hi")


async def test_a_connection_is_shut_though_its_socket_as_the_loop_shows_it_cannot_be() -> None:
    """As with uvloop, whose sockets are only looked at."""
    here, there = socket.socketpair()

    class OnlyLookedAt:
        family, type = here.family, here.type

        def fileno(self) -> int:
            return here.fileno()

        def shutdown(self, how: int) -> None:
            raise TypeError("transport sockets do not support shutdown() method")

    def get_extra_info(_: str) -> OnlyLookedAt:
        return OnlyLookedAt()

    stream = SimpleNamespace(get_extra_info=get_extra_info)
    response = httpx.Response(200, extensions={"network_stream": stream, "http_version": b"HTTP/1.1"})
    with here, there:
        Body(response).shut()
        there.settimeout(LIMIT)
        assert there.recv(1) == b""
