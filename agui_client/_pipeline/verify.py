"""Verification: whether the runs of a stream open and close as they must (LIFE-1 … LIFE-6, LIFE-12, TRUNC-1).

Looks at expanded events, never at chunks (PROC-4), and changes none. A run opens with RUN_STARTED and closes with
RUN_FINISHED or RUN_ERROR; several may follow each other in one stream. The rules inside a run are ownership's; what the
events mean for messages and state is reduce's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ag_ui.core import BaseEvent, Event, RunErrorEvent, RunFinishedEvent, RunStartedEvent

from agui_client._pipeline.ownership import OpenRun, listed, order_error, quoted
from agui_client._pipeline.versions import version_warning
from agui_client.errors import EventOrderError, IncompleteRunError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agui_client._pipeline.warnings import WarningLog

_Phase: TypeAlias = Literal["new", "open", "finished", "failed"]

_CHECKS = OpenRun.checks
_ADMITTED: dict[_Phase, tuple[type, ...]] = {
    "new": (RunStartedEvent, RunErrorEvent),
    "finished": (RunStartedEvent, RunErrorEvent),
    "failed": (RunStartedEvent,),
}
"""What may come while no run is open (LIFE-1, LIFE-3)."""


class Verifier:
    """Rejects a stream whose events come in an order that the protocol does not allow.

    Args:
        warnings: Takes what is tolerated, and knows where the stream is.
        strict: Whether a run or thread id other than expected is fatal; otherwise it is a warning (LIFE-12).
    """

    __slots__ = ("_abandoned", "_asked", "_earlier", "_phase", "_run", "_started", "_strict", "_warnings")

    def __init__(self, warnings: WarningLog, *, strict: bool = False) -> None:
        self._warnings = warnings
        self._strict = strict
        self._asked: tuple[str, str | None] | None = None
        self._phase: _Phase = "new"
        self._started: RunStartedEvent | None = None
        self._abandoned: list[str] = []
        self._earlier: list[str] = []
        self._run = OpenRun(warnings)

    def begin(self, thread_id: str, run_id: str | None) -> None:
        """Say what was asked for, so that a stream that answers something else is noticed (LIFE-12).

        Args:
            thread_id: The thread every run of the stream belongs to.
            run_id: The last run of the stream; those before it are replayed ones, with ids of their own (LIFE-13).
                None when it is for the stream to say.
        """
        self._asked = (thread_id, run_id)

    def feed(self, event: Event) -> None:
        """Accept the next event.

        Args:
            event: An event as expansion hands it on.

        Raises:
            EventOrderError: The event may not come here; `rule` says why.
        """
        kind = type(event)
        if self._phase != "open" and kind not in _ADMITTED[self._phase]:
            raise self._out_of_place(event)
        check = _CHECKS.get(kind)
        if check is not None:
            check(self._run, event)
            return
        turn = self._turns.get(kind)
        if turn is not None:
            turn(self, event)

    def finish(self) -> None:
        """Accept the end of the stream.

        Raises:
            IncompleteRunError: No run arrived, or the last one was cut off (TRUNC-1).
            EventOrderError: With `strict`, the last run is not the one that was asked for (LIFE-12).
        """
        if self._phase == "new":
            raise IncompleteRunError(self._nothing_arrived(), rule="TRUNC-1")
        if self._phase == "open":
            raise IncompleteRunError(self._cut_off(), rule="TRUNC-1")
        if self._phase == "finished":  # A failure is reported as the failure it is, whatever its ids (LIFE-8).
            self._expect_run_asked_for()

    @property
    def left_open(self) -> list[str]:
        """The ids of the messages and tool calls that the latest run has not closed; RUN_ERROR closes none."""
        return [*self._abandoned, *self._run.open_ids()]

    @property
    def left_open_before(self) -> list[str]:
        """The same of the runs before the latest one; a later run may have closed some of it."""
        return list(self._earlier)

    def _run_started(self, event: RunStartedEvent) -> None:
        if self._phase == "open":
            sentence = f"Cannot start run {quoted(event.run_id)} while {self._run_name()} is still open"
            raise self._fault("LIFE-2", event, f"{sentence}; the producer has to finish it first")
        self._phase = "open"
        self._started = event
        self._earlier += self._abandoned
        self._abandoned = []
        self._run = OpenRun(self._warnings)
        if self._asked is not None:
            self._expect(event, "thread", event.thread_id, self._asked[0])
        if (message := version_warning(event.protocol_version)) is not None:
            self._warnings.add("VER-2", message, path="/protocolVersion", event_type=event.type.value)

    def _run_finished(self, event: RunFinishedEvent) -> None:
        items, subagents = self._run.still_open(), self._run.active_subagents()
        if items or subagents:
            sentence = f"the producer finished {self._run_name()} with {listed(items + subagents)} still open"
            raise self._fault("LIFE-5" if items else "SUB-7", event, sentence)
        self._phase = "finished"
        if self._started is not None:
            self._expect(event, "run", event.run_id, self._started.run_id)
            self._expect(event, "thread", event.thread_id, self._started.thread_id)

    def _run_error(self, _event: RunErrorEvent) -> None:
        """A failure ends everything with it; no END will come (LIFE-6, SUB-9)."""
        self._phase = "failed"
        self._abandoned = self._run.open_ids()
        self._run = OpenRun(self._warnings)

    _turns: ClassVar[dict[type, Callable[[Verifier, Any], None]]] = {
        RunStartedEvent: _run_started,
        RunFinishedEvent: _run_finished,
        RunErrorEvent: _run_error,
    }

    def _out_of_place(self, event: BaseEvent) -> EventOrderError:
        if self._phase == "new":
            return self._fault("LIFE-1", event, "First event must be 'RUN_STARTED', or 'RUN_ERROR' if no run starts")
        how = "finished with 'RUN_FINISHED'" if self._phase == "finished" else "errored with 'RUN_ERROR'"
        sentence = f"The run has already {how}, and the producer went on without starting a new one"
        return self._fault("LIFE-3", event, sentence)

    def _expect_run_asked_for(self) -> None:
        if self._asked is not None and self._asked[1] is not None and self._started is not None:
            self._expect(self._started, "run", self._started.run_id, self._asked[1])

    def _expect(self, event: RunStartedEvent | RunFinishedEvent, what: str, given: str, expected: str) -> None:
        if given == expected:
            return
        sentence = f"the producer named {what} {quoted(given)} where {quoted(expected)} was expected"
        if self._strict:
            raise self._fault("LIFE-12", event, f"{sentence}; strict=False makes this a warning")
        kind = event.type.value
        self._warnings.add("LIFE-12", f"{kind}: {sentence}", path=f"/{what}Id", event_type=kind)

    def _nothing_arrived(self) -> str:
        what = "without any event" if self._warnings.event_index is None else "without an event that could be used"
        return f"the stream ended {what}: no run started, so there is no outcome; look at what the server answered"

    def _cut_off(self) -> str:
        items = self._run.still_open() + self._run.active_subagents()
        left = f", {len(items)} of its items still open ({listed(items)})" if items else ""
        return (
            f"The stream ended without 'RUN_FINISHED' or 'RUN_ERROR': {self._run_name()} was cut off{left} and has no "
            "outcome; what arrived is kept, and a retry needs a new run id"
        )

    def _run_name(self) -> str:
        return "the run" if self._started is None else f"run {quoted(self._started.run_id)}"

    def _fault(self, rule: str, event: BaseEvent, sentence: str) -> EventOrderError:
        return order_error(self._warnings, rule, event, sentence)
