"""The end of an app's runs when its server is to stop.

Servers tell an app so (`lifespan.shutdown`) when their connections are closed, and a stream keeps its connection open.
So the app takes note of the signals as well, and passes them on to the server's own handlers.

Runs are ended one after the other: callers ask again at once, and a new server that gets all of them in one moment lets
most of them wait. Those that began last are ended first, as the others may come to an end of their own before. A run in
which functions are at work ends when they have ended and their results are saved; those that take too long are cut.

To change

- what happens to runs when a server stops: this module knows the signals and what is in progress; `Leaving` in
  `_core/tools/leaving.py` lets functions at work end first; `AgentApp.lifespan` and `AgentApp.shutdown` in
  `asgi/_app.py`, where `ResponseBody.end_cancelled` (`asgi/_responses.py`) ends what the server cancels
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import anyio
from ag_ui.core import RunErrorEvent

from agui_client._core.ground.concurrency import LoopThread

if TYPE_CHECKING:
    from agui_client._core.verbs.async_run import AgentRun

SHUTTING_DOWN = RunErrorEvent(message="The server is shutting down, and has stopped this run.", code="shutting_down")
"""The last event of a run that was stopped because its server stops."""
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]
_SECONDS = 5.0
"""The time that callers have to read the end of their runs; then they are disconnected."""
_TURN_SECONDS = 0.1
"""The time between the ends of two runs, if there is enough: to begin a run takes a processor 10 to 20 ms."""
_LOOK_SECONDS = 0.05
"""The time between two looks whether all runs have ended."""
STOP_WITHIN = 5.0
"""The longest time until all runs are ended, and functions at work are cut, if the application does not say."""


class Stopping:
    """The runs and the responses of an app that are in progress, and the way to end them.

    Args:
        seconds: The longest time until all runs are ended, and functions at work are cut.
    """

    def __init__(self, seconds: float) -> None:
        self.has_begun: bool = False
        """Whether the server stops, so that no other run is begun."""
        self._seconds = seconds
        # In the order in which they began.
        self._runs: dict[AgentRun, LoopThread] = {}
        self._last_at = self._cut_at = 0.0
        self._responses: dict[Callable[[], None], anyio.Event] = {}

    def last_event(self) -> RunErrorEvent | None:
        """Return the last event of a run that was stopped because the server stops; None if it continues."""
        return SHUTTING_DOWN if self.has_begun else None

    def begin(self) -> None:
        """Stop the runs that are in progress, one after the other, and those that begin from now on. Idempotent."""
        if self.has_begun:
            return
        self.has_begun = True
        self._cut_at = monotonic() + self._seconds
        self._last_at = min(self._cut_at, monotonic() + _TURN_SECONDS * len(self._runs))
        if self._runs:
            # A thread, as this is called where no task can be begun.
            threading.Thread(target=self._end_in_turn, name="agui_client.stopping", daemon=True).start()

    def _end_in_turn(self) -> None:
        """End the runs that are still in progress, with pauses between them; cut those that work for too long."""
        begun: set[AgentRun] = set()
        while left := [each for each in list(self._runs.items()) if each[0] not in begun]:
            run, loop = left[-1]
            begun.add(run)
            loop.call(partial(run.call.leaving.begin, run.cancel))
            if len(left) > 1:
                time.sleep(min(_TURN_SECONDS, max(0.0, self._last_at - monotonic()) / len(left)))
        while self._runs and monotonic() < self._cut_at:
            time.sleep(_LOOK_SECONDS)
        for run in list(self._runs):
            run.cancel()

    async def wait(self) -> None:
        """Wait for the end of all responses; cancel those whose callers do not read."""
        responses = dict(self._responses)
        with anyio.move_on_after(max(0.0, self._cut_at - monotonic()) + _SECONDS):
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
        self._runs[run] = LoopThread()
        try:
            if self.has_begun:
                run.cancel()
            yield
        finally:
            del self._runs[run]


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
        # Where nobody handles a signal, it ends the process, and has to continue doing so.
        before = {number: each for number in _SIGNALS if callable(each := signal.getsignal(number))}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)  # type: ignore[arg-type]
