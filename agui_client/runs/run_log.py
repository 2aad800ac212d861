"""The log of one run: its task appends events, and any number of followers read them at their own pace.

A log holds encoded frames, so that its size is known and a follower costs no encoding. States of a log:

    OPENING ──▶ OPEN ──▶ OVER ──▶ DROPPED
       └──────────────────▲ (refused)

It is opened when the run has begun, over from its terminal event on, and dropped when its memory is needed or its time
has passed; whoever still reads it then gets no more.
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
    Event,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateSnapshotEvent,
)
from pydantic_core import to_json

from agui_client._protocol.events import VALIDATOR, WireEvent
from agui_client.asgi.sse_body import frame_of
from agui_client.errors import UsageError
from agui_client.runs.records import RunInfo, RunKey, RunStatus

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, Message

_OVERHEAD, _OVERHEAD_OF_LOG = 64, 4096
"""The bytes that a frame and a log take besides their contents, about."""
_MOST_AT_ONCE = 256
"""The frames that a follower gets in one go."""


class Phase(Enum):
    """The phase of a log."""

    OPENING = "opening"
    """The run is about to begin, and may yet be refused."""
    OPEN = "open"
    """The run is going on."""
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
        """Note that the last follower has left a run that is going on."""
        ...


class RunLog:
    """The events of one run.

    Args:
        key: The identity of the run.
        keeper: Gets to know of the log's size, end and followers.
        input_size: The bytes of the input that asked for the run, which is kept as long as the log.
    """

    def __init__(self, key: RunKey, keeper: LogKeeper, input_size: int) -> None:
        self.key = key
        """The identity of the run."""
        self.input_size = input_size
        """The bytes of the input that asked for the run."""
        self.size = _OVERHEAD_OF_LOG + input_size
        """The bytes that the log takes, about."""
        self.phase = Phase.OPENING
        """The phase of the log."""
        self.status = RunStatus.RUNNING
        """The status of the run."""
        self.interrupts: Sequence[Interrupt] = ()
        """The interrupts that the run has ended with."""
        self.refusal: Exception | None = None
        """The exception with which the run was refused; None if it was not."""
        self.left_input: RunAgentInput | None = None
        """The conversation that the run has left, for answers to its interrupts; None unless it waits for them."""
        self.begun_at = datetime.now(UTC)
        """The time when the run began."""
        self.ended_at: datetime | None = None
        """The time when the run ended; None before."""
        self._keeper, self._end_on_clock = keeper, inf
        self._frames: list[bytes] = []
        self._before: tuple[Sequence[Message], Any] | None = None
        self._followers = 0
        self._change: anyio.Event | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether the run is about to begin, or going on."""
        return self.phase in (Phase.OPENING, Phase.OPEN)

    @property
    def is_followed(self) -> bool:
        """Whether somebody follows the run."""
        return self._followers > 0

    @property
    def age(self) -> float:
        """The seconds since the end of the run, whatever is done to the clock meanwhile; negative before the end."""
        return monotonic() - self._end_on_clock

    @property
    def info(self) -> RunInfo:
        """The description of the run."""
        return RunInfo(
            run_id=self.key.run_id,
            thread_id=self.key.thread_id,
            owner=self.key.owner,
            status=self.status,
            begun_at=self.begun_at,
            ended_at=self.ended_at,
            event_count=len(self._frames),
            interrupts=self.interrupts if self.status is RunStatus.WAITING else (),
        )

    # --- for the task of the run

    def open(self, messages: Sequence[Message], state: Any) -> None:
        """Note that the run has begun.

        Args:
            messages: The conversation that the run begins with.
            state: Its state.
        """
        self._before = messages, state
        self.phase = Phase.OPEN
        self._grow(sum(map(_size_of, messages)) + len(to_json(state, inf_nan_mode="constants")))
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
        if isinstance(event, RunErrorEvent):
            self._end(RunStatus.FAILED)
        elif isinstance(event, RunFinishedEvent):
            if isinstance(event.outcome, RunFinishedInterruptOutcome):
                self.interrupts = event.outcome.interrupts
            is_stopped = isinstance(event.outcome, RunFinishedCancelledOutcome)
            status = RunStatus.STOPPED if is_stopped else RunStatus.FINISHED
            self._end(RunStatus.WAITING if self.interrupts else status)
        else:
            self._announce()

    def settle(self) -> None:
        """Note that what the run waited for was answered."""
        if self.status is RunStatus.WAITING:
            self.status, self.left_input = RunStatus.FINISHED, None

    def drop(self) -> None:
        """Forget the events."""
        self._grow(-self.size)
        self.phase, self._before, self.left_input = Phase.DROPPED, None, None
        self._frames = []
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
            if not self._followers and self.is_going_on:
                self._keeper.on_left(self)

    async def opened(self) -> None:
        """Wait until the run has begun.

        Raises:
            Exception: It was refused.
        """
        await self.is_followable()
        if self.refusal is not None:
            raise self.refusal

    async def is_followable(self) -> bool:
        """Wait until the run has begun or was refused; return whether it goes on."""
        while self.phase is Phase.OPENING:
            await self._changed()
        return self.is_going_on

    def check(self, position: int) -> None:
        """Check a position that a follower names.

        Raises:
            UsageError: The position is none of this run, or the events are no longer kept.
        """
        if self.phase is Phase.DROPPED:
            raise UsageError(f"run {self.key.run_id!r} is no longer kept; Runs(keep=, max_bytes=) say for how long")
        if position > len(self._frames):
            raise UsageError(f"run {self.key.run_id!r} has no {position} events; the cursor is of another run")

    async def ended(self) -> None:
        """Wait until the run has ended."""
        while self.is_going_on:
            await self._changed()

    async def read(self, position: int) -> Sequence[bytes]:
        """Wait for events, and return their frames.

        Args:
            position: The number of events that were read before.

        Returns:
            The next frames; none if the run is over, and all were read.

        Raises:
            UsageError: The position is none of this run, or the events are no longer kept.
        """
        while self.is_going_on and position == len(self._frames):
            await self._changed()
        self.check(position)
        return self._frames[position : position + _MOST_AT_ONCE]

    async def beginning(self) -> tuple[bytes, bytes, bytes]:
        """Wait for the first event, and return frames for a caller who has nothing of the thread.

        Returns:
            The first frame of the run, and those of the messages and of the state before it.

        Raises:
            UsageError: The run has no events, or they are no longer kept.
        """
        first = await self.read(0)
        if not first or self._before is None:
            raise UsageError(f"run {self.key.run_id!r} has no events")
        messages, state = self._before
        shown = frame_of(MessagesSnapshotEvent(messages=list(messages)))
        return first[0], shown, frame_of(StateSnapshotEvent(snapshot=state))

    # --- inside

    def _end(self, status: RunStatus) -> None:
        self.phase, self.status, self.ended_at = Phase.OVER, status, datetime.now(UTC)
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


def event_of(frame: bytes) -> Event:
    """Return the event that is in a frame of a log."""
    event: Event = VALIDATOR.validate_json(frame[len(b"data: ") :], by_alias=True, by_name=False)
    return event


def _size_of(message: Message) -> int:
    """Return the bytes that a message takes, about."""
    content: Any = message.content
    size = len(content) if isinstance(content, str) else len(to_json(content, inf_nan_mode="constants"))
    if message.role == "assistant":
        size += sum(len(call.function.arguments) for call in message.tool_calls or ())
    return size + _OVERHEAD
