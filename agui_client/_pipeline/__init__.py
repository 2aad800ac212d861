"""The way of one event, from the agent to the caller, in the protocol's order (PROC-1).

    transport → decode → compat → middleware → enforce → expand → verify → reduce

The first two are the agent's `run`; the rest is the same for remote agents, in-process agents, replays and tests, and
is stated here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeGuard, cast

from ag_ui.core import ActivitySnapshotEvent, StateSnapshotEvent

from agui_client._pipeline.compat import CompatibilityBoundary
from agui_client._pipeline.copies import copied
from agui_client._pipeline.enforce import Enforcer
from agui_client._pipeline.events import UnrecognizedEvent, WireEvent
from agui_client._pipeline.expand import UNEXPANDED, Expander
from agui_client._pipeline.middleware import Chain, Middleware, Run
from agui_client._pipeline.settle import Settlement
from agui_client._pipeline.source import Source, as_source
from agui_client._pipeline.verify import Verifier

if TYPE_CHECKING:
    from ag_ui.core import Event, RunAgentInput

    from agui_client._pipeline.warnings import WarningLog

NullFields = Literal["reject", "drop"]
"""What to do with a null that stands for a whole optional field: fail as the protocol says, or drop it and warn."""


class Pipeline:
    """The stages of one run.

    Args:
        run: The agent's `run`: transport and decode.
        middleware: The caller's functions around it, outermost first.
        warnings: Where the stages report.
        null_fields: What enforcement does with null for a whole optional field.
        strict: Whether ids of runs and threads that do not match are fatal (LIFE-12).
    """

    def __init__(
        self,
        run: Run,
        middleware: Sequence[Middleware],
        warnings: WarningLog,
        *,
        null_fields: NullFields = "reject",
        strict: bool = False,
    ) -> None:
        self.settlement = Settlement()
        """What the run came to."""
        self.verify = Verifier(warnings, strict=strict)
        """The stage that knows what is open."""
        self._compat = CompatibilityBoundary(warnings)
        self._chain = Chain(run, middleware, self._compat)
        self._enforce = Enforcer(warnings, null_fields=null_fields).feed
        expander = Expander(warnings)
        self._expand = expander.feed
        self._lanes = expander.lanes
        self._verify = self.verify.feed
        self._settlers = self.settlement.handlers
        self._is_conforming = False

    def open(self, run_input: RunAgentInput, *, is_replay: bool = False) -> Source:
        """Transport, decode, and, when there is middleware, compat and middleware.

        Args:
            run_input: What is asked.
            is_replay: Whether the runs that come were asked for by others, under ids of their own.

        Returns:
            Where the events come from.
        """
        self.verify.begin(run_input.thread_id, None if is_replay else run_input.run_id)
        source = as_source(self._chain.open(run_input))
        self._is_conforming = source.conforming
        return source

    def passes(self, event: WireEvent) -> TypeGuard[Event]:
        """Whether an event is judged already: most are, and `judge()` would only return them."""
        return type(event) in UNEXPANDED and not self._lanes and self._is_conforming

    def judge(self, event: WireEvent) -> Sequence[Event]:
        """Compat (what middleware has not seen), enforce and expand one event.

        Args:
            event: As it came from the source.

        Returns:
            What application code may see, in order; each must still be admitted, and then reduced.

        Raises:
            InvalidEventError: The event holds a value the protocol rejects.
            EventOrderError: It is a chunk that continues nothing.
        """
        if type(event) is UnrecognizedEvent:
            return [ready for translated in self._compat.feed(event) for ready in self._judge(translated)]
        # Only a conforming source's typed events come this far unjudged, and those are what expansion takes.
        return self._expand(cast("Event", event)) if self._is_conforming else self._judge(event)

    def admit(self, event: Event) -> None:
        """Verify an event and take note of it.

        Raises:
            EventOrderError: It may not come now.
        """
        self._verify(event)
        if (settle := self._settlers.get(type(event))) is not None:
            settle(event)

    async def aclose(self) -> None:
        """Close the agent's generator and every middleware's."""
        await self._chain.aclose()

    def _judge(self, event: WireEvent) -> Sequence[Event]:
        judged = self._enforce(event)
        return () if judged is None else self._expand(_detached(judged))


def _detached(event: Event) -> Event:
    """The event with its open content in containers of its own: its producer, in this process, may go on writing."""
    if isinstance(event, StateSnapshotEvent):
        return event.model_copy(update={"snapshot": copied(event.snapshot)})
    if isinstance(event, ActivitySnapshotEvent):
        return event.model_copy(update={"content": copied(event.content)})
    return event


__all__ = ["NullFields", "Pipeline"]
