"""The way of one event to the caller, in the protocol's order (PROC-1).

    transport → decode → compat → [middleware] → validate → expand → verify → reduce

The first three are the agent's `run`; the rest is stated here once, for remote agents, in-process agents, replays and
tests alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.compat import Translator
from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent
from agui_client._core.protocol.expand import KIND_OF_CHUNK, Expander
from agui_client._core.protocol.outcome import OutcomeTracker
from agui_client._core.protocol.reduce import Change, Reducer
from agui_client._core.protocol.validation import NullFields, Validator
from agui_client._core.protocol.verify import Verifier

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client._core.protocol.warnings import WarningLog

_NONE = Change.NONE
_NOT_AS_THEY_CAME = frozenset({*KIND_OF_CHUNK, UnrecognizedEvent})
"""The events that validation or expansion may change."""


class Pipeline:
    """The stages of one run. Before its first event, call `verifier.begin(...)`, and set `is_conforming`.

    Args:
        reducer: The conversation's messages and state.
        warnings: The log that the stages report to.
        null_fields: The treatment of a null that stands for a whole optional field (PROC-17).
        strict: Whether ids of runs and threads that do not match are fatal (LIFE-12).
    """

    def __init__(
        self, reducer: Reducer, warnings: WarningLog, *, null_fields: NullFields = "reject", strict: bool = False
    ) -> None:
        self.compat: Translator = Translator(warnings)
        """The translation of retired shapes, which middleware needs as well."""
        self.verifier: Verifier = Verifier(warnings, strict=strict)
        """The stage that knows which items are open, and which thread and run were asked for."""
        self.outcome: OutcomeTracker = OutcomeTracker()
        """The result of the run so far."""
        self.count: int = 0
        """The number of events that arrived."""
        self._warnings = warnings
        warnings.event_index = None  # the input is checked before the first event, also in a later round
        validator = Validator(warnings, null_fields=null_fields)
        self._validate, self._validator = validator.feed, validator
        expander = Expander(warnings)
        self._expand, self._lanes = expander.feed, expander.lanes
        self._verify, self._note = self.verifier.check, self.outcome.handlers
        self._reductions, self._reduced = reducer.reductions()
        self.is_conforming = False
        """Whether typed events come from strict decoding, so that only JSON is left to validate."""

    def admitted(self, event: WireEvent) -> Iterable[Event]:
        """Take one event through all stages but the last, in the order that the protocol states.

        Args:
            event: An event as its source gave it.

        Returns:
            The events for application code, each verified before the iteration gives it; `apply` it before the next.

        Raises:
            InvalidEventError: The event holds a value that the protocol rejects.
            EventOrderError: It may not come now.
        """
        expanded = self._expanded(event)
        if len(expanded) != 1:
            return self._verified(expanded)
        # One event needs no generator, which costs as much as its verification.
        self._admit(expanded[0])
        return expanded

    def apply(self, event: Event) -> Change:
        """Reduce an event to messages and state; return the parts that it changed."""
        reduce = self._reductions.get(type(event))
        return _NONE if reduce is None else reduce(self._reduced, event)

    def feed(self, event: WireEvent, watch: Callable[[Event, Change], object] | None = None) -> Iterable[Event]:
        """Take one event through all stages: `admitted`, then `apply`.

        Args:
            event: An event as its source gave it.
            watch: Called with each event for application code, and the parts of the conversation that it changed.

        Returns:
            The events for application code. Each is verified and reduced when the iteration comes to it.

        Raises:
            InvalidEventError: The event holds a value that the protocol rejects.
            EventOrderError: It may not come now.
        """
        # The same without a generator and three calls for what leaves as one event: a quarter of what nearly all events
        # cost here. `tests/core/protocol/test_feed.py` holds it to what `admitted` and `apply` do.
        only: Any = event
        kind: Any = type(event)
        if self.is_conforming and not self._lanes and kind not in _NOT_AS_THEY_CAME:
            self._warnings.event_index = self.count
            self.count += 1
        else:
            expanded = self._expanded(event)
            if len(expanded) != 1:
                return self._fed(expanded, watch)
            # A chunk or a retired event that became one event is treated as if it had arrived so.
            (only,) = expanded
            kind = only.__class__
        (self.verifier.checks.get(kind) or self._verify)(only)
        if (note := self._note.get(kind)) is not None:
            note(self.outcome, only)
        change = _NONE if (reduce := self._reductions.get(kind)) is None else reduce(self._reduced, only)
        if watch is not None:
            watch(only, change)
        return (only,)

    def _fed(self, expanded: Sequence[Event], watch: Callable[[Event, Change], object] | None) -> Iterator[Event]:
        for ready in self._verified(expanded):
            change = self.apply(ready)
            if watch is not None:
                watch(ready, change)
            yield ready

    def _verified(self, expanded: Sequence[Event]) -> Iterator[Event]:
        # Each when the iteration comes to it, so that the events before a rejected one are delivered.
        for ready in expanded:
            self._admit(ready)
            yield ready

    def _admit(self, event: Event) -> None:
        self._verify(event)
        self.outcome.note(event)

    def _expanded(self, event: WireEvent) -> Sequence[Event]:
        """Translate, validate and expand the next event."""
        self._warnings.event_index = self.count
        self.count += 1
        valid: Event | None
        if isinstance(event, UnrecognizedEvent):
            valid = self._validate(self.compat.feed(event))
        else:
            # Strict decoding, which makes the typed events of a conforming source, leaves nothing to validate.
            valid = event if self.is_conforming else self._validate(event)
            if not self.is_conforming and (unpaired := self._validator.unpaired()):
                events = unpaired if valid is None else [*unpaired, valid]
                return [expanded for each in events for expanded in self._expand(each)]
        if valid is None:
            return ()
        return self._expand(valid) if self._lanes or type(valid) in KIND_OF_CHUNK else (valid,)
