"""Validated values written back as the JSON that an agent could have sent for them, by their wire names (SEC-3).

Rules, people, displays and recordings see these, so that what they judge is what the function gets: a path that was
resolved, a default inside of a model, a text that was stripped. What has no JSON form, and what is secret, is written
as it was sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from pydantic import AliasChoices, BaseModel, RootModel
from pydantic.types import Secret, SecretBytes, SecretStr
from pydantic_core import to_json, to_jsonable_python

from agui_client._core.protocol.schema import is_array, is_object

MISSING = object()
"""The value of what was not sent, and what is not written."""
_FIELDS = ("typed-dict-field", "dataclass-field")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes values of some types."""

    aliases: Mapping[str, str]
    """The wire names of members that values do not know the wire names of, by their names in Python."""

    def write(self, value: Any, sent: Any = MISSING) -> Any:
        """Write a value as JSON.

        Args:
            sent: The JSON that it was made of; `MISSING` for a default.

        Returns:
            The JSON; `MISSING` for a default that has none.
        """
        if isinstance(value, Secret | SecretStr | SecretBytes):
            return sent
        if isinstance(value, RootModel):
            return self.write(cast("Any", value).root, sent)
        if isinstance(value, BaseModel):
            return self._members(_members_of(value), sent)
        if is_dataclass(value) and not isinstance(value, type):
            return self._members(((each.name, getattr(value, each.name, MISSING)) for each in fields(value)), sent)
        if isinstance(value, Mapping):
            return self._members(((_key(key), each) for key, each in cast("Any", value).items()), sent)
        if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes | bytearray | Enum):
            return self._items(cast("Any", value), sent)
        return _plain(value, sent)

    def _members(self, members: Iterable[tuple[str, Any]], sent: Any) -> dict[str, Any]:
        given = sent if is_object(sent) else {}
        written: dict[str, Any] = {}
        for name, value in members:
            wire = name if name in given else self.aliases.get(name, name)
            written[wire] = self.write(value, given.get(wire, MISSING))
        return {name: each for name, each in written.items() if each is not MISSING}

    def _items(self, values: Sequence[Any] | Set[Any], sent: Any) -> list[Any]:
        items, given = [*values], sent if is_array(sent) else []
        if isinstance(values, Set):
            # A set has no order; that of what was sent is the same at each look.
            places = {to_json(each): number for number, each in reversed([*enumerate(given)])}
            written = [(to_json(each), each) for each in map(self.write, items) if each is not MISSING]
            return [each for _, each in sorted(written, key=lambda pair: (places.get(pair[0], len(given)), pair[0]))]
        if len(given) != len(items):
            given = [MISSING] * len(items)
        written = [self.write(*pair) for pair in zip(items, given, strict=True)]
        return [None if each is MISSING else each for each in written]


def aliases_in(core_schema: object) -> dict[str, str]:
    """Return the wire names of members of typed dictionaries and dataclasses, by their names in Python."""
    found: dict[str, str] = {}
    parts: list[object] = [core_schema]
    for part in parts:  # those inside come to it as they are found
        if is_object(part):
            members = part.get("fields")
            named = members.items() if is_object(members) else [(each.get("name"), each) for each in _objects(members)]
            found |= {
                str(name): alias
                for name, each in named
                if each.get("type") in _FIELDS and isinstance(alias := each.get("validation_alias"), str)
            }
            parts += part.values()
        elif isinstance(part, list | tuple):
            parts += cast("Sequence[object]", part)
    return found


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if is_object(each)] if is_array(value) else []


def _members_of(model: BaseModel) -> Iterable[tuple[str, Any]]:
    for name, field in type(model).model_fields.items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            alias = next((each for each in alias.choices if isinstance(each, str)), None)
        yield alias if isinstance(alias, str) else field.alias or name, getattr(model, name, MISSING)
    yield from (model.__pydantic_extra__ or {}).items()


def _key(key: object) -> str:
    """Write a key of a dictionary, such as a date, as JSON has it."""
    if isinstance(key, str) and not isinstance(key, Enum):
        return key
    try:
        (written,) = to_jsonable_python({key: None})
    except ValueError:
        return str(key)
    return str(written)


def _plain(value: Any, sent: Any) -> Any:
    """Write a value without parts; a number that says the same as the one that was sent stays as it was sent."""
    is_number_sent = isinstance(sent, int | float) and not isinstance(sent, bool)
    if value is MISSING or (isinstance(value, float) and not math.isfinite(value)):
        return sent
    if isinstance(value, Decimal) and is_number_sent and value.is_finite():
        value = float(value) if Decimal(repr(float(value))) == value else value
    if isinstance(value, int | float) and not isinstance(value, bool) and is_number_sent and sent == value:
        return sent
    try:
        return to_jsonable_python(value)
    except (ValueError, TypeError):
        return sent
