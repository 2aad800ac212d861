"""Validation: unknown material is stripped, malformed values fail the run (PROC-5 … 18).

Every event passes here after middleware and before expansion, and the run input is stripped in the same way. Types are
not checked by hand: after the stripping the official model validates strictly. Whether a conforming event may come at
this point is verified later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from operator import is_
from typing import Any, Literal, NoReturn, TypeAlias

from ag_ui import core
from ag_ui.core import BaseEvent, Event
from ag_ui.core.types import ConfiguredBaseModel
from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.protocol import schema
from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent
from agui_client._core.protocol.fail_fast import failing_fast
from agui_client._core.protocol.plain_json import members_as_json, write
from agui_client._core.protocol.problems import (
    LONGEST_PATH,
    MOST_REFUSALS,
    Refusal,
    refusals_of,
    sentence_of,
    shortened,
    summary,
)
from agui_client._core.protocol.schema import EVENT_MODELS, is_array, is_object, is_text
from agui_client._core.protocol.split_characters import SplitCharacters
from agui_client._core.protocol.traits import DELTAS
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import InvalidEventError

NullFields: TypeAlias = Literal["reject", "drop"]
"""The treatment of a null that stands for a whole optional field: fail as the protocol says, or drop it and warn."""

_DROPPING_NULLS = 'null_fields="drop" drops such nulls with a warning'
_MANY_ELEMENTS = 1000
"""The elements of lists in a value from which on only the first wrong one of each list is named."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The mark of an unknown value, which takes with it whatever requires it (PROC-9)."""

    rule: str
    """The rule by which it is removed."""
    path: str
    """The JSON pointer of the value."""
    value: str
    """The value, shortened, as the subject of a sentence."""


class Sanitizer:
    """Strips unknown material from one value, copying only the containers that change.

    Args:
        warnings: The log that receives a warning for each removal.
        subject: The name of the value in messages.
        event_type: The event's type; empty for a value that is not an event.
        rule: The rule of every warning; empty for the rule of each kind.
        nulls: The treatment of a null for a whole optional field; "omit" removes it in silence.
    """

    def __init__(
        self,
        warnings: WarningLog,
        subject: str,
        *,
        event_type: str = "",
        rule: str = "",
        nulls: NullFields | Literal["omit"] = "reject",
    ) -> None:
        self.refusals: list[Refusal] = []
        """The malformed values found so far."""
        self._warnings, self._subject, self._event_type = warnings, subject, event_type or None
        self._rule, self._nulls = rule, nulls
        self._elements = 0

    def strip(self, shape: schema.Shape, value: Any, path: str = "") -> Any:
        """Return what is left of a value: the value itself if all of it is known, `Unknown` if nothing is."""
        match shape:
            case schema.ObjectSchema() if is_object(value) and not shape.is_open:
                return self._record(shape, value, path)
            case schema.Variants() if is_object(value) and isinstance(tag := value.get(shape.discriminator), str):
                member = shape.members.get(tag)
                if member is not None:
                    return self.strip(member, value, path)
                rule = _RULES.get(shape.discriminator, "PROC-9")
                return Unknown(rule, path, f"unknown {shape.discriminator} {shortened(tag)}")
            case schema.ListSchema() if is_array(value):
                return self._items(shape, value, path)
            case schema.TextOrItems(items=items):
                return self.strip(items, value, path)
            case schema.ChoiceSchema(values=values) if isinstance(value, str) and value not in values:
                rule = _RULES.get(path.rpartition("/")[2], "PROC-18")
                return Unknown(rule, path, f"unknown value {shortened(value)}")
            case schema.Integer() if isinstance(value, float) and value.is_integer():
                return int(value)  # JSON Schema makes no difference between 5.0 and 5
            case _:
                return value  # malformed ones, too, which validation refuses (PROC-11)

    def report(self, unknown: Unknown, path: str) -> None:
        """Warn that the value at `path` is dropped because of an unknown value in it."""
        because = unknown.value if path == unknown.path else f"{unknown.path} has the {unknown.value}"
        what = f"{path} of {self._subject}" if path else self._subject
        self._warn(unknown.rule, f"{what} dropped: {because}", path or None)

    def validated(self, shape: schema.ObjectSchema, value: Any) -> Any:
        """Return the official model of a stripped object; None if something was refused (see `refusals`)."""
        is_long = self._elements > _MANY_ELEMENTS
        validator = _failing_fast(shape.model) if is_long else shape.model.__pydantic_validator__
        try:
            model = validator.validate_python(value, strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            self.refusals.extend(refusals_of(shape, error))
            return None
        return None if self.refusals else model

    def _record(self, shape: schema.ObjectSchema, value: dict[str, Any], path: str) -> Any:
        kept: dict[str, Any] = {}
        refused = len(self.refusals)
        for name, member in value.items():
            left = self._member(shape, name, member, path)
            if isinstance(left, Unknown):
                # The refusals inside an object that is dropped anyway do not count.
                del self.refusals[refused:]
                return left
            if left is not _REMOVED:
                kept[name] = left
        # The official classes fill these in, so that validation would let them be missing.
        self.refusals.extend(Refusal(pointer(path, name), "is missing") for name in shape.stamps if name not in value)
        return value if _is_same(kept.values(), value.values()) else kept

    def _items(self, shape: schema.ListSchema, value: list[Any], path: str) -> Any:
        """Strip the elements of a list; unknown ones are dropped, the list stays."""
        kept: list[Any] = []
        self._elements += len(value)
        for index, item in enumerate(value):
            # Whatever could still drop these refusals drops the whole list with them.
            if len(self.refusals) >= MOST_REFUSALS:
                break
            left = self.strip(shape.item, item, f"{path}/{index}")
            if isinstance(left, Unknown):
                self.report(left, f"{path}/{index}")
            else:
                kept.append(left)
        return value if _is_same(kept, value) else kept

    def _member(self, shape: schema.ObjectSchema, name: str, value: Any, path: str) -> Any:
        slot = shape.slots.get(name)
        if slot is None:
            where = pointer(path, name)[:LONGEST_PATH]
            self._warn("PROC-8", f"unknown property {where} of {self._subject}", where, "stripped")
            return _REMOVED
        where = f"{path}/{name}"  # the protocol's names have nothing to escape
        if value is None and not slot.required:
            return self._null(where)
        left = self.strip(slot.shape, value, where)
        if slot.required or not isinstance(left, Unknown):
            return left
        self.report(left, where)
        return _REMOVED

    def _null(self, path: str) -> Any:
        if self._nulls == "reject":
            self.refusals.append(Refusal(path, "is null where an optional field should be absent", is_null=True))
            return None
        if self._nulls == "drop":
            self._warn("PROC-17", f"null for the optional {path} of {self._subject}", path, "dropped")
        return _REMOVED

    def _warn(self, rule: str, message: str, path: str | None, reaction: str | None = None) -> None:
        self._warnings.add(self._rule or rule, message, path=path, event_type=self._event_type, reaction=reaction)


@cache
def _failing_fast(model: type[BaseModel]) -> SchemaValidator:
    return failing_fast(model.__pydantic_core_schema__)


_REMOVED: Any = object()

_RULES = {"op": "SNAP-4", "subtype": "REASON-9"}
"""The rules for unknown values of members that have one of their own."""


def _is_same(kept: Collection[Any], original: Collection[Any]) -> bool:
    return len(kept) == len(original) and all(map(is_, kept, original))


_RECORDS = {event_type: schema.record(model) for event_type, model in EVENT_MODELS.items()}


_STRUCTURED = schema.ListSchema | schema.TextOrItems | schema.ObjectSchema | schema.Variants
_FLAT: dict[type[BaseEvent], tuple[Callable[..., bool], Sequence[str]]] = {
    model: (
        model.__pydantic_validator__.isinstance_python,
        [slot.name for slot in shape.slots.values() if isinstance(slot.shape, _STRUCTURED)],
    )
    for model, shape in zip(EVENT_MODELS.values(), _RECORDS.values(), strict=True)
    if shape.stamps == ("type",)
}
"""Strict validation of a class, which sees all that can be wrong where no objects of the protocol are inside, and the
members that may have some."""
_PATCHES = {"STATE_DELTA": "/delta", "ACTIVITY_DELTA": "/patch"}
"""The members in which malformed values make a malformed patch (SNAP-3)."""


_PLAIN: dict[type[Any], tuple[str, core.EventType, tuple[set[str], set[str]]]] = {
    each: (field, each.model_fields["type"].default, ({"type", field, "delta"}, {field, "delta"}))
    for each, field in DELTAS.items()
}
"""Of a piece of text, the field of the id, the type, and the fields of one without others: decoded, and constructed."""


def _is_plain_delta(event: BaseEvent) -> bool:
    """Return whether an event has an id, a piece of ASCII text, and nothing else, which costs no validation."""
    known = _PLAIN.get(type(event))
    if known is None:
        return False
    field, event_type, given = known
    # Members that a model does not know, and that are assigned later, are in its set only since pydantic 2.13.
    if event.__pydantic_extra__ or event.__pydantic_fields_set__ not in given:
        return False
    members = event.__dict__
    item_id, delta = members[field], members["delta"]
    is_ascii = type(item_id) is str and type(delta) is str and item_id.isascii() and delta.isascii()
    return is_ascii and members.get("type") is event_type


def _is_flat(event: BaseEvent) -> bool:
    """Return whether a typed event conforms and has no more than texts, numbers and JSON of the application's own."""
    is_valid, structured = _FLAT.get(type(event), (None, ()))
    if is_valid is None or event.__pydantic_extra__:
        return False
    if not all(map(is_, map(event.__dict__.get, structured), repeat(None))):
        return False
    if not is_valid(event.__dict__, strict=True, by_alias=False, by_name=True):
        return False
    for value in map(event.__dict__.get, event.__pydantic_fields_set__):
        if not (value is None or (is_text(value) if isinstance(value, str) else isinstance(value, int))):
            return _can_be_written(event)
    return True


def _can_be_written(event: BaseEvent) -> bool:
    """Return whether an event whose types are right holds JSON, found at the speed of compiled code."""
    try:
        write(event)
    except ValueError:
        return False
    return True


class Validator:
    """Validates one stream's events against the protocol's structure.

    Args:
        warnings: The log that receives a warning for everything that is taken out.
        null_fields: The treatment of a null for a whole optional field: "reject" fails the run, as the protocol says
            (PROC-17); "drop" removes the field with a warning.
    """

    def __init__(self, warnings: WarningLog, *, null_fields: NullFields = "reject") -> None:
        self._warnings = warnings
        self._null_fields: NullFields = null_fields
        # Made with the first event that needs more than a look: most streams have none.
        self._characters: SplitCharacters | None = None
        self._halves: Collection[object] = ()

    def feed(self, event: WireEvent) -> Event | None:
        """Validate one event.

        Args:
            event: As it came from the wire, or typed, by an agent of this process or by middleware.

        Returns:
            The conforming event, the same object if nothing had to go; None if the whole event was dropped.

        Raises:
            InvalidEventError: A field the protocol describes has a value it rejects.
        """
        if isinstance(event, UnrecognizedEvent):
            return self._validate(event.type, event.data)
        if (_is_plain_delta(event) or _is_flat(event)) and not self._halves:
            return event
        return self._validate_model(event)

    def unpaired(self) -> list[Event]:
        """Return, once, the deltas with U+FFFD that come before the latest event, as that ended their items."""
        found = () if self._characters is None else self._characters.unpaired()
        events = [self._validate(each["type"], each) for each in found]
        return [each for each in events if each is not None]

    def _validate(self, event_type: str, data: dict[str, Any], like: Any = None) -> Event | None:
        """Return the event that a JSON object is; `like` itself if it equals that."""
        structure = _RECORDS.get(event_type)
        name = event_type[:60]
        if structure is None:
            self._warnings.add("PROC-7", f"unknown event type {name}", event_type=name, reaction="dropped")
            return None
        stripper = Sanitizer(self._warnings, name, event_type=name, nulls=self._null_fields)
        stripped = stripper.strip(structure, data)
        if isinstance(stripped, Unknown):
            stripper.report(stripped, "")
            return None
        event: Event | None = stripper.validated(structure, stripped)
        if event is None:
            self._refuse(name, stripper.refusals)
        if isinstance(event, core.RunFinishedEvent) and isinstance(event.outcome, core.RunFinishedInterruptOutcome):
            self._require_distinct(event.outcome.interrupts)
        return like if stripped is data and like == event else event

    def _validate_model(self, event: Any) -> Event | None:
        """Validate a typed event by its JSON: models do not check what is assigned to them or to the models inside."""
        kind = type(event).__name__
        if not isinstance(event, ConfiguredBaseModel):
            self._refuse(kind, [Refusal("", "it is not an event; yield the event classes of ag_ui.core")])
        refusals: list[Refusal] = []
        data = members_as_json(event, refusals, keeps_halves=True)
        if refusals:
            self._refuse(kind, refusals)
        # An agent in this process gets the same verdict on them as one over HTTP (PROC-12).
        if self._halves or not is_text(json.dumps(data, ensure_ascii=False)):
            if self._characters is None:
                self._characters = SplitCharacters(self._warnings)
                self._halves = self._characters.halves
            self._characters.mend(data)
        event_type = data.get("type")
        if not isinstance(event_type, str):
            self._refuse(kind, [Refusal("/type", f"should be a string, got {shortened(event_type)}")])
        return self._validate(event_type, data, like=event)

    def _require_distinct(self, interrupts: Sequence[core.Interrupt]) -> None:
        """Refuse two interrupts with one id: one answer would cover two questions (INT-2)."""
        seen: set[str] = set()
        for index, interrupt in enumerate(interrupts):
            if interrupt.id in seen:
                problem = f"repeats the id {shortened(interrupt.id)}: each interrupt needs an id of its own"
                self._refuse("RUN_FINISHED", [Refusal(f"/outcome/interrupts/{index}/id", problem)], rule="INT-2")
            seen.add(interrupt.id)

    def _refuse(self, subject: str, refusals: Sequence[Refusal], *, rule: str | None = None) -> NoReturn:
        index = self._warnings.event_index
        place = f"{subject if index is None else f'{subject} (event {index})'} is malformed: "
        rules = [self._rule_of(subject, each, rule) for each in refusals]
        # A null alone is the rule about nulls; beside another fault, the event is malformed.
        worst = next((each for each in rules if each != "PROC-17"), "PROC-17")
        # No cause is chained: pydantic's text repeats what was received, secrets among it.
        raise InvalidEventError(
            summary(refusals),
            rule=worst,
            values=[(each, refusal.path, sentence_of(refusal)) for each, refusal in zip(rules, refusals, strict=True)],
            event_index=index,
            fix=_DROPPING_NULLS if "PROC-17" in rules else None,
            place=place,
        )

    def _rule_of(self, subject: str, refusal: Refusal, rule: str | None) -> str:
        """Return the rule that a refused value breaks."""
        if refusal.is_null:
            return "PROC-17"
        is_patch = subject in _PATCHES and refusal.path.startswith(_PATCHES[subject])
        return rule or ("SNAP-3" if is_patch else "PROC-6")
