"""The log of one run: its task appends events, and any number of followers read them at their own pace.

A log holds encoded frames, so that its size is known and a follower costs no encoding. States of a log:

    OPENING ──▶ OPEN ──▶ OVER ──▶ DROPPED
       └──────────────────▲ (refused)

It is opened when the run has begun, over from its terminal event on, and dropped when its memory is needed or its time
has passed; a follower that still reads it then gets no more. Events that another attempt at the run replaces go to
`earlier_attempts`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from ag_ui.core import (
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateSnapshotEvent,
)
from pydantic import TypeAdapter
from pydantic_core import to_json

from agui_client._core.agent.run_records import Place, RunInfo, RunKey, RunsClosedError, RunStatus
from agui_client._core.protocol.events import WireEvent
from agui_client._core.protocol.outcome import ThreadFacts
from agui_client._core.run.subagents import without_journal
from agui_client._core.verbs.sse import event_of, frame_of
from agui_client.errors import UsageError
from agui_client.store._runs.earlier_attempts import EarlierAttempts

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

STOPPED = RunErrorEvent(message="The run was stopped before it had begun.", code="stopped")
"""The only event of a run that was stopped before it had begun."""
LOG_FULL = RunErrorEvent(message="The run has more events than the server can keep.", code="log_full")
"""The last event of a run whose log has no room."""
MESSAGES = TypeAdapter(list[Message])
"""Writes and reads the messages that a run begins with."""
_OVERHEAD, _OVERHEAD_OF_LOG = 64, 4096
"""The bytes that a frame and a log take besides their contents, about."""
_MOST_AT_ONCE = 256
"""The frames that a follower gets in one go."""


class LogPhase(Enum):
    """The phase of a log."""

    OPENING = "opening"
    """The run is about to begin, and may yet be refused."""
    OPEN = "open"
    """The run is in progress."""
    OVER = "over"
    """The run has ended, or was refused."""
    DROPPED = "dropped"
    """The events are forgotten."""


class LogKeeper(Protocol):
    """Gets to know of what becomes of logs."""

    def on_growth(self, log: RunLog, size: int, /) -> None:
        """Note that a log takes more bytes, or fewer if the size is negative."""
        ...

    def on_end(self, log: RunLog, /) -> None:
        """Note that a run has ended, or was refused."""
        ...

    def on_left(self, log: RunLog, /) -> None:
        """Note that the last follower has left a run that is in progress."""
        ...


class RunLog:
    """The events of one run.

    Args:
        key: The identity of the run.
        keeper: Gets to know of the log's size, end and followers.
        input_size: The bytes of the input that asked for the run, which is kept as long as the log.
    """

    def __init__(self, key: RunKey, keeper: LogKeeper, input_size: int = 0) -> None:
        self.key = key
        """The identity of the run."""
        self.attempt: int = 1
        """The number of the attempt that writes the log, or has written its end."""
        self.input_size = input_size
        """The bytes of the input that asked for the run."""
        self.size: int = _OVERHEAD_OF_LOG + input_size
        """The bytes that the log takes, about."""
        self.phase: LogPhase = LogPhase.OPENING
        """The phase of the log."""
        self.status: RunStatus = RunStatus.RUNNING
        """The status of the run."""
        self.interrupts: Sequence[Interrupt] = ()
        """The interrupts that the run has ended with."""
        self.refusal: Exception | None = None
        """The exception with which the run was refused; None if it was not."""
        self.left_input: RunAgentInput | None = None
        """The conversation that the run has left, for answers to its interrupts; None unless it waits for them."""
        self.begun_at: datetime = datetime.now(UTC)
        """The time when the run began."""
        self.ended_at: datetime | None = None
        """The time when the run ended; None before."""
        self._keeper, self._end_on_clock = keeper, inf
        self.is_remote = False
        """Whether another process writes the log: then followers may have read more of it there than there is here."""
        self._frames: list[bytes] = []
        self._shown: int | None = None
        self._earlier = EarlierAttempts()
        self.before: tuple[Sequence[Message], Any] | None = None
        """The messages and the state that the run began with; None if it has not begun, or they are not known here."""
        self._followers = 0
        self._change: anyio.Event | None = None

    @property
    def is_running(self) -> bool:
        """Whether the run is about to begin, or in progress."""
        return self.phase in (LogPhase.OPENING, LogPhase.OPEN)

    @property
    def is_followed(self) -> bool:
        """Whether the run has followers."""
        return self._followers > 0

    @property
    def age(self) -> float:
        """The seconds since the end of the run, whatever is done to the clock meanwhile; negative before the end."""
        return monotonic() - self._end_on_clock

    @property
    def info(self) -> RunInfo:
        """The description of the run."""
        asked = self.interrupts if self.status is RunStatus.WAITING else ()
        about = self.status, self.begun_at, self.ended_at, len(self._frames), asked
        return RunInfo(self.key.run_id, self.key.thread_id, self.key.owner, *about)

    # --- for the task of the run

    def open(self, messages: Sequence[Message], state: Any) -> None:
        """Note that the run has begun.

        Args:
            messages: The conversation that the run begins with.
        """
        self.before = messages, state
        self.phase = LogPhase.OPEN
        self._grow(sum(map(_size_of, messages)) + len(to_json(state, inf_nan_mode="constants")))
        self._announce()

    def begin_again(self, attempt: int, position: int) -> None:
        """Note that the run is attempted again: the events behind a position are replaced.

        Args:
            attempt: The number of the attempt.
            position: The number of events that stay.
        """
        self._earlier.add(self.attempt, position, self._frames[position:])
        self.attempt, self._frames = attempt, self._frames[:position]
        self._announce()

    def show(self, position: int) -> None:
        """Let followers read the events up to a position, as they are stored; without a call, they may read all.

        An event that is not stored is lost with the process. A follower that had it would never get the end of what it
        opens: the process that takes the run over does not know of it.
        """
        self._shown = position
        self._announce()

    async def has_more(self, position: int) -> bool:
        """Wait for events behind a position, shown or not; return whether there are any, or the run is over."""
        while self.is_running and position == len(self._frames):
            await self._changed()
        return position < len(self._frames)

    def extend(self, frames: Sequence[bytes], *, is_end: bool) -> None:
        """Append frames that another process has written.

        Args:
            is_end: Whether the last of them is the run's terminal event.
        """
        self._frames += frames
        self._grow(sum(map(len, frames)) + _OVERHEAD * len(frames))
        if is_end:
            self._conclude(event_of(frames[-1]))
        else:
            self._announce()

    def refuse(self, refusal: Exception) -> None:
        """Note that the run cannot begin."""
        self.refusal = refusal
        self._end(RunStatus.FAILED)

    def append(self, event: WireEvent) -> None:
        """Append an event; the terminal one ends the log."""
        frame = frame_of(event)
        self._frames.append(frame)
        self._grow(len(frame) + _OVERHEAD)
        self._conclude(event)

    def _conclude(self, event: WireEvent) -> None:
        if isinstance(event, RunFinishedEvent | RunErrorEvent):
            self.interrupts = interrupts_in(event)
            self._end(status_after(event))
        else:
            self._announce()

    def settle(self, *, is_answered: bool) -> None:
        """Note that another run of the thread has begun, after which the run no longer waits.

        Args:
            is_answered: Whether the other run answers what this one waited for.
        """
        if self.status is RunStatus.WAITING:
            self.status = RunStatus.FINISHED if is_answered else RunStatus.SUPERSEDED
            if not is_answered:
                self.left_input = None

    def conclude(self, left_input: RunAgentInput | None, *, waits_again: bool) -> None:
        """Note that the run which answers this one is over.

        Args:
            left_input: The conversation that it has left, for answers; None if it is that of this run.
            waits_again: Whether it has used no answer, so that this run waits again.
        """
        if self.status is RunStatus.FINISHED and self.left_input is not None:
            self.left_input = (left_input or self.left_input) if waits_again else None
            self.status = RunStatus.WAITING if waits_again else RunStatus.FINISHED

    def drop(self) -> None:
        """Forget the events."""
        self._grow(-self.size)
        self.phase, self.before, self.left_input = LogPhase.DROPPED, None, None
        self._frames, self._earlier = [], EarlierAttempts()
        self._announce()

    # --- for followers

    @contextmanager
    def followed(self) -> Generator[None]:
        """Count a follower, as a block."""
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers and self.is_running:
                self._keeper.on_left(self)

    async def opened(self) -> None:
        """Wait until the run has begun.

        Raises:
            Exception: It was refused.
            RunsClosedError: It was left to another process meanwhile, where it is to be followed.
        """
        await self.is_followable()
        if self.refusal is not None:
            raise self.refusal
        self._check_here()

    async def is_followable(self) -> bool:
        """Wait until the run has begun or was refused; return whether it is in progress."""
        while self.phase is LogPhase.OPENING:
            await self._changed()
        return self.is_running

    @property
    def end(self) -> Place:
        """The place behind the last event so far."""
        return Place(len(self._frames), self.attempt)

    def frames_behind(self, position: int) -> Sequence[bytes]:
        """Return the frames behind a number of events, as far as there are any now."""
        return self._frames[position:]

    def check(self, place: Place) -> None:
        """Check a place that a follower names.

        Raises:
            RunsClosedError: The run was left to another process, where it is to be followed.
            UsageError: The place is none of this run, or the events are no longer kept.
        """
        self._check_here()
        if self.phase is LogPhase.DROPPED:
            raise UsageError(f"run {self.key.run_id!r} is no longer kept; Store(keep=, max_bytes=) say for how long")
        if self._is_ahead(place) and not (self.is_remote and self.is_running):
            raise UsageError(f"run {self.key.run_id!r} has no {place.position} events; the cursor is of another run")

    def _check_here(self) -> None:
        # A log without an end is dropped where its run continues elsewhere: it is kept, and lives.
        if self.phase is LogPhase.DROPPED and self.status is RunStatus.RUNNING:
            raise RunsClosedError(f"run {self.key.run_id!r} is left to another process")

    def _is_ahead(self, place: Place) -> bool:
        """Return whether a place is behind the last event of the log."""
        return place.order > self.end.order

    async def ended(self) -> None:
        """Wait until the run has ended."""
        while self.is_running:
            await self._changed()

    async def read(self, place: Place) -> Sequence[tuple[Place, bytes]]:
        """Wait for events, and return their frames.

        Args:
            place: The place behind the last frame that was read before.

        Returns:
            The next frames, each with the place behind it; none if the run is over, and all were read.

        Raises:
            UsageError: The place is none of this run, or the events are no longer kept.
        """
        while True:
            self.check(place)
            if place.attempt < self.attempt:
                if ends := self._earlier.ends(place):
                    return ends
                place = self._earlier.caught_up(place, self.attempt)
            shown = len(self._frames) if self._shown is None else self._shown
            if self._is_ahead(place) or (place.position >= shown and self.is_running):
                await self._changed()
                continue
            frames = self._frames[place.position : min(place.position + _MOST_AT_ONCE, shown)]
            found = self._earlier.passed_on(frames, place, self._frames)
            if found or not frames:
                return found
            place = place._replace(position=place.position + len(frames))

    async def beginning(self, theirs: Sequence[Message]) -> tuple[bytes, bytes, bytes]:
        """Wait for the first event, and return frames for a caller who connects.

        Args:
            theirs: The messages that the caller has.

        Returns:
            The first frame of the run, and those of the messages and of the state before it.

        Raises:
            UsageError: The run has no events, or they are no longer kept.
        """
        first = await self.read(Place(0, self.attempt))
        if not first or self.before is None:
            raise UsageError(f"run {self.key.run_id!r} has no events")
        messages, state = self.before
        known, frames = {each.id for each in messages}, b"".join(self._frames)
        missing = [each.id for each in theirs if each.id not in known and to_json(each.id) not in frames]
        metadata = ThreadFacts((), missing).metadata
        shown = frame_of(MessagesSnapshotEvent(messages=list(messages), metadata=metadata))
        return first[0][1], shown, frame_of(StateSnapshotEvent(snapshot=without_journal(state)))

    # --- inside

    def _end(self, status: RunStatus) -> None:
        self.phase, self.status, self.ended_at, self._shown = LogPhase.OVER, status, datetime.now(UTC), None
        self._end_on_clock = monotonic()
        self._announce()
        self._keeper.on_end(self)

    def _grow(self, size: int) -> None:
        self.size += size
        self._keeper.on_growth(self, size)

    def _announce(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            change.set()

    async def _changed(self) -> None:
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()


def interrupts_in(event: WireEvent) -> Sequence[Interrupt]:
    """Return the interrupts that a run ends with, if an event is the end of one."""
    outcome = event.outcome if isinstance(event, RunFinishedEvent) else None
    return outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else ()


def status_after(last: WireEvent) -> RunStatus:
    """Return the status of a run after its terminal event."""
    if not isinstance(last, RunFinishedEvent):
        return RunStatus.STOPPED if last == STOPPED else RunStatus.FAILED
    if interrupts_in(last):
        return RunStatus.WAITING
    is_stopped = isinstance(last.outcome, RunFinishedCancelledOutcome)
    return RunStatus.STOPPED if is_stopped else RunStatus.FINISHED


def _size_of(message: Message) -> int:
    """Return the bytes that a message takes, about."""
    content: Any = message.content
    size = len(content) if isinstance(content, str) else len(to_json(content, inf_nan_mode="constants"))
    if message.role == "assistant":
        size += sum(len(call.function.arguments) for call in message.tool_calls or ())
    return size + _OVERHEAD
