"""Enforcement: what the protocol does not describe goes, what it describes and is wrong fails the run (PROC-5 … 18).

Every event passes here after middleware and before expansion. What leaves is a conforming event of the official models;
whether it may come now is verify's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

from ag_ui.core import (
    ActivitySnapshotEvent,
    BaseEvent,
    Event,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateSnapshotEvent,
)
from ag_ui.core.types import ConfiguredBaseModel

from agui_client._pipeline.events import UnrecognizedEvent, WireEvent
from agui_client._pipeline.extent import DEEPEST_TEXT, nests_deeper
from agui_client._pipeline.plain import members_as_json
from agui_client._pipeline.refusal import Refusal, sentences, shortened, summary
from agui_client._pipeline.schema import EVENT_MODELS, SHALLOW, Items, record
from agui_client._pipeline.sift import Sieve, Unknown
from agui_client._pipeline.warnings import WarningLog
from agui_client.errors import InvalidEventError

_LONGEST_TYPE = 60
_RECORDS = {event_type: record(model) for event_type, model in EVENT_MODELS.items()}


def _flatly(model: type[BaseEvent]) -> Callable[..., bool]:
    """Strict validation of a class, which does not see how deep what it leaves open is."""
    is_valid: Callable[..., bool] = model.__pydantic_validator__.isinstance_python
    held = _HELD.get(model)
    if held is None:
        return is_valid

    def is_valid_and_shallow(fields: dict[str, Any], **how: bool) -> bool:
        """Whether it conforms, and what is held of it can be saved and sent again."""
        return is_valid(fields, **how) and not nests_deeper(fields[held], DEEPEST_TEXT - 1)

    return is_valid_and_shallow


_HELD: dict[type[BaseEvent], str] = {StateSnapshotEvent: "snapshot", ActivitySnapshotEvent: "content"}
"""The open fields that are held afterwards, whatever comes."""
_FLAT: dict[type[BaseEvent], Callable[..., bool]] = {
    model: _flatly(model)
    for model in SHALLOW
    if not any(isinstance(slot.shape, Items) for slot in record(model).slots.values())
}
"""Strict validation of the classes without models inside, where nothing can be wrong that it does not see."""

_PATCHES = {"STATE_DELTA": "/delta", "ACTIVITY_DELTA": "/patch"}
"""Where malformed values make a malformed patch (SNAP-3)."""


class Enforcer:
    """Judges one stream's events by the protocol's structure.

    Args:
        warnings: Where everything that is taken out is reported.
        null_fields: What becomes of a null for a whole optional field: "reject" fails the run, as the protocol says
            (PROC-17); "drop" removes the field with a warning.
    """

    def __init__(self, warnings: WarningLog, *, null_fields: Literal["reject", "drop"] = "reject") -> None:
        self._warnings = warnings
        self._null_fields: Literal["reject", "drop"] = null_fields

    def feed(self, event: WireEvent) -> Event | None:
        """Judge one event.

        Args:
            event: As it came from the wire, or typed, by an agent of this process or by middleware.

        Returns:
            The conforming event, the same object if nothing had to go; None if the whole event was dropped.

        Raises:
            InvalidEventError: A field the protocol describes holds a value it rejects.
        """
        if isinstance(event, UnrecognizedEvent):
            return self._judge(event.type, event.data)
        is_valid = _FLAT.get(type(event))
        if (
            is_valid is not None
            and not event.__pydantic_extra__
            and is_valid(event.__dict__, strict=True, by_alias=False, by_name=True)
        ):
            return event
        return self._judge_again(event)

    def _judge(self, event_type: str, data: dict[str, Any], like: Any = None) -> Event | None:
        """The event that a JSON object holds; `like` itself if that already is it."""
        structure = _RECORDS.get(event_type)
        name = event_type[:_LONGEST_TYPE]
        if structure is None:
            self._warnings.add("PROC-7", f"unknown event type {name} dropped", event_type=name)
            return None
        sieve = Sieve(self._warnings, name, event_type=name, nulls=self._null_fields)
        left = sieve.sift(structure, data)
        if isinstance(left, Unknown):
            sieve.report(left, "")
            return None
        judged: Event | None = sieve.validated(structure, left)
        if judged is None:
            self._refuse(name, sieve.refusals)
        if isinstance(judged, RunFinishedEvent):
            self._require_distinct_interrupts(judged)
        return like if like == judged and not sieve.changed else judged

    def _judge_again(self, event: Any) -> Event | None:
        """Judge a typed event by its JSON: models do not check what is assigned to them or to the models inside."""
        kind = type(event).__name__
        if not isinstance(event, ConfiguredBaseModel):
            self._refuse(kind, [Refusal("", "it is no event; yield the event classes of ag_ui.core")])
        refusals: list[Refusal] = []
        data = members_as_json(event, refusals)
        if refusals:
            self._refuse(kind, refusals)
        event_type = data.get("type")
        if not isinstance(event_type, str):
            self._refuse(kind, [Refusal("/type", f"should be a string, got {shortened(event_type)}")])
        return self._judge(event_type, data, like=event)

    def _require_distinct_interrupts(self, event: RunFinishedEvent) -> None:
        """Refuse two interrupts with one id: one answer would cover two questions (INT-2)."""
        if not isinstance(event.outcome, RunFinishedInterruptOutcome):
            return
        seen: set[str] = set()
        for index, interrupt in enumerate(event.outcome.interrupts):
            if interrupt.id in seen:
                path = f"/outcome/interrupts/{index}/id"
                problem = f"repeats the id {shortened(interrupt.id)}: each interrupt needs an id of its own"
                self._refuse(str(event.type.value), [Refusal(path, problem)], rule="INT-2")
            seen.add(interrupt.id)

    def _refuse(self, subject: str, refusals: Sequence[Refusal], *, rule: str | None = None) -> NoReturn:
        index = self._warnings.event_index
        where = subject if index is None else f"{subject} (event {index})"
        nulls = [refusal for refusal in refusals if refusal.is_null]
        advice = '; null_fields="drop" drops such nulls with a warning' if nulls else ""
        # No cause is chained: pydantic's text repeats what was received, secrets among it.
        raise InvalidEventError(
            f"{where} is malformed: {summary(refusals)}{advice}",
            rule=rule or _rule(subject, refusals),
            path=refusals[0].path,
            errors=sentences(refusals),
        )


def _rule(event_type: str, refusals: Sequence[Refusal]) -> str:
    """The rule for a set of refusals: that of the first which is more than a null in the wrong place."""
    malformed = next((refusal for refusal in refusals if not refusal.is_null), None)
    if malformed is None:
        return "PROC-17"
    patch = _PATCHES.get(event_type)
    return "SNAP-3" if patch is not None and malformed.path.startswith(patch) else "PROC-6"
