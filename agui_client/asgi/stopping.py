"""The end of an app's runs when its server is to stop.

Servers tell an app so (`lifespan.shutdown`) when their connections are closed, and a stream keeps its connection open.
So the app takes note of the signals as well, and passes them on to the server's own handlers.

Runs are ended one after the other: callers ask again at once, and a new server that gets all of them in one moment lets
most of them wait.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import anyio
from ag_ui.core import RunErrorEvent

from agui_client._concurrency import LoopThread

if TYPE_CHECKING:
    from agui_client._run.async_run import AgentRun

SHUTTING_DOWN = RunErrorEvent(message="The server is shutting down, and has stopped this run.", code="shutting_down")
"""The last event of a run that was stopped because its server stops."""
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]
_SECONDS = 5.0
"""The time that callers have to read the end of their runs; then they are disconnected."""
_TURN_SECONDS, _ALL_SECONDS = 0.02, 5.0
"""The time between the ends of two runs, and the longest time between those of the first and the last."""


class Stopping:
    """The runs and the responses of an app that are going on, and the way to end them."""

    def __init__(self) -> None:
        self.has_begun = False
        """Whether the server stops, so that no other run is begun."""
        # In the order in which they began.
        self._runs: dict[AgentRun, None] = {}
        self._last_at = 0.0
        self._responses: dict[Callable[[], None], anyio.Event] = {}

    def begin(self) -> None:
        """Stop the runs that are going on, one after the other, and those that begin from now on. Idempotent."""
        if self.has_begun:
            return
        self.has_begun = True
        runs = list(self._runs)
        pause = min(_TURN_SECONDS, _ALL_SECONDS / max(len(runs), 1))
        self._last_at = monotonic() + pause * (len(runs) - 1)
        if len(runs) > 1:
            # A thread, as this is called where no task can be begun, and a run is cancelled from any thread.
            threading.Thread(target=_cancel, args=(runs, pause), name="agui_client.stopping", daemon=True).start()
        else:
            _cancel(runs, pause)

    async def wait(self) -> None:
        """Wait for the end of all responses; cancel those whose callers do not read."""
        responses = dict(self._responses)
        with anyio.move_on_after(max(0.0, self._last_at - monotonic()) + _SECONDS):
            for ended in responses.values():
                await ended.wait()
        for cancel, ended in responses.items():
            cancel()
            await ended.wait()

    @contextmanager
    def response(self, scope: anyio.CancelScope) -> Generator[None]:
        """Know a response, for a block.

        Args:
            scope: Its cancel scope.
        """
        cancel = partial(LoopThread().call, scope.cancel)
        ended = self._responses[cancel] = anyio.Event()
        try:
            yield
        finally:
            del self._responses[cancel]
            ended.set()

    @contextmanager
    def run(self, run: AgentRun) -> Generator[None]:
        """Know a run that was entered, for a block."""
        self._runs[run] = None
        try:
            if self.has_begun:
                run.cancel()
            yield
        finally:
            del self._runs[run]


def _cancel(runs: Sequence[AgentRun], pause: float) -> None:
    for number, run in enumerate(runs):
        if number:
            time.sleep(pause)
        run.cancel()


@contextmanager
def on_signals(begin: Callable[[], object]) -> Generator[None]:
    """Call a function when a signal tells the server to stop, and the server's own handler after it, for a block.

    Python has signal handlers in the main thread only; elsewhere nothing is called.

    Args:
        begin: The function, called in the event loop that runs now.
    """
    loop, before = LoopThread(), dict[int, object]()

    def handle(number: int, frame: FrameType | None) -> None:
        """Schedule the function, as a signal comes between any two steps, and pass the signal on."""
        loop.schedule(begin)
        handler = before[number]
        assert callable(handler)
        handler(number, frame)

    if threading.current_thread() is threading.main_thread():
        # Where nobody handles a signal, it ends the process, and has to go on doing so.
        before = {number: each for number in _SIGNALS if callable(each := signal.getsignal(number))}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)  # type: ignore[arg-type]
