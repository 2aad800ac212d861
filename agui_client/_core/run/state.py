"""The state of a call: the phase that its present run is in, and the reason why it stops.

Theory of operation. A call is one or several runs, one after the other, and each passes through the same phases:

    READY ──▶ OPEN ──▶ READ ──▶ OVER ──▶ ANSWERING ──▶ READY (the next run)
      │         │                ▲
      └─────────┴────────────────┘             from every phase ──▶ ENDED

A run that cannot be sent, is stopped, or breaks off is over without having been read to its end. ENDED is final.

The reason why a call stops is kept beside the phase, because a call that is to stop still has steps to take: its run
is closed and settled, hooks and observers are called. `stop` is the caller's `cancel()` or `abort_run()`, which may
come from any thread; `exit` is the end of the block; `cut` is a wait that was cancelled, after which the loop is gone,
and only the caller knows whether the block continues. "Done" says that the run has its terminal event: it stays what
that event said (LIFE-7).

    phase                      transition   NONE      STOPPED   ABORTED   EXITED    CUT
    READY, OPEN, READ          stop         ABORTED   ABORTED   ABORTED   ABORTED   ABORTED
    READY, OPEN, READ, done    stop         STOPPED   STOPPED   ABORTED   EXITED    CUT
    OVER                       stop         STOPPED   STOPPED   ABORTED   ABORTED   STOPPED
    ANSWERING                  stop         ABORTED   ABORTED   ABORTED   ABORTED   ABORTED
    READY, OPEN, READ          exit         EXITED    ABORTED   ABORTED   EXITED    EXITED
    READY, OPEN, READ, done    exit         NONE      STOPPED   ABORTED   EXITED    CUT
    OVER, ANSWERING            exit         EXITED    ABORTED   ABORTED   EXITED    EXITED
    READY, OPEN, READ          cut          CUT       CUT       ABORTED   EXITED    CUT
    OVER, ANSWERING            cut          CUT       STOPPED   ABORTED   EXITED    CUT
    READY, OPEN, READ, done    end_run      NONE      STOPPED   STOPPED   EXITED    CUT

Nothing changes the reason of a call that has ended, and no other transition changes a reason. Invariants: ABORTED and
EXITED are the calls that have no outcome, though their last run may have one, and no reason goes back to NONE. In the
last row, the terminal event arrived after the stop, in the same read.

To change

- a phase of calls, or a reason why they stop: this module, with its picture and its table; `Engine` goes from phase to
  phase, but `finish_run` (`_core/run/last_steps.py`) to OVER and `Call.end` to ENDED.
  `tests/core/run/test_call_state.py` goes through the table, and has the functions that move phases
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The phase of a call's present run."""

    READY = "ready"
    """The input is made, and nothing of the run was sent; calls that were approved with the call may be executed."""
    OPEN = "open"
    """The run is about to be sent, or was sent, and its events arrive."""
    READ = "read"
    """The events were read to their end."""
    OVER = "over"
    """The run is being closed and settled, or is settled."""
    ANSWERING = "answering"
    """Tools and people answer what the run left, or have answered it."""
    ENDED = "ended"
    """The call is over."""


class Reason(Enum):
    """The reason why a call stops."""

    NONE = "none"
    """Nothing stops the call."""
    STOPPED = "stopped"
    """The caller asked for the end, and the last run stands as it ended."""
    ABORTED = "aborted"
    """The caller asked for the end before the run had one, or while tools or people were at work."""
    EXITED = "exited"
    """The block was left before the run had its end, or before the call continued after it."""
    CUT = "cut"
    """A wait was cancelled, so that the loop is gone; the caller may still continue, and gets an exception then."""


_IN_RUN = (Phase.READY, Phase.OPEN, Phase.READ)


class CallState:
    """The phase of a turn, and the reason why it stops; the module has the table of its transitions."""

    __slots__ = ("phase", "reason")

    def __init__(self) -> None:
        self.phase: Phase = Phase.READY
        """The phase of the present run."""
        self.reason: Reason = Reason.NONE
        """The reason why the call stops."""

    def __repr__(self) -> str:
        return f"<CallState: {self.phase.value}, {self.reason.value}>"

    # --- from phase to phase: only the loop goes there, so that a wrong turn is a fault of this package

    def send(self) -> None:
        """Note that the run is about to be sent."""
        self._go(Phase.OPEN, Phase.READY)

    def read_to_end(self) -> None:
        """Note that the events of the run were read to their end."""
        self._go(Phase.READ, Phase.OPEN)

    def end_run(self, *, is_done: bool) -> None:
        """Note that the run is over.

        Args:
            is_done: Whether the run has its terminal event.
        """
        self._go(Phase.OVER, *_IN_RUN)
        if is_done and self.reason is Reason.ABORTED:
            self.reason = Reason.STOPPED

    def answer(self) -> None:
        """Note that tools and people answer what the run left."""
        self._go(Phase.ANSWERING, Phase.OVER)

    def begin_run(self) -> None:
        """Note that another run follows."""
        self._go(Phase.READY, Phase.ANSWERING)

    def end(self) -> None:
        """Note that the call is over; idempotent, from every phase."""
        self.phase = Phase.ENDED

    def _go(self, to: Phase, *start: Phase) -> None:
        if self.phase not in start:
            raise RuntimeError(f"a call cannot be {to.value} now: it is {self.phase.value}; please report this")
        self.phase = to

    # --- reasons to stop, in every phase

    def stop(self, *, is_done: bool) -> None:
        """Note that the caller asked for the end of the call.

        Args:
            is_done: Whether the present run has its terminal event.
        """
        if self.phase in _IN_RUN and is_done:
            if self.reason is Reason.NONE:
                self.reason = Reason.STOPPED
        elif self.phase is Phase.OVER and not self.is_aborted:
            self.reason = Reason.STOPPED
        elif self.phase is not Phase.ENDED:
            self.reason = Reason.ABORTED

    def exit(self, *, is_done: bool) -> None:
        """Note that the block was left.

        Args:
            is_done: Whether the present run has its terminal event.
        """
        if self.phase is not Phase.ENDED and not (self.phase in _IN_RUN and is_done):
            self.reason = Reason.ABORTED if self.is_stopped else Reason.EXITED

    def cut(self) -> None:
        """Note that a wait was cancelled."""
        is_open_question = self.reason is Reason.NONE or (self.reason is Reason.STOPPED and self.phase in _IN_RUN)
        if is_open_question and self.phase is not Phase.ENDED:
            self.reason = Reason.CUT

    # --- looking

    @property
    def has_ended(self) -> bool:
        """Whether the call is over."""
        return self.phase is Phase.ENDED

    @property
    def is_run_open(self) -> bool:
        """Whether the present run is about to be sent, or was sent, and is not over."""
        return self.phase is Phase.OPEN or self.phase is Phase.READ

    @property
    def is_run_over(self) -> bool:
        """Whether the present run is over, and the call is not."""
        return self.phase is Phase.OVER or self.phase is Phase.ANSWERING

    @property
    def is_stopped(self) -> bool:
        """Whether the caller asked for the end of the call."""
        return self.reason is Reason.STOPPED or self.reason is Reason.ABORTED

    @property
    def is_aborted(self) -> bool:
        """Whether the call was stopped or left, so that it has no outcome."""
        return self.reason is Reason.ABORTED or self.reason is Reason.EXITED

    @property
    def has_abandoned_run(self) -> bool:
        """Whether this side stopped reading before the run was over, for whatever reason."""
        return self.is_aborted or self.reason is Reason.CUT
