"""The clock of one run over HTTP: every wait is limited, can be interrupted, and says how it ended."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from enum import Enum
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import anyio

from agui_client._pipeline.threads import whole
from agui_client._pipeline.transport.foreign import FOREIGN, translate
from agui_client._pipeline.waiting import Patience
from agui_client.errors import FirstEventTimeoutError, IdleTimeoutError, RunTimeoutError

if TYPE_CHECKING:
    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.framing import StreamMeter
    from agui_client._pipeline.limits import Timeouts

T = TypeVar("T")


class Clock:
    """Waits for the steps of a run.

    Args:
        limits: How long to wait for what.
        meter: Knows what was seen of the stream.
        address: Where the run was posted, for error messages.
    """

    def __init__(self, limits: Timeouts, meter: StreamMeter, address: str) -> None:
        self.latest: WireEvent | None = None
        """The last event that arrived, set by whoever reads them; None before the first."""
        self.is_interrupted = False
        """Whether nothing is waited for any more."""
        self._limits = limits
        self._meter = meter
        self._address = address
        self._patience = Patience.here()
        self._started_at = self._since = self._patience.now()
        self._total_at = _end(self._started_at, limits.total)
        self._first_event_at = _end(self._started_at, limits.first_event)
        self._idle_seconds = _end(0.0, limits.idle)

    @property
    def elapsed(self) -> float:
        """Seconds since the run was posted for the first time."""
        return self._patience.now() - self._started_at

    @property
    def left(self) -> float:
        """Seconds until the run has taken too long; infinite without `Timeouts.total`."""
        return self._total_at - self._patience.now()

    def restart(self) -> None:
        """Another attempt begins: it has the whole time until its first event."""
        self._first_event_at = _end(self._patience.now(), self._limits.first_event)

    async def wait(self, step: Awaitable[T]) -> T:
        """Await one step of the exchange.

        Args:
            step: What to wait for; foreign exceptions are translated.

        Raises:
            StopAsyncIteration: The run was interrupted, or the step was the end of an iteration.
            TransportError: It took too long, or failed.
        """
        patience = self._patience
        self._since = since = patience.now()
        silent_at = since + self._idle_seconds if self.latest is not None else self._first_event_at
        try:
            result = await patience.wait(step, min(silent_at, self._total_at))
        except FOREIGN as error:
            translate(error, self._limits, self._address)
        if result is None:
            self._stop()
        return result

    async def wait_for_caller(self, step: Awaitable[T]) -> T:
        """Await something of the caller's, whose exceptions are not ours to translate; only the total limits it.

        Args:
            step: What to wait for.

        Raises:
            StopAsyncIteration: The run was interrupted.
            RunTimeoutError: The run took too long.
        """
        self._since = self._patience.now()
        result = await self._patience.wait(whole(step), self._total_at)
        if result is None and (self.is_interrupted or self.left <= 0):
            self._stop()
        return cast("T", result)

    async def wait_briefly(self, step: Awaitable[T], seconds: float) -> T | None:
        """Await a step that may as well be given up.

        Args:
            step: What to wait for; its exceptions are not translated.
            seconds: How long it is worth.

        Returns:
            What the step returned; None if it took too long.

        Raises:
            StopAsyncIteration: The run was interrupted, or the step was the end of an iteration.
        """
        result = await self._patience.wait(step, min(self._patience.now() + seconds, self._total_at))
        if self.is_interrupted:
            raise StopAsyncIteration
        return result

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while, unless the run is interrupted."""
        await self.wait_for_caller(anyio.sleep(seconds))

    def interrupt(self) -> bool:
        """End the wait that is going on, and every later one.

        Returns:
            Whether there was one.
        """
        self.is_interrupted = True
        self._patience.end()
        return self._patience.is_waiting

    def close(self) -> None:
        """There will be no further wait."""
        self._patience.close()

    def _stop(self) -> NoReturn:
        """The wait was given up: the run was interrupted, or one of its limits was passed."""
        if self.is_interrupted:
            raise StopAsyncIteration
        limits, silent = self._limits, self._patience.now() - self._since
        keep_alives, last = self._meter.keep_alives, _type_of(self.latest)
        seen = f"; {_seen(keep_alives, last)}"
        if self.left <= 0:
            raise RunTimeoutError(
                f"the run took longer than {limits.total:g} s, silent for the last {silent:.1f} s{seen}; "
                "raise Timeouts.total to allow more",
                silent=silent,
                keep_alives=keep_alives,
                last_event=last,
            )
        if last is None:
            raise FirstEventTimeoutError(
                f"no event arrived within {limits.first_event:g} s{seen}; "
                "raise Timeouts.first_event if the agent needs longer",
                silent=silent,
                keep_alives=keep_alives,
                last_event=None,
            )
        raise IdleTimeoutError(
            f"the stream was silent for {limits.idle:g} s, {self.elapsed:.1f} s into the run{seen}; "
            "raise Timeouts.idle, or let the server send comments to keep it alive",
            silent=silent,
            keep_alives=keep_alives,
            last_event=last,
        )


def _seen(keep_alives: int, last: str | None) -> str:
    comments = "no keep-alive comment" if not keep_alives else f"{keep_alives} keep-alive comments"
    if keep_alives == 1:
        comments = "one keep-alive comment"
    return f"{comments} had come" + (f", the last event was {last}" if last else "")


def _type_of(event: WireEvent | None) -> str | None:
    if event is None:
        return None
    return event.type.value if isinstance(event.type, Enum) else event.type


def _end(start: float, seconds: float | None) -> float:
    return math.inf if seconds is None else start + seconds
