"""The events of a team's run: what its members, at work side by side, put in is read in the order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.lowlevel

from agui_client._core.ground.concurrency import spawn
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.transport.source import Source, failure_of
from agui_client.errors import AGUIError
from agui_client.teams._members import messages_of

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client.teams._event_forwarder import Whole

    Item: TypeAlias = Event | Whole

_AHEAD = 128
"""The number of events that members may be ahead of the reader; the collector walks over all that are unread."""


class TeamSource(Source):
    """Runs a function in a task of its own, and gives the events that it puts in.

    Args:
        work: The function; it begins with the first read, and is cancelled when the source is closed.
    """

    conforming = True

    def __init__(self, work: Callable[[TeamSource], Awaitable[None]]) -> None:
        self._work = work
        self._context, self._scope = copy_context(), CURRENT_SCOPE.get()
        if self._scope is not None:
            self._scope.unread = self.unread
        self._items: list[Item] = []
        self._batch: Iterator[Event] = iter(())
        self.is_full: bool = False
        """Whether so many events are unread that a member that adds one has to wait for space."""
        self._arrival: anyio.Event | None = None
        # The members that wait for space: each gets its turn to add what it has, so that few tasks are woken.
        self._waiting = deque[anyio.Event]()
        # The events that were put, that the reader took, and that it had done with when it came for more.
        self._put = self._taken = self._done = 0
        self._awaited: list[tuple[int, anyio.Event]] = []
        self._ended: anyio.Event | None = None
        self._failure: BaseException | None = None
        self._cancel_scope = anyio.CancelScope()

    async def put(self, item: Item) -> None:
        """Give an event to the reader; wait while too many are unread."""
        self.put_nowait(item)
        if self.is_full:
            await self.space()

    def put_nowait(self, item: Item) -> None:
        """Give an event to the reader, however many are unread."""
        self._items.append(item)
        self._put += 1
        if self._arrival is not None:
            self._arrival.set()
        self.is_full = len(self._items) >= _AHEAD

    async def space(self) -> None:
        """Wait until the reader has taken what is unread, and others have had their turn."""
        turn = anyio.Event()
        self._waiting.append(turn)
        await turn.wait()

    async def saved(self) -> None:
        """Wait until all that was put is saved: the reader has done with it, and comes for more.

        Returns at once where nothing saves the conversation.
        """
        if self._scope is None or not self._scope.is_saved or self._put <= self._done:
            return
        event = anyio.Event()
        self._awaited.append((self._put, event))
        await event.wait()

    async def read(self) -> Iterable[Event] | None:
        """Wait for the next events.

        Raises:
            Exception: The function failed.
        """
        self._done = self._taken
        while self._awaited and self._awaited[0][0] <= self._done:
            self._awaited.pop(0)[1].set()
        if self._ended is None and not self.is_interrupted:
            self._ended = anyio.Event()
            spawn(self._run, self._context)
        while not self._items and self._ended is not None and not self._ended.is_set() and not self.is_interrupted:
            # The member whose turn it was may wait for its server, and was perhaps cancelled.
            if not self._give_turn():
                self._arrival = anyio.Event()
                await self._arrival.wait()
                self._arrival = None
            # Members whose events have come at the same time get their turn: many events are read as one.
            await anyio.lowlevel.checkpoint()
        if self.is_interrupted:
            return None
        if self._items:
            batch, self._items, self.is_full = self._items, [], False
            self._taken += len(batch)
            self._give_turn()
            self._batch = self._made(batch)
            return self._batch
        if self._failure is not None:
            raise self._failure
        return None

    def _give_turn(self) -> bool:
        """Wake the member that has waited longest for space; return whether there was one."""
        if not self._waiting:
            return False
        self._waiting.popleft().set()
        return True

    def unread(self) -> Iterator[Event]:
        """Take the events that the reader of a closed source has not come to: what they tell has happened."""
        yield from self._batch
        batch, self._items = self._items, []
        yield from self._made(batch)

    def interrupt(self) -> bool:
        """End the stream now, even in the middle of a wait."""
        self.is_interrupted: bool = True
        if self._arrival is None:
            return False
        self._arrival.set()
        return True

    async def aclose(self) -> None:
        """Cancel the function, and wait for its end."""
        self.is_interrupted = True
        if self._ended is not None:
            self._cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()

    def _made(self, batch: list[Item]) -> Iterator[Event]:
        """Yield events; a snapshot is made when all events before it are part of the conversation."""
        for item in batch:
            if callable(item):
                yield item(() if self._scope is None else messages_of(self._scope))
            else:
                yield item

    async def _run(self) -> None:
        assert self._ended is not None
        try:
            with self._cancel_scope:
                await self._work(self)
        except anyio.get_cancelled_exc_class():
            # This task alone was cancelled, and not the reader.
            self._failure = AGUIError("a member of the team cancelled itself")
        except AGUIError as error:
            self._failure = error
        except Exception as error:
            self._failure = failure_of(error)
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()
            if self._arrival is not None:
                self._arrival.set()
