"""Verification: the runs of a stream open and close as they must (LIFE-1 … LIFE-6, LIFE-12, TRUNC-1, VER-1 … VER-3).

It reads expanded events, never chunks (PROC-4), and changes none. A run opens with RUN_STARTED and closes with
RUN_FINISHED or RUN_ERROR; several may follow each other in one stream. The rules inside a run are in `open_items`; what
the events mean for messages and state is up to `reduce`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

from ag_ui.core import PROTOCOL_VERSION, BaseEvent, Event, RunErrorEvent, RunFinishedEvent, RunStartedEvent

from agui_client._core.protocol.open_items import RunItems, listed, order_error, quoted
from agui_client._core.protocol.outcome import LEFT_BRANCH, branch_left
from agui_client._core.protocol.placeholders import extension_of
from agui_client._core.protocol.problems import LONGEST_PATH, shortened
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import EventOrderError, IncompleteRunError, UsageError

_FIX = (
    "what arrived is kept, and run_agent() without a prompt continues; where the server keeps its runs or the thread, "
    "connect_agent() fetches what it did meanwhile"
)
_Checks: TypeAlias = dict[type, Callable[[Any], None]]


class Verifier:
    """Rejects a stream whose events come in an order that the protocol does not allow.

    Args:
        warnings: The log of tolerated faults, which also knows the position in the stream.
        strict: Whether a run or thread id other than expected is fatal; otherwise it is a warning (LIFE-12).
    """

    def __init__(self, warnings: WarningLog, *, strict: bool = False) -> None:
        self._warnings, self._strict = warnings, strict
        self._fault = partial(order_error, warnings)
        self._thread_id: str | None = None
        self._run_id: str | None = None
        self._phase: Literal["new", "open", "finished", "failed"] = "new"
        self._started: RunStartedEvent | None = None
        self._has_expected_run = False
        self._reported = ""
        self._earlier: list[str] = []
        self._run = RunItems(warnings)
        self._turns: _Checks = {RunStartedEvent: self._run_started, RunErrorEvent: self._run_error}
        self.checks: _Checks = self._turns
        """The check of each type of event that may come now; while a run is open, others may come unchecked."""

    def begin(self, thread_id: str, run_id: str | None) -> None:
        """Set the ids that were requested, so that a stream with other ones is noticed (LIFE-12).

        Args:
            thread_id: The thread every run of the stream belongs to.
            run_id: A run of the stream; those before it are replayed ones (LIFE-13), those behind it the agent's own.
                None for a replay, whose runs have ids of their own.
        """
        self._thread_id, self._run_id = thread_id, run_id

    def check(self, event: Event) -> None:
        """Check the next event.

        Args:
            event: An event as expansion hands it on.

        Raises:
            EventOrderError: The event may not come here; `rule` is the broken rule.
        """
        if (check := self.checks.get(type(event))) is not None:
            check(event)
        elif self._phase != "open":
            raise self._out_of_place(event)

    def finish(self) -> None:
        """Accept the end of the stream.

        Raises:
            IncompleteRunError: No run arrived, or the last one was cut off (TRUNC-1).
            EventOrderError: With `strict`, no run was the requested one (LIFE-12).
        """
        if self._phase in ("new", "open"):
            if self._phase == "new":
                raise IncompleteRunError(self._nothing_arrived(), rule="TRUNC-1")
            raise IncompleteRunError(self._cut_off(), rule="TRUNC-1", fix=_FIX)
        # A failure is reported as the failure it is, whatever its ids (LIFE-8).
        if self._phase == "finished" and self._started is not None and not self._has_expected_run:
            self._expect(self._started, "run", self._started.run_id, self._run_id)

    def assume(self, event_type: str) -> None:
        """Continue as if a RUN_STARTED, RUN_FINISHED or RUN_ERROR had been accepted that was left out for a fault.

        Runs end with their first fault; only a reader that looks for further ones continues.

        Args:
            event_type: The type of the event; its ids are not known.
        """
        self._started = None  # nothing is compared with ids that are not known
        if event_type == "RUN_STARTED":
            self._open()
        else:
            self._phase, self.checks = "finished", self._turns

    def ends(self, message: str) -> list[Event]:
        """Return events that end all that the latest run has not closed, inner items first (LIFE-5, SUB-7).

        Args:
            message: The reason for which subagents end, for people.

        Returns:
            The events; none if no run has begun, or the latest has finished.
        """
        return [*self._run.ends(), *self._run.subagent_ends(message)]

    @property
    def unclosed_ids(self) -> list[str]:
        """The ids of the messages and tool calls that the latest run has not closed; RUN_ERROR closes none."""
        return self._run.open_ids()

    @property
    def unclosed_ids_before(self) -> list[str]:
        """The ids of those that earlier runs have not closed; a later run may have closed some of them."""
        return list(self._earlier)

    def _run_started(self, event: RunStartedEvent) -> None:
        if self._phase == "open":
            sentence = f"Cannot start run {quoted(event.run_id)} while {self._run_name()} is still open"
            raise self._fault("LIFE-2", event, f"{sentence}; the producer has to finish it first")
        self._open()
        self._started = event
        self._has_expected_run = self._has_expected_run or event.run_id == self._run_id
        self._expect(event, "thread", event.thread_id, self._thread_id)
        if isinstance(left := extension_of(event).get(LEFT_BRANCH), str):
            self._warnings.add("INPUT-1", branch_left(left), event_type="RUN_STARTED")
        if (warning := version_warning(event.protocol_version)) is not None:
            message, fix = warning
            self._warnings.add("VER-2", message, path="/protocolVersion", event_type=event.type.value, fix=fix)

    def _open(self) -> None:
        if self._phase != "new":
            self._earlier += self._run.open_ids()
            self._run = RunItems(self._warnings)
        self._phase = "open"
        self.checks = {**self._run.checks(), **self._turns, RunFinishedEvent: self._run_finished}

    def _run_finished(self, event: RunFinishedEvent) -> None:
        items, subagents = self._run.still_open(), self._run.active_subagents()
        if items or subagents:
            sentence = f"the producer finished {self._run_name()} with {listed(items + subagents)} still open"
            raise self._fault("LIFE-5" if items else "SUB-7", event, sentence)
        self._phase, self.checks = "finished", self._turns
        if self._started is not None:
            self._expect(event, "run", event.run_id, self._started.run_id)
            self._expect(event, "thread", event.thread_id, self._started.thread_id)

    def _run_error(self, event: RunErrorEvent) -> None:
        """Let nothing follow but another run: no END will come for what is open (LIFE-6, SUB-9)."""
        self._phase, self.checks = "failed", {RunStartedEvent: self._run_started}
        self._reported = event.message

    def _out_of_place(self, event: BaseEvent) -> EventOrderError:
        if self._phase == "new":
            return self._fault("LIFE-1", event, "First event must be 'RUN_STARTED', or 'RUN_ERROR' if no run starts")
        failed = f"errored with 'RUN_ERROR' ({shortened(self._reported, LONGEST_PATH)})"
        how = "finished with 'RUN_FINISHED'" if self._phase == "finished" else failed
        sentence = f"The run has already {how}, and the producer continued without starting a new one"
        return self._fault("LIFE-3", event, sentence)

    def _expect(self, event: RunStartedEvent | RunFinishedEvent, what: str, given: str, expected: str | None) -> None:
        if expected is None or given == expected:
            return
        sentence = f"the producer named {what} {quoted(given)} where {quoted(expected)} was expected"
        if self._strict:
            raise self._fault("LIFE-12", event, sentence, "strict=False makes this a warning")
        kind = event.type.value
        self._warnings.add("LIFE-12", f"{kind}: {sentence}", path=f"/{what}Id", event_type=kind)

    def _nothing_arrived(self) -> str:
        what = "without any event" if self._warnings.event_index is None else "without an event that could be used"
        return f"the stream ended {what}: no run started, so there is no outcome"

    def _cut_off(self) -> str:
        items = self._run.still_open() + self._run.active_subagents()
        left = f", {len(items)} of its items still open ({listed(items)})" if items else ""
        what = f"The stream ended without 'RUN_FINISHED' or 'RUN_ERROR': {self._run_name()} was cut off{left}"
        return f"{what} and has no outcome"

    def _run_name(self) -> str:
        return "the run" if self._started is None else f"run {quoted(self._started.run_id)}"


def version_key(version: str) -> tuple[int, ...]:
    """Return a dotted version as numbers that compare: 1.10 is newer than 1.9, and 1.0.0 is 1.0 (VER-1).

    Raises:
        UsageError: It is no such version.
    """
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", version) is None:
        raise UsageError(f"{shortened(version)} is not a version; write numbers and dots, such as 0.0.57 or 1.0")
    return tuple(int(number) for number in re.sub(r"(\.0+)+$", "", version).split("."))


def version_warning(declared: str | None) -> tuple[str, str | None] | None:
    """Return the warning about the version that a producer declares on RUN_STARTED (VER-1, VER-2, VER-3).

    Args:
        declared: The `protocolVersion` of the event; None if it has none.

    Returns:
        The warning for a version that is newer than ours, with what to do about it, or for one that cannot be
        interpreted; None for any other.
    """
    if declared is None or declared == PROTOCOL_VERSION:
        return None
    if re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", declared) is None:
        what = f"the producer declares protocol version {shortened(declared)}, which this client cannot interpret"
        return f"{what}: it speaks {PROTOCOL_VERSION}, and proceeds as with a newer producer", None
    if version_key(declared) > version_key(PROTOCOL_VERSION):
        what = f"the producer speaks protocol version {declared}, this client {PROTOCOL_VERSION}"
        return f"{what}: what is new in it will be stripped", "upgrade the client to see it"
    return None
