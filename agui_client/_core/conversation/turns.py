"""Turns: one call of a conversation at a time, and the calls that wait for the end of another.

The calls of one conversation may be made in several threads and event loops. A call that ends gives its turn to the
first that waits, so that no other call comes between the two.

To change

- calls of one conversation that wait for each other: this module; `acquire_turn` in `_core/run/steering.py` waits for
  the turn
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

import anyio

from agui_client.errors import RunInProgressError, UsageError

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Prompt

WhenBusy: TypeAlias = Literal["raise", "queue", "interrupt"]
"""The choices for a call that is made while another one of the same agent is in progress."""

_CHOICES = get_args(WhenBusy)


class RunningCall(Protocol):
    """A turn that is in progress: the one call of a verb that has the conversation."""

    def interrupt(self) -> None:
        """Stop the call, from any thread."""

    def checkpoint(self) -> Any:
        """Return the `Checkpoint` of the call."""

    def steer(self, prompt: Prompt) -> None:
        """Add a message to the call while it is running, from any thread."""


class Turns:
    """Keeps the calls of one conversation apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.current: RunningCall | None = None
        """The call that is in progress; None without one."""
        self._waiting: deque[_Waiting] = deque()

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        """Leave the calls behind: a conversation that is carried to another process has none there."""
        return Turns, ()

    def check(self) -> None:
        """Refuse what cannot be done during a call.

        Raises:
            RunInProgressError: A call is in progress.
        """
        if self.current is not None:
            raise RunInProgressError(
                "the agent's thread is in the middle of a run; wait for it, abort_run() it, give when_busy=, "
                "or clone(thread_id=...) the agent for parallel work"
            )

    async def acquire(self, call: RunningCall, when_busy: WhenBusy, stack: AsyncExitStack) -> None:
        """Acquire the conversation for one call, once the calls before it have ended.

        Args:
            when_busy: The way to get the turn if another call has it.
            stack: The blocks of the call; its turn is over when they are left.

        Raises:
            RunInProgressError: Another call is in progress, and this one does not wait.
        """
        if when_busy not in _CHOICES:
            raise UsageError(f'when_busy is "raise", "queue" or "interrupt", not {when_busy!r}')
        if (waiting := self._begin(call, when_busy)) is not None:
            try:
                await waiting.granted.wait()
            except BaseException:
                self._withdraw(waiting)
                raise
        stack.callback(self._pass_on)

    def _begin(self, call: RunningCall, when_busy: WhenBusy) -> _Waiting | None:
        """Give the call its turn, or a place among those that wait."""
        with self._lock:
            current = self.current
            if current is None:
                self.current = call
                return None
            if when_busy == "raise":
                self.check()
            waiting = _Waiting(call)
            (self._waiting.append if when_busy == "queue" else self._waiting.appendleft)(waiting)
        if when_busy == "interrupt":
            current.interrupt()
        return waiting

    def _withdraw(self, waiting: _Waiting) -> None:
        """Give up a place, or the turn that came at the same moment."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                return
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            following = self._waiting.popleft() if self._waiting else None
            self.current = None if following is None else following.call
        if following is not None:
            following.thread.call(following.granted.set)


class _Waiting:
    """A call that waits for its turn, in its event loop."""

    def __init__(self, call: RunningCall) -> None:
        # Loaded here, as in `_core/transport/`: importing an agent is to load no event loop.
        from agui_client._core.ground.concurrency import LoopThread

        self.call = call
        self.granted = anyio.Event()
        self.thread = LoopThread()
