"""A TCP proxy that cuts connections at random moments."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import SocketStream

from support.listening import listening

_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class CuttingProxy:
    """A proxy in front of a server on this machine.

    Args:
        port: The port of the server.
        cuts: The number of connections that are cut; further ones are left alone.
        seconds: The shortest and the longest time from the first bytes of an answer to its cut; of a request to `/`,
            which begins a run, from its first event.
        seed: Of the random moments.
        unanswered: The number of connections, before those, that are cut as soon as the server answers.
        at_any_moment: Whether that time begins with the connection, so that it may be cut before the answer; not of the
            first one that is answered, whose request would not always arrive.
    """

    def __init__(
        self,
        port: int,
        *,
        cuts: int,
        seconds: tuple[float, float],
        seed: int = 0,
        unanswered: int = 0,
        at_any_moment: bool = False,
    ) -> None:
        self.url = ""
        """The address of the proxy, such as "http://127.0.0.1:51234"."""
        self.left = cuts
        """The number of connections that are still to be cut."""
        self.seconds = seconds
        """The shortest and the longest time, for connections that are made from now on."""
        self.unanswered = unanswered
        """The number of connections that are still to be cut as soon as the server answers."""
        self._port, self._chance = port, random.Random(seed)
        self._at_any_moment, self._has_begun = at_any_moment, False

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve while the block lasts."""
        async with listening(self._pass_on) as self.url:
            yield

    async def _pass_on(self, caller: SocketStream) -> None:
        life = self._chance.uniform(*self.seconds) if self.left > 0 else math.inf
        async with caller, await anyio.connect_tcp("127.0.0.1", self._port) as server:
            with anyio.CancelScope() as scope, suppress(anyio.EndOfStream, *_BROKEN):
                if is_timed := self._at_any_moment and self._has_begun:
                    scope.deadline = anyio.current_time() + life
                request = await caller.receive()
                await server.send(request)
                async with anyio.create_task_group() as tasks:

                    async def answer() -> None:
                        """Pass the answer on; the life of the connection begins with its first bytes."""
                        with suppress(anyio.EndOfStream, *_BROKEN):
                            passed = await server.receive()
                            if self.unanswered:
                                self.unanswered -= 1
                                scope.cancel()
                            await caller.send(passed)
                            self._has_begun = True
                            if not is_timed:
                                # A policy that goes on at a cursor has none before the first event.
                                while request.startswith(b"POST / ") and b"\n\n" not in passed.partition(b"data:")[2]:
                                    passed += (data := await server.receive())
                                    await caller.send(data)
                                scope.deadline = anyio.current_time() + life
                            await _copy(server, caller)
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(_copy, caller, server)
                    tasks.start_soon(answer)
            self.left -= scope.cancelled_caught and scope.deadline < math.inf


async def _copy(source: SocketStream, target: SocketStream) -> None:
    with suppress(*_BROKEN):
        async for data in source:
            await target.send(data)
