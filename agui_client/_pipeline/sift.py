"""Sifting a JSON value by what the protocol describes: unknown material out, malformed values named (PROC-5 … PROC-11).

Enforcement does it to events, the request stage to the run input. Neither strictness nor coercion is decided by hand:
after the sieve the official model validates strictly.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from agui_client._pipeline.refusal import LONGEST_PATH, Refusal, pointer, refusals_of, shortened
from agui_client._pipeline.schema import (
    Anything,
    Choice,
    Integer,
    Items,
    OpenObject,
    Pinned,
    Record,
    Scalar,
    Shape,
    TextOrItems,
    Variants,
    is_array,
    is_object,
)
from agui_client._pipeline.warnings import WarningLog

Nulls: TypeAlias = Literal["reject", "drop", "omit"]
"""What becomes of a null for a whole optional field: refused, removed with a warning, or removed in silence."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for a value that cannot be known and takes with it whatever requires it (PROC-9)."""

    rule: str
    """The rule that sends it away."""
    path: str
    """JSON pointer of what was not recognised."""
    value: str
    """What stood there, shortened, as the subject of a sentence."""


class Sieve:
    """Takes unknown material out of one value, copying only the containers that change.

    Args:
        warnings: Where each removal is reported.
        subject: What the value is, for the messages.
        event_type: The event's type; None for what is no event.
        rule: The rule that removals are reported under; None for the rule of each kind.
        nulls: What becomes of a null for a whole optional field.
    """

    __slots__ = ("_event_type", "_nulls", "_rule", "_subject", "_warnings", "changed", "refusals")

    def __init__(
        self,
        warnings: WarningLog,
        subject: str,
        *,
        event_type: str | None = None,
        rule: str | None = None,
        nulls: Nulls = "reject",
    ) -> None:
        self.refusals: list[Refusal] = []
        """What the sieve itself found malformed."""
        self.changed = False
        """Whether anything left the sieve other than it came."""
        self._warnings = warnings
        self._subject = subject
        self._event_type = event_type
        self._rule = rule
        self._nulls: Nulls = nulls

    def sift(self, shape: Shape, value: Any, path: str = "") -> Any:
        """What is left of a value; `Unknown` if it is not known at all, and the value itself if all of it is known."""
        match shape:
            case Scalar() | Pinned() | Anything() | OpenObject():
                return value
            case Record():
                return self._record(shape, value, path)
            case Variants():
                return self._variants(shape, value, path)
            case Items():
                return self._items(shape, value, path)
            case TextOrItems(items=items):
                return self._items(items, value, path)
            case Choice():
                return self._choice(shape, value, path)
            case Integer():
                return self._integer(value)

    def report(self, unknown: Unknown, path: str) -> None:
        """Note that what `path` points to goes for the sake of an unknown value in it."""
        because = unknown.value if path == unknown.path else f"{unknown.path} has the {unknown.value}"
        what = f"{path} of {self._subject}" if path else self._subject
        self._warn(unknown.rule, f"{what} dropped: {because}", path or None)

    def _record(self, shape: Record, value: Any, path: str) -> Any:
        """Sift an object; what is no object stays, for validation to refuse (PROC-11)."""
        if shape.is_open or not is_object(value):
            return value
        kept = value
        refused = len(self.refusals)
        for name, member in value.items():
            left = self._member(shape, name, member, path)
            if left is member:
                continue
            if isinstance(left, Unknown):
                # What is wrong inside an object that goes anyway is nobody's fault any more.
                del self.refusals[refused:]
                return left
            kept = _replaced(kept, value, name, left)
            self.changed = True
        self._require_stamps(shape, value, path)
        return kept

    def validated(self, shape: Record, value: Any) -> Any:
        """The official model of a sifted object; None if something was refused, which `refusals` then names."""
        validate = shape.model.__pydantic_validator__.validate_python
        try:
            model = validate(value, strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            self.refusals.extend(refusals_of(shape, error))
            return None
        return None if self.refusals else model

    def _variants(self, shape: Variants, value: Any, path: str) -> Any:
        """Sift an object by the member that tells what it is."""
        if not is_object(value):
            return value
        tag = value.get(shape.discriminator)
        if not isinstance(tag, str):
            return value
        member = shape.members.get(tag)
        if member is None:
            rule = _RULES.get(shape.discriminator, "PROC-9")
            return Unknown(rule, path, f"unknown {shape.discriminator} {shortened(tag)}")
        return self._record(member, value, path)

    def _items(self, shape: Items, value: Any, path: str) -> Any:
        """Sift the elements of a list; unknown ones go, the list stays."""
        if not is_array(value):
            return value
        kept: list[Any] = []
        for index, item in enumerate(value):
            left = self.sift(shape.item, item, f"{path}/{index}")
            if isinstance(left, Unknown):
                self.report(left, f"{path}/{index}")
            else:
                kept.append(left)
        return value if _is_same(kept, value) else self._altered(kept)

    def _choice(self, shape: Choice, value: Any, path: str) -> Any:
        """Recognise a string of a closed set."""
        if isinstance(value, str) and value not in shape.values:
            rule = _RULES.get(path.rpartition("/")[2], "PROC-18")
            return Unknown(rule, path, f"unknown value {shortened(value)}")
        return value

    def _integer(self, value: Any) -> Any:
        """Write 5.0 as 5, which JSON Schema makes no difference between."""
        if isinstance(value, float) and value.is_integer():
            return self._altered(int(value))
        return value

    def _member(self, shape: Record, name: str, value: Any, path: str) -> Any:
        slot = shape.slots.get(name)
        if slot is None:
            where = pointer(path, name)[:LONGEST_PATH]
            self._warn("PROC-8", f"unknown property {where} of {self._subject} stripped", where)
            return _REMOVED
        if value is None and not slot.required:
            return self._null(pointer(path, name))
        left = self.sift(slot.shape, value, f"{path}/{name}")
        if slot.required or not isinstance(left, Unknown):
            return left
        self.report(left, f"{path}/{name}")
        return _REMOVED

    def _null(self, path: str) -> Any:
        if self._nulls == "reject":
            self.refusals.append(Refusal(path, "is null where an optional field should be absent", is_null=True))
            return None
        if self._nulls == "drop":
            self._warn("PROC-17", f"null for the optional {path} of {self._subject} dropped", path)
        return _REMOVED

    def _require_stamps(self, shape: Record, value: dict[str, Any], path: str) -> None:
        # The official classes fill these in, so that validation would let them be missing.
        self.refusals.extend(Refusal(pointer(path, name), "is missing") for name in shape.stamps if name not in value)

    def _altered(self, value: Any) -> Any:
        self.changed = True
        return value

    def _warn(self, rule: str, message: str, path: str | None) -> None:
        self._warnings.add(self._rule or rule, message, path=path, event_type=self._event_type)


_REMOVED: Any = object()

_RULES = {"op": "SNAP-4", "subtype": "REASON-9"}
"""The members for which the protocol repeats the rule about unknown values under an id of its own."""


def _replaced(kept: dict[str, Any], original: dict[str, Any], name: str, left: Any) -> dict[str, Any]:
    """`kept` with one member changed or removed, copied first if it still is the original."""
    copy = dict(original) if kept is original else kept
    if left is _REMOVED:
        del copy[name]
    else:
        copy[name] = left
    return copy


def _is_same(kept: list[Any], original: list[Any]) -> bool:
    return len(kept) == len(original) and all(map(is_, kept, original))
